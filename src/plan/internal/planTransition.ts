/**
 * The state of a run and its transition: which events may follow a state, the state after them, and what the run does next. Pure; the engine performs the actions.
 */

import * as Arr from "effect/Array"
import * as Chunk from "effect/Chunk"
import * as Data from "effect/Data"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import { memoize } from "effect/Function"
import * as HashMap from "effect/HashMap"
import * as Inspectable from "effect/Inspectable"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Run from "../../agent/Run.ts"
import * as Message from "../../conversation/Message.ts"
import { defined } from "../../payload/internal/values.ts"
import * as planRunParts from "../../run/internal/planRunParts.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"
import type * as planFailure from "./planFailure.ts"
import * as stepSchema from "./stepSchema.ts"

/** A sequence inside a step. Its output takes its place when it ends. */
type Item = { readonly _tag: "Open"; readonly frame: Frame } | { readonly _tag: "Done"; readonly output: Schema.Json }

/** The items of a step by number, from 0 on. An item is found and changed without a walk through the others. */
type Items = HashMap.HashMap<number, Item>

/** The agent, the plan or the block of items that runs inside a step. */
type Child =
  | { readonly _tag: "Agent"; readonly state: Run.State }
  | { readonly _tag: "Plan"; readonly state: State }
  | { readonly _tag: "Block"; readonly items: Items }

const isItems = (u: unknown): u is Items => HashMap.isHashMap(u)

/** In the order of their numbers. */
const listItems = (items: Items): ReadonlyArray<Item> =>
  Array.from({ length: HashMap.size(items) }, (_, index) => HashMap.getUnsafe(items, index))

const ItemsWire: Schema.Codec<Items, unknown> = Schema.Array(
  Schema.Union([
    Schema.TaggedStruct("Open", { frame: Schema.suspend(() => FrameWire) }),
    Schema.TaggedStruct("Done", { output: Schema.Json })
  ])
).pipe(
  Schema.decodeTo(Schema.declare(isItems), {
    decode: SchemaGetter.transform((items) => HashMap.fromIterable(items.entries())),
    encode: SchemaGetter.transform(listItems)
  })
)

const ChildWire: Schema.Codec<Child, unknown> = Schema.Union([
  Schema.TaggedStruct("Agent", { state: runTransition.StateSchema }),
  Schema.TaggedStruct("Plan", { state: Schema.suspend(() => StateWire) }),
  Schema.TaggedStruct("Block", { items: ItemsWire })
])

const optionalChild = Schema.optionalKey(ChildWire)

/** The decision about a step that paused. */
const optionalDecision = Schema.optionalKey(runParts.Verdict)

/**
 * A step of the current turn.
 *
 * **Details**
 *
 * `usage` adds up what ran inside it in this turn, failed attempts and earlier processes
 * included; the `usage` of the state includes it. `asked` counts what it asked for in this turn,
 * `question` is the newest of that, and `input` what it was given then, where it reads a memory. `status`:
 *
 * - `Waiting`: it has not started since the run was started or resumed. `child` is what
 *   runs inside it and is resumed, `attempt` the number of an attempt that was cut off, if it was not
 *   the first. `decision` is that about its question: a call that was approved runs as it is.
 * - `Running`: it runs, or ran when the process died. `attempt` counts its attempts.
 * - `Finished`: it returned an output. It does not run again in this turn.
 * - `Failed`: it failed, after its retries. A resumed run runs it again.
 * - `Paused`: it waits for a resume or a decision about its question, or, without one, for a
 *   call or step inside its `child`.
 * - `Concluded`: it ended the whole plan with an answer.
 */
export const Member = Schema.Struct({
  step: Schema.String,
  usage: runParts.Usage,
  asked: Schema.optionalKey(runParts.Count),
  question: Schema.optionalKey(planRunParts.Question),
  input: Schema.optionalKey(planRunParts.ResolvedInput),
  status: Schema.Union([
    Schema.TaggedStruct("Waiting", {
      attempt: Schema.optionalKey(runParts.Count),
      child: optionalChild,
      decision: optionalDecision
    }),
    Schema.TaggedStruct("Running", {
      attempt: runParts.Count,
      startedAt: runParts.Time,
      child: optionalChild,
      decision: optionalDecision
    }),
    Schema.TaggedStruct("Finished", { record: planRunParts.StepRecord }),
    Schema.TaggedStruct("Failed", { failure: planRunParts.StepFailure, child: optionalChild }),
    Schema.TaggedStruct("Paused", { child: optionalChild, decision: optionalDecision }),
    Schema.TaggedStruct("Concluded", { answer: Schema.String })
  ])
})

export type Member = typeof Member.Type

/** The steps of one turn, in declared order. A member is found and changed without a walk through the others. */
class Turn extends Data.Class<{
  readonly steps: ReadonlyArray<string>
  readonly byStep: HashMap.HashMap<string, Member>
  /** The number of members that have not finished. */
  readonly open: number
}> {
  get members(): ReadonlyArray<Member> {
    return this.steps.map((step) => HashMap.getUnsafe(this.byStep, step))
  }
}

const isOpen = ({ status }: Member): boolean => status._tag !== "Finished"

const makeTurn = (members: ReadonlyArray<Member>): Turn =>
  new Turn({
    steps: members.map(({ step }) => step),
    byStep: HashMap.fromIterable(members.map((member) => [member.step, member])),
    open: members.filter(isOpen).length
  })

/** The fields of a frame that have the same form in memory and on the wire. The order of the fields is the one of a written state. */
const position = {
  cursor: Schema.optional(Schema.String),
  turn: Schema.optional(Schema.Struct({ members: Schema.Array(Member) })),
  choosing: Schema.optional(Schema.String),
  rejoins: Schema.Array(Schema.Struct({ router: Schema.String, rejoin: Schema.String })),
  iterations: runParts.Count
}

const records = Schema.Array(planRunParts.StepRecord)

const FrameBody = Schema.Struct({ ...position, history: records })

type FrameBody = typeof FrameBody.Type

/** A branch that was taken: after a step of it that ends without a route, the run continues at `rejoin`. */
export type Rejoin = FrameBody["rejoins"][number]

type Rejoins = ReadonlyArray<Rejoin>

/**
 * A sequence of steps under way. {@link State} documents the fields: it is the frame of the steps of the plan itself.
 */
interface Frame {
  readonly cursor?: string | undefined
  readonly turn?: Turn | undefined
  readonly choosing?: string | undefined
  readonly rejoins: Rejoins
  readonly iterations: number
  readonly history: Chunk.Chunk<planRunParts.StepRecord>
  readonly latest: HashMap.HashMap<string, number>
  readonly previous?: number | undefined
}

const StateBody = Schema.Struct({
  runId: Schema.String,
  plan: Schema.String,
  digest: Schema.String,
  depth: runParts.Count,
  context: runParts.Context,
  input: planRunParts.ResolvedInput,
  ...position,
  maxIterations: Schema.Int,
  history: records,
  writes: Schema.Array(Schema.Struct({ key: Schema.String, record: runParts.Count })),
  usage: runParts.Usage,
  basis: Schema.optional(planRunParts.Basis),
  interrupted: Schema.optional(Schema.Struct({ reason: Schema.optionalKey(Schema.String) })),
  outcome: Schema.optional(planRunParts.Outcome),
  startedAt: runParts.Time,
  updatedAt: runParts.Time,
  revision: runParts.Count
})

interface StateFields extends Frame, Omit<typeof StateBody.Type, keyof Frame | "writes"> {
  readonly writes: HashMap.HashMap<string, number>
}

/**
 * The state of a run.
 *
 * **Details**
 *
 * - `cursor`: the step that comes next, or whose turn it is; absent when none is left.
 * - `turn`: the steps of that turn once it has begun: one step, or the members of a
 *   parallel group (a band). It is applied as a whole: `history` holds none of it before
 *   all of it has finished. A step can hold items: sequences with a cursor, a turn and a history of their own.
 * - `choosing`: a step that has finished (it is in `history`) and whose route has not
 *   been chosen yet; `cursor` is that step, too.
 * - `rejoins`: the branches that are taken, the newest last.
 * - `iterations`: the number of turns that have begun. It is a part of the id and the digest of what a step asks for.
 * - `history`: the records of finished steps, in order; `latest` finds the newest record of
 *   a step, `writes` the record behind a key that a step writes.
 * - `previous`: the record that `fromPrev` reads, absent for the input.
 * - `basis`: the parts of the newest definition of the run, which an edited one is compared with.
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

/** The fields that a frame or state without them has as `undefined`, so that equal states have the same keys. */
const absentInFrame = { cursor: undefined, turn: undefined, choosing: undefined, previous: undefined }
const absent = { ...absentInFrame, basis: undefined, interrupted: undefined, outcome: undefined }

const frameOf = ({ history, turn, ...body }: FrameBody) => ({
  ...absentInFrame,
  ...body,
  turn: turn && makeTurn(turn.members),
  history: Chunk.fromIterable(history),
  latest: HashMap.fromIterable(history.map(({ step }, index) => [step, index])),
  previous: history.length === 0 ? undefined : history.length - 1
})

/** The fields that are not on the wire as they are in memory. */
const bodyOf = ({ history, turn }: Pick<Frame, "history" | "turn">): Pick<FrameBody, "history" | "turn"> => ({
  ...(turn && { turn: { members: turn.members } }),
  history: Chunk.toReadonlyArray(history)
})

const isFrame = (u: unknown): u is Frame => Predicate.hasProperty(u, "history") && Chunk.isChunk(u.history)

/** The frame of an item. What can be wrong with it depends on its run, and is found with the state. */
const FrameWire: Schema.Codec<Frame, unknown> = FrameBody.pipe(
  Schema.decodeTo(Schema.declare(isFrame), {
    decode: SchemaGetter.transform(frameOf),
    encode: SchemaGetter.transform(({ latest: _latest, previous: _previous, ...frame }) => ({
      ...defined(frame),
      ...bodyOf(frame)
    }))
  })
)

/** A state without its version. */
export const StateWire: Schema.Codec<State, unknown> = StateBody.pipe(
  Schema.decodeTo(Schema.instanceOf(State), {
    decode: SchemaGetter.transformEffect((body, options) => {
      const problem = stateProblem(body)
      return problem === undefined
        ? Effect.succeed(
            new State({
              ...absent,
              ...body,
              ...frameOf(body),
              writes: HashMap.fromIterable(body.writes.map(({ key, record }) => [key, record]))
            })
          )
        : Effect.fail(new SchemaIssue.InvalidValue({ message: problem }, body, options))
    }),
    encode: SchemaGetter.transform(({ latest: _latest, previous: _previous, ...state }) => ({
      ...defined(state),
      ...bodyOf(state),
      // By place, so that equal states have equal text
      writes: Array.from(state.writes, ([key, record]) => ({ key, record })).sort(
        (a, b) => a.record - b.record || (a.key < b.key ? -1 : 1)
      )
    }))
  })
)

/** The problem of a body that no state was written with, or nothing. */
const stateProblem = (body: typeof StateBody.Type): string | undefined => {
  const { history, writes } = body
  const missing = writes.find(({ record }) => record >= history.length)
  if (missing !== undefined) {
    return `expected that ${JSON.stringify(missing.key)} was written by one of ${history.length} records, got the place ${missing.record}`
  }
  if (new Set(writes.map(({ key }) => key)).size < writes.length) return "expected each key in writes once"
  return frameProblem(body, body)
}

/** The problem of a frame that no state was written with, or of a frame inside it, or nothing. */
const frameProblem = (
  run: Asking,
  self: Pick<FrameBody, "choosing" | "cursor" | "iterations" | "turn">,
  path: ReadonlyArray<string> = []
): string | undefined => {
  const { choosing, cursor, turn } = self
  const members = turn?.members ?? []
  const asking = askingIn(run, self, path)
  const forged = members.find((member) => isForged(asking, member))
  if (forged !== undefined) {
    return `expected the digest of the request of the step ${JSON.stringify(forged.step)} as it is shown, got another one`
  }
  const steps = members.map(({ step }) => step)
  if (turn !== undefined && (steps.length === 0 || steps[0] !== cursor)) {
    return "expected a turn that begins with the step at the cursor"
  }
  if (new Set(steps).size < steps.length) return "expected each step of the turn once"
  if (choosing !== undefined && (choosing !== cursor || turn !== undefined)) {
    return "expected that the step whose route is to be chosen is at the cursor, and no turn"
  }
  return framesIn(members)
    .map(({ frame, place }) => frameProblem(run, frame, [...path, ...place]))
    .find(Predicate.isNotUndefined)
}

/** The open items of members, with the place of each. */
const framesIn = (members: ReadonlyArray<Member>) =>
  members.flatMap(({ status, step }) => {
    const child = childOf(status)
    const items = child?._tag === "Block" ? listItems(child.items) : []
    return items.flatMap((item, index) =>
      item._tag === "Open" ? [{ frame: item.frame, place: [step, String(index)] }] : []
    )
  })

/**
 * The records of finished steps, in order: a step that ran twice appears twice, a parallel group as a
 * whole and in declared order.
 *
 * @category getters
 * @since 0.1.0
 */
export const history = (self: State): ReadonlyArray<planRunParts.StepRecord> => Chunk.toReadonlyArray(self.history)

const recordAt = (self: Frame, index: number | undefined): Option.Option<planRunParts.StepRecord> =>
  index === undefined ? Option.none() : Chunk.get(self.history, index)

/**
 * The newest record of a step.
 */
export const recordOf = (self: Frame, step: string): Option.Option<planRunParts.StepRecord> =>
  recordAt(self, Option.getOrUndefined(HashMap.get(self.latest, step)))

/**
 * The record that `fromPrev` reads: the record of the step that finished last, and after a parallel group the record of
 * its last declared member. None before the first step.
 */
export const lastRecord = (self: Frame): Option.Option<planRunParts.StepRecord> => recordAt(self, self.previous)

/** The values of the `writes` keys that these records of the history and the later ones have written, in their order. */
export const writesFrom = (self: State, first: number): ReadonlyArray<planRunParts.StepWrite> =>
  Array.from(self.writes)
    .filter(([, record]) => record >= first)
    .sort(([, a], [, b]) => a - b)
    .flatMap(([key, record]) =>
      Option.toArray(recordAt(self, record)).map(({ finishedAt, output, step }) => ({
        key,
        step,
        at: finishedAt,
        value: output
      }))
    )

/** The values of the `writes` keys, the newest of each, in the order of writing. */
export const writtenValues = (self: State): ReadonlyMap<string, Schema.Json> =>
  new Map(writesFrom(self, 0).map(({ key, value }) => [key, value]))

const membersOf = (self: Frame): ReadonlyArray<Member> => self.turn?.members ?? []

/** The turn of a step in its frame. */
export const turnOf = ({ iterations }: Pick<Frame, "iterations">, step: string): string => `${step}:${iterations}`

/** The place in its run of what a step asks for: its turn. */
export const placeOf = (state: Pick<State, "iterations" | "runId">, step: string): readonly [string, string] => [
  state.runId,
  turnOf(state, step)
]

/** The run and the frame whose step asks. `path` is the place of the frame in the run, absent for the steps of the plan itself. */
interface Asking extends Pick<State, "depth" | "iterations" | "runId"> {
  readonly path?: ReadonlyArray<string>
}

const askingIn = (
  { depth, runId }: Asking,
  { iterations }: Pick<Frame, "iterations">,
  path: ReadonlyArray<string> = []
): Asking => ({ depth, runId, iterations, path })

const isForged = (asking: Asking, { input, question, step }: Pick<Member, "input" | "question" | "step">): boolean => {
  const { path = [], runId } = asking
  return question !== undefined && runParts.isForgedQuestion([runId, ...path, turnOf(asking, step)], question, input)
}

/** The id of what a step asks for: one for each time that it asks, so that a decision counts once. */
export const requestId = (
  { depth, iterations, runId }: Asking,
  { asked = 1, step }: Pick<Member, "asked" | "step">
): string => {
  const id = asked === 1 ? `${step}:${iterations}` : `${step}:${iterations}:${asked}`
  // A plan inside of a step starts again in every turn of the step
  return depth === 0 ? id : `${id}@${runId}`
}

/** The question that a step waits with, under the id that a decision names. */
const questionOf = (asking: Asking, member: Member) => {
  const { question, status } = member
  return question !== undefined && status._tag === "Paused" && status.decision === undefined
    ? { ...question, callId: requestId(asking, member) }
    : undefined
}

/** The findings in the turns of a run, of its items and of the plans inside it, step by step. */
const findBelow = <A>(
  run: State,
  find: (asking: Asking, member: Member, path: ReadonlyArray<string>) => ReadonlyArray<A>,
  path: ReadonlyArray<string> = [],
  self: Frame = run
): ReadonlyArray<A> => {
  const asking = askingIn(run, self)
  return membersOf(self).flatMap((member) => {
    const child = childOf(member.status)
    const plan = child?._tag === "Plan" ? findBelow(child.state, find, [...path, member.step]) : []
    const items = framesIn([member]).flatMap(({ frame, place }) => findBelow(run, find, [...path, ...place], frame))
    return [...find(asking, member, path), ...plan, ...items]
  })
}

/**
 * The steps that wait for a resume, steps of nested plans included. A pause with `approved` added is a decision about
 * its step.
 *
 * @category getters
 * @since 0.1.0
 */
export const pauses = (self: State): ReadonlyArray<typeof planRunParts.PauseRequest.Type> =>
  findBelow(self, (plan, member, path) => {
    const { callId = "", digest = "", reason } = questionOf(plan, member) ?? {}
    return reason === undefined ? [] : [{ callId, digest, step: member.step, path, reason }]
  })

/**
 * The calls that wait for a decision: of tools that are steps, and of agents and plans
 * inside of steps.
 *
 * **Details**
 *
 * The `callId` of a tool that is a step is the name of the step with its turn, for example
 * `pay:1`, then the count from the second request in one turn on, and in a nested plan the
 * id of its run. `path` holds the steps of the outer plans and the step of the agent, then the
 * ids of enclosing calls.
 *
 * @category getters
 * @since 0.1.0
 */
export const approvalRequests = (self: State): ReadonlyArray<Run.ApprovalRequest> =>
  runTransition.disambiguate(
    findBelow(self, (plan, member, path) => {
      const { callId = "", digest = "", request } = questionOf(plan, member) ?? {}
      const own =
        request === undefined ? [] : [{ callId, ...request, digest, ...(path.length === 0 ? undefined : { path }) }]
      const child = childOf(member.status)
      const asked = child?._tag === "Agent" ? Run.approvalRequests(child.state) : []
      return [...own, ...asked.map((one) => ({ ...one, path: [...path, member.step, ...(one.path ?? [])] }))]
    })
  )

export type StepList = ReadonlyArray<{ readonly parallel: boolean }>

/** The position after the turn that begins at a position: after the step, or after the rest of its parallel group. */
export const groupEnd = (steps: StepList, at: number): number => {
  let end = at + 1
  if (steps[at]?.parallel === true) while (steps[end]?.parallel === true) end += 1
  return end
}

/** Positions of steps by name; of several with one name, the first. */
export const positionsOf = memoize(({ steps }: PlanDefinition.PlanDefinition): ReadonlyMap<string, number> => {
  const positions = new Map<string, number>()
  for (const [index, { name }] of steps.entries()) if (!positions.has(name)) positions.set(name, index)
  return positions
})

export const findStep = (definition: PlanDefinition.PlanDefinition, name: string) => {
  const position = positionsOf(definition).get(name)
  return position === undefined ? undefined : definition.steps[position]
}

/** The steps that run together from a position on: one, or the rest of its parallel group. None at the end of the plan. */
export const stepsAt = (definition: PlanDefinition.PlanDefinition, position: number) => {
  const { steps } = definition
  return steps.slice(position, groupEnd(steps, position))
}

/** A step that runs alone and names the next step when it has finished. */
export const hasRoutes = ({ parallel, routes, routesBy }: PlanDefinition.StepDefinition): boolean =>
  !parallel && ((routes !== undefined && routes.length > 0) || routesBy !== undefined)

type Positions = ReadonlyMap<string, number>

/** True where a branch has ended: at the step where it rejoins, and at every step after that one. */
const isPast = (positions: Positions, rejoin: string, at: string): boolean =>
  (positions.get(at) ?? 0) >= (positions.get(rejoin) ?? Infinity)

/** Going to where a branch rejoins, or past it, leaves it and all branches that were taken inside of it. */
const leaveBranches = (rejoins: Rejoins, at: string, positions: Positions): Rejoins => {
  const left = rejoins.findIndex(({ rejoin }) => isPast(positions, rejoin, at))
  return left === -1 ? rejoins : rejoins.slice(0, left)
}

/** The branches after the route from `router` to `to`. */
export const enterBranch = (
  rejoins: Rejoins,
  router: PlanDefinition.StepDefinition,
  to: string,
  positions: Positions
): Rejoins => {
  const position = positions.get(to) ?? 0
  const { afterBranches: rejoin, name } = router
  const kept = leaveBranches(rejoins, to, positions).filter(
    // A route back to a router or before it left that router's branch
    (branch) => (positions.get(branch.router) ?? 0) < position
  )
  return rejoin === undefined || isPast(positions, rejoin, to) ? kept : [...kept, { router: name, rejoin }]
}

/** The next step after a step inside a branch that ends without a route, and the branches left after it. */
export const rejoinAt = (rejoins: Rejoins, positions: Positions) => {
  const top = rejoins.at(-1)
  return top === undefined ? undefined : { at: top.rejoin, branches: leaveBranches(rejoins, top.rejoin, positions) }
}

/**
 * The definition that a run follows, and the rules of the plans that are steps of it.
 */
export interface Rules {
  readonly definition: PlanDefinition.PlanDefinition
  /** The rules of the plan, or of the items, that run in a step. */
  readonly nested: ReadonlyMap<string, Rules>
}

/**
 * The next action of a driver.
 *
 * **Details**
 *
 * - `RunSteps`: run these steps at the same time: the steps of the turn that are not done.
 * - `ChooseRoute`: choose the route of the step that has just finished.
 * - `Finish`: record this outcome, unless the state has it already, and stop.
 */
export type Action =
  | { readonly _tag: "RunSteps"; readonly steps: readonly [string, ...Array<string>] }
  | { readonly _tag: "ChooseRoute"; readonly step: string }
  | { readonly _tag: "Finish"; readonly outcome: planRunParts.Outcome }

/** An event of a step, which changes one frame. */
type StepEvent = Exclude<
  runParts.PlanRunEvent,
  { readonly _tag: "PlanStarted" | "PlanInterrupted" | "PlanFinished" | "PlanResumed" }
>

/** One kind of event. */
export type EventOf<Tag extends runParts.PlanRunEvent["_tag"]> = Extract<runParts.PlanRunEvent, { readonly _tag: Tag }>

/**
 * An event does not fit the state it was applied to: events are missing, out of order or
 * doubled, or two drivers write to one run.
 *
 * **Details**
 *
 * `event` is the tag of the event, `index` its place in the list when a list was
 * applied, `path` the steps of the outer plans (and the ids of the calls of agents in
 * them) when it is an event of a run inside a step.
 *
 * @category errors
 * @since 0.1.0
 */
export class EventError extends Data.TaggedError("PlanRunEventError")<{
  readonly event: string
  readonly path: ReadonlyArray<string>
  readonly index?: number
  readonly problem: string
}> {
  override get message(): string {
    const where = this.path.length === 0 ? "" : ` in the run inside ${this.path.join(" > ")}`
    const index = this.index === undefined ? "" : ` at index ${this.index}`
    return `${this.event}${index}${where} does not fit the run of the plan: ${this.problem}. Apply each event once, in the order in which it happened, from one driver at a time.`
  }
}

/**
 * The state of a run from the list of its events, which begins with `PlanStarted` unless they
 * follow a state. The first event that does not fit fails, with its place in the list.
 */
export const fold = (
  rules: Rules,
  events: Iterable<runParts.PlanRunEvent>,
  from?: State
): Result.Result<State, EventError> => {
  let state = from
  let index = 0
  for (const event of events) {
    const applied = state === undefined ? applyFirst(rules, event) : apply(rules, state, event)
    if (Result.isFailure(applied)) {
      const { event, path, problem } = applied.failure
      return Result.fail(new EventError({ event, path, problem, index }))
    }
    state = applied.success
    index += 1
  }
  return state === undefined ? notStarted("no event") : Result.succeed(state)
}

type Status = Member["status"]

/** The step of that name in the current turn. */
export const memberOf = (self: Frame, step: string): Member | undefined =>
  self.turn && Option.getOrUndefined(HashMap.get(self.turn.byStep, step))

/** The run inside a step of the current turn, if there is one. */
export const childOf = (status: Status): Child | undefined => ("child" in status ? status.child : undefined)

type ApplyResult = Result.Result<State, EventError>

/** The fields of a frame that an event changes. */
type FrameResult = Result.Result<Partial<Frame>, EventError>

const rejectInside = (path: ReadonlyArray<string>, event: string, problem: string): Result.Result<never, EventError> =>
  Result.fail(new EventError({ event, path, problem }))

const reject = (event: runParts.PlanRunEvent, problem: string) => rejectInside([], event._tag, problem)

const rejectUnexpected = (event: runParts.PlanRunEvent, expected: string, found: string) =>
  reject(event, `expected ${expected}, found ${found}`)

const rejectUnknownStep = (event: runParts.PlanRunEvent, step: string, known: ReadonlyArray<string>) => {
  const names = known.length === 0 ? "(none)" : known.map((name) => JSON.stringify(name)).join(", ")
  return rejectUnexpected(event, `one of the steps ${names}`, JSON.stringify(step))
}

const rejectStatus = (event: runParts.PlanRunEvent, { status, step }: Member, expected: string) =>
  reject(event, `step ${JSON.stringify(step)}: expected ${expected}, found ${status._tag}`)

const notStarted = (found: string) => rejectInside([], found, `expected PlanStarted first, found ${found}`)

const updateState = (self: State, event: runParts.PlanRunEvent, fields: Partial<StateFields>): ApplyResult =>
  Result.succeed(new State(self, { ...fields, updatedAt: event.at, revision: self.revision + 1 }))

/** The state after the first event. */
export const start = ({ definition }: Rules, event: EventOf<"PlanStarted">): State => {
  const { at, _tag, ...fields } = event
  return new State({
    ...absent,
    ...fields,
    cursor: definition.steps[0]?.name,
    rejoins: [],
    iterations: 0,
    history: Chunk.empty(),
    latest: HashMap.empty(),
    writes: HashMap.empty(),
    usage: {},
    startedAt: at,
    updatedAt: at,
    revision: 1
  })
}

const applyFirst = (rules: Rules, event: runParts.PlanRunEvent): ApplyResult =>
  event._tag === "PlanStarted" ? Result.succeed(start(rules, event)) : notStarted(event._tag)

/** The state after one more event. */
export const apply = (rules: Rules, self: State, event: runParts.PlanRunEvent): ApplyResult => {
  if (self.outcome !== undefined && !isAllowedAfterEnd(event)) {
    return rejectUnexpected(event, "a run under way (PlanResumed first)", `one that ended ${self.outcome._tag}`)
  }
  if (self.interrupted !== undefined && self.outcome === undefined && !isAllowedWhenInterrupted(event)) {
    return rejectUnexpected(event, "a run under way", "one that was interrupted")
  }
  switch (event._tag) {
    case "PlanStarted":
      return rejectUnexpected(event, "no PlanStarted after the first event", "a run that has started")
    case "PlanInterrupted":
      return updateState(self, event, { interrupted: defined({ reason: event.reason }) })
    case "PlanFinished":
      return applyPlanFinished(rules, self, event)
    case "PlanResumed":
      return applyPlanResumed(self, event)
    default: {
      const changed = at(rules, self, event, event.in ?? [], (rules, frame) => applyInFrame(rules, self, frame, event))
      return Result.isFailure(changed) ? Result.fail(changed.failure) : updateFrame(rules, self, event, changed.success)
    }
  }
}

/** The state after an event of a step. */
const updateFrame = (rules: Rules, self: State, event: StepEvent, frame: Partial<Frame>): ApplyResult => {
  const usage = addUsage(self.usage, usageOf(event))
  return updateState(self, event, { ...frame, usage, writes: writesAfter(rules, self, frame.history) })
}

const textsOf = (path: runParts.Path = []): ReadonlyArray<string> =>
  path.flatMap(([step, index]) => [step, String(index)])

/** The change of a frame whose frame at a path changes. */
const at = (
  rules: Rules,
  self: Frame,
  event: StepEvent,
  [place, ...path]: runParts.Path,
  change: (rules: Rules, frame: Frame) => FrameResult
): FrameResult => {
  if (place === undefined) return change(rules, self)
  const [step, index] = place
  return withMember(self, event, step, changeableStatuses(event), (member) => {
    const inner = rules.nested.get(step)
    const child = childOf(member.status)
    const items: Items = child?._tag === "Block" ? child.items : HashMap.empty()
    const item = Option.getOrUndefined(HashMap.get(items, index))
    if (inner === undefined || item?._tag !== "Open") {
      const found = item === undefined || inner === undefined ? "none" : "one that has ended"
      return rejectUnexpected(event, `an item ${index} under way in step ${JSON.stringify(step)}`, found)
    }
    const changed = at(inner, item.frame, event, path, change)
    if (Result.isFailure(changed)) {
      const { event, path, problem } = changed.failure
      return rejectInside([step, String(index), ...path], event, problem)
    }
    const frame = { ...item.frame, ...changed.success }
    return changeChild(self, event, member, {
      _tag: "Block",
      items: HashMap.set(items, index, { _tag: "Open", frame })
    })
  })
}

/** A frame of a run after an event of a step in it. */
const applyInFrame = (rules: Rules, run: State, self: Frame, event: StepEvent): FrameResult => {
  switch (event._tag) {
    case "StepStarted":
      return applyStepStarted(rules, run, self, event)
    case "StepRetried":
      return applyStepRetried(self, event)
    case "AgentChanged":
      return applyAgentChanged(self, event)
    case "NestedChanged":
      return applyNestedChanged(rules, run, self, event)
    case "StepFinished":
      return applyStepFinished(rules, self, event)
    case "StepFailed":
      // A later question is another one, also if it asks for the same
      return settleMember(
        self,
        event,
        event.step,
        (child) => ({ _tag: "Failed", failure: event.failure, ...child }),
        ({ question: _, ...member }) => member
      )
    case "StepPaused":
      if (isForged(askingIn(run, self, textsOf(event.in)), event)) {
        return rejectUnexpected(event, "the digest of the request as it is shown", "another one")
      }
      return settleMember(
        self,
        event,
        event.step,
        (child) => ({ _tag: "Paused", ...child }),
        ({ input: _, question: __, ...member }) => ({
          ...member,
          ...defined({ asked: event.asked, input: event.input, question: event.question })
        })
      )
    case "StepConcluded":
      return settleMember(self, event, event.step, () => ({ _tag: "Concluded", answer: event.answer }))
    case "RouteTaken":
      return applyRouteTaken(rules, self, event)
    case "StepDecided":
      return applyStepDecided(run, self, event)
  }
}

/** A decision comes from outside, also while nothing runs. */
const isAllowedAfterEnd = (event: runParts.PlanRunEvent): boolean => event._tag === "PlanResumed" || isDecision(event)

const isDecision = (event: runParts.PlanRunEvent): boolean => {
  switch (event._tag) {
    case "StepDecided":
      return true
    case "AgentChanged":
      return runTransition.isDecision(event.event)
    case "NestedChanged":
      return isDecision(event.event)
    default:
      return false
  }
}

/** Nothing starts any more; what runs may end. */
const isAllowedWhenInterrupted = (event: runParts.PlanRunEvent): boolean =>
  event._tag !== "PlanStarted" &&
  event._tag !== "StepStarted" &&
  event._tag !== "StepRetried" &&
  event._tag !== "PlanInterrupted"

const applyStepStarted = (rules: Rules, run: State, self: Frame, event: EventOf<"StepStarted">): FrameResult => {
  if (self.turn !== undefined) return startMember(self, event)
  const action = nextInFrame(rules, run, self)
  if (action._tag !== "RunSteps") {
    return rejectUnexpected(event, `what comes next: ${action._tag}`, `the start of ${JSON.stringify(event.step)}`)
  }
  if (!action.steps.includes(event.step)) return rejectUnknownStep(event, event.step, action.steps)
  const running: Status = { _tag: "Running", attempt: 1, startedAt: event.at }
  const members = action.steps.map((step): Member => ({
    step,
    usage: {},
    status: step === event.step ? running : { _tag: "Waiting" }
  }))
  return Result.succeed({ iterations: self.iterations + 1, turn: makeTurn(members) })
}

/** A running step may change; a waiting step may be decided about. */
const changeableStatuses = (event: runParts.PlanRunEvent): ReadonlyArray<Status["_tag"]> =>
  isDecision(event) ? ["Running", "Paused", "Failed", "Waiting"] : ["Running"]

const applyAgentChanged = (self: Frame, event: EventOf<"AgentChanged">): FrameResult =>
  withMember(self, event, event.step, changeableStatuses(event), (member) => {
    const child = childOf(member.status)
    const { event: inner, step } = event
    if (child !== undefined && child._tag !== "Agent") {
      return rejectUnexpected(
        event,
        `events of the ${child._tag === "Plan" ? "plan" : "items"} in the step`,
        "an event of an agent"
      )
    }
    if (inner._tag === "RunStarted" && (child === undefined || child.state.outcome !== undefined)) {
      return changeChild(self, event, member, { _tag: "Agent", state: Run.start(inner) })
    }
    if (child === undefined) {
      return rejectInside([step], inner._tag, `expected RunStarted first, found ${inner._tag}`)
    }
    const after = Run.apply(child.state, inner)
    return Result.isFailure(after)
      ? rejectInside([step, ...after.failure.path], after.failure.event, problemOf(after.failure))
      : changeChild(self, event, member, { _tag: "Agent", state: after.success })
  })

const problemOf = ({ reason: { expected, found } }: Run.EventError): string => `expected ${expected}, found ${found}`

const applyNestedChanged = (rules: Rules, run: State, self: Frame, event: EventOf<"NestedChanged">): FrameResult =>
  withMember(self, event, event.step, changeableStatuses(event), (member) => {
    const { event: inner, step } = event
    const nested = rules.nested.get(step)
    if (nested === undefined) {
      return reject(event, `expected a plan in step ${JSON.stringify(step)}, found that the rules have none for it`)
    }
    const child = childOf(member.status)
    if (child !== undefined && child._tag !== "Plan") {
      return rejectUnexpected(
        event,
        `events of the ${child._tag === "Agent" ? "agent" : "items"} in the step`,
        "one of a plan"
      )
    }
    const begins = child === undefined || (inner._tag === "PlanStarted" && child.state.outcome !== undefined)
    const after = begins ? startNested(nested, run, inner) : apply(nested, child.state, inner)
    return Result.isFailure(after)
      ? rejectInside([step, ...after.failure.path], after.failure.event, after.failure.problem)
      : changeChild(self, event, member, { _tag: "Plan", state: after.success })
  })

const startNested = (nested: Rules, outer: State, event: runParts.PlanRunEvent): ApplyResult =>
  event._tag === "PlanStarted" && event.depth !== outer.depth + 1
    ? rejectUnexpected(event, `depth ${outer.depth + 1}`, `depth ${event.depth}`)
    : applyFirst(nested, event)

const applyStepFinished = (rules: Rules, self: Frame, event: EventOf<"StepFinished">): FrameResult =>
  withMember(self, event, event.record.step, ["Running"], (member) => {
    const turn = changeMember(self, member, { status: { _tag: "Finished", record: event.record } })
    return Result.succeed(turn.open > 0 ? { turn } : finishTurn(rules, self, turn))
  })

const applyPlanFinished = (rules: Rules, self: State, event: EventOf<"PlanFinished">): ApplyResult => {
  const action = next(rules, self)
  const { outcome } = event
  const fits =
    action._tag === "Finish"
      ? Equal.equals(action.outcome, outcome) ||
        // The output of the last step need not be one of the plan
        (action.outcome._tag === "Completed" && outcome._tag === "Failed")
      : // A predicate can fail
        action._tag === "ChooseRoute" && outcome._tag === "Failed" && outcome.step === action.step
  if (fits) return updateState(self, event, { outcome })
  const found = `the outcome ${outcome._tag}`
  return action._tag === "Finish"
    ? rejectUnexpected(event, `the outcome ${action.outcome._tag} as it comes from next`, found)
    : rejectUnexpected(event, `what comes next: ${action._tag}`, found)
}

const applyPlanResumed = (self: State, event: EventOf<"PlanResumed">): ApplyResult => {
  const { outcome } = self
  if (outcome?._tag === "Completed" || outcome?._tag === "Concluded") {
    return rejectUnexpected(event, "a run that can be resumed", `one that ended ${outcome._tag}`)
  }
  const { change, maxIterations } = event
  return updateState(self, event, {
    outcome: undefined,
    interrupted: undefined,
    ...reopenFrame(self),
    ...defined({ maxIterations }),
    ...(change && { basis: change.basis, cursor: change.cursor })
  })
}

/** Passes the member to `f` if it has an expected status. */
const withMember = (
  self: Frame,
  event: runParts.PlanRunEvent,
  step: string,
  expected: ReadonlyArray<Status["_tag"]>,
  f: (member: Member) => FrameResult
): FrameResult => {
  const member = memberOf(self, step)
  if (member === undefined) {
    const known = membersOf(self).map(({ step }) => step)
    return rejectUnknownStep(event, step, known)
  }
  if (expected.includes(member.status._tag)) return f(member)
  return rejectStatus(event, member, expected.join(" or "))
}

/** The turn in which a member has changed. */
const changeMember = (self: Frame, member: Member, fields: Partial<Omit<Member, "step">>): Turn =>
  putMember(self, member, { ...member, ...fields })

const putMember = ({ turn = makeTurn([]) }: Frame, before: Member, after: Member): Turn =>
  new Turn({
    steps: turn.steps,
    byStep: HashMap.set(turn.byStep, after.step, after),
    open: turn.open + Number(isOpen(after)) - Number(isOpen(before))
  })

/** Ends the attempt of a running step. */
const settleMember = (
  self: Frame,
  event: runParts.PlanRunEvent,
  step: string,
  status: (child: { readonly child?: Child }) => Status,
  change: (member: Member) => Member = (member) => member
): FrameResult =>
  withMember(self, event, step, ["Running"], (member) =>
    Result.succeed({
      turn: putMember(self, member, {
        ...change(member),
        status: status(defined({ child: childOf(member.status) }))
      })
    })
  )

const startMember = (self: Frame, event: EventOf<"StepStarted">): FrameResult =>
  withMember(self, event, event.step, ["Waiting"], (member) => {
    const { attempt, decision } = member.status._tag === "Waiting" ? member.status : {}
    const status: Status = {
      _tag: "Running",
      attempt: attempt ?? 1,
      startedAt: event.at,
      ...defined({ child: childOf(member.status), decision })
    }
    return Result.succeed({ turn: changeMember(self, member, { status }) })
  })

const applyStepRetried = (self: Frame, event: EventOf<"StepRetried">): FrameResult =>
  withMember(self, event, event.step, ["Running"], (member) => {
    const { status } = member
    if (status._tag !== "Running" || event.attempt !== status.attempt + 1) {
      const found = status._tag === "Running" ? status.attempt : 0
      return rejectUnexpected(event, `the attempt after number ${found}`, `number ${event.attempt}`)
    }
    // Each attempt begins anew: the run inside the failed one is dropped
    const { child: _, ...kept } = status
    return Result.succeed({
      turn: changeMember(self, member, { status: { ...kept, attempt: event.attempt } })
    })
  })

const applyStepDecided = (run: State, self: Frame, event: EventOf<"StepDecided">): FrameResult =>
  withMember(self, event, event.step, ["Paused"], (member) => {
    const { question, status } = member
    if (status._tag !== "Paused" || question === undefined) {
      return rejectUnexpected(event, "a decision about something inside the step", "one about the step")
    }
    if (status.decision !== undefined) return rejectUnexpected(event, "one decision", "another one about the same step")
    if (question.digest !== event.digest || requestId(askingIn(run, self), member) !== event.callId) {
      return rejectUnexpected(event, "a decision about what the step asks for", "one about something else")
    }
    const decision = runTransition.verdictOf(event)
    return Result.succeed({ turn: changeMember(self, member, { status: { ...status, decision } }) })
  })

/** The call of a tool that was approved may have run: it asks again. */
const isUsed = ({ question, status }: Member): boolean =>
  status._tag === "Running" && status.decision !== undefined && question?.request !== undefined

/** The steps of a turn and of the items inside it wait again. A run inside a step is reopened by an event of its own. */
const reopenFrame = ({ turn }: Frame): Pick<Frame, "turn"> => ({
  turn: turn && makeTurn(turn.members.map(reopenMember))
})

const reopenChild = (child: Child | undefined): Child | undefined =>
  child?._tag !== "Block"
    ? child
    : {
        _tag: "Block",
        items: HashMap.map(child.items, (item) =>
          item._tag === "Open" ? { ...item, frame: { ...item.frame, ...reopenFrame(item.frame) } } : item
        )
      }

/** A step without a result waits again, with what runs inside it. */
const reopenMember = (member: Member): Member => {
  const { status } = member
  if (status._tag === "Finished" || status._tag === "Concluded") return member
  const decision = status._tag === "Failed" || isUsed(member) ? undefined : status.decision
  // An attempt that was cut off is made again; a step that failed or paused begins with its first one
  const attempt = status._tag === "Running" || status._tag === "Waiting" ? status.attempt : undefined
  const { question, ...rest } = member
  return {
    ...rest,
    ...(isUsed(member) ? undefined : defined({ question })),
    status: {
      _tag: "Waiting",
      ...defined({
        attempt: attempt === 1 ? undefined : attempt,
        child: reopenChild(status.child),
        decision
      })
    }
  }
}

/** The step after an event of the run inside it. */
const changeChild = (self: Frame, event: runParts.PlanRunEvent, member: Member, child: Child): FrameResult => {
  const { status } = member
  if (status._tag === "Finished" || status._tag === "Concluded") {
    return rejectStatus(event, member, "Running")
  }
  const usage = addUsage(member.usage, usageOf(event))
  return Result.succeed({ turn: changeMember(self, member, { usage, status: { ...status, child } }) })
}

/** A turn counts as a whole, in declared order. */
const finishTurn = (rules: Rules, self: Frame, { members }: Turn): Partial<Frame> => {
  let { history, latest } = self
  for (const { status } of members) {
    if (status._tag !== "Finished") continue
    latest = HashMap.set(latest, status.record.step, Chunk.size(history))
    history = Chunk.append(history, status.record)
  }
  const step = self.cursor === undefined ? undefined : findStep(rules.definition, self.cursor)
  return {
    history,
    latest,
    previous: Chunk.size(history) - 1,
    turn: undefined,
    ...(step !== undefined && hasRoutes(step) ? { choosing: step.name } : advanceCursor(rules, self))
  }
}

/** The records behind the keys that steps write, with the records that the history has and the state does not. */
const writesAfter = ({ definition }: Rules, self: State, history = self.history): State["writes"] => {
  let { writes } = self
  for (let index = Chunk.size(self.history); index < Chunk.size(history); index += 1) {
    const { output, step } = Chunk.getUnsafe(history, index)
    const key = findStep(definition, step)?.writes
    if (key !== undefined && key !== "" && output !== null) writes = HashMap.set(writes, key, index)
  }
  return writes
}

/** The step after the turn at the cursor when no route is taken. */
const advanceCursor = ({ definition }: Rules, self: Frame): Partial<Frame> => {
  const positions = positionsOf(definition)
  const rejoined = rejoinAt(self.rejoins, positions)
  if (rejoined !== undefined) return { cursor: rejoined.at, rejoins: rejoined.branches, choosing: undefined }
  const position = self.cursor === undefined ? undefined : positions.get(self.cursor)
  const after = position === undefined ? undefined : position + stepsAt(definition, position).length
  return { cursor: after === undefined ? undefined : definition.steps[after]?.name, choosing: undefined }
}

const applyRouteTaken = (rules: Rules, self: Frame, event: EventOf<"RouteTaken">): FrameResult => {
  const { definition } = rules
  const step = findStep(definition, event.step)
  if (self.choosing !== event.step || step === undefined) {
    const expected =
      self.choosing === undefined ? "no route to choose" : `the route of ${JSON.stringify(self.choosing)}`
    return rejectUnexpected(event, expected, `the route of ${JSON.stringify(event.step)}`)
  }
  if (event.to === undefined) return Result.succeed(advanceCursor(rules, self))
  const known =
    step.routesBy === undefined ? (step.routes ?? []).map(({ to }) => to) : [...stepSchema.routable(definition, step)]
  if (!known.includes(event.to)) return rejectUnknownStep(event, event.to, known)
  return Result.succeed({
    cursor: event.to,
    choosing: undefined,
    rejoins: enterBranch(self.rejoins, step, event.to, positionsOf(definition))
  })
}

/** The record of a step repeats what the events of the runs inside it reported. */
const usageOf = (event: runParts.PlanRunEvent): Message.TokenUsage | undefined =>
  runTransition.usageOf({ _tag: "PlanEvent", event })

export const childAt = (self: Frame | undefined, step: string): Child | undefined => {
  const member = self === undefined ? undefined : memberOf(self, step)
  return member === undefined ? undefined : childOf(member.status)
}

const isEmptyUsage = (usage: Message.TokenUsage): boolean => Object.keys(usage).length === 0

const addUsage = (total: Message.TokenUsage, usage: Message.TokenUsage | undefined): Message.TokenUsage =>
  usage === undefined || isEmptyUsage(usage) ? total : Message.sumUsage([total, usage])

const finishAction = (outcome: planRunParts.Outcome): Action => ({ _tag: "Finish", outcome })

/** The next action of a driver. Ask when no part of the run is under way. */
export const next = (rules: Rules, self: State): Action => {
  if (self.outcome !== undefined) return finishAction(self.outcome)
  if (self.interrupted !== undefined) return finishAction({ _tag: "Interrupted", ...self.interrupted })
  return self.turn === undefined ? nextInFrame(rules, self, self) : nextInTurn(self, self.turn.members)
}

/** The next action in a frame of a run without a turn. */
const nextInFrame = ({ definition }: Rules, run: State, self: Frame): Action => {
  const { choosing, cursor } = self
  if (choosing !== undefined) return { _tag: "ChooseRoute", step: choosing }
  if (cursor === undefined) return finishAction({ _tag: "Completed", output: previousOutput(run, self) })
  const position = positionsOf(definition).get(cursor)
  const steps = position === undefined ? [] : stepsAt(definition, position).map(({ name }) => name)
  // Only a state of another definition has a cursor without steps
  if (!Arr.isReadonlyArrayNonEmpty(steps))
    return finishAction({ _tag: "Failed", step: cursor, failure: definitionChanged(cursor) })
  return self.iterations < run.maxIterations
    ? { _tag: "RunSteps", steps }
    : finishAction({ _tag: "LimitReached", limit: run.maxIterations, next: cursor })
}

const definitionChanged = (step: string) => ({
  type: "PlanChanged",
  message: `expected a plan with the step ${JSON.stringify(step)}, found one without it: it was edited since`,
  retryable: false
})

/** The output that `fromPrev` reads, which is also the output of a plan that ends here. */
const previousOutput = (run: State, self: Frame) =>
  Option.match(lastRecord(self), {
    onNone: () => run.input.payload,
    onSome: (record) => record.output
  })

/** A turn waits for all its members; then an answer counts before a pause, and a pause before a failure. */
const nextInTurn = (self: State, members: ReadonlyArray<Member>): Action => {
  const open = members
    .filter(({ status }) => status._tag === "Waiting" || status._tag === "Running")
    .map(({ step }) => step)
  if (Arr.isReadonlyArrayNonEmpty(open)) return { _tag: "RunSteps", steps: open }
  let failed: planRunParts.Outcome | undefined
  let paused = false
  for (const { status, step } of members) {
    if (status._tag === "Concluded") return finishAction({ _tag: "Concluded", answer: status.answer })
    if (status._tag === "Paused") paused = true
    if (status._tag === "Failed") failed ??= { _tag: "Failed", step, failure: status.failure }
  }
  return failed === undefined || paused
    ? finishAction({ _tag: "Paused", pauses: pauses(self), requests: approvalRequests(self) })
    : finishAction(failed)
}

type InvalidDecision = planFailure.ReasonOf<"InvalidDecision">

/** A step or call that waits: `path` are the steps of outer plans, then of the agent and its calls. */
interface WaitingItem extends runTransition.Waiting {
  readonly path: ReadonlyArray<string>
}

export const waitingItems = (self: State): ReadonlyArray<WaitingItem> => [
  ...approvalRequests(self).map(({ path = [], ...request }) => ({ ...request, path })),
  ...pauses(self)
]

/**
 * The events that record decisions about calls and steps that wait. They go before `PlanResumed`.
 *
 * **Details**
 *
 * `path` is the path of the request or the pause; it can be left out, unless several requests or pauses have the same
 * id and digest. Each can be decided about once. `at` is the time at which the decisions are taken: a decision that has
 * expired by then is refused.
 *
 * **Gotchas**
 *
 * A decision about a tool call allows or denies one attempt: when the call fails and the step has retries, it asks again.
 * A function reads its decision in each retry. When a step that was approved fails and runs again in a resumed run, it
 * asks again.
 */
export const decide = (
  self: State,
  decisions: ReadonlyArray<Run.Decision>,
  at: DateTime.Utc
): Result.Result<ReadonlyArray<runParts.PlanRunEvent>, InvalidDecision> => {
  const waiting = waitingItems(self)
  const decided = new Set<WaitingItem>()
  const events: Array<runParts.PlanRunEvent> = []
  for (const decision of decisions) {
    const callId = String(decision.callId)
    const found = runTransition.findWaiting(decision, waiting, decided, at)
    const path = Result.isFailure(found) && found.failure === "malformed" ? undefined : decision.path
    const invalid = (problem: InvalidDecision["problem"]) => {
      const outcome = problem === "over" ? self.outcome?._tag : undefined
      const places = waiting.map(({ callId, path }) => ({ callId, path }))
      const reason = {
        _tag: "InvalidDecision",
        callId,
        problem,
        waiting: places,
        ...defined({ path, outcome })
      } as const
      return Result.fail(reason)
    }
    if (Result.isFailure(found)) {
      return invalid(found.failure === "unknown" ? decisionProblem(self, decision) : found.failure)
    }
    decided.add(found.success)
    const made = decideWithin(self, found.success.path, decision, at)
    if (made === undefined) return invalid("notWaiting")
    events.push(made)
  }
  return Result.succeed(events)
}

/** The problem of a decision about nothing that waits. */
const decisionProblem = (self: State, { callId, path }: Run.Decision): InvalidDecision["problem"] => {
  if (self.outcome?._tag === "Completed" || self.outcome?._tag === "Concluded") return "over"
  const place = nestedStateAt(self, path ?? [])
  if (place === undefined) return "unknown"
  const names = [...HashMap.keys(place.latest), ...membersOf(place).map(({ step }) => step)]
  const step = names.find((name) => callId === name || callId.startsWith(`${name}:`))
  return step !== undefined && isStepOfRun(place, step) ? "notWaiting" : "unknown"
}

/** The run of the plan at a path, if there is one now. */
const nestedStateAt = (self: State, [step, ...rest]: ReadonlyArray<string>): State | undefined => {
  if (step === undefined) return self
  const child = childAt(self, step)
  return child?._tag === "Plan" ? nestedStateAt(child.state, rest) : undefined
}

/**
 * True for a step that ran or is in the current turn. A step that waits only for a run inside it is not one: what waits
 * there has a path of its own.
 */
const isStepOfRun = (self: State, step: string): boolean => {
  const status = memberOf(self, step)?.status
  const isOwn = status !== undefined && (status._tag !== "Paused" || memberOf(self, step)?.question !== undefined)
  return isOwn || HashMap.has(self.latest, step)
}

const decideWithin = (
  run: State,
  [step, ...rest]: ReadonlyArray<string>,
  decision: Run.Decision,
  at: DateTime.Utc,
  self: Frame = run,
  path: runParts.Path = []
): runParts.PlanRunEvent | undefined => {
  const place = path.length === 0 ? undefined : { in: path }
  if (step === undefined) {
    const { callId } = decision
    const asking = askingIn(run, self)
    const asks = membersOf(self).find((member) => questionOf(asking, member)?.callId === callId)
    return asks && { _tag: "StepDecided", at, step: asks.step, callId, ...runTransition.verdictOf(decision), ...place }
  }
  const child = childAt(self, step)
  if (child?._tag === "Plan") {
    const event = decideWithin(child.state, rest, decision, at)
    return event === undefined ? undefined : { _tag: "NestedChanged", at, step, event, ...place }
  }
  if (child?._tag === "Block") {
    const [index, ...inner] = rest
    const item = Option.getOrUndefined(HashMap.get(child.items, Number(index)))
    return item?._tag === "Open"
      ? decideWithin(run, inner, decision, at, item.frame, [...path, [step, Number(index)]])
      : undefined
  }
  if (child === undefined) return undefined
  const decided = Run.decide(child.state, [{ ...decision, path: rest }], at)
  const [event] = Result.isSuccess(decided) ? decided.success : []
  return event === undefined ? undefined : { _tag: "AgentChanged", at, step, event, ...place }
}
