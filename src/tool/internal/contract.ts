import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Tool from "effect/ai/Tool"
import type { JsonObject } from "../../payload/Json.ts"
import type { Annotations, Approval, ToolContract, ToolContractError } from "../ToolContract.ts"

export const make = (_options: {
  readonly name: string
  readonly description?: string | undefined
  readonly parameters: JsonObject
  readonly success?: JsonObject | undefined
  readonly failure?: JsonObject | undefined
  readonly timeout?: Duration.Input | undefined
  readonly approval?: Approval | undefined
  readonly annotations?: Annotations | undefined
}): Effect.Effect<ToolContract, ToolContractError> => Effect.die("not yet")

export const fromTool = (_tool: Tool.Any): Effect.Effect<ToolContract, ToolContractError> => Effect.die("not yet")
