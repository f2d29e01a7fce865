/** MONEY-1: a run continues with the next model where one has failed. */
import { assert, describe } from "@effect/vitest"
import { Effect, ExecutionPlan, Layer, Result, Schedule, Schema, Stream } from "effect"
import { AiError, type LanguageModel, Tool, Toolkit } from "effect/ai"
import { Agent, AgentDefinition, Conversation, ModelRegistry, Run, ToolResolver } from "effect-emissary"
import { ChatEvent } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { after } from "../after.ts"
import { endsAs, failsFor, failsMidway } from "../outcomes.ts"
import { test } from "../test.ts"
import { call, throughJson } from "./fixtures.ts"

const Pay = Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Int }), success: Schema.String })
const toolkit = Toolkit.make(Pay)

/** A handler of the tool, and the payments that it made. */
const payments = () => {
  const made: Array<number> = []
  return { made, layer: toolkit.toLayer({ pay: ({ amount }) => Effect.sync(() => `payment ${made.push(amount)}`) }) }
}

type Script = ReadonlyArray<ScriptedModel.Turn>

/** A registry of the models `a/m`, `b/m` and `c/m`, and the names of the models that were asked. */
const models = (scripts: { readonly [name: string]: Script }) => {
  const asked: Array<string> = []
  const provider = (name: string) => {
    let index = 0
    const layer = ScriptedModel.layer(
      () =>
        Effect.sync((): ScriptedModel.Turn => {
          asked.push(name)
          return scripts[name]?.[index++] ?? { fail: { reason: "UnknownError", description: "once too often" } }
        }),
      { chunkSize: 1 }
    )
    return ModelRegistry.provider({ options: ModelRegistry.Sampling, model: () => layer })
  }
  return { asked, layer: ModelRegistry.layer({ a: provider("a"), b: provider("b"), c: provider("c") }) }
}

const noRetry = { times: 0 }

const of = (...model: readonly [string, ...Array<string>]) =>
  Agent.make("payer", { model, toolkit, instructions: "You pay.", retry: noRetry })

const pays = { toolCalls: [call("c1", "pay", { amount: 5 })] } as const

const transcriptOf = ({ conversation }: { readonly conversation: Conversation.Conversation }) =>
  Conversation.transcript(conversation)

/** The state without ids, times and what names the model. */
const shapeOf = ({ answer, calls, limited, mistakes, outcome, pending, steps, totalSteps }: Run.State) => ({
  answer,
  calls,
  limited,
  mistakes,
  outcome,
  pending,
  steps,
  totalSteps
})

const retriesIn = (log: ReadonlyArray<Run.Event>) =>
  log.flatMap((event) =>
    event._tag === "StepRetried" ? [[event.attempt, event.error, event.pauseMillis, event.model]] : []
  )

const keeping = () => {
  const log: Array<Run.Event> = []
  return { log, onEvent: ({ event }: Agent.RecordedEvent) => Effect.sync(() => void log.push(event)) }
}

const failures = [
  "RateLimitError",
  "QuotaExhaustedError",
  "InternalProviderError",
  "NetworkError"
] as const satisfies ReadonlyArray<ScriptedModel.Failure["reason"]>

const refusals = [
  "AuthenticationError",
  "ContentPolicyError",
  "InvalidRequestError",
  "UnknownError"
] as const satisfies ReadonlyArray<ScriptedModel.Failure["reason"]>

describe("MONEY-1 fallback", () => {
  for (const reason of failures)
    test(`MONEY-1 ${reason} goes to the next model, which the event and the state name`, function* () {
      const { asked, layer } = models({ a: [pays, { fail: { reason } }], b: [{ text: "Paid." }] })
      const { layer: tools, made } = payments()
      const { log, onEvent } = keeping()
      const running = endsAs("Completed", of("a/m", "b/m").run("Pay 5", { onEvent }))
      const { state, text } = yield* Effect.provide(running, Layer.merge(layer, tools))
      assert.deepStrictEqual([text, asked, made, state.model], ["Paid.", ["a", "a", "b"], [5], "b/m"])
      assert.deepStrictEqual(retriesIn(log), [[1, reason, 0, "b/m"]])
      assert.deepStrictEqual(yield* throughJson(Result.getOrThrow(Run.fold(log))), yield* throughJson(state))
    })

  for (const reason of refusals)
    test(`MONEY-1 ${reason} fails the run: no other model is asked`, function* () {
      const { asked, layer } = models({ a: [{ fail: { reason } }], b: [{ text: "never" }] })
      const error = yield* failsFor("ModelFailed", of("a/m", "b/m").run("Pay 5")).pipe(
        Effect.provide(Layer.merge(layer, payments().layer))
      )
      assert.deepStrictEqual([error.reason.error, error.reason.model, asked], [reason, "a/m", ["a"]])
    })

  test("MONEY-1 mastra 14039 each model has its own retries once, and the rest of the turn stays with the model that answered", function* () {
    const limited: ScriptedModel.Turn = { fail: { reason: "RateLimitError" } }
    const script = { a: [limited, limited], b: [limited, pays, limited, { text: "Paid." }] }
    const { asked, layer } = models(script)
    const { log, onEvent } = keeping()
    const agent = Agent.make("payer", {
      model: ["a/m", "b/m"],
      toolkit,
      retry: { times: 1, delay: "1 second", factor: 1 }
    })
    const running = endsAs("Completed", agent.run("Pay 5", { onEvent }))
    yield* after("3 seconds", running).pipe(Effect.provide(Layer.merge(layer, payments().layer)))
    assert.deepStrictEqual(asked, ["a", "a", "b", "b", "b", "b"])
    assert.deepStrictEqual(retriesIn(log), [
      [2, "RateLimitError", 1000, undefined],
      [1, "RateLimitError", 0, "b/m"],
      [2, "RateLimitError", 1000, undefined],
      [2, "RateLimitError", 1000, undefined]
    ])
  })

  test("MONEY-1 the next turn begins with the first model, and a run that failed with all of them, too", function* () {
    const down: ScriptedModel.Turn = { fail: { reason: "InternalProviderError" } }
    const { asked, layer } = models({
      a: [down, { text: "a again" }, down, { text: "and again" }],
      b: [{ text: "b" }, down]
    })
    yield* Effect.gen(function* () {
      const first = yield* endsAs("Completed", of("a/m", "b/m").run("One"))
      const second = yield* endsAs("Completed", of("a/m", "b/m").resume(first.state, { input: "Two" }))
      assert.deepStrictEqual([second.text, second.state.model], ["a again", undefined])
      const error = yield* failsMidway("ModelFailed", of("a/m", "b/m").resume(second.state, { input: "Three" }))
      assert.deepStrictEqual([error.reason.model, error.state.model], ["b/m", "b/m"])
      const last = yield* endsAs("Completed", of("a/m", "b/m").resume(yield* throughJson(error.state)))
      assert.strictEqual(last.text, "and again")
    }).pipe(Effect.provide(Layer.merge(layer, payments().layer)))
    assert.deepStrictEqual(asked, ["a", "b", "a", "a", "b", "a"])
  })

  test("MONEY-1 a pause that is too long is not waited for where another model is there", function* () {
    const { asked, layer } = models({
      a: [{ fail: { reason: "RateLimitError", retryAfter: 600_000 } }],
      b: [{ text: "b" }]
    })
    const agent = Agent.make("a", { model: ["a/m", "b/m"] })
    yield* Effect.provide(endsAs("Completed", agent.run("Go")), layer)
    assert.deepStrictEqual(asked, ["a", "b"])
  })

  test("MONEY-1 mastra 21280, 21876 an error within a stream leads to the next model, as a request that fails", function* () {
    const error = new AiError.RateLimitError({})
    const parts = [
      { type: "text-start", id: "1" },
      { type: "text-delta", id: "1", delta: "half" },
      { type: "error", error }
    ] as const
    const { asked, layer } = models({ a: [{ parts }], b: [{ text: "b" }] })
    const agent = Agent.make("a", { model: ["a/m", "b/m"], retry: noRetry })
    yield* Effect.provide(Stream.runDrain(agent.stream("Go")), layer)
    assert.deepStrictEqual(asked, ["a", "b"])
  })

  test("MONEY-1 pi-subagents 436 a tool that fails with the words of a provider leads to no other model", function* () {
    const { asked, layer } = models({ a: [pays, { text: "It failed." }], b: [{ text: "never" }] })
    const failing = toolkit.toLayer({ pay: () => Effect.die(new Error("429 Connection timed out after 5000 ms")) })
    yield* Effect.provide(endsAs("Completed", of("a/m", "b/m").run("Pay 5")), Layer.merge(layer, failing))
    assert.deepStrictEqual(asked, ["a", "a"])
  })

  test("MONEY-1 a model that is silent is left for the next one", function* () {
    const { asked, layer } = models({ a: [{ text: "never", delay: "1 hour" }], b: [{ text: "b" }] })
    const agent = Agent.make("a", {
      model: ["a/m", "b/m"],
      retry: noRetry,
      timeouts: { firstChunk: "2 seconds" }
    })
    yield* Effect.provide(after("2 seconds", endsAs("Completed", agent.run("Go"))), layer)
    assert.deepStrictEqual(asked, ["a", "b"])
  })

  test("MONEY-1 a list with a model that the registry does not have fails before the first model is asked", function* () {
    const { asked, layer } = models({ a: [{ text: "never" }] })
    const { message } = yield* failsFor("ModelRegistryFailed", of("a/m", "z/m").run("Go")).pipe(
      Effect.provide(Layer.merge(layer, payments().layer))
    )
    assert.include(message, `the model "z/m" is unavailable: ModelRegistry: "z/m": unknown provider "z"`)
    assert.deepStrictEqual(asked, [])
  })

  test("MONEY-1 an Effect finds a list, and agents that are tools have models of their own", function* () {
    const { asked, layer } = models({
      a: [{ toolCalls: [call("c", "ask", { input: "Go" })] }, { text: "done" }],
      b: [{ fail: { reason: "NetworkError" } }],
      c: [{ text: "found" }]
    })
    const inner = Agent.make("inner", { model: Effect.succeed(["b/m", "c/m"] as const), retry: noRetry })
    const outer = Agent.make("outer", {
      model: "a/m",
      toolkit: [Agent.asTool(inner, { name: "ask", description: "Asks" })]
    })
    const { state } = yield* Effect.provide(endsAs("Completed", outer.run("Go")), layer)
    assert.deepStrictEqual([asked, state.model], [["a", "b", "c", "a"], undefined])
  })
})

describe("MONEY-1 L5 a failure changes nothing but the model", () => {
  const first = { text: "One moment.", ...pays } as const
  const last = { text: "It is paid." } as const

  const run = Effect.fnUntraced(function* (scripts: { readonly a: Script; readonly b: Script }, streaming: boolean) {
    const { layer } = models(scripts)
    const { layer: tools, made } = payments()
    const { log, onEvent } = keeping()
    const agent = of("a/m", "b/m")
    const running = streaming
      ? Effect.map(Stream.runCollect(agent.stream("Pay 5", { onEvent })), (events) => {
          const end = events.at(-1)
          assert(end?._tag === "RunFinished")
          return end.result
        })
      : agent.run("Pay 5", { onEvent })
    const result = yield* Effect.provide(endsAs("Completed", running), Layer.merge(layer, tools))
    return { log, made, result }
  })

  for (const streaming of [false, true])
    test(`MONEY-1 L5 a failure at each chunk of each answer ends with the same state but for the model, and no tool runs twice (${streaming ? "stream" : "run"})`, function* () {
      const undisturbed = yield* run({ a: [first, last], b: [] }, streaming)
      for (const [index, { text }] of [first, last].entries())
        for (let chunks = 0; chunks <= text.length; chunks++) {
          const reason = failures[chunks % failures.length] ?? "NetworkError"
          const cut = { text: text.slice(0, chunks), fail: { reason } }
          const scripts = index === 0 ? { a: [cut], b: [first, last] } : { a: [first, cut], b: [last] }
          const { log, made, result } = yield* run(scripts, streaming)
          assert.deepStrictEqual(transcriptOf(result), transcriptOf(undisturbed.result))
          assert.deepStrictEqual([made, result.steps], [[5], undisturbed.result.steps])
          assert.deepStrictEqual(retriesIn(log), [[1, reason, 0, "b/m"]])
          assert.deepStrictEqual(shapeOf(result.state), shapeOf(undisturbed.result.state))
        }
    })

  test("MONEY-1 a process that dies between the failure and the next model continues from the state", function* () {
    const down: ScriptedModel.Turn = { fail: { reason: "InternalProviderError" } }
    const { asked, layer } = models({ a: [pays, down, { text: "It is paid." }], b: [{ text: "never" }] })
    const { layer: tools, made } = payments()
    const { log, onEvent } = keeping()
    const agent = of("a/m", "b/m")
    yield* Effect.gen(function* () {
      const stops = (event: Run.Event) => (event._tag === "StepRetried" ? {} : undefined)
      yield* agent.run("Pay 5", { onEvent, interruptWhen: stops })
      const until = log.findIndex(({ _tag }) => _tag === "StepRetried")
      const state = yield* throughJson(Result.getOrThrow(Run.fold(log.slice(0, until + 1))))
      assert.strictEqual(state.model, "b/m")
      yield* endsAs("Completed", agent.resume(state))
    }).pipe(Effect.provide(Layer.merge(layer, tools)))
    assert.deepStrictEqual([asked, made], [["a", "a", "a"], [5]])
  })

  test("MONEY-1 L12 what the first model wrote is withdrawn on the screen, before the next one writes", function* () {
    const cut: ScriptedModel.Turn = { text: "half", fail: { reason: "NetworkError" } }
    const { layer } = models({ a: [cut], b: [{ text: "whole" }] })
    const chat = yield* Stream.runCollect(of("a/m", "b/m").stream("Go").pipe(ChatEvent.projectRun())).pipe(
      Effect.provide(Layer.merge(layer, payments().layer))
    )
    const shown = chat.flatMap((event): ReadonlyArray<unknown> => {
      if (event._tag === "AnswerDelta") return [event.delta]
      return event._tag === "Answered" ? [["Answered", event.model]] : event._tag === "AnswerWithdrawn" ? ["gone"] : []
    })
    const gone = shown.indexOf("gone")
    assert.strictEqual("half".startsWith(shown.slice(0, gone).join("")), true)
    assert.deepStrictEqual([shown.slice(gone + 1, -1).join(""), shown.at(-1)], ["whole", ["Answered", "b/m"]])
  })
})

describe("MONEY-1 lists as data", () => {
  const named = Agent.make("named", { model: ["openai/gpt-5.2", "anthropic/claude-sonnet-4-5"] })

  test("MONEY-1 L3 version 2 has the list, and version 1 names what would be lost", function* () {
    const definition = yield* Agent.definition(named)
    const json = yield* AgentDefinition.codec.encode(definition)
    assert.deepStrictEqual(json["model"], ["openai/gpt-5.2", "anthropic/claude-sonnet-4-5"])
    assert.deepStrictEqual(yield* AgentDefinition.codec.decode(json), definition)
    const error = yield* Effect.flip(AgentDefinition.codec.encode(definition, { version: 1 }))
    assert(error._tag === "LossyEncoding")
    assert.deepStrictEqual(
      error.losses.map(({ path }) => path),
      ["/model"]
    )
    const old = yield* AgentDefinition.codec.encode(definition, { version: 1, allowLoss: ["/model"] })
    assert.strictEqual(old["model"], "openai/gpt-5.2")
  })

  for (const [model, path] of [
    [[], "/model/0"],
    [["openai/gpt-5.2", "openai/gpt-5.2"], "/model/1"],
    [["openai/gpt-5.2", "nowhere"], "/model/1"]
  ] as const)
    test(`MONEY-1 L2 a list that cannot be is refused with its place: ${JSON.stringify(model)}`, function* () {
      const error = yield* Effect.flip(AgentDefinition.codec.decode({ schema_version: 2, model }))
      assert(error.reason._tag === "Invalid")
      assert.deepStrictEqual(
        error.reason.issues.map((issue) => issue.path),
        [path]
      )
    })

  test("MONEY-1 an agent that was rebuilt continues with the next model", function* () {
    const { asked, layer } = models({ a: [{ fail: { reason: "RateLimitError" } }], b: [{ text: "b" }] })
    const wire = yield* Agent.encode(Agent.make("x", { model: ["a/m", "b/m"], retry: noRetry }))
    const rebuilt = yield* Agent.decode(wire).pipe(
      Effect.flatMap((agent) => endsAs("Completed", agent.run("Go"))),
      Effect.provide(Layer.merge(layer, ToolResolver.layerStubs()))
    )
    assert.deepStrictEqual([rebuilt.text, asked], ["b", ["a", "b"]])
  })
})

describe("MONEY-1 an ExecutionPlan as the model", () => {
  const scripted = (...turns: Script): Layer.Layer<LanguageModel.LanguageModel> => ScriptedModel.layer(turns)
  const limited: ScriptedModel.Turn = { fail: { reason: "RateLimitError" } }

  test("MONEY-1 its steps are the models, with their attempts and conditions", function* () {
    const seen: Array<string> = []
    const model = ExecutionPlan.make(
      { provide: scripted(limited, limited, pays), attempts: 2 },
      { provide: scripted({ text: "never" }), while: () => false },
      {
        provide: scripted(pays, { text: "Paid." }),
        while: (error: AiError.AiError) => Effect.sync(() => seen.push(error.reason._tag) > 0)
      }
    )
    const { layer, made } = payments()
    const { log, onEvent } = keeping()
    const agent = Agent.make("planned", { model, toolkit, retry: { times: 5, delay: 0 } })
    const { state, text } = yield* Effect.provide(endsAs("Completed", agent.run("Pay 5", { onEvent })), layer)
    assert.deepStrictEqual([text, made, state.model, seen], ["Paid.", [5], "model 3", ["RateLimitError"]])
    assert.deepStrictEqual(retriesIn(log), [
      [2, "RateLimitError", 0, undefined],
      [1, "RateLimitError", 0, "model 3"]
    ])
  })

  test("MONEY-1 L1 a plan is code: the agent has no definition, and a schedule is refused", function* () {
    const planned = Agent.make("planned", { model: ExecutionPlan.make({ provide: scripted({ text: "Hi." }) }) })
    const error = yield* Effect.flip(Agent.encode(planned))
    assert(error._tag === "AgentError")
    assert.strictEqual(error.reason._tag, "DefinitionInvalid")
    assert.include(error.message, "/model: expected names of models, which data can have, got an ExecutionPlan")
    yield* endsAs("Completed", planned.run("Go"))
    const outer = Agent.make("outer", {
      model: ExecutionPlan.make({
        provide: scripted({ toolCalls: [call("c", "ask", { input: "Go" })] }, { text: "done" })
      }),
      toolkit: [Agent.asTool(planned, { name: "ask", description: "Asks" })]
    })
    yield* endsAs("Completed", outer.run("Go"))
    const provide = scripted({ text: "Hi." })
    const paced = Agent.make("paced", { model: ExecutionPlan.make({ provide, schedule: Schedule.recurs(1) }) })
    const refused = yield* failsFor("DefinitionInvalid", paced.run("Go"))
    assert.include(refused.message, "/model: expected steps without a schedule, got a schedule in step 1")
  })
})
