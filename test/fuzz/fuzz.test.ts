import { assert, describe } from "@effect/vitest"
import { mkdirSync, writeFileSync } from "node:fs"
import { test } from "../test.ts"
import { describeFinding, makeFuzzer } from "./fuzz.ts"

const numberOf = (name: string, otherwise: number): number => Number(process.env[name] ?? otherwise)

// `npm test` tries the same inputs each time, `npm run fuzz` others
const seed = numberOf("EMISSARY_FUZZ_SEED", 1)
const first = numberOf("EMISSARY_FUZZ_FIRST", 0)
const count = numberOf("EMISSARY_FUZZ_INPUTS", 20_000)
const progress = process.env["EMISSARY_FUZZ_PROGRESS"]
const folder = new URL("../../.generated/fuzz/", import.meta.url)

describe(
  "TRUST-8 whatever is decoded, the result is a value or a typed failure",
  { timeout: Math.max(180_000, count * 60) },
  () => {
    test.live(`TRUST-8 ${count} inputs from ${first} on, of seed ${seed}`, function* () {
      const { run } = yield* makeFuzzer
      const report = yield* run({
        seed,
        first,
        count,
        onFinding: (finding) => {
          mkdirSync(folder, { recursive: true })
          writeFileSync(new URL(`${seed}-${finding.index}.txt`, folder), describeFinding(finding))
        },
        onProgress: (index) => progress !== undefined && writeFileSync(progress, String(index))
      })
      if (progress !== undefined) {
        const { dearest, doors, inputs, kinds, slowest } = report
        writeFileSync(
          progress,
          JSON.stringify(
            { inputs, findings: Object.fromEntries(kinds), slowest, dearest, doors: Object.fromEntries(doors) },
            null,
            2
          )
        )
      }
      const [found] = report.findings
      assert.isUndefined(found, found && `${report.findings.length} findings, the first: ${describeFinding(found)}`)
      // Inputs that are all taken, or all refused, would test nothing
      if (count < 20_000) return
      for (const [door, { refused, taken }] of report.doors) {
        assert.isAbove(taken, 0, `${door} refuses each input`)
        if (!door.startsWith("JsonSchema.accepts")) assert.isAbove(refused, 0, `${door} takes each input`)
      }
    })
  }
)
