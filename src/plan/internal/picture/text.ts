/** Names, texts and times as pictures show them. */
import { short } from "../short.ts"

const maxLine = 120

// Emoji are put together by two format characters; all others are shown by their number, for they hide or reorder text.
const hidden = /(?!\u200d|\ufe0f)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Surrogate}\p{Cn}]/gu

/** A text from anywhere on one line: what cannot be seen is written by its number. */
export const visible = (text: string, max: number = maxLine): string =>
  short(text, max)
    .replace(/[\n\r\t]+/gu, " ")
    .replace(hidden, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`)

/** A name as pictures show it: one that is empty, or begins or ends with a space, is put in quotes. */
export const nameOf = (name: string): string => {
  const shown = visible(name, 80)
  return shown === "" || shown.trim() !== shown ? `"${shown}"` : shown
}

/** A number of milliseconds as people say it. */
export const duration = (millis: number): string => {
  const time = Math.max(0, Math.round(millis))
  if (time < 1000) return `${time} ms`
  if (time < 60_000) return `${Math.floor(time / 100) / 10} s`
  const seconds = Math.floor(time / 1000)
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`
}
