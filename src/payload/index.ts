/**
 * Untrusted JSON in, typed values out; typed values in, versioned JSON out.
 *
 * @since 0.1.0
 */
export * as CanonicalJson from "./CanonicalJson.ts"
export * as CheckedSchema from "./CheckedSchema.ts"
export * as Decode from "./Decode.ts"
export * as Digest from "./Digest.ts"
export * as FromSchema from "./FromSchema.ts"
export * as Json from "./Json.ts"
export * as JsonSchemaError from "./JsonSchemaError.ts"
export * as Limits from "./Limits.ts"
export * as LinearPattern from "./LinearPattern.ts"
export * as LossyEncoding from "./LossyEncoding.ts"
export * as ModelJson from "./ModelJson.ts"
export * as Names from "./Names.ts"
export * as PayloadError from "./PayloadError.ts"
export * as SecretKeys from "./SecretKeys.ts"
export * as StrictSchema from "./StrictSchema.ts"
export * as ValidationIssue from "./ValidationIssue.ts"
export * as VersionedCodec from "./VersionedCodec.ts"
