import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { assert, describe } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, AgentError, AgentEvent, Conversation } from "effect-emissary"
import { AiSdk } from "effect-emissary/ai-sdk"
import { test } from "../test.ts"

/** A model of a server that answers with these responses, one after another. */
const model = (...responses: ReadonlyArray<() => Response>) => {
  const asked: Array<string> = []
  const baseURL = "https://ada:pa55word@models.example.test/api/v1"
  const client = createOpenAICompatible({
    name: "house",
    baseURL,
    queryParams: { sig: "0123456789" },
    fetch: (_, init) => {
      asked.push(String(init?.body))
      return Promise.resolve((responses[asked.length - 1] ?? responses[responses.length - 1] ?? Response.error)())
    }
  })
  return { asked, layer: AiSdk.model(client.chatModel("m")) }
}

const json =
  (body: unknown, status = 200) =>
  () =>
    Response.json(body, { status })

const message = (content: object, finish_reason = "stop") =>
  json({
    id: "1",
    created: 0,
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", ...content }, finish_reason }]
  })

const events = (...data: ReadonlyArray<unknown>) => {
  const text = [...data.map((one) => JSON.stringify(one)), "[DONE]"].map((one) => `data: ${one}\n\n`).join("")
  return () => new Response(text, { headers: { "content-type": "text/event-stream" } })
}

const delta = (delta: object, finish_reason: string | null = null) => ({
  id: "1",
  created: 0,
  model: "m",
  choices: [{ index: 0, delta, finish_reason }]
})

const plain = Agent.make("plain", { retry: { times: 0 } })

const errorsOf = Effect.fnUntraced(function* (...responses: ReadonlyArray<() => Response>) {
  const whole = model(...responses)
  const streamed = model(...responses)
  const errors = [
    yield* Effect.flip(Effect.provide(plain.run("Go"), whole.layer)),
    yield* Effect.flip(Effect.provide(AgentEvent.result(plain.stream("Go")), streamed.layer))
  ]
  return errors.map((error) => ({ message: error.message, cause: String(AgentError.causeOf(error.reason)) }))
})

/** The arguments that a tool without parameters gets, and the ones in the next request, whole and streamed. */
const argumentsOf = Effect.fnUntraced(function* (text: string) {
  const ran: Array<unknown> = []
  const kit = Toolkit.make(
    Tool.make("t", { parameters: Schema.Struct({ a: Schema.optionalKey(Schema.Finite) }), success: Schema.String })
  )
  const agent = Agent.make("a", { toolkit: kit })
  const handlers = kit.toLayer({ t: (given) => Effect.sync(() => (ran.push(given), "ok")) })
  const call = { index: 0, id: "c", type: "function", function: { name: "t", arguments: text } }
  const whole = model(message({ content: null, tool_calls: [call] }, "tool_calls"), message({ content: "done" }))
  const streamed = model(
    events(delta({ tool_calls: [call] }), delta({}, "tool_calls")),
    events(delta({ content: "done" }), delta({}, "stop"))
  )
  const back: Array<string> = []
  for (const [run, { asked, layer }] of [
    [agent.run("Go"), whole],
    [AgentEvent.result(agent.stream("Go")), streamed]
  ] as const) {
    const result = yield* Effect.provide(run, [layer, handlers])
    assert.strictEqual(result.text, "done")
    assert.lengthOf(Conversation.messages(result.conversation), 4)
    back.push(/"arguments":"((?:[^"\\]|\\.)*)"/.exec(asked[1] ?? "")?.[1] ?? "")
  }
  return { ran, back }
})

describe("RIGHT-8 calls and errors of clients of the AI SDK", () => {
  test("RIGHT-8 the arguments null are none, in the call and in the history", function* () {
    assert.deepStrictEqual(yield* argumentsOf("null"), { ran: [{}, {}], back: ["{}", "{}"] })
  })

  test("RIGHT-8 a key that is in the arguments twice is treated alike whole and streamed", function* () {
    const text = `{"a":1,"a":2}`
    const { back, ran } = yield* argumentsOf(text)
    // It could be shown as one value and taken as the other
    assert.deepStrictEqual(ran, [])
    assert.strictEqual(back[0], back[1])
  })

  test("RIGHT-8 a code 429 inside a stream is a rate limit", function* () {
    for (const error of [
      { message: "slow down", code: 429 },
      { message: "slow down", code: "429" }
    ]) {
      const streamed = model(events({ error }))
      const failed = yield* Effect.flip(Effect.provide(AgentEvent.result(plain.stream("Go")), streamed.layer))
      assert.include(failed.message, "RateLimitError")
    }
  })

  test("RIGHT-8 an error in a body with status 200 is named as one, with the sentence of the provider in the cause", function* () {
    const error = { message: "model is not loaded", type: "invalid_request_error" }
    for (const { cause, message } of yield* errorsOf(json({ error }))) {
      assert.include(message, "InvalidRequestError")
      assert.include(cause, "an error in an answer with status 200: model is not loaded")
    }
    for (const { cause, message } of yield* errorsOf(json({ error: "no" }))) {
      assert.include(message, "InvalidResponseError")
      assert.include(cause, "an error in an answer with status 200: no")
    }
  })

  test("RIGHT-8 a server that answers a request for a stream with JSON is asked for the whole answer", function* () {
    const { asked, layer } = model(message({ content: "Hello" }))
    const result = yield* Effect.provide(AgentEvent.result(plain.stream("Go")), layer)
    assert.strictEqual(result.text, "Hello")
    assert.deepStrictEqual(
      asked.map((body) => body.includes('"stream":true')),
      [true, false]
    )
  })

  test("RIGHT-8 L8 a 404 names origin and path, and neither query nor user", function* () {
    for (const body of [
      { error: { message: "no /v1/responses" } },
      { error: { message: "There is nothing here" } },
      { error: { message: "model not found", code: "model_not_found" } },
      {}
    ]) {
      for (const { message } of yield* errorsOf(json(body, 404))) {
        assert.include(message, "https://models.example.test/api/v1/chat/completions")
        for (const secret of ["pa55word", "ada", "sig", "0123456789"]) assert.notInclude(message, secret)
      }
    }
  })

  test("RIGHT-8 a redirect that is not followed is named as one", function* () {
    const location = "https://elsewhere.example.test/"
    for (const { message } of yield* errorsOf(() => new Response("", { status: 307, headers: { location } }))) {
      assert.include(message, "a redirect (status 307), which is not followed")
    }
  })

  test("RIGHT-8 a value that is no model is an error of the first call", function* () {
    for (const given of [null, undefined, "openai/gpt-5.2", {}]) {
      // @ts-expect-error -- a host without types, or the result of a look-up
      const built = Result.try(() => AiSdk.model(given))
      assert(Result.isSuccess(built))
      const error = yield* Effect.flip(Effect.provide(plain.run("Go"), built.success))
      assert.strictEqual(error._tag, "AgentError")
      assert.match(error.message, /expected a model of the AI SDK, got (null|undefined|nothing|string|object)/)
    }
  })
})
