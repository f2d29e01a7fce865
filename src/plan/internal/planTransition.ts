/**
 * The transition of a run: which events may follow a state, the state after them, and what the run does next. Pure; the engine performs the actions.
 */

import * as Arr from "effect/Array"
import * as Chunk from "effect/Chunk"
import type * as DateTime from "effect/DateTime"
import * as Equal from "effect/Equal"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Run from "../../agent/Run.ts"
import * as runParts from "../../agent/internal/runParts.ts"
import * as Message from "../../conversation/Message.ts"
import type { PlanDefinition } from "../PlanDefinition.ts"
import * as PlanError from "../PlanError.ts"
import * as PlanRun from "../PlanRun.ts"
import * as planFlow from "./planFlow.ts"
import * as stepSchema from "./stepSchema.ts"

/**
 * What a run follows: a definition, and the rules of the plans that are steps of it.
 */
export interface Rules {
  readonly definition: PlanDefinition
  /** The rules of the plan that runs in a step, if one does. */
  readonly nested: (step: string) => Rules | undefined
}

/**
 * The rules of a plan. Without `nested` no step of it is a plan.
 */
export const makeRules = (definition: PlanDefinition, nested?: ReadonlyMap<string, Rules>): Rules => ({
  definition,
  nested: (step) => nested?.get(step)
})

/**
 * What a driver does next.
 *
 * **Details**
 *
 * - `RunSteps`: run these steps at the same time (those of the turn that are not done).
 * - `ChooseRoute`: see where the step that has just finished goes.
 * - `Finish`: record this outcome, unless the state has it already, and stop.
 */
type Action =
  | { readonly _tag: "RunSteps"; readonly steps: readonly [string, ...Array<string>] }
  | { readonly _tag: "ChooseRoute"; readonly step: string }
  | { readonly _tag: "Finish"; readonly outcome: PlanRun.Outcome }

/**
 * The state after the first fact.
 */
export const start = (rules: Rules, event: PlanRun.PlanStarted): PlanRun.State => startState(rules, event)

/**
 * The state after one more fact.
 */
export const apply = (
  rules: Rules,
  self: PlanRun.State,
  event: PlanRun.Event
): Result.Result<PlanRun.State, EventRejected> => applyEvent(rules, self, event)

/**
 * The state after some more facts. The first that does not fit fails, with its place in
 * the list.
 */
export const applyAll = (
  rules: Rules,
  self: PlanRun.State,
  events: Iterable<PlanRun.Event>
): Result.Result<PlanRun.State, EventRejected> => foldFrom(rules, self, events)

/**
 * The state of a run from the list of its facts, which begins with `PlanStarted`.
 */
export const fold = (rules: Rules, events: Iterable<PlanRun.Event>): Result.Result<PlanRun.State, EventRejected> =>
  foldFrom(rules, undefined, events)

const foldFrom = (
  rules: Rules,
  self: PlanRun.State | undefined,
  events: Iterable<PlanRun.Event>
): Result.Result<PlanRun.State, EventRejected> => {
  let state = self
  let index = 0
  for (const event of events) {
    const applied = state === undefined ? applyFirst(rules, event) : applyEvent(rules, state, event)
    if (Result.isFailure(applied)) {
      const { event, path, reason } = applied.failure
      return Result.fail(new EventRejected({ event, path, reason, index }))
    }
    state = applied.success
    index += 1
  }
  return state === undefined ? Result.fail(notStarted("no event")) : Result.succeed(state)
}

/**
 * What a driver has to do next. Ask when nothing of the run is under way.
 */
export const next = (rules: Rules, self: PlanRun.State): Action => nextAction(rules, self)

/**
 * The facts that record decisions about what waits: calls, and steps that wait for
 * anybody (`callId` is the step). They go before `PlanResumed`.
 *
 * **Details**
 *
 * `path` is that of the request or the pause; it can be left out, unless several that
 * wait have the same id. Each can be decided about once. Fails with `InvalidDecision`,
 * which lists what waits.
 *
 * **Gotchas**
 *
 * A decision allows or denies one try. When a step that was approved fails and runs
 * again in a resumed run, it asks again.
 */
export const decide = (
  self: PlanRun.State,
  decisions: ReadonlyArray<Run.Decision>,
  at: DateTime.Utc
): Result.Result<ReadonlyArray<PlanRun.Event>, PlanError.InvalidDecision> => decisionEvents(self, decisions, at)

/**
 * Refuses a state that another definition made. `digest` is that of the definition at
 * hand.
 */
export const checkDigest = (self: PlanRun.State, digest: string): Result.Result<PlanRun.State, PlanError.PlanChanged> =>
  self.digest === digest
    ? Result.succeed(self)
    : Result.fail(new PlanError.PlanChanged({ expected: self.digest, found: digest }))

/**
 * The reasons of a {@link EventRejected}.
 *
 * **Details**
 *
 * - `Unexpected`: the fact has no place in this state of the run.
 * - `UnknownStep`: no step of that name runs now, or the plan has none.
 * - `StepStatus`: the step is of this turn, but not ready for this fact; a step that has
 *   finished, for example, never starts again in its turn.
 * - `NotNested`: the rules do not know the plan that runs in the step, see
 *   `PlanTransition.Rules`.
 * - `Agent`: the event does not fit the run of the agent in the step.
 */
const Reason = Schema.TaggedUnion({
  Unexpected: { expected: Schema.String, found: Schema.String },
  UnknownStep: { step: Schema.String, known: Schema.Array(Schema.String) },
  StepStatus: { step: Schema.String, expected: Schema.String, found: Schema.String },
  NotNested: { step: Schema.String },
  Agent: { problem: Schema.String }
})

/**
 * One of the reasons of a {@link EventRejected}.
 */
type Reason = typeof Reason.Type

const explainReason = Reason.match({
  Unexpected: ({ expected, found }) => `expected ${expected}, found ${found}`,
  UnknownStep: ({ known, step }) =>
    `expected one of the steps ${known.length === 0 ? "(none)" : known.map((name) => JSON.stringify(name)).join(", ")}, found ${JSON.stringify(step)}`,
  StepStatus: ({ expected, found, step }) => `step ${JSON.stringify(step)}: expected ${expected}, found ${found}`,
  NotNested: ({ step }) =>
    `expected a plan in step ${JSON.stringify(step)}, found that the rules know none; give PlanTransition.rules the rules of nested plans`,
  Agent: ({ problem }) => problem
})

/**
 * A fact does not fit the state it was applied to: facts are missing, out of order or
 * doubled, or two drivers write to one run.
 *
 * **Details**
 *
 * `event` is the tag of the fact, `index` its place in the list when a list was
 * applied, `path` the steps of the outer plans (and the ids of the calls of agents in
 * them) when it is a fact of a run inside a step.
 */
class EventRejected extends Schema.TaggedError<EventRejected>("effect-emissary/plan/PlanRunEventError")(
  "PlanRunEventError",
  {
    event: Schema.String,
    path: Schema.Array(Schema.String),
    index: Schema.optionalKey(Schema.Int),
    reason: Reason
  }
) {
  override get message(): string {
    const where = this.path.length === 0 ? "" : ` in the run inside ${this.path.join(" > ")}`
    const index = this.index === undefined ? "" : ` at index ${this.index}`
    return `${this.event}${index}${where} does not fit the run of the plan: ${explainReason(this.reason)}. Apply each fact once, in the order in which it happened, from one driver at a time.`
  }
}

type PlanRunEvent = PlanRun.Event

type ApplyResult = Result.Result<PlanRun.State, EventRejected>

const rejectEvent = (event: PlanRunEvent, reason: Reason): Result.Result<never, EventRejected> =>
  Result.fail(new EventRejected({ event: event._tag, path: [], reason }))

const rejectUnexpected = (event: PlanRunEvent, expected: string, found: string) =>
  rejectEvent(event, { _tag: "Unexpected", expected, found })

const insideStep = (step: string, event: string, path: ReadonlyArray<string>, reason: Reason) =>
  Result.fail(new EventRejected({ event, path: [step, ...path], reason }))

const notStarted = (found: string): EventRejected =>
  new EventRejected({
    event: found,
    path: [],
    reason: { _tag: "Unexpected", expected: "PlanStarted first", found }
  })

const updateState = (self: PlanRun.State, event: PlanRunEvent, fields: Partial<PlanRun.StateFields>): ApplyResult =>
  Result.succeed(PlanRun.makeState({ ...self, ...fields, updatedAt: event.at, revision: self.revision + 1 }))

const startState = ({ definition }: Rules, event: PlanRun.PlanStarted): PlanRun.State =>
  PlanRun.makeState({
    runId: event.runId,
    plan: event.plan,
    digest: event.digest,
    depth: event.depth,
    context: event.context,
    input: event.input,
    cursor: definition.steps[0]?.name,
    turn: undefined,
    choosing: undefined,
    rejoins: [],
    iterations: 0,
    maxIterations: event.maxIterations,
    history: Chunk.empty(),
    latest: HashMap.empty(),
    writes: HashMap.empty(),
    previous: undefined,
    usage: Message.emptyUsage,
    interrupted: undefined,
    outcome: undefined,
    startedAt: event.at,
    updatedAt: event.at,
    revision: 1
  })

const applyFirst = (rules: Rules, event: PlanRunEvent): ApplyResult =>
  event._tag === "PlanStarted" ? Result.succeed(startState(rules, event)) : Result.fail(notStarted(event._tag))

const applyEvent = (rules: Rules, self: PlanRun.State, event: PlanRunEvent): ApplyResult => {
  if (self.outcome !== undefined && !isAllowedAfterEnd(event)) {
    return rejectUnexpected(event, "a run that goes on (PlanResumed first)", `one that ended ${self.outcome._tag}`)
  }
  if (self.interrupted !== undefined && self.outcome === undefined && !isAllowedWhenInterrupted(event)) {
    return rejectUnexpected(event, "a run that goes on", "one that was interrupted")
  }
  switch (event._tag) {
    case "PlanStarted":
      return rejectUnexpected(event, "no PlanStarted after the first fact", "a run that has started")
    case "StepStarted":
      return applyStepStarted(rules, self, event)
    case "StepRetried":
      return applyStepRetried(self, event)
    case "AgentChanged":
      return applyAgentChanged(self, event)
    case "NestedChanged":
      return applyNestedChanged(rules, self, event)
    case "StepFinished":
      return applyStepFinished(rules, self, event)
    case "StepFailed":
      return settleMember(self, event, event.step, (child) => ({ _tag: "Failed", failure: event.failure, ...child }))
    case "StepPaused":
      return settleMember(self, event, event.step, (child) => ({
        _tag: "Paused",
        ...(event.reason === undefined ? undefined : { reason: event.reason }),
        ...(event.request === undefined ? undefined : { request: event.request }),
        ...child
      }))
    case "StepConcluded":
      return settleMember(self, event, event.step, () => ({ _tag: "Concluded", answer: event.answer }))
    case "RouteTaken":
      return applyRouteTaken(rules, self, event)
    case "StepDecided":
      return applyStepDecided(self, event)
    case "PlanInterrupted":
      return updateState(self, event, { interrupted: event.reason === undefined ? {} : { reason: event.reason } })
    case "PlanFinished":
      return applyPlanFinished(rules, self, event)
    case "PlanResumed":
      return applyPlanResumed(self, event)
  }
}

/** A decision is a fact from outside; it may come while nothing runs. */
const isAllowedAfterEnd = (event: PlanRunEvent): boolean => event._tag === "PlanResumed" || isDecision(event)

const isDecision = (event: PlanRunEvent): boolean => {
  switch (event._tag) {
    case "StepDecided":
      return true
    case "AgentChanged":
      return isAgentDecision(event.event)
    case "NestedChanged":
      return isDecision(event.event)
    default:
      return false
  }
}

const isAgentDecision = (event: Run.Event): boolean =>
  event._tag === "ChildEvent" ? isAgentDecision(event.event) : event._tag === "ApprovalDecided"

/** Nothing starts any more; what runs may end. */
const isAllowedWhenInterrupted = (event: PlanRunEvent): boolean =>
  event._tag !== "PlanStarted" &&
  event._tag !== "StepStarted" &&
  event._tag !== "StepRetried" &&
  event._tag !== "PlanInterrupted"

const applyStepStarted = (rules: Rules, self: PlanRun.State, event: PlanRun.StepStarted): ApplyResult => {
  if (self.turn !== undefined) return startMember(self, event, self.iterations)
  const action = nextAction(rules, self)
  if (action._tag !== "RunSteps") {
    return rejectUnexpected(event, `what comes next: ${action._tag}`, `the start of ${JSON.stringify(event.step)}`)
  }
  if (!action.steps.includes(event.step)) {
    return rejectEvent(event, { _tag: "UnknownStep", step: event.step, known: action.steps })
  }
  const members = action.steps.map((step): PlanRun.Member => ({
    step,
    usage: Message.emptyUsage,
    status: { _tag: "Waiting" }
  }))
  return startMember(PlanRun.makeState({ ...self, turn: { members } }), event, self.iterations + 1)
}

/** What runs may change; what waits may be decided about. */
const changeableStatuses = (event: PlanRunEvent): ReadonlyArray<PlanRun.MemberStatus["_tag"]> =>
  isDecision(event) ? ["Running", "Paused", "Failed", "Waiting"] : ["Running"]

const applyAgentChanged = (self: PlanRun.State, event: PlanRun.AgentChanged): ApplyResult =>
  updateMember(self, event, event.step, changeableStatuses(event), (member) => {
    const child = PlanRun.childOf(member)
    const before = child?._tag === "Agent" ? child.state : undefined
    const begins = event.event._tag === "RunStarted" && (before === undefined || before.outcome !== undefined)
    if (child?._tag === "Plan") return rejectUnexpected(event, "facts of the plan in the step", "an event of an agent")
    if (event.event._tag === "RunStarted" && begins) {
      return changeChild(self, event, member, { _tag: "Agent", state: Run.start(event.event) }, undefined)
    }
    if (before === undefined) {
      return insideStep(event.step, event.event._tag, [], {
        _tag: "Unexpected",
        expected: "RunStarted first",
        found: event.event._tag
      })
    }
    const after = Run.apply(before, event.event)
    return Result.isFailure(after)
      ? insideStep(event.step, after.failure.event, after.failure.path, {
          _tag: "Agent",
          problem: after.failure.message
        })
      : changeChild(self, event, member, { _tag: "Agent", state: after.success }, usageOfEvent(self, event))
  })

const applyNestedChanged = (rules: Rules, self: PlanRun.State, event: PlanRun.NestedChanged): ApplyResult =>
  updateMember(self, event, event.step, changeableStatuses(event), (member) => {
    const nested = rules.nested(event.step)
    if (nested === undefined) return rejectEvent(event, { _tag: "NotNested", step: event.step })
    const child = PlanRun.childOf(member)
    if (child?._tag === "Agent") return rejectUnexpected(event, "events of the agent in the step", "a fact of a plan")
    const begins = child === undefined || (event.event._tag === "PlanStarted" && child.state.outcome !== undefined)
    const after = begins ? startNested(nested, self, event) : applyEvent(nested, child.state, event.event)
    return Result.isFailure(after)
      ? insideStep(event.step, after.failure.event, after.failure.path, after.failure.reason)
      : changeChild(self, event, member, { _tag: "Plan", state: after.success }, usageOfEvent(self, event))
  })

const startNested = (nested: Rules, self: PlanRun.State, event: PlanRun.NestedChanged): ApplyResult =>
  event.event._tag === "PlanStarted" && event.event.depth !== self.depth + 1
    ? rejectUnexpected(event.event, `depth ${self.depth + 1}`, `depth ${event.event.depth}`)
    : applyFirst(nested, event.event)

const applyStepFinished = (rules: Rules, self: PlanRun.State, event: PlanRun.StepFinished): ApplyResult =>
  updateMember(self, event, event.record.step, ["Running"], (member) => {
    const turn = changeMember(self, member, { status: { _tag: "Finished", record: event.record } })
    const usage = addUsage(self.usage, usageOfEvent(self, event))
    const records: Array<PlanRun.StepRecord> = []
    for (const { status } of turn.members) {
      if (status._tag === "Finished") records.push(status.record)
    }
    return updateState(self, event, {
      usage,
      ...(records.length < turn.members.length ? { turn } : finishGroup(rules, self, records))
    })
  })

const applyPlanFinished = (rules: Rules, self: PlanRun.State, event: PlanRun.PlanFinished): ApplyResult => {
  const action = nextAction(rules, self)
  const { outcome } = event
  const fits =
    action._tag === "Finish"
      ? Equal.equals(action.outcome, outcome) ||
        // The output of the last step need not be one of the plan
        (action.outcome._tag === "Completed" && outcome._tag === "Failed")
      : // A predicate can fail
        action._tag === "ChooseRoute" && outcome._tag === "Failed" && outcome.step === action.step
  if (fits) return updateState(self, event, { outcome })
  const found = `the outcome ${outcome._tag}`
  return action._tag === "Finish"
    ? rejectUnexpected(event, `the outcome ${action.outcome._tag} as it comes from next`, found)
    : rejectUnexpected(event, `what comes next: ${action._tag}`, found)
}

const applyPlanResumed = (self: PlanRun.State, event: PlanRun.PlanResumed): ApplyResult => {
  const { outcome } = self
  if (outcome?._tag === "Completed" || outcome?._tag === "Concluded") {
    return rejectUnexpected(event, "a run that can go on", `one that ended ${outcome._tag}`)
  }
  const { context, maxIterations } = event
  return updateState(self, event, {
    outcome: undefined,
    interrupted: undefined,
    turn: self.turn === undefined ? undefined : { members: self.turn.members.map(reopenMember) },
    ...(maxIterations === undefined ? undefined : { maxIterations }),
    ...(context === undefined ? undefined : { context })
  })
}

const updateMember = (
  self: PlanRun.State,
  event: PlanRunEvent,
  step: string,
  expected: ReadonlyArray<PlanRun.MemberStatus["_tag"]>,
  f: (member: PlanRun.Member) => ApplyResult
): ApplyResult => {
  const member = PlanRun.findMember(self, step)
  if (member === undefined) {
    return rejectEvent(event, { _tag: "UnknownStep", step, known: PlanRun.membersOf(self).map(({ step }) => step) })
  }
  const found = member.status._tag
  return expected.includes(found)
    ? f(member)
    : rejectEvent(event, { _tag: "StepStatus", step, expected: expected.join(" or "), found })
}

const changeMember = (
  self: PlanRun.State,
  { step }: PlanRun.Member,
  fields: Partial<Omit<PlanRun.Member, "step">>
): { readonly members: ReadonlyArray<PlanRun.Member> } => ({
  members: PlanRun.membersOf(self).map((member) => (member.step === step ? { ...member, ...fields } : member))
})

const keepChild = (child: PlanRun.Child | undefined) => (child === undefined ? undefined : { child })

/** Ends the try of a step that runs. */
const settleMember = (
  self: PlanRun.State,
  event: PlanRunEvent,
  step: string,
  status: (child: { readonly child: PlanRun.Child } | undefined) => PlanRun.MemberStatus
): ApplyResult =>
  updateMember(self, event, step, ["Running"], (member) =>
    updateState(self, event, {
      turn: changeMember(self, member, { status: status(keepChild(PlanRun.childOf(member))) })
    })
  )

const startMember = (self: PlanRun.State, event: PlanRun.StepStarted, iterations: number): ApplyResult =>
  updateMember(self, event, event.step, ["Waiting"], (member) => {
    const { attempt, decision } = member.status._tag === "Waiting" ? member.status : {}
    const status: PlanRun.MemberStatus = {
      _tag: "Running",
      attempt: attempt ?? 1,
      startedAt: event.at,
      ...keepChild(PlanRun.childOf(member)),
      ...(decision === undefined ? undefined : { decision })
    }
    return updateState(self, event, { iterations, turn: changeMember(self, member, { status }) })
  })

const applyStepRetried = (self: PlanRun.State, event: PlanRun.StepRetried): ApplyResult =>
  updateMember(self, event, event.step, ["Running"], (member) => {
    const { status } = member
    if (status._tag !== "Running" || event.attempt !== status.attempt + 1) {
      const found = status._tag === "Running" ? status.attempt : 0
      return rejectUnexpected(event, `the try after number ${found}`, `number ${event.attempt}`)
    }
    // Each try begins anew: nothing of the failed one is gone on from
    const { child: _, ...kept } = status
    return updateState(self, event, {
      turn: changeMember(self, member, { status: { ...kept, attempt: event.attempt } })
    })
  })

const applyStepDecided = (self: PlanRun.State, event: PlanRun.StepDecided): ApplyResult =>
  updateMember(self, event, event.step, ["Paused"], (member) => {
    const { status } = member
    if (status._tag !== "Paused" || (status.reason === undefined && status.request === undefined)) {
      return rejectUnexpected(event, "a decision about what waits inside of the step", "one about the step")
    }
    if (status.decision !== undefined) return rejectUnexpected(event, "one decision", "another one about the same step")
    const { approved, reason } = event
    const decision = { approved, ...(reason === undefined ? undefined : { reason }) }
    return updateState(self, event, { turn: changeMember(self, member, { status: { ...status, decision } }) })
  })

/** What has no result runs again, from where what is inside of it stands. */
const reopenMember = (member: PlanRun.Member): PlanRun.Member => {
  const { status } = member
  if (status._tag === "Finished" || status._tag === "Concluded") return member
  const decision = status._tag === "Failed" ? undefined : status.decision
  // A try that was cut off is made again; a step that failed or paused begins with its first one
  const attempt = status._tag === "Running" || status._tag === "Waiting" ? status.attempt : undefined
  return {
    ...member,
    status: {
      _tag: "Waiting",
      ...(attempt === undefined || attempt === 1 ? undefined : { attempt }),
      ...keepChild(status.child),
      ...(decision === undefined ? undefined : { decision })
    }
  }
}

/** The step after a fact of what runs inside of it. */
const changeChild = (
  self: PlanRun.State,
  event: PlanRunEvent,
  member: PlanRun.Member,
  child: PlanRun.Child,
  used: Message.TokenUsage | undefined
): ApplyResult => {
  const { status } = member
  if (status._tag === "Finished" || status._tag === "Concluded") {
    return rejectEvent(event, { _tag: "StepStatus", step: member.step, expected: "Running", found: status._tag })
  }
  return updateState(self, event, {
    usage: addUsage(self.usage, used),
    turn: changeMember(self, member, { usage: addUsage(member.usage, used), status: { ...status, child } })
  })
}

/** A turn counts as a whole, in declared order. */
const finishGroup = (
  rules: Rules,
  self: PlanRun.State,
  records: ReadonlyArray<PlanRun.StepRecord>
): Partial<PlanRun.StateFields> => {
  let { history, latest, writes } = self
  for (const record of records) {
    const index = Chunk.size(history)
    const key = planFlow.findStep(rules.definition, record.step)?.writes
    history = Chunk.append(history, record)
    latest = HashMap.set(latest, record.step, index)
    if (key !== undefined && key !== "" && record.output !== null) writes = HashMap.set(writes, key, index)
  }
  const step = self.cursor === undefined ? undefined : planFlow.findStep(rules.definition, self.cursor)
  return {
    history,
    latest,
    writes,
    previous: Chunk.size(history) - 1,
    turn: undefined,
    ...(step !== undefined && planFlow.hasRoutes(step) ? { choosing: step.name } : advanceCursor(rules, self))
  }
}

/** Where the turn at the cursor goes when no route is taken. */
const advanceCursor = ({ definition }: Rules, self: PlanRun.State): Partial<PlanRun.StateFields> => {
  const rejoined = planFlow.rejoinAt(self.rejoins)
  if (rejoined !== undefined) return { cursor: rejoined.at, rejoins: rejoined.frames, choosing: undefined }
  const position = self.cursor === undefined ? undefined : planFlow.positionsOf(definition).get(self.cursor)
  const after = position === undefined ? undefined : position + planFlow.stepsAt(definition, position).length
  return { cursor: after === undefined ? undefined : definition.steps[after]?.name, choosing: undefined }
}

const applyRouteTaken = (rules: Rules, self: PlanRun.State, event: PlanRun.RouteTaken): ApplyResult => {
  const { definition } = rules
  const step = planFlow.findStep(definition, event.step)
  if (self.choosing !== event.step || step === undefined) {
    const expected =
      self.choosing === undefined ? "no route to choose" : `the route of ${JSON.stringify(self.choosing)}`
    return rejectUnexpected(event, expected, `the route of ${JSON.stringify(event.step)}`)
  }
  if (event.to === undefined) return updateState(self, event, advanceCursor(rules, self))
  const known =
    step.routesBy === undefined ? (step.routes ?? []).map(({ to }) => to) : [...stepSchema.routable(definition, step)]
  if (!known.includes(event.to)) return rejectEvent(event, { _tag: "UnknownStep", step: event.to, known })
  return updateState(self, event, {
    cursor: event.to,
    choosing: undefined,
    rejoins: planFlow.enterBranch(self.rejoins, step, event.to, planFlow.positionsOf(definition))
  })
}

/** `before` is the state of the plan before the fact; absent when the fact begins it. */
const usageOfEvent = (before: PlanRun.State | undefined, event: PlanRun.Event): Message.TokenUsage | undefined => {
  switch (event._tag) {
    case "AgentChanged":
      return runParts.usageOf(event.event)
    case "NestedChanged": {
      const member = before === undefined ? undefined : PlanRun.findMember(before, event.step)
      const child = member === undefined ? undefined : PlanRun.childOf(member)
      return usageOfEvent(child?._tag === "Plan" ? child.state : undefined, event.event)
    }
    case "StepFinished": {
      // What ran inside of the step has told its usage already
      const member = before === undefined ? undefined : PlanRun.findMember(before, event.record.step)
      return member === undefined || isEmptyUsage(member.usage) ? event.record.usage : undefined
    }
    default:
      return undefined
  }
}

const isEmptyUsage = (usage: Message.TokenUsage): boolean => Object.keys(usage).length === 0

const addUsage = (total: Message.TokenUsage, usage: Message.TokenUsage | undefined): Message.TokenUsage =>
  usage === undefined || isEmptyUsage(usage) ? total : Message.sumUsage([total, usage])

const finishAction = (outcome: PlanRun.Outcome): Action => ({ _tag: "Finish", outcome })

const nextAction = ({ definition }: Rules, self: PlanRun.State): Action => {
  if (self.outcome !== undefined) return finishAction(self.outcome)
  if (self.interrupted !== undefined) return finishAction({ _tag: "Interrupted", ...self.interrupted })
  if (self.turn !== undefined) return nextInGroup(self, self.turn.members)
  if (self.choosing !== undefined) return { _tag: "ChooseRoute", step: self.choosing }
  const { cursor } = self
  if (cursor === undefined) return finishAction({ _tag: "Completed", output: previousOutput(self) })
  const position = planFlow.positionsOf(definition).get(cursor)
  const steps = position === undefined ? [] : planFlow.stepsAt(definition, position).map(({ name }) => name)
  // Only a state of another definition has such a cursor
  if (!Arr.isReadonlyArrayNonEmpty(steps))
    return finishAction({ _tag: "Failed", step: cursor, failure: definitionChanged(cursor) })
  return self.iterations < self.maxIterations
    ? { _tag: "RunSteps", steps }
    : finishAction({ _tag: "LimitReached", limit: self.maxIterations, next: cursor })
}

const definitionChanged = (step: string) => ({
  type: "PlanChanged",
  message: `expected a plan with the step ${JSON.stringify(step)}, found one without it: it was edited since`,
  retryable: false
})

/** What `fromPrev` reads, and what a plan gives when it ends here. */
const previousOutput = (self: PlanRun.State) =>
  Option.match(PlanRun.recordAt(self, self.previous), {
    onNone: () => self.input.payload,
    onSome: (record) => record.output
  })

/** Whether nothing is left to do for a step before the turn can be judged. */
const isEnded = ({ status }: PlanRun.Member): boolean => status._tag !== "Waiting" && status._tag !== "Running"

/** A band waits for all; then an answer counts before a pause, and a pause before a failure. */
const nextInGroup = (self: PlanRun.State, members: ReadonlyArray<PlanRun.Member>): Action => {
  const open = members.filter((member) => !isEnded(member)).map(({ step }) => step)
  if (Arr.isReadonlyArrayNonEmpty(open)) return { _tag: "RunSteps", steps: open }
  let failed: PlanRun.Outcome | undefined
  let paused = false
  for (const { status, step } of members) {
    if (status._tag === "Concluded") return finishAction({ _tag: "Concluded", answer: status.answer })
    if (status._tag === "Paused") paused = true
    if (status._tag === "Failed") failed ??= { _tag: "Failed", step, failure: status.failure }
  }
  return failed === undefined || paused
    ? finishAction({ _tag: "Paused", pauses: PlanRun.findPauses(self), requests: PlanRun.findApprovalRequests(self) })
    : finishAction(failed)
}

type Decision = Run.Decision

/** Something that waits: `path` are the steps of outer plans, then of the agent and its calls. */
interface WaitingItem {
  readonly callId: string
  readonly path: ReadonlyArray<string>
}

const decisionEvents = (
  self: PlanRun.State,
  decisions: ReadonlyArray<Decision>,
  at: DateTime.Utc
): Result.Result<ReadonlyArray<PlanRun.Event>, PlanError.InvalidDecision> => {
  const waiting: ReadonlyArray<WaitingItem> = [
    ...PlanRun.findApprovalRequests(self).map(({ callId, path }) => ({ callId, path: path ?? [] })),
    ...PlanRun.findPauses(self).map(({ path, step }) => ({ callId: step, path }))
  ]
  const decided = new Set<WaitingItem>()
  const events: Array<PlanRun.Event> = []
  for (const decision of decisions) {
    const invalid = (problem: PlanError.InvalidDecision["problem"]) =>
      Result.fail(refuseDecision(self, decision, problem, waiting))
    const candidates = waiting.filter((one) => matchesDecision(decision, one))
    const [one] = candidates
    if (one === undefined) return invalid(decisionProblem(self, decision))
    if (candidates.length > 1) return invalid("ambiguous")
    if (decided.has(one)) return invalid("repeated")
    decided.add(one)
    const made = decideWithin(self, one.path, decision, at)
    if (made === undefined) return invalid("notWaiting")
    events.push(made)
  }
  return Result.succeed(events)
}

const refuseDecision = (
  self: PlanRun.State,
  { callId, path }: Decision,
  problem: PlanError.InvalidDecision["problem"],
  waiting: ReadonlyArray<WaitingItem>
): PlanError.InvalidDecision =>
  new PlanError.InvalidDecision({
    callId,
    problem,
    waiting,
    ...(path === undefined ? undefined : { path }),
    ...(problem === "over" && self.outcome !== undefined ? { outcome: self.outcome._tag } : undefined)
  })

/** Why a decision is about nothing that waits. */
const decisionProblem = (self: PlanRun.State, { callId, path }: Decision): PlanError.InvalidDecision["problem"] => {
  if (self.outcome?._tag === "Completed" || self.outcome?._tag === "Concluded") return "over"
  const place = nestedStateAt(self, path ?? [])
  return place !== undefined && isStepOfRun(place, callId) ? "notWaiting" : "unknown"
}

/** The run of the plan at a path, if there is one now. */
const nestedStateAt = (self: PlanRun.State, [step, ...rest]: ReadonlyArray<string>): PlanRun.State | undefined => {
  if (step === undefined) return self
  const member = PlanRun.findMember(self, step)
  const child = member === undefined ? undefined : PlanRun.childOf(member)
  return child?._tag === "Plan" ? nestedStateAt(child.state, rest) : undefined
}

/** Whether a step ran, or is of this turn, and nothing of that name waits. */
const isStepOfRun = (self: PlanRun.State, step: string): boolean =>
  HashMap.has(self.latest, step) || isMemberSettled(PlanRun.findMember(self, step))

/** What waits inside of a step has a path of its own. */
const isMemberSettled = (member: PlanRun.Member | undefined): boolean =>
  member !== undefined &&
  (member.status._tag !== "Paused" || member.status.reason !== undefined || member.status.request !== undefined)

const matchesDecision = ({ callId, path }: Decision, waiting: WaitingItem): boolean =>
  waiting.callId === callId && (path === undefined || samePath(path, waiting.path))

const samePath = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): boolean =>
  a.length === b.length && a.every((name, i) => name === b[i])

const decideWithin = (
  self: PlanRun.State,
  path: ReadonlyArray<string>,
  decision: Decision,
  at: DateTime.Utc
): PlanRun.Event | undefined => {
  const [step, ...rest] = path
  const { approved, callId, reason } = decision
  if (step === undefined) {
    return { _tag: "StepDecided", at, step: callId, approved, ...(reason === undefined ? undefined : { reason }) }
  }
  const member = PlanRun.findMember(self, step)
  const child = member === undefined ? undefined : PlanRun.childOf(member)
  if (child === undefined) return undefined
  if (child._tag === "Plan") {
    const event = decideWithin(child.state, rest, decision, at)
    return event === undefined ? undefined : { _tag: "NestedChanged", at, step, event }
  }
  const decided = Run.decide(child.state, [{ ...decision, path: rest }], at)
  const [event] = Result.isSuccess(decided) ? decided.success : []
  return event === undefined ? undefined : { _tag: "AgentChanged", at, step, event }
}
