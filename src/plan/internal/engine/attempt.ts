/** What one try of a step came to. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { AgentError } from "../../../agent/AgentError.ts"
import type * as PlanError from "../../PlanError.ts"
import type { StepFailure } from "../../PlanOutcome.ts"
import type { CallRequest } from "../../PlanRunEvent.ts"
import * as StepSignal from "../../StepSignal.ts"
import { NotAnEffect } from "../step/error.ts"

export interface Failed {
  readonly _tag: "Failed"
  readonly failure: StepFailure
  /** Whether another try may come to something else. */
  readonly again: boolean
  /** The reason of the run's error, where it is more than that this step failed. */
  readonly reason?: PlanError.Reason
  /** What stays out of messages. */
  readonly cause?: unknown
}

export type Attempt =
  | { readonly _tag: "Succeeded"; readonly output: Schema.Json }
  | Failed
  | { readonly _tag: "Paused"; readonly reason?: string; readonly request?: CallRequest }
  | { readonly _tag: "Concluded"; readonly answer: string }
  /** The run was asked to stop, and what runs inside the step did. */
  | { readonly _tag: "Stopped" }

export const succeeded = (output: Schema.Json): Attempt => ({ _tag: "Succeeded", output })

export const failed = (
  type: string,
  message: string,
  more?: { readonly retryable?: boolean; readonly again?: boolean; readonly cause?: unknown }
): Failed => ({
  _tag: "Failed",
  failure: { type, message, retryable: more?.retryable ?? false },
  again: more?.again ?? true,
  ...(more?.cause === undefined ? undefined : { cause: more.cause })
})

const stringAt = (u: unknown, key: string): string | undefined => {
  const found = Predicate.hasProperty(u, key) ? u[key] : undefined
  return typeof found === "string" && found !== "" ? found : undefined
}

/** A typed error as data: what it says of itself. */
export const failureOf = (error: unknown): StepFailure => {
  if (error instanceof AgentError) {
    const { reason } = error
    return {
      type: reason._tag,
      message: error.message,
      retryable: reason._tag === "ModelFailed" && reason.retryable
    }
  }
  return {
    type: stringAt(error, "_tag") ?? stringAt(error, "name") ?? "Error",
    message: typeof error === "string" ? error : (stringAt(error, "message") ?? "It says nothing about itself."),
    retryable:
      (Predicate.hasProperty(error, "retryable") && error.retryable === true) ||
      (Predicate.hasProperty(error, "isRetryable") && error.isRetryable === true)
  }
}

const readName = (defect: Error): string => {
  const own = defect.constructor.name
  return own === "" || own === "Error" ? defect.name : own
}

/** What kind of thing a defect is, and nothing of what it says; even one whose members throw. */
const kindOf = (defect: unknown): string => {
  if (!(defect instanceof Error)) return `something that is no Error (${defect === null ? "null" : typeof defect})`
  const name = Result.getOrElse(
    Result.try(() => readName(defect)),
    () => ""
  )
  return typeof name === "string" && name !== "" ? `the defect ${name.slice(0, 100)}` : "a defect"
}

const problemOf = (who: string, defect: unknown): string =>
  defect instanceof NotAnEffect
    ? `The function of ${who} gave a value that is no Effect: ${defect.found}.`
    : `It died of ${kindOf(defect)}, which is a bug.`

const died = (who: string, cause: Cause.Cause<unknown>): Effect.Effect<Attempt> => {
  const defect = Cause.squash(cause)
  const message = `${problemOf(who, defect)} It is logged, and PlanError.causeOf(error.reason) in the process where it happened.`
  return Effect.as(Effect.logError(`${who} failed unexpectedly`, cause), failed("Defect", message, { cause: defect }))
}

/** What something that ended badly came to; `who` it is, for the log. Interruption stays what it is. */
export const ofCause = (who: string, cause: Cause.Cause<unknown>): Effect.Effect<Attempt> => {
  if (Cause.hasInterrupts(cause)) return Effect.interrupt
  const errors = cause.reasons.filter(Cause.isFailReason).map(({ error }) => error)
  const conclude = errors.find((error) => error instanceof StepSignal.Conclude)
  if (conclude !== undefined) return Effect.succeed({ _tag: "Concluded", answer: conclude.answer })
  const pause = errors.find((error) => error instanceof StepSignal.Pause)
  if (pause !== undefined) return Effect.succeed({ _tag: "Paused", reason: pause.reason })
  const [error] = errors
  if (errors.length > 0) {
    const failure = failureOf(error)
    return Effect.succeed({ _tag: "Failed", failure, again: true, cause: error })
  }
  return died(who, cause)
}
