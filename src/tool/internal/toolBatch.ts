/**
 * Runs the tool calls of one model answer on the current tool runtime.
 */

import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as ToolResult from "../ToolResult.ts"
import * as ToolRuntime from "../ToolRuntime.ts"
import * as boundCall from "./boundCall.ts"
import * as boundTool from "./boundTool.ts"

/**
 * Tests if the runtime can execute the tool.
 *
 * **When to use**
 *
 * Use before anything is sent to a model: a run would otherwise pay for calls
 * that cannot be executed.
 */
export const supportsTool = (runtime: ToolRuntime.ToolRuntime, tool: boundTool.BoundTool): boolean =>
  tool.kind !== "stub" || runtime.stubs

const interruptedFailure = ToolResult.failure("interrupted", "The run was interrupted while the tool was executing")

/** Results that come from elsewhere are judged by the contract; ours were encoded by it. */
const checkResult = (call: boundCall.BoundCall, result: ToolResult.ToolResult): ToolResult.ToolResult => {
  if (!call.runtimeOnly || call.result === undefined || result._tag === "Failure") return result
  const checked = JsonSchema.validate(call.result, result.value)
  if (Result.isSuccess(checked)) return { ...result, value: checked.success }
  return ToolResult.failure(
    "execution_error",
    `The result of tool ${JSON.stringify(call.contract.name)} does not fit its contract: ${PayloadError.render("", checked.failure)}`
  )
}

const dispatchCall = (
  runtime: ToolRuntime.ToolRuntime,
  call: boundCall.BoundCall
): Effect.Effect<ToolResult.ToolResult> =>
  Effect.suspend(() => runtime.dispatch(call)).pipe(
    Effect.tap((result) =>
      result._tag === "Failure" ? Effect.annotateCurrentSpan("error.type", result.type) : Effect.void
    ),
    Effect.withSpan(`execute_tool ${call.contract.name}`, {
      attributes: {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.contract.name,
        "gen_ai.tool.call.id": call.id
      }
    })
  )

interface EndedCall {
  readonly result: ToolResult.ToolResult
  readonly interrupted: boolean
}

/** The end of a dispatch, with or without a result. */
const settleCall = (
  call: boundCall.BoundCall,
  exit: Exit.Exit<ToolResult.ToolResult>,
  restore: <A>(effect: Effect.Effect<A>) => Effect.Effect<A>
): Effect.Effect<EndedCall> => {
  if (Exit.isSuccess(exit)) return Effect.succeed({ result: checkResult(call, exit.value), interrupted: false })
  // an interruption of this fiber is still pending in any interruptible region; one that a runtime made up is not
  return Effect.flatMap(Effect.exit(restore(Effect.void)), (probe): Effect.Effect<EndedCall> =>
    Exit.isFailure(probe)
      ? Effect.succeed({ result: interruptedFailure, interrupted: true })
      : Effect.map(boundCall.unhandledFailure(call.contract.name, exit.cause), (result) => ({
          result,
          interrupted: false
        }))
  )
}

/**
 * Observers of a batch, and its treatment of defects.
 */
export interface BatchOptions<E = never, R = never> {
  readonly onStarted?: ((callId: string) => Effect.Effect<void, E, R>) | undefined
  readonly onFinished?:
    | ((
        callId: string,
        result: ToolResult.ToolResult,
        duration: Duration.Duration,
        cause: Cause.Cause<unknown> | undefined
      ) => Effect.Effect<void, E, R>)
    | undefined
  /**
   * With `"die"` the defect of a handler is raised again after all calls of the
   * batch have ended. Default `"result"`.
   */
  readonly defects?: "result" | "die" | undefined
}

/**
 * Executes the calls through the tool runtime in use and returns the results in
 * call order.
 *
 * **Details**
 *
 * Calls start in call order, as many at once as the runtime allows. `onStarted`
 * and `onFinished` run the moment a call starts and ends, and are not cut off by
 * an interruption. One call's failure, timeout or defect loses no other's result.
 *
 * Interrupting the batch interrupts every handler and waits for its finalizers.
 * A call that had started then ends with an `interrupted` failure; one that never
 * started is not mentioned at all.
 *
 * `cause` is the origin of an unexpected failure, or of one whose text must
 * not leave the process. Each call has a span `execute_tool <name>`, without its
 * arguments.
 */
export const run = <E = never, R = never>(
  calls: ReadonlyArray<boundCall.BoundCall>,
  options?: BatchOptions<E, R>
): Effect.Effect<ReadonlyArray<ToolResult.ToolResult>, E, R> =>
  Effect.gen(function* () {
    const runtime = yield* ToolRuntime.ToolRuntime
    const results: Array<ToolResult.ToolResult> = []
    const defects = new Map<number, Cause.Cause<unknown>>()

    const one = (call: boundCall.BoundCall, index: number): Effect.Effect<void, E, R> =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const slot: boundTool.CauseSlot = { cause: undefined }
          if (options?.onStarted !== undefined) yield* options.onStarted(call.id)
          const startedAt = yield* Clock.currentTimeMillis
          const ended = yield* Effect.exit(restore(dispatchCall(runtime, call))).pipe(
            Effect.flatMap((exit) => settleCall(call, exit, restore)),
            Effect.provideService(boundTool.CallCause, slot)
          )
          const duration = Duration.millis((yield* Clock.currentTimeMillis) - startedAt)
          const cause = ended.result._tag === "Failure" ? slot.cause : undefined
          if (cause !== undefined && Cause.hasDies(cause)) defects.set(index, cause)
          results[index] = ended.result
          if (options?.onFinished !== undefined) yield* options.onFinished(call.id, ended.result, duration, cause)
          if (ended.interrupted) return yield* Effect.interrupt
        })
      )

    yield* Effect.forEach(calls, one, { concurrency: runtime.concurrency, discard: true })
    if (options?.defects === "die" && defects.size > 0) return yield* raiseDefects(defects)
    return results
  })

/** The defects of the first call that had one. */
const raiseDefects = (defects: ReadonlyMap<number, Cause.Cause<unknown>>): Effect.Effect<never> => {
  const first = defects.get(Math.min(...defects.keys()))
  return Effect.failCause(Cause.fromReasons(first?.reasons.filter(Cause.isDieReason) ?? []))
}
