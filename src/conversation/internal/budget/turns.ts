import type { Message } from "../../Message.ts"

/** Position of the first message that is not the system message. */
export const first = (all: ReadonlyArray<Message>): number => (all[0]?.role === "system" ? 1 : 0)

/** Where the newest `keepRecent` turns begin. */
export const recent = (all: ReadonlyArray<Message>, keepRecent: number): number => {
  const start = first(all)
  let turns = 0
  let index = all.length
  while (index > start && turns < keepRecent) {
    index -= 1
    if (all[index]?.role === "user") turns += 1
  }
  // What is left in front of the first user message is one more turn
  return turns < keepRecent ? start : index
}

/** Where the current run begins: at the newest user message, or with everything. */
export const currentRun = (all: ReadonlyArray<Message>): number => recent(all, 1)
