/** The decisions of guards in a run: at each place, in order, and once. */

import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import type { UserMessage } from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import { quote } from "../../payload/internal/base.ts"
import { defined, isObject } from "../../payload/internal/values.ts"
import * as durability from "../../run/internal/durability.ts"
import type * as runParts from "../../run/internal/runParts.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import * as telemetry from "../../tool/internal/telemetry.ts"
import type * as agentParts from "./agentParts.ts"
import type * as guardTypes from "./guardTypes.ts"

export type Guards = ReadonlyArray<guardTypes.Guard>

/** The guards of the host: of the runs around, and of layers. No definition can take one away. */
export const Host = Context.Reference<Guards>(callContext.keys.hostGuards, { defaultValue: () => [] })

/** The guards that definitions name. */
export const Known = Context.Reference<Guards>("effect-emissary/agent/KnownGuards", { defaultValue: () => [] })

/** Guards, each once: the guards of an agent decide first, and the host has the last word. */
export const join = (...lists: ReadonlyArray<Guards>): Guards => Array.from(new Set(lists.flat()))

/** Adds guards to the guards of the host. */
export const withHost =
  (guards: Guards) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    guards.length === 0
      ? effect
      : Effect.flatMap(Host, (outer) => Effect.provideService(effect, Host, join(guards, outer)))

const isBeside = ({ [typeId]: { terms } }: guardTypes.Guard): boolean => terms.when === "beside"

const typeId: guardTypes.TypeId = "~effect-emissary/agent/Guard"

/** True for a guard that can withdraw an answer. */
const isAfter = (guard: guardTypes.Guard): boolean =>
  guard.on === "afterModel" || guard.on === "output" || (guard.on === "beforeModel" && isBeside(guard))

/** True for a run whose answers can be withdrawn when they are written. */
export const withdraws = (guards: Guards): boolean => guards.some(isAfter)

/** True for a run whose answers are shown as a whole. */
export const holds = (guards: Guards): boolean =>
  guards.some((guard) => isAfter(guard) && guard[typeId].terms.text !== "live")

/** True for a run whose results are shown as a whole. */
export const holdsResults = (guards: Guards): boolean =>
  guards.some(({ [typeId]: { terms }, on }) => on === "afterTool" && terms.text !== "live")

export const before = (guards: Guards, on: guardTypes.Place): Guards =>
  guards.filter((guard) => guard.on === on && !isBeside(guard))

export const beside = (guards: Guards): Guards =>
  guards.filter((guard) => guard.on === "beforeModel" && isBeside(guard))

/** The record of a verdict, without its time. */
export type Decided = Omit<runParts.EventOf<"GuardDecided">, "at">

/** The end of a place: the value, the verdicts to record, and the verdict that held it up. */
export interface Passed<out V> {
  readonly value: V
  readonly decided: ReadonlyArray<Decided>
  readonly stop?: "Refused" | "Asked" | undefined
}

/** The refusal of a guard beside a model call. */
export class Withdrawn extends Data.TaggedError("Withdrawn")<{ readonly decided: ReadonlyArray<Decided> }> {}

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
  const { check, terms } = guard[typeId]
  const { onFailure, timeout = "30 seconds" } = terms
  const fail = (why: string, cause: Cause.Cause<unknown>): Effect.Effect<guardTypes.AnyVerdict> => {
    const text = `The guard ${quote(guard.name)} could not decide: ${why}.`
    return Effect.as(telemetry.logUnexpected(text, cause), onFailure === "pass" ? { _tag: "Pass" } : refuse(text))
  }
  return Effect.suspend(() => check(seen)).pipe(
    Effect.timeoutOption(timeout),
    Effect.provideService(Host, []),
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
export const pass = Effect.fnUntraced(function* <P extends guardTypes.Place>(
  { recorder }: Pick<agentParts.ActiveRun, "recorder">,
  guards: Guards,
  key: string,
  first: guardTypes.ValueAt[P],
  seenOf: (value: guardTypes.ValueAt[P]) => guardTypes.SeenAt[P] & { readonly text: string },
  callId?: string
): Effect.fn.Return<Passed<guardTypes.ValueAt[P]>> {
  const { agent, context, conversation, runId } = recorder.state
  const decided: Array<Decided> = []
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
export const record = Effect.fnUntraced(function* (
  { recorder }: Pick<agentParts.ActiveRun, "recorder">,
  { decided, stop }: Pick<Passed<unknown>, "decided" | "stop">
) {
  for (const event of decided) yield* recorder.recordNow(event)
  return stop === "Refused"
})

/** A message with another text, with or without its files. */
const withText = (message: UserMessage, text: string, files = message.content.slice(0, 0)): UserMessage => ({
  ...message,
  content: [ToolResult.textPart(text), ...files]
})

/**
 * A message of the user, as it enters the conversation. The text of a message that is refused is withheld from this and from all later
 * requests.
 */
export const passInput = Effect.fnUntraced(function* (
  run: Pick<agentParts.ActiveRun, "guards" | "recorder">,
  message: UserMessage
) {
  const guards = before(run.guards, "input")
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
