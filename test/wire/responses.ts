import type { LanguageModelConformance } from "effect-emissary/testing"
import { openaiAuthorize, openaiStatusError, refuse, refuseChoice, refuseFormat, refuseSampling } from "./chat.ts"
import { refuseTool, unknownParameter } from "./chat.ts"
import { deltas, isObject, listOf, objectOf, parse, textOf } from "./server.ts"
import type { Answer, Content, Dialect, Json, Refusal, Turn } from "./server.ts"

const usageOf = ({ usage }: Answer) => ({
  input_tokens: usage.inputTokens,
  input_tokens_details: { cached_tokens: usage.cacheReadTokens ?? 0 },
  output_tokens: usage.outputTokens,
  output_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
  total_tokens: (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0)
})

const stores = (body: Json): boolean => body["store"] !== false

/** The output items of an answer. A server that stores them leaves the encrypted reasoning out, unless asked for it. */
const itemsOf = (content: Content, { body, index, stored }: Turn): ReadonlyArray<Json> => {
  const include: ReadonlyArray<unknown> = Array.isArray(body["include"]) ? body["include"] : []
  const items = content.map((part, n): Json => {
    switch (part.type) {
      case "reasoning":
        return {
          id: `rs_${index}_${n}`,
          type: "reasoning",
          summary: [{ type: "summary_text", text: part.text }],
          encrypted_content: part.signature
        }
      case "text": {
        const output = { type: "output_text", text: part.text, annotations: [], logprobs: [] }
        return { id: `msg_${index}_${n}`, type: "message", status: "completed", role: "assistant", content: [output] }
      }
      case "tool-call": {
        const { arguments: args, id, name } = part
        return {
          id: `fc_${index}_${n}`,
          type: "function_call",
          status: "completed",
          call_id: id,
          name,
          arguments: args
        }
      }
    }
  })
  if (stores(body)) for (const item of items) stored.set(textOf(item["id"]), item)
  return items.map((item) =>
    item["type"] === "reasoning" && !include.includes("reasoning.encrypted_content")
      ? { ...item, encrypted_content: null }
      : item
  )
}

const responseOf = (turn: Turn, items: ReadonlyArray<Json>, end?: Answer): Json => {
  const cut = end?.finish === "length" || end?.finish === "content-filter"
  const reason = end?.finish === "length" ? "max_output_tokens" : "content_filter"
  return {
    id: `resp_${turn.index}`,
    object: "response",
    created_at: 1_767_225_600,
    status: end === undefined ? "in_progress" : cut ? "incomplete" : "completed",
    error: null,
    incomplete_details: cut ? { reason } : null,
    model: textOf(turn.body["model"]),
    output: items,
    usage: end === undefined ? null : usageOf(end)
  }
}

/** The events of one output item. */
const itemEvents = (item: Json, output_index: number, last: boolean): ReadonlyArray<Json> => {
  const at = { item_id: item["id"], output_index }
  const added = (bare: Json) => ({ type: "response.output_item.added", output_index, item: { ...item, ...bare } })
  const done = last ? [] : [{ type: "response.output_item.done", output_index, item }]
  switch (item["type"]) {
    case "reasoning": {
      const [summary = {}] = listOf(item["summary"])
      const place = { ...at, summary_index: 0 }
      const part = { type: "summary_text", text: "" }
      return [
        added({ summary: [] }),
        { type: "response.reasoning_summary_part.added", ...place, part },
        ...deltas(textOf(summary["text"])).map((delta) => ({
          type: "response.reasoning_summary_text.delta",
          ...place,
          delta
        })),
        ...(last ? [] : [{ type: "response.reasoning_summary_text.done", ...place, text: summary["text"] }]),
        ...(last ? [] : [{ type: "response.reasoning_summary_part.done", ...place, part: summary }]),
        ...done
      ]
    }
    case "message": {
      const [output = {}] = listOf(item["content"])
      const place = { ...at, content_index: 0 }
      const part = { ...output, text: "" }
      return [
        added({ status: "in_progress", content: [] }),
        { type: "response.content_part.added", ...place, part },
        ...deltas(textOf(output["text"])).map((delta) => ({
          type: "response.output_text.delta",
          ...place,
          delta,
          logprobs: []
        })),
        ...(last ? [] : [{ type: "response.output_text.done", ...place, text: output["text"], logprobs: [] }]),
        ...(last ? [] : [{ type: "response.content_part.done", ...place, part: output }]),
        ...done
      ]
    }
    default:
      return [
        added({ status: "in_progress", arguments: "" }),
        ...deltas(textOf(item["arguments"])).map((delta) => ({
          type: "response.function_call_arguments.delta",
          ...at,
          delta
        })),
        ...(last ? [] : [{ type: "response.function_call_arguments.done", ...at, arguments: item["arguments"] }]),
        ...done
      ]
  }
}

const event = (data: Json): string => `event: ${textOf(data["type"])}\ndata: ${JSON.stringify(data)}\n\n`

const frames: Dialect["frames"] = (content, turn, end) => {
  const items = itemsOf(content, turn)
  const status = end?.finish === "length" || end?.finish === "content-filter" ? "incomplete" : "completed"
  const events: ReadonlyArray<Json> = [
    { type: "response.created", response: responseOf(turn, []) },
    { type: "response.in_progress", response: responseOf(turn, []) },
    ...items.flatMap((item, n) => itemEvents(item, n, end === undefined && n === items.length - 1)),
    ...(end === undefined ? [] : [{ type: `response.${status}`, response: responseOf(turn, items, end) }])
  ]
  return events.map((data, sequence_number) => event({ ...data, sequence_number }))
}

/** The items of the input, with stored items in place of references to them. */
const resolved = ({ body, stored }: Turn): ReadonlyArray<Json> => {
  const { input } = body
  if (typeof input === "string") return [{ role: "user", content: input }]
  return listOf(input).map((item) =>
    item["type"] === "item_reference" ? (stored.get(textOf(item["id"])) ?? item) : item
  )
}

const contentParts = (
  content: unknown,
  type: "system" | "user" | "text"
): ReadonlyArray<LanguageModelConformance.InputPart> => {
  if (typeof content === "string") return content === "" ? [] : [{ type, text: content }]
  return listOf(content).map((part) => {
    if (part["type"] !== "input_image") return { type, text: textOf(part["text"]) }
    const url = textOf(part["image_url"])
    const found = /^data:([^;]+);base64,(.*)$/.exec(url)
    return { type: "file", mediaType: found?.[1] ?? "image/*", data: found?.[2] ?? url }
  })
}

const inputOf = (item: Json): ReadonlyArray<LanguageModelConformance.InputPart> => {
  switch (item["type"]) {
    case "reasoning": {
      const text = listOf(item["summary"]).map((part) => textOf(part["text"]))
      return [{ type: "reasoning", text: text.join(""), signature: textOf(item["encrypted_content"]) }]
    }
    case "function_call": {
      const { arguments: args, call_id, name } = item
      return [{ type: "tool-call", id: textOf(call_id), name: textOf(name), arguments: parse(args) }]
    }
    case "function_call_output": {
      const { output } = item
      const text =
        typeof output === "string"
          ? output
          : listOf(output)
              .map((part) => textOf(part["text"]))
              .join("")
      return [{ type: "tool-result", id: textOf(item["call_id"]), text }]
    }
    default: {
      const { content, role } = item
      if (role === "user") return contentParts(content, "user")
      return contentParts(content, role === "assistant" ? "text" : "system")
    }
  }
}

const known = new Set([
  "model",
  "input",
  "instructions",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "text",
  "stream",
  "store",
  "stream_options",
  "include",
  "max_output_tokens",
  "max_tool_calls",
  "temperature",
  "top_p",
  "top_logprobs",
  "metadata",
  "previous_response_id",
  "reasoning",
  "service_tier",
  "truncation",
  "user",
  "prompt_cache_key",
  "prompt_cache_retention",
  "safety_identifier",
  "conversation",
  "background",
  "prompt"
])

const kinds: Readonly<Record<string, ReadonlySet<string>>> = {
  message: new Set(["id", "type", "role", "content", "status", "phase"]),
  reasoning: new Set(["id", "type", "summary", "content", "encrypted_content", "status"]),
  function_call: new Set(["id", "type", "call_id", "name", "arguments", "status"]),
  function_call_output: new Set(["id", "type", "call_id", "output", "status"]),
  item_reference: new Set(["id", "type"])
}

const contentKinds: Readonly<Record<string, ReadonlySet<string>>> = {
  assistant: new Set(["output_text", "refusal"]),
  user: new Set(["input_text", "input_image", "input_file"]),
  system: new Set(["input_text"]),
  developer: new Set(["input_text"])
}

const atInput = (message: string, more: Json = {}) => refuse(message, { param: "input", ...more })

const refuseItem = (item: Json, index: number, turn: Turn): Refusal | undefined => {
  const path = `input[${index}]`
  const kind = textOf(item["type"]) || "message"
  const allowed = kinds[kind]
  if (allowed === undefined) {
    return refuse(
      `Invalid value: '${kind}'. Supported values are: 'message', 'reasoning', 'function_call', 'function_call_output' and 'item_reference'.`,
      {
        param: `${path}.type`,
        code: "invalid_value"
      }
    )
  }
  const unknown = unknownParameter(item, allowed, `${path}.`)
  if (unknown !== undefined) return unknown
  const id = textOf(item["id"])
  if (kind === "item_reference" && !turn.stored.has(id)) {
    return refuse(
      `Item with id '${id}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`,
      { param: "input" },
      404
    )
  }
  const prefix = { message: "msg", reasoning: "rs", function_call: "fc" }[kind]
  if (id !== "" && prefix !== undefined && !id.startsWith(prefix)) {
    return refuse(`Invalid '${path}.id': '${id}'. Expected an ID that begins with '${prefix}'.`, {
      param: `${path}.id`,
      code: "invalid_value"
    })
  }
  if (kind === "reasoning" && !Array.isArray(item["summary"])) {
    return refuse(`Missing required parameter: '${path}.summary'.`, {
      param: `${path}.summary`,
      code: "missing_required_parameter"
    })
  }
  if (kind === "reasoning" && !stores(turn.body) && textOf(item["encrypted_content"]) === "") {
    return refuse(
      `Item with id '${id}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`,
      { param: "input" },
      404
    )
  }
  if (kind !== "message") return undefined
  const role = textOf(item["role"])
  const contents = contentKinds[role]
  if (contents === undefined) {
    return refuse(`Invalid value: '${role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'.`, {
      param: path,
      code: "invalid_value"
    })
  }
  const { content } = item
  if (Array.isArray(content)) {
    if (content.length === 0) {
      return refuse(
        `Invalid '${path}.content': empty array. Expected an array with minimum length 1, but got an empty array instead.`,
        {
          param: `${path}.content`,
          code: "empty_array"
        }
      )
    }
    const wrong = listOf(content).findIndex((part) => !contents.has(textOf(part["type"])))
    if (wrong >= 0) {
      const list = [...contents].map((one) => `'${one}'`).join(" and ")
      return refuse(`Invalid value: '${textOf(listOf(content)[wrong]?.["type"])}'. Supported values are: ${list}.`, {
        param: `${path}.content[${wrong}]`,
        code: "invalid_value"
      })
    }
  } else if (typeof content !== "string") {
    return refuse(`Missing required parameter: '${path}.content'.`, {
      param: `${path}.content`,
      code: "missing_required_parameter"
    })
  }
  return undefined
}

/** Reasoning belongs to the item that follows it, and that item to its reasoning. */
const refuseReasoning = (items: ReadonlyArray<Json>, { stored }: Turn): Refusal | undefined => {
  const all = [...stored.keys()]
  for (const [index, item] of items.entries()) {
    const id = textOf(item["id"])
    const kind = textOf(item["type"]) || "message"
    const next = items[index + 1]
    const isFollowed =
      next !== undefined &&
      (["reasoning", "function_call"].includes(textOf(next["type"])) || next["role"] === "assistant")
    if (kind === "reasoning" && !isFollowed) {
      return atInput(`Item '${id}' of type 'reasoning' was provided without its required following item.`)
    }
    const before = all[all.indexOf(id) - 1] ?? ""
    const isSameTurn = before.split("_")[1] === id.split("_")[1]
    if (kind !== "reasoning" && stored.has(id) && before.startsWith("rs_") && isSameTurn) {
      if (textOf(items[index - 1]?.["id"]) !== before) {
        return atInput(
          `Item '${id}' of type '${kind}' was provided without its required 'reasoning' item: '${before}'.`
        )
      }
    }
  }
  return undefined
}

const refuseCalls = (items: ReadonlyArray<Json>): Refusal | undefined => {
  const open = new Set<string>()
  for (const item of items) {
    const id = textOf(item["call_id"])
    if (item["type"] === "function_call") {
      if (!isObject(parse(item["arguments"]))) {
        return atInput(`Invalid 'arguments' of function call ${id}: expected a JSON object.`)
      }
      open.add(id)
    } else if (item["type"] === "function_call_output" && !open.delete(id)) {
      return atInput(`No tool call found for function call output with call_id ${id}.`)
    }
  }
  const [first] = open
  return first === undefined ? undefined : atInput(`No tool output found for function call ${first}.`)
}

/** The Responses API of OpenAI. */
export const openaiResponses: Dialect = {
  path: "/v1/responses",
  authorize: openaiAuthorize,
  refuse: (turn) => {
    const { body } = turn
    const tools = listOf(body["tools"])
    const format = objectOf(objectOf(body["text"])["format"])
    if (body["model"] === undefined) {
      return refuse("Missing required parameter: 'model'.", { param: "model", code: "missing_required_parameter" })
    }
    const isEmpty = Array.isArray(body["input"]) ? body["input"].length === 0 : typeof body["input"] !== "string"
    if (isEmpty) {
      return refuse("Missing required parameter: 'input'.", { param: "input", code: "missing_required_parameter" })
    }
    const most = body["max_output_tokens"]
    if (typeof most === "number" && most < 16) {
      return refuse(
        `Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got ${most} instead.`,
        { param: "max_output_tokens", code: "integer_below_min_value" }
      )
    }
    return (
      unknownParameter(body, known) ??
      refuseSampling(body) ??
      tools.map((tool, n) => refuseTool(tool, `tools[${n}]`)).find((refusal) => refusal !== undefined) ??
      refuseChoice(
        body["tool_choice"],
        tools.map(({ name }) => textOf(name))
      ) ??
      (format["type"] === "json_schema" ? refuseFormat(format, "text.format") : undefined) ??
      (Array.isArray(body["input"])
        ? (listOf(body["input"])
            .map((item, n) => refuseItem(item, n, turn))
            .find((refusal) => refusal !== undefined) ??
          refuseReasoning(resolved(turn), turn) ??
          refuseCalls(resolved(turn)))
        : undefined)
    )
  },
  request: (turn) => {
    const { instructions, text, tool_choice: choice, tools } = turn.body
    const output = objectOf(objectOf(text)["format"])["schema"]
    const isWord = choice === "none" || choice === "required"
    return {
      input: [...contentParts(instructions ?? "", "system"), ...resolved(turn).flatMap(inputOf)],
      tools: listOf(tools).map(({ description, name, parameters }) => ({
        name: textOf(name),
        description: textOf(description),
        parameters
      })),
      toolChoice: isObject(choice) ? { tool: textOf(choice["name"]) } : isWord ? choice : "auto",
      ...(output === undefined ? {} : { output })
    }
  },
  whole: (answer, turn) => responseOf(turn, itemsOf(answer.content, turn), answer),
  frames,
  error: openaiStatusError,
  errorFrame: (message) => event({ type: "error", sequence_number: 99, code: "server_error", message, param: null })
}
