import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Predicate, Schema } from "effect"
import * as checkpointRecord from "#src/plan/internal/checkpointRecord.ts"
import { VersionedStore } from "effect-emissary"
import { Checkpoint } from "effect-emissary/plan"

import { existsSync, readFileSync, writeFileSync } from "node:fs"

import { counting, layer, reasonOf, refuses } from "./checkpoints.ts"
import { test } from "../test.ts"

const file = new URL("./golden-checkpoint/store-v1.json", import.meta.url)

const Stored = Schema.Record(Schema.String, Schema.Json)

const codecs = {
  head: checkpointRecord.headCodec,
  input: checkpointRecord.planCodecs.input,
  events: checkpointRecord.planCodecs.batch,
  write: checkpointRecord.writeCodec
} as const

const kindOf = (key: string): keyof typeof codecs => {
  if (key.startsWith("plan/head/")) return "head"
  if (key.startsWith("plan/writes/")) return "write"
  return key.endsWith("/input") ? "input" : "events"
}

const roundTrip = (key: string, value: unknown): Effect.Effect<unknown, unknown> => {
  switch (kindOf(key)) {
    case "head":
      return Effect.flatMap(codecs.head.decode(value), (head) => codecs.head.encode(head, { version: 1 }))
    case "input":
      return Effect.flatMap(codecs.input.decode(value), (begun) => codecs.input.encode(begun, { version: 1 }))
    case "events":
      return Effect.flatMap(codecs.events.decode(value), (batch) => codecs.events.encode(batch, { version: 1 }))
    case "write":
      return Effect.flatMap(codecs.write.decode(value), (write) => codecs.write.encode(write, { version: 1 }))
  }
}

/**
 * Everything in the store. Before the first release, to record the file anew: delete it,
 * and run this test with EMISSARY_RECORD=checkpoint.
 */
const dump = Effect.gen(function* () {
  const store = yield* VersionedStore.VersionedStore
  const { keys } = yield* store.list({ limit: 1000 })
  const values = yield* Effect.forEach(keys, (key) => store.get(key))
  return Object.fromEntries(keys.map((key, index) => [key, Option.getOrThrow(values[index] ?? Option.none()).value]))
})

const read = Effect.suspend(() => Schema.decodeUnknownEffect(Stored)(JSON.parse(readFileSync(file, "utf8"))))

const key = "Ticket 7/é"

const record = Effect.gen(function* () {
  const checkpoint = yield* Checkpoint.Checkpoint
  const { bound } = yield* counting({ b: refuses("down") })
  yield* Effect.flip(checkpoint.run(bound, { key, input: "go", context: { tenant: "acme" }, maxIterations: 5 }))
  return yield* dump
}).pipe(Effect.provide(layer()))

describe("L3 version 1 of checkpoints", () => {
  test("a run that was stored resumes, today and for ever", function* () {
    if (process.env["EMISSARY_RECORD"] === "checkpoint" && !existsSync(file)) {
      writeFileSync(file, `${JSON.stringify(yield* record, undefined, 2)}\n`)
    }
    const stored = yield* read
    assert.deepStrictEqual(new Set(Object.keys(stored).map(kindOf)), new Set(["head", "input", "events", "write"]))
    for (const [key, value] of Object.entries(stored)) {
      assert.deepStrictEqual(yield* roundTrip(key, value), value, key)
    }
    yield* Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      for (const [key, value] of Object.entries(stored)) yield* store.compareAndSet(key, Option.none(), value)
      const checkpoint = yield* Checkpoint.Checkpoint
      const { bound, ran } = yield* counting()
      assert.strictEqual(Option.getOrThrow(yield* checkpoint.inspect(key)).status, "failed")
      const result = yield* checkpoint.resume(bound, { key })
      assert.strictEqual(result.outcome === "Completed" ? result.output : "", "go a b c")
      assert.deepStrictEqual(result.state.context, { tenant: "acme" })
      assert.deepStrictEqual(yield* ran, ["b", "c"])
      assert.isTrue(yield* checkpoint.isCurrent(key, "first"))
    }).pipe(Effect.provide(layer()))
  })

  it.effect.prop("decode(encode(x)) is x: heads", [Schema.toType(checkpointRecord.Head)], ([head]) =>
    Effect.gen(function* () {
      const encoded = yield* codecs.head.encode(head)
      assert.deepStrictEqual(yield* codecs.head.decode(encoded), head)
      assert.deepStrictEqual(yield* codecs.head.decodeJson(JSON.stringify(encoded)), head)
    })
  )

  test("refuses newer versions, other kinds and fields that it does not know", function* () {
    const stored = yield* read
    for (const [key, value] of Object.entries(stored)) {
      assert.isObject(value)
      if (value === null || typeof value !== "object") continue
      for (const change of [{ version: 2 }, { kind: "other" }, { more: 1 }]) {
        const error = yield* Effect.flip(roundTrip(key, { ...value, ...change }))
        assert.isTrue(Predicate.isTagged(error, "PayloadError"), key)
      }
    }
  })

  test("a batch is found out where it does not belong", function* () {
    const stored = yield* read
    const batches = Object.keys(stored).filter((key) => kindOf(key) === "events")
    const [first, second] = batches
    assert.isDefined(first)
    assert.isDefined(second)
    const swapped = { ...stored, [first ?? ""]: stored[second ?? ""], [second ?? ""]: stored[first ?? ""] }
    const error = yield* Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      for (const [key, value] of Object.entries(swapped)) {
        if (value !== undefined) yield* store.compareAndSet(key, Option.none(), value)
      }
      const { bound } = yield* counting()
      return yield* Effect.flip((yield* Checkpoint.Checkpoint).resume(bound, { key }))
    }).pipe(Effect.provide(layer()))
    assert.strictEqual(reasonOf(error), "CheckpointError Damaged")
  })
})
