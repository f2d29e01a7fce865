/**
 * How versions 1 and 2 of the plan wire read targets, references and texts: with one
 * problem for every value that is wrong, and the path to it.
 *
 * FROZEN: what this module reads never changes again.
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import * as Json from "../../payload/Json.ts"
import type { Issue } from "../../payload/PayloadError.ts"
import type { DraftStep } from "../internal/codec/draft.ts"
import { kindOf, show } from "../internal/codec/show.ts"
import { identifierRule, isIdentifier } from "../internal/names/rules.ts"
import type { SchemaRef } from "../PlanDefinition.ts"
import type { Reference } from "../Reference.ts"

/**
 * Where a value stands: its JSON Pointer, and the same in words.
 *
 * @category models
 * @since 0.1.0
 */
export interface Place {
  readonly path: string
  readonly words: string
}

/**
 * Reads values of one document, and keeps what is wrong with them.
 *
 * @category models
 * @since 0.1.0
 */
export interface Reader {
  readonly issues: Array<Issue>
  readonly refuse: (path: string, expected: string, found: string) => void
}

/**
 * A reader that found nothing wrong yet.
 *
 * @category constructors
 * @since 0.1.0
 */
export const reader = (): Reader => {
  const issues: Array<Issue> = []
  return { issues, refuse: (path, expected, found) => void issues.push({ path, expected, found }) }
}

/**
 * An own member of an object. What every object inherits is none.
 *
 * @category getters
 * @since 0.1.0
 */
export const own = (object: Json.JsonObject, key: string): Schema.Json | undefined =>
  Object.hasOwn(object, key) ? object[key] : undefined

const fromPrev: Reference = { _tag: "FromPrev" }

const kinds = "from_prev, from_start, from_step, from_parallel, from_parallel_all, literal"

const readName = (read: Reader, ref: Json.JsonObject, kind: string, { path, words }: Place): string => {
  const name = own(ref, "name")
  if (typeof name === "string" && isIdentifier(name)) return name
  read.refuse(`${path}/name`, `the name of the step that the ${kind} of ${words} reads (${identifierRule})`, show(name))
  return ""
}

/**
 * A reference. Null is the step before.
 *
 * @category reading
 * @since 0.1.0
 */
export const readReference = (read: Reader, value: Schema.Json | undefined, place: Place): Reference => {
  if (value === undefined || value === null) return fromPrev
  const { path, words } = place
  if (!Json.isObject(value)) {
    read.refuse(path, `a reference such as {"kind":"from_prev"} as the ${words}`, kindOf(value))
    return fromPrev
  }
  const kind = own(value, "kind")
  switch (kind) {
    case "from_prev":
      return fromPrev
    case "from_start":
      return { _tag: "FromStart" }
    case "from_step":
      return { _tag: "FromStep", step: readName(read, value, kind, place) }
    case "from_parallel":
      return { _tag: "FromParallel", step: readName(read, value, kind, place) }
    case "from_parallel_all":
      return { _tag: "FromParallelAll", step: readName(read, value, kind, place) }
    case "literal": {
      const text = own(value, "value")
      if (typeof text === "string") return { _tag: "Literal", value: text }
      read.refuse(`${path}/value`, `the text of the literal of ${words}`, kindOf(text))
      return fromPrev
    }
    default:
      read.refuse(`${path}/kind`, `one of ${kinds} as the kind of the reference of ${words}`, show(kind))
      return fromPrev
  }
}

/**
 * One context or a list of them. An absent key is no context; null is the step before.
 *
 * @category reading
 * @since 0.1.0
 */
export const readContext = (
  read: Reader,
  value: Schema.Json | undefined,
  { path, words }: Place
): DraftStep["context"] => {
  if (value === undefined) return undefined
  if (!Array.isArray(value)) return readReference(read, value, { path, words })
  return value.map((item: Schema.Json, index) =>
    readReference(read, item, { path: `${path}/${index}`, words: `${words}, item ${index}` })
  )
}

/**
 * What a step runs.
 *
 * @category reading
 * @since 0.1.0
 */
export const readTarget = (
  read: Reader,
  value: Schema.Json | undefined,
  { path, words }: Place
): DraftStep["target"] => {
  const nothing: DraftStep["target"] = { kind: "tool", name: "" }
  if (value === undefined || !Json.isObject(value)) {
    read.refuse(path, `a target such as {"kind":"tool","name":"search"} as the ${words}`, kindOf(value))
    return nothing
  }
  const kind = own(value, "kind")
  const name = own(value, "name")
  if (typeof name !== "string") {
    read.refuse(`${path}/name`, `the name of the ${words}`, kindOf(name))
    return nothing
  }
  switch (kind) {
    case "tool":
    case "agent":
      return { kind, name }
    case "callable":
      return { kind: "function", name }
    default:
      return { kind: "any", name, wire: show(kind) }
  }
}

/**
 * A text, or none where there is null or nothing.
 *
 * @category reading
 * @since 0.1.0
 */
export const readText = (read: Reader, value: Schema.Json | undefined, { path, words }: Place): string | undefined => {
  if (value === undefined || value === null) return undefined
  if (typeof value === "string") return value
  read.refuse(path, `text or nothing as the ${words}`, kindOf(value))
  return undefined
}

/**
 * A schema by its name.
 *
 * @category reading
 * @since 0.1.0
 */
export const readType = (read: Reader, value: Schema.Json | undefined, place: Place): SchemaRef | undefined => {
  const name = readText(read, value, place)
  return name === undefined ? undefined : { name }
}

/**
 * Whether Python takes a value for true: empty texts, lists and objects are false, and
 * so are 0 and null.
 *
 * @category reading
 * @since 0.1.0
 */
export const isTruthy = (value: Schema.Json | undefined): boolean =>
  typeof value === "object" && value !== null ? Object.keys(value).length > 0 : Boolean(value)
