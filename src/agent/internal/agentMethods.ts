/**
 * The methods of an agent over the driver: over services of the call, over captured services, and over delegates, which
 * answer in place of a model. Plans are such delegates.
 */

import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import type { ValidationIssue } from "../../payload/PayloadError.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as AgentError from "../AgentError.ts"
import type { AgentEvent } from "../AgentEvent.ts"
import * as Run from "../Run.ts"
import * as agentTypes from "./agentTypes.ts"
import * as driver from "./driver.ts"
import type * as runOptions from "./runOptions.ts"
import type * as runParts from "./runParts.ts"

/** What is in the context only because an enclosing agent had captured it. */
const MergedOnce = Context.Reference<ReadonlyMap<string, unknown>>("effect-emissary/agent/internal/Laid", {
  defaultValue: () => new Map()
})

/** What belongs to the place where a layer was built. */
const neverMerged = [Scope.Scope.key, Tracer.ParentSpan.key, MergedOnce.key]

/**
 * Lays captured services under the context of a call.
 *
 * What the caller provided stands. What an enclosing agent had captured for itself
 * gives way, or an agent inside another one would run on the outer one's model.
 */
export const mergeCapturedUntyped =
  (captured: Context.Context<never>) =>
  <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.updateContext(effect, (current: Context.Context<never>) => {
      const before = Context.get(current, MergedOnce)
      const laid = new Map(captured.mapUnsafe)
      for (const key of neverMerged) laid.delete(key)
      const own = new Map<string, unknown>()
      for (const [key, value] of current.mapUnsafe) {
        if (!before.has(key) || before.get(key) !== value) {
          own.set(key, value)
          laid.delete(key)
        } else if (!laid.has(key)) {
          laid.set(key, value)
        }
      }
      return Context.add(Context.makeUnsafe<never>(new Map([...laid, ...own])), MergedOnce, laid)
    })

/**
 * Lays captured services under the context of a call.
 *
 * **Details**
 *
 * What the caller provided stands, so that `RunContext`, clock, span and tool runtime of
 * the caller reach what was captured. What an enclosing agent had captured for itself
 * gives way. A scope and a span of the place where the services were captured are left
 * out.
 */
export const mergeCaptured =
  <Captured>(captured: Context.Context<Captured>) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, Exclude<R, Captured>> =>
    // Sound: what is captured is added to whatever the context of the call holds.
    mergeCapturedUntyped(captured)(effect as Effect.Effect<A, E>) as Effect.Effect<A, E, Exclude<R, Captured>>

const mergeCapturedStream =
  (captured: Context.Context<never>) =>
  <A, E, R>(stream: Stream.Stream<A, E, R>): Stream.Stream<A, E> =>
    Stream.unwrap(
      // Sound: as for `layUnder`.
      Effect.map(mergeCapturedUntyped(captured)(Effect.context<never>()), (context) =>
        Stream.provideContext(stream as Stream.Stream<A, E>, context)
      )
    )

/**
 * The agent with what it requires captured here.
 *
 * **When to use**
 *
 * Use it to make an agent that is a value, or anything that behaves like one, the
 * implementation of a service. `Agent.Service` and `Plan.Service` do it by themselves.
 */
export const captureAgent = <A, R>(self: agentTypes.Agent<A, R>): Effect.Effect<agentTypes.Agent<A>, never, R> =>
  Effect.map(Effect.context<R>(), (captured) => agentWithCaptured(self, captured))

/**
 * The agent over services that were captured before.
 */
export const agentWithCaptured = <A, R>(
  self: agentTypes.Agent<A, R>,
  captured: Context.Context<R>
): agentTypes.Agent<A> => {
  const services: Context.Context<never> = Context.makeUnsafe(captured.mapUnsafe)
  const under = mergeCaptured(captured)
  const streaming = mergeCapturedStream(services)
  return {
    ...self,
    run: (input, options) => under(self.run(input, options)),
    ask: (input, options) => under(self.ask(input, options)),
    stream: (input, options) => streaming(self.stream(input, options)),
    resume: (state, options) => under(self.resume(state, options)),
    resumeStream: (state, options) => streaming(self.resumeStream(state, options))
  }
}

/**
 * What is new since the last time that something was saved, see `Run.EventOf<"ProgressSaved">`.
 */
interface SavedProgress {
  readonly facts: ReadonlyArray<Schema.Json>
  readonly requests?: ReadonlyArray<Run.ApprovalRequest> | undefined
  readonly limited?: boolean | undefined
  readonly usage?: Message.TokenUsage | undefined
}

/**
 * The one answer that is asked for.
 *
 * **Details**
 *
 * - `message` is what the user said last; all that was said before is in the
 *   conversation of `state`. An answer that had begun before has a `progress` there: its
 *   facts, and the decisions that it has to take.
 * - `save` records progress: it is in the state before anybody is told, also when it is
 *   interrupted meanwhile. One call at a time.
 * - `emit` tells those who watch; events of runs inside belong in a `Child`.
 * - `depth` is that of this run: one less than that of runs inside.
 */
export interface AnswerRequest {
  readonly message: Message.UserMessage
  readonly state: () => Run.State
  readonly options: runOptions.ResumeOptions
  readonly depth: number
  readonly maxDepth: number
  readonly streaming: boolean
  readonly save: (saved: SavedProgress) => Effect.Effect<void>
  readonly emit: (event: AgentEvent<unknown>) => Effect.Effect<void>
}

/**
 * How a turn ended.
 *
 * **Details**
 *
 * - `Answered`: with the text that is said, and the output as JSON, checked already.
 * - `Suspended`: what was saved last has `requests` or is `limited`.
 * - `Interrupted`: it stopped by itself and can go on.
 */
export type AnswerOutcome =
  | { readonly _tag: "Answered"; readonly text: string; readonly output?: runParts.OutputCheck | undefined }
  | { readonly _tag: "Suspended" }
  | { readonly _tag: "Interrupted"; readonly reason: string | undefined }

/**
 * What answers.
 *
 * **Details**
 *
 * - `digest` says which states it can go on from: those of the same digest.
 * - `maxSteps` is told in the state of a run; what it counts is for `answer` to say.
 * - `answer` begins or goes on with an answer. It is interrupted by the total timeout
 *   and by `interruptWhen`.
 * - `decode` makes the output of the run of the JSON of the answer, or of its text where
 *   there is none.
 * - `output`: the Schema of what it answers, for `Agent.outputSchema`; default not known.
 */
interface DelegateOptions<A, R> {
  readonly name: string
  readonly digest: string
  readonly maxSteps: runParts.MaxSteps
  readonly answer: (turn: AnswerRequest) => Effect.Effect<AnswerOutcome, AgentError.Reason, R>
  readonly output?: Schema.Codec<A, unknown, unknown, unknown> | undefined
  readonly decode: (output: Schema.Json) => Effect.Effect<A, ReadonlyArray<ValidationIssue>>
}

/**
 * Makes an agent of something that answers.
 *
 * **When to use**
 *
 * Use it to put something of your own where an agent can stand: as a tool of an agent,
 * as a service, as a step of a plan. A plan that is bound is such an agent already.
 *
 * **Details**
 *
 * A run has one step for each user message. While the answer is under way its state holds
 * what was saved, so that another process can go on; requests suspend the run, and the
 * runs around it. `modelRetry`, `modelMistakes` and `defects` hold for the agents that
 * `answer` runs, unless it gives them others; `toolChoice`, `budget`, `timeouts.step` and
 * `timeouts.tool` are what it makes of them.
 */
export const answerWith = <A, R = never>(options: DelegateOptions<A, R>): agentTypes.Agent<A, R> =>
  makeDelegate(options)

type Answer = (turn: AnswerRequest) => Effect.Effect<AnswerOutcome, AgentError.Reason>

const requestOf = (
  { environment, options, recorder, streaming }: driver.ActiveRun,
  message: Message.UserMessage
): AnswerRequest => ({
  message,
  state: recorder.state,
  options,
  depth: environment.depth - 1,
  maxDepth: environment.maxDepth,
  streaming,
  emit: recorder.emit,
  save: ({ facts, limited, requests, usage }) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(DateTime.now, (at) =>
        restore(
          recorder.record({
            _tag: "ProgressSaved",
            at,
            facts,
            requests: requests ?? [],
            limited: limited ?? false,
            ...(usage === undefined ? undefined : { usage })
          })
        )
      )
    )
})

const recordOutcome = Effect.fnUntraced(function* (
  { recorder, streaming }: driver.ActiveRun,
  { output, text }: Extract<AnswerOutcome, { readonly _tag: "Answered" }>
) {
  // Whoever puts the deltas of an answer together has its text.
  if (streaming && text !== "") yield* recorder.emit({ _tag: "TextDelta", delta: text })
  const message = yield* Message.assistant(text)
  yield* recorder.record({
    _tag: "ModelAnswered",
    at: yield* DateTime.now,
    message,
    ...(output === undefined ? undefined : { output })
  })
})

const askDelegate = Effect.fnUntraced(function* (
  run: driver.ActiveRun,
  answer: Answer,
  action: Run.ActionOf<"CallModel">
) {
  const { environment, options, recorder } = run
  const { defects, modelMistakes, modelRetry } = options
  const handed = { defects, modelMistakes, modelRetry }
  const { purpose, step } = action
  yield* recorder.record({ _tag: "StepStarted", at: yield* DateTime.now, step, purpose })
  if (recorder.stopping()) return
  const said = Conversation.messages(recorder.state().conversation).findLast((message) => message.role === "user")
  if (said === undefined) {
    // It died before its input was recorded.
    const problem = "expected a user message to answer, found none. Resume the state with an input"
    return yield* recorder.fail(new AgentError.ConversationInvalid({ problem }))
  }
  const ended = yield* answer(requestOf(run, said)).pipe(
    Effect.mapError(recorder.fail),
    Effect.provideService(driver.Environment, { ...environment, depth: environment.depth - 1, handed })
  )
  if (ended._tag === "Answered") return yield* recordOutcome(run, ended)
  if (ended._tag === "Interrupted") return yield* driver.interrupt(recorder, ended.reason)
  if (Run.next(recorder.state())._tag === "CallModel") {
    return yield* Effect.die(new Error("expected something to wait for where an answer is suspended, found none"))
  }
})

/** A conversation may come with calls, of which nothing is known here. */
const refuseCalls = Effect.fnUntraced(function* ({ recorder }: driver.ActiveRun, action: Run.ActionOf<"RunTools">) {
  for (const settled of action.settled) yield* recorder.record(yield* driver.toolFinishedEvent(settled))
  for (const { part } of action.calls) {
    const problem = `expected no open call of a tool, found ${JSON.stringify(part.name)}`
    const result = ToolResult.failure("unknown_tool", problem)
    yield* recorder.record(yield* driver.toolFinishedEvent({ callId: part.id, name: part.name, result }))
  }
})

const machineOf = <A>(options: DelegateOptions<A, never>): driver.AgentMachine<A> => ({
  name: options.name,
  prepare: Effect.succeed({
    digest: options.digest,
    maxSteps: options.maxSteps,
    structured: "never",
    instructions: undefined,
    stepTimeout: false,
    accept: (state) => Effect.asVoid(Effect.fromResult(Run.checkDefinition(state, options.digest))),
    ask: () => Effect.void,
    perform: (run, action): Effect.Effect<void, AgentError.AgentError> =>
      action._tag === "RunTools" ? refuseCalls(run, action) : askDelegate(run, options.answer, action),
    decode: (text, output) => options.decode(output === undefined ? text : output)
  })
})

const makeDelegate = <A, R>(options: DelegateOptions<A, R>): agentTypes.Agent<A, R> =>
  // Sound: R is part of the agent's type, so whoever runs it has R in its context.
  ({
    ...driver.makeAgent(machineOf(options as DelegateOptions<A, never>), (effect) => effect),
    ...agentTypes.withOutputSchema(options.output)
  }) as agentTypes.Agent<A, R>
