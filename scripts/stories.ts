/**
 * Counts the files that a reader opens to follow a story through the library: `npm run stories`, from the build.
 *
 * Every function of `dist` is instrumented as it is loaded and records that it was entered. Of the entries of a story:
 *
 * - **files** is the number of files that have an entered function,
 * - **functions** is the number of functions entered,
 * - **crossings** counts the entries into another file than the entry before,
 * - **written** and **read** are the values that versioned codecs wrote and read.
 *
 * Functions of Effect and of `src/testing` (the model of the stories) are not counted. `-- --details` lists the files
 * of each story, `-- --json` prints the figures for `test/package/stories.test.ts`. They have no limit.
 *
 * The **way in** is printed, too: the names that a reader crosses from `agent.ask` to the first event of the run. A name is crossed
 * if its function is entered there, in `src/agent` or `src/run`, and refers to the recorder of that event or to another crossed name.
 * Functions that only return a value to these are beside the way.
 */
import { Effect } from "effect"
import { registerHooks } from "node:module"
import { pathToFileURL } from "node:url"
import { childrenOf, parse, root, type Node } from "./sources.ts"
import type { Part } from "./stories/scenarios.ts"

export interface Figures {
  readonly files: number
  readonly functions: number
  readonly crossings: number
  readonly written: number
  readonly read: number
}

/** The names that a reader crosses from `agent.ask` to the first event of a run, and all names that are entered there. */
export interface WayIn {
  readonly crossed: ReadonlyArray<{ readonly file: string; readonly name: string; readonly lines: number }>
  readonly entered: number
}

const hook = "recordEntry"

/** The file of each instrumented function, by its number, and the constant that it is. */
const fileOf: Array<string> = []
const nameOf: Array<string> = []

/** A function with a name: its lines, and the names that it refers to. A function without a name belongs to the one around it. */
interface Named {
  readonly file: string
  readonly name: string
  readonly lines: number
  readonly refers: Set<string>
}

const namedOf: Array<Named | undefined> = []

/** The numbers of the functions entered in each part, in order. */
const entered = new Map<Part, Array<number>>()
let current: Array<number> | undefined

Object.defineProperty(globalThis, hook, { value: (id: number) => current?.push(id) })

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "type" in value

const isFunction = ({ type }: Node): boolean =>
  type === "FunctionDeclaration" || type === "FunctionExpression" || type === "ArrowFunctionExpression"

const idOf = (node: unknown): string | undefined =>
  isNode(node) && node.type === "Identifier" && typeof node["name"] === "string" ? node["name"] : undefined

/** The name of the function in a node, as the node has it: of a constant, a method or a member. */
const nameIn = (node: Node): string | undefined => {
  if (node.type === "VariableDeclarator" || node.type === "FunctionDeclaration") return idOf(node["id"])
  return node.type === "MethodDefinition" || node.type === "Property" ? idOf(node["key"]) : undefined
}

/** The source with a call of the hook at the beginning of each function. */
const instrumented = (file: string, text: string): string => {
  const inserts: Array<{ readonly at: number; readonly text: string }> = []
  const constants = new Map<unknown, string>()
  const visit = (node: Node, pending: string | undefined, around: Named | undefined): void => {
    if (node.type === "VariableDeclarator") constants.set(node["init"], idOf(node["id"]) ?? "")
    const id = idOf(node)
    if (id !== undefined) around?.refers.add(id)
    const body = node["body"]
    const name = nameIn(node) ?? pending
    let inside = around
    if (isFunction(node) && isNode(body)) {
      const lines = text.slice(node.start, node.end).split("\n").length
      if (name !== undefined) inside = { file, name, lines, refers: new Set() }
      namedOf.push(inside)
      nameOf.push(constants.get(node) ?? "")
      const call = `${hook}(${fileOf.push(file) - 1})`
      if (body.type === "BlockStatement") inserts.push({ at: body.start + 1, text: `${call};` })
      else inserts.push({ at: body.start, text: `(${call},` }, { at: body.end, text: ")" })
    }
    const passed = isFunction(node) || node.type === "BlockStatement" ? undefined : name
    for (const child of childrenOf(node)) visit(child, passed, inside)
  }
  visit(parse(file, text).program, undefined, undefined)
  let out = ""
  let from = 0
  for (const insert of inserts.toSorted((a, b) => a.at - b.at)) {
    out += text.slice(from, insert.at) + insert.text
    from = insert.at
  }
  return out + text.slice(from)
}

const dist = `${pathToFileURL(root).href}dist/`

const measure = async (): Promise<void> => {
  registerHooks({
    // the modules, as bundlers read them, and not the chunks
    resolve: (specifier, context, next) =>
      next(specifier, { ...context, conditions: [...context.conditions, "module"] }),
    load: (url, context, next) => {
      const loaded = next(url, context)
      if (!url.startsWith(dist) || url.startsWith(`${dist}testing/`) || !url.endsWith(".js")) return loaded
      return { ...loaded, source: instrumented(url.slice(dist.length), String(loaded.source)) }
    }
  })
  const { stories } = await import("./stories/scenarios.ts")
  const meter = {
    begin: (part: Part) => {
      current = []
      entered.set(part, current)
    },
    end: () => {
      current = undefined
    }
  }
  for (const story of stories) await Effect.runPromise(story(meter))
}

const codecs = "payload/VersionedCodec.js"

const figuresOf = (ids: ReadonlyArray<number>): Figures => {
  const files = ids.map((id) => fileOf[id])
  const callsOf = (name: string) => ids.filter((id) => fileOf[id] === codecs && nameOf[id] === name).length
  if (!["writeUnsealed", "readOpened"].every((name) => nameOf.includes(name))) throw new Error(`no codecs in ${codecs}`)
  return {
    files: new Set(files).size,
    functions: new Set(ids).size,
    crossings: files.filter((file, index) => index > 0 && file !== files[index - 1]).length,
    written: callsOf("writeUnsealed"),
    read: callsOf("readOpened")
  }
}

/** The function that records the first event of a run. */
const first = { file: "run/internal/runRecorder.js", name: "begin" }

const wayIn = (ids: ReadonlyArray<number>): WayIn => {
  const names = ids.map((id) => namedOf[id])
  const end = names.findIndex((named) => named?.file === first.file && named.name === first.name)
  if (end < 0) throw new Error(`no ${first.name} of ${first.file} records the first event of a run`)
  const before = new Set(names.slice(0, end).flatMap((named) => (named === undefined ? [] : [named])))
  const here = [...before].filter(({ file }) => /^(agent|run)\//.test(file))
  const crossed = new Set<Named>()
  const leads = ({ refers }: Named): boolean =>
    refers.has(first.name) || [...crossed].some(({ name }) => refers.has(name))
  for (let size = -1; size < crossed.size;) {
    size = crossed.size
    for (const named of here) if (!crossed.has(named) && leads(named)) crossed.add(named)
  }
  const shown = here.filter((named) => crossed.has(named))
  return { crossed: shown.map(({ file, lines, name }) => ({ file, name, lines })), entered: here.length }
}

const detailsOf = (ids: ReadonlyArray<number>): ReadonlyArray<string> => {
  const counts = new Map<string, { entries: number; crossings: number }>()
  ids.forEach((id, index) => {
    const file = fileOf[id] ?? ""
    const count = counts.get(file) ?? { entries: 0, crossings: 0 }
    count.entries += 1
    if (index > 0 && fileOf[ids[index - 1] ?? 0] !== file) count.crossings += 1
    counts.set(file, count)
  })
  return [...counts].map(
    ([file, { crossings, entries }]) => `    ${file}: ${entries} entries, ${crossings} from another file`
  )
}

await measure()
if (process.argv.includes("--json")) {
  const figures = [...entered].map(([part, ids]) => [part, figuresOf(ids)] as const)
  const way = wayIn(entered.get("warm") ?? [])
  process.stdout.write(`${JSON.stringify({ figures: Object.fromEntries(figures), way })}\n`)
} else {
  const { parts } = await import("./stories/scenarios.ts")
  const columns = ["files", "functions", "crossings", "written", "read"] as const
  process.stdout.write(`${"story".padEnd(50)} ${columns.map((column) => column.padStart(10)).join("")}\n`)
  for (const [part, ids] of entered) {
    const figures = figuresOf(ids)
    const row = columns.map((column) => String(figures[column]).padStart(10)).join("")
    process.stdout.write(`${parts[part].padEnd(50)} ${row}\n`)
    if (process.argv.includes("--details")) process.stdout.write(`${detailsOf(ids).join("\n")}\n`)
  }
  const { crossed, entered: all } = wayIn(entered.get("warm") ?? [])
  process.stdout.write(`\nfrom agent.ask to the first event: ${crossed.length} names, of ${all} in agent and run\n`)
  for (const { file, lines, name } of crossed) process.stdout.write(`    ${name} in ${file}, ${lines} lines\n`)
}
