/** The sources of arguments: where a value is found that a model has written into a call. */

import type * as Schema from "effect/Schema"
import { isArray, isObject, type JsonObject, own } from "../../payload/internal/values.ts"

/** Texts of a run, and their source. */
export interface Place {
  readonly source: string
  readonly texts: ReadonlyArray<string>
}

/** The most values that are looked for in one argument: an argument with more of them is mixed. */
const maxValues = 64

/** The texts and numbers in a value, and the keys that are not `known`. */
export const textsIn = (
  value: Schema.Json | undefined,
  known: ReadonlySet<string> = new Set()
): ReadonlyArray<string> => {
  const found: Array<string> = []
  const open: Array<Schema.Json | undefined> = [value]
  for (const one of open) {
    if (typeof one === "string") found.push(one)
    else if (typeof one === "number") found.push(String(one))
    else if (isArray(one)) for (const item of one) open.push(item)
    else if (isObject(one)) {
      for (const [key, member] of Object.entries(one)) {
        if (!known.has(key)) found.push(key)
        open.push(member)
      }
    }
  }
  return found.filter((text) => text !== "")
}

/** A letter or a digit, directly or behind one other character, as in `a@b` or `0.5`. */
const joinedBefore = /[\p{L}\p{N}_][^\s\p{L}\p{N}_]?$/u
const joinedAfter = /^[^\s\p{L}\p{N}_]?[\p{L}\p{N}_]/u

/** True for a text that another one has as words of their own: `5` is in `pay 5, please`, and not in `0.5` or in `15`. */
const standsIn = (text: string, within: string): boolean => {
  for (let at = within.indexOf(text); at !== -1; at = within.indexOf(text, at + 1)) {
    const end = at + text.length
    if (!joinedBefore.test(within.slice(Math.max(0, at - 4), at)) && !joinedAfter.test(within.slice(end, end + 4)))
      return true
  }
  return false
}

/** The sources of arguments by name, of the arguments that are there. The user comes before the context, and other places after it. */
export const sourcesOf = (
  names: Iterable<string>,
  call: { readonly arguments: JsonObject; readonly context: JsonObject; readonly parameters: JsonObject },
  places: ReadonlyArray<Place>
): JsonObject => {
  const known = new Set(textsIn(call.parameters))
  const context = new Set(textsIn(call.context))
  const ofText = (text: string): string => {
    const isUsers = places.some(({ source, texts }) => source === "user" && texts.some((one) => standsIn(text, one)))
    if (isUsers) return "user"
    if (context.has(text)) return "context"
    const isIn = ({ source, texts }: Place) => source !== "user" && texts.some((one) => one.includes(text))
    return places.find(isIn)?.source ?? "model"
  }
  const ofValue = (value: Schema.Json): string => {
    const texts = textsIn(value, known)
    if (texts.length > maxValues) return "mixed"
    const [first = "model", ...others] = new Set(texts.map(ofText))
    return others.length === 0 ? first : "mixed"
  }
  return Object.fromEntries(
    Array.from(names, (name) => [name, own(call.arguments, name)] as const).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, ofValue(value)]]
    )
  )
}
