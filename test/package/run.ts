import { assert } from "@effect/vitest"
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { delimiter, join } from "node:path"
import { fileURLToPath } from "node:url"
import { beforeAll } from "vitest"

export const root = fileURLToPath(new URL("../..", import.meta.url))

/** The environment of an `npm run` script: the repository's own tools and its own Node come first. */
const env = {
  ...process.env,
  NO_COLOR: "1",
  PATH: [join(root, "node_modules", ".bin"), process.env["PATH"]].join(delimiter)
}

/** Runs a program to its end; `output` holds both of its streams, `stdout` the first alone. */
export const run = (
  command: string,
  args: ReadonlyArray<string>,
  cwd: string = root
): Promise<{ readonly code: number | null; readonly stdout: string; readonly output: string }> =>
  new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] })
    let stdout = ""
    let output = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text
      output += text
    })
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      output += text
    })
    child.on("error", reject)
    child.on("close", (code) => resolve({ code, stdout, output }))
  })

/** For tests of the build that `npm test` makes before its tests. */
export const requireBuild = (): void => {
  beforeAll(() => {
    assert.isTrue(existsSync(join(root, "chunks", "index.js")), "This runs from the build: npm run prepack")
  })
}
