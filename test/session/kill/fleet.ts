/** The processes of the runners: started, killed, stopped, continued, and started again. */
import { build } from "esbuild"
import { type ChildProcess, spawn } from "node:child_process"
import { openSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import type * as tasks from "./task.ts"

export interface Runner {
  readonly name: string
  readonly process: ChildProcess
  readonly pid: number
  /** Fulfilled when it has its layers, or has ended. */
  readonly ready: Promise<void>
  readonly ended: Promise<void>
  stopped: boolean
  over: boolean
}

/** Makes one file of the runner, because a process that loads one file starts three times as fast. */
const bundle = async (directory: string): Promise<string> => {
  const outfile = join(directory, "runner.mjs")
  await build({
    entryPoints: [fileURLToPath(new URL("runner.ts", import.meta.url))],
    bundle: true,
    platform: "node",
    format: "esm",
    outfile,
    // Packages in CommonJS ask for the modules of Node when they run
    banner: {
      js: 'import { createRequire as makeRequire } from "node:module"; const require = makeRequire(import.meta.url);'
    },
    external: ["pg-native"],
    logLevel: "error"
  })
  return outfile
}

let bundled: Promise<string> | undefined

export interface Options {
  readonly directory: string
  readonly runners: ReadonlyArray<Omit<tasks.Task, "version">>
}

export const make = async ({ directory, runners }: Options) => {
  // The first directory of a process is there until its end
  const script = await (bundled ??= bundle(directory))
  const current = new Map<string, Runner>()
  const versions = new Map<string, number>()
  /** Every process that there was, and how it ended. */
  const all: Array<Runner> = []

  const start = (name: string): Runner => {
    const task = runners.find(({ runner }) => runner === name)
    if (task === undefined) throw new Error(`no runner ${name}`)
    const version = versions.get(name) ?? 1
    const log = openSync(join(directory, `${name}.log`), "a")
    const child = spawn(process.execPath, ["--no-warnings", script, JSON.stringify({ ...task, version })], {
      stdio: ["ignore", log, log, "ipc"]
    })
    child.setMaxListeners(0)
    const ended = new Promise<void>((resolve) => {
      child.on("error", () => resolve())
      child.on("exit", () => resolve())
    })
    const ready = new Promise<void>((resolve) => {
      const onReady = (reply: tasks.Reply) => {
        if (!("ready" in reply)) return
        child.off("message", onReady)
        resolve()
      }
      child.on("message", onReady)
      void ended.then(resolve)
    })
    const runner: Runner = { name, process: child, pid: child.pid ?? 0, ready, ended, stopped: false, over: false }
    void ended.then(() => {
      runner.over = true
    })
    current.set(name, runner)
    all.push(runner)
    return runner
  }

  const end = async (name: string, signal: NodeJS.Signals): Promise<Runner | undefined> => {
    const runner = current.get(name)
    if (runner === undefined || runner.over) return undefined
    runner.process.kill(signal)
    await runner.ended
    return runner
  }

  return {
    names: runners.map(({ runner }) => runner),
    all,
    current: (name: string) => current.get(name),
    /** The runners that can answer. */
    alive: () => [...current.values()].filter(({ over, stopped }) => !over && !stopped),
    start,
    /** Returns the process if there was one to kill. */
    kill: (name: string) => end(name, "SIGKILL"),
    /** Starts the runner with other instructions of its agents, after the old process has ended by itself. */
    deploy: async (name: string, version: number): Promise<boolean> => {
      versions.set(name, version)
      const patience = setTimeout(() => void end(name, "SIGKILL"), 120_000)
      const before = Date.now()
      await end(name, "SIGTERM")
      clearTimeout(patience)
      await start(name).ready
      return Date.now() - before < 120_000
    },
    stop: (name: string): Runner | undefined => {
      const runner = current.get(name)
      if (runner === undefined || runner.over) return undefined
      runner.stopped = true
      runner.process.kill("SIGSTOP")
      return runner
    },
    continue: (runner: Runner): void => {
      runner.stopped = false
      runner.process.kill("SIGCONT")
    },
    /** Ends what is left. */
    close: async (): Promise<void> => {
      for (const runner of all) {
        if (runner.over) continue
        runner.process.kill("SIGKILL")
        await runner.ended
      }
    }
  }
}

export type Fleet = Awaited<ReturnType<typeof make>>
