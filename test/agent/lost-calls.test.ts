/** Calls that had started when their process died: what the next one makes of them, through the real performer. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Effect, Layer, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Conversation, Run, ToolResult } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"

interface Kind {
  readonly idempotent: boolean
  readonly needsApproval?: boolean
  readonly parameters?: Schema.Struct<{ readonly to: Schema.Codec<string, string> }>
}

const sendTo = Schema.Struct({ to: Schema.String })

/** A desk with the tool `send`, whose calls are noted. */
const deskOf = ({ idempotent, needsApproval = false, parameters = sendTo }: Kind) => {
  const ran: Array<string> = []
  const Send = Tool.make("send", { parameters, success: Schema.String, needsApproval })
  const toolkit = Toolkit.make(idempotent ? Send.annotate(Tool.Idempotent, true) : Send)
  const agent = Agent.make("desk", { toolkit })
  const handlers = toolkit.toLayer({
    send: ({ to }) =>
      Effect.sync(() => {
        ran.push(to)
        return `sent to ${to}`
      })
  })
  const turns = [{ toolCalls: [{ id: "c", name: "send", params: { to: "ada" } }] }, { text: "Done." }]
  return {
    ran,
    agent,
    world: (first: number) => Layer.merge(handlers, ScriptedModel.layer(turns.slice(first)))
  }
}

/** The state that a process left which died right after the call had started, as it comes from a store. */
const lost = Effect.fnUntraced(function* (kind: Kind, interrupted = false) {
  const { agent, world } = deskOf(kind)
  const events: Array<Run.Event> = []
  const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void events.push(event))
  yield* Effect.gen(function* () {
    const first = yield* agent.run("Send it.", { onEvent })
    if (first.outcome !== "AwaitingApproval") return
    const expiresAt = DateTime.add(yield* DateTime.now, { minutes: 1 })
    const decisions = first.requests.map((request) => ({ ...request, approved: true, expiresAt }))
    yield* agent.resume(first.state, { decisions, onEvent })
  }).pipe(Effect.provide(world(0)))
  const kept = events.slice(0, events.findIndex(({ _tag }) => _tag === "ToolStarted") + 1)
  const last = kept.at(-1)
  assert(last?._tag === "ToolStarted")
  const state = Result.getOrThrow(Run.fold(interrupted ? [...kept, { _tag: "RunInterrupted", at: last.at }] : kept))
  return yield* Run.stateCodec.decodeJson(yield* Run.stateCodec.encodeJson(state))
})

const goOn = Effect.fnUntraced(function* (state: Run.State, kind: Kind) {
  const { agent, ran, world } = deskOf(kind)
  const events: Array<Run.Event> = []
  const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void events.push(event))
  const done = yield* Effect.provide(agent.resume(state, { onEvent }), world(1))
  const results = Conversation.messages(done.conversation).flatMap((message) =>
    message.role === "tool" ? [message.result] : []
  )
  return { ran, results, again: events.filter(({ _tag }) => _tag === "ToolStarted").length, outcome: done.outcome }
})

const unknown = {
  _tag: "Failure",
  type: "interrupted",
  message: "The call was interrupted before it returned a result, and it is not known whether it took effect.",
  value: { outcome: "unknown" }
} as const

const sent = ToolResult.success("sent to ada")

describe("DUR-3 a call that had started when its process died", () => {
  test("DUR-3 is settled with an unknown outcome and does not run again", function* () {
    const kind = { idempotent: false }
    const found = yield* goOn(yield* lost(kind), kind)
    assert.deepStrictEqual(found, { ran: [], results: [unknown], again: 0, outcome: "Completed" })
  })

  for (const needsApproval of [false, true]) {
    test(`DUR-3 runs again where its tool is idempotent, without a second ToolStarted (approval: ${needsApproval})`, function* () {
      const kind = { idempotent: true, needsApproval }
      const state = yield* lost(kind)
      // The approval ends in the meantime: the call had started in time
      yield* TestClock.adjust("2 minutes")
      const found = yield* goOn(state, kind)
      assert.deepStrictEqual(found, { ran: ["ada"], results: [sent], again: 0, outcome: "Completed" })
    })
  }

  test("DUR-3 of an idempotent tool is settled where the run was interrupted", function* () {
    const state = yield* lost({ idempotent: true }, true)
    const action = Run.next(state)
    assert(action._tag === "RunTools")
    assert.deepStrictEqual(action.calls, [])
    assert.deepStrictEqual(
      action.settled.map(({ result }) => result),
      [unknown]
    )
  })

  test("DUR-3 keeps its approval: it has the arguments that were approved", function* () {
    const state = yield* lost({ idempotent: true, needsApproval: true })
    const action = Run.next(state)
    assert(action._tag === "RunTools")
    const [call] = action.calls
    assert.deepStrictEqual([call?.started, call?.approved?.arguments], [true, { to: "ada" }])
  })

  const changes: ReadonlyArray<readonly [string, Kind, Kind]> = [
    ["is idempotent no more", { idempotent: true }, { idempotent: false }],
    [
      "has other parameters than were approved",
      { idempotent: true, needsApproval: true },
      {
        idempotent: true,
        needsApproval: true,
        parameters: Schema.Struct({ to: Schema.String.check(Schema.isMaxLength(80)) })
      }
    ],
    [
      "refuses the arguments",
      { idempotent: true },
      { idempotent: true, parameters: Schema.Struct({ to: Schema.String.check(Schema.isMaxLength(2)) }) }
    ]
  ]
  for (const [name, before, after] of changes) {
    test(`DUR-3 is settled where the tool ${name}`, function* () {
      const state = yield* lost(before)
      const { agent, world } = deskOf(after)
      const { definition } = (yield* Effect.provide(agent.run("Hi."), world(1))).state
      const moved = yield* Run.stateCodec.decode(withDefinition(yield* Run.stateCodec.encode(state), definition))
      const found = yield* goOn(moved, after)
      assert.deepStrictEqual(found, { ran: [], results: [unknown], again: 0, outcome: "Completed" })
    })
  }
})

/** The state under another definition of the agent: another rule decides which definitions may continue from it. */
const withDefinition = (json: unknown, definition: string) => {
  const stored = Object(json)
  return { ...stored, state: { ...stored.state, basis: { ...stored.state.basis, definition } } }
}
