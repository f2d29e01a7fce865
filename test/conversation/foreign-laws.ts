/** The laws of each foreign form of a conversation, for every provider. */
import { assert, describe, it } from "@effect/vitest"
import { type Arbitrary, Effect, Result, Schema } from "effect"
import { Conversation, ConversationError, Message, PayloadError, ToolResult } from "effect-emissary"
import type { RenderError } from "effect-emissary/interop"
import { Arbitraries } from "effect-emissary/testing"
import { heldBy, sendableTo } from "./foreign-transcript.ts"

export interface Format<Foreign> {
  readonly name: "openai" | "anthropic"
  readonly foreign: Arbitrary.Arbitrary<Foreign>
  /** The violations that the provider refuses. */
  readonly rules: (foreign: unknown) => ReadonlyArray<string>
  readonly read: (
    foreign: unknown
  ) => Effect.Effect<Conversation.Conversation, PayloadError.PayloadError | ConversationError.ConversationError>
  readonly write: (
    self: Conversation.Conversation,
    lenience?: "lenient" | "strict"
  ) => Result.Result<unknown, RenderError.RenderError>
}

export const same = (actual: unknown, expected: unknown) =>
  assert.deepStrictEqual(JSON.parse(JSON.stringify(actual)), JSON.parse(JSON.stringify(expected)))

export const call = (args: Partial<Message.ToolCallPart> = {}) =>
  Message.toolCallPart({ id: "a", name: "search", arguments: { q: 1 }, ...args })

/** A call of a tool and its result. */
export const answered = (part: Message.ToolCallPart, result: ToolResult.ToolResult = ToolResult.success("found")) =>
  Conversation.empty.pipe(
    Conversation.addUser("go"),
    Effect.flatMap(Conversation.addAssistant([part])),
    Effect.flatMap(Conversation.addToolResult({ callId: part.id, result }))
  )

/** The place at which a foreign history of another form is refused. */
export const issues = <Foreign>({ read }: Format<Foreign>, foreign: unknown) =>
  Effect.map(Effect.flip(read(foreign)), (error) => {
    assert(error instanceof PayloadError.PayloadError, error.message)
    assert(error.reason._tag === "Invalid", error.message)
    return error.reason.issues.map(({ path }) => path)
  })

/** Histories that break a law, the reason and the index of the message. */
export type Unlawful = readonly [ConversationError.Reason["_tag"], number, unknown]

export const refusesUnlawful = <Foreign>({ read }: Format<Foreign>, cases: ReadonlyArray<Unlawful>) =>
  it.effect.each(cases)(
    "%s: an unlawful history is refused with the index %i of the message",
    ([tag, index, foreign]) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(read(foreign))
        assert(error instanceof ConversationError.ConversationError, error.message)
        assert.strictEqual(error.reason._tag, tag)
        assert.strictEqual("index" in error.reason ? error.reason.index : undefined, index)
        assert.include(error.message, `at /messages/${index}`)
      })
  )

const runs = { arbitrary: { runs: 300 } }

export const laws = <Foreign>(format: Format<Foreign>) => {
  const { foreign, name, read, rules, write } = format
  const render = (self: Conversation.Conversation) => Effect.fromResult(write(self))

  describe(`CONV-4 messages of ${name}, laws`, () => {
    it.effect.prop(
      "to(from(x)) equals x as JSON, for every lawful history, also when the conversation was stored in between",
      [foreign],
      ([foreign]) =>
        Effect.gen(function* () {
          assert.deepStrictEqual(rules(foreign), [])
          const self = yield* read(foreign)
          same(yield* render(self), foreign)
          same(yield* render(yield* Conversation.codec.decodeJson(yield* Conversation.codec.encodeJson(self))), foreign)
        }),
      runs
    )

    it.effect.prop(
      "from(to(c)) says what c says, as far as the format can hold it",
      [Arbitraries.conversation({ open: false, sendable: true })],
      ([given]) =>
        Effect.gen(function* () {
          const self = yield* sendableTo(name, given)
          const messages = yield* render(self)
          assert.deepStrictEqual(rules(messages), [])
          const back = yield* read(messages)
          assert.deepStrictEqual(Conversation.transcript(back), yield* heldBy(name, self))
          same(yield* render(back), messages)
        }),
      runs
    )

    it.prop(
      "whatever the conversation, what is written keeps the rules, and what is not is an error that names a message",
      [Arbitraries.conversation(), Schema.Boolean],
      ([self, lenient]) => {
        const result = write(self, lenient ? "lenient" : "strict")
        if (Result.isSuccess(result)) return assert.deepStrictEqual(rules(result.success), [])
        const { reason } = result.failure
        assert.strictEqual(Conversation.messages(self)[reason.index]?.id, reason.id)
      },
      runs
    )
  })
}
