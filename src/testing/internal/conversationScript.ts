import * as Schema from "effect/Schema"

const short = <S extends Schema.Top>(item: S, max: number) => Schema.Array(item).check(Schema.isMaxLength(max))

const Number = Schema.Finite.check(Schema.makeFilter((n) => !Object.is(n, -0), { expected: "no negative zero" }))

const Key = Schema.Literals(["a", "b", "city", "constructor", "größe"])

type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }

const Json: Schema.Codec<Json> = Schema.suspend(() =>
  Schema.Union([
    Schema.Null,
    Schema.Boolean,
    Number,
    Schema.String,
    short(Json, 3),
    Schema.Struct({ a: Schema.optionalKey(Json), größe: Schema.optionalKey(Json) })
  ])
)

const Entries = short(Schema.Struct({ key: Key, value: Json }), 2)

const Options = Schema.optionalKey(Schema.Struct({ provider: Schema.Literals(["openai", "anthropic"]), value: Json }))

const Text = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String, options: Options })

const File = Schema.Struct({
  type: Schema.Literal("file"),
  mediaType: Schema.Literals(["image/png", "application/pdf"]),
  fileName: Schema.optionalKey(Schema.Literals(["a.png", "übersicht.pdf"])),
  data: Schema.Literals(["AQID", "", "https://example.com/a.png", "https://example.com/ü?b=c#d"]),
  options: Options
})

const Content = short(Schema.Union([Text, File]), 3)

const Result = Schema.Union([
  Schema.Struct({ type: Schema.Literal("success"), value: Json, content: Content }),
  Schema.Struct({
    type: Schema.Literal("failure"),
    name: Schema.Literals(["timeout_error", "not_found", "", "interrupted"]),
    message: Schema.String,
    value: Schema.optionalKey(Json),
    content: Content
  })
])

const Tool = Schema.Literals(["get_order", "search", "math/add"])

const Arguments = Schema.Union([
  Schema.Struct({ type: Schema.Literal("object"), entries: Entries }),
  /** Text as received: the same object with spaces. */
  Schema.Struct({ type: Schema.Literal("spaced"), entries: Entries }),
  Schema.Struct({ type: Schema.Literal("other"), value: Json }),
  Schema.Struct({ type: Schema.Literal("malformed"), text: Schema.Literals(["{bad", "[1,", "nope"]) })
])

const Call = Schema.Struct({
  type: Schema.Literal("call"),
  tool: Tool,
  arguments: Arguments,
  options: Options,
  result: Result,
  resultOptions: Options
})

const ProviderCall = Schema.Struct({
  type: Schema.Literal("provider"),
  tool: Schema.Literals(["web_search", "code_execution"]),
  arguments: Arguments,
  options: Options,
  /** In this message, in the next of the turn where there is one, or not at all. */
  answered: Schema.Literals(["here", "next", "never"]),
  result: Result,
  resultOptions: Options
})

const Reasoning = Schema.Struct({ type: Schema.Literal("reasoning"), text: Schema.String, options: Options })

const Count = Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000 })))

const About = Schema.Struct({
  usage: Schema.optionalKey(Schema.Struct({ inputTokens: Count, outputTokens: Count, reasoningTokens: Count })),
  metadata: Schema.optionalKey(Entries),
  options: Options
})

const Answer = Schema.Struct({
  parts: short(Schema.Union([Text, File, Reasoning, Call, ProviderCall]), 4),
  model: Schema.optionalKey(Schema.Literals(["gpt-5.2", "claude"])),
  finishReason: Schema.optionalKey(Schema.Literals(["stop", "tool-calls", "length", "pause"])),
  about: About,
  /** Whether results arrive last call first. */
  reversed: Schema.Boolean,
  /** How many results are missing, if this is the end. */
  open: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 }))
})

export type Answer = typeof Answer.Type

export const Turn = Schema.Struct({ user: Content, about: About, answers: short(Answer, 3) })

export type Turn = typeof Turn.Type

export const Head = Schema.Struct({
  system: Schema.optionalKey(Schema.String),
  tokenLimit: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 200_000 })))
})

export interface Script {
  readonly head: typeof Head.Type
  readonly turns: ReadonlyArray<Turn>
  /** Whether the first turn has no user message. */
  readonly greeting: boolean
}

export type Part = Answer["parts"][number]
export type About = typeof About.Type
export type Result = typeof Result.Type
export type Arguments = typeof Arguments.Type
export type Options = typeof Options.Type
export type Entries = typeof Entries.Type
export type Content = (typeof Content.Type)[number]
