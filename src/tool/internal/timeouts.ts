import * as Duration from "effect/Duration"
import * as ToolResult from "../ToolResult.ts"

/** The result of a call that took too long, the same wherever the clock ran. */
export const result = (timeout: Duration.Duration): ToolResult.Failure => {
  const seconds = Duration.toSeconds(timeout)
  return ToolResult.failure(
    "timeout_error",
    `Tool execution timed out after ${seconds} ${seconds === 1 ? "second" : "seconds"}`
  )
}
