/**
 * The values of steps with `writes`, each under its key, in a part of the namespace that all sessions share.
 *
 * The step that finished last counts. So a write can be made again, late, or twice at once: the value under a key is the same
 * then, and nothing has to remember which writes are done. A process that continues a plan makes all of its writes again.
 */

import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as planRunParts from "../../agent/internal/planRunParts.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type * as VersionedStore from "../../store/VersionedStore.ts"
import * as storage from "../../store/internal/storage.ts"

const { key: _, ...written } = planRunParts.StepWrite.fields

/** The value that a step wrote. `id` is the session. */
export const Written = Schema.Struct({ id: Schema.String, ...written })

/** The value that a step wrote. */
export interface Written extends Schema.Schema.Type<typeof Written> {}

const codec = VersionedCodec.single({
  what: "value of a step",
  value: Written,
  header: { kind: "step-write" },
  data: ["/value"]
})

/** The same value at the same time is the same write, which another session makes again where that continues a fork. */
const isNewerOrSame = (found: Written, { at, step, value }: planRunParts.StepWrite): boolean =>
  DateTime.isGreaterThan(found.at, at) ||
  (DateTime.Equivalence(found.at, at) && found.step === step && Equal.equals(found.value, value))

export type StepWrites = ReturnType<typeof make>

/** The values of steps under a namespace of a store. */
export const make = (store: VersionedStore.Service, namespace: string) => {
  const values = storage.documents(store)
  const storedAs = (key: string) => `${storage.rootKey(namespace)}writes/${key}`

  return {
    read: (key: string): Effect.Effect<Option.Option<Written>, storage.Reason> =>
      Effect.map(
        values.get(codec, storedAs(key)),
        Option.map(({ value }) => value)
      ),

    write: (id: string, write: planRunParts.StepWrite): Effect.Effect<void, storage.Reason> =>
      Effect.gen(function* () {
        const { key, ...value } = write
        const found = yield* values.get(codec, storedAs(key))
        const isKept = Option.isSome(found) && isNewerOrSame(found.value.value, write)
        if (isKept) return
        const version = Option.map(found, ({ version }) => version)
        yield* values.set(codec, storedAs(key), version, { id, ...value })
        // Another write came between
      }).pipe(
        Effect.retry({ while: ({ _tag }) => _tag === "VersionConflict" }),
        Effect.catchTag("VersionConflict", Effect.die)
      )
  }
}
