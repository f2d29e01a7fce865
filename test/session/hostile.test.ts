/** RIGHT-22: doors of sessions under attack: values of another type, edited rows, calls that were made by hand. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, DateTime, Effect, Exit, Layer, Option, Result, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestRunner } from "effect/cluster"
import { Agent, VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { ChatEvent, ClusterSession, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as fleet from "#src/session/internal/fleet.ts"
import * as service from "#src/session/internal/service.ts"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const runner = Layer.mergeAll(
  TestRunner.layer,
  VersionedStore.layerMemory,
  Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))
)

const echo = ScriptedModel.layer(t.echo)

const places = {
  "in one process": Layer.provide(Session.layer([t.support]), [VersionedStore.layerMemory, echo]),
  "on a fleet": Layer.provide(ClusterSession.layer([t.support]), [runner, echo])
}

/** Calls as a route makes them that passes on JSON. */
const calls = (sessions: Session.Service): Readonly<Record<string, () => Effect.Effect<unknown, unknown>>> => {
  // Sound: these are the values that the types forbid
  const s = sessions as unknown as Record<string, (...args: ReadonlyArray<unknown>) => Effect.Effect<unknown, unknown>>
  const first = (...args: ReadonlyArray<unknown>) =>
    Stream.runHead(s["events"]?.(...args) as unknown as Stream.Stream<unknown, unknown>)
  const of =
    (name: string, ...args: ReadonlyArray<unknown>) =>
    () =>
      s[name]?.(...args) ?? Effect.die("no operation")
  return {
    "send agent {}": of("send", "u", "x", { agent: {} }),
    "send agent 5": of("send", "u", "x", { agent: 5 }),
    "send model 5": of("send", "u", "x", { model: 5 }),
    "send definition 5": of("send", "u", "x", { definition: 5 }),
    "send definition []": of("send", "u", "x", { definition: [] }),
    "send whenBusy x": of("send", "u", "x", { whenBusy: "x" }),
    "send pending 5": of("send", "u", "x", { pending: 5 }),
    "send ifExists x": of("send", "n", "x", { ifExists: "x" }),
    "send messageId 5": of("send", "u", "x", { messageId: 5 }),
    "send title 5": of("send", "n2", "x", { title: 5 }),
    "send context 5": of("send", "n2", "x", { context: 5 }),
    "send options null": of("send", "u", "x", null),
    "send id 5": of("send", 5, "x"),
    "send input 5": of("send", "u", 5),
    "edit messageId null": of("edit", "u", { messageId: null }),
    "edit {}": of("edit", "u", {}),
    "edit null": of("edit", "u", null),
    "edit input 5": of("edit", "u", { messageId: "m", input: 5 }),
    "withdraw null": of("withdraw", "u", null),
    "fork to null": of("fork", "u", { to: null }),
    "fork {}": of("fork", "u", {}),
    "fork null": of("fork", "u", null),
    "fork at {}": of("fork", "u", { to: "v", at: {} }),
    "events after null": () => first("u", { after: null }),
    "events after {}": () => first("u", { after: { toString: 1 } }),
    "events after 3": () => first("u", { after: 3 }),
    "events id null": () => first(null),
    "decide callId {}": of("decide", "u", [{ callId: { toString: 1 }, digest: "d", approved: true }]),
    "decide null": of("decide", "u", null),
    // A message has no half of a character: under another id than its own it would be answered again and again
    "send messageId half a character": of("send", "n", "x", { messageId: "a\ud800" }),
    "edit newMessageId half a character": of("edit", "u", { messageId: "m", newMessageId: "\ud800" }),
    "list limit '5'": of("list", { limit: "5" }),
    "list metadata null": of("list", { metadata: null }),
    "list prefix {}": of("list", { prefix: {} }),
    "list after 5": of("list", { after: 5 }),
    "list status 5": of("list", { status: 5 }),
    "list updatedBefore null": of("list", { updatedBefore: null }),
    "list updatedAfter text": of("list", { updatedAfter: "2026-01-01" }),
    "update title null": of("update", "u", { title: null }),
    "update null": of("update", "u", null),
    "read null": of("read", null),
    "history null": of("history", null),
    "state null": of("state", null),
    "state of a list": of("state", ["u"]),
    "resume 5": of("resume", 5),
    "interrupt {}": of("interrupt", {}),
    "remove null": of("remove", null),
    "shared kind 5": of("shared", { kind: 5 }),
    "shared null": of("shared", null),
    "shared limit -1": of("shared", { limit: -1 }),
    "prune after {}": of("prune", { after: {} }),
    "prune limit '5'": of("prune", { limit: "5" })
  }
}

describe.each(Object.entries(places))("RIGHT-22 L4 a value of another type, %s", (_, layer) => {
  it.live("is a typed error in every operation, and stores nothing", () =>
    Effect.gen(function* () {
      const sessions = yield* t.sessionsOf(layer)
      yield* Effect.provideService(Session.turn("u", "hi", { messageId: "m" }), Session.Session, sessions)
      const before = yield* t.stateOf(sessions, "u")
      for (const [name, call] of Object.entries(calls(sessions))) {
        const exit = yield* Effect.exit(Effect.timeout(Effect.suspend(call), "20 seconds"))
        assert(Exit.isFailure(exit), name)
        const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
        assert(error instanceof Session.SessionError, `${name}: ${Cause.pretty(exit.cause).slice(0, 300)}`)
        assert.strictEqual(error.category === "invalid" || error.reason._tag === "EventsUnknown", true, name)
      }
      assert.strictEqual((yield* t.stateOf(sessions, "u")).sequence, before.sequence)
      for (const id of ["n", "n2", "v"]) assert.isTrue(Option.isNone(yield* sessions.state(id)), id)
    }).pipe(Effect.scoped)
  )
})

/** A row of a session that was edited, and another process that finds it. */
const edited = Effect.fnUntraced(function* (edit: (head: Record<string, unknown>, now: DateTime.Utc) => object) {
  const store = yield* t.store
  const open = t.sessionsOf(
    Layer.provide(Session.layer([t.support], { leaseTime: "300 millis" }), [store, ScriptedModel.layer(t.echo)])
  )
  yield* Effect.gen(function* () {
    yield* Effect.provideService(Session.turn("u", "x"), Session.Session, yield* open)
  }).pipe(Effect.scoped)
  const now = yield* DateTime.now
  yield* Effect.gen(function* () {
    const { compareAndSet, get } = yield* VersionedStore.VersionedStore
    const { value, version } = Option.getOrThrow(yield* get("session/head/u"))
    // Sound: the head of a session is an object
    const head = edit(value as Record<string, unknown>, now) as never
    yield* compareAndSet("session/head/u", Option.some(version), head)
  }).pipe(Effect.provide(store))
  return yield* open
})

describe("RIGHT-22 L11 an edited row holds no session", () => {
  const century = (head: Record<string, unknown>) => ({
    ...head,
    lease: "2126-01-01T00:00:00.000Z",
    owner: "deadbeefdeadbeef",
    epoch: Number(head["epoch"]) + 1
  })

  t.passing("a lease of 100 years is waited out: the next message is answered", () =>
    Effect.gen(function* () {
      const sessions = yield* edited(century)
      const { text } = yield* Effect.provideService(Session.turn("u", "more"), Session.Session, sessions)
      assert.strictEqual(text, "re: more")
    }).pipe(Effect.scoped, Effect.timeout("10 seconds"))
  )

  t.passing("a session with a lease of 100 years can be removed", () =>
    Effect.gen(function* () {
      const sessions = yield* edited(century)
      yield* t.eventually(Effect.orElseSucceed(sessions.remove("u"), () => false))
      assert.isTrue(Option.isNone(yield* sessions.state("u")))
    }).pipe(Effect.scoped, Effect.timeout("10 seconds"))
  )

  t.passing("a session with the largest epoch can be removed", () =>
    Effect.gen(function* () {
      const sessions = yield* edited((head) => ({ ...head, epoch: Number.MAX_SAFE_INTEGER }))
      yield* Effect.exit(sessions.send("u", "more"))
      assert.isTrue(yield* sessions.remove("u"))
      assert.isTrue(Option.isNone(yield* sessions.state("u")))
    }).pipe(Effect.scoped)
  )
})

describe("RIGHT-22 a call that names another session than the one that it was sent to", () => {
  const layer = Layer.provideMerge(ClusterSession.layer([t.support]), Layer.mergeAll(runner, echo))
  test.live("is refused by the runner, and makes no second actor of that session", layer, function* () {
    const client = yield* fleet.entityOf("session").client
    yield* Session.turn("u/1", "hi")
    const call = (to: string, name: string) => service.callOf<unknown>(client(to), name)({ id: "u/1" })
    const found = yield* Effect.flip(call("u/2", "State"))
    assert(found instanceof Session.SessionError)
    assert.strictEqual(found.reason._tag, "ArgumentInvalid")
    assert.isTrue(Option.isOption(yield* call("u/1", "State")))
    yield* call("u/2", "Turn")
  })
})

describe.each(Object.entries(places))("RIGHT-8 the id of a session that begins, %s", (_, layer) => {
  test.live("is no empty text, which all users without an id would share, and no megabyte", layer, function* () {
    const sessions = yield* Session.Session
    yield* Session.turn("u", "hi")
    for (const id of ["", "x".repeat(1025), "x".repeat(1_000_000)]) {
      assert.strictEqual(yield* t.reasonOf(Session.turn(id, "hi")), "ArgumentInvalid")
      assert.strictEqual(yield* t.reasonOf(sessions.fork("u", { to: id })), "ArgumentInvalid")
      assert.strictEqual(yield* t.reasonOf(Session.run(t.support, { id, input: "hi" })), "ArgumentInvalid")
    }
    assert.isTrue(Option.isNone(yield* sessions.state("")))
    assert.strictEqual((yield* sessions.send("x".repeat(1024), "hi")).sequence, 1)
  })
})

describe("RIGHT-22 a request to a person", () => {
  test.live("is shown with hidden characters as escapes", function* () {
    const Pay = Tool.make("pay", {
      parameters: Schema.Struct({ to: Schema.String }),
      success: Schema.String,
      needsApproval: true
    })
    const toolkit = Toolkit.make(Pay)
    const paid: Array<string> = []
    const to = "ada\u202emoc.live\u200b"
    const layer = Session.layer([Agent.make("cashier", { toolkit })]).pipe(
      Layer.provide([
        VersionedStore.layerMemory,
        toolkit.toLayer({ pay: (args) => Effect.sync(() => (paid.push(args.to), "paid")) }),
        ScriptedModel.layer([{ toolCalls: [{ name: "pay", params: { to } }] }, { text: "done" }])
      ])
    )
    const sessions = yield* t.sessionsOf(layer)
    yield* sessions.send("u", "pay")
    yield* t.until(sessions, "u", "waiting")
    const shown = (yield* t.stored(sessions, "u")).flatMap((entry) => {
      const { event } = Result.getOrThrow(ChatEvent.project()(entry)) ?? {}
      if (event?._tag === "TurnFinished") return event.requests?.map((request) => request.shown) ?? []
      return event?._tag === "Requested" ? [event.request.shown] : []
    })
    const { requests } = yield* t.stateOf(sessions, "u")
    const [request] = requests
    assert(request !== undefined)
    const expected = String.raw`"pay" {"to":"ada\u202emoc.live\u200b"}`
    assert.deepStrictEqual([...shown, request.shown], [expected, expected, expected])
    // The digest covers what runs, and a request with `approved` added is a decision
    assert.deepStrictEqual(request.arguments, { to })
    yield* sessions.decide("u", [{ ...request, approved: true }])
    yield* t.until(sessions, "u", "idle")
    assert.deepStrictEqual(paid, [to])
  })
})
