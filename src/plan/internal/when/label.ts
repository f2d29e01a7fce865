/** Conditions as one line of text. */
import type * as Schema from "effect/Schema"
import { isArray } from "../json.ts"
import { short } from "../short.ts"
import type { Path, When } from "../../When.ts"

const maxValue = 40
const maxLabel = 160
/** No more conditions than that fit into a label. */
const maxShown = 64

interface Left {
  conditions: number
}

const plainKey = /^[\p{L}_][\p{L}\p{N}_-]*$/u

const place = (path: Path): string => {
  let out = ""
  for (const token of path) {
    if (typeof token === "number") out += `[${token}]`
    else if (!plainKey.test(token)) out += `[${JSON.stringify(short(token, maxValue))}]`
    else out += out === "" ? short(token, maxValue) : `.${short(token, maxValue)}`
  }
  return path.length === 0 ? "payload" : out.startsWith("[") ? `payload${out}` : out
}

const scalar = (value: string | number | boolean | null): string =>
  typeof value === "string" ? JSON.stringify(short(value, maxValue)) : String(value)

/** A value in a few characters; what is inside of arrays and objects is told only if it is short. */
const literal = (value: Schema.Json): string =>
  typeof value === "object" && value !== null ? short(shallow(value), maxValue) : scalar(value)

const shallow = (value: Schema.JsonArray | Schema.JsonObject): string => {
  const inner = (item: Schema.Json | undefined) => {
    if (typeof item !== "object" || item === null) return scalar(item ?? null)
    return Array.isArray(item) ? "[…]" : "{…}"
  }
  if (isArray(value)) return `[${value.slice(0, maxValue).map(inner).join(", ")}]`
  const keys = Object.keys(value).slice(0, maxValue)
  return `{${keys.map((key) => `${JSON.stringify(short(key, maxValue))}: ${inner(value[key])}`).join(", ")}}`
}

const list = (values: ReadonlyArray<Schema.Json>): string => shallow(values)

const not = (when: When, left: Left): string => {
  switch (when._tag) {
    case "Equals":
      return `${place(when.path)} ≠ ${literal(when.value)}`
    case "Empty":
      return `${place(when.path)} is not empty`
    case "In":
      return `${place(when.path)} not in ${list(when.values)}`
    case "Matches":
      return `${place(when.path)} does not match ${literal(when.pattern)}`
    case "Text":
      return `text ≠ ${literal(when.value)}`
    default:
      return `not ${inner(when, left)}`
  }
}

const inner = (when: When, left: Left): string => {
  const text = write(when, left)
  const many = (when._tag === "And" && when.all.length > 1) || (when._tag === "Or" && when.any.length > 1)
  return many ? `(${text})` : text
}

const join = (whens: ReadonlyArray<When>, word: string, none: string, left: Left): string => {
  const [only, second] = whens
  if (only === undefined) return none
  if (second === undefined) return write(only, left)
  return whens
    .slice(0, maxShown)
    .map((when) => inner(when, left))
    .join(` ${word} `)
}

const write = (when: When, left: Left): string => {
  left.conditions -= 1
  if (left.conditions < 0) return "…"
  switch (when._tag) {
    case "Equals":
      return `${place(when.path)} = ${literal(when.value)}`
    case "Empty":
      return `${place(when.path)} is empty`
    case "In":
      return `${place(when.path)} in ${list(when.values)}`
    case "GreaterThan":
      return `${place(when.path)} > ${literal(when.value)}`
    case "LessThan":
      return `${place(when.path)} < ${literal(when.value)}`
    case "Matches":
      return `${place(when.path)} matches ${literal(when.pattern)}`
    case "Text":
      return `text = ${literal(when.value)}`
    case "And":
      return join(when.all, "and", "always", left)
    case "Or":
      return join(when.any, "or", "never", left)
    case "Not":
      return not(when.when, left)
    case "Custom":
      return `${plainKey.test(when.name) ? short(when.name, maxValue) : JSON.stringify(short(when.name, maxValue))}()`
  }
}

/** A condition in one line of at most 160 characters or so. */
export const label = (when: When): string => short(write(when, { conditions: maxShown }), maxLabel)
