/**
 * Hides secrets in texts and JSON that leave the program: sentences of providers, recordings, captured content.
 *
 * A safety net: it recognizes secrets by their form and by the names of their keys. Hold known secrets in `Redacted`.
 */

import type * as Schema from "effect/Schema"
import { isObject, isSecretName } from "./plainJson.ts"

/** The text in place of a secret. */
export const masked = "[redacted]"

/**
 * Texts with the form of a key. Each repeat is over one set of characters and is followed by one that is not in it, so no
 * pattern takes more than linear time per match.
 */
const keyLike = [
  // keys with the prefix of a vendor; providers quote a refused key with stars in it
  /\b(?:sk|pk|rk|gsk|xai|hf|r8|pplx|whsec|xox[a-z]|gh[a-z]|glpat|github_pat|npm|nvapi|tvly)[-_][\w*-]{8,}/g,
  /\b(?:AIza|AKIA|ASIA|ya29\.)[\w-]{12,}/g,
  // JSON Web Tokens
  /\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g,
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g
]

/** Credentials of a header; a word without a digit is prose. */
const scheme = /\b(Bearer|Basic)(\s+)(?=[\w.~+/*-]*[\d=])[\w.~+/=*-]{4,}/gi

/** The password of `scheme://user:password@host`, and the token of `scheme://token@host`. */
const userInfo = /(:\/\/(?:[^\s/:@?#"'<>]{0,200}:)?)[^\s/?#"'<>]{1,200}@/g

/** Parameters of a URL that grant access, and have no name of a secret. */
const urlParameter = /([?&](?:key|sig|[\w-]{0,40}signature)=)[^\s&#"'<>]{3,}/gi

/** `API key provided: value`; a word without a digit is prose. */
const named = /(\bapi[ _-]?key\b[^:=\n]{0,40}[:=]\s{0,8}["'`]?)(?=[\w.~+*-]*\d)[\w.~+*-]{4,}/gi

/** The start of `name=value` and `name: value`. */
const assignment = /([\w-]{1,64})(?:\\{0,3}["'`])?\s{0,8}(?:=>|[:=])\s{0,8}/g

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

/** The text with `[redacted]` in place of what looks like a key, a token, a password or a value named like one. */
export const maskText = (text: string): string =>
  maskAssigned(
    keyLike
      .reduce((rest, pattern) => rest.replace(pattern, masked), text)
      .replace(scheme, (_, name: string, space: string) => name + space + masked)
      .replace(userInfo, (_, before: string) => `${before}${masked}@`)
      .replace(urlParameter, (_, before: string) => before + masked)
      .replace(named, (_, before: string) => before + masked)
  )

/**
 * A copy of the JSON of the same form: texts below secret keys become `[redacted]` and numbers 0, and each other text and each
 * key goes through {@link maskText}.
 */
export const maskJson = (json: Schema.Json, names?: ReadonlySet<string>, isSecret = false): Schema.Json => {
  if (typeof json === "string") return isSecret ? masked : maskText(json)
  if (typeof json === "number") return isSecret ? 0 : json
  if (Array.isArray(json)) return json.map((item: Schema.Json) => maskJson(item, names, isSecret))
  if (!isObject(json)) return json
  const entries = Object.entries(json).map(([key, value]): [string, Schema.Json] => [
    maskText(key),
    maskJson(value, names, isSecret || isSecretName(key, names))
  ])
  return Object.fromEntries(entries)
}
