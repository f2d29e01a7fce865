/**
 * The rules that a `VersionedStore` keeps.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type { Service } from "../../../conversation/VersionedStore.ts"
import type { VersionConflict, VersionedStoreError } from "../../../conversation/VersionedStoreError.ts"
import { expect, expectError, expectSome, type Rule } from "./rule.ts"

const none = Option.none<string>()

const getValue = (store: Service, key: string) =>
  Effect.map(
    store.get(key),
    Option.map(({ value }) => value)
  )

const conflict = (
  what: string,
  expected: { readonly key: string; readonly expected: Option.Option<string>; readonly found: Option.Option<string> },
  effect: Effect.Effect<unknown, VersionConflict | VersionedStoreError>
) =>
  Effect.flatMap(expectError(what, "VersionConflict", effect), ({ expected: wanted, found, key }) =>
    expect(what, expected, { key, expected: wanted, found })
  )

/** Everything under a prefix, page by page. */
export const listAll = Effect.fnUntraced(function* (store: Service, prefix: string, limit: number) {
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

const absent: Rule<Service> = {
  name: "what is not there is None, cannot be changed and is deleted without effect",
  check: Effect.fnUntraced(function* (store, part) {
    const key = `${part}none`
    yield* expect("get", none, yield* store.get(key))
    yield* expect("delete", false, yield* store.delete(key))
    const fields = { key, expected: Option.some("1-x"), found: none }
    yield* conflict("a change", fields, store.compareAndSet(key, Option.some("1-x"), 1))
    yield* conflict("a delete in a version", fields, store.delete(key, { version: "1-x" }))
    yield* expect("get", none, yield* store.get(key))
  })
}

const compareAndSet: Rule<Service> = {
  name: "a write succeeds from the version it was made for and from no other",
  check: Effect.fnUntraced(function* (store, part) {
    const key = `${part}cas`
    const first = yield* store.compareAndSet(key, none, { n: 1 })
    yield* expect("get", Option.some({ value: { n: 1 }, version: first }), yield* store.get(key))
    yield* conflict(
      "a second start",
      { key, expected: none, found: Option.some(first) },
      store.compareAndSet(key, none, { n: 0 })
    )
    const second = yield* store.compareAndSet(key, Option.some(first), { n: 2 })
    if (second === first) return yield* Effect.fail("a write must give a new version")
    const stale = { key, expected: Option.some(first), found: Option.some(second) }
    yield* conflict("a stale write", stale, store.compareAndSet(key, Option.some(first), { n: 3 }))
    yield* conflict("a stale delete", stale, store.delete(key, { version: first }))
    yield* expect("get", Option.some({ value: { n: 2 }, version: second }), yield* store.get(key))
    const third = yield* store.compareAndSet(key, Option.some(second), { n: 2 })
    if (third === second) return yield* Effect.fail("a write of the same value must give a new version")
  })
}

const noReturn: Rule<Service> = {
  name: "a version never comes back, also when the value was deleted and made again",
  check: Effect.fnUntraced(function* (store, part) {
    const key = `${part}again`
    const first = yield* store.compareAndSet(key, none, "a")
    yield* expect("delete in the version", true, yield* store.delete(key, { version: first }))
    yield* expect("get", none, yield* store.get(key))
    const second = yield* store.compareAndSet(key, none, "a")
    yield* conflict(
      "a write from the version before the delete",
      { key, expected: Option.some(first), found: Option.some(second) },
      store.compareAndSet(key, Option.some(first), "b")
    )
    yield* expect("delete", true, yield* store.delete(key))
    yield* expect("delete again", false, yield* store.delete(key))
  })
}

/** Values that storage likes to change. */
const jsonValues: ReadonlyArray<Schema.Json> = [
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

const values: Rule<Service> = {
  name: "every JSON value comes back as it was, as a copy of its own",
  check: Effect.fnUntraced(function* (store, part) {
    for (const [index, value] of jsonValues.entries()) {
      const key = `${part}${index}`
      yield* store.compareAndSet(key, none, value)
      yield* expect(`value ${index}`, Option.some(value), yield* getValue(store, key))
    }
    const mutable = { list: [1] }
    yield* store.compareAndSet(`${part}copy`, none, mutable)
    mutable.list.push(2)
    yield* expect(
      "after the given value was changed",
      Option.some({ list: [1] }),
      yield* getValue(store, `${part}copy`)
    )
  })
}

const refusals: Rule<Service> = {
  name: "what is not JSON is refused, and nothing is written",
  check: Effect.fnUntraced(function* (store, part) {
    const key = `${part}refused`
    const hostile: ReadonlyArray<unknown> = [Number.NaN, undefined, new Date(0), JSON.parse(`{"__proto__":{}}`)]
    for (const value of hostile) {
      // What callers without types pass
      const error = yield* expectError(
        "what is no JSON",
        "VersionedStoreError",
        store.compareAndSet(key, none, value as Schema.Json)
      )
      yield* expect("the reason", "Refused", error.reason._tag)
    }
    for (const limit of [0, -1, 1.5, Number.NaN]) {
      const error = yield* expectError(`limit ${limit}`, "VersionedStoreError", store.list({ limit }))
      yield* expect("the reason", "Refused", error.reason._tag)
    }
    yield* expect("get", none, yield* store.get(key))
  })
}

/** Keys that file systems and databases like to confuse. */
export const hostileKeys: ReadonlyArray<string> = [
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

const keys: Rule<Service> = {
  name: "different text is a different key, whatever the text",
  check: Effect.fnUntraced(function* (store, part) {
    for (const [index, key] of hostileKeys.entries()) yield* store.compareAndSet(`${part}${key}`, none, index)
    for (const [index, key] of hostileKeys.entries()) {
      yield* expect(
        `key ${JSON.stringify(key.slice(0, 40))}`,
        Option.some(index),
        yield* getValue(store, `${part}${key}`)
      )
    }
    const sorted = hostileKeys.map((key) => `${part}${key}`).sort((a, b) => (a < b ? -1 : 1))
    yield* expect("list", sorted, yield* listAll(store, part, 7))
    for (const key of hostileKeys) yield* expect("delete", true, yield* store.delete(`${part}${key}`))
    yield* expect("list after deleting all", [], yield* listAll(store, part, 100))
  })
}

const listing: Rule<Service> = {
  name: "list is ordered by code units, cut into pages, and takes prefixes literally",
  check: Effect.fnUntraced(function* (store, part) {
    const names = ["a", "a-1", "a.2", "a/1", "a/10", "a/2", "a/2/x", "aB", "a_1", "a%", "ab", "b", "A", "{", "\uffff"]
    for (const name of names) yield* store.compareAndSet(`${part}${name}`, none, null)
    const under = (prefix: string) =>
      names
        .map((name) => `${part}${name}`)
        .filter((name) => name.startsWith(`${part}${prefix}`))
        .sort((a, b) => (a < b ? -1 : 1))
    for (const prefix of ["", "a", "a/", "a/1", "a%", "a_", "A", "\uffff", "zz"]) {
      for (const limit of [1, 2, 100]) {
        yield* expect(`prefix ${prefix}`, under(prefix), yield* listAll(store, `${part}${prefix}`, limit))
      }
    }
    const all = under("")
    const last = all.at(-1) ?? ""
    const exact = yield* store.list({ prefix: part, limit: all.length })
    yield* expect("a page that holds the rest", { keys: all, next: none }, exact)
    yield* expect("after the last", { keys: [], next: none }, yield* store.list({ prefix: part, after: last }))
    const between = yield* store.list({ prefix: `${part}a/`, after: `${part}a/11`, limit: 1 })
    yield* expect("after a key that is not there", { keys: [`${part}a/2`], next: Option.some(`${part}a/2`) }, between)
  })
}

const increment = (store: Service, key: string) =>
  Effect.gen(function* () {
    const found = yield* store.get(key)
    const value = Option.match(found, { onNone: () => 0, onSome: ({ value }) => Number(value) })
    const expected = Option.map(found, ({ version }) => version)
    yield* store.compareAndSet(key, expected, value + 1)
  }).pipe(Effect.retry({ while: (error) => error._tag === "VersionConflict" }))

const concurrency: Rule<Service> = {
  name: "writers at once lose nothing",
  check: Effect.fnUntraced(function* (store, part) {
    const key = `${part}counter`
    const writers = Array.from({ length: 8 }, () => Effect.repeat(increment(store, key), { times: 4 }))
    yield* Effect.all(writers, { concurrency: "unbounded" })
    yield* expect("increments", Option.some(40), yield* getValue(store, key))
    const starts = yield* Effect.forEach(
      [1, 2, 3, 4, 5],
      (n) => Effect.result(store.compareAndSet(`${part}start`, none, n)),
      { concurrency: "unbounded" }
    )
    const started = starts.filter((result) => result._tag === "Success")
    yield* expect("writers that started the value", 1, started.length)
  })
}

const interruption: Rule<Service> = {
  name: "an interrupted writer leaves the old value or the new one, and blocks nobody",
  check: Effect.fnUntraced(function* (store, part) {
    const key = `${part}interrupted`
    yield* increment(store, key)
    for (let turns = 0; turns < 12; turns++) {
      const before = yield* expectSome("the value", yield* getValue(store, key))
      const fiber = yield* Effect.forkChild(increment(store, key))
      for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
      yield* Fiber.interrupt(fiber)
      const after = Number(yield* expectSome("the value", yield* getValue(store, key)))
      if (after !== before && after !== Number(before) + 1) {
        return yield* Effect.fail(`expected ${String(before)} or one more, found ${after}`)
      }
    }
    yield* increment(store, key)
  })
}

const survives: Rule<Service> = {
  name: "values are there when the store is opened again",
  check: (store, part) => Effect.asVoid(store.compareAndSet(`${part}kept`, none, { kept: true }))
}

const survived: Rule<Service> = {
  name: survives.name,
  check: (store, part) =>
    Effect.flatMap(getValue(store, `${part}kept`), (found) =>
      expect("the value", Option.some<Schema.Json>({ kept: true }), found)
    )
}

/** Each rule, with what is checked when the store has been closed and opened again. */
export const all: ReadonlyArray<Rule<Service> & { readonly later?: Rule<Service> }> = [
  absent,
  compareAndSet,
  noReturn,
  values,
  refusals,
  keys,
  listing,
  concurrency,
  interruption,
  { ...survives, later: survived }
]
