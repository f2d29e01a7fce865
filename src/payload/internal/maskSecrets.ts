/**
 * Hides secrets in texts and JSON that leave the program: sentences of providers, recordings, captured content.
 *
 * A safety net: it recognizes secrets by their form and by the names of their keys. Hold known secrets in `Redacted`.
 */

import { identity } from "effect/Function"
import type * as Schema from "effect/Schema"
import { isSecretName } from "./copyJson.ts"
import * as fuel from "./fuel.ts"
import { isObject } from "./values.ts"

/** The text in place of a secret. */
export const masked = "[redacted]"

/** The greatest length of a text in a log or on a span. */
const maxText = 32_768

/** As far as the end of a text is searched for a space, at which it is cut: part of a secret is not recognized. */
const maxWord = 400

/** The beginning of a text for a log or a span. */
export const cutText = (text: string): string => {
  if (text.length <= maxText) return text
  const part = text.slice(0, maxText)
  const end = Math.max(part.lastIndexOf(" "), part.lastIndexOf("\n"), maxText - maxWord)
  return `${part.slice(0, end)} [${text.length - end} more characters]`
}

/** The units for a text, which each pattern reads. */
const unitsOf = (text: string): number => 4 * fuel.ofText(text.length)

/**
 * Texts with the form of a key. A pattern with a repeat without end begins at the start of a word only, so that no character is
 * read by more than a few attempts.
 */
const keyLike = [
  // keys with the prefix of a vendor; providers quote a refused key with stars in it
  /\b(?:sk|pk|rk|gsk|xai|hf|r8|pplx|whsec|xox[a-z]|gh[a-z]|glpat|github_pat|npm|nvapi|tvly)[-_][\w*-]{8,}/g,
  /\b(?:AIza|AKIA|ASIA|ya29\.)[\w-]{12,}/g,
  // JSON Web Tokens
  /(?<![\w-])(?:[\w-]{0,40}-)?eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g,
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g
]

/** Credentials of a header; a word without a digit is prose. */
const scheme = /\b(Bearer|Basic)(\s+)(?=[\w.~+/*-]*[\d=])[\w.~+/=*-]{4,}/gi

/** The password of `scheme://user:password@host`, and the token of `scheme://token@host`. */
const userInfo = /(:\/\/(?:[^\s/:@?#"'<>]*:)?)[^\s/?#"'<>]+@/g

/** Parameters of a URL that grant access, and have no name of a secret. */
const urlParameter = /([?&](?:key|sig|[\w-]{0,40}signature)=)[^\s&#"'<>]{3,}/gi

/** `API key provided: value`; a word without a digit is prose. */
const named = /(\bapi[ _-]?key\b[^:=\n]{0,40}[:=]\s{0,8}["'`]?)(?=[\w.~+*-]*\d)[\w.~+*-]{4,}/gi

/** The start of `name=value` and `name: value`. */
const assignment = /(?<![\w-])([\w-]+)(?:\\{0,3}["'`])?\s{0,8}(?:=>|[:=])\s{0,8}/g

/** The value: all within quotes, which may be escaped, or a word, with the scheme of an authorization before it. */
const assigned = /(\\{0,3}["'`])(?:(?!\1)[^\n]){3,100000}|(?:(?:bearer|basic|token)\s+)?[^\s"'`&,;{}[\]\\]{3,}/iy

const maskAssigned = (text: string): string => {
  let made = ""
  let end = 0
  for (const match of text.matchAll(assignment)) {
    if (match.index < end || !isSecretName(match[1] ?? "")) continue
    const start = match.index + match[0].length
    assigned.lastIndex = start
    const value = assigned.exec(text)
    if (value === null) continue
    made += text.slice(end, start) + (value[1] ?? "") + masked
    end = start + value[0].length
  }
  return made + text.slice(end)
}

/**
 * The text with `[redacted]` in place of what looks like a key, a token, a password or a value named like one. All of a text
 * that there is no fuel for is `[redacted]`.
 */
export const maskText = (text: string, tank: fuel.Fuel): string => {
  if (!fuel.spend(tank, unitsOf(text))) return masked
  return maskAssigned(
    keyLike
      .reduce((rest, pattern) => rest.replace(pattern, masked), text)
      .replace(scheme, (_, name: string, space: string) => name + space + masked)
      .replace(userInfo, (_, before: string) => `${before}${masked}@`)
      .replace(urlParameter, (_, before: string) => before + masked)
      .replace(named, (_, before: string) => before + masked)
  )
}

/** The fuel and the secret keys of one masking. */
export interface MaskOptions {
  readonly tank: fuel.Fuel
  readonly names: ReadonlySet<string>
  /** A change of each text before it is masked. */
  readonly cut?: (text: string) => string
}

/**
 * A copy of the JSON of the same form: texts below secret keys become `[redacted]` and numbers 0, and each other text and each
 * key goes through {@link maskText}.
 */
export const maskJson = (json: Schema.Json, options: MaskOptions, isSecret = false): Schema.Json => {
  const { cut = identity, names, tank } = options
  if (typeof json === "string") return isSecret ? masked : maskText(cut(json), tank)
  if (typeof json === "number") return isSecret ? 0 : json
  if (Array.isArray(json)) return json.map((item: Schema.Json) => maskJson(item, options, isSecret))
  if (!isObject(json)) return json
  const entries = Object.entries(json).map(([key, value]): [string, Schema.Json] => [
    maskText(cut(key), tank),
    maskJson(value, options, isSecret || isSecretName(key, names))
  ])
  return Object.fromEntries(entries)
}
