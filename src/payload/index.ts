/**
 * Untrusted JSON in, typed values out; typed values in, versioned JSON out.
 *
 * @since 0.1.0
 */
export * as Digest from "./Digest.ts"
export * as Json from "./Json.ts"
export * as JsonSchema from "./JsonSchema.ts"
export * as Limits from "./Limits.ts"
export * as PayloadError from "./PayloadError.ts"
export * as Signed from "./Signed.ts"
export * as VersionedCodec from "./VersionedCodec.ts"
