// openclaw/openclaw#113701 (2026-09), PrimeIntellect-ai/prime-agent#900 (2026-08): one tool output larger than the window; each later message of the session fails.
// Right: the turn fails with a typed error; the next message is answered (the old turn is left out or shortened), with truncate and with compact.
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ContextWindow, Conversation, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { same } from "../harness/keep.mjs"

const Tools = Toolkit.make(Tool.make("dump", { parameters: Schema.Struct({}), success: Schema.String }))
const once = (kind) => {
  const sizes = []
  const contextWindow =
    kind === "truncate"
      ? ContextWindow.truncate({ above: 3000 })
      : ContextWindow.summarize({
          above: 3000,
          summarize: (old) =>
            Effect.sync(() => {
              sizes.push(JSON.stringify(Conversation.transcript(old)).length)
              return "a dump"
            })
        })
  const agent = Agent.make("a", { instructions: "i", toolkit: Tools, contextWindow })
  const Sessions = Session.layer([agent]).pipe(
    Layer.provide([
      VersionedStore.layerMemory,
      Tools.toLayer({ dump: () => Effect.succeed("x ".repeat(80_000)) }),
      ScriptedModel.layer((r) =>
        r.messages.at(-1).text.includes("dump it")
          ? { toolCalls: [{ name: "dump", params: {} }] }
          : { text: `answered ${r.messages.at(-1).text}` }
      )
    ])
  )
  return Effect.gen(function* () {
    const sessions = yield* Session.Session
    yield* Session.turn("s", "hello")
    const error = yield* Effect.flip(Session.turn("s", "dump it"))
    same(`${kind} first`, [error.reason._tag, error.reason.failure?.reason], ["TurnFailed", "ContextWindowFailed"])
    const next = yield* Effect.exit(Session.turn("s", "and now?"))
    same(`${kind} next`, next._tag === "Success" ? next.value.text : String(next.cause), "answered and now?")
    const third = yield* Effect.exit(Session.turn("s", "third"))
    same(`${kind} third`, third._tag === "Success" ? third.value.text : String(third.cause), "answered third")
    const history = yield* sessions.history("s")
    same(`${kind} history is whole`, Conversation.messages(history).filter((m) => m.role === "user").length, 4)
  }).pipe(Effect.provide(Sessions))
}
export default Effect.andThen(once("truncate"), once("compact"))
