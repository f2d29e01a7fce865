import { assert } from "@effect/vitest"
import { Effect } from "effect"

/** The result of a run that ends with this outcome. */
export const endsAs = <A extends { readonly outcome: string }, const Outcome extends A["outcome"], E, R>(
  outcome: Outcome,
  run: Effect.Effect<A, E, R>
) => {
  const isExpected = (result: A): result is Extract<A, { readonly outcome: Outcome }> => result.outcome === outcome
  return Effect.map(run, (result) => {
    assert(isExpected(result), `expected ${outcome}, found ${result.outcome}`)
    return result
  })
}

interface Reasoned {
  readonly reason: { readonly _tag: string }
}

/** The error of an effect that fails for this reason. */
export const failsFor = <A, E extends Reasoned, const Tag extends E["reason"]["_tag"], R>(
  tag: Tag,
  effect: Effect.Effect<A, E, R>
) => {
  type Expected = E & { readonly reason: Extract<E["reason"], { readonly _tag: Tag }> }
  const isExpected = (error: E): error is Expected => error.reason._tag === tag
  return Effect.map(Effect.flip(effect), (error) => {
    assert(isExpected(error), `expected ${tag}, found ${error.reason._tag}`)
    return error
  })
}

const hasState = <E extends { readonly state?: unknown }>(
  error: E
): error is E & { readonly state: NonNullable<E["state"]> } => error.state !== undefined

/** The error of a run that fails for this reason after it began, with the state that it reached. */
export const failsMidway = <
  A,
  E extends Reasoned & { readonly state?: unknown },
  const Tag extends E["reason"]["_tag"],
  R
>(
  tag: Tag,
  run: Effect.Effect<A, E, R>
) =>
  Effect.map(failsFor(tag, run), (error) => {
    assert(hasState(error), "expected an error with a state")
    return error
  })
