/** What checkpoints store, and its codecs. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as VersionedCodec from "../../../payload/VersionedCodec.ts"
import * as V1 from "../../wire/checkpoint-v1.ts"

const { kind: _head, version: _headVersion, ...headFields } = V1.Head.fields
const { kind: _begun, version: _begunVersion, ...begunFields } = V1.Begun.fields
const { kind: _batch, version: _batchVersion, ...batchFields } = V1.Batch.fields
const { kind: _write, version: _writeVersion, ...writeFields } = V1.Write.fields

const HeadType = Schema.Struct(headFields)
const BegunType = Schema.Struct(begunFields)
const BatchType = Schema.Struct(batchFields)
const WriteType = Schema.Struct(writeFields)

export type Head = typeof HeadType.Type
export type Begun = typeof BegunType.Type
export type Batch = typeof BatchType.Type
export type Write = typeof WriteType.Type
export type Segment = typeof V1.Segment.Type
export type Stamp = typeof V1.Stamp.Type
export type Pending = typeof V1.Pending.Type
export type Retired = Head["retired"][number]

export const Head = VersionedCodec.make<Head>({
  what: "checkpoint",
  field: "version",
  type: Schema.toType(HeadType),
  arms: [
    VersionedCodec.arm({
      version: 1,
      wire: V1.Head,
      toCurrent: ({ kind: _kind, version: _, ...head }) => Effect.succeed(head),
      fromCurrent: (head: Head) => VersionedCodec.lossless({ version: 1 as const, kind: "plan-run" as const, ...head })
    })
  ]
})

export const Begun = VersionedCodec.make<Begun>({
  what: "input of a checkpoint",
  field: "version",
  type: Schema.toType(BegunType),
  arms: [
    VersionedCodec.arm({
      version: 1,
      wire: V1.Begun,
      toCurrent: ({ kind: _kind, version: _, ...begun }) => Effect.succeed(begun),
      fromCurrent: (begun: Begun) =>
        VersionedCodec.lossless({ version: 1 as const, kind: "plan-input" as const, ...begun })
    })
  ],
  data: ["/input/payload"]
})

export const Batch = VersionedCodec.make<Batch>({
  what: "events of a checkpoint",
  field: "version",
  type: Schema.toType(BatchType),
  arms: [
    VersionedCodec.arm({
      version: 1,
      wire: V1.Batch,
      toCurrent: ({ kind: _kind, version: _, ...batch }) => Effect.succeed(batch),
      fromCurrent: (batch: Batch) =>
        VersionedCodec.lossless({ version: 1 as const, kind: "plan-events" as const, ...batch })
    })
  ],
  // The codec of events has looked for secrets, and knows where keys are data
  data: ["/events"]
})

export const Write = VersionedCodec.make<Write>({
  what: "value of a step",
  field: "version",
  type: Schema.toType(WriteType),
  arms: [
    VersionedCodec.arm({
      version: 1,
      wire: V1.Write,
      toCurrent: ({ kind: _kind, version: _, ...write }) => Effect.succeed(write),
      fromCurrent: (write: Write) =>
        VersionedCodec.lossless({ version: 1 as const, kind: "plan-write" as const, ...write })
    })
  ],
  data: ["/value"]
})
