/**
 * JSON Schemas from outside, guarded once and interpreted without generated code.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { JsonObject } from "./Json.ts"
import type { JsonSchemaError } from "./JsonSchemaError.ts"
import type { Limits } from "./Limits.ts"
import type { ValidationIssue } from "./ValidationIssue.ts"

/**
 * @category type IDs
 * @since 0.1.0
 */
export const TypeId: TypeId = "~effect-emissary/payload/CheckedSchema"

/**
 * @category type IDs
 * @since 0.1.0
 */
export type TypeId = "~effect-emissary/payload/CheckedSchema"

/**
 * @category models
 * @since 0.1.0
 */
export type Dialect = "2020-12" | "draft-07"

/**
 * @category models
 * @since 0.1.0
 */
export interface CheckedSchema {
  readonly [TypeId]: TypeId
  readonly json: JsonObject
  readonly dialect: Dialect
}

/**
 * @category models
 * @since 0.1.0
 */
export interface MakeOptions {
  readonly what?: string | undefined
  readonly limits?: Partial<Limits> | undefined
}

/**
 * @category models
 * @since 0.1.0
 */
export interface ValidateOptions {
  readonly strict?: boolean | undefined
  readonly coerce?: boolean | undefined
  readonly maxIssues?: number | undefined
  readonly maxSteps?: number | undefined
}

/**
 * @category constructors
 * @since 0.1.0
 */
export const make = (_json: unknown, _options?: MakeOptions): Effect.Effect<CheckedSchema, JsonSchemaError> =>
  Effect.die("not yet")

/**
 * @category guards
 * @since 0.1.0
 */
export const isCheckedSchema = (u: unknown): u is CheckedSchema => typeof u === "object" && u !== null && TypeId in u

/**
 * @category validation
 * @since 0.1.0
 */
export const validate = (
  _self: CheckedSchema,
  _value: unknown,
  _options?: ValidateOptions
): Result.Result<Schema.Json, ReadonlyArray<ValidationIssue>> => Result.fail([])

/**
 * @category validation
 * @since 0.1.0
 */
export const accepts = (_self: CheckedSchema, _value: unknown): boolean => false

/**
 * @category converting
 * @since 0.1.0
 */
export const toSchema = (_self: CheckedSchema): Schema.Codec<unknown> => Schema.Unknown

/**
 * @category converting
 * @since 0.1.0
 */
export const codec = (_self: CheckedSchema, _options?: ValidateOptions): Schema.Codec<Schema.Json> => Schema.Json
