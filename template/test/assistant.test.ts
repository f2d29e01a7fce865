import { assert, it } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { Run, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { NoNetwork, ScriptedModel } from "effect-emissary/testing"
import { assistant, ToolsLive } from "../src/assistant.ts"

/** The chat with a script in place of the model, and a store in memory. */
const chat = (...turns: ReadonlyArray<ScriptedModel.Turn>) =>
  Session.layer([assistant]).pipe(
    Layer.provide([VersionedStore.layerMemory, ToolsLive, ScriptedModel.layer(turns), NoNetwork.layer])
  )

it.effect("answers", () =>
  Effect.gen(function* () {
    assert.strictEqual(yield* Session.ask("ada/1", "Hello"), "Hello, Ada.")
  }).pipe(Effect.provide(chat({ text: "Hello, Ada." })))
)

it.effect("pays back after a yes, and not before", () =>
  Effect.gen(function* () {
    const asked = yield* Session.turn("ada/1", "Refund order 42")
    assert.strictEqual(asked.outcome, "AwaitingApproval")
    const { requests } = Option.getOrThrow(yield* Session.state("ada/1"))
    const decided = yield* Session.decide(
      "ada/1",
      requests.filter(Run.isApprovable).map((it) => Run.approve(it))
    )
    const done = yield* Session.await("ada/1", decided)
    assert.strictEqual(done.text, "Done.")
  }).pipe(
    Effect.provide(
      chat(
        { toolCalls: [{ name: "refund", params: { order: "42", amount: 25 } }] },
        { text: "Done.", expect: { toolResult: "25 EUR for order 42 are paid back." } }
      )
    )
  )
)
