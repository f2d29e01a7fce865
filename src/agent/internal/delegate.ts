/** Something in the loop that answers in place of a model. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type { Agent } from "../Agent.ts"
import { type AgentError, ConversationInvalid, type Reason } from "../AgentError.ts"
import * as RunTransition from "../RunTransition.ts"
import type { Ended, Options, Turn } from "../Delegate.ts"
import type { CallModel, RunTools } from "../RunAction.ts"
import { Environment } from "./environment.ts"
import { interrupt } from "./interrupt.ts"
import type { Machine, Run } from "./machine.ts"
import * as Methods from "./methods.ts"
import * as OutputSchema from "./outputSchema.ts"
import * as Recorder from "./recorder.ts"

type Answer = (turn: Turn) => Effect.Effect<Ended, Reason>

const turnOf = ({ environment, options, recorder, streaming }: Run, message: Message.UserMessage): Turn => ({
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
          recorder.recordNow({
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

const answered = Effect.fnUntraced(function* (
  { recorder, streaming }: Run,
  { output, text }: Extract<Ended, { readonly _tag: "Answered" }>
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

const ask = Effect.fnUntraced(function* (run: Run, answer: Answer, action: CallModel) {
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
    return yield* recorder.fail(new ConversationInvalid({ problem }))
  }
  const ended = yield* answer(turnOf(run, said)).pipe(
    Effect.mapError(recorder.fail),
    Effect.provideService(Environment, { ...environment, depth: environment.depth - 1, handed })
  )
  if (ended._tag === "Answered") return yield* answered(run, ended)
  if (ended._tag === "Interrupted") return yield* interrupt(recorder, recorder.record, ended.reason)
  if (RunTransition.next(recorder.state())._tag === "CallModel") {
    return yield* Effect.die(new Error("expected something to wait for where an answer is suspended, found none"))
  }
})

/** A conversation may come with calls, of which nothing is known here. */
const refuseCalls = Effect.fnUntraced(function* ({ recorder }: Run, action: RunTools) {
  for (const settled of action.settled) yield* recorder.record(yield* Recorder.toolFinished(settled))
  for (const { part } of action.calls) {
    const problem = `expected no open call of a tool, found ${JSON.stringify(part.name)}`
    const result = ToolResult.failure("unknown_tool", problem)
    yield* recorder.record(yield* Recorder.toolFinished({ callId: part.id, name: part.name, result }))
  }
})

const machine = <A>(options: Options<A, never>): Machine<A> => ({
  name: options.name,
  prepare: Effect.succeed({
    digest: options.digest,
    maxSteps: options.maxSteps,
    structured: "never",
    instructions: undefined,
    stepTimeout: false,
    accept: (state) => Effect.asVoid(Effect.fromResult(RunTransition.checkDefinition(state, options.digest))),
    ask: () => Effect.void,
    perform: (run, action): Effect.Effect<void, AgentError> =>
      action._tag === "RunTools" ? refuseCalls(run, action) : ask(run, options.answer, action),
    decode: (text, output) => options.decode(output === undefined ? text : output)
  })
})

export const make = <A, R>(options: Options<A, R>): Agent<A, R> =>
  // Sound: R is part of the agent's type, so whoever runs it has R in its context.
  ({
    ...Methods.make(machine(options as Options<A, never>), (effect) => effect),
    ...OutputSchema.member(options.output)
  }) as Agent<A, R>
