/**
 * Values in versions under keys (`VersionedStore`), and append-only logs of such values (the journal), in which
 * sessions are kept.
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
 * owner: a batch that the writer before still writes then has a key of its own, and is never read.
 *
 * **Example** (A log of numbers with a title in its head)
 *
 * ```ts
 * import { Effect, Option, Schema } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { VersionedCodec } from "effect-emissary/payload"
 * import * as storage from "#src/store/internal/storage.ts"
 * import assert from "node:assert"
 *
 * const Head = Schema.Struct({ title: Schema.String, ...storage.logFields })
 *
 * const program = Effect.gen(function*() {
 *   const numbers = storage.make({
 *     store: yield* VersionedStore.VersionedStore,
 *     namespace: "numbers",
 *     head: VersionedCodec.single({ what: "numbers", value: Head }),
 *     batch: storage.batchCodec({ what: "batch of numbers", kind: "numbers", events: Schema.Array(Schema.Finite) })
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

import { sha256 } from "@noble/hashes/sha2.js"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Hex from "effect/encoding/Hex"
import type { SqlError } from "effect/sql/SqlError"
import * as Json from "../../payload/Json.ts"
import * as Limits from "../../payload/Limits.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as base from "../../payload/internal/base.ts"
import * as gate from "../../payload/internal/gate.ts"
import { defined } from "../../payload/internal/values.ts"

// Keys that databases sort, and versions that never come back

const hex = (unit: number, digits: number): string => unit.toString(16).padStart(digits, "0")

const sortUnit = (unit: number): string => {
  if (unit >= 0x2d && unit <= 0x7a) return String.fromCharCode(unit)
  return unit < 0x2d ? `!${hex(unit, 2)}` : `~${hex(unit, 4)}`
}

/** Compared byte by byte, encoded keys have the order of the keys: `!` is less than all plain units, `~` more. */
export const sortable = (key: string): string => {
  let encoded = ""
  for (let i = 0; i < key.length; i++) encoded += sortUnit(key.charCodeAt(i))
  return encoded
}

/** The digest of a key, in hexadecimal: the same for the same key on every machine, and short enough for an index. */
export const digestKey = (key: string): string => Hex.encode(sha256(new TextEncoder().encode(sortable(key))))

/** More than every byte of an encoded key. */
export const lastSortable = "\u007f"

const sortedPattern = /!([0-9a-f]{2})|~([0-9a-f]{4})/g

export const fromSortable = (text: string): string =>
  text.replace(sortedPattern, (_, low: string | undefined, high: string | undefined) =>
    String.fromCharCode(Number.parseInt(low ?? high ?? "", 16))
  )

interface KeyRange {
  readonly prefix: string
  readonly after: Option.Option<string>
  readonly limit: number
}

/** The first keys of a range, of keys in any order. */
const pageOfKeys = (all: Iterable<string>, range: KeyRange): ReadonlyArray<string> =>
  Array.from(all)
    .filter((key) => key.startsWith(range.prefix) && (Option.isNone(range.after) || key > range.after.value))
    // By UTF-16 code units, as `<` compares strings
    .sort()
    .slice(0, range.limit)

const letters = "0123456789abcdefghijklmnopqrstuvwxyz"

/** 16 letters and digits, 82 bits. */
export const nonce: Effect.Effect<string> = Effect.gen(function* () {
  let text = ""
  for (let i = 0; i < 16; i++) text += letters.charAt(yield* Random.nextIntBetween(0, letters.length - 1))
  return text
})

/**
 * Versions of one writer: the number of the revision, for people, and what no other
 * writer has and this one has once. So a value that was deleted and made again never
 * has an old version.
 */
const makeVersions = (writer: string) => {
  let count = 0
  return (previous: Option.Option<string>): string => {
    const revision = Option.match(previous, { onNone: () => 0, onSome: (version) => Number.parseInt(version, 10) || 0 })
    count += 1
    return `${revision + 1}-${writer}-${count.toString(36)}`
  }
}

/** A version, or its absence, as messages show it. */
export const versionText = (version: Option.Option<string>): string =>
  Option.match(version, { onNone: () => "no value", onSome: (text) => `version ${text}` })

// The store

const StoreReason = Schema.TaggedUnion({
  Unavailable: { storage: Schema.String, error: Schema.String },
  Unreadable: { error: PayloadError.PayloadError },
  Refused: { error: PayloadError.PayloadError }
})

export type StoreReason = typeof StoreReason.Type

const renderStoreReason = StoreReason.match({
  Unavailable: ({ error, storage }) =>
    `the ${storage} failed: ${error}. VersionedStore.causeOf(error) returns its error`,
  Unreadable: ({ error }) => `the stored value cannot be read and was left as it is: ${error.message}`,
  Refused: ({ error }) => `refused, nothing was written: ${error.message}`
})

/**
 * The error of a versioned store.
 *
 * **Details**
 *
 * | reason | meaning |
 * |---|---|
 * | `Unavailable` | the storage failed; a write may have taken place, so read before you write again |
 * | `Unreadable` | the stored value is damaged or beyond the limits; it was left as it is |
 * | `Refused` | the key, the value or an option is too large or not valid; nothing was written |
 *
 * `error` of `Unavailable` is the tag of the storage's error, such as `LockTimeoutError`, with the database's
 * own name for it where it has one: `UnknownError, SQLITE_FULL`, or the SQLSTATE of PostgreSQL;
 * {@link causeOf} returns the error itself.
 *
 * @category errors
 * @since 0.1.0
 */
export class VersionedStoreError extends Schema.TaggedError<VersionedStoreError>(
  "effect-emissary/conversation/VersionedStoreError"
)("VersionedStoreError", {
  operation: Schema.Literals(["open", "get", "compareAndSet", "list", "delete"]),
  key: Schema.optionalKey(Schema.String),
  reason: StoreReason
}) {
  override get message(): string {
    const key = this.key === undefined ? "" : ` of ${base.quote(this.key)}`
    return `${this.operation}${key}: ${renderStoreReason(this.reason)}`
  }
}

// Drivers put stored values into their errors. These stay out of messages, JSON and
// everything that prints an error.
const causes = new WeakMap<VersionedStoreError, unknown>()

/**
 * Makes the error of a storage that failed, and remembers its cause for {@link causeOf}.
 * For stores of your own.
 *
 * @category constructors
 * @since 0.1.0
 */
export const unavailable = (options: {
  readonly operation: VersionedStoreError["operation"]
  readonly key?: string | undefined
  readonly storage: string
  readonly error: string
  readonly cause: unknown
}): VersionedStoreError => {
  const { cause, error, key, operation, storage } = options
  const reason: StoreReason = { _tag: "Unavailable", storage, error }
  const failure = new VersionedStoreError({ operation, reason, ...defined({ key }) })
  causes.set(failure, cause)
  return failure
}

/**
 * The error of the database behind an error, in the process where it happened. It may
 * hold stored values: look before you log it.
 *
 * @category getters
 * @since 0.1.0
 */
export const causeOf = (error: VersionedStoreError): Option.Option<unknown> =>
  causes.has(error) ? Option.some(causes.get(error)) : Option.none()

/**
 * The value is not in the version that the writer expected: another writer wrote or
 * deleted it in between. Nothing was written.
 *
 * **Details**
 *
 * `None` is the version of an absent value.
 *
 * **Example** (Two writers)
 *
 * ```ts
 * import { Effect, Option } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* VersionedStore.VersionedStore
 *   yield* store.compareAndSet("counter", Option.none(), 1)
 *   return yield* Effect.flip(store.compareAndSet("counter", Option.none(), 2))
 * })
 *
 * const error = await Effect.runPromise(Effect.provide(program, VersionedStore.layerMemory))
 * assert.ok(error._tag === "VersionConflict" && Option.isNone(error.expected) && Option.isSome(error.found))
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class VersionConflict extends Schema.TaggedError<VersionConflict>(
  "effect-emissary/conversation/VersionConflict"
)("VersionConflict", {
  key: Schema.String,
  expected: Schema.OptionFromNullOr(Schema.String),
  found: Schema.OptionFromNullOr(Schema.String)
}) {
  override get message(): string {
    return `${base.quote(this.key)} changed: expected ${versionText(this.expected)}, found ${versionText(this.found)}. Get it again and apply the change to what you find`
  }
}

/**
 * The range of keys to list.
 *
 * @category models
 * @since 0.1.0
 */
export interface ListOptions {
  /** The beginning of each key in the list; default: any. */
  readonly prefix?: string | undefined
  /** A key: the list begins behind it. Default: from the first key. */
  readonly after?: string | undefined
  /** The most keys, an integer from 1; default 100. Another number is `Refused`. */
  readonly limit?: number | undefined
}

/**
 * Keys in the order of their UTF-16 code units, as `<` compares strings. `next` is the
 * `after` of the next page, `None` on the last one.
 *
 * @category models
 * @since 0.1.0
 */
export interface Page {
  readonly keys: ReadonlyArray<string>
  readonly next: Option.Option<string>
}

/**
 * The processes that use a storage, as far as it knows which ones live.
 *
 * **Details**
 *
 * - `own`: the name of this process: 16 letters and digits, which no other process has or had.
 * - `look`: whether the process with a name lives. `"gone"`: it has ended, however it ended. `"missing"`: nothing of it is there, which
 *   may be because it has lost its lock. It is taken for gone where it is missing again some seconds later. `"alive"`, also if nothing
 *   is known.
 *
 * @category models
 * @since 0.1.0
 */
export interface Processes {
  readonly own: string
  readonly look: (name: string) => Effect.Effect<"alive" | "missing" | "gone">
}

/**
 * Writes that take effect together, for `commit` of {@link Service}.
 *
 * **Details**
 *
 * - `changed`: a value, written if it is in the version `expected`.
 * - `added`: values under new keys.
 * - `removed`: values, each deleted if it is in its version, and left otherwise.
 *
 * @category models
 * @since 0.1.0
 */
export interface Commit {
  readonly changed: { readonly key: string; readonly expected: Option.Option<string>; readonly value: Schema.Json }
  readonly added: ReadonlyArray<{ readonly key: string; readonly value: Schema.Json }>
  readonly removed?: ReadonlyArray<{ readonly key: string; readonly version: string }> | undefined
}

/**
 * The operations of a versioned store.
 *
 * **Details**
 *
 * - `get`: the value and its version, `None` if there is none. Versions are compared and
 *   kept; their text means nothing else.
 * - `compareAndSet`: writes if the value is in the version `expected`, or if there is
 *   none and `expected` is `None`, and returns the new version. Otherwise it fails with
 *   `VersionConflict` and writes nothing.
 * - `list`: keys in pages. Keys that come or go meanwhile may be on a later page or not;
 *   keys that stay are listed once.
 * - `delete`: returns whether there was a value. With `version` it deletes that version only and fails with
 *   `VersionConflict` otherwise; without, it deletes any value, also an unreadable value.
 * - `commit`: several writes as one, see {@link Commit}. Returns the version that all its values have then. `None` means that
 *   `changed` was not in the version `expected`, or that a key of `added` is there: nothing was changed or removed, and some
 *   of `added` may be there. It is optional, and saves time: without it, write one value after the other. A store that wraps
 *   `compareAndSet` of another one wraps it, too, or leaves it out.
 * - `processes`: names this process, and finds out whether another one has ended, so that what it had claimed is free at
 *   once. It is optional. Without it, and where it is `None`, a claim of a process that died ends with its lease.
 *
 * @category models
 * @since 0.1.0
 */
export interface Service {
  readonly get: (
    key: string
  ) => Effect.Effect<Option.Option<{ readonly value: Schema.Json; readonly version: string }>, VersionedStoreError>
  readonly compareAndSet: (
    key: string,
    expected: Option.Option<string>,
    value: Schema.Json
  ) => Effect.Effect<string, VersionConflict | VersionedStoreError>
  readonly list: (options?: ListOptions) => Effect.Effect<Page, VersionedStoreError>
  readonly delete: (
    key: string,
    options?: { readonly version?: string | undefined }
  ) => Effect.Effect<boolean, VersionConflict | VersionedStoreError>
  readonly commit?: ((writes: Commit) => Effect.Effect<Option.Option<string>, VersionedStoreError>) | undefined
  readonly processes?: Effect.Effect<Option.Option<Processes>> | undefined
}

/**
 * Values by key, each in a version.
 *
 * @category services
 * @since 0.1.0
 */
export class VersionedStore extends Context.Service<VersionedStore, Service>()(
  "effect-emissary/conversation/VersionedStore"
) {}

/** The processes of the SQLite file of a `SqlClient`; the client of one provides them. */
export const FileProcesses = Context.Reference<Effect.Effect<Option.Option<Processes>, never, Scope.Scope>>(
  "effect-emissary/conversation/FileProcesses",
  { defaultValue: () => Effect.succeedNone }
)

export interface RawValue {
  readonly text: string
  readonly version: string
}

/** A commit with its values as text. */
export interface RawCommit extends Pick<Commit, "removed"> {
  readonly version: string
  readonly changed: { readonly key: string; readonly expected: Option.Option<string>; readonly text: string }
  readonly added: ReadonlyArray<{ readonly key: string; readonly text: string }>
}

type Failure = StoreReason | SqlError

/** The part that differs between databases; {@link fromStorage} checks keys, values and options. */
export interface Storage {
  readonly get: (key: string) => Effect.Effect<Option.Option<RawValue>, Failure>
  /** Writes if the value is in the version `expected`, and returns whether it did. */
  readonly set: (key: string, expected: Option.Option<string>, value: RawValue) => Effect.Effect<boolean, Failure>
  /** Removes the value if it is in the version `expected`, or in any version, and returns whether it did. */
  readonly remove: (key: string, expected: Option.Option<string>) => Effect.Effect<boolean, Failure>
  readonly list: (range: KeyRange) => Effect.Effect<ReadonlyArray<string>, Failure>
  /** See `commit` of `Service`. All values have the version `version`. If it returns false, `changed` is as it was. */
  readonly commit?: (writes: RawCommit) => Effect.Effect<boolean, Failure>
  readonly processes?: Effect.Effect<Option.Option<Processes>> | undefined
}

const failureTags = ["SqlError", "Unavailable", "Unreadable", "Refused"] as const

/** The tag of an error of a database, and the database's own name for it: `SQLITE_FULL`, or the SQLSTATE of PostgreSQL. */
export const errorName = ({ reason: { _tag, cause } }: SqlError): string => {
  const code = Predicate.hasProperty(cause, "code") ? String(cause.code) : ""
  return /^(SQLITE_[A-Z]+|[0-9A-Z]{5})$/.test(code) ? `${_tag}, ${code}` : _tag
}

export const failWith = (operation: VersionedStoreError["operation"], key?: string) => (failure: Failure) =>
  Effect.fail(
    failure._tag === "SqlError"
      ? unavailable({ operation, key, storage: "database", error: errorName(failure), cause: failure })
      : new VersionedStoreError({ operation, reason: failure, ...defined({ key }) })
  )

const refusedValue = (error: PayloadError.PayloadError): StoreReason => ({ _tag: "Refused", error })

const checkText = (what: string, text: string): Effect.Effect<void, StoreReason> =>
  Effect.flatMap(Limits.Limits, ({ maxStringLength }) => {
    if (text.length <= maxStringLength) return Effect.void
    const measured = { what: "string" as const, limit: maxStringLength, found: text.length, path: "" }
    const reason = PayloadError.Reason.cases.TooLarge.make(measured)
    return Effect.fail(refusedValue(new PayloadError.PayloadError({ what, reason })))
  })

const checkLimit = (limit: number): Effect.Effect<void, StoreReason> => {
  if (Number.isSafeInteger(limit) && limit > 0) return Effect.void
  const problem = { path: "/limit", expected: "an integer from 1", found: `the number ${limit}` }
  const reason = PayloadError.invalid([problem])
  return Effect.fail(refusedValue(new PayloadError.PayloadError({ what: "list options", reason })))
}

const parseValue = ({ text, version }: RawValue) =>
  Json.parse(text, { what: "stored value" }).pipe(
    Effect.map((value) => ({ value, version })),
    Effect.mapError((error): StoreReason => ({ _tag: "Unreadable", error }))
  )

/**
 * With `true` the operations of a store have spans, and so have the statements of its database. The default is `false`: a turn
 * of a session would make a dozen spans, and an idle process one every few seconds.
 *
 * **When to use**
 *
 * Provide `true` below the layer of a store while you look for a slow database.
 *
 * **Example** (Spans while a problem is looked for)
 *
 * ```ts
 * import { Layer } from "effect"
 * import { VersionedStore } from "effect-emissary"
 *
 * export const storeLayer = Layer.provideMerge(VersionedStore.layerMemory, Layer.succeed(VersionedStore.Traced, true))
 * ```
 *
 * @category references
 * @since 0.1.0
 */
export const Traced = Context.Reference<boolean>("effect-emissary/conversation/Traced", {
  defaultValue: () => false
})

export const fromStorage = Effect.fnUntraced(function* (storage: Storage) {
  const nextVersion = makeVersions(yield* nonce)
  const isTraced = yield* Traced
  const spanned =
    (name: string) =>
    <A, E>(operation: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      isTraced ? Effect.withSpan(operation, `VersionedStore.${name}`) : Effect.withTracerEnabled(operation, false)

  const conflict = Effect.fnUntraced(function* (key: string, expected: Option.Option<string>) {
    const found = Option.map(yield* storage.get(key), ({ version }) => version)
    return yield* new VersionConflict({ key, expected, found })
  })

  const get = Effect.fnUntraced(function* (key: string) {
    yield* checkText("key", key)
    const found = yield* storage.get(key)
    return Option.isNone(found) ? Option.none() : Option.some(yield* parseValue(found.value))
  })

  const textOf = Effect.fnUntraced(function* (key: string, value: Schema.Json) {
    yield* checkText("key", key)
    return yield* Effect.mapError(Json.stringify(value, { what: "value" }), refusedValue)
  })

  const compareAndSet = Effect.fnUntraced(function* (key: string, expected: Option.Option<string>, value: Schema.Json) {
    const version = nextVersion(expected)
    const isWritten = yield* storage.set(key, expected, { text: yield* textOf(key, value), version })
    return isWritten ? version : yield* conflict(key, expected)
  })

  const commitWith =
    (write: NonNullable<Storage["commit"]>): NonNullable<Service["commit"]> =>
    ({ added, changed: { expected, key, value }, removed }) =>
      Effect.gen(function* () {
        const version = nextVersion(expected)
        const texts: Array<RawCommit["added"][number]> = []
        for (const { key, value } of added) texts.push({ key, text: yield* textOf(key, value) })
        const changed = { key, expected, text: yield* textOf(key, value) }
        return (yield* write({ version, changed, added: texts, removed })) ? Option.some(version) : Option.none()
      }).pipe(Effect.catch(failWith("compareAndSet", key)), spanned("commit"))

  const list = Effect.fnUntraced(function* ({ after, limit = 100, prefix = "" }: ListOptions) {
    yield* checkText("prefix", prefix)
    yield* checkLimit(limit)
    if (after !== undefined) yield* checkText("after", after)
    const found = yield* storage.list({ prefix, after: Option.fromUndefinedOr(after), limit: limit + 1 })
    const keys = found.slice(0, limit)
    return { keys, next: found.length > limit ? Option.fromUndefinedOr(keys.at(-1)) : Option.none() }
  })

  const remove = Effect.fnUntraced(function* (key: string, expected: Option.Option<string>) {
    yield* checkText("key", key)
    const isRemoved = yield* storage.remove(key, expected)
    return isRemoved || Option.isNone(expected) ? isRemoved : yield* conflict(key, expected)
  })

  const service: Service = {
    get: (key) => Effect.catch(get(key), failWith("get", key)).pipe(spanned("get")),
    compareAndSet: (key, expected, value) =>
      Effect.catchTag(compareAndSet(key, expected, value), failureTags, failWith("compareAndSet", key)).pipe(
        spanned("compareAndSet")
      ),
    list: (options) => Effect.catch(list(options ?? {}), failWith("list")).pipe(spanned("list")),
    delete: (key, options) =>
      Effect.catchTag(remove(key, Option.fromUndefinedOr(options?.version)), failureTags, failWith("delete", key)).pipe(
        spanned("delete")
      ),
    ...defined({ processes: storage.processes }),
    ...(storage.commit === undefined ? undefined : { commit: commitWith(storage.commit) })
  }
  return service
})

const makeMemoryStorage: Effect.Effect<Storage> = Effect.sync(() => {
  const values = new Map<string, RawValue>()
  const isIn = (key: string, version: Option.Option<string>) =>
    values.get(key)?.version === Option.getOrUndefined(version)
  return {
    get: (key) => Effect.sync(() => Option.fromUndefinedOr(values.get(key))),
    set: (key, expected, value) =>
      Effect.sync(() => {
        const isExpected = isIn(key, expected)
        if (isExpected) values.set(key, value)
        return isExpected
      }),
    remove: (key, expected) =>
      Effect.sync(() => (Option.isNone(expected) || isIn(key, expected)) && values.delete(key)),
    list: (range) => Effect.sync(() => pageOfKeys(values.keys(), range))
  }
})

/**
 * Keeps values in memory, for as long as the layer lives. For tests, and for what need
 * not survive.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<VersionedStore> = Layer.effect(
  VersionedStore,
  Effect.flatMap(makeMemoryStorage, fromStorage)
)

// Logs

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
export const documents = (store: Service) => {
  const find = (stored: string) => Effect.mapError(store.get(stored), reasonOf(stored))

  const write = (stored: string, expected: Option.Option<string>, json: Schema.Json) =>
    Effect.catchTag(store.compareAndSet(stored, expected, json), "VersionedStoreError", (error) =>
      Effect.fail(reasonOf(stored)(error))
    )

  /** A signature covers the value and its key: the value is refused under another key. */
  const sealedFor = (stored: string) => Effect.provideService(gate.Subject, stored)

  const encode = <A>(codec: VersionedCodec.VersionedCodec<A>, stored: string, value: A) =>
    Effect.mapError(Effect.catchTag(sealedFor(stored)(codec.encode(value)), "LossyEncoding", Effect.die), refused)

  return {
    get: Effect.fnUntraced(function* <A>(codec: VersionedCodec.VersionedCodec<A>, stored: string) {
      const found = yield* find(stored)
      if (Option.isNone(found)) return Option.none()
      const { version } = found.value
      const value = yield* Effect.mapError(sealedFor(stored)(codec.decode(found.value.value)), (error) =>
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
const commit = Effect.fnUntraced(function* (
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
  /** Begins a log under a key, in place of the log that was read there. `generation` is a new {@link nonce}; default: one of its own. */
  readonly begin: (
    key: string,
    before: Option.Option<StoredHead<H>>,
    log: {
      readonly generation?: string | undefined
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
  /** Deletes a log in the version, or in any version, and returns whether there was one. */
  readonly remove: (key: string, version: string | undefined) => Effect.Effect<boolean, Conflict<H> | Reason>
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

type Place = Omit<Batch<unknown>, "events">

const keysOf = (namespace: string) => {
  const root = rootKey(namespace)
  const heads = `${root}head/`
  const headKey = (key: string) => `${heads}${key}`
  const journalKey = (key: string) => `${root}journal/${partOfKey(key)}`
  const generationKey = (key: string, generation: string) => `${journalKey(key)}${generation}/`
  const inputKey = (key: string, generation: string) => `${generationKey(key, generation)}input`
  const batchKey = (key: string, { batch, epoch, generation, owner }: Place) =>
    `${generationKey(key, generation)}${epoch}-${owner}/${batch}`
  return { heads, headKey, journalKey, generationKey, inputKey, batchKey }
}

/** Reads the values of logs. */
const readerOf = <H extends Log, E, I>(options: JournalOptions<H, E, I>) => {
  const values = documents(options.store)
  const { batchKey, generationKey, headKey } = keysOf(options.namespace)

  const head = (key: string) =>
    Effect.map(
      values.get(options.head, headKey(key)),
      Option.map(({ value, version }): StoredHead<H> => ({ key, head: value, version }))
    )

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
    return yield* Effect.fail(damaged(stored, "expected a value of this log, got one of another log or place"))
  })

  const readBatch = (at: StoredHead<H>, { epoch, owner }: Segment, batch: number) => {
    const stored = batchKey(at.key, { generation: at.head.generation, epoch, owner, batch })
    return read(at, options.batch, stored, (value) => batchKey(at.key, value)).pipe(
      // One failing read of many does not have the others read again
      Effect.retry({ schedule: retrying, times: 4, while: ({ _tag }) => _tag === "StoreFailed" }),
      Effect.map(({ events }) => events)
    )
  }

  return { head, conflict, removeGeneration, read, readBatch }
}

/** Writes heads, with the values that they name. */
const writerOf = <H extends Log, E, I extends { readonly generation: string }>(options: JournalOptions<H, E, I>) => {
  const { store } = options
  const values = documents(store)
  const { batchKey, headKey, inputKey } = keysOf(options.namespace)
  const { conflict, head, removeGeneration } = readerOf(options)

  const writeHead = (key: string, before: Option.Option<StoredHead<H>>, next: H, json: Schema.Json) => {
    const expected = Option.map(before, ({ version }) => version)
    return values.write(headKey(key), expected, json).pipe(
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
  }

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
    const expected = Option.map(before, ({ version }) => version)
    const together =
      named.length === 0 && marking === undefined
        ? Option.none()
        : yield* commit(store, { ...head, expected }, named, marking, removed)
    if (Option.isSome(together)) return { key, head: next, version: together.value }
    if (marking?.isSet === true) yield* setMark(store, marking.mark)
    yield* Effect.forEach(named, (one) => writeNamed(key, before, one), { concurrency, discard: true })
    const written = yield* writeHead(key, before, next, head.value)
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
    const generation = log.generation ?? (yield* nonce)
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
  const { conflict, head, read, readBatch, removeGeneration } = readerOf(options)
  const { append, begin } = writerOf(options)

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
