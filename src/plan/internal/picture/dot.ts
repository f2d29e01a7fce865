/** A drawing in the DOT language of GraphViz. */
import { type Drawing, type Edge, ids, ink, type Item, type Mark, type Shape, styles } from "./drawing.ts"
import { visible } from "./text.ts"

/**
 * A text inside of quotes. GraphViz reads escapes and entities of XML in labels, so
 * backslashes and ampersands are written as what they are.
 */
export const escape = (text: string): string =>
  visible(text).replace(/&/gu, "&amp;").replace(/\\/gu, "\\\\").replace(/"/gu, '\\"')

const quoted = (lines: ReadonlyArray<string>): string => `"${lines.map(escape).join("\\n")}"`

const shapes: Readonly<Record<Shape, string>> = {
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

const arrows: Readonly<Record<Edge["kind"], ReadonlyArray<string>>> = {
  flow: [],
  rejoin: ["style=dashed"],
  data: ["style=dotted", "arrowhead=odot"]
}

const colours = (mark: Mark | undefined): ReadonlyArray<string> =>
  mark === undefined ? [] : [`fillcolor="${styles[mark].fill}"`, `color="${styles[mark].stroke}"`, `fontcolor="${ink}"`]

const style = (mark: Mark | undefined, rounded: boolean): ReadonlyArray<string> => {
  const words = [
    ...(mark === undefined ? [] : ["filled"]),
    ...(rounded ? ["rounded"] : []),
    ...(mark !== undefined && styles[mark].dashed ? ["dashed"] : [])
  ]
  return words.length === 0 ? [] : [`style="${words.join(",")}"`]
}

/** Writes a drawing in the language of GraphViz. */
export const write = (drawing: Drawing): string => {
  const named = ids(drawing.items)
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
        `label=${quoted(item.lines)}`,
        shapes[item.shape],
        ...style(item.mark, item.shape === "agent"),
        ...colours(item.mark)
      ]
      lines.push(`${indent}${id} [${attributes.join(", ")}]`)
      return
    }
    lines.push(`${indent}subgraph cluster_${id} {`)
    lines.push(`${indent}  label=${quoted(item.lines)}`)
    for (const attribute of [...style(item.mark, true), ...colours(item.mark)]) lines.push(`${indent}  ${attribute}`)
    for (const inner of item.items) writeItem(inner, `${indent}  `)
    lines.push(`${indent}}`)
  }
  for (const item of drawing.items) writeItem(item, "  ")

  for (const edge of drawing.edges) {
    const from = named.get(edge.from)
    const to = named.get(edge.to)
    if (from === undefined || to === undefined) continue
    const attributes = [
      ...(edge.label === undefined || edge.label === "" ? [] : [`label=${quoted([edge.label])}`]),
      ...arrows[edge.kind],
      ...(edge.mark === undefined ? [] : [`color="${styles[edge.mark].stroke}"`])
    ]
    lines.push(`  ${from} -> ${to}${attributes.length === 0 ? "" : ` [${attributes.join(", ")}]`}`)
  }
  lines.push("}")
  return `${lines.join("\n")}\n`
}
