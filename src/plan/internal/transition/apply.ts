/** Which facts may follow a state, and the state after them: the second table of `PlanTransition`. */
import * as Chunk from "effect/Chunk"
import * as Equal from "effect/Equal"
import * as HashMap from "effect/HashMap"
import * as Result from "effect/Result"
import type { RunEvent } from "../../../agent/RunEvent.ts"
import * as RunTransition from "../../../agent/RunTransition.ts"
import * as TokenUsage from "../../../conversation/TokenUsage.ts"
import { PlanEventError, type Reason } from "../../PlanEventError.ts"
import type * as PlanRunEvent from "../../PlanRunEvent.ts"
import type { Child, Member, MemberStatus, PlanRunState } from "../../PlanRunState.ts"
import type { Rules } from "../../PlanTransition.ts"
import * as frames from "./frames.ts"
import { next } from "./next.ts"
import { positions, routes, stepOf, turnAt } from "./positions.ts"
import * as states from "./state.ts"
import * as usages from "./usage.ts"

type Event = PlanRunEvent.PlanRunEvent

type Applied = Result.Result<PlanRunState, PlanEventError>

const fail = (event: Event, reason: Reason): Result.Result<never, PlanEventError> =>
  Result.fail(new PlanEventError({ event: event._tag, path: [], reason }))

const unexpected = (event: Event, expected: string, found: string) =>
  fail(event, { _tag: "Unexpected", expected, found })

const inside = (step: string, event: string, path: ReadonlyArray<string>, reason: Reason) =>
  Result.fail(new PlanEventError({ event, path: [step, ...path], reason }))

export const start = ({ definition }: Rules, event: PlanRunEvent.PlanStarted): PlanRunState =>
  states.make({
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
    usage: TokenUsage.empty,
    interrupted: undefined,
    outcome: undefined,
    startedAt: event.at,
    updatedAt: event.at,
    revision: 1
  })

export const first = (rules: Rules, event: Event): Applied =>
  event._tag === "PlanStarted" ? Result.succeed(start(rules, event)) : Result.fail(notStarted(event._tag))

export const notStarted = (found: string): PlanEventError =>
  new PlanEventError({ event: found, path: [], reason: { _tag: "Unexpected", expected: "PlanStarted first", found } })

export const apply = (rules: Rules, self: PlanRunState, event: Event): Applied => {
  if (self.outcome !== undefined && !fitsEnded(event)) {
    return unexpected(event, "a run that goes on (PlanResumed first)", `one that ended ${self.outcome._tag}`)
  }
  if (self.interrupted !== undefined && self.outcome === undefined && !fitsInterrupted(event)) {
    return unexpected(event, "a run that goes on", "one that was interrupted")
  }
  switch (event._tag) {
    case "PlanStarted":
      return unexpected(event, "no PlanStarted after the first fact", "a run that has started")
    case "StepStarted":
      return stepStarted(rules, self, event)
    case "StepRetried":
      return stepRetried(self, event)
    case "AgentChanged":
      return agentChanged(self, event)
    case "NestedChanged":
      return nestedChanged(rules, self, event)
    case "StepFinished":
      return stepFinished(rules, self, event)
    case "StepFailed":
      return settle(self, event, event.step, (child) => ({ _tag: "Failed", failure: event.failure, ...child }))
    case "StepPaused":
      return settle(self, event, event.step, (child) => ({
        _tag: "Paused",
        ...(event.reason === undefined ? undefined : { reason: event.reason }),
        ...(event.request === undefined ? undefined : { request: event.request }),
        ...child
      }))
    case "StepConcluded":
      return settle(self, event, event.step, () => ({ _tag: "Concluded", answer: event.answer }))
    case "RouteTaken":
      return routeTaken(rules, self, event)
    case "StepDecided":
      return stepDecided(self, event)
    case "PlanInterrupted":
      return update(self, event, { interrupted: event.reason === undefined ? {} : { reason: event.reason } })
    case "PlanFinished":
      return planFinished(rules, self, event)
    case "PlanResumed":
      return planResumed(self, event)
  }
}

/** A decision is a fact from outside; it may come while nothing runs. */
const fitsEnded = (event: Event): boolean => event._tag === "PlanResumed" || isDecision(event)

const isDecision = (event: Event): boolean => {
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

const isAgentDecision = (event: RunEvent): boolean =>
  event._tag === "ChildEvent" ? isAgentDecision(event.event) : event._tag === "ApprovalDecided"

/** Nothing starts any more; what runs may end. */
const fitsInterrupted = (event: Event): boolean =>
  event._tag !== "PlanStarted" &&
  event._tag !== "StepStarted" &&
  event._tag !== "StepRetried" &&
  event._tag !== "PlanInterrupted"

const update = (self: PlanRunState, event: Event, fields: Partial<states.Fields>): Applied =>
  Result.succeed(states.make({ ...self, ...fields, updatedAt: event.at, revision: self.revision + 1 }))

const withMember = (
  self: PlanRunState,
  event: Event,
  step: string,
  expected: ReadonlyArray<MemberStatus["_tag"]>,
  f: (member: Member) => Applied
): Applied => {
  const member = states.member(self, step)
  if (member === undefined) {
    return fail(event, { _tag: "UnknownStep", step, known: states.members(self).map(({ step }) => step) })
  }
  const found = member.status._tag
  return expected.includes(found)
    ? f(member)
    : fail(event, { _tag: "StepStatus", step, expected: expected.join(" or "), found })
}

const changeMember = (
  self: PlanRunState,
  { step }: Member,
  fields: Partial<Omit<Member, "step">>
): { readonly members: ReadonlyArray<Member> } => ({
  members: states.members(self).map((member) => (member.step === step ? { ...member, ...fields } : member))
})

const keepChild = (child: Child | undefined) => (child === undefined ? undefined : { child })

/** Ends the try of a step that runs. */
const settle = (
  self: PlanRunState,
  event: Event,
  step: string,
  status: (child: { readonly child: Child } | undefined) => MemberStatus
): Applied =>
  withMember(self, event, step, ["Running"], (member) =>
    update(self, event, { turn: changeMember(self, member, { status: status(keepChild(states.childOf(member))) }) })
  )

const stepStarted = (rules: Rules, self: PlanRunState, event: PlanRunEvent.StepStarted): Applied => {
  if (self.turn !== undefined) return startMember(self, event, self.iterations)
  const action = next(rules, self)
  if (action._tag !== "RunSteps") {
    return unexpected(event, `what comes next: ${action._tag}`, `the start of ${JSON.stringify(event.step)}`)
  }
  if (!action.steps.includes(event.step)) {
    return fail(event, { _tag: "UnknownStep", step: event.step, known: action.steps })
  }
  const members = action.steps.map((step): Member => ({ step, usage: TokenUsage.empty, status: { _tag: "Waiting" } }))
  return startMember(states.make({ ...self, turn: { members } }), event, self.iterations + 1)
}

const startMember = (self: PlanRunState, event: PlanRunEvent.StepStarted, iterations: number): Applied =>
  withMember(self, event, event.step, ["Waiting"], (member) => {
    const decision = member.status._tag === "Waiting" ? member.status.decision : undefined
    const status: MemberStatus = {
      _tag: "Running",
      attempt: 1,
      startedAt: event.at,
      ...keepChild(states.childOf(member)),
      ...(decision === undefined ? undefined : { decision })
    }
    return update(self, event, { iterations, turn: changeMember(self, member, { status }) })
  })

const stepRetried = (self: PlanRunState, event: PlanRunEvent.StepRetried): Applied =>
  withMember(self, event, event.step, ["Running"], (member) => {
    const { status } = member
    if (status._tag !== "Running" || event.attempt !== status.attempt + 1) {
      const found = status._tag === "Running" ? status.attempt : 0
      return unexpected(event, `the try after number ${found}`, `number ${event.attempt}`)
    }
    // Each try begins anew: nothing of the failed one is gone on from
    const { child: _, ...kept } = status
    return update(self, event, {
      turn: changeMember(self, member, { status: { ...kept, attempt: event.attempt } })
    })
  })

/** What runs may change; what waits may be decided about. */
const changeable = (event: Event): ReadonlyArray<MemberStatus["_tag"]> =>
  isDecision(event) ? ["Running", "Paused", "Failed", "Waiting"] : ["Running"]

/** The step after a fact of what runs inside of it. */
const changeChild = (
  self: PlanRunState,
  event: Event,
  member: Member,
  child: Child,
  used: TokenUsage.TokenUsage | undefined
): Applied => {
  const { status } = member
  if (status._tag === "Finished" || status._tag === "Concluded") {
    return fail(event, { _tag: "StepStatus", step: member.step, expected: "Running", found: status._tag })
  }
  return update(self, event, {
    usage: usages.add(self.usage, used),
    turn: changeMember(self, member, { usage: usages.add(member.usage, used), status: { ...status, child } })
  })
}

const agentChanged = (self: PlanRunState, event: PlanRunEvent.AgentChanged): Applied =>
  withMember(self, event, event.step, changeable(event), (member) => {
    const child = states.childOf(member)
    const before = child?._tag === "Agent" ? child.state : undefined
    const begins = event.event._tag === "RunStarted" && (before === undefined || before.outcome !== undefined)
    if (child?._tag === "Plan") return unexpected(event, "facts of the plan in the step", "an event of an agent")
    if (event.event._tag === "RunStarted" && begins) {
      return changeChild(self, event, member, { _tag: "Agent", state: RunTransition.start(event.event) }, undefined)
    }
    if (before === undefined) {
      return inside(event.step, event.event._tag, [], {
        _tag: "Unexpected",
        expected: "RunStarted first",
        found: event.event._tag
      })
    }
    const after = RunTransition.apply(before, event.event)
    return Result.isFailure(after)
      ? inside(event.step, after.failure.event, after.failure.path, { _tag: "Agent", problem: after.failure.message })
      : changeChild(self, event, member, { _tag: "Agent", state: after.success }, usages.ofPlan(self, event))
  })

const nestedChanged = (rules: Rules, self: PlanRunState, event: PlanRunEvent.NestedChanged): Applied =>
  withMember(self, event, event.step, changeable(event), (member) => {
    const nested = rules.nested(event.step)
    if (nested === undefined) return fail(event, { _tag: "NotNested", step: event.step })
    const child = states.childOf(member)
    if (child?._tag === "Agent") return unexpected(event, "events of the agent in the step", "a fact of a plan")
    const begins = child === undefined || (event.event._tag === "PlanStarted" && child.state.outcome !== undefined)
    const after = begins ? startNested(nested, self, event) : apply(nested, child.state, event.event)
    return Result.isFailure(after)
      ? inside(event.step, after.failure.event, after.failure.path, after.failure.reason)
      : changeChild(self, event, member, { _tag: "Plan", state: after.success }, usages.ofPlan(self, event))
  })

const startNested = (nested: Rules, self: PlanRunState, event: PlanRunEvent.NestedChanged): Applied =>
  event.event._tag === "PlanStarted" && event.event.depth !== self.depth + 1
    ? unexpected(event.event, `depth ${self.depth + 1}`, `depth ${event.event.depth}`)
    : first(nested, event.event)

const stepFinished = (rules: Rules, self: PlanRunState, event: PlanRunEvent.StepFinished): Applied =>
  withMember(self, event, event.record.step, ["Running"], (member) => {
    const turn = changeMember(self, member, { status: { _tag: "Finished", record: event.record } })
    const usage = usages.add(self.usage, usages.ofPlan(self, event))
    const records: Array<PlanRunEvent.StepRecord> = []
    for (const { status } of turn.members) {
      if (status._tag === "Finished") records.push(status.record)
    }
    return update(self, event, {
      usage,
      ...(records.length < turn.members.length ? { turn } : finishTurn(rules, self, records))
    })
  })

/** A turn counts as a whole, in declared order. */
const finishTurn = (
  rules: Rules,
  self: PlanRunState,
  records: ReadonlyArray<PlanRunEvent.StepRecord>
): Partial<states.Fields> => {
  let { history, latest, writes } = self
  for (const record of records) {
    const index = Chunk.size(history)
    const key = stepOf(rules.definition, record.step)?.writes
    history = Chunk.append(history, record)
    latest = HashMap.set(latest, record.step, index)
    if (key !== undefined && key !== "" && record.output !== null) writes = HashMap.set(writes, key, index)
  }
  const step = self.cursor === undefined ? undefined : stepOf(rules.definition, self.cursor)
  return {
    history,
    latest,
    writes,
    previous: Chunk.size(history) - 1,
    turn: undefined,
    ...(step !== undefined && routes(step) ? { choosing: step.name } : goOn(rules, self))
  }
}

/** Where the turn at the cursor goes when no route is taken. */
const goOn = ({ definition }: Rules, self: PlanRunState): Partial<states.Fields> => {
  const rejoined = frames.rejoin(self.rejoins)
  if (rejoined !== undefined) return { cursor: rejoined.at, rejoins: rejoined.frames, choosing: undefined }
  const position = self.cursor === undefined ? undefined : positions(definition).get(self.cursor)
  const after = position === undefined ? undefined : position + turnAt(definition, position).length
  return { cursor: after === undefined ? undefined : definition.steps[after]?.name, choosing: undefined }
}

const routeTaken = (rules: Rules, self: PlanRunState, event: PlanRunEvent.RouteTaken): Applied => {
  const { definition } = rules
  const step = stepOf(definition, event.step)
  if (self.choosing !== event.step || step === undefined) {
    const expected =
      self.choosing === undefined ? "no route to choose" : `the route of ${JSON.stringify(self.choosing)}`
    return unexpected(event, expected, `the route of ${JSON.stringify(event.step)}`)
  }
  if (event.to === undefined) return update(self, event, goOn(rules, self))
  const known = step.routesBy === undefined ? (step.routes ?? []).map(({ to }) => to) : names(definition.steps)
  if (!known.includes(event.to)) return fail(event, { _tag: "UnknownStep", step: event.to, known })
  return update(self, event, {
    cursor: event.to,
    choosing: undefined,
    rejoins: frames.route(self.rejoins, step, event.to, positions(definition))
  })
}

const names = (steps: Rules["definition"]["steps"]): ReadonlyArray<string> => steps.map(({ name }) => name)

const stepDecided = (self: PlanRunState, event: PlanRunEvent.StepDecided): Applied =>
  withMember(self, event, event.step, ["Paused"], (member) => {
    const { status } = member
    if (status._tag !== "Paused" || (status.reason === undefined && status.request === undefined)) {
      return unexpected(event, "a decision about what waits inside of the step", "one about the step")
    }
    if (status.decision !== undefined) return unexpected(event, "one decision", "another one about the same step")
    const { approved, reason } = event
    const decision = { approved, ...(reason === undefined ? undefined : { reason }) }
    return update(self, event, { turn: changeMember(self, member, { status: { ...status, decision } }) })
  })

const planFinished = (rules: Rules, self: PlanRunState, event: PlanRunEvent.PlanFinished): Applied => {
  const action = next(rules, self)
  const { outcome } = event
  const fits =
    action._tag === "Finish"
      ? Equal.equals(action.outcome, outcome) ||
        // The output of the last step need not be one of the plan
        (action.outcome._tag === "Completed" && outcome._tag === "Failed")
      : // A predicate can fail
        action._tag === "ChooseRoute" && outcome._tag === "Failed" && outcome.step === action.step
  if (fits) return update(self, event, { outcome })
  const found = `the outcome ${outcome._tag}`
  return action._tag === "Finish"
    ? unexpected(event, `the outcome ${action.outcome._tag} as it comes from next`, found)
    : unexpected(event, `what comes next: ${action._tag}`, found)
}

const planResumed = (self: PlanRunState, event: PlanRunEvent.PlanResumed): Applied => {
  const { outcome } = self
  if (outcome?._tag === "Completed" || outcome?._tag === "Concluded") {
    return unexpected(event, "a run that can go on", `one that ended ${outcome._tag}`)
  }
  const { context, maxIterations } = event
  return update(self, event, {
    outcome: undefined,
    interrupted: undefined,
    turn: self.turn === undefined ? undefined : { members: self.turn.members.map(again) },
    ...(maxIterations === undefined ? undefined : { maxIterations }),
    ...(context === undefined ? undefined : { context })
  })
}

/** What has no result runs again, from where what is inside of it stands. */
const again = (member: Member): Member => {
  const { status } = member
  if (status._tag === "Finished" || status._tag === "Concluded") return member
  const decision = status._tag === "Failed" ? undefined : status.decision
  return {
    ...member,
    status: {
      _tag: "Waiting",
      ...keepChild(status.child),
      ...(decision === undefined ? undefined : { decision })
    }
  }
}
