import { Schema } from "effect"

export type Json = null | boolean | number | string | ReadonlyArray<Json> | JsonObject

export interface JsonObject {
  readonly [key: string]: Json
}

export const list = <S extends Schema.Top>(item: S, maximum: number, minimum = 0) =>
  Schema.Array(item).check(Schema.isMinLength(minimum), Schema.isMaxLength(maximum))

/** Text that is not blank. */
export const Said = Schema.String.check(Schema.makeFilter((text) => text.trim() !== "", { expected: "text" }))

/** Keys that the library does not know. */
export const Extras = list(
  Schema.Struct({
    key: Schema.Literals(["annotations", "x_note", "index", "10"]),
    value: Schema.Union([
      Schema.Null,
      Schema.Int.check(Schema.makeFilter((n) => !Object.is(n, -0), { expected: "no negative zero" })),
      Schema.String,
      Schema.Struct({ b: Schema.Boolean, a: list(Schema.String, 2) })
    ])
  }),
  2
)

export const withExtras = (object: JsonObject, extras: typeof Extras.Type): JsonObject => ({
  ...object,
  ...Object.fromEntries(extras.map(({ key, value }) => [key, value]))
})

/** The same JSON with the keys of each object in another order. */
export const shuffled = <J extends Json>(json: J, order: number): J => {
  const inner = (value: Json): Json => {
    if (Array.isArray(value)) return value.map(inner)
    if (typeof value !== "object" || value === null) return value
    const entries = Object.entries(value).map(([key, value]) => [key, inner(value)] as const)
    const turn = entries.length === 0 ? 0 : order % entries.length
    return Object.fromEntries([...entries.slice(turn), ...entries.slice(0, turn)])
  }
  // Only the order of keys changed
  return inner(json) as J
}
