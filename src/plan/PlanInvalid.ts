/**
 * The error of a plan that cannot run, with all its problems.
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import * as base from "../payload/internal/base.ts"
import * as planRules from "./internal/planRules.ts"

/**
 * The kind of a problem, for programs.
 *
 * **Details**
 *
 * Of the structure, found when a plan is made or decoded:
 *
 * - `DuplicateNames`: two steps have one name.
 * - `InvalidName`: a name of a step, or of what it writes, is empty, too long, or holds
 *   control characters.
 * - `InvalidLimit`: `maxIterations` is no whole number of the allowed range.
 * - `UnknownStep`: a reference, a route or a rejoin names a step that does not exist.
 * - `SameBand`: a reference reads a member of its own parallel group.
 * - `NotEarlier`: a reference reads its own step or a later one.
 * - `NotParallel`, `NotFirstOfBand`: `fromParallelAll` names no member of a parallel group,
 *   or not the first one.
 * - `IncompatibleTypes`: the data that a step reads can never fit its input, or the
 *   answer of its agent never its output.
 * - `RoutesAndRoutesBy`: a step has both.
 * - `RouteToParallel`: a route goes to a member of a parallel group.
 * - `InvalidRoutesBy`: the field of the output cannot name a step.
 * - `RejoinWithoutRoutes`, `RejoinNotLater`, `RejoinIntoBand`, `RejoinBeforeRoute`: a
 *   rejoin without routes, not after its step, into the middle of a parallel group, or
 *   not after one of the routes' targets.
 * - `UnreachableStep`: no run gets to the step.
 * - `WritesCollision`: two steps of one parallel group write the same key.
 *
 * Of steps written as code, found when a plan is made:
 *
 * - `InvalidOption`: an option, or an argument of `Plan.make`, of another type than it has in TypeScript.
 * - `InvalidDuration`, `InvalidRetry`: a time or a retry that cannot be.
 * - `SchemaNotRepresentable`: a schema that JSON Schema cannot express.
 * - `SharedTargetName`: two targets have one name.
 * - `InvalidCondition`: the condition of a route, see the schema `When`.
 * - `UnknownPredicate`: a route names a predicate that the plan is not given.
 * - `NotJson`: a value in the plan is not JSON, such as a number that is not finite.
 *
 * Of what a plan is bound with:
 *
 * - `UnknownTool`, `UnknownAgent`: the plan is bound with nothing of that name.
 * - `AmbiguousTarget`: a tool and an agent have the name.
 * - `ProviderTool`: the tool runs at the provider of a model, and nowhere else.
 * - `ToolArguments`: no parameter of the tool takes the input of the step.
 * - `ContextNotTaken`: the step has context, and its tool has no place for it.
 * - `NotAnAgent`, `NoMemory`, `NoStore`: a reference names no agent, an agent without a memory, or an agent that keeps
 *   no answers.
 *
 * Of the registry that a plan is decoded with:
 *
 * - `MissingEntry`: there is no entry of that name.
 * - `WrongEntry`: the entry is of another kind, such as a function where an agent is
 *   named.
 * - `DifferentSchema`: the schema of the entry differs from the schema of the plan.
 * - `AmbiguousEntry`: there are two entries for the name.
 * - `UnusableEntry`: the entry cannot be used, such as a schema without JSON Schema.
 *
 * Of plans that can run, reported by `Plan.warnings`:
 *
 * - `RoutingIgnored`: a member of a parallel group has routes or a rejoin, which are not followed.
 *
 * @category models
 * @since 0.1.0
 */
export const Code = Schema.Literals(Struct.keys(planRules.rules))

/**
 * The kind of a problem, for programs.
 *
 * @category models
 * @since 0.1.0
 */
export type Code = typeof Code.Type

/**
 * One problem.
 *
 * **Details**
 *
 * - `step`, `index`: the step and its position, from 0; both absent for the plan as a
 *   whole.
 * - `slot`: the part of the step: `name`, `target`, `task`, `context[1]`, `input`,
 *   `writes`, `routes`, `routesBy`, `afterBranches`; of the plan, `maxIterations`.
 *   These are the names in TypeScript, also for a plan from JSON, where `routesBy` is `routes_by`.
 * - `reason`: one sentence with all of that, and with a fix.
 * - `known`: the names there are, sorted, where the problem is an unknown name; the first
 *   100 of them.
 * - `suggestion`: the known name that is closest to the unknown one, if any is close.
 *
 * @category models
 * @since 0.1.0
 */
export const Problem = Schema.Struct({
  code: Code,
  step: Schema.optionalKey(Schema.String),
  index: Schema.optionalKey(Schema.Int),
  slot: Schema.optionalKey(Schema.String),
  reason: Schema.String,
  known: Schema.optionalKey(Schema.Array(Schema.String)),
  suggestion: Schema.optionalKey(Schema.String)
})

/**
 * One problem.
 *
 * @category models
 * @since 0.1.0
 */
export type Problem = typeof Problem.Type

/** A plan from outside can have any number of problems. */
const maxShown = 50

/**
 * All problems of a plan.
 *
 * **Details**
 *
 * Problems of the plan as a whole come first, then problems of its steps in declared order. The message is the reasons
 * of the first 50 problems; programs read `problems`.
 *
 * @category errors
 * @since 0.1.0
 */
export class PlanInvalid extends Schema.TaggedError<PlanInvalid>("effect-emissary/plan/PlanInvalid")("PlanInvalid", {
  plan: Schema.String,
  problems: Schema.NonEmptyArray(Problem)
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const { length } = this.problems
    const lines = this.problems.slice(0, maxShown).map(({ reason }) => `- ${reason}`)
    const rest = length > maxShown ? [`- and ${length - maxShown} more`] : []
    return `Plan ${base.quote(this.plan)}: expected a plan that can run, found ${length === 1 ? "a problem" : `${length} problems`}:\n${[...lines, ...rest].join("\n")}`
  }
}
