/**
 * The pure core of a run: which events may follow a state, and what comes next.
 *
 * **When to use**
 *
 * Agents use it for you. Use it directly to write a driver of your own: one that
 * stores events in a database, or that makes each model call a durable activity. A
 * driver asks {@link next}, does it, and applies what happened as events; it needs no
 * other rule. The same answers and results give the same conversation under every
 * driver.
 *
 * **Details**
 *
 * The first rule of this table that fits a state gives its next action.
 *
 * | state | next |
 * |---|---|
 * | has an outcome | `Finished` with it |
 * | interrupted, some calls started | `RunTools`: each of them settled `interrupted` |
 * | interrupted | `Finished`: `Interrupted` |
 * | the newest answer asks for more and used up the budget | `Finished`: `MaxSteps`, its calls stay open |
 * | has progress, which waits for decisions and has none | `AwaitApproval` |
 * | has progress | `CallModel`: the same step again |
 * | open calls that can run or are settled | `RunTools` |
 * | open calls, all waiting for decisions | `AwaitApproval` |
 * | no answer since the newest user message, or none at all in this run | `CallModel` |
 * | answer ended by the provider (`length`, `content-filter`, `error`, `other`) | `Finished`: `Stopped` |
 * | answer with valid output | `Finished`: `Completed` with it |
 * | answer with calls (they have results now), or finish reason `pause` | `CallModel` |
 * | answer of an agent without an output schema | `Finished`: `Completed` |
 * | invalid output, steps left, it came as a call of the output tool | `CallModel` |
 * | invalid output, steps left, `structured: "fallback"` not used yet | `CallModel` for the output alone |
 * | invalid output | `Finished`: `InvalidOutput` |
 *
 * | event | effect | comes only |
 * |---|---|---|
 * | `RunStarted` | makes the state; open calls of the conversation are `Requested`, or `Settled` when their answer was cut off; answers since the last user message count as steps | first |
 * | `InputAdded` | user message appended, steps back to 0; with open calls it waits and does both when the last of them has a result, and no limit holds them up; with progress it waits for the answer | between steps |
 * | `ConversationFitted` | sets the view, which what comes later enters, too | when `next` is a model call |
 * | `StepStarted` | notes the step | when `next` is that step |
 * | `ModelAnswered` | message appended, steps and usage counted, calls `Requested` (`Settled` when cut off, and the output call), progress dropped | in a step |
 * | `ModelMistaken` | problem noted for the next try of the step | in a step |
 * | `ProgressSaved` | facts added, requests set, decisions taken, the limit set, usage added | in a step |
 * | `ApprovalRequested` | `Requested` to `AwaitingApproval` | |
 * | `ApprovalDecided` | `AwaitingApproval` to `Approved`, or to `Settled` as `denied`; with progress, from its requests to its decisions | also after the end |
 * | `ToolStarted` | `Requested` or `Approved` to `Started` | not after an interruption, not over the limit |
 * | `ToolFinished` | result appended, call closed | a call that never started can only fail |
 * | `ChildEvent` | applied to the child state of a `Started` call; its usage is added; with progress only a decision, by its path | |
 * | `RunInterrupted` | nothing starts any more | |
 * | `RunFinished` | sets the outcome | when `next` is that outcome |
 * | `RunResumed` | clears outcome, interruption and the limit it was told about; `next` goes on where it was | |
 *
 * A call that is `Started` when a driver asks for the next action has been lost with
 * the process that ran it (never ask while a batch runs). It is settled `interrupted`
 * and not run again, unless it is an agent: then its own state says how to go on.
 *
 * Applying an event costs the same however long the run is.
 *
 * **Example** (A driver that answers everything itself)
 *
 * ```ts
 * import { DateTime, Effect, Result } from "effect"
 * import { Conversation, Message, RunTransition } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const at = yield* DateTime.now
 *   let state = RunTransition.start({
 *     _tag: "RunStarted",
 *     at,
 *     runId: "run_1",
 *     agent: "support",
 *     definition: "sha256:0",
 *     depth: 0,
 *     maxSteps: 16,
 *     structured: "never",
 *     context: {},
 *     conversation: Conversation.empty
 *   })
 *   state = yield* Effect.fromResult(
 *     RunTransition.apply(state, { _tag: "InputAdded", at, message: yield* Message.user("Hi"), maxSteps: 16 })
 *   )
 *   const action = RunTransition.next(state)
 *   assert(action._tag === "CallModel")
 *   const answered = RunTransition.applyAll(state, [
 *     { _tag: "StepStarted", at, step: action.step, purpose: action.purpose },
 *     { _tag: "ModelAnswered", at, message: yield* Message.assistant("Hello!") }
 *   ])
 *   return RunTransition.next(Result.getOrThrow(answered))
 * })
 *
 * assert.deepStrictEqual(Effect.runSync(program), { _tag: "Finished", outcome: { _tag: "Completed" } })
 * ```
 *
 * @since 0.1.0
 */
import type * as DateTime from "effect/DateTime"
import { dual } from "effect/Function"
import * as Result from "effect/Result"
import { DefinitionChanged, type InvalidDecision } from "./AgentError.ts"
import * as applying from "./internal/transition/apply.ts"
import * as deciding from "./internal/transition/decide.ts"
import * as choosing from "./internal/transition/next.ts"
import type { RunAction, Settlement } from "./RunAction.ts"
import type { RunEvent, RunStarted } from "./RunEvent.ts"
import { RunEventError } from "./RunEventError.ts"
import type { RunState } from "./RunState.ts"

/**
 * The state after the first event.
 *
 * @category transitions
 * @since 0.1.0
 */
export const start = (event: RunStarted): RunState => applying.start(event)

/**
 * The state after one more event.
 *
 * @category transitions
 * @since 0.1.0
 */
export const apply: {
  (event: RunEvent): (self: RunState) => Result.Result<RunState, RunEventError>
  (self: RunState, event: RunEvent): Result.Result<RunState, RunEventError>
} = dual(2, (self: RunState, event: RunEvent) => applying.apply(self, event))

/**
 * The state after some more events. The first that does not fit fails, with its place
 * in the list.
 *
 * @category transitions
 * @since 0.1.0
 */
export const applyAll: {
  (events: Iterable<RunEvent>): (self: RunState) => Result.Result<RunState, RunEventError>
  (self: RunState, events: Iterable<RunEvent>): Result.Result<RunState, RunEventError>
} = dual(2, (self: RunState, events: Iterable<RunEvent>) => foldFrom(self, events))

/**
 * The state of a run from the list of its events, which begins with `RunStarted`.
 *
 * @category transitions
 * @since 0.1.0
 */
export const fold = (events: Iterable<RunEvent>): Result.Result<RunState, RunEventError> => foldFrom(undefined, events)

const foldFrom = (self: RunState | undefined, events: Iterable<RunEvent>): Result.Result<RunState, RunEventError> => {
  let state = self
  let index = 0
  for (const event of events) {
    const applied = state === undefined ? first(event) : applying.apply(state, event)
    if (Result.isFailure(applied)) {
      const { event, path, reason } = applied.failure
      return Result.fail(new RunEventError({ event, path, reason, index }))
    }
    state = applied.success
    index += 1
  }
  return state === undefined ? Result.fail(notStarted("no event")) : Result.succeed(state)
}

const first = (event: RunEvent): Result.Result<RunState, RunEventError> =>
  event._tag === "RunStarted" ? Result.succeed(start(event)) : Result.fail(notStarted(event._tag))

const notStarted = (found: string): RunEventError =>
  new RunEventError({ event: found, path: [], reason: { _tag: "Unexpected", expected: "RunStarted first", found } })

/**
 * What a driver has to do next. Ask when nothing of the run is under way.
 *
 * @category transitions
 * @since 0.1.0
 */
export const next = (self: RunState): RunAction => choosing.next(self)

/**
 * The results of calls that started and were lost, in call order: after an
 * interruption all that started, otherwise those that are no agents with a state of
 * their own. {@link next} gives them too.
 *
 * @category transitions
 * @since 0.1.0
 */
export const recover = (self: RunState): ReadonlyArray<Settlement> => choosing.recover(self)

/**
 * A person's answer to an `ApprovalRequest`.
 *
 * **Details**
 *
 * A denied call is never dispatched: the model sees a `denied` result with the
 * reason. `path` is that of the request, for a call that an agent used as a tool
 * made; it can be left out, unless calls of several agents have the same id. An
 * `ApprovalRequest` with `approved` added is a decision.
 *
 * @category models
 * @since 0.1.0
 */
export interface Decision {
  readonly callId: string
  readonly approved: boolean
  readonly reason?: string | undefined
  readonly path?: ReadonlyArray<string> | undefined
}

/**
 * The events that record decisions. Only calls that wait, by an event of this very
 * run, can be decided about, each of them once.
 *
 * **Details**
 *
 * They can be applied to a run that has ended, and go before its `RunResumed`.
 *
 * **Example** (A decision about a call that does not wait)
 *
 * ```ts
 * import { DateTime, Result } from "effect"
 * import { Conversation, RunTransition } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const at = DateTime.makeUnsafe(0)
 * const state = RunTransition.start({
 *   _tag: "RunStarted",
 *   at,
 *   runId: "run_1",
 *   agent: "support",
 *   definition: "sha256:0",
 *   depth: 0,
 *   maxSteps: 16,
 *   structured: "never",
 *   context: {},
 *   conversation: Conversation.empty
 * })
 *
 * const decided = RunTransition.decide(state, [{ callId: "call_1", approved: true }], at)
 * assert(Result.isFailure(decided))
 * assert.strictEqual(decided.failure.problem, "unknown")
 * ```
 *
 * @category transitions
 * @since 0.1.0
 */
export const decide = (
  self: RunState,
  decisions: ReadonlyArray<Decision>,
  at: DateTime.Utc
): Result.Result<ReadonlyArray<RunEvent>, InvalidDecision> => deciding.decide(self, decisions, at)

/**
 * Refuses a state that another definition made.
 *
 * @category transitions
 * @since 0.1.0
 */
export const checkDefinition = (self: RunState, definition: string): Result.Result<RunState, DefinitionChanged> =>
  self.definition === definition
    ? Result.succeed(self)
    : Result.fail(new DefinitionChanged({ expected: definition, found: self.definition }))
