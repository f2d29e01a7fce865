import { isObject, type Say } from "./foreign-json.ts"

/**
 * The rules of Anthropic for `system` and `messages` of a request, written down from
 * its documentation and without any code of the library.
 */
export const anthropicRules = (history: unknown): ReadonlyArray<string> => {
  const broken: Array<string> = []
  if (!isObject(history)) return ["no object"]
  const { messages, system } = history
  if (system !== undefined && system !== null) texts(system, (what) => broken.push(`system: ${what}`))
  if (!Array.isArray(messages)) return [...broken, "messages is no array"]
  if (messages.length > 0 && isObject(messages[0]) && messages[0]["role"] !== "user") broken.push("assistant first")
  let open: ReadonlyArray<string> = []
  let server: ReadonlyArray<string> = []
  for (const [index, message] of messages.entries()) {
    const say = (what: string) => broken.push(`${index}: ${what}`)
    if (!isObject(message)) {
      say("no object")
      continue
    }
    const { content, role } = message
    if (role === "user") {
      results(content, open, say)
      if (server.length > 0 && open.length === 0) say(`server tools without a result: ${server}`)
      open = []
      server = []
    } else if (role === "system") {
      if (open.length > 0) say(`calls without a result: ${open}`)
      const before = messages.slice(0, index).findLast((one) => isObject(one) && one["role"] !== "system")
      if (!isObject(before) || before["role"] !== "user") say("a system message that follows no message of the user")
      const next: unknown = messages[index + 1]
      if (isObject(next) && next["role"] === "user") say("a system message before a message of the user")
      if (typeof content === "string" || !Array.isArray(content)) texts(content, say)
      else for (const block of content) if (!isToolChange(block)) textBlock(block, say)
    } else if (role === "assistant") {
      if (open.length > 0) say(`calls without a result: ${open}`)
      ;[open, server] = answer(content, server, say)
    } else say(`role ${role}`)
  }
  if (open.length > 0) broken.push(`calls without a result: ${open}`)
  return broken
}

const isBlank = (text: unknown): boolean => typeof text !== "string" || text.trim() === ""

const isToolChange = (block: unknown): boolean =>
  isObject(block) && ["tool_addition", "tool_removal"].includes(String(block["type"])) && isObject(block["tool"])

const texts = (content: unknown, say: Say): void => {
  if (typeof content === "string") {
    if (isBlank(content)) say("blank text")
  } else if (!Array.isArray(content) || content.length === 0) say("no content")
  else for (const block of content) textBlock(block, say)
}

const textBlock = (block: unknown, say: Say): void => {
  if (!isObject(block) || block["type"] !== "text") say("no text block")
  else if (isBlank(block["text"])) say("blank text block")
}

const mediaTypes = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"])

const media = (block: unknown, say: Say): void => {
  if (!isObject(block) || !isObject(block["source"])) return say("a block without a source")
  const { type, ...source } = block["source"]
  if (type === "content" && block["type"] === "document") {
    const { content } = source
    if (!Array.isArray(content) || content.length === 0) return texts(content, say)
    for (const one of content) {
      if (isObject(one) && one["type"] === "image") media(one, say)
      else textBlock(one, say)
    }
    return
  }
  const data = source["data"] ?? source["url"] ?? source["file_id"]
  if (typeof data !== "string" || data === "") say("an empty source")
  if (type === "base64") {
    const isAllowed =
      block["type"] === "image"
        ? mediaTypes.has(String(source["media_type"]))
        : source["media_type"] === "application/pdf"
    if (!isAllowed) say(`media type ${source["media_type"]}`)
  }
}

/** The members that some blocks need, by their type. */
const required = new Map([
  ["search_result", ["title", "source"]],
  ["container_upload", ["file_id"]],
  ["tool_reference", ["tool_name"]],
  ["compaction", ["content"]]
])

/** A block of a newer version in the generated histories: the provider would know it. */
const isNewer = (block: Readonly<Record<string, unknown>>): boolean =>
  block["type"] === "hologram" || (isObject(block["source"]) && block["source"]["type"] === "cloud")

const hasMembers = (block: unknown, types: ReadonlyArray<string>, say: Say): boolean => {
  const type = isObject(block) && typeof block["type"] === "string" ? block["type"] : ""
  if (isObject(block) && isNewer(block)) return true
  if (!isObject(block) || !types.includes(type)) return false
  for (const key of required.get(type) ?? []) if (isBlank(block[key])) say(`${type} without ${key}`)
  return true
}

const userBlock = (block: unknown, say: Say, more: string): void => {
  if (isObject(block) && isNewer(block)) return
  if (isObject(block) && (block["type"] === "image" || block["type"] === "document")) media(block, say)
  else if (!hasMembers(block, ["search_result", more], say)) textBlock(block, say)
}

const results = (content: unknown, open: ReadonlyArray<string>, say: Say): void => {
  if (typeof content === "string") {
    texts(content, say)
    if (open.length > 0) say(`calls without a result: ${open}`)
    return
  }
  if (!Array.isArray(content) || content.length === 0) return say("no content")
  const left = new Set(open)
  let isFirst = true
  for (const block of content) {
    if (!isObject(block) || block["type"] !== "tool_result") {
      isFirst = false
      userBlock(block, say, "container_upload")
      continue
    }
    if (!isFirst) say("a result behind other content")
    const id = block["tool_use_id"]
    if (typeof id !== "string" || !left.delete(id)) say(`a result without its call: ${id}`)
    const inner = block["content"]
    if (block["is_error"] === true && isBlank(inner) && !(Array.isArray(inner) && inner.length > 0)) {
      say("a failed result that says nothing")
    }
    if (Array.isArray(inner)) {
      if (inner.length === 0) say("empty result content")
      for (const one of inner)
        if (!isObject(one) || one["type"] !== "browser_state") userBlock(one, say, "tool_reference")
    } else if (
      inner !== undefined &&
      inner !== null &&
      (typeof inner !== "string" || (inner !== "" && isBlank(inner)))
    ) {
      say("blank result content")
    }
  }
  if (left.size > 0) say(`calls without a result: ${[...left]}`)
}

type Ids = ReadonlyArray<string>

const answer = (content: unknown, pending: Ids, say: Say): readonly [open: Ids, server: Ids] => {
  const open = new Set<string>()
  const server = new Set(pending)
  if (typeof content === "string") texts(content, say)
  else if (!Array.isArray(content) || content.length === 0) say("no content")
  for (const block of Array.isArray(content) ? content : []) {
    const { type, ...rest } = isObject(block) ? block : {}
    if (hasMembers(block, ["compaction", "container_upload"], say)) continue
    switch (type) {
      case "text":
        textBlock(block, say)
        break
      case "thinking":
        if (isBlank(rest["signature"])) say("thinking without a signature")
        break
      case "redacted_thinking":
        if (isBlank(rest["data"])) say("redacted thinking without data")
        break
      case "tool_use":
      case "server_tool_use":
      case "mcp_tool_use": {
        const { id, input, name } = rest
        const ids = type === "tool_use" ? open : server
        if (typeof id !== "string" || id === "" || ids.has(id)) say(`call id ${id}`)
        else ids.add(id)
        if (isBlank(name)) say(`tool name ${name}`)
        if (!isObject(input)) say("input is no object")
        break
      }
      default: {
        const id = rest["tool_use_id"]
        if (typeof type !== "string" || !type.endsWith("_tool_result")) say(`block ${type}`)
        else if (typeof id !== "string" || !server.delete(id)) say(`a server result without its call: ${id}`)
      }
    }
  }
  const last: unknown = Array.isArray(content) ? content.at(-1) : undefined
  if (isObject(last) && String(last["type"]).endsWith("thinking")) say("thinking at the end")
  return [[...open], [...server]]
}
