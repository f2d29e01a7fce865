/** MONEY-1: limits of time, the choice of tools, calls at a time and options of the model, of an agent and of a run. */
import { assert, describe } from "@effect/vitest"
import { Clock, Deferred, Duration, Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import {
  Agent,
  AgentDefinition,
  Conversation,
  ModelRegistry,
  type Run,
  ToolRuntime,
  ToolSettings
} from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { after } from "../after.ts"
import { endsAs, failsFor } from "../outcomes.ts"
import { test } from "../test.ts"
import { call, testGiven } from "./fixtures.ts"

const eventsOf = () => {
  const log: Array<Run.Event> = []
  const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void log.push(event))
  const retries = () => log.flatMap((event) => (event._tag === "StepRetried" ? [event.error] : []))
  return { onEvent, retries }
}

/** A model of one text, which is silent for this long before its first piece, and between pieces. */
const silent = (turns: ReadonlyArray<ScriptedModel.Turn>) => ScriptedModel.layer(turns, { chunkSize: 1 })

describe("MONEY-1 limits of the time of a model call", () => {
  const once = { times: 1, delay: 0 }

  test("MONEY-1 an attempt that is not whole in time is retried, with the kind TimeoutError", function* () {
    const agent = Agent.make("hasty", { retry: once, timeouts: { model: "1 second" } })
    const { onEvent, retries } = eventsOf()
    const model = silent([{ text: "late", delay: "2 seconds" }, { text: "in time" }])
    const { text } = yield* Effect.provide(after("1 second", endsAs("Completed", agent.run("Go", { onEvent }))), model)
    assert.deepStrictEqual([text, retries()], ["in time", ["TimeoutError"]])
  })

  for (const streaming of [false, true])
    test(`MONEY-1 vercel/ai 18255 a silent model is asked again, before and within its answer (${streaming ? "stream" : "run"})`, function* () {
      const agent = Agent.make("hasty", {
        retry: { times: 2, delay: 0 },
        timeouts: { firstChunk: "5 seconds", chunk: "1 second" }
      })
      const { onEvent, retries } = eventsOf()
      const model = silent([
        { text: "never", delay: "6 seconds" },
        { text: "stops", delay: "4 seconds", chunkDelay: "2 seconds" },
        { text: "steady", delay: "4 seconds", chunkDelay: "900 millis" }
      ])
      const running = streaming
        ? Stream.runDrain(agent.stream("Go", { onEvent }))
        : Effect.asVoid(endsAs("Completed", agent.run("Go", { onEvent })))
      yield* Effect.provide(after("1 minute", running), model)
      assert.deepStrictEqual(retries(), ["TimeoutError", "TimeoutError"])
    })

  test("MONEY-1 a run overrides the limits of the agent, and the last attempt fails with the limit", function* () {
    const agent = Agent.make("hasty", { retry: { times: 0 }, timeouts: { model: "1 second", chunk: "1 second" } })
    const slow = { text: "late", delay: "2 seconds", chunkDelay: "2 seconds" } as const
    yield* Effect.gen(function* () {
      const timeouts = { model: "1 minute", chunk: Duration.infinity } as const
      yield* after("1 minute", endsAs("Completed", agent.run("Go", { timeouts })))
      const error = yield* after("1 second", failsFor("ModelFailed", agent.run("Go")))
      assert.deepInclude(error.reason, { error: "TimeoutError", retryable: true })
      assert.include(error.message, "no whole answer within 1000 milliseconds (timeouts.model)")
    }).pipe(Effect.provide(silent([slow, slow])))
  })

  test("MONEY-1 agents that are tools have the limits of the run around", function* () {
    const inner = Agent.make("inner", { retry: { times: 0 } })
    const outer = Agent.make("outer", { toolkit: [Agent.asTool(inner, { name: "ask", description: "Asks" })] })
    const model = silent([
      { toolCalls: [call("c", "ask", { input: "Go" })] },
      { text: "late", delay: "2 seconds" },
      { text: "no answer" }
    ])
    const running = endsAs("Completed", outer.run("Go", { timeouts: { model: "1 second" } }))
    const { conversation } = yield* Effect.provide(after("1 second", running), model)
    assert.include(JSON.stringify(Conversation.messages(conversation)), "timeouts.model")
  })

  test("MONEY-1 a tool without a timeout has the timeout of its agent, in its contract too", function* () {
    const parts = { success: Schema.String }
    const tools = Toolkit.make(Tool.make("plain", parts), ToolSettings.timeout(Tool.make("quick", parts), "1 second"))
    const agent = Agent.make("caller", { toolkit: tools, timeouts: { tool: "30 seconds" } })
    const { tools: contracts } = yield* Agent.definition(agent)
    assert.deepStrictEqual(
      contracts.map(({ timeout }) => Duration.toSeconds(timeout)),
      [30, 1]
    )
    const took = (name: "plain" | "quick") =>
      Effect.gen(function* () {
        const began = yield* Clock.currentTimeMillis
        yield* after("1 minute", endsAs("Completed", agent.run("Go"))).pipe(
          Effect.provide(tools.toLayer({ plain: () => Effect.never, quick: () => Effect.never })),
          Effect.provide(
            ScriptedModel.layer([
              { toolCalls: [call("c", name, {})] },
              () => Effect.map(Clock.currentTimeMillis, (now) => ({ text: String(now - began) }))
            ])
          ),
          Effect.tap(({ text }) => Effect.sync(() => void (found = text)))
        )
        return found
      })
    let found = ""
    assert.deepStrictEqual([yield* took("plain"), yield* took("quick")], ["30000", "1000"])
  })

  for (const timeouts of [{ model: 0 }, { chunk: "-1 seconds" }, { firstChunk: Number.NaN }] as const)
    testGiven([])(`MONEY-1 limits that cannot be are refused: ${JSON.stringify(timeouts)}`, function* () {
      const { message } = yield* failsFor("OptionsInvalid", Agent.make("a").run("Go", { timeouts }))
      assert.include(message, `expected a duration of more than 0 as timeouts.${Object.keys(timeouts)[0]}`)
      yield* failsFor("DefinitionInvalid", Agent.make("a", { timeouts }).run("Go"))
    })
})

const parts = { description: "Does it", parameters: Schema.Struct({}), success: Schema.String }
const toolkit = Toolkit.make(Tool.make("left", parts), Tool.make("right", parts))

describe("MONEY-1 the choice of tools and the calls at a time", () => {
  const idle = toolkit.toLayer({ left: () => Effect.succeed("l"), right: () => Effect.succeed("r") })

  test("MONEY-1 an agent has a choice of tools, which a run overrides", function* () {
    const agent = Agent.make("chooser", { toolkit, toolChoice: { tool: "left" } })
    const model = ScriptedModel.layer([
      { toolCalls: [call("c", "left", {})], expect: { toolChoice: { tool: "left" } } },
      { text: "done", expect: { toolChoice: "auto" } },
      { text: "done", expect: { toolChoice: "none" } }
    ])
    yield* Effect.gen(function* () {
      yield* endsAs("Completed", agent.run("Go"))
      yield* endsAs("Completed", agent.run("Go", { toolChoice: "none" }))
    }).pipe(Effect.provide(Layer.merge(model, idle)))
  })

  /** The most calls that ran at a time. */
  const most = (agent: typeof width, options: Agent.Options, runtime: Layer.Layer<never> = Layer.empty) =>
    Effect.gen(function* () {
      let now = 0
      let found = 0
      const all = yield* Deferred.make<void>()
      const work = Effect.suspend(() => {
        now += 1
        found = Math.max(found, now)
        return Effect.raceFirst(Deferred.await(all), Effect.sleep("1 second"))
      }).pipe(Effect.andThen(Effect.sync(() => void (now -= 1))), Effect.as("did"))
      const calls = ["a", "b", "c", "d"].map((id) => call(id, "left", {}))
      const running = endsAs("Completed", agent.run("Go", options)).pipe(
        Effect.provide(toolkit.toLayer({ left: () => work, right: () => work })),
        Effect.provide(ScriptedModel.layer([{ toolCalls: calls }, { text: "done" }])),
        Effect.provide(runtime)
      )
      yield* after("5 seconds", running)
      return found
    })
  const width = Agent.make("wide", { toolkit, concurrency: 3 })
  const plain = Agent.make("plain", { toolkit })

  test("MONEY-1 calls run side by side as the agent or the run has it, and a runtime that is provided may allow fewer", function* () {
    assert.strictEqual(yield* most(plain, {}), 1)
    assert.strictEqual(yield* most(width, {}), 3)
    assert.strictEqual(yield* most(width, { concurrency: "unbounded" }), 4)
    assert.strictEqual(yield* most(width, {}, ToolRuntime.layerConcurrent({ maxConcurrency: 2 })), 2)
    assert.strictEqual(yield* most(width, {}, ToolRuntime.layerInline), 1)
    assert.strictEqual(yield* most(plain, {}, ToolRuntime.layerConcurrent({ maxConcurrency: 2 })), 2)
  })

  test("MONEY-1 L3 version 2 has all of them, and version 1 names each as a loss", function* () {
    const definition = yield* Agent.definition(
      Agent.make("all", {
        model: "openai/gpt-5.2",
        toolkit,
        timeouts: { model: "2 minutes", firstChunk: "20 seconds", chunk: Duration.infinity },
        toolChoice: { every: { mode: "required", oneOf: ["left"] } },
        concurrency: 4
      })
    )
    const json = yield* AgentDefinition.codec.encode(definition)
    const { concurrency, timeouts, tool_choice } = json
    assert.deepStrictEqual(
      { concurrency, timeouts, tool_choice },
      {
        concurrency: 4,
        timeouts: { model: 120_000, first_chunk: 20_000 },
        tool_choice: { every: { mode: "required", one_of: ["left"] } }
      }
    )
    assert.deepStrictEqual(yield* AgentDefinition.codec.decode(json), definition)
    const error = yield* Effect.flip(AgentDefinition.codec.encode(definition, { version: 1 }))
    assert(error._tag === "LossyEncoding")
    const paths = error.losses.map(({ path }) => path).filter((path) => !path.startsWith("/tools"))
    assert.deepStrictEqual(paths, ["/timeouts", "/toolChoice", "/concurrency"])
    yield* Effect.flip(AgentDefinition.codec.decode({ ...json, concurrency: 0 }))
    yield* Effect.flip(AgentDefinition.codec.decode({ ...json, timeouts: { chunk: -1 } }))
    const wrong = yield* Effect.flip(AgentDefinition.codec.decode({ ...json, tool_choice: { tool: "up" } }))
    assert(wrong.reason._tag === "Invalid")
    assert.deepStrictEqual(
      wrong.reason.issues.map(({ found, path }) => [path, found]),
      [["/tool_choice", `"up"`]]
    )
    yield* failsFor("DefinitionInvalid", Agent.make("a", { toolkit, toolChoice: { tool: "up" } }).run("Go")).pipe(
      Effect.provide(Layer.merge(idle, ScriptedModel.layer([])))
    )
  })
})

describe("MONEY-1 options of the model", () => {
  test("MONEY-1 options of a run take the place of the options of the agent with the same names", function* () {
    const seen: Array<unknown> = []
    const registry = ModelRegistry.layer({
      demo: ModelRegistry.provider({
        options: ModelRegistry.Sampling,
        model: (_, options) => {
          seen.push(options)
          return ScriptedModel.layer(() => ({ text: "done" }))
        }
      })
    })
    const agent = Agent.make("a", { model: "demo/m", modelOptions: { temperature: 1, seed: 1 }, reasoning: "low" })
    yield* Effect.gen(function* () {
      yield* endsAs("Completed", agent.run("Go", { modelOptions: { temperature: 0, top_p: 0.5 }, reasoning: "high" }))
      yield* endsAs("Completed", agent.run("Go"))
      const { message } = yield* failsFor("ModelRegistryFailed", agent.run("Go", { modelOptions: { heat: 1 } }))
      assert.include(message, "heat")
    }).pipe(Effect.provide(registry))
    assert.deepStrictEqual(seen, [
      { temperature: 0, seed: 1, top_p: 0.5, reasoning: "high" },
      { temperature: 1, seed: 1, reasoning: "low" }
    ])
  })

  test("MONEY-1 options that the LanguageModel of a context cannot take are refused, not dropped", function* () {
    const model = ScriptedModel.layer([{ text: "done" }])
    yield* Effect.gen(function* () {
      const agent = Agent.make("a", { modelOptions: { temperature: 0 } })
      const { message } = yield* failsFor("ModelRegistryFailed", agent.run("Go"))
      assert.include(message, `a LanguageModel of the context takes no options, got "temperature"`)
      yield* failsFor("ModelRegistryFailed", Agent.make("b").run("Go", { reasoning: "high" }))
      yield* LanguageModel.LanguageModel
    }).pipe(Effect.provide(model))
  })
})
