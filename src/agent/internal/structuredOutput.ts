/**
 * Structured output: its strategies, the synthetic tool, and how an answer is checked.
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Json from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as ModelJson from "../../payload/ModelJson.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as issues from "../../payload/internal/issues.ts"
import * as base from "../../payload/internal/base.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as boundTool from "../../tool/internal/boundTool.ts"
import type { OutputStrategy } from "./agentData.ts"
import type * as runParts from "./runParts.ts"

interface StructuredOutput<out A> {
  readonly _tag: "Structured"
  readonly strategy: OutputStrategy
  readonly schema: JsonSchema.JsonSchema
  /** The schema as a provider takes it: an object, the output under `value` when it is none itself. */
  readonly offered: JsonSchema.JsonSchema
  readonly decode: (value: Schema.Json) => Effect.Effect<A, ReadonlyArray<PayloadError.Problem>>
}

interface TextOutput<out A> {
  readonly _tag: "Text"
  readonly decode: (text: string) => Effect.Effect<A, ReadonlyArray<PayloadError.Problem>>
}

export type Output<A> = StructuredOutput<A> | TextOutput<A>

const wrapperKey = "value"

const isObjectSchema = (json: Json.JsonObject): boolean => json["type"] === "object"

const wrap = (json: Json.JsonObject): Json.JsonObject => {
  const { $defs, $schema, ...schema } = json
  return {
    ...($schema === undefined ? undefined : { $schema }),
    type: "object",
    properties: { [wrapperKey]: schema },
    required: [wrapperKey],
    additionalProperties: false,
    ...($defs === undefined ? undefined : { $defs })
  }
}

const structured = Effect.fnUntraced(function* <A>(
  json: Json.JsonObject,
  strategy: OutputStrategy,
  decode: StructuredOutput<A>["decode"]
) {
  const schema = yield* JsonSchema.make(json, { what: "output schema" })
  const offered = isObjectSchema(json) ? schema : yield* JsonSchema.make(wrap(json), { what: "output schema" })
  return { _tag: "Structured", strategy, schema, offered, decode } satisfies StructuredOutput<A>
})

/** The output of an agent that is code: a Schema. */
export const fromSchema = (
  schema: Schema.Top,
  strategy: OutputStrategy
): Effect.Effect<StructuredOutput<unknown>, JsonSchema.JsonSchemaError> => {
  const decodeJson = Schema.decodeUnknownEffect(Schema.toCodecJson(schema))
  const decode = (value: Schema.Json) =>
    // Sound: the services of the output Schema are among those a run of the agent requires.
    Effect.mapError(decodeJson(value, { errors: "all" }), (error) =>
      issues.problemsFromSchemaError(error, value)
    ) as Effect.Effect<unknown, ReadonlyArray<PayloadError.Problem>>
  return Effect.flatMap(JsonSchema.fromSchema(schema, { what: "output schema" }), (json) =>
    structured(json, strategy, decode)
  )
}

/** The output of an agent that came as data: judged by its JSON Schema alone. */
export const fromJson = (
  json: Json.JsonObject,
  strategy: OutputStrategy
): Effect.Effect<StructuredOutput<Schema.Json>, JsonSchema.JsonSchemaError> =>
  structured(json, strategy, Effect.succeed)

/** No output schema: the output is the text. */
export const text: TextOutput<string> = { _tag: "Text", decode: Effect.succeed }

const unwrap = <A>(self: StructuredOutput<A>, value: Schema.Json): Schema.Json =>
  self.offered !== self.schema &&
  Json.isObject(value) &&
  Object.keys(value).length === 1 &&
  Object.hasOwn(value, wrapperKey)
    ? (value[wrapperKey] ?? null)
    : value

const covers = (one: string, other: string): boolean => one === other || other.startsWith(`${one}/`)

/**
 * What the Schema adds to the issues of its JSON Schema: checks that JSON Schema cannot
 * say, at places that are not reported yet. A null there may stand for an absent key.
 */
const furtherIssues = <A>(
  self: StructuredOutput<A>,
  value: Schema.Json,
  issues: ReadonlyArray<PayloadError.Problem>
): Effect.Effect<ReadonlyArray<PayloadError.Problem>> =>
  Effect.match(self.decode(value), {
    onSuccess: () => [],
    onFailure: (found) =>
      found.filter(
        ({ path }) =>
          base.getAt(value, path) !== null &&
          !issues.some((issue) => covers(issue.path, path) || covers(path, issue.path))
      )
  })

/** Whether a JSON value is output, by the JSON Schema and by the Schema itself. */
export const checkValue = <A>(self: StructuredOutput<A>, value: Schema.Json): Effect.Effect<runParts.OutputCheck> => {
  const direct = JsonSchema.validate(self.schema, value)
  const inner = Result.isSuccess(direct) ? value : unwrap(self, value)
  const valid = Result.isSuccess(direct) ? direct : JsonSchema.validate(self.schema, inner)
  return Result.match(valid, {
    onFailure: (issues): Effect.Effect<runParts.OutputCheck> =>
      Effect.map(furtherIssues(self, inner, issues), (more) => ({ _tag: "Invalid", issues: [...issues, ...more] })),
    onSuccess: (json) =>
      Effect.match(self.decode(json), {
        onFailure: (issues): runParts.OutputCheck => ({ _tag: "Invalid", issues }),
        onSuccess: (): runParts.OutputCheck => ({ _tag: "Valid", value: json })
      })
  })
}

/** Whether the model's final text holds output. */
export const checkText = <A>(self: StructuredOutput<A>, final: string): Effect.Effect<runParts.OutputCheck> =>
  Result.match(ModelJson.parse(final), {
    onFailure: (error) =>
      Effect.succeed<runParts.OutputCheck>({
        _tag: "Invalid",
        issues: PayloadError.problemsOf(error.reason)
      }),
    onSuccess: (value) => checkValue(self, value)
  })

const systemText = (schema: JsonSchema.JsonSchema): string =>
  [
    "Your final answer must be one JSON value that is valid against this JSON Schema, with no text around it:",
    JSON.stringify(schema.json)
  ].join("\n")

/**
 * What the system text says about the output. A constrained call says it by its Schema,
 * unless that is one of those that core cannot hold: then the text says it as well.
 */
export const systemTextBefore = <A>(self: StructuredOutput<A>, purpose: runParts.Purpose): string | undefined => {
  if (self.strategy === "tool") return undefined
  if (purpose === "answer") return systemText(self.schema)
  return Option.isNone(JsonSchema.importSchema(self.offered)) ? systemText(self.offered) : undefined
}

/** When `generateObject` is used, by strategy and by whether tools are offered. */
export const structuredSteps = (self: Output<unknown>, hasTools: boolean): "never" | "fallback" | "always" =>
  self._tag === "Text" || self.strategy !== "native" ? "never" : hasTools ? "fallback" : "always"

const freeName = (taken: ReadonlySet<string>): string => {
  let name = "final_answer"
  while (taken.has(name)) name = `_${name}`
  return name
}

/** The tools and, where the strategy asks for it, one more that the run never dispatches. */
export const withOutputTool = Effect.fnUntraced(function* <A>(
  tools: ReadonlyArray<boundTool.BoundTool>,
  output: Output<A>
) {
  if (output._tag === "Text" || output.strategy !== "tool") return { tools, name: undefined }
  const name = freeName(new Set(tools.map((tool) => tool.contract.name)))
  const contract = yield* ToolContract.make({
    name,
    description: "Give your final answer. Call this once, when you are done, and nothing else with it.",
    parameters: output.offered.json
  })
  const stub = yield* boundTool.makeStub(contract)
  const taken = Option.some(() => Effect.succeed(ToolResult.success(null)))
  const tool: boundTool.BoundTool = { ...stub, kind: "local", body: taken }
  return { tools: [...tools, tool], name }
})
