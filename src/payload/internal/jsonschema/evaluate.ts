import type * as Schema from "effect/Schema"
import type { Location } from "./location.ts"
import type { Evaluated, Node } from "./model.ts"
import type { Run } from "./run.ts"
import { enter, isDone, leave, report, spend } from "./run.ts"
import { bitOf, kindOf } from "./values.ts"
import { kindNames } from "./kinds.ts"
import { allKinds } from "./values.ts"

export const noneEvaluated = (): Evaluated => ({ keys: new Set(), items: new Set(), allKeys: false, allItems: false })

const merge = (into: Evaluated, from: Evaluated): void => {
  for (const key of from.keys) into.keys.add(key)
  for (const item of from.items) into.items.add(item)
  into.allKeys ||= from.allKeys
  into.allItems ||= from.allItems
}

/** Whether a value has everything a schema asks for, by JSON Schema alone: nothing is filled in or left out. */
export const evaluate = (
  node: Node,
  value: Schema.Json,
  at: Location | undefined,
  run: Run,
  evaluated?: Evaluated
): boolean => {
  if (!spend(run, 1)) return false
  if (node.always !== undefined) return node.always || report(run, at, "false", "is not allowed")
  if (node.kinds !== allKinds && (bitOf(value) & node.kinds) === 0) {
    return report(run, at, "type", `expected ${kindNames(node.kinds)}, got ${kindOf(value)}`)
  }
  if (!enter(run)) return false
  const own = evaluated ?? (node.tracks ? noneEvaluated() : undefined)
  let ok = true
  for (const assertion of node.assertions) {
    if (assertion(value, at, run, own)) continue
    ok = false
    if (isDone(run)) break
  }
  leave(run)
  return ok
}

/**
 * The same for a subschema that looks at the same value, whose marks count for
 * the schema around it when it succeeds. With `always` they count anyway, so
 * that one failure is not reported twice.
 */
export const evaluateInPlace = (
  node: Node,
  value: Schema.Json,
  at: Location | undefined,
  run: Run,
  evaluated: Evaluated | undefined,
  always = false
): boolean => {
  if (evaluated === undefined) return evaluate(node, value, at, run)
  const own = noneEvaluated()
  const ok = evaluate(node, value, at, run, own)
  if (ok || (always && run.issues !== undefined)) merge(evaluated, own)
  return ok
}
