/**
 * Version 1 of the plan wire: version 2 before LazyBridge wrote the names of schemas.
 *
 * FROZEN: what this module reads and writes never changes again.
 *
 * `output` and `input` are never written. A document that has them all the same is read
 * as its writer meant it, for LazyBridge reads them in every version.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type { Draft } from "../internal/codec/draft.ts"
import { lossesOf } from "../internal/codec/losses.ts"
import * as V2 from "./v2.ts"

const anything = Schema.optionalKey(Schema.Json)

/**
 * Everything but the version is read by hand, as in version 2.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Wire = Schema.Struct({
  version: Schema.Literal(1),
  max_iterations: anything,
  steps: anything
})

/**
 * The arm of version 1.
 *
 * @category arms
 * @since 0.1.0
 */
export const arm = VersionedCodec.arm({
  version: 1,
  wire: Wire,
  onExcessProperty: "ignore",
  toCurrent: V2.read,
  fromCurrent: (draft: Draft) =>
    Effect.flatMap(V2.write(draft, false), (rest) =>
      VersionedCodec.lossy<typeof Wire.Type>({ version: 1, ...rest }, lossesOf(draft, 1))
    )
})
