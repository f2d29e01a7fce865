/**
 * Diagrams as data, of nodes, groups and edges, written as Mermaid.
 */

import * as Struct from "effect/Struct"
import * as planNames from "./planNames.ts"

/** The shapes of nodes, by the brackets of Mermaid. */
const shapes = {
  start: ["([", "])"],
  end: ["([", "])"],
  join: ["((", "))"],
  tool: ["[[", "]]"],
  agent: ["(", ")"],
  function: ["[", "]"],
  plan: ["{{", "}}"],
  store: ["[(", ")]"],
  choice: ["{", "}"],
  unknown: [">", "]"]
} as const

const inkColor = "#212529"

const markStyles = {
  done: { fill: "#d3f9d8", stroke: "#2b8a3e", dashed: false },
  failed: { fill: "#ffe3e3", stroke: "#c92a2a", dashed: false },
  running: { fill: "#d0ebff", stroke: "#1864ab", dashed: false },
  interrupted: { fill: "#e5dbff", stroke: "#5f3dc4", dashed: true },
  paused: { fill: "#fff3bf", stroke: "#e67700", dashed: false },
  skipped: { fill: "#f1f3f5", stroke: "#868e96", dashed: true },
  concluded: { fill: "#c3fae8", stroke: "#087f5b", dashed: false },
  limit: { fill: "#ffe8cc", stroke: "#d9480f", dashed: false },
  added: { fill: "#d3f9d8", stroke: "#2b8a3e", dashed: false },
  removed: { fill: "#ffe3e3", stroke: "#c92a2a", dashed: true },
  changed: { fill: "#fff3bf", stroke: "#e67700", dashed: false },
  unknown: { fill: "#ffe3e3", stroke: "#c92a2a", dashed: true }
}

/** The mark of a thing: a colour, and always words or signs in its text as well. */
export type Mark = keyof typeof markStyles

export interface Node {
  readonly _tag: "Node"
  readonly key: string
  readonly lines: ReadonlyArray<string>
  readonly shape: keyof typeof shapes
  readonly mark?: Mark | undefined
}

export const makeNode = (key: string, shape: Node["shape"], lines: ReadonlyArray<string>, mark?: Mark): Node => ({
  _tag: "Node",
  key,
  shape,
  lines,
  mark
})

export interface Group {
  readonly _tag: "Group"
  readonly key: string
  readonly lines: ReadonlyArray<string>
  readonly items: ReadonlyArray<Item>
  readonly mark?: Mark | undefined
}

export type Item = Node | Group

/** `flow` is where a run continues, `rejoin` where a branch ends, `data` what is read or written. */
export interface Edge {
  readonly from: string
  readonly to: string
  readonly label?: string | undefined
  readonly kind: "flow" | "rejoin" | "data"
  readonly mark?: "added" | "removed" | undefined
}

export interface Diagram {
  readonly direction: "down" | "right"
  readonly items: ReadonlyArray<Item>
  readonly edges: ReadonlyArray<Edge>
}

/** All nodes and groups, each group before its items. */
const flatten = (items: ReadonlyArray<Item>): ReadonlyArray<Item> =>
  items.flatMap((item) => (item._tag === "Node" ? [item] : [item, ...flatten(item.items)]))

/** Ids of nodes (`n0`, `n1` ...) and groups (`g0` ...) in the order in which they are written. */
const makeIds = (items: ReadonlyArray<Item>): ReadonlyMap<string, string> => {
  let nodes = 0
  let groups = 0
  return new Map(flatten(items).map(({ _tag, key }) => [key, _tag === "Node" ? `n${nodes++}` : `g${groups++}`]))
}

/**
 * A text inside of quotes. Whatever is not a letter, a digit or a space is written by
 * its number, except a few signs where they mean nothing to Mermaid or its Markdown:
 * between two letters or digits, or before a space.
 */
const escapeText = (text: string): string =>
  planNames
    .escapeInvisible(text)
    .replace(/[^\p{L}\p{N} ]/gu, (char, at: number, whole: string) =>
      isPlainText(char, at, whole) ? char : `#${char.codePointAt(0) ?? 0};`
    )

const wordBefore = /[\p{L}\p{N}]$/u

const wordAfter = /^[\p{L}\p{N}]/u

const isPlainText = (char: string, at: number, whole: string): boolean =>
  ("_-.".includes(char) &&
    wordBefore.test(whole.slice(Math.max(0, at - 2), at)) &&
    wordAfter.test(whole.slice(at + 1, at + 3))) ||
  (",:=".includes(char) && whole[at + 1] === " ")

const quote = (lines: ReadonlyArray<string>): string => {
  const text = lines.map(escapeText).join("<br/>")
  return `"${text === "" ? " " : text}"`
}

const arrows: Readonly<Record<Edge["kind"], string>> = { flow: "-->", rejoin: "-.->", data: "-.-o" }

const writeItems = (
  items: ReadonlyArray<Item>,
  ids: ReadonlyMap<string, string>,
  indent = "  "
): ReadonlyArray<string> =>
  items.flatMap((item) => {
    const id = ids.get(item.key) ?? ""
    if (item._tag === "Node") {
      const [open, close] = shapes[item.shape]
      return [`${indent}${id}${open}${quote(item.lines)}${close}`]
    }
    return [
      `${indent}subgraph ${id} [${quote(item.lines)}]`,
      ...writeItems(item.items, ids, `${indent}  `),
      `${indent}end`
    ]
  })

/** The classes of everything that is marked, in the order of the names of the marks. */
const writeClasses = (items: ReadonlyArray<Item>, ids: ReadonlyMap<string, string>): ReadonlyArray<string> => {
  const all = flatten(items)
  return Struct.keys(markStyles)
    .toSorted()
    .flatMap((mark) => {
      const marked = all.flatMap((item) => (item.mark === mark ? [ids.get(item.key) ?? ""] : []))
      if (marked.length === 0) return []
      const { dashed, fill, stroke } = markStyles[mark]
      const style = `fill:${fill},stroke:${stroke},color:${inkColor}${dashed ? ",stroke-dasharray:5 3" : ""}`
      return [`  classDef ${mark} ${style}`, `  class ${marked.join(",")} ${mark}`]
    })
}

/** Writes a drawing as a Mermaid flowchart. Edges to things that are not in the drawing are left out. */
export const writeMermaid = ({ direction, edges, items }: Diagram): string => {
  const ids = makeIds(items)
  const drawn = edges.flatMap(({ from, kind, label = "", mark, to }) => {
    const [start, end] = [ids.get(from), ids.get(to)]
    if (start === undefined || end === undefined) return []
    return [{ line: `  ${start} ${arrows[kind]}${label === "" ? "" : `|${quote([label])}|`} ${end}`, mark }]
  })
  const lines = [
    `flowchart ${direction === "down" ? "TD" : "LR"}`,
    ...writeItems(items, ids),
    ...drawn.map(({ line }) => line),
    ...drawn.flatMap(({ mark }, index) =>
      mark === undefined ? [] : [`  linkStyle ${index} stroke:${markStyles[mark].stroke}`]
    ),
    ...writeClasses(items, ids)
  ]
  return `${lines.join("\n")}\n`
}
