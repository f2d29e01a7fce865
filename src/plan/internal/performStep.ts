/**
 * Performs one step of a run: resolves what it reads, runs its target, retries, checks the output, and chooses the route.
 */

import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Data from "effect/Data"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { AgentEvent } from "../../agent/AgentEvent.ts"
import type * as Run from "../../agent/Run.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as insideRun from "../../agent/internal/insideRun.ts"
import * as Json from "../../payload/Json.ts"
import * as Limits from "../../payload/Limits.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import { quote } from "../../payload/internal/base.ts"
import * as fuel from "../../payload/internal/fuel.ts"
import { defined } from "../../payload/internal/values.ts"
import * as children from "../../run/internal/children.ts"
import * as durability from "../../run/internal/durability.ts"
import * as ledger from "../../run/internal/ledger.ts"
import * as planRunParts from "../../run/internal/planRunParts.ts"
import * as retryPolicy from "../../run/internal/retryPolicy.ts"
import * as runParts from "../../run/internal/runParts.ts"
import type * as runRecorder from "../../run/internal/runRecorder.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as Question from "../../tool/Question.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as questions from "../../tool/internal/answers.ts"
import * as argumentSources from "../../tool/internal/argumentSources.ts"
import * as boundTool from "../../tool/internal/boundTool.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import { RequestTerms } from "../../tool/internal/requestTerms.ts"
import * as telemetry from "../../tool/internal/telemetry.ts"
import * as toolCall from "../../tool/internal/toolCall.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"
import * as PlanError from "../PlanError.ts"
import type { PlanEvent } from "../PlanEvent.ts"
import type * as PlanRun from "../PlanRun.ts"
import * as Reference from "../Reference.ts"
import * as Step from "../Step.ts"
import * as condition from "../../tool/internal/condition.ts"
import * as livePlan from "./livePlan.ts"
import type { ToolArguments } from "./planCheck.ts"
import * as planFailure from "./planFailure.ts"
import * as planFlow from "./planFlow.ts"
import * as planTransition from "../../run/internal/planTransition.ts"
import * as stepFlow from "../../run/internal/stepFlow.ts"
import * as stepSchema from "./stepSchema.ts"

export const optionsInvalid = (plan: string, problem: string): PlanError.PlanError =>
  new PlanError.PlanError({ plan, reason: { _tag: "OptionsInvalid", problem } })

/** The begin of a run: an input, or a state to resume. */
export type RunStart =
  | { readonly _tag: "Start"; readonly input: planRunParts.Input }
  | { readonly _tag: "Resume"; readonly state: PlanRun.State; readonly input?: never }

/** Why a run fails, and the error or defect behind it, which stays out of messages. */
export interface Failure {
  readonly reason: planFailure.Reason
  readonly cause?: unknown
}

/** The plan that an agent is, if it is one. */
export const planIn = (agent: agentTypes.Agent<unknown, unknown, never>): livePlan.BoundPlan | undefined =>
  livePlan.isBound(agent) ? agent.live : undefined

/** The run around a plan. */
export type Parent = runRecorder.Parent<PlanRun.State, PlanRun.Event, PlanEvent<unknown>, PlanError.PlanError>

/**
 * The parts of a run of a plan that its caller does not choose.
 *
 * - `streaming`, `parent`, `deadline`: see `agentParts.RunSpec`.
 * - `inherited`: the options of the run around for agents inside.
 * - `raise`: the limit of iterations for plans inside that used up theirs.
 * - `joins`: the run of the plan is the run of the agent that the plan is, not a level below it.
 */
export interface Spec {
  readonly streaming?: boolean | undefined
  readonly parent?: Parent | undefined
  readonly deadline?: number | undefined
  readonly inherited?: insideRun.Inherited | undefined
  readonly raise?: number | undefined
  readonly joins?: boolean | undefined
}

export interface ActiveRun {
  readonly bound: livePlan.BoundPlan
  readonly recorder: runRecorder.Recorder<PlanRun.State, PlanRun.Event, PlanEvent<unknown>, PlanError.PlanError>
  readonly options: livePlan.ResumeOptions
  readonly streaming: boolean
  /** Depth of runs inside steps. */
  readonly level: { readonly depth: number; readonly maxDepth: number }
  /** The deadline of the steps, a moment after the deadline of the run. */
  readonly deadline: number | undefined
  /** For plans and agents that are steps. */
  readonly inherited: insideRun.Inherited
  /** The new limit of plans inside that used up theirs, where the run was resumed with one. */
  readonly raise: number | undefined
  /** The failures of steps, with reason and cause for the error of the run. */
  readonly failures: Map<string, Failure>
  /** Runs a plan that is a step. */
  readonly nest: (
    bound: livePlan.BoundPlan,
    begin: RunStart,
    options: livePlan.ResumeOptions,
    spec: Spec
  ) => Effect.Effect<PlanRun.Result<unknown>, PlanError.PlanError>
}

/** One step under way. */
interface StepRun {
  readonly run: ActiveRun
  readonly live: livePlan.BoundStep
  /** The decision about the pause before. */
  readonly decision: Step.Input["decision"]
  /** The question that was approved. */
  readonly approved: planRunParts.Question | undefined
  /** The answers to the questions of this turn. */
  readonly answers: ReadonlyArray<runRequests.Answered>
  /** The input of the step when it paused, for what it does after that. */
  readonly input: planRunParts.ResolvedInput | undefined
  /** Makes an effect interruptible again. */
  readonly restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** An attempt that also ends where its effect fails or dies. */
const settled = (step: string, attempt: Effect.Effect<Attempt, unknown>): Effect.Effect<Attempt> =>
  Effect.catchCause(attempt, (cause) => attemptOfCause(`step ${quote(step)}`, cause))

const performTarget = (doing: StepRun, delivery: Delivery): Effect.Effect<Attempt, PlanError.PlanError> => {
  const { answers, approved, decision, live, run } = doing
  const { target } = live
  const { step } = delivery
  switch (target._tag) {
    case "Function": {
      const succeed = (output: Schema.Json) => succeededAttempt(delivery, output)
      const called = toolCall.afterCheck(
        questions.withAnswers(callFunction(target.target, { ...delivery, decision }), answers)
      )
      const attempt = settled(step, Effect.map(called, succeed))
      return Effect.flatMap(durability.Durability, (durable) =>
        durable === undefined ? attempt : attemptStored(durable, doing, delivery, attempt)
      )
    }
    case "Tool":
      return runTool(run, target, delivery, approved, decision)
    case "Agent":
      return Effect.matchCauseEffect(target.agent, {
        onFailure: (cause) => settled(step, Effect.failCause(cause)),
        onSuccess: (agent) => {
          const plan = planIn(agent)
          const child = planTransition.childAt(run.recorder.state, step)
          return plan === undefined
            ? runStepAgent(run, agent, child?._tag === "Agent" ? child.state : undefined, delivery)
            : runPlan(run, plan, child?._tag === "Plan" ? child.state : undefined, delivery)
        }
      })
  }
}

/** The attempt of a function, with its time limit, or what came of it where the program runs again. */
const attemptStored = (
  durable: durability.Durability,
  { live: { definition }, run }: StepRun,
  delivery: Delivery,
  attempt: Effect.Effect<Attempt>
): Effect.Effect<Attempt> => {
  let here: Attempt | undefined
  const code = Effect.flatMap(withinLimit(definition, attempt), (ended) => {
    here = ended
    return attemptJson(ended)
  })
  const notStored = (problem: string) => failedAttempt("NotStored", problem, { again: false })
  return Effect.match(durable.once(`step/${runParts.turnOf(run.recorder.state, definition.name)}`, code), {
    onFailure: ({ problem }) => notStored(problem),
    onSuccess: (found): Attempt => {
      const stored = Option.getOrUndefined(decodeStored(found))
      if (stored === undefined) return notStored("the result is stored by another version")
      if (stored._tag === "Succeeded") return succeededAttempt(delivery, stored.output)
      if (stored._tag !== "Failed") return stored
      return here?._tag === "Failed" ? here : new FailedAttempt(stored)
    }
  })
}

const StoredAttempt = Schema.TaggedUnion({
  Succeeded: { output: Schema.Json },
  Failed: { failure: planRunParts.StepFailure, again: Schema.Boolean },
  Paused: {
    reason: Schema.String,
    ask: Schema.optionalKey(runRequests.Ask),
    terms: Schema.optionalKey(RequestTerms)
  },
  Concluded: { answer: Schema.String }
})

const decodeStored = Schema.decodeUnknownOption(StoredAttempt)

/** The attempt of a function as JSON. The error behind a failure stays in the process. */
const attemptJson = (attempt: Attempt): Effect.Effect<Schema.Json> => {
  switch (attempt._tag) {
    case "Succeeded":
      return Effect.match(requireJson(attempt.output), {
        onFailure: ({ again, failure }): Schema.Json => ({ _tag: "Failed", failure: { ...failure }, again }),
        onSuccess: (output): Schema.Json => ({ _tag: "Succeeded", output })
      })
    case "Failed":
      return Effect.succeed({ _tag: "Failed", failure: { ...attempt.failure }, again: attempt.again })
    case "Paused":
      return Effect.succeed({
        _tag: "Paused",
        reason: attempt.reason ?? "",
        ...defined({ ask: attempt.ask && { ...attempt.ask }, terms: attempt.terms && { ...attempt.terms } })
      })
    case "Concluded":
      return Effect.succeed({ _tag: "Concluded", answer: attempt.answer })
    case "Stopped":
      return Effect.interrupt
  }
}

/** The number of the attempt under way. An attempt that was cut off in another process counts as well. */
const attemptOf = ({ live, run }: StepRun): number => {
  const status = planTransition.memberOf(run.recorder.state, live.definition.name)?.status
  return status?._tag === "Running" ? status.attempt : 1
}

/**
 * Resolves the references of a step and runs its target with their values. A decision that has expired does not count, and
 * that about a call of a tool counts for one attempt.
 */
const attemptOnce = Effect.fnUntraced(function* (doing: StepRun): Effect.fn.Return<Attempt, PlanError.PlanError> {
  const { decision, live, run } = doing
  const isOver =
    decision !== undefined &&
    (runRequests.isExpired(decision, yield* DateTime.now) || (live.target._tag === "Tool" && attemptOf(doing) > 1))
  const valid = isOver ? { ...doing, decision: undefined, approved: undefined, input: undefined } : doing
  const delivered: Effect.Effect<Delivery, unknown> =
    valid.input === undefined
      ? deliver(run, live)
      : Effect.succeed({ step: live.definition.name, context: undefined, content: [], ...valid.input })
  return yield* Effect.matchCauseEffect(delivered, {
    onFailure: (cause) => settled(live.definition.name, Effect.failCause(cause)),
    onSuccess: (delivery) =>
      Effect.map(performTarget(valid, delivery), (attempt) =>
        attempt._tag === "Paused" && readsMemory(live.definition) ? { ...attempt, delivery } : attempt
      )
  })
})

/** Memories are read at one time. All else that a step reads stays as it was. */
const readsMemory = ({ context, task }: PlanDefinition.StepDefinition): boolean =>
  [task, context ?? []].flat().some((reference) => "agent" in reference)

const withinLimit = <E>(
  { timeoutMillis }: PlanDefinition.StepDefinition,
  attempt: Effect.Effect<Attempt, E>
): Effect.Effect<Attempt, E> =>
  timeoutMillis === undefined
    ? attempt
    : Effect.timeoutOrElse(attempt, {
        duration: Duration.millis(timeoutMillis),
        orElse: () => {
          const message = `The step took longer than its timeout of ${timeoutMillis} ms`
          return Effect.succeed(failedAttempt("Timeout", message, { retryable: true }))
        }
      })

/** Runs the target, interruptibly; nothing interrupts the check of its output and the record of it. */
const tryOnce = (doing: StepRun): Effect.Effect<Attempt, PlanError.PlanError> => {
  const { definition, output: schema, target } = doing.live
  const limited = Effect.flatMap(durability.Durability, (durable) =>
    // `attemptStored` limits the time of a function, so that a timeout is stored, too
    durable !== undefined && target._tag === "Function"
      ? attemptOnce(doing)
      : withinLimit(definition, attemptOnce(doing))
  )
  return Effect.flatMap(catchSelfInterruption(doing, limited), (attempt) =>
    attempt._tag !== "Succeeded"
      ? Effect.succeed(attempt)
      : Effect.match(checkOutput(attempt.output, schema, target._tag === "Agent"), {
          onFailure: (failed): Attempt => failed,
          onSuccess: (output) => ({ ...attempt, output })
        })
  )
}

const failedAttempt = (
  type: string,
  message: string,
  more: Partial<Pick<FailedAttempt, "again" | "cause" | "reason">> & { readonly retryable?: boolean } = {}
): FailedAttempt => {
  const { again = true, retryable = false, ...rest } = more
  return new FailedAttempt({ failure: { type, message, retryable }, again, ...rest })
}

/** A target that interrupts itself fails its step; the run is not interrupted. */
const catchSelfInterruption = ({ restore }: StepRun, trying: Effect.Effect<Attempt, PlanError.PlanError>) =>
  Effect.catchCause(restore(trying), (cause) =>
    Cause.hasInterrupts(cause)
      ? // An interruption of this fiber is still pending where it can be interrupted
        Effect.matchCauseEffect(restore(Effect.void), {
          onFailure: () => Effect.failCause(cause),
          onSuccess: () =>
            Effect.succeed(
              failedAttempt("Interrupted", "It interrupted itself, or waited for something that was interrupted")
            )
        })
      : Effect.failCause(cause)
  )

/** Makes attempts until one does not fail, or until the policy allows no more. */
const tryWithRetries = Effect.fnUntraced(function* (doing: StepRun): Effect.fn.Return<Attempt, PlanError.PlanError> {
  const { live, run } = doing
  const { name: step, retry } = live.definition
  for (;;) {
    const tried = yield* tryOnce(doing)
    if (tried._tag !== "Failed" || !tried.again || retry === undefined) return tried
    const count = attemptOf(doing)
    const pause = retryPolicy.delayMillis(retry, count)
    if (pause === undefined) return tried
    const attempt = count + 1
    // Before the pause, so that a process that dies in it has counted the attempt
    yield* run.recorder.record({ _tag: "StepRetried", at: yield* DateTime.now, step, attempt, failure: tried.failure })
    yield* doing.restore(durability.sleep(Duration.millis(pause)))
    yield* doing.restore(run.recorder.emit({ _tag: "StepStarted", path: [], step, attempt }))
  }
})

const stepFinished = Effect.fnUntraced(function* (
  doing: StepRun,
  delivery: Delivery,
  output: Schema.Json
): Effect.fn.Return<planTransition.EventOf<"StepFinished">> {
  const at = yield* DateTime.now
  const { live, run } = doing
  const step = live.definition.name
  const { state } = run.recorder
  const member = planTransition.memberOf(state, step)
  const status = member?.status
  const before = Chunk.last(state.history)
  const record = {
    step,
    task: delivery.task,
    ...(delivery.context === undefined ? undefined : { context: delivery.context }),
    output,
    usage: member?.usage ?? {},
    attempts: attemptOf(doing),
    startedAt: status?._tag === "Running" ? status.startedAt : at,
    // The clock of another process, or of this one, may have been ahead: a step that finished later is the newer one
    finishedAt: Option.isSome(before) ? DateTime.max(before.value.finishedAt, at) : at
  }
  return { _tag: "StepFinished", at, record: planTransition.recordedOf(state, record) }
})

/** Saves the answer of an agent before the step counts as done, so that a write that fails is made again. */
const saveMemory = ({ live: { target }, restore, run }: StepRun, output: Schema.Json) => {
  const save = target._tag === "Agent" ? run.bound.memories.get(target.name)?.save : undefined
  if (save === undefined || target._tag !== "Agent") return Effect.void
  const saved = durability.code<null, unknown>({
    name: `memory/${target.name}`,
    run: Effect.as(save(output), null),
    is: Predicate.isNull,
    store: planFailure.failureOf,
    restore: (failure) => failure
  })
  return Effect.mapError(restore(saved), (error) => {
    const { type } = planFailure.failureOf(error)
    const problem = `The answer of the agent ${quote(target.name)} could not be saved in its memory: ${type}. Resume the run: the agent is not asked again.`
    const failed = new PlanError.PlanError({
      plan: run.bound.definition.name,
      reason: { _tag: "JournalFailed", problem },
      state: run.recorder.state
    })
    return planFailure.withCause(failed, error)
  })
}

/** The count of questions of a step in its turn. A question that still waits for its decision counts once. */
const countAsked = (member: runParts.Member | undefined, { digest }: planRunParts.Question): number => {
  const { asked = 0, question, status } = member ?? {}
  const undecided = status?._tag === "Running" && status.decision === undefined
  return undecided && question?.digest === digest ? asked : asked + 1
}

const stepPaused = Effect.fnUntraced(function* (
  { live, run }: StepRun,
  { ask, delivery, reason, request, terms }: Extract<Attempt, { readonly _tag: "Paused" }>
): Effect.fn.Return<planTransition.EventOf<"StepPaused">> {
  const { state } = run.recorder
  const step = live.definition.name
  const input = delivery && inputOf(delivery)
  const question =
    reason === undefined
      ? request
      : {
          reason,
          ...defined({ ask }),
          contract: run.bound.digest,
          digest: yield* runParts.requestDigest({
            place: runParts.placeOf(state, step),
            contract: run.bound.digest,
            arguments: { reason, ...input },
            ...runParts.termsOf(ask, terms)
          })
        }
  const at = yield* DateTime.now
  const bounds = runRequests.boundsIn(yield* Effect.context<never>(), at, terms)
  const asked = question && countAsked(planTransition.memberOf(state, step), question)
  const callId = asked === undefined ? undefined : planTransition.requestId(state, { asked, step })
  const bounded = question && { ...question, ...bounds }
  return { _tag: "StepPaused", at, step, ...defined({ question: bounded, asked, callId, input }) }
})

const inputOf = ({ content, context, payload, task }: Delivery): planRunParts.ResolvedInput => ({
  task,
  payload,
  ...defined({ context, content: content.length === 0 ? undefined : content })
})

const stepEvent = Effect.fnUntraced(function* (
  doing: StepRun,
  attempt: Attempt
): Effect.fn.Return<PlanRun.Event | undefined, PlanError.PlanError> {
  const { live, run } = doing
  const step = live.definition.name
  switch (attempt._tag) {
    case "Succeeded":
      yield* saveMemory(doing, attempt.output)
      return yield* stepFinished(doing, attempt.delivery, attempt.output)
    case "Failed": {
      const { cause, failure, reason = { _tag: "StepFailed", step, path: [], failure } } = attempt
      run.failures.set(step, { reason, cause })
      yield* Effect.annotateCurrentSpan("error.type", attempt.failure.type)
      return { _tag: "StepFailed", at: yield* DateTime.now, step, failure: attempt.failure }
    }
    case "Paused":
      return yield* stepPaused(doing, attempt)
    case "Concluded":
      return { _tag: "StepConcluded", at: yield* DateTime.now, step, answer: attempt.answer }
    case "Stopped":
      return undefined
  }
})

/**
 * Runs a step and records its end. A step that is `alone` leaves the writing of its last
 * event to the loop, which adds the route.
 */
export const runStep = (run: ActiveRun, step: string, alone: boolean): Effect.Effect<void, PlanError.PlanError> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const live = stepOf(run.bound, step)
      if (live === undefined) return yield* Effect.die(new Error(`no step ${quote(step)} in the plan that is bound`))
      const { recorder } = run
      const { answers = [], input, question, status } = planTransition.memberOf(recorder.state, step) ?? {}
      const { child, decision: given } = status?._tag === "Waiting" || status?._tag === "Running" ? status : {}
      // The answer to a question about a budget has changed the budget, and the step begins anew
      const decision = question?.budget === undefined ? given : undefined
      const started: PlanRun.Event = { _tag: "StepStarted", at: yield* DateTime.now, step }
      // An approval counts for one call, also where the process dies in it
      const isApproved = live.target._tag === "Tool" && decision !== undefined
      yield* live.target._tag === "Agent" || isApproved ? recorder.record(started) : recorder.defer(started)
      const doing: StepRun = {
        run,
        live,
        decision,
        approved: decision && question,
        answers,
        // Without a decision it reads its references again, unless a run inside it has begun with them
        input: decision === undefined && child === undefined ? undefined : input,
        restore
      }
      const why = decision?.reason === undefined ? "" : `: ${decision.reason}`
      const attempt =
        decision?.approved === false
          ? failedAttempt("Denied", `The step ${quote(step)} was denied${why}`)
          : yield* tryWithRetries(doing)
      const event = yield* stepEvent(doing, attempt)
      if (event !== undefined) yield* alone ? recorder.defer(event) : recorder.record(event)
    })
  ).pipe(toolCall.withQuietSpan(`step ${step}`, { "emissary.step.name": step }))

export const stepOf = (bound: livePlan.BoundPlan, name: string): livePlan.BoundStep | undefined =>
  bound.steps[stepFlow.positionsOf(bound.definition.steps).get(name) ?? -1]

/** The values of one reference. `words` is the payload in words, where that is not its one rendering. */
interface ReadValue extends Pick<Step.Input, "task" | "payload" | "context" | "content"> {
  readonly words?: string
}

/** The input of a target. */
type Delivery = Omit<Step.Input, "decision">

const readValue = (payload: Schema.Json, more: Partial<ReadValue> = {}): ReadValue => ({
  task: planRunParts.payloadText(payload),
  payload,
  context: undefined,
  content: [],
  ...more
})

const readRecord = ({ context, output }: planRunParts.StepRecord): ReadValue => readValue(output, { context })

/** A parallel group: in words each member under its name, as a payload the object of the outputs. */
const readGroup = (records: ReadonlyArray<planRunParts.StepRecord>): ReadValue => {
  const words = records.map(({ output, step }) => `[${step}]\n${planRunParts.payloadText(output)}`).join("\n\n")
  return readValue(Object.fromEntries(records.map(({ output, step }) => [step, output])), { task: words, words })
}

/** Fails with a {@link FailedAttempt}, or with the error of a memory. */
const resolveReference = (
  { bound, recorder }: ActiveRun,
  step: string,
  slot: string,
  reference: Reference.Reference
): Effect.Effect<ReadValue, unknown> => {
  const state = recorder.state
  const { content, context, payload } = state.input
  const recordOf = (name: string) =>
    Effect.mapError(Effect.fromOption(planTransition.recordOf(state, name)), () => {
      const ran = Array.from(new Set(Chunk.map(state.history, (record) => record.step))).sort()
      const shown = planFlow.showReference(reference)
      const reason = { _tag: "ReferenceFailed", step, slot, reference: shown, ran } as const
      return failedAttempt("ReferenceFailed", planFailure.explain(reason), { again: false, reason })
    })
  switch (reference._tag) {
    case "FromPrev":
      return Effect.succeed(
        Option.match(planTransition.lastRecord(state), {
          onNone: () => readValue(payload, defined({ context, content })),
          onSome: readRecord
        })
      )
    case "FromStart":
      return Effect.succeed(readValue(payload, state.input))
    case "FromStep":
    case "FromParallel":
      return Effect.map(recordOf(reference.step), readRecord)
    case "FromParallelAll": {
      const first = stepFlow.positionsOf(bound.definition.steps).get(reference.step) ?? -1
      const members = stepFlow.stepsAt(bound.definition.steps, first).map(({ name }) => recordOf(name))
      return Effect.map(Effect.all(members), readGroup)
    }
    case "FromMemory":
      return Effect.map(bound.memories.get(reference.agent)?.text ?? Effect.succeed(""), (text) => readValue(text))
    case "FromAgent":
      return Effect.map(bound.memories.get(reference.agent)?.output ?? Effect.succeed(""), (output) =>
        readValue(output ?? "")
      )
    case "Literal":
      return Effect.succeed(readValue(reference.value))
  }
}

/** Text inputs, and agents and plans without an input schema, receive a parallel group in words. */
const payloadFor = ({ definition, input, target }: livePlan.BoundStep, { payload, words }: ReadValue): Schema.Json => {
  const inWords = input === undefined ? target._tag !== "Function" : stepSchema.readsText(definition)
  return inWords ? (words ?? payload) : payload
}

/** The input of a step, whose payload fits its schema. Fails as {@link resolveReference}. */
const deliver = Effect.fnUntraced(function* (run: ActiveRun, live: livePlan.BoundStep) {
  const { definition, input } = live
  const { context, name: step } = definition
  const read = yield* resolveReference(run, step, "task", definition.task)
  const parts: Array<string> = []
  for (const [index, reference] of [context ?? []].flat().entries()) {
    const slot = Array.isArray(context) ? `context[${index}]` : "context"
    const { payload, words, ...side } = yield* resolveReference(run, step, slot, reference)
    parts.push(side.context ?? "", words ?? planRunParts.payloadText(payload))
  }
  const joined = parts.filter((part) => part !== "").join("\n\n")
  const { content, task } = read
  const given = payloadFor(live, read)
  const payload =
    input === undefined ? given : yield* Effect.mapError(recode(input, given, "input"), misfit("InputInvalid"))
  return { step, task, payload, context: joined === "" ? undefined : joined, content }
})

/** The failure of a payload that does not fit its schema. */
const misfit =
  (type: "InputInvalid" | "OutputInvalid", advice = "") =>
  (error: PayloadError.PayloadError): FailedAttempt =>
    failedAttempt(type, `${error.message}${advice}`, { cause: error })

/** The input of a run. */
export const resolveInput = (plan: string, input: planRunParts.Input) => {
  if (typeof input === "string") return Effect.succeed({ task: input, payload: input })
  if (input.payload === undefined) return Effect.succeed(planRunParts.resolveParts(input))
  return Effect.mapBoth(Json.check(input.payload, { what: "the payload of the input" }), {
    onFailure: ({ message }) =>
      new PlanError.PlanError({ plan, reason: { _tag: "InputInvalid", problem: `expected JSON: ${message}` } }),
    onSuccess: (payload) => planRunParts.resolveParts({ ...input, payload })
  })
}

/** The input schema of the first step that has one and reads the input. */
const inputSchemaOf = ({ definition, steps }: livePlan.BoundPlan): stepSchema.StepCodec | undefined => {
  const firsts = stepFlow.groupEnd(definition.steps, 0)
  return steps.find(({ definition: { task }, input }, index) => {
    const readsInput = task._tag === "FromStart" || (index < firsts && task._tag === "FromPrev")
    return input !== undefined && readsInput
  })?.input
}

/**
 * The payload of a caller that has texts only: a text that does not fit the
 * step that reads it, and is JSON that does, is that JSON.
 */
export const coercePayload = (bound: livePlan.BoundPlan, payload: Schema.Json): Effect.Effect<Schema.Json> => {
  const schema = inputSchemaOf(bound)
  if (schema === undefined || typeof payload !== "string") return Effect.succeed(payload)
  const fits = (value: Schema.Json) => Effect.as(recode(schema, value, "input"), value)
  return fits(payload).pipe(
    Effect.catch(() => Effect.flatMap(Json.parse(payload), fits)),
    Effect.orElseSucceed(() => payload)
  )
}

/** The arguments of a call; nothing when the payload has to be them, and is no object. */
const toolArgumentsOf = (how: ToolArguments, { context, payload, task }: Delivery): Json.JsonObject | undefined => {
  const side = how.context === undefined || context === undefined ? {} : { [how.context]: context }
  if (how._tag === "Payload") return Json.isObject(payload) ? { ...payload, ...side } : undefined
  // Context that has no parameter of its own comes before the task
  const before = how.context === undefined ? [context ?? ""] : []
  return { [how.task]: [...before, task].filter((part) => part !== "").join("\n\n"), ...side }
}

const isRetryable = new Set(["timeout_error", "remote_unavailable"])

const toolFailureAttempt = ({ message, type }: ToolResult.Failure): Attempt =>
  failedAttempt(type, message, { retryable: isRetryable.has(type) })

/** The texts of a run by their sources. Its input is of a user only where no other run has begun it. */
const placesIn = ({ depth, history, input }: PlanRun.State): ReadonlyArray<argumentSources.Place> => [
  ...(depth === 0 ? [{ source: "user", texts: [input.task, ...argumentSources.textsIn(input.payload)] }] : []),
  ...Chunk.toReadonlyArray(history).map(({ output, step }) => ({
    source: `step/${step}`,
    texts: argumentSources.textsIn(output)
  }))
]

/**
 * Runs a tool. A call that was approved runs as it was, whatever its references read by now, and asks again where the tool
 * is another one by now.
 */
const runTool = Effect.fnUntraced(function* (
  { bound, deadline, options, recorder }: ActiveRun,
  target: livePlan.BoundToolTarget,
  delivery: Delivery,
  approved: StepRun["approved"],
  decision: StepRun["decision"]
): Effect.fn.Return<Attempt, PlanError.PlanError> {
  const { step } = delivery
  const state = recorder.state
  const args =
    approved?.request === undefined ? toolArgumentsOf(target.arguments, delivery) : approved.request.arguments
  if (args === undefined) {
    const expected = `an object, the arguments of the tool ${quote(target.name)}, as the payload that the task refers to`
    return failedAttempt("InputInvalid", `expected ${expected}`)
  }
  const [, id] = runParts.placeOf(state, step)
  const request = { id, name: target.name, arguments: args }
  const prepared = yield* boundTool.prepareNormal(bound.tools, request, {
    runId: state.runId,
    context: state.context,
    timeout: options.timeouts?.tool,
    deadline
  })
  if (Result.isFailure(prepared)) return toolFailureAttempt(prepared.failure)
  const call = prepared.success
  const tool = bound.tools.tools.get(target.name)
  const ask = runRequests.askOf(call.contract)
  const { request: terms } = call.contract
  const asks = Effect.map(
    runParts.requestDigest({
      place: runParts.placeOf(state, step),
      contract: call.contract.digest,
      arguments: call.arguments,
      ...runParts.termsOf(ask, terms)
    }),
    (digest): planRunParts.Question => ({
      digest,
      ...defined({ ask }),
      contract: call.contract.digest,
      request: { name: target.name, arguments: call.arguments }
    })
  )
  if (approved !== undefined) {
    const request = yield* asks
    if (request.digest !== approved.digest) return { _tag: "Paused", request, ...defined({ terms }) }
    if (ask !== undefined) return succeededAttempt(delivery, decision?.answer ?? null)
  } else if (ask !== undefined) {
    return { _tag: "Paused", request: yield* asks, ...defined({ terms }) }
  } else if (tool !== undefined) {
    const about = { callId: step, context: state.context, messages: [], places: () => placesIn(state) }
    const needed = yield* Effect.result(tool.needsApproval(call.arguments, about))
    if (Result.isFailure(needed)) return toolFailureAttempt(needed.failure)
    if (needed.success) return { _tag: "Paused", request: yield* asks, ...defined({ terms }) }
  }
  const { budgets } = recorder
  if (budgets !== undefined) {
    const refused = ledger.refusesTool(budgets)
    if (refused !== undefined) return refusedAttempt(step, refused)
    yield* recorder.record({ _tag: "ToolCalled", at: yield* DateTime.now, step })
  }
  const [result] = yield* toolCall.run([call])
  if (result === undefined) return yield* Effect.die(new Error("a call without a result"))
  return result._tag === "Success" ? succeededAttempt(delivery, result.value) : toolFailureAttempt(result)
})

/** Calls a function with its payload decoded, and encodes its answer. Without schemas it takes and returns JSON. */
export const callFunction = Effect.fnUntraced(function* (
  { code, input, output }: Step.FunctionTarget,
  given: Step.Input
): Effect.fn.Return<Schema.Json, unknown> {
  const payload =
    input === undefined
      ? given.payload
      : yield* Effect.mapError(decodeOutput(input, given.payload, "input"), misfit("InputInvalid"))
  // Sound: the types of `Step.make` and `Step.target` tie the input of the code to the schema that decoded it, and what
  // the code requires is in the type of the target, and so of every run of the plan.
  const answer = yield* code({ ...given, payload: payload as never }) as Effect.Effect<unknown, unknown>
  // Sound: the types of functions without a schema ask for JSON, and the run checks that it is.
  if (output === undefined) return answer as Schema.Json
  return yield* Effect.mapError(encodeOutput(output, answer, "output"), misfit("OutputInvalid"))
})

/** Why the reference of a task found no text. */
const describeNothing = (state: PlanRun.State, task: Reference.Reference): string => {
  const record =
    "step" in task
      ? planTransition.recordOf(state, task.step)
      : task._tag === "FromPrev"
        ? planTransition.lastRecord(state)
        : Option.none()
  if (Option.isSome(record)) {
    const { output, step } = record.value
    return `step ${quote(step)} returned ${output === null ? "null" : "an empty text"}`
  }
  if ("agent" in task) return `nothing is kept for the agent ${quote(task.agent)}`
  return task._tag === "Literal" ? "the text is empty" : "the input of the plan is empty"
}

/** The failure of a step whose agent would be asked nothing. */
const emptyTask = ({ bound, recorder: { state } }: ActiveRun, step: string, agent: string): FailedAttempt => {
  const task = stepOf(bound, step)?.definition.task ?? Reference.fromPrev
  const expected = `task = ${planFlow.showReference(task)}: expected a text for the agent ${quote(agent)}`
  const message = `${expected}, found none: ${describeNothing(state, task)}. Pass a text there, or route around this step.`
  return failedAttempt("InputInvalid", message, { again: false })
}

/** The input of an agent: context, content and task, each as a part of its own. */
const agentInput = ({ content, context, task }: Delivery): agentTypes.Input => {
  if (context === undefined && content.length === 0) return task
  const parts = (text = "") => (text === "" ? [] : [ToolResult.textPart(text)])
  const [first, ...rest] = [...parts(context), ...content, ...parts(task)]
  return first === undefined ? task : [first, ...rest]
}

/** The attempt that a budget has ended. */
const budgetAttempt = (step: string, usage: ledger.Usage): FailedAttempt => {
  const reason = { _tag: "BudgetExceeded", step, path: [], ...usage } as const
  return failedAttempt(reason._tag, planFailure.explain(reason), { again: false, reason })
}

/** The attempt that a budget refuses: it waits for an answer where the budget asks. */
const refusedAttempt = (step: string, limit: ledger.Limit): Attempt => {
  const asked = runParts.askAbout(limit)
  if (asked === undefined) return budgetAttempt(step, limit)
  const { about: budget, arguments: args, ...question } = asked
  return { _tag: "Paused", request: { ...question, reason: runRequests.questionIn(args), budget } }
}

const agentAttempt = (delivery: Delivery, agent: string, result: agentTypes.Result<unknown>): Attempt => {
  const name = quote(agent)
  const failed = (message: string) => failedAttempt(result.outcome, message)
  switch (result.outcome) {
    case "Completed": {
      const { outcome } = result.state
      const output = outcome?._tag === "Completed" ? outcome.output : undefined
      return succeededAttempt(delivery, output === undefined ? result.text : output)
    }
    case "AwaitingApproval":
      return { _tag: "Paused" }
    case "BudgetExceeded": {
      const { limit, scope, unit, used } = result
      return budgetAttempt(delivery.step, { limit, scope, unit, used })
    }
    case "MaxSteps":
      return failed(`The agent ${name} used up its ${result.steps} steps before it answered`)
    case "Refused":
      return failedAttempt(result.outcome, `The guard ${quote(result.guard)} refused: ${result.reason}`, {
        again: false
      })
    case "LoopDetected":
      return failed(
        `The agent ${name} called ${result.tools.map((tool) => quote(tool)).join(", ")} ${result.times} times in a row with the same result`
      )
    case "InvalidOutput": {
      const problems = PayloadError.render("", result.issues)
      return failed(`The answer of the agent ${name} does not fit its output schema: ${problems}`)
    }
    case "Stopped":
      return failed(
        result.finishReason === "empty"
          ? `The answers of the agent ${name} were empty`
          : `The provider ended the answer of the agent ${name}: ${result.finishReason}`
      )
    case "Interrupted":
      return failed(`The agent ${name} was interrupted${result.reason === undefined ? "" : `: ${result.reason}`}`)
  }
}

/** Runs or resumes an agent. Fails when the run cannot be written. */
const runStepAgent = (
  run: ActiveRun,
  agent: agentTypes.Agent<unknown>,
  child: Run.State | undefined,
  delivery: Delivery
): Effect.Effect<Attempt, PlanError.PlanError> =>
  Effect.suspend(() => {
    const { deadline, inherited, recorder, streaming } = run
    const { step } = delivery
    const input = agentInput(delivery)
    const hasInput = child !== undefined && runTransition.hasInput(child)
    if (input === "" && !hasInput) return Effect.succeed(emptyTask(run, step, agent.name))
    const { context } = recorder.state
    const options = insideRun.inherited(inherited, inherited.timeouts?.step)
    const around: runRecorder.Parent<Run.State, Run.Event, AgentEvent<unknown>, PlanError.PlanError> = children.inside(
      recorder,
      {
        event: (event: Run.Event): PlanRun.Event => ({
          _tag: "AgentChanged",
          at: runParts.timeOf(event),
          step,
          event: runParts.placed(event)
        }),
        view: (event: AgentEvent<unknown>): PlanEvent<unknown> => ({ _tag: "Agent", path: [], step, event })
      }
    )
    return children.orBroken(around, (parent) =>
      insideRun.runInside(agent, { state: child, input, context, options, deadline, parent, streaming }).pipe(
        callContext.at(runParts.turnOf(recorder.state, step)),
        Effect.map((result) => agentAttempt(delivery, agent.name, result)),
        (attempt) => settled(step, attempt)
      )
    )
  })

const planAttempt = (
  { recorder }: ActiveRun,
  delivery: Delivery,
  result: PlanRun.Result<unknown>
): Effect.Effect<Attempt> => {
  switch (result.outcome) {
    case "Completed":
      return Effect.succeed(succeededAttempt(delivery, result.payload))
    case "Concluded":
      return Effect.succeed({ _tag: "Concluded", answer: result.answer })
    case "Paused":
      return Effect.succeed({ _tag: "Paused" })
    case "Interrupted":
      return Effect.as(recorder.stop(defined({ reason: result.reason })), { _tag: "Stopped" } as const)
  }
}

/** The error of an inner run fails its step; a journal that fails ends the whole run. */
const planErrorAttempt = (
  outer: ActiveRun,
  step: string,
  error: PlanError.PlanError
): Effect.Effect<Attempt, PlanError.PlanError> => {
  const { reason } = error
  if (reason._tag === "JournalFailed" || outer.recorder.isBroken) return Effect.fail(error)
  if (reason._tag === "BudgetExceeded") {
    const failed = budgetAttempt(reason.step, reason)
    return Effect.succeed(new FailedAttempt({ ...failed, reason: { ...reason, path: [step, ...reason.path] } }))
  }
  if (reason._tag !== "StepFailed") return Effect.succeed(failedAttempt(reason._tag, error.message, { cause: error }))
  return Effect.succeed(
    new FailedAttempt({
      failure: reason.failure,
      again: true,
      reason: { ...reason, path: [step, ...reason.path] },
      cause: planFailure.causeOf(error)
    })
  )
}

/** Runs or resumes a plan. Fails when the run cannot be written. */
const runPlan = (
  outer: ActiveRun,
  bound: livePlan.BoundPlan,
  child: PlanRun.State | undefined,
  delivery: Delivery
): Effect.Effect<Attempt, PlanError.PlanError> => {
  const { deadline, inherited, level, options, recorder, streaming } = outer
  const { step } = delivery
  if (level.depth > level.maxDepth) {
    const message = `expected at most ${level.maxDepth} plans and agents inside each other, found another plan: ${quote(bound.definition.name)}. Look for a plan that runs itself.`
    return Effect.succeed(failedAttempt("MaxDepth", message, { again: false }))
  }
  const parent: Parent = children.inside(recorder, {
    event: (event: PlanRun.Event): PlanRun.Event => ({ _tag: "NestedChanged", at: event.at, step, event }),
    view: (event: PlanEvent<unknown>) => ("path" in event ? { ...event, path: [step, ...event.path] } : undefined)
  })
  const raise = child === undefined ? undefined : outer.raise
  const { onChange, timeouts } = insideRun.inherited(inherited, inherited.timeouts?.step)
  const { concurrency, interruptWhen } = options
  const ofStep: livePlan.ResumeOptions = {
    concurrency,
    timeouts,
    interruptWhen,
    onChange,
    context: recorder.state.context,
    maxIterations: child?.outcome?._tag === "LimitReached" ? raise : undefined
  }
  const input = Effect.map(coercePayload(bound, delivery.payload), (payload) => inputOf({ ...delivery, payload }))
  const begin: Effect.Effect<RunStart> =
    child === undefined
      ? Effect.map(input, (input) => ({ _tag: "Start", input }))
      : Effect.succeed({ _tag: "Resume", state: child })
  return begin.pipe(
    Effect.flatMap((begin) => outer.nest(bound, begin, ofStep, { streaming, parent, deadline, inherited, raise })),
    callContext.at(runParts.turnOf(recorder.state, step)),
    Effect.flatMap((result) => planAttempt(outer, delivery, result)),
    Effect.catch((error) => planErrorAttempt(outer, step, error))
  )
}

/** A decoded value. The error has every place that does not fit, and never the value there. */
export const decodeOutput = (schema: stepSchema.StepCodec, value: Schema.Json, what: string) =>
  Json.decode(schema, { what, onExcessProperty: "ignore" })(value)

const encodeOutput = (schema: stepSchema.StepCodec, value: unknown, what: string) =>
  Json.encode(schema, { what, onExcessProperty: "ignore" })(value)

/** A value decoded and encoded again, with the defaults and transformations of its schema. */
const recode = (schema: stepSchema.StepCodec, value: Schema.Json, what: string) =>
  Effect.flatMap(decodeOutput(schema, value, what), (decoded) => encodeOutput(schema, decoded, what))

/** Advice for the author of a plan about a text. It is not for models. */
export const outputAdvice = ". It is a text: the agent, or the plan, of this step needs an `output` of its own"

const requireJson = (output: Schema.Json): Effect.Effect<Schema.Json, FailedAttempt> =>
  Effect.mapError(Json.check(output, { what: "the output" }), ({ message }) =>
    failedAttempt("OutputNotJson", `expected JSON: ${message}`, { again: false })
  )

/**
 * The output as JSON that fits its schema. An agent answers in texts: if a text does not fit, but is JSON, the output
 * is that JSON.
 */
const checkOutput = Effect.fnUntraced(function* (
  output: Schema.Json,
  schema: stepSchema.StepCodec | undefined,
  isAgent: boolean
): Effect.fn.Return<Schema.Json, FailedAttempt> {
  const json = yield* requireJson(output)
  if (schema === undefined) return json
  const recoded = recode(schema, json, "output")
  if (!isAgent || typeof json !== "string") return yield* Effect.mapError(recoded, misfit("OutputInvalid"))
  return yield* Effect.catch(recoded, (error) =>
    Effect.matchEffect(Json.parse(json), {
      onFailure: () => Effect.fail(misfit("OutputInvalid", outputAdvice)(error)),
      onSuccess: (parsed) => Effect.mapError(recode(schema, parsed, "output"), misfit("OutputInvalid", outputAdvice))
    })
  )
})

interface SucceededAttempt {
  readonly _tag: "Succeeded"
  /** The input of the target. */
  readonly delivery: Delivery
  readonly output: Schema.Json
}

/**
 * An attempt that failed.
 *
 * - `again`: true if another attempt may end differently.
 * - `reason`: the reason of the run's error, where it is more than that this step failed.
 * - `cause`: the error or defect, which stays out of messages.
 */
class FailedAttempt extends Data.TaggedClass("Failed")<{
  readonly failure: planRunParts.StepFailure
  readonly again: boolean
  readonly reason?: planFailure.Reason
  readonly cause?: unknown
}> {}

type Attempt =
  | SucceededAttempt
  | FailedAttempt
  | {
      readonly _tag: "Paused"
      readonly reason?: string
      /** The answer that the function asks for: `reason` is its question. */
      readonly ask?: runRequests.Ask
      readonly terms?: RequestTerms
      readonly request?: planRunParts.Question
      /** The input of the target, where it is kept for a resume. */
      readonly delivery?: Delivery
    }
  | { readonly _tag: "Concluded"; readonly answer: string }
  /** The run inside the step stopped on request. */
  | { readonly _tag: "Stopped" }

const succeededAttempt = (delivery: Delivery, output: Schema.Json): SucceededAttempt => ({
  _tag: "Succeeded",
  delivery,
  output
})

/** The attempt that a cause ends, with `place` for the log. An interruption stays one. */
const attemptOfCause = (place: string, cause: Cause.Cause<unknown>): Effect.Effect<Attempt> => {
  if (Cause.hasInterrupts(cause)) return Effect.interrupt
  const errors = cause.reasons.filter(Cause.isFailReason).map(({ error }) => error)
  const conclude = errors.find((error) => error instanceof Step.Conclude)
  if (conclude !== undefined) return Effect.succeed({ _tag: "Concluded", answer: conclude.answer })
  const pause = errors.find((error) => error instanceof Step.Pause)
  if (pause !== undefined) return Effect.succeed({ _tag: "Paused", reason: pause.reason })
  const asked = errors.find((error) => error instanceof Question.Asked)
  if (asked !== undefined) {
    const { question: reason, request: terms, schema } = asked
    return Effect.succeed({ _tag: "Paused", reason, ask: { kind: "Question", schema }, ...defined({ terms }) })
  }
  const [error] = errors
  if (error instanceof FailedAttempt) return Effect.succeed(error)
  if (errors.length > 0) {
    return Effect.succeed(new FailedAttempt({ failure: planFailure.failureOf(error), again: true, cause: error }))
  }
  const defect = Cause.squash(cause)
  return Effect.as(
    telemetry.logUnexpected(`${place} failed unexpectedly`, cause),
    failedAttempt("Defect", planFailure.defectMessage(defect), { cause: defect })
  )
}

/** True if a route of the step has a predicate. */
export const usesPredicates = (step: PlanDefinition.StepDefinition): boolean =>
  (step.routes ?? []).some(({ when }) => condition.customsOf(when).length > 0)

/** The failure of a predicate, and how the outcome of the run records it. */
interface RouteFailure extends Failure {
  readonly reason: planFailure.ReasonOf<"PredicateFailed">
  readonly recorded: planRunParts.StepFailure
}

const routeFailure = (reason: RouteFailure["reason"], cause?: unknown): RouteFailure => ({
  reason,
  recorded: { ...reason.failure, type: reason._tag, message: planFailure.explain(reason) },
  ...(cause !== undefined && { cause })
})

/** The failure of a predicate; signals of steps are failures here. */
const predicateFailed = Effect.fnUntraced(function* (
  step: string,
  to: string,
  predicate: string,
  cause: Cause.Cause<unknown>
): Effect.fn.Return<never, RouteFailure> {
  const attempt = yield* attemptOfCause(`the predicate ${quote(predicate)} of step ${quote(step)}`, cause)
  const error = Cause.squash(cause)
  const failure = attempt._tag === "Failed" ? attempt.failure : planFailure.failureOf(error)
  return yield* Effect.fail(routeFailure({ _tag: "PredicateFailed", step, to, predicate, failure }, error))
})

const chooseTarget = Effect.fnUntraced(function* (
  { bound, recorder }: ActiveRun,
  definition: PlanDefinition.StepDefinition
): Effect.fn.Return<string | undefined, RouteFailure> {
  const { name: step, routes, routesBy } = definition
  const record = Option.getOrUndefined(planTransition.recordOf(recorder.state, step))
  const payload = record?.output ?? null
  if (routes !== undefined && routes.length > 0) {
    const subject = { payload, text: planRunParts.payloadText(payload) }
    const { maxFuel } = yield* Limits.Limits
    const tank = fuel.make(maxFuel)
    for (const { to, when } of routes) {
      const ask = (name: string): Effect.Effect<boolean, RouteFailure> => {
        const predicate = bound.predicates.get(name)
        if (predicate === undefined) return Effect.die(new Error(`no predicate ${quote(name)}`))
        const asked = Effect.suspend(() => predicate({ step, ...subject }))
        return durability.code({
          name: `route/${runParts.turnOf(recorder.state, step)}/${name}`,
          run: Effect.catchCause(asked, (cause) => predicateFailed(step, to, name, cause)),
          is: Predicate.isBoolean,
          store: ({ reason }) => reason.failure,
          restore: (failure) => routeFailure({ _tag: "PredicateFailed", step, to, predicate: name, failure })
        })
      }
      const holds = Effect.catchTag(condition.evaluate(when, subject, ask, tank), "PayloadError", (error) =>
        predicateFailed(step, to, condition.label(when), Cause.fail(error))
      )
      if (yield* holds) return to
    }
    return undefined
  }
  if (routesBy === undefined || !Json.isObject(payload) || !Object.hasOwn(payload, routesBy)) return undefined
  const to = payload[routesBy]
  return typeof to === "string" && stepSchema.routable(bound.definition, definition).has(to) ? to : undefined
})

/** The event of the route that the newest record of a step takes. */
export const chooseRoute = Effect.fnUntraced(function* (
  run: ActiveRun,
  definition: PlanDefinition.StepDefinition
): Effect.fn.Return<planTransition.EventOf<"RouteTaken">, RouteFailure> {
  const to = yield* chooseTarget(run, definition)
  const at = yield* DateTime.now
  return { _tag: "RouteTaken", at, step: definition.name, ...defined({ to }) }
})
