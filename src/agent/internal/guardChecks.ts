/** The decisions of guards in a run: at each place, in order, and once. */

import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import * as modelMessages from "../../conversation/internal/modelMessages.ts"
import type { JsonObject } from "../../payload/Json.ts"
import { quote } from "../../payload/internal/base.ts"
import { unlimited } from "../../payload/internal/limits.ts"
import { parseSized } from "../../payload/internal/textScanner.ts"
import { defined, isObject } from "../../payload/internal/values.ts"
import * as durability from "../../run/internal/durability.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as telemetry from "../../tool/internal/telemetry.ts"
import type * as AgentError from "../AgentError.ts"
import * as agentMachine from "./agentMachine.ts"
import type * as agentParts from "./agentParts.ts"
import * as guardTypes from "./guardTypes.ts"
import * as modelCall from "./modelCall.ts"
import * as sharedBudgets from "./sharedBudgets.ts"

const isBeside = ({ [guardTypes.TypeId]: { terms } }: guardTypes.Guard): boolean => terms.when === "beside"

/** True for a guard that can withdraw an answer. */
const isAfter = (guard: guardTypes.Guard): boolean =>
  guard.on === "afterModel" || guard.on === "output" || (guard.on === "beforeModel" && isBeside(guard))

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

const beside = (guards: guardTypes.Guards): guardTypes.Guards =>
  guards.filter((guard) => guard.on === "beforeModel" && isBeside(guard))

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

/** The decision of a guard. The guards of the host do not guard the code of a guard. */
const decide = (guard: guardTypes.Guard, seen: guardTypes.Seen): Effect.Effect<guardTypes.AnyVerdict> => {
  const { check, terms } = guard[guardTypes.TypeId]
  const { onFailure, timeout = "30 seconds" } = terms
  const fail = (why: string, cause: Cause.Cause<unknown>): Effect.Effect<guardTypes.AnyVerdict> => {
    const text = `The guard ${quote(guard.name)} could not decide: ${why}.`
    return Effect.as(telemetry.logUnexpected(text, cause), onFailure === "pass" ? { _tag: "Pass" } : refuse(text))
  }
  return Effect.suspend(() => check(seen)).pipe(
    Effect.timeoutOption(timeout),
    Effect.provideService(guardTypes.Host, []),
    Effect.matchCauseEffect({
      onFailure: (cause) => fail("it failed", cause),
      onSuccess: Option.match({ onNone: () => fail("it took too long", Cause.empty), onSome: Effect.succeed })
    })
  )
}

const isVerdict = (value: unknown): value is Schema.Json & guardTypes.AnyVerdict =>
  Predicate.hasProperty(value, "_tag") && Predicate.isString(value._tag)

/**
 * The decision of a guard, which a durable program makes once. A prompt is not stored: the guard is asked for it again, which changes
 * nothing where the answer to the prompt is known.
 */
const ask = (guard: guardTypes.Guard, key: string, seen: guardTypes.Seen): Effect.Effect<guardTypes.AnyVerdict> =>
  Effect.flatMap(durability.Durability, (durable) => {
    const deciding = decide(guard, seen)
    if (durable === undefined) return deciding
    const stored = durability.code({
      name: `guard/${key}/${guard.name}`,
      run: Effect.map(deciding, (verdict): Schema.Json & guardTypes.AnyVerdict => {
        const kept = verdict._tag === "Replace" && guard.on === "beforeModel" ? { _tag: "Replace" } : verdict
        // Sound: all other values are JSON, and what is not is refused where it is stored
        return kept as Schema.Json & guardTypes.AnyVerdict
      }),
      is: isVerdict,
      store: () => ({ type: "GuardFailed", message: "", retryable: false }),
      restore: ({ message }) => message
    })
    return Effect.matchEffect(stored, {
      onFailure: (problem) => Effect.succeed(refuse(`The guard ${quote(guard.name)} could not decide: ${problem}.`)),
      onSuccess: (verdict) => (verdict._tag === "Replace" && !("value" in verdict) ? deciding : Effect.succeed(verdict))
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
    const given = yield* ask(guard, key, seen)
    const isOther = given._tag === "Replace" && (isBeside(guard) || !fits[on](given.value))
    const isOutOfPlace = given._tag === "Ask" && on !== "beforeTool"
    const verdict =
      isOther || isOutOfPlace
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

/** Records verdicts. Returns true after a refusal, which ends the run. */
const record = Effect.fnUntraced(function* (
  { recorder }: Pick<agentParts.ActiveRun, "recorder">,
  { decided, stop }: Pick<Passed<unknown>, "decided" | "stop">
) {
  for (const event of decided) yield* recorder.recordNow(event)
  return stop === "Refused"
})

/** A message with another text, with or without its files. */
const withText = (
  message: Message.UserMessage,
  text: string,
  files = message.content.slice(0, 0)
): Message.UserMessage => ({
  ...message,
  content: [ToolResult.textPart(text), ...files]
})

/**
 * A message of the user, as it enters the conversation. The text of a message that is refused is withheld from this and from all later
 * requests.
 */
const passInput = Effect.fnUntraced(function* (
  all: guardTypes.Guards,
  run: Pick<agentParts.ActiveRun, "recorder">,
  message: Message.UserMessage
) {
  const guards = before(all, "input")
  if (guards.length === 0) return { message, decided: [] }
  const files = message.content.filter(({ type }) => type !== "text")
  const first = history.text(message)
  const made = (text: string) => (text === first ? message : withText(message, text, files))
  const passed = yield* pass<"input">(run, guards, `input/${message.id}`, first, (text) => ({
    text,
    message: made(text)
  }))
  const withheld = "[This message was withheld by a guard.]"
  return { ...passed, message: passed.stop === "Refused" ? withText(message, withheld) : made(passed.value) }
})

const passModel = Effect.fnUntraced(function* (
  guards: guardTypes.Guards,
  call: agentParts.ModelCall,
  send: agentParts.Send
): Effect.fn.Return<agentParts.Answered | undefined, AgentError.AgentError> {
  const { action, agent, request, run } = call
  const { recorder } = run
  const { conversation, view = conversation } = recorder.state
  const newest = history.lastMessage(history.asHistory(view))
  const text = newest === undefined ? "" : Message.text(newest)
  const ofPrompt = (prompt: Prompt.Prompt) => ({ prompt, text })
  const key = `model/${action.step}`
  const asked = yield* pass<"beforeModel">(run, before(guards, "beforeModel"), key, request.prompt, ofPrompt)
  if (yield* record(run, asked)) return undefined
  const guarded = { ...call, request: { ...request, prompt: asked.value } }
  const besides = beside(guards)
  const checking = pass<"beforeModel">(run, besides, key, asked.value, ofPrompt)
  const deciding = Effect.flatMap(checking, ({ decided, stop }) =>
    stop === undefined ? Effect.void : Effect.fail(new Withdrawn({ decided }))
  )
  const sending = Effect.suspend(() => send(guarded))
  const answered = yield* Effect.result(
    besides.length === 0
      ? sending
      : Effect.map(Effect.all([sending, deciding], { concurrency: "unbounded" }), ([answer]) => answer)
  )
  if (Result.isFailure(answered)) {
    const { failure } = answered
    if (!(failure instanceof Withdrawn)) return yield* Effect.fail(failure)
    return yield* withdraw(run, failure.decided, recorder.written?.result())
  }
  const { success } = answered
  // An approval by the provider ends the run
  if (Result.isFailure(success) || success.success.approvals.length > 0) return success
  let { content } = success.success
  for (const on of ["afterModel", "output"] as const) {
    const given = content
    const first = answerText(agent, given)
    if (on === "output" && first === "") continue
    const passed = yield* pass<typeof on>(run, before(guards, on), key, first, (text) => ({
      text,
      content: text === first ? given : (withAnswerText(agent, given, text) ?? given)
    }))
    const after = passed.value === first ? given : withAnswerText(agent, given, passed.value)
    if (passed.stop !== undefined) return yield* withdraw(run, passed.decided, success.success)
    if (after === undefined) {
      const reason = "A guard has put a text in place of the output that is not JSON."
      const decided = passed.decided.map((one) => ({ ...one, verdict: "Refused", reason }) as const).slice(-1)
      return yield* withdraw(run, decided, success.success)
    }
    yield* record(run, passed)
    content = after
  }
  // The shown text is no beginning of the answer
  const isOther = content !== success.success.content && !recorder.holds
  if (isOther) recorder.messageId = yield* yield* Message.MessageId
  if (run.streaming && recorder.holds) {
    const deltas = modelMessages.deltasOf(content)
    modelCall.show(recorder, deltas, true)
    yield* modelCall.showOutput(recorder, deltas, true)
  }
  return Result.succeed({ ...success.success, content })
})

/** Records the refusal of an answer. Nothing of the answer is kept but its tokens, and what a screen shows of it is withdrawn. */
const withdraw = Effect.fnUntraced(function* (
  run: agentParts.ActiveRun,
  decided: ReadonlyArray<agentParts.Decided>,
  answer: modelMessages.ResponseContent | undefined
) {
  const { recorder } = run
  recorder.written = undefined
  if (answer !== undefined && answer.content.length > 0) {
    const usage = yield* agentMachine.usageOf(recorder, answer)
    yield* recorder.recordNow({ _tag: "AnswerDiscarded", usage, ...recorder.spent(usage) })
    yield* sharedBudgets.settle(run, recorder.spent(usage).spent ?? {})
  }
  yield* record(run, { decided })
  return undefined
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
  const { call, prepareWith, result, run } = passing
  const { contract, id: callId } = call
  const ofCall = { tool: contract.name, callId, arguments: call.arguments }
  if (result !== undefined) {
    const guards = before(all, "afterTool")
    const seenOf = (result: ToolResult.ToolResult) => ({ ...ofCall, result, text: ToolResult.text(result) })
    const passed = yield* pass<"afterTool">(run, guards, `result/${callId}`, result, seenOf, callId)
    const isRefused = yield* record(run, passed)
    return { ...passing, result: isRefused ? withheld : passed.value }
  }
  const guards = before(all, "beforeTool")
  const seenOf = (args: JsonObject) => ({ ...ofCall, arguments: args, text: JSON.stringify(args) })
  const passed = yield* pass<"beforeTool">(run, guards, `call/${callId}`, call.arguments, seenOf, callId)
  const { decided, stop, value } = passed
  if (value === call.arguments || stop === "Refused") {
    yield* record(run, passed)
    return { ...passing, isAsked: stop === "Asked" }
  }
  const replaced = prepareWith?.(value)
  if (replaced === undefined || Result.isFailure(replaced)) {
    const reason = `A guard has put other arguments into a call of ${quote(contract.name)}, which the tool does not take.`
    const last = decided.slice(-1).map((one) => ({ ...one, verdict: "Refused", reason }) as const)
    yield* record(run, { decided: last })
    return passing
  }
  const isLast = (index: number) => index === decided.findLastIndex(({ verdict }) => verdict === "Replaced")
  const events = decided.map((one, index) => (isLast(index) ? { ...one, arguments: replaced.success.arguments } : one))
  yield* record(run, { decided: events })
  return { ...passing, call: replaced.success, isAsked: stop === "Asked" }
})

/** The result of a call whose own result a guard has refused: the call was made. */
const withheld = ToolResult.failure("withheld", "The call was made, and its result was withheld by a guard.")

/** The guards of a run with their code. */
export const guarding = (guards: guardTypes.Guards): agentParts.Guarding => ({
  withdraws: withdraws(guards),
  holds: holds(guards),
  holdsResults: holdsResults(guards),
  passInput: (run, message) => passInput(guards, run, message),
  passModel: (call, send) => passModel(guards, call, send),
  passTool: (passing) => passTool(guards, passing)
})
