/** References of raw steps. */
import { isObject, type JsonObject } from "../../../payload/Json.ts"
import * as Names from "../../../payload/Names.ts"
import type { PlanProblem } from "../../PlanProblem.ts"
import { byCodePoint } from "../names/order.ts"
import * as Similarity from "../names/similarity.ts"
import { didYouMean, list } from "../names/words.ts"

const own = (object: JsonObject, key: string): unknown => (Object.hasOwn(object, key) ? object[key] : undefined)

// what is looked at may be any value, and only its own members are
const asObject = (value: unknown): JsonObject | undefined =>
  isObject(value as never) ? (value as JsonObject) : undefined

const asList = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/** Kinds whose name is that of a step. */
const stepKinds: ReadonlySet<unknown> = new Set(["from_step", "from_parallel", "from_parallel_all"])

interface Found {
  readonly slot: string
  readonly name: string
  readonly kind?: string
}

const reference = (slot: string, value: unknown): ReadonlyArray<Found> => {
  const ref = asObject(value)
  if (ref === undefined) return []
  const kind = own(ref, "kind")
  if (typeof kind !== "string" || !stepKinds.has(kind)) return []
  const name = own(ref, "name")
  return [{ slot, kind, name: typeof name === "string" ? name : "" }]
}

const context = (value: unknown): ReadonlyArray<Found> =>
  Array.isArray(value)
    ? value.flatMap((item: unknown, index) => reference(`context[${index}]`, item))
    : reference("context", value)

const named = (slot: string, value: unknown): ReadonlyArray<Found> =>
  typeof value === "string" ? [{ slot, name: value }] : []

/** A route of version 3 is an object with the name in `to`. */
const route = (value: unknown): ReadonlyArray<Found> => {
  const object = asObject(value)
  return named("routes", object === undefined ? value : own(object, "to"))
}

const nameOf = (step: unknown): string => {
  const object = asObject(step)
  const name = object === undefined ? undefined : own(object, "name")
  return typeof name === "string" ? name : ""
}

export const validate = (steps: unknown): ReadonlyArray<PlanProblem> => {
  const all = asList(steps)
  const known = new Set(all.map(nameOf))
  const names = [...known].sort(byCodePoint)
  const listed = list(names)
  const budget = Similarity.budget(1_000_000)
  return all.flatMap((value, index): ReadonlyArray<PlanProblem> => {
    const step = asObject(value)
    if (step === undefined) return []
    const found = [
      ...reference("task", own(step, "task")),
      ...context(own(step, "context")),
      ...asList(own(step, "routes")).flatMap(route),
      ...named("after_branches", own(step, "after_branches"))
    ]
    const label = nameOf(step) || "<unnamed>"
    return found
      .filter(({ name }) => !known.has(name))
      .map(({ kind, name, slot }) => {
        const suggestion = Similarity.closest(name, names, budget)
        const what = kind === undefined ? "the name of a step" : `a ${kind} of a step`
        return {
          code: "UnknownStep",
          step: label,
          index,
          slot,
          reason: `Step ${Names.quote(label)}, ${slot}: expected ${what} of this plan, found the unknown ${Names.quote(name)}; known are ${listed}.${didYouMean(suggestion)}`,
          known: names,
          ...(suggestion === undefined ? {} : { suggestion })
        }
      })
  })
}
