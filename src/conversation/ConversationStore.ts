/**
 * Stores conversations, for any number of writers.
 *
 * **When to use**
 *
 * Use it for chats that survive a restart, move to another machine, or have several
 * writers. The layer of `VersionedStore` decides where they are stored.
 *
 * **Details**
 *
 * A load returns the version of the conversation, and a write can name the version it
 * expects. If another writer was faster, the write fails with `ConversationConflict` and
 * changes nothing. The caller decides what to do then, because only the caller knows
 * whether the answer still fits the conversation.
 *
 * The costs, for a conversation of `n` messages and the default `segmentSize`:
 *
 * - `append` reads one value with at most 32 of the newest messages and writes it with
 *   the new ones; every 32 messages it writes a second value, a segment. It does not
 *   depend on `n`, except for the first append after a `save`, which cuts the saved
 *   messages into segments. A refused append loads the whole conversation, so that its
 *   error names the position.
 * - `save` writes the conversation as one value, so it costs `n`.
 * - `load` reads one value and another one for every 32 messages, eight at a time.
 * - `list` and `delete` cost the same as in the `VersionedStore`.
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

import * as Arr from "effect/Array"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as PayloadError from "../payload/PayloadError.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as base from "../payload/internal/base.ts"
import * as gate from "../payload/internal/gate.ts"
import * as plainJson from "../payload/internal/plainJson.ts"
import { defined } from "../payload/internal/plainJson.ts"
import * as Conversation from "./Conversation.ts"
import type { ConversationError } from "./ConversationError.ts"
import type { Message } from "./Message.ts"
import * as VersionedStore from "./VersionedStore.ts"
import * as conversationCodec from "./internal/conversationCodec.ts"
import * as history from "./internal/history.ts"
import * as storage from "./internal/storage.ts"

/**
 * A conversation was not loaded or stored. `id` is absent for `list`.
 *
 * **Details**
 *
 * | reason | meaning |
 * |---|---|
 * | `StoreFailed` | the `VersionedStore` failed; a write may have taken place, so load before you append again |
 * | `Unreadable` | the stored value is foreign or beyond the current limits, or a newer release wrote it |
 * | `Damaged` | part of the stored conversation is missing |
 * | `Refused` | the messages are beyond the current limits or hold a secret; nothing was written |
 *
 * A stored value that is unreadable or damaged stays as it is: `save` and `append` do not
 * write over an unreadable one, and `delete` removes it.
 *
 * @category errors
 * @since 0.1.0
 */
export class ConversationStoreError extends Schema.TaggedError<ConversationStoreError>(
  "effect-emissary/conversation/ConversationStoreError"
)("ConversationStoreError", {
  operation: Schema.Literals(["load", "save", "append", "list", "delete"]),
  id: Schema.optionalKey(Schema.String),
  reason: storage.Reason
}) {
  override get message(): string {
    const id = this.id === undefined ? "conversations" : `conversation ${base.quote(this.id)}`
    return `${this.operation} ${id}: ${storage.renderReason(this.reason)}`
  }
}

/**
 * The stored conversation is not in the version that the writer expected: another writer
 * saved, appended or deleted in between. Nothing was written.
 *
 * **Details**
 *
 * `None` is the version of an absent conversation.
 *
 * @category errors
 * @since 0.1.0
 */
export class ConversationConflict extends Schema.TaggedError<ConversationConflict>(
  "effect-emissary/conversation/ConversationConflict"
)("ConversationConflict", {
  id: Schema.String,
  expected: Schema.OptionFromNullOr(Schema.String),
  found: Schema.OptionFromNullOr(Schema.String)
}) {
  override get message(): string {
    return `conversation ${base.quote(this.id)} changed: expected ${storage.versionText(this.expected)}, found ${storage.versionText(this.found)}. Load it again and apply the change to what you find`
  }
}

/**
 * The operations of a conversation store. Ids are any text.
 *
 * **Details**
 *
 * - `load`: the conversation and its version, `None` if there is none.
 * - `save`: writes the whole conversation in place of the version `expected`, or where
 *   there is none if `expected` is `None`, and returns the new version.
 * - `append`: adds messages, all or none, under the laws of `Conversation`, and returns
 *   the new version. With `expected` it appends to that version only. Without, it appends
 *   to any version and starts a conversation where there is none; even so it fails with
 *   `ConversationConflict` if another writer writes at the very same time. Try it again
 *   then.
 * - `list`: ids in pages, in the order of their UTF-16 code units; `prefix`, `after` and
 *   `limit` (default 100) as in `VersionedStore`. `next` is the `after` of the next page,
 *   `None` on the last one.
 * - `delete`: returns whether there was a conversation. With `expected` it deletes that
 *   version only. It also deletes a conversation that cannot be read.
 *
 * @category models
 * @since 0.1.0
 */
export interface Service {
  readonly load: (
    id: string
  ) => Effect.Effect<
    Option.Option<{ readonly conversation: history.Conversation; readonly version: string }>,
    ConversationStoreError
  >
  readonly save: (
    id: string,
    conversation: history.Conversation,
    options: { readonly expected: Option.Option<string> }
  ) => Effect.Effect<string, ConversationConflict | ConversationStoreError>
  readonly append: (
    id: string,
    messages: ReadonlyArray<Message>,
    options?: { readonly expected?: string | undefined }
  ) => Effect.Effect<string, ConversationConflict | ConversationError | ConversationStoreError>
  readonly list: (
    options?: storage.ListOptions
  ) => Effect.Effect<
    { readonly ids: ReadonlyArray<string>; readonly next: Option.Option<string> },
    ConversationStoreError
  >
  readonly delete: (
    id: string,
    options?: { readonly expected?: string | undefined }
  ) => Effect.Effect<boolean, ConversationConflict | ConversationStoreError>
}

/**
 * Stores conversations by id.
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
 * - `namespace`: the first part of the keys in the `VersionedStore`; default
 *   `"conversation"`. Stores with different namespaces do not see each other.
 * - `segmentSize`: messages per segment, an integer from 1; default 32. A larger one
 *   makes `append` more expensive and `load` cheaper. It applies to conversations that
 *   are saved or started; a stored one keeps its own.
 *
 * @category models
 * @since 0.1.0
 */
interface Options {
  readonly namespace?: string | undefined
  readonly segmentSize?: number | undefined
}

/**
 * Stores conversations in a `VersionedStore`.
 *
 * **Details**
 *
 * A conversation is stored in its versioned wire form: the newest messages under the
 * key of the conversation, older ones in segments that never change. Only the value
 * under the key of the conversation names its segments, so each operation takes effect
 * as a whole or not at all, whenever the process dies.
 *
 * **Gotchas**
 *
 * A process that dies at the wrong moment can leave segments that belong to no
 * conversation. They are never read, and the next `delete` of a conversation with that id
 * deletes them.
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
        ? Effect.succeed(makeService(store, options?.namespace ?? "conversation", segmentSize))
        : Effect.die(new Error(`ConversationStore.layer: expected a segmentSize from 1, got ${segmentSize}`))
    })
  )

/**
 * Stores conversations in memory, for as long as the layer lives.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<ConversationStore> = Layer.provide(layer(), VersionedStore.layerMemory)

type WireMessages = ReadonlyArray<Schema.Json>

interface Wire {
  readonly [key: string]: Schema.Json
  readonly version: number
  readonly messages: WireMessages
}

/** JSON of messages in the wire form of a conversation, of a version that this release reads. Its codec decodes them. */
const Wire = Schema.declare(
  (json): json is Wire => {
    const { messages, version } = plainJson.isObject(json) ? json : {}
    return (
      typeof version === "number" && conversationCodec.codec.versions.includes(version) && plainJson.isArray(messages)
    )
  },
  { expected: `messages of version ${conversationCodec.codec.versions.join(" or ")}` }
)

/** The calls of older messages that a later message may answer, in call order. */
const OpenCalls = Schema.Array(
  Schema.Struct({
    id: Schema.String,
    name: Schema.String,
    providerExecuted: Schema.optionalKey(Schema.Literal(true))
  })
)

/** The value under the key of a conversation. `open` are the calls that the segments leave open. */
const Head = Schema.Struct({
  ...storage.logFields,
  segmentSize: Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)),
  open: OpenCalls,
  conversation: Wire
})

type Head = typeof Head.Type

const headCodec = VersionedCodec.single({
  what: "stored conversation",
  value: Head,
  header: { kind: "conversation" },
  // The codec of conversations looks for secrets, and knows where keys are data
  data: ["/conversation"]
})

const batchCodec = storage.batchCodec({
  what: "segment of a conversation",
  kind: "conversation-segment",
  events: Wire
})

/** Each part was read under the limits. The parts together may be more, but not more messages. */
const togetherLimits = {
  maxBytes: Number.POSITIVE_INFINITY,
  maxNodes: Number.POSITIVE_INFINITY,
  maxArrayLength: Number.POSITIVE_INFINITY,
  maxKeys: Number.POSITIVE_INFINITY
}

const decodeWith = ({ conversation }: Head, messages: WireMessages) =>
  gate.inside(conversationCodec.codec.decode({ ...conversation, messages }, { limits: togetherLimits }))

const encodeWire = (conversation: history.Conversation): Effect.Effect<Wire, storage.Reason> =>
  gate.inside(conversationCodec.codec.encode(conversation)).pipe(
    // The newest version loses nothing
    Effect.catchTag("LossyEncoding", Effect.die),
    Effect.mapError(storage.refused),
    // Sound: the wire form of a conversation has a version and messages.
    Effect.map((json) => json as Wire)
  )

/** The wire form of messages that were checked already, and may start in the middle. */
const encodeMessages = (messages: ReadonlyArray<Message>): Effect.Effect<WireMessages, storage.Reason> =>
  Effect.map(encodeWire(history.rebuild(messages, undefined)), (wire) => wire.messages)

/** Replaces all messages in segments: to the laws it is the same conversation, with the same open calls. */
const standInMessage = (open: Head["open"]): Schema.Json => ({
  role: "assistant",
  id: "",
  createdAt: "1970-01-01T00:00:00.000Z",
  content: open.map((call) => ({ type: "tool-call", ...call, arguments: null }))
})

/** The newest messages, with the open calls of the others. */
const decodeTail = (head: Head, messages: WireMessages) =>
  decodeWith(head, head.segments.length === 0 ? messages : [standInMessage(head.open), ...messages])

const openCallsOf = (conversation: history.Conversation): Head["open"] => {
  const self = history.asHistory(conversation)
  return [...HashMap.values(self.providerOpen), ...history.openCalls(self)].map(({ id, name, providerExecuted }) => ({
    id,
    name,
    ...(providerExecuted === true ? { providerExecuted } : undefined)
  }))
}

/** Refuses a conversation that would have too many messages with `added` ones, by the counts in its head. */
const checkMessages = ({ conversation, segments, segmentSize }: Head, added: number) => {
  const older = segments.reduce((count, { batches }) => count + batches * segmentSize, 0)
  const count = older + conversation.messages.length + added
  return conversationCodec.checkCount(Math.min(count, Number.MAX_SAFE_INTEGER))
}

type StoredHead = storage.StoredHead<Head>

type Conflict = storage.Conflict<Head>

const versionOf = (found: Option.Option<StoredHead>): Option.Option<string> =>
  Option.map(found, ({ version }) => version)

const isVersion = (found: Option.Option<string>, expected: Option.Option<string>): boolean =>
  Option.getOrUndefined(found) === Option.getOrUndefined(expected)

const makeService = (store: VersionedStore.Service, namespace: string, segmentSize: number): Service => {
  const log = storage.make({ store, namespace, head: headCodec, batch: batchCodec })

  const unreadable = (at: StoredHead) =>
    Effect.mapError((error: PayloadError.PayloadError) => storage.unreadable(log.headKey(at.key), error, at.version))

  const loadWhole = Effect.fnUntraced(function* (at: StoredHead) {
    const { conversation } = at.head
    yield* unreadable(at)(checkMessages(at.head, 0))
    const segments = yield* log.batches(at)
    for (const { messages, version } of segments) {
      if (version === conversation.version && messages.length === at.head.segmentSize) continue
      const expected = `${at.head.segmentSize} messages of version ${conversation.version}`
      const problem = `expected segments of ${expected}, got ${messages.length} of version ${version}`
      return yield* Effect.fail(storage.damaged(log.headKey(at.key), problem))
    }
    const older = segments.flatMap(({ messages }) => messages)
    // Only what is read in parts may be larger than one value
    const decoded =
      older.length === 0
        ? gate.inside(conversationCodec.codec.decode(conversation))
        : decodeWith(at.head, [...older, ...conversation.messages])
    return yield* unreadable(at)(decoded)
  })

  const load = (id: string): Effect.Effect<Effect.Success<ReturnType<Service["load"]>>, storage.Reason> =>
    Effect.gen(function* () {
      const found = yield* log.head(id)
      if (Option.isNone(found)) return Option.none()
      return Option.some({ conversation: yield* loadWhole(found.value), version: found.value.version })
      // Replaced while it was read
    }).pipe(Effect.catchTag("Conflict", () => load(id)))

  /** Stores the whole conversation as one value, in place of the one that was read. */
  const replace = Effect.fnUntraced(function* (
    id: string,
    before: Option.Option<StoredHead>,
    conversation: history.Conversation
  ) {
    const wire = yield* encodeWire(conversation)
    const begun = yield* log.begin(id, before, {
      head: (fields) => ({ ...fields, segmentSize, open: [], conversation: wire })
    })
    // The head lists the values that cannot be deleted now; the next append tries it again
    yield* log.sweep(begun)
    return begun.version
  })

  const appendTo = Effect.fnUntraced(function* (at: StoredHead, messages: ReadonlyArray<Message>) {
    const { head } = at
    const { conversation, segmentSize } = head
    const tail = yield* unreadable(at)(decodeTail(head, conversation.messages))
    if (
      conversation.version !== conversationCodec.codec.current ||
      Result.isFailure(Conversation.appendAll(tail, messages))
    ) {
      // Of an older version, or refused: the error names the position in the whole conversation
      const whole = Conversation.appendAll(yield* loadWhole(at), messages)
      return yield* replace(at.key, Option.some(at), yield* Effect.fromResult(whole))
    }
    yield* Effect.mapError(checkMessages(head, messages.length), storage.refused)
    const added = yield* encodeMessages(messages)

    const full = conversation.messages.length - (conversation.messages.length % segmentSize)
    const moved = conversation.messages.slice(0, full)
    const open = full === 0 ? head.open : openCallsOf(yield* unreadable(at)(decodeTail(head, moved)))
    const newest = { ...conversation, messages: [...conversation.messages.slice(full), ...added] }
    const segments = Arr.chunksOf(moved, segmentSize).map((part) => ({ version: conversation.version, messages: part }))
    const swept = yield* log.sweep(at)
    const appended = yield* log.append(swept, (head) => ({ ...head, open, conversation: newest }), segments)
    return appended.version
  })

  const append = Effect.fnUntraced(function* (
    id: string,
    messages: ReadonlyArray<Message>,
    expected: string | undefined
  ) {
    const found = yield* log.head(id)
    if (expected !== undefined) yield* checkVersion(id, found, Option.some(expected))
    if (Option.isNone(found)) {
      return yield* replace(id, found, yield* Effect.fromResult(Conversation.fromMessages(messages)))
    }
    return messages.length === 0 ? found.value.version : yield* appendTo(found.value, messages)
  })

  const checkVersion = (id: string, found: Option.Option<StoredHead>, expected: Option.Option<string>) =>
    isVersion(versionOf(found), expected)
      ? Effect.void
      : Effect.fail(new ConversationConflict({ id, expected, found: versionOf(found) }))

  const save = Effect.fnUntraced(function* (
    id: string,
    conversation: history.Conversation,
    expected: Option.Option<string>
  ) {
    const found = yield* log.head(id)
    yield* checkVersion(id, found, expected)
    return yield* replace(id, found, conversation)
  })

  const remove = (
    id: string,
    expected: string | undefined
  ): Effect.Effect<boolean, ConversationConflict | Conflict | storage.Reason> =>
    Effect.gen(function* () {
      const found = yield* log.head(id)
      if (expected !== undefined) yield* checkVersion(id, found, Option.some(expected))
      return Option.isSome(found) && (yield* log.remove(id, found.value.version))
    }).pipe(
      Effect.catchTag("Unreadable", (error) =>
        expected === undefined || expected === error.version ? log.remove(id, error.version) : Effect.fail(error)
      ),
      // Without an expected version any version is deleted
      Effect.catchTag("Conflict", (conflict) => (expected === undefined ? remove(id, expected) : Effect.fail(conflict)))
    )

  const conflictOf = (id: string) => (conflict: Conflict) =>
    Effect.fail(new ConversationConflict({ id, expected: conflict.expected, found: versionOf(conflict.found) }))

  const failWith = (operation: ConversationStoreError["operation"], id?: string) => (reason: storage.Reason) =>
    Effect.fail(new ConversationStoreError({ operation, ...defined({ id }), reason }))

  return {
    load: Effect.fn("ConversationStore.load")((id) => Effect.catch(load(id), failWith("load", id))),
    save: Effect.fn("ConversationStore.save")((id, conversation, { expected }) =>
      save(id, conversation, expected).pipe(
        Effect.catchTag("Conflict", conflictOf(id)),
        Effect.catchTag(storage.reasonTags, failWith("save", id))
      )
    ),
    append: Effect.fn("ConversationStore.append")((id, messages, options) =>
      append(id, messages, options?.expected).pipe(
        Effect.catchTag("Conflict", conflictOf(id)),
        Effect.catchTag(storage.reasonTags, failWith("append", id))
      )
    ),
    list: Effect.fn("ConversationStore.list")((options) =>
      log.list(options).pipe(
        Effect.map(({ keys, next }) => ({ ids: keys, next })),
        Effect.catch(failWith("list"))
      )
    ),
    delete: Effect.fn("ConversationStore.delete")((id, options) =>
      remove(id, options?.expected).pipe(
        Effect.catchTag("Conflict", conflictOf(id)),
        Effect.catchTag(storage.reasonTags, failWith("delete", id))
      )
    )
  }
}
