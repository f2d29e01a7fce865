import { Arbitrary, Schema } from "effect"
import { extras, type Json, list, Order, Said, shuffled } from "./foreign-json.ts"

/** Lists of items of the Responses API as other programs keep them: lawful, and written in every way there is. */

const Text = Schema.Struct({ type: Schema.Literal("input_text"), text: Said, ...extras })

const Image = Schema.Struct({
  type: Schema.Literal("input_image"),
  detail: Schema.optionalKey(Schema.Literals(["low", "auto"])),
  ...extras
})

const Part = Schema.Union([
  Text,
  Schema.Struct({
    ...Image.fields,
    image_url: Schema.Literals(["data:image/png;base64,AQID", "https://example.com/a"])
  }),
  Schema.Struct({ ...Image.fields, file_id: Schema.Literal("file-1"), image_url: Schema.optionalKey(Schema.Null) }),
  Schema.Struct({
    type: Schema.Literal("input_file"),
    filename: Schema.optionalKey(Said),
    file_data: Schema.Literal("data:application/pdf;base64,AQID"),
    ...extras
  }),
  Schema.Struct({
    type: Schema.Literal("input_file"),
    file_url: Schema.Literal("https://example.com/a.pdf"),
    ...extras
  }),
  Schema.Struct({ type: Schema.Literal("input_file"), file_id: Schema.Literal("file-1"), ...extras })
])

const type = Schema.optionalKey(Schema.Literal("message"))

const status = Schema.optionalKey(Schema.Literals(["completed", "incomplete"]))

const System = Schema.Struct({
  type,
  role: Schema.Literals(["system", "developer"]),
  content: Schema.Union([Said, list(Text, 2, 1)]),
  ...extras
})

const Tools = Schema.Struct({
  type: Schema.Literal("additional_tools"),
  role: Schema.Literal("developer"),
  tools: list(Schema.Struct({ type: Schema.Literal("function"), name: Said }), 2)
})

const User = Schema.Struct({
  type,
  role: Schema.Literal("user"),
  content: Schema.Union([Said, list(Part, 3, 1)]),
  ...extras
})

const id = Schema.optionalKey(Schema.Literals(["item_1", "item_2"]))

const Message = Schema.Struct({
  type,
  role: Schema.Literal("assistant"),
  id,
  status,
  phase: Schema.optionalKey(Schema.NullOr(Schema.Literals(["commentary", "final_answer"]))),
  content: Schema.Union([
    Said,
    list(
      Schema.Union([
        Schema.Struct({ type: Schema.Literal("output_text"), text: Said, ...extras }),
        Schema.Struct({ type: Schema.Literal("refusal"), refusal: Said })
      ]),
      2,
      1
    )
  ]),
  ...extras
})

const Reasoning = Schema.Struct({
  type: Schema.Literal("reasoning"),
  id: Schema.Literals(["rs_1", "rs_2"]),
  summary: list(Schema.Struct({ type: Schema.Literal("summary_text"), text: Schema.String, ...extras }), 3),
  encrypted_content: Schema.optionalKey(Schema.NullOr(Said)),
  status,
  ...extras
})

const Opaque = Schema.Struct({
  type: Schema.Literals([
    "web_search_call",
    "mcp_list_tools",
    "tool_search_output",
    "compaction",
    "computer_call_output"
  ]),
  id,
  ...extras
})

const called = { name: Schema.Literals(["f", "search"]), id, status, ...extras }

const Call = Schema.Struct({
  call: Schema.Union([
    Schema.Struct({
      type: Schema.Literal("function_call"),
      arguments: Schema.Literals(["{}", "", `{ "q" : 1 }`, `{"u":"a\\/b é"}`]),
      ...called
    }),
    Schema.Struct({ type: Schema.Literal("custom_tool_call"), input: Schema.String, ...called })
  ]),
  output: Schema.Struct({ output: Schema.Union([Schema.String, list(Part, 3, 1)]), status, ...extras })
})

const Answer = Schema.Struct({
  before: list(Schema.Union([Reasoning, Message, Opaque]), 3),
  last: Message,
  calls: list(Call, 3),
  reversed: Schema.Boolean
})

const Items = Schema.Struct({
  system: list(System, 1),
  turns: list(
    Schema.Struct({ user: User, later: list(Schema.Union([System, Tools]), 1), answers: list(Answer, 3) }),
    3
  ),
  order: Order
})

const items = ({ order, system, turns }: typeof Items.Type): Json => {
  const all: Array<Json> = [...system]
  let count = 0
  for (const { answers, later, user } of turns) {
    all.push(user, ...later)
    for (const { before, calls, last, reversed } of answers) {
      const ids = calls.map(() => `call_${count++}`)
      all.push(...before, ...(calls.length > 0 ? [] : [last]))
      all.push(...calls.map(({ call }, n): Json => ({ ...call, call_id: ids[n] ?? "" })))
      const outputs = calls.map(({ call, output }, n): Json => ({
        ...output,
        type: `${call.type}_output`,
        call_id: ids[n] ?? ""
      }))
      all.push(...(reversed ? outputs.toReversed() : outputs))
    }
  }
  return shuffled(all, order)
}

export const responsesForeign: Arbitrary.Arbitrary<Json> = Arbitrary.map(Arbitrary.schema(Items), items)
