import { assert, describe, it } from "@effect/vitest"
import type { Tracer } from "effect"
import { Clock, Context, Effect, Layer, References, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, ModelRegistry, RunContext, ToolRuntime } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { call } from "./fixtures.ts"
import { pluck } from "../pluck.ts"
import { failsFor } from "../outcomes.ts"
import { test, testWith } from "../test.ts"

/** The context of a piece of the agent's code. */
interface Seen {
  readonly where: string
  readonly context: unknown
  readonly span: string
  readonly clock: number
  readonly level: string
}

class Log extends Context.Service<Log, Array<Seen>>()("test/Log") {
  static readonly layer = Layer.sync(Log, () => [])
}

class Stock extends Context.Service<Stock, { readonly name: string }>()("test/Stock") {}

class Broken extends Schema.TaggedError<Broken>()("Broken", { detail: Schema.String }) {}

const look = (where: string) =>
  Effect.gen(function* () {
    const log = yield* Log
    const span = yield* Effect.currentParentSpan.pipe(Effect.orElseSucceed(() => undefined))
    const root = yield* rootSpan(span)
    log.push({
      where,
      context: yield* RunContext.RunContext,
      span: root,
      clock: yield* Clock.currentTimeMillis,
      level: yield* References.MinimumLogLevel
    })
  })

const rootSpan = (span: Tracer.AnySpan | undefined): Effect.Effect<string> =>
  Effect.sync(() => {
    let current = span
    while (current !== undefined && current._tag === "Span" && current.parent._tag === "Some")
      current = current.parent.value
    return current?._tag === "Span" ? current.name : ""
  })

const Look = Tool.make("look", { success: Schema.String })
const toolkit = Toolkit.make(Look)

class Watcher extends Agent.Service<Watcher>()("watcher", {
  instructions: Effect.as(look("instructions"), "Watch."),
  toolkit
}) {}

const script = () => [{ toolCalls: [call("c1", "look", {})] }, { text: "seen" }]

const handlers = toolkit.toLayer(
  Effect.gen(function* () {
    const { name } = yield* Stock
    const log = yield* Log
    return toolkit.of({ look: () => Effect.as(Effect.provideService(look("handler"), Log, log), name) })
  })
)

/** A clock that does not move. */
const frozen = (millis: number): Clock.Clock =>
  ({
    currentTimeMillisUnsafe: () => millis,
    currentTimeMillis: Effect.succeed(millis),
    currentTimeNanosUnsafe: () => BigInt(millis) * 1_000_000n,
    currentTimeNanos: Effect.succeed(BigInt(millis) * 1_000_000n),
    monotonicTimeNanosUnsafe: () => BigInt(millis) * 1_000_000n,
    monotonicTimeNanos: Effect.succeed(BigInt(millis) * 1_000_000n),
    sleep: () => Effect.never
  }) as unknown as Clock.Clock

/** Builds the layer in surroundings of its own. */
const built = Watcher.layer.pipe(
  Layer.provide(handlers),
  Layer.provide(Layer.succeed(Stock, { name: "from the layer" })),
  Layer.provideMerge(Layer.merge(ScriptedModel.layer([...script(), ...script()]), Log.layer)),
  Layer.provide(Layer.succeed(References.MinimumLogLevel, "Error")),
  Layer.provide(Layer.succeed(Clock.Clock, frozen(1))),
  Layer.provide(Layer.succeed(RunContext.RunContext, { from: "layer" })),
  Layer.provide(ToolRuntime.layer({ dispatch: () => Effect.die("the layer's runtime") })),
  Layer.withSpan("layer build")
)

describe("AGENT-1 the context of the call", () => {
  it.effect("AGENT-1 RunContext, spans, clock, log level and runtime of the run reach instructions and handlers", () =>
    Effect.gen(function* () {
      const watcher = yield* Watcher
      yield* TestClock.adjust("5 seconds")
      let dispatched = 0
      const runtime = ToolRuntime.layer({
        dispatch: (_, local) => {
          dispatched += 1
          return local
        }
      })
      yield* watcher
        .run("Go")
        .pipe(
          Effect.provideService(RunContext.RunContext, { from: "run" }),
          Effect.provideService(References.MinimumLogLevel, "Warn"),
          Effect.provideService(Clock.Clock, frozen(2)),
          Effect.provide(runtime),
          Effect.withSpan("the call")
        )
      const seen = { context: { from: "run" }, span: "the call", clock: 2, level: "Warn" }
      assert.deepStrictEqual(yield* Log, [
        { where: "instructions", ...seen },
        { where: "handler", ...seen }
      ])
      assert.strictEqual(dispatched, 1)
    }).pipe(Effect.provide(built))
  )

  test("AGENT-1 a run without a span of its own is not part of the layer's", built, function* () {
    const watcher = yield* Watcher
    yield* watcher.run("Go").pipe(Effect.provide(ToolRuntime.layerInline))
    assert.deepStrictEqual(pluck(yield* Log, "span"), ["invoke_agent watcher", "invoke_agent watcher"])
  })

  test("AGENT-1 TOOL-5 the option context goes before the RunContext of the caller", built, function* () {
    const watcher = yield* Watcher
    yield* watcher
      .run("Go", { context: { from: "option" } })
      .pipe(Effect.provideService(RunContext.RunContext, { from: "run" }), Effect.provide(ToolRuntime.layerInline))
    assert.deepStrictEqual(pluck(yield* Log, "context"), [{ from: "option" }, { from: "option" }])
  })

  testWith(built)(
    "AGENT-1 handlers of a static toolkit are resolved once, at layer build; later layers do not replace them",
    function* () {
      const watcher = yield* Watcher
      const impostor = toolkit.toLayer({ look: () => Effect.succeed("impostor") })
      yield* watcher.run("Go").pipe(Effect.provide(impostor), Effect.provide(ToolRuntime.layerInline))
      const [, second] = yield* ScriptedModel.requests
      assert.strictEqual(second?.messages.at(-1)?.text, "from the layer")
    }
  )

  it.effect("AGENT-1 a missing handler is found when the layer is built, by name, with what to provide", () =>
    Effect.gen(function* () {
      // A program without types could do this
      const layer = Watcher.layer as unknown as typeof built
      const error = yield* Effect.flip(Effect.provide(Watcher, layer))
      assert(error._tag === "AgentError")
      assert.include(error.message, '"look"')
      assert.include(error.message, "toLayer")
    }).pipe(Effect.provide(Layer.merge(ScriptedModel.layer([]), Log.layer)))
  )

  const looking = ScriptedModel.layer(({ index }) => script()[index % 2] ?? {})
  const stocked = handlers.pipe(
    Layer.provideMerge(Layer.succeed(Stock, { name: "x" })),
    Layer.provideMerge(ModelRegistry.layerAmbient),
    Layer.provideMerge(Layer.merge(looking, Log.layer))
  )
  test("AGENT-1 model, instructions and toolkit Effects are resolved once per run", stocked, function* () {
    const counts = { model: 0, instructions: 0, toolkit: 0 }
    const count = <A>(what: keyof typeof counts, value: A) =>
      Effect.sync(() => {
        counts[what] += 1
        return value
      })
    const lazy = Agent.make("lazy", {
      model: count("model", "any/model"),
      instructions: count("instructions", "Be lazy."),
      toolkit: count("toolkit", toolkit)
    })
    yield* lazy.run("Go")
    assert.deepStrictEqual(counts, { model: 1, instructions: 1, toolkit: 1 })
    yield* lazy.run("Go")
    assert.deepStrictEqual(counts, { model: 2, instructions: 2, toolkit: 2 })
  })

  test(
    "AGENT-1 a toolkit may be a Toolkit, a list, or an Effect of either; in a service as well",
    stocked,
    function* () {
      const forms = [
        Agent.make("a", { toolkit }),
        Agent.make("a", { toolkit: [Look] }),
        Agent.make("a", { toolkit: Effect.succeed(toolkit) }),
        Agent.make("a", { toolkit: Effect.succeed([Look]) })
      ]
      class Dynamic extends Agent.Service<Dynamic>()("dynamic", { toolkit: Effect.map(Stock, () => [Look]) }) {}
      for (const agent of forms) {
        const definition = yield* Agent.definition(agent)
        assert.deepStrictEqual(pluck(definition.tools, "name"), ["look"])
        assert.strictEqual((yield* agent.run("Go")).text, "seen")
      }
      const dynamic = yield* Effect.provide(Dynamic, Dynamic.layer)
      assert.strictEqual((yield* dynamic.run("Go")).text, "seen")
    }
  )

  testWith(ScriptedModel.layer([]))(
    "AGENT-1 what an Effect of the agent fails with is a typed error, its cause kept out of the message",
    function* () {
      const broken = Agent.make("broken", { instructions: Effect.fail(new Broken({ detail: "sk-SECRET" })) })
      const error = yield* failsFor("PreparationFailed", broken.run("Go"))
      assert.strictEqual(error.reason.part, "instructions")
      assert.strictEqual(error.reason.error, "Broken")
      assert.notInclude(error.message, "SECRET")
    }
  )

  it("AGENT-1 the key of a service names the agent", () => {
    assert.strictEqual(Watcher.key, "effect-emissary/Agent/watcher")
  })

  test("AGENT-1 the model of the caller replaces the one the layer captured", function* () {
    class Plain extends Agent.Service<Plain>()("plain", {}) {}
    const layer = Plain.layer.pipe(Layer.provide(ScriptedModel.layer([{ text: "captured" }, { text: "captured" }])))
    const ask = Effect.flatMap(Plain, (plain) => plain.ask("Go"))
    assert.strictEqual(yield* Effect.provide(ask, layer), "captured")
    const swapped = ask.pipe(Effect.provide(ScriptedModel.layer([{ text: "caller's" }])), Effect.provide(layer))
    assert.strictEqual(yield* swapped, "caller's")
  })
})
