/**
 * Runs a handler on JSON: arguments in, a tool result out.
 */
import * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as Json from "../../payload/Json.ts"
import * as ValidationIssue from "../../payload/ValidationIssue.ts"
import type { Body, CallContext } from "../BoundTool.ts"
import * as Content from "../Content.ts"
import { RunContext } from "../RunContext.ts"
import * as ToolResult from "../ToolResult.ts"
import * as CallCause from "./callCause.ts"
import { CallInfo } from "./callInfo.ts"
import { carried } from "./carriedResult.ts"
import * as contract from "./contract.ts"

type Decode = (args: Json.JsonObject) => Effect.Effect<unknown, ToolResult.Failure>

type Run = (value: unknown, options?: SchemaAST.ParseOptions) => Effect.Effect<unknown, Schema.SchemaError>

// the services that a tool's schemas need are laid under every call with the handler's own context
const decodeJson = (schema: Schema.Top) => Schema.decodeUnknownEffect(Schema.toCodecJson(schema)) as Run

// the same services
const encodeJson = (schema: Schema.Top) => Schema.encodeUnknownEffect(Schema.toCodecJson(schema)) as Run

export const invalid = (tool: string, problems: string): ToolResult.Failure =>
  ToolResult.failure("validation_error", `Invalid arguments for tool ${JSON.stringify(tool)}: ${problems}`)

/** Arguments as the handler takes them. */
export const decoder = (tool: Tool.Any): Decode => {
  if (contract.rawParameters(tool) !== undefined) return Effect.succeed
  if (contract.isVoid(tool.parametersSchema)) return () => Effect.undefined
  const decode = decodeJson(tool.parametersSchema)
  return (args) =>
    Effect.mapError(decode(args, { errors: "all" }), (error) =>
      invalid(tool.name, ValidationIssue.render(ValidationIssue.fromSchemaError(error)))
    )
}

/** Lays what the handler's layer captured under the context of the call. */
export const provide =
  (captured: Context.Context<never>, runContext: Json.JsonObject) =>
  <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.updateContext(effect, (current: Context.Context<never>) =>
      Context.add(Context.merge(captured, current), RunContext, runContext)
    )

const failed = (message: string, cause: Cause.Cause<unknown>): Effect.Effect<ToolResult.Failure> =>
  Effect.as(CallCause.report(cause), ToolResult.failure("execution_error", message))

const encoder = (schema: Schema.Top): ((value: unknown) => Effect.Effect<Schema.Json, unknown>) => {
  const encode = encodeJson(schema)
  const check = (value: unknown) => Json.check(value, { what: "result" })
  // a schema that says nothing about its values stands for Void where nothing was returned
  if (contract.saysNothing(schema)) {
    return (value) => (value === undefined ? Effect.succeed(null) : Effect.flatMap(encode(value), check))
  }
  return (value) => Effect.flatMap(encode(value), check)
}

const modelOutput = (parts: ReadonlyArray<Prompt.ToolModelOutputPart>): Content.NonEmptyContent | undefined => {
  const [first, ...rest] = parts.map(Content.fromPrompt)
  return first === undefined ? undefined : [first, ...rest]
}

const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined)

/** A failure of the handler's own failure schema: what it is called, and what it says. */
const typed = (error: unknown, value: Schema.Json): ToolResult.Failure => {
  const fields = Json.isObject(value) ? value : {}
  const own = (key: string) => (Object.hasOwn(fields, key) ? text(fields[key]) : undefined)
  const message = own("message") ?? (error instanceof Error ? text(error.message) : undefined)
  return ToolResult.failure(
    own("type") ?? own("_tag") ?? "execution_error",
    message ?? (typeof value === "string" ? value : JSON.stringify(value)),
    value
  )
}

const aiReason = (error: unknown): string | undefined => {
  if (AiError.isAiError(error)) return error.reason._tag
  return AiError.isAiErrorReason(error) ? error._tag : undefined
}

const notAnEffect = (tool: string) => new TypeError(`the handler of ${JSON.stringify(tool)} did not return an Effect`)

export const make = (tool: Tool.Any, handler: Tool.Handler<string>): Body => {
  const name = JSON.stringify(tool.name)
  const decode = decoder(tool)
  const encodeSuccess = encoder(tool.successSchema)
  const encodeFailure = encoder(tool.failureSchema)
  const declaresFailures = !contract.saysNothing(tool.failureSchema)

  const unencodable = (error: unknown) =>
    failed(`Tool ${name} returned a value that does not fit its success schema`, Cause.fail(error))

  const succeed = (value: unknown): Effect.Effect<ToolResult.ToolResult> =>
    Effect.matchEffect(encodeSuccess(value), {
      onFailure: unencodable,
      onSuccess: (json) =>
        Effect.sync(() =>
          ToolResult.success(
            json,
            tool.toModelOutput === undefined ? undefined : modelOutput(tool.toModelOutput(value))
          )
        )
    })

  const fail = (error: unknown): Effect.Effect<ToolResult.ToolResult> => {
    const result = carried(error)
    if (result !== undefined) return Effect.succeed(result)
    const reason = aiReason(error)
    if (reason !== undefined) return failed(`Tool ${name} failed with ${reason}`, Cause.fail(error))
    if (!declaresFailures) return failed(`Tool ${name} failed in a way it does not declare`, Cause.fail(error))
    return Effect.matchEffect(encodeFailure(error), {
      onFailure: () =>
        failed(`Tool ${name} failed with a value that does not fit its failure schema`, Cause.fail(error)),
      onSuccess: (json) => Effect.succeed(typed(error, json))
    })
  }

  return (args, call) =>
    Effect.matchEffect(decode(args), {
      onFailure: Effect.succeed,
      onSuccess: (decoded) => {
        const progress = preliminary(call, encodeSuccess)
        return Effect.suspend(() => {
          const effect: unknown = handler.handler(decoded, { toolCallId: call.callId, preliminary: progress.emit })
          // `Tool.Handler` types every handler as an Effect of anything; encoding decides what is accepted
          return Effect.isEffect(effect)
            ? (effect as Effect.Effect<unknown, unknown>)
            : Effect.die(notAnEffect(tool.name))
        }).pipe(
          Effect.matchEffect({
            onFailure: fail,
            onSuccess: (value) => (progress.failed === undefined ? succeed(value) : unencodable(progress.failed.error))
          })
        )
      }
    }).pipe(
      Effect.provideService(CallInfo, { runId: call.runId, callId: call.callId, deadline: call.deadline }),
      provide(handler.context, call.context)
    )
}

/** The preliminary results of one call; one that does not encode spoils the final result. */
const preliminary = (call: CallContext, encode: (value: unknown) => Effect.Effect<Schema.Json, unknown>) => {
  const state: {
    failed: { readonly error: unknown } | undefined
    readonly emit: (value: unknown) => Effect.Effect<void>
  } = {
    failed: undefined,
    emit: (value) =>
      Effect.flatMap(Effect.result(encode(value)), (result) => {
        if (Result.isSuccess(result)) return call.progress(ToolResult.success(result.success))
        state.failed = { error: result.failure }
        return Effect.void
      })
  }
  return state
}
