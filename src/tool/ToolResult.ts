/**
 * What one tool call gave: a success or a failure, as plain data.
 *
 * The same value travels from the handler to the conversation, over the network
 * and into storage. It holds both what the model reads (`content`) and what
 * programs read (`value`, the encoded JSON).
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as Content from "./Content.ts"

/**
 * The tool gave a value.
 *
 * @category models
 * @since 0.1.0
 */
export interface Success {
  readonly _tag: "Success"
  readonly content: Content.NonEmptyContent
  readonly value: Schema.Json
}

/**
 * Schema of {@link Success}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Success: Schema.Codec<Success> = Schema.TaggedStruct("Success", {
  content: Content.NonEmptyContent,
  value: Schema.Json
}).annotate({ identifier: "ToolSuccess" })

/**
 * The call gave no value.
 *
 * **Details**
 *
 * `type` says what kind of failure it is: one of {@link reserved}, or the `type`
 * or `_tag` of the handler's own failure. `value` is that failure, encoded by
 * the tool's failure schema. Without `content` the model reads `message`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Failure {
  readonly _tag: "Failure"
  readonly type: string
  readonly message: string
  readonly value?: Schema.Json
  readonly content?: Content.NonEmptyContent
}

/**
 * Schema of {@link Failure}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Failure: Schema.Codec<Failure> = Schema.TaggedStruct("Failure", {
  type: Schema.String,
  message: Schema.String,
  value: Schema.optionalKey(Schema.Json),
  content: Schema.optionalKey(Content.NonEmptyContent)
}).annotate({ identifier: "ToolFailureResult" })

/**
 * The result of one tool call.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolResult = Success | Failure

/**
 * Schema of {@link ToolResult}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ToolResult: Schema.Codec<ToolResult> = Schema.Union([Success, Failure])

/**
 * Failure types with a fixed meaning. A handler's own failures should use other
 * names, except `execution_error`, which is the default of `ToolFailure`.
 *
 * | type | meaning |
 * |---|---|
 * | `unknown_tool` | no tool of that name |
 * | `validation_error` | the arguments do not fit the tool's parameters |
 * | `timeout_error` | the tool took longer than its timeout |
 * | `execution_error` | the tool failed in a way it foresaw, or its result did not encode |
 * | `unhandled_error` | the tool, or the runtime, failed in a way nobody foresaw |
 * | `denied` | the call needed an approval and was refused |
 * | `interrupted` | the call had started when the run was interrupted |
 * | `remote_unavailable` | the server that holds the tool gave no answer |
 *
 * @category models
 * @since 0.1.0
 */
export const reserved = [
  "unknown_tool",
  "validation_error",
  "timeout_error",
  "execution_error",
  "unhandled_error",
  "denied",
  "interrupted",
  "remote_unavailable"
] as const

/**
 * One of the {@link reserved} failure types.
 *
 * @category models
 * @since 0.1.0
 */
export type ReservedType = (typeof reserved)[number]

/**
 * Makes a success.
 *
 * **Details**
 *
 * Without `content` the model reads a string as it is and anything else as
 * compact JSON.
 *
 * **Example** (A result and what the model reads)
 *
 * ```ts
 * import { ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * assert.strictEqual(ToolResult.text(ToolResult.success("sunny")), "sunny")
 * assert.strictEqual(ToolResult.text(ToolResult.success({ degrees: 20 })), `{"degrees":20}`)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const success = (value: Schema.Json, content?: Content.NonEmptyContent): Success => ({
  _tag: "Success",
  content: content ?? [Content.text(compact(value))],
  value
})

/**
 * Makes a failure.
 *
 * **Example** (A failure and what the model reads)
 *
 * ```ts
 * import { ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const result = ToolResult.failure("not_found", "No order 42", { id: 42 })
 * assert.strictEqual(ToolResult.text(result), "No order 42")
 * assert.strictEqual(ToolResult.isFailure(result), true)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const failure = (type: string, message: string, value?: Schema.Json): Failure =>
  value === undefined ? { _tag: "Failure", type, message } : { _tag: "Failure", type, message, value }

/**
 * Tells a failure from a success.
 *
 * @category guards
 * @since 0.1.0
 */
export const isFailure = (self: ToolResult): self is Failure => self._tag === "Failure"

/**
 * Tells a success from a failure.
 *
 * @category guards
 * @since 0.1.0
 */
export const isSuccess = (self: ToolResult): self is Success => self._tag === "Success"

/**
 * The parts the model reads.
 *
 * @category getters
 * @since 0.1.0
 */
export const content = (self: ToolResult): Content.NonEmptyContent => self.content ?? [Content.text(messageOf(self))]

/**
 * The parts the model reads as text; files become placeholders.
 *
 * @category getters
 * @since 0.1.0
 */
export const text = (self: ToolResult): string => Content.toText(content(self))

const messageOf = (self: ToolResult): string => {
  if (self._tag === "Success") return compact(self.value)
  return self.message === "" && self.value !== undefined ? compact(self.value) : self.message
}

const compact = (value: Schema.Json): string => (typeof value === "string" ? value : JSON.stringify(value))
