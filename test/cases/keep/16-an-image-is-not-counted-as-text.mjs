// langchain-ai/langchain#40741 (2026-09), open-webui/open-webui#29761 (2026-09), earendil-works/pi PR 1441 (2026-02): base64 of an image is
// counted as text (about 1,000 times too much), or not at all; a first message with a picture is summarized away.
// Right: a picture of 400 KB weighs 100 to 10,000 tokens, as a part of a message, of a tool result and read from three formats; a limit of
// 20,000 tokens changes nothing in a conversation with three of them.
import { Effect } from "effect"
import { Conversation } from "effect-emissary"
import { OpenAiMessages, OpenAiResponses, AnthropicMessages } from "effect-emissary/interop"
import { holds, same } from "../harness/keep.mjs"

const data = "iVBORw0KGgo" + "A".repeat(400_000 - 11)
const url = `data:image/png;base64,${data}`
const size = (what, chat) =>
  Effect.gen(function* () {
    const tokens = yield* Conversation.estimatedSize(chat)
    holds(`${what}: tokens`, tokens >= 100 && tokens <= 10_000, tokens)
  })
export default Effect.gen(function* () {
  yield* size(
    "Chat Completions",
    yield* OpenAiMessages.toConversation([
      {
        role: "user",
        content: [
          { type: "text", text: "look" },
          { type: "image_url", image_url: { url } }
        ]
      }
    ])
  )
  yield* size(
    "Responses",
    yield* OpenAiResponses.toConversation([
      {
        role: "user",
        content: [
          { type: "input_text", text: "look" },
          { type: "input_image", image_url: url, detail: "auto" }
        ]
      }
    ])
  )
  yield* size(
    "Anthropic",
    yield* AnthropicMessages.toConversation({
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "look" },
            { type: "image", source: { type: "base64", media_type: "image/png", data } }
          ]
        }
      ]
    })
  )
  yield* size(
    "Anthropic result",
    yield* AnthropicMessages.toConversation({
      messages: [
        { role: "user", content: "look" },
        { role: "assistant", content: [{ type: "tool_use", id: "t", name: "shot", input: {} }] },
        {
          role: "user",
          content: [
            {
              type: "tool_result",
              tool_use_id: "t",
              content: [{ type: "image", source: { type: "base64", media_type: "image/png", data } }]
            }
          ]
        }
      ]
    })
  )
  yield* size(
    "Responses result",
    yield* OpenAiResponses.toConversation([
      { role: "user", content: "look" },
      { type: "function_call", call_id: "t", name: "shot", arguments: "{}" },
      { type: "function_call_output", call_id: "t", output: [{ type: "input_image", image_url: url }] }
    ])
  )
  const file = { type: "file", mediaType: "image/png", data: { type: "base64", base64: data } }
  let chat = yield* Conversation.make({ system: "s" })
  for (let i = 0; i < 3; i++) {
    chat = yield* Conversation.addUser(chat, [{ type: "text", text: "look" }, file])
    chat = yield* Conversation.addAssistant(chat, "nice")
  }
  const { report } = yield* Conversation.truncate(chat, { maxTokens: 20_000 })
  same("nothing is removed", [report.removed.length, report.shortened.length], [0, 0])
})
