/**
 * A run of a plan as data: its input, events, state and result, with codecs. Save a state to resume the run later, in another process if need be.
 *
 * @since 0.1.0
 */

import * as Chunk from "effect/Chunk"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import * as Inspectable from "effect/Inspectable"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Run from "../agent/Run.ts"
import * as runParts from "../agent/internal/runParts.ts"
import * as runTransition from "../agent/internal/runTransition.ts"
import type { TokenUsage } from "../conversation/Message.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import { defined } from "../payload/internal/base.ts"
import * as ToolResult from "../tool/ToolResult.ts"

/**
 * The input of a run: a text, or its parts.
 *
 * **Details**
 *
 * Without `payload` the payload is the task; without `task` the task is the payload as text.
 * `context` is side text. `content` are images and files, for steps whose task is `fromStart`
 * and for a first step whose task is `fromPrev`.
 *
 * @category models
 * @since 0.1.0
 */
export type Input =
  | string
  | {
      readonly task?: string | undefined
      readonly payload?: Schema.Json | undefined
      readonly context?: string | undefined
      readonly content?: ReadonlyArray<ToolResult.Content> | undefined
    }

/**
 * The input of a run as its state holds it, with task and payload.
 *
 * @category models
 * @since 0.1.0
 */
export const ResolvedInput = Schema.Struct({
  task: Schema.String,
  payload: Schema.Json,
  context: Schema.optionalKey(Schema.String),
  content: Schema.optionalKey(Schema.Array(ToolResult.Content))
})

/**
 * @category models
 * @since 0.1.0
 */
export type ResolvedInput = typeof ResolvedInput.Type

/**
 * A step that waits until the run is resumed. `path` are the steps of the outer plans, the
 * outermost first.
 */
const PauseRequest = Schema.Struct({
  step: Schema.String,
  path: Schema.Array(Schema.String),
  reason: Schema.String
})

/**
 * Why a step failed, as data: `type` is the tag or name of the error, `message` its
 * message.
 *
 * **Details**
 *
 * `retryable` repeats the `retryable` or `isRetryable` of the error, for callers that decide
 * what to do about a failed run. It is true for a timeout, and false for what the plan itself
 * rejects. The `retry` of a step ignores it.
 *
 * @category models
 * @since 0.1.0
 */
export const StepFailure = Schema.Struct({
  type: Schema.String,
  message: Schema.String,
  retryable: Schema.Boolean
})

/**
 * @category models
 * @since 0.1.0
 */
export type StepFailure = typeof StepFailure.Type

/**
 * The end of a run.
 *
 * **Details**
 *
 * | outcome | meaning | resume |
 * |---|---|---|
 * | `Completed` | the last step returned `output` | no |
 * | `Concluded` | a step ended the plan with `answer` | no |
 * | `Paused` | steps wait: `pauses` for a resume, `requests` for decisions | continues at the same point |
 * | `Failed` | a step, a reference or a predicate failed | tries the same step again |
 * | `LimitReached` | `maxIterations` was used up before `next` | with a larger limit |
 * | `Interrupted` | the run was stopped | continues |
 *
 * **Example** (Matching outcomes)
 *
 * ```ts
 * import { PlanRun } from "effect-emissary/plan"
 * import assert from "node:assert"
 *
 * const line = PlanRun.Outcome.match({
 *   Completed: () => "done",
 *   Concluded: ({ answer }) => answer,
 *   Paused: ({ pauses, requests }) => `waits for ${pauses.length + requests.length}`,
 *   Failed: ({ failure, step }) => `${step} failed: ${failure.message}`,
 *   LimitReached: ({ limit }) => `more than ${limit} iterations`,
 *   Interrupted: ({ reason }) => `interrupted: ${reason ?? "no reason"}`
 * })
 * assert.strictEqual(line({ _tag: "LimitReached", limit: 100, next: "write" }), "more than 100 iterations")
 * ```
 *
 * @category models
 * @since 0.1.0
 */
export const Outcome = Schema.TaggedUnion({
  Completed: { output: Schema.Json },
  Concluded: { answer: Schema.String },
  Paused: { pauses: Schema.Array(PauseRequest), requests: Schema.Array(Run.ApprovalRequest) },
  Failed: { step: Schema.String, failure: StepFailure },
  LimitReached: { limit: Schema.Int, next: Schema.String },
  Interrupted: { reason: Schema.optionalKey(Schema.String) }
})

/**
 * @category models
 * @since 0.1.0
 */
export type Outcome = typeof Outcome.Type

/**
 * The record of a finished step: its task and context as they were delivered, and its
 * output as JSON (encoded with its output schema).
 *
 * **Details**
 *
 * `usage` is that of the step, agents and plans inside it included. The run's total counts
 * it once.
 *
 * @category models
 * @since 0.1.0
 */
export const StepRecord = Schema.Struct({
  step: Schema.String,
  task: Schema.String,
  context: Schema.optionalKey(Schema.String),
  output: Schema.Json,
  usage: runParts.Usage,
  attempts: runParts.Count,
  startedAt: runParts.Time,
  finishedAt: runParts.Time
})

/**
 * @category models
 * @since 0.1.0
 */
export type StepRecord = typeof StepRecord.Type

/** The call of a tool that is a step and needs approval. */
const CallRequest = Schema.Struct({ name: Schema.String, arguments: Schema.Json })

/** A run inside a step. */
type Child = { readonly _tag: "Agent"; readonly state: Run.State } | { readonly _tag: "Plan"; readonly state: State }

const ChildWire: Schema.Codec<Child, unknown> = Schema.Union([
  Schema.TaggedStruct("Agent", { state: runParts.StateSchema }),
  Schema.TaggedStruct("Plan", { state: Schema.suspend(() => StateWire) })
])

const child = Schema.optionalKey(ChildWire)

/** The decision about a step that paused. */
const decision = Schema.optionalKey(
  Schema.Struct({ approved: Schema.Boolean, reason: Schema.optionalKey(Schema.String) })
)

/**
 * A step of the current turn.
 *
 * **Details**
 *
 * `usage` adds up what ran inside it in this turn, failed attempts and earlier processes
 * included; the `usage` of the state includes it. `status`:
 *
 * - `Waiting`: it has not started since the run was started or resumed. `child` is the run
 *   inside it to resume, `attempt` the number of an attempt that was cut off, if it was not
 *   the first.
 * - `Running`: it runs, or ran when the process died. `attempt` counts its attempts.
 * - `Finished`: it returned an output. It does not run again in this turn.
 * - `Failed`: it failed, after its retries. A resumed run runs it again.
 * - `Paused`: it waits for a resume (`reason`), for a decision about the tool call that it
 *   is (`request`), or, with neither, for a call or step inside its `child`.
 * - `Concluded`: it ended the whole plan with an answer.
 *
 * @category models
 * @since 0.1.0
 */
export const Member = Schema.Struct({
  step: Schema.String,
  usage: runParts.Usage,
  status: Schema.Union([
    Schema.TaggedStruct("Waiting", { attempt: Schema.optionalKey(runParts.Count), child, decision }),
    Schema.TaggedStruct("Running", { attempt: runParts.Count, startedAt: runParts.Time, child, decision }),
    Schema.TaggedStruct("Finished", { record: StepRecord }),
    Schema.TaggedStruct("Failed", { failure: StepFailure, child }),
    Schema.TaggedStruct("Paused", {
      reason: Schema.optionalKey(Schema.String),
      request: Schema.optionalKey(CallRequest),
      child,
      decision
    }),
    Schema.TaggedStruct("Concluded", { answer: Schema.String })
  ])
})

/**
 * @category models
 * @since 0.1.0
 */
export type Member = typeof Member.Type

const StateBody = Schema.Struct({
  runId: Schema.String,
  plan: Schema.String,
  digest: Schema.String,
  depth: runParts.Count,
  context: runParts.Context,
  input: ResolvedInput,
  cursor: Schema.optional(Schema.String),
  turn: Schema.optional(Schema.Struct({ members: Schema.Array(Member) })),
  choosing: Schema.optional(Schema.String),
  rejoins: Schema.Array(Schema.Struct({ router: Schema.String, rejoin: Schema.String })),
  iterations: runParts.Count,
  maxIterations: Schema.Int,
  history: Schema.Array(StepRecord),
  writes: Schema.Array(Schema.Struct({ key: Schema.String, record: runParts.Count })),
  usage: runParts.Usage,
  interrupted: Schema.optional(Schema.Struct({ reason: Schema.optionalKey(Schema.String) })),
  outcome: Schema.optional(Outcome),
  startedAt: runParts.Time,
  updatedAt: runParts.Time,
  revision: runParts.Count
})

interface StateFields extends Omit<typeof StateBody.Type, "history" | "writes"> {
  readonly history: Chunk.Chunk<StepRecord>
  readonly latest: HashMap.HashMap<string, number>
  readonly writes: HashMap.HashMap<string, number>
  readonly previous?: number | undefined
}

/**
 * The state of a run.
 *
 * **Details**
 *
 * - `cursor`: the step that comes next, or whose turn it is; absent when none is left.
 * - `turn`: the steps of that turn once it has begun. A band is applied as a whole:
 *   `history` holds none of it before all of it has finished.
 * - `choosing`: a step that has finished (it is in `history`) and whose route has not
 *   been chosen yet; `cursor` is that step, too.
 * - `rejoins`: the branches that are taken, the newest last.
 * - `history`: the records of finished steps, in order; `latest` finds the newest record of
 *   a step, `writes` the record behind a key that a step writes.
 * - `previous`: the record that `fromPrev` reads, absent for the input.
 *
 * States are compared by value. A logged state shows its position and no output of steps.
 *
 * @category models
 * @since 0.1.0
 */
export class State extends Data.Class<StateFields> implements Inspectable.Inspectable {
  /** The fields are copied once, and `changes` over them: every event makes a state. */
  constructor(fields: StateFields, changes: Partial<StateFields> = {}) {
    super(fields)
    Object.assign(this, changes)
  }

  /**
   * @since 0.1.0
   */
  toJSON() {
    return {
      _id: "PlanRunState",
      runId: this.runId,
      plan: this.plan,
      iterations: this.iterations,
      finished: Chunk.size(this.history),
      revision: this.revision,
      ...(this.cursor === undefined ? undefined : { cursor: this.cursor }),
      ...(this.outcome === undefined ? undefined : { outcome: this.outcome._tag })
    }
  }

  /**
   * @since 0.1.0
   */
  override toString(): string {
    return JSON.stringify(this.toJSON())
  }

  /**
   * @since 0.1.0
   */
  [Inspectable.NodeInspectSymbol]() {
    return this.toJSON()
  }
}

/** The fields that a state without them has as `undefined`, so that equal states have the same keys. */
const absent = {
  cursor: undefined,
  turn: undefined,
  choosing: undefined,
  previous: undefined,
  interrupted: undefined,
  outcome: undefined
}

/** A state without its version. */
const StateWire: Schema.Codec<State, unknown> = StateBody.pipe(
  Schema.decodeTo(Schema.instanceOf(State), {
    decode: SchemaGetter.transformEffect((body, options) => {
      const problem = stateProblem(body)
      return problem === undefined
        ? Effect.succeed(
            new State({
              ...absent,
              ...body,
              history: Chunk.fromIterable(body.history),
              latest: HashMap.fromIterable(body.history.map(({ step }, index) => [step, index])),
              writes: HashMap.fromIterable(body.writes.map(({ key, record }) => [key, record])),
              previous: body.history.length === 0 ? undefined : body.history.length - 1
            })
          )
        : Effect.fail(new SchemaIssue.InvalidValue({ message: problem }, body, options))
    }),
    encode: SchemaGetter.transform(({ latest: _latest, previous: _previous, ...state }) => ({
      ...defined(state),
      history: Chunk.toReadonlyArray(state.history),
      // By place, so that equal states have equal text
      writes: Array.from(state.writes, ([key, record]) => ({ key, record })).sort(
        (a, b) => a.record - b.record || (a.key < b.key ? -1 : 1)
      )
    }))
  })
)

/** Why a body cannot be that of a written state, or nothing. */
const stateProblem = ({ choosing, cursor, history, turn, writes }: typeof StateBody.Type): string | undefined => {
  const missing = writes.find(({ record }) => record >= history.length)
  if (missing !== undefined) {
    return `expected that ${JSON.stringify(missing.key)} was written by one of ${history.length} records, got the place ${missing.record}`
  }
  if (new Set(writes.map(({ key }) => key)).size < writes.length) return "expected each key in writes once"
  const steps = (turn?.members ?? []).map(({ step }) => step)
  if (turn !== undefined && (steps.length === 0 || steps[0] !== cursor)) {
    return "expected a turn that begins with the step at the cursor"
  }
  if (new Set(steps).size < steps.length) return "expected each step of the turn once"
  return choosing !== undefined && (choosing !== cursor || turn !== undefined)
    ? "expected that the step whose route is to be chosen is at the cursor, and no turn"
    : undefined
}

/**
 * Places of what steps, models and users wrote: a key called `password` there is data, not an
 * option that holds a secret. The context of a run and provider options are not among them.
 */
const userDataPaths: ReadonlyArray<string> = [
  ...runParts.userData,
  "/**/input/payload",
  "/**/record/output",
  "/**/history/*/output",
  "/**/request/arguments"
]

/**
 * The codec of snapshots: field `version`, native version 1.
 *
 * **When to use**
 *
 * Use it to hand a run to another process as one value. A snapshot is as large as the
 * history, so writing one after every step costs quadratic time: append the events
 * instead, as `Checkpoint` does, and write a snapshot now and then.
 *
 * **Gotchas**
 *
 * A snapshot is trusted: it lists what was done and what was approved. Read it from
 * storage that only your program writes to. Encoding fails where the context of the run
 * holds a secret.
 *
 * **Example** (Resuming elsewhere)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Plan, PlanRun, Step } from "effect-emissary/plan"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const plan = yield* Plan.make(
 *     Step.make("ask", {
 *       target: ({ decision, task }) =>
 *         decision === undefined ? Step.pause("which cats?") : Effect.succeed(`many ${task}`)
 *     })
 *   )
 *   const bound = yield* Plan.bind(plan)
 *   const paused = yield* Plan.run(bound, "cats")
 *   const kept = yield* PlanRun.stateCodec.encodeJson(paused.state)
 *
 *   // any other process that has the plan
 *   const state = yield* PlanRun.stateCodec.decodeJson(kept)
 *   return yield* Plan.resume(bound, state, { decisions: [{ callId: "ask", approved: true }] })
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert(result.outcome === "Completed" && result.output === "many cats")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const stateCodec: VersionedCodec.VersionedCodec<State> = VersionedCodec.single({
  what: "plan run state",
  member: "state",
  value: StateWire,
  data: userDataPaths
})

const at = runParts.Time

const step = Schema.String

const reason = Schema.optionalKey(Schema.String)

const OwnEvent = Schema.TaggedUnion({
  PlanStarted: {
    at,
    runId: Schema.String,
    plan: Schema.String,
    digest: Schema.String,
    depth: runParts.Count,
    maxIterations: Schema.Int,
    input: ResolvedInput,
    context: runParts.Context
  },
  StepStarted: { at, step },
  StepRetried: { at, step, attempt: runParts.Count, failure: StepFailure },
  AgentChanged: { at, step, event: runParts.Event },
  StepFinished: { at, record: StepRecord },
  StepFailed: { at, step, failure: StepFailure },
  StepPaused: { at, step, reason, request: Schema.optionalKey(CallRequest) },
  StepConcluded: { at, step, answer: Schema.String },
  RouteTaken: { at, step, to: Schema.optionalKey(Schema.String) },
  StepDecided: { at, step, approved: Schema.Boolean, reason },
  PlanInterrupted: { at, reason },
  PlanFinished: { at, outcome: Outcome },
  PlanResumed: {
    at,
    maxIterations: Schema.optionalKey(Schema.Int),
    context: Schema.optionalKey(runParts.Context)
  }
})

interface NestedChanged extends Schema.Struct.Type<{ readonly at: typeof at; readonly step: typeof step }> {
  readonly _tag: "NestedChanged"
  readonly event: Event
}

/**
 * One event of a run. A run is the list of its events, and nothing else.
 *
 * **Details**
 *
 * | event | meaning |
 * |---|---|
 * | `PlanStarted` | the first event; `digest` is that of the definition, `depth` is 0 or one more than that of the run around it, `context` the `RunContext` of everything inside |
 * | `StepStarted` | a step begins; the first of its turn counts an iteration |
 * | `StepRetried` | an attempt failed, and attempt number `attempt`, from 2 on, follows the pause of the retry policy; what ran inside the failed one is dropped |
 * | `AgentChanged` | an event of the agent in a step; a `RunStarted` begins its run, or another one after that ended |
 * | `NestedChanged` | an event of the plan in a step; a `PlanStarted` begins its run, or another one after that ended |
 * | `StepFinished` | a step returned its output; in a band it counts when all members have finished |
 * | `StepFailed` | a step failed, after its retries; the others of its band continue to their end |
 * | `StepPaused` | a step waits: with `reason` for a resume, with `request` for a decision about the tool call that it is, with neither for something inside its agent or plan |
 * | `StepConcluded` | a step ended the plan, and every plan around it, with an answer |
 * | `RouteTaken` | the step that follows a step with routes; without `to` the next as if it had none |
 * | `StepDecided` | the decision about a step that paused; decisions about calls inside an agent are its `ApprovalDecided` |
 * | `PlanInterrupted` | the run was stopped: nothing starts any more, what runs may still end |
 * | `PlanFinished` | the run ended; it can continue after a `PlanResumed`, unless it completed |
 * | `PlanResumed` | what failed, paused or was cut off gets another turn, what finished does not; an absent `maxIterations` or `context` stays as it was |
 *
 * @category models
 * @since 0.1.0
 */
export type Event = typeof OwnEvent.Type | NestedChanged

/**
 * Schema of {@link Event}; its JSON has no version, see {@link eventCodec}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Event: Schema.Codec<Event, unknown> = Schema.Union([
  ...Object.values(OwnEvent.cases),
  Schema.TaggedStruct("NestedChanged", { at, step, event: Schema.suspend(() => Event) })
])

/**
 * The codec of one event: field `version`, native version 1. Its cost does not depend on
 * the run.
 *
 * **Example** (Storing an event)
 *
 * ```ts
 * import { DateTime, Effect } from "effect"
 * import { PlanRun } from "effect-emissary/plan"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const event: PlanRun.Event = { _tag: "StepStarted", at: yield* DateTime.now, step: "write" }
 *   const text = yield* PlanRun.eventCodec.encodeJson(event)
 *   return yield* PlanRun.eventCodec.decodeJson(text)
 * })
 *
 * assert.strictEqual(Effect.runSync(program)._tag, "StepStarted")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const eventCodec: VersionedCodec.VersionedCodec<Event> = VersionedCodec.single({
  what: "plan run event",
  member: "event",
  value: Event,
  data: userDataPaths
})

/**
 * The codec of a list of events, the durable form of a run.
 *
 * @category codecs
 * @since 0.1.0
 */
export const eventsCodec: VersionedCodec.VersionedCodec<ReadonlyArray<Event>> = VersionedCodec.single({
  what: "plan run events",
  member: "events",
  value: Schema.Array(Event),
  data: userDataPaths
})

/**
 * The records of finished steps, in order: a step that ran twice appears twice, a band as a
 * whole and in declared order.
 *
 * @category getters
 * @since 0.1.0
 */
export const history = (self: State): ReadonlyArray<StepRecord> => Chunk.toReadonlyArray(self.history)

const recordAt = (self: State, index: number | undefined): Option.Option<StepRecord> =>
  index === undefined ? Option.none() : Chunk.get(self.history, index)

/**
 * The newest record of a step.
 *
 * @category getters
 * @since 0.1.0
 */
export const record = (self: State, step: string): Option.Option<StepRecord> =>
  recordAt(self, Option.getOrUndefined(HashMap.get(self.latest, step)))

/**
 * The record that `fromPrev` reads: that of the step that finished last, after a band of its
 * last declared member. None before the first step.
 *
 * @category getters
 * @since 0.1.0
 */
export const lastRecord = (self: State): Option.Option<StepRecord> => recordAt(self, self.previous)

/**
 * The values of the `writes` keys, the newest of each, in the order of writing.
 *
 * @category getters
 * @since 0.1.0
 */
export const writes = (self: State): ReadonlyMap<string, Schema.Json> =>
  new Map(
    Array.from(self.writes)
      .sort(([, a], [, b]) => a - b)
      .flatMap(([key, index]) => Option.toArray(recordAt(self, index)).map(({ output }) => [key, output]))
  )

/** The steps of the current turn, each with the run inside it. */
const membersOf = (self: State) =>
  (self.turn?.members ?? []).map(({ status, step }) => ({
    status,
    step,
    child: "child" in status ? status.child : undefined
  }))

/**
 * The steps that wait for a resume, those of nested plans included.
 *
 * @category getters
 * @since 0.1.0
 */
export const pauses = (self: State): ReadonlyArray<typeof PauseRequest.Type> => pausesBelow(self, [])

const pausesBelow = (self: State, path: ReadonlyArray<string>): ReadonlyArray<typeof PauseRequest.Type> =>
  membersOf(self).flatMap(({ child, status, step }) => {
    const waits = status._tag === "Paused" && status.reason !== undefined && status.decision === undefined
    const own = waits ? [{ step, path, reason: status.reason }] : []
    return child?._tag === "Plan" ? [...own, ...pausesBelow(child.state, [...path, step])] : own
  })

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
export const approvalRequests = (self: State): ReadonlyArray<Run.ApprovalRequest> =>
  runTransition.disambiguate(requestsBelow(self, []))

const requestsBelow = (self: State, path: ReadonlyArray<string>): ReadonlyArray<Run.ApprovalRequest> =>
  membersOf(self).flatMap(({ child, status, step }) => {
    const waits = status._tag === "Paused" && status.request !== undefined && status.decision === undefined
    const own = waits ? [{ callId: step, ...status.request, ...(path.length === 0 ? undefined : { path }) }] : []
    if (child === undefined) return own
    const inside = [...path, step]
    const inner =
      child._tag === "Plan"
        ? requestsBelow(child.state, inside)
        : Run.approvalRequests(child.state).map((request) => ({
            ...request,
            path: [...inside, ...(request.path ?? [])]
          }))
    return [...own, ...inner]
  })

/** The parts of every result. */
interface ResultBase {
  readonly state: State
  readonly usage: TokenUsage
  readonly iterations: number
  readonly writes: ReadonlyMap<string, Schema.Json>
}

/**
 * The result of a run, discriminated by `outcome`.
 *
 * **Details**
 *
 * - `Completed`: the last step answered. `output` is decoded with the plan's output schema
 *   (without one it is the payload), `payload` the same as JSON, `text` as words. A plan
 *   without steps returns its input.
 * - `Concluded`: a step ended the plan, and all plans around it, with an answer.
 * - `Paused`: steps wait, `pauses` for a resume and `requests` for decisions about calls.
 * - `Interrupted`: the run was stopped, by `interruptWhen` (its reason) or by
 *   `timeouts.total` (`"timeout"`).
 *
 * Every result has the `state` to resume from, the `usage` of all steps and everything inside
 * them, the `iterations` (turns so far, a band counts as one) and the `writes` of the steps.
 *
 * @category models
 * @since 0.1.0
 */
export type Result<A> =
  | (ResultBase & {
      readonly outcome: "Completed"
      readonly output: A
      readonly payload: Schema.Json
      readonly text: string
    })
  | (ResultBase & { readonly outcome: "Concluded"; readonly answer: string })
  | (ResultBase & {
      readonly outcome: "Paused"
      readonly pauses: ReadonlyArray<typeof PauseRequest.Type>
      readonly requests: ReadonlyArray<Run.ApprovalRequest>
    })
  | (ResultBase & { readonly outcome: "Interrupted"; readonly reason: string | undefined })
