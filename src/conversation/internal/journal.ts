/**
 * Append-only logs under keys of a `VersionedStore`: conversations and checkpoints are kept in them.
 *
 * A log has a head, one value under its key, and batches, which are written once and never change. Only the head
 * names the batches of the log, and it changes by compare-and-set. So an append takes effect as a whole or not at
 * all, whenever the process dies, and costs the same however long the log is.
 *
 * | stored under | value |
 * |---|---|
 * | `<namespace>/head/<key>` | the head |
 * | `<namespace>/journal/<length>:<key>/<generation>/input` | the value the log began with, if it has one |
 * | `<namespace>/journal/<length>:<key>/<generation>/<epoch>-<owner>/<number>` | a batch |
 *
 * A log that replaces another one under its key is a new generation. The head lists the generations before it until
 * their values are deleted ({@link Journal.sweep}). A writer that takes over a log increases the epoch and sets a new
 * owner: a batch that the writer before still writes then has a key of its own, and is never read. Writers that share
 * an owner must write the same batches, as those of conversations do.
 *
 * **Example** (A log of numbers with a title in its head)
 *
 * ```ts
 * import { Effect, Option, Schema } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { VersionedCodec } from "effect-emissary/payload"
 * import * as journal from "#src/conversation/internal/journal.ts"
 * import assert from "node:assert"
 *
 * const Head = Schema.Struct({ title: Schema.String, ...journal.logFields })
 *
 * const program = Effect.gen(function*() {
 *   const numbers = journal.make({
 *     store: yield* VersionedStore.VersionedStore,
 *     namespace: "numbers",
 *     head: VersionedCodec.single({ what: "numbers", value: Head }),
 *     batch: journal.batchCodec({ what: "batch of numbers", kind: "numbers", events: Schema.Array(Schema.Finite) })
 *   })
 *   const first = yield* numbers.begin("primes", Option.none(), { head: (log) => ({ ...log, title: "Primes" }) })
 *   const second = yield* numbers.append(first, (head) => head, [[2, 3]])
 *   yield* numbers.append(second, (head) => ({ ...head, title: "More primes" }), [[5], [7]])
 *
 *   const conflict = yield* Effect.flip(numbers.append(second, (head) => head, [[9]]))
 *   assert.strictEqual(conflict._tag, "Conflict")
 *   return yield* numbers.batches(Option.getOrThrow(yield* numbers.head("primes")))
 * })
 *
 * const found = await Effect.runPromise(Effect.provide(program, VersionedStore.layerMemory))
 * assert.deepStrictEqual(found, [[2, 3], [5], [7]])
 * ```
 */

import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as base from "../../payload/internal/base.ts"
import * as VersionedStore from "../VersionedStore.ts"
import * as storageKeys from "./storageKeys.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const Epoch = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))

/** The batches that one owner wrote, numbered from 0. */
const Segment = Schema.Struct({ epoch: Epoch, owner: Schema.String, batches: Count })

type Segment = typeof Segment.Type

/** The members of a head that belong to the log. */
export const logFields = {
  generation: Schema.String,
  epoch: Epoch,
  owner: Schema.String,
  segments: Schema.Array(Segment),
  retired: Schema.Array(Schema.String)
}

const Log = Schema.Struct(logFields)

export type Log = typeof Log.Type

/** A head that was read or written, and the version of its value. */
export interface Stored<out H> {
  readonly key: string
  readonly head: H
  readonly version: string
}

/** The head is not in the version `expected`; `found` is the one that is there now. Nothing was written. */
export interface Conflict<out H> {
  readonly _tag: "Conflict"
  readonly expected: Option.Option<string>
  readonly found: Option.Option<Stored<H>>
}

/**
 * The reasons of every store that keeps its values in journals:
 *
 * - `StoreFailed`: the store failed. A write that failed this way may have taken place.
 * - `Unreadable`: a stored value is damaged or foreign, or a newer release wrote it. `version` is that of the value.
 * - `Damaged`: stored values are missing, or do not fit together.
 * - `Refused`: a value is beyond the limits or holds a secret. Nothing was written.
 */
export const reasons = {
  StoreFailed: { error: VersionedStore.VersionedStoreError },
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
): ReasonOf<"Unreadable"> => ({ _tag: "Unreadable", stored, error, ...base.defined({ version }) })

export const refused = (error: PayloadError.PayloadError): ReasonOf<"Refused"> => ({ _tag: "Refused", error })

export const renderReason = (reason: Reason): string => {
  switch (reason._tag) {
    case "StoreFailed":
      return `${reason.error.message}. The values stored before are complete`
    case "Unreadable":
      return `the value stored under ${base.quote(reason.stored)} cannot be read and was left as it is: ${reason.error.message}`
    case "Damaged":
      return `the value stored under ${base.quote(reason.stored)} is damaged: ${reason.problem}`
    case "Refused":
      return `refused, nothing was written: ${reason.error.message}`
  }
}

const reasonOf =
  (stored: string) =>
  (error: VersionedStore.VersionedStoreError): Reason => {
    switch (error.reason._tag) {
      case "Refused":
        return refused(error.reason.error)
      case "Unreadable":
        return unreadable(stored, error.reason.error)
      case "Unavailable":
        return { _tag: "StoreFailed", error }
    }
  }

/** Values of a store with their codecs. */
export const documents = (store: VersionedStore.Service) => {
  const find = (stored: string) => Effect.mapError(store.get(stored), reasonOf(stored))

  const write = (stored: string, expected: Option.Option<string>, json: Schema.Json) =>
    Effect.catchTag(store.compareAndSet(stored, expected, json), "VersionedStoreError", (error) =>
      Effect.fail(reasonOf(stored)(error))
    )

  const encode = <A>(codec: VersionedCodec.VersionedCodec<A>, value: A) =>
    Effect.mapError(Effect.catchTag(codec.encode(value), "LossyEncoding", Effect.die), refused)

  return {
    get: Effect.fnUntraced(function* <A>(codec: VersionedCodec.VersionedCodec<A>, stored: string) {
      const found = yield* find(stored)
      if (Option.isNone(found)) return Option.none()
      const { version } = found.value
      const value = yield* Effect.mapError(codec.decode(found.value.value), (error) =>
        unreadable(stored, error, version)
      )
      return Option.some({ value, version })
    }),

    set: Effect.fnUntraced(function* <A>(
      codec: VersionedCodec.VersionedCodec<A>,
      stored: string,
      expected: Option.Option<string>,
      value: A
    ) {
      return yield* write(stored, expected, yield* encode(codec, value))
    }),

    /** Writes a value that never changes; the same value again is no change. */
    setOnce: Effect.fnUntraced(function* <A>(codec: VersionedCodec.VersionedCodec<A>, stored: string, value: A) {
      const json = yield* encode(codec, value)
      yield* Effect.catchTag(
        write(stored, Option.none(), json),
        "VersionConflict",
        Effect.fnUntraced(function* () {
          const found = yield* find(stored)
          // Deleted meanwhile: the log was replaced, and the write of the head reports it
          if (Option.isNone(found) || Equal.equals(found.value.value, json)) return
          return yield* Effect.fail(damaged(stored, "expected nothing, got a value that another writer wrote"))
        })
      )
    }),

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

    deleteAll: (all: ReadonlyArray<string>) =>
      Effect.forEach(
        all,
        (stored) =>
          // Only conditional deletes conflict
          Effect.mapError(Effect.catchTag(store.delete(stored), "VersionConflict", Effect.die), reasonOf(stored)),
        { concurrency, discard: true }
      )
  }
}

/** The number of values that are read, written or deleted at a time. */
const concurrency = 8

/** A batch as it is stored: its place, and its events. */
export interface Batch<out E> {
  readonly generation: string
  readonly epoch: number
  readonly owner: string
  readonly batch: number
  readonly events: E
}

/** The codec of batches; `kind` marks them in the store. */
export const batchCodec = <E>(options: {
  readonly what: string
  readonly kind: string
  readonly events: Schema.Codec<E, unknown>
}): VersionedCodec.VersionedCodec<Batch<E>> =>
  VersionedCodec.single<Batch<E>>({
    what: options.what,
    value: Schema.Struct({
      generation: Schema.String,
      epoch: Epoch,
      owner: Schema.String,
      batch: Count,
      events: options.events
    }),
    header: { kind: options.kind },
    // The codec of events looks for secrets, and knows where keys are data
    data: ["/events"]
  })

const escapeKey = (namespace: string): string => namespace.replaceAll("%", "%25").replaceAll("/", "%2F")

/** The first part of the keys of a namespace. */
export const rootKey = (namespace: string): string => `${escapeKey(namespace)}/`

/** A key as a part of another key, where no other key begins with it. */
export const partOfKey = (key: string): string => `${key.length}:${key}/`

const segmentOf = ({ epoch, owner, segments }: Log): Segment => {
  const last = segments.at(-1)
  return last?.epoch === epoch && last.owner === owner ? last : { epoch, owner, batches: 0 }
}

const withBatches = (log: Log, count: number): ReadonlyArray<Segment> => {
  const segment = segmentOf(log)
  const older = segment.batches === 0 ? log.segments : log.segments.slice(0, -1)
  return count === 0 ? log.segments : [...older, { ...segment, batches: segment.batches + count }]
}

/** The log of a head is no longer there. */
const isReplaced = (head: Log, found: Option.Option<Stored<Log>>): boolean =>
  Option.isNone(found) || found.value.head.generation !== head.generation

/** Logs with heads `H` and batches `E`, which begin with a value `I`. */
export interface Journal<in out H, in out E, in out I> {
  readonly headKey: (key: string) => string
  readonly journalKey: (key: string) => string
  readonly head: (key: string) => Effect.Effect<Option.Option<Stored<H>>, Reason>
  /** Begins a log under a key, in place of the log that was read there. */
  readonly begin: (
    key: string,
    before: Option.Option<Stored<H>>,
    log: { readonly head: (log: Log) => H; readonly input?: ((generation: string) => I) | undefined }
  ) => Effect.Effect<Stored<H>, Conflict<H> | Reason>
  /** Writes batches, then the head that `change` makes of the head with these batches. */
  readonly append: (
    at: Stored<H>,
    change: (head: H) => H,
    batches: ReadonlyArray<E>
  ) => Effect.Effect<Stored<H>, Conflict<H> | Reason>
  readonly input: (at: Stored<H>) => Effect.Effect<I, Conflict<H> | Reason>
  /** All batches in their order. `Conflict` if the log was replaced while it was read. */
  readonly batches: (at: Stored<H>) => Effect.Effect<ReadonlyArray<E>, Conflict<H> | Reason>
  /** Deletes the values of retired generations. Those that are left stay in the head that is returned. */
  readonly sweep: (at: Stored<H>) => Effect.Effect<Stored<H>>
  /** Deletes a log in the version, or in any version, and returns whether there was one. */
  readonly remove: (key: string, version: string | undefined) => Effect.Effect<boolean, Conflict<H> | Reason>
  readonly list: (options: VersionedStore.ListOptions | undefined) => Effect.Effect<VersionedStore.Page, Reason>
}

/** Logs in a store. Without `input` they begin with their head alone. */
export const make = <H extends Log, E, I extends { readonly generation: string } = never>(options: {
  readonly store: VersionedStore.Service
  readonly namespace: string
  readonly head: VersionedCodec.VersionedCodec<H>
  readonly batch: VersionedCodec.VersionedCodec<Batch<E>>
  readonly input?: VersionedCodec.VersionedCodec<I> | undefined
}): Journal<H, E, I> => {
  const { store } = options
  const values = documents(store)
  const root = rootKey(options.namespace)
  const heads = `${root}head/`
  const headKey = (key: string) => `${heads}${key}`
  const journalKey = (key: string) => `${root}journal/${partOfKey(key)}`
  const generationKey = (key: string, generation: string) => `${journalKey(key)}${generation}/`
  const inputKey = (key: string, generation: string) => `${generationKey(key, generation)}input`
  const batchKey = (key: string, { batch, epoch, generation, owner }: Omit<Batch<E>, "events">) =>
    `${generationKey(key, generation)}${epoch}-${owner}/${batch}`

  const head = (key: string) =>
    Effect.map(
      values.get(options.head, headKey(key)),
      Option.map(({ value, version }): Stored<H> => ({ key, head: value, version }))
    )

  const conflict = (expected: Option.Option<string>, found: Option.Option<Stored<H>>) =>
    Effect.fail<Conflict<H>>({ _tag: "Conflict", expected, found })

  const removeGeneration = (key: string, generation: string) =>
    Effect.flatMap(values.list(generationKey(key, generation)), values.deleteAll)

  const setHead = (key: string, before: Option.Option<Stored<H>>, next: H) => {
    const expected = Option.map(before, ({ version }) => version)
    return values.set(options.head, headKey(key), expected, next).pipe(
      Effect.map((version): Stored<H> => ({ key, head: next, version })),
      Effect.catchTag(
        "VersionConflict",
        Effect.fnUntraced(function* () {
          const found = yield* head(key)
          // No head will ever name the values of this generation
          if (isReplaced(next, found)) yield* Effect.ignore(removeGeneration(key, next.generation))
          return yield* conflict(expected, found)
        })
      )
    )
  }

  const begin: Journal<H, E, I>["begin"] = Effect.fnUntraced(function* (key, before, log) {
    const generation = yield* storageKeys.nonce
    const owner = yield* storageKeys.nonce
    if (options.input !== undefined && log.input !== undefined) {
      yield* values.setOnce(options.input, inputKey(key, generation), log.input(generation))
    }
    const old = Option.getOrUndefined(before)?.head
    const hasValues = old !== undefined && (options.input !== undefined || old.segments.length > 0)
    const retired = [...(old?.retired ?? []), ...(hasValues ? [old.generation] : [])]
    return yield* setHead(
      key,
      before,
      log.head({ generation, epoch: (old?.epoch ?? 0) + 1, owner, segments: [], retired })
    )
  })

  /** Writes the batch that follows those of a segment. */
  const setBatch = Effect.fnUntraced(function* (at: Stored<H>, { batches, epoch, owner }: Segment, events: E) {
    const batch = { generation: at.head.generation, epoch, owner, batch: batches, events }
    const isWritten = yield* Effect.result(values.setOnce(options.batch, batchKey(at.key, batch), batch))
    if (Result.isSuccess(isWritten)) return
    const now = isWritten.failure._tag === "Damaged" ? yield* head(at.key) : Option.some(at)
    // Another writer was faster
    if (Option.isNone(now) || now.value.version !== at.version) return yield* conflict(Option.some(at.version), now)
    return yield* Effect.fail(isWritten.failure)
  })

  const append: Journal<H, E, I>["append"] = Effect.fnUntraced(function* (at, change, batches) {
    const segment = segmentOf(at.head)
    yield* Effect.forEach(
      batches,
      (events, index) => setBatch(at, { ...segment, batches: segment.batches + index }, events),
      { concurrency, discard: true }
    )
    const appended = { ...at.head, segments: withBatches(at.head, batches.length) }
    return yield* setHead(at.key, Option.some(at), change(appended))
  })

  /** A value that belongs to a log; it is missing if the log was replaced. `keyOf` is the key of its place. */
  const read = Effect.fnUntraced(function* <A>(
    at: Stored<H>,
    codec: VersionedCodec.VersionedCodec<A>,
    stored: string,
    keyOf: (value: A) => string
  ) {
    const found = yield* values.get(codec, stored)
    if (Option.isNone(found)) {
      const now = yield* head(at.key)
      return yield* isReplaced(at.head, now)
        ? conflict(Option.some(at.version), now)
        : Effect.fail(damaged(stored, "expected a value, got nothing"))
    }
    if (keyOf(found.value.value) === stored) return found.value.value
    return yield* Effect.fail(damaged(stored, "expected a value of this log, got one of another log or place"))
  })

  const readBatch = (at: Stored<H>, { epoch, owner }: Segment, batch: number) => {
    const stored = batchKey(at.key, { generation: at.head.generation, epoch, owner, batch })
    const found = read(at, options.batch, stored, (value) => batchKey(at.key, value))
    return Effect.map(found, ({ events }) => events)
  }

  const remove: Journal<H, E, I>["remove"] = Effect.fnUntraced(function* (key, version) {
    // Listed before the head is deleted: a log that begins after that keeps its values
    const owned = yield* values.list(journalKey(key))
    const isRemoved = yield* store.delete(headKey(key), { version }).pipe(
      Effect.catchTag("VersionConflict", ({ expected }) =>
        Effect.flatMap(head(key), (found) => conflict(expected, found))
      ),
      Effect.catchTag("VersionedStoreError", (error) => Effect.fail(reasonOf(headKey(key))(error)))
    )
    yield* values.deleteAll(owned)
    return isRemoved
  })

  return {
    headKey,
    journalKey,
    head,
    begin,
    append,
    remove,

    input: (at) =>
      options.input === undefined
        ? Effect.die(new Error(`journal ${options.namespace}: expected a codec for the input, got none`))
        : read(at, options.input, inputKey(at.key, at.head.generation), ({ generation }) =>
            inputKey(at.key, generation)
          ),

    batches: (at) =>
      Effect.forEach(
        at.head.segments.flatMap((segment) =>
          Array.from({ length: segment.batches }, (_, batch) => ({ segment, batch }))
        ),
        ({ batch, segment }) => readBatch(at, segment, batch),
        { concurrency }
      ),

    sweep: (at) =>
      Effect.filter(at.head.retired, (generation) =>
        Effect.match(removeGeneration(at.key, generation), { onFailure: () => true, onSuccess: () => false })
      ).pipe(Effect.map((retired) => ({ ...at, head: { ...at.head, retired } }))),

    list: (range) =>
      Effect.mapBoth(
        store.list({
          prefix: headKey(range?.prefix ?? ""),
          after: range?.after === undefined ? undefined : headKey(range.after),
          limit: range?.limit
        }),
        {
          onFailure: reasonOf(heads),
          onSuccess: ({ keys, next }) => ({
            keys: keys.map((key) => key.slice(heads.length)),
            next: Option.map(next, (key) => key.slice(heads.length))
          })
        }
      )
  }
}
