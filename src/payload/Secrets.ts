/**
 * Finds secrets in data that is about to be written: keys such as `apiKey`, and `Redacted` values.
 *
 * @since 0.1.0
 */

import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as paths from "./internal/paths.ts"

/**
 * The keys under which nothing may be written, without case and separators.
 *
 * @category models
 * @since 0.1.0
 */
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

/**
 * A secret that was found. The value is not part of it.
 *
 * **Details**
 *
 * `path` is a JSON Pointer, `key` its last token, and `kind` says whether the
 * key gave the secret away or the value is `Redacted`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Secret {
  readonly path: string
  readonly key: string
  readonly kind: "key" | "redacted"
}

/**
 * Options of {@link find}.
 *
 * **Details**
 *
 * `data` lists places below which keys are data and not options, as JSON
 * Pointers, where the token `*` is any one token and `**` any number of them.
 * With `["/tools/*\/parameters"]` a tool may have a parameter called
 * `password`. `Redacted` values are found there all the same. A list is read once and
 * remembered: give another list rather than changing one.
 *
 * @category models
 * @since 0.1.0
 */
export interface FindOptions {
  readonly data?: ReadonlyArray<string> | undefined
}

const separators = /[^\p{L}\p{N}]/gu

/** Putting a long run of these in order takes quadratic time; as separators they count for nothing anyway. */
const combiningMarks = /\p{M}+/gu

/**
 * Whether a key is on the published list.
 *
 * **Example** (Without case and separators, and as a whole)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Secrets } from "effect-emissary/payload"
 *
 * assert.ok(["api_key", "apiKey", "X-Api-Key", "Client Secret"].every(Secrets.isSecretName))
 * assert.ok(!["max_tokens", "prompt_cache_key", "key", "token"].some(Secrets.isSecretName))
 * ```
 *
 * @category guards
 * @since 0.1.0
 */
export const isSecretName = (key: string): boolean =>
  secretNames.has(key.replace(combiningMarks, "").normalize("NFKC").replace(separators, "").toLowerCase())

interface Step {
  readonly parent: Step | undefined
  readonly key: string
}

interface Visit {
  readonly value: object
  readonly step: Step | undefined
  readonly state: paths.PatternState
  /** Whether the keys of this value are data. */
  readonly data: boolean
}

/**
 * The first secret in a value, in the order in which it is written.
 *
 * **Details**
 *
 * Looks at every member of arrays, objects, class instances, maps and sets, at
 * any depth. Getters are not called.
 *
 * **Example** (A key, and a Redacted value)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Option, Redacted } from "effect"
 * import { Secrets } from "effect-emissary/payload"
 *
 * const found = Secrets.find({ modelOptions: { headers: { Authorization: "Bearer abc" } } })
 * assert.strictEqual(Option.getOrThrow(found).path, "/modelOptions/headers/Authorization")
 *
 * const redacted = Secrets.find([Redacted.make("abc")])
 * assert.strictEqual(Option.getOrThrow(redacted).kind, "redacted")
 *
 * const tool = { parameters: { properties: { password: { type: "string" } } } }
 * assert.ok(Option.isNone(Secrets.find({ tools: [tool] }, { data: ["/tools/*\/parameters"] })))
 * ```
 *
 * @category searching
 * @since 0.1.0
 */
export const find = (value: unknown, options?: FindOptions): Option.Option<Secret> => {
  if (typeof value !== "object" || value === null) return Option.none()
  const state = paths.startPatterns(options?.data ?? noPatterns)
  const stack: Array<Visit> = [{ value, step: undefined, state, data: state.matches }]
  // An object is searched once for each way in which the patterns look at it.
  const seen = new Map<paths.PatternState | "data", WeakSet<object>>()
  const known = new Map<string, boolean>()
  for (;;) {
    const visit = stack.pop()
    if (visit === undefined) return Option.none()
    if (visit.value === secretMark) return Option.some(makeSecret(visit.step, "key"))
    const view = visit.data ? "data" : visit.state
    const visited = seen.get(view) ?? new WeakSet()
    seen.set(view, visited)
    if (visited.has(visit.value)) continue
    visited.add(visit.value)
    if (Redacted.isRedacted(visit.value)) return Option.some(makeSecret(visit.step, "redacted"))
    const below = membersOf(visit, known)
    for (let i = below.length - 1; i >= 0; i--) {
      const next = below[i]
      if (next !== undefined) stack.push(next)
    }
  }
}

const noPatterns: ReadonlyArray<string> = []

/** Stands on the stack for the value of a secret key, so that what comes first is reported first. */
const secretMark = {}

const membersOf = (visit: Visit, known: Map<string, boolean>): Array<Visit> => {
  const below: Array<Visit> = []
  const add = (key: string, member: unknown, named: boolean) => {
    if (named && !visit.data) {
      const secret = known.get(key) ?? isSecretName(key)
      known.set(key, secret)
      if (secret) below.push({ value: secretMark, step: { parent: visit.step, key }, state: visit.state, data: true })
    }
    if (typeof member !== "object" || member === null) return
    const state = visit.data ? visit.state : visit.state.next(key)
    const data = visit.data || state.matches
    below.push({ value: member, step: { parent: visit.step, key }, state, data })
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
  return { path: paths.formatPointer(path.reverse()), key: last?.key ?? "", kind }
}
