/**
 * Keys under which secrets are kept, and the search for secrets in data that is
 * about to be written.
 *
 * **Details**
 *
 * The list is fixed and published as {@link keys}. Keys are compared without
 * case and without separators: `apiKey`, `API_KEY` and `x-api-key` are all
 * found. A key is compared as a whole, never in part, because the words of
 * secrets are also the words of harmless options:
 *
 * - `max_tokens`, `max_output_tokens`, `input_tokens`, `token_count`: a token is
 *   a piece of text there, and so it is in a bare `token` or `tokens` (log
 *   probabilities list them);
 * - `prompt_cache_key`, `cache_key`, `idempotency_key`, `key`: such keys name
 *   something, they open nothing;
 * - `secret_name`, `password_env`: names of secrets are what definitions are
 *   supposed to hold.
 *
 * A key that is data, such as a tool's parameter called `password`, is not an
 * option: codecs list those places, see {@link Options}.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as pattern from "./internal/pattern.ts"
import { pointer } from "./internal/pointer.ts"

/**
 * The keys under which nothing may be written, without case and separators.
 *
 * @category models
 * @since 0.1.0
 */
export const keys: ReadonlySet<string> = new Set([
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
export interface Found {
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
export interface Options {
  readonly data?: ReadonlyArray<string> | undefined
}

const SEPARATORS = /[^\p{L}\p{N}]/gu

/** Putting a long run of these in order takes quadratic time; as separators they count for nothing anyway. */
const MARKS = /\p{M}+/gu

/**
 * Whether a key is on the published list.
 *
 * **Example** (Without case and separators, and as a whole)
 *
 * ```ts
 * import assert from "node:assert"
 * import { SecretKeys } from "effect-emissary"
 *
 * assert.ok(["api_key", "apiKey", "X-Api-Key", "Client Secret"].every(SecretKeys.isSecret))
 * assert.ok(!["max_tokens", "prompt_cache_key", "key", "token"].some(SecretKeys.isSecret))
 * ```
 *
 * @category guards
 * @since 0.1.0
 */
export const isSecret = (key: string): boolean =>
  keys.has(key.replace(MARKS, "").normalize("NFKC").replace(SEPARATORS, "").toLowerCase())

interface Step {
  readonly parent: Step | undefined
  readonly key: string
}

interface Visit {
  readonly value: object
  readonly step: Step | undefined
  readonly state: pattern.State
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
 * import { SecretKeys } from "effect-emissary"
 *
 * const found = SecretKeys.find({ modelOptions: { headers: { Authorization: "Bearer abc" } } })
 * assert.strictEqual(Option.getOrThrow(found).path, "/modelOptions/headers/Authorization")
 *
 * const redacted = SecretKeys.find([Redacted.make("abc")])
 * assert.strictEqual(Option.getOrThrow(redacted).kind, "redacted")
 *
 * const tool = { parameters: { properties: { password: { type: "string" } } } }
 * assert.ok(Option.isNone(SecretKeys.find({ tools: [tool] }, { data: ["/tools/*\/parameters"] })))
 * ```
 *
 * @category searching
 * @since 0.1.0
 */
export const find = (value: unknown, options?: Options): Option.Option<Found> => {
  if (typeof value !== "object" || value === null) return Option.none()
  const state = pattern.start(options?.data ?? none)
  const stack: Array<Visit> = [{ value, step: undefined, state, data: state.matches }]
  // An object is searched once for each way in which the patterns look at it.
  const seen = new Map<pattern.State | "data", WeakSet<object>>()
  const known = new Map<string, boolean>()
  for (;;) {
    const visit = stack.pop()
    if (visit === undefined) return Option.none()
    if (visit.value === SECRET) return Option.some(found(visit.step, "key"))
    const view = visit.data ? "data" : visit.state
    const visited = seen.get(view) ?? new WeakSet()
    seen.set(view, visited)
    if (visited.has(visit.value)) continue
    visited.add(visit.value)
    if (Redacted.isRedacted(visit.value)) return Option.some(found(visit.step, "redacted"))
    const below = membersOf(visit, known)
    for (let i = below.length - 1; i >= 0; i--) {
      const next = below[i]
      if (next !== undefined) stack.push(next)
    }
  }
}

const none: ReadonlyArray<string> = []

/** Stands on the stack for the value of a secret key, so that what comes first is reported first. */
const SECRET = {}

const membersOf = (visit: Visit, known: Map<string, boolean>): Array<Visit> => {
  const below: Array<Visit> = []
  const add = (key: string, member: unknown, named: boolean) => {
    if (named && !visit.data) {
      const secret = known.get(key) ?? isSecret(key)
      known.set(key, secret)
      if (secret) below.push({ value: SECRET, step: { parent: visit.step, key }, state: visit.state, data: true })
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

const found = (last: Step | undefined, kind: Found["kind"]): Found => {
  const path: Array<string> = []
  for (let step = last; step !== undefined; step = step.parent) path.push(step.key)
  return { path: pointer(path.reverse()), key: last?.key ?? "", kind }
}
