/**
 * An approval that survives restart.
 *
 * The first process runs the plan until its clerk wants to pay, and ends. The run is a session in one SQLite file. Another process finds
 * it, with the question still open, and it continues at the same point: the invoice is not read again, and it is paid once.
 */
import assert from "node:assert"
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const program = fileURLToPath(new URL("process.ts", import.meta.url))

for (const decision of ["yes", "no"]) {
  const directory = mkdtempSync(join(tmpdir(), "emissary-approval-"))
  const file = join(directory, "runs.sqlite")
  const run = (...args: ReadonlyArray<string>) =>
    spawnSync(process.execPath, [program, file, ...args], { stdio: "inherit" })

  assert.strictEqual(run().status, 0)
  assert.strictEqual(run(decision).status, 0)
  rmSync(directory, { recursive: true })
}
