import type * as Schema from "effect/Schema"
import type { Keyword, Keywords } from "../context.ts"
import { schema, schemas } from "../context.ts"
import { evaluate, evaluateInPlace } from "../evaluate.ts"
import type { Location } from "../location.ts"
import { toPointer } from "../location.ts"
import type { Assertion, Node } from "../model.ts"
import type { Run } from "../run.ts"
import { apart, isDone, note, quietly, report } from "../run.ts"
import { get, isObject } from "../values.ts"

const shownBranches = 3

/**
 * The issues of the alternative a value was meant for: the only one that fails
 * for more than the kind of the value, or than a constant in it.
 */
export const intended = <I extends { readonly keyword: string; readonly pointer: string }>(
  all: ReadonlyArray<ReadonlyArray<I>>,
  here: string
): ReadonlyArray<I> | undefined => {
  const ofKind = all.filter((issues) => !issues.some(({ keyword, pointer }) => keyword === "type" && pointer === here))
  if (ofKind.length <= 1) return ofKind[0]
  const named = ofKind.filter((issues) => !issues.some(({ keyword }) => keyword === "const" || keyword === "enum"))
  return named.length === 1 ? named[0] : undefined
}

/**
 * Reports why no alternative fits: with the issues of the one the value was
 * meant for, if there is one.
 */
const noneFits = (
  branches: ReadonlyArray<Node>,
  keyword: string,
  value: Schema.Json,
  at: Location | undefined,
  run: Run
): false => {
  if (run.issues === undefined) return false
  const here = toPointer(at)
  const all = branches.map((branch) => apart(run, () => evaluate(branch, value, at, run))[1])
  const meant = intended(all, here)
  if (meant !== undefined) {
    for (const issue of meant) note(run, issue)
    return false
  }
  const reasons = [...new Set(all.flatMap((issues) => issues.slice(0, 1).map(summary(here))))]
  const shown = reasons.slice(0, shownBranches).join("; or ")
  return report(
    run,
    at,
    keyword,
    `fits none of ${branches.length} alternatives: ${shown}${reasons.length > shownBranches ? "; ..." : ""}`
  )
}

const summary =
  (here: string) =>
  ({ message, pointer }: { readonly message: string; readonly pointer: string }): string =>
    pointer === here ? message : `${pointer.slice(here.length)} ${message}`

const anyOf: Keyword = schemas((branches) => (value, at, run, evaluated) => {
  const fits = quietly(run, () => {
    let found = false
    for (const branch of branches) {
      if (!evaluateInPlace(branch, value, undefined, run, evaluated)) continue
      found = true
      if (evaluated === undefined) return true
    }
    return found
  })
  return fits || noneFits(branches, "anyOf", value, at, run)
})

const oneOf: Keyword = schemas((branches) => (value, at, run, evaluated) => {
  const fitting = quietly(run, () => {
    const found: Array<number> = []
    for (const [index, branch] of branches.entries()) {
      if (!evaluateInPlace(branch, value, undefined, run, evaluated)) continue
      found.push(index)
      if (found.length > 1) break
    }
    return found
  })
  if (fitting.length === 1) return true
  if (fitting.length === 0) return noneFits(branches, "oneOf", value, at, run)
  return report(run, at, "oneOf", `must fit exactly one of ${branches.length} alternatives, fits more than one`)
})

const allOf: Keyword = schemas((nodes) => (value, at, run, evaluated) => {
  let ok = true
  for (const node of nodes) {
    if (evaluateInPlace(node, value, at, run, evaluated, true)) continue
    ok = false
    if (isDone(run)) return false
  }
  return ok
})

const conditional =
  (condition: Node, then: Node | undefined, otherwise: Node | undefined): Assertion =>
  (value, at, run, evaluated) => {
    const holds = quietly(run, () => evaluateInPlace(condition, value, undefined, run, evaluated))
    const branch = holds ? then : otherwise
    return branch === undefined || evaluateInPlace(branch, value, at, run, evaluated, true)
  }

const isSchema = (value: Schema.Json | undefined): value is Schema.JsonObject | boolean =>
  isObject(value) || typeof value === "boolean"

/** Keywords that combine schemas over the same value. */
export const combinations: Keywords = [
  ["allOf", allOf],
  ["anyOf", anyOf],
  ["oneOf", oneOf],
  [
    "not",
    schema(
      (node) => (value, at, run) =>
        !quietly(run, () => evaluate(node, value, undefined, run)) ||
        report(run, at, "not", "has a form that is not allowed")
    )
  ],
  [
    "if",
    schema((node, context) => {
      const branch = (keyword: string) => {
        const json = get(context.schema, keyword)
        return isSchema(json) ? context.sub(json, keyword) : undefined
      }
      return conditional(node, branch("then"), branch("else"))
    })
  ],
  ["then", schema(() => undefined)],
  ["else", schema(() => undefined)]
]
