/** The end of a run that is stopped. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as RunTransition from "../RunTransition.ts"
import * as Recorder from "./recorder.ts"

/** Ends the run as `Interrupted`: what started gets its results first. */
export const interrupt = Effect.fnUntraced(function* (
  { state }: Recorder.Recorder,
  record: Recorder.Recorder["record"],
  reason: string | undefined
) {
  if (state().outcome !== undefined) return
  // An interruption of the fiber may come while one by the clock or the hook is being recorded.
  const why = state().interrupted ?? (reason === undefined ? {} : { reason })
  if (state().interrupted === undefined) yield* record({ _tag: "RunInterrupted", at: yield* DateTime.now, ...why })
  for (const settled of RunTransition.recover(state())) {
    yield* record(yield* Recorder.toolFinished(settled))
  }
  yield* record({ _tag: "RunFinished", at: yield* DateTime.now, outcome: { _tag: "Interrupted", ...why } })
})
