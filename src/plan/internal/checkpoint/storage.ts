/** Reading and writing what checkpoints store, each value by itself. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type { ListOptions, Service as Store, Version } from "../../../conversation/VersionedStore.ts"
import type { VersionConflict, VersionedStoreError } from "../../../conversation/VersionedStoreError.ts"
import type { LossyEncoding } from "../../../payload/LossyEncoding.ts"
import type { PayloadError } from "../../../payload/PayloadError.ts"
import { Damaged, Refused, RunActive, StoreFailed, Unreadable } from "../../CheckpointError.ts"
import type { Page } from "../../Checkpoint.ts"
import * as PlanRunEvent from "../../PlanRunEvent.ts"
import * as heads from "./heads.ts"
import type { Keys } from "./keys.ts"
import * as records from "./records.ts"

export type Failure = Damaged | Refused | StoreFailed | Unreadable

/** What stands under a key. */
export interface Found {
  readonly head: records.Head
  readonly version: Version
}

/** Where a run writes. */
export interface Place {
  readonly key: string
  readonly generation: string
}

export interface Storage {
  readonly keys: Keys
  readonly head: (key: string) => Effect.Effect<Option.Option<Found>, Failure>
  readonly setHead: (
    key: string,
    expected: Option.Option<Version>,
    head: records.Head
  ) => Effect.Effect<Version, VersionConflict | Failure>
  readonly begun: (place: Place) => Effect.Effect<records.Begun, Failure>
  readonly setBegun: (place: Place, begun: Omit<records.Begun, "generation">) => Effect.Effect<void, Failure>
  readonly events: (key: string, head: records.Head) => Effect.Effect<ReadonlyArray<PlanRunEvent.PlanRunEvent>, Failure>
  readonly setBatch: (
    place: Place,
    segment: records.Segment,
    events: ReadonlyArray<PlanRunEvent.PlanRunEvent>
  ) => Effect.Effect<void, Failure>
  readonly write: (
    write: string,
    fork: string | undefined
  ) => Effect.Effect<Option.Option<{ readonly write: records.Write; readonly version: Version }>, Failure>
  readonly setWrite: (
    write: string,
    fork: string | undefined,
    expected: Option.Option<Version>,
    value: records.Write
  ) => Effect.Effect<void, VersionConflict | Failure>
  /** Deletes a run that is no more, and gives whether all of it is gone. */
  readonly sweep: (key: string, retired: records.Retired) => Effect.Effect<boolean>
  /** Deletes the run under a key, with what it has for itself; with `force` also a live one, and what is no run. */
  readonly remove: (key: string, force: boolean) => Effect.Effect<boolean, Failure | RunActive>
  readonly list: (options: ListOptions | undefined) => Effect.Effect<Page, Failure>
}

const parallel = 8

const refused = (error: PayloadError | LossyEncoding): Effect.Effect<never, Refused> =>
  error._tag === "LossyEncoding" ? Effect.die(error) : Effect.fail(new Refused({ error }))

export const make = (store: Store, keys: Keys): Storage => {
  const failed = (stored: string) => (error: VersionedStoreError) => {
    switch (error.reason._tag) {
      case "Refused":
        return new Refused({ error: error.reason.error })
      case "Unreadable":
        return new Unreadable({ stored, error: error.reason.error })
      case "Unavailable":
        return new StoreFailed({ error })
    }
  }

  const get = (stored: string) => Effect.mapError(store.get(stored), failed(stored))

  const set = (stored: string, expected: Option.Option<Version>, value: Schema.Json) =>
    Effect.catchTag(store.compareAndSet(stored, expected, value), "VersionedStoreError", (error) =>
      Effect.fail(failed(stored)(error))
    )

  /** Without a version nothing conflicts. */
  const drop = (stored: string) =>
    store.delete(stored).pipe(
      Effect.catchTag("VersionConflict", () => Effect.succeed(true)),
      Effect.mapError(failed(stored))
    )

  const unreadable = (stored: string) => (error: PayloadError) => new Unreadable({ stored, error })

  /** Writes what is written once and never changed; writing it again is nothing. */
  const once = (stored: string, value: Schema.Json) =>
    set(stored, Option.none(), value).pipe(
      Effect.asVoid,
      Effect.catchTag("VersionConflict", () =>
        Effect.flatMap(get(stored), (found) =>
          Option.isSome(found) && Equal.equals(found.value.value, value)
            ? Effect.void
            : Effect.fail(
                new Damaged({ stored, problem: "expected nothing, found something that this run did not write" })
              )
        )
      )
    )

  const batch = Effect.fnUntraced(function* (place: Place, segment: records.Segment, index: number) {
    const stored = keys.batch(place.key, place.generation, segment.epoch, segment.owner, index)
    const found = yield* get(stored)
    if (Option.isNone(found)) {
      return yield* new Damaged({ stored, problem: `expected batch ${index} of ${segment.batches}, found nothing` })
    }
    const value = yield* Effect.mapError(records.Batch.decode(found.value.value), unreadable(stored))
    if (
      value.generation !== place.generation ||
      value.epoch !== segment.epoch ||
      value.owner !== segment.owner ||
      value.batch !== index
    ) {
      return yield* new Damaged({ stored, problem: `expected batch ${index} of this run, found another one` })
    }
    return yield* Effect.mapError(PlanRunEvent.listCodec.decode(value.events), unreadable(stored))
  })

  const readHead = Effect.fnUntraced(function* (key: string) {
    const stored = keys.head(key)
    const found = yield* get(stored)
    if (Option.isNone(found)) return Option.none<Found>()
    const head = yield* Effect.mapError(records.Head.decode(found.value.value), unreadable(stored))
    return Option.some<Found>({ head, version: found.value.version })
  })

  const removeAll = Effect.fnUntraced(function* (prefix: string) {
    for (;;) {
      const page = yield* Effect.mapError(store.list({ prefix }), failed(prefix))
      yield* Effect.forEach(page.keys, drop, { concurrency: parallel, discard: true })
      if (Option.isNone(page.next)) return
    }
  })

  /** In the version that was looked at: nobody takes the key in between. */
  const removeHead = (key: string, force: boolean): Effect.Effect<boolean, Failure | RunActive> =>
    Effect.gen(function* () {
      if (force) return yield* drop(keys.head(key))
      const found = yield* readHead(key)
      if (Option.isNone(found)) return false
      const { head, version } = found.value
      if (head.lease !== undefined && heads.isLive(head, yield* DateTime.now)) {
        return yield* new RunActive({ owner: head.owner, status: head.status, leaseUntil: head.lease })
      }
      return yield* Effect.catchTag(store.delete(keys.head(key), { version }), "VersionedStoreError", (error) =>
        Effect.fail(failed(keys.head(key))(error))
      )
    }).pipe(Effect.catchTag("VersionConflict", () => removeHead(key, force)))

  return {
    keys,

    head: readHead,

    setHead: (key, expected, head) =>
      records.Head.encode(head).pipe(
        Effect.catch(refused),
        Effect.flatMap((value) => set(keys.head(key), expected, value))
      ),

    begun: Effect.fnUntraced(function* (place) {
      const stored = keys.begun(place.key, place.generation)
      const found = yield* get(stored)
      if (Option.isNone(found)) return yield* new Damaged({ stored, problem: "expected the input, found nothing" })
      const begun = yield* Effect.mapError(records.Begun.decode(found.value.value), unreadable(stored))
      if (begun.generation === place.generation) return begun
      return yield* new Damaged({ stored, problem: "expected the input of this run, found that of another one" })
    }),

    setBegun: (place, begun) =>
      records.Begun.encode({ ...begun, generation: place.generation }).pipe(
        Effect.catch(refused),
        Effect.flatMap((value) => once(keys.begun(place.key, place.generation), value))
      ),

    events: (key, head) =>
      Effect.map(
        Effect.forEach(
          head.segments.flatMap((segment) =>
            Array.from({ length: segment.batches }, (_, index) => ({ segment, index }))
          ),
          ({ index, segment }) => batch({ key, generation: head.generation }, segment, index),
          { concurrency: parallel }
        ),
        (batches) => batches.flat()
      ),

    setBatch: Effect.fnUntraced(function* (place, segment, events) {
      const encoded = yield* Effect.catch(PlanRunEvent.listCodec.encode(events), refused)
      const { batches, epoch, owner } = segment
      const { generation } = place
      const value = yield* Effect.catch(
        records.Batch.encode({ generation, epoch, owner, batch: batches, events: encoded }),
        refused
      )
      yield* once(keys.batch(place.key, generation, epoch, owner, batches), value)
    }),

    write: Effect.fnUntraced(function* (write, fork) {
      const stored = keys.write(write, fork)
      const found = yield* get(stored)
      if (Option.isNone(found)) return Option.none()
      const value = yield* Effect.mapError(records.Write.decode(found.value.value), unreadable(stored))
      return Option.some({ write: value, version: found.value.version })
    }),

    setWrite: (write, fork, expected, value) =>
      records.Write.encode(value).pipe(
        Effect.catch(refused),
        Effect.flatMap((json) => set(keys.write(write, fork), expected, json)),
        Effect.asVoid
      ),

    sweep: (key, { generation, segments }) =>
      Effect.forEach(
        [
          keys.begun(key, generation),
          // One more each: a writer that died, or lost its lease, can have written it in vain
          ...segments.flatMap(({ batches, epoch, owner }) =>
            Array.from({ length: batches + 1 }, (_, index) => keys.batch(key, generation, epoch, owner, index))
          )
        ],
        drop,
        { concurrency: parallel, discard: true }
      ).pipe(Effect.match({ onSuccess: () => true, onFailure: () => false })),

    remove: Effect.fnUntraced(function* (key, force) {
      const removed = yield* removeHead(key, force)
      yield* removeAll(keys.journal(key))
      yield* removeAll(keys.forked(key))
      return removed
    }),

    list: (options) =>
      Effect.mapBoth(
        store.list({
          prefix: `${keys.heads}${options?.prefix ?? ""}`,
          after: options?.after === undefined ? undefined : keys.head(options.after),
          limit: options?.limit
        }),
        {
          onFailure: failed(keys.heads),
          onSuccess: (page) => ({
            keys: page.keys.map((key) => key.slice(keys.heads.length)),
            next: Option.map(page.next, (key) => key.slice(keys.heads.length))
          })
        }
      )
  }
}
