// langchain-ai/langgraph#8551 (2026-08), langchain-ai/langgraphjs#2737 (2026-08): what is written in a fork appears in the branch that it came from, or the other way round.
// m6r-ai/humbug#230, Kohaku-Lab/KohakuTerrarium#111 (2026-08): after an edit a fork has another history.
// Right: both sides go on at once and neither sees the other; a fork of a fork, of a place within a turn, and after an edit has the messages of that place.
import { Effect, Layer } from "effect"
import { Agent, VersionedStore, Conversation, Message } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { same } from "../harness/keep.mjs"

const agent = Agent.make("a", {})
const Sessions = Session.layer([agent]).pipe(
  Layer.provide([
    VersionedStore.layerMemory,
    ScriptedModel.layer((r) => ({
      text: `re ${r.messages
        .filter((m) => m.role === "user")
        .map((m) => m.text)
        .join(",")}`
    }))
  ])
)
const users = (id) =>
  Effect.gen(function* () {
    return Conversation.messages(yield* (yield* Session.Session).history(id))
      .filter((m) => m.role === "user")
      .map(Message.text)
  })
export default Effect.gen(function* () {
  const sessions = yield* Session.Session
  yield* Session.turn("o", "1", { messageId: "m1" })
  const two = yield* Session.turn("o", "2", { messageId: "m2" })
  yield* Session.turn("o", "3", { messageId: "m3" })
  yield* sessions.fork("o", { at: two.cursor, to: "f" })
  const [x, y] = yield* Effect.all([Session.turn("o", "4"), Session.turn("f", "X")], { concurrency: 2 })
  same("origin", x.text, "re 1,2,3,4")
  same("fork", y.text, "re 1,2,X")
  yield* sessions.fork("f", { to: "ff" })
  same("fork of the fork", (yield* Session.turn("ff", "Y")).text, "re 1,2,X,Y")
  same("fork unchanged", yield* users("f"), ["1", "2", "X"])
  const edited = yield* sessions.edit("o", { messageId: "m2", input: "2b" })
  same("edit", (yield* Session.await("o", { cursor: edited.cursor })).text, "re 1,2b")
  yield* sessions.fork("o", { to: "g" })
  same("fork after the edit", (yield* Session.turn("g", "Z")).text, "re 1,2b,Z")
  yield* sessions.fork("o", { at: two.cursor, to: "h" })
  same("fork at a place before the edit", (yield* Session.turn("h", "W")).text, "re 1,2,W")
  same(
    "edit in the fork",
    (yield* Effect.gen(function* () {
      const e = yield* sessions.edit("h", { messageId: "m1", input: "1h" })
      return yield* Session.await("h", { cursor: e.cursor })
    })).text,
    "re 1h"
  )
  same("origin after all", yield* users("o"), ["1", "2b"])
  same("first fork after all", yield* users("f"), ["1", "2", "X"])
}).pipe(Effect.provide(Sessions))
