/**
 * Keys that are names: of tools, steps, providers, registry entries.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { ForbiddenKey, PayloadError } from "./PayloadError.ts"
import { short } from "./internal/messages.ts"
import { pointer } from "./internal/pointer.ts"

/**
 * The names that every JavaScript object inherits.
 *
 * @category models
 * @since 0.1.0
 */
export const inherited: ReadonlySet<string> = new Set([
  "__defineGetter__",
  "__defineSetter__",
  "__lookupGetter__",
  "__lookupSetter__",
  "__proto__",
  "constructor",
  "hasOwnProperty",
  "isPrototypeOf",
  "propertyIsEnumerable",
  "toLocaleString",
  "toString",
  "valueOf"
])

/**
 * Refuses a name that every object inherits, such as `constructor`.
 *
 * **Details**
 *
 * `path` is the JSON Pointer of the place that holds the name.
 *
 * **Example** (Refusing a tool name)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Result } from "effect"
 * import { Names } from "effect-emissary"
 *
 * assert.ok(Result.isSuccess(Names.check("get_order", { what: "agent", path: "/tools/0/name" })))
 * assert.ok(Result.isFailure(Names.check("toString", { what: "agent", path: "/tools/1/name" })))
 * ```
 *
 * @category guards
 * @since 0.1.0
 */
export const check = (
  name: string,
  options: { readonly what: string; readonly path: string }
): Result.Result<string, PayloadError> =>
  inherited.has(name)
    ? Result.fail(new PayloadError({ what: options.what, reason: new ForbiddenKey({ path: options.path, key: name }) }))
    : Result.succeed(name)

/**
 * Refuses an object whose keys are names if one of them is inherited by every
 * object.
 *
 * **Details**
 *
 * `path` is the JSON Pointer of the object.
 *
 * **Example** (Refusing a provider name)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Result } from "effect"
 * import { Names } from "effect-emissary"
 *
 * const result = Names.checkKeys({ openai: {}, valueOf: {} }, { what: "registry", path: "/providers" })
 * assert.ok(Result.isFailure(result) && result.failure.reason._tag === "ForbiddenKey")
 * ```
 *
 * @category guards
 * @since 0.1.0
 */
export const checkKeys = <A extends object>(
  record: A,
  options: { readonly what: string; readonly path: string }
): Result.Result<A, PayloadError> => {
  for (const key of Object.keys(record)) {
    const result = check(key, { what: options.what, path: options.path + pointer([key]) })
    if (Result.isFailure(result)) return Result.fail(result.failure)
  }
  return Result.succeed(record)
}

/**
 * Reads an own member of a record, never an inherited one.
 *
 * **Example** (No inherited members)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Option } from "effect"
 * import { Names } from "effect-emissary"
 *
 * assert.deepStrictEqual(Names.get({ a: 1 }, "a"), Option.some(1))
 * assert.deepStrictEqual(Names.get({ a: 1 }, "toString"), Option.none())
 * ```
 *
 * @category getters
 * @since 0.1.0
 */
export const get = <A>(record: { readonly [name: string]: A }, name: string): Option.Option<A> => {
  if (!Object.hasOwn(record, name)) return Option.none()
  const value = record[name]
  return value === undefined ? Option.none() : Option.some(value)
}

/**
 * A name as messages show it: in quotes, on one line, and cut after 120 characters,
 * for whoever made it up may have made it of any length.
 *
 * **Example** (A name from outside)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Names } from "effect-emissary"
 *
 * assert.strictEqual(Names.quote("get\norder"), `"get\\norder"`)
 * assert.strictEqual(Names.quote("x".repeat(1000)).length, 123)
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const quote = (name: string): string => JSON.stringify(short(name))
