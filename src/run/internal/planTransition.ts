/**
 * The transition of runs of plans: which events may follow a state, the state after them, and what the run does next. Pure; the engine
 * performs the actions.
 *
 * A step can be an agent, and an agent can be a plan, so the transitions of both call each other. The transition of agents is passed to
 * the functions here, and `runTransition` exports them with it as `plans`.
 */

import * as Arr from "effect/Array"
import * as Chunk from "effect/Chunk"
import type * as DateTime from "effect/DateTime"
import * as Equal from "effect/Equal"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Message from "../../conversation/Message.ts"
import * as conversationHistory from "../../conversation/internal/history.ts"
import { defined } from "../../payload/internal/values.ts"
import * as accounts from "./accounts.ts"
import * as budgetRequest from "./budgetRequest.ts"
import * as ledger from "./ledger.ts"
import * as planRunParts from "./planRunParts.ts"
import * as runFold from "./runFold.ts"
import * as runParts from "./runParts.ts"
import type { Child, Frame, Items, Member, PlanFields } from "./runParts.ts"
import { askingIn, childOf, isForgedStep, isOpen, makeTurn, PlanState, Turn } from "./runParts.ts"
import * as runRequests from "./runRequests.ts"
import * as stepFlow from "./stepFlow.ts"

/** The transition of the agents in steps. */
export interface Agents {
  readonly begin: (event: runParts.Event) => runFold.Applied<runParts.State>
  readonly apply: (self: runParts.State, event: runParts.Event) => runFold.Applied<runParts.State>
  readonly openIn: (self: runParts.State) => ReadonlyArray<runRequests.Open<runParts.Event>>
  readonly isForged: (self: runParts.State) => boolean
}

/** The state of a run inside a step after an event of it, where the caller has it from the run inside. */
export type Inside = runParts.State | PlanState

/**
 * The records of finished steps, in order: a step that ran twice appears twice, a parallel group as a
 * whole and in declared order.
 *
 * @category getters
 * @since 0.1.0
 */
export const history = (self: PlanState): ReadonlyArray<planRunParts.StepRecord> => Chunk.toReadonlyArray(self.history)

const recordAt = (self: Frame, index: number | undefined): Option.Option<planRunParts.StepRecord> =>
  index === undefined ? Option.none() : Chunk.get(self.history, index)

/**
 * The newest record of a step.
 */
export const recordOf = (self: Frame, step: string): Option.Option<planRunParts.StepRecord> =>
  recordAt(self, Option.getOrUndefined(HashMap.get(self.latest, step)))

/**
 * The record that `fromPrev` reads: the record of the step that finished last, and after a parallel group the record of
 * its last declared member. None before the first step.
 */
export const lastRecord = (self: Frame): Option.Option<planRunParts.StepRecord> => recordAt(self, self.previous)

/** The record of a step that has just finished, also where others of its turn have not. */
export const finishedRecord = (self: PlanState, step: string): planRunParts.StepRecord | undefined => {
  const status = memberOf(self, step)?.status
  return status?._tag === "Finished" ? status.record : Option.getOrUndefined(recordOf(self, step))
}

/** The values of the `writes` keys that these records of the history and the later ones have written, in their order. */
export const writesFrom = (self: PlanState, first: number): ReadonlyArray<planRunParts.StepWrite> =>
  Array.from(self.writes)
    .filter(([, record]) => record >= first)
    .sort(([, a], [, b]) => a - b)
    .flatMap(([key, record]) =>
      Option.toArray(recordAt(self, record)).map(({ finishedAt, output, step }) => ({
        key,
        step,
        at: finishedAt,
        value: output
      }))
    )

/** The values of the `writes` keys, the newest of each, in the order of writing. */
export const writtenValues = (self: PlanState): ReadonlyMap<string, Schema.Json> =>
  new Map(writesFrom(self, 0).map(({ key, value }) => [key, value]))

const membersOf = (self: Frame): ReadonlyArray<Member> => self.turn?.members ?? []

/** The id of what a step asks for: one for each time that it asks, so that a decision counts once. */
export const requestId = (
  { depth, iterations, runId }: runParts.Asking,
  { asked = 1, step }: Pick<Member, "asked" | "step">
): string => {
  const id = asked === 1 ? `${step}:${iterations}` : `${step}:${iterations}:${asked}`
  // A plan inside of a step starts again in every turn of the step
  return depth === 0 ? id : `${id}@${runId}`
}

type Open = runRequests.Open<runParts.PlanRunEvent>

/** The request of a step that waits with a question. */
const openOf = (
  run: PlanState,
  self: Frame,
  member: Member,
  place: { readonly in?: runParts.Path }
): ReadonlyArray<Open> => {
  const { question, status, step } = member
  if (question === undefined || status._tag !== "Paused" || status.decision !== undefined) return []
  const callId = requestId(askingIn(run, self), member)
  const request = { ...planRunParts.requestOf(callId, step, question), ...(place.in && { path: textsOf(place.in) }) }
  const { ask, bounds, budget, contract = "", request: call } = question
  const decided = (verdict: runRequests.Verdict, at: DateTime.Utc): EventOf<"StepDecided"> => ({
    _tag: "StepDecided",
    at,
    step,
    callId,
    ...verdict,
    ...place
  })
  if (budget !== undefined) {
    const record = (verdict: runRequests.Verdict, at: DateTime.Utc) => ({
      ...decided(verdict, at),
      granted: budgetRequest.grantOf(budget, verdict)
    })
    return [{ request, record, again: decided }]
  }
  // The reason of a pause is no call of a tool
  const equal =
    call &&
    (() => runParts.equalDigest(run.context, { contract, arguments: call.arguments, ...runParts.termsOf(ask, bounds) }))
  return [{ request, equal, record: decided }]
}

/** The requests of a run or of items inside a step. */
const openInside = (
  agents: Agents,
  run: PlanState,
  member: Member,
  place: { readonly in?: runParts.Path }
): ReadonlyArray<Open> => {
  const { status, step } = member
  const child = childOf(status)
  const path = [...textsOf(place.in), step]
  switch (child?._tag) {
    case undefined:
      return []
    case "Agent":
      return runRequests.inside(agents.openIn(child.state), path, (event, at): EventOf<"AgentChanged"> => ({
        _tag: "AgentChanged",
        at,
        step,
        event,
        ...place
      }))
    case "Plan":
      return runRequests.inside(openIn(agents, child.state), path, (event, at): EventOf<"NestedChanged"> => ({
        _tag: "NestedChanged",
        at,
        step,
        event,
        ...place
      }))
    case "Block":
      return runParts
        .listItems(child.items)
        .flatMap((item, index) =>
          item._tag === "Open" ? openIn(agents, run, item.frame, [...(place.in ?? []), [step, index]]) : []
        )
  }
}

/** The requests of a frame of a run, step by step, with the events that record decisions about them. */
const openIn = (agents: Agents, run: PlanState, self: Frame = run, path?: runParts.Path): ReadonlyArray<Open> => {
  const place = path === undefined ? {} : { in: path }
  return membersOf(self).flatMap((member) => [
    ...openOf(run, self, member, place),
    ...openInside(agents, run, member, place)
  ])
}

/** The requests that a run waits with. */
const requests = (agents: Agents, self: PlanState): ReadonlyArray<runRequests.Request> =>
  runRequests.requestsOf(openIn(agents, self))

/**
 * The next action of a driver.
 *
 * **Details**
 *
 * - `RunSteps`: run these steps at the same time: the steps of the turn that are not done.
 * - `ChooseRoute`: choose the route of the step that has just finished.
 * - `Finish`: record this outcome, unless the state has it already, and stop.
 */
export type Action =
  | { readonly _tag: "RunSteps"; readonly steps: readonly [string, ...Array<string>] }
  | { readonly _tag: "ChooseRoute"; readonly step: string }
  | { readonly _tag: "Finish"; readonly outcome: planRunParts.Outcome }

/** An event of a step, which changes one frame. */
type StepEvent = Exclude<
  runParts.PlanRunEvent,
  { readonly _tag: "PlanStarted" | "PlanInterrupted" | "PlanFinished" | "PlanResumed" }
>

/** One kind of event. */
export type EventOf<Tag extends runParts.PlanRunEvent["_tag"]> = Extract<runParts.PlanRunEvent, { readonly _tag: Tag }>

/** The state after events, which follow a state or begin with `PlanStarted`. */
const fold = (agents: Agents, events: Iterable<runParts.PlanRunEvent>, from?: PlanState): ApplyResult =>
  runFold.fold({ begin, apply: (self: PlanState, event) => apply(agents, self, event) }, events, from)

type Status = Member["status"]

/** The steps of a frame, as the run follows them. */
type Steps = ReadonlyArray<planRunParts.FlowStep>

/** The step of that name in the current turn. */
export const memberOf = (self: Frame, step: string): Member | undefined =>
  self.turn && Option.getOrUndefined(HashMap.get(self.turn.byStep, step))

type ApplyResult = runFold.Applied<PlanState>

/** The fields of a frame that an event changes. */
type FrameResult = runFold.Applied<Partial<Frame>>

const rejectUnexpected = (event: { readonly _tag: string }, expected: string, found: string) =>
  runFold.reject(event, "Unexpected", expected, found)

const rejectUnknownStep = (event: runParts.PlanRunEvent, step: string, known: ReadonlyArray<string>) => {
  const names = known.length === 0 ? "(none)" : known.map((name) => JSON.stringify(name)).join(", ")
  return runFold.reject(event, "UnknownStep", `one of the steps ${names}`, JSON.stringify(step))
}

const rejectStatus = (event: runParts.PlanRunEvent, { status, step }: Member, expected: string) =>
  runFold.reject(event, "StepStatus", `${expected} of step ${JSON.stringify(step)}`, status._tag)

const updateState = (self: PlanState, event: runParts.PlanRunEvent, fields: Partial<PlanFields>): ApplyResult => {
  const charged =
    self.account === undefined || fields.account !== undefined
      ? undefined
      : accounts.after(self, self.account, { _tag: "PlanEvent", event })
  return Result.succeed(
    new PlanState(self, { ...fields, ...charged, updatedAt: event.at, revision: self.revision + 1 })
  )
}

/** The limits of the budgets of a run, and how much of them is used. */
export const usagesOf = (
  self: PlanState,
  now?: DateTime.Utc,
  beside?: ledger.Amounts
): ReadonlyArray<ledger.Limit> | undefined =>
  self.account && accounts.usages(self, self.account, runParts.reservedInFrame(self), now, beside)

/** The state after the first event. */
export const start = (event: EventOf<"PlanStarted">): PlanState => {
  const { at, _tag, budgets, ...fields } = event
  return new PlanState({
    ...runParts.absent,
    ...fields,
    account: budgets && ledger.open(undefined, budgets),
    cursor: event.basis.steps[0]?.name,
    rejoins: [],
    iterations: 0,
    history: Chunk.empty(),
    latest: HashMap.empty(),
    writes: HashMap.empty(),
    usage: {},
    startedAt: at,
    updatedAt: at,
    revision: 1
  })
}

/** The state after an event that begins a run. */
const begin = (event: runParts.PlanRunEvent | { readonly _tag: "no event" }): ApplyResult =>
  event._tag === "PlanStarted" ? Result.succeed(start(event)) : rejectUnexpected(event, "PlanStarted first", event._tag)

/** The state after one more event. */
const apply = (agents: Agents, self: PlanState, event: runParts.PlanRunEvent, inside?: Inside): ApplyResult => {
  if (self.outcome !== undefined && !isAllowedAfterEnd(event)) {
    return rejectUnexpected(event, "a run under way (PlanResumed first)", `a run that ended ${self.outcome._tag}`)
  }
  if (self.interrupted !== undefined && self.outcome === undefined && !isAllowedWhenInterrupted(event)) {
    return rejectUnexpected(event, "a run under way", "a run that was interrupted")
  }
  switch (event._tag) {
    case "PlanStarted":
      return rejectUnexpected(event, "no PlanStarted after the first event", "a run that has started")
    case "PlanInterrupted":
      return updateState(self, event, { interrupted: defined({ reason: event.reason }) })
    case "PlanFinished":
      return applyPlanFinished(agents, self, event)
    case "PlanResumed":
      return applyPlanResumed(self, event)
    default: {
      const changed = at(self.basis.steps, self, event, event.in ?? [], (steps, frame) =>
        applyInFrame(agents, steps, self, frame, event, inside)
      )
      return Result.isFailure(changed) ? Result.fail(changed.failure) : updateFrame(self, event, changed.success)
    }
  }
}

/** The state after an event of a step. */
const updateFrame = (self: PlanState, event: StepEvent, frame: Partial<Frame>): ApplyResult => {
  const usage = addUsage(self.usage, usageOf(event))
  return updateState(self, event, { ...frame, usage, writes: writesAfter(self, frame.history) })
}

const textsOf = (path: runParts.Path = []): ReadonlyArray<string> =>
  path.flatMap(([step, index]) => [step, String(index)])

/** The change of a frame with these steps whose frame at a path changes. */
const at = (
  steps: Steps,
  self: Frame,
  event: StepEvent,
  [place, ...path]: runParts.Path,
  change: (steps: Steps, frame: Frame) => FrameResult
): FrameResult => {
  if (place === undefined) return change(steps, self)
  const [step, index] = place
  return withMember(self, event, step, changeableStatuses(event), (member) => {
    const inner = stepFlow.findStep(steps, step)?.items
    const child = childOf(member.status)
    const items: Items = child?._tag === "Block" ? child.items : HashMap.empty()
    const item = Option.getOrUndefined(HashMap.get(items, index))
    if (inner === undefined || item?._tag !== "Open") {
      const found = item === undefined || inner === undefined ? "none" : "an item that has ended"
      return rejectUnexpected(event, `an item ${index} under way in step ${JSON.stringify(step)}`, found)
    }
    const changed = at(inner, item.frame, event, path, change)
    if (Result.isFailure(changed)) {
      return runFold.rejectInside([step, String(index)], changed.failure)
    }
    const frame = { ...item.frame, ...changed.success }
    return changeChild(self, event, member, {
      _tag: "Block",
      items: HashMap.set(items, index, { _tag: "Open", frame })
    })
  })
}

/** A frame of a run after an event of a step in it. */
const applyInFrame = (
  agents: Agents,
  steps: Steps,
  run: PlanState,
  self: Frame,
  event: StepEvent,
  inside: Inside | undefined
): FrameResult => {
  switch (event._tag) {
    case "StepStarted":
      return applyStepStarted(steps, run, self, event)
    case "StepRetried":
      return applyStepRetried(self, event)
    case "ToolCalled":
      return withMember(self, event, event.step, ["Running"], () => Result.succeed({}))
    case "AgentChanged":
      return applyAgentChanged(agents, self, event, inside)
    case "NestedChanged":
      return applyNestedChanged(agents, run, self, event, inside)
    case "StepFinished":
      return applyStepFinished(steps, run, self, event)
    case "StepFailed":
      // A later question is another one, also if it asks for the same
      return settleMember(
        self,
        event,
        event.step,
        (child) => ({ _tag: "Failed", failure: event.failure, ...child }),
        ({ answers: _, question: __, ...member }) => member
      )
    case "StepPaused":
      if (isForgedStep(askingIn(run, self, textsOf(event.in)), event)) {
        return rejectUnexpected(event, "the digest of the request as it is shown", "another digest")
      }
      return settleMember(
        self,
        event,
        event.step,
        (child) => ({ _tag: "Paused", ...child }),
        ({ input: _, question: __, ...member }) => ({
          ...member,
          ...defined({ asked: event.asked, input: event.input, question: event.question })
        })
      )
    case "StepConcluded":
      return settleMember(self, event, event.step, () => ({ _tag: "Concluded", answer: event.answer }))
    case "RouteTaken":
      return applyRouteTaken(steps, self, event)
    case "StepDecided":
      return applyStepDecided(run, self, event)
  }
}

/** A decision comes from outside, also while nothing runs. */
const isAllowedAfterEnd = (event: runParts.PlanRunEvent): boolean => event._tag === "PlanResumed" || isDecision(event)

const isDecision = (event: runParts.PlanRunEvent): boolean => runParts.isDecision({ _tag: "PlanEvent", event })

/** Nothing starts any more; what runs may end. */
const isAllowedWhenInterrupted = (event: runParts.PlanRunEvent): boolean =>
  event._tag !== "PlanStarted" &&
  event._tag !== "StepStarted" &&
  event._tag !== "StepRetried" &&
  event._tag !== "PlanInterrupted"

const applyStepStarted = (steps: Steps, run: PlanState, self: Frame, event: EventOf<"StepStarted">): FrameResult => {
  if (self.turn !== undefined) return startMember(self, event)
  const action = nextInFrame(steps, run, self)
  if (action._tag !== "RunSteps") {
    return rejectUnexpected(event, `what comes next: ${action._tag}`, `the start of ${JSON.stringify(event.step)}`)
  }
  if (!action.steps.includes(event.step)) return rejectUnknownStep(event, event.step, action.steps)
  const running: Status = { _tag: "Running", attempt: 1, startedAt: event.at }
  const members = action.steps.map((step): Member => ({
    step,
    usage: {},
    status: step === event.step ? running : { _tag: "Waiting" }
  }))
  return Result.succeed({ iterations: self.iterations + 1, turn: makeTurn(members) })
}

/** A running step may change; a waiting step may be decided about. */
const changeableStatuses = (event: runParts.PlanRunEvent): ReadonlyArray<Status["_tag"]> =>
  isDecision(event) ? ["Running", "Paused", "Failed", "Waiting"] : ["Running"]

const applyAgentChanged = (
  agents: Agents,
  self: Frame,
  event: EventOf<"AgentChanged">,
  inside: Inside | undefined
): FrameResult =>
  withMember(self, event, event.step, changeableStatuses(event), (member) => {
    const child = childOf(member.status)
    const { event: inner, step } = event
    if (child !== undefined && child._tag !== "Agent") {
      return rejectUnexpected(
        event,
        `events of the ${child._tag === "Plan" ? "plan" : "items"} in the step`,
        "an event of an agent"
      )
    }
    if (inside instanceof runParts.State) return changeChild(self, event, member, { _tag: "Agent", state: inside })
    const begins = child === undefined || (inner._tag === "RunStarted" && child.state.outcome !== undefined)
    const after = begins ? agents.begin(inner) : agents.apply(child.state, inner)
    return Result.isFailure(after)
      ? runFold.rejectInside([step], after.failure)
      : changeChild(self, event, member, { _tag: "Agent", state: after.success })
  })

const applyNestedChanged = (
  agents: Agents,
  run: PlanState,
  self: Frame,
  event: EventOf<"NestedChanged">,
  inside: Inside | undefined
): FrameResult =>
  withMember(self, event, event.step, changeableStatuses(event), (member) => {
    const { event: inner, step } = event
    const child = childOf(member.status)
    if (child !== undefined && child._tag !== "Plan") {
      return rejectUnexpected(
        event,
        `events of the ${child._tag === "Agent" ? "agent" : "items"} in the step`,
        "an event of a plan"
      )
    }
    if (inside instanceof PlanState) return changeChild(self, event, member, { _tag: "Plan", state: inside })
    const begins = child === undefined || (inner._tag === "PlanStarted" && child.state.outcome !== undefined)
    const after = begins ? startNested(run, inner) : apply(agents, child.state, inner)
    return Result.isFailure(after)
      ? runFold.rejectInside([step], after.failure)
      : changeChild(self, event, member, { _tag: "Plan", state: after.success })
  })

const startNested = (outer: PlanState, event: runParts.PlanRunEvent): ApplyResult =>
  event._tag === "PlanStarted" && event.depth !== outer.depth + 1
    ? rejectUnexpected(event, `depth ${outer.depth + 1}`, `depth ${event.depth}`)
    : begin(event)

/** The output of the agent or the plan in a step, once that has completed. */
const outputInside = (child: Child | undefined): Schema.Json | undefined => {
  if (child === undefined || child._tag === "Block" || child.state.outcome?._tag !== "Completed") return undefined
  const { output } = child.state.outcome
  if (output !== undefined || child._tag === "Plan") return output
  const { lastAssistant } = conversationHistory.asHistory(child.state.conversation)
  return lastAssistant === undefined ? "" : Message.text(lastAssistant)
}

/** The text of what came before the turn under way. */
const previousText = (run: PlanState, self: Frame): string =>
  Option.match(lastRecord(self), {
    onNone: () => run.input.task,
    onSome: ({ output }) => planRunParts.payloadText(output)
  })

/** The record of a step of the plan itself, as its event has it: without what the state has already. */
export const recordedOf = (self: PlanState, { output, task, ...record }: planRunParts.StepRecord) => {
  const inside = outputInside(childAt(self, record.step))
  return {
    ...record,
    ...(task !== previousText(self, self) && { task }),
    ...((inside === undefined || !Equal.equals(inside, output)) && { output })
  }
}

const applyStepFinished = (steps: Steps, run: PlanState, self: Frame, event: EventOf<"StepFinished">): FrameResult =>
  withMember(self, event, event.record.step, ["Running"], (member) => {
    const { output = outputInside(childOf(member.status)), task = previousText(run, self) } = event.record
    if (output === undefined) {
      return rejectUnexpected(event, "an output, or an agent or a plan in the step that has completed", "neither")
    }
    const record = { ...event.record, task, output }
    const turn = changeMember(self, member, { status: { _tag: "Finished", record } })
    return Result.succeed(turn.open > 0 ? { turn } : finishTurn(steps, self, turn))
  })

/** True for the outcome that an event names. The event of a completed run need not repeat the output. */
const isOutcome = (expected: planRunParts.Outcome, found: planRunParts.RecordedOutcome): boolean =>
  Equal.equals(expected, found) ||
  (expected._tag === "Completed" && found._tag === "Completed" && found.output === undefined)

const applyPlanFinished = (agents: Agents, self: PlanState, event: EventOf<"PlanFinished">): ApplyResult => {
  const action = next(agents, self)
  const { outcome } = event
  if (action._tag === "Finish" && isOutcome(action.outcome, outcome)) {
    return updateState(self, event, { outcome: action.outcome })
  }
  const canFail =
    action._tag === "Finish"
      ? // The output of the last step need not be one of the plan
        action.outcome._tag === "Completed"
      : // A predicate can fail
        action._tag === "ChooseRoute" && outcome._tag === "Failed" && outcome.step === action.step
  if (outcome._tag === "Failed" && canFail) return updateState(self, event, { outcome })
  if (action._tag === "Finish" && action.outcome._tag === "Paused" && outcome._tag === "Paused") {
    return rejectUnexpected(event, "the requests as they were asked", "other requests")
  }
  const found = `the outcome ${outcome._tag}`
  return action._tag === "Finish"
    ? rejectUnexpected(event, `the outcome ${action.outcome._tag} as it comes from next`, found)
    : rejectUnexpected(event, `what comes next: ${action._tag}`, found)
}

const applyPlanResumed = (self: PlanState, event: EventOf<"PlanResumed">): ApplyResult => {
  const { outcome } = self
  if (outcome?._tag === "Completed" || outcome?._tag === "Concluded") {
    return rejectUnexpected(event, "a run that can be resumed", `a run that ended ${outcome._tag}`)
  }
  const { budgets, change, maxIterations } = event
  return updateState(self, event, {
    // No time passes between a process that died and the next one
    account: budgets === undefined ? self.account : ledger.open(self.account, budgets),
    exceeded: outcome?._tag === "Paused" && budgets === undefined ? self.exceeded : undefined,
    outcome: undefined,
    interrupted: undefined,
    ...reopenFrame(self),
    ...defined({ maxIterations }),
    ...(change && { basis: change.basis, cursor: change.cursor })
  })
}

/** Passes the member to `f` if it has an expected status. */
const withMember = (
  self: Frame,
  event: runParts.PlanRunEvent,
  step: string,
  expected: ReadonlyArray<Status["_tag"]>,
  f: (member: Member) => FrameResult
): FrameResult => {
  const member = memberOf(self, step)
  if (member === undefined) {
    const known = membersOf(self).map(({ step }) => step)
    return rejectUnknownStep(event, step, known)
  }
  if (expected.includes(member.status._tag)) return f(member)
  return rejectStatus(event, member, expected.join(" or "))
}

/** The turn in which a member has changed. */
const changeMember = (self: Frame, member: Member, fields: Partial<Omit<Member, "step">>): Turn =>
  putMember(self, member, { ...member, ...fields })

const putMember = ({ turn = makeTurn([]) }: Frame, before: Member, after: Member): Turn =>
  new Turn({
    steps: turn.steps,
    byStep: HashMap.set(turn.byStep, after.step, after),
    open: turn.open + Number(isOpen(after)) - Number(isOpen(before))
  })

/** Ends the attempt of a running step. */
const settleMember = (
  self: Frame,
  event: runParts.PlanRunEvent,
  step: string,
  status: (child: { readonly child?: Child }) => Status,
  change: (member: Member) => Member = (member) => member
): FrameResult =>
  withMember(self, event, step, ["Running"], (member) =>
    Result.succeed({
      turn: putMember(self, member, {
        ...change(member),
        status: status(defined({ child: childOf(member.status) }))
      })
    })
  )

const startMember = (self: Frame, event: EventOf<"StepStarted">): FrameResult =>
  withMember(self, event, event.step, ["Waiting"], (member) => {
    const { attempt, decision } = member.status._tag === "Waiting" ? member.status : {}
    const status: Status = {
      _tag: "Running",
      attempt: attempt ?? 1,
      startedAt: event.at,
      ...defined({ child: childOf(member.status), decision })
    }
    return Result.succeed({ turn: changeMember(self, member, { status }) })
  })

const applyStepRetried = (self: Frame, event: EventOf<"StepRetried">): FrameResult =>
  withMember(self, event, event.step, ["Running"], (member) => {
    const { status } = member
    if (status._tag !== "Running" || event.attempt !== status.attempt + 1) {
      const found = status._tag === "Running" ? status.attempt : 0
      return rejectUnexpected(event, `the attempt after number ${found}`, `number ${event.attempt}`)
    }
    // Each attempt begins anew: the run inside the failed one is dropped
    const { child: _, ...kept } = status
    return Result.succeed({
      turn: changeMember(self, member, { status: { ...kept, attempt: event.attempt } })
    })
  })

const applyStepDecided = (run: PlanState, self: Frame, event: EventOf<"StepDecided">): FrameResult =>
  withMember(self, event, event.step, ["Paused"], (member) => {
    const { question, status } = member
    if (status._tag !== "Paused" || question === undefined) {
      return rejectUnexpected(event, "a decision about something inside the step", "a decision about the step")
    }
    if (status.decision !== undefined)
      return rejectUnexpected(event, "one decision", "another decision about the same step")
    if (question.digest !== event.digest || requestId(askingIn(run, self), member) !== event.callId) {
      return rejectUnexpected(event, "a decision about what the step asks for", "a decision about something else")
    }
    const { budget } = question
    const { granted } = event
    if (granted !== undefined && !(budget && Equal.equals(budgetRequest.grantOf(budget, event), granted))) {
      return rejectUnexpected(event, "the amount that the answer grants", "another amount")
    }
    const decision = runRequests.verdictOf(event)
    return Result.succeed({
      turn: changeMember(self, member, { ...answersAfter(member, decision), status: { ...status, decision } })
    })
  })

/** The answers of a step with an answer to what it asks itself. The answer of a call is its result. */
const answersAfter = ({ answers = [], question }: Member, { answer, approved }: runRequests.Verdict) =>
  approved && answer !== undefined && question?.request === undefined && question?.budget === undefined
    ? { answers: [...answers, { question: question?.reason ?? "", answer }] }
    : undefined

/** The state in another run, with the steps that have finished. Nothing there has a question, a decision or a run inside. */
const keepFinished = (self: PlanState, of: Pick<PlanState, "context" | "runId">): PlanState => {
  const members = membersOf(self).map(({ status, step, usage }): Member =>
    status._tag === "Finished" ? { step, usage, status } : { step, usage: {}, status: { _tag: "Waiting" } }
  )
  const hasFinished = !members.every(isOpen)
  const begun = self.turn === undefined || hasFinished ? 0 : 1
  return new PlanState(self, {
    ...of,
    turn: hasFinished ? makeTurn(members) : undefined,
    iterations: self.iterations - begun,
    interrupted: undefined,
    outcome: undefined
  })
}

/** The call of a tool that was approved may have run: it asks again. */
const isUsed = ({ question, status }: Member): boolean =>
  status._tag === "Running" &&
  status.decision !== undefined &&
  question?.request !== undefined &&
  question.ask === undefined

/** The steps of a turn and of the items inside it wait again. A run inside a step is reopened by an event of its own. */
const reopenFrame = ({ turn }: Frame): Pick<Frame, "turn"> => ({
  turn: turn && makeTurn(turn.members.map(reopenMember))
})

const reopenChild = (child: Child | undefined): Child | undefined =>
  child?._tag !== "Block"
    ? child
    : {
        _tag: "Block",
        items: HashMap.map(child.items, (item) =>
          item._tag === "Open" ? { ...item, frame: { ...item.frame, ...reopenFrame(item.frame) } } : item
        )
      }

/** A step without a result waits again, with what runs inside it. */
const reopenMember = (member: Member): Member => {
  const { status } = member
  if (status._tag === "Finished" || status._tag === "Concluded") return member
  const decision = status._tag === "Failed" || isUsed(member) ? undefined : status.decision
  // An attempt that was cut off is made again; a step that failed or paused begins with its first one
  const attempt = status._tag === "Running" || status._tag === "Waiting" ? status.attempt : undefined
  const { question, ...rest } = member
  return {
    ...rest,
    ...(isUsed(member) ? undefined : defined({ question })),
    status: {
      _tag: "Waiting",
      ...defined({
        attempt: attempt === 1 ? undefined : attempt,
        child: reopenChild(status.child),
        decision
      })
    }
  }
}

/** The step after an event of the run inside it. */
const changeChild = (self: Frame, event: runParts.PlanRunEvent, member: Member, child: Child): FrameResult => {
  const { status } = member
  if (status._tag === "Finished" || status._tag === "Concluded") {
    return rejectStatus(event, member, "Running")
  }
  const usage = addUsage(member.usage, usageOf(event))
  return Result.succeed({ turn: changeMember(self, member, { usage, status: { ...status, child } }) })
}

/** A turn counts as a whole, in declared order. */
const finishTurn = (steps: Steps, self: Frame, { members }: Turn): Partial<Frame> => {
  let { history, latest } = self
  for (const { status } of members) {
    if (status._tag !== "Finished") continue
    latest = HashMap.set(latest, status.record.step, Chunk.size(history))
    history = Chunk.append(history, status.record)
  }
  const step = self.cursor === undefined ? undefined : stepFlow.findStep(steps, self.cursor)
  return {
    history,
    latest,
    previous: Chunk.size(history) - 1,
    turn: undefined,
    ...(step?.routes === undefined ? advanceCursor(steps, self) : { choosing: step.name })
  }
}

/** The records behind the keys that steps write, with the records that the history has and the state does not. */
const writesAfter = (self: PlanState, history = self.history): PlanState["writes"] => {
  let { writes } = self
  for (let index = Chunk.size(self.history); index < Chunk.size(history); index += 1) {
    const { output, step } = Chunk.getUnsafe(history, index)
    const key = stepFlow.findStep(self.basis.steps, step)?.writes
    if (key !== undefined && key !== "" && output !== null) writes = HashMap.set(writes, key, index)
  }
  return writes
}

/** The step after the turn at the cursor when no route is taken. */
const advanceCursor = (steps: Steps, self: Frame): Partial<Frame> => {
  const positions = stepFlow.positionsOf(steps)
  const rejoined = stepFlow.rejoinAt(self.rejoins, positions)
  if (rejoined !== undefined) return { cursor: rejoined.at, rejoins: rejoined.branches, choosing: undefined }
  const position = self.cursor === undefined ? undefined : positions.get(self.cursor)
  const after = position === undefined ? undefined : stepFlow.groupEnd(steps, position)
  return { cursor: after === undefined ? undefined : steps[after]?.name, choosing: undefined }
}

const applyRouteTaken = (steps: Steps, self: Frame, event: EventOf<"RouteTaken">): FrameResult => {
  const step = stepFlow.findStep(steps, event.step)
  if (self.choosing !== event.step || step === undefined) {
    const expected =
      self.choosing === undefined ? "no route to choose" : `the route of ${JSON.stringify(self.choosing)}`
    return rejectUnexpected(event, expected, `the route of ${JSON.stringify(event.step)}`)
  }
  if (event.to === undefined) return Result.succeed(advanceCursor(steps, self))
  const { routes: known = [] } = step
  if (!known.includes(event.to)) return rejectUnknownStep(event, event.to, known)
  return Result.succeed({
    cursor: event.to,
    choosing: undefined,
    rejoins: stepFlow.enterBranch(self.rejoins, step, event.to, stepFlow.positionsOf(steps))
  })
}

/** The record of a step repeats what the events of the runs inside it reported. */
const usageOf = (event: runParts.PlanRunEvent): Message.TokenUsage | undefined =>
  runParts.usageOf({ _tag: "PlanEvent", event })

export const childAt = (self: Frame | undefined, step: string): Child | undefined => {
  const member = self === undefined ? undefined : memberOf(self, step)
  return member === undefined ? undefined : childOf(member.status)
}

const isEmptyUsage = (usage: Message.TokenUsage): boolean => Object.keys(usage).length === 0

const addUsage = (total: Message.TokenUsage, usage: Message.TokenUsage | undefined): Message.TokenUsage =>
  usage === undefined || isEmptyUsage(usage) ? total : Message.sumUsage([total, usage])

const finishAction = (outcome: planRunParts.Outcome): Action => ({ _tag: "Finish", outcome })

/** The next action of a driver. Ask when no part of the run is under way. */
const next = (agents: Agents, self: PlanState): Action => {
  if (self.outcome !== undefined) return finishAction(self.outcome)
  if (self.interrupted !== undefined) return finishAction({ _tag: "Interrupted", ...self.interrupted })
  if (self.exceeded !== undefined) return finishAction({ _tag: "Failed", ...budgetFailure(self, self.exceeded) })
  return self.turn === undefined
    ? nextInFrame(self.basis.steps, self, self)
    : nextInTurn(agents, self, self.turn.members)
}

/** An answer has ended the run at the limit of a budget. */
const budgetFailure = ({ cursor = "" }: PlanState, { limit, unit }: ledger.Usage) => ({
  step: cursor,
  failure: { type: "BudgetExceeded", message: `the budget is ${limit} ${unit}`, retryable: false }
})

/** The next action in a frame of a run without a turn. */
const nextInFrame = (flow: Steps, run: PlanState, self: Frame): Action => {
  const { choosing, cursor } = self
  if (choosing !== undefined) return { _tag: "ChooseRoute", step: choosing }
  if (cursor === undefined) return finishAction({ _tag: "Completed", output: previousOutput(run, self) })
  const position = stepFlow.positionsOf(flow).get(cursor)
  const steps = position === undefined ? [] : stepFlow.stepsAt(flow, position).map(({ name }) => name)
  // Only a state of another definition has a cursor without steps
  if (!Arr.isReadonlyArrayNonEmpty(steps))
    return finishAction({ _tag: "Failed", step: cursor, failure: definitionChanged(cursor) })
  return self.iterations < run.maxIterations
    ? { _tag: "RunSteps", steps }
    : finishAction({ _tag: "LimitReached", limit: run.maxIterations, next: cursor })
}

const definitionChanged = (step: string) => ({
  type: "PlanChanged",
  message: `expected a plan with the step ${JSON.stringify(step)}, found a plan without that step: the plan was edited since`,
  retryable: false
})

/** The output that `fromPrev` reads, which is also the output of a plan that ends here. */
const previousOutput = (run: PlanState, self: Frame) =>
  Option.match(lastRecord(self), {
    onNone: () => run.input.payload,
    onSome: (record) => record.output
  })

/** A turn waits for all its members; then an answer counts before a pause, and a pause before a failure. */
const nextInTurn = (agents: Agents, self: PlanState, members: ReadonlyArray<Member>): Action => {
  const open = members
    .filter(({ status }) => status._tag === "Waiting" || status._tag === "Running")
    .map(({ step }) => step)
  if (Arr.isReadonlyArrayNonEmpty(open)) return { _tag: "RunSteps", steps: open }
  let failed: planRunParts.Outcome | undefined
  let paused = false
  for (const { status, step } of members) {
    if (status._tag === "Concluded") return finishAction({ _tag: "Concluded", answer: status.answer })
    if (status._tag === "Paused") paused = true
    if (status._tag === "Failed") failed ??= { _tag: "Failed", step, failure: status.failure }
  }
  return failed === undefined || paused
    ? finishAction({ _tag: "Paused", requests: requests(agents, self) })
    : finishAction(failed)
}

/** True for a state, read from outside, that shows other requests than were asked, or with an agent inside that does. */
const isForged = (agents: Agents, self: PlanState): boolean => {
  const { outcome } = self
  const isShown =
    outcome?._tag !== "Paused" ||
    requests(agents, self).every((request) => outcome.requests.some((shown) => Equal.equals(request, shown)))
  return !isShown || hasForged(agents, self)
}

const hasForged = (agents: Agents, self: Frame): boolean =>
  membersOf(self).some((member) => {
    const child = childOf(member.status)
    if (child?._tag === "Agent") return agents.isForged(child.state)
    if (child?._tag === "Plan") return isForged(agents, child.state)
    return runParts.framesIn([member]).some(({ frame }) => hasForged(agents, frame))
  })

/**
 * The transition of plans, with the transition of the agents inside.
 *
 * - `start`: the state after the first event. `begin`: the same of any event, which has to be the first one.
 * - `apply`: the state after one more event. `inside` is the state of the run inside after an event of it, where the caller has it.
 * - `fold`: the state from the list of its events.
 * - `next`: the next action of a driver. Ask when no part of the run is under way.
 * - `keepFinished`: the state in another run, with the steps that have finished.
 * - `openIn`: the requests that a run has open, with the events that record decisions about them.
 * - `requests`: the requests.
 * - `isForged`: true for a state, read from outside, that shows other requests than were asked.
 * - `decide`: the events that record decisions about requests of a run. They go before `PlanResumed`. A decision about a tool call
 *   allows or denies one attempt: when the call fails and the step has retries, it asks again. A function reads its decision in each
 *   retry. When a step that was approved fails and runs again in a resumed run, it asks again.
 */
export const withAgents = (agents: Agents) => ({
  start,
  begin,
  apply: (self: PlanState, event: runParts.PlanRunEvent, inside?: Inside): ApplyResult =>
    apply(agents, self, event, inside),
  fold: (events: Iterable<runParts.PlanRunEvent>, from?: PlanState): ApplyResult => fold(agents, events, from),
  next: (self: PlanState): Action => next(agents, self),
  keepFinished,
  openIn: (self: PlanState): ReadonlyArray<Open> => openIn(agents, self),
  requests: (self: PlanState): ReadonlyArray<runRequests.Request> => requests(agents, self),
  isForged: (self: PlanState): boolean => isForged(agents, self),
  decide: (
    self: PlanState,
    decisions: ReadonlyArray<runRequests.Decision> | undefined,
    at: DateTime.Utc,
    isSettled?: boolean
  ): Result.Result<ReadonlyArray<runParts.PlanRunEvent>, runRequests.InvalidDecision> =>
    runRequests.decide(openIn(agents, self), decisions, at, isSettled)
})
