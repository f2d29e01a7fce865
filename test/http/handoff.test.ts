/** MONEY-7: pages see that another agent answers. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { Agent } from "effect-emissary"
import { UiMessages } from "effect-emissary/http"
import { ChatEvent } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as agUi from "#src/http/internal/agUi.ts"
import * as screen from "#src/http/internal/screen.ts"

const billing = Agent.make("billing", { instructions: "You settle invoices." })

const triage = Agent.make("triage", { toolkit: [Agent.handoff(billing)] })

const model = ScriptedModel.layer([
  { toolCalls: [{ id: "t1", name: "transfer_to_billing", params: {} }] },
  { text: "R-7 is paid." }
])

describe("MONEY-7 pages of a conversation that is passed on", () => {
  it.effect("get a transient data part in the stream of the AI SDK, between the result and the next answer", () =>
    Effect.gen(function* () {
      const chunks = yield* Stream.runCollect(UiMessages.fromStream(triage.stream("Help"), { id: "answer" }))
      const types = chunks.map(({ type }) => type)
      const at = types.indexOf("data-handoff")
      assert.deepStrictEqual(chunks[at], {
        type: "data-handoff",
        transient: true,
        data: { agent: "billing", path: [] }
      })
      assert.deepStrictEqual(types.slice(at - 1, at + 2), ["tool-output-available", "data-handoff", "finish-step"])
    }).pipe(Effect.provide(model))
  )

  it.effect("get a custom event of AG-UI", () =>
    Effect.gen(function* () {
      const events = yield* Stream.runCollect(ChatEvent.projectRun()(triage.stream("Help")))
      const run = { threadId: "t", runId: "r", messages: [], hasReasoning: false }
      const page = { ...agUi.begin("m", run), turn: screen.make() }
      const sent = yield* Stream.fromIterable(events).pipe(screen.stream(agUi.protocol, page), Stream.runCollect)
      assert.deepStrictEqual(
        sent.filter(({ type }) => type === "CUSTOM"),
        [{ type: "CUSTOM", name: "handoff", value: { agent: "billing", path: [] } }]
      )
    }).pipe(Effect.provide(model))
  )
})
