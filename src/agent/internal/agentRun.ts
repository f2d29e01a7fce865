/** The run of an agent, from its first event or from a state to its result. */

import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Predicate from "effect/Predicate"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import { checkKeys } from "../../payload/internal/limits.ts"
import * as callOptions from "../../payload/internal/options.ts"
import { appendToken, defined, kindOf } from "../../payload/internal/values.ts"
import * as children from "../../run/internal/children.ts"
import * as definitionChange from "../../run/internal/definitionChange.ts"
import * as durability from "../../run/internal/durability.ts"
import * as handoffs from "../../run/internal/handoffs.ts"
import * as ledger from "../../run/internal/ledger.ts"
import type * as liveRun from "../../run/internal/liveRun.ts"
import * as runLoop from "../../run/internal/runLoop.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import type * as ToolContract from "../../tool/ToolContract.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import * as toolCall from "../../tool/internal/toolCall.ts"
import * as AgentError from "../AgentError.ts"
import * as Run from "../Run.ts"
import * as agentMachine from "./agentMachine.ts"
import type * as agentParts from "./agentParts.ts"
import * as agentReason from "./agentReason.ts"
import * as agentTeam from "./agentTeam.ts"
import * as agentRecorder from "./agentRecorder.ts"
import * as agentTypes from "./agentTypes.ts"
import * as guardTypes from "./guardTypes.ts"
import * as runSpans from "./runSpans.ts"

export const defaultMaxDepth = 8

/** A whole number of calls. A budget below one still allows the one call that every run makes. */
const maxStepsOf = (maxSteps: runParts.MaxSteps): runParts.MaxSteps =>
  maxSteps === "unlimited" || maxSteps === Infinity ? "unlimited" : Math.floor(maxSteps)

const invalidConversation = (problem: string, error?: unknown): AgentError.Reason =>
  agentReason.makeReason("ConversationInvalid", { problem }, error)

function* startConversation(
  { instructions = Effect.undefined }: agentParts.Resolved<unknown>,
  options: agentTypes.Options
): Effect.fn.Return<history.Conversation, AgentError.Reason> {
  if (options.conversation !== undefined && options.instructions !== "replace") return options.conversation
  const replaced = yield* Conversation.make({ system: yield* instructions })
  if (options.conversation === undefined) return replaced
  const rest = Conversation.messages(options.conversation).filter(({ role }) => role !== "system")
  return yield* Effect.mapError(Effect.fromResult(Conversation.appendAll(replaced, rest)), (error) =>
    invalidConversation(error.message, error)
  )
}

/** Refuses options that would make a state that cannot be stored. The conversation was checked when it was made. */
const checkOptions = (first: runParts.EventOf<"RunStarted">): Effect.Effect<unknown, AgentError.Reason> =>
  Effect.mapError(
    Effect.andThen(
      checkKeys(first.context, { what: "run event", path: "/event/context" }),
      Run.eventCodec.encode({ ...first, conversation: Conversation.empty })
    ),
    (error) => agentReason.makeReason("OptionsInvalid", { problem: error.message }, error)
  )

/**
 * The changes of the agent that began a run, and of what is open: calls of the agent that has the conversation, unless this agent is
 * gone.
 */
const changesIn = (
  name: string,
  agent: agentParts.Resolved<unknown>,
  state: runParts.State,
  active: agentParts.Resolved<unknown> | undefined
) => {
  const gone = active === undefined ? [goneChange(state)] : []
  return Effect.map((active ?? agent).changes(state), (inside) =>
    definitionChange.changesOf(state, { ...agent, agent: name }, [...inside, ...gone])
  )
}

const goneChange = (state: runParts.State): ToolContract.Change => ({
  path: appendToken("/handoffs", handoffs.activeAgent(state)),
  was: "the agent that has the conversation",
  now: "nothing",
  breaking: true
})

/** The agents of a run, and the agent that has the conversation. */
const activeIn = (
  name: string,
  agent: agentParts.Resolved<unknown>,
  choice: agentParts.ModelChoice,
  state: runParts.State,
  data = state.context
) =>
  Effect.flatMap(agentTeam.make(name, agent, choice, data), (team) =>
    Effect.map(agentTeam.find(team, state), (active) => ({ team, active }))
  )

/** The changes of an agent since a state. An agent that cannot be resolved has none here, and fails when it runs. */
export const changesSince = (
  { name, resolve, within }: agentParts.Blueprint<unknown>,
  state: runParts.State
): Effect.Effect<ReadonlyArray<ToolContract.Change>> =>
  within(
    Effect.scoped(
      Effect.matchEffect(
        Effect.flatMap(resolve(), (agent) =>
          Effect.map(activeIn(name, agent, {}, state), ({ active }) => ({ agent, active: active?.agent }))
        ),
        {
          onFailure: () => Effect.succeed([]),
          onSuccess: ({ active, agent }) =>
            agent.digest === definitionChange.definitionOf(state) && active !== undefined
              ? Effect.succeed([])
              : changesIn(name, agent, state, active)
        }
      )
    )
  )

/** The contracts of the calls that a conversation leaves open. */
const contractsFor = ({ contractOf }: agentParts.Resolved<unknown>, conversation: history.Conversation) => {
  const names = new Set(history.openCalls(conversation).map(({ name }) => name))
  const contracts = Array.from(names).flatMap((name) => contractOf(name) ?? [])
  return contracts.length === 0 ? undefined : contracts
}

/**
 * A run in the runs around it: their number, the most that there may be, the `RunContext`, the deadline in milliseconds of the
 * Clock, and the span, if the program is observed.
 */
interface Around extends Pick<agentParts.ActiveRun, "maxDepth" | "runDeadline"> {
  readonly depth: number
  readonly data: runParts.State["context"]
  readonly described: runSpans.RunSpan | undefined
}

/** The budgets that begin with a run, with a message of the user, or with a resume that has one. */
const budgetsOf = (
  { budget }: agentParts.Resolved<unknown>,
  { budgets = [], input, options, state }: agentParts.RunSpec
): ReadonlyArray<ledger.Given> | undefined => {
  const ofAgent = state === undefined || input !== undefined ? budget : undefined
  const limits = options.budget === undefined ? ofAgent : ledger.limitsOf(options.budget)
  const known = state?.account?.scopes ?? []
  const begins = ({ limits, scope }: ledger.Given) =>
    !known.some((one) => one.scope === scope && Equal.equals(one.limits, limits))
  const all = [...budgets.filter(begins), ...(limits === undefined ? [] : [{ scope: "run", limits }])]
  return all.length === 0 ? undefined : all
}

/** The earlier one of a deadline and the end of the time that the budgets of a run leave. */
export const deadlineWithin = (
  account: ledger.Account | undefined,
  now: DateTime.Utc,
  deadline: number | undefined
) => {
  const left = account && ledger.millisLeft(account)
  return runLoop.earliest(left === undefined ? undefined : now.epochMilliseconds + left, deadline)
}

/** The event that begins a fresh run. */
const firstEvent = Effect.fnUntraced(function* (
  name: string,
  agent: agentParts.Resolved<unknown>,
  spec: agentParts.RunSpec,
  { data, depth }: Around
) {
  const { input, options } = spec
  const conversation = yield* startConversation(agent, options)
  if (input === undefined && !runTransition.hasUserMessage(conversation)) {
    return yield* Effect.fail(
      invalidConversation("expected a user message to answer, got none. Pass an input, or a conversation that has one")
    )
  }
  const first: runParts.EventOf<"RunStarted"> = {
    _tag: "RunStarted",
    at: yield* DateTime.now,
    runId: yield* runParts.newRunId,
    agent: name,
    definition: agent.digest,
    depth,
    maxSteps: maxStepsOf(options.maxSteps ?? agent.maxSteps),
    structured: agent.structured,
    context: data,
    conversation,
    parts: agent.parts,
    ...defined({ contracts: contractsFor(agent, conversation), budgets: budgetsOf(agent, spec) })
  }
  if (options.context !== undefined) yield* checkOptions(first)
  return first
})

/**
 * The changes of an agent since the state of a run: of its definition, and the instructions of today, where the next message of the
 * run is to have them.
 */
interface Changed {
  readonly change?: runParts.DefinitionChange | undefined
  readonly instructions?: string | undefined
}

const changedSince = Effect.fnUntraced(function* (
  name: string,
  agent: agentParts.Resolved<unknown>,
  active: agentTeam.Member | undefined,
  state: runParts.State,
  { input, instructions: which, options }: agentParts.RunSpec
): Effect.fn.Return<Changed, AgentError.Reason> {
  const denials = runRequests.denialsIn(options.decisions)
  const settled = runRequests.afterDecisions(runTransition, state, denials, yield* DateTime.now)
  const { structured } = active?.agent ?? agent
  const change =
    agent.isOf(settled) && active !== undefined
      ? undefined
      : yield* Effect.fromResult(
          definitionChange.judge(
            settled,
            { ...agent, agent: name, structured },
            yield* changesIn(name, agent, settled, active?.agent),
            options.onChange
          )
        )
  const isFound = input !== undefined && which === "latest" && active !== undefined
  return {
    change: active === undefined && change !== undefined ? { ...change, back: true } : change,
    instructions: isFound ? yield* active.within(active.agent.instructions ?? Effect.undefined) : undefined
  }
})

const resultOf = <A>(
  { decode }: agentParts.Resolved<A>,
  state: runParts.State
): Effect.Effect<agentTypes.Result<A>> => {
  const { outcome } = state
  const base = runParts.resultBaseOf(state)
  if (outcome === undefined) return Effect.die(new Error("a run that has not ended has no result"))
  if (outcome._tag === "Completed") {
    return Effect.match(decode(base.text, outcome.output), {
      onFailure: (issues): agentTypes.Result<A> => ({ ...base, outcome: "InvalidOutput", issues }),
      onSuccess: (output): agentTypes.Result<A> => ({ ...base, outcome: "Completed", output })
    })
  }
  return Effect.succeed(runParts.ended(base, outcome))
}

/** Records the resume of a run that continues, then decisions, then the new message, which waits for open calls. */
const openRun = Effect.fnUntraced(function* (
  { agent, within }: agentTeam.Member,
  run: agentParts.ActiveRun,
  { input, message: options, options: given, state }: agentParts.RunSpec,
  { change, instructions: now }: Changed,
  budgets: ReadonlyArray<ledger.Given> | undefined
) {
  const { recorder } = run
  const decisions = runRequests.listDecisions(given.decisions)
  const ownSteps = given.maxSteps === undefined ? undefined : maxStepsOf(given.maxSteps)
  const resumed: Array<runParts.Event> = []
  if (state !== undefined) {
    // An agent inside has the context of its own state
    const context = Equal.equals(given.context, state.context) ? undefined : given.context
    // The process died in a model call, which may have been paid
    const lost = state.step?.reserved
    resumed.push({
      _tag: "RunResumed",
      at: recorder.now(),
      ...defined({ maxSteps: ownSteps, context, change, lost, budgets })
    })
  }
  const isDue = (request: runRequests.Request) => runRequests.expired(request, recorder.now()) !== undefined
  const isOver =
    state !== undefined && !runRequests.isInSession(run.context) && runTransition.requests(state).some(isDue)
  // A guard has the budgets of the message
  if (decisions.length > 0 || isOver || run.guarding) {
    yield* recorder.record(...resumed.splice(0))
    if (decisions.length > 0) yield* within(agent.ask(run, new Set(decisions.map(({ callId }) => callId))))
    const decided = runTransition.decideIn(recorder.state, decisions, recorder.now(), run.context)
    for (const event of yield* Effect.mapError(Effect.fromResult(decided), (reason) => recorder.fail(reason)))
      yield* recorder.record(event)
  }
  // Also when the hook has stopped the run already: the message must not be lost.
  if (input === undefined) return yield* recorder.record(...resumed)
  const { decided: verdicts, message } = yield* agentMachine.passInput(
    run,
    yield* Message.user(input, options),
    agent.asksModel
  )
  const { conversation, pending, view = conversation } = recorder.state
  const waiting = pending.findLast(({ instructions }) => instructions !== undefined)?.instructions
  const known = waiting ?? history.asHistory(view).instructions
  const instructions = now === undefined ? undefined : yield* history.changedInstructions(known, now)
  // Together with the message: nothing else runs with its context
  yield* recorder.record(
    ...resumed,
    {
      _tag: "InputAdded",
      at: recorder.now(),
      message,
      maxSteps: ownSteps ?? maxStepsOf(agent.maxSteps),
      ...defined({ instructions })
    },
    ...verdicts.map((verdict) => ({ ...verdict, at: recorder.now() }))
  )
})

const isPart = (part: unknown): boolean => {
  if (!Predicate.hasProperty(part, "type")) return false
  if (part.type === "text") return Predicate.hasProperty(part, "text") && Predicate.isString(part.text)
  return part.type === "file" && Predicate.hasProperty(part, "data") && Predicate.isObject(part.data)
}

const optionNames = Object.keys(agentTypes.runOptions)

/** The refusal of a value of another type: a route may pass on JSON of any type. */
const wrongArgument = ({ input, options, state }: agentParts.RunSpec): AgentError.Reason | undefined => {
  if (!Predicate.isObject(options)) {
    const problem = `expected an object as options, got ${kindOf(options)}`
    return agentReason.makeReason("OptionsInvalid", { problem })
  }
  const { conversation } = options
  const problem = callOptions.unknownName(optionNames, options) ?? callOptions.problemOf(agentTypes.runOptions, options)
  if (problem !== undefined) return agentReason.makeReason("OptionsInvalid", { problem })
  if (state !== undefined && !(state instanceof runParts.State)) {
    const problem = "expected a Run.State as state, got another value. Read a stored state with Run.stateCodec"
    return invalidConversation(problem)
  }
  if (conversation !== undefined && !Conversation.isConversation(conversation)) {
    const problem =
      "expected a Conversation as conversation, got another value. Read a stored conversation with Conversation.codec"
    return invalidConversation(problem)
  }
  if (input === undefined || Predicate.isString(input) || (Array.isArray(input) && input.every(isPart)))
    return undefined
  return invalidConversation(`expected a text or a list of text and file parts as input, got ${kindOf(input)}`)
}

/** The handle of a run of an agent, for the code that performs it. */
export type Performing = liveRun.Performing<runParts.Event, agentTypes.AgentEvent<unknown>>

/** The handle of a run of an agent. */
export type Live<A = unknown> = liveRun.LiveRun<
  agentTypes.Result<A>,
  AgentError.AgentError,
  runParts.Event,
  agentTypes.AgentEvent<unknown>
>

const refusalOf =
  (agent: string, { state }: agentParts.RunSpec) =>
  (reason: AgentError.Reason): AgentError.AgentError =>
    agentRecorder.agentError({ agent, reason, ...defined({ state }) })

/** Runs an agent from its first event, or from a state, to its result. */
export const runAgent = <A>(
  live: Performing,
  blueprint: agentParts.Blueprint<A>,
  spec: agentParts.RunSpec
): Effect.Effect<agentTypes.Result<A>, AgentError.AgentError> => {
  const reason = wrongArgument(spec)
  if (reason !== undefined) return Effect.fail(agentRecorder.agentError({ agent: blueprint.name, reason }))
  return durability.untilDecided(
    spec.isPart === true,
    runInSpan(live, blueprint, spec),
    (result) => (result.outcome === "AwaitingApproval" ? result.requests : []),
    ({ state }, decisions) =>
      runInSpan(live, blueprint, { ...spec, state, input: undefined, options: { ...spec.options, decisions } })
  )
}

const runInSpan = <A>(live: Performing, blueprint: agentParts.Blueprint<A>, spec: agentParts.RunSpec) => {
  const { name } = blueprint
  const { options, state } = spec
  const attributes = { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name }
  return Effect.useSpan(`invoke_agent ${name}`, { attributes }, (plain) =>
    Effect.contextWith((services: Context.Context<never>) => {
      const isTraced = callContext.tracerOf(services) !== undefined
      const span = isTraced ? toolCall.quietSpan(plain) : plain
      const described = callContext.isObserved(services) ? runSpans.ofRun(span, name, services) : undefined
      const outer = callContext.runAround(services)
      const depth = callContext.depthIn(outer)
      const data = options.context ?? state?.context ?? callContext.inheritedContext(services)
      const maxDepth = options.maxDepth ?? outer?.maxDepth ?? defaultMaxDepth
      if (depth > maxDepth) {
        return Effect.fail(refusalOf(name, spec)(agentReason.makeReason("MaxDepth", { limit: maxDepth })))
      }
      const runDeadline = runLoop.deadlineOf(services, options.timeouts?.total, spec.deadline)
      const running = guardTypes.withHost(options.guards ?? [])(
        performRun(live, blueprint, spec, { depth, maxDepth, data, runDeadline, described })
      )
      const run = callContext.asRun(running, { agent: name, outer, maxDepth, context: data }, span)
      return described === undefined ? run : Effect.onExit(run, (exit) => Effect.sync(() => described.ended(exit)))
    })
  )
}

/** The agent for a run, and the state of the run, with the event that began it, or with changes of the agent since the state. */
const resolveFor = Effect.fnUntraced(function* <A>(
  { name, resolve, takes }: agentParts.Blueprint<A>,
  spec: agentParts.RunSpec,
  around: Around
) {
  const { state } = spec
  const { modelOptions, reasoning } = spec.options
  if (takes !== undefined) yield* takes(around.data)
  const choice = { model: spec.model, modelOptions, reasoning }
  const agent = yield* resolve(choice)
  if (state !== undefined) {
    const { active, team } = yield* activeIn(name, agent, choice, state, around.data)
    const changed = yield* changedSince(name, agent, active, state, spec)
    return { agent, team, active: active ?? team.first, state, changed }
  }
  const first = yield* firstEvent(name, agent, spec, around)
  const team = yield* agentTeam.make(name, agent, choice, around.data)
  return { agent, team, active: team.first, state: runTransition.start(first), first, changed: {} }
})

/** The messages that wait for the run, of its caller or of the code around it. */
const steeringOf = ({ options, steering }: agentParts.RunSpec): agentParts.RunSpec["steering"] =>
  steering ?? (options.steering && Effect.map(options.steering, (inputs) => inputs.map((input) => ({ input }))))

const performRun = Effect.fnUntraced(function* <A>(
  live: Performing,
  blueprint: agentParts.Blueprint<A>,
  spec: agentParts.RunSpec,
  around: Around
) {
  const services = yield* Effect.context<never>()
  const { options, parent = Context.get(services, children.Asking), streaming = false, write } = spec
  const { maxDepth } = around
  const resolved = Effect.mapError(resolveFor(blueprint, spec, around), refusalOf(blueprint.name, spec))
  const { active, agent, changed, first, state, team } = yield* resolved
  around.described?.began(agent, state, first !== undefined)
  const recorder = agentRecorder.make(state, first, options, parent, live.log, services)
  const budgets = first === undefined ? budgetsOf(active.agent, spec) : undefined
  // An answer may have more time
  const before = runRequests.afterDecisions(runTransition, state, options.decisions, recorder.now()).account
  const account = budgets === undefined ? before : ledger.open(before, budgets)
  const runDeadline = deadlineWithin(account, recorder.now(), around.runDeadline)
  const run: agentParts.ActiveRun = {
    recorder,
    options,
    streaming,
    maxDepth,
    runDeadline,
    deadline: runDeadline,
    write,
    context: active.context,
    guarding: active.guarding
  }
  agentMachine.enter(run, active)
  if (first !== undefined) recorder.begin()
  const scope = yield* Effect.scope
  yield* live.loop(agentMachine.machineOf(team, active, run, scope, steeringOf(spec)), recorder, {
    open: openRun(active, run, spec, changed, budgets),
    deadline: runDeadline,
    stops: options.interruptWhen !== undefined
  })
  const result = yield* resultOf(agent, recorder.state)
  yield* recorder.emit({ _tag: "RunFinished", result })
  return result
})

/** The answer of a run that is `Completed`. */
export const answerOf = <A>(result: agentTypes.Result<A>): Effect.Effect<A, AgentError.RunIncomplete> =>
  result.outcome === "Completed" ? Effect.succeed(result.output) : Effect.fail(new AgentError.RunIncomplete({ result }))
