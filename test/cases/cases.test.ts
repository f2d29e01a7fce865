/**
 * Inputs from public bug reports of other agent libraries, with the right values. Each file names where people reported its case
 * and why its value is right. The inputs are written anew.
 *
 * - `loop`: the loop, tools, schemas, providers and MCP. A case returns a value, which has to equal its `right`.
 * - `keep`: sessions, chats, plans and context windows. A case is an effect that collects what it finds wrong.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { readdirSync } from "node:fs"
// @ts-expect-error -- cases are plain JavaScript
import { problems } from "./harness/keep.mjs"
// @ts-expect-error -- cases are plain JavaScript
import { lib } from "./harness/lib.mjs"

interface LoopCase {
  readonly source: string
  readonly right: unknown
  readonly default: (library: unknown) => Promise<unknown>
}

interface KeepCase {
  readonly default: Effect.Effect<unknown, unknown>
}

const namesIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(new URL(folder, import.meta.url), { encoding: "utf8" })
    .filter((file) => file.endsWith(".mjs"))
    .map((file) => file.slice(0, -".mjs".length))

/** Values are compared as JSON values: an absent member equals an undefined one. */
const asJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value ?? null))

describe("RIGHT the loop: cases from public bug reports", () => {
  for (const name of namesIn("loop")) {
    it.live(`loop ${name}`, () =>
      Effect.gen(function* () {
        const found: LoopCase = yield* Effect.promise(() => import(`./loop/${name}.mjs`))
        assert.isNotEmpty(found.source)
        assert.deepStrictEqual(asJson(yield* Effect.promise(() => found.default(lib))), asJson(found.right))
      })
    )
  }
})

describe("RIGHT what is kept: cases from public bug reports", () => {
  for (const name of namesIn("keep")) {
    it.live(`keep ${name}`, () =>
      Effect.gen(function* () {
        problems.length = 0
        const found: KeepCase = yield* Effect.promise(() => import(`./keep/${name}.mjs`))
        yield* found.default
        assert.deepStrictEqual(problems, [])
      })
    )
  }
})
