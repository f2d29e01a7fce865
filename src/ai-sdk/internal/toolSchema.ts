/**
 * JSON Schemas of tools as a provider takes them, and arguments in their form.
 *
 * A provider refuses a whole request for one schema that it does not take. So a schema is rewritten here without a change of
 * what it accepts, arguments of the model are turned back before anything else reads them, and calls of earlier turns are
 * sent in the rewritten form. Contracts, digests and approvals have the original.
 */

import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { hashText } from "../../payload/internal/base.ts"
import * as compileSchema from "../../payload/internal/compileSchema.ts"
import { withoutItemList } from "../../payload/internal/convertSchema.ts"
import * as fuel from "../../payload/internal/fuel.ts"
import { acceptsWith } from "../../payload/internal/interpret.ts"
import { defaultLimits } from "../../payload/internal/limits.ts"
import { appendToken, getAt, isArray, isObject, type JsonObject, parsePointer } from "../../payload/internal/values.ts"

// --- Rules ---------------------------------------------------------------------------------------------------------
//
// The dates are those on which a rule was looked up: in excerpts of the page that is named, and in errors of the provider that
// users quote. The whole pages were not read, so compare a rule with its page before you change it.

/** The rules of a provider for the schemas of tools. The root is the schema of an object for all of them. */
export interface Rules {
  /** Keywords that are refused at the root. */
  readonly notAtRoot: ReadonlyArray<string>
  /**
   * The characters that the name of a property cannot begin with, and the characters that it cannot have. A name has at
   * most 64 characters.
   */
  readonly names: { readonly first: RegExp; readonly other: RegExp } | undefined
  /** Tests which tools may be offered with `strict: true`, of those whose schema is in the strict form. */
  readonly strict: (schemas: ReadonlyArray<JsonObject>) => (schema: JsonObject) => boolean
}

const words = (text: string): ReadonlySet<unknown> => new Set(text.split(" "))

// Schemas of strict tools of OpenAI: https://platform.openai.com/docs/guides/structured-outputs ("Supported schemas"),
// 2026-11-26. A keyword or format that is not supported, more than 10 levels, and a reference with other keywords beside it
// or to anything but a definition of the root make a request fail.
const openAiKeywords = words(
  "$defs type title description enum const anyOf properties required additionalProperties items format pattern " +
    "multipleOf minimum exclusiveMinimum maximum exclusiveMaximum minItems maxItems"
)
const openAiFormats = words("date-time time date duration email hostname ipv4 ipv6 uuid")
const maxOpenAiDepth = 10

const isOpenAi = (schema: JsonObject, depth: number): boolean => {
  if (depth > maxOpenAiDepth) return false
  const { $ref, anyOf, format, pattern = "", type } = schema
  if ($ref !== undefined) return Object.keys(schema).length === 1
  return (
    (anyOf === undefined ? type !== undefined : depth > 0 && type === undefined) &&
    (format === undefined || openAiFormats.has(format)) &&
    !String(pattern).includes("(?") &&
    Object.keys(schema).every((key) => openAiKeywords.has(key)) &&
    partsOf(schema).every((child) => isOpenAi(child, depth + 1))
  )
}

// https://platform.openai.com/docs/guides/function-calling and the refusal "schema must have type 'object' and not have
// 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level" (github.com/langchain-ai/langchainjs/issues/9804), "reference can only
// point to definitions defined at the top level of the schema" (github.com/dotnet/extensions/issues/6918), "array schema missing
// items", "object schema missing properties", 2026-11-26. Names of properties have no rule. Chat and Responses are alike.
const openAi: Rules = {
  notAtRoot: ["oneOf", "anyOf", "allOf", "enum", "not"],
  names: undefined,
  strict: () => (schema) => isOpenAi(schema, 0)
}

// Strict tools of Anthropic: https://platform.claude.com/docs/en/build-with-claude/structured-outputs ("JSON Schema
// limitations", "Schema complexity limits"), 2026-11-26. A strict tool with another keyword is refused, and a request
// with more strict tools, or more parameters with a union type.
const anthropicKeywords = words(
  "$ref $defs type title description enum const anyOf allOf properties required additionalProperties items"
)
const anthropicTools = 20
const anthropicUnions = 16

/** The number of unions in a schema. Infinite where a keyword is unknown to Anthropic. */
const countUnions = (schema: JsonObject): number => {
  if (!Object.keys(schema).every((key) => anthropicKeywords.has(key))) return Number.POSITIVE_INFINITY
  const own = "anyOf" in schema || isArray(schema["type"]) ? 1 : 0
  return partsOf(schema).reduce((count, child) => count + countUnions(child), own)
}

// https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools and the refusals "input_schema does not support
// oneOf, allOf, or anyOf at the top level" (github.com/anthropics/claude-code/issues/5319), "Property keys should match pattern
// '^[a-zA-Z0-9_.-]{1,64}$'" (issues/79418) and "JSON schema is invalid. It must match JSON Schema draft 2020-12" (issues/86665),
// 2026-11-26.
const anthropic: Rules = {
  notAtRoot: ["oneOf", "allOf", "anyOf"],
  names: { first: /[^a-zA-Z0-9_.-]/u, other: /[^a-zA-Z0-9_.-]/gu },
  strict: (schemas) => {
    const isAllowed =
      schemas.length <= anthropicTools &&
      schemas.reduce((count, schema) => count + countUnions(schema), 0) <= anthropicUnions
    return () => isAllowed
  }
}

// https://cloud.google.com/vertex-ai/docs/reference/rest/v1beta1/FunctionDeclaration, 2026-11-26: names of parameters "must start
// with a letter or an underscore and must only contain chars a-z, A-Z, 0-9, or underscores with a maximum length of 64", and the
// schema "must describe an object where the properties are the parameters". There are no strict tools.
const google: Rules = {
  notAtRoot: openAi.notAtRoot,
  names: { first: /[^a-zA-Z_]/u, other: /[^a-zA-Z0-9_]/gu },
  strict: () => () => false
}

/** Behind a gateway may be a model of any provider. */
const compatible: Rules = { ...openAi, names: anthropic.names }

export const rules = { openAi, anthropic, google, compatible }

// --- Rewriting -----------------------------------------------------------------------------------------------------

/** The schema of a tool for a provider. */
export interface Rewritten {
  readonly schema: JsonObject
  /** Arguments in the form of the rewritten schema, and back; none if the form is the same. */
  readonly form: { readonly toModel: Convert; readonly fromModel: Convert } | undefined
}

type Convert = (args: Schema.Json) => Schema.Json

/** Why no form of a schema fits a provider. */
export interface Impossible {
  readonly path: string
  readonly problem: string
}

const single = words("not if then else contains propertyNames items additionalItems additionalProperties")
const listed = words("allOf anyOf oneOf prefixItems items")
const named = words("properties patternProperties dependentSchemas dependencies $defs definitions")

const mapEntries = (json: JsonObject, f: (key: string, value: Schema.Json) => readonly [string, Schema.Json]) =>
  Object.fromEntries(Object.entries(json).map(([key, value]) => f(key, value)))

/** A schema with `f` of each schema directly in it. */
const mapParts = (
  schema: JsonObject,
  place: string,
  f: (part: JsonObject, place: string) => JsonObject
): Record<string, Schema.Json> => {
  const part = (json: Schema.Json, at: string) => (isObject(json) ? f(json, at) : json)
  return mapEntries(schema, (key, value) => {
    const at = appendToken(place, key)
    if (isArray(value)) return [key, listed.has(key) ? value.map((one, n) => part(one, appendToken(at, n))) : value]
    if (!isObject(value)) return [key, value]
    if (named.has(key)) return [key, mapEntries(value, (name, one) => [name, part(one, appendToken(at, name))])]
    return [key, single.has(key) ? f(value, at) : value]
  })
}

const partsOf = (schema: JsonObject): ReadonlyArray<JsonObject> => {
  const parts: Array<JsonObject> = []
  mapParts(schema, "", (part) => {
    parts.push(part)
    return part
  })
  return parts
}

const forEachPart = (schema: JsonObject, place: string, f: (part: JsonObject, place: string) => void): void => {
  f(schema, place)
  mapParts(schema, place, (part, at) => {
    forEachPart(part, at, f)
    return part
  })
}

/** The place that a reference names, written in one way. */
const placeOf = (ref: Schema.Json | undefined): string | undefined => {
  if (typeof ref !== "string" || !ref.startsWith("#")) return undefined
  const pointer = Result.getOrUndefined(Result.try(() => decodeURIComponent(ref.slice(1))))
  return pointer === undefined ? undefined : parsePointer(pointer).reduce(appendToken, "")
}

/** Names for the schemas that references lead to, by their places. */
const nameTargets = (root: JsonObject): ReadonlyMap<string, string> => {
  const names = new Map<string, string>()
  const taken = new Set<string>()
  forEachPart(root, "", ({ $ref }) => {
    const place = placeOf($ref)
    if (place === undefined || names.has(place)) return
    const last = parsePointer(place).at(-1) ?? "root"
    const base = last.replaceAll(/[^A-Za-z0-9_.-]/gu, "_").slice(0, 48) || "schema"
    let name = base
    for (let n = names.size; taken.has(name); n++) name = `${base}_${n}`
    taken.add(name)
    names.set(place, name)
  })
  return names
}

const typesOf = ({ type }: JsonObject): ReadonlyArray<Schema.Json> => (isArray(type) ? type : [type ?? "object"])

/**
 * Writes keywords of draft-07 as keywords of draft 2020-12, and adds to a list without `items` an `items` that allows
 * the same.
 */
const modernize = (schema: Record<string, Schema.Json>): JsonObject => {
  const { dependencies, ...rest } = schema
  const out = withoutItemList(rest)
  if (isObject(dependencies)) {
    const entries = Object.entries(dependencies)
    for (const keyword of ["dependentRequired", "dependentSchemas"]) {
      const some = entries.filter(([, one]) => isArray(one) === (keyword === "dependentRequired"))
      const before = out[keyword]
      if (some.length > 0) out[keyword] = { ...(isObject(before) ? before : undefined), ...Object.fromEntries(some) }
    }
  }
  const isList = out["type"] === "array" || (isArray(out["type"]) && out["type"].includes("array"))
  if (isList && out["items"] === undefined) out["items"] = {}
  return out
}

/** Moves what references lead to into `$defs` of the root. */
const normalize = (root: JsonObject, isWrapped: boolean): { readonly main: JsonObject; readonly $defs: JsonObject } => {
  const names = nameTargets(root)
  const refTo = (place: string | undefined): string | undefined => {
    const name = place === undefined ? undefined : names.get(place)
    if (name === undefined) return undefined
    return place === "" && !isWrapped ? "#" : `#/$defs/${name}`
  }
  const convert = (part: JsonObject, place: string): JsonObject => {
    const $ref = refTo(place)
    return $ref === undefined ? body(part, place) : { $ref }
  }
  const body = ({ $defs: _, $schema: __, definitions: ___, ...part }: JsonObject, place: string): JsonObject => {
    const out = modernize(mapParts(part, place, convert))
    const $ref = refTo(placeOf(part["$ref"]))
    return $ref === undefined ? out : { ...out, $ref }
  }
  const moved = Array.from(names, ([place, name]): readonly [string, Schema.Json] => {
    const target = getAt(root, place)
    return [name, isObject(target) ? body(target, place) : target === false ? { not: {} } : {}]
  })
  const $defs = Object.fromEntries(moved.filter(([name]) => isWrapped || name !== names.get("")))
  return { main: isWrapped ? convert(root, "") : body(root, ""), $defs }
}

// Names

const maxNameLength = 64

/** A name that the provider takes: other characters by code point, too long a name cut and closed with a digest. */
const fitName = (name: string, { first, other }: NonNullable<Rules["names"]>): string => {
  const escaped = name.replaceAll(other, (character) => `_x${(character.codePointAt(0) ?? 0).toString(16)}_`)
  const fit = escaped === "" || first.test(escaped.slice(0, 1)) ? `_${escaped}` : escaped
  return fit.length <= 60 ? fit : `${fit.slice(0, 43)}_${hashText(name).slice(-16)}`
}

/** Names in place of a name that does not fit, the most readable first. */
const candidates = (base: string, count: number): ReadonlyArray<string> => [
  ...["", "p_", "_"].flatMap((start) => ["", "_1", "_2"].map((end) => `${start}${base}${end}`)),
  ...["P", "_", "z"].map((start) => `${start}${count}`)
]

const isFit = (name: string, { first, other }: NonNullable<Rules["names"]>): boolean =>
  name.length > 0 && name.length <= maxNameLength && !first.test(name.slice(0, 1)) && name.search(other) < 0

/** The keys and texts of a value: a new name that is none of them is free. */
const wordsIn = (json: Schema.Json): ReadonlyArray<string> => {
  if (isArray(json)) return json.flatMap(wordsIn)
  if (isObject(json)) return [...Object.keys(json), ...Object.values(json).flatMap(wordsIn)]
  return typeof json === "string" ? [json] : []
}

const keysOf = (json: Schema.Json | undefined): ReadonlyArray<string> =>
  json !== undefined && isObject(json) ? Object.keys(json) : []

/** Renames the keys of a value at all levels. */
const mapKeys = (json: Schema.Json, rename: (key: string, object: JsonObject) => string): Schema.Json => {
  if (isArray(json)) return json.map((item) => mapKeys(item, rename))
  if (!isObject(json)) return json
  return mapEntries(json, (key, value) => [rename(key, json), mapKeys(value, rename)])
}

class Names {
  /** The names that a provider refuses with the new ones, and the other way. */
  readonly given = new Map<string, string>()
  readonly original = new Map<string, string>()
  /** For all schemas of names together. */
  readonly tank = fuel.make(defaultLimits.maxFuel)
  private readonly acceptors = new Map<Schema.Json, (name: string) => boolean>()

  readonly toModel = (key: string): string => this.given.get(key) ?? this.original.get(key) ?? key

  /** A model that uses an original name anyway means it, unless the new one is there, too. */
  readonly fromModel = (key: string, object: JsonObject): string => {
    const original = this.original.get(key)
    if (original !== undefined) return original
    const given = this.given.get(key)
    return given !== undefined && Object.hasOwn(object, given) ? given : key
  }

  add(name: string, given: string): void {
    this.given.set(name, given)
    this.original.set(given, name)
  }

  /**
   * Tests which names a pattern matches, or a schema with its definitions accepts. A pattern or schema that does not
   * compile accepts all names.
   */
  acceptor(pattern: Schema.Json, $defs: JsonObject): (name: string) => boolean {
    const { tank } = this
    const known = this.acceptors.get(pattern)
    if (known !== undefined) return known
    const schema = isObject(pattern) ? { ...pattern, $defs } : { pattern }
    const made = compileSchema.compileOnce(schema, { engine: undefined, tank }, true)
    const acceptor = (name: string) =>
      fuel.isEmpty(tank) || Result.isFailure(made) || acceptsWith(tank, made.success, name)
    this.acceptors.set(pattern, acceptor)
    return acceptor
  }
}

/** Finds names for all properties whose names a provider refuses. One name has the same new one everywhere in a schema. */
const findNames = (document: JsonObject, rule: NonNullable<Rules["names"]>): Result.Result<Names, Impossible> => {
  const names = new Names()
  const taken = new Set(wordsIn(document))
  const odd = new Map<string, string>()
  const patterns = new Set<string>()
  forEachPart(document, "", (part, place) => {
    for (const name of keysOf(part["properties"])) {
      if (!isFit(name, rule)) odd.set(name, appendToken(appendToken(place, "properties"), name))
    }
    for (const pattern of keysOf(part["patternProperties"])) patterns.add(pattern)
  })
  const matchers = odd.size === 0 ? [] : Array.from(patterns, (pattern) => names.acceptor(pattern, {}))
  for (const [name, path] of odd) {
    // A pattern can be widened to take another name, but not narrowed
    const given = candidates(fitName(name, rule), names.given.size).find(
      (one) => !taken.has(one) && matchers.every((matches) => matches(name) || !matches(one))
    )
    if (fuel.isEmpty(names.tank))
      return Result.fail({ path, problem: "takes more work than the limit of fuel to be renamed" })
    if (given === undefined)
      return Result.fail({ path, problem: "has a name that the provider refuses, and no other name is free" })
    taken.add(given)
    names.add(name, given)
  }
  return Result.succeed(names)
}

const renameAll = (document: JsonObject, names: Names, $defs: JsonObject): JsonObject => {
  const given = Array.from(names.given)
  const renamed = (json: Schema.Json): Schema.Json => mapKeys(json, names.toModel)
  const toName = (name: Schema.Json) => (typeof name === "string" ? names.toModel(name) : name)
  const toNames = (list: Schema.Json) => (isArray(list) ? list.map(toName) : list)
  const withKeys = (json: Schema.Json, f: (value: Schema.Json) => Schema.Json = (value) => value) =>
    isObject(json) ? mapEntries(json, (key, value) => [names.toModel(key), f(value)]) : json
  const rename = (part: JsonObject, place: string): JsonObject =>
    mapEntries(mapParts(part, place, rename), (key, value) => {
      switch (key) {
        case "properties":
        case "dependentSchemas":
          return [key, withKeys(value)]
        case "required":
          return [key, toNames(value)]
        case "dependentRequired":
          return [key, withKeys(value, toNames)]
        case "const":
        case "enum":
        case "default":
        case "examples":
          return [key, renamed(value)]
        case "patternProperties":
          return [key, isObject(value) ? mapEntries(value, (pattern, one) => [widen(pattern), one]) : value]
        case "propertyNames":
          return [key, isObject(value) ? widenNames(part["propertyNames"] ?? null, value) : value]
        default:
          return [key, value]
      }
    })
  /** A pattern that also matches the new name of each name that it matches. */
  const widen = (pattern: string): string => {
    const matches = names.acceptor(pattern, {})
    const more = given.filter(([name, other]) => matches(name) && !matches(other))
    if (more.length === 0) return pattern
    return `(?:${pattern})|^(?:${more.map(([, other]) => other.replaceAll(".", "\\.")).join("|")})$`
  }
  /** The names that a schema takes, with the new ones of those. */
  const widenNames = (original: Schema.Json, schema: JsonObject): JsonObject => {
    if (!isObject(original)) return schema
    const takes = names.acceptor(original, $defs)
    const differing = given.filter(([name, other]) => takes(name) !== takes(other))
    if (differing.length === 0) return schema
    const good = differing.flatMap(([name, other]) => (takes(name) ? [other] : []))
    const bad = differing.flatMap(([name, other]) => (takes(name) ? [] : [other]))
    const rest = bad.length === 0 ? schema : { allOf: [schema, { not: { enum: bad } }] }
    return good.length === 0 ? rest : { anyOf: [{ enum: good }, rest] }
  }
  return rename(document, "")
}

/** The schema in the form that the provider takes, which accepts the same arguments in that form. */
export const rewrite = (root: JsonObject, { names: rule, notAtRoot }: Rules): Result.Result<Rewritten, Impossible> =>
  Result.gen(function* () {
    if (!typesOf(root).includes("object")) {
      return yield* Result.fail({ path: "/type", problem: "takes no object, and arguments are one" })
    }
    const isWrapped = [...notAtRoot, "$ref"].some((keyword) => Object.hasOwn(root, keyword))
    const { $defs, main } = normalize(root, isWrapped)
    const document = { ...main, $defs }
    const names = rule === undefined ? new Names() : yield* findNames(document, rule)
    const { $defs: definitions = {}, ...part } = names.given.size === 0 ? document : renameAll(document, names, $defs)
    if (fuel.isEmpty(names.tank))
      return yield* Result.fail({ path: "", problem: "takes more work than the limit of fuel to be renamed" })
    const defs = isObject(definitions) && Object.keys(definitions).length > 0 ? { $defs: definitions } : undefined
    const rename = names.given.size === 0 ? undefined : names
    if (!isWrapped) return { schema: { ...asObject(part), ...defs }, form: rename && formOf(rename, undefined) }
    const inside = new Set(wordsIn(document))
    let member = "arguments"
    while (inside.has(member)) member = `_${member}`
    const wrapper = { type: "object", properties: { [member]: part }, required: [member], additionalProperties: false }
    return { schema: { ...wrapper, ...defs }, form: formOf(rename, member) }
  })

/** The root with the type of an object, and with `properties`. */
const asObject = (root: JsonObject): JsonObject => {
  const { additionalProperties, properties } = root
  const schema = { ...root, type: "object" }
  if (properties !== undefined) return schema
  return { ...schema, properties: {}, ...(additionalProperties === false ? { required: [] } : undefined) }
}

const formOf = (names: Names | undefined, member: string | undefined): NonNullable<Rewritten["form"]> => {
  const unwrap = (args: Schema.Json): Schema.Json => {
    if (member === undefined || !isObject(args) || Object.keys(args).length !== 1) return args
    return Object.hasOwn(args, member) ? (args[member] ?? null) : args
  }
  return {
    toModel: (args) => {
      if (!isObject(args)) return args
      const renamed = names === undefined ? args : mapKeys(args, names.toModel)
      return member === undefined ? renamed : { [member]: renamed }
    },
    fromModel: (args) => {
      const inner = unwrap(args)
      return names === undefined ? inner : mapKeys(inner, names.fromModel)
    }
  }
}
