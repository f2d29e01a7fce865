/**
 * The result of one tool call: a success or a failure, as plain data.
 *
 * The same value travels from the handler to the conversation, over the network
 * and into storage. The model reads `content`; programs read `value`, the
 * encoded JSON.
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"
import * as Base64 from "effect/encoding/Base64"
import { defined } from "../payload/internal/values.ts"
import { textOf } from "../payload/internal/weigh.ts"

/**
 * Options for providers, keyed by provider name.
 *
 * **Details**
 *
 * They are kept and sent back unchanged: some providers sign their parts and
 * reject a part that comes back without its signature.
 *
 * @category models
 * @since 0.1.0
 */
export const ProviderOptions = Schema.Record(Schema.String, Schema.Json)

/** @since 0.1.0 */
export interface ProviderOptions extends Schema.Schema.Type<typeof ProviderOptions> {}

/**
 * A piece of text.
 *
 * @category models
 * @since 0.1.0
 */
export const TextPart = Schema.Struct({
  type: Schema.Literal("text"),
  text: Schema.String,
  options: Schema.optionalKey(ProviderOptions)
}).annotate({ identifier: "TextPart" })

/** @since 0.1.0 */
export interface TextPart extends Schema.Schema.Type<typeof TextPart> {}

/**
 * An image, a document, or any other file: its bytes, or the URL where they are.
 *
 * @category models
 * @since 0.1.0
 */
export const FilePart = Schema.Struct({
  type: Schema.Literal("file"),
  mediaType: Schema.String,
  fileName: Schema.optionalKey(Schema.String),
  data: Schema.Union([
    Schema.Struct({ type: Schema.Literal("base64"), base64: Schema.String }),
    Schema.Struct({ type: Schema.Literal("url"), url: Schema.String })
  ]),
  options: Schema.optionalKey(ProviderOptions)
}).annotate({ identifier: "FilePart" })

/** @since 0.1.0 */
export interface FilePart extends Schema.Schema.Type<typeof FilePart> {}

/**
 * One part: text or a file.
 *
 * @category models
 * @since 0.1.0
 */
export const Content = Schema.Union([TextPart, FilePart])

/** @since 0.1.0 */
export type Content = TextPart | FilePart

/**
 * At least one part.
 *
 * @category models
 * @since 0.1.0
 */
export const NonEmptyContent = Schema.NonEmptyArray(Content).annotate({ identifier: "NonEmptyContent" })

/** @since 0.1.0 */
export type NonEmptyContent = readonly [Content, ...Array<Content>]

/**
 * Makes a text part.
 *
 * **Example** (Making a text part)
 *
 * ```ts
 * import { ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * assert.deepStrictEqual(ToolResult.textPart("Sunny in Rome"), { type: "text", text: "Sunny in Rome" })
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const textPart = (text: string, options?: ProviderOptions): TextPart =>
  options === undefined ? { type: "text", text } : { type: "text", text, options }

/**
 * Makes a file part.
 *
 * **Details**
 *
 * Bytes become base64. A `data:` URL with base64 content becomes that content,
 * `http:` and `https:` text becomes a URL, other text is taken as base64.
 *
 * **Example** (Making file parts)
 *
 * ```ts
 * import { ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const bytes = ToolResult.filePart({ mediaType: "image/png", data: new Uint8Array([1, 2, 3]) })
 * assert.deepStrictEqual(bytes.data, { type: "base64", base64: "AQID" })
 *
 * const linked = ToolResult.filePart({ mediaType: "image/png", data: new URL("https://example.com/a.png") })
 * assert.deepStrictEqual(linked.data, { type: "url", url: "https://example.com/a.png" })
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const filePart = (options: {
  /** The media type, such as `"image/png"`. */
  readonly mediaType: string
  /** The bytes, their Base64, or a URL where the file is. */
  readonly data: string | Uint8Array | URL
  /** The name of the file; none by default. */
  readonly fileName?: string | undefined
  /** Options of providers for this part; none by default. */
  readonly options?: ProviderOptions | undefined
}): FilePart => ({
  type: "file",
  mediaType: options.mediaType,
  ...defined({ fileName: options.fileName }),
  data: makeFileData(options.data),
  ...defined({ options: options.options })
})

const dataUrlPrefix = /^data:[^,]*;base64,/i

const makeFileData = (data: string | Uint8Array | URL): FilePart["data"] => {
  if (data instanceof Uint8Array) return { type: "base64", base64: Base64.encode(data) }
  const text = typeof data === "string" ? data : data.href
  const prefix = dataUrlPrefix.exec(text.slice(0, 512))
  if (prefix !== null) return { type: "base64", base64: text.slice(prefix[0].length) }
  return data instanceof URL || /^(https?|data):/i.test(text)
    ? { type: "url", url: text }
    : { type: "base64", base64: text }
}

/**
 * The tool returned a value.
 *
 * @category models
 * @since 0.1.0
 */
export const Success = Schema.TaggedStruct("Success", {
  content: NonEmptyContent,
  value: Schema.Json
}).annotate({ identifier: "ToolSuccess" })

/** @since 0.1.0 */
export interface Success extends Schema.Schema.Type<typeof Success> {}

/**
 * The call returned no value.
 *
 * **Details**
 *
 * `type` is the `type` or `_tag` of the handler's own failure, or one of the types
 * below. `value` is the handler's failure, encoded by the tool's failure schema.
 * Without `content` the model reads `message`.
 *
 * | type | meaning |
 * |---|---|
 * | `unknown_tool` | no tool of that name |
 * | `validation_error` | the arguments do not fit the tool's parameters |
 * | `timeout_error` | the tool took longer than its timeout |
 * | `execution_error` | the tool failed in a way it foresaw, or its result did not encode |
 * | `unhandled_error` | the tool, or the runtime, failed unexpectedly |
 * | `denied` | the call needed an approval and was refused |
 * | `interrupted` | the call had started when the run was interrupted or its process died, and `value` is `{ outcome: "unknown" }`: it may have taken effect; or it never started, because its answer was cut off |
 * | `remote_unavailable` | the server that holds the tool did not answer |
 *
 * A handler's own failures should use other types, except `execution_error`, which
 * is the default of `ToolFailure`.
 *
 * @category models
 * @since 0.1.0
 */
export const Failure = Schema.TaggedStruct("Failure", {
  type: Schema.String,
  message: Schema.String,
  value: Schema.optionalKey(Schema.Json),
  content: Schema.optionalKey(NonEmptyContent)
}).annotate({ identifier: "ToolFailureResult" })

/** @since 0.1.0 */
export interface Failure extends Schema.Schema.Type<typeof Failure> {}

/**
 * The result of one tool call.
 *
 * @category models
 * @since 0.1.0
 */
export const ToolResult = Schema.Union([Success, Failure])

/** @since 0.1.0 */
export type ToolResult = Success | Failure

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
export const success = (value: Schema.Json, content?: NonEmptyContent): Success => ({
  _tag: "Success",
  content: content ?? [textPart(compactJson(value))],
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
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const failure = (type: string, message: string, value?: Schema.Json): Failure =>
  value === undefined ? { _tag: "Failure", type, message } : { _tag: "Failure", type, message, value }

/**
 * The parts the model reads.
 *
 * @category getters
 * @since 0.1.0
 */
export const content = (self: ToolResult): NonEmptyContent =>
  self._tag === "Success" ? self.content : (self.content ?? [textPart(messageOf(self))])

/**
 * The parts the model reads, of a result or of content, as text: text parts and, for each file, a placeholder that
 * names its media type and file name, joined with newlines.
 *
 * **Example** (Reading content as text)
 *
 * ```ts
 * import { ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const parts = [ToolResult.textPart("Screenshot"), ToolResult.filePart({ mediaType: "image/png", data: "AQID", fileName: "a.png" })]
 * assert.strictEqual(ToolResult.text(parts), "Screenshot\n[image/png a.png omitted]")
 * ```
 *
 * @category getters
 * @since 0.1.0
 */
export const text = (self: ToolResult | ReadonlyArray<Content>): string =>
  ("_tag" in self ? content(self) : self)
    .map((part) =>
      part.type === "text"
        ? part.text
        : `[${part.mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`} omitted]`
    )
    .join("\n")

const messageOf = ({ message, value }: Failure): string =>
  message === "" && value !== undefined ? compactJson(value) : message

const compactJson = (value: Schema.Json): string => (typeof value === "string" ? value : textOf(value))
