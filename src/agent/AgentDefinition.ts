/**
 * An agent as plain data: everything but its code.
 *
 * **Mental model**
 *
 * A definition is what remains of an agent when its model, instructions and
 * tools have been resolved: names, texts, limits and JSON Schemas. It holds no
 * function, no secret and no live object, so it can be stored and sent. Its wire
 * form is JSON tagged by `schema_version`:
 *
 * | version | what it is |
 * |---|---|
 * | 1 | the form Riffer writes and reads; unknown keys are ignored, `provider_options` among them |
 * | 2 | our own, and the default; it is strict and carries everything |
 *
 * Reading accepts every version. Writing an older one either loses nothing or
 * fails with a `LossyEncoding` that lists what would be lost. For version 1 that includes each part of the
 * output schema that Riffer refuses or does not read.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import type { JsonObject } from "../payload/Json.ts"
import * as PayloadError from "../payload/PayloadError.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as compileSchema from "../payload/internal/compileSchema.ts"
import { defined, formatPointer } from "../payload/internal/values.ts"
import type { Change } from "../tool/ToolContract.ts"
import { readCondition } from "../tool/internal/approvalConditions.ts"
import * as agentData from "./internal/agentData.ts"
import * as agentV1 from "./wire/agentV1.ts"

export {
  /**
   * A resolved agent as plain data.
   *
   * **Details**
   *
   * - `name`: the name the agent was given explicitly.
   * - `model`: `"provider/model"`, or a list of them: a run continues with the next one where a model has failed with an error
   *   that passes. Absent means the `LanguageModel` of the program that runs it.
   * - `instructions`: the system message of a fresh conversation.
   * - `modelOptions`: sampling and limits for the model; never URLs, headers, keys.
   * - `maxSteps`: model calls per user message.
   * - `context`: the JSON Schema of the `RunContext` that each run needs, kept unchanged; absent means any.
   * - `retry`: the retries of a model call, see `Agent.Retry`; absent means the default.
   * - `timeouts`: limits of the time of each attempt of a model call in milliseconds, see `Agent.ModelTimeouts`; absent means none.
   * - `toolChoice`: the tools that the model may or must call, see `Agent.ToolChoice`; absent means `"auto"`.
   * - `concurrency`: the number of calls of one answer that run at a time; absent means as the tool runtime has it.
   * - `budget`: what a run may use for each message of the user, see `Budget.Limits`; absent means without a limit.
   * - `repeatedCalls`: the numbers of equal calls in a row at which the model gets a note and the run ends, see
   *   `Agent.RepeatedCalls`; absent means the default.
   * - `guards`: the names of its guards, which `Guard.layerNamed` has where the agent is rebuilt; absent means none.
   * - `tools`: what the model may call, names unique. A tool that is an agent has its definition as `agent`, with tools
   *   and agents of its own.
   * - `perRun`: the parts that Effects find for each run. Here is what they found once; a state
   *   can be resumed when they find something else.
   *
   * A value built by {@link make} or by decoding is well-formed. One built by hand
   * is checked when it is encoded.
   *
   * @category models
   * @since 0.1.0
   */
  AgentDefinition,
  /**
   * A tool of an agent: its contract, and the definition of the agent if it is one.
   *
   * **Details**
   *
   * The timeout of an agent is infinite, as its run has limits of its own. Its `parameters` may be any: an agent
   * takes the text `input` of the arguments, or else all of them as JSON.
   *
   * @category models
   * @since 0.1.0
   */
  type Tool,
  /**
   * The form of the final answer: a JSON Schema, kept unchanged, and the strategy by which
   * the model learns it.
   *
   * @category models
   * @since 0.1.0
   */
  type Output,
  /**
   * The strategy by which the model learns the output schema.
   *
   * - `native`: the provider's own constrained decoding, once no tool is needed.
   * - `prompted`: the JSON Schema is written into the system text.
   * - `tool`: the model returns the answer by calling a tool made for it.
   *
   * @category schemas
   * @since 0.1.0
   */
  OutputStrategy,
  /**
   * The amount of reasoning before the answer.
   *
   * @category schemas
   * @since 0.1.0
   */
  ReasoningLevel
} from "./internal/agentData.ts"

/**
 * The members of a new definition, see {@link make}.
 *
 * @category options
 * @since 0.1.0
 */
export type MakeOptions = {
  readonly [K in keyof Omit<agentData.AgentDefinition, "output">]?: agentData.AgentDefinition[K] | undefined
} & {
  /**
   * The form of the final answer: a JSON Schema and the strategy by which the model learns it, default `"native"`.
   * Without `output` the answer is a text.
   */
  readonly output?:
    | { readonly schema: JsonObject; readonly strategy?: agentData.OutputStrategy | undefined }
    | undefined
}

/**
 * Makes a definition, with its defaults filled in, and checks it.
 *
 * **Details**
 *
 * Defaults: no model options, 16 steps, no tools. Fails with a `PayloadError`
 * whose reason is `Invalid` and lists every problem: a model that is not of the
 * form `"provider/model"`, blank instructions, a step limit below 1, tools
 * without a name or with the same one, JSON Schemas that cannot be enforced,
 * digests that do not fit.
 *
 * **Example** (A definition by hand)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { AgentDefinition } from "effect-emissary"
 *
 * const program = Effect.gen(function*() {
 *   const definition = yield* AgentDefinition.make({ model: "openai/gpt-5.2", instructions: "Be brief." })
 *   const text = yield* AgentDefinition.codec.encodeJson(definition)
 *   return [definition.maxSteps, text, yield* AgentDefinition.codec.decodeJson(text)] as const
 * })
 *
 * const [maxSteps, text, decoded] = await Effect.runPromise(program)
 * assert.strictEqual(maxSteps, 16)
 * assert.strictEqual(JSON.parse(text).schema_version, 2)
 * assert.strictEqual(decoded.instructions, "Be brief.")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = ({
  maxSteps = agentData.defaultMaxSteps,
  modelOptions = {},
  output,
  tools = [],
  ...texts
}: MakeOptions): Effect.Effect<agentData.AgentDefinition, PayloadError.PayloadError> => {
  const withStrategy = output && { schema: output.schema, strategy: output.strategy ?? "native" }
  const definition = { ...defined({ ...texts, output: withStrategy }), modelOptions, maxSteps, tools }
  return agentData.check(definition, agentData.memoryPaths)
}

/** Reads the conditions of the tools, which then are decided wherever the definition is bound. */
const readConditions = Effect.fnUntraced(function* (definition: agentData.AgentDefinition) {
  const door = yield* compileSchema.doorOf()
  const tree = yield* agentData.treeOf(definition)
  const problems = tree.flatMap(({ definition: { tools }, path: at }) =>
    tools.flatMap((tool, index) =>
      readCondition(tool, door).map(({ path, ...problem }) => ({
        path: `${at}/tools/${index}/request${formatPointer(path)}`,
        ...problem
      }))
    )
  )
  if (problems.length === 0) return definition
  const shown = problems.slice(0, door.limits.maxIssues)
  const reason = PayloadError.invalid(shown, problems.length - shown.length)
  return yield* new PayloadError.PayloadError({ what: agentData.artefact, reason })
})

const withConditions = (
  arm: VersionedCodec.Arm<agentData.AgentDefinition>
): VersionedCodec.Arm<agentData.AgentDefinition> => ({
  ...arm,
  read: (json, what) => Effect.flatMap(arm.read(json, what), readConditions),
  write: (definition, options) => Effect.flatMap(readConditions(definition), (checked) => arm.write(checked, options))
})

/**
 * Definitions as JSON: reads versions 1 and 2, and writes version 2 unless asked for version 1.
 *
 * **Details**
 *
 * - Writing fails with a `PayloadError` if the definition is not well-formed, if version 1
 *   has no form for it (no model, an infinite timeout of a tool), or if it holds a secret: a `Redacted`,
 *   or a key that `Json.SecretNames` lists. It fails with a `LossyEncoding` if version 1
 *   would lose something that `allowLoss` does not name.
 * - Reading fails with a `PayloadError`: limits, forbidden keys, an unsupported version, or
 *   `Invalid` with every problem and its path. No service is needed; whether the provider of the
 *   model is known is found out when the definition is bound.
 * - `schema` is the wire form as a Schema, to embed definitions in other schemas.
 * - `maxTools` of the limits counts the tools of the whole tree of agents.
 *
 * **Gotchas**
 *
 * Mind the approvals before you allow their loss: a reader of version 1 executes a tool whose approval was lost without
 * asking.
 *
 * **Example** (Writing the older version)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { AgentDefinition, ToolContract } from "effect-emissary"
 *
 * const program = Effect.gen(function*() {
 *   const tool = yield* ToolContract.make({
 *     name: "refund",
 *     description: "Pays back an order",
 *     parameters: { type: "object", properties: {}, required: [], additionalProperties: false },
 *     approval: "always"
 *   })
 *   const definition = yield* AgentDefinition.make({ model: "openai/gpt-5.2", tools: [tool] })
 *   const error = yield* Effect.flip(AgentDefinition.codec.encode(definition, { version: 1 }))
 *   const wire = yield* AgentDefinition.codec.encode(definition, { version: 1, allowLoss: ["/tools/0/approval"] })
 *   return [error._tag, wire] as const
 * })
 *
 * const [tag, wire] = await Effect.runPromise(program)
 * assert.strictEqual(tag, "LossyEncoding")
 * assert.strictEqual(wire.schema_version, 1)
 * ```
 *
 * **Example** (Every problem at once)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { AgentDefinition } from "effect-emissary"
 *
 * const error = await Effect.runPromise(Effect.flip(AgentDefinition.codec.decode({
 *   schema_version: 1,
 *   model: "gpt-4o",
 *   max_steps: 0
 * })))
 *
 * assert.ok(error.reason._tag === "Invalid")
 * assert.deepStrictEqual(error.reason.issues.map((issue) => issue.path), ["/model", "/max_steps"])
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const codec: VersionedCodec.VersionedCodec<agentData.AgentDefinition> = VersionedCodec.make({
  what: agentData.artefact,
  field: "schema_version",
  type: agentData.AgentDefinition,
  arms: [agentV1.arm, withConditions(agentData.currentArm)].map(agentData.withToolLimit),
  // below these the keys are names of parameters and results, not options; the arms look at the options of models
  data: [
    "/structured_output",
    "/tools/*/parameters_schema",
    "/**/output/schema",
    "/context",
    "/**/agent/context",
    "/**/tools/*/parameters",
    "/**/tools/*/success",
    "/**/tools/*/failure"
  ]
})

/**
 * The SHA-256 digest of a definition, `"sha256:<hex>"`: equal for definitions
 * with the same content, whatever version they came from.
 *
 * **Details**
 *
 * It is the digest of the canonical JSON of wire version 2 in which each tool is
 * replaced by the digest of three members: `contract`, the digest of its contract,
 * its `description`, and `agent`, the digest of the agent that it is. Fails with a `PayloadError` if the model
 * options hold a secret, or text without a canonical form (lone surrogates).
 *
 * @category digests
 * @since 0.1.0
 */
export const digest: (definition: agentData.AgentDefinition) => Effect.Effect<string, PayloadError.PayloadError> =
  agentData.digest

/**
 * The changes from one definition to another, each at its place.
 *
 * **When to use**
 *
 * Use it before a deploy, to see what an edit does to the runs and sessions that are under way.
 *
 * **Details**
 *
 * `path` is a JSON Pointer into the definition, in which a tool has its name in place of its number, such as
 * `/tools/refund/parameters/required`; the agent in a tool is under `/tools/NAME/agent`. `was` and `now` are short texts. `breaking` is
 * true where a run that is under way may be refused with `Run.DefinitionChanged` (option `onChange`): for another name of an agent, for a
 * tool that is gone, or is an agent no longer, and for what `ToolContract.compare` calls breaking. A run without an open call of
 * the tool continues even so. Titles, descriptions and examples inside of schemas of tools do not count.
 *
 * **Example** (An edit that breaks no run, and another that may)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { AgentDefinition, ToolContract } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const refund = yield* ToolContract.make({ name: "refund", parameters: { type: "object", properties: {} } })
 *   const was = yield* AgentDefinition.make({ model: "openai/gpt-5.2", tools: [refund] })
 *   const now = yield* AgentDefinition.make({ model: "openai/gpt-5.2", instructions: "Be brief." })
 *   return AgentDefinition.diff(was, now)
 * })
 *
 * assert.deepStrictEqual(await Effect.runPromise(program), [
 *   { path: "/instructions", was: "nothing", now: "Be brief.", breaking: false },
 *   { path: "/tools/refund", was: "a tool", now: "nothing", breaking: true }
 * ])
 * ```
 *
 * @category comparing
 * @since 0.1.0
 */
export const diff = (was: agentData.AgentDefinition, now: agentData.AgentDefinition): ReadonlyArray<Change> =>
  agentData.diff(was, now)
