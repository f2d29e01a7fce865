/**
 * Diagrams as data, of nodes, groups and edges, written as Mermaid or as GraphViz.
 */

import * as planNames from "./planNames.ts"

export type Shape = "start" | "end" | "join" | "tool" | "agent" | "function" | "plan" | "store" | "choice" | "unknown"

/** How a thing is marked: by colour, and always by words or signs in its text as well. */
export type Mark =
  | "done"
  | "failed"
  | "running"
  | "interrupted"
  | "paused"
  | "skipped"
  | "concluded"
  | "limit"
  | "added"
  | "removed"
  | "changed"
  | "unknown"

export interface Node {
  readonly _tag: "Node"
  readonly key: string
  readonly lines: ReadonlyArray<string>
  readonly shape: Shape
  readonly mark?: Mark | undefined
}

export interface Group {
  readonly _tag: "Group"
  readonly key: string
  readonly lines: ReadonlyArray<string>
  readonly items: ReadonlyArray<Item>
  readonly mark?: Mark | undefined
}

export type Item = Node | Group

/** `flow` is where a run goes on, `rejoin` where a branch ends, `data` what is read or written. */
export interface Edge {
  readonly from: string
  readonly to: string
  readonly label?: string | undefined
  readonly kind: "flow" | "rejoin" | "data"
  readonly mark?: "added" | "removed" | undefined
}

export interface Drawing {
  readonly direction: "down" | "right"
  readonly items: ReadonlyArray<Item>
  readonly edges: ReadonlyArray<Edge>
}

interface Style {
  readonly fill: string
  readonly stroke: string
  readonly dashed: boolean
}

const inkColor = "#212529"

const markStyles: Readonly<Record<Mark, Style>> = {
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

/** Ids of nodes (`n0`, `n1` ...) and groups (`g0` ...) in the order in which they are written. */
const nodeIds = (items: ReadonlyArray<Item>): ReadonlyMap<string, string> => {
  const found = new Map<string, string>()
  let nodes = 0
  let groups = 0
  const visit = (item: Item): void => {
    if (item._tag === "Node") {
      found.set(item.key, `n${nodes++}`)
    } else {
      found.set(item.key, `g${groups++}`)
      item.items.forEach(visit)
    }
  }
  items.forEach(visit)
  return found
}

/** The ids of everything that is marked, by mark, in the order of the marks. */
const markedNodes = (
  items: ReadonlyArray<Item>,
  named: ReadonlyMap<string, string>
): ReadonlyArray<readonly [Mark, ReadonlyArray<string>]> => {
  const found = new Map<Mark, Array<string>>()
  const visit = (item: Item): void => {
    const id = named.get(item.key)
    if (item.mark !== undefined && id !== undefined) {
      const before = found.get(item.mark)
      if (before === undefined) found.set(item.mark, [id])
      else before.push(id)
    }
    if (item._tag === "Group") item.items.forEach(visit)
  }
  items.forEach(visit)
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1))
}

/**
 * A text inside of quotes. Whatever is not a letter, a digit or a space is written by
 * its number, except a few signs where they mean nothing to Mermaid or its Markdown:
 * between two letters or digits, or before a space.
 */
const escapeMermaid = (text: string): string =>
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

const quoteMermaid = (lines: ReadonlyArray<string>): string => {
  const text = lines.map(escapeMermaid).join("<br/>")
  return `"${text === "" ? " " : text}"`
}

const mermaidShapes: Readonly<Record<Shape, readonly [string, string]>> = {
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
}

const mermaidArrows: Readonly<Record<Edge["kind"], string>> = { flow: "-->", rejoin: "-.->", data: "-.-o" }

/** Writes a drawing as a Mermaid flowchart. */
export const writeMermaid = (drawing: Drawing): string => {
  const named = nodeIds(drawing.items)
  const lines = [`flowchart ${drawing.direction === "down" ? "TD" : "LR"}`]

  const writeItem = (item: Item, indent: string): void => {
    const id = named.get(item.key) ?? "n"
    if (item._tag === "Node") {
      const [open, close] = mermaidShapes[item.shape]
      lines.push(`${indent}${id}${open}${quoteMermaid(item.lines)}${close}`)
      return
    }
    lines.push(`${indent}subgraph ${id} [${quoteMermaid(item.lines)}]`)
    for (const inner of item.items) writeItem(inner, `${indent}  `)
    lines.push(`${indent}end`)
  }
  for (const item of drawing.items) writeItem(item, "  ")

  const colours: Array<string> = []
  let count = 0
  for (const edge of drawing.edges) {
    const from = named.get(edge.from)
    const to = named.get(edge.to)
    if (from === undefined || to === undefined) continue
    const label = edge.label === undefined || edge.label === "" ? "" : `|${quoteMermaid([edge.label])}|`
    lines.push(`  ${from} ${mermaidArrows[edge.kind]}${label} ${to}`)
    if (edge.mark !== undefined) colours.push(`  linkStyle ${count} stroke:${markStyles[edge.mark].stroke}`)
    count += 1
  }
  lines.push(...colours)

  for (const [mark, members] of markedNodes(drawing.items, named)) {
    const { dashed, fill, stroke } = markStyles[mark]
    lines.push(
      `  classDef ${mark} fill:${fill},stroke:${stroke},color:${inkColor}${dashed ? ",stroke-dasharray:5 3" : ""}`
    )
    lines.push(`  class ${members.join(",")} ${mark}`)
  }
  return `${lines.join("\n")}\n`
}

/**
 * A text inside of quotes. GraphViz reads escapes and entities of XML in labels, so
 * backslashes and ampersands are written as what they are.
 */
const escapeDot = (text: string): string =>
  planNames.escapeInvisible(text).replace(/&/gu, "&amp;").replace(/\\/gu, "\\\\").replace(/"/gu, '\\"')

const quoteDot = (lines: ReadonlyArray<string>): string => `"${lines.map(escapeDot).join("\\n")}"`

const dotShapes: Readonly<Record<Shape, string>> = {
  start: "shape=oval",
  end: "shape=oval",
  join: "shape=point",
  tool: "shape=component",
  agent: "shape=box",
  function: "shape=box",
  plan: "shape=hexagon",
  store: "shape=cylinder",
  choice: "shape=diamond",
  unknown: "shape=note"
}

const dotArrows: Readonly<Record<Edge["kind"], ReadonlyArray<string>>> = {
  flow: [],
  rejoin: ["style=dashed"],
  data: ["style=dotted", "arrowhead=odot"]
}

const dotColors = (mark: Mark | undefined): ReadonlyArray<string> =>
  mark === undefined
    ? []
    : [`fillcolor="${markStyles[mark].fill}"`, `color="${markStyles[mark].stroke}"`, `fontcolor="${inkColor}"`]

const dotStyle = (mark: Mark | undefined, rounded: boolean): ReadonlyArray<string> => {
  const words = [
    ...(mark === undefined ? [] : ["filled"]),
    ...(rounded ? ["rounded"] : []),
    ...(mark !== undefined && markStyles[mark].dashed ? ["dashed"] : [])
  ]
  return words.length === 0 ? [] : [`style="${words.join(",")}"`]
}

/** Writes a drawing in the language of GraphViz. */
export const writeDot = (drawing: Drawing): string => {
  const named = nodeIds(drawing.items)
  const lines = [
    "digraph {",
    `  rankdir=${drawing.direction === "down" ? "TB" : "LR"}`,
    `  node [fontname="Helvetica"]`,
    `  edge [fontname="Helvetica"]`
  ]

  const writeItem = (item: Item, indent: string): void => {
    const id = named.get(item.key) ?? "n"
    if (item._tag === "Node") {
      const attributes = [
        `label=${quoteDot(item.lines)}`,
        dotShapes[item.shape],
        ...dotStyle(item.mark, item.shape === "agent"),
        ...dotColors(item.mark)
      ]
      lines.push(`${indent}${id} [${attributes.join(", ")}]`)
      return
    }
    lines.push(`${indent}subgraph cluster_${id} {`)
    lines.push(`${indent}  label=${quoteDot(item.lines)}`)
    for (const attribute of [...dotStyle(item.mark, true), ...dotColors(item.mark)])
      lines.push(`${indent}  ${attribute}`)
    for (const inner of item.items) writeItem(inner, `${indent}  `)
    lines.push(`${indent}}`)
  }
  for (const item of drawing.items) writeItem(item, "  ")

  for (const edge of drawing.edges) {
    const from = named.get(edge.from)
    const to = named.get(edge.to)
    if (from === undefined || to === undefined) continue
    const attributes = [
      ...(edge.label === undefined || edge.label === "" ? [] : [`label=${quoteDot([edge.label])}`]),
      ...dotArrows[edge.kind],
      ...(edge.mark === undefined ? [] : [`color="${markStyles[edge.mark].stroke}"`])
    ]
    lines.push(`  ${from} -> ${to}${attributes.length === 0 ? "" : ` [${attributes.join(", ")}]`}`)
  }
  lines.push("}")
  return `${lines.join("\n")}\n`
}
