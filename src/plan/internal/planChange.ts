/**
 * A run of a plan that is resumed under an edited definition: what changed, and if the run may continue. Steps that ran or
 * wait have to stay in place, later ones may change.
 */

import * as Chunk from "effect/Chunk"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as agentValue from "../../agent/internal/agentValue.ts"
import * as Digest from "../../payload/Digest.ts"
import { hashText } from "../../payload/internal/base.ts"
import { appendToken, defined } from "../../payload/internal/values.ts"
import * as definitionChange from "../../run/internal/definitionChange.ts"
import type * as planRunParts from "../../run/internal/planRunParts.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import type * as ToolContract from "../../tool/ToolContract.ts"
import type { PlanDefinition, StepDefinition } from "../PlanDefinition.ts"
import * as PlanError from "../PlanError.ts"
import type * as livePlan from "./livePlan.ts"
import * as performStep from "./performStep.ts"
import * as stepSchema from "./stepSchema.ts"
import * as planTransition from "../../run/internal/planTransition.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as stepFlow from "../../run/internal/stepFlow.ts"

type Change = ToolContract.Change

type State = runParts.PlanState

const shortHash = (value: object): string => {
  // Sound: a definition is JSON, and its digest was computed when the plan was made
  const text = Result.getOrElse(Digest.canonicalize(value as Schema.Json), () => "")
  return definitionChange.shortDigest(hashText(text))
}

/** The parts of a step that what ran of it depends on, for people. */
const keepsOf = ({ afterBranches, routes, writes }: planRunParts.FlowStep): string =>
  [
    ...(writes === undefined ? [] : [`writes ${writes}`]),
    ...(afterBranches === undefined ? [] : [`rejoins at ${afterBranches}`]),
    ...(routes === undefined ? [] : ["routes"])
  ].join(", ")

/** The steps that a step can name when it has finished, absent for a step without routes. */
const routesOf = (definition: PlanDefinition, step: StepDefinition): ReadonlyArray<string> | undefined => {
  if (step.parallel) return undefined
  if (step.routesBy !== undefined) return Array.from(stepSchema.routable(definition, step))
  return step.routes === undefined || step.routes.length === 0 ? undefined : step.routes.map(({ to }) => to)
}

type Digested = Pick<livePlan.BoundPlan, "definition" | "digest">

const known = new WeakMap<Digested, planRunParts.Basis>()

/** The parts of a plan that a run keeps. */
export const basisOf = (bound: Digested): planRunParts.Basis => {
  const before = known.get(bound)
  if (before !== undefined) return before
  const { definition, digest } = bound
  const { maxIterations, output } = definition
  const basis: planRunParts.Basis = {
    digest,
    parts: { "/maxIterations": String(maxIterations), ...defined({ "/output": output && shortHash(output) }) },
    steps: definition.steps.map((step) => ({
      name: step.name,
      ...(step.parallel ? { parallel: true } : undefined),
      ...defined({ writes: step.writes, routes: routesOf(definition, step), afterBranches: step.afterBranches }),
      target: `${step.target.kind} ${step.target.name}`,
      digest: shortHash(step)
    }))
  }
  known.set(bound, basis)
  return basis
}

/** The plan that a step is, if its agent is one. */
const planAt = (bound: livePlan.BoundPlan, step: string) => {
  const target = performStep.stepOf(bound, step)?.target
  return target?._tag === "Agent"
    ? Effect.map(bound.within(target.agent), performStep.planIn)
    : Effect.succeed(undefined)
}

/** The digest of the definition that a state was last run with. */
export const digestOf = ({ basis }: State): string => basis.digest

const pathOf = (step: string): string => appendToken("/steps", step)

const breaking = (path: string, was: string, now: string): Change => ({ path, was, now, breaking: true })

type Steps = planRunParts.Basis["steps"]

const indexOf = (steps: Steps, name: string | undefined): number => steps.findIndex((step) => step.name === name)

const isParallel = (steps: Steps) => steps.map(({ parallel = false }) => ({ parallel }))

const showPlace = (steps: Steps, index: number): string => {
  const step = steps[index]
  return step === undefined ? "nothing" : `${step.name}${step.parallel === true ? " (parallel)" : ""}`
}

/** The steps that ran, run or wait. */
const touchedBy = (state: State): ReadonlySet<string> =>
  new Set([
    ...Array.from(state.history, ({ step }) => step),
    ...(state.turn?.members ?? []).map(({ step }) => step),
    ...(state.choosing === undefined ? [] : [state.choosing])
  ])

/**
 * The differences in the places of the steps up to the last step that ran or waits, and in the parallel group of that
 * step.
 */
const orderChanges = (was: Steps, now: Steps, touched: ReadonlySet<string>): ReadonlyArray<Change> => {
  const last = was.findLastIndex(({ name }) => touched.has(name))
  if (last < 0) return []
  const end = stepFlow.groupEnd(isParallel(was), last)
  for (let index = 0; index < end; index += 1) {
    const [left, right] = [showPlace(was, index), showPlace(now, index)]
    if (left !== right) return [breaking(pathOf(was[index]?.name ?? ""), left, right)]
  }
  return stepFlow.groupEnd(isParallel(now), last) === end
    ? []
    : [breaking(pathOf(now[end]?.name ?? ""), "a step after the parallel group", "one of the parallel group")]
}

/** The name of the step that comes after another one and its parallel group. */
const after = (steps: Steps, name: string | undefined): string | undefined => {
  const at = indexOf(steps, name)
  return steps[at < 0 ? 0 : stepFlow.groupEnd(isParallel(steps), at)]?.name
}

/**
 * The step that comes next under the edited plan. Unless a route led to the next step, the step that follows now is the
 * next.
 */
const nextStep = (was: Steps, now: Steps, state: State): string | undefined => {
  if (state.turn !== undefined || state.choosing !== undefined || state.cursor === undefined) return state.cursor
  const previous = Option.getOrUndefined(planTransition.lastRecord(state))?.step
  return after(was, previous) === state.cursor ? after(now, previous) : state.cursor
}

/** True for a step that has something of its own that continues: a question, a decision or a run inside it. */
const isEngaged = ({ question, status }: runParts.Member): boolean => {
  const decision = "decision" in status ? status.decision : undefined
  // A step that is denied fails without its target
  if (decision?.approved === false) return false
  return question !== undefined || runParts.childOf(status) !== undefined || decision !== undefined
}

const ownChanges = (was: planRunParts.Basis, now: planRunParts.Basis, state: State): ReadonlyArray<Change> => {
  const touched = touchedBy(state)
  const engaged = new Set((state.turn?.members ?? []).filter(isEngaged).map(({ step }) => step))
  const changes: Array<Change> = [...orderChanges(was.steps, now.steps, touched)]
  const jumps = [
    nextStep(was.steps, now.steps, state),
    ...state.rejoins.flatMap(({ rejoin, router }) => [router, rejoin])
  ]
  for (const name of new Set(jumps)) {
    if (name !== undefined && indexOf(now.steps, name) < 0)
      changes.push(breaking(pathOf(name), "a step to come", "nothing"))
  }
  for (const before of was.steps) {
    const { digest, name, target } = before
    const step = now.steps[indexOf(now.steps, name)]
    if (step === undefined) {
      if (!touched.has(name)) changes.push({ path: pathOf(name), was: digest, now: "nothing", breaking: false })
      continue
    }
    const [kept, keeps] = [keepsOf(before), keepsOf(step)]
    if (touched.has(name) && kept !== keeps) {
      changes.push(breaking(pathOf(name), kept || "no writes and routes", keeps || "no writes and routes"))
    }
    if (engaged.has(name) && step.target !== target)
      changes.push(breaking(`${pathOf(name)}/target`, target, step.target))
    if (step.digest !== digest) changes.push({ path: pathOf(name), was: digest, now: step.digest, breaking: false })
  }
  for (const { digest, name } of now.steps) {
    if (indexOf(was.steps, name) < 0) changes.push({ path: pathOf(name), was: "nothing", now: digest, breaking: false })
  }
  return [...changes, ...definitionChange.compareParts(was.parts, now.parts)]
}

/** The newest outputs of steps, which have to fit what later steps expect of them. */
const outputChanges = Effect.fnUntraced(function* (bound: livePlan.BoundPlan, state: State) {
  const changes: Array<Change> = []
  const records = Array.from(HashMap.values(state.latest)).flatMap((index) =>
    Option.toArray(Chunk.get(state.history, index))
  )
  const finished = (state.turn?.members ?? []).flatMap(({ status }) =>
    status._tag === "Finished" ? [status.record] : []
  )
  for (const { output, step } of [...records, ...finished]) {
    const schema = performStep.stepOf(bound, step)?.output
    if (schema === undefined) continue
    const fits = yield* Effect.isSuccess(performStep.decodeOutput(schema, output, "output"))
    if (!fits) changes.push(breaking(`${pathOf(step)}/output`, "the recorded output", "a schema that it does not fit"))
  }
  return changes
})

/** The changes of a plan since a state, with the changes of the plans and agents inside that continue. */
export const changesOf = Effect.fnUntraced(function* (
  bound: livePlan.BoundPlan,
  state: State
): Effect.fn.Return<ReadonlyArray<Change>> {
  const isSame = digestOf(state) === bound.digest
  const changes: Array<Change> = []
  if (!isSame) {
    changes.push(...ownChanges(state.basis, basisOf(bound), state), ...(yield* outputChanges(bound, state)))
  }
  for (const { status, step } of state.turn?.members ?? []) {
    const child = runParts.childOf(status)
    if (child === undefined) continue
    const inner = yield* planAt(bound, step)
    const target = performStep.stepOf(bound, step)?.target
    if (child._tag === "Plan") {
      const inside = inner === undefined ? [] : yield* changesOf(inner, child.state)
      changes.push(...definitionChange.inPart(`${pathOf(step)}/plan`, inside))
    } else if (child._tag === "Block") {
      changes.push(breaking(pathOf(step), "a block of items", "a step without items"))
    } else if (!isSame && target?._tag === "Agent") {
      const agent = yield* bound.within(target.agent)
      const inside = yield* agentValue.changesSince(agent, child.state)
      changes.push(...definitionChange.inPart(`${pathOf(step)}/agent`, inside))
    }
  }
  return changes
})

/** The error of a run that an edited plan may not continue. */
export const planChanged = (
  { definition, digest: found }: livePlan.BoundPlan,
  expected: string,
  changes: ReadonlyArray<Change>,
  state?: State
): PlanError.PlanError => {
  const reason = { _tag: "PlanChanged", expected, found, changes } as const
  return new PlanError.PlanError({ plan: definition.name, reason, ...defined({ state }) })
}

/** The record of the definition that a resumed run has from now on, if it is another one; or the error that refuses it. */
export const judge = Effect.fnUntraced(function* (
  bound: livePlan.BoundPlan,
  state: State,
  { decisions, onChange = "compatible" }: Pick<livePlan.ResumeOptions, "decisions" | "onChange">
): Effect.fn.Return<planRunParts.PlanChange | undefined, PlanError.PlanError> {
  const changes = yield* changesOf(
    bound,
    runRequests.afterDecisions(runTransition.plans, state, runRequests.denialsIn(decisions), yield* DateTime.now)
  )
  const isSame = digestOf(state) === bound.digest
  if (isSame && changes.length === 0) return undefined
  if (!definitionChange.isAllowed(changes, onChange)) {
    return yield* planChanged(bound, digestOf(state), changes, state)
  }
  if (isSame) return undefined
  const basis = basisOf(bound)
  const cursor = nextStep(state.basis.steps, basis.steps, state)
  return { basis, changes, ...defined({ cursor }) }
})
