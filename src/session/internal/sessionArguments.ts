/** Checks the arguments of the operations on sessions: a route may pass on JSON of any type. */

import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Stream from "effect/Stream"
import * as base from "../../payload/internal/base.ts"
import { kindOf } from "../../payload/internal/plainJson.ts"
import { maxIdLength } from "./sessionMessage.ts"
import { SessionError, type Service } from "./sessionTypes.ts"

/** The expectation of a value: its words and its test. */
type Check = readonly [expected: string, fits: (value: unknown) => boolean]

const text: Check = ["a text", Predicate.isString]
/** The id of a session that begins. Users without one would share the session of the empty text. */
const newId: Check = [
  `a text of 1 to ${maxIdLength} characters`,
  (value) => Predicate.isString(value) && value !== "" && value.length <= maxIdLength
]
const object: Check = ["an object", (value) => Predicate.isObject(value) && !Array.isArray(value)]
const time: Check = ["a DateTime.Utc", (value) => DateTime.isDateTime(value) && DateTime.isUtc(value)]
const place: Check = ["a cursor or a number", (value) => Predicate.isString(value) || Predicate.isNumber(value)]

const oneOf = (...known: ReadonlyArray<string>): Check => [
  known.map(base.quote).join(" or "),
  (value) => Predicate.isString(value) && known.includes(value)
]

/** The members that are not checked here are read by the codec of what is stored, which refuses them with their paths. */
const send = {
  agent: text,
  model: text,
  whenBusy: oneOf("queue", "reject"),
  pending: oneOf("keep", "deny")
} satisfies Record<string, Check>

const list = {
  prefix: text,
  after: text,
  limit: ["a number", Predicate.isNumber],
  agent: text,
  status: oneOf("idle", "running", "waiting"),
  updatedAfter: time,
  updatedBefore: time,
  metadata: object
} satisfies Record<string, Check>

const shared = {
  kind: oneOf("definition", "step-value"),
  after: text,
  limit: ["a number", Predicate.isNumber]
} satisfies Record<string, Check>

const edit = { messageId: text, newMessageId: text, model: text }

const shown = (value: unknown): string => {
  if (!Predicate.isString(value)) return kindOf(value)
  return value === "" ? "an empty text" : `${kindOf(value)} of ${value.length} characters`
}

const problemOf = (name: string, value: unknown, [expected, fits]: Check): string | undefined =>
  fits(value) ? undefined : `expected ${expected} as ${name}, got ${shown(value)}`

/** The problem of the options of a call: each has its type, or is `undefined` where it is not required. */
const problemIn = (
  options: unknown,
  checks: Readonly<Record<string, Check>>,
  required: ReadonlyArray<string> = []
): string | undefined => {
  if (options === undefined && required.length === 0) return undefined
  if (!Predicate.isObject(options)) return problemOf("options", options, object)
  const members = new Map<string, unknown>(Object.entries(options))
  return Object.entries(checks)
    .filter(([name]) => members.get(name) !== undefined || required.includes(name))
    .map(([name, check]) => problemOf(name, members.get(name), check))
    .find(Predicate.isNotUndefined)
}

const refusal = (id: unknown, name: string, problem: string | undefined): SessionError | undefined => {
  const found = problemOf(name, id, text) ?? problem
  return found === undefined
    ? undefined
    : new SessionError({ id: Predicate.isString(id) ? id : "", reason: { _tag: "ArgumentInvalid", problem: found } })
}

/** Fails for an argument of another type, before the operation is called. */
const within = <A>(
  run: () => Effect.Effect<A, SessionError>,
  id: unknown,
  problem?: string,
  name = "id"
): Effect.Effect<A, SessionError> => {
  const refused = refusal(id, name, problem)
  return refused === undefined ? run() : Effect.fail(refused)
}

/** The operations, which fail with `ArgumentInvalid` for a value of another type. */
export const checked = (service: Service): Service => ({
  send: (id, input, options) =>
    within(() => service.send(id, input, options), id, problemOf("id", id, newId) ?? problemIn(options, send)),
  edit: (id, options) => within(() => service.edit(id, options), id, problemIn(options, edit, ["messageId"])),
  withdraw: (id, messageId) =>
    within(() => service.withdraw(id, messageId), id, problemOf("messageId", messageId, text)),
  fork: (id, options) =>
    within(() => service.fork(id, options), id, problemIn(options, { to: newId, at: place }, ["to"])),
  decide: (id, decisions) => within(() => service.decide(id, decisions), id),
  resume: (id) => within(() => service.resume(id), id),
  interrupt: (id) => within(() => service.interrupt(id), id),
  events: (id, options) => {
    const refused = refusal(id, "id", problemIn(options, { after: place }))
    return refused === undefined ? service.events(id, options) : Stream.fail(refused)
  },
  state: (id) => within(() => service.state(id), id),
  history: (id, options) => within(() => service.history(id, options), id, problemIn(options, {})),
  update: (id, details) => within(() => service.update(id, details), id, problemOf("details", details, object)),
  read: (key) => within(() => service.read(key), key, undefined, "key"),
  list: (options) => within(() => service.list(options), "", problemIn(options, list)),
  listChanges: (options) => {
    const refused = refusal("", "id", problemIn(options, list))
    return refused === undefined ? service.listChanges(options) : Stream.fail(refused)
  },
  remove: (id) => within(() => service.remove(id), id),
  shared: (options) => within(() => service.shared(options), "", problemIn(options, shared)),
  prune: (options) => within(() => service.prune(options), "", problemIn(options, shared))
})
