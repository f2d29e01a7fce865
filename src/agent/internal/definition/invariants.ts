/** What every definition promises, whether it was made here or read. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as CheckedSchema from "../../../payload/CheckedSchema.ts"
import * as Digest from "../../../payload/Digest.ts"
import type { JsonObject } from "../../../payload/Json.ts"
import type { JsonSchemaError } from "../../../payload/JsonSchemaError.ts"
import * as Limits from "../../../payload/Limits.ts"
import * as Names from "../../../payload/Names.ts"
import { invalid, type Issue, PayloadError } from "../../../payload/PayloadError.ts"
import type { ToolContract } from "../../../tool/ToolContract.ts"
import type { AgentDefinition, OutputStrategy, ReasoningLevel } from "../../AgentDefinition.ts"
import * as ModelName from "./modelName.ts"

export const what = "Agent definition"

export const defaultMaxSteps = 16

/** Where the parts of a definition stand: on the wire of one version, or in memory. */
export interface Places {
  readonly name: string
  readonly maxSteps: string
  readonly outputSchema: string
  readonly parameters: string
  /** What this form cannot do without. */
  readonly needs: { readonly model: boolean; readonly description: boolean; readonly finiteTimeout: boolean }
}

const memory: Places = {
  name: "/name",
  maxSteps: "/maxSteps",
  outputSchema: "/output/schema",
  parameters: "parameters",
  needs: { model: false, description: false, finiteTimeout: false }
}

const isBlank = (text: string) => text.trim() === ""

const maxStepsIssue = (path: string, found: unknown): Issue => ({
  path,
  expected: `a whole number of at least 1, or "unlimited"`,
  found: ModelName.show(found)
})

const schemaIssue = (path: string, error: JsonSchemaError): Issue => ({
  path: path + error.path,
  expected: "a JSON Schema that can be enforced",
  found: `one that cannot: ${error.message}`
})

/**
 * What was found sound before. The values are read-only, a tool of a program is
 * one object for all of its runs, and checking thirty of them takes longer than
 * all the rest of starting a run.
 */
const soundSchemas = new WeakSet<JsonObject>()
const soundDigests = new WeakSet<ToolContract>()

const checkSchema = (path: string, json: JsonObject): Effect.Effect<ReadonlyArray<Issue>> =>
  soundSchemas.has(json)
    ? Effect.succeed([])
    : CheckedSchema.make(json, { what: "JSON Schema" }).pipe(
        Effect.map(() => {
          soundSchemas.add(json)
          return []
        }),
        Effect.catch((error) => Effect.succeed([schemaIssue(path, error)]))
      )

const checkDigest = (path: string, tool: ToolContract): Effect.Effect<ReadonlyArray<Issue>> =>
  soundDigests.has(tool)
    ? Effect.succeed([])
    : Effect.match(Digest.sha256({ name: tool.name, parameters: tool.parameters }), {
        onFailure: (error) => [{ path, expected: "a name and parameters that have a digest", found: error.message }],
        onSuccess: (digest) => {
          if (tool.digest !== digest) {
            const expected = `the digest of the tool's name and parameters (${digest})`
            return [{ path: `${path}/digest`, expected, found: ModelName.show(tool.digest) }]
          }
          soundDigests.add(tool)
          return []
        }
      })

const timeoutIssues = (path: string, timeout: Duration.Duration, places: Places): ReadonlyArray<Issue> => {
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

const toolIssues = (tool: ToolContract, path: string, places: Places) =>
  Effect.gen(function* () {
    const issues: Array<Issue> = []
    const named = ModelName.show(tool.name)
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

const toolNameIssues = (tools: ReadonlyArray<ToolContract>): ReadonlyArray<Issue> => {
  const seen = new Map<string, number>()
  return tools.flatMap(({ name }, index) => {
    const first = seen.get(name)
    if (first !== undefined && !isBlank(name)) {
      return [
        {
          path: `/tools/${index}/name`,
          expected: `a name that no other tool has`,
          found: `${ModelName.show(name)}, the name of /tools/${first}`
        }
      ]
    }
    seen.set(name, index)
    return []
  })
}

const ownIssues = (definition: AgentDefinition, places: Places): ReadonlyArray<Issue> => {
  const { instructions, maxSteps, model, name } = definition
  const issues: Array<Issue> = []
  if (name !== undefined && isBlank(name)) issues.push({ path: places.name, expected: "a name", found: "blank text" })
  if (model === undefined ? places.needs.model : Option.isNone(ModelName.parse(model))) {
    issues.push({ path: "/model", expected: `a model of the form ${ModelName.expected}`, found: ModelName.show(model) })
  }
  if (instructions !== undefined && isBlank(instructions)) {
    issues.push({ path: "/instructions", expected: "instructions, or none at all", found: "blank text" })
  }
  if (maxSteps !== "unlimited" && !(Number.isSafeInteger(maxSteps) && maxSteps >= 1)) {
    issues.push(maxStepsIssue(places.maxSteps, maxSteps))
  }
  return issues
}

const keys = ["identifier", "name", "model", "instructions", "model_options", "max_steps", "maxSteps", "reasoning"]

/** Issues in the order of a definition's keys, those of one tool together. */
const inOrder = (issues: ReadonlyArray<Issue>): ReadonlyArray<Issue> => {
  const rank = ({ path }: Issue): number => {
    const [, key = "", index = ""] = path.split("/")
    if (key === "tools") return keys.length + 1 + (Number(index) || 0)
    const at = keys.indexOf(key)
    return at < 0 ? keys.length : at
  }
  return issues.toSorted((a, b) => rank(a) - rank(b))
}

/**
 * Checks everything a definition promises, and reports every problem at once,
 * after those the caller already found.
 */
export const check = Effect.fnUntraced(function* (
  definition: AgentDefinition,
  places: Places,
  found: ReadonlyArray<Issue> = []
): Effect.fn.Return<AgentDefinition, PayloadError> {
  const { maxIssues } = yield* Limits.Limits
  yield* Limits.checkCount("tools", definition.tools.length, { what, path: "/tools" })
  for (const [index, tool] of definition.tools.entries()) {
    const name = Names.check(tool.name, { what, path: `/tools/${index}/name` })
    if (Result.isFailure(name)) return yield* name.failure
  }
  const issues: Array<Issue> = [...ownIssues(definition, places)]
  if (definition.output !== undefined) {
    issues.push(...(yield* checkSchema(places.outputSchema, definition.output.schema)))
  }
  issues.push(...toolNameIssues(definition.tools))
  for (const [index, tool] of definition.tools.entries()) {
    issues.push(...(yield* toolIssues(tool, `/tools/${index}`, places)))
  }
  // what could not be read is not reported again as missing, nor is anything inside it
  const isUnread = ({ path }: Issue) => found.some((one) => path === one.path || path.startsWith(`${one.path}/`))
  const all = inOrder([...found, ...issues.filter((issue) => !isUnread(issue))])
  if (all.length === 0) return definition
  const shown = all.slice(0, maxIssues)
  return yield* new PayloadError({ what, reason: invalid(shown, all.length - shown.length) })
}, CheckedSchema.withSharedBudget)

export const make = (options: {
  readonly name?: string | undefined
  readonly model?: string | undefined
  readonly instructions?: string | undefined
  readonly modelOptions?: JsonObject | undefined
  readonly maxSteps?: number | "unlimited" | undefined
  readonly output?: { readonly schema: JsonObject; readonly strategy?: OutputStrategy | undefined } | undefined
  readonly reasoning?: ReasoningLevel | undefined
  readonly tools?: ReadonlyArray<ToolContract> | undefined
}): Effect.Effect<AgentDefinition, PayloadError> =>
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
    memory
  )
