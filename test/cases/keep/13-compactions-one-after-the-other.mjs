// earendil-works/pi#6832 and #4570 (2026-05, 2026-07): two compactions in sequence leave a tool result without its call, and each request fails for ever.
// langchain-ai/langchain#38352 (2026-06): a cut inside parallel calls leaves some results. Right: after any number of compactions and
// truncations, at any point of parallel calls, the request is lawful, and the pairs are whole.
import { Effect } from "effect"
import { Conversation, Message, ToolResult } from "effect-emissary"
import { OpenAiMessages } from "effect-emissary/interop"
import { same } from "../harness/keep.mjs"
import { refusals } from "../harness/rules.mjs"

const check = (what, chat) => {
  const r = OpenAiMessages.fromConversation(chat)
  same(what, r._tag === "Success" ? refusals(r.success) : String(r.failure), [])
}
const turn = (chat, n, parallel) =>
  Effect.gen(function* () {
    chat = yield* Conversation.addUser(chat, `question ${n}`)
    for (let k = 0; k < 3; k++) {
      const ids = Array.from({ length: parallel }, (_, i) => `c${n}_${k}_${i}`)
      chat = yield* Conversation.addAssistant(
        chat,
        ids.map((id) => Message.toolCallPart({ id, name: "read", arguments: { n } }))
      )
      for (const id of ids)
        chat = yield* Conversation.addToolResult(chat, { callId: id, result: ToolResult.success(`${id} `.repeat(200)) })
    }
    return yield* Conversation.addAssistant(chat, `answer ${n}`)
  })
export default Effect.gen(function* () {
  for (const parallel of [1, 3])
    for (const keepRecent of [0, 1, 2]) {
      let chat = yield* Conversation.make({ system: "s" })
      const lengths = []
      for (let n = 0; n < 6; n++) {
        chat = yield* turn(chat, n, parallel)
        chat = (yield* Conversation.compact(chat, {
          keepRecent,
          summarize: (old) =>
            Effect.sync(() => {
              check(`old ${parallel}/${keepRecent}/${n}`, old)
              lengths.push(Conversation.messageCount(old))
              return `summary ${n}`
            })
        })).conversation
        check(`after ${parallel}/${keepRecent}/${n}`, chat)
        const t = yield* Effect.exit(Conversation.truncate(chat, { maxTokens: 700 }))
        if (t._tag === "Success") check(`truncated ${parallel}/${keepRecent}/${n}`, t.value.conversation)
      }
      const summaries = Conversation.messages(chat).filter(
        (m) => m.role === "user" && Message.text(m).startsWith("Summary")
      )
      same(`one summary ${parallel}/${keepRecent}`, summaries.length, 1)
    }
  // a cut inside parallel calls of the current run, which is open
  let open = yield* Conversation.make({ system: "s" })
  open = yield* turn(open, 1, 3)
  open = yield* Conversation.addUser(open, "last")
  open = yield* Conversation.addAssistant(
    open,
    ["a", "b", "c"].map((id) => Message.toolCallPart({ id, name: "read", arguments: {} }))
  )
  open = yield* Conversation.addToolResult(open, { callId: "b", result: ToolResult.success("b".repeat(9000)) })
  const compacted = (yield* Conversation.compact(open, { keepRecent: 0, summarize: () => Effect.succeed("s") }))
    .conversation
  same(
    "open calls stay",
    Conversation.openCalls(compacted).map((c) => c.id),
    ["a", "c"]
  )
  const short = (yield* Conversation.truncate(open, { maxTokens: 1500 }).pipe(Effect.flip)).needed
  same("open calls and their results are not cut", short > 1500, true)
})
