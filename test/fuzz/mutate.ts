/** Inputs made from seeds: JSON that is changed in a few places, as a value or as text. */
import type { Random } from "../random.ts"

/** The text that is planted where a user or a model could write a secret. No error may hold it. */
export const secret = "sk-live-PLANTED-9f8e7d"

/** Counts of one input: secrets that were planted, and planted getters that were called. */
export const counts = { planted: 0, getters: 0 }

const plant = (): string => {
  counts.planted++
  return secret
}

/** A place in a value. */
interface Slot {
  readonly parent: Record<string, unknown>
  readonly key: string
}

const isContainer = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null

/** A key becomes an own member, `__proto__` too. */
const put = (parent: Record<string, unknown>, key: string, value: unknown) => {
  if (key !== "__proto__") parent[key] = value
  else Object.defineProperty(parent, key, { value, enumerable: true, configurable: true, writable: true })
}

/** A copy that may be changed anywhere. */
const clone = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(clone)
  if (!isContainer(value)) return value
  const copy = {}
  for (const key of Object.keys(value)) put(copy, key, clone(value[key]))
  return copy
}

/** A place at any depth: each level may be the last one. */
const slotIn = (root: Record<string, unknown>, { chance, pick }: Random): Slot | undefined => {
  let parent = root
  for (;;) {
    const keys = Object.keys(parent)
    if (keys.length === 0) return undefined
    const key = pick(keys)
    const child = parent[key]
    if (!isContainer(child) || Object.keys(child).length === 0 || chance(0.2)) return { parent, key }
    parent = child
  }
}

const forbidden = ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "valueOf", "then", "toJSON"]

const numbers = [0, -0, -1, 1, 0.1, 1e21, 1e308, -1e308, 5e-324, 2 ** 31, 2 ** 32 - 1, 2 ** 53 - 1, 2 ** 53, 1e8, 1.5]

const texts = [
  "",
  " ",
  "\0",
  "\uD800",
  "a\uDC00b",
  "é",
  "e\u0301",
  "\u202Etxt",
  "__proto__",
  "1e999",
  "2026-01-01T00:00:00.000Z",
  "9999999-01-01T00:00:00Z",
  "sha256:" + "0".repeat(64),
  "../../etc/passwd",
  "#/$defs/a",
  "^(a+)+$",
  "${secret}",
  "[object Object]",
  "fromStep:",
  "openai/gpt"
]

const deep = (levels: number, isArray: boolean): unknown => {
  let value: unknown = 0
  for (let i = 0; i < levels; i++) value = isArray ? [value] : { a: value }
  return value
}

/** A value of another type, that JSON can hold. */
const anyJson = (random: Random): unknown => {
  const { below, pick, times } = random
  switch (below(12)) {
    case 0:
      return null
    case 1:
      return pick([true, false])
    case 2:
    case 3:
      return pick(numbers)
    case 4:
    case 5:
      return pick(texts)
    case 6:
      return []
    case 7:
      return {}
    case 8:
      return plant()
    case 9:
      return times(below(4), () => pick([...numbers, ...texts, null]))
    case 10:
      return { [pick(["a", "id", "type", "_tag", "value"])]: pick([...numbers, ...texts]) }
    default:
      return pick(texts).repeat(below(200))
  }
}

class Instance {
  readonly name = "x"
  get version(): number {
    counts.getters++
    return 1
  }
}

const throwing = (): never => {
  throw new Error("a trap was called")
}

/** A value that is no JSON at all. */
const anyValue = ({ pick }: Random): unknown =>
  pick<() => unknown>([
    () => undefined,
    () => NaN,
    () => Infinity,
    () => 10n,
    () => Symbol("s"),
    () => () => 1,
    () => new Date(0),
    () => new Date(NaN),
    () => new Map([["a", 1]]),
    () => new Set([1]),
    () => new Instance(),
    () => Object.create({ version: 1, name: "inherited" }),
    () => Object.create(null),
    () => Object.assign([1, 2], { extra: 1 }),
    () => Array(3),
    () => new Uint8Array(4),
    () => new String("text"),
    () => new Error(plant()),
    () => /a/,
    () => new Proxy({}, { get: throwing, ownKeys: throwing, getOwnPropertyDescriptor: throwing, has: throwing }),
    () => new Proxy([], { get: throwing }),
    () => new Proxy({}, { getPrototypeOf: throwing }),
    () => new Proxy({ a: 1 }, {}),
    () => {
      const { proxy, revoke } = Proxy.revocable({}, {})
      revoke()
      return proxy
    },
    () =>
      Object.defineProperty({}, "a", {
        enumerable: true,
        get: () => {
          counts.getters++
          return 1
        }
      }),
    () => Object.defineProperty({}, "then", { enumerable: true, get: throwing }),
    () => Object.defineProperty([], 0, { enumerable: true, get: throwing }),
    () => ({ [Symbol.toPrimitive]: throwing, toString: throwing }),
    () => ({ toJSON: () => ({ changed: true }) })
  ])()

/** Changes one place of JSON. `others` are the seeds that parts are taken from. */
const changeJson = (root: Record<string, unknown>, others: ReadonlyArray<unknown>, random: Random): void => {
  const { below, chance, pick } = random
  const slot = slotIn(root, random)
  if (slot === undefined) return put(root, pick(["version", "a"]), anyJson(random))
  const { key, parent } = slot
  const value = parent[key]
  switch (below(12)) {
    case 0:
      if (Array.isArray(parent)) parent.splice(Number(key), 1)
      else delete parent[key]
      return
    case 1: {
      // A part of another seed, or of this one
      const other = chance(0.5) ? root : pick(others)
      const from = isContainer(other) ? slotIn(other, random) : undefined
      return put(parent, key, clone(from?.parent[from.key] ?? null))
    }
    case 2:
      if (Array.isArray(parent)) {
        for (let i = pick([1, 1, 2, 40]); i > 0; i--) parent.push(clone(value))
        return
      }
      return put(parent, pick([`${key}x`, key.toUpperCase(), "", "a/b~c", ...forbidden]), clone(value))
    case 3: {
      const key = pick(forbidden)
      const target = isContainer(value) && !Array.isArray(value) ? value : parent
      if (Array.isArray(target)) return
      return put(target, key, key === "constructor" && chance(0.7) ? { prototype: { polluted: 1 } } : { polluted: 1 })
    }
    case 4:
      if (typeof value === "number") return put(parent, key, value + pick([1, -1, 0.5, 1e9]))
      if (typeof value === "string") return put(parent, key, chance(0.5) ? value + pick(texts) : value.slice(1))
      return put(parent, key, anyJson(random))
    case 5: {
      // Two members change places
      const second = pick(Object.keys(parent))
      const kept = parent[second]
      put(parent, second, value)
      return put(parent, key, kept)
    }
    case 6:
      return put(parent, key, chance(0.1) ? deep(600, chance(0.5)) : [clone(value)])
    case 7:
      return put(parent, key, typeof value === "string" ? plant() : anyJson(random))
    case 8: {
      const version = ["version", "schema_version", "protocol"].find((name) => Object.hasOwn(root, name))
      return put(root, version ?? "version", pick([0, 1, 2, 3, 4, 99, -1, 1.5, "1", "2", null, [2]]))
    }
    case 9:
      if (isContainer(value) && !Array.isArray(value))
        return put(value, pick(["x", "type", "password"]), anyJson(random))
      return put(parent, key, pick(numbers))
    default:
      return put(parent, key, anyJson(random))
  }
}

/** Changes one place to something that is no JSON. */
const changeValue = (root: Record<string, unknown>, random: Random): void => {
  const slot = slotIn(root, random)
  if (slot === undefined) return
  // Sound for the test: a cycle
  put(slot.parent, slot.key, random.chance(0.1) ? root : anyValue(random))
}

const changeText = (text: string, { below, chance, pick }: Random): string => {
  const at = below(text.length + 1)
  switch (below(9)) {
    case 0:
      return text.slice(0, at)
    case 1:
      return `\uFEFF${text}`
    case 2:
      return (
        text.slice(0, at) + pick(["{", "}", "[", "]", ",", ":", '"', "\\", "\0", " ", "1e999", "null"]) + text.slice(at)
      )
    case 3:
      return text.slice(0, at) + text.slice(at + 1)
    case 4: {
      // The first key of an object twice
      const open = text.indexOf("{", at)
      const end = open < 0 ? -1 : text.indexOf(",", open)
      return end < 0 ? text : `${text.slice(0, end)},${text.slice(open + 1, end)}${text.slice(end)}`
    }
    case 5:
      return text.replace(/"([a-z])/, (_, letter: string) => `"\\u00${letter.charCodeAt(0).toString(16)}`)
    case 6:
      return text + pick([text, " ", "\n", "//", ",", "x"])
    case 7:
      return text.replace(/\d+/, pick(["1e999", "-0", "01", "1.", "0.1e-400", "9".repeat(400), "1_0", "0x1"]))
    default:
      return chance(0.5) ? text.toUpperCase() : ` ${text} `
  }
}

const changeBytes = (bytes: Uint8Array, { below, pick }: Random): Uint8Array => {
  const changed = Uint8Array.from(bytes)
  const at = below(bytes.length)
  if (bytes.length > 0) changed[at] = pick([0xff, 0xc0, 0xed, 0x80, 0, (bytes[at] ?? 0) ^ (1 << below(8))])
  return changed
}

/**
 * The members whose values messages may repeat: names, and what a JSON Schema expects. Keys are names everywhere, and
 * so is each id.
 */
const names = new Set(
  "version schema_version protocol role type model name kind _tag op to from step target owner generation input output writes agent predicate after_branches afterBranches rejoin routes routes_by routesBy $schema $ref required enum const default pattern format".split(
    " "
  )
)

/** True if the planted secret is where messages may repeat a name. */
export const isName = (value: unknown, key = "", seen = new Set<unknown>()): boolean => {
  if (typeof value === "string") return (names.has(key) || /id$/i.test(key)) && value.includes(secret)
  if (!isContainer(value) || seen.has(value)) return false
  seen.add(value)
  return Object.keys(value).some(
    (member) => member.includes(secret) || isName(value[member], Array.isArray(value) ? key : member, seen)
  )
}

/** One input. `isJson`: its value is made of what JSON can hold. */
export type Input =
  | { readonly _tag: "Value"; readonly value: unknown; readonly isJson: boolean }
  | { readonly _tag: "Text"; readonly text: string | Uint8Array }

/** Makes an input of a seed: half of them are values, the others text and bytes. */
export const mutate = (seed: unknown, others: ReadonlyArray<unknown>, random: Random): Input => {
  const { chance, pick } = random
  const root: Record<string, unknown> = { seed: clone(seed) }
  for (let i = pick([0, 1, 1, 1, 1, 2, 2, 4]); i > 0; i--) {
    const value = root["seed"]
    if (!isContainer(value) || chance(0.02)) root["seed"] = anyJson(random)
    else changeJson(value, others, random)
  }
  if (chance(0.5)) {
    const value = root["seed"]
    const isJson = chance(0.6)
    if (!isJson && isContainer(value)) changeValue(value, random)
    return { _tag: "Value", value, isJson }
  }
  let text = JSON.stringify(root["seed"], undefined, pick([0, 0, 2])) ?? ""
  if (chance(0.4)) text = changeText(text, random)
  if (chance(0.5)) return { _tag: "Text", text }
  const bytes = new TextEncoder().encode(text)
  return { _tag: "Text", text: chance(0.3) ? changeBytes(bytes, random) : bytes }
}
