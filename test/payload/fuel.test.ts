import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Result } from "effect"
import * as fuel from "#src/payload/internal/fuel.ts"
import * as interpret from "#src/payload/internal/interpret.ts"
import { JsonSchema } from "effect-emissary/payload"
import { failsFor } from "../outcomes.ts"
import { test } from "../test.ts"
import { AgentDefinition } from "effect-emissary"

const order = (title: string) => ({
  title,
  type: "object",
  properties: { id: { type: "string", pattern: "^[a-z]+$" }, lines: { type: "array", items: { type: "integer" } } },
  required: ["id"]
})

const spentBy = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.map(fuel.measure(effect), ({ exit, spent }) => {
    assert.isTrue(Exit.isSuccess(exit))
    return spent
  })

describe("TRUST-3 fuel", () => {
  test("TRUST-3 a schema takes the same fuel, whether it was compiled before or not", function* () {
    const document = order("cached")
    const first = yield* spentBy(JsonSchema.make(document))
    assert.isAbove(first, 1000)
    assert.strictEqual(yield* spentBy(JsonSchema.make(document)), first)
    assert.strictEqual(yield* spentBy(JsonSchema.make(structuredClone(document))), first)
  })

  test("TRUST-3 a value takes the same fuel each time it is validated", function* () {
    const schema = yield* JsonSchema.make({
      $ref: "#/$defs/all",
      $defs: { all: { properties: { a: { default: { b: 1 }, properties: { b: true, c: { default: [1, 2] } } } } } }
    })
    const spent = () => {
      const tank = fuel.make(1000)
      assert.isTrue(Result.isSuccess(interpret.validateWith(tank, schema, {})))
      return tank.spent
    }
    const first = spent()
    assert.strictEqual(spent(), first)
    assert.strictEqual(spent(), first)
  })

  test("TRUST-3 all schemas of an artefact share its fuel, and the error names the limit", function* () {
    const definition = (tools: number) => ({
      schema_version: 2,
      name: "a",
      model: "m/x",
      model_options: {},
      max_steps: 1,
      tools: Array.from({ length: tools }, (_, n) => ({
        name: `t${n}`,
        description: "d",
        parameters: order(`t${n}`),
        timeout: 1000,
        approval: "never",
        annotations: {}
      }))
    })
    const one = yield* spentBy(AgentDefinition.codec.decode(definition(1)))
    const limits = { maxFuel: 10.5 * one }
    yield* AgentDefinition.codec.decode(definition(10), { limits })
    const error = yield* failsFor("TooLarge", AgentDefinition.codec.decode(definition(11), { limits }))
    assert.strictEqual(error.reason.what, "fuel")
    assert.match(error.reason.path, /^\/tools\/10\/parameters/)
    assert.include(error.message, "raise maxFuel")
  })
})
