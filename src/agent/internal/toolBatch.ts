/** The calls of one answer: prepared, approved where that is needed, and run as a batch. */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as history from "../../conversation/internal/history.ts"
import * as modelMessages from "../../conversation/internal/modelMessages.ts"
import type { JsonObject } from "../../payload/Json.ts"
import { defined } from "../../payload/internal/values.ts"
import * as ledger from "../../run/internal/ledger.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as Question from "../../tool/Question.ts"
import type * as RunContext from "../../tool/RunContext.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as argumentSources from "../../tool/internal/argumentSources.ts"
import * as answers from "../../tool/internal/answers.ts"
import * as boundTool from "../../tool/internal/boundTool.ts"
import type { RequestTerms } from "../../tool/internal/requestTerms.ts"
import * as toolCall from "../../tool/internal/toolCall.ts"
import type * as AgentError from "../AgentError.ts"
import * as agentCall from "./agentCall.ts"
import type * as agentParts from "./agentParts.ts"
import * as agentReason from "./agentReason.ts"
import * as agentRecorder from "./agentRecorder.ts"
import * as callContracts from "./callContracts.ts"

/**
 * By how many milliseconds a call may outlast the run that waits for it: the run stops
 * first, so that a call it cuts off is `interrupted`, and no timeout of the tool's own.
 */
const grace = 1000

/**
 * The seam of tool calls. Each call passes here with its checked arguments, before an approval is asked for and before the call
 * starts, and again with its result, before the result is recorded. Guards decide here; `state.refused` is set where they have refused.
 */
const passTool = (passing: agentParts.Passing, isNew = true): Effect.Effect<agentParts.Passing> =>
  isNew ? (passing.run.guarding?.passTool(passing) ?? Exit.succeed(passing)) : Exit.succeed(passing)

/**
 * A call before anything runs: `call` can run, and `result` is known without a run. `asks` is the request of a call that needs an
 * approval first.
 */
interface PreparedCall {
  readonly runnable: runTransition.RunnableCall
  readonly call?: toolCall.BoundCall
  readonly result?: ToolResult.ToolResult
  readonly asks?: Pick<runParts.EventOf<"ApprovalRequested">, "arguments" | "ask" | "digest" | "contract">
}

/** A call that may run now. */
interface ReadyCall {
  readonly runnable: runTransition.RunnableCall
  readonly call: toolCall.BoundCall
}

const prepareCall = (
  agent: agentParts.ModelAgent,
  run: agentParts.ActiveRun,
  runnable: runTransition.RunnableCall
): Effect.Effect<PreparedCall> => {
  const { deadline, options, recorder } = run
  const { id, name, text, arguments: args } = runnable.part
  const { context, runId } = recorder.state
  const { answers: answered, approved, replaced, started } = runnable
  const request = { id, name, arguments: approved?.arguments ?? replaced ?? text ?? args }
  const isHeld = run.guarding?.holdsResults === true
  const about: boundTool.PrepareOptions = {
    runId,
    context,
    timeout: options.timeouts?.tool,
    deadline: deadline === undefined ? undefined : deadline + grace,
    progress: (result) => (isHeld ? Effect.void : recorder.emit({ _tag: "ToolProgress", callId: id, name, result }))
  }
  const prepareWith = (args: JsonObject) =>
    boundTool.prepareIn(run.context, agent.tools, { ...request, arguments: args }, about)
  const bound = boundTool.prepareIn(run.context, agent.tools, request, about)
  if (Result.isFailure(bound)) {
    const isLost = runnable.started && runnable.child === undefined
    return Exit.succeed({ runnable, result: isLost ? runTransition.lostCall : bound.failure })
  }
  const hasPassed = started || approved !== undefined || replaced !== undefined || answered !== undefined
  return toolCall.flatMapNow(
    passTool({ agent, run, call: bound.success, prepareWith }, !hasPassed),
    ({ call, isAsked }): Effect.Effect<PreparedCall> =>
      recorder.state.refused === undefined
        ? askWhereNeeded(agent, run, { runnable, call }, about, isAsked)
        : Exit.succeed({ runnable })
  )
}

/** The call with the request for its approval, if it needs one. A call that was lost with its process runs again if that is safe. */
const askWhereNeeded = (
  agent: agentParts.ModelAgent,
  run: agentParts.ActiveRun,
  ready: ReadyCall,
  about: boundTool.PrepareOptions,
  isAsked = false
): Effect.Effect<PreparedCall> => {
  const { call, runnable } = ready
  const { contract, id } = call
  const { approved } = runnable
  const tool = agent.tools.tools.get(contract.name)
  if (runnable.child !== undefined || tool === undefined) return Exit.succeed(ready)
  if (runnable.started) {
    const lost: PreparedCall = { runnable, result: runTransition.lostCall }
    // It began as a call of a tool that may have changed since, so that the same arguments may not be the same call
    const began = runTransition.openCall(run.recorder.state, id)?.contract
    const isSame = began === undefined || began === callContracts.digestOf(agent, contract)
    if (!isSame || !isIdempotent(call)) return Exit.succeed(lost)
    if (approved === undefined) return Exit.succeed(ready)
    return Effect.map(askFirst(agent, run.recorder.state, tool, ready, about), (asked) =>
      asked.asks === undefined ? asked : lost
    )
  }
  if (approved === undefined && contract.approval === "never" && contract.client === undefined && !isAsked)
    return Exit.succeed(ready)
  return askFirst(agent, run.recorder.state, tool, ready, about, isAsked)
}

/** The tool states that a second call with the same arguments has no further effect. */
const isIdempotent = ({ contract }: toolCall.BoundCall): boolean => contract.annotations.idempotent === true

/**
 * True for an approval that still holds: it is about these arguments and about this contract, or about an earlier
 * contract that this contract is compatible with and whose `approval` is the same.
 */
const isApproved = (
  { agents }: agentParts.ModelAgent,
  state: runParts.State,
  { arguments: checked, contract, id }: toolCall.BoundCall,
  { digest }: NonNullable<runTransition.RunnableCall["approved"]>,
  asked: string
): Effect.Effect<boolean> => {
  if (asked === digest) return Effect.succeed(true)
  const was = runTransition.contractOf(state, runTransition.openCall(state, id)?.contract)
  if (was === undefined || was.approval !== contract.approval) return Effect.succeed(false)
  if (agents.has(contract.name)) return Effect.succeed(false)
  if (ToolContract.compare(was, contract).some(({ breaking }) => breaking)) return Effect.succeed(false)
  const before = runParts.callDigest(state, id, { contract: was.digest, arguments: checked })
  return Effect.map(before, (found) => found === digest)
}

/** The call with normalized arguments, and with the request for the approval that it needs. */
const askFirst = (
  agent: agentParts.ModelAgent,
  state: runParts.State,
  tool: boundTool.BoundTool,
  { call, runnable }: ReadyCall,
  about: boundTool.PrepareOptions,
  isAsked = false
): Effect.Effect<PreparedCall> =>
  Effect.flatMap(boundTool.normalizeCall(tool, call, about), (normal) =>
    Result.isFailure(normal)
      ? Effect.succeed({ runnable, result: normal.failure })
      : askAbout(agent, state, tool, { runnable, call: normal.success }, isAsked)
  )

const askAbout = (
  agent: agentParts.ModelAgent,
  state: runParts.State,
  tool: boundTool.BoundTool,
  ready: ReadyCall,
  isAsked: boolean
): Effect.Effect<PreparedCall> => {
  const { call, runnable } = ready
  const { arguments: checked, context, contract, id } = call
  const { approved } = runnable
  const ask = runRequests.askOf(contract)
  const digestOfCall = Effect.suspend(() =>
    runParts.callDigest(state, id, {
      contract: callContracts.digestOf(agent, contract),
      arguments: checked,
      ...runParts.termsOf(ask, contract.request)
    })
  )
  const asking = (digest: string): PreparedCall => ({
    ...ready,
    asks: { arguments: checked, digest, ...defined({ ask }), ...callContracts.changedContract(agent, state, call) }
  })
  const request = Effect.map(digestOfCall, asking)
  if (ask !== undefined || isAsked) return request
  // The tool may have changed since it was approved
  if (approved !== undefined) {
    return Effect.flatMap(digestOfCall, (digest) =>
      Effect.map(isApproved(agent, state, call, approved, digest), (holds) => (holds ? ready : asking(digest)))
    )
  }
  const asked = {
    callId: id,
    context,
    // For an approval policy that looks at it; most do not
    get messages() {
      return modelMessages.toPrompt(state.conversation).content
    },
    places: () => placesIn(agent, state)
  }
  return Effect.matchEffect(tool.needsApproval(checked, asked), {
    onFailure: (failure) => Effect.succeed<PreparedCall>({ runnable, result: failure }),
    onSuccess: (needed) => (needed ? request : Effect.succeed(ready))
  })
}

/**
 * The texts of a conversation by their sources. A message is of a user only in a run that no other run has begun, and a summary is of the
 * model. A person has answered the questions of the model.
 */
const placesIn = (agent: agentParts.ModelAgent, { conversation, depth }: runParts.State) =>
  history.messages(conversation).flatMap((message): ReadonlyArray<argumentSources.Place> => {
    if (message.role === "user") {
      if (depth > 0 || history.hasMark(message, history.summaryMark)) return []
      return [{ source: "user", texts: message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])) }]
    }
    if (message.role !== "tool") return []
    const { name, result } = message
    const isAnswer = agent.tools.tools.get(name)?.contract.client === "question" && result._tag === "Success"
    const texts = [...argumentSources.textsIn(result.value), ToolResult.text(result)]
    return [{ source: isAnswer ? "user" : `tool/${name}`, texts }]
  })

/** Runs the calls of one answer and records their results. */
export const runTools = Effect.fnUntraced(function* (
  agent: agentParts.ModelAgent,
  run: agentParts.ActiveRun,
  action: runTransition.ActionOf<"RunTools">
) {
  const { recorder } = run
  for (const settled of action.settled) {
    yield* agentRecorder.recordToolFinished(run, settled, undefined, undefined, settled.handoff)
  }
  if (recorder.interruption) return
  const prepared: Array<PreparedCall> = []
  for (const call of action.calls) {
    const one = prepareCall(agent, run, call)
    prepared.push(toolCall.isDone(one) && Exit.isSuccess(one) ? one.value : yield* one)
    // Nothing has started
    if (recorder.state.refused !== undefined) return
  }
  const ready: Array<ReadyCall> = []
  for (const { asks, call, result, runnable } of prepared) {
    const { id: callId, name } = runnable.part
    if (asks) yield* recordRequested(run, { callId, name, ...asks }, call?.contract.request)
    else if (call) ready.push({ call, runnable })
    else if (result) yield* agentRecorder.recordToolFinished(run, { callId, name, result })
    if (recorder.interruption) return
  }
  if (ready.length === 0) return
  const refused = ready.some(({ runnable }) => runnable.started) ? undefined : refusal(run)
  if (refused !== undefined) return yield* agentRecorder.recordRefused(recorder, refused)
  yield* executeBatch(agent, run, ready)
})

/** Records a request, with the remembered answer to an equal request: the call does not wait. */
const recordRequested = (
  { context, recorder }: agentParts.ActiveRun,
  asked: Omit<runParts.EventOf<"ApprovalRequested">, "_tag" | "at" | "bounds">,
  terms: RequestTerms | undefined
): Effect.Effect<void> => {
  const at = recorder.now()
  const bounds = runRequests.boundsIn(context, at, terms)
  const event = { _tag: "ApprovalRequested", at, ...asked, ...bounds } as const
  const { arguments: args, ask, callId, contract: now } = event
  const remembered = Context.get(context, runRequests.AroundSession)?.remembered(at) ?? []
  const contract = now?.digest ?? runTransition.openCall(recorder.state, callId)?.contract
  if (remembered.length === 0 || contract === undefined) return recorder.record(event)
  const request = { contract, arguments: args, ...runParts.termsOf(ask, terms) }
  const equal = () => runParts.equalDigest(recorder.state.context, request)
  const decision = runRequests.recall({ request: runRequests.requestOf(event), equal }, remembered)
  if (decision === undefined) return recorder.record(event)
  return recorder.record(event, { _tag: "ApprovalDecided", at, callId, ...runRequests.verdictOf(decision) })
}

/** The limit of a budget that refuses one more call of a tool. */
const refusal = ({ recorder }: agentParts.ActiveRun): ledger.Limit | undefined => {
  const { budgets } = recorder
  return budgets && ledger.refusesTool(budgets)
}

/**
 * Asks for the approvals that calls of a conversation need, before decisions about
 * them are taken: a decision counts only for a call whose tool demands one.
 */
export const requestApprovals = Effect.fnUntraced(function* (
  agent: agentParts.ModelAgent,
  run: agentParts.ActiveRun,
  callIds: ReadonlySet<string>
) {
  const action = runTransition.next(run.recorder.state)
  if (action._tag !== "RunTools") return
  for (const runnable of action.calls) {
    const { id: callId, name } = runnable.part
    if (!callIds.has(callId)) continue
    const { asks, call } = yield* prepareCall(agent, run, runnable)
    if (run.recorder.state.refused !== undefined) return
    const bounds = runRequests.boundsIn(run.context, run.recorder.now(), call?.contract.request)
    if (asks) yield* run.recorder.recordNow({ _tag: "ApprovalRequested", callId, name, ...asks, ...bounds })
  }
})

const executeBatch = (
  agent: agentParts.ModelAgent,
  run: agentParts.ActiveRun,
  ready: ReadonlyArray<ReadyCall>
): Effect.Effect<void, AgentError.AgentError> => {
  const { options, recorder } = run
  const end: agentCall.BatchEnd = { suspended: undefined, fatal: [] }

  const onStarted = (callId: string, index: number): Effect.Effect<void | false> => {
    if (agentRecorder.mustWait(run)) return agentRecorder.untilInterrupted
    const one = ready[index]
    const { approved, part, started } = one?.runnable ?? {}
    // Calls before this one take time
    if (approved !== undefined && started !== true && runRequests.isExpired(approved, recorder.now())) {
      const { arguments: args, digest } = approved
      const bounds = runRequests.boundsIn(run.context, recorder.now(), one?.call.contract.request)
      const request = { callId, name: part?.name ?? "", arguments: args, digest, ...bounds }
      return Effect.as(recorder.recordNow({ _tag: "ApprovalRequested", ...request }), false)
    }
    // It is left open, and its run ends
    if (started !== true && (refusal(run) !== undefined || recorder.state.refused !== undefined))
      return Effect.succeed(false)
    const recorded = started === true ? Effect.void : recordStarted(agent, run, callId, one?.call)
    if (recorded === Exit.void) return agentRecorder.mustWait(run) ? agentRecorder.untilInterrupted : recorded
    return Effect.flatMap(recorded, () => (agentRecorder.mustWait(run) ? agentRecorder.untilInterrupted : Effect.void))
  }

  const handoffs = agentCall.handoffsIn(
    agent,
    recorder.state,
    ready.map(({ call }) => call)
  )
  const calls = ready.map(({ call, runnable }, index) => {
    const bound = agentCall.withChild(agent, run, handoffs.calls[index] ?? call, runnable.child, end)
    const { answers: given } = runnable
    return given === undefined
      ? bound
      : { ...bound, execute: Option.map(bound.execute, (body) => answers.withAnswers(body, given)) }
  })
  const ran = toolCall.run(calls, {
    defects: options.defects,
    concurrency: options.concurrency ?? agent.definition.concurrency,
    onStarted,
    onFinished: (callId, result, duration, cause, index) => {
      const one = ready[index]
      if (one === undefined || end.suspended?.has(callId) === true) return Effect.void
      const { name } = one.runnable.part
      const unread = toolCall.contextErrorIn(cause)
      if (unread !== undefined) end.fatal.push(recorder.fail(unreadable(recorder.state.agent, unread)))
      const asked = agentRecorder.mustWait(run) ? undefined : askedIn(one.call, result)
      if (asked !== undefined) return recordAsked(agent, run, one, asked)
      const passing = { agent, run, call: one.call, result, ...defined({ handoff: handoffs.taken.get(callId) }) }
      return toolCall.flatMapNow(passTool(passing), ({ handoff, isAsked, result: passed = result }) =>
        isAsked === true
          ? Effect.void
          : agentRecorder.recordToolFinished(
              run,
              { callId, name, result: passed },
              duration,
              cause,
              passed._tag === "Success" ? handoff : undefined
            )
      )
    }
  })
  return Effect.flatMap(ran, () => {
    const [error] = end.fatal
    return error === undefined ? Effect.void : Effect.fail(recorder.fail(error.reason))
  })
}

/** The reason of a run whose handler could not read the context: no answer of the model mends the context. */
const unreadable = (agent: string, { issues, missing }: RunContext.RunContextError) => {
  const absent = missing.map((name) => ({
    path: `/${name.replaceAll(".", "/")}`,
    expected: "a value",
    found: "nothing"
  }))
  return agentReason.makeReason("ContextInvalid", { agent, issues: [...absent, ...issues] })
}

const readAsked = Schema.decodeUnknownOption(Schema.toCodecJson(Question.Asked))

/** The question of a handler that runs here, in the result of its call. The contract of its tool has a failure for questions. */
const askedIn = (
  { contract, execute }: toolCall.BoundCall,
  result: ToolResult.ToolResult
): Question.Asked | undefined =>
  result._tag === "Failure" && contract.failure !== undefined && Option.isSome(execute)
    ? Option.getOrUndefined(readAsked(result.value))
    : undefined

/** The call waits for the answer to the question of its handler, which then runs again. */
const recordAsked = (
  agent: agentParts.ModelAgent,
  run: agentParts.ActiveRun,
  { call, runnable }: ReadyCall,
  { question, request: terms, schema }: Question.Asked
) => {
  const { recorder } = run
  const { id: callId, name } = runnable.part
  const ask: runRequests.Ask = { kind: "Question", schema, number: (runnable.answers?.length ?? 0) + 1 }
  const request = { arguments: { question }, contract: callContracts.digestOf(agent, call.contract) }
  return Effect.flatMap(
    runParts.callDigest(recorder.state, callId, { ...request, ...runParts.termsOf(ask, terms) }),
    (digest) => {
      const asked = { callId, name, arguments: { question }, digest, ask }
      return recordRequested(run, asked, terms)
    }
  )
}

const recordStarted = (
  agent: agentParts.ModelAgent,
  { recorder }: agentParts.ActiveRun,
  callId: string,
  call: toolCall.BoundCall | undefined
) => {
  const event = { _tag: "ToolStarted", at: recorder.now(), callId } as const
  if (call === undefined) return recorder.record(event)
  const idempotent = isIdempotent(call) ? { idempotent: true as const } : undefined
  return recorder.record({ ...event, ...idempotent, ...callContracts.changedContract(agent, recorder.state, call) })
}
