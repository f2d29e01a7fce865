/**
 * Diagrams as data, of nodes, groups and edges, written as Mermaid or as GraphViz.
 */

import * as Struct from "effect/Struct"
import * as planNames from "./planNames.ts"

/** The shapes of nodes: the brackets of Mermaid, and the attribute of GraphViz. */
const shapes = {
  start: ["([", "])", "shape=oval"],
  end: ["([", "])", "shape=oval"],
  join: ["((", "))", "shape=point"],
  tool: ["[[", "]]", "shape=component"],
  agent: ["(", ")", "shape=box"],
  function: ["[", "]", "shape=box"],
  plan: ["{{", "}}", "shape=hexagon"],
  store: ["[(", ")]", "shape=cylinder"],
  choice: ["{", "}", "shape=diamond"],
  unknown: [">", "]", "shape=note"]
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

/** A language of pictures. */
interface Syntax {
  readonly begin: (direction: Diagram["direction"]) => ReadonlyArray<string>
  readonly node: (node: Node, id: string) => string
  readonly open: (group: Group, id: string) => ReadonlyArray<string>
  readonly close: string
  readonly edge: (edge: Edge) => string
  readonly end: (
    edges: ReadonlyArray<Edge>,
    items: ReadonlyArray<Item>,
    ids: ReadonlyMap<string, string>
  ) => ReadonlyArray<string>
}

const writeItems = (
  items: ReadonlyArray<Item>,
  ids: ReadonlyMap<string, string>,
  syntax: Syntax,
  indent = "  "
): ReadonlyArray<string> =>
  items.flatMap((item) => {
    const id = ids.get(item.key) ?? ""
    if (item._tag === "Node") return [indent + syntax.node(item, id)]
    return [
      ...syntax.open(item, id).map((line) => indent + line),
      ...writeItems(item.items, ids, syntax, `${indent}  `),
      indent + syntax.close
    ]
  })

/** The text of a drawing. Edges to things that are not in it are left out. */
const write = ({ direction, edges, items }: Diagram, syntax: Syntax): string => {
  const ids = makeIds(items)
  const drawn = edges.flatMap((edge) => {
    const from = ids.get(edge.from)
    const to = ids.get(edge.to)
    return from === undefined || to === undefined ? [] : [{ ...edge, from, to }]
  })
  const lines = [
    ...syntax.begin(direction),
    ...writeItems(items, ids, syntax),
    ...drawn.map((edge) => `  ${syntax.edge(edge)}`),
    ...syntax.end(drawn, items, ids)
  ]
  return `${lines.join("\n")}\n`
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

const mermaidArrows: Readonly<Record<Edge["kind"], string>> = { flow: "-->", rejoin: "-.->", data: "-.-o" }

/** The classes of everything that is marked, in the order of the names of the marks. */
const mermaidClasses = (items: ReadonlyArray<Item>, ids: ReadonlyMap<string, string>): ReadonlyArray<string> => {
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

const mermaidSyntax: Syntax = {
  begin: (direction) => [`flowchart ${direction === "down" ? "TD" : "LR"}`],
  node: ({ lines, shape }, id) => `${id}${shapes[shape][0]}${quoteMermaid(lines)}${shapes[shape][1]}`,
  open: ({ lines }, id) => [`subgraph ${id} [${quoteMermaid(lines)}]`],
  close: "end",
  edge: ({ from, kind, label = "", to }) =>
    `${from} ${mermaidArrows[kind]}${label === "" ? "" : `|${quoteMermaid([label])}|`} ${to}`,
  end: (edges, items, ids) => [
    ...edges.flatMap(({ mark }, index) =>
      mark === undefined ? [] : [`  linkStyle ${index} stroke:${markStyles[mark].stroke}`]
    ),
    ...mermaidClasses(items, ids)
  ]
}

/** Writes a drawing as a Mermaid flowchart. */
export const writeMermaid = (drawing: Diagram): string => write(drawing, mermaidSyntax)

/**
 * A text inside of quotes. GraphViz reads escapes and entities of XML in labels, so
 * backslashes and ampersands are written as what they are.
 */
const escapeDot = (text: string): string =>
  planNames.escapeInvisible(text).replace(/&/gu, "&amp;").replace(/\\/gu, "\\\\").replace(/"/gu, '\\"')

const quoteDot = (lines: ReadonlyArray<string>): string => `"${lines.map(escapeDot).join("\\n")}"`

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

const dotSyntax: Syntax = {
  begin: (direction) => [
    "digraph {",
    `  rankdir=${direction === "down" ? "TB" : "LR"}`,
    `  node [fontname="Helvetica"]`,
    `  edge [fontname="Helvetica"]`
  ],
  node: ({ lines, mark, shape }, id) => {
    const style = dotStyle(mark, shape === "agent")
    return `${id} [${[`label=${quoteDot(lines)}`, shapes[shape][2], ...style, ...dotColors(mark)].join(", ")}]`
  },
  open: ({ lines, mark }, id) => [
    `subgraph cluster_${id} {`,
    ...[`label=${quoteDot(lines)}`, ...dotStyle(mark, true), ...dotColors(mark)].map((attribute) => `  ${attribute}`)
  ],
  close: "}",
  edge: ({ from, kind, label = "", mark, to }) => {
    const attributes = [
      ...(label === "" ? [] : [`label=${quoteDot([label])}`]),
      ...dotArrows[kind],
      ...(mark === undefined ? [] : [`color="${markStyles[mark].stroke}"`])
    ]
    return `${from} -> ${to}${attributes.length === 0 ? "" : ` [${attributes.join(", ")}]`}`
  },
  end: () => ["}"]
}

/** Writes a drawing in the language of GraphViz. */
export const writeDot = (drawing: Diagram): string => write(drawing, dotSyntax)
