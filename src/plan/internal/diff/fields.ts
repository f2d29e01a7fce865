/** The fields of definitions, and which of them differ. */
import type * as Schema from "effect/Schema"
import type { FieldChange } from "../../PlanDiff.ts"
import { equals } from "../json.ts"

/** The fields of a definition. All of them are plain JSON. */
export type Fields = Readonly<Record<string, Schema.Json>>

// Definitions hold no code and no instances: their types and their JSON are the same.
export const fieldsOf = (definition: object): Fields => definition as Fields

/** The fields that differ, in order, without those that are compared elsewhere. */
export const compareFields = (
  before: Fields,
  after: Fields,
  without: ReadonlySet<string>
): ReadonlyArray<FieldChange> => {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names]
    .filter((name) => !without.has(name))
    .sort()
    .flatMap((field): ReadonlyArray<FieldChange> => {
      const old = Object.hasOwn(before, field) ? before[field] : undefined
      const now = Object.hasOwn(after, field) ? after[field] : undefined
      if (old === undefined && now === undefined) return []
      if (old === undefined) return now === undefined ? [] : [{ field, after: now }]
      if (now === undefined) return [{ field, before: old }]
      return equals(old, now) ? [] : [{ field, before: old, after: now }]
    })
}
