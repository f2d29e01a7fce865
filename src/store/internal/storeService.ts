/** The service of a store of values in versions, its errors, and the part that differs between storages. */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Json from "../../payload/Json.ts"
import * as Limits from "../../payload/Limits.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import { runWithLimits } from "../../payload/internal/limits.ts"
import { writeText } from "../../payload/internal/textScanner.ts"
import * as base from "../../payload/internal/base.ts"
import { defined } from "../../payload/internal/values.ts"
import { type KeyRange, makeVersions, nonce, versionText } from "./storeKeys.ts"

export const StoreReason = Schema.TaggedUnion({
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
  "effect-emissary/store/VersionedStoreError"
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
export class VersionConflict extends Schema.TaggedError<VersionConflict>("effect-emissary/store/VersionConflict")(
  "VersionConflict",
  {
    key: Schema.String,
    expected: Schema.OptionFromNullOr(Schema.String),
    found: Schema.OptionFromNullOr(Schema.String)
  }
) {
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
  "effect-emissary/store/VersionedStore"
) {}

/** A statement of a database, with its parameters. */
export interface Statement {
  readonly text: string
  readonly params: ReadonlyArray<string>
}

/**
 * Commits a statement, and a second one where the first one returns rows, without a pause in which another fiber could use the
 * connection. Answers whether there were rows, or `undefined` where a transaction is open: then nothing was done.
 */
export type CommitAtOnce = (
  written: Statement,
  deleted: Statement | undefined
) => Effect.Effect<boolean | undefined, SqlError>

/** The clients of databases that run in this process, and their way to commit. */
export const commitsAtOnce = new WeakMap<SqlClient, CommitAtOnce>()

/** The processes of the SQLite file of a `SqlClient`; the client of one provides them. */
export const FileProcesses = Context.Reference<Effect.Effect<Option.Option<Processes>, never, Scope.Scope>>(
  "effect-emissary/store/FileProcesses",
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

/** Values that a codec has just written: they are plain JSON, and nothing else refers to them. */
export const freshCopies = new WeakSet<object>()

const refusedValue = (error: PayloadError.PayloadError): StoreReason => ({ _tag: "Refused", error })

const checkText = (what: string, text: string): Effect.Effect<void, StoreReason> =>
  Effect.withFiber((fiber) => {
    const { maxStringLength } = fiber.getRef(Limits.Limits)
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
export const Traced = Context.Reference<boolean>("effect-emissary/store/Traced", {
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

  const textOf = (key: string, value: Schema.Json) => {
    const isCopy = typeof value === "object" && value !== null && freshCopies.has(value)
    const written = isCopy
      ? runWithLimits({ what: "value" }, (limits) => writeText(value, limits, undefined))
      : Json.stringify(value, { what: "value" })
    return Effect.andThen(checkText("key", key), Effect.mapError(written, refusedValue))
  }

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
