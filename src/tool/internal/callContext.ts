/** The services of a call: services that a layer was built with, and services that the call brings itself. */

import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { constUndefined } from "effect/Function"
import * as Metric from "effect/Metric"
import * as Random from "effect/Random"
import * as References from "effect/References"
import * as Scheduler from "effect/Scheduler"
import * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import * as IdGenerator from "effect/ai/IdGenerator"
import type { JsonObject } from "../../payload/Json.ts"
import * as Limits from "../../payload/Limits.ts"
import * as fuel from "../../payload/internal/fuel.ts"
import { Gate } from "../../payload/internal/gate.ts"
import * as RunContext from "../RunContext.ts"

/** A run under way, for the runs that the code inside it starts. `outer` is the run around it. */
interface RunAround {
  /** Of the run of an agent. */
  readonly agent?: string | undefined
  readonly maxDepth: number
  readonly context: JsonObject
  outer: RunAround | undefined
  ended: boolean
  /** Contexts of {@link madeInRun}, by their functions. */
  readonly made: Map<object, { readonly from: Context.Context<never>; readonly context: Context.Context<never> }>
}

/** The run whose fibers inherit this. It may have ended: use {@link runAround}. */
const CurrentRun = Context.Reference<RunAround | undefined>("effect-emissary/tool/CurrentRun", {
  defaultValue: () => undefined
})

/** The innermost run that has not ended. Runs that have are unlinked, so that a chain of jobs does not keep them. */
const underWay = (run: RunAround | undefined): RunAround | undefined => {
  let found = run
  while (found?.ended) found = found.outer
  if (found !== undefined) found.outer = underWay(found.outer)
  return found
}

/** The run that the current code is inside of. A fiber that outlives its run is in none. */
export const runAround = (services: Context.Context<never>): RunAround | undefined =>
  underWay(Context.get(services, CurrentRun))

/** The number of runs around a run that begins inside this one. */
export const depthIn = (run: RunAround | undefined): number =>
  run === undefined ? 0 : 1 + depthIn(underWay(run.outer))

/**
 * The `RunContext` of a run that begins here. A fiber that outlives its run has the context of the run around it, if
 * there is one.
 */
export const inheritedContext = (services: Context.Context<never>): JsonObject => {
  const run = Context.get(services, CurrentRun)
  const context = Context.get(services, RunContext.RunContext)
  return run?.ended && run.context === context ? (underWay(run)?.context ?? {}) : context
}

/**
 * Makes a context from the context of a run, once for the run, because all batches of a run share one context. The made
 * context is kept with the run. In a `WeakMap` its key would be reachable from its value, and stay until a full
 * collection.
 */
export const madeInRun = (
  from: Context.Context<never>,
  make: (from: Context.Context<never>) => Context.Context<never>
): Context.Context<never> => {
  const made = Context.get(from, CurrentRun)?.made
  const known = made?.get(make)
  if (known?.from === from) return known.context
  const context = make(from)
  made?.set(make, { from, context })
  return context
}

/** The tracer that the program brings. Spans leave the process by no other. */
export const tracerOf = (services: Context.Context<never>): Tracer.Tracer | undefined =>
  Context.getOrUndefined(services, Tracer.Tracer)

/** True if the program has a tracer, or records metrics. */
export const isObserved = (services: Context.Context<never>): boolean =>
  tracerOf(services) !== undefined || services.mapUnsafe.has(keys.metrics)

/**
 * Runs an effect once as a run, and within its span: the runs that its code starts are inside it until it ends. It has a scope of its own, so
 * that what its code acquires is released with it, whatever scope is around it.
 */
export const asRun = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  options: Pick<RunAround, "agent" | "context" | "maxDepth" | "outer">,
  span?: Tracer.Span
): Effect.Effect<A, E, Exclude<R, Scope.Scope>> => {
  const run: RunAround = { ...options, ended: false, made: new Map() }
  const inside = Effect.updateContext(Effect.scoped(effect), (services: Context.Context<Exclude<R, Scope.Scope>>) => {
    const map = new Map<string, unknown>(services.mapUnsafe)
    map.set(RunContext.RunContext.key, run.context)
    map.set(CurrentRun.key, run)
    if (span !== undefined) {
      const parent = Context.get(services, References.CurrentStackFrame)
      map.set(Tracer.ParentSpan.key, span)
      map.set(References.CurrentStackFrame.key, { name: span.name, stack: constUndefined, parent })
    }
    return Context.makeUnsafe<Exclude<R, Scope.Scope>>(map)
  })
  return Effect.onExit(inside, () => {
    run.ended = true
    return Effect.void
  })
}

/**
 * Keys of references of modules that are not imported here. Importing the modules of Effect would load them for a key
 * alone.
 */
export const keys = {
  console: "effect/Console",
  errorReporters: "effect/ErrorReporter/CurrentErrorReporters",
  capture: "effect-emissary/tool/Capture",
  currentCall: "effect-emissary/tool/CurrentCall",
  durability: "effect-emissary/agent/Durability",
  hostGuards: "effect-emissary/agent/HostGuards",
  messageId: "effect-emissary/conversation/MessageId",
  performance: "effect-emissary/tool/Performance",
  metrics: "effect-emissary/tool/Metrics",
  place: "effect-emissary/tool/Place",
  toolRuntime: "effect-emissary/tool/ToolRuntime"
} as const

/**
 * The place of a run in the runs around it, the same whenever the program runs again: the call or the step that it belongs
 * to. Only a durable driver reads it. It is empty outside of every run.
 */
export const Place = Context.Reference<string>(keys.place, { defaultValue: () => "" })

/** Runs an effect at a place inside the current one. */
export const at =
  (name: string) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(Place, (place) => Effect.provideService(effect, Place, `${place}/${name}`))

/**
 * References that a call brings, and its source of ids. A reference that the call does not bring comes from the layer.
 */
const fromCall: ReadonlySet<string> = new Set([
  keys.console,
  keys.errorReporters,
  keys.capture,
  keys.durability,
  keys.messageId,
  keys.metrics,
  keys.performance,
  keys.place,
  keys.toolRuntime,
  IdGenerator.IdGenerator.key,
  ...[
    ...Object.values(References),
    Clock.Clock,
    Gate,
    Limits.Limits,
    Metric.CurrentMetricAttributes,
    Random.Random,
    RunContext.CallReferences,
    Scheduler.Scheduler
  ].map(({ key }) => key)
])

/** The key of `Asking` of runs. */
export const askingKey = "effect-emissary/run/Asking"

/** Services of the place and of the run in which a layer is built. They end with it. */
const ofPlace: ReadonlySet<string> = new Set([
  askingKey,
  keys.currentCall,
  // Joined where the services of an agent are captured
  keys.hostGuards,
  CurrentRun.key,
  fuel.Current.key,
  RunContext.RunContext.key,
  Scope.Scope.key,
  Tracer.ParentSpan.key
])

const filter = (context: Context.Context<never>, isKept: (key: string) => boolean): Context.Context<never> =>
  Context.makeUnsafe(new Map([...context.mapUnsafe].filter(([key]) => isKept(key))))

/**
 * The context of a call over the services that were captured for its code. A captured service stays; a call changes
 * references and adds services that were not captured.
 */
export const over = (captured: Context.Context<never>): ((call: Context.Context<never>) => Context.Context<never>) => {
  const given = filter(captured, (key) => !ofPlace.has(key) && !fromCall.has(key))
  const defaults = filter(captured, (key) => fromCall.has(key))
  const defaultKeys = [...defaults.mapUnsafe.keys()]
  return (call) => {
    const changed = Context.get(call, RunContext.CallReferences).filter(({ key }) => call.mapUnsafe.has(key))
    const kept = changed.length === 0 ? given : Context.omit(...changed)(given)
    const hasAll = defaultKeys.every((key) => call.mapUnsafe.has(key))
    return Context.merge(hasAll ? call : Context.merge(defaults, call), kept)
  }
}
