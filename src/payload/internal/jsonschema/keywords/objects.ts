import type { Context, Keyword, Keywords } from "../context.ts"
import { count, invalidKeyword, named, names, schema, stringList } from "../context.ts"
import { evaluate, evaluateInPlace } from "../evaluate.ts"
import { child } from "../location.ts"
import type { Assertion, Node } from "../model.ts"
import type { LinearPattern } from "../patterns.ts"
import { isDone, quietly, report, spend } from "../run.ts"
import { get, isObject } from "../values.ts"

const properties = (n: number) => (n === 1 ? "1 property" : `${n} properties`)

/** The names in `required`; empty when it is absent or malformed, which is reported elsewhere. */
export const requiredNames = (context: Context): ReadonlyArray<string> =>
  stringList(get(context.schema, "required") ?? []) ?? []

const declaredNames = (context: Context): ReadonlySet<string> => {
  const declared = get(context.schema, "properties")
  return new Set(isObject(declared) ? Object.keys(declared) : [])
}

/** The compiled `patternProperties`, refusing what cannot run in linear time. */
export const patternNodes = (context: Context): ReadonlyArray<readonly [LinearPattern, Node]> => {
  const patterns = get(context.schema, "patternProperties")
  if (!isObject(patterns)) return []
  const nodes: Array<readonly [LinearPattern, Node]> = []
  for (const source of Object.keys(patterns)) {
    const pattern = context.pattern(source, "patternProperties", source)
    if (pattern !== undefined) nodes.push([pattern, context.sub(patterns[source] ?? null, "patternProperties", source)])
  }
  return nodes
}

/** Which of `properties` and `patternProperties` leave a key to `additionalProperties`. */
export const isAdditional = (
  key: string,
  declared: { readonly has: (key: string) => boolean },
  patterns: ReadonlyArray<readonly [LinearPattern, Node]>
): boolean => !declared.has(key) && !patterns.some(([pattern]) => pattern.test(key))

const propertiesKeyword: Keyword = named((nodes, context) => {
  const required = new Set(requiredNames(context))
  return (value, at, run, evaluated) => {
    if (!isObject(value)) return true
    let ok = true
    for (const [key, node] of nodes) {
      const member = get(value, key)
      if (member === undefined) {
        if (required.has(key)) ok = report(run, child(at, key), "required", "is required")
      } else {
        if (!evaluate(node, member, child(at, key), run)) ok = false
        evaluated?.keys.add(key)
      }
      if (!ok && isDone(run)) return false
    }
    return ok
  }
})

const patternProperties: Keyword = (value, context) => {
  if (!isObject(value)) return invalidKeyword(context, "an object of schemas", value)
  const nodes = patternNodes(context)
  return (found, at, run, evaluated) => {
    if (!isObject(found)) return true
    let ok = true
    for (const key of Object.keys(found)) {
      for (const [pattern, node] of nodes) {
        if (!spend(run, pattern.cost(key.length))) return false
        if (!pattern.test(key)) continue
        evaluated?.keys.add(key)
        if (!evaluate(node, found[key] ?? null, child(at, key), run)) ok = false
        if (!ok && isDone(run)) return false
      }
    }
    return ok
  }
}

const others =
  (node: Node, keyword: string, applies: (key: string) => boolean, cost: (key: string) => number): Assertion =>
  (value, at, run, evaluated) => {
    if (!isObject(value)) return true
    let ok = true
    for (const key of Object.keys(value)) {
      if (!spend(run, cost(key))) return false
      if (!applies(key)) continue
      evaluated?.keys.add(key)
      const here = child(at, key)
      if (node.always === false) ok = report(run, here, keyword, "is not allowed")
      else if (!evaluate(node, value[key] ?? null, here, run)) ok = false
      if (!ok && isDone(run)) return false
    }
    return ok
  }

const missing =
  (list: ReadonlyArray<string>, suffix: string, keyword: string): Assertion =>
  (value, at, run) => {
    if (!isObject(value)) return true
    let ok = true
    for (const key of list) {
      if (!Object.hasOwn(value, key)) ok = report(run, child(at, key), keyword, `is required${suffix}`)
      if (!ok && isDone(run)) return false
    }
    return ok
  }

const ifPresent =
  (key: string, assertion: Assertion): Assertion =>
  (value, at, run, evaluated) =>
    !isObject(value) || !Object.hasOwn(value, key) || assertion(value, at, run, evaluated)

const every =
  (assertions: ReadonlyArray<Assertion>): Assertion =>
  (value, at, run, evaluated) => {
    let ok = true
    for (const assertion of assertions) {
      if (!assertion(value, at, run, evaluated)) ok = false
      if (!ok && isDone(run)) return false
    }
    return ok
  }

const because = (key: string) => ` when ${JSON.stringify(key)} is present`

const inPlace =
  (node: Node): Assertion =>
  (value, at, run, evaluated) =>
    evaluateInPlace(node, value, at, run, evaluated, true)

const dependencies: Keyword = (value, context) => {
  if (!isObject(value)) return invalidKeyword(context, "an object", value)
  return every(
    Object.keys(value).map((key) => {
      const dependency = value[key] ?? null
      const list = stringList(dependency)
      return ifPresent(
        key,
        list !== undefined
          ? missing(list, because(key), "dependencies")
          : inPlace(context.sub(dependency, "dependencies", key))
      )
    })
  )
}

const dependentRequired: Keyword = (value, context) => {
  if (!isObject(value)) return invalidKeyword(context, "an object", value)
  return every(
    Object.keys(value).map((key) => {
      const list = stringList(value[key] ?? null)
      if (list === undefined) invalidKeyword(context, "an array of strings", value[key] ?? null, key)
      return ifPresent(key, missing(list ?? [], because(key), "dependentRequired"))
    })
  )
}

/** Keywords about objects. */
export const objects: Keywords = [
  ["properties", propertiesKeyword],
  [
    "required",
    names((list, context) => {
      const declared = declaredNames(context)
      return missing(
        list.filter((key) => !declared.has(key)),
        "",
        "required"
      )
    })
  ],
  ["patternProperties", patternProperties],
  [
    "additionalProperties",
    schema((node, context) => {
      const declared = declaredNames(context)
      const patterns = patternNodes(context)
      return others(
        node,
        "additionalProperties",
        (key) => isAdditional(key, declared, patterns),
        (key) => patterns.reduce((sum, [pattern]) => sum + pattern.cost(key.length), 1)
      )
    })
  ],
  [
    "minProperties",
    count((limit) => (value, at, run) => {
      if (!isObject(value)) return true
      const size = Object.keys(value).length
      return size >= limit || report(run, at, "minProperties", `must have at least ${properties(limit)}, has ${size}`)
    })
  ],
  [
    "maxProperties",
    count((limit) => (value, at, run) => {
      if (!isObject(value)) return true
      const size = Object.keys(value).length
      return size <= limit || report(run, at, "maxProperties", `must have at most ${properties(limit)}, has ${size}`)
    })
  ],
  [
    "propertyNames",
    schema((node) => (value, at, run) => {
      if (!isObject(value)) return true
      let ok = true
      for (const key of Object.keys(value)) {
        if (quietly(run, () => evaluate(node, key, undefined, run))) continue
        ok = report(run, child(at, key), "propertyNames", "has a name that is not allowed")
        if (isDone(run)) return false
      }
      return ok
    })
  ],
  ["dependentRequired", dependentRequired],
  ["dependentSchemas", named((nodes) => every(nodes.map(([key, node]) => ifPresent(key, inPlace(node)))))],
  ["dependencies", dependencies],
  [
    "unevaluatedProperties",
    schema((node) => (value, at, run, evaluated) => {
      if (!isObject(value) || evaluated === undefined || evaluated.allKeys) return true
      const seen = evaluated.keys
      const ok = others(
        node,
        "unevaluatedProperties",
        (key) => !seen.has(key),
        () => 1
      )(value, at, run, undefined)
      evaluated.allKeys = true
      return ok
    })
  ]
]
