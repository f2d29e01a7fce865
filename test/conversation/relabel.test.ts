import { assert, describe, it } from "@effect/vitest"
import { Conversation, type Message } from "effect-emissary"

describe("AGENT-3 repeated call ids", () => {
  it("AGENT-3 thousands of calls with one id are relabelled in linear time", () => {
    const calls = Array.from({ length: 30_000 }, (): Message.ToolCallPart => ({
      type: "tool-call",
      id: "c",
      name: "get_order",
      arguments: {}
    }))
    const ids = Conversation.relabelCalls(Conversation.empty, calls).map((part) => "id" in part && part.id)
    assert.strictEqual(new Set(ids).size, calls.length)
    assert.deepStrictEqual(ids.slice(0, 3), ["c", "c_0", "c_0_2"])
  })
})
