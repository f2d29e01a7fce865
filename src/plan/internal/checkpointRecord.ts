/**
 * The stored values of a checkpointed run: its head, its input, its batches of events, and the values that its steps wrote.
 */

import * as Schema from "effect/Schema"
import * as runParts from "../../agent/internal/runParts.ts"
import * as claimedLog from "../../store/internal/claimedLog.ts"
import * as storage from "../../store/internal/storage.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as PlanRun from "../PlanRun.ts"
import * as planRunParts from "../../agent/internal/planRunParts.ts"

export const Status = Schema.Literals(["claimed", "running", "paused", "failed", "cancelled", "done"])

export type Status = typeof Status.Type

/** A value in the store: the run that wrote it, and the place of the step in the history of that run. */
const Stamp = Schema.Struct({ run: Schema.String, record: runParts.Count })

/** A write that may not be done. `before` is the stamp of the value it replaces: `null` for none, absent if not known. */
const PendingWrite = Schema.Struct({
  write: Schema.String,
  step: Schema.String,
  record: runParts.Count,
  before: Schema.optionalKey(Schema.NullOr(Stamp))
})

export type PendingWrite = typeof PendingWrite.Type

/** The value under the key of a run. `lease` is absent once the run has ended. */
export const Head = Schema.Struct({
  status: Status,
  plan: Schema.String,
  digest: Schema.String,
  fork: Schema.Boolean,
  ...claimedLog.headFields,
  run: Schema.optionalKey(Schema.String),
  revision: runParts.Count,
  iterations: runParts.Count,
  completed: runParts.Count,
  pending: Schema.Array(PendingWrite),
  outcome: Schema.optionalKey(Schema.Struct({ type: Schema.String, message: Schema.optionalKey(Schema.String) }))
})

export type Head = typeof Head.Type

/** The input and the options that a run began with. */
const Input = Schema.Struct({
  generation: Schema.String,
  input: planRunParts.ResolvedInput,
  context: Schema.optionalKey(runParts.Context),
  maxIterations: Schema.optionalKey(Schema.Int)
})

export type Input = typeof Input.Type

export const codecs = {
  head: VersionedCodec.single({ what: "checkpoint", value: Head, header: { kind: "plan-run" } }),
  input: VersionedCodec.single({
    what: "input of a checkpoint",
    value: Input,
    header: { kind: "plan-input" },
    data: ["/input/payload"]
  }),
  batch: storage.batchCodec({
    what: "events of a checkpoint",
    kind: "plan-events",
    events: PlanRun.eventsCodec.schema
  })
}

/** A value that a step wrote. */
const Write = Schema.Struct({
  ...Stamp.fields,
  step: Schema.String,
  at: runParts.Time,
  value: Schema.Json
})

export type Write = typeof Write.Type

export const writeCodec = VersionedCodec.single({
  what: "value of a step",
  value: Write,
  header: { kind: "plan-write" },
  data: ["/value"]
})
