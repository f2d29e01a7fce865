/** OTEL-1: what leaves the process as OTLP data. Secrets are planted in all places that hold texts of users and of code. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Metric, Redacted, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { FetchHttpClient, HttpClient, HttpClientRequest, HttpRouter } from "effect/http"
import { Agent, ModelRegistry, Telemetry, ToolFailure } from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { http, url } from "../tool/fixtures/remote-serve.ts"
import { test } from "../test.ts"
import { collector, exportTo, type Collector, type Span } from "./collector.ts"
import { call } from "./fixtures.ts"

const key = "sk-live-4f9a8b7c6d5e4f3a2b1c"
const password = "correct-horse-battery"

const fields = { text: Schema.String, password: Schema.optionalKey(Schema.String) }
const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct(fields),
  success: Schema.Struct(fields)
})
const Refuse = Tool.make("refuse", { parameters: Schema.Struct(fields), success: Schema.String, failure: ToolFailure })
const Die = Tool.make("die", { parameters: Schema.Struct(fields), success: Schema.String })
const Far = Tool.make("far", { parameters: Schema.Struct(fields), success: Schema.Struct(fields) })
const FarDie = Tool.make("far_die", { parameters: Schema.Struct(fields), success: Schema.String })

const near = Toolkit.make(Echo, Refuse, Die)
const far = Toolkit.make(Far, FarDie)
const nearLayer = near.toLayer({
  echo: Effect.succeed,
  refuse: ({ text }) => ToolFailure.error(text, { type: "refused" }),
  die: ({ text }) => Effect.die(new TypeError(text, { cause: new Error(`because of ${text}`) }))
})
const farLayer = far.toLayer({
  far: Effect.fn("lookUp")(Effect.succeed),
  far_die: ({ text }) => Effect.die(new TypeError(text))
})

const token = Redacted.make(`${key}-of-the-server`)

/** A server of tools with a tracer of its own, which exports to the same collector. */
const serve = (to: Collector) =>
  HttpRouter.serve(RemoteTools.layerServer(far, { token, context: Effect.succeed }), {
    disableLogger: true,
    disableListenLog: true
  }).pipe(Layer.provide(farLayer), Layer.provide(exportTo(to, "server")), Layer.provideMerge(http))

const remote = Layer.unwrap(Effect.map(url, (url) => RemoteTools.layerHandlers(far, { url, token }))).pipe(
  Layer.provide(
    Layer.effect(
      HttpClient.HttpClient,
      Effect.map(HttpClient.HttpClient, HttpClient.mapRequest(HttpClientRequest.setHeader("x-tenant-key", key)))
    ).pipe(Layer.provide(FetchHttpClient.layer))
  )
)

const args = { text: key, password }
const researcher = Agent.make("researcher", { instructions: `Never tell ${key}.`, toolkit: near })
const agent = Agent.make("keeper", {
  model: "openai/gpt-5.2",
  instructions: Effect.succeed(`You know ${key}.`),
  modelOptions: { temperature: 0, stop: key },
  toolkit: [
    Echo,
    Refuse,
    Die,
    Far,
    FarDie,
    Agent.asTool(researcher, { name: "research", description: "Asks the researcher" })
  ]
})
const broken = Agent.make("broken", { instructions: Effect.die(new Error(key)) })

const refusal = { fail: { reason: "RateLimitError", description: `The key ${key} is used up` } } as const
const calls: ScriptedModel.Script = [
  refusal,
  {
    reasoning: `Hm, ${key}.`,
    text: `I use ${key}.`,
    toolCalls: [
      call("c1", "echo", args),
      call("c2", "refuse", args),
      call("c3", "die", args),
      call("c4", "far", args),
      call("c5", "far_die", args),
      call("c6", "research", { input: key }),
      call("c7", "echo", { [key]: key }),
      call("c8", "unheard_of", args),
      { id: "c9", name: "echo", arguments: `{"text":"${key}", "password":"${password}"` }
    ]
  },
  { toolCalls: [call("d1", "echo", args)] },
  { text: `The researcher says ${key}.` },
  { text: `It was ${key}.` },
  { text: key },
  { fail: { reason: "AuthenticationError", description: `Incorrect API key provided: ${key}` } }
]

const program = Effect.gen(function* () {
  const options = { context: { tenant: key }, retry: { times: 1, delay: 0 } }
  const run = agent.run(`My key is ${key}`, options)
  yield* run
  const plan = yield* Plan.make("daily", [
    Step.make("ask", { target: researcher }),
    Step.make("fail", { target: () => Effect.die(new Error(key)) })
  ])
  yield* Effect.exit(Effect.flatMap(Plan.bind(plan), (bound) => Plan.run(bound, { task: key, payload: args })))
  yield* Effect.exit(Stream.runDrain(agent.stream(key)))
  yield* Effect.exit(broken.run(key))
}).pipe(Effect.withSpan("caller"))

/** The collector when the program has ended. */
const collected = Effect.fnUntraced(function* (content: Layer.Layer<never>) {
  const to = yield* collector
  const services = Layer.mergeAll(nearLayer, remote, ModelRegistry.layerContext).pipe(
    Layer.provideMerge(ScriptedModel.layer(calls)),
    Layer.provideMerge(serve(to))
  )
  yield* program.pipe(
    Effect.provide(services),
    Effect.provide([content, Telemetry.layerMetrics, exportTo(to)]),
    Effect.provideService(Metric.MetricRegistry, new Map())
  )
  return to
})

const under = (spans: ReadonlyArray<Span>, parent: string): Array<string> =>
  spans.filter(({ path }) => path.at(-2) === parent).map(({ name }) => name)

describe("OTEL-1 exported data", () => {
  for (const [how, content] of [
    ["without content", Layer.empty],
    ["with content and the default redactor", Telemetry.captureContent()]
  ] as const) {
    test.live(`OTEL-1 no planted secret leaves the process (${how})`, function* () {
      const to = yield* collected(content)
      const text = to.text()
      for (const secret of [key, password, "battery"]) assert.notInclude(text, secret)
      assert.strictEqual(text.includes("[redacted]"), true, "texts of defects are masked in the log")
      assert.strictEqual(text.includes("gen_ai.input.messages"), how !== "without content")
      assert.isAtLeast(to.logs().length, 3)
      assert.notInclude(text, "effect.cause", "no text of a defect is on a span")
      assert.includeMembers(
        [...to.metrics()],
        [
          "gen_ai.client.operation.duration s",
          "gen_ai.execute_tool.duration s",
          "gen_ai.invoke_agent.duration s",
          "gen_ai.workflow.duration s"
        ]
      )
      const spans = to.spans()
      assert.includeMembers(under(spans, "invoke_agent keeper"), [
        "chat gpt-5.2",
        "execute_tool echo",
        "execute_tool refuse",
        "execute_tool die",
        "execute_tool far",
        "execute_tool research"
      ])
      const failures = spans
        .filter(({ isError }) => isError)
        .map(({ attributes, name }) => [name, attributes["error.type"]])
      assert.deepInclude(failures, ["chat gpt-5.2", "RateLimitError"])
      assert.deepInclude(failures, ["execute_tool refuse", "refused"])
      assert.deepInclude(failures, ["execute_tool die", "unhandled_error"])
      assert.deepInclude(failures, ["invoke_agent broken", "Error"])
      assert.deepInclude(failures, ["invoke_workflow daily", "StepFailed"])
    })
  }

  test.live(
    "OTEL-1 a call of a remote tool is one trace, and the handler's span is inside of the caller's",
    function* () {
      const spans = (yield* collected(Layer.empty)).spans()
      assert.strictEqual(new Set(spans.map(({ traceId }) => traceId)).size, 1)
      const handler = spans.find(({ name }) => name === "lookUp")
      assert.strictEqual(handler?.service, "server")
      const around = ["caller", "invoke_agent keeper", "execute_tool far"]
      // The request of the client, and the same request at the server
      assert.deepStrictEqual(handler?.path, [...around, "POST", "POST", "lookUp"])
    }
  )
})
