import { Schema } from "effect"
import { isObject, type Json, JsonObject, objects, optional } from "../family.ts"

/** The behaviour of a target when it is called. */
const fixture = {
  const: optional(Schema.Json),
  model: optional(Schema.Tuple([Schema.String, Schema.Json])),
  fail: optional(Schema.String),
  pause: optional(Schema.String),
  conclude: optional(Schema.String),
  /** Milliseconds to wait first. */
  ms: optional(Schema.Number),
  /** Ours: input tokens that an agent uses, and a tenth of that for its output. */
  tokens: optional(Schema.Number)
}
export interface Fixture extends Schema.Struct.Type<typeof fixture> {
  /** One fixture per call; the last one repeats. */
  readonly seq?: ReadonlyArray<Fixture>
}
const Fixture: Schema.Codec<Fixture> = Schema.Struct({ ...fixture, seq: optional(Schema.Array(Schema.suspend(() => Fixture))) })
export type Fixtures = { readonly [target: string]: Fixture }
const Fixtures = Schema.Record(Schema.String, Fixture)
const Predicates = Schema.Record(Schema.String, Schema.String)

/** A plan with everything it runs with. */
const world = {
  /** On the wire: to be read by the library. */
  plan: JsonObject,
  fixtures: optional(Fixtures),
  predicates: optional(Predicates),
  /** Agents that targets of the kind "tool" find by name. A tool that is not among them is missing. */
  tools: optional(
    Schema.Union([Schema.Array(Schema.String), Schema.Array(Schema.Struct({ name: Schema.String })), Fixtures])
  ),
  /** Ours: plans that targets of the kind "agent" mean by name. */
  plans: optional(Schema.Record(Schema.String, JsonObject))
}
export const World = Schema.Struct(world)
export type World = typeof World.Type

/** A text, or task, payload and context; other values are payloads. */
const Input = Schema.Json

export const Running = Schema.Struct({ ...world, input: optional(Input) })
export type Running = typeof Running.Type

export const Phase = Schema.Struct({
  resume: optional(Schema.Boolean),
  input: optional(Input),
  fx: optional(Fixtures),
  preds: optional(Predicates)
})
export type Phase = typeof Phase.Type

export const Phases = Schema.Struct({
  ...world,
  checkpoint_key: optional(Schema.String),
  "pre-existing value at ck": optional(Schema.Json),
  phases: Schema.Array(Phase)
})
export type Phases = typeof Phases.Type

export const Many = Schema.Struct({
  ...world,
  run_many: Schema.Array(Input),
  concurrency: optional(Schema.NullOr(Schema.Number)),
  checkpoint_key: optional(Schema.String),
  on_concurrent: optional(Schema.Literals(["fail", "fork"])),
  store: optional(Schema.Literal("fresh in-memory"))
})
export type Many = typeof Many.Type

/** A refusal, or none. The recorded message is for people. */
export const Refusal = Schema.Struct({
  OK: optional(Schema.Boolean),
  RAISED: optional(Schema.String),
  "our message must mention": optional(Schema.Array(Schema.Union([Schema.String, Schema.Number, Schema.Null]))),
  "python message": optional(Schema.String),
  "message starts": optional(Schema.String)
})
export type Refusal = typeof Refusal.Type

/** One call: the name of the target, its task, and the context for agents. */
const Call = Schema.Array(Schema.NullOr(Schema.String))
export type Call = typeof Call.Type

/** A failure that left the engine instead of becoming the `error` of a result. */
const Raised = Schema.Struct({ RAISED: Schema.String, message: optional(Schema.String) })
export type Raised = typeof Raised.Type

const Envelope = Schema.Struct({
  task: Schema.NullOr(Schema.String),
  context: Schema.NullOr(Schema.String),
  payload: Schema.Json,
  text: Schema.String,
  error: optional(Schema.Struct({ type: Schema.String, message: Schema.String, retryable: Schema.Boolean }))
})
export type Envelope = typeof Envelope.Type

/** The outcome of a run in the words of the recordings. */
const RunResult = Schema.Union([Envelope, Raised])
export type RunResult = typeof RunResult.Type

/** The result of one run. */
export const Observed = Schema.Struct({ trace: Schema.Array(Call), result: RunResult })
export type Observed = typeof Observed.Type

/** A store operation: a snapshot under the key of the run, or a durable write. */
const StoreOperation = Schema.Union([
  Schema.Struct({ cas: Schema.String, expectedStatus: Schema.NullOr(Schema.String), new: JsonObject, ok: Schema.Boolean }),
  Schema.Struct({ write: Schema.String, value: Schema.Json, stamp: Schema.String })
])

export const ExpectedPhases = Schema.Struct({
  phases: Schema.Array(
    Schema.Struct({
      trace: Schema.Array(Call),
      result: RunResult,
      checkpoint: optional(Schema.Json),
      "store ops": optional(Schema.Array(StoreOperation))
    })
  )
})
export type ExpectedPhases = typeof ExpectedPhases.Type

export const ExpectedMany = Schema.Struct({
  results: optional(Schema.Union([Schema.Array(RunResult), Raised])),
  RAISED: optional(Schema.String),
  message: optional(Schema.String)
})

export const isRaised = (result: RunResult): result is Raised => "RAISED" in result

/** The raw steps of a plan in a case. */
export const stepsOf = (plan: unknown): ReadonlyArray<Json> => (isObject(plan) ? objects(plan["steps"]) : [])

export const isParallel = (step: Json | undefined): boolean => step?.["parallel"] === true

export const position = (steps: ReadonlyArray<Json>, name: unknown): number =>
  steps.findIndex((step) => step["name"] === name)

/** The target of a raw step: its name and its kind. */
export const targetOf = ({ target }: Json): { readonly kind: unknown; readonly name: string } =>
  isObject(target) ? { kind: target["kind"], name: String(target["name"] ?? "") } : { kind: undefined, name: "" }
