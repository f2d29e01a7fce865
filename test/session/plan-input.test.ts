/** RIGHT-21: the input of a plan in a session has a payload and a context, as the input of `Plan.run` has. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Layer } from "effect"
import { Agent, ToolResult, VersionedStore } from "effect-emissary"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import { Plan, Reference, Step } from "effect-emissary/plan"
import { ClusterSession, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { planOf } from "../plan/support.ts"
import { test } from "../test.ts"
import { sessionsOf, stored } from "./sessions.ts"

const reasonOf = <R>(effect: Effect.Effect<unknown, Session.SessionError, R>) =>
  Effect.map(Effect.flip(effect), ({ reason }) => reason)

const payload = { amount: 3, password: "a word, no option" }

const input = { task: "add up", payload, context: "in euro" } satisfies Session.Input

const file = ToolResult.filePart({ mediaType: "image/png", data: "https://example.com/a.png" })

type Seen = Pick<Step.Input, "task" | "payload" | "context" | "content">

/** A plan that notes what its first step is given. */
const noting = Effect.fnUntraced(function* (work: Effect.Effect<unknown> = Effect.void) {
  const seen: Array<Seen> = []
  const plan = yield* planOf(
    [
      Step.make("note", {
        context: Reference.fromStart,
        target: ({ content, context, payload, task }) =>
          Effect.as(
            Effect.andThen(
              Effect.sync(() => seen.push({ task, payload, context, content })),
              work
            ),
            "noted"
          )
      })
    ],
    { name: "noting" }
  )
  return { plan, seen }
})

const support = Agent.make("support", { instructions: "You help." })

const hosting = (plan: Plan.Bound<unknown>) =>
  Session.layer([plan, support]).pipe(Layer.provide(ScriptedModel.layer(() => ({ text: "an answer" }))))

const words = `{"amount":3,"password":"a word, no option"}`

const full: Seen = { task: words, payload, context: `in euro\n\n${words}`, content: [] }

describe("RIGHT-21 the input of a plan in a session", () => {
  const stores = [
    ["memory", VersionedStore.layerMemory],
    ["SQLite", Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))]
  ] as const
  for (const [name, layer] of stores) {
    test(`has its payload and its context, also after a restart (${name})`, function* () {
      const store = Layer.succeedContext(yield* Layer.build(layer))
      const reached = yield* Deferred.make<void>()
      const first = yield* noting(Effect.andThen(Deferred.succeed(reached, undefined), Effect.never))
      yield* Effect.gen(function* () {
        const sessions = yield* sessionsOf(hosting(first.plan))
        yield* sessions.send("a", input, { messageId: "m1", agent: "noting" })
        yield* sessions.send("a", { payload: 7, content: [file] }, { messageId: "m2" })
        yield* Deferred.await(reached)
      }).pipe(Effect.scoped, Effect.provide(store))
      assert.deepStrictEqual(first.seen, [full])
      const second = yield* noting()
      yield* Effect.gen(function* () {
        const sessions = yield* sessionsOf(hosting(second.plan))
        assert.strictEqual((yield* sessions.send("a", input, { messageId: "m1", agent: "noting" })).messageId, "m1")
        yield* Session.turn("a", { payload: 7, content: [file] }, { messageId: "m2" }).pipe(
          Effect.provideService(Session.Session, sessions)
        )
        const later = { task: "7", payload: 7, context: "User: add up\n\nAssistant: noted\n\n7", content: [file] }
        assert.deepStrictEqual(second.seen, [full, later])
      }).pipe(Effect.scoped, Effect.provide(store))
    })
  }

  test("runs as it does outside, and is a part of the digest of the message", VersionedStore.layerMemory, function* () {
    const { plan, seen } = yield* noting()
    yield* Effect.gen(function* () {
      const job = { id: "job", input, ifExists: "resume" } as const
      yield* Session.run(plan, job)
      yield* Plan.run(plan, input)
      assert.deepStrictEqual(seen, [full, full])
      yield* Session.run(plan, job)
      assert.strictEqual(seen.length, 2)
      const others: ReadonlyArray<Session.Input> = [
        input.task,
        { ...input, payload: { ...payload, amount: 4 } },
        { ...input, context: "in dollars" }
      ]
      for (const other of others) {
        assert.strictEqual((yield* reasonOf(Session.run(plan, { ...job, input: other })))._tag, "InputDiffers")
      }
    }).pipe(Effect.provide(hosting(plan)))
  })

  test("stays with the message that is edited, and with a fork", VersionedStore.layerMemory, function* () {
    const { plan, seen } = yield* noting()
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const ask = Session.turn("a", input, { messageId: "m1", agent: "noting" })
      yield* ask
      yield* sessions.fork("a", { to: "b" })
      yield* sessions.edit("a", { messageId: "m1", newMessageId: "m2" })
      yield* Session.turn("a", "and?")
      yield* sessions.edit("a", { messageId: "m2", newMessageId: "m3", input: { ...input, payload: 4 } })
      yield* Session.turn("a", "and now?")
      yield* sessions.edit("b", { messageId: "m1", newMessageId: "m4" })
      yield* Session.turn("b", "and?")
      assert.deepStrictEqual(
        seen.map(({ context, payload }) => [payload, context?.split("\n")[0]]),
        [
          [payload, "in euro"],
          [payload, "in euro"],
          ["and?", "User: add up"],
          [4, "in euro"],
          ["and now?", "User: add up"],
          [payload, "in euro"],
          ["and?", "User: add up"]
        ]
      )
    }).pipe(Effect.provide(hosting(plan)))
  })

  test("is refused for an agent that is no plan, and where it is no input", VersionedStore.layerMemory, function* () {
    const { plan } = yield* noting()
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const send = (id: string, given: unknown, agent: string) =>
        // A route passes on JSON of any type
        reasonOf(sessions.send(id, given as Session.Input, { agent }))
      const refused = yield* send("s", input, "support")
      assert(refused._tag === "InputInvalid" && refused.problem.includes(`"support" is no plan`), refused._tag)
      assert.isTrue((yield* sessions.state("s"))._tag === "None")
      for (const wrong of [
        {},
        { message: "x" },
        { task: 1 },
        { ...input, extra: 1 },
        { payload: () => 1 },
        { context: "x" }
      ]) {
        assert.strictEqual((yield* send("n", wrong, "noting"))._tag, "InputInvalid", JSON.stringify(wrong))
      }
      yield* Session.turn("s", "hello", { agent: "support", messageId: "m1" })
      assert.strictEqual((yield* reasonOf(sessions.edit("s", { messageId: "m1", input })))._tag, "InputInvalid")
    }).pipe(Effect.provide(hosting(plan)))
  })

  test.live("passes through a fleet", function* () {
    const { plan, seen } = yield* noting()
    const runner = SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const result = yield* Session.run(plan, { id: "a", input: { ...input, content: [file] } })
      assert.strictEqual(result.outcome, "Completed")
      yield* sessions.edit("a", { messageId: yield* firstId(sessions), newMessageId: "m2", input: { payload } })
      yield* Session.turn("a", "and?")
      assert.deepStrictEqual(seen.slice(0, 2), [
        { ...full, content: [file] },
        { task: words, payload, context: words, content: [] }
      ])
      const others = { id: "a", input: { ...input, context: "x" }, ifExists: "resume" } as const
      assert.strictEqual((yield* reasonOf(Session.run(plan, others)))._tag, "InputDiffers")
      assert.strictEqual((yield* reasonOf(sessions.send("e", {})))._tag, "InputInvalid")
    }).pipe(Effect.provide(Layer.provideMerge(ClusterSession.layer([plan]), runner)))
  })
})

const firstId = (sessions: Session.Service) =>
  Effect.map(stored(sessions, "a"), (entries) => {
    const [first] = entries
    assert(first?.event._tag === "MessageReceived")
    return first.event.messageId
  })
