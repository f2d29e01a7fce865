/**
 * What an agent that a plan is bound with remembers: what `Reference.fromMemory` and
 * `Reference.fromAgent` read.
 *
 * Memories are given to `Plan.bind` by name, next to `agents`. A name needs a `text` for
 * `fromMemory`, and an `output` for `fromAgent`; `Plan.bind` refuses a plan that reads
 * what is not there.
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
 * **Details**
 *
 * - `text`: what `fromMemory` reads, each time a step with it begins. `""` is nothing.
 * - `output`: what `fromAgent` reads; `undefined` is nothing.
 * - `save`: told each answer of a step that runs the agent of this name, so that `output`
 *   gives it later. A failed run of the agent saves nothing.
 *
 * A failure of `text` or `output` fails the step that reads it.
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
 * A memory made of Effects.
 *
 * **Example** (Notes beside an agent)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { AgentMemory, Plan, Reference, Step } from "effect-emissary"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make(
 *     Step.make("recall", {
 *       task: Reference.fromMemory("helper"),
 *       target: ({ task }) => Effect.succeed(task)
 *     })
 *   )
 *   const bound = yield* Plan.bind(plan, {
 *     memories: { helper: AgentMemory.make({ text: Effect.succeed("Ada likes tea.") }) }
 *   })
 *   return yield* Plan.run(bound, "What do you know?")
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert.ok(result.outcome === "Completed" && result.output === "Ada likes tea.")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <Parts extends AgentMemory<unknown>>(parts: Parts): AgentMemory<ServicesOf<Parts>> =>
  // Sound: `ServicesOf` has what each of the parts requires.
  parts as AgentMemory<ServicesOf<Parts>>

/**
 * What the parts of a memory require.
 *
 * @category utility types
 * @since 0.1.0
 */
export type ServicesOf<Parts> = {
  readonly [K in keyof Parts]: Parts[K] extends Effect.Effect<infer _A, infer _E, infer R>
    ? R
    : Parts[K] extends (...args: infer _Args) => Effect.Effect<infer _A, infer _E, infer R>
      ? R
      : never
}[keyof Parts]

/**
 * The text of a conversation in the `ConversationStore`, a line for everything that was
 * said: `User: hi`, `Assistant: there`. System messages, tools and files are left out. A
 * conversation that is not there has the text `""`.
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
 * The last output of the agent, kept under a key of the `VersionedStore`, for this run
 * and later ones. Of several writers at once the last one wins.
 *
 * **Gotchas**
 *
 * The key is taken as it is: keep it apart from keys of conversations and checkpoints,
 * which share the store.
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
