/**
 * The definition of an agent as data: its type, model names, what is checked, the newest wire and the digest.
 * Below the frozen wires, so that they can name the type; `AgentDefinition` re-exports what users name.
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as Digest from "../../payload/Digest.ts"
import * as Json from "../../payload/Json.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as Limits from "../../payload/Limits.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import { nameProblem, quote, toolNameProblem, truncateText } from "../../payload/internal/base.ts"
import * as compileSchema from "../../payload/internal/compileSchema.ts"
import { findSecret, SecretNames } from "../../payload/internal/copyJson.ts"
import * as fuel from "../../payload/internal/fuel.ts"
import * as jsonLimits from "../../payload/internal/limits.ts"
import * as jsonValues from "../../payload/internal/values.ts"
import * as ledger from "../../run/internal/ledger.ts"
import { RepeatedCalls } from "../../run/internal/repetition.ts"
import { RetryPolicy } from "../../run/internal/retryPolicy.ts"
import { HandoffTerms } from "../../run/internal/runValues.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as contractDigest from "../../tool/internal/contractDigest.ts"
import * as requestTerms from "../../tool/internal/requestTerms.ts"
import * as modelTimeouts from "./modelTimeouts.ts"

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

const OneToolChoice = Schema.Union([
  Schema.Literals(["auto", "none", "required"]),
  Schema.Struct({ tool: Schema.String }),
  Schema.Struct({
    mode: Schema.optionalKey(Schema.Literals(["auto", "required"])),
    oneOf: Schema.Array(Schema.String)
  }).pipe(Schema.encodeKeys({ oneOf: "one_of" }))
])

/** The tools that the model may or must call in its first call, or in `every` call. */
export const ToolChoice = Schema.Union([OneToolChoice, Schema.Struct({ every: OneToolChoice })])

type ToolChoice = typeof ToolChoice.Type

/** The number of calls of one answer that run at a time. */
export const Concurrency = Schema.Union([
  Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)),
  Schema.Literal("unbounded")
])

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

/** A tool contract on the wire. One without a timeout or a digest gets it when it is read. */
const WireContract = Schema.Struct({
  ...ToolContract.ToolContract.fields,
  timeout: Schema.optionalKey(Timeout),
  request: Schema.optionalKey(requestTerms.RequestTerms.pipe(Schema.encodeKeys({ expiresAfter: "expires_after" }))),
  approval: withDefault(ToolContract.ToolContract.fields.approval, "never"),
  annotations: withDefault(
    ToolContract.ToolContract.fields.annotations.pipe(Schema.encodeKeys({ openWorld: "open_world" })),
    {}
  ),
  digest: Schema.optionalKey(Schema.String)
})

const Budget = ledger.Limits.pipe(
  Schema.encodeKeys({
    onExceeded: "on_exceeded",
    inputTokens: "input_tokens",
    outputTokens: "output_tokens",
    totalTokens: "total_tokens",
    modelCalls: "model_calls",
    toolCalls: "tool_calls"
  })
)

/** A part of an agent that an Effect finds for each run. */
const PerRun = Schema.Literals(["instructions", "model", "tools"])

/** The name of a model, or the names of several, the first one first. */
export const Models = Schema.Union([Schema.String, Schema.NonEmptyArray(Schema.String)])

export type Models = typeof Models.Type

export const namesOf = (models: Models): readonly [string, ...Array<string>] =>
  typeof models === "string" ? [models] : models

const head = {
  name: Schema.optionalKey(Schema.String),
  model: Schema.optionalKey(Models),
  instructions: Schema.optionalKey(Schema.String),
  modelOptions: withDefault(JsonObjectSchema, {}),
  maxSteps: withDefault(Schema.Union([Schema.Finite, Schema.Literal("unlimited")]), defaultMaxSteps),
  reasoning: Schema.optionalKey(ReasoningLevel),
  output: Schema.optionalKey(Output),
  context: Schema.optionalKey(JsonObjectSchema),
  retry: Schema.optionalKey(RetryPolicy),
  timeouts: Schema.optionalKey(modelTimeouts.Limits),
  toolChoice: Schema.optionalKey(ToolChoice),
  concurrency: Schema.optionalKey(Concurrency),
  budget: Schema.optionalKey(Budget),
  repeatedCalls: Schema.optionalKey(RepeatedCalls),
  guards: Schema.optionalKey(Schema.Array(Schema.String)),
  perRun: Schema.optionalKey(Schema.Array(PerRun))
}

const Head = Schema.Struct(head)

interface Head extends Schema.Schema.Type<typeof Head> {}

const snakeCase = {
  modelOptions: "model_options",
  maxSteps: "max_steps",
  toolChoice: "tool_choice",
  repeatedCalls: "repeated_calls",
  perRun: "per_run"
} as const

/** A tool of an agent: its contract, the definition of the agent if it is one, and the handoff if its call passes the conversation on. */
export interface Tool extends ToolContract.ToolContract {
  readonly agent?: AgentDefinition
  readonly handoff?: HandoffTerms
}

/**
 * A resolved agent as plain data.
 *
 * **Details**
 *
 * - `name`: the name the agent was given explicitly.
 * - `model`: `"provider/model"`, or a list of them; absent means the `LanguageModel` of the program
 *   that runs it.
 * - `instructions`: the system message of a fresh conversation.
 * - `modelOptions`: sampling and limits for the model; never URLs, headers, keys.
 * - `maxSteps`: model calls per user message.
 * - `context`: the JSON Schema of the `RunContext` that each run needs.
 * - `retry`: retries of model calls, see `Agent.Retry`.
 * - `timeouts`: limits of the time of model calls, see `Agent.ModelTimeouts`; `toolChoice`, `concurrency` and `repeatedCalls`: see
 *   `Agent.Config`.
 * - `budget`: what a run may use for each message of the user, see `Budget.Limits`.
 * - `guards`: the names of its guards, see `Guard.layerNamed`.
 * - `tools`: what the model may call, names unique. A tool that is an agent has its definition as `agent`, with tools
 *   and agents of its own. A tool that passes the conversation on has the `handoff`, see `Agent.handoff`, and the agent unless
 *   the agent is found by its name.
 * - `perRun`: the parts that Effects find for each run. Here is what they found once; a state
 *   can be resumed when they find something else.
 *
 * A value built by {@link AgentDefinition.make} or by decoding is well-formed. One built by hand
 * is checked when it is encoded.
 */
export const AgentDefinition = Schema.Struct({
  ...head,
  tools: Schema.Array(
    Schema.Struct({
      ...ToolContract.ToolContract.fields,
      agent: Schema.optionalKey(Schema.suspend((): Schema.Codec<AgentDefinition, unknown> => AgentDefinition)),
      handoff: Schema.optionalKey(HandoffTerms)
    })
  )
})

export interface AgentDefinition extends Head {
  /** The tools that the model may call, with unique names. A tool that is an agent has its definition as `agent`. */
  readonly tools: ReadonlyArray<Tool>
}

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
  readonly modelOptions: string
  readonly toolChoice: string
  readonly outputSchema: string
  readonly parameters: string
  /** The parts that this form requires. */
  readonly needs: { readonly model: boolean; readonly description: boolean; readonly finiteTimeout: boolean }
}

export const memoryPaths: WirePaths = {
  name: "/name",
  maxSteps: "/maxSteps",
  expectedMaxSteps: `a whole number of at least 1, or "unlimited"`,
  modelOptions: "/modelOptions",
  toolChoice: "/toolChoice",
  outputSchema: "/output/schema",
  parameters: "parameters",
  needs: { model: false, description: false, finiteTimeout: false }
}

/** A check that is under way. */
interface Check {
  readonly door: compileSchema.Door
  /** The place of the schema for which there was not enough fuel; nothing is checked after it. */
  emptyAt: string | undefined
}

const schemaIssues = (
  check: Check,
  path: string,
  json: JsonObject | undefined,
  isResult = false
): ReadonlyArray<PayloadError.Problem> => {
  if (json === undefined || check.emptyAt !== undefined) return []
  const made = compileSchema.makeBehind(isResult ? { ...check.door, isCheckedAgain: true } : check.door, json)
  if (Result.isSuccess(made)) return []
  const error = new JsonSchema.JsonSchemaError({ what: "JSON Schema", ...made.failure })
  const place = path + error.path
  if (fuel.isEmpty(check.door.tank)) check.emptyAt = place
  const found = `a schema that cannot: ${error.message}`
  return [{ path: place, expected: "a JSON Schema that can be enforced", found }]
}

/** True if no text of a contract has a lone surrogate, which has no canonical form. */
const isWellFormed = ({
  annotations,
  failure,
  name,
  parameters,
  request,
  success
}: ToolContract.ToolContract): boolean =>
  [parameters, success, failure, request].every((json) => json === undefined || compileSchema.isWellFormed(json)) &&
  !/\p{Surrogate}/u.test(name + (annotations.title ?? ""))

const digestIssues = (path: string, tool: ToolContract.ToolContract): ReadonlyArray<PayloadError.Problem> => {
  if (contractDigest.isComputed(tool) && isWellFormed(tool)) return []
  const digest = contractDigest.digestOf(tool)
  if (Result.isFailure(digest)) {
    return [{ path, expected: "a contract that has a digest", found: digest.failure.message }]
  }
  if (tool.digest === digest.success) return []
  const expected = `the digest of the tool's contract (${digest.success})`
  const found = /^sha256:[0-9a-f]{64}$/.test(tool.digest) ? tool.digest : "another text"
  const fix = "Leave the digest out of the JSON, or make the contract with ToolContract.make"
  return [{ path: `${path}/digest`, expected, found, fix }]
}

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

const toolNameForm = (path: string, name: string): ReadonlyArray<PayloadError.Problem> =>
  toolNameProblem(name) === undefined
    ? []
    : [{ path, expected: "a name without hidden characters, in one script", found: renderValue(name) }]

/** The call of an agent takes as long as its run. */
const agentCallIssues = (path: string, { timeout }: Tool): ReadonlyArray<PayloadError.Problem> => {
  if (!Duration.isFinite(timeout)) return []
  const found = `${Duration.toMillis(timeout)} milliseconds`
  return [{ path: `${path}/timeout`, expected: `"infinity" or none, as the run of an agent has its own limits`, found }]
}

const toolIssues = (check: Check, tool: Tool, path: string, places: WirePaths): ReadonlyArray<PayloadError.Problem> => {
  const { agent, description, failure, handoff, name, parameters, success, timeout } = tool
  const expected = `a description of the tool ${renderValue(name)}`
  return [
    ...textIssues(`${path}/name`, "the name of the tool", name, true),
    ...toolNameForm(`${path}/name`, name),
    ...textIssues(`${path}/description`, expected, description, places.needs.description),
    ...(agent === undefined && handoff === undefined
      ? timeoutIssues(`${path}/timeout`, timeout, places)
      : agentCallIssues(path, tool)),
    ...schemaIssues(check, `${path}/${places.parameters}`, parameters),
    ...schemaIssues(check, `${path}/success`, success, true),
    ...schemaIssues(check, `${path}/failure`, failure, true),
    ...requestTerms.problemsOf(tool).map((problem) => ({
      ...problem,
      path: `${path}/request${jsonValues.formatPointer(problem.path)}`
    })),
    ...(check.emptyAt === undefined ? digestIssues(path, tool) : [])
  ]
}

const isTerms: (terms: unknown) => boolean = Schema.is(HandoffTerms)

/** A handoff names its agent, and the agent answers in the form in which the agent before it was asked. */
const handoffIssues = (path: string, { output, tools }: AgentDefinition): ReadonlyArray<PayloadError.Problem> =>
  tools.flatMap(({ agent, handoff }, index) => {
    const at = `${path}/${index}`
    if (handoff !== undefined && !isTerms(handoff)) {
      const found = `${renderValue(handoff.turns)} and ${renderValue(handoff.toolCalls)}`
      return [{ path: `${at}/handoff`, expected: "whole turns from 1 on, and false as toolCalls, or none", found }]
    }
    if (agent === undefined || handoff === undefined) return []
    const { name = "agent" } = agent
    const expected = `the name of the agent of the handoff, ${renderValue(name)}`
    const found = agent.output === undefined ? "text" : "another schema"
    return [
      ...(name === handoff.agent ? [] : [{ path: `${at}/handoff/agent`, expected, found: renderValue(handoff.agent) }]),
      ...(Equal.equals(agent.output?.schema, output?.schema)
        ? []
        : [{ path: `${at}/agent/output`, expected: "the output of the agent that passes the conversation on", found }])
    ]
  })

/** The agents that one conversation can have are known by their names. */
const teamIssues = (
  definition: AgentDefinition,
  path = "",
  known = new Map([[definition.name, definition]])
): ReadonlyArray<PayloadError.Problem> =>
  definition.tools.flatMap(({ agent, handoff }, index) => {
    if (agent === undefined || handoff === undefined) return []
    const at = `${path}/tools/${index}/agent`
    const other = known.get(agent.name)
    if (other === undefined) return teamIssues(agent, at, known.set(agent.name, agent))
    const expected = "a name that no other agent of the conversation has, or the same agent"
    return Equal.equals(other, agent) ? [] : [{ path: `${at}/name`, expected, found: renderValue(agent.name) }]
  })

const toolNameIssues = (path: string, tools: ReadonlyArray<Tool>): ReadonlyArray<PayloadError.Problem> =>
  tools.flatMap(({ name }, index) => {
    const first = tools.findIndex((tool) => tool.name === name)
    const found = `${renderValue(name)}, the name of ${path}/${first}`
    return first === index || name.trim() === ""
      ? []
      : [{ path: `${path}/${index}/name`, expected: "a name that no other tool has", found }]
  })

/** Whole numbers that are not held exactly: a seed with another last digit is another seed. Options made in code may be cyclic. */
const integerIssues = (path: string, options: JsonObject): ReadonlyArray<PayloadError.Problem> => {
  const issues: Array<PayloadError.Problem> = []
  const seen = new Set<Schema.Json>()
  const open: Array<readonly [path: string, value: Schema.Json]> = [[path, options]]
  for (const [at, value] of open) {
    if (typeof value === "object" && value !== null && !ArrayBuffer.isView(value) && !seen.has(value)) {
      seen.add(value)
      for (const [key, member] of Object.entries(value)) open.push([jsonValues.appendToken(at, key), member])
    } else if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
      issues.push({ path: at, expected: "a whole number within 2^53", found: jsonValues.typeOf(value) })
    }
  }
  return issues
}

const nameIssues = (path: string, name: string | undefined): ReadonlyArray<PayloadError.Problem> => {
  const found = name === undefined ? undefined : nameProblem(name)
  const expected = "a name without path separators and hidden characters, in one script"
  return found === undefined ? [] : [{ path, expected, found }]
}

/** A list may have a model once: the run would not know which of two it continued with. */
const modelIssues = (
  path: string,
  model: Models | undefined,
  { needs }: WirePaths
): ReadonlyArray<PayloadError.Problem> => {
  const expected = `a model of the form ${expectedModelName}`
  if (model === undefined) return needs.model ? [{ path, expected, found: renderValue(model) }] : []
  const isOne = !Array.isArray(model)
  const names: ReadonlyArray<unknown> = isOne ? [model] : model
  if (names.length === 0) return [{ path, expected: "one model at least", found: "an empty list" }]
  return names.flatMap((name, index) => {
    const at = isOne ? path : `${path}/${index}`
    if (Option.isNone(parseModelName(name))) return [{ path: at, expected, found: renderValue(name) }]
    const isTwice = names.indexOf(name) < index
    return isTwice ? [{ path: at, expected: "each model once", found: renderValue(name) }] : []
  })
}

const namesIn = (choice: ToolChoice): ReadonlyArray<string> => {
  if (typeof choice === "string") return []
  if ("every" in choice) return namesIn(choice.every)
  return "tool" in choice ? [choice.tool] : choice.oneOf
}

/** The tools of a choice that the agent does not have. Tools that an Effect finds are known in a run only. */
const choiceIssues = (
  path: string,
  { perRun = [], toolChoice = "auto", tools }: AgentDefinition
): ReadonlyArray<PayloadError.Problem> => {
  if (perRun.includes("tools")) return []
  const missing = namesIn(toolChoice).find((name) => !tools.some((tool) => tool.name === name))
  return missing === undefined ? [] : [{ path, expected: "names of tools of the agent", found: renderValue(missing) }]
}

const fieldIssues = (
  path: string,
  definition: AgentDefinition,
  places: WirePaths
): ReadonlyArray<PayloadError.Problem> => {
  const { instructions, maxSteps, name } = definition
  const isLimit = maxSteps === "unlimited" || (Number.isSafeInteger(maxSteps) && maxSteps >= 1)
  return [
    ...textIssues(path + places.name, "a name", name, false),
    ...nameIssues(path + places.name, name),
    ...modelIssues(`${path}/model`, definition.model, places),
    ...textIssues(`${path}/instructions`, "instructions, or none at all", instructions, false),
    ...integerIssues(`${path}${places.modelOptions}`, definition.modelOptions),
    ...choiceIssues(`${path}${places.toolChoice}`, definition),
    ...(isLimit
      ? []
      : [{ path: path + places.maxSteps, expected: places.expectedMaxSteps, found: renderValue(maxSteps) }])
  ]
}

const ownIssues = (
  check: Check,
  { definition, path }: { readonly definition: AgentDefinition; readonly path: string },
  places: WirePaths
): ReadonlyArray<PayloadError.Problem> => {
  const { output, tools } = definition
  const toolsAt = `${path}/tools`
  return [
    ...fieldIssues(path, definition, places),
    ...schemaIssues(check, path + places.outputSchema, output?.schema),
    ...schemaIssues(check, `${path}/context`, definition.context),
    ...toolNameIssues(toolsAt, tools),
    ...handoffIssues(toolsAt, definition),
    ...tools.flatMap((tool, index) => toolIssues(check, tool, `${toolsAt}/${index}`, places))
  ]
}

/** The levels of JSON from an agent to one of its agents: `/tools/0/agent`. */
const levelsOfAgent = 3

const nestingWithin = (
  { maxDepth: limit }: jsonLimits.Limits,
  agents: number,
  path: string
): Result.Result<void, PayloadError.PayloadError> =>
  agents * levelsOfAgent < limit
    ? Result.void
    : Result.fail(new PayloadError.PayloadError({ what: artefact, reason: { _tag: "TooDeep", limit, path } }))

/** Fails if an agent that `agents` others are around is deeper in JSON than data may be. */
export const checkNesting = (agents: number, path: string): Effect.Effect<void, PayloadError.PayloadError> =>
  Effect.flatMap(Limits.Limits, (limits) => Effect.fromResult(nestingWithin(limits, agents, path)))

export interface Agents {
  readonly definition: AgentDefinition
  readonly path: string
  readonly depth: number
}

const treeWithin = (
  limits: jsonLimits.Limits,
  root: AgentDefinition
): Result.Result<ReadonlyArray<Agents>, PayloadError.PayloadError> => {
  const tree: Array<Agents> = [{ definition: root, path: "", depth: 0 }]
  let count = 0
  for (const { definition, depth, path } of tree) {
    count += definition.tools.length
    const counted = jsonLimits.countWithin(limits, "tools", count, { what: artefact, path: `${path}/tools` })
    const within = Result.isFailure(counted) ? counted : nestingWithin(limits, depth, path)
    if (Result.isFailure(within)) return Result.fail(within.failure)
    for (const [index, { agent, name }] of definition.tools.entries()) {
      const at = `${path}/tools/${index}`
      const named = jsonValues.checkName(name, { what: artefact, path: `${at}/name` })
      if (Result.isFailure(named)) return Result.fail(named.failure)
      if (agent !== undefined) tree.push({ definition: agent, path: `${at}/agent`, depth: depth + 1 })
    }
  }
  return Result.succeed(tree)
}

/** The definition and the definitions of all agents in it, with their paths, within the limits of the whole. */
export const treeOf = (root: AgentDefinition): Effect.Effect<ReadonlyArray<Agents>, PayloadError.PayloadError> =>
  Effect.flatMap(Limits.Limits, (limits) => Effect.fromResult(treeWithin(limits, root)))

const checkBehind = (
  door: compileSchema.Door,
  definition: AgentDefinition,
  places: WirePaths,
  found: ReadonlyArray<PayloadError.Problem>
): Result.Result<AgentDefinition, PayloadError.PayloadError> => {
  const { limits, tank } = door
  const tree = treeWithin(limits, definition)
  if (Result.isFailure(tree)) return Result.fail(tree.failure)
  const check: Check = { door, emptyAt: undefined }
  // A version that needs what others leave out has no agents in its tools.
  const innerPlaces = places.needs.model ? memoryPaths : places
  const own = tree.success.flatMap((one) => ownIssues(check, one, one.depth === 0 ? places : innerPlaces))
  const issues = [...own, ...teamIssues(definition)]
  const refuse = (reason: PayloadError.Reason) => Result.fail(new PayloadError.PayloadError({ what: artefact, reason }))
  if (check.emptyAt !== undefined) return refuse(fuel.reasonOf(tank, check.emptyAt))
  // A part that could not be read is not reported again as missing, nor is anything inside it.
  const isUnread = ({ path }: PayloadError.Problem) =>
    found.some((one) => path === one.path || path.startsWith(`${one.path}/`))
  const all = [...found, ...issues.filter((issue) => !isUnread(issue))]
  if (all.length === 0) return Result.succeed(definition)
  const shown = all.slice(0, limits.maxIssues)
  return refuse(PayloadError.invalid(shown, all.length - shown.length))
}

/**
 * Checks everything a definition promises, and reports every problem at once,
 * after those the caller already found.
 */
export const check = (
  definition: AgentDefinition,
  places: WirePaths,
  found: ReadonlyArray<PayloadError.Problem> = []
): Effect.Effect<AgentDefinition, PayloadError.PayloadError> =>
  Effect.flatMap(compileSchema.doorOf(), (door) => Effect.fromResult(checkBehind(door, definition, places, found)))

/** An agent in a tool on the wire: as one by itself, without a version. */
interface WireAgent extends Head {
  readonly tools?: ReadonlyArray<WireTool>
}

interface WireTool extends Schema.Schema.Type<typeof WireContract> {
  readonly agent?: WireAgent
  readonly handoff?: HandoffTerms
}

const agent = Schema.optionalKey(
  Schema.suspend((): Schema.Codec<WireAgent, unknown> => WireAgent).annotate({ identifier: "Agent" })
)

const handoff = Schema.optionalKey(HandoffTerms.pipe(Schema.encodeKeys({ toolCalls: "tool_calls" })))

// A default around a recursive schema would encode each level twice, and so the lowest 2^depth times.
const wireTools = Schema.optionalKey(Schema.Array(WireContract.pipe(Schema.fieldsAssign({ agent, handoff }))))

const WireAgent = Schema.Struct({ ...head, tools: wireTools }).pipe(Schema.encodeKeys(snakeCase))

/** Version 2 of the JSON. `$schema` is for editors, and is not read. */
export const Wire = Schema.Struct({
  $schema: Schema.optionalKey(Schema.String),
  schema_version: Schema.Literal(2),
  ...head,
  tools: wireTools
}).pipe(Schema.encodeKeys(snakeCase))

const wirePaths: WirePaths = {
  ...memoryPaths,
  maxSteps: "/max_steps",
  modelOptions: "/model_options",
  toolChoice: "/tool_choice"
}

const readTool = ({ agent, digest, ...rest }: WireTool): Tool => {
  const isLocal = agent === undefined && rest.handoff === undefined
  const timeout = rest.timeout ?? (isLocal ? Duration.seconds(10) : Duration.infinity)
  const tool = { ...rest, timeout, ...jsonValues.defined({ agent: agent && readTools(agent) }) }
  return digest === undefined ? contractDigest.withDigest(tool) : { ...tool, digest }
}

const readTools = <Agent extends WireAgent>(agent: Agent) => ({ ...agent, tools: (agent.tools ?? []).map(readTool) })

/** Checks a definition that is about to be written. */
export const checkToWrite = Effect.fnUntraced(function* (definition: AgentDefinition, places: WirePaths) {
  const checked = yield* check(definition, places)
  for (const { definition: one, path } of yield* treeOf(definition)) {
    yield* rejectSecrets(one.modelOptions, { what: artefact, path: `${path}/model_options` })
  }
  return checked
})

const countTools = Effect.fnUntraced(function* (root: Schema.Json) {
  const agents = [{ json: root, path: "" }]
  let count = 0
  for (const { json, path } of agents) {
    const tools = Json.isObject(json) ? jsonValues.own(json, "tools") : undefined
    if (!jsonValues.isArray(tools)) continue
    count += tools.length
    yield* jsonLimits.checkCount("tools", count, { what: artefact, path: `${path}/tools` })
    for (const [index, tool] of tools.entries()) {
      const agent = Json.isObject(tool) ? jsonValues.own(tool, "agent") : undefined
      if (agent !== undefined) agents.push({ json: agent, path: `${path}/tools/${index}/agent` })
    }
  }
})

/** The version with its tools counted before anything of them is decoded. */
export const withToolLimit = (arm: VersionedCodec.Arm<AgentDefinition>): VersionedCodec.Arm<AgentDefinition> => ({
  ...arm,
  read: (json, what) => Effect.andThen(countTools(json), arm.read(json, what))
})

export const currentArm = VersionedCodec.arm({
  version: 2,
  wire: Wire,
  toCurrent: ({ $schema: _schema, schema_version: _version, ...wire }: typeof Wire.Type) =>
    check(readTools(wire), wirePaths),
  fromCurrent: (definition: AgentDefinition) =>
    Effect.flatMap(checkToWrite(definition, wirePaths), (checked) =>
      VersionedCodec.lossless<typeof Wire.Type>({ schema_version: 2, ...checked })
    )
})

const writeHead = Json.encode(
  Schema.Struct({ schema_version: Schema.Literal(2), ...head }).pipe(Schema.encodeKeys(snakeCase)),
  { what: artefact }
)

// every run of an agent asks for its digest, and nearly all of it is tools that stay the same objects
const digestMemo = new WeakMap<Tool, string>()

export const digestOfTool = Effect.fnUntraced(function* (
  tool: Tool,
  path: string
): Effect.fn.Return<string, PayloadError.PayloadError> {
  const known = digestMemo.get(tool)
  if (known !== undefined) return known
  const agent = tool.agent && (yield* digestAt(tool.agent, `${path}/agent`))
  const contract = yield* ToolContract.digest(tool)
  const { description, handoff } = tool
  const digest = yield* Digest.sha256({
    contract,
    ...jsonValues.defined({ description, agent, handoff: handoff && { ...handoff } })
  })
  digestMemo.set(tool, digest)
  return digest
})

/** The options of a model, for errors about them. */
export const optionsOfModel = { what: "Model options", path: "/model_options" } as const

/** Fails if options of a model hold a secret. `path` is the place of the options. */
export const rejectSecrets = (
  options: JsonObject,
  { path, what }: { readonly path: string; readonly what: string }
): Effect.Effect<void, PayloadError.PayloadError> =>
  Effect.flatMap(SecretNames, (names) => {
    const secret = findSecret(options, { names })
    if (secret === undefined) return Effect.void
    const reason = PayloadError.Reason.cases.Secret.make({ ...secret, path: path + secret.path })
    return Effect.fail(new PayloadError.PayloadError({ what, reason }))
  })

/** The digest of the definition's head and of the digests of its tools. */
const digestAt = Effect.fnUntraced(function* (
  definition: AgentDefinition,
  path: string
): Effect.fn.Return<string, PayloadError.PayloadError> {
  yield* rejectSecrets(definition.modelOptions, { what: artefact, path: `${path}/modelOptions` })
  const tools = yield* Effect.forEach(definition.tools, (tool, index) => digestOfTool(tool, `${path}/tools/${index}`))
  const { tools: _, ...rest } = definition
  const json = yield* writeHead({ schema_version: 2, ...rest })
  return yield* Digest.sha256({ ...(Json.isObject(json) ? json : {}), tools })
})

export const digest = (definition: AgentDefinition): Effect.Effect<string, PayloadError.PayloadError> =>
  Effect.andThen(treeOf(definition), digestAt(definition, ""))

type Changes = ReadonlyArray<ToolContract.Change>

const shownPart = (value: unknown): string => {
  if (value === undefined) return "nothing"
  return truncateText(typeof value === "string" ? value : JSON.stringify(value), 60)
}

const changeAt = (path: string, was: unknown, now: unknown, breaking = false): Changes =>
  Equal.equals(was, now) ? [] : [{ path, was: shownPart(was), now: shownPart(now), breaking }]

/** The changes of a part: of each member where both are objects. */
const partChanges = (path: string, was: unknown, now: unknown, breaking: boolean): Changes => {
  if (!jsonValues.isObject(was) || !jsonValues.isObject(now)) return changeAt(path, was, now, breaking)
  const keys = new Set([...Object.keys(was), ...Object.keys(now)])
  return Array.from(keys).flatMap((key) =>
    changeAt(jsonValues.appendToken(path, key), jsonValues.own(was, key), jsonValues.own(now, key), breaking)
  )
}

const timeOf = ({ timeout }: Tool): Schema.Json =>
  Duration.isFinite(timeout) ? Duration.toMillis(timeout) : "infinity"

const toolChanges = (path: string, was: Tool | undefined, now: Tool | undefined): Changes => {
  if (was === undefined || now === undefined) return changeAt(path, was && "a tool", now && "a tool", now === undefined)
  const hint = (name: "title" | "polls") =>
    changeAt(`${path}/annotations/${name}`, was.annotations[name], now.annotations[name])
  return [
    ...ToolContract.compare(was, now).map((change) => ({ ...change, path: path + change.path })),
    ...changeAt(`${path}/timeout`, timeOf(was), timeOf(now)),
    ...hint("title"),
    ...hint("polls"),
    ...changeAt(`${path}/handoff`, was.handoff, now.handoff, was.handoff?.agent !== now.handoff?.agent),
    ...(was.agent !== undefined && now.agent !== undefined
      ? diff(was.agent, now.agent, `${path}/agent`)
      : changeAt(`${path}/agent`, was.agent && "an agent", now.agent && "an agent", true))
  ]
}

/** The changes from one definition to another. `path` is the place of both. */
export const diff = (was: AgentDefinition, now: AgentDefinition, path = ""): Changes => {
  // Sound: the keys of the object that the type of a definition is made of
  const keys = Object.keys(head) as ReadonlyArray<keyof typeof head>
  const heads = keys.flatMap((key) => partChanges(`${path}/${key}`, was[key], now[key], key === "name"))
  const names = new Set([...was.tools, ...now.tools].map(({ name }) => name))
  const named = ({ tools }: AgentDefinition, name: string) => tools.find((tool) => tool.name === name)
  const tools = Array.from(names).flatMap((name) =>
    toolChanges(jsonValues.appendToken(`${path}/tools`, name), named(was, name), named(now, name))
  )
  return [...heads, ...tools]
}

/** The agent of a tool without the parts that Effects find for each of its runs. */
const withoutPerRun = ({ perRun = [], ...definition }: AgentDefinition): AgentDefinition => {
  const { instructions, model, tools, ...rest } = definition
  return {
    ...rest,
    ...jsonValues.defined({
      instructions: perRun.includes("instructions") ? undefined : instructions,
      model: perRun.includes("model") ? undefined : model
    }),
    tools: perRun.includes("tools") ? [] : tools.map(withoutPerRunBehind)
  }
}

const withoutPerRunBehind = (tool: Tool): Tool =>
  tool.agent === undefined ? tool : { ...tool, agent: withoutPerRun(tool.agent) }

/** A definition as a run has it: its digest, its parts for the list of what changed, and the digests of its agents by tool. */
export interface RunDefinition {
  readonly digest: string
  readonly parts: { readonly [path: string]: string }
  readonly agents: ReadonlyMap<string, string>
}

const short = (digest: string): string => digest.replace("sha256:", "").slice(0, 12)

/** Each part by its path: plain where it is short, else the beginning of its digest. */
const partsOf = Effect.fnUntraced(function* (definition: AgentDefinition) {
  const {
    budget,
    concurrency,
    context,
    guards,
    instructions,
    maxSteps,
    model,
    modelOptions,
    output,
    perRun,
    reasoning,
    repeatedCalls,
    retry,
    tools
  } = definition
  const { timeouts, toolChoice } = definition
  const parts: Record<string, string> = { "/maxSteps": String(maxSteps) }
  if (model !== undefined) parts["/model"] = namesOf(model).join(", ")
  if (reasoning !== undefined) parts["/reasoning"] = reasoning
  if (retry !== undefined) parts["/retry"] = JSON.stringify(retry)
  if (timeouts !== undefined) parts["/timeouts"] = JSON.stringify(timeouts)
  if (toolChoice !== undefined) parts["/toolChoice"] = JSON.stringify(toolChoice)
  if (concurrency !== undefined) parts["/concurrency"] = String(concurrency)
  if (budget !== undefined) parts["/budget"] = JSON.stringify(budget)
  if (repeatedCalls !== undefined) parts["/repeatedCalls"] = JSON.stringify(repeatedCalls)
  if (guards !== undefined) parts["/guards"] = JSON.stringify(guards)
  if (perRun !== undefined) parts["/perRun"] = perRun.join(" ")
  if (instructions !== undefined) parts["/instructions"] = short(yield* Digest.sha256(instructions))
  if (output !== undefined) parts["/output"] = short(yield* Digest.sha256({ ...output }))
  if (context !== undefined) parts["/context"] = short(yield* Digest.sha256(context))
  if (Object.keys(modelOptions).length > 0) parts["/modelOptions"] = short(yield* Digest.sha256(modelOptions))
  const agents = new Map<string, string>()
  for (const [index, tool] of tools.entries()) {
    const digest = yield* digestOfTool(tool, `/tools/${index}`)
    parts[jsonValues.appendToken("/tools", tool.name)] = short(digest)
    if (tool.agent !== undefined) agents.set(tool.name, digest)
  }
  return { parts, agents }
})

/**
 * The definition by which a state is resumed: without what Effects find for each run, except the tools of the agent that runs
 * itself, which are known then.
 */
export const ofRun = Effect.fnUntraced(function* (
  definition: AgentDefinition
): Effect.fn.Return<RunDefinition, PayloadError.PayloadError> {
  const tools = definition.tools.map(withoutPerRunBehind)
  const known = { ...withoutPerRun({ ...definition, tools: [] }), tools }
  return { digest: yield* digest(known), ...(yield* partsOf(known)) }
})
