import * as HashMap from "effect/HashMap"
import type { AssistantPart, ToolResultPart } from "../Part.ts"
import type { History } from "./history.ts"

export const relabel = (self: History, content: ReadonlyArray<AssistantPart>): ReadonlyArray<AssistantPart> => {
  const used = new Set<string>()
  const taken = (id: string) => id === "" || used.has(id) || HashMap.has(self.callIds, id)
  // Where the search of each stem stopped: a model may give thousands of calls the same id.
  const numbers = new Map<string, number>()
  const fresh = (id: string): string => {
    const stem = `${id === "" ? "call" : id}_${self.length}`
    let n = numbers.get(stem) ?? 1
    let candidate = n === 1 ? stem : `${stem}_${n}`
    while (taken(candidate)) candidate = `${stem}_${++n}`
    numbers.set(stem, n)
    return candidate
  }
  // Newest label of each id that the provider runs, for the result that follows
  const labels = new Map<string, string>()
  return content.map((part) => {
    if (part.type === "tool-call") {
      const id = taken(part.id) ? fresh(part.id) : part.id
      used.add(id)
      if (part.providerExecuted === true) labels.set(part.id, id)
      return id === part.id ? part : { ...part, id }
    }
    if (part.type === "tool-result") {
      const id = labels.get(part.id) ?? openLabel(self, part)
      return id === undefined || id === part.id ? part : { ...part, id }
    }
    return part
  })
}

/** The new id of a call in an earlier message that the provider still answers under the old one. */
const openLabel = (self: History, { id, name }: ToolResultPart): string | undefined => {
  if (HashMap.has(self.providerOpen, id)) return undefined
  const relabelled = Array.from(self.providerOpen, ([, call]) => call).filter(
    (call) => call.name === name && call.id.startsWith(`${id}_`)
  )
  return relabelled.length === 1 ? relabelled[0]?.id : undefined
}
