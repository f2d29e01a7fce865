import type * as Schema from "effect/Schema"
import type { Context, Keyword, Keywords } from "../context.ts"
import { count, invalidKeyword, schema, schemas } from "../context.ts"
import { evaluate } from "../evaluate.ts"
import { child } from "../location.ts"
import type { Assertion, Node } from "../model.ts"
import { isDone, quietly, report, spend } from "../run.ts"
import { fingerprint, get, isArray, size } from "../values.ts"

const items = (n: number) => (n === 1 ? "1 item" : `${n} items`)

const prefixItems =
  (nodes: ReadonlyArray<Node>): Assertion =>
  (value, at, run, evaluated) => {
    if (!isArray(value)) return true
    let ok = true
    for (let i = 0; i < Math.min(nodes.length, value.length); i++) {
      const node = nodes[i]
      const item = value[i]
      if (node === undefined || item === undefined) continue
      if (!evaluate(node, item, child(at, i), run)) ok = false
      evaluated?.items.add(i)
      if (!ok && isDone(run)) return false
    }
    return ok
  }

const rest =
  (node: Node, from: number): Assertion =>
  (value, at, run, evaluated) => {
    if (!isArray(value) || value.length <= from) return true
    if (node.always === false) return report(run, at, "items", `must have at most ${items(from)}, has ${value.length}`)
    if (evaluated !== undefined) evaluated.allItems = true
    let ok = true
    for (let i = from; i < value.length; i++) {
      const item = value[i]
      if (item === undefined || evaluate(node, item, child(at, i), run)) continue
      ok = false
      if (isDone(run)) return false
    }
    return ok
  }

const arrayLength = (value: Schema.Json | undefined): number =>
  value !== undefined && isArray(value) ? value.length : 0

const itemsKeyword: Keyword = (value, context) => {
  if (context.dialect === "draft-07" && isArray(value)) {
    return prefixItems(value.map((item, index) => context.sub(item, "items", index)))
  }
  return schema((node) => rest(node, arrayLength(get(context.schema, "prefixItems"))))(value, context)
}

const limitOf = (context: Context, keyword: string): number | undefined => {
  const value = get(context.schema, keyword)
  return context.dialect === "2020-12" && typeof value === "number" ? value : undefined
}

const contains = (node: Node, context: Context): Assertion => {
  const min = limitOf(context, "minContains") ?? 1
  const max = limitOf(context, "maxContains") ?? Number.POSITIVE_INFINITY
  return (value, at, run, evaluated) => {
    if (!isArray(value)) return true
    let found = 0
    quietly(run, () => {
      for (const [index, item] of value.entries()) {
        if (!evaluate(node, item, undefined, run)) continue
        found++
        evaluated?.items.add(index)
        if (evaluated === undefined && found >= min && max === Number.POSITIVE_INFINITY) return
      }
    })
    if (found < min)
      return report(run, at, "contains", `must hold at least ${items(min)} of the required form, has ${found}`)
    return (
      found <= max || report(run, at, "contains", `must hold at most ${items(max)} of the named form, has ${found}`)
    )
  }
}

/** Keywords about arrays. */
export const arrays: Keywords = [
  ["prefixItems", schemas(prefixItems)],
  ["items", itemsKeyword],
  [
    "additionalItems",
    schema((node, context) => {
      const list = get(context.schema, "items")
      return list !== undefined && isArray(list) ? rest(node, list.length) : undefined
    })
  ],
  [
    "minItems",
    count(
      (limit) => (value, at, run) =>
        !isArray(value) ||
        value.length >= limit ||
        report(run, at, "minItems", `must have at least ${items(limit)}, has ${value.length}`)
    )
  ],
  [
    "maxItems",
    count(
      (limit) => (value, at, run) =>
        !isArray(value) ||
        value.length <= limit ||
        report(run, at, "maxItems", `must have at most ${items(limit)}, has ${value.length}`)
    )
  ],
  [
    "uniqueItems",
    (unique, context) => {
      if (typeof unique !== "boolean") return invalidKeyword(context, "a boolean", unique)
      if (!unique) return undefined
      return (value, at, run) => {
        if (!isArray(value)) return true
        if (!spend(run, size(value))) return false
        const seen = new Map<string, number>()
        let ok = true
        for (const [index, item] of value.entries()) {
          const print = fingerprint(item)
          const first = seen.get(print)
          if (first === undefined) seen.set(print, index)
          else {
            ok = report(run, child(at, index), "uniqueItems", `must be unique, is equal to item ${first}`)
            if (isDone(run)) return false
          }
        }
        return ok
      }
    }
  ],
  ["contains", schema(contains)],
  ["minContains", count(() => undefined)],
  ["maxContains", count(() => undefined)],
  [
    "unevaluatedItems",
    schema((node) => (value, at, run, evaluated) => {
      if (!isArray(value) || evaluated === undefined || evaluated.allItems) return true
      let ok = true
      for (const [index, item] of value.entries()) {
        if (evaluated.items.has(index) || evaluate(node, item, child(at, index), run)) continue
        ok = false
        if (isDone(run)) return false
      }
      evaluated.allItems = true
      return ok
    })
  ]
]
