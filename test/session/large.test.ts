/** RIGHT-10: the limits of a layer hold for all that its sessions store and read, the limits of a call for its input; forks of large chats. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, Limits, ToolResult, ToolRuntime, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const Read = Toolkit.make(Tool.make("read", { parameters: Schema.Struct({}), success: Schema.String }))

const script: ScriptedModel.Script = ({ prompt }) => {
  const last = prompt.content.at(-1)
  const isAsking = last?.role === "user" && last.content.some((part) => part.type === "text" && part.text === "read")
  return isAsking
    ? { toolCalls: [1, 2].map((n) => ({ id: `c${prompt.content.length}${n}`, name: "read", params: {} })) }
    : { text: "ok" }
}

/** Sessions over a store, whose tool has an output of this size. */
const over = (store: Layer.Layer<VersionedStore.VersionedStore>, size: number, limits: Partial<Limits.Limits> = {}) =>
  Layer.fresh(
    Session.layer([Agent.make("a", { toolkit: Read })]).pipe(
      Layer.provide([
        store,
        Read.toLayer({ read: () => Effect.succeed("x".repeat(size)) }),
        ScriptedModel.layer(script)
      ]),
      Layer.provide(Limits.layer(limits))
    )
  )

const file = (size: number) =>
  [ToolResult.filePart({ mediaType: "image/png", data: new Uint8Array((size * 3) / 4) })] as const

/** All that reads or writes a session which is stored. */
const operations = (
  sessions: Session.Service,
  name: string
): Record<string, Effect.Effect<unknown, Session.SessionError>> => ({
  history: sessions.history("s"),
  state: sessions.state("s"),
  list: sessions.list(),
  events: Stream.runDrain(Stream.take(sessions.events("s"), 8)),
  fork: sessions.fork("s", { to: `fork of ${name}` }),
  update: sessions.update("s", { title: name }),
  ask: Effect.provideService(Session.turn("s", "more"), Session.Session, sessions),
  edit: sessions.edit("s", { messageId: "m1" }),
  interrupt: sessions.interrupt("s"),
  resume: sessions.resume("s")
})

describe("RIGHT-10 limits of a layer and of a call", () => {
  test.live("RIGHT-10 limits that the layer raises hold for all operations on its sessions", function* () {
    const store = Layer.succeedContext(yield* Layer.build(VersionedStore.layerMemory))
    const layer = () => over(store, 4_600_000, { maxBytes: 40_000_000, maxStringLength: 20_000_000 })
    yield* Effect.provide(Session.turn("s", "read", { messageId: "m1" }), layer())
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      for (const [name, operation] of Object.entries(operations(sessions, "raised"))) {
        assert.strictEqual((yield* Effect.exit(operation))._tag, "Success", name)
      }
      assert.strictEqual((yield* Session.turn("t", file(9_000_000))).outcome, "Completed")
    }).pipe(Effect.provide(layer()))
  })

  test.live("RIGHT-10 low limits of a call hold for its input alone", function* () {
    const store = Layer.succeedContext(yield* Layer.build(VersionedStore.layerMemory))
    yield* Effect.provide(Session.turn("s", "read", { messageId: "m1" }), over(store, 50_000))
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const low = Effect.provideService(Limits.Limits, { ...Limits.defaults, maxBytes: 3000, maxStringLength: 2000 })
      for (const [name, operation] of Object.entries(operations(sessions, "low"))) {
        assert.strictEqual((yield* Effect.exit(low(operation)))._tag, "Success", name)
      }
      for (const refused of [
        sessions.send("s", "y".repeat(2500)),
        sessions.edit("s", { messageId: "m1", input: "y".repeat(2500) })
      ]) {
        const error = yield* Effect.flip(low(refused))
        assert.strictEqual(error.reason._tag, "InputInvalid")
        assert.match(error.message, /at most 2000 .* in the limits of this call/)
      }
    }).pipe(Effect.provide(over(store, 50_000)))
  })

  test.live("RIGHT-10 L11 limits that only a call raises, or a deploy lowers, stop no session", function* () {
    const store = Layer.succeedContext(yield* Layer.build(VersionedStore.layerMemory))
    yield* Effect.gen(function* () {
      const high = Effect.provideService(Limits.Limits, { ...Limits.defaults, maxBytes: 4e7, maxStringLength: 4e7 })
      const error = yield* Effect.flip(high(Session.turn("s", file(9_000_000))))
      assert.strictEqual(error.reason._tag, "InputInvalid")
      assert.match(error.message, /at most \d+ .*got at least \d+.*Limits\.layer around the layer of the sessions/)
      assert.strictEqual((yield* Session.turn("s", "read", { messageId: "m1" })).outcome, "Completed")
    }).pipe(Effect.provide(over(store, 50_000)))
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      for (const [name, operation] of Object.entries(operations(sessions, "lowered"))) {
        assert.strictEqual((yield* Effect.exit(operation))._tag, "Success", name)
      }
    }).pipe(Effect.provide(over(store, 10, { maxBytes: 20_000, maxStringLength: 10_000 })))
  })

  test.live("RIGHT-10 L11 results that fit one by one are stored together", function* () {
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      assert.strictEqual((yield* Session.turn("s", "read")).outcome, "Completed")
      assert.isFalse((yield* t.stored(sessions, "s")).some(({ event }) => event._tag === "TurnFailed"))
    }).pipe(Effect.provide(over(VersionedStore.layerMemory, 3_000_000)))
  })
})

describe("RIGHT-10 results of tools", () => {
  const Show = Toolkit.make(Tool.make("read", { parameters: Schema.Struct({}), success: Schema.String }))
  for (const [what, size] of [
    ["text of 5 MB, which is value and content", 5_000_000],
    ["text of 9 MB", 9_000_000]
  ] as const) {
    test(`RIGHT-10 L11 a ${what}, is a failure that names size and limit, and the turn continues`, function* () {
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        assert.strictEqual((yield* Session.turn("s", "read")).outcome, "Completed")
        const found = Conversation.messages(yield* sessions.history("s")).flatMap((message) =>
          message.role === "tool" && message.result._tag === "Failure" ? [message.result.message] : []
        )
        assert.strictEqual(found.length, 2)
        for (const message of found) assert.match(message, /more than Limits allow.*at most \d+ .*got at least \d+/)
      }).pipe(Effect.provide(over(VersionedStore.layerMemory, size)))
    })
  }

  test("RIGHT-10 L11 so are pictures that the model would see", function* () {
    const picture = file(9_000_000)
    const agent = Agent.make("a", { toolkit: Show })
    yield* Effect.gen(function* () {
      assert.strictEqual((yield* Session.turn("s", "read")).outcome, "Completed")
    }).pipe(
      Effect.provide(
        Session.layer([agent]).pipe(
          Layer.provide([
            VersionedStore.layerMemory,
            Show.toLayer({ read: () => Effect.succeed("x") }),
            ScriptedModel.layer(script),
            ToolRuntime.around(() => Effect.succeed(ToolResult.success("x", picture)))
          ])
        )
      )
    )
  })
})

describe("RIGHT-10 forks of large chats", () => {
  for (const [what, messages, limits, input] of [
    ["over 8 MiB", 10, {}, file(1_000_000)],
    ["of more than maxMessages", 12, { maxMessages: 10 }, "hello"]
  ] as const) {
    test.live(`RIGHT-10 a chat ${what} continues, and so does its fork, also in the next process`, function* () {
      const store = Layer.succeedContext(yield* Layer.build(VersionedStore.layerMemory))
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        for (let n = 0; n < messages; n++) yield* Session.turn("s", input)
        yield* sessions.fork("s", { to: "f" })
        const { cursor, sequence } = yield* t.stateOf(sessions, "s")
        yield* sessions.fork("s", { to: "half", at: t.cursorAt(cursor, sequence / 2) })
      }).pipe(Effect.provide(over(store, 1, limits)))
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        for (const id of ["s", "f", "half"]) {
          assert.strictEqual((yield* Session.turn(id, "more")).outcome, "Completed", id)
        }
        const counts = yield* Effect.forEach(["s", "f"], (id) =>
          Effect.map(sessions.history(id), Conversation.messageCount)
        )
        assert.strictEqual(counts[0], counts[1])
        assert.isTrue(Option.isSome(yield* sessions.state("half")))
      }).pipe(Effect.provide(over(store, 1, limits)))
    })
  }
})
