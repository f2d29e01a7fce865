/** KEEP-8: a model per message, within what the layer allows. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Exit, Layer, Option, Schema, Scope } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ModelRegistry, Run, VersionedStore } from "effect-emissary"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import { Step } from "effect-emissary/plan"
import { ClusterSession, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { join } from "node:path"
import { planOf } from "../plan/support.ts"
import { makeDirectory } from "../store/directory.ts"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const support = Agent.make("support", { model: "demo/small" })

/** Each model answers with its name. */
const registry = (answer: (model: string) => ScriptedModel.Script = (model) => () => ({ text: model })) =>
  ModelRegistry.layer({
    demo: ModelRegistry.provider({
      options: ModelRegistry.Sampling,
      model: (model) => ScriptedModel.layer(answer(model))
    })
  })

const models = ["demo/small", "demo/large", "other/model"]

const inMemory = (options: Session.LayerOptions = { models }) =>
  Session.layer([support], options).pipe(Layer.provide([VersionedStore.layerMemory, registry()]))

const text = (id: string, input: string, options?: Session.SendOptions) =>
  Effect.map(Session.turn(id, input, options), ({ text }) => text)

describe("KEEP-8 the model of a message", () => {
  test("answers it, and the next one has that of the agent again", inMemory(), function* () {
    assert.strictEqual(yield* text("a", "one"), "small")
    assert.strictEqual(yield* text("a", "two", { model: "demo/large" }), "large")
    assert.strictEqual(yield* text("a", "three"), "small")
    const job = yield* Session.run(support, { id: "job", input: "go", model: "demo/large" })
    assert(job.outcome === "Completed" && job.output === "large")
  })

  test("is refused where the layer does not allow it, before anything is stored or removed", inMemory(), function* () {
    const sessions = yield* Session.Session
    const refused = yield* Effect.flip(sessions.send("a", "one", { model: "demo/huge" }))
    assert.deepStrictEqual([refused.reason._tag, refused.category], ["ModelRefused", "invalid"])
    assert.match(refused.message, /"demo\/huge".*expected one of the models that the layer allows/)
    assert.isTrue(Option.isNone(yield* sessions.state("a")))
    yield* text("a", "one")
    const restart = sessions.send("a", "two", { model: "demo/huge", ifExists: "restart" })
    assert.strictEqual(yield* t.reasonOf(restart), "ModelRefused")
    assert.strictEqual((yield* t.stateOf(sessions, "a")).messages, 2)
  })

  test("is refused by default", inMemory({}), function* () {
    const error = yield* Effect.flip(Session.turn("a", "one", { model: "demo/small" }))
    assert.match(error.message, /the layer allows no models for messages \(models\)/)
  })

  test(
    "may depend on the message",
    inMemory({
      models: (model, { agent, context, id }) =>
        Effect.succeed(`${id} ${agent}` === "a support" && context["plan"] === model)
    }),
    function* () {
      const ask = (id: string, plan: string) => text(id, "one", { model: "demo/large", context: { plan } })
      assert.strictEqual(yield* ask("a", "demo/large"), "large")
      for (const refused of [ask("a", "demo/small"), ask("b", "demo/large")]) {
        assert.strictEqual(yield* t.reasonOf(refused), "ModelRefused")
      }
    }
  )

  test("is part of the message: another one under its id is another message", inMemory(), function* () {
    const sessions = yield* Session.Session
    const send = (model?: string) => sessions.send("a", "one", { messageId: "m", model })
    const first = yield* send("demo/large")
    assert.deepStrictEqual(yield* send("demo/large"), first)
    for (const other of [send(), send("demo/small")]) assert.strictEqual(yield* t.reasonOf(other), "InputDiffers")
  })

  test("RIGHT-11 that is allowed, and that the registry has not, is refused", inMemory(), function* () {
    const sessions = yield* Session.Session
    yield* Session.turn("a", "one", { messageId: "m1" })
    const { sequence } = yield* t.stateOf(sessions, "a")
    for (const sent of [
      sessions.send("a", "two", { model: "other/model" }),
      sessions.edit("a", { messageId: "m1", model: "other/model" })
    ]) {
      const error = yield* Effect.flip(sent)
      assert.deepStrictEqual([error.reason._tag, error.category], ["ModelRefused", "invalid"])
      assert.match(error.message, /unknown provider "other".*Nothing was stored/)
    }
    assert.strictEqual((yield* t.stateOf(sessions, "a")).sequence, sequence)
  })

  test("is refused for a plan", function* () {
    const plan = yield* planOf([Step.make("a", { target: ({ task }) => Effect.succeed(task) })])
    const layer = Layer.provide(Session.layer([plan], { models }), VersionedStore.layerMemory)
    const error = yield* Effect.flip(Effect.provide(Session.turn("a", "one", { model: "demo/large" }), layer))
    assert.match(error.message, /the steps of a plan have models of their own/)
  })

  test("RIGHT-15 is that of the message that is answered again, also where the layer sets the context", function* () {
    for (const run of [undefined, { context: { tenant: "a" } }]) {
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* text("a", "one", { model: "demo/large", messageId: "m1" })
        yield* text("a", "two", { messageId: "m2" })
        const again = yield* sessions.edit("a", { messageId: "m1" })
        assert.strictEqual((yield* Session.await("a", { cursor: again.cursor })).text, "large")
        const other = yield* sessions.edit("a", { messageId: again.messageId, input: "three" })
        assert.strictEqual((yield* Session.await("a", { cursor: other.cursor })).text, "small")
      }).pipe(Effect.provide(inMemory({ models, ...(run && { run }) })))
    }
  })

  test("RIGHT-15 is refused for a plan that is data, also in a later message", function* () {
    const plan = yield* planOf([Step.make("a", { target: ({ task }) => Effect.succeed(task) })])
    const definitions = () => Effect.succeed(plan)
    const layer = Layer.provide(Session.layer([], { definitions, models }), [VersionedStore.layerMemory, registry()])
    yield* Effect.gen(function* () {
      yield* Session.turn("a", "one", { definition: {} })
      for (const definition of [{}, undefined]) {
        const error = yield* Effect.flip(Session.turn("a", "two", { model: "demo/large", definition }))
        assert.match(error.message, /the steps of a plan have models of their own/)
      }
    }).pipe(Effect.provide(layer))
  })

  test("holds for the turn after an approval, and after a crash", function* () {
    const filename = join(makeDirectory(), "store.sqlite")
    const toolkit = Toolkit.make(
      Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String, needsApproval: true })
    )
    const cashier = Agent.make("cashier", { model: "demo/small", toolkit })
    const asked: Array<string> = []
    const process = (answer: (model: string) => ScriptedModel.TurnFunction) =>
      Session.layer([cashier], { models, drainTime: 0 }).pipe(
        Layer.provide([
          SqliteClient.layerStore({ filename }),
          toolkit.toLayer({ pay: () => Effect.succeed("paid") }),
          registry((model) => (request) => {
            asked.push(model)
            return answer(model)(request)
          })
        ])
      )
    yield* Effect.gen(function* () {
      const { outcome } = yield* Session.turn("a", "pay", { model: "demo/large" })
      assert.strictEqual(outcome, "AwaitingApproval")
    }).pipe(Effect.provide(process(() => () => ({ toolCalls: [{ name: "pay", params: {} }] }))))

    const scope = yield* Scope.make()
    const isAsked = yield* Deferred.make<void>()
    const hanging = process(() => () => Effect.andThen(Deferred.succeed(isAsked, undefined), Effect.never))
    const dying = yield* Layer.buildWithScope(hanging, scope)
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const { requests } = yield* t.stateOf(sessions, "a")
      yield* sessions.decide("a", requests.filter(Run.isApprovable).map(Run.approve))
    }).pipe(Effect.provideContext(dying))
    yield* Deferred.await(isAsked)
    yield* Scope.close(scope, Exit.void)

    const result = Session.result(cashier, "a").pipe(Effect.provide(process((model) => () => ({ text: model }))))
    const done = yield* result
    assert(done.outcome === "Completed" && done.output === "large")
    assert.deepStrictEqual(asked, ["large", "large", "large"])
  })

  test.live("reaches the runner of a fleet", Layer.empty, function* () {
    const fleet = ClusterSession.layer([support], { models }).pipe(
      Layer.provide([SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } }), registry()])
    )
    yield* Effect.gen(function* () {
      assert.strictEqual(yield* text("a", "one", { model: "demo/large" }), "large")
      assert.strictEqual(yield* t.reasonOf(Session.turn("a", "two", { model: "demo/huge" })), "ModelRefused")
    }).pipe(Effect.provide(fleet))
  })
})
