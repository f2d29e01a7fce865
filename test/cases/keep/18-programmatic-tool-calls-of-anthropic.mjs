// vercel/ai#12504 (2026): a history with Anthropic's programmatic tool calls loses the server tool that a call names as its `caller`, and the API refuses it.
// Right: the history is read and written as equal JSON (key `caller` included); a truncation keeps the caller and its call together or removes both.
import { Effect } from "effect"
import { Conversation } from "effect-emissary"
import { AnthropicMessages } from "effect-emissary/interop"
import { same, holds } from "../harness/keep.mjs"

const turn = (n) => [
  { role: "user", content: `sales of ${n}?` },
  {
    role: "assistant",
    content: [
      { type: "text", text: "I query." },
      { type: "server_tool_use", id: `srv${n}`, name: "code_execution", input: { code: "x = await query('a')" } },
      {
        type: "tool_use",
        id: `tu${n}`,
        name: "query",
        input: { sql: "a" },
        caller: { type: "code_execution_20250825", tool_id: `srv${n}` }
      }
    ]
  },
  { role: "user", content: [{ type: "tool_result", tool_use_id: `tu${n}`, content: `rows ${n} `.repeat(300) }] },
  {
    role: "assistant",
    content: [
      {
        type: "code_execution_tool_result",
        tool_use_id: `srv${n}`,
        content: { type: "code_execution_result", stdout: `total ${n}`, stderr: "", return_code: 0, content: [] }
      },
      { type: "text", text: `It is ${n}.` }
    ]
  }
]
const input = { system: "s", messages: [1, 2, 3].flatMap(turn) }
export default Effect.gen(function* () {
  const chat = yield* AnthropicMessages.toConversation(input)
  const written = AnthropicMessages.fromConversation(chat)
  same("round trip", written._tag === "Success" ? written.success : String(written.failure), {
    system: input.system,
    messages: input.messages
  })
  const stored = yield* Conversation.codec.decode(yield* Conversation.codec.encode(chat))
  const again = AnthropicMessages.fromConversation(stored)
  same("round trip over our JSON", again._tag === "Success" ? again.success : String(again.failure), {
    system: input.system,
    messages: input.messages
  })
  let n = 0
  for (const maxTokens of [2500, 1200, 800, 500, 300]) {
    const t = yield* Effect.exit(Conversation.truncate(stored, { maxTokens }))
    if (t._tag !== "Success") continue
    n += t.value.report.removed.length
    const r = AnthropicMessages.fromConversation(t.value.conversation)
    if (r._tag !== "Success") {
      holds(`limit ${maxTokens}`, false, String(r.failure))
      continue
    }
    const blocks = r.success.messages.flatMap((m) => (Array.isArray(m.content) ? m.content : []))
    const servers = new Set(blocks.filter((b) => b.type === "server_tool_use").map((b) => b.id))
    for (const b of blocks) {
      if (b.type === "tool_use")
        holds(`limit ${maxTokens}: caller of ${b.id}`, b.caller !== undefined && servers.has(b.caller.tool_id), b)
      if (b.type === "code_execution_tool_result")
        holds(`limit ${maxTokens}: call of ${b.tool_use_id}`, servers.has(b.tool_use_id), b.tool_use_id)
    }
  }
  holds("something was removed", n > 0, n)
})
