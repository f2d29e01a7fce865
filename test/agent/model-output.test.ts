import { assert, describe } from "@effect/vitest"
import { Effect, Equal, type Layer, Option, Schema } from "effect"
import { AiError, type Response, Tool } from "effect/ai"
import { Agent, AgentError, AgentEvent, Conversation, Message } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { call, Echo, Probe, throughJson, toolkit, toolResults, testGiven, world } from "./fixtures.ts"
import { pluck } from "../pluck.ts"
import { endsAs, failsFor, failsMidway } from "../outcomes.ts"
import { test } from "../test.ts"

const agent = Agent.make("tester", { toolkit })
const roles = (conversation: Conversation.Conversation) => Conversation.messages(conversation).map(({ role }) => role)

const throughStream = (options?: Parameters<typeof agent.stream>[1]) => AgentEvent.result(agent.stream("Go", options))

const both = (
  title: string,
  script: ScriptedModel.Script,
  check: (how: typeof runs) => Generator<Effect.Effect<unknown, unknown, World>, void, never>
) => {
  for (const streaming of [false, true]) {
    testGiven(script)(`${title} (${streaming ? "stream" : "run"})`, () => check(streaming ? throughStream : runs))
  }
}
const runs = (options?: Parameters<typeof agent.run>[1]) => agent.run("Go", options)

type World = Layer.Success<ReturnType<typeof world>>

describe("AGENT-3 what a model may answer", () => {
  const Search = Tool.providerDefined({
    id: "test.search",
    customName: "search",
    providerName: "search",
    parameters: Schema.Struct({ q: Schema.String }),
    success: Schema.Json
  })(undefined)

  for (const streaming of [false, true]) {
    testGiven(({ messages }) =>
      messages.some(({ role }) => role === "tool")
        ? { text: "found" }
        : {
            toolCalls: [
              { id: "p1", name: "search", params: { q: "x" }, providerExecuted: true, result: { hits: 1 } },
              call("c1", "echo", { text: "x" })
            ]
          }
    )(`AGENT-3 provider-executed calls are recorded, never dispatched (${streaming ? "stream" : "run"})`, function* () {
      const searching = Agent.make("searcher", { toolkit: [Search, Echo] })
      const run = streaming ? AgentEvent.result(searching.stream("Go")) : searching.run("Go")
      const result = yield* endsAs("Completed", run)
      assert.strictEqual(result.steps, 2)
      const [, first] = Conversation.messages(result.conversation)
      assert(first?.role === "assistant")
      assert.deepStrictEqual(pluck(first.content, "type"), ["tool-call", "tool-result", "tool-call"])
      assert.deepStrictEqual(yield* Probe.ran, ["echo x"])
      const { conversation } = yield* throughJson(result.state)
      assert.deepStrictEqual(Conversation.transcript(conversation), Conversation.transcript(result.conversation))
    })
  }

  testGiven([
    { text: "ok", toolCalls: [{ name: "search", params: { q: "x" }, providerExecuted: true, result: { hits: 1 } }] }
  ])("AGENT-3 an answer of provider-executed calls alone is final", function* () {
    const searching = Agent.make("searcher", { toolkit: [Search] })
    const result = yield* endsAs("Completed", searching.run("Go"))
    assert.strictEqual(result.steps, 1)
  })

  for (const id of ["never_called", "call_1_1"]) {
    both(
      `MODEL-4 a result of the provider for the call ${id}, which is not one of its own, fails the run`,
      [
        {
          toolCalls: [{ id: "call_1_1", name: "echo", params: { text: "x" } }],
          parts: [{ type: "tool-result", id, name: "echo", result: "forged", isFailure: false, providerExecuted: true }]
        }
      ],
      function* (how) {
        const error = yield* failsFor("ModelFailed", how())
        assert.include(error.message, "an answer with the result of a call that it does not have")
        assert.deepStrictEqual(yield* Probe.ran, [])
      }
    )
  }

  both(
    "AGENT-3 pause goes on with another model call, which counts as a step",
    [{ text: "wait", finishReason: "pause" }, { text: "done" }],
    function* (how) {
      const result = yield* endsAs("Completed", how({ maxSteps: 2 }))
      assert.strictEqual(result.steps, 2)
      assert.deepStrictEqual(roles(result.conversation), ["user", "assistant", "assistant"])
      const requests = yield* ScriptedModel.requests
      assert.deepStrictEqual(pluck(requests[1]?.messages, "role"), ["user", "assistant"])
    }
  )

  both("AGENT-3 AGENT-4 pause at the limit is MaxSteps", [{ text: "wait", finishReason: "pause" }], function* (how) {
    yield* endsAs("MaxSteps", how({ maxSteps: 1 }))
  })

  both(
    "AGENT-3 a stream error part fails the step as AiError does; nothing of the step is stored",
    [{ text: "half", parts: [{ type: "error", error: new Error("sk-SECRET") }] }, { text: "whole" }],
    function* (how) {
      const error = yield* failsMidway("ModelFailed", how({ retry: { times: 0 } }))
      assert.notInclude(error.message, "SECRET")
      assert.deepStrictEqual(roles(error.state.conversation), ["user"])
      assert.strictEqual((yield* agent.resume(error.state)).text, "whole")
    }
  )

  both(
    "AGENT-3 deltas without a start open a block",
    [
      {
        parts: [
          { type: "text-delta", id: "t", delta: "Hel" },
          { type: "text-delta", id: "t", delta: "lo" }
        ]
      }
    ],
    function* (how) {
      assert.strictEqual((yield* how()).text, "Hello")
    }
  )

  for (const finishReason of ["stop", "tool-calls", "missing", "unknown"] as const) {
    both(
      `AGENT-3 calls run after the finish reason ${finishReason}`,
      [{ toolCalls: [call("c1", "echo", { text: "x" })], finishReason }, { text: "done" }],
      function* (how) {
        yield* endsAs("Completed", how())
        assert.deepStrictEqual(yield* Probe.ran, ["echo x"])
      }
    )
  }

  for (const finishReason of ["length", "content-filter", "error", "other"] as const) {
    both(
      `AGENT-3 after ${finishReason} calls are sealed interrupted: the outcome is Stopped`,
      [
        {
          text: "so far",
          toolCalls: [call("c1", "echo", { text: "x" }), call("c2", "delete", { path: "/" })],
          finishReason
        }
      ],
      function* (how) {
        const result = yield* endsAs("Stopped", how())
        assert.strictEqual(result.finishReason, finishReason)
        assert.strictEqual(result.text, "so far")
        assert.deepStrictEqual(yield* Probe.ran, [])
        assert.deepStrictEqual(toolResults(result.conversation), ["interrupted", "interrupted"])
      }
    )
  }

  const cutOff = world([{ toolCalls: [call("c1", "echo", { text: "x" })], finishReason: "length" }, { text: "done" }])
  test("AGENT-3 a conversation that ends in a cut off answer does not run its calls either", cutOff, function* () {
    const stopped = yield* agent.run("Go", {
      interruptWhen: (event) => (event._tag === "ModelAnswered" ? {} : undefined)
    })
    yield* endsAs("Completed", agent.run("And now?", { conversation: stopped.conversation }))
    assert.deepStrictEqual(yield* Probe.ran, [])
  })

  both(
    "AGENT-3 metadata of every part is kept through state, wire and prompt",
    [
      {
        reasoning: { text: "hm", metadata: { anthropic: { signature: "sig" } } },
        text: { text: "ok", metadata: { openai: { itemId: "t1" } } },
        toolCalls: [{ ...call("c1", "echo", { text: "x" }), metadata: { openai: { itemId: "f1" } } }]
      },
      { text: "done" }
    ],
    function* (how) {
      const stopped = yield* how({ interruptWhen: (event) => (event._tag === "ModelAnswered" ? {} : undefined) })
      yield* agent.resume(yield* throughJson(stopped.state))
      const [, second] = yield* ScriptedModel.requests
      const assistant = second?.prompt.content.find(({ role }) => role === "assistant")
      assert(assistant?.role === "assistant")
      assert.deepStrictEqual(
        assistant.content.map(({ options, type }) => [type, options]),
        [
          ["reasoning", { anthropic: { signature: "sig" } }],
          ["text", { openai: { itemId: "t1" } }],
          ["tool-call", { openai: { itemId: "f1" } }]
        ]
      )
    }
  )

  both(
    "AGENT-3 a repeated call id is relabelled before it enters the state, within an answer and across",
    [
      { toolCalls: [call("same", "echo", { text: "a" }), call("same", "echo", { text: "b" })] },
      { toolCalls: [call("same", "echo", { text: "c" })] },
      { toolCalls: [call("", "echo", { text: "d" })] },
      { text: "done" }
    ],
    function* (how) {
      const result = yield* endsAs("Completed", how())
      assert.deepStrictEqual(yield* Probe.ran, ["echo a", "echo b", "echo c", "echo d"])
      const ids = Conversation.messages(result.conversation).flatMap((message) =>
        message.role === "assistant" ? Message.toolCalls(message).map(({ id }) => id) : []
      )
      assert.strictEqual(new Set(ids).size, 4)
      assert.isFalse(ids.includes(""))
    }
  )

  const nothing: ReadonlyArray<readonly [string, ScriptedModel.Turn]> = [
    ["no part", {}],
    ["blank text", { text: " \n" }],
    ["thoughts only", { reasoning: "hm" }],
    ["the reason tool-calls without a call", { finishReason: "tool-calls" }],
    ["an unknown reason", { finishReason: "unknown" }]
  ]
  for (const [title, turn] of nothing) {
    both(
      `RIGHT-6 an answer without anything (${title}) is asked for once more, which counts as a step`,
      [turn, { text: "done" }],
      function* (how) {
        const result = yield* endsAs("Completed", how())
        assert.deepInclude(result, { output: "done", steps: 2 })
        assert.deepStrictEqual(roles(result.conversation), ["user", "assistant", "assistant"])
        const [, second] = yield* ScriptedModel.requests
        assert.deepStrictEqual(second?.messages, [
          { role: "user", text: "Go" },
          { role: "user", text: "Your last answer had no text and no call of a tool. Answer again." }
        ])
      }
    )

    both(`RIGHT-6 two of them (${title}) end the run Stopped, reason empty`, [turn, turn], function* (how) {
      const result = yield* endsAs("Stopped", how())
      assert.deepInclude(result, { finishReason: "empty", steps: 2 })
      const again = yield* endsAs("Stopped", agent.resume(yield* throughJson(result.state)))
      assert.strictEqual(again.finishReason, "empty")
    })
  }

  both(
    "RIGHT-6 an empty answer after the results of tools is asked for again, each time once",
    [
      { toolCalls: [call("c1", "echo", { text: "x" })] },
      {},
      { toolCalls: [call("c2", "echo", { text: "y" })] },
      {},
      { text: "done" }
    ],
    function* (how) {
      const result = yield* endsAs("Completed", how())
      assert.deepInclude(result, { output: "done", steps: 5 })
      assert.deepStrictEqual(yield* Probe.ran, ["echo x", "echo y"])
    }
  )

  both("RIGHT-6 an empty answer that used up the budget is Stopped", [{}, { text: "done" }], function* (how) {
    const result = yield* endsAs("Stopped", how({ maxSteps: 1 }))
    assert.strictEqual(result.finishReason, "empty")
    const { output } = yield* endsAs("Completed", agent.resume(yield* throughJson(result.state), { maxSteps: 2 }))
    assert.strictEqual(output, "done")
  })

  both(
    "RIGHT-6 emptyAnswers is the number of empty answers in a row that are asked for again",
    [{}, {}, {}, {}],
    function* (how) {
      const result = yield* endsAs("Stopped", how({ emptyAnswers: 2 }))
      assert.deepInclude(result, { finishReason: "empty", steps: 3 })
      const { state } = yield* endsAs("Stopped", how({ emptyAnswers: 0 }))
      assert.strictEqual(state.steps, 1)
      assert.strictEqual((yield* endsAs("Stopped", agent.resume(yield* throughJson(state)))).steps, 1)
      const outer = Agent.make("outer", { toolkit: [Agent.asTool(agent, { name: "inner", description: "Helps" })] })
      const script = [{ toolCalls: [call("c", "inner", { input: "Go" })] }, {}, { text: "done" }]
      const { conversation } = yield* Effect.provide(outer.run("Go", { emptyAnswers: 0 }), ScriptedModel.layer(script))
      assert.deepStrictEqual(toolResults(conversation), ["execution_error"])
    }
  )

  both(
    "RIGHT-6 emptyAnswers without an end runs until its limit of steps, and its state is stored",
    [{}, {}, {}],
    function* (how) {
      const { state } = yield* endsAs("Stopped", how({ emptyAnswers: Infinity, maxSteps: 3 }))
      assert.strictEqual((yield* throughJson(state)).steps, 3)
    }
  )

  both("RIGHT-6 a reason to stop goes before", [{ finishReason: "content-filter" }], function* (how) {
    assert.strictEqual((yield* endsAs("Stopped", how())).finishReason, "content-filter")
  })

  testGiven([{ text: "done" }])("RIGHT-6 a conversation that ends with an empty answer continues", function* () {
    const asked = yield* Conversation.addUser(Conversation.empty, "Hello?")
    const ended = yield* Conversation.addAssistant(asked, [])
    const conversation = yield* Conversation.codec.decode(yield* Conversation.codec.encode(ended))
    const result = yield* endsAs("Completed", agent.run("Go", { conversation }))
    assert.deepInclude(result, { output: "done", steps: 1 })
  })

  const structured = Agent.make("structured", { output: Schema.Struct({ n: Schema.Int }) })
  testGiven([{}, { text: '{"n":1}' }])("RIGHT-6 so is an empty answer of an agent with an output schema", function* () {
    assert.deepStrictEqual((yield* endsAs("Completed", structured.run("Go"))).output, { n: 1 })
  })
  testGiven(() => ({}))("RIGHT-6 and its end is Stopped, too", function* () {
    assert.strictEqual((yield* endsAs("Stopped", structured.run("Go"))).finishReason, "empty")
  })

  both(
    "TOOL-4 arguments that arrive as text are parsed here; malformed ones are a validation_error, empty ones {}",
    [
      {
        toolCalls: [
          { id: "c1", name: "echo", arguments: `{"text": "x"}` },
          { id: "c2", name: "echo", arguments: `{"text": ` },
          { id: "c3", name: "boom", arguments: "" }
        ]
      },
      { text: "done" }
    ],
    function* (how) {
      const result = yield* endsAs("Completed", how())
      assert.deepStrictEqual(toolResults(result.conversation), ["x", "validation_error", "unhandled_error"])
    }
  )
})

describe("SOUND-5 nothing from the model is lost", () => {
  const usage = { inputTokens: 1000, outputTokens: 5 }
  const finish = (usage: Message.TokenUsage, metadata?: Response.ProviderMetadata): Response.FinishPartEncoded => ({
    type: "finish",
    reason: "stop",
    ...(metadata && { metadata }),
    response: undefined,
    usage: {
      inputTokens: { uncached: undefined, total: usage.inputTokens, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: usage.outputTokens, text: undefined, reasoning: undefined }
    }
  })

  both(
    "SOUND-5 sources, the id and time of a response, its metadata and that of its finish are kept, stored, and sent back",
    [
      {
        finishReason: "missing",
        parts: [
          {
            type: "response-metadata",
            id: "resp_123",
            modelId: "m",
            timestamp: "2026-01-01T00:00:00.000Z",
            metadata: { openai: { serviceTier: "flex" } }
          },
          { type: "text", text: "The paper describes it." },
          { type: "source", sourceType: "url", id: "s1", url: "https://example.org/paper", title: "A paper" },
          finish({ inputTokens: 1 }, { google: { grounding: true, access_token: 1 } })
        ]
      },
      { text: "done" }
    ],
    function* (how) {
      const { conversation, state } = yield* how()
      const stored = yield* throughJson(state)
      assert.isTrue(Equal.equals(stored.conversation, conversation))
      const json = JSON.stringify(yield* Conversation.codec.encode(stored.conversation))
      const metadata = { openai: { serviceTier: "flex" }, google: { grounding: true, access_token: 1 } }
      for (const kept of [
        "https://example.org/paper",
        "resp_123",
        "2026-01-01T00:00:00.000Z",
        JSON.stringify(metadata)
      ]) {
        assert.include(json, kept)
      }
      yield* agent.run("Go on", { conversation: stored.conversation })
      const [, second] = yield* ScriptedModel.requests
      assert.deepStrictEqual(second?.prompt.content[1]?.options, metadata)
      assert.deepStrictEqual(second?.messages[1], { role: "assistant", text: "The paper describes it." })
    }
  )

  both(
    "SOUND-5 one argument that is not JSON is a validation_error of its own call",
    [
      {
        finishReason: "missing",
        parts: [
          { type: "tool-call", id: "c1", name: "echo", params: { text: "x" } },
          { type: "tool-call", id: "c2", name: "echo", params: { text: Infinity } },
          { type: "tool-call", id: "c3", name: "echo", params: `{"text":1e400}` },
          finish(usage)
        ]
      },
      { text: "done", usage }
    ],
    function* (how) {
      const { conversation, state, usage } = yield* endsAs("Completed", how())
      assert.deepStrictEqual(toolResults(conversation), ["x", "validation_error", "validation_error"])
      assert.deepStrictEqual(usage, { inputTokens: 2000, outputTokens: 10 })
      assert.isTrue(Equal.equals((yield* throughJson(state)).conversation, conversation))
    }
  )

  for (const reason of ["InvalidOutputError", "InternalProviderError"] as const) {
    testGiven([
      { parts: [{ type: "text", text: "lost" }, finish(usage)], fail: { reason } },
      { text: "done", usage }
    ])(`SOUND-5 the usage of an answer that broke off counts (${reason})`, function* () {
      const { conversation, state } = yield* endsAs("Completed", throughStream({ retry: { times: 1, delay: 0 } }))
      assert.deepStrictEqual(roles(conversation), ["user", "assistant"])
      assert.deepStrictEqual((yield* throughJson(state)).usage, { inputTokens: 2000, outputTokens: 10 })
    })
  }

  testGiven([
    { fail: new AiError.InvalidOutputError({ description: "bad", usage: { promptTokens: 7, completionTokens: 1 } }) },
    { fail: { reason: "AuthenticationError" }, parts: [finish(usage)] }
  ])("SOUND-5 and of one that the adapter refused, also when the run fails afterwards", function* () {
    const { state } = yield* failsMidway("ModelFailed", throughStream())
    assert.deepStrictEqual(state.usage, { inputTokens: 1007, outputTokens: 6 })
  })

  both(
    "SOUND-5 an answer without any part is a typed failure, and can be tried again",
    [
      { finishReason: "missing" },
      { finishReason: "missing", text: "", parts: [{ type: "response-metadata", id: "r" }] },
      { text: "done" }
    ],
    function* (how) {
      const { message, reason, state } = yield* failsMidway("ModelFailed", how({ retry: { times: 0 } }))
      assert.deepInclude(reason, { error: "InternalProviderError", retryable: true })
      assert.include(message, "an answer that ended before its first part")
      assert.deepStrictEqual(roles(state.conversation), ["user"])
      const retried = yield* endsAs("Completed", agent.resume(state, { retry: { times: 1, delay: 0 } }))
      assert.strictEqual(retried.text, "done")
    }
  )

  testGiven([{ reasoning: "hm", finishReason: "length" }, { text: "done" }, { text: "and done" }])(
    "SOUND-5 a run whose tokens ended while the model was thinking continues, by resume and by another run",
    function* () {
      const { conversation, state } = yield* endsAs("Stopped", agent.run("Go"))
      assert.deepStrictEqual(roles(conversation), ["user", "assistant"])
      yield* endsAs("Completed", agent.resume(yield* throughJson(state), { input: "Go on" }))
      yield* endsAs("Completed", agent.run("Go on", { conversation }))
      const [, ...sent] = yield* ScriptedModel.requests
      for (const { messages } of sent) {
        assert.deepStrictEqual(messages, [
          { role: "user", text: "Go" },
          { role: "user", text: "Go on" }
        ])
      }
    }
  )

  const Mcp = Tool.providerDefined({
    id: "openai.mcp",
    customName: "Mcp",
    providerName: "mcp",
    parameters: Schema.Struct({ x: Schema.Finite }),
    success: Schema.String
  })(undefined)

  for (const streaming of [false, true]) {
    testGiven([
      {
        toolCalls: [{ id: "m1", name: "Mcp", params: { x: 1 }, providerExecuted: true }],
        parts: [{ type: "tool-approval-request", approvalId: "ap1", toolCallId: "m1" }],
        usage
      }
    ])(
      `SOUND-5 a provider's request for approval fails the run and is named (${streaming ? "stream" : "run"})`,
      function* () {
        const hosted = Agent.make("hosted", { toolkit: [Mcp] })
        const run = streaming ? AgentEvent.result(hosted.stream("Go")) : hosted.run("Go")
        const { message, reason, state } = yield* failsMidway("ApprovalByProvider", run)
        assert.deepInclude(reason, { approvalId: "ap1", callId: "m1", tool: "Mcp" })
        assert.include(message, `tool "Mcp" without an approval, got the request "ap1"`)
        assert.deepStrictEqual(roles(state.conversation), ["user"])
        assert.deepStrictEqual(state.usage, usage)
      }
    )
  }
})

describe("TOOL-4 mistakes that a provider's adapter raises", () => {
  const mistakes = ["ToolParameterValidationError", "ToolNotFoundError", "InvalidOutputError"] as const

  for (const reason of mistakes) {
    both(
      `TOOL-4 ${reason}: the model is asked again and told what was wrong`,
      [{ fail: { reason, toolName: "ecko", description: "ecko is not there" } }, { text: "sorry" }],
      function* (how) {
        const result = yield* endsAs("Completed", how({ retry: { times: 9, delay: 0 } }))
        assert.strictEqual(result.steps, 1)
        const requests = yield* ScriptedModel.requests
        assert.lengthOf(requests, 2)
        const told = requests[1]?.messages.at(-1)
        assert.strictEqual(told?.role, "user")
        assert.include(told?.text, "ecko")
        assert.deepStrictEqual(roles(result.conversation), ["user", "assistant"])
      }
    )

    both(
      `TOOL-4 ${reason}: at most twice per step, then ModelMistakes`,
      () => ({ fail: { reason, toolName: "ecko", description: "TEXT OF THE MODEL" } }),
      function* (how) {
        const error = yield* failsFor("ModelMistakes", how({ retry: { times: 9, delay: 0 } }))
        assert.strictEqual(error.reason.limit, 2)
        // RIGHT-18: the error names the last mistake, without text of the model
        assert.strictEqual(error.reason.last?.error, reason)
        const where = reason === "InvalidOutputError" ? "" : ' in a call of "ecko"'
        assert.include(error.message, `got mistake number 3: ${reason}${where}. Read AgentError.causeOf(error.reason)`)
        assert.notInclude(error.message, "TEXT OF THE MODEL")
        const cause = Option.getOrThrow(AgentError.causeOf(error.reason))
        assert.strictEqual(AiError.isAiError(cause) && cause.reason._tag, reason)
        assert.lengthOf(yield* ScriptedModel.requests, 3)
        yield* failsFor("ModelMistakes", how({ modelMistakes: 0 }))
        assert.lengthOf(yield* ScriptedModel.requests, 4)
      }
    )
  }

  both(
    "TOOL-4 the count begins anew with every step",
    [
      { fail: { reason: "ToolNotFoundError" } },
      { fail: { reason: "ToolNotFoundError" } },
      { toolCalls: [call("c1", "echo", { text: "x" })] },
      { fail: { reason: "ToolNotFoundError" } },
      { fail: { reason: "ToolNotFoundError" } },
      { text: "done" }
    ],
    function* (how) {
      yield* endsAs("Completed", how())
    }
  )

  testGiven([
    { fail: { reason: "ToolNotFoundError" } },
    { fail: { reason: "ToolNotFoundError" } },
    { fail: { reason: "ToolNotFoundError" } },
    { text: "done" }
  ])("TOOL-4 after ModelMistakes the run can be resumed from the state of the error", function* () {
    const { state } = yield* failsMidway("ModelMistakes", agent.run("Go"))
    yield* endsAs("Completed", agent.resume(yield* throughJson(state)))
  })

  const mistaken = world([{ fail: { reason: "InvalidOutputError", description: "bad" } }, { object: { n: 1 } }])
  test("TOOL-4 a mistake in the structured step is reported there as well", mistaken, function* () {
    const structured = Agent.make("s", { output: Schema.Struct({ n: Schema.Int }) })
    assert.deepStrictEqual(yield* structured.ask("Go"), { n: 1 })
    const [, second] = yield* ScriptedModel.requests
    assert.include(second?.messages.at(-1)?.text, "bad")
  })
})
