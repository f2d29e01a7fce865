import { Arbitrary, Schema } from "effect"
import { extras, type Json, list, Order, Said, shuffled } from "./foreign-json.ts"

/** Histories of Chat Completions as other programs keep them: lawful, and written in every way there is. */

const Text = Schema.Struct({ type: Schema.Literal("text"), text: Said, ...extras })

const Image = Schema.Struct({
  url: Schema.Literals([
    "data:image/png;base64,AQID",
    "data:image/svg+xml;charset=utf-8;base64,AQID",
    "https://example.com/a.png"
  ]),
  detail: Schema.optionalKey(Schema.Literals(["low", "auto"]))
})

const Audio = Schema.Struct({ data: Schema.Literal("AQID"), format: Schema.Literals(["wav", "mp3"]) })

const filename = Schema.optionalKey(Said)

const File = Schema.Union([
  Schema.Struct({ file_id: Schema.Literal("file-1"), filename }),
  Schema.Struct({
    file_data: Schema.Literals(["data:application/pdf;base64,AQID", "data:text/csv;base64,AQID"]),
    filename
  })
])

/** A part that this version does not know. */
const Newer = Schema.Struct({ type: Schema.Literal("reference"), reference_ids: list(Schema.Int, 2), ...extras })

const link = Schema.Literals(["https://example.com/a", "data:application/x;base64,AQID"])

const Part = Schema.Union([
  Text,
  Newer,
  Schema.Struct({
    type: Schema.Literal("document_url"),
    document_url: link,
    document_name: Schema.optionalKey(Schema.NullOr(Said)),
    ...extras
  }),
  Schema.Struct({ type: Schema.Literal("video_url"), video_url: Schema.Struct({ url: link }), ...extras }),
  Schema.Struct({
    type: Schema.Literal("image_url"),
    image_url: Schema.Literal("https://example.com/a.png"),
    ...extras
  }),
  Schema.Struct({ type: Schema.Literal("image_url"), image_url: Image, ...extras }),
  Schema.Struct({ type: Schema.Literal("input_audio"), input_audio: Audio, ...extras }),
  Schema.Struct({ type: Schema.Literal("file"), file: File, ...extras })
])

const Called = Schema.Struct({
  name: Schema.Literals(["f", "search", "math/add"]),
  arguments: Schema.Literals(["{}", "", `{ "q" : 1 }`, `{"b":[1,2],"a":null}`, `{"u":"a\\/b é"}`])
})

const Call = Schema.Struct({
  call: Schema.Union([
    Schema.Struct({ type: Schema.Literal("function"), function: Called, ...extras }),
    Schema.Struct({
      type: Schema.Literal("custom"),
      custom: Schema.Struct({ name: Schema.Literal("sql"), input: Schema.String }),
      ...extras
    })
  ]),
  result: Schema.Struct({
    role: Schema.Literal("tool"),
    content: Schema.Union([Schema.String, list(Text, 3, 1)]),
    ...extras
  })
})

const Thinking = Schema.Struct({
  type: Schema.Literal("thinking"),
  thinking: Schema.Union([Schema.String, list(Text, 2)]),
  closed: Schema.optionalKey(Schema.Boolean)
})

/** Text, and before it what the model of Mistral thought or referred to. */
const Blocks = Schema.Struct({ before: list(Schema.Union([Thinking, Newer]), 2), texts: list(Text, 2, 1) })

const assistant = {
  role: Schema.Literal("assistant"),
  content: Schema.optionalKey(Schema.Union([Said, Schema.Null, Blocks])),
  refusal: Schema.optionalKey(Schema.NullOr(Said)),
  audio: Schema.optionalKey(
    Schema.NullOr(
      Schema.Struct({
        id: Schema.Literal("audio_1"),
        data: Schema.optionalKey(Schema.Literal("AQID")),
        expires_at: Schema.optionalKey(Schema.Literal(1_760_000_000)),
        transcript: Schema.optionalKey(Schema.String),
        ...extras
      })
    )
  ),
  ...extras
}

const Answer = Schema.Struct({
  message: Schema.Union([
    Schema.Struct(assistant),
    Schema.Struct({ ...assistant, reasoning: Schema.String }),
    Schema.Struct({ ...assistant, reasoning_content: Schema.String })
  ]),
  calls: list(Call, 3),
  reversed: Schema.Boolean
})

const User = Schema.Struct({
  role: Schema.Literal("user"),
  content: Schema.Union([Said, list(Part, 3, 1)]),
  name: Schema.optionalKey(Said),
  ...extras
})

const System = Schema.Struct({
  role: Schema.Literals(["system", "developer"]),
  content: Schema.Union([Said, list(Text, 2, 1)]),
  ...extras
})

const History = Schema.Struct({
  system: list(System, 1),
  turns: list(
    Schema.Struct({ before: list(System, 1), user: User, later: list(System, 1), answers: list(Answer, 3) }),
    3
  ),
  order: Order
})

const history = ({ order, system, turns }: typeof History.Type): Json => {
  const messages: Array<Json> = [...system]
  let count = 0
  for (const { answers, before, later, user } of turns) {
    messages.push(...before, user, ...later)
    for (const { calls, message: given, reversed } of answers) {
      const { content: said = null, ...members } = given
      const blocks = typeof said === "string" || said === null ? said : [...said.before, ...said.texts]
      const message = "content" in given ? { ...members, content: blocks } : members
      const ids = calls.map(() => `call_${count++}`)
      const isSilent = (blocks ?? message.refusal ?? message.audio ?? null) === null
      const called = { ...message, tool_calls: calls.map(({ call }, n) => ({ ...call, id: ids[n] ?? "" })) }
      messages.push(calls.length > 0 ? called : isSilent ? { ...message, content: "Well." } : message)
      const results = calls.map(({ result }, n) => ({ ...result, tool_call_id: ids[n] ?? "" }))
      messages.push(...(reversed ? results.toReversed() : results))
    }
  }
  return shuffled(messages, order)
}

export const openaiForeign: Arbitrary.Arbitrary<Json> = Arbitrary.map(Arbitrary.schema(History), history)
