import { anthropicRules } from "../conversation/anthropic-rules.ts"
import { isObject } from "../conversation/foreign-json.ts"
import { openaiRules } from "../conversation/openai-rules.ts"
import { Agent, AgentEvent, Conversation, Message } from "effect-emissary"
import { AnthropicMessages, OpenAiMessages } from "effect-emissary/interop"
import type { ScriptedModel } from "effect-emissary/testing"
import { assert, describe } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { type Prompt, type Response, Tool } from "effect/ai"
import { Echo, inWorld } from "./fixtures.ts"
import { test } from "../test.ts"

const Search = Tool.providerDefined({
  id: "anthropic.web_search",
  customName: "web_search",
  providerName: "web_search",
  parameters: Schema.Struct({ q: Schema.String }),
  success: Schema.Json
})(undefined)

const agent = Agent.make("tester", { toolkit: [Echo, Search], retry: { times: 0 } })

/** Parts of answers, also parts that no provider takes back. */
const Part = Schema.Literals([
  "text",
  "blank",
  "no text",
  "signed text",
  "reasoning",
  "signed reasoning",
  "source",
  "call",
  "bad text",
  "no object",
  "no JSON",
  "search",
  "search without a result"
])

const Turn = Schema.Struct({
  parts: Schema.Array(Part).check(Schema.isMaxLength(4)),
  finish: Schema.Literals(["stop", "length", "content-filter", "pause", "tool-calls", "missing"])
})

const Plan = Schema.Struct({
  system: Schema.Literals(["", " ", "Be brief."]),
  turns: Schema.NonEmptyArray(Turn).check(Schema.isMaxLength(5)),
  streaming: Schema.Boolean
})

const metadata = (anthropic: Record<string, string>) => ({ metadata: { anthropic } })

const partsOf = (kind: typeof Part.Type, id: string): ReadonlyArray<Response.PartEncoded> => {
  const call = (params: unknown): Response.PartEncoded => ({ type: "tool-call", id, name: "echo", params })
  const search: Response.PartEncoded = {
    type: "tool-call",
    id,
    name: "web_search",
    params: { q: "x" },
    providerExecuted: true,
    ...metadata({ block: "server_tool_use" })
  }
  switch (kind) {
    case "text":
      return [{ type: "text", text: "Well." }]
    case "blank":
      return [{ type: "text", text: " \n" }]
    case "no text":
      return [{ type: "text", text: "" }]
    case "signed text":
      return [{ type: "text", text: "", metadata: { google: { thoughtSignature: "s" } } }]
    case "reasoning":
      return [{ type: "reasoning", text: "hm" }]
    case "signed reasoning":
      return [
        { type: "reasoning", text: "hm", metadata: { anthropic: { info: { type: "thinking", signature: "s" } } } }
      ]
    case "source":
      return [{ type: "source", sourceType: "url", id, url: "https://example.org/", title: "A page" }]
    case "call":
      return [call({ text: "x" })]
    case "bad text":
      return [call("{bad")]
    case "no object":
      return [call([1])]
    case "no JSON":
      return [call({ text: Infinity })]
    case "search":
      return [
        search,
        {
          type: "tool-result",
          id,
          name: "web_search",
          result: [],
          isFailure: false,
          providerExecuted: true,
          ...metadata({ block: "web_search_tool_result" })
        }
      ]
    case "search without a result":
      return [search]
  }
}

/** The rules of every provider for a prompt. */
const checkPrompt = (messages: ReadonlyArray<Prompt.Message>): void => {
  for (const [index, message] of messages.entries()) {
    const { content, role } = message
    assert.isNotEmpty(typeof content === "string" ? content.trim() : content, `${index}: ${role}`)
    if (typeof content === "string") continue
    const isOver = messages.slice(index).some(({ role }) => role === "user")
    const results = messages.slice(index).flatMap(({ content }) => (typeof content === "string" ? [] : [...content]))
    for (const part of content) {
      assert.notInclude(part.type, "approval")
      if (part.type === "text") assert.isTrue(part.text.trim() !== "" || Object.keys(part.options).length > 0)
      if (part.type !== "tool-call" || (part.providerExecuted && !isOver)) continue
      assert.isTrue(
        results.some(({ type, ...result }) => type === "tool-result" && "id" in result && result.id === part.id)
      )
      assert.isTrue(isObject(part.params))
    }
    if (role !== "assistant") continue
    assert.notStrictEqual(content.at(-1)?.type, "reasoning")
    assert.isTrue(
      content.some((part) => part.type !== "reasoning" && (part.type !== "text" || part.text.trim() !== ""))
    )
  }
}

const usesSearch = (conversation: Conversation.Conversation): boolean =>
  Conversation.messages(conversation).some(
    (message) =>
      message.role === "assistant" &&
      Message.toolCalls(message, { providerExecuted: true }).some(({ name }) => name === "web_search")
  )

const checkFormats = (conversation: Conversation.Conversation): void => {
  checkPrompt(Conversation.toPrompt(conversation).content)
  const anthropic = AnthropicMessages.fromConversation(conversation)
  assert.deepStrictEqual(anthropicRules(Result.getOrThrow(anthropic)), [])
  const openai = OpenAiMessages.fromConversation(conversation)
  if (Result.isSuccess(openai)) return assert.deepStrictEqual(openaiRules(openai.success), [])
  // Chat Completions has no form for tools that a provider ran
  assert.strictEqual(openai.failure.reason._tag, "UnsupportedContent")
  assert.isTrue(usesSearch(conversation))
}

describe("SOUND-5 what a run leaves can be sent", () => {
  test.prop(
    "SOUND-5 whatever the model answers, the conversation goes into a prompt and into both formats, and no message of it is empty",
    { plan: Plan },
    function* ({ plan }) {
      const { streaming, system, turns } = plan
      const script: ScriptedModel.TurnFunction = (request: ScriptedModel.Request): ScriptedModel.Turn => {
        checkPrompt(request.prompt.content)
        const turn = turns[request.index]
        return turn === undefined
          ? { text: "Done." }
          : {
              parts: turn.parts.flatMap((kind, i) => partsOf(kind, `c${request.index}_${i}`)),
              finishReason: turn.finish
            }
      }
      let conversation = yield* Conversation.make({ system })
      const runs = Effect.gen(function* () {
        for (const input of ["Go", "Go on", "And?"]) {
          const options = { conversation, maxSteps: 2 }
          const run = streaming ? AgentEvent.result(agent.stream(input, options)) : agent.run(input, options)
          // An answer without any part fails, and leaves a conversation, too
          const state = yield* Effect.catch(
            Effect.map(run, ({ state }) => state),
            ({ message, state }) => (state === undefined ? Effect.die(message) : Effect.succeed(state))
          )
          conversation = yield* Conversation.seal(state.conversation)
          checkFormats(conversation)
        }
      })
      yield* inWorld(script)(runs)
    },
    { arbitrary: { runs: 100 } }
  )
})
