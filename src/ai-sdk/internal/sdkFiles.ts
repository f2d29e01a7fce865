/**
 * Files in the form that a provider takes.
 *
 * A provider, or its client, refuses a whole request for one file of a type that it does not take. The file stays in
 * the conversation, so each later request would be refused, too. In place of a file that its provider does not take,
 * the model reads a note.
 */

import type { LanguageModelV4FilePart } from "@ai-sdk/provider"
import * as Prompt from "effect/ai/Prompt"
import * as Base64 from "effect/encoding/Base64"
import { firstUnits } from "../../payload/internal/base.ts"
import { isObject } from "../../payload/internal/values.ts"

// --- Rules ---------------------------------------------------------------------------------------------------------
//
// The types were looked up on 2026-11-26: in excerpts of the page that is named, in the clients of the AI SDK, which throw at
// other types, and in errors of the provider that users quote. Compare a rule with its page before you change it.

/** The types of files that a provider takes. */
export interface Rules {
  /** The types of bytes in messages of the user. */
  readonly bytes: RegExp
  /** The types of bytes in results of tools. */
  readonly results: RegExp
  /** The types of files by URL. */
  readonly urls: RegExp
}

const same = (bytes: RegExp, urls: RegExp): Rules => ({ bytes, results: bytes, urls })

const anything = /^/

/** No model draws an SVG, and a type without its two parts is none. */
const mostTypes = /^(?!image\/svg)[^/]+\/./

export const rules = {
  // https://platform.openai.com/docs/guides/images-vision. The client throws at other files in messages of the user
  openAi: {
    bytes: /^(?:image\/(?:png|jpeg|gif|webp|\*)|application\/pdf)$/,
    results: /^(?:image\/(?:png|jpeg|gif|webp|\*)|text\/.+|application\/(?:pdf|json|xml|rtf|msword|vnd\..+))$/,
    urls: anything
  },
  // Chat completions of OpenAI
  openAiChat: same(
    /^(?:image\/(?:png|jpeg|gif|webp|\*)|audio\/(?:wav|mp3|mpeg)|application\/pdf)$/,
    /^image\/(?:png|jpeg|gif|webp|\*)$/
  ),
  // https://platform.claude.com/docs/en/build-with-claude/vision, and the refusal "media_type: Input should be 'image/jpeg',
  // 'image/png', 'image/gif' or 'image/webp'" (github.com/Mermaid-Chart/issue-tracker/issues/271)
  anthropic: same(
    /^(?:image\/(?:png|jpeg|gif|webp|\*)|application\/pdf|text\/plain)$/,
    /^(?:image\/(?:png|jpeg|gif|webp|\*)|application\/pdf|text\/plain)$/
  ),
  // https://ai.google.dev/gemini-api/docs/image-understanding and the refusals "Unsupported MIME type: image/gif" and
  // "application/octet-stream" (github.com/waooAI/waoowaoo/issues/89)
  google: same(/^(?:image\/(?:png|jpeg|webp|heic|heif|\*)|audio\/.+|video\/.+|text\/.+|application\/pdf)$/, mostTypes),
  // The client @ai-sdk/openai-compatible. Most other clients of chat completions take less; the clients of Mistral and
  // Cohere take other types
  chat: same(
    /^(?:image\/(?!svg).+|video\/.+|text\/.+|audio\/(?:wav|mp3|mpeg)|application\/pdf)$/,
    /^(?:image\/(?!svg)|video\/|text\/)./
  ),
  others: same(mostTypes, mostTypes)
} satisfies Record<string, Rules>

// --- Data ----------------------------------------------------------------------------------------------------------

const dataUrl = /^data:[^,]*;base64,/i

const webUrl = /^https?:\/\//i

type FileData = Extract<LanguageModelV4FilePart["data"], { readonly type: "data" | "url" }>

/** The id of a file under the provider that keeps it: the client of another provider refuses it. */
const referenceOf = ({ data, options }: Prompt.FilePart): LanguageModelV4FilePart["data"] | undefined => {
  const keeper = Object.entries(options).find(([, given]) => isObject(given) && given["fileId"] === true)
  return keeper === undefined || typeof data !== "string"
    ? undefined
    : { type: "reference", reference: { [keeper[0]]: data } }
}

export const bytesOrUrl = (data: Prompt.FilePart["data"]): FileData => {
  if (data instanceof Uint8Array) return { type: "data", data }
  const text = data.toString()
  const prefix = dataUrl.exec(text)
  if (prefix !== null) return { type: "data", data: text.slice(prefix[0].length) }
  if (data instanceof URL) return { type: "url", url: data }
  return webUrl.test(text) && URL.canParse(text) ? { type: "url", url: new URL(text) } : { type: "data", data: text }
}

export const dataOf = (part: Prompt.FilePart): LanguageModelV4FilePart["data"] =>
  referenceOf(part) ?? bytesOrUrl(part.data)

/** The type of an image by its first bytes: providers refuse an image that is named otherwise. */
const imageTypeOf = (data: string | Uint8Array): string | undefined => {
  const start = typeof data === "string" ? data.slice(0, 24) : Base64.encode(data.subarray(0, 18))
  if (start.startsWith("iVBORw0KGgo")) return "image/png"
  if (start.startsWith("/9j/")) return "image/jpeg"
  if (start.startsWith("R0lGOD")) return "image/gif"
  return start.startsWith("UklGR") && start.slice(12, 16) === "RUJQ" ? "image/webp" : undefined
}

/** The type as providers name it. Only types of images lose their parameters. */
const typeOf = ({ mediaType }: Prompt.FilePart, data: LanguageModelV4FilePart["data"]): string => {
  const given = mediaType.toLowerCase()
  if (!given.startsWith("image/")) return given
  const plain = given.replace(/[;\s].*$/s, "")
  return (data.type === "data" ? imageTypeOf(data.data) : undefined) ?? (plain === "image/jpg" ? "image/jpeg" : plain)
}

// --- Files and notes -----------------------------------------------------------------------------------------------

/** A note in the place of a file. */
export const note = ({ fileName, mediaType, options }: Prompt.FilePart, words: string): Prompt.TextPart => {
  const name = fileName === undefined ? "" : ` ${firstUnits(fileName, 100)}`
  return Prompt.textPart({ text: `[${firstUnits(mediaType, 100) || "file"}${name}: ${words}]`, options })
}

const leftOut = "left out, because the model takes no files of this type"

/** The file as the provider takes it, or a note. */
export const fitted = (
  part: Prompt.FilePart,
  rules: Rules,
  place: "bytes" | "results"
): Prompt.FilePart | Prompt.TextPart => {
  const data = dataOf(part)
  if (data.type === "reference") return part
  const type = typeOf(part, data)
  const isEmpty = data.type === "data" && data.data.length === 0
  const rule = data.type === "url" ? rules.urls : rules[place]
  if (isEmpty || !rule.test(type.replace(/;.*$/s, ""))) return note(part, leftOut)
  return type === part.mediaType || !type.startsWith("image/") ? part : Prompt.filePart({ ...part, mediaType: type })
}
