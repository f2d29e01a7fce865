/** The errors of the routes: each has a class, which is the status of the response, and a text for a front end. */

import * as Schema from "effect/Schema"
import type { PayloadError } from "../../payload/PayloadError.ts"
import { defined } from "../../payload/internal/values.ts"
import * as events from "../../session/internal/events.ts"
import * as types from "../../session/internal/types.ts"

/** The status of each class of errors. The classes of `SessionError` have their own names. */
export const statuses = {
  invalid: 400,
  unauthorized: 401,
  forbidden: 403,
  "not-found": 404,
  timeout: 408,
  conflict: 409,
  "too-large": 413,
  busy: 429,
  internal: 500,
  unavailable: 503
} as const

export type Category = keyof typeof statuses

export const Category = Schema.Literals([
  "invalid",
  "unauthorized",
  "forbidden",
  "not-found",
  "timeout",
  "conflict",
  "too-large",
  "busy",
  "internal",
  "unavailable"
])

export class Refusal extends Schema.TaggedError<Refusal>("effect-emissary/http/Refusal")("Refusal", {
  category: Category,
  message: Schema.String,
  error: Schema.optionalKey(types.SessionError)
}) {}

export const refuse = (category: Category, message: string): Refusal => new Refusal({ category, message })

/** The errors that a route fails with. */
export type Failure = Refusal | types.SessionError | PayloadError

/** A defect as a front end sees it. The log has the rest. */
export const hidden = refuse("internal", events.publicMessages.internal)

export const ofPayload = ({ message, reason }: PayloadError): Refusal =>
  refuse(reason._tag === "TooLarge" ? "too-large" : "invalid", message)

/** The errors whose details a front end may see: they are about what it sent or read, and about nothing of the host. */
const isOpen: ReadonlySet<types.Reason["_tag"]> = new Set([
  "ArgumentInvalid",
  "Busy",
  "EventsPruned",
  "EventsUnknown",
  "Exists",
  "InputDiffers",
  "InputInvalid",
  "InvalidDecision",
  "MessageUnknown",
  "NotFound"
])

/** True for a decision about a request that names who decides, and not this caller. */
const isOfOthers = ({ reason }: types.SessionError): boolean =>
  reason._tag === "InvalidDecision" && reason.error.problem === "decider"

/** The error of a session, with its details for a caller who sees everything. */
export const ofSession = (error: types.SessionError, isFull: boolean): Refusal =>
  new Refusal({
    ...(isOfOthers(error)
      ? { category: "forbidden", message: "Another person decides this." }
      : { category: error.category, message: error.publicMessage }),
    ...defined({ error: isFull || isOpen.has(error.reason._tag) ? error : undefined })
  })

/** A Schema of the body for each status, which is the error of all routes. */
export const bodies = Object.entries(statuses).map(([category, status]) =>
  Schema.Struct({
    ...Refusal.fields,
    category: Schema.Literal(category)
  }).annotate({ identifier: `Refusal${status}`, httpApiStatus: status })
)
