/**
 * The parts that spans and metrics of runs share: captured content, instruments, and defects in the log. `Telemetry` of the room `agent`
 * describes the names. Nothing here costs anything until a program has a tracer or records metrics.
 */

import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Tracer from "effect/Tracer"
import type * as Prompt from "effect/ai/Prompt"
import type { JsonObject } from "../../payload/Json.ts"
import * as fuel from "../../payload/internal/fuel.ts"
import { Limits } from "../../payload/internal/limits.ts"
import * as maskSecrets from "../../payload/internal/maskSecrets.ts"
import { defined, isObject } from "../../payload/internal/values.ts"
import { weigh } from "../../payload/internal/weigh.ts"
import type * as ToolResult from "../ToolResult.ts"
import * as callContext from "./callContext.ts"

/**
 * Puts content on the spans of model calls and of tool calls. The code comes with the value, so that programs that record no
 * content do not bundle it.
 */
export interface ContentRecorder {
  readonly chat: (
    span: Tracer.Span,
    prompt: Prompt.Prompt,
    answer: { readonly parts: ReadonlyArray<Prompt.Part>; readonly finishReason: string | undefined }
  ) => void
  readonly call: (span: Tracer.Span, args: JsonObject, result: ToolResult.ToolResult | undefined) => void
}

/** The recorder of the content of spans; without one they have none. */
export const Capture = Context.Reference<ContentRecorder | undefined>(callContext.keys.capture, {
  defaultValue: () => undefined
})

export type Instrument =
  | "gen_ai.client.token.usage"
  | "gen_ai.client.operation.duration"
  | "gen_ai.client.operation.time_to_first_chunk"
  | "gen_ai.execute_tool.duration"
  | "gen_ai.invoke_agent.duration"
  | "gen_ai.workflow.duration"

/** Adds a value to a metric. The code of metrics comes with it, so that programs without metrics do not bundle it. */
export type Recorder = (
  context: Context.Context<never>,
  instrument: Instrument,
  value: number,
  attributes: Readonly<Record<string, string | undefined>>
) => void

/** The recorder of metrics; without one there are none. */
export const Metrics = Context.Reference<Recorder | undefined>(callContext.keys.metrics, {
  defaultValue: () => undefined
})

/** Attributes of a span; those without a value are left out. */
export const annotate = (span: Tracer.Span, attributes: Record<string, unknown>): void => {
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) span.attribute(name, value)
}

/** Records a value, if the context has metrics on. */
export const record = (
  context: Context.Context<never>,
  instrument: Instrument,
  value: number,
  attributes: Readonly<Record<string, string | undefined>>
): void => Context.get(context, Metrics)?.(context, instrument, value, attributes)

// Tool calls

/** The parts of a call that its span and metrics have. */
interface Call {
  readonly contract: { readonly name: string; readonly description?: string | undefined }
  readonly arguments: JsonObject
}

/** The type of all tools: their code runs in the program, or behind its tool runtime. */
const toolType = { "gen_ai.tool.type": "function" }

const agentAround = (context: Context.Context<never>): string | undefined => callContext.runAround(context)?.agent

/** The attributes that only exporters read. */
export const describeCall = ({ contract }: Call, context: Context.Context<never>): Record<string, unknown> => ({
  ...toolType,
  ...defined({ "gen_ai.tool.description": contract.description, "gen_ai.agent.name": agentAround(context) })
})

/** The type of a failure. An agent that waits for decisions has not failed. */
const errorType = (result: ToolResult.ToolResult): string | undefined => {
  if (result._tag === "Success") return undefined
  const { type, value } = result
  return isObject(value) && value["outcome"] === "AwaitingApproval" ? undefined : type
}

/** Describes the end of a call on its span. Returns the exit that the span shows: exporters make an error of a failure. */
export const describeEnd = (
  span: Tracer.Span,
  call: Call,
  context: Context.Context<never>,
  exit: Exit.Exit<ToolResult.ToolResult>
): Exit.Exit<unknown, unknown> => {
  const result = Exit.isSuccess(exit) ? exit.value : undefined
  Context.get(context, Capture)?.call(span, call.arguments, result)
  const type = result && errorType(result)
  if (type === undefined) return exit
  span.attribute("error.type", type)
  const error = new Error("a failure, whose text is not on spans")
  error.name = type
  return Exit.fail(error)
}

/** Records the duration of a call. */
export const measureCall = (
  { contract }: Call,
  context: Context.Context<never>,
  result: ToolResult.ToolResult,
  duration: Duration.Duration
): void =>
  record(context, "gen_ai.execute_tool.duration", Duration.toSeconds(duration), {
    "gen_ai.tool.name": contract.name,
    ...toolType,
    "gen_ai.agent.name": agentAround(context),
    "error.type": errorType(result)
  })

// The log

/**
 * Logs an unexpected failure. The texts of its errors are cut, and what looks like a secret in them is masked; texts that
 * cannot be read are left out. Spans do not have the texts.
 */
export const logUnexpected = (message: string, cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Effect.contextWith((context: Context.Context<never>) => {
    const shown = Result.getOrElse(
      Result.try(() => maskCause(readable(cause), fuel.make(Context.get(context, Limits).maxFuel))),
      () => Cause.empty
    )
    const span = Context.getOrUndefined(context, Tracer.ParentSpan)
    const logged = Effect.logError(message, shown)
    // A line of the log becomes an event of the current span, with its cause
    return span === undefined ? logged : Effect.provideService(logged, Tracer.ParentSpan, Tracer.externalSpan(span))
  })

/** The greatest weight of an object in the log that is no Error. */
const maxLogged = 1024 * 1024

/** Whatever was thrown is written into the log, and the reasons behind it: code may throw any object. */
const isReadable = (thrown: unknown, reasons = 20): boolean => {
  if (typeof thrown !== "object" || thrown === null || reasons === 0) return true
  const isShort = thrown instanceof Error || weigh(thrown, maxLogged, 1000, "anything") <= maxLogged
  return isShort && isReadable(Reflect.get(thrown, "cause"), reasons - 1)
}

/** The cause with a text in place of objects that are too large to be written. */
const readable = (cause: Cause.Cause<unknown>): Cause.Cause<unknown> => {
  const isWhole = cause.reasons.every((reason) =>
    Cause.isFailReason(reason) ? isReadable(reason.error) : !Cause.isDieReason(reason) || isReadable(reason.defect)
  )
  return isWhole ? cause : Cause.die("an object that is too large for the log")
}

const maskCause = (cause: Cause.Cause<unknown>, tank: fuel.Fuel): Cause.Cause<unknown> => {
  let isMasked = false
  const mask = (text: string): string => {
    const without = maskSecrets.maskText(maskSecrets.cutText(text), tank)
    isMasked ||= without !== text
    return without
  }
  const reasons = Cause.prettyErrors(cause, { includeCauseInStack: true }).map((error) => {
    const copy = new Error(mask(error.message))
    copy.name = mask(error.name)
    copy.stack = mask(error.stack ?? "")
    return Cause.makeDieReason(copy)
  })
  return isMasked ? Cause.fromReasons(reasons) : cause
}
