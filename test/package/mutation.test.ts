import { assert, describe, it } from "@effect/vitest"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../../scripts/sources.ts"

interface Sample {
  readonly commit: string
  readonly rooms: ReadonlyArray<string>
  readonly files: { readonly [path: string]: { readonly noticed: number; readonly survived: number } }
  readonly survivors: ReadonlyArray<{ readonly file: string; readonly line: number; readonly reason: string }>
}

const samples: ReadonlyArray<Sample> = JSON.parse(readFileSync(join(root, "test/mutation/samples.json"), "utf8"))

/** `npm run mutation -- --write` adds a sample. */
describe("KEEP-11 RIGHT-19 samples of mutants", () => {
  it("hold at least 150 mutants, of stores, agents, plans and tools", () => {
    const counts = samples.flatMap(({ files }) => Object.values(files))
    assert.isAtLeast(
      counts.reduce((sum, { noticed, survived }) => sum + noticed + survived, 0),
      150
    )
    assert.sameMembers([...new Set(samples.flatMap(({ rooms }) => rooms))], ["store", "agent", "plan", "tool"])
  })

  it("have a reason for each survivor: why nothing has to notice it, or the test that notices it now", () => {
    for (const { files, survivors } of samples) {
      const survived = Object.values(files).reduce((sum, counts) => sum + counts.survived, 0)
      assert.lengthOf(survivors, survived)
      for (const { file, line, reason } of survivors) {
        assert.isAtLeast(reason.length, 20, `${file}:${line} has no reason`)
        for (const [, path = ""] of reason.matchAll(/`(test\/[^`:]+)/g))
          assert.isTrue(existsSync(join(root, path)), path)
      }
    }
  })
})
