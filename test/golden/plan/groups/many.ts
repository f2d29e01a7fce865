import { assert } from "@effect/vitest"
import { Effect, Exit, Result } from "effect"
import { Checkpoint, Plan, type PlanError, type PlanRun } from "effect-emissary/plan"

import { equalResults } from "../compare.ts"
import { inputOf, load, type Loaded, model, observed, type Setting, setting } from "../load.ts"
import type { Case, Raised, RunResult } from "../vocabulary.ts"
import { refused } from "./checkpoints.ts"

/** Zero and null are "no limit" in the recordings, and `"unbounded"` here. */
const concurrencyOf = (given: Case["given"]) =>
  typeof given["concurrency"] === "number" && given["concurrency"] !== 0 ? given["concurrency"] : "unbounded"

type Ran = Result.Result<PlanRun.Result<unknown>, PlanError.PlanError>

const withoutKey = (bound: Loaded, given: Case["given"], inputs: ReadonlyArray<PlanRun.Input>, used: Setting) =>
  Effect.map(Plan.runMany(bound, inputs, { concurrency: concurrencyOf(given) }), (results) =>
    results.map((result) => observed(result, used))
  )

const underKey = (bound: Loaded, given: Case["given"], inputs: ReadonlyArray<PlanRun.Input>, used: Setting) =>
  Effect.gen(function* () {
    const checkpoint = yield* Checkpoint.Checkpoint
    const policy = given["on_concurrent"] === "fork" ? "fork" : "start"
    const key = String(given["checkpoint_key"])
    return yield* Effect.forEach(
      inputs,
      (input) =>
        Effect.map(Effect.result(checkpoint.run(bound, { key, input, policy })), (result): RunResult | Raised =>
          Result.isFailure(result) && result.failure._tag === "CheckpointError"
            ? refused(result.failure)
            : // Sound: a CheckpointError is answered above.
              observed(result as Ran, used)
        ),
      { concurrency: concurrencyOf(given) }
    )
  }).pipe(Effect.provide(Checkpoint.layerMemory))

/** Runs all inputs; the results are in their order. */
export const check = Effect.fnUntraced(function* ({ expect, given }: Case) {
  const used = setting(given)
  const values = Array.isArray(given["run_many"]) ? given["run_many"] : []
  const inputs = values.map((value) => inputOf(value, String(value)))
  const bound = yield* load(given["plan"], used)
  const running =
    "checkpoint_key" in given ? underKey(bound, given, inputs, used) : withoutKey(bound, given, inputs, used)
  if ("RAISED" in expect) {
    const exit = yield* Effect.exit(Effect.provide(running, model(used)))
    assert(Exit.isFailure(exit), "expected a refusal")
    return
  }
  const ran = yield* Effect.provide(running, model(used))
  const expected = Array.isArray(expect["results"]) ? expect["results"] : []
  assert.strictEqual(ran.length, expected.length)
  for (const [index, result] of ran.entries()) {
    const wanted: unknown = expected[index]
    // Sound: the vocabulary of the recordings says that each item is a result.
    equalResults(result, wanted as RunResult, given["plan"])
  }
})
