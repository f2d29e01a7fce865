/**
 * The gate between what is exchanged and what codecs read and write: a host that
 * requires signatures sets it, see `Signed.required`.
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as PayloadError from "../PayloadError.ts"
import { isObject, type JsonObject } from "./values.ts"

/** `what` is the name of the artefact's codec. It `guards` some; others are read and written as they are. */
export interface Gate {
  readonly guards: (what: string) => boolean
  readonly open: (
    json: Schema.Json,
    what: string,
    subject: string | undefined
  ) => Effect.Effect<Schema.Json, PayloadError.PayloadError>
  readonly seal: (
    json: JsonObject,
    what: string,
    subject: string | undefined
  ) => Effect.Effect<JsonObject, PayloadError.PayloadError>
}

export const Gate = Context.Reference<Gate | undefined>("effect-emissary/payload/internal/Gate", {
  defaultValue: () => undefined
})

/** The place of the artefact that is read or written, e.g. its key in a store: it is sealed for that place alone. */
export const Subject = Context.Reference<string | undefined>("effect-emissary/payload/internal/Subject", {
  defaultValue: () => undefined
})

/** Without the place of the artefact around it. */
const apart = <A, E, R>(subject: string | undefined, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  subject === undefined ? effect : Effect.provideService(effect, Subject, undefined)

/** Reads or writes what is inside an artefact, or a part of one: it passes no gate of its own. */
export const inside: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> = Effect.provideService(
  Gate,
  undefined
)

/** Opens an artefact that is guarded, then reads it. What is inside another one is guarded by itself. */
export const open = <A>(
  json: Schema.Json,
  what: string,
  read: (json: Schema.Json) => Effect.Effect<A, PayloadError.PayloadError>
): Effect.Effect<A, PayloadError.PayloadError> =>
  Effect.withFiber((fiber) => {
    const [gate, subject] = [fiber.getRef(Gate), fiber.getRef(Subject)]
    return gate?.guards(what) !== true
      ? apart(subject, read(json))
      : Effect.flatMap(apart(subject, gate.open(json, what, subject)), (opened) => inside(read(opened)))
  })

/** Writes an artefact, then seals it. */
export const seal = <E>(
  what: string,
  write: Effect.Effect<JsonObject, E>
): Effect.Effect<JsonObject, E | PayloadError.PayloadError> =>
  Effect.withFiber((fiber) => {
    const [gate, subject] = [fiber.getRef(Gate), fiber.getRef(Subject)]
    return gate?.guards(what) !== true
      ? apart(subject, write)
      : Effect.flatMap(inside(write), (json) => gate.seal(json, what, subject))
  })

/** The content of a sealed artefact, which is not verified here, or else the artefact itself. */
export const contentOf = (json: Schema.Json): Schema.Json | undefined =>
  isObject(json) && Object.hasOwn(json, "signature") ? json["payload"] : json
