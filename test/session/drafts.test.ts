/** SCREEN-1: what a live reader gets follows from its place and from what is written, and adds up to what a model wrote. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import type { AgentEvent, Run } from "effect-emissary"
import * as cursors from "#src/session/internal/cursors.ts"
import * as drafts from "#src/session/internal/drafts.ts"
import { test } from "../test.ts"

type View = AgentEvent.AgentEvent<unknown>

const text = (messageId: string, delta: string, index = 0): View => ({ _tag: "TextDelta", messageId, index, delta })

/** The view of an agent that is a tool. Its state has no plan. */
const inside = (callId: string, event: View) => ({ _tag: "Child", callId, name: "inner", event, state: {} }) as View

/** The screen of a reader of drafts. */
class Screen {
  readonly messages = new Map<string, Map<number, string>>()

  show(events: ReadonlyArray<drafts.Draft>): void {
    for (const event of events) {
      if (event._tag === "AnswerWithdrawn") {
        assert(this.messages.delete(event.messageId), "an answer is withdrawn that was never shown")
        continue
      }
      const parts = this.messages.get(event.messageId) ?? new Map<number, string>()
      assert(event._tag === "AnswerDelta")
      const before = parts.get(event.part) ?? ""
      assert.strictEqual(event.offset, before.length, "a piece is lost or doubled")
      this.messages.set(event.messageId, parts.set(event.part, before + event.delta))
    }
  }
}

const Count = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 999_999_999_999_999 }))

const Step = Schema.Union([
  Schema.TaggedStruct("Write", {
    at: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 })),
    delta: Schema.String
  }),
  Schema.TaggedStruct("Begin", { at: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 })) }),
  Schema.TaggedStruct("Read", { reader: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 })) }),
  Schema.TaggedStruct("Clear", {})
])

describe("SCREEN-1 drafts", () => {
  test.prop("SCREEN-1 each reader has what is written, whenever it reads", [Schema.Array(Step)], function* ([steps]) {
    const live = new drafts.Drafts()
    live.open("life", Effect.void)
    const readers = [0, 1, 2].map(() => ({
      screen: new Screen(),
      place: drafts.placeAt("life.1", 1, cursors.noneSeen)
    }))
    const written = new Map<string, string>()
    const current = ["a0", "b0", "c0"]
    let attempts = 0
    const read = (reader: (typeof readers)[number]) => {
      const { entries, place } = live.after(reader.place)
      reader.screen.show(entries.map(({ event }) => event))
      const last = entries.at(-1)
      if (last !== undefined) assert.strictEqual(last.cursor, place.cursor)
      assert.deepStrictEqual(
        entries.reduce((before, { event }) => drafts.seenAfter(before, event) ?? before, reader.place.seen),
        place.seen
      )
      // The place goes through its text, as a cursor does
      const read = cursors.readAfter(place.cursor)
      assert(read !== undefined)
      reader.place = drafts.placeAt("life.1", read.sequence, read.seen ?? cursors.noneSeen)
      assert.strictEqual(reader.place.cursor, place.cursor)
      const shown = new Map(Array.from(reader.screen.messages, ([id, parts]) => [id, parts.get(0) ?? ""]))
      assert.deepStrictEqual(shown, written)
    }
    for (const step of steps) {
      switch (step._tag) {
        case "Write": {
          const id = current[step.at] ?? ""
          const view = text(id, step.delta)
          live.add(step.at === 0 ? view : inside(`c${step.at}`, view), 1)
          written.set(id, (written.get(id) ?? "") + step.delta)
          for (const other of Array.from(written.keys())) {
            if (other[0] === id[0] && other !== id) written.delete(other)
          }
          break
        }
        case "Begin":
          attempts += 1
          current[step.at] = `${"abc"[step.at]}${attempts}`
          break
        case "Read": {
          const reader = readers[step.reader]
          if (reader !== undefined) read(reader)
          break
        }
        case "Clear":
          live.clear()
          written.clear()
      }
    }
    for (const reader of readers) read(reader)
    yield* Effect.void
  })

  it("SCREEN-1 a draft has a mark where an agent is a tool, and none for an agent in a step of a plan", () => {
    const live = new drafts.Drafts()
    live.open("life", Effect.void)
    // Sound: nothing but the plan is read of the state
    const planned = { plan: {} } as Run.State
    const step = (name: string, event: View): View => ({ _tag: "Child", callId: name, name, event, state: planned })
    live.add(step("s", text("a", "in a step")), 1)
    live.add(step("s", inside("c", text("b", "in a tool"))), 1)
    live.add(inside("c", step("s", text("c", "in a step of a tool"))), 1)
    live.add(text("d", "by itself"), 1)
    const found = live
      .after(drafts.placeAt("life.1", 1, cursors.noneSeen))
      .entries.map(({ event }) => "delta" in event && [event.path, event.isSubAgent])
    assert.deepStrictEqual(found, [
      [["s"], undefined],
      [["s", "c"], true],
      [["c", "s"], true],
      [undefined, undefined]
    ])
  })

  it("SCREEN-1 a reader of a session that was removed does not see the session that began after it", () => {
    const live = new drafts.Drafts()
    live.open("after", Effect.void)
    live.add(text("a", "written"), 1)
    const shownAt = (event: string) => live.after(drafts.placeAt(event, 8, cursors.noneSeen)).entries.length
    assert.strictEqual(shownAt("before.8"), 0)
    assert.strictEqual(shownAt("after.8"), 1)
  })

  test.prop(
    "SCREEN-1 a cursor has the place of a reader in drafts with any ids",
    [Schema.Array(Schema.Tuple([Schema.String, Schema.NonEmptyArray(Schema.UndefinedOr(Count))]))],
    function* ([drafts]) {
      const seen = new Map(drafts)
      const cursor = cursors.liveCursorOf("life.3", seen)
      assert.match(cursor, /^[\w./~-]+$/)
      const read = cursors.readAfter(cursor)
      assert(read !== undefined)
      assert.deepStrictEqual(read.seen ?? cursors.noneSeen, seen)
      yield* Effect.void
    }
  )

  it("SCREEN-1 a text that is no place is refused", () => {
    for (const wrong of [
      "",
      ".",
      "m",
      "m.1~",
      "~m.1",
      "m/1",
      "=",
      "..1",
      ".bnVsbA.1",
      `m.${"1".repeat(16)}`,
      `m.${"1.".repeat(10_000)}`
    ])
      assert.strictEqual(cursors.readAfter(`life.3/${wrong}`), undefined, wrong)
  })
})
