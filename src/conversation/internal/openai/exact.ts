import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { JsonObject } from "../../../payload/Json.ts"
import * as foreign from "../foreign.ts"
import * as json from "../json.ts"
import type { Said } from "../received.ts"
import { read } from "./read.ts"
import * as wire from "./wire.ts"
import { call, write } from "./write.ts"

/** The message as it was received, without what OpenAI refuses. */
const lawful = (raw: JsonObject, said: Said): JsonObject => {
  const calls = said.role === "assistant" ? said.content.filter((part) => part.type === "tool-call") : []
  return Object.fromEntries(
    Object.entries(raw).flatMap(([key, value]) => {
      switch (key) {
        case "content":
          return [[key, lawfulContent(value)] as const]
        case "function_call":
          return []
        case "tool_calls": {
          if (calls.length === 0 || !Array.isArray(value)) return []
          return [[key, calls.map((part, index) => (isLawfulCall(value[index]) ? value[index] : call(part)))] as const]
        }
        default:
          return [[key, value] as const]
      }
    })
  )
}

const lawfulContent = (content: Schema.Json): Schema.Json => {
  if (!Array.isArray(content)) return content
  const said = content.filter((part) => !json.isObject(part) || part["type"] !== "text" || part["text"] !== "")
  return said.length === 0 ? null : said
}

const isLawfulCall = (value: Schema.Json | undefined): boolean =>
  json.isObject(value) &&
  value["type"] === "function" &&
  json.isObject(value["function"]) &&
  typeof value["function"]["arguments"] === "string"

/** What has to be noted of a message so that it goes out as it came in. */
export const noteOf = (raw: JsonObject, said: Said, form: foreign.Form): foreign.Note => {
  const delta = foreign.diff(write(said, form), lawful(raw, said))
  return {
    ...(form === undefined ? undefined : { form }),
    ...(delta === undefined ? undefined : { delta })
  }
}

const decode = Schema.decodeUnknownOption(wire.Message)

/** Writes a message as it came in, provided that this says the same and is lawful. */
export const exact = (said: Said, note: foreign.Note): JsonObject => {
  const canonical = write(said, note.form)
  if (note.delta === undefined) return canonical
  const patched = foreign.patch(canonical, note.delta)
  if (!json.isObject(patched)) return canonical
  return Option.match(decode(patched), {
    onNone: () => canonical,
    onSome: (message) => {
      const back = read(message).said
      return Equal.equals(write(back, note.form), canonical) && Equal.equals(lawful(patched, back), patched)
        ? patched
        : canonical
    }
  })
}
