/**
 * Where a run of a plan stands: a value that travels, and from which it goes on.
 *
 * @since 0.1.0
 */
import * as Chunk from "effect/Chunk"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type * as HashMap from "effect/HashMap"
import type { Inspectable } from "effect/Inspectable"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { ApprovalRequest } from "../agent/Outcome.ts"
import type { RunState } from "../agent/RunState.ts"
import type { TokenUsage } from "../conversation/TokenUsage.ts"
import type { JsonObject } from "../payload/Json.ts"
import type { LossyEncoding } from "../payload/LossyEncoding.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as internal from "./internal/transition/state.ts"
import type { PlanInput } from "./PlanInput.ts"
import type { PauseRequest, PlanOutcome, StepFailure } from "./PlanOutcome.ts"
import type { CallRequest, StepRecord } from "./PlanRunEvent.ts"
import { data } from "./wire/plan-run-parts-v1.ts"
import * as v1 from "./wire/plan-run-state-v1.ts"

/**
 * @category type ids
 * @since 0.1.0
 */
export const TypeId: TypeId = internal.TypeId

/**
 * @category type ids
 * @since 0.1.0
 */
export type TypeId = "~effect-emissary/plan/PlanRunState"

/**
 * What runs inside a step and has a state of its own.
 *
 * @category models
 * @since 0.1.0
 */
export type Child =
  | { readonly _tag: "Agent"; readonly state: RunState }
  | { readonly _tag: "Plan"; readonly state: PlanRunState }

/**
 * How far a step of the current turn is.
 *
 * **Details**
 *
 * - `Waiting`: it has not started since the run was started or resumed. `child` is what
 *   an earlier try inside it left, to go on from; `decision` what somebody decided;
 *   `attempt` the number of a try that was cut off, if it was not the first.
 * - `Running`: it runs, or ran when the process died. `attempt` counts its tries.
 * - `Finished`: it gave an output. It does not run again in this turn.
 * - `Failed`: it failed, after its retries. A resumed run runs it again.
 * - `Paused`: it waits for anybody (`reason`), for a decision about the tool call that it
 *   is (`request`), or, with neither, for what waits inside its `child`.
 * - `Concluded`: it ended the whole plan with an answer.
 *
 * @category models
 * @since 0.1.0
 */
export type MemberStatus =
  | { readonly _tag: "Waiting"; readonly attempt?: number; readonly child?: Child; readonly decision?: Decided }
  | {
      readonly _tag: "Running"
      readonly attempt: number
      readonly startedAt: DateTime.Utc
      readonly child?: Child
      readonly decision?: Decided
    }
  | { readonly _tag: "Finished"; readonly record: StepRecord }
  | { readonly _tag: "Failed"; readonly failure: StepFailure; readonly child?: Child }
  | {
      readonly _tag: "Paused"
      readonly reason?: string
      readonly request?: CallRequest
      readonly child?: Child
      readonly decision?: Decided
    }
  | { readonly _tag: "Concluded"; readonly answer: string }

/**
 * What somebody decided about a step that paused: a tool call that needs approval, or a
 * function that waits for anybody.
 *
 * @category models
 * @since 0.1.0
 */
export interface Decided {
  readonly approved: boolean
  readonly reason?: string
}

/**
 * One step of a turn. `usage` adds up what runs inside it have reported in this turn,
 * failed tries and earlier processes included; the state's own `usage` holds it already.
 *
 * @category models
 * @since 0.1.0
 */
export interface Member {
  readonly step: string
  readonly usage: TokenUsage
  readonly status: MemberStatus
}

/**
 * The steps that run now: one, or a band from its member at the cursor on.
 *
 * @category models
 * @since 0.1.0
 */
export interface Turn {
  readonly members: ReadonlyArray<Member>
}

/**
 * A branch that was taken: when a step of it ends without a route, the run goes on at
 * `rejoin`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Rejoin {
  readonly router: string
  readonly rejoin: string
}

/**
 * Where a run of a plan stands.
 *
 * **Details**
 *
 * - `cursor`: the step that comes next, or whose turn it is; absent when none is left.
 * - `turn`: the steps of that turn once it has begun. A band is applied as a whole:
 *   nothing of it is in `history` before all of it has finished.
 * - `choosing`: a step that has finished (it is in `history`) and whose route has not
 *   been chosen yet; `cursor` is that step, too.
 * - `rejoins`: the branches that are taken, the newest last.
 * - `history`: what finished, in order; `latest` finds the newest record of a step,
 *   `writes` the record behind a key that a step writes.
 * - `previous`: the record that `fromPrev` reads, absent for the input.
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanRunState extends Inspectable {
  readonly [TypeId]: TypeId
  readonly runId: string
  readonly plan: string
  readonly digest: string
  readonly depth: number
  readonly context: JsonObject
  readonly input: PlanInput
  readonly cursor: string | undefined
  readonly turn: Turn | undefined
  readonly choosing: string | undefined
  readonly rejoins: ReadonlyArray<Rejoin>
  readonly iterations: number
  readonly maxIterations: number
  readonly history: Chunk.Chunk<StepRecord>
  readonly latest: HashMap.HashMap<string, number>
  readonly writes: HashMap.HashMap<string, number>
  readonly previous: number | undefined
  readonly usage: TokenUsage
  readonly interrupted: { readonly reason?: string } | undefined
  readonly outcome: PlanOutcome | undefined
  readonly startedAt: DateTime.Utc
  readonly updatedAt: DateTime.Utc
  readonly revision: number
}

/**
 * Whether a value is a {@link PlanRunState}.
 *
 * @category guards
 * @since 0.1.0
 */
export const isPlanRunState = (u: unknown): u is PlanRunState => internal.isPlanRunState(u)

/**
 * The snapshot codec: field `version`, native version 1. {@link encodeJson} and
 * {@link decodeJson} are its methods.
 *
 * **When to use**
 *
 * Use it to hand a run to another process as one value. A snapshot is as large as the
 * history, so writing one after every step costs quadratic time: append the events
 * instead, as `Checkpoint` does, and take a snapshot now and then.
 *
 * **Gotchas**
 *
 * A snapshot is trusted: it says what was done and what was approved. Read it from
 * storage that only your program writes to.
 *
 * @category codecs
 * @since 0.1.0
 */
export const codec: VersionedCodec.VersionedCodec<PlanRunState> = VersionedCodec.make({
  what: "plan run state",
  field: "version",
  type: Schema.declare(isPlanRunState),
  arms: [v1.snapshot],
  data
})

/**
 * Schema of {@link PlanRunState}; its JSON form is a snapshot.
 *
 * @category schemas
 * @since 0.1.0
 */
export const PlanRunState: Schema.Codec<PlanRunState, Schema.Json> = codec.schema

/**
 * A snapshot of a run as versioned JSON.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode = (
  self: PlanRunState,
  options?: VersionedCodec.EncodeOptions
): Effect.Effect<JsonObject, PayloadError | LossyEncoding> => codec.encode(self, options)

/**
 * A snapshot of a run as JSON text, for another process to resume.
 *
 * **Details**
 *
 * Fails where something must not be written, a key of the run's context that names a
 * secret for example. `indent` is the number of spaces per level, default 0.
 *
 * **Example** (Going on elsewhere)
 *
 * ```ts
 * import { DateTime, Effect } from "effect"
 * import { PlanRunState, PlanTransition } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const rules = PlanTransition.rules({
 *   name: "report",
 *   maxIterations: 10,
 *   steps: [
 *     { name: "write", target: { kind: "function", name: "write" }, task: { _tag: "FromPrev" }, parallel: false }
 *   ]
 * })
 *
 * const program = Effect.gen(function*() {
 *   const state = PlanTransition.start(rules, {
 *     _tag: "PlanStarted",
 *     at: yield* DateTime.now,
 *     runId: "run_1",
 *     plan: "report",
 *     digest: "sha256:0",
 *     depth: 0,
 *     maxIterations: 10,
 *     input: { task: "cats", payload: "cats" },
 *     context: {}
 *   })
 *   const kept = yield* PlanRunState.encodeJson(state)
 *
 *   // any other process that has the plan
 *   return PlanTransition.next(rules, yield* PlanRunState.decodeJson(kept))
 * })
 *
 * assert.deepStrictEqual(Effect.runSync(program), { _tag: "RunSteps", steps: ["write"] })
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const encodeJson = (
  self: PlanRunState,
  options?: VersionedCodec.EncodeOptions & { readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError | LossyEncoding> => codec.encodeJson(self, options)

/**
 * Reads a snapshot of any version.
 *
 * **Gotchas**
 *
 * A snapshot is trusted, see {@link codec}.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = (
  input: unknown,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<PlanRunState, PayloadError> => codec.decode(input, options)

/**
 * Like {@link decode}, from JSON text or bytes of UTF-8.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeJson = (
  input: string | Uint8Array,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<PlanRunState, PayloadError> => codec.decodeJson(input, options)

/**
 * What finished, in order: a step that ran twice is there twice, a band as a whole and
 * in declared order.
 *
 * @category getters
 * @since 0.1.0
 */
export const history = (self: PlanRunState): ReadonlyArray<StepRecord> => Chunk.toReadonlyArray(self.history)

/**
 * The newest record of a step.
 *
 * @category getters
 * @since 0.1.0
 */
export const record = (self: PlanRunState, step: string): Option.Option<StepRecord> => internal.record(self, step)

/**
 * The record that `fromPrev` reads: of the step that finished last, after a band of its
 * last declared member. None before the first step.
 *
 * @category getters
 * @since 0.1.0
 */
export const lastRecord = (self: PlanRunState): Option.Option<StepRecord> => internal.recordAt(self, self.previous)

/**
 * What steps wrote under their `writes` keys; the newest of each.
 *
 * @category getters
 * @since 0.1.0
 */
export const writes = (self: PlanRunState): ReadonlyMap<string, Schema.Json> => internal.writes(self)

/**
 * The steps of the current turn that have not finished, in declared order.
 *
 * @category getters
 * @since 0.1.0
 */
export const openSteps = (self: PlanRunState): ReadonlyArray<Member> =>
  internal.members(self).filter(({ status }) => status._tag !== "Finished")

/**
 * The step of that name in the current turn.
 *
 * @category getters
 * @since 0.1.0
 */
export const member = (self: PlanRunState, step: string): Member | undefined => internal.member(self, step)

/**
 * The steps that wait for anybody, those of nested plans included.
 *
 * @category getters
 * @since 0.1.0
 */
export const pauses = (self: PlanRunState): ReadonlyArray<PauseRequest> => internal.pauses(self)

/**
 * The calls that wait for a decision: of tools that are steps, and of agents and plans
 * inside of steps.
 *
 * **Details**
 *
 * The `callId` of a tool that is a step is the step's name. `path` holds the steps of
 * the outer plans and the step of the agent, then the ids of enclosing calls.
 *
 * @category getters
 * @since 0.1.0
 */
export const approvalRequests = (self: PlanRunState): ReadonlyArray<ApprovalRequest> => internal.approvalRequests(self)
