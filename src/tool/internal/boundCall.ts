import * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import type { BoundCall, PrepareOptions, Request } from "../BoundCall.ts"
import type * as ToolResult from "../ToolResult.ts"
import type { ToolSet } from "../ToolSet.ts"

export const prepare = (
  _set: ToolSet,
  _request: Request,
  _options: PrepareOptions
): Effect.Effect<Result.Result<BoundCall, ToolResult.Failure>> => Effect.die("not yet")
