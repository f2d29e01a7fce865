/** The decisions of guards in a run: at each place, in order, and once. */

import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { constUndefined, identity } from "effect/Function"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import type * as modelMessages from "../../conversation/internal/modelMessages.ts"
import type { JsonObject } from "../../payload/Json.ts"
import { quote } from "../../payload/internal/base.ts"
import { unlimited } from "../../payload/internal/limits.ts"
import { parseSized } from "../../payload/internal/textScanner.ts"
import { defined, isObject } from "../../payload/internal/values.ts"
import * as children from "../../run/internal/children.ts"
import * as durability from "../../run/internal/durability.ts"
import * as ledger from "../../run/internal/ledger.ts"
import * as runParts from "../../run/internal/runParts.ts"
import type * as runRecorder from "../../run/internal/runRecorder.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as telemetry from "../../tool/internal/telemetry.ts"
import type * as AgentError from "../AgentError.ts"
import * as agentMachine from "./agentMachine.ts"
import type * as agentParts from "./agentParts.ts"
import * as guardTypes from "./guardTypes.ts"
import * as modelCall from "./modelCall.ts"
import * as sharedBudgets from "./sharedBudgets.ts"

/** True for a guard that decides while the model answers. */
const isBeside = ({ [guardTypes.TypeId]: { terms }, on }: guardTypes.Guard): boolean =>
  terms.when === "beside" && (on === "beforeModel" || on === "input")

/** True for a guard that can withdraw an answer. */
const isAfter = (guard: guardTypes.Guard): boolean =>
  guard.on === "afterModel" || guard.on === "output" || isBeside(guard)

/** True for a run whose answers can be withdrawn when they are written. */
const withdraws = (guards: guardTypes.Guards): boolean => guards.some(isAfter)

/** True for a run whose answers are shown as a whole. */
const holds = (guards: guardTypes.Guards): boolean =>
  guards.some((guard) => isAfter(guard) && guard[guardTypes.TypeId].terms.text !== "live")

/** True for a run whose results are shown as a whole. */
const holdsResults = (guards: guardTypes.Guards): boolean =>
  guards.some(({ [guardTypes.TypeId]: { terms }, on }) => on === "afterTool" && terms.text !== "live")

const before = (guards: guardTypes.Guards, on: guardTypes.Place): guardTypes.Guards =>
  guards.filter((guard) => guard.on === on && !isBeside(guard))

/** The end of a place: the value, the verdicts to record, and the verdict that held it up. */
interface Passed<out V> {
  readonly value: V
  readonly decided: ReadonlyArray<agentParts.Decided>
  readonly stop?: "Refused" | "Asked" | undefined
}

/** The refusal of a guard beside a model call. */
class Withdrawn extends Data.TaggedError("Withdrawn")<{ readonly decided: ReadonlyArray<agentParts.Decided> }> {}

const isResult = Schema.is(ToolResult.ToolResult)

const isText = Predicate.isString

const fits: { readonly [P in guardTypes.Place]: (value: unknown) => value is guardTypes.ValueAt[P] } = {
  input: isText,
  beforeModel: Prompt.isPrompt,
  afterModel: isText,
  // Sound: the arguments are checked against the contract of the tool
  beforeTool: (value): value is guardTypes.ValueAt["beforeTool"] => isObject(value),
  afterTool: isResult,
  output: isText
}

const refuse = (reason: string): guardTypes.AnyVerdict => ({ _tag: "Refuse", reason })

/** The use of the agents that a guard asks, until the run has recorded it. */
interface Used {
  readonly usage: Message.TokenUsage
  readonly spent: ledger.Amounts
}

const unused: Used = { usage: {}, spent: {} }

const isUsed = ({ spent, usage }: Used): boolean => [...Object.values(usage), ...Object.values(spent)].some(Boolean)

/**
 * The run around the agents that a guard asks. Their use counts in the budgets from the start of each call, and the use is recorded when the guard
 * has decided. A budget that refuses a call asks no person: the guard then fails.
 */
const meterOf = ({ recorder }: Pick<agentParts.ActiveRun, "recorder">) => {
  const held = new Map<string, ledger.Amounts>()
  let { spent, usage } = unused
  let shown: ledger.Amounts = {}
  let ended = false
  let why = "it failed"
  const amounts = () => Array.from(held.values()).reduce(ledger.add, spent)
  const show = (now: ledger.Amounts) => {
    const before = ledger.Unit.literals.map((unit) => [unit, -(shown[unit] ?? 0)])
    const more = ledger.add(now, Object.fromEntries(before))
    for (let one: runRecorder.Budgeted | undefined = recorder; one !== undefined; one = one.options.parent?.outer) {
      one.besides = ledger.add(one.besides, more)
    }
    shown = now
  }
  const around = {
    ...children.inside(recorder, { event: identity<runParts.Event>, view: constUndefined }),
    budgets: () => (ended ? undefined : recorder.budgets?.map(({ more: _, of: __, ...limit }) => limit)),
    report: (used: Message.TokenUsage) => {
      usage = Message.sumUsage([usage, used])
      if (recorder.budgets !== undefined) spent = ledger.add(spent, { ...used, modelCalls: 1 })
      if (!ended) show(amounts())
    },
    record: (recorded: ReadonlyArray<runRecorder.Recorded<runParts.Event, runParts.State | runParts.PlanState>>) => {
      for (const { event, state } of recorded) {
        usage = Message.sumUsage([usage, runParts.usageOf(event) ?? {}])
        spent = ledger.add(spent, runParts.chargeOf(event) ?? {})
        if (runParts.innermost(event).event._tag === "BudgetExceeded") why = "a budget is used up"
        held.set(
          state.runId,
          state instanceof runParts.State ? runParts.reservedIn(state) : runParts.reservedInFrame(state)
        )
      }
      if (!ended) show(amounts())
      return Exit.void
    },
    isShown: false
  }
  return {
    around: {
      ...around,
      ofPlan: {
        ...around,
        record: (recorded: ReadonlyArray<runRecorder.Recorded<runParts.PlanRunEvent, runParts.PlanState>>) =>
          around.record(recorded.map(({ event, state }) => ({ event: { _tag: "PlanEvent", event }, state })))
      }
    },
    /** The reason of a guard that fails. */
    why: () => why,
    used: (): Used => ({ usage, spent: amounts() }),
    /** Records the use. The amounts count beside the budgets until then. */
    settle: ({ name: guard }: guardTypes.Guard, { spent, usage }: Used): Effect.Effect<void> => {
      ended = true
      const ofBudgets = isUsed({ ...unused, spent }) && { spent }
      const recorded = isUsed({ usage, spent })
        ? recorder.recordNow({ _tag: "GuardUsed", guard, usage, ...ofBudgets })
        : Exit.void
      if (isUsed({ ...unused, spent: shown })) show({})
      return recorded
    }
  }
}

/** Counts the use of a decision, which is known afterwards. No decision is asked for where a budget has nothing left. */
export const counted = <A, E, R>(
  deciding: Effect.Effect<A, E, R>,
  usageOf: (decided: A) => Message.TokenUsage
): Effect.Effect<A, E | ledger.Limit, R> =>
  Effect.flatMap(children.Asking, (around) => {
    const fits = ledger.reserve(around?.budgets() ?? [], { inputTokens: 0, outputTokens: 1 })
    const decided = Effect.tap(deciding, (one) => Effect.sync(() => around?.report(usageOf(one))))
    return Effect.andThen(Effect.fromResult(fits), decided)
  })

/** The decision of a guard. The guards of the host do not guard the code of a guard. */
const decide = (
  guard: guardTypes.Guard,
  seen: guardTypes.Seen,
  { around, why }: Pick<ReturnType<typeof meterOf>, "around" | "why">
): Effect.Effect<guardTypes.AnyVerdict> => {
  const { check, terms } = guard[guardTypes.TypeId]
  const { onFailure, timeout = "30 seconds" } = terms
  const fail = (why: string, cause: Cause.Cause<unknown>): Effect.Effect<guardTypes.AnyVerdict> => {
    const text = `The guard ${quote(guard.name)} could not decide: ${why}.`
    return Effect.as(telemetry.logUnexpected(text, cause), onFailure === "pass" ? { _tag: "Pass" } : refuse(text))
  }
  return Effect.suspend(() => check(seen)).pipe(
    Effect.timeoutOption(timeout),
    Effect.provideService(guardTypes.Host, []),
    Effect.provideService(children.Asking, around),
    Effect.matchCauseEffect({
      onFailure: (cause) => fail(why(), cause),
      onSuccess: Option.match({ onNone: () => fail("it took too long", Cause.empty), onSome: Effect.succeed })
    })
  )
}

type StoredVerdict = guardTypes.AnyVerdict & { readonly used?: Used }

const isVerdict = (value: unknown): value is Schema.Json & StoredVerdict =>
  Predicate.hasProperty(value, "_tag") && Predicate.isString(value._tag)

/**
 * The decision of a guard, which a durable program makes once. A prompt is not stored: the guard is asked for it again, which changes
 * nothing where the answer to the prompt is known.
 */
const ask = (
  run: Pick<agentParts.ActiveRun, "recorder">,
  guard: guardTypes.Guard,
  key: string,
  seen: guardTypes.Seen
): Effect.Effect<guardTypes.AnyVerdict> =>
  Effect.flatMap(durability.Durability, (durable) => {
    const meter = meterOf(run)
    const deciding = decide(guard, seen, meter)
    const settle = (used: Used) => meter.settle(guard, used)
    if (durable === undefined)
      return Effect.ensuring(
        deciding,
        Effect.suspend(() => settle(meter.used()))
      )
    const stored = durability.code({
      name: `guard/${key}/${guard.name}`,
      run: Effect.map(deciding, (verdict): Schema.Json & StoredVerdict => {
        const kept = verdict._tag === "Replace" && guard.on === "beforeModel" ? { _tag: "Replace" } : verdict
        const used = meter.used()
        // Sound: all other values are JSON, and what is not is refused where it is stored
        return { ...kept, ...(isUsed(used) && { used }) } as Schema.Json & StoredVerdict
      }),
      is: isVerdict,
      store: () => ({ type: "GuardFailed", message: "", retryable: false }),
      restore: ({ message }) => message
    })
    return Effect.matchEffect(stored, {
      onFailure: (problem) => Effect.succeed(refuse(`The guard ${quote(guard.name)} could not decide: ${problem}.`)),
      onSuccess: (verdict) =>
        Effect.andThen(
          settle(verdict.used ?? unused),
          verdict._tag === "Replace" && !("value" in verdict) ? deciding : Effect.succeed(verdict)
        )
    })
  })

/** Asks guards about a value, one after the other: each sees what the guards before it have made of the value. */
const pass = Effect.fnUntraced(function* <P extends guardTypes.Place>(
  { recorder }: Pick<agentParts.ActiveRun, "recorder">,
  guards: guardTypes.Guards,
  key: string,
  first: guardTypes.ValueAt[P],
  seenOf: (value: guardTypes.ValueAt[P]) => guardTypes.SeenAt[P] & { readonly text: string },
  callId?: string
): Effect.fn.Return<Passed<guardTypes.ValueAt[P]>> {
  const { agent, context, conversation, runId } = recorder.state
  const decided: Array<agentParts.Decided> = []
  const of = defined({ callId })
  let value = first
  let isAsked = false
  for (const guard of guards) {
    const { name, on } = guard
    const all: guardTypes.SeenBase = { ...seenOf(value), agent, runId, context, conversation }
    // Sound: the guards are guards of this place
    const seen = all as guardTypes.Seen
    const given = yield* ask({ recorder }, guard, key, seen)
    const isOther = given._tag === "Replace" && (isBeside(guard) || !fits[on](given.value))
    const verdict = isOther
      ? refuse(`The guard ${quote(name)} could not decide: it has no such verdict at this place.`)
      : given
    const base = { _tag: "GuardDecided", guard: name, on, ...of } as const
    if (verdict._tag === "Refuse") {
      return { value, decided: [...decided, { ...base, verdict: "Refused", reason: verdict.reason }], stop: "Refused" }
    }
    if (verdict._tag === "Ask") {
      isAsked = true
      decided.push({ ...base, verdict: "Asked", reason: verdict.reason })
    }
    if (verdict._tag === "Replace") {
      // Sound: the value fits the place
      value = verdict.value as guardTypes.ValueAt[P]
      decided.push({ ...base, verdict: "Replaced" })
    }
  }
  return isAsked ? { value, decided, stop: "Asked" } : { value, decided }
})

/** Records verdicts. A refusal ends the run. */
const record = Effect.fnUntraced(function* (
  { recorder }: Pick<agentParts.ActiveRun, "recorder">,
  decided: ReadonlyArray<agentParts.Decided>
): Effect.fn.Return<undefined> {
  for (const event of decided) yield* recorder.recordNow(event)
})

/** Verdicts about a value. The first verdict that asks a person has the value, which is held. */
const holding = Effect.fnUntraced(function* (
  { recorder }: Pick<agentParts.ActiveRun, "recorder">,
  decided: ReadonlyArray<agentParts.Decided>,
  place: string,
  text: string,
  value: Pick<runParts.Held, "answer" | "callId" | "handoff" | "result"> = {}
): Effect.fn.Return<ReadonlyArray<agentParts.Decided>> {
  const [first, ...others] = decided.filter(({ verdict }) => verdict === "Asked")
  if (first === undefined) return decided
  const { messageId, on } = first
  const guards = [first.guard, ...others.map(({ guard }) => guard)] as const
  const reason = [first, ...others].map((one) => one.reason).join("\n")
  const id = `guard/${place}`
  const digest = yield* runParts.requestDigest({
    place: [recorder.state.runId, id],
    contract: guards.join(" "),
    arguments: { reason, text }
  })
  const bounds = runRequests.boundsIn(yield* Effect.context<never>(), recorder.now())
  const held: runParts.Held = { id, digest, on, guards, reason, ...bounds, ...value, ...defined({ messageId }) }
  return decided.map((one) => (one === first ? { ...one, held } : one))
})

/** Verdicts about a message of the user. */
const about =
  (messageId: string) =>
  (one: agentParts.Decided): agentParts.Decided => ({ ...one, messageId })

/** A message of the user, as it enters the conversation. The text of a message that is refused is withheld from all requests. */
const passInput = Effect.fnUntraced(function* (
  all: guardTypes.Guards,
  run: Pick<agentParts.ActiveRun, "recorder">,
  message: Message.UserMessage,
  asksModel: boolean
) {
  const guards = all.filter((guard) => guard.on === "input" && !(asksModel && isBeside(guard)))
  if (guards.length === 0) return { message, decided: [] }
  const files = message.content.filter(({ type }) => type !== "text")
  const first = history.text(message)
  const made = (text: string): Message.UserMessage =>
    text === first ? message : { ...message, content: [ToolResult.textPart(text), ...files] }
  const key = `input/${message.id}`
  const { decided, stop, value } = yield* pass<"input">(run, guards, key, first, (text) => ({
    text,
    message: made(text)
  }))
  if (stop === "Refused") return { message: runTransition.withheldMessage(message), decided }
  return { message: made(value), decided: yield* holding(run, decided.map(about(message.id)), key, value) }
})

const viewOf = ({ conversation, view = conversation }: runParts.State) => history.asHistory(view)

/** The prompt of a model call, with the text of its newest message. */
const promptOf = ({ recorder }: agentParts.ActiveRun) => {
  const newest = history.lastMessage(viewOf(recorder.state))
  const text = newest === undefined ? "" : Message.text(newest)
  return (prompt: Prompt.Prompt) => ({ prompt, text })
}

/** A guard that has asked a person, who approved, is not asked again about this prompt. */
const passPrompt = Effect.fnUntraced(function* (guards: guardTypes.Guards, call: agentParts.ModelCall) {
  const { action, request, run } = call
  const seenOf = promptOf(run)
  const key = `model/${action.step}`
  const approved: ReadonlyArray<string> = run.recorder.state.held?.find(({ on }) => on === "beforeModel")?.guards ?? []
  const asked = before(guards, "beforeModel").filter(({ name }) => !approved.includes(name))
  const { decided, stop, value } = yield* pass<"beforeModel">(run, asked, key, request.prompt, seenOf)
  yield* record(run, yield* holding(run, decided, key, seenOf(value).text))
  return stop === undefined ? { ...call, request: { ...request, prompt: value } } : undefined
})

/** The messages of the user that a model call answers. */
const answeredMessages = (run: agentParts.ActiveRun): ReadonlyArray<Message.UserMessage> => {
  const found: Array<Message.UserMessage> = []
  for (let node = viewOf(run.recorder.state).last; node !== undefined; node = node.previous) {
    const { message } = node
    if (message.role === "assistant" || message.role === "tool") break
    if (message.role === "user") found.push(message)
  }
  return found.reverse()
}

/** The decisions of the guards beside a model call. */
const decideBeside = Effect.fnUntraced(function* (
  guards: guardTypes.Guards,
  { action, request, run }: agentParts.ModelCall
) {
  const all: Array<agentParts.Decided> = []
  const unlessRefused = (decided: ReadonlyArray<agentParts.Decided>, stop: Passed<unknown>["stop"]) =>
    stop === "Refused" ? Effect.fail(new Withdrawn({ decided })) : Effect.sync(() => void all.push(...decided))
  for (const message of answeredMessages(run)) {
    const seen = (text: string) => ({ text, message })
    const text = history.text(message)
    const onInput = guards.filter(({ on }) => on === "input")
    const { decided, stop } = yield* pass<"input">(run, onInput, `input/${message.id}`, text, seen)
    yield* unlessRefused(decided.map(about(message.id)), stop)
  }
  const onPrompt = guards.filter(({ on }) => on === "beforeModel")
  const { decided, stop } = yield* pass<"beforeModel">(
    run,
    onPrompt,
    `model/${action.step}`,
    request.prompt,
    promptOf(run)
  )
  yield* unlessRefused(decided, stop)
  return all
})

const passModel = Effect.fnUntraced(function* (
  guards: guardTypes.Guards,
  call: agentParts.ModelCall,
  send: agentParts.Send
): Effect.fn.Return<agentParts.Answered | undefined, AgentError.AgentError> {
  const { action, agent, run } = call
  const { recorder } = run
  const key = `model/${action.step}`
  const besides = guards.filter(isBeside)
  const sending = Effect.suspend(() => send(call))
  const answered = yield* Effect.result(
    besides.length === 0
      ? Effect.map(sending, (answer): [agentParts.Answered, Array<agentParts.Decided>] => [answer, []])
      : Effect.all([sending, decideBeside(besides, call)], { concurrency: "unbounded" })
  )
  if (Result.isFailure(answered)) {
    const { failure } = answered
    if (!(failure instanceof Withdrawn)) return yield* Effect.fail(failure)
    return yield* withdraw(run, failure.decided, recorder.written?.result())
  }
  const [success, asks] = answered.success
  // An approval by the provider ends the run
  if (Result.isFailure(success) || success.success.approvals.length > 0) return success
  let { content } = success.success
  const decided = Array.from(asks)
  for (const on of ["afterModel", "output"] as const) {
    const given = content
    const first = answerText(agent, given)
    if (on === "output" && first === "") continue
    const passed = yield* pass<typeof on>(run, before(guards, on), key, first, (text) => ({
      text,
      content: text === first ? given : (withAnswerText(agent, given, text) ?? given)
    }))
    const after = passed.value === first ? given : withAnswerText(agent, given, passed.value)
    if (passed.stop === "Refused") return yield* withdraw(run, [...decided, ...passed.decided], success.success)
    if (after === undefined) {
      const reason = "A guard has put a text in place of the output that is not JSON."
      const refused = passed.decided.map((one) => ({ ...one, verdict: "Refused", reason }) as const).slice(-1)
      return yield* withdraw(run, refused, success.success)
    }
    decided.push(...passed.decided)
    content = after
  }
  if (decided.some(({ verdict }) => verdict === "Asked")) {
    const { finishReason, model = modelCall.askedModel(agent, recorder).name, response } = success.success
    const answer = yield* Message.assistant(content, defined({ finishReason, model, response }))
    const held = yield* holding(run, decided, key, answerText(agent, content), { answer })
    return yield* withdraw(run, held, success.success)
  }
  yield* record(run, decided)
  // The shown text is no beginning of the answer
  const isOther = content !== success.success.content && !recorder.holds
  if (isOther) recorder.messageId = yield* yield* Message.MessageId
  if (run.streaming && recorder.holds) yield* modelCall.showAnswer(recorder, content)
  return Result.succeed({ ...success.success, content })
})

/** Records an answer that is refused or held. Its tokens count, and what a screen shows of it is withdrawn. */
const withdraw = Effect.fnUntraced(function* (
  run: agentParts.ActiveRun,
  decided: ReadonlyArray<agentParts.Decided>,
  answer: modelMessages.ResponseContent | undefined
) {
  const { recorder } = run
  recorder.written = undefined
  if (answer === undefined || answer.content.length === 0) return yield* record(run, decided)
  const usage = yield* agentMachine.usageOf(recorder, answer)
  const used = recorder.spent(usage)
  const at = recorder.now()
  // Together: an answer that is held is not made again
  yield* recorder.record({ _tag: "AnswerDiscarded", at, usage, ...used }, ...decided.map((one) => ({ ...one, at })))
  yield* sharedBudgets.settle(run, used.spent ?? {})
})

/** The text of an answer for the user, and the output where a tool takes it. */
const answerText = ({ outputTool }: agentParts.ModelAgent, content: ReadonlyArray<Message.AssistantPart>): string =>
  content
    .flatMap((part) => {
      if (part.type === "text") return [part.text]
      return part.type === "tool-call" && part.name === outputTool ? [JSON.stringify(part.arguments)] : []
    })
    .join("")

/** An answer with another text, or with another output where a tool takes it; `undefined` for an output that is not JSON. */
const withAnswerText = (
  { outputTool }: agentParts.ModelAgent,
  content: ReadonlyArray<Message.AssistantPart>,
  text: string
): ReadonlyArray<Message.AssistantPart> | undefined => {
  const outputs = content.filter((part) => part.type === "tool-call" && part.name === outputTool)
  const rest = content.filter(
    // The thoughts of an answer may have its text. Providers ask for them before a call
    ({ type }) => type !== "text" && (type !== "reasoning" || content.some(history.isLocalCall))
  )
  if (outputs.length === 0) {
    const index = rest.findIndex(({ type }) => type === "tool-call")
    return rest.toSpliced(index < 0 ? rest.length : index, 0, ToolResult.textPart(text))
  }
  const args = Result.getOrUndefined(parseSized(text, unlimited))
  if (args === undefined) return undefined
  return rest.map((part) => {
    if (part.type !== "tool-call" || part.name !== outputTool) return part
    const { text: _, ...call } = part
    return { ...call, arguments: args }
  })
}

/**
 * A pass leaves no record: the next event of the call is the record, and a call without one is asked about again. Other arguments are
 * recorded, so that a person approves them, and a second process uses them.
 */
const passTool = Effect.fnUntraced(function* (
  all: guardTypes.Guards,
  passing: agentParts.Passing
): Effect.fn.Return<agentParts.Passing> {
  const { call, handoff, prepareWith, result, run } = passing
  const { contract, id: callId } = call
  const ofCall = { tool: contract.name, callId, arguments: call.arguments }
  if (result !== undefined) {
    const guards = before(all, "afterTool")
    const seenOf = (result: ToolResult.ToolResult) => ({ ...ofCall, result, text: ToolResult.text(result) })
    const key = `result/${callId}`
    const { decided, stop, value } = yield* pass<"afterTool">(run, guards, key, result, seenOf, callId)
    yield* record(
      run,
      yield* holding(run, decided, key, ToolResult.text(value), { callId, result: value, ...defined({ handoff }) })
    )
    return { ...passing, result: stop === "Refused" ? runTransition.withheldResult : value, isAsked: stop === "Asked" }
  }
  const guards = before(all, "beforeTool")
  const seenOf = (args: JsonObject) => ({ ...ofCall, arguments: args, text: JSON.stringify(args) })
  const passed = yield* pass<"beforeTool">(run, guards, `call/${callId}`, call.arguments, seenOf, callId)
  const { decided, stop, value } = passed
  if (value === call.arguments || stop === "Refused") {
    yield* record(run, decided)
    return { ...passing, isAsked: stop === "Asked" }
  }
  const replaced = prepareWith?.(value)
  if (replaced === undefined || Result.isFailure(replaced)) {
    const reason = `A guard has put other arguments into a call of ${quote(contract.name)}, which the tool does not take.`
    const last = decided.slice(-1).map((one) => ({ ...one, verdict: "Refused", reason }) as const)
    yield* record(run, last)
    return passing
  }
  const isLast = (index: number) => index === decided.findLastIndex(({ verdict }) => verdict === "Replaced")
  const events = decided.map((one, index) => (isLast(index) ? { ...one, arguments: replaced.success.arguments } : one))
  yield* record(run, events)
  return { ...passing, call: replaced.success, isAsked: stop === "Asked" }
})

/** The guards of a run with their code. */
export const guarding = (guards: guardTypes.Guards): agentParts.Guarding => ({
  withdraws: withdraws(guards),
  holds: holds(guards),
  holdsResults: holdsResults(guards),
  passInput: (run, message, asksModel) => passInput(guards, run, message, asksModel),
  passPrompt: (call) => passPrompt(guards, call),
  passModel: (call, send) => passModel(guards, call, send),
  passTool: (passing) => passTool(guards, passing)
})
