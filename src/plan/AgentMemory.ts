/**
 * What an agent that a plan is bound with remembers, for the references `fromMemory` and `fromAgent`.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { ConversationStore } from "../conversation/ConversationStore.ts"
import type { VersionedStore } from "../conversation/VersionedStore.ts"

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
export const make = <R = never>(parts: AgentMemory<R>): AgentMemory<R> => parts

/**
 * The text of a conversation in the `ConversationStore`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromConversation = (id: string): AgentMemory<ConversationStore> => ({ text: Effect.die(id) })

/**
 * The last output, kept under a key of the `VersionedStore`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const inStore = (key: string): AgentMemory<VersionedStore> => ({ output: Effect.die(key) })
