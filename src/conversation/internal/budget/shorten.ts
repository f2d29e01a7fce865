import * as ToolResult from "../../../tool/ToolResult.ts"
import type { ToolMessage } from "../../Message.ts"
import * as immutable from "../immutable.ts"

/** The message with the beginning and the end of its output, where that saves enough. */
export const shorten = (message: ToolMessage, keep: number): ToolMessage | undefined => {
  const content = ToolResult.content(message.result)
  const text = ToolResult.text(message.result)
  const isLong = text.length > 2 * keep + longestMarker
  if (!isLong && content.every((part) => part.type === "text")) return undefined
  const short = isLong ? cut(text, keep) : text
  return immutable.message({ ...message, result: withText(message.result, short) })
}

const withText = (result: ToolResult.ToolResult, text: string): ToolResult.ToolResult =>
  ToolResult.isFailure(result) ? ToolResult.failure(result.type, text) : ToolResult.success(text)

const marker = (characters: number): string => `\n[... ${characters} characters left out ...]\n`

/** So that no marker is ever shortened to one that tells how long the first one was. */
const longestMarker = marker(Number.MAX_SAFE_INTEGER).length

/** Two thirds from the beginning, a third from the end, where errors tend to stand. */
const cut = (text: string, keep: number): string => {
  const tail = Math.floor(keep / 3)
  const from = whole(text, keep - tail)
  const to = whole(text, text.length - tail)
  return `${text.slice(0, from)}${marker(to - from)}${text.slice(to)}`
}

/** The position, or the one before it where it is inside of a character. */
const whole = (text: string, index: number): number => {
  const code = text.charCodeAt(index)
  return code >= 0xdc00 && code < 0xe000 ? index - 1 : index
}
