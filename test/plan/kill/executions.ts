import * as Effect from "effect/Effect"
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs"

/** Which steps were run, in a file that outlives the process: a line per execution, on the disk before it counts. */
export const open = (file: string) => ({
  ran: (step: string): Effect.Effect<void> =>
    Effect.sync(() => {
      const descriptor = openSync(file, "a")
      writeSync(descriptor, `${step}\n`)
      fsyncSync(descriptor)
      closeSync(descriptor)
    })
})

/** The name of the model among the steps. */
export const model = "the model"

/** The number of occurrences of each name. */
export const times = (names: ReadonlyArray<string>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return counts
}

/** The number of runs of each step. */
export const read = (file: string): ReadonlyMap<string, number> =>
  times(
    existsSync(file)
      ? readFileSync(file, "utf8")
          .split("\n")
          .filter((line) => line !== "")
      : []
  )
