/** What is wrong with conditions, which is found once for each. */
import * as Result from "effect/Result"
import * as LinearPattern from "../../../payload/LinearPattern.ts"
import type { Problem, When } from "../../When.ts"

export const maxNesting = 16
export const maxConditions = 1000

/** What is known about a condition before it is used. */
export interface Checked {
  readonly problems: ReadonlyArray<Problem>
  readonly customs: ReadonlyArray<string>
  readonly patterns: ReadonlyMap<string, LinearPattern.LinearPattern>
}

type Token = string | number

const isIndex = (token: Token): boolean => typeof token === "string" || (Number.isSafeInteger(token) && token >= 0)

const isComparable = (value: number | string): boolean => typeof value === "string" || Number.isFinite(value)

const inspect = (root: When): Checked => {
  const problems: Array<Problem> = []
  const customs = new Set<string>()
  const patterns = new Map<string, LinearPattern.LinearPattern>()
  let count = 0

  const visitAll = (whens: ReadonlyArray<When>, at: ReadonlyArray<Token>, key: string, depth: number) => {
    for (const [index, when] of whens.entries()) {
      if (count > maxConditions) return
      visit(when, [...at, key, index], depth)
    }
  }

  const visit = (when: When, at: ReadonlyArray<Token>, depth: number): void => {
    count += 1
    if (count > maxConditions) {
      problems.push({
        path: at,
        reason: `expected at most ${maxConditions} conditions in one, found more. Use a custom predicate`
      })
      return
    }
    if (depth > maxNesting) {
      problems.push({
        path: at,
        reason: `expected at most ${maxNesting} levels of and, or and not, found more. Nest less`
      })
      return
    }
    if ("path" in when) {
      const wrong = when.path.findIndex((token) => !isIndex(token))
      if (wrong !== -1) {
        problems.push({
          path: [...at, "path", wrong],
          reason: `expected a key or an index from 0 on, found ${when.path[wrong]}`
        })
      }
    }
    switch (when._tag) {
      case "GreaterThan":
      case "LessThan":
        if (!isComparable(when.value)) {
          problems.push({ path: [...at, "value"], reason: `expected a finite number or a string, found ${when.value}` })
        }
        return
      case "Matches": {
        if (patterns.has(when.pattern)) return
        const compiled = LinearPattern.compile(when.pattern)
        if (Result.isSuccess(compiled)) patterns.set(when.pattern, compiled.success)
        else {
          problems.push({ path: [...at, "pattern"], reason: compiled.failure.message })
        }
        return
      }
      case "And":
        return visitAll(when.all, at, "all", depth + 1)
      case "Or":
        return visitAll(when.any, at, "any", depth + 1)
      case "Not":
        return visit(when.when, [...at, "when"], depth + 1)
      case "Custom":
        customs.add(when.name)
    }
  }

  visit(root, [], 0)
  return { problems, customs: [...customs], patterns }
}

const known = new WeakMap<When, Checked>()

/** What is wrong with a condition, and its compiled patterns. Each condition is looked at once. */
export const check = (when: When): Checked => {
  const before = known.get(when)
  if (before !== undefined) return before
  const checked = inspect(when)
  known.set(when, checked)
  return checked
}
