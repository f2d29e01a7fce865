/**
 * What a step can say besides an answer: that the plan has to wait, or that it is done.
 *
 * Signals travel in the error channel of a function, and are no failures: they are not
 * retried, and end a run with an outcome and not with an error. In a band the other
 * members finish first; of several signals a `Conclude` comes before a `Pause`, and
 * either before a failure.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/**
 * The step waits for somebody. The run ends `Paused`; when it is resumed, the step runs
 * again with the same input.
 *
 * @category errors
 * @since 0.1.0
 */
export class Pause extends Schema.TaggedError<Pause>("effect-emissary/plan/Pause")("Pause", {
  reason: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `The step waits: ${this.reason}. Resume the run to run the step again.`
  }
}

/**
 * The plan, and every plan it is a step of, is done with this answer.
 *
 * @category errors
 * @since 0.1.0
 */
export class Conclude extends Schema.TaggedError<Conclude>("effect-emissary/plan/Conclude")("Conclude", {
  answer: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `The plan concludes with an answer of ${this.answer.length} characters.`
  }
}

/**
 * Pauses the run at this step: its outcome is `Paused`, with the reason among `pauses`.
 *
 * **Details**
 *
 * Resumed, the step runs again with the same input, so it has to find out by itself
 * whether it may go on now; nothing else runs again. The state can be kept meanwhile
 * (`PlanRunState`, or a `Checkpoint`), and resumed by another process.
 *
 * **Example** (Waiting for somebody)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Ref } from "effect"
 * import { Plan, Step, StepSignal } from "effect-emissary"
 *
 * const program = Effect.gen(function* () {
 *   const approved = yield* Ref.make(false)
 *   const plan = yield* Plan.make(
 *     Step.make("draft", { target: ({ task }) => Effect.succeed(`${task}!`) }),
 *     Step.make("publish", {
 *       target: ({ task }) =>
 *         Effect.flatMap(Ref.get(approved), (yes) =>
 *           yes ? Effect.succeed(`published: ${task}`) : StepSignal.pause("somebody has to approve")
 *         )
 *     })
 *   )
 *   const bound = yield* Plan.bind(plan)
 *   const paused = yield* Plan.run(bound, "News")
 *   assert.ok(paused.outcome === "Paused")
 *   assert.deepStrictEqual(
 *     paused.pauses.map(({ reason, step }) => [step, reason]),
 *     [["publish", "somebody has to approve"]]
 *   )
 *
 *   yield* Ref.set(approved, true)
 *   return yield* Plan.resume(bound, paused.state)
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed" && result.output === "published: News!")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const pause = (reason: string): Effect.Effect<never, Pause> => Effect.fail(new Pause({ reason }))

/**
 * Ends the whole plan, and every plan it is a step of, with an answer. The outcome is
 * `Concluded`, and cannot be resumed.
 *
 * **Example** (Nothing left to do)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Plan, Step, StepSignal } from "effect-emissary"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make(
 *     Step.make("look", {
 *       target: ({ task }) => (task === "" ? StepSignal.conclude("Nothing to do.") : Effect.succeed(task))
 *     }),
 *     Step.make("work", { target: ({ task }) => Effect.succeed(`done: ${task}`) })
 *   )
 *   return yield* Plan.run(yield* Plan.bind(plan), "")
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Concluded" && result.answer === "Nothing to do.")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const conclude = (answer: string): Effect.Effect<never, Conclude> => Effect.fail(new Conclude({ answer }))
