/**
 * The typed result of a session, on any service of sessions: waits until no turn is due, and decodes the output with the Schema
 * of the agent, in the process of the caller.
 *
 * Whether a turn is due follows from the stored events alone. So a session that is `running` has an event to come that ends the
 * turn, wherever it is, and a caller waits for that event and never for time.
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Agent from "../../agent/Agent.ts"
import type * as Run from "../../agent/Run.ts"
import * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import type { TokenUsage } from "../../conversation/Message.ts"
import { problemsFromSchemaError } from "../../payload/internal/problems.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as cursors from "./cursors.ts"
import * as events from "./events.ts"
import type { EventPlace } from "./cursors.ts"
import type { Service } from "./service.ts"
import * as types from "./types.ts"

/** The options of a job. The `agent` of the call names a `definition`, and has the Schema of its output. */
export interface RunOptions extends Omit<types.SendOptions, "agent" | "ifExists" | "pending" | "whenBusy"> {
  /** The id of the session that runs the job. */
  readonly id: string
  /** The message that the agent answers, or the input of the plan, which may have a `payload` and a `context`. */
  readonly input: types.Input
  /**
   * The policy for an id that has a session.
   *
   * | found | `"fail"` (default) | `"resume"` | `"restart"` |
   * |---|---|---|---|
   * | a turn under way, or calls that wait | `Exists` | the result of the turn, or `AwaitingApproval` | begins again |
   * | a result | `Exists` | the recorded result | begins again |
   * | a turn that failed or was interrupted | `Exists` | continues the turn | begins again |
   * | `MaxSteps`, or a step that paused | `Exists` | continues under the limit of today, or runs the step again | begins again |
   * | another input or context | `Exists` | `InputDiffers` | begins again |
   *
   * A fork counts as begun with the input of the session that it continues, and with its own context: see `Session.ForkOptions`.
   *
   * `"restart"` interrupts a turn under way, and puts the new session in the place of the old one with one write: a process that
   * dies leaves one of the two. Who waits for the result of the old one gets `Interrupted`, or an error.
   */
  readonly ifExists?: Exclude<types.IfExists, "continue"> | undefined
}

/** The parts of every {@link RunResult}. */
export interface RunResultBase {
  /** The answers of models of the whole session. */
  readonly steps: number
  /** The tokens of the whole session. */
  readonly usage: TokenUsage
  /** The name of the agent that has the conversation, see `Agent.handoff`. */
  readonly activeAgent: string
  /** The newest event of the session: `events` reads on after it. */
  readonly cursor: string
}

/** The result of a job, distinguished by `outcome`. Only `Completed` has `output`. */
export type RunResult<A> =
  | (RunResultBase & { readonly outcome: "Completed"; readonly output: A })
  | Run.Ended<RunResultBase, Exclude<Run.Outcome, { readonly _tag: "Completed" }>>

/** The name, the output and the context of an agent: an agent, a bound plan, or the class of an `Agent.Service`. */
export type Typed<A, Args extends ReadonlyArray<unknown> = never> =
  | agentTypes.Agent<A, unknown, Args>
  | (Effect.Effect<agentTypes.Agent<A, never, Args>, never, unknown> &
      agentTypes.HasDefinition<unknown> & { readonly key: `effect-emissary/Agent/${string}` })

/** Demands the context that the agent declares. */
export type WithContext<Args> =
  unknown extends agentTypes.ContextIn<Args> ? unknown : { readonly context: agentTypes.ContextIn<Args> }

/** The arguments of a message to a session of a known agent: the options are optional where the agent declares no context. */
export type SendArguments<Args> =
  unknown extends agentTypes.ContextIn<Args>
    ? [id: string, input: types.Input, options?: Omit<types.SendOptions, "agent">]
    : [id: string, input: types.Input, options: Omit<types.SendOptions, "agent"> & WithContext<Args>]

/** The name under which the agent is hosted. */
export const nameOf = (agent: Typed<unknown>): string =>
  "key" in agent ? (agentTypes.nameOfService(agent) ?? agent.key) : agent.name

/** The state of a session without a turn that is due. Fails for another session, which began under the id after a removal. */
const stateAtRest = (
  sessions: Service,
  id: string,
  after: EventPlace | undefined
): Effect.Effect<types.State, types.SessionError> =>
  Effect.flatMap(sessions.state(id), (found) => {
    if (Option.isNone(found)) return Effect.fail(failureOf(id, { _tag: "NotFound" }))
    const newest = cursors.placeOf(found.value)
    if (after !== undefined && !cursors.hasPlace(newest, after)) {
      return Effect.fail(types.eventsUnknown(id, after, newest))
    }
    if (found.value.status !== "running") return Effect.succeed(found.value)
    return sessions.events(id, { after: found.value.cursor }).pipe(
      Stream.filter(({ event }) => endsTurn(event)),
      Stream.runHead,
      // Events that were pruned meanwhile
      Effect.catchIf(
        ({ reason }) => reason._tag === "EventsPruned",
        () => Effect.void
      ),
      Effect.andThen(stateAtRest(sessions, id, newest))
    )
  })

const endsTurn = (event: events.LiveEntry["event"]): boolean =>
  event._tag === "TurnFailed" || (event._tag === "RunEvent" && event.event._tag === "RunFinished")

const failureOf = (id: string, reason: types.Reason) => new types.SessionError({ id, reason })

/** The outcome of the newest turn. A turn that was stopped before its run began is a failure in the state. */
const outcomeOf = (id: string, state: types.State): Effect.Effect<Run.Outcome, types.SessionError> => {
  const { failure, outcome } = state
  if (failure?.reason === events.interrupted) return Effect.succeed({ _tag: "Interrupted" })
  if (failure !== undefined) return Effect.fail(failureOf(id, { _tag: "TurnFailed", failure }))
  // Its first message was never stored
  if (outcome === undefined) return Effect.fail(failureOf(id, { _tag: "NotFound" }))
  const end = { ...state, outcome, requests: state.requests.map(events.withoutText) }
  return Effect.succeed(runParts.outcomeOf(end))
}

/** The end of the newest turn, when no turn is due. */
export const endOf = Effect.fnUntraced(function* (
  sessions: Service,
  id: string,
  cursor: string
): Effect.fn.Return<
  Run.Ended<Pick<types.State, "sequence" | "cursor"> & { readonly text: string }>,
  types.SessionError
> {
  const after = { life: cursor.slice(0, cursor.indexOf(".")), sequence: 0 }
  const state = yield* stateAtRest(sessions, id, after)
  const outcome = yield* outcomeOf(id, state)
  const text = yield* textOf(sessions, id, state.cursor)
  if (Option.isNone(text)) return yield* endOf(sessions, id, cursor)
  return runParts.ended({ text: text.value, sequence: state.sequence, cursor: state.cursor }, outcome)
})

/** The entries of `read` for a turn that is under way or due, up to its end. */
export const ofNewest = <A extends events.LiveEntry, R>(
  sessions: Service,
  id: string,
  read: (after: string) => Stream.Stream<A, types.SessionError, R>
): Stream.Stream<A, types.SessionError, R> =>
  Stream.unwrap(
    Effect.map(sessions.state(id), (found) =>
      Option.isSome(found) && found.value.status === "running"
        ? Stream.takeUntil(read(found.value.cursor), ({ event }) => endsTurn(event))
        : Stream.empty
    )
  )

/** The last text of a session in this state, `None` if another turn has begun. */
const textOf = Effect.fnUntraced(function* (sessions: Service, id: string, cursor: string) {
  const conversation = yield* sessions.history(id)
  const now = yield* sessions.state(id)
  if (Option.isNone(now) || now.value.cursor !== cursor) return Option.none<string>()
  const last = Conversation.messages(conversation).findLast(({ role }) => role === "assistant")
  return Option.some(last === undefined ? "" : Message.text(last))
})

const decode = <A>(agent: Typed<A>, output: Schema.Json): Effect.Effect<A, Schema.SchemaError> => {
  const schema = Agent.outputSchema(agent)
  // Sound: a plan without an output Schema returns JSON, which is its A.
  if (Option.isNone(schema)) return Effect.succeed(output as A)
  const decoded = Schema.decodeUnknownEffect(Schema.toCodecJson(schema.value))(output, { errors: "all" })
  // Sound: the documentation of `Session.run` asks the caller for the services of the Schema, which `Typed` does not show.
  return decoded as Effect.Effect<A, Schema.SchemaError>
}

const completed = <A>(agent: Typed<A>, base: RunResultBase, output: Schema.Json): Effect.Effect<RunResult<A>> =>
  Effect.match(decode(agent, output), {
    onFailure: (error): RunResult<A> => ({
      ...base,
      outcome: "InvalidOutput",
      issues: problemsFromSchemaError(error, output)
    }),
    onSuccess: (output): RunResult<A> => ({ ...base, outcome: "Completed", output })
  })

/** The result of the newest turn, when no turn is due, of the session with the place `after`. */
export const resultOf = Effect.fnUntraced(function* <A>(
  sessions: Service,
  agent: Typed<A>,
  id: string,
  after?: EventPlace
): Effect.fn.Return<RunResult<A>, types.SessionError> {
  const state = yield* stateAtRest(sessions, id, after)
  const { activeAgent, agent: found, cursor, steps, usage } = state
  const name = nameOf(agent)
  if (found !== name) return yield* failureOf(id, { _tag: "AgentDiffers", agent: name, found })
  const base: RunResultBase = { steps, usage, activeAgent, cursor }
  const outcome = yield* outcomeOf(id, state)
  if (outcome._tag !== "Completed") return runParts.ended(base, outcome)
  if (outcome.output !== undefined) return yield* completed(agent, base, outcome.output)
  const text = yield* textOf(sessions, id, cursor)
  return Option.isSome(text) ? yield* completed(agent, base, text.value) : yield* resultOf(sessions, agent, id, after)
})
