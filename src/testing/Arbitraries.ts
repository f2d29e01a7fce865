/**
 * Arbitrary conversations and agent definitions for property tests.
 *
 * @since 0.1.0
 */

import * as Arbitrary from "effect/Arbitrary"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import * as AgentDefinition from "../agent/AgentDefinition.ts"
import * as agentData from "../agent/internal/agentData.ts"
import { toolNameProblem } from "../payload/internal/base.ts"
import { defined, inheritedNames } from "../payload/internal/values.ts"
import * as Conversation from "../conversation/Conversation.ts"
import type * as Message from "../conversation/Message.ts"
import * as history from "../conversation/internal/history.ts"
import type { JsonObject } from "../payload/Json.ts"
import * as ToolContract from "../tool/ToolContract.ts"
import * as ToolResult from "../tool/ToolResult.ts"

const optionalKey = Schema.optionalKey

const atMost = <S extends Schema.Top>(max: number, item: S) => Schema.Array(item).check(Schema.isMaxLength(max))

const FiniteNumber = Schema.Finite.check(Schema.makeFilter((n) => !Object.is(n, -0), { expected: "no negative zero" }))

/** JSON values whose texts are of one schema. */
const makeJson = (text: Schema.Codec<string>): Schema.Codec<Schema.Json> => {
  const json: Schema.Codec<Schema.Json> = Schema.suspend(() =>
    Schema.Union([
      Schema.Null,
      Schema.Boolean,
      FiniteNumber,
      text,
      atMost(3, json),
      Schema.Struct({ a: optionalKey(json), größe: optionalKey(json) })
    ])
  )
  return json
}

const JsonValue = makeJson(Schema.String)

const JsonObjectValue = Schema.Record(Schema.Literals(["city", "constructor", "größe"]), optionalKey(JsonValue))

const Options = optionalKey(
  Schema.Union([Schema.Struct({ openai: JsonValue }), Schema.Struct({ anthropic: JsonValue })])
)

const FilePart = Schema.Struct({
  type: Schema.Literal("file"),
  mediaType: Schema.Literals(["image/png", "application/pdf"]),
  fileName: optionalKey(Schema.Literals(["a.png", "übersicht.pdf"])),
  data: Schema.Union([
    Schema.Struct({ type: Schema.Literal("base64"), base64: Schema.Literals(["AQID", ""]) }),
    Schema.Struct({
      type: Schema.Literal("url"),
      url: Schema.Literals(["https://example.com/a.png", "https://example.com/%C3%BC?b=c#d"])
    })
  ]),
  options: Options
})

const TokenCount = optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000 })))

const MessageDetails = Schema.Struct({
  usage: optionalKey(Schema.Struct({ inputTokens: TokenCount, outputTokens: TokenCount, reasoningTokens: TokenCount })),
  metadata: optionalKey(JsonObjectValue),
  options: Options
})

const SaidText = Schema.String.check(Schema.makeFilter((text: string) => !history.isBlank(text)))

const SourcePart = Schema.Struct({
  type: Schema.Literal("source"),
  id: Schema.String,
  title: optionalKey(Schema.String),
  data: Schema.Union([
    Schema.Struct({ type: Schema.Literal("url"), url: Schema.Literal("https://example.com/a") }),
    Schema.Struct({ type: Schema.Literal("document"), mediaType: Schema.Literal("text/plain") })
  ]),
  options: Options
})

/** The turns of conversations, with parts as messages hold them. With `sendable` models accept all of them. */
const makeTurn = (sendable: boolean) => {
  const TextPart = Schema.Struct({
    type: Schema.Literal("text"),
    text: sendable ? SaidText : Schema.String,
    options: Options
  })
  const Content = Schema.NonEmptyArray(Schema.Union([TextPart, FilePart])).check(Schema.isMaxLength(3))
  const CallPart = Schema.Struct({
    type: Schema.Literal("call"),
    name: Schema.Literals(["get_order", "search", "math/add", "web_search"]),
    arguments: sendable ? JsonObjectValue : Schema.Union([JsonObjectValue, JsonValue]),
    text: Schema.Literals(sendable ? ["none", "spaced"] : ["none", "spaced", "malformed"]),
    options: Options,
    result: Schema.Union([
      Schema.TaggedStruct("Value", { value: JsonValue }),
      Schema.TaggedStruct("Success", { content: Content, value: JsonValue }),
      Schema.TaggedStruct("Failure", {
        type: Schema.Literals(["timeout_error", "not_found", "", "interrupted"]),
        message: Schema.String,
        value: optionalKey(JsonValue),
        content: optionalKey(Content)
      })
    ]),
    resultOptions: Options,
    /** The result of a call that the provider executed: in this message, in the next of the turn if there is one, or absent. */
    provider: optionalKey(Schema.Literals(["here", "next", "never"]))
  })
  const ReasoningPart = Schema.Struct({ type: Schema.Literal("reasoning"), text: Schema.String, options: Options })
  const Answer = Schema.Struct({
    parts: atMost(4, Schema.Union([TextPart, FilePart, ReasoningPart, SourcePart, CallPart])),
    model: optionalKey(Schema.Literals(["gpt-5.2", "claude"])),
    finishReason: optionalKey(Schema.Literals(["stop", "tool-calls", "length", "pause"])),
    response: optionalKey(Schema.Struct({ id: optionalKey(Schema.String), metadata: Options })),
    details: MessageDetails,
    /** The results arrive last call first. */
    reversed: Schema.Boolean,
    /** The number of missing results, if this is the end. */
    open: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 }))
  })
  const User = Schema.NonEmptyArray(Schema.Union([Schema.Struct({ ...TextPart.fields, text: SaidText }), FilePart]))
  return Schema.Struct({
    user: User.check(Schema.isMaxLength(3)),
    /** A system message at the question. */
    instruction: optionalKey(
      Schema.Struct({
        text: sendable ? SaidText : Schema.String,
        place: Schema.Literals(sendable ? ["behind"] : ["before", "behind"])
      })
    ),
    details: MessageDetails,
    answers: atMost(3, Answer)
  })
}

const AnyTurn = makeTurn(false)

const SendableTurn = makeTurn(true)

type Turn = typeof AnyTurn.Type

type Answer = Turn["answers"][number]

type Call = Extract<Answer["parts"][number], { readonly type: "call" }>

const ConversationHead = Schema.Struct({
  system: optionalKey(Schema.String),
  tokenLimit: optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 200_000 }))),
  /** The first turn has no user message. */
  greeting: Schema.Boolean
})

interface ConversationScript {
  readonly head: typeof ConversationHead.Type
  readonly turns: ReadonlyArray<Turn>
}

const startTime = 1_760_000_000_000

/** The messages of a script. Ids and times count up. */
const buildMessages = ({ head, turns }: ConversationScript, options: ConversationOptions | undefined) => {
  const all: Array<Message.Message> = []
  let callCount = 0
  const stamp = (details?: typeof MessageDetails.Type) => ({
    id: `m${all.length}`,
    createdAt: DateTime.makeUnsafe(startTime + all.length * 1000),
    ...details
  })
  if (head.system !== undefined) all.push({ role: "system", ...stamp(), content: head.system })
  for (const [index, turn] of turns.entries()) {
    const { instruction } = turn
    const instruct = (place: "before" | "behind") => {
      if (instruction?.place === place) all.push({ role: "system", ...stamp(), content: instruction.text })
    }
    instruct("before")
    if (index > 0 || !head.greeting) {
      all.push({ role: "user", ...stamp(turn.details), content: turn.user })
      instruct("behind")
    }
    let carried: ReadonlyArray<Message.ToolResultPart> = []
    for (const [position, answer] of turn.answers.entries()) {
      const isLast = position === turn.answers.length - 1
      const providerOf = ({ provider }: Call) =>
        options?.sendable !== true || provider === undefined || (provider === "next" && !isLast) ? provider : "here"
      const { content, later, results } = buildParts(answer, providerOf, () => `call_${callCount++}`)
      const whole = [...carried, ...content]
      carried = later
      const { finishReason, model, response } = answer
      const said = history.saidParts(whole, (_, part) => history.isWords(part))
      const sendable = said.length === 0 ? [ToolResult.textPart("Well.")] : said
      const spoken = options?.sendable === true ? sendable : whole
      const fields = { content: spoken, ...defined({ model, finishReason, response }) }
      all.push({ role: "assistant", ...stamp(answer.details), ...fields })
      const isEnd = index === turns.length - 1 && isLast
      const missing = isEnd && options?.open !== false ? Math.min(answer.open, results.length) : 0
      const arrived = answer.reversed ? results.toReversed() : results
      for (const result of arrived.slice(0, results.length - missing)) all.push({ role: "tool", ...stamp(), ...result })
    }
  }
  return all
}

const buildParts = (answer: Answer, providerOf: (call: Call) => Call["provider"], nextId: () => string) => {
  const content: Array<Message.AssistantPart> = []
  const later: Array<Message.ToolResultPart> = []
  const results: Array<Pick<Message.ToolMessage, "callId" | "name" | "result" | "options">> = []
  for (const part of answer.parts) {
    if (part.type !== "call") {
      content.push(part)
      continue
    }
    const id = nextId()
    const { name, options, resultOptions } = part
    const provider = providerOf(part)
    const result = { name, result: buildResult(part.result), ...defined({ options: resultOptions }) }
    const providerExecuted = provider === undefined ? undefined : (true as const)
    content.push({ type: "tool-call", id, name, ...buildArguments(part), ...defined({ providerExecuted, options }) })
    if (provider === undefined) results.push({ callId: id, ...result })
    if (provider === "here") content.push({ type: "tool-result", id, ...result })
    if (provider === "next") later.push({ type: "tool-result", id, ...result })
  }
  return { content, later, results }
}

/** Arguments as received: without their text, with spaces in it, or not as JSON. */
const buildArguments = (call: Call): Pick<Message.ToolCallPart, "arguments" | "text"> => {
  if (call.text === "malformed") return { arguments: "{bad", text: "{bad" }
  const text = call.text === "spaced" ? JSON.stringify(call.arguments, null, 1) : undefined
  return { arguments: call.arguments, ...defined({ text }) }
}

const buildResult = (result: Call["result"]): ToolResult.ToolResult =>
  result._tag === "Value" ? ToolResult.success(result.value) : result

/**
 * Options of {@link messages} and {@link conversation}.
 *
 * @category options
 * @since 0.1.0
 */
export interface ConversationOptions {
  /** True to allow open calls at the end; default `true`. */
  readonly open?: boolean | undefined
  /** The most turns; default 4. */
  readonly maxTurns?: number | undefined
  /**
   * True to leave out everything that models refuse: arguments that are not an object, text of white space, empty
   * messages, reasoning with nothing after it, and calls that the provider never answered; default `false`.
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
  Arbitrary.map(conversationScripts(options), (script) => buildMessages(script, options))

/**
 * Lawful conversations: with and without system messages, also later ones, and a token limit; text, files, reasoning,
 * calls, results of every kind in any order, tools that the provider runs, provider options, metadata and usage;
 * closed, open or partly answered at the end. The options are the options of {@link messages}.
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
    Conversation.fromMessages(buildMessages(script, options), { tokenLimit: script.head.tokenLimit })
  )

const conversationScripts = (options: ConversationOptions | undefined): Arbitrary.Arbitrary<ConversationScript> => {
  const turn: Schema.Codec<Turn> = options?.sendable === true ? SendableTurn : AnyTurn
  return Arbitrary.all({
    head: Arbitrary.schema(ConversationHead),
    turns: Arbitrary.array(Arbitrary.schema(turn), { maxLength: options?.maxTurns ?? 4 })
  })
}

const isWellFormed = (text: string): boolean => !/\p{Surrogate}/u.test(text)

/** Any text that has a digest: without lone surrogates. */
const AnyText = Schema.String.check(Schema.makeFilter(isWellFormed, { expected: "well-formed text" }))

/** Text with at least one visible character. */
const WellFormedText = Schema.String.check(
  Schema.makeFilter((text) => text.trim() !== "" && isWellFormed(text), { expected: "text that is not blank" })
)

/** A name without hidden characters, in one script. */
const NameText = WellFormedText.check(
  Schema.makeFilter((name) => toolNameProblem(name) === undefined, { expected: "a plain name" })
)

const ToolNameText = Schema.Union([
  Schema.Literals(["get_order", "mcp/search", "a.b-c", "Ünïcode ☃", "x".repeat(80)]),
  NameText.check(Schema.makeFilter((name) => !inheritedNames.has(name), { expected: "a name no object inherits" }))
])

/** Property names, awkward ones too: separators of pointers, secrets' names, inherited ones. */
const PropertyKey = Schema.Literals(["city", "a/b", "m~n", "", "password", "max_tokens", "toString", "snow ☃", "$ref"])

/** Option names that are not secrets. */
const ModelOptionsShape = Schema.Record(
  Schema.Literals(["temperature", "top_p", "prompt_cache_key", "stop"]),
  optionalKey(makeJson(AnyText))
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

const ToolShape = Schema.Struct({
  name: ToolNameText,
  description: optionalKey(WellFormedText),
  parameters: PropertiesSchema,
  success: optionalKey(PropertiesSchema),
  failure: optionalKey(PropertiesSchema),
  timeout: Schema.Union([Milliseconds, Schema.Literal("Infinity")]),
  approval: ToolContract.ToolContract.fields.approval,
  annotations: Schema.Struct({ ...ToolContract.ToolContract.fields.annotations.fields, title: optionalKey(AnyText) })
})

const AgentShape = Schema.Struct({
  name: optionalKey(NameText.check(Schema.makeFilter((name) => !/[\\/]/.test(name), { expected: "no separator" }))),
  model: optionalKey(Schema.Literals(["openai/gpt-5.2", "bedrock/us.anthropic/x", "ö/☃", "a/b c"])),
  instructions: optionalKey(WellFormedText),
  modelOptions: ModelOptionsShape,
  maxSteps: Schema.Union([Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)), Schema.Literal("unlimited")]),
  output: optionalKey(Schema.Struct({ schema: PropertiesSchema, strategy: agentData.OutputStrategy })),
  reasoning: optionalKey(agentData.ReasoningLevel),
  retry: agentData.AgentDefinition.fields.retry,
  timeouts: agentData.AgentDefinition.fields.timeouts,
  toolChoice: optionalKey(Schema.Literals(["auto", "none", "required"])),
  concurrency: agentData.AgentDefinition.fields.concurrency,
  repeatedCalls: agentData.AgentDefinition.fields.repeatedCalls,
  perRun: optionalKey(
    Schema.Union([Schema.Tuple([Schema.Literals(["instructions", "model"])]), Schema.Tuple([Schema.Literal("tools")])])
  )
})

type ToolShape = typeof ToolShape.Type & { readonly agent?: DefinitionShape }

type DefinitionShape = typeof AgentShape.Type & { readonly tools: ReadonlyArray<ToolShape> }

/** Agents whose tools may be agents, `levels` deep. */
const makeDefinitionShape = (levels: number): Schema.Codec<DefinitionShape, unknown> => {
  if (levels === 0) return AgentShape.pipe(Schema.fieldsAssign({ tools: atMost(2, ToolShape) }))
  const agent = optionalKey(makeDefinitionShape(levels - 1))
  return AgentShape.pipe(Schema.fieldsAssign({ tools: Schema.Array(ToolShape.pipe(Schema.fieldsAssign({ agent }))) }))
}

const DefinitionShape = makeDefinitionShape(2)

/**
 * Options of {@link agentDefinition}.
 *
 * @category options
 * @since 0.1.0
 */
export interface DefinitionOptions {
  /** True for definitions that wire version 1 holds without loss; default `false`. */
  readonly version1?: boolean | undefined
  /** The most tools; default 3. */
  readonly maxTools?: number | undefined
}

const isInVersion1 = (schema: typeof LeafSchema.Type): boolean =>
  schema.type !== "null" && !("minLength" in schema) && !("minimum" in schema)

const toVersion1 = (shape: DefinitionShape): DefinitionShape =>
  ofVersion1(Struct.omit(shape, ["concurrency", "perRun", "repeatedCalls", "retry", "timeouts", "toolChoice"]))

const ofVersion1 = ({ output, ...rest }: DefinitionShape): DefinitionShape => ({
  ...rest,
  model: rest.model ?? "openai/gpt-5.2",
  ...defined({
    output: output && {
      schema: output.schema.filter(({ schema }) => isInVersion1(schema)),
      strategy: output.strategy === "tool" ? "native" : output.strategy
    }
  }),
  tools: rest.tools.map(({ agent: _, description = "A tool", failure: __, success: ___, timeout, ...tool }) => ({
    ...tool,
    description,
    timeout: timeout === "Infinity" ? 1 : timeout,
    approval: "never",
    annotations: {}
  }))
})

const buildTool = Effect.fnUntraced(function* ({ agent, failure, success, ...tool }: ToolShape, maxTools: number) {
  // Contracts that decide by their arguments have a condition, or leave the decision to code
  const { approval, description } = tool
  const when =
    approval === "dynamic" && description !== undefined ? { kind: "empty", path: ["context", description] } : undefined
  const contract = yield* ToolContract.make({
    ...tool,
    request: when && { when },
    parameters: toJsonSchema(tool.parameters),
    success: success && toJsonSchema(success),
    failure: failure && toJsonSchema(failure),
    timeout: agent === undefined ? tool.timeout : "Infinity"
  })
  return { ...contract, ...defined({ agent: agent && (yield* buildDefinition(agent, maxTools)) }) }
})

const buildDefinition = Effect.fnUntraced(function* (
  { output, tools, ...rest }: DefinitionShape,
  maxTools: number
): Effect.fn.Return<
  agentData.AgentDefinition,
  Effect.Error<ReturnType<typeof ToolContract.make> | ReturnType<typeof AgentDefinition.make>>
> {
  const distinct = new Map(tools.map((tool) => [tool.name, tool]))
  return yield* AgentDefinition.make({
    ...rest,
    output: output === undefined ? undefined : { ...output, schema: toJsonSchema(output.schema) },
    tools: yield* Effect.forEach([...distinct.values()].slice(0, maxTools), (tool) => buildTool(tool, maxTools))
  })
})

/**
 * Well-formed definitions: with and without every optional part, awkward names and property
 * names, finite and infinite timeouts, agents in tools up to three levels deep.
 *
 * **Details**
 *
 * Options: `maxTools` (default 3) limits the number of tools of each agent, `version1` (default `false`)
 * leaves out everything that wire version 1 cannot hold.
 *
 * **Example** (A law that holds)
 *
 * ```ts
 * import { Arbitrary, Effect } from "effect"
 * import { AgentDefinition } from "effect-emissary"
 * import { Arbitraries } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const check = Arbitrary.checkEffect(Arbitraries.agentDefinition(), (definition) =>
 *   Effect.gen(function*() {
 *     const decoded = yield* Effect.flatMap(AgentDefinition.codec.encode(definition), AgentDefinition.codec.decode)
 *     return (yield* AgentDefinition.digest(decoded)) === (yield* AgentDefinition.digest(definition))
 *   })
 * )
 * assert.strictEqual((await Effect.runPromise(check))._tag, "Passed")
 * ```
 *
 * @category generators
 * @since 0.1.0
 */
export const agentDefinition = (options?: DefinitionOptions): Arbitrary.Arbitrary<agentData.AgentDefinition> =>
  // Filters model options with whole numbers beyond 2^53 only: the shapes are well-formed
  Arbitrary.filterMap(Arbitrary.schema(DefinitionShape), (shape) =>
    Effect.runSync(
      Effect.result(buildDefinition(options?.version1 === true ? toVersion1(shape) : shape, options?.maxTools ?? 3))
    )
  )
