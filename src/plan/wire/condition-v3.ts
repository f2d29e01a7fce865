/**
 * Conditions as version 3 of the plan wire holds them.
 *
 * FROZEN: what this module reads and writes never changes again.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import type { When } from "../When.ts"

/**
 * A condition on the wire.
 *
 * @category models
 * @since 0.1.0
 */
export type Wire =
  | { readonly kind: "equals"; readonly path: ReadonlyArray<string | number>; readonly value: Schema.Json }
  | { readonly kind: "empty"; readonly path: ReadonlyArray<string | number> }
  | { readonly kind: "in"; readonly path: ReadonlyArray<string | number>; readonly values: ReadonlyArray<Schema.Json> }
  | {
      readonly kind: "greater_than" | "less_than"
      readonly path: ReadonlyArray<string | number>
      readonly value: number | string
    }
  | { readonly kind: "matches"; readonly path: ReadonlyArray<string | number>; readonly pattern: string }
  | { readonly kind: "text"; readonly value: string }
  | { readonly kind: "and" | "or"; readonly conditions: ReadonlyArray<Wire> }
  | { readonly kind: "not"; readonly condition: Wire }
  | { readonly kind: "custom"; readonly name: string }

const Path = Schema.Array(Schema.Union([Schema.String, Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))]))
const Comparable = Schema.Union([Schema.Finite, Schema.String])
const kind = <const Kind extends string>(name: Kind) => Schema.Literal(name)

/**
 * Schema of a condition on the wire.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Wire: Schema.Codec<Wire> = Schema.Union([
  Schema.Struct({ kind: kind("equals"), path: Path, value: Schema.Json }),
  Schema.Struct({ kind: kind("empty"), path: Path }),
  Schema.Struct({ kind: kind("in"), path: Path, values: Schema.Array(Schema.Json) }),
  Schema.Struct({ kind: kind("greater_than"), path: Path, value: Comparable }),
  Schema.Struct({ kind: kind("less_than"), path: Path, value: Comparable }),
  Schema.Struct({ kind: kind("matches"), path: Path, pattern: Schema.String }),
  Schema.Struct({ kind: kind("text"), value: Schema.String }),
  Schema.Struct({ kind: kind("and"), conditions: Schema.Array(Schema.suspend(() => Wire)) }),
  Schema.Struct({ kind: kind("or"), conditions: Schema.Array(Schema.suspend(() => Wire)) }),
  Schema.Struct({ kind: kind("not"), condition: Schema.suspend(() => Wire) }),
  Schema.Struct({ kind: kind("custom"), name: Schema.String })
])

/**
 * Reads a condition.
 *
 * @category reading
 * @since 0.1.0
 */
export const read = (wire: Wire): When => {
  switch (wire.kind) {
    case "equals":
      return { _tag: "Equals", path: wire.path, value: wire.value }
    case "empty":
      return { _tag: "Empty", path: wire.path }
    case "in":
      return { _tag: "In", path: wire.path, values: wire.values }
    case "greater_than":
      return { _tag: "GreaterThan", path: wire.path, value: wire.value }
    case "less_than":
      return { _tag: "LessThan", path: wire.path, value: wire.value }
    case "matches":
      return { _tag: "Matches", path: wire.path, pattern: wire.pattern }
    case "text":
      return { _tag: "Text", value: wire.value }
    case "and":
      return { _tag: "And", all: wire.conditions.map(read) }
    case "or":
      return { _tag: "Or", any: wire.conditions.map(read) }
    case "not":
      return { _tag: "Not", when: read(wire.condition) }
    case "custom":
      return { _tag: "Custom", name: wire.name }
  }
}

/**
 * Writes a condition.
 *
 * @category writing
 * @since 0.1.0
 */
export const write = (when: When): Wire => {
  switch (when._tag) {
    case "Equals":
      return { kind: "equals", path: when.path, value: when.value }
    case "Empty":
      return { kind: "empty", path: when.path }
    case "In":
      return { kind: "in", path: when.path, values: when.values }
    case "GreaterThan":
      return { kind: "greater_than", path: when.path, value: when.value }
    case "LessThan":
      return { kind: "less_than", path: when.path, value: when.value }
    case "Matches":
      return { kind: "matches", path: when.path, pattern: when.pattern }
    case "Text":
      return { kind: "text", value: when.value }
    case "And":
      return { kind: "and", conditions: when.all.map(write) }
    case "Or":
      return { kind: "or", conditions: when.any.map(write) }
    case "Not":
      return { kind: "not", condition: write(when.when) }
    case "Custom":
      return { kind: "custom", name: when.name }
  }
}

/**
 * The place on the wire of something in a condition.
 *
 * @category reading
 * @since 0.1.0
 */
export const place = (path: ReadonlyArray<string | number>): ReadonlyArray<string | number> =>
  path.map((token) => (token === "all" || token === "any" ? "conditions" : token === "when" ? "condition" : token))
