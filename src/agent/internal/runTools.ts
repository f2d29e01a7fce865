/** One batch: the calls of an answer, checked, approved where needed, and run. */
import type * as Prompt from "effect/ai/Prompt"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Conversation from "../../conversation/Conversation.ts"
import type { ToolCallPart } from "../../conversation/Part.ts"
import * as BoundCall from "../../tool/BoundCall.ts"
import type { BoundTool } from "../../tool/BoundTool.ts"
import * as ToolBatch from "../../tool/ToolBatch.ts"
import type { Failure } from "../../tool/ToolResult.ts"
import type { RunnableCall, RunTools } from "../RunAction.ts"
import type { AgentError } from "../AgentError.ts"
import type { ResumeOptions } from "../RunOptions.ts"
import * as RunTransition from "../RunTransition.ts"
import { agentOf } from "./agentTool.ts"
import type { Resolved } from "./blueprint.ts"
import * as Child from "./child.ts"
import { Environment } from "./environment.ts"
import * as Recorder from "./recorder.ts"

interface Batch {
  readonly resolved: Resolved<unknown>
  readonly recorder: Recorder.Recorder
  readonly options: ResumeOptions
  readonly deadline: number | undefined
  readonly environment: Environment
  readonly streaming: boolean
}

/**
 * By how many milliseconds a call may outlast the run that waits for it: the run stops
 * first, so that a call it cuts off is `interrupted`, and no timeout of the tool's own.
 */
const grace = 1000

/** What becomes of one call before anything runs. */
type Prepared =
  | { readonly _tag: "Run"; readonly call: BoundCall.BoundCall; readonly runnable: RunnableCall }
  | { readonly _tag: "Fail"; readonly runnable: RunnableCall; readonly failure: Failure }
  | { readonly _tag: "Ask"; readonly runnable: RunnableCall }

/** The conversation for an approval policy that looks at it; most do not. */
type Messages = () => ReadonlyArray<Prompt.Message>

const messagesOf = ({ recorder }: Pick<Batch, "recorder">): Messages => {
  const { conversation } = recorder.state()
  return () => Conversation.toPrompt(conversation).content
}

const request = (part: ToolCallPart): BoundCall.Request => ({
  id: part.id,
  name: part.name,
  arguments: part.text ?? part.arguments
})

const approval = (
  batch: Batch,
  tool: BoundTool,
  call: BoundCall.BoundCall,
  runnable: RunnableCall,
  messages: Messages
): Effect.Effect<Prepared> => {
  const run: Prepared = { _tag: "Run", call, runnable }
  if (runnable.approved || runnable.started) return Effect.succeed(run)
  const context = {
    callId: call.id,
    context: batch.recorder.state().context,
    get messages() {
      return messages()
    }
  }
  return Effect.match(tool.needsApproval(call.arguments, context), {
    onFailure: (failure): Prepared => ({ _tag: "Fail", runnable, failure }),
    onSuccess: (needed): Prepared => (needed ? { _tag: "Ask", runnable } : run)
  })
}

const prepare = Effect.fnUntraced(function* (
  batch: Batch,
  runnable: RunnableCall,
  messages: Messages
): Effect.fn.Return<Prepared> {
  const { recorder, resolved } = batch
  const { part } = runnable
  const state = recorder.state()
  const prepared = yield* BoundCall.prepare(resolved.tools, request(part), {
    runId: state.runId,
    context: state.context,
    timeout: batch.options.timeouts?.tool,
    deadline: batch.deadline === undefined ? undefined : batch.deadline + grace,
    progress: (result) => recorder.emit({ _tag: "ToolProgress", callId: part.id, name: part.name, result })
  })
  if (Result.isFailure(prepared)) return { _tag: "Fail", runnable, failure: prepared.failure }
  const tool = resolved.tools.tools.get(part.name)
  if (tool === undefined) return { _tag: "Run", call: prepared.success, runnable }
  return yield* approval(batch, tool, prepared.success, runnable, messages)
})

/** Calls of agents run through the driver, so that their events and approvals are this run's. */
const withChildren = (
  batch: Batch,
  prepared: Extract<Prepared, { readonly _tag: "Run" }>,
  suspended: Set<string>,
  fatal: Array<AgentError>
): BoundCall.BoundCall => {
  const { call, runnable } = prepared
  const tool = batch.resolved.tools.tools.get(call.contract.name)
  const agent = tool === undefined ? Option.none() : agentOf(tool.tool)
  if (Option.isNone(agent)) return call
  const execute = Child.run(agent.value.agent, {
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
export const run = Effect.fnUntraced(function* (batch: Batch, action: RunTools) {
  const { recorder } = batch
  for (const settled of action.settled) {
    yield* recorder.record(yield* Recorder.toolFinished(settled))
  }
  if (recorder.stopping()) return
  const messages = messagesOf(batch)
  const prepared = yield* Effect.forEach(action.calls, (call) => prepare(batch, call, messages))
  const ready: Array<Extract<Prepared, { readonly _tag: "Run" }>> = []
  for (const one of prepared) {
    if (one._tag === "Run") {
      ready.push(one)
    } else if (one._tag === "Ask") {
      yield* recorder.record({ _tag: "ApprovalRequested", at: yield* DateTime.now, callId: one.runnable.part.id })
    } else {
      const { id, name } = one.runnable.part
      yield* recorder.record(yield* Recorder.toolFinished({ callId: id, name, result: one.failure }))
    }
    if (recorder.stopping()) return
  }
  if (ready.length > 0) yield* execute(batch, ready)
})

/**
 * Asks for the approvals that calls of a conversation need, before decisions about
 * them are taken: a decision counts only for a call whose tool demands one.
 */
export const requestApprovals = Effect.fnUntraced(function* (batch: Batch, callIds: ReadonlySet<string>) {
  const { recorder } = batch
  const action = RunTransition.next(recorder.state())
  if (action._tag !== "RunTools") return
  const messages = messagesOf(batch)
  for (const runnable of action.calls) {
    const callId = runnable.part.id
    if (!callIds.has(callId)) continue
    const prepared = yield* prepare(batch, runnable, messages)
    if (prepared._tag === "Ask") {
      yield* recorder.record({ _tag: "ApprovalRequested", at: yield* DateTime.now, callId })
    }
  }
})

const execute = Effect.fnUntraced(function* (
  batch: Batch,
  ready: ReadonlyArray<Extract<Prepared, { readonly _tag: "Run" }>>
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

  yield* ToolBatch.run(
    ready.map((one) => withChildren(batch, one, suspended, fatal)),
    {
      defects: batch.options.defects,
      onStarted,
      onFinished: (callId, result, duration, cause) => {
        if (suspended.has(callId) || !started.has(callId)) return Effect.void
        const call = { callId, name: names.get(callId) ?? "", result }
        return Effect.flatMap(Recorder.toolFinished(call, duration, cause), recorder.record)
      }
    }
  ).pipe(Effect.provideService(Environment, { ...batch.environment, parent: undefined }))
  const [error] = fatal
  if (error !== undefined) return yield* recorder.fail(error.reason)
})
