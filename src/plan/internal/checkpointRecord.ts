/**
 * The records of a checkpointed run and the keys that they are stored under.
 */

import * as Chunk from "effect/Chunk"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as runParts from "../../agent/internal/runParts.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type { PlanDefinition } from "../PlanDefinition.ts"
import * as PlanRun from "../PlanRun.ts"
import * as planFlow from "./planFlow.ts"

/** The segment of the events that this owner writes. */
export const segmentOf = ({ epoch, owner, segments }: Head): Segment => {
  const last = segments.at(-1)
  return last?.epoch === epoch && last.owner === owner ? last : { epoch, owner, batches: 0 }
}

export const withLease = (head: Head, lease: DateTime.Utc): Head => ({ ...head, lease })

/**
 * Which writes a state has that the one before has not, each with its record, in the order
 * in which steps finished, which in a band is the declared one. Looks at new records alone.
 */
export const writesBetween = (
  definition: PlanDefinition,
  before: PlanRun.State | undefined,
  state: PlanRun.State
): ReadonlyArray<{ readonly write: string; readonly step: string; readonly record: number }> => {
  if (state.writes === before?.writes) return []
  const first = before === undefined ? 0 : Chunk.size(before.history)
  return Array.from({ length: Chunk.size(state.history) - first }, (_, index) => first + index).flatMap((record) => {
    const step = Option.match(Chunk.get(state.history, record), { onNone: () => "", onSome: ({ step }) => step })
    const write = planFlow.findStep(definition, step)?.writes
    const isNewest = write !== undefined && Option.contains(HashMap.get(state.writes, write), record)
    return isNewest ? [{ write, step, record }] : []
  })
}

export interface Keys {
  readonly heads: string
  readonly head: (key: string) => string
  /** Everything of one run but its head. */
  readonly journal: (key: string) => string
  readonly begun: (key: string, generation: string) => string
  readonly batch: (key: string, generation: string, epoch: number, owner: string, batch: number) => string
  /** The writes of a fork. */
  readonly forked: (fork: string) => string
  /** `fork` is the key of the fork that has the write for itself. */
  readonly write: (write: string, fork: string | undefined) => string
}

const escapeKey = (namespace: string): string => namespace.replaceAll("%", "%25").replaceAll("/", "%2F")

const measureKey = (text: string): string => `${text.length}:${text}`

export const makeKeys = (namespace: string): Keys => {
  const root = escapeKey(namespace)
  const journal = (key: string) => `${root}/journal/${measureKey(key)}/`
  const forked = (fork: string) => `${root}/forks/${measureKey(fork)}/`
  return {
    heads: `${root}/head/`,
    head: (key) => `${root}/head/${key}`,
    journal,
    begun: (key, generation) => `${journal(key)}${generation}/input`,
    batch: (key, generation, epoch, owner, batch) => `${journal(key)}${generation}/${epoch}-${owner}/${batch}`,
    forked,
    write: (write, fork) => (fork === undefined ? `${root}/writes/${write}` : `${forked(fork)}${write}`)
  }
}

const nonceLetters = "0123456789abcdefghijklmnopqrstuvwxyz"

/** 16 letters and digits, 82 bits. */
export const makeNonce: Effect.Effect<string> = Effect.gen(function* () {
  let text = ""
  for (let i = 0; i < 16; i++) text += nonceLetters.charAt(yield* Random.nextIntBetween(0, nonceLetters.length - 1))
  return text
})

const WireCount = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const WirePosition = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))

const WireSegment = Schema.Struct({ epoch: WirePosition, owner: Schema.String, batches: WireCount })

const WireStamp = Schema.Struct({ run: Schema.String, record: WireCount })

/**
 * A write that may not be done: the step, its record in the history, and whose value it
 * replaces (`null` for none, absent where that is not known).
 */
const WirePending = Schema.Struct({
  write: Schema.String,
  step: Schema.String,
  record: WireCount,
  before: Schema.optionalKey(Schema.NullOr(WireStamp))
})

/**
 * What stands under the key of a run. It alone says what belongs to the run.
 */
export const WireHead = Schema.Struct({
  version: Schema.Literal(1),
  kind: Schema.Literal("plan-run"),
  status: Schema.Literals(["claimed", "running", "paused", "failed", "cancelled", "done"]),
  plan: Schema.String,
  digest: Schema.String,
  fork: Schema.Boolean,
  generation: Schema.String,
  epoch: WirePosition,
  owner: Schema.String,
  lease: Schema.optionalKey(runParts.Time),
  updated: runParts.Time,
  run: Schema.optionalKey(Schema.String),
  segments: Schema.Array(WireSegment),
  revision: WireCount,
  iterations: WireCount,
  completed: WireCount,
  pending: Schema.Array(WirePending),
  outcome: Schema.optionalKey(Schema.Struct({ type: Schema.String, message: Schema.optionalKey(Schema.String) })),
  retired: Schema.Array(Schema.Struct({ generation: Schema.String, segments: Schema.Array(WireSegment) }))
})

/**
 * What a run was begun with.
 */
const WireBegun = Schema.Struct({
  version: Schema.Literal(1),
  kind: Schema.Literal("plan-input"),
  generation: Schema.String,
  input: PlanRun.ResolvedInput,
  context: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  maxIterations: Schema.optionalKey(Schema.Int)
})

/**
 * One batch of events: its place, and the events as the codec of events wrote them.
 */
const WireBatch = Schema.Struct({
  version: Schema.Literal(1),
  kind: Schema.Literal("plan-events"),
  generation: Schema.String,
  epoch: WirePosition,
  owner: Schema.String,
  batch: WireCount,
  events: Schema.Record(Schema.String, Schema.Json)
})

/**
 * A value that a step wrote, and which step of which run.
 */
const WireWrite = Schema.Struct({
  version: Schema.Literal(1),
  kind: Schema.Literal("plan-write"),
  run: Schema.String,
  record: WireCount,
  step: Schema.String,
  at: runParts.Time,
  value: Schema.Json
})

const { kind: _head, version: _headVersion, ...headFields } = WireHead.fields

const { kind: _begun, version: _begunVersion, ...begunFields } = WireBegun.fields

const { kind: _batch, version: _batchVersion, ...batchFields } = WireBatch.fields

const { kind: _write, version: _writeVersion, ...writeFields } = WireWrite.fields

const HeadType = Schema.Struct(headFields)

const BegunType = Schema.Struct(begunFields)

const BatchType = Schema.Struct(batchFields)

const WriteType = Schema.Struct(writeFields)

export type Head = typeof HeadType.Type

export type Begun = typeof BegunType.Type

export type Batch = typeof BatchType.Type

export type Write = typeof WriteType.Type

export type Segment = typeof WireSegment.Type

export type Stamp = typeof WireStamp.Type

export type Pending = typeof WirePending.Type

export type Retired = Head["retired"][number]

export const Head = VersionedCodec.make<Head>({
  what: "checkpoint",
  field: "version",
  type: Schema.toType(HeadType),
  arms: [
    VersionedCodec.arm({
      version: 1,
      wire: WireHead,
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
      wire: WireBegun,
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
      wire: WireBatch,
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
      wire: WireWrite,
      toCurrent: ({ kind: _kind, version: _, ...write }) => Effect.succeed(write),
      fromCurrent: (write: Write) =>
        VersionedCodec.lossless({ version: 1 as const, kind: "plan-write" as const, ...write })
    })
  ],
  data: ["/value"]
})
