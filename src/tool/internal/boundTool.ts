/**
 * Tools bound to their handlers, the set that a model is offered, and their calls: validated, bounded in time, run one by
 * one or as a batch through the tool runtime.
 */

import { sha256 } from "@noble/hashes/sha2.js"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { constUndefined, constVoid, identity } from "effect/Function"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as References from "effect/References"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as Tracer from "effect/Tracer"
import type * as Types from "effect/Types"
import * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Hex from "effect/encoding/Hex"
import * as Json from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as Limits from "../../payload/Limits.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as base from "../../payload/internal/base.ts"
import * as schemas from "../../payload/internal/compileSchema.ts"
import * as convertSchema from "../../payload/internal/convertSchema.ts"
import * as plainJson from "../../payload/internal/plainJson.ts"
import * as RunContext from "../RunContext.ts"
import * as ToolContract from "../ToolContract.ts"
import * as ToolResult from "../ToolResult.ts"
import * as callContext from "./callContext.ts"

/**
 * The service that executes tool calls.
 */
export interface ToolRuntime {
  /**
   * Executes one call.
   */
  readonly dispatch: (call: BoundCall) => Effect.Effect<ToolResult.ToolResult>
  /**
   * The number of calls of one batch that run at once. It is a limit per batch, never per
   * process: an agent that is a tool of another agent would wait for itself.
   */
  readonly concurrency: number | "unbounded"
  /**
   * It can execute calls that have no body here.
   */
  readonly stubs: boolean
}

/** Executes a call with its local body. */
export const local = (call: BoundCall): Effect.Effect<ToolResult.ToolResult> =>
  Option.getOrElse(call.execute, () =>
    Effect.succeed(
      ToolResult.failure(
        "unhandled_error",
        `Tool ${JSON.stringify(call.contract.name)} has no body here, and the tool runtime in use executes calls here only`
      )
    )
  )

/**
 * The tool runtime in use. Without any layer calls run here, one after another.
 */
export const ToolRuntime = Context.Reference<ToolRuntime>(callContext.keys.toolRuntime, {
  defaultValue: () => ({ dispatch: local, concurrency: 1, stubs: false })
})

/** Puts the hints of a contract back onto a tool. */
export const toToolAnnotations = (annotations: ToolContract.ToolContract["annotations"]): Context.Context<never> => {
  let context = Context.empty()
  const add = <I, S>(key: Context.Key<I, S>, value: S | undefined) => {
    // tools keep their annotations in a Context<never>; the identifier is not tracked there
    if (value !== undefined) context = Context.add(context, key, value) as Context.Context<never>
  }
  add(Tool.Title, annotations.title)
  add(Tool.Readonly, annotations.readonly)
  add(Tool.Destructive, annotations.destructive)
  add(Tool.Idempotent, annotations.idempotent)
  add(Tool.OpenWorld, annotations.openWorld)
  add(Tool.Strict, annotations.strict)
  return context
}

/** A tool that brings its handler along, as an agent does. */
interface OwnHandler {
  /** The tool as it is described and executed. */
  readonly tool: Tool.Any
  readonly handler: Tool.Handler<string>
}

/** The annotation of a tool that needs no handler from a toolkit's layer, and of the tool in it. */
export class BroughtHandler extends Context.Service<BroughtHandler, OwnHandler>()(
  "effect-emissary/tool/internal/BroughtHandler"
) {}

export type OwnHandlerTypeId = "~effect-emissary/tool/OwnHandler"

export const OwnHandlerTypeId: OwnHandlerTypeId = "~effect-emissary/tool/OwnHandler"

/** The type of a tool that brings its handler along. `R` is what executing it requires. */
export interface WithOwnHandler<out R> {
  readonly [OwnHandlerTypeId]: { readonly _R: Types.Covariant<R> }
}

/** The services that the tools of a union require which bring their handlers along. */
export type OwnServices<T> = T extends WithOwnHandler<infer R> ? R : never

const ownHandlerOf = (tool: Tool.Any): OwnHandler | undefined =>
  Option.getOrUndefined(Context.getOption(tool.annotations, BroughtHandler))

/** The tool as it is described and executed, of one as a toolkit has it. */
export const describedTool = (tool: Tool.Any): Tool.Any => ownHandlerOf(tool)?.tool ?? tool

/** The function of a handler: arguments as the tool decodes them, and the facts of the call. */
export type HandlerFunction = (
  params: unknown,
  context: { readonly toolCallId?: string; readonly preliminary: (value: unknown) => Effect.Effect<void> }
) => Effect.Effect<unknown, unknown>

/** The tool with a handler of its own, so that it needs none from a toolkit's layer. */
export const withOwnHandler = (tool: Tool.Any, handler: HandlerFunction): Tool.Any => {
  const entry: unknown = { name: tool.name, handler, context: Context.empty() }
  // Sound: the only property of a Handler that is missing is a phantom.
  const own = { tool, handler: entry as Tool.Handler<string> }
  return tool.annotate(BroughtHandler, { ...own, tool: tool.annotate(BroughtHandler, own) })
}

/** A call of a batch while it is executed. */
class CallUnderWay {
  readonly call: BoundCall
  readonly span: Tracer.Span
  /** The context of the batch. */
  readonly around: Context.Context<never>
  readonly timeouts: Timeouts
  /** Why the newest attempt failed unexpectedly. */
  cause: Cause.Cause<unknown> | undefined
  /** The result of the newest attempt that ran here. */
  result: ToolResult.ToolResult | undefined
  private entered: Context.Context<never> | undefined

  constructor(call: BoundCall, span: Tracer.Span, around: Context.Context<never>, timeouts: Timeouts) {
    this.call = call
    this.span = span
    this.around = around
    this.timeouts = timeouts
  }

  /** The context of the batch with this call in it. */
  get context(): Context.Context<never> {
    return (this.entered ??= this.enter(this.around))
  }

  enter(context: Context.Context<never>): Context.Context<never> {
    const parent = Context.get(context, References.CurrentStackFrame)
    const frame = { name: this.span.name, stack: constUndefined, parent }
    return context.pipe(
      Context.add(References.CurrentStackFrame, frame),
      Context.add(Tracer.ParentSpan, this.span),
      Context.add(CurrentCall, this)
    )
  }
}

/** The call that is being executed; `undefined` outside of a batch. */
export const CurrentCall = Context.Reference<CallUnderWay | undefined>(callContext.keys.currentCall, {
  defaultValue: () => undefined
})

const carriedResults = new WeakMap<object, ToolResult.ToolResult>()

/** A value that a handler fails with, or emits as progress, to return the result in it as it is. */
export const carrierOf = (result: ToolResult.ToolResult): object => {
  const carrier = {}
  carriedResults.set(carrier, result)
  return carrier
}

/** The error that carries a result. */
export const carryResult = (tool: string, result: ToolResult.Failure): AiError.AiError => {
  const error = AiError.make({
    module: "RemoteTools",
    method: `${tool}.handle`,
    reason: new AiError.UnknownError({ description: `${result.type}: ${result.message}` })
  })
  carriedResults.set(error, result)
  return error
}

/** The result that an error carries, if any. */
const carriedResult = (error: unknown): ToolResult.ToolResult | undefined =>
  // Sound: a WeakMap has nothing for what is no object
  carriedResults.get(error as object)

const className = (error: Error): string => {
  const own = error.constructor.name
  return own === "" || own === "Error" ? error.name : own
}

const readDefect = (defect: unknown): string => {
  if (defect instanceof Error) return `${className(defect)}: ${defect.message}`
  return typeof defect === "object" || typeof defect === "function" ? "something that is not an Error" : String(defect)
}

/** A reading of whatever was thrown, even of an object whose members throw. */
const readSafely = (read: (defect: unknown) => string) => (defect: unknown) =>
  Result.getOrElse(
    Result.try(() => read(defect)),
    () => "an error that cannot be described"
  )

/** `<Class>: <message>`. */
const describeDefect = readSafely(readDefect)

/** The class of a defect, without its text. */
export const defectName = readSafely((defect) =>
  defect instanceof Error ? className(defect) : "something that is not an Error"
)

const quietKey = Symbol()

const withoutDefects = <E>(cause: Cause.Cause<E>): Cause.Cause<E> =>
  Cause.fromReasons(
    cause.reasons.map((reason) => {
      if (!Cause.isDieReason(reason)) return reason
      const quiet = new Error("a defect, whose text is not on spans")
      quiet.name = defectName(reason.defect)
      return Cause.makeDieReason(quiet)
    })
  )

/**
 * The same span, so that exporters know their own. It has not the text of defects, which exporters print, and its errors
 * as `errorOf` makes them.
 */
export const quietSpan = (span: Tracer.Span, errorOf: (error: unknown) => unknown = (error) => error): Tracer.Span => {
  if (quietKey in span) return span
  const { end, event } = span
  const quiet: Types.Mutable<Tracer.Span> & { [quietKey]?: true } = span
  quiet[quietKey] = true
  // A line of the log is an event of the span, too, with its cause
  quiet.event = (name, time, { "effect.cause": _, ...attributes } = {}) => event.call(span, name, time, attributes)
  quiet.end = (time, exit) => {
    const shown = Exit.isSuccess(exit) ? exit : Exit.failCause(Cause.map(withoutDefects(exit.cause), errorOf))
    end.call(span, time, shown)
  }
  return span
}

/** `Effect.withSpan` with a {@link quietSpan}. */
export const withQuietSpan =
  (name: string, attributes: Record<string, unknown>) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, Exclude<R, Tracer.ParentSpan>> =>
    Effect.useSpan(name, { attributes }, (span) =>
      Effect.withParentSpan(effect, quietSpan(span), { captureStackTrace: false })
    )

/** `<Class>: <message>` of the first defect of a cause; interruption from inside has no class. */
const describeCause = (cause: Cause.Cause<unknown>): string => {
  const die = cause.reasons.find(Cause.isDieReason)
  if (die !== undefined) return describeDefect(die.defect)
  const fail = cause.reasons.find(Cause.isFailReason)
  return fail === undefined ? "it interrupted itself" : describeDefect(fail.error)
}

/**
 * The facts about a call that its body receives.
 */
interface CallContext {
  readonly runId: string
  readonly callId: string
  readonly context: Json.JsonObject
  /**
   * When the run stops waiting, in milliseconds since the epoch.
   */
  readonly deadline?: number | undefined
  /**
   * Takes the preliminary results of a long call. They are shown, never stored.
   */
  readonly progress: (result: ToolResult.Success) => Effect.Effect<void>
}

/**
 * The facts that the need for an approval may depend on.
 */
interface ApprovalContext {
  readonly callId: string
  readonly context: Json.JsonObject
  readonly messages: ReadonlyArray<Prompt.Message>
}

/**
 * Executes one call whose arguments fit the contract's parameters.
 *
 * **Details**
 *
 * It neither limits time nor catches defects; a `BoundCall` does both. A body with `services` is `run` with those, made from
 * the services of the call: a fiber of its own can begin with them.
 */
export interface Body {
  (args: Json.JsonObject, call: CallContext): Effect.Effect<ToolResult.ToolResult>
  readonly run?: (args: Json.JsonObject, call: CallContext) => Effect.Effect<ToolResult.ToolResult>
  readonly services?: Services
}

/** With `call` the context is that of a batch, to which the call is added. */
type Services = (
  context: Context.Context<never>,
  runContext: Json.JsonObject,
  call?: CallUnderWay
) => Context.Context<never>

type NeedsApproval = (args: Json.JsonObject, context: ApprovalContext) => Effect.Effect<boolean, ToolResult.Failure>

/**
 * The place of a tool's code: `"local"` in this process, `"stub"` behind a tool
 * runtime, `"provider"` at the model provider, which runs the tool itself.
 */
type Kind = "local" | "stub" | "provider"

/**
 * A tool that a run can use.
 */
export interface BoundTool {
  readonly contract: ToolContract.ToolContract
  readonly kind: Kind
  /**
   * The `effect/ai` tool, annotations included.
   */
  readonly tool: Tool.Any
  readonly parameters: JsonSchema.JsonSchema
  /**
   * The parameters of the tool that is here, where the contract came from elsewhere. Arguments have to fit them before
   * the contract's.
   */
  readonly own: JsonSchema.JsonSchema | undefined
  /**
   * Judges results that come from elsewhere; present when the contract carries
   * a result schema.
   */
  readonly result: JsonSchema.JsonSchema | undefined
  /**
   * Decides if the call has to be approved. Arguments that do not decode are a
   * `validation_error`, never "no approval needed".
   */
  readonly needsApproval: NeedsApproval
  readonly body: Option.Option<Body>
}

/**
 * Binds a tool to its handler.
 *
 * **Details**
 *
 * The handler is the entry that a toolkit's layer puts into the context under
 * `tool.id`. Arguments are decoded, results and failures encoded, with the JSON
 * form of the tool's schemas. The handler has the services that its layer captured;
 * spans, clock and `RunContext` are those of the call.
 *
 * `contract` is the tool's own, or one that came from elsewhere. Of that one only
 * the description and the words in the parameters count; it can shorten the
 * timeout and ask for more approval, and arguments have to fit the parameters of
 * the tool before they have to fit its.
 *
 * **Gotchas**
 *
 * Services that the tool names as `dependencies` must be in `handler.context` or
 * in the context of the call. {@link fromToolkit} provides them.
 */
export const fromHandler = Effect.fnUntraced(function* (
  given: ToolContract.ToolContract,
  tool: Tool.Any,
  handler: Tool.Handler<string>
): Effect.fn.Return<BoundTool, ToolContract.ToolContractError> {
  const here = yield* ToolContract.fromTool(tool)
  const contract = given === here ? here : yield* stricterOf(given, here)
  return yield* bindContract(contract, {
    kind: "local",
    tool,
    own: given === here ? undefined : yield* compileSchema(here, "parameters", here.parameters),
    result: undefined,
    needsApproval: makeApproval(contract, tool, handler.context),
    body: Option.some(makeBody(tool, handler))
  })
})

/** The contract of the tool here in the words of another one, which can be stricter and never weaker. */
const stricterOf = (given: ToolContract.ToolContract, here: ToolContract.ToolContract) =>
  ToolContract.make({
    ...here,
    description: given.description,
    parameters: given.parameters,
    timeout: Duration.min(given.timeout, here.timeout),
    approval: approvals.findLast((approval) => approval === given.approval || approval === here.approval)
  })

/** From the weakest to the strictest. */
export const approvals = ToolContract.ToolContract.fields.approval.literals

const bindContract = (contract: ToolContract.ToolContract, rest: Omit<BoundTool, "contract" | "parameters">) =>
  Effect.map(compileSchema(contract, "parameters", contract.parameters), (parameters): BoundTool => ({
    contract,
    parameters,
    ...rest
  }))

/**
 * Binds a tool to its handler under the tool's own contract.
 */
export const fromTool = (
  tool: Tool.Any,
  handler: Tool.Handler<string>
): Effect.Effect<BoundTool, ToolContract.ToolContractError> =>
  Effect.flatMap(ToolContract.fromTool(tool), (contract) => fromHandler(contract, tool, handler))

/**
 * Binds the tools of a toolkit to the handlers in the context.
 *
 * **Details**
 *
 * Provider-defined tools without a handler become `"provider"` tools. Services that
 * tools name as `dependencies` are taken from the context here.
 */
export const fromToolkit = <Tools extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>
): Effect.Effect<
  ReadonlyArray<BoundTool>,
  ToolContract.ToolContractError,
  Tool.HandlersFor<Tools> | Tool.HandlerServices<Tools[keyof Tools]> | OwnServices<Tools[keyof Tools]>
> =>
  Effect.forEach(Object.values(toolkit.tools).map(describedTool), (tool) =>
    Effect.flatMap(captureHandler(tool), (handler) =>
      Option.isSome(handler) ? fromTool(tool, handler.value) : fromProviderTool(tool)
    )
  )

/**
 * The handler that a tool brings along, or that a toolkit's layer left in the context for it; none for a
 * provider-defined tool that needs none.
 */
export const handlerOf = (
  tool: Tool.Any
): Effect.Effect<Option.Option<Tool.Handler<string>>, ToolContract.ToolContractError> =>
  Effect.flatMap(Effect.context<never>(), (context) => {
    const own = ownHandlerOf(tool)
    if (own !== undefined) return Effect.succeedSome(own.handler)
    if (Tool.isProviderDefined(tool) && !tool.requiresHandler) return Effect.succeedNone
    const entry: Tool.Handler<string> | undefined = context.mapUnsafe.get(tool.id)
    return entry !== undefined
      ? Effect.succeedSome(entry)
      : Effect.fail(
          new ToolContract.ToolContractError({
            tool: tool.name,
            part: "handler",
            path: "",
            problem: "no handler found. Provide it where the tool is bound: Layer.provide(toolkit.toLayer({ ... }))"
          })
        )
  })

/**
 * The handler of a tool with the services of the place where the tool is bound under those that the handler's layer
 * captured: what a tool names as `dependencies` is required there, because a body requires nothing.
 */
export const captureHandler = (tool: Tool.Any): ReturnType<typeof handlerOf> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.map(
      handlerOf(tool),
      Option.map((entry) => ({ ...entry, context: Context.merge(context, entry.context) }))
    )
  )

/**
 * A tool that the model provider executes by itself. It is offered to the model
 * and never dispatched.
 */
export const fromProviderTool = (tool: Tool.Any): Effect.Effect<BoundTool, ToolContract.ToolContractError> =>
  Effect.flatMap(ToolContract.fromTool(tool), (contract) =>
    bindContract(contract, {
      kind: "provider",
      tool,
      own: undefined,
      result: undefined,
      needsApproval: () => Effect.succeed(false),
      body: Option.none()
    })
  )

/**
 * A tool without a body: it validates its arguments and its results, and needs a
 * tool runtime that executes it elsewhere.
 */
export const makeStub = (
  contract: ToolContract.ToolContract
): Effect.Effect<BoundTool, ToolContract.ToolContractError> =>
  Effect.flatMap(schemas.doorOf(), (door) => {
    const parameters = compileBehind(door, contract, "parameters", contract.parameters)
    if (Result.isFailure(parameters)) return Effect.fail(parameters.failure)
    const { success } = contract
    const result = success === undefined ? Result.succeed(success) : compileBehind(door, contract, "success", success)
    return Result.isFailure(result)
      ? Effect.fail(result.failure)
      : Effect.succeed(stubOf(contract, parameters.success, result.success))
  })

const stubOf = (
  contract: ToolContract.ToolContract,
  parameters: JsonSchema.JsonSchema,
  result: JsonSchema.JsonSchema | undefined
): BoundTool => {
  const tool = Tool.dynamic(contract.name, {
    description: contract.description,
    parameters: contract.parameters,
    success: Schema.Json,
    failure: Schema.Json,
    failureMode: "return"
  }).annotateMerge(toToolAnnotations(contract.annotations))
  return {
    contract,
    kind: "stub",
    tool: Object.assign(tool, { parametersSchema: convertSchema.checkedBy(parameters) }),
    parameters,
    own: undefined,
    result,
    needsApproval: () => Effect.succeed(contract.approval !== "never"),
    body: Option.none()
  }
}

const compileSchema = (
  contract: ToolContract.ToolContract,
  part: "parameters" | "success",
  json: Json.JsonObject
): Effect.Effect<JsonSchema.JsonSchema, ToolContract.ToolContractError> =>
  Effect.flatMap(schemas.doorOf(), (door) => Effect.fromResult(compileBehind(door, contract, part, json)))

const compileBehind = (
  door: schemas.Door,
  { name: tool }: ToolContract.ToolContract,
  part: "parameters" | "success",
  json: Json.JsonObject
): Result.Result<JsonSchema.JsonSchema, ToolContract.ToolContractError> =>
  Result.mapError(schemas.makeBehind(door, json), (refusal) => {
    const { message, path } = new JsonSchema.JsonSchemaError({
      what: `${part} of tool ${JSON.stringify(tool)}`,
      ...refusal
    })
    return new ToolContract.ToolContractError({ tool, part, path, problem: message })
  })

/** The stricter of the contract's approval and the tool's. */
const makeApproval = (
  contract: ToolContract.ToolContract,
  tool: Tool.Any,
  captured: Context.Context<never>
): NeedsApproval => {
  if (contract.approval === "always") return () => Effect.succeed(true)
  const ask = tool.needsApproval
  // the contract leaves the decision to code that is not here
  if (typeof ask !== "function") return () => Effect.succeed(contract.approval === "dynamic")
  const decode = makeDecoder(tool)
  const services = servicesOver(captured)
  return (args, context) =>
    Effect.flatMap(decode(args), (decoded) =>
      forkAndWait<boolean, ToolResult.Failure>((current, timeouts, done) =>
        fork(
          Effect.suspend(() => {
            const answer: unknown = ask(decoded, { toolCallId: context.callId, messages: context.messages })
            if (typeof answer === "boolean") return Effect.succeed(answer)
            // Sound: an Effect that a policy returns answers true or false, by its type.
            return Effect.isEffect(answer) ? (answer as Effect.Effect<boolean>) : Effect.die(notAPolicy)
          }),
          services(current, context.context),
          timeouts,
          Duration.toMillis(contract.timeout),
          (exit) => {
            if (exit === "timeout") return done(Effect.fail(lateApproval(contract.timeout)))
            done(Exit.isSuccess(exit) ? exit : Effect.flatMap(unhandledFailure(tool.name, exit.cause), Effect.fail))
          }
        )
      )
    )
}

const notAPolicy = new Error("needsApproval: expected true, false or an Effect of them, got something else.")

const lateApproval = (timeout: Duration.Duration): ToolResult.Failure =>
  ToolResult.failure(
    "timeout_error",
    `Deciding whether the call needs an approval took longer than ${Duration.toSeconds(timeout)} seconds`
  )

type DecodeArguments = (args: Json.JsonObject) => Effect.Effect<unknown, ToolResult.Failure>

type RunSchema = (value: unknown, options?: SchemaAST.ParseOptions) => Effect.Effect<unknown, Schema.SchemaError>

// Sound: every call provides the services that a tool's schemas need, with those of the handler's layer
const decodeJson = (schema: Schema.Top) => Schema.decodeUnknownEffect(Schema.toCodecJson(schema)) as RunSchema

// Sound: the same services
const encodeJson = (schema: Schema.Top) => Schema.encodeUnknownEffect(Schema.toCodecJson(schema)) as RunSchema

const invalidArguments = (tool: string, problems: string): ToolResult.Failure =>
  ToolResult.failure("validation_error", `Invalid arguments for tool ${JSON.stringify(tool)}: ${problems}`)

/** Arguments as the handler takes them. */
const makeDecoder = (tool: Tool.Any): DecodeArguments => {
  if (convertSchema.isVoid(tool.parametersSchema)) return () => Effect.undefined
  const decode = decodeJson(tool.parametersSchema)
  return (args) =>
    Effect.mapError(decode(args, { errors: "all" }), (error) =>
      invalidArguments(tool.name, PayloadError.render("", plainJson.problemsFromSchemaError(error, args)))
    )
}

/** The services that the handler's layer captured, over those of a call, with the context of the run. */
const servicesOver = (captured: Context.Context<never>): Services => {
  const over = callContext.over(captured)
  return (context, runContext, call) =>
    call === undefined
      ? Context.add(over(context), RunContext.RunContext, runContext)
      : call.enter(Context.add(callContext.madeInRun(context, over), RunContext.RunContext, runContext))
}

const failWithCause = (message: string, cause: Cause.Cause<unknown>): Effect.Effect<ToolResult.Failure> =>
  Effect.withFiber((fiber) => {
    const current = fiber.getRef(CurrentCall)
    if (current !== undefined) current.cause = cause
    return Effect.succeed(ToolResult.failure("execution_error", message))
  })

const makeEncoder = (schema: Schema.Top): ((value: unknown) => Effect.Effect<Schema.Json, unknown>) => {
  const encode = encodeJson(schema)
  const isUninformative = convertSchema.isUninformative(schema)
  return (value) =>
    // a schema without information about its values is Void if nothing was returned
    isUninformative && value === undefined
      ? Effect.succeed(null)
      : Effect.flatMapEager(encode(value), (json) => Json.check(json, { what: "result" }))
}

/** Content from parts of an `effect/ai` prompt, if there are any. */
export const fromPrompt = (
  parts: ReadonlyArray<Prompt.TextPart | Prompt.FilePart>
): ToolResult.NonEmptyContent | undefined => {
  const [first, ...rest] = parts.map(fromPromptPart)
  return first === undefined ? undefined : [first, ...rest]
}

/** A text or file part of an `effect/ai` prompt as content. */
export const fromPromptPart = (part: Prompt.TextPart | Prompt.FilePart): ToolResult.Content => {
  const options = Object.keys(part.options).length === 0 ? undefined : part.options
  return part.type === "text"
    ? ToolResult.textPart(part.text, options)
    : ToolResult.filePart({ mediaType: part.mediaType, data: part.data, fileName: part.fileName, options })
}

/** A value as the model reads it. */
const asText = (value: Schema.Json): string => (typeof value === "string" ? value : JSON.stringify(value))

const nonEmptyText = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined

/**
 * A failure of the handler's own failure schema: its type and its message. `decoded` is the error that `value` encodes: its
 * class may make a message of what is encoded, and the handler's own text is not in it.
 */
const declaredFailure = (decoded: unknown, value: Schema.Json): ToolResult.Failure => {
  const fields = Json.isObject(value) ? value : {}
  const textOf = (key: string) => nonEmptyText(plainJson.own(fields, key))
  const message = textOf("message") ?? (decoded instanceof Error ? nonEmptyText(decoded.message) : undefined)
  return ToolResult.failure(textOf("type") ?? textOf("_tag") ?? "execution_error", message ?? asText(value), value)
}

const aiReason = (error: unknown): string | undefined => {
  if (AiError.isAiError(error)) return error.reason._tag
  return AiError.isAiErrorReason(error) ? error._tag : undefined
}

const isBeyondLimits = (error: unknown): error is PayloadError.PayloadError =>
  error instanceof PayloadError.PayloadError && (error.reason._tag === "TooLarge" || error.reason._tag === "TooDeep")

const makeBody = (tool: Tool.Any, handler: Tool.Handler<string>): Body => {
  const name = JSON.stringify(tool.name)
  const decode = makeDecoder(tool)
  const encodeSuccess = makeEncoder(tool.successSchema)
  const declaresFailures = !convertSchema.isUninformative(tool.failureSchema)
  const encodeFailure = makeEncoder(tool.failureSchema)
  const decodeFailure = decodeJson(tool.failureSchema)

  const unencodable = (error: unknown) =>
    failWithCause(
      isBeyondLimits(error)
        ? `Tool ${name} returned more than Limits allow. ${error.message}`
        : `Tool ${name} returned a value that does not fit its success schema`,
      Cause.fail(error)
    )

  const succeed = (value: unknown): Effect.Effect<ToolResult.ToolResult> =>
    Effect.matchEffect(encodeSuccess(value), {
      onFailure: unencodable,
      onSuccess: (json) => {
        const content = tool.toModelOutput === undefined ? undefined : fromPrompt(tool.toModelOutput(value))
        return Effect.succeed(ToolResult.success(json, content))
      }
    })

  const fail = (error: unknown): Effect.Effect<ToolResult.ToolResult> => {
    const result = carriedResult(error)
    if (result !== undefined) return Effect.succeed(result)
    const reason = aiReason(error)
    if (reason !== undefined) return failWithCause(`Tool ${name} failed with ${reason}`, Cause.fail(error))
    if (!declaresFailures) return failWithCause(`Tool ${name} failed in a way it does not declare`, Cause.fail(error))
    return Effect.matchEffect(encodeFailure(error), {
      onFailure: () =>
        failWithCause(`Tool ${name} failed with a value that does not fit its failure schema`, Cause.fail(error)),
      onSuccess: (json) =>
        Effect.map(
          Effect.orElseSucceed(decodeFailure(json), () => undefined),
          (decoded) => declaredFailure(decoded, json)
        )
    })
  }

  const perform = (decoded: unknown, call: CallContext): Effect.Effect<ToolResult.ToolResult> => {
    // a preliminary result that does not encode spoils the final one
    let spoiled: Effect.Effect<ToolResult.Failure> | undefined
    const preliminary = (value: unknown) => {
      const carried = carriedResult(value)
      if (carried?._tag === "Success") return call.progress(carried)
      return Effect.matchEffect(encodeSuccess(value), {
        onFailure: (error) =>
          Effect.sync(() => {
            spoiled = unencodable(error)
          }),
        onSuccess: (json) => call.progress(ToolResult.success(json))
      })
    }
    // Sound: the handler runs with `services`; `Tool.Handler` does not track what it requires.
    const handled = handler.handler(decoded, { toolCallId: call.callId, preliminary }) as Effect.Effect<
      unknown,
      unknown
    >
    return Effect.matchEffect(handled, { onFailure: fail, onSuccess: (value) => spoiled ?? succeed(value) })
  }

  const services = servicesOver(handler.context)
  const run = (args: Json.JsonObject, call: CallContext) =>
    Effect.matchEffect(decode(args), {
      onFailure: Effect.succeed,
      onSuccess: (decoded) => perform(decoded, call)
    })
  const body = (args: Json.JsonObject, call: CallContext) =>
    Effect.updateContext(run(args, call), (context: Context.Context<never>) => services(context, call.context))
  return Object.assign(body, { run, services })
}

/**
 * A tool as the model sees it. Its calls are executed by a tool runtime, so its
 * types are unknown.
 */
type OfferedTool = Tool.Tool<
  string,
  {
    readonly parameters: Schema.Codec<unknown>
    readonly success: typeof Schema.Json
    readonly failure: typeof Schema.Json
    readonly failureMode: "return"
  }
>

/**
 * The tools of one run.
 */
export interface ToolSet {
  /**
   * By canonical name, in the order they were given.
   */
  readonly tools: ReadonlyMap<string, BoundTool>
  /**
   * The name under which the model knows the tool. A name that is not in the set,
   * as a conversation from elsewhere may hold, is written by the same rule.
   */
  readonly providerName: (canonical: string) => string
  /**
   * The tool's own name for a name that came from the model. An unknown name is
   * returned as it is.
   */
  readonly canonicalName: (provider: string) => string
  /**
   * The tools that the model is offered. Built once, when a model is first called; never used to execute a call.
   */
  readonly toolkit: Toolkit.WithHandler<Record<string, OfferedTool>>
}

/**
 * Two tools cannot be distinguished: they have the same name, or names that become
 * the same for the provider.
 */
export class ToolNameError extends Schema.TaggedError<ToolNameError>("effect-emissary/tool/ToolNameError")(
  "ToolNameError",
  {
    names: Schema.Tuple([Schema.String, Schema.String]),
    providerName: Schema.String
  }
) {
  override get message(): string {
    const [first, second] = this.names
    return first === second
      ? `Two tools are named ${JSON.stringify(first)}. Rename one of them.`
      : `The tools ${JSON.stringify(first)} and ${JSON.stringify(second)} would both be ${JSON.stringify(this.providerName)} for the model. Rename one of them.`
  }
}

/**
 * Puts tools together.
 *
 * **Details**
 *
 * The provider name replaces `/` with `__`, escapes other characters outside
 * `A-Z a-z 0-9 _ -`, and shortens to 64 characters with a hash at the end. Tools
 * that the provider executes keep their names.
 */
export const makeSet = Effect.fnUntraced(function* (
  tools: Iterable<BoundTool>
): Effect.fn.Return<ToolSet, ToolNameError> {
  const byName = new Map<string, BoundTool>()
  const toProvider = new Map<string, string>()
  const toCanonical = new Map<string, string>()
  for (const tool of tools) {
    const { name } = tool.contract
    const providerName = tool.kind === "provider" ? name : encodeName(name)
    const taken = toCanonical.get(providerName)
    if (taken !== undefined) return yield* new ToolNameError({ names: [taken, name], providerName })
    byName.set(name, tool)
    toProvider.set(name, providerName)
    toCanonical.set(providerName, name)
  }
  const providerName = (canonical: string) => toProvider.get(canonical) ?? encodeName(canonical)
  return {
    tools: byName,
    providerName,
    canonicalName: (provider) => toCanonical.get(provider) ?? provider,
    get toolkit() {
      const offers = Array.from(byName.values(), (tool) => offerTool(providerName(tool.contract.name), tool))
      const toolkit: ToolSet["toolkit"] = {
        tools: Object.fromEntries(offers.map((tool) => [tool.name, tool])),
        handle: (name) =>
          Effect.die(new Error(`the tool ${JSON.stringify(name)} is executed by the tool runtime, not by its toolkit`))
      }
      Object.defineProperty(this, "toolkit", { value: toolkit })
      return toolkit
    }
  }
})

const maxNameLength = 64

const tailLength = 12

const escapeName = (name: string): string =>
  name
    .replaceAll("/", "__")
    .replaceAll(/[^A-Za-z0-9_-]/gu, (character) => `_x${(character.codePointAt(0) ?? 0).toString(16)}_`)

/** `/` as `__`, other characters by code point, too long a name cut and closed with a digest of the whole. */
const encodeName = (name: string): string => {
  if (/^[\w-]{1,64}$/.test(name)) return name
  const escaped = escapeName(name)
  if (escaped.length <= maxNameLength) return escaped
  const tail = Hex.encode(sha256(new TextEncoder().encode(name))).slice(0, tailLength)
  return `${escaped.slice(0, maxNameLength - tailLength - 1)}_${tail}`
}

// models cache what they derive from a tool by its identity, so the same tool is offered as the same object
const knownOffers = new WeakMap<
  Tool.Any,
  { readonly contract: ToolContract.ToolContract; readonly tool: OfferedTool }
>()

const offerTool = (name: string, bound: BoundTool): OfferedTool => {
  const known = knownOffers.get(bound.tool)
  if (known?.contract === bound.contract) return known.tool
  const tool = makeOfferedTool(name, bound)
  knownOffers.set(bound.tool, { contract: bound.contract, tool })
  return tool
}

/** One object with both halves: the JSON Schema to show, the Schema for adapters that ask for one. */
const makeOfferedTool = (name: string, bound: BoundTool): OfferedTool => {
  // a provider-defined tool is known to its provider's adapter, which wants it as it was made
  if (Tool.isProviderDefined(bound.tool)) return bound.tool as OfferedTool
  const { annotations, description, parameters } = bound.contract
  const strict = annotations.strict !== false && JsonSchema.isStrict(parameters)
  const tool = Tool.dynamic(name, {
    description,
    parameters,
    success: Schema.Json,
    failure: Schema.Json,
    failureMode: "return"
  })
    .annotateMerge(bound.tool.annotations)
    .annotate(Tool.Strict, strict)
  return Object.assign(tool, { parametersSchema: convertSchema.checkedBy(bound.parameters) })
}

/**
 * One checked call.
 *
 * **Details**
 *
 * `execute` is the local body with the timeout inside; it never fails, and a
 * defect of the handler is an `unhandled_error` result. It is absent for a stub.
 * `deadline`, in milliseconds since the epoch, is
 * when the call has to be over: a moment after the run itself stops waiting.
 */
export interface BoundCall {
  readonly runId: string
  readonly id: string
  readonly contract: ToolContract.ToolContract
  readonly arguments: Json.JsonObject
  readonly context: Json.JsonObject
  readonly timeout: Duration.Duration
  readonly deadline: number | undefined
  readonly result: JsonSchema.JsonSchema | undefined
  readonly execute: Option.Option<Effect.Effect<ToolResult.ToolResult>>
}

/**
 * A call as the model made it: `name` is the canonical name of the tool,
 * `arguments` JSON or JSON text.
 */
interface CallRequest {
  readonly id: string
  readonly name: string
  readonly arguments: Schema.Json
}

/**
 * The facts that the run adds to the call.
 *
 * **Details**
 *
 * `timeout` overrides the timeout of the tool. `deadline`, in milliseconds since
 * the epoch, shortens it.
 */
export interface PrepareOptions {
  readonly runId: string
  readonly context?: Json.JsonObject | undefined
  readonly timeout?: Duration.Input | undefined
  readonly deadline?: number | undefined
  readonly progress?: ((result: ToolResult.Success) => Effect.Effect<void>) | undefined
}

/**
 * Finds the tool and checks the arguments, before anything runs.
 *
 * **Details**
 *
 * The failures are results for the model: `unknown_tool` lists the known names,
 * `validation_error` all problems with their paths. Empty text counts as `{}`.
 */
export const prepare = (
  set: ToolSet,
  request: CallRequest,
  options: PrepareOptions
): Effect.Effect<Result.Result<BoundCall, ToolResult.Failure>> => {
  const tool = set.tools.get(request.name)
  if (tool === undefined)
    return Effect.succeed(Result.fail(unknownToolFailure(request.name, Array.from(set.tools.keys()))))
  if (tool.kind === "provider") return Effect.succeed(Result.fail(providerToolFailure(request.name)))
  return Effect.withFiber((fiber) => {
    const checked = checkArguments(tool, request.arguments, fiber.getRef(Limits.Limits))
    return Effect.succeed(Result.map(checked, (args) => bindCall(tool, request.id, args, options)))
  })
}

const bindCall = (tool: BoundTool, id: string, checked: Json.JsonObject, options: PrepareOptions): BoundCall => {
  const { deadline, runId } = options
  const context = options.context ?? {}
  const timeout = options.timeout === undefined ? tool.contract.timeout : Duration.fromInputUnsafe(options.timeout)
  const call = { runId, callId: id, context, deadline, progress: options.progress ?? ignoreProgress }
  return {
    runId,
    id,
    contract: tool.contract,
    arguments: checked,
    context,
    timeout,
    deadline,
    result: tool.result,
    execute: Option.map(tool.body, (body) => executeBody(tool.contract.name, timeout, body, checked, call))
  }
}

const ignoreProgress = () => Effect.void

const unknownToolFailure = (name: string, known: ReadonlyArray<string>) =>
  ToolResult.failure(
    "unknown_tool",
    known.length === 0
      ? `Unknown tool ${base.quote(name)}. There are no tools.`
      : `Unknown tool ${base.quote(name)}. Known tools: ${known.join(", ")}.`
  )

const providerToolFailure = (name: string) =>
  ToolResult.failure(
    "execution_error",
    `Tool ${JSON.stringify(name)} is executed by the model provider and cannot be called here.`
  )

/** Arguments as the model wrote them; models write `null`, or nothing, for none. */
const parseArguments = (
  value: Schema.Json,
  limits: plainJson.Limits
): Result.Result<Schema.Json, PayloadError.Reason> => {
  if (typeof value !== "string") return Result.succeed(value ?? {})
  if (value.trim() === "") return Result.succeed({})
  return Result.map(plainJson.parseText(value, limits), (json) => json ?? {})
}

const checkArguments = (
  { contract, own, parameters }: BoundTool,
  value: Schema.Json,
  limits: plainJson.Limits
): Result.Result<Json.JsonObject, ToolResult.Failure> => {
  const refuse = (problems: string) => Result.fail(invalidArguments(contract.name, problems))
  const parsed = parseArguments(value, limits)
  if (Result.isFailure(parsed)) {
    return refuse(new PayloadError.PayloadError({ what: "tool arguments", reason: parsed.failure }).message)
  }
  const json = parsed.success
  if (!Predicate.isObject(json)) return refuse(`expected a JSON object, got ${plainJson.kindOf(json)}`)
  const options = { strict: contract.annotations.strict === true, coerce: true, limits }
  const first = own === undefined ? Result.succeed<Schema.Json>(json) : JsonSchema.validate(own, json, options)
  const checked = Result.flatMap(first, (fitting) => JsonSchema.validate(parameters, fitting, options))
  if (Result.isFailure(checked)) return refuse(PayloadError.render("", checked.failure))
  // Sound: the interpreter returns an object for an object
  return Result.succeed(checked.success as Json.JsonObject)
}

/** The result of a call that took too long, the same wherever the clock ran. */
export const timeoutFailure = (timeout: Duration.Duration): ToolResult.Failure => {
  const seconds = Duration.toSeconds(timeout)
  return ToolResult.failure(
    "timeout_error",
    `Tool execution timed out after ${seconds} ${seconds === 1 ? "second" : "seconds"}`
  )
}

/** All that a model and a stored conversation learn of a defect, in whatever process it happened. */
const unexpectedFailure = ToolResult.failure(
  "unhandled_error",
  "The tool failed unexpectedly. The log has the details."
)

/** A handler or a runtime failed unexpectedly. The cause is in the log. */
const unhandledFailure = (
  name: string,
  cause: Cause.Cause<unknown>,
  call?: CallUnderWay
): Effect.Effect<ToolResult.Failure> => {
  if (call !== undefined) call.cause = cause
  return Effect.as(Effect.logError(`Tool ${JSON.stringify(name)} failed unexpectedly`, cause), unexpectedFailure)
}

/** The same failure with the class and the text of the defect. */
const describeFailure = (result: ToolResult.ToolResult, cause: Cause.Cause<unknown> | undefined) =>
  cause !== undefined && result._tag === "Failure" && result.type === unexpectedFailure.type
    ? { ...result, message: `Error executing tool: ${describeCause(cause)}` }
    : result

/** The milliseconds that a call may take: its timeout, cut short by the deadline of the run. */
const timeLeft = ({ deadline, timeout }: Pick<BoundCall, "timeout" | "deadline">, clock: Clock.Clock): number => {
  const millis = Duration.toMillis(timeout)
  return deadline === undefined ? millis : Math.min(millis, Math.max(0, deadline - clock.currentTimeMillisUnsafe()))
}

export const remainingTime = (call: Pick<BoundCall, "timeout" | "deadline">): Effect.Effect<Duration.Duration> =>
  Effect.clockWith((clock) => Effect.succeed(Duration.millis(timeLeft(call, clock))))

/** The timeouts of the calls of a batch. One fiber sleeps until the first of them. */
class Timeouts {
  /** The time of each, in nanoseconds of the monotonic clock. */
  readonly due = new Map<() => void, bigint>()
  sleeper: Fiber.Fiber<void> | undefined
  wakesAt = 0n

  add(context: Context.Context<never>, millis: number, ring: () => void): void {
    if (millis === Infinity) return
    const clock = Context.get(context, Clock.Clock)
    const at = clock.monotonicTimeNanosUnsafe() + BigInt(Math.round(millis * 1_000_000))
    this.due.set(ring, at)
    if (this.sleeper !== undefined && at >= this.wakesAt) return
    this.sleeper?.interruptUnsafe()
    this.sleeper = Effect.runForkWith(context)(this.watch(clock))
  }

  delete(ring: () => void): void {
    if (!this.due.delete(ring) || this.due.size > 0) return
    this.sleeper?.interruptUnsafe()
    this.sleeper = undefined
  }

  /** Rings those whose time has come, and sleeps until the next. */
  watch(clock: Clock.Clock): Effect.Effect<void> {
    return Effect.suspend(() => {
      const now = clock.monotonicTimeNanosUnsafe()
      let next: bigint | undefined
      for (const [ring, at] of this.due) {
        if (at <= now) {
          this.due.delete(ring)
          ring()
        } else if (next === undefined || at < next) next = at
      }
      if (next === undefined) {
        this.sleeper = undefined
        return Effect.void
      }
      this.wakesAt = next
      return Effect.andThen(clock.sleep(Duration.nanos(next - now)), this.watch(clock))
    })
  }
}

/**
 * Runs an effect in a fiber of its own, so that neither its timeout nor its own interruption reaches the one that waits
 * for it. A fiber that resists interruption is waited for, and has timed out nevertheless. The fiber is returned if it
 * still runs.
 */
const fork = <A>(
  effect: Effect.Effect<A>,
  context: Context.Context<never>,
  timeouts: Timeouts,
  millis: number,
  done: (exit: Exit.Exit<A> | "timeout") => void
): Fiber.Fiber<A> | undefined => {
  const fiber = Effect.runForkWith(context)(effect)
  const exit = fiber.pollUnsafe()
  if (exit !== undefined) return void done(exit)
  let isLate = false
  const giveUp = () => {
    isLate = true
    fiber.interruptUnsafe()
  }
  timeouts.add(context, millis, giveUp)
  fiber.addObserver((exit) => {
    timeouts.delete(giveUp)
    done(isLate ? "timeout" : exit)
  })
  return fiber
}

/** Begins something, and calls `done` with what comes after it. The fiber is returned if it still runs. */
type Begin<A, E = never> = (
  context: Context.Context<never>,
  timeouts: Timeouts,
  done: (result: Effect.Effect<A, E>) => void,
  inBatch?: CallUnderWay
) => Fiber.Fiber<unknown> | undefined

const forkAndWait = <A, E = never>(begin: Begin<A, E>): Effect.Effect<A, E> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.callback<A, E>((resume) => {
      const timeouts = Context.get(context, CurrentCall)?.timeouts ?? new Timeouts()
      const fiber = begin(context, timeouts, resume)
      return fiber && Fiber.interrupt(fiber)
    })
  )

/** The execution of a body here. The batch of `inBatch` begins it without the Effect. */
interface LocalExecution extends Effect.Effect<ToolResult.ToolResult> {
  readonly begin: Begin<ToolResult.ToolResult>
}

const isLocalExecution = (effect: Effect.Effect<ToolResult.ToolResult>): effect is LocalExecution =>
  Predicate.hasProperty(effect, "begin")

const executeBody = (
  name: string,
  timeout: Duration.Duration,
  body: Body,
  args: Json.JsonObject,
  call: CallContext
): LocalExecution => {
  const { run = body, services = identity } = body
  const begin: LocalExecution["begin"] = (context, timeouts, done, inBatch) => {
    const current = inBatch ?? Context.get(context, CurrentCall)
    if (current !== undefined) current.cause = undefined
    const millis = timeLeft({ timeout, deadline: call.deadline }, Context.get(context, Clock.Clock))
    // the caller has given up: a handler must not act now, not even one that would finish at once
    if (millis === 0) return void done(Effect.succeed(timeoutFailure(Duration.zero)))
    const effect = Effect.suspend(() => run(args, call))
    return fork(effect, services(context, call.context, inBatch), timeouts, millis, (exit) => {
      if (exit === "timeout") return done(Effect.succeed(timeoutFailure(Duration.millis(millis))))
      if (Exit.isFailure(exit)) return done(unhandledFailure(name, exit.cause, current))
      if (current !== undefined) current.result = exit.value
      done(exit)
    })
  }
  return Object.assign(forkAndWait(begin), { begin })
}

/** The time that a caller waits beyond the timeout, which the other side enforces. */
export const defaultMargin: Duration.Input = "5 seconds"

/** Executes a call elsewhere, and stops waiting some time after its owner should have given up. */
export const dispatchWithTimeout = (
  call: BoundCall,
  margin: Duration.Duration,
  dispatch: (call: BoundCall) => Effect.Effect<ToolResult.ToolResult>
): Effect.Effect<ToolResult.ToolResult> =>
  forkAndWait((context, timeouts, done) => {
    const millis = timeLeft(call, Context.get(context, Clock.Clock))
    const dispatched = Effect.suspend(() => dispatch(call))
    return fork(dispatched, context, timeouts, millis + Duration.toMillis(margin), (exit) =>
      done(exit === "timeout" ? Effect.succeed(timeoutFailure(Duration.millis(millis))) : exit)
    )
  })

const interruptedFailure = ToolResult.failure("interrupted", "The run was interrupted while the tool was executing")

/** Results that come from elsewhere are judged by the contract; ours were encoded by it. */
const checkResult = (call: BoundCall, result: ToolResult.ToolResult): ToolResult.ToolResult => {
  if (call.result === undefined || result._tag === "Failure") return result
  const checked = JsonSchema.validate(call.result, result.value)
  if (Result.isSuccess(checked)) return { ...result, value: checked.success }
  return ToolResult.failure(
    "execution_error",
    `The result of tool ${JSON.stringify(call.contract.name)} does not fit its contract: ${PayloadError.render("", checked.failure)}`
  )
}

const hasForm = Schema.is(ToolResult.ToolResult)

/** A runtime of a user may return anything. The result of a body is one. */
const isResult = (result: ToolResult.ToolResult, ofBody: ToolResult.ToolResult | undefined): boolean =>
  Predicate.isObject(result) && (result === ofBody || hasForm(result))

const wrongResult = (tool: string): ToolResult.Failure =>
  ToolResult.failure(
    "invalid_result",
    `Expected a tool result from the tool runtime for tool ${JSON.stringify(tool)}, got something else. Return what ToolResult.success or ToolResult.failure makes.`
  )

/** The span of a call. A tracer that throws makes the call fail. */
const openSpan = (call: BoundCall, context: Context.Context<never>): Exit.Exit<Tracer.Span> | undefined => {
  const attributes = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": call.contract.name,
    "gen_ai.tool.call.id": call.id
  }
  const opened = Effect.makeSpan(`execute_tool ${call.contract.name}`, { attributes })
  return Effect.runForkWith(context)(opened).pollUnsafe()
}

/** Ends the span of a call, and checks its result. */
const close = (
  { around, call, result: ofBody, span }: CallUnderWay,
  exit: Exit.Exit<ToolResult.ToolResult>
): Exit.Exit<ToolResult.ToolResult> => {
  const closed = Result.try((): Exit.Exit<ToolResult.ToolResult> => {
    const result = Exit.isSuccess(exit) && isResult(exit.value, ofBody) ? exit.value : undefined
    if (result?._tag === "Failure") span.attribute("error.type", result.type)
    const isTimed = Context.get(around, References.TracerTimingEnabled)
    const now = isTimed ? Context.get(around, Clock.Clock).currentTimeNanosUnsafe() : 0n
    if (span.status._tag === "Started") span.end(now, exit)
    if (Exit.isFailure(exit)) return exit
    return Exit.succeed(result === undefined ? wrongResult(call.contract.name) : checkResult(call, result))
  })
  return Result.getOrElse(closed, Exit.die)
}

/**
 * Observers of a batch, and its treatment of defects.
 */
interface BatchOptions<E = never, R = never> {
  /** With `false` the call does not start after all. */
  readonly onStarted?: ((callId: string) => Effect.Effect<unknown, E, R>) | undefined
  readonly onFinished?:
    | ((
        callId: string,
        result: ToolResult.ToolResult,
        duration: Duration.Duration,
        cause: Cause.Cause<unknown> | undefined
      ) => Effect.Effect<void, E, R>)
    | undefined
  /**
   * With `"describe"` the result of a call that had a defect names its class and its
   * text. With `"die"` the defect is raised again after all calls of the batch have
   * ended. Default `"result"`.
   */
  readonly defects?: "result" | "describe" | "die" | undefined
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
  calls: ReadonlyArray<BoundCall>,
  options: BatchOptions<E, R> = {}
): Effect.Effect<ReadonlyArray<ToolResult.ToolResult>, E, R> =>
  Effect.withFiber((fiber) => {
    // Spans go nowhere without a tracer
    const quiet = fiber.cache.tracer === undefined ? identity<Tracer.Span> : quietSpan
    // Sound: the services of the observers are those that the Effect requires
    const context = fiber.context as Context.Context<R>
    return Effect.callback((resume) => runBatch(calls, options, context, quiet, resume))
  })

/** An Effect that is an Exit needs no fiber. */
export const isDone = <A, E, R>(effect: Effect.Effect<A, E, R>): effect is Exit.Exit<A, E> => Exit.isExit(effect)

/**
 * Runs a batch. Each call has one fiber while its code runs, and another where an observer has to wait. The Effect that is
 * returned interrupts all of them and waits.
 */
const runBatch = <E, R>(
  calls: ReadonlyArray<BoundCall>,
  { defects, onFinished, onStarted }: BatchOptions<E, R>,
  context: Context.Context<R>,
  quiet: (span: Tracer.Span) => Tracer.Span,
  resume: (end: Effect.Effect<ReadonlyArray<ToolResult.ToolResult>, E>) => void
): Effect.Effect<void> => {
  const runtime = Context.get(context, ToolRuntime)
  const clock = Context.get(context, Clock.Clock)
  const atOnce = runtime.concurrency === "unbounded" ? Infinity : Math.max(1, runtime.concurrency || 1)
  const timeouts = new Timeouts()
  const results: Array<ToolResult.ToolResult> = []
  const died: Array<Cause.Cause<unknown>> = []
  /** The newest fiber of each call. */
  const fibers: Array<Fiber.Fiber<unknown, unknown>> = []
  let next = 0
  let running = 0
  let isStarting = false
  let isStopped = false
  let failure: Cause.Cause<E> | undefined
  let onStopped = constVoid

  const stop = (): void => {
    isStopped = true
    for (const fiber of fibers) fiber?.interruptUnsafe()
  }

  const keep = (index: number, fiber: Fiber.Fiber<unknown, unknown>): void => {
    fibers[index] = fiber
    if (isStopped) fiber.interruptUnsafe()
  }

  const watch = <A, F>(index: number, fiber: Fiber.Fiber<A, F>, then: (exit: Exit.Exit<A, F>) => void): void => {
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return then(exit)
    fiber.addObserver(then)
    keep(index, fiber)
  }

  /** Runs what an interruption of the batch does not cut off. */
  const perform = <A, F>(
    index: number,
    make: () => Effect.Effect<A, F, R>,
    then: (exit: Exit.Exit<A, F>) => void
  ): void => {
    const effect = Result.getOrElse(Result.try(make), Exit.die)
    if (isDone(effect)) return then(effect)
    watch(index, Effect.runForkWith(context)(effect, { uninterruptible: true }), then)
  }

  const start = (): void => {
    if (isStarting) return
    isStarting = true
    for (let call = calls[next]; call !== undefined; call = calls[next]) {
      if (isStopped || running >= atOnce) break
      next += 1
      begin(call, next - 1)
    }
    isStarting = false
    if (running > 0) return
    if (failure !== undefined) resume(Effect.failCause(failure))
    else if (!isStopped) resume(outcome())
    onStopped()
  }

  const outcome = (): Effect.Effect<ReadonlyArray<ToolResult.ToolResult>> => {
    const first = defects === "die" ? died.find((cause) => cause !== undefined) : undefined
    return first === undefined
      ? Effect.succeed(results)
      : Effect.failCause(Cause.fromReasons<never>(first.reasons.filter(Cause.isDieReason)))
  }

  const end = (exit: Exit.Exit<unknown, E>): void => {
    if (Exit.isFailure(exit) && !(isStopped && Cause.hasInterruptsOnly(exit.cause))) {
      failure = failure === undefined ? exit.cause : Cause.combine(failure, exit.cause)
      stop()
    }
    running -= 1
    start()
  }

  const begin = (call: BoundCall, index: number): void => {
    running += 1
    if (onStarted === undefined) return execute(call, index)
    perform(
      index,
      () => onStarted(call.id),
      (exit) => (Exit.isSuccess(exit) && exit.value !== false ? execute(call, index) : end(exit))
    )
  }

  const execute = (call: BoundCall, index: number): void => {
    const { name } = call.contract
    const startedAt = clock.currentTimeMillisUnsafe()

    const finish = (settled: ToolResult.ToolResult, cause: Cause.Cause<unknown> | undefined): void => {
      const duration = Duration.millis(clock.currentTimeMillisUnsafe() - startedAt)
      const result = defects === "describe" ? describeFailure(settled, cause) : settled
      if (cause !== undefined && Cause.hasDies(cause)) died[index] = cause
      results[index] = result
      if (onFinished === undefined) return end(Exit.void)
      perform(index, () => onFinished(call.id, result, duration, cause), end)
    }

    const settle = (exit: Exit.Exit<ToolResult.ToolResult>, underWay?: CallUnderWay): void => {
      if (isStopped) return finish(interruptedFailure, undefined)
      if (Exit.isSuccess(exit)) return finish(exit.value, exit.value._tag === "Failure" ? underWay?.cause : undefined)
      perform(
        index,
        () => unhandledFailure(name, exit.cause),
        (logged) => (Exit.isSuccess(logged) ? finish(logged.value, exit.cause) : end(logged))
      )
    }

    const opened = isStopped ? undefined : openSpan(call, context)
    if (opened?._tag !== "Success")
      return settle(opened === undefined ? Exit.interrupt() : Exit.failCause(opened.cause))
    const underWay = new CallUnderWay(call, quiet(opened.value), context, timeouts)
    const done = (exit: Exit.Exit<ToolResult.ToolResult>) => settle(close(underWay, exit), underWay)
    const execution = runtime.dispatch === local ? Option.getOrUndefined(call.execute) : undefined
    if (execution === undefined || !isLocalExecution(execution)) {
      const dispatched = Effect.suspend(() => runtime.dispatch(call))
      return watch(index, Effect.runForkWith(underWay.context)(dispatched), done)
    }
    const finished = (result: Effect.Effect<ToolResult.ToolResult>): void => {
      if (isStopped) done(Exit.interrupt())
      else if (isDone(result)) done(result)
      else watch(index, Effect.runForkWith(underWay.context)(result), done)
    }
    const fiber = execution.begin(context, timeouts, finished, underWay)
    if (fiber !== undefined) keep(index, fiber)
  }

  start()
  return Effect.suspend(() => {
    stop()
    const ended =
      running === 0 ? Effect.void : Effect.callback<void>((resume) => void (onStopped = () => resume(Effect.void)))
    return Effect.flatMap(ended, () => (failure === undefined ? Effect.void : Effect.orDie(Effect.failCause(failure))))
  })
}
