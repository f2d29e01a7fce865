/**
 * The definition of an agent as data: its type, model names, what is checked, the newest wire and the digest.
 * Below the frozen wires, so that they can name the type; `AgentDefinition` re-exports what users name.
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Digest from "../../payload/Digest.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as Limits from "../../payload/Limits.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as Secrets from "../../payload/Secrets.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as interpret from "../../payload/internal/interpret.ts"
import * as paths from "../../payload/internal/paths.ts"
import * as untrusted from "../../payload/internal/untrusted.ts"
import type * as ToolContract from "../../tool/ToolContract.ts"

const OutputStrategySchema = Schema.Literals(["native", "prompted", "tool"])

/**
 * How the model is told about the output schema.
 *
 * - `native`: the provider's own constrained decoding, once no tool is needed.
 * - `prompted`: the JSON Schema is written into the system text.
 * - `tool`: the model hands in the answer by calling a tool made for it.
 */
export const OutputStrategy: Schema.Literals<readonly ["native", "prompted", "tool"]> = OutputStrategySchema

/**
 * How the model is told about the output schema.
 */
export type OutputStrategy = typeof OutputStrategy.Type

export const ReasoningLevelSchema = Schema.Literals(["off", "low", "medium", "high", "xhigh", "max"])

/**
 * How much the model should think before it answers.
 */
export const ReasoningLevel: Schema.Literals<readonly ["off", "low", "medium", "high", "xhigh", "max"]> =
  ReasoningLevelSchema

/**
 * How much the model should think before it answers.
 */
export type ReasoningLevel = typeof ReasoningLevel.Type

/**
 * The form the final answer must have: a JSON Schema, kept verbatim, and how the
 * model is told.
 */
export interface Output {
  readonly schema: JsonObject
  readonly strategy: OutputStrategy
}

/**
 * A resolved agent as plain data.
 *
 * **Details**
 *
 * - `name`: the name the agent was given explicitly.
 * - `model`: `"provider/model"`; absent means the `LanguageModel` of whoever runs
 *   it.
 * - `instructions`: the system message of a fresh conversation.
 * - `modelOptions`: sampling and limits for the model; never URLs, headers, keys.
 * - `maxSteps`: model calls per user message.
 * - `tools`: what the model may call, names unique.
 *
 * A value built by {@link AgentDefinition.make} or by decoding is well-formed. One built by hand
 * is checked when it is encoded.
 */
export interface AgentDefinition {
  readonly name?: string
  readonly model?: string
  readonly instructions?: string
  readonly modelOptions: JsonObject
  readonly maxSteps: number | "unlimited"
  readonly output?: Output
  readonly reasoning?: ReasoningLevel
  readonly tools: ReadonlyArray<ToolContract.ToolContract>
}

const JsonObjectSchema = Schema.Record(Schema.String, Schema.Json)

const ToolContractSchema = Schema.Struct({
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  parameters: JsonObjectSchema,
  success: Schema.optionalKey(JsonObjectSchema),
  failure: Schema.optionalKey(JsonObjectSchema),
  timeout: Schema.Duration,
  approval: Schema.Literals(["never", "always", "dynamic"]),
  annotations: Schema.Struct({
    title: Schema.optionalKey(Schema.String),
    readonly: Schema.optionalKey(Schema.Boolean),
    destructive: Schema.optionalKey(Schema.Boolean),
    idempotent: Schema.optionalKey(Schema.Boolean),
    openWorld: Schema.optionalKey(Schema.Boolean),
    strict: Schema.optionalKey(Schema.Boolean)
  }),
  digest: Schema.String
})

export const AgentDefinitionSchema: Schema.Codec<AgentDefinition, unknown> = Schema.Struct({
  name: Schema.optionalKey(Schema.String),
  model: Schema.optionalKey(Schema.String),
  instructions: Schema.optionalKey(Schema.String),
  modelOptions: JsonObjectSchema,
  maxSteps: Schema.Union([Schema.Finite, Schema.Literal("unlimited")]),
  output: Schema.optionalKey(Schema.Struct({ schema: JsonObjectSchema, strategy: OutputStrategySchema })),
  reasoning: Schema.optionalKey(ReasoningLevelSchema),
  tools: Schema.Array(ToolContractSchema)
})

/**
 * The definition as a Schema of the value in memory. It says nothing about the
 * wire; use {@link AgentDefinition.Wire} to embed definitions in JSON.
 */
export const AgentDefinition: Schema.Codec<AgentDefinition, unknown> = AgentDefinitionSchema

/** `"provider/model"`, split at the first slash. */
interface ModelName {
  readonly provider: string
  readonly model: string
}

/** What a well-formed model name is, for messages. */
export const expectedModelName = `"provider/model", such as "openai/gpt-5.2"`

export const parseModelName = (name: unknown): Option.Option<ModelName> => {
  if (typeof name !== "string") return Option.none()
  const slash = name.indexOf("/")
  const provider = name.slice(0, slash)
  const model = name.slice(slash + 1)
  return slash > 0 && !/\s/u.test(provider) && model !== "" && model.trim() === model
    ? Option.some({ provider, model })
    : Option.none()
}

/** A name found in a definition, in the form in which a message shows it. */
export const renderValue = (name: unknown): string => {
  if (typeof name === "string") return paths.quote(name)
  if (name === undefined) return "nothing"
  if (name === null || typeof name === "number" || typeof name === "boolean") return String(name)
  return Array.isArray(name) ? "array" : typeof name
}

export const artefact = "Agent definition"

export const defaultMaxSteps = 16

/** Where the parts of a definition stand: on the wire of one version, or in memory. */
export interface WirePaths {
  readonly name: string
  readonly maxSteps: string
  readonly outputSchema: string
  readonly parameters: string
  /** What this form cannot do without. */
  readonly needs: { readonly model: boolean; readonly description: boolean; readonly finiteTimeout: boolean }
}

const memoryPaths: WirePaths = {
  name: "/name",
  maxSteps: "/maxSteps",
  outputSchema: "/output/schema",
  parameters: "parameters",
  needs: { model: false, description: false, finiteTimeout: false }
}

const isBlank = (text: string) => text.trim() === ""

const maxStepsIssue = (path: string, found: unknown): PayloadError.Problem => ({
  path,
  expected: `a whole number of at least 1, or "unlimited"`,
  found: renderValue(found)
})

const schemaIssue = (path: string, error: JsonSchema.JsonSchemaError): PayloadError.Problem => ({
  path: path + error.path,
  expected: "a JSON Schema that can be enforced",
  found: `one that cannot: ${error.message}`
})

/**
 * What was found sound before. The values are read-only, a tool of a program is
 * one object for all of its runs, and checking thirty of them takes longer than
 * all the rest of starting a run.
 */
const checkedSchemas = new WeakSet<JsonObject>()

const checkedDigests = new WeakSet<ToolContract.ToolContract>()

const checkSchema = (path: string, json: JsonObject): Effect.Effect<ReadonlyArray<PayloadError.Problem>> =>
  checkedSchemas.has(json)
    ? Effect.succeed([])
    : JsonSchema.make(json, { what: "JSON Schema" }).pipe(
        Effect.map(() => {
          checkedSchemas.add(json)
          return []
        }),
        Effect.catch((error) => Effect.succeed([schemaIssue(path, error)]))
      )

const checkDigest = (
  path: string,
  tool: ToolContract.ToolContract
): Effect.Effect<ReadonlyArray<PayloadError.Problem>> =>
  checkedDigests.has(tool)
    ? Effect.succeed([])
    : Effect.match(Digest.sha256({ name: tool.name, parameters: tool.parameters }), {
        onFailure: (error) => [{ path, expected: "a name and parameters that have a digest", found: error.message }],
        onSuccess: (digest) => {
          if (tool.digest !== digest) {
            const expected = `the digest of the tool's name and parameters (${digest})`
            return [{ path: `${path}/digest`, expected, found: renderValue(tool.digest) }]
          }
          checkedDigests.add(tool)
          return []
        }
      })

const timeoutIssues = (
  path: string,
  timeout: Duration.Duration,
  places: WirePaths
): ReadonlyArray<PayloadError.Problem> => {
  if (!Duration.isFinite(timeout)) {
    return places.needs.finiteTimeout
      ? [{ path, expected: "a number of seconds; this version has no infinite timeout", found: "infinity" }]
      : []
  }
  const millis = Duration.toMillis(timeout)
  return Number.isSafeInteger(millis) && millis >= 1
    ? []
    : [{ path, expected: "a timeout of whole milliseconds, at least one", found: `${millis} milliseconds` }]
}

const toolIssues = (tool: ToolContract.ToolContract, path: string, places: WirePaths) =>
  Effect.gen(function* () {
    const issues: Array<PayloadError.Problem> = []
    const named = renderValue(tool.name)
    if (isBlank(tool.name)) {
      issues.push({ path: `${path}/name`, expected: "the name of the tool", found: "blank text" })
    }
    if (tool.description === undefined ? places.needs.description : isBlank(tool.description)) {
      issues.push({
        path: `${path}/description`,
        expected: `a description of the tool ${named}`,
        found: tool.description === undefined ? "nothing" : "blank text"
      })
    }
    issues.push(...timeoutIssues(`${path}/timeout`, tool.timeout, places))
    issues.push(...(yield* checkSchema(`${path}/${places.parameters}`, tool.parameters)))
    if (tool.success !== undefined) issues.push(...(yield* checkSchema(`${path}/success`, tool.success)))
    if (tool.failure !== undefined) issues.push(...(yield* checkSchema(`${path}/failure`, tool.failure)))
    issues.push(...(yield* checkDigest(path, tool)))
    return issues
  })

/**
 * The digest of a tool that was just read. A tool that has none gets an empty
 * one, and {@link check} says why.
 */
export const digestOf = (name: string, parameters: JsonObject): Effect.Effect<string> =>
  Effect.orElseSucceed(Digest.sha256({ name, parameters }), () => "")

const toolNameIssues = (tools: ReadonlyArray<ToolContract.ToolContract>): ReadonlyArray<PayloadError.Problem> => {
  const seen = new Map<string, number>()
  return tools.flatMap(({ name }, index) => {
    const first = seen.get(name)
    if (first !== undefined && !isBlank(name)) {
      return [
        {
          path: `/tools/${index}/name`,
          expected: `a name that no other tool has`,
          found: `${renderValue(name)}, the name of /tools/${first}`
        }
      ]
    }
    seen.set(name, index)
    return []
  })
}

const fieldIssues = (definition: AgentDefinition, places: WirePaths): ReadonlyArray<PayloadError.Problem> => {
  const { instructions, maxSteps, model, name } = definition
  const issues: Array<PayloadError.Problem> = []
  if (name !== undefined && isBlank(name)) issues.push({ path: places.name, expected: "a name", found: "blank text" })
  if (model === undefined ? places.needs.model : Option.isNone(parseModelName(model))) {
    issues.push({ path: "/model", expected: `a model of the form ${expectedModelName}`, found: renderValue(model) })
  }
  if (instructions !== undefined && isBlank(instructions)) {
    issues.push({ path: "/instructions", expected: "instructions, or none at all", found: "blank text" })
  }
  if (maxSteps !== "unlimited" && !(Number.isSafeInteger(maxSteps) && maxSteps >= 1)) {
    issues.push(maxStepsIssue(places.maxSteps, maxSteps))
  }
  return issues
}

const fieldOrder = [
  "identifier",
  "name",
  "model",
  "instructions",
  "model_options",
  "max_steps",
  "maxSteps",
  "reasoning"
]

/** Issues in the order of a definition's keys, those of one tool together. */
const sortIssues = (issues: ReadonlyArray<PayloadError.Problem>): ReadonlyArray<PayloadError.Problem> => {
  const rank = ({ path }: PayloadError.Problem): number => {
    const [, key = "", index = ""] = path.split("/")
    if (key === "tools") return fieldOrder.length + 1 + (Number(index) || 0)
    const at = fieldOrder.indexOf(key)
    return at < 0 ? fieldOrder.length : at
  }
  return issues.toSorted((a, b) => rank(a) - rank(b))
}

/**
 * Checks everything a definition promises, and reports every problem at once,
 * after those the caller already found.
 */
export const check = Effect.fnUntraced(function* (
  definition: AgentDefinition,
  places: WirePaths,
  found: ReadonlyArray<PayloadError.Problem> = []
): Effect.fn.Return<AgentDefinition, PayloadError.PayloadError> {
  const { maxIssues } = yield* Limits.Limits
  yield* untrusted.checkCount("tools", definition.tools.length, { what: artefact, path: "/tools" })
  for (const [index, tool] of definition.tools.entries()) {
    const name = untrusted.checkName(tool.name, { what: artefact, path: `/tools/${index}/name` })
    if (Result.isFailure(name)) return yield* name.failure
  }
  const issues: Array<PayloadError.Problem> = [...fieldIssues(definition, places)]
  if (definition.output !== undefined) {
    issues.push(...(yield* checkSchema(places.outputSchema, definition.output.schema)))
  }
  issues.push(...toolNameIssues(definition.tools))
  for (const [index, tool] of definition.tools.entries()) {
    issues.push(...(yield* toolIssues(tool, `/tools/${index}`, places)))
  }
  // what could not be read is not reported again as missing, nor is anything inside it
  const isUnread = ({ path }: PayloadError.Problem) =>
    found.some((one) => path === one.path || path.startsWith(`${one.path}/`))
  const all = sortIssues([...found, ...issues.filter((issue) => !isUnread(issue))])
  if (all.length === 0) return definition
  const shown = all.slice(0, maxIssues)
  return yield* new PayloadError.PayloadError({
    what: artefact,
    reason: PayloadError.invalid(shown, all.length - shown.length)
  })
}, interpret.sharePatternFuel)

export const make = (options: {
  readonly name?: string | undefined
  readonly model?: string | undefined
  readonly instructions?: string | undefined
  readonly modelOptions?: JsonObject | undefined
  readonly maxSteps?: number | "unlimited" | undefined
  readonly output?: { readonly schema: JsonObject; readonly strategy?: OutputStrategy | undefined } | undefined
  readonly reasoning?: ReasoningLevel | undefined
  readonly tools?: ReadonlyArray<ToolContract.ToolContract> | undefined
}): Effect.Effect<AgentDefinition, PayloadError.PayloadError> =>
  check(
    {
      ...(options.name === undefined ? {} : { name: options.name }),
      ...(options.model === undefined ? {} : { model: options.model }),
      ...(options.instructions === undefined ? {} : { instructions: options.instructions }),
      modelOptions: options.modelOptions ?? {},
      maxSteps: options.maxSteps ?? defaultMaxSteps,
      ...(options.output === undefined
        ? {}
        : { output: { schema: options.output.schema, strategy: options.output.strategy ?? "native" } }),
      ...(options.reasoning === undefined ? {} : { reasoning: options.reasoning }),
      tools: options.tools ?? []
    },
    memoryPaths
  )

const WireJsonObject = Schema.Record(Schema.String, Schema.Json)

const WireStrategy = Schema.Literals(["native", "prompted", "tool"])

const WireAnnotations = Schema.Struct({
  title: Schema.optionalKey(Schema.String),
  readonly: Schema.optionalKey(Schema.Boolean),
  destructive: Schema.optionalKey(Schema.Boolean),
  idempotent: Schema.optionalKey(Schema.Boolean),
  open_world: Schema.optionalKey(Schema.Boolean),
  strict: Schema.optionalKey(Schema.Boolean)
})

const WireTool = Schema.Struct({
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  parameters: WireJsonObject,
  success: Schema.optionalKey(WireJsonObject),
  failure: Schema.optionalKey(WireJsonObject),
  timeout: Schema.optionalKey(Schema.Union([Schema.Finite, Schema.Literal("infinity")])),
  approval: Schema.optionalKey(Schema.Literals(["never", "always", "dynamic"])),
  annotations: Schema.optionalKey(WireAnnotations),
  digest: Schema.optionalKey(Schema.String)
})

const Wire = Schema.Struct({
  schema_version: Schema.Literal(2),
  name: Schema.optionalKey(Schema.String),
  model: Schema.optionalKey(Schema.String),
  instructions: Schema.optionalKey(Schema.String),
  model_options: Schema.optionalKey(WireJsonObject),
  max_steps: Schema.optionalKey(Schema.Union([Schema.Finite, Schema.Literal("unlimited")])),
  reasoning: Schema.optionalKey(Schema.Literals(["off", "low", "medium", "high", "xhigh", "max"])),
  output: Schema.optionalKey(Schema.Struct({ schema: WireJsonObject, strategy: Schema.optionalKey(WireStrategy) })),
  tools: Schema.optionalKey(Schema.Array(WireTool))
})

const wirePaths: WirePaths = {
  name: "/name",
  maxSteps: "/max_steps",
  outputSchema: "/output/schema",
  parameters: "parameters",
  needs: { model: false, description: false, finiteTimeout: false }
}

const readAnnotations = ({ open_world, ...rest }: typeof WireAnnotations.Type): ToolContract.Annotations => ({
  ...rest,
  ...(open_world === undefined ? {} : { openWorld: open_world })
})

const readTool = Effect.fnUntraced(function* (tool: typeof WireTool.Type) {
  const contract: ToolContract.ToolContract = {
    name: tool.name,
    ...(tool.description === undefined ? {} : { description: tool.description }),
    parameters: tool.parameters,
    ...(tool.success === undefined ? {} : { success: tool.success }),
    ...(tool.failure === undefined ? {} : { failure: tool.failure }),
    timeout: tool.timeout === "infinity" ? Duration.infinity : Duration.millis(tool.timeout ?? 10_000),
    approval: tool.approval ?? "never",
    annotations: readAnnotations(tool.annotations ?? {}),
    digest: tool.digest ?? (yield* digestOf(tool.name, tool.parameters))
  }
  return contract
})

const fromWire = Effect.fnUntraced(function* (wire: typeof Wire.Type) {
  const definition: AgentDefinition = {
    ...(wire.name === undefined ? {} : { name: wire.name }),
    ...(wire.model === undefined ? {} : { model: wire.model }),
    ...(wire.instructions === undefined ? {} : { instructions: wire.instructions }),
    modelOptions: wire.model_options ?? {},
    maxSteps: wire.max_steps ?? defaultMaxSteps,
    ...(wire.output === undefined
      ? {}
      : { output: { schema: wire.output.schema, strategy: wire.output.strategy ?? "native" } }),
    ...(wire.reasoning === undefined ? {} : { reasoning: wire.reasoning }),
    tools: yield* Effect.forEach(wire.tools ?? [], readTool)
  }
  return yield* check(definition, wirePaths)
})

const writeAnnotations = ({ openWorld, strict, ...rest }: ToolContract.Annotations): typeof WireAnnotations.Type => ({
  ...rest,
  ...(openWorld === undefined ? {} : { open_world: openWorld }),
  ...(strict === undefined ? {} : { strict })
})

/**
 * A tool as version 2 writes it.
 */
const writeTool = (tool: ToolContract.ToolContract): typeof WireTool.Type => ({
  name: tool.name,
  ...(tool.description === undefined ? {} : { description: tool.description }),
  parameters: tool.parameters,
  ...(tool.success === undefined ? {} : { success: tool.success }),
  ...(tool.failure === undefined ? {} : { failure: tool.failure }),
  timeout: Duration.isFinite(tool.timeout) ? Duration.toMillis(tool.timeout) : "infinity",
  approval: tool.approval,
  annotations: writeAnnotations(tool.annotations),
  digest: tool.digest
})

/**
 * A definition as version 2 writes it, without its tools.
 */
const writeHead = (definition: AgentDefinition): Omit<typeof Wire.Type, "tools"> => {
  const { instructions, maxSteps, model, modelOptions, name, output, reasoning } = definition
  return {
    schema_version: 2,
    ...(name === undefined ? {} : { name }),
    ...(model === undefined ? {} : { model }),
    ...(instructions === undefined ? {} : { instructions }),
    model_options: modelOptions,
    max_steps: maxSteps,
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(output === undefined ? {} : { output: { schema: output.schema, strategy: output.strategy } })
  }
}

const toWire = Effect.fnUntraced(function* (definition: AgentDefinition) {
  const checked = yield* check(definition, wirePaths)
  return yield* VersionedCodec.lossless<typeof Wire.Type>({
    ...writeHead(checked),
    tools: checked.tools.map(writeTool)
  })
})

export const currentArm = VersionedCodec.arm({ version: 2, wire: Wire, fromCurrent: toWire, toCurrent: fromWire })

// every run of an agent asks for its digest, and nearly all of it is tools that stay the same objects
const digestMemo = new WeakMap<ToolContract.ToolContract, string>()

const digestOfTool = (tool: ToolContract.ToolContract): Effect.Effect<string, PayloadError.PayloadError> => {
  const known = digestMemo.get(tool)
  return known === undefined
    ? Effect.tap(Digest.sha256(writeTool(tool)), (digest) => Effect.sync(() => digestMemo.set(tool, digest)))
    : Effect.succeed(known)
}

const noSecrets = (definition: AgentDefinition): Effect.Effect<void, PayloadError.PayloadError> =>
  Option.match(Secrets.find(definition.modelOptions), {
    onNone: () => Effect.void,
    onSome: ({ key, kind, path }) =>
      Effect.fail(
        new PayloadError.PayloadError({
          what: artefact,
          reason: PayloadError.Reason.cases.Secret.make({ path: `/modelOptions${path}`, key, kind })
        })
      )
  })

/** The digest of the definition's head and of the digests of its tools. */
export const digest = Effect.fnUntraced(function* (
  definition: AgentDefinition
): Effect.fn.Return<string, PayloadError.PayloadError> {
  yield* noSecrets(definition)
  const tools = yield* Effect.forEach(definition.tools, digestOfTool)
  return yield* Digest.sha256({ ...writeHead(definition), tools })
})
