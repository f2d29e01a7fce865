/** Plans with what their names stand for. */
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Agent } from "../../agent/Agent.ts"
import * as Names from "../../payload/Names.ts"
import * as BoundTool from "../../tool/BoundTool.ts"
import type { ToolContractError } from "../../tool/ToolContract.ts"
import * as ToolSet from "../../tool/ToolSet.ts"
import type { AgentMemory } from "../AgentMemory.ts"
import type { Bound, Plan } from "../Plan.ts"
import type { BindOptions } from "../PlanConfig.ts"
import * as PlanCheck from "../PlanCheck.ts"
import type { PlanInvalid } from "../PlanInvalid.ts"
import type { PlanProblem } from "../PlanProblem.ts"
import type { AgentTarget } from "../Target.ts"
import * as answers from "./step/answers.ts"
import { asAgent } from "./asAgent/asAgent.ts"
import type { BoundPlan, BoundTarget, LiveMemory, LiveStep } from "./live.ts"
import * as internal from "./plan.ts"
import { agentOf, foreignAgent } from "./step/target.ts"

/** The agent around a plan that can run. `A` and `R` are for the caller to know. */
export const makeBound = <A, R>(bound: BoundPlan): Bound<A, R> => ({
  // Sound: the answers of the plan are of its output schema, and what its code requires is `R`.
  ...(asAgent(bound) as Agent<A, R>),
  [internal.BoundTypeId]: internal.BoundTypeId,
  ...internal.inspecting("Plan.Bound", bound),
  definition: bound.definition,
  digest: bound.digest,
  live: bound
})

const liveMemory = (memory: AgentMemory<unknown>): LiveMemory =>
  // Sound: what a memory requires is in the type of the plan it is bound to.
  ({ text: memory.text, output: memory.output, save: memory.save }) as LiveMemory

/** What is given for an agent and is none. */
const foreignAgents = (agents: ReadonlyMap<string, unknown>): ReadonlyArray<PlanProblem> =>
  Array.from(agents).flatMap(([name, agent]): ReadonlyArray<PlanProblem> => {
    const found = foreignAgent(agent)
    if (found === undefined) return []
    const reason = `agents, ${Names.quote(name)}: expected an agent, its class, or a plan that is bound, found ${found}.`
    return [{ code: "InvalidTarget", slot: "agents", reason }]
  })

/** What a step runs; none where its name stands for nothing, which the check has told. */
const boundTarget = (
  { definition, target }: LiveStep,
  tools: ToolSet.ToolSet,
  agents: ReadonlyMap<string, AgentTarget<unknown>>
): Result.Result<BoundTarget, PlanProblem | undefined> => {
  if (target._tag !== "Tool") return Result.succeed(target)
  const agent = agents.get(target.name)
  if (agent !== undefined) {
    return Result.succeed({ _tag: "Agent", name: target.name, agent: agentOf(agent), source: agent })
  }
  const tool = tools.tools.get(target.name)
  return tool === undefined
    ? Result.fail(undefined)
    : Result.map(PlanCheck.toolArguments(tool, definition), (args) => ({
        _tag: "Tool",
        name: target.name,
        arguments: args
      }))
}

/** The body of `Plan.bind`. */
export const bind = Effect.fnUntraced(function* <A, R, RBound, Tools extends Record<string, Tool.Any>>(
  plan: Plan<A, R>,
  options: BindOptions<Tools, Record<string, AgentTarget<unknown>>, Record<string, AgentMemory<unknown>>>
): Effect.fn.Return<
  Bound<A, R | RBound>,
  PlanInvalid | ToolContractError | ToolSet.ToolNameError,
  Tool.HandlersFor<Tools> | Tool.HandlerServices<Tools[keyof Tools]>
> {
  const live = internal.liveOf(plan)
  const fromToolkit = options.toolkit === undefined ? [] : yield* BoundTool.fromToolkit(options.toolkit)
  const tools = yield* ToolSet.make([...fromToolkit, ...(options.tools ?? [])])
  const agents = new Map(Object.entries(options.agents ?? {}))
  const memories = new Map(Object.entries(options.memories ?? {}).map(([name, memory]) => [name, liveMemory(memory)]))
  const problems = PlanCheck.binding(live.definition, {
    tools: tools.tools,
    agents: new Set(agents.keys()),
    memories: new Map(
      Array.from(memories, ([name, { output, text }]) => [
        name,
        { text: text !== undefined, output: output !== undefined }
      ])
    )
  })
  yield* internal.refuse(live.definition.name, [
    ...foreignAgents(agents),
    ...problems,
    ...(yield* answers.check(live.steps, (target) =>
      target._tag === "Agent" ? target.source : target._tag === "Tool" ? agents.get(target.name) : undefined
    ))
  ])
  const targets: Array<BoundTarget> = []
  for (const step of live.steps) {
    const target = boundTarget(step, tools, agents)
    if (Result.isSuccess(target)) targets.push(target.success)
    else if (target.failure !== undefined) yield* internal.refuse(live.definition.name, [target.failure])
    else return yield* Effect.die(`the check let a step pass whose target is not there: ${step.definition.name}`)
  }
  return makeBound<A, R | RBound>({ ...live, targets, tools, memories })
})
