/**
 * Generates well-formed agent definitions for property tests.
 *
 * What is generated, and shrunk, is a plain description; {@link build} makes the
 * definition of it. The step is an Effect because digests are.
 *
 * @since 0.1.0
 */
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as AgentDefinition from "../agent/AgentDefinition.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import * as ToolContract from "../tool/ToolContract.ts"
import * as script from "./internal/definitionScript.ts"

/**
 * What kind of definitions to generate.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  /** Only what wire version 1 holds without loss; default `false`. */
  readonly version1?: boolean | undefined
  /** The largest number of tools; default 3. */
  readonly maxTools?: number | undefined
}

/**
 * A description of a definition: what is generated.
 *
 * @category models
 * @since 0.1.0
 */
export type Description = typeof script.Definition.Type

const asVersion1 = (description: Description): Description => {
  const { output, ...rest } = description
  return {
    ...rest,
    model: description.model ?? "openai/gpt-5.2",
    ...(output === undefined
      ? {}
      : { output: { schema: output.schema, strategy: output.strategy === "tool" ? "native" : output.strategy } }),
    tools: description.tools.map((tool) => ({
      name: tool.name,
      description: tool.description ?? "A tool",
      parameters: tool.parameters,
      timeout: tool.timeout === "infinity" ? 1 : tool.timeout,
      approval: "never",
      annotations: {}
    }))
  }
}

const distinct = (tools: Description["tools"], max: number): Description["tools"] =>
  [...new Map(tools.map((tool) => [tool.name, tool])).values()].slice(0, max)

/**
 * Descriptions of well-formed definitions: with and without every optional part,
 * awkward names and property names, finite and infinite timeouts.
 *
 * **Example** (A law that holds)
 *
 * ```ts
 * import { Arbitrary, Effect } from "effect"
 * import { AgentDefinition } from "effect-emissary"
 * import { AgentDefinitionArbitrary } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const check = Arbitrary.checkEffect(AgentDefinitionArbitrary.description(), (description) =>
 *   Effect.gen(function*() {
 *     const definition = yield* AgentDefinitionArbitrary.build(description)
 *     const decoded = yield* Effect.flatMap(AgentDefinition.encode(definition), AgentDefinition.decode)
 *     return (yield* AgentDefinition.digest(decoded)) === (yield* AgentDefinition.digest(definition))
 *   })
 * )
 * assert.strictEqual((await Effect.runPromise(check))._tag, "Passed")
 * ```
 *
 * @category generators
 * @since 0.1.0
 */
export const description = (options?: Options): Arbitrary.Arbitrary<Description> =>
  Arbitrary.map(Arbitrary.schema(script.Definition), (generated) => {
    const limited = { ...generated, tools: distinct(generated.tools, options?.maxTools ?? 3) }
    return options?.version1 === true ? asVersion1(limited) : limited
  })

const toContract = (tool: Description["tools"][number]) =>
  ToolContract.make({
    name: tool.name,
    description: tool.description,
    parameters: script.toJsonSchema(tool.parameters),
    success: tool.success === undefined ? undefined : script.toJsonSchema(tool.success),
    failure: tool.failure === undefined ? undefined : script.toJsonSchema(tool.failure),
    timeout: tool.timeout === "infinity" ? "Infinity" : tool.timeout,
    approval: tool.approval,
    annotations: tool.annotations
  })

/**
 * The definition of a description.
 *
 * @category constructors
 * @since 0.1.0
 */
export const build = Effect.fnUntraced(function* (
  description: Description
): Effect.fn.Return<AgentDefinition.AgentDefinition, PayloadError | ToolContract.ToolContractError> {
  const { output, tools, ...rest } = description
  return yield* AgentDefinition.make({
    ...rest,
    output:
      output === undefined ? undefined : { schema: script.toJsonSchema(output.schema), strategy: output.strategy },
    tools: yield* Effect.forEach(tools, toContract)
  })
})
