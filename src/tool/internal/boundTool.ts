import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import type { BoundTool } from "../BoundTool.ts"
import type { ToolContract, ToolContractError } from "../ToolContract.ts"

export const fromTool = (
  _tool: Tool.Any,
  _handler: Tool.Handler<string>
): Effect.Effect<BoundTool, ToolContractError> => Effect.die("not yet")

export const provider = (_tool: Tool.Any): Effect.Effect<BoundTool, ToolContractError> => Effect.die("not yet")

export const shell = (_contract: ToolContract): Effect.Effect<BoundTool, ToolContractError> => Effect.die("not yet")
