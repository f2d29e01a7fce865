/**
 * Spans and metrics of agents, model calls, tools and plans, by the conventions of OpenTelemetry for generative AI.
 *
 * **Mental model**
 *
 * A program that has a tracer, from `Otlp.layer` of `effect/observability` or from `@effect/opentelemetry` for example,
 * gets the spans. {@link layerMetrics} adds the metrics. Both hold names, ids, counts, durations and classes of errors.
 * They hold no message, argument, result or text of an error, unless {@link captureContent} is there.
 *
 * | span | for |
 * |---|---|
 * | `invoke_agent <agent>` | a run of an agent; the run of an agent that is a tool is inside the call |
 * | `chat <model>` | a model call, each attempt |
 * | `execute_tool <tool>` | a tool call; its handler, and a server that the handler calls over HTTP, are inside |
 * | `invoke_workflow <plan>` | a run of a plan |
 * | `step <step>` | a step of a plan |
 *
 * The page `docs/telemetry.md` lists the attributes and metrics.
 *
 * The names come from `open-telemetry/semantic-conventions-genai` at commit `004902b` of 2026, which builds on version
 * 1.42.0 of the general conventions and has the status "Development". Names that it does not have begin with
 * `emissary.`.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Record from "effect/Record"
import type * as Schema from "effect/Schema"
import * as Json from "../payload/Json.ts"
import * as fuel from "../payload/internal/fuel.ts"
import { resolveLimits } from "../payload/internal/limits.ts"
import { cutText, maskJson } from "../payload/internal/maskSecrets.ts"
import * as telemetry from "../tool/internal/telemetry.ts"
import * as capturedContent from "./internal/capturedContent.ts"

/**
 * An attribute of a span that holds content, as JSON text.
 *
 * **Details**
 *
 * | attribute | span | content |
 * |---|---|---|
 * | `gen_ai.system_instructions` | `chat` | the system message |
 * | `gen_ai.input.messages` | `chat` | all other messages that the model was sent |
 * | `gen_ai.output.messages` | `chat` | the answer |
 * | `gen_ai.tool.call.arguments` | `execute_tool` | the arguments after their validation |
 * | `gen_ai.tool.call.result` | `execute_tool` | the value; of a failure `{ type, message, value }` |
 *
 * The bytes of files are left out.
 *
 * @category models
 * @since 0.1.0
 */
export type ContentAttribute = capturedContent.ContentAttribute

/**
 * Decides what of some content is recorded: all of it, a part, something in place of it, or with `undefined` nothing. Content
 * for which it throws is not recorded.
 *
 * @category models
 * @since 0.1.0
 */
export interface Redactor {
  (content: Schema.Json, attribute: ContentAttribute): Schema.Json | undefined
}

/**
 * Records content on spans: messages, instructions, arguments and results of tools.
 *
 * **When to use**
 *
 * Use it where the people who read the traces may read the conversations, too. Without this layer no content is recorded.
 *
 * **Details**
 *
 * All content goes through the redactor. The default one puts `[redacted]` in place of values under the keys of
 * `Json.SecretNames`, and of what has the form of a key, a token or a password in a text. It is a safety net, and knows no
 * names, addresses or numbers of people: write a redactor for those. Of a text it records the first 32,768 characters, and of
 * the content of one attribute as much as `maxFuel` of `Limits` allows, about 2.4 million characters; a text beyond is
 * `[redacted]`.
 *
 * It changes the runs of the program below the layer. An agent whose layer was built with it records content in all its runs.
 *
 * **Example** (Arguments without the name of the customer)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Layer, Tracer } from "effect"
 * import { Agent, Telemetry } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 *
 * const spans: Array<Tracer.Span> = []
 * const tracer = Tracer.make({
 *   span: (options) => {
 *     const span = new Tracer.NativeSpan(options)
 *     spans.push(span)
 *     return span
 *   }
 * })
 * const greeter = Agent.make("greeter", { instructions: "Greet." })
 * const content = Telemetry.captureContent((content, attribute) =>
 *   attribute === "gen_ai.input.messages" ? undefined : content
 * )
 *
 * await greeter.run("I am Ada").pipe(
 *   Effect.provide([ScriptedModel.layer([{ text: "Hello." }]), content, Layer.succeed(Tracer.Tracer, tracer)]),
 *   Effect.runPromise
 * )
 * const [run, chat] = spans
 * assert.strictEqual(run?.name, "invoke_agent greeter")
 * assert.strictEqual(chat?.attributes.get("gen_ai.system_instructions"), `[{"type":"text","content":"Greet."}]`)
 * assert.strictEqual(chat?.attributes.has("gen_ai.input.messages"), false)
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const captureContent = (redactor?: Redactor): Layer.Layer<never> =>
  redactor === undefined
    ? Layer.effect(
        telemetry.Capture,
        Effect.gen(function* () {
          const names = yield* Json.SecretNames
          const { maxFuel } = yield* resolveLimits()
          return capturedContent.makeRecorder((content) =>
            maskJson(content, { names, tank: fuel.make(maxFuel), cut: cutText })
          )
        })
      )
    : Layer.succeed(telemetry.Capture, capturedContent.makeRecorder(redactor))

const powers = (first: number, base: number, count: number): ReadonlyArray<number> =>
  Array.from({ length: count }, (_, index) => first * base ** index)

/** Unit, description and boundaries of each. */
const instruments: Record<telemetry.Instrument, readonly [string, string, ReadonlyArray<number>]> = {
  "gen_ai.client.token.usage": ["{token}", "Number of input and output tokens used.", powers(1, 4, 14)],
  "gen_ai.client.operation.duration": ["s", "GenAI operation duration.", powers(0.01, 2, 14)],
  "gen_ai.client.operation.time_to_first_chunk": [
    "s",
    "Time to receive the first chunk of a stream.",
    powers(0.01, 2, 14)
  ],
  "gen_ai.execute_tool.duration": ["s", "The duration of a single tool execution.", powers(0.01, 2, 14)],
  "gen_ai.invoke_agent.duration": ["s", "The end-to-end duration of a single agent invocation.", powers(0.1, 2, 13)],
  "gen_ai.workflow.duration": ["s", "GenAI workflow duration.", [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200]]
}

const makeInstruments = (): Record<telemetry.Instrument, Metric.Histogram<number>> =>
  Record.map(instruments, ([unit, description, boundaries], name) =>
    Metric.histogram(name, { description, attributes: { unit }, boundaries })
  )

/** The attributes of a value are added to the attributes that the program sets. */
const makeRecorder = (): telemetry.Recorder => {
  const histograms = makeInstruments()
  return (context, instrument, value, attributes) => {
    const all: Record<string, string> = { ...Context.get(context, Metric.CurrentMetricAttributes) }
    for (const [name, text] of Object.entries(attributes)) if (text !== undefined) all[name] = text
    histograms[instrument].updateUnsafe(value, Context.add(context, Metric.CurrentMetricAttributes, all))
  }
}

/**
 * Records metrics of the runs of the program below the layer, as metrics of `effect/Metric`. `Otlp.layer` exports them.
 *
 * **Details**
 *
 * All are histograms with the boundaries of the conventions.
 *
 * | metric | unit |
 * |---|---|
 * | `gen_ai.client.token.usage` | tokens of one model call, apart for `input` and `output` |
 * | `gen_ai.client.operation.duration` | seconds of a model call |
 * | `gen_ai.client.operation.time_to_first_chunk` | seconds until the first part of a stream |
 * | `gen_ai.execute_tool.duration` | seconds of a tool call |
 * | `gen_ai.invoke_agent.duration` | seconds of a run of an agent |
 * | `gen_ai.workflow.duration` | seconds of a run of a plan |
 *
 * **Example** (The tokens of a run)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Metric } from "effect"
 * import { Agent, Telemetry } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 *
 * const greeter = Agent.make("greeter", { instructions: "Greet." })
 * const model = ScriptedModel.layer([{ text: "Hello.", usage: { inputTokens: 12, outputTokens: 3 } }])
 *
 * const program = Effect.gen(function*() {
 *   yield* greeter.run("I am Ada").pipe(Effect.provide([model, Telemetry.layerMetrics]))
 *   return yield* Metric.snapshot
 * }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
 *
 * const metrics = await Effect.runPromise(program)
 * const tokens = metrics.find(
 *   ({ attributes, id }) => id === "gen_ai.client.token.usage" && attributes?.["gen_ai.token.type"] === "input"
 * )
 * assert.ok(tokens?.type === "Histogram" && tokens.state.sum === 12)
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMetrics: Layer.Layer<never> = Layer.sync(telemetry.Metrics, makeRecorder)
