import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import { PayloadError } from "../../../payload/PayloadError.ts"
import { type Reason, unavailable, Unreadable } from "../../VersionedStoreError.ts"
import * as envelope from "./envelope.ts"
import * as fileLock from "./fileLock.ts"
import * as keys from "./keys.ts"
import * as mutex from "./mutex.ts"
import type { Attempt, Storage } from "./port.ts"
import * as versions from "./versions.ts"

const extension = ".json"

/** What dead processes left is removed by the next one that starts this much later. */
const leftoversAfter = 60 * 60 * 1000

type Outcome<A> = Result.Result<A, Option.Option<string>>

const same = (a: Option.Option<string>, b: Option.Option<string>): boolean =>
  Option.getOrUndefined(a) === Option.getOrUndefined(b)

const toReason = (error: PlatformError | Reason): Reason =>
  error._tag === "PlatformError" ? unavailable("file system", error.reason._tag, error) : error

export const make = Effect.fnUntraced(
  function* (options: { readonly directory: string; readonly stale: Duration.Duration }) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const at = (...segments: ReadonlyArray<string>) => path.join(options.directory, ...segments)
    const values = at("values")
    const locks = at("locks")
    const work = at("work")

    yield* Effect.forEach([values, locks, work], (directory) => fs.makeDirectory(directory, { recursive: true }), {
      discard: true
    })
    yield* Effect.forEach([locks, work], (directory) => removeLeftovers(fs, path, directory), { discard: true })
    // The system finds a name that nobody else has
    const workshop = yield* Effect.acquireRelease(fs.makeTempDirectory({ directory: work, prefix: "w" }), (directory) =>
      Effect.ignore(fs.remove(directory, { recursive: true, force: true }))
    )

    const writer = `${path.basename(workshop)}${yield* versions.nonce}`
    const next = versions.make(writer)
    const lock = fileLock.make(fs, path, { locks, workshop }, { writer, stale: options.stale })
    const inProcess = mutex.make()

    const fileOf = (key: string) => path.join(values, `${keys.nameOf(key)}${extension}`)

    const syncDirectory = Effect.scoped(
      Effect.flatMap(fs.open(values, { flag: "r" }), (directory) => directory.sync)
      // Not every system can sync a directory; those that cannot need not
    ).pipe(Effect.ignore)

    const writeSynced = (file: string, bytes: Uint8Array) =>
      Effect.scoped(
        Effect.gen(function* () {
          const handle = yield* fs.open(file, { flag: "wx" })
          yield* handle.writeAll(bytes)
          yield* handle.sync
        })
      )

    const load = (
      file: string,
      key: string | undefined
    ): Effect.Effect<Option.Option<envelope.Stored>, PlatformError | Unreadable> =>
      fs.readFile(file).pipe(
        Effect.flatMap((bytes) => Effect.asSome(envelope.read(bytes, key))),
        Effect.catchReason("PlatformError", "NotFound", () => Effect.succeedNone)
      )

    const versionOf = (key: string): Effect.Effect<Option.Option<string>, PlatformError | Reason> =>
      Effect.map(
        load(fileOf(key), key),
        Option.map(({ version }) => version)
      )

    const locked = <A>(key: string, plan: fileLock.Plan<Outcome<A>, Reason>) =>
      inProcess(key)(lock.run(keys.nameOf(key), plan))

    /** Looks first whether it can succeed at all, and again under the lock. */
    const write = <A>(
      key: string,
      refuse: Effect.Effect<Option.Option<Outcome<A>>, PlatformError | Reason>,
      prepare: (file: string) => Effect.Effect<void, PlatformError>,
      /** The rename, with the file that was prepared. */
      rename: (file: string) => Effect.Effect<boolean, PlatformError>,
      result: A
    ): Attempt<A> =>
      Effect.gen(function* () {
        const refusal = yield* refuse
        if (Option.isSome(refusal)) return refusal.value
        const written = yield* locked<A>(key, {
          prepare: (directory, token) => prepare(path.join(directory, token)),
          commit: ({ mine }) =>
            Effect.flatMap(refuse, (refusal) =>
              Option.isSome(refusal)
                ? Effect.succeed(refusal)
                : Effect.map(rename(mine), (done) => (done ? Option.some(Result.succeed(result)) : Option.none()))
            )
        })
        if (Result.isSuccess(written)) yield* syncDirectory
        return written
      }).pipe(Effect.mapError(toReason))

    const unless = (key: string, expected: Option.Option<string>, written?: string) =>
      Effect.map(versionOf(key), (found): Option.Option<Outcome<string>> => {
        if (same(found, expected)) return Option.none()
        // A file system across a network may do a rename and say that it did not
        const done = written !== undefined && Option.contains(found, written)
        return Option.some(done ? Result.succeed(written) : Result.fail(found))
      })

    const unlessVersion = (key: string, expected: Option.Option<string>) =>
      Effect.map(versionOf(key), (found): Option.Option<Outcome<boolean>> =>
        same(found, expected) ? Option.none() : Option.some(Result.fail(found))
      )

    /** What cannot be read can be deleted too, if no version is asked for. */
    const unlessThere = (key: string) =>
      Effect.map(fs.exists(fileOf(key)), (there) =>
        there ? Option.none<Outcome<boolean>>() : Option.some<Outcome<boolean>>(Result.succeed(false))
      )

    const list = Effect.fnUntraced(
      function* (range: keys.Range) {
        const found: Array<string> = []
        for (const file of yield* fs.readDirectory(values)) {
          if (!file.endsWith(extension)) continue
          const key = keys.keyOf(file.slice(0, -extension.length))
          if (key === "hashed") {
            const place = path.join(values, file)
            const stored = yield* Effect.mapError(load(place, undefined), inFile(file))
            // A copy under another name belongs to no key
            if (Option.isSome(stored) && fileOf(stored.value.key) === place) found.push(stored.value.key)
          } else if (key !== "foreign") {
            found.push(key.key)
          }
        }
        return keys.page(found, range)
      },
      Effect.mapError((error: PlatformError | Reason) => toReason(error))
    )

    const storage: Storage = {
      get: (key) =>
        load(fileOf(key), key).pipe(
          Effect.map(Option.map(({ value, version }) => ({ text: value, version }))),
          Effect.mapError(toReason)
        ),
      set: (key, expected, text) => {
        const version = next(expected)
        return Effect.flatMap(envelope.write(key, version, text), (bytes) =>
          write(
            key,
            unless(key, expected, version),
            (file) => writeSynced(file, bytes),
            (file) => fileLock.renameOrLost(fs, file, fileOf(key)),
            version
          )
        )
      },
      remove: (key, expected) =>
        write(
          key,
          Option.isSome(expected) ? unlessVersion(key, expected) : unlessThere(key),
          (directory) => fs.makeDirectory(directory),
          (directory) => fileLock.renameOrLost(fs, fileOf(key), path.join(directory, "gone")),
          true
        ),
      list
    }
    return storage
  },
  Effect.mapError((error: PlatformError | Reason) => toReason(error))
)

/** Nothing but the file tells whose value it was. */
const inFile =
  (file: string) =>
  (error: PlatformError | Unreadable): PlatformError | Unreadable =>
    error._tag === "Unreadable"
      ? new Unreadable({
          error: new PayloadError({ what: `stored value in values/${file}`, reason: error.error.reason })
        })
      : error

const removeLeftovers = Effect.fnUntraced(function* (fs: FileSystem.FileSystem, path: Path.Path, directory: string) {
  const now = yield* Clock.currentTimeMillis
  for (const entry of yield* fs.readDirectory(directory)) {
    const leftover = path.join(directory, entry)
    const info = yield* Effect.option(fs.stat(leftover))
    const changed = Option.flatMap(info, ({ mtime }) => mtime)
    // Whoever still works there finds it gone and starts again
    if (Option.isSome(changed) && now - changed.value.getTime() > leftoversAfter) {
      yield* Effect.ignore(fs.remove(leftover, { recursive: true, force: true }))
    }
  }
})
