/** Logs that one process at a time has claimed: what checkpoints and sessions rely on. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Deferred, Effect, Fiber, Layer, Option, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as claimedLog from "#src/store/internal/claimedLog.ts"
import * as storage from "#src/store/internal/storage.ts"
import { VersionedStore } from "effect-emissary"
import { VersionedCodec } from "effect-emissary/payload"
import { testWith } from "../test.ts"
import { changed } from "./changed.ts"

const Head = Schema.Struct({ title: Schema.String, ...claimedLog.headFields })
type Head = typeof Head.Type

const Begin = Schema.Struct({ generation: Schema.String, sum: Schema.Finite })

/** The writes that fail from now on, before they take place or after. */
interface Faults {
  readonly fails: (key: string) => boolean
  readonly when: "before" | "after"
}
let faults: Faults | undefined

const store = changed((store) => ({
  compareAndSet: (key, expected, value) => {
    if (faults?.fails(key) !== true) return store.compareAndSet(key, expected, value)
    const error = { operation: "compareAndSet" as const, key, storage: "test", error: "Down", cause: undefined }
    const down = Effect.fail(storage.unavailable(error))
    return faults.when === "before" ? down : Effect.andThen(store.compareAndSet(key, expected, value), down)
  }
})).pipe(Layer.provideMerge(VersionedStore.layerMemory))

const test = testWith(Layer.effectDiscard(Effect.sync(() => void (faults = undefined))).pipe(Layer.provideMerge(store)))

const failing = <A, E, R>(effect: Effect.Effect<A, E, R>, next: Faults): Effect.Effect<A, E, R> =>
  Effect.ensuring(
    Effect.suspend(() => {
      faults = next
      return effect
    }),
    Effect.sync(() => void (faults = undefined))
  )

const isHead = (key: string) => key.startsWith("numbers/head/")

const same = (head: Head): Head => head

/** A log that this process has begun, and the journal that every process has. */
const begun = Effect.gen(function* () {
  const journal = storage.make({
    store: yield* VersionedStore.VersionedStore,
    namespace: "numbers",
    head: VersionedCodec.single({ what: "numbers", value: Head }),
    input: VersionedCodec.single({ what: "beginning of numbers", value: Begin }),
    batch: storage.batchCodec({ what: "batch of numbers", kind: "numbers", events: Schema.Array(Schema.Finite) })
  })
  const lease = yield* claimedLog.leaseOf("numbers", { leaseTime: "30 seconds" }, yield* VersionedStore.VersionedStore)
  const at = yield* claimedLog.begin(journal, lease, "k", Option.none(), {
    head: (fields) => ({ title: "Primes", ...fields }),
    input: (generation) => ({ generation, sum: 0 })
  })
  const work = (at: storage.StoredHead<Head>) =>
    claimedLog.make({ journal, lease, at, error: (reason: storage.Reason | claimedLog.Lost<Head>) => reason })
  const head = Effect.map(journal.head("k"), Option.getOrThrow)
  return { journal, lease, work, log: work(at), head, read: Effect.flatMap(head, journal.batches) }
})

const tagOf = <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), ({ _tag }) => _tag)

describe("MEND-7 a log of a process whose clock was wrong", () => {
  /** The owner renews its claim, with a clock that is ahead. */
  const renewAhead = Effect.fnUntraced(function* ({ head, journal }: Effect.Success<typeof begun>) {
    const updated = DateTime.add(yield* DateTime.now, { hours: 1 })
    yield* journal.append(
      yield* head,
      (head) => ({ ...head, updated, lease: DateTime.add(updated, { seconds: 30 }) }),
      []
    )
  })

  test("is free when its head did not change for the time of its lease", function* () {
    const all = yield* begun
    const { head, journal, lease } = all
    const take = Effect.flatMap(head, (at) => claimedLog.takeOver(journal, lease, at))
    yield* renewAhead(all)
    const refused = yield* Effect.flip(take)
    assert(refused._tag === "Leased")
    assert.deepStrictEqual(refused.until, DateTime.add(yield* DateTime.now, { seconds: 30 }))
    yield* TestClock.adjust("29 seconds")
    yield* renewAhead(all)
    assert.strictEqual(yield* tagOf(take), "Leased")
    yield* TestClock.adjust("29 seconds")
    assert.strictEqual(yield* tagOf(take), "Leased")
    yield* TestClock.adjust("1 second")
    yield* take
  })

  test("is not waited for longer when the clock here is set back", function* () {
    const all = yield* begun
    const { head, journal, lease } = all
    const take = Effect.flatMap(head, (at) => claimedLog.takeOver(journal, lease, at))
    yield* TestClock.adjust("1 day")
    yield* renewAhead(all)
    assert.strictEqual(yield* tagOf(take), "Leased")
    yield* TestClock.setTime(0)
    assert.strictEqual(yield* tagOf(take), "Leased")
    yield* TestClock.adjust("30 seconds")
    yield* take
  })
})

describe("DUR-1 a log that a process has claimed", () => {
  test("DUR-1 is taken by another process once its lease has ended, and then not written by the first one", function* () {
    const { head, journal, lease, log, read, work } = yield* begun
    yield* log.append((head) => ({ ...head, title: "Two" }), [[2]])
    yield* TestClock.adjust("29 seconds")
    assert.strictEqual(yield* tagOf(claimedLog.takeOver(journal, lease, log.at)), "Leased")
    yield* TestClock.adjust("1 second")
    const taken = work(yield* claimedLog.takeOver(journal, lease, log.at))
    assert.deepStrictEqual([taken.at.head.epoch, taken.at.head.title], [2, "Two"])
    assert.notStrictEqual(taken.at.head.owner, log.at.head.owner)
    const lost = yield* Effect.flip(log.append(same, [[3]]))
    assert(lost._tag === "Lost")
    assert.strictEqual(lost.head.owner, log.at.head.owner)
    assert.strictEqual(Option.getOrThrow(lost.found).head.owner, taken.at.head.owner)
    assert.isTrue(log.isLost)
    yield* taken.append(same, [[5]])
    assert.deepStrictEqual(yield* read, [[2], [5]])
    assert.strictEqual((yield* head).head.owner, taken.at.head.owner)
  })

  test("DUR-1 that was removed is lost", function* () {
    const { journal, log } = yield* begun
    yield* journal.remove("k", undefined)
    const lost = yield* Effect.flip(log.append(same))
    assert(lost._tag === "Lost")
    assert.isTrue(Option.isNone(lost.found))
  })

  test("DUR-1 is taken by one of two", function* () {
    const { journal, lease, log } = yield* begun
    yield* TestClock.adjust("1 minute")
    yield* claimedLog.takeOver(journal, lease, log.at)
    assert.strictEqual(yield* tagOf(claimedLog.takeOver(journal, lease, log.at)), "Conflict")
  })

  test("DUR-1 released, it can be taken at once", function* () {
    const { head, journal, lease, log, read } = yield* begun
    yield* log.release((head) => ({ ...head, title: "Done" }), [[2]])
    assert.isTrue(log.isOver)
    const found = yield* head
    assert.deepStrictEqual([found.head.lease, found.head.title], [undefined, "Done"])
    yield* claimedLog.takeOver(journal, lease, found)
    assert.deepStrictEqual(yield* read, [[2]])
  })

  test("DUR-1 a write that failed and took place even so is not that of another process", function* () {
    const { head, log, read } = yield* begun
    assert.strictEqual(yield* tagOf(failing(log.append(same, [[2]]), { fails: isHead, when: "after" })), "StoreFailed")
    yield* log.release((head) => ({ ...head, title: "Done" }))
    assert.deepStrictEqual([(yield* head).head.title, log.isLost], ["Done", false])
    assert.deepStrictEqual(yield* read, [[2]])
  })

  test("DUR-1 its lease is renewed where nothing is written, and not where something was", function* () {
    const { head, log } = yield* begun
    yield* Effect.forkScoped(log.beat)
    const first = (yield* head).version
    yield* TestClock.adjust("9 seconds")
    yield* log.append(same)
    const written = (yield* head).version
    yield* TestClock.adjust("2 seconds")
    assert.notStrictEqual(first, written)
    assert.strictEqual((yield* head).version, written)
    yield* TestClock.adjust("10 seconds")
    assert.notStrictEqual((yield* head).version, written)
    yield* TestClock.adjust("10 minutes")
    assert.isUndefined(log.failure)
    log.isOver = true
    const last = (yield* head).version
    yield* TestClock.adjust("1 minute")
    assert.strictEqual((yield* head).version, last)
  })

  test("DUR-1 stops when the heartbeat finds another owner, or the store fails until the lease ends", function* () {
    for (const [expected, harm] of [
      ["Lost", (one: Effect.Success<typeof begun>) => one.journal.remove("k", undefined)],
      ["StoreFailed", () => Effect.sync(() => void (faults = { fails: isHead, when: "before" }))]
    ] as const) {
      const one = yield* begun
      yield* Effect.forkScoped(one.log.beat)
      const stopped = yield* Effect.forkChild(tagOf(one.log.stopped))
      yield* harm(one)
      yield* TestClock.adjust("29 seconds")
      assert.strictEqual(one.log.failure === undefined, expected === "StoreFailed")
      yield* TestClock.adjust("11 seconds")
      assert.strictEqual(yield* Fiber.join(stopped), expected)
      assert.strictEqual(one.log.failure?._tag, expected)
      faults = undefined
      yield* one.journal.remove("k", undefined)
    }
  })

  test("DUR-1 writes one at a time, and an interruption waits for the write", function* () {
    const { log } = yield* begun
    const gate = yield* Deferred.make<void>()
    const order: Array<string> = []
    const first = yield* Effect.forkChild(
      log.alone(
        Effect.andThen(
          Deferred.await(gate),
          Effect.sync(() => void order.push("first"))
        )
      )
    )
    yield* Effect.yieldNow
    const second = yield* Effect.forkChild(log.alone(Effect.sync(() => void order.push("second"))))
    const stopping = yield* Effect.forkChild(Fiber.interrupt(first))
    yield* Effect.yieldNow
    assert.deepStrictEqual(order, [])
    yield* Deferred.succeed(gate, undefined)
    yield* Fiber.join(stopping)
    yield* Fiber.join(second)
    assert.deepStrictEqual(order, ["first", "second"])
  })

  test("DUR-1 the first error stops it", function* () {
    const { log } = yield* begun
    const [first, second] = [storage.damaged("k", "first"), storage.damaged("k", "second")]
    assert.strictEqual(yield* Effect.flip(log.stop(first)), first)
    assert.strictEqual(yield* Effect.flip(log.stop(second)), first)
    assert.strictEqual(yield* Effect.flip(log.stopped), first)
  })
})
