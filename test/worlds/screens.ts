/**
 * Readers of the streams of front ends, for worlds: what a page shows after each chunk of the UI message stream of the AI SDK, and after each
 * event of AG-UI. They are written from the documents of these protocols. `test/screen/kills.ts` compares them with the published
 * readers, which need promises and so cannot run in a world.
 */

/** A value of JSON as a page looks into it. */
export interface Data {
  readonly [member: string]: unknown
}

const isData = (value: unknown): value is Data => typeof value === "object" && value !== null && !Array.isArray(value)

export const dataOf = (value: unknown): Data => (isData(value) ? value : {})

export const listOf = (value: unknown): ReadonlyArray<Data> => (Array.isArray(value) ? value.filter(isData) : [])

/** The values of a text of server-sent events. An event that was cut off is none. */
export const valuesIn = (text: string): ReadonlyArray<Data> =>
  text
    .split("\n\n")
    .slice(0, -1)
    .flatMap((block) => {
      const lines = block.split("\n").filter((line) => line.startsWith("data: "))
      const data = lines.map((line) => line.slice(6)).join("\n")
      return data === "" || data === "[DONE]" ? [] : [dataOf(JSON.parse(data))]
    })

/** A message of a page, whose parts are changed in place. */
export interface Shown {
  id: string
  readonly role: string
  readonly parts: Array<Record<string, unknown>>
  metadata?: unknown
}

/** The screen of a page of the AI SDK after one stream. `problems`: chunks that have no place in it. */
export interface UiScreen {
  readonly message: Shown
  readonly open: Map<string, Record<string, unknown>>
  readonly inputs: Map<string, { readonly name: string; text: string }>
  readonly problems: Array<string>
  /** The type of the chunk that ended the message. */
  end?: string
}

export const uiScreen = (message: Shown = { id: "", role: "assistant", parts: [] }): UiScreen => ({
  message: structuredClone(message),
  open: new Map(),
  inputs: new Map(),
  problems: []
})

const isTool = ({ type }: Record<string, unknown>) => String(type).startsWith("tool-") || type === "dynamic-tool"

const stepOf = ({ parts }: Shown) => parts.slice(parts.findLastIndex(({ type }) => type === "step-start") + 1)

/** The part of a call: in the step under way, or else the newest one. */
const callOf = (message: Shown, id: unknown) =>
  stepOf(message).find((part) => isTool(part) && part["toolCallId"] === id) ??
  message.parts.findLast((part) => isTool(part) && part["toolCallId"] === id)

const clear = (part: Record<string, unknown>) => {
  for (const name of ["input", "rawInput", "output", "errorText"]) delete part[name]
}

/** Shows one chunk. */
export const showChunk = (screen: UiScreen, chunk: Data): void => {
  const { inputs, message, open, problems } = screen
  const { id, toolCallId, toolName, type } = chunk
  const wrong = (what: string) => void problems.push(`${String(type)} of ${String(id ?? toolCallId)}: ${what}`)
  if (screen.end !== undefined) return wrong(`a chunk after ${screen.end}`)
  const setTool = (name: unknown, more: Record<string, unknown>) => {
    const isDynamic = chunk["dynamic"] === true
    const found = stepOf(message).find(
      (part) => isTool(part) && (part["type"] === "dynamic-tool") === isDynamic && part["toolCallId"] === toolCallId
    )
    const part = found ?? { toolCallId }
    clear(part)
    Object.assign(part, isDynamic ? { type: "dynamic-tool", toolName: name } : { type: `tool-${String(name)}` }, more)
    if (found === undefined) message.parts.push(part)
  }
  const change = (more: Record<string, unknown>, isAnswer = false) => {
    const part = callOf(message, toolCallId)
    if (part === undefined) return wrong("no such call")
    if (isAnswer) for (const name of ["rawInput", "output", "errorText"]) delete part[name]
    Object.assign(part, more)
  }
  switch (type) {
    case "start":
      if (id !== undefined) return wrong("a start has a messageId")
      if (typeof chunk["messageId"] === "string" && chunk["messageId"] !== message.id) {
        if (message.parts.length > 0) wrong(`another message than ${message.id}`)
        message.id = chunk["messageId"]
      }
      return
    case "start-step":
      return void message.parts.push({ type: "step-start" })
    case "finish-step":
      return
    case "reset-step": {
      const count = stepOf(message).length
      message.parts.splice(message.parts.length - count, count)
      open.clear()
      inputs.clear()
      return
    }
    case "text-start":
    case "reasoning-start": {
      const kind = type.slice(0, -6)
      const part = { type: kind, ...(kind === "reasoning" && { id }), text: "", state: "streaming" }
      if (open.has(`${kind}/${String(id)}`)) wrong("it has begun")
      open.set(`${kind}/${String(id)}`, part)
      return void message.parts.push(part)
    }
    case "text-delta":
    case "reasoning-delta": {
      const part = open.get(`${type.slice(0, -6)}/${String(id)}`)
      if (part === undefined) return wrong("it has not begun")
      part["text"] = `${String(part["text"])}${String(chunk["delta"])}`
      return
    }
    case "text-end":
    case "reasoning-end": {
      const key = `${type.slice(0, -4)}/${String(id)}`
      const part = open.get(key)
      if (part === undefined) return wrong("it has not begun")
      part["state"] = "done"
      open.delete(key)
      return
    }
    case "tool-input-start":
      inputs.set(String(toolCallId), { name: String(toolName), text: "" })
      return setTool(toolName, { state: "input-streaming" })
    case "tool-input-delta": {
      const input = inputs.get(String(toolCallId))
      if (input === undefined) return wrong("it has not begun")
      input.text += String(chunk["inputTextDelta"])
      return
    }
    case "tool-input-available": {
      const { input, providerExecuted } = chunk
      const text = inputs.get(String(toolCallId))?.text ?? ""
      if (
        text !== "" &&
        !JSON.stringify(input).startsWith(text) &&
        JSON.stringify(JSON.parse(text)) !== JSON.stringify(input)
      )
        wrong(`the input ${JSON.stringify(input)} after ${text}`)
      return setTool(toolName, {
        state: "input-available",
        input,
        ...(providerExecuted === true && { providerExecuted })
      })
    }
    case "tool-approval-request":
      return change({ state: "approval-requested", approval: { id: chunk["approvalId"] } })
    case "tool-approval-response": {
      const { approvalId, approved, reason } = chunk
      const part = message.parts.find((one) => dataOf(one["approval"])["id"] === approvalId)
      if (part === undefined) return wrong(`no request ${String(approvalId)}`)
      const approval = { id: approvalId, approved, ...(reason !== undefined && { reason }) }
      return void Object.assign(part, { state: "approval-responded", approval })
    }
    case "tool-output-denied":
      return change({ state: "output-denied" })
    case "tool-output-available":
      return change({ state: "output-available", output: chunk["output"] }, true)
    case "tool-output-error":
      return change({ state: "output-error", errorText: chunk["errorText"] }, true)
    case "file":
    case "source-url":
    case "source-document":
      return void message.parts.push({ ...chunk })
    case "message-metadata":
      message.metadata = chunk["messageMetadata"]
      return
    case "finish":
      if (open.size > 0) wrong(`${[...open.keys()].join()} is open`)
      if (chunk["messageMetadata"] !== undefined) message.metadata = chunk["messageMetadata"]
      screen.end = type
      return
    case "error":
    case "abort":
      screen.end = type
      return
    default: {
      if (!String(type).startsWith("data-")) return wrong("an unknown chunk")
      if (chunk["transient"] === true) return
      const known = message.parts.find((part) => part["type"] === type && part["id"] === id)
      if (known !== undefined) return void Object.assign(known, { data: chunk["data"] })
      return void message.parts.push({ type, ...(id !== undefined && { id }), data: chunk["data"] })
    }
  }
}

const isInside = ({ type }: Data) => String(type).startsWith("data-") || type === "dynamic-tool"

/**
 * Messages without what is stored elsewhere: answers of a person, and the work inside of agents and plans. A message or a step without anything is
 * none, and the first step of a message begins with the message.
 */
export const plainUi = (messages: ReadonlyArray<Pick<Shown, "id"> & { readonly parts: ReadonlyArray<object> }>) =>
  messages.flatMap((message): ReadonlyArray<unknown> => {
    const parts = message.parts.map(dataOf).filter((part) => !isInside(part))
    while (parts.at(-1)?.["type"] === "step-start") parts.pop()
    if (parts[0]?.["type"] === "step-start") parts.shift()
    if (parts.length === 0) return []
    const text = JSON.stringify({ ...message, parts }, (key, part: unknown) => (key === "approval" ? undefined : part))
    return [JSON.parse(text)]
  })

/** A message of AG-UI, which is changed in place. */
export interface AgMessage {
  readonly id: string
  readonly role: string
  content?: unknown
  readonly toolCalls?: Array<{
    readonly id: string
    readonly type: string
    readonly function: { readonly name: string; arguments: string }
  }>
  readonly [member: string]: unknown
}

/** The screen of a page of AG-UI. `problems`: events that have no place in a run. */
export interface AgScreen {
  messages: Array<AgMessage>
  steps: Record<string, unknown>
  interrupts: ReadonlyArray<Data>
  readonly open: Set<string>
  /** The agents and steps that are at work. */
  readonly working: Set<string>
  readonly problems: Array<string>
  /** `running`, and the type of the event that ended the run. */
  run: string
}

export const agScreen = (messages: ReadonlyArray<AgMessage> = []): AgScreen => ({
  messages: structuredClone(messages) as Array<AgMessage>,
  steps: {},
  interrupts: [],
  open: new Set(),
  working: new Set(),
  problems: [],
  run: "none"
})

/** A page keeps messages that a snapshot has in their places, its activities, and its reasoning unless the snapshot has other reasoning. */
const snapshot = (screen: AgScreen, given: ReadonlyArray<AgMessage>) => {
  const byId = new Map(given.map((message) => [message.id, message]))
  const hasReasoning = given.some(({ role }) => role === "reasoning")
  const kept = screen.messages.filter(
    ({ id, role }) => byId.has(id) || role === "activity" || (role === "reasoning" && !hasReasoning)
  )
  const known = new Set(kept.map(({ id }) => id))
  const all = [...kept.map((message) => byId.get(message.id) ?? message), ...given.filter(({ id }) => !known.has(id))]
  screen.messages = structuredClone(all)
}

/** Shows one event. */
export const showEvent = (screen: AgScreen, event: Data): void => {
  const { open, problems } = screen
  const { delta, messageId, toolCallId, type } = event
  const key = String(messageId ?? toolCallId)
  const wrong = (what: string) => void problems.push(`${String(type)} of ${key}: ${what}`)
  if (type === "RUN_STARTED") {
    if (screen.run === "running") wrong("a run is under way")
    screen.run = "running"
    screen.interrupts = []
    open.clear()
    screen.working.clear()
    return
  }
  if (screen.run !== "running") return wrong("no run is under way")
  const { stepName } = event
  if (type === "STEP_STARTED" || type === "STEP_FINISHED") {
    const isOpen = screen.working.delete(String(stepName))
    if (type === "STEP_STARTED") screen.working.add(String(stepName))
    if (isOpen === (type === "STEP_STARTED")) wrong(`the step ${String(stepName)}`)
    return
  }
  const begin = (kind: string) => {
    if (open.has(`${kind}/${key}`)) wrong("it has begun")
    open.add(`${kind}/${key}`)
  }
  const end = (kind: string) => {
    if (!open.delete(`${kind}/${key}`)) wrong("it has not begun")
  }
  const found = screen.messages.find(({ id }) => id === messageId)
  switch (type) {
    case "STATE_SNAPSHOT":
      screen.steps = { ...dataOf(dataOf(event["snapshot"])["steps"]) }
      return
    case "STATE_DELTA":
      for (const { path, value } of listOf(delta)) {
        const place = String(path).slice("/steps/".length).replaceAll("~1", "/").replaceAll("~0", "~")
        screen.steps[place] = value
      }
      return
    case "MESSAGES_SNAPSHOT":
      if (open.size > 0) wrong(`${[...open].join()} is open`)
      // Sound: the messages of a snapshot have these members, which the published reader checks
      return snapshot(screen, event["messages"] as ReadonlyArray<AgMessage>)
    case "TEXT_MESSAGE_START":
      begin("text")
      if (found === undefined)
        screen.messages.push({ id: key, role: String(event["role"] ?? "assistant"), content: "" })
      return
    case "REASONING_START":
      return begin("thought")
    case "REASONING_MESSAGE_START":
      begin("reasoning")
      if (found === undefined) screen.messages.push({ id: key, role: "reasoning", content: "" })
      return
    case "TEXT_MESSAGE_CONTENT":
    case "REASONING_MESSAGE_CONTENT":
      if (found === undefined) return wrong("no such message")
      if (!open.has(`${type.startsWith("TEXT") ? "text" : "reasoning"}/${key}`)) wrong("it has not begun")
      found.content = `${typeof found.content === "string" ? found.content : ""}${String(delta)}`
      return
    case "TEXT_MESSAGE_END":
      return end("text")
    case "REASONING_MESSAGE_END":
      return end("reasoning")
    case "REASONING_END":
      return end("thought")
    case "TOOL_CALL_START": {
      begin("call")
      const call = { id: key, type: "function", function: { name: String(event["toolCallName"]), arguments: "" } }
      if (screen.messages.some(({ toolCalls = [] }) => toolCalls.some(({ id }) => id === key)))
        return wrong("a call twice")
      const parent = screen.messages.findIndex(
        ({ id, role }) => id === event["parentMessageId"] && role === "assistant"
      )
      const before = screen.messages[parent]
      const message = before ?? { id: String(event["parentMessageId"]), role: "assistant" }
      const after = { ...message, toolCalls: [...(message.toolCalls ?? []), call] }
      if (before === undefined) screen.messages.push(after)
      else screen.messages[parent] = after
      return
    }
    case "TOOL_CALL_ARGS": {
      const calls = screen.messages.flatMap(({ toolCalls = [] }) => toolCalls)
      const call = calls.find(({ id }) => id === key)
      if (call === undefined || !open.has(`call/${key}`)) return wrong("no such call is open")
      call.function.arguments += String(delta)
      return
    }
    case "TOOL_CALL_END":
      return end("call")
    case "TOOL_CALL_RESULT": {
      const result = { id: key, role: "tool", toolCallId, content: event["content"] }
      const owner = screen.messages.findIndex(({ toolCalls = [] }) => toolCalls.some(({ id }) => id === toolCallId))
      if (found !== undefined || owner < 0) return wrong(owner < 0 ? "no such call" : "a result twice")
      let place = owner + 1
      while (screen.messages[place]?.role === "tool") place += 1
      screen.messages.splice(place, 0, result)
      return
    }
    case "ACTIVITY_SNAPSHOT": {
      const { activityType, content } = event
      const message = { id: key, role: "activity", activityType, content }
      const place = screen.messages.findIndex(({ id }) => id === messageId)
      if (place < 0) screen.messages.push(message)
      else screen.messages[place] = message
      return
    }
    case "RUN_FINISHED":
    case "RUN_ERROR":
      if (open.size + screen.working.size > 0 && type === "RUN_FINISHED")
        wrong(`${[...open, ...screen.working].join()} is open`)
      screen.interrupts = listOf(dataOf(event["outcome"])["interrupts"])
      screen.run = type
      return
    default:
      return wrong("an unknown event")
  }
}
