/**
 * A driver without fibers, for tests of the pure core of plans: plans, outcomes of
 * steps, interruptions and crashes come from plain data.
 */
import { DateTime, HashMap, Result, Schema } from "effect"
import * as planTransition from "#src/plan/internal/planTransition.ts"
import { PlanRun } from "effect-emissary/plan"
import * as childDriver from "../agent/child-driver.ts"
import { plan, step } from "./definitions.ts"
import type * as planRunParts from "#src/plan/internal/planRunParts.ts"

const Index = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9 }))

export const Step = Schema.Struct({
  kind: Schema.Literals(["function", "function", "tool", "agent", "plan"]),
  parallel: Schema.Boolean,
  writes: Schema.Literals(["", "a", "b"]),
  routes: Schema.Literals(["none", "none", "routes", "routesBy"]),
  rejoin: Index
})

export const Script = Schema.Struct({
  steps: Schema.Array(Step).check(Schema.isMaxLength(8)),
  maxIterations: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 20 })),
  draws: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 999 }))).check(
    Schema.isMinLength(5),
    Schema.isMaxLength(120)
  )
})
export type Script = typeof Script.Type

export const time = (millis: number): DateTime.Utc => DateTime.makeUnsafe(Date.UTC(2026, 0, 1) + millis)

/** The plan in steps of the kind "plan": a pause in the middle, and a parallel group. */
const inner = planTransition.makeRules(
  plan(
    step("x"),
    step("pay", { target: { kind: "tool", name: "pay" } }),
    step("p", { parallel: true }),
    step("q", { parallel: true })
  )
)

const nameOf = (index: number) => `s${index}`

export const applyAll = (rules: planTransition.Rules, state: PlanRun.State, events: Iterable<PlanRun.Event>) =>
  planTransition.fold(rules, events, state)

export const rulesOf = (script: Script): planTransition.Rules => {
  const alone = script.steps.flatMap(({ parallel }, index) => (parallel ? [] : [nameOf(index)]))
  const nested = new Map<string, planTransition.Rules>()
  const steps = script.steps.map(({ kind, parallel, rejoin, routes, writes }, index) => {
    const later = script.steps.length - index - 1
    const routed = routes !== "none" && !parallel && alone.length > 0
    if (kind === "plan") nested.set(nameOf(index), inner)
    return step(nameOf(index), {
      target: { kind: kind === "tool" || kind === "agent" ? kind : "function", name: nameOf(index) },
      parallel,
      ...(writes === "" ? {} : { writes }),
      ...(routed && routes === "routes"
        ? { routes: alone.map((to) => ({ to, when: { _tag: "Text", value: to } as const })) }
        : {}),
      ...(routed && routes === "routesBy" ? { routesBy: "next" } : {}),
      ...(routed && later > 0 && rejoin > 3 ? { afterBranches: nameOf(index + 1 + (rejoin % later)) } : {})
    })
  })
  return planTransition.makeRules({ ...plan(...steps), maxIterations: script.maxIterations }, nested)
}

export interface Log {
  readonly events: ReadonlyArray<PlanRun.Event>
  readonly states: ReadonlyArray<PlanRun.State>
  readonly outcomes: ReadonlyArray<PlanRun.Outcome["_tag"] | "crash">
  readonly final: PlanRun.State
}

class Cut {
  readonly _tag = "Cut"
}

interface Run {
  readonly rules: planTransition.Rules
  readonly state: () => PlanRun.State
  readonly put: (event: PlanRun.Event) => void
}

/** Runs a plan. `through` is called on the state between every two transitions. */
export const simulate = (script: Script, through: (state: PlanRun.State) => PlanRun.State = (state) => state): Log => {
  const rules = rulesOf(script)
  const events: Array<PlanRun.Event> = []
  const states: Array<PlanRun.State> = []
  const outcomes: Array<Log["outcomes"][number]> = []
  let drawn = 0
  /** From the script, then always 0: the dull way. */
  const draw = (below: number): number => (script.draws[drawn++] ?? 0) % below
  let budget = Infinity
  let stop: "never" | "interrupt" | "crash" = "never"
  let ids = 0
  const at = () => time(events.length * 10)

  const begin: Extract<PlanRun.Event, { readonly _tag: "PlanStarted" }> = {
    _tag: "PlanStarted",
    at: at(),
    runId: "run",
    plan: "plan",
    digest: "sha256:0",
    depth: 0,
    maxIterations: script.maxIterations,
    input: { task: "go", payload: { password: "of the input" } },
    context: {}
  }
  events.push(begin)
  states.push(planTransition.start(rules, begin))
  let state = through(planTransition.start(rules, begin))

  const emit = (event: PlanRun.Event): void => {
    if (stop === "crash" && budget-- <= 0) throw new Cut()
    events.push(event)
    state = Result.getOrThrow(planTransition.apply(rules, state, event))
    states.push(state)
    state = through(state)
    if (stop === "interrupt" && budget-- <= 0 && state.interrupted === undefined && state.outcome === undefined) {
      stop = "never"
      emit({ _tag: "PlanInterrupted", at: at(), reason: "stop" })
    }
  }
  const stopped = () => state.interrupted !== undefined

  const record = (name: string, output: Schema.Json, usage: planRunParts.StepRecord["usage"], attempts = 1) => ({
    step: name,
    task: "task",
    output,
    usage,
    attempts,
    startedAt: at(),
    finishedAt: at()
  })

  const finish = (run: Run, name: string, attempts = 1) => {
    const usage = planTransition.memberOf(run.state(), name)?.usage ?? {}
    const output = draw(9) === 8 ? null : { step: name, password: "of a step", n: draw(1000) }
    const told = Object.keys(usage).length === 0 ? { outputTokens: 1 } : usage
    run.put({ _tag: "StepFinished", at: at(), record: record(name, output, told, attempts) })
  }

  const failure = (type: string) => ({ type, message: "no luck", retryable: true })

  const runStep = (run: Run, name: string): void => {
    const member = planTransition.memberOf(run.state(), name)
    const definition = run.rules.definition.steps.find((step) => step.name === name)
    if (member?.status._tag !== "Running" || definition === undefined) throw new Error(`${name} does not run`)
    const { attempt, decision } = member.status
    if (run.rules.nested.get(name) !== undefined) return runPlan(run, name)
    if (definition.target.kind === "agent") return runAgent(run, name)
    if (decision?.approved === false) {
      return run.put({ _tag: "StepFailed", at: at(), step: name, failure: failure("Denied") })
    }
    if (definition.target.kind === "tool" && decision === undefined && draw(2) === 1) {
      return run.put({ _tag: "StepPaused", at: at(), step: name, request: { name, arguments: { password: 1 } } })
    }
    switch (draw(14)) {
      case 11:
        return run.put({ _tag: "StepFailed", at: at(), step: name, failure: failure("Boom") })
      case 12:
        return run.put({ _tag: "StepPaused", at: at(), step: name, reason: "ask them" })
      case 13:
        return draw(3) === 2
          ? run.put({ _tag: "StepConcluded", at: at(), step: name, answer: "that is all" })
          : finish(run, name)
      case 10:
        if (stopped()) return
        run.put({ _tag: "StepRetried", at: at(), step: name, attempt: attempt + 1, failure: failure("Boom") })
        return finish(run, name, attempt + 1)
      default:
        return finish(run, name)
    }
  }

  const runPlan = (outer: Run, name: string): void => {
    const rules = outer.rules.nested.get(name)
    if (rules === undefined) throw new Error(`${name} is no plan`)
    const child = () => {
      const status = planTransition.memberOf(outer.state(), name)?.status
      return status !== undefined && "child" in status && status.child?._tag === "Plan" ? status.child.state : undefined
    }
    const put = (event: PlanRun.Event) => outer.put({ _tag: "NestedChanged", at: at(), step: name, event })
    const begun = child()
    if (begun === undefined) {
      put({ ...begin, at: at(), runId: `${outer.state().runId}/${name}`, depth: outer.state().depth + 1 })
    } else if (begun.outcome?._tag !== "Completed" && begun.outcome?._tag !== "Concluded") {
      put({ _tag: "PlanResumed", at: at() })
    }
    const current = () => {
      const state = child()
      if (state === undefined) throw new Error(`${name} has not begun`)
      return state
    }
    if (!loop({ rules, state: current, put })) return
    const { outcome } = current()
    switch (outcome?._tag) {
      case "Completed":
        return finish(outer, name)
      case "Concluded":
        return outer.put({ _tag: "StepConcluded", at: at(), step: name, answer: outcome.answer })
      case "Paused":
        return outer.put({ _tag: "StepPaused", at: at(), step: name })
      default:
        return outer.put({ _tag: "StepFailed", at: at(), step: name, failure: failure(outcome?._tag ?? "none") })
    }
  }

  /** An agent that calls one tool and answers. Some ask before they call. */
  const runAgent = (outer: Run, name: string): void => {
    const asks = draw(3)
    const ended = childDriver.drive({
      name,
      state: () => {
        const status = planTransition.memberOf(outer.state(), name)?.status
        return status !== undefined && "child" in status && status.child?._tag === "Agent"
          ? status.child.state
          : undefined
      },
      put: (event) => outer.put({ _tag: "AgentChanged", at: at(), step: name, event }),
      stopped,
      at,
      base: () => ({ id: `m${++ids}`, createdAt: at() }),
      call: asks === 0 ? undefined : { id: "call", name: "call", approval: asks === 2 },
      resumes: () => true
    })
    if (ended === "waiting") outer.put({ _tag: "StepPaused", at: at(), step: name })
    if (ended === "finished") finish(outer, name)
  }

  /** Runs to an outcome, or until it is stopped: then it returns false. */
  const loop = (run: Run): boolean => {
    const inner = run.state().depth > 0
    for (;;) {
      const action = planTransition.next(run.rules, run.state())
      switch (action._tag) {
        case "RunSteps": {
          for (const name of action.steps) {
            if (stopped()) break
            run.put({ _tag: "StepStarted", at: at(), step: name })
          }
          const running = (run.state().turn?.members ?? []).filter(({ status }) => status._tag === "Running")
          for (const { step } of draw(2) === 1 ? running.toReversed() : running) {
            if (!stopped()) runStep(run, step)
          }
          break
        }
        case "ChooseRoute": {
          const { definition } = run.rules
          const step = definition.steps.find(({ name }) => name === action.step)
          const alone = definition.steps.flatMap(({ name, parallel }) => (parallel ? [] : [name]))
          if (step?.routes !== undefined && draw(12) === 11) {
            const outcome = { _tag: "Failed", step: action.step, failure: failure("Predicate") } as const
            run.put({ _tag: "PlanFinished", at: at(), outcome })
            return true
          }
          const choice = draw(alone.length + 2)
          const to = choice < 2 ? undefined : alone[choice - 2]
          run.put({ _tag: "RouteTaken", at: at(), step: action.step, ...(to === undefined ? {} : { to }) })
          break
        }
        case "Finish":
          if (run.state().outcome === undefined) run.put({ _tag: "PlanFinished", at: at(), outcome: action.outcome })
          return true
      }
      if (stopped() && inner) return false
      if (stopped() && run.state().outcome === undefined) {
        run.put({ _tag: "PlanFinished", at: at(), outcome: { _tag: "Interrupted", reason: "stop" } })
        return false
      }
    }
  }

  const run: Run = { rules, state: () => state, put: emit }
  for (let phase = 0; phase < 12; phase++) {
    const way = draw(6)
    stop = phase > 6 || way < 3 ? "never" : way < 5 ? "crash" : "interrupt"
    budget = 1 + draw(40)
    try {
      if (phase > 0) {
        const waiting = [
          ...PlanRun.approvalRequests(state).map(({ callId, path }) => ({ callId, path: path ?? [] })),
          ...planTransition.pauses(state).map(({ path, step }) => ({ callId: step, path }))
        ]
        const decisions = waiting.flatMap((one) => {
          const answer = draw(4)
          return answer === 3 ? [] : [{ ...one, approved: answer < 2 }]
        })
        for (const event of Result.getOrThrow(planTransition.decide(state, decisions, at()))) emit(event)
        const more = state.outcome?._tag === "LimitReached" ? { maxIterations: state.maxIterations + 5 } : {}
        emit({ _tag: "PlanResumed", at: at(), ...more })
      }
      loop(run)
    } catch (error) {
      if (!(error instanceof Cut)) throw error
    }
    outcomes.push(state.outcome?._tag ?? "crash")
    if (state.outcome?._tag === "Completed" || state.outcome?._tag === "Concluded") break
  }
  return { events, states, outcomes, final: state }
}

export const writesOf = (state: PlanRun.State): ReadonlyArray<readonly [string, number]> =>
  Array.from(HashMap.entries(state.writes))
