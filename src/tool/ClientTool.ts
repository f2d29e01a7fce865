/**
 * Client-side tools: a front end makes their calls.
 *
 * **When to use**
 *
 * Use them for what only the page can do: its location, the file that is open there, a payment form. With `Question.tool` the
 * model asks the user.
 *
 * **Details**
 *
 * The tool has no handler. A call is a request of the run (`Run.Request`): the run waits, in a `Session` for as long as it
 * takes, and continues with the answer (`Run.answer`), which is the result that the model reads. The answer has to fit the
 * `success` Schema of the tool. It travels as JSON Schema in the definition of the agent and in the request, so an answer is
 * checked in the same way wherever the run continues.
 *
 * **Example** (The page knows where the user is)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool } from "effect/ai"
 * import { Agent, ClientTool, Run } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const Locate = ClientTool.make(
 *   Tool.make("locate", { description: "Where the user is", success: Schema.Struct({ city: Schema.String }) })
 * )
 * const weather = Agent.make("weather", { toolkit: [Locate] })
 *
 * const program = Effect.gen(function*() {
 *   const asked = yield* weather.run("Do I need a coat?")
 *   assert(asked.outcome === "AwaitingApproval")
 *   const [request] = asked.requests
 *   assert(request?._tag === "Call" && request.name === "locate")
 *   return yield* weather.resume(asked.state, { decisions: [Run.answer(request, { city: "Oslo" })] })
 * })
 *
 * const model = ScriptedModel.layer([
 *   { toolCalls: [{ name: "locate", params: {} }] },
 *   { text: "In Oslo you do.", expect: { toolResult: "Oslo" } }
 * ])
 * const { text } = await Effect.runPromise(Effect.provide(program, model))
 * assert.strictEqual(text, "In Oslo you do.")
 * ```
 *
 * @since 0.1.0
 */

import type * as Schema from "effect/Schema"
import type * as Tool from "effect/ai/Tool"
import * as boundTool from "./internal/boundTool.ts"

/**
 * A tool whose calls a front end makes, or a person answers. It needs no handler. `Parameters` and `Success` are the Schemas
 * of the arguments and of the answer.
 *
 * @category models
 * @since 0.1.0
 */
export interface ClientTool<out Name extends string, out Parameters extends Schema.Top, out Success extends Schema.Top>
  extends
    boundTool.WithOwnHandler<never>,
    Tool.ProviderDefined<
      "emissary.client",
      Name,
      {
        readonly args: typeof Schema.Void
        readonly parameters: Parameters
        readonly success: Success
        readonly failure: typeof Schema.Json
        readonly failureMode: "error"
      }
    > {}

/**
 * Makes a tool client-side: each call is a `Run.Request` with the tag `Call`, and the front end answers it with the result.
 *
 * **Details**
 *
 * Name, description, parameters, annotations and the `success` Schema of the tool count; its failure and its `needsApproval`
 * do not: who makes the call can refuse it (`Run.deny`). A tool without `success` has `null` as its answer.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <T extends Tool.Any>(
  tool: T
): ClientTool<T["name"], Tool.ParametersSchema<T>, Tool.SuccessSchema<T>> =>
  // Sound: the tool has the name and the Schemas of `tool`, and the services of its handler are a phantom
  boundTool.clientSide(tool) as ClientTool<T["name"], Tool.ParametersSchema<T>, Tool.SuccessSchema<T>>
