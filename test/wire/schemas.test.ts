import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent } from "effect-emissary"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import { accepted, connect, providers, type Provider } from "./providers.ts"
import { answer, text } from "./replies.ts"

interface Tree {
  readonly name: string
  readonly children: ReadonlyArray<Tree>
}

const Tree: Schema.Codec<Tree> = Schema.Struct({
  name: Schema.String,
  children: Schema.Array(Schema.suspend(() => Tree))
}).annotate({ identifier: "Tree" })

const { optionalKey } = Schema

/** Parameters of tools, and structured outputs, as programs have them. */
const schemas = {
  plain: Schema.Struct({ a: Schema.String, b: Schema.Int, c: Schema.Boolean }),
  optional: Schema.Struct({ a: Schema.String, b: optionalKey(Schema.Int) }),
  nested: Schema.Struct({ a: Schema.Struct({ b: Schema.Struct({ c: optionalKey(Schema.String) }) }) }),
  lists: Schema.Struct({ a: Schema.Array(Schema.Struct({ b: Schema.Array(Schema.Finite) })) }),
  unions: Schema.Struct({
    a: Schema.Union([Schema.String, Schema.Int]),
    b: Schema.Union([Schema.Struct({ x: Schema.Int }), Schema.Struct({ y: Schema.String })])
  }),
  words: Schema.Struct({ a: Schema.Literals(["x", "y"]), b: Schema.Literal(1), c: Schema.NullOr(Schema.String) }),
  checks: Schema.Struct({
    a: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(9)),
    b: Schema.String.check(Schema.isPattern(/^[a-z]+$/)),
    c: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 5 })),
    d: Schema.Array(Schema.String).check(Schema.isMinLength(1))
  }),
  described: Schema.Struct({ a: Schema.String.annotate({ description: "A name", examples: ["x"] }) }),
  defaults: Schema.Struct({ a: optionalKey(Schema.Int.annotate({ default: 10 })) }),
  dates: Schema.Struct({ a: Schema.DateTimeUtcFromString, b: Schema.URLFromString }),
  tree: Schema.Struct({ root: Tree }),
  record: Schema.Struct({ a: Schema.Record(Schema.String, Schema.Int) }),
  tuple: Schema.Struct({ a: Schema.Tuple([Schema.String, Schema.Int]) }),
  anything: Schema.Struct({ a: Schema.Json })
}

const toolkit = Toolkit.make(
  ...Object.entries(schemas).map(([name, parameters]) => Tool.make(`tool_${name}`, { parameters })),
  Tool.make("tool_empty")
)

const handlers = toolkit.toLayer(
  Effect.succeed(Object.fromEntries(Object.keys(toolkit.tools).map((name) => [name, () => Effect.void])) as never)
)

describe("MODEL-1 MODEL-4 no provider refuses the schema of a tool or of an output", () => {
  for (const [name, provider] of Object.entries<Provider>(providers)) {
    test.live(`tools: ${name}`, function* () {
      const { model, server } = yield* connect(provider, [answer(text("Hello."))])
      const agent = Agent.make("helper", { toolkit })
      const result = yield* endsAs("Completed", agent.run("Hi")).pipe(
        Effect.provide(Layer.merge(model, handlers)),
        Effect.exit,
        accepted(server),
        Effect.flatten
      )
      assert.strictEqual(result.output, "Hello.")
      assert.lengthOf(server.requests[0]?.tools ?? [], Object.keys(toolkit.tools).length)
    })

    test.live(`outputs: ${name}`, function* () {
      for (const [what, output] of Object.entries(schemas)) {
        const { model, server } = yield* connect(provider, () => answer(text("no JSON")))
        const agent = Agent.make("helper", { output })
        const exit = yield* Effect.exit(agent.run("Hi")).pipe(Effect.provide(model))
        assert.deepStrictEqual([what, server.refusals.map(({ body }) => JSON.stringify(body))], [what, []])
        const isRefusedHere = JSON.stringify(exit).includes("UnsupportedSchemaError")
        if (isRefusedHere) assert.deepStrictEqual([what, server.requests.length], ["tree", 0])
        else assert.isDefined(server.requests[0]?.output, what)
        if (name.startsWith("openai ") && name !== "openai compatible") {
          const strict = JSON.stringify(server.bodies[0]).includes('"strict":true')
          assert.deepStrictEqual([what, strict], [what, what !== "anything"])
        }
      }
    })
  }
})
