/**
 * The search for secrets in values that are about to be written, and the places in which keys are data.
 */

import * as Redacted from "effect/Redacted"
import * as base from "./base.ts"

export const secretNames: ReadonlySet<string> = new Set([
  // API keys, also as the headers that carry them
  "apikey",
  "apikeys",
  "apisecret",
  "apitoken",
  "xapikey",
  "xgoogapikey",
  "openaiapikey",
  "anthropicapikey",
  "azureapikey",
  "geminiapikey",
  "googleapikey",
  "subscriptionkey",
  "ocpapimsubscriptionkey",
  // Authorization
  "auth",
  "authorization",
  "proxyauthorization",
  "basicauth",
  "authheader",
  "authkey",
  "authtoken",
  "bearer",
  "bearertoken",
  "accesstoken",
  "refreshtoken",
  "idtoken",
  "sessiontoken",
  "securitytoken",
  "xamzsecuritytoken",
  "personalaccesstoken",
  "githubtoken",
  "cookie",
  "cookies",
  "setcookie",
  // Secrets and passwords
  "secret",
  "secrets",
  "secretkey",
  "secretvalue",
  "clientsecret",
  "sharedsecret",
  "webhooksecret",
  "signingsecret",
  "jwtsecret",
  "password",
  "passwords",
  "passwd",
  "pwd",
  "passphrase",
  "passcode",
  "credential",
  "credentials",
  // Keys that open something
  "accesskey",
  "accesskeyid",
  "secretaccesskey",
  "awsaccesskeyid",
  "awssecretaccesskey",
  "awssessiontoken",
  "privatekey",
  "privatekeypem",
  "sshkey",
  "signingkey",
  "encryptionkey",
  "masterkey",
  "serviceaccountkey",
  "accountkey",
  "connectionstring"
])

const separators = /[^\p{L}\p{N}]/gu

/** Putting a long run of these in order takes quadratic time; as separators they count for nothing anyway. */
const combiningMarks = /\p{M}+/gu

export const isSecretName = (key: string): boolean =>
  secretNames.has(key.replace(combiningMarks, "").normalize("NFKC").replace(separators, "").toLowerCase())

/** A secret that was found. The value is not part of it. */
export interface Secret {
  readonly path: string
  readonly key: string
  readonly kind: "key" | "redacted"
}

/** One token of a path, from the inside out. */
interface Step {
  readonly parent: Step | undefined
  readonly key: string
}

/** A JSON Pointer in which the token `*` is any one token and `**` any number of them. */
type Pattern = ReadonlyArray<string>

/** Compares from the last token to the first, because most paths differ in the last one. */
const matches = (pattern: Pattern, length: number, step: Step | undefined): boolean => {
  const token = pattern[length - 1]
  if (token === undefined) return step === undefined
  if (token === "**") {
    if (length === 1 || matches(pattern, length - 1, step)) return true
    return step !== undefined && matchesAbove(pattern, length - 1, step.parent)
  }
  return step !== undefined && (token === "*" || token === step.key) && matches(pattern, length - 1, step.parent)
}

/** Tries every place around a value, without recursion: values may be deep. */
const matchesAbove = (pattern: Pattern, length: number, step: Step | undefined): boolean => {
  for (let rest = step; rest !== undefined; rest = rest.parent) if (matches(pattern, length, rest)) return true
  return matches(pattern, length, undefined)
}

/** True when a pattern, such as `/tools/*\/success`, is the path of a place. */
export const matchesPattern = (pattern: string, path: string): boolean => {
  const tokens = base.parsePointer(pattern)
  const last = base.parsePointer(path).reduce<Step | undefined>((parent, key) => ({ parent, key }), undefined)
  return matches(tokens, tokens.length, last)
}

interface Visit {
  readonly value: object
  readonly step: Step | undefined
  /** True when the keys of this value are data. */
  readonly data: boolean
}

/** Marks the value of a secret key on the stack, so that what comes first is reported first. */
const secretMark = {}

/**
 * The first secret in a value, in the order in which it is written. With `keys: false` only `Redacted` values count;
 * with `data` keys below these places are data. A value with `data` must be a tree, such as a copy of JSON.
 */
export const findSecret = (
  value: unknown,
  options: { readonly keys?: boolean; readonly data?: ReadonlyArray<string> } = {}
): Secret | undefined => {
  if (typeof value !== "object" || value === null) return undefined
  const patterns = (options.data ?? []).map(base.parsePointer)
  const known = new Map<string, boolean>()
  const isSecret = (key: string) => {
    const secret = known.get(key) ?? isSecretName(key)
    known.set(key, secret)
    return secret
  }
  const isData = (step: Step | undefined) => patterns.some((pattern) => matches(pattern, pattern.length, step))
  const stack: Array<Visit> = [{ value, step: undefined, data: options.keys === false || isData(undefined) }]
  const seen = new WeakSet<object>()
  for (let visit = stack.pop(); visit !== undefined; visit = stack.pop()) {
    if (visit.value === secretMark) return makeSecret(visit.step, "key")
    if (patterns.length === 0) {
      if (seen.has(visit.value)) continue
      seen.add(visit.value)
    }
    if (Redacted.isRedacted(visit.value)) return makeSecret(visit.step, "redacted")
    stack.push(...membersOf(visit, isSecret, isData).reverse())
  }
  return undefined
}

const membersOf = (visit: Visit, isSecret: (key: string) => boolean, isData: (step: Step) => boolean): Array<Visit> => {
  const below: Array<Visit> = []
  const add = (key: string, member: unknown, named: boolean) => {
    const step = { parent: visit.step, key }
    if (named && !visit.data && isSecret(key)) below.push({ value: secretMark, step, data: true })
    if (typeof member !== "object" || member === null) return
    below.push({ value: member, step, data: visit.data || isData(step) })
  }
  const value = visit.value
  if (Array.isArray(value)) value.forEach((item, i) => add(String(i), item, false))
  else if (value instanceof Map) for (const [key, member] of value) add(String(key), member, typeof key === "string")
  else if (value instanceof Set) [...value].forEach((item, i) => add(String(i), item, false))
  else if (!ArrayBuffer.isView(value)) {
    for (const key of Object.keys(value)) {
      const descriptor = Object.getOwnPropertyDescriptor(value, key)
      if (descriptor !== undefined && "value" in descriptor) add(key, descriptor.value, true)
    }
  }
  return below
}

const makeSecret = (last: Step | undefined, kind: Secret["kind"]): Secret => {
  const path: Array<string> = []
  for (let step = last; step !== undefined; step = step.parent) path.push(step.key)
  return { path: base.formatPointer(path.reverse()), key: last?.key ?? "", kind }
}
