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
import * as Equal from "effect/Equal"
import * as HashMap from "effect/HashMap"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Json from "../payload/Json.ts"
import * as PayloadError from "../payload/PayloadError.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as paths from "../payload/internal/paths.ts"
import * as untrusted from "../payload/internal/untrusted.ts"
import * as Conversation from "./Conversation.ts"
import type { ConversationError } from "./ConversationError.ts"
import type { Message } from "./Message.ts"
import * as VersionedStore from "./VersionedStore.ts"
import * as history from "./internal/history.ts"
import * as storageKeys from "./internal/storageKeys.ts"

/**
 * The store under the conversations failed.
 *
 * **Gotchas**
 *
 * After an `Unavailable` nothing says whether the write took place. Load before you
 * append again.
 *
 * @category reasons
 * @since 0.1.0
 */
export class StoreFailed extends Schema.TaggedError<StoreFailed>("effect-emissary/conversation/StoreFailed")(
  "StoreFailed",
  { error: VersionedStore.VersionedStoreError }
) {
  override get message(): string {
    return this.error.message
  }
}

/**
 * What is stored is not a conversation that this release can read: it was damaged, a
 * newer release wrote it, or it is beyond the current limits. It is left as it is:
 * neither `save` nor `append` writes over it; `delete` removes it. `version` is absent
 * where it cannot be read either.
 *
 * @category reasons
 * @since 0.1.0
 */
export class UnreadableConversation extends Schema.TaggedError<UnreadableConversation>(
  "effect-emissary/conversation/UnreadableConversation"
)("UnreadableConversation", { version: Schema.optionalKey(Schema.String), error: PayloadError.PayloadError }) {
  override get message(): string {
    const version = this.version === undefined ? "" : ` (version ${this.version})`
    return `what is stored${version} cannot be read and was left as it is: ${this.error.message}`
  }
}

/**
 * The conversation or the messages cannot be stored: beyond the current limits, or
 * with a secret inside. Nothing was written.
 *
 * @category reasons
 * @since 0.1.0
 */
export class RefusedConversation extends Schema.TaggedError<RefusedConversation>(
  "effect-emissary/conversation/RefusedConversation"
)("RefusedConversation", { error: PayloadError.PayloadError }) {
  override get message(): string {
    return `refused, nothing was written: ${this.error.message}`
  }
}

/**
 * Why a conversation was not loaded or stored.
 *
 * @category reasons
 * @since 0.1.0
 */
export const Reason = Schema.Union([StoreFailed, UnreadableConversation, RefusedConversation])

/**
 * Why a conversation was not loaded or stored.
 *
 * @category reasons
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

/**
 * A conversation was not loaded or stored. `id` is the conversation's, absent for
 * `list`.
 *
 * @category errors
 * @since 0.1.0
 */
export class ConversationStoreError extends Schema.TaggedError<ConversationStoreError>(
  "effect-emissary/conversation/ConversationStoreError"
)("ConversationStoreError", {
  operation: Schema.Literals(["load", "save", "append", "list", "delete"]),
  id: Schema.optionalKey(Schema.String),
  reason: Reason
}) {
  override get message(): string {
    const id = this.id === undefined ? "conversations" : `conversation ${paths.quote(this.id)}`
    return `${this.operation} ${id}: ${this.reason.message}`
  }
}

/**
 * The stored conversation is not in the version that the writer expected: somebody
 * else saved, appended or deleted in between. Nothing was written.
 *
 * **Details**
 *
 * `None` stands for no conversation.
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
    return `conversation ${paths.quote(this.id)} changed: expected ${storageKeys.versionText(this.expected)}, found ${storageKeys.versionText(this.found)}. Load it again and apply the change to what you find`
  }
}

/**
 * A conversation and the version in which it was loaded.
 *
 * @category models
 * @since 0.1.0
 */
export interface Stored {
  readonly conversation: history.Conversation
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
    conversation: history.Conversation,
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
        ? Effect.succeed(makeService(store, { namespace: options?.namespace ?? "conversation", segmentSize }))
        : Effect.die(new Error(`ConversationStore.layer: expected a segmentSize from 1, found ${segmentSize}`))
    })
  )

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const RecordV1 = Schema.Struct({
  version: Schema.Literal(1),
  generation: Schema.String,
  segmentSize: Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)),
  segments: Count,
  open: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      name: Schema.String,
      providerExecuted: Schema.optionalKey(Schema.Literal(true))
    })
  ),
  retired: Schema.Array(Schema.Struct({ generation: Schema.String, segments: Count })),
  conversation: Schema.optionalKey(Schema.Json)
})

/**
 * What is stored under the key of a conversation: its newest messages, and where the
 * older ones are.
 */
const Record = Schema.Struct({
  /** Names the segments; no two lives of a conversation have the same. */
  generation: Schema.String,
  /** Messages in each segment. */
  segmentSize: Schema.Int,
  /** How many segments stand in front of the messages here. */
  segments: Schema.Int,
  /** The calls of the segments that a later message may answer, in call order. */
  open: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      name: Schema.String,
      providerExecuted: Schema.optionalKey(Schema.Literal(true))
    })
  ),
  /** Segments that belong to nothing any more and may not be deleted yet. */
  retired: Schema.Array(Schema.Struct({ generation: Schema.String, segments: Schema.Int })),
  /** The wire form, with the newest messages only; absent while the conversation is being deleted. */
  conversation: Schema.optionalKey(Schema.Json)
})

const recordV1Arm = VersionedCodec.arm({
  version: 1,
  wire: RecordV1,
  toCurrent: ({ version: _, ...record }) => Effect.succeed(record),
  fromCurrent: (record: Record) => VersionedCodec.lossless({ version: 1 as const, ...record })
})

const recordCodec = VersionedCodec.make<Record>({
  what: "stored conversation",
  field: "version",
  type: Record,
  arms: [recordV1Arm],
  // The codec of conversations has looked for secrets, and knows where keys are data
  data: ["/conversation"]
})

/** Each piece was read under the limits; together they may be more, but not more messages. */
const togetherLimits = {
  maxBytes: Number.POSITIVE_INFINITY,
  maxNodes: Number.POSITIVE_INFINITY,
  maxArrayLength: Number.POSITIVE_INFINITY
}

const damagedRecord = (expected: string, found: string): PayloadError.PayloadError =>
  new PayloadError.PayloadError({
    what: history.codec.what,
    reason: PayloadError.invalid([{ path: "", expected, found }])
  })

const wireVersionOf = (wire: Schema.Json | undefined): Schema.Json | undefined =>
  Json.isObject(wire) ? wire[history.codec.field] : undefined

/** Fails for what a newer release wrote. */
const checkWireVersion = (wire: Schema.Json | undefined): Effect.Effect<void, PayloadError.PayloadError> => {
  const version = wireVersionOf(wire)
  return typeof version === "number" && history.codec.versions.includes(version)
    ? Effect.void
    : Effect.asVoid(history.codec.decode(wire))
}

/** The messages of a piece, if it has the form of one. */
const wireMessagesOf = (wire: Schema.Json | undefined): Effect.Effect<WireMessages, PayloadError.PayloadError> => {
  const messages = Json.isObject(wire) ? wire["messages"] : undefined
  return Array.isArray(messages)
    ? Effect.succeed(messages)
    : Effect.fail(damagedRecord("an object with messages", "something else"))
}

/** Other messages in place of those of a piece. */
const withWireMessages = (wire: Schema.Json | undefined, messages: WireMessages): Json.JsonObject => ({
  ...(Json.isObject(wire) ? wire : undefined),
  messages
})

const makeSegment = (wire: Schema.Json | undefined, messages: WireMessages): Json.JsonObject => ({
  [history.codec.field]: wireVersionOf(wire) ?? null,
  messages
})

const decodeWhole = (wire: Schema.Json | undefined): Effect.Effect<history.Conversation, PayloadError.PayloadError> =>
  history.codec.decode(wire)

const decodeWithMessages = (
  wire: Schema.Json | undefined,
  messages: WireMessages
): Effect.Effect<history.Conversation, PayloadError.PayloadError> =>
  history.codec.decode(withWireMessages(wire, messages), { limits: togetherLimits })

const encodeWhole = (conversation: history.Conversation): Effect.Effect<Json.JsonObject, PayloadError.PayloadError> =>
  // The newest version loses nothing
  history.codec.encode(conversation).pipe(Effect.catchTag("LossyEncoding", Effect.die))

/** The wire form of messages that were checked already, and may start in the middle. */
const encodeMessages = (messages: ReadonlyArray<Message>): Effect.Effect<WireMessages, PayloadError.PayloadError> =>
  Effect.flatMap(encodeWhole(history.rebuild(messages, undefined)), wireMessagesOf)

/**
 * Stands for all messages in segments: to the laws it is the same conversation, which
 * has begun and has these open calls.
 */
const standInMessage = (open: Record["open"]): Schema.Json => ({
  role: "assistant",
  id: "",
  createdAt: "1970-01-01T00:00:00.000Z",
  content: open.map((call) => ({ type: "tool-call", ...call, arguments: null }))
})

/** The newest messages, with what the laws have to know of the others. */
const decodeTail = (
  record: Record,
  messages: WireMessages
): Effect.Effect<history.Conversation, PayloadError.PayloadError> =>
  decodeWithMessages(record.conversation, record.segments === 0 ? messages : [standInMessage(record.open), ...messages])

/** The calls that a later message may answer. */
const openCallsOf = (conversation: history.Conversation): Record["open"] => {
  const self = history.asHistory(conversation)
  return [...HashMap.values(self.providerOpen), ...history.openBatch(self)].map(({ id, name, providerExecuted }) =>
    providerExecuted === true ? { id, name, providerExecuted } : { id, name }
  )
}

const segmentConcurrency = 8

/** The messages of all segments; `None` if one is not there. */
const readSegments = (
  store: VersionedStore.Service,
  keyOf: SegmentKeyOf,
  record: Record
): Effect.Effect<Option.Option<WireMessages>, VersionedStore.VersionedStoreError | PayloadError.PayloadError> =>
  Effect.forEach(
    Array.from({ length: record.segments }, (_, index) => index),
    Effect.fnUntraced(function* (index) {
      const found = yield* store.get(keyOf(record.generation, index))
      if (Option.isNone(found)) return undefined
      const messages = yield* wireMessagesOf(found.value.value)
      if (wireVersionOf(found.value.value) !== wireVersionOf(record.conversation)) {
        return yield* damagedRecord("segments of the version of the conversation", "another version")
      }
      if (messages.length !== record.segmentSize) {
        return yield* damagedRecord(`segments of ${record.segmentSize} messages`, `${messages.length} messages`)
      }
      return messages
    }),
    { concurrency: segmentConcurrency }
  ).pipe(
    Effect.map((all) => {
      const there = all.filter((messages) => messages !== undefined)
      return there.length === all.length ? Option.some(there.flat()) : Option.none()
    })
  )

/** How many segments a record can write now. */
const countFullSegments = (record: Record, messages: WireMessages): number =>
  Math.floor(messages.length / record.segmentSize)

/** Writes the messages that are stored and fill segments into segments of their own. */
const writeSegments = (
  store: VersionedStore.Service,
  keyOf: SegmentKeyOf,
  record: Record,
  messages: WireMessages
): Effect.Effect<void, VersionedStore.VersionedStoreError | PayloadError.PayloadError> =>
  Effect.forEach(
    Array.from({ length: countFullSegments(record, messages) }, (_, index) => index),
    (index) => {
      const { segmentSize } = record
      const part = messages.slice(index * segmentSize, (index + 1) * segmentSize)
      const value = makeSegment(record.conversation, part)
      const key = keyOf(record.generation, record.segments + index)
      return store.compareAndSet(key, Option.none(), value).pipe(
        Effect.asVoid,
        Effect.catchTag("VersionConflict", () =>
          Effect.flatMap(store.get(key), (found) =>
            // None: the conversation was replaced meanwhile, and this write is in vain
            Option.isNone(found) || Equal.equals(found.value.value, value)
              ? Effect.void
              : Effect.fail(damagedRecord("the messages in their order", "other messages"))
          )
        )
      )
    },
    { concurrency: segmentConcurrency, discard: true }
  )

/** Deletes the segments of a generation that is no more, also those of a writer that died. */
const removeSegments = Effect.fnUntraced(function* (
  store: VersionedStore.Service,
  keyOf: SegmentKeyOf,
  retired: { readonly generation: string; readonly segments: number }
) {
  let missing = 0
  for (let index = 0; index < retired.segments || missing < segmentConcurrency; index++) {
    const removed = yield* (
      store
        .delete(keyOf(retired.generation, index))
        // Only conditional deletes can conflict
        .pipe(Effect.catchTag("VersionConflict", () => Effect.succeed(true)))
    )
    missing = removed ? 0 : missing + 1
  }
})

const isLive = (head: Head): head is Live => head.record?.conversation !== undefined

/** A conversation that is being deleted is not there. */
const headVersionOf = (head: Head): HeadVersion => (isLive(head) ? head.version : Option.none())

const sameVersion = (a: HeadVersion, b: HeadVersion): boolean => Option.getOrUndefined(a) === Option.getOrUndefined(b)

const reasonOf = (error: VersionedStore.VersionedStoreError): Reason => {
  switch (error.reason._tag) {
    case "Refused":
      return new RefusedConversation({ error: error.reason.error })
    case "Unreadable":
      return new UnreadableConversation({ error: error.reason.error })
    case "Unavailable":
      return new StoreFailed({ error })
  }
}

const reasonTags = ["StoreFailed", "UnreadableConversation", "RefusedConversation"] as const

const failWith = (operation: ConversationStoreError["operation"], id: string | undefined, reason: Reason) =>
  Effect.fail(new ConversationStoreError({ operation, ...(id === undefined ? {} : { id }), reason }))

const refusePayload = (error: PayloadError.PayloadError) => new RefusedConversation({ error })

const unreadableHead = (head: Head) => (error: PayloadError.PayloadError | VersionedStore.VersionedStoreError) => {
  if (error._tag === "VersionedStoreError") return reasonOf(error)
  return new UnreadableConversation({
    error,
    ...Option.match(head.version, { onNone: () => ({}), onSome: (version) => ({ version }) })
  })
}

const makeService = (
  store: VersionedStore.Service,
  options: { readonly namespace: string; readonly segmentSize: number }
): Service => {
  const prefix = `${options.namespace}/head/`
  const headKey = (id: string) => `${prefix}${id}`
  const segmentKey = (id: string) => (generation: string, index: number) =>
    `${options.namespace}/segment/${id}/${generation}/${index}`

  const readHead = Effect.fnUntraced(function* (id: string) {
    const found = yield* Effect.mapError(store.get(headKey(id)), reasonOf)
    const version = Option.map(found, (versioned) => versioned.version)
    const none: Head = { version, record: undefined }
    if (Option.isNone(found)) return none
    const head: Head = {
      version,
      record: yield* Effect.mapError(recordCodec.decode(found.value.value), unreadableHead(none))
    }
    return head
  })

  /** Writes in place of what was read. */
  const writeHead = (id: string, head: Head, record: Record) =>
    recordCodec.encode(record).pipe(
      Effect.catchTag("LossyEncoding", Effect.die),
      Effect.mapError(refusePayload),
      Effect.flatMap((value) => store.compareAndSet(headKey(id), head.version, value)),
      Effect.catchTag("VersionedStoreError", (error) => Effect.fail(reasonOf(error))),
      Effect.catchTag("VersionConflict", () =>
        Effect.flatMap(readHead(id), (now) =>
          Effect.andThen(
            dropInVain(id, head, now),
            Effect.fail(new ConversationConflict({ id, expected: headVersionOf(head), found: headVersionOf(now) }))
          )
        )
      )
    )

  /** Segments that were written for a generation that has been replaced belong to nobody. */
  const dropInVain = (id: string, head: Head, now: Head) =>
    head.record === undefined || head.record.generation === now.record?.generation
      ? Effect.void
      : Effect.asVoid(sweep(id, [retire(head.record)]))

  const retire = ({ generation, segments }: Record) => ({ generation, segments })

  /** Deletes retired segments, and gives those that are left because the store failed. */
  const sweep = (id: string, retired: Record["retired"]) =>
    Effect.filter(retired, (entry) =>
      Effect.match(removeSegments(store, segmentKey(id), entry), { onSuccess: () => false, onFailure: () => true })
    )

  /** Whether a writer may have made segments. */
  const hasSegments = (record: Record, messages: number) => record.segments > 0 || messages >= record.segmentSize

  const loadWhole = (id: string, head: Live): Effect.Effect<Option.Option<history.Conversation>, Reason> =>
    Effect.gen(function* () {
      const { record } = head
      if (record.segments === 0) return Option.some(yield* decodeWhole(record.conversation))
      const older = yield* readSegments(store, segmentKey(id), record)
      if (Option.isNone(older)) return Option.none()
      const newer = yield* wireMessagesOf(record.conversation)
      return Option.some(yield* decodeWithMessages(record.conversation, [...older.value, ...newer]))
    }).pipe(Effect.mapError(unreadableHead(head)))

  const load = Effect.fnUntraced(function* (id: string) {
    let head = yield* readHead(id)
    for (;;) {
      if (!isLive(head)) return Option.none()
      const conversation = yield* loadWhole(id, head)
      if (Option.isSome(conversation)) {
        // A live head has a version
        return Option.some({ conversation: conversation.value, version: Option.getOrThrow(head.version) })
      }
      const now = yield* readHead(id)
      if (sameVersion(now.version, head.version)) {
        const error = damagedRecord(`${head.record.segments} segments`, "less")
        return yield* unreadableHead(head)(error)
      }
      // Replaced while it was read
      head = now
    }
  })

  /** The whole conversation as one value, in place of what is there. */
  const replace = Effect.fnUntraced(function* (id: string, head: Head, conversation: history.Conversation) {
    const wire = yield* Effect.mapError(encodeWhole(conversation), refusePayload)
    const old = head.record
    if (isLive(head)) yield* Effect.mapError(checkWireVersion(head.record.conversation), unreadableHead(head))
    const left = old === undefined ? [] : yield* sweep(id, old.retired)
    const stored = isLive(head)
      ? yield* Effect.mapError(wireMessagesOf(head.record.conversation), unreadableHead(head))
      : []
    const retired = old !== undefined && hasSegments(old, stored.length) ? [...left, retire(old)] : left
    const version = yield* writeHead(id, head, {
      generation: yield* storageKeys.nonce,
      segmentSize: options.segmentSize,
      segments: 0,
      open: [],
      retired,
      conversation: wire
    })
    // What cannot be deleted now is still listed, for the next writer
    yield* sweep(id, retired)
    return version
  })

  const save = Effect.fnUntraced(function* (
    id: string,
    conversation: history.Conversation,
    { expected }: { readonly expected: HeadVersion }
  ) {
    const head = yield* readHead(id)
    const found = headVersionOf(head)
    if (!sameVersion(found, expected)) return yield* new ConversationConflict({ id, expected, found })
    return yield* replace(id, head, conversation)
  })

  /** The error with the position in the whole conversation; a success if the laws allow it after all. */
  const appendWhole = Effect.fnUntraced(function* (id: string, head: Live, messages: ReadonlyArray<Message>) {
    const whole = yield* loadWhole(id, head)
    if (Option.isNone(whole)) {
      const now = yield* readHead(id)
      return yield* new ConversationConflict({ id, expected: headVersionOf(head), found: headVersionOf(now) })
    }
    return yield* Effect.fromResult(Conversation.appendAll(whole.value, messages))
  })

  const appendTo = Effect.fnUntraced(function* (id: string, head: Live, messages: ReadonlyArray<Message>) {
    const { record } = head
    const stored = yield* Effect.mapError(wireMessagesOf(record.conversation), unreadableHead(head))
    const tail = yield* Effect.mapError(decodeTail(record, stored), unreadableHead(head))
    if (
      wireVersionOf(record.conversation) !== history.codec.current ||
      Result.isFailure(Conversation.appendAll(tail, messages))
    ) {
      return yield* replace(id, head, yield* appendWhole(id, head, messages))
    }
    const count = record.segments * record.segmentSize + stored.length + messages.length
    yield* Effect.mapError(
      untrusted.checkCount("messages", count, { what: history.codec.what, path: "/messages" }),
      refusePayload
    )
    const added = yield* Effect.mapError(encodeMessages(messages), refusePayload)

    const full = countFullSegments(record, stored)
    const moved = stored.slice(0, full * record.segmentSize)
    const rest = stored.slice(moved.length)
    const before = full === 0 ? undefined : yield* Effect.mapError(decodeTail(record, moved), unreadableHead(head))
    yield* Effect.mapError(writeSegments(store, segmentKey(id), record, moved), unreadableHead(head))
    return yield* writeHead(id, head, {
      ...record,
      segments: record.segments + full,
      open: before === undefined ? record.open : openCallsOf(before),
      retired: yield* sweep(id, record.retired),
      conversation: withWireMessages(record.conversation, [...rest, ...added])
    })
  })

  const append = Effect.fnUntraced(function* (
    id: string,
    messages: ReadonlyArray<Message>,
    options?: { readonly expected?: VersionedStore.Version | undefined }
  ) {
    const head = yield* readHead(id)
    const found = headVersionOf(head)
    if (options?.expected !== undefined && !Option.contains(found, options.expected)) {
      return yield* new ConversationConflict({ id, expected: Option.some(options.expected), found })
    }
    if (!isLive(head)) return yield* replace(id, head, yield* Effect.fromResult(Conversation.fromMessages(messages)))
    // A live head has a version
    if (messages.length === 0) return Option.getOrThrow(head.version)
    return yield* appendTo(id, head, messages)
  })

  const deleteHead = (id: string, version: HeadVersion) =>
    store
      .delete(headKey(id), { version: Option.getOrUndefined(version) })
      .pipe(Effect.catchTag("VersionedStoreError", (error) => Effect.fail(reasonOf(error))))

  /** Deletes the segments, then the head. Whoever dies in between leaves a head that says what is left to do. */
  const finishDelete = Effect.fnUntraced(function* (id: string, version: HeadVersion, retired: Record["retired"]) {
    yield* Effect.forEach(retired, (entry) => removeSegments(store, segmentKey(id), entry), { discard: true }).pipe(
      Effect.mapError(reasonOf)
    )
    // A conflict: somebody has made the conversation anew
    yield* Effect.catchTag(deleteHead(id, version), "VersionConflict", () => Effect.succeed(false))
  })

  const deleteRead = Effect.fnUntraced(function* (id: string, head: Head) {
    if (head.record === undefined) return false
    if (!isLive(head)) {
      yield* finishDelete(id, head.version, head.record.retired)
      return false
    }
    const { conversation, ...record } = head.record
    const messages = yield* Effect.orElseSucceed(wireMessagesOf(conversation), () => [])
    const retired = hasSegments(head.record, messages.length)
      ? [...record.retired, retire(head.record)]
      : record.retired
    const version = yield* writeHead(id, head, { ...record, segments: 0, open: [], retired })
    yield* finishDelete(id, Option.some(version), retired)
    return true
  })

  const remove = (
    id: string,
    options?: { readonly expected?: VersionedStore.Version | undefined }
  ): Effect.Effect<boolean, ConversationConflict | Reason> =>
    Effect.gen(function* () {
      const expected = Option.fromUndefinedOr(options?.expected)
      const head = yield* readHead(id)
      const found = headVersionOf(head)
      if (Option.isSome(expected) && !sameVersion(found, expected))
        return yield* new ConversationConflict({ id, expected, found })
      return yield* deleteRead(id, head)
    }).pipe(
      Effect.catchTag("UnreadableConversation", (error) =>
        // Its segments are not known, so they stay
        options?.expected === undefined || options.expected === error.version
          ? Effect.catchTag(deleteHead(id, Option.fromUndefinedOr(error.version)), "VersionConflict", () =>
              remove(id, options)
            )
          : Effect.fail(error)
      ),
      Effect.catchTag("ConversationConflict", (conflict) =>
        // Without an expected version whatever is there is deleted
        options?.expected === undefined ? remove(id) : Effect.fail(conflict)
      )
    )

  return {
    load: Effect.fn("ConversationStore.load")((id) =>
      Effect.catchTag(load(id), reasonTags, (reason) => failWith("load", id, reason))
    ),
    save: Effect.fn("ConversationStore.save")((id, conversation, options) =>
      Effect.catchTag(save(id, conversation, options), reasonTags, (reason) => failWith("save", id, reason))
    ),
    append: Effect.fn("ConversationStore.append")((id, messages, options) =>
      Effect.catchTag(append(id, messages, options), reasonTags, (reason) => failWith("append", id, reason))
    ),
    list: Effect.fn("ConversationStore.list")((options) =>
      store
        .list({
          prefix: `${prefix}${options?.prefix ?? ""}`,
          after: options?.after === undefined ? undefined : headKey(options.after),
          limit: options?.limit
        })
        .pipe(
          Effect.map(({ keys, next }) => ({
            ids: keys.map((key) => key.slice(prefix.length)),
            next: Option.map(next, (key) => key.slice(prefix.length))
          })),
          Effect.catch((error) => failWith("list", undefined, reasonOf(error)))
        )
    ),
    delete: Effect.fn("ConversationStore.delete")((id, options) =>
      Effect.catchTag(remove(id, options), reasonTags, (reason) => failWith("delete", id, reason))
    )
  }
}

/**
 * Keeps conversations in memory, for as long as the layer lives.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<ConversationStore> = Layer.provide(layer(), VersionedStore.layerMemory)

type Record = typeof Record.Type

type WireMessages = ReadonlyArray<Schema.Json>

type SegmentKeyOf = (generation: string, index: number) => string

type HeadVersion = Option.Option<VersionedStore.Version>

/** What stands under the key of a conversation; `record` is absent if nothing does. */
interface Head {
  readonly version: HeadVersion
  readonly record: Record | undefined
}

interface Live {
  readonly version: HeadVersion
  readonly record: Record
}
