/** What an agent's final answer has to be, and how it is read. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as CheckedSchema from "../../payload/CheckedSchema.ts"
import * as FromSchema from "../../payload/FromSchema.ts"
import { at, isObject, type JsonObject } from "../../payload/Json.ts"
import type { JsonSchemaError } from "../../payload/JsonSchemaError.ts"
import * as ModelJson from "../../payload/ModelJson.ts"
import { fromSchemaError, type ValidationIssue } from "../../payload/ValidationIssue.ts"
import type { OutputStrategy } from "../AgentDefinition.ts"
import type { OutputCheck, Purpose } from "../RunEvent.ts"

export interface StructuredOutput<out A> {
  readonly _tag: "Structured"
  readonly strategy: OutputStrategy
  readonly schema: CheckedSchema.CheckedSchema
  /** The schema as a provider takes it: an object, the output under `value` when it is none itself. */
  readonly offered: CheckedSchema.CheckedSchema
  readonly decode: (value: Schema.Json) => Effect.Effect<A, ReadonlyArray<ValidationIssue>>
}

export interface TextOutput<out A> {
  readonly _tag: "Text"
  readonly decode: (text: string) => Effect.Effect<A, ReadonlyArray<ValidationIssue>>
}

export type Output<A> = StructuredOutput<A> | TextOutput<A>

const wrapperKey = "value"

const isObjectSchema = (json: JsonObject): boolean => json["type"] === "object"

const wrap = (json: JsonObject): JsonObject => {
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
  json: JsonObject,
  strategy: OutputStrategy,
  decode: StructuredOutput<A>["decode"]
) {
  const schema = yield* CheckedSchema.make(json, { what: "output schema" })
  const offered = isObjectSchema(json) ? schema : yield* CheckedSchema.make(wrap(json), { what: "output schema" })
  return { _tag: "Structured", strategy, schema, offered, decode } satisfies StructuredOutput<A>
})

/** The output of an agent that is code: a Schema. */
export const fromSchema = (
  schema: Schema.Top,
  strategy: OutputStrategy
): Effect.Effect<StructuredOutput<unknown>, JsonSchemaError> => {
  const decodeJson = Schema.decodeUnknownEffect(Schema.toCodecJson(schema))
  const decode = (value: Schema.Json) =>
    // Sound: the services of the output Schema are among those a run of the agent requires.
    Effect.mapError(decodeJson(value, { errors: "all" }), fromSchemaError) as Effect.Effect<
      unknown,
      ReadonlyArray<ValidationIssue>
    >
  return Effect.flatMap(FromSchema.fromSchema(schema, { what: "output schema" }), (json) =>
    structured(json, strategy, decode)
  )
}

/** The output of an agent that came as data: judged by its JSON Schema alone. */
export const fromJson = (
  json: JsonObject,
  strategy: OutputStrategy
): Effect.Effect<StructuredOutput<Schema.Json>, JsonSchemaError> => structured(json, strategy, Effect.succeed)

/** No output schema: the output is the text. */
export const text: TextOutput<string> = { _tag: "Text", decode: Effect.succeed }

const unwrap = <A>(self: StructuredOutput<A>, value: Schema.Json): Schema.Json =>
  self.offered !== self.schema && isObject(value) && Object.keys(value).length === 1 && Object.hasOwn(value, wrapperKey)
    ? (value[wrapperKey] ?? null)
    : value

const covers = (one: string, other: string): boolean => one === other || other.startsWith(`${one}/`)

/**
 * What the Schema adds to the issues of its JSON Schema: checks that JSON Schema cannot
 * say, at places that are not reported yet. A null there may stand for an absent key.
 */
const further = <A>(
  self: StructuredOutput<A>,
  value: Schema.Json,
  issues: ReadonlyArray<ValidationIssue>
): Effect.Effect<ReadonlyArray<ValidationIssue>> =>
  Effect.match(self.decode(value), {
    onSuccess: () => [],
    onFailure: (found) =>
      found.filter(
        ({ pointer }) =>
          Option.getOrUndefined(at(value, pointer)) !== null &&
          !issues.some((issue) => covers(issue.pointer, pointer) || covers(pointer, issue.pointer))
      )
  })

/** Whether a JSON value is output, by the JSON Schema and by the Schema itself. */
export const checkValue = <A>(self: StructuredOutput<A>, value: Schema.Json): Effect.Effect<OutputCheck> => {
  const direct = CheckedSchema.validate(self.schema, value)
  const inner = Result.isSuccess(direct) ? value : unwrap(self, value)
  const valid = Result.isSuccess(direct) ? direct : CheckedSchema.validate(self.schema, inner)
  return Result.match(valid, {
    onFailure: (issues): Effect.Effect<OutputCheck> =>
      Effect.map(further(self, inner, issues), (more) => ({ _tag: "Invalid", issues: [...issues, ...more] })),
    onSuccess: (json) =>
      Effect.match(self.decode(json), {
        onFailure: (issues): OutputCheck => ({ _tag: "Invalid", issues }),
        onSuccess: (): OutputCheck => ({ _tag: "Valid", value: json })
      })
  })
}

/** Whether the model's final text holds output. */
export const checkText = <A>(self: StructuredOutput<A>, final: string): Effect.Effect<OutputCheck> =>
  Result.match(ModelJson.parse(final), {
    onFailure: (error) =>
      Effect.succeed<OutputCheck>({
        _tag: "Invalid",
        issues: [{ path: "", pointer: "", keyword: "json", message: error.message }]
      }),
    onSuccess: (value) => checkValue(self, value)
  })

const systemText = (schema: CheckedSchema.CheckedSchema): string =>
  [
    "Your final answer must be one JSON value that is valid against this JSON Schema, with no text around it:",
    JSON.stringify(schema.json)
  ].join("\n")

/**
 * What the system text says about the output. A constrained call says it by its Schema,
 * unless that is one of those that core cannot hold: then the text says it as well.
 */
export const toldBefore = <A>(self: StructuredOutput<A>, purpose: Purpose): string | undefined => {
  if (self.strategy === "tool") return undefined
  if (purpose === "answer") return systemText(self.schema)
  return Option.isNone(CheckedSchema.importSchema(self.offered)) ? systemText(self.offered) : undefined
}

/** When `generateObject` is used, by strategy and by whether tools are offered. */
export const structuredSteps = (self: Output<unknown>, hasTools: boolean): "never" | "fallback" | "always" =>
  self._tag === "Text" || self.strategy !== "native" ? "never" : hasTools ? "fallback" : "always"
