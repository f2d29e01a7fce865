/**
 * Version 1 of a plan's run states: a snapshot. Frozen with its first release.
 *
 * Records stand in the history once; what finds them there is made again or names
 * their places.
 *
 * @since 0.1.0
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import { Context, Count, Time, Usage } from "../../agent/wire/run-parts-v1.ts"
import * as agent from "../../agent/wire/run-state-v1.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as internal from "../internal/transition/state.ts"
import type { Child as ChildType, MemberStatus, PlanRunState } from "../PlanRunState.ts"
import * as Part from "./plan-run-parts-v1.ts"

const Child: Schema.Codec<ChildType, unknown> = Schema.Union([
  Schema.TaggedStruct("Agent", { state: agent.State }),
  Schema.TaggedStruct("Plan", { state: Schema.suspend(() => State) })
])

const child = Schema.optionalKey(Child)

const decision = Schema.optionalKey(Part.Decided)

const Status: Schema.Codec<MemberStatus, unknown> = Schema.Union([
  Schema.TaggedStruct("Waiting", { attempt: Schema.optionalKey(Count), child, decision }),
  Schema.TaggedStruct("Running", { attempt: Count, startedAt: Time, child, decision }),
  Schema.TaggedStruct("Finished", { record: Part.Record }),
  Schema.TaggedStruct("Failed", { failure: Part.Failure, child }),
  Schema.TaggedStruct("Paused", {
    reason: Schema.optionalKey(Schema.String),
    request: Schema.optionalKey(Part.CallRequest),
    child,
    decision
  }),
  Schema.TaggedStruct("Concluded", { answer: Schema.String })
])

const Body = Schema.Struct({
  runId: Schema.String,
  plan: Schema.String,
  digest: Schema.String,
  depth: Count,
  context: Context,
  input: Part.Input,
  cursor: Schema.optionalKey(Schema.String),
  turn: Schema.optionalKey(
    Schema.Struct({
      members: Schema.Array(Schema.Struct({ step: Schema.String, usage: Usage, status: Status }))
    })
  ),
  choosing: Schema.optionalKey(Schema.String),
  rejoins: Schema.Array(Schema.Struct({ router: Schema.String, rejoin: Schema.String })),
  iterations: Count,
  maxIterations: Schema.Int,
  history: Schema.Array(Part.Record),
  writes: Schema.Array(Schema.Struct({ key: Schema.String, record: Count })),
  usage: Usage,
  interrupted: Schema.optionalKey(Schema.Struct({ reason: Schema.optionalKey(Schema.String) })),
  outcome: Schema.optionalKey(Part.Outcome),
  startedAt: Time,
  updatedAt: Time,
  revision: Count
})

type Body = typeof Body.Type

/** What cannot be of a state that was written, or nothing. */
const problem = (body: Body): string | undefined => {
  const missing = body.writes.find(({ record }) => record >= body.history.length)
  if (missing !== undefined) {
    return `expected that ${JSON.stringify(missing.key)} was written by one of ${body.history.length} records, found the place ${missing.record}`
  }
  if (new Set(body.writes.map(({ key }) => key)).size < body.writes.length) return "expected each key in writes once"
  const steps = (body.turn?.members ?? []).map(({ step }) => step)
  if (body.turn !== undefined && (steps.length === 0 || steps[0] !== body.cursor)) {
    return "expected a turn that begins with the step at the cursor"
  }
  if (new Set(steps).size < steps.length) return "expected each step of the turn once"
  return body.choosing !== undefined && (body.choosing !== body.cursor || body.turn !== undefined)
    ? "expected that the step whose route is to be chosen is at the cursor, and no turn"
    : undefined
}

/**
 * A state without its version.
 *
 * @category schemas
 * @since 0.1.0
 */
export const State: Schema.Codec<PlanRunState, unknown> = Body.pipe(
  Schema.decodeTo(Schema.declare(internal.isPlanRunState), {
    decode: SchemaGetter.transformEffect((body, options) => {
      const wrong = problem(body)
      return wrong === undefined
        ? Effect.succeed(
            internal.make({
              ...body,
              cursor: body.cursor,
              turn: body.turn,
              choosing: body.choosing,
              history: Chunk.fromIterable(body.history),
              latest: internal.latestOf(body.history),
              writes: HashMap.fromIterable(body.writes.map(({ key, record }) => [key, record])),
              previous: body.history.length === 0 ? undefined : body.history.length - 1,
              interrupted: body.interrupted,
              outcome: body.outcome
            })
          )
        : Effect.fail(new SchemaIssue.InvalidValue({ message: wrong }, body, options))
    }),
    encode: SchemaGetter.transform(
      ({
        choosing,
        cursor,
        history,
        interrupted,
        latest: _latest,
        outcome,
        previous: _previous,
        turn,
        writes,
        ...state
      }): Body => ({
        ...state,
        history: Chunk.toReadonlyArray(history),
        // By place, so that equal states give equal text
        writes: Array.from(writes, ([key, record]) => ({ key, record })).sort(
          (a, b) => a.record - b.record || (a.key < b.key ? -1 : 1)
        ),
        ...(cursor === undefined ? undefined : { cursor }),
        ...(turn === undefined ? undefined : { turn }),
        ...(choosing === undefined ? undefined : { choosing }),
        ...(interrupted === undefined ? undefined : { interrupted }),
        ...(outcome === undefined ? undefined : { outcome })
      })
    )
  })
)

/**
 * The arm of a snapshot.
 *
 * @category codecs
 * @since 0.1.0
 */
export const snapshot: VersionedCodec.AnyArm<PlanRunState> = VersionedCodec.arm({
  version: 1,
  wire: Schema.Struct({ version: Schema.Literal(1), state: State }),
  toCurrent: ({ state }) => Effect.succeed(state),
  fromCurrent: (state) => VersionedCodec.lossless({ version: 1 as const, state })
})
