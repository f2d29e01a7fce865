/**
 * A failure schema for tools that need no failure of their own.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/**
 * The ready-made failure of a tool: a `type` that programs can match on, a
 * `message` for the model, and optionally a JSON `value` with details.
 *
 * **When to use**
 *
 * Use as the `failure` schema of a tool whose failures are sentences. A tool
 * whose callers must distinguish failures is better off with its own
 * `Schema.TaggedError` classes.
 *
 * **Details**
 *
 * `type` defaults to `"execution_error"`. The constructors `error`, `text` and
 * `json` are static methods, so that the class can be passed as a schema and
 * used as a module alike.
 *
 * **Example** (A tool that may fail)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Agent, ToolFailure } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const toolkit = Toolkit.make(
 *   Tool.make("get_order", {
 *     parameters: Schema.Struct({ id: Schema.String }),
 *     success: Schema.String,
 *     failure: ToolFailure
 *   })
 * )
 * const handlers = toolkit.toLayer({
 *   get_order: ({ id }) => Effect.fail(ToolFailure.error(`There is no order ${id}`, { type: "not_found" }))
 * })
 *
 * const model = ScriptedModel.layer([
 *   { toolCalls: [{ name: "get_order", params: { id: "42" } }] },
 *   { text: "I cannot find it.", expect: { toolResult: "There is no order 42" } }
 * ])
 *
 * const answer = Agent.make("support", { toolkit }).ask("Where is order 42?")
 * const program = answer.pipe(Effect.provide([handlers, model]))
 * assert.strictEqual(await Effect.runPromise(program), "I cannot find it.")
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class ToolFailure extends Schema.TaggedError<ToolFailure>()("ToolFailure", {
  type: Schema.NonEmptyString.pipe(
    Schema.withConstructorDefault(Effect.succeed("execution_error")),
    Schema.withDecodingDefaultKey(Effect.succeed("execution_error"))
  ),
  message: Schema.String,
  value: Schema.optionalKey(Schema.Json)
}) {
  /**
   * A failure with a sentence for the model.
   *
   * @since 0.1.0
   */
  static error(message: string, options?: { readonly type?: string | undefined }): ToolFailure {
    return new ToolFailure({ message, ...typeOf(options) })
  }

  /**
   * A failure from any value, turned into text: a string is its own text,
   * anything else becomes compact JSON.
   *
   * @since 0.1.0
   */
  static text(value: Schema.Json, options?: { readonly type?: string | undefined }): ToolFailure {
    return new ToolFailure({ message: asText(value), ...typeOf(options) })
  }

  /**
   * A failure that carries a JSON value for programs; the model reads the value
   * as compact JSON.
   *
   * @since 0.1.0
   */
  static json(value: Schema.Json, options?: { readonly type?: string | undefined }): ToolFailure {
    return new ToolFailure({ message: asText(value), value, ...typeOf(options) })
  }

  /**
   * Tests for a `ToolFailure`.
   *
   * @since 0.1.0
   */
  static is(u: unknown): u is ToolFailure {
    return u instanceof ToolFailure
  }
}

const typeOf = (options: { readonly type?: string | undefined } | undefined) =>
  options?.type === undefined ? undefined : { type: options.type }

const asText = (value: Schema.Json): string => (typeof value === "string" ? value : JSON.stringify(value))
