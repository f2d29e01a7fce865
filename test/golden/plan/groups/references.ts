import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { Plan } from "effect-emissary/plan"
import type { Case } from "../vocabulary.ts"

const quoted = (message: string): ReadonlyArray<string> =>
  Array.from(message.matchAll(/'([^']*)'/g), ([, name = ""]) => name).filter((name) => name !== "")

/** One problem for one, each naming what the recorded one names. */
export const check = ({ expect, given }: Case): Effect.Effect<void> =>
  Effect.sync(() => {
    const expected = Array.isArray(expect["errors"]) ? expect["errors"].map(String) : []
    const problems = Plan.danglingReferences(given["steps"])
    assert.strictEqual(problems.length, expected.length, JSON.stringify(problems))
    for (const [index, message] of expected.entries()) {
      const found = JSON.stringify(problems[index])
      for (const name of quoted(message)) assert.include(found, name)
    }
  })
