import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"

/** One rule. It fails with a sentence, and may use this part of the store alone. */
export interface Rule<S> {
  readonly name: string
  readonly check: (store: S, part: string) => Effect.Effect<void, unknown>
}

export const show = (value: unknown): string => JSON.stringify(value) ?? "nothing"

export const expect = (what: string, expected: unknown, found: unknown): Effect.Effect<void, string> =>
  Equal.equals(expected, found) ? Effect.void : Effect.fail(`${what}: expected ${show(expected)}, found ${show(found)}`)

export const expectSome = <A>(what: string, found: Option.Option<A>): Effect.Effect<A, string> =>
  Option.isSome(found) ? Effect.succeed(found.value) : Effect.fail(`${what}: expected a value, found none`)

/** The error that an effect must end with. */
export const expectError = <A, E extends { readonly _tag: string }, Tag extends E["_tag"], R>(
  what: string,
  tag: Tag,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<Extract<E, { readonly _tag: Tag }>, string, R> =>
  Effect.matchEffect(effect, {
    onSuccess: (value) => Effect.fail(`${what}: expected ${tag}, found the success ${show(value)}`),
    onFailure: (error) =>
      error._tag === tag
        ? // The tag says which member of the union it is
          Effect.succeed(error as Extract<E, { readonly _tag: Tag }>)
        : Effect.fail(`${what}: expected ${tag}, found ${show(error)}`)
  })

export const problemOf = (cause: Cause.Cause<unknown>): string => {
  const fail = cause.reasons.find(Cause.isFailReason)
  return typeof fail?.error === "string" ? fail.error : Cause.pretty(cause)
}
