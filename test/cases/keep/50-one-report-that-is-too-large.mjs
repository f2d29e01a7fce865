// Kind of case 49, the other way round: anomalyco/opencode#37871 (2026-07), openclaw/openclaw#119824 (2026-08), open-webui/open-webui#28590 (2026-08): a reported count that is not the size of the next request (searches that the provider ran
// itself, counts of several internal calls, cached tokens counted twice, tools that a deploy has removed) keeps the chat over its threshold; compaction runs for ever or the chat fails for ever.
// Right: a chat of a few hundred tokens with a context window of 20,000 goes on after ONE report of 60,000: the next request is made (its own report corrects the size). An old report must not fail a request whose messages fit.
import { Effect, Layer } from "effect"
import { Agent, ContextWindow, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { same, holds } from "../harness/keep.mjs"

const once = (name, contextWindow, later = contextWindow) => {
  let calls = 0
  let summaries = 0
  const model = ScriptedModel.layer(() => ({
    text: `answer ${calls}`,
    usage: { inputTokens: calls++ === 1 ? 60_000 : 100 + calls, outputTokens: 5 }
  }))
  const layer = (b) =>
    Layer.fresh(
      Session.layer([
        Agent.make("a", {
          instructions: "i",
          contextWindow: b(() => {
            summaries++
            return Effect.succeed("sum")
          })
        })
      ]).pipe(Layer.provide(model))
    )
  return Effect.gen(function* () {
    yield* Effect.gen(function* () {
      yield* Session.turn("s", "one")
      yield* Session.turn("s", "two")
    }).pipe(Effect.provide(layer(contextWindow)))
    const failed = []
    yield* Effect.gen(function* () {
      for (const text of ["three", "four", "five"]) {
        const exit = yield* Effect.exit(Session.turn("s", text))
        if (exit._tag === "Failure") failed.push(`${text}: ${exit.cause.reasons[0]?.error?.message?.slice(0, 330)}`)
      }
    }).pipe(Effect.provide(layer(later)))
    same(`${name}: failed`, failed.length, 0)
    if (failed.length) holds(`${name}`, false, failed[0])
    same(`${name}: model calls`, calls, 5)
    holds(`${name}: summaries`, summaries <= 1, summaries)
  }).pipe(Effect.provide(VersionedStore.layerMemory))
}
export default Effect.gen(function* () {
  yield* once("truncate", () => ContextWindow.truncate({ above: 20_000 }))
  yield* once("compact", (s) => ContextWindow.summarize({ above: 20_000, summarize: s }))
  yield* once(
    "a lower threshold after a deploy that removed tools",
    () => ContextWindow.truncate({ above: 100_000 }),
    () => ContextWindow.truncate({ above: 20_000 })
  )
})
