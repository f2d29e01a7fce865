import * as Schema from "effect/Schema"

// Keys that are not declared are kept as they are, see ../foreign.ts

const optionalText = Schema.optionalKey(Schema.NullOr(Schema.String))

const Text = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String })

const Refusal = Schema.Struct({ type: Schema.Literal("refusal"), refusal: Schema.String })

const Image = Schema.Struct({
  type: Schema.Literal("image_url"),
  image_url: Schema.Struct({ url: Schema.String, detail: Schema.optionalKey(Schema.String) })
})

const Audio = Schema.Struct({
  type: Schema.Literal("input_audio"),
  input_audio: Schema.Struct({ data: Schema.String, format: Schema.Literals(["wav", "mp3"]) })
})

const filename = Schema.optionalKey(Schema.String)

const File = Schema.Struct({
  type: Schema.Literal("file"),
  file: Schema.Union([
    Schema.Struct({ file_data: Schema.String, filename }),
    Schema.Struct({ file_id: Schema.String, filename })
  ])
})

const Part = Schema.Union([Text, Image, Audio, File])

export type Part = typeof Part.Type

const NativeCall = Schema.Struct({
  id: Schema.String,
  type: Schema.optionalKey(Schema.Literal("function")),
  function: Schema.Struct({ name: Schema.String, arguments: Schema.optionalKey(Schema.Json) })
})

const FlatCall = Schema.Struct({
  id: Schema.String,
  type: Schema.optionalKey(Schema.Literal("function")),
  name: Schema.String,
  arguments: Schema.optionalKey(Schema.Json)
})

const Call = Schema.Union([NativeCall, FlatCall])

export type Call = typeof Call.Type

const instructions = Schema.Union([Schema.String, Schema.NonEmptyArray(Text)])

// Two structs, because a union tells its members apart by single literals
const System = Schema.Struct({ role: Schema.Literal("system"), content: instructions })

const Developer = Schema.Struct({ role: Schema.Literal("developer"), content: instructions })

const User = Schema.Struct({
  role: Schema.Literal("user"),
  content: Schema.Union([Schema.String, Schema.Array(Part)])
})

const Assistant = Schema.Struct({
  role: Schema.Literal("assistant"),
  content: Schema.optionalKey(Schema.Union([Schema.Null, Schema.String, Schema.Array(Schema.Union([Text, Refusal]))])),
  refusal: optionalText,
  reasoning_content: optionalText,
  reasoning: optionalText,
  tool_calls: Schema.optionalKey(Schema.NullOr(Schema.Array(Call))),
  // The older form of tool calls has no ids, so that results cannot be paired
  function_call: Schema.optionalKey(Schema.Null)
})

export type Assistant = typeof Assistant.Type

const Tool = Schema.Struct({
  role: Schema.Literal("tool"),
  tool_call_id: Schema.String,
  name: Schema.optionalKey(Schema.String),
  content: Schema.Union([Schema.String, Schema.Array(Part)])
})

export const Message = Schema.Union([System, Developer, User, Assistant, Tool])

export type Message = typeof Message.Type

export const Messages = Schema.Array(Message)
