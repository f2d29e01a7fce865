import { assert, describe, it } from "@effect/vitest"
import { Conversation, ConversationStore, Message, VersionedStore } from "effect-emissary/conversation"
import { Effect, Layer, Option } from "effect"
import { join } from "node:path"
import { beforeAll } from "vitest"
import * as layers from "./store/layers.ts"
import type { Task } from "./store/worker.ts"
import * as workers from "./store/workers.ts"

const directory = layers.makeDirectory()
const id = "shared"
const minutes = (n: number) => n * 60_000

let startWorker: Awaited<ReturnType<typeof workers.prepare>>
beforeAll(async () => {
  startWorker = await workers.prepare(directory)
})

const task = (given: Partial<Task> & Pick<Task, "path" | "action">): Task => ({
  store: "files",
  name: "",
  times: 1,
  staleLockAfter: 2000,
  segmentSize: 2,
  killAt: 0,
  ...given
})

const run = (given: Partial<Task> & Pick<Task, "path" | "action">) =>
  Effect.promise(() => startWorker(task(given)).ended)

const open = (path: string, staleLockAfter = 10) =>
  ConversationStore.layer({ segmentSize: 2 }).pipe(Layer.provideMerge(layers.files(path, staleLockAfter)))

const texts = (conversation: Conversation.Conversation) =>
  Conversation.messages(conversation).map((message) => {
    const [part] = message.role === "user" ? message.content : []
    return part?.type === "text" ? part.text : message.role
  })

const load = Effect.gen(function* () {
  const store = yield* ConversationStore.ConversationStore
  return Option.map(yield* store.load(id), ({ conversation }) => texts(conversation))
})

const append = Effect.fn(function* (text: string) {
  const store = yield* ConversationStore.ConversationStore
  return yield* store.append(id, [yield* Message.user(text)])
})

/** What has to hold after a writer died: what is there is whole, and the next writer goes on. */
const check = Effect.fnUntraced(function* (allowed: ReadonlyArray<Option.Option<ReadonlyArray<string>>>) {
  const found = yield* load
  assert.deepInclude(allowed, found)
  // A lock that blocked for ever would block this
  yield* Effect.timeout(append("next"), "1 minute")
  assert.deepStrictEqual(
    yield* load,
    Option.some([...Option.getOrElse(found, (): ReadonlyArray<string> => []), "next"])
  )
  const conversations = yield* ConversationStore.ConversationStore
  yield* conversations.delete(id)
  const values = yield* VersionedStore.VersionedStore
  assert.deepStrictEqual((yield* values.list()).keys, [], "segments of a deleted conversation")
})

const stored = ["m0", "m1", "m2", "m3", "m4", "m5"]

/** A conversation whose next append writes a segment, and whose replacement leaves some behind. */
const start = Effect.forEach(stored, append, { discard: true })

const outcomes: Record<
  "append once" | "save once" | "delete once",
  ReadonlyArray<Option.Option<ReadonlyArray<string>>>
> = {
  "append once": [Option.some(stored), Option.some([...stored, "x"])],
  "save once": [Option.some(stored), Option.some(["m4", "m5", "x"])],
  "delete once": [Option.some(stored), Option.none()]
}

describe("CONV-9 a process killed at any point of a write", () => {
  for (const action of ["append once", "save once", "delete once"] as const) {
    it.live(
      `${action}: leaves the old value or the new one, no lock that blocks, nothing that stays`,
      () =>
        Effect.gen(function* () {
          const attempt = Effect.fnUntraced(function* (killAt: number) {
            const path = join(directory, action, String(killAt))
            yield* Effect.provide(start, open(path))
            const ended = yield* run({ path, action, name: "x", killAt })
            yield* Effect.provide(check(outcomes[action]), Layer.fresh(open(path)))
            return ended
          })
          const whole = yield* attempt(0)
          assert.strictEqual(whole.code, 0, whole.errors)
          const points = Number(/^done after (\d+) points$/.exec(whole.lines.at(-1) ?? "")?.[1])
          assert.isAtLeast(points, 30)

          // Evenly over all points; an append, which is done most, at each second one
          const step = action === "append once" ? 2 : Math.ceil(points / 30)
          const kills = Array.from({ length: Math.floor(points / step) }, (_, n) => 1 + n * step)
          const killed = yield* Effect.forEach(kills, attempt, { concurrency: 4 })
          for (const { errors, signal } of killed) assert.strictEqual(signal, "SIGKILL", errors)
        }),
      minutes(8)
    )
  }

  it.live(
    "killed from outside while it appends, again and again: every append that succeeded is there once",
    () =>
      Effect.gen(function* () {
        const path = join(directory, "outside")
        const done: Array<string> = []
        for (let round = 0; round < 12; round++) {
          const worker = startWorker(
            task({ path, action: "append", name: `${round}.`, times: 1000, staleLockAfter: 50, segmentSize: 3 })
          )
          worker.killAfter(2 + ((round * 7) % 12))
          const { errors, lines, signal } = yield* Effect.promise(() => worker.ended)
          assert.strictEqual(signal, "SIGKILL", errors)
          done.push(...lines.filter((line) => line.startsWith(`${round}.`)))
        }
        const found = yield* Effect.provide(load, open(path))
        const all = Option.getOrThrow(found)
        assert.strictEqual(new Set(all).size, all.length)
        assert.deepStrictEqual(
          all.filter((text) => done.includes(text)),
          done
        )
        // What was being written when the process died may be there too
        assert.isAtMost(all.length - done.length, 12)
      }),
    minutes(5)
  )
})

describe("CONV-9 processes that write at once", () => {
  for (const store of ["files", "SQLite"] as const) {
    it.live(
      `${store}: each append survives exactly once, in the order of its process`,
      () =>
        Effect.gen(function* () {
          const path = join(directory, `at once ${store}`)
          const names = ["a", "b"]
          const ended = yield* Effect.forEach(
            names,
            (name) => run({ store, path, action: "append", name, times: 40, segmentSize: 5 }),
            { concurrency: "unbounded" }
          )
          for (const { code, errors } of ended) assert.strictEqual(code, 0, errors)
          const versioned = store === "files" ? layers.files(path) : layers.sqliteFile(path)
          const found = yield* Effect.provide(load, ConversationStore.layer().pipe(Layer.provideMerge(versioned)))
          const all = Option.getOrThrow(found)
          assert.strictEqual(all.length, 80)
          for (const name of names) {
            assert.deepStrictEqual(
              all.filter((text) => text.startsWith(name)),
              Array.from({ length: 40 }, (_, n) => `${name}${n}`)
            )
          }
        }),
      minutes(5)
    )
  }

  it.live(
    "files: no increment is lost even if every lock counts as stale at once, so that clocks do not matter",
    () =>
      Effect.gen(function* () {
        const path = join(directory, "stale at once")
        const ended = yield* Effect.forEach(
          [1, 2, 3],
          () => run({ path, action: "increment", times: 40, staleLockAfter: 0 }),
          { concurrency: "unbounded" }
        )
        for (const { code, errors } of ended) assert.strictEqual(code, 0, errors)
        const value = yield* Effect.provide(
          Effect.flatMap(VersionedStore.VersionedStore, (store) => store.get(id)),
          layers.files(path)
        )
        assert.strictEqual(Option.getOrThrow(value).value, 120)
      }),
    minutes(5)
  )
})
