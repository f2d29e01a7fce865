/** P09-P12: compare-and-set. What is compared is a version here, and never a value. */
import { assert } from "@effect/vitest"
import { Effect, Option } from "effect"
import { VersionedStore } from "effect-emissary"
import type { Rows } from "./row.ts"

const found = Effect.fnUntraced(function* (key: string) {
  const store = yield* VersionedStore.VersionedStore
  return Option.getOrThrow(yield* store.get(key))
})

const versions = "a version is expected, and not a value"

export const rows: Rows = {
  P09: {
    expected: "what is stored is replaced if it is the expected one, and left as it is otherwise",
    instead: `${versions}; a difference is the typed failure VersionConflict`,
    test: Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      const first = yield* store.compareAndSet("k", Option.none(), { rev: 1 })
      const second = yield* store.compareAndSet("k", Option.some(first), { rev: 2 })
      assert.deepStrictEqual(yield* found("k"), { value: { rev: 2 }, version: second })
      const conflict = yield* Effect.flip(store.compareAndSet("k", Option.some(first), { rev: 3 }))
      assert.strictEqual(conflict._tag, "VersionConflict")
      assert.deepStrictEqual(yield* found("k"), { value: { rev: 2 }, version: second })
    }).pipe(Effect.provide(VersionedStore.layerMemory))
  },
  P10: {
    expected: "nothing is expected: written once where nothing is, and refused the second time",
    test: Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      yield* store.compareAndSet("k", Option.none(), 1)
      assert.strictEqual((yield* Effect.flip(store.compareAndSet("k", Option.none(), 2)))._tag, "VersionConflict")
      assert.strictEqual((yield* found("k")).value, 1)
    }).pipe(Effect.provide(VersionedStore.layerMemory))
  },
  P11: {
    expected: "an expected value in another form (a model, other order of keys) is the same one",
    instead: `${versions}: no form of the value matters, and one that has come back after a change is not the same`,
    test: Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      const first = yield* store.compareAndSet("k", Option.none(), { a: 1, b: 2 })
      const second = yield* store.compareAndSet("k", Option.some(first), { a: 2, b: 2 })
      const third = yield* store.compareAndSet("k", Option.some(second), { b: 2, a: 1 })
      assert.deepStrictEqual((yield* found("k")).value, { a: 1, b: 2 })
      const stale = yield* Effect.flip(store.compareAndSet("k", Option.some(first), { a: 3 }))
      assert.strictEqual(stale._tag, "VersionConflict")
      assert.strictEqual((yield* found("k")).version, third)
    }).pipe(Effect.provide(VersionedStore.layerMemory))
  },
  P12: {
    expected: "whoever changes what was read, or what was written, does not change what is stored",
    test: Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      const given = { list: [1] }
      yield* store.compareAndSet("k", Option.none(), given)
      given.list.push(2)
      const read = yield* found("k")
      const { value } = read
      assert.deepStrictEqual(value, { list: [1] })
      Object.assign(Object(value), { list: "gone" })
      assert.deepStrictEqual((yield* found("k")).value, { list: [1] })
      yield* store.compareAndSet("k", Option.some(read.version), { list: [3] })
      assert.deepStrictEqual((yield* found("k")).value, { list: [3] })
    }).pipe(Effect.provide(VersionedStore.layerMemory))
  }
}
