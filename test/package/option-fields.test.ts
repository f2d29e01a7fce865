import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join, posix } from "node:path"
import { childrenOf, glob, parse, root, type Node, type Source } from "../../scripts/sources.ts"

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "type" in value
const nodesOf = (value: unknown): ReadonlyArray<Node> => (Array.isArray(value) ? value.filter(isNode) : [])
const nameOf = (node: unknown): string => (isNode(node) ? String(node["name"] ?? node["value"]) : "")

/** A type by its name in a module. */
interface Place {
  readonly path: string
  readonly name: string
}

/** The types of a module, and where the names come from that it imports or exports again. */
interface Module {
  readonly source: Source
  readonly declared: ReadonlyMap<string, { readonly node: Node; readonly doc: string }>
  readonly exported: ReadonlyMap<string, { readonly place: Place; readonly doc: string }>
  readonly imported: ReadonlyMap<string, Place>
}

const docBefore = ({ comments, text }: Source, { start }: Node): string =>
  comments.find(({ end, value }) => value.startsWith("*") && end < start && text.slice(end, start).trim() === "")
    ?.value ?? ""

const moduleOf = (source: Source): Module => {
  const declared = new Map<string, { readonly node: Node; readonly doc: string }>()
  const exported = new Map<string, { readonly place: Place; readonly doc: string }>()
  const imported = new Map<string, Place>()
  for (const statement of nodesOf(source.program["body"])) {
    const { source: from } = statement
    const path = isNode(from) ? posix.join(posix.dirname(source.path), nameOf(from)) : source.path
    if (statement.type === "ImportDeclaration") {
      for (const each of nodesOf(statement["specifiers"])) {
        const name = each.type === "ImportNamespaceSpecifier" ? "*" : nameOf(each["imported"])
        imported.set(nameOf(each["local"]), { path, name })
      }
      continue
    }
    const node = isNode(statement["declaration"]) ? statement["declaration"] : statement
    const doc = docBefore(source, statement)
    if (/^TS(?:Interface|TypeAlias)Declaration$/.test(node.type)) {
      const name = nameOf(node["id"])
      declared.set(name, { node, doc })
      if (node !== statement) exported.set(name, { place: { path, name }, doc })
    }
    for (const each of nodesOf(statement["specifiers"])) {
      const place = { path, name: nameOf(each["local"]) }
      exported.set(nameOf(each["exported"]), { place, doc: docBefore(source, each) })
    }
  }
  return { source, declared, exported, imported }
}

const modules: ReadonlyMap<string, Module> = new Map(
  glob("src/**/*.ts").map((path) => [path, moduleOf(parse(path, readFileSync(join(root, path), "utf8")))])
)

/** Where a name of a type leads from a module: `Options`, or `agentTypes.Options`. */
const lead = (module: Module, typeName: unknown): Place | undefined => {
  if (!isNode(typeName)) return undefined
  if (typeName.type === "TSQualifiedName" || typeName.type === "MemberExpression") {
    const space = module.imported.get(nameOf(typeName["left"] ?? typeName["object"]))
    return space && { path: space.path, name: nameOf(typeName["right"] ?? typeName["property"]) }
  }
  const name = nameOf(typeName)
  return module.imported.get(name) ?? { path: module.source.path, name }
}

/** The fields of a type without a comment, as `<path>:<line> <field>`, with the fields of the types that it is made of. */
const bareFields = (place: Place | undefined, seen: Set<string>): ReadonlyArray<string> => {
  const module = modules.get(place?.path ?? "")
  if (place === undefined || module === undefined || seen.has(`${place.path} ${place.name}`)) return []
  seen.add(`${place.path} ${place.name}`)
  const declaration = module.declared.get(place.name)
  if (declaration === undefined) return bareFields(module.exported.get(place.name)?.place, seen)
  return childrenOf(declaration.node).flatMap((node) => bareIn(module, node, seen))
}

const bareIn = (module: Module, node: Node, seen: Set<string>): ReadonlyArray<string> => {
  switch (node.type) {
    case "TSPropertySignature":
      if (docBefore(module.source, node) !== "") return []
      return [`${module.source.path}:${module.source.lineAt(node.start)} ${nameOf(node["key"])}`]
    // the comment of a union describes its alternatives
    case "TSUnionType":
    case "TSMethodSignature":
    case "TSTypeParameterDeclaration":
      return []
    case "TSTypeReference":
    case "TSInterfaceHeritage": {
      const inside = nodesOf(isNode(node["typeArguments"]) ? node["typeArguments"]["params"] : [])
      const named = bareFields(lead(module, node["typeName"] ?? node["expression"]), seen)
      return [...named, ...inside.flatMap((each) => bareIn(module, each, seen))]
    }
    default:
      return childrenOf(node).flatMap((child) => bareIn(module, child, seen))
  }
}

/** The types of the parameters `options` of the functions that a module exports. One line is described by its function. */
const optionsIn = (source: Source, node: Node): ReadonlyArray<Node> => {
  if (node.type === "BlockStatement") return []
  const type = node["typeAnnotation"]
  if (node.type === "Identifier" && node["name"] === "options" && isNode(type)) {
    return source.text.slice(type.start, type.end).includes("\n") ? [type] : []
  }
  return childrenOf(node).flatMap((child) => optionsIn(source, child))
}

const isOptions = (name: string, doc: string): boolean =>
  /(?:Options|Config)$/.test(name) || /@category options\b/.test(doc)

const publicModules = [...modules.values()].filter(
  ({ source: { path } }) => !/\/(?:internal|wire)\//.test(path) && !path.endsWith("/index.ts")
)

describe("HOUSE-10 options", () => {
  it("each field of a public option type has a comment of its own", () => {
    const seen = new Set<string>()
    const bare = publicModules.flatMap((module) =>
      [...module.exported].flatMap(([name, { doc, place }]) => {
        const declared = modules.get(place.path)?.declared.get(place.name)
        return isOptions(name, doc + (declared?.doc ?? "")) ? bareFields(place, seen) : []
      })
    )
    assert.isAbove(seen.size, 50)
    assert.deepStrictEqual(bare, [])
  })

  it("each field of the options of a public function has a comment of its own", () => {
    const types = publicModules.flatMap((module) =>
      nodesOf(module.source.program["body"])
        .filter(({ type }) => type === "ExportNamedDeclaration")
        .flatMap((node) => optionsIn(module.source, node))
        .map((type) => ({ module, type }))
    )
    assert.isAbove(types.length, 10)
    assert.deepStrictEqual(
      types.flatMap(({ module, type }) => bareIn(module, type, new Set())),
      []
    )
  })
})
