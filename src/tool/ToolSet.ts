/**
 * The tools of one run: looked up by their own names, offered to the model under
 * names that every provider accepts.
 *
 * @since 0.1.0
 */
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { BoundTool } from "./BoundTool.ts"
import * as names from "./internal/names.ts"
import * as offered from "./internal/offered.ts"

/**
 * A tool as the model sees it. Its calls are executed by a tool runtime, so its
 * types say nothing.
 *
 * @category models
 * @since 0.1.0
 */
export type OfferedTool = Tool.Tool<
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
 *
 * @category models
 * @since 0.1.0
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
   * What the model is offered. Built once; never used to execute a call.
   */
  readonly toolkit: Toolkit.WithHandler<Record<string, OfferedTool>>
}

/**
 * Two tools cannot be told apart: they have the same name, or names that become
 * the same for the provider.
 *
 * @category errors
 * @since 0.1.0
 */
export class ToolNameError extends Schema.TaggedError<ToolNameError>("effect-emissary/tool/ToolNameError")(
  "ToolNameError",
  {
    names: Schema.Tuple([Schema.String, Schema.String]),
    providerName: Schema.String
  }
) {
  /**
   * @since 0.1.0
   */
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
 *
 * **Example** (Names of both sides)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { BoundTool, ToolContract, ToolSet } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function* () {
 *   const contract = yield* ToolContract.make({ name: "orders/get", parameters: { type: "object" } })
 *   return yield* ToolSet.make([yield* BoundTool.shell(contract)])
 * })
 *
 * const tools = await Effect.runPromise(program)
 * assert.deepStrictEqual(Object.keys(tools.toolkit.tools), ["orders__get"])
 * assert.strictEqual(tools.canonicalName("orders__get"), "orders/get")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function* (tools: Iterable<BoundTool>): Effect.fn.Return<ToolSet, ToolNameError> {
  const byName = new Map<string, BoundTool>()
  const toProvider = new Map<string, string>()
  const toCanonical = new Map<string, string>()
  for (const tool of tools) {
    const { name } = tool.contract
    const providerName = tool.kind === "provider" ? name : names.encode(name)
    const taken = toCanonical.get(providerName)
    if (taken !== undefined) return yield* new ToolNameError({ names: [taken, name], providerName })
    byName.set(name, tool)
    toProvider.set(name, providerName)
    toCanonical.set(providerName, name)
  }
  return {
    tools: byName,
    providerName: (canonical) => toProvider.get(canonical) ?? names.encode(canonical),
    canonicalName: (provider) => toCanonical.get(provider) ?? provider,
    toolkit: offered.toolkit(Array.from(byName.values(), (tool) => [toProvider.get(tool.contract.name) ?? "", tool]))
  }
})
