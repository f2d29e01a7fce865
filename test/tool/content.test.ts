import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { Prompt } from "effect/ai"
import * as modelMessages from "#src/conversation/internal/modelMessages.ts"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import { ToolResult } from "effect-emissary"

const json = (value: unknown) => JSON.parse(JSON.stringify(value))

const roundTrip = <A>(schema: Schema.Codec<A>, value: A) =>
  Schema.decodeUnknownSync(schema)(json(Schema.encodeSync(schema)(value)))

const picture = ToolResult.filePart({ mediaType: "image/png", data: "AQID", fileName: "a.png" })

describe("Content", () => {
  it.prop("L3 content survives JSON", [ToolResult.Content], ([content]) => {
    assert.deepStrictEqual(roundTrip(ToolResult.Content, content), json(content))
  })

  it.prop("L3 results survive JSON", [ToolResult.ToolResult], ([result]) => {
    assert.deepStrictEqual(roundTrip(ToolResult.ToolResult, result), json(result))
  })

  it("parts of a prompt come back as they were", () => {
    const linked = ToolResult.filePart({ mediaType: "image/png", data: new URL("https://example.com/a.png") })
    for (const part of [ToolResult.textPart("hello", { anthropic: { signature: "s" } }), picture, linked])
      assert.deepStrictEqual(boundTool.fromPromptPart(modelMessages.toPromptPart(part)), part)
  })

  it("parts hold what they were made of, and nothing else", () => {
    const options = { acme: { signature: "s" } }
    assert.deepStrictEqual(ToolResult.textPart("a"), { type: "text", text: "a" })
    assert.deepStrictEqual(ToolResult.textPart("a", options), { type: "text", text: "a", options })
    const plain = { type: "file", mediaType: "a/b", data: { type: "base64", base64: "AQID" } } as const
    const data = new Uint8Array([1, 2, 3])
    assert.deepStrictEqual(ToolResult.filePart({ mediaType: "a/b", data }), plain)
    const named = ToolResult.filePart({ mediaType: "a/b", data, fileName: "c", options })
    assert.deepStrictEqual(named, { ...plain, fileName: "c", options })
    assert.strictEqual(ToolResult.text([plain, named]), "[a/b omitted]\n[a/b c omitted]")
  })

  it("data URLs become their bytes, other text is base64", () => {
    const data = (input: string | Uint8Array | URL) => ToolResult.filePart({ mediaType: "image/png", data: input }).data
    assert.deepStrictEqual(data("data:image/png;base64,AQID"), { type: "base64", base64: "AQID" })
    assert.deepStrictEqual(data(new URL("data:image/png;base64,AQID")), { type: "base64", base64: "AQID" })
    assert.deepStrictEqual(data("data:text/plain,hi"), { type: "url", url: "data:text/plain,hi" })
    assert.deepStrictEqual(data("AQID"), { type: "base64", base64: "AQID" })
    for (const url of ["http://a", "HTTPS://a", `data:${"x".repeat(512)};base64,AQID`, "DATA:,a;base64,AQID"])
      assert.deepStrictEqual(data(url), { type: "url", url })
    for (const base64 of ["xhttp://a", "xdata:a", "ftp://a"])
      assert.deepStrictEqual(data(base64), { type: "base64", base64 })
  })

  it("a URL that does not parse stays text", () => {
    const part: ToolResult.FilePart = { type: "file", mediaType: "x/y", data: { type: "url", url: "not a url" } }
    const sent = modelMessages.toPromptPart(part)
    assert(sent.type === "file" && sent.data === "not a url")
  })

  it("TOOL-2 providers receive the text that toText returns", () => {
    const parts = [ToolResult.textPart("a"), picture]
    const sent = Prompt.toolModelOutputToText(parts.map((part) => modelMessages.toPromptPart(part)))
    assert.strictEqual(ToolResult.text(parts), sent)
  })
})

describe("ToolResult", () => {
  it("TOOL-2 a string is its own text, anything else compact JSON", () => {
    assert.deepStrictEqual(ToolResult.success("sunny").content, [ToolResult.textPart("sunny")])
    assert.deepStrictEqual(ToolResult.success({ a: [1, null] }).content, [ToolResult.textPart(`{"a":[1,null]}`)])
    assert.deepStrictEqual(ToolResult.success(null).content, [ToolResult.textPart("null")])
  })

  it("TOOL-2 of a failure its message, else compact JSON", () => {
    assert.strictEqual(ToolResult.text(ToolResult.failure("x", "went wrong", { a: 1 })), "went wrong")
    assert.strictEqual(ToolResult.text(ToolResult.failure("x", "", { a: 1 })), `{"a":1}`)
    assert.deepStrictEqual(ToolResult.content(ToolResult.failure("x", "")), [ToolResult.textPart("")])
    assert.deepStrictEqual(ToolResult.failure("x", "a"), { _tag: "Failure", type: "x", message: "a" })
  })

  it("content cannot be empty", () => {
    const decode = Schema.decodeUnknownExit(ToolResult.ToolResult)
    assert.strictEqual(decode({ _tag: "Success", content: [], value: 1 })._tag, "Failure")
    assert.strictEqual(decode({ _tag: "Success", content: [ToolResult.textPart("")], value: 1 })._tag, "Success")
  })
})
