import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { AgentGraph } from "effect-emissary/plan"
import { equal } from "../../family.ts"
import type { Case } from "../vocabulary.ts"

const agent = (id: string, system: string) => ({
  id,
  name: id,
  provider: "prov",
  model: "mod",
  system,
  engine_type: "Eng",
  tools: [],
  type: "agent"
})

const graph = (...nodes: ReadonlyArray<ReturnType<typeof agent>>) => ({
  session_id: "s",
  nodes: [...nodes, { id: "tool:calc", name: "calc", type: "tool" }],
  edges: [{ from: "writer", to: "tool:calc", label: "calc", type: "tool" }]
})

export const scenarios = {
  N03: Effect.fnUntraced(function* ({ expect }: Case) {
    const wire = graph(agent("writer", "Write."), agent("reader", "Read."))
    const { version, ...written } = yield* AgentGraph.encode(yield* AgentGraph.decode(wire), { version: 1 })
    assert.strictEqual(version, 1)
    equal(written, wire)
    equal(expect, { equal: true })
  }),
  N10: Effect.fnUntraced(function* ({ expect }: Case) {
    const [one, two] = yield* Effect.forEach(["one", "two"], (system) => AgentGraph.decode(graph(agent("same", system))))
    assert(one !== undefined && two !== undefined)
    const written = yield* AgentGraph.encode(AgentGraph.merge(one, two), { version: 1 })
    const nodes = Array.isArray(written["nodes"]) ? written["nodes"] : []
    equal(
      nodes.flatMap((node) => (typeof node === "object" && node !== null && "system" in node ? [node["system"]] : [])),
      expect["systems"]
    )
  })
}
