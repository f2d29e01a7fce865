/** KEEP-8: the hooks of a layer reach the runs of its sessions. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Layer, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteRunner } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const toolkit = Toolkit.make(
  Tool.make("look", { success: Schema.String }),
  Tool.make("pay", { success: Schema.String, needsApproval: true })
)

const clerk = Agent.make("clerk", { toolkit })

/** The name of a tool calls that tool. Any other message is repeated. */
const model: ScriptedModel.TurnFunction = (request) => {
  const last = request.messages.at(-1)
  if (last?.role === "tool") return { text: "done" }
  const asked = t.asked(request)
  return asked === "look" || asked === "pay" ? { toolCalls: [{ name: asked, params: {} }] } : { text: `re: ${asked}` }
}

const below = Layer.mergeAll(
  toolkit.toLayer({ look: () => Effect.succeed("seen"), pay: () => Effect.succeed("paid") }),
  ScriptedModel.layer(model)
)

const ask = (sessions: Session.Service, id: string, text: string) =>
  Effect.provideService(Session.turn(id, text), Session.Session, sessions)

const approve = Effect.fnUntraced(function* (sessions: Session.Service, id: string) {
  const { requests } = yield* t.stateOf(sessions, id)
  yield* sessions.decide(id, requests.filter(Run.isApprovable).map(Run.approve))
  yield* t.until(sessions, id, "idle")
})

/** Sessions over one store, and others over the same one. */
const inMemory = Effect.fnUntraced(function* (run: NonNullable<Session.Options["run"]>) {
  const store = yield* t.store
  const make = (options: Session.Options) =>
    t.sessionsOf(Session.layer([clerk], options).pipe(Layer.provide([below, store])))
  return { sessions: yield* make({ run }), others: yield* make({}) }
})

const onFleet = (run: NonNullable<Session.Options["run"]>) => {
  const runner = SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })
  return t.sessionsOf(ClusterSession.layer([clerk], { run }).pipe(Layer.provide([below, runner])))
}

/** A hook that keeps what it receives. */
const collector = () => {
  const heard: Array<readonly [id: string, tag: string]> = []
  const onEvent = ({ event }: Agent.RecordedEvent, id: string) => Effect.sync(() => void heard.push([id, event._tag]))
  return { heard, onEvent }
}

const runTags = (sessions: Session.Service, id: string) =>
  Effect.map(t.stored(sessions, id), (entries) =>
    entries.flatMap(({ event }) => (event._tag === "RunEvent" ? [[id, event.event._tag] as const] : []))
  )

const stopAtResult = (event: Run.Event) => (event._tag === "ToolFinished" ? { reason: "seen enough" } : undefined)

const endsOf = (sessions: Session.Service, id: string) =>
  Effect.map(t.stored(sessions, id), (entries) =>
    entries.flatMap(({ event }) =>
      event._tag === "RunEvent" && event.event._tag === "RunFinished" ? [event.event.outcome] : []
    )
  )

/** A turn that is stopped at the result of its tool, and the one after it. */
const stopped = Effect.fnUntraced(function* (sessions: Session.Service) {
  assert.strictEqual((yield* ask(sessions, "a", "look")).outcome, "Interrupted")
  assert.deepStrictEqual(yield* endsOf(sessions, "a"), [{ _tag: "Interrupted", reason: "seen enough" }])
  assert.include(yield* t.tags(sessions, "a"), "ToolFinished")
  assert.strictEqual((yield* ask(sessions, "a", "hello")).text, "re: hello")
})

/** A turn that waits, and a turn that continues it. */
const continued = Effect.fnUntraced(function* (
  sessions: Session.Service,
  heard: ReadonlyArray<readonly [id: string, tag: string]>
) {
  yield* ask(sessions, "a", "pay")
  yield* approve(sessions, "a")
  const stored = yield* runTags(sessions, "a")
  yield* t.eventually(Effect.sync(() => heard.length === stored.length))
  assert.deepStrictEqual(heard, stored)
  assert.deepInclude(heard, ["a", "RunResumed"])
})

describe("KEEP-8 the hooks of a layer", () => {
  test.live("onEvent has each event of a run, in a turn that continues too", function* () {
    const { heard, onEvent } = collector()
    const { sessions } = yield* inMemory({ onEvent })
    yield* continued(sessions, heard)
  })

  test.live("on a fleet, too", function* () {
    const { heard, onEvent } = collector()
    const sessions = yield* onFleet({ onEvent })
    yield* continued(sessions, heard)
  })

  test.live("an event is stored before onEvent has it, so that another process reads it", function* () {
    const others = yield* Deferred.make<Session.Service>()
    const missing: Array<string> = []
    let heard = 0
    const onEvent = Effect.fnUntraced(function* ({ event }: Agent.RecordedEvent, id: string) {
      heard += 1
      const stored = yield* Effect.orDie(runTags(yield* Deferred.await(others), id))
      if (stored[heard - 1]?.[1] !== event._tag) missing.push(event._tag)
    })
    const made = yield* inMemory({ onEvent })
    yield* Deferred.succeed(others, made.others)
    assert.strictEqual((yield* ask(made.sessions, "a", "look")).text, "done")
    const { length } = yield* runTags(made.sessions, "a")
    // The end is stored, and may be read, before the hook has it
    yield* t.eventually(Effect.sync(() => heard === length))
    assert.deepStrictEqual(missing, [])
  })

  test.live("interruptWhen ends the turn, its reason is stored, and the next message is answered", function* () {
    const { sessions } = yield* inMemory({ interruptWhen: stopAtResult })
    yield* stopped(sessions)
  })

  test.live("interruptWhen may be an Effect, on a fleet too", function* () {
    yield* stopped(yield* onFleet({ interruptWhen: (event) => Effect.sync(() => stopAtResult(event)) }))
  })

  test.live("interruptWhen has the id of the session, and stops a turn that continues", function* () {
    const { sessions } = yield* inMemory({
      interruptWhen: (event, _, id) => (id === "b" ? stopAtResult(event) : undefined)
    })
    for (const id of ["a", "b"]) {
      yield* ask(sessions, id, "pay")
      yield* approve(sessions, id)
    }
    const last = Effect.fnUntraced(function* (id: string) {
      return (yield* endsOf(sessions, id)).at(-1)?._tag
    })
    assert.deepStrictEqual([yield* last("a"), yield* last("b")], ["Completed", "Interrupted"])
  })

  test.live("an onEvent that dies fails the turn, keeps what is stored, and the next message continues", function* () {
    let isBroken = true
    const { sessions } = yield* inMemory({
      onEvent: ({ event }) =>
        isBroken && event._tag === "ToolFinished" ? Effect.die(new Error("the hook is broken")) : Effect.void
    })
    const error = yield* Effect.flip(ask(sessions, "a", "look"))
    assert.strictEqual(error.reason._tag, "TurnFailed")
    assert.deepStrictEqual((yield* t.tags(sessions, "a")).slice(-2), ["ToolFinished", "TurnFailed"])
    isBroken = false
    assert.strictEqual((yield* ask(sessions, "a", "hello")).text, "re: hello")
  })

  test.live("an onEvent that dies after the end of the run does not fail the turn", function* () {
    const { sessions } = yield* inMemory({
      onEvent: ({ event }) => (event._tag === "RunFinished" ? Effect.die(new Error("the hook is broken")) : Effect.void)
    })
    assert.strictEqual((yield* ask(sessions, "a", "look")).text, "done")
    assert.strictEqual((yield* ask(sessions, "a", "hello")).text, "re: hello")
    assert.notInclude(yield* t.tags(sessions, "a"), "TurnFailed")
  })

  test.live("interrupting a session does not wait for a hook that never returns", function* () {
    const { sessions } = yield* inMemory({
      onEvent: ({ event }) => (event._tag === "ToolFinished" ? Effect.never : Effect.void)
    })
    yield* sessions.send("a", "look")
    yield* sessions.events("a").pipe(
      Stream.takeUntil((entry) => t.tagOf(entry) === "ToolFinished"),
      Stream.runDrain
    )
    assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
    assert.deepStrictEqual(
      (yield* endsOf(sessions, "a")).map(({ _tag }) => _tag),
      ["Interrupted"]
    )
  })

  test.live("RIGHT-15 an edit is heard, in its place among the events", function* () {
    const heard: Array<string> = []
    const onEvent = ({ event, sequence }: Agent.RecordedEvent, id: string) =>
      Effect.sync(() => void heard.push(`${id} ${sequence} ${event._tag}`))
    const sessions = yield* t.sessionsOf(t.over(t.echo, { run: { onEvent } }))
    const ask = (text: string) =>
      Effect.provideService(Session.turn("a", text, { messageId: text }), Session.Session, sessions)
    yield* ask("one")
    const { cursor } = yield* sessions.edit("a", { messageId: "one", input: "two" })
    yield* Effect.provideService(Session.await("a", { cursor }), Session.Session, sessions)
    yield* t.until(sessions, "a", "idle")
    const events = (yield* t.stored(sessions, "a")).flatMap(({ event }) =>
      event._tag === "RunEvent" ? [event.event._tag] : []
    )
    assert.include(events, "ConversationRewound")
    assert.deepStrictEqual(
      heard,
      events.map((tag, index) => `a ${index + 1} ${tag}`)
    )
  })
})
