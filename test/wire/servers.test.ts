import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { test } from "../test.ts"
import { anthropicMessages } from "./anthropic.ts"
import { localChat, openaiChat } from "./chat.ts"
import { googleGenerate } from "./google.ts"
import { openaiResponses } from "./responses.ts"
import { serve, theKey, type Dialect } from "./server.ts"

const post = (url: string, body: unknown, key: string = theKey) =>
  Effect.promise(async () => {
    const headers = {
      authorization: `Bearer ${key}`,
      "x-api-key": key,
      "x-goog-api-key": key,
      "anthropic-version": "2023-06-01"
    }
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })
    return { status: response.status, headers: response.headers, text: await response.text() }
  })

const user = { role: "user", content: "Hi" }

const answer = { _tag: "Answer", content: [{ type: "text", text: "Hello." }], finish: "stop", usage: {} } as const

/** Requests that the provider refuses, with a part of the error's message. */
type Refused = Readonly<Record<string, readonly [body: object, says: string, status?: number]>>

const chatCall = { id: "call_1", type: "function", function: { name: "get", arguments: "{}" } }

const open = { type: "object", properties: { a: { type: "string" } }, required: ["a"] }

const optional = { type: "object", properties: { a: { type: "string" } }, required: [], additionalProperties: false }

const closed = { ...optional, required: ["a"] }

const nested = { ...closed, properties: { a: { type: "array", items: open } } }

const chatTool = (parameters: object, name = "get", strict = true) => ({
  type: "function",
  function: { name, parameters, strict }
})

const chat: Refused = {
  "an orphan result": [
    { messages: [user, { role: "tool", tool_call_id: "call_1", content: "x" }] },
    "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'"
  ],
  "a call without its result": [
    { messages: [user, { role: "assistant", content: null, tool_calls: [chatCall] }, user] },
    "The following tool_call_ids did not have response messages: call_1"
  ],
  "an answer without content": [
    { messages: [user, { role: "assistant", content: null }] },
    "Invalid value for 'content': expected a string, got null."
  ],
  "an empty list of content": [
    { messages: [{ role: "user", content: [] }] },
    "Invalid 'messages[0].content': empty array"
  ],
  "an unknown role": [
    { messages: [{ role: "bot", content: "Hi" }] },
    "Invalid value: 'bot'. Supported values are: 'system'"
  ],
  "an unknown field": [{ messages: [user], topic: 1 }, "Unknown parameter: 'topic'."],
  "an unknown field of a message": [{ messages: [{ ...user, at: 1 }] }, "Unknown parameter: 'messages[0].at'."],
  "a union at the root of a schema": [
    { messages: [user], tools: [chatTool({ ...closed, anyOf: [closed] }, "get", false)] },
    "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
  ],
  "a reference to something else than a definition": [
    {
      messages: [user],
      tools: [chatTool({ ...closed, properties: { a: open, b: { $ref: "#/properties/a" } } }, "get", false)]
    },
    "In context=('properties', 'b'), reference can only point to definitions defined at the top level of the schema."
  ],
  "a list of any type without items": [
    {
      messages: [user],
      tools: [chatTool({ ...open, properties: { a: { anyOf: [{ type: ["array", "null"] }] } } }, "get", false)]
    },
    "In context=('properties', 'a', 'anyOf', '0'), array schema missing items."
  ],
  "a strict schema with an open object": [
    { messages: [user], tools: [chatTool(open)] },
    "Invalid schema for function 'get': In context=(), 'additionalProperties' is required to be supplied and to be false."
  ],
  "a strict schema with an open object in a list": [
    { messages: [user], tools: [chatTool(nested)] },
    "In context=('properties', 'a', 'items'), 'additionalProperties' is required"
  ],
  "a strict schema with an optional property": [
    { messages: [user], tools: [chatTool(optional)] },
    "'required' is required to be supplied and to be an array including every key in properties. Missing 'a'."
  ],
  "a strict schema of the answer that is open": [
    {
      messages: [user],
      response_format: { type: "json_schema", json_schema: { name: "out", strict: true, schema: open } }
    },
    "Invalid schema for response_format 'out': In context=(), 'additionalProperties' is required"
  ],
  "a schema of the answer that is no object": [
    {
      messages: [user],
      response_format: { type: "json_schema", json_schema: { name: "out", schema: { type: "string" } } }
    },
    `schema must be a JSON Schema of 'type: "object"', got 'type: "string"'.`
  ],
  "parameters without a type": [
    { messages: [user], tools: [chatTool({}, "get", false)] },
    `schema must be a JSON Schema of 'type: "object"', got 'type: "None"'.`
  ],
  "a bad name of a tool": [
    { messages: [user], tools: [chatTool(closed, "get it")] },
    "Invalid 'tools[0].function.name': string does not match pattern."
  ],
  "a tool choice without tools": [
    { messages: [user], tool_choice: "auto" },
    "'tool_choice' is only allowed when 'tools'"
  ],
  "the old limit of tokens": [{ messages: [user], max_tokens: 5 }, "Use 'max_completion_tokens' instead."]
}

const local: Refused = {
  "a late system message": [
    { messages: [user, { role: "system", content: "x" }] },
    "System message must be at the beginning."
  ],
  "a developer": [{ messages: [{ role: "developer", content: "x" }, user] }, "Unexpected message role: developer"],
  "arguments that are no JSON": [
    {
      messages: [
        user,
        { role: "assistant", content: "", tool_calls: [{ ...chatCall, function: { name: "get", arguments: "{" } }] },
        { role: "tool", tool_call_id: "call_1", content: "x" }
      ]
    },
    "Expecting value"
  ],
  "an orphan result": chat["an orphan result"] ?? [{}, ""]
}

const reasoning = { type: "reasoning", id: "rs_1", encrypted_content: "e", summary: [] }

const call = { type: "function_call", call_id: "call_1", name: "get", arguments: "{}" }

const output = { type: "function_call_output", call_id: "call_1", output: "x" }

const tool = (parameters: object, name = "get") => ({ type: "function", name, parameters, strict: true })

const responses: Refused = {
  "an orphan result": [{ input: [user, output] }, "No tool call found for function call output with call_id call_1."],
  "a call without its result": [{ input: [user, call] }, "No tool output found for function call call_1."],
  "reasoning without what follows it": [
    { store: false, input: [user, reasoning, user] },
    "Item 'rs_1' of type 'reasoning' was provided without its required following item."
  ],
  "reasoning without its content": [
    { store: false, input: [user, { ...reasoning, encrypted_content: null }, call, output] },
    "Item with id 'rs_1' not found.",
    404
  ],
  "a reference to nothing": [
    { input: [user, { type: "item_reference", id: "msg_9" }] },
    "Item with id 'msg_9' not found.",
    404
  ],
  "an id of another kind": [
    { input: [user, { ...call, id: "call_1" }, output] },
    "Expected an ID that begins with 'fc'."
  ],
  "an unknown role": [
    { input: [{ role: "tool", content: "x" }] },
    "Invalid value: 'tool'. Supported values are: 'assistant'"
  ],
  "content of another role": [
    { input: [{ role: "assistant", content: [{ type: "input_text", text: "x" }] }] },
    "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'."
  ],
  "an empty list of content": [{ input: [{ role: "user", content: [] }] }, "Invalid 'input[0].content': empty array"],
  "an unknown field": [{ input: [user], messages: [] }, "Unknown parameter: 'messages'."],
  "a strict schema with an open object": [
    { input: [user], tools: [tool(open)] },
    "Invalid schema for function 'get': In context=(), 'additionalProperties' is required"
  ],
  "a bad name of a tool": [
    { input: [user], tools: [tool(closed, "a.b")] },
    "Invalid 'tools[0].name': string does not match"
  ],
  "too few tokens": [{ input: [user], max_output_tokens: 5 }, "Expected a value >= 16, but got 5 instead."]
}

const use = { type: "tool_use", id: "toolu_1", name: "get", input: {} }

const result = { type: "tool_result", tool_use_id: "toolu_1", content: "x" }

const max_tokens = 100

const anthropicTool = { name: "get", input_schema: closed }

const anthropic: Refused = {
  "no limit of tokens": [{ messages: [user] }, "max_tokens: Field required"],
  "an orphan result": [
    { max_tokens, messages: [{ role: "user", content: [result] }], tools: [anthropicTool] },
    "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1."
  ],
  "a call without its result": [
    { max_tokens, messages: [user, { role: "assistant", content: [use] }, user], tools: [anthropicTool] },
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1."
  ],
  "calls without tools": [
    { max_tokens, messages: [user, { role: "assistant", content: [use] }, { role: "user", content: [result] }] },
    "must define tools"
  ],
  "empty text": [
    { max_tokens, messages: [{ role: "user", content: [{ type: "text", text: "" }] }] },
    "messages: text content blocks must be non-empty"
  ],
  "an empty message": [
    { max_tokens, messages: [{ role: "user", content: [] }] },
    "user messages must have non-empty content"
  ],
  "two messages of one role": [{ max_tokens, messages: [user, user] }, 'found multiple "user" roles in a row'],
  "a system message at the start": [
    { max_tokens, messages: [{ role: "system", content: "x" }] },
    "use the top-level 'system' parameter for the initial system prompt"
  ],
  "an answer at the start": [
    { max_tokens, messages: [{ role: "assistant", content: "x" }] },
    "first message must use the"
  ],
  "an answer at the end": [
    { max_tokens, messages: [user, { role: "assistant", content: "x" }] },
    "must end with a user message"
  ],
  "thinking without a signature": [
    {
      max_tokens,
      messages: [
        user,
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "x" },
            { type: "text", text: "y" }
          ]
        },
        user
      ]
    },
    "messages.1.content.0.thinking.signature: Field required"
  ],
  "a call without the thinking before it": [
    {
      max_tokens: 4000,
      thinking: { type: "enabled", budget_tokens: 2000 },
      messages: [user, { role: "assistant", content: [use] }, { role: "user", content: [result] }],
      tools: [anthropicTool]
    },
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
  ],
  "more thinking than the answer has tokens": [
    { max_tokens, thinking: { type: "enabled", budget_tokens: 2000 }, messages: [user] },
    "`max_tokens` must be greater than `thinking.budget_tokens`."
  ],
  "an unknown field": [{ max_tokens, messages: [user], topic: 1 }, "topic: Extra inputs are not permitted"],
  "a bad name of a tool": [
    { max_tokens, messages: [user], tools: [{ ...anthropicTool, name: "a.b" }] },
    "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
  ],
  "a union at the root of a schema": [
    { max_tokens, messages: [user], tools: [{ ...anthropicTool, input_schema: { ...open, oneOf: [open] } }] },
    "input_schema does not support oneOf, allOf, or anyOf at the top level"
  ],
  "a name of a property": [
    {
      max_tokens,
      messages: [user],
      tools: [{ ...anthropicTool, input_schema: { ...open, properties: { $top: {} } } }]
    },
    "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
  ],
  "a schema of draft-07": [
    {
      max_tokens,
      messages: [user],
      tools: [{ ...anthropicTool, input_schema: { ...open, properties: { a: { items: [{}] } } } }]
    },
    "It must match JSON Schema draft 2020-12"
  ],
  "a strict schema with an open object": [
    { max_tokens, messages: [user], tools: [{ ...anthropicTool, input_schema: open, strict: true }] },
    "'additionalProperties' must be explicitly set to false"
  ]
}

const part = (text: string) => ({ role: "user", parts: [{ text }] })

const functionCall = { functionCall: { id: "1", name: "get", args: {} }, thoughtSignature: "s" }

const functionResponse = { functionResponse: { id: "1", name: "get", response: { content: "x" } } }

const google: Refused = {
  "an orphan result": [
    { contents: [part("Hi"), { role: "user", parts: [functionResponse] }] },
    "function response turn comes immediately after a function call turn."
  ],
  "a call without its result": [
    { contents: [part("Hi"), { role: "model", parts: [functionCall] }, part("Hi")] },
    "the number of function response parts is equal to the number of function call parts"
  ],
  "a call after an answer": [
    { contents: [part("Hi"), { role: "model", parts: [{ text: "x" }] }, { role: "model", parts: [functionCall] }] },
    "function call turn comes immediately after a user turn"
  ],
  "a call without its signature": [
    {
      contents: [
        part("Hi"),
        { role: "model", parts: [{ functionCall: functionCall.functionCall }] },
        { role: "user", parts: [functionResponse] }
      ]
    },
    "Function call is missing a thought_signature in functionCall parts."
  ],
  "an empty message": [{ contents: [{ role: "user", parts: [] }] }, "contents.parts must not be empty."],
  "an unknown role": [
    { contents: [{ role: "assistant", parts: [{ text: "x" }] }] },
    "Please use a valid role: user, model."
  ],
  "an unknown field": [{ contents: [part("Hi")], topic: 1 }, 'Unknown name "topic": Cannot find field.'],
  "a name of a parameter": [
    {
      contents: [part("Hi")],
      tools: [{ functionDeclarations: [{ name: "get", parametersJsonSchema: { ...open, properties: { "a-b": {} } } }] }]
    },
    "Invalid parameter name"
  ],
  "an unknown field of a tool": [
    { contents: [part("Hi")], tools: [{ functionDeclarations: [{ name: "get", strict: true }] }] },
    `Unknown name "strict" at 'tools[0].function_declarations[0]'`
  ],
  "a bad name of a tool": [
    { contents: [part("Hi")], tools: [{ functionDeclarations: [{ name: "1 get" }] }] },
    "Invalid function name."
  ]
}

const dialects: Readonly<Record<string, readonly [Dialect, Refused, good: object]>> = {
  "OpenAI chat": [openaiChat, chat, { messages: [user] }],
  "OpenAI responses": [openaiResponses, responses, { input: [user] }],
  Anthropic: [anthropicMessages, anthropic, { max_tokens, messages: [user] }],
  Google: [googleGenerate, google, { contents: [part("Hi")] }],
  "a local server": [localChat, local, { messages: [user], unknown: 1 }]
}

describe("MODEL-4 the servers refuse what the real ones refuse", () => {
  for (const [name, [dialect, refused, good]] of Object.entries(dialects)) {
    test.live(name, function* () {
      const server = yield* serve(dialect, () => answer)
      const url = `${server.url}${dialect.path}`
      const streamUrl = `${server.url}${dialect.streamPath ?? dialect.path}`
      const common = name === "Google" ? {} : { model: "gpt-5.2" }
      const stream = name === "Google" ? {} : { stream: true }
      for (const [what, [body, says, status = 400]] of Object.entries(refused)) {
        const found = yield* post(url, { ...common, ...body })
        assert.deepStrictEqual([what, found.status], [what, status], found.text)
        assert.include(JSON.stringify(JSON.parse(found.text)), JSON.stringify(says).slice(1, -1), what)
      }
      const found = yield* post(url, { ...common, ...good })
      assert.strictEqual(found.status, 200, found.text)
      assert.include(found.text, "Hello.")
      const streamed = yield* post(streamUrl, { ...common, ...good, ...stream })
      assert.match(streamed.headers.get("content-type") ?? "", /^text\/event-stream/)
      assert.include(streamed.text, "Hello.")
    })
  }

  test.live("a wrong key, with a sentence that quotes it", function* () {
    for (const dialect of [openaiChat, openaiResponses]) {
      const server = yield* serve(dialect, [])
      const found = yield* post(`${server.url}${dialect.path}`, {}, "sk-wrong-0123456789abcdef")
      assert.strictEqual(found.status, 401)
      assert.match(found.text, /Incorrect API key provided: sk-wrong\*+cdef\. You can find your API key at/)
    }
    const server = yield* serve(anthropicMessages, [])
    const found = yield* post(`${server.url}/v1/messages`, {}, "sk-ant-wrong")
    assert.deepStrictEqual(
      [found.status, JSON.parse(found.text).error],
      [401, { type: "authentication_error", message: "invalid x-api-key" }]
    )
  })
})
