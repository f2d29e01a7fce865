import { assert, describe } from "@effect/vitest"
import { Context, Effect, Result, Schema } from "effect"
import { AnthropicStructuredOutput, LanguageModel, OpenAiStructuredOutput, Tool, Toolkit } from "effect/ai"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import { ToolContract } from "effect-emissary"
import { bind, search } from "./support.ts"
import { test } from "../test.ts"

const named = (...names: ReadonlyArray<string>) =>
  Effect.forEach(names, (name) =>
    Effect.orDie(Effect.flatMap(ToolContract.make({ name, parameters: { type: "object" } }), boundTool.makeStub))
  ).pipe(Effect.flatMap(boundTool.makeSet))

describe("TOOL-8 names", () => {
  const accepted = /^[A-Za-z0-9_-]{1,64}$/

  test("canonical names are kept, provider names are acceptable to providers", function* () {
    const names = ["plain", "a/b", "Ünïcode tool!", "dots.and.more", "x".repeat(80), `${"y".repeat(70)}/1`, "🙂", "🙃"]
    const set = yield* named(...names)
    assert.deepStrictEqual(Array.from(set.tools.keys()), names)
    assert.strictEqual(set.providerName("a/b"), "a__b")
    for (const name of names) {
      assert.match(set.providerName(name), accepted)
      assert.strictEqual(set.canonicalName(set.providerName(name)), name)
      assert.property(set.toolkit.tools, set.providerName(name))
    }
  })

  test("unknown names are kept as the model sent them", function* () {
    const set = yield* named("a/b")
    for (const name of ["a/b", "toString"]) assert.strictEqual(set.canonicalName(name), name)
  })

  test("names that the set does not know are acceptable to providers, too", function* () {
    const { providerName } = yield* named("a/b")
    assert.deepStrictEqual(["un/known", "toString"].map(providerName), ["un__known", "toString"])
    for (const name of ["functions.get", "\ud800", "x".repeat(100)]) assert.match(providerName(name), accepted)
  })

  test("names that collide are refused, both named", function* () {
    const collision = yield* Effect.flip(named("a/b", "c", "a__b"))
    assert.deepStrictEqual(collision.names, ["a/b", "a__b"])
    for (const name of collision.names) assert.include(collision.message, `"${name}"`)
    assert.include((yield* Effect.flip(named("same", "same"))).message, "same")
  })

  test.prop(
    "names are injective: a set is made, with as many provider names, or refused",
    [Schema.Array(Schema.NonEmptyString)],
    function* ([names]) {
      const made = yield* Effect.result(named(...names.map((name) => `t${name.replaceAll(/\p{Surrogate}/gu, "")}`)))
      if (Result.isFailure(made)) return
      const provider = Array.from(made.success.tools.keys(), made.success.providerName)
      assert.strictEqual(new Set(provider).size, names.length)
      for (const name of provider) assert.match(name, accepted)
    }
  )

  test("long names that differ at the end only stay apart", function* () {
    const long = "x".repeat(64)
    assert.strictEqual((yield* named(long)).providerName(long), long)
    const set = yield* named(`${"x".repeat(80)}a`, `${"x".repeat(80)}b`)
    assert.strictEqual(set.tools.size, 2)
  })
})

describe("DESIGN 5.5 what the model is offered", () => {
  const closed = (required: ReadonlyArray<string>) => ({
    type: "object",
    properties: { city: { type: "string" } },
    required,
    additionalProperties: false
  })

  test("the contract's schema unchanged, a Schema of it, and Strict only in strict form", function* () {
    const strict = closed(["city"])
    const loose = closed([])
    const toolkit = Toolkit.make(
      Tool.dynamic("strict", { description: "d", parameters: strict }).annotate(Tool.Idempotent, true),
      Tool.dynamic("loose", { parameters: loose }).annotate(Tool.Strict, true),
      Tool.dynamic("off", { parameters: strict }).annotate(Tool.Strict, false)
    )
    const set = yield* bind(toolkit, { strict: () => Effect.void, loose: () => Effect.void, off: () => Effect.void })
    const offered = (name: string) => set.toolkit.tools[name]!
    assert.strictEqual(Tool.getJsonSchema(offered("strict")), strict)
    assert.strictEqual(offered("strict").description, "d")
    assert.isTrue(Context.get(offered("strict").annotations, Tool.Idempotent))
    const modes = ["strict", "loose", "off"].map((name) => Tool.getStrictMode(offered(name)))
    assert.deepStrictEqual(modes, [true, false, false])
    assert.isTrue(Schema.isSchema(offered("strict").parametersSchema))
    assert.strictEqual(Schema.decodeExit(offered("strict").parametersSchema)({})._tag, "Failure")
  })

  test("the adapters of core read the arguments that a call accepts, of open and recursive parameters too", function* () {
    const city = { type: "string" }
    const near = { type: "array", items: { $ref: "#/$defs/place" } }
    const place = { type: "object", properties: { city, near }, required: ["city"] }
    const parameters = { ...place, $defs: { place } }
    const set = yield* boundTool.makeSet([
      yield* boundTool.makeStub(yield* ToolContract.make({ name: "t", parameters }))
    ])
    const schema = set.toolkit.tools["t"]!.parametersSchema
    const { toCodecAnthropic } = AnthropicStructuredOutput
    for (const toCodec of [OpenAiStructuredOutput.toCodecOpenAI, toCodecAnthropic]) {
      const decode = Schema.decodeUnknownExit(toCodec(schema).codec)
      const values = [{ city: "a" }, { city: "a", near: [{ city: "b" }] }, { city: 1 }, { city: "a", near: [{}] }]
      assert.deepStrictEqual(
        values.map((value) => decode(value)._tag),
        ["Success", "Success", "Failure", "Failure"]
      )
    }
  })

  test("approvals of core are not offered, so core never asks or runs", function* () {
    const set = yield* bind(Toolkit.make(Tool.make("t", { needsApproval: true })), { t: () => Effect.void })
    assert.isUndefined(set.toolkit.tools["t"]?.needsApproval)
  })

  test("DESIGN 5.5 a tool is offered as one object for all of its runs, which models cache by", function* () {
    const bound = yield* boundTool.makeStub(yield* ToolContract.make({ name: "a/b", parameters: closed(["city"]) }))
    const [one, other] = [yield* boundTool.makeSet([bound]), yield* boundTool.makeSet([bound])]
    assert.strictEqual(one.toolkit.tools["a__b"], other.toolkit.tools["a__b"])
  })

  test("provider-defined tools are offered untouched", function* () {
    const set = yield* bind(Toolkit.make(search), {})
    assert.strictEqual<unknown>(set.toolkit.tools["search"], search)
    const odd = Tool.providerDefined({ id: "acme.odd", customName: "web/search", providerName: "web.search" })(
      undefined
    )
    const kept = yield* bind(Toolkit.make(odd), {})
    assert.deepStrictEqual(Object.keys(kept.toolkit.tools), ["web/search"])
    assert.strictEqual(kept.providerName("web/search"), "web/search")
  })

  test("a language model takes the toolkit, and answers with unresolved calls", function* () {
    const set = yield* bind(Toolkit.make(Tool.make("a/b", { parameters: Schema.Struct({ n: Schema.Int }) })), {
      "a/b": () => Effect.die("must not run")
    })
    const model = yield* LanguageModel.make({
      generateText: () =>
        Effect.succeed([
          { type: "tool-call", id: "1", name: "a__b", params: { n: "wrong" } },
          { type: "tool-call", id: "2", name: "invented", params: {} }
        ]),
      streamText: () => Effect.die("unused") as never
    })
    const response = yield* LanguageModel.generateText({
      prompt: "go",
      toolkit: set.toolkit,
      disableToolCallResolution: true,
      toolCallValidation: "deferred"
    }).pipe(Effect.provideService(LanguageModel.LanguageModel, model))
    const [wrong, invented] = response.toolCalls.map((call) => [set.canonicalName(call.name), call.params])
    assert.deepStrictEqual(wrong, ["a/b", { n: "wrong" }])
    assert.deepStrictEqual(invented, ["invented", {}])
  })
})
