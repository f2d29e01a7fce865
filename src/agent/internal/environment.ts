/** What a run hands down to the runs that start inside it. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { AgentEvent } from "../AgentEvent.ts"
import type { ResumeOptions } from "../RunOptions.ts"

interface Parent {
  /** Whether somebody wants deltas. */
  readonly streaming: boolean
  readonly emit: (event: AgentEvent<unknown>) => Effect.Effect<void>
}

export interface Environment {
  readonly depth: number
  readonly maxDepth: number
  /** When the outermost run has to end, in milliseconds of the Clock. */
  readonly deadline: number | undefined
  /** The run that takes the events of this one, for an agent that is a tool. */
  readonly parent: Parent | undefined
  /** Options of a run around that has no model itself, for the models inside. */
  readonly handed: Handed
}

export type Handed = Pick<ResumeOptions, "defects" | "modelMistakes" | "modelRetry">

const defaultMaxDepth = 8

export const Environment = Context.Reference<Environment>("effect-emissary/agent/internal/Environment", {
  defaultValue: () => ({ depth: 0, maxDepth: defaultMaxDepth, deadline: undefined, parent: undefined, handed: {} })
})
