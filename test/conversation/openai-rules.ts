import { isObject, type Say } from "./foreign-json.ts"

/**
 * The rules of OpenAI for the messages of a request, written down from its
 * documentation and without any code of the library.
 */
export const openaiRules = (messages: unknown): ReadonlyArray<string> => {
  if (!Array.isArray(messages)) return ["messages is no array"]
  const broken: Array<string> = []
  let open = new Set<string>()
  for (const [index, message] of messages.entries()) {
    const say = (what: string) => broken.push(`${index}: ${what}`)
    if (!isObject(message)) {
      say("no object")
      continue
    }
    const { content, role } = message
    if (role !== "tool" && open.size > 0) say(`calls without a result: ${[...open]}`)
    switch (role) {
      case "system":
      case "developer":
      case "user":
        said(content, say)
        break
      case "assistant": {
        open = calls(message["tool_calls"], say)
        const refused = typeof message["refusal"] === "string" && message["refusal"] !== ""
        const spoken = hasText(message["audio"], "id")
        if (content === null || content === undefined || content === "") {
          if (open.size === 0 && !refused && !spoken) say("an assistant message that says nothing")
        } else said(content, say)
        break
      }
      case "tool": {
        const id = message["tool_call_id"]
        if (typeof id !== "string" || !open.delete(id)) say(`a result without its call: ${id}`)
        if (content !== "") said(content, say)
        if (Array.isArray(content) && content.some((part) => !isObject(part) || part["type"] !== "text")) {
          say("a result that is not text")
        }
        break
      }
      default:
        say(`role ${role}`)
    }
  }
  if (open.size > 0) broken.push(`calls without a result: ${[...open]}`)
  return broken
}

const said = (content: unknown, say: Say): void => {
  if (typeof content === "string") {
    if (content === "") say("empty content")
    return
  }
  if (!Array.isArray(content) || content.length === 0) return say("no content")
  for (const part of content) {
    if (!isObject(part)) say("a part that is no object")
    else if (part["type"] === "text" && (typeof part["text"] !== "string" || part["text"] === "")) say("empty text")
    else if (part["type"] === "image_url" && typeof part["image_url"] === "string") continue
    else if (part["type"] === "image_url" && !hasText(part["image_url"], "url")) say("an image without a URL")
    else if (part["type"] === "input_audio" && !hasText(part["input_audio"], "data")) say("a recording without data")
    else if (part["type"] === "file" && !hasText(part["file"], "file_data") && !hasText(part["file"], "file_id")) {
      say("a file without data")
    }
  }
}

const hasText = (value: unknown, key: string): boolean =>
  isObject(value) && typeof value[key] === "string" && value[key] !== "" && !value[key].endsWith(";base64,")

const calls = (given: unknown, say: Say): Set<string> => {
  const ids = new Set<string>()
  if (given === undefined) return ids
  if (!Array.isArray(given) || given.length === 0) {
    say("empty tool_calls")
    return ids
  }
  for (const call of given) {
    if (isObject(call) && call["type"] === "custom" && isObject(call["custom"])) {
      if (typeof call["id"] !== "string" || typeof call["custom"]["input"] !== "string") say("a custom call")
      else ids.add(call["id"])
      continue
    }
    if (!isObject(call) || call["type"] !== "function" || !isObject(call["function"])) {
      say("a call of another shape")
      continue
    }
    const { id } = call
    const { arguments: args, name } = call["function"]
    if (typeof id !== "string" || id === "" || ids.has(id)) say(`call id ${id}`)
    else ids.add(id)
    if (typeof name !== "string" || name === "") say(`tool name ${name}`)
    if (typeof args !== "string" || !isObjectText(args)) say(`arguments ${args}`)
  }
  return ids
}

const isObjectText = (text: string): boolean => {
  if (text.trim() === "") return true
  try {
    return isObject(JSON.parse(text))
  } catch {
    return false
  }
}
