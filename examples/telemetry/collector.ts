/**
 * A collector in this process, for a reader who has none: it keeps the spans that arrive and draws them as a tree.
 */
import { Effect, Layer, Schema } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"

const Attribute = Schema.Struct({ key: Schema.String, value: Schema.Record(Schema.String, Schema.Json) })

const Span = Schema.Struct({
  name: Schema.String,
  spanId: Schema.String,
  parentSpanId: Schema.optionalKey(Schema.String),
  startTimeUnixNano: Schema.String,
  attributes: Schema.Array(Attribute),
  service: Schema.optionalKey(Schema.String)
})

type Span = typeof Span.Type

const Traces = Schema.Struct({
  resourceSpans: Schema.Array(
    Schema.Struct({
      resource: Schema.Struct({ attributes: Schema.Array(Attribute) }),
      scopeSpans: Schema.Array(Schema.Struct({ spans: Schema.Array(Span) }))
    })
  )
})

const valueOf = (attributes: Span["attributes"], name: string) =>
  Object.values(attributes.find(({ key }) => key === name)?.value ?? {})[0]

const received: Array<Span> = []

const receive = Effect.gen(function* () {
  const { resourceSpans } = yield* HttpServerRequest.schemaBodyJson(Traces)
  for (const { resource, scopeSpans } of resourceSpans) {
    const service = String(valueOf(resource.attributes, "service.name"))
    received.push(...scopeSpans.flatMap(({ spans }) => spans.map((span) => ({ ...span, service }))))
  }
  return HttpServerResponse.jsonUnsafe({})
})

/** Takes spans, metrics and logs. The last two are not kept. */
export const routes = Layer.mergeAll(
  HttpRouter.add("POST", "/v1/traces", receive),
  HttpRouter.add("POST", "/v1/metrics", HttpServerResponse.jsonUnsafe({})),
  HttpRouter.add("POST", "/v1/logs", HttpServerResponse.jsonUnsafe({}))
)

const shown = ["gen_ai.response.model", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "error.type"]

const draw = (parent: string | undefined, indent: string): ReadonlyArray<string> =>
  received
    .filter(({ parentSpanId }) => parentSpanId === parent)
    .toSorted((a, b) => Number(BigInt(a.startTimeUnixNano) - BigInt(b.startTimeUnixNano)))
    .flatMap(({ attributes, name, service, spanId }) => {
      const values = shown.flatMap((key) => valueOf(attributes, key) ?? []).join(" ")
      return [`${indent}${name} [${service}] ${values}`.trimEnd(), ...draw(spanId, `${indent}  `)]
    })

/** The spans that have arrived, each inside of its parent. */
export const tree = Effect.sync(() => draw(undefined, "").join("\n"))
