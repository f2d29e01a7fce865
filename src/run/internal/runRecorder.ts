/**
 * The recorder of a run: applies events when they are recorded, and delivers them to the journal, the hooks, the run around
 * and the log for readers.
 *
 * A recorder has an outbox of tasks: one at a time, in the order of the events, each in a fiber of its own that no caller of
 * `record` owns. A queue with one fiber is not enough for that: a hook that returns at once resumes its caller without a
 * turn of the scheduler, and single tasks are cut off while others must not be. This is the one file with such fibers.
 *
 * The recorder goes down this table, and may leave out rows:
 *
 * | a run      | begins with            | `record` and `emit`             | ends with                                       |
 * | ---------- | ---------------------- | ------------------------------- | ----------------------------------------------- |
 * | begins     | `begin`                | return at once                  | `delivered`                                     |
 * | runs       | `waits = true`         | wait until all is delivered     | an outcome, a deadline, a failure               |
 * | ends       | `waits = false`        | return at once                  | `delivered`, or `cut("all")` when that is late  |
 * | torn down  | `close`                | return at once                  | `cut("current")`, then as above                 |
 *
 * Modes of the outbox, which are never left, and its tasks in them:
 *
 * | mode   | begins with                              | hooks           | views        | journal     |
 * | ------ | ---------------------------------------- | --------------- | ------------ | ----------- |
 * | open   |                                          | run until `cut` | are logged   | runs        |
 * | muted  | `cut("all")`, or a hook that was cut off | are left out    | are logged   | runs        |
 * | closed | `close`; the outbox can be muted, too    | run until `cut` | are left out | runs        |
 * | failed | a task that failed and was not cut off   | are left out    | are left out | is left out |
 *
 * `cut` never ends a write of the journal. `wait` fails in a failed outbox. Between `hold` and `release` tasks are added, and none
 * begins. Deltas of a model are no tasks: `show` logs them at once.
 */

import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { constFalse, constVoid } from "effect/Function"
import type * as Fiber from "effect/Fiber"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as history from "../../conversation/internal/history.ts"
import type * as ledger from "./ledger.ts"
import type { Inside } from "./planTransition.ts"

/** The answer of `interruptWhen` that stops a run. */
export interface Interruption {
  readonly reason?: string | undefined
}

/**
 * The parts of a recorder.
 *
 * - `first`: the event that made `state`, for a run that begins.
 * - `apply`: the state after one more event. An event that does not fit is a bug of the machine. `inside` is the state of the run inside
 *   after the event that this one has in it: it is put in place, and the event is not applied there again.
 * - `follow`: the event that follows from a state at once, if there is one.
 * - `usages`: the budgets of the run, and how much of them is used. `beside` counts, too.
 * - `views`: the events for readers that a recorded event makes.
 * - `log`: the log of the run, if it has readers.
 * - `journal`: receives the events since the last write, with the newest state.
 * - `hook`: receives each event before its views are emitted, `after` each event after that. They can be cut off. `more`
 *   is true if the next event was recorded together with this one.
 * - `parent`: the run around this one, which has events as soon as they are to be written, and each view as soon as this one has it.
 * - `context`: the services of all of them.
 */
export interface RecorderOptions<State, Event, View, E> {
  readonly state: State
  readonly first: Event | undefined
  readonly apply: (state: State, event: Event, inside?: Inside) => Result.Result<State, unknown>
  readonly follow?: ((state: State) => Event | undefined) | undefined
  readonly usages?:
    | ((state: State, now: DateTime.Utc, beside: ledger.Amounts) => ReadonlyArray<ledger.Limit> | undefined)
    | undefined
  readonly views: (before: State, event: Event, after: State) => ReadonlyArray<View>
  readonly log?: Log<Event, View> | undefined
  readonly journal?: Journal<State, Event, E> | undefined
  readonly hook?: ((event: Event, state: State, more: boolean) => Effect.Effect<void>) | undefined
  readonly after?: ((event: Event, state: State) => Effect.Effect<void>) | undefined
  readonly parent?: Parent<State, Event, View, E> | undefined
  readonly context: Context.Context<never>
}

/** The log of a run for its readers: an event with its views, or a view of something that is no event; and the deltas of models. */
export interface Log<in Event, in View> {
  readonly add: (views: ReadonlyArray<View>, event?: Event) => void
  readonly show: (delta: View) => void
}

/** An event that was recorded, and the state after it. */
export interface Recorded<out Event, out State> {
  readonly event: Event
  readonly state: State
}

/**
 * The run around a run. `record` and `emit` apply and enqueue before they return their Effects, which wait. The states belong to
 * the run inside. See {@link RunRecorder} for the others.
 */
export interface Parent<State, Event, View, E = never> {
  readonly interruption: () => Interruption | undefined
  readonly budgets: () => ReadonlyArray<ledger.Limit> | undefined
  readonly outer: Budgeted
  readonly record: (recorded: Arr.NonEmptyReadonlyArray<Recorded<Event, State>>) => Effect.Effect<void, E>
  readonly emit: (view: View) => Effect.Effect<void, E>
  readonly show: (view: View) => void
  readonly isShown: boolean
  readonly isBroken: () => boolean
  readonly hold: () => void
  readonly release: () => void
}

/** A recorder as far as amounts count in its budgets that no event has yet. */
export interface Budgeted {
  besides: ledger.Amounts
  readonly options: { readonly parent?: { readonly outer: Budgeted } | undefined }
}

/** An event to record. `inside` is the state of the run inside after the event that it has in it, if that has applied the event. */
interface Placed<out Event> {
  readonly event: Event
  readonly inside?: Inside
}

type Journal<State, Event, E> = (events: Arr.NonEmptyReadonlyArray<Event>, state: State) => Effect.Effect<void, E>

/**
 * The events of one run under way: applied when they are recorded, and delivered one at a time, in that order.
 *
 * - `state`: the newest state.
 * - `interruption`: the reason to stop, once there is one.
 * - `waits`: whether `record` waits for the delivery. Not while the run begins and ends: both wait for `delivered`.
 * - `budgets`: the budgets of the run and of the runs around it, and how much of them is used; `undefined` where there is none.
 * - `besides`: amounts that count in the budgets, and that no event has yet.
 * - `clock`, `now`: the Clock that the run began with, and the time by it.
 * - `begin`: delivers the event that made the first state.
 * - `record`: applies events before it returns its Effect, and delivers them with deferred ones. Without events it
 *   delivers the deferred ones. The Effect is `Exit.void` where there is nothing to wait for.
 * - `place`: records events of a run inside, which has applied them.
 * - `defer`: applies an event that is journaled together with the next ones.
 * - `emit`: logs a view in the order of the events. `show`: logs a view at once.
 * - `isShown`: the run, or one around it, has a log for readers.
 * - `delivered`: waits for everything so far. It fails if a hook or the journal failed.
 * - `stop`: stops the run before its next action. The first reason counts; `stopped` waits for it.
 * - `cut`: ends the hook that is under way; hooks receive nothing after that. With `"all"` they receive nothing in any case.
 * - `close`: nothing is emitted from here on, because the run is being torn down.
 * - `isBroken`: events could not be delivered, of this run or of a run around it.
 * - `hold`, `release`: between them nothing is delivered, here and in the runs around. A delivery can resume a fiber that
 *   records at once: its events have to come after all that is being recorded.
 *
 * It is a class, because an object literal with a getter is a slow object, and its old copies keep runs alive.
 */
export class RunRecorder<State, Event, View, E = never> {
  readonly options: RecorderOptions<State, Event, View, E>
  readonly clock: Clock.Clock
  state: State
  waits = false
  readonly isShown: boolean
  private readonly isWatched: boolean
  private readonly outbox: Outbox<E>
  private readonly stopping = Deferred.makeUnsafe<Interruption>()
  private reason: Interruption | undefined = undefined
  private unwritten: ReadonlyArray<Recorded<Event, State>>
  private inParent: Effect.Effect<void, E> = Exit.void
  /** The run around is not waited for any more: it may wait for this one to end. */
  private isApart = false
  besides: ledger.Amounts = {}

  constructor(options: RecorderOptions<State, Event, View, E>) {
    const { after, context, first, hook, journal, log, parent, state } = options
    this.options = options
    this.state = state
    this.clock = Context.get(context, Clock.Clock)
    this.unwritten = first === undefined ? [] : [{ event: first, state }]
    this.isShown = log !== undefined || parent?.isShown === true
    this.isWatched = [after, hook, journal, log, parent].some(Predicate.isNotUndefined)
    this.outbox = this.isWatched ? makeOutbox(context) : emptyOutbox
  }

  get interruption(): Interruption | undefined {
    return this.reason ?? this.options.parent?.interruption()
  }

  get budgets(): ReadonlyArray<ledger.Limit> | undefined {
    const { parent, usages } = this.options
    const own = usages?.(this.state, this.now(), this.besides)
    const around = parent?.budgets()
    return own === undefined || around === undefined ? (own ?? around) : [...own, ...around]
  }

  get stopped(): Effect.Effect<Interruption> {
    return Deferred.await(this.stopping)
  }

  begin(): void {
    const { first } = this.options
    this.hold()
    this.write()
    if (first !== undefined) this.deliver(this.state, first, this.state, false)
    this.release()
  }

  now(): DateTime.Utc {
    return history.timeOf(this.clock)
  }

  record(...events: ReadonlyArray<Event>): Effect.Effect<void, E> {
    return this.commit(
      events.map((event) => ({ event })),
      true
    )
  }

  place(events: ReadonlyArray<Placed<Event>>): Effect.Effect<void, E> {
    return this.commit(events, true)
  }

  defer(event: Event): Effect.Effect<void, E> {
    return this.commit([{ event }], false)
  }

  emit(view: View): Effect.Effect<void, E> {
    if (!this.isShown) return Exit.void
    this.hold()
    this.emitAll([view])
    this.release()
    return this.wait()
  }

  show(view: View): void {
    this.options.log?.show(view)
    this.options.parent?.show(view)
  }

  delivered(): Effect.Effect<void, E> {
    return this.isApart ? this.outbox.wait() : this.wait()
  }

  stop(reason: Interruption): Effect.Effect<void> {
    this.reason ??= reason
    return Effect.asVoid(Deferred.succeed(this.stopping, this.reason))
  }

  cut(which: "current" | "all"): Effect.Effect<void> {
    if (which === "all") this.isApart = true
    return this.outbox.cut(which)
  }

  close(): void {
    this.isApart = true
    this.outbox.close()
  }

  get isBroken(): boolean {
    return this.outbox.hasFailed() || this.options.parent?.isBroken() === true
  }

  hold(): void {
    this.outbox.hold()
    this.options.parent?.hold()
  }

  release(): void {
    this.outbox.release()
    this.options.parent?.release()
  }

  private emitAll(views: ReadonlyArray<View>, event?: Event): void {
    const { log, parent } = this.options
    if (log !== undefined) {
      this.outbox.add({
        kind: "view",
        perform: () => {
          log.add(views, event)
          return Exit.void
        }
      })
    }
    for (const view of parent === undefined ? [] : views) {
      const shown = parent?.emit(view) ?? Exit.void
      // Without a reader there is nothing to wait for, but the record of the event remains
      if (shown !== Exit.void) this.inParent = shown
    }
  }

  /** Writes what is not written, here and in the run around. */
  private write(): void {
    const { journal, parent } = this.options
    const { state, unwritten: recorded } = this
    this.unwritten = []
    if (!Arr.isReadonlyArrayNonEmpty(recorded)) return
    if (journal !== undefined) {
      const events = Arr.map(recorded, ({ event }) => event)
      this.outbox.add({ kind: "journal", perform: () => journal(events, state) })
    }
    if (parent !== undefined) this.inParent = parent.record(recorded)
  }

  private deliver(before: State, event: Event, state: State, more: boolean): void {
    const { after, hook, views } = this.options
    if (hook !== undefined) this.outbox.add({ kind: "hook", perform: () => hook(event, state, more) })
    if (this.isShown) this.emitAll(views(before, event, state), event)
    if (after !== undefined) this.outbox.add({ kind: "hook", perform: () => after(event, state) })
  }

  private wait(): Effect.Effect<void, E> {
    return this.inParent === Exit.void ? this.outbox.wait() : Effect.andThen(this.inParent, this.outbox.wait())
  }

  private commit(events: ReadonlyArray<Placed<Event>>, writes: boolean): Effect.Effect<void, E> {
    const { apply, follow, journal, parent } = this.options
    const applied: Array<{ readonly before: State; readonly event: Event; readonly after: State }> = []
    for (const placed of events) {
      for (let one: Placed<Event> | undefined = placed; one !== undefined;) {
        const { event, inside }: Placed<Event> = one
        const before = this.state
        const next = apply(before, event, inside)
        if (Result.isFailure(next)) return Effect.die(next.failure)
        this.state = next.success
        if (this.isWatched) applied.push({ before, event, after: next.success })
        const following = follow?.(next.success)
        one = following && { event: following }
      }
    }
    if (!this.isWatched) return Exit.void
    if (journal !== undefined || parent !== undefined) {
      this.unwritten = [...this.unwritten, ...applied.map(({ after, event }) => ({ event, state: after }))]
    }
    this.hold()
    if (writes) this.write()
    for (const [index, { after, before, event }] of applied.entries()) {
      this.deliver(before, event, after, index < applied.length - 1)
    }
    this.release()
    const waited = this.waits ? this.wait() : Exit.void
    return waited === Exit.void ? waited : Effect.interruptible(waited)
  }
}

/** A recorder, for those who have not made it. */
export type Recorder<State, Event, View, E = never> = Pick<
  RunRecorder<State, Event, View, E>,
  keyof RunRecorder<State, Event, View, E>
>

/** A part of the delivery of an event: a call of a hook, a write of the journal, or its views in the log, which take no time. */
type Part<E> =
  | { readonly kind: "hook" | "journal"; readonly perform: () => Effect.Effect<void, E> }
  | { readonly kind: "view"; readonly perform: () => Exit.Exit<void, E> }

/** A part under way. */
type Task<E> = Part<E> & {
  readonly done: Deferred.Deferred<void, E>
  fiber: Fiber.Fiber<void, E> | undefined
  isCut: boolean
}

/** The modes of an outbox; the head of this file has their table. */
interface Modes {
  isMuted: boolean
  isClosed: boolean
}

const begins = (kind: Task<unknown>["kind"], { isClosed, isMuted }: Modes): boolean =>
  kind === "hook" ? !isMuted : kind !== "view" || !isClosed

/** `wait` waits for everything so far. */
interface Outbox<E> {
  readonly add: (part: Part<E>) => void
  readonly hold: () => void
  readonly release: () => void
  readonly wait: () => Effect.Effect<void, E>
  readonly hasFailed: () => boolean
  readonly cut: (which: "current" | "all") => Effect.Effect<void>
  readonly close: () => void
}

/** The outbox of a run without watchers. */
const emptyOutbox = {
  add: constVoid,
  hold: constVoid,
  release: constVoid,
  wait: () => Exit.void,
  hasFailed: constFalse,
  cut: () => Exit.void,
  close: constVoid
}

/**
 * The tasks of one run: one at a time, in the order in which they were added, each in a fiber of its own, so that they
 * belong to the run and not to the call that recorded the event. After a task that failed no other task begins.
 */
const makeOutbox = <E>(context: Context.Context<never>): Outbox<E> => {
  const fork = Effect.runForkWith(context)
  const waiting: Array<Task<E>> = []
  let current: Task<E> | undefined
  let last: Task<E> | undefined
  const modes: Modes = { isMuted: false, isClosed: false }
  let failed: Exit.Exit<void, E> = Exit.void
  let held = 0

  const settle = (task: Task<E>, exit: Exit.Exit<void, E>): void => {
    if (last === task) last = undefined
    if (Exit.isFailure(exit)) {
      if (task.isCut) modes.isMuted = true
      else failed = exit
    }
    Deferred.doneUnsafe(task.done, failed)
  }

  const finish = (task: Task<E>, exit: Exit.Exit<void, E>): void => {
    current = undefined
    settle(task, exit)
  }

  const cutTask = (task: Task<E>): void => {
    task.isCut = true
    task.fiber?.interruptUnsafe()
  }

  const next = (): void => {
    if (held > 0) return
    while (current === undefined) {
      const task = waiting.shift()
      if (task === undefined) return
      if (Exit.isFailure(failed) || !begins(task.kind, modes)) {
        settle(task, Exit.void)
        continue
      }
      current = task
      if (task.kind === "view") {
        finish(task, task.perform())
        continue
      }
      task.fiber = fork(Effect.suspend(task.perform))
      const exit = task.fiber.pollUnsafe()
      if (exit === undefined) {
        // The task itself may have ended the run, before it had a fiber to interrupt.
        if (task.isCut) cutTask(task)
        task.fiber.addObserver((exit) => {
          finish(task, exit)
          next()
        })
      } else {
        finish(task, exit)
      }
    }
  }

  return {
    add: (part) => {
      last = { ...part, done: Deferred.makeUnsafe(), fiber: undefined, isCut: false }
      waiting.push(last)
    },
    hold: () => {
      held += 1
    },
    release: () => {
      held -= 1
      next()
    },
    wait: () => (last === undefined ? failed : Deferred.await(last.done)),
    hasFailed: () => Exit.isFailure(failed),
    cut: (which) =>
      Effect.suspend(() => {
        if (which === "all") modes.isMuted = true
        const task = current
        if (task?.kind !== "hook") return Effect.void
        cutTask(task)
        // A caller who interrupts the run knows it
        const warned = Effect.suspend(() => (modes.isMuted && !modes.isClosed ? warnOfCut : Effect.void))
        return Effect.andThen(Effect.exit(Deferred.await(task.done)), warned)
      }),
    close: () => {
      modes.isClosed = true
    }
  }
}

const warnOfCut = Effect.logWarning(
  "A hook of a run did not return before the run ended, and was cut off. It receives no event after that one."
)
