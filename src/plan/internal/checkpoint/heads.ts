/** What the head of a run says, and how it follows the state of the run. */
import * as Chunk from "effect/Chunk"
import * as DateTime from "effect/DateTime"
import type * as Exit from "effect/Exit"
import * as HashMap from "effect/HashMap"
import * as Cause from "effect/Cause"
import * as Option from "effect/Option"
import type { Status } from "../../CheckpointError.ts"
import type { PlanDefinition } from "../../PlanDefinition.ts"
import type { PlanOutcome } from "../../PlanOutcome.ts"
import type { PlanResult } from "../../PlanResult.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import { stepOf } from "../transition/positions.ts"
import type { Head, Pending, Segment } from "./records.ts"

const statuses: { readonly [Tag in PlanOutcome["_tag"]]: Status } = {
  Completed: "done",
  Concluded: "done",
  Paused: "paused",
  Failed: "failed",
  LimitReached: "failed",
  Interrupted: "cancelled"
}

export const statusOf = ({ outcome }: PlanRunState): Status =>
  outcome === undefined ? "running" : statuses[outcome._tag]

/** Whether somebody works on it, or did when the process died. */
export const isOpen = (status: Status): boolean => status === "claimed" || status === "running"

/** Whether nobody else may take it now. */
export const isLive = (head: Head, now: DateTime.Utc): boolean =>
  isOpen(head.status) && head.lease !== undefined && DateTime.isGreaterThan(head.lease, now)

/** What a run that ended says by how it ended, where its events do not say it. */
export const statusOfExit = (exit: Exit.Exit<PlanResult<unknown> | void, unknown>): Status => {
  if (exit._tag === "Success") {
    const result = exit.value
    return result === undefined ? "cancelled" : statuses[result.outcome]
  }
  return Cause.hasInterruptsOnly(exit.cause) ? "cancelled" : "failed"
}

const quoted = (name: string) => JSON.stringify(name)

const messageOf = (outcome: PlanOutcome): string | undefined => {
  switch (outcome._tag) {
    case "Failed":
      return `step ${quoted(outcome.step)} failed with ${outcome.failure.type}`
    case "LimitReached":
      return `${outcome.limit} iterations, next ${quoted(outcome.next)}`
    case "Paused":
      return `waiting: ${[...new Set([...outcome.pauses.map(({ step }) => step), ...outcome.requests.map(({ name }) => name)])].map(quoted).join(", ")}`
    case "Interrupted":
      return outcome.reason
    default:
      return undefined
  }
}

const summary = (outcome: PlanOutcome): NonNullable<Head["outcome"]> => {
  const message = messageOf(outcome)
  return { type: outcome._tag, ...(message === undefined ? {} : { message }) }
}

/** The segment of the events that this owner writes. */
export const segmentOf = ({ epoch, owner, segments }: Head): Segment => {
  const last = segments.at(-1)
  return last?.epoch === epoch && last.owner === owner ? last : { epoch, owner, batches: 0 }
}

/** The head after one more batch, under a lease. */
export const advance = (
  head: Head,
  state: PlanRunState,
  change: { readonly status: Status; readonly pending: ReadonlyArray<Pending>; readonly now: DateTime.Utc }
): Head => {
  const segment = segmentOf(head)
  const older = segment.batches === 0 ? head.segments : head.segments.slice(0, -1)
  const { outcome: _, ...rest } = head
  return {
    ...rest,
    status: change.status,
    updated: change.now,
    run: state.runId,
    segments: [...older, { ...segment, batches: segment.batches + 1 }],
    revision: state.revision,
    iterations: state.iterations,
    completed: Chunk.size(state.history),
    pending: change.pending,
    ...(state.outcome === undefined ? {} : { outcome: summary(state.outcome) })
  }
}

export const withLease = (head: Head, lease: DateTime.Utc): Head => ({ ...head, lease })

/** The head of a run that nobody works on any more. */
export const release = (head: Head, status: Status, now: DateTime.Utc): Head => {
  const { lease: _, ...rest } = head
  return { ...rest, status, updated: now }
}

/**
 * Which writes a state has that the one before has not, each with its record, in the order
 * in which steps finished, which in a band is the declared one. Looks at new records alone.
 */
export const writesBetween = (
  definition: PlanDefinition,
  before: PlanRunState | undefined,
  state: PlanRunState
): ReadonlyArray<{ readonly write: string; readonly step: string; readonly record: number }> => {
  if (state.writes === before?.writes) return []
  const first = before === undefined ? 0 : Chunk.size(before.history)
  return Array.from({ length: Chunk.size(state.history) - first }, (_, index) => first + index).flatMap((record) => {
    const step = Option.match(Chunk.get(state.history, record), { onNone: () => "", onSome: ({ step }) => step })
    const write = stepOf(definition, step)?.writes
    const isNewest = write !== undefined && Option.contains(HashMap.get(state.writes, write), record)
    return isNewest ? [{ write, step, record }] : []
  })
}
