/**
 * The older messages of a conversation, in values that are written once and never
 * change. Which messages segment `n` of a generation holds follows from the order of
 * the messages alone, so writers that write it at once, or one after the other died,
 * write the same.
 */
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import type { Service } from "../../VersionedStore.ts"
import type { VersionedStoreError } from "../../VersionedStoreError.ts"
import type { PayloadError } from "../../../payload/PayloadError.ts"
import * as pieces from "./pieces.ts"
import type { Record } from "./record.ts"

const parallel = 8

type KeyOf = (generation: string, index: number) => string

/** The messages of all segments; `None` if one is not there. */
export const read = (
  store: Service,
  keyOf: KeyOf,
  record: Record
): Effect.Effect<Option.Option<pieces.Messages>, VersionedStoreError | PayloadError> =>
  Effect.forEach(
    Array.from({ length: record.segments }, (_, index) => index),
    Effect.fnUntraced(function* (index) {
      const found = yield* store.get(keyOf(record.generation, index))
      if (Option.isNone(found)) return undefined
      const messages = yield* pieces.messagesOf(found.value.value)
      if (pieces.versionOf(found.value.value) !== pieces.versionOf(record.conversation)) {
        return yield* pieces.damaged("segments of the version of the conversation", "another version")
      }
      if (messages.length !== record.segmentSize) {
        return yield* pieces.damaged(`segments of ${record.segmentSize} messages`, `${messages.length} messages`)
      }
      return messages
    }),
    { concurrency: parallel }
  ).pipe(
    Effect.map((all) => {
      const there = all.filter((messages) => messages !== undefined)
      return there.length === all.length ? Option.some(there.flat()) : Option.none()
    })
  )

/** How many segments a record can write now. */
export const ready = (record: Record, messages: pieces.Messages): number =>
  Math.floor(messages.length / record.segmentSize)

/** Writes the messages that are stored and fill segments into segments of their own. */
export const write = (
  store: Service,
  keyOf: KeyOf,
  record: Record,
  messages: pieces.Messages
): Effect.Effect<void, VersionedStoreError | PayloadError> =>
  Effect.forEach(
    Array.from({ length: ready(record, messages) }, (_, index) => index),
    (index) => {
      const { segmentSize } = record
      const part = messages.slice(index * segmentSize, (index + 1) * segmentSize)
      const value = pieces.segment(record.conversation, part)
      const key = keyOf(record.generation, record.segments + index)
      return store.compareAndSet(key, Option.none(), value).pipe(
        Effect.asVoid,
        Effect.catchTag("VersionConflict", () =>
          Effect.flatMap(store.get(key), (found) =>
            // None: the conversation was replaced meanwhile, and this write is in vain
            Option.isNone(found) || Equal.equals(found.value.value, value)
              ? Effect.void
              : Effect.fail(pieces.damaged("the messages in their order", "other messages"))
          )
        )
      )
    },
    { concurrency: parallel, discard: true }
  )

/** Deletes the segments of a generation that is no more, also those of a writer that died. */
export const remove = Effect.fnUntraced(function* (
  store: Service,
  keyOf: KeyOf,
  retired: { readonly generation: string; readonly segments: number }
) {
  let missing = 0
  for (let index = 0; index < retired.segments || missing < parallel; index++) {
    const removed = yield* (
      store
        .delete(keyOf(retired.generation, index))
        // Only conditional deletes can conflict
        .pipe(Effect.catchTag("VersionConflict", () => Effect.succeed(true)))
    )
    missing = removed ? 0 : missing + 1
  }
})
