/**
 * Runs worlds until one goes wrong: `node --import ./test/worlds/mutate.ts test/worlds/noticed.ts <first seed> <seeds> [<home>]`. Prints a line of
 * JSON for each world, and the last world has the `problem`. `mutants.ts` starts it for each mutant.
 */
import { Effect, Result } from "effect"
import type { Simulation } from "effect-emissary/testing"
import * as worlds from "./worlds.ts"

const problemOf = (error: Simulation.SimulationError): string =>
  error.reason._tag === "Failed" ? error.reason.problem : `${error.reason._tag}: ${error.message}`

const [first = 1, count = 1] = process.argv.slice(2, 4).map(Number)
const home = worlds.homes.find((one) => one === process.argv[4]) ?? "process"
// The caches of the process are filled
await Effect.runPromise(Effect.result(worlds.run(0, { home })))
for (let seed = first; seed < first + count; seed++) {
  const result = await Effect.runPromise(Effect.result(worlds.run(seed, { home })))
  const problem = Result.isFailure(result) ? { problem: problemOf(result.failure) } : {}
  process.stdout.write(`${JSON.stringify({ seed, ...problem })}\n`)
  if (Result.isFailure(result)) break
}
