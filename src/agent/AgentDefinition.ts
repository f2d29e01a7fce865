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

import type * as Effect from "effect/Effect"
import type { JsonObject } from "../payload/Json.ts"
import type * as PayloadError from "../payload/PayloadError.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import { defined } from "../payload/internal/values.ts"
import * as agentData from "./internal/agentData.ts"
import * as agentV1 from "./wire/agentV1.ts"

export {
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
  arms: [agentV1.arm, agentData.currentArm].map(agentData.withToolLimit),
  // below these the keys are names of parameters and results, not options; the arms look at the options of models
  data: [
    "/structured_output",
    "/tools/*/parameters_schema",
    "/**/output/schema",
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
