/**
 * An agent inside a workflow of `effect/workflow`.
 *
 * The first process is killed while a tool runs that must not run twice. The second one makes the body run again: the calls that had
 * ended are found, and the lost one has an unknown outcome. It is killed while a person decides, and a third process ends the work.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"

const program = fileURLToPath(new URL("process.ts", import.meta.url))
const directory = mkdtempSync(join(tmpdir(), "emissary-workflow-"))
const file = join(directory, "workflow.sqlite")

/** Starts a process, and kills it at the first line that begins so. */
const run = async (killAt: string | undefined, ...args: ReadonlyArray<string>): Promise<string> => {
  console.log("A process begins.")
  const child = spawn(process.execPath, ["--no-warnings", program, file, ...args], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  const exited = once(child, "exit")
  let found = ""
  for await (const line of createInterface(child.stdout)) {
    if (killAt === undefined || !line.trim().startsWith(killAt)) {
      if (!line.startsWith("asks ")) console.log(line)
      continue
    }
    child.kill("SIGKILL")
    found = line
    break
  }
  await exited
  return found
}

console.log(`${(await run("(reserve begins)")).trim()} (the process is killed)`)
const asked = (await run("asks ")).slice("asks ".length)
console.log("May I refund 25 EUR? (the process is killed; a person thinks for a week, and agrees)")
await run(undefined, asked)
rmSync(directory, { recursive: true })
