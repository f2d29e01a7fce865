/** What runs in the loop: the model and tools of an agent, or something else that answers. */
import type * as Schema from "effect/Schema"
import type * as Effect from "effect/Effect"
import type { ValidationIssue } from "../../payload/ValidationIssue.ts"
import type { AgentError, Reason } from "../AgentError.ts"
import type { CallModel, RunTools } from "../RunAction.ts"
import type { MaxSteps, StructuredSteps } from "../RunEvent.ts"
import type { ResumeOptions } from "../RunOptions.ts"
import type { RunState } from "../RunState.ts"
import type { Environment } from "./environment.ts"
import type { Recorder } from "./recorder.ts"

/** One run under way. */
export interface Run {
  readonly recorder: Recorder
  readonly options: ResumeOptions
  readonly streaming: boolean
  readonly environment: Environment
}

/** What a machine is for one run. */
export interface Prepared<out A> {
  readonly digest: string
  readonly maxSteps: MaxSteps
  readonly structured: StructuredSteps
  readonly instructions: string | undefined
  /** Whether `timeouts.step` bounds what `perform` does. */
  readonly stepTimeout: boolean
  /** Refuses the states that it cannot go on from. */
  readonly accept: (state: RunState) => Effect.Effect<void, Reason>
  /** Asks for the approvals that calls of the conversation need, before decisions about them are taken. */
  readonly ask: (run: Run, callIds: ReadonlySet<string>) => Effect.Effect<void, AgentError>
  /** Does what is next, until `deadline` at most, and records what happened. */
  readonly perform: (
    run: Run,
    action: CallModel | RunTools,
    deadline: number | undefined
  ) => Effect.Effect<void, AgentError>
  /** The answer of a run that is `Completed`. */
  readonly decode: (text: string, output: Schema.Json | undefined) => Effect.Effect<A, ReadonlyArray<ValidationIssue>>
}

export interface Machine<out A> {
  readonly name: string
  readonly prepare: Effect.Effect<Prepared<A>, Reason>
}
