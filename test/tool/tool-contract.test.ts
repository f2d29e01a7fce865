import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Schema } from "effect"
import { Tool } from "effect/ai"
import { ToolContract, ToolFailure, ToolSettings } from "effect-emissary"
import { createHash } from "node:crypto"
import { test } from "../test.ts"

const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false
}

describe("ToolContract", () => {
  test("TOOL-6 a Schema is exported closed, in its JSON form", function* () {
    const contract = yield* ToolContract.fromTool(
      Tool.make("t", {
        description: "d",
        parameters: Schema.Struct({ at: Schema.DateTimeUtc, nested: Schema.Struct({ n: Schema.Int }) }),
        success: Schema.Struct({ ok: Schema.Boolean })
      })
    )
    assert.deepInclude(contract, { name: "t", description: "d", approval: "never", annotations: {} })
    assert.strictEqual(contract.parameters["additionalProperties"], false)
    assert.deepStrictEqual(contract.parameters["required"], ["at", "nested"])
    assert.deepInclude(contract.success, { type: "object" })
    assert.notProperty(contract, "failure")
  })

  test("no parameters is a closed object; Void is null; an uninformative schema is left out", function* () {
    const contract = yield* ToolContract.fromTool(Tool.make("t"))
    assert.deepInclude(contract.parameters, { type: "object", additionalProperties: false })
    assert.deepStrictEqual(contract.success, { type: "null" })
    assert.notProperty(yield* ToolContract.fromTool(Tool.dynamic("d", { parameters })), "success")
  })

  test("CODEC-4 raw JSON Schema is kept as it is", function* () {
    const contract = yield* ToolContract.fromTool(Tool.dynamic("t", { parameters }))
    assert.strictEqual(contract.parameters, parameters)
    const typed = Tool.dynamic("t", { parameters: Schema.Struct({ city: Schema.String }) })
    assert.deepStrictEqual((yield* ToolContract.fromTool(typed)).parameters, parameters)
  })

  test("holds timeout, approval, and the hints that were set", function* () {
    const tool = ToolSettings.timeout(Tool.make("t", { needsApproval: () => true }), "3 seconds")
      .annotate(Tool.Title, "T")
      .annotate(Tool.Destructive, false)
      .annotate(Tool.Strict, true)
    const contract = yield* ToolContract.fromTool(tool)
    assert.strictEqual(Duration.toSeconds(contract.timeout), 3)
    assert.strictEqual(contract.approval, "dynamic")
    assert.deepStrictEqual(contract.annotations, { title: "T", destructive: false, strict: true })
  })

  test("TRUST-2 the digest covers everything but the description, whatever the order of keys", function* () {
    const digest = (over: object) =>
      Effect.map(ToolContract.make({ name: "t", parameters, ...over }), (contract) => contract.digest)
    const one = yield* digest({})
    const reordered = Object.fromEntries(Object.entries(parameters).toReversed())
    assert.strictEqual(yield* digest({ parameters: reordered, description: "d", timeout: "10 seconds" }), one)
    const changes = [
      { name: "u" },
      { parameters: { ...parameters, required: [] } },
      { success: {} },
      { failure: {} },
      { timeout: "11 seconds" },
      { timeout: Duration.infinity },
      { approval: "always" },
      { annotations: { readonly: true } }
    ]
    const others = yield* Effect.forEach(changes, digest)
    assert.strictEqual(new Set([one, ...others]).size, 1 + changes.length)
  })

  test("TRUST-2 the digest is the SHA-256 of the canonical JSON of its parts", function* () {
    const sha256 = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`
    assert.strictEqual(
      (yield* ToolContract.make({ name: "t", parameters: {}, timeout: "2 seconds" })).digest,
      sha256(`{"annotations":{},"approval":"never","name":"t","parameters":{},"timeout":2000}`)
    )
    const annotations = { title: "T", strict: true }
    const all = { success: { a: 1 }, failure: {}, approval: "always", annotations, timeout: Duration.infinity } as const
    const parts = `"failure":{},"name":"t","parameters":{},"success":{"a":1},"timeout":"infinity"`
    assert.strictEqual(
      (yield* ToolContract.make({ name: "t", parameters: {}, ...all })).digest,
      sha256(`{"annotations":{"strict":true,"title":"T"},"approval":"always",${parts}}`)
    )
  })

  test("is read off a tool once", function* () {
    const tool = Tool.make("t")
    assert.strictEqual(yield* ToolContract.fromTool(tool), yield* ToolContract.fromTool(tool))
  })

  test("refuses names and timeouts that make no sense", function* () {
    for (const name of ["", " ", "__proto__", "toString", "\ud800"]) {
      assert.strictEqual((yield* Effect.flip(ToolContract.make({ name, parameters }))).part, "name")
    }
    for (const timeout of [0, -1, Number.NaN]) {
      const error = yield* Effect.flip(ToolContract.make({ name: "t", parameters, timeout }))
      assert.strictEqual(error.part, "timeout")
    }
  })

  it("TOOL-3 ToolFailure knows its own, whose type and message are as given", () => {
    assert.isTrue(ToolFailure.is(ToolFailure.text("a")))
    assert.isFalse(ToolFailure.is({ _tag: "ToolFailure", type: "execution_error", message: "a" }))
    const fields = ({ message, type, value }: ToolFailure) => [type, message, value]
    assert.deepStrictEqual(fields(ToolFailure.error("a")), ["execution_error", "a", undefined])
    assert.deepStrictEqual(fields(ToolFailure.text({ a: 1 }, { type: "x" })), ["x", `{"a":1}`, undefined])
    assert.deepStrictEqual(fields(ToolFailure.json("a")), ["execution_error", "a", "a"])
    assert.deepStrictEqual(fields(ToolFailure.json([1], { type: "x" })), ["x", "[1]", [1]])
  })
})
