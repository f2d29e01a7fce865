/** Whether agents that are read keep what is read of them. */
import type { Reference } from "../../Reference.ts"
import { show } from "../references.ts"
import { type Finding, sorted } from "./outline.ts"

/** What the names of a plan can stand for. */
export interface Bindings {
  readonly tools: ReadonlyMap<string, unknown>
  readonly agents: ReadonlySet<string>
  readonly memories: ReadonlyMap<string, { readonly text: boolean; readonly output: boolean }>
}

/** `fromAgent` in a slot. */
export const answer = (slot: string, reference: Reference, bindings: Bindings): Finding | undefined =>
  reference._tag === "FromAgent" ? read(slot, reference, reference.agent, bindings, "output") : undefined

/** `fromMemory` in a slot. */
export const memory = (slot: string, reference: Reference, bindings: Bindings): Finding | undefined =>
  reference._tag === "FromMemory" ? read(slot, reference, reference.agent, bindings, "text") : undefined

const read = (
  slot: string,
  reference: Reference,
  name: string,
  { agents, memories, tools }: Bindings,
  what: "text" | "output"
): Finding | undefined => {
  const found = memories.get(name)
  if (found !== undefined && found[what]) return undefined
  const base = { slot, value: show(reference) }
  if (found !== undefined || agents.has(name)) {
    return what === "text"
      ? {
          ...base,
          code: "NoMemory",
          problem: "expected an agent with a memory, found one without",
          fix: "Bind the plan with a memory for it that gives a text"
        }
      : {
          ...base,
          code: "NoStore",
          problem: "expected an agent whose answers are kept in a store, found one without",
          fix: "Bind the plan with a memory for it that keeps its output"
        }
  }
  if (tools.has(name)) {
    return {
      ...base,
      code: "NotAnAgent",
      problem: "expected an agent, found a tool that is none, and that remembers nothing",
      fix: "Refer to an agent"
    }
  }
  return {
    ...base,
    code: "UnknownAgent",
    problem: "refers to an unknown agent",
    fix: "Bind the plan with it and with its memory",
    unknown: {
      name,
      kind: "agents",
      known: sorted([...agents, ...memories.keys()]),
      candidates: sorted([...tools.keys(), ...agents, ...memories.keys()])
    }
  }
}
