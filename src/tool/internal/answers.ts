/** The answers that a function or a handler has for the questions that it asks while it runs. */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"

interface Answered {
  readonly question: string
  readonly answer: Schema.Json
}

/** The answers that were not read yet. */
const Left = Context.Reference<Array<Answered> | undefined>("effect-emissary/tool/AnswersLeft", {
  defaultValue: () => undefined
})

/** Runs an effect with the answers that it has by now. */
export const withAnswers = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  answers: ReadonlyArray<Answered>
): Effect.Effect<A, E, R> => Effect.suspend(() => Effect.provideService(effect, Left, [...answers]))

/** The next answer to a question. Each is read once, in the order in which they came. */
export const take = (question: string): Effect.Effect<Answered | undefined> =>
  Effect.map(Left, (left = []) => {
    const index = left.findIndex((one) => one.question === question)
    return index < 0 ? undefined : left.splice(index, 1)[0]
  })
