import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { checkCount } from "../../../payload/Limits.ts"
import type { PayloadError } from "../../../payload/PayloadError.ts"
import * as Conversation from "../../Conversation.ts"
import type { Service } from "../../ConversationStore.ts"
import {
  ConversationConflict,
  ConversationStoreError,
  type Reason,
  RefusedConversation,
  StoreFailed,
  UnreadableConversation
} from "../../ConversationStoreError.ts"
import type { Message } from "../../Message.ts"
import type * as VersionedStore from "../../VersionedStore.ts"
import type { VersionedStoreError } from "../../VersionedStoreError.ts"
import { codec as conversationCodec } from "../codec.ts"
import * as pieces from "./pieces.ts"
import { codec, type Record } from "./record.ts"
import * as segments from "./segments.ts"
import * as versions from "./versions.ts"

type Version = Option.Option<VersionedStore.Version>

/** What stands under the key of a conversation; `record` is absent if nothing does. */
interface Head {
  readonly version: Version
  readonly record: Record | undefined
}

interface Live {
  readonly version: Version
  readonly record: Record
}

const isLive = (head: Head): head is Live => head.record?.conversation !== undefined

/** A conversation that is being deleted is not there. */
const versionOf = (head: Head): Version => (isLive(head) ? head.version : Option.none())

const same = (a: Version, b: Version): boolean => Option.getOrUndefined(a) === Option.getOrUndefined(b)

const failed = (error: VersionedStoreError): Reason => {
  switch (error.reason._tag) {
    case "Refused":
      return new RefusedConversation({ error: error.reason.error })
    case "Unreadable":
      return new UnreadableConversation({ error: error.reason.error })
    case "Unavailable":
      return new StoreFailed({ error })
  }
}

const reasons = ["StoreFailed", "UnreadableConversation", "RefusedConversation"] as const

const fail = (operation: ConversationStoreError["operation"], id: string | undefined, reason: Reason) =>
  Effect.fail(new ConversationStoreError({ operation, ...(id === undefined ? {} : { id }), reason }))

const refused = (error: PayloadError) => new RefusedConversation({ error })

const unreadable = (head: Head) => (error: PayloadError | VersionedStoreError) => {
  if (error._tag === "VersionedStoreError") return failed(error)
  return new UnreadableConversation({
    error,
    ...Option.match(head.version, { onNone: () => ({}), onSome: (version) => ({ version }) })
  })
}

export const make = (
  store: VersionedStore.Service,
  options: { readonly namespace: string; readonly segmentSize: number }
): Service => {
  const prefix = `${options.namespace}/head/`
  const headKey = (id: string) => `${prefix}${id}`
  const segmentKey = (id: string) => (generation: string, index: number) =>
    `${options.namespace}/segment/${id}/${generation}/${index}`

  const readHead = Effect.fnUntraced(function* (id: string) {
    const found = yield* Effect.mapError(store.get(headKey(id)), failed)
    const version = Option.map(found, (versioned) => versioned.version)
    const none: Head = { version, record: undefined }
    if (Option.isNone(found)) return none
    const head: Head = { version, record: yield* Effect.mapError(codec.decode(found.value.value), unreadable(none)) }
    return head
  })

  /** Writes in place of what was read. */
  const writeHead = (id: string, head: Head, record: Record) =>
    codec.encode(record).pipe(
      Effect.catchTag("LossyEncoding", Effect.die),
      Effect.mapError(refused),
      Effect.flatMap((value) => store.compareAndSet(headKey(id), head.version, value)),
      Effect.catchTag("VersionedStoreError", (error) => Effect.fail(failed(error))),
      Effect.catchTag("VersionConflict", () =>
        Effect.flatMap(readHead(id), (now) =>
          Effect.andThen(
            dropInVain(id, head, now),
            Effect.fail(new ConversationConflict({ id, expected: versionOf(head), found: versionOf(now) }))
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
      Effect.match(segments.remove(store, segmentKey(id), entry), { onSuccess: () => false, onFailure: () => true })
    )

  /** Whether a writer may have made segments. */
  const hasSegments = (record: Record, messages: number) => record.segments > 0 || messages >= record.segmentSize

  const loadWhole = (id: string, head: Live): Effect.Effect<Option.Option<Conversation.Conversation>, Reason> =>
    Effect.gen(function* () {
      const { record } = head
      if (record.segments === 0) return Option.some(yield* pieces.decodeWhole(record.conversation))
      const older = yield* segments.read(store, segmentKey(id), record)
      if (Option.isNone(older)) return Option.none()
      const newer = yield* pieces.messagesOf(record.conversation)
      return Option.some(yield* pieces.decodeTogether(record.conversation, [...older.value, ...newer]))
    }).pipe(Effect.mapError(unreadable(head)))

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
      if (same(now.version, head.version)) {
        const error = pieces.damaged(`${head.record.segments} segments`, "less")
        return yield* unreadable(head)(error)
      }
      // Replaced while it was read
      head = now
    }
  })

  /** The whole conversation as one value, in place of what is there. */
  const replace = Effect.fnUntraced(function* (id: string, head: Head, conversation: Conversation.Conversation) {
    const wire = yield* Effect.mapError(pieces.encode(conversation), refused)
    const old = head.record
    if (isLive(head)) yield* Effect.mapError(pieces.checkVersion(head.record.conversation), unreadable(head))
    const left = old === undefined ? [] : yield* sweep(id, old.retired)
    const stored = isLive(head)
      ? yield* Effect.mapError(pieces.messagesOf(head.record.conversation), unreadable(head))
      : []
    const retired = old !== undefined && hasSegments(old, stored.length) ? [...left, retire(old)] : left
    const version = yield* writeHead(id, head, {
      generation: yield* versions.nonce,
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
    conversation: Conversation.Conversation,
    { expected }: { readonly expected: Version }
  ) {
    const head = yield* readHead(id)
    const found = versionOf(head)
    if (!same(found, expected)) return yield* new ConversationConflict({ id, expected, found })
    return yield* replace(id, head, conversation)
  })

  /** The error with the position in the whole conversation; a success if the laws allow it after all. */
  const appendWhole = Effect.fnUntraced(function* (id: string, head: Live, messages: ReadonlyArray<Message>) {
    const whole = yield* loadWhole(id, head)
    if (Option.isNone(whole)) {
      const now = yield* readHead(id)
      return yield* new ConversationConflict({ id, expected: versionOf(head), found: versionOf(now) })
    }
    return yield* Effect.fromResult(Conversation.appendAll(whole.value, messages))
  })

  const appendTo = Effect.fnUntraced(function* (id: string, head: Live, messages: ReadonlyArray<Message>) {
    const { record } = head
    const stored = yield* Effect.mapError(pieces.messagesOf(record.conversation), unreadable(head))
    const tail = yield* Effect.mapError(pieces.decodeTail(record, stored), unreadable(head))
    if (
      pieces.versionOf(record.conversation) !== conversationCodec.current ||
      Result.isFailure(Conversation.appendAll(tail, messages))
    ) {
      return yield* replace(id, head, yield* appendWhole(id, head, messages))
    }
    const count = record.segments * record.segmentSize + stored.length + messages.length
    yield* Effect.mapError(checkCount("messages", count, { what: conversationCodec.what, path: "/messages" }), refused)
    const added = yield* Effect.mapError(pieces.encodeMessages(messages), refused)

    const full = segments.ready(record, stored)
    const moved = stored.slice(0, full * record.segmentSize)
    const rest = stored.slice(moved.length)
    const before = full === 0 ? undefined : yield* Effect.mapError(pieces.decodeTail(record, moved), unreadable(head))
    yield* Effect.mapError(segments.write(store, segmentKey(id), record, moved), unreadable(head))
    return yield* writeHead(id, head, {
      ...record,
      segments: record.segments + full,
      open: before === undefined ? record.open : pieces.openCalls(before),
      retired: yield* sweep(id, record.retired),
      conversation: pieces.withMessages(record.conversation, [...rest, ...added])
    })
  })

  const append = Effect.fnUntraced(function* (
    id: string,
    messages: ReadonlyArray<Message>,
    options?: { readonly expected?: VersionedStore.Version | undefined }
  ) {
    const head = yield* readHead(id)
    const found = versionOf(head)
    if (options?.expected !== undefined && !Option.contains(found, options.expected)) {
      return yield* new ConversationConflict({ id, expected: Option.some(options.expected), found })
    }
    if (!isLive(head)) return yield* replace(id, head, yield* Effect.fromResult(Conversation.fromMessages(messages)))
    // A live head has a version
    if (messages.length === 0) return Option.getOrThrow(head.version)
    return yield* appendTo(id, head, messages)
  })

  const deleteHead = (id: string, version: Version) =>
    store
      .delete(headKey(id), { version: Option.getOrUndefined(version) })
      .pipe(Effect.catchTag("VersionedStoreError", (error) => Effect.fail(failed(error))))

  /** Deletes the segments, then the head. Whoever dies in between leaves a head that says what is left to do. */
  const finishDelete = Effect.fnUntraced(function* (id: string, version: Version, retired: Record["retired"]) {
    yield* Effect.forEach(retired, (entry) => segments.remove(store, segmentKey(id), entry), { discard: true }).pipe(
      Effect.mapError(failed)
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
    const messages = yield* Effect.orElseSucceed(pieces.messagesOf(conversation), () => [])
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
      const found = versionOf(head)
      if (Option.isSome(expected) && !same(found, expected))
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
      Effect.catchTag(load(id), reasons, (reason) => fail("load", id, reason))
    ),
    save: Effect.fn("ConversationStore.save")((id, conversation, options) =>
      Effect.catchTag(save(id, conversation, options), reasons, (reason) => fail("save", id, reason))
    ),
    append: Effect.fn("ConversationStore.append")((id, messages, options) =>
      Effect.catchTag(append(id, messages, options), reasons, (reason) => fail("append", id, reason))
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
          Effect.catch((error) => fail("list", undefined, failed(error)))
        )
    ),
    delete: Effect.fn("ConversationStore.delete")((id, options) =>
      Effect.catchTag(remove(id, options), reasons, (reason) => fail("delete", id, reason))
    )
  }
}
