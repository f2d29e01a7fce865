/** How versions 1 and 2 name conditions. */
import type { When } from "../../When.ts"

/** The key under which LazyBridge looks up the predicate of a route. */
export const routeKey = (step: string, to: string): string => `routes:${step}:${to}`

export const routeCondition = (step: string, to: string): When => ({ _tag: "Custom", name: routeKey(step, to) })

export const isRouteCondition = (when: When, step: string, to: string): boolean =>
  when._tag === "Custom" && when.name === routeKey(step, to)
