// PostHog/posthog PR 101104 (2026-09), Automattic/agents-api#552, xorbitsai/xagent#1397, razzant/ouroboros#136 (2026-08): a reader that comes back with a cursor older than what is
// kept skips the events between without a word; or positions shift, so that events are lost or come twice.
// Right: with `keepEvents` an old cursor fails with EventsPruned, which names the first event that is kept; from there nothing is missing or doubled; cursors
// of a removed session fail with EventsUnknown; many readers that cut themselves off see the same sequence.
import { Effect, Layer, Stream, Option } from "effect"
import { Agent, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { same, holds } from "../harness/keep.mjs"

const agent = Agent.make("a", {})
const layer = Session.layer([agent], { keepEvents: 50 }).pipe(
  Layer.provide([VersionedStore.layerMemory, ScriptedModel.layer((r) => ({ text: `re ${r.messages.at(-1).text}` }))])
)
export default Effect.gen(function* () {
  const sessions = yield* Session.Session
  const first = yield* sessions.send("s", "0")
  const seen = []
  yield* Effect.forkChild(
    Effect.gen(function* () {
      let after
      for (;;) {
        // cuts itself off after 7 events
        const some = yield* Stream.runCollect(Stream.take(sessions.events("s", { after }), 7))
        for (const e of some) seen.push(e.sequence)
        after = some.at(-1).cursor
      }
    })
  )
  for (let i = 1; i < 300; i++) yield* Session.turn("s", String(i))
  yield* Effect.sleep(100)
  const newest = Option.getOrThrow(yield* sessions.state("s")).sequence
  same(
    "the live reader missed and doubled nothing",
    seen,
    Array.from({ length: seen.length }, (_, i) => i + 1)
  )
  holds("it is near the end", newest - seen.length < 8, [newest, seen.length])
  const error = yield* Effect.flip(Stream.runDrain(Stream.take(sessions.events("s", { after: first.cursor }), 1)))
  same("old cursor", error.reason._tag, "EventsPruned")
  const kept = yield* Stream.runCollect(
    Stream.take(sessions.events("s", { after: error.reason.after }), newest - error.reason.first + 1)
  )
  same(
    "the rest",
    [kept[0].sequence, kept.at(-1).sequence, kept.length],
    [error.reason.first, newest, newest - error.reason.first + 1]
  )
  const old = kept.at(-1).cursor
  yield* sessions.remove("s")
  for (let i = 0; i < 3; i++) yield* Session.turn("s", "again")
  same(
    "cursor of the removed session",
    (yield* Effect.flip(Stream.runDrain(Stream.take(sessions.events("s", { after: old }), 1)))).reason._tag,
    "EventsUnknown"
  )
  for (const bad of ["", "x", "x.1", "-1", "1.5", "99999", "../..", old + "0", `${old}.1`])
    same(
      `after ${bad}`,
      (yield* Effect.exit(Stream.runDrain(Stream.take(sessions.events("s", { after: bad }), 1)))).cause?.reasons[0]
        ?.error?.reason?._tag,
      "EventsUnknown"
    )
}).pipe(Effect.provide(layer))
