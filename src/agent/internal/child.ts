/** An agent run as a tool call of another agent's run. */
import * as Effect from "effect/Effect"
import type { BoundCall } from "../../tool/BoundCall.ts"
import { RunContext } from "../../tool/RunContext.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type { Agent } from "../Agent.ts"
import type { AgentError } from "../AgentError.ts"
import type { RunEvent } from "../RunEvent.ts"
import type { ResumeOptions } from "../RunOptions.ts"
import type { RunResult } from "../RunResult.ts"
import { hasInput, type RunState } from "../RunState.ts"
import { Environment } from "./environment.ts"
import type { Recorder } from "./recorder.ts"

interface Options {
  readonly call: BoundCall
  readonly child: RunState | undefined
  readonly recorder: Recorder
  readonly environment: Environment
  readonly streaming: boolean
  /** The options of the outer run that hold for the child as well. */
  readonly limits: ResumeOptions
  /** The child waits for decisions: the call stays open. */
  readonly onSuspend: () => void
  /** The child failed in a way that no model can do anything about. */
  readonly onFatal: (error: AgentError) => void
}

/** What the model of the outer agent is told about a run that gave no answer. */
const incomplete = (agent: string, result: Exclude<RunResult<unknown>, { readonly outcome: "Completed" }>) =>
  ToolResult.failure("execution_error", `The agent ${JSON.stringify(agent)} gave no answer: ${result.outcome}`, {
    outcome: result.outcome
  })

/** The tool result of a child's run. */
export const toToolResult = (agent: string, result: RunResult<unknown>): ToolResult.ToolResult => {
  if (result.outcome !== "Completed") return incomplete(agent, result)
  const { outcome } = result.state
  const output = outcome?._tag === "Completed" ? outcome.output : undefined
  return ToolResult.success(output === undefined ? result.text : output)
}

/** What a model is told about a failure. What answers in place of a model says what it can use. */
const messageOf = (agent: string, { message, reason }: AgentError): string =>
  reason._tag === "DelegateFailed"
    ? `The agent ${JSON.stringify(agent)} gave no answer: ${reason.problem ?? reason.error}`
    : message

/** The tool result of a child that failed: what it was, and nothing of what was said. */
const failureResult = (agent: string, error: AgentError): ToolResult.Failure =>
  ToolResult.failure("execution_error", messageOf(agent, error), { reason: error.reason._tag })

const input = (call: Pick<BoundCall, "arguments">): string => {
  const text = call.arguments["input"]
  return typeof text === "string" ? text : JSON.stringify(call.arguments)
}

export const run = (agent: Effect.Effect<Agent<unknown>>, options: Options): Effect.Effect<ToolResult.ToolResult> =>
  Effect.flatMap(agent, (agent) => runAgent(agent, options))

const runAgent = (agent: Agent<unknown>, options: Options): Effect.Effect<ToolResult.ToolResult> => {
  const { call, child, environment, recorder } = options
  const onState = (_: RunState, event: RunEvent) =>
    recorder.recordNow({ _tag: "ChildEvent", at: event.at, callId: call.id, event })
  const { defects, interruptWhen, modelMistakes, modelRetry, timeouts } = options.limits
  const inherited: ResumeOptions = {
    onState,
    // Stops with its parent, before it starts anything else.
    interruptWhen: interruptWhen === undefined ? undefined : () => recorder.interruption(),
    defects,
    modelMistakes,
    modelRetry,
    timeouts: { tool: timeouts?.tool }
  }
  const running =
    child === undefined
      ? agent.run(input(call), { ...inherited, context: call.context })
      : // It can have been cut off before it was told anything
        agent.resume(child, hasInput(child) ? inherited : { ...inherited, input: input(call) })
  return running.pipe(
    Effect.map((result) => {
      if (result.outcome === "AwaitingApproval") options.onSuspend()
      return toToolResult(agent.name, result)
    }),
    Effect.catch((error) => {
      if (error.reason._tag === "MaxDepth") options.onFatal(error)
      return Effect.succeed(failureResult(agent.name, error))
    }),
    Effect.provideService(RunContext, call.context),
    Effect.provideService(Environment, {
      ...environment,
      parent: {
        streaming: options.streaming,
        emit: (event) =>
          Effect.suspend(() =>
            recorder.emit({ _tag: "Child", callId: call.id, name: call.contract.name, event, state: recorder.state() })
          )
      }
    })
  )
}
