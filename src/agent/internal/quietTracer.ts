/** Spans of model calls that do not say what the provider said. */
import * as AiError from "effect/ai/AiError"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Tracer from "effect/Tracer"
import * as AgentError from "../AgentError.ts"

const withoutText = (exit: Exit.Exit<unknown, unknown>): Exit.Exit<unknown, unknown> =>
  Exit.isSuccess(exit)
    ? exit
    : Exit.failCause(
        Cause.map(exit.cause, (error) => (AiError.isAiError(error) ? AgentError.modelFailed(error) : error))
      )

const quieted = new WeakSet<Tracer.Span>()

/** The same span, so that exporters know their own. */
const quiet = (span: Tracer.Span): Tracer.Span => {
  if (quieted.has(span)) return span
  quieted.add(span)
  const end = span.end.bind(span)
  return Object.assign(span, {
    end: (time: bigint, exit: Exit.Exit<unknown, unknown>) => end(time, withoutText(exit))
  })
}

/**
 * Core ends the span of a model call with the `AiError` as it is, and exporters print
 * it: prompts and keys that a provider quotes would leave the process.
 */
export const withQuietSpans = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Tracer.Tracer, (tracer) => {
    const { context } = tracer
    const span: Tracer.Tracer["span"] = (options) => quiet(tracer.span(options))
    return Effect.withTracer(
      effect,
      Tracer.make(
        context === undefined
          ? { span }
          : { span, context: (primitive, fiber) => Reflect.apply(context, tracer, [primitive, fiber]) }
      )
    )
  })
