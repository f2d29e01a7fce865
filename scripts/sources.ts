/** Reads the TypeScript and JavaScript of the repository as syntax trees, for the scripts that measure it. */
import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseSync } from "rolldown/utils"

export const root = fileURLToPath(new URL("..", import.meta.url))

export interface Comment {
  readonly type: "Line" | "Block"
  /** The text between the delimiters. */
  readonly value: string
  readonly start: number
  readonly end: number
}

/** A node of an ESTree; the fields depend on its type. */
export interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [field: string]: unknown
}

export interface Source {
  /** Path from the root of the repository, with slashes. */
  readonly path: string
  readonly text: string
  readonly program: Node
  readonly comments: ReadonlyArray<Comment>
  /** The line of an offset, from 1. */
  readonly lineAt: (offset: number) => number
}

/** The paths that match a pattern, in order. */
export const glob = (pattern: string, directory: string = root): ReadonlyArray<string> =>
  globSync(pattern, { cwd: directory, exclude: (name) => name === "node_modules" })
    .map((path) => path.replaceAll("\\", "/"))
    .toSorted()

/** Finds the line of an offset by halving: called once per hit, on files of some thousand lines. */
const lines = (text: string): ((offset: number) => number) => {
  const starts = [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)]
  return (offset) => {
    let low = 0
    let high = starts.length
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if ((starts[middle] ?? 0) <= offset) low = middle
      else high = middle
    }
    return low + 1
  }
}

export const parse = (path: string, text: string): Source => {
  const { comments, errors, program } = parseSync(path, text)
  const [error] = errors
  if (error !== undefined) throw new Error(`${path}: ${error.message}`)
  // the types of ESTree are a union of 200 interfaces: the scripts walk over all nodes alike
  return { path, text, program: program as unknown as Node, comments, lineAt: lines(text) }
}

export const read = (path: string, directory: string = root): Source =>
  parse(path, readFileSync(join(directory, path), "utf8"))

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && "type" in value && typeof value.type === "string"

/** The nodes directly below a node, in the order of the text. */
export const childrenOf = (node: Node): ReadonlyArray<Node> =>
  Object.values(node).flatMap((value) => (Array.isArray(value) ? value.filter(isNode) : isNode(value) ? [value] : []))

/** Calls `visit` with a node and all nodes below it. */
export const walk = (node: Node, visit: (node: Node) => void): void => {
  visit(node)
  for (const child of childrenOf(node)) walk(child, visit)
}

/** The text with its comments replaced by spaces: offsets and lines stay the same. */
export const withoutComments = ({ comments, text }: Source): string => {
  let out = ""
  let from = 0
  for (const { end, start } of comments) {
    out += text.slice(from, start) + text.slice(start, end).replace(/[^\n]/g, " ")
    from = end
  }
  return out + text.slice(from)
}
