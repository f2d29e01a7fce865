/**
 * What an agent that a plan is bound with remembers, for the references `fromMemory` and `fromAgent`.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as Conversation from "../conversation/Conversation.ts"
import { ConversationStore } from "../conversation/ConversationStore.ts"
import { VersionedStore } from "../conversation/VersionedStore.ts"

/**
 * What one agent remembers.
 *
 * @category models
 * @since 0.1.0
 */
export interface AgentMemory<out R = never> {
  readonly text?: Effect.Effect<string, unknown, R> | undefined
  readonly output?: Effect.Effect<Schema.Json | undefined, unknown, R> | undefined
  readonly save?: ((output: Schema.Json) => Effect.Effect<void, unknown, R>) | undefined
}

/**
 * A memory of its parts.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <RText = never, ROutput = never, RSave = never>(parts: {
  readonly text?: Effect.Effect<string, unknown, RText> | undefined
  readonly output?: Effect.Effect<Schema.Json | undefined, unknown, ROutput> | undefined
  readonly save?: ((output: Schema.Json) => Effect.Effect<void, unknown, RSave>) | undefined
}): AgentMemory<RText | ROutput | RSave> => parts

/**
 * The text of a conversation in the `ConversationStore`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromConversation = (id: string): AgentMemory<ConversationStore> => ({
  text: Effect.gen(function* () {
    const store = yield* ConversationStore
    const found = yield* store.load(id)
    return Option.match(found, { onNone: () => "", onSome: ({ conversation }) => textOf(conversation) })
  })
})

const textOf = (conversation: Conversation.Conversation): string =>
  Conversation.transcript(conversation)
    .flatMap((entry) => {
      if (entry.role !== "user" && entry.role !== "assistant") return []
      const said = entry.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")
      return said === "" ? [] : [`${entry.role === "user" ? "User" : "Assistant"}: ${said}`]
    })
    .join("\n")

/**
 * The last output, kept under a key of the `VersionedStore`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const inStore = (key: string): AgentMemory<VersionedStore> => ({
  output: Effect.gen(function* () {
    const store = yield* VersionedStore
    return Option.getOrUndefined(Option.map(yield* store.get(key), ({ value }) => value))
  }),
  save: Effect.fnUntraced(
    function* (output) {
      const store = yield* VersionedStore
      const found = yield* store.get(key)
      yield* store.compareAndSet(
        key,
        Option.map(found, ({ version }) => version),
        output
      )
    },
    Effect.retry({ while: (error) => error._tag === "VersionConflict" })
  )
})
