import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit } from "effect"
import { deviations, rules } from "./plan/deviations.ts"
import { omissionOf } from "./plan/omissions.ts"
import { check } from "./plan/check.ts"
import type { Case } from "./plan/vocabulary.ts"

const ownFile = fileURLToPath(new URL("./plan-cases.json", import.meta.url))
const file = process.env["EMISSARY_GOLDEN_PLAN"] ?? ownFile
const isOwnFile = file === ownFile

const cases: ReadonlyArray<Case> = JSON.parse(readFileSync(file, "utf8"))

/** Why the case is not met, or nothing. */
const attempt = (golden: Case): Effect.Effect<string | undefined> =>
  Effect.map(Effect.exit(Effect.suspend(() => check(golden))), (exit) =>
    Exit.isSuccess(exit) ? undefined : Cause.pretty(exit.cause)
  )

/** Meets the recording; or our own deviation; or the recording as a rule changes it. */
const run = Effect.fnUntraced(function* (golden: Case) {
  const problem = yield* attempt(golden)
  const own = Object.hasOwn(deviations, golden.id) ? deviations[golden.id] : undefined
  if (problem === undefined) {
    assert(!isOwnFile || own === undefined, "met, so it must not be listed as a deviation")
    return "met"
  }
  if (own !== undefined) {
    const left = yield* attempt({ ...golden, expect: own.expect })
    if (left === undefined) return `deviates: ${own.reason}`
    return assert.fail(`${golden.title}: neither the case nor our own deviation is met\n${left}`)
  }
  for (const rule of rules) {
    const expect = rule.adjust(golden)
    if (expect === undefined) continue
    const left = yield* attempt({ ...golden, expect })
    if (left === undefined) return `deviates: ${rule.reason}`
  }
  return assert.fail(`${golden.title}\n${problem}`)
})

describe(`golden cases of ${isOwnFile ? "plan-cases.json" : file}`, () => {
  for (const golden of cases) {
    const omission = omissionOf(golden)
    it.live(`${golden.id}: ${golden.title}`, ({ annotate }) =>
      Effect.gen(function* () {
        const outcome = omission === undefined ? yield* run(golden) : `left out: ${omission}`
        if (outcome !== "met") yield* Effect.promise(() => annotate(outcome))
      })
    )
  }

  it("lists no case that is not in the file", () => {
    if (!isOwnFile) return
    const ids = new Set(cases.map(({ id }) => id))
    assert.deepStrictEqual(
      Object.keys(deviations).filter((id) => !ids.has(id)),
      []
    )
  })
})
