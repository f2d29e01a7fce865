/** The state of a run under way: what happened is applied to it, written, and told. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Semaphore from "effect/Semaphore"
import { JournalFailed, PlanError, withCause } from "../../PlanError.ts"
import type { PlanEvent } from "../../PlanEvent.ts"
import type { Journal } from "../../PlanOptions.ts"
import type { PlanRunEvent, PlanStarted } from "../../PlanRunEvent.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import * as PlanTransition from "../../PlanTransition.ts"
import { viewsOf } from "./views.ts"

type Batch = readonly [PlanRunEvent, ...Array<PlanRunEvent>]

/**
 * Applies facts in the order they come, and writes them in that order. Neither can be cut
 * off in between. After a write failed nothing is applied or written any more.
 */
export interface Recorder {
  readonly state: () => PlanRunState
  /** What a write failed with. */
  readonly broken: () => PlanError | undefined
  /** Writes the fact that began the run, and tells it. */
  readonly begin: Effect.Effect<void, PlanError>
  /** Applies a fact that is written together with the next one. */
  readonly defer: (event: PlanRunEvent) => Effect.Effect<void>
  /** Applies facts and writes them, with those that were deferred. */
  readonly record: (...events: Batch) => Effect.Effect<void, PlanError>
  /** Writes what was deferred. */
  readonly flush: Effect.Effect<void, PlanError>
}

/** What there is to begin with: the first fact, which is not written yet, or a state. */
export type Began =
  | { readonly _tag: "Event"; readonly event: PlanStarted }
  | { readonly _tag: "State"; readonly state: PlanRunState }

interface Options {
  readonly rules: PlanTransition.Rules
  readonly began: Began
  readonly journal: Journal | undefined
  readonly emit: (event: PlanEvent<unknown>) => Effect.Effect<void>
}

/** What was not written must not be followed by anything, whyever it was not. */
const died = ({ definition }: PlanTransition.Rules, cause: Cause.Cause<PlanError>): PlanError => {
  const problem =
    "The journal died of a defect, which is a bug. PlanError.causeOf(error.reason) is the cause, in the process where it happened."
  return new PlanError({
    plan: definition.name,
    reason: withCause(new JournalFailed({ problem }), Cause.squash(cause))
  })
}

export const make = ({ began, emit, journal, rules }: Options): Recorder => {
  let state = began._tag === "State" ? began.state : PlanTransition.start(rules, began.event)
  let pending: Array<PlanRunEvent> = began._tag === "State" ? [] : [began.event]
  let broken: PlanError | undefined
  const lock = Semaphore.makeUnsafe(1)

  /** A driver that applies a fact which does not fit has a bug, and dies of it. */
  const apply = (event: PlanRunEvent): Effect.Effect<ReadonlyArray<PlanEvent<unknown>>> =>
    Effect.suspend(() => {
      const before = state
      const applied = PlanTransition.apply(rules, before, event)
      if (Result.isFailure(applied)) return Effect.die(applied.failure)
      state = applied.success
      pending.push(event)
      return Effect.succeed(viewsOf(rules.definition, before, event, state))
    })

  const write = Effect.suspend((): Effect.Effect<ReadonlyArray<PlanEvent<unknown>>, PlanError> => {
    const [first, ...rest] = pending
    pending = []
    if (journal === undefined || first === undefined) return Effect.succeed([])
    const written = state
    return journal([first, ...rest], written).pipe(
      Effect.catchCause((cause) =>
        Cause.hasDies(cause) && !Cause.hasFails(cause) ? Effect.fail(died(rules, cause)) : Effect.failCause(cause)
      ),
      Effect.tapError((error) =>
        Effect.sync(() => {
          broken = error
        })
      ),
      Effect.map((done): ReadonlyArray<PlanEvent<unknown>> =>
        done === undefined ? [] : [{ _tag: "Checkpointed", key: done.key, state: written }]
      )
    )
  })

  // A reader who is slow may be left at any time; what was applied and written stays.
  const tell = (views: ReadonlyArray<PlanEvent<unknown>>) =>
    Effect.exit(Effect.interruptible(Effect.forEach(views, emit, { discard: true })))

  const step = (
    events: ReadonlyArray<PlanRunEvent>,
    writing: Effect.Effect<ReadonlyArray<PlanEvent<unknown>>, PlanError>
  ): Effect.Effect<void, PlanError> =>
    Effect.uninterruptible(
      lock.withPermit(
        Effect.suspend((): Effect.Effect<void, PlanError> => {
          if (broken !== undefined) return Effect.fail(broken)
          return Effect.forEach(events, apply).pipe(
            Effect.flatMap((views) => Effect.map(writing, (written) => [...views.flat(), ...written])),
            Effect.flatMap(tell)
          )
        })
      )
    )

  return {
    state: () => state,
    broken: () => broken,
    begin: step(
      [],
      Effect.suspend(() => {
        const views = began._tag === "Event" ? viewsOf(rules.definition, state, began.event, state) : []
        return Effect.map(write, (written) => [...views, ...written])
      })
    ),
    defer: (event) => Effect.ignore(step([event], Effect.succeed([]))),
    record: (...events) => step(events, write),
    flush: Effect.suspend(() => (pending.length === 0 ? Effect.void : step([], write)))
  }
}
