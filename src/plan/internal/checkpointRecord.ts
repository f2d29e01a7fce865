/**
 * The stored values of a checkpointed run: its head, its input, its batches of events and what its steps wrote; and how
 * the head follows the state of the run.
 */

import * as Chunk from "effect/Chunk"
import * as DateTime from "effect/DateTime"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as runParts from "../../agent/internal/runParts.ts"
import * as journal from "../../conversation/internal/storage.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import { defined } from "../../payload/internal/plainJson.ts"
import type { PlanDefinition } from "../PlanDefinition.ts"
import * as PlanRun from "../PlanRun.ts"
import * as planRunParts from "./planRunParts.ts"
import * as planTransition from "./planTransition.ts"

const Status = Schema.Literals(["claimed", "running", "paused", "failed", "cancelled", "done"])

export type Status = typeof Status.Type

/** A value in the store: the run that wrote it, and the place of the step in the history of that run. */
const Stamp = Schema.Struct({ run: Schema.String, record: runParts.Count })

export type Stamp = typeof Stamp.Type

/** A write that may not be done. `before` is the stamp of the value it replaces: `null` for none, absent if not known. */
const Pending = Schema.Struct({
  write: Schema.String,
  step: Schema.String,
  record: runParts.Count,
  before: Schema.optionalKey(Schema.NullOr(Stamp))
})

export type Pending = typeof Pending.Type

/** The value under the key of a run. `lease` is absent once the run has ended. */
export const Head = Schema.Struct({
  status: Status,
  plan: Schema.String,
  digest: Schema.String,
  fork: Schema.Boolean,
  ...journal.logFields,
  lease: Schema.optionalKey(runParts.Time),
  updated: runParts.Time,
  run: Schema.optionalKey(Schema.String),
  revision: runParts.Count,
  iterations: runParts.Count,
  completed: runParts.Count,
  pending: Schema.Array(Pending),
  outcome: Schema.optionalKey(Schema.Struct({ type: Schema.String, message: Schema.optionalKey(Schema.String) }))
})

export type Head = typeof Head.Type

export const headCodec = VersionedCodec.single({ what: "checkpoint", value: Head, header: { kind: "plan-run" } })

/** The options a run began with. */
const Input = Schema.Struct({
  generation: Schema.String,
  input: planRunParts.ResolvedInput,
  context: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  maxIterations: Schema.optionalKey(Schema.Int)
})

export type Input = typeof Input.Type

export const inputCodec = VersionedCodec.single({
  what: "input of a checkpoint",
  value: Input,
  header: { kind: "plan-input" },
  data: ["/input/payload"]
})

export const batchCodec = journal.batchCodec({
  what: "events of a checkpoint",
  kind: "plan-events",
  events: PlanRun.eventsCodec.schema
})

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

export const isSameStamp = (a: Stamp | undefined, b: Stamp | null): boolean =>
  a?.run === b?.run && a?.record === b?.record

/**
 * The writes that a state adds to the one before, in the order in which their steps finished; in a parallel group that
 * is the declared order. Reads the new records alone.
 */
export const writesBetween = (
  definition: PlanDefinition,
  before: PlanRun.State | undefined,
  state: PlanRun.State
): ReadonlyArray<Pending> => {
  if (state.writes === before?.writes) return []
  const first = before === undefined ? 0 : Chunk.size(before.history)
  return Array.from({ length: Chunk.size(state.history) - first }, (_, index) => first + index).flatMap((record) => {
    const step = Option.match(Chunk.get(state.history, record), { onNone: () => "", onSome: ({ step }) => step })
    const write = planTransition.findStep(definition, step)?.writes
    const isNewest = write !== undefined && Option.contains(HashMap.get(state.writes, write), record)
    return isNewest ? [{ write, step, record }] : []
  })
}

const statuses: { readonly [Tag in PlanRun.Outcome["_tag"]]: Status } = {
  Completed: "done",
  Concluded: "done",
  Paused: "paused",
  Failed: "failed",
  LimitReached: "failed",
  Interrupted: "cancelled"
}

export const statusOfOutcome = (outcome: PlanRun.Outcome["_tag"] | undefined): Status =>
  outcome === undefined ? "running" : statuses[outcome]

/** The status of a run that a process works on, or worked on when it died. */
export const isOpen = (status: Status): boolean => status === "claimed" || status === "running"

/** No other process may take the run now. */
export const isLeased = (head: Head, now: DateTime.Utc): boolean =>
  isOpen(head.status) && head.lease !== undefined && DateTime.isGreaterThan(head.lease, now)

const quoteNames = (names: Iterable<string>) => Array.from(new Set(names), (name) => JSON.stringify(name)).join(", ")

const outcomeMessage = (outcome: PlanRun.Outcome): string | undefined => {
  switch (outcome._tag) {
    case "Failed":
      return `step ${quoteNames([outcome.step])} failed with ${outcome.failure.type}`
    case "LimitReached":
      return `${outcome.limit} iterations, next ${quoteNames([outcome.next])}`
    case "Paused":
      return `waiting: ${quoteNames([...outcome.pauses.map(({ step }) => step), ...outcome.requests.map(({ name }) => name)])}`
    case "Interrupted":
      return outcome.reason
    default:
      return undefined
  }
}

/** The head after one more batch, under a lease. */
export const advance = (
  { outcome: _, ...head }: Head,
  state: PlanRun.State,
  change: Pick<Head, "status" | "pending" | "lease" | "updated">
): Head => ({
  ...head,
  ...change,
  run: state.runId,
  revision: state.revision,
  iterations: state.iterations,
  completed: Chunk.size(state.history),
  ...defined({
    outcome:
      state.outcome === undefined
        ? undefined
        : { type: state.outcome._tag, ...defined({ message: outcomeMessage(state.outcome) }) }
  })
})

/** The head of a run that no process works on any more. */
export const release = ({ lease: _, ...head }: Head, status: Status, updated: DateTime.Utc): Head => ({
  ...head,
  status,
  updated
})
