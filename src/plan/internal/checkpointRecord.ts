/**
 * The stored values of a checkpointed run, of a plan or of an agent: its head, its input, its batches of events, and the
 * values that its steps wrote.
 */

import * as Schema from "effect/Schema"
import * as Run from "../../agent/Run.ts"
import * as runParts from "../../agent/internal/runParts.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import * as claimedLog from "../../conversation/internal/claimedLog.ts"
import * as storage from "../../conversation/internal/storage.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as PlanRun from "../PlanRun.ts"
import * as planRunParts from "./planRunParts.ts"

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
const headOf = <Kind extends string, Name extends string>(kind: Kind, name: Name) =>
  Schema.Struct({
    kind: Schema.Literal(kind),
    status: Status,
    name: Schema.String,
    digest: Schema.String,
    fork: Schema.Boolean,
    ...claimedLog.headFields,
    run: Schema.optionalKey(Schema.String),
    revision: runParts.Count,
    iterations: runParts.Count,
    completed: runParts.Count,
    pending: Schema.Array(PendingWrite),
    outcome: Schema.optionalKey(Schema.Struct({ type: Schema.String, message: Schema.optionalKey(Schema.String) }))
  }).pipe(Schema.encodeKeys({ name }))

export const Head = Schema.Union([headOf("plan-run", "plan"), headOf("agent-run", "agent")])

export type Head = typeof Head.Type

export const headCodec = VersionedCodec.single({ what: "checkpoint", value: Head })

/** The input and the options that the run of a plan began with. */
const PlanInput = Schema.Struct({
  generation: Schema.String,
  input: planRunParts.ResolvedInput,
  context: Schema.optionalKey(runParts.Context),
  maxIterations: Schema.optionalKey(Schema.Int)
})

export type PlanInput = typeof PlanInput.Type

/** The input and the options that the run of an agent began with. */
const AgentInput = Schema.Struct({
  generation: Schema.String,
  input: Schema.optionalKey(ToolResult.NonEmptyContent),
  conversation: Schema.optionalKey(Conversation.codec.schema),
  instructions: Schema.optionalKey(Schema.Literals(["keep", "replace"])),
  context: Schema.optionalKey(runParts.Context),
  maxSteps: Schema.optionalKey(runParts.MaxSteps)
})

export type AgentInput = typeof AgentInput.Type

const what = { input: "input of a checkpoint", events: "events of a checkpoint" }

export const planCodecs = {
  input: VersionedCodec.single({
    what: what.input,
    value: PlanInput,
    header: { kind: "plan-input" },
    data: ["/input/payload"]
  }),
  batch: storage.batchCodec({ what: what.events, kind: "plan-events", events: PlanRun.eventsCodec.schema })
}

export const agentCodecs = {
  input: VersionedCodec.single({
    what: what.input,
    value: AgentInput,
    header: { kind: "agent-input" },
    // Its codec looks for secrets
    data: ["/conversation"]
  }),
  batch: storage.batchCodec({ what: what.events, kind: "agent-events", events: Run.eventsCodec.schema })
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
