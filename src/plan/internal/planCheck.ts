/**
 * The checks of a plan: names, references, routes, types, writes and reachability of a definition, and the tools, agents and memories that it is bound with.
 */

import * as Result from "effect/Result"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as base from "../../payload/internal/base.ts"
import * as closeNames from "../../payload/internal/closeNames.ts"
import type * as fuel from "../../payload/internal/fuel.ts"
import type { PatternEngine } from "../../payload/internal/patterns.ts"
import { defined, inheritedNames } from "../../payload/internal/values.ts"
import type { BoundTool } from "../../tool/internal/boundTool.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"
import type * as PlanInvalid from "../PlanInvalid.ts"
import type { Reference } from "../Reference.ts"
import * as condition from "../../tool/internal/condition.ts"
import * as planFlow from "./planFlow.ts"
import * as planNames from "./planNames.ts"
import * as planRules from "./planRules.ts"
import * as stepFlow from "../../run/internal/stepFlow.ts"
import * as stepSchema from "./stepSchema.ts"

type StepDefinition = PlanDefinition.StepDefinition

/**
 * The way a tool takes a step's input: the payload as its whole arguments (with the text of the context in
 * the parameter `context`, if that is not undefined), or the parameters that take task and context.
 */
export type ToolArguments =
  | { readonly _tag: "Payload"; readonly context: string | undefined }
  | { readonly _tag: "Text"; readonly task: string; readonly context: string | undefined }

/** The tools and agents that names refer to, and the agents that have a memory (`text`) or keep their answers (`output`). */
export interface Bindings {
  readonly tools: ReadonlyMap<string, BoundTool>
  readonly agents: ReadonlySet<string>
  readonly memories: ReadonlyMap<string, { readonly text?: unknown; readonly output?: unknown }>
}

/** A rule that a step breaks. `found` is what the slot has; `unknown` a name in it, with those it could be. */
export interface Violation {
  readonly code: PlanInvalid.Code
  readonly slot: string
  readonly found: string
  /** An expectation and a fix in place of what the rule has. */
  readonly expected?: string
  readonly fix?: string
  readonly unknown?: { readonly name: string; readonly known: KnownNames } | undefined
}

type Violations = Generator<Violation, void>

const violation = (
  code: Violation["code"],
  slot: string,
  found: string,
  more?: Pick<Violation, "expected" | "unknown">
): Violation => ({ code, slot, found, ...more })

/** Names that problems list, and where the closest one is searched. Made once for all problems of a check. */
type KnownNames = ReturnType<typeof knownNames>

/** The number of known names that a problem holds. */
const maxKnownNames = 100

export const knownNames = (kind: string, found: Iterable<string>) => {
  const names = planFlow.sortedNames(found)
  return {
    names,
    sentence: names.length === 0 ? `There are no ${kind}` : `Known ${kind}: ${planNames.listNames(names)}`,
    /** The names that a problem holds. */
    kept: names.slice(0, maxKnownNames)
  }
}

/** The rules of the registry that a plan is decoded with. */
export type RegistryCode = Extract<Violation["code"], `${string}Entry` | "DifferentSchema">

/** A violation as a problem of a step, or without one of the plan. The position is undefined if it is not known. */
export const problemOf = (
  place: { readonly step?: string | undefined; readonly index?: number | undefined },
  { code, found, slot, unknown, ...own }: Violation,
  tank: fuel.Fuel = closeNames.makeFuel()
): PlanInvalid.Problem => {
  const { index, step } = place
  const [expected, fix] = planRules.rules[code]
  const problem = { path: slot, expected, found, fix, ...own }
  const suggestion = unknown && closeNames.closestName(unknown.name, unknown.known.names, tank)
  const hint =
    unknown === undefined ? "" : `${closeNames.didYouMean(suggestion)} ${unknown.known.sentence}. `.trimStart()
  const what = step === undefined ? "Plan" : `Step ${base.quote(step)}${index === undefined ? "" : ` (#${index})`}`
  return {
    code,
    slot,
    reason: PayloadError.render(what, [{ ...problem, fix: hint + problem.fix }]),
    ...defined({ step, index, known: unknown?.known.kept, suggestion })
  }
}

/** A definition with what the checks look up in it. */
type Outline = ReturnType<typeof makeOutline>

const makeOutline = (definition: PlanDefinition.PlanDefinition) => {
  const { steps } = definition
  const positions = stepFlow.positionsOf(definition.steps)
  /** For a member of a parallel group the first position of the group; for another step its own. */
  const firsts: Array<number> = []
  for (const [index, { parallel }] of steps.entries()) {
    const isLater = parallel && steps[index - 1]?.parallel === true
    firsts.push(isLater ? (firsts[index - 1] ?? index) : index)
  }
  /** The output of each step; anything if it is not known. */
  const outputs = steps.map(({ output }) => stepSchema.shapeOf(output?.json ?? {}))
  return { steps, positions, names: knownNames("steps", positions.keys()), firsts, outputs }
}

/** Runs a check on each step in declared order. */
const checkSteps = (
  steps: ReadonlyArray<StepDefinition>,
  check: (step: StepDefinition, index: number) => Violations
): ReadonlyArray<PlanInvalid.Problem> => {
  const tank = closeNames.makeFuel()
  return steps.flatMap((step, index) =>
    Array.from(check(step, index), (found) => problemOf({ step: step.name, index }, found, tank))
  )
}

/**
 * The problems of a plan's structure; none for a plan that can be bound.
 *
 * **Details**
 *
 * Problems of the plan as a whole come first, then the problems of each step in declared order; within a step: its
 * name, the steps that `task` and `context` refer to, the type of what it reads, `routes`, `routesBy`, `afterBranches`,
 * `writes`, and whether any run comes to it. A problem that only follows from another one is not reported: the flow is
 * followed once names are unique and all routes go to a step.
 *
 * A value that a step reads fits its input unless the two JSON Schemas show that it never can: by their types and
 * listed values, and by the types and listed values of their fields. An absent schema, or a schema known by name only,
 * can be anything.
 *
 * **Gotchas**
 *
 * A condition may always fail to hold, so the step after a router can always run, unless
 * one condition is the `When.not` of another, or `routesBy` names a required field that
 * is never anything but the name of a step.
 * Branches of one router exclude each other all the same, as they are meant to, where
 * types and keys are concerned.
 *
 * A plan with hundreds of thousands of ways between its steps is accepted without
 * following them.
 */
export const checkStructure = (definition: PlanDefinition.PlanDefinition): ReadonlyArray<PlanInvalid.Problem> => {
  const outline = makeOutline(definition)
  const { steps } = outline
  const routing = steps.map((step, index) => Array.from(checkRouting(outline, step, index)))
  const isSound = outline.positions.size === steps.length && routing.every((found) => found.length === 0)
  const places = isSound ? planFlow.placesOf(definition) : undefined
  const previous = previousSteps(outline, places ?? [])
  const reached = places && planFlow.reachedFrom(steps, places)
  return [
    ...Array.from(checkPlan(definition), (found) => problemOf({}, found)),
    ...checkSteps(steps, function* (step, index) {
      yield* checkName("name", step.name)
      for (const { place, reference } of planFlow.referencesOf(step))
        yield* checkReference(outline, index, place, reference)
      yield* checkInput(outline, step, index, previous)
      yield* routing[index] ?? []
      if (step.writes !== undefined) yield* checkName("writes", step.writes)
      yield* checkWrites(outline, step, index)
      if (reached !== undefined) yield* checkReached(outline, index, reached)
    })
  ]
}

/** Warnings of what is legal and probably not meant. */
export const structureWarnings = ({ steps }: PlanDefinition.PlanDefinition): ReadonlyArray<PlanInvalid.Problem> =>
  checkSteps(steps, function* ({ afterBranches, parallel, routes, routesBy }) {
    const slots = Object.entries({ routes: routes?.length === 0 ? undefined : routes, routesBy, afterBranches })
    for (const [slot, value] of slots) {
      if (parallel && value !== undefined) yield violation("RoutingIgnored", slot, `${slot} that no run follows`)
    }
  })

/**
 * The problems of a plan with what it is bound with; none for a plan that can run.
 *
 * **Details**
 *
 * For each step in declared order: its target is a tool or an agent that is there, and
 * the tool can take what the step passes; then the agents that `fromAgent` and
 * `fromMemory` refer to keep what is read. Steps that run agents and functions of their
 * own need nothing.
 */
export const checkBinding = ({ steps }: PlanDefinition.PlanDefinition, bindings: Bindings) => {
  const { agents, memories, tools } = bindings
  const targets = knownNames("tools and agents", [...tools.keys(), ...agents])
  const remembered = knownNames("agents", [...agents, ...memories.keys()])
  return checkSteps(steps, function* (step) {
    yield* checkTarget(step, bindings, targets)
    for (const { place, reference } of planFlow.referencesOf(step))
      yield* checkMemory(place, reference, bindings, remembered)
  })
}

/**
 * The way a tool takes what a step passes, or the problem that it cannot.
 *
 * **Details**
 *
 * - A step without an input schema passes a text. It goes to the parameter `task` if that takes a text, else to the
 *   first parameter that takes a text (`context` only if there is no other), else to `input` if the tool takes
 *   parameters it does not declare. The context goes to the parameter `context` if that takes a text, else before the
 *   task.
 * - A step with an input schema passes an object: all arguments. The context goes to the
 *   parameter `context` beside it; without one, a step with context is a problem.
 *
 * A parameter that only takes certain texts does not take a text. The problem has no
 * `index`.
 */
export const resolveToolArguments = (tool: BoundTool, step: StepDefinition) =>
  Result.mapError(findToolArguments(tool, step), (found) => problemOf({ step: step.name }, found))

/** Another step as messages name it. */
const quotedStep = ({ steps }: Outline, index: number): string => `${base.quote(steps[index]?.name ?? "")} (#${index})`

const unknownStep = (outline: Outline, slot: string, name: string, found: string): Violation =>
  violation("UnknownStep", slot, found, { unknown: { name, known: outline.names } })

/** The plan as a whole: names that occur twice, all of them in one violation, and its limit. */
function* checkPlan({ maxIterations, steps }: PlanDefinition.PlanDefinition): Violations {
  const seen = new Set<string>()
  const twice = steps.flatMap(({ name }) => (seen.size === seen.add(name).size ? [name] : []))
  const names = planNames.listNames(planFlow.sortedNames(twice))
  if (twice.length > 0) yield violation("DuplicateNames", "name", `${names} more than once`)
  const isLimit = Number.isInteger(maxIterations) && maxIterations >= 0 && maxIterations <= planNames.maxIterations
  if (!isLimit) yield violation("InvalidLimit", "maxIterations", String(maxIterations))
}

const control = /\p{Cc}/u

/** The fault of a name, the same in every wire version. */
const nameFault = (name: string): string | undefined => {
  if (name === "") return "nothing"
  if (name.length > planNames.maxNameLength) return `${name.length} characters`
  return control.test(name) ? "a control character" : undefined
}

function* checkName(slot: string, name: string): Violations {
  const fault = nameFault(name)
  if (fault !== undefined) yield violation("InvalidName", slot, fault)
}

/**
 * Problems that only plans of code have: names that the wire refuses, conditions that cannot be evaluated, and two
 * targets of one name, which the definition could not distinguish. `sources` are the targets as written.
 */
export const checkWritten = (
  { steps }: PlanDefinition.PlanDefinition,
  sources: ReadonlyArray<unknown>,
  predicates: Iterable<string>,
  engine: PatternEngine | undefined
): ReadonlyArray<PlanInvalid.Problem> => {
  const known = knownNames("predicates", predicates)
  return checkSteps(steps, function* (step, index) {
    yield* checkIdentifier(step.name)
    yield* checkSharedTarget(steps, sources, index)
    for (const [position, { when }] of (step.routes ?? []).entries()) {
      yield* checkCondition(`routes[${position}]`, condition.analyze(when, engine), known)
    }
  })
}

/** A name that the wire of this version refuses, but no other check. */
function* checkIdentifier(name: string): Violations {
  const inherited = inheritedNames.has(name)
  if (nameFault(name) !== undefined || (planNames.isIdentifier(name) && !inherited)) return
  const expected = inherited ? "a name that objects do not have by themselves" : planNames.identifierRule
  yield violation("InvalidName", "name", base.quote(name), { expected })
}

/** Tools are bound later, by their name. */
function* checkSharedTarget(
  steps: ReadonlyArray<StepDefinition>,
  sources: ReadonlyArray<unknown>,
  index: number
): Violations {
  const target = steps[index]?.target
  const first = steps.findIndex((step) => step.target.kind !== "tool" && step.target.name === target?.name)
  const before = steps[first]
  if (before === undefined || target?.kind === "tool" || sources[first] === sources[index]) return
  const found = `another ${before.target.kind} named ${base.quote(before.target.name)} in step ${base.quote(before.name)}`
  yield violation("SharedTargetName", "target", found)
}

function* checkCondition(
  slot: string,
  { customs, problems }: ReturnType<typeof condition.analyze>,
  known: KnownNames
): Violations {
  for (const { path, reason } of problems) {
    const place = path.length === 0 ? "" : ` at ${path.join(".")}`
    yield violation("InvalidCondition", slot, `one with a problem${place}: ${reason}`)
  }
  for (const name of customs) {
    if (known.names.includes(name)) continue
    yield violation("UnknownPredicate", slot, base.quote(name), { unknown: { name, known } })
  }
}

/** A reference to a step: the step is there, in another parallel group, and earlier. */
function* checkReference(outline: Outline, index: number, slot: string, reference: Reference): Violations {
  if (!("step" in reference)) return
  const { firsts, positions, steps } = outline
  const target = positions.get(reference.step)
  const shown = planFlow.showReference(reference)
  if (target === undefined) return yield unknownStep(outline, slot, reference.step, `${shown}, an unknown step`)
  const first = firsts[target] ?? target
  if (steps[index]?.parallel === true && firsts[index] === first) {
    // "band" is the word for a parallel group that the recorded cases require in this message.
    const found = `${shown} of the same parallel band, whose steps do not see each other's results`
    return yield violation("SameBand", slot, found)
  }
  if (target >= index) {
    const later = target === index ? "the step itself" : `step ${quotedStep(outline, target)}`
    yield violation("NotEarlier", slot, `${shown}, ${later}`)
  }
  if (reference._tag !== "FromParallelAll") return
  if (steps[target]?.parallel !== true) yield violation("NotParallel", slot, `${shown}, a step that is not parallel`)
  else if (first !== target) {
    yield violation("NotFirstOfBand", slot, `${shown} of the group that begins with ${quotedStep(outline, first)}`)
  }
}

function* checkRouting(outline: Outline, step: StepDefinition, index: number): Violations {
  const { output, routes, routesBy } = step
  if (routes !== undefined && routesBy !== undefined) {
    yield violation("RoutesAndRoutesBy", "routes", `routes, and routesBy = ${base.quote(routesBy)}`)
  }
  const named = (routes ?? []).map(({ to }) => to)
  yield* checkRouteTargets(outline, "routes", named, "")
  if (routesBy !== undefined) {
    const found = stepSchema.readDiscriminant(output, routesBy)
    const fault = fieldFault(output, routesBy, found)
    if (fault !== undefined) yield violation("InvalidRoutesBy", "routesBy", fault)
    const literals = found?.literals ?? []
    yield* checkRouteTargets(outline, "routesBy", literals, `, a value of the field ${base.quote(routesBy)}`)
    named.push(...literals)
  }
  yield* checkRejoin(outline, step, index, named)
}

/** The steps that routes go to are there, and not parallel. */
function* checkRouteTargets(outline: Outline, slot: string, names: ReadonlyArray<string>, origin: string): Violations {
  for (const to of names) {
    const position = outline.positions.get(to)
    if (position === undefined) yield unknownStep(outline, slot, to, `the unknown step ${base.quote(to)}${origin}`)
    else if (outline.steps[position]?.parallel === true) {
      yield violation("RouteToParallel", slot, `the parallel step ${quotedStep(outline, position)}${origin}`)
    }
  }
}

/** The fault of a field that `routesBy` names. */
const fieldFault = (
  output: PlanDefinition.SchemaRef | undefined,
  field: string,
  found: stepSchema.Discriminant | undefined
): string | undefined => {
  if (field === "") return "no name of a field"
  if (output === undefined) return `${base.quote(field)}, and no output schema`
  if (found === undefined || found.literals.length > 0) return undefined
  const { fields, types } = found.shape
  const title = output.name ?? output.json?.["title"]
  const where = typeof title === "string" ? `the output ${base.quote(title)}` : "the output"
  if (fields.has(field)) return `${base.quote(field)} of ${where}, which has no string literal`
  const others = fields.size === 0 ? "none" : planNames.listNames(Array.from(fields.keys()))
  const isObject = fields.size > 0 || types?.has("object") === true
  return `${base.quote(field)}, and ${where}${isObject ? ` with the fields ${others}` : ", which is no object"}`
}

/** The step where branches end: it is there, and after the router and all its `branches`. */
function* checkRejoin(
  outline: Outline,
  { afterBranches, routes, routesBy }: StepDefinition,
  index: number,
  branches: ReadonlyArray<string>
): Violations {
  if (afterBranches === undefined) return
  const slot = "afterBranches"
  if (routes === undefined && routesBy === undefined) {
    yield violation("RejoinWithoutRoutes", slot, `a rejoin at ${base.quote(afterBranches)}, and no branches`)
  }
  const position = outline.positions.get(afterBranches)
  if (position === undefined) {
    return yield unknownStep(outline, slot, afterBranches, `the unknown step ${base.quote(afterBranches)}`)
  }
  const rejoin = quotedStep(outline, position)
  if (position <= index) {
    return yield violation("RejoinNotLater", slot, position === index ? `${rejoin}, the step itself` : rejoin)
  }
  const first = outline.firsts[position] ?? position
  if (first !== position) {
    yield violation("RejoinIntoBand", slot, `${rejoin} of the group that begins with ${quotedStep(outline, first)}`)
  }
  for (const to of new Set(branches.map((name) => outline.positions.get(name) ?? -1))) {
    if (to < position) continue
    const target = to === position ? `${rejoin} itself` : `${quotedStep(outline, to)}, declared after ${rejoin}`
    yield violation("RejoinBeforeRoute", slot, `a route to ${target}, where branches have ended`)
  }
}

/** The steps whose results come right before each step, by position. */
type Previous = ReadonlyMap<number, ReadonlySet<number>>

/**
 * The steps that can run right before each step. After a parallel group that is its last member. A step that is
 * in a branch is judged as such: otherwise no route was taken, and then steps run one after the other that were
 * never meant to.
 */
const previousSteps = ({ steps }: Outline, places: ReadonlyArray<planFlow.FlowPlace>): Previous => {
  const branched = new Set(places.flatMap(({ branches, position }) => (branches.length > 0 ? [position] : [])))
  const found = new Map<number, Set<number>>()
  for (const { next, position } of places) {
    const source = stepFlow.groupEnd(steps, position) - 1
    for (const target of next) {
      const to = places[target]
      if (to === undefined || (to.branches.length === 0 && branched.has(to.position))) continue
      found.set(to.position, (found.get(to.position) ?? new Set()).add(source))
    }
  }
  return found
}

/** Something that a task can be. */
interface Source {
  readonly name: string
  readonly shape: stepSchema.Shape
}

/** The steps before a step that are compared with its input: a plan from outside can have any number. */
const maxSources = 100

/** The number of conflicts that a message spells out. */
const maxConflicts = 5

function* checkInput(outline: Outline, step: StepDefinition, index: number, previous: Previous): Violations {
  if (step.input?.json === undefined) return
  const taken = stepSchema.shapeOf(step.input.json)
  const conflicts = sourcesOf(outline, step, index, previous).flatMap(({ name, shape }) => {
    const reason = stepSchema.findConflict(shape, taken)
    return reason === undefined ? [] : [`${name}: ${reason}`]
  })
  if (conflicts.length === 0) return
  const input = step.input.name === undefined ? "an input" : `the input ${base.quote(step.input.name)}`
  const shown = conflicts.slice(0, maxConflicts).join("; ")
  const found = `${input} that task = ${planFlow.showReference(step.task)} never fits, ${shown}`
  yield violation("IncompatibleTypes", "input", found)
}

const sourcesOf = (outline: Outline, step: StepDefinition, index: number, previous: Previous) => {
  const { task } = step
  if (task._tag === "FromPrev") {
    return Array.from(previous.get(outline.firsts[index] ?? index) ?? [])
      .sort((a, b) => a - b)
      .slice(0, maxSources)
      .map((position) => outputOf(outline, position))
  }
  if (task._tag === "FromMemory") return [{ name: "the text of a memory", shape: stepSchema.anyText }]
  if (task._tag === "Literal") return [{ name: "a text", shape: stepSchema.shapeOf({ const: task.value }) }]
  const position = "step" in task ? outline.positions.get(task.step) : undefined
  if (position === undefined || position >= index) return []
  if (task._tag !== "FromParallelAll") return [outputOf(outline, position)]
  return [
    stepSchema.readsText(step)
      ? { name: "the text of a parallel group", shape: stepSchema.anyText }
      : groupOutput(outline, position)
  ]
}

const outputOf = (outline: Outline, position: number): Source => {
  const output = outline.steps[position]?.output
  const name = output?.name === undefined ? "" : ` (${JSON.stringify(output.name)})`
  return {
    name: `the output${name} of step ${quotedStep(outline, position)}`,
    shape: outline.outputs[position] ?? stepSchema.anything
  }
}

/** The results of a parallel group: each under the name of its step. */
const groupOutput = (outline: Outline, first: number): Source => {
  const members = planFlow.groupAt(outline.steps, first)
  const fields = new Map(
    members.map((member) => [outline.steps[member]?.name ?? "", outline.outputs[member] ?? stepSchema.anything])
  )
  return {
    name: `the results of the parallel group of step ${quotedStep(outline, first)}`,
    shape: { ...stepSchema.anyObject, fields, required: new Set(fields.keys()), isClosed: true }
  }
}

/** Members of a parallel group write different keys; of steps that run one after the other the last one wins. */
function* checkWrites(outline: Outline, { writes }: StepDefinition, index: number): Violations {
  if (writes === undefined) return
  const members = planFlow.groupAt(outline.steps, outline.firsts[index] ?? index)
  const other = members.find((member) => member < index && outline.steps[member]?.writes === writes)
  if (other === undefined) return
  const found = `${base.quote(writes)}, which step ${quotedStep(outline, other)} writes, too`
  yield violation("WritesCollision", "writes", found)
}

/** Steps that no run comes to: one violation for each row of them. */
function* checkReached(outline: Outline, index: number, reached: ReadonlySet<number>): Violations {
  if (reached.has(index) || !reached.has(index - 1)) return
  let last = index
  while (last + 1 < outline.steps.length && !reached.has(last + 1)) last += 1
  const more = last === index ? "" : `, nor for what follows up to step ${quotedStep(outline, last)}`
  const found = `no way to it${more}: no route goes there, and the steps before always go elsewhere`
  yield violation("UnreachableStep", "name", found)
}

/** The agent that a reference reads keeps what is read. */
function* checkMemory(
  slot: string,
  reference: Reference,
  { agents, memories, tools }: Bindings,
  known: KnownNames
): Violations {
  if (reference._tag !== "FromAgent" && reference._tag !== "FromMemory") return
  const { _tag, agent: name } = reference
  const memory = memories.get(name)
  if (_tag === "FromAgent" ? memory?.output : memory?.text) return
  const shown = planFlow.showReference(reference)
  if (memory !== undefined || agents.has(name)) {
    yield _tag === "FromAgent"
      ? violation("NoStore", slot, `${shown}, an agent without a store`)
      : violation("NoMemory", slot, `${shown}, an agent without a memory`)
  } else if (tools.has(name)) yield violation("NotAnAgent", slot, `${shown}, a tool`)
  else yield violation("UnknownAgent", slot, `${shown}, an unknown agent`, { unknown: { name, known } })
}

/** The target of a step that names a tool, or an agent, that the plan is bound with. */
function* checkTarget(step: StepDefinition, { agents, tools }: Bindings, known: KnownNames): Violations {
  const { kind, name } = step.target
  if (kind !== "tool") return
  const tool = tools.get(name)
  if (tool === undefined) {
    if (!agents.has(name)) yield violation("UnknownTool", "target", base.quote(name), { unknown: { name, known } })
  } else if (agents.has(name)) {
    yield violation("AmbiguousTarget", "target", `a tool and an agent with the name ${base.quote(name)}`)
  } else {
    const found = findToolArguments(tool, step)
    if (Result.isFailure(found)) yield found.failure
  }
}

/** A tool that cannot take what a step passes; `fault` ends the sentence that begins with its name. */
const refuseTool = (
  code: "ProviderTool" | "ToolArguments" | "ContextNotTaken",
  { contract }: BoundTool,
  fault: string
): Result.Result<never, Violation> => Result.fail(violation(code, "target", `${base.quote(contract.name)}, ${fault}`))

const findToolArguments = (tool: BoundTool, step: StepDefinition): Result.Result<ToolArguments, Violation> => {
  if (tool.kind === "provider") {
    return refuseTool("ProviderTool", tool, "which runs at the provider of a model, and only the model calls it")
  }
  const parameters = stepSchema.shapeOf(tool.contract.parameters)
  if (step.input === undefined) return argumentsFromText(tool, parameters)
  const given = step.input.json && stepSchema.shapeOf(step.input.json)
  return argumentsFromPayload(tool, parameters, given, planFlow.contextReferences(step.context).length > 0)
}

/** The parameters that take the text of the task and the text of the context. */
const argumentsFromText = (tool: BoundTool, parameters: stepSchema.Shape): Result.Result<ToolArguments, Violation> => {
  const { fields, isClosed, required } = parameters
  const keys = Array.from(fields.keys())
  const texts = keys.filter((key) => takesText(parameters, key))
  const first = texts.find((key) => key !== "context") ?? texts[0]
  const task = texts.includes("task") ? "task" : (first ?? (fields.has("input") || isClosed ? undefined : "input"))
  if (task === undefined) {
    const others = keys.length === 0 ? "" : ` among ${planNames.listNames(keys)}`
    return refuseTool("ToolArguments", tool, `which has no parameter for the text of the task${others}`)
  }
  const context = task !== "context" && texts.includes("context") ? "context" : undefined
  const missing = Array.from(required).filter(
    (key) => key !== task && key !== context && fields.get(key)?.hasDefault !== true
  )
  if (missing.length === 0) return Result.succeed({ _tag: "Text", task, context })
  const fault = `which takes the text of the task as ${base.quote(task)}, and also requires ${planNames.listNames(missing)}`
  return refuseTool("ToolArguments", tool, fault)
}

/** A parameter that takes any text. */
const takesText = ({ fields }: stepSchema.Shape, key: string): boolean => {
  const field = fields.get(key)
  return field !== undefined && stepSchema.takesText(field)
}

/** The payload as all arguments, with the text of the context beside it. */
const argumentsFromPayload = (
  tool: BoundTool,
  parameters: stepSchema.Shape,
  given: stepSchema.Shape | undefined,
  hasContext: boolean
): Result.Result<ToolArguments, Violation> => {
  const hasOwn = given?.fields.has("context") === true
  const takesContext = hasContext && !hasOwn && takesText(parameters, "context")
  const added: ReadonlyArray<readonly [string, stepSchema.Shape]> = takesContext
    ? [["context", stepSchema.anyText]]
    : []
  const passed = given && { ...given, fields: new Map([...given.fields, ...added]) }
  const conflict =
    passed && (stepSchema.findConflict(passed, stepSchema.anyObject) ?? stepSchema.findConflict(passed, parameters))
  if (conflict !== undefined) {
    return refuseTool("ToolArguments", tool, `whose parameters the input of the step never fits: ${conflict}`)
  }
  if (!hasContext || takesContext) {
    return Result.succeed({ _tag: "Payload", context: takesContext ? "context" : undefined })
  }
  const fault = hasOwn
    ? `while the input of the step has a field "context" of its own`
    : `which has no parameter "context" that takes a text`
  return refuseTool("ContextNotTaken", tool, fault)
}

/** The most that a run can take. A number of calls that is not known is undefined. */
export const worstPath = (
  definition: PlanDefinition.PlanDefinition,
  callsOf: (step: StepDefinition) => number | undefined
) => {
  const { steps } = definition
  const places = planFlow.placesOf(definition)
  const positions = places?.map(({ position }) => position) ?? Array.from(steps.keys())
  const turns = positions.map((position) => stepFlow.stepsAt(definition.steps, position))
  const sizes = turns.map((members) => members.length)
  // NaN is an unknown number of calls: sums and maxima keep it.
  const calls = turns.map((members) =>
    members.reduce((sum, step) => sum + (callsOf(step) ?? Number.NaN) * (1 + (step.retry?.times ?? 0)), 0)
  )
  return {
    /** Of all ways, if there is no loop. */
    steps: places && longestPath(places, sizes),
    calls: unlessNaN(places && longestPath(places, calls)),
    /** Of the longest turn that can run: 0 for a plan without steps. */
    turn: { steps: maximum(sizes), calls: unlessNaN(maximum(calls)) }
  }
}

const maximum = (numbers: ReadonlyArray<number>): number => numbers.reduce((most, number) => Math.max(most, number), 0)

const unlessNaN = (number: number | undefined): number | undefined => (Number.isNaN(number) ? undefined : number)

/** The largest sum of weights along any way. Undefined when there is a loop. */
const longestPath = (places: ReadonlyArray<planFlow.FlowPlace>, weights: ReadonlyArray<number>): number | undefined => {
  const sums = [...weights]
  const before = places.map(() => 0)
  for (const { next } of places) for (const target of next) before[target] = (before[target] ?? 0) + 1
  const ordered = Array.from(before.keys()).filter((place) => before[place] === 0)
  // The list grows while it is read: a place follows when all places before it have been read.
  for (const place of ordered) {
    for (const target of places[place]?.next ?? []) {
      sums[target] = Math.max(sums[target] ?? 0, (sums[place] ?? 0) + (weights[target] ?? 0))
      before[target] = (before[target] ?? 0) - 1
      if (before[target] === 0) ordered.push(target)
    }
  }
  return ordered.length === places.length ? maximum(sums) : undefined
}
