/** A tool as a step: checked, approved where it needs that, and executed by the `ToolRuntime`. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { isObject, type JsonObject } from "../../../payload/Json.ts"
import * as BoundCall from "../../../tool/BoundCall.ts"
import * as ToolBatch from "../../../tool/ToolBatch.ts"
import type * as ToolResult from "../../../tool/ToolResult.ts"
import type { BoundToolTarget, ToolArguments } from "../live.ts"
import { type Attempt, failed, succeeded } from "./attempt.ts"
import type { Delivery } from "./reference.ts"
import type { Run } from "./run.ts"

/** Context that has no parameter of its own comes before the task. */
const joined = ({ context, task }: Delivery): string => [context ?? "", task].filter((part) => part !== "").join("\n\n")

/** The arguments of a call; nothing when the payload has to be them, and is no object. */
const argumentsOf = (how: ToolArguments, delivery: Delivery): JsonObject | undefined => {
  if (how._tag === "Payload") {
    if (!isObject(delivery.payload)) return undefined
    return how.context === undefined || delivery.context === undefined
      ? delivery.payload
      : { ...delivery.payload, [how.context]: delivery.context }
  }
  if (how.context === undefined) return { [how.task]: joined(delivery) }
  return {
    [how.task]: delivery.task,
    ...(delivery.context === undefined ? undefined : { [how.context]: delivery.context })
  }
}

const retryable = new Set(["timeout_error", "remote_unavailable"])

const ofFailure = ({ message, type }: ToolResult.Failure): Attempt =>
  failed(type, message, { retryable: retryable.has(type) })

const ofResult = (result: ToolResult.ToolResult): Attempt =>
  result._tag === "Success" ? succeeded(result.value) : ofFailure(result)

/** Runs a tool. `approved` says that somebody has allowed the call. */
export const run = Effect.fnUntraced(function* (
  { bound, level, options, recorder }: Run,
  target: BoundToolTarget,
  delivery: Delivery,
  approved: boolean
): Effect.fn.Return<Attempt> {
  const { step } = delivery
  const state = recorder.state()
  const args = argumentsOf(target.arguments, delivery)
  if (args === undefined) {
    return failed(
      "InputInvalid",
      `expected an object, the arguments of the tool ${JSON.stringify(target.name)}, as the payload that the task refers to`
    )
  }
  const request = { id: `${step}:${state.iterations}`, name: target.name, arguments: args }
  const prepared = yield* BoundCall.prepare(bound.tools, request, {
    runId: state.runId,
    context: state.context,
    timeout: options.timeouts?.tool,
    deadline: level.deadline
  })
  if (Result.isFailure(prepared)) return ofFailure(prepared.failure)
  const call = prepared.success
  const tool = bound.tools.tools.get(target.name)
  if (!approved && tool !== undefined) {
    const about = { callId: step, context: state.context, messages: [] }
    const needed = yield* Effect.result(tool.needsApproval(call.arguments, about))
    if (Result.isFailure(needed)) return ofFailure(needed.failure)
    if (needed.success) return { _tag: "Paused", request: { name: target.name, arguments: call.arguments } }
  }
  const [result] = yield* ToolBatch.collect([call])
  return result === undefined ? yield* Effect.die(new Error("a call without a result")) : ofResult(result)
})
