/**
 * RIGHT-11 (L11): a conversation continues at another provider, whatever ids its calls have, and after a call without a name. Reports:
 * openclaw/openclaw#875, decolua/9router#393, Portkey-AI/gateway#1062.
 */
import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAI } from "@ai-sdk/openai"
import { assert, describe } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, AgentEvent, Conversation, Message, ToolResult } from "effect-emissary"
import { AiSdk } from "effect-emissary/ai-sdk"
import { test } from "../test.ts"
import { handmade } from "./handmade.ts"

const ids = ["functions.get order:0", `call_${"x".repeat(80)}`, "идент", "toolu_01", "c1"]

/** Each id with the result of its call. */
const conversationOf = Effect.fnUntraced(function* (names: ReadonlyArray<readonly [id: string, name: string]>) {
  let self = yield* Conversation.addUser(Conversation.empty, "look")
  const calls = names.map(([id, name]) => Message.toolCallPart({ id, name, arguments: {} }))
  self = yield* Conversation.addAssistant(self, calls)
  for (const [callId] of names)
    self = yield* Conversation.addToolResult(self, { callId, result: ToolResult.success(callId) })
  return self
})

/** All members of a name, in their order. */
const membersIn = (value: unknown, ...names: ReadonlyArray<string>): ReadonlyArray<unknown> => {
  if (Array.isArray(value)) return value.flatMap((item) => membersIn(item, ...names))
  if (typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([key, member]) =>
    names.includes(key) ? [member] : membersIn(member, ...names)
  )
}

/** The body of the request that continues the conversation. */
const sent = Effect.fnUntraced(function* (
  modelOf: (settings: { readonly apiKey: string; readonly fetch: typeof globalThis.fetch }) => AiSdk.SdkModel,
  conversation: Conversation.Conversation
) {
  const bodies: Array<string> = []
  const fetch = (_: unknown, init?: { readonly body?: unknown }) => {
    bodies.push(String(init?.body))
    return Promise.resolve(Response.json({ error: { message: "enough" } }, { status: 400 }))
  }
  yield* Agent.make("a")
    .run("and now?", { conversation })
    .pipe(Effect.result, Effect.provide(AiSdk.model(modelOf({ apiKey: "k", fetch }))))
  const body: unknown = JSON.parse(bodies[0] ?? "null")
  return body
})

const providers: Record<string, readonly [Parameters<typeof sent>[0], form: RegExp, calls: string, results: string]> = {
  anthropic: [(settings) => createAnthropic(settings)("claude-sonnet-4-5"), /^[\w-]{1,64}$/, "id", "tool_use_id"],
  "chat completions": [(settings) => createOpenAI(settings).chat("gpt-5.2"), /^.{1,40}$/, "id", "tool_call_id"],
  responses: [(settings) => createOpenAI(settings)("gpt-5.2"), /^.{1,64}$/, "call_id", "call_id"]
}

describe("RIGHT-11 (L11) calls that a provider refuses", () => {
  for (const [name, [modelOf, form, ofCalls, ofResults]] of Object.entries(providers)) {
    test(`${name}: the ids of calls of other providers have its form, and name the same results`, function* () {
      const body = yield* sent(modelOf, yield* conversationOf(ids.map((id) => [id, "t"])))
      const calls = membersIn(body, ofCalls).slice(0, ids.length)
      const results = membersIn(body, ofResults).slice(-ids.length)
      assert.deepStrictEqual(results, calls)
      assert.lengthOf(new Set(calls), ids.length)
      for (const id of calls) assert.match(String(id), form)
      assert.deepStrictEqual(calls.slice(-2), ids.slice(-2), "an id in the form stays")
    })

    test(`${name}: a call without a name in a history has one`, function* () {
      const body = yield* sent(modelOf, yield* conversationOf([["c1", ""]]))
      assert.notInclude(JSON.stringify(body), '"name":""')
    })
  }

  test("RIGHT-6 a call without a name is no answer, whole and streamed", function* () {
    const toolkit = Toolkit.make(Tool.make("t", { success: Schema.String }))
    const Tools = toolkit.toLayer({ t: () => Effect.succeed("x") })
    const agent = Agent.make("a", { toolkit })
    for (const run of [agent.run("go"), AgentEvent.result(agent.stream("go"))]) {
      const { model } = handmade([
        { content: [{ type: "tool-call", toolCallId: "c1", toolName: "", input: "{}" }] },
        { content: [{ type: "text", text: "done" }] }
      ])
      const { conversation, text } = yield* Effect.provide(run, [AiSdk.model(model), Tools])
      assert.strictEqual(text, "done")
      assert.deepStrictEqual(
        Conversation.transcript(conversation).filter(({ role }) => role === "tool"),
        []
      )
    }
  })
})
