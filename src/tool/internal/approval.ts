import type * as Tool from "effect/ai/Tool"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { JsonObject } from "../../payload/Json.ts"
import type { ApprovalContext } from "../BoundTool.ts"
import type { ToolContract } from "../ToolContract.ts"
import * as ToolResult from "../ToolResult.ts"
import * as body from "./body.ts"
import * as defect from "./defect.ts"

type NeedsApproval = (args: JsonObject, context: ApprovalContext) => Effect.Effect<boolean, ToolResult.Failure>

/** The stricter of what the contract says and what the tool says. */
export const make = (contract: ToolContract, tool: Tool.Any, captured: Context.Context<never>): NeedsApproval => {
  if (contract.approval === "always" || tool.needsApproval === true) return () => Effect.succeed(true)
  const ask = tool.needsApproval
  // the contract leaves the decision to code that is not here
  if (typeof ask !== "function") return () => Effect.succeed(contract.approval === "dynamic")
  const decode = body.decoder(tool)
  return (args, context) =>
    Effect.flatMap(decode(args), (decoded) =>
      Effect.suspend(() => {
        const answer = ask(decoded, { toolCallId: context.callId, messages: context.messages })
        return typeof answer === "boolean" ? Effect.succeed(answer) : answer
      })
    ).pipe(
      Effect.catchDefect((error) =>
        Effect.fail(
          ToolResult.failure(
            "unhandled_error",
            `Error deciding whether the call needs approval: ${defect.describe(error)}`
          )
        )
      ),
      body.provide(captured, context.context)
    )
}
