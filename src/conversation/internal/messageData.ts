/**
 * Frozen copies of messages, the JSON of call arguments and results as it arrives from models, and characters of text.
 */

import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Limits from "../../payload/Limits.ts"
import { isObject } from "../../payload/internal/plainJson.ts"

// Messages copied and frozen here. They can be shared by any number of conversations.
const frozen = new WeakSet<object>()

/**
 * The message itself if it came from here, otherwise a frozen deep copy: whatever
 * happens later to the object that was passed in, the conversation does not change.
 */
export const freeze = <M extends object>(self: M): M => {
  if (frozen.has(self)) return self
  const copied = copyFrozen(self)
  frozen.add(copied)
  return copied
}

type Container = Record<string, unknown> | Array<unknown>

const isContainer = (value: unknown): value is Container => {
  if (typeof value !== "object" || value === null) return false
  if (Array.isArray(value)) return true
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

// Iterative, because the JSON in a tool result may be nested deeper than the stack.
const copyFrozen = <A>(self: A): A => {
  if (!isContainer(self)) return self
  const froms: Array<Container> = [self]
  const copies: Array<Container> = [Array.isArray(self) ? [] : {}]
  const copyOf = (value: unknown): unknown => {
    if (!isContainer(value)) return value
    const inner: Container = Array.isArray(value) ? [] : {}
    froms.push(value)
    copies.push(inner)
    return inner
  }
  for (let next = 0; next < froms.length; next++) {
    const from = froms[next]
    const to = copies[next]
    if (from === undefined || to === undefined) continue
    if (Array.isArray(from)) {
      if (Array.isArray(to)) for (const item of from) to.push(copyOf(item))
    } else if (!Array.isArray(to)) {
      copyFields(from, to, copyOf)
    }
  }
  for (const container of copies) Object.freeze(container)
  // The first copy has the own enumerable data of `self`, key by key, so it has its type
  return copies[0] as A
}

const copyFields = (
  from: Record<string, unknown>,
  to: Record<string, unknown>,
  copyOf: (value: unknown) => unknown
): void => {
  for (const key of Object.keys(from)) {
    const value = copyOf(from[key])
    // Assigning to "__proto__" would set the prototype
    if (key === "__proto__") Object.defineProperty(to, key, { value, enumerable: true })
    else to[key] = value
  }
}

export const toJson: (input: unknown) => Option.Option<Schema.Json> = Schema.decodeUnknownOption(Schema.Json)

interface CallArguments {
  readonly arguments: Schema.Json
  readonly text?: string
}

/** Arguments as they arrive: an object, text, or nothing. `None` where they are not JSON. */
export const callArguments = (params: unknown): Option.Option<CallArguments> => {
  if (params === undefined) return Option.some({ arguments: {} })
  if (typeof params === "string") return Option.some(parseCallArguments(params))
  return Option.flatMap(toJson(params), (json) =>
    isStorable(json) ? Option.some({ arguments: json }) : Option.map(stringifyJson(json), textArguments)
  )
}

export const parseCallArguments = (text: string): CallArguments => {
  if (text.trim() === "") return { arguments: {}, text }
  return Result.match(
    Result.try((): Schema.Json => JSON.parse(text)),
    {
      onFailure: () => textArguments(text),
      onSuccess: (json) => (isStorable(json) ? { arguments: json, text } : textArguments(text))
    }
  )
}

/** The result of a tool that the provider ran; a value that cannot be stored becomes its JSON text. */
export const resultValue = (value: unknown): Option.Option<Schema.Json> =>
  value === undefined
    ? Option.some(null)
    : Option.flatMap(toJson(value), (json) => (isStorable(json) ? Option.some(json) : stringifyJson(json)))

/** `None` where the value is nested deeper than the stack. */
export const stringifyJson = (json: Schema.Json): Option.Option<string> =>
  Result.getSuccess(Result.try(() => JSON.stringify(json)))

const textArguments = (text: string): CallArguments => ({ arguments: text, text })

/** The position, or the one before it where it is inside of a character. */
export const characterBoundary = (text: string, index: number): number => {
  const code = text.charCodeAt(index)
  return code >= 0xdc00 && code < 0xe000 ? index - 1 : index
}

// The rest is for the JSON around it: messages, events, events of children
const maxDepth = Limits.defaults.maxDepth / 2

/**
 * Tests that codecs accept the value. A model must not be able to write a value that
 * keeps a run from being stored: such arguments stay text, and the tool's validation
 * rejects them.
 */
const isStorable = (json: Schema.Json): boolean => {
  const pending: Array<readonly [json: Schema.Json, depth: number]> = [[json, 1]]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const [value, depth] = next
    if (typeof value !== "object" || value === null) continue
    if (depth > maxDepth || hasForbiddenKey(value)) return false
    for (const member of Object.values(value)) pending.push([member, depth + 1])
  }
  return true
}

const hasForbiddenKey = (value: object): boolean => {
  if (Object.hasOwn(value, "__proto__")) return true
  const inner = isObject(value) && Object.hasOwn(value, "constructor") ? value["constructor"] : undefined
  return isObject(inner) && Object.hasOwn(inner, "prototype")
}
