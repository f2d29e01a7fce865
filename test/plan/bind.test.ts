/** PLAN-1, PLAN-2: the targets behind the names in a plan. */
import { assert, describe } from "@effect/vitest"
import { Context, Effect, Option, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import { Agent, Conversation, Message, ToolContract, ToolResult, VersionedStore } from "effect-emissary"
import { Plan, Reference, Step } from "effect-emissary/plan"
import { test, testWith } from "../test.ts"

const search = Tool.make("search", { parameters: Schema.Struct({ task: Schema.String }), success: Schema.String })
const publish = Tool.make("publish", {
  parameters: Schema.Struct({ text: Schema.String, context: Schema.optionalKey(Schema.String) }),
  success: Schema.String
})
const toolkit = Toolkit.make(search, publish)
const handlers = toolkit.toLayer({
  search: ({ task }) => Effect.succeed(`found ${task}`),
  publish: ({ text }) => Effect.succeed(text)
})

const stub = (name: string, parameters: Record<string, Schema.Json> = { type: "object" }) =>
  Effect.flatMap(ToolContract.make({ name, parameters }), boundTool.makeStub)

const helper = Agent.make("helper", {})

const codesOf = <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), (error) =>
    "problems" in error
      ? (error.problems as ReadonlyArray<{ readonly code: string; readonly step?: string }>).map(({ code, step }) => [
          code,
          step
        ])
      : error._tag
  )

describe("binding", () => {
  testWith(handlers)("PLAN-1 finds tools of a toolkit, tools from elsewhere and agents by name", function* () {
    const plan = yield* Plan.make("plan", [
      Step.make("find", { target: "search" }),
      Step.make("check", { target: "remote" }),
      Step.make("ask", { target: "assistant" }),
      Step.make("print", { target: "publish", context: Reference.fromStep("find") })
    ])
    const remote = yield* stub("remote", { type: "object", properties: { input: { type: "string" } } })
    const bound = yield* Plan.bind(plan, { toolkit, tools: [remote], agents: { assistant: helper } })
    assert.deepStrictEqual(
      bound.live.steps.map(({ target }) =>
        target._tag === "Tool" ? [target.name, target.arguments] : [target._tag, "name" in target ? target.name : ""]
      ),
      [
        ["search", { _tag: "Text", task: "task", context: undefined }],
        ["remote", { _tag: "Text", task: "input", context: undefined }],
        ["Agent", "assistant"],
        ["publish", { _tag: "Text", task: "text", context: "context" }]
      ]
    )
    assert.deepStrictEqual([...bound.live.tools.tools.keys()], ["search", "publish", "remote"])
    assert.strictEqual(bound.digest, plan.digest)
    assert.strictEqual(bound.definition, plan.definition)
    assert.ok(Agent.isAgent(bound))
  })

  test("PLAN-1 captures the handlers where it happens", function* () {
    const plan = yield* Plan.make("plan", [Step.make("find", { target: "search" })])
    const bound = yield* Plan.bind(plan, { toolkit }).pipe(Effect.provide(handlers))
    const body = bound.live.tools.tools.get("search")?.body
    assert.ok(body !== undefined && Option.isSome(body))
  })

  test("PLAN-2 reports all problems: names without an entry, and names with two", function* () {
    const plan = yield* Plan.make("plan", [
      Step.make("a", { target: "nothing" }),
      Step.make("b", { target: "search" }),
      Step.make("c", { target: "helper", context: Reference.fromMemory("helper") })
    ])
    const both = yield* stub("helper")
    assert.deepStrictEqual(
      yield* codesOf(Plan.bind(plan, { toolkit, tools: [both], agents: { helper } }).pipe(Effect.provide(handlers))),
      [
        ["UnknownTool", "a"],
        ["AmbiguousTarget", "c"],
        ["NoMemory", "c"]
      ]
    )
  })

  test("PLAN-2 reports tools that take nothing a step can pass", function* () {
    const plan = yield* Plan.make("plan", [Step.make("a", { target: "count" })])
    const count = yield* stub("count", {
      type: "object",
      properties: { n: { type: "integer" } },
      required: ["n"],
      additionalProperties: false
    })
    assert.deepStrictEqual(yield* codesOf(Plan.bind(plan, { tools: [count] })), [["ToolArguments", "a"]])
  })

  test("PLAN-2 refuses two tools of one name", function* () {
    const plan = yield* Plan.make("plan", [Step.make("a", { target: "search" })])
    const again = yield* stub("search")
    assert.strictEqual(
      yield* codesOf(Plan.bind(plan, { toolkit, tools: [again] }).pipe(Effect.provide(handlers))),
      "ToolNameError"
    )
  })

  test("PLAN-1 a plan binds as often as one likes, with other things each time", function* () {
    const plan = yield* Plan.make("plan", [Step.make("a", { target: "search" })])
    const one = yield* Plan.bind(plan, {
      tools: [yield* stub("search", { type: "object", properties: { q: { type: "string" } } })]
    })
    const two = yield* Plan.bind(plan, { agents: { search: helper } })
    assert.deepStrictEqual(
      [one, two].map(({ live }) => live.steps[0]?.target._tag),
      ["Tool", "Agent"]
    )
  })
})

describe("memories", () => {
  test("PLAN-1 of a conversation are its texts, without tools and instructions", function* () {
    const conversation = yield* Conversation.make({ system: "Be brief." }).pipe(
      Effect.flatMap(Conversation.addUser("hi")),
      Effect.flatMap(Conversation.addAssistant([Message.toolCallPart({ id: "c1", name: "clock", arguments: {} })])),
      Effect.flatMap(Conversation.addToolResult({ callId: "c1", result: ToolResult.success("noon") })),
      Effect.flatMap(Conversation.addAssistant("there"))
    )
    const memory = Plan.memoryFromConversation(Conversation.addUser(conversation, "again"))
    assert.strictEqual(yield* memory.text ?? assert.fail(), "User: hi\nAssistant: there\nUser: again")
    assert.strictEqual(yield* Plan.memoryFromConversation(Effect.succeed(Conversation.empty)).text ?? assert.fail(), "")
  })

  testWith(VersionedStore.layerMemory)(
    "PLAN-1 in a store keep the last output, with several writers at the same time",
    function* () {
      const { output, save } = Plan.memoryInStore("last")
      assert.ok(output !== undefined && save !== undefined)
      assert.strictEqual(yield* output, undefined)
      const store = yield* VersionedStore.VersionedStore
      // all have read before any of them writes
      const slow = { ...store, get: (key: string) => Effect.tap(store.get(key), () => Effect.yieldNow) }
      yield* Effect.all([save({ n: 1 }), save({ n: 2 }), save({ n: 3 })], { concurrency: "unbounded" }).pipe(
        Effect.provideService(VersionedStore.VersionedStore, slow)
      )
      yield* save({ n: 4 })
      assert.deepStrictEqual(yield* output, { n: 4 })
    }
  )

  test("PLAN-1 are found under the names the plan is bound with", function* () {
    class Notes extends Context.Service<Notes, { readonly text: string }>()("test/plan/Notes") {}
    const plan = yield* Plan.make("plan", [
      Step.make("a", {
        target: "helper",
        task: Reference.fromAgent("helper"),
        context: [Reference.fromMemory("helper")]
      })
    ])
    const memory = { text: Effect.map(Notes, ({ text }) => text), output: Effect.succeed("last") }
    const bound = yield* Plan.bind(plan, { agents: { helper }, memories: { helper: memory } })
    const live = bound.live.memories.get("helper")
    assert.ok(live?.text !== undefined && live.output !== undefined)
    assert.strictEqual(yield* Effect.provideService(live.text, Notes, { text: "notes" }), "notes")
    assert.strictEqual(live.save, undefined)
    assert.deepStrictEqual(yield* codesOf(Plan.bind(plan, { agents: { helper }, memories: { helper: {} } })), [
      ["NoStore", "a"],
      ["NoMemory", "a"]
    ])
  })
})
