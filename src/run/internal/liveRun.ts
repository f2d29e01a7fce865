/**
 * A run that is open. Its opener performs it; others read it, pass it a message, or stop it.
 *
 * Readers pull. A reader has a place in the log of the run, and receives the entries behind that place: events, and deltas, which are
 * joined where the reader is slow. Nothing is kept for a reader, and no reader slows the run. The pieces of one text are one entry of the
 * log, except where a reader is between them.
 */

import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type * as Message from "../../conversation/Message.ts"
import type * as ledger from "./ledger.ts"
import * as runLoop from "./runLoop.ts"
import type * as runRecorder from "./runRecorder.ts"

/** An event with its views, a view of something that is no event, or a piece of what a model writes. */
interface Entry<out Event, out View> {
  readonly event?: Event | undefined
  readonly views: ReadonlyArray<View>
  readonly piece?: View
}

/** Two views as one, where both are deltas of one text. */
export type Join<View> = (before: View, next: View) => View | undefined

/** A reader of a log, and the number of entries that it has read. */
interface Reader {
  place: number
}

/** The log of an open run. */
export class LiveLog<in out Event, in out View> implements runRecorder.Log<Event, View> {
  private readonly entries: Array<Entry<Event, View>> = []
  private readonly readers = new Set<Reader>()
  private readonly waiting = new Set<() => void>()
  private readonly join: Join<View>
  private isEnded = false

  constructor(join: Join<View>) {
    this.join = join
  }

  get size(): number {
    return this.entries.length
  }

  add(views: ReadonlyArray<View>, event?: Event): void {
    this.entries.push({ event, views })
    this.wake()
  }

  show(piece: View): void {
    this.entries.push({ views: [piece], piece })
    this.joinFrom(this.entries.length - 1)
    this.wake()
  }

  end(): void {
    this.isEnded = true
    this.wake()
  }

  /** All entries, then each new entry, as `take` adds them to the values for the reader. */
  read<A>(take: (found: Array<A>, entry: Entry<Event, View>) => void): Stream.Stream<A> {
    const pullAs = (reader: Reader) => {
      const pull: Effect.Effect<Arr.NonEmptyReadonlyArray<A>, Cause.Done> = Effect.suspend(() => {
        const found: Array<A> = []
        for (const entry of this.entries.slice(reader.place)) take(found, entry)
        this.move(reader)
        if (Arr.isArrayNonEmpty(found)) return Effect.succeed(found)
        return this.isEnded ? Cause.done() : Effect.andThen(this.changedFor(reader), pull)
      })
      return Stream.fromPull(Effect.succeed(pull))
    }
    return Stream.unwrap(
      Effect.map(
        Effect.acquireRelease(this.enter, (reader) => this.leave(reader)),
        pullAs
      )
    )
  }

  private get enter(): Effect.Effect<Reader> {
    return Effect.sync(() => {
      const reader = { place: 0 }
      this.readers.add(reader)
      return reader
    })
  }

  private leave(reader: Reader): Effect.Effect<void> {
    return Effect.sync(() => {
      this.readers.delete(reader)
      this.joinFrom(reader.place)
    })
  }

  /** The reader has read all entries. */
  private move(reader: Reader): void {
    const { place } = reader
    reader.place = this.entries.length
    this.joinFrom(place)
  }

  /** Joins the pieces from this entry on with earlier pieces of their texts. */
  private joinFrom(first: number): void {
    let index = first
    for (let piece = this.pieceAt(index); piece !== undefined; piece = this.pieceAt(index)) {
      if (!this.joinBack(index, piece)) index += 1
    }
  }

  private pieceAt(index: number): View | undefined {
    return this.entries[index]?.piece
  }

  /** Joins a piece with the piece of its text before it, unless a reader is between the two. Returns whether it did. */
  private joinBack(index: number, piece: View): boolean {
    const { entries, readers } = this
    const isPlace = (place: number) => Array.from(readers).some((reader) => reader.place === place)
    for (let at = index - 1; !isPlace(at + 1); at -= 1) {
      const before = this.pieceAt(at)
      if (before === undefined) return false
      const joined = this.join(before, piece)
      if (joined === undefined) continue
      entries[at] = { views: [joined], piece: joined }
      entries.splice(index, 1)
      for (const reader of readers) if (reader.place > index) reader.place -= 1
      return true
    }
    return false
  }

  private changedFor(reader: Reader): Effect.Effect<void> {
    return Effect.callback((resume) => {
      const woken = () => resume(Effect.void)
      // The fiber of the reader may have paused since it looked
      if (this.isEnded || this.entries.length > reader.place) return woken()
      this.waiting.add(woken)
      return Effect.sync(() => this.waiting.delete(woken))
    })
  }

  private wake(): void {
    if (this.waiting.size === 0) return
    const waiting = Array.from(this.waiting)
    this.waiting.clear()
    for (const woken of waiting) woken()
  }
}

/** A message that the run has not taken. */
interface Waiting {
  readonly message: Message.UserMessage
  readonly taken: Deferred.Deferred<boolean>
}

/** The state of a run, as far as its handle shows it. */
interface StateOf {
  readonly outcome?: unknown
  readonly usage: Message.TokenUsage
}

/** The parts of a run under way that its handle reaches. */
interface Reached {
  readonly machine: Pick<runLoop.Machine<never, never, unknown>, "takes" | "written">
  readonly recorder: {
    readonly state: StateOf
    readonly budgets: ReadonlyArray<ledger.Usage> | undefined
    readonly stop: (interruption: runRecorder.Interruption) => Effect.Effect<void>
  }
}

/** A handle, for the code that performs its run: the log, if there is one, and the loop of the run. */
export interface Performing<in out Event, in out View> {
  readonly log: runRecorder.Log<Event, View> | undefined
  readonly loop: <State extends StateOf, Action, E>(
    machine: runLoop.Machine<State, Action, E>,
    recorder: runRecorder.Recorder<State, Event, View, E>,
    options: Pick<runLoop.Options<E>, "open" | "deadline" | "stops">
  ) => Effect.Effect<void, E>
}

/**
 * Decided when a run is opened. `reads`: its log is kept for readers. `log`: its opener has a log for readers. `stops`: it can be
 * stopped in an action, not only between two.
 */
export interface Access<in Event = unknown, in View = unknown> {
  readonly reads?: boolean | undefined
  readonly log?: runRecorder.Log<Event, View> | undefined
  readonly stops?: boolean | undefined
}

/**
 * The handle of a run. Its result is for one caller, unless the log is kept.
 *
 * - `result`: performs the run in the fiber of the first caller. Where the log is kept, other callers wait for that.
 * - `live`: events and deltas, as one view; `events`: the events alone. Both begin with the first one, and fail as the run does.
 * - `written`: the parts of the answer that a model is writing.
 * - `input`: passes a message to the run, which takes it before its next model call. False if the run ended before it took the message.
 * - `stop`: stops the run. Its end is recorded as an interruption.
 * - `ledger`: the tokens that the run has used so far.
 * - `budgets`: its budgets and the budgets of the runs around it, and how much of them is used.
 */
export class LiveRun<A, E, in out Event, in out View> implements Performing<Event, View> {
  readonly log: runRecorder.Log<Event, View> | undefined
  private readonly kept: LiveLog<Event, View> | undefined
  private readonly done = Deferred.makeUnsafe<A, E>()
  private readonly inbox: Array<Waiting> = []
  private isBegun = false
  private interruption: runRecorder.Interruption | undefined = undefined
  private reached: Reached | undefined = undefined
  private readonly perform: (self: Performing<Event, View>) => Effect.Effect<A, E>
  private readonly join: Join<View>
  private readonly stops: boolean

  constructor(
    perform: (self: Performing<Event, View>) => Effect.Effect<A, E>,
    join: Join<View>,
    { log, reads, stops }: Access<Event, View> = {}
  ) {
    this.perform = perform
    this.join = join
    this.stops = stops === true
    this.kept = reads === true ? new LiveLog(join) : undefined
    this.log = log ?? this.kept
  }

  get result(): Effect.Effect<A, E> {
    const { kept } = this
    return Effect.suspend(() => {
      if (kept === undefined) return this.perform(this)
      if (this.isBegun) return Deferred.await(this.done)
      this.isBegun = true
      return Effect.onExit(this.perform(this), (exit) => Effect.sync(() => this.end(kept, exit)))
    })
  }

  get live(): Stream.Stream<View, E> {
    return this.read((found: Array<View>, { views }) => {
      for (const view of views) {
        const last = found.at(-1)
        const joined = last === undefined ? undefined : this.join(last, view)
        if (joined === undefined) found.push(view)
        else found[found.length - 1] = joined
      }
    })
  }

  get events(): Stream.Stream<Event, E> {
    return this.read((found: Array<Event>, { event }) => {
      if (event !== undefined) found.push(event)
    })
  }

  get written(): Message.AssistantMessage["content"] {
    return this.reached?.machine.written?.() ?? []
  }

  get ledger(): Message.TokenUsage {
    return this.reached?.recorder.state.usage ?? {}
  }

  get budgets(): ReadonlyArray<ledger.Usage> {
    return this.reached?.recorder.budgets ?? []
  }

  input(message: Message.UserMessage): Effect.Effect<boolean> {
    return Effect.suspend(() => {
      const { machine } = this.reached ?? {}
      const takesNone = machine !== undefined && machine.takes === undefined
      if (takesNone || Deferred.isDoneUnsafe(this.done)) return Effect.succeed(false)
      const waiting: Waiting = { message, taken: Deferred.makeUnsafe() }
      this.inbox.push(waiting)
      return Effect.onInterrupt(Deferred.await(waiting.taken), () =>
        Effect.sync(() => void this.inbox.splice(this.inbox.indexOf(waiting), 1))
      )
    })
  }

  stop(interruption: runRecorder.Interruption = {}): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.interruption ??= interruption
      return this.reached?.recorder.stop(interruption) ?? Effect.void
    })
  }

  /** Performs the actions of a machine: the loop of this run. */
  loop<State extends StateOf, Action, E2>(
    machine: runLoop.Machine<State, Action, E2>,
    recorder: runRecorder.Recorder<State, Event, View, E2>,
    options: Pick<runLoop.Options<E2>, "open" | "deadline" | "stops">
  ): Effect.Effect<void, E2> {
    if (this.kept === undefined) return runLoop.runMachine(machine, recorder, options)
    this.reached = { machine, recorder }
    const stopped = this.interruption === undefined ? Effect.void : recorder.stop(this.interruption)
    const before = Effect.suspend(() => this.takeInput(machine))
    const stops = this.stops || options.stops === true
    return Effect.andThen(stopped, runLoop.runMachine(machine, recorder, { ...options, stops, before }))
  }

  private takeInput<E2>(
    machine: Pick<runLoop.Machine<unknown, unknown, E2>, "take" | "takes">
  ): Effect.Effect<void, E2> {
    const [first] = this.inbox
    const taking = first === undefined || machine.takes?.() !== true ? undefined : machine.take?.(first.message)
    if (first === undefined || taking === undefined) return Effect.void
    this.inbox.shift()
    return Effect.flatMap(taking, () => {
      Deferred.doneUnsafe(first.taken, Exit.succeed(true))
      return this.takeInput(machine)
    })
  }

  private read<B>(take: (found: Array<B>, entry: Entry<Event, View>) => void): Stream.Stream<B, E> {
    const failed = Stream.drain(Stream.fromEffect(Deferred.await(this.done)))
    return this.kept === undefined
      ? Stream.die(new Error("a run that was opened without readers"))
      : Stream.concat(this.kept.read(take), failed)
  }

  private end(kept: LiveLog<Event, View>, exit: Exit.Exit<A, E>): void {
    Deferred.doneUnsafe(this.done, exit)
    kept.end()
    for (const { taken } of this.inbox.splice(0)) Deferred.doneUnsafe(taken, Exit.succeed(false))
  }
}

/** The views of a run that is performed in the scope of the stream. A reader that leaves stops the run. */
export const streamOf = <A, E, Event, View>(open: () => LiveRun<A, E, Event, View>): Stream.Stream<View, E> =>
  Stream.unwrap(
    Effect.suspend(() => {
      const run = open()
      return Effect.as(Effect.forkScoped(run.result), run.live)
    })
  )
