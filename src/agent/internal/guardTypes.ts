/** The types of guards, and the guards of the host. `Guard` re-exports what users name, with its documentation. */

import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type { Prompt } from "effect/ai/Prompt"
import type { AssistantPart, UserMessage } from "../../conversation/Message.ts"
import type { Conversation } from "../../conversation/internal/history.ts"
import type { JsonObject } from "../../payload/Json.ts"
import type * as options from "../../payload/internal/options.ts"
import type { GuardPlace } from "../../run/internal/runParts.ts"
import type { ToolResult } from "../../tool/ToolResult.ts"
import * as callContext from "../../tool/internal/callContext.ts"

export type TypeId = "~effect-emissary/agent/Guard"

/**
 * Type identifier of guards.
 */
export const TypeId: TypeId = "~effect-emissary/agent/Guard"

/** A place of a run where guards decide. */
export type Place = typeof GuardPlace.Type

/** The part of what a guard sees that all places have. `text` is the value of the place as text. */
export interface SeenBase {
  readonly text: string
  readonly agent: string
  readonly runId: string
  readonly context: JsonObject
  readonly conversation: Conversation
}

interface SeenAnswer {
  readonly content: ReadonlyArray<AssistantPart>
}

interface SeenCall {
  readonly tool: string
  readonly callId: string
  readonly arguments: JsonObject
}

/** The parts that a guard sees by its place, beside the parts of all places. */
export interface SeenAt {
  readonly input: { readonly message: UserMessage }
  readonly beforeModel: { readonly prompt: Prompt }
  readonly afterModel: SeenAnswer
  readonly beforeTool: SeenCall
  readonly afterTool: SeenCall & { readonly result: ToolResult }
  readonly output: SeenAnswer
}

export type Seen<P extends Place = Place> = SeenBase & SeenAt[P]

/** The values that a guard can replace, by place. */
export interface ValueAt {
  readonly input: string
  readonly beforeModel: Prompt
  readonly afterModel: string
  readonly beforeTool: JsonObject
  readonly afterTool: ToolResult
  readonly output: string
}

export type Value<P extends Place = Place> = ValueAt[P]

interface Pass {
  readonly _tag: "Pass"
}

interface Replace<out V> {
  readonly _tag: "Replace"
  readonly value: V
}

interface Refuse {
  readonly _tag: "Refuse"
  readonly reason: string
}

interface Ask {
  readonly _tag: "Ask"
  readonly reason: string
}

/** The verdict of a guard. */
export type Verdict<P extends Place = Place> = Pass | Replace<ValueAt[P]> | Refuse | Ask

/** Any verdict, as a run reads it. */
export type AnyVerdict = Pass | Replace<unknown> | Refuse | Ask

/** The options of all places. */
export interface Terms {
  /** The time of one decision; default 30 seconds. A guard that takes longer refuses. */
  readonly timeout?: Duration.Input | undefined
  /** The verdict of a guard that fails, dies or takes too long; default `"refuse"`. */
  readonly onFailure?: "refuse" | "pass" | undefined
  /** With `"beside"` a guard of `input` or `beforeModel` decides while the model answers, and cannot replace; default `"before"`. */
  readonly when?: "before" | "beside" | undefined
  /**
   * The text of a streamed answer while the guard has not decided: `"held"` (default) is shown as a whole when it has passed,
   * `"live"` at once, and withdrawn by a refusal or a replacement. It is for guards after and beside the model.
   */
  readonly text?: "held" | "live" | undefined
}

/**
 * A guard. `R` are the services that its decisions require. `guarding` makes the `agentParts.Guarding` of a run: each guard carries the
 * code that asks guards, so that a program without guards does not have the code.
 */
export interface Guard<out R = never> {
  readonly [TypeId]: {
    readonly check: (seen: Seen) => Effect.Effect<AnyVerdict, unknown, R>
    readonly terms: Terms
    readonly guarding: (guards: Guards) => unknown
  }
  readonly name: string
  readonly on: Place
}

export type Guards = ReadonlyArray<Guard>

export const isGuard = (u: unknown): u is Guard<unknown> => Predicate.hasProperty(u, TypeId)

/** A list of guards, as an option. */
export const allowed: options.Allowed = {
  expected: "a list of guards",
  fits: (value) => Array.isArray(value) && value.every(isGuard)
}

/** The guards of the host: of the runs around, and of layers. No definition can take one away. */
export const Host = Context.Reference<Guards>(callContext.keys.hostGuards, { defaultValue: () => [] })

/** The guards that definitions name. */
export const Known = Context.Reference<Guards>("effect-emissary/agent/KnownGuards", { defaultValue: () => [] })

/** Guards, each once: the guards of an agent decide first, and the host has the last word. */
export const join = (...lists: ReadonlyArray<Guards>): Guards => Array.from(new Set(lists.flat()))

/** Adds guards to the guards of the host. */
export const withHost =
  (guards: Guards) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    guards.length === 0
      ? effect
      : Effect.flatMap(Host, (outer) => Effect.provideService(effect, Host, join(guards, outer)))
