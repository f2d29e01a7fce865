import type { LanguageModelConformance } from "effect-emissary/testing"
import { openaiRules } from "../conversation/openai-rules.ts"
import { deltas, isObject, listOf, objectOf, parse, textOf } from "./server.ts"
import type { Answer, Content, Dialect, Json, Refusal, Turn } from "./server.ts"
import { functionProblem, strictProblem } from "./strict-schema.ts"

/** An error body of OpenAI. */
export const openaiError = (message: string, more: Json = {}) => ({
  error: { message, type: "invalid_request_error", param: null, code: null, ...more }
})

export const refuse = (message: string, more: Json = {}, status = 400): Refusal => ({
  status,
  body: openaiError(message, more)
})

/** As `Incorrect API key provided: sk-abcde***************6789`. */
const shortKey = (key: string): string =>
  `${key.slice(0, 8)}${"*".repeat(Math.max(0, key.length - 12))}${key.slice(-4)}`

export const openaiAuthorize: Dialect["authorize"] = (headers, key) => {
  const given = textOf(headers.authorization).replace(/^Bearer /, "")
  if (given === key) return undefined
  const wrong = `Incorrect API key provided: ${shortKey(given)}. You can find your API key at https://platform.openai.com/account/api-keys.`
  const missing =
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
  return refuse(given === "" ? missing : wrong, { code: given === "" ? null : "invalid_api_key" }, 401)
}

const statusErrors: Readonly<Record<number, Json>> = {
  401: { code: "invalid_api_key" },
  404: { code: "model_not_found" },
  429: { type: "tokens", code: "rate_limit_exceeded" },
  500: { type: "server_error", code: null },
  503: { type: "server_error", code: null }
}

export const openaiStatusError: Dialect["error"] = (status, message) => openaiError(message, statusErrors[status])

const finishReasons = {
  stop: "stop",
  length: "length",
  "content-filter": "content_filter",
  "tool-calls": "tool_calls"
} as const

const usageOf = ({ usage }: Answer) => ({
  prompt_tokens: usage.inputTokens,
  completion_tokens: usage.outputTokens,
  total_tokens: (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0),
  prompt_tokens_details: { cached_tokens: usage.cacheReadTokens ?? 0 },
  completion_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 }
})

const toolCall = (part: Extract<Content[number], { type: "tool-call" }>) => ({
  id: part.id,
  type: "function",
  function: { name: part.name, arguments: part.arguments }
})

const texts = (content: Content, type: "text" | "reasoning"): string =>
  content.map((part) => (part.type === type ? part.text : "")).join("")

const about = ({ body, index }: Turn) => ({
  id: `chatcmpl-${index}`,
  created: 1_767_225_600,
  model: textOf(body["model"]),
  system_fingerprint: "fp_1"
})

const whole =
  (reasons: boolean): Dialect["whole"] =>
  (answer, turn) => {
    const { content } = answer
    const calls = content.flatMap((part) => (part.type === "tool-call" ? [toolCall(part)] : []))
    const message = {
      role: "assistant",
      content: texts(content, "text") || (calls.length > 0 ? null : ""),
      refusal: null,
      ...(reasons && texts(content, "reasoning") !== "" ? { reasoning_content: texts(content, "reasoning") } : {}),
      ...(calls.length > 0 ? { tool_calls: calls } : {})
    }
    const choice = { index: 0, message, logprobs: null, finish_reason: finishReasons[answer.finish] }
    return { object: "chat.completion", ...about(turn), choices: [choice], usage: usageOf(answer) }
  }

export const frame = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`

const frames =
  (reasons: boolean): Dialect["frames"] =>
  (content, turn, end) => {
    const includeUsage = objectOf(turn.body["stream_options"])["include_usage"] === true
    const chunk = (choices: ReadonlyArray<unknown>, usage?: unknown) =>
      frame({
        object: "chat.completion.chunk",
        ...about(turn),
        choices,
        ...(includeUsage ? { usage: usage ?? null } : {})
      })
    const delta = (value: unknown, reason: string | null = null) =>
      chunk([{ index: 0, delta: value, logprobs: null, finish_reason: reason }])
    const calls = content.flatMap((part) => (part.type === "tool-call" ? [toolCall(part)] : []))
    return [
      delta({ role: "assistant", content: calls.length > 0 ? null : "", refusal: null }),
      ...(reasons ? deltas(texts(content, "reasoning")).map((text) => delta({ reasoning_content: text })) : []),
      ...deltas(texts(content, "text")).map((text) => delta({ content: text })),
      ...calls.flatMap((call, index) => [
        delta({ tool_calls: [{ index, ...call, function: { name: call.function.name, arguments: "" } }] }),
        ...deltas(call.function.arguments).map((text) =>
          delta({ tool_calls: [{ index, function: { arguments: text } }] })
        )
      ]),
      ...(end === undefined ? [] : [delta({}, finishReasons[end.finish])]),
      ...(end === undefined || !includeUsage ? [] : [chunk([], usageOf(end))]),
      ...(end === undefined ? [] : ["data: [DONE]\n\n"])
    ]
  }

const imageOf = (url: string): LanguageModelConformance.InputPart => {
  const found = /^data:([^;]+);base64,(.*)$/.exec(url)
  return { type: "file", mediaType: found?.[1] ?? "image/*", data: found?.[2] ?? url }
}

const partsOf = (
  content: unknown,
  type: "system" | "user" | "text"
): ReadonlyArray<LanguageModelConformance.InputPart> => {
  if (typeof content === "string") return content === "" ? [] : [{ type, text: content }]
  return listOf(content).map((part) =>
    part["type"] === "image_url"
      ? imageOf(textOf(objectOf(part["image_url"])["url"]))
      : { type, text: textOf(part["text"]) }
  )
}

const inputOf = (message: Json): ReadonlyArray<LanguageModelConformance.InputPart> => {
  const { content, role } = message
  if (role === "system" || role === "developer") return partsOf(content, "system")
  if (role === "user") return partsOf(content, "user")
  if (role === "tool") {
    const text = partsOf(content, "text").map((part) => ("text" in part ? part.text : ""))
    return [{ type: "tool-result", id: textOf(message["tool_call_id"]), text: text.join("") }]
  }
  const calls = listOf(message["tool_calls"]).map(({ function: made, id }) => {
    const { arguments: args, name } = objectOf(made)
    return { type: "tool-call" as const, id: textOf(id), name: textOf(name), arguments: parse(args) }
  })
  return [...partsOf(content, "text"), ...calls]
}

const request: Dialect["request"] = ({ body }) => {
  const { response_format: format, tool_choice: choice } = body
  const tools = listOf(body["tools"]).map((tool) => objectOf(tool["function"]))
  const forced = isObject(choice) ? { tool: textOf(objectOf(choice["function"])["name"]) } : undefined
  const isWord = choice === "none" || choice === "required"
  const output = objectOf(objectOf(format)["json_schema"])["schema"]
  return {
    input: listOf(body["messages"]).flatMap(inputOf),
    tools: tools.map(({ description, name, parameters }) => ({
      name: textOf(name),
      description: textOf(description),
      parameters
    })),
    toolChoice: forced ?? (isWord ? choice : "auto"),
    ...(output === undefined ? {} : { output })
  }
}

const known = new Set([
  "model",
  "messages",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "response_format",
  "stream",
  "stream_options",
  "max_completion_tokens",
  "max_tokens",
  "temperature",
  "top_p",
  "stop",
  "seed",
  "n",
  "user",
  "metadata",
  "store",
  "frequency_penalty",
  "presence_penalty",
  "logprobs",
  "top_logprobs",
  "logit_bias",
  "reasoning_effort",
  "verbosity",
  "service_tier",
  "prompt_cache_key",
  "prompt_cache_retention",
  "safety_identifier",
  "prediction",
  "modalities"
])

export const unknownParameter = (given: Json, allowed: ReadonlySet<string>, path = ""): Refusal | undefined => {
  const found = Object.keys(given).find((key) => !allowed.has(key))
  if (found === undefined) return undefined
  return refuse(`Unknown parameter: '${path}${found}'.`, { param: `${path}${found}`, code: "unknown_parameter" })
}

const namePattern = /^[a-zA-Z0-9_-]+$/

/** The refusal of a tool, which the two APIs of OpenAI write differently. */
export const refuseTool = (tool: Json, path: string): Refusal | undefined => {
  const name = textOf(tool["name"])
  if (name === "") {
    return refuse(`Missing required parameter: '${path}.name'.`, {
      param: `${path}.name`,
      code: "missing_required_parameter"
    })
  }
  if (!namePattern.test(name)) {
    return refuse(
      `Invalid '${path}.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`,
      { param: `${path}.name`, code: "invalid_value" }
    )
  }
  if (name.length > 64) {
    return refuse(
      `Invalid '${path}.name': string too long. Expected a string with maximum length 64, but got a string with length ${name.length} instead.`,
      { param: `${path}.name`, code: "string_above_max_length" }
    )
  }
  const problem = functionProblem(tool["parameters"], tool["strict"] === true)
  if (problem === undefined) return undefined
  return refuse(`Invalid schema for function '${name}': ${problem}`, {
    param: `${path}.parameters`,
    code: "invalid_function_parameters"
  })
}

/** The refusal of a schema of the answer. */
export const refuseFormat = (format: Json, path: string): Refusal | undefined => {
  const name = textOf(format["name"])
  if (!namePattern.test(name) || name.length > 64) {
    return refuse(
      `Invalid '${path}.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`,
      { param: `${path}.name`, code: "invalid_value" }
    )
  }
  const { schema } = format
  if (!isObject(schema) || schema["type"] !== "object") {
    const type = isObject(schema) ? textOf(schema["type"]) || "None" : "None"
    return refuse(
      `Invalid schema for response_format '${name}': schema must be a JSON Schema of 'type: "object"', got 'type: "${type}"'.`,
      { param: path }
    )
  }
  const problem = format["strict"] === true ? strictProblem(schema) : undefined
  return problem === undefined
    ? undefined
    : refuse(`Invalid schema for response_format '${name}': ${problem}`, { param: path })
}

const roles = new Set(["system", "developer", "user", "assistant", "tool", "function"])

const memberKeys: Readonly<Record<string, ReadonlySet<string>>> = {
  system: new Set(["role", "content", "name"]),
  developer: new Set(["role", "content", "name"]),
  user: new Set(["role", "content", "name"]),
  assistant: new Set(["role", "content", "name", "tool_calls", "refusal", "audio"]),
  tool: new Set(["role", "content", "tool_call_id"])
}

const refuseMessages = (messages: ReadonlyArray<Json>, more: ReadonlyArray<string> = []): Refusal | undefined => {
  let open: ReadonlyArray<string> = []
  for (const [index, message] of messages.entries()) {
    const { content } = message
    const role = textOf(message["role"])
    const path = `messages[${index}]`
    if (!roles.has(role)) {
      const list = [...roles].map((one) => `'${one}'`).join(", ")
      return refuse(`Invalid value: '${role}'. Supported values are: ${list}.`, {
        param: `${path}.role`,
        code: "invalid_value"
      })
    }
    const unknown = unknownParameter(message, new Set([...(memberKeys[role] ?? []), ...more]), `${path}.`)
    if (unknown !== undefined) return unknown
    if (role === "tool") {
      const id = textOf(message["tool_call_id"])
      if (!open.includes(id)) {
        return refuse(
          "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
          { param: `messages.[${index}].role` }
        )
      }
      open = open.filter((one) => one !== id)
    } else if (open.length > 0) return unanswered(open, index)
    if (role === "assistant") {
      const calls = message["tool_calls"]
      if (Array.isArray(calls) && calls.length === 0) {
        return refuse(
          `Invalid '${path}.tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.`,
          {
            param: `${path}.tool_calls`,
            code: "empty_array"
          }
        )
      }
      open = listOf(calls).map(({ id }) => textOf(id))
      if (content === null && open.length === 0) {
        return refuse("Invalid value for 'content': expected a string, got null.", {
          param: `messages.[${index}].content`
        })
      }
    } else if (content === null || content === undefined) {
      return refuse("Invalid value for 'content': expected a string, got null.", {
        param: `messages.[${index}].content`
      })
    }
    if (Array.isArray(content) && content.length === 0) {
      return refuse(
        `Invalid '${path}.content': empty array. Expected an array with minimum length 1, but got an empty array instead.`,
        {
          param: `${path}.content`,
          code: "empty_array"
        }
      )
    }
  }
  if (open.length > 0) return unanswered(open, messages.length)
  const broken = openaiRules(messages)
  return broken.length === 0 ? undefined : refuse(`Invalid 'messages': ${broken.join("; ")}`, { param: "messages" })
}

const unanswered = (open: ReadonlyArray<string>, index: number) =>
  refuse(
    `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${open.join(", ")}`,
    { param: `messages.[${index}].role` }
  )

/** The refusal of a tool choice. */
export const refuseChoice = (choice: unknown, names: ReadonlyArray<string>): Refusal | undefined => {
  if (choice === undefined) return undefined
  if (names.length === 0) {
    return refuse("Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.", {
      param: "tool_choice"
    })
  }
  const name = isObject(choice) ? textOf(choice["name"] ?? objectOf(choice["function"])["name"]) : undefined
  if (name === undefined || names.includes(name)) return undefined
  return refuse(`Invalid value for 'tool_choice': function '${name}' is not in 'tools'.`, { param: "tool_choice" })
}

const isReasoningModel = (model: string): boolean => /^(gpt-[5-9]|o\d)/.test(model)

/** The refusal of sampling by the reasoning models of OpenAI. */
export const refuseSampling = (body: Json, replacement?: string): Refusal | undefined => {
  if (!isReasoningModel(textOf(body["model"]))) return undefined
  if (replacement !== undefined && body["max_tokens"] !== undefined) {
    return refuse(
      `Unsupported parameter: 'max_tokens' is not supported with this model. Use '${replacement}' instead.`,
      { param: "max_tokens", code: "unsupported_parameter" }
    )
  }
  const found = ["temperature", "top_p"].find((key) => body[key] !== undefined && body[key] !== 1)
  return found === undefined
    ? undefined
    : refuse(`Unsupported parameter: '${found}' is not supported with this model.`, {
        param: found,
        code: "unsupported_parameter"
      })
}

/** The Chat Completions API of OpenAI. */
export const openaiChat: Dialect = {
  path: "/v1/chat/completions",
  authorize: openaiAuthorize,
  refuse: ({ body }) => {
    const tools = listOf(body["tools"]).map((tool) => objectOf(tool["function"]))
    const format = objectOf(body["response_format"])
    if (body["model"] === undefined) return refuse("you must provide a model parameter")
    if (!Array.isArray(body["messages"]) || body["messages"].length === 0) {
      return refuse(
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        {
          param: "messages",
          code: "empty_array"
        }
      )
    }
    if (Array.isArray(body["tools"]) && tools.length === 0) {
      return refuse(
        "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        {
          param: "tools",
          code: "empty_array"
        }
      )
    }
    return (
      unknownParameter(body, known) ??
      refuseSampling(body, "max_completion_tokens") ??
      tools.map((tool, n) => refuseTool(tool, `tools[${n}].function`)).find((refusal) => refusal !== undefined) ??
      refuseChoice(
        body["tool_choice"],
        tools.map(({ name }) => textOf(name))
      ) ??
      (format["type"] === "json_schema"
        ? refuseFormat(objectOf(format["json_schema"]), "response_format")
        : undefined) ??
      refuseMessages(listOf(body["messages"]))
    )
  },
  request,
  whole: whole(false),
  frames: frames(false),
  error: openaiStatusError,
  errorFrame: (message) => frame(openaiError(message, { type: "server_error" }))
}

/** An error body of vLLM, which has the same in another place. */
const localError = (message: string, status: number) => ({
  error: { message, type: status === 400 ? "BadRequestError" : "InternalServerError", param: null, code: status }
})

/**
 * A server that speaks the Chat Completions API with a model of its own, as Ollama, vLLM and llama.cpp do. It ignores
 * what it does not know, and refuses what its template of the conversation cannot write down.
 */
export const localChat: Dialect = {
  path: "/v1/chat/completions",
  authorize: () => undefined,
  refuse: ({ body }) => {
    const no = (message: string): Refusal => ({ status: 400, body: localError(message, 400) })
    const messages = listOf(body["messages"])
    const late = messages.findIndex(({ role }, n) => role === "system" && n > 0)
    if (late > 0) return no("System message must be at the beginning.")
    const other = messages.find(({ role }) => !["system", "user", "assistant", "tool"].includes(textOf(role)))
    if (other !== undefined) return no(`Unexpected message role: ${textOf(other["role"])}`)
    if (messages.every(({ role }) => role !== "user")) return no("No user query found in messages.")
    for (const message of messages) {
      for (const call of listOf(message["tool_calls"])) {
        const { arguments: args } = objectOf(call["function"])
        if (!isObject(parse(args))) return no(`Expecting value: arguments of ${textOf(call["id"])} are no JSON object`)
      }
    }
    const refusal = refuseMessages(messages, ["reasoning_content"])
    if (refusal === undefined) return undefined
    return no(textOf(objectOf(objectOf(refusal.body)["error"])["message"]))
  },
  request,
  whole: whole(true),
  frames: frames(true),
  error: (status, message) => localError(message, status),
  errorFrame: (message) => frame({ error: { message, type: "server_error", code: 500 } })
}
