/** Limits of the time of model calls: as data, from options, and around an attempt. */

import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import { publicDescription } from "../../payload/internal/problems.ts"
import { defined } from "../../payload/internal/values.ts"

/** Limits of the time of each attempt of a model call. An attempt that is late failed with a `TimeoutError`, which is retried. */
export interface ModelTimeouts {
  /** The time until the answer is whole; none by default. */
  readonly model?: Duration.Input | undefined
  /**
   * The time until the first piece of the answer; none by default. The model is asked for a stream then, also where nothing
   * reads one. An answer that comes as a whole (a structured output of the strategy `native`) has the limit `model` alone.
   */
  readonly firstChunk?: Duration.Input | undefined
  /** The time between two pieces of the answer; none by default. The model is asked for a stream, as for `firstChunk`. */
  readonly chunk?: Duration.Input | undefined
}

const Millis = Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)))

/** Limits of the time of each attempt of a model call, as data. */
export const Limits = Schema.Struct({
  modelMillis: Millis,
  firstChunkMillis: Millis,
  chunkMillis: Millis
}).pipe(Schema.encodeKeys({ modelMillis: "model", firstChunkMillis: "first_chunk", chunkMillis: "chunk" }))

export type Limits = typeof Limits.Type

/** Whole milliseconds, `Infinity` for no limit; `undefined` for what is no time, or none at all. */
const millisOf = (input: unknown): number | undefined => {
  if (input === undefined) return undefined
  // Sound: a value that is no duration has none
  const millis = Option.match(Duration.fromInput(input as Duration.Input), {
    onNone: () => 0,
    onSome: Duration.toMillis
  })
  return millis > 0 ? Math.ceil(millis) : undefined
}

/** The limits of options. A limit that is infinite takes the place of another one. */
export const ofOptions = ({ chunk, firstChunk, model }: ModelTimeouts = {}): Limits =>
  defined({
    modelMillis: millisOf(model),
    firstChunkMillis: millisOf(firstChunk),
    chunkMillis: millisOf(chunk)
  })

/** The limits of options as data, `undefined` where there are none. */
export const toData = (given: ModelTimeouts | undefined): Limits | undefined => {
  const finite = Object.entries(ofOptions(given)).filter(([, millis]) => Number.isFinite(millis))
  return finite.length === 0 ? undefined : Object.fromEntries(finite)
}

/** True where the chunks of an answer have limits, so that the model is asked for a stream. */
export const hasChunks = ({ chunkMillis = Infinity, firstChunkMillis = Infinity }: Limits): boolean =>
  Math.min(chunkMillis, firstChunkMillis) < Infinity

/** Marks the error of a limit that was passed. */
const timedOut = "effect-emissary/timedOut"

const lateError = (name: keyof ModelTimeouts, millis: number) =>
  AiError.make({
    module: "LanguageModel",
    method: "streamText",
    reason: new AiError.InternalProviderError({
      description: `no ${name === "model" ? "whole answer" : "part of an answer"} within ${millis} milliseconds (timeouts.${name})`,
      metadata: { [publicDescription]: true, [timedOut]: true }
    })
  })

/** The kind of an error of a model. */
export const kindOf = (reason: AiError.AiErrorReason): string =>
  "metadata" in reason && reason.metadata[timedOut] === true ? "TimeoutError" : reason._tag

const limit = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  name: keyof ModelTimeouts,
  millis: number,
  left = millis
): Effect.Effect<A, E | AiError.AiError, R> =>
  left === Infinity
    ? effect
    : Effect.timeoutOrElse(effect, { duration: Math.max(0, left), orElse: () => Effect.fail(lateError(name, millis)) })

/** The attempt within the limit of its whole. */
export const whole = <A, E, R>(attempt: Effect.Effect<A, E, R>, { modelMillis = Infinity }: Limits) =>
  limit(attempt, "model", modelMillis)

/** The stream of an answer within the limits of its chunks. `hasBegun`: something of the answer has arrived. */
export const chunks = <A, E, R>(
  parts: Stream.Stream<A, E, R>,
  { chunkMillis = Infinity, firstChunkMillis = Infinity }: Limits,
  hasBegun: () => boolean
): Stream.Stream<A, E | AiError.AiError, R> =>
  Stream.transformPull(parts, (pull) =>
    Effect.map(Clock.currentTimeMillis, (start) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        hasBegun()
          ? limit(pull, "chunk", chunkMillis)
          : limit(pull, "firstChunk", firstChunkMillis, firstChunkMillis - (now - start))
      )
    )
  )
