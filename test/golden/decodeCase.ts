import { Schema } from "effect"
import type { Json } from "./golden.ts"

/** Reads the parts of a case that an adapter needs, by a Schema of `{ given, expect }`. */
export const decodeCase =
  <A, I>(schema: Schema.Codec<A, I>) =>
  (given: Json, expect: Json) =>
    Schema.decodeUnknownEffect(schema)({ given, expect })
