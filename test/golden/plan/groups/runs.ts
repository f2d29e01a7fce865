import { Effect } from "effect"
import { equalRuns } from "../compare.ts"
import { inputOf, run } from "../load.ts"
import type { Case, Observed } from "../vocabulary.ts"

/** Load, bind and run. */
export const check = Effect.fnUntraced(function* ({ expect, given }: Case) {
  const actual = yield* run(given, inputOf(given["input"], "seed"))
  const plain: unknown = expect
  // Sound: the vocabulary of the recordings says that these cases expect a trace and a result.
  equalRuns(actual, plain as Observed, given["plan"])
})
