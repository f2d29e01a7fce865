/**
 * Counts the files that a reader opens to follow a story through the library: `npm run stories`, from the build.
 *
 * Every function of `dist` is instrumented as it is loaded and records that it was entered. Of the entries of a story:
 *
 * - **files** is the number of files that have an entered function,
 * - **functions** is the number of functions entered,
 * - **crossings** counts the entries into another file than the entry before.
 *
 * Functions of Effect and of `src/testing` (the model of the stories) are not counted. `-- --details` lists the files
 * of each story, `-- --json` prints the figures for `test/package/stories.test.ts`. They have no limit.
 */
import { Effect } from "effect"
import { registerHooks } from "node:module"
import { pathToFileURL } from "node:url"
import { parse, root, walk, type Node } from "./sources.ts"
import type { Part } from "./stories/scenarios.ts"

export interface Figures {
  readonly files: number
  readonly functions: number
  readonly crossings: number
}

const hook = "recordEntry"

/** The file of each instrumented function, by its number. */
const fileOf: Array<string> = []

/** The numbers of the functions entered in each part, in order. */
const entered = new Map<Part, Array<number>>()
let current: Array<number> | undefined

Object.defineProperty(globalThis, hook, { value: (id: number) => current?.push(id) })

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "type" in value

/** The source with a call of the hook at the beginning of each function. */
const instrumented = (file: string, text: string): string => {
  const inserts: Array<{ readonly at: number; readonly text: string }> = []
  walk(parse(file, text).program, (node) => {
    const body = node["body"]
    if (!/^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(node.type) || !isNode(body)) return
    const call = `${hook}(${fileOf.push(file) - 1})`
    if (body.type === "BlockStatement") inserts.push({ at: body.start + 1, text: `${call};` })
    else inserts.push({ at: body.start, text: `(${call},` }, { at: body.end, text: ")" })
  })
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

const figuresOf = (ids: ReadonlyArray<number>): Figures => {
  const files = ids.map((id) => fileOf[id])
  return {
    files: new Set(files).size,
    functions: new Set(ids).size,
    crossings: files.filter((file, index) => index > 0 && file !== files[index - 1]).length
  }
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
  process.stdout.write(`${JSON.stringify(Object.fromEntries(figures))}\n`)
} else {
  const { parts } = await import("./stories/scenarios.ts")
  process.stdout.write(`${"story".padEnd(52)} files  functions  crossings\n`)
  for (const [part, ids] of entered) {
    const { crossings, files, functions } = figuresOf(ids)
    const figures = `${String(files).padStart(5)} ${String(functions).padStart(10)} ${String(crossings).padStart(10)}`
    process.stdout.write(`${parts[part].padEnd(52)} ${figures}\n`)
    if (process.argv.includes("--details")) process.stdout.write(`${detailsOf(ids).join("\n")}\n`)
  }
}
