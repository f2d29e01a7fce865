import { Effect } from "effect"
import { suite } from "./family.ts"
import * as checks from "./plan/checks.ts"
import { deviations, omissions } from "./plan/rules.ts"
import * as watching from "./plan/watching.ts"
import { inVocabulary, programOf } from "./plan/prose.ts"

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
