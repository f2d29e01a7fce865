/** KEEP-8: forks of long sessions, of forks, and of plans. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Option, Result, Stream } from "effect"
import { Conversation, Message, Run, VersionedStore } from "effect-emissary"
import { SqliteRunner } from "effect-emissary/node"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { ChatEvent, ClusterSession, Session } from "effect-emissary/session"
import { planOf } from "../plan/support.ts"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const say = Effect.fnUntraced(function* (sessions: Session.Service, id: string, count: number) {
  for (let n = 1; n <= count; n++) {
    yield* Effect.provideService(Session.turn(id, `${n}`), Session.Session, sessions)
  }
})

/** The texts without the system message. */
const textsOf = Effect.fnUntraced(function* (sessions: Session.Service, id: string) {
  return Conversation.messages(yield* sessions.history(id))
    .map(Message.text)
    .slice(1)
})

/** More events than a session has before its first snapshot. */
const long = 60

describe("KEEP-8 forks", () => {
  test("KEEP-8 a place before the newest snapshot, and one in a fork of a fork", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo))
    yield* say(sessions, "a", 1)
    const { cursor } = yield* t.stateOf(sessions, "a")
    yield* say(sessions, "a", long)
    yield* sessions.fork("a", { to: "b", at: cursor })
    assert.deepStrictEqual(yield* textsOf(sessions, "b"), ["1", "re: 1"])
    yield* say(sessions, "b", long)
    const { cursor: newest } = yield* t.stateOf(sessions, "b")
    yield* sessions.fork("b", { to: "c", at: t.cursorAt(newest, 1) })
    assert.deepStrictEqual(yield* textsOf(sessions, "c"), ["1", "re: 1"])
    yield* sessions.fork("b", { to: "d" })
    assert.strictEqual((yield* textsOf(sessions, "d")).length, 2 * long + 2)
  })

  test("KEEP-8 a place whose events were deleted is refused, and the newest one is not", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo, { keepEvents: 1 }))
    // Until the second snapshot, which deletes the events before the first one
    yield* say(sessions, "a", 2 * long)
    const { cursor } = yield* t.stateOf(sessions, "a")
    const refused = yield* Effect.flip(sessions.fork("a", { to: "b", at: t.cursorAt(cursor, 3) }))
    assert.deepStrictEqual([refused.id, refused.reason._tag], ["a", "EventsPruned"])
    assert.isTrue((yield* sessions.state("b"))._tag === "None")
    yield* sessions.fork("a", { to: "b" })
    assert.deepStrictEqual(yield* textsOf(sessions, "b"), yield* textsOf(sessions, "a"))
  })

  test("RIGHT-15 a place whose events are kept can be forked, and one before them cannot", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo, { keepEvents: 100 }))
    yield* say(sessions, "a", 3 * long)
    const pruned = yield* Effect.flip(Stream.runDrain(sessions.events("a")))
    assert(pruned.reason._tag === "EventsPruned")
    const { after, first } = pruned.reason
    assert.isAbove(first, 2)
    const { cursor, sequence } = yield* t.stateOf(sessions, "a")
    for (const at of [first, Math.floor((first + sequence) / 2), sequence - 1]) {
      yield* sessions.fork("a", { to: `at ${at}`, at: t.cursorAt(cursor, at) })
      assert.isAbove((yield* textsOf(sessions, `at ${at}`)).length, 0)
    }
    const refused = yield* Effect.flip(sessions.fork("a", { to: "gone", at: t.cursorAt(cursor, first - 2) }))
    assert.deepStrictEqual(refused.reason, { _tag: "EventsPruned", first, after })
  })

  test("RIGHT-15 the same fork again is the same call, until the fork continues; the advice of Exists fits", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo))
    yield* say(sessions, "a", 2)
    const { cursor } = yield* t.stateOf(sessions, "a")
    for (const at of [undefined, t.cursorAt(cursor, 3)]) {
      const to = `to ${at}`
      yield* sessions.fork("a", { to, at })
      yield* sessions.fork("a", { to, at })
      assert.strictEqual((yield* t.stateOf(sessions, to)).sequence, 1)
      const other = yield* Effect.flip(sessions.fork("a", { to, at: t.cursorAt(cursor, 4) }))
      assert.strictEqual(other.reason._tag, "Exists")
      assert.include(other.message, "Fork to another id")
      assert.notInclude(other.message, "ifExists")
      yield* say(sessions, to, 1)
      assert.strictEqual(yield* t.reasonOf(sessions.fork("a", { to, at })), "Exists")
    }
  })

  test("KEEP-8 a fork has begun: a first message is refused", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo))
    yield* say(sessions, "a", 1)
    yield* sessions.fork("a", { to: "b" })
    assert.strictEqual(yield* t.reasonOf(sessions.send("b", "x", { ifExists: "fail" })), "Exists")
    const conversation = Conversation.empty
    assert.strictEqual(yield* t.reasonOf(sessions.send("b", "x", { conversation })), "Exists")
  })

  test("KEEP-8 a front end learns that a session is a fork, not of which one", function* () {
    const sessions = yield* t.sessionsOf(t.over(t.echo))
    yield* say(sessions, "a", 1)
    yield* sessions.fork("a", { to: "b" })
    const [entry] = yield* t.stored(sessions, "b")
    assert(entry !== undefined)
    const shown = Result.getOrThrow(ChatEvent.project()(entry))
    assert.deepStrictEqual(Object.keys(shown.event).sort(), ["_tag", "at"])
  })

  test.live(
    "KEEP-8 RIGHT-24 a plan that waits asks again in the fork, and finished steps do not run again",
    function* () {
      const ran: Array<string> = []
      const plan = yield* Plan.make("plan", [
        Step.make("draft", { target: ({ task }) => Effect.sync(() => (ran.push("draft"), `${task}!`)) }),
        Step.make("ask", {
          target: ({ decision, task }) => (decision === undefined ? Step.pause(task) : Effect.succeed(`${task}?`))
        })
      ])
      const bound = yield* Plan.bind(plan)
      const sessions = yield* t.sessionsOf(Session.layer([bound]).pipe(Layer.provide(VersionedStore.layerMemory)))
      yield* sessions.send("a", "one")
      yield* t.until(sessions, "a", "waiting")
      yield* sessions.fork("a", { to: "b" })
      for (const id of ["a", "b"]) {
        if (id === "b") yield* sessions.resume(id)
        yield* t.until(sessions, id, "waiting")
        const { requests } = yield* t.stateOf(sessions, id)
        yield* sessions.decide(id, requests.filter(Run.isApprovable).map(Run.approve))
        yield* t.until(sessions, id, "idle")
        const texts = Conversation.messages(yield* sessions.history(id)).map(Message.text)
        assert.deepStrictEqual(texts, ["one", "one!?"])
      }
      assert.deepStrictEqual(ran, ["draft"])
    }
  )
})

/** A job of four steps: the third one asks, and the fourth one fails until it is mended. */
const job = Effect.gen(function* () {
  const ran: Array<string> = []
  const broken = { is: true }
  const noted = (name: string) =>
    Step.make(name, {
      target: ({ task }) => Effect.sync(() => (ran.push(name), `${task} ${name}`)),
      writes: name
    })
  const plan = yield* planOf(
    [
      noted("a"),
      noted("b"),
      Step.make("ask", {
        target: ({ decision, task }) => (decision === undefined ? Step.pause(task) : Effect.succeed(`${task} asked`))
      }),
      Step.make("last", {
        target: ({ task }) => (broken.is ? Effect.fail("down") : Effect.sync(() => (ran.push("last"), `${task} last`)))
      })
    ],
    { name: "plan" }
  )
  return { broken, plan, ran }
})

const finished = (state: Option.Option<PlanRun.State>) =>
  Option.match(state, {
    onNone: () => undefined,
    onSome: (state) => [PlanRun.history(state).map(({ step }) => step), state.cursor, state.outcome?._tag]
  })

describe("RIGHT-15 a forked job", () => {
  for (const host of ["process", "fleet"]) {
    test.live(`RIGHT-15 has its progress, and continues with the same input (${host})`, function* () {
      const { broken, plan, ran } = yield* job
      const layer =
        host === "process"
          ? Session.layer([plan]).pipe(Layer.provide(VersionedStore.layerMemory))
          : ClusterSession.layer([plan]).pipe(
              Layer.provide(SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } }))
            )
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const progress = (id: string) => Effect.map(Session.progress(plan, id), finished)
        const run = (id: string, input: string) => Session.run(plan, { id, input, ifExists: "resume" })
        const first = yield* Session.run(plan, { id: "source", input: "go" })
        assert.strictEqual(first.outcome, "AwaitingApproval")
        yield* sessions.fork("source", { to: "fork" })
        yield* sessions.fork("fork", { to: "again" })
        for (const id of ["fork", "again"]) {
          assert.deepStrictEqual(yield* progress(id), [["a", "b"], "ask", undefined])
        }

        assert.strictEqual(yield* t.reasonOf(run("fork", "other")), "InputDiffers")
        const context = { tenant: "other" }
        const inOther = Session.run(plan, { id: "fork", input: "go", context, ifExists: "resume" })
        assert.strictEqual(yield* t.reasonOf(inOther), "InputDiffers")
        assert.strictEqual((yield* t.stateOf(sessions, "fork")).sequence, 1)
        assert.strictEqual(yield* t.reasonOf(Session.run(plan, { id: "fork", input: "go" })), "Exists")

        for (const id of ["fork", "again"]) {
          broken.is = true
          assert.strictEqual((yield* run(id, "go")).outcome, "AwaitingApproval")
          assert.deepStrictEqual(yield* progress(id), [["a", "b"], "ask", "Paused"])
          const { requests } = yield* t.stateOf(sessions, id)
          yield* sessions.decide(id, requests.filter(Run.isApprovable).map(Run.approve))
          assert.strictEqual(yield* t.reasonOf(Session.result(plan, id)), "TurnFailed")
          assert.deepStrictEqual(yield* progress(id), [["a", "b", "ask"], "last", "Failed"])
          broken.is = false
          for (let time = 0; time < 2; time++) {
            const result = yield* run(id, "go")
            assert(result.outcome === "Completed")
            assert.strictEqual(result.output, "go a b asked last")
          }
          assert.deepStrictEqual(yield* progress(id), [["a", "b", "ask", "last"], undefined, "Completed"])
        }
        assert.deepStrictEqual(ran, ["a", "b", "last", "last"])
        assert.deepStrictEqual(yield* progress("source"), [["a", "b"], "ask", "Paused"])
        for (const key of ["a", "b"]) {
          assert.strictEqual(Option.getOrThrow(yield* sessions.read(key)).id, "source", key)
        }
      }).pipe(Effect.provide(layer))
    })
  }

  test.live("RIGHT-15 its first message again finds the end of the newest turn, also when it is done", function* () {
    const { broken, plan } = yield* job
    broken.is = false
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      yield* sessions.send("source", "go", { messageId: "m" })
      yield* t.until(sessions, "source", "waiting")
      yield* sessions.fork("source", { to: "fork" })
      const again = { messageId: "m", ifExists: "resume" } as const
      const asked = yield* Session.turn("fork", "go", again)
      assert.strictEqual(asked.outcome, "AwaitingApproval")
      const { requests } = yield* t.stateOf(sessions, "fork")
      yield* sessions.decide("fork", requests.filter(Run.isApprovable).map(Run.approve))
      const done = yield* Session.turn("fork", "go", again)
      assert.deepStrictEqual([done.outcome, done.text], ["Completed", "go a b asked last"])
      yield* sessions.fork("fork", { to: "done" })
      assert.strictEqual((yield* Session.turn("done", "go", again)).text, "go a b asked last")
      const receipt = yield* sessions.send("done", "go", again)
      assert.deepStrictEqual(yield* Stream.runCollect(Session.turnEvents("done", receipt)), [])
      yield* sessions.fork("source", { to: "running" })
      const running = yield* sessions.send("running", "go", again)
      assert.strictEqual((yield* Session.await("running", running)).outcome, "AwaitingApproval")
    }).pipe(Effect.provide(Session.layer([plan]).pipe(Layer.provide(VersionedStore.layerMemory))))
  })

  test("RIGHT-15 a fork of a place before its first turn begins with a message", function* () {
    const { plan } = yield* job
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      yield* Session.run(plan, { id: "source", input: "go" })
      const { cursor } = yield* t.stateOf(sessions, "source")
      yield* sessions.fork("source", { to: "fork", at: t.cursorAt(cursor, 1) })
      assert.isTrue(Option.isNone(yield* Session.progress(plan, "fork")))
      const result = yield* Session.run(plan, { id: "fork", input: "other", ifExists: "resume" })
      assert.strictEqual(result.outcome, "AwaitingApproval")
    }).pipe(Effect.provide(Session.layer([plan]).pipe(Layer.provide(VersionedStore.layerMemory))))
  })
})
