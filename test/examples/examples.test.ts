import { assert, describe, it } from "@effect/vitest"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { requireBuild, root, run } from "../package/run.ts"
import { assertInOrder, expected } from "./page.ts"

/** The quickstart and the chat in the browser have tests of their own. */
const ownTests = new Set(["quickstart", "web-chat"])

/** Lines that must appear exactly this often. */
const times: Record<string, Record<string, number>> = {
  // A refund runs once, and only after the yes
  approval: { "(refund runs)": 1, "(get_balance runs)": 1 },
  // The next process makes no call again: one was stored, and the other was cut off
  chat: { "(reads the log of parcel 8)": 1, "(asks the courier about parcel 8)": 1 },
  // No call that had begun is made twice
  workflow: { "(get_order begins)": 1, "(reserve begins)": 1, "(refund begins)": 1 },
  // Paid once, after the yes; the invoice is not read again
  "plan-approval": { "(pays 250 for 7)": 1 },
  // The call that was lost with its runner is not repeated
  fleet: { " runs refund 8)": 1 },
  // No secret is repeated
  "decode-untrusted": { "sk-123": 0 }
}

const planCites = Object.fromEntries(
  ["research", "triage", "fan-out", "approval", "loop"].map((name) => [`plan-${name}`, "PLAN-10 "])
)

const cites: Record<string, string> = {
  approval: "TOOL-7 ",
  chat: "KEEP-9 ",
  "decode-untrusted": "L2 ",
  fleet: "DUR-9 ",
  telemetry: "OTEL-2 ",
  workflow: "DUR-6 ",
  ...planCites
}

describe("EX-1 examples", () => {
  requireBuild()

  it("EX-1 all are tested, and listed by npm run example", async () => {
    const names = readdirSync(join(root, "examples")).toSorted()
    assert.deepStrictEqual(Object.keys(expected).toSorted(), names)
    for (const name of names) if (name !== "web-chat") assert.isNotEmpty(expected[name], name)
    const { code, output } = await run("node", ["scripts/example.ts"])
    assert.strictEqual(code, 1)
    assert.include(output, names.join(", "))
  })

  for (const [name, parts] of Object.entries(expected)) {
    if (ownTests.has(name)) continue
    it(`EX-1 ${cites[name] ?? ""}${name}`, async () => {
      const { code, output } = await run("node", [`examples/${name}/main.ts`])
      assert.strictEqual(code, 0, output)
      assertInOrder(output, parts)
      for (const [part, count] of Object.entries(times[name] ?? {})) {
        assert.strictEqual(
          output.split(part).length - 1,
          count,
          `how often ${JSON.stringify(part)} stands in:\n${output}`
        )
      }
    })
  }
})
