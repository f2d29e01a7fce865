import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as CheckedSchema from "../../payload/CheckedSchema.ts"
import * as ValidationIssue from "../../payload/ValidationIssue.ts"
import type { BoundCall } from "../BoundCall.ts"
import type { Options } from "../ToolBatch.ts"
import * as ToolResult from "../ToolResult.ts"
import { ToolRuntime } from "../ToolRuntime.ts"
import * as CallCause from "./callCause.ts"
import { invoke, unhandled } from "./execute.ts"

const interrupted = ToolResult.failure("interrupted", "The run was interrupted while the tool was executing")

/** Results that come from elsewhere are judged by the contract; ours were encoded by it. */
const judge = (call: BoundCall, result: ToolResult.ToolResult): ToolResult.ToolResult => {
  if (!call.runtimeOnly || call.result === undefined || result._tag === "Failure") return result
  const checked = CheckedSchema.validate(call.result, result.value)
  if (Result.isSuccess(checked)) return { ...result, value: checked.success }
  return ToolResult.failure(
    "execution_error",
    `The result of tool ${JSON.stringify(call.contract.name)} does not fit its contract: ${ValidationIssue.render(checked.failure)}`
  )
}

const dispatch = (runtime: ToolRuntime, call: BoundCall): Effect.Effect<ToolResult.ToolResult> =>
  invoke(runtime.dispatch, call).pipe(
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

interface Ended {
  readonly result: ToolResult.ToolResult
  readonly interrupted: boolean
}

/** What a dispatch that did not give a result amounts to. */
const settle = (
  call: BoundCall,
  exit: Exit.Exit<ToolResult.ToolResult>,
  restore: <A>(effect: Effect.Effect<A>) => Effect.Effect<A>
): Effect.Effect<Ended> => {
  if (Exit.isSuccess(exit)) return Effect.succeed({ result: judge(call, exit.value), interrupted: false })
  // an interruption of this fiber is still pending in any interruptible region; one that a runtime made up is not
  return Effect.flatMap(Effect.exit(restore(Effect.void)), (probe): Effect.Effect<Ended> =>
    Exit.isFailure(probe)
      ? Effect.succeed({ result: interrupted, interrupted: true })
      : Effect.map(unhandled(call.contract.name, exit.cause), (result) => ({ result, interrupted: false }))
  )
}

type OnResult = (index: number, result: ToolResult.ToolResult) => void

const each = <E, R>(
  calls: ReadonlyArray<BoundCall>,
  options: Options<E, R> | undefined,
  onResult: OnResult
): Effect.Effect<void, E, R> =>
  Effect.gen(function* () {
    const runtime = yield* ToolRuntime
    const defects = new Map<number, Cause.Cause<unknown>>()

    const one = (call: BoundCall, index: number): Effect.Effect<void, E, R> =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const slot: CallCause.Slot = { cause: undefined }
          if (options?.onStarted !== undefined) yield* options.onStarted(call.id)
          const startedAt = yield* Clock.currentTimeMillis
          const ended = yield* Effect.exit(restore(dispatch(runtime, call))).pipe(
            Effect.flatMap((exit) => settle(call, exit, restore)),
            Effect.provideService(CallCause.CallCause, slot)
          )
          const duration = Duration.millis((yield* Clock.currentTimeMillis) - startedAt)
          const cause = ended.result._tag === "Failure" ? slot.cause : undefined
          if (cause !== undefined && Cause.hasDies(cause)) defects.set(index, cause)
          onResult(index, ended.result)
          if (options?.onFinished !== undefined) yield* options.onFinished(call.id, ended.result, duration, cause)
          if (ended.interrupted) return yield* Effect.interrupt
        })
      )

    yield* Effect.forEach(calls, one, { concurrency: runtime.concurrency, discard: true })
    if (options?.defects === "die" && defects.size > 0) return yield* raise(defects)
  })

/** The defects of the first call that had one. */
const raise = (defects: ReadonlyMap<number, Cause.Cause<unknown>>): Effect.Effect<never> => {
  const first = defects.get(Math.min(...defects.keys()))
  return Effect.failCause(Cause.fromReasons(first?.reasons.filter(Cause.isDieReason) ?? []))
}

export const run = <E = never, R = never>(
  calls: ReadonlyArray<BoundCall>,
  options?: Options<E, R>
): Effect.Effect<void, E, R> => each(calls, options, () => undefined)

export const collect = <E = never, R = never>(
  calls: ReadonlyArray<BoundCall>,
  options?: Options<E, R>
): Effect.Effect<ReadonlyArray<ToolResult.ToolResult>, E, R> =>
  Effect.suspend(() => {
    const results: Array<ToolResult.ToolResult> = []
    return Effect.as(
      each(calls, options, (index, result) => {
        results[index] = result
      }),
      results
    )
  })
