import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import { Context, Duration, pipe, Schema } from "effect"
import { Tool } from "effect/ai"
import { ToolFailure, ToolSettings } from "effect-emissary"

const user = Tool.make("user", { parameters: Schema.Struct({ id: Schema.String }), success: Schema.Int })
const dynamic = Tool.dynamic("dynamic", { parameters: { type: "object" } })
const provider = Tool.providerDefined({
  id: "acme.search",
  customName: "search",
  providerName: "web_search",
  args: Schema.Struct({ depth: Schema.Int })
})({ depth: 1 })

describe("TOOL-1 ToolSettings", () => {
  it("timeout keeps every kind of tool what it is", () => {
    assert.isTrue(Tool.isUserDefined(ToolSettings.timeout(user, "1 second")))
    assert.isTrue(Tool.isDynamic(ToolSettings.timeout(dynamic, "1 second")))
    const search = ToolSettings.timeout(provider, "1 second")
    assert.isTrue(Tool.isProviderDefined(search))
    assert.deepStrictEqual([search.id, search.providerName, search.args], ["acme.search", "web_search", { depth: 1 }])
    assert.strictEqual(ToolSettings.timeout(dynamic, "1 second").jsonSchema, dynamic.jsonSchema)
  })

  it("timeout keeps every tool's type, in both forms", () => {
    expectTypeOf(ToolSettings.timeout(user, "1 second")).toEqualTypeOf<typeof user>()
    expectTypeOf(ToolSettings.timeout(dynamic, "1 second")).toEqualTypeOf<typeof dynamic>()
    expectTypeOf(ToolSettings.timeout(provider, "1 second")).toEqualTypeOf<typeof provider>()
    expectTypeOf(pipe(user, ToolSettings.timeout("1 second"))).toEqualTypeOf<typeof user>()
    expectTypeOf(pipe(provider, ToolSettings.timeout(Duration.infinity))).toEqualTypeOf<typeof provider>()
  })

  it("timeout leaves the given tool alone and keeps its other annotations", () => {
    const annotated = user.annotate(Tool.Idempotent, true)
    const limited = ToolSettings.timeout(annotated, "3 seconds")
    const timeouts = [annotated, limited].map(({ annotations }) => Context.get(annotations, ToolSettings.Timeout))
    assert.deepStrictEqual(timeouts, ["10 seconds", "3 seconds"])
    assert.isTrue(Context.get(limited.annotations, Tool.Idempotent))
  })

  it("the annotation and the function agree, infinity included", () => {
    const annotated = user.annotate(ToolSettings.Timeout, Duration.infinity)
    assert.deepStrictEqual(ToolSettings.timeout(user, Duration.infinity).annotations, annotated.annotations)
    assert.strictEqual(Context.get(annotated.annotations, ToolSettings.Timeout), Duration.infinity)
  })
})

describe("TOOL-2 ToolFailure", () => {
  const json = Schema.toCodecJson(ToolFailure)

  it("its type is execution_error unless another one is passed", () => {
    const encoded = { _tag: "ToolFailure", type: "execution_error", message: "no" }
    assert.deepStrictEqual(Schema.encodeSync(json)(ToolFailure.error("no")), encoded)
    assert.strictEqual(ToolFailure.error("no", { type: "not_found" }).type, "not_found")
    assert.strictEqual(Schema.decodeSync(json)({ _tag: "ToolFailure", message: "no" }).type, "execution_error")
  })

  it("text and json take any value", () => {
    assert.strictEqual(ToolFailure.text({ a: 1 }).message, `{"a":1}`)
    assert.strictEqual(ToolFailure.text("plain").message, "plain")
    assert.deepStrictEqual(ToolFailure.json({ a: 1 }).value, { a: 1 })
  })
})
