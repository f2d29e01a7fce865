/**
 * One execution of an agent as data: its state, the journal of its events, the rules that lead from one to the next, and
 * their codecs.
 *
 * **When to use**
 *
 * Use it to store a run, to show it and to resume it, in another process if need be. Agents apply the rules for you.
 * Use {@link next} and {@link apply} directly to write a driver of your own, for example a driver that makes each model
 * call a durable activity. A driver asks {@link next}, performs the action, and applies the results as events. It needs
 * no other rule. The same answers and results make the same conversation under every driver.
 *
 * **Details**
 *
 * The first rule of this table that fits a state decides its next action.
 *
 * | state | next |
 * |---|---|
 * | has an outcome | `Finished` with it |
 * | interrupted, some calls started | `RunTools`: each of them settled `interrupted`, none runs again |
 * | interrupted | `Finished`: `Interrupted`, or `BudgetExceeded` at the end of the time of a budget |
 * | a guard has refused | `Finished`: `Refused`, its calls stay open |
 * | a budget has refused a call | `Finished`: `BudgetExceeded`, or `AwaitingApproval` where the budget asks; its calls stay open |
 * | the newest answer asks for more and used up the budget | `Finished`: `MaxSteps`, its calls stay open |
 * | has a plan, which waits for decisions and has none since | `Finished`: `AwaitingApproval` |
 * | has a plan | `CallModel`: the same step again |
 * | open calls that can run or are settled | `RunTools` |
 * | open calls, all waiting for decisions | `Finished`: `AwaitingApproval` |
 * | a handoff that an answer has asked for | `HandOff` |
 * | no answer since the newest user message, or none at all in this run | `CallModel` |
 * | answer ended by the provider (`length`, `content-filter`, `error`, `other`) | `Finished`: `Stopped` |
 * | answer with valid output | `Finished`: `Completed` with it |
 * | answer with calls (they have results now), or finish reason `pause` | `CallModel` |
 * | answer without anything, steps left, the first one after the other | `CallModel` |
 * | answer without anything | `Finished`: `Stopped`, with the reason `empty` |
 * | answer of an agent without an output schema | `Finished`: `Completed` |
 * | invalid output, steps left, it came as a call of the output tool | `CallModel` |
 * | invalid output, steps left, `structured: "fallback"` not used yet | `CallModel` for the output alone |
 * | invalid output | `Finished`: `InvalidOutput` |
 *
 * | event | effect | condition |
 * |---|---|---|
 * | `RunStarted` | makes the state; open calls of the conversation are `Requested`, or `Settled` when their answer was cut off; answers since the last user message count as steps | first |
 * | `InputAdded` | user message and new instructions appended, steps back to 0; with open calls it waits and does both when the last of them has a result, and no limit holds them up; with a plan it waits for the answer | between steps |
 * | `InputAdded` without `maxSteps` | user message and new instructions appended, steps stay | when `next` is a model call, and not for the rest of a paused answer or for a plan |
 * | `ConversationFitted` | sets the view; later messages enter it, too | when `next` is a model call |
 * | `StepStarted` | notes the step | when `next` is that step |
 * | `ModelAnswered` | message appended, steps and usage counted, calls `Requested` (`Settled` when cut off, and the output call), plan dropped | in a step |
 * | `AnswerDiscarded` | usage added, plan dropped | in a step, or with a plan |
 * | `ModelMistaken` | problem noted for the next try of the step | in a step |
 * | `StepRetried` | attempt noted, and the model that the run continues with | in a step, with the next number, or with 1 and a `model` |
 * | `BudgetNeared` | noted, so that it comes once for each limit | in a run with a budget |
 * | `BudgetExceeded` | ends the run, with its calls open; a model call that was announced is not made | |
 * | `GuardDecided` | `Refused` ends the run, with its calls open, and withholds the message `messageId`; other `arguments` of a call are noted; what is `held` waits for a decision | with `arguments`: the call is `Requested` |
 * | `GuardUsed` | usage added | |
 * | `PlanEvent` | applied to the state of the plan; the limit set, usage added | in a step; a decision also after the end |
 * | `ApprovalRequested` | `Requested` to `AwaitingApproval`; `Approved`, too, where the approval no longer holds | |
 * | `ApprovalDecided` | `AwaitingApproval` to `Approved`, or to `Settled` as `denied`, or with the answer; what is held passes, or is refused | with the digest of the request; also after the end |
 * | `ToolStarted` | `Requested` or `Approved` to `Started`, which keeps `idempotent` and the approval | not after an interruption, not over the limit |
 * | `ToolFinished` | result appended, call closed; a `handoff` is noted | a call that never started can only fail; one `handoff` of an answer, of a success |
 * | `HandedOff` | the agent has the conversation: its instructions are appended, the view begins with them, and has what the handoff leaves | when `next` is that handoff |
 * | `ChildEvent` | applied to the child state of a `Started` call; its usage is added | |
 * | `RunInterrupted` | nothing starts any more | |
 * | `ConversationRewound` | the conversation ends before the user message; calls, messages that wait, the plan and the answer are gone, usage and steps of the whole run stay, and the outcome is `Interrupted`. A message that waits for calls is removed with those after it, and the calls stay | any time |
 * | `RunFinished` | sets the outcome | when `next` is that outcome |
 * | `RunResumed` | clears outcome, interruption, the reported limit, the limit of a budget and the `model` that the run continued with; budgets begin; `next` continues from there | |
 *
 * A call that is `Started` when a driver asks for the next action has been lost with
 * the process that ran it (never ask while a batch runs). It is not known whether it took
 * effect. It is settled `interrupted` with the value `{ outcome: "unknown" }` and not run again,
 * with two exceptions: an agent continues from its own state, and a call of a tool that is
 * `Tool.Idempotent` is one of the calls to run, with `started: true`.
 *
 * In a run with a budget each event adds what it costs, and the time since the event before, to the `account` of the run, and to the
 * accounts of the runs around it.
 *
 * Applying an event costs the same however long the run is.
 *
 * **Example** (A driver that answers everything itself)
 *
 * ```ts
 * import { DateTime, Effect, Result } from "effect"
 * import { Conversation, Message, Run } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const at = yield* DateTime.now
 *   let state = Run.start({
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
 *     Run.apply(state, { _tag: "InputAdded", at, message: yield* Message.user("Hi"), maxSteps: 16 })
 *   )
 *   const action = Run.next(state)
 *   assert(action._tag === "CallModel")
 *   const answered = Run.applyAll(state, [
 *     { _tag: "StepStarted", at, step: action.step, purpose: action.purpose },
 *     { _tag: "ModelAnswered", at, message: yield* Message.assistant("Hello!") }
 *   ])
 *   return Run.next(Result.getOrThrow(answered))
 * })
 *
 * assert.deepStrictEqual(Effect.runSync(program), { _tag: "Finished", outcome: { _tag: "Completed" } })
 * ```
 *
 * @since 0.1.0
 */

import type * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as handoffs from "../run/internal/handoffs.ts"
import * as runParts from "../run/internal/runParts.ts"
import type { Event, State } from "../run/internal/runParts.ts"
import * as runFold from "../run/internal/runFold.ts"
import * as runTransition from "../run/internal/runTransition.ts"

export { EventError } from "../run/internal/runFold.ts"

export { type Action, apply, decide, DefinitionChanged, next, requests, start } from "../run/internal/runTransition.ts"

export {
  answer,
  type Approvable,
  approve,
  approveAll,
  type Batch,
  batch,
  type DecisionOptions,
  deny,
  denyAll,
  InvalidDecision,
  isApprovable
} from "../run/internal/runRequests.ts"

export {
  /**
   * A request of a run to a person, who decides, or to a front end, which makes a call. A Schema with `cases`, `guards`
   * and `match`.
   *
   * **Details**
   *
   * - `Approval`: may the call of the tool `name` run with these `arguments`? They are what the call will run with.
   * - `Pause`: the step `name` of a plan has paused, for the `reason` in its `arguments`. Approved it continues, and reads the
   *   reason of the decision. Or the guard `name` asks about a value that it holds: approved the value passes, denied the run ends as
   *   `Refused`, with the reason of the decision. Its `callId` begins with `guard/`.
   * - `Question`: the tool, step or agent `name` asks the `question` in its `arguments`. The answer has to fit the JSON
   *   Schema `schema`: a front end makes a form of it.
   * - `Call`: the front end runs the client-side tool `name` with these `arguments`, and answers with its result, which has to
   *   fit `schema`, see `ClientTool`.
   *
   * `Question.tool` and `Question.ask` make questions. All requests have `name` and `arguments` as a person reads them,
   * and the same identity. `digest` identifies the request: it covers what is shown, the contract of the tool
   * or the definition of the plan, and the place that asks, so that no other request of this run has it. A second run that
   * begins with the same conversation asks the same, so a decision counts there, too, whatever its `RunContext`. Use a
   * `Session`, which takes a decision once, or resume states and keep only the newest one. `path` holds the ids of the
   * enclosing calls, outermost first, for a call of an agent that is itself a tool of this one. Where a plan runs that
   * agent, the names of the plan's steps are part of the path. It is absent for requests of the run itself, and empty
   * where a request inside has the same id. A step of a plan that waits has the name of the step and its turn as its
   * `callId`.
   *
   * **Example** (What an agent, a plan and a session wait for)
   *
   * ```ts
   * import { Effect, Layer, Option, Schema } from "effect"
   * import { Tool, Toolkit } from "effect/ai"
   * import { Agent, Run, VersionedStore } from "effect-emissary"
   * import { Plan, Step } from "effect-emissary/plan"
   * import { Session } from "effect-emissary/session"
   * import { ScriptedModel } from "effect-emissary/testing"
   * import assert from "node:assert"
   *
   * const show = Run.Request.match({
   *   Approval: ({ arguments: args, name }) => `${name} ${JSON.stringify(args)}`,
   *   Pause: ({ arguments: { reason }, name }) => `${name}: ${reason}`,
   *   Question: ({ arguments: { question } }) => question,
   *   Call: ({ name }) => name
   * })
   *
   * const toolkit = Toolkit.make(
   *   Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
   * )
   * const cashier = Agent.make("cashier", { toolkit })
   *
   * const program = Effect.gen(function*() {
   *   const asked = yield* cashier.run("Pay 5 euros")
   *   assert(asked.outcome === "AwaitingApproval")
   *   assert.deepStrictEqual(asked.requests.map(show), [`pay {"amount":5}`])
   *   const paid = yield* cashier.resume(asked.state, { decisions: asked.requests.filter(Run.isApprovable).map(Run.approve) })
   *   assert.strictEqual(paid.text, "Paid.")
   *
   *   const plan = yield* Plan.make("release", [
   *     Step.make("publish", { target: ({ decision }) => decision ? Effect.succeed("out") : Step.pause("Ready?") })
   *   ])
   *   const bound = yield* Plan.bind(plan)
   *   const paused = yield* Plan.run(bound, "news")
   *   assert(paused.outcome === "Paused")
   *   assert.deepStrictEqual(paused.requests.map(show), ["publish: Ready?"])
   *   const published = yield* Plan.resume(bound, paused.state, { decisions: paused.requests.filter(Run.isApprovable).map(Run.approve) })
   *   assert.strictEqual(published.outcome, "Completed")
   *
   *   yield* Session.turn("till/1", "Pay 7 euros")
   *   const { requests } = Option.getOrThrow(yield* Session.state("till/1"))
   *   assert.deepStrictEqual(requests.map(show), [`pay {"amount":7}`])
   *   const decisions = requests.map((request) => Run.deny(request, { reason: "Too much." }))
   *   const denied = yield* Session.decide("till/1", decisions)
   *   assert.strictEqual((yield* Session.await("till/1", denied)).text, "Not paid.")
   * })
   *
   * const model = ScriptedModel.layer([
   *   { toolCalls: [{ name: "pay", params: { amount: 5 } }] },
   *   { text: "Paid." },
   *   { toolCalls: [{ name: "pay", params: { amount: 7 } }] },
   *   { text: "Not paid." }
   * ])
   * const sessions = Session.layer([cashier]).pipe(Layer.provide(VersionedStore.layerMemory))
   * await Effect.runPromise(
   *   Effect.provide(
   *     program,
   *     sessions.pipe(Layer.provideMerge(model), Layer.provideMerge(toolkit.toLayer({ pay: () => Effect.void })))
   *   )
   * )
   * ```
   *
   * @category models
   * @since 0.1.0
   */
  Request,
  /**
   * The decision about a {@link Request}, as a Schema that decodes decisions from outside. {@link approve}, {@link deny} and
   * {@link answer} make one.
   *
   * **Details**
   *
   * It names the `digest` of the request, and is refused for any other request: for other arguments, another turn, another
   * contract of the tool. A run that is resumed after an edit keeps its requests, see `onChange` of `Agent.ResumeOptions`. A
   * denied call is never dispatched: the model sees a `denied` result with the `reason`. `answer` has to fit the JSON Schema
   * of a request that has one, and is absent for all others. `path` is the path of the request; it can be left out, unless
   * requests of several agents have the same id and digest. `batch` is the digest of the list that is decided as one, see
   * `Run.batch`. With `remember`, equal calls of a session have the same answer. `decidedBy` names who decided. From `expiresAt` on a decision
   * no longer counts: it is refused, and a call that was approved and has not started asks again.
   *
   * **Example** (A decision with an expiry)
   *
   * ```ts
   * import { Effect, Schema } from "effect"
   * import { Run } from "effect-emissary"
   * import assert from "node:assert"
   *
   * // what a form sends
   * const body = {
   *   callId: "call_1",
   *   digest: "sha256:4f2a",
   *   approved: true,
   *   decidedBy: "ada@example.com",
   *   expiresAt: "2026-11-22T18:00:00Z"
   * }
   *
   * const decision = await Effect.runPromise(Schema.decodeUnknownEffect(Run.Decision)(body))
   * assert.strictEqual(decision.decidedBy, "ada@example.com")
   * ```
   *
   * @category models
   * @since 0.1.0
   */
  Decision
} from "../run/internal/runRequests.ts"

export {
  /**
   * The outcome of a run, as a Schema with `cases`, `guards`, `isAnyOf` and `match`.
   *
   * **Details**
   *
   * - `Completed`: the model returned its final answer. `output` is the JSON it holds,
   *   when the agent has an output schema.
   * - `MaxSteps`: the last answer the budget allows asked for more. Its calls are open. Of a
   *   plan: it used up its iterations.
   * - `BudgetExceeded`: a budget of the run, or of a run around it, has refused a call, or its time is over, see `Budget`.
   * - `AwaitingApproval`: the run needs these decisions.
   * - `Interrupted`: the run was stopped, for this `reason`.
   * - `InvalidOutput`: the final answer does not fit the output schema.
   * - `Stopped`: the provider ended the answer early, or (`empty`) the model answered with nothing, twice.
   * - `LoopDetected`: the model called these `tools` so many `times` in a row, each time with the same arguments and results.
   * - `Refused`: the guard of this name refused `on` a place of the run, for this `reason`, see `Guard`.
   *
   * **Example** (Matching outcomes)
   *
   * ```ts
   * import { Run } from "effect-emissary"
   * import assert from "node:assert"
   *
   * const line = Run.Outcome.match({
   *   Completed: () => "done",
   *   MaxSteps: () => "needs more steps",
   *   BudgetExceeded: ({ unit }) => `has used up its ${unit}`,
   *   AwaitingApproval: ({ requests }) => `waits for ${requests.length} decisions`,
   *   Interrupted: ({ reason }) => `interrupted: ${reason ?? "no reason given"}`,
   *   InvalidOutput: ({ issues }) => `${issues.length} problems in the answer`,
   *   Stopped: ({ finishReason }) => `the provider stopped: ${finishReason}`,
   *   LoopDetected: ({ tools }) => `went in circles with ${tools.join(", ")}`,
   *   Refused: ({ reason }) => `refused: ${reason}`
   * })
   * assert.strictEqual(line({ _tag: "Stopped", finishReason: "length" }), "the provider stopped: length")
   * ```
   *
   * @category models
   * @since 0.1.0
   */
  Outcome,
  /**
   * The end of a run or a turn, for the caller who waited for it: `outcome` is the tag of the {@link Outcome}, with its details beside
   * it, and with `Base`, which every end has. {@link Outcome} itself is what states and events keep.
   *
   * @category models
   * @since 0.1.0
   */
  type Ended,
  /**
   * One fact of a run.
   *
   * **Details**
   *
   * - `RunStarted`: always the first event, and only the first. `definition` is the digest of
   *   the agent's definition. `conversation` is the history that the run starts from, with
   *   instructions and without the new user message (an `InputAdded`); it may end in open
   *   calls. `depth` is 0 for a run that a program started, and one more than its parent's
   *   for an agent that is a tool. `parts` are short digests of the parts of the definition, for the list of changes.
   * - `InputAdded`: a user message, with a fresh budget of steps (`maxSteps`). While calls are open the message waits: it
   *   enters the conversation together with the result of the last of them. A message without `maxSteps` steers: it enters a run
   *   under way before a model call, and has the rest of its budget. `instructions` are new instructions of a session's
   *   agent: a system message that enters the conversation behind the message.
   * - `ConversationFitted`: the conversation passed the agent's `contextWindow`. From here on models
   *   receive the view and later messages. The conversation of the run stays whole. `view` are the ids of messages
   *   of the conversation, or of the view before, and between them the messages that only the view has: a summary, and shortened
   *   results. `beside` are the tokens that the request has beside its messages. One event serves many steps.
   * - `StepStarted`: a model call is about to be made. `step` counts from 1 for each user message. In a run with a budget `reserved`
   *   is the reservation of the call, and `spent` of the event that ends the call is what counts in its place.
   * - `ModelAnswered`: the whole message, with usage and finish reason, call ids already unique in the conversation.
   *   `output` is present when the agent has an output schema and this answer was read as its output. Without a
   *   `value` the output is what the model wrote: the arguments of the output call, or else the JSON of the text. `outputCall` is
   *   the id of the call of the synthetic output tool. `contracts` are the contracts of called tools that no earlier
   *   event has.
   * - `AnswerDiscarded`: an answer cannot be used, because the request broke off or the provider's adapter refused it.
   *   Of a plan: the steps that have not run do not run any more. `usage` is what it cost. An error without reported
   *   tokens makes no event.
   * - `ModelMistaken`: the provider's adapter refused the answer, for an unknown tool or
   *   malformed arguments. The answer is not stored; `problem` is part of the next request.
   * - `StepRetried`: the model call failed with `error`, the tag of a reason of an `AiError`, or `TimeoutError`. Attempt number
   *   `attempt`, from 2 on, follows after `pauseMillis`. With `model` the run continues with the model of this name, and `attempt` is 1.
   *   The text that the failed attempt had written does not count.
   * - `BudgetNeared`: 80 % of a limit are used. `BudgetExceeded`: a budget refuses the next call, or the time is over; the run ends. A
   *   budget that asks records an `ApprovalRequested` with the limit (`budget`), and the `ApprovalDecided` has the amount that the answer
   *   grants (`granted`).
   * - `GuardDecided`: a guard has refused or replaced a value, or asks a person for a call (`callId`), or for another value, which is
   *   `held`. `arguments` are the arguments of the call from here on. `messageId` is the message of the user that the verdict is about, where
   *   the message has entered the run. A guard that lets a value pass makes no event.
   * - `GuardUsed`: a guard has decided, with the `usage` of the models that it asked; `spent` is their part of the budgets.
   * - `PlanEvent`: an event of the plan that answers in place of a model, see `PlanRun.Event`. The plan waits from a
   *   `PlanFinished` with the outcome `Paused` on, and has used up its budget with `LimitReached`.
   * - `ApprovalRequested`: a call needs a decision before it may run, or a new decision, because its approval no longer
   *   holds. With `ask` it needs an answer that fits its JSON Schema, which is the result of the call. `name` is the name of the tool. `arguments` are what the call will run with:
   *   checked, with defaults filled in. `digest` is the digest of the request. `contract` is present if the contract of
   *   the tool changed since the answer.
   * - `ApprovalDecided`: the decision about a call, with who made it and its expiry where it has them.
   * - `ToolStarted`: a call is about to run. There is one such event for a call. From here on it never
   *   starts again, unless `idempotent` is `true`: its tool is `Tool.Idempotent`, so that a call that is
   *   lost with its process runs a second time. `contract` is as in
   *   `ApprovalRequested`.
   * - `ToolFinished`: a call has its result. `durationMillis` is absent for a result that
   *   nothing was run for. `cause` names what ended the call unexpectedly, such as the
   *   class of a defect; its text is in the log. `asked` is `true` if a person was asked for the call. `handoff` names the agent to which
   *   the call passes the conversation on, and the part that this agent sees of it, see `Agent.handoff`.
   * - `HandedOff`: the `agent` has the conversation from here on, and answers the next messages, too. `message` has its instructions, and
   *   `structured` is present where it has another value for this agent. Models of the agent before are not asked any more.
   * - `ChildEvent`: an event in the run of an agent that is a tool of this one.
   * - `RunInterrupted`: the run was stopped. Calls that had started still get their results.
   * - `ConversationRewound`: the user message with the id `messageId` was removed, with everything after it.
   * - `RunFinished`: the run ended. It continues after a `RunResumed`. In a run inside another one `Completed` has no output: it is
   *   the output of the newest answer.
   * - `RunResumed`: without `maxSteps` the budget stays as it was, without `context` the
   *   RunContext does. `change` is present if the run continues under another definition: its digest, its
   *   parts, and what changed. With `back` the conversation goes back to the agent of the run. `budgets` begin here, and `lost` is what a model call had reserved that was lost with its process.
   *
   * @category models
   * @since 0.1.0
   */
  type Event,
  /**
   * The state of a run: an immutable value.
   *
   * **Details**
   *
   * - `view`: the conversation that models receive, where a `contextWindow` requires a shorter one, or after a handoff.
   *   The conversation itself stays whole.
   * - `steps` counts the answers to the newest user message, against `maxSteps`; `totalSteps` counts the answers of the
   *   whole run.
   * - `usage` adds up the run and the runs of agents that were its tools.
   * - `calls` are the open calls in call order, `pending` user messages that wait for them.
   *   The `status` of a call is one of:
   *   - `Requested`: the model asked for it; nothing has been done.
   *   - `AwaitingApproval`: it needs a decision before it may run with these `arguments`, or, with `ask`, an answer that
   *     is its result.
   *   - `Approved`: it may run with these `arguments`, until `expiresAt` and while its request
   *     would have the same `digest`.
   *   - `Settled`: its result is known and nothing is to be run: it was denied or answered, or its
   *     answer was cut off, or it carried the agent's output.
   *   - `Started`: it runs, or ran when the process died. `child` is the state of the
   *     agent behind it, if there is one and it has begun. With `idempotent` it may run again,
   *     with `approved`, where it was approved.
   * - `revision` counts the events, the first one included.
   * - `account`: what a run with a budget has used, see `Budget`. `exceeded`: the limit of a budget that ends the run, or
   *   that the run asks about (`asked`).
   * - `limited`: the last answer used up the budget and asked for more.
   * - `step`: a model call that was announced and has not answered yet.
   * - `mistakes`: problems that the next request of this step reports to the model.
   * - `handoffs`: the handoffs of the conversation, oldest first, see {@link activeAgent}. One without a `message` is next.
   * - `plan`: the state of the plan that answers in place of a model. There are no open calls meanwhile, and user messages
   *   wait.
   * - `fresh`: no model call was answered, and no event of a plan added, since the run was started or resumed. A message that waits
   *   for a plan ends it, too.
   * - `definition` is the digest of the definition that the run began with. `basis` is the part that a resume compares: the newest
   *   `definition`, its `parts`, and the `contracts` that calls were made for. The `contract` of an open call is the
   *   digest of one of them.
   *
   * @category models
   * @since 0.1.0
   */
  type State
} from "../run/internal/runParts.ts"

export type { EventOf } from "../run/internal/runEvents.ts"

/**
 * The name of the agent that has the conversation of a run: the agent of the newest handoff, or the agent that the run began with. See
 * `Agent.handoff`.
 *
 * @category getters
 * @since 0.1.0
 */
export const activeAgent: (self: State) => string = handoffs.activeAgent

/**
 * The codec of one event: version 1, in the field `version`. Its cost does not depend
 * on the run, except for the conversation a run starts from.
 *
 * **Example** (Storing an event)
 *
 * ```ts
 * import { DateTime, Effect } from "effect"
 * import { Run } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const event: Run.Event = { _tag: "ToolStarted", at: yield* DateTime.now, callId: "call_1" }
 *   const text = yield* Run.eventCodec.encodeJson(event)
 *   return yield* Run.eventCodec.decodeJson(text)
 * })
 *
 * assert.strictEqual(Effect.runSync(program)._tag, "ToolStarted")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const eventCodec: VersionedCodec.VersionedCodec<Event> = VersionedCodec.single({
  what: "run event",
  value: runParts.Event,
  member: "event",
  data: runParts.userData
})

/**
 * The codec of a list of events, the durable form of a run.
 *
 * @category codecs
 * @since 0.1.0
 */
export const eventsCodec: VersionedCodec.VersionedCodec<ReadonlyArray<Event>> = VersionedCodec.single({
  what: "run events",
  value: Schema.Array(runParts.Event),
  member: "events",
  data: runParts.userData
})

/**
 * The snapshot codec: version 1, in the field `version`. A snapshot resumes a run in another process.
 *
 * **When to use**
 *
 * Use it where folding all events again is too slow. A snapshot is as large as the
 * conversation, so writing one after every event costs quadratic time: append the
 * events instead, and take a snapshot now and then.
 *
 * **Gotchas**
 *
 * A snapshot is trusted: it records which calls were approved. Read it from storage that
 * only your program writes to; take nothing but conversations from elsewhere.
 *
 * **Example** (Resuming elsewhere)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Agent, Run } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const toolkit = Toolkit.make(
 *   Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
 * )
 * const cashier = Agent.make("cashier", { toolkit })
 * const handlers = toolkit.toLayer({ pay: () => Effect.void })
 *
 * const kept = await cashier.run("Pay 5 euros").pipe(
 *   Effect.flatMap(({ state }) => Run.stateCodec.encodeJson(state)),
 *   Effect.provide([handlers, ScriptedModel.layer([{ toolCalls: [{ name: "pay", params: { amount: 5 } }] }])]),
 *   Effect.runPromise
 * )
 *
 * // any other process that has the agent
 * const later = Effect.gen(function*() {
 *   const state = yield* Run.stateCodec.decodeJson(kept)
 *   const decisions = Run.requests(state).filter(Run.isApprovable).map(Run.approve)
 *   return yield* cashier.resume(state, { decisions })
 * })
 * const { text } = await Effect.runPromise(
 *   Effect.provide(later, [handlers, ScriptedModel.layer([{ text: "Paid." }])])
 * )
 * assert.strictEqual(text, "Paid.")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const stateCodec: VersionedCodec.VersionedCodec<State> = VersionedCodec.single({
  what: "run state",
  value: runTransition.StateSchema,
  member: "state",
  data: runParts.userData
})

/**
 * The state after some more events. The first that does not fit fails, with its place
 * in the list.
 *
 * @category transitions
 * @since 0.1.0
 */
export const applyAll = (self: State, events: Iterable<Event>): Result.Result<State, runFold.EventError> =>
  runFold.fold(runTransition, events, self)

/**
 * The state of a run from the list of its events, which begins with `RunStarted`.
 *
 * @category transitions
 * @since 0.1.0
 */
export const fold = (events: Iterable<Event>): Result.Result<State, runFold.EventError> =>
  runFold.fold(runTransition, events)
