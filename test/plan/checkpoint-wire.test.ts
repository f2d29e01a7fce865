import { assert, describe } from "@effect/vitest"
import { Effect, Option, Predicate, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as checkpointRecord from "#src/plan/internal/checkpointRecord.ts"
import { Agent, Conversation, VersionedStore } from "effect-emissary"
import type { VersionedCodec } from "effect-emissary/payload"
import { Checkpoint } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { existsSync, readFileSync, writeFileSync } from "node:fs"

import { counting, fails, layer, refuses, testStored } from "./checkpoints.ts"
import { completed } from "./support.ts"
import { test } from "../test.ts"

const Stored = Schema.Record(Schema.String, Schema.Json)

const { agentCodecs, headCodec, planCodecs, writeCodec } = checkpointRecord

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

const shared = { head: again(headCodec), write: again(writeCodec) }
const roundTrips = {
  plan: { ...shared, input: again(planCodecs.input), events: again(planCodecs.batch) },
  agent: { ...shared, input: again(agentCodecs.input), events: again(agentCodecs.batch) }
}

/**
 * Everything in the store. Before the first release, to record a file anew: delete it,
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

const fileOf = (kind: keyof typeof roundTrips) =>
  new URL(`./golden-checkpoint/${kind === "plan" ? "store" : "agent"}-v1.json`, import.meta.url)

const read = (kind: keyof typeof roundTrips) =>
  Effect.suspend(() => Schema.decodeUnknownEffect(Stored)(JSON.parse(readFileSync(fileOf(kind), "utf8"))))

const key = "Ticket 7/é"

const Look = Tool.make("look", { parameters: Schema.Struct({}), success: Schema.String })
const clerk = Agent.make("clerk", { toolkit: [Look] })
const looks = { toolCalls: [{ id: "c1", name: "look", params: {} }] }
const handlers = Toolkit.make(Look).toLayer({ look: () => Effect.succeed("seen") })

const record = {
  plan: Effect.gen(function* () {
    const { bound } = yield* counting({ b: refuses("down") })
    const checkpoint = yield* Checkpoint.Checkpoint
    yield* Effect.flip(checkpoint.run(bound, { key, input: "go", context: { tenant: "acme" }, maxIterations: 5 }))
    return yield* dump
  }).pipe(Effect.provide(layer())),
  agent: Effect.gen(function* () {
    const checkpoint = yield* Checkpoint.Checkpoint
    const { conversation } = yield* clerk.run("Hello")
    const begin = { key, input: "go", conversation, context: { tenant: "acme" }, maxSteps: 5 }
    yield* Effect.flip(checkpoint.run(clerk, begin))
    return yield* dump
  }).pipe(
    Effect.provide([
      layer(),
      handlers,
      ScriptedModel.layer([{ text: "Hi" }, looks, { fail: { reason: "RateLimitError" } }])
    ])
  )
}

describe("L3 version 1 of checkpoints", () => {
  for (const kind of ["plan", "agent"] as const) {
    test(`a run of ${kind === "plan" ? "a plan" : "an agent"} that was stored resumes, today and for ever`, function* () {
      if (process.env["EMISSARY_RECORD"] === "checkpoint" && !existsSync(fileOf(kind))) {
        writeFileSync(fileOf(kind), `${JSON.stringify(yield* record[kind], undefined, 2)}\n`)
      }
      const stored = yield* read(kind)
      const parts = new Set(["head", "input", "events", ...(kind === "plan" ? ["write"] : [])])
      assert.deepStrictEqual(new Set<string>(Object.keys(stored).map(partOf)), parts)
      for (const [key, value] of Object.entries(stored)) {
        assert.deepStrictEqual(yield* roundTrips[kind][partOf(key)](value), value, key)
      }
      yield* Effect.gen(function* () {
        yield* fill(stored)
        const checkpoint = yield* Checkpoint.Checkpoint
        assert.strictEqual(Option.getOrThrow(yield* checkpoint.inspect(key)).status, "failed")
        if (kind === "agent") {
          const result = yield* checkpoint.resume(clerk, { key })
          assert.strictEqual(result.text, "Here.")
          assert.deepStrictEqual(result.state.context, { tenant: "acme" })
          assert.strictEqual(Conversation.messageCount(result.conversation), 6)
          return
        }
        const { bound, ran } = yield* counting()
        const result = yield* checkpoint.resume(bound, { key })
        assert.strictEqual(completed(result).output, "go a b c")
        assert.deepStrictEqual(result.state.context, { tenant: "acme" })
        assert.deepStrictEqual(yield* ran, ["b", "c"])
        assert.isTrue(yield* checkpoint.isCurrent(key, "first"))
      }).pipe(Effect.provide([layer(), handlers, ScriptedModel.layer([{ text: "Here." }])]))
    })
  }

  test.prop("decode(encode(x)) is x: heads", { head: Schema.toType(checkpointRecord.Head) }, function* ({ head }) {
    const encoded = yield* headCodec.encode(head)
    assert.deepStrictEqual(yield* headCodec.decode(encoded), head)
    assert.deepStrictEqual(yield* headCodec.decodeJson(JSON.stringify(encoded)), head)
  })

  test("refuses newer versions, other kinds and fields that it does not know", function* () {
    for (const kind of ["plan", "agent"] as const) {
      for (const [key, value] of Object.entries(yield* read(kind))) {
        assert(value !== null && typeof value === "object")
        for (const change of [{ version: 2 }, { kind: "other" }, { more: 1 }]) {
          const error = yield* Effect.flip(roundTrips[kind][partOf(key)]({ ...value, ...change }))
          assert.isTrue(Predicate.isTagged(error, "PayloadError"), key)
        }
      }
    }
  })

  testStored("a batch is found out where it does not belong", function* (checkpoint) {
    const stored = yield* read("plan")
    const [first = "", second = ""] = Object.keys(stored).filter((key) => partOf(key) === "events")
    yield* fill({ ...stored, [first]: stored[second] ?? null, [second]: stored[first] ?? null })
    const { bound } = yield* counting()
    assert.strictEqual(yield* fails(checkpoint.resume(bound, { key })), "CheckpointError Damaged")
  })
})
