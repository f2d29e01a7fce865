import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { defaults } from "../../Limits.ts"
import { plainCopy } from "./plain.ts"
import { isArray, isObject } from "./values.ts"

/** The array or object that a text is the JSON of, as models sometimes send them. */
export const parseContainer = (text: string): Schema.Json | undefined => {
  const start = /^\s*([[{])/.exec(text)?.[1]
  if (start === undefined || text.length > defaults.maxStringLength) return undefined
  const parsed = Result.try((): unknown => JSON.parse(text))
  if (Result.isFailure(parsed)) return undefined
  const plain = plainCopy(parsed.success, defaults)
  if ("_tag" in plain) return undefined
  return isArray(plain.value) || isObject(plain.value) ? plain.value : undefined
}
