/** A process that measures one row. It does what `harness.ts` asks for, one request at a time. */
import { Session, type Profiler } from "node:inspector"
import { setTimeout as sleep } from "node:timers/promises"
import { PerformanceObserver } from "node:perf_hooks"
import type { Request, Sample } from "./harness.ts"

let run: () => unknown = () => undefined
let end: (() => unknown) | undefined
let commits: (() => { readonly log: string; readonly count: number }) | undefined
let once: () => unknown = run
const held: Array<unknown> = []

const cpu = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1000
}

const start = async ({ module, options, together }: Extract<Request, { type: "start" }>): Promise<void> => {
  const [path = "", name = "make"] = module.split("#")
  const rows: Readonly<Record<string, (options: unknown) => Promise<() => unknown>>> = await import(path)
  const whole: { readonly end?: () => unknown; readonly commits?: typeof commits } = await import(path)
  const make = rows[name]
  if (make === undefined) throw new Error(`${path} has no row ${name}`)
  run = await make(options)
  end = whole.end
  commits = whole.commits
  once = together === 1 ? run : () => Promise.all(Array.from({ length: together }, run))
}

/** Repeats until both the runs and the time are reached, or `limit` milliseconds of CPU time are used up. */
const repeat = async (runs: number, milliseconds: number, limit: number): Promise<number> => {
  const [cpuBegin, begin] = [cpu(), performance.now()]
  let count = 0
  while (true) {
    await once()
    count += 1
    if (count >= runs && performance.now() - begin >= milliseconds) return count
    if (cpu() - cpuBegin >= limit) return count
  }
}

const block = async (runs: number, milliseconds: number): Promise<Sample> => {
  const [cpuBegin, begin] = [cpu(), performance.now()]
  const count = await repeat(runs, milliseconds, Infinity)
  return { cpu: (cpu() - cpuBegin) / count, wall: (performance.now() - begin) / count }
}

const collect = async (): Promise<void> => {
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.()
    await sleep(10)
  }
}

let collections = 0
new PerformanceObserver((list) => {
  collections += list.getEntries().length
}).observe({ entryTypes: ["gc"] })

/** KB per run that the heap grows by without a collection. Fewer runs when one came between. */
const allocation = async (runs: number): Promise<Sample> => {
  for (let count = runs; count >= 1; count = Math.floor(count / 2)) {
    await collect()
    collections = 0
    const before = process.memoryUsage().heapUsed
    for (let i = 0; i < count; i++) await run()
    const after = process.memoryUsage().heapUsed
    await sleep(20)
    if (collections === 0) return { memory: (after - before) / count / 1024 }
  }
  throw new Error("one run allocates more than the young generation of the heap")
}

/** KB per run that its result keeps. */
const heldBy = async (runs: number): Promise<Sample> => {
  held.length = 0
  await collect()
  const before = process.memoryUsage().heapUsed
  for (let i = 0; i < runs; i++) held.push(await run())
  await collect()
  return { memory: (process.memoryUsage().heapUsed - before) / runs / 1024 }
}

/** Commits per run. A log that begins again has lost those before. */
const committed = async (runs: number): Promise<Sample> => {
  if (commits === undefined) throw new Error("expected a module that counts commits")
  for (let attempt = 0; attempt < 5; attempt++) {
    const before = commits()
    for (let index = 0; index < runs; index++) await run()
    const after = commits()
    if (before.log === after.log) return { memory: (after.count - before.count) / runs }
  }
  throw new Error("one run fills the log of the database")
}

// Code that was loaded before the coverage begins is not counted well
const inspector = process.env["BENCH_CALLS"] === undefined ? undefined : new Session()
inspector?.connect()
inspector?.post("Profiler.enable")
inspector?.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false })

/** The calls of functions of this library and of Effect since the last look. */
const takeCalls = (): number => {
  let scripts: ReadonlyArray<Profiler.ScriptCoverage> = []
  // The inspector answers before it returns
  inspector?.post("Profiler.takePreciseCoverage", (_, { result }) => {
    scripts = result
  })
  const ours = scripts.filter(({ url }) => /\/(?:dist|chunks)\//.test(url))
  return ours
    .flatMap(({ functions }) => functions.map(({ ranges }) => ranges[0]?.count ?? 0))
    .reduce((sum, count) => sum + count, 0)
}

/** Calls of functions per run. */
const called = async (runs: number): Promise<Sample> => {
  takeCalls()
  for (let index = 0; index < runs; index++) await run()
  return { memory: takeCalls() / runs }
}

const respond = async (request: Request): Promise<unknown> => {
  switch (request.type) {
    case "start":
      return start(request)
    case "warm":
      return repeat(request.runs, request.milliseconds, request.limit)
    case "time":
      return block(request.runs, request.milliseconds)
    case "allocation":
      return allocation(request.runs)
    case "held":
      return heldBy(request.runs)
    case "commits":
      return committed(request.runs)
    case "calls":
      return called(request.runs)
    case "peak":
      return process.resourceUsage().maxRSS / 1024
    case "gate":
      return (await import("./gate.ts")).check(request.module)
  }
}

process.on("message", async (request: Request) => {
  try {
    process.send?.({ value: await respond(request) })
  } catch (cause) {
    process.send?.({ error: cause instanceof Error ? (cause.stack ?? cause.message) : String(cause) })
  }
})

process.on("disconnect", async () => {
  await end?.()
  process.exit()
})
