/**
 * `npm run schemas` writes the JSON Schema (draft 2020-12) of every version of the package's JSON to `schemas`. A test refuses files
 * that are out of date.
 */
import { Effect, Schema, SchemaAST } from "effect"
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as JsonSchema from "#src/payload/JsonSchema.ts"
import { descriptions } from "./schemas/descriptions.ts"
import { wires, type Wire } from "./schemas/wires.ts"
import { glob, root } from "./sources.ts"

type Json = Schema.Json
type JsonObject = { readonly [key: string]: Json }

const isObject = (json: Json | undefined): json is JsonObject =>
  typeof json === "object" && json !== null && !Array.isArray(json)

/** Nodes of Effect's AST rebuild themselves with other parts. The method is not in the declarations of Effect. */
interface Rebuilt {
  readonly recur: (f: (ast: SchemaAST.AST) => SchemaAST.AST) => SchemaAST.AST
}

const isRebuilt = (ast: SchemaAST.AST): ast is SchemaAST.AST & Rebuilt =>
  "recur" in ast && typeof ast.recur === "function"

/**
 * The JSON side of a Schema, in which each recursive part is one node. Effect's export unrolls a recursive Schema with renamed keys
 * for ever: its JSON side is another node at each level. A part with the same identifier is the same part.
 */
const jsonSide = (schema: Schema.Constraint): Schema.Top => {
  const seen = new Map<SchemaAST.AST, SchemaAST.AST>()
  const named = new Map<string, SchemaAST.AST>()
  const nameOf = ({ annotations }: SchemaAST.AST): string | undefined => {
    const name = annotations?.["identifier"]
    return typeof name === "string" ? name : undefined
  }
  const sideOf = (ast: SchemaAST.AST): SchemaAST.AST => {
    const known = seen.get(ast)
    if (known !== undefined) return known
    const made = make(ast)
    const name = nameOf(made)
    if (name !== undefined && made._tag === "Union") named.set(name, named.get(name) ?? made)
    seen.set(ast, made)
    return made
  }
  const bodyOf = (name: string | undefined, ast: SchemaAST.Suspend): SchemaAST.AST => {
    const known = name === undefined ? undefined : named.get(name)
    if (name === undefined || known !== undefined) return known ?? sideOf(ast.thunk())
    const made = Schema.make<Schema.Top>(sideOf(ast.thunk())).annotate({ identifier: name }).ast
    named.set(name, made)
    return made
  }
  const make = (ast: SchemaAST.AST): SchemaAST.AST => {
    const last = ast.encoding?.at(-1)
    if (last !== undefined) return sideOf(last.to)
    if (ast._tag === "Suspend") {
      return new SchemaAST.Suspend(() => bodyOf(nameOf(ast), ast), undefined, undefined, undefined, ast.context)
    }
    // a list that stops decoding after many wrong items, or a value that a reader takes apart by hand
    if (ast._tag === "Declaration") {
      const [item] = ast.typeParameters
      const made = item === undefined ? Schema.Json : Schema.Array(Schema.make(sideOf(item)))
      return SchemaAST.isOptional(ast) ? Schema.optionalKey(made).ast : made.ast
    }
    return isRebuilt(ast) ? ast.recur(sideOf) : ast
  }
  return Schema.make(sideOf(schema.ast))
}

/** Open objects, for a version whose reader leaves out what it does not know. */
const opened = (json: Json): Json => {
  if (Array.isArray(json)) return json.map(opened)
  if (!isObject(json)) return json
  const members = Object.entries(json).filter(
    ([key, value]) => !(key === "additionalProperties" && value === false && isObject(json["properties"]))
  )
  return Object.fromEntries(members.map(([key, value]) => [key, opened(value)]))
}

/** The document with the descriptions of its members. `place` is the member, or the definition, that an object belongs to. */
const described = (json: Json, place: string): Json => {
  if (Array.isArray(json)) return json.map((item) => described(item, place))
  if (!isObject(json)) return json
  const texts = descriptions[place] ?? {}
  return Object.fromEntries(
    Object.entries(json).map(([key, value]) => {
      if (key === "$defs" && isObject(value)) {
        return [key, Object.fromEntries(Object.entries(value).map(([name, part]) => [name, described(part, name)]))]
      }
      if (key !== "properties" || !isObject(value)) return [key, described(value, place)]
      const members = Object.entries(value).map(([name, part]) => {
        const inner = described(part, name)
        return [name, texts[name] === undefined || !isObject(inner) ? inner : { description: texts[name], ...inner }]
      })
      return [key, Object.fromEntries(members)]
    })
  )
}

const widest = 100

/** JSON with each value on one line that fits there. */
const print = (json: Json, indent = ""): string => {
  const line = JSON.stringify(json)
  if (typeof json !== "object" || json === null || indent.length + line.length <= widest) {
    return line
  }
  const inner = `${indent}  `
  const members = Array.isArray(json)
    ? json.map((item) => inner + print(item, inner))
    : Object.entries(json).map(([key, value]) => `${inner}${JSON.stringify(key)}: ${print(value, inner)}`)
  const [open, close] = Array.isArray(json) ? "[]" : "{}"
  return `${open}\n${members.join(",\n")}\n${indent}${close}`
}

/** The JSON Schema of one version. */
export const documentOf = async ({ isOpen, name, schema, title }: Wire): Promise<JsonObject> => {
  const exported = await Effect.runPromise(JsonSchema.fromSchema(jsonSide(schema), { what: title }))
  const json = described(isOpen ? opened(exported) : exported, name)
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title,
    ...(isObject(json) ? json : {})
  }
}

export const pathOf = ({ name }: Wire): string => `schemas/${name}.schema.json`

/** The texts of the files, by their paths. */
export const filesOf = async (): Promise<ReadonlyMap<string, string>> => {
  const files = new Map<string, string>()
  for (const wire of wires) files.set(pathOf(wire), `${print(await documentOf(wire))}\n`)
  return files
}

const main = async (): Promise<void> => {
  const files = await filesOf()
  const found = new Map(glob("schemas/*").map((path) => [path, readFileSync(join(root, path), "utf8")]))
  const stale = [...files].filter(([path, text]) => found.get(path) !== text).map(([path]) => path)
  const gone = [...found.keys()].filter((path) => !files.has(path))
  const changed = [...stale, ...gone]
  mkdirSync(join(root, "schemas"), { recursive: true })
  for (const path of stale) writeFileSync(join(root, path), files.get(path) ?? "")
  for (const path of gone) rmSync(join(root, path))
  process.stdout.write(`${changed.length === 0 ? "schemas are up to date" : changed.join("\n")}\n`)
}

if (process.argv[1] === import.meta.filename) await main()
