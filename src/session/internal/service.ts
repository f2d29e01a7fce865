/**
 * The service of sessions, and its functions, from the table of operations. A call checks its arguments, since a route may pass on JSON
 * of any type, and the payload is carried to the process that has the session.
 */

import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as callOptions from "../../payload/internal/options.ts"
import { isObject } from "../../payload/internal/values.ts"
import * as SessionApi from "../SessionApi.ts"
import { SessionError } from "./types.ts"

/** The operations on sessions. */
export interface Service extends SessionApi.Functions {}

type Operations = typeof SessionApi.operations

/** Answers an operation whose payload was checked. The id of an operation on the store is empty. */
type Handler<O> =
  O extends SessionApi.Operation<infer K, infer _, infer __, infer P, infer A>
    ? (id: string, payload: P) => K extends "stream" ? Stream.Stream<A, SessionError> : Effect.Effect<A, SessionError>
    : never

export type Handlers = { readonly [K in keyof Operations]: Handler<Operations[K]> }

/** A payload: the Schema of its operation has the members. */
export type Payload = { readonly [name: string]: unknown }

/** An operation of the table, whichever it is: its functions are called with its own payloads alone. */
export interface AnyOperation extends SessionApi.Operation<
  "command" | "query" | "stream",
  "session" | "store",
  ReadonlyArray<unknown>,
  Payload,
  unknown
> {}

const table: object = SessionApi.operations

/** The names and the operations of the table. */
export const all: ReadonlyArray<readonly [name: string, operation: AnyOperation]> = Object.entries(table)

/** A record with the names of the table. */
export const each = <T>(make: (name: string, operation: AnyOperation) => unknown): T =>
  // Sound: T is a mapped type over the table, which `make` follows
  Object.fromEntries(all.map(([name, operation]) => [name, make(name, operation)])) as T

/** A call of an operation, whose kind its caller knows. */
type AnyCall<E> = (...args: ReadonlyArray<unknown>) => Effect.Effect<unknown, E> & Stream.Stream<unknown, E>

/** The call of an operation in a record that was derived from the table. */
export const callOf = <E = SessionError>(record: object, name: string): AnyCall<E> => Reflect.get(record, name)

/** The problem of a value that has another type than its Schema, where the Schema names what it expects. */
const problemOf = (name: string, schema: Schema.Codec<unknown, unknown>): ((value: unknown) => string | undefined) => {
  const expected = Schema.resolveAnnotations(schema)?.["expected"]
  const fits = Schema.is(schema)
  const isOptional = schema.ast.context?.isOptional === true
  return (value) =>
    expected === undefined || (value === undefined && isOptional) || fits(value)
      ? undefined
      : callOptions.wrong(name, String(expected), value)
}

/**
 * Reads the arguments of an operation: its id, and a payload with the members of the Schema that are there. Another member is refused,
 * as a server refuses it: its caller would believe that it counts, and types do not see the members of an object that has a variable.
 */
const readerOf = ({ about, id, payload, payloadOf }: AnyOperation) => {
  const idProblem = about === "session" ? problemOf("id", id) : () => undefined
  const names = Object.keys(payload.fields)
  const problems = Object.entries(payload.fields).map(([name, field]) => [name, problemOf(name, field)] as const)
  return (given: ReadonlyArray<unknown>): Effect.Effect<{ id: string; payload: Payload }, SessionError> => {
    const [first, args] = about === "session" ? [given[0], given.slice(1)] : ["", given]
    const members: unknown = payloadOf(...args)
    const found = new Map<string, unknown>(isObject(members) ? Object.entries(members) : [])
    const values = new Set(found.values())
    const options = args.find((arg) => arg !== undefined && !values.has(arg) && !isObject(arg))
    const problem =
      idProblem(first) ??
      (options === undefined ? undefined : callOptions.wrong("options", "an object", options)) ??
      (isObject(members) ? callOptions.unknownName(names, members) : undefined) ??
      problems.map(([name, problem]) => problem(found.get(name))).find(Predicate.isNotUndefined)
    const sessionId = Predicate.isString(first) ? first : ""
    if (problem !== undefined) {
      return Effect.fail(new SessionError({ id: sessionId, reason: { _tag: "ArgumentInvalid", problem } }))
    }
    const known = problems.map(([name]) => [name, found.get(name)] as const).filter(([, value]) => value !== undefined)
    return Effect.succeed({ id: sessionId, payload: Object.fromEntries(known) })
  }
}

/** Carries a payload to the process that has the session. */
type Carry<A> = (name: string, operation: AnyOperation, id: string, payload: Payload) => A

export const make = (
  effect: Carry<Effect.Effect<unknown, SessionError>>,
  stream: Carry<Stream.Stream<unknown, SessionError>>
): Service => {
  const service: Service = each((name, operation) => {
    const read = readerOf(operation)
    const checked = (args: ReadonlyArray<unknown>) =>
      Effect.tap(read(args), ({ id, payload }) =>
        operation.check(
          id,
          payload,
          Effect.suspend(() => service.state(id))
        )
      )
    return (...args: ReadonlyArray<unknown>) =>
      operation.kind === "stream"
        ? Stream.unwrap(Effect.map(checked(args), ({ id, payload }) => stream(name, operation, id, payload)))
        : Effect.flatMap(checked(args), ({ id, payload }) => effect(name, operation, id, payload))
  })
  return service
}

/** The functions of a service that find it. */
export const functionsOf = <Self>(service: Context.Key<Self, Service>): SessionApi.Functions<Self> =>
  each((name, { kind }) => (...args: ReadonlyArray<unknown>) => {
    const called = Effect.map(service, (found) => callOf(found, name)(...args))
    return kind === "stream" ? Stream.unwrap(called) : Effect.flatten(called)
  })
