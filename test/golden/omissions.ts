import type { Json } from "./golden.ts"

/**
 * Operations of the vocabulary that the library does not have, with the reason.
 * `covers` tells which cases of the group it is about; absent means all of them.
 */
export const omissions: ReadonlyArray<{
  readonly group: string
  readonly reason: string
  readonly covers?: (given: Json, id: string) => boolean
}> = [
  {
    group: "session",
    reason: "conversations are values: they are not edited in place and nobody observes them",
    covers: ({ ops }) => uses(ops, ["add_silent", "set", "remove", "update"])
  },
  {
    group: "session",
    reason: "an unlawful history cannot be made, so there is nothing to prune; an open end is sealed, never dropped",
    covers: ({ ops }) => uses(ops, ["prune_orphans"])
  },
  {
    group: "session",
    reason: "an agent holds no session: a conversation is an argument of the run and used verbatim (AGENT-2)",
    covers: (given) => "wire" in given || "wire_text" in given
  },
  {
    group: "messages",
    reason: "messages of one role in a row are lawful and stay as they are: renderers merge results only (CONV-4)",
    covers: ({ op }) => op === "prepare"
  }
]

const uses = (ops: unknown, names: ReadonlyArray<string>): boolean =>
  Array.isArray(ops) && ops.some((op) => Array.isArray(op) && names.includes(String(op[0])))
