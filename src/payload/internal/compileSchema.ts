/**
 * The compiler of JSON Schema: guards a document, and turns its keywords into nodes that `interpret` runs.
 *
 * It reads draft 2020-12 and draft-07 as tools use them, and refuses what it could not enforce.
 */

import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as PayloadError from "../PayloadError.ts"
import * as base from "./base.ts"
import * as closeNames from "./closeNames.ts"
import { copyJson } from "./copyJson.ts"
import * as fuel from "./fuel.ts"
import {
  addProblem,
  anyValue,
  booleanNode,
  type Check,
  CompiledSchema,
  type Cost,
  costOf,
  type Dialect,
  evaluate,
  evaluateApart,
  every,
  fits,
  isAdditional,
  isDone,
  type JsonSchema,
  Node,
  noProblems,
  patternCost,
  placeOf,
  problemsOf,
  report,
  type Run,
  sameValueNodes,
  spend,
  type Test,
  type UncheckedPattern,
  verdictOf
} from "./interpret.ts"
import * as jsonLimits from "./limits.ts"
import * as Patterns from "./patterns.ts"
import {
  appendToken,
  countCodePoints,
  defined,
  fingerprint,
  getAt,
  isArray,
  isMultipleOf,
  isObject,
  type JsonObject,
  kindOf,
  type Location,
  own,
  parsePointer,
  toPointer,
  typeBits,
  typeNames,
  typeOf
} from "./values.ts"

/** Why a document is refused: a name to branch on, and the problem. */
export interface Refusal extends PayloadError.Problem {
  readonly reason: RefusalReason
}

type RefusalReason = (typeof refusalReasons)[number]

const refusalReasons = [
  "NotASchema",
  "TooLarge",
  "TooDeep",
  "ForbiddenKey",
  "UnsupportedDialect",
  "UnsupportedKeyword",
  "UnsupportedType",
  "UnsupportedPattern",
  "InvalidKeyword",
  "UnresolvedReference",
  "ReferenceCycle",
  "NotRepresentable",
  "NotStrict"
] as const

// --- Keywords ------------------------------------------------------------------------------------------------------

/** One keyword of a schema, as its reader sees it. */
class Keyword {
  readonly name: string
  /** The schema that holds the keyword. */
  readonly schema: JsonObject
  readonly node: Node
  readonly compiler: Compiler
  #place: Location | undefined

  constructor(name: string, schema: JsonObject, node: Node, compiler: Compiler) {
    this.name = name
    this.schema = schema
    this.node = node
    this.compiler = compiler
  }

  get dialect(): Dialect {
    return this.compiler.dialect
  }

  /** The place of the keyword, or of a key below it. */
  place(key?: string | number): Location {
    const here = (this.#place ??= { parent: this.node.place, key: this.name })
    return key === undefined ? here : { parent: here, key }
  }

  /** Compiles the subschema at the keyword, or at a key below it. */
  sub(json: Schema.Json, key?: string | number): Node {
    if (typeof json === "boolean" && key !== undefined) this.compiler.holders.add(this.schema[this.name])
    return this.compiler.node(json, this.place(key))
  }

  /** Compiles a regular expression once per document. */
  pattern(source: string, key?: string): Patterns.CompiledPattern | undefined {
    return this.compiler.pattern(source, this.place(key))
  }

  /** Refuses the document because the keyword, or what is at a key below it, has the wrong form. */
  invalid(expected: string, found: Schema.Json, key?: string): undefined {
    return this.compiler.refuse("InvalidKeyword", this.place(key), expected, kindOf(found))
  }

  refuse(reason: RefusalReason, expected: string, found: string, fix?: string): undefined {
    return this.compiler.refuse(reason, this.place(), expected, found, fix)
  }

  /** False when nothing more is to be compiled. */
  spend(units: number): boolean {
    return this.compiler.spend(units, this.node.place)
  }
}

/** Reads the value of a keyword into the node; returns what is left to check at run time. */
type Reader = (value: Schema.Json, keyword: Keyword) => Check | undefined

const count = (n: number, unit: string): string => {
  if (n === 1) return `1 ${unit}`
  return unit.endsWith("y") ? `${n} ${unit.slice(0, -1)}ies` : `${n} ${unit}s`
}

/** The units for a remainder, which may take numbers of 600 digits. */
const remainderUnits = (found: number, limit: number): number => (Math.abs(found) > 1e21 || limit < 1e-21 ? 60 : 20)

const numberReader =
  (holds: (found: number, limit: number) => boolean, expected: string, found: string): Reader =>
  (limit, keyword) => {
    const { name } = keyword
    return typeof limit !== "number" || (name === "multipleOf" && limit <= 0)
      ? keyword.invalid("a number, for multipleOf greater than 0", limit)
      : (value, at, run) =>
          typeof value !== "number" ||
          (spend(run, name === "multipleOf" ? remainderUnits(value, limit) : 0) && holds(value, limit)) ||
          (run.problems !== undefined && report(run, at, name, `${expected} ${limit}`, found))
  }

const isCount = (value: Schema.Json): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= 0

/** The size of a value, paid for; `undefined` for a value of another kind. */
type Measure = (value: Schema.Json, run: Run) => number | undefined

const sizeReader =
  (measure: Measure, bound: "least" | "most", unit: string): Reader =>
  (limit, keyword) => {
    const { name } = keyword
    return !isCount(limit)
      ? keyword.invalid("a whole number of at least 0", limit)
      : (value, at, run) => {
          const size = measure(value, run)
          if (size === undefined || (bound === "least" ? size >= limit : size <= limit)) return true
          return run.problems !== undefined && report(run, at, name, `at ${bound} ${count(limit, unit)}`, String(size))
        }
  }

const textLength: Measure = (value, run) =>
  typeof value === "string" && spend(run, fuel.ofText(value.length)) ? countCodePoints(value) : undefined

const itemCount: Measure = (value) => (isArray(value) ? value.length : undefined)

const propertyCount: Measure = (value, run) => {
  if (!isObject(value)) return undefined
  const size = Object.keys(value).length
  return spend(run, size) ? size : undefined
}

/** More members are not shown. */
const maxShownMembers = 500

const enumReader: Reader = (value, keyword) => {
  const { name } = keyword
  const members = name === "const" ? [value] : value
  if (!isArray(members)) return keyword.invalid("an array", value)
  if (!keyword.spend(fuel.ofValue(members))) return undefined
  // Both are made for the first value: many schemas never see one
  let scalars: ReadonlySet<Schema.Json> | undefined
  let prints: ReadonlySet<string> | undefined
  const isMember = (found: Schema.Json): boolean => {
    scalars ??= new Set(members)
    if (typeof found !== "object") return scalars.has(found)
    prints ??= new Set(members.filter((member) => typeof member === "object").map(fingerprint))
    return prints.has(fingerprint(found))
  }
  const expected = () => {
    const shown = members.slice(0, maxShownMembers).map((member) => base.truncateText(JSON.stringify(member), 60))
    return `${members.length === 1 ? "" : "one of "}${base.truncateText(shown.join(", "), 1000)}`
  }
  return (found, at, run) =>
    (spend(run, fuel.ofValue(found)) && isMember(found)) ||
    (run.problems !== undefined && report(run, at, name, expected(), `another ${typeOf(found)}`))
}

/** The check of a pattern that no engine runs. */
const unsureOfText: Check = (value, _, run) => {
  if (typeof value === "string") run.isUnsure = true
  return true
}

const patternReader: Reader = (source, keyword) => {
  if (typeof source !== "string") return keyword.invalid("a string", source)
  const pattern = keyword.pattern(source)
  if (pattern === undefined) return unsureOfText
  const expected = `text that matches the pattern ${base.truncateText(JSON.stringify(source), 200)}`
  return (value, at, run) =>
    typeof value !== "string" ||
    (spend(run, pattern.cost(value.length)) && pattern.test(value)) ||
    report(run, at, "pattern", expected, "other text")
}

const formatReader: Reader = (name, keyword) => {
  if (typeof name !== "string") return keyword.invalid("a string", name)
  const check = Patterns.formatChecks.get(name)
  // An annotation, as JSON Schema has it
  if (check === undefined) return undefined
  return (value, at, run) =>
    typeof value !== "string" ||
    (spend(run, Patterns.formatCost(name, value)) && check(value)) ||
    report(run, at, "format", `a valid ${name}`, "other text")
}

const isSchema = (value: Schema.Json | undefined): value is JsonObject | boolean =>
  isObject(value) || typeof value === "boolean"

const readSchema = (value: Schema.Json, keyword: Keyword): Node | undefined =>
  isSchema(value) ? keyword.sub(value) : keyword.invalid("a schema", value)

const readSchemas = (value: Schema.Json, keyword: Keyword): ReadonlyArray<Node> | undefined =>
  isArray(value) && value.length > 0
    ? value.map((item, index) => keyword.sub(item, index))
    : keyword.invalid("a non-empty array of schemas", value)

/** Compiles the subschema at each key. */
const readNamed = (
  value: Schema.Json,
  keyword: Keyword,
  add: (key: string, node: Node) => void
): ReadonlyArray<string> | undefined => {
  if (!isObject(value)) return keyword.invalid("an object of schemas", value)
  const keys = Object.keys(value)
  for (const key of keys) add(key, keyword.sub(value[key] ?? null, key))
  return keys
}

const readNames = (value: Schema.Json | undefined): ReadonlyArray<string> | undefined =>
  value !== undefined && isArray(value) && value.every((item) => typeof item === "string") ? value : undefined

// Arrays

const prefixReader: Reader = (value, keyword) => {
  const nodes = readSchemas(value, keyword)
  if (nodes === undefined) return undefined
  keyword.node.prefix = nodes
  const test: Test<Schema.Json, unknown> = (item, _, at, run, index) =>
    evaluate(nodes[index] ?? anyValue, item, placeOf(run, at, index), run)
  return (found, at, run) => !isArray(found) || every(found, found, at, run, test, 0, nodes.length)
}

const restReader: Reader = (value, keyword) => {
  const rest = readSchema(value, keyword)
  if (rest === undefined) return undefined
  const { name, node } = keyword
  node.rest = rest
  const test: Test<Schema.Json, unknown> = (item, _, at, run, index) =>
    evaluate(rest, item, placeOf(run, at, index), run)
  return (found, at, run) => {
    const from = node.prefix.length
    if (!isArray(found) || found.length <= from) return true
    if (rest.always === false) return report(run, at, name, `at most ${count(from, "item")}`, String(found.length))
    return every(found, found, at, run, test, from)
  }
}

const itemsReader: Reader = (value, keyword) => {
  if (keyword.dialect === "2020-12" || !isArray(value)) return restReader(value, keyword)
  return value.length === 0 ? undefined : prefixReader(value, keyword)
}

/** In draft-07 it is about the items beyond a list in `items`, and means nothing without one. */
const additionalItemsReader: Reader = (value, keyword) => {
  if (isArray(own(keyword.schema, "items"))) return restReader(value, keyword)
  readSchema(value, keyword)
  return undefined
}

const containsReader: Reader = (value, keyword) => {
  const node = readSchema(value, keyword)
  if (node === undefined) return undefined
  const { dialect, schema } = keyword
  const limit = (name: string) => {
    const found = own(schema, name)
    return dialect === "2020-12" && typeof found === "number" ? found : undefined
  }
  const min = limit("minContains") ?? 1
  const max = limit("maxContains") ?? Number.POSITIVE_INFINITY
  return (items, at, run) => {
    if (!isArray(items)) return true
    let found = 0
    let unsure = 0
    for (const item of items) {
      const verdict = verdictOf(node, item, run)
      if (verdict === true) found++
      if (verdict === undefined) unsure++
    }
    if (found + unsure >= min && found <= max) return true
    const bound = found < min ? `at least ${min}` : `at most ${max}`
    return report(run, at, "contains", `${bound} of the items in the form of "contains"`, String(found))
  }
}

const isUnique: Test<Schema.Json, Set<string>> = (item, seen, at, run, index) => {
  const before = seen.size
  return (
    seen.add(fingerprint(item)).size > before ||
    report(run, placeOf(run, at, index), "uniqueItems", "an item that differs from the items before", "an equal item")
  )
}

const uniqueReader: Reader = (unique, keyword) => {
  if (typeof unique !== "boolean") return keyword.invalid("a boolean", unique)
  if (!unique) return undefined
  return (items, at, run) =>
    !isArray(items) || (spend(run, 2 * fuel.ofValue(items)) && every(items, new Set<string>(), at, run, isUnique))
}

// Objects

const present = "a required value"

/** Keys that must be there, because another one is. */
const hasKeys = (
  keys: ReadonlyArray<string>,
  value: JsonObject,
  at: Location | undefined,
  run: Run,
  name: string,
  because?: string
): boolean => {
  if (!spend(run, keys.length)) return false
  let ok = true
  for (const key of keys) {
    if (Object.hasOwn(value, key)) continue
    ok = false
    if (isDone(run)) return false
    const expected = because === undefined ? present : `${present}, because ${JSON.stringify(because)} is present`
    report(run, { parent: at, key }, name, expected, "nothing")
  }
  return ok
}

const propertiesReader: Reader = (value, keyword) => {
  const { node } = keyword
  const nodes = new Map<string, Node>()
  const keys = readNamed(value, keyword, (key, property) => nodes.set(key, property))
  if (keys === undefined) return undefined
  node.properties = nodes
  const test: Test<string, JsonObject> = (key, found, at, run) => {
    const member = own(found, key)
    if (member !== undefined) return evaluate(nodes.get(key) ?? anyValue, member, placeOf(run, at, key), run)
    return !node.required.has(key) || report(run, placeOf(run, at, key), "required", present, "nothing")
  }
  return (found, at, run) => !isObject(found) || (spend(run, keys.length) && every(keys, found, at, run, test))
}

/** Declared properties that are missing are reported by `properties`, in the order of their declaration. */
const requiredReader: Reader = (value, keyword) => {
  const names = readNames(value)
  if (names === undefined) return keyword.invalid("an array of strings", value)
  keyword.node.required = new Set(names)
  const declared = own(keyword.schema, "properties")
  const others = names.filter((name) => !isObject(declared) || !Object.hasOwn(declared, name))
  return (found, at, run) => !isObject(found) || hasKeys(others, found, at, run, "required")
}

const patternPropertiesReader: Reader = (value, keyword) => {
  const { node } = keyword
  const members: Array<Node> = []
  const sources = readNamed(value, keyword, (_, member) => members.push(member))
  if (sources === undefined) return undefined
  node.patterns = sources.map((source, index) => {
    const pattern = keyword.pattern(source, source)
    // A key that an unknown pattern may name is declared, and its value may be any
    return pattern === undefined ? [Patterns.everyText, anyValue] : [pattern, members[index] ?? anyValue]
  })
  const test: Test<string, JsonObject> = (key, found, at, run) => {
    if (!spend(run, patternCost(node, key))) return false
    const matching = node.patterns.filter(([pattern]) => pattern.test(key)).map(([, member]) => member)
    return every(matching, found[key] ?? null, placeOf(run, at, key), run, evaluate)
  }
  return (found, at, run) => !isObject(found) || every(Object.keys(found), found, at, run, test)
}

const additionalReader: Reader = (value, keyword) => {
  const additional = readSchema(value, keyword)
  if (additional === undefined) return undefined
  const { name, node } = keyword
  node.additional = additional
  const test: Test<string, JsonObject> = (key, found, at, run) => {
    if (!spend(run, patternCost(node, key))) return false
    if (!isAdditional(node, key)) return true
    const member = found[key] ?? null
    const here = placeOf(run, at, key)
    return additional.always === false
      ? report(run, here, name, "no such key", typeOf(member))
      : evaluate(additional, member, here, run)
  }
  return (found, at, run) => !isObject(found) || every(Object.keys(found), found, at, run, test)
}

const namesReader: Reader = (value, keyword) => {
  const node = readSchema(value, keyword)
  if (node === undefined) return undefined
  const test: Test<string, unknown> = (key, _, at, run) =>
    fits(node, key, run) ||
    report(run, placeOf(run, at, key), "propertyNames", "a name of the form that is asked for", "another name")
  return (found, at, run) => !isObject(found) || every(Object.keys(found), found, at, run, test)
}

/** `dependentRequired`, `dependentSchemas`, and `dependencies`, which holds both. */
const dependentsReader: Reader = (value, keyword) => {
  if (!isObject(value)) return keyword.invalid("an object", value)
  const { name, node } = keyword
  const dependents: Array<readonly [key: string, node: Node]> = []
  const needs: Array<ReadonlyArray<string> | Node> = []
  const keys = Object.keys(value)
  for (const key of keys) {
    const dependency = value[key] ?? null
    const names = name === "dependentSchemas" ? undefined : readNames(dependency)
    if (names !== undefined) {
      if (keyword.spend(nodeUnits + names.length)) needs.push(names)
    } else if (name === "dependentRequired") keyword.invalid("an array of strings", dependency, key)
    else {
      const part = keyword.sub(dependency, key)
      dependents.push([key, part])
      needs.push(part)
    }
  }
  if (dependents.length > 0) node.dependents = [...node.dependents, ...dependents]
  const test: Test<string, JsonObject> = (key, found, at, run, index) => {
    const needed = Object.hasOwn(found, key) ? needs[index] : undefined
    if (needed === undefined) return true
    return needed instanceof Node ? evaluate(needed, found, at, run) : hasKeys(needed, found, at, run, name, key)
  }
  return (found, at, run) => !isObject(found) || (spend(run, keys.length) && every(keys, found, at, run, test))
}

// Combinations

/**
 * The problems of the alternative that a value was meant for: the only alternative that accepts the kind of the value,
 * or the only one of these that also accepts its constants.
 */
const problemsOfIntended = (
  all: ReadonlyArray<ReadonlyArray<PayloadError.Problem>>,
  here: string
): ReadonlyArray<PayloadError.Problem> | undefined => {
  const ofKind = all.filter((problems) => !problems.some(({ keyword, path }) => keyword === "type" && path === here))
  if (ofKind.length <= 1) return ofKind[0]
  const tagged = ofKind.filter((problems) => !problems.some(({ keyword }) => keyword === "const" || keyword === "enum"))
  return tagged.length === 1 ? tagged[0] : undefined
}

const reportNoMatch = (
  branches: ReadonlyArray<Node>,
  name: string,
  value: Schema.Json,
  at: Location | undefined,
  run: Run
): false => {
  if (run.problems === undefined) return false
  const here = toPointer(at)
  const all = branches.map((branch) => {
    const problems = noProblems()
    evaluateApart(problems, branch, value, at, run)
    return problems.list
  })
  const intended = problemsOfIntended(all, here)
  if (intended !== undefined) {
    for (const problem of intended) addProblem(run, problem)
    return false
  }
  const reasons = all.map(
    ([first]) =>
      first &&
      `${first.expected}${first.path === here ? "" : ` at ${base.truncateText(first.path.slice(here.length), 300)}`}`
  )
  const shown = base.truncateText(Array.from(new Set(reasons)).join(", or "), 300)
  return report(run, at, name, `one of ${branches.length} alternatives (${shown})`, typeOf(value))
}

const combinationReader =
  (name: "allOf" | "anyOf" | "oneOf", check: (nodes: ReadonlyArray<Node>) => Check): Reader =>
  (value, keyword) => {
    const nodes = readSchemas(value, keyword)
    if (nodes === undefined) return undefined
    keyword.node.combined = { ...keyword.node.combined, [name]: nodes }
    return check(nodes)
  }

const allOfReader = combinationReader("allOf", (nodes) => (value, at, run) => every(nodes, value, at, run, evaluate))

const anyOfReader = combinationReader("anyOf", (nodes) => (value, at, run) => {
  for (const node of nodes) if (fits(node, value, run)) return true
  return reportNoMatch(nodes, "anyOf", value, at, run)
})

const oneOfReader = combinationReader("oneOf", (nodes) => (value, at, run) => {
  let fitting = 0
  let unsure = 0
  for (const node of nodes) {
    const verdict = verdictOf(node, value, run)
    if (verdict === true) fitting++
    if (verdict === undefined) unsure++
  }
  if (fitting + unsure === 0) return reportNoMatch(nodes, "oneOf", value, at, run)
  const expected = `exactly one of ${nodes.length} alternatives`
  return fitting <= 1 || report(run, at, "oneOf", expected, `a value that fits ${fitting}`)
})

/** `not`, `if`, `then` and `else`; the last two are checked by `if`. */
const partReader =
  (name: keyof Node["parts"], check?: (part: Node, node: Node) => Check): Reader =>
  (value, keyword) => {
    const node = readSchema(value, keyword)
    if (node === undefined) return undefined
    keyword.node.parts = { ...keyword.node.parts, [name]: node }
    return check?.(node, keyword.node)
  }

const notReader = partReader(
  "not",
  (part) => (value, at, run) =>
    verdictOf(part, value, run) !== true || report(run, at, "not", `a value that "not" admits`, typeOf(value))
)

const ifReader = partReader("if", (condition, node) => (value, at, run) => {
  const verdict = verdictOf(condition, value, run)
  const branch = verdict === true ? node.parts.then : node.parts.else
  return verdict === undefined || branch === undefined || evaluate(branch, value, at, run)
})

const readers: ReadonlyMap<string, Reader> = new Map<string, Reader>([
  ["enum", enumReader],
  ["const", enumReader],
  ["minimum", numberReader((found, limit) => found >= limit, "at least", "a smaller number")],
  ["maximum", numberReader((found, limit) => found <= limit, "at most", "a larger number")],
  ["exclusiveMinimum", numberReader((found, limit) => found > limit, "more than", "a number that is not")],
  ["exclusiveMaximum", numberReader((found, limit) => found < limit, "less than", "a number that is not")],
  ["multipleOf", numberReader(isMultipleOf, "a multiple of", "another number")],
  ["minLength", sizeReader(textLength, "least", "character")],
  ["maxLength", sizeReader(textLength, "most", "character")],
  ["pattern", patternReader],
  ["format", formatReader],
  ["prefixItems", prefixReader],
  ["items", itemsReader],
  ["additionalItems", additionalItemsReader],
  ["minItems", sizeReader(itemCount, "least", "item")],
  ["maxItems", sizeReader(itemCount, "most", "item")],
  ["uniqueItems", uniqueReader],
  ["contains", containsReader],
  ["minContains", sizeReader(() => undefined, "least", "item")],
  ["maxContains", sizeReader(() => undefined, "most", "item")],
  ["properties", propertiesReader],
  ["required", requiredReader],
  ["patternProperties", patternPropertiesReader],
  ["additionalProperties", additionalReader],
  ["minProperties", sizeReader(propertyCount, "least", "property")],
  ["maxProperties", sizeReader(propertyCount, "most", "property")],
  ["propertyNames", namesReader],
  ["dependentRequired", dependentsReader],
  ["dependentSchemas", dependentsReader],
  ["dependencies", dependentsReader],
  ["allOf", allOfReader],
  ["anyOf", anyOfReader],
  ["oneOf", oneOfReader],
  ["not", notReader],
  ["if", ifReader],
  ["then", partReader("then")],
  ["else", partReader("else")]
])

/** Keywords that have no influence on which values are accepted. */
const annotationKeywords: ReadonlySet<string> = new Set(
  [
    "title description default examples $comment deprecated readOnly writeOnly",
    "contentEncoding contentMediaType contentSchema"
  ].flatMap((names) => names.split(" "))
)

/** Keywords of other drafts and of OpenAPI that change which values are accepted; so may any that begins with `$`. */
const unsupportedKeywords: ReadonlySet<string> = new Set(
  "unevaluatedItems unevaluatedProperties propertyDependencies disallow divisibleBy extends".split(" ")
)

/** True for an annotation that JSON Schema does not have. */
export const isNote = (name: string): boolean =>
  !(
    readers.has(name) ||
    annotationKeywords.has(name) ||
    unsupportedKeywords.has(name) ||
    name.startsWith("$") ||
    name === "definitions" ||
    name === "type"
  )

const lettersOf = (name: string): string => name.replace(/[-_$ ]/g, "").toLowerCase()

/** Keywords by their letters. Other words are as short as `not` and `if`. */
const keywordsByLetters: ReadonlyMap<string, string> = new Map(
  [...readers.keys(), "type", "$ref", "definitions"]
    .filter((name) => name.length > 3)
    .map((name) => [lettersOf(name), name])
)

/** The keyword that a name is a misspelling of. */
const misspelled = (name: string, tank: fuel.Fuel): string | undefined => {
  const letters = lettersOf(name)
  // Three make "patternProperty" of "patternProperties"
  const most = letters.length < 8 ? 1 : letters.length < 14 ? 2 : 3
  const closest = closeNames.closestName(letters, keywordsByLetters.keys(), tank, most) ?? ""
  // `const` takes any value, so a similar name may be any member
  return closest === "const" && letters !== closest ? undefined : keywordsByLetters.get(closest)
}

/** Keywords that a dialect does not have, but the other one has. */
const foreignKeywords: Readonly<Record<Dialect, ReadonlyArray<string>>> = {
  "2020-12": ["additionalItems"],
  "draft-07": ["prefixItems", "minContains", "maxContains", "dependentRequired", "dependentSchemas"]
}

// --- Compiling -----------------------------------------------------------------------------------------------------

/** Schemas and values are worked on recursively: deeper ones are refused whatever the limits are. */
const maxDocumentDepth = 256

/** Chains of schemas over one value may be this long. */
const maxChain = 100

/** The units for a schema of a document, for each of its keywords, and for keys that depend on another one. */
const nodeUnits = 32

/** The units for a step of a reference. */
const tokenUnits = 8

/** Copies a document within the limits and the rules for keys. */
export const copyDocument = (json: unknown, limits: jsonLimits.Limits): Result.Result<JsonObject, Refusal> => {
  const maxDepth = Math.min(limits.maxDepth, maxDocumentDepth)
  const copied = copyJson(json, { ...limits, maxDepth })
  if (Result.isFailure(copied)) {
    const [problem = { path: "", expected: "plain JSON", found: "another value" }] = problemsOf(copied.failure)
    const reason = refusalReasons.find((name) => name === copied.failure._tag) ?? "NotASchema"
    return Result.fail({ ...problem, reason })
  }
  return isObject(copied.success)
    ? Result.succeed(copied.success)
    : Result.fail({ path: "", expected: "an object", found: kindOf(copied.success), reason: "NotASchema" })
}

const dialects: ReadonlyMap<string, Dialect> = new Map([
  ["https://json-schema.org/draft/2020-12/schema", "2020-12"],
  ["http://json-schema.org/draft-07/schema", "draft-07"],
  ["https://json-schema.org/draft-07/schema", "draft-07"]
])

const dialectOf = (uri: Schema.Json | undefined): Dialect | undefined => {
  if (uri === undefined) return "2020-12"
  return typeof uri === "string" ? dialects.get(uri.replace(/#$/, "")) : undefined
}

/** Compiles a document, or refuses what in it cannot be enforced. The depth guard before it bounds the recursion. */
const compile = (
  json: JsonObject,
  tank: fuel.Fuel,
  engine: Engine,
  cost?: Cost
): Result.Result<JsonSchema, Refusal> => {
  const uri = own(json, "$schema")
  const dialect = dialectOf(uri)
  if (dialect === undefined) {
    return Result.fail({
      reason: "UnsupportedDialect",
      path: "/$schema",
      expected: Array.from(dialects.keys()).join(" or "),
      found: typeof uri === "string" ? base.quote(uri) : kindOf(uri)
    })
  }
  const before = tank.spent
  const compiler = new Compiler(dialect, tank, engine)
  const root = compiler.node(json, undefined)
  if (compiler.refusal === undefined) compiler.resolveReferences(json)
  if (compiler.refusal === undefined) compiler.findChains()
  if (fuel.isEmpty(tank)) return Result.fail(refuseWork(tank, compiler.refusal?.path ?? ""))
  if (compiler.refusal !== undefined) return Result.fail(compiler.refusal)
  const newCost = { units: tank.spent - before, isWellFormed: false }
  const schema = new CompiledSchema(json, dialect, root, cost ?? newCost, compiler.unchecked)
  tank.paid.add(costOf(schema))
  return Result.succeed(schema)
}

/** The refusal of a document for which there is not enough fuel. */
const refuseWork = (tank: fuel.Fuel, path: string): Refusal => {
  const [problem] = problemsOf(fuel.reasonOf(tank))
  return {
    path: "",
    expected: "less work",
    found: "more",
    ...problem,
    reason: "TooLarge",
    ...(path === "" ? {} : { path })
  }
}

type Engine = Patterns.PatternEngine | undefined

class Compiler {
  readonly dialect: Dialect
  readonly fuel: fuel.Fuel
  readonly engine: Engine
  /** Nothing is compiled after the first one. */
  refusal: Refusal | undefined
  readonly nodes = new Map<JsonObject, Node>()
  /** The arrays and objects of keywords that hold boolean schemas. */
  readonly holders = new Set<Schema.Json | undefined>()
  readonly references: Array<readonly [node: Node, ref: string]> = []
  readonly patterns = new Map<string, Result.Result<Patterns.CompiledPattern, string>>()
  readonly unchecked: Array<UncheckedPattern> = []

  constructor(dialect: Dialect, tank: fuel.Fuel, engine: Engine) {
    this.dialect = dialect
    this.fuel = tank
    this.engine = engine
  }

  refuse(reason: RefusalReason, place: Location | undefined, expected: string, found: string, fix?: string): undefined {
    this.refusal ??= { reason, path: toPointer(place), expected, found, ...defined({ fix }) }
    return undefined
  }

  node(schema: Schema.Json, place: Location | undefined): Node {
    const keywords = isObject(schema) ? Object.keys(schema) : []
    if (!this.spend(nodeUnits * (1 + keywords.length), place)) return anyValue
    if (!isObject(schema)) {
      if (typeof schema === "boolean") return booleanNode(schema)
      this.refuse("NotASchema", place, "a schema (an object or a boolean)", kindOf(schema))
      return anyValue
    }
    const node = new Node(place, undefined, own(schema, "default"))
    this.nodes.set(schema, node)
    for (const name of keywords) {
      const value = schema[name] ?? null
      node.size += 1 + (isArray(value) ? value.length : 0)
      this.keyword(name, value, schema, node)
    }
    return node
  }

  /** False when nothing more is to be compiled. */
  spend(units: number, place: Location | undefined): boolean {
    if (this.refusal === undefined && !fuel.spend(this.fuel, units)) {
      this.refusal = refuseWork(this.fuel, toPointer(place))
    }
    return this.refusal === undefined
  }

  keyword(name: string, value: Schema.Json, schema: JsonObject, node: Node): void {
    if (annotationKeywords.has(name) || name.startsWith("x-")) return
    const keyword = new Keyword(name, schema, node, this)
    if (name === "$schema") {
      if (dialectOf(value) !== this.dialect) keyword.invalid("the dialect of the document", value)
    } else if (name === "$defs" || name === "definitions") readNamed(value, keyword, () => undefined)
    else if (name === "$ref") this.reference(value, keyword)
    else if (this.dialect === "draft-07" && Object.hasOwn(schema, "$ref")) {
      keyword.invalid("nothing beside $ref, where draft-07 would ignore it", value)
    } else if (name === "type") node.kinds = this.kinds(value, keyword)
    else this.assertion(value, keyword)
  }

  assertion(value: Schema.Json, keyword: Keyword): void {
    const { name } = keyword
    const reader = foreignKeywords[this.dialect].includes(name) ? undefined : readers.get(name)
    if (reader === undefined) {
      const close = isNote(name) ? misspelled(name, this.fuel) : undefined
      const meant = close !== undefined && this.couldBe(close, value) ? close : undefined
      const isNullable = name === "nullable" && value !== false
      if (isNote(name) && meant === undefined && !isNullable) return
      const suggestion = meant === undefined ? "" : `.${closeNames.didYouMean(meant)}`
      const fix = `Remove it, or rename it to "x-..." if it is a note${suggestion}`
      keyword.refuse("UnsupportedKeyword", "a keyword that can be enforced", base.quote(name), fix)
      return
    }
    const check = reader(value, keyword)
    if (check !== undefined) addCheck(keyword.node, check)
  }

  /** True for a value of the form that a keyword has. */
  couldBe(keyword: string, value: Schema.Json): boolean {
    if (keyword === "$ref") return typeof value === "string" && value.startsWith("#")
    const trial = new Compiler(this.dialect, this.fuel, this.engine)
    trial.node({ [keyword]: value }, undefined)
    const { path, reason } = trial.refusal ?? {}
    return reason !== "InvalidKeyword" && reason !== "NotASchema" && path !== "/type"
  }

  kinds(value: Schema.Json, keyword: Keyword): number {
    const only = typeof value === "string" ? own<number>(typeBits, value) : undefined
    if (only !== undefined) return only
    const list = isArray(value) ? value : [value]
    if (list.length === 0) keyword.invalid("a type", value)
    // Core reads a type that is there twice two times, and all below it with it
    if (new Set(list).size < list.length) keyword.invalid("each type once", value)
    return list.reduce<number>((bits, name) => {
      const known = typeNames.find((type) => type === name)
      if (known !== undefined) return bits | typeBits[known]
      const found = typeof name === "string" ? base.quote(name) : kindOf(name)
      keyword.refuse("UnsupportedType", `one of ${typeNames.join(", ")}`, found)
      return bits
    }, 0)
  }

  pattern(source: string, place: Location): Patterns.CompiledPattern | undefined {
    const known = this.patterns.get(source)
    if (known === undefined && this.refusal !== undefined) return undefined
    const compiled = known ?? Patterns.compilePattern(source, this.fuel, this.engine)
    this.patterns.set(source, compiled)
    if (Result.isSuccess(compiled)) return compiled.success
    if (!this.spend(0, place)) return undefined
    this.unchecked.push({ path: toPointer(place), pattern: source, problem: base.truncateText(compiled.failure, 300) })
    return undefined
  }

  reference(ref: Schema.Json, keyword: Keyword): void {
    if (typeof ref !== "string") return keyword.invalid("a string", ref)
    const { node } = keyword
    if (!keyword.spend(fuel.ofText(ref.length))) return
    this.references.push([node, ref])
    addCheck(node, (value, at, run) => node.reference === undefined || evaluate(node.reference, value, at, run))
  }

  /** Finds the schemas of references; only places of this document, written as JSON Pointers, have any. */
  resolveReferences(root: JsonObject): void {
    for (const [node, ref] of this.references) {
      const pointer = ref.startsWith("#") ? Result.try(() => decodeURIComponent(ref.slice(1))) : undefined
      const found =
        pointer !== undefined && Result.isSuccess(pointer) ? this.schemaAt(root, pointer.success) : undefined
      if (found !== undefined) {
        node.reference = found
        continue
      }
      const expected = `"#" or the JSON Pointer of a schema of this document after "#"`
      const fix = "Copy the schema into $defs; nothing is ever fetched"
      this.refuse("UnresolvedReference", { parent: node.place, key: "$ref" }, expected, base.quote(ref), fix)
    }
  }

  /** The schema at a JSON Pointer, which is written in one way only. Not every object or boolean is a schema. */
  schemaAt(root: JsonObject, pointer: string): Node | undefined {
    let holder: Schema.Json | undefined
    let here: Schema.Json | undefined = root
    let key = ""
    for (let at = 0; at < pointer.length && here !== undefined;) {
      const next = pointer.indexOf("/", at + 1)
      const token = pointer.slice(at, next < 0 ? pointer.length : next)
      key = parsePointer(token)[0] ?? ""
      if (appendToken("", key) !== token || !this.spend(tokenUnits, undefined)) return undefined
      holder = here
      here = getAt(holder, token)
      at += token.length
    }
    if (typeof here !== "boolean") return isObject(here) ? this.nodes.get(here) : undefined
    const isHeld = isObject(holder) && this.nodes.has(holder) ? schemaKeywords.has(key) : this.holders.has(holder)
    return isHeld ? booleanNode(here) : undefined
  }

  /** Refuses a way from a schema back to itself that consumes nothing, and chains that are too long. */
  findChains(): void {
    const lengths = new Map<Node, number>()
    const open = new Set<Node>()
    /** The length of the longest chain from here; its recursion ends where a chain is too long. */
    const lengthOf = (node: Node): number => {
      const parts = sameValueNodes(node)
      if (parts.length === 0 && open.size < maxChain) return 1
      const known = lengths.get(node)
      if (known !== undefined || this.refusal !== undefined) return known ?? 0
      if (open.has(node)) return this.refuseCycle([...open].slice([...open].indexOf(node)))
      open.add(node)
      const longest = open.size > maxChain ? maxChain : parts.reduce((most, part) => Math.max(most, lengthOf(part)), 0)
      open.delete(node)
      if (longest >= maxChain) {
        this.refuse("TooDeep", node.place, `at most ${maxChain} schemas about one value`, "more")
      }
      lengths.set(node, longest + 1)
      return longest + 1
    }
    for (const node of this.nodes.values()) lengthOf(node)
  }

  /** A tree has no cycles, so one step of a cycle is a reference. */
  refuseCycle(cycle: ReadonlyArray<Node>): number {
    const at = cycle.find((node, index) => node.reference === (cycle[index + 1] ?? cycle[0]))
    const ref = this.references.find(([node]) => node === at)?.[1] ?? ""
    const expected = "a reference that consumes a part of the value before it comes back to itself"
    this.refuse("ReferenceCycle", { parent: at?.place, key: "$ref" }, expected, base.quote(ref))
    return 0
  }
}

const addCheck = (node: Node, check: Check): void => {
  node.checks = node.checks.length === 0 ? [check] : [...node.checks, check]
}

/** The keywords that are one schema each: a boolean there is one, too. */
const schemaKeywords: ReadonlySet<string> = new Set(
  "not if then else contains propertyNames items additionalItems additionalProperties".split(" ")
)

// --- Documents -----------------------------------------------------------------------------------------------------

/**
 * Guards and compiles a JSON Schema document.
 *
 * **When to use**
 *
 * For every JSON Schema that comes from outside, and for the ones exported from
 * Effect Schemas, so that both are enforced by the same interpreter.
 *
 * **Details**
 *
 * Before anything else the document is held against the current
 * {@link Limits.Limits} and the key rules of payloads. Then each keyword of
 * draft 2020-12 (or draft-07, by `$schema`) is compiled. These are refused, with
 * the JSON Pointer of the place:
 *
 * - keywords that would not be enforced: misspelt ones, and `$id`, `$anchor`,
 *   `$dynamicRef`, `unevaluatedItems` and `unevaluatedProperties`; notes of your own
 *   are welcome under `x-` names;
 * - unknown values of `type`;
 * - a `pattern` that cannot run in linear time (look-around, back references), or only under `Re2.layer`, unless
 *   `maxUncheckedPatterns` of the limits allows to leave it unchecked;
 * - a `$ref` that leaves the document, points to nothing, or leads back to
 *   itself without consuming a part of the value;
 * - assertions beside `$ref` in draft-07, where they would be ignored.
 *
 * A document that was compiled lately is not compiled again.
 *
 * **Gotchas**
 *
 * Make a new object instead of changing a compiled document. Formats are assertions here: `date-time`, `date`, `time`,
 * `duration`, `email`, `hostname`, `ipv4`, `ipv6`, `uri`, `uri-reference`, `uuid`, `json-pointer` and `regex`. All
 * others are annotations.
 *
 * **Example** (Checking arguments against a JSON Schema from a database)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Result } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 * import { PayloadError } from "effect-emissary"
 *
 * const program = Effect.gen(function*() {
 *   const schema = yield* JsonSchema.make({
 *     type: "object",
 *     properties: { city: { type: "string" }, days: { type: "integer", default: 3 } },
 *     required: ["city"],
 *     additionalProperties: false
 *   })
 *   const good = JsonSchema.validate(schema, { city: "Rome", evil: true })
 *   assert.deepStrictEqual(good, Result.succeed({ city: "Rome", days: 3 }))
 *
 *   const bad = JsonSchema.validate(schema, { days: "two" })
 *   if (Result.isFailure(bad)) {
 *     assert.strictEqual(
 *       PayloadError.render("arguments", bad.failure),
 *       "arguments at /city: expected a required value, got nothing; at /days: expected integer, got string"
 *     )
 *   }
 * })
 * Effect.runSync(program)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (json: unknown, options: jsonLimits.Options = {}): Effect.Effect<JsonSchema, JsonSchemaError> =>
  Effect.flatMap(doorOf(options.limits), (door) => {
    const made = makeBehind(door, json)
    if (Result.isSuccess(made)) return Effect.succeed(made.success)
    return Effect.fail(new JsonSchemaError({ what: options.what ?? "JSON Schema", ...made.failure }))
  })

/** Limits, fuel and the second engine of patterns for the documents of one door. */
export interface Door {
  readonly limits: jsonLimits.Limits
  readonly tank: fuel.Fuel
  readonly engine: Engine
  /** The documents were read or copied within the limits, and no other code has them yet. */
  readonly isOwn: boolean
  readonly isCheckedAgain: boolean
}

/** The door around, or one with limits of its own. */
export const doorOf = (override?: Partial<jsonLimits.Limits>): Effect.Effect<Door> =>
  Effect.withFiber((fiber) => {
    const around = fiber.getRef(jsonLimits.Limits)
    const limits = override === undefined ? around : jsonLimits.overrideLimits(around, override)
    const current = override?.maxFuel === undefined ? fiber.getRef(fuel.Current) : undefined
    const isOwn = fiber.getRef(jsonLimits.IsOwnData) && override === undefined && limits.maxDepth <= maxDocumentDepth
    const engine = fiber.getRef(Patterns.PatternEngine)
    const isCheckedAgain = fiber.getRef(jsonLimits.IsCheckedAgain)
    return Effect.succeed({ limits, tank: current ?? fuel.make(limits.maxFuel), engine, isOwn, isCheckedAgain })
  })

/** {@link make} as a part of a door. */
export const makeBehind = (door: Door, json: unknown): Result.Result<JsonSchema, Refusal> => {
  const { engine, isOwn, limits, tank } = door
  const before = isKnownKey(json) ? knownObjects.get(json) : undefined
  if (before?.limits === limits && before.engine === engine) {
    if (!pay(costOf(before.document), tank)) return Result.fail(refuseWork(tank, ""))
    const known = Result.succeed(before.document)
    return before.document.unchecked.length === 0 ? known : checkedDocument(known, door)
  }
  if (fuel.isEmpty(tank)) return Result.fail(refuseWork(tank, ""))
  const found =
    isOwn && isObject(json)
      ? compileOnce(json, door, true)
      : Result.flatMap(copyDocument(json, limits), (document) => compileOnce(document, door))
  const checked = checkedDocument(found, door)
  if (Result.isSuccess(checked) && isKnownKey(json))
    knownObjects.set(json, { limits, engine, document: checked.success })
  return checked
}

/** Refuses a document with more patterns that no engine runs than may be left unchecked. */
export const checkedDocument = (
  made: Result.Result<JsonSchema, Refusal>,
  { isCheckedAgain, limits }: Pick<Door, "isCheckedAgain" | "limits">
): Result.Result<JsonSchema, Refusal> => {
  const unchecked = Result.isSuccess(made) ? made.success.unchecked : []
  const [first] = unchecked
  if (first === undefined || isCheckedAgain || unchecked.length <= limits.maxUncheckedPatterns) return made
  return Result.fail({
    reason: "UnsupportedPattern",
    path: first.path,
    expected: "a regular expression that runs in linear time",
    found: `an expression that cannot run: ${first.problem}`,
    fix: "Rewrite it without look-around and back references"
  })
}

/** Anything else was refused before; asking whether a Proxy is an array could fail. */
const isKnownKey = (json: unknown): json is object => typeof json === "object" && json !== null

/** Documents by the object they came as, with the limits and the engine they were checked against. */
const knownObjects = new WeakMap<object, Pick<Door, "limits" | "engine"> & { readonly document: JsonSchema }>()

/** True for an object that was compiled, and none of whose texts has a lone surrogate, as far as that is known. */
export const isWellFormed = (json: JsonObject): boolean => {
  const known = knownObjects.get(json)
  return known !== undefined && costOf(known.document).isWellFormed
}

interface Known {
  readonly engine: Engine
  readonly cost: Cost
  /** None as long as the document came once, in an object that its owner may change. */
  document: JsonSchema | undefined
}

/** Documents by their text: an agent that is decoded again has the same tools in new objects. */
const knownTexts = new Map<string, Known>()

/** The units of all documents in the cache together; they bound its memory, too. */
const maxKnownUnits = 1_000_000

let knownUnits = 0

/** The greatest length of a text in the cache. */
const maxTextLength = 16 * 1024

/** The cache changes no verdict: a known document takes as much fuel as compiling it. */
const pay = (cost: Cost, tank: fuel.Fuel): boolean => {
  if (tank.paid.has(cost)) return true
  if (!fuel.spend(tank, cost.units)) return false
  tank.paid.add(cost)
  return true
}

const remember = (text: string, known: Known): void => {
  knownUnits += known.cost.units
  if (knownUnits > maxKnownUnits) {
    knownTexts.clear()
    knownUnits = known.cost.units
  }
  knownTexts.set(text, known)
}

/**
 * Compiles a document unless it was compiled lately. A `shared` document is not cached, because others may change it.
 */
export const compileOnce = (
  json: JsonObject,
  { engine, tank }: Pick<Door, "engine" | "tank">,
  shared: boolean = false
): Result.Result<JsonSchema, Refusal> => {
  const text = JSON.stringify(json)
  if (text.length > maxTextLength) return compile(json, tank, engine)
  const known = knownTexts.get(text)
  if (known?.engine !== engine || known === undefined) {
    const compiled = compile(json, tank, engine)
    // Another engine may run what this one does not
    if (Result.isFailure(compiled) || compiled.success.unchecked.length > 0) return compiled
    // JSON text holds a lone surrogate as an escape
    costOf(compiled.success).isWellFormed = !text.includes("\\ud")
    remember(text, { engine, cost: costOf(compiled.success), document: shared ? undefined : compiled.success })
    return compiled
  }
  if (!pay(known.cost, tank)) return Result.fail(refuseWork(tank, ""))
  if (known.document !== undefined) return Result.succeed(known.document)
  const compiled = compile(shared ? JSON.parse(text) : json, fuel.make(Number.POSITIVE_INFINITY), engine, known.cost)
  if (Result.isSuccess(compiled)) known.document = compiled.success
  return compiled
}

/**
 * A JSON Schema was refused: which document (`what`), why (`reason`, a name to
 * branch on), and the problem, at `path` in the document.
 *
 * **Details**
 *
 * - `NotASchema`: the document, or a part of it, is not plain JSON or not an
 *   object (subschemas may also be booleans).
 * - `TooLarge`, `TooDeep`: a limit was passed.
 * - `ForbiddenKey`: a key that can poison prototypes.
 * - `UnsupportedDialect`: `$schema` names neither draft 2020-12 nor draft-07.
 * - `UnsupportedKeyword`: a keyword that would change which values are accepted and is not enforced, or a misspelled
 *   enforced keyword, with a value of its form. Any other unknown keyword is an annotation and stays.
 * - `UnsupportedType`, `UnsupportedPattern`: a `type` or a regular expression
 *   that cannot be enforced.
 * - `InvalidKeyword`: a keyword with a value it cannot have.
 * - `UnresolvedReference`, `ReferenceCycle`: a `$ref` that leaves the document,
 *   points to nothing, or comes back to itself without consuming anything.
 * - `NotRepresentable`: an Effect Schema that has no JSON Schema.
 * - `NotStrict`: a JSON Schema that has no strict form.
 *
 * **Example** (The place and the reason of a refusal)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 *
 * const error = Effect.runSync(Effect.flip(JsonSchema.make({ properties: { a: { type: "float" } } })))
 * assert.strictEqual(error.path, "/properties/a/type")
 * assert.strictEqual(error.reason, "UnsupportedType")
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class JsonSchemaError extends Schema.TaggedError<JsonSchemaError>("effect-emissary/payload/JsonSchemaError")(
  "JsonSchemaError",
  {
    what: Schema.String,
    reason: Schema.Literals(refusalReasons),
    ...PayloadError.Problem.fields
  }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return PayloadError.render(this.what, [this])
  }
}
