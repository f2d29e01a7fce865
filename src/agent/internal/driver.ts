/**
 * Runs of agents: their beginning, their recorder, their end, and what is handed to a run inside.
 */

import type * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Exit from "effect/Exit"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Tracer from "effect/Tracer"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import { TokenCounter } from "../../conversation/TokenCounter.ts"
import * as history from "../../conversation/internal/history.ts"
import type { StreamAccumulator } from "../../conversation/internal/modelMessages.ts"
import * as reduction from "../../conversation/internal/reduction.ts"
import type { Problem } from "../../payload/PayloadError.ts"
import { checkKeys } from "../../payload/internal/limits.ts"
import { defined, kindOf } from "../../payload/internal/values.ts"
import * as definitionChange from "../../run/internal/definitionChange.ts"
import * as durability from "../../run/internal/durability.ts"
import type * as planRunParts from "../../run/internal/planRunParts.ts"
import * as endings from "../../run/internal/endings.ts"
import type * as liveRun from "../../run/internal/liveRun.ts"
import * as runLoop from "../../run/internal/runLoop.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runRecorder from "../../run/internal/runRecorder.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import type { ToolResult } from "../../tool/ToolResult.ts"
import * as toolCall from "../../tool/internal/toolCall.ts"
import type * as ToolContract from "../../tool/ToolContract.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import * as AgentError from "../AgentError.ts"
import * as Run from "../Run.ts"
import * as agentReason from "./agentReason.ts"
import type * as agentTypes from "./agentTypes.ts"
import * as runSpans from "./runSpans.ts"

/** The run around an agent. */
export type Parent = runRecorder.Parent<runParts.State, runParts.Event, agentTypes.AgentEvent<unknown>>

/** Options that a run passes on to the runs inside it. */
export type Inherited = Pick<
  agentTypes.ResumeOptions,
  "defects" | "emptyAnswers" | "modelMistakes" | "modelRetry" | "onChange" | "timeouts"
>

/**
 * The options that a run inherits from the run around it. A limit of steps bounds the steps of agents in plans: a plan
 * itself has no such steps.
 */
export const inherited = (
  { defects, emptyAnswers, modelMistakes, modelRetry, onChange, timeouts }: Inherited,
  step?: Duration.Input | undefined
): Inherited => ({
  defects,
  emptyAnswers,
  modelMistakes,
  modelRetry,
  onChange,
  timeouts: { step, tool: timeouts?.tool }
})

/**
 * The parts of a run that its caller does not choose. Runs started by user code inside a tool or a step do not inherit
 * these parts. When the outer run ends, the code is interrupted, and its runs with it, unless they were made to outlive
 * the outer run.
 *
 * - `streaming`: models are asked for streams, so that what they had written is known where the run is stopped.
 * - `parent`: the run around.
 * - `isPart`: another run, or a session, waits for decisions about its requests.
 * - `deadline`: the deadline of the run around, in milliseconds of the Clock.
 * - `model`: the name of a model in place of the agent's own.
 * - `message`: the id and the metadata of the user message that the input becomes; default: a new id, and no metadata.
 * - `instructions`: with `"latest"`, a message to a run that has begun finds the instructions again, and records other ones.
 * - `write`: stores the value of a step with `writes`, after the events before it. It waits where it cannot, and never fails.
 */
export interface Spec {
  readonly streaming?: boolean | undefined
  readonly parent?: Parent | undefined
  readonly isPart?: boolean | undefined
  readonly deadline?: number | undefined
  readonly model?: string | undefined
  readonly message?: Message.Options | undefined
  readonly instructions?: "latest" | "first" | undefined
  readonly write?: ((write: planRunParts.StepWrite) => Effect.Effect<void>) | undefined
}

export const defaultMaxDepth = 8

type WithoutTime<E> = E extends { readonly at: unknown } ? Omit<E, "at"> : never

/** The error of a run, with the error behind its reason. */
export const agentError = (fields: {
  readonly agent: string
  readonly reason: AgentError.Reason
  readonly state?: runParts.State
}): AgentError.AgentError => {
  const error = new AgentError.AgentError(fields)
  agentReason.copyCause(fields.reason, error.reason)
  return error
}

export class AgentRecorder extends runRecorder.RunRecorder<
  runParts.State,
  runParts.Event,
  agentTypes.AgentEvent<unknown>
> {
  /** The answer so far, while the model is asked for one. No closure: the engine keeps closures of generators for long. */
  written: Pick<StreamAccumulator, "result"> | undefined = undefined

  recordNow(event: WithoutTime<runParts.Event>): Effect.Effect<void> {
    return this.record({ ...event, at: this.now() })
  }

  fail(reason: AgentError.Reason): AgentError.AgentError {
    return agentError({ agent: this.state.agent, reason, state: this.state })
  }
}

/** The run of an agent under way. */
export interface ActiveRun {
  readonly recorder: AgentRecorder
  readonly options: agentTypes.ResumeOptions
  readonly streaming: boolean
  readonly maxDepth: number
  /** Of the whole run, in milliseconds of the Clock. */
  readonly runDeadline: number | undefined
  /** See {@link Spec}. */
  readonly write?: Spec["write"]
  /** The services around it. */
  readonly context: Context.Context<never>
}

/**
 * An agent, or a plan that runs as one, for one run.
 *
 * - `model`: the name of its model, for spans.
 * - `instructions`: finds the system message; `undefined` for a plan, which has none.
 * - `stepTimeout`: whether `timeouts.step` bounds the performed actions.
 * - `parts`: the parts of its definition, see {@link definitionChange.compareParts}.
 * - `isOf`: true for a state of the same definition.
 * - `contractOf`: the contract of a tool.
 * - `changes`: the changes of what is open in a state of another definition.
 * - `start`: begins a run with it.
 * - `decode`: the answer of a run that is `Completed`.
 */
export interface PreparedRun<out A> {
  readonly digest: string
  readonly model?: string | undefined
  readonly maxSteps: runParts.MaxSteps
  readonly structured: runParts.StructuredSteps
  readonly instructions: Effect.Effect<string | undefined, AgentError.Reason> | undefined
  readonly stepTimeout: boolean
  readonly parts: runParts.Parts
  readonly isOf: (state: runParts.State) => boolean
  readonly contractOf: (name: string) => runParts.CallContract | undefined
  readonly changes: (state: runParts.State) => Effect.Effect<ReadonlyArray<ToolContract.Change>>
  readonly start: (run: ActiveRun) => Performer
  readonly decode: (text: string, output: Schema.Json | undefined) => Effect.Effect<A, ReadonlyArray<Problem>>
}

/**
 * The work of an agent in one run.
 *
 * - `ask`: asks for the approvals that calls of the conversation need, before decisions about them are taken.
 * - `perform`: see {@link runLoop.Machine}.
 */
export interface Performer {
  readonly ask: (callIds: ReadonlySet<string>) => Effect.Effect<void, AgentError.AgentError>
  readonly perform: (
    action: runTransition.ActionOf<"CallModel" | "RunTools">,
    deadline: number | undefined
  ) => Effect.Effect<void, AgentError.AgentError>
}

export interface AgentMachine<out A> {
  readonly name: string
  /** With this model in place of its own, if there is one. A plan has none. */
  readonly prepare: (model?: string | undefined) => Effect.Effect<PreparedRun<A>, AgentError.Reason, Scope.Scope>
  /** Fails where no run could begin with this model, as far as that is known before a run. */
  readonly check?: ((model: string | undefined) => Effect.Effect<unknown, AgentError.Reason, Scope.Scope>) | undefined
}

const recorderOf = (
  state: runParts.State,
  first: runParts.Event | undefined,
  { interruptWhen, onEvent }: agentTypes.ResumeOptions,
  parent: Parent | undefined,
  log: Performing["log"],
  context: Context.Context<never>
): AgentRecorder => {
  const recorder = new AgentRecorder({
    state,
    first,
    apply: runTransition.apply,
    views: viewsOf,
    log,
    parent,
    context,
    hook: onEvent && ((event, state, more) => onEvent({ event, sequence: state.revision, state, more })),
    after:
      interruptWhen === undefined
        ? undefined
        : (event, state) =>
            Effect.suspend(() =>
              recorder.interruption ? Effect.void : askToStop(recorder, interruptWhen(event, state))
            )
  })
  return recorder
}

const askToStop = (
  recorder: Pick<AgentRecorder, "stop">,
  answer: agentTypes.Interruption | undefined | Effect.Effect<agentTypes.Interruption | undefined>
): Effect.Effect<void> =>
  Effect.flatMap(Effect.isEffect(answer) ? answer : Effect.succeed(answer), (found) =>
    found === undefined ? Effect.void : recorder.stop(found)
  )

/** A child emits its own events, as `Child`. */
const viewsOf = (
  before: runParts.State,
  event: runParts.Event,
  state: runParts.State
): ReadonlyArray<agentTypes.AgentEvent<unknown>> =>
  event._tag === "ChildEvent" && !runTransition.isDecision(event) ? [] : [viewOf(before, event, state)]

const viewOf = (
  before: runParts.State,
  event: runParts.Event,
  state: runParts.State
): agentTypes.AgentEvent<unknown> => {
  switch (event._tag) {
    case "RunStarted":
    case "RunResumed": {
      const { agent, runId } = state
      return { _tag: "RunStarted", runId, agent, resumed: event._tag === "RunResumed", state }
    }
    case "StepStarted":
      return { _tag: "StepStarted", step: event.step, purpose: event.purpose, state }
    case "ModelAnswered": {
      const { message } = event
      const usage = message.usage ?? {}
      return { _tag: "StepFinished", step: state.steps, message, usage, total: state.usage, state }
    }
    case "ToolStarted":
      return { _tag: "ToolStarted", ...callOf(state, event.callId), state }
    case "ToolFinished": {
      const { callId, name, result } = event.message
      const duration = Duration.millis(event.durationMillis ?? 0)
      return { _tag: "ToolFinished", callId, name, result, duration, state }
    }
    case "ApprovalRequested": {
      const request = { ...callOf(before, event.callId), arguments: event.arguments, digest: event.digest }
      return { _tag: "ApprovalRequested", request, state }
    }
    default:
      return { _tag: "StateChanged", event, state }
  }
}

const callOf = ({ calls }: runParts.State, callId: string) => {
  const { arguments: args = null, name = "" } = calls.find(({ part }) => part.id === callId)?.part ?? {}
  return { callId, name, arguments: args }
}

/** Two deltas of one part as one. */
export const joinDeltas: liveRun.Join<agentTypes.AgentEvent<unknown>> = (before, next) => {
  if ("delta" in next && "delta" in before && next._tag === before._tag) {
    return next.index === before.index ? { ...next, delta: before.delta + next.delta } : undefined
  }
  if (next._tag !== "Child" || before._tag !== "Child" || next.callId !== before.callId) return undefined
  const event = joinDeltas(before.event, next.event)
  return event && { ...next, event }
}

/** Records the end of a call that has its result. The Effect is an Exit where there is nothing to wait for. */
export const recordToolFinished = (
  { context, recorder }: Pick<ActiveRun, "context" | "recorder">,
  call: { readonly callId: string; readonly name: string; readonly result: ToolResult },
  duration?: Duration.Duration,
  cause?: Cause.Cause<unknown>
): Effect.Effect<void> => {
  const record = (message: Message.ToolMessage) =>
    recorder.record({
      _tag: "ToolFinished",
      at: message.createdAt,
      message,
      ...(duration && { durationMillis: Duration.toMillis(duration) }),
      ...(cause && { cause: causeText(cause) })
    })
  const message = history.toolIn(context, call)
  return toolCall.isDone(message) && Exit.isSuccess(message) ? record(message.value) : Effect.flatMap(message, record)
}

const causeText = (cause: Cause.Cause<unknown>): string =>
  cause.reasons.map((reason) => (reason._tag === "Die" ? toolCall.defectName(reason.defect) : reason._tag)).join("; ")

/** Records what the model had written of an answer that was cut off. Its calls never run. */
const recordCutOff = Effect.fnUntraced(function* (recorder: AgentRecorder) {
  const { conversation, step, view } = recorder.state
  const answer = recorder.written?.result()
  if (step === undefined || answer === undefined || answer.content.length === 0) return
  const { model, response } = answer
  const counter = yield* TokenCounter
  const usage = answer.usage ?? {
    inputTokens: Math.ceil(yield* reduction.estimatedSize(view ?? conversation)),
    outputTokens: Math.ceil(counter.count(JSON.stringify(answer.content))),
    estimated: true
  }
  const content = history.mend(answer.content).filter(({ type }) => type !== "tool-call" && type !== "tool-result")
  if (content.length === 0) return yield* recorder.recordNow({ _tag: "AnswerDiscarded", usage })
  const finishReason = runTransition.cutOff
  const message = yield* Message.assistant(
    content,
    defined({ usage, model, response: history.mend(response), finishReason })
  )
  yield* recorder.recordNow({ _tag: "ModelAnswered", message })
})

/** Ends the run as `Interrupted`: what the model had written is kept, and calls that started get their results first. */
export const interrupt = Effect.fnUntraced(function* (recorder: AgentRecorder, reason: string | undefined) {
  const { interrupted, outcome } = recorder.state
  // An interruption of the fiber may come while one by the clock or the hook is being recorded.
  if (outcome === undefined && interrupted === undefined) yield* recordCutOff(recorder)
  for (const event of yield* endings.end(recorder.state, reason)) yield* recorder.record(event)
})

/** The beginning of a run: fresh without `state`, or a continuation from `state`. */
export interface Begin {
  readonly state?: runParts.State
  readonly input: agentTypes.Input
  readonly options: agentTypes.Options & Pick<agentTypes.ResumeOptions, "onChange">
}

/** A whole number of calls. A budget below one still allows the one call that every run makes. */
const maxStepsOf = (maxSteps: runParts.MaxSteps): runParts.MaxSteps =>
  maxSteps === "unlimited" || maxSteps === Infinity ? "unlimited" : Math.max(1, Math.floor(maxSteps) || 1)

const invalidConversation = (problem: string, error?: unknown): AgentError.Reason =>
  agentReason.makeReason("ConversationInvalid", { problem }, error)

function* startConversation(
  { instructions = Effect.undefined }: PreparedRun<unknown>,
  options: agentTypes.Options
): Effect.fn.Return<history.Conversation, AgentError.Reason> {
  if (options.conversation !== undefined && options.instructions !== "replace") return options.conversation
  const replaced = yield* Conversation.make({ system: yield* instructions })
  if (options.conversation === undefined) return replaced
  const rest = Conversation.messages(options.conversation).filter(({ role }) => role !== "system")
  return yield* Effect.mapError(Effect.fromResult(Conversation.appendAll(replaced, rest)), (error) =>
    invalidConversation(error.message, error)
  )
}

/** Refuses options that would make a state that cannot be stored. The conversation was checked when it was made. */
const checkOptions = (first: runParts.EventOf<"RunStarted">): Effect.Effect<unknown, AgentError.Reason> =>
  Effect.mapError(
    Effect.andThen(
      checkKeys(first.context, { what: "run event", path: "/event/context" }),
      Run.eventCodec.encode({ ...first, conversation: Conversation.empty })
    ),
    (error) => agentReason.makeReason("OptionsInvalid", { problem: error.message }, error)
  )

const changesIn = (agent: string, prepared: PreparedRun<unknown>, state: runParts.State) =>
  Effect.map(prepared.changes(state), (inside) => definitionChange.changesOf(state, { ...prepared, agent }, inside))

/** The changes of an agent since a state. An agent that cannot be prepared has none here, and fails when it runs. */
export const changesSince = (
  { name, prepare }: AgentMachine<unknown>,
  state: runParts.State
): Effect.Effect<ReadonlyArray<ToolContract.Change>> =>
  Effect.scoped(
    Effect.matchEffect(prepare(), {
      onFailure: () => Effect.succeed([]),
      onSuccess: (prepared) =>
        prepared.digest === definitionChange.definitionOf(state) ? Effect.succeed([]) : changesIn(name, prepared, state)
    })
  )

/** The record of a changed definition, if the definition of the state is another. */
function* changeOf(
  agent: string,
  prepared: PreparedRun<unknown>,
  state: runParts.State,
  onChange: agentTypes.OnChange | undefined
): Effect.fn.Return<runParts.DefinitionChange | undefined, AgentError.Reason> {
  if (prepared.isOf(state)) return undefined
  const changes = yield* changesIn(agent, prepared, state)
  return yield* Effect.fromResult(definitionChange.judge(state, { ...prepared, agent }, changes, onChange))
}

/** The contracts of the calls that a conversation leaves open. */
const contractsFor = ({ contractOf }: PreparedRun<unknown>, conversation: history.Conversation) => {
  const names = new Set(history.openCalls(conversation).map(({ name }) => name))
  const contracts = Array.from(names).flatMap((name) => contractOf(name) ?? [])
  return contracts.length === 0 ? undefined : contracts
}

/**
 * The beginning of a run: its state, the event that made it where it is fresh, the change of its definition, and the
 * instructions of today where its next message is to have them.
 */
interface Beginning {
  readonly state: runParts.State
  readonly first: runParts.EventOf<"RunStarted"> | undefined
  readonly change: runParts.DefinitionChange | undefined
  readonly instructions?: string | undefined
}

function* firstState(
  agent: string,
  prepared: PreparedRun<unknown>,
  { begin: { input, options, state }, data: context, depth, spec }: Placed<unknown>
): Effect.fn.Return<Beginning, AgentError.Reason> {
  if (state !== undefined) {
    const settled = definitionChange.afterDenials(state, options.decisions, yield* DateTime.now)
    const change = yield* changeOf(agent, prepared, settled, options.onChange)
    const isLatest = input !== undefined && spec.instructions === "latest"
    const { instructions = Effect.undefined } = prepared
    return { state, first: undefined, change, instructions: isLatest ? yield* instructions : undefined }
  }
  const conversation = yield* startConversation(prepared, options)
  if (input === undefined && !runTransition.hasUserMessage(conversation)) {
    return yield* Effect.fail(
      invalidConversation("expected a user message to answer, got none. Pass an input, or a conversation that has one")
    )
  }
  const first: runParts.EventOf<"RunStarted"> = {
    _tag: "RunStarted",
    at: yield* DateTime.now,
    runId: yield* runParts.newRunId,
    agent,
    definition: prepared.digest,
    depth,
    maxSteps: maxStepsOf(options.maxSteps ?? prepared.maxSteps),
    structured: prepared.structured,
    context,
    conversation,
    parts: prepared.parts,
    ...defined({ contracts: contractsFor(prepared, conversation) })
  }
  if (options.context !== undefined) yield* checkOptions(first)
  return { state: runTransition.start(first), first, change: undefined }
}

const resultOf = <A>({ decode }: PreparedRun<A>, state: runParts.State): Effect.Effect<agentTypes.Result<A>> => {
  const { conversation, outcome, totalSteps: steps, usage } = state
  const last = history.asHistory(conversation).lastAssistant
  const text = last === undefined ? "" : Message.text(last)
  const base = { text, conversation, usage, steps, state }
  if (outcome === undefined) return Effect.die(new Error("a run that has not ended has no result"))
  if (outcome._tag === "Completed") {
    return Effect.match(decode(text, outcome.output), {
      onFailure: (issues): agentTypes.Result<A> => ({ ...base, outcome: "InvalidOutput", issues }),
      onSuccess: (output): agentTypes.Result<A> => ({ ...base, outcome: "Completed", output })
    })
  }
  const { _tag, ...details } = outcome
  // Sound: the tag and the details come from one outcome.
  return Effect.succeed({ ...base, outcome: _tag, ...details } as agentTypes.Result<A>)
}

const machineOf = (
  { stepTimeout }: PreparedRun<unknown>,
  performer: Performer,
  { options, recorder }: ActiveRun
): runLoop.Machine<runParts.State, runTransition.Action, AgentError.AgentError> => {
  return {
    next: runTransition.next,
    ends: ({ _tag }) => _tag === "Finished",
    perform: (action, deadline) => {
      if (action._tag === "Finished") return recorder.recordNow({ _tag: "RunFinished", outcome: action.outcome })
      return performer.perform(action, deadline)
    },
    take: (message) => {
      const { interrupted, maxSteps, outcome, step } = recorder.state
      if (outcome !== undefined || interrupted !== undefined) return Effect.succeed(false)
      // Not while a model is asked: its answer comes first
      return step === undefined
        ? Effect.as(recorder.recordNow({ _tag: "InputAdded", message, maxSteps }), true)
        : undefined
    },
    written: () => recorder.written?.result().content ?? [],
    interrupt: (reason) => interrupt(recorder, reason),
    stepTimeout: ({ _tag }, isFirst) =>
      stepTimeout && (isFirst || _tag === "CallModel") ? options.timeouts?.step : undefined
  }
}

/** Records the beginning, then decisions, then the new message, which waits for open calls. */
const openRun = Effect.fnUntraced(function* (
  { options, recorder }: ActiveRun,
  performer: Performer,
  maxSteps: runParts.MaxSteps,
  { begin: { input, options: given, state }, spec }: Placed<unknown>,
  { change, instructions: now }: Beginning
) {
  const decisions = runTransition.listDecisions(options.decisions)
  const ownSteps = options.maxSteps === undefined ? undefined : maxStepsOf(options.maxSteps)
  const resumed: Array<runParts.Event> = []
  if (state === undefined) recorder.begin()
  else {
    // An agent inside has the context of its own state
    const context = Equal.equals(given.context, state.context) ? undefined : given.context
    resumed.push({ _tag: "RunResumed", at: recorder.now(), ...defined({ maxSteps: ownSteps, context, change }) })
  }
  if (decisions.length > 0) {
    yield* recorder.record(...resumed.splice(0))
    yield* performer.ask(new Set(decisions.map(({ callId }) => callId)))
    const decided = runTransition.decide(recorder.state, decisions, recorder.now())
    for (const event of yield* Effect.mapError(Effect.fromResult(decided), (reason) => recorder.fail(reason)))
      yield* recorder.record(event)
  }
  // Also when the hook has stopped the run already: the message must not be lost.
  if (input === undefined) return yield* recorder.record(...resumed)
  const message = yield* Message.user(input, spec.message)
  const fits = history.append(Conversation.empty, message)
  if (Result.isFailure(fits)) return yield* recorder.fail(invalidConversation(fits.failure.message, fits.failure))
  const { conversation, pending, view = conversation } = recorder.state
  const waiting = pending.findLast(({ instructions }) => instructions !== undefined)?.instructions
  const known = waiting ?? history.asHistory(view).instructions
  const instructions = now === undefined ? undefined : yield* history.changedInstructions(known, now)
  // Together with the message: nothing else runs with its context
  yield* recorder.record(...resumed, {
    _tag: "InputAdded",
    at: recorder.now(),
    message,
    maxSteps: ownSteps ?? maxStepsOf(maxSteps),
    ...defined({ instructions })
  })
})

/** The place of a run: its options, and what it has from the run around it. */
interface Placed<out A> extends Pick<ActiveRun, "maxDepth" | "runDeadline"> {
  readonly live: Performing
  readonly machine: AgentMachine<A>
  readonly begin: Begin
  readonly spec: Spec
  readonly data: runParts.State["context"]
  readonly depth: number
  readonly described: runSpans.RunSpan | undefined
  readonly refuse: (reason: AgentError.Reason) => AgentError.AgentError
}

const beginRun = Effect.fnUntraced(function* <A>(placed: Placed<A>) {
  const { machine, spec } = placed
  const prepared = yield* machine.prepare(spec.model)
  return { prepared, ...(yield* firstState(machine.name, prepared, placed)) }
})

const runPlaced = Effect.fnUntraced(function* <A>(placed: Placed<A>) {
  const { begin, live, maxDepth, refuse, runDeadline, spec } = placed
  const { options } = begin
  const { prepared, ...beginning } = yield* Effect.mapError(beginRun(placed), refuse)
  const { first, state } = beginning
  placed.described?.began(prepared, state, first !== undefined)
  const context = yield* Effect.context<never>()
  const recorder = recorderOf(state, first, options, spec.parent, live.log, context)
  const { streaming = false, write } = spec
  const run: ActiveRun = { recorder, options, streaming, maxDepth, runDeadline, write, context }
  const performer = prepared.start(run)
  const open = openRun(run, performer, prepared.maxSteps, placed, beginning)
  yield* live.loop(machineOf(prepared, performer, run), recorder, {
    open,
    deadline: runDeadline,
    stops: options.interruptWhen !== undefined
  })
  const result = yield* resultOf(prepared, recorder.state)
  yield* recorder.emit({ _tag: "RunFinished", result })
  return result
})

const isPart = (part: unknown): boolean => {
  if (!Predicate.hasProperty(part, "type")) return false
  if (part.type === "text") return Predicate.hasProperty(part, "text") && Predicate.isString(part.text)
  return part.type === "file" && Predicate.hasProperty(part, "data") && Predicate.isObject(part.data)
}

/** The refusal of a value of another type: a route may pass on JSON of any type. */
const wrongArgument = ({ input, options, state }: Begin): AgentError.Reason | undefined => {
  if (!Predicate.isObject(options)) {
    const problem = `expected an object as options, got ${kindOf(options)}`
    return agentReason.makeReason("OptionsInvalid", { problem })
  }
  const { conversation } = options
  if (state !== undefined && !(state instanceof runParts.State)) {
    const problem = "expected a Run.State as state, got another value. Read a stored one with Run.stateCodec"
    return invalidConversation(problem)
  }
  if (conversation !== undefined && !Conversation.isConversation(conversation)) {
    const problem =
      "expected a Conversation as conversation, got another value. Read a stored one with Conversation.codec"
    return invalidConversation(problem)
  }
  if (input === undefined || Predicate.isString(input) || (Array.isArray(input) && input.every(isPart)))
    return undefined
  return invalidConversation(`expected a text or a list of text and file parts as input, got ${kindOf(input)}`)
}

/** The handle of a run of an agent, for the code that performs it. */
export type Performing = liveRun.Performing<runParts.Event, agentTypes.AgentEvent<unknown>>

/** The handle of a run of an agent. */
export type Live<A = unknown> = liveRun.LiveRun<
  agentTypes.Result<A>,
  AgentError.AgentError,
  runParts.Event,
  agentTypes.AgentEvent<unknown>
>

/** Runs an agent from its first event, or from a state, to its result. */
export const runAgent = <A>(
  live: Performing,
  machine: AgentMachine<A>,
  begin: Begin,
  spec: Spec
): Effect.Effect<agentTypes.Result<A>, AgentError.AgentError> => {
  const reason = wrongArgument(begin)
  if (reason !== undefined) return Effect.fail(agentError({ agent: machine.name, reason }))
  return durability.untilDecided(
    spec.isPart === true,
    runToOutcome(live, machine, begin, spec),
    (result) => (result.outcome === "AwaitingApproval" ? result.requests : []),
    ({ state }, decisions) =>
      runToOutcome(live, machine, { state, input: undefined, options: { ...begin.options, decisions } }, spec)
  )
}

const runToOutcome = <A>(
  live: Performing,
  machine: AgentMachine<A>,
  begin: Begin,
  spec: Spec
): Effect.Effect<agentTypes.Result<A>, AgentError.AgentError> => {
  const attributes = { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": machine.name }
  const runIn = (plainSpan: Tracer.Span, around: Context.Context<never>) => {
    const isTraced = callContext.tracerOf(around) !== undefined
    const span = isTraced ? toolCall.quietSpan(plainSpan) : plainSpan
    const described = callContext.isObserved(around) ? runSpans.ofRun(span, machine.name, around) : undefined
    const { options } = begin
    const outer = callContext.runAround(around)
    const depth = callContext.depthIn(outer)
    const data = options.context ?? begin.state?.context ?? callContext.inheritedContext(around)
    const maxDepth = options.maxDepth ?? outer?.maxDepth ?? defaultMaxDepth
    const refuse = (reason: AgentError.Reason) =>
      agentError({ agent: machine.name, reason, ...defined({ state: begin.state }) })
    if (depth > maxDepth) return Effect.fail(refuse(agentReason.makeReason("MaxDepth", { limit: maxDepth })))
    const runDeadline = runLoop.deadlineOf(around, options.timeouts?.total, spec.deadline)
    const placed = { live, machine, begin, spec, data, depth, maxDepth, runDeadline, described, refuse }
    const run = callContext.asRun(runPlaced(placed), { agent: machine.name, outer, maxDepth, context: data }, span)
    return described === undefined ? run : Effect.onExit(run, (exit) => Effect.sync(() => described.ended(exit)))
  }
  return Effect.useSpan(`invoke_agent ${machine.name}`, { attributes }, (span) =>
    Effect.contextWith((around: Context.Context<never>) => runIn(span, around))
  )
}

/** The answer of a run that is `Completed`. */
export const answerOf = <A>(result: agentTypes.Result<A>): Effect.Effect<A, AgentError.RunIncomplete> => {
  if (result.outcome === "Completed") return Effect.succeed(result.output)
  const { state } = result
  const outcome: runParts.Outcome | undefined =
    result.outcome === "InvalidOutput" ? { _tag: "InvalidOutput", issues: result.issues } : state.outcome
  // A result is only made of a state that has ended.
  return outcome === undefined
    ? Effect.die(new Error("a result without an outcome"))
    : Effect.fail(new AgentError.RunIncomplete({ outcome, state }))
}
