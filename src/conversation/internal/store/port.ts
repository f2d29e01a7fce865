/**
 * What every layer has in common: keys, values and options pass the door of
 * `payload`, what the storage holds is JSON text, pages are cut, errors are named.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Json from "../../../payload/Json.ts"
import * as Limits from "../../../payload/Limits.ts"
import { invalid, PayloadError, TooLarge } from "../../../payload/PayloadError.ts"
import type { Service } from "../../VersionedStore.ts"
import { Refused, Unreadable, type Reason, VersionConflict, VersionedStoreError } from "../../VersionedStoreError.ts"
import type { Range } from "./keys.ts"

export interface Raw {
  readonly text: string
  readonly version: string
}

/** The version found is the failure of an attempt. */
export type Attempt<A> = Effect.Effect<Result.Result<A, Option.Option<string>>, Reason>

export interface Storage {
  readonly get: (key: string) => Effect.Effect<Option.Option<Raw>, Reason>
  readonly set: (key: string, expected: Option.Option<string>, text: string) => Attempt<string>
  /** Whether there was a value. Without `version`, whatever there is, also what cannot be read. */
  readonly remove: (key: string, version: Option.Option<string>) => Attempt<boolean>
  readonly list: (range: Range) => Effect.Effect<ReadonlyArray<string>, Reason>
}

const refused = (what: string, reason: ConstructorParameters<typeof PayloadError>[0]["reason"]) =>
  new Refused({ error: new PayloadError({ what, reason }) })

const checkText = (what: string, text: string): Effect.Effect<void, Refused> =>
  Effect.flatMap(Limits.Limits, ({ maxStringLength }) => {
    if (typeof text !== "string") {
      return Effect.fail(refused(what, invalid([{ path: "", expected: "string", found: typeof text }])))
    }
    return text.length <= maxStringLength
      ? Effect.void
      : Effect.fail(
          refused(what, new TooLarge({ what: "string", limit: maxStringLength, found: text.length, path: "" }))
        )
  })

const checkLimit = (limit: number): Effect.Effect<void, Refused> =>
  Number.isSafeInteger(limit) && limit > 0
    ? Effect.void
    : Effect.fail(
        refused(
          "list options",
          invalid([{ path: "/limit", expected: "an integer from 1", found: `the number ${limit}` }])
        )
      )

export const make = (storage: Storage): Service => {
  const conflict = (key: string, expected: Option.Option<string>, found: Option.Option<string>) =>
    new VersionConflict({ key, expected, found })

  return {
    get: Effect.fn("VersionedStore.get")((key) =>
      checkText("key", key).pipe(
        Effect.andThen(storage.get(key)),
        Effect.flatMap(
          Option.match({
            onNone: () => Effect.succeed(Option.none<{ readonly value: Schema.Json; readonly version: string }>()),
            onSome: ({ text, version }) =>
              Json.parse(text, { what: "stored value" }).pipe(
                Effect.map((value) => Option.some({ value, version })),
                Effect.mapError((error) => new Unreadable({ error }))
              )
          })
        ),
        Effect.mapError((reason) => new VersionedStoreError({ operation: "get", key, reason }))
      )
    ),

    compareAndSet: Effect.fn("VersionedStore.compareAndSet")((key, expected, value) =>
      checkText("key", key).pipe(
        Effect.andThen(Effect.mapError(Json.stringify(value, { what: "value" }), (error) => new Refused({ error }))),
        Effect.flatMap((text) => storage.set(key, expected, text)),
        Effect.mapError((reason) => new VersionedStoreError({ operation: "compareAndSet", key, reason })),
        Effect.flatMap((attempt) =>
          Effect.fromResult(Result.mapError(attempt, (found) => conflict(key, expected, found)))
        )
      )
    ),

    list: Effect.fn("VersionedStore.list")(
      function* (options) {
        const prefix = options?.prefix ?? ""
        const limit = options?.limit ?? 100
        yield* checkText("prefix", prefix)
        yield* checkLimit(limit)
        if (options?.after !== undefined) yield* checkText("after", options.after)
        const after = Option.fromUndefinedOr(options?.after)
        const found = yield* storage.list({ prefix, after, limit: limit + 1 })
        const keys = found.slice(0, limit)
        return { keys, next: found.length > limit ? Option.fromUndefinedOr(keys.at(-1)) : Option.none() }
      },
      Effect.mapError((reason) => new VersionedStoreError({ operation: "list", reason }))
    ),

    delete: Effect.fn("VersionedStore.delete")((key, options) => {
      const expected = Option.fromUndefinedOr(options?.version)
      return checkText("key", key).pipe(
        Effect.andThen(storage.remove(key, expected)),
        Effect.mapError((reason) => new VersionedStoreError({ operation: "delete", key, reason })),
        Effect.flatMap((attempt) =>
          Effect.fromResult(Result.mapError(attempt, (found) => conflict(key, expected, found)))
        )
      )
    })
  }
}
