/**
 * Counts of what runs, as the engine counts them: the same in every run, where a time is not. Import it before the
 * library, and in a file with modules of its own: code that was loaded before is not counted well.
 */
import { Session, type Profiler } from "node:inspector"
import { setFlagsFromString } from "node:v8"
import { Effect } from "effect"

/** Counts of each block: a function, or a branch or the body of a loop in one. Keys name file, function and place. */
export interface Calls {
  readonly blocks: ReadonlySet<string>
  readonly of: (block: string) => number
  /** The calls of the functions of that name in a file. Throws where there is none, so that a new name is noticed. */
  readonly named: (file: string, name: string) => number
}

// A function that a compiler of V8 has put into its caller is not counted, and when that happens depends on the load of the machine
for (const compiler of ["opt", "maglev"]) setFlagsFromString(`--no-${compiler}`)

const session = new Session()
session.connect()
session.post("Profiler.enable")
session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true })

/** The counts since the last call. The session answers before it returns. */
const take = (): ReadonlyArray<Profiler.ScriptCoverage> => {
  let taken: ReadonlyArray<Profiler.ScriptCoverage> = []
  session.post("Profiler.takePreciseCoverage", (_, { result }) => {
    taken = result
  })
  return taken
}

const library = new URL("../src/", import.meta.url).href

const fileOf = (url: string): string | undefined =>
  url.startsWith(library)
    ? url.slice(library.length)
    : /\/node_modules\/(effect)\/dist\/(.*)$/u.exec(url)?.slice(1).join("/")

/** The functions that ran in this process so far, by file and name. */
const functions = new Set<string>()

const read = (): Calls => {
  const counts = new Map<string, number>()
  const named = new Map<string, number>()
  for (const script of take()) {
    const file = fileOf(script.url)
    for (const { functionName, ranges } of file === undefined ? [] : script.functions) {
      const name = `${file} ${functionName}`
      functions.add(name)
      named.set(name, (named.get(name) ?? 0) + (ranges[0]?.count ?? 0))
      for (const { count, endOffset, startOffset } of ranges) counts.set(`${name} ${startOffset}-${endOffset}`, count)
    }
  }
  return {
    blocks: new Set(counts.keys()),
    of: (block) => counts.get(block) ?? 0,
    named: (file, name) => {
      const key = `${file} ${name}`
      if (!functions.has(key)) throw new Error(`expected a function ${name} in ${file}, got none that ran`)
      return named.get(key) ?? 0
    }
  }
}

/** Runs an effect and counts what ran of this library and of Effect meanwhile. */
export const countCalls = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Calls, E, R> =>
  Effect.andThen(Effect.sync(read), Effect.andThen(effect, Effect.sync(read)))
