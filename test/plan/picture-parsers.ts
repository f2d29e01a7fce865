/** The parser of Mermaid itself, for the tests of pictures. */
import { Data, Effect } from "effect"

export interface Parsed {
  readonly nodes: ReadonlyMap<
    string,
    { readonly text: string; readonly shape: string; readonly classes: ReadonlyArray<string> }
  >
  readonly edges: ReadonlyArray<{
    readonly from: string
    readonly to: string
    readonly text: string
    readonly line: string
  }>
  readonly groups: ReadonlyArray<{ readonly text: string; readonly members: ReadonlyArray<string> }>
}

/** The parser refused the text. */
class Refused extends Data.TaggedError("Refused")<{ readonly cause: unknown }> {}

/** Mermaid asks for a browser's DOM to clean HTML; here only the text matters. */
const loadMermaid = Effect.promise(async () => {
  const { default: purify } = await import("dompurify")
  Object.assign(purify, { addHook: () => undefined, sanitize: (text: string) => text })
  const { default: mermaid } = await import("mermaid")
  return mermaid
}).pipe(Effect.cached, Effect.runSync)

// Mermaid hides entities from its parser in this form, and shows them when it draws.
const entities = (text: string) =>
  text.replace(/<br\/>/gu, "\n").replace(/ﬂ°°(\d+)¶ß/gu, (_, point: string) => String.fromCodePoint(Number(point)))

interface Db {
  readonly getVertices: () => Map<string, { id: string; text: string; type?: string; classes: Array<string> }>
  readonly getEdges: () => Array<{ start: string; end: string; text: string; stroke: string; type: string }>
  readonly getSubGraphs: () => Array<{ id: string; title: string; nodes: Array<string> }>
}

/** The diagram that Mermaid itself reads. Fails with the error of Mermaid. */
export const mermaid = (source: string): Effect.Effect<Parsed, Refused> =>
  Effect.flatMap(loadMermaid, (mermaid) =>
    Effect.tryPromise({
      try: async () => {
        await mermaid.parse(source)
        const diagram = await mermaid.mermaidAPI.getDiagramFromText(source)
        const db: unknown = diagram.db
        // Sound: the diagram of a flowchart has these methods.
        const { getEdges, getSubGraphs, getVertices } = db as Db
        return {
          nodes: new Map(
            [...getVertices.call(db)].map(([id, { classes, text, type }]) => [
              id,
              { text: entities(text), shape: type ?? "", classes }
            ])
          ),
          edges: getEdges.call(db).map(({ end, start, stroke, text, type }) => ({
            from: start,
            to: end,
            text: entities(text ?? ""),
            line: type === "arrow_circle" ? "data" : stroke === "dotted" ? "rejoin" : "flow"
          })),
          groups: getSubGraphs.call(db).map(({ nodes, title }) => ({ text: entities(title), members: nodes }))
        }
      },
      catch: (cause) => new Refused({ cause })
    })
  )

/** The edges by the first lines of what they connect: `a -> b: label`. */
export const edgesOf = ({ edges, nodes }: Parsed): ReadonlyArray<string> => {
  const name = (id: string) => (nodes.get(id)?.text ?? "?").split("\n")[0]
  return edges.map(({ from, line, text, to }) => {
    const arrow = line === "flow" ? "->" : line === "rejoin" ? "-->" : "..>"
    return `${name(from)} ${arrow} ${name(to)}${text === "" ? "" : `: ${text}`}`
  })
}
