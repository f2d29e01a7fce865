import * as HashMap from "effect/HashMap"
import type { Reason } from "../ConversationError.ts"
import type { AssistantPart, ToolResultPart } from "../Part.ts"
import type { Repair } from "../Repair.ts"
import type { History } from "./history.ts"
import * as laws from "./laws.ts"

/** Ids of the calls, by the id that their results have; those with a result are taken off. */
export type Labels = ReadonlyMap<string, Array<string>>

interface Place {
  readonly index: number
  readonly id: string
}

/** The content of an assistant message without what breaks a law. */
export const repair = (self: History, parts: ReadonlyArray<AssistantPart>, place: Place) => {
  const content: Array<AssistantPart> = []
  const repairs: Array<Repair> = []
  const labels = new Map<string, Array<string>>()
  const ownLabels = new Map<string, Array<string>>()
  const made = new Set<string>()
  const check = laws.parts(self, place)
  const fresh = freshIds(self, parts)

  /** Keeps the result if it answers a call; otherwise the law it breaks. */
  const answer = (part: ToolResultPart): Reason | undefined => {
    const reason = check(part)
    if (reason?._tag === "NameMismatch") {
      repairs.push({ _tag: "ResultRenamed", ...place, callId: part.id, from: part.name, to: reason.expected })
      return answer({ ...part, name: reason.expected })
    }
    if (reason === undefined) content.push(part)
    return reason
  }

  for (const part of parts) {
    if (part.type === "tool-result") {
      const reason = made.has(part.id) ? laws.orphan(place, part.id) : answer(part)
      if (reason === undefined) continue
      // Each id is tried once: there may be thousands of calls and results
      const id = ownLabels.get(part.id)?.shift()
      if (id === undefined || answer({ ...part, id }) !== undefined) {
        repairs.push({ _tag: "PartDropped", ...place, reason })
      }
      continue
    }
    if (check(part) === undefined || part.type !== "tool-call") {
      content.push(part)
      if (part.type === "tool-call") labels.set(part.id, [part.id])
      continue
    }
    const call = { ...part, id: fresh(part.id) }
    check(call)
    content.push(call)
    made.add(call.id)
    add(labels, part.id, call.id)
    if (part.providerExecuted === true) add(ownLabels, part.id, call.id)
    repairs.push({ _tag: "CallRelabelled", ...place, from: part.id, to: call.id })
  }
  return { content, repairs, labels, made }
}

const add = (labels: Map<string, Array<string>>, from: string, to: string): void => {
  const ids = labels.get(from)
  if (ids === undefined) labels.set(from, [to])
  else ids.push(to)
}

/** Ids that no call of the conversation has, nor any in these parts. */
const freshIds = (self: History, parts: ReadonlyArray<AssistantPart>) => {
  const counts = new Map<string, number>()
  const used = new Set(parts.flatMap((part) => (part.type === "tool-call" ? [part.id] : [])))
  return (id: string): string => {
    const stem = `${id === "" ? "call" : id}_${self.length}`
    for (let n = (counts.get(stem) ?? 0) + 1; ; n++) {
      const candidate = n === 1 ? stem : `${stem}_${n}`
      if (used.has(candidate) || HashMap.has(self.callIds, candidate)) continue
      counts.set(stem, n)
      return candidate
    }
  }
}
