/** The common part of the tests of sessions. */
import { assert, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Option, Result, Schema, type Scope, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import type * as events from "#src/session/internal/events.ts"
import * as fold from "#src/session/internal/fold.ts"
import type { Stored } from "#src/session/internal/eventLog.ts"

export const support = Agent.make("support", { instructions: "You help customers." })

/** Sessions in memory, with a model that answers with its script. */
export const over = (
  script: ScriptedModel.Script,
  options?: Session.LayerOptions,
  streaming?: Parameters<typeof ScriptedModel.layer>[1]
) =>
  Session.layer([support], options).pipe(
    Layer.provideMerge(VersionedStore.layerMemory),
    Layer.provideMerge(ScriptedModel.layer(script, streaming))
  )

/** Events to append to a stored session. */
export const addition = ({ state }: Stored, events: ReadonlyArray<events.Event>) => ({
  events,
  state: Result.getOrThrow(fold.applyAll(state, events))
})

/** A store that outlives the layers over it. */
export const store = Effect.map(Layer.build(VersionedStore.layerMemory), (context) => Layer.succeedContext(context))

/** The service of a layer, in a scope of its own. */
export const sessionsOf = <E, R>(layer: Layer.Layer<Session.Session, E, R>) =>
  Effect.map(Layer.build(Layer.fresh(layer)), (context) => Context.get(context, Session.Session))

/** The last message of the user. */
export const asked = ({ messages }: ScriptedModel.Request): string =>
  messages.findLast(({ role }) => role === "user")?.text ?? ""

/** An answer for any question. */
export const echo: ScriptedModel.TurnFunction = (request) => ({ text: `re: ${asked(request)}` })

/** Which event it is, of the session or of its run. */
export const tagOf = ({ event }: Session.LiveEntry): string =>
  event._tag === "RunEvent" ? event.event._tag : event._tag

/** True for the event that ends a turn. */
export const endsTurn = (entry: Session.Entry): boolean => ["RunFinished", "TurnFailed"].includes(tagOf(entry))

/** The events that are stored now. */
export const stored = Effect.fnUntraced(function* (sessions: Session.Service, id: string) {
  const { sequence } = yield* stateOf(sessions, id)
  return yield* sessions.events(id).pipe(Stream.take(sequence), Stream.runCollect)
})

export const tags = (sessions: Session.Service, id: string) =>
  Effect.map(stored(sessions, id), (entries) => entries.map(tagOf))

export const stateOf = (sessions: Session.Service, id: string) =>
  Effect.map(sessions.state(id), (state) => Option.getOrThrow(state))

/** The cursor of the event with this number, of the session that has this cursor; none for 0. */
export const cursorAt = (cursor: string, sequence: number): string | undefined =>
  sequence === 0 ? undefined : cursor.replace(/\d+$/, String(sequence))

/** Waits for the end of so many turns after an event. */
export const turns = (sessions: Session.Service, id: string, count: number, after?: string) =>
  sessions.events(id, { after }).pipe(Stream.filter(endsTurn), Stream.take(count), Stream.runCollect)

/**
 * A test in which time passes by itself, a millisecond whenever each fiber had turns to run: leases of milliseconds hold
 * however busy the machine is, and no sleep takes real time.
 */
export const passing = <E>(name: string, body: () => Effect.Effect<unknown, E, Scope.Scope>): void =>
  it.effect(name, () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Effect.suspend(body))
      while (fiber.pollUnsafe() === undefined) {
        for (let turn = 0; turn < 10; turn++) yield* Effect.yieldNow
        yield* TestClock.adjust("1 millis")
      }
      return yield* Fiber.join(fiber)
    })
  )

/** Waits until a condition holds. */
export const eventually = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.andThen(Effect.sleep("5 millis"), condition).pipe(
    Effect.repeat({ until: (holds) => holds }),
    Effect.timeout("4 minutes")
  )

/** Numbers from 1 on, without gaps. */
export const assertInOrder = (entries: ReadonlyArray<Session.Entry>, first = 1) =>
  assert.deepStrictEqual(
    entries.map(({ sequence }) => sequence),
    entries.map((_, index) => first + index)
  )

export const reasonOf = <A, R>(effect: Effect.Effect<A, Session.SessionError, R>) =>
  Effect.map(Effect.flip(effect), ({ reason }) => reason._tag)

/** An agent with one tool, which runs an Effect. */
export const withTool = (
  name: string,
  options: { readonly needsApproval?: boolean; readonly isIdempotent?: boolean } = {}
) => {
  const { isIdempotent = false, ...rest } = options
  const tool = Tool.make("work", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.String, ...rest })
  const toolkit = Toolkit.make(tool.annotate(Tool.Idempotent, isIdempotent))
  return {
    toolkit,
    agent: Agent.make(name, { toolkit }),
    handlers: (work: (n: number) => Effect.Effect<string>) => toolkit.toLayer({ work: ({ n }) => work(n) })
  }
}

/** The turn of a model that calls the tool. */
export const call = (...numbers: ReadonlyArray<number>): ScriptedModel.Turn => ({
  toolCalls: numbers.map((n) => ({ name: "work", params: { n } }))
})

/** Waits until a session has a status. */
export const until = (sessions: Session.Service, id: string, status: Session.State["status"]) =>
  eventually(Effect.map(stateOf(sessions, id), (state) => state.status === status))
