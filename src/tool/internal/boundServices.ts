import type * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"

/** The scope and the span belong to the place where a tool is bound, not to its calls. */
export const withoutPlace = (context: Context.Context<never>): Context.Context<never> =>
  Context.omit(
    Scope.Scope,
    Tracer.ParentSpan
  )(
    // a context may hold any service; omit only needs to know that these two may be among them
    context as Context.Context<Scope.Scope | Tracer.ParentSpan>
  )

/**
 * Lays the services of the place where a tool is bound under those that the handler's
 * layer captured: what a tool names as `dependencies` is required there, because a
 * body requires nothing.
 */
export const capture = <E>(
  handler: Effect.Effect<Option.Option<Tool.Handler<string>>, E>
): Effect.Effect<Option.Option<Tool.Handler<string>>, E> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.map(
      handler,
      Option.map((entry) => ({ ...entry, context: Context.merge(withoutPlace(context), entry.context) }))
    )
  )
