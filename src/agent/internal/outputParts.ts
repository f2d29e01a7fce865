/** The seam of structured output that is shown while it arrives. `agentPartial` has the code, which only those who show it load. */

import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Delta } from "../../conversation/internal/modelMessages.ts"
import type { Limits } from "../../payload/internal/limits.ts"
import type { StructuredOutput } from "./agentOutput.ts"

/** More of an output: `delta` has the parts as lines of JSON, for `partialValue`, and `value` all parts so far, decoded. */
export interface Shown {
  readonly index: number
  readonly delta: string
  readonly value: unknown
}

/** The output in the answer of one attempt: the parts that deltas of the answer complete. */
export interface PartialOutput {
  readonly add: (deltas: ReadonlyArray<Delta>) => Effect.Effect<ReadonlyArray<Shown>>
}

type Make = (self: StructuredOutput<unknown>, outputTool: string | undefined, limits: Limits) => PartialOutput

/** Reads the output of runs. Runs without it show no parts. */
export const OutputParts = Context.Reference<Make | undefined>("effect-emissary/agent/OutputParts", {
  defaultValue: () => undefined
})
