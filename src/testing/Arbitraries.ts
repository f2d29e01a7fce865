/**
 * Arbitrary conversations and agent definitions for property tests.
 *
 * @since 0.1.0
 */

import * as Arbitrary from "effect/Arbitrary"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as AgentDefinition from "../agent/AgentDefinition.ts"
import type * as agentData from "../agent/internal/agentData.ts"
import * as Conversation from "../conversation/Conversation.ts"
import type * as Message from "../conversation/Message.ts"
import type * as history from "../conversation/internal/history.ts"
import type { JsonObject } from "../payload/Json.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import * as untrusted from "../payload/internal/untrusted.ts"
import * as ToolContract from "../tool/ToolContract.ts"
import * as ToolResult from "../tool/ToolResult.ts"

const ShortText = <S extends Schema.Top>(item: S, max: number) => Schema.Array(item).check(Schema.isMaxLength(max))

const FiniteNumber = Schema.Finite.check(Schema.makeFilter((n) => !Object.is(n, -0), { expected: "no negative zero" }))

const JsonKey = Schema.Literals(["a", "b", "city", "constructor", "größe"])

type JsonValue = null | boolean | number | string | ReadonlyArray<JsonValue> | { readonly [key: string]: JsonValue }

const JsonValue: Schema.Codec<JsonValue> = Schema.suspend(() =>
  Schema.Union([
    Schema.Null,
    Schema.Boolean,
    FiniteNumber,
    Schema.String,
    ShortText(JsonValue, 3),
    Schema.Struct({ a: Schema.optionalKey(JsonValue), größe: Schema.optionalKey(JsonValue) })
  ])
)

const Entries = ShortText(Schema.Struct({ key: JsonKey, value: JsonValue }), 2)

const ProviderOptions = Schema.optionalKey(
  Schema.Struct({ provider: Schema.Literals(["openai", "anthropic"]), value: JsonValue })
)

const TextPart = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String, options: ProviderOptions })

const FilePart = Schema.Struct({
  type: Schema.Literal("file"),
  mediaType: Schema.Literals(["image/png", "application/pdf"]),
  fileName: Schema.optionalKey(Schema.Literals(["a.png", "übersicht.pdf"])),
  data: Schema.Literals(["AQID", "", "https://example.com/a.png", "https://example.com/ü?b=c#d"]),
  options: ProviderOptions
})

const ContentParts = ShortText(Schema.Union([TextPart, FilePart]), 3)

const ResultShape = Schema.Union([
  Schema.Struct({ type: Schema.Literal("success"), value: JsonValue, content: ContentParts }),
  Schema.Struct({
    type: Schema.Literal("failure"),
    name: Schema.Literals(["timeout_error", "not_found", "", "interrupted"]),
    message: Schema.String,
    value: Schema.optionalKey(JsonValue),
    content: ContentParts
  })
])

const ToolName = Schema.Literals(["get_order", "search", "math/add"])

const ArgumentsShape = Schema.Union([
  Schema.Struct({ type: Schema.Literal("object"), entries: Entries }),
  /** Text as received: the same object with spaces. */
  Schema.Struct({ type: Schema.Literal("spaced"), entries: Entries }),
  Schema.Struct({ type: Schema.Literal("other"), value: JsonValue }),
  Schema.Struct({ type: Schema.Literal("malformed"), text: Schema.Literals(["{bad", "[1,", "nope"]) })
])

const CallPart = Schema.Struct({
  type: Schema.Literal("call"),
  tool: ToolName,
  arguments: ArgumentsShape,
  options: ProviderOptions,
  result: ResultShape,
  resultOptions: ProviderOptions
})

const ProviderCallPart = Schema.Struct({
  type: Schema.Literal("provider"),
  tool: Schema.Literals(["web_search", "code_execution"]),
  arguments: ArgumentsShape,
  options: ProviderOptions,
  /** In this message, in the next of the turn where there is one, or not at all. */
  answered: Schema.Literals(["here", "next", "never"]),
  result: ResultShape,
  resultOptions: ProviderOptions
})

const ReasoningPart = Schema.Struct({
  type: Schema.Literal("reasoning"),
  text: Schema.String,
  options: ProviderOptions
})

const TokenCount = Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000 })))

const AnswerDetails = Schema.Struct({
  usage: Schema.optionalKey(
    Schema.Struct({ inputTokens: TokenCount, outputTokens: TokenCount, reasoningTokens: TokenCount })
  ),
  metadata: Schema.optionalKey(Entries),
  options: ProviderOptions
})

const Answer = Schema.Struct({
  parts: ShortText(Schema.Union([TextPart, FilePart, ReasoningPart, CallPart, ProviderCallPart]), 4),
  model: Schema.optionalKey(Schema.Literals(["gpt-5.2", "claude"])),
  finishReason: Schema.optionalKey(Schema.Literals(["stop", "tool-calls", "length", "pause"])),
  about: AnswerDetails,
  /** Whether results arrive last call first. */
  reversed: Schema.Boolean,
  /** How many results are missing, if this is the end. */
  open: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 }))
})

type Answer = typeof Answer.Type

const Turn = Schema.Struct({ user: ContentParts, about: AnswerDetails, answers: ShortText(Answer, 3) })

type Turn = typeof Turn.Type

const ConversationHead = Schema.Struct({
  system: Schema.optionalKey(Schema.String),
  tokenLimit: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 200_000 })))
})

interface ConversationScript {
  readonly head: typeof ConversationHead.Type
  readonly turns: ReadonlyArray<Turn>
  /** Whether the first turn has no user message. */
  readonly greeting: boolean
}

type AnswerPart = Answer["parts"][number]

type AnswerDetails = typeof AnswerDetails.Type

type ResultShape = typeof ResultShape.Type

type ArgumentsShape = typeof ArgumentsShape.Type

type ProviderOptions = typeof ProviderOptions.Type

type Entries = typeof Entries.Type

type ContentParts = (typeof ContentParts.Type)[number]

interface BuildSettings {
  readonly open?: boolean | undefined
  readonly sendable?: boolean | undefined
}

const startTime = 1_760_000_000_000

/** The messages of a script. Ids and times count up. */
const buildMessages = (self: ConversationScript, settings: BuildSettings): ReadonlyArray<Message.Message> => {
  const all: Array<Message.Message> = []
  let callCount = 0
  const stamp = (about?: AnswerDetails): Omit<Message.SystemMessage, "role" | "content"> => ({
    id: `m${all.length}`,
    createdAt: DateTime.makeUnsafe(startTime + all.length * 1000),
    ...(about?.usage === undefined ? undefined : { usage: about.usage }),
    ...(about?.metadata === undefined ? undefined : { metadata: entriesObject(about.metadata) }),
    ...optionsField(about?.options)
  })

  if (self.head.system !== undefined) all.push({ role: "system", ...stamp(), content: self.head.system })
  for (const [index, turn] of self.turns.entries()) {
    if (index > 0 || !self.greeting) {
      all.push({ role: "user", ...stamp(turn.about), content: sendableContent(turn.user) })
    }
    let carried: Array<Message.ToolResultPart> = []
    for (const [position, answer] of turn.answers.entries()) {
      const isEnd = index === self.turns.length - 1 && position === turn.answers.length - 1
      const { content, later, results } = buildParts(answer, () => `call_${callCount++}`, settings)
      const whole = [...carried, ...content]
      carried = later
      all.push({
        role: "assistant",
        ...stamp(answer.about),
        content:
          settings.sendable === true && !whole.some(isSendable) ? [...whole, ToolResult.textPart("Well.")] : whole,
        ...(answer.model === undefined ? undefined : { model: answer.model }),
        ...(answer.finishReason === undefined ? undefined : { finishReason: answer.finishReason })
      } satisfies Message.AssistantMessage)
      const arrived = answer.reversed ? results.toReversed() : results
      const open = isEnd && settings.open !== false ? answer.open : 0
      for (const result of arrived.slice(0, arrived.length - Math.min(open, arrived.length))) {
        all.push({ role: "tool", ...stamp(), ...result } satisfies Message.ToolMessage)
      }
    }
  }
  return all
}

const isSendable = (part: Message.AssistantPart): boolean => part.type !== "text" || part.text !== ""

const buildParts = (answer: Answer, nextId: () => string, settings: BuildSettings) => {
  const content: Array<Message.AssistantPart> = []
  const later: Array<Message.ToolResultPart> = []
  const results: Array<Pick<Message.ToolMessage, "callId" | "name" | "result" | "options">> = []
  for (const part of answer.parts) {
    switch (part.type) {
      case "text":
      case "file":
        if (settings.sendable !== true || isTextPart(part)) content.push(buildContent(part))
        break
      case "reasoning":
        content.push({ type: "reasoning", text: part.text, ...optionsField(part.options) })
        break
      case "call": {
        const call = buildCall(part, nextId(), settings)
        content.push(call)
        results.push({
          callId: call.id,
          name: call.name,
          result: buildResult(part.result, settings),
          ...optionsField(part.resultOptions)
        })
        break
      }
      case "provider": {
        const call: Message.ToolCallPart = { ...buildCall(part, nextId(), settings), providerExecuted: true }
        content.push(call)
        const result: Message.ToolResultPart = {
          type: "tool-result",
          id: call.id,
          name: call.name,
          result: buildResult(part.result, settings),
          ...optionsField(part.resultOptions)
        }
        if (part.answered === "here") content.push(result)
        if (part.answered === "next") later.push(result)
        break
      }
    }
  }
  return { content, later, results }
}

const buildCall = (
  part: Extract<AnswerPart, { type: "call" | "provider" }>,
  id: string,
  settings: BuildSettings
): Message.ToolCallPart => ({
  type: "tool-call",
  id,
  name: part.tool,
  ...buildArguments(part.arguments, settings),
  ...optionsField(part.options)
})

const buildArguments = (
  given: ArgumentsShape,
  settings: BuildSettings
): Pick<Message.ToolCallPart, "arguments" | "text"> => {
  switch (given.type) {
    case "object":
      return { arguments: entriesObject(given.entries) }
    case "spaced": {
      const json = entriesObject(given.entries)
      return { arguments: json, text: JSON.stringify(json, null, 1) }
    }
    case "other":
      return { arguments: settings.sendable === true ? { value: given.value } : given.value }
    case "malformed":
      return settings.sendable === true ? { arguments: {} } : { arguments: given.text, text: given.text }
  }
}

const buildResult = (given: ResultShape, settings: BuildSettings): ToolResult.ToolResult => {
  const content = nonEmpty(given.content.filter((part) => settings.sendable !== true || isTextPart(part)))
  if (given.type === "success") return ToolResult.success(given.value, content)
  const failure = ToolResult.failure(given.name, given.message, given.value)
  return content === undefined ? failure : { ...failure, content }
}

const isTextPart = (part: ContentParts): boolean => part.type === "file" || part.text !== ""

const nonEmpty = (given: ReadonlyArray<ContentParts>): ToolResult.NonEmptyContent | undefined => {
  const [first, ...rest] = given.map(buildContent)
  return first === undefined ? undefined : [first, ...rest]
}

/** User content says something. */
const sendableContent = (given: ReadonlyArray<ContentParts>): ToolResult.NonEmptyContent => {
  const [first, ...rest] = given.filter(isTextPart).map(buildContent)
  return first === undefined ? [ToolResult.textPart("Hello")] : [first, ...rest]
}

const buildContent = (part: ContentParts): ToolResult.Content =>
  part.type === "text"
    ? { type: "text", text: part.text, ...optionsField(part.options) }
    : ToolResult.filePart({
        mediaType: part.mediaType,
        fileName: part.fileName,
        // URLs in the form that URL objects give them
        data: part.data.startsWith("https:") ? new URL(part.data) : part.data,
        options: optionsField(part.options)?.options
      })

const optionsField = (
  given: ProviderOptions | undefined
): { readonly options: ToolResult.ProviderOptions } | undefined =>
  given === undefined ? undefined : { options: { [given.provider]: given.value } }

const entriesObject = (entries: Entries): JsonObject =>
  Object.fromEntries(entries.map(({ key, value }) => [key, value]))

/**
 * What kind of conversations to generate.
 *
 * @category models
 * @since 0.1.0
 */
export interface ConversationOptions {
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
export const messages = (options?: ConversationOptions): Arbitrary.Arbitrary<ReadonlyArray<Message.Message>> =>
  Arbitrary.map(conversationScripts(options), (script) => buildMessages(script, options ?? {}))

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
 * import { Arbitraries } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const check = Arbitrary.checkEffect(Arbitraries.conversation(), (self) =>
 *   Result.isSuccess(Conversation.fromMessages(Conversation.messages(self)))
 * )
 * assert.strictEqual(Effect.runSync(check)._tag, "Passed")
 * ```
 *
 * @category generators
 * @since 0.1.0
 */
export const conversation = (options?: ConversationOptions): Arbitrary.Arbitrary<history.Conversation> =>
  // Never filters anything: the messages are lawful
  Arbitrary.filterMap(conversationScripts(options), (script) =>
    Conversation.fromMessages(buildMessages(script, options ?? {}), { tokenLimit: script.head.tokenLimit })
  )

const conversationScripts = (options: ConversationOptions | undefined): Arbitrary.Arbitrary<ConversationScript> =>
  Arbitrary.all({
    head: Arbitrary.schema(ConversationHead),
    turns: Arbitrary.array(Arbitrary.schema(Turn), { maxLength: options?.maxTurns ?? 4 }),
    greeting: Arbitrary.schema(Schema.Boolean)
  })

const optionalKey = Schema.optionalKey

const isWellFormed = (text: string): boolean => !/\p{Surrogate}/u.test(text)

/** Any text that has a digest: without lone surrogates. */
const AnyText = Schema.String.check(Schema.makeFilter(isWellFormed, { expected: "well-formed text" }))

/** Text that says something, too. */
const WellFormedText = Schema.String.check(
  Schema.makeFilter((text) => text.trim() !== "" && isWellFormed(text), { expected: "text that is not blank" })
)

const ToolNameText = Schema.Union([
  Schema.Literals(["get_order", "mcp/search", "a.b-c", "Ünïcode ☃", "x".repeat(80)]),
  WellFormedText.check(
    Schema.makeFilter((name) => !untrusted.inheritedNames.has(name), { expected: "a name no object inherits" })
  )
])

/** Property names, awkward ones too: separators of pointers, secrets' names, inherited ones. */
const PropertyKey = Schema.Literals(["city", "a/b", "m~n", "", "password", "max_tokens", "toString", "snow ☃", "$ref"])

const ScalarValue = Schema.Union([AnyText, Schema.Finite, Schema.Boolean, Schema.Null])

const AnyValue: Schema.Codec<Schema.Json> = Schema.Union([
  ScalarValue,
  Schema.Array(ScalarValue),
  Schema.Struct({ a: optionalKey(ScalarValue), "b c": optionalKey(Schema.Array(ScalarValue)) })
])

/** Option names that are not secrets. */
const ModelOptionsShape = Schema.Record(
  Schema.Literals(["temperature", "top_p", "prompt_cache_key", "stop"]),
  optionalKey(AnyValue)
)

const LeafSchema = Schema.Union([
  Schema.Struct({
    type: Schema.Literal("string"),
    description: optionalKey(AnyText),
    enum: optionalKey(Schema.Tuple([AnyText])),
    default: optionalKey(AnyText),
    minLength: optionalKey(Schema.Literals([0, 1, 7]))
  }),
  Schema.Struct({
    type: Schema.Literals(["integer", "number"]),
    minimum: optionalKey(Schema.Int),
    default: optionalKey(Schema.Int)
  }),
  Schema.Struct({ type: Schema.Literals(["boolean", "null", "array", "object"]) }),
  Schema.Struct({
    type: Schema.Literal("array"),
    items: Schema.Struct({ type: Schema.Literals(["string", "integer"]) })
  })
])

/** The properties of a JSON Schema: what is shrunk is this list. */
const PropertiesSchema = Schema.Array(
  Schema.Struct({ key: PropertyKey, schema: LeafSchema, required: Schema.Boolean, nested: Schema.Boolean })
)

const toJsonSchema = (properties: typeof PropertiesSchema.Type): JsonObject => {
  const leaves: Record<string, JsonObject> = {}
  for (const { key, nested, schema } of properties) {
    leaves[key] = nested
      ? { type: "object", properties: { in: { ...schema } }, additionalProperties: false }
      : { ...schema }
  }
  const required = new Set(properties.flatMap((property) => (property.required ? [property.key] : [])))
  return { type: "object", properties: leaves, required: [...required], additionalProperties: false }
}

const Milliseconds = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000_000 }))

const AnnotationsShape = Schema.Struct({
  title: optionalKey(AnyText),
  readonly: optionalKey(Schema.Boolean),
  destructive: optionalKey(Schema.Boolean),
  idempotent: optionalKey(Schema.Boolean),
  openWorld: optionalKey(Schema.Boolean),
  strict: optionalKey(Schema.Boolean)
})

const ToolShape = Schema.Struct({
  name: ToolNameText,
  description: optionalKey(WellFormedText),
  parameters: PropertiesSchema,
  success: optionalKey(PropertiesSchema),
  failure: optionalKey(PropertiesSchema),
  timeout: Schema.Union([Milliseconds, Schema.Literal("infinity")]),
  approval: Schema.Literals(["never", "always", "dynamic"]),
  annotations: AnnotationsShape
})

const DefinitionShape = Schema.Struct({
  name: optionalKey(WellFormedText),
  model: optionalKey(Schema.Literals(["openai/gpt-5.2", "bedrock/us.anthropic/x", "ö/☃", "a/b c"])),
  instructions: optionalKey(WellFormedText),
  modelOptions: ModelOptionsShape,
  maxSteps: Schema.Union([Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)), Schema.Literal("unlimited")]),
  output: optionalKey(
    Schema.Struct({ schema: PropertiesSchema, strategy: Schema.Literals(["native", "prompted", "tool"]) })
  ),
  reasoning: optionalKey(Schema.Literals(["off", "low", "medium", "high", "xhigh", "max"])),
  tools: Schema.Array(ToolShape)
})

/**
 * What kind of definitions to generate.
 *
 * @category models
 * @since 0.1.0
 */
export interface AgentDefinitionOptions {
  /** Only what wire version 1 holds without loss; default `false`. */
  readonly version1?: boolean | undefined
  /** The largest number of tools; default 3. */
  readonly maxTools?: number | undefined
}

/**
 * A description of a definition: what is generated.
 *
 * @category models
 * @since 0.1.0
 */
export type AgentDescription = typeof DefinitionShape.Type

const toVersion1 = (description: AgentDescription): AgentDescription => {
  const { output, ...rest } = description
  return {
    ...rest,
    model: description.model ?? "openai/gpt-5.2",
    ...(output === undefined
      ? {}
      : { output: { schema: output.schema, strategy: output.strategy === "tool" ? "native" : output.strategy } }),
    tools: description.tools.map((tool) => ({
      name: tool.name,
      description: tool.description ?? "A tool",
      parameters: tool.parameters,
      timeout: tool.timeout === "infinity" ? 1 : tool.timeout,
      approval: "never",
      annotations: {}
    }))
  }
}

const distinctTools = (tools: AgentDescription["tools"], max: number): AgentDescription["tools"] =>
  [...new Map(tools.map((tool) => [tool.name, tool])).values()].slice(0, max)

/**
 * Descriptions of well-formed definitions: with and without every optional part,
 * awkward names and property names, finite and infinite timeouts.
 *
 * **Example** (A law that holds)
 *
 * ```ts
 * import { Arbitrary, Effect } from "effect"
 * import { AgentDefinition } from "effect-emissary"
 * import { Arbitraries } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const check = Arbitrary.checkEffect(Arbitraries.agentDescription(), (description) =>
 *   Effect.gen(function*() {
 *     const definition = yield* Arbitraries.buildAgentDefinition(description)
 *     const decoded = yield* Effect.flatMap(AgentDefinition.encode(definition), AgentDefinition.decode)
 *     return (yield* AgentDefinition.digest(decoded)) === (yield* AgentDefinition.digest(definition))
 *   })
 * )
 * assert.strictEqual((await Effect.runPromise(check))._tag, "Passed")
 * ```
 *
 * @category generators
 * @since 0.1.0
 */
export const agentDescription = (options?: AgentDefinitionOptions): Arbitrary.Arbitrary<AgentDescription> =>
  Arbitrary.map(Arbitrary.schema(DefinitionShape), (generated) => {
    const limited = { ...generated, tools: distinctTools(generated.tools, options?.maxTools ?? 3) }
    return options?.version1 === true ? toVersion1(limited) : limited
  })

const toContract = (tool: AgentDescription["tools"][number]) =>
  ToolContract.make({
    name: tool.name,
    description: tool.description,
    parameters: toJsonSchema(tool.parameters),
    success: tool.success === undefined ? undefined : toJsonSchema(tool.success),
    failure: tool.failure === undefined ? undefined : toJsonSchema(tool.failure),
    timeout: tool.timeout === "infinity" ? "Infinity" : tool.timeout,
    approval: tool.approval,
    annotations: tool.annotations
  })

/**
 * The definition of a description.
 *
 * @category constructors
 * @since 0.1.0
 */
export const buildAgentDefinition = Effect.fnUntraced(function* (
  description: AgentDescription
): Effect.fn.Return<agentData.AgentDefinition, PayloadError | ToolContract.ToolContractError> {
  const { output, tools, ...rest } = description
  return yield* AgentDefinition.make({
    ...rest,
    output: output === undefined ? undefined : { schema: toJsonSchema(output.schema), strategy: output.strategy },
    tools: yield* Effect.forEach(tools, toContract)
  })
})
