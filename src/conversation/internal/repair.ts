import * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Content from "../../tool/Content.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type { Reason } from "../ConversationError.ts"
import * as Message from "../Message.ts"
import type { Repair, Repaired } from "../Repair.ts"
import * as history from "./history.ts"
import * as laws from "./laws.ts"
import * as repairParts from "./repairParts.ts"

/** Makes a lawful conversation of messages that come one by one. */
export interface Repairer {
  readonly self: () => history.History
  readonly add: (message: Message.Message, index: number) => Effect.Effect<void>
  /** Leaves out a message that could not even be made. */
  readonly drop: (index: number, id: string, reason: Reason) => void
  readonly finish: (staleUsage: boolean) => Effect.Effect<Repaired>
}

interface Place {
  readonly index: number
  readonly id: string
}

const interrupted = ToolResult.failure("interrupted", "Tool call interrupted before completion.")

export const make = (tokenLimit: number | undefined): Repairer => {
  let self = history.empty(tokenLimit)
  const repairs: Array<Repair> = []
  let labels: repairParts.Labels = new Map()
  // Ids that calls got here: a result that has one was for no call
  let made: ReadonlySet<string> = new Set()
  // Demoted messages that wait for the results of open calls
  let waiting: Array<readonly [message: Message.UserMessage, place: Place]> = []

  const drop = (index: number, id: string, reason: Reason): void => {
    repairs.push({ _tag: "MessageDropped", index, id, reason })
  }

  const push = (message: Message.Message, place: Place): void => {
    const reason = laws.check(self, message, place.index)
    if (reason === undefined) self = history.push(self, message)
    else drop(place.index, place.id, reason)
  }

  const isOpen = (id: string | undefined): boolean => id !== undefined && HashMap.has(self.open, id)

  const settle = (): void => {
    if (!HashMap.isEmpty(self.open)) return
    const settled = waiting
    waiting = []
    for (const [message, place] of settled) push(message, place)
  }

  const seal = Effect.fnUntraced(function* (place: Place) {
    for (const { id, name } of laws.openBatch(self)) {
      self = history.push(self, yield* Message.tool({ callId: id, name, result: interrupted }))
      repairs.push({ _tag: "CallSealed", ...place, callId: id, name })
    }
    settle()
  })

  const demote = (message: Message.SystemMessage, place: Place): void => {
    repairs.push({ _tag: "SystemDemoted", ...place })
    waiting.push([{ ...message, role: "user", content: [Content.text(message.content)] }, place])
    settle()
  }

  const assistant = (message: Message.AssistantMessage, place: Place): void => {
    labels = new Map()
    made = new Set()
    if (laws.check(self, message, place.index) !== undefined) {
      const repaired = repairParts.repair(self, message.content, place)
      repairs.push(...repaired.repairs)
      labels = repaired.labels
      made = repaired.made
      push({ ...message, content: repaired.content }, place)
    } else {
      self = history.push(self, message)
    }
  }

  const result = (message: Message.ToolMessage, place: Place): void => {
    if (made.has(message.callId)) return drop(place.index, place.id, laws.orphan(place, message.callId))
    const ids = labels.get(message.callId) ?? []
    // Each id is taken off once: there may be thousands of calls and results
    while (ids.length > 1 && !isOpen(ids[0])) ids.shift()
    const [callId = message.callId] = ids
    const call = Option.getOrUndefined(HashMap.get(self.open, callId))
    const name = call?.name ?? message.name
    if (name !== message.name) {
      repairs.push({ _tag: "ResultRenamed", ...place, callId, from: message.name, to: name })
    }
    push(name === message.name && callId === message.callId ? message : { ...message, callId, name }, place)
  }

  const add = Effect.fnUntraced(function* (message: Message.Message, index: number) {
    const place: Place = { index, id: message.id }
    switch (message.role) {
      case "system":
        return index === 0 ? push(message, place) : demote(message, place)
      case "user":
        // A message that says nothing ends no turn
        if (!laws.saysSomething(message)) return drop(index, message.id, laws.emptyReason(message, place))
        yield* seal(place)
        return push(message, place)
      case "assistant":
        yield* seal(place)
        return assistant(message, place)
      case "tool":
        result(message, place)
        return settle()
    }
  })

  const finish = Effect.fnUntraced(function* (staleUsage: boolean) {
    const [next] = waiting
    // What was said behind the open end needs its end closed
    if (next !== undefined) yield* seal(next[1])
    return { conversation: staleUsage ? history.forgetReport(self) : self, repairs }
  })

  return { self: () => self, add, drop, finish }
}

export const repair = Effect.fnUntraced(function* (
  messages: Iterable<Message.Message>,
  options: { readonly tokenLimit?: number | undefined; readonly staleUsage?: boolean | undefined }
) {
  const repairer = make(options.tokenLimit)
  let index = 0
  for (const message of messages) {
    yield* repairer.add(message, index)
    index += 1
  }
  return yield* repairer.finish(options.staleUsage === true)
})
