/**
 * Where a run stands: the fold of its events.
 *
 * A state is an immutable value. It holds everything that is needed to go on, on this
 * machine or on another: the conversation, the budget, what became of each open call,
 * and the states of agents that run as tools. `RunTransition` makes states from
 * events and says what comes next; `encodeJson` turns one into versioned JSON.
 *
 * @since 0.1.0
 */
import type * as Chunk from "effect/Chunk"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import type { Inspectable } from "effect/Inspectable"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type Conversation, messages } from "../conversation/Conversation.ts"
import type { UserMessage } from "../conversation/Message.ts"
import type { ToolCallPart } from "../conversation/Part.ts"
import type { TokenUsage } from "../conversation/TokenUsage.ts"
import type { JsonObject } from "../payload/Json.ts"
import type { LossyEncoding } from "../payload/LossyEncoding.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import type { ToolResult } from "../tool/ToolResult.ts"
import * as internal from "./internal/transition/state.ts"
import type { ApprovalRequest, Outcome } from "./Outcome.ts"
import type { MaxSteps, OutputCheck, Purpose, StructuredSteps } from "./RunEvent.ts"
import { data } from "./wire/run-parts-v1.ts"
import * as v1 from "./wire/run-state-v1.ts"

/**
 * @category type ids
 * @since 0.1.0
 */
export const TypeId: TypeId = internal.TypeId

/**
 * @category type ids
 * @since 0.1.0
 */
export type TypeId = "~effect-emissary/agent/RunState"

/**
 * What became of an open call.
 *
 * **Details**
 *
 * - `Requested`: the model asked for it; nothing has been done.
 * - `AwaitingApproval`: it may not run before somebody decides.
 * - `Approved`: somebody decided that it may run.
 * - `Settled`: its result is known and nothing is to be run: it was denied, or its
 *   answer was cut off, or it carried the agent's output.
 * - `Started`: it runs, or ran when the process died. `child` is the state of the
 *   agent behind it, if there is one and it has begun.
 *
 * @category models
 * @since 0.1.0
 */
export type CallStatus =
  | { readonly _tag: "Requested" }
  | { readonly _tag: "AwaitingApproval" }
  | { readonly _tag: "Approved" }
  | { readonly _tag: "Settled"; readonly result: ToolResult }
  | { readonly _tag: "Started"; readonly child?: RunState }

/**
 * A call without a result. `order` is its place in the model's answer.
 *
 * @category models
 * @since 0.1.0
 */
export interface OpenCall {
  readonly part: ToolCallPart
  readonly order: number
  readonly status: CallStatus
}

/**
 * What has to be known of the newest answer to say what comes next.
 *
 * @category models
 * @since 0.1.0
 */
export interface Answer {
  readonly purpose: Purpose
  readonly finishReason?: string
  /** How many tools it asked for, the synthetic output tool not counted. */
  readonly calls: number
  /** Whether it used the synthetic output tool. */
  readonly outputCall: boolean
  readonly output?: OutputCheck
}

/**
 * A user message that waits until the open calls are done.
 *
 * @category models
 * @since 0.1.0
 */
export interface PendingInput {
  readonly message: UserMessage
  readonly maxSteps: MaxSteps
}

/**
 * How far something is that answers in place of a model, a plan for example, while its
 * answer is not there yet.
 *
 * **Details**
 *
 * `facts` is all that it saved, in order. `requests` are what it waits for and nobody
 * has decided about; `decisions` are those that it has not taken yet. `path` of a
 * decision is that of its request, empty where that has none.
 *
 * @category models
 * @since 0.1.0
 */
export interface Progress {
  readonly facts: Chunk.Chunk<Schema.Json>
  readonly requests: ReadonlyArray<ApprovalRequest>
  readonly decisions: ReadonlyArray<ProgressDecision>
}

/**
 * A decision about a request of a {@link Progress}.
 *
 * @category models
 * @since 0.1.0
 */
export interface ProgressDecision {
  readonly callId: string
  readonly approved: boolean
  readonly reason?: string
  readonly path: ReadonlyArray<string>
}

/**
 * Where a run stands.
 *
 * **Details**
 *
 * - `view`: what models are sent of the conversation, where a `BudgetPolicy` found it too
 *   long. The conversation itself stays whole.
 * - `steps` counts the answers to the newest user message, against `maxSteps`;
 *   `totalSteps` counts those of the whole run.
 * - `usage` adds up the run and the runs of agents that were its tools.
 * - `revision` counts the events, the first one included.
 * - `limited`: the last answer used up the budget and asked for more.
 * - `step`: a model call that was announced and has not answered yet.
 * - `mistakes`: what the model is to be told when it is asked again in this step.
 * - `progress`: how far the answer of something is that is no model. There are no open
 *   calls meanwhile, and what users say waits.
 * - `fresh`: no model call was answered since the run was started or resumed.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunState extends Inspectable {
  readonly [TypeId]: TypeId
  readonly runId: string
  readonly agent: string
  readonly definition: string
  readonly depth: number
  readonly context: JsonObject
  readonly conversation: Conversation
  readonly view: Conversation | undefined
  readonly maxSteps: MaxSteps
  readonly structured: StructuredSteps
  readonly steps: number
  readonly totalSteps: number
  readonly usage: TokenUsage
  readonly calls: HashMap.HashMap<string, OpenCall>
  readonly pending: ReadonlyArray<PendingInput>
  readonly answer: Answer | undefined
  readonly limited: boolean
  readonly step: { readonly step: number; readonly purpose: Purpose } | undefined
  readonly mistakes: ReadonlyArray<string>
  readonly progress: Progress | undefined
  readonly fresh: boolean
  readonly interrupted: { readonly reason?: string } | undefined
  readonly outcome: Outcome | undefined
  readonly startedAt: DateTime.Utc
  readonly updatedAt: DateTime.Utc
  readonly revision: number
}

/**
 * Whether a value is a {@link RunState}.
 *
 * @category guards
 * @since 0.1.0
 */
export const isRunState = (u: unknown): u is RunState => internal.isRunState(u)

/**
 * The snapshot codec: field `version`, native version 1. {@link encodeJson} and
 * {@link decodeJson} are its methods.
 *
 * **When to use**
 *
 * Use it where folding all events again is too slow. A snapshot is as large as the
 * conversation, so writing one after every event costs quadratic time: append the
 * events instead, and take a snapshot now and then.
 *
 * **Gotchas**
 *
 * A snapshot is trusted: it says which calls were approved. Read it from storage that
 * only your program writes to; take nothing but conversations from elsewhere.
 *
 * @category codecs
 * @since 0.1.0
 */
export const codec: VersionedCodec.VersionedCodec<RunState> = VersionedCodec.make({
  what: "run state",
  field: "version",
  type: Schema.declare(isRunState),
  arms: [v1.snapshot],
  data
})

/**
 * Schema of {@link RunState}; its JSON form is a snapshot.
 *
 * @category schemas
 * @since 0.1.0
 */
export const RunState: Schema.Codec<RunState, Schema.Json> = codec.schema

/**
 * A snapshot of a run as versioned JSON.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode = (
  self: RunState,
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
 * **Example** (Resuming elsewhere)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Agent, RunState } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const toolkit = Toolkit.make(
 *   Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
 * )
 * const cashier = Agent.make("cashier", { toolkit })
 * const handlers = toolkit.toLayer({ pay: () => Effect.void })
 *
 * const kept = await cashier.run("Pay 5 euros").pipe(
 *   Effect.flatMap(({ state }) => RunState.encodeJson(state)),
 *   Effect.provide([handlers, ScriptedModel.layer([{ toolCalls: [{ name: "pay", params: { amount: 5 } }] }])]),
 *   Effect.runPromise
 * )
 *
 * // any other process that has the agent
 * const later = Effect.gen(function*() {
 *   const state = yield* RunState.decodeJson(kept)
 *   const decisions = RunState.approvalRequests(state).map((request) => ({ ...request, approved: true }))
 *   return yield* cashier.resume(state, { decisions })
 * })
 * const { text } = await Effect.runPromise(
 *   Effect.provide(later, [handlers, ScriptedModel.layer([{ text: "Paid." }])])
 * )
 * assert.strictEqual(text, "Paid.")
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const encodeJson = (
  self: RunState,
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
export const decode = (input: unknown, options?: VersionedCodec.DecodeOptions): Effect.Effect<RunState, PayloadError> =>
  codec.decode(input, options)

/**
 * Like {@link decode}, from JSON text or bytes of UTF-8.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeJson = (
  input: string | Uint8Array,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<RunState, PayloadError> => codec.decodeJson(input, options)

/**
 * The open calls in call order.
 *
 * @category getters
 * @since 0.1.0
 */
export const openCalls = (self: RunState): ReadonlyArray<OpenCall> => internal.inOrder(self.calls)

/**
 * One open call.
 *
 * @category getters
 * @since 0.1.0
 */
export const openCall = (self: RunState, callId: string): OpenCall | undefined =>
  Option.getOrUndefined(HashMap.get(self.calls, callId))

/**
 * What somebody has to decide before the run can go on, calls of agents that run as
 * tools included.
 *
 * @category getters
 * @since 0.1.0
 */
export const approvalRequests = (self: RunState): ReadonlyArray<ApprovalRequest> => internal.approvalRequests(self)

/**
 * Whether the run has been told anything. One that was cut off before its first input was
 * recorded has not, and needs it again to go on: `resume(state, { input })`.
 *
 * @category getters
 * @since 0.1.0
 */
export const hasInput = (self: RunState): boolean =>
  self.pending.length > 0 || messages(self.conversation).some(({ role }) => role === "user")
