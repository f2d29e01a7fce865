/**
 * Agents without a model: whatever answers can stand where an agent can.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { UserMessage } from "../conversation/Message.ts"
import type { TokenUsage } from "../conversation/TokenUsage.ts"
import type { ValidationIssue } from "../payload/ValidationIssue.ts"
import type { Agent } from "./Agent.ts"
import type { Reason } from "./AgentError.ts"
import type { AgentEvent } from "./AgentEvent.ts"
import * as delegates from "./internal/delegate.ts"
import type { ApprovalRequest } from "./Outcome.ts"
import type { MaxSteps, OutputCheck } from "./RunEvent.ts"
import type { ResumeOptions } from "./RunOptions.ts"
import type { RunState } from "./RunState.ts"

/**
 * What is new since the last time that something was saved, see `RunEvent.ProgressSaved`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Saved {
  readonly facts: ReadonlyArray<Schema.Json>
  readonly requests?: ReadonlyArray<ApprovalRequest> | undefined
  readonly limited?: boolean | undefined
  readonly usage?: TokenUsage | undefined
}

/**
 * The one answer that is asked for.
 *
 * **Details**
 *
 * - `message` is what the user said last; all that was said before is in the
 *   conversation of `state`. An answer that had begun before has a `progress` there: its
 *   facts, and the decisions that it has to take.
 * - `save` records progress: it is in the state before anybody is told, also when it is
 *   interrupted meanwhile. One call at a time.
 * - `emit` tells those who watch; events of runs inside belong in a `Child`.
 * - `depth` is that of this run: one less than that of runs inside.
 *
 * @category models
 * @since 0.1.0
 */
export interface Turn {
  readonly message: UserMessage
  readonly state: () => RunState
  readonly options: ResumeOptions
  readonly depth: number
  readonly maxDepth: number
  readonly streaming: boolean
  readonly save: (saved: Saved) => Effect.Effect<void>
  readonly emit: (event: AgentEvent<unknown>) => Effect.Effect<void>
}

/**
 * How a turn ended.
 *
 * **Details**
 *
 * - `Answered`: with the text that is said, and the output as JSON, checked already.
 * - `Suspended`: what was saved last has `requests` or is `limited`.
 * - `Interrupted`: it stopped by itself and can go on.
 *
 * @category models
 * @since 0.1.0
 */
export type Ended =
  | { readonly _tag: "Answered"; readonly text: string; readonly output?: OutputCheck | undefined }
  | { readonly _tag: "Suspended" }
  | { readonly _tag: "Interrupted"; readonly reason: string | undefined }

/**
 * What answers.
 *
 * **Details**
 *
 * - `digest` says which states it can go on from: those of the same digest.
 * - `maxSteps` is told in the state of a run; what it counts is for `answer` to say.
 * - `answer` begins or goes on with an answer. It is interrupted by the total timeout
 *   and by `interruptWhen`.
 * - `decode` makes the output of the run of the JSON of the answer, or of its text where
 *   there is none.
 * - `output`: the Schema of what it answers, for `Agent.outputSchema`; default not known.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options<A, R> {
  readonly name: string
  readonly digest: string
  readonly maxSteps: MaxSteps
  readonly answer: (turn: Turn) => Effect.Effect<Ended, Reason, R>
  readonly output?: Schema.Codec<A, unknown, unknown, unknown> | undefined
  readonly decode: (output: Schema.Json) => Effect.Effect<A, ReadonlyArray<ValidationIssue>>
}

/**
 * Makes an agent of something that answers.
 *
 * **When to use**
 *
 * Use it to put something of your own where an agent can stand: as a tool of an agent,
 * as a service, as a step of a plan. A plan that is bound is such an agent already.
 *
 * **Details**
 *
 * A run has one step for each user message. While the answer is under way its state holds
 * what was saved, so that another process can go on; requests suspend the run, and the
 * runs around it. `modelRetry`, `modelMistakes` and `defects` hold for the agents that
 * `answer` runs, unless it gives them others; `toolChoice`, `budget`, `timeouts.step` and
 * `timeouts.tool` are what it makes of them.
 *
 * **Example** (An agent that echoes)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Delegate, Message } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const echo = Delegate.make({
 *   name: "echo",
 *   digest: "echo:1",
 *   maxSteps: 1,
 *   answer: ({ message }) => Effect.succeed({ _tag: "Answered", text: Message.text(message) }),
 *   decode: (output) => Effect.succeed(String(output))
 * })
 *
 * assert.strictEqual(Effect.runSync(echo.ask("Hello!")), "Hello!")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <A, R = never>(options: Options<A, R>): Agent<A, R> => delegates.make(options)
