/** MONEY-1: fallback is the same under a session, in a step of a plan and in a workflow. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Layer, Schema, Scope, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestRunner } from "effect/cluster"
import { DurableClock, Workflow, WorkflowEngine } from "effect/workflow"
import { Agent, Conversation, ModelRegistry, VersionedStore } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ChatEvent, ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { Activities } from "effect-emissary/workflow"
import { planOf } from "../plan/support.ts"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const toolkit = Toolkit.make(Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String }))

const payer = Agent.make("payer", { model: ["a/m", "b/m"], toolkit, retry: { times: 0 } })

const pays: ScriptedModel.Turn = { toolCalls: [{ id: "c1", name: "pay", params: {} }] }
const down: ScriptedModel.Turn = { text: "It is", fail: { reason: "InternalProviderError" } }

/** The services of the agent, with the models that were asked and the number of payments. */
const world = (scripts: {
  readonly a: ReadonlyArray<ScriptedModel.Turn>
  readonly b: ReadonlyArray<ScriptedModel.Turn>
}) => {
  const asked: Array<string> = []
  let payments = 0
  const provider = (name: keyof typeof scripts) => {
    let index = 0
    const next = Effect.sync(() => {
      asked.push(name)
      return scripts[name][index++] ?? { text: "once too often" }
    })
    const model = ScriptedModel.layer(() => next)
    return ModelRegistry.provider({ options: ModelRegistry.Sampling, model: () => model })
  }
  const handlers = toolkit.toLayer({ pay: () => Effect.sync(() => `payment ${++payments}`) })
  const layer = Layer.merge(ModelRegistry.layer({ a: provider("a"), b: provider("b") }), handlers)
  return { asked, layer, payments: () => payments }
}

/** The events for front ends: the models that answered, and the model that follows a failure. */
const seenIn = (entries: ReadonlyArray<Session.Entry>) =>
  entries.flatMap((entry) => {
    const { event } = entry
    if (event._tag === "RunEvent" && event.event._tag === "StepRetried") return [`then ${event.event.model}`]
    return ChatEvent.project()(entry).pipe((shown) =>
      shown._tag === "Success" && shown.success.event._tag === "Answered" ? [shown.success.event.model] : []
    )
  })

const sqlite = Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))

const homes = (below: ReturnType<typeof world>["layer"]) =>
  [
    Session.layer([payer]).pipe(Layer.provide([below, VersionedStore.layerMemory])),
    Session.layer([payer]).pipe(Layer.provide([below, Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))])),
    ClusterSession.layer([payer]).pipe(
      Layer.provide([below, Layer.mergeAll(TestRunner.layer, VersionedStore.layerMemory, sqlite)])
    )
  ] as const

describe.each([
  ["in memory", 0],
  ["on SQLite", 1],
  ["on a fleet", 2]
] as const)("MONEY-1 fallback of sessions, %s", (_, index) => {
  test.live("a turn continues with the next model, and the next turn begins with the first", function* () {
    const { asked, layer, payments } = world({ a: [pays, down, { text: "a again" }], b: [{ text: "It is paid." }] })
    const sessions = homes(layer)[index]
    yield* Effect.gen(function* () {
      assert.strictEqual((yield* Session.turn("s", "Pay")).text, "It is paid.")
      assert.strictEqual((yield* Session.turn("s", "Again")).text, "a again")
      const all = yield* t.stored(yield* Session.Session, "s")
      assert.deepStrictEqual(seenIn(all), ["a/m", "then b/m", "b/m", "a/m"])
    }).pipe(Effect.provide(sessions), Effect.timeout("30 seconds"))
    assert.deepStrictEqual([asked, payments()], [["a", "a", "b", "a"], 1])
  })
})

describe("MONEY-1 fallback under each driver", () => {
  const once = () => world({ a: [pays, down, { text: "a again" }], b: [{ text: "It is paid." }] })

  t.passing(
    "MONEY-1 a process that dies between the failure and the next model begins with the first model again",
    () =>
      Effect.gen(function* () {
        const { asked, layer, payments } = once()
        const store = yield* t.store
        const reached = yield* Deferred.make<void>()
        const dying = {
          run: {
            onEvent: ({ event }: Agent.RecordedEvent) =>
              event._tag === "StepRetried"
                ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
                : Effect.void
          }
        }
        const process = (options?: Session.LayerOptions) =>
          t.sessionsOf(Session.layer([payer], options).pipe(Layer.provide([store, layer])))
        const first = yield* Scope.make()
        const sessions = yield* Scope.provide(process(dying), first)
        yield* sessions.send("s", "Pay")
        yield* Deferred.await(reached)
        yield* Scope.close(first, Exit.void)
        const next = yield* process()
        yield* next.events("s").pipe(Stream.filter(t.endsTurn), Stream.take(1), Stream.runDrain)
        const { outcome } = yield* t.stateOf(next, "s")
        assert.deepStrictEqual([outcome, asked, payments()], ["Completed", ["a", "a", "a"], 1])
      })
  )

  test("MONEY-1 the agent in a step of a plan continues with the next model", function* () {
    const { asked, layer, payments } = once()
    const bound = yield* Effect.provide(planOf([Step.make("pay", { target: payer })]), layer)
    const { output } = yield* Effect.provide(endsAs("Completed", Plan.run(bound, "Pay")), layer)
    assert.deepStrictEqual([output, asked, payments()], ["It is paid.", ["a", "a", "b"], 1])
  })

  it.live("MONEY-1 a workflow asks each model once, also where its body runs again", () =>
    Effect.gen(function* () {
      const { asked, layer, payments } = once()
      const Body = Workflow.make("Body", {
        payload: { id: Schema.String },
        success: Schema.Json,
        idempotencyKey: ({ id }) => id
      })
      let bodies = 0
      const body = Effect.gen(function* () {
        bodies += 1
        const { conversation } = yield* payer.run("Pay")
        yield* DurableClock.sleep({ name: "wait", duration: "10 millis", inMemoryThreshold: 0 })
        return Conversation.transcript(conversation).length
      })
      const registered = Body.toLayer(() => body.pipe(Effect.provide(Activities.layer()), Effect.orDie))
      yield* Body.execute({ id: "1" }).pipe(
        Effect.provide(registered),
        Effect.provide([layer, WorkflowEngine.layerMemory])
      )
      assert.deepStrictEqual([asked, payments()], [["a", "a", "b"], 1])
      assert.isAtLeast(bodies, 2)
    }).pipe(Effect.scoped)
  )
})
