/**
 * The rules that a `ConversationStore` keeps.
 */
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Conversation from "../../../conversation/Conversation.ts"
import type { ConversationError } from "../../../conversation/ConversationError.ts"
import type { ConversationConflict, ConversationStoreError } from "../../../conversation/ConversationStoreError.ts"
import type { Service } from "../../../conversation/ConversationStore.ts"
import * as Message from "../../../conversation/Message.ts"
import * as Part from "../../../conversation/Part.ts"
import * as ToolResult from "../../../tool/ToolResult.ts"
import * as ConversationArbitrary from "../../ConversationArbitrary.ts"
import { expect, expectError, expectSome, type Rule, show } from "./rule.ts"
import { hostileKeys } from "./versioned.ts"

const none = Option.none<string>()

export const listAll = Effect.fnUntraced(function* (store: Service, prefix: string, limit: number) {
  const all: Array<string> = []
  let after: string | undefined
  do {
    const page = yield* store.list({ prefix, limit, after })
    all.push(...page.ids)
    after = Option.getOrUndefined(page.next)
  } while (after !== undefined)
  return all
})

const loadSome = (store: Service, id: string) => Effect.flatMap(store.load(id), (found) => expectSome("load", found))

const json = (conversation: Conversation.Conversation) => Effect.map(Conversation.encode(conversation), show)

const expectSame = Effect.fnUntraced(function* (
  what: string,
  expected: Conversation.Conversation,
  found: Conversation.Conversation
) {
  yield* expect(what, yield* json(expected), yield* json(found))
  if (!Equal.equals(expected, found)) return yield* Effect.fail(`${what}: not equal, although the JSON is`)
})

const conflict = (
  what: string,
  expected: { readonly id: string; readonly expected: Option.Option<string>; readonly found: Option.Option<string> },
  effect: Effect.Effect<unknown, ConversationConflict | ConversationError | ConversationStoreError>
) =>
  Effect.flatMap(expectError(what, "ConversationConflict", effect), ({ expected: wanted, found, id }) =>
    expect(what, expected, { id, expected: wanted, found })
  )

const user = (n: number | string) => Message.user(`message ${n}`)

const text = (message: Message.Message): string => {
  if (message.role !== "user") return message.role
  const [part] = message.content
  return part.type === "text" ? part.text : part.type
}

const texts = (conversation: Conversation.Conversation) => Conversation.messages(conversation).map(text)

const absent: Rule<Service> = {
  name: "what is not there is None, cannot be changed and is deleted without effect",
  check: Effect.fnUntraced(function* (store, part) {
    const id = `${part}none`
    yield* expect("load", none, yield* store.load(id))
    yield* expect("delete", false, yield* store.delete(id))
    const fields = { id, expected: Option.some("1-x"), found: none }
    yield* conflict("save", fields, store.save(id, Conversation.empty, { expected: Option.some("1-x") }))
    yield* conflict("append", fields, store.append(id, [yield* user(1)], { expected: "1-x" }))
    yield* conflict("delete in a version", fields, store.delete(id, { expected: "1-x" }))
    yield* expect("load", none, yield* store.load(id))
  })
}

const roundTrip: Rule<Service> = {
  name: "what was saved, or appended message by message, is loaded equal",
  check: Effect.fnUntraced(function* (store, part) {
    const conversations = yield* Arbitrary.sampleEffect(ConversationArbitrary.conversation({ maxTurns: 8 }), {
      count: 20,
      seed: 20_26
    })
    for (const [index, conversation] of conversations.entries()) {
      const saved = `${part}saved/${index}`
      const version = yield* store.save(saved, conversation, { expected: none })
      const found = yield* loadSome(store, saved)
      yield* expectSame("after save", conversation, found.conversation)
      yield* expect("version", version, found.version)

      const appended = `${part}appended/${index}`
      const empty = Conversation.withTokenLimit(
        Conversation.empty,
        Option.getOrUndefined(Conversation.tokenLimit(conversation))
      )
      let last = yield* store.save(appended, empty, { expected: none })
      for (const message of Conversation.messages(conversation)) {
        last = yield* store.append(appended, [message], { expected: last })
      }
      yield* expectSame("after appending", conversation, (yield* loadSome(store, appended)).conversation)
    }
  })
}

const stale: Rule<Service> = {
  name: "a stale save, append or delete is a conflict that names both versions, and changes nothing",
  check: Effect.fnUntraced(function* (store, part) {
    const id = `${part}stale`
    const one = Conversation.fromMessages([yield* user(1)])
    const conversation = yield* Effect.fromResult(one)
    const first = yield* store.save(id, conversation, { expected: none })
    const second = yield* store.append(id, [yield* user(2)], { expected: first })
    const fields = { id, expected: Option.some(first), found: Option.some(second) }
    yield* conflict("save", fields, store.save(id, conversation, { expected: Option.some(first) }))
    yield* conflict("append", fields, store.append(id, [yield* user(3)], { expected: first }))
    yield* conflict("delete", fields, store.delete(id, { expected: first }))
    yield* conflict(
      "a second start",
      { id, expected: none, found: Option.some(second) },
      store.save(id, conversation, { expected: none })
    )
    const found = yield* loadSome(store, id)
    yield* expect("messages", ["message 1", "message 2"], texts(found.conversation))
    yield* expect("version", second, found.version)
  })
}

const many: Rule<Service> = {
  name: "a long conversation is appended to, loaded, replaced and deleted as a whole",
  check: Effect.fnUntraced(function* (store, part) {
    const id = `${part}long`
    const messages = yield* Effect.forEach(
      Array.from({ length: 230 }, (_, n) => n),
      user
    )
    yield* Effect.forEach(messages.slice(0, 90), (message) => store.append(id, [message]), { discard: true })
    yield* store.append(id, messages.slice(90, 200))
    yield* Effect.forEach(messages.slice(200), (message) => store.append(id, [message]), { discard: true })
    const long = yield* loadSome(store, id)
    yield* expect("messages", messages.map(text), texts(long.conversation))

    const { conversation } = yield* Effect.fromResult(Conversation.truncate(long.conversation, { keepRecent: 3 }))
    const version = yield* store.save(id, conversation, { expected: Option.some(long.version) })
    yield* store.append(id, [yield* user("more")], { expected: version })
    yield* expect(
      "messages",
      [...messages.slice(-3).map(text), "message more"],
      texts((yield* loadSome(store, id)).conversation)
    )

    yield* expect("delete", true, yield* store.delete(id))
    yield* expect("load", none, yield* store.load(id))
    yield* store.append(id, [yield* user("new")])
    yield* expect("messages", ["message new"], texts((yield* loadSome(store, id)).conversation))
  })
}

const unlawful: Rule<Service> = {
  name: "an append that breaks a law is refused as Conversation refuses it, and changes nothing",
  check: Effect.fnUntraced(function* (store, part) {
    const id = `${part}laws`
    const call = Part.toolCall({ id: "c", name: "search", arguments: {} })
    const answer = yield* Message.tool({ callId: "c", name: "search", result: ToolResult.success("x") })
    const start = [
      yield* Message.system("s"),
      ...(yield* Effect.forEach(
        Array.from({ length: 80 }, (_, n) => n),
        user
      ))
    ]
    const steps = [
      [...start, yield* Message.assistant([call])],
      [answer],
      [
        yield* Message.assistant("done"),
        ...(yield* Effect.forEach(
          Array.from({ length: 80 }, (_, n) => n),
          user
        ))
      ]
    ]
    const wrong = [
      [yield* Message.system("late")],
      [yield* Message.tool({ callId: "other", name: "search", result: ToolResult.success("x") })],
      [yield* Message.tool({ callId: "c", name: "other", result: ToolResult.success("x") })],
      [yield* user("too early, if a call is open")],
      [answer, answer]
    ]
    let known = Conversation.empty
    for (const step of steps) {
      yield* store.append(id, step)
      known = yield* Effect.fromResult(Conversation.appendAll(known, step))
      for (const messages of wrong) {
        const law = Conversation.appendAll(known, messages)
        if (Result.isSuccess(law)) continue
        const error = yield* expectError("append", "ConversationError", store.append(id, messages))
        yield* expect("the error", law.failure.message, error.message)
      }
      yield* expectSame("the conversation", known, (yield* loadSome(store, id)).conversation)
    }
  })
}

const ids: Rule<Service> = {
  name: "ids are any text, listed in order and in pages",
  check: Effect.fnUntraced(function* (store, part) {
    for (const id of hostileKeys) yield* store.append(`${part}${id}`, [yield* user(id.slice(0, 100))])
    for (const id of hostileKeys) {
      const { conversation } = yield* loadSome(store, `${part}${id}`)
      yield* expect("messages", [`message ${id.slice(0, 100)}`], texts(conversation))
    }
    const sorted = hostileKeys.map((id) => `${part}${id}`).sort((a, b) => (a < b ? -1 : 1))
    yield* expect("list", sorted, yield* listAll(store, part, 7))
    yield* expect(
      "list with a prefix",
      sorted.filter((id) => id.startsWith(`${part}a`)),
      yield* listAll(store, `${part}a`, 100)
    )
  })
}

const concurrency: Rule<Service> = {
  name: "writers that append at once lose nothing",
  check: Effect.fnUntraced(function* (store, part) {
    const id = `${part}shared`
    const writer = (name: string) =>
      Effect.forEach(
        Array.from({ length: 15 }, (_, n) => n),
        (n) =>
          Effect.flatMap(user(`${name}${n}`), (message) =>
            store.append(id, [message]).pipe(Effect.retry({ while: (error) => error._tag === "ConversationConflict" }))
          ),
        { discard: true }
      )
    yield* Effect.all(["a", "b", "c"].map(writer), { concurrency: "unbounded" })
    const found = texts((yield* loadSome(store, id)).conversation)
    for (const name of ["a", "b", "c"]) {
      const own = Array.from({ length: 15 }, (_, n) => `message ${name}${n}`)
      yield* expect(
        `messages of ${name}`,
        own,
        found.filter((text) => text.startsWith(`message ${name}`))
      )
    }
    yield* expect("number of messages", 45, found.length)
  })
}

const survives: Rule<Service> = {
  name: "conversations are there when the store is opened again",
  check: (store, part) => Effect.flatMap(user(1), (message) => Effect.asVoid(store.append(`${part}kept`, [message])))
}

const survived: Rule<Service> = {
  name: survives.name,
  check: (store, part) =>
    Effect.flatMap(loadSome(store, `${part}kept`), ({ conversation }) =>
      expect("messages", ["message 1"], texts(conversation))
    )
}

/** Each rule, with what is checked when the store has been closed and opened again. */
export const all: ReadonlyArray<Rule<Service> & { readonly later?: Rule<Service> }> = [
  absent,
  roundTrip,
  stale,
  many,
  unlawful,
  ids,
  concurrency,
  { ...survives, later: survived }
]
