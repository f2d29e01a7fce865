/**
 * The operations on sessions that clients use, in plain JSON: the same where the sessions are in the process of a runner,
 * behind its messages, and where they are on a fleet.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Agent, Conversation } from "effect-emissary"
import { Session } from "effect-emissary/session"

export class DoorError extends Schema.TaggedError<DoorError>()("DoorError", {
  reason: Schema.String,
  text: Schema.String
}) {
  override get message() {
    return `${this.reason}: ${this.text}`
  }
}

/** An event as JSON; two readers have to see the same text under one number. */
export interface Seen {
  readonly sequence: number
  readonly cursor: string
  readonly text: string
}

export interface Summary {
  readonly status: string
  readonly sequence: number
  readonly queue: number
  readonly requests: number
  readonly failure?: string
}

/** A text of the user or of the assistant. */
export interface Said {
  readonly role: string
  readonly text: string
}

/** The result of a job. */
export interface Result {
  readonly outcome: string
  readonly output?: string
}

/** The value of a step with `writes`. */
export interface Written {
  readonly id: string
  readonly value: unknown
}

/** The operations on sessions that clients use. */
export interface Operations {
  /** `Session.run`: begins a job, or continues the job that is there, and waits for its result. */
  readonly run: (id: string, text: string, agent: string) => Effect.Effect<Result, DoorError>
  readonly read: (key: string) => Effect.Effect<Written | undefined, DoorError>
  readonly send: (id: string, text: string, messageId: string, agent: string) => Effect.Effect<number, DoorError>
  /** Approves or denies all that waits; returns how many. */
  readonly decide: (id: string, approved: boolean) => Effect.Effect<number, DoorError>
  readonly resume: (id: string) => Effect.Effect<void, DoorError>
  readonly interrupt: (id: string) => Effect.Effect<boolean, DoorError>
  readonly events: (id: string, after?: string) => Stream.Stream<Seen, DoorError>
  readonly state: (id: string) => Effect.Effect<Summary | undefined, DoorError>
  readonly history: (id: string) => Effect.Effect<ReadonlyArray<Said>, DoorError>
}

export class Door extends Context.Service<Door, Operations>()("test/session/kill/Door") {}

const encodeEntry = Schema.encodeEffect(Schema.toCodecJson(Session.Entry))

const failed = (error: Session.SessionError | Schema.SchemaError) =>
  new DoorError({ reason: error._tag === "SessionError" ? error.reason._tag : error._tag, text: error.message })

const fromService = (sessions: Session.Service): Operations => ({
  run: (id, text, name) =>
    // A caller knows the name, and the output is text
    Session.run(Agent.make(name), { id, input: text, ifExists: "resume" }).pipe(
      Effect.provideService(Session.Session, sessions),
      Effect.mapBoth({
        onFailure: failed,
        onSuccess: (result) =>
          result.outcome === "Completed"
            ? { outcome: result.outcome, output: result.output }
            : { outcome: result.outcome }
      })
    ),
  read: (key) =>
    Effect.mapBoth(sessions.read(key), {
      onFailure: failed,
      onSuccess: Option.match({ onNone: () => undefined, onSome: ({ id, value }) => ({ id, value }) })
    }),
  send: (id, text, messageId, agent) =>
    sessions.send(id, text, { messageId, agent }).pipe(
      Effect.map(({ sequence }) => sequence),
      Effect.mapError(failed)
    ),
  decide: Effect.fnUntraced(function* (id, approved) {
    const state = yield* sessions.state(id)
    const requests = Option.match(state, { onNone: () => [], onSome: ({ requests }) => requests })
    const [first, ...rest] = requests.map(({ callId, digest, path }) => ({
      callId,
      digest,
      approved,
      ...(path === undefined ? {} : { path })
    }))
    if (first !== undefined) yield* sessions.decide(id, [first, ...rest])
    return requests.length
  }, Effect.mapError(failed)),
  resume: (id) => Effect.asVoid(Effect.mapError(sessions.resume(id), failed)),
  interrupt: (id) =>
    Effect.mapBoth(sessions.interrupt(id), {
      onFailure: failed,
      onSuccess: ({ isInterrupted }) => isInterrupted === true
    }),
  events: (id, after) =>
    sessions.events(id, { after }).pipe(
      Stream.mapEffect((entry) =>
        Effect.map(encodeEntry(entry), (json) => ({
          sequence: entry.sequence,
          cursor: entry.cursor,
          text: JSON.stringify(json)
        }))
      ),
      Stream.mapError(failed)
    ),
  state: (id) =>
    sessions.state(id).pipe(
      Effect.map(
        Option.match({
          onNone: () => undefined,
          onSome: ({ failure, queue, requests, sequence, status }) => ({
            status,
            sequence,
            queue: queue.length,
            requests: requests.length,
            ...(failure === undefined ? {} : { failure: `${failure.reason}: ${failure.message}` })
          })
        })
      ),
      Effect.mapError(failed)
    ),
  history: (id) =>
    sessions.history(id).pipe(
      Effect.map((conversation) =>
        Conversation.transcript(conversation).flatMap((message) =>
          message.role === "user" || message.role === "assistant"
            ? [
                {
                  role: message.role,
                  text: message.content.map((part) => (part.type === "text" ? part.text : "")).join("")
                }
              ]
            : []
        )
      ),
      Effect.mapError(failed)
    )
})

export const layer = Layer.effect(Door, Effect.map(Session.Session, fromService))
