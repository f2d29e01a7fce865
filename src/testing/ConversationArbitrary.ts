/**
 * Generates lawful conversations for property tests.
 *
 * Conversations are lawful by construction: what is generated, and shrunk, is a
 * list of turns, from which calls, results, ids and times follow. So every smaller
 * case is lawful too, and nothing is generated in vain.
 *
 * @since 0.1.0
 */
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import * as Conversation from "../conversation/Conversation.ts"
import type { Message } from "../conversation/Message.ts"
import * as build from "./internal/conversation.ts"
import * as script from "./internal/conversationScript.ts"

/**
 * What kind of conversations to generate.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  /** Whether calls may be open at the end; default `true`. */
  readonly open?: boolean | undefined
  /** The largest number of turns; default 4. */
  readonly maxTurns?: number | undefined
  /**
   * Whether to leave out what models cannot be sent: arguments that are no object,
   * empty text, messages that say nothing; default `false`.
   */
  readonly sendable?: boolean | undefined
}

/**
 * Messages that are lawful in this order, ids and times included.
 *
 * @category generators
 * @since 0.1.0
 */
export const messages = (options?: Options): Arbitrary.Arbitrary<ReadonlyArray<Message>> =>
  Arbitrary.map(scripts(options), (script) => build.messages(script, options ?? {}))

/**
 * Lawful conversations: with and without a system message and a token limit; text,
 * files, reasoning, calls, results of every kind in any order, tools that the
 * provider runs, provider options, metadata and usage; closed, open or partly
 * answered at the end.
 *
 * **Example** (A law that holds)
 *
 * ```ts
 * import { Arbitrary, Effect, Result } from "effect"
 * import { Conversation } from "effect-emissary"
 * import { ConversationArbitrary } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const check = Arbitrary.checkEffect(ConversationArbitrary.conversation(), (self) =>
 *   Result.isSuccess(Conversation.fromMessages(Conversation.messages(self)))
 * )
 * assert.strictEqual(Effect.runSync(check)._tag, "Passed")
 * ```
 *
 * @category generators
 * @since 0.1.0
 */
export const conversation = (options?: Options): Arbitrary.Arbitrary<Conversation.Conversation> =>
  // Never filters anything: the messages are lawful
  Arbitrary.filterMap(scripts(options), (script) =>
    Conversation.fromMessages(build.messages(script, options ?? {}), { tokenLimit: script.head.tokenLimit })
  )

const scripts = (options: Options | undefined): Arbitrary.Arbitrary<script.Script> =>
  Arbitrary.all({
    head: Arbitrary.schema(script.Head),
    turns: Arbitrary.array(Arbitrary.schema(script.Turn), { maxLength: options?.maxTurns ?? 4 }),
    greeting: Arbitrary.schema(Schema.Boolean)
  })
