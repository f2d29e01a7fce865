/**
 * The error of a plan that cannot run as it is, with all its problems.
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"
import * as paths from "../payload/internal/paths.ts"
import * as planNames from "./internal/planNames.ts"

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
 * - `WritesCollision`: two steps of one parallel group write the same key.
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
 * Of plans that can run, told by `Plan.warnings`:
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

/** How many problems the message spells out: a plan from outside can have any number. */
const maxShown = 50

/**
 * All problems of a plan.
 *
 * **Details**
 *
 * Problems of the plan as a whole come first, then those of its steps in declared
 * order. The message is the reasons of the first 50; programs read `problems`.
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
    return `Plan ${paths.quote(this.plan)}: expected a plan that can run, found ${length === 1 ? "a problem" : `${length} problems`}:\n${[...lines, ...rest].join("\n")}`
  }
}

/** How many entries a message spells out. */
const maxEntriesShown = 20

const entryLine = ({ available, expected, path, problem, registry, step, suggestion }: RegistryEntry): string => {
  const where = step === undefined ? path : `${path} (step ${paths.quote(step)})`
  const has = available.length === 0 ? `no ${registry} were given` : `given are ${planNames.listNames(available)}`
  const hint = suggestion === undefined ? "" : `; did you mean ${paths.quote(suggestion)}?`
  return `- ${where}: expected ${expected}, found ${problem}; ${has}${hint}`
}

const registryMessage = (plan: string, entries: ReadonlyArray<RegistryEntry>): string => {
  const lines = entries.slice(0, maxEntriesShown).map(entryLine)
  const rest = entries.length > maxEntriesShown ? [`- and ${entries.length - maxEntriesShown} more`] : []
  return [
    `Plan ${paths.quote(plan)}: expected a registry with everything the plan names, found ${entries.length === 1 ? "one name" : `${entries.length} names`} it cannot use:`,
    ...lines,
    ...rest
  ].join("\n")
}

/**
 * One name that cannot be used.
 *
 * **Details**
 *
 * - `registry` and `name`: where it was looked up, and as what.
 * - `step` and `path`: the step that needs it (absent for the plan as a whole), and the
 *   JSON Pointer of the place that names it.
 * - `expected` says what it should be, `problem` what is wrong.
 * - `available`: the names which that registry does have, `suggestion` the closest.
 *
 * | code | problem |
 * |---|---|
 * | `Missing` | there is no entry of that name |
 * | `WrongKind` | the entry is of another kind, such as a function where an agent is named |
 * | `Different` | the schema of the entry does not say what the schema on the wire says |
 * | `Ambiguous` | there are two entries for it |
 * | `Unusable` | the entry can never do what is asked, such as a schema without JSON Schema |
 *
 * @category models
 * @since 0.1.0
 */
export const RegistryEntry = Schema.Struct({
  code: Schema.Literals(["Missing", "WrongKind", "Different", "Ambiguous", "Unusable"]),
  registry: Schema.Literals(["targets", "predicates", "schemas"]),
  name: Schema.String,
  step: Schema.optionalKey(Schema.String),
  path: Schema.String,
  expected: Schema.String,
  problem: Schema.String,
  available: Schema.Array(Schema.String),
  suggestion: Schema.optionalKey(Schema.String)
})

/**
 * One name that cannot be used.
 *
 * @category models
 * @since 0.1.0
 */
export type RegistryEntry = typeof RegistryEntry.Type

/**
 * A plan names functions, agents, predicates or schemas that its registry does not
 * have, or has as something else. All of them are here: targets and schemas in the
 * order of the steps, then predicates.
 *
 * **Example** (What is missing)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Plan, Step } from "effect-emissary/plan"
 *
 * const wire = { steps: [{ name: "s", target: { kind: "callable", name: "fetsh" } }] }
 * const fetch = Step.target("fetch", () => Effect.succeed("found"))
 * const error = Effect.runSync(Effect.flip(Plan.decode(wire, { targets: { fetch } })))
 *
 * assert.ok(error._tag === "RegistryIncomplete")
 * const [entry] = error.entries
 * assert.deepStrictEqual([entry.code, entry.registry, entry.suggestion], ["Missing", "targets", "fetch"])
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class RegistryIncomplete extends Schema.TaggedError<RegistryIncomplete>(
  "effect-emissary/plan/RegistryIncomplete"
)("RegistryIncomplete", { plan: Schema.String, entries: Schema.NonEmptyArray(RegistryEntry) }) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return registryMessage(this.plan, this.entries)
  }
}
