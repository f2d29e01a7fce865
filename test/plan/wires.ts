/** Plans as they are on the wire, with a step that every version reads. */
import type { Schema } from "effect"

export const step = (rest: { readonly [key: string]: Schema.Json } = {}) => ({
  name: "s",
  target: { kind: "tool", name: "t" },
  task: { kind: "from_prev" },
  parallel: false,
  ...rest
})

export const plan = (...steps: ReadonlyArray<Schema.Json>) => ({ version: 2, max_iterations: 100, steps })

export const native = (...steps: ReadonlyArray<Schema.Json>) => ({ version: 3, steps })
