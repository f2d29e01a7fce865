/** The routes of sessions, from the table of operations, and their description as an `HttpApi`. */

import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Json from "../../payload/Json.ts"
import { defined } from "../../payload/internal/values.ts"
import * as ChatEvent from "../../session/ChatEvent.ts"
import type * as SessionApi from "../../session/SessionApi.ts"
import * as service from "../../session/internal/service.ts"
import * as agUiBody from "./agUiBody.ts"
import * as frontView from "./frontView.ts"
import * as refusal from "./refusal.ts"
import * as uiBody from "./uiBody.ts"

/** The Schema of what is sent. */
interface Sent extends Schema.Top {
  readonly EncodingServices: never
}

/** A route of an operation: of the operation itself, or of what a front end sees of it. */
export interface Route {
  /** The path below the path of the server. */
  readonly name: string
  readonly operation: service.AnyOperation
  readonly success: Sent
  /** The fields that a front end may send; a route without them is for callers who may do everything. */
  readonly fields: ReadonlyArray<string> | undefined
}

const listed = ["prefix", "limit", "agent", "status", "waitsFor", "updatedAfter", "updatedBefore", "metadata"] as const

/**
 * The fields that a front end may send. An operation or a field that is not here is for callers who may do everything: an agent, a context
 * or a conversation that a browser names would be authority.
 */
const fields = {
  send: ["input", "messageId", "model", "whenBusy", "pending", "title", "metadata", "timeout", "ifExists"],
  edit: ["messageId", "input", "model", "newMessageId"],
  withdraw: ["messageId"],
  fork: ["to", "at"],
  decide: ["decisions"],
  forget: ["digest"],
  resume: [],
  interrupt: [],
  update: ["title", "metadata"],
  remove: [],
  list: [...listed, "after"],
  listChanges: listed
} satisfies { readonly [K in keyof typeof SessionApi.operations]?: ReadonlyArray<string> }

const fieldsOf: ReadonlyMap<string, ReadonlyArray<string>> = new Map(Object.entries(fields))

const operations: ReadonlyArray<Route> = service.all.map(([name, operation]) => ({
  name,
  operation,
  success: operation.success,
  fields: fieldsOf.get(name)
}))

const viewOf = (
  name: string,
  of: keyof typeof SessionApi.operations,
  success: Sent,
  payload?: service.AnyOperation["payload"]
): ReadonlyArray<Route> =>
  operations.flatMap(({ name: found, operation }) => {
    const seen = { ...operation, ...defined({ payload }) }
    return found === of ? [{ name, operation: seen, success, fields: Object.keys(seen.payload.fields) }] : []
  })

/** The route of the bytes of a file, whose place is in the query besides. */
export const file = "file"

export const all: ReadonlyArray<Route> = [
  ...operations,
  ...viewOf("chat/events", "live", ChatEvent.Entry, frontView.EventsOptions),
  ...viewOf("chat/state", "state", Schema.OptionFromNullOr(frontView.ChatState)),
  ...viewOf("chat/history", "history", frontView.ChatHistory),
  ...viewOf(file, "history", HttpApiSchema.asUint8Array()(Schema.Uint8Array))
]

/** The operations that are about no session: a caller needs all of the store for them. */
export const ofStore: ReadonlySet<string> = new Set(["read", "shared", "prune"])

export type Query = { readonly [name: string]: string | ReadonlyArray<string> | undefined }

const isJson = /^(?:\d+|true|false|\{.*\})$/s

/** The text of a query as its field reads it: a number, a boolean or an object as JSON, unless it is a text alone that fits. */
const readText = (field: Schema.Codec<unknown, unknown>, text: string) => {
  if (!isJson.test(text)) return Effect.succeed<Schema.Json>(text)
  const decode = Schema.decodeUnknownExit(field)
  const fits = (value: Schema.Json) => Exit.isSuccess(decode(value))
  return Effect.map(Effect.option(Json.parse(text)), (found) =>
    Option.isSome(found) && (fits(found.value) || !fits(text)) ? found.value : text
  )
}

/** The payload in a query. Other names in it are left alone. */
export const readQuery = ({ payload }: service.AnyOperation, query: Query) =>
  Effect.map(
    Effect.forEach(Object.entries(payload.fields), ([name, field]) => {
      const text = Object.hasOwn(query, name) ? query[name] : undefined
      return Predicate.isString(text)
        ? Effect.map(readText(field, text), (value) => [[name, value] as const])
        : Effect.succeed([])
    }),
    (found) => Object.fromEntries(found.flat())
  )

/** The query that {@link readQuery} reads, of a payload as JSON. */
export const writeQuery = (json: unknown): Record<string, string> =>
  Object.fromEntries(
    Object.entries(Predicate.isObject(json) ? json : {}).map(([name, value]) => [
      name,
      Predicate.isString(value) ? value : JSON.stringify(value)
    ])
  )

type Addressed<About, P> = About extends "session" ? P & { readonly id: string } : P

/** The event of a stream: a value under its cursor, or the end of the stream with its reason. */
export interface StreamEvent<A> {
  /** The cursor of the value, which a reader sends as `Last-Event-ID` to continue. */
  readonly id?: string | undefined
  /** `message`, which is the default, or `end`. */
  readonly event?: string | undefined
  readonly data: A
}

/** The headers of a route that streams. */
export interface StreamHeaders {
  /** The cursor of the last value that was seen. */
  readonly "last-event-id"?: string | undefined
}

/** The endpoint of an operation: commands are `POST` with a body, queries and streams `GET` with a query. */
export type Endpoint<K extends string, O> =
  O extends SessionApi.Operation<infer Kind, infer About, infer _, infer P, infer A>
    ? HttpApiEndpoint.HttpApiEndpoint<
        K,
        Kind extends "command" ? "POST" : "GET",
        `/${K}`,
        never,
        Schema.Codec<Addressed<About, Kind extends "command" ? {} : P>, unknown>,
        Kind extends "command" ? Schema.Codec<P, unknown> : never,
        Kind extends "stream" ? Schema.Codec<StreamHeaders, unknown> : never,
        Kind extends "stream" ? HttpApiSchema.StreamSse<never, Schema.Never, StreamEvent<A>> : Schema.Codec<A, unknown>,
        Schema.Codec<refusal.Refusal, unknown>
      >
    : never

/** The group of the endpoints of all operations. */
export interface Sessions extends HttpApiGroup.HttpApiGroup<
  "sessions",
  {
    readonly [K in keyof typeof SessionApi.operations]: Endpoint<K, (typeof SessionApi.operations)[K]>
  }[keyof typeof SessionApi.operations],
  true
> {}

const id = Schema.String

/** A field of a query. An object is JSON in it. */
const flat = (field: Schema.Codec<unknown, unknown>): Schema.Codec<unknown, string | undefined> =>
  Schema.toEncoded(field).ast._tag === "Objects"
    ? Schema.fromJsonString(field)
    : // Sound: the description of a query writes every other value as a text
      (field as Schema.Codec<unknown, string | undefined>)

const streamOf = (value: Schema.Top) =>
  HttpApiSchema.StreamSse({
    events: Schema.Struct({
      id: Schema.optionalKey(Schema.String),
      event: Schema.optionalKey(Schema.Literals(["message", "end"])),
      data: Schema.fromJsonString(value)
    })
  })

const error = refusal.bodies

const endpointOf = ({ name, operation: { about, kind, payload }, success }: Route) => {
  const address: Schema.Struct.Fields = about === "session" ? { id } : {}
  if (kind === "command") return HttpApiEndpoint.post(name, `/${name}`, { query: address, payload, success, error })
  const fields = Object.entries(payload.fields).map(([name, field]) => [name, flat(field)] as const)
  const query = {
    ...address,
    ...(name === file ? frontView.FilePlace.fields : undefined),
    ...Object.fromEntries(fields)
  }
  return kind === "query"
    ? HttpApiEndpoint.get(name, `/${name}`, { query, success, error })
    : HttpApiEndpoint.get(name, `/${name}`, {
        query,
        headers: { "last-event-id": Schema.optionalKey(Schema.String) },
        success: streamOf(success),
        error
      })
}

/** A value of the protocol of a front end: its members depend on its type. */
const Typed = Schema.StructWithRest(Schema.Struct({ type: Schema.String }), [Schema.Record(Schema.String, Schema.Json)])

const UiMessage = Schema.Struct({
  id: Schema.String,
  role: Schema.Literals(["user", "assistant"]),
  parts: Schema.Array(Typed),
  metadata: Schema.optionalKey(Schema.Json)
}).annotate({ identifier: "UiMessage" })

const chunks = HttpApiSchema.StreamSse({ data: Typed.annotate({ identifier: "UiMessageChunk" }) })

const agUiEvents = HttpApiSchema.StreamSse({ data: Typed.annotate({ identifier: "AgUiEvent" }) })

/** The endpoints of the routes that speak a protocol of others. */
const protocols = [
  HttpApiEndpoint.get("chatUiMessages", "/chat/ui", { query: { id }, success: Schema.Array(UiMessage), error }),
  HttpApiEndpoint.post("chatUi", "/chat/ui", { payload: uiBody.Body, success: chunks, error }),
  HttpApiEndpoint.get("chatUiStream", "/chat/ui/:id/stream", {
    params: { id },
    success: [chunks, HttpApiSchema.NoContent],
    error
  }),
  HttpApiEndpoint.post("chatAgUi", "/chat/agui", { payload: agUiBody.Body, success: agUiEvents, error })
] as const

type Described = ReturnType<typeof endpointOf>

const bearer = { type: "http", scheme: "bearer" }

const isError = (status: string): boolean => Number(status) >= 400

/** The responses of a method by status. */
const responsesOf = (method: unknown): ReadonlyArray<readonly [status: string, response: unknown]> =>
  Predicate.hasProperty(method, "responses") && Predicate.isObject(method.responses)
    ? Object.entries(method.responses)
    : []

/**
 * The document with its security, and with each refusal once: the refusals are the same in all routes. It names no scheme by itself, because
 * `Authorize` decides what counts. Most clients have a bearer token.
 */
const complete = (document: Record<string, unknown>) => {
  const components = Predicate.isObject(document["components"]) ? document["components"] : {}
  const paths = Predicate.isObject(document["paths"]) ? document["paths"] : {}
  const methods = Object.values(paths).flatMap((path) => (Predicate.isObject(path) ? Object.values(path) : []))
  const refusals = new Map(methods.flatMap(responsesOf).filter(([status]) => isError(status)))
  for (const method of methods) {
    Reflect.set(Object(method), "security", [{ bearer: [] }])
    const shared = responsesOf(method).map(([status, response]) => [
      status,
      isError(status) ? { $ref: `#/components/responses/${status}` } : response
    ])
    Reflect.set(Object(method), "responses", Object.fromEntries(shared))
  }
  const responses = Object.fromEntries(refusals)
  return { ...document, components: { ...components, responses, securitySchemes: { bearer } } }
}

const describe = (): object => {
  // Sound: the table has operations
  const endpoints = all.map(endpointOf) as [Described, ...Array<Described>]
  return HttpApi.make("effect-emissary/sessions")
    .add(HttpApiGroup.make("sessions", { topLevel: true }).add(...endpoints, ...protocols))
    .annotateMerge(OpenApi.annotations({ title: "Emissary sessions", version: "1", transform: complete }))
}

/** The description of the routes. */
// Sound: the endpoints are made from the table as their types are, and there are endpoints of the views besides
export const api = describe() as HttpApi.HttpApi<"effect-emissary/sessions", Sessions>
