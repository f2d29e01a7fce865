/**
 * The network of a world. A call may be lost on its way or on its way back, or be made twice. The items of a stream arrive in their order, and
 * the connection may be cut between them.
 */

import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as machine from "./machine.ts"

/**
 * The failures of the network.
 *
 * @category options
 * @since 0.1.0
 */
export interface NetworkFaults {
  /** The shortest and the longest way of a message, in milliseconds; default `[0, 5]`. Calls that differ in it change places. */
  readonly latency?: readonly [number, number] | undefined
  /** The probability that a call or its answer is lost, or that a stream is cut after an item; default 0.02. */
  readonly losses?: number | undefined
  /** The probability that a call is made twice; default 0.02. */
  readonly doubles?: number | undefined
  /** A call without an answer is given up after so many milliseconds; default 3,000. */
  readonly timeout?: number | undefined
}

/**
 * A call was not answered, or a stream was cut. The call may have taken effect.
 *
 * @category errors
 * @since 0.1.0
 */
export class Lost extends Schema.TaggedError<Lost>("effect-emissary/testing/Lost")("Lost", {
  call: Schema.String,
  process: Schema.String
}) {
  override get message(): string {
    return `${this.call}: expected an answer of ${this.process}, got none. Call again`
  }
}

/** The two ends of a connection. `context`: the services of the process that is called. */
export interface Ends {
  readonly self: machine.Machine
  readonly from: machine.Process
  readonly to: machine.Process
  readonly context: Context.Context<never>
  readonly faults: NetworkFaults
}

const waysOf = ({ faults: { latency: [least, most] = [0, 5] }, self }: Ends) => self.chance.between(least, most)

const fails = ({ self }: Ends, probability: number): boolean => !self.isCalm && self.chance.happens(probability)

const report = (exit: Exit.Exit<unknown, unknown>): string =>
  Exit.isSuccess(exit) ? "" : `: ${String(Cause.squash(exit.cause))}`

/** A process that is closed interrupts what it does for others. */
const isCutOff = (exit: Exit.Exit<unknown, unknown>): boolean =>
  Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)

/** Runs an Effect in another process. */
export const call = <A, E>(ends: Ends, name: string, effect: Effect.Effect<A, E>): Effect.Effect<A, E | Lost> =>
  Effect.suspend(() => {
    const { context, faults, from, self, to } = ends
    const { doubles = 0.02, losses = 0.02, timeout = 3000 } = faults
    let isOver = false
    let resume: ((exit: Effect.Effect<A, E | Lost>) => void) | undefined
    const end = (answer: Effect.Effect<A, E | Lost>): void => {
      if (isOver) return
      isOver = true
      resume?.(answer)
    }
    const lost = Effect.fail(new Lost({ call: name, process: to.name }))
    const arrive = (exit: Exit.Exit<A, E>) => {
      machine.note(self, to, `${name}${report(exit)}`)
      if (fails(ends, losses)) machine.count(self, "lostAnswers")
      else machine.schedule(self, from, waysOf(ends), () => end(isCutOff(exit) ? lost : exit))
    }
    const request = Effect.suspend(() =>
      machine.fork(
        Effect.sleep(waysOf(ends)).pipe(
          Effect.andThen(effect),
          Effect.exit,
          Effect.map((exit) => arrive(exit))
        ),
        context
      )
    )
    machine.count(self, "calls")
    const isLost = fails(ends, losses)
    const isDouble = fails(ends, doubles)
    if (isLost) machine.count(self, "lostCalls")
    if (isDouble) machine.count(self, "doubleCalls")
    const sent = isLost ? Effect.void : isDouble ? Effect.andThen(request, request) : request
    const answer = Effect.callback<A, E | Lost>((resumed) => {
      resume = resumed
      const give = machine.schedule(self, from, timeout, () => end(lost))
      return Effect.sync(() => {
        isOver = true
        give()
      })
    })
    return Effect.andThen(sent, answer)
  })

/** Reads a stream of another process. */
export const stream = <A, E>(ends: Ends, name: string, items: Stream.Stream<A, E>): Stream.Stream<A, E | Lost> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const { context, faults, from, self, to } = ends
      const { losses = 0.02, timeout = 3000 } = faults
      const queue = yield* Queue.unbounded<A, E | Lost | Cause.Done>()
      let isOver = false
      const underWay: Array<() => void> = []
      let latest = self.now
      let cancel: (() => void) | undefined
      const deliver = (give: () => void): void => {
        underWay.push(give)
        latest = Math.max(latest, self.now + waysOf(ends))
        machine.schedule(self, from, latest - self.now, () => underWay.shift()?.())
      }
      const close = (cause: Cause.Cause<E | Lost | Cause.Done>) => deliver(() => Queue.failCauseUnsafe(queue, cause))
      const cut = (): void => {
        isOver = true
        machine.count(self, "cuts")
        machine.note(self, to, `${name} is cut`)
        close(Cause.fail(new Lost({ call: name, process: to.name })))
      }
      // A process that died closes no connection
      const watch = (): (() => void) =>
        machine.schedule(self, from, timeout, () => {
          if (to.status === "dead" && !isOver) cut()
          else unwatch = watch()
        })
      let unwatch = watch()
      const read = Stream.runForEachWhile(items, (item) =>
        Effect.suspend(() => {
          if (isOver) return Effect.succeed(false)
          deliver(() => Queue.offerUnsafe(queue, item))
          if (fails(ends, losses)) cut()
          return Effect.succeed(!isOver)
        })
      )
      const cancelled = Effect.callback<void>((resume) => {
        cancel = () => resume(Effect.void)
      })
      const reading = Effect.exit(Effect.raceFirst(read, cancelled)).pipe(
        Effect.map((exit) => {
          if (isOver) return
          if (isCutOff(exit)) cut()
          else close(Exit.isFailure(exit) ? exit.cause : Cause.fail(Cause.Done()))
        })
      )
      yield* machine.fork(Effect.andThen(Effect.sleep(waysOf(ends)), reading), context)
      const gone = Effect.sync(() => {
        isOver = true
        unwatch()
        machine.schedule(self, to, waysOf(ends), () => cancel?.())
      })
      yield* Effect.addFinalizer(() => gone)
      return Stream.fromQueue(queue)
    })
  )
