import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { JsonObject } from "../../../payload/Json.ts"
import * as foreign from "../foreign.ts"
import * as json from "../json.ts"
import type { Said } from "../received.ts"
import * as read from "./read.ts"
import * as wire from "./wire.ts"
import { isBlank, write } from "./write.ts"

/** Content as it was received, without what Anthropic refuses. */
const lawful = (raw: Schema.Json, said: Said): Schema.Json => {
  if (said.role === "tool") return json.isObject(raw) ? lawfulResult(raw, said) : raw
  if (!Array.isArray(raw)) return raw
  return lawfulBlocks(raw).map((block: Schema.Json) => {
    if (!json.isObject(block) || !isUse(block) || json.isObject(foreign.own(block, "input"))) return block
    const part = said.role === "assistant" ? said.content.find((part) => isCallOf(part, block["id"])) : undefined
    return part?.type === "tool-call" ? { ...block, input: part.arguments } : block
  })
}

const isUse = ({ type }: JsonObject): boolean =>
  type === "tool_use" || (typeof type === "string" && wire.serverCalls.includes(type))

const isCallOf = (part: { readonly type: string; readonly id?: string }, id: Schema.Json | undefined): boolean =>
  part.type === "tool-call" && part.id === id

const lawfulBlocks = (blocks: ReadonlyArray<Schema.Json>): ReadonlyArray<Schema.Json> =>
  blocks.filter(
    (block) =>
      !json.isObject(block) || block["type"] !== "text" || typeof block["text"] !== "string" || !isBlank(block["text"])
  )

const lawfulResult = (raw: JsonObject, said: Said): JsonObject => {
  const content = foreign.own(raw, "content")
  const blocks = Array.isArray(content) ? lawfulBlocks(content) : undefined
  const isEmpty = blocks === undefined ? typeof content === "string" && isBlank(content) : blocks.length === 0
  if (!isEmpty) return blocks === undefined ? raw : { ...raw, content: blocks }
  const canonical = write(said, undefined)
  const replaced = json.isObject(canonical) ? foreign.own(canonical, "content") : undefined
  return Object.fromEntries(
    Object.entries(raw).flatMap(([key, value]) => {
      if (key !== "content") return [[key, value] as const]
      if (replaced !== undefined) return [[key, replaced] as const]
      return content === "" ? [[key, value] as const] : []
    })
  )
}

/** What has to be noted of content, or of the block of a result, so that it goes out as it came in. */
export const noteOf = (raw: Schema.Json, said: Said, form: foreign.Form): foreign.Note => {
  const delta = foreign.diff(write(said, form), lawful(raw, said))
  return {
    ...(form === undefined ? undefined : { form }),
    ...(delta === undefined ? undefined : { delta })
  }
}

const reader = <T>(schema: Schema.Decoder<T>, read: (value: T) => Said) => {
  const decode = Schema.decodeUnknownOption(schema)
  return (raw: Schema.Json): Option.Option<Said> => Option.map(decode(raw), read)
}

const readers: { readonly [Role in Said["role"]]: (raw: Schema.Json) => Option.Option<Said> } = {
  system: reader(wire.System, read.system),
  user: reader(wire.UserContent, read.user),
  assistant: reader(wire.AssistantContent, read.assistant),
  tool: reader(wire.ToolResult, read.toolResult)
}

/** Writes content as it came in, provided that this says the same and is lawful. */
export const exact = (said: Said, note: foreign.Note): Schema.Json => {
  const canonical = write(said, note.form)
  if (note.delta === undefined) return canonical
  const patched = foreign.patch(canonical, note.delta)
  const back = Option.getOrUndefined(readers[said.role](patched))
  return back !== undefined &&
    Equal.equals(write(back, note.form), canonical) &&
    Equal.equals(lawful(patched, back), patched)
    ? patched
    : canonical
}
