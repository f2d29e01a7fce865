// anomalyco/opencode#27924 (2026-06), openclaw/openclaw#89358 (2026-06): the summary fails (or comes back empty) and the session never recovers, or the failed summary is part of the history from then on.
// Right: the turn fails with a typed error; nothing of the failed summary is in the history; the next message tries again and is answered; a summary that does not return ends with `interrupt`.
import { Effect, Layer } from "effect"
import { Agent, ContextWindow, Conversation, Message, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { same, holds } from "../harness/keep.mjs"

let tries = 0
const outcomes = [
  Effect.fail(new Error("down")),
  Effect.succeed("  "),
  Effect.die(new Error("bug")),
  Effect.never,
  Effect.succeed("a fine summary")
]
let last
const agent = Agent.make("a", {
  instructions: "i",
  contextWindow: ContextWindow.summarize({ above: 300, summarize: () => outcomes[Math.min(tries++, 4)] })
})
const layer = Session.layer([agent]).pipe(
  Layer.provide([
    VersionedStore.layerMemory,
    ScriptedModel.layer((r) => {
      last = r
      return { text: "word ".repeat(150) }
    })
  ])
)
export default Effect.gen(function* () {
  const sessions = yield* Session.Session
  yield* Session.turn("s", "q0")
  yield* Session.turn("s", "q1")
  yield* Session.turn("s", "q1b")
  const failed = []
  for (const text of ["q2", "q3", "q4"]) {
    const exit = yield* Effect.exit(Session.turn("s", text))
    failed.push(
      exit._tag === "Success"
        ? "ok"
        : (exit.cause.reasons[0]?.error?.reason?.failure?.reason ??
            exit.cause.reasons[0]?.error?.reason?._tag ??
            String(exit.cause).slice(0, 100))
    )
  }
  holds(
    "three turns fail with a reason",
    failed.every((f) => f !== "ok" && typeof f === "string"),
    failed
  )
  yield* sessions.send("s", "q5")
  yield* Effect.sleep(300)
  same("the summary that hangs is interrupted", (yield* sessions.interrupt("s")).isInterrupted, true)
  const answer = yield* Effect.exit(Session.turn("s", "q6"))
  same("the next message is answered", answer._tag, "Success")
  const all = last.messages.map((m) => m.text).join("\n")
  holds("with the summary", all.includes("a fine summary"), all.slice(0, 200))
  same(
    "history",
    Conversation.messages(yield* sessions.history("s"))
      .filter((m) => m.role === "user")
      .map(Message.text),
    ["q0", "q1", "q1b", "q2", "q3", "q4", "q5", "q6"]
  )
}).pipe(Effect.provide(layer))
