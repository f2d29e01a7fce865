import type * as Schema from "effect/Schema"
import type { Limits } from "../../Limits.ts"
import type { Location } from "./location.ts"
import { child } from "./location.ts"
import { describe, set } from "./values.ts"

/** Why a value is not plain JSON within limits. */
export type PlainProblem =
  | { readonly _tag: "NotJson"; readonly at: Location | undefined; readonly found: string }
  | { readonly _tag: "ForbiddenKey"; readonly at: Location | undefined; readonly key: string }
  | { readonly _tag: "TooDeep"; readonly at: Location | undefined; readonly limit: number }
  | {
      readonly _tag: "TooLarge"
      readonly at: Location | undefined
      readonly what: string
      readonly limit: number
      readonly found: number
    }

/** The deepest nesting this room works on, whatever the limits say: the interpreter is recursive. */
const deepest = 512

const isPlainObject = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null
}

/**
 * Copies a value that should be plain JSON, or says why it is not. The copy
 * shares nothing with the input and holds no forbidden key.
 */
export const plainCopy = (input: unknown, limits: Limits): { readonly value: Schema.Json } | PlainProblem => {
  const maxDepth = Math.min(limits.maxDepth, deepest)
  let nodes = 0
  let problem: PlainProblem | undefined
  const fail = (found: PlainProblem): null => {
    problem ??= found
    return null
  }
  const visit = (value: unknown, depth: number, at: Location | undefined): Schema.Json => {
    if (problem !== undefined) return null
    if (++nodes > limits.maxNodes)
      return fail({ _tag: "TooLarge", at, what: "number of values", limit: limits.maxNodes, found: nodes })
    if (value === null || typeof value === "boolean") return value
    if (typeof value === "number") {
      if (!Number.isFinite(value)) return fail({ _tag: "NotJson", at, found: describe(value) })
      return value === 0 ? 0 : value
    }
    if (typeof value === "string") {
      if (value.length <= limits.maxStringLength) return value
      return fail({
        _tag: "TooLarge",
        at,
        what: "length of a string",
        limit: limits.maxStringLength,
        found: value.length
      })
    }
    if (typeof value !== "object") return fail({ _tag: "NotJson", at, found: describe(value) })
    if (depth >= maxDepth) return fail({ _tag: "TooDeep", at, limit: maxDepth })
    if (Array.isArray(value)) {
      if (value.length > limits.maxArrayLength) {
        return fail({
          _tag: "TooLarge",
          at,
          what: "length of an array",
          limit: limits.maxArrayLength,
          found: value.length
        })
      }
      return Array.from(value, (item: unknown, index) => visit(item, depth + 1, child(at, index)))
    }
    if (!isPlainObject(value)) return fail({ _tag: "NotJson", at, found: "an instance of a class" })
    const out: Record<string, Schema.Json> = {}
    for (const key of Object.keys(value)) {
      const here = child(at, key)
      const member: unknown = Object.getOwnPropertyDescriptor(value, key)?.value
      if (key === "__proto__" || (key === "constructor" && holdsPrototype(member))) {
        return fail({ _tag: "ForbiddenKey", at: here, key })
      }
      if (key.length > limits.maxStringLength) {
        return fail({ _tag: "TooLarge", at, what: "length of a key", limit: limits.maxStringLength, found: key.length })
      }
      set(out, key, visit(member, depth + 1, here))
    }
    return out
  }
  const value = visit(input, 0, undefined)
  return problem ?? { value }
}

const holdsPrototype = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.hasOwn(value, "prototype")
