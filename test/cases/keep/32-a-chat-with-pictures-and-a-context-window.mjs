// withastro/flue#240 and #289 (2026-06), cloudflare/agents#546, github/copilot-cli#3767 (2026-06): what a session stores in one value grows over the limit of one value, and the
// session takes no message any more. Right: 26 messages with a picture of 1 MB each, a context window of 30,000 tokens (a picture weighs 1,600): all are answered, the model is asked once for each.
// A fitted view names messages that are in the log already, so it need not hold their attachments again.
import { Effect, Layer } from "effect"
import { Agent, ContextWindow } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { same } from "../harness/keep.mjs"

const image = { type: "file", mediaType: "image/png", data: { type: "base64", base64: "A".repeat(1_000_000) } }
const once = (name, contextWindow) => {
  let calls = 0
  const failed = []
  return Effect.gen(function* () {
    for (let i = 0; i < 26; i++) {
      const exit = yield* Effect.exit(
        Session.turn("s", i < 22 ? [{ type: "text", text: `m${i}` }, image] : "plain text")
      )
      if (exit._tag === "Failure") failed.push(`${i}: ${exit.cause.reasons[0]?.error?.message.slice(0, 120)}`)
    }
    same(`${name}: messages that failed`, failed.length, 0)
    same(`${name}: first failure`, failed[0], undefined)
    same(`${name}: model calls`, calls, 26)
  }).pipe(
    Effect.provide(
      Session.layer([Agent.make("a", { instructions: "i", contextWindow })]).pipe(
        Layer.provide([
          SqliteClient.layerStore({ filename: ":memory:" }),
          ScriptedModel.layer(() => {
            calls++
            return { text: "ok" }
          })
        ])
      )
    )
  )
}
export default Effect.andThen(
  once("truncate", ContextWindow.truncate({ above: 30_000 })),
  once("compact", ContextWindow.summarize({ above: 30_000, keepRecent: 12, summarize: () => Effect.succeed("sum") }))
)
