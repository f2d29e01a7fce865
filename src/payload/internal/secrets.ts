/**
 * The search for secrets in values that are about to be written, and the places in which keys are data.
 */

import * as Redacted from "effect/Redacted"
import * as base from "./base.ts"

const groups = [
  // API keys, also as the headers that carry them
  "apikey apikeys apisecret apitoken xapikey xgoogapikey subscriptionkey ocpapimsubscriptionkey",
  "openaiapikey anthropicapikey azureapikey geminiapikey googleapikey",
  // Authorization
  "auth authorization proxyauthorization basicauth authheader authkey authtoken bearer bearertoken",
  "accesstoken refreshtoken idtoken sessiontoken securitytoken xamzsecuritytoken personalaccesstoken githubtoken",
  "cookie cookies setcookie",
  // Secrets and passwords
  "secret secrets secretkey secretvalue clientsecret sharedsecret webhooksecret signingsecret jwtsecret",
  "password passwords passwd pwd passphrase passcode credential credentials",
  // Keys that open something
  "accesskey accesskeyid secretaccesskey awsaccesskeyid awssecretaccesskey awssessiontoken",
  "privatekey privatekeypem sshkey signingkey encryptionkey masterkey serviceaccountkey accountkey connectionstring"
]

export const secretNames: ReadonlySet<string> = new Set(groups.flatMap((names) => names.split(" ")))

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

/** A JSON Pointer in which the token `*` is any one token and `**` any number of them, or the rest of one. */
interface Pattern {
  readonly token: string | undefined
  readonly rest: Pattern | undefined
  /** True when it matches the place reached. */
  readonly ends: boolean
}

const endOfPattern: Pattern = { token: undefined, rest: undefined, ends: true }

const parsePattern = (pointer: string): Pattern =>
  base
    .parsePointer(pointer)
    .reduceRight<Pattern>((rest, token) => ({ token, rest, ends: token === "**" && rest.ends }), endOfPattern)

/** The patterns one token further down. */
const advance = (patterns: ReadonlyArray<Pattern>, key: string): ReadonlyArray<Pattern> => {
  const next: Array<Pattern> = []
  for (const pattern of patterns) {
    const { rest, token } = pattern
    if (rest === undefined) continue
    if (token === "**") next.push(pattern, ...advance([rest], key))
    else if (token === "*" || token === key) next.push(rest)
  }
  return next
}

const isMatched = (patterns: ReadonlyArray<Pattern>): boolean => patterns.some(({ ends }) => ends)

/** True when a pattern, such as `/tools/*\/success`, is the path of a place. */
export const matchesPattern = (pattern: string, path: string): boolean =>
  isMatched(base.parsePointer(path).reduce(advance, [parsePattern(pattern)]))

interface Visit {
  readonly value: object
  readonly at: base.Location | undefined
  readonly patterns: ReadonlyArray<Pattern>
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
  const patterns = (options.data ?? []).map(parsePattern)
  const known = new Map<string, boolean>()
  const isSecret = (key: string) => {
    const secret = known.get(key) ?? isSecretName(key)
    known.set(key, secret)
    return secret
  }
  const stack: Array<Visit> = [{ value, at: undefined, patterns, data: options.keys === false || isMatched(patterns) }]
  const seen = new WeakSet<object>()
  for (let visit = stack.pop(); visit !== undefined; visit = stack.pop()) {
    if (visit.value === secretMark) return makeSecret(visit, "key")
    if (patterns.length === 0) {
      if (seen.has(visit.value)) continue
      seen.add(visit.value)
    }
    if (Redacted.isRedacted(visit.value)) return makeSecret(visit, "redacted")
    stack.push(...membersOf(visit, isSecret).reverse())
  }
  return undefined
}

const membersOf = (visit: Visit, isSecret: (key: string) => boolean): Array<Visit> => {
  const below: Array<Visit> = []
  const add = (key: string, member: unknown, named: boolean) => {
    const isContainer = typeof member === "object" && member !== null
    const isMarked = named && !visit.data && isSecret(key)
    if (!isContainer && !isMarked) return
    const at = base.childLocation(visit.at, key)
    if (isMarked) below.push({ value: secretMark, at, patterns: [], data: true })
    if (!isContainer) return
    const patterns = visit.data ? [] : advance(visit.patterns, key)
    below.push({ value: member, at, patterns, data: visit.data || isMatched(patterns) })
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

const makeSecret = ({ at }: Visit, kind: Secret["kind"]): Secret => ({
  path: base.toPointer(at),
  key: String(at?.key ?? ""),
  kind
})
