/**
 * Turns tool contracts back into tools.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as base from "../payload/internal/base.ts"
import * as ToolContract from "./ToolContract.ts"
import * as boundTool from "./internal/boundTool.ts"
import * as contractDigest from "./internal/contractDigest.ts"

export {
  /**
   * Two tools cannot be distinguished: they have the same name, or names that become
   * the same for the provider.
   *
   * @category errors
   * @since 0.1.0
   */
  ToolNameError,
  type ApprovalContext,
  type BoundTool,
  type CallServicesOf,
  type NoServiceOfCall,
  type OwnServices
} from "./internal/boundTool.ts"

const BindErrorReason = Schema.TaggedUnion({
  UnknownTool: { available: Schema.Array(Schema.String) },
  ContractMismatch: {
    part: Schema.Literals(["parameters", "success", "failure"]),
    path: Schema.String,
    expected: Schema.String,
    found: Schema.String
  },
  InvalidContract: { path: Schema.String, problem: Schema.String }
})

/**
 * Why a tool could not be resolved; the reason of a {@link BindError}.
 *
 * @category errors
 * @since 0.1.0
 */
export type BindErrorReason = typeof BindErrorReason.Type

const explainReason = BindErrorReason.match({
  UnknownTool: ({ available }) =>
    available.length === 0
      ? "expected a tool that is known here, but there are none"
      : `expected a tool that is known here, one of ${available.join(", ")}`,
  ContractMismatch: ({ expected, found, part, path }) =>
    `its ${part} schema differs at ${path === "" ? "the root" : path}: the contract has ${expected}, the tool here ${found}`,
  InvalidContract: ({ path, problem }) => `its contract cannot be used${path === "" ? "" : ` (${path})`}: ${problem}`
})

/**
 * A contract cannot be turned into a tool here.
 *
 * **Details**
 *
 * - `UnknownTool`: the resolver has no tool of that name; `available` lists those
 *   it has.
 * - `ContractMismatch`: the tool here no longer fits the contract; `part` and `path` (a JSON Pointer) name the first
 *   difference of the two schemas that breaks a call.
 * - `InvalidContract`: a schema of the contract is not acceptable.
 *
 * @category errors
 * @since 0.1.0
 */
export class BindError extends Schema.TaggedError<BindError>("effect-emissary/tool/BindError")("BindError", {
  tool: Schema.String,
  reason: BindErrorReason
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `Tool ${JSON.stringify(this.tool)}: ${explainReason(this.reason)}`
  }
}

/**
 * The service that turns a contract back into a tool. There is no default: who
 * decodes a definition decides what its tools may be.
 *
 * @category services
 * @since 0.1.0
 */
export class ToolResolver extends Context.Service<
  ToolResolver,
  {
    readonly resolve: (contract: ToolContract.ToolContract) => Effect.Effect<boundTool.BoundTool, BindError>
  }
>()("effect-emissary/tool/ToolResolver") {}

/**
 * Binds contracts by name to the tools of a toolkit and their handlers.
 *
 * **Details**
 *
 * A contract fits when the tool here is compatible with it, as `ToolContract.compare` decides: arguments for the
 * contract fit the tool here, and its results fit the contract. An optional parameter that the tool here has more
 * binds, a required one does not. Words for people (`title`, `description` ...) do not count, and result schemas count
 * only where the contract carries them. The words for the model come from the contract. Of two approvals the stricter
 * one counts, of two timeouts the shorter one. Annotations come from the tool here. Arguments have to fit the
 * parameters of the tool here, then the parameters of the contract. A tool with
 * `dependencies` does not compile here: all calls would have the services of the layer. A client-side tool needs no code, so its contract binds without a tool here.
 *
 * **Example** (Binding a contract)
 *
 * ```ts
 * import { Effect, Layer, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { ToolContract, ToolResolver } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const Weather = Tool.make("weather", { parameters: Schema.Struct({ city: Schema.String }), success: Schema.String })
 * const toolkit = Toolkit.make(Weather)
 * const resolver = ToolResolver.layerToolkit(toolkit).pipe(
 *   Layer.provide(toolkit.toLayer({ weather: ({ city }) => Effect.succeed(`Sunny in ${city}`) }))
 * )
 *
 * const bind = Effect.fn(function* (parameters: ToolContract.ToolContract["parameters"]) {
 *   const { resolve } = yield* ToolResolver.ToolResolver
 *   return yield* resolve(yield* ToolContract.make({ name: "weather", parameters }))
 * })
 *
 * const changed = { type: "object", properties: { town: { type: "string" } }, required: ["town"], additionalProperties: false }
 * const error = await Effect.runPromise(bind(changed).pipe(Effect.provide(resolver), Effect.flip))
 * assert.match(error.message, /parameters schema differs at \/properties\/town/)
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerToolkit = <Tools extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>
): Layer.Layer<
  ToolResolver,
  ToolContract.ToolContractError,
  | Tool.HandlersFor<Tools>
  | Tool.HandlerServices<Tools[keyof Tools]>
  | boundTool.NoServiceOfCall<boundTool.CallServicesOf<Tools[keyof Tools]>>
> => Layer.effect(ToolResolver, Effect.map(entriesOf(Object.values(toolkit.tools)), makeResolver))

/**
 * Options of {@link layerStubs}.
 *
 * @category options
 * @since 0.1.0
 */
export interface StubOptions {
  /**
   * The calls that need an approval although their contract does not ask for one, or has a condition:
   *
   * - `"unlessReadonly"` (default): calls of tools that are not annotated as `Readonly`.
   * - `"always"`: calls of every tool. A call of a nested agent of the definition asks nothing itself; the calls of its
   *   tools ask.
   * - `"payload"`: none. The contract decides, so its author has to be trusted.
   * - a function: calls of the tools that it returns `true` for.
   */
  readonly approval?:
    | "unlessReadonly"
    | "always"
    | "payload"
    | ((contract: ToolContract.ToolContract) => boolean)
    | undefined
}

/**
 * Turns every contract into a stub: it validates arguments, and results where
 * the contract carries a result schema, and leaves the execution to the tool
 * runtime.
 *
 * **When to use**
 *
 * Use where an agent came as data and the code of its tools is elsewhere. Name with `approval` the tools
 * that may run without an approval: a contract that asks for no approval, or on a condition, may have been edited,
 * or come from version 1 of an agent, which has no approvals.
 *
 * **Gotchas**
 *
 * `Readonly` is a claim of the contract. A server of `RemoteTools` refuses a contract that
 * is not its own; with another tool runtime decide by the names that you know.
 *
 * A tool that decides by a function whether it needs approval always asks as a
 * stub, because the function did not travel. Progress of a call that runs
 * elsewhere does not travel either: there are no `ToolProgress` events of it.
 *
 * **Example** (Tools without code; a call of `weather` runs without asking)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { ToolContract, ToolResolver } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const resolve = Effect.fn(function* (name: string) {
 *   const { resolve } = yield* ToolResolver.ToolResolver
 *   return yield* resolve(yield* ToolContract.make({ name, parameters: { type: "object" } }))
 * })
 *
 * const program = Effect.all([resolve("weather"), resolve("pay")]).pipe(
 *   Effect.provide(ToolResolver.layerStubs({ approval: ({ name }) => name !== "weather" }))
 * )
 * const approvals = (await Effect.runPromise(program)).map(({ contract }) => contract.approval)
 * assert.deepStrictEqual(approvals, ["never", "always"])
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerStubs = (options?: StubOptions): Layer.Layer<ToolResolver> => {
  const { approval: floor = "unlessReadonly" } = options ?? {}
  const needsApproval = typeof floor === "function" ? floor : floors[floor]
  return Layer.sync(ToolResolver, () => {
    const log = logs()
    return ToolResolver.of({
      resolve: (contract) => {
        const { approval, client, request } = contract
        const isWeak = approval === "never" || (approval === "dynamic" && request?.when !== undefined)
        const isRaised = client === undefined && isWeak && needsApproval(contract)
        // Its digest is made here: servers believe it
        const made = ToolContract.make(isRaised ? contractDigest.raised(contract) : contract)
        return log(Effect.flatMap(made, boundTool.makeStub))
      }
    })
  })
}

/** Each tool that is refused, and each pattern that is not checked, is logged once by a resolver. */
const logs = () => {
  const warn = base.warnOnce()
  return (
    resolved: Effect.Effect<boundTool.BoundTool, BindError | ToolContract.ToolContractError>
  ): Effect.Effect<boundTool.BoundTool, BindError> =>
    Effect.matchEffect(resolved, {
      onFailure: (problem) => {
        const error = problem._tag === "BindError" ? problem : invalid(problem)
        return Effect.andThen(warn(`ToolResolver: ${error.message}`), Effect.fail(error))
      },
      onSuccess: (tool) => {
        const { contract, parameters, result } = tool
        if ((parameters.unchecked.length || result?.unchecked.length || 0) === 0) return Effect.succeed(tool)
        const notes = boundTool.uncheckedNotes(contract.name, [parameters, result])
        return Effect.as(Effect.forEach(notes, warn, { discard: true }), tool)
      }
    })
}

const invalid = ({ path, problem, tool }: ToolContract.ToolContractError): BindError =>
  new BindError({ tool, reason: { _tag: "InvalidContract", path, problem } })

const floors = {
  unlessReadonly: ({ annotations }: ToolContract.ToolContract) => annotations.readonly !== true,
  always: () => true,
  payload: () => false
}

const entriesOf = (tools: ReadonlyArray<Tool.Any>) =>
  Effect.forEach(tools.map(boundTool.describedTool), (tool) =>
    Effect.all({
      tool: Effect.succeed(tool),
      handler: boundTool.captureHandler(tool),
      contract: ToolContract.fromTool(tool)
    })
  )

const makeResolver = (tools: Effect.Success<ReturnType<typeof entriesOf>>): ToolResolver["Service"] => {
  const byName = new Map(tools.map((entry) => [entry.contract.name, entry]))
  const log = logs()
  return ToolResolver.of({
    resolve: Effect.fnUntraced(function* (contract: ToolContract.ToolContract) {
      const { name } = contract
      const entry = byName.get(name)
      // It needs no code
      if (entry === undefined && contract.client !== undefined) {
        return yield* Effect.flatMap(ToolContract.make(contract), boundTool.makeStub)
      }
      if (entry === undefined) {
        const reason = { _tag: "UnknownTool", available: Array.from(byName.keys()) } as const
        return yield* new BindError({ tool: name, reason })
      }
      const { handler, tool } = entry
      const reason = contractMismatch(contract, entry.contract)
      if (reason !== undefined) return yield* new BindError({ tool: name, reason })
      return Option.isSome(handler)
        ? yield* boundTool.fromHandler(contract, tool, handler.value)
        : yield* boundTool.fromProviderTool(tool)
    }, log)
  })
}

const parts = ["parameters", "success", "failure"] as const

/** The first change that breaks a call made for the contract. Approval and annotations are dealt with by the binding. */
const contractMismatch = (
  contract: ToolContract.ToolContract,
  here: ToolContract.ToolContract
): BindErrorReason | undefined => {
  for (const { breaking, now, path, was } of ToolContract.compare(contract, here)) {
    const part = parts.find((one) => path === `/${one}` || path.startsWith(`/${one}/`))
    if (!breaking || part === undefined) continue
    return { _tag: "ContractMismatch", part, path: path.slice(part.length + 1), expected: was, found: now }
  }
  return undefined
}
