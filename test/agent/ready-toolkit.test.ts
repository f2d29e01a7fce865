import { assert, describe } from "@effect/vitest"
import { Context, Effect, Layer, Schema, Stream, Tracer } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, ToolFailure } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import { call, toolResults } from "./fixtures.ts"

const ran: Array<unknown> = []

const Search = Tool.dynamic("search", {
  description: "Raw JSON Schema, as MCP servers have",
  parameters: {
    type: "object",
    properties: { query: { type: "string" }, limit: { type: "integer", maximum: 10 } },
    required: ["query"]
  },
  success: Schema.String
})
const Shift = Tool.make("shift", {
  description: "Has parameters that are not JSON",
  parameters: Schema.Struct({ at: Schema.DateFromString, by: Schema.NumberFromString }),
  success: Schema.DateFromString,
  failure: ToolFailure
})
const Delete = Tool.make("delete", { description: "Asks", success: Schema.String, needsApproval: true })
const tools = Toolkit.make(Search, Shift, Delete)

const ready = Effect.flatMap(
  tools.toHandlers({
    search: (params, context) => {
      ran.push(params)
      return Effect.as(context.preliminary("half"), "found")
    },
    shift: ({ at, by }) => (by < 0 ? ToolFailure.error("cannot go back") : Effect.succeed(new Date(at.getTime() + by))),
    delete: () => Effect.succeed("deleted")
  }),
  (handlers) => Effect.provideContext(tools, handlers)
)

const script: ScriptedModel.Script = [
  {
    toolCalls: [
      call("c1", "search", { query: "effect", limit: 3 }),
      call("c2", "search", { query: 1, limit: 11 }),
      call("c3", "shift", { at: "1970-01-01T00:00:00.000Z", by: "5" }),
      call("c4", "shift", { at: "1970-01-01T00:00:00.000Z", by: "-5" })
    ]
  },
  { text: "done" }
]

describe("MCP-1 a toolkit with its handlers", () => {
  const found = ["found", "validation_error", "1970-01-01T00:00:00.005Z", "execution_error"]

  test("MCP-1 is bound like any other, and the raw JSON Schemas of its tools are enforced", Layer.empty, function* () {
    ran.length = 0
    const toolkit = yield* ready
    for (const agent of [Agent.make("a", { toolkit }), Agent.make("b", { toolkit: ready })]) {
      const result = yield* Effect.provide(agent.run("Go"), ScriptedModel.layer(script))
      assert.deepStrictEqual(toolResults(result.conversation), found)
    }
    assert.deepStrictEqual(ran, [
      { query: "effect", limit: 3 },
      { query: "effect", limit: 3 }
    ])
  })

  test(
    "MCP-1 preliminary results are ToolProgress, and spans have no arguments",
    ScriptedModel.layer(script),
    function* () {
      const attributes: Array<unknown> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          attributes.push(span.attributes)
          return span
        }
      })
      const agent = Agent.make("a", { toolkit: yield* ready })
      const events = yield* Effect.withTracer(Stream.runCollect(agent.stream("Go")), tracer)
      const progress = events.flatMap((event) => (event._tag === "ToolProgress" ? [event.result.value] : []))
      assert.deepStrictEqual(progress, ["half"])
      const written = attributes.flatMap((all) => (all instanceof Map ? [...all.values()] : []))
      assert.notInclude(JSON.stringify(written), "query")
    }
  )

  const asks: ScriptedModel.Script = [{ toolCalls: [call("c1", "delete", {})] }]
  test("MCP-1 an approval is asked for where the tool needs one", ScriptedModel.layer(asks), function* () {
    const result = yield* Agent.make("a", { toolkit: yield* ready }).run("Go")
    assert.strictEqual(result.outcome, "AwaitingApproval")
    assert.strictEqual(Conversation.messageCount(result.conversation), 2)
  })

  test("MCP-1 its definition has the contracts", Layer.empty, function* () {
    const { tools } = yield* Agent.definition(Agent.make("a", { toolkit: yield* ready }))
    assert.deepStrictEqual(
      tools.map(({ approval, name }) => [name, approval]),
      [
        ["search", "never"],
        ["shift", "never"],
        ["delete", "always"]
      ]
    )
  })
})

describe("RIGHT-24 the services of handlers", () => {
  class Db extends Context.Service<Db, { readonly of: string }>()("test/Db") {}
  const Read = Tool.make("read", { success: Schema.String })
  const toolkit = Toolkit.make(Read)
  const of = (name: string) => Layer.succeed(Db, { of: name })
  const named = Effect.map(Effect.serviceOption(Db), (db) => (db._tag === "Some" ? db.value.of : "none"))
  const handlers = Layer.provide(toolkit.toLayer(Effect.as(Db, { read: () => named })), of("the layer of the handlers"))
  const model = ScriptedModel.layer(({ messages }) =>
    messages.at(-1)?.role === "tool" ? { text: messages.at(-1)?.text ?? "" } : { toolCalls: [call("c1", "read", {})] }
  )
  const forms = {
    "a toolkit": toolkit,
    "an Effect of a toolkit": Effect.succeed(toolkit),
    "an Effect of a toolkit with its handlers": Effect.gen(function* () {
      return yield* toolkit
    })
  }
  for (const [form, tools] of Object.entries(forms)) {
    test(`${form}: they are those of their layer, in every call`, Layer.mergeAll(handlers, model), function* () {
      const agent = Agent.make("reader", { toolkit: tools })
      const kept = Effect.provideService(agent.ask("Go"), Db, { of: "the caller" })
      assert.include(yield* kept, "the layer of the handlers")
      class Reader extends Agent.Service<Reader>()("reader", { toolkit: tools }) {}
      const asked = Effect.flatMap(Reader, (reader) => reader.ask("Go")).pipe(
        Effect.provideService(Db, { of: "the caller" }),
        Effect.provide(Layer.provide(Reader.layer, of("the layer of the agent")))
      )
      assert.include(yield* asked, "the layer of the handlers")
    })
  }
})
