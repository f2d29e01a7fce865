import * as Result from "effect/Result"
import type { JsonObject } from "../../Json.ts"
import type { Limits } from "../../Limits.ts"
import type { Refusal } from "./compile.ts"
import { toPointer } from "./location.ts"
import { plainCopy } from "./plain.ts"
import { describe, isObject } from "./values.ts"

/** Schemas are compiled recursively: deeper documents are refused whatever the limits say. */
const deepestDocument = 256

/** Limits and key rules for a schema document; gives a copy. */
export const guard = (json: unknown, limits: Limits): Result.Result<JsonObject, Refusal> => {
  const plain = plainCopy(json, { ...limits, maxDepth: Math.min(limits.maxDepth, deepestDocument) })
  if ("_tag" in plain) {
    const path = toPointer(plain.at)
    switch (plain._tag) {
      case "NotJson":
        return Result.fail({ path, reason: { _tag: "NotASchema", expected: "plain JSON", found: plain.found } })
      case "ForbiddenKey":
        return Result.fail({ path, reason: { _tag: "ForbiddenKey", key: plain.key } })
      case "TooDeep":
        return Result.fail({ path, reason: { _tag: "TooDeep", limit: plain.limit } })
      case "TooLarge":
        return Result.fail({
          path,
          reason: { _tag: "TooLarge", what: plain.what, limit: plain.limit, found: plain.found }
        })
    }
  }
  return isObject(plain.value)
    ? Result.succeed(plain.value)
    : Result.fail({ path: "", reason: { _tag: "NotASchema", expected: "an object", found: describe(plain.value) } })
}
