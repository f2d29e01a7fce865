/**
 * The values of steps with `writes`, each under its key, in a part of the namespace that all sessions share.
 *
 * The step that finished last counts. So a write can be made again, late, or twice at once: the value under a key is the same
 * then, and nothing has to remember which writes are done. A process that continues a plan makes all of its writes again.
 *
 * The session whose write counts uses its value, and so do its forks. The value is removed with the last of them. A session whose
 * value was replaced by a newer one uses nothing of it.
 */

import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { plainSchema } from "../../payload/internal/problems.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as planRunParts from "../../run/internal/planRunParts.ts"
import type * as VersionedStore from "../../store/VersionedStore.ts"
import * as documents from "../../store/internal/documents.ts"
import * as storeKeys from "../../store/internal/storeKeys.ts"
import type * as storeService from "../../store/internal/storeService.ts"
import type { Name, SessionUses } from "./sharedUses.ts"
import { User } from "./sharedUses.ts"

const { key: _, ...written } = planRunParts.StepWrite.fields

/** The value that a step wrote. `id` is the session. */
export const WrittenSchema = Schema.Struct({ id: Schema.String, ...written })

/** The value that a step wrote. */
export interface Written extends Schema.Schema.Type<typeof WrittenSchema> {}

export const Written: Schema.Codec<Written, unknown> = plainSchema(WrittenSchema)

/** `users` are the sessions that use this value. A value that was stored before its users were counted has none. */
const Stored = Schema.Struct({ ...WrittenSchema.fields, users: Schema.optionalKey(Schema.Array(User)) })

type Stored = typeof Stored.Type

const codec = VersionedCodec.single({
  what: "value of a step",
  value: Stored,
  header: { kind: "step-write" },
  data: ["/value"]
})

/** The same value at the same time is the same write, which another session makes again where that continues a fork. */
const isSame = (found: Written, { at, step, value }: planRunParts.StepWrite): boolean =>
  DateTime.Equivalence(found.at, at) && found.step === step && Equal.equals(found.value, value)

const isUser = ({ users = [] }: Stored, user: User): boolean => users.some((one) => Equal.equals(one, user))

/** A session, or without `life` any under the id. */
export type AnyLife = Pick<User, "id"> & Partial<User>

const usersOf = ({ id, users }: Stored): ReadonlyArray<AnyLife> => users ?? [{ id }]

const nameOf = (key: string): Name => ({ kind: "step-value", key })

/** Reads and changes a value again where another write came between. */
const untilWritten = <A, E extends { readonly _tag: string }>(
  effect: Effect.Effect<A, E | storeService.VersionConflict>
) =>
  effect.pipe(
    Effect.retry({ while: ({ _tag }) => _tag === "VersionConflict" }),
    Effect.catchIf((error): error is storeService.VersionConflict => error._tag === "VersionConflict", Effect.die)
  )

export type StepWrites = ReturnType<typeof make>

/** The values of steps under a namespace of a store. */
export const make = (store: VersionedStore.Service, namespace: string, uses: SessionUses) => {
  const values = documents.of(store)
  const storedAs = (key: string) => `${storeKeys.rootKey(namespace)}writes/${key}`
  const find = (key: string) => values.get(codec, storedAs(key))

  const remove = (key: string, version: string) =>
    Effect.catchTag(store.delete(storedAs(key), { version }), "VersionedStoreError", (error) =>
      Effect.fail(documents.reasonOf(storedAs(key))(error))
    )

  return {
    read: (key: string): Effect.Effect<Option.Option<Written>, documents.Reason> =>
      Effect.map(
        find(key),
        Option.map(({ value: { users: _, ...written } }) => written)
      ),

    write: (user: User, write: planRunParts.StepWrite): Effect.Effect<void, documents.Reason> =>
      untilWritten(
        Effect.gen(function* () {
          const { key, ...value } = write
          const found = Option.getOrUndefined(yield* find(key))
          const before = found?.value
          if (before !== undefined && DateTime.isGreaterThan(before.at, write.at)) return
          const same = before !== undefined && isSame(before, write) ? before : undefined
          if (same !== undefined && (same.users === undefined || isUser(same, user))) return
          if (before === undefined || !isUser(before, user)) yield* uses.note(user, nameOf(key))
          const next: Stored = same ?? { id: user.id, ...value }
          const version = Option.fromUndefinedOr(found?.version)
          yield* values.set(codec, storedAs(key), version, { ...next, users: [...(same?.users ?? []), user] })
        })
      ),

    /** A fork uses the value of the session that it continues. */
    share: (from: User, user: User, key: string): Effect.Effect<void, documents.Reason> =>
      untilWritten(
        Effect.gen(function* () {
          const found = Option.getOrUndefined(yield* find(key))
          if (found === undefined || !isUser(found.value, from) || isUser(found.value, user)) return
          yield* uses.note(user, nameOf(key))
          const users = [...(found.value.users ?? []), user]
          yield* values.set(codec, storedAs(key), Option.some(found.version), { ...found.value, users })
        })
      ),

    /** Removes the value of a session, unless another session uses it. */
    leave: (user: User, key: string): Effect.Effect<void, documents.Reason> =>
      untilWritten(
        Effect.gen(function* () {
          const found = Option.getOrUndefined(yield* find(key))
          if (found !== undefined && isUser(found.value, user)) {
            const users = (found.value.users ?? []).filter((one) => !Equal.equals(one, user))
            yield* users.length === 0
              ? remove(key, found.version)
              : values.set(codec, storedAs(key), Option.some(found.version), { ...found.value, users })
          }
          yield* uses.forget(user, nameOf(key))
        })
      ),

    /** The sessions that use a value: where they were not counted, the session that wrote it. */
    users: (key: string): Effect.Effect<ReadonlyArray<AnyLife>, documents.Reason> =>
      Effect.map(find(key), (found) => (Option.isNone(found) ? [] : usersOf(found.value.value))),

    /** Removes a value whose sessions are all gone. Returns whether it did. */
    prune: Effect.fnUntraced(function* (
      key: string,
      isInUse: (user: AnyLife) => Effect.Effect<boolean, documents.Reason>
    ) {
      const found = Option.getOrUndefined(yield* find(key))
      if (found === undefined) return false
      for (const user of usersOf(found.value)) if (yield* isInUse(user)) return false
      return yield* Effect.catchTag(remove(key, found.version), "VersionConflict", () => Effect.succeed(false))
    })
  }
}
