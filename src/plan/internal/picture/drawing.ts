/** What a picture shows, before it is written in a language of pictures. Keys are never written: ids are made up. */

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

export interface Style {
  readonly fill: string
  readonly stroke: string
  readonly dashed: boolean
}

export const ink = "#212529"

export const styles: Readonly<Record<Mark, Style>> = {
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
export const ids = (items: ReadonlyArray<Item>): ReadonlyMap<string, string> => {
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
export const marked = (
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
