/**
 * The events of a streaming run.
 *
 * Each recorded event of the run (a `Run.Event`) comes as exactly one event with the state that holds it. Deltas and
 * progress come between them and are not stored.
 *
 * @since 0.1.0
 */

import type * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Stream from "effect/Stream"
import * as agentPartial from "./internal/agentPartial.ts"
import type { AgentEvent, Result } from "./internal/agentTypes.ts"

export {
  /**
   * One event of a streaming run of an agent with output `A`.
   *
   * **Details**
   *
   * - `RunStarted`: the run began or was resumed.
   * - `StepStarted`: a model call begins. `step` counts from 1 for each user message.
   * - `StepRetried`: the model call of the current step failed with `error` and is made again after `pause` (`Agent.Retry`).
   *   `attempt` is the number of the next attempt, from 2 on. With `model` the run continues with the model of this name, whose
   *   first attempt follows (`Agent.ModelSource`). Earlier deltas of this step are void.
   * - `TextDelta`, `ReasoningDelta`: a piece of the answer's text, or of the model's reasoning. `index` is the index of its part
   *   in the content of the stored answer.
   * - `CallDelta`: a call begins, or a piece of its arguments as text, under the id and the name of the stored call. The first
   *   delta may be empty. Arguments whose text cannot be shown piece by piece come as one delta.
   * - `OutputDelta`: parts of the structured output that became complete and valid, see {@link showOutput}. `value` is all of
   *   the output so far, decoded: a field, or an item of a list, is there when it is complete and fits, and texts without checks grow.
   *   `delta` has the new parts as lines of JSON for front ends. It follows the delta of the text, or of the call of the output, that it is
   *   read from. Another `messageId` begins anew, and without a value nothing is shown.
   * - `StepFinished`: the model answered. `usage` is the usage of this step, `total` the usage of the run so far.
   * - `ToolStarted`: a tool call is about to run.
   * - `ToolProgress`: a tool reports progress (`context.preliminary` of its handler). Not stored.
   * - `ToolFinished`: a tool call has its result. `duration` is zero when nothing was run for it.
   *   `asked` is `true` if a person was asked for the call.
   * - `ApprovalRequested`: a call waits for a decision.
   * - `HandedOff`: the agent `to` has the conversation from here on, and answers in place of the agent `from`, see `Agent.handoff`.
   * - `Child`: an event of an agent that is a tool of this one, under the id of the call. `state` is the state of this
   *   run, which holds the child's state.
   * - `StateChanged`: any other recorded event: a user message, a decision, an answer that was discarded, a mistake of the
   *   model, a conversation shortened to its context window.
   * - `RunFinished`: the last event, with the result that `run` returns.
   *
   * @category models
   * @since 0.1.0
   */
  type AgentEvent,
  /**
   * A structured output that is not complete: keys of objects at any depth may be missing, the ends of texts, and the last items of lists.
   * The items that are there are whole.
   *
   * @category models
   * @since 0.1.0
   */
  type DeepPartial
} from "./internal/agentTypes.ts"

/**
 * Runs a stream to its end, for the result in its last event.
 *
 * **When to use**
 *
 * Use it to show a run under way and still have the result that `run` returns.
 *
 * **Gotchas**
 *
 * The stream of an agent fails or ends with `RunFinished`. A stream that was cut short
 * (`Stream.take`, a filter that drops the last event) has no result: that is a defect.
 *
 * **Example** (Printing while it runs)
 *
 * ```ts
 * import { Effect, Stream } from "effect"
 * import { Agent, AgentEvent } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const greeter = Agent.make("greeter", { instructions: "Greet people." })
 *
 * const printed: Array<string> = []
 * const result = await greeter.stream("Hello, I am Ada.").pipe(
 *   Stream.tap((event) =>
 *     Effect.sync(() => {
 *       if (event._tag === "TextDelta") printed.push(event.delta)
 *     })
 *   ),
 *   AgentEvent.result,
 *   Effect.provide(ScriptedModel.layer([{ text: "Welcome, Ada!" }])),
 *   Effect.runPromise
 * )
 * assert.strictEqual(result.outcome, "Completed")
 * assert.strictEqual(printed.join(""), result.text)
 * ```
 *
 * @category running
 * @since 0.1.0
 */
export const result = <A, E, R>(self: Stream.Stream<AgentEvent<A>, E, R>): Effect.Effect<Result<A>, E, R> =>
  Effect.flatMap(Stream.runLast(self), (found) => {
    const last = Option.getOrUndefined(found)
    if (last?._tag === "RunFinished") return Effect.succeed(last.result)
    const tag = last?._tag ?? "no event"
    return Effect.die(
      new Error(
        `AgentEvent.result: expected RunFinished as the last event, found ${tag}. Pass the whole stream of an agent.`
      )
    )
  })

/**
 * Shows the structured output while it arrives: the stream has `OutputDelta` events.
 *
 * **Details**
 *
 * It holds for all runs of the stream, of agents inside and of plans too. Without it no run reads its output before the end, and a
 * program does not have the code. {@link elements} has it, and sessions show the output to their live readers.
 *
 * **Example** (A form that fills itself)
 *
 * ```ts
 * import { Effect, Schema, Stream } from "effect"
 * import { Agent, AgentEvent } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const guide = Agent.make("guide", { output: Schema.Struct({ cities: Schema.Array(Schema.String) }) })
 *
 * const values = await guide.stream("Two cities of Italy?").pipe(
 *   AgentEvent.showOutput,
 *   Stream.filter((event) => event._tag === "OutputDelta"),
 *   Stream.map(({ value }) => value),
 *   Stream.runCollect,
 *   Effect.provide(ScriptedModel.layer([{ object: { cities: ["Rome", "Turin"] } }])),
 *   Effect.runPromise
 * )
 * assert.deepStrictEqual(values.at(-1), { cities: ["Rome", "Turin"] })
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const showOutput = <A, E, R>(self: Stream.Stream<A, E, R>): Stream.Stream<A, E, R> =>
  Stream.updateContext(self, agentPartial.shownIn<R>)

/**
 * An item of a list of a structured output, or that the items before it do not count.
 *
 * @category models
 * @since 0.1.0
 */
export type Element<A> = Data.TaggedEnum<{
  Element: { readonly index: number; readonly value: A }
  Withdrawn: {}
}>

/** The items of an answer that were emitted. */
interface Emitted {
  readonly messageId: string | undefined
  readonly items: ReadonlyArray<unknown>
}

const itemsAt = (value: unknown, key: string): ReadonlyArray<unknown> => {
  const list = Predicate.hasProperty(value, key) ? value[key] : undefined
  return Array.isArray(list) ? list : []
}

/**
 * The items of a list in the structured output of an agent, each as soon as it is complete and valid.
 *
 * **Details**
 *
 * Each item comes once. `Withdrawn` takes back all items so far: the attempt failed, the model wrote another answer, or the run ended
 * without an output. The items of another attempt follow with indexes from 0 on. At the end of a run that is `Completed` the items after
 * the last `Withdrawn` are the list of the output.
 *
 * **Example** (Cities one by one)
 *
 * ```ts
 * import { Effect, Schema, Stream } from "effect"
 * import { Agent, AgentEvent } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const guide = Agent.make("guide", { output: Schema.Struct({ cities: Schema.Array(Schema.String) }) })
 *
 * const elements = await guide.stream("Three cities of Italy?").pipe(
 *   AgentEvent.elements("cities"),
 *   Stream.runCollect,
 *   Effect.provide(ScriptedModel.layer([{ object: { cities: ["Rome", "Turin"] } }])),
 *   Effect.runPromise
 * )
 * assert.deepStrictEqual(elements, [
 *   { _tag: "Element", index: 0, value: "Rome" },
 *   { _tag: "Element", index: 1, value: "Turin" }
 * ])
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const elements =
  <Key extends string>(key: Key) =>
  <Item, E, R>(
    self: Stream.Stream<AgentEvent<{ readonly [K in Key]: ReadonlyArray<Item> }>, E, R>
  ): Stream.Stream<Element<Item>, E, R> =>
    Stream.mapAccum(
      showOutput(self),
      (): Emitted => ({ messageId: undefined, items: [] }),
      (before, event) => {
        const isEnd = event._tag === "RunFinished"
        const isVoid = event._tag === "StepRetried"
        if (!isEnd && !isVoid && event._tag !== "OutputDelta") return [before, []]
        const { result } = isEnd ? event : {}
        const value = event._tag === "OutputDelta" ? event.value : result?.outcome === "Completed" && result.output
        const items = itemsAt(value, key)
        const messageId = event._tag === "OutputDelta" ? event.messageId : before.messageId
        const count = before.items.length
        const isGrown = messageId === before.messageId && items[count - 1] === before.items[count - 1]
        const follows = isEnd ? Equal.equals(items.slice(0, count), before.items) : isGrown
        const kept = follows ? count : 0
        const withdrawn = kept < count ? [{ _tag: "Withdrawn" as const }] : []
        // Sound: items of the list of this output, which were decoded
        const fresh = (items as ReadonlyArray<Item>)
          .slice(kept)
          .map((value, at) => ({ _tag: "Element" as const, index: kept + at, value }))
        return [{ messageId, items }, [...withdrawn, ...fresh]]
      }
    )
