import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as toolSchema from "#src/ai-sdk/internal/toolSchema.ts"
import type { Json } from "effect-emissary/payload"
import { Agent, AgentEvent, Limits, Run } from "effect-emissary"
import type { LanguageModelConformance } from "effect-emissary/testing"
import { decide } from "../decisions.ts"
import { logged } from "../logged.ts"
import { listFields } from "../mcp/fixtures/zod-fields.ts"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import { accepted, connect, providers, type Provider } from "./providers.ts"
import { answer, call, text, thinking } from "./replies.ts"

const long = "settings__continuous__meeting__chat__auto__add__invited__external__users"

const open = { type: "string" } as const

/** Schemas that one provider or another refuses, each with arguments (cases loop 28, 30, 31, 32, 66 and their brothers). */
const tools: Readonly<Record<string, readonly [parameters: object, args: { readonly [key: string]: Schema.Json }]>> = {
  union: [
    { type: "object", properties: { a: open, b: open }, anyOf: [{ required: ["a"] }, { required: ["b"] }] },
    { a: "x" }
  ],
  choice: [
    {
      type: "object",
      oneOf: [
        { properties: { k: { const: "a" } }, required: ["k"] },
        { properties: { n: { type: "integer" } }, required: ["n"] }
      ]
    },
    { n: 1 }
  ],
  all: [{ allOf: [{ type: "object", properties: { a: open } }, { required: ["a"] }] }, { a: "x" }],
  members: [{ type: "object", enum: [{ a: 1 }, { $b: 2 }] }, { $b: 2 }],
  negation: [{ type: "object", properties: { a: open }, not: { required: ["b"] } }, { a: "x" }],
  odd: [
    { type: "object", properties: { "filter[id]": open, $top: { type: "integer" }, "a b": open }, required: ["$top"] },
    { "filter[id]": "x", $top: 1, "a b": "y" }
  ],
  dashed: [
    { type: "object", properties: { "x-api.version": open, "1st": open } },
    { "x-api.version": "2", "1st": "a" }
  ],
  long: [
    { type: "object", properties: { [long]: open }, required: [long], additionalProperties: false },
    { [long]: "x" }
  ],
  inside: [
    {
      type: "object",
      properties: { list: { type: "array", items: { type: "object", properties: { "@type": open } } } }
    },
    { list: [{ "@type": "x" }] }
  ],
  reference: [
    {
      type: "object",
      properties: {
        from: { type: "object", properties: { id: open }, required: ["id"], additionalProperties: false },
        to: { $ref: "#/properties/from" }
      },
      required: ["from", "to"],
      additionalProperties: false
    },
    { from: { id: "a" }, to: { id: "b" } }
  ],
  root: [
    {
      $ref: "#/$defs/node",
      $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" }, "v v": open } } }
    },
    { next: { "v v": "x" } }
  ],
  one: [
    {
      type: "object",
      properties: { value: { oneOf: [{ type: "integer" }, { type: "string" }] } },
      required: ["value"],
      additionalProperties: false
    },
    { value: 1 }
  ],
  bare: [{ type: "object" }, {}],
  draft07: [
    {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: { pair: { type: "array", items: [open, { type: "integer" }] } }
    },
    { pair: ["a", 1] }
  ]
}

const names = Object.keys(tools)

const received: Array<readonly [name: string, args: unknown]> = []

const toolkit = Toolkit.make(
  ...Object.entries(tools).map(([name, [parameters]]) =>
    Tool.dynamic(name, { parameters: { ...parameters }, success: Schema.String, needsApproval: name === "odd" })
  ),
  Tool.make("healthy", { success: Schema.String })
)

const handlers = toolkit.toLayer(
  Effect.succeed(
    Object.fromEntries(
      Object.keys(toolkit.tools).map((name) => [
        name,
        (args: unknown) => {
          received.push([name, args])
          return Effect.succeed("done")
        }
      ])
      // Sound: each handler takes any arguments.
    ) as never
  )
)

const keysIn = (value: unknown): ReadonlyArray<string> => {
  if (Array.isArray(value)) return value.flatMap(keysIn)
  if (typeof value !== "object" || value === null) return []
  return [...Object.keys(value), ...Object.values(value).flatMap(keysIn)]
}

const { anthropic, compatible, google, openAi } = toolSchema.rules

const rulesOf = (provider: string): toolSchema.Rules => {
  if (provider === "openai compatible") return compatible
  if (provider === "anthropic") return anthropic
  return provider === "google" ? google : openAi
}

/** The arguments as a model writes them that has seen the schema that was sent. */
const asModel = (provider: string, name: string, sent: unknown): Schema.Json => {
  const [parameters, args] = tools[name] ?? assert.fail(name)
  // Sound: a JSON Schema is JSON.
  const form = Result.getOrThrow(toolSchema.rewrite(parameters as Json.JsonObject, rulesOf(provider))).form
  const written = form === undefined ? args : form.toModel(args)
  const known = keysIn(sent)
  for (const key of keysIn(written)) assert.include(known, key)
  return written
}

describe("RIGHT-2 one tool does not make every request fail", () => {
  for (const [provider, how] of Object.entries<Provider>(providers)) {
    for (const streamed of [false, true]) {
      test.live(`RIGHT-2 two turns with calls: ${provider}${streamed ? ", streamed" : ""}`, function* () {
        received.length = 0
        const made: Array<readonly [name: string, args: Schema.Json]> = []
        const script = (request: LanguageModelConformance.Request, index: number) => {
          if (index > 0) return answer(thinking("So.", index), text("done"))
          for (const name of names) {
            const sent = request.tools.find((tool) => tool.name === name)?.parameters
            made.push([name, asModel(provider, name, sent)])
          }
          return answer(thinking("All of them.", 1), ...made.map(([name, args], n) => call(`c${n}`, name, args)))
        }
        const { model, server } = yield* connect(how, script)
        const { layer, lines } = logged()
        const agent = Agent.make("helper", { toolkit })
        const program = Effect.gen(function* () {
          const waiting = yield* endsAs(
            "AwaitingApproval",
            streamed ? AgentEvent.result(agent.stream("Hi")) : agent.run("Hi")
          )
          const [request] = Run.requests(waiting.state)
          // A person approves the original
          assert.deepStrictEqual(request?.arguments, tools["odd"]?.[1])
          const options = { decisions: decide(waiting.state) }
          const first = yield* endsAs(
            "Completed",
            streamed
              ? AgentEvent.result(agent.resumeStream(waiting.state, options))
              : agent.resume(waiting.state, options)
          )
          const more = { conversation: first.conversation }
          return yield* endsAs(
            "Completed",
            streamed ? AgentEvent.result(agent.stream("Again", more)) : agent.run("Again", more)
          )
        })
        yield* program.pipe(Effect.provide(Layer.merge(model, handlers)), Effect.provide(layer), accepted(server))
        assert.lengthOf(server.refusals, 0)
        assert.lengthOf(server.requests, 3)
        // Every handler got the arguments of its own schema
        assert.deepStrictEqual(
          Object.fromEntries(received),
          Object.fromEntries(names.map((name) => [name, tools[name]?.[1]]))
        )
        assert.lengthOf(received, names.length)
        for (const later of server.requests.slice(1)) {
          const calls = later.input.flatMap((part) => (part.type === "tool-call" ? [[part.name, part.arguments]] : []))
          assert.deepStrictEqual<unknown>(calls, made, "calls of earlier turns are in the form that was offered")
        }
        assert.deepStrictEqual(
          lines.filter((line) => line.includes("left out")),
          []
        )
      })
    }

    test.live(`RIGHT-2 only a tool whose schema has no form is left out, once in the log: ${provider}`, function* () {
      const { model, server } = yield* connect(how, () => answer(text("Hello.")))
      const { layer, lines } = logged()
      const broken = Toolkit.make(Tool.dynamic("broken", { parameters: { type: "array" } }), Tool.make("healthy"))
      // Sound: no tool is called.
      const unused = broken.toLayer({ broken: () => Effect.void, healthy: () => Effect.void } as never)
      const agent = Agent.make("helper", { toolkit: broken })
      const twice = Effect.all([agent.run("Hi"), agent.run("Hi")])
      yield* twice.pipe(Effect.provide(Layer.merge(model, unused)), Effect.provide(layer), accepted(server))
      assert.deepStrictEqual(
        server.requests.map((request) => request.tools.map(({ name }) => name)),
        [["healthy"], ["healthy"]]
      )
      const about = lines.filter((line) => line.includes("left out"))
      assert.lengthOf(about, 1)
      assert.match(
        about[0] ?? "",
        /Warn AiSdk: \S+ \S+: tool "broken" is left out, because its schema at \/type takes no object/
      )
    })

    test.live(`RIGHT-2 the field types of zod 4.6 are all offered: ${provider}`, function* () {
      const { model, server } = yield* connect(how, () => answer(text("Hello.")))
      const listed = yield* Effect.promise(() => listFields())
      // Sound: a list of tools is JSON, and no tool is called.
      const made = listed.map(({ inputSchema, name }) => Tool.dynamic(name, { parameters: inputSchema as never }))
      const all = Toolkit.make(...made)
      const unused = all.toLayer(Object.fromEntries(listed.map(({ name }) => [name, () => Effect.void])) as never)
      const agent = Agent.make("helper", { toolkit: all })
      yield* agent
        .run("Hi")
        .pipe(
          Effect.provide(Layer.merge(model, unused)),
          Effect.provide(Limits.layer({ maxUncheckedPatterns: 9 })),
          accepted(server)
        )
      assert.lengthOf(server.requests[0]?.tools ?? [], listed.length)
    })
  }
})
