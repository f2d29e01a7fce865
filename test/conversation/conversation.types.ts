import type { Effect, Option, Result, Schema } from "effect"
import { Conversation, Message, ToolResult, type ConversationError } from "effect-emissary"
import { expectTypeOf } from "vitest"

type Added = Effect.Effect<Conversation.Conversation, ConversationError.ConversationError>

// Making a message needs nothing and cannot fail; adding one can fail in one way
expectTypeOf(Message.user("x")).toEqualTypeOf<Effect.Effect<Message.UserMessage>>()
expectTypeOf(Message.assistant([])).toEqualTypeOf<Effect.Effect<Message.AssistantMessage>>()
expectTypeOf(Conversation.make({ system: "s" })).toEqualTypeOf<Effect.Effect<Conversation.Conversation>>()
expectTypeOf(Conversation.addUser(Conversation.empty, "x")).toEqualTypeOf<Added>()
expectTypeOf(Conversation.empty.pipe(Conversation.addAssistant("x", { model: "m" }))).toEqualTypeOf<Added>()
expectTypeOf(Conversation.seal(Conversation.empty)).toEqualTypeOf<Effect.Effect<Conversation.Conversation>>()
expectTypeOf(Conversation.empty.pipe(Conversation.seal())).toEqualTypeOf<Effect.Effect<Conversation.Conversation>>()
expectTypeOf(Conversation.fromMessages([])).toEqualTypeOf<
  Result.Result<Conversation.Conversation, ConversationError.ConversationError>
>()
expectTypeOf(Conversation.lastAssistantMessage(Conversation.empty)).toEqualTypeOf<
  Option.Option<Message.AssistantMessage>
>()
expectTypeOf(Conversation.openCalls(Conversation.empty)).toEqualTypeOf<ReadonlyArray<Message.ToolCallPart>>()
expectTypeOf(Conversation.Conversation).toExtend<Schema.Codec<Conversation.Conversation, Schema.Json>>()

// @ts-expect-error a user message has content
void Message.user([])

// @ts-expect-error users do not call tools
void Message.user([{ type: "tool-call", id: "a", name: "f", arguments: {} }])

// @ts-expect-error a result names its call
void Conversation.addToolResult(Conversation.empty, { result: ToolResult.success(1) })

// @ts-expect-error conversations are made by this module only
void Conversation.messages({ messages: [] })
