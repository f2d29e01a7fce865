import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as keys from "./keys.ts"
import type { Raw, Storage } from "./port.ts"
import * as versions from "./versions.ts"

export const make: Effect.Effect<Storage> = Effect.map(versions.nonce, (nonce) => {
  const values = new Map<string, Raw>()
  const next = versions.make(nonce)
  const version = (key: string) => Option.fromUndefinedOr(values.get(key)?.version)
  return {
    get: (key) => Effect.sync(() => Option.fromUndefinedOr(values.get(key))),
    set: (key, expected, text) =>
      Effect.sync(() => {
        const found = version(key)
        if (Option.getOrUndefined(found) !== Option.getOrUndefined(expected)) return Result.fail(found)
        const written = next(expected)
        values.set(key, { text, version: written })
        return Result.succeed(written)
      }),
    remove: (key, expected) =>
      Effect.sync(() => {
        const found = version(key)
        if (Option.isSome(expected) && Option.getOrUndefined(found) !== expected.value) return Result.fail(found)
        return Result.succeed(values.delete(key))
      }),
    list: (range) => Effect.sync(() => keys.page(values.keys(), range))
  }
})
