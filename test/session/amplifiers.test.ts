/** RIGHT-22: what one call makes a session do is in proportion to the size of what it names. Work is counted, not timed. */
import { assert, describe, vi } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { Agent, Conversation, ModelRegistry, ToolResolver, VersionedStore } from "effect-emissary"
import { Digest } from "effect-emissary/payload"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"

/** The bytes that are hashed or measured, the letters that are written as JSON, and the objects whose keys are read. */
const counting = Effect.acquireRelease(
  Effect.sync(() => {
    const counts = { encoded: 0, written: 0, walked: 0 }
    const { encode } = TextEncoder.prototype
    const { stringify } = JSON
    const { keys } = Object
    const spies = [
      vi.spyOn(TextEncoder.prototype, "encode").mockImplementation(function (this: TextEncoder, text = "") {
        counts.encoded += text.length
        return encode.call(this, text)
      }),
      vi.spyOn(JSON, "stringify").mockImplementation((value, replacer, space) => {
        const text = stringify(value, replacer, space)
        counts.written += text?.length ?? 0
        return text
      }),
      vi.spyOn(Object, "keys").mockImplementation((value: object) => {
        counts.walked += 1
        return keys(value)
      })
    ]
    return { counts, spies }
  }),
  ({ spies }) => Effect.sync(() => spies.forEach((spy) => spy.mockRestore()))
)

const counted = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { counts } = yield* counting
      yield* work
      return { ...counts }
    })
  )

const model = ScriptedModel.layer(() => ({ text: "x" }))

const world = Session.layer([Agent.make("host")], { definitions: Agent.decode }).pipe(
  Layer.provideMerge(VersionedStore.layerMemory),
  Layer.provide([Layer.provide(ModelRegistry.layerContext, model), model, ToolResolver.layerStubs()])
)

/** The letters of all that the store holds. */
const storedSize = Effect.gen(function* () {
  const store = yield* VersionedStore.VersionedStore
  const { keys } = yield* store.list({ limit: 1000 })
  const values = yield* Effect.forEach(keys, (key) => store.get(key))
  return values.reduce((sum, value) => sum + JSON.stringify(Option.getOrUndefined(value)?.value ?? null).length, 0)
})

const definitionOf = (size: number) =>
  Agent.encode(Agent.make("poet", { model: "m/x", instructions: "x".repeat(size) }))

/** The work of a session with the digest of a stored definition of this size. */
const ofDigest = Effect.fnUntraced(function* (size: number) {
  const definition = yield* definitionOf(size)
  const digest = yield* Digest.sha256(definition)
  yield* Session.turn("first", "hi", { definition })
  return yield* counted(Session.turn("second", "hi", { definition: digest }))
})

const ofDefinition = Effect.fnUntraced(function* (size: number) {
  const definition = yield* definitionOf(size)
  return yield* counted(Session.turn("first", "hi", { definition }))
})

/** The work of a fork of a session with so many messages of this size. */
const forking = (messages: number) =>
  Effect.fnUntraced(function* (size: number) {
    let conversation = Conversation.empty
    for (let index = 0; index < messages; index++) {
      conversation = yield* Conversation.addUser(conversation, "x".repeat(size / messages))
    }
    yield* Session.turn("first", "hi", { agent: "host", conversation })
    const sessions = yield* Session.Session
    const before = yield* storedSize
    const counts = yield* counted(sessions.fork("first", { to: "second" }))
    return { ...counts, stored: (yield* storedSize) - before }
  })

/** The most work of each kind that a call may make, for each letter of its size. */
const most = 9

type Work = (size: number) => Effect.Effect<Readonly<Record<string, number>>, unknown, Layer.Success<typeof world>>

const rows: Readonly<Record<string, Work>> = {
  "the digest of a definition": ofDigest,
  "a definition": ofDefinition,
  "a fork of one long message": forking(1),
  "a fork of many messages": (size: number) => forking(size / 1000)(size)
}

describe("RIGHT-22 the work of one call is in proportion to what it names", () => {
  for (const [what, work] of Object.entries(rows)) {
    test(`RIGHT-22 ${what} of up to 1 MB`, function* () {
      const sizes = [250_000, 500_000, 1_000_000]
      const all = yield* Effect.forEach(sizes, (size) =>
        Effect.map(Effect.provide(work(size), Layer.fresh(world)), (counts) => ({ size, counts }))
      )
      for (const { counts, size } of all) {
        for (const [kind, count] of Object.entries(counts)) assert.isAtMost(count, most * size, `${kind} of ${size}`)
      }
      const [small, , large] = all
      assert(small !== undefined && large !== undefined)
      for (const [kind, count] of Object.entries(small.counts)) {
        const found = Object.entries(large.counts).find(([name]) => name === kind)?.[1] ?? 0
        assert.isAtMost(found, 4.4 * count + 1000, `${kind} of four times the size`)
      }
    })
  }
})
