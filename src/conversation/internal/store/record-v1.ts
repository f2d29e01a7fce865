/** Version 1 of what is stored under the key of a conversation. Frozen: it never changes again. */
import * as Schema from "effect/Schema"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

export const Record = Schema.Struct({
  version: Schema.Literal(1),
  generation: Schema.String,
  segmentSize: Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)),
  segments: Count,
  open: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      name: Schema.String,
      providerExecuted: Schema.optionalKey(Schema.Literal(true))
    })
  ),
  retired: Schema.Array(Schema.Struct({ generation: Schema.String, segments: Count })),
  conversation: Schema.optionalKey(Schema.Json)
})
