/** RIGHT-22 L2: the public Schemas of sessions read and write plain JSON within the limits, in the form that the services use. */
import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Option, Schema } from "effect"
import { Limits } from "effect-emissary"
import { ChatEvent, Session } from "effect-emissary/session"
import { test } from "../test.ts"
import * as t from "./sessions.ts"
import * as events from "#src/session/internal/events.ts"
import * as types from "#src/session/internal/types.ts"
import * as stepWrites from "#src/session/internal/stepWrites.ts"

const at = "2026-01-01T00:00:00.000Z"

const problem = { category: "internal", message: "no" }

const summary = { title: "", metadata: {}, created: at, updated: at, status: "idle", messages: 0 }

const listed = { id: "a", agent: "support", ...summary, sequence: 1 }

const hostile = JSON.parse(`{"__proto__":{"isAdmin":true}}`)

const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)])

/** A Schema, a value of its JSON, and that value with something from outside in it. */
interface Row {
  readonly schema: Schema.Codec<unknown, unknown>
  readonly wire: unknown
  readonly with: (found: unknown) => unknown
}

const updated = (metadata: unknown) => ({ _tag: "SessionUpdated", at, metadata })

const request = (found: unknown) => ({
  _tag: "Approval",
  callId: "c",
  name: "pay",
  arguments: found,
  digest: "d",
  shown: "pay"
})

const state = (found: unknown) => ({
  agent: "support",
  activeAgent: "support",
  ...summary,
  sequence: 1,
  cursor: "a.1",
  queue: [],
  requests: [request(found)],
  steps: 1,
  usage: {}
})

const asked = (found: unknown) => ({ _tag: "Requested", at, request: request(found) })

const error = (found: unknown) => ({
  _tag: "SessionError",
  id: "a",
  reason: { _tag: "AgentUnknown", known: [], agent: found }
})

const rows: Readonly<Record<string, Row>> = {
  Event: { schema: Session.Event, wire: updated({ a: 1 }), with: updated },
  Entry: {
    schema: Session.Entry,
    wire: { sequence: 1, cursor: "a.1", event: updated({ a: 1 }) },
    with: (found) => ({ sequence: 1, cursor: "a.1", event: updated({ found }) })
  },
  State: { schema: Session.State, wire: state({ a: 1 }), with: state },
  Listed: { schema: Session.Listed, wire: listed, with: (metadata) => ({ ...listed, metadata: { metadata } }) },
  Page: {
    schema: Session.Page,
    wire: { sessions: [listed], unreadable: [], next: null },
    with: (metadata) => ({ sessions: [{ ...listed, metadata: { metadata } }], unreadable: [], next: null })
  },
  Receipt: {
    schema: Session.Receipt,
    wire: { messageId: "m", sequence: 1, cursor: "a.1" },
    with: (found) => ({ messageId: "m", sequence: 1, cursor: "a.1", found })
  },
  MessageReceipt: {
    schema: Session.MessageReceipt,
    wire: { messageId: "m", sequence: 1, cursor: "a.1" },
    with: (messageId) => ({ messageId, sequence: 1, cursor: "a.1" })
  },
  Shared: {
    schema: Session.Shared,
    wire: { kind: "step-value", key: "k", sessions: ["a"] },
    with: (found) => ({ kind: "step-value", key: "k", sessions: [found] })
  },
  SharedPage: {
    schema: Session.SharedPage,
    wire: { values: [{ kind: "step-value", key: "k", sessions: ["a"] }], next: null },
    with: (found) => ({ values: [{ kind: "step-value", key: "k", sessions: [found] }], next: null })
  },
  PrunedPage: {
    schema: Session.PrunedPage,
    wire: { removed: [{ kind: "step-value", key: "k" }], next: null },
    with: (found) => ({ removed: [{ kind: "step-value", key: found }], next: null })
  },
  Written: {
    schema: Session.Written,
    wire: { id: "a", step: "s", at, value: 1 },
    with: (value) => ({ id: "a", step: "s", at, value })
  },
  Answer: {
    schema: Session.Answer,
    wire: { text: "", outcome: "Completed", output: 1, sequence: 1, cursor: "a.1" },
    with: (output) => ({ text: "", outcome: "Completed", output, sequence: 1, cursor: "a.1" })
  },
  SessionError: { schema: Session.SessionError, wire: error("x"), with: error },
  ChatEvent: { schema: ChatEvent.ChatEvent, wire: asked({ a: 1 }), with: asked },
  "Entry of ChatEvent": {
    schema: ChatEvent.Entry,
    wire: { sequence: 1, cursor: "a.1", event: { _tag: "TurnFailed", at, ...problem } },
    with: (found) => ({ sequence: 1, cursor: "a.1", event: asked(found) })
  }
}

describe("RIGHT-22 L2 the public Schemas of sessions", () => {
  for (const [name, { schema, wire, with: holding }] of Object.entries(rows)) {
    test(`RIGHT-22 ${name} reads what it writes, without a version`, function* () {
      const value = yield* Schema.decodeUnknownEffect(schema)(wire)
      assert.deepStrictEqual(yield* Schema.encodeEffect(schema)(value), wire)
      const json = Schema.toCodecJson(schema)
      assert.deepStrictEqual(yield* Schema.encodeEffect(json)(yield* Schema.decodeUnknownEffect(json)(wire)), wire)
      const text = Schema.fromJsonString(schema)
      assert.deepStrictEqual(JSON.parse(yield* Schema.encodeEffect(text)(value)), wire)
    })

    test(`RIGHT-22 ${name} refuses a key that sets a prototype, and what is too deep or too large`, function* () {
      const refused = (found: unknown) => Effect.exit(Schema.decodeUnknownEffect(schema)(holding(found)))
      for (const found of [hostile, [hostile], deep(1000), deep(6000), "x".repeat(9 * 1024 * 1024)]) {
        const exit = yield* refused(found)
        assert.isTrue(Exit.isFailure(exit) && !exit.cause.reasons.some(({ _tag }) => _tag === "Die"), name)
      }
      const small = yield* Effect.exit(
        Effect.provide(Schema.decodeUnknownEffect(schema)(wire), Limits.layer({ maxBytes: 10 }))
      )
      assert.isTrue(Exit.isFailure(small))
    })
  }

  test("RIGHT-22 they have the JSON Schema of what they read", function* () {
    const pairs: ReadonlyArray<readonly [Schema.Top, Schema.Top]> = [
      [Session.Event, events.EventSchema],
      [Session.Entry, events.EntrySchema],
      [Session.State, types.StateSchema],
      [Session.Page, types.PageSchema],
      [Session.Receipt, types.ReceiptSchema],
      [Session.Written, stepWrites.WrittenSchema]
    ]
    for (const [outer, inner] of pairs) {
      assert.deepStrictEqual(Schema.toJsonSchemaDocument(outer), Schema.toJsonSchemaDocument(inner))
    }
  })

  test("RIGHT-22 they refuse to write what they refuse to read", t.over([{ text: "hi" }]), function* () {
    yield* Session.turn("a", "hello")
    const sessions = yield* Session.Session
    const state = Option.getOrThrow(yield* sessions.state("a"))
    yield* Schema.encodeEffect(Session.State)(state)
    const metadata: Schema.Json = hostile
    const written = yield* Effect.exit(Schema.encodeEffect(Session.State)({ ...state, metadata: { metadata } }))
    assert.isTrue(Exit.isFailure(written))
  })
})
