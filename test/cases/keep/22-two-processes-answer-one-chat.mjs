// elastic/kibana PR 281887 (2026), nexu-io/open-design#5490 (2026-07), runvendo/vendo PR 264 (2026-07): two requests of one chat at the same time; the
// later write wins and a round is lost. Right: two processes (two layers over one SQLite file), 10 messages each at once: all 20 are in the history,
// each once, each with its answer behind it.
import { Effect, Layer } from "effect"
import { Agent, Conversation, Message } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { same } from "../harness/keep.mjs"

const filename = join(mkdtempSync(join(tmpdir(), "case22-")), "s.sqlite")
const agent = Agent.make("a", { instructions: "i" })
const layer = () =>
  Layer.fresh(
    Session.layer([agent]).pipe(
      Layer.provide([
        Layer.fresh(SqliteClient.layerStore({ filename })),
        ScriptedModel.layer((r) => ({ text: `re: ${r.messages.at(-1).text}`, delay: 5 }))
      ])
    )
  )
const side = (name) =>
  Effect.forEach(
    Array.from({ length: 10 }, (_, i) => `${name}${i}`),
    (text) => Session.turn("chat", text),
    { concurrency: 4 }
  ).pipe(Effect.provide(layer()))
export default Effect.gen(function* () {
  const [a, b] = yield* Effect.all([side("a"), side("b")], { concurrency: 2 })
  same(
    "answers",
    [...a, ...b].map((r) => r.text).toSorted(),
    [..."ab"].flatMap((n) => Array.from({ length: 10 }, (_, i) => `re: ${n}${i}`)).toSorted()
  )
  const history = yield* Effect.flatMap(Session.Session, (s) => s.history("chat")).pipe(Effect.provide(layer()))
  const texts = Conversation.messages(history)
    .filter((m) => m.role !== "system")
    .map((m) => [m.role, Message.text(m)])
  same("messages", texts.length, 40)
  for (let i = 0; i < texts.length; i += 2)
    same(`pair ${i}`, [texts[i][0], texts[i + 1][1]], ["user", `re: ${texts[i][1]}`])
})
