/** Values of a store with their codecs, and the reasons why they cannot be read or written. */

import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as PayloadError from "../../payload/PayloadError.ts"
import type * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as base from "../../payload/internal/base.ts"
import { defined } from "../../payload/internal/values.ts"
import * as gate from "../../payload/internal/gate.ts"
import { freshCopies, type Service, StoreReason, VersionedStoreError } from "./storeService.ts"

/**
 * The reasons of every store that keeps its values in journals:
 *
 * - `StoreFailed`: the store failed. A write that failed this way may have taken place.
 * - `Unreadable`: a stored value is damaged or foreign, or a newer release wrote it. `version` is the version of the
 *   value.
 * - `Damaged`: stored values are missing, or do not fit together.
 * - `Refused`: a value is beyond the limits or holds a secret. Nothing was written.
 */
export const reasons = {
  StoreFailed: { error: VersionedStoreError },
  Unreadable: {
    stored: Schema.String,
    version: Schema.optionalKey(Schema.String),
    error: PayloadError.PayloadError
  },
  Damaged: { stored: Schema.String, problem: Schema.String },
  Refused: { error: PayloadError.PayloadError }
}

export const Reason = Schema.TaggedUnion(reasons)

export type Reason = typeof Reason.Type

export const reasonTags = ["StoreFailed", "Unreadable", "Damaged", "Refused"] as const

type ReasonOf<Tag extends Reason["_tag"]> = Extract<Reason, { readonly _tag: Tag }>

export const damaged = (stored: string, problem: string): ReasonOf<"Damaged"> => ({ _tag: "Damaged", stored, problem })

export const unreadable = (
  stored: string,
  error: PayloadError.PayloadError,
  version?: string
): ReasonOf<"Unreadable"> => ({ _tag: "Unreadable", stored, error, ...defined({ version }) })

export const refused = (error: PayloadError.PayloadError): ReasonOf<"Refused"> => ({ _tag: "Refused", error })

export const renderReason = Reason.match({
  StoreFailed: ({ error }) => `${error.message}. The values stored before are complete`,
  Unreadable: ({ error, stored }) =>
    `the value stored under ${base.quote(stored)} cannot be read and was left as it is: ${error.message}`,
  Damaged: ({ problem, stored }) => `the value stored under ${base.quote(stored)} is damaged: ${problem}`,
  Refused: ({ error }) => `refused, nothing was written: ${error.message}`
})

export const reasonOf =
  (stored: string) =>
  (error: VersionedStoreError): Reason =>
    StoreReason.match(error.reason, {
      Refused: ({ error }) => refused(error),
      Unreadable: ({ error }) => unreadable(stored, error),
      Unavailable: (): Reason => ({ _tag: "StoreFailed", error })
    })

/** Values of a store with their codecs. */
export const of = (store: Service) => {
  const find = (stored: string) => Effect.mapError(store.get(stored), reasonOf(stored))

  const write = (stored: string, expected: Option.Option<string>, json: Schema.Json) =>
    Effect.catchTag(store.compareAndSet(stored, expected, json), "VersionedStoreError", (error) =>
      Effect.fail(reasonOf(stored)(error))
    )

  /** A signature covers the value and its key: the value is refused under another key. */
  const sealedFor = (stored: string) => Effect.provideService(gate.Subject, stored)

  const encode = <A>(codec: VersionedCodec.VersionedCodec<A>, stored: string, value: A) =>
    sealedFor(stored)(codec.encode(value)).pipe(
      Effect.catchTag("LossyEncoding", Effect.die),
      Effect.mapBoth({
        onFailure: refused,
        onSuccess: (json) => {
          freshCopies.add(json)
          return json
        }
      })
    )

  // Only conditional deletes conflict
  const remove = (stored: string) =>
    Effect.mapError(Effect.catchTag(store.delete(stored), "VersionConflict", Effect.die), reasonOf(stored))

  /** A value that was found, and its version. */
  const decode = Effect.fnUntraced(function* <A>(
    codec: VersionedCodec.VersionedCodec<A>,
    stored: string,
    { value: json, version }: { readonly value: Schema.Json; readonly version: string }
  ) {
    const value = yield* Effect.mapError(sealedFor(stored)(codec.decode(json)), (error) =>
      unreadable(stored, error, version)
    )
    return { value, version }
  })

  return {
    get: Effect.fnUntraced(function* <A>(codec: VersionedCodec.VersionedCodec<A>, stored: string) {
      const found = yield* find(stored)
      return Option.isNone(found) ? Option.none() : Option.some(yield* decode(codec, stored, found.value))
    }),

    decode,

    set: Effect.fnUntraced(function* <A>(
      codec: VersionedCodec.VersionedCodec<A>,
      stored: string,
      expected: Option.Option<string>,
      value: A
    ) {
      return yield* write(stored, expected, yield* encode(codec, stored, value))
    }),

    find,

    encode,

    write,

    /** Writes a value that never changes; the same value again is no change. */
    writeOnce: (stored: string, json: Schema.Json) =>
      Effect.catchTag(
        write(stored, Option.none(), json),
        "VersionConflict",
        Effect.fnUntraced(function* () {
          const found = yield* find(stored)
          // Deleted meanwhile: the log was replaced, and the write of the head reports it
          if (Option.isNone(found) || Equal.equals(gate.contentOf(found.value.value), gate.contentOf(json))) return
          return yield* Effect.fail(damaged(stored, "expected nothing, got a value that another writer wrote"))
        })
      ),

    list: Effect.fnUntraced(function* (prefix: string) {
      const all: Array<string> = []
      let after: string | undefined
      do {
        const page = yield* Effect.mapError(store.list({ prefix, after }), reasonOf(prefix))
        all.push(...page.keys)
        after = Option.getOrUndefined(page.next)
      } while (after !== undefined)
      return all
    }),

    delete: remove,

    deleteAll: (all: ReadonlyArray<string>) => Effect.forEach(all, remove, { concurrency, discard: true })
  }
}

/** The number of values that are read, written or deleted at a time. */
export const concurrency = 8
