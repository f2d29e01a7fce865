import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as Result from "effect/Result"
import { unavailable } from "../../VersionedStoreError.ts"
import * as envelope from "./envelope.ts"
import * as keys from "./keys.ts"
import * as mutex from "./mutex.ts"
import type { Storage } from "./port.ts"
import * as versions from "./versions.ts"

const toReason = (error: KeyValueStore.KeyValueStoreError) => unavailable("key-value store", error._tag, error)

export const make: Effect.Effect<Storage, never, KeyValueStore.KeyValueStore> = Effect.gen(function* () {
  const store = yield* KeyValueStore.KeyValueStore
  const next = versions.make(yield* versions.nonce)
  const inProcess = mutex.make()

  const load = Effect.fnUntraced(function* (name: string, key: string | undefined) {
    const text = yield* Effect.mapError(store.get(name), toReason)
    if (text === undefined) return Option.none<envelope.Stored>()
    return Option.some(yield* envelope.read(new TextEncoder().encode(text), key))
  })

  const versionOf = (key: string) =>
    Effect.map(
      load(keys.nameOf(key), key),
      Option.map(({ version }) => version)
    )

  const same = (a: Option.Option<string>, b: Option.Option<string>) =>
    Option.getOrUndefined(a) === Option.getOrUndefined(b)

  return {
    // Reads wait for writes too: many stores show half of what is being written
    get: (key) =>
      inProcess(keys.nameOf(key))(
        Effect.map(
          load(keys.nameOf(key), key),
          Option.map(({ value, version }) => ({ text: value, version }))
        )
      ),
    set: (key, expected, text) =>
      inProcess(keys.nameOf(key))(
        Effect.gen(function* () {
          const found = yield* versionOf(key)
          if (!same(found, expected)) return Result.fail(found)
          const version = next(expected)
          const bytes = yield* envelope.write(key, version, text)
          // As text, because stores of text keep bytes as base64
          yield* Effect.mapError(store.set(keys.nameOf(key), new TextDecoder().decode(bytes)), toReason)
          return Result.succeed(version)
        }).pipe(Effect.uninterruptible)
      ),
    remove: (key, expected) =>
      inProcess(keys.nameOf(key))(
        Effect.gen(function* () {
          if (Option.isSome(expected)) {
            const found = yield* versionOf(key)
            if (!same(found, expected)) return Result.fail(found)
          }
          const there = yield* Effect.mapError(store.has(keys.nameOf(key)), toReason)
          if (there) yield* Effect.mapError(store.remove(keys.nameOf(key)), toReason)
          return Result.succeed(there)
        }).pipe(Effect.uninterruptible)
      ),
    list: Effect.fnUntraced(function* (range) {
      const found: Array<string> = []
      for (const name of yield* Effect.mapError(store.keys, toReason)) {
        const key = keys.keyOf(name)
        if (key === "hashed") {
          const stored = yield* inProcess(name)(load(name, undefined))
          if (Option.isSome(stored)) found.push(stored.value.key)
        } else if (key !== "foreign") {
          found.push(key.key)
        }
      }
      return keys.page(found, range)
    })
  }
})
