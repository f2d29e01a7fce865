/** The output of an agent: the words and schemas that a model receives, and the check of its answer. */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Message from "../../conversation/Message.ts"
import type * as Json from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import type * as PayloadError from "../../payload/PayloadError.ts"
import * as answerText from "../../payload/internal/answerText.ts"
import * as base from "../../payload/internal/base.ts"
import * as convertSchema from "../../payload/internal/convertSchema.ts"
import { Limits } from "../../payload/internal/limits.ts"
import { problemsFromSchemaError } from "../../payload/internal/problems.ts"
import { defined, getAt, isArray, isObject, kindOf, own } from "../../payload/internal/values.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as boundTool from "../../tool/internal/boundTool.ts"
import type * as AgentError from "../AgentError.ts"
import type * as agentData from "./agentData.ts"
import * as agentReason from "./agentReason.ts"

export interface StructuredOutput<out A> {
  readonly _tag: "Structured"
  readonly strategy: agentData.OutputStrategy
  readonly schema: JsonSchema.JsonSchema
  /** The schema that a provider receives: an object, the output under `value` when it is none itself. */
  readonly offered: JsonSchema.JsonSchema
  readonly forAdapter: () => OfferedOutput
  /** The Schema of an output that is code. */
  readonly source: Schema.Top | undefined
  readonly decode: (value: Schema.Json) => Effect.Effect<A, ReadonlyArray<PayloadError.Problem>>
}

interface TextOutput<out A> {
  readonly _tag: "Text"
  readonly decode: (text: string) => Effect.Effect<A, ReadonlyArray<PayloadError.Problem>>
}

export type Output<A> = StructuredOutput<A> | TextOutput<A>

const textOutput: TextOutput<string> = { _tag: "Text", decode: Effect.succeed }

/** The key of an output that is no object in the object that a provider receives. */
export const wrapperKey = "value"

const wrap = ({ $defs, $schema, definitions, ...schema }: Json.JsonObject): Json.JsonObject => ({
  ...defined({ $schema }),
  type: "object",
  properties: { [wrapperKey]: schema },
  required: [wrapperKey],
  additionalProperties: false,
  ...defined({ $defs, definitions })
})

/** An output for a provider's adapter. */
interface OfferedOutput {
  readonly schema: Schema.Codec<unknown>
  /** False where an adapter may leave a part of the JSON Schema out. */
  readonly isWhole: boolean
}

type Offer = (offered: JsonSchema.JsonSchema, isWrapped: boolean) => OfferedOutput

/** The types of some values, for providers that want a type beside an `enum`. */
const typeOfAll = (values: ReadonlyArray<Schema.Json>): Schema.Json => {
  const [type = "null", ...others] = new Set(values.map(kindOf))
  return others.length === 0 ? type : [type, ...others]
}

/** The schema without `const`, `oneOf` and `definitions`, which not all providers know. Alternatives may overlap then. */
const simplify = (schema: Json.JsonObject): Json.JsonObject => {
  const parts = convertSchema.mapSubschemas(schema, simplify)
  const { $defs, $ref, $schema: _, const: only, definitions, enum: list, oneOf, ...rest } = parts
  const values = list ?? (only === undefined ? undefined : [only])
  return defined({
    $ref: typeof $ref === "string" ? $ref.replace(/^#\/definitions\//, "#/$defs/") : undefined,
    type: isArray(values) ? typeOfAll(values) : undefined,
    enum: values,
    ...(rest["anyOf"] === undefined ? { anyOf: oneOf } : { oneOf }),
    ...rest,
    $defs: $defs ?? definitions
  })
}

/** Keywords that the adapters of all providers keep, or put into words. */
const keptKeywords = new Set(
  "$ref $defs type title description enum anyOf properties required additionalProperties items pattern format".split(
    " "
  )
)

const isKept = (schema: Json.JsonObject): boolean => {
  let kept = Object.keys(schema).every((key) => keptKeywords.has(key))
  convertSchema.mapSubschemas(schema, (part) => {
    kept &&= isKept(part)
    return part
  })
  return kept
}

/** The output of a document: in the strict form, if it has one. What the model answers is checked by the document. */
const offerDocument: Offer = (offered) => {
  const plain = simplify(offered.json)
  const strict = JsonSchema.toStrict(plain)
  const shown = Result.getOrElse(strict, () => plain)
  return {
    schema: convertSchema.checkedBy(offered, shown),
    isWhole: Result.isSuccess(strict) && isKept(shown)
  }
}

const structured = Effect.fnUntraced(function* <A>(
  json: Json.JsonObject,
  strategy: agentData.OutputStrategy,
  decode: StructuredOutput<A>["decode"],
  offer: Offer,
  source?: Schema.Top
) {
  const schema = yield* JsonSchema.make(json, { what: "output schema" })
  const isObjectSchema = json["type"] === "object"
  const offered = isObjectSchema ? schema : yield* JsonSchema.make(wrap(json), { what: "output schema" })
  const forAdapter = base.once(() => offer(offered, offered !== schema))
  return { _tag: "Structured", strategy, schema, offered, forAdapter, source, decode } satisfies StructuredOutput<A>
}, Effect.mapError(agentReason.invalidDefinition))

/** The output of an agent that is code: a Schema. */
export const outputOf = ({
  output,
  outputStrategy = "native"
}: {
  readonly output?: Schema.Top | undefined
  readonly outputStrategy?: agentData.OutputStrategy | undefined
}): Effect.Effect<Output<unknown>, AgentError.Reason> => {
  if (output === undefined) return Effect.succeed(textOutput)
  const decodeJson = Schema.decodeUnknownEffect(Schema.toCodecJson(output))
  const decode = (value: Schema.Json) =>
    // Sound: the services of the output Schema are among those a run of the agent requires.
    Effect.mapError(decodeJson(value, { errors: "all" }), (error) =>
      problemsFromSchemaError(error, value)
    ) as Effect.Effect<unknown, ReadonlyArray<PayloadError.Problem>>
  const json = Effect.mapError(JsonSchema.fromSchema(output, { what: "output schema" }), agentReason.invalidDefinition)
  const encoded = Schema.toEncoded(Schema.toCodecJson(output))
  const offerSchema: Offer = (_, isWrapped) => ({
    // Sound: an encoded side needs no services
    schema: (isWrapped ? Schema.Struct({ [wrapperKey]: encoded }) : encoded) as Schema.Codec<unknown>,
    isWhole: true
  })
  const isDocument = convertSchema.isDocument(output)
  const offer = isDocument ? offerDocument : offerSchema
  const source = isDocument ? undefined : output
  return Effect.flatMap(json, (json) => structured(json, outputStrategy, decode, offer, source))
}

/** The output of an agent that came as data: its JSON Schema alone decides. */
export const outputOfDefinition = ({
  output
}: agentData.AgentDefinition): Effect.Effect<Output<Schema.Json>, AgentError.Reason> =>
  output === undefined
    ? Effect.succeed(textOutput)
    : structured(output.schema, output.strategy, Effect.succeed, offerDocument)

/** An output that is data, without an agent. */
export const outputOfJson = (json: Json.JsonObject): Effect.Effect<Output<Schema.Json>, AgentError.Reason> =>
  structured(json, "native", Effect.succeed, offerDocument)

/** The tools and, where the strategy asks for it, one more that the run never dispatches. */
export const withOutputTool = Effect.fnUntraced(function* (
  tools: ReadonlyArray<boundTool.BoundTool>,
  output: Output<unknown>
) {
  if (output._tag === "Text" || output.strategy !== "tool") return { tools, name: undefined }
  let name: string = runParts.outputTool
  while (tools.some(({ contract }) => contract.name === name)) name = `_${name}`
  const contract = yield* ToolContract.make({
    name,
    description: "Return your final answer. Call this once, when you are done, and nothing else with it.",
    parameters: output.offered.json
  })
  const stub = yield* boundTool.makeStub(contract)
  const taken = Option.some(() => Effect.succeed(ToolResult.success(null)))
  const tool: boundTool.BoundTool = { ...stub, kind: "local", body: taken }
  return { tools: [...tools, tool], name }
})

/** The check of an answer that is the agent's output: a call of the output tool, or the final text. */
export function* checkOutput(
  output: StructuredOutput<unknown>,
  outputTool: string | undefined,
  message: Message.AssistantMessage
): Effect.fn.Return<{ readonly output?: runParts.OutputCheck; readonly outputCall?: string }> {
  const calls = Message.toolCalls(message)
  const outputCall = outputTool === undefined ? undefined : calls.find((call) => call.name === outputTool)
  if (outputCall !== undefined) {
    return { output: yield* checkValue(output, outputCall.arguments), outputCall: outputCall.id }
  }
  const isFinal =
    calls.length === 0 &&
    runTransition.stopReasonOf(message.finishReason) === undefined &&
    message.finishReason !== "pause"
  return isFinal ? { output: yield* checkText(output, Message.text(message)) } : {}
}

/** The output in an answer. A provider receives an object, which holds an output that is none. */
const unwrap = ({ offered, schema }: StructuredOutput<unknown>, value: Schema.Json): Schema.Json => {
  if (offered === schema || !isObject(value) || Object.keys(value).length !== 1) return value
  const inner = own(value, wrapperKey)
  return inner === undefined ? value : inner
}

const covers = (one: string, other: string): boolean => one === other || other.startsWith(`${one}/`)

/** Checks a JSON value by the JSON Schema of the output and by its Schema. */
const checkValue = Effect.fnUntraced(function* (
  self: StructuredOutput<unknown>,
  value: Schema.Json
): Effect.fn.Return<runParts.OutputCheck> {
  const direct = JsonSchema.validate(self.schema, value)
  const inner = Result.isSuccess(direct) ? value : unwrap(self, value)
  const valid = Result.isSuccess(direct) ? direct : JsonSchema.validate(self.schema, inner)
  const decoded = yield* Effect.result(self.decode(Result.isSuccess(valid) ? valid.success : inner))
  const further = Result.isFailure(decoded) ? decoded.failure : []
  if (Result.isSuccess(valid)) {
    return Result.isSuccess(decoded)
      ? { _tag: "Valid", value: valid.success }
      : { _tag: "Invalid", issues: decoded.failure }
  }
  // The Schema has checks that JSON Schema cannot express. A null may replace an absent key.
  const added = further.filter(
    ({ path }) =>
      getAt(inner, path) !== null &&
      !valid.failure.some((issue) => covers(issue.path, path) || covers(path, issue.path))
  )
  return { _tag: "Invalid", issues: [...valid.failure, ...added] }
})

/** A value that is a part of an output, as it is stored and decoded; `undefined` where it does not fit. */
export const decodePart = Effect.fnUntraced(function* (output: Option.Option<Output<unknown>>, given: Schema.Json) {
  if (Option.isNone(output) || output.value._tag === "Text") return undefined
  const { decode, schema } = output.value
  const valid = JsonSchema.validate(schema, given)
  if (Result.isFailure(valid)) return undefined
  const decoded = yield* Effect.option(decode(valid.success))
  return Option.isNone(decoded) ? undefined : { value: valid.success, decoded: decoded.value }
})

/** Checks the model's final text as output. The latest value that fits is the answer; the values before it are drafts. */
const checkText = Effect.fnUntraced(function* (
  self: StructuredOutput<unknown>,
  final: string
): Effect.fn.Return<runParts.OutputCheck> {
  const { error, values } = answerText.find(final, yield* Limits)
  for (const value of values) {
    const checked = yield* checkValue(self, value)
    if (checked._tag === "Valid") return checked
  }
  const value = answerText.likeliest(values)
  return value === undefined ? { _tag: "Invalid", issues: error.problems } : yield* checkValue(self, value)
})

const systemText = (schema: JsonSchema.JsonSchema): string =>
  [
    "Your final answer must be one JSON value that is valid against this JSON Schema, with no text around it:",
    JSON.stringify(schema.json)
  ].join("\n")

/**
 * The system text about the output, the same in each request of a run. Where each call is constrained, the Schema has it; where an
 * adapter may leave a part of that out, the text has it as well.
 */
export const systemTextOf = (self: Output<unknown>, structured: runParts.StructuredSteps): string | undefined => {
  if (self._tag === "Text" || self.strategy === "tool") return undefined
  if (structured !== "always") return systemText(self.schema)
  return self.forAdapter().isWhole ? undefined : systemText(self.offered)
}
