// vercel/ai#13430 (2026-07): pruning removes an old call and its result, and leaves an answer that holds reasoning only, which providers refuse.
// QwenLM/qwen-code#8162 (2026-07): a signed thinking block stays while the call beside it was removed. NousResearch/hermes-agent#17861: redacted thinking is lost.
// Right: an answer is kept or removed as a whole; kept thinking keeps its signature and stands in front of its call; redacted data stays.
import { Effect } from "effect"
import { Conversation } from "effect-emissary"
import { AnthropicMessages } from "effect-emissary/interop"
import { same, holds } from "../harness/keep.mjs"

const turn = (n) => [
  { role: "user", content: `q${n}` },
  {
    role: "assistant",
    content: [
      { type: "thinking", thinking: `think ${n}`, signature: `sig${n}` },
      { type: "redacted_thinking", data: `red${n}` },
      { type: "tool_use", id: `t${n}`, name: "read", input: { n } }
    ]
  },
  { role: "user", content: [{ type: "tool_result", tool_use_id: `t${n}`, content: `result ${n} `.repeat(300) }] },
  {
    role: "assistant",
    content: [
      { type: "thinking", thinking: `more ${n}`, signature: `gis${n}` },
      { type: "text", text: `a${n}` }
    ]
  }
]
const input = { system: "s", messages: [1, 2, 3].flatMap(turn) }
export default Effect.gen(function* () {
  const chat = yield* AnthropicMessages.toConversation(input)
  same("round trip", AnthropicMessages.fromConversation(chat).success, {
    system: input.system,
    messages: input.messages
  })
  for (const maxTokens of [2500, 1600, 900, 400]) {
    const t = yield* Effect.exit(Conversation.truncate(chat, { maxTokens }))
    if (t._tag !== "Success") continue
    const { messages } = AnthropicMessages.fromConversation(t.value.conversation).success
    for (const m of messages.filter((m) => m.role === "assistant")) {
      const types = m.content.map((b) => b.type)
      holds(
        `limit ${maxTokens}: answer of reasoning alone`,
        types.some((t) => t === "text" || t === "tool_use"),
        types
      )
      const n = (m.content.find((b) => b.type === "tool_use") ?? {}).id?.slice(1)
      if (n)
        same(`limit ${maxTokens}: thinking of t${n}`, m.content.slice(0, 2), [
          { type: "thinking", thinking: `think ${n}`, signature: `sig${n}` },
          { type: "redacted_thinking", data: `red${n}` }
        ])
    }
  }
})
