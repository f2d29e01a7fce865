/**
 * Turns tool contracts back into tools.
 *
 * @since 0.1.0
 */
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { BoundTool } from "./BoundTool.ts"
import type { ToolContract, ToolContractError } from "./ToolContract.ts"

/**
 * A contract cannot be turned into a tool here.
 *
 * **Details**
 *
 * - `UnknownTool`: the resolver has no tool of that name; `available` lists those
 *   it has.
 * - `ContractMismatch`: it has one that no longer fits; `part` and `path` (a JSON
 *   Pointer) say where the two schemas differ first.
 * - `InvalidContract`: a schema of the contract is not acceptable.
 *
 * @category errors
 * @since 0.1.0
 */
export const BindErrorReason = Schema.TaggedUnion({
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
 * @category errors
 * @since 0.1.0
 */
export type BindErrorReason = typeof BindErrorReason.Type

const explain = BindErrorReason.match({
  UnknownTool: ({ available }) =>
    available.length === 0
      ? "is not known here; there are no tools"
      : `is not known here; known are ${available.join(", ")}`,
  ContractMismatch: ({ expected, found, part, path }) =>
    `its ${part} schema differs at ${path === "" ? "the root" : path}: the contract says ${expected}, the tool here ${found}`,
  InvalidContract: ({ path, problem }) => `its contract cannot be used${path === "" ? "" : ` (${path})`}: ${problem}`
})

/**
 * A contract cannot be turned into a tool here; see {@link BindErrorReason}.
 *
 * @category errors
 * @since 0.1.0
 */
export class BindError extends Schema.TaggedError<BindError>()("BindError", {
  tool: Schema.String,
  reason: BindErrorReason
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `Tool ${JSON.stringify(this.tool)}: ${explain(this.reason)}`
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
    readonly resolve: (contract: ToolContract) => Effect.Effect<BoundTool, BindError>
  }
>()("effect-emissary/tool/ToolResolver") {}

/**
 * Binds contracts by name to the tools of a toolkit.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerToolkit: <Tools extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>
) => Layer.Layer<ToolResolver, ToolContractError, Tool.HandlersFor<Tools>> = () =>
  Layer.effect(ToolResolver, Effect.die("not yet"))

/**
 * Turns every contract into a shell.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerShells: Layer.Layer<ToolResolver> = Layer.effect(ToolResolver, Effect.die("not yet"))
