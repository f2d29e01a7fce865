import { assert } from "@effect/vitest"
import { Effect, Result } from "effect"
import { AgentGraph } from "effect-emissary/plan"
import { equal } from "../../family.ts"
import type { Case } from "../vocabulary.ts"

/** Reads a graph and writes it as version 1, which the recordings have without a version. */
export const read = Effect.fnUntraced(function* ({ expect, given }: Case) {
  const result = yield* Effect.result(AgentGraph.decode(given["data"]))
  if ("RAISED" in expect) {
    assert(Result.isFailure(result), "expected a refusal")
    return
  }
  // The recorded form has no version; ours says its own, which its readers skip.
  const { version, ...written } = yield* AgentGraph.encode(yield* Effect.fromResult(result), { version: 1 })
  assert.strictEqual(version, 1)
  equal(written, expect["graph"])
})
