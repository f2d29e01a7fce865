/**
 * Targets of steps: functions under a name, agents, and the names of tools and agents.
 */

import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import type * as Types from "effect/Types"
import * as Agent from "../../agent/Agent.ts"
import * as agentTypes from "../../agent/internal/agentTypes.ts"
import type { Verdict } from "../../run/internal/runRequests.ts"
import type { Content } from "../../tool/ToolResult.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"
import type { Problem } from "../PlanInvalid.ts"
import * as planNames from "./planNames.ts"
import * as stepSchema from "./stepSchema.ts"

/** The input of a function; `Step.Input` has the documentation. */
export interface Input<out P = Schema.Json> {
  readonly step: string
  readonly task: string
  readonly context: string | undefined
  readonly payload: P
  readonly content: ReadonlyArray<Content>
  readonly decision: Verdict | undefined
}

/** The schemas of a function: of its payload, and of its answer. */
export interface TargetOptions<out I extends stepSchema.StepSchema, out O extends stepSchema.StepSchema> {
  /**
   * The Schema of the payload; default: any JSON. A payload that does not fit fails the step with the type
   * `InputInvalid`.
   */
  readonly input?: I | undefined
  /**
   * The Schema of the answer; default: any JSON. An answer that does not fit fails the step with the type
   * `OutputInvalid`.
   */
  readonly output?: O | undefined
}

type AnyOptions = TargetOptions<stepSchema.StepSchema, stepSchema.StepSchema>

// The payload has the type that its own input schema decodes to.
type TargetCode = (input: Input<never>) => Effect.Effect<unknown, unknown, unknown>

/** A function under a name; `Step.FunctionTarget` has the documentation. */
export interface FunctionTarget<out R = never> {
  readonly [planNames.targetTypeId]: { readonly _R: Types.Covariant<R> }
  readonly name: string
  readonly input: Schema.Codec<unknown, Schema.Json> | undefined
  readonly output: Schema.Codec<unknown, Schema.Json> | undefined
  /** Takes what `input` decodes to and returns what `output` encodes. */
  readonly code: TargetCode
  /** @internal */
  readonly schemas: AnyOptions
}

/** An agent as the target of a step, or an Effect that finds one. */
export type AgentTarget<R = never, A = unknown> =
  | agentTypes.Agent<A, R, never>
  | Effect.Effect<agentTypes.Agent<A, never, never>, never, R>

/** The services that an agent requires, or the Effect that finds one. */
export type AgentServices<Target> =
  Target extends agentTypes.Agent<infer _A, infer R, never>
    ? R
    : Target extends Effect.Effect<infer _A, infer _E, infer R>
      ? R
      : never

/** The services of an Effect, or of a function that returns one. */
export type PartServices<Part> =
  Part extends Effect.Effect<infer _A, infer _E, infer R>
    ? R
    : Part extends (...args: infer _Args) => infer Out
      ? Out extends Effect.Effect<infer _A, infer _E, infer R>
        ? R
        : never
      : never

/** The target behind a name in a definition. Its requirements are part of the plan's type. */
export type LiveTarget =
  | { readonly _tag: "Tool"; readonly name: string }
  | { readonly _tag: "Function"; readonly target: FunctionTarget }
  | {
      readonly _tag: "Agent"
      readonly name: string
      readonly agent: Effect.Effect<agentTypes.Agent<unknown>>
      /** The value in the step: an agent, its key, or an Effect that finds one. */
      readonly source: AgentTarget<unknown>
    }

/** A step before its schemas are exported. */
export interface StepParts {
  /** Without `input` and `output`. */
  readonly definition: PlanDefinition.StepDefinition
  readonly target: LiveTarget
  /** The value in the step: it distinguishes two targets of one name. */
  readonly source: unknown
  readonly input: stepSchema.StepSchema | undefined
  readonly output: stepSchema.StepSchema | undefined
  /** Times and retries that cannot be used. */
  readonly problems: ReadonlyArray<Pick<Problem, "code" | "slot" | "reason">>
}

/** True for a function under a name. */
export const isFunctionTarget = (u: unknown): u is FunctionTarget<unknown> =>
  Predicate.hasProperty(u, planNames.targetTypeId)

/** A function under a name, with or without the schemas of its payload and its answer. */
export const makeTarget = (name: string, ...rest: readonly [TargetCode] | readonly [AnyOptions, TargetCode]) => {
  const [schemas, code] = rest.length === 1 ? [{}, rest[0]] : rest
  return {
    [planNames.targetTypeId]: { _R: (_: never) => _ },
    name,
    input: schemas.input && stepSchema.jsonCodec(schemas.input),
    output: schemas.output && stepSchema.jsonCodec(schemas.output),
    code,
    schemas
  }
}

/** Any value that can be the target of a step. */
export type TargetInput = string | AgentTarget<unknown> | FunctionTarget<unknown> | TargetCode

export const isTarget = (u: unknown): u is TargetInput =>
  typeof u === "string" || typeof u === "function" || isFunctionTarget(u) || Agent.isAgent(u) || Effect.isEffect(u)

/** An agent, or the agent that a key or an effect yields. */
export const agentOf = (agent: AgentTarget<unknown>): Effect.Effect<agentTypes.Agent<unknown>> =>
  // Sound: what the agent requires is in the type of the target, and so of every run of the plan.
  (Agent.isAgent(agent) ? Effect.succeed(agent) : agent) as Effect.Effect<agentTypes.Agent<unknown>>

export const resolveTarget = (step: string, written: TargetInput, options: AnyOptions): LiveTarget => {
  if (typeof written === "string") return { _tag: "Tool", name: written }
  // Sound: as for agents.
  if (isFunctionTarget(written)) return { _tag: "Function", target: written as FunctionTarget }
  if (Agent.isAgent(written) || Effect.isEffect(written)) {
    const name = Agent.isAgent(written) ? written.name : (agentTypes.nameOfService(written) ?? step)
    return { _tag: "Agent", name, agent: agentOf(written), source: written }
  }
  return { _tag: "Function", target: makeTarget(step, options, written) }
}
