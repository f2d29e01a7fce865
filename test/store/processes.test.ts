import { assert, describe } from "@effect/vitest"
import { VersionedStore } from "effect-emissary"
import { Effect, Layer, Option } from "effect"
import { join } from "node:path"
import { beforeAll, vi } from "vitest"
import { makeDirectory } from "./directory.ts"
import * as layers from "./layers.ts"
import { postgres } from "./postgres.ts"
import type { Task } from "./worker.ts"
import * as workers from "./workers.ts"
import { test } from "../test.ts"

// Processes that start slowly, and are killed many times
vi.setConfig({ testTimeout: 8 * 60_000 })

const directory = makeDirectory()
const id = "shared"

let startWorker: Awaited<ReturnType<typeof workers.prepare>>
beforeAll(async () => {
  startWorker = await workers.prepare(directory)
})

const task = (given: Partial<Task> & Pick<Task, "database" | "action">): Task => ({
  name: "",
  times: 1,
  killAt: 0,
  ...given
})

const run = (given: Partial<Task> & Pick<Task, "database" | "action">) =>
  Effect.promise(() => startWorker(task(given)).ended)

const file = (name: string) => join(directory, `${name}.sqlite`)

const load = Effect.gen(function* () {
  const store = yield* VersionedStore.VersionedStore
  return Option.map(yield* store.get(id), ({ value }): ReadonlyArray<unknown> => (Array.isArray(value) ? value : []))
})

const append = Effect.fn(function* (text: string) {
  const store = yield* VersionedStore.VersionedStore
  const found = yield* store.get(id)
  const texts = Option.getOrElse(yield* load, () => [])
  const expected = Option.map(found, ({ version }) => version)
  return yield* store.compareAndSet(id, expected, [...texts.map(String), text])
})

/** The laws after a writer died: the stored value is whole, and the next writer continues. */
const check = Effect.fnUntraced(function* (
  allowed: ReadonlyArray<Option.Option<ReadonlyArray<string>>>,
  isBoth: boolean
) {
  const found = yield* load
  assert.deepInclude(allowed, found)
  // A lock that a dead process held would block this
  yield* Effect.timeout(append("next"), "1 minute")
  assert.deepStrictEqual(
    yield* load,
    Option.some([...Option.getOrElse(found, (): ReadonlyArray<string> => []), "next"])
  )
  const store = yield* VersionedStore.VersionedStore
  // The other value of a write of both is there if, and only if, the write took place
  const tookPlace = Option.exists(found, (texts) => texts.includes("x"))
  assert.strictEqual(Option.isSome(yield* store.get("added")), isBoth && tookPlace)
})

const stored = ["m0", "m1", "m2", "m3", "m4", "m5"]

const start = Effect.forEach(stored, append, { discard: true })

const outcomes = [
  ["set once", Option.some([...stored, "x"])],
  ["commit once", Option.some([...stored, "x"])],
  ["delete once", Option.none()]
] as const

describe("CONV-9 a process killed at any point of a write", () => {
  for (const [action, outcome] of outcomes) {
    test.live(`${action}: leaves the old value or the new one, and no lock that blocks`, function* () {
      const attempt = Effect.fnUntraced(function* (killAt: number) {
        const filename = file(`${action} ${killAt}`)
        yield* Effect.provide(start, layers.sqlite(filename))
        const ended = yield* run({ database: { filename }, action, name: "x", killAt })
        yield* Effect.provide(
          check([Option.some(stored), outcome], action === "commit once"),
          Layer.fresh(layers.sqlite(filename))
        )
        return ended
      })
      const whole = yield* attempt(0)
      assert.strictEqual(whole.code, 0, whole.errors)
      const points = Number(/^done after (\d+) points$/.exec(whole.lines.at(-1) ?? "")?.[1])
      // Before and after at least one statement
      assert.isAtLeast(points, 2)

      const kills = Array.from({ length: points }, (_, n) => 1 + n)
      const killed = yield* Effect.forEach(kills, attempt, { concurrency: 4 })
      for (const { errors, signal } of killed) assert.strictEqual(signal, "SIGKILL", errors)
    })
  }

  test.live("killed from outside again and again: every append that succeeded is there once", function* () {
    const filename = file("outside")
    const done: Array<string> = []
    for (let round = 0; round < 12; round++) {
      const worker = startWorker(task({ database: { filename }, action: "append", name: `${round}.`, times: 1000 }))
      worker.killAfter(2 + ((round * 7) % 12))
      const { errors, lines, signal } = yield* Effect.promise(() => worker.ended)
      assert.strictEqual(signal, "SIGKILL", errors)
      done.push(...lines.filter((line) => line.startsWith(`${round}.`)))
    }
    const found = yield* Effect.provide(load, layers.sqlite(filename))
    const all = Option.getOrThrow(found)
    assert.strictEqual(new Set(all).size, all.length)
    assert.deepStrictEqual(
      all.map(String).filter((text) => done.includes(text)),
      done
    )
    // The write under way when the process died may have taken place
    assert.isAtMost(all.length - done.length, 12)
  })
})

describe("CONV-9 processes that write at once", () => {
  const stores = [
    { name: "SQLite", database: { filename: file("at once") }, layer: layers.sqlite(file("at once")) },
    ...postgres.map(({ client, ...database }) => ({ name: "PostgreSQL", database, layer: layers.database(client) }))
  ]

  for (const { database, layer, name } of stores) {
    test.live(`${name}: no increment is lost, also of processes that create the table at once`, layer, function* () {
      const increments = Array.from({ length: 3 }, () => run({ database, action: "increment", times: 40 }))
      const ended = yield* Effect.all(increments, { concurrency: "unbounded" })
      for (const { code, errors } of ended) assert.strictEqual(code, 0, errors)
      const store = yield* VersionedStore.VersionedStore
      const { value, version } = Option.getOrThrow(yield* store.get(id))
      assert.strictEqual(value, 120)
      yield* store.delete(id, { version })
    })

    test.live(`${name}: each append survives exactly once, in the order of its process`, layer, function* () {
      const store = yield* VersionedStore.VersionedStore
      yield* store.delete(id)
      const names = ["a", "b", "c"]
      const appends = names.map((name) => run({ database, action: "append", name, times: 40 }))
      const ended = yield* Effect.all(appends, { concurrency: "unbounded" })
      for (const { code, errors } of ended) assert.strictEqual(code, 0, errors)
      const all = Option.getOrThrow(yield* load)
      assert.strictEqual(all.length, 120)
      for (const name of names) {
        assert.deepStrictEqual(
          all.map(String).filter((text) => text.startsWith(name)),
          Array.from({ length: 40 }, (_, n) => `${name}${n}`)
        )
      }
    })
  }
})
