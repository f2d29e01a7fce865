/**
 * Keeps conversations, for any number of writers.
 *
 * **When to use**
 *
 * Use for chats that go on after a restart, on another machine, or with several
 * writers at once. Choose where they are kept by the layer of `VersionedStore` below.
 *
 * **Details**
 *
 * Every load gives the version of what it read, and a write can name the version it
 * was made for: if somebody else wrote in between, it fails with
 * `ConversationConflict` and changes nothing. What to do then is yours to say, because
 * only you know whether the answer still fits the conversation.
 *
 * What it costs, for a conversation of `n` messages and the default `segmentSize`:
 *
 * - `append` reads one value with up to 32 of the newest messages and writes it with
 *   the new ones; every 32 messages a second value is written once and for all. It does
 *   not depend on `n`, except the first time after a `save`, when what was saved is cut
 *   into segments. A refused append loads all of it, to say where the mistake is.
 * - `save` writes all of it as one value, so it costs `n`.
 * - `load` reads one value and another one for every 32 messages, eight at a time.
 * - `list` and `delete` cost what they cost in the `VersionedStore`.
 *
 * `Limits` hold for each stored value, and `maxMessages` for the whole conversation.
 *
 * **Example** (A chat that survives)
 *
 * ```ts
 * import { Effect, Layer, Option } from "effect"
 * import { Conversation, ConversationStore, Message, VersionedStore } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* ConversationStore.ConversationStore
 *
 *   const started = yield* Conversation.make({ system: "Be brief." })
 *   const version = yield* store.save("chat/42", started, { expected: Option.none() })
 *   yield* store.append("chat/42", [yield* Message.user("Hello")])
 *
 *   const error = yield* Effect.flip(store.append("chat/42", [yield* Message.user("Late")], { expected: version }))
 *   assert.strictEqual(error._tag, "ConversationConflict")
 *
 *   return yield* store.load("chat/42")
 * })
 *
 * const layer = ConversationStore.layer().pipe(Layer.provide(VersionedStore.layerMemory))
 * const found = await Effect.runPromise(Effect.provide(program, layer))
 * assert.strictEqual(Conversation.messageCount(Option.getOrThrow(found).conversation), 2)
 * ```
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import type { Conversation } from "./Conversation.ts"
import type { ConversationError } from "./ConversationError.ts"
import type { ConversationConflict, ConversationStoreError } from "./ConversationStoreError.ts"
import * as conversations from "./internal/store/conversations.ts"
import type { Message } from "./Message.ts"
import * as VersionedStore from "./VersionedStore.ts"

/**
 * A conversation and the version in which it was loaded.
 *
 * @category models
 * @since 0.1.0
 */
export interface Stored {
  readonly conversation: Conversation
  readonly version: VersionedStore.Version
}

/**
 * Ids in the order of their UTF-16 code units. `next` is the `after` of the next page,
 * `None` on the last one.
 *
 * @category models
 * @since 0.1.0
 */
export interface Page {
  readonly ids: ReadonlyArray<string>
  readonly next: Option.Option<string>
}

/**
 * What a conversation store can do. Ids are any text.
 *
 * **Details**
 *
 * - `load`: the conversation and its version, `None` if there is none.
 * - `save`: writes the whole conversation in place of the version `expected`, or where
 *   there is none if `expected` is `None`. Gives the new version.
 * - `append`: adds messages, all or none, under the laws of `Conversation`. Gives the
 *   new version. With `expected` only to that version. Without, to whatever is there,
 *   and where nothing is it starts a conversation; even so it fails with
 *   `ConversationConflict` if somebody writes at the very same time, and can then be
 *   tried again.
 * - `list`: ids in pages; `prefix`, `after` and `limit` (default 100) as in
 *   `VersionedStore`. An id whose deletion was cut short by a crash is listed until
 *   somebody saves, appends or deletes it again, and loads as `None`.
 * - `delete`: whether there was a conversation, and with `expected` only that version.
 *   Also deletes what cannot be read.
 *
 * @category models
 * @since 0.1.0
 */
export interface Service {
  readonly load: (id: string) => Effect.Effect<Option.Option<Stored>, ConversationStoreError>
  readonly save: (
    id: string,
    conversation: Conversation,
    options: { readonly expected: Option.Option<VersionedStore.Version> }
  ) => Effect.Effect<VersionedStore.Version, ConversationConflict | ConversationStoreError>
  readonly append: (
    id: string,
    messages: ReadonlyArray<Message>,
    options?: { readonly expected?: VersionedStore.Version | undefined }
  ) => Effect.Effect<VersionedStore.Version, ConversationConflict | ConversationError | ConversationStoreError>
  readonly list: (options?: VersionedStore.ListOptions) => Effect.Effect<Page, ConversationStoreError>
  readonly delete: (
    id: string,
    options?: { readonly expected?: VersionedStore.Version | undefined }
  ) => Effect.Effect<boolean, ConversationConflict | ConversationStoreError>
}

/**
 * Keeps conversations by id.
 *
 * @category services
 * @since 0.1.0
 */
export class ConversationStore extends Context.Service<ConversationStore, Service>()(
  "effect-emissary/conversation/ConversationStore"
) {}

/**
 * Options of {@link layer}.
 *
 * **Details**
 *
 * - `namespace`: what the keys in the `VersionedStore` start with; default
 *   `"conversation"`. Stores with different namespaces do not see each other.
 * - `segmentSize`: messages per segment, an integer from 1; default 32. Larger makes
 *   `append` dearer and `load` cheaper. It holds for conversations as they are saved
 *   or started; those that are stored keep the one they have.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  readonly namespace?: string | undefined
  readonly segmentSize?: number | undefined
}

/**
 * Keeps conversations in a `VersionedStore`.
 *
 * **Details**
 *
 * A conversation is stored in its versioned wire form: the newest messages under the
 * key of the conversation, older ones in segments that are written once and never
 * change. Only the one value under the key of the conversation says what belongs to
 * it, so each operation takes effect as a whole or not at all, whenever the process
 * dies.
 *
 * **Gotchas**
 *
 * A process that dies at the wrong moment can leave segments that belong to no
 * conversation. They are never read, and most are deleted by the next `save` or
 * `delete` of that id.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options?: Options): Layer.Layer<ConversationStore, never, VersionedStore.VersionedStore> =>
  Layer.effect(
    ConversationStore,
    Effect.flatMap(VersionedStore.VersionedStore, (store) => {
      const segmentSize = options?.segmentSize ?? 32
      return Number.isSafeInteger(segmentSize) && segmentSize > 0
        ? Effect.succeed(conversations.make(store, { namespace: options?.namespace ?? "conversation", segmentSize }))
        : Effect.die(new Error(`ConversationStore.layer: expected a segmentSize from 1, found ${segmentSize}`))
    })
  )

/**
 * Keeps conversations in memory, for as long as the layer lives.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<ConversationStore> = Layer.provide(layer(), VersionedStore.layerMemory)
