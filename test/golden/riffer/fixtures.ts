import { Context, Effect, Option, Schema } from "effect"
import { Tool } from "effect/ai"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import { RunContext, ToolContract, ToolFailure } from "effect-emissary"
import { isObject, type Json, JsonObject, optional } from "../family.ts"

/** The tool fixtures of `VOCABULARY.md`: contracts, and bodies that behave as described. */

const Behaviour = Schema.Struct({
  text: optional(Schema.Json),
  json: optional(Schema.Json),
  error: optional(Schema.Struct({ message: Schema.String, type: optional(Schema.String) })),
  throw: optional(Schema.Struct({ message: Schema.String })),
  defect: optional(Schema.Struct({ class: Schema.String, message: Schema.String })),
  hang_seconds: optional(Schema.Number),
  returns_raw: optional(Schema.Json)
})

export const Fixture = Schema.Struct({
  name: Schema.String,
  description: optional(Schema.String),
  parameters: optional(JsonObject),
  timeout_seconds: optional(Schema.Number),
  behaviour: Behaviour
})
export type Fixture = typeof Fixture.Type

/** Without `parameters` arguments pass unchecked. */
const anything: Json = { type: "object" }

const plain = (value: Schema.Json | undefined): string =>
  typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value)

const lookup = (value: Schema.Json | undefined, path: string): Schema.Json | undefined =>
  path.split(".").reduce<Schema.Json | undefined>((current, key) => (isObject(current) ? current[key] : undefined), value)

const fill = (template: string, args: Json, text: string, context: Json): string =>
  template.replaceAll(/\{([^{}]+)\}/g, (_, key: string) => {
    if (key === "$arguments") return text
    return key.startsWith("context.") ? plain(lookup(context, key.slice("context.".length))) : plain(lookup(args, key))
  })

const named = (name: string, message: string): Error =>
  new ({ [name]: class extends Error {} }[name] ?? Error)(message)

/** The calls of the bodies. */
export interface Probe {
  running: number
  most: number
  readonly ran: Array<string>
}

export const makeProbe = (): Probe => ({ running: 0, most: 0, ran: [] })

export const body = (
  { behaviour, name }: Fixture,
  args: Json,
  text: string,
  probe: Probe
): Effect.Effect<unknown, ToolFailure> => {
  const act = Effect.gen(function* () {
    const context = yield* RunContext.RunContext
    if (behaviour.hang_seconds !== undefined) yield* Effect.sleep(`${behaviour.hang_seconds * 1000} millis`)
    if (behaviour.defect !== undefined) return yield* Effect.die(named(behaviour.defect.class, behaviour.defect.message))
    if (behaviour.error !== undefined) {
      return yield* ToolFailure.error(behaviour.error.message, { type: behaviour.error.type })
    }
    if (behaviour.throw !== undefined) return yield* ToolFailure.error(behaviour.throw.message)
    if (behaviour.json !== undefined) return behaviour.json
    return fill(plain(behaviour.text), args, text, context)
  })
  return Effect.suspend(() => {
    probe.ran.push(name)
    probe.running += 1
    probe.most = Math.max(probe.most, probe.running)
    return Effect.ensuring(act, Effect.sync(() => (probe.running -= 1)))
  })
}

/** A result made by hand, which the types of a handler do not allow. */
export const raw = (value: Schema.Json): Effect.Effect<never> => JSON.parse(JSON.stringify(value))

/**
 * The tool of a fixture with its body. `textOf` returns the arguments of a call as the
 * model wrote them.
 */
export const bind = Effect.fnUntraced(function* (
  contract: ToolContract.ToolContract,
  fixture: Fixture,
  probe: Probe,
  textOf: (callId: string | undefined) => string
) {
  const tool = Tool.dynamic(contract.name, {
    description: contract.description,
    parameters: contract.parameters,
    success: Schema.Json,
    failure: ToolFailure
  })
  const { returns_raw: value } = fixture.behaviour
  const context = yield* Effect.context<never>()
  const handler = (args: Json, call: { readonly toolCallId?: string }) =>
    value === undefined ? body(fixture, args, textOf(call.toolCallId), probe) : raw(value)
  const handlers = new Map<string, unknown>([[tool.id, { name: tool.name, context, handler }]])
  const found = yield* boundTool.handlerOf(tool).pipe(Effect.provideContext(Context.makeUnsafe<never>(handlers)))
  return yield* boundTool.fromHandler(contract, tool, Option.getOrThrow(found))
})

/** The contracts of fixtures. */
export const contractsOf = (fixtures: ReadonlyArray<Omit<Fixture, "behaviour">>) =>
  Effect.forEach(fixtures, ({ description, name, parameters, timeout_seconds: timeout }) =>
    ToolContract.make({
      name,
      description: description ?? name,
      parameters: parameters ?? anything,
      timeout: timeout === undefined ? undefined : `${timeout * 1000} millis`
    })
  )
