/**
 * Names and limits of plans: valid names, suggestions for a misspelled one, and the form of names and values in messages.
 */

import * as base from "../../payload/internal/base.ts"

export const stepTypeId = "~effect-emissary/plan/Step"

export const targetTypeId = "~effect-emissary/plan/Target"

export const planTypeId = "~effect-emissary/plan/Plan"

export const boundTypeId = "~effect-emissary/plan/Plan/Bound"

/** The limits of one plan. `Limits` applies to its JSON as well. */
export const maxSteps = 1_000

export const maxRoutes = 256

export const maxContext = 256

/** Regular expressions of conditions: each takes time to compile. */
export const maxPatterns = 64

export const maxIterations = 1_000_000

export const defaultMaxIterations = 100

export const defaultName = "plan"

export const maxNameLength = 200

const identifier = /^[\p{L}\p{N}_][\p{L}\p{N}_-]*$/u

/** Control characters, and halves of characters. */
const control = /[\p{Cc}\p{Cs}]/u

const isShort = (name: string): boolean => name.length <= maxNameLength

/** The rule of version 3 and of `Step.make`, and of every name that a reference holds. */
export const isIdentifier = (name: string): boolean => isShort(name) && identifier.test(name)

export const identifierRule = `letters, digits and "_", then "-" too, at most ${maxNameLength} characters`

/** The rule of step names in versions 1 and 2. */
export const isPlainText = (name: string): boolean => isShort(name) && !control.test(name)

export const plainTextRule = `text without control characters, at most ${maxNameLength} characters`

/** The most names in a message. */
const maxListed = 20

/** Names in quotes; names beyond the limit are counted. */
export const listNames = (names: ReadonlyArray<string>): string => {
  const listed = names.slice(0, maxListed).map(base.quote).join(", ")
  return names.length > maxListed ? `${listed} and ${names.length - maxListed} more` : listed
}

const maxLine = 120

/** A text from anywhere on one line: what cannot be seen is written by its number. */
export const escapeInvisible = (text: string, max: number = maxLine): string =>
  base
    .truncateText(text, max)
    .replace(/[\n\r\t]+/gu, " ")
    .replace(base.unseen, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`)

/** A name as pictures show it: a name that is empty, or begins or ends with a space, is put in quotes. */
export const displayName = (name: string): string => {
  const shown = escapeInvisible(name, 80)
  return shown === "" || shown.trim() !== shown ? `"${shown}"` : shown
}

/** A number of milliseconds in a readable unit. */
export const formatDuration = (millis: number): string => {
  const time = Math.max(0, Math.round(millis))
  if (time < 1000) return `${time} ms`
  if (time < 60_000) return `${Math.floor(time / 100) / 10} s`
  const seconds = Math.floor(time / 1000)
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`
}
