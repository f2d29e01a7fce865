/** A plan with the code that its names stand for. Code lives here and never in a definition. */
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { Agent } from "../../agent/Agent.ts"
import type { ToolSet } from "../../tool/ToolSet.ts"
import type { PlanDefinition, StepDefinition } from "../PlanDefinition.ts"
import type { AgentTarget, FunctionTarget } from "../Target.ts"

/** A schema of a step: a live one, or the JSON Schema of a wire as a codec. Both give JSON when they encode. */
export type StepSchema = Schema.Codec<unknown, Schema.Json>

/** What a name in a definition stands for. The requirements are part of the plan's type. */
export type LiveTarget =
  | { readonly _tag: "Tool"; readonly name: string }
  | { readonly _tag: "Function"; readonly target: FunctionTarget }
  | {
      readonly _tag: "Agent"
      readonly name: string
      readonly agent: Effect.Effect<Agent<unknown>>
      /** What it was written as: an agent, its key, or an Effect that finds one. */
      readonly source: AgentTarget<unknown>
    }

/** A predicate of the registry. */
export type LivePredicate = (input: PredicateInput) => Effect.Effect<boolean, unknown>

export interface PredicateInput {
  readonly step: string
  readonly payload: Schema.Json
  readonly text: string
}

export interface LiveStep {
  readonly definition: StepDefinition
  readonly target: LiveTarget
  readonly input: StepSchema | undefined
  readonly output: StepSchema | undefined
}

/** A plan whose structure was checked. */
export interface LivePlan {
  readonly definition: PlanDefinition
  readonly digest: string
  readonly steps: ReadonlyArray<LiveStep>
  /** Positions of steps by name. */
  readonly positions: ReadonlyMap<string, number>
  readonly predicates: ReadonlyMap<string, LivePredicate>
  readonly output: StepSchema | undefined
}

/**
 * How a tool takes a step's input: the payload as its whole arguments (with the text of the context in
 * the parameter `context`, if that is not undefined), or the parameters that take task and context.
 */
export type ToolArguments =
  | { readonly _tag: "Payload"; readonly context: string | undefined }
  | { readonly _tag: "Text"; readonly task: string; readonly context: string | undefined }

/** A tool a step runs. */
export interface BoundToolTarget {
  readonly _tag: "Tool"
  readonly name: string
  readonly arguments: ToolArguments
}

export type BoundTarget = BoundToolTarget | Exclude<LiveTarget, { readonly _tag: "Tool" }>

/** What an agent that the plan is bound with remembers. */
export interface LiveMemory {
  readonly text: Effect.Effect<string, unknown> | undefined
  readonly output: Effect.Effect<Schema.Json | undefined, unknown> | undefined
  readonly save: ((output: Schema.Json) => Effect.Effect<void, unknown>) | undefined
}

/** A plan whose tool rules were checked, too: it can run. `targets` are in the order of the steps. */
export interface BoundPlan extends LivePlan {
  readonly targets: ReadonlyArray<BoundTarget>
  readonly tools: ToolSet
  readonly memories: ReadonlyMap<string, LiveMemory>
}
