import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Result } from "effect"
import { deviations, otherEras } from "./deviations.ts"
import type { Case, Context, Json, Run } from "./golden.ts"
import { omissions } from "./omissions.ts"

const ownFile = fileURLToPath(new URL("./riffer-cases.json", import.meta.url))
const file = process.env["EMISSARY_GOLDEN_RIFFER"] ?? ownFile
const isOwnFile = file === ownFile

const cases: ReadonlyArray<Case> = JSON.parse(readFileSync(file, "utf8"))

/** The adapter of a group: `groups/<group>.ts`, exporting `run`. */
const adapterOf = (group: string): Effect.Effect<Run, string> => {
  const path = fileURLToPath(new URL(`./groups/${group}.ts`, import.meta.url))
  return existsSync(path)
    ? Effect.map(
        Effect.promise((): Promise<{ readonly run: Run }> => import(path)),
        (module) => module.run
      )
    : Effect.fail(`no adapter test/golden/groups/${group}.ts for the group "${group}"`)
}

/** What an attempt to meet an expectation came to; an assertion that fails is a defect. */
const attempt = (run: Run, given: Json, expect: Json, context: Context): Effect.Effect<Result.Result<void, string>> =>
  Effect.map(Effect.exit(Effect.suspend(() => run(given, expect, context))), (exit) =>
    Exit.isSuccess(exit) ? Result.succeed(undefined) : Result.fail(Cause.pretty(exit.cause))
  )

const omissionOf = ({ given, group, id }: Case): string | undefined =>
  omissions.find((omission) => omission.group === group && (omission.covers?.(given, id) ?? true))?.reason

/**
 * One case. Its deviation, where it has one, is what a strict library should do
 * and is preferred; the recording does as well, unless it is a raw exception.
 */
const check = Effect.fnUntraced(function* (golden: Case) {
  const { deviation, era, expect, given, group, id, title } = golden
  const context: Context = { id, title, era }
  const run = yield* adapterOf(group)
  const expectations = [
    ...(deviation === undefined ? [] : [deviation.expect]),
    ...("raises" in expect ? [] : [expect])
  ]
  const results: Array<string> = []
  for (const expected of expectations) {
    const result = yield* attempt(run, given, expected, context)
    if (Result.isSuccess(result)) {
      if (isOwnFile) assert.notProperty(deviations, id, "met, so it must not be listed as a deviation")
      return "met"
    }
    results.push(result.failure)
  }
  const own = Object.hasOwn(deviations, id) ? deviations[id] : undefined
  if (own !== undefined) {
    const result = yield* attempt(run, given, own.expect, context)
    if (Result.isSuccess(result)) return `deviates: ${own.reason}`
    assert.fail(`${title}: neither the case nor our own deviation is met\n${result.failure}`)
  }
  if (era !== undefined && era !== "newest") {
    if (isOwnFile) assert.property(otherEras, id, `a case of the era "${era}" is not met:\n${results.join("\n")}`)
    return `not applicable: behaviour of the era "${era}"`
  }
  return assert.fail(`${title}\n${results.join("\nnor the recorded expectation:\n")}`)
})

describe(`golden cases of ${isOwnFile ? "riffer-cases.json" : file}`, () => {
  for (const golden of cases) {
    const omission = omissionOf(golden)
    it.live(`${golden.id} ${golden.group}: ${golden.title}`, ({ annotate }) =>
      Effect.gen(function* () {
        const outcome = omission === undefined ? yield* check(golden) : `left out: ${omission}`
        if (outcome !== "met") yield* Effect.promise(() => annotate(outcome))
      })
    )
  }

  it("lists no case that is not in the file", () => {
    if (!isOwnFile) return
    const ids = new Set(cases.map(({ id }) => id))
    for (const id of [...Object.keys(deviations), ...Object.keys(otherEras)]) assert.isTrue(ids.has(id), id)
  })
})
