/** The titles and metadata of sessions before they are stored: refuses secrets, what is not JSON, and what is too long. */

import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import { checkKeys } from "../../payload/internal/limits.ts"
import { defined } from "../../payload/internal/values.ts"
import * as runParts from "../../run/internal/runParts.ts"
import type { Details, Reason } from "./types.ts"

/** Each event of a session writes them again, with the head of its journal. */
const longestTitle = 200

const longestMetadata = 4_000

const Checked = Schema.Struct({
  title: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(longestTitle))),
  metadata: Schema.optionalKey(runParts.Context)
})

/** Details that can be stored. */
export type Checked = typeof Checked.Type

const what = "details of a session"

const codec = VersionedCodec.single({ what, value: Checked })

/** True where nothing is to be changed. */
export const isEmpty = ({ metadata, title }: Checked): boolean => metadata === undefined && title === undefined

const invalid = ({ message }: PayloadError.PayloadError): Reason => ({ _tag: "ArgumentInvalid", problem: message })

/** The details among some options. Fails with `ArgumentInvalid`. */
export const check = Effect.fnUntraced(function* ({ metadata, title }: Details) {
  const details: Checked = defined({ metadata, title })
  if (isEmpty(details)) return details
  const encoded = Effect.catchTag(codec.encode(details), "LossyEncoding", Effect.die)
  const checked = checkKeys(metadata, { what, path: "/metadata" })
  yield* Effect.mapError(Effect.andThen(checked, encoded), invalid)
  const length = metadata === undefined ? 0 : JSON.stringify(metadata).length
  if (length <= longestMetadata) return details
  const expected = `at most ${longestMetadata} characters as JSON`
  const reason = PayloadError.invalid([{ path: "/metadata", expected, found: `${length}` }])
  return yield* Effect.fail(invalid(new PayloadError.PayloadError({ what, reason })))
})
