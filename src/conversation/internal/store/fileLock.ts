/**
 * Exclusive access to one file among processes that may die, or stop for any time,
 * at any point.
 *
 * The lock of a file is a directory, `locks/<name>`. A writer prepares a directory of
 * its own with everything it needs to commit, and takes the lock by renaming it to
 * that place, which fails while another writer's directory stands there. It commits
 * by one rename from or to a path *inside* the lock. Who waits and sees the same
 * writer for longer than `stale` moves the lock directory away, and with it the
 * writer's means to commit: a writer that was only slow finds that its rename has no
 * source or target, and starts again. So clocks decide how long others wait, never
 * who is right, and nothing is left to clean up before the next writer can go on.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Random from "effect/Random"
import * as Result from "effect/Result"

interface Places {
  readonly locks: string
  /** Where this writer prepares; in the same file system as the locks. */
  readonly workshop: string
}

interface Held {
  /** Inside the lock: what {@link Plan.prepare} put into its directory under this writer's token. */
  readonly mine: string
}

export interface Plan<A, E> {
  /** Fills the directory with one entry named `token`, on every try. */
  readonly prepare: (directory: string, token: string) => Effect.Effect<void, E | PlatformError>
  /**
   * Runs under the lock and commits with one rename; `lost` if that found no source
   * or target.
   */
  readonly commit: (held: Held) => Effect.Effect<Option.Option<A>, E | PlatformError>
}

/** A rename that tells apart that its source or target is gone. */
export const renameOrLost = (
  fs: FileSystem.FileSystem,
  from: string,
  to: string
): Effect.Effect<boolean, PlatformError> =>
  fs.rename(from, to).pipe(
    Effect.as(true),
    Effect.catchReason("PlatformError", "NotFound", () => Effect.succeed(false))
  )

interface FileLock {
  readonly run: <A, E>(name: string, plan: Plan<A, E>) => Effect.Effect<A, E | PlatformError>
}

/** How often a lock may look free without being had, before the error of the rename counts. */
const patience = 100

export const make = (
  fs: FileSystem.FileSystem,
  path: Path.Path,
  places: Places,
  options: { readonly writer: string; readonly stale: Duration.Duration }
): FileLock => {
  const stale = Duration.toMillis(options.stale)
  let count = 0
  const nextToken = Effect.sync(() => {
    count += 1
    return `${options.writer}-${count.toString(36)}`
  })

  const discard = (directory: string) => Effect.ignore(fs.remove(directory, { recursive: true, force: true }))

  const entries = (lock: string) =>
    fs.readDirectory(lock).pipe(
      Effect.asSome,
      Effect.catchReason("PlatformError", "NotFound", () => Effect.succeedNone)
    )

  /** Takes the lock away from whoever has it. */
  const take = Effect.fnUntraced(function* (lock: string) {
    const away = path.join(places.workshop, yield* nextToken)
    // If it fails, somebody else took it, or it was released
    yield* Effect.ignore(fs.rename(lock, away))
    yield* discard(away)
  })

  /** `false`: what was prepared is gone. */
  const acquire = Effect.fnUntraced(function* <E, R>(
    prepared: string,
    lock: string,
    wait: (millis: number) => Effect.Effect<void, E, R>
  ) {
    let watched = { token: "", since: 0 }
    let free = 0
    for (let round = 0; ; round++) {
      const moved = yield* Effect.result(fs.rename(prepared, lock))
      if (Result.isSuccess(moved)) return true
      const found = yield* entries(lock)
      if (Option.isNone(found)) {
        if (!(yield* fs.exists(prepared))) return false
        // Released in between, or this directory cannot be written
        free += 1
        if (free > patience) return yield* moved.failure
        continue
      }
      const token = found.value[0] ?? "released"
      const now = yield* Clock.currentTimeMillis
      if (watched.token !== token) {
        watched = { token, since: now }
      } else if (now - watched.since >= stale) {
        yield* take(lock)
        watched = { token: "", since: now }
        continue
      }
      yield* wait(yield* Random.nextBetween(1, Math.min(2 ** round, 32) + 1))
    }
  })

  const release = Effect.fnUntraced(function* (lock: string, token: string) {
    const found = yield* Effect.orElseSucceed(entries(lock), () => Option.none<Array<string>>())
    // Another writer's entry means that the lock has gone on already
    if (Option.isSome(found) && found.value.every((entry) => entry === token)) yield* discard(lock)
  })

  return {
    run: <A, E>(name: string, plan: Plan<A, E>): Effect.Effect<A, E | PlatformError> =>
      // Only waiting can be interrupted: otherwise nobody would know who has the lock
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const lock = path.join(places.locks, name)
          for (;;) {
            const token = yield* nextToken
            const prepared = path.join(places.workshop, token)
            const attempt = Effect.gen(function* () {
              yield* fs.makeDirectory(prepared, { recursive: true })
              yield* plan.prepare(prepared, token)
              const held = yield* acquire(prepared, lock, (millis) => restore(Effect.sleep(millis)))
              if (!held) return Option.none<A>()
              return yield* Effect.ensuring(plan.commit({ mine: path.join(lock, token) }), release(lock, token))
            })
            const done = yield* Effect.ensuring(attempt, discard(prepared))
            if (Option.isSome(done)) return done.value
          }
        })
      )
  }
}
