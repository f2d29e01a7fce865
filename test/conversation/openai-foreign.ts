import { defined } from "#src/payload/internal/plainJson.ts"
import { Arbitrary, Schema } from "effect"
import { Extras, type Json, list, type JsonObject, shuffled, Said, withExtras } from "./foreign-json.ts"

/** Histories of Chat Completions as other programs keep them: lawful, and written in every way there is. */

const Text = Schema.Struct({ type: Schema.Literal("text"), text: Said, extras: Extras })

const Part = Schema.Union([
  Text,
  Schema.Struct({
    type: Schema.Literal("image"),
    url: Schema.Literals([
      "data:image/png;base64,AQID",
      "data:image/svg+xml;charset=utf-8;base64,AQID",
      "https://example.com/a.png"
    ]),
    detail: Schema.optionalKey(Schema.Literals(["low", "auto"])),
    extras: Extras
  }),
  Schema.Struct({ type: Schema.Literal("audio"), format: Schema.Literals(["wav", "mp3"]), extras: Extras }),
  Schema.Struct({
    type: Schema.Literal("file"),
    file: Schema.Literals(["file-1", "data:application/pdf;base64,AQID", "data:text/csv;base64,AQID"]),
    filename: Schema.optionalKey(Said),
    extras: Extras
  })
])

const Call = Schema.Struct({
  name: Schema.Literals(["f", "search", "math/add"]),
  arguments: Schema.Literals(["{}", "", `{ "q" : 1 }`, `{"b":[1,2],"a":null}`, `{"u":"a\\/b é"}`]),
  extras: Extras,
  result: Schema.Union([Schema.String, list(Text, 3, 1)]),
  resultExtras: Extras
})

const Answer = Schema.Struct({
  content: Schema.Union([Said, Schema.Null, Schema.Literal("absent"), list(Text, 2, 1)]),
  refusal: Schema.optionalKey(Schema.Union([Schema.Null, Said])),
  reasoning: Schema.optionalKey(
    Schema.Struct({ field: Schema.Literals(["reasoning", "reasoning_content"]), text: Schema.String })
  ),
  calls: list(Call, 3),
  reversed: Schema.Boolean,
  extras: Extras
})

const Turn = Schema.Struct({
  content: Schema.Union([Said, list(Part, 3, 1)]),
  name: Schema.optionalKey(Said),
  extras: Extras,
  answers: list(Answer, 3)
})

const History = Schema.Struct({
  system: Schema.optionalKey(
    Schema.Struct({
      role: Schema.Literals(["system", "developer"]),
      content: Schema.Union([Said, list(Text, 2, 1)]),
      extras: Extras
    })
  ),
  turns: list(Turn, 3),
  order: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5 }))
})

const text = (part: typeof Text.Type): JsonObject => withExtras({ type: "text", text: part.text }, part.extras)

const content = (given: string | ReadonlyArray<typeof Part.Type>): Json =>
  typeof given === "string" ? given : given.map(part)

const part = (given: typeof Part.Type): JsonObject => {
  switch (given.type) {
    case "text":
      return text(given)
    case "image": {
      const { detail, extras, url } = given
      return withExtras({ type: "image_url", image_url: defined({ url, detail }) }, extras)
    }
    case "audio":
      return withExtras({ type: "input_audio", input_audio: { data: "AQID", format: given.format } }, given.extras)
    case "file": {
      const { extras, filename } = given
      const file = given.file === "file-1" ? { file_id: given.file } : { file_data: given.file }
      return withExtras({ type: "file", file: { ...file, ...defined({ filename }) } }, extras)
    }
  }
}

const messages = (given: typeof History.Type): ReadonlyArray<JsonObject> => {
  const all: Array<JsonObject> = []
  let count = 0
  if (given.system !== undefined) {
    const { content, extras, role } = given.system
    all.push(withExtras({ role, content: typeof content === "string" ? content : content.map(text) }, extras))
  }
  for (const turn of given.turns) {
    const { extras, name } = turn
    all.push(withExtras(defined({ role: "user", content: content(turn.content), name }), extras))
    for (const answer of turn.answers) {
      const calls = answer.calls.map((call) => ({ ...call, id: `call_${count++}` }))
      all.push(assistant(answer, calls))
      const results = calls.map((call) =>
        withExtras(
          {
            role: "tool",
            tool_call_id: call.id,
            content: typeof call.result === "string" ? call.result : call.result.map(text)
          },
          call.resultExtras
        )
      )
      all.push(...(answer.reversed ? results.toReversed() : results))
    }
  }
  return all.map((message) => shuffled(message, given.order))
}

type Calls = ReadonlyArray<typeof Call.Type & { readonly id: string }>

const assistant = (answer: typeof Answer.Type, calls: Calls): JsonObject => {
  const { content, reasoning, refusal } = answer
  const isSilent = (content === null || content === "absent") && typeof refusal !== "string"
  return withExtras(
    {
      role: "assistant",
      ...(calls.length === 0 && isSilent
        ? { content: "Well." }
        : content === "absent"
          ? undefined
          : { content: content === null || typeof content === "string" ? content : content.map(text) }),
      ...(refusal === undefined ? undefined : { refusal }),
      ...(reasoning === undefined ? undefined : { [reasoning.field]: reasoning.text }),
      ...(calls.length === 0
        ? undefined
        : {
            tool_calls: calls.map((call) =>
              withExtras(
                { id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } },
                call.extras
              )
            )
          })
    },
    answer.extras
  )
}

export const openaiForeign: Arbitrary.Arbitrary<ReadonlyArray<JsonObject>> = Arbitrary.map(
  Arbitrary.schema(History),
  messages
)
