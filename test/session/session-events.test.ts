/** L10, MEND-6, MEND-15: the fold of the events of a session. */
import type * as events from "#src/session/internal/events.ts"
import * as fold from "#src/session/internal/fold.ts"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, DateTime, Effect, Layer, Result } from "effect"
import { VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as t from "./sessions.ts"

const at = DateTime.makeUnsafe(0)

const message = (number: number): events.Event => ({
  _tag: "MessageReceived",
  at,
  agent: "a",
  messageId: `${number}`,
  input: [{ type: "text", text: "x" }],
  digest: "sha256:0"
})

const folded = (state: fold.SessionState, ...events: ReadonlyArray<events.Event>) =>
  Result.getOrThrow(fold.applyAll(state, events))

const withMessages = (count: number) =>
  folded(fold.empty("a"), ...Array.from({ length: count }, (_, number) => message(number)))

/** The number of elements that are copied or looked at while `f` runs. */
const countElements = (f: () => void): number => {
  const arrays = Array.prototype
  const original = arrays[Symbol.iterator]
  const set = (value: typeof original) =>
    Object.defineProperty(arrays, Symbol.iterator, { value, configurable: true, writable: true })
  let count = 0
  set(function* (this: ReadonlyArray<unknown>) {
    for (let index = 0; index < this.length; index++) {
      count++
      yield this[index]
    }
    return undefined
  })
  f()
  set(original)
  return count
}

describe("MEND-6 the queue of a session", () => {
  it("a message costs the same however many wait, when it comes and when it is taken", () => {
    const [few, many] = [300, 6000].map((count) => {
      const state = withMessages(count)
      assert.strictEqual(Chunk.size(state.queue), count)
      return countElements(() => {
        let next = folded(state, message(count), message(count + 1))
        assert.isTrue(fold.hasWork(next))
        for (let number = 0; number < 3; number++) {
          assert.strictEqual(fold.nextMessage(next)?.messageId, `${number}`)
          next = folded(next, { _tag: "MessageDropped", at, messageId: `${number}`, error: failure })
        }
        assert.strictEqual(Chunk.size(next.queue), count - 1)
      })
    })
    assert.isAtLeast(few ?? 0, 1)
    assert.strictEqual(many, few)
  })

  it("a message that is dropped is forgotten, and the others stay in their order", () => {
    const state = folded(withMessages(3), { _tag: "MessageDropped", at, messageId: "0", error: failure })
    assert.deepStrictEqual(
      Array.from(state.queue, ({ messageId }) => messageId),
      ["1", "2"]
    )
    assert.deepStrictEqual(
      state.received.map(({ messageId }) => messageId),
      ["1", "2"]
    )
  })
})

const failure: events.Failure = { reason: "Refused", category: "invalid", message: "too large" }

describe("MEND-15 what a session remembers", () => {
  it("the ids of 256 messages: the first, and the newest (V28, KEEP-3)", () => {
    const { received } = withMessages(300)
    assert.deepStrictEqual(
      received.map(({ messageId }) => messageId),
      ["0", ...Array.from({ length: 255 }, (_, index) => `${index + 45}`)]
    )
  })

  it.live("a decision with another digest, until an event is about that one (V30)", () =>
    Effect.gen(function* () {
      const { agent, handlers } = t.withTool("worker", { needsApproval: true })
      const layer = Session.layer([agent]).pipe(
        Layer.provide([VersionedStore.layerMemory, handlers(() => Effect.succeed("done"))]),
        Layer.provide(ScriptedModel.layer([t.call(1), { text: "done" }]))
      )
      const sessions = yield* t.sessionsOf(layer)
      yield* sessions.send("a", "go")
      yield* t.until(sessions, "a", "waiting")
      const [request] = (yield* t.stateOf(sessions, "a")).requests
      assert(request !== undefined)
      const decision = { callId: request.callId, digest: request.digest, approved: true }
      const other = { ...decision, digest: "sha256:other" }
      const events = (yield* t.stored(sessions, "a")).map(({ event }) => event)
      const waits = folded(fold.empty("worker"), ...events, {
        _tag: "DecisionsReceived",
        at,
        decisions: [other, decision]
      })
      const { callId, ...verdict } = decision
      const decided = { _tag: "ApprovalDecided", at, callId, ...verdict } as const
      assert.deepStrictEqual(folded(waits, { _tag: "RunEvent", event: decided }).decisions, [other])
      const dropped = { _tag: "DecisionsDropped", at, decisions: [decision], error: failure } as const
      assert.deepStrictEqual(folded(waits, dropped).decisions, [other])
    }).pipe(Effect.scoped)
  )
})
