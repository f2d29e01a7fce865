/** SCREEN-1: live readers. The suite of sessions has the rules for all places; here are attempts that end without an answer. */
import { assert, describe } from "@effect/vitest"
import { type Duration, Effect, Fiber, Layer, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, VersionedStore } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as liveReaders from "#src/session/internal/liveReaders.ts"
import * as cursors from "#src/session/internal/cursors.ts"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const ends = ({ event }: Session.LiveEntry) =>
  event._tag === "TurnFailed" || (event._tag === "RunEvent" && event.event._tag === "RunFinished")

/** All entries of the turn of a message, while time passes. */
const readTurn = (id: string, text: string) =>
  Effect.gen(function* () {
    yield* Session.send(id, text)
    const fiber = yield* Effect.forkChild(Session.live(id).pipe(Stream.takeUntil(ends), Stream.runCollect))
    while (fiber.pollUnsafe() === undefined) {
      for (let turn = 0; turn < 20; turn++) yield* Effect.yieldNow
      yield* TestClock.adjust("5 millis")
    }
    return yield* Fiber.join(fiber)
  })

const lines = (entries: ReadonlyArray<Session.LiveEntry>) =>
  entries.flatMap(({ event }) => {
    if (event._tag === "AnswerDelta")
      return [`${event.path?.join("/") ?? ""}${event.part}+${event.offset} ${event.delta}`]
    if (event._tag === "AnswerWithdrawn") return ["withdrawn"]
    return event._tag === "RunEvent" && event.event._tag === "ModelAnswered" ? ["answered"] : []
  })

describe("SCREEN-1 live readers", () => {
  test(
    "SCREEN-1 an attempt that fails is withdrawn before its successor is shown, and a message has the id of its draft",
    t.over(
      [
        { text: "Half an answer", chunkDelay: "40 millis", fail: { reason: "RateLimitError" } },
        { text: "A whole answer.", chunkDelay: "40 millis" }
      ],
      { run: { retry: { times: 1, delay: 0 } } }
    ),
    function* () {
      const entries = yield* readTurn("a", "hello")
      assert.deepStrictEqual(lines(entries), [
        "0+0 Half an ",
        "0+8 answer",
        "withdrawn",
        "0+0 A whole ",
        "0+8 answer.",
        "answered"
      ])
      const ids = entries.flatMap(({ event }) => {
        if (event._tag === "AnswerDelta" || event._tag === "AnswerWithdrawn") return [event.messageId]
        return event._tag === "RunEvent" && event.event._tag === "ModelAnswered" ? [event.event.message.id] : []
      })
      const [first, , , second] = ids
      assert.notStrictEqual(first, second)
      assert.deepStrictEqual(ids, [first, first, first, second, second, second])
      const turns = entries.flatMap(({ event }) => (event._tag === "AnswerDelta" ? [event.turn] : []))
      const [taken] = entries.flatMap(({ event }) =>
        event._tag === "RunEvent" && event.event._tag === "InputAdded" ? [event.messageId] : []
      )
      assert.deepStrictEqual(new Set(turns), new Set([taken]))
    }
  )

  test(
    "SCREEN-1 the start of a turn and of a model call is shown before the text, also where the text comes first",
    t.over([{ text: "An answer at once, and the rest of it later", chunkDelay: "20 millis" }]),
    function* () {
      yield* Session.send("a", "hello")
      const read = Session.live("a", { every: 0 }).pipe(
        Stream.takeUntil(({ event }) => event._tag === "AnswerDelta"),
        Stream.map(({ event }) => (event._tag === "RunEvent" ? event.event._tag : event._tag)),
        Stream.runCollect
      )
      const fiber = yield* Effect.forkChild(read)
      while (fiber.pollUnsafe() === undefined) {
        for (let turn = 0; turn < 20; turn++) yield* Effect.yieldNow
        yield* TestClock.adjust("1 millis")
      }
      assert.deepStrictEqual(yield* Fiber.join(fiber), [
        "MessageReceived",
        "RunStarted",
        "InputAdded",
        "StepStarted",
        "AnswerDelta"
      ])
    }
  )

  test(
    "SCREEN-1 an interruption keeps what was written, under the id of the draft",
    t.over([{ text: "A long answer that is cut off", chunkDelay: "40 millis" }]),
    function* () {
      yield* Session.send("a", "hello")
      const fiber = yield* Effect.forkChild(Session.live("a").pipe(Stream.takeUntil(ends), Stream.runCollect))
      yield* TestClock.adjust("1 millis")
      yield* TestClock.adjust("100 millis")
      const stopping = yield* Effect.forkChild(Session.interrupt("a"))
      while (fiber.pollUnsafe() === undefined) {
        for (let turn = 0; turn < 20; turn++) yield* Effect.yieldNow
        yield* TestClock.adjust("5 millis")
      }
      yield* Fiber.join(stopping)
      const entries = yield* Fiber.join(fiber)
      const [draft] = entries.flatMap(({ event }) => (event._tag === "AnswerDelta" ? [event.messageId] : []))
      const [answer] = entries.flatMap(({ event }) =>
        event._tag === "RunEvent" && event.event._tag === "ModelAnswered" ? [event.event.message] : []
      )
      assert.isDefined(draft)
      assert.strictEqual(answer?.id, draft)
      assert(!lines(entries).includes("withdrawn"))
    }
  )

  /** The pieces of an answer that each of some readers gets, while time passes. The first of them leaves after its first piece. */
  const readPieces = (every: ReadonlyArray<Duration.Input>) =>
    Effect.gen(function* () {
      yield* Session.send("a", "hello")
      const fibers = yield* Effect.forEach(every, (every, index) =>
        Session.live("a", { every }).pipe(
          Stream.takeUntil((entry) => ends(entry) || (index === 0 && entry.event._tag === "AnswerDelta")),
          Stream.runCollect,
          Effect.map(lines),
          Effect.forkChild
        )
      )
      while (fibers.some((fiber) => fiber.pollUnsafe() === undefined)) {
        for (let turn = 0; turn < 20; turn++) yield* Effect.yieldNow
        yield* TestClock.adjust("5 millis")
      }
      return yield* Effect.forEach(fibers, Fiber.join)
    })

  const pieces = ["0+0 In eight", "0+8  pieces ", "0+16 of eight", "0+24  letters", "answered"]

  test(
    "SCREEN-1 a reader gets each piece with every: 0, and readers who look as often continue where the first of them leaves",
    t.over([{ text: "In eight pieces of eight letters", chunkDelay: "10 millis" }]),
    function* () {
      const [first, second, third, eager] = yield* readPieces([20, 20, 20, 0])
      assert.deepStrictEqual(eager, pieces)
      assert.strictEqual(first?.length, 1)
      assert.deepStrictEqual(second, third)
      const text = second?.flatMap((line) => /^0\+\d+ (.*)$/.exec(line)?.[1] ?? []).join("")
      assert.strictEqual(text, "In eight pieces of eight letters")
      assert(second !== undefined && second.length < pieces.length)
    }
  )

  const look = Tool.make("look", { parameters: Schema.Struct({ at: Schema.String }), success: Schema.String })

  test(
    "SCREEN-1 agents in the steps of a plan, and the arguments of calls, are shown",
    Layer.mergeAll(
      VersionedStore.layerMemory,
      Toolkit.make(look).toLayer({ look: () => Effect.succeed("a house") }),
      ScriptedModel.layer([
        { toolCalls: [{ name: "look", params: { at: "home" } }], chunkDelay: "30 millis" },
        { text: "Done.", chunkDelay: "30 millis" }
      ])
    ),
    function* () {
      const helper = Agent.make("helper", { toolkit: Toolkit.make(look) })
      const plan = yield* Effect.flatMap(Plan.make("plan", [Step.make("help", { target: helper })]), Plan.bind)
      const entries = yield* Effect.provide(readTurn("a", "go"), Session.layer([plan]))
      assert.deepStrictEqual(lines(entries), [
        "help0+0 ",
        'help0+0 {"at":"h',
        'help0+8 ome"}',
        "help0+0 Done.",
        "answered"
      ])
      assert.isFalse(entries.some(({ event }) => event._tag === "AnswerDelta" && event.isSubAgent === true))
    }
  )

  test("SCREEN-1 a runner that begins anew is noticed by the place of its first entry", function* () {
    const seen = cursors.readAfter(cursors.liveCursorOf("life.3", new Map([["m", [undefined, 5]]])))
    assert(seen !== undefined)
    const draft = (messageId: string, offset: number): Session.LiveEntry["event"] => ({
      _tag: "AnswerDelta",
      turn: "m0",
      messageId,
      part: 0,
      type: "text",
      offset,
      delta: "ab"
    })
    const entry = (sequence: number, ids: ReadonlyArray<string>, event: Session.LiveEntry["event"]) => ({
      sequence,
      cursor: cursors.liveCursorOf(`life.${sequence}`, new Map(ids.map((id) => [id, [undefined, 7]]))),
      event
    })
    const follows = (next: Session.LiveEntry) => liveReaders.placeAfter(seen, next) !== undefined
    const stored = {
      _tag: "SessionUpdated",
      at: (yield* Effect.clockWith((clock) => clock.currentTimeMillis)) as never
    } as const
    assert(follows(entry(3, ["m"], draft("m", 5))))
    assert(follows(entry(3, [], { _tag: "AnswerWithdrawn", messageId: "m" })))
    assert(follows(entry(4, ["m"], stored)))
    assert(!follows(entry(3, ["m"], draft("m", 0))), "a piece that was seen")
    assert(!follows(entry(3, ["n"], draft("n", 0))), "another draft, without a word of the one that was seen")
    assert(!follows(entry(4, [], stored)), "an event, without a word of the draft that was seen")
    assert(!follows(entry(3, ["m"], stored)), "an event that was seen")
  })
})
