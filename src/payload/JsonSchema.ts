/**
 * JSON Schemas that have been checked: validate values against them, and convert them from and to Effect's Schema. Documents that cannot be enforced in full are refused.
 *
 * @since 0.1.0
 */

export { codec, fromSchema, isStrict, toSchema, toStrict } from "./internal/convertSchema.ts"
export { accepts, JsonSchemaError, make, validate, type JsonSchema } from "./internal/interpret.ts"
