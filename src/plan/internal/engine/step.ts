/** One step of a turn: tried, tried again where its policy says so, and recorded. */
import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { PayloadError } from "../../../payload/PayloadError.ts"
import * as PlanError from "../../PlanError.ts"
import type { PlanRunEvent, StepFinished } from "../../PlanRunEvent.ts"
import * as PlanRunState from "../../PlanRunState.ts"
import * as RetryPolicy from "../../RetryPolicy.ts"
import type { BoundTarget, LiveStep } from "../live.ts"
import * as states from "../transition/state.ts"
import * as AgentTarget from "./agentTarget.ts"
import { type Attempt, type Failed, failed, failureOf, ofCause } from "./attempt.ts"
import * as FunctionTarget from "./functionTarget.ts"
import * as Output from "./output.ts"
import * as PlanTarget from "./planTarget.ts"
import { deliver, type Delivery } from "./reference.ts"
import type { Run } from "./run.ts"
import * as ToolTarget from "./toolTarget.ts"

const referenceFailed = (error: PlanError.ReferenceFailed): Attempt => ({
  _tag: "Failed",
  failure: { type: error._tag, message: error.message, retryable: false },
  again: false,
  reason: error
})

/** What a step whose pause was turned down comes to. */
const denied = (step: string, reason: string | undefined): Failed =>
  failed("Denied", `The step ${JSON.stringify(step)} was denied${reason === undefined ? "" : `: ${reason}`}`, {
    again: false
  })

const misfitInput = (error: PayloadError): Failed => failed("InputInvalid", error.message, { cause: error })

/** The step as logs name it. */
const named = ({ live }: Doing): string => `step ${JSON.stringify(live.definition.name)}`

/** The step with what it is given and how far it was before this run took it up. */
interface Doing {
  readonly run: Run
  readonly live: LiveStep
  readonly target: BoundTarget
  /** What somebody decided about the pause before. */
  readonly decision: PlanRunState.Decided | undefined
  /** What may be interrupted again. */
  readonly restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

const childOf = ({ live, run }: Doing): PlanRunState.Child | undefined => {
  const member = PlanRunState.member(run.recorder.state(), live.definition.name)
  return member === undefined ? undefined : states.childOf(member)
}

const perform = (doing: Doing, delivery: Delivery): Effect.Effect<Attempt, PlanError.PlanError> => {
  const { decision, run, target } = doing
  switch (target._tag) {
    case "Function":
      return FunctionTarget.run(target.target, { ...delivery, decision })
    case "Tool":
      return ToolTarget.run(run, target, delivery, decision?.approved === true)
    case "Agent": {
      const found = Effect.matchCauseEffect(target.agent, {
        onFailure: (cause) => Effect.map(ofCause(named(doing), cause), (attempt) => ({ attempt }) as const),
        onSuccess: (agent) => Effect.succeed({ agent } as const)
      })
      return Effect.flatMap(found, (found): Effect.Effect<Attempt, PlanError.PlanError> => {
        if ("attempt" in found) return Effect.succeed(found.attempt)
        const rules = run.rules.found(delivery.step, found.agent)
        const child = childOf(doing)
        return rules === undefined
          ? AgentTarget.run(run, found.agent, child?._tag === "Agent" ? child.state : undefined, delivery)
          : PlanTarget.run(run, rules, child?._tag === "Plan" ? child.state : undefined, delivery)
      })
    }
  }
}

const fitting = ({ input }: LiveStep, delivery: Delivery): Effect.Effect<Delivery | Attempt> =>
  input === undefined
    ? Effect.succeed(delivery)
    : Effect.match(Output.through(input, delivery.payload, "input"), {
        onFailure: misfitInput,
        onSuccess: (payload) => ({ ...delivery, payload })
      })

const notGiven = (error: unknown): Attempt =>
  error instanceof PlanError.ReferenceFailed
    ? referenceFailed(error)
    : { _tag: "Failed", failure: failureOf(error), again: true, cause: error }

/** The delivery whose payload fits the input schema, or why there is none. */
const given = (doing: Doing): Effect.Effect<Delivery | Attempt> => {
  const { live, run } = doing
  return deliver(run.bound, run.recorder.state(), live).pipe(
    Effect.flatMap((delivery) => fitting(live, delivery)),
    Effect.catch((error) => Effect.succeed(notGiven(error))),
    Effect.catchCause((cause) => ofCause(named(doing), cause))
  )
}

interface Tried {
  readonly attempt: Attempt
  readonly delivery: Delivery | undefined
}

/** Runs the target. This can be cut off; once there is an answer, nothing can until it is recorded. */
const performed = (doing: Doing): Effect.Effect<Tried, PlanError.PlanError> => {
  const { timeoutMillis } = doing.live.definition
  const trying = Effect.flatMap(given(doing), (given): Effect.Effect<Tried, PlanError.PlanError> =>
    "_tag" in given
      ? Effect.succeed({ attempt: given, delivery: undefined })
      : Effect.map(perform(doing, given), (attempt) => ({ attempt, delivery: given }))
  )
  if (timeoutMillis === undefined) return unlessByItself(doing, trying)
  const late = failed("Timeout", `The step took longer than its timeout of ${timeoutMillis} ms`, { retryable: true })
  return unlessByItself(
    doing,
    Effect.timeoutOrElse(trying, {
      duration: Duration.millis(timeoutMillis),
      orElse: () => Effect.succeed<Tried>({ attempt: late, delivery: undefined })
    })
  )
}

const byItself: Tried = {
  attempt: failed("Interrupted", "It interrupted itself, or waited for something that was interrupted"),
  delivery: undefined
}

/** Nobody has interrupted a run whose target interrupted itself: that is a failure of the step. */
const unlessByItself = (
  { restore }: Doing,
  trying: Effect.Effect<Tried, PlanError.PlanError>
): Effect.Effect<Tried, PlanError.PlanError> =>
  Effect.catchCause(restore(trying), (cause) =>
    Cause.hasInterrupts(cause)
      ? // An interruption of this fiber is still pending where it can be interrupted
        Effect.matchCauseEffect(restore(Effect.void), {
          onFailure: () => Effect.failCause(cause),
          onSuccess: () => Effect.succeed(byItself)
        })
      : Effect.failCause(cause)
  )

const judged = ({ live, target }: Doing, tried: Tried): Effect.Effect<Tried> =>
  tried.attempt._tag === "Succeeded"
    ? Effect.map(Output.check(tried.attempt.output, live.output, target._tag === "Agent"), (attempt) => ({
        ...tried,
        attempt
      }))
    : Effect.succeed(tried)

const once = (doing: Doing): Effect.Effect<Tried, PlanError.PlanError> =>
  Effect.flatMap(performed(doing), (tried) => judged(doing, tried))

/** Tries until something else than a failure, or until the policy says no. */
const tries = Effect.fnUntraced(function* (doing: Doing): Effect.fn.Return<Tried, PlanError.PlanError> {
  const { live, run } = doing
  const { name: step, retry } = live.definition
  for (;;) {
    const tried = yield* once(doing)
    const { attempt: came } = tried
    if (came._tag !== "Failed" || !came.again || retry === undefined) return tried
    const status = PlanRunState.member(run.recorder.state(), step)?.status
    // A try that was cut off in another process counts as well
    const count = status?._tag === "Running" ? status.attempt : 1
    const pause = RetryPolicy.delayMillis(retry, count)
    if (pause === undefined) return tried
    const attempt = count + 1
    // Before the pause, so that a process that dies in it has counted the try
    yield* run.recorder.record({ _tag: "StepRetried", at: yield* DateTime.now, step, attempt, failure: came.failure })
    yield* doing.restore(Effect.sleep(Duration.millis(pause)))
    yield* doing.restore(run.sink.emit({ _tag: "StepStarted", path: [], step, attempt }))
  }
})

const finished = Effect.fnUntraced(function* (
  { live, run }: Doing,
  delivery: Delivery,
  output: Schema.Json
): Effect.fn.Return<StepFinished> {
  const at = yield* DateTime.now
  const step = live.definition.name
  const member = PlanRunState.member(run.recorder.state(), step)
  const status = member?.status
  const { context, task } = delivery
  const record = {
    step,
    task,
    ...(context === undefined ? undefined : { context }),
    output,
    usage: member?.usage ?? {},
    attempts: status?._tag === "Running" ? status.attempt : 1,
    startedAt: status?._tag === "Running" ? status.startedAt : at,
    finishedAt: at
  }
  return { _tag: "StepFinished", at, record }
})

/** What an agent answered is remembered before the step counts as done: a write that fails is made again. */
const remember = ({ restore, run, target }: Doing, output: Schema.Json): Effect.Effect<void, PlanError.PlanError> => {
  const save = target._tag === "Agent" ? run.bound.memories.get(target.name)?.save : undefined
  if (save === undefined || target._tag !== "Agent") return Effect.void
  return Effect.mapError(restore(save(output)), (error) => {
    const { message, type } = failureOf(error)
    const reason = new PlanError.JournalFailed({
      problem: `What the agent ${JSON.stringify(target.name)} answered could not be saved in its memory: ${type}: ${message}. Resume the run: the agent is not asked again.`
    })
    return new PlanError.PlanError({
      plan: run.bound.definition.name,
      reason: PlanError.withCause(reason, error),
      state: run.recorder.state()
    })
  })
}

const fact = Effect.fnUntraced(function* (
  doing: Doing,
  { attempt, delivery }: Tried
): Effect.fn.Return<PlanRunEvent | undefined, PlanError.PlanError> {
  const { live, run } = doing
  const step = live.definition.name
  switch (attempt._tag) {
    case "Succeeded":
      if (delivery === undefined) return yield* Effect.die(new Error("an answer to nothing"))
      yield* remember(doing, attempt.output)
      return yield* finished(doing, delivery, attempt.output)
    case "Failed": {
      const reason = attempt.reason ?? new PlanError.StepFailed({ step, path: [], failure: attempt.failure })
      run.reasons.set(step, attempt.cause === undefined ? reason : PlanError.withCause(reason, attempt.cause))
      yield* Effect.annotateCurrentSpan("error.type", attempt.failure.type)
      return { _tag: "StepFailed", at: yield* DateTime.now, step, failure: attempt.failure }
    }
    case "Paused": {
      const { reason, request } = attempt
      return {
        _tag: "StepPaused",
        at: yield* DateTime.now,
        step,
        ...(reason === undefined ? undefined : { reason }),
        ...(request === undefined ? undefined : { request })
      }
    }
    case "Concluded":
      return { _tag: "StepConcluded", at: yield* DateTime.now, step, answer: attempt.answer }
    case "Stopped":
      return undefined
  }
})

/**
 * Runs a step and records what becomes of it. `alone` steps leave the writing of their
 * last fact to the loop, which adds the route.
 */
export const run = (run: Run, step: string, alone: boolean): Effect.Effect<void, PlanError.PlanError> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const position = run.bound.positions.get(step) ?? -1
      const live = run.bound.steps[position]
      const target = run.bound.targets[position]
      if (live === undefined || target === undefined) {
        return yield* Effect.die(new Error(`no step ${JSON.stringify(step)} in the plan that is bound`))
      }
      const { recorder } = run
      const status = PlanRunState.member(recorder.state(), step)?.status
      const decision =
        status?._tag === "Waiting" || status?._tag === "Running" || status?._tag === "Paused"
          ? status.decision
          : undefined
      const started: PlanRunEvent = { _tag: "StepStarted", at: yield* DateTime.now, step }
      yield* target._tag === "Agent" ? recorder.record(started) : recorder.defer(started)
      const doing: Doing = { run, live, target, decision, restore }
      const tried: Tried =
        decision?.approved === false
          ? { attempt: denied(step, decision.reason), delivery: undefined }
          : yield* tries(doing)
      const event = yield* fact(doing, tried)
      if (event !== undefined) yield* alone ? recorder.defer(event) : recorder.record(event)
    })
  ).pipe(Effect.withSpan(`step ${step}`, { attributes: { "emissary.step.name": step } }))
