/** The sources that agents need to begin a turn, in a file: they fail or hang for a while, in all processes. */
import * as Effect from "effect/Effect"
import { existsSync, readFileSync, writeFileSync } from "node:fs"

export type Weather = "fair" | "down" | "hanging"

/** A version of the agents that breaks the calls which wait for approval: each third one. */
export const isBreaking = (version: number): boolean => version % 3 === 0

export const set = (file: string, weather: Weather): void => writeFileSync(file, weather)

const read = (file: string): string => (existsSync(file) ? readFileSync(file, "utf8") : "fair")

/** Succeeds in fair weather. */
export const pass = (file: string): Effect.Effect<void, string> =>
  Effect.suspend(() => {
    const weather = read(file)
    if (weather === "hanging") return Effect.andThen(Effect.sleep(30), pass(file))
    return weather === "down" ? Effect.fail("the source is down") : Effect.void
  })
