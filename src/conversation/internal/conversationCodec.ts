/**
 * The repair of histories that break laws, and conversations as versioned JSON.
 */

import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaParser from "effect/SchemaParser"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as jsonLimits from "../../payload/internal/limits.ts"
import { defined, isObject } from "../../payload/internal/values.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type { ConversationError, Reason, Repair } from "../ConversationError.ts"
import * as history from "./history.ts"
import type {
  AssistantMessage,
  AssistantPart,
  Conversation,
  Message,
  MessagePlace,
  SystemMessage,
  ToolCallPart,
  ToolMessage,
  ToolResultPart
} from "./history.ts"

/**
 * A lawful conversation, and the list of changes that made it lawful, in the order of
 * the history.
 *
 * @category models
 * @since 0.1.0
 */
export interface RepairedConversation {
  readonly conversation: Conversation
  readonly repairs: ReadonlyArray<Repair>
}

/**
 * A function that reads a conversation. With `onUnlawful: "repair"` it returns the
 * conversation together with the changes; by default, `"refuse"`, a history that
 * breaks a law is an error.
 */
export interface Reader<in I, in O, out E> {
  (input: I, options: O & { readonly onUnlawful: "repair" }): Effect.Effect<RepairedConversation, E>
  (input: I, options?: O & { readonly onUnlawful?: "refuse" | undefined }): Effect.Effect<Conversation, E>
}

/** Two readers as one function: `onUnlawful` selects one. */
export const makeReader = <I, O, E>(
  refuse: (input: I, options?: O) => Effect.Effect<Conversation, E>,
  repair: (input: I, options?: O) => Effect.Effect<RepairedConversation, E>
): Reader<I, O, E> => {
  function read(input: I, options: O & { readonly onUnlawful: "repair" }): Effect.Effect<RepairedConversation, E>
  function read(input: I, options?: O & { readonly onUnlawful?: "refuse" | undefined }): Effect.Effect<Conversation, E>
  function read(input: I, options?: O & { readonly onUnlawful?: "refuse" | "repair" | undefined }) {
    return options?.onUnlawful === "repair" ? repair(input, options) : refuse(input, options)
  }
  return read
}

/** The new ids of calls, by the id that their results have; an id with a result is taken off. */
type Labels = Map<string, Array<string>>

const addLabel = (labels: Labels, from: string, to: string): void => {
  const ids = labels.get(from)
  if (ids === undefined) labels.set(from, [to])
  else ids.push(to)
}

/** The law that a result breaks whose call id was made by the repair. */
const orphanReason = (place: MessagePlace, callId: string): Reason => ({
  _tag: "OrphanResult",
  ...place,
  callId,
  open: []
})

/** Removes what breaks a law from the content of an assistant message. */
const repairParts = (self: history.Facts, parts: ReadonlyArray<AssistantPart>, place: history.MessagePlace) => {
  const content: Array<AssistantPart> = []
  const repairs: Array<Repair> = []
  const labels: Labels = new Map()
  const providerLabels: Labels = new Map()
  const made = new Set<string>()
  const check = history.makePartChecker(self, place, true)
  const ids = parts.flatMap((part) => (part.type === "tool-call" ? [part.id] : []))
  const fresh = history.makeFreshIds(self, new Set(ids))

  const addCall = (given: ToolCallPart): void => {
    const { text: _, ...bare } = given
    const part = history.textFitsArguments(given) ? given : bare
    if (part === bare) repairs.push({ _tag: "CallTextDropped", ...place, callId: part.id })
    if (check(part) === undefined) {
      content.push(part)
      labels.set(part.id, [part.id])
      return
    }
    const call = { ...part, id: fresh(part.id) }
    check(call)
    content.push(call)
    made.add(call.id)
    addLabel(labels, part.id, call.id)
    if (part.providerExecuted === true) addLabel(providerLabels, part.id, call.id)
    repairs.push({ _tag: "CallRelabelled", ...place, from: part.id, to: call.id })
  }

  /** Keeps the result if it answers a call; otherwise the law it breaks. */
  const answer = (part: ToolResultPart): Reason | undefined => {
    const reason = check(part)
    if (reason?._tag === "NameMismatch") {
      repairs.push({ _tag: "ResultRenamed", ...place, callId: part.id, from: part.name, to: reason.expected })
      return answer({ ...part, name: reason.expected })
    }
    if (reason === undefined) content.push(part)
    return reason
  }

  const addResult = (part: ToolResultPart): void => {
    const reason = made.has(part.id) ? orphanReason(place, part.id) : answer(part)
    if (reason === undefined) return
    // Each id is tried once: there may be thousands of calls and results
    const id = providerLabels.get(part.id)?.shift()
    if (id !== undefined && answer({ ...part, id }) === undefined) return
    repairs.push({ _tag: "PartDropped", ...place, reason })
  }

  for (const part of parts) {
    if (part.type === "tool-call") addCall(part)
    else if (part.type === "tool-result") addResult(part)
    else content.push(part)
  }
  return { content, repairs, labels, made }
}

/** The failure in place of a missing result, and the report about it. */
interface SealedCall {
  readonly repair: Repair
  readonly result: ToolMessage
}

/** Makes a lawful conversation of messages that come one by one. */
export const makeRepairer = ({ laterSystem, tokenLimit }: history.ReadOptions) => {
  const self = new history.FactsDraft(history.limited(history.empty, tokenLimit))
  const repairs: Array<Repair> = []
  let labels: Labels = new Map()
  // Ids that the repair made: a result that has one is for no call
  let made: ReadonlySet<string> = new Set()
  // Calls that were sealed, by the id that their results have (nothing where several share it), and results that came later
  const sealed = new Map<string, SealedCall | undefined>()
  const late = new Map<Message, ToolMessage>()
  const withdrawn = new Set<Repair>()
  // System messages, also demoted ones, that wait for the results of open calls
  let waiting: Array<readonly [message: Message, place: MessagePlace]> = []

  /** Leaves out a message. */
  const drop = (place: MessagePlace, reason: Reason): void => {
    repairs.push({ _tag: "MessageDropped", ...place, reason })
  }

  const push = (given: Message, place: history.MessagePlace): void => {
    const message = history.freeze(given)
    const reason = history.checkMessage(self, message, place.index)
    if (reason === undefined) history.addTo(self, message)
    else drop(place, reason)
  }

  const addWaiting = (): void => {
    if (!HashMap.isEmpty(self.open)) return
    const messages = waiting
    waiting = []
    for (const [message, place] of messages) push(message, place)
  }

  const sealBefore = (place: history.MessagePlace): Effect.Effect<void> =>
    HashMap.isEmpty(self.open)
      ? Effect.void
      : Effect.map(history.sealOf(self), (results) => {
          const given = new Map(Array.from(labels, ([from, ids]) => ids.map((id) => [id, from] as const)).flat())
          for (const result of results) {
            const repair: Repair = { _tag: "CallSealed", ...place, callId: result.callId, name: result.name }
            repairs.push(repair)
            history.addTo(self, result)
            const id = given.get(result.callId) ?? result.callId
            sealed.set(id, sealed.has(id) ? undefined : { repair, result })
          }
          addWaiting()
        })

  const addSystem = (message: SystemMessage, place: history.MessagePlace): void => {
    const demoted = !history.keepsSystem(laterSystem) && place.index > 0
    if (demoted) repairs.push({ _tag: "SystemDemoted", ...place })
    else if (!HashMap.isEmpty(self.open)) repairs.push({ _tag: "SystemMoved", ...place })
    const content = [ToolResult.textPart(message.content)] as const
    waiting.push([demoted ? { ...message, role: "user", content } : message, place])
    addWaiting()
  }

  const addAssistant = (message: AssistantMessage, place: history.MessagePlace): void => {
    labels = new Map()
    made = new Set()
    if (history.checkMessage(self, message, place.index) === undefined) {
      history.addTo(self, message)
      return
    }
    const repaired = repairParts(self, message.content, place)
    repairs.push(...repaired.repairs)
    labels = repaired.labels
    made = repaired.made
    const lawful: AssistantMessage = { ...message, content: repaired.content }
    history.freezeDecoded(lawful)
    push(lawful, place)
  }

  const addResult = (message: ToolMessage, place: history.MessagePlace): void => {
    if (made.has(message.callId)) return drop(place, orphanReason(place, message.callId))
    const ids = labels.get(message.callId) ?? []
    // Each id is taken off once: there may be thousands of calls and results
    while (ids.length > 1 && !HashMap.has(self.open, ids[0] ?? "")) ids.shift()
    const [callId = message.callId] = ids
    const call = Option.getOrUndefined(HashMap.get(self.open, callId))
    const earlier = call === undefined ? sealed.get(message.callId) : undefined
    const name = call?.name ?? earlier?.result.name ?? message.name
    if (name !== message.name) {
      repairs.push({ _tag: "ResultRenamed", ...place, callId, from: message.name, to: name })
    }
    if (earlier !== undefined) {
      const { callId } = earlier.result
      sealed.delete(message.callId)
      late.set(earlier.result, history.freeze<ToolMessage>({ ...message, callId, name }))
      withdrawn.add(earlier.repair)
      repairs.push({ _tag: "ResultMoved", ...place, callId })
      return
    }
    push(name === message.name && callId === message.callId ? message : { ...message, callId, name }, place)
    addWaiting()
  }

  const addNow = (message: Message, place: history.MessagePlace): void => {
    if (message.role === "tool") addResult(message, place)
    else if (message.role === "assistant") addAssistant(message, place)
    else if (message.role === "system") addSystem(message, place)
    else push(message, place)
  }

  const add = (message: Message, index: number): Effect.Effect<void> => {
    const place: MessagePlace = { index, id: message.id }
    if (message.role === "user") {
      // An empty message ends no turn
      const reason = history.checkContent(message, place)
      if (reason !== undefined) return Effect.sync(() => drop(place, reason))
    }
    const isTurn = message.role === "user" || message.role === "assistant"
    // The repair freezes its changes of a frozen message without a copy
    return Effect.map(isTurn ? sealBefore(place) : Effect.void, () => addNow(history.freeze<Message>(message), place))
  }

  const finish = Effect.fnUntraced(function* (beside: number | undefined) {
    const [next] = waiting
    // A message behind an open end needs its calls closed
    if (next !== undefined) yield* sealBefore(next[1])
    const facts = late.size === 0 ? self : new history.FactsDraft(history.limited(history.empty, tokenLimit))
    if (facts !== self)
      for (const message of new history.History(self)) history.addTo(facts, late.get(message) ?? message)
    const conversation = new history.History(facts)
    return {
      conversation: beside === undefined ? conversation : history.forgetReport(conversation, beside),
      repairs: repairs.filter((repair) => !withdrawn.has(repair))
    }
  })

  return { self, add, drop, finish }
}

export const repairMessages = Effect.fnUntraced(function* (
  messages: Iterable<Message>,
  options: history.ReadOptions & { readonly beside?: number | undefined } = {}
) {
  const repairer = makeRepairer(options)
  let index = 0
  for (const message of messages) yield* repairer.add(message, index++)
  return yield* repairer.finish(options.beside)
})

// The wire

/** Very many wrong items take long to describe. */
const maxWrongItems = 1000

/** `Schema.Array`, but decoding gives up after very many wrong items. */
const boundedArray = <A, I>(item: Schema.Codec<A, I>) =>
  Schema.declareConstructor<ReadonlyArray<A>, ReadonlyArray<I>>()(
    [item],
    ([codec]) => {
      const decode = SchemaParser.decodeUnknownResult(codec)
      return (input, ast, options) => {
        if (!Array.isArray(input)) return Effect.fail(new SchemaIssue.InvalidType(ast, input, options))
        const items: Array<A> = []
        const issues: Array<SchemaIssue.Issue> = []
        const max = options.errors === "all" ? maxWrongItems : 1
        for (let index = 0; index < input.length && issues.length < max; index++) {
          const decoded = decode(input[index], options)
          if (Result.isSuccess(decoded)) items.push(decoded.success)
          else issues.push(new SchemaIssue.Pointer([index], decoded.failure))
        }
        const [first, ...rest] = issues
        return first === undefined
          ? Effect.succeed(items)
          : Effect.fail(new SchemaIssue.Composite(ast, [first, ...rest], input, options))
      }
    },
    { expected: "array" }
  )

/** Version 1 of the JSON of conversations. */
export const Wire = Schema.Struct({
  version: Schema.Literal(1),
  tokenLimit: Schema.optionalKey(Schema.Finite),
  /** Present if the newest usage was reported about a longer history: the tokens of a request beside the messages. */
  beside: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
  messages: boundedArray(history.Message)
}).annotate({ identifier: "ConversationV1" })

type Wire = typeof Wire.Type

/** The messages of a wire that a codec has decoded from a copy of the JSON. */
const messagesOf = ({ messages }: Wire): ReadonlyArray<Message> => {
  messages.forEach(history.freezeDecoded)
  return messages
}

export const readWire = (wire: Wire): Result.Result<Conversation, ConversationError> =>
  Result.map(history.appendAll(history.limited(history.empty, wire.tokenLimit), messagesOf(wire)), (self) =>
    wire.beside === undefined ? self : history.forgetReport(history.asHistory(self), wire.beside)
  )

export const writeWire = (self: Conversation): Wire => {
  const { beside, tokenLimit } = history.asHistory(self)
  return {
    version: 1,
    ...defined({ tokenLimit, beside }),
    messages: history.messages(self)
  }
}

const codecName = "Conversation"

/** Refuses more messages than `Limits` allow. */
export const checkCount = (found: number): Effect.Effect<void, PayloadError.PayloadError> =>
  jsonLimits.checkCount("messages", found, { what: codecName, path: "/messages" })

/** The codec of a value that holds a conversation. The number of messages is checked before their schema. */
const makeCodec = <T>(options: {
  readonly type: Schema.Codec<T>
  readonly toCurrent: (wire: Wire) => Effect.Effect<T, PayloadError.Reason>
  readonly conversationOf: (value: T) => Conversation
}): VersionedCodec.VersionedCodec<T> => {
  const v1 = VersionedCodec.arm<T, Wire>({
    version: 1,
    wire: Wire,
    toCurrent: options.toCurrent,
    fromCurrent: (value) => VersionedCodec.lossless(writeWire(options.conversationOf(value)))
  })
  return VersionedCodec.make<T>({
    what: codecName,
    field: "version",
    // Arguments and results of tools are the application's words, and metadata of responses the provider's, not options
    data: [
      "/messages/*/content/*/arguments",
      "/messages/*/content/*/result/value",
      "/messages/*/response/metadata",
      "/messages/*/result/value"
    ],
    type: options.type,
    arms: [
      {
        version: v1.version,
        read: (json, settings) => Effect.andThen(checkCount(wireLength(json)), v1.read(json, settings)),
        write: (value, settings) =>
          Effect.andThen(checkCount(history.asHistory(options.conversationOf(value)).length), v1.write(value, settings))
      }
    ]
  })
}

const wireLength = (json: Schema.Json): number => {
  const messages = isObject(json) ? json["messages"] : undefined
  return Array.isArray(messages) ? messages.length : 0
}

/**
 * Reads and writes conversations as versioned JSON, under the limits of `Limits`.
 *
 * **Details**
 *
 * Undeclared keys are rejected, and a history that breaks a law is an `Invalid` reason
 * with the path of the message. Writing fails where data must not be written: a
 * `Redacted` value, a key that names a secret in metadata or provider options, a key
 * that no reader accepts, or more than the limits allow to be read back.
 *
 * It is for what the program wrote itself: system messages stay where they are. Sign a conversation that passes through
 * other hands (`Signed`), or run it with `instructions: "replace"`, which removes them.
 *
 * **Example** (Storing a conversation)
 *
 * ```ts
 * import { Effect, Equal } from "effect"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const chat = yield* Conversation.addUser(Conversation.empty, "Hello")
 *   const text = yield* Conversation.codec.encodeJson(chat)
 *   assert.strictEqual(JSON.parse(text).version, 1)
 *   return Equal.equals(yield* Conversation.codec.decodeJson(text), chat)
 * })
 *
 * assert.strictEqual(Effect.runSync(program), true)
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const codec: VersionedCodec.VersionedCodec<Conversation> = makeCodec<Conversation>({
  type: Schema.declare<Conversation>(history.isConversation, { identifier: "Conversation" }),
  toCurrent: (wire) =>
    Effect.suspend(() => Effect.fromResult(readWire(wire))).pipe(
      Effect.mapError(({ problem: { expected, found, path } }) => PayloadError.invalid([{ path, expected, found }]))
    ),
  conversationOf: identity
})

const isRepaired = (u: unknown): u is RepairedConversation =>
  Predicate.hasProperty(u, "conversation") && history.isConversation(u.conversation)

/**
 * Like {@link codec}, but repairs a history that breaks laws, and returns the
 * conversation with the list of changes. JSON that is not a conversation is rejected.
 *
 * **Example** (Repairing stored JSON)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const input = {
 *   version: 1,
 *   messages: [{
 *     role: "tool",
 *     id: "m1",
 *     createdAt: "2026-01-01T00:00:00.000Z",
 *     callId: "c1",
 *     name: "search",
 *     result: { _tag: "Failure", type: "not_found", message: "Nothing found" }
 *   }]
 * }
 * const refused = Effect.runSync(Effect.flip(Conversation.codec.decode(input)))
 * assert.match(refused.message, /\/messages\/0/)
 *
 * const { repairs } = Effect.runSync(Conversation.repairingCodec.decode(input))
 * assert.strictEqual(repairs[0]?._tag, "MessageDropped")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const repairingCodec: VersionedCodec.VersionedCodec<RepairedConversation> = makeCodec<RepairedConversation>({
  type: Schema.declare<RepairedConversation>(isRepaired, { identifier: "RepairedConversation" }),
  toCurrent: (wire) => repairMessages(messagesOf(wire), wire),
  conversationOf: ({ conversation }) => conversation
})
