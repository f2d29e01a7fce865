import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { build } from "esbuild"
import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import type { Task } from "./layers.ts"

/** Makes one file of the worker, because a process that loads one file starts three times as fast. */
export const prepare = async (directory: string): Promise<string> => {
  const outfile = join(directory, "worker.mjs")
  await build({
    entryPoints: [fileURLToPath(new URL("worker.ts", import.meta.url))],
    bundle: true,
    platform: "node",
    format: "esm",
    outfile,
    // Packages in CommonJS ask for the modules of Node when they run
    banner: {
      js: 'import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);'
    },
    external: ["pg-native"],
    logLevel: "error"
  })
  return outfile
}

export const freePort = Effect.promise(
  () =>
    new Promise<number>((resolve) => {
      const server = createServer().listen(0, "127.0.0.1", () => {
        const address = server.address()
        server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
      })
    })
)

export interface Runner {
  readonly pid: number
  /** Waits until it has printed so many lines. */
  readonly printed: (count: number) => Effect.Effect<ReadonlyArray<string>>
  /** Waits until it has printed a line with this text. */
  readonly printedUntil: (text: string) => Effect.Effect<ReadonlyArray<string>>
  /** Ends it, and waits for that. */
  readonly end: (signal: "SIGKILL" | "SIGTERM") => Effect.Effect<void>
}

/** A runner, killed at the end of the test if it is still there. */
export const start = (script: string, task: Task) =>
  Effect.acquireRelease(
    Effect.sync((): Runner => {
      const child = spawn(process.execPath, ["--no-warnings", script, JSON.stringify(task)], {
        stdio: ["ignore", "pipe", "inherit"]
      })
      let text = ""
      child.stdout.setEncoding("utf8").on("data", (more: string) => {
        text += more
      })
      const ended = new Promise<void>((resolve) => child.on("exit", () => resolve()))
      const lines = () => text.split("\n").slice(0, -1)
      const printed = (isThere: (lines: ReadonlyArray<string>) => boolean) =>
        Effect.andThen(
          until(() => isThere(lines()) || child.exitCode !== null),
          Effect.sync(() => {
            assert.isTrue(isThere(lines()), "the runner ended")
            return lines()
          })
        )
      return {
        pid: child.pid ?? 0,
        printed: (count) => printed((lines) => lines.length >= count),
        printedUntil: (text) => printed((lines) => lines.some((line) => line.includes(text))),
        end: (signal) =>
          Effect.promise(() => {
            child.kill(signal)
            return ended
          })
      }
    }),
    ({ end }) => end("SIGKILL")
  )

/** Waits for something that no event reports. */
export const until = (condition: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => (condition() ? Effect.void : Effect.andThen(Effect.sleep("20 millis"), until(condition))))

export const readLedger = (file: string): ReadonlyArray<string> => readFileSync(file, "utf8").split("\n").slice(0, -1)
