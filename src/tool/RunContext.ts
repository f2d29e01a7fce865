/**
 * Data of one run that tools and instructions may read: a tenant, a user, a
 * locale.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { JsonObject } from "../payload/Json.ts"
import * as PayloadError from "../payload/PayloadError.ts"
import { problemsFromSchemaError } from "../payload/internal/problems.ts"
import { getAt } from "../payload/internal/values.ts"

/**
 * The JSON object given to the run as `context`; empty when none was given.
 *
 * **Details**
 *
 * It travels with the call wherever the call is executed. On a remote tool
 * server it is a *claim* of the client, which the server has to judge first.
 *
 * @category services
 * @since 0.1.0
 */
export const RunContext = Context.Reference<JsonObject>("effect-emissary/tool/RunContext", {
  defaultValue: () => ({})
})

/**
 * References of the application that each call brings, as it brings `RunContext`.
 *
 * **When to use**
 *
 * Use for a reference of your own that changes from call to call: a locale, a request id.
 * Provide the list once, around the whole program.
 *
 * **Details**
 *
 * The layer of an agent, of a plan or of handlers keeps the services that it was built with, whatever is around a call.
 * A call changes references of Effect (clock, tracer, log level, log annotations, random numbers, console ...),
 * `RunContext`, `ToolRuntime`, `Message.MessageId`, `Limits`, `Signed.required`, and the references in this list. Other
 * references count as services: a call provides them only where the layer was built without them.
 *
 * **Example** (A locale for each call)
 *
 * ```ts
 * import { Context, Effect, Layer } from "effect"
 * import { Agent, RunContext } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const Locale = Context.Reference<string>("app/Locale", { defaultValue: () => "en" })
 *
 * class Greeter extends Agent.Service<Greeter>()("greeter", {
 *   instructions: Effect.map(Locale, (locale) => `Answer in ${locale}.`)
 * }) {}
 *
 * const model = ScriptedModel.layer(({ messages }) => ({ text: messages[0]?.text ?? "" }))
 *
 * const program = Greeter.use((greeter) => greeter.ask("Hi")).pipe(
 *   Effect.provideService(Locale, "fr"),
 *   Effect.provide(Greeter.layer.pipe(Layer.provide(model))),
 *   Effect.provideService(Locale, "de"),
 *   Effect.provideService(RunContext.CallReferences, [Locale])
 * )
 * assert.strictEqual(await Effect.runPromise(program), "Answer in fr.")
 * ```
 *
 * @category services
 * @since 0.1.0
 */
export const CallReferences = Context.Reference<ReadonlyArray<Context.Key<never, unknown>>>(
  "effect-emissary/tool/CallReferences",
  { defaultValue: () => [] }
)

/**
 * The context of the run does not hold what was asked for.
 *
 * **Details**
 *
 * `missing` lists the absent keys, `issues` everything else that is wrong, each
 * with its path. No value of the context is repeated.
 *
 * @category errors
 * @since 0.1.0
 */
export class RunContextError extends Schema.TaggedError<RunContextError>()("RunContextError", {
  missing: Schema.Array(Schema.String),
  issues: Schema.Array(PayloadError.Problem)
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const parts = [
      ...(this.missing.length === 0 ? [] : [`missing ${this.missing.map((key) => JSON.stringify(key)).join(", ")}`]),
      ...(this.issues.length === 0 ? [] : [PayloadError.render("", this.issues)])
    ]
    return `The context of the run does not fit: ${parts.join("; ")}. Pass it with the run option "context"; behind a tool server also let the server's option "context" accept it.`
  }
}

/**
 * Reads the context of the run through a schema.
 *
 * **Details**
 *
 * The context is JSON, so the schema is applied in its JSON form: a `Date` field
 * reads an ISO string. Keys the schema does not name are ignored.
 *
 * **Example** (Reading the tenant)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { RunContext } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const Tenant = Schema.Struct({ tenant: Schema.String })
 *
 * const greeting = RunContext.read(Tenant).pipe(Effect.map(({ tenant }) => `You help customers of ${tenant}.`))
 *
 * const text = Effect.runSync(greeting.pipe(Effect.provideService(RunContext.RunContext, { tenant: "acme" })))
 * assert.strictEqual(text, "You help customers of acme.")
 *
 * const error = Effect.runSync(Effect.flip(greeting))
 * assert.deepStrictEqual(error.missing, ["tenant"])
 * ```
 *
 * @category accessors
 * @since 0.1.0
 */
export const read = <S extends Schema.Top>(
  schema: S
): Effect.Effect<S["Type"], RunContextError, S["DecodingServices"]> => {
  const decode = Schema.decodeUnknownEffect(Schema.toCodecJson(schema))
  return Effect.flatMap(RunContext, (context) =>
    Effect.mapError(decode(context, { errors: "all" }), (error) => {
      const found = problemsFromSchemaError(error, context)
      const isMissing = ({ path }: PayloadError.Problem) => getAt(context, path) === undefined
      return new RunContextError({
        missing: found.filter(isMissing).map(({ path }) => path.slice(1).replaceAll("/", ".")),
        issues: found.filter((problem) => !isMissing(problem))
      })
    })
  )
}
