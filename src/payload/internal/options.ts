/**
 * Options of callers: the numbers, times and names that cannot be meant, and the problems of others in the same words. A call with a
 * typed error fails with the problem, and a layer dies with it when it is built.
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import { quote } from "./base.ts"
import { kindOf } from "./values.ts"

/** The values that an option may have, in words and as a predicate. `undefined` leaves an option out, and is always allowed. */
export interface Allowed {
  readonly expected: string
  readonly fits: (value: unknown) => boolean
  readonly members?: Readonly<Record<string, Allowed>>
}

/** The names of the options of a call, each with its values. */
export type Options<O> = { readonly [K in keyof O]-?: Allowed }

/** A value that is looked at elsewhere. */
export const anything: Allowed = { expected: "a value", fits: () => true }

/** An object with options of its own. */
export const group = (members: Readonly<Record<string, Allowed>>): Allowed => ({
  expected: "an object",
  fits: Predicate.isObject,
  members
})

/** A number that is rounded down where a count is needed. `Infinity` is no limit. */
export const from = (least: number): Allowed => ({
  expected: `a number from ${least} on`,
  fits: (value) => Predicate.isNumber(value) && value >= least
})

/** A count, or `Infinity` for no limit. */
export const wholeFrom = (least: number): Allowed => ({
  expected: `a whole number from ${least} on`,
  fits: (value) => (Number.isSafeInteger(value) ? Number(value) >= least : value === Number.POSITIVE_INFINITY)
})

export const or = (word: string, { expected, fits }: Allowed): Allowed => ({
  expected: `${expected} or ${quote(word)}`,
  fits: (value) => value === word || fits(value)
})

const duration = (expected: string, is: (duration: Duration.Duration) => boolean): Allowed => ({
  expected,
  // Sound: a value that is no duration has none. NaN would be none at all
  fits: (value) => !Number.isNaN(value) && Option.exists(Duration.fromInput(value as Duration.Input), is)
})

/** A time that may be over already. */
export const time = duration("a duration from 0 on", (duration) => !Duration.isNegative(duration))

export const someTime = duration("a duration of more than 0", Duration.isPositive)

/** A time that a timer can wait for. */
export const endingTime = (least: Duration.Input = 0): Allowed =>
  duration(
    `a duration ${least === 0 ? "of more than 0" : `of at least ${String(least)}`} that ends`,
    (duration) =>
      Duration.isFinite(duration) &&
      Duration.isPositive(duration) &&
      Duration.isGreaterThanOrEqualTo(duration, Duration.fromInputUnsafe(least))
  )

const shown = (value: unknown): string => {
  if (Predicate.isNumber(value)) return `the number ${value}`
  if (!Predicate.isString(value)) return kindOf(value)
  return value === "" ? "an empty text" : `${kindOf(value)} of ${value.length} characters`
}

/** The problem of a value with another type or size. */
export const wrong = (name: string, expected: string, value: unknown): string =>
  `expected ${expected} as ${name}, got ${shown(value)}`

/** The problem of a name that no option has. A value under it would be ignored, and the caller believes in it. */
export const unknownName = (names: ReadonlyArray<string>, found: object): string | undefined => {
  const name = Object.entries(found).find(([name, value]) => value !== undefined && !names.includes(name))?.[0]
  return name === undefined ? undefined : `expected options among ${names.join(", ")}, got ${quote(name)}`
}

/** The first problem of options. `path` is the place before their names. */
export const problemOf = (
  allowed: Readonly<Record<string, Allowed>>,
  options: object,
  path: string = ""
): string | undefined => {
  for (const [name, { expected, fits, members }] of Object.entries(allowed)) {
    const value: unknown = Reflect.get(options, name)
    if (value === undefined) continue
    if (!fits(value)) return wrong(path + name, expected, value)
    const inside = members && Predicate.isObject(value) ? problemOf(members, value, `${path}${name}.`) : undefined
    if (inside !== undefined) return inside
  }
  return undefined
}

/** Dies with the first problem of the options of a layer. */
export const check = (
  what: string,
  allowed: Readonly<Record<string, Allowed>>,
  options: object = {}
): Effect.Effect<void> =>
  Effect.suspend(() => {
    const problem = problemOf(allowed, options)
    return problem === undefined ? Effect.void : Effect.die(new Error(`${what}: ${problem}`))
  })
