import type { LanguageModelConformance } from "effect-emissary/testing"
import { anthropicRules } from "../conversation/anthropic-rules.ts"
import { deltas, isObject, listOf, objectOf, parse, textOf } from "./server.ts"
import { anthropicProblem } from "./tool-rules.ts"
import type { Answer, Content, Dialect, Json, Refusal, Turn } from "./server.ts"

const errorTypes: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  500: "api_error",
  529: "overloaded_error"
}

const errorBody = (status: number, message: string) => ({
  type: "error",
  error: { type: errorTypes[status] ?? "api_error", message },
  request_id: "req_011CWkB65DcNzK2MiofhXx8b"
})

const no = (message: string): Refusal => ({ status: 400, body: errorBody(400, message) })

const stopReasons = {
  stop: "end_turn",
  length: "max_tokens",
  "content-filter": "refusal",
  "tool-calls": "tool_use"
} as const

/** The tokens that were read from the cache are not among the input tokens. */
const usageOf = ({ usage }: Answer) => ({
  input_tokens: (usage.inputTokens ?? 0) - (usage.cacheReadTokens ?? 0) - (usage.cacheWriteTokens ?? 0),
  cache_creation_input_tokens: usage.cacheWriteTokens ?? 0,
  cache_read_input_tokens: usage.cacheReadTokens ?? 0,
  output_tokens: usage.outputTokens ?? 0,
  ...(usage.reasoningTokens === undefined ? {} : { output_tokens_details: { thinking_tokens: usage.reasoningTokens } })
})

const messageOf = ({ body, index }: Turn, content: ReadonlyArray<unknown>) => ({
  id: `msg_${index}`,
  type: "message",
  role: "assistant",
  model: textOf(body["model"]),
  content
})

const whole: Dialect["whole"] = (answer, turn) => {
  const content = answer.content.map((part) => {
    if (part.type === "reasoning") return { type: "thinking", thinking: part.text, signature: part.signature }
    if (part.type === "text") return { type: "text", text: part.text }
    return { type: "tool_use", id: part.id, name: part.name, input: objectOf(parse(part.arguments || "{}")) }
  })
  const stop_reason = stopReasons[answer.finish]
  return { ...messageOf(turn, content), stop_reason, stop_sequence: null, usage: usageOf(answer) }
}

const blockEvents = (part: Content[number], index: number, last: boolean): ReadonlyArray<Json> => {
  const start = (content_block: Json) => ({ type: "content_block_start", index, content_block })
  const delta = (delta: Json) => ({ type: "content_block_delta", index, delta })
  const stop = last ? [] : [{ type: "content_block_stop", index }]
  switch (part.type) {
    case "reasoning":
      return [
        start({ type: "thinking", thinking: "", signature: "" }),
        ...deltas(part.text).map((thinking) => delta({ type: "thinking_delta", thinking })),
        ...(last ? [] : [delta({ type: "signature_delta", signature: part.signature })]),
        ...stop
      ]
    case "text":
      return [
        start({ type: "text", text: "" }),
        ...deltas(part.text).map((text) => delta({ type: "text_delta", text })),
        ...stop
      ]
    case "tool-call":
      return [
        start({ type: "tool_use", id: part.id, name: part.name, input: {} }),
        delta({ type: "input_json_delta", partial_json: "" }),
        ...deltas(part.arguments).map((partial_json) => delta({ type: "input_json_delta", partial_json })),
        ...stop
      ]
  }
}

const event = (data: Json): string => `event: ${textOf(data["type"])}\ndata: ${JSON.stringify(data)}\n\n`

const frames: Dialect["frames"] = (content, turn, end) => {
  const usage = end === undefined ? { input_tokens: 1, output_tokens: 1 } : { ...usageOf(end), output_tokens: 1 }
  const message = { ...messageOf(turn, []), stop_reason: null, stop_sequence: null, usage }
  const events: ReadonlyArray<Json> = [
    { type: "message_start", message },
    { type: "ping" },
    ...content.flatMap((part, n) => blockEvents(part, n, end === undefined && n === content.length - 1)),
    ...(end === undefined
      ? []
      : [
          {
            type: "message_delta",
            delta: { stop_reason: stopReasons[end.finish], stop_sequence: null },
            usage: usageOf(end)
          },
          { type: "message_stop" }
        ])
  ]
  return events.map(event)
}

type Input = LanguageModelConformance.InputPart

const textsOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : listOf(content)
        .map((part) => textOf(part["text"]))
        .join("")

const inputOf = ({ content, role }: Json): ReadonlyArray<Input> => {
  const type = role === "user" || role === "system" ? role : "text"
  if (typeof content === "string") return [{ type, text: content }]
  return listOf(content).map((block): Input => {
    switch (block["type"]) {
      case "thinking":
        return { type: "reasoning", text: textOf(block["thinking"]), signature: textOf(block["signature"]) }
      case "tool_use":
        return { type: "tool-call", id: textOf(block["id"]), name: textOf(block["name"]), arguments: block["input"] }
      case "tool_result":
        return { type: "tool-result", id: textOf(block["tool_use_id"]), text: textsOf(block["content"]) }
      case "image":
      case "document": {
        const { data, media_type, url } = objectOf(block["source"])
        return { type: "file", mediaType: textOf(media_type) || "image/*", data: textOf(data ?? url) }
      }
      default:
        return { type, text: textOf(block["text"]) }
    }
  })
}

const known = new Set([
  "model",
  "messages",
  "max_tokens",
  "system",
  "tools",
  "tool_choice",
  "temperature",
  "top_p",
  "top_k",
  "stream",
  "stop_sequences",
  "thinking",
  "metadata",
  "service_tier",
  "output_config",
  "output_format",
  "container",
  "mcp_servers",
  "context_management",
  "cache_control"
])

const blockKeys: Readonly<Record<string, ReadonlyArray<string>>> = {
  text: ["text", "citations"],
  image: ["source"],
  document: ["source", "title", "context", "citations"],
  tool_use: ["id", "name", "input", "caller"],
  tool_result: ["tool_use_id", "content", "is_error"],
  thinking: ["thinking", "signature"],
  redacted_thinking: ["data"]
}

const refuseBlock = (block: Json, path: string, role: string): Refusal | undefined => {
  const type = textOf(block["type"])
  const allowed = blockKeys[type]
  if (allowed === undefined)
    return no(`${path}: Input tag '${type}' found using 'type' does not match any of the expected tags`)
  const extra = Object.keys(block).find((key) => ![...allowed, "type", "cache_control"].includes(key))
  if (extra !== undefined) return no(`${path}.${type}.${extra}: Extra inputs are not permitted`)
  if (type === "text" && textOf(block["text"]) === "") return no("messages: text content blocks must be non-empty")
  if (type === "text" && textOf(block["text"]).trim() === "") {
    return no("messages: text content blocks must contain non-whitespace text")
  }
  if (type === "thinking" && block["signature"] === undefined) return no(`${path}.thinking.signature: Field required`)
  if (type === "thinking" && textOf(block["signature"]) === "") {
    return no(`${path}: Invalid \`signature\` in \`thinking\` block`)
  }
  if (type === "tool_use" && !/^[a-zA-Z0-9_-]+$/.test(textOf(block["id"]))) {
    return no(`${path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`)
  }
  if (type === "tool_use" && !isObject(block["input"]))
    return no(`${path}.tool_use.input: Input should be a valid dictionary`)
  const isAssistant = type === "tool_use" || type.endsWith("thinking")
  if (isAssistant && role === "user") return no(`${path}: \`${type}\` blocks can only be in \`assistant\` messages`)
  if (type === "tool_result" && role === "assistant") {
    return no(`${path}: \`tool_result\` blocks can only be in \`user\` messages`)
  }
  return undefined
}

const refuseMessages = (messages: ReadonlyArray<Json>): Refusal | undefined => {
  let open: ReadonlyArray<string> = []
  for (const [index, { content, role: given, ...more }] of messages.entries()) {
    const role = textOf(given)
    const path = `messages.${index}`
    const [extra] = Object.keys(more)
    if (extra !== undefined) return no(`${path}.${extra}: Extra inputs are not permitted`)
    if (role === "system") {
      if (index === 0) return no("messages.0: use the top-level 'system' parameter for the initial system prompt")
      if (messages.slice(0, index).findLast((one) => one["role"] !== "system")?.["role"] !== "user") {
        return no(`${path}: role 'system' must follow a 'user' message`)
      }
      if (messages[index + 1]?.["role"] === "user") {
        return no(`${path}: role 'system' must be followed by an 'assistant' message or end the array`)
      }
      continue
    }
    if (role !== "user" && role !== "assistant") {
      return no(`messages: Unexpected role "${role}". Allowed roles are "user" or "assistant".`)
    }
    if (index === 0 && role !== "user") return no('messages: first message must use the "user" role')
    if (messages[index - 1]?.["role"] === role) {
      return no(
        `messages: roles must alternate between "user" and "assistant", but found multiple "${role}" roles in a row`
      )
    }
    const isEmpty = Array.isArray(content) ? content.length === 0 : textOf(content) === ""
    if (isEmpty && role === "user") return no(`${path}: user messages must have non-empty content`)
    if (isEmpty)
      return no(`${path}: all messages must have non-empty content except for the optional final assistant message`)
    const blocks = listOf(content)
    for (const [n, block] of blocks.entries()) {
      const refusal = refuseBlock(block, `${path}.content.${n}`, role)
      if (refusal !== undefined) return refusal
    }
    const results = blocks.map((block) => (block["type"] === "tool_result" ? textOf(block["tool_use_id"]) : undefined))
    const orphan = results.findIndex((id) => id !== undefined && !open.includes(id))
    if (orphan >= 0) {
      return no(
        `${path}.content.${orphan}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${results[orphan]}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`
      )
    }
    const missing = open.filter((id) => !results.includes(id))
    if (missing.length > 0) return unanswered(index - 1, missing)
    open = blocks.flatMap((block) => (block["type"] === "tool_use" ? [textOf(block["id"])] : []))
  }
  if (open.length > 0) return unanswered(messages.length - 1, open)
  if (messages.at(-1)?.["role"] === "assistant") {
    return no("This model does not support assistant message prefill. The conversation must end with a user message.")
  }
  return undefined
}

/** A turn that waits for results of tools has to begin with its thinking. */
const refuseThoughtless = (messages: ReadonlyArray<Json>): Refusal | undefined => {
  const last = messages.findLastIndex(({ role }) => role === "assistant")
  const [first, ...others] = listOf(messages[last]?.["content"])
  const calls = [first, ...others].some((block) => block?.["type"] === "tool_use")
  const type = textOf(first?.["type"])
  if (!calls || type.endsWith("thinking")) return undefined
  return no(
    `messages.${last}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${type}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block (preceeding the lastmost set of \`tool_use\` and \`tool_result\` blocks).`
  )
}

const unanswered = (index: number, ids: ReadonlyArray<string>) =>
  no(
    `messages.${index}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids.join(", ")}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`
  )

const refuseTool = (tool: Json, index: number): Refusal | undefined => {
  const path = `tools.${index}.custom`
  const allowed = new Set([
    "type",
    "name",
    "description",
    "input_schema",
    "cache_control",
    "strict",
    "eager_input_streaming"
  ])
  const extra = Object.keys(tool).find((key) => !allowed.has(key))
  if (extra !== undefined) return no(`${path}.${extra}: Extra inputs are not permitted`)
  if (!/^[a-zA-Z0-9_-]{1,128}$/.test(textOf(tool["name"]))) {
    return no(`${path}.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`)
  }
  const schema = tool["input_schema"]
  if (!isObject(schema)) return no(`${path}.input_schema: Field required`)
  const problem = anthropicProblem(schema)
  if (problem !== undefined) return no(`${path}.${problem}`)
  if (tool["strict"] === true) return openObject(schema, `${path}.input_schema`)
  return undefined
}

/** Schemas that the answer has to fit are closed everywhere. */
const openObject = (schema: unknown, path: string): Refusal | undefined => {
  if (!isObject(schema)) return undefined
  if (schema["type"] === "object" && schema["additionalProperties"] !== false) {
    return no(`${path}: For 'object' type, 'additionalProperties' must be explicitly set to false`)
  }
  const inner = [...Object.values(objectOf(schema["properties"])), schema["items"], ...listOf(schema["anyOf"])]
  return inner.map((one) => openObject(one, path)).find((refusal) => refusal !== undefined)
}

/** The Messages API of Anthropic. */
export const anthropicMessages: Dialect = {
  path: "/v1/messages",
  authorize: (headers, key) => {
    if (headers["anthropic-version"] === undefined) return no("anthropic-version: header is required")
    const given = headers["x-api-key"]
    if (given === key) return undefined
    const message = given === undefined ? "x-api-key header is required" : "invalid x-api-key"
    return { status: 401, body: errorBody(401, message) }
  },
  refuse: ({ body }) => {
    const tools = listOf(body["tools"])
    const messages = listOf(body["messages"])
    const choice = objectOf(body["tool_choice"])
    const format = objectOf(objectOf(body["output_config"])["format"])
    const extra = Object.keys(body).find((key) => !known.has(key))
    if (extra !== undefined) return no(`${extra}: Extra inputs are not permitted`)
    if (body["model"] === undefined) return no("model: Field required")
    if (typeof body["max_tokens"] !== "number") return no("max_tokens: Field required")
    if (messages.length === 0) return no("messages: at least one message is required")
    if (body["temperature"] !== undefined && body["top_p"] !== undefined) {
      return no("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
    }
    if (Array.isArray(body["system"])) {
      const blank = listOf(body["system"]).some(({ text }) => textOf(text).trim() === "")
      if (blank) return no("system: text content blocks must be non-empty")
    }
    const names = tools.map(({ name }) => textOf(name))
    const twice = names.find((name, n) => names.indexOf(name) !== n)
    if (twice !== undefined) return no("tools: Tool names must be unique.")
    if (choice["type"] !== undefined && tools.length === 0) {
      return no("tool_choice: `tool_choice` may only be specified while providing `tools`.")
    }
    if (choice["type"] === "tool" && !names.includes(textOf(choice["name"]))) {
      return no(`Tool '${textOf(choice["name"])}' not found in provided tools`)
    }
    const thinks = ["enabled", "adaptive"].includes(textOf(objectOf(body["thinking"])["type"]))
    if (thinks && (choice["type"] === "tool" || choice["type"] === "any")) {
      return no("Thinking may not be enabled when tool_choice forces tool use.")
    }
    const budget = objectOf(body["thinking"])["budget_tokens"]
    if (typeof budget === "number" && budget < 1024) {
      return no("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    }
    if (typeof budget === "number" && budget >= body["max_tokens"]) {
      return no("`max_tokens` must be greater than `thinking.budget_tokens`.")
    }
    if (thinks && body["temperature"] !== undefined && body["temperature"] !== 1) {
      return no("`temperature` may only be set to 1 when thinking is enabled.")
    }
    const uses = messages.some(({ content }) =>
      listOf(content).some(({ type }) => type === "tool_use" || type === "tool_result")
    )
    if (uses && tools.length === 0) {
      return no("Requests which include `tool_use` or `tool_result` blocks must define tools")
    }
    const refusal =
      tools.map(refuseTool).find((one) => one !== undefined) ??
      openObject(format["schema"], "output_config.format.schema") ??
      refuseMessages(messages) ??
      (thinks ? refuseThoughtless(messages) : undefined)
    if (refusal !== undefined) return refusal
    const broken = anthropicRules({ messages, system: body["system"] })
    return broken.length === 0 ? undefined : no(`messages: ${broken.join("; ")}`)
  },
  request: ({ body }) => {
    const choice = objectOf(body["tool_choice"])
    const output = objectOf(objectOf(body["output_config"])["format"])["schema"]
    const system = textsOf(body["system"])
    const word = { any: "required" as const, none: "none" as const, auto: "auto" as const }
    return {
      input: [
        ...(system === "" ? [] : [{ type: "system" as const, text: system }]),
        ...listOf(body["messages"]).flatMap(inputOf)
      ],
      tools: listOf(body["tools"]).map(({ description, input_schema: parameters, name }) => ({
        name: textOf(name),
        description: textOf(description),
        parameters
      })),
      toolChoice:
        choice["type"] === "tool"
          ? { tool: textOf(choice["name"]) }
          : choice["type"] === "any" || choice["type"] === "none"
            ? word[choice["type"]]
            : "auto",
      ...(output === undefined ? {} : { output })
    }
  },
  whole,
  frames,
  error: errorBody,
  errorFrame: (message) => event({ type: "error", error: { type: "overloaded_error", message } })
}
