/** RIGHT-6: a paused turn that holds only tools of the provider is sent back; a call without its result is not, once the user speaks. */
import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { Agent } from "effect-emissary"
import { AiSdk } from "effect-emissary/ai-sdk"
import { test } from "../test.ts"
import { handmade } from "./handmade.ts"

const call = { type: "tool-call", toolCallId: "m1", toolName: "echo", input: "{}", providerExecuted: true } as const
const result = { type: "tool-result", toolCallId: "m1", toolName: "echo", result: "1" } as const
const done = { content: [{ type: "text", text: "done" }] } as const

describe("RIGHT-6 tools that only the provider knows", () => {
  for (const [name, raw, parts, kinds] of [
    ["a pause is sent back", "pause_turn", [call, result], ["tool-call", "tool-result"]],
    ["a call without its result is closed", "length", [call], []]
  ] as const) {
    test(name, function* () {
      const { calls, model } = handmade([
        { content: [...parts], finishReason: { unified: raw === "length" ? "length" : "stop", raw } },
        { content: [...done.content] }
      ])
      const agent = Agent.make("a")
      yield* agent.run("go").pipe(
        Effect.flatMap(({ conversation, outcome }) =>
          outcome === "Stopped" ? agent.run("again", { conversation }) : Effect.void
        ),
        Effect.provide(AiSdk.model(model))
      )
      const sent = calls[1]?.prompt.flatMap(({ content, role }) => (role === "assistant" ? content : [])) ?? []
      assert.deepStrictEqual(
        sent.map(({ type }) => type),
        [...kinds]
      )
    })
  }
})
