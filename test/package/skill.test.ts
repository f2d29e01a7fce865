/** The programs that a coding agent wrote with the skill as its only text run as they were written: `test/skill`. */
import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"
import { requireBuild, root, run } from "./run.ts"

const program = (name: string) => join(root, "test", "skill", name)

describe("DOCS-4 programs written with the skill alone", () => {
  requireBuild()

  it("DOCS-4 a job that asks a person, twice", async () => {
    const { code, output } = await run("node", [program("ask-job.ts")])
    assert.strictEqual(code, 0, output)
    assert.deepStrictEqual(output.trim().split("\n"), [
      "asked: Question",
      "asked: Approval",
      '{"orderId":"o-M","size":"M"}'
    ])
  })

  it("DOCS-4 a chat over HTTP, whose server is killed between two messages", async () => {
    const folder = await mkdtemp(join(tmpdir(), "emissary-skill-"))
    onTestFinished(() => rm(folder, { recursive: true }))
    const serve = async () => {
      const child = spawn(process.execPath, [program("chat-server.ts"), join(folder, "chat.sqlite")], {
        cwd: root,
        env: { ...process.env, PORT: "0", NODE_NO_WARNINGS: "1" },
        stdio: ["ignore", "pipe", "ignore"]
      })
      onTestFinished(() => void child.kill("SIGKILL"))
      for (let text = ""; ;) {
        const [chunk] = await once(child.stdout, "data")
        text += String(chunk)
        const url = /http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0]
        if (url !== undefined) return { child, url: `${url}/sessions` }
      }
    }
    const say = async (url: string, text: string) => {
      const { code, output } = await run("env", [`URL=${url}`, "node", program("chat-client.ts"), text])
      assert.strictEqual(code, 0, output)
      return output.trim()
    }
    const first = await serve()
    assert.strictEqual(await say(first.url, "one"), "one")
    first.child.kill("SIGKILL")
    await once(first.child, "exit")
    const second = await serve()
    assert.strictEqual(await say(second.url, "two"), "one | two")
  })
})
