import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { JsonObject } from "../../payload/Json.ts"
import type { Message } from "../Message.ts"
import * as json from "./json.ts"

/** What our model has no field for, so that a message goes out as it came in. */
const Note = Schema.Struct({
  /** How the content was written, where there are two ways. */
  form: Schema.optionalKey(Schema.Literals(["text", "blocks"])),
  /** From what we would write to what was read. */
  delta: Schema.optionalKey(Schema.Json),
  /** The same for the message around the blocks, where it became several messages. */
  outer: Schema.optionalKey(Schema.Json),
  /** The same for the document around the messages; noted at the first message. */
  top: Schema.optionalKey(Schema.Json),
  /** Whether a user message stood in one message with the results before it. */
  joined: Schema.optionalKey(Schema.Literal(true)),
  /** Where a result stood among the results of its batch, if not in call order. */
  place: Schema.optionalKey(Schema.Int)
})

export type Note = typeof Note.Type

export type Form = Note["form"]

export type Format = "openai" | "anthropic"

/** The key of the metadata that holds the note. */
const keys: { readonly [F in Format]: string } = {
  openai: "effect-emissary/openai",
  anthropic: "effect-emissary/anthropic"
}

const decode = Schema.decodeUnknownOption(Note)

const none: Note = {}

export const noteOf = (format: Format, { metadata }: Message): Note =>
  metadata !== undefined && Object.hasOwn(metadata, keys[format])
    ? Option.getOrElse(decode(metadata[keys[format]]), () => none)
    : none

type Entries = { readonly [K in keyof Note]: Note[K] | undefined }

/** The metadata that holds the note, if it says anything. */
export const metadata = (format: Format, note: Entries): { readonly metadata?: JsonObject } => {
  const entries = Object.entries(note).flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const]))
  return entries.length === 0 ? {} : { metadata: { [keys[format]]: Object.fromEntries(entries) } }
}

/**
 * What leads from one JSON value to another, `undefined` if nothing does: the
 * order of keys counts.
 */
export const diff = (from: Schema.Json, to: Schema.Json): JsonObject | undefined => {
  if (json.isObject(from) && json.isObject(to)) return diffObjects(from, to)
  if (Array.isArray(from) && Array.isArray(to) && from.length === to.length) {
    const items = to.flatMap((item: Schema.Json, index) => {
      const inner = diff(from[index], item)
      return inner === undefined ? [] : [[String(index), inner] as const]
    })
    return items.length === 0 ? undefined : { items: Object.fromEntries(items) }
  }
  return from === to ? undefined : { value: to }
}

const diffObjects = (from: JsonObject, to: JsonObject): JsonObject | undefined => {
  const keys = Object.keys(to)
  const add: Array<readonly [string, Schema.Json]> = []
  const inner: Array<readonly [string, Schema.Json]> = []
  for (const [key, value] of Object.entries(to)) {
    const old = Object.hasOwn(from, key) ? from[key] : undefined
    const change = old === undefined ? undefined : diff(old, value)
    if (old === undefined) add.push([key, value])
    else if (change !== undefined) inner.push([key, change])
  }
  const isInOrder = JSON.stringify(keys) === JSON.stringify(Object.keys(from))
  if (isInOrder && inner.length === 0) return undefined
  return {
    ...(isInOrder ? undefined : { keys }),
    ...(add.length === 0 ? undefined : { add: Object.fromEntries(add) }),
    ...(inner.length === 0 ? undefined : { inner: Object.fromEntries(inner) })
  }
}

/** Applies a difference. One that does not fit, in whole or in part, changes nothing there. */
export const patch = (from: Schema.Json, delta: Schema.Json | undefined): Schema.Json => {
  if (!json.isObject(delta)) return from
  if (Object.hasOwn(delta, "value")) return delta["value"] ?? null
  if (json.isObject(from)) return patchObject(from, delta)
  const items = delta["items"]
  return Array.isArray(from) && json.isObject(items)
    ? from.map((item: Schema.Json, index) => patch(item, own(items, String(index))))
    : from
}

const patchObject = (from: JsonObject, { add, inner, keys }: JsonObject): JsonObject => {
  const order = Array.isArray(keys) ? keys.filter((key) => typeof key === "string") : Object.keys(from)
  return Object.fromEntries(
    order.flatMap((key) => {
      const added = json.isObject(add) ? own(add, key) : undefined
      if (added !== undefined) return [[key, added] as const]
      const old = own(from, key)
      if (old === undefined) return []
      return [[key, json.isObject(inner) ? patch(old, own(inner, key)) : old] as const]
    })
  )
}

export const own = (object: JsonObject, key: string): Schema.Json | undefined =>
  Object.hasOwn(object, key) ? object[key] : undefined

/** One provider's options of a part or message, if they are an object. */
export const optionsOf = (format: Format, self: { readonly options?: JsonObject }): JsonObject | undefined => {
  const options = self.options === undefined ? undefined : own(self.options, format)
  return json.isObject(options) ? options : undefined
}

/** Provider options that hold something. */
export const options = (
  format: Format,
  given: { readonly [key: string]: Schema.Json | undefined }
): { readonly options?: JsonObject } => {
  const entries = Object.entries(given).flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const]))
  return entries.length === 0 ? {} : { options: { [format]: Object.fromEntries(entries) } }
}

/** Whether results did not stand in call order. */
export const areMoved = (calls: ReadonlyArray<string>, results: ReadonlyArray<string>): boolean => {
  const positions = results.map((id) => calls.indexOf(id))
  return positions.some((position, index) => index > 0 && position < (positions[index - 1] ?? 0))
}

/** Results as they stood when they were read. */
export const inPlace = <A extends { readonly message: Message }>(
  format: Format,
  results: ReadonlyArray<A>
): ReadonlyArray<A> => {
  const noted = results.map((result) => ({ result, place: noteOf(format, result.message).place }))
  return noted.every(({ place }) => place !== undefined)
    ? noted.toSorted((a, b) => (a.place ?? 0) - (b.place ?? 0)).map(({ result }) => result)
    : results
}
