import { assert } from "@effect/vitest"
import { Effect, Result } from "effect"
import { load, setting } from "../load.ts"
import type { Case } from "../vocabulary.ts"
import { mentions } from "./wire.ts"

/** Load, check and bind. */
export const check = Effect.fnUntraced(function* ({ expect, given }: Case) {
  const result = yield* Effect.result(load(given["plan"], setting(given)))
  if (expect["OK"] === true) {
    assert(Result.isSuccess(result), Result.isFailure(result) ? result.failure.message : "")
    return
  }
  assert(Result.isFailure(result), "expected a refusal")
  assert.strictEqual(result.failure._tag, "PlanInvalid", result.failure.message)
  mentions(result.failure.message, expect)
})
