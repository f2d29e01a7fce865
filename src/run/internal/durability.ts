/**
 * The way in which runs survive their process where the program around them runs again after a crash: each call of a model
 * and each piece of code of the user is performed once, and its result is found when the program runs again.
 */

import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AiError } from "effect/ai/AiError"
import type { ResponseContent } from "../../conversation/internal/modelMessages.ts"
import { isObject } from "../../payload/internal/values.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import { StepFailure } from "./planRunParts.ts"
import type { Decision, Request } from "./runRequests.ts"

/** A result that is not stored: it is too large, or was stored by a version that this one cannot read. */
export class NotStored extends Data.TaggedError("NotStored")<{ readonly problem: string }> {
  override get message(): string {
    return this.problem
  }
}

/** A request to a model that has ended. An answer that cannot be used has an error beside it. */
export interface Exchange {
  readonly answer: ResponseContent
  readonly error: AiError | undefined
}

/**
 * - `host`: runs what is no part of another run, at a place of its own.
 * - `once`: the JSON that `code` makes, or that it made before under this name and at this place. It is performed at least
 *   once, and not again after it has ended.
 * - `exchange`: the same for a request to a model.
 * - `sleep`: waits, also while no process runs.
 * - `decisions`: waits for decisions from outside about all requests.
 */
export interface Durability {
  readonly host: <A, E>(run: Effect.Effect<A, E>) => Effect.Effect<A, E>
  readonly once: (name: string, code: Effect.Effect<Schema.Json>) => Effect.Effect<Schema.Json, NotStored>
  readonly exchange: (name: string, ask: Effect.Effect<Exchange>) => Effect.Effect<Exchange>
  readonly sleep: (duration: Duration.Duration) => Effect.Effect<void>
  readonly decisions: (requests: ReadonlyArray<Request>) => Effect.Effect<ReadonlyArray<Decision>>
}

/** The durable program that runs this run, if there is one. */
export const Durability = Context.Reference<Durability | undefined>(callContext.keys.durability, {
  defaultValue: () => undefined
})

/** Waits as the program around a run does. */
export const sleep = (duration: Duration.Duration): Effect.Effect<void> =>
  Effect.flatMap(Durability, (durable) => (durable === undefined ? Effect.sleep(duration) : durable.sleep(duration)))

/** Code of the user, which a durable program performs once. Its failure is stored in words, and made of them again. */
export const code = <A extends Schema.Json, E>(options: {
  readonly name: string
  readonly run: Effect.Effect<A, E>
  readonly is: (value: Schema.Json) => value is A
  readonly store: (error: E) => StepFailure
  readonly restore: (failure: StepFailure) => E
}): Effect.Effect<A, E> =>
  Effect.flatMap(Durability, (durable) => {
    const { is, name, restore, run, store } = options
    if (durable === undefined) return run
    let failed: E | undefined
    const stored = Effect.match(run, {
      onSuccess: (value): Schema.Json => ({ value }),
      onFailure: (error): Schema.Json => {
        failed = error
        return { failure: { ...store(error) } }
      }
    })
    const notStored = (message: string) => Effect.fail(restore({ type: "NotStored", message, retryable: false }))
    return Effect.matchEffect(durable.once(name, stored), {
      onFailure: ({ problem }) => notStored(problem),
      onSuccess: (found) => {
        const { failure, value } = isObject(found) ? found : {}
        if (value !== undefined && is(value)) return Effect.succeed(value)
        if (failed !== undefined) return Effect.fail(failed)
        return isFailure(failure) ? Effect.fail(restore(failure)) : notStored("it is stored by another version")
      }
    })
  })

const isFailure = Schema.is(StepFailure)

/**
 * Runs something to its end. Where its program is durable it waits for decisions and resumes, and a part of another run
 * (`isPart`) leaves that to the run around it.
 */
export const untilDecided = <A, E>(
  isPart: boolean,
  run: Effect.Effect<A, E>,
  requestsOf: (result: A) => ReadonlyArray<Request>,
  resume: (result: A, decisions: ReadonlyArray<Decision>) => Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.flatMap(Durability, (durable) => {
    if (durable === undefined || isPart) return run
    const untilEnd = (running: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.flatMap(running, (result) => {
        const requests = requestsOf(result)
        return requests.length === 0
          ? Effect.succeed(result)
          : untilEnd(Effect.flatMap(durable.decisions(requests), (decisions) => resume(result, decisions)))
      })
    return durable.host(untilEnd(run))
  })
