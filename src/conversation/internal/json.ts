import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { defaults } from "../../payload/Limits.ts"

export const fromUnknown: (input: unknown) => Option.Option<Schema.Json> = Schema.decodeUnknownOption(Schema.Json)

export const isObject = (json: unknown): json is Readonly<Record<string, Schema.Json>> =>
  typeof json === "object" && json !== null && !Array.isArray(json)

interface Arguments {
  readonly arguments: Schema.Json
  readonly text?: string
}

/** Arguments as they arrive: an object, text, or nothing. `None` where they are not JSON. */
export const fromArguments = (params: unknown): Option.Option<Arguments> => {
  if (params === undefined) return Option.some({ arguments: {} })
  if (typeof params === "string") return Option.some(parseArguments(params))
  return Option.flatMap(fromUnknown(params), (json) =>
    isStorable(json) ? Option.some({ arguments: json }) : Option.map(stringify(json), asText)
  )
}

export const parseArguments = (text: string): Arguments => {
  if (text.trim() === "") return { arguments: {}, text }
  return Result.match(
    Result.try((): Schema.Json => JSON.parse(text)),
    {
      onFailure: () => asText(text),
      onSuccess: (json) => (isStorable(json) ? { arguments: json, text } : asText(text))
    }
  )
}

/** The result of a tool that the provider ran; what cannot be stored becomes its JSON text. */
export const fromResult = (value: unknown): Option.Option<Schema.Json> =>
  value === undefined
    ? Option.some(null)
    : Option.flatMap(fromUnknown(value), (json) => (isStorable(json) ? Option.some(json) : stringify(json)))

/** `None` where the value is nested deeper than the stack. */
export const stringify = (json: Schema.Json): Option.Option<string> =>
  Result.getSuccess(Result.try(() => JSON.stringify(json)))

const asText = (text: string): Arguments => ({ arguments: text, text })

// The rest is for what stands around: messages, events, events of children
const maxDepth = defaults.maxDepth / 2

/**
 * Whether codecs accept the value. A model must not be able to write what stops a
 * run from being stored: such arguments stay text, and the tool's validation
 * refuses them.
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
