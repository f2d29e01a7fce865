import type { LanguageModelConformance } from "effect-emissary/testing"
import { deltas, isObject, listOf, objectOf, parse, textOf } from "./server.ts"
import { googleProblem } from "./tool-rules.ts"
import type { Answer, Content, Dialect, Json, Refusal, Turn } from "./server.ts"

const statuses: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  503: "UNAVAILABLE"
}

const errorBody = (code: number, message: string, details?: ReadonlyArray<unknown>) => ({
  error: { code, message, status: statuses[code] ?? "UNKNOWN", ...(details === undefined ? {} : { details }) }
})

const no = (message: string): Refusal => ({ status: 400, body: errorBody(400, message) })

const finishReasons = { stop: "STOP", length: "MAX_TOKENS", "content-filter": "SAFETY", "tool-calls": "STOP" } as const

/** The candidates are counted without the thoughts. */
const usageOf = ({ usage }: Answer) => ({
  promptTokenCount: usage.inputTokens ?? 0,
  cachedContentTokenCount: usage.cacheReadTokens ?? 0,
  candidatesTokenCount: (usage.outputTokens ?? 0) - (usage.reasoningTokens ?? 0),
  thoughtsTokenCount: usage.reasoningTokens ?? 0,
  totalTokenCount: (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0)
})

/** The signature of a thought is on the first call, or else on the text. */
const partsOf = (content: Content): ReadonlyArray<Json> => {
  const thought = content.find((part) => part.type === "reasoning")
  const bearer = content.find((part) => part.type === "tool-call") ?? content.find((part) => part.type === "text")
  return content.map((part): Json => {
    const signed = part === bearer && thought !== undefined ? { thoughtSignature: thought.signature } : {}
    if (part.type === "reasoning") return { text: part.text, thought: true }
    if (part.type === "text") return { text: part.text, ...signed }
    const args = objectOf(parse(part.arguments || "{}"))
    return { functionCall: { id: part.id, name: part.name, args }, ...signed }
  })
}

const about = ({ index }: Turn) => ({ modelVersion: "gemini-3-pro-preview", responseId: `response-${index}` })

const whole: Dialect["whole"] = (answer, turn) => {
  const content = { role: "model", parts: partsOf(answer.content) }
  const candidate = { index: 0, content, finishReason: finishReasons[answer.finish] }
  return { candidates: [candidate], usageMetadata: usageOf(answer), ...about(turn) }
}

const frame = (data: unknown): string => `data: ${JSON.stringify(data)}\r\n\r\n`

const frames: Dialect["frames"] = (content, turn, end) => {
  const chunks = partsOf(content).flatMap((part) => {
    const { text, thoughtSignature, ...others } = part
    if (typeof text !== "string") return [part]
    const signed = thoughtSignature === undefined ? [] : [{ text: "", ...others, thoughtSignature }]
    return [...deltas(text).map((delta) => ({ text: delta, ...others })), ...signed]
  })
  const said = chunks.map((part) =>
    frame({ candidates: [{ index: 0, content: { role: "model", parts: [part] } }], ...about(turn) })
  )
  if (end === undefined) return said
  const last = { index: 0, content: { role: "model", parts: [] }, finishReason: finishReasons[end.finish] }
  return [...said, frame({ candidates: [last], usageMetadata: usageOf(end), ...about(turn) })]
}

const inputOf = ({ parts, role }: Json): ReadonlyArray<LanguageModelConformance.InputPart> => {
  const list = listOf(parts)
  const signature = textOf(list.find((part) => part["thoughtSignature"] !== undefined)?.["thoughtSignature"])
  return list.flatMap((part): ReadonlyArray<LanguageModelConformance.InputPart> => {
    const { fileData, functionCall, functionResponse, inlineData, text, thought } = part
    if (isObject(functionCall)) {
      const { args, id, name } = functionCall
      return [{ type: "tool-call", id: textOf(id), name: textOf(name), arguments: args }]
    }
    if (isObject(functionResponse)) {
      const { content, error, result } = objectOf(functionResponse["response"])
      const found = content ?? error ?? result
      const text = typeof found === "string" ? found : JSON.stringify(found ?? "")
      return [{ type: "tool-result", id: textOf(functionResponse["id"]), text }]
    }
    if (isObject(inlineData)) {
      return [{ type: "file", mediaType: textOf(inlineData["mimeType"]), data: textOf(inlineData["data"]) }]
    }
    if (isObject(fileData)) {
      return [{ type: "file", mediaType: textOf(fileData["mimeType"]), data: textOf(fileData["fileUri"]) }]
    }
    if (thought === true) return [{ type: "reasoning", text: textOf(text), signature }]
    if (textOf(text) === "") return []
    return [{ type: role === "user" ? "user" : "text", text: textOf(text) }]
  })
}

const known = new Set([
  "contents",
  "systemInstruction",
  "tools",
  "toolConfig",
  "generationConfig",
  "safetySettings",
  "cachedContent",
  "labels",
  "serviceTier"
])

const isCall = (part: Json): boolean => part["functionCall"] !== undefined

const isResponse = (part: Json): boolean => part["functionResponse"] !== undefined

const refuseContents = (contents: ReadonlyArray<Json>): Refusal | undefined => {
  let open = 0
  for (const [index, content] of contents.entries()) {
    const parts = listOf(content["parts"])
    const role = textOf(content["role"])
    if (role !== "user" && role !== "model") return no("Please use a valid role: user, model.")
    if (parts.length === 0) {
      return no(`* GenerateContentRequest.contents[${index}].parts: contents.parts must not be empty.`)
    }
    const bare = parts.findIndex((part) =>
      Object.keys(part).every((key) => ["thought", "thoughtSignature"].includes(key))
    )
    if (bare >= 0) {
      return no(
        `* GenerateContentRequest.contents[${index}].parts[${bare}].data: required oneof field 'data' must have one initialized field`
      )
    }
    const responses = parts.filter(isResponse).length
    if (responses > 0 && open === 0) {
      return no("Please ensure that function response turn comes immediately after a function call turn.")
    }
    if (open > 0 && responses !== open) {
      return no(
        "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
      )
    }
    const calls = parts.filter(isCall)
    if (calls.length > 0 && (role !== "model" || contents[index - 1]?.["role"] !== "user")) {
      return no(
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
      )
    }
    const [first] = calls
    if (first !== undefined && textOf(first["thoughtSignature"]) === "") {
      const name = textOf(objectOf(first["functionCall"])["name"])
      return no(
        `Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call \`default_api:${name}\` , position ${index + 1}.`
      )
    }
    open = calls.length
  }
  return undefined
}

const refuseTool = (tool: Json, index: number): Refusal | undefined => {
  const path = `tools[0].function_declarations[${index}]`
  const extra = Object.keys(tool).find(
    (key) => !["name", "description", "parameters", "parametersJsonSchema", "response"].includes(key)
  )
  if (extra !== undefined) {
    return no(`Invalid JSON payload received. Unknown name "${extra}" at '${path}': Cannot find field.`)
  }
  const problem = googleProblem(tool["parametersJsonSchema"])
  if (problem !== undefined) return no(`* GenerateContentRequest.${path}.${problem}`)
  if (/^[a-zA-Z_][\w.:-]{0,63}$/.test(textOf(tool["name"]))) return undefined
  return no(
    `* GenerateContentRequest.${path}.name: Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.`
  )
}

const path = "/v1beta/models/gemini-3-pro-preview"

/** The API of Gemini, for a model that signs its thoughts. */
export const googleGenerate: Dialect = {
  path: `${path}:generateContent`,
  streamPath: `${path}:streamGenerateContent?alt=sse`,
  authorize: (headers, key) => {
    const given = headers["x-goog-api-key"]
    if (given === key) return undefined
    if (given === undefined) {
      const message = "Method doesn't allow unregistered callers (callers without established identity)."
      return { status: 403, body: errorBody(403, message) }
    }
    const details = [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }]
    return { status: 400, body: errorBody(400, "API key not valid. Please pass a valid API key.", details) }
  },
  refuse: ({ body }) => {
    const extra = Object.keys(body).find((key) => !known.has(key))
    if (extra !== undefined) return no(`Invalid JSON payload received. Unknown name "${extra}": Cannot find field.`)
    const contents = listOf(body["contents"])
    if (contents.length === 0) return no("* GenerateContentRequest.contents: contents is not specified")
    const [tools = {}] = listOf(body["tools"])
    return (
      listOf(tools["functionDeclarations"])
        .map(refuseTool)
        .find((refusal) => refusal !== undefined) ?? refuseContents(contents)
    )
  },
  request: ({ body }) => {
    const [tools = {}] = listOf(body["tools"])
    const { allowedFunctionNames, mode } = objectOf(objectOf(body["toolConfig"])["functionCallingConfig"])
    const [only] = Array.isArray(allowedFunctionNames) ? allowedFunctionNames : []
    const output = objectOf(body["generationConfig"])["responseJsonSchema"]
    const choice = mode === "NONE" ? "none" : mode === "ANY" ? "required" : "auto"
    const system = listOf(objectOf(body["systemInstruction"])["parts"]).map(({ text }) => textOf(text))
    return {
      input: [
        ...system.map((text) => ({ type: "system" as const, text })),
        ...listOf(body["contents"]).flatMap(inputOf)
      ],
      tools: listOf(tools["functionDeclarations"]).map(({ description, name, parameters, parametersJsonSchema }) => ({
        name: textOf(name),
        description: textOf(description),
        parameters: parametersJsonSchema ?? parameters
      })),
      toolChoice: only === undefined ? choice : { tool: textOf(only) },
      ...(output === undefined ? {} : { output })
    }
  },
  whole,
  frames,
  error: (status, message) => errorBody(status, message),
  errorFrame: (message) => frame(errorBody(503, message))
}
