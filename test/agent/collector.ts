/** A collector of OTLP over HTTP on loopback, and the data as tests read them. */
import { Effect, Layer, type Scope } from "effect"
import { FetchHttpClient } from "effect/http"
import { Otlp } from "effect/observability"
import { createServer } from "node:http"

interface Attribute {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}

interface OtlpSpan {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly kind: number
  readonly attributes: ReadonlyArray<Attribute>
  readonly status: { readonly code: number; readonly message?: string }
}

interface Scoped {
  readonly resource: { readonly attributes: ReadonlyArray<Attribute> }
  readonly scopeSpans?: ReadonlyArray<{ readonly spans: ReadonlyArray<OtlpSpan> }>
  readonly scopeMetrics?: ReadonlyArray<{
    readonly metrics: ReadonlyArray<{ readonly name: string; readonly unit: string }>
  }>
  readonly scopeLogs?: ReadonlyArray<{ readonly logRecords: ReadonlyArray<unknown> }>
}

interface Body {
  readonly resourceSpans?: ReadonlyArray<Scoped>
  readonly resourceMetrics?: ReadonlyArray<Scoped>
  readonly resourceLogs?: ReadonlyArray<Scoped>
}

export interface Span {
  readonly name: string
  readonly traceId: string
  /** The names of the spans around it, from the outermost one, and its own. */
  readonly path: ReadonlyArray<string>
  readonly service: unknown
  readonly attributes: Readonly<Record<string, unknown>>
  readonly isError: boolean
}

export interface Collector {
  readonly url: string
  /** All bodies as they arrived. */
  readonly text: () => string
  readonly spans: () => ReadonlyArray<Span>
  readonly metrics: () => ReadonlyArray<string>
  readonly logs: () => ReadonlyArray<unknown>
}

const valueAt = ({ attributes }: Scoped["resource"], name: string): unknown =>
  Object.values(attributes.find(({ key }) => key === name)?.value ?? {})[0]

/** Starts a collector on any free port. */
export const collector: Effect.Effect<Collector, never, Scope.Scope> = Effect.gen(function* () {
  const texts: Array<string> = []
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      texts.push(Buffer.concat(chunks).toString())
      response.writeHead(200, { "content-type": "application/json" }).end("{}")
    })
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
    () =>
      Effect.sync(() => {
        server.close()
        server.closeAllConnections()
      })
  )
  const address = server.address()
  const port = typeof address === "object" ? address?.port : undefined
  const bodies = () => texts.map((text): Body => JSON.parse(text))
  return {
    url: `http://127.0.0.1:${port}`,
    text: () => texts.join("\n"),
    spans: () => {
      const spans = bodies()
        .flatMap(({ resourceSpans = [] }) => resourceSpans)
        .flatMap(({ resource, scopeSpans = [] }) =>
          scopeSpans.flatMap((scope) =>
            scope.spans.map((span) => ({ ...span, service: valueAt(resource, "service.name") }))
          )
        )
      const known = new Map(spans.map((span) => [span.spanId, span]))
      const pathOf = ({ name, parentSpanId = "" }: OtlpSpan): ReadonlyArray<string> => {
        const parent = known.get(parentSpanId)
        return [...(parent === undefined ? [] : pathOf(parent)), name]
      }
      return spans
        .map((span) => ({ ...span, path: pathOf(span) }))
        .map(({ attributes, name, path, service, status, traceId }) => ({
          name,
          traceId,
          path,
          service,
          attributes: Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]])),
          isError: status.code === 2
        }))
    },
    metrics: () =>
      bodies()
        .flatMap(({ resourceMetrics = [] }) => resourceMetrics)
        .flatMap(({ scopeMetrics = [] }) => scopeMetrics)
        .flatMap(({ metrics }) => metrics.map(({ name, unit }) => `${name} ${unit}`)),
    logs: () =>
      bodies()
        .flatMap(({ resourceLogs = [] }) => resourceLogs)
        .flatMap(({ scopeLogs = [] }) => scopeLogs)
        .flatMap(({ logRecords }) => logRecords)
  }
})

/** Sends spans, metrics and logs to a collector, at the latest when the layer is released. */
export const exportTo = ({ url }: Collector, serviceName = "test"): Layer.Layer<never> =>
  Otlp.layerJson({ baseUrl: url, resource: { serviceName } }).pipe(Layer.provide(FetchHttpClient.layer))
