/**
 * Extracts every fenced TypeScript example of README.md, CONTRIBUTING.md, docs/*.md, the skill and of the doc comments under src into
 * `.generated/doc-examples`, one module per example.
 *
 * A generated module keeps the line numbers of its origin: line 42 of `src/payload/Json.ts.42.ts` is line 42 of
 * `src/payload/Json.ts`, so that compiler messages and stack traces point at the comment to mend.
 *
 * ```` ```ts ```` is type-checked and run, ```` ```ts no-run ```` is type-checked only. Nothing else that holds
 * TypeScript or JavaScript is accepted, so no example can go stale unseen.
 */
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"

export interface DocExample {
  /** Path of the file that holds the example, from the root of the repository. */
  readonly origin: string
  /** Line of the opening fence, from 1. */
  readonly line: number
  readonly run: boolean
  readonly code: ReadonlyArray<string>
}

export interface DocModule extends DocExample {
  /** Absolute path of the generated module. */
  readonly module: string
}

export const root = fileURLToPath(new URL("..", import.meta.url))
export const generated = join(root, ".generated", "doc-examples")

const sources = ["README.md", "CONTRIBUTING.md", "docs/*.md", "skills/*/SKILL.md", "src/**/*.ts"]
const scripts = /^(ts|tsx|typescript|js|jsx|javascript|mts|mjs|cts|cjs)\b/

interface Line {
  readonly number: number
  readonly text: string
}

const markdownLines = (text: string): ReadonlyArray<Line> =>
  text.split("\n").map((line, index) => ({ number: index + 1, text: line }))

/** The lines inside doc comments, without their leading asterisk. */
const docLines = (text: string): ReadonlyArray<Line> => {
  let inside = false
  return markdownLines(text).flatMap(({ number, text: line }) => {
    if (!inside) {
      inside = /^\s*\/\*\*/.test(line) && !line.includes("*/")
      return []
    }
    inside = !line.includes("*/")
    return inside ? [{ number, text: line.replace(/^\s*\* ?/, "") }] : []
  })
}

export const examplesOf = (origin: string, text: string): ReadonlyArray<DocExample> => {
  const lines = origin.endsWith(".md") ? markdownLines(text) : docLines(text)
  const examples: Array<DocExample> = []
  let open:
    | { readonly fence: string; readonly indent: string; readonly info: string; readonly line: number }
    | undefined
  let code: Array<string> = []
  for (const { number, text: line } of lines) {
    if (open === undefined) {
      const [, indent, fence, info] = /^( *)(`{3,})([^`]*)$/.exec(line) ?? []
      if (indent !== undefined && fence !== undefined && info !== undefined) {
        open = { fence, indent, info: info.trim(), line: number }
        code = []
      }
      continue
    }
    if (line.trim() !== open.fence) {
      code.push(line.startsWith(open.indent) ? line.slice(open.indent.length) : line)
      continue
    }
    if (open.info === "ts" || open.info === "ts no-run") {
      examples.push({ origin, line: open.line, run: open.info === "ts", code })
    } else if (scripts.test(open.info)) {
      throw new Error(`${origin}:${open.line}: fence an example as "ts" or "ts no-run", not "${open.info}"`)
    }
    open = undefined
  }
  if (open !== undefined) throw new Error(`${origin}:${open.line}: this fence is never closed`)
  return examples
}

export const collect = (): ReadonlyArray<DocExample> =>
  sources
    .flatMap((pattern) => globSync(pattern, { cwd: root }).toSorted())
    .flatMap((origin) => examplesOf(origin, readFileSync(join(root, origin), "utf8")))

const moduleText = ({ code, line, origin }: DocExample): string =>
  [`// Generated from ${origin}:${line}`, ...Array.from({ length: line - 1 }, () => ""), ...code, ""].join("\n")

/** Leaves an equal file alone, so that two runs at once do not disturb each other. */
const write = (path: string, text: string): void => {
  if (existsSync(path) && readFileSync(path, "utf8") === text) return
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

/**
 * Writes the modules and a tsconfig.json that checks them as strictly as the repository checks itself, against the
 * declarations of the build, as the compiler of a user does.
 */
export const generate = (): ReadonlyArray<DocModule> => {
  const config = {
    extends: relative(generated, join(root, "tsconfig.json")),
    // an example may end with an unused value, shown to the reader
    compilerOptions: { noUnusedLocals: false, noUnusedParameters: false, paths: {} },
    include: ["**/*.ts"]
  }
  write(join(generated, "tsconfig.json"), JSON.stringify(config, undefined, 2))
  const modules = collect().map((example) => ({
    ...example,
    module: join(generated, `${example.origin}.${example.line}.ts`)
  }))
  for (const example of modules) write(example.module, moduleText(example))
  const current = new Set(modules.map(({ module }) => module))
  for (const path of globSync("**/*.ts", { cwd: generated })) {
    if (!current.has(join(generated, path))) rmSync(join(generated, path), { force: true })
  }
  return modules
}

if (import.meta.main) {
  for (const { line, module, origin } of generate()) {
    process.stdout.write(`${origin}:${line} -> ${relative(root, module)}\n`)
  }
}
