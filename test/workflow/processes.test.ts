/**
 * Real processes with a runner of a cluster on SQLite, killed with SIGKILL in the middle of a call and started again.
 */
import { assert, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { beforeAll } from "vitest"
import { makeDirectory } from "../store/directory.ts"
import { oneIn } from "../full.ts"
import * as workers from "../store/workers.ts"
import type { Task } from "./worker.ts"

const directory = makeDirectory()
const outfile = join(directory, "workflow.mjs")

beforeAll(() =>
  build({
    entryPoints: [fileURLToPath(new URL("worker.ts", import.meta.url))],
    bundle: true,
    platform: "node",
    format: "esm",
    outfile,
    logLevel: "error",
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" }
  })
)

const start = (task: Task) => workers.start([outfile, JSON.stringify(task)])

const after = (lines: ReadonlyArray<string>, word: string) =>
  lines.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length + 1))

/** The calls of a whole run, in order. The second half is the work of the agent by itself. */
const half = [
  "model Outer.0",
  "look 1",
  "note 2",
  "model Outer.1",
  "model Inner.0",
  "note 5",
  "look 6",
  "model Inner.1",
  "model Outer.2",
  "pay 4",
  "model Outer.3"
]
const whole = ["prepare", ...half, ...half]

const isRepeatable = (name: string) => /^(model|look|prepare)/.test(name)

const transcriptOf = (lines: ReadonlyArray<string>): ReadonlyArray<{ readonly role: string }> =>
  JSON.parse(after(lines, "transcript")[0] ?? "[]")

describe("DUR-6 a workflow whose process is killed", () => {
  let expected: ReadonlyArray<{ readonly role: string }>

  it("DUR-6 without a kill each call is made once", async () => {
    const { code, errors, lines } = await start({ filename: join(directory, "whole.sqlite"), decides: true }).ended
    assert.strictEqual(code, 0, errors)
    assert.deepStrictEqual(after(lines, "begin"), whole)
    assert.deepStrictEqual(after(lines, "result"), [`"Done."`])
    expected = transcriptOf(lines)
    assert.lengthOf(
      expected.filter(({ role }) => role === "assistant"),
      4
    )
  })

  // Each kind of call, alone and in an agent inside; the first half runs in a plan, the second has the transcript
  for (const at of oneIn(3, [2, 0, 8, 10, 6, 16, 21, 14])) {
    it(`DUR-6 killed during call ${at}, ${whole[at]}: no completed call repeats`, async () => {
      const filename = join(directory, `killed-${at}.sqlite`)
      const first = start({ filename, endless: at, decides: true })
      // A line at each begin and end, and one for each question before
      const asked = at <= whole.indexOf("pay 4") - 1 ? 0 : at <= whole.lastIndexOf("pay 4") - 1 ? 1 : 2
      // The result of the first half is a line of its own
      first.killAfter(2 * at + 1 + asked + (at > half.length ? 1 : 0))
      const killed = await first.ended
      assert.strictEqual(killed.signal, "SIGKILL", killed.errors)
      const begun = after(killed.lines, "begin")
      assert.strictEqual(begun.at(-1), whole[at])

      const { code, errors, lines } = await start({ filename, decides: true }).ended
      assert.strictEqual(code, 0, errors)
      const again = after(lines, "begin")
      const name = whole[at] ?? ""
      const rest = whole.slice(isRepeatable(name) ? at : at + 1)
      assert.deepStrictEqual(again, rest)
      assert.deepStrictEqual(after(lines, "result"), [`"Done."`])
      if (isRepeatable(name) || at <= half.length) assert.deepStrictEqual(transcriptOf(lines), expected)
      else assert.include(JSON.stringify(transcriptOf(lines)), `"type":"interrupted"`)
    })
  }

  it("DUR-6 another process decides, while none runs the workflow", async () => {
    const filename = join(directory, "asked.sqlite")
    const first = start({ filename, decides: false })
    first.killAfter(2 * whole.indexOf("pay 4") + 1)
    const [asked = ""] = after((await first.ended).lines, "asks")
    const pending = JSON.parse(asked)
    const second = start({ filename, decides: true, pending })
    const { code, errors, lines } = await second.ended
    assert.strictEqual(code, 0, errors)
    assert.deepStrictEqual(after(lines, "begin"), whole.slice(whole.indexOf("pay 4")))
  })
})
