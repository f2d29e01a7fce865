import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Checkpoint, PlanRun } from "effect-emissary/plan"
import * as planTransition from "#src/plan/internal/planTransition.ts"

/** The part of a result, and of what is stored, that is the same whatever happened on the way. */
export const resultOf = Effect.fnUntraced(function* (
  { key, state, ...result }: Checkpoint.RunResult<unknown>,
  writes: ReadonlyArray<string>
) {
  const checkpoint = yield* Checkpoint.Checkpoint
  const { completed, iterations, pendingWrites, status } = Option.getOrThrow(yield* checkpoint.inspect(key))
  return {
    outcome: result.outcome,
    output: result.outcome === "Completed" ? result.output : undefined,
    iterations: result.iterations,
    bucket: Array.from(planTransition.writtenValues(state)).toSorted(([a], [b]) => (a < b ? -1 : 1)),
    history: PlanRun.history(state).map(({ context, output, step, task }) => ({ context, output, step, task })),
    stored: yield* Effect.forEach(writes, (write) =>
      Effect.map(
        checkpoint.read(write),
        Option.map(({ record, step, value }) => ({ write, record, step, value }))
      )
    ),
    current: yield* Effect.forEach(writes, (write) => checkpoint.isCurrent(key, write)),
    head: { status, completed, iterations, pendingWrites }
  }
})
