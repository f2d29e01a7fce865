import * as Prompt from "effect/ai/Prompt"
import * as Base64 from "effect/encoding/Base64"
import type { Content, FileData, FilePart, ProviderOptions, TextPart } from "../Content.ts"

const dataUrl = /^data:[^,]*;base64,/i

export const fileData = (data: string | Uint8Array | URL): FileData => {
  if (data instanceof Uint8Array) return { type: "base64", base64: Base64.encode(data) }
  const text = typeof data === "string" ? data : data.href
  const prefix = dataUrl.exec(text.slice(0, 512))
  if (prefix !== null) return { type: "base64", base64: text.slice(prefix[0].length) }
  return data instanceof URL || /^(https?|data):/i.test(text)
    ? { type: "url", url: text }
    : { type: "base64", base64: text }
}

export const fromPromptOptions = (options: Prompt.ProviderOptions): ProviderOptions | undefined =>
  Object.keys(options).length === 0 ? undefined : options

const promptData = (data: FileData): string | URL => {
  if (data.type === "base64") return data.base64
  return URL.canParse(data.url) ? new URL(data.url) : data.url
}

export function toPrompt(part: TextPart): Prompt.TextPart
export function toPrompt(part: FilePart): Prompt.FilePart
export function toPrompt(part: Content): Prompt.TextPart | Prompt.FilePart
export function toPrompt(part: Content): Prompt.TextPart | Prompt.FilePart {
  return part.type === "text"
    ? Prompt.textPart({ text: part.text, options: part.options })
    : Prompt.filePart({
        mediaType: part.mediaType,
        fileName: part.fileName,
        data: promptData(part.data),
        options: part.options
      })
}
