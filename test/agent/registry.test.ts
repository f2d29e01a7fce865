import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import { Cause, Context, Effect, Exit, Fiber, Layer, Option, Ref, Schema, Scope } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, ModelRegistry } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { failsFor } from "../outcomes.ts"
import { test, testWith } from "../test.ts"

const resolve = (model: string, options: Record<string, Schema.Json> = {}) =>
  Effect.flatMap(ModelRegistry.ModelRegistry, (registry) => registry.resolve(model, options))

const say = (model: string, options?: Record<string, Schema.Json>) =>
  Effect.flatMap(resolve(model, options), (service) => service.generateText({ prompt: "x" })).pipe(
    Effect.map((response) => response.text)
  )

const echo = ModelRegistry.provider({
  options: ModelRegistry.Sampling,
  model: (model, options) => ScriptedModel.layer(() => ({ text: `${model} ${JSON.stringify(options)}` }))
})

/** A registry of one provider. */
const demo = <E, R>(
  model: (name: string, options: ModelRegistry.Sampling) => Layer.Layer<LanguageModel.LanguageModel, E, R>
) => ModelRegistry.layer({ demo: ModelRegistry.provider({ options: ModelRegistry.Sampling, model }) })

const registry = ModelRegistry.layer({ zeta: echo, alpha: echo })

describe("ModelRegistry", () => {
  test("AGENT-9 resolves provider/model, split at the first slash only, with decoded options", registry, function* () {
    assert.strictEqual(
      yield* say("alpha/us.anthropic/x", { top_p: 0.5, stop: ["a"] }),
      `us.anthropic/x {"top_p":0.5,"stop":["a"]}`
    )
    assert.strictEqual(yield* say("zeta/m"), "m {}")
  })

  test("AGENT-9 malformed names are typed errors", registry, function* () {
    // a caller without types may pass the last two
    const untyped = [7 as never, null as never]
    for (const name of ["gpt-4o", "", "  ", "/m", "alpha/", "alpha/ ", " alpha/m", ...untyped]) {
      const error = yield* Effect.flip(resolve(name))
      assert.strictEqual(error.reason._tag, "InvalidModelName", String(name))
      assert.include(error.message, "provider/model")
    }
    assert.include((yield* Effect.flip(resolve("gpt-4o"))).message, `"gpt-4o"`)
  })

  test("AGENT-9 an unknown provider lists the known ones; inherited members are not providers", registry, function* () {
    for (const name of ["openai/x", "constructor/x", "toString/x", "__proto__/x"]) {
      const error = yield* Effect.flip(resolve(name))
      assert.strictEqual(error.reason._tag, "UnknownProvider", name)
      assert.include(error.message, "alpha, zeta")
    }
  })

  test("AGENT-9 options the entry does not declare are refused with a path", registry, function* () {
    const options = { base_url: "http://evil.example", temperature: 9 }
    const error = yield* failsFor("InvalidModelOptions", resolve("alpha/m", options))
    const { reason } = error.reason.error
    assert(reason._tag === "Invalid")
    const paths = reason.issues.map(({ path }) => path).sort()
    assert.deepStrictEqual(paths, ["/model_options/base_url", "/model_options/temperature"])
    assert.notInclude(error.message, "evil.example")
  })

  testWith(
    Layer.provideMerge(
      ModelRegistry.layer({
        open: ModelRegistry.provider({
          options: Schema.Record(Schema.String, Schema.Json),
          model: () => ScriptedModel.layer([])
        })
      }),
      ScriptedModel.layer([])
    )
  )("L8 AGENT-9 secret keys are refused even by an entry that would take anything", function* () {
    const error = yield* failsFor("InvalidModelOptions", resolve("open/m", { nested: [{ "API-Key": "sk-123" }] }))
    assert.include(error.message, "/model_options/nested/0/API-Key")
    assert.notInclude(error.message, "sk-123")
    const ambient = Effect.provide(resolve("open/m", { password: "x" }), ModelRegistry.layerContext)
    yield* failsFor("InvalidModelOptions", ambient)
  })

  class Setting extends Context.Service<Setting, string>()("test/Setting") {}

  test("AGENT-9 a model is built once per name and options and closed with the registry", function* () {
    const events = yield* Ref.make<ReadonlyArray<string>>([])
    const log = (event: string) => Ref.update(events, (all) => [...all, event])
    const counting = demo((model, { seed = 0 }) =>
      Layer.effect(
        LanguageModel.LanguageModel,
        Effect.gen(function* () {
          const setting = yield* Setting
          yield* Effect.acquireRelease(log(`open ${model} ${seed} ${setting}`), () => log(`close ${model} ${seed}`))
          yield* Effect.yieldNow
          const built = yield* Layer.build(ScriptedModel.layer(() => ({ text: "ok" })))
          return Context.get(built, LanguageModel.LanguageModel)
        })
      )
    ).pipe(Layer.provide(Layer.succeed(Setting, "s")))
    const same = yield* Effect.gen(function* () {
      const [a, b] = yield* Effect.all(
        [resolve("demo/a", { seed: 1, top_p: 1 }), resolve("demo/a", { top_p: 1, seed: 1 })],
        { concurrency: "unbounded" }
      )
      yield* resolve("demo/a", { seed: 2 })
      yield* resolve("demo/b", { seed: 1 })
      return a === b
    }).pipe(Effect.provide(counting))
    assert.isTrue(same)
    const all = yield* Ref.get(events)
    assert.deepStrictEqual(all.slice(0, 3), ["open a 1 s", "open a 2 s", "open b 1 s"])
    assert.deepStrictEqual(all.slice(3).sort(), ["close a 1", "close a 2", "close b 1"])
  })

  test("AGENT-9 a model is built in the context of the registry, not in that of the first run that asks", function* () {
    const Tenant = Context.Reference<string>("test/Tenant", { defaultValue: () => "nobody" })
    const tenanted = demo(() =>
      Layer.unwrap(Effect.map(Tenant, (tenant) => ScriptedModel.layer(() => ({ text: tenant }))))
    ).pipe(Layer.provide(Layer.succeed(Tenant, "registry")))
    const text = yield* say("demo/m").pipe(Effect.provideService(Tenant, "first run"), Effect.provide(tenanted))
    assert.strictEqual(text, "registry")
  })

  it("AGENT-9 types: the layer needs what its models need, the options are the decoded ones", () => {
    class Key extends Context.Service<Key, string>()("test/Key") {}
    const mixed = ModelRegistry.layer({
      pure: echo,
      keyed: ModelRegistry.provider({
        options: Schema.Struct({ seed: Schema.optionalKey(Schema.FiniteFromString) }),
        model: (model: string, options) => {
          const seed: number | undefined = options.seed
          return Layer.unwrap(Effect.map(Key, (key) => ScriptedModel.layer([{ text: `${key} ${model} ${seed}` }])))
        }
      }),
      setting: ModelRegistry.provider({
        options: Schema.Struct({}),
        model: () => Layer.unwrap(Effect.map(Setting, () => ScriptedModel.layer([])))
      })
    })
    expectTypeOf<Layer.Services<typeof mixed>>().toEqualTypeOf<Key | Setting>()
    expectTypeOf<Layer.Services<typeof registry>>().toEqualTypeOf<never>()
    assert.isTrue(Layer.isLayer(mixed))
  })

  test("AGENT-9 a build that fails is typed, holds no text of the error, and is tried again", function* () {
    class Boom extends Schema.TaggedError<Boom>()("Boom", { text: Schema.String }) {}
    const attempts = yield* Ref.make(0)
    const flaky = demo(() =>
      Layer.unwrap(
        Effect.flatMap(
          Ref.updateAndGet(attempts, (n) => n + 1),
          (n): Effect.Effect<Layer.Layer<LanguageModel.LanguageModel>, Boom> =>
            n === 1 ? Effect.fail(new Boom({ text: "key sk-1" })) : Effect.succeed(ScriptedModel.layer([]))
        )
      )
    )
    yield* Effect.gen(function* () {
      const error = yield* failsFor("ModelUnavailable", resolve("demo/m"))
      assert.include(error.message, "Boom")
      assert.notInclude(JSON.stringify(error), "sk-1")
      const cause = Option.getOrThrow(ModelRegistry.causeOf(error))
      assert.instanceOf(Cause.squash(cause), Boom)
      yield* resolve("demo/m")
    }).pipe(Effect.provide(flaky))
    assert.strictEqual(yield* Ref.get(attempts), 2)
  })

  /** A registry whose models are counted while they are there, by seed. */
  const counted = (build: Effect.Effect<void, string> = Effect.void) => {
    const alive = new Set<number>()
    const acquired = (seed: number) =>
      Effect.acquireRelease(
        Effect.sync(() => alive.add(seed)),
        () => Effect.sync(() => alive.delete(seed))
      )
    const layer = demo((_, { seed = 0 }) => {
      const model = Layer.fresh(ScriptedModel.layer(() => ({ text: String(alive.has(seed)) })))
      return Layer.merge(model, Layer.effectDiscard(Effect.andThen(acquired(seed), build)))
    })
    return { alive, layer }
  }

  test("SOUND-4 models that leave the cache are released, the oldest first, unless they are in use", function* () {
    const { alive, layer } = counted()
    yield* Effect.gen(function* () {
      const agent = Agent.make("a", { model: "demo/m", modelOptions: { seed: 0 } })
      assert.strictEqual(yield* agent.ask("q"), "true")
      const inUse = yield* Scope.make()
      const model = yield* Scope.provide(resolve("demo/m", { seed: 1 }), inUse)
      for (let seed = 2; seed < 300; seed++) yield* Effect.scoped(resolve("demo/m", { seed }))
      assert.deepStrictEqual([alive.size, alive.has(0), alive.has(1), alive.has(299)], [257, false, true, true])
      assert.strictEqual((yield* model.generateText({ prompt: "x" })).text, "true")
      yield* Scope.close(inUse, Exit.void)
      assert.deepStrictEqual([alive.size, alive.has(1)], [256, false])
      assert.strictEqual(yield* agent.ask("q"), "true")
    }).pipe(Effect.provide(layer))
    assert.strictEqual(alive.size, 0)
  })

  for (const [how, build] of Object.entries({
    fails: Effect.fail("no key"),
    dies: Effect.die("x"),
    hangs: Effect.never
  })) {
    test(`SOUND-4 a build that ${how} releases what it had acquired at once`, function* () {
      const { alive, layer } = counted(build)
      yield* Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(resolve("demo/m"))
        yield* TestClock.adjust("1 second")
        assert.strictEqual(alive.size, how === "hangs" ? 1 : 0)
        yield* Fiber.interrupt(fiber)
        assert.strictEqual(alive.size, 0)
      }).pipe(Effect.provide(layer))
    })
  }

  test("AGENT-9 the reasoning level of a definition reaches the provider with the options", registry, function* () {
    const agent = Agent.make("a", { model: "alpha/m", modelOptions: { seed: 1 }, reasoning: "high" })
    assert.strictEqual(yield* agent.ask("q"), `m {"seed":1,"reasoning":"high"}`)
  })

  testWith(
    ModelRegistry.layer({
      dies: ModelRegistry.provider({
        options: Schema.Struct({}),
        model: () => Layer.effect(LanguageModel.LanguageModel, Effect.die("oops"))
      }),
      hangs: ModelRegistry.provider({
        options: Schema.Struct({}),
        model: () => Layer.effect(LanguageModel.LanguageModel, Effect.never)
      })
    })
  )("AGENT-9 a build that dies is a typed failure too, an interrupted one is interruption", function* () {
    yield* failsFor("ModelUnavailable", resolve("dies/m"))
    const fiber = yield* Effect.forkChild(resolve("hangs/m"))
    yield* Effect.yieldNow
    yield* Fiber.interrupt(fiber)
    const exit = yield* Fiber.await(fiber)
    assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
  })

  testWith(Layer.provideMerge(ModelRegistry.layerContext, ScriptedModel.layer([{ text: "ambient" }])))(
    "AGENT-9 layerContext answers every well-formed name with the ambient model, and refuses malformed ones",
    function* () {
      assert.strictEqual(yield* say("any/thing", { temperature: 0, whatever: [1] }), "ambient")
      assert.strictEqual((yield* Effect.flip(resolve("thing"))).reason._tag, "InvalidModelName")
    }
  )

  test("L4 errors survive JSON", registry, function* () {
    const codec = Schema.fromJsonString(Schema.toCodecJson(ModelRegistry.ModelRegistryError))
    for (const [name, options] of [["x"], ["no/x"], ["alpha/x", { secret: 1 }], ["alpha/x", { q: 1 }]] as const) {
      const error = yield* Effect.flip(resolve(name, options))
      const again = yield* Schema.decodeEffect(codec)(yield* Schema.encodeEffect(codec)(error))
      assert.strictEqual(again.message, error.message)
    }
  })
})
