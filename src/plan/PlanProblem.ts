/**
 * One thing that is wrong with a plan.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * What kind of problem it is, for programs.
 *
 * **Details**
 *
 * Of the structure, found when a plan is made or decoded:
 *
 * - `DuplicateNames`: two steps have one name.
 * - `InvalidName`: a name of a step, or of what it writes, is empty, too long, or holds
 *   control characters.
 * - `InvalidLimit`: `maxIterations` is no whole number of the allowed range.
 * - `UnknownStep`: a reference, a route or a rejoin names a step that is not there.
 * - `SameBand`: a reference reads a member of the band that its own step is in.
 * - `NotEarlier`: a reference reads its own step or a later one.
 * - `NotParallel`, `NotFirstOfBand`: `fromParallelAll` names no member of a band, or
 *   not the first one.
 * - `IncompatibleTypes`: what a step reads can never fit its input, or what its agent
 *   answers never its output.
 * - `RoutesAndRoutesBy`: a step has both.
 * - `RouteToParallel`: a route goes to a member of a band.
 * - `InvalidRoutesBy`: the field of the output cannot name a step.
 * - `RejoinWithoutRoutes`, `RejoinNotLater`, `RejoinIntoBand`, `RejoinBeforeRoute`: a
 *   rejoin without routes, not after its step, into the middle of a band, or not after
 *   one of the routes' targets.
 * - `UnreachableStep`: no run gets to the step.
 * - `WritesCollision`: one pass through the plan can write a key twice.
 *
 * Of steps written as code, found when a plan is made:
 *
 * - `InvalidTarget`: the target is nothing that can run, which only code without types
 *   can bring about. Also of an agent that a plan is bound with.
 * - `InvalidDuration`, `InvalidRetry`: a time or a retry that cannot be.
 * - `SchemaNotRepresentable`: a schema that JSON Schema cannot tell.
 * - `SharedTargetName`: two targets have one name.
 * - `InvalidCondition`: the condition of a route, see `When.problems`.
 * - `UnknownPredicate`: a route names a predicate that the plan is not given.
 * - `NotJson`: something in the plan is no JSON, such as a number that is not finite.
 *
 * Of what a plan is bound with:
 *
 * - `UnknownTool`, `UnknownAgent`: nothing of that name is there.
 * - `AmbiguousTarget`: a tool and an agent have the name.
 * - `ProviderTool`: the tool runs at the provider of a model, and nowhere else.
 * - `ToolArguments`: no parameter of the tool takes what the step gives it.
 * - `ContextNotTaken`: the step has context, and its tool has no place for it.
 * - `NotAnAgent`, `NoMemory`, `NoStore`: what a reference reads is no agent, has no
 *   memory, or keeps no answers.
 *
 * Of plans that can run, told by `PlanCheck.warnings`:
 *
 * - `RoutingIgnored`: a member of a band has routes or a rejoin, which nobody follows.
 *
 * @category models
 * @since 0.1.0
 */
export const Code = Schema.Literals([
  "DuplicateNames",
  "InvalidName",
  "InvalidLimit",
  "UnknownStep",
  "SameBand",
  "NotEarlier",
  "NotParallel",
  "NotFirstOfBand",
  "IncompatibleTypes",
  "RoutesAndRoutesBy",
  "RouteToParallel",
  "InvalidRoutesBy",
  "RejoinWithoutRoutes",
  "RejoinNotLater",
  "RejoinIntoBand",
  "RejoinBeforeRoute",
  "UnreachableStep",
  "WritesCollision",
  "InvalidTarget",
  "InvalidDuration",
  "InvalidRetry",
  "SchemaNotRepresentable",
  "SharedTargetName",
  "InvalidCondition",
  "UnknownPredicate",
  "NotJson",
  "UnknownTool",
  "UnknownAgent",
  "AmbiguousTarget",
  "ProviderTool",
  "ToolArguments",
  "ContextNotTaken",
  "NotAnAgent",
  "NoMemory",
  "NoStore",
  "RoutingIgnored"
])

/**
 * What kind of problem it is, for programs.
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
 * - `reason`: a sentence for people, with all of that and with what to do.
 * - `known`: the names there are, sorted, where the problem is an unknown name; the first
 *   100 of them.
 * - `suggestion`: the known name that is closest to the unknown one, if any is close.
 *
 * @category models
 * @since 0.1.0
 */
export const PlanProblem = Schema.Struct({
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
export type PlanProblem = typeof PlanProblem.Type
