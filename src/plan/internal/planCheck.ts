/**
 * The checks of a plan: names, references, routes, types, writes and reachability of a definition, and the tools, agents and memories that it is bound with.
 */

import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../../payload/Json.ts"
import * as paths from "../../payload/internal/paths.ts"
import type { BoundTool } from "../../tool/internal/boundTool.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"
import type * as PlanInvalid from "../PlanInvalid.ts"
import type * as Reference from "../Reference.ts"
import * as planFlow from "./planFlow.ts"
import * as planNames from "./planNames.ts"
import * as stepSchema from "./stepSchema.ts"

/**
 * How a tool takes a step's input: the payload as its whole arguments (with the text of the context in
 * the parameter `context`, if that is not undefined), or the parameters that take task and context.
 */
export type ToolArguments =
  | { readonly _tag: "Payload"; readonly context: string | undefined }
  | { readonly _tag: "Text"; readonly task: string; readonly context: string | undefined }

/**
 * The largest `maxIterations` of a plan: a million. The smallest is 0, with which no
 * step runs.
 */
export const maxIterationsLimit = planNames.maxIterations

/**
 * What the names of a plan can stand for when it is bound.
 *
 * **Details**
 *
 * `tools` and `agents` are what steps of a tool or agent by name run, and what
 * `fromAgent` and `fromMemory` refer to. `memories` says which agents have a memory
 * (`text`), and which keep their answers (`output`).
 */
export interface Bindings {
  readonly tools: ReadonlyMap<string, BoundTool>
  readonly agents: ReadonlySet<string>
  readonly memories: ReadonlyMap<string, { readonly text: boolean; readonly output: boolean }>
}

/**
 * The problems of a plan's structure; none for a plan that can be bound.
 *
 * **Details**
 *
 * Problems of the plan as a whole come first, then those of each step in declared order;
 * within a step: its name, the steps that `task` and `context` refer to, the type of
 * what it reads, `routes`, `routesBy`, `afterBranches`, `writes`, and whether any run
 * gets to it. A problem that only follows from another one is not told: ways through
 * the plan are followed once all routes go somewhere.
 *
 * What a step reads fits its input unless the JSON Schemas of both say that it never
 * can. A schema that is absent, or of which only the name is known, can be anything.
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
export const checkStructure = (definition: PlanDefinition.PlanDefinition): ReadonlyArray<PlanInvalid.Problem> =>
  structureProblems(definition, maxIterationsLimit)

/**
 * The problems of a plan with what it is bound with; none for a plan that can run.
 *
 * **Details**
 *
 * For each step in declared order: its target is a tool or an agent that is there, and
 * the tool can take what the step gives it; then `fromAgent` and then `fromMemory`
 * refer to agents that keep what is read, in the task and in each context. Steps that
 * run agents and functions of their own need nothing.
 */
export const checkBinding = (
  definition: PlanDefinition.PlanDefinition,
  bindings: Bindings
): ReadonlyArray<PlanInvalid.Problem> => {
  const plan = planFlow.makeOutline(definition)
  return plan.steps.flatMap((step, index) => {
    const slots = referenceSlots(step)
    const findings = [
      checkTool(step, bindings.tools, bindings.agents),
      ...slots.map(([slot, reference]) => checkAgentAnswer(slot, reference, bindings)),
      ...slots.map(([slot, reference]) => checkAgentMemory(slot, reference, bindings))
    ]
    return findings.flatMap((finding) => (finding === undefined ? [] : problemAt(plan, index, finding)))
  })
}

/**
 * How a tool takes what a step gives it, or why it cannot.
 *
 * **Details**
 *
 * - A step without an input schema gives a text. It goes to the parameter `task` if that
 *   takes a text, else to the first one that does (but not to `context`, if there is
 *   another), else to `input` if the tool takes parameters it does not declare. The
 *   context goes to the parameter `context` if that takes a text, else before the task.
 * - A step with an input schema gives an object: all arguments. The context goes to the
 *   parameter `context` beside it; without one, a step with context is a problem.
 *
 * A parameter that only takes certain texts does not take a text. The problem has no
 * `index`.
 */
export const resolveToolArguments = (
  tool: BoundTool,
  step: PlanDefinition.StepDefinition
): Result.Result<ToolArguments, PlanInvalid.Problem> =>
  Result.mapError(findToolArguments(tool, step), (finding) => problemOfStep(step, finding))

const structureProblems = (
  definition: PlanDefinition.PlanDefinition,
  highest: number
): ReadonlyArray<PlanInvalid.Problem> => {
  const outline = planFlow.makeOutline(definition)
  const { steps } = outline
  const duplicates = duplicateNames(outline)
  const references = steps.map((_, index) => checkReferences(outline, index))
  const routing = steps.map((_, index) => checkRouting(outline, index))
  // Ways are followed only if names and routes say what they mean.
  const isSound = duplicates.length === 0 && routing.every((found) => found.length === 0)
  const places = isSound ? planFlow.makeFlow(definition).places : undefined
  const previous = places === undefined ? undefined : previousSources(outline, places)
  const lost = places === undefined ? new Map<number, number>() : unreachedParts(outline, places)
  return [
    ...duplicates,
    ...checkLimit(outline, highest),
    ...steps.flatMap((_, index) => [
      ...checkStepName(outline, index),
      ...(references[index] ?? []),
      ...checkTypes(outline, index, previous),
      ...(routing[index] ?? []),
      ...checkWritesKey(outline, index),
      ...checkWrites(outline, index),
      ...unreachableSteps(outline, index, lost.get(index))
    ])
  ]
}

/** The first steps of the parts that no run reaches, with the last step of each. */
const unreachedParts = (
  outline: planFlow.Outline,
  places: ReadonlyArray<planFlow.FlowPlace>
): ReadonlyMap<number, number> => {
  const reached = new Set(places.flatMap(({ position }) => planFlow.groupAt(outline.steps, position)))
  const parts = new Map<number, number>()
  let first: number | undefined
  outline.steps.forEach((_, index) => {
    first = reached.has(index) ? undefined : (first ?? index)
    if (first !== undefined) parts.set(first, index)
  })
  return parts
}

const unreachableSteps = (
  outline: planFlow.Outline,
  index: number,
  last: number | undefined
): ReadonlyArray<PlanInvalid.Problem> =>
  last === undefined
    ? []
    : problemAt(outline, index, {
        code: "UnreachableStep",
        slot: "name",
        problem: `no run gets to it${last === index ? "" : ` and to what follows, up to step ${quotedName(outline, last)}`}: no route goes there, and the steps before always go elsewhere`,
        fix: "Route to it, move it, or remove it"
      })

/** What is legal and probably not meant. */
export const structureWarnings = (definition: PlanDefinition.PlanDefinition): ReadonlyArray<PlanInvalid.Problem> => {
  const outline = planFlow.makeOutline(definition)
  return outline.steps.flatMap((step, index) => {
    if (!step.parallel) return []
    const ignored = [
      ["routes", step.routes],
      ["routesBy", step.routesBy],
      ["afterBranches", step.afterBranches]
    ] as const
    return ignored.flatMap(([slot, value]) =>
      value === undefined || value.length === 0
        ? []
        : problemAt(outline, index, {
            code: "RoutingIgnored",
            slot,
            problem: "the step is parallel, and a parallel band goes on at the step after it; this is not followed",
            fix: "Remove it, or route from a step after the band"
          })
    )
  })
}

/** How many known names a problem holds. */
const maxKnownNames = 100

const isSameGroup = (outline: planFlow.Outline, a: number, b: number): boolean =>
  outline.steps[a]?.parallel === true &&
  outline.steps[b]?.parallel === true &&
  planFlow.groupOf(outline, a).first === planFlow.groupOf(outline, b).first

/** What a step reads, with the slots it stands in: the task, then the context. */
const referenceSlots = (
  step: PlanDefinition.StepDefinition
): ReadonlyArray<readonly [slot: string, reference: Reference.Reference]> => [
  ["task", step.task],
  ...planFlow.contextReferences(step.context).map((reference, index) => [`context[${index}]`, reference] as const)
]

interface Finding {
  readonly code: PlanInvalid.Code
  readonly slot: string
  /** What stands in the slot. */
  readonly value?: string
  /** What is wrong. */
  readonly problem: string
  /** What to do. */
  readonly fix: string
  readonly unknown?: UnknownName
}

/** An unknown name. `kind` is what the known ones are. */
interface UnknownName {
  readonly name: string
  readonly kind: string
  readonly known: ReadonlyArray<string>
  /** Names to suggest, if more than the known ones. */
  readonly candidates?: Iterable<string>
}

/** A problem of a step whose position is not known. */
const problemOfStep = (step: PlanDefinition.StepDefinition, finding: Finding): PlanInvalid.Problem =>
  makeProblem(step, undefined, finding, planNames.makeFuel())

const makeProblem = (
  step: PlanDefinition.StepDefinition,
  index: number | undefined,
  finding: Finding,
  budget: planNames.SearchFuel
): PlanInvalid.Problem => {
  const place = index === undefined ? "" : ` (#${index})`
  const value = finding.value === undefined ? "" : ` = ${finding.value}`
  const position = index === undefined ? {} : { index }
  const base = { code: finding.code, step: step.name, ...position, slot: finding.slot }
  const said = `Step ${paths.quote(step.name)}${place}, ${finding.slot}${value}: ${finding.problem}`
  if (finding.unknown === undefined) return { ...base, reason: `${said}. ${finding.fix}.` }
  const { candidates, kind, known, name } = finding.unknown
  const suggestion = planNames.closestName(name, candidates ?? known, budget)
  const there =
    known.length === 0
      ? `There are no ${kind}.`
      : `Known ${kind}: ${oncePerNames(listedNames, known, planNames.listNames)}.`
  const reason = `${said}.${planNames.didYouMean(suggestion)} ${there} ${finding.fix}.`
  const some = oncePerNames(keptNames, known, (names) => names.slice(0, maxKnownNames))
  return { ...base, reason, known: some, ...(suggestion === undefined ? {} : { suggestion }) }
}

/** A problem of the step at a position. */
const problemAt = (outline: planFlow.Outline, index: number, finding: Finding): ReadonlyArray<PlanInvalid.Problem> => {
  const step = outline.steps[index]
  return step === undefined ? [] : [makeProblem(step, index, finding, outline.fuel)]
}

/** An unknown step, for {@link problemAt}. */
const unknownStep = (outline: planFlow.Outline, name: string): UnknownName => ({
  name,
  kind: "steps",
  known: outline.names
})

// made once per list of known names: a plan from outside can have any number of unknown ones
const listedNames = new WeakMap<ReadonlyArray<string>, string>()

const keptNames = new WeakMap<ReadonlyArray<string>, ReadonlyArray<string>>()

const oncePerNames = <A>(
  known: WeakMap<ReadonlyArray<string>, A>,
  names: ReadonlyArray<string>,
  make: (names: ReadonlyArray<string>) => A
): A => {
  const before = known.get(names)
  if (before !== undefined) return before
  const made = make(names)
  known.set(names, made)
  return made
}

/** A step as messages name it. */
const quotedName = (outline: planFlow.Outline, index: number): string =>
  `${paths.quote(outline.steps[index]?.name ?? "")} (#${index})`

const CONTROL = /\p{Cc}/u

/** Names that occur twice, all of them in one problem. */
const duplicateNames = ({ steps }: planFlow.Outline): ReadonlyArray<PlanInvalid.Problem> => {
  const seen = new Set<string>()
  const twice = new Set<string>()
  for (const { name } of steps) {
    if (seen.has(name)) twice.add(name)
    seen.add(name)
  }
  if (twice.size === 0) return []
  const reason = `Steps: expected names that are unique, found more than one step of the names ${planNames.listNames(planFlow.sortedNames(twice))}. Rename all but one of each.`
  return [{ code: "DuplicateNames", slot: "name", reason }]
}

/** The limit of iterations. */
const checkLimit = (
  { definition: { maxIterations } }: planFlow.Outline,
  highest: number
): ReadonlyArray<PlanInvalid.Problem> =>
  Number.isInteger(maxIterations) && maxIterations >= 0 && maxIterations <= highest
    ? []
    : [
        {
          code: "InvalidLimit",
          slot: "maxIterations",
          reason: `maxIterations: expected a whole number from 0 to ${highest}, found ${maxIterations}. Steps outside bands, and bands, count as one each.`
        }
      ]

/** The name of a step. */
const checkStepName = (outline: planFlow.Outline, index: number): ReadonlyArray<PlanInvalid.Problem> =>
  checkName(outline, index, "name", outline.steps[index]?.name)

/** The key a step writes. */
const checkWritesKey = (outline: planFlow.Outline, index: number): ReadonlyArray<PlanInvalid.Problem> =>
  checkName(outline, index, "writes", outline.steps[index]?.writes)

const checkName = (
  outline: planFlow.Outline,
  index: number,
  slot: string,
  name: string | undefined
): ReadonlyArray<PlanInvalid.Problem> => {
  const found = name === undefined ? undefined : nameFault(name)
  return found === undefined || name === undefined
    ? []
    : problemAt(outline, index, {
        code: "InvalidName",
        slot,
        value: paths.quote(name),
        problem: `expected 1 to ${planNames.maxNameLength} characters without control characters, found ${found}`,
        fix: slot === "name" ? "Give the step another name" : "Write another key, or none"
      })
}

/** What is wrong with a name, whichever version it comes from. */
export const nameFault = (name: string): string | undefined =>
  name === ""
    ? "nothing"
    : name.length > planNames.maxNameLength
      ? `${name.length} characters`
      : CONTROL.test(name)
        ? "a control character"
        : undefined

/** All references of one step: which steps there are, then which are earlier, then aggregates of bands. */
const checkReferences = (outline: planFlow.Outline, index: number): ReadonlyArray<PlanInvalid.Problem> => {
  const step = outline.steps[index]
  if (step === undefined) return []
  const all = referenceSlots(step)
  const over = (
    rule: (
      outline: planFlow.Outline,
      index: number,
      slot: string,
      reference: Reference.Reference
    ) => Finding | undefined
  ) =>
    all.flatMap(([slot, reference]) => {
      const finding = rule(outline, index, slot, reference)
      return finding === undefined ? [] : problemAt(outline, index, finding)
    })
  const aggregates = all.flatMap(([slot, reference]) =>
    reference._tag === "FromParallelAll"
      ? checkAggregate(outline, index, slot, reference).flatMap((finding) => problemAt(outline, index, finding))
      : []
  )
  return [...over(checkSingle), ...over(checkSingleOrder), ...aggregates]
}

type StepReference = Extract<Reference.Reference, { readonly step: string }>

const isSingle = (reference: Reference.Reference): reference is StepReference =>
  reference._tag === "FromStep" || reference._tag === "FromParallel"

/** Known, and no sibling in the band. */
const checkSingle = (
  outline: planFlow.Outline,
  index: number,
  slot: string,
  reference: Reference.Reference
): Finding | undefined => {
  if (!isSingle(reference)) return undefined
  const target = outline.positions.get(reference.step)
  if (target === undefined) return unknownReference(outline, slot, reference)
  return isSameGroup(outline, index, target) ? sameGroupProblem(slot, reference) : undefined
}

/** Earlier. What is unknown or a sibling has been told before. */
const checkSingleOrder = (
  outline: planFlow.Outline,
  index: number,
  slot: string,
  reference: Reference.Reference
): Finding | undefined => {
  if (!isSingle(reference)) return undefined
  const target = outline.positions.get(reference.step)
  if (target === undefined || target < index || isSameGroup(outline, index, target)) return undefined
  return notEarlierProblem(outline, index, target, slot, reference)
}

const checkAggregate = (
  outline: planFlow.Outline,
  index: number,
  slot: string,
  reference: StepReference
): ReadonlyArray<Finding> => {
  const target = outline.positions.get(reference.step)
  if (target === undefined) return [unknownReference(outline, slot, reference)]
  if (isSameGroup(outline, index, target)) return [sameGroupProblem(slot, reference)]
  const value = planFlow.showReference(reference)
  const order = target < index ? [] : [notEarlierProblem(outline, index, target, slot, reference)]
  if (outline.steps[target]?.parallel !== true) {
    const problem = `expected the first step of a parallel band, found step ${quotedName(outline, target)}, which is not parallel`
    const fix = "Make it parallel, or use fromStep"
    return [...order, { code: "NotParallel", slot, value, problem, fix }]
  }
  const { first } = planFlow.groupOf(outline, target)
  if (first === target) return order
  const problem = `expected the first step of a parallel band, found step ${quotedName(outline, target)} of the band that begins with ${quotedName(outline, first)}`
  const fix = `Refer to ${quotedName(outline, first)}, or use fromParallel for one step of the band`
  return [...order, { code: "NotFirstOfBand", slot, value, problem, fix }]
}

const unknownReference = (outline: planFlow.Outline, slot: string, reference: StepReference): Finding => ({
  code: "UnknownStep",
  slot,
  value: planFlow.showReference(reference),
  problem: "refers to an unknown step",
  fix: "Refer to a step that comes earlier in the plan",
  unknown: unknownStep(outline, reference.step)
})

const sameGroupProblem = (slot: string, reference: Reference.Reference): Finding => ({
  code: "SameBand",
  slot,
  value: planFlow.showReference(reference),
  problem: "refers to a step of the same parallel band, where no step sees what the others give",
  fix: "Refer to a step before the band, or put a step that is not parallel between them"
})

const notEarlierProblem = (
  outline: planFlow.Outline,
  index: number,
  target: number,
  slot: string,
  reference: Reference.Reference
): Finding => ({
  code: "NotEarlier",
  slot,
  value: planFlow.showReference(reference),
  problem:
    target === index
      ? "refers to the step itself, not to an earlier one"
      : `refers to step ${quotedName(outline, target)}, which is not earlier in the plan`,
  fix: "Refer to an earlier step, or put that step before this one"
})

/** All rules about the routing of one step, in order. */
const checkRouting = (outline: planFlow.Outline, index: number): ReadonlyArray<PlanInvalid.Problem> => {
  const step = outline.steps[index]
  return step === undefined
    ? []
    : [
        ...bothRoutings(outline, index, step),
        ...(step.routes ?? []).flatMap(({ to }) => checkRouteTarget(outline, index, "routes", to)),
        ...checkRouteField(outline, index, step),
        ...checkRejoin(outline, index, step)
      ]
}

const bothRoutings = (outline: planFlow.Outline, index: number, step: PlanDefinition.StepDefinition) =>
  step.routes === undefined || step.routesBy === undefined
    ? []
    : problemAt(outline, index, {
        code: "RoutesAndRoutesBy",
        slot: "routes",
        problem: `routes and routesBy = ${paths.quote(step.routesBy)} are mutually exclusive`,
        fix: "Use routes for conditions, or routesBy for a field that names the step"
      })

/** One step that a route goes to: known, and not of a band. */
const checkRouteTarget = (outline: planFlow.Outline, index: number, slot: string, to: string, what = "goes to") => {
  const position = outline.positions.get(to)
  if (position === undefined) {
    return problemAt(outline, index, {
      code: "UnknownStep",
      slot,
      value: paths.quote(to),
      problem: `${what} an unknown step`,
      fix: "Name a step of the plan",
      unknown: unknownStep(outline, to)
    })
  }
  return outline.steps[position]?.parallel === true
    ? problemAt(outline, index, {
        code: "RouteToParallel",
        slot,
        value: paths.quote(to),
        problem: `${what} step ${quotedName(outline, position)}, which is parallel; a route cannot enter a parallel band`,
        fix: "Go to a step that is not parallel and stands right before the band"
      })
    : []
}

const checkRouteField = (
  outline: planFlow.Outline,
  index: number,
  step: PlanDefinition.StepDefinition
): ReadonlyArray<PlanInvalid.Problem> => {
  const { output, routesBy } = step
  if (routesBy === undefined) return []
  const refuse = (problem: string, fix: string) =>
    problemAt(outline, index, { code: "InvalidRoutesBy", slot: "routesBy", value: paths.quote(routesBy), problem, fix })
  if (routesBy === "") return refuse("expected the name of a field of the output, found nothing", "Name a field")
  const found = stepSchema.readDiscriminant(output, routesBy)
  switch (found._tag) {
    case "Unknown":
      return []
    case "NotAnObject":
      return refuse(
        `expected an output that is an object with a field of that name, found ${describeTarget(output)}`,
        "Give the step such an output schema"
      )
    case "NoField":
      return refuse(
        `the output ${describeTarget(output)} has no field of that name, but ${found.fields.length === 0 ? "none at all" : planNames.listNames(found.fields)}`,
        "Name one of its fields"
      )
    case "Literals":
      return found.literals.length === 0
        ? refuse(
            `expected a field of the output ${describeTarget(output)} with string literals that name steps, found no string literal`,
            `Declare it as one of the names of steps, as in Schema.Literals(["next", "stop"])`
          )
        : found.literals.flatMap((to) =>
            checkRouteTarget(outline, index, "routesBy", to, `field ${paths.quote(routesBy)} of the output goes to`)
          )
  }
}

const describeTarget = (output: PlanDefinition.SchemaRef | undefined): string => {
  if (output === undefined) return "no output schema"
  const title = output.name ?? output.json?.["title"]
  return typeof title === "string" ? paths.quote(title) : "without a name"
}

const checkRejoin = (
  outline: planFlow.Outline,
  index: number,
  step: PlanDefinition.StepDefinition
): ReadonlyArray<PlanInvalid.Problem> => {
  const { afterBranches } = step
  if (afterBranches === undefined) return []
  const value = paths.quote(afterBranches)
  const slot = "afterBranches"
  const lonely =
    step.routes === undefined && step.routesBy === undefined
      ? problemAt(outline, index, {
          code: "RejoinWithoutRoutes",
          slot,
          value,
          problem: "a step without routes and routesBy has no branches to rejoin after",
          fix: "Add routes or routesBy, or remove afterBranches"
        })
      : []
  const position = outline.positions.get(afterBranches)
  if (position === undefined) {
    const unknown = unknownStep(outline, afterBranches)
    const fix = "Name a step that comes later in the plan"
    return [
      ...lonely,
      ...problemAt(outline, index, {
        code: "UnknownStep",
        slot,
        value,
        problem: "rejoins at an unknown step",
        fix,
        unknown
      })
    ]
  }
  if (position <= index) {
    const problem = `expected a step after position ${index}, found ${position === index ? "the step itself" : `step ${quotedName(outline, position)}`} at position ${position}`
    const fix = "Rejoin at a later step, or route back without afterBranches"
    return [...lonely, ...problemAt(outline, index, { code: "RejoinNotLater", slot, value, problem, fix })]
  }
  return [
    ...lonely,
    ...checkRouteIntoGroup(outline, index, value, position),
    ...checkTargetOrder(outline, index, step, value, position)
  ]
}

const checkRouteIntoGroup = (outline: planFlow.Outline, index: number, value: string, position: number) => {
  const { first } = planFlow.groupOf(outline, position)
  return first === position
    ? []
    : problemAt(outline, index, {
        code: "RejoinIntoBand",
        slot: "afterBranches",
        value,
        problem: `rejoins in the middle of the parallel band that begins with ${quotedName(outline, first)}, whose first steps would not run`,
        fix: `Rejoin at ${quotedName(outline, first)}`
      })
}

/** The positions that the routes of a step lead to, as far as they are known. */
const routeTargets = (
  { positions }: planFlow.Outline,
  { output, routes, routesBy }: PlanDefinition.StepDefinition
): ReadonlySet<number> => {
  const found = routesBy === undefined ? undefined : stepSchema.readDiscriminant(output, routesBy)
  const literals = found?._tag === "Literals" ? found.literals : []
  const names = [...(routes ?? []).map(({ to }) => to), ...literals]
  return new Set(names.flatMap((name) => positions.get(name) ?? []))
}

const checkTargetOrder = (
  outline: planFlow.Outline,
  index: number,
  step: PlanDefinition.StepDefinition,
  value: string,
  position: number
) =>
  Array.from(routeTargets(outline, step))
    .filter((to) => to >= position)
    .flatMap((to) =>
      problemAt(outline, index, {
        code: "RejoinBeforeRoute",
        slot: "afterBranches",
        value,
        problem:
          to === position
            ? `a route goes to ${quotedName(outline, to)} itself, which would run twice`
            : `a route goes to ${quotedName(outline, to)}, which is declared after it and would run twice`,
        fix: `Declare ${quotedName(outline, to)} between the step and the rejoin, or rejoin later`
      })
    )

/** Something that a task can be, and its schema if that is known. */
interface Source {
  readonly name: string
  readonly json: JsonObject | undefined
}

const textSchema: JsonObject = { type: "string" }

/** The steps whose results come right before each step, by position. */
type Previous = ReadonlyMap<number, ReadonlySet<number>>

/**
 * The steps that can run right before each step. After a band that is its last declared member. A step
 * that is in a branch is judged as such: what else can happen is that no route was taken, and then steps
 * run one after the other that were never meant to.
 */
const previousSources = (outline: planFlow.Outline, places: ReadonlyArray<planFlow.FlowPlace>): Previous => {
  const branched = new Set(places.flatMap(({ branches, position }) => (branches.length > 0 ? [position] : [])))
  const found = new Map<number, Set<number>>()
  for (const { next, position } of places) {
    const source = planFlow.groupOf(outline, position).last
    for (const target of next) {
      const to = places[target]
      if (to === undefined || (to.branches.length === 0 && branched.has(to.position))) continue
      const known = found.get(to.position)
      if (known === undefined) found.set(to.position, new Set([source]))
      else known.add(source)
    }
  }
  return found
}

const checkTypes = (
  outline: planFlow.Outline,
  index: number,
  previous: Previous | undefined
): ReadonlyArray<PlanInvalid.Problem> => {
  const step = outline.steps[index]
  const taken = step?.input?.json
  if (step === undefined || taken === undefined) return []
  const conflicts = schemaSources(outline, index, previous).flatMap(({ json, name }) => {
    const reason = json === undefined ? undefined : stepSchema.schemaConflict(json, taken, outline.search)
    return reason === undefined ? [] : [`${name}: ${reason}`]
  })
  if (conflicts.length === 0) return []
  const input = step.input?.name === undefined ? "" : ` (${JSON.stringify(step.input.name)})`
  const shown = conflicts.slice(0, 5).join("; ")
  return problemAt(outline, index, {
    code: "IncompatibleTypes",
    slot: "input",
    problem: `its input${input} can never be what task = ${planFlow.showReference(step.task)} reads, ${shown}`,
    fix: "Change the input, the output of that step, or the task"
  })
}

const schemaSources = (
  outline: planFlow.Outline,
  index: number,
  previous: Previous | undefined
): ReadonlyArray<Source> => {
  const step = outline.steps[index]
  const task = step?.task
  switch (task?._tag) {
    case "FromPrev": {
      const before = previous?.get(planFlow.groupOf(outline, index).first) ?? []
      return Array.from(before)
        .sort((a, b) => a - b)
        .flatMap((position) => outputSchema(outline, position))
    }
    case "FromStep":
    case "FromParallel": {
      const position = outline.positions.get(task.step)
      return position === undefined || position >= index ? [] : outputSchema(outline, position)
    }
    case "FromParallelAll": {
      const position = outline.positions.get(task.step)
      if (position === undefined || position >= index) return []
      return step !== undefined && stepSchema.readsText(step)
        ? [{ name: "the text of a band", json: textSchema }]
        : [groupSource(outline, position)]
    }
    case "FromMemory":
      return [{ name: "the text of a memory", json: textSchema }]
    case "Literal":
      return [{ name: "a text", json: { type: "string", const: task.value } }]
    default:
      return []
  }
}

const groupSources = new WeakMap<planFlow.Outline, Map<number, Source>>()

/** What a band gives; made once, however many steps read it. */
const groupSource = (outline: planFlow.Outline, first: number): Source => {
  const known = groupSources.get(outline) ?? new Map<number, Source>()
  groupSources.set(outline, known)
  const source = known.get(first) ?? makeGroupSource(outline, first)
  known.set(first, source)
  return source
}

/** What the members of a band give, each under its name. */
const makeGroupSource = (outline: planFlow.Outline, first: number): Source => {
  const members = outline.steps.slice(first, planFlow.groupOf(outline, first).last + 1)
  const json: JsonObject = {
    type: "object",
    properties: Object.fromEntries(
      members.map(({ name, output }) => [name, stepSchema.documentOf(output?.json ?? {})])
    ),
    required: members.map(({ name }) => name),
    additionalProperties: false
  }
  return { name: `what the band of step ${quotedName(outline, first)} gives`, json }
}

const outputSchema = (outline: planFlow.Outline, position: number): ReadonlyArray<Source> => {
  const found = outline.steps[position]?.output
  const called = found?.name === undefined ? "" : ` (${JSON.stringify(found.name)})`
  return [{ name: `the output${called} of step ${quotedName(outline, position)}`, json: found?.json }]
}

/** Members of a parallel group write different keys; of steps that run one after the other the last one wins. */
const checkWrites = (outline: planFlow.Outline, index: number): ReadonlyArray<PlanInvalid.Problem> => {
  const key = outline.steps[index]?.writes
  const { first } = planFlow.groupOf(outline, index)
  const other = outline.steps.findIndex(({ writes }, at) => at >= first && writes === key)
  return key === undefined || other >= index
    ? []
    : problemAt(outline, index, {
        code: "WritesCollision",
        slot: "writes",
        value: paths.quote(key),
        problem: `step ${quotedName(outline, other)} of the same parallel group writes that key, too`,
        fix: "Write different keys"
      })
}

/** What the names of a plan can stand for. */
interface MemoryBindings {
  readonly tools: ReadonlyMap<string, unknown>
  readonly agents: ReadonlySet<string>
  readonly memories: ReadonlyMap<string, { readonly text: boolean; readonly output: boolean }>
}

/** `fromAgent` in a slot. */
const checkAgentAnswer = (
  slot: string,
  reference: Reference.Reference,
  bindings: MemoryBindings
): Finding | undefined =>
  reference._tag === "FromAgent" ? checkMemoryRead(slot, reference, reference.agent, bindings, "output") : undefined

/** `fromMemory` in a slot. */
const checkAgentMemory = (
  slot: string,
  reference: Reference.Reference,
  bindings: MemoryBindings
): Finding | undefined =>
  reference._tag === "FromMemory" ? checkMemoryRead(slot, reference, reference.agent, bindings, "text") : undefined

const checkMemoryRead = (
  slot: string,
  reference: Reference.Reference,
  name: string,
  { agents, memories, tools }: MemoryBindings,
  what: "text" | "output"
): Finding | undefined => {
  const found = memories.get(name)
  if (found !== undefined && found[what]) return undefined
  const base = { slot, value: planFlow.showReference(reference) }
  if (found !== undefined || agents.has(name)) {
    return what === "text"
      ? {
          ...base,
          code: "NoMemory",
          problem: "expected an agent with a memory, found one without",
          fix: "Bind the plan with a memory for it that gives a text"
        }
      : {
          ...base,
          code: "NoStore",
          problem: "expected an agent whose answers are kept in a store, found one without",
          fix: "Bind the plan with a memory for it that keeps its output"
        }
  }
  if (tools.has(name)) {
    return {
      ...base,
      code: "NotAnAgent",
      problem: "expected an agent, found a tool that is none, and that remembers nothing",
      fix: "Refer to an agent"
    }
  }
  return {
    ...base,
    code: "UnknownAgent",
    problem: "refers to an unknown agent",
    fix: "Bind the plan with it and with its memory",
    unknown: {
      name,
      kind: "agents",
      known: planFlow.sortedNames([...agents, ...memories.keys()]),
      candidates: planFlow.sortedNames([...tools.keys(), ...agents, ...memories.keys()])
    }
  }
}

/** Unions and references that are followed to see whether a parameter takes text. */
const maxToolDepth = 8

const targetFinding = (code: Finding["code"], name: string, problem: string, fix: string): Finding => ({
  code,
  slot: "target",
  value: paths.quote(name),
  problem,
  fix
})

/** The target of a step that names a tool, or an agent, that the plan is bound with. */
const checkTool = (
  { target: { kind, name }, ...step }: PlanDefinition.StepDefinition,
  tools: ReadonlyMap<string, BoundTool>,
  agents: ReadonlySet<string>
): Finding | undefined => {
  if (kind !== "tool") return undefined
  const tool = tools.get(name)
  if (tool === undefined) {
    if (agents.has(name)) return undefined
    const known = planFlow.sortedNames([...tools.keys(), ...agents])
    return {
      ...targetFinding("UnknownTool", name, "there is no tool and no agent of that name", "Bind the plan with it"),
      unknown: { name, kind: "tools and agents", known }
    }
  }
  if (agents.has(name)) {
    return targetFinding(
      "AmbiguousTarget",
      name,
      "a tool and an agent have that name",
      "Bind the plan with one of them, or rename one"
    )
  }
  const found = findToolArguments(tool, { ...step, target: { kind, name } })
  return Result.isFailure(found) ? found.failure : undefined
}

/** The parameters of a tool that take what a step gives. */
const findToolArguments = (
  tool: BoundTool,
  step: PlanDefinition.StepDefinition
): Result.Result<ToolArguments, Finding> => {
  const { name } = tool.contract
  if (tool.kind === "provider") {
    return Result.fail(
      targetFinding(
        "ProviderTool",
        name,
        "the tool runs at the provider of a model, which calls it by itself",
        "Take an agent with that tool"
      )
    )
  }
  return step.input === undefined ? argumentsFromText(tool, name) : argumentsFromPayload(tool, name, step)
}

/** The text of the task, and that of the context. */
const argumentsFromText = (tool: BoundTool, name: string): Result.Result<ToolArguments, Finding> => {
  const parameters = stepSchema.resolveRefs(stepSchema.locate(tool.contract.parameters))
  const keys = parameters === undefined ? [] : Object.keys(stepSchema.propertiesOf(parameters))
  const texts = parameters === undefined ? [] : keys.filter((key) => takesText(parameters, key))
  const task = texts.includes("task")
    ? "task"
    : (texts.find((key) => key !== "context") ?? texts[0] ?? (keys.includes("input") ? undefined : "input"))
  const isOpen = parameters === undefined || !stepSchema.isClosed(parameters)
  if (task === undefined || (!keys.includes(task) && !isOpen)) {
    return refuseArguments(
      name,
      keys.length === 0
        ? "expected a tool that takes the text of the task, found one without parameters"
        : `expected a tool that takes the text of the task, found no parameter for a text among ${planNames.listNames(keys)}`,
      "Give the step an input schema, whose object is then the arguments of the tool"
    )
  }
  const context = task !== "context" && texts.includes("context") ? "context" : undefined
  const missing = requiredParameters(parameters, new Set([task, ...(context === undefined ? [] : [context])]))
  return missing.length === 0
    ? Result.succeed({ _tag: "Text", task, context })
    : refuseArguments(
        name,
        `the tool takes the text of the task as ${paths.quote(task)}, and also requires ${planNames.listNames(missing)}`,
        "Give the step an input schema, whose object is then the arguments of the tool"
      )
}

/** The payload as all arguments, with the text of the context beside it. */
const argumentsFromPayload = (
  tool: BoundTool,
  name: string,
  step: PlanDefinition.StepDefinition
): Result.Result<ToolArguments, Finding> => {
  const given = step.input?.json
  const parameters = stepSchema.resolveRefs(stepSchema.locate(tool.contract.parameters))
  const hasContext = planFlow.contextReferences(step.context).length > 0
  const isGiven = given !== undefined && stepSchema.propertyAt(stepSchema.locate(given), "context") !== undefined
  const takesContext = hasContext && !isGiven && parameters !== undefined && takesText(parameters, "context")
  const added = takesContext ? { ...given, ...withContext(given) } : given
  const reason =
    given === undefined
      ? undefined
      : (stepSchema.schemaConflict(given, { type: "object" }) ??
        stepSchema.schemaConflict(added ?? given, tool.contract.parameters))
  if (reason !== undefined) {
    return refuseArguments(
      name,
      `the input of the step is the arguments of the tool, and never fits its parameters: ${reason}`,
      "Change the input of the step"
    )
  }
  if (hasContext && !takesContext) {
    return Result.fail(
      targetFinding(
        "ContextNotTaken",
        name,
        isGiven
          ? `the input of the step has a field "context" of its own, so its context has no place among the arguments`
          : `the input of the step is the arguments of the tool, which has no parameter "context" that takes a text`,
        "Remove context from the step, or give the tool such a parameter"
      )
    )
  }
  return Result.succeed({ _tag: "Payload", context: takesContext ? "context" : undefined })
}

const withContext = (given: { readonly [key: string]: Schema.Json } | undefined) => ({
  properties: { ...stepSchema.propertiesOf(stepSchema.locate(given ?? {})), context: { type: "string" } }
})

const refuseArguments = (name: string, problem: string, fix: string): Result.Result<never, Finding> =>
  Result.fail(targetFinding("ToolArguments", name, problem, fix))

/** What a call must have and does not: required, not given, without default. */
const requiredParameters = (
  parameters: stepSchema.Located | undefined,
  given: ReadonlySet<string>
): ReadonlyArray<string> =>
  parameters === undefined
    ? []
    : stepSchema
        .requiredKeys(parameters)
        .filter(
          (key) =>
            !given.has(key) &&
            stepSchema.ownKeyword(stepSchema.propertyAt(parameters, key)?.schema, "default") === undefined
        )

/** Whether a parameter takes any text. */
const takesText = (parameters: stepSchema.Located, key: string): boolean => {
  const found = stepSchema.propertyAt(parameters, key)
  return found !== undefined && isTextSchema(found, maxToolDepth)
}

const isTextSchema = (at: stepSchema.Located, depth: number): boolean => {
  const schema = stepSchema.resolveRefs(at)
  if (schema === undefined || depth === 0 || schema.schema === false) return false
  if (stepSchema.literalValues(schema) !== undefined) return false
  const types = stepSchema.typesOf(schema)
  if (types !== undefined && !types.includes("string")) return false
  if (!stepSchema.intersectionParts(schema).every((part) => isTextSchema(part, depth - 1))) return false
  return stepSchema.unionMembers(schema)?.some((member) => isTextSchema(member, depth - 1)) ?? true
}

interface WorstPath {
  /** Of all ways, if their number is finite. */
  readonly steps: number | undefined
  readonly calls: number | undefined
  /** Of the longest turn that can run: 0 for a plan without steps. */
  readonly turn: { readonly steps: number; readonly calls: number | undefined }
}

/** What a place takes: the steps that run there, and the calls of models they make. */
interface StepWeight {
  readonly steps: number
  readonly calls: number | undefined
}

export const worstPath = (
  definition: PlanDefinition.PlanDefinition,
  callsOf: (step: PlanDefinition.StepDefinition) => number | undefined
): WorstPath => {
  const outline = planFlow.makeOutline(definition)
  const { places } = planFlow.makeFlow(definition)
  const positions = places?.map(({ position }) => position) ?? Array.from(outline.steps.keys())
  const weights = positions.map((position) => weighStep(outline, position, callsOf))
  const turn = widestGroup(weights)
  const order = places === undefined ? undefined : topologicalOrder(places)
  if (places === undefined || order === undefined) return { steps: undefined, calls: undefined, turn }
  const isKnown = weights.every(({ calls }) => calls !== undefined)
  return {
    steps: longestPath(places, order, (place) => weights[place]?.steps ?? 0),
    calls: isKnown ? longestPath(places, order, (place) => weights[place]?.calls ?? 0) : undefined,
    turn
  }
}

const weighStep = (
  outline: planFlow.Outline,
  position: number,
  callsOf: (step: PlanDefinition.StepDefinition) => number | undefined
): StepWeight => {
  const { last } = planFlow.groupOf(outline, position)
  let calls: number | undefined = 0
  for (let member = position; member <= last; member++) {
    const step = outline.steps[member]
    const each: number | undefined = step === undefined ? 0 : callsOf(step)
    calls = calls === undefined || each === undefined ? undefined : calls + each * (1 + (step?.retry?.times ?? 0))
  }
  return { steps: last - position + 1, calls }
}

const widestGroup = (weights: ReadonlyArray<StepWeight>): StepWeight => {
  let steps = 0
  let calls: number | undefined = 0
  for (const weight of weights) {
    steps = Math.max(steps, weight.steps)
    calls = calls === undefined || weight.calls === undefined ? undefined : Math.max(calls, weight.calls)
  }
  return { steps, calls }
}

/** Places, each before those it goes to. Undefined when there is a loop. */
const topologicalOrder = (places: ReadonlyArray<planFlow.FlowPlace>): ReadonlyArray<number> | undefined => {
  const before = places.map(() => 0)
  for (const { next } of places) for (const target of next) before[target] = (before[target] ?? 0) + 1
  const order = Array.from(before.keys()).filter((place) => before[place] === 0)
  for (let turn = 0; turn < order.length; turn++) {
    for (const target of places[order[turn] ?? 0]?.next ?? []) {
      const left = (before[target] ?? 0) - 1
      before[target] = left
      if (left === 0) order.push(target)
    }
  }
  return order.length === places.length ? order : undefined
}

const longestPath = (
  places: ReadonlyArray<planFlow.FlowPlace>,
  order: ReadonlyArray<number>,
  weight: (place: number) => number
): number => {
  const sums = new Map<number, number>()
  let most = 0
  for (const place of order) {
    const sum = (sums.get(place) ?? 0) + weight(place)
    most = Math.max(most, sum)
    for (const target of places[place]?.next ?? []) sums.set(target, Math.max(sums.get(target) ?? 0, sum))
  }
  return most
}
