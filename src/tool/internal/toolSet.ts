import * as Effect from "effect/Effect"
import type { BoundTool } from "../BoundTool.ts"
import type { ToolNameError, ToolSet } from "../ToolSet.ts"

export const make = (_tools: Iterable<BoundTool>): Effect.Effect<ToolSet, ToolNameError> => Effect.die("not yet")
