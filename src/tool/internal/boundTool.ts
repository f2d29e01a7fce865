/**
 * Tools bound to their handlers, the set that a model is offered, and the check of their calls before anything runs.
 */

import { sha256 } from "@noble/hashes/sha2.js"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
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
import * as jsonLimits from "../../payload/internal/limits.ts"
import { problemsFromSchemaError } from "../../payload/internal/problems.ts"
import { parseText } from "../../payload/internal/textScanner.ts"
import * as jsonValues from "../../payload/internal/values.ts"
import { toWellFormed, wellFormedness } from "../../payload/internal/weigh.ts"
import * as RunContext from "../RunContext.ts"
import * as ToolContract from "../ToolContract.ts"
import * as ToolResult from "../ToolResult.ts"
import * as ToolSettings from "../ToolSettings.ts"
import type * as argumentSources from "./argumentSources.ts"
import * as callContext from "./callContext.ts"
import { ClientSide } from "./clientSide.ts"
import * as requestTerms from "./requestTerms.ts"
import * as toolCall from "./toolCall.ts"
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
  add(ToolSettings.Polls, annotations.polls)
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

/** Compiles the schemas of a tool, which may have the annotation that the other side checks its arguments again. */
const asAnnotated = <A, E>({ annotations }: Tool.Any, compiled: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Context.get(annotations, jsonLimits.IsCheckedAgain)
    ? Effect.provideService(compiled, jsonLimits.IsCheckedAgain, true)
    : compiled

/** The services that the tools of a union require which bring their handlers along. */
export type OwnServices<T> = T extends WithOwnHandler<infer R> ? R : never

/** The services that tools require for each of their calls (`dependencies`). An agent that is a tool names the services of its tools. */
export type CallServicesOf<T> = T extends {
  readonly "~effect-emissary/agent/Agent/Call": { readonly _S: Types.Covariant<infer S> }
}
  ? S
  : Tool.Requirements<T>

/**
 * No service, but the reason why a layer does not compile: a tool requires `S` for each of its calls, and the layer would provide the
 * `S` that it was built with to all of them.
 */
export interface ServiceOfCall<in out S> {
  readonly "a tool requires this service for each call, and a layer has it once: get it where the handlers are made (toLayer), or pass data as context": Types.Invariant<S>
}

/** The requirement of a layer over tools that require `S` for each call. */
export type NoServiceOfCall<S> = [S] extends [never] ? never : ServiceOfCall<S>

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

/** The tool as its calls are where no run waits for their answers. */
const elsewhere = (name: string) =>
  carrierOf(
    ToolResult.failure(
      "execution_error",
      `Tool ${JSON.stringify(name)} is a client-side tool: only the run of an agent or a plan can wait for its answer.`
    )
  )

/** The tool without a handler: a front end makes its calls, or a person answers them. */
export const clientSide = (tool: Tool.Any): unknown => {
  const kind = Context.get(tool.annotations, ClientSide) ?? "call"
  const own = withOwnHandler(tool.annotate(ClientSide, kind), () => Effect.fail(elsewhere(tool.name)))
  const made = Tool.providerDefined({
    id: "emissary.client",
    customName: tool.name,
    providerName: tool.name,
    parameters: tool.parametersSchema,
    success: tool.successSchema,
    failure: Schema.Json
  })(undefined).annotateMerge(own.annotations)
  return Object.assign(made, { [OwnHandlerTypeId]: {} })
}

/**
 * The facts that the need for an approval may depend on.
 */
export interface ApprovalContext {
  readonly callId: string
  readonly context: Json.JsonObject
  readonly messages: ReadonlyArray<Prompt.Message>
  /** The places in which values of the arguments are found; none by default. */
  readonly places?: () => ReadonlyArray<argumentSources.Place>
}

type NeedsApproval = (args: Json.JsonObject, context: ApprovalContext) => Effect.Effect<boolean, ToolResult.Failure>

/** The arguments of a call as a person approves them and the handler receives them, in a run with this context. */
type Normalize = (
  bound: BoundTool,
  args: Json.JsonObject,
  context: Json.JsonObject
) => Effect.Effect<Json.JsonObject, ToolResult.Failure>

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
  /**
   * Applies the decoding defaults and transformations of the tool's Schema to checked arguments. A stub has no Schema, and
   * its arguments stay as they are.
   */
  readonly normalize: Normalize
  readonly body: Option.Option<toolCall.Body>
}

/**
 * Binds a tool to its handler.
 *
 * **Details**
 *
 * The handler is the entry that a toolkit's layer puts into the context under `tool.id`. Arguments are decoded, results
 * and failures encoded, with the JSON form of the tool's schemas. The handler has the services that its layer captured;
 * spans, clock and `RunContext` come from the call.
 *
 * `contract` is the tool's own contract or a contract from elsewhere. From a contract from elsewhere come the
 * description and the words in the parameters. It can shorten the timeout and ask for more approval. Arguments have to
 * fit the parameters of the tool, then the parameters of the contract.
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
    own: given === here ? undefined : yield* asAnnotated(tool, compileSchema(here, "parameters", here.parameters)),
    result: undefined,
    needsApproval: makeApproval(contract, tool, handler.context),
    normalize: makeNormalizer(contract, tool, handler.context),
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
    approval: approvals.findLast((approval) => approval === given.approval || approval === here.approval),
    request: requestTerms.stricter(given, here)
  })

/** From the weakest to the strictest. */
export const approvals = ToolContract.ToolContract.fields.approval.literals

const bindContract = (contract: ToolContract.ToolContract, rest: Omit<BoundTool, "contract" | "parameters">) =>
  Effect.map(
    asAnnotated(rest.tool, compileSchema(contract, "parameters", contract.parameters)),
    (parameters): BoundTool => ({ contract, parameters, ...rest })
  )

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
 * The handler of a tool with two sets of services: the captured services of the handler's layer, and below them the
 * services of the place where the tool is bound: what a tool names as `dependencies` is required there, because a body
 * requires nothing.
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
      normalize: (_, args) => Effect.succeed(args),
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
    const parameters = compileBehind(door, "parameters", contract.parameters)
    if (Result.isFailure(parameters)) return Effect.fail(refusedPart(contract, "parameters", parameters.failure))
    const { success } = contract
    const result = success === undefined ? undefined : compileBehind(door, "success", success)
    return result !== undefined && Result.isFailure(result)
      ? Effect.fail(refusedPart(contract, "success", result.failure))
      : Effect.succeed(stubOf(contract, parameters.success, result?.success))
  })

/** The stub of a tool that is here. */
export const stubFor = (tool: Tool.Any, contract: ToolContract.ToolContract): ReturnType<typeof makeStub> =>
  asAnnotated(tool, makeStub(contract))

/** The Schema of a tool that shows its document itself: a provider's adapter reads arguments with it, as the call does. */
const readBy = (parameters: JsonSchema.JsonSchema) =>
  convertSchema.checkedBy(parameters, { type: "object" }, { coerce: true })

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
    tool: Object.assign(tool, { parametersSchema: readBy(parameters) }),
    parameters,
    own: undefined,
    result,
    needsApproval: (args, about) => asksByData(contract, args, about),
    normalize: (_, args) => Effect.succeed(args),
    body: Option.none()
  }
}

const compileSchema = (
  contract: ToolContract.ToolContract,
  part: "parameters" | "success",
  json: Json.JsonObject
): Effect.Effect<JsonSchema.JsonSchema, ToolContract.ToolContractError> =>
  Effect.flatMap(schemas.doorOf(), (door) =>
    Effect.fromResult(
      Result.mapError(compileBehind(door, part, json), (refusal) => refusedPart(contract, part, refusal))
    )
  )

/** A line for the log about each pattern of a tool's schemas that is not checked here. */
export const uncheckedNotes = (name: string, schemas: ReadonlyArray<JsonSchema.JsonSchema | undefined>) =>
  schemas.flatMap((schema) =>
    (schema?.unchecked ?? []).map(
      ({ path, pattern, problem }) =>
        `Tool ${base.quote(name)}: the pattern ${base.quote(pattern)} at ${base.truncateText(path, 200)} is not checked here, because ${problem}.`
    )
  )

type Part = "parameters" | "success"

const compileBehind = (door: schemas.Door, part: Part, json: Json.JsonObject) =>
  schemas.makeBehind(part === "success" ? { ...door, isCheckedAgain: true } : door, json)

const refusedPart = (
  { name: tool }: ToolContract.ToolContract,
  part: Part,
  refusal: schemas.Refusal
): ToolContract.ToolContractError => {
  const { message, path } = new JsonSchema.JsonSchemaError({
    what: `${part} of tool ${JSON.stringify(tool)}`,
    ...refusal
  })
  return new ToolContract.ToolContractError({ tool, part, path, problem: message })
}

/** The need for an approval as the contract alone has it: code that is not here would ask. */
const asksByData = (
  { approval, parameters, request }: ToolContract.ToolContract,
  args: Json.JsonObject,
  { context, places }: ApprovalContext
): Effect.Effect<boolean> =>
  approval === "dynamic" && request?.when !== undefined
    ? requestTerms.holds(request.when, parameters, { arguments: args, context, places })
    : Effect.succeed(approval !== "never")

/** The stricter of the contract's approval and the tool's. */
const makeApproval = (
  contract: ToolContract.ToolContract,
  tool: Tool.Any,
  captured: Context.Context<never>
): NeedsApproval => {
  const ask = requestTerms.codeOf(tool)
  const byData: NeedsApproval = (args, context) => asksByData(contract, args, context)
  if (contract.approval === "always" || ask === undefined) return byData
  const decode = makeDecoder(tool)
  const within = withinCall(contract, captured)
  const byCode: NeedsApproval = (args, context) =>
    within(
      context.context,
      Effect.flatMap(decode(args), (decoded) => {
        const answer: unknown = ask(decoded, { toolCallId: context.callId, messages: context.messages })
        if (typeof answer === "boolean") return Effect.succeed(answer)
        // Sound: an Effect that a policy returns answers true or false, by its type.
        return Effect.isEffect(answer) ? (answer as Effect.Effect<boolean>) : Effect.die(notAPolicy)
      })
    )
  if (contract.request?.when === undefined) return byCode
  return (args, context) =>
    Effect.flatMap(byData(args, context), (needed) => (needed ? Effect.succeed(true) : byCode(args, context)))
}

/** Runs code of a tool that decides about a call, with the services and the time of its handler. */
const withinCall = (contract: ToolContract.ToolContract, captured: Context.Context<never>) => {
  const services = servicesOver(captured)
  return <A>(runContext: Json.JsonObject, effect: Effect.Effect<A, ToolResult.Failure>) =>
    Effect.contextWith((current: Context.Context<never>) => {
      const inside = services(current, runContext)
      const settled = toolCall.exitWithin(Effect.result(effect), inside, Duration.toMillis(contract.timeout))
      return Effect.flatMap(settled, (exit): Effect.Effect<A, ToolResult.Failure> => {
        if (exit === "timeout") return Effect.fail(lateApproval(contract.timeout))
        return Exit.isSuccess(exit)
          ? Effect.fromResult(exit.value)
          : Effect.flatMap(toolCall.unhandledFailure(contract.name, exit.cause), Effect.fail)
      })
    })
}

/**
 * Finds arguments that decode to the same value as the given ones and show all of it: the encoded value, with the keys that
 * encoding leaves out as the handler has them.
 */
const makeNormalizer = (
  contract: ToolContract.ToolContract,
  tool: Tool.Any,
  captured: Context.Context<never>
): Normalize => {
  if (convertSchema.isVoid(tool.parametersSchema)) return (_, args) => Effect.succeed(args)
  const within = withinCall(contract, captured)
  const codec = base.once(() => {
    const encode = makeEncoder(tool.parametersSchema)
    const show = makeEncoder(Schema.toType(tool.parametersSchema))
    const written = (value: unknown) =>
      Effect.all([Effect.orElseSucceed(encode(value), () => null), Effect.orElseSucceed(show(value), () => null)])
    return { decode: makeDecoder(tool), written }
  })
  const normalized = Effect.fnUntraced(function* (bound: BoundTool, args: Json.JsonObject) {
    const { decode, written } = codec()
    const [encoded, shown] = yield* written(yield* decode(args))
    const limits = yield* Limits.Limits
    for (const candidate of [withMissing(encoded ?? shown, shown), encoded]) {
      if (!Json.isObject(candidate)) continue
      const checked = checkArguments(bound, candidate, limits)
      if (Result.isFailure(checked)) continue
      const again = yield* Effect.option(Effect.flatMap(decode(checked.success), written))
      if (Option.isSome(again) && Equal.equals(again.value, [encoded, shown])) return checked.success
    }
    return yield* Effect.fail(notRepeatable(contract.name))
  })
  return (bound, args, runContext) => within(runContext, normalized(bound, args))
}

/** Adds the members of another value that this one does not have. */
const withMissing = (value: Schema.Json, other: Schema.Json): Schema.Json => {
  if (jsonValues.isArray(value) && jsonValues.isArray(other)) {
    return value.map((item, index) => withMissing(item, other[index] ?? null))
  }
  if (!Json.isObject(value) || !Json.isObject(other)) return value
  const members = Object.entries(value).map(([key, member]) => [
    key,
    withMissing(member, jsonValues.own(other, key) ?? null)
  ])
  return { ...other, ...Object.fromEntries(members) }
}

const notRepeatable = (tool: string): ToolResult.Failure =>
  ToolResult.failure(
    "execution_error",
    `Tool ${JSON.stringify(tool)} was not run: expected parameters that decode to the same value after they were encoded, so that what is approved is what runs. Change the Schema of its parameters.`
  )

const notAPolicy = new Error("needsApproval: expected true, false or an Effect of them, got something else.")

const lateApproval = (timeout: Duration.Duration): ToolResult.Failure =>
  ToolResult.failure(
    "timeout_error",
    `Deciding whether the call needs an approval took longer than ${Duration.toSeconds(timeout)} seconds`
  )

type DecodeArguments = (args: Json.JsonObject) => Effect.Effect<unknown, ToolResult.Failure>

type RunSchema = (value: unknown, options?: SchemaAST.ParseOptions) => Effect.Effect<unknown, Schema.SchemaError>

// Sound: every call provides the services that a tool's schemas need, and the services of the handler's layer
const decodeJson = (schema: Schema.Top) => Schema.decodeUnknownEffect(Schema.toCodecJson(schema)) as RunSchema

// Sound: the same services
const encodeJson = (schema: Schema.Top) => Schema.encodeUnknownEffect(Schema.toCodecJson(schema)) as RunSchema

const invalidArguments = (tool: string, problems: string): ToolResult.Failure =>
  ToolResult.failure("validation_error", `Invalid arguments for tool ${JSON.stringify(tool)}: ${problems}`)

/** The arguments of a call that may have been approved, which the handler would receive as others. */
export const notNormal = (tool: string, normal: Json.JsonObject): ToolResult.Failure =>
  invalidArguments(
    tool,
    `expected the arguments as the tool receives them, with its defaults and transformations applied: ${JSON.stringify(normal)}. Call it with these`
  )

/** Arguments as the handler takes them. */
const makeDecoder = (tool: Tool.Any): DecodeArguments => {
  if (convertSchema.isVoid(tool.parametersSchema)) return () => Effect.undefined
  const decode = decodeJson(tool.parametersSchema)
  return (args) =>
    Effect.mapError(decode(args, { errors: "all" }), (error) =>
      invalidArguments(tool.name, PayloadError.render("", problemsFromSchemaError(error, args)))
    )
}

/** The services that the handler's layer captured, over the services of a call, with the context of the run. */
const servicesOver = (captured: Context.Context<never>): toolCall.Services => {
  const over = callContext.over(captured)
  return (context, runContext, call) => {
    const services = call === undefined ? over(context) : callContext.madeInRun(context, over)
    const isOfRun = Context.get(services, RunContext.RunContext) === runContext
    const inRun = isOfRun ? services : Context.add(services, RunContext.RunContext, runContext)
    return call === undefined ? inRun : call.enter(inRun)
  }
}

const failWithCause = (message: string, cause: Cause.Cause<unknown>): Effect.Effect<ToolResult.Failure> =>
  Effect.withFiber((fiber) => {
    const current = fiber.getRef(toolCall.CurrentCall)
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
  const textOf = (key: string) => nonEmptyText(jsonValues.own(fields, key))
  const message = textOf("message") ?? (decoded instanceof Error ? nonEmptyText(decoded.message) : undefined)
  return ToolResult.failure(textOf("type") ?? textOf("_tag") ?? "execution_error", message ?? asText(value), value)
}

/**
 * The JSON of a result whose text the model reads, made well-formed if possible. If two keys would become equal, it
 * stays as it is and is refused later.
 */
const mendable = (json: Schema.Json): Schema.Json => (wellFormedness(json) === "mendable" ? toWellFormed(json) : json)

const aiReason = (error: unknown): string | undefined => {
  if (AiError.isAiError(error)) return error.reason._tag
  return AiError.isAiErrorReason(error) ? error._tag : undefined
}

const isBeyondLimits = (error: unknown): error is PayloadError.PayloadError =>
  error instanceof PayloadError.PayloadError && (error.reason._tag === "TooLarge" || error.reason._tag === "TooDeep")

const warnOnce = base.warnOnce()

/** The places of a result which do not fit, without what is there. */
const logUnfit = (name: string, error: unknown, value: unknown): Effect.Effect<void> => {
  if (!Schema.isSchemaError(error) && !(error instanceof PayloadError.PayloadError)) return Effect.void
  const problems = Schema.isSchemaError(error) ? problemsFromSchemaError(error, value) : error.problems
  return warnOnce(
    `Tool ${name}: the handler returned a value that does not fit the success schema of the tool: ${PayloadError.render("", problems)}.`
  )
}

const makeBody = (tool: Tool.Any, handler: Tool.Handler<string>): toolCall.Body => {
  const name = JSON.stringify(tool.name)
  const decode = makeDecoder(tool)
  const encodeSuccess = makeEncoder(tool.successSchema)
  const declaresFailures = !convertSchema.isUninformative(tool.failureSchema)
  const encodeFailure = makeEncoder(tool.failureSchema)
  const decodeFailure = decodeJson(tool.failureSchema)

  const unencodable = (error: unknown, value: unknown) =>
    isBeyondLimits(error)
      ? failWithCause(`Tool ${name} returned more than Limits allow. ${error.message}`, Cause.fail(error))
      : Effect.andThen(
          logUnfit(name, error, value),
          failWithCause(`Tool ${name} returned a value that does not fit its success schema`, Cause.fail(error))
        )

  const succeed = (value: unknown): Effect.Effect<ToolResult.ToolResult> =>
    Effect.matchEffect(encodeSuccess(value), {
      onFailure: (error) => unencodable(error, value),
      onSuccess: (json) => {
        const content = tool.toModelOutput === undefined ? undefined : fromPrompt(tool.toModelOutput(value))
        return Effect.succeed(ToolResult.success(mendable(json), content))
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

  const perform = (decoded: unknown, call: toolCall.CallContext): Effect.Effect<ToolResult.ToolResult> => {
    // a preliminary result that does not encode spoils the final one
    let spoiled: Effect.Effect<ToolResult.Failure> | undefined
    const preliminary = (value: unknown) => {
      const carried = carriedResult(value)
      if (carried?._tag === "Success") return call.progress(carried)
      return Effect.matchEffect(encodeSuccess(value), {
        onFailure: (error) =>
          Effect.sync(() => {
            spoiled = unencodable(error, value)
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
  const run = (args: Json.JsonObject, call: toolCall.CallContext) =>
    Effect.matchEffect(decode(args), {
      onFailure: Effect.succeed,
      onSuccess: (decoded) => perform(decoded, call)
    })
  const body = (args: Json.JsonObject, call: toolCall.CallContext) =>
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
    providerName: Schema.String,
    problem: Schema.optionalKey(Schema.String)
  }
) {
  override get message(): string {
    const [first, second] = this.names
    if (this.problem !== undefined) {
      return `Tool ${base.quote(first)}: expected a name without hidden characters, in one script, got ${this.problem}. Rename it.`
    }
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
 * The provider name replaces `/` with `__`, escapes other characters outside `A-Z a-z 0-9 _ -`, and shortens to 64
 * characters with a hash at the end. Tools that the provider executes keep their names. Definitions accept exactly
 * these names.
 */
export const makeSet = Effect.fnUntraced(function* (
  tools: Iterable<BoundTool>
): Effect.fn.Return<ToolSet, ToolNameError> {
  const byName = new Map<string, BoundTool>()
  const toProvider = new Map<string, string>()
  const toCanonical = new Map<string, string>()
  for (const tool of tools) {
    const { name } = tool.contract
    const problem = base.toolNameProblem(name)
    if (problem !== undefined) return yield* new ToolNameError({ names: [name, name], providerName: name, problem })
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
export const encodeName = (name: string): string => {
  if (/^[\w-]{1,64}$/.test(name)) return name
  const escaped = escapeName(name) || "_" // a call without a name, in a history
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
  return Object.assign(tool, { parametersSchema: readBy(bound.parameters) })
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
): Effect.Effect<Result.Result<toolCall.BoundCall, ToolResult.Failure>> =>
  Effect.withFiber((fiber) => Effect.succeed(prepareIn(fiber.context, set, request, options)))

/** The call with the arguments that a person approves and the handler receives. */
export const normalizeCall = (
  tool: BoundTool,
  { arguments: args, context, id }: toolCall.BoundCall,
  options: PrepareOptions
): Effect.Effect<Result.Result<toolCall.BoundCall, ToolResult.Failure>> =>
  Effect.result(Effect.map(tool.normalize(tool, args, context), (normal) => bindCall(tool, id, normal, options)))

/** {@link prepare} for a caller that asks for the approval of the call, if it needs one. */
export const prepareNormal = Effect.fnUntraced(function* (set: ToolSet, request: CallRequest, options: PrepareOptions) {
  const prepared = yield* prepare(set, request, options)
  const tool = set.tools.get(request.name)
  if (Result.isFailure(prepared) || tool === undefined || tool.contract.approval === "never") return prepared
  return yield* normalizeCall(tool, prepared.success, options)
})

/** {@link prepare} with the limits of a context. */
export const prepareIn = (
  context: Context.Context<never>,
  set: ToolSet,
  request: CallRequest,
  options: PrepareOptions
): Result.Result<toolCall.BoundCall, ToolResult.Failure> => {
  const tool = set.tools.get(request.name)
  if (tool === undefined) return Result.fail(unknownToolFailure(request.name, Array.from(set.tools.keys())))
  if (tool.kind === "provider") return Result.fail(providerToolFailure(request.name))
  const checked = checkArguments(tool, request.arguments, Context.get(context, Limits.Limits))
  return Result.isFailure(checked)
    ? Result.fail(checked.failure)
    : Result.succeed(bindCall(tool, request.id, checked.success, options))
}

const bindCall = (
  tool: BoundTool,
  id: string,
  checked: Json.JsonObject,
  options: PrepareOptions
): toolCall.BoundCall => {
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
    execute: Option.map(tool.body, (body) => toolCall.executeBody(tool.contract.name, timeout, body, checked, call))
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
  limits: jsonLimits.Limits
): Result.Result<Schema.Json, PayloadError.Reason> => {
  if (typeof value !== "string") return Result.succeed(value ?? {})
  if (value.trim() === "") return Result.succeed({})
  return Result.map(parseText(value, limits), (json) => json ?? {})
}

const checkArguments = (
  { contract, own, parameters }: BoundTool,
  value: Schema.Json,
  limits: jsonLimits.Limits
): Result.Result<Json.JsonObject, ToolResult.Failure> => {
  const refuse = (problems: string) => Result.fail(invalidArguments(contract.name, problems))
  const parsed = parseArguments(value, limits)
  if (Result.isFailure(parsed)) {
    return refuse(new PayloadError.PayloadError({ what: "tool arguments", reason: parsed.failure }).message)
  }
  const json = parsed.success
  if (!Predicate.isObject(json)) return refuse(`expected a JSON object, got ${jsonValues.kindOf(json)}`)
  if (wellFormedness(json) === "equal keys") {
    return refuse("expected keys that differ once each half of a character is U+FFFD, got two that are equal")
  }
  const options = { strict: contract.annotations.strict === true, coerce: true, limits }
  const first = own && JsonSchema.validate(own, json, options)
  const checked =
    first !== undefined && Result.isFailure(first)
      ? first
      : JsonSchema.validate(parameters, first?.success ?? json, options)
  if (Result.isFailure(checked)) return refuse(PayloadError.render("", checked.failure))
  // Sound: the interpreter returns an object for an object
  return Result.succeed(checked.success as Json.JsonObject)
}
