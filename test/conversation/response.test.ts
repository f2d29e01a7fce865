import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, DateTime, Effect, Option, Result, Schema } from "effect"
import * as modelMessages from "#src/conversation/internal/modelMessages.ts"
import { Agent, Conversation, Message, ToolResult } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { Prompt, Response } from "effect/ai"
import { wellFormed } from "../well-formed.ts"
import { test } from "../test.ts"

const usage = new Response.Usage({
  inputTokens: { uncached: 5, total: 7, cacheRead: 2, cacheWrite: undefined },
  outputTokens: { total: 3, text: 2, reasoning: 1 }
})

const finish = (reason: Response.FinishReason) => Response.makePart("finish", { reason, usage, response: undefined })

const collect = (parts: Iterable<Response.AnyPart>) => {
  const collected = modelMessages.accumulator()
  for (const part of parts) collected.add(part)
  collected.end()
  return collected.result()
}

const content = (...parts: ReadonlyArray<Response.AnyPart>) => collect(parts).content

const call = (id: string, params: unknown, metadata: Response.ProviderMetadata = {}) =>
  Response.makePart("tool-call", { id, name: "f", params, providerExecuted: false, metadata })

const flags = { isFailure: false, providerExecuted: true, preliminary: false }

/** The result of a tool of the provider. */
const result = (result: Schema.Json, over?: object) =>
  Response.makePart("tool-result", { id: "p", name: "f", result, encodedResult: result, ...flags, ...over })

const source = Schema.decodeUnknownSync(Schema.Union([Response.UrlSourcePart, Response.DocumentSourcePart]))

const paramsStart = (id: string) => Response.makePart("tool-params-start", { id, name: "f", providerExecuted: false })

const paramsDelta = (id: string, delta: string) => Response.makePart("tool-params-delta", { id, delta })

// The same content, as a whole and in pieces

const Metadata = Schema.Union([
  Schema.Struct({}),
  Schema.Struct({ openai: Schema.Struct({ itemId: Schema.Literals(["i1", "i2"]) }) }),
  Schema.Struct({ anthropic: Schema.Struct({ signature: Schema.String }) })
])

const Params = Schema.Union([
  Schema.Struct({ a: Schema.optionalKey(Schema.Int), b: Schema.optionalKey(Schema.String) }),
  Schema.Literals([`{ "a": 1 }`, "{bad", ""])
])

const Piece = Schema.Union([
  Schema.Struct({
    type: Schema.Literals(["text", "reasoning"]),
    pieces: Schema.Array(Schema.String),
    metadata: Metadata
  }),
  Schema.Struct({ type: Schema.Literal("call"), params: Params, provider: Schema.Boolean, metadata: Metadata }),
  Schema.Struct({ type: Schema.Literal("file"), metadata: Metadata })
])

type Piece = typeof Piece.Type

const whole = (pieces: ReadonlyArray<Piece>): ReadonlyArray<Response.AnyPart> => [
  ...pieces.map((piece, index): Response.AnyPart => {
    const { metadata } = piece
    switch (piece.type) {
      case "text":
      case "reasoning":
        return Response.makePart(piece.type, { text: piece.pieces.join(""), metadata })
      case "file":
        return Response.makePart("file", { mediaType: "image/png", data: new Uint8Array([index]), metadata })
      case "call":
        return Response.makePart("tool-call", {
          id: `c${index}`,
          name: "f",
          params: piece.params,
          providerExecuted: piece.provider,
          metadata
        })
    }
  }),
  finish("tool-calls")
]

/** Every block with a character begins before the first one ends, as parallel blocks do. */
const streamed = (pieces: ReadonlyArray<Piece>, withStarts: boolean): ReadonlyArray<Response.AnyPart> => {
  const starts: Array<Response.AnyPart> = []
  const rest: Array<Response.AnyPart> = []
  for (const [index, part] of whole(pieces).entries()) {
    const piece = pieces[index]
    const id = `c${index}`
    if (piece === undefined || piece.type === "file") {
      ;(piece === undefined ? rest : starts).push(part)
    } else if (piece.type === "call") {
      starts.push(Response.makePart("tool-params-start", { id, name: "f", providerExecuted: piece.provider }))
      const text = typeof piece.params === "string" ? piece.params : JSON.stringify(piece.params)
      for (const delta of text) rest.push(paramsDelta(id, delta))
      rest.push(Response.makePart("tool-params-end", { id }), part)
    } else {
      const type = piece.type
      const [first, ...others] = piece.pieces.filter((delta) => delta !== "")
      if (withStarts) starts.push(Response.makePart(`${type}-start`, { id }))
      if (first !== undefined) starts.push(Response.makePart(`${type}-delta`, { id, delta: first }))
      for (const delta of others) rest.push(Response.makePart(`${type}-delta`, { id, delta }))
      const end = Response.makePart(`${type}-end`, { id, metadata: piece.metadata })
      if (first === undefined) starts.push(end)
      else rest.push(end)
    }
  }
  return [...starts, ...rest]
}

const pieces = Arbitrary.array(Arbitrary.schema(Piece), { maxLength: 6 })

describe("CONV-3 responses become assistant messages", () => {
  it.prop(
    "L5 the same content becomes the same message, streamed or not",
    [pieces, Schema.Boolean],
    ([pieces, starts]) => {
      assert.deepStrictEqual(collect(streamed(pieces, starts)), collect(whole(pieces)))
    }
  )

  test.prop("and what is kept goes back to the provider as it came", [pieces], function* ([pieces]) {
    // Providers refuse reasoning with nothing after it
    const all = whole([...pieces, { type: "file", metadata: {} }])
    const answered = collect(all)
    const message = yield* Message.assistant(answered.content, answered)
    const self = Result.getOrThrow(Conversation.append(Conversation.empty, message))
    const options = (prompt: Prompt.Prompt) =>
      prompt.content
        .flatMap((message) => (message.role === "assistant" ? message.content : []))
        .filter((part) => (part.type !== "text" && part.type !== "reasoning") || part.text.trim() !== "")
        .map((part) => [part.type, part.options])
    const core = Prompt.fromResponseParts(all)
    assert.deepStrictEqual(options(Conversation.toPrompt(self)), wellFormed(options(core)))
  })

  it("HOUSE-12 thoughts without text are before the call that needs their signature, whenever they end", () => {
    const metadata = { test: { signature: "s" } }
    const start = Response.makePart("reasoning-start", { id: "r" })
    const signed = Response.makePart("reasoning-start", { id: "r", metadata })
    const delta = Response.makePart("reasoning-delta", { id: "r", delta: "", metadata })
    const end = Response.makePart("reasoning-end", { id: "r" })
    for (const thoughts of [[signed], [start, delta]]) {
      const kinds = content(...thoughts, call("c", {}), end).map(({ type }) => type)
      assert.deepStrictEqual(kinds, ["reasoning", "tool-call"])
    }
  })

  it("usage, model and finish reason", () => {
    const timestamp = DateTime.makeUnsafe(0)
    const metadata = Response.makePart("response-metadata", { id: "r1", modelId: "gpt-5.2", timestamp })
    assert.deepStrictEqual(collect([metadata, Response.makePart("text", { text: "Hi" }), finish("stop")]), {
      content: [{ type: "text", text: "Hi" }],
      usage: { inputTokens: 7, outputTokens: 3, cacheReadTokens: 2, reasoningTokens: 1 },
      finishReason: "stop",
      model: "gpt-5.2",
      response: { id: "r1", createdAt: timestamp },
      approvals: [],
      errors: []
    })
  })

  test("the answer of a run has them, an id, and may be empty", function* () {
    const usage = { inputTokens: 7, outputTokens: 0 }
    const parts = [{ type: "response-metadata", modelId: "gpt-5.2" } as const]
    const { conversation } = yield* Agent.make("one")
      .run("Go")
      .pipe(
        Effect.provide([ScriptedModel.layer([{ parts, finishReason: "length", usage }]), Message.layerSequentialIds()])
      )
    const answer = Option.getOrThrow(Conversation.lastAssistantMessage(conversation))
    assert.strictEqual(Message.text(answer), "")
    assert.deepInclude(answer, { id: "m3", model: "gpt-5.2", finishReason: "length", usage, content: [] })
  })

  it("AGENT-3 deltas without a start open a block, unended blocks are kept", () => {
    assert.deepStrictEqual(
      content(
        Response.makePart("reasoning-delta", { id: "r", delta: "Hm", metadata: { anthropic: { signature: "s" } } }),
        Response.makePart("text-delta", { id: "t", delta: "Hel" }),
        Response.makePart("text-delta", { id: "t", delta: "lo" }),
        paramsStart("a"),
        paramsDelta("a", `{"q":"x`)
      ),
      [
        { type: "reasoning", text: "Hm", options: { anthropic: { signature: "s" } } },
        { type: "text", text: "Hello" },
        { type: "tool-call", id: "a", name: "f", arguments: `{"q":"x`, text: `{"q":"x` }
      ]
    )
  })

  it("AGENT-3 metadata of start, deltas, end and call is joined, and empty signed blocks are kept", () => {
    const block = (type: "text" | "reasoning") => [
      Response.makePart(`${type}-start`, { id: "1", metadata: { openai: { itemId: "i" } } }),
      Response.makePart(`${type}-delta`, { id: "1", delta: "", metadata: { openai: { phase: "p" }, google: null } }),
      Response.makePart(`${type}-end`, { id: "1", metadata: { openai: { done: true } } })
    ]
    for (const type of ["text", "reasoning"] as const) {
      assert.deepStrictEqual(content(...block(type)), [
        { type, text: "", options: { openai: { itemId: "i", phase: "p", done: true }, google: null } }
      ])
    }
    const [openai, google] = [{ itemId: "i" }, { thoughtSignature: "s" }]
    assert.deepStrictEqual(content({ ...paramsStart("a"), metadata: { openai } }, call("a", {}, { google })), [
      { type: "tool-call", id: "a", name: "f", arguments: {}, options: { openai, google } }
    ])
  })

  it("argument text is kept as received, where it holds more than the arguments", () => {
    for (const [parts, args, text] of [
      [[call("a", `{ "n": 1 }`)], { n: 1 }, `{ "n": 1 }`],
      [[call("a", "")], {}, ""],
      [[call("a", undefined)], {}, undefined],
      [[call("a", "{bad")], "{bad", "{bad"],
      [[paramsStart("a"), paramsDelta("a", `{ "n": 1 }`), call("a", { n: 1 })], { n: 1 }, `{ "n": 1 }`],
      // Repaired by the adapter: the text is no longer what was called
      [[paramsDelta("a", `{"n":`), call("a", { n: 1 })], { n: 1 }, undefined]
    ] as const) {
      const [part] = content(...parts)
      assert(part?.type === "tool-call")
      assert.deepStrictEqual([part.arguments, part.text], [args, text])
    }
  })

  test("L2 no answer of a model stops a conversation from being stored", function* () {
    const deep = "[".repeat(60) + "]".repeat(60)
    const wide = `[${"0,".repeat(150_000)}0]`
    for (const hostile of [`{"__proto__":{}}`, `{"a":{"constructor":{"prototype":1}}}`, deep]) {
      const provider = Response.makePart("tool-call", { id: "p", name: "f", params: {}, providerExecuted: true })
      const returned = result(JSON.parse(hostile))
      const collected = collect([call("a", JSON.parse(hostile)), call("b", hostile), provider, returned])
      for (const part of collected.content.slice(0, 2)) {
        assert(part.type === "tool-call")
        assert.deepStrictEqual([part.arguments, part.text], [hostile, hostile])
      }
      const message = yield* Message.assistant(collected.content, collected)
      yield* Conversation.codec.encode(Result.getOrThrow(Conversation.append(Conversation.empty, message)))
    }
    assert.lengthOf(content(call("a", wide)), 1)
    const bottomless = "[".repeat(100_000) + "]".repeat(100_000)
    assert.lengthOf(content(call("a", JSON.parse(bottomless))), 1)
  })

  it("results of the provider are recorded; previews and our own results are not", () => {
    const options = { anthropic: { block: "b" } }
    const recorded = content(
      result(1, { preliminary: true }),
      result(2, { providerExecuted: false }),
      result({ hits: 1 }, { metadata: options })
    )
    assert.deepStrictEqual(recorded, [
      { type: "tool-result", id: "p", name: "f", result: ToolResult.success({ hits: 1 }), options }
    ])
  })

  it("error parts and requests for approval are reported", () => {
    assert.deepStrictEqual(collect([Response.makePart("error", { error: "overloaded" })]).errors, ["overloaded"])
    const request = Response.makePart("tool-approval-request", { approvalId: "x", toolCallId: "p" })
    assert.deepStrictEqual(collect([request]).approvals, [{ approvalId: "x", callId: "p" }])
  })

  it("SOUND-5 sources keep their place and their metadata", () => {
    const metadata = { google: { chunk: 1 } }
    const url = new URL("https://example.org/paper")
    const recorded = content(
      Response.makePart("text", { text: "It says so." }),
      source({ type: "source", sourceType: "url", id: "s1", url: url.href, title: "A paper", metadata }),
      source({
        type: "source",
        sourceType: "document",
        id: "s2",
        mediaType: "text/plain",
        title: "A file",
        fileName: "a"
      })
    )
    assert.deepStrictEqual(recorded, [
      { type: "text", text: "It says so." },
      { type: "source", id: "s1", title: "A paper", data: { type: "url", url: url.href }, options: metadata },
      { type: "source", id: "s2", title: "A file", data: { type: "document", mediaType: "text/plain", fileName: "a" } }
    ])
  })

  it("SOUND-5 the metadata of a response and of its finish are joined", () => {
    const about = collect([
      Response.makePart("response-metadata", { id: "r1", metadata: { openai: { tier: "flex" } } }),
      Response.makePart("finish", {
        reason: "stop",
        usage,
        response: undefined,
        metadata: { openai: { hash: 1 }, google: {} }
      })
    ])
    assert.deepStrictEqual(about.response, { id: "r1", metadata: { openai: { tier: "flex", hash: 1 }, google: {} } })
  })

  it("SOUND-5 a value that is not JSON becomes a text that shows it, in its own call or result only", () => {
    const text = `{"n":1e400}`
    const recorded = content(
      call("a", { at: new Date(0) }),
      call("b", JSON.parse(text)),
      paramsStart("c"),
      paramsDelta("c", text),
      call("c", JSON.parse(text)),
      call("d", text),
      call("e", { n: 1 }),
      result(JSON.parse(text))
    )
    const args = recorded.map((part) => (part.type === "tool-call" ? part.arguments : part.type))
    assert.deepStrictEqual(args, [
      `{"at":1970-01-01T00:00:00.000Z}`,
      `{"n":Infinity}`,
      text,
      text,
      { n: 1 },
      "tool-result"
    ])
    const last = recorded.at(-1)
    assert(last?.type === "tool-result")
    assert.deepStrictEqual(last.result, ToolResult.success(`{"n":Infinity}`))
  })

  it("L10 deltas are collected in linear time", () => {
    const accumulator = modelMessages.accumulator()
    for (let i = 0; i < 100_000; i++) accumulator.add(Response.makePart("text-delta", { id: "t", delta: "x" }))
    const [part] = accumulator.result().content
    assert(part?.type === "text" && part.text.length === 100_000)
  })
})
