import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import type * as Script from "../Script.ts"

const compact = (value: unknown): string =>
  typeof value === "string"
    ? value
    : Option.getOrElse(Schema.encodeUnknownOption(Schema.fromJsonString(Schema.Unknown))(value), () => String(value))

const resultText = (part: Prompt.ToolResultPart): string =>
  part.modelOutput === undefined
    ? compact(part.result)
    : part.modelOutput.map((output) => (output.type === "text" ? output.text : `[${output.mediaType}]`)).join("\n")

const fromMessage = (message: Prompt.Message): Script.RequestMessage => {
  if (message.role === "system") return { role: "system", text: message.content }
  const texts: Array<string> = []
  const reasoning: Array<string> = []
  const files: Array<string> = []
  const toolCalls: Array<{ readonly id: string; readonly name: string; readonly params: unknown }> = []
  const toolResults: Array<{
    readonly id: string
    readonly name: string
    readonly isFailure: boolean
    readonly text: string
  }> = []
  for (const part of message.content) {
    switch (part.type) {
      case "text":
        texts.push(part.text)
        break
      case "reasoning":
        reasoning.push(part.text)
        break
      case "file":
        files.push(part.mediaType)
        break
      case "tool-call":
        toolCalls.push({ id: part.id, name: part.name, params: part.params })
        break
      case "tool-result": {
        const text = resultText(part)
        if (message.role === "tool") texts.push(text)
        toolResults.push({ id: part.id, name: part.name, isFailure: part.isFailure, text })
        break
      }
      default:
    }
  }
  return {
    role: message.role,
    text: texts.join("\n"),
    ...(reasoning.length > 0 ? { reasoning: reasoning.join("\n") } : {}),
    ...(files.length > 0 ? { files } : {}),
    ...(toolCalls.length > 0 ? { toolCalls } : {}),
    ...(toolResults.length > 0 ? { toolResults } : {})
  }
}

// A long run sends the same message and tool objects again and again: each is read once.
const messages = new WeakMap<Prompt.Message, Script.RequestMessage>()
const tools = new WeakMap<Tool.Any, Script.RequestTool>()

const cached = <K extends WeakKey, V>(cache: WeakMap<K, V>, key: K, make: (key: K) => V): V => {
  const known = cache.get(key)
  if (known !== undefined) return known
  const value = make(key)
  cache.set(key, value)
  return value
}

/** A schema that has no JSON Schema is recorded as `undefined`; whether it matters is for the caller to say. */
const orUndefined = <A>(evaluate: () => A): A | undefined => Result.getOrUndefined(Result.try(evaluate))

const fromTool = (tool: Tool.Any): Script.RequestTool => {
  const description = Tool.getDescription(tool)
  return {
    name: tool.name,
    ...(description === undefined ? {} : { description }),
    parameters: orUndefined(() => Tool.getJsonSchema(tool))
  }
}

const toolChoice = (choice: LanguageModel.ProviderOptions["toolChoice"]): Script.ToolChoice => {
  if (typeof choice === "string") return choice
  if ("tool" in choice) return { tool: choice.tool }
  return choice.mode === undefined ? { oneOf: [...choice.oneOf] } : { mode: choice.mode, oneOf: [...choice.oneOf] }
}

const responseFormat = (format: LanguageModel.ProviderOptions["responseFormat"]): Script.RequestFormat =>
  format.type === "text"
    ? { type: "text" }
    : {
        type: "json",
        objectName: format.objectName,
        schema: orUndefined(() => Schema.toJsonSchemaDocument(format.schema).schema)
      }

export const fromProviderOptions = (
  options: LanguageModel.ProviderOptions,
  hook: "generateText" | "streamText",
  index: number
): Script.Request => ({
  index,
  method: options.responseFormat.type === "json" ? "generateObject" : hook,
  messages: options.prompt.content.map((message) => cached(messages, message, fromMessage)),
  tools: options.tools.map((tool) => cached(tools, tool, fromTool)),
  toolChoice: toolChoice(options.toolChoice),
  responseFormat: responseFormat(options.responseFormat),
  prompt: options.prompt
})
