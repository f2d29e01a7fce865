/** The parsers of Mermaid and GraphViz themselves, for the tests of pictures. */
import { instance } from "@viz-js/viz"
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

const loadViz = Effect.promise(() => instance()).pipe(Effect.cached, Effect.runSync)

/** The drawing of GraphViz, as SVG. */
export const svg = (source: string): Effect.Effect<string> =>
  Effect.map(loadViz, (viz) => viz.renderString(source, { format: "svg" }))

interface Json {
  readonly objects?: ReadonlyArray<{
    readonly _gvid: number
    readonly name: string
    readonly label?: string
    readonly shape?: string
    readonly style?: string
    readonly nodes?: ReadonlyArray<number>
  }>
  readonly edges?: ReadonlyArray<{
    readonly tail: number
    readonly head: number
    readonly label?: string
    readonly style?: string
  }>
}

const escapes = (text: string) =>
  text.replace(/\\(.)/gu, (_, char: string) => (char === "n" ? "\n" : char)).replace(/&amp;/gu, "&")

/** The graph that GraphViz itself reads. Fails with the error of GraphViz. */
export const graphViz = (source: string): Effect.Effect<Parsed, Refused> =>
  Effect.flatMap(loadViz, (viz) =>
    Effect.try({
      try: () => {
        const result = viz.render(source, { format: "json", engine: "dot" })
        // Warnings are about the widths of letters.
        if (result.status === "failure" || result.errors.some(({ level }) => level === "error")) {
          throw new Error(result.errors.map(({ message }) => message).join("\n"))
        }
        // Sound: the output format json of GraphViz.
        const json = JSON.parse(result.output) as Json
        const objects = json.objects ?? []
        const nameOf = (id: number) => objects.find(({ _gvid }) => _gvid === id)?.name ?? ""
        const nodes = objects.filter(({ name }) => /^n\d+$/u.test(name))
        return {
          nodes: new Map(
            nodes.map(({ label, name, shape, style }) => [
              name,
              { text: escapes(label ?? ""), shape: shape ?? "", classes: style === undefined ? [] : style.split(",") }
            ])
          ),
          edges: (json.edges ?? []).map(({ head, label, style, tail }) => ({
            from: nameOf(tail),
            to: nameOf(head),
            text: escapes(label ?? ""),
            line: style === "dotted" ? "data" : style === "dashed" ? "rejoin" : "flow"
          })),
          groups: objects
            .filter(({ name }) => name.startsWith("cluster_"))
            .map(({ label, nodes }) => ({ text: escapes(label ?? ""), members: (nodes ?? []).map(nameOf) }))
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
