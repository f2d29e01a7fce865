/**
 * Version 1 of run states: a snapshot. Frozen with its first release.
 *
 * The parts of open calls stand in the conversation and are not repeated.
 *
 * @since 0.1.0
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as internal from "../internal/transition/state.ts"
import type { CallStatus, OpenCall, RunState } from "../RunState.ts"
import * as Part from "./run-parts-v1.ts"

const Status: Schema.Codec<CallStatus, unknown> = Schema.Union([
  Schema.TaggedStruct("Requested", {}),
  Schema.TaggedStruct("AwaitingApproval", {}),
  Schema.TaggedStruct("Approved", {}),
  Schema.TaggedStruct("Settled", { result: Part.ToolResult }),
  Schema.TaggedStruct("Started", { child: Schema.optionalKey(Schema.suspend(() => State)) })
])

const Answer = Schema.Struct({
  purpose: Part.Purpose,
  finishReason: Schema.optionalKey(Schema.String),
  calls: Part.Count,
  outputCall: Schema.Boolean,
  output: Schema.optionalKey(Part.OutputCheck)
})

const Progress = Schema.Struct({
  facts: Schema.Array(Schema.Json),
  requests: Schema.Array(Part.ApprovalRequest),
  decisions: Schema.Array(
    Schema.Struct({
      callId: Schema.String,
      approved: Schema.Boolean,
      reason: Schema.optionalKey(Schema.String),
      path: Schema.Array(Schema.String)
    })
  )
})

const Body = Schema.Struct({
  runId: Schema.String,
  agent: Schema.String,
  definition: Schema.String,
  depth: Part.Count,
  context: Part.Context,
  conversation: Part.History,
  view: Schema.optionalKey(Part.History),
  maxSteps: Part.MaxSteps,
  structured: Part.StructuredSteps,
  steps: Part.Count,
  totalSteps: Part.Count,
  usage: Part.Usage,
  calls: Schema.Array(Schema.Struct({ callId: Schema.String, status: Status })),
  pending: Schema.Array(Schema.Struct({ message: Part.UserMessage, maxSteps: Part.MaxSteps })),
  answer: Schema.optionalKey(Answer),
  limited: Schema.Boolean,
  step: Schema.optionalKey(Schema.Struct({ step: Part.Count, purpose: Part.Purpose })),
  mistakes: Schema.Array(Schema.String),
  progress: Schema.optionalKey(Progress),
  fresh: Schema.Boolean,
  interrupted: Schema.optionalKey(Schema.Struct({ reason: Schema.optionalKey(Schema.String) })),
  outcome: Schema.optionalKey(Part.Outcome),
  startedAt: Part.Time,
  updatedAt: Part.Time,
  revision: Part.Count
})

type Body = typeof Body.Type

/** The open calls of the conversation with what became of them, or what is wrong. */
const joinCalls = (body: Body): HashMap.HashMap<string, OpenCall> | string => {
  const statuses = new Map(body.calls.map(({ callId, status }) => [callId, status]))
  const calls: Array<[string, OpenCall]> = []
  for (const { order, part } of internal.openParts(body.conversation)) {
    const status = statuses.get(part.id)
    if (status === undefined) return `expected the status of the open call ${JSON.stringify(part.id)}`
    calls.push([part.id, { part, order, status }])
  }
  return calls.length === body.calls.length
    ? HashMap.fromIterable(calls)
    : "expected one status for each open call of the conversation and for no other"
}

/**
 * A state without its version.
 *
 * @category schemas
 * @since 0.1.0
 */
export const State: Schema.Codec<RunState, unknown> = Body.pipe(
  Schema.decodeTo(Schema.declare(internal.isRunState), {
    decode: SchemaGetter.transformEffect((body, options) => {
      const calls = joinCalls(body)
      return typeof calls === "string"
        ? Effect.fail(new SchemaIssue.InvalidValue({ message: calls }, body, options))
        : Effect.succeed(
            internal.make({
              ...body,
              calls,
              view: body.view,
              answer: body.answer,
              step: body.step,
              progress:
                body.progress === undefined
                  ? undefined
                  : { ...body.progress, facts: Chunk.fromIterable(body.progress.facts) },
              interrupted: body.interrupted,
              outcome: body.outcome
            })
          )
    }),
    encode: SchemaGetter.transform(({ answer, calls, interrupted, outcome, progress, step, view, ...state }): Body => ({
      ...state,
      calls: internal.inOrder(calls).map(({ part, status }) => ({ callId: part.id, status })),
      ...(view === undefined ? undefined : { view }),
      ...(answer === undefined ? undefined : { answer }),
      ...(step === undefined ? undefined : { step }),
      ...(progress === undefined
        ? undefined
        : { progress: { ...progress, facts: Chunk.toReadonlyArray(progress.facts) } }),
      ...(interrupted === undefined ? undefined : { interrupted }),
      ...(outcome === undefined ? undefined : { outcome })
    }))
  })
)

/**
 * @category codecs
 * @since 0.1.0
 */
export const snapshot: VersionedCodec.AnyArm<RunState> = VersionedCodec.arm({
  version: 1,
  wire: Schema.Struct({ version: Schema.Literal(1), state: State }),
  toCurrent: ({ state }) => Effect.succeed(state),
  fromCurrent: (state) => VersionedCodec.lossless({ version: 1 as const, state })
})
