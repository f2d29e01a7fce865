/**
 * Small helpers that every room uses: kinds of values, own members, and objects without undefined members.
 */

import type * as Schema from "effect/Schema"

/** A JSON object. */
export interface JsonObject {
  readonly [key: string]: Schema.Json
}

/** An array or an object that is not an array; `null` is neither. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** `Array.isArray` does not narrow readonly arrays out of a union; this does. */
export const isArray = (value: unknown): value is ReadonlyArray<Schema.Json> => Array.isArray(value)

/** The kind of a value in words of JSON, for error messages. */
export const kindOf = (value: unknown): string => {
  if (value === null) return "null"
  if (value === undefined) return "nothing"
  if (typeof value === "number") return Number.isFinite(value) ? "number" : "a number that is not finite"
  if (typeof value === "object") return Array.isArray(value) ? "array" : "object"
  return typeof value
}

/** An own member of an object, never an inherited one: keys come from outside. */
export const own = <A>(object: { readonly [key: string]: A }, key: string): A | undefined =>
  Object.hasOwn(object, key) ? object[key] : undefined

type Flatten<A> = { [K in keyof A]: A[K] }

type OptionalKeys<A> = { [K in keyof A]: undefined extends A[K] ? K : never }[keyof A]

/** The members of `A`; those that may be `undefined` become optional keys. */
export type Defined<A> = Flatten<
  { readonly [K in Exclude<keyof A, OptionalKeys<A>>]: A[K] } & {
    readonly [K in OptionalKeys<A>]?: Exclude<A[K], undefined>
  }
>

/**
 * The object without its undefined members, in the same order: `{ a, ...defined({ b }) }` holds `b` only if it has a value.
 */
export const defined = <A extends object>(members: A): Defined<A> => {
  const found: Partial<A> = {}
  for (const key in members) if (members[key] !== undefined) found[key] = members[key]
  // Sound: exactly the members that are not undefined are left.
  return found as Defined<A>
}
