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
 * | 1 | the form Riffer writes and reads; unknown keys are ignored |
 * | 2 | our own, and the default; it is strict and carries everything |
 *
 * Reading accepts every version. Writing an older one either loses nothing or
 * fails with a `LossyEncoding` that lists what would be lost.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../payload/Json.ts"
import type { LossyEncoding } from "../payload/LossyEncoding.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import type * as VersionedCodec from "../payload/VersionedCodec.ts"
import type { ToolContract } from "../tool/ToolContract.ts"
import * as codec from "./internal/definition/codec.ts"
import * as internalDigest from "./internal/definition/digest.ts"
import * as invariants from "./internal/definition/invariants.ts"
import * as internal from "./internal/definition/schema.ts"

/**
 * How the model is told about the output schema.
 *
 * - `native`: the provider's own constrained decoding, once no tool is needed.
 * - `prompted`: the JSON Schema is written into the system text.
 * - `tool`: the model hands in the answer by calling a tool made for it.
 *
 * @category schemas
 * @since 0.1.0
 */
export const OutputStrategy: Schema.Literals<readonly ["native", "prompted", "tool"]> = internal.OutputStrategy

/**
 * How the model is told about the output schema.
 *
 * @category models
 * @since 0.1.0
 */
export type OutputStrategy = typeof OutputStrategy.Type

/**
 * How much the model should think before it answers.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ReasoningLevel: Schema.Literals<readonly ["off", "low", "medium", "high", "xhigh", "max"]> =
  internal.ReasoningLevel

/**
 * How much the model should think before it answers.
 *
 * @category models
 * @since 0.1.0
 */
export type ReasoningLevel = typeof ReasoningLevel.Type

/**
 * The form the final answer must have: a JSON Schema, kept verbatim, and how the
 * model is told.
 *
 * @category models
 * @since 0.1.0
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
 * A value built by {@link make} or by decoding is well-formed. One built by hand
 * is checked when it is encoded.
 *
 * @category models
 * @since 0.1.0
 */
export interface AgentDefinition {
  readonly name?: string
  readonly model?: string
  readonly instructions?: string
  readonly modelOptions: JsonObject
  readonly maxSteps: number | "unlimited"
  readonly output?: Output
  readonly reasoning?: ReasoningLevel
  readonly tools: ReadonlyArray<ToolContract>
}

/**
 * The definition as a Schema of the value in memory. It says nothing about the
 * wire; use {@link Wire} to embed definitions in JSON.
 *
 * @category schemas
 * @since 0.1.0
 */
export const AgentDefinition: Schema.Codec<AgentDefinition, unknown> = internal.AgentDefinition

/**
 * Steps an agent may take per user message when nothing is said: 16.
 *
 * @category defaults
 * @since 0.1.0
 */
export const defaultMaxSteps = invariants.defaultMaxSteps

/**
 * The versions of the wire form that can be read and written, oldest first.
 *
 * @category versions
 * @since 0.1.0
 */
export const versions: ReadonlyArray<number> = codec.codec.versions

/**
 * The version that is written unless another is asked for.
 *
 * @category versions
 * @since 0.1.0
 */
export const currentVersion: number = codec.codec.current

/**
 * Everything that version 1 cannot hold, in the form `allowLoss` takes.
 *
 * **When to use**
 *
 * Use as `allowLoss` to hand a definition to a reader of version 1 whatever it
 * loses. Mind the approvals: a reader of version 1 executes such a tool without
 * asking anybody.
 *
 * @category versions
 * @since 0.1.0
 */
export const version1Losses: ReadonlyArray<string> = codec.version1Losses

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
 *   const text = yield* AgentDefinition.encodeJson(definition)
 *   return [definition.maxSteps, text, yield* AgentDefinition.decodeJson(text)] as const
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
export const make: (options: {
  readonly name?: string | undefined
  readonly model?: string | undefined
  readonly instructions?: string | undefined
  readonly modelOptions?: JsonObject | undefined
  readonly maxSteps?: number | "unlimited" | undefined
  readonly output?: { readonly schema: JsonObject; readonly strategy?: OutputStrategy | undefined } | undefined
  readonly reasoning?: ReasoningLevel | undefined
  readonly tools?: ReadonlyArray<ToolContract> | undefined
}) => Effect.Effect<AgentDefinition, PayloadError> = invariants.make

/**
 * Writes a definition as a versioned JSON object.
 *
 * **Details**
 *
 * - `version`: 1 or 2; default 2.
 * - `allowLoss`: what may be lost by an older version: paths (a `*` stands for
 *   one token) or the `losses` of a `LossyEncoding`; default nothing.
 * - `limits`: limits that differ from the current ones.
 *
 * Fails with a `PayloadError` if the definition is not well-formed, if version 1
 * has no way to say it (no model, an infinite timeout), or if it holds a secret:
 * a `Redacted`, or a key of the published list in `SecretKeys`; and with a
 * `LossyEncoding` if version 1 would lose something.
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
 *   const error = yield* Effect.flip(AgentDefinition.encode(definition, { version: 1 }))
 *   const wire = yield* AgentDefinition.encode(definition, { version: 1, allowLoss: ["/tools/0/approval"] })
 *   return [error._tag, wire] as const
 * })
 *
 * const [tag, wire] = await Effect.runPromise(program)
 * assert.strictEqual(tag, "LossyEncoding")
 * assert.strictEqual(wire.schema_version, 1)
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode = (
  definition: AgentDefinition,
  options?: VersionedCodec.EncodeOptions
): Effect.Effect<JsonObject, PayloadError | LossyEncoding> =>
  codec.under(options, codec.codec.encode(definition, options))

/**
 * Writes a definition as JSON text; see {@link encode}.
 *
 * **Details**
 *
 * `indent` is the number of spaces per level; default none, on one line.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encodeJson = (
  definition: AgentDefinition,
  options?: VersionedCodec.EncodeOptions & { readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError | LossyEncoding> =>
  codec.under(options, codec.codec.encodeJson(definition, options))

/**
 * Reads a definition of any supported version from a value that came from
 * outside.
 *
 * **Details**
 *
 * Fails with a `PayloadError`: limits, forbidden keys, an unsupported version, or
 * `Invalid` with every problem and its path. No service is needed; whether the
 * provider of the model is known is found out when the definition is bound.
 *
 * **Example** (Every problem at once)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { AgentDefinition } from "effect-emissary"
 *
 * const error = await Effect.runPromise(Effect.flip(AgentDefinition.decode({
 *   schema_version: 1,
 *   model: "gpt-4o",
 *   max_steps: 0
 * })))
 *
 * assert.ok(error.reason._tag === "Invalid")
 * assert.deepStrictEqual(error.reason.issues.map((issue) => issue.path), ["/model", "/max_steps"])
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = (
  input: unknown,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<AgentDefinition, PayloadError> => codec.under(options, codec.codec.decode(input, options))

/**
 * Reads a definition from JSON text or bytes; see {@link decode}.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeJson = (
  input: string | Uint8Array,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<AgentDefinition, PayloadError> => codec.under(options, codec.codec.decodeJson(input, options))

/**
 * The wire form as a Schema, to embed definitions in other schemas: it reads
 * every version and writes the newest.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Wire: Schema.Codec<AgentDefinition, Schema.Json> = codec.codec.schema

/**
 * The SHA-256 digest of a definition, `"sha256:<hex>"`: equal for definitions
 * that say the same, whatever version they came from.
 *
 * **Details**
 *
 * It is the digest of the canonical JSON of wire version 2 in which the digest
 * of each tool's JSON stands in its place. Fails with a `PayloadError` if the model
 * options hold a secret, or text without a canonical form (lone surrogates).
 *
 * @category digests
 * @since 0.1.0
 */
export const digest: (definition: AgentDefinition) => Effect.Effect<string, PayloadError> = internalDigest.digest
