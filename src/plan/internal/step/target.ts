/** What a step runs, whichever way it was written. */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import { type Agent, isAgent } from "../../../agent/Agent.ts"
import * as Decode from "../../../payload/Decode.ts"
import type { PayloadError } from "../../../payload/PayloadError.ts"
import type { TypeId as PlanTypeId } from "../../Plan.ts"
import type { AgentTarget, FunctionTarget, Input, Options, StepSchema, TypeId as Id } from "../../Target.ts"
import type { LiveTarget, StepSchema as LiveSchema } from "../live.ts"
import { InputInvalid, NotAnEffect, OutputInvalid } from "./error.ts"

export const TypeId: Id = "~effect-emissary/plan/Target"

export const isFunction = (u: unknown): u is FunctionTarget<unknown> => Predicate.hasProperty(u, TypeId)

/** The codec between JSON and what the code sees. */
export const jsonCodec = (schema: StepSchema): LiveSchema =>
  // Sound: `StepSchema` has no services, and `toCodecJson` makes JSON of whatever a schema encodes to.
  Schema.toCodecJson(schema) as Schema.Constraint as LiveSchema

/** The name of a schema: its identifier. */
export const schemaName = (schema: StepSchema): string | undefined => SchemaAST.resolveIdentifier(schema.ast)

// the payload of code is whatever its own input schema decodes to
type Code = (input: Input<never>) => Effect.Effect<unknown, unknown, unknown>

/** Dies of an answer that is no Effect. What a promise comes to is of no interest, but must not end the process. */
const notAnEffect = (name: string, answer: unknown): Effect.Effect<never> => {
  const isPromise = Predicate.isPromiseLike(answer)
  const found = isPromise ? "a Promise" : answer === null ? "null" : typeof answer
  const died = Effect.die(new NotAnEffect({ target: name, found }))
  return isPromise
    ? Effect.andThen(
        Effect.forkDetach(Effect.ignore(Effect.tryPromise(() => answer)), { startImmediately: true }),
        died
      )
    : died
}

// what is left over is left out, as everywhere in a plan
const lenient = (what: string): Decode.Options => ({ what, onExcessProperty: "ignore" })

const mapError =
  <A, B, E>(
    run: (value: A) => Effect.Effect<B, PayloadError>,
    Failure: new (fields: { readonly target: string; readonly problems: string }) => E,
    target: string
  ) =>
  (value: A): Effect.Effect<B, E> =>
    Effect.mapError(run(value), (error) => new Failure({ target, problems: error.message }))

/** A function under a name. The payload is decoded for it, and what it answers is encoded. */
const fromFunction = (name: string, options: Options<StepSchema, StepSchema>, code: Code): FunctionTarget => {
  const input = options.input === undefined ? undefined : jsonCodec(options.input)
  const output = options.output === undefined ? undefined : jsonCodec(options.output)
  const decode: (payload: Schema.Json) => Effect.Effect<unknown, InputInvalid> =
    input === undefined ? Effect.succeed : mapError(Decode.decode(input, lenient("input")), InputInvalid, name)
  const encode: (answer: unknown) => Effect.Effect<Schema.Json, OutputInvalid> =
    output === undefined
      ? // Sound: the types of functions without a schema ask for JSON, and the run checks that it is.
        (answer) => Effect.succeed(answer as Schema.Json)
      : mapError(Decode.encode(output, lenient("output")), OutputInvalid, name)
  return {
    [TypeId]: { _R: (_: never) => _ },
    name,
    input,
    output,
    execute: Effect.fnUntraced(function* (given: Input) {
      const payload = yield* decode(given.payload)
      // Sound: the types of `Step.make` and `Target.make` tie what the code takes to the schema that decoded it.
      const answer: unknown = code({ ...given, payload: payload as never })
      if (!Effect.isEffect(answer)) return yield* notAnEffect(name, answer)
      // Sound: what the code requires is in the type of the target, and so of every run of the plan.
      return yield* encode(yield* answer as Effect.Effect<unknown, unknown>)
    }),
    schemas: { input: options.input, output: options.output }
  }
}

/** The body of `Target.make`. */
export const make = (
  name: string,
  ...rest: readonly [Code] | readonly [Options<StepSchema, StepSchema>, Code]
): FunctionTarget => (rest.length === 1 ? fromFunction(name, {}, rest[0]) : fromFunction(name, ...rest))

/** Whatever can be the target of a step. */
export type Written = string | AgentTarget<unknown> | FunctionTarget<unknown> | Code

/** What a step runs, and the value it was written as: two things of one name are told apart by it. */
export interface Resolved {
  readonly target: LiveTarget
  readonly source: unknown
  /** What was found where a target was expected. */
  readonly foreign?: string
}

const planTypeId: PlanTypeId = "~effect-emissary/plan/Plan"

const agentKey = "effect-emissary/Agent/"

const nameOfKey = (effect: object): string | undefined =>
  Predicate.hasProperty(effect, "key") && typeof effect.key === "string" && effect.key.startsWith(agentKey)
    ? effect.key.slice(agentKey.length)
    : undefined

/** An agent, a key that yields one, or an effect that does. */
export const agentOf = (agent: AgentTarget<unknown>): Effect.Effect<Agent<unknown>> =>
  // Sound: what the agent requires is in the type of the target, and so of every run of the plan.
  (isAgent(agent) ? Effect.succeed(agent) : agent) as Effect.Effect<Agent<unknown>>

/** What is no target at all, in words. Only code without types gets here. */
const wordsFor = (foreign: unknown): string =>
  Predicate.hasProperty(foreign, planTypeId)
    ? "a plan that is not bound. Give what Plan.bind makes of it"
    : `${foreign === null ? "null" : Array.isArray(foreign) ? "an array" : typeof foreign === "object" ? "some other object" : typeof foreign}. Look at where it comes from`

/** What is wrong with something that stands for an agent. */
export const foreignAgent = (agent: unknown): string | undefined =>
  isAgent(agent) || Effect.isEffect(agent) ? undefined : wordsFor(agent)

export const resolve = (step: string, written: Written, options: Options<StepSchema, StepSchema>): Resolved => {
  if (typeof written === "string") return { target: { _tag: "Tool", name: written }, source: written }
  if (isFunction(written)) {
    // Sound: as for agents.
    return { target: { _tag: "Function", target: written as FunctionTarget }, source: written }
  }
  if (isAgent(written)) {
    return {
      target: { _tag: "Agent", name: written.name, agent: agentOf(written), source: written },
      source: written
    }
  }
  if (Effect.isEffect(written)) {
    return {
      target: { _tag: "Agent", name: nameOfKey(written) ?? step, agent: agentOf(written), source: written },
      source: written
    }
  }
  if (typeof written !== "function") {
    return { target: { _tag: "Tool", name: step }, source: written, foreign: wordsFor(written) }
  }
  return { target: { _tag: "Function", target: fromFunction(step, options, written) }, source: written }
}
