import { assert, describe } from "@effect/vitest"
import { Effect, Option, Predicate, Schema } from "effect"
import * as checkpointRecord from "#src/plan/internal/checkpointRecord.ts"
import { VersionedStore } from "effect-emissary"
import type { VersionedCodec } from "effect-emissary/payload"
import { Checkpoint } from "effect-emissary/plan"

import { existsSync, readFileSync, writeFileSync } from "node:fs"

import { counting, fails, layer, refuses, testStored } from "./checkpoints.ts"
import { completed } from "./support.ts"
import { test } from "../test.ts"

const Stored = Schema.Record(Schema.String, Schema.Json)

const { codecs, writeCodec } = checkpointRecord

type Part = "head" | "input" | "events" | "write"

const partOf = (key: string): Part => {
  if (key.startsWith("plan/head/")) return "head"
  if (key.startsWith("plan/writes/")) return "write"
  return key.endsWith("/input") ? "input" : "events"
}

/** Decodes a stored value and encodes it again. */
const again =
  <A>(codec: VersionedCodec.VersionedCodec<A>) =>
  (value: unknown): Effect.Effect<unknown, unknown> =>
    Effect.flatMap(codec.decode(value), (decoded) => codec.encode(decoded, { version: 1 }))

const roundTrips = {
  head: again(codecs.head),
  input: again(codecs.input),
  events: again(codecs.batch),
  write: again(writeCodec)
}

/**
 * Everything in the store. Before the first release, to record the file anew: delete it,
 * and run this test with EMISSARY_RECORD=checkpoint.
 */
const dump = Effect.gen(function* () {
  const store = yield* VersionedStore.VersionedStore
  const { keys } = yield* store.list({ limit: 1000 })
  const entries = yield* Effect.forEach(keys, (key) =>
    Effect.map(store.get(key), (found) => [key, Option.getOrThrow(found).value] as const)
  )
  return Object.fromEntries(entries)
})

const fill = Effect.fnUntraced(function* (stored: typeof Stored.Type) {
  const store = yield* VersionedStore.VersionedStore
  for (const [key, value] of Object.entries(stored)) yield* store.compareAndSet(key, Option.none(), value)
})

const file = new URL("./golden-checkpoint/store-v1.json", import.meta.url)

const read = Effect.suspend(() => Schema.decodeUnknownEffect(Stored)(JSON.parse(readFileSync(file, "utf8"))))

const key = "Ticket 7/é"

const record = Effect.gen(function* () {
  const { bound } = yield* counting({ b: refuses("down") })
  const checkpoint = yield* Checkpoint.Checkpoint
  yield* Effect.flip(checkpoint.run(bound, { key, input: "go", context: { tenant: "acme" }, maxIterations: 5 }))
  return yield* dump
}).pipe(Effect.provide(layer()))

describe("L3 version 1 of checkpoints", () => {
  test("a run that was stored resumes, today and for ever", layer(), function* () {
    if (process.env["EMISSARY_RECORD"] === "checkpoint" && !existsSync(file)) {
      writeFileSync(file, `${JSON.stringify(yield* record, undefined, 2)}\n`)
    }
    const stored = yield* read
    assert.deepStrictEqual(
      new Set(Object.keys(stored).map(partOf)),
      new Set<Part>(["head", "input", "events", "write"])
    )
    for (const [key, value] of Object.entries(stored)) {
      assert.deepStrictEqual(yield* roundTrips[partOf(key)](value), value, key)
    }
    yield* fill(stored)
    const checkpoint = yield* Checkpoint.Checkpoint
    assert.strictEqual(Option.getOrThrow(yield* checkpoint.inspect(key)).status, "failed")
    const { bound, ran } = yield* counting()
    const result = yield* checkpoint.resume(bound, { key })
    assert.strictEqual(completed(result).output, "go a b c")
    assert.deepStrictEqual(result.state.context, { tenant: "acme" })
    assert.deepStrictEqual(yield* ran, ["b", "c"])
    assert.isTrue(yield* checkpoint.isCurrent(key, "first"))
  })

  test.prop("decode(encode(x)) is x: heads", { head: Schema.toType(checkpointRecord.Head) }, function* ({ head }) {
    const encoded = yield* codecs.head.encode(head)
    assert.deepStrictEqual(yield* codecs.head.decode(encoded), head)
    assert.deepStrictEqual(yield* codecs.head.decodeJson(JSON.stringify(encoded)), head)
  })

  test("refuses newer versions, other kinds and fields that it does not know", function* () {
    for (const [key, value] of Object.entries(yield* read)) {
      assert(value !== null && typeof value === "object")
      for (const change of [{ version: 2 }, { kind: "other" }, { more: 1 }]) {
        const error = yield* Effect.flip(roundTrips[partOf(key)]({ ...value, ...change }))
        assert.isTrue(Predicate.isTagged(error, "PayloadError"), key)
      }
    }
  })

  testStored("a batch is found out where it does not belong", function* (checkpoint) {
    const stored = yield* read
    const [first = "", second = ""] = Object.keys(stored).filter((key) => partOf(key) === "events")
    yield* fill({ ...stored, [first]: stored[second] ?? null, [second]: stored[first] ?? null })
    const { bound } = yield* counting()
    assert.strictEqual(yield* fails(checkpoint.resume(bound, { key })), "CheckpointError Damaged")
  })
})
