/**
 * The figures of the house: how large `src` is, how it is cut into files, and what the package exports.
 *
 * A line counts as code if a token other than a comment is on it. `npm run house` prints the figures,
 * `npm run house -- --details` also lists what is behind them, and `--names` the public names. Files have no limit.
 * `--files` writes the list "Files" of CONTRIBUTING.md.
 * `test/package/house-figures.test.ts` requires that there are no circles, no file names used twice and no long functions.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { basename, join, posix } from "node:path"
import { readShared } from "./lint/shared.ts"
import { glob, read, root, walk, withoutComments, type Node, type Source } from "./sources.ts"

interface Module {
  readonly path: string
  /** Lines with code on them, imports included. */
  readonly code: number
  readonly importLines: number
  /** Paths of the files it imports or re-exports, type imports included. */
  readonly imports: ReadonlyArray<string>
  /** Names it declares and exports. */
  readonly names: ReadonlySet<string>
  /** Files it re-exports under a name (`export * as Name from`). */
  readonly namespaces: ReadonlyMap<string, string>
  /** Files it re-exports whole (`export * from`). */
  readonly stars: ReadonlyArray<string>
  readonly longest: LongFunction
}

/** A function by the line where its body begins, with the lines of the body. */
export interface LongFunction {
  readonly path: string
  readonly line: number
  readonly lines: number
}

export interface Surface {
  readonly namespaces: ReadonlyArray<string>
  /** The exported names: `Namespace.member`, or the name alone where it is exported without a namespace. */
  readonly names: ReadonlyArray<string>
}

export interface Figures {
  readonly files: number
  readonly code: number
  readonly codePerFile: number
  /** Lines of imports in percent of code lines. */
  readonly importShare: number
  /** Files with fewer than 40 code lines besides their imports; barrels are not counted. */
  readonly small: ReadonlyArray<string>
  readonly largest: { readonly path: string; readonly code: number }
  /** The function with the longest body, comments counted. */
  readonly longest: LongFunction
  /** Groups of files that import each other, type imports included. */
  readonly circles: ReadonlyArray<ReadonlyArray<string>>
  /** Groups of files with the same name, `index.ts` aside. */
  readonly duplicates: ReadonlyArray<ReadonlyArray<string>>
  readonly rooms: Readonly<Record<string, { readonly files: number; readonly code: number }>>
  /** Modules under `internal/` or `wire/` that other rooms import, with these rooms. */
  readonly shared: Readonly<Record<string, ReadonlyArray<string>>>
  readonly surface: Readonly<Record<string, Surface>>
  /** The names of all subpaths together, each counted once. */
  readonly names: number
}

const isString = (value: unknown): value is string => typeof value === "string"
const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "type" in value
const nameOf = (node: unknown): string | undefined =>
  isNode(node) ? [node["name"], node["value"]].find(isString) : undefined

const declaredBy = (declaration: Node): ReadonlyArray<string> => {
  const declared = declaration["declarations"]
  const ids = Array.isArray(declared) ? declared.map((each) => each.id) : [declaration["id"]]
  return ids.flatMap((id) => nameOf(id) ?? [])
}

const exportedBy = (node: Node): ReadonlyArray<string> => {
  if (isNode(node["declaration"])) return declaredBy(node["declaration"])
  const specifiers = node["specifiers"]
  return Array.isArray(specifiers) ? specifiers.flatMap((each) => nameOf(each.exported) ?? []) : []
}

const moduleOf = (source: Source): Module => {
  const { lineAt, path, program } = source
  const imports = new Set<string>()
  const names = new Set<string>()
  const namespaces = new Map<string, string>()
  const stars: Array<string> = []
  let importLines = 0
  let longest: LongFunction = { path, line: 0, lines: 0 }
  walk(program, (node) => {
    const { body } = node
    if (/Function/.test(node.type) && isNode(body)) {
      const line = lineAt(body.start)
      const lines = lineAt(body.end) - line + 1
      if (lines > longest.lines) longest = { path, line, lines }
    }
    const specifier = nameOf(node["source"])
    const target = specifier?.startsWith(".") === true ? posix.join(posix.dirname(path), specifier) : undefined
    if (target !== undefined) imports.add(target)
    if (node.type === "ImportDeclaration") importLines += lineAt(node.end) - lineAt(node.start) + 1
    if (node.type === "ExportNamedDeclaration") for (const name of exportedBy(node)) names.add(name)
    if (node.type === "ExportAllDeclaration" && target !== undefined) {
      const name = nameOf(node["exported"])
      if (name === undefined) stars.push(target)
      else namespaces.set(name, target)
    }
  })
  const code = withoutComments(source)
    .split("\n")
    .filter((line) => line.trim() !== "").length
  return { path, code, importLines, imports: [...imports], names, namespaces, stars, longest }
}

/** The strongly connected components of more than one file (Tarjan). */
const circlesOf = (modules: ReadonlyMap<string, Module>): ReadonlyArray<ReadonlyArray<string>> => {
  const order = new Map<string, number>()
  const low = new Map<string, number>()
  const open: Array<string> = []
  const circles: Array<ReadonlyArray<string>> = []
  const visit = (path: string): number => {
    const index = order.size
    order.set(path, index)
    let lowest = index
    open.push(path)
    for (const target of modules.get(path)?.imports ?? []) {
      if (!modules.has(target)) continue
      if (!order.has(target)) lowest = Math.min(lowest, visit(target))
      else if (open.includes(target)) lowest = Math.min(lowest, low.get(target) ?? order.get(target) ?? lowest)
    }
    low.set(path, lowest)
    if (lowest === index) {
      const circle = open.splice(open.indexOf(path))
      if (circle.length > 1) circles.push(circle.toSorted())
    }
    return lowest
  }
  for (const path of modules.keys()) if (!order.has(path)) visit(path)
  return circles
}

/** The exports of a barrel, by name, with the file that declares each. */
const exportsOf = (
  modules: ReadonlyMap<string, Module>,
  path: string,
  seen: ReadonlySet<string> = new Set()
): { readonly namespaces: ReadonlySet<string>; readonly names: ReadonlyMap<string, string> } => {
  const module = modules.get(path)
  if (module === undefined || seen.has(path)) return { namespaces: new Set(), names: new Map() }
  const inner = module.stars.map((target) => exportsOf(modules, target, new Set([...seen, path])))
  const members = [...module.namespaces].flatMap(([namespace, target]) =>
    [...exportsOf(modules, target).names].map(([name, id]) => [`${namespace}.${name}`, id] as const)
  )
  return {
    namespaces: new Set([...module.namespaces.keys(), ...inner.flatMap(({ namespaces }) => [...namespaces])]),
    names: new Map([
      ...[...module.names].map((name) => [name, `${path}#${name}`] as const),
      ...members,
      ...inner.flatMap(({ names }) => [...names])
    ])
  }
}

const entriesOf = (directory: string): ReadonlyArray<readonly [subpath: string, path: string]> => {
  const manifest: { readonly exports: Record<string, string | { readonly default?: string } | null> } = JSON.parse(
    readFileSync(join(directory, "package.json"), "utf8")
  )
  return Object.entries(manifest.exports).flatMap(([subpath, target]) => {
    const file = typeof target === "string" ? target : target?.default
    // by a pattern the namespaces of the others are found one by one
    if (file?.endsWith(".js") !== true || subpath.includes("*")) return []
    return [[subpath, file.replace(/^\.\/(?:dist|chunks)\//, "src/").replace(/\.js$/, ".ts")] as const]
  })
}

const sum = <A>(list: ReadonlyArray<A>, of: (a: A) => number): number =>
  list.reduce((total, each) => total + of(each), 0)

const group = <A>(list: ReadonlyArray<A>, keyOf: (a: A) => string): ReadonlyMap<string, ReadonlyArray<A>> => {
  const groups = new Map<string, Array<A>>()
  for (const each of list) {
    const key = keyOf(each)
    const known = groups.get(key)
    if (known === undefined) groups.set(key, [each])
    else known.push(each)
  }
  return groups
}

const roomOf = (path: string): string => path.split("/")[1] ?? ""

/** The modules that rooms share, with the rooms that import each. */
const sharedOf = (all: ReadonlyArray<Module>): Figures["shared"] => {
  const found = all.flatMap(({ imports, path }) =>
    imports
      .filter((target) => /\/(?:internal|wire)\//.test(target) && roomOf(target) !== roomOf(path))
      .map((target) => ({ target, room: roomOf(path) }))
  )
  return Object.fromEntries(
    [...group(found, ({ target }) => target)].map(([target, uses]) => [
      target,
      [...new Set(uses.map(({ room }) => room))].toSorted()
    ])
  )
}

/** Measures the repository in a directory. */
export const measure = (directory: string = root): Figures => {
  const all = glob("src/**/*.ts", directory).map((path) => moduleOf(read(path, directory)))
  const modules = new Map(all.map((module) => [module.path, module]))
  const code = sum(all, (module) => module.code)
  const isBarrel = (path: string) => basename(path) === "index.ts"
  const byName = group(
    all.filter(({ path }) => !isBarrel(path)),
    ({ path }) => basename(path)
  )
  const byRoom = group(all, ({ path }) => path.split("/")[1] ?? "")
  const exported = entriesOf(directory).map(([subpath, path]) => [subpath, exportsOf(modules, path)] as const)
  const [largest] = all.toSorted((a, b) => b.code - a.code)
  const [longest] = all.map((each) => each.longest).toSorted((a, b) => b.lines - a.lines)
  return {
    files: all.length,
    code,
    codePerFile: Math.round(code / all.length),
    importShare: Number(((100 * sum(all, ({ importLines }) => importLines)) / code).toFixed(1)),
    small: all.filter((each) => each.code - each.importLines < 40 && !isBarrel(each.path)).map(({ path }) => path),
    largest: { path: largest?.path ?? "", code: largest?.code ?? 0 },
    longest: longest ?? { path: "", line: 0, lines: 0 },
    circles: circlesOf(modules),
    duplicates: [...byName.values()].flatMap((files) => (files.length > 1 ? [files.map(({ path }) => path)] : [])),
    rooms: Object.fromEntries(
      [...byRoom].map(([room, files]) => [room, { files: files.length, code: sum(files, (each) => each.code) }])
    ),
    shared: sharedOf(all),
    surface: Object.fromEntries(
      exported.map(([subpath, { namespaces, names }]) => [
        subpath,
        { namespaces: [...namespaces].toSorted(), names: [...names.keys()].toSorted() }
      ])
    ),
    names: new Set(exported.flatMap(([, { names }]) => [...names.values()])).size
  }
}

const report = (figures: Figures, details: boolean): string => {
  const row = (name: string, value: string | number) => `${name.padEnd(28)} ${value}`
  const list = (items: ReadonlyArray<string>) => (details ? items.map((item) => `    ${item}`) : [])
  const groups = (items: ReadonlyArray<ReadonlyArray<string>>) => list(items.map((group) => group.join(" ")))
  return [
    row("code lines", figures.code),
    row("files", figures.files),
    row("code lines per file", figures.codePerFile),
    row("imports, % of code lines", figures.importShare),
    row("files under 40 code lines", figures.small.length),
    ...list(figures.small),
    row("largest file, code lines", `${figures.largest.code} ${figures.largest.path}`),
    row("longest function, lines", `${figures.longest.lines} ${figures.longest.path}:${figures.longest.line}`),
    row("circles (files in them)", `${figures.circles.length} (${sum(figures.circles, (circle) => circle.length)})`),
    ...groups(figures.circles),
    row("modules that rooms share", Object.keys(figures.shared).length),
    ...list(Object.entries(figures.shared).map(([path, rooms]) => `${path}: ${rooms.join(", ")}`)),
    row("file names used twice", figures.duplicates.length),
    ...groups(figures.duplicates),
    ...Object.entries(figures.rooms).map(([room, { code, files }]) =>
      row(`room ${room}`, `${code} code lines, ${files} files`)
    ),
    ...Object.entries(figures.surface).map(([subpath, { names, namespaces }]) =>
      row(`exports of ${subpath}`, `${namespaces.length} namespaces, ${names.length} names`)
    ),
    row("names of all subpaths", figures.names),
    ""
  ].join("\n")
}

/**
 * The public names as `test/package/public-names.txt` has them, one in a line. The root re-exports namespaces of the rooms:
 * their members are listed in their rooms.
 */
export const publicNames = ({ surface }: Figures): string =>
  Object.entries(surface)
    .map(([subpath, { names, namespaces }]) => {
      const listed = subpath === "." ? [...namespaces, ...names.filter((name) => !name.includes("."))] : names
      return [`# ${posix.join("effect-emissary", subpath)}`, ...listed, ""].join("\n")
    })
    .join("\n")

/** The first sentence of the comment that a file begins with. */
const subjectOf = (path: string): string => {
  const header = /^\/\*\*(.*?)\*\//s.exec(readFileSync(join(root, path), "utf8"))?.[1] ?? ""
  const [paragraph = ""] = header
    .replaceAll(/^ *\* ?/gm, "")
    .trim()
    .split(/\n\s*\n|\n@/)
  const text = paragraph.replaceAll(/\s+/g, " ").replaceAll(/\{@link ([^}]+)\}/g, "`$1`")
  return /^.*?(?=\.(?:\s|$))/.exec(text)?.[0] ?? text
}

/**
 * A page with a line for each file of `src` behind the introduction of its section "Files", by room: the file, the rooms that it is shared
 * with, and its subject. The rooms stay as the page has them, since the lint rule `house/walls` reads them there.
 */
export const withFiles = (page: string): string => {
  const shared = readShared(page)
  const lineOf = (path: string): string => {
    const module = path.replace(/^src\/(.*)\.ts$/, "$1")
    const rooms = shared.get(module)
    const importers = rooms === undefined ? "" : `, for ${rooms === "all" ? rooms : rooms.join(", ")}`
    return `- \`${module}\`${importers}: ${subjectOf(path)}`
  }
  const files = glob("src/*/**/*.ts").filter((path) => basename(path) !== "index.ts")
  const rooms = [...group(files, roomOf)].toSorted(
    ([a], [b]) => page.indexOf(`\n| \`${a}\``) - page.indexOf(`\n| \`${b}\``)
  )
  const list = rooms.map(([room, paths]) => `### \`${room}\`\n\n${paths.map(lineOf).join("\n")}\n\n`).join("")
  return page.replace(/(\n## Files\n.*?\n)### .*?(?=\n## )/s, (_, before: string) => `${before}${list.trimEnd()}\n`)
}

if (import.meta.main && process.argv.includes("--files")) {
  const page = join(root, "CONTRIBUTING.md")
  writeFileSync(page, withFiles(readFileSync(page, "utf8")))
} else if (import.meta.main) {
  const figures = measure()
  process.stdout.write(
    process.argv.includes("--names") ? publicNames(figures) : report(figures, process.argv.includes("--details"))
  )
}
