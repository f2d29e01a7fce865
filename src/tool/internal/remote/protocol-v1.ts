/**
 * Protocol 1 of the tool server, frozen: these schemas never change. A new
 * protocol is a new file.
 *
 * Nothing here refers to the types of the library, so that they may evolve while
 * the wire stays as it is.
 */
import * as Schema from "effect/Schema"

/** The number in the `protocol` field. */
export const protocol = 1

const JsonObject = Schema.Record(Schema.String, Schema.Json)

const Options = Schema.optionalKey(JsonObject)

const TextPart = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String, options: Options })

const FilePart = Schema.Struct({
  type: Schema.Literal("file"),
  mediaType: Schema.String,
  fileName: Schema.optionalKey(Schema.String),
  data: Schema.Union([
    Schema.Struct({ type: Schema.Literal("base64"), base64: Schema.String }),
    Schema.Struct({ type: Schema.Literal("url"), url: Schema.String })
  ]),
  options: Options
})

const Content = Schema.NonEmptyArray(Schema.Union([TextPart, FilePart]))

const Success = Schema.TaggedStruct("Success", {
  content: Content.annotate({ description: "What the model reads" }),
  value: Schema.Json.annotate({ description: "The result, encoded by the tool's success schema" })
}).annotate({ identifier: "ToolSuccessV1" })

const Failure = Schema.TaggedStruct("Failure", {
  type: Schema.String.annotate({ description: "A reserved failure type, or the type of the tool's own failure" }),
  message: Schema.String,
  value: Schema.optionalKey(Schema.Json),
  content: Schema.optionalKey(Content)
}).annotate({ identifier: "ToolFailureV1" })

/** The result of a call. */
export const Result = Schema.Union([Success, Failure])

/** The body of `POST /tools/execute`. */
export const Request = Schema.Struct({
  protocol: Schema.Literal(protocol).annotate({ description: "The version of this protocol" }),
  runId: Schema.String.annotate({ description: "The run that asks; for logs and for the handler" }),
  callId: Schema.String.annotate({ description: "The call within the run; returned in the answer" }),
  name: Schema.String.annotate({ description: "The name of the tool" }),
  arguments: Schema.Json.annotate({ description: "The arguments, as the tool's parameters describe them" }),
  contractDigest: Schema.optionalKey(
    Schema.String.annotate({ description: "The digest of the contract the caller holds; absent: not compared" })
  ),
  context: Schema.optionalKey(
    JsonObject.annotate({ description: "The run context the caller claims; the server decides what it makes of it" })
  ),
  deadline: Schema.optionalKey(
    Schema.Finite.annotate({ description: "When the caller stops waiting, in milliseconds since 1970" })
  )
}).annotate({ identifier: "ExecuteRequestV1" })

/** The body of the answer to `POST /tools/execute`. */
export const Response = Schema.Struct({
  protocol: Schema.Literal(protocol),
  callId: Schema.String,
  result: Result
}).annotate({ identifier: "ExecuteResponseV1" })

const Contract = Schema.Struct({
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  parameters: JsonObject.annotate({ description: "JSON Schema of the arguments" }),
  success: Schema.optionalKey(JsonObject),
  failure: Schema.optionalKey(JsonObject),
  timeout: Schema.NullOr(Schema.Finite).annotate({ description: "In milliseconds; null: none" }),
  approval: Schema.Literals(["never", "always", "dynamic"]).annotate({
    description: "Whether a human must agree before the caller calls"
  }),
  annotations: Schema.Struct({
    title: Schema.optionalKey(Schema.String),
    readonly: Schema.optionalKey(Schema.Boolean),
    destructive: Schema.optionalKey(Schema.Boolean),
    idempotent: Schema.optionalKey(Schema.Boolean),
    openWorld: Schema.optionalKey(Schema.Boolean),
    strict: Schema.optionalKey(Schema.Boolean)
  }),
  digest: Schema.String
}).annotate({ identifier: "ToolContractV1" })

/** The body of the answer to `GET /tools`. */
export const Tools = Schema.Struct({
  protocol: Schema.Literal(protocol),
  tools: Schema.Array(Contract)
}).annotate({ identifier: "ToolsV1" })
