import { Arbitrary, Schema } from "effect"
import { Extras, type Json, type JsonObject, list, Said, shuffled, withExtras } from "./foreign-json.ts"

/** Histories of the Messages API as other programs keep them: lawful, and written in every way there is. */

const cache = Schema.optionalKey(Schema.Literals(["5m", "1h", "null"]))

const Text = Schema.Struct({ type: Schema.Literal("text"), text: Said, cache, extras: Extras })

const Source = Schema.Union([
  Schema.Struct({ type: Schema.Literal("base64"), data: Schema.Literal("AQID") }),
  Schema.Struct({ type: Schema.Literal("url"), url: Schema.Literal("https://example.com/a") }),
  Schema.Struct({ type: Schema.Literal("file"), file_id: Schema.Literal("file_1") })
])

const Content = Schema.Union([
  Text,
  Schema.Struct({
    type: Schema.Literal("image"),
    source: Source,
    media: Schema.Literals(["image/png", "image/webp"]),
    cache,
    extras: Extras
  }),
  Schema.Struct({
    type: Schema.Literal("document"),
    source: Schema.Union([...Source.members, Schema.Struct({ type: Schema.Literal("text"), data: Said })]),
    title: Schema.optionalKey(Schema.NullOr(Schema.String)),
    context: Schema.optionalKey(Schema.NullOr(Schema.String)),
    citations: Schema.optionalKey(Schema.Struct({ enabled: Schema.Boolean })),
    cache,
    extras: Extras
  })
])

const Use = Schema.Struct({
  name: Schema.Literals(["f", "search"]),
  input: Schema.Struct({ q: Schema.optionalKey(Schema.String), a: Schema.optionalKey(list(Schema.Int, 2)) }),
  cache,
  extras: Extras,
  result: Schema.Struct({
    content: Schema.Union([Schema.Literal(""), Said, Schema.Literal("absent"), list(Content, 3, 1)]),
    failed: Schema.optionalKey(Schema.Boolean),
    cache,
    extras: Extras
  })
})

const Before = Schema.Union([
  Text,
  Schema.Struct({ type: Schema.Literal("thinking"), thinking: Schema.String, signature: Said, extras: Extras }),
  Schema.Struct({ type: Schema.Literal("redacted_thinking"), data: Said, extras: Extras }),
  Schema.Struct({
    type: Schema.Literal("server"),
    result: Schema.Literals(["web_search_tool_result", "code_execution_tool_result", "mcp_tool_result"]),
    failed: Schema.Boolean,
    extras: Extras
  })
])

const Answer = Schema.Struct({
  before: list(Before, 3),
  text: Said,
  asString: Schema.Boolean,
  uses: list(Use, 3),
  reversed: Schema.Boolean,
  joined: list(Content, 2),
  extras: Extras,
  resultExtras: Extras
})

const Turn = Schema.Struct({
  content: Schema.Union([Said, list(Content, 3, 1)]),
  extras: Extras,
  answers: list(Answer, 3)
})

const History = Schema.Struct({
  system: Schema.Union([Schema.Literal("absent"), Schema.Null, Said, list(Text, 2, 1)]),
  turns: list(Turn, 3, 1),
  order: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5 }))
})

interface Any {
  readonly cache?: "5m" | "1h" | "null"
  readonly extras: typeof Extras.Type
}

const block = (object: JsonObject, given: Any): JsonObject =>
  withExtras(
    {
      ...object,
      ...(given.cache === undefined
        ? undefined
        : { cache_control: given.cache === "null" ? null : { type: "ephemeral", ttl: given.cache } })
    },
    given.extras
  )

const text = (given: typeof Text.Type): JsonObject => block({ type: "text", text: given.text }, given)

const source = (given: { readonly type: string; readonly [key: string]: string }, media: string): JsonObject => {
  const { type, ...data } = given
  return { type, ...(type === "base64" || type === "text" ? { media_type: media } : undefined), ...data }
}

const content = (given: typeof Content.Type): JsonObject => {
  switch (given.type) {
    case "text":
      return text(given)
    case "image":
      return block({ type: "image", source: source(given.source, given.media) }, given)
    case "document": {
      const { citations, context, title } = given
      const type = given.source.type === "text" ? "text/plain" : "application/pdf"
      return block(
        {
          type: "document",
          source: source(given.source, type),
          ...(title === undefined ? undefined : { title }),
          ...(context === undefined ? undefined : { context }),
          ...(citations === undefined ? undefined : { citations })
        },
        given
      )
    }
  }
}

const before = (given: typeof Before.Type, id: string): ReadonlyArray<JsonObject> => {
  switch (given.type) {
    case "text":
      return [text(given)]
    case "thinking":
      return [withExtras({ type: "thinking", thinking: given.thinking, signature: given.signature }, given.extras)]
    case "redacted_thinking":
      return [withExtras({ type: "redacted_thinking", data: given.data }, given.extras)]
    case "server": {
      const isMcp = given.result === "mcp_tool_result"
      const failure = { type: "web_search_tool_result_error", error_code: "unavailable" }
      return [
        withExtras(
          {
            type: isMcp ? "mcp_tool_use" : "server_tool_use",
            id,
            name: "web_search",
            input: { q: "x" },
            ...(isMcp ? { server_name: "s" } : undefined)
          },
          given.extras
        ),
        {
          type: given.result,
          tool_use_id: id,
          ...(isMcp ? { is_error: given.failed, content: [{ type: "text", text: "out" }] } : undefined),
          ...(isMcp ? undefined : { content: given.failed ? failure : [{ type: "web_search_result", url: "u" }] })
        }
      ]
    }
  }
}

const result = ({ result }: typeof Use.Type, id: string): JsonObject => {
  const { content: inner, failed } = result
  const isSilent = inner === "absent" || inner === ""
  return block(
    {
      type: "tool_result",
      tool_use_id: id,
      ...(failed === undefined ? undefined : { is_error: failed }),
      ...(failed === true && isSilent
        ? { content: "failed" }
        : inner === "absent"
          ? undefined
          : { content: typeof inner === "string" ? inner : inner.map(content) })
    },
    result
  )
}

const history = (given: typeof History.Type): JsonObject => {
  const messages: Array<JsonObject> = []
  let count = 0
  const add = (role: string, content: Json, extras: typeof Extras.Type = []) =>
    messages.push(withExtras({ role, content }, extras))
  for (const turn of given.turns) {
    add("user", typeof turn.content === "string" ? turn.content : turn.content.map(content), turn.extras)
    for (const answer of turn.answers) {
      const uses = answer.uses.map((use) => ({ ...use, id: `toolu_${count++}` }))
      const isString = answer.asString && uses.length === 0 && answer.before.length === 0
      const blocks = [
        ...answer.before.flatMap((given) => before(given, `srvtoolu_${count++}`)),
        ...(isString || uses.length > 0 ? [] : [{ type: "text", text: answer.text }]),
        ...uses.map((use) => block({ type: "tool_use", id: use.id, name: use.name, input: use.input }, use))
      ]
      add("assistant", isString ? answer.text : blocks, answer.extras)
      if (uses.length === 0) continue
      const results = uses.map((use) => result(use, use.id))
      add(
        "user",
        [...(answer.reversed ? results.toReversed() : results), ...answer.joined.map(content)],
        answer.resultExtras
      )
    }
  }
  const { system } = given
  return shuffled(
    {
      ...(system === "absent"
        ? undefined
        : { system: system === null || typeof system === "string" ? system : system.map(text) }),
      messages
    },
    given.order
  )
}

export const anthropicForeign: Arbitrary.Arbitrary<JsonObject> = Arbitrary.map(Arbitrary.schema(History), history)
