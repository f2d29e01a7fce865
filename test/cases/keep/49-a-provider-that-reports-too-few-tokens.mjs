// openclaw/openclaw#66520 (2026-04), anomalyco/opencode PR 12074 (2026-02): the provider (or a gateway) reports as input only the tokens that did not come from its cache, 5 of 5,000; the size of the chat counts as 5, and the
// compaction never begins. Right: a context window of 1,000 tokens holds: no request is above 2,000 by a plain estimate, whatever the provider reports; a report below its own cached part, or far below the estimate of the
// messages, is not the size of the request. A report that is right still counts (tools and images that the estimate does not see).
import { Effect, Layer } from "effect"
import { Agent, ContextWindow, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { holds } from "../harness/keep.mjs"

const once = (name, usageOf, contextWindow) => {
  let largest = 0
  const model = ScriptedModel.layer((r) => {
    const n = Math.ceil(r.messages.reduce((s, m) => s + m.text.length, 0) / 4)
    largest = Math.max(largest, n)
    return { text: "word ".repeat(200), ...usageOf(n) }
  })
  return Effect.gen(function* () {
    for (let k = 0; k < 16; k++) yield* Session.turn("s", `question ${k}`)
    holds(`${name}: largest request`, largest <= 2000, largest)
  }).pipe(
    Effect.provide(
      Session.layer([Agent.make("a", { instructions: "i", contextWindow })]).pipe(
        Layer.provide([VersionedStore.layerMemory, model])
      )
    )
  )
}
export default Effect.gen(function* () {
  for (const [kind, contextWindow] of [
    ["truncate", ContextWindow.truncate({ above: 1000 })],
    ["compact", ContextWindow.summarize({ above: 1000, summarize: () => Effect.succeed("sum") })]
  ]) {
    yield* once(`${kind}, no usage`, () => ({}), contextWindow)
    yield* once(`${kind}, zero`, () => ({ usage: { inputTokens: 0, outputTokens: 0 } }), contextWindow)
    yield* once(`${kind}, right`, (n) => ({ usage: { inputTokens: n, outputTokens: 200 } }), contextWindow)
    yield* once(
      `${kind}, without the cached part`,
      (n) => ({ usage: { inputTokens: 5, cacheReadTokens: n, outputTokens: 200 } }),
      contextWindow
    )
    yield* once(`${kind}, one`, () => ({ usage: { inputTokens: 1, outputTokens: 1 } }), contextWindow)
  }
})
