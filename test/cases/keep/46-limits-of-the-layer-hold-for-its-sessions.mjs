// github/copilot-cli#3767 (2026-06), pydantic/pydantic-ai PR 7157 (2026-08): people who store large things raise a limit, and then find that some operations have another one.
// Right: limits that are set where sessions are hosted (the layer) hold for all operations on its sessions, as docs/agents.md says ("Where the call sets none, those of the layer hold"): a message with a file of 6 MB is taken, and
// events, fork and history read what was stored. A reader must not say `Unreadable` (category `internal`, as for damage) about a session that is whole.
import { Effect, Layer, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Limits } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { same } from "../harness/keep.mjs"

const filename = join(mkdtempSync(join(tmpdir(), "case46-")), "s.sqlite")
const high = Limits.layer({ maxBytes: 200e6, maxStringLength: 100e6 })
const Tools = Toolkit.make(Tool.make("read", { parameters: Schema.Struct({}), success: Schema.String }))
const layer = () =>
  Layer.fresh(
    Session.layer([Agent.make("a", { toolkit: Tools })]).pipe(
      Layer.provide([
        Layer.fresh(SqliteClient.layerStore({ filename })),
        Tools.toLayer({ read: () => Effect.succeed("x".repeat(6_000_000)) }),
        ScriptedModel.layer((r) =>
          r.messages.at(-1).text === "read" ? { toolCalls: [{ name: "read", params: {} }] } : { text: "ok" }
        )
      ]),
      Layer.provide(high)
    )
  )
const result = (effect) =>
  Effect.map(Effect.exit(effect), (e) =>
    e._tag === "Success" ? "ok" : `${e.cause.reasons[0]?.error?.reason?._tag} (${e.cause.reasons[0]?.error?.category})`
  )
export default Effect.gen(function* () {
  same("a tool output of 6 MB", yield* Effect.provide(result(Session.turn("s", "read")), layer()), "ok")
  yield* Effect.gen(function* () {
    const sessions = yield* Session.Session
    same("history", yield* result(sessions.history("s")), "ok")
    same("events", yield* result(Stream.runDrain(Stream.take(sessions.events("s"), 8))), "ok")
    same("fork", yield* result(sessions.fork("s", { to: "f" })), "ok")
    same("ask", yield* result(Session.turn("s", "more")), "ok")
    same(
      "a file of 6 MB",
      yield* result(
        Session.turn("t", [
          { type: "file", mediaType: "image/png", data: { type: "base64", base64: "A".repeat(6_000_000) } }
        ])
      ),
      "ok"
    )
  }).pipe(Effect.provide(layer()))
})
