import { Arbitrary, Schema } from "effect"
import { extras, type Json, list, Order, Said, shuffled } from "./foreign-json.ts"

/** Histories of the Messages API as other programs keep them: lawful, and written in every way there is. */

const Cache = Schema.Struct({ type: Schema.Literal("ephemeral"), ttl: Schema.Literals(["5m", "1h"]) })

const block = <T extends string, Fields extends Schema.Struct.Fields>(type: T, fields: Fields) =>
  Schema.Struct({
    type: Schema.Literal(type),
    ...fields,
    cache_control: Schema.optionalKey(Schema.NullOr(Cache)),
    ...extras
  })

const Text = block("text", { text: Said })

const base64 = (types: ReadonlyArray<string>) =>
  Schema.Struct({
    type: Schema.Literal("base64"),
    media_type: Schema.Literals(types),
    data: Schema.Literal("AQID")
  })

const elsewhere = [
  Schema.Struct({ type: Schema.Literal("url"), url: Schema.Literal("https://example.com/a") }),
  Schema.Struct({ type: Schema.Literal("file"), file_id: Schema.Literal("file_1") })
] as const

const SearchResult = block("search_result", { source: Said, title: Said, content: list(Text, 2) })

/** Text, or a picture in a document. */
const DocumentPart = Schema.Union([Text, block("image", { source: base64(["image/png"]) })])

const Document = block("document", {
  source: Schema.Struct({ type: Schema.Literal("content"), content: Schema.Union([Said, list(DocumentPart, 2, 1)]) }),
  title: Schema.optionalKey(Said)
})

/** A block, a source and a result that this version does not know. */
const Newer = Schema.Union([
  block("hologram", { depth: Said }),
  block("image", { source: Schema.Struct({ type: Schema.Literal("cloud"), key: Said }) })
])

const Content = Schema.Union([
  Text,
  Newer,
  SearchResult,
  Document,
  block("image", { source: Schema.Union([base64(["image/png", "image/webp"]), ...elsewhere]) }),
  block("document", {
    source: Schema.Union([
      base64(["application/pdf"]),
      Schema.Struct({ type: Schema.Literal("text"), media_type: Schema.Literal("text/plain"), data: Said }),
      ...elsewhere
    ]),
    title: Schema.optionalKey(Schema.NullOr(Schema.String)),
    context: Schema.optionalKey(Schema.NullOr(Schema.String)),
    citations: Schema.optionalKey(Schema.Struct({ enabled: Schema.Boolean }))
  })
])

const BrowserState = block("browser_state", {
  tabs: list(Schema.Struct({ tab_id: Said, active: Schema.Boolean }), 2)
})

const Use = Schema.Struct({
  call: block("tool_use", {
    name: Schema.Literals(["f", "search"]),
    input: Schema.Struct({ q: Schema.optionalKey(Schema.String), a: Schema.optionalKey(list(Schema.Int, 2)) })
  }),
  result: block("tool_result", {
    content: Schema.optionalKey(
      Schema.Union([
        Schema.Null,
        Schema.Literal(""),
        Said,
        list(Schema.Union([Content, block("tool_reference", { tool_name: Said }), BrowserState]), 3, 1)
      ])
    ),
    is_error: Schema.optionalKey(Schema.Boolean)
  })
})

const search = { name: Schema.Literal("web_search"), input: Schema.Struct({ q: Schema.Literal("x") }), ...extras }

/** A tool that the provider runs, and what it returned. */
const Server = Schema.Union([
  Schema.Struct({
    call: Schema.Struct({ type: Schema.Literal("server_tool_use"), ...search }),
    result: Schema.Struct({
      type: Schema.Literals(["web_search_tool_result", "code_execution_tool_result", "advisor_tool_result"]),
      content: Schema.Union([
        Schema.Struct({
          type: Schema.Literal("web_search_tool_result_error"),
          error_code: Schema.Literal("unavailable")
        }),
        list(Schema.Struct({ type: Schema.Literal("web_search_result"), url: Schema.Literal("u") }), 1, 1)
      ])
    })
  }),
  Schema.Struct({
    call: Schema.Struct({ type: Schema.Literal("mcp_tool_use"), ...search, server_name: Schema.Literal("s") }),
    result: Schema.Struct({
      type: Schema.Literal("mcp_tool_result"),
      is_error: Schema.Boolean,
      content: list(Schema.Struct({ type: Schema.Literal("text"), text: Schema.Literal("out") }), 1, 1)
    })
  })
])

const Upload = block("container_upload", { file_id: Schema.Literal("file_1") })

const Before = Schema.Union([
  Text,
  Newer,
  Upload,
  block("compaction", { content: Said }),
  Schema.Struct({ type: Schema.Literal("thinking"), thinking: Schema.String, signature: Said, ...extras }),
  Schema.Struct({ type: Schema.Literal("redacted_thinking"), data: Said, ...extras }),
  Server
])

const Answer = Schema.Struct({
  before: list(Before, 3),
  text: Said,
  asString: Schema.Boolean,
  uses: list(Use, 3),
  reversed: Schema.Boolean,
  joined: list(Content, 2),
  extras: Schema.Struct(extras),
  resultExtras: Schema.Struct(extras)
})

const User = Schema.Struct({
  role: Schema.Literal("user"),
  content: Schema.Union([Said, list(Schema.Union([Content, Upload]), 3, 1)]),
  ...extras
})

const change = { tool: Schema.Struct({ type: Schema.Literal("tool_reference"), name: Said, ...extras }), ...extras }

/** Instructions behind the first message. */
const Later = Schema.Struct({
  role: Schema.Literal("system"),
  content: Schema.Union([
    Said,
    list(
      Schema.Union([
        Text,
        Schema.Struct({ type: Schema.Literal("tool_addition"), ...change }),
        Schema.Struct({ type: Schema.Literal("tool_removal"), ...change })
      ]),
      2,
      1
    )
  ]),
  ...extras
})

const History = Schema.Struct({
  system: Schema.Struct({
    system: Schema.optionalKey(Schema.Union([Schema.Null, Said, list(Text, 2, 1)]))
  }),
  turns: list(Schema.Struct({ user: User, later: list(Later, 2), answers: list(Answer, 3) }), 3, 1),
  order: Order
})

const before = (given: typeof Before.Type, id: string): ReadonlyArray<Json> =>
  "call" in given
    ? [
        { ...given.call, id },
        { ...given.result, tool_use_id: id }
      ]
    : [given]

/** The result of a failed call is not empty. */
const result = ({ result }: typeof Use.Type, id: string): Json => ({
  ...result,
  tool_use_id: id,
  ...(result.is_error === true && (result.content ?? "") === "" ? { content: "failed" } : undefined)
})

const history = ({ order, system, turns }: typeof History.Type): Json => {
  const messages: Array<Json> = []
  let count = 0
  for (const [index, { answers, later, user }] of turns.entries()) {
    messages.push(user, ...(answers.length > 0 || index === turns.length - 1 ? later : []))
    for (const { asString, extras, joined, resultExtras, reversed, text, uses, ...answer } of answers) {
      const ids = uses.map(() => `toolu_${count++}`)
      const blocks: ReadonlyArray<Json> = [
        ...answer.before.flatMap((given) => before(given, `srvtoolu_${count++}`)),
        ...(uses.length > 0 ? [] : [{ type: "text", text }]),
        ...uses.map(({ call }, n) => ({ ...call, id: ids[n] ?? "" }))
      ]
      messages.push({
        role: "assistant",
        content: asString && blocks.length === 1 && uses.length === 0 ? text : blocks,
        ...extras
      })
      if (uses.length === 0) continue
      const results = uses.map((use, n) => result(use, ids[n] ?? ""))
      const content = [...(reversed ? results.toReversed() : results), ...joined]
      messages.push({ role: "user", content, ...resultExtras })
    }
  }
  return shuffled({ ...system, messages }, order)
}

export const anthropicForeign: Arbitrary.Arbitrary<Json> = Arbitrary.map(Arbitrary.schema(History), history)
