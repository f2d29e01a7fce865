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
  /\b(?:sk|pk|rk|gsk|xai|hf|r8|pplx|whsec|xox[a-z]|gh[a-z]|glpat|github_pat|npm)[-_][\w*-]{8,}/g,
  /\b(?:AIza|AKIA|ASIA)[\w-]{12,}/g,
  // JSON Web Tokens
  /\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g,
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g
]

/** Credentials of a header; a word without a digit is prose. */
const scheme = /\b(Bearer|Basic)(\s+)(?=[\w.~+/*-]*[\d=])[\w.~+/=*-]{4,}/gi

/** The password of `scheme://user:password@host`. */
const userInfo = /(:\/\/[^\s/:@?#]{0,200}:)[^\s/@]{1,200}@/g

/** `name=value` and `name: value`, in quotes or not. */
const assignment = /([\w-]{1,64})("?\s{0,8}[:=]\s{0,8}"?)([^\s"'&,;{}[\]]{3,})/g

/** The text with `[redacted]` in place of what looks like a key, a token, a password or a value named like one. */
export const maskText = (text: string): string => {
  const without = keyLike.reduce((rest, pattern) => rest.replace(pattern, masked), text)
  return without
    .replace(scheme, (_, name: string, space: string) => name + space + masked)
    .replace(userInfo, (_, before: string) => `${before}${masked}@`)
    .replace(assignment, (found, name: string, between: string) =>
      isSecretName(name) ? name + between + masked : found
    )
}

/** A copy of the JSON: values of secret keys become `[redacted]`, and each text, keys included, goes through {@link maskText}. */
export const maskJson = (json: Schema.Json, names?: ReadonlySet<string>): Schema.Json => {
  if (typeof json === "string") return maskText(json)
  if (Array.isArray(json)) return json.map((item: Schema.Json) => maskJson(item, names))
  if (!isObject(json)) return json
  const entries = Object.entries(json).map(([key, value]): [string, Schema.Json] => [
    maskText(key),
    isSecretName(key, names) ? masked : maskJson(value, names)
  ])
  return Object.fromEntries(entries)
}
