import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Agent, AgentDefinition, AgentEvent, Conversation, Message, ModelRegistry, ToolResolver } from "effect-emissary"
import { JsonSchema, type Json } from "effect-emissary/payload"
import { ScriptedModel } from "effect-emissary/testing"

import { Tool, Toolkit } from "effect/ai"
import { call, Echo, toolResults, Probe, toolkit, inWorld, rolesOf, world } from "./fixtures.ts"
import { pluck } from "../pluck.ts"
import { endsAs, failsFor } from "../outcomes.ts"
import { test } from "../test.ts"

const Answer = Schema.Struct({ city: Schema.String, days: Schema.Int })

const asking = (strategy: AgentDefinition.OutputStrategy) =>
  Agent.make("forecaster", { instructions: "Forecast.", toolkit, output: Answer, outputStrategy: strategy })
const toolless = Agent.make("forecaster", { instructions: "Forecast.", output: Answer })

const valid = { city: "Rome", days: 3 }
const text = JSON.stringify(valid)

/** The parts of a request that both ways of running must agree on. */
const plain = Effect.map(ScriptedModel.requests, (requests) =>
  requests.map(({ messages, responseFormat, toolChoice, tools }) => ({
    messages,
    toolChoice,
    tools,
    responseFormat:
      responseFormat.type === "json" ? { type: "json", objectName: responseFormat.objectName } : responseFormat
  }))
)

/** Runs the agent both ways: this outcome, the same transcript and requests. */
const bothWays = <A, const Outcome extends Agent.Result<A>["outcome"]>(
  agent: Agent.Agent<A, Layer.Success<ReturnType<typeof world>>>,
  outcome: Outcome,
  script: ScriptedModel.Script
) =>
  Effect.gen(function* () {
    const [ran, asked] = yield* Effect.all([endsAs(outcome, agent.run("Go")), plain]).pipe(inWorld(script))
    const [flowed, told] = yield* Effect.all([AgentEvent.result(agent.stream("Go")), plain]).pipe(inWorld(script))
    assert.deepStrictEqual(told, asked)
    assert.strictEqual(flowed.outcome, ran.outcome)
    assert.deepStrictEqual(flowed.usage, ran.usage)
    assert.strictEqual(flowed.steps, ran.steps)
    assert.deepStrictEqual(Conversation.transcript(flowed.conversation), Conversation.transcript(ran.conversation))
    return { result: ran, requests: asked }
  })

const usage = { inputTokens: 10, outputTokens: 5 }

describe("AGENT-6 structured output", () => {
  test("AGENT-6 prompted: the schema goes into the system text, no request is constrained", function* () {
    const { requests, result } = yield* bothWays(asking("prompted"), "Completed", [
      { toolCalls: [call("c1", "echo", { text: "x" })] },
      { text: `Sure:\n\`\`\`json\n${text}\n\`\`\`` }
    ])
    assert.deepStrictEqual(result.output, valid)
    for (const { messages, responseFormat, tools } of requests) {
      assert.strictEqual(responseFormat.type, "text")
      assert.isAbove(tools.length, 0)
      assert.match(messages[0]?.text ?? "", /^Forecast\.\n\n[^]*"city"/u)
    }
    const [system] = Conversation.messages(result.conversation)
    assert.strictEqual(system === undefined ? "" : Message.text(system), "Forecast.")
  })

  const wrong = JSON.stringify({ city: "Oslo", days: 1 })
  const drafts: ReadonlyArray<readonly [name: string, answer: string]> = [
    ["a draft in think tags", `<think>\n${wrong}\n</think>\n${text}`],
    ["a draft before a lone closing tag", `${wrong}\n</think>\n${text}`],
    ["an example before the fenced answer", `Like ${wrong}. Mine:\n\`\`\`json\n${text}\n\`\`\``],
    ["an answer behind a fenced draft", `\`\`\`json\n${wrong}\n\`\`\`\nNo: ${text}`],
    ["a later object that does not fit", `${wrong} or ${text}, see {"source":"web"} and [1]`],
    ["a later object that only the Schema refuses", `${wrong} or ${text} not {"city":"","days":3}`]
  ]
  const Named = Schema.Struct({
    city: Schema.String.check(Schema.makeFilter((city: string) => city !== "")),
    days: Schema.Int
  })
  for (const [name, answer] of drafts) {
    for (const outputStrategy of ["prompted", "native"] as const) {
      test(`RIGHT-7 ${outputStrategy}: the latest value that fits is the output: ${name}`, function* () {
        const agent = Agent.make("forecaster", { output: Named, outputStrategy })
        const { result } = yield* bothWays(agent, "Completed", [{ text: answer }])
        assert.deepStrictEqual(result.output, valid)
      })
    }
  }

  test("RIGHT-7 native output that is whole JSON is read as it is", function* () {
    const agent = Agent.make("writer", { output: Schema.Struct({ html: Schema.String }) })
    const object = { html: `<think>{"html":"a"}</think> {"html":"b"} </think>` }
    const { result } = yield* bothWays(agent, "Completed", [{ object }])
    assert.deepStrictEqual(result.output, object)
  })

  test("RIGHT-7 a draft alone is no output", function* () {
    yield* bothWays(toolless, "InvalidOutput", [{ text: `<think>${wrong}</think>` }])
  })

  test("AGENT-6 prompted without instructions has a system text nevertheless", function* () {
    const agent = Agent.make("bare", { output: Answer, outputStrategy: "prompted" })
    const { requests, result } = yield* bothWays(agent, "Completed", [{ text: `It is ${text}, as I said.` }])
    assert.strictEqual(requests[0]?.messages[0]?.role, "system")
    assert.strictEqual(Conversation.messages(result.conversation)[0]?.role, "user")
  })

  test("AGENT-6 native without tools asks for the object at once", function* () {
    const { requests, result } = yield* bothWays(toolless, "Completed", [{ object: valid, usage }])
    assert.deepStrictEqual(result.output, valid)
    assert.deepStrictEqual(pluck(requests, "responseFormat"), [{ type: "json", objectName: "output" }])
    assert.deepStrictEqual(result.usage, usage)
    assert.strictEqual(result.steps, 1)
  })

  test("AGENT-6 native with tools is as prompted when the model ends with valid JSON", function* () {
    const { requests } = yield* bothWays(asking("native"), "Completed", [
      { toolCalls: [call("c1", "echo", { text: "x" })] },
      { text }
    ])
    assert.deepStrictEqual(
      requests.map(({ responseFormat }) => responseFormat.type),
      ["text", "text"]
    )
    assert.include(requests[0]?.messages[0]?.text, "JSON Schema")
  })

  test("AGENT-6 native with tools: one step more, without tools, over the same conversation with a request for JSON", function* () {
    const { requests, result } = yield* bothWays(asking("native"), "Completed", [
      { toolCalls: [call("c1", "echo", { text: "x" })], usage },
      { text: "Three days in Rome.", usage },
      { object: valid, usage }
    ])
    assert.deepStrictEqual(result.output, valid)
    assert.strictEqual(result.steps, 3)
    assert.deepStrictEqual(result.usage, { inputTokens: 30, outputTokens: 15 })
    assert.strictEqual(requests[2]?.responseFormat.type, "json")
    assert.deepStrictEqual(requests[2]?.tools, [])
    assert.strictEqual(requests[2]?.messages[0]?.text, requests[0]?.messages[0]?.text)
    const roles = requests[2]?.messages.map(({ role }) => role).join(" ")
    assert.strictEqual(roles, "system user assistant tool assistant user")
  })

  const secondTry = world([{ text: "no json" }, { object: valid }])
  test("AGENT-6 AGENT-4 the fallback step counts: without steps left the output is invalid", secondTry, function* () {
    const result = yield* endsAs("InvalidOutput", asking("native").run("Go", { maxSteps: 1 }))
    assert.strictEqual(result.steps, 1)
    const more = yield* endsAs("Completed", asking("native").resume(result.state, { maxSteps: 2 }))
    assert.strictEqual(more.steps, 2)
  })

  test("AGENT-6 tool: the final answer is a call of a synthetic tool, never dispatched", function* () {
    const { requests, result } = yield* bothWays(asking("tool"), "Completed", [
      { toolCalls: [call("c1", "echo", { text: "x" })] },
      { toolCalls: [call("c2", "final_answer", valid)] }
    ])
    assert.deepStrictEqual(result.output, valid)
    assert.strictEqual(result.steps, 2)
    assert.isTrue(requests[0]?.tools.some(({ name }) => name === "final_answer"))
    assert.strictEqual(requests[0]?.messages[0]?.text, "Forecast.")
    assert.lengthOf(Conversation.openCalls(result.conversation), 0)
  })

  test("AGENT-6 tool: an invalid final answer is reported to the model, which tries again", function* () {
    const { requests } = yield* bothWays(asking("tool"), "Completed", [
      { toolCalls: [call("c1", "final_answer", { city: 7 })] },
      { toolCalls: [call("c2", "final_answer", valid)] }
    ])
    const told = requests[1]?.messages.at(-1)?.text ?? ""
    assert.include(told, "city")
    assert.include(told, "days")
  })

  test("AGENT-6 tool: a text answer that holds JSON is taken as well", function* () {
    const { result } = yield* bothWays(asking("tool"), "Completed", [{ text }])
    assert.deepStrictEqual(result.output, valid)
  })

  test("AGENT-6 tool: the synthetic tool makes way for a tool of that name", function* () {
    const own = Toolkit.make(Tool.make("final_answer", { success: Schema.String }))
    const named = Agent.make("named", { toolkit: own, output: Answer, outputStrategy: "tool" })
    const model = ScriptedModel.layer([
      { toolCalls: [call("c1", "final_answer", {})] },
      { toolCalls: [call("c2", "_final_answer", valid)] }
    ])
    const handlers = own.toLayer({ final_answer: () => Effect.succeed("mine") })
    const result = yield* Effect.provide(endsAs("Completed", named.run("Go")), Layer.merge(handlers, model))
    assert.deepStrictEqual(result.output, valid)
    assert.deepStrictEqual(toolResults(result.conversation), ["mine", "The output was accepted."])
  })

  for (const finishReason of ["length", "content-filter"] as const) {
    test(`AGENT-4 AGENT-6 tool: a final answer before ${finishReason} is Stopped, not Completed`, function* () {
      const { result } = yield* bothWays(asking("tool"), "Stopped", [
        { toolCalls: [call("c1", "final_answer", valid)], finishReason }
      ])
      assert.strictEqual(result.finishReason, finishReason)
      assert.deepStrictEqual(toolResults(result.conversation), ["interrupted"])
    })
  }

  test("AGENT-6 tool: the synthetic tool is not in the definition", function* () {
    const named = Agent.make("named", { toolkit: [Echo], output: Answer, outputStrategy: "tool" })
    const definition = yield* Agent.definition(named)
    assert.deepStrictEqual(pluck(definition.tools, "name"), ["echo"])
  })

  test("AGENT-6 tool: other calls of the same answer still get their results", function* () {
    const { result } = yield* bothWays(asking("tool"), "Completed", [
      { toolCalls: [call("c1", "final_answer", valid), call("c2", "echo", { text: "x" })] }
    ])
    assert.strictEqual(rolesOf(result.conversation), "system user assistant tool tool")
  })

  const wrongCity = world([{ text: `{"city": 7}` }, { text: `{"city": 7}` }])
  test("AGENT-6 all issues are reported, with their paths", wrongCity, function* () {
    const result = yield* endsAs("InvalidOutput", asking("prompted").run("Go"))
    assert.deepStrictEqual(result.issues.map(({ path }) => path).toSorted(), ["/city", "/days"])
    const error = yield* Effect.flip(asking("prompted").ask("Go"))
    assert(error._tag === "RunIncomplete" && error.result.outcome === "InvalidOutput")
    assert.lengthOf(error.result.issues, 2)
  })

  const noJson = world([{ text: "I do not know." }])
  test("AGENT-6 text without JSON is one issue, and the answer stays in the conversation", noJson, function* () {
    const result = yield* endsAs("InvalidOutput", asking("prompted").run("Go"))
    assert.lengthOf(result.issues, 1)
    assert.strictEqual(result.text, "I do not know.")
  })

  const Even = Schema.Int.check(Schema.makeFilter((n) => n % 2 === 0, { expected: "an even integer" }))
  const oddThenEven = world([{ object: { n: 3 } }, { object: { n: 4 } }])
  test(
    "AGENT-6 a check that JSON Schema cannot express is applied too, reported the same way",
    oddThenEven,
    function* () {
      const Even = Schema.Struct({
        n: Schema.Int.check(Schema.makeFilter((n) => n % 2 === 0, { expected: "an even integer" }))
      })
      const agent = Agent.make("even", { output: Even })
      const result = yield* endsAs("InvalidOutput", agent.run("Go"))
      assert.strictEqual(result.issues[0]?.path, "/n")
      assert.include(result.issues[0]?.expected, "even")
      assert.deepStrictEqual(yield* agent.ask("Go"), { n: 4 })
    }
  )

  const startOnly = world([{ text: `{"start": "2026-01-01T00:00:00Z"}` }])
  test("AGENT-6 the Schema's own type comes out: dates, classes, defaults", startOnly, function* () {
    class Trip extends Schema.Class<Trip>("Trip")({
      start: Schema.DateTimeUtcFromString,
      bags: Schema.Int.pipe(Schema.withDecodingDefaultKey(Effect.succeed(1)))
    }) {}
    const trip = yield* Agent.make("trips", { output: Trip, outputStrategy: "prompted" }).ask("Go")
    assert.isTrue(trip instanceof Trip)
    assert.strictEqual(trip.bags, 1)
  })

  for (const [name, output, value] of [
    ["string", Schema.String, "Rome"],
    ["number", Schema.Finite, 42],
    ["boolean", Schema.Boolean, false],
    ["array", Schema.Array(Schema.String), ["a", "b"]],
    ["null", Schema.NullOr(Schema.String), null],
    ["union", Schema.Union([Schema.Struct({ a: Schema.String }), Schema.Struct({ b: Schema.Int })]), { b: 1 }]
  ] as ReadonlyArray<readonly [string, Schema.Codec<Schema.Json, Schema.Json>, Schema.Json]>) {
    test(`AGENT-6 an output that is no object (${name}) is wrapped for generateObject and for the tool`, function* () {
      for (const [outputStrategy, turn] of [
        [undefined, { object: { value } }],
        ["tool", { toolCalls: [call("c1", "final_answer", { value })] }],
        ["prompted", { text: `\`\`\`json\n${JSON.stringify(value)}\n\`\`\`` }]
      ] as const) {
        const { result } = yield* bothWays(Agent.make("plain", { output, outputStrategy }), "Completed", [turn])
        assert.deepStrictEqual(result.output, value)
      }
    })
  }

  test("AGENT-6 what generateObject cannot decode is an answer like any other: usage and text are kept", function* () {
    const { result } = yield* bothWays(toolless, "InvalidOutput", [{ text: "no json", usage }])
    assert.strictEqual(result.text, "no json")
    assert.deepStrictEqual(result.usage, usage)
  })

  test("AGENT-6 AGENT-3 an object cut off by the provider is Stopped, not InvalidOutput", function* () {
    const { result } = yield* bothWays(toolless, "Stopped", [{ text: `{"city": "Ro`, finishReason: "length" }])
    assert.strictEqual(result.finishReason, "length")
  })

  test("RIGHT-6 AGENT-6 two empty answers are Stopped, not a failed run", function* () {
    const { result } = yield* bothWays(toolless, "Stopped", [{ usage }, { usage }])
    assert.strictEqual(result.finishReason, "empty")
    assert.deepStrictEqual(result.usage, Message.sumUsage([usage, usage]))
  })

  const overQuota = world([{ fail: { reason: "QuotaExhaustedError" } }])
  test("AGENT-6 a provider that fails the object call fails the run", overQuota, function* () {
    yield* failsFor("ModelFailed", toolless.run("Go"))
  })

  const answerAndCall = world([{ text, toolCalls: [call("c1", "echo", { text: "x" })] }])
  test(
    "AGENT-4 MaxSteps goes before output: JSON together with calls over the limit is none",
    answerAndCall,
    function* () {
      yield* endsAs("MaxSteps", asking("prompted").run("Go", { maxSteps: 1 }))
      assert.deepStrictEqual(yield* Probe.ran, [])
    }
  )

  const rebuilding = Layer.mergeAll(ModelRegistry.layerContext, ToolResolver.layerStubs())
  const twoCities = Layer.provideMerge(rebuilding, world([{ text: `{"city": "Rome"}` }, { text: `{"city": "R"}` }]))
  test("CODEC-4 a rebuilt output is judged by the same interpreter, defaults included", twoCities, function* () {
    const definition = {
      model: "scripted/any",
      output: {
        schema: {
          type: "object",
          properties: { city: { type: "string", minLength: 2 }, days: { type: "integer", default: 3 } },
          required: ["city"],
          additionalProperties: false
        },
        strategy: "prompted" as const
      }
    }
    const agent = yield* Agent.bind(yield* AgentDefinition.make(definition))
    assert.deepStrictEqual(yield* agent.ask("Go"), { city: "Rome", days: 3 })
    const result = yield* endsAs("InvalidOutput", agent.run("Go"))
    assert.strictEqual(result.issues[0]?.path, "/city")
  })

  const mixed = world([{ text: `{"even":3,"name":7,"note":null}` }])
  test(
    "AGENT-6 all issues at once: those of the JSON Schema and those that only the Schema knows",
    mixed,
    function* () {
      const output = Schema.Struct({ even: Even, name: Schema.String, note: Schema.optionalKey(Schema.String) })
      const judge = Agent.make("judge", { output, outputStrategy: "prompted" })
      const result = yield* endsAs("InvalidOutput", judge.run("Go"))
      assert.deepStrictEqual(pluck(result.issues, "path"), ["/name", "/even"])
    }
  )

  test("AGENT-6 a constrained call has the Schema of an agent in code, wrapped unless it is an object, or the import of a document", function* () {
    const told = (output: Schema.Codec<unknown>) =>
      Effect.gen(function* () {
        yield* Effect.exit(Agent.make("a", { output }).run("Go"))
        const format = (yield* ScriptedModel.requests)[0]?.responseFormat
        return format?.type === "json" ? format.schema : undefined
      }).pipe(Effect.provide(ScriptedModel.layer([{ object: {} }])))
    const city = { type: "string", description: "Where", minLength: 1 }
    const City = Schema.NonEmptyString.annotate({ description: "Where" })
    const shown = yield* told(Schema.Struct({ city: City, at: Schema.optionalKey(Schema.DateFromString) }))
    const at = { type: "string" }
    assert.deepInclude(shown, { type: "object", properties: { city, at }, required: ["city"] })
    assert.deepInclude(yield* told(Schema.Array(Schema.Int)), { type: "object", required: ["value"] })
    const document = { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
    assert.deepInclude(yield* told(JsonSchema.codec(yield* JsonSchema.make(document))), document)
  })

  test("AGENT-6 a schema that a constrained call cannot carry is part of the system text", function* () {
    let shown: unknown
    const told = (schema: Json.JsonObject) =>
      Effect.gen(function* () {
        const definition = yield* AgentDefinition.make({ model: "mock/m", output: { schema, strategy: "native" } })
        const bound = yield* Agent.bind(definition)
        yield* bound.run("Go")
        const [request] = yield* ScriptedModel.requests
        assert(request?.responseFormat.type === "json")
        shown = request.responseFormat.schema
        return request.messages.find(({ role }) => role === "system")?.text ?? ""
      }).pipe(Effect.provide(rebuilding), Effect.provide(ScriptedModel.layer([{ object: { a: "x" } }])))
    const plain = { type: "object", properties: { a: { type: "string" } }, required: ["a"] }
    assert.strictEqual(yield* told(plain), "")
    assert.include(yield* told({ ...plain, not: { required: ["b"] } }), `"not":{"required":["b"]}`)
    // The strict form, in keywords that the adapters of all providers know
    const kind = { oneOf: [{ const: "x" }, { $ref: "#/definitions/other", description: "Other" }] }
    const older = {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: { a: kind, more: { type: "integer" } },
      required: ["a"],
      definitions: { other: { enum: [1, null] } }
    }
    assert.strictEqual(yield* told(older), "")
    assert.deepStrictEqual(shown, {
      type: "object",
      properties: {
        a: {
          anyOf: [
            { type: "string", enum: ["x"] },
            { $ref: "#/$defs/other", description: "Other" }
          ]
        },
        more: { type: ["integer", "null"] }
      },
      required: ["a", "more"],
      additionalProperties: false,
      $defs: { other: { type: ["number", "null"], enum: [1, null] } }
    })
    // Anthropic's adapter leaves the bound out
    assert.include(yield* told({ ...plain, properties: { a: { type: "string", minLength: 1 } } }), `"minLength":1`)
  })
})
