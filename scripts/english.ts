/**
 * Lists the words that our texts avoid (`scripts/lint/english.ts`), with file and line: in comments and messages of
 * `src`, in comments of `examples`, `scripts`, `bench` and `test`, in the names of tests and in the pages. Pages, comments and messages
 * repeat the noun, too.
 * `npm run lint:english payload` reads only the paths that contain `payload`.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { inComment, inMessage, inPage, inText, isProse, namesTest, type Finding } from "./lint/english.ts"
import { childrenOf, glob, parse, root, walk, type Node } from "./sources.ts"

export interface Hit {
  readonly path: string
  readonly line: number
  readonly word: string
  readonly hint: string
}

export type Area = "src" | "examples" | "scripts" | "test names" | "test comments" | "pages"

const patterns: Record<Area, ReadonlyArray<string>> = {
  src: ["src/**/*.ts"],
  examples: ["examples/**/*.ts"],
  scripts: ["scripts/**/*.ts", "bench/**/*.ts"],
  "test names": ["test/**/*.test.ts"],
  "test comments": ["test/**/*.ts"],
  pages: ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/*.md", "skills/*/SKILL.md"]
}

interface Text {
  readonly start: number
  readonly findings: ReadonlyArray<Finding>
}

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "type" in value

/** The text of a string or of a piece of a template. */
const stringOf = (node: Node): string | undefined => {
  if (node.type === "Literal" && typeof node["value"] === "string") return node["value"]
  const value = node["value"]
  if (node.type !== "TemplateElement" || typeof value !== "object" || value === null || !("raw" in value))
    return undefined
  return typeof value.raw === "string" ? value.raw : undefined
}

const textsOf = (area: Area, path: string, text: string): ReadonlyArray<Text> => {
  if (area === "pages") return [{ start: 0, findings: inPage(text) }]
  const source = parse(path, text)
  const texts: Array<Text> = []
  const find = area === "src" ? inMessage : inText
  const string = (node: Node): void => {
    const value = stringOf(node)
    if (value !== undefined && isProse(value)) texts.push({ start: node.start + 1, findings: find(value) })
  }
  if (area !== "test names") {
    for (const { start, value } of source.comments) texts.push({ start: start + 2, findings: inComment(value) })
    if (area === "src") walk(source.program, string)
    return texts
  }
  walk(source.program, (node) => {
    const callee = node["callee"]
    const name = Array.isArray(node["arguments"]) ? node["arguments"][0] : undefined
    if (node.type !== "CallExpression" || !isNode(callee) || !isNode(name)) return
    if (!namesTest(text.slice(callee.start, callee.end))) return
    if (name.type === "Literal") string(name)
    if (name.type === "TemplateLiteral") childrenOf(name).forEach(string)
  })
  return texts
}

const hitsIn = (area: Area, path: string, text: string): ReadonlyArray<Hit> => {
  const lineAt = (offset: number) => text.slice(0, offset).split("\n").length
  return textsOf(area, path, text)
    .flatMap(({ findings, start }) =>
      findings.map(({ hint, offset, word }) => ({ path, line: lineAt(start + offset), word, hint }))
    )
    .toSorted((a, b) => a.line - b.line)
}

/** The hits of an area, in files whose path holds `part`. */
export const hitsOf = (area: Area, part = ""): ReadonlyArray<Hit> =>
  patterns[area]
    .flatMap((pattern) => glob(pattern))
    .filter((path) => path.includes(part))
    .flatMap((path) => hitsIn(area, path, readFileSync(join(root, path), "utf8")))

export const areas: ReadonlyArray<Area> = ["src", "examples", "scripts", "test names", "test comments", "pages"]

if (import.meta.main) {
  const part = process.argv[2] ?? ""
  const counts = areas.map((area) => {
    const hits = hitsOf(area, part)
    for (const { hint, line, path, word } of hits) process.stdout.write(`${path}:${line} "${word}": ${hint}\n`)
    return [area, hits.length] as const
  })
  process.stdout.write(`${counts.map(([area, count]) => `${area}: ${count}`).join(", ")}\n`)
}
