import { assert } from "@effect/vitest"
import { Cause, Effect, Exit, Option, Result, Schema } from "effect"
import { Conversation } from "effect-emissary"
import { AnthropicMessages, OpenAiMessages } from "effect-emissary/interop"
import { kinds } from "./errorKinds.ts"
import { type Case, type Deviation, equal, isObject, type Json, list, read, suite } from "./family.ts"
import { equalMessages, fromGolden, lastAssistant, normal, pick, toGolden } from "./history.ts"

const Given = Schema.Struct({
  system_prompt: Schema.optionalKey(Schema.NullOr(Schema.String)),
  token_limit: Schema.optionalKey(Schema.NullOr(Schema.Number)),
  ops: Schema.Array(Schema.Array(Schema.Json))
})

const TruncateOptions = Schema.Struct({
  keep_recent: Schema.optionalKey(Schema.Json),
  keep_system_prompt: Schema.optionalKey(Schema.Boolean)
})

/** The result of a case: the conversation, what the operations returned, and the refusal if there was one. */
interface Outcome {
  readonly self: Conversation.Conversation
  readonly returns: ReadonlyArray<unknown>
  readonly refused?: { readonly op: number; readonly error: unknown }
}

const apply = Effect.fnUntraced(function* (self: Conversation.Conversation, [op, ...args]: ReadonlyArray<Schema.Json>) {
  switch (op) {
    case "add": {
      const [role = null, content = null, metadata] = args
      const message = yield* fromGolden(self, { ...(isObject(metadata) ? metadata : {}), role, content })
      // The harness of the cases refuses later system messages, which a reader can ask for
      const tokenLimit = Option.getOrUndefined(Conversation.tokenLimit(self))
      const messages = [...Conversation.messages(self), message]
      const next = yield* Effect.fromResult(
        role === "system"
          ? Conversation.fromMessages(messages, { tokenLimit, laterSystem: "refuse" })
          : Conversation.append(self, message)
      )
      return { self: next, returned: toGolden(message) }
    }
    case "truncate": {
      const options = yield* Effect.orDie(read(TruncateOptions)(args[0] ?? {}))
      const { conversation, removed } = yield* Effect.fromResult(
        Conversation.dropOldTurns(self, {
          // Sound: it need not be a number, for the library has to refuse what a caller without types could pass.
          ...("keep_recent" in options ? { keepRecent: options.keep_recent as number } : undefined),
          ...("keep_system_prompt" in options ? { keepSystemPrompt: options.keep_system_prompt } : undefined)
        })
      )
      return { self: conversation, returned: removed.length }
    }
    case "clear":
      return { self: Conversation.clear(self), returned: null }
    default:
      return yield* Effect.die(`the vocabulary has no operation ${JSON.stringify(op)}`)
  }
})

const run = Effect.fnUntraced(function* (golden: Case): Effect.fn.Return<Outcome, unknown> {
  const given = yield* read(Given)(golden.given)
  let self = yield* Conversation.make({
    system: given.system_prompt ?? undefined,
    tokenLimit: given.token_limit ?? undefined
  })
  const returns: Array<unknown> = []
  for (const [op, operation] of given.ops.entries()) {
    const exit = yield* Effect.exit(apply(self, operation))
    if (Exit.isFailure(exit)) {
      const error = Cause.findErrorOption(exit.cause)
      if (Option.isNone(error)) return yield* Effect.die(Cause.squash(exit.cause))
      return { self, returns, refused: { op, error: error.value } }
    }
    self = exit.value.self
    returns.push(exit.value.returned)
  }
  return { self, returns }
})

const renderers: { readonly [key: string]: (self: Conversation.Conversation) => Result.Result<unknown, Error> } = {
  openai: OpenAiMessages.fromConversation,
  anthropic: AnthropicMessages.fromConversation
}

const rendererOf = (key: string) => (Object.hasOwn(renderers, key) ? renderers[key] : undefined)

/** One key of `expect`. */
const meetsKey = ({ refused, returns, self }: Outcome, key: string, expected: Schema.Json): void => {
  const rendered = rendererOf(key)?.(self)
  if (rendered !== undefined) {
    if (Result.isFailure(rendered)) assert.fail(`${key} was refused: ${rendered.failure.message}`)
    return equal(rendered.success, expected, key)
  }
  switch (key) {
    case "error":
      equal(refused?.op, isObject(expected) ? expected["op"] : undefined, "the operation that fails")
      return assert.include(kinds(refused?.error), isObject(expected) ? expected["kind"] : undefined)
    case "message_count":
      return equal(Conversation.messageCount(self), expected, key)
    case "messages":
      return equalMessages(self, list(expected))
    case "last_assistant":
      return equal(pick(lastAssistant(self), expected), normal(expected), key)
    case "token_count":
      return equal(Conversation.tokenCount(self), expected, key)
    case "token_remaining":
      return equal(Option.getOrNull(Conversation.tokenRemaining(self)), expected, key)
    case "approaching_limit":
      for (const one of list(expected)) {
        const { threshold, value } = isObject(one) ? one : {}
        const actual =
          typeof threshold === "number"
            ? Conversation.approachingLimit(self, threshold)
            : Conversation.approachingLimit(self)
        equal(actual, value, `threshold ${threshold ?? "default"}`)
      }
      return
    case "returns":
      for (const one of list(expected)) {
        const [op, value] = list(one)
        const actual = returns[Number(op)]
        equal(isObject(actual) ? pick(actual, value) : actual, normal(value), `operation ${op}`)
      }
      return
    default:
      return assert.fail(`the vocabulary has no expectation "${key}"`)
  }
}

const meets = (outcome: Outcome, expect: Json): void => {
  if (outcome.refused !== undefined && expect["error"] === undefined) {
    assert.fail(`operation ${outcome.refused.op} was refused: ${String(outcome.refused.error)}`)
  }
  for (const [key, expected] of Object.entries(expect)) meetsKey(outcome, key, expected)
}

/** Refused with this kind by an operation, or by a renderer that the case asks for; then the other keys hold. */
const meetsRefusal = (outcome: Outcome, refused: Schema.Json, expect: Json): void => {
  if (outcome.refused !== undefined) return assert.include(kinds(outcome.refused.error), refused)
  const rendered = Object.keys(expect).flatMap((key) => {
    const result = rendererOf(key)?.(outcome.self)
    return result !== undefined && Result.isFailure(result) ? kinds(result.failure) : []
  })
  assert.include(rendered, refused)
  meets(outcome, Object.fromEntries(Object.entries(expect).filter(([key]) => rendererOf(key) === undefined)))
}

/** An unlawful case that is refused with a kind its `strict` allows. */
const refusal = (kind: string, cases: string, reason: string): Deviation => ({
  reason: `refused with ${kind}: ${reason}`,
  cases,
  expect: ({ expect, strict }) => (strict?.refuse?.includes(kind) === true ? { ...expect, refused: kind } : undefined)
})

/**
 * Why refusing is the rule: providers answer each of these with an error, and a
 * history that was mended in silence hides the mistake that made it. The one repair
 * changes no text.
 */
const deviations: ReadonlyArray<Deviation> = [
  refusal("OrphanToolResult", "C06 C13 C76", "a result without a call cannot enter a conversation (L7)"),
  refusal("MissingToolCallId", "C55", "a result without a call cannot enter a conversation (L7)"),
  refusal("UnansweredToolCall", "C50 C51 C53 C58", "an open end is lawful while a run lasts, and not to be sent"),
  refusal("AssistantFirst", "C63 C65 C66 C68 C70 C71 C73 C75", "Anthropic wants the user to begin"),
  refusal("EmptyMessage", "", "providers refuse a message that says nothing"),
  refusal("EmptySystemPrompt", "", "providers refuse a system prompt that says nothing"),
  refusal("InvalidToolArguments", "", "Anthropic takes arguments as an object only"),
  refusal("InvalidMetadata", "", "calls and token counts are decoded, not carried along"),
  {
    reason: "repaired as the case allows: a message without calls has no list of them that could be empty",
    cases: "C56",
    expect: ({ expect, strict }) => (strict?.repair === undefined ? undefined : { ...expect, ...strict.repair })
  }
]

suite({
  name: "conversation",
  omissions: [],
  deviations,
  check: (golden) =>
    Effect.map(run(golden), (outcome) => {
      const { refused, ...expect } = golden.expect
      return refused === undefined ? meets(outcome, expect) : meetsRefusal(outcome, refused, expect)
    })
})
