import type { Schema } from "effect"
import { random as choices } from "../../random.ts"

type Json = Schema.Json

interface Part {
  readonly [keyword: string]: Json
}

const plainNames = { keys: ["a", "b", "c", "ab"], patterns: ["^a", "b"] }

/** Random schemas and values from a seed, small enough to agree now and then. */
export const random = (seed: number, names = plainNames) => {
  const { below, next, pick, times } = choices(seed)
  const key = () => pick(names.keys)
  const scalar = (): Json => pick([null, true, false, 0, 1, 2, 1.5, -1, "", "a", "ab", "abc", "😀"])

  const value = (depth: number): Json => {
    const kind = depth === 0 ? 0 : below(4)
    if (kind < 2) return scalar()
    if (kind === 2) return times(below(4), () => value(depth - 1))
    return Object.fromEntries(times(below(4), () => [key(), value(depth - 1)]))
  }

  const types = ["null", "boolean", "integer", "number", "string", "array", "object"]

  const keyword = (depth: number): Part => {
    const sub = () => schema(depth - 1)
    const subs = () => times(1 + below(3), sub)
    const shallow: ReadonlyArray<() => Part> = [
      () => ({ type: pick(types) }),
      () => ({ type: [...new Set(times(2, () => pick(types)))] }),
      () => ({ enum: times(1 + below(4), () => value(1)) }),
      () => ({ const: value(1) }),
      () => ({ minimum: below(3) - 1 }),
      () => ({ exclusiveMaximum: below(3) }),
      () => ({ multipleOf: pick([0.5, 1, 2]) }),
      () => ({ minLength: below(3) }),
      () => ({ maxLength: below(3) }),
      () => ({ pattern: pick(["^a", "b$", "^[ab]*$", ".", "a|b"]) }),
      () => ({ minItems: below(3) }),
      () => ({ maxItems: below(3) }),
      () => ({ uniqueItems: true }),
      () => ({ required: [...new Set(times(1 + below(2), key))] }),
      () => ({ minProperties: below(3) }),
      () => ({ maxProperties: below(3) }),
      () => ({ dependentRequired: { [key()]: [key()] } })
    ]
    if (depth === 0 || next() < 0.4) return pick(shallow)()
    return pick<() => Part>([
      () => ({ properties: Object.fromEntries(times(1 + below(3), () => [key(), sub()])) }),
      () => ({ patternProperties: { [pick(names.patterns)]: sub() } }),
      () => ({ additionalProperties: sub() }),
      () => ({ propertyNames: sub() }),
      () => ({ dependentSchemas: { [key()]: sub() } }),
      () => ({ prefixItems: subs() }),
      () => ({ items: sub() }),
      () => ({ contains: sub(), ...(next() < 0.5 ? { minContains: below(3) } : undefined) }),
      () => ({ contains: sub(), maxContains: 1 + below(2) }),
      () => ({ anyOf: subs() }),
      () => ({ oneOf: subs() }),
      () => ({ allOf: subs() }),
      () => ({ not: sub() }),
      () => ({ if: sub(), then: sub(), else: sub() }),
      () => ({ properties: { [key()]: { $ref: "#/$defs/d" } } }),
      () => ({ items: { $ref: "#/$defs/d" } })
    ])()
  }

  const object = (depth: number): Part => Object.assign({}, ...times(1 + below(3), () => keyword(depth)))

  const schema = (depth: number): Json => (next() < 0.08 ? next() < 0.6 : object(depth))

  return {
    value: () => value(3),
    document: (): Part => ({ ...object(3), $defs: { d: schema(1) } })
  }
}
