/** The golden sessions of today's code, by the names of their files. */
import type { Effect } from "effect"
import * as fleet from "./fleet.ts"
import { record, type Golden } from "./golden.ts"
import { scenarios } from "./scenarios.ts"

export const recordings: ReadonlyArray<{ readonly name: string; readonly record: Effect.Effect<Golden, unknown> }> = [
  ...scenarios.map((scenario) => ({ name: scenario.name, record: record(scenario) })),
  { name: "fleet", record: fleet.record }
]
