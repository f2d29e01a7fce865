/** One batch: the calls of an answer, checked, approved where needed, and run. */

import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../conversation/Conversation.ts"
import type { ToolCallPart } from "../../conversation/Message.ts"
import * as RunContext from "../../tool/RunContext.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as boundCall from "../../tool/internal/boundCall.ts"
import type { BoundTool } from "../../tool/internal/boundTool.ts"
import * as toolBatch from "../../tool/internal/toolBatch.ts"
import type { AgentError } from "../AgentError.ts"
import * as Run from "../Run.ts"
import type { Resolved } from "./agentBlueprint.ts"
import * as agentTypes from "./agentTypes.ts"
import * as driver from "./driver.ts"
import type * as runOptions from "./runOptions.ts"
import * as runParts from "./runParts.ts"

interface Batch {
  readonly resolved: Resolved<unknown>
  readonly recorder: driver.AgentRecorder
  readonly options: runOptions.ResumeOptions
  readonly deadline: number | undefined
  readonly environment: driver.Environment
  readonly streaming: boolean
}

/**
 * By how many milliseconds a call may outlast the run that waits for it: the run stops
 * first, so that a call it cuts off is `interrupted`, and no timeout of the tool's own.
 */
const grace = 1000

/** What becomes of one call before anything runs. */
type PreparedCall =
  | { readonly _tag: "Run"; readonly call: boundCall.BoundCall; readonly runnable: Run.RunnableCall }
  | { readonly _tag: "Fail"; readonly runnable: Run.RunnableCall; readonly failure: ToolResult.Failure }
  | { readonly _tag: "Ask"; readonly runnable: Run.RunnableCall }

/** The conversation for an approval policy that looks at it; most do not. */
type Messages = () => ReadonlyArray<Prompt.Message>

const messagesOf = ({ recorder }: Pick<Batch, "recorder">): Messages => {
  const { conversation } = recorder.state()
  return () => Conversation.toPrompt(conversation).content
}

const callRequest = (part: ToolCallPart): boundCall.CallRequest => ({
  id: part.id,
  name: part.name,
  arguments: part.text ?? part.arguments
})

const checkApproval = (
  batch: Batch,
  tool: BoundTool,
  call: boundCall.BoundCall,
  runnable: Run.RunnableCall,
  messages: Messages
): Effect.Effect<PreparedCall> => {
  const run: PreparedCall = { _tag: "Run", call, runnable }
  if (runnable.approved || runnable.started) return Effect.succeed(run)
  const context = {
    callId: call.id,
    context: batch.recorder.state().context,
    get messages() {
      return messages()
    }
  }
  return Effect.match(tool.needsApproval(call.arguments, context), {
    onFailure: (failure): PreparedCall => ({ _tag: "Fail", runnable, failure }),
    onSuccess: (needed): PreparedCall => (needed ? { _tag: "Ask", runnable } : run)
  })
}

const prepareCall = Effect.fnUntraced(function* (
  batch: Batch,
  runnable: Run.RunnableCall,
  messages: Messages
): Effect.fn.Return<PreparedCall> {
  const { recorder, resolved } = batch
  const { part } = runnable
  const state = recorder.state()
  const prepared = yield* boundCall.prepare(resolved.tools, callRequest(part), {
    runId: state.runId,
    context: state.context,
    timeout: batch.options.timeouts?.tool,
    deadline: batch.deadline === undefined ? undefined : batch.deadline + grace,
    progress: (result) => recorder.emit({ _tag: "ToolProgress", callId: part.id, name: part.name, result })
  })
  if (Result.isFailure(prepared)) return { _tag: "Fail", runnable, failure: prepared.failure }
  const tool = resolved.tools.tools.get(part.name)
  if (tool === undefined) return { _tag: "Run", call: prepared.success, runnable }
  return yield* checkApproval(batch, tool, prepared.success, runnable, messages)
})

/** Calls of agents run through the driver, so that their events and approvals are this run's. */
const withChildren = (
  batch: Batch,
  prepared: Extract<PreparedCall, { readonly _tag: "Run" }>,
  suspended: Set<string>,
  fatal: Array<AgentError>
): boundCall.BoundCall => {
  const { call, runnable } = prepared
  const tool = batch.resolved.tools.tools.get(call.contract.name)
  const agent = tool === undefined ? Option.none() : agentTypes.agentOf(tool.tool)
  if (Option.isNone(agent)) return call
  const execute = runChild(agent.value.agent, {
    call,
    child: runnable.child,
    recorder: batch.recorder,
    environment: batch.environment,
    streaming: batch.streaming,
    limits: batch.options,
    onSuspend: () => suspended.add(call.id),
    onFatal: (error) => fatal.push(error)
  })
  return { ...call, timeout: Duration.infinity, execute: Option.some(execute) }
}

/** Runs the calls of one answer and records what becomes of each. */
export const runTools = Effect.fnUntraced(function* (batch: Batch, action: Run.ActionOf<"RunTools">) {
  const { recorder } = batch
  for (const settled of action.settled) {
    yield* recorder.record(yield* driver.toolFinishedEvent(settled))
  }
  if (recorder.stopping()) return
  const messages = messagesOf(batch)
  const prepared = yield* Effect.forEach(action.calls, (call) => prepareCall(batch, call, messages))
  const ready: Array<Extract<PreparedCall, { readonly _tag: "Run" }>> = []
  for (const one of prepared) {
    if (one._tag === "Run") {
      ready.push(one)
    } else if (one._tag === "Ask") {
      yield* recorder.record({ _tag: "ApprovalRequested", at: yield* DateTime.now, callId: one.runnable.part.id })
    } else {
      const { id, name } = one.runnable.part
      yield* recorder.record(yield* driver.toolFinishedEvent({ callId: id, name, result: one.failure }))
    }
    if (recorder.stopping()) return
  }
  if (ready.length > 0) yield* executeBatch(batch, ready)
})

/**
 * Asks for the approvals that calls of a conversation need, before decisions about
 * them are taken: a decision counts only for a call whose tool demands one.
 */
export const requestApprovals = Effect.fnUntraced(function* (batch: Batch, callIds: ReadonlySet<string>) {
  const { recorder } = batch
  const action = Run.next(recorder.state())
  if (action._tag !== "RunTools") return
  const messages = messagesOf(batch)
  for (const runnable of action.calls) {
    const callId = runnable.part.id
    if (!callIds.has(callId)) continue
    const prepared = yield* prepareCall(batch, runnable, messages)
    if (prepared._tag === "Ask") {
      yield* recorder.record({ _tag: "ApprovalRequested", at: yield* DateTime.now, callId })
    }
  }
})

const executeBatch = Effect.fnUntraced(function* (
  batch: Batch,
  ready: ReadonlyArray<Extract<PreparedCall, { readonly _tag: "Run" }>>
) {
  const { recorder } = batch
  const suspended = new Set<string>()
  const fatal: Array<AgentError> = []
  const started = new Set<string>()
  const resumed = new Set(ready.filter((one) => one.runnable.started).map((one) => one.call.id))
  const names = new Map(ready.map((one) => [one.call.id, one.runnable.part.name]))

  // Stopped by a sibling's result: nothing more may begin until the batch is interrupted.
  const waitToBeInterrupted = Effect.interruptible(Effect.never)

  const onStarted = (callId: string) =>
    Effect.gen(function* () {
      if (recorder.stopping()) return yield* waitToBeInterrupted
      started.add(callId)
      if (resumed.has(callId)) return
      yield* recorder.record({ _tag: "ToolStarted", at: yield* DateTime.now, callId })
    })

  yield* toolBatch
    .run(
      ready.map((one) => withChildren(batch, one, suspended, fatal)),
      {
        defects: batch.options.defects,
        onStarted,
        onFinished: (callId, result, duration, cause) => {
          if (suspended.has(callId) || !started.has(callId)) return Effect.void
          const call = { callId, name: names.get(callId) ?? "", result }
          return Effect.flatMap(driver.toolFinishedEvent(call, duration, cause), recorder.record)
        }
      }
    )
    .pipe(Effect.provideService(driver.Environment, { ...batch.environment, parent: undefined }))
  const [error] = fatal
  if (error !== undefined) return yield* recorder.fail(error.reason)
})

interface ChildOptions {
  readonly call: boundCall.BoundCall
  readonly child: Run.State | undefined
  readonly recorder: driver.AgentRecorder
  readonly environment: driver.Environment
  readonly streaming: boolean
  /** The options of the outer run that hold for the child as well. */
  readonly limits: runOptions.ResumeOptions
  /** The child waits for decisions: the call stays open. */
  readonly onSuspend: () => void
  /** The child failed in a way that no model can do anything about. */
  readonly onFatal: (error: AgentError) => void
}

/** What the model of the outer agent is told about a run that gave no answer. */
const incompleteResult = (
  agent: string,
  result: Exclude<runOptions.Result<unknown>, { readonly outcome: "Completed" }>
) =>
  ToolResult.failure("execution_error", `The agent ${JSON.stringify(agent)} gave no answer: ${result.outcome}`, {
    outcome: result.outcome
  })

/** The tool result of a child's run. */
export const toToolResult = (agent: string, result: runOptions.Result<unknown>): ToolResult.ToolResult => {
  if (result.outcome !== "Completed") return incompleteResult(agent, result)
  const { outcome } = result.state
  const output = outcome?._tag === "Completed" ? outcome.output : undefined
  return ToolResult.success(output === undefined ? result.text : output)
}

/** What a model is told about a failure. What answers in place of a model says what it can use. */
const failureMessage = (agent: string, { message, reason }: AgentError): string =>
  reason._tag === "DelegateFailed"
    ? `The agent ${JSON.stringify(agent)} gave no answer: ${reason.problem ?? reason.error}`
    : message

/** The tool result of a child that failed: what it was, and nothing of what was said. */
const failureResult = (agent: string, error: AgentError): ToolResult.Failure =>
  ToolResult.failure("execution_error", failureMessage(agent, error), { reason: error.reason._tag })

const childInput = (call: Pick<boundCall.BoundCall, "arguments">): string => {
  const text = call.arguments["input"]
  return typeof text === "string" ? text : JSON.stringify(call.arguments)
}

const runChild = (
  agent: Effect.Effect<agentTypes.Agent<unknown>>,
  options: ChildOptions
): Effect.Effect<ToolResult.ToolResult> => Effect.flatMap(agent, (agent) => runChildAgent(agent, options))

const runChildAgent = (
  agent: agentTypes.Agent<unknown>,
  options: ChildOptions
): Effect.Effect<ToolResult.ToolResult> => {
  const { call, child, environment, recorder } = options
  const onState = (_: Run.State, event: Run.Event) =>
    recorder.record({ _tag: "ChildEvent", at: event.at, callId: call.id, event })
  const { defects, interruptWhen, modelMistakes, modelRetry, timeouts } = options.limits
  const inherited: runOptions.ResumeOptions = {
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
      ? agent.run(childInput(call), { ...inherited, context: call.context })
      : // It can have been cut off before it was told anything
        agent.resume(child, runParts.hasInput(child) ? inherited : { ...inherited, input: childInput(call) })
  return running.pipe(
    Effect.map((result) => {
      if (result.outcome === "AwaitingApproval") options.onSuspend()
      return toToolResult(agent.name, result)
    }),
    Effect.catch((error) => {
      if (error.reason._tag === "MaxDepth") options.onFatal(error)
      return Effect.succeed(failureResult(agent.name, error))
    }),
    Effect.provideService(RunContext.RunContext, call.context),
    Effect.provideService(driver.Environment, {
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
