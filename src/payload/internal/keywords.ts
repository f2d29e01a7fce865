/**
 * The keywords of JSON Schema: how each is read from a document and asserted on a value.
 */

import type * as Schema from "effect/Schema"
import type { JsonObject } from "../Json.ts"
import * as jsonValues from "./jsonValues.ts"
import * as paths from "./paths.ts"
import * as Patterns from "./patterns.ts"
import * as schemaNode from "./schemaNode.ts"

/** What the compiler of a keyword sees. */
export interface Context {
  readonly dialect: "2020-12" | "draft-07"
  /** The schema the keyword stands in. */
  readonly schema: JsonObject
  readonly keyword: string
  /** Compiles a subschema at keys below this schema; the same keys give the same node. */
  readonly sub: (json: Schema.Json, ...keys: ReadonlyArray<string | number>) => schemaNode.Node
  /** Compiles a regular expression once per document; refuses it at keys below this schema. */
  readonly pattern: (source: string, ...keys: ReadonlyArray<string | number>) => Patterns.CompiledPattern | undefined
  /** Refuses the document, at keys below this schema. */
  readonly refuse: (reason: schemaNode.Reason, ...keys: ReadonlyArray<string | number>) => undefined
}

/** Turns the value of a keyword into an assertion; `undefined` when there is nothing to assert. */
export type Keyword = (value: Schema.Json, context: Context) => schemaNode.Assertion | undefined

type Keywords = ReadonlyArray<readonly [name: string, compile: Keyword]>

const refuseKeyword = (
  context: Context,
  expected: string,
  found: Schema.Json,
  ...keys: ReadonlyArray<string | number>
) =>
  context.refuse(
    { _tag: "InvalidKeyword", keyword: context.keyword, expected, found: jsonValues.describeKind(found) },
    context.keyword,
    ...keys
  )

/** A keyword that holds a finite number. */
const readNumber =
  (compile: (limit: number, context: Context) => schemaNode.Assertion | undefined): Keyword =>
  (value, context) =>
    typeof value === "number" ? compile(value, context) : refuseKeyword(context, "a number", value)

/** A keyword that holds a count. */
const readCount =
  (compile: (limit: number, context: Context) => schemaNode.Assertion | undefined): Keyword =>
  (value, context) =>
    typeof value === "number" && Number.isInteger(value) && value >= 0
      ? compile(value, context)
      : refuseKeyword(context, "a whole number of at least 0", value)

const readString =
  (compile: (text: string, context: Context) => schemaNode.Assertion | undefined): Keyword =>
  (value, context) =>
    typeof value === "string" ? compile(value, context) : refuseKeyword(context, "a string", value)

/** A keyword that holds one subschema. */
const readSchema =
  (compile: (node: schemaNode.Node, context: Context) => schemaNode.Assertion | undefined): Keyword =>
  (value, context) =>
    jsonValues.isObject(value) || typeof value === "boolean"
      ? compile(context.sub(value, context.keyword), context)
      : refuseKeyword(context, "a schema", value)

/** A keyword that holds a non-empty list of subschemas. */
const readSchemas =
  (compile: (nodes: ReadonlyArray<schemaNode.Node>, context: Context) => schemaNode.Assertion | undefined): Keyword =>
  (value, context) =>
    jsonValues.isArray(value) && value.length > 0
      ? compile(
          value.map((item, index) => context.sub(item, context.keyword, index)),
          context
        )
      : refuseKeyword(context, "a non-empty array of schemas", value)

/** A keyword that holds subschemas by name. */
const readNamedSchemas =
  (
    compile: (
      nodes: ReadonlyArray<readonly [string, schemaNode.Node]>,
      context: Context
    ) => schemaNode.Assertion | undefined
  ): Keyword =>
  (value, context) =>
    jsonValues.isObject(value)
      ? compile(
          Object.keys(value).map((key) => [key, context.sub(value[key] ?? null, context.keyword, key)] as const),
          context
        )
      : refuseKeyword(context, "an object of schemas", value)

/** A keyword that holds a list of names. */
const readNames =
  (compile: (list: ReadonlyArray<string>, context: Context) => schemaNode.Assertion | undefined): Keyword =>
  (value, context) => {
    const list = toStringList(value)
    return list === undefined ? refuseKeyword(context, "an array of strings", value) : compile(list, context)
  }

const toStringList = (value: Schema.Json): ReadonlyArray<string> | undefined => {
  if (!jsonValues.isArray(value)) return undefined
  const list = value.filter((item) => typeof item === "string")
  return list.length === value.length ? list : undefined
}

const invalidKeyword = refuseKeyword

const maxShownMembers = 20

const pluralize = (n: number, one: string) => (n === 1 ? `${n} ${one}` : `${n} ${one}s`)

/** Keywords about any value, numbers and strings. */
export const scalarKeywords: Keywords = [
  [
    "enum",
    (value, context) => {
      if (!jsonValues.isArray(value)) return invalidKeyword(context, "an array", value)
      const members = new Set(value.map(jsonValues.fingerprint))
      const shown = value.slice(0, maxShownMembers).map((member) => jsonValues.formatValue(member))
      const rest = value.length - shown.length
      const message = `must be one of ${shown.join(", ")}${rest > 0 ? ` and ${rest} more` : ""}`
      return (found, at, run) =>
        (schemaNode.spendFuel(run, jsonValues.countValues(found)) && members.has(jsonValues.fingerprint(found))) ||
        schemaNode.reportIssue(run, at, "enum", message)
    }
  ],
  [
    "const",
    (value) => {
      const print = jsonValues.fingerprint(value)
      const message = `must be ${jsonValues.formatValue(value)}`
      return (found, at, run) =>
        (schemaNode.spendFuel(run, jsonValues.countValues(found)) && jsonValues.fingerprint(found) === print) ||
        schemaNode.reportIssue(run, at, "const", message)
    }
  ],
  [
    "minimum",
    readNumber(
      (limit) => (found, at, run) =>
        typeof found !== "number" ||
        found >= limit ||
        schemaNode.reportIssue(run, at, "minimum", `must be at least ${limit}`)
    )
  ],
  [
    "maximum",
    readNumber(
      (limit) => (found, at, run) =>
        typeof found !== "number" ||
        found <= limit ||
        schemaNode.reportIssue(run, at, "maximum", `must be at most ${limit}`)
    )
  ],
  [
    "exclusiveMinimum",
    readNumber(
      (limit) => (found, at, run) =>
        typeof found !== "number" ||
        found > limit ||
        schemaNode.reportIssue(run, at, "exclusiveMinimum", `must be greater than ${limit}`)
    )
  ],
  [
    "exclusiveMaximum",
    readNumber(
      (limit) => (found, at, run) =>
        typeof found !== "number" ||
        found < limit ||
        schemaNode.reportIssue(run, at, "exclusiveMaximum", `must be less than ${limit}`)
    )
  ],
  [
    "multipleOf",
    readNumber((divisor, context) =>
      divisor <= 0
        ? invalidKeyword(context, "a number greater than 0", divisor)
        : (found, at, run) =>
            typeof found !== "number" ||
            jsonValues.isMultipleOf(found, divisor) ||
            schemaNode.reportIssue(run, at, "multipleOf", `must be a multiple of ${divisor}`)
    )
  ],
  [
    "minLength",
    readCount((limit) => (found, at, run) => {
      if (typeof found !== "string" || found.length >= limit * 2) return true
      const length = jsonValues.countCodePoints(found)
      return (
        length >= limit ||
        schemaNode.reportIssue(
          run,
          at,
          "minLength",
          `must have at least ${pluralize(limit, "character")}, has ${length}`
        )
      )
    })
  ],
  [
    "maxLength",
    readCount((limit) => (found, at, run) => {
      if (typeof found !== "string" || found.length <= limit) return true
      const length = jsonValues.countCodePoints(found)
      return (
        length <= limit ||
        schemaNode.reportIssue(
          run,
          at,
          "maxLength",
          `must have at most ${pluralize(limit, "character")}, has ${length}`
        )
      )
    })
  ],
  [
    "pattern",
    readString((source, context) => {
      const pattern = context.pattern(source, "pattern")
      if (pattern === undefined) return undefined
      const message = `must match the pattern ${jsonValues.formatValue(source, 200)}`
      return (found, at, run) =>
        typeof found !== "string" ||
        (schemaNode.spendFuel(run, pattern.cost(found.length)) && pattern.test(found)) ||
        schemaNode.reportIssue(run, at, "pattern", message)
    })
  ],
  [
    "format",
    readString((name, context) => {
      const check = Patterns.formatCheck(name)
      if (check === undefined) {
        return context.refuse({ _tag: "UnsupportedFormat", found: name, supported: Patterns.formatNames }, "format")
      }
      return (found, at, run) =>
        typeof found !== "string" ||
        (schemaNode.spendFuel(run, 1 + found.length / 256) && check(found)) ||
        schemaNode.reportIssue(run, at, "format", `must be a valid ${name}`)
    })
  ]
]

const formatItemCount = (n: number) => (n === 1 ? "1 item" : `${n} items`)

const prefixItemsKeyword =
  (nodes: ReadonlyArray<schemaNode.Node>): schemaNode.Assertion =>
  (value, at, run, evaluated) => {
    if (!jsonValues.isArray(value)) return true
    let ok = true
    for (let i = 0; i < Math.min(nodes.length, value.length); i++) {
      const node = nodes[i]
      const item = value[i]
      if (node === undefined || item === undefined) continue
      if (!schemaNode.evaluate(node, item, paths.childLocation(at, i), run)) ok = false
      evaluated?.items.add(i)
      if (!ok && schemaNode.isDone(run)) return false
    }
    return ok
  }

const restItems =
  (node: schemaNode.Node, from: number): schemaNode.Assertion =>
  (value, at, run, evaluated) => {
    if (!jsonValues.isArray(value) || value.length <= from) return true
    if (node.always === false)
      return schemaNode.reportIssue(run, at, "items", `must have at most ${formatItemCount(from)}, has ${value.length}`)
    if (evaluated !== undefined) evaluated.allItems = true
    let ok = true
    for (let i = from; i < value.length; i++) {
      const item = value[i]
      if (item === undefined || schemaNode.evaluate(node, item, paths.childLocation(at, i), run)) continue
      ok = false
      if (schemaNode.isDone(run)) return false
    }
    return ok
  }

const arrayLength = (value: Schema.Json | undefined): number =>
  value !== undefined && jsonValues.isArray(value) ? value.length : 0

const itemsKeyword: Keyword = (value, context) => {
  if (context.dialect === "draft-07" && jsonValues.isArray(value)) {
    return prefixItemsKeyword(value.map((item, index) => context.sub(item, "items", index)))
  }
  return readSchema((node) => restItems(node, arrayLength(jsonValues.getMember(context.schema, "prefixItems"))))(
    value,
    context
  )
}

const limitOf = (context: Context, keyword: string): number | undefined => {
  const value = jsonValues.getMember(context.schema, keyword)
  return context.dialect === "2020-12" && typeof value === "number" ? value : undefined
}

const containsKeyword = (node: schemaNode.Node, context: Context): schemaNode.Assertion => {
  const min = limitOf(context, "minContains") ?? 1
  const max = limitOf(context, "maxContains") ?? Number.POSITIVE_INFINITY
  return (value, at, run, evaluated) => {
    if (!jsonValues.isArray(value)) return true
    let found = 0
    schemaNode.runQuietly(run, () => {
      for (const [index, item] of value.entries()) {
        if (!schemaNode.evaluate(node, item, undefined, run)) continue
        found++
        evaluated?.items.add(index)
        if (evaluated === undefined && found >= min && max === Number.POSITIVE_INFINITY) return
      }
    })
    if (found < min)
      return schemaNode.reportIssue(
        run,
        at,
        "contains",
        `must hold at least ${formatItemCount(min)} of the required form, has ${found}`
      )
    return (
      found <= max ||
      schemaNode.reportIssue(
        run,
        at,
        "contains",
        `must hold at most ${formatItemCount(max)} of the named form, has ${found}`
      )
    )
  }
}

/** Keywords about arrays. */
export const arrayKeywords: Keywords = [
  ["prefixItems", readSchemas(prefixItemsKeyword)],
  ["items", itemsKeyword],
  [
    "additionalItems",
    readSchema((node, context) => {
      const list = jsonValues.getMember(context.schema, "items")
      return list !== undefined && jsonValues.isArray(list) ? restItems(node, list.length) : undefined
    })
  ],
  [
    "minItems",
    readCount(
      (limit) => (value, at, run) =>
        !jsonValues.isArray(value) ||
        value.length >= limit ||
        schemaNode.reportIssue(run, at, "minItems", `must have at least ${formatItemCount(limit)}, has ${value.length}`)
    )
  ],
  [
    "maxItems",
    readCount(
      (limit) => (value, at, run) =>
        !jsonValues.isArray(value) ||
        value.length <= limit ||
        schemaNode.reportIssue(run, at, "maxItems", `must have at most ${formatItemCount(limit)}, has ${value.length}`)
    )
  ],
  [
    "uniqueItems",
    (unique, context) => {
      if (typeof unique !== "boolean") return invalidKeyword(context, "a boolean", unique)
      if (!unique) return undefined
      return (value, at, run) => {
        if (!jsonValues.isArray(value)) return true
        if (!schemaNode.spendFuel(run, jsonValues.countValues(value))) return false
        const seen = new Map<string, number>()
        let ok = true
        for (const [index, item] of value.entries()) {
          const print = jsonValues.fingerprint(item)
          const first = seen.get(print)
          if (first === undefined) seen.set(print, index)
          else {
            ok = schemaNode.reportIssue(
              run,
              paths.childLocation(at, index),
              "uniqueItems",
              `must be unique, is equal to item ${first}`
            )
            if (schemaNode.isDone(run)) return false
          }
        }
        return ok
      }
    }
  ],
  ["contains", readSchema(containsKeyword)],
  ["minContains", readCount(() => undefined)],
  ["maxContains", readCount(() => undefined)],
  [
    "unevaluatedItems",
    readSchema((node) => (value, at, run, evaluated) => {
      if (!jsonValues.isArray(value) || evaluated === undefined || evaluated.allItems) return true
      let ok = true
      for (const [index, item] of value.entries()) {
        if (evaluated.items.has(index) || schemaNode.evaluate(node, item, paths.childLocation(at, index), run)) continue
        ok = false
        if (schemaNode.isDone(run)) return false
      }
      evaluated.allItems = true
      return ok
    })
  ]
]

const formatPropertyCount = (n: number) => (n === 1 ? "1 property" : `${n} properties`)

/** The names in `required`; empty when it is absent or malformed, which is reported elsewhere. */
export const requiredNames = (context: Context): ReadonlyArray<string> =>
  toStringList(jsonValues.getMember(context.schema, "required") ?? []) ?? []

const declaredNames = (context: Context): ReadonlySet<string> => {
  const declared = jsonValues.getMember(context.schema, "properties")
  return new Set(jsonValues.isObject(declared) ? Object.keys(declared) : [])
}

/** The compiled `patternProperties`, refusing what cannot run in linear time. */
export const patternNodes = (context: Context): ReadonlyArray<readonly [Patterns.CompiledPattern, schemaNode.Node]> => {
  const patterns = jsonValues.getMember(context.schema, "patternProperties")
  if (!jsonValues.isObject(patterns)) return []
  const nodes: Array<readonly [Patterns.CompiledPattern, schemaNode.Node]> = []
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
  patterns: ReadonlyArray<readonly [Patterns.CompiledPattern, schemaNode.Node]>
): boolean => !declared.has(key) && !patterns.some(([pattern]) => pattern.test(key))

const propertiesKeyword: Keyword = readNamedSchemas((nodes, context) => {
  const required = new Set(requiredNames(context))
  return (value, at, run, evaluated) => {
    if (!jsonValues.isObject(value)) return true
    let ok = true
    for (const [key, node] of nodes) {
      const member = jsonValues.getMember(value, key)
      if (member === undefined) {
        if (required.has(key)) ok = schemaNode.reportIssue(run, paths.childLocation(at, key), "required", "is required")
      } else {
        if (!schemaNode.evaluate(node, member, paths.childLocation(at, key), run)) ok = false
        evaluated?.keys.add(key)
      }
      if (!ok && schemaNode.isDone(run)) return false
    }
    return ok
  }
})

const patternPropertiesKeyword: Keyword = (value, context) => {
  if (!jsonValues.isObject(value)) return invalidKeyword(context, "an object of schemas", value)
  const nodes = patternNodes(context)
  return (found, at, run, evaluated) => {
    if (!jsonValues.isObject(found)) return true
    let ok = true
    for (const key of Object.keys(found)) {
      for (const [pattern, node] of nodes) {
        if (!schemaNode.spendFuel(run, pattern.cost(key.length))) return false
        if (!pattern.test(key)) continue
        evaluated?.keys.add(key)
        if (!schemaNode.evaluate(node, found[key] ?? null, paths.childLocation(at, key), run)) ok = false
        if (!ok && schemaNode.isDone(run)) return false
      }
    }
    return ok
  }
}

const otherProperties =
  (
    node: schemaNode.Node,
    keyword: string,
    applies: (key: string) => boolean,
    cost: (key: string) => number
  ): schemaNode.Assertion =>
  (value, at, run, evaluated) => {
    if (!jsonValues.isObject(value)) return true
    let ok = true
    for (const key of Object.keys(value)) {
      if (!schemaNode.spendFuel(run, cost(key))) return false
      if (!applies(key)) continue
      evaluated?.keys.add(key)
      const here = paths.childLocation(at, key)
      if (node.always === false) ok = schemaNode.reportIssue(run, here, keyword, "is not allowed")
      else if (!schemaNode.evaluate(node, value[key] ?? null, here, run)) ok = false
      if (!ok && schemaNode.isDone(run)) return false
    }
    return ok
  }

const requireProperties =
  (list: ReadonlyArray<string>, suffix: string, keyword: string): schemaNode.Assertion =>
  (value, at, run) => {
    if (!jsonValues.isObject(value)) return true
    let ok = true
    for (const key of list) {
      if (!Object.hasOwn(value, key))
        ok = schemaNode.reportIssue(run, paths.childLocation(at, key), keyword, `is required${suffix}`)
      if (!ok && schemaNode.isDone(run)) return false
    }
    return ok
  }

const whenPresent =
  (key: string, assertion: schemaNode.Assertion): schemaNode.Assertion =>
  (value, at, run, evaluated) =>
    !jsonValues.isObject(value) || !Object.hasOwn(value, key) || assertion(value, at, run, evaluated)

const everyAssertion =
  (assertions: ReadonlyArray<schemaNode.Assertion>): schemaNode.Assertion =>
  (value, at, run, evaluated) => {
    let ok = true
    for (const assertion of assertions) {
      if (!assertion(value, at, run, evaluated)) ok = false
      if (!ok && schemaNode.isDone(run)) return false
    }
    return ok
  }

const formatDependency = (key: string) => ` when ${JSON.stringify(key)} is present`

const evaluateDependent =
  (node: schemaNode.Node): schemaNode.Assertion =>
  (value, at, run, evaluated) =>
    schemaNode.evaluateInPlace(node, value, at, run, evaluated, true)

const dependenciesKeyword: Keyword = (value, context) => {
  if (!jsonValues.isObject(value)) return invalidKeyword(context, "an object", value)
  return everyAssertion(
    Object.keys(value).map((key) => {
      const dependency = value[key] ?? null
      const list = toStringList(dependency)
      return whenPresent(
        key,
        list !== undefined
          ? requireProperties(list, formatDependency(key), "dependencies")
          : evaluateDependent(context.sub(dependency, "dependencies", key))
      )
    })
  )
}

const dependentRequiredKeyword: Keyword = (value, context) => {
  if (!jsonValues.isObject(value)) return invalidKeyword(context, "an object", value)
  return everyAssertion(
    Object.keys(value).map((key) => {
      const list = toStringList(value[key] ?? null)
      if (list === undefined) invalidKeyword(context, "an array of strings", value[key] ?? null, key)
      return whenPresent(key, requireProperties(list ?? [], formatDependency(key), "dependentRequired"))
    })
  )
}

/** Keywords about objects. */
export const objectKeywords: Keywords = [
  ["properties", propertiesKeyword],
  [
    "required",
    readNames((list, context) => {
      const declared = declaredNames(context)
      return requireProperties(
        list.filter((key) => !declared.has(key)),
        "",
        "required"
      )
    })
  ],
  ["patternProperties", patternPropertiesKeyword],
  [
    "additionalProperties",
    readSchema((node, context) => {
      const declared = declaredNames(context)
      const patterns = patternNodes(context)
      return otherProperties(
        node,
        "additionalProperties",
        (key) => isAdditional(key, declared, patterns),
        (key) => patterns.reduce((sum, [pattern]) => sum + pattern.cost(key.length), 1)
      )
    })
  ],
  [
    "minProperties",
    readCount((limit) => (value, at, run) => {
      if (!jsonValues.isObject(value)) return true
      const size = Object.keys(value).length
      return (
        size >= limit ||
        schemaNode.reportIssue(
          run,
          at,
          "minProperties",
          `must have at least ${formatPropertyCount(limit)}, has ${size}`
        )
      )
    })
  ],
  [
    "maxProperties",
    readCount((limit) => (value, at, run) => {
      if (!jsonValues.isObject(value)) return true
      const size = Object.keys(value).length
      return (
        size <= limit ||
        schemaNode.reportIssue(run, at, "maxProperties", `must have at most ${formatPropertyCount(limit)}, has ${size}`)
      )
    })
  ],
  [
    "propertyNames",
    readSchema((node) => (value, at, run) => {
      if (!jsonValues.isObject(value)) return true
      let ok = true
      for (const key of Object.keys(value)) {
        if (schemaNode.runQuietly(run, () => schemaNode.evaluate(node, key, undefined, run))) continue
        ok = schemaNode.reportIssue(
          run,
          paths.childLocation(at, key),
          "propertyNames",
          "has a name that is not allowed"
        )
        if (schemaNode.isDone(run)) return false
      }
      return ok
    })
  ],
  ["dependentRequired", dependentRequiredKeyword],
  [
    "dependentSchemas",
    readNamedSchemas((nodes) => everyAssertion(nodes.map(([key, node]) => whenPresent(key, evaluateDependent(node)))))
  ],
  ["dependencies", dependenciesKeyword],
  [
    "unevaluatedProperties",
    readSchema((node) => (value, at, run, evaluated) => {
      if (!jsonValues.isObject(value) || evaluated === undefined || evaluated.allKeys) return true
      const seen = evaluated.keys
      const ok = otherProperties(
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

const maxShownBranches = 3

/**
 * The issues of the alternative a value was meant for: the only one that fails
 * for more than the kind of the value, or than a constant in it.
 */
export const findIntendedBranch = <I extends { readonly keyword: string; readonly pointer: string }>(
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
const reportNoMatch = (
  branches: ReadonlyArray<schemaNode.Node>,
  keyword: string,
  value: Schema.Json,
  at: paths.Location | undefined,
  run: schemaNode.Run
): false => {
  if (run.issues === undefined) return false
  const here = paths.toPointer(at)
  const all = branches.map(
    (branch) => schemaNode.runSeparately(run, () => schemaNode.evaluate(branch, value, at, run))[1]
  )
  const meant = findIntendedBranch(all, here)
  if (meant !== undefined) {
    for (const issue of meant) schemaNode.addIssue(run, issue)
    return false
  }
  const reasons = [...new Set(all.flatMap((issues) => issues.slice(0, 1).map(relativeMessage(here))))]
  const shown = reasons.slice(0, maxShownBranches).join("; or ")
  return schemaNode.reportIssue(
    run,
    at,
    keyword,
    `fits none of ${branches.length} alternatives: ${shown}${reasons.length > maxShownBranches ? "; ..." : ""}`
  )
}

const relativeMessage =
  (here: string) =>
  ({ message, pointer }: { readonly message: string; readonly pointer: string }): string =>
    pointer === here ? message : `${pointer.slice(here.length)} ${message}`

const anyOfKeyword: Keyword = readSchemas((branches) => (value, at, run, evaluated) => {
  const fits = schemaNode.runQuietly(run, () => {
    let found = false
    for (const branch of branches) {
      if (!schemaNode.evaluateInPlace(branch, value, undefined, run, evaluated)) continue
      found = true
      if (evaluated === undefined) return true
    }
    return found
  })
  return fits || reportNoMatch(branches, "anyOf", value, at, run)
})

const oneOfKeyword: Keyword = readSchemas((branches) => (value, at, run, evaluated) => {
  const fitting = schemaNode.runQuietly(run, () => {
    const found: Array<number> = []
    for (const [index, branch] of branches.entries()) {
      if (!schemaNode.evaluateInPlace(branch, value, undefined, run, evaluated)) continue
      found.push(index)
      if (found.length > 1) break
    }
    return found
  })
  if (fitting.length === 1) return true
  if (fitting.length === 0) return reportNoMatch(branches, "oneOf", value, at, run)
  return schemaNode.reportIssue(
    run,
    at,
    "oneOf",
    `must fit exactly one of ${branches.length} alternatives, fits more than one`
  )
})

const allOfKeyword: Keyword = readSchemas((nodes) => (value, at, run, evaluated) => {
  let ok = true
  for (const node of nodes) {
    if (schemaNode.evaluateInPlace(node, value, at, run, evaluated, true)) continue
    ok = false
    if (schemaNode.isDone(run)) return false
  }
  return ok
})

const conditionalKeyword =
  (
    condition: schemaNode.Node,
    then: schemaNode.Node | undefined,
    otherwise: schemaNode.Node | undefined
  ): schemaNode.Assertion =>
  (value, at, run, evaluated) => {
    const holds = schemaNode.runQuietly(run, () =>
      schemaNode.evaluateInPlace(condition, value, undefined, run, evaluated)
    )
    const branch = holds ? then : otherwise
    return branch === undefined || schemaNode.evaluateInPlace(branch, value, at, run, evaluated, true)
  }

const isSchemaValue = (value: Schema.Json | undefined): value is Schema.JsonObject | boolean =>
  jsonValues.isObject(value) || typeof value === "boolean"

/** Keywords that combine schemas over the same value. */
export const combinationKeywords: Keywords = [
  ["allOf", allOfKeyword],
  ["anyOf", anyOfKeyword],
  ["oneOf", oneOfKeyword],
  [
    "not",
    readSchema(
      (node) => (value, at, run) =>
        !schemaNode.runQuietly(run, () => schemaNode.evaluate(node, value, undefined, run)) ||
        schemaNode.reportIssue(run, at, "not", "has a form that is not allowed")
    )
  ],
  [
    "if",
    readSchema((node, context) => {
      const branch = (keyword: string) => {
        const json = jsonValues.getMember(context.schema, keyword)
        return isSchemaValue(json) ? context.sub(json, keyword) : undefined
      }
      return conditionalKeyword(node, branch("then"), branch("else"))
    })
  ],
  ["then", readSchema(() => undefined)],
  ["else", readSchema(() => undefined)]
]
