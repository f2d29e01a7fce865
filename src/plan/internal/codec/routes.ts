/** How versions 1 and 2 name conditions, and in which order they write routes. */
import type { When } from "../../When.ts"

/** The key under which LazyBridge looks up the predicate of a route. */
export const routeKey = (step: string, to: string): string => `routes:${step}:${to}`

export const routeCondition = (step: string, to: string): When => ({ _tag: "Custom", name: routeKey(step, to) })

export const isRouteCondition = (when: When, step: string, to: string): boolean =>
  when._tag === "Custom" && when.name === routeKey(step, to)

/** The order of code points. That of JavaScript is of UTF-16 code units. */
export const byCodePoint = (left: string, right: string): number => {
  const a = Array.from(left)
  const b = Array.from(right)
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const difference = (a[i]?.codePointAt(0) ?? 0) - (b[i]?.codePointAt(0) ?? 0)
    if (difference !== 0) return difference
  }
  return a.length - b.length
}
