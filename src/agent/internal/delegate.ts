/**
 * Delegates: agents whose answer comes from no model, from a plan for example.
 */

import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import type { Problem } from "../../payload/PayloadError.ts"
import { defined } from "../../payload/internal/base.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type * as AgentError from "../AgentError.ts"
import * as agentReason from "./agentReason.ts"
import * as agentBlueprint from "./agentBlueprint.ts"
import type * as agentTypes from "./agentTypes.ts"
import * as driver from "./driver.ts"
import type * as runParts from "./runParts.ts"
import * as runTransition from "./runTransition.ts"

/**
 * The end of an answer.
 *
 * - `Answered`: with a text, and the checked output as JSON.
 * - `Suspended`: the last progress has `requests` or is `limited`.
 * - `Interrupted`: it stopped by itself and can continue.
 */
export type AnswerOutcome =
  | { readonly _tag: "Answered"; readonly text: string; readonly output?: runParts.OutputCheck | undefined }
  | { readonly _tag: "Suspended" }
  | { readonly _tag: "Interrupted"; readonly reason: string | undefined }

/**
 * The parts of a delegate.
 *
 * - `digest`: it continues states of the same digest.
 * - `maxSteps` is part of the state of a run; `answer` decides its meaning.
 * - `answer` begins or continues the answer to `message`, the newest of the user. The state holds the conversation before
 *   it, and the `progress` of an answer that has begun: its facts, and the decisions to take. It is interrupted by the
 *   total timeout and by `interruptWhen`. The environment of `run` is that of the runs inside.
 * - `decode`: the output of the run, from the JSON of the answer, or from its text without JSON.
 * - `output`: the Schema of the output, for `Agent.outputSchema`.
 */
interface DelegateOptions<A> {
  readonly name: string
  readonly digest: string
  readonly maxSteps: runParts.MaxSteps
  readonly answer: (
    run: driver.ActiveRun,
    message: Message.UserMessage
  ) => Effect.Effect<AnswerOutcome, AgentError.Reason>
  readonly output?: Schema.Codec<A, unknown, unknown, unknown> | undefined
  readonly decode: (output: Schema.Json) => Effect.Effect<A, ReadonlyArray<Problem>>
}

/**
 * Makes an agent of an answer. A run has one step for each user message. While the answer is in progress the state holds
 * the saved facts, so that another process can continue it; requests suspend the run, and the runs around it.
 * `modelRetry`, `modelMistakes` and `defects` hold for the agents inside.
 */
export const makeDelegate = <A>(options: DelegateOptions<A>): agentTypes.Agent<A> =>
  agentBlueprint.makeAgent(
    { name: options.name, prepare: Effect.succeed(preparedOf(options)) },
    { output: options.output, within: (effect) => effect }
  )

/** Records progress since the last call. It is in the state before it is announced, also when that is interrupted. */
export const saveProgress = (
  { recorder }: driver.ActiveRun,
  saved: Pick<runParts.EventOf<"ProgressSaved">, "facts"> & Partial<runParts.EventOf<"ProgressSaved">>
): Effect.Effect<void> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(DateTime.now, (at) =>
      restore(recorder.record({ requests: [], limited: false, ...saved, _tag: "ProgressSaved", at }))
    )
  )

const preparedOf = <A>({ answer, decode, digest, maxSteps }: DelegateOptions<A>): driver.PreparedRun<A> => ({
  digest,
  maxSteps,
  structured: "never",
  instructions: undefined,
  stepTimeout: false,
  accept: ({ definition }) =>
    definition === digest
      ? Effect.void
      : Effect.fail(new runTransition.DefinitionChanged({ expected: digest, found: definition })),
  ask: () => Effect.void,
  perform: (run, action) => (action._tag === "RunTools" ? refuseCalls(run, action) : askForAnswer(run, answer, action)),
  decode: (text, output) => decode(output === undefined ? text : output)
})

const askForAnswer = Effect.fnUntraced(function* (
  run: driver.ActiveRun,
  answer: DelegateOptions<unknown>["answer"],
  { purpose, step }: runTransition.ActionOf<"CallModel">
) {
  const { environment, options, recorder } = run
  const { defects, modelMistakes, modelRetry } = options
  yield* recorder.recordNow({ _tag: "StepStarted", step, purpose })
  if (recorder.stopping()) return
  const message = Conversation.messages(recorder.state().conversation).findLast(({ role }) => role === "user")
  if (message?.role !== "user") {
    // The process died before the input was recorded.
    const problem = "expected a user message to answer, found none. Resume the state with an input"
    return yield* recorder.fail(agentReason.makeReason("ConversationInvalid", { problem }))
  }
  const ended = yield* answer(run, message).pipe(
    Effect.mapError(recorder.fail),
    Effect.provideService(driver.Environment, {
      ...environment,
      depth: environment.depth - 1,
      handed: { defects, modelMistakes, modelRetry }
    })
  )
  if (ended._tag === "Answered") return yield* recordAnswer(run, ended)
  if (ended._tag === "Interrupted") return yield* driver.interrupt(recorder, ended.reason)
  if (runTransition.next(recorder.state())._tag === "CallModel") {
    return yield* Effect.die(new Error("expected a request or a limit of a suspended answer, found none"))
  }
})

const recordAnswer = Effect.fnUntraced(function* (
  { recorder, streaming }: driver.ActiveRun,
  { output, text }: Extract<AnswerOutcome, { readonly _tag: "Answered" }>
) {
  // The deltas of an answer add up to its text.
  if (streaming && text !== "") yield* recorder.emit({ _tag: "TextDelta", delta: text })
  const message = yield* Message.assistant(text)
  yield* recorder.recordNow({ _tag: "ModelAnswered", message, ...defined({ output }) })
})

/** A conversation may come with calls. No tool of them is known here. */
const refuseCalls = Effect.fnUntraced(function* (
  { recorder }: driver.ActiveRun,
  action: runTransition.ActionOf<"RunTools">
) {
  const refused = action.calls.map(({ part }) => {
    const problem = `expected no open call of a tool, found ${JSON.stringify(part.name)}`
    return { callId: part.id, name: part.name, result: ToolResult.failure("unknown_tool", problem) }
  })
  for (const call of [...action.settled, ...refused]) yield* recorder.record(yield* driver.toolFinishedEvent(call))
})
