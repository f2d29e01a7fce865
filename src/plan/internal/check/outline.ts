/**
 * A plan as its rules look at it, and how they tell what they find.
 *
 * The rules of `PlanCheck.structural`, in order (S11; + is added to the recorded ones):
 *
 * | of        | rule                                                        | code                              | file           |
 * |-----------|-------------------------------------------------------------|-----------------------------------|----------------|
 * | the plan  | names of steps are unique                                   | DuplicateNames                    | names.ts       |
 * | the plan  | + maxIterations is a whole number, 0 to a million           | InvalidLimit                      | names.ts       |
 * | each step | + name: 1 to 200 characters, no control characters          | InvalidName                       | names.ts       |
 * |           | task, then each context: known, not of the same band        | UnknownStep, SameBand             | references.ts  |
 * |           | task, then each context: earlier                            | NotEarlier                        | references.ts  |
 * |           | fromParallelAll: known, + not of its own band, earlier,     | UnknownStep, SameBand,            | references.ts  |
 * |           | a band, its first member                                    | NotEarlier, NotParallel, ...      |                |
 * |           | + input: fits what task really reads (S11.2.10 looked at    | IncompatibleTypes                 | types.ts       |
 * |           | the declared neighbour)                                     |                                   |                |
 * |           | routes or routesBy, not both                                | RoutesAndRoutesBy                 | routing.ts     |
 * |           | routes: known, not of a band                                | UnknownStep, RouteToParallel      | routing.ts     |
 * |           | routesBy: a field of the output with literals that are      | InvalidRoutesBy, UnknownStep,     | routing.ts     |
 * |           | known steps, not of a band                                  | RouteToParallel                   |                |
 * |           | afterBranches: with routes, known, later, + not inside a    | RejoinWithoutRoutes, UnknownStep, | routing.ts     |
 * |           | band, + after the targets of all routes                     | RejoinNotLater, ...               |                |
 * |           | + writes: a usable key that no other step of the pass has   | InvalidName, WritesCollision      | names, writes  |
 * |           | + some run gets to the step                                 | UnreachableStep                   | structural.ts  |
 *
 * The rules of `PlanCheck.binding` (tools.ts, memories.ts):
 *
 * | of        | rule                                                        | code                              |
 * |-----------|-------------------------------------------------------------|-----------------------------------|
 * | each step | the tool or agent is there, under one meaning               | UnknownTool, AmbiguousTarget      |
 * |           | + the tool runs here, takes what the step gives, takes      | ProviderTool, ToolArguments,      |
 * |           | context if there is some                                    | ContextNotTaken                   |
 * |           | fromAgent: known, an agent, keeps its answers               | UnknownAgent, NotAnAgent, NoStore |
 * |           | fromMemory: known, an agent, has a memory                   | UnknownAgent, NotAnAgent, NoMemory|
 *
 * All problems are told, but none that only follows from another one: an unknown step has no order, and
 * ways through a plan are not followed while names are double or routes go nowhere.
 */
import * as Names from "../../../payload/Names.ts"
import type { PlanDefinition, StepDefinition } from "../../PlanDefinition.ts"
import type { Code, PlanProblem } from "../../PlanProblem.ts"
import type { Reference } from "../../Reference.ts"
import { byCodePoint } from "../names/order.ts"
import * as Similarity from "../names/similarity.ts"
import { didYouMean, list } from "../names/words.ts"
import { contextOf } from "../references.ts"
import * as Compatible from "./compatible.ts"

/** How many known names a problem holds. */
const HELD = 100

export interface Outline {
  readonly definition: PlanDefinition
  readonly steps: ReadonlyArray<StepDefinition>
  /** The first step of each name. */
  readonly positions: ReadonlyMap<string, number>
  /** Sorted, each once. */
  readonly names: ReadonlyArray<string>
  /** For a member of a band the first and last position of the band; for another step its own. */
  readonly bands: ReadonlyArray<Band>
  readonly budget: Similarity.Budget
  readonly search: Compatible.Search
}

export interface Band {
  readonly first: number
  readonly last: number
}

export const make = (definition: PlanDefinition): Outline => {
  const { steps } = definition
  const positions = new Map<string, number>()
  const bands: Array<Band> = []
  steps.forEach((step, index) => {
    if (!positions.has(step.name)) positions.set(step.name, index)
    if (!step.parallel) bands.push({ first: index, last: index })
    else if (index === 0 || steps[index - 1]?.parallel !== true) {
      let last = index
      while (steps[last + 1]?.parallel === true) last++
      const band = { first: index, last }
      for (let member = index; member <= last; member++) bands.push(band)
    }
  })
  return {
    definition,
    steps,
    positions,
    names: sorted(positions.keys()),
    bands,
    budget: Similarity.budget(),
    search: Compatible.search()
  }
}

/** By code points, each once. */
export const sorted = (names: Iterable<string>): ReadonlyArray<string> => Array.from(new Set(names)).sort(byCodePoint)

/** The band a position is in; its own place if there is no such position. */
export const bandOf = (outline: Outline, index: number): Band => outline.bands[index] ?? { first: index, last: index }

export const isSameBand = (outline: Outline, a: number, b: number): boolean =>
  outline.steps[a]?.parallel === true &&
  outline.steps[b]?.parallel === true &&
  bandOf(outline, a).first === bandOf(outline, b).first

/** What a step reads, with the slots it stands in: the task, then the context. */
export const slots = (step: StepDefinition): ReadonlyArray<readonly [slot: string, reference: Reference]> => [
  ["task", step.task],
  ...contextOf(step.context).map((reference, index) => [`context[${index}]`, reference] as const)
]

export interface Finding {
  readonly code: Code
  readonly slot: string
  /** What stands in the slot. */
  readonly value?: string
  /** What is wrong. */
  readonly problem: string
  /** What to do. */
  readonly fix: string
  readonly unknown?: Unknown
}

/** An unknown name. `kind` is what the known ones are. */
export interface Unknown {
  readonly name: string
  readonly kind: string
  readonly known: ReadonlyArray<string>
  /** Names to suggest, if more than the known ones. */
  readonly candidates?: Iterable<string>
}

/** A problem of a step whose position is not known. */
export const lone = (step: StepDefinition, finding: Finding): PlanProblem =>
  problem(step, undefined, finding, Similarity.budget())

const problem = (
  step: StepDefinition,
  index: number | undefined,
  finding: Finding,
  budget: Similarity.Budget
): PlanProblem => {
  const place = index === undefined ? "" : ` (#${index})`
  const value = finding.value === undefined ? "" : ` = ${finding.value}`
  const position = index === undefined ? {} : { index }
  const base = { code: finding.code, step: step.name, ...position, slot: finding.slot }
  const said = `Step ${Names.quote(step.name)}${place}, ${finding.slot}${value}: ${finding.problem}`
  if (finding.unknown === undefined) return { ...base, reason: `${said}. ${finding.fix}.` }
  const { candidates, kind, known, name } = finding.unknown
  const suggestion = Similarity.closest(name, candidates ?? known, budget)
  const there = known.length === 0 ? `There are no ${kind}.` : `Known ${kind}: ${once(listed, known, list)}.`
  const reason = `${said}.${didYouMean(suggestion)} ${there} ${finding.fix}.`
  const some = once(held, known, (names) => names.slice(0, HELD))
  return { ...base, reason, known: some, ...(suggestion === undefined ? {} : { suggestion }) }
}

/** A problem of the step at a position. */
export const at = (outline: Outline, index: number, finding: Finding): ReadonlyArray<PlanProblem> => {
  const step = outline.steps[index]
  return step === undefined ? [] : [problem(step, index, finding, outline.budget)]
}

/** An unknown step, for {@link at}. */
export const unknownStep = (outline: Outline, name: string): Unknown => ({ name, kind: "steps", known: outline.names })

// made once per list of known names: a plan from outside can have any number of unknown ones
const listed = new WeakMap<ReadonlyArray<string>, string>()
const held = new WeakMap<ReadonlyArray<string>, ReadonlyArray<string>>()

const once = <A>(
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
export const named = (outline: Outline, index: number): string =>
  `${Names.quote(outline.steps[index]?.name ?? "")} (#${index})`
