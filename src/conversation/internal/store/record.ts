import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as VersionedCodec from "../../../payload/VersionedCodec.ts"
import * as V1 from "./record-v1.ts"

/**
 * What is stored under the key of a conversation: its newest messages, and where the
 * older ones are.
 */
export const Record = Schema.Struct({
  /** Names the segments; no two lives of a conversation have the same. */
  generation: Schema.String,
  /** Messages in each segment. */
  segmentSize: Schema.Int,
  /** How many segments stand in front of the messages here. */
  segments: Schema.Int,
  /** The calls of the segments that a later message may answer, in call order. */
  open: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      name: Schema.String,
      providerExecuted: Schema.optionalKey(Schema.Literal(true))
    })
  ),
  /** Segments that belong to nothing any more and may not be deleted yet. */
  retired: Schema.Array(Schema.Struct({ generation: Schema.String, segments: Schema.Int })),
  /** The wire form, with the newest messages only; absent while the conversation is being deleted. */
  conversation: Schema.optionalKey(Schema.Json)
})

export type Record = typeof Record.Type

const v1 = VersionedCodec.arm({
  version: 1,
  wire: V1.Record,
  toCurrent: ({ version: _, ...record }) => Effect.succeed(record),
  fromCurrent: (record: Record) => VersionedCodec.lossless({ version: 1 as const, ...record })
})

export const codec = VersionedCodec.make<Record>({
  what: "stored conversation",
  field: "version",
  type: Record,
  arms: [v1],
  // The codec of conversations has looked for secrets, and knows where keys are data
  data: ["/conversation"]
})
