/** The copier of values of unknown origin, and the search for secrets in them. */

import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as PayloadError from "../PayloadError.ts"
import * as base from "./base.ts"
import { type Limits, type Measure, type Options, runWithLimits, tooLarge, tooMany } from "./limits.ts"
import {
  formatPointer,
  isForbiddenKey,
  isObject,
  isPlainObject,
  type JsonObject,
  keysOf,
  kindOf,
  type Location,
  parsePointer,
  toPointer
} from "./values.ts"
import { isSparse } from "./weigh.ts"

type JsonContainer = Array<Schema.Json> | Record<string, Schema.Json>

interface CopyFrame {
  readonly around: CopyFrame | undefined
  readonly depth: number
  readonly source: object
  /** The keys of an object. */
  readonly keys: ReadonlyArray<string> | undefined
  readonly size: number
  readonly target: JsonContainer
  /** The index of the next member. */
  next: number
}

/** The key or index of the member that was read last. */
const keyOf = ({ keys, next }: CopyFrame): string | number => keys?.[next - 1] ?? next - 1

/**
 * Copies a value of unknown origin into fresh plain JSON, reading every member
 * once through its descriptor: getters are never called, and what a Proxy
 * answers later does not matter.
 */
export const copyJson = (root: unknown, limits: Limits): Result.Result<Schema.Json, PayloadError.Reason> =>
  runCopier(new JsonCopier(limits, undefined), root)

/** Copies a value that is about to be written, and refuses secret keys in it; below the places in `data` keys are data. */
export const copyRefusingSecrets = (
  root: unknown,
  limits: Limits,
  data: ReadonlyArray<string>,
  names: ReadonlySet<string>
): Result.Result<Schema.Json, PayloadError.Reason> => {
  const copier = new JsonCopier(limits, names)
  return Result.flatMap(runCopier(copier, root), (json) => {
    const secret = copier.hasSecretName ? findSecret(json, { data, names }) : undefined
    return secret === undefined ? Result.succeed(json) : Result.fail(secret)
  })
}

const runCopier = (copier: JsonCopier, root: unknown): Result.Result<Schema.Json, PayloadError.Reason> =>
  Result.flatMap(
    Result.try({
      try: () => copier.run(root),
      // Only a trap of a Proxy can throw here.
      catch: () =>
        PayloadError.invalid([{ path: copier.path(), expected: "plain JSON", found: "an object that cannot be read" }])
    }),
    identity
  )

class JsonCopier {
  readonly limits: Limits
  /** The innermost container that is being copied. */
  top: CopyFrame | undefined = undefined
  /** The containers around the current one, kept once one is inside of another. */
  ancestors: Set<object> | undefined = undefined
  readonly issues: Array<PayloadError.Problem> = []
  omitted = 0
  paths = 0
  nodes = 0
  size = 0
  failure: PayloadError.Reason | undefined = undefined
  /** True when a key on the list of secrets was met; looked for only where that matters. */
  hasSecretName = false
  readonly secretNames: ReadonlySet<string> | undefined

  constructor(limits: Limits, secretNames: ReadonlySet<string> | undefined) {
    this.limits = limits
    this.secretNames = secretNames
  }

  path(): string {
    const keys: Array<string | number> = []
    for (let frame = this.top; frame !== undefined; frame = frame.around) keys.push(keyOf(frame))
    return formatPointer(keys.reverse())
  }

  run(root: unknown): Result.Result<Schema.Json, PayloadError.Reason> {
    const result = this.visit(root)
    while (this.top !== undefined && this.failure === undefined) this.fill(this.top)
    if (this.failure !== undefined) return Result.fail(this.failure)
    if (this.issues.length > 0) return Result.fail(PayloadError.invalid(this.issues, this.omitted))
    return Result.succeed(result)
  }

  /** Copies the members of the innermost container, up to the first member that is a container itself. */
  fill(frame: CopyFrame): void {
    const { keys, size, source, target } = frame
    while (frame.next < size) {
      const key = keys === undefined ? frame.next : (keys[frame.next] ?? "")
      frame.next += 1
      const descriptor = Object.getOwnPropertyDescriptor(source, key)
      if (descriptor === undefined) {
        this.issue("a JSON value in every place of an array", "a hole")
        this.nodes += 1
        if (this.nodes > this.limits.maxNodes) this.tooLarge("nodes", this.limits.maxNodes, this.nodes, "")
        if (this.failure !== undefined) return
      } else if (!("value" in descriptor)) this.issue("a plain member", "a getter or setter")
      else if (descriptor.enumerable !== true) this.issue("an enumerable member", "a hidden member")
      else {
        const value: unknown = descriptor.value
        if (isForbiddenKey(key, value)) {
          this.failure = { _tag: "ForbiddenKey", path: this.path(), key: String(key) }
          return
        }
        const copied = this.visit(value)
        if (Array.isArray(target)) target.push(copied)
        else target[key] = copied
        if (this.top !== frame || this.failure !== undefined) return
      }
    }
    this.top = frame.around
    this.ancestors?.delete(source)
  }

  /** Answers the copy of a scalar, or an empty copy of a container that is filled later. */
  visit(value: unknown): Schema.Json {
    this.nodes += 1
    if (this.nodes > this.limits.maxNodes) return this.tooLarge("nodes", this.limits.maxNodes, this.nodes, "")
    this.grow(1)
    switch (typeof value) {
      case "string":
        if (value.length > this.limits.maxStringLength) {
          return this.tooLarge("string", this.limits.maxStringLength, value.length, this.path())
        }
        this.grow(value.length)
        return value
      case "boolean":
        return value
      case "number":
        if (!Number.isFinite(value)) this.issue("a finite number", kindOf(value))
        // Adding 0 turns -0 into 0, the one zero that JSON has.
        return value + 0
      case "object":
        return value === null ? null : this.open(value)
      case "undefined":
        this.issue("a JSON value (leave the key out instead)", "undefined")
        return null
      default:
        this.issue("a JSON value", typeof value)
        return null
    }
  }

  open(source: object): Schema.Json {
    const { top } = this
    if (this.ancestors?.has(source) === true) {
      this.issue("a tree", "a cycle: an object that contains itself")
      return null
    }
    const array = Array.isArray(source)
    if (!isPlainObject(source, array)) {
      if (Redacted.isRedacted(source)) {
        const key = top === undefined ? "" : String(keyOf(top))
        this.failure = { _tag: "Secret", path: this.path(), key, kind: "redacted" }
      } else this.issue(array ? "a plain array" : "a plain object", "an instance of a class")
      return null
    }
    const depth = top === undefined ? 1 : top.depth + 1
    if (depth > this.limits.maxDepth) {
      this.failure = { _tag: "TooDeep", limit: this.limits.maxDepth, path: this.path() }
      return null
    }
    const names = array && source.length > this.limits.maxArrayLength ? [] : Object.getOwnPropertyNames(source)
    const size = array ? source.length : names.length
    if (size > (array ? this.limits.maxArrayLength : this.limits.maxKeys)) {
      this.failure = tooMany(array, this.limits, size, this.path())
      return null
    }
    // An array has its items and its length; a hole is found when its place is read
    const hasSymbols = Object.getOwnPropertySymbols(source).length > 0
    if (array && (hasSymbols || names.length > source.length + 1))
      this.issue("items only", "an array with other members")
    if (!array) this.addKeys(names, hasSymbols)
    const target: JsonContainer = array ? [] : {}
    if (top !== undefined) {
      this.ancestors ??= new Set([top.source])
      this.ancestors.add(source)
    }
    this.top = { around: top, depth, source, keys: array ? undefined : names, size, target, next: 0 }
    return target
  }

  addKeys(keys: ReadonlyArray<string>, hasSymbols: boolean): void {
    if (hasSymbols) this.issue("keys that are strings", "a symbol")
    const max = this.limits.maxStringLength
    for (const key of keys) {
      if (key.length > max) this.tooLarge("string", max, key.length, this.path())
      this.grow(key.length)
      this.hasSecretName ||= this.secretNames !== undefined && isSecretName(key, this.secretNames)
    }
  }

  /** Counts what the JSON text takes at least. */
  grow(bytes: number): void {
    this.size += bytes
    if (this.size > this.limits.maxBytes) this.tooLarge("bytes", this.limits.maxBytes, this.size, "")
  }

  tooLarge(what: Measure, limit: number, found: number, path: string): null {
    this.failure ??= tooLarge(what, limit, found, path)
    return null
  }

  issue(expected: string, found: string): void {
    if (this.issues.length >= this.limits.maxIssues || this.paths > base.maxPaths) {
      this.omitted += 1
      return
    }
    const path = this.path()
    this.paths += path.length
    this.issues.push({ path, expected, found })
  }
}

const groups = [
  // API keys, also as the headers that carry them
  "apikey apikeys *apikey xgoogapikey subscriptionkey ocpapimsubscriptionkey",
  // Authorization
  "auth authorization proxyauthorization basicauth authheader authkey bearer token *token jwt *jwt pat githubpat gitlabpat",
  "cookie cookies setcookie sessioncookie authcookie",
  // Secrets and passwords
  "secret secrets *secret secretvalue password passwords *password passwd *passwd pwd passphrase passcode",
  "pin pincode otp totp hotp",
  "credential credentials *credentials",
  // Keys that open something, and addresses that hold a password
  "*secretkey *accesskey accesskey accesskeyid *accesskeyid *privatekey privatekey privatekeypem secretkey sshkey",
  "signingkey encryptionkey masterkey serviceaccountkey accountkey",
  "connectionstring *connectionstring dsn *dsn databaseurl *databaseurl",
  "webhookurl *webhookurl sasurl *sasurl",
  // Several
  "*apikeys *secrets *passwords *secretkeys *accesskeys *privatekeys *accesstokens *refreshtokens *apitokens *authtokens",
  "accesstokens refreshtokens apitokens authtokens bearertokens",
  // Tokens of text and of pages
  "!maxtoken !mintoken !starttoken !stoptoken !endtoken !bostoken !eostoken !padtoken !unktoken !septoken !masktoken",
  "!prompttoken !inputtoken !outputtoken !completiontoken !*firsttoken !nexttoken !*specialtoken !*pertoken",
  "!pagetoken !*pagetoken !*paginationtoken !paginationtoken !continuationtoken !synctoken !cancellationtoken",
  // A company
  "!auth0"
]

/**
 * The keys under which nothing but `true`, `false` and `null` may be written, without case, separators, and digits at the end.
 * `*token` names every key that ends in `token` and has something before it, and `!maxtoken`, `!*pagetoken` or `!auth0` is
 * an exception from an end or from the digits.
 *
 * @category models
 * @since 0.1.0
 */
export const secretNames: ReadonlySet<string> = new Set(groups.flatMap((names) => names.split(" ")))

/**
 * The list of secret keys of the current program, `Json.secretNames` unless another one is provided.
 *
 * **Example** (More secret keys)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Option } from "effect"
 * import { Agent } from "effect-emissary"
 * import { Json } from "effect-emissary/payload"
 *
 * const names = new Set([...Json.secretNames, "ssn", "*pin"])
 * assert.ok(Option.isSome(Json.findSecret({ card_pin: "1234" }, { names })))
 *
 * const teller = Agent.make("teller", { model: "bank/teller", modelOptions: { card_pin: "1234" } })
 * const program = Effect.provideService(Agent.encode(teller), Json.SecretNames, names)
 * const error = await Effect.runPromise(Effect.flip(program))
 * assert.ok(error._tag === "PayloadError" && error.reason._tag === "Secret")
 * ```
 *
 * @category references
 * @since 0.1.0
 */
export const SecretNames: Context.Reference<ReadonlySet<string>> = Context.Reference<ReadonlySet<string>>(
  "effect-emissary/payload/SecretNames",
  { defaultValue: () => secretNames }
)

const separators = /[^\p{L}\p{N}]/gu

/** Putting a long run of these in order takes quadratic time; as separators they count for nothing anyway. */
const combiningMarks = /\p{M}+/gu

/** It begins at the first digit only, so that a long run of digits takes linear time. */
const lastDigits = /(?<!\d)\d+$/

/** The ends in a list of names, and keys met lately: the same few keys come again and again. */
interface SecretRules {
  readonly ends: ReadonlyArray<string>
  readonly exceptions: ReadonlyArray<string>
  readonly known: Map<string, boolean>
}

const rulesOfNames = new WeakMap<ReadonlySet<string>, SecretRules>()

const rulesOf = (names: ReadonlySet<string>): SecretRules => {
  const found = rulesOfNames.get(names)
  if (found !== undefined) return found
  const endsAfter = (mark: string) =>
    Array.from(names).flatMap((name) => (name.startsWith(mark) ? [name.slice(mark.length)] : []))
  const rules = { ends: endsAfter("*"), exceptions: endsAfter("!*"), known: new Map<string, boolean>() }
  rulesOfNames.set(names, rules)
  return rules
}

const maxKnownKeys = 1000

/** The greatest length of a key in the cache. */
const maxKnownLength = 64

export const isSecretName = (key: string, names: ReadonlySet<string> = secretNames): boolean => {
  const { ends, exceptions, known } = rulesOf(names)
  const before = known.get(key)
  if (before !== undefined) return before
  const name = key.replace(combiningMarks, "").normalize("NFKC").replace(separators, "").toLowerCase()
  const isListed = (name: string) => {
    const hasEnd = (end: string) => name.length > end.length && name.endsWith(end)
    return names.has(name) || (ends.some(hasEnd) && !names.has(`!${name}`) && !exceptions.some(hasEnd))
  }
  const secret = isListed(name) || (!names.has(`!${name}`) && isListed(name.replace(lastDigits, "")))
  if (known.size >= maxKnownKeys) known.clear()
  if (key.length <= maxKnownLength) known.set(key, secret)
  return secret
}

/** A secret that was found. The value is not part of it. */
export type Secret = Extract<PayloadError.Reason, { readonly _tag: "Secret" }>

interface Pending {
  readonly value: unknown
  readonly at: Location | undefined
  /** True when the key is on the list of secrets. */
  readonly secret: boolean
}

/**
 * The first secret in a value, in the order in which it is written. With `keys: false` only `Redacted` values count, which
 * a Schema could unwrap; below the places in `data` keys are data.
 */
export const findSecret = (
  root: unknown,
  options: {
    readonly keys?: boolean
    readonly data?: ReadonlyArray<string>
    readonly names?: ReadonlySet<string> | undefined
  } = {}
): Secret | undefined => {
  const { data = [], keys = true, names } = options
  const stack: Array<Pending> = [{ value: root, at: undefined, secret: false }]
  const seen = new Set<object>()
  for (let place = stack.pop(); place !== undefined; place = stack.pop()) {
    const { at, secret, value } = place
    if (secret && !data.some((pattern) => isBelow(pattern, at))) return makeSecret(at, "key")
    if (typeof value !== "object" || value === null || seen.has(value)) continue
    seen.add(value)
    if (Redacted.isRedacted(value)) return makeSecret(at, "redacted")
    const members: Array<Pending> = []
    forEachMember(value, (key, member, named) => {
      const isFlag = member === null || typeof member === "boolean"
      const marked = keys && named && !isFlag && isSecretName(key, names)
      if (marked || (typeof member === "object" && member !== null)) {
        members.push({ value: member, at: { parent: at, key }, secret: marked })
      }
    })
    for (let member = members.pop(); member !== undefined; member = members.pop()) stack.push(member)
  }
  return undefined
}

/** Visits the members of arrays, objects, class instances, maps and sets; getters are not called. */
const forEachMember = (value: object, f: (key: string, member: unknown, named: boolean) => void): void => {
  if (Array.isArray(value))
    (isSparse(value) ? Object.values(value) : value).forEach((item, i) => f(String(i), item, false))
  else if (value instanceof Map) for (const [key, member] of value) f(String(key), member, typeof key === "string")
  else if (value instanceof Set) [...value].forEach((item, i) => f(String(i), item, false))
  else if (!ArrayBuffer.isView(value)) {
    for (const key of Object.keys(value)) {
      const descriptor = Object.getOwnPropertyDescriptor(value, key)
      if (descriptor !== undefined && "value" in descriptor) f(key, descriptor.value, true)
    }
  }
}

const makeSecret = (at: Location | undefined, kind: Secret["kind"]): Secret => {
  const key = String(at?.key ?? "")
  return { _tag: "Secret", path: toPointer(at), key, kind }
}

/** True when a pattern, such as `/tools/*\/success`, is the path of a place: `*` is any one token, `**` any number of them. */
export const matchesPattern = (pattern: string, path: string): boolean =>
  matchesTokens(parsePointer(pattern), parsePointer(path), false)

/** True for a place whose parent, or a place above it, matches the pattern. */
const isBelow = (pattern: string, at: Location | undefined): boolean =>
  matchesTokens(parsePointer(pattern), keysOf(at?.parent), true)

const matchesTokens = (
  [token, ...rest]: ReadonlyArray<string>,
  path: ReadonlyArray<string | number>,
  orBelow: boolean
): boolean => {
  if (token === undefined) return orBelow || path.length === 0
  if (token === "**") return [...path, ""].some((_, i) => matchesTokens(rest, path.slice(i), orBelow))
  return path.length > 0 && (token === "*" || token === path[0]) && matchesTokens(rest, path.slice(1), orBelow)
}

/**
 * Checks that a value is plain JSON within the limits, and copies it.
 *
 * **When to use**
 *
 * For values that arrive parsed, and for values of one's own before they are
 * written.
 *
 * **Details**
 *
 * Refused with the path of each place: `undefined`, functions, symbols,
 * bigints, numbers that are not finite, class instances (`Date`, `Map` ...),
 * getters, holes in arrays, cycles, and objects that a Proxy makes unreadable.
 * The outcome is a fresh copy, which no other code can change after the check.
 * `maxBytes` is compared with the least that the text would take.
 *
 * **Example** (Everything that is wrong, with its path)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * const error = Effect.runSync(Effect.flip(Json.check({ at: new Date(0), sizes: [1, Number.NaN] })))
 * assert.ok(error.reason._tag === "Invalid")
 * assert.deepStrictEqual(error.reason.issues.map((issue) => issue.path), ["/at", "/sizes/1"])
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const check = (input: unknown, options?: Options): Effect.Effect<Schema.Json, PayloadError.PayloadError> =>
  runWithLimits(options, (limits) => copyJson(input, limits))

/** Like {@link check}, for values that have to be objects. */
export const checkObject = (input: unknown, options?: Options): Effect.Effect<JsonObject, PayloadError.PayloadError> =>
  runWithLimits(options, (limits) =>
    Result.flatMap(copyJson(input, limits), (json) =>
      isObject(json)
        ? Result.succeed(json)
        : Result.fail(PayloadError.invalid([{ path: "", expected: "object", found: kindOf(json) }]))
    )
  )
