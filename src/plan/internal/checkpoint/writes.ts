/**
 * Values that steps write for others to read. Each is written once: the head names it
 * together with whose value it replaces, so a writer that goes on after a crash sees
 * whether it was written, or whether somebody else has written since.
 */
import * as Chunk from "effect/Chunk"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { WriteFailed } from "../../CheckpointError.ts"
import type { PlanDefinition } from "../../PlanDefinition.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import * as heads from "./heads.ts"
import type { Pending, Stamp } from "./records.ts"
import type { Storage } from "./storage.ts"

const stampOf = ({ record, run }: Stamp): Stamp => ({ run, record })

const isSame = (a: Stamp | null, b: Stamp | null): boolean => a?.run === b?.run && a?.record === b?.record

/** The writes that a state brings, to be named in the head. */
export const pendingOf = (
  storage: Storage,
  fork: string | undefined,
  definition: PlanDefinition,
  before: PlanRunState | undefined,
  state: PlanRunState
): Effect.Effect<ReadonlyArray<Pending>> =>
  Effect.forEach(heads.writesBetween(definition, before, state), (write) =>
    storage.write(write.write, fork).pipe(
      Effect.match({
        // The write itself says what is wrong, after its step is kept
        onFailure: (): Pending => write,
        onSuccess: (found): Pending => ({
          ...write,
          before: Option.match(found, { onNone: () => null, onSome: (there) => stampOf(there.write) })
        })
      })
    )
  )

const perform = Effect.fnUntraced(function* (
  storage: Storage,
  fork: string | undefined,
  state: PlanRunState,
  pending: Pending
) {
  const record = Chunk.get(state.history, pending.record)
  if (Option.isNone(record)) return
  for (;;) {
    const found = yield* storage.write(pending.write, fork)
    const stamp = Option.match(found, { onNone: () => null, onSome: ({ write }) => stampOf(write) })
    if (stamp?.run === state.runId && stamp.record >= pending.record) return
    if (pending.before !== undefined && !isSame(stamp, pending.before)) return
    const version = Option.map(found, (there) => there.version)
    const written = yield* storage
      .setWrite(pending.write, fork, version, {
        run: state.runId,
        record: pending.record,
        step: pending.step,
        at: yield* DateTime.now,
        value: record.value.output
      })
      .pipe(
        Effect.as(true),
        Effect.catchTag("VersionConflict", () => Effect.succeed(false))
      )
    if (written) return
  }
})

/** Does what the head says is to be done. */
export const performAll = (
  storage: Storage,
  fork: string | undefined,
  state: PlanRunState,
  pending: ReadonlyArray<Pending>
): Effect.Effect<void, WriteFailed> =>
  Effect.forEach(
    pending,
    (entry) =>
      Effect.mapError(
        perform(storage, fork, state, entry),
        (error) => new WriteFailed({ write: entry.write, step: entry.step, problem: error.message })
      ),
    { discard: true }
  )
