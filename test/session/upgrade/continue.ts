/** Calls with which a later release continues the golden sessions. */
import { Effect, Option, type Schema, Stream } from "effect"
import { Conversation, Message, Run } from "effect-emissary"
import { Session } from "effect-emissary/session"
import type * as cast from "./cast.ts"

const stateOf = (sessions: Session.Service, id: string) =>
  Effect.map(sessions.state(id), (state) => Option.getOrThrow(state))

/** The state of a session, as soon as it is like this. */
export const until = (sessions: Session.Service, id: string, is: (state: Session.State) => boolean) =>
  sessions.events(id).pipe(
    Stream.mapEffect(() => stateOf(sessions, id)),
    Stream.filter(is),
    Stream.runHead,
    Effect.map((state) => Option.getOrThrow(state))
  )

export const isIdle = ({ status }: Session.State): boolean => status === "idle"

/** The answer of a turn that a call begins. */
export const answerAfter = Effect.fnUntraced(function* (
  sessions: Session.Service,
  id: string,
  call: Effect.Effect<unknown, Session.SessionError>
) {
  const { cursor } = yield* stateOf(sessions, id)
  yield* call
  return (yield* Session.await(id, { cursor })).text
})

/** Decides all that waits. */
export const decide = Effect.fnUntraced(function* (
  sessions: Session.Service,
  id: string,
  approved = true,
  details: Partial<Run.Decision> = {}
) {
  const { requests } = yield* until(sessions, id, ({ requests }) => requests.length > 0)
  yield* sessions.decide(
    id,
    requests.map((request) => ({ ...request, approved, ...details }))
  )
})

/** The answer of the turn that takes the decisions. */
export const decideAll = (sessions: Session.Service, id: string, approved = true) =>
  answerAfter(sessions, id, decide(sessions, id, approved))

/** Answers all that waits. */
export const answerWith = Effect.fnUntraced(function* (sessions: Session.Service, id: string, value: Schema.Json) {
  const { requests } = yield* stateOf(sessions, id)
  yield* sessions.decide(
    id,
    requests.flatMap((request) => ("schema" in request ? [Run.answer(request, value)] : []))
  )
})

/** The conversation, without instructions. */
export const textsOf = (sessions: Session.Service, id: string) =>
  Effect.map(sessions.history(id), (history) =>
    Conversation.messages(history).flatMap((message) =>
      message.role === "system" ? [] : [`${message.role}: ${Message.text(message)}`]
    )
  )

/** The work of tools and steps, in the order of its names. */
export const callsOf = ({ calls }: cast.Stage) => calls.toSorted()

export const instructionsOf = (sessions: Session.Service, id: string) =>
  Effect.map(sessions.history(id), (history) =>
    Conversation.messages(history).flatMap((message) => (message.role === "system" ? [Message.text(message)] : []))
  )

export const reasonOf = <A, R>(effect: Effect.Effect<A, Session.SessionError, R>) =>
  Effect.map(Effect.flip(effect), ({ reason }) => reason._tag)

/** The result of a call that was under way when its process was killed. */
export const unknown =
  "The call was interrupted before it returned a result, and it is not known whether it took effect."
