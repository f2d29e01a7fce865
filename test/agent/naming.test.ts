import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Ref, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, AgentDefinition, Conversation, Message, Run, ToolResult } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { call } from "./fixtures.ts"
import { pluck } from "../pluck.ts"
import { endsAs, failsFor } from "../outcomes.ts"
import { test, testWith } from "../test.ts"
import { decide } from "../decisions.ts"

const Refund = Tool.make("billing/refund", {
  description: "Pays back",
  parameters: Schema.Struct({ id: Schema.String }),
  success: Schema.String
})
const Ship = Tool.make("shipping.send", { success: Schema.String, needsApproval: true })
const toolkit = Toolkit.make(Refund, Ship)
const agent = Agent.make("shop", { toolkit })
const handlers = toolkit.toLayer({
  "billing/refund": ({ id }) => Effect.succeed(`paid ${id}`),
  "shipping.send": () => Effect.succeed("sent")
})
const world = (...args: Parameters<typeof ScriptedModel.layer>) => Layer.merge(handlers, ScriptedModel.layer(...args))

const names = (conversation: Conversation.Conversation) =>
  Conversation.messages(conversation).flatMap((message) => {
    if (message.role === "assistant") return Message.toolCalls(message).map(({ name }) => name)
    return message.role === "tool" ? [message.name] : []
  })

describe("TOOL-8 names", () => {
  testWith(
    world([
      { toolCalls: [call("c1", "billing__refund", { id: "7" }), call("c2", "billing_nobody", {})] },
      { text: "done" }
    ])
  )("TOOL-8 state, events and wire hold canonical names, only requests hold the provider's", function* () {
    const events = yield* Ref.make<ReadonlyArray<Run.Event>>([])
    const streamed = yield* Stream.runCollect(
      agent.stream("Go", { onEvent: ({ event }) => Ref.update(events, (all) => [...all, event]) })
    )
    const last = streamed.at(-1)
    assert(last?._tag === "RunFinished" && last.result.outcome === "Completed")
    const { state } = last.result
    assert.deepStrictEqual(names(state.conversation), [
      "billing/refund",
      "billing_nobody",
      "billing/refund",
      "billing_nobody"
    ])
    for (const event of streamed) {
      if (event._tag === "ToolStarted") assert.strictEqual(event.name, "billing/refund")
    }
    const wire = yield* Run.stateCodec.encodeJson(state)
    assert.notInclude(wire, "billing__refund")
    assert.notInclude(yield* Run.eventsCodec.encodeJson(yield* Ref.get(events)), "billing__refund")
    const [first, second] = yield* ScriptedModel.requests
    assert.isTrue(first?.tools.some(({ name }) => name === "billing__refund"))
    assert.isTrue(first?.tools.every(({ name }) => /^[a-zA-Z0-9_-]{1,64}$/u.test(name)))
    const sent = JSON.stringify(second?.messages)
    assert.include(sent, "billing__refund")
    assert.notInclude(sent, '"billing/refund"')
  })

  const paid: ScriptedModel.Turn = {
    text: "done",
    toolCalls: [{ name: "billing__refund", params: { id: "7" }, providerExecuted: true, result: "paid 7" }]
  }
  test("TOOL-8 a call that the provider executed and its result have the canonical name", world([paid]), function* () {
    const { conversation } = yield* endsAs("Completed", agent.run("Go"))
    const answer = Conversation.messages(conversation).at(-1)
    assert(answer?.role === "assistant")
    assert.deepStrictEqual(
      answer.content.map((part) => (part.type === "text" ? part.type : [part.type, "name" in part && part.name])),
      ["text", ["tool-call", "billing/refund"], ["tool-result", "billing/refund"]]
    )
  })

  const misnaming = world([{ toolCalls: [call("c1", "billing__nobody", {})] }, { text: "done" }])
  test("TOOL-8 an unknown name is kept as sent, and the error lists canonical names", misnaming, function* () {
    const { conversation } = yield* agent.run("Go")
    const tool = Conversation.messages(conversation).find((message) => message.role === "tool")
    assert(tool?.role === "tool" && tool.result._tag === "Failure")
    assert.strictEqual(tool.result.type, "unknown_tool")
    assert.include(tool.result.message, "billing__nobody")
    assert.include(tool.result.message, "billing/refund")
  })

  it.effect("TOOL-8 the prompt of a request holds provider names only, also of tools that are gone or never were", () =>
    Effect.gen(function* () {
      const calls = ["old/tool", "functions.refund"].map((id) => Message.toolCallPart({ id, name: id, arguments: {} }))
      const asked = yield* Conversation.addUser(yield* Conversation.make(), "Go").pipe(
        Effect.flatMap(Conversation.addAssistant(calls))
      )
      const answered = yield* Effect.reduce(
        calls,
        () => asked,
        (conversation, { id }) =>
          Conversation.addToolResult(conversation, { callId: id, result: ToolResult.success("ok") })
      )
      const { conversation } = yield* agent.run("Go on", { conversation: answered })
      assert.deepStrictEqual(names(conversation), pluck([...calls, ...calls], "name"))
      const [request] = yield* ScriptedModel.requests
      const sent = JSON.stringify(request?.prompt.content.map(({ content }) => content))
      for (const name of ["old__tool", "functions_x2e_refund"]) assert.lengthOf(sent.split(`"name":"${name}"`), 3)
    }).pipe(Effect.provide(world([{ text: "done" }])))
  )

  testWith(
    world(({ messages, tools }) =>
      messages.some(({ role }) => role === "tool")
        ? { text: "done" }
        : { toolCalls: [call("c1", tools.find(({ name }) => name.startsWith("shipping"))?.name ?? "", {})] }
    )
  )("TOOL-8 TOOL-7 approval requests hold canonical names", function* () {
    const first = yield* endsAs("AwaitingApproval", agent.run("Go"))
    assert.strictEqual(first.requests[0].name, "shipping.send")
    const result = yield* agent.run(undefined, {
      conversation: first.conversation,
      decisions: decide(first.state)
    })
    assert.strictEqual(result.outcome, "Completed")
  })

  test("TOOL-8 toolChoice takes canonical names", world([{ text: "a" }, { text: "b" }]), function* () {
    yield* agent.run("Go", { toolChoice: { tool: "billing/refund" } })
    yield* agent.run("Go", { toolChoice: { mode: "required", oneOf: ["billing/refund"] } })
    const choices = (yield* ScriptedModel.requests).map(({ toolChoice }) => toolChoice)
    assert.deepStrictEqual(choices, [{ tool: "billing__refund" }, { mode: "required", oneOf: ["billing__refund"] }])
  })

  test("TOOL-8 the definition and its wire hold canonical names", function* () {
    const definition = yield* Agent.definition(agent)
    assert.deepStrictEqual(pluck(definition.tools, "name"), ["billing/refund", "shipping.send"])
    assert.include(yield* AgentDefinition.codec.encodeJson(definition), '"billing/refund"')
  })

  test("TOOL-8 an agent whose names collide has no definition", function* () {
    yield* failsFor("ToolSetInvalid", Agent.definition(Agent.make("twins", { toolkit: [Refund, twin] })))
  })

  const twin = Tool.make("billing__refund", { success: Schema.String })
  testWith(Layer.provideMerge(Toolkit.make(twin).toLayer({ billing__refund: () => Effect.succeed("x") }), world([])))(
    "TOOL-8 two names that collide are refused when the layer is built, before any run",
    function* () {
      class Twins extends Agent.Service<Twins>()("twins", { toolkit: [Refund, twin] }) {}
      const error = yield* Effect.flip(Effect.provide(Twins, Twins.layer))
      assert(error._tag === "AgentError")
      assert.strictEqual(error.reason._tag, "ToolSetInvalid")
      assert.include(error.message, "billing/refund")
      assert.include(error.message, "billing__refund")
    }
  )

  test("AGENT-1 two tools with one name in a list are refused by name", world([]), function* () {
    const Other = Tool.make("billing/refund", { success: Schema.String })
    const error = yield* failsFor("ToolSetInvalid", Agent.make("twins", { toolkit: [Refund, Other] }).run("Go"))
    assert.include(error.message, '"billing/refund"')
    const described = yield* Effect.flip(Agent.definition(Agent.make("twins", { toolkit: [Refund, Other] })))
    assert.include(described.message, "billing/refund")
    assert.lengthOf(yield* ScriptedModel.requests, 0)
  })
})
