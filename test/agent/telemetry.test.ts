/** OTEL-1: the spans of runs by the conventions of OpenTelemetry, and what they may hold. */
import { assert, describe } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Layer, Metric, Option, Schema, Stream, Tracer } from "effect"
import { LanguageModel, Model, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import {
  Agent,
  ContextWindow,
  Conversation,
  Limits,
  Message,
  ModelRegistry,
  Telemetry,
  ToolFailure
} from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import { call } from "./fixtures.ts"

interface Recorded {
  readonly name: string
  readonly kind: Tracer.SpanKind
  readonly parent: string | undefined
  readonly attributes: Readonly<Record<string, unknown>>
  readonly error: string | undefined
}

/** A tracer, and the spans as an exporter reads them when they have ended. */
const tracing = () => {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  const ended = (): ReadonlyArray<Recorded> =>
    spans.map(({ attributes, kind, name, parent, status }) => {
      assert(status._tag === "Ended", `${name} has ended`)
      return {
        name,
        kind,
        parent: Option.isSome(parent) && parent.value._tag === "Span" ? parent.value.name : undefined,
        attributes: Object.fromEntries(attributes),
        error: Exit.isFailure(status.exit) ? Cause.prettyErrors(status.exit.cause)[0]?.name : undefined
      }
    })
  const shown = () =>
    spans
      .map(({ attributes, events, status }) => {
        const cause = status._tag === "Ended" && Exit.isFailure(status.exit) ? Cause.pretty(status.exit.cause) : ""
        return JSON.stringify([[...attributes], events.map(([name, , more]) => [name, more]), cause])
      })
      .join("\n")
  return { ended, shown, layer: Layer.succeed(Tracer.Tracer, tracer) }
}

const named = (spans: ReadonlyArray<Recorded>, name: string): Recorded =>
  spans.find((span) => span.name === name) ?? assert.fail(`no span ${name} in ${spans.map((span) => span.name).join()}`)

/** The attributes without the attributes that core adds. */
const withoutCore = ({ attributes }: Recorded) =>
  Object.fromEntries(Object.entries(attributes).filter(([name]) => !name.startsWith("effect.")))

const Search = Tool.make("search", {
  description: "Finds documents",
  parameters: Schema.Struct({ query: Schema.String }),
  success: Schema.String,
  failure: ToolFailure
})
const tools = Toolkit.make(Search)
const handlers = tools.toLayer({
  search: ({ query }) =>
    query === "fail" ? ToolFailure.error("no such thing", { type: "not_found" }) : Effect.succeed("found")
})

const script: ReadonlyArray<ScriptedModel.Turn> = [
  {
    toolCalls: [call("c1", "search", { query: "a" }), call("c2", "search", { query: "fail" })],
    parts: [
      {
        type: "response-metadata",
        id: "resp_1",
        modelId: "gpt-5.2-2026-01-01",
        timestamp: undefined
      }
    ],
    usage: { inputTokens: 10, outputTokens: 5, cacheReadTokens: 4, reasoningTokens: 2 }
  },
  { text: "done", usage: { inputTokens: 20, outputTokens: 1 } }
]

const world = (turns: ScriptedModel.Script = script) =>
  Layer.mergeAll(handlers, ModelRegistry.layerContext).pipe(Layer.provideMerge(ScriptedModel.layer(turns)))

const agent = Agent.make("finder", {
  model: "openai/gpt-5.2",
  modelOptions: { temperature: 0.5, max_output_tokens: 100, endpoint_note: "private" },
  toolkit: tools
})

describe("OTEL-1 spans", () => {
  for (const [how, run] of [
    ["run", (input: string) => Effect.asVoid(agent.run(input))],
    ["stream", (input: string) => Stream.runDrain(agent.stream(input))]
  ] as const) {
    test(
      `OTEL-1 of an agent, its model calls and its tools have the attributes of the conventions (${how})`,
      world(),
      function* () {
        const { ended, layer } = tracing()
        yield* Effect.provide(run("Go"), layer)
        const spans = ended()
        assert.deepStrictEqual(
          spans.map(({ kind, name, parent }) => [kind, name, parent]),
          [
            ["internal", "invoke_agent finder", undefined],
            ["client", "chat gpt-5.2", "invoke_agent finder"],
            ["internal", "execute_tool search", "invoke_agent finder"],
            ["internal", "execute_tool search", "invoke_agent finder"],
            ["client", "chat gpt-5.2", "invoke_agent finder"]
          ]
        )
        const [invoked, chat, found, missing, last] = spans
        assert(invoked && chat && found && missing && last)
        const { "emissary.agent.digest": digest, "emissary.run.id": runId, ...about } = withoutCore(invoked)
        assert.match(String(digest), /^sha256:[0-9a-f]{64}$/)
        assert.match(String(runId), /^run_/)
        assert.deepStrictEqual(about, {
          "gen_ai.operation.name": "invoke_agent",
          "gen_ai.agent.name": "finder",
          "gen_ai.request.model": "gpt-5.2",
          "gen_ai.usage.input_tokens": 30,
          "gen_ai.usage.output_tokens": 6,
          "gen_ai.usage.cache_read.input_tokens": 4,
          "gen_ai.usage.reasoning.output_tokens": 2,
          "emissary.run.outcome": "Completed",
          "emissary.run.steps": 2
        })
        const asked = {
          "gen_ai.operation.name": "chat",
          "gen_ai.provider.name": "openai",
          "gen_ai.request.model": "gpt-5.2",
          "gen_ai.request.temperature": 0.5,
          "gen_ai.request.max_tokens": 100,
          "gen_ai.output.type": "text",
          ...(how === "stream" && { "gen_ai.request.stream": true, "gen_ai.response.time_to_first_chunk": 0 })
        }
        assert.deepStrictEqual(withoutCore(chat), {
          ...asked,
          "gen_ai.response.id": "resp_1",
          "gen_ai.response.model": "gpt-5.2-2026-01-01",
          "gen_ai.response.finish_reasons": ["tool-calls"],
          "gen_ai.usage.input_tokens": 10,
          "gen_ai.usage.output_tokens": 5,
          "gen_ai.usage.cache_read.input_tokens": 4,
          "gen_ai.usage.reasoning.output_tokens": 2
        })
        assert.deepStrictEqual(withoutCore(last), {
          ...asked,
          "gen_ai.response.finish_reasons": ["stop"],
          "gen_ai.usage.input_tokens": 20,
          "gen_ai.usage.output_tokens": 1
        })
        const tool = {
          "gen_ai.operation.name": "execute_tool",
          "gen_ai.tool.name": "search",
          "gen_ai.tool.type": "function",
          "gen_ai.tool.description": "Finds documents",
          "gen_ai.agent.name": "finder"
        }
        assert.deepStrictEqual(found.attributes, { ...tool, "gen_ai.tool.call.id": "c1" })
        assert.deepStrictEqual(missing.attributes, {
          ...tool,
          "gen_ai.tool.call.id": "c2",
          "error.type": "not_found"
        })
        assert.deepStrictEqual([found.error, missing.error], [undefined, "not_found"])
      }
    )
  }

  test(
    "OTEL-1 a failed model call, and its run, have the class of the error",
    world([{ fail: { reason: "RateLimitError" } }]),
    function* () {
      const { ended, layer } = tracing()
      yield* Effect.flip(Effect.provide(agent.run("Go", { retry: { times: 0 } }), layer))
      const [invoked, chat] = ended()
      assert(invoked && chat)
      assert.strictEqual(chat.attributes["error.type"], "RateLimitError")
      assert.isDefined(chat.error)
      assert.strictEqual(invoked.attributes["error.type"], "ModelFailed")
      assert.isDefined(invoked.error)
    }
  )

  const cut: ScriptedModel.Script = [{ finishReason: "missing" }]
  test("OTEL-1 an answer that cannot be used is an error of its call", world(cut), function* () {
    const { ended, layer } = tracing()
    yield* Effect.flip(Effect.provide(agent.run("Go", { retry: { times: 0 } }), layer))
    assert.strictEqual(named(ended(), "chat gpt-5.2").attributes["error.type"], "InternalProviderError")
  })

  test("OTEL-1 each attempt is a span", world([{ fail: { reason: "RateLimitError" } }, { text: "ok" }]), function* () {
    const { ended, layer } = tracing()
    yield* Effect.provide(agent.run("Go", { retry: { times: 1, delay: 0 } }), layer)
    const chats = ended().filter(({ name }) => name === "chat gpt-5.2")
    assert.deepStrictEqual(
      chats.map(({ attributes }) => attributes["error.type"]),
      ["RateLimitError", undefined]
    )
  })

  test("OTEL-1 an agent that is a tool, and its model call, are inside of the call", function* () {
    const inner = Agent.make("inner", { toolkit: tools })
    const outer = Agent.make("outer", { toolkit: [Agent.asTool(inner, { name: "ask", description: "Asks" })] })
    const { ended, layer } = tracing()
    const turns: ScriptedModel.Script = [
      { toolCalls: [call("c1", "ask", { input: "x" })] },
      { toolCalls: [call("c2", "search", { query: "a" })] },
      { text: "inner" },
      { text: "outer" }
    ]
    yield* Effect.provide(outer.run("Go"), [world(turns), layer])
    assert.deepStrictEqual(
      ended().map(({ attributes, name, parent }) => [name, parent, attributes["gen_ai.agent.name"]]),
      [
        ["invoke_agent outer", undefined, "outer"],
        ["chat", "invoke_agent outer", undefined],
        ["execute_tool ask", "invoke_agent outer", "outer"],
        ["invoke_agent inner", "execute_tool ask", "inner"],
        ["chat", "invoke_agent inner", undefined],
        ["execute_tool search", "invoke_agent inner", "inner"],
        ["chat", "invoke_agent inner", undefined],
        ["chat", "invoke_agent outer", undefined]
      ]
    )
  })

  test("OTEL-1 a call whose agent waits for a decision is no error", function* () {
    const Pay = Tool.make("pay", { success: Schema.String, needsApproval: true })
    const payments = Toolkit.make(Pay)
    const inner = Agent.make("inner", { toolkit: payments })
    const outer = Agent.make("outer", { toolkit: [Agent.asTool(inner, { name: "ask", description: "Asks" })] })
    const { ended, layer } = tracing()
    const turns: ScriptedModel.Script = [
      { toolCalls: [call("c1", "ask", { input: "x" })] },
      { toolCalls: [call("c2", "pay", {})] }
    ]
    const payer = payments.toLayer({ pay: () => Effect.succeed("paid") })
    yield* Effect.provide(outer.run("Go"), [payer, ScriptedModel.layer(turns), layer])
    const spans = ended()
    for (const name of ["invoke_agent outer", "execute_tool ask", "invoke_agent inner"]) {
      assert.notProperty(named(spans, name).attributes, "error.type")
      assert.isUndefined(named(spans, name).error)
    }
    assert.strictEqual(named(spans, "invoke_agent outer").attributes["emissary.run.outcome"], "AwaitingApproval")
  })

  test("OTEL-1 a resumed run has the tokens that it used itself", function* () {
    const { ended, layer } = tracing()
    const turns: ScriptedModel.Script = [...script.slice(0, 1), { text: "done", usage: { inputTokens: 20 } }]
    const resumed = Effect.flatMap(agent.run("Go", { maxSteps: 1 }), ({ state }) =>
      agent.resume(state, { maxSteps: 2 })
    )
    yield* Effect.provide(resumed, [world(turns), layer])
    const runs = ended().filter(({ name }) => name === "invoke_agent finder")
    assert.deepStrictEqual(
      runs.map(({ attributes }) => [attributes["emissary.run.outcome"], attributes["gen_ai.usage.input_tokens"]]),
      [
        ["MaxSteps", 10],
        ["Completed", 20]
      ]
    )
  })

  test("OTEL-1 the ambient model is named by Model.make of effect/ai, and a model without a name is not", function* () {
    const ambient = Agent.make("ambient", {})
    for (const [layer, expected] of [
      [Model.make("mistral", "large", ScriptedModel.layer([{ text: "ok" }])), ["chat large", "mistral_ai"]],
      [ScriptedModel.layer([{ text: "ok" }]), ["chat", undefined]]
    ] as const) {
      const { ended, layer: tracer } = tracing()
      yield* Effect.provide(ambient.run("Go"), [layer, tracer])
      const chat = ended()[1]
      assert.deepStrictEqual<ReadonlyArray<unknown>>([chat?.name, chat?.attributes["gen_ai.provider.name"]], expected)
    }
  })

  test("OTEL-1 a model that asks two models has one span, and its own spans are inside", world(), function* () {
    const model = yield* LanguageModel.LanguageModel
    const twice = yield* LanguageModel.make({
      generateText: ({ prompt }) =>
        Effect.withSpan(
          Effect.map(model.generateText({ prompt, toolkit: tools, disableToolCallResolution: true }), () => [
            { type: "text", text: "ok" } as const
          ]),
          "own"
        ),
      streamText: () => Stream.empty
    })
    const { ended, layer } = tracing()
    yield* Agent.make("plain", {})
      .run("Go")
      .pipe(Effect.provideService(LanguageModel.LanguageModel, twice), Effect.provide(layer))
    assert.deepStrictEqual(
      ended().map(({ name, parent }) => [name, parent]),
      [
        ["invoke_agent plain", undefined],
        ["chat", "invoke_agent plain"],
        ["own", "chat"],
        ["chat", "own"]
      ]
    )
  })

  const summarizing: ScriptedModel.Script = [{ fail: { reason: "UnknownError", description: "sk-SECRET" } }]
  test(
    "OTEL-1 the model call of a summary is a model call, and its error has no text",
    world(summarizing),
    function* () {
      const { ended, layer, shown } = tracing()
      const messages = [yield* Message.user("a ".repeat(2000)), yield* Message.assistant("ok")]
      const long = yield* Effect.fromResult(Conversation.appendAll(Conversation.empty, messages))
      const summarize = () => Effect.map(LanguageModel.generateText({ prompt: "Sum up" }), ({ text }) => text)
      const contextWindow = ContextWindow.summarize({ above: 200, keepRecent: 1, summarize })
      yield* Effect.flip(Effect.provide(agent.run("Go", { conversation: long, contextWindow }), layer))
      const chat = named(ended(), "chat gpt-5.2")
      assert.strictEqual(chat.attributes["gen_ai.provider.name"], "openai")
      assert.isDefined(chat.error)
      assert.notInclude(shown(), "SECRET")
    }
  )

  test("OTEL-1 a plan is a workflow, its steps and their agents are inside", world([{ text: "ok" }]), function* () {
    const inner = Agent.make("inner", {})
    const plan = yield* Plan.make("daily", [
      Step.make("ask", { target: inner }),
      Step.make("fail", { target: () => Effect.fail("no") })
    ])
    const { ended, layer } = tracing()
    const bound = yield* Plan.bind(plan)
    yield* Effect.flip(Effect.provide(Plan.run(bound, "Go"), layer))
    const spans = ended()
    assert.deepStrictEqual(
      spans.map(({ name, parent }) => [name, parent]),
      [
        ["invoke_workflow daily", undefined],
        ["step ask", "invoke_workflow daily"],
        ["invoke_agent inner", "step ask"],
        ["chat", "invoke_agent inner"],
        ["step fail", "invoke_workflow daily"]
      ]
    )
    const { "emissary.plan.digest": digest, ...about } = named(spans, "invoke_workflow daily").attributes
    assert.strictEqual(digest, bound.digest)
    assert.deepStrictEqual(about, {
      "gen_ai.operation.name": "invoke_workflow",
      "gen_ai.workflow.name": "daily",
      "error.type": "StepFailed"
    })
    assert.isString(named(spans, "step fail").attributes["error.type"])
  })

  test("OTEL-1 annotations of the caller are on all spans, such as the id of the conversation", world(), function* () {
    const { ended, layer } = tracing()
    yield* agent.run("Go").pipe(Effect.annotateSpans("gen_ai.conversation.id", "chat_7"), Effect.provide(layer))
    for (const { attributes } of ended()) assert.strictEqual(attributes["gen_ai.conversation.id"], "chat_7")
  })
})

describe("OTEL-1 content", () => {
  const turns: ScriptedModel.Script = [
    {
      reasoning: "Hm.",
      text: "I look.",
      toolCalls: [call("c1", "search", { query: "a", password: "hunter2" }), call("c2", "search", { query: "fail" })]
    },
    { text: "The key is sk-live-1234567890abcdef." }
  ]
  const talkative = Agent.make("talkative", { instructions: "Search.", toolkit: tools })

  const captured = (redactor?: Telemetry.Redactor) =>
    Effect.gen(function* () {
      const { ended, layer } = tracing()
      yield* Effect.provide(talkative.run("Go"), [world(turns), Telemetry.captureContent(redactor), layer])
      return ended()
    })
  const contentOf = (span: Recorded | undefined) =>
    Object.fromEntries(
      Object.entries(span?.attributes ?? {}).flatMap(([name, value]) =>
        /instructions|messages|arguments|result$/.test(name)
          ? [[name.replace(/^gen_ai./, ""), JSON.parse(String(value))]]
          : []
      )
    )

  test("OTEL-1 is recorded in the JSON of the conventions, and the default redactor masks secrets", function* () {
    const [, first, found, failed, second] = yield* captured()
    const failure = {
      type: "not_found",
      message: "no such thing",
      value: { _tag: "ToolFailure", message: "no such thing", type: "not_found" }
    }
    const text = (content: string) => ({ type: "text", content })
    const asked = [
      { type: "reasoning", content: "Hm." },
      text("I look."),
      { type: "tool_call", id: "c1", name: "search", arguments: { query: "a", password: "[redacted]" } },
      { type: "tool_call", id: "c2", name: "search", arguments: { query: "fail" } }
    ]
    assert.deepStrictEqual(contentOf(first), {
      system_instructions: [text("Search.")],
      "input.messages": [{ role: "user", parts: [text("Go")] }],
      "output.messages": [{ role: "assistant", parts: asked, finish_reason: "tool_call" }]
    })
    assert.deepStrictEqual(contentOf(found), { "tool.call.arguments": { query: "a" }, "tool.call.result": "found" })
    assert.deepStrictEqual(contentOf(failed), {
      "tool.call.arguments": { query: "fail" },
      "tool.call.result": failure
    })
    assert.deepStrictEqual(contentOf(second), {
      system_instructions: [text("Search.")],
      "input.messages": [
        { role: "user", parts: [text("Go")] },
        { role: "assistant", parts: asked },
        {
          role: "tool",
          parts: [
            { type: "tool_call_response", id: "c1", response: "found" },
            { type: "tool_call_response", id: "c2", response: failure }
          ]
        }
      ],
      "output.messages": [{ role: "assistant", parts: [text("The key is [redacted].")], finish_reason: "stop" }]
    })
  })

  test("MEND-2 long texts are cut before they are masked, and masking has fuel", function* () {
    const { ended, layer } = tracing()
    const talk = (text: string, maxFuel?: number) => {
      const content = Telemetry.captureContent()
      const limited = maxFuel === undefined ? content : Layer.provide(content, Limits.layer({ maxFuel }))
      return Effect.provide(talkative.run(text), [world([{ text: "ok" }]), limited, layer])
    }
    const inputOf = (at: number) =>
      contentOf(ended().filter(({ name }) => name.startsWith("chat"))[at])["input.messages"]
    yield* talk("eyJ-".repeat(50_000))
    yield* talk("a".repeat(10_000), 1000)
    const cut = `${"eyJ-".repeat(8092)} [167632 more characters]`
    assert.deepStrictEqual(inputOf(0), [{ role: "user", parts: [{ type: "text", content: cut }] }])
    assert.deepStrictEqual(inputOf(1), [{ role: "user", parts: [{ type: "text", content: "[redacted]" }] }])
  })

  test("OTEL-1 a redactor decides, and content for which it throws is left out", function* () {
    const [, first, found] = yield* captured((content, attribute) => {
      if (attribute === "gen_ai.tool.call.arguments") throw new Error("no")
      return attribute === "gen_ai.tool.call.result" ? `<${JSON.stringify(content)}>` : undefined
    })
    assert.deepStrictEqual(contentOf(first), {})
    assert.deepStrictEqual(contentOf(found), { "tool.call.result": `<"found">` })
  })

  test("OTEL-1 files have their kind and no bytes", function* () {
    const { ended, layer } = tracing()
    const input = [
      { type: "file", mediaType: "image/png", data: { type: "base64", base64: "AAAA" } },
      { type: "file", mediaType: "application/pdf", data: { type: "url", url: "https://example.test/a.pdf" } }
    ] as const
    yield* Effect.provide(talkative.run(input), [world([{ text: "ok" }]), Telemetry.captureContent(), layer])
    assert.deepStrictEqual(contentOf(ended()[1])["input.messages"], [
      {
        role: "user",
        parts: [
          { type: "blob", modality: "image", mime_type: "image/png", content: "" },
          { type: "uri", modality: "document", mime_type: "application/pdf", uri: "https://example.test/a.pdf" }
        ]
      }
    ])
  })
})

describe("OTEL-1 metrics", () => {
  const measured = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.andThen(effect, Metric.snapshot).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
  const shown = (metrics: ReadonlyArray<Metric.Metric.Snapshot>) =>
    metrics.flatMap(({ attributes, id, state, type }) =>
      type === "Histogram" ? [[id, { ...attributes }, state.count, state.sum]] : []
    )

  test("OTEL-1 a program that does not ask for metrics has none", world(), function* () {
    assert.deepStrictEqual(yield* measured(agent.run("Go")), [])
  })

  test("OTEL-1 tokens and durations of all operations, with the attributes of the conventions", function* () {
    const slow = tools.toLayer({
      search: ({ query }) =>
        query === "fail"
          ? ToolFailure.error("no", { type: "not_found" })
          : Effect.delay(Effect.succeed("found"), "2 seconds")
    })
    const turns = script.map((turn) => ({ ...turn, delay: "3 seconds" as const }))
    const plan = yield* Plan.make("daily", [Step.make("ask", { target: agent })])
    const running = Effect.flatMap(Plan.bind(plan), (bound) => Plan.run(bound, "Go")).pipe(
      Effect.provide(Layer.mergeAll(slow, ModelRegistry.layerContext)),
      Effect.provide([ScriptedModel.layer(turns), Telemetry.layerMetrics])
    )
    const fiber = yield* Effect.forkChild(measured(running))
    yield* TestClock.adjust("1 minute")
    const model = { "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5.2" }
    const chat = { unit: "s", "gen_ai.operation.name": "chat", ...model }
    const first = { "gen_ai.response.model": "gpt-5.2-2026-01-01" }
    const tokens = { ...chat, unit: "{token}" }
    const tool = {
      unit: "s",
      "gen_ai.tool.name": "search",
      "gen_ai.tool.type": "function",
      "gen_ai.agent.name": "finder"
    }
    assert.deepStrictEqual(shown(yield* Fiber.join(fiber)), [
      ["gen_ai.client.operation.duration", { ...chat, ...first }, 1, 3],
      ["gen_ai.client.token.usage", { ...tokens, ...first, "gen_ai.token.type": "input" }, 1, 10],
      ["gen_ai.client.token.usage", { ...tokens, ...first, "gen_ai.token.type": "output" }, 1, 5],
      ["gen_ai.execute_tool.duration", tool, 1, 2],
      ["gen_ai.execute_tool.duration", { ...tool, "error.type": "not_found" }, 1, 0],
      ["gen_ai.client.operation.duration", chat, 1, 3],
      ["gen_ai.client.token.usage", { ...tokens, "gen_ai.token.type": "input" }, 1, 20],
      ["gen_ai.client.token.usage", { ...tokens, "gen_ai.token.type": "output" }, 1, 1],
      [
        "gen_ai.invoke_agent.duration",
        { unit: "s", "gen_ai.agent.name": "finder", "gen_ai.request.model": "gpt-5.2" },
        1,
        8
      ],
      ["gen_ai.workflow.duration", { unit: "s", "gen_ai.workflow.name": "daily" }, 1, 8]
    ])
  })

  test("OTEL-1 the time to the first part of a stream", function* () {
    const turns: ScriptedModel.Script = [{ text: "one two three", delay: "2 seconds", chunkDelay: "1 second" }]
    const running = Effect.provide(Stream.runDrain(agent.stream("Go")), [world(turns), Telemetry.layerMetrics])
    const fiber = yield* Effect.forkChild(measured(running))
    yield* TestClock.adjust("1 minute")
    const found = shown(yield* Fiber.join(fiber)).map(([id, , , sum]) => [id, sum])
    assert.deepInclude(found, ["gen_ai.client.operation.time_to_first_chunk", 3])
    const [, whole] = found.find(([id]) => id === "gen_ai.client.operation.duration") ?? []
    assert.isAbove(Number(whole), 3)
  })

  test("OTEL-1 an agent whose layer was built without metrics records them where its caller asks", function* () {
    class Finder extends Agent.Service<Finder>()("finder", { toolkit: tools }) {}
    const run = Finder.use((finder) => finder.run("Go")).pipe(Effect.provide(Telemetry.layerMetrics))
    const metrics = yield* measured(Effect.provide(run, Finder.layer.pipe(Layer.provide(world()))))
    assert.includeMembers(
      metrics.map(({ id }) => id),
      ["gen_ai.execute_tool.duration", "gen_ai.invoke_agent.duration"]
    )
  })
})
