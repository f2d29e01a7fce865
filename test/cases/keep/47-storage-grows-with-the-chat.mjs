// bytedance/deer-flow#3011 and #4189 (2026-06, 2026-07), pizza-bot-app/pizza-bot#58 (2026-09), theexperiencecompany/gaia PR 972 (2026-08), langchain-ai/langgraph#7094: each step stores the whole state again, so the database grows with the
// square of the chat. Right: 80 turns with tool outputs take at most 2.3 times the bytes of 40 turns, with and without a context window; the model's requests are bounded by it.
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ContextWindow } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { mkdtempSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { holds } from "../harness/keep.mjs"

const Tools = Toolkit.make(Tool.make("read", { parameters: Schema.Struct({}), success: Schema.String }))
const size = (turns, contextWindow) => {
  const filename = join(mkdtempSync(join(tmpdir(), "case47-")), "s.sqlite")
  const agent = Agent.make("a", { instructions: "i", toolkit: Tools, ...(contextWindow ? { contextWindow } : {}) })
  return Effect.gen(function* () {
    for (let i = 0; i < turns; i++) yield* Session.turn("s", `question ${i} ${"q".repeat(300)}`)
  }).pipe(
    Effect.provide(
      Session.layer([agent]).pipe(
        Layer.provide([
          SqliteClient.layerStore({ filename }),
          Tools.toLayer({ read: () => Effect.succeed("row of data ".repeat(150)) }),
          ScriptedModel.layer((r) =>
            r.messages.at(-1).role === "tool"
              ? { text: "answer ".repeat(50) }
              : { toolCalls: [{ name: "read", params: {} }] }
          )
        ])
      )
    ),
    Effect.map(() => {
      const db = new DatabaseSync(filename, { readOnly: true })
      const { n } = db.prepare("select sum(length(store_value)) as n from effect_emissary_store").get()
      db.close()
      return n
    })
  )
}
export default Effect.gen(function* () {
  for (const [name, contextWindow] of [
    ["none", undefined],
    ["truncate", ContextWindow.truncate({ above: 4000 })],
    ["compact", ContextWindow.summarize({ above: 4000, summarize: () => Effect.succeed("a summary ".repeat(30)) })]
  ]) {
    const a = yield* size(40, contextWindow)
    const b = yield* size(80, contextWindow)
    holds(`${name}: bytes of 80 turns over those of 40`, b / a < 2.3, [a, b, b / a])
    holds(`${name}: bytes per turn`, a / 40 < 30_000, a / 40)
  }
})
