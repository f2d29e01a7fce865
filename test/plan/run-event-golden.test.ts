import { assert, describe } from "@effect/vitest"
import { Equal, Result } from "effect"
import { readFileSync } from "node:fs"
import * as planTransition from "#src/plan/internal/planTransition.ts"
import { PlanRun } from "effect-emissary/plan"

import { report, waiting } from "./golden-run/plans.ts"
import { test } from "../test.ts"

// Written by version 1 as it was released: never written again, read for ever.
const golden = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`./golden-run/${name}.json`, import.meta.url), "utf8"))

const cases = [
  ["branch", report],
  ["interrupted", report],
  ["finished", report],
  ["waiting", waiting],
  ["running", waiting]
] as const

describe("L3 released versions of runs of plans", () => {
  for (const [name, rules] of cases) {
    test(`PLAN-6 L3 run ${name}, version 1: its facts fold to its state, both are written back as they were`, function* () {
      const events = yield* PlanRun.eventsCodec.decode(golden(`plan-run-events-${name}-v1`))
      const state = yield* PlanRun.stateCodec.decode(golden(`plan-run-state-${name}-v1`))
      assert.isTrue(Equal.equals(Result.getOrThrow(planTransition.fold(rules, events)), state))
      assert.deepStrictEqual(
        yield* PlanRun.eventsCodec.encode(events, { version: 1 }),
        golden(`plan-run-events-${name}-v1`)
      )
      assert.deepStrictEqual(
        yield* PlanRun.stateCodec.encode(state, { version: 1 }),
        golden(`plan-run-state-${name}-v1`)
      )
    })
  }
})
