import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { ToolCallPart } from "../Part.ts"

export const fromUnknown: (input: unknown) => Option.Option<Schema.Json> = Schema.decodeUnknownOption(Schema.Json)

export const isObject = (json: unknown): json is Readonly<Record<string, Schema.Json>> =>
  typeof json === "object" && json !== null && !Array.isArray(json)

type Arguments = Pick<ToolCallPart, "arguments" | "text">

/** Arguments as they arrive: an object, text, or nothing. `None` where they are not JSON. */
export const fromArguments = (params: unknown): Option.Option<Arguments> => {
  if (params === undefined) return Option.some({ arguments: {} })
  if (typeof params === "string") return Option.some(parseArguments(params))
  return Option.map(fromUnknown(params), (json) =>
    hasForbiddenKey(json) ? asText(JSON.stringify(json)) : { arguments: json }
  )
}

export const parseArguments = (text: string): Arguments => {
  if (text.trim() === "") return { arguments: {}, text }
  return Result.match(
    Result.try((): Schema.Json => JSON.parse(text)),
    {
      onFailure: () => asText(text),
      onSuccess: (json) => (hasForbiddenKey(json) ? asText(text) : { arguments: json, text })
    }
  )
}

const asText = (text: string): Arguments => ({ arguments: text, text })

// A model must not be able to write what no codec accepts: such arguments stay
// text, and the tool's validation refuses them.
const hasForbiddenKey = (json: Schema.Json): boolean => {
  const pending: Array<Schema.Json> = [json]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (typeof next !== "object" || next === null) continue
    if (Object.hasOwn(next, "__proto__")) return true
    if (isObject(next)) {
      const inner = Object.hasOwn(next, "constructor") ? next["constructor"] : undefined
      if (isObject(inner) && Object.hasOwn(inner, "prototype")) return true
    }
    pending.push(...Object.values(next))
  }
  return false
}
