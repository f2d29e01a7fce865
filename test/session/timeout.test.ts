/** HOUSE-1: a message has a limit of time for its turn, in memory, on SQLite and on a fleet. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Option, Schema, Scope, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestRunner } from "effect/cluster"
import { Agent, Conversation, Run, VersionedStore } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import * as t from "./sessions.ts"

const toolkit = Toolkit.make(
  Tool.make("work", { success: Schema.String }),
  Tool.make("pay", { success: Schema.String, needsApproval: true })
)
const agent = Agent.make("desk", { toolkit })

/** `work` calls a tool that never ends, `pay` a tool that waits for a person. `think` takes an hour. */
const script: ScriptedModel.TurnFunction = (request) => {
  const asked = t.asked(request)
  if (asked === "think") return { text: "Late.", delay: "1 hour" }
  if (asked === "slow") return { text: "Slow.", delay: "300 millis" }
  const isDone = request.messages.at(-1)?.role === "tool"
  return ["work", "pay"].includes(asked) && !isDone ? { toolCalls: [{ name: asked }] } : { text: `re: ${asked}` }
}

const handlers = toolkit.toLayer({ work: () => Effect.never, pay: () => Effect.succeed("paid") })

const below = Layer.mergeAll(handlers, ScriptedModel.layer(script))

const sqlite = Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))

const stores = [
  ["in memory", VersionedStore.layerMemory],
  ["on SQLite", Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))]
] as const

const layers = [
  ...stores.map(([name, store]) => [name, Session.layer([agent]).pipe(Layer.provide([below, store]))] as const),
  [
    "on a fleet",
    ClusterSession.layer([agent]).pipe(
      Layer.provide([below, Layer.mergeAll(TestRunner.layer, VersionedStore.layerMemory, sqlite)])
    )
  ]
] as const

const timedOut = { outcome: "Interrupted", reason: "timeout" } as const

describe.each(layers)("HOUSE-1 the time of a turn is over, %s", (_, layer) => {
  for (const asked of ["work", "think"]) {
    it.live(`${asked}: the turn is stopped, its calls are settled, and the next message is answered`, () =>
      Effect.gen(function* () {
        const receipt = yield* Session.send("a", asked, { timeout: "50 millis" })
        assert.deepInclude(yield* Session.await("a", receipt), timedOut)
        const { text } = yield* Session.turn("a", "next")
        assert.strictEqual(text, "re: next")
        assert.deepStrictEqual(Conversation.openCalls(yield* Session.history("a")), [])
      }).pipe(Effect.provide(layer), Effect.timeout("20 seconds"))
    )
  }

  it.live("a job has it, too", () =>
    Effect.gen(function* () {
      const { outcome } = yield* Session.run(agent, { id: "job", input: "think", timeout: "50 millis" })
      assert.strictEqual(outcome, "Interrupted")
    }).pipe(Effect.provide(layer), Effect.timeout("20 seconds"))
  )

  it.live("a limit that is no time, or does not end, is refused", () =>
    Effect.gen(function* () {
      for (const timeout of [0, -1, "Infinity", "soon", {}, null]) {
        // Sound: a program without types sends it
        const sent = Session.send("a", "hi", { timeout: timeout as never })
        assert.strictEqual(yield* t.reasonOf(sent), "ArgumentInvalid", String(timeout))
      }
      assert.isTrue(Option.isNone(yield* Session.state("a")))
    }).pipe(Effect.provide(layer))
  )
})

describe("HOUSE-1 the time of a turn", () => {
  t.passing("begins anew with a decision, and is the limit of its message alone", () =>
    Effect.gen(function* () {
      const receipt = yield* Session.send("a", "pay", { timeout: "200 millis" })
      assert.strictEqual((yield* Session.await("a", receipt)).outcome, "AwaitingApproval")
      yield* Effect.sleep("400 millis")
      const { requests } = Option.getOrThrow(yield* Session.state("a"))
      const decisions = requests.filter(Run.isApprovable).map(Run.approve)
      const decided = yield* Session.decide("a", decisions)
      assert.strictEqual((yield* Session.await("a", decided)).text, "re: pay")
      assert.strictEqual((yield* Session.turn("a", "slow")).text, "Slow.")
    }).pipe(Effect.provide(Session.layer([agent]).pipe(Layer.provide([below, VersionedStore.layerMemory]))))
  )

  for (const [name, layer] of stores) {
    for (const [what, timeout, calls] of [
      ["stopped at once where its time is over", "200 millis", 1],
      ["stopped after the time that is left", "2 seconds", 2]
    ] as const) {
      t.passing(`${name}: a turn that another process has left is ${what}`, () =>
        Effect.gen(function* () {
          const store = Layer.succeedContext(yield* Layer.build(layer))
          let asked = 0
          const model = ScriptedModel.layer((request) => {
            asked += 1
            return script(request)
          })
          const open = t.sessionsOf(Session.layer([agent]).pipe(Layer.provide([store, handlers, model])))
          const scope = yield* Scope.make()
          const first = yield* Scope.provide(open, scope)
          const receipt = yield* first.send("a", "think", { timeout })
          // The message is taken: a message that still waits has its whole time
          const taken = Stream.takeUntil(first.events("a"), (entry) => t.tagOf(entry) === "InputAdded")
          yield* Stream.runDrain(taken)
          yield* Scope.close(scope, Exit.void)
          yield* Effect.sleep("400 millis")
          const ended = Effect.provideService(Session.await("a", receipt), Session.Session, yield* open)
          assert.deepInclude(yield* ended, timedOut)
          assert.strictEqual(asked, calls)
        })
      )
    }
  }
})
