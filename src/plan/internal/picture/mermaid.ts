/** A drawing as a Mermaid flowchart. */
import { type Drawing, type Edge, ids, ink, type Item, marked, type Shape, styles } from "./drawing.ts"
import { visible } from "./text.ts"

/**
 * A text inside of quotes. Whatever is not a letter, a digit or a space is written by
 * its number, except a few signs where they mean nothing to Mermaid or its Markdown:
 * between two letters or digits, or before a space.
 */
export const escape = (text: string): string =>
  visible(text).replace(/[^\p{L}\p{N} ]/gu, (char, at: number, whole: string) =>
    isPlain(char, at, whole) ? char : `#${char.codePointAt(0) ?? 0};`
  )

const wordBefore = /[\p{L}\p{N}]$/u
const wordAfter = /^[\p{L}\p{N}]/u

const isPlain = (char: string, at: number, whole: string): boolean =>
  ("_-.".includes(char) &&
    wordBefore.test(whole.slice(Math.max(0, at - 2), at)) &&
    wordAfter.test(whole.slice(at + 1, at + 3))) ||
  (",:=".includes(char) && whole[at + 1] === " ")

const quoted = (lines: ReadonlyArray<string>): string => {
  const text = lines.map(escape).join("<br/>")
  return `"${text === "" ? " " : text}"`
}

const shapes: Readonly<Record<Shape, readonly [string, string]>> = {
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

const arrows: Readonly<Record<Edge["kind"], string>> = { flow: "-->", rejoin: "-.->", data: "-.-o" }

/** Writes a drawing as a Mermaid flowchart. */
export const write = (drawing: Drawing): string => {
  const named = ids(drawing.items)
  const lines = [`flowchart ${drawing.direction === "down" ? "TD" : "LR"}`]

  const writeItem = (item: Item, indent: string): void => {
    const id = named.get(item.key) ?? "n"
    if (item._tag === "Node") {
      const [open, close] = shapes[item.shape]
      lines.push(`${indent}${id}${open}${quoted(item.lines)}${close}`)
      return
    }
    lines.push(`${indent}subgraph ${id} [${quoted(item.lines)}]`)
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
    const label = edge.label === undefined || edge.label === "" ? "" : `|${quoted([edge.label])}|`
    lines.push(`  ${from} ${arrows[edge.kind]}${label} ${to}`)
    if (edge.mark !== undefined) colours.push(`  linkStyle ${count} stroke:${styles[edge.mark].stroke}`)
    count += 1
  }
  lines.push(...colours)

  for (const [mark, members] of marked(drawing.items, named)) {
    const { dashed, fill, stroke } = styles[mark]
    lines.push(`  classDef ${mark} fill:${fill},stroke:${stroke},color:${ink}${dashed ? ",stroke-dasharray:5 3" : ""}`)
    lines.push(`  class ${members.join(",")} ${mark}`)
  }
  return `${lines.join("\n")}\n`
}
