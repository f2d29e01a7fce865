/**
 * Checks that every implementation of a store passes: run them against your own `VersionedStore` or `ConversationStore`.
 *
 * @since 0.1.0
 */

import * as Arbitrary from "effect/Arbitrary"
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Conversation from "../conversation/Conversation.ts"
import type { ConversationError } from "../conversation/ConversationError.ts"
import * as ConversationStore from "../conversation/ConversationStore.ts"
import * as Message from "../conversation/Message.ts"
import * as VersionedStore from "../conversation/VersionedStore.ts"
import type * as history from "../conversation/internal/history.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as Arbitraries from "./Arbitraries.ts"

/**
 * A store breaks a rule.
 *
 * @category errors
 * @since 0.1.0
 */
export class StoreConformanceError extends Schema.TaggedError<StoreConformanceError>(
  "effect-emissary/testing/StoreConformanceError"
)("StoreConformanceError", {
  store: Schema.String,
  check: Schema.String,
  problem: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `${this.store}: ${this.check}: ${this.problem}`
  }
}

/**
 * One rule, as an effect that fails when the store breaks it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Check {
  readonly name: string
  readonly check: Effect.Effect<void, StoreConformanceError>
}

/**
 * How a suite treats the store.
 *
 * **Details**
 *
 * - `durable`: values outlive the layer, and the layer built again finds them. Default
 *   `true`; say `false` for a store in memory.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  readonly durable?: boolean | undefined
}

/**
 * The checks for a store: compare and set, versions, values, keys, listing, writers at
 * once, interruption.
 *
 * **When to use**
 *
 * Use in the tests of a store of your own. The suite knows no test framework: register
 * each check as a test, or run them one after another.
 *
 * **Details**
 *
 * Each check builds the layer for itself, and deletes all keys that start with
 * `conformance/` before and after. What a killed process leaves is not checked.
 *
 * **Example** (Checking a store)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { Conformance } from "effect-emissary/testing"
 * const checks = Conformance.versionedStore("memory", VersionedStore.layerMemory, { durable: false })
 *
 * // with @effect/vitest: for (const { name, check } of checks) it.effect(name, () => check)
 * await Effect.runPromise(Effect.forEach(checks, ({ check }) => check, { discard: true }))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const versionedStore = <E = never>(
  name: string,
  layer: Layer.Layer<VersionedStore.VersionedStore, E>,
  options?: Options
): ReadonlyArray<Check> =>
  checksOf(
    {
      key: VersionedStore.VersionedStore,
      rules: versionedStoreRules,
      clear: (store, part) =>
        Effect.flatMap(
          listAllKeys(store, part, 100),
          Effect.forEach((key) => store.delete(key), { discard: true })
        )
    },
    name,
    layer,
    options
  )

/**
 * The checks for a store: loading what was saved, versions, long conversations, laws, ids,
 * writers at once.
 *
 * **When to use**
 *
 * Use in the tests of a store of your own. The suite knows no test framework: register
 * each check as a test, or run them one after another.
 *
 * **Details**
 *
 * Each check builds the layer for itself, and deletes all conversations whose id starts with
 * `conformance/` before and after. What a killed process leaves is not checked.
 *
 * **Example** (Checking a store)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { ConversationStore } from "effect-emissary"
 * import { Conformance } from "effect-emissary/testing"
 * const checks = Conformance.conversationStore("memory", ConversationStore.layerMemory, { durable: false })
 *
 * // with @effect/vitest: for (const { name, check } of checks) it.effect(name, () => check)
 * await Effect.runPromise(Effect.forEach(checks, ({ check }) => check, { discard: true }))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const conversationStore = <E = never>(
  name: string,
  layer: Layer.Layer<ConversationStore.ConversationStore, E>,
  options?: Options
): ReadonlyArray<Check> =>
  checksOf(
    {
      key: ConversationStore.ConversationStore,
      rules: conversationStoreRules,
      clear: (store, part) =>
        Effect.flatMap(
          listAllIds(store, part, 100),
          Effect.forEach((id) => store.delete(id), { discard: true })
        )
    },
    name,
    layer,
    options
  )

/** One rule. It fails with a sentence, and may use this part of the store alone. */
interface Rule<S> {
  readonly name: string
  readonly check: (store: S, part: string) => Effect.Effect<void, unknown>
}

const show = (value: unknown): string => JSON.stringify(value) ?? "nothing"

const expectEqual = (what: string, expected: unknown, found: unknown): Effect.Effect<void, string> =>
  Equal.equals(expected, found) ? Effect.void : Effect.fail(`${what}: expected ${show(expected)}, found ${show(found)}`)

const expectSome = <A>(what: string, found: Option.Option<A>): Effect.Effect<A, string> =>
  Option.isSome(found) ? Effect.succeed(found.value) : Effect.fail(`${what}: expected a value, found none`)

/** The error that an effect must end with. */
const expectError = <A, E extends { readonly _tag: string }, Tag extends E["_tag"], R>(
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

const problemOfCause = (cause: Cause.Cause<unknown>): string => {
  const fail = cause.reasons.find(Cause.isFailReason)
  return typeof fail?.error === "string" ? fail.error : Cause.pretty(cause)
}

interface StoreKind<I, S> {
  readonly key: Context.Key<I, S>
  readonly rules: ReadonlyArray<Rule<S> & { readonly later?: Rule<S> }>
  /** Deletes everything whose name begins with a part. */
  readonly clear: (store: S, part: string) => Effect.Effect<void, unknown>
}

/** One check for each rule: in a layer of its own, and in a part of the store that is empty before and after. */
const checksOf = <I, S, E>(
  { clear, key, rules }: StoreKind<I, S>,
  name: string,
  layer: Layer.Layer<I, E>,
  options: Options | undefined
): ReadonlyArray<Check> =>
  rules
    .filter((rule) => rule.later === undefined || options?.durable !== false)
    .map((rule, index) => {
      const part = `conformance/${index}/`
      const open = <A, E2>(use: (store: S) => Effect.Effect<A, E2>) =>
        Effect.provide(Effect.flatMap(key, use), Layer.fresh(layer))
      const first = open((store) => Effect.andThen(clear(store, part), rule.check(store, part)))
      const { later } = rule
      const second = open((store) =>
        later === undefined ? clear(store, part) : Effect.andThen(later.check(store, part), clear(store, part))
      )
      return {
        name: `${name}: ${rule.name}`,
        check: Effect.andThen(first, second).pipe(
          Effect.asVoid,
          Effect.catchCause((cause) =>
            Effect.fail(new StoreConformanceError({ store: name, check: rule.name, problem: problemOfCause(cause) }))
          )
        )
      }
    })

const noVersion = Option.none<string>()

const getValue = (store: VersionedStore.Service, key: string) =>
  Effect.map(
    store.get(key),
    Option.map(({ value }) => value)
  )

const expectVersionConflict = (
  what: string,
  expected: { readonly key: string; readonly expected: Option.Option<string>; readonly found: Option.Option<string> },
  effect: Effect.Effect<unknown, VersionedStore.VersionConflict | VersionedStore.VersionedStoreError>
) =>
  Effect.flatMap(expectError(what, "VersionConflict", effect), ({ expected: wanted, found, key }) =>
    expectEqual(what, expected, { key, expected: wanted, found })
  )

/** Everything under a prefix, page by page. */
const listAllKeys = Effect.fnUntraced(function* (store: VersionedStore.Service, prefix: string, limit: number) {
  const all: Array<string> = []
  let after: string | undefined
  do {
    const page = yield* store.list({ prefix, limit, after })
    if (page.keys.length > limit)
      return yield* Effect.fail(`at most ${limit} keys on a page, found ${page.keys.length}`)
    all.push(...page.keys)
    after = Option.getOrUndefined(page.next)
  } while (after !== undefined)
  return all
})

const absentKeyRule: Rule<VersionedStore.Service> = {
  name: "what is not there is None, cannot be changed and is deleted without effect",
  check: Effect.fnUntraced(function* (store, part) {
    const key = `${part}none`
    yield* expectEqual("get", noVersion, yield* store.get(key))
    yield* expectEqual("delete", false, yield* store.delete(key))
    const fields = { key, expected: Option.some("1-x"), found: noVersion }
    yield* expectVersionConflict("a change", fields, store.compareAndSet(key, Option.some("1-x"), 1))
    yield* expectVersionConflict("a delete in a version", fields, store.delete(key, { version: "1-x" }))
    yield* expectEqual("get", noVersion, yield* store.get(key))
  })
}

const compareAndSetRule: Rule<VersionedStore.Service> = {
  name: "a write succeeds from the version it was made for and from no other",
  check: Effect.fnUntraced(function* (store, part) {
    const key = `${part}cas`
    const first = yield* store.compareAndSet(key, noVersion, { n: 1 })
    yield* expectEqual("get", Option.some({ value: { n: 1 }, version: first }), yield* store.get(key))
    yield* expectVersionConflict(
      "a second start",
      { key, expected: noVersion, found: Option.some(first) },
      store.compareAndSet(key, noVersion, { n: 0 })
    )
    const second = yield* store.compareAndSet(key, Option.some(first), { n: 2 })
    if (second === first) return yield* Effect.fail("a write must give a new version")
    const stale = { key, expected: Option.some(first), found: Option.some(second) }
    yield* expectVersionConflict("a stale write", stale, store.compareAndSet(key, Option.some(first), { n: 3 }))
    yield* expectVersionConflict("a stale delete", stale, store.delete(key, { version: first }))
    yield* expectEqual("get", Option.some({ value: { n: 2 }, version: second }), yield* store.get(key))
    const third = yield* store.compareAndSet(key, Option.some(second), { n: 2 })
    if (third === second) return yield* Effect.fail("a write of the same value must give a new version")
  })
}

const noReturnRule: Rule<VersionedStore.Service> = {
  name: "a version never comes back, also when the value was deleted and made again",
  check: Effect.fnUntraced(function* (store, part) {
    const key = `${part}again`
    const first = yield* store.compareAndSet(key, noVersion, "a")
    yield* expectEqual("delete in the version", true, yield* store.delete(key, { version: first }))
    yield* expectEqual("get", noVersion, yield* store.get(key))
    const second = yield* store.compareAndSet(key, noVersion, "a")
    yield* expectVersionConflict(
      "a write from the version before the delete",
      { key, expected: Option.some(first), found: Option.some(second) },
      store.compareAndSet(key, Option.some(first), "b")
    )
    yield* expectEqual("delete", true, yield* store.delete(key))
    yield* expectEqual("delete again", false, yield* store.delete(key))
  })
}

/** Values that storage likes to change. */
const jsonSamples: ReadonlyArray<Schema.Json> = [
  null,
  true,
  0,
  -1.5e-7,
  Number.MAX_SAFE_INTEGER,
  "",
  "null",
  "line\nbreak\r\n\ttab, \u0000 and \u007f, 'quotes' \"\\ ; -- ${x} %_",
  "héllo 日本 👩‍👩‍👧 \ud800 \u2028",
  [],
  {},
  [[], [{}], [null]],
  { "": 1, "a/b": { "~": [1, "2", false] }, constructor: "x", toString: 1 },
  "x".repeat(300_000)
]

const valuesRule: Rule<VersionedStore.Service> = {
  name: "every JSON value comes back as it was, as a copy of its own",
  check: Effect.fnUntraced(function* (store, part) {
    for (const [index, value] of jsonSamples.entries()) {
      const key = `${part}${index}`
      yield* store.compareAndSet(key, noVersion, value)
      yield* expectEqual(`value ${index}`, Option.some(value), yield* getValue(store, key))
    }
    const mutable = { list: [1] }
    yield* store.compareAndSet(`${part}copy`, noVersion, mutable)
    mutable.list.push(2)
    yield* expectEqual(
      "after the given value was changed",
      Option.some({ list: [1] }),
      yield* getValue(store, `${part}copy`)
    )
  })
}

const refusalsRule: Rule<VersionedStore.Service> = {
  name: "what is not JSON is refused, and nothing is written",
  check: Effect.fnUntraced(function* (store, part) {
    const key = `${part}refused`
    const hostile: ReadonlyArray<unknown> = [Number.NaN, undefined, new Date(0), JSON.parse(`{"__proto__":{}}`)]
    for (const value of hostile) {
      // What callers without types pass
      const error = yield* expectError(
        "what is no JSON",
        "VersionedStoreError",
        store.compareAndSet(key, noVersion, value as Schema.Json)
      )
      yield* expectEqual("the reason", "Refused", error.reason._tag)
    }
    for (const limit of [0, -1, 1.5, Number.NaN]) {
      const error = yield* expectError(`limit ${limit}`, "VersionedStoreError", store.list({ limit }))
      yield* expectEqual("the reason", "Refused", error.reason._tag)
    }
    yield* expectEqual("get", noVersion, yield* store.get(key))
  })
}

/** Keys that file systems and databases like to confuse. */
const hostileKeys: ReadonlyArray<string> = [
  "",
  ".",
  "..",
  "../../etc/passwd",
  "/abs",
  "C:\\x",
  "a/b",
  "a\\b",
  "a%2Fb",
  "a_2fb",
  "a_b",
  "a%b",
  "a*b?",
  "case",
  "CASE",
  "Case",
  "con",
  "CON",
  "nul.json",
  "com1",
  "trailing ",
  "trailing.",
  "trailing",
  "é",
  "e\u0301",
  "日本語",
  "👩‍👩‍👧",
  "\ud83d",
  "\ude00",
  "😀",
  "\u0000",
  "a\u0000",
  "\n",
  "'; DROP TABLE x; --",
  "__proto__",
  "constructor",
  "h-0000",
  "k-",
  `${"long".repeat(100)}a`,
  `${"long".repeat(100)}b`,
  "LONG".repeat(100),
  "long".repeat(5_000),
  "\ud800".repeat(500)
]

const keysRule: Rule<VersionedStore.Service> = {
  name: "different text is a different key, whatever the text",
  check: Effect.fnUntraced(function* (store, part) {
    for (const [index, key] of hostileKeys.entries()) yield* store.compareAndSet(`${part}${key}`, noVersion, index)
    for (const [index, key] of hostileKeys.entries()) {
      yield* expectEqual(
        `key ${JSON.stringify(key.slice(0, 40))}`,
        Option.some(index),
        yield* getValue(store, `${part}${key}`)
      )
    }
    const sorted = hostileKeys.map((key) => `${part}${key}`).sort((a, b) => (a < b ? -1 : 1))
    yield* expectEqual("list", sorted, yield* listAllKeys(store, part, 7))
    for (const key of hostileKeys) yield* expectEqual("delete", true, yield* store.delete(`${part}${key}`))
    yield* expectEqual("list after deleting all", [], yield* listAllKeys(store, part, 100))
  })
}

const listingRule: Rule<VersionedStore.Service> = {
  name: "list is ordered by code units, cut into pages, and takes prefixes literally",
  check: Effect.fnUntraced(function* (store, part) {
    const names = ["a", "a-1", "a.2", "a/1", "a/10", "a/2", "a/2/x", "aB", "a_1", "a%", "ab", "b", "A", "{", "\uffff"]
    for (const name of names) yield* store.compareAndSet(`${part}${name}`, noVersion, null)
    const under = (prefix: string) =>
      names
        .map((name) => `${part}${name}`)
        .filter((name) => name.startsWith(`${part}${prefix}`))
        .sort((a, b) => (a < b ? -1 : 1))
    for (const prefix of ["", "a", "a/", "a/1", "a%", "a_", "A", "\uffff", "zz"]) {
      for (const limit of [1, 2, 100]) {
        yield* expectEqual(`prefix ${prefix}`, under(prefix), yield* listAllKeys(store, `${part}${prefix}`, limit))
      }
    }
    const all = under("")
    const last = all.at(-1) ?? ""
    const exact = yield* store.list({ prefix: part, limit: all.length })
    yield* expectEqual("a page that holds the rest", { keys: all, next: noVersion }, exact)
    yield* expectEqual(
      "after the last",
      { keys: [], next: noVersion },
      yield* store.list({ prefix: part, after: last })
    )
    const between = yield* store.list({ prefix: `${part}a/`, after: `${part}a/11`, limit: 1 })
    yield* expectEqual(
      "after a key that is not there",
      { keys: [`${part}a/2`], next: Option.some(`${part}a/2`) },
      between
    )
  })
}

const incrementKey = (store: VersionedStore.Service, key: string) =>
  Effect.gen(function* () {
    const found = yield* store.get(key)
    const value = Option.match(found, { onNone: () => 0, onSome: ({ value }) => Number(value) })
    const expected = Option.map(found, ({ version }) => version)
    yield* store.compareAndSet(key, expected, value + 1)
  }).pipe(Effect.retry({ while: (error) => error._tag === "VersionConflict" }))

const concurrencyRule: Rule<VersionedStore.Service> = {
  name: "writers at once lose nothing",
  check: Effect.fnUntraced(function* (store, part) {
    const key = `${part}counter`
    const writers = Array.from({ length: 8 }, () => Effect.repeat(incrementKey(store, key), { times: 4 }))
    yield* Effect.all(writers, { concurrency: "unbounded" })
    yield* expectEqual("increments", Option.some(40), yield* getValue(store, key))
    const starts = yield* Effect.forEach(
      [1, 2, 3, 4, 5],
      (n) => Effect.result(store.compareAndSet(`${part}start`, noVersion, n)),
      { concurrency: "unbounded" }
    )
    const started = starts.filter((result) => result._tag === "Success")
    yield* expectEqual("writers that started the value", 1, started.length)
  })
}

const interruptionRule: Rule<VersionedStore.Service> = {
  name: "an interrupted writer leaves the old value or the new one, and blocks nobody",
  check: Effect.fnUntraced(function* (store, part) {
    const key = `${part}interrupted`
    yield* incrementKey(store, key)
    for (let turns = 0; turns < 12; turns++) {
      const before = yield* expectSome("the value", yield* getValue(store, key))
      const fiber = yield* Effect.forkChild(incrementKey(store, key))
      for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
      yield* Fiber.interrupt(fiber)
      const after = Number(yield* expectSome("the value", yield* getValue(store, key)))
      if (after !== before && after !== Number(before) + 1) {
        return yield* Effect.fail(`expected ${String(before)} or one more, found ${after}`)
      }
    }
    yield* incrementKey(store, key)
  })
}

const durableValuesRule: Rule<VersionedStore.Service> = {
  name: "values are there when the store is opened again",
  check: (store, part) => Effect.asVoid(store.compareAndSet(`${part}kept`, noVersion, { kept: true }))
}

const durableValuesLaterRule: Rule<VersionedStore.Service> = {
  name: durableValuesRule.name,
  check: (store, part) =>
    Effect.flatMap(getValue(store, `${part}kept`), (found) =>
      expectEqual("the value", Option.some<Schema.Json>({ kept: true }), found)
    )
}

/** Each rule, with what is checked when the store has been closed and opened again. */
const versionedStoreRules: ReadonlyArray<
  Rule<VersionedStore.Service> & { readonly later?: Rule<VersionedStore.Service> }
> = [
  absentKeyRule,
  compareAndSetRule,
  noReturnRule,
  valuesRule,
  refusalsRule,
  keysRule,
  listingRule,
  concurrencyRule,
  interruptionRule,
  { ...durableValuesRule, later: durableValuesLaterRule }
]

const noRevision = Option.none<string>()

const listAllIds = Effect.fnUntraced(function* (store: ConversationStore.Service, prefix: string, limit: number) {
  const all: Array<string> = []
  let after: string | undefined
  do {
    const page = yield* store.list({ prefix, limit, after })
    all.push(...page.ids)
    after = Option.getOrUndefined(page.next)
  } while (after !== undefined)
  return all
})

const loadSome = (store: ConversationStore.Service, id: string) =>
  Effect.flatMap(store.load(id), (found) => expectSome("load", found))

const toJsonValue = (conversation: history.Conversation) => Effect.map(Conversation.codec.encode(conversation), show)

const expectSameConversation = Effect.fnUntraced(function* (
  what: string,
  expected: history.Conversation,
  found: history.Conversation
) {
  yield* expectEqual(what, yield* toJsonValue(expected), yield* toJsonValue(found))
  if (!Equal.equals(expected, found)) return yield* Effect.fail(`${what}: not equal, although the JSON is`)
})

const expectConflict = (
  what: string,
  expected: { readonly id: string; readonly expected: Option.Option<string>; readonly found: Option.Option<string> },
  effect: Effect.Effect<
    unknown,
    ConversationStore.ConversationConflict | ConversationError | ConversationStore.ConversationStoreError
  >
) =>
  Effect.flatMap(expectError(what, "ConversationConflict", effect), ({ expected: wanted, found, id }) =>
    expectEqual(what, expected, { id, expected: wanted, found })
  )

const userMessage = (n: number | string) => Message.user(`message ${n}`)

const lastText = (message: Message.Message): string => {
  if (message.role !== "user") return message.role
  const [part] = message.content
  return part.type === "text" ? part.text : part.type
}

const allTexts = (conversation: history.Conversation) => Conversation.messages(conversation).map(lastText)

const absentConversationRule: Rule<ConversationStore.Service> = {
  name: "what is not there is None, cannot be changed and is deleted without effect",
  check: Effect.fnUntraced(function* (store, part) {
    const id = `${part}none`
    yield* expectEqual("load", noRevision, yield* store.load(id))
    yield* expectEqual("delete", false, yield* store.delete(id))
    const fields = { id, expected: Option.some("1-x"), found: noRevision }
    yield* expectConflict("save", fields, store.save(id, Conversation.empty, { expected: Option.some("1-x") }))
    yield* expectConflict("append", fields, store.append(id, [yield* userMessage(1)], { expected: "1-x" }))
    yield* expectConflict("delete in a version", fields, store.delete(id, { expected: "1-x" }))
    yield* expectEqual("load", noRevision, yield* store.load(id))
  })
}

const roundTripRule: Rule<ConversationStore.Service> = {
  name: "what was saved, or appended message by message, is loaded equal",
  check: Effect.fnUntraced(function* (store, part) {
    const conversations = yield* Arbitrary.sampleEffect(Arbitraries.conversation({ maxTurns: 8 }), {
      count: 20,
      seed: 20_26
    })
    for (const [index, conversation] of conversations.entries()) {
      const saved = `${part}saved/${index}`
      const version = yield* store.save(saved, conversation, { expected: noRevision })
      const found = yield* loadSome(store, saved)
      yield* expectSameConversation("after save", conversation, found.conversation)
      yield* expectEqual("version", version, found.version)

      const appended = `${part}appended/${index}`
      const empty = Conversation.withTokenLimit(
        Conversation.empty,
        Option.getOrUndefined(Conversation.tokenLimit(conversation))
      )
      let last = yield* store.save(appended, empty, { expected: noRevision })
      for (const message of Conversation.messages(conversation)) {
        last = yield* store.append(appended, [message], { expected: last })
      }
      yield* expectSameConversation("after appending", conversation, (yield* loadSome(store, appended)).conversation)
    }
  })
}

const staleSaveRule: Rule<ConversationStore.Service> = {
  name: "a stale save, append or delete is a conflict that names both versions, and changes nothing",
  check: Effect.fnUntraced(function* (store, part) {
    const id = `${part}stale`
    const one = Conversation.fromMessages([yield* userMessage(1)])
    const conversation = yield* Effect.fromResult(one)
    const first = yield* store.save(id, conversation, { expected: noRevision })
    const second = yield* store.append(id, [yield* userMessage(2)], { expected: first })
    const fields = { id, expected: Option.some(first), found: Option.some(second) }
    yield* expectConflict("save", fields, store.save(id, conversation, { expected: Option.some(first) }))
    yield* expectConflict("append", fields, store.append(id, [yield* userMessage(3)], { expected: first }))
    yield* expectConflict("delete", fields, store.delete(id, { expected: first }))
    yield* expectConflict(
      "a second start",
      { id, expected: noRevision, found: Option.some(second) },
      store.save(id, conversation, { expected: noRevision })
    )
    const found = yield* loadSome(store, id)
    yield* expectEqual("messages", ["message 1", "message 2"], allTexts(found.conversation))
    yield* expectEqual("version", second, found.version)
  })
}

const manyMessagesRule: Rule<ConversationStore.Service> = {
  name: "a long conversation is appended to, loaded, replaced and deleted as a whole",
  check: Effect.fnUntraced(function* (store, part) {
    const id = `${part}long`
    const messages = yield* Effect.forEach(
      Array.from({ length: 230 }, (_, n) => n),
      userMessage
    )
    yield* Effect.forEach(messages.slice(0, 90), (message) => store.append(id, [message]), { discard: true })
    yield* store.append(id, messages.slice(90, 200))
    yield* Effect.forEach(messages.slice(200), (message) => store.append(id, [message]), { discard: true })
    const long = yield* loadSome(store, id)
    yield* expectEqual("messages", messages.map(lastText), allTexts(long.conversation))

    const { conversation } = yield* Effect.fromResult(Conversation.dropOldTurns(long.conversation, { keepRecent: 3 }))
    const version = yield* store.save(id, conversation, { expected: Option.some(long.version) })
    yield* store.append(id, [yield* userMessage("more")], { expected: version })
    yield* expectEqual(
      "messages",
      [...messages.slice(-3).map(lastText), "message more"],
      allTexts((yield* loadSome(store, id)).conversation)
    )

    yield* expectEqual("delete", true, yield* store.delete(id))
    yield* expectEqual("load", noRevision, yield* store.load(id))
    yield* store.append(id, [yield* userMessage("new")])
    yield* expectEqual("messages", ["message new"], allTexts((yield* loadSome(store, id)).conversation))
  })
}

const unlawfulRule: Rule<ConversationStore.Service> = {
  name: "an append that breaks a law is refused as Conversation refuses it, and changes nothing",
  check: Effect.fnUntraced(function* (store, part) {
    const id = `${part}laws`
    const call = Message.toolCallPart({ id: "c", name: "search", arguments: {} })
    const answer = yield* Message.tool({ callId: "c", name: "search", result: ToolResult.success("x") })
    const start = [
      yield* Message.system("s"),
      ...(yield* Effect.forEach(
        Array.from({ length: 80 }, (_, n) => n),
        userMessage
      ))
    ]
    const steps = [
      [...start, yield* Message.assistant([call])],
      [answer],
      [
        yield* Message.assistant("done"),
        ...(yield* Effect.forEach(
          Array.from({ length: 80 }, (_, n) => n),
          userMessage
        ))
      ]
    ]
    const wrong = [
      [yield* Message.system("late")],
      [yield* Message.tool({ callId: "other", name: "search", result: ToolResult.success("x") })],
      [yield* Message.tool({ callId: "c", name: "other", result: ToolResult.success("x") })],
      [yield* userMessage("too early, if a call is open")],
      [answer, answer]
    ]
    let known = Conversation.empty
    for (const step of steps) {
      yield* store.append(id, step)
      known = yield* Effect.fromResult(Conversation.appendAll(known, step))
      for (const messages of wrong) {
        const law = Conversation.appendAll(known, messages)
        if (Result.isSuccess(law)) continue
        const error = yield* expectError("append", "ConversationError", store.append(id, messages))
        yield* expectEqual("the error", law.failure.message, error.message)
      }
      yield* expectSameConversation("the conversation", known, (yield* loadSome(store, id)).conversation)
    }
  })
}

const idsRule: Rule<ConversationStore.Service> = {
  name: "ids are any text, listed in order and in pages",
  check: Effect.fnUntraced(function* (store, part) {
    for (const id of hostileKeys) yield* store.append(`${part}${id}`, [yield* userMessage(id.slice(0, 100))])
    for (const id of hostileKeys) {
      const { conversation } = yield* loadSome(store, `${part}${id}`)
      yield* expectEqual("messages", [`message ${id.slice(0, 100)}`], allTexts(conversation))
    }
    const sorted = hostileKeys.map((id) => `${part}${id}`).sort((a, b) => (a < b ? -1 : 1))
    yield* expectEqual("list", sorted, yield* listAllIds(store, part, 7))
    yield* expectEqual(
      "list with a prefix",
      sorted.filter((id) => id.startsWith(`${part}a`)),
      yield* listAllIds(store, `${part}a`, 100)
    )
  })
}

const concurrentAppendRule: Rule<ConversationStore.Service> = {
  name: "writers that append at once lose nothing",
  check: Effect.fnUntraced(function* (store, part) {
    const id = `${part}shared`
    const writer = (name: string) =>
      Effect.forEach(
        Array.from({ length: 15 }, (_, n) => n),
        (n) =>
          Effect.flatMap(userMessage(`${name}${n}`), (message) =>
            store.append(id, [message]).pipe(Effect.retry({ while: (error) => error._tag === "ConversationConflict" }))
          ),
        { discard: true }
      )
    yield* Effect.all(["a", "b", "c"].map(writer), { concurrency: "unbounded" })
    const found = allTexts((yield* loadSome(store, id)).conversation)
    for (const name of ["a", "b", "c"]) {
      const own = Array.from({ length: 15 }, (_, n) => `message ${name}${n}`)
      yield* expectEqual(
        `messages of ${name}`,
        own,
        found.filter((text) => text.startsWith(`message ${name}`))
      )
    }
    yield* expectEqual("number of messages", 45, found.length)
  })
}

const durableConversationRule: Rule<ConversationStore.Service> = {
  name: "conversations are there when the store is opened again",
  check: (store, part) =>
    Effect.flatMap(userMessage(1), (message) => Effect.asVoid(store.append(`${part}kept`, [message])))
}

const durableConversationLaterRule: Rule<ConversationStore.Service> = {
  name: durableConversationRule.name,
  check: (store, part) =>
    Effect.flatMap(loadSome(store, `${part}kept`), ({ conversation }) =>
      expectEqual("messages", ["message 1"], allTexts(conversation))
    )
}

/** Each rule, with what is checked when the store has been closed and opened again. */
const conversationStoreRules: ReadonlyArray<
  Rule<ConversationStore.Service> & { readonly later?: Rule<ConversationStore.Service> }
> = [
  absentConversationRule,
  roundTripRule,
  staleSaveRule,
  manyMessagesRule,
  unlawfulRule,
  idsRule,
  concurrentAppendRule,
  { ...durableConversationRule, later: durableConversationLaterRule }
]
