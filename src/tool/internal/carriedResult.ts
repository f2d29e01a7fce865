/**
 * A failure result on its way through a handler that can only fail with its
 * tool's own failure, or with an `AiError`.
 *
 * A handler that gets its results from somewhere else (a server) fails with
 * `carry(result)`. Core's own resolution sees an `AiError`; ours looks for the
 * result with `carried` and gives it on unchanged.
 */
import * as AiError from "effect/ai/AiError"
import type { Failure } from "../ToolResult.ts"

const results = new WeakMap<object, Failure>()

/** The error that stands for a result. */
export const carry = (tool: string, result: Failure): AiError.AiError => {
  const error = AiError.make({
    module: "RemoteTools",
    method: `${tool}.handle`,
    reason: new AiError.UnknownError({ description: `${result.type}: ${result.message}` })
  })
  results.set(error, result)
  return error
}

/** The result that an error stands for, if it does. */
export const carried = (error: unknown): Failure | undefined =>
  typeof error === "object" && error !== null ? results.get(error) : undefined
