import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { mentions, suite } from "./family.ts"
import * as checks from "./plan/checks.ts"
import { deviations, omissions } from "./plan/rules.ts"
import * as watching from "./plan/watching.ts"
import { inVocabulary, programOf } from "./plan/prose.ts"
import * as V from "./plan/vocabulary.ts"

suite({
  name: "plan",
  more: ["plan-specified.json"],
  omissions,
  deviations,
  inVocabulary,
  inapplicable: [
    {
      reason: "described in prose: it needs a program in prose.ts",
      cases: "",
      covers: (golden) => ("desc" in golden.given || "live plan" in golden.given) && programOf(golden) === undefined
    }
  ],
  check: (golden) => {
    const check = checks.checkOf(golden) ?? watching.checkOf(golden) ?? programOf(golden)
    const { expect, given } = golden
    return check === undefined
      ? Effect.die(`the vocabulary has no case of ${JSON.stringify({ given, expect })}`)
      : check(golden)
  }
})

describe("the runner of recorded plans", () => {
  it("takes null and numbers among what a message has to mention", () => {
    const pieces = ["steps", 4, null]
    assert.isTrue(Schema.is(V.Refusal)({ RAISED: "ValueError", "our message must mention": pieces }))
    mentions("steps[4]: expected a text, got null", pieces)
    assert.throws(() => mentions("steps[4]: expected a text, got nothing", pieces))
  })
})
