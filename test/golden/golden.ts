import { assert } from "@effect/vitest"
import { Effect, type Schema } from "effect"
import { kinds } from "./errorKinds.ts"

/** A JSON object of a case. */
export interface Json {
  readonly [key: string]: Schema.Json
}

/** An expected error: our name for its kind, and what its message has to mention. */
export interface ExpectedError {
  readonly kind: string
  readonly mentions?: ReadonlyArray<string>
}

/** One case of a golden file, as `VOCABULARY.md` describes it. */
export interface Case {
  readonly id: string
  readonly group: string
  readonly title: string
  readonly given: Json
  readonly expect: Json
  readonly era?: "older" | "documented" | "newest"
  readonly deviation?: { readonly expect: Json; readonly reason: string }
}

/** What an adapter knows of the case besides `given` and `expect`. */
export interface Context {
  readonly id: string
  readonly title: string
  readonly era: "older" | "documented" | "newest" | undefined
}

/**
 * An adapter runs one case against the library. It fails, or dies with an
 * assertion error, if what the library does is not what `expect` says.
 */
export type Run = (given: Json, expect: Json, context: Context) => Effect.Effect<void, unknown>

/** The value as JSON: what remains when it is written and read again. */
export const toJson = (value: unknown): Schema.Json => JSON.parse(JSON.stringify(value) ?? "null")

/** Compares as JSON: deep, whatever the order of keys, `-0` is `0`. */
export const equal = (actual: unknown, expected: unknown, what = "value"): void =>
  assert.deepStrictEqual(toJson(actual), toJson(expected), what)

/** Checks that an error of the library is the expected one. */
export const matchError = (error: unknown, expected: ExpectedError): void => {
  const message = error instanceof Error ? error.message : String(error)
  assert.include(kinds(error), expected.kind, `the kinds of: ${message}`)
  for (const mention of expected.mentions ?? []) assert.include(message, mention)
}

/**
 * The common form of a case: an effect that succeeds, with a value to check, or
 * fails with the `error` of `expect`.
 */
export const checkExit = <A>(
  effect: Effect.Effect<A, unknown>,
  expect: Json,
  check: (value: A) => void | Effect.Effect<void, unknown>
): Effect.Effect<void, unknown> =>
  Effect.matchEffect(effect, {
    onFailure: (error) =>
      "error" in expect
        ? // the vocabulary fixes the form of an expected error
          Effect.sync(() => matchError(error, expect.error as unknown as ExpectedError))
        : Effect.fail(error),
    onSuccess: (value) =>
      Effect.suspend(() => {
        if ("error" in expect) assert.fail(`expected the error ${JSON.stringify(expect.error)}, found a value`)
        return check(value) ?? Effect.void
      })
  })
