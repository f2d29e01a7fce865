/** Streams as server-sent events: values under their cursors, a comment while there is none, and an end with its reason. */

import type * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Pull from "effect/Pull"
import * as Stream from "effect/Stream"
import * as Sse from "effect/encoding/Sse"

/** The time without an event after which a comment is sent: proxies cut connections that are quiet. */
export const heartbeat = Duration.seconds(15)

/** The headers of a stream: no proxy may keep or change it. */
export const headers = {
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
  "x-content-type-options": "nosniff"
}

/** A comment, which readers leave out. The first one makes the server send the headers. */
const comment = ":\n\n"

/** An event with a value, or the last one of a stream. */
export const write = (
  data: string,
  options: { readonly id?: string | undefined; readonly isEnd?: boolean } = {}
): string =>
  Sse.encoder.write({ _tag: "Event", id: options.id, event: options.isEnd === true ? "end" : "message", data })

/** The stream with a comment wherever it has been quiet for a while. What is asked for once is not asked for again. */
const beating = <E>(self: Stream.Stream<string, E>): Stream.Stream<string, E> =>
  Stream.transformPull(self, (pull, scope) =>
    Effect.sync(() => {
      let asked: Fiber.Fiber<void> | undefined
      let exit: Exit.Exit<Effect.Success<typeof pull>, Effect.Error<typeof pull>> | undefined
      const asking = Effect.map(Effect.exit(pull), (found) => {
        exit = found
      })
      return Effect.gen(function* () {
        asked ??= yield* Effect.forkIn(asking, scope)
        yield* Effect.raceFirst(Fiber.await(asked), Effect.sleep(heartbeat))
        const found = exit
        if (found === undefined) return [comment] as const
        asked = undefined
        exit = undefined
        return yield* found
      })
    })
  )

/**
 * The stream until its reader has asked for nothing more for a time: then the reader gets the end where it asks again, and the connection is
 * closed where it does not, half of the time later. Nothing is made for a reader that does not ask.
 */
export const whileTaken = <A, E, E2>(
  self: Stream.Stream<A, E>,
  time: Duration.Duration,
  end: Pull.Pull<Arr.NonEmptyReadonlyArray<A>, E2>
): Stream.Stream<A, E | Pull.ExcludeDone<E2>> =>
  Stream.transformPull(self, (pull, scope) =>
    Effect.suspend(() => {
      let reader: Fiber.Fiber<unknown, unknown> | undefined
      let asked = 0
      let isAsking = false
      let isOver = false
      const watching = Effect.gen(function* () {
        for (;;) {
          const before = asked
          yield* Effect.sleep(Duration.divideUnsafe(time, 2))
          if (isAsking || asked !== before) continue
          if (isOver && reader !== undefined) return yield* Fiber.interrupt(reader)
          isOver = true
        }
      })
      const next = Effect.withFiber((fiber) => {
        reader = fiber
        asked += 1
        isAsking = true
        const taken: Pull.Pull<Arr.NonEmptyReadonlyArray<A>, E | E2> = isOver ? end : pull
        return Effect.ensuring(
          taken,
          Effect.sync(() => {
            isAsking = false
          })
        )
      })
      return Effect.as(Effect.forkIn(watching, scope), next)
    })
  )

/**
 * The bytes of a stream whose events are written. `end` writes the last event, for a cause that is no interruption. A reader that takes nothing
 * for the `time` gets the end for `slow`.
 */
export const bytes = <E>(
  events: Stream.Stream<string, E>,
  end: (cause: Cause.Cause<E>) => Effect.Effect<string>,
  reading?: { readonly time: Duration.Duration; readonly slow: E }
): Stream.Stream<Uint8Array> => {
  const ended = Stream.catchCause(events, (cause) =>
    Stream.fromEffect(Cause.hasInterruptsOnly(cause) ? Effect.interrupt : end(cause))
  )
  const beaten = Stream.concat(Stream.succeed(comment), beating(ended))
  if (reading === undefined) return Stream.encodeText(beaten)
  let isTold = false
  const tooSlow = Effect.suspend((): Pull.Pull<Arr.NonEmptyReadonlyArray<string>> => {
    if (isTold) return Cause.done()
    isTold = true
    return Effect.map(end(Cause.fail(reading.slow)), (text) => [text] as const)
  })
  return Stream.encodeText(whileTaken(beaten, reading.time, tooSlow))
}
