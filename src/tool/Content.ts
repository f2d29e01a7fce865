/**
 * What a model can read: text and files.
 *
 * A tool result, a user message and an assistant message are made of the same
 * parts. The parts are plain data, so that they can be stored, sent and compared;
 * `fromPrompt` and `toPrompt` convert them to and from the parts of `effect/ai`.
 *
 * @since 0.1.0
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import * as internal from "./internal/content.ts"

/**
 * Options for one provider each, keyed by provider name.
 *
 * **Details**
 *
 * They are kept and sent back untouched: some providers sign their parts and
 * refuse a part that comes back without its signature.
 *
 * @category models
 * @since 0.1.0
 */
export interface ProviderOptions {
  readonly [provider: string]: Schema.Json
}

/**
 * Schema of {@link ProviderOptions}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ProviderOptions: Schema.Codec<ProviderOptions> = Schema.Record(Schema.String, Schema.Json)

/**
 * A piece of text.
 *
 * @category models
 * @since 0.1.0
 */
export interface TextPart {
  readonly type: "text"
  readonly text: string
  readonly options?: ProviderOptions
}

/**
 * Schema of {@link TextPart}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const TextPart: Schema.Codec<TextPart> = Schema.Struct({
  type: Schema.Literal("text"),
  text: Schema.String,
  options: Schema.optionalKey(ProviderOptions)
}).annotate({ identifier: "TextPart" })

/**
 * Where the bytes of a file are: in the part itself, or behind a URL.
 *
 * @category models
 * @since 0.1.0
 */
export type FileData =
  | { readonly type: "base64"; readonly base64: string }
  | { readonly type: "url"; readonly url: string }

/**
 * Schema of {@link FileData}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const FileData: Schema.Codec<FileData> = Schema.Union([
  Schema.Struct({ type: Schema.Literal("base64"), base64: Schema.String }),
  Schema.Struct({ type: Schema.Literal("url"), url: Schema.String })
])

/**
 * An image, a document, or any other file.
 *
 * @category models
 * @since 0.1.0
 */
export interface FilePart {
  readonly type: "file"
  readonly mediaType: string
  readonly fileName?: string
  readonly data: FileData
  readonly options?: ProviderOptions
}

/**
 * Schema of {@link FilePart}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const FilePart: Schema.Codec<FilePart> = Schema.Struct({
  type: Schema.Literal("file"),
  mediaType: Schema.String,
  fileName: Schema.optionalKey(Schema.String),
  data: FileData,
  options: Schema.optionalKey(ProviderOptions)
}).annotate({ identifier: "FilePart" })

/**
 * One part: text or a file.
 *
 * @category models
 * @since 0.1.0
 */
export type Content = TextPart | FilePart

/**
 * Schema of {@link Content}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Content: Schema.Codec<Content> = Schema.Union([TextPart, FilePart])

/**
 * At least one part.
 *
 * @category models
 * @since 0.1.0
 */
export type NonEmptyContent = readonly [Content, ...Array<Content>]

/**
 * Schema of {@link NonEmptyContent}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const NonEmptyContent: Schema.Codec<NonEmptyContent> = Schema.NonEmptyArray(Content)

/**
 * Makes a text part.
 *
 * **Example** (Making a text part)
 *
 * ```ts
 * import { Content } from "effect-emissary"
 * import assert from "node:assert"
 *
 * assert.deepStrictEqual(Content.text("Sunny in Rome"), { type: "text", text: "Sunny in Rome" })
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const text = (text: string, options?: ProviderOptions): TextPart =>
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
 * import { Content } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const bytes = Content.file({ mediaType: "image/png", data: new Uint8Array([1, 2, 3]) })
 * assert.deepStrictEqual(bytes.data, { type: "base64", base64: "AQID" })
 *
 * const linked = Content.file({ mediaType: "image/png", data: new URL("https://example.com/a.png") })
 * assert.deepStrictEqual(linked.data, { type: "url", url: "https://example.com/a.png" })
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const file = (options: {
  readonly mediaType: string
  readonly data: string | Uint8Array | URL
  readonly fileName?: string | undefined
  readonly options?: ProviderOptions | undefined
}): FilePart => ({
  type: "file",
  mediaType: options.mediaType,
  ...(options.fileName === undefined ? undefined : { fileName: options.fileName }),
  data: internal.fileData(options.data),
  ...(options.options === undefined ? undefined : { options: options.options })
})

/**
 * Joins the text parts with newlines; each file becomes a placeholder that names
 * its media type and file name.
 *
 * **Example** (Reading content as text)
 *
 * ```ts
 * import { Content } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const parts = [Content.text("Screenshot"), Content.file({ mediaType: "image/png", data: "AQID", fileName: "a.png" })]
 * assert.strictEqual(Content.toText(parts), "Screenshot\n[image/png a.png omitted]")
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const toText = (content: ReadonlyArray<Content>): string =>
  content
    .map((part) =>
      part.type === "text"
        ? part.text
        : `[${part.mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`} omitted]`
    )
    .join("\n")

/**
 * Converts a text or file part of an `effect/ai` prompt.
 *
 * @category conversions
 * @since 0.1.0
 */
export const fromPrompt = (part: Prompt.TextPart | Prompt.FilePart): Content => {
  const options = internal.fromPromptOptions(part.options)
  return part.type === "text"
    ? text(part.text, options)
    : file({ mediaType: part.mediaType, data: part.data, fileName: part.fileName, options })
}

/**
 * Converts a part into the text or file part of an `effect/ai` prompt.
 *
 * **Details**
 *
 * A URL that does not parse is sent as it is, as text: judging it is the
 * provider's business.
 *
 * @category conversions
 * @since 0.1.0
 */
export const toPrompt: {
  (part: TextPart): Prompt.TextPart
  (part: FilePart): Prompt.FilePart
  (part: Content): Prompt.TextPart | Prompt.FilePart
} = internal.toPrompt
