/** All kills of all scripts, see `test/worlds/main.ts`. */
import { Effect } from "effect"
import * as kills from "../worlds/kills.ts"
import { type Script, scripts } from "../worlds/scripts.ts"
import { install, packages } from "./packages.ts"
import { check, type Checked } from "./replays.ts"

/** Options of the command. `only`: a part of the name of a script. `every`: one of so many kills. */
export interface Options {
  readonly only: string | undefined
  readonly every: number
  readonly first: number
  readonly print: (line: string) => void
}

const sum = (one: Checked, other: Checked): Checked => ({
  streams: one.streams + other.streams,
  chunks: one.chunks + other.chunks,
  cut: one.cut + other.cut,
  live: one.live + other.live
})

/** Runs the kills of one script, and returns the row of its figures. */
const runScript = async (script: Script, number: number, { every, first, print }: Options): Promise<string> => {
  if (packages === undefined) throw new Error(`expected the published clients. Run ${install}`)
  const turns = await Effect.runPromise(kills.trunk(script, number))
  let figures: Checked = { streams: 0, chunks: 0, cut: 0, live: 0 }
  for (const turn of turns) figures = sum(figures, await check(packages, turn))
  const all = turns.flatMap((_, turn) => kills.killsOf(turns, turn).map((kill, place) => ({ kill, place, turn })))
  const chosen = all.filter((_, index) => index % every === first)
  for (const one of chosen) {
    try {
      const played = await Effect.runPromise(kills.again(script, number, turns, one))
      if (!played.killed) throw new Error("no process died")
      figures = sum(figures, await check(packages, played))
    } catch (error) {
      print(
        `${script.name}: turn ${one.turn}, kill ${one.place} at event ${one.kill.event}, ${one.kill.later} ms later`
      )
      throw error
    }
  }
  const { chunks, cut, live, streams } = figures
  const events = turns.at(-1)?.sequence ?? 0
  return `| ${[script.name, turns.length, events, chosen.length, streams, cut, chunks, live].join(" | ")} |`
}

export const run = async (options: Options): Promise<void> => {
  const { only, print } = options
  print("| script | turns | events | kills | streams | of them cut | chunks and events | pages that ended live |")
  print("| --- | --: | --: | --: | --: | --: | --: | --: |")
  for (const [number, script] of scripts.entries()) {
    if (only === undefined || script.name.includes(only)) print(await runScript(script, number, options))
  }
}
