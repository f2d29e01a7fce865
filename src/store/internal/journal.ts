/**
 * Append-only logs of values of a store (the journal), in which sessions are kept.
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
 * A new log in a store that writes one value at a time first has a placeholder in place of its head, and its head replaces that one
 * version of the placeholder. A removal deletes the placeholder, so no head names values that the removal takes away. Readers take a
 * placeholder for nothing.
 *
 * A log that replaces another one under its key is a new generation. The head lists the generations before it until
 * their values are deleted ({@link Journal.sweep}). A writer that takes over a log increases the epoch and sets a new
 * owner: a batch that the writer before still writes then has a key of its own, and is never read.
 *
 * **Example** (A log of numbers with a title in its head)
 *
 * ```ts
 * import { Effect, Option, Schema } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { VersionedCodec } from "effect-emissary/payload"
 * import * as journal from "#src/store/internal/journal.ts"
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
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import { concurrency, damaged, of as documents, type Reason, reasonOf } from "./documents.ts"
import { nonce, partOfKey, rootKey } from "./storeKeys.ts"
import type { ListOptions, Page, Service } from "./storeService.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** Every log that can be read can be taken: the next epoch is a safe integer, too. */
const Epoch = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 2 ** 52 }))

/** The batches that one owner wrote, numbered from 0. */
const Segment = Schema.Struct({ epoch: Epoch, owner: Schema.String, batches: Count })

type Segment = typeof Segment.Type

/** Every takeover increases the epoch, so no batch belongs to two segments. */
const Segments = Schema.Array(Segment).check(
  Schema.makeFilter(
    (segments) => segments.every(({ epoch }, index) => index === 0 || epoch > (segments[index - 1]?.epoch ?? 0)),
    { expected: "segments in ascending epochs" }
  )
)

/** The members of a head that belong to the log. */
export const logFields = {
  generation: Schema.String,
  epoch: Epoch,
  owner: Schema.String,
  segments: Segments,
  retired: Schema.Array(Schema.String)
}

const Log = Schema.Struct(logFields)

export type Log = typeof Log.Type

/** A head that was read or written, and the version of its value. */
export interface StoredHead<out H> {
  readonly key: string
  readonly head: H
  readonly version: string
}

/** The head is not in the version `expected`; `found` is the head that is there now. Nothing was written. */
export interface Conflict<out H> {
  readonly _tag: "Conflict"
  readonly expected: Option.Option<string>
  readonly found: Option.Option<StoredHead<H>>
}

/** In place of the head of a log that begins: nothing is there yet. */
const placeholder = { kind: "beginning" }

const isPlaceholder = ({ value }: { readonly value: Schema.Json }): boolean => Equal.equals(value, placeholder)

const retrying = Schedule.exponential("50 millis")

const batchPlace = { generation: Schema.String, epoch: Epoch, owner: Schema.String, batch: Count }

/** A batch as it is stored: its place, and its events. */
export interface Batch<out E> extends Schema.Struct.Type<typeof batchPlace> {
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
    value: Schema.Struct({ ...batchPlace, events: options.events }),
    header: { kind: options.kind },
    // The codec of events looks for secrets, and knows where keys are data
    data: ["/events"]
  })

const segmentOf = ({ epoch, owner, segments }: Log): Segment => {
  const last = segments.at(-1)
  return last?.epoch === epoch && last.owner === owner ? last : { epoch, owner, batches: 0 }
}

const withBatches = (log: Log, count: number): ReadonlyArray<Segment> => {
  const segment = segmentOf(log)
  const older = segment.batches === 0 ? log.segments : log.segments.slice(0, -1)
  return count === 0 ? log.segments : [...older, { ...segment, batches: segment.batches + count }]
}

/**
 * The places of all batches from one on, one after the other: a head can claim more than there are, and the first one
 * missing ends it.
 */
function* placesOf({ segments }: Log, from: number): Generator<{ readonly segment: Segment; readonly batch: number }> {
  let before = 0
  for (const segment of segments) {
    for (let batch = Math.max(0, from - before); batch < segment.batches; batch++) yield { segment, batch }
    before += segment.batches
  }
}

/** The log of a head is no longer there. */
const isReplaced = (head: Log, found: Option.Option<StoredHead<Log>>): boolean =>
  Option.isNone(found) || found.value.head.generation !== head.generation

/** A value as it is stored. */
interface Encoded {
  readonly key: string
  readonly value: Schema.Json
}

/**
 * A key that is there as long as something is due. It has no content, but a new version each time it is set. `version`
 * is the version that this process has set.
 */
export interface Mark {
  readonly key: string
  version: string | undefined
}

/** Sets a mark with a write of the head, or removes the mark that was set. */
export interface Marking {
  readonly mark: Mark
  readonly isSet: boolean
}

/** A key without content, with its version where that is known. */
export interface Row {
  readonly key: string
  readonly version?: string | undefined
}

/** The rows that are written and deleted with a head. A row that cannot be deleted is left. */
export interface Rows {
  readonly added?: Row | undefined
  readonly removed?: Row | undefined
}

const setMark = (
  store: Service,
  mark: Mark,
  found = Option.fromUndefinedOr(mark.version)
): Effect.Effect<void, Reason> =>
  store.compareAndSet(mark.key, found, {}).pipe(
    Effect.map((version) => void (mark.version = version)),
    Effect.catchTag("VersionConflict", ({ found }) => setMark(store, mark, found)),
    Effect.catchTag("VersionedStoreError", (error) => Effect.fail(reasonOf(mark.key)(error)))
  )

/** A mark that stays is removed by the next process that finds nothing to do. */
export const removeMark = (store: Service, mark: Mark): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { key, version } = mark
    mark.version = undefined
    return version === undefined ? Effect.void : Effect.ignore(store.delete(key, { version }))
  })

/** Writes a head with what belongs to it as one commit, and returns the version of the head. */
export const commit = Effect.fnUntraced(function* (
  store: Service,
  head: Encoded & { readonly expected: Option.Option<string> },
  named: ReadonlyArray<Encoded>,
  marking: Marking | undefined,
  row: Row | undefined
): Effect.fn.Return<Option.Option<string>, Reason> {
  if (store.commit === undefined) return Option.none()
  const { mark } = marking ?? {}
  const isNew = marking?.isSet === true && mark?.version === undefined
  // The mark that is there needs another version
  if (marking?.isSet === true && !isNew) yield* setMark(store, marking.mark)
  const unmarked =
    marking?.isSet === false && mark?.version !== undefined ? { key: mark.key, version: mark.version } : undefined
  const old = row && (yield* inVersion(store, row))
  const removed = [unmarked, old].filter(Predicate.isNotUndefined)
  const added = isNew && mark !== undefined ? [...named, { key: mark.key, value: {} }] : named
  const version = yield* Effect.mapError(store.commit({ changed: head, added, removed }), reasonOf(head.key))
  if (mark !== undefined && Option.isSome(version)) {
    if (isNew) mark.version = version.value
    if (unmarked !== undefined) mark.version = undefined
  }
  return version
})

/** A row with its version, `undefined` if it is not there. */
const inVersion = Effect.fnUntraced(function* (store: Service, { key, version }: Row) {
  const found = version ?? Option.getOrUndefined(yield* Effect.mapError(store.get(key), reasonOf(key)))?.version
  return found === undefined ? undefined : { key, version: found }
})

/** Logs with heads `H` and batches `E`, which begin with a value `I`. */
export interface Journal<in out H, in out E, in out I> {
  readonly headKey: (key: string) => string
  readonly journalKey: (key: string) => string
  readonly head: (key: string) => Effect.Effect<Option.Option<StoredHead<H>>, Reason>
  /** The version of the head, which is not decoded. */
  readonly version: (key: string) => Effect.Effect<Option.Option<string>, Reason>
  /**
   * Begins a log under a key, in place of the log that was read there. The name of its generation begins with `prefix`; default: none.
   * `Conflict` also if a removal came between, so that nothing is found.
   */
  readonly begin: (
    key: string,
    before: Option.Option<StoredHead<H>>,
    log: {
      readonly prefix?: string | undefined
      readonly head: (log: Log) => H
      readonly input?: ((generation: string) => I) | undefined
      readonly batches?: ReadonlyArray<E> | undefined
      readonly marking?: Marking | undefined
      readonly rows?: Rows | undefined
    }
  ) => Effect.Effect<StoredHead<H>, Conflict<H> | Reason>
  /** Writes batches, of the owner that `change` sets, with the head that it makes. */
  readonly append: (
    at: StoredHead<H>,
    change: (head: H) => H,
    batches: ReadonlyArray<E>,
    marking?: Marking | undefined,
    rows?: Rows | undefined
  ) => Effect.Effect<StoredHead<H>, Conflict<H> | Reason>
  readonly input: (at: StoredHead<H>) => Effect.Effect<I, Conflict<H> | Reason>
  /** Deletes the value that a retired generation began with. Its batches stay. */
  readonly removeInput: (key: string, generation: string) => Effect.Effect<void, Reason>
  /**
   * The batches in their order, all or at most `count` from the number `from` on. `Conflict` if the log was replaced while
   * it was read.
   */
  readonly batches: (
    at: StoredHead<H>,
    range?: { readonly from: number; readonly count?: number | undefined }
  ) => Effect.Effect<ReadonlyArray<E>, Conflict<H> | Reason>
  /**
   * Deletes the values of retired generations, except `kept` generations. A generation with values that could not be
   * deleted stays in the head that is returned.
   */
  readonly sweep: (at: StoredHead<H>, kept?: ReadonlySet<string>) => Effect.Effect<StoredHead<H>>
  /** Deletes a log, readable or not, and what is left of other logs under its key. Returns whether there was a log. */
  readonly remove: (key: string) => Effect.Effect<boolean, Reason>
  readonly list: (options: ListOptions | undefined) => Effect.Effect<Page, Reason>
}

interface JournalOptions<in out H, in out E, in out I> {
  readonly store: Service
  readonly namespace: string
  readonly head: VersionedCodec.VersionedCodec<H>
  readonly batch: VersionedCodec.VersionedCodec<Batch<E>>
  readonly input?: VersionedCodec.VersionedCodec<I> | undefined
  readonly keepsGenerations?: boolean | undefined
}

type BatchPlace = Omit<Batch<unknown>, "events">

const keysOf = (namespace: string) => {
  const root = rootKey(namespace)
  const heads = `${root}head/`
  const headKey = (key: string) => `${heads}${key}`
  const journalKey = (key: string) => `${root}journal/${partOfKey(key)}`
  const generationKey = (key: string, generation: string) => `${journalKey(key)}${generation}/`
  const inputKey = (key: string, generation: string) => `${generationKey(key, generation)}input`
  const batchKey = (key: string, { batch, epoch, generation, owner }: BatchPlace) =>
    `${generationKey(key, generation)}${epoch}-${owner}/${batch}`
  return { heads, headKey, journalKey, generationKey, inputKey, batchKey }
}

/** Reads the values of logs. */
const readerOf = <H extends Log, E, I>(options: JournalOptions<H, E, I>) => {
  const values = documents(options.store)
  const { batchKey, generationKey, headKey } = keysOf(options.namespace)

  const head = Effect.fnUntraced(function* (key: string) {
    const found = Option.filter(yield* values.find(headKey(key)), (value) => !isPlaceholder(value))
    if (Option.isNone(found)) return Option.none()
    const { value, version } = yield* values.decode(options.head, headKey(key), found.value)
    return Option.some<StoredHead<H>>({ key, head: value, version })
  })

  const conflict = (expected: Option.Option<string>, found: Option.Option<StoredHead<H>>) =>
    Effect.fail<Conflict<H>>({ _tag: "Conflict", expected, found })

  const removeGeneration = (key: string, generation: string) =>
    Effect.flatMap(values.list(generationKey(key, generation)), values.deleteAll)

  /** A value that belongs to a log; it is missing if the log was replaced. `keyOf` is the key of its place. */
  const read = Effect.fnUntraced(function* <A>(
    at: StoredHead<H>,
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
    return yield* Effect.fail(damaged(stored, "expected a value of this log, got a value of another log or place"))
  })

  const readBatch = (at: StoredHead<H>, { epoch, owner }: Segment, batch: number) => {
    const stored = batchKey(at.key, { generation: at.head.generation, epoch, owner, batch })
    return read(at, options.batch, stored, (value) => batchKey(at.key, value)).pipe(
      // One failing read of many does not have the others read again
      Effect.retry({ schedule: retrying, times: 4, while: ({ _tag }) => _tag === "StoreFailed" }),
      Effect.map(({ events }) => events)
    )
  }

  /** Returns whether the placeholder is gone. If a head has replaced it, nothing is deleted. */
  const removePlaceholder = (key: string, version: string) =>
    options.store.delete(headKey(key), { version }).pipe(
      Effect.as(true),
      Effect.catchTag("VersionConflict", () => Effect.succeed(false)),
      Effect.mapError(reasonOf(headKey(key)))
    )

  return { head, conflict, removeGeneration, removePlaceholder, read, readBatch }
}

/** Writes heads, with the values that they name. */
const writerOf = <H extends Log, E, I extends { readonly generation: string }>(options: JournalOptions<H, E, I>) => {
  const { store } = options
  const values = documents(store)
  const { batchKey, headKey, inputKey } = keysOf(options.namespace)
  const { conflict, head, removeGeneration, removePlaceholder } = readerOf(options)

  const writeHead = (
    key: string,
    before: Option.Option<StoredHead<H>>,
    expected: Option.Option<string>,
    next: H,
    json: Schema.Json
  ) =>
    values.write(headKey(key), expected, json).pipe(
      Effect.map((version): StoredHead<H> => ({ key, head: next, version })),
      Effect.catchTag(
        "VersionConflict",
        Effect.fnUntraced(function* () {
          const found = yield* head(key)
          // No head will ever name the values of this generation
          const begins = Option.getOrUndefined(before)?.head.generation !== next.generation
          const isGarbage = begins || options.keepsGenerations !== true
          if (isGarbage && isReplaced(next, found)) yield* Effect.ignore(removeGeneration(key, next.generation))
          return yield* conflict(expected, found)
        })
      )
    )

  /** The version of the placeholder of a new log. The first one of several writers that replaces it has the log. */
  const reserve = (key: string): Effect.Effect<string, Conflict<H> | Reason> =>
    Effect.catchTag(
      values.write(headKey(key), Option.none(), placeholder),
      "VersionConflict",
      Effect.fnUntraced(function* () {
        const found = yield* values.find(headKey(key))
        if (Option.isNone(found)) return yield* reserve(key)
        return isPlaceholder(found.value) ? found.value.version : yield* conflict(Option.none(), yield* head(key))
      })
    )

  const encoded = <A>(codec: VersionedCodec.VersionedCodec<A>, stored: string, value: A) =>
    Effect.map(values.encode(codec, stored, value), (json): Encoded => ({ key: stored, value: json }))

  /** Writes a head with the values that it names: as one commit, or one after the other where that cannot be. */
  const write = Effect.fnUntraced(function* (
    key: string,
    before: Option.Option<StoredHead<H>>,
    next: H,
    owned: ReadonlyArray<Encoded>,
    marking: Marking | undefined,
    { added, removed }: Rows = {}
  ): Effect.fn.Return<StoredHead<H>, Conflict<H> | Reason> {
    const named = added === undefined ? owned : [...owned, { key: added.key, value: {} }]
    const head = yield* encoded(options.head, headKey(key), next)
    const version = Option.map(before, ({ version }) => version)
    const together =
      named.length === 0 && marking === undefined
        ? Option.none()
        : yield* commit(store, { ...head, expected: version }, named, marking, removed)
    if (Option.isSome(together)) return { key, head: next, version: together.value }
    const reserved = Option.isNone(before) && owned.length > 0 ? yield* reserve(key) : undefined
    const expected = reserved === undefined ? version : Option.some(reserved)
    if (marking?.isSet === true) yield* setMark(store, marking.mark)
    const written = yield* Effect.gen(function* () {
      yield* Effect.forEach(named, (one) => writeNamed(key, before, one), { concurrency, discard: true })
      return yield* writeHead(key, before, expected, next, head.value)
    }).pipe(
      Effect.tapError(({ _tag }) =>
        _tag === "Refused" && reserved !== undefined ? Effect.ignore(removePlaceholder(key, reserved)) : Effect.void
      )
    )
    // A process that looked for work before the head was there may have removed the mark
    if (marking?.isSet === true) yield* Effect.ignore(setMark(store, marking.mark))
    if (marking?.isSet === false) yield* removeMark(store, marking.mark)
    if (removed !== undefined) yield* Effect.ignore(store.delete(removed.key))
    return written
  })

  const writeNamed = Effect.fnUntraced(function* (
    key: string,
    before: Option.Option<StoredHead<H>>,
    { key: stored, value }: Encoded
  ) {
    const isWritten = yield* Effect.result(values.writeOnce(stored, value))
    if (Result.isSuccess(isWritten)) return
    const now = isWritten.failure._tag === "Damaged" ? yield* head(key) : before
    const version = Option.map(before, ({ version }) => version)
    // Another writer was faster
    if (Option.getOrUndefined(now)?.version !== Option.getOrUndefined(version)) return yield* conflict(version, now)
    return yield* Effect.fail(isWritten.failure)
  })

  /** The head with more batches, and these batches. */
  const withEvents = Effect.fnUntraced(function* (key: string, head: H, batches: ReadonlyArray<E>) {
    if (batches.length === 0) return [head, []] as const
    const { batches: count, epoch, owner } = segmentOf(head)
    const named = yield* Effect.forEach(batches, (events, index) => {
      const batch = { generation: head.generation, epoch, owner, batch: count + index, events }
      return encoded(options.batch, batchKey(key, batch), batch)
    })
    return [{ ...head, segments: withBatches(head, batches.length) }, named] as const
  })

  const begin: Journal<H, E, I>["begin"] = Effect.fnUntraced(function* (key, before, log) {
    // Never one of before: a removal may still delete the values of an attempt that failed
    const generation = `${log.prefix ?? ""}${yield* nonce}`
    const owner = yield* nonce
    const old = Option.getOrUndefined(before)?.head
    const hasValues = old !== undefined && (options.input !== undefined || old.segments.length > 0)
    const retired = [...(old?.retired ?? []), ...(hasValues ? [old.generation] : [])]
    const first = log.head({ generation, epoch: (old?.epoch ?? 0) + 1, owner, segments: [], retired })
    const [next, batches] = yield* withEvents(key, first, log.batches ?? [])
    const input =
      options.input === undefined || log.input === undefined
        ? []
        : [yield* encoded(options.input, inputKey(key, generation), log.input(generation))]
    const written = write(key, before, next, [...input, ...batches], log.marking, log.rows)
    return yield* Effect.tapError(written, ({ _tag }) =>
      _tag === "Refused" ? Effect.ignore(removeGeneration(key, generation)) : Effect.void
    )
  })

  const append: Journal<H, E, I>["append"] = Effect.fnUntraced(function* (at, change, batches, marking, rows) {
    const [next, named] = yield* withEvents(at.key, change(at.head), batches)
    return yield* write(at.key, Option.some(at), next, named, marking, rows)
  })

  return { begin, append }
}

/**
 * Logs in a store. Without `input` they begin with their head alone. With `keepsGenerations` the batches of a generation may be
 * read after another one replaced it.
 */
export const make = <H extends Log, E, I extends { readonly generation: string } = never>(
  options: JournalOptions<H, E, I>
): Journal<H, E, I> => {
  const { store } = options
  const values = documents(store)
  const { headKey, heads, inputKey, journalKey } = keysOf(options.namespace)
  const { head, read, readBatch, removeGeneration, removePlaceholder } = readerOf(options)
  const { append, begin } = writerOf(options)

  /** Deletes a head, or its placeholder. Returns whether there was a head, readable or not. */
  const removeHead = (key: string): Effect.Effect<boolean, Reason> =>
    Effect.matchEffect(values.find(headKey(key)), {
      onFailure: (reason) => (reason._tag === "Unreadable" ? values.delete(headKey(key)) : Effect.fail(reason)),
      onSuccess: Effect.fnUntraced(function* (found) {
        if (Option.isNone(found)) return false
        if (!isPlaceholder(found.value)) return yield* values.delete(headKey(key))
        return (yield* removePlaceholder(key, found.value.version)) ? false : yield* removeHead(key)
      })
    })

  const remove: Journal<H, E, I>["remove"] = Effect.fnUntraced(function* (key) {
    // Listed before the head is deleted: a log whose values are written after that keeps them
    const owned = yield* values.list(journalKey(key))
    const isRemoved = yield* removeHead(key)
    yield* values.deleteAll(owned)
    return isRemoved
  })

  return {
    headKey,
    journalKey,
    head,
    version: (key) =>
      Effect.map(
        values.find(headKey(key)),
        Option.map(({ version }) => version)
      ),
    begin,
    append,
    remove,

    input: (at) =>
      options.input === undefined
        ? Effect.die(new Error(`journal ${options.namespace}: expected a codec for the input, got none`))
        : read(at, options.input, inputKey(at.key, at.head.generation), ({ generation }) =>
            inputKey(at.key, generation)
          ),

    removeInput: (key, generation) => values.deleteAll([inputKey(key, generation)]),

    batches: (at, { from, count = Number.POSITIVE_INFINITY } = { from: 0 }) =>
      Stream.fromIterable(placesOf(at.head, from)).pipe(
        Stream.take(count),
        Stream.mapEffect(({ batch, segment }) => readBatch(at, segment, batch), { concurrency }),
        Stream.runCollect
      ),

    sweep: (at, kept) =>
      Effect.filter(at.head.retired, (generation) =>
        kept?.has(generation) === true
          ? Effect.succeed(true)
          : Effect.match(removeGeneration(at.key, generation), { onFailure: () => true, onSuccess: () => false })
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
