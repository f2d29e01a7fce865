/**
 * Types into a chat (chat.ts), kills its process with `kill -9` while a tool runs, and starts it again: it prints the chat, ends the
 * turn that was cut off, and continues.
 */
import assert from "node:assert"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"

const directory = mkdtempSync(join(tmpdir(), "emissary-chat-"))
const args = [fileURLToPath(new URL("chat.ts", import.meta.url)), join(directory, "chat.sqlite")]

const start = () => {
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  /** Types a line, and prints the lines of the chat up to the line that begins with `end`. */
  const type = async (text: string | undefined, end: string) => {
    if (text !== undefined) console.log(`You: ${text}`)
    if (text !== undefined) child.stdin.write(`${text}\n`)
    for (let line = ""; !line.trim().startsWith(end); console.log(line)) {
      const next = await lines.next()
      assert(next.done !== true, `The chat ended before it printed "${end}".`)
      line = next.value
    }
  }
  return { child, type }
}

const first = start()
await first.type("Hello, I am Ada.", "Assistant: Hello")
await first.type("Where is parcel 7?", "Assistant: Parcel 7")
await first.type("And parcel 8?", "(asks the courier about parcel 8)")
first.child.kill("SIGKILL")
console.log("(the process was killed)")

const second = start()
await second.type(undefined, "Assistant: Parcel 8")
await second.type("Thank you.", "Assistant: You are welcome.")
second.child.stdin.end()
assert.deepStrictEqual(await once(second.child, "exit"), [0, null])

rmSync(directory, { recursive: true })
