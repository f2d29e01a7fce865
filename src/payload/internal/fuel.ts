/**
 * Fuel: a count of the work that data from outside causes, with a limit.
 *
 * A door is one decode of an artefact, one validation of a value, or one choice among the routes of a step. Each door
 * has one counter, and everything behind the door takes from it before it works: schemas are compiled and converted,
 * patterns compiled and run, values compared, problems collected. One unit is about 250 nanoseconds. When the fuel is
 * used up, the door fails with a problem that names `maxFuel`.
 *
 * The amounts depend on the data alone: a schema from a cache takes as much as compiling it took, once per door.
 *
 * Tests read a counter in two ways: {@link measure} counts everything that an Effect does behind its doors, and a counter
 * that a test makes and hands to `interpret.checkValue` holds the units of that validation.
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as PayloadError from "../PayloadError.ts"
import { Limits, resolveLimits } from "./limits.ts"
import { isArray, isObject } from "./values.ts"

/** The counter of one door, and the costs of schemas that were paid with it: nothing is done for them again. */
export interface Fuel {
  readonly limit: number
  spent: number
  readonly paid: Set<object>
}

export const make = (limit: number): Fuel => ({ limit, spent: 0, paid: new Set() })

/** Takes an amount; false when there is not enough, and from then on. */
export const spend = (fuel: Fuel, amount: number): boolean => {
  fuel.spent += amount
  return fuel.spent <= fuel.limit
}

export const isEmpty = ({ limit, spent }: Fuel): boolean => spent > limit

/** The units for a text that is read or compared once. */
export const ofText = (length: number): number => length / 16

/** The units for a value that is read, compared or copied once. It may be deeper than the stack. */
export const ofValue = (value: unknown): number => {
  let units = 0
  const open = [value]
  while (open.length > 0) {
    const next = open.pop()
    units += typeof next === "string" ? 1 + ofText(next.length) : 1
    if (isArray(next)) for (const item of next) open.push(item)
    else if (isObject(next)) {
      for (const key of Object.keys(next)) {
        units += 1 + ofText(key.length)
        open.push(next[key])
      }
    }
  }
  return units
}

/** Why a door fails that has no fuel left. */
export const reasonOf = ({ limit, spent }: Fuel, path: string = ""): PayloadError.Reason => ({
  _tag: "TooLarge",
  what: "fuel",
  limit,
  found: Math.ceil(spent),
  path
})

/** Fails a door that has no fuel left; `path` is where it was used up. */
export const fail = (fuel: Fuel, what: string, path: string): Effect.Effect<never, PayloadError.PayloadError> =>
  Effect.fail(new PayloadError.PayloadError({ what, reason: reasonOf(fuel, path) }))

/** The counter of the door around. A service of a place: code that runs later must not keep it. */
export const Current = Context.Reference<Fuel | undefined>("effect-emissary/payload/Fuel", {
  defaultValue: () => undefined
})

/** The counter of the door around, or the counter of a new door under the current limits. */
export const current: Effect.Effect<Fuel> = Effect.flatMap(Effect.service(Current), (fuel) =>
  fuel === undefined ? Effect.map(resolveLimits(), ({ maxFuel }) => make(maxFuel)) : Effect.succeed(fuel)
)

/** Takes an amount from the door around, which fails when there is not enough. */
export const pay = (amount: number, what: string): Effect.Effect<void, PayloadError.PayloadError> =>
  Effect.flatMap(current, (fuel) => (spend(fuel, amount) ? Effect.void : fail(fuel, what, "")))

/** Makes one door of an Effect: all of it shares one counter. A door inside a door is a part of the outer one. */
export const door = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) =>
    fiber.getRef(Current) === undefined
      ? Effect.provideService(effect, Current, make(fiber.getRef(Limits).maxFuel))
      : effect
  )

/** A door with limits of its own, which the codecs inside it see, too. */
export const doorWithin = <A, E, R>(
  limits: Partial<Limits> | undefined,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  limits === undefined ? door(effect) : Effect.provideServiceEffect(door(effect), Limits, resolveLimits(limits))

/** Runs an Effect as one door, and returns the units that it spent. */
export const measure = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<{ readonly exit: Exit.Exit<A, E>; readonly spent: number }, never, R> =>
  Effect.flatMap(resolveLimits(), ({ maxFuel }) => {
    const fuel = make(maxFuel)
    const run = Effect.exit(Effect.provideService(effect, Current, fuel))
    return Effect.map(run, (exit) => ({ exit, spent: fuel.spent }))
  })
