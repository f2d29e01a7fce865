/**
 * What a streaming run tells while it goes on.
 *
 * Every lasting fact of the run (a `RunEvent`) comes as exactly one event that
 * carries the `RunState` holding it; deltas and progress come between them and
 * are stored nowhere.
 *
 * @since 0.1.0
 */

import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as Message from "../conversation/Message.ts"
import type * as ToolResult from "../tool/ToolResult.ts"
import type * as Run from "./Run.ts"
import type { Result } from "./internal/runOptions.ts"
import type { Purpose } from "./internal/runParts.ts"

/**
 * The run began, or went on after it was resumed.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunStarted {
  readonly _tag: "RunStarted"
  readonly runId: string
  readonly agent: string
  readonly resumed: boolean
  readonly state: Run.State
}

/**
 * A model call begins. `step` counts from 1 for each user message.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepStarted {
  readonly _tag: "StepStarted"
  readonly step: number
  readonly purpose: Purpose
  readonly state: Run.State
}

/**
 * The model call of the current step is made again (`modelRetry`): deltas of this
 * step so far are void.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepRetried {
  readonly _tag: "StepRetried"
  readonly step: number
  readonly attempt: number
}

/**
 * A piece of the answer's text.
 *
 * @category models
 * @since 0.1.0
 */
export interface TextDelta {
  readonly _tag: "TextDelta"
  readonly delta: string
}

/**
 * A piece of the model's reasoning.
 *
 * @category models
 * @since 0.1.0
 */
export interface ReasoningDelta {
  readonly _tag: "ReasoningDelta"
  readonly delta: string
}

/**
 * The model answered. `usage` is what this step used, `total` what the run used so far.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepFinished {
  readonly _tag: "StepFinished"
  readonly step: number
  readonly message: Message.AssistantMessage
  readonly usage: Message.TokenUsage
  readonly total: Message.TokenUsage
  readonly state: Run.State
}

/**
 * A tool call is about to run.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolStarted {
  readonly _tag: "ToolStarted"
  readonly callId: string
  readonly name: string
  readonly arguments: Schema.Json
  readonly state: Run.State
}

/**
 * A tool said how far it is (`context.preliminary` of its handler). Not stored.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolProgress {
  readonly _tag: "ToolProgress"
  readonly callId: string
  readonly name: string
  readonly result: ToolResult.Success
}

/**
 * A tool call has its result. `duration` is zero when nothing was run for it.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolFinished {
  readonly _tag: "ToolFinished"
  readonly callId: string
  readonly name: string
  readonly result: ToolResult.ToolResult
  readonly duration: Duration.Duration
  readonly state: Run.State
}

/**
 * A call waits for somebody's decision.
 *
 * @category models
 * @since 0.1.0
 */
export interface ApprovalRequested {
  readonly _tag: "ApprovalRequested"
  readonly request: Run.ApprovalRequest
  readonly state: Run.State
}

/**
 * An event of an agent that is a tool of this one, under the id of the call. `state` is
 * that of this run, which holds the child's.
 *
 * @category models
 * @since 0.1.0
 */
export interface Child {
  readonly _tag: "Child"
  readonly callId: string
  readonly name: string
  readonly event: AgentEvent<unknown>
  readonly state: Run.State
}

/**
 * Any other lasting fact of the run: a user message, a decision, a mistake of the model, a
 * conversation fitted into its budget.
 *
 * @category models
 * @since 0.1.0
 */
export interface StateChanged {
  readonly _tag: "StateChanged"
  readonly event: Run.Event
  readonly state: Run.State
}

/**
 * The last event: the same result that `run` gives.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunFinished<out A> {
  readonly _tag: "RunFinished"
  readonly result: Result<A>
}

/**
 * One event of a streaming run of an agent with output `A`.
 *
 * @category models
 * @since 0.1.0
 */
export type AgentEvent<A> =
  | RunStarted
  | StepStarted
  | StepRetried
  | TextDelta
  | ReasoningDelta
  | StepFinished
  | ToolStarted
  | ToolProgress
  | ToolFinished
  | ApprovalRequested
  | Child
  | StateChanged
  | RunFinished<A>

/**
 * Runs a stream to its end, for the result in its last event.
 *
 * **When to use**
 *
 * Use to show a run while it goes on and still have what `run` gives.
 *
 * **Gotchas**
 *
 * The stream of an agent fails or ends with `RunFinished`. Of a stream that was cut
 * short (`Stream.take`, a filter that drops the last event) there is no result: that
 * is a defect.
 *
 * **Example** (Printing while it runs)
 *
 * ```ts
 * import { Effect, Stream } from "effect"
 * import { Agent, AgentEvent } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const greeter = Agent.make("greeter", { instructions: "Greet people." })
 *
 * const printed: Array<string> = []
 * const result = await greeter.stream("Hello, I am Ada.").pipe(
 *   Stream.tap((event) =>
 *     Effect.sync(() => {
 *       if (event._tag === "TextDelta") printed.push(event.delta)
 *     })
 *   ),
 *   AgentEvent.result,
 *   Effect.provide(ScriptedModel.layer([{ text: "Welcome, Ada!" }])),
 *   Effect.runPromise
 * )
 * assert.strictEqual(result.outcome, "Completed")
 * assert.strictEqual(printed.join(""), result.text)
 * ```
 *
 * @category running
 * @since 0.1.0
 */
export const result = <A, E, R>(self: Stream.Stream<AgentEvent<A>, E, R>): Effect.Effect<Result<A>, E, R> =>
  Effect.flatMap(
    Stream.runLast(self),
    Option.match({
      onNone: () => noResult("no event"),
      onSome: (event) => (event._tag === "RunFinished" ? Effect.succeed(event.result) : noResult(event._tag))
    })
  )

const noResult = (found: string): Effect.Effect<never> =>
  Effect.die(
    new Error(
      `AgentEvent.result: expected RunFinished as the last event, found ${found}. Give it the whole stream of an agent.`
    )
  )
