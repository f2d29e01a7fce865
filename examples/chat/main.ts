/**
 * A chat that survives.
 *
 * Each line is a process of its own (chat.ts) that finds the events of the run in one SQLite file. One is killed while two tools
 * run at once: the next one has the result that was stored, and answers. As the chat grows, the model is sent less than what is
 * kept.
 */
import assert from "node:assert"
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const directory = mkdtempSync(join(tmpdir(), "emissary-chat-"))
const file = join(directory, "chat.sqlite")
const chat = (...args: ReadonlyArray<string>) =>
  spawnSync(process.execPath, [fileURLToPath(new URL("chat.ts", import.meta.url)), file, ...args], {
    stdio: "inherit"
  })

assert.strictEqual(chat("Hello, I am Ada.").status, 0)
assert.strictEqual(chat("Where is parcel 7?").status, 0)

assert.strictEqual(chat("And parcel 8?", "--die").signal, "SIGKILL")
console.log("  (the process was killed)")
assert.strictEqual(chat().status, 0)

assert.strictEqual(chat("And parcel 9?").status, 0)
assert.strictEqual(chat("Thank you.").status, 0)

rmSync(directory, { recursive: true })
