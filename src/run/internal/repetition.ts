/** Rounds of calls that repeat: the same calls with the same results, one answer after the other. */

import * as Equal from "effect/Equal"
import * as Schema from "effect/Schema"
import type * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import type * as options from "../../payload/internal/options.ts"
import type * as ToolResult from "../../tool/ToolResult.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(2))

/** The numbers of rounds in a row after which a model that repeats itself gets a note, and after which its run ends. */
export const RepeatedCalls = Schema.Union([
  Schema.Struct({ note: Schema.optionalKey(Count), end: Schema.optionalKey(Count) }),
  Schema.Literal("unlimited")
])

export type RepeatedCalls = typeof RepeatedCalls.Type

export const isRepeatedCalls = Schema.is(RepeatedCalls)

export const expected = `note and end as whole numbers from 2, or "unlimited"`

export const allowed: options.Allowed = { expected, fits: isRepeatedCalls }

const defaults = { note: 3, end: 5 } as const

/** Rounds that repeat: the names of their tools, and their number. */
export interface Repetition {
  readonly tools: ReadonlyArray<string>
  readonly times: number
}

/** One answer with calls, and their results. `before` is where the rounds before it end. */
interface Round {
  readonly calls: ReadonlyArray<Message.ToolCallPart>
  readonly results: ReadonlyMap<string, ToolResult.ToolResult>
  readonly before: history.History["last"]
}

/**
 * The round that ends here, back to its answer. A message of the user ends the search, and so does an answer without calls. Calls
 * that were interrupted make no round: the model may make them again.
 */
const roundAt = (end: history.History["last"]): Round | undefined => {
  const results = new Map<string, ToolResult.ToolResult>()
  for (let node = end; node !== undefined; node = node.previous) {
    const { message } = node
    if (message.role === "user") return undefined
    if (message.role === "tool") {
      if (message.result._tag === "Failure" && message.result.type === "interrupted") return undefined
      results.set(message.callId, message.result)
    }
    if (message.role === "assistant") {
      const calls = message.content.filter(history.isLocalCall)
      return calls.length === 0 ? undefined : { calls, results, before: node.previous }
    }
  }
  return undefined
}

const namesOf = ({ calls }: Round): ReadonlyArray<string> => Array.from(new Set(calls.map(({ name }) => name))).sort()

/** True if each call of a round was made in the other one, with the same result. */
const isWithin = (round: Round, other: Round): boolean =>
  round.calls.every((call) =>
    other.calls.some(
      ({ arguments: args, id, name }) =>
        name === call.name &&
        Equal.equals(args, call.arguments) &&
        Equal.equals(other.results.get(id), round.results.get(call.id))
    )
  )

/** True for two rounds with the same calls and results: equal calls of one answer count once, and their order does not count. */
const isSame = (round: Round, other: Round): boolean => isWithin(round, other) && isWithin(other, round)

/**
 * The number of times in a row that the newest round of a conversation was made. Each call of a round has to be the same: a round with one other
 * call, or with one other result, is progress. `polls` names tools whose calls may repeat.
 */
export const find = (
  conversation: history.Conversation,
  limits: RepeatedCalls | undefined,
  polls: (tool: string) => boolean
): Repetition | undefined => {
  if (limits === "unlimited") return undefined
  const newest = roundAt(history.asHistory(conversation).last)
  if (newest === undefined) return undefined
  const tools = namesOf(newest)
  const { end, note } = { ...defaults, ...limits }
  const most = Math.max(end, note)
  let times = 1
  for (let round = roundAt(newest.before); times < most && round !== undefined; round = roundAt(round.before)) {
    if (!isSame(round, newest)) break
    times += 1
  }
  return times === 1 || tools.some(polls) ? undefined : { tools, times }
}

/** The smallest number of rounds that has a consequence. */
export const least = (limits: RepeatedCalls | undefined): number => {
  if (limits === "unlimited") return Number.POSITIVE_INFINITY
  const { end, note } = { ...defaults, ...limits }
  return Math.min(end, note)
}

/** True for a repetition that ends its run. */
export const isEnd = ({ times }: Repetition, limits: RepeatedCalls | undefined): boolean =>
  limits !== "unlimited" && times >= (limits?.end ?? defaults.end)

/** The note to the model about a repetition, if it gets one. */
export const noteOf = ({ times, tools }: Repetition, limits: RepeatedCalls | undefined): string | undefined => {
  if (limits === "unlimited" || times < (limits?.note ?? defaults.note)) return undefined
  const names = tools.map((tool) => JSON.stringify(tool)).join(", ")
  return [
    `You have called ${names} ${times} times in a row with the same arguments, and the result was the same each time.`,
    "Another call of this kind will not change it.",
    "Do something else, or answer with what you know."
  ].join(" ")
}
