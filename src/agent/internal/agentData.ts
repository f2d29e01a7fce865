/**
 * The definition of an agent as data: its type, model names, what is checked, the newest wire and the digest.
 * Below the frozen wires, so that they can name the type; `AgentDefinition` re-exports what users name.
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as Digest from "../../payload/Digest.ts"
import * as Json from "../../payload/Json.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as Limits from "../../payload/Limits.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import { quote } from "../../payload/internal/base.ts"
import * as interpret from "../../payload/internal/interpret.ts"
import * as plainJson from "../../payload/internal/plainJson.ts"
import * as ToolContract from "../../tool/ToolContract.ts"

export const defaultMaxSteps = 16

/**
 * The strategy by which the model learns the output schema.
 *
 * - `native`: the provider's own constrained decoding, once no tool is needed.
 * - `prompted`: the JSON Schema is written into the system text.
 * - `tool`: the model returns the answer by calling a tool made for it.
 */
export const OutputStrategy = Schema.Literals(["native", "prompted", "tool"])

export type OutputStrategy = typeof OutputStrategy.Type

/** The amount of reasoning before the answer. */
export const ReasoningLevel = Schema.Literals(["off", "low", "medium", "high", "xhigh", "max"])

export type ReasoningLevel = typeof ReasoningLevel.Type

const JsonObjectSchema = Schema.Record(Schema.String, Schema.Json)

const withDefault = <S extends Schema.Top>(schema: S, value: S["Encoded"]) =>
  schema.pipe(Schema.withDecodingDefaultKey(Effect.succeed(value)))

/** The form of the final answer: a JSON Schema, kept unchanged, and how the model learns it. */
export const Output = Schema.Struct({ schema: JsonObjectSchema, strategy: withDefault(OutputStrategy, "native") })

export interface Output extends Schema.Schema.Type<typeof Output> {}

/** Milliseconds, or `"infinity"`. */
const Timeout = Schema.Union([Schema.Finite, Schema.Literal("infinity")]).pipe(
  Schema.decodeTo(Schema.Duration, {
    decode: SchemaGetter.transform((timeout) =>
      timeout === "infinity" ? Duration.infinity : Duration.millis(timeout)
    ),
    encode: SchemaGetter.transform((timeout) => (Duration.isFinite(timeout) ? Duration.toMillis(timeout) : "infinity"))
  })
)

/** A tool contract on the wire. One without a digest gets it when it is read. */
const WireTool = Schema.Struct({
  ...ToolContract.ToolContract.fields,
  timeout: withDefault(Timeout, 10_000),
  approval: withDefault(ToolContract.ToolContract.fields.approval, "never"),
  annotations: withDefault(
    ToolContract.ToolContract.fields.annotations.pipe(Schema.encodeKeys({ openWorld: "open_world" })),
    {}
  ),
  digest: Schema.optionalKey(Schema.String)
})

const head = {
  name: Schema.optionalKey(Schema.String),
  model: Schema.optionalKey(Schema.String),
  instructions: Schema.optionalKey(Schema.String),
  modelOptions: withDefault(JsonObjectSchema, {}),
  maxSteps: withDefault(Schema.Union([Schema.Finite, Schema.Literal("unlimited")]), defaultMaxSteps),
  reasoning: Schema.optionalKey(ReasoningLevel),
  output: Schema.optionalKey(Output)
}

const snakeCase = { modelOptions: "model_options", maxSteps: "max_steps" } as const

/**
 * A resolved agent as plain data.
 *
 * **Details**
 *
 * - `name`: the name the agent was given explicitly.
 * - `model`: `"provider/model"`; absent means the `LanguageModel` of the program
 *   that runs it.
 * - `instructions`: the system message of a fresh conversation.
 * - `modelOptions`: sampling and limits for the model; never URLs, headers, keys.
 * - `maxSteps`: model calls per user message.
 * - `tools`: what the model may call, names unique.
 *
 * A value built by {@link AgentDefinition.make} or by decoding is well-formed. One built by hand
 * is checked when it is encoded.
 */
export const AgentDefinition = Schema.Struct({ ...head, tools: Schema.Array(ToolContract.ToolContract) })

export interface AgentDefinition extends Schema.Schema.Type<typeof AgentDefinition> {}

/** `"provider/model"`, split at the first slash. */
export interface ModelName {
  readonly provider: string
  readonly model: string
}

/** The form of a model name, for messages. */
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
  if (typeof name === "string") return quote(name)
  if (name === undefined) return "nothing"
  if (name === null || typeof name === "number" || typeof name === "boolean") return String(name)
  return Array.isArray(name) ? "array" : typeof name
}

export const artefact = "Agent definition"

/** The places of the parts of a definition, on the wire of one version or in memory. */
export interface WirePaths {
  readonly name: string
  readonly maxSteps: string
  readonly expectedMaxSteps: string
  readonly outputSchema: string
  readonly parameters: string
  /** The parts that this form requires. */
  readonly needs: { readonly model: boolean; readonly description: boolean; readonly finiteTimeout: boolean }
}

export const memoryPaths: WirePaths = {
  name: "/name",
  maxSteps: "/maxSteps",
  expectedMaxSteps: `a whole number of at least 1, or "unlimited"`,
  outputSchema: "/output/schema",
  parameters: "parameters",
  needs: { model: false, description: false, finiteTimeout: false }
}

const checkSchema = (path: string, json: JsonObject): Effect.Effect<ReadonlyArray<PayloadError.Problem>> =>
  Effect.match(JsonSchema.make(json, { what: "JSON Schema" }), {
    onFailure: (error) => [
      {
        path: path + error.path,
        expected: "a JSON Schema that can be enforced",
        found: `one that cannot: ${error.message}`
      }
    ],
    onSuccess: () => []
  })

/** Tools whose digest is right: a tool of a program is one object for all of its runs. */
const checkedDigests = new WeakSet<ToolContract.ToolContract>()

const checkDigest = Effect.fnUntraced(function* (path: string, tool: ToolContract.ToolContract) {
  if (checkedDigests.has(tool)) return []
  const digest = yield* ToolContract.digest(tool)
  if (tool.digest !== digest) {
    const expected = `the digest of the tool's contract (${digest})`
    const fix = "Leave the digest out of the JSON, or make the contract with ToolContract.make."
    return [{ path: `${path}/digest`, expected, found: renderValue(tool.digest), fix }]
  }
  checkedDigests.add(tool)
  return []
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

/** A text that is blank, or that is absent where this form needs it. */
const textIssues = (
  path: string,
  expected: string,
  text: string | undefined,
  needed: boolean
): ReadonlyArray<PayloadError.Problem> => {
  if (text === undefined) return needed ? [{ path, expected, found: "nothing" }] : []
  return text.trim() === "" ? [{ path, expected, found: "blank text" }] : []
}

const toolIssues = Effect.fnUntraced(function* (tool: ToolContract.ToolContract, path: string, places: WirePaths) {
  const { description, failure, name, parameters, success, timeout } = tool
  const expected = `a description of the tool ${renderValue(name)}`
  const digest = checkDigest(path, tool)
  return [
    ...textIssues(`${path}/name`, "the name of the tool", name, true),
    ...textIssues(`${path}/description`, expected, description, places.needs.description),
    ...timeoutIssues(`${path}/timeout`, timeout, places),
    ...(yield* checkSchema(`${path}/${places.parameters}`, parameters)),
    ...(success === undefined ? [] : yield* checkSchema(`${path}/success`, success)),
    ...(failure === undefined ? [] : yield* checkSchema(`${path}/failure`, failure)),
    ...(yield* Effect.catch(digest, (error) =>
      Effect.succeed([{ path, expected: "a contract that has a digest", found: error.message }])
    ))
  ]
})

/** A tool that was just read, with its digest. If none can be computed it is empty, and {@link check} reports the reason. */
export const withDigest = (tool: Omit<ToolContract.ToolContract, "digest">): Effect.Effect<ToolContract.ToolContract> =>
  Effect.map(
    Effect.orElseSucceed(ToolContract.digest(tool), () => ""),
    (digest) => ({ ...tool, digest })
  )

const toolNameIssues = (tools: ReadonlyArray<ToolContract.ToolContract>): ReadonlyArray<PayloadError.Problem> =>
  tools.flatMap(({ name }, index) => {
    const first = tools.findIndex((tool) => tool.name === name)
    const found = `${renderValue(name)}, the name of /tools/${first}`
    return first === index || name.trim() === ""
      ? []
      : [{ path: `/tools/${index}/name`, expected: "a name that no other tool has", found }]
  })

const fieldIssues = (definition: AgentDefinition, places: WirePaths): ReadonlyArray<PayloadError.Problem> => {
  const { instructions, maxSteps, model, name } = definition
  const isModelValid = model === undefined ? !places.needs.model : Option.isSome(parseModelName(model))
  const isLimit = maxSteps === "unlimited" || (Number.isSafeInteger(maxSteps) && maxSteps >= 1)
  return [
    ...textIssues(places.name, "a name", name, false),
    ...(isModelValid
      ? []
      : [{ path: "/model", expected: `a model of the form ${expectedModelName}`, found: renderValue(model) }]),
    ...textIssues("/instructions", "instructions, or none at all", instructions, false),
    ...(isLimit ? [] : [{ path: places.maxSteps, expected: places.expectedMaxSteps, found: renderValue(maxSteps) }])
  ]
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
  const { output, tools } = definition
  const { maxIssues } = yield* Limits.Limits
  yield* plainJson.checkCount("tools", tools.length, { what: artefact, path: "/tools" })
  for (const [index, { name }] of tools.entries()) {
    yield* Effect.fromResult(plainJson.checkName(name, { what: artefact, path: `/tools/${index}/name` }))
  }
  const issues = [
    ...fieldIssues(definition, places),
    ...(output === undefined ? [] : yield* checkSchema(places.outputSchema, output.schema)),
    ...toolNameIssues(tools),
    ...(yield* Effect.forEach(tools, (tool, index) => toolIssues(tool, `/tools/${index}`, places))).flat()
  ]
  // A part that could not be read is not reported again as missing, nor is anything inside it.
  const isUnread = ({ path }: PayloadError.Problem) =>
    found.some((one) => path === one.path || path.startsWith(`${one.path}/`))
  const all = [...found, ...issues.filter((issue) => !isUnread(issue))]
  if (all.length === 0) return definition
  const shown = all.slice(0, maxIssues)
  return yield* new PayloadError.PayloadError({
    what: artefact,
    reason: PayloadError.invalid(shown, all.length - shown.length)
  })
}, interpret.sharePatternFuel)

const Wire = Schema.Struct({
  schema_version: Schema.Literal(2),
  ...head,
  tools: withDefault(Schema.Array(WireTool), [])
}).pipe(Schema.encodeKeys(snakeCase))

const wirePaths: WirePaths = { ...memoryPaths, maxSteps: "/max_steps" }

const readTool = ({ digest, ...tool }: typeof WireTool.Type): Effect.Effect<ToolContract.ToolContract> =>
  digest === undefined ? withDigest(tool) : Effect.succeed({ ...tool, digest })

export const currentArm = VersionedCodec.arm({
  version: 2,
  wire: Wire,
  toCurrent: Effect.fnUntraced(function* ({ schema_version: _, tools, ...rest }: typeof Wire.Type) {
    return yield* check({ ...rest, tools: yield* Effect.forEach(tools, readTool) }, wirePaths)
  }),
  fromCurrent: (definition: AgentDefinition) =>
    Effect.flatMap(check(definition, wirePaths), (checked) =>
      VersionedCodec.lossless<typeof Wire.Type>({ schema_version: 2, ...checked })
    )
})

const writeTool = Json.encode(WireTool, { what: artefact })

const writeHead = Json.encode(
  Schema.Struct({ schema_version: Schema.Literal(2), ...head }).pipe(Schema.encodeKeys(snakeCase)),
  { what: artefact }
)

// every run of an agent asks for its digest, and nearly all of it is tools that stay the same objects
const digestMemo = new WeakMap<ToolContract.ToolContract, string>()

const digestOfTool = (tool: ToolContract.ToolContract): Effect.Effect<string, PayloadError.PayloadError> => {
  const known = digestMemo.get(tool)
  return known === undefined
    ? Effect.tap(Effect.flatMap(writeTool(tool), Digest.sha256), (digest) =>
        Effect.sync(() => digestMemo.set(tool, digest))
      )
    : Effect.succeed(known)
}

/** Fails if options of a model hold a secret. `path` is the place of the options. */
export const rejectSecrets = (
  options: JsonObject,
  { path, what }: { readonly path: string; readonly what: string }
): Effect.Effect<void, PayloadError.PayloadError> =>
  Effect.flatMap(plainJson.SecretNames, (names) => {
    const secret = plainJson.findSecret(options, { names })
    if (secret === undefined) return Effect.void
    const reason = PayloadError.Reason.cases.Secret.make({ ...secret, path: path + secret.path })
    return Effect.fail(new PayloadError.PayloadError({ what, reason }))
  })

/** The digest of the definition's head and of the digests of its tools. */
export const digest = Effect.fnUntraced(function* (
  definition: AgentDefinition
): Effect.fn.Return<string, PayloadError.PayloadError> {
  yield* rejectSecrets(definition.modelOptions, { what: artefact, path: "/modelOptions" })
  const tools = yield* Effect.forEach(definition.tools, digestOfTool)
  const { tools: _, ...rest } = definition
  const json = yield* writeHead({ schema_version: 2, ...rest })
  return yield* Digest.sha256({ ...(Json.isObject(json) ? json : {}), tools })
})
