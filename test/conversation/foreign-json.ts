import { Schema } from "effect"

export type Json = null | boolean | number | string | ReadonlyArray<Json> | JsonObject

interface JsonObject {
  readonly [key: string]: Json
}

/** Reports what the rules of a provider forbid. */
export type Say = (what: string) => void

export const isObject = (value: unknown): value is { readonly [key: string]: Schema.Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const list = <S extends Schema.Top>(item: S, maximum: number, minimum = 0) =>
  Schema.Array(item).check(Schema.isMinLength(minimum), Schema.isMaxLength(maximum))

/** Text that is not blank. */
export const Said = Schema.String.check(Schema.makeFilter((text) => text.trim() !== "", { expected: "text" }))

/** The number of places by which the keys of each object are rotated. */
export const Order = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5 }))

const Extra = Schema.Union([
  Schema.Null,
  Schema.Int.check(Schema.makeFilter((n) => !Object.is(n, -0), { expected: "no negative zero" })),
  Schema.String,
  Schema.Struct({ b: Schema.Boolean, a: list(Schema.String, 2) })
])

/** Keys that the library does not know. */
export const extras = {
  annotations: Schema.optionalKey(Extra),
  x_note: Schema.optionalKey(Extra),
  index: Schema.optionalKey(Extra),
  "10": Schema.optionalKey(Extra)
}

/** The same JSON with the keys of each object in another order. */
export const shuffled = (json: Json, order: number): Json => {
  if (Array.isArray(json)) return json.map((item: Json) => shuffled(item, order))
  if (typeof json !== "object" || json === null) return json
  const entries = Object.entries(json).map(([key, value]) => [key, shuffled(value, order)] as const)
  const turn = entries.length === 0 ? 0 : order % entries.length
  return Object.fromEntries([...entries.slice(turn), ...entries.slice(0, turn)])
}
