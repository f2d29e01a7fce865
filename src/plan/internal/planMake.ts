/** Plans as they are written. */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Names from "../../payload/Names.ts"
import type { Plan } from "../Plan.ts"
import type { CustomPredicate, Options, Parts } from "../PlanConfig.ts"
import type { PlanDefinition } from "../PlanDefinition.ts"
import type { PlanInvalid } from "../PlanInvalid.ts"
import type { PlanProblem } from "../PlanProblem.ts"
import type { Any } from "../Step.ts"
import * as When from "../When.ts"
import * as answers from "./step/answers.ts"
import { fault } from "./check/names.ts"
import { defaultMaxIterations, defaultName } from "./codec/limits.ts"
import { identifierRule, isIdentifier } from "./names/rules.ts"
import * as Similarity from "./names/similarity.ts"
import { didYouMean, list } from "./names/words.ts"
import type { LivePredicate } from "./live.ts"
import * as internal from "./plan.ts"
import * as stepLive from "./step/live.ts"
import { TypeId as StepTypeId } from "./step/make.ts"

const isStep = (part: Any | Options | undefined): part is Any => Predicate.hasProperty(part, StepTypeId)

/** A predicate as the run asks it. */
export const livePredicate =
  (name: string, predicate: CustomPredicate): LivePredicate =>
  (input) =>
    Effect.suspend((): Effect.Effect<boolean, unknown> => {
      const answer: unknown = predicate(input)
      if (!Effect.isEffect(answer)) return booleanOf(name, answer)
      // Sound: what predicates require is in the type of the plan.
      return Effect.flatMap(answer as Effect.Effect<unknown, unknown>, (value) => booleanOf(name, value))
    })

const booleanOf = (name: string, answer: unknown): Effect.Effect<boolean> =>
  typeof answer === "boolean"
    ? Effect.succeed(answer)
    : Effect.die(new TypeError(`expected the predicate ${Names.quote(name)} to give a boolean, or an Effect of one`))

/** Conditions of routes that cannot be asked, and predicates that the plan is not given: all of them. */
const conditions = (definition: PlanDefinition, known: ReadonlySet<string>): ReadonlyArray<PlanProblem> => {
  const names = [...known].sort()
  const budget = Similarity.budget()
  const unknown = (name: string) => {
    const suggestion = Similarity.closest(name, names, budget)
    const available =
      names.length === 0 ? "It is given none: put it into `predicates` of Plan.make." : `There are ${list(names)}.`
    return {
      code: "UnknownPredicate" as const,
      problem: `expected a predicate that the plan is given, found ${Names.quote(name)}. ${available}${didYouMean(suggestion)}`,
      rest: { known: names, ...(suggestion === undefined ? {} : { suggestion }) }
    }
  }
  return definition.steps.flatMap((step, index) =>
    (step.routes ?? []).flatMap(({ to, when }, position) =>
      [
        ...When.problems(when).map(({ path, reason }) => ({
          code: "InvalidCondition" as const,
          problem: `${path.length === 0 ? "" : `at ${path.join(".")}: `}${reason}`,
          rest: {}
        })),
        ...When.customs(when)
          .filter((name) => !known.has(name))
          .map(unknown)
      ].map(({ code, problem, rest }): PlanProblem => ({
        code,
        step: step.name,
        index,
        slot: `routes[${position}]`,
        reason: `Step ${Names.quote(step.name)}, the route to ${Names.quote(to)}: ${problem}`,
        ...rest
      }))
    )
  )
}

/** Names that a step of the native wire cannot have, but those that the structural rules tell for every version. */
const invalidNames = (steps: ReadonlyArray<Any>): ReadonlyArray<PlanProblem> =>
  steps.flatMap(({ name }, index): ReadonlyArray<PlanProblem> => {
    const inherited = Names.inherited.has(name)
    if (fault(name) !== undefined || (isIdentifier(name) && !inherited)) return []
    const expected = inherited ? "a name that objects do not have by themselves" : identifierRule
    return [
      {
        code: "InvalidName",
        step: name,
        index,
        slot: "name",
        reason: `Step ${Names.quote(name)} (#${index}), name: expected ${expected}, found ${Names.quote(name)}. Give the step another name.`
      }
    ]
  })

/** Targets of one name that are not the same: whoever reads the definition could not tell which one is meant. */
const sharedNames = (steps: ReadonlyArray<Any>): ReadonlyArray<PlanProblem> => {
  const first = new Map<string, Any>()
  return steps.flatMap((step, index): ReadonlyArray<PlanProblem> => {
    const { definition, source, target } = step.parts
    if (target._tag === "Tool") return []
    const before = first.get(definition.target.name)
    if (before === undefined) {
      first.set(definition.target.name, step)
      return []
    }
    if (before.parts.source === source) return []
    const name = Names.quote(definition.target.name)
    return [
      {
        code: "SharedTargetName",
        step: step.name,
        index,
        slot: "target",
        reason: `Step ${Names.quote(step.name)}: expected one target of the name ${name}, found the ${definition.target.kind} of this step and another ${before.parts.definition.target.kind} in step ${Names.quote(before.name)}. Use one value in both steps, or give them two names: Target.make("another_name", ...).`
      }
    ]
  })
}

/** The body of `Plan.make`. */
export const make = Effect.fnUntraced(function* (...parts: Parts): Effect.fn.Return<Plan<never, never>, PlanInvalid> {
  const all: ReadonlyArray<Any | Options> = parts
  const [first] = all
  const options: Options = first === undefined || isStep(first) ? {} : first
  const written = all.filter(isStep)
  const lives = yield* Effect.forEach(written, (step, index) => stepLive.live(step.parts, index))
  const output = yield* stepLive.exportSchema(options.output, { slot: "output" })
  const exported = Result.getOrElse(output, () => undefined)
  const steps = lives.map(({ step }) => step)
  const definition: PlanDefinition = {
    name: options.name ?? defaultName,
    ...(options.description === undefined ? {} : { description: options.description }),
    maxIterations: options.maxIterations ?? defaultMaxIterations,
    ...(exported === undefined ? {} : { output: exported.ref }),
    steps: steps.map((step) => step.definition)
  }
  const predicates = new Map(
    Object.entries(options.predicates ?? {}).map(([name, predicate]) => [name, livePredicate(name, predicate)])
  )
  const live = yield* internal.checked({ definition, steps, predicates, output: exported?.schema }, [
    ...(Result.isFailure(output) ? [output.failure] : []),
    ...invalidNames(written),
    ...lives.flatMap(({ problems }) => problems),
    ...sharedNames(written),
    ...(yield* answers.check(steps, (target) => (target._tag === "Agent" ? target.source : undefined))),
    ...conditions(definition, new Set(predicates.keys()))
  ])
  return internal.fromLive(live)
})
