import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises"
import { join, posix } from "node:path"
import { beforeAll } from "vitest"
import manifest from "../../package.json" with { type: "json" }
import { childrenOf, glob, parse, type Node, type Source } from "../../scripts/sources.ts"
import { requireBuild, root, run } from "./run.ts"

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "type" in value
const nodesOf = (value: unknown): ReadonlyArray<Node> => (Array.isArray(value) ? value.filter(isNode) : [])
const nameOf = (node: unknown): string => (isNode(node) ? String(node["name"] ?? node["value"]) : "")

/** A name that a module of declarations exports, from itself or from the module `from`. */
interface Export {
  readonly name: string
  readonly local: string
  readonly from: string | undefined
  readonly isValue: boolean
  readonly isDocumented: boolean
}

interface Declarations {
  readonly path: string
  readonly declared: ReadonlyMap<string, ReadonlyArray<{ readonly node: Node; readonly isDocumented: boolean }>>
  readonly exports: ReadonlyArray<Export>
}

const isType = ({ type }: Node): boolean => /^(?:TS(?:Interface|TypeAlias|Enum)|Class)Declaration$/.test(type)

const declarationsOf = ({ comments, path, program, text }: Source): Declarations => {
  const declared = new Map<string, Array<{ readonly node: Node; readonly isDocumented: boolean }>>()
  const exports: Array<Export> = []
  const isDocumented = ({ start }: Node) =>
    comments.some(({ end, value }) => value.startsWith("*") && end < start && text.slice(end, start).trim() === "")
  for (const statement of nodesOf(program["body"])) {
    const node = isNode(statement["declaration"]) ? statement["declaration"] : statement
    const declarators = nodesOf(node["declarations"])
    const documented = isDocumented(statement)
    for (const id of declarators.length > 0 ? declarators.map((each) => each["id"]) : [node["id"]]) {
      if (!isNode(id)) continue
      const name = nameOf(id)
      declared.set(name, [...(declared.get(name) ?? []), { node, isDocumented: documented }])
      if (node !== statement)
        exports.push({
          name,
          local: name,
          from: undefined,
          isValue: !/^TS(?:I|TypeA)/.test(node.type),
          isDocumented: documented
        })
    }
    const source = statement["source"]
    const from = isNode(source) ? posix.join(posix.dirname(path), nameOf(source)).replace(/\.ts$/, ".d.ts") : undefined
    for (const each of statement.type === "ExportNamedDeclaration" ? nodesOf(statement["specifiers"]) : []) {
      exports.push({
        name: nameOf(each["exported"]),
        local: nameOf(each["local"]),
        from,
        isValue: statement["exportKind"] !== "type" && each["exportKind"] !== "type",
        isDocumented: isDocumented(each)
      })
    }
  }
  return { path, declared, exports }
}

/** The types that a module declares, uses in an exported declaration, and does not export. */
const hiddenTypes = ({ declared, exports, path }: Declarations): ReadonlyArray<string> => {
  const seen = new Set(exports.filter(({ from }) => from === undefined).map(({ local }) => local))
  const exported = new Set(seen)
  const enter = (node: Node): void => {
    if (node.type === "Identifier" && declared.has(nameOf(node))) seen.add(nameOf(node))
    for (const child of childrenOf(node)) enter(child)
  }
  for (const name of seen) for (const { node } of declared.get(name) ?? []) enter(node)
  return [...seen]
    .filter((name) => !exported.has(name) && declared.get(name)?.some(({ node }) => isType(node)))
    .map((name) => `${path}: ${name}`)
}

const isInternal = (path: string): boolean => /\/(?:internal|wire)\//.test(path)

describe("MEND-13 types that users can name", () => {
  requireBuild()

  let all: ReadonlyMap<string, Declarations>

  beforeAll(() => {
    all = new Map(
      glob("dist/**/*.d.ts").map((path) => [path, declarationsOf(parse(path, readFileSync(join(root, path), "utf8")))])
    )
  })

  const publicModules = () => [...all.values()].filter(({ path }) => !isInternal(path) && !path.endsWith("index.d.ts"))

  it("each type that an exported declaration uses is exported from its module", () => {
    assert.deepStrictEqual(publicModules().flatMap(hiddenTypes), [])
  })

  it("each export has a doc comment, at the export or at the declaration", () => {
    const undocumented = publicModules().flatMap(({ declared, exports, path }) =>
      exports
        .filter(
          ({ from, isDocumented, local }) =>
            !isDocumented &&
            !(from === undefined ? declared : all.get(from)?.declared)?.get(local)?.some((each) => each.isDocumented)
        )
        .map(({ name }) => `${path}: ${name}`)
    )
    assert.deepStrictEqual(undocumented, [])
  })

  describe("a package that exports our values", () => {
    const folder = join(root, ".generated", "declarations")
    let declarations: string

    /** The members of a service name types as well. */
    const isService = ({ name }: Export, { declared, path }: Declarations): boolean =>
      declared.get(`${name}_base`)?.some(({ node: { end, start } }) => {
        return /Context\.ServiceClass</.test(readFileSync(join(root, path), "utf8").slice(start, end))
      }) === true

    const program = (): string => {
      const lines = new Set<string>()
      const rooms = new Set<string>()
      for (const module of publicModules().filter(({ path }) => path.split("/").length === 3)) {
        const [, room = "", file = ""] = module.path.split("/")
        const namespace = file.replace(/\.d\.ts$/, "")
        if (!readFileSync(join(root, "dist", room, "index.d.ts"), "utf8").includes(`* as ${namespace} `)) continue
        rooms.add(room)
        for (const each of module.exports.filter(({ isValue }) => isValue)) {
          const path = `${room.replace("-", "_")}.${namespace}.${each.name}`
          lines.add(`export const ${namespace}_${each.name} = ${path}`)
          if (isService(each, module)) {
            lines.add(`export const ${namespace}_${each.name}_service = Effect.map(${path}, (all) => ({ ...all }))`)
          }
        }
      }
      assert.isAbove(lines.size, 300)
      const imports = [...rooms].map(
        (room) => `import * as ${room.replace("-", "_")} from "${posix.join(manifest.name, room)}"`
      )
      return [`import { Effect } from "effect"`, ...imports, ...lines, ""].join("\n")
    }

    beforeAll(async () => {
      const modules = join(folder, "node_modules")
      const target = join(modules, manifest.name)
      await rm(folder, { recursive: true, force: true })
      await mkdir(target, { recursive: true })
      await cp(join(root, "dist"), join(target, "dist"), { recursive: true })
      await cp(join(root, "package.json"), join(target, "package.json"))
      await writeFile(join(folder, "package.json"), JSON.stringify({ name: "consumer", type: "module", private: true }))
      await writeFile(join(folder, "index.ts"), program())
      const compilerOptions = {
        target: "ES2023",
        lib: ["ES2023", "DOM"],
        module: "NodeNext",
        types: ["node"],
        strict: true,
        exactOptionalPropertyTypes: true,
        skipLibCheck: true,
        declaration: true,
        outDir: "out"
      }
      await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["index.ts"] }))
      const { code, output } = await run("tsc", ["-p", folder, "--pretty", "false"])
      assert.strictEqual(code, 0, output)
      declarations = await readFile(join(folder, "out", "index.d.ts"), "utf8")
    })

    it("compiles with `declaration: true`, as `Effect.map(Session.Session, (s) => s.send)` and `Step.make` have to", () => {
      assert.include(declarations, "export declare const Step_make")
      assert.include(declarations, "export declare const Session_Session_service")
    })

    it("has declarations that name public modules only", () => {
      const internal = [...declarations.matchAll(/import\("[^"]*\/(?:internal|wire)\/[^"]*"\)[\w.]*/g)]
      assert.deepStrictEqual([...new Set(internal.map(([name]) => name))], [])
    })
  })
})
