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
  check: (golden) => {
    const check = checks.checkOf(golden) ?? watching.checkOf(golden) ?? programOf(golden)
    const { expect, given } = golden
    return check === undefined
      ? Effect.die(`the vocabulary has no case of ${JSON.stringify({ given, expect })}; one in prose needs a program in prose.ts`)
      : check(golden)
  }
})
