import { build } from "esbuild"
import { spawn } from "node:child_process"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import type { Task } from "./worker.ts"

export interface Ended {
  readonly signal: NodeJS.Signals | null
  readonly code: number | null
  readonly errors: string
}

/** Makes one file of the worker, because a process that loads one file starts faster. */
export const prepare = async (directory: string): Promise<(task: Task) => Promise<Ended>> => {
  const outfile = join(directory, "worker.mjs")
  await build({
    entryPoints: [fileURLToPath(new URL("worker.ts", import.meta.url))],
    bundle: true,
    minify: true,
    platform: "node",
    format: "esm",
    outfile,
    logLevel: "error",
    // Some dependencies are CommonJS
    banner: { js: `import { createRequire } from "node:module"; const require = createRequire(import.meta.url);` }
  })
  return (task) => start(outfile, task)
}

const start = (file: string, task: Task): Promise<Ended> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["--no-warnings", file, JSON.stringify(task)], {
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, NODE_COMPILE_CACHE: join(file, "..", "compiled") }
    })
    let errors = ""
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      errors += text
    })
    child.on("error", reject)
    child.on("close", (code, signal) => resolve({ signal, code, errors }))
  })
