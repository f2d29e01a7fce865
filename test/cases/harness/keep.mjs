/** Findings of a case are collected, because a failure inside a handler of a tool would be a result of that tool. */
import { isDeepStrictEqual } from "node:util"

/** What the running case found wrong. */
export const problems = []

export const same = (what, found, right) => {
  if (!isDeepStrictEqual(found, right)) {
    problems.push(`${what}: found ${JSON.stringify(found)}, right ${JSON.stringify(right)}`)
  }
}

export const holds = (what, condition, found) => {
  if (!condition) problems.push(`${what}: found ${typeof found === "string" ? found : JSON.stringify(found)}`)
}
