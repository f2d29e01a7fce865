/** Draws the results as SVG with Vega-Lite. */
import * as vega from "vega"
import { compile, type TopLevelSpec } from "vega-lite"
import type { Measured, Results } from "./harness.ts"
import type { Metric, Workload } from "./workloads.ts"

interface Bar {
  readonly group: string
  readonly unit: string
  readonly row: string
  readonly value: number
  readonly label: string
  readonly ours: boolean
}

const label = (value: number): string => (value >= 100 ? value.toFixed(0) : value.toPrecision(2))

export const bars = (
  workload: Workload,
  { measured }: Results,
  choose: (measured: Measured) => { readonly group: string; readonly unit: string; readonly metric: Metric } | undefined
): ReadonlyArray<Bar> =>
  measured.flatMap((one) => {
    const chosen = choose(one)
    const value = chosen === undefined ? undefined : one.metrics[chosen.metric]?.median
    if (chosen === undefined || value === undefined) return []
    const ours = one.row.startsWith(workload.ours)
    return [{ group: chosen.group, unit: chosen.unit, row: one.row, value, label: label(value), ours }]
  })

/** One small chart of bars for each group, shortest first, each with its own scale. */
export const draw = (title: string, values: ReadonlyArray<Bar>): Promise<string> => {
  const groups = [...new Set(values.map(({ group }) => group))]
  const x = { field: "value", type: "quantitative", title: null, axis: { grid: false, tickCount: 3 } } as const
  const spec: TopLevelSpec = {
    background: "white",
    padding: 12,
    title: { text: title, anchor: "start", offset: 12 },
    columns: 2,
    concat: groups.map((group) => {
      const data = values.filter((bar) => bar.group === group).toSorted((a, b) => a.value - b.value)
      const y = { field: "row", type: "nominal", sort: data.map(({ row }) => row), title: null } as const
      return {
        title: { text: group, subtitle: data[0]?.unit ?? "", anchor: "start", fontSize: 11, subtitleFontSize: 10 },
        width: 280,
        data: { values: data },
        encoding: { x, y },
        layer: [
          {
            mark: "bar",
            encoding: { color: { condition: { test: "datum.ours", value: "#2563eb" }, value: "#b6bcc6" } }
          },
          { mark: { type: "text", align: "left", dx: 4, fontSize: 10 }, encoding: { text: { field: "label" } } }
        ]
      }
    }),
    resolve: { scale: { x: "independent", y: "independent" } },
    config: { view: { stroke: null }, axis: { domain: false, ticks: false } }
  }
  return new vega.View(vega.parse(compile(spec).spec), { renderer: "none" }).toSVG()
}
