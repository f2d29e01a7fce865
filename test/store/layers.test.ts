import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Conversation, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { Conformance, ScriptedModel } from "effect-emissary/testing"
import * as sessions from "../session/sessions.ts"

import { makeDirectory } from "./directory.ts"
import * as layers from "./layers.ts"
import { postgres } from "./postgres.ts"

const all = layers.all(makeDirectory())

// The rows P09, P10, P11 and P12 of the golden tables are among the rules: a version is expected, and never a value.
describe("CONV-9 every layer of VersionedStore keeps its rules", () => {
  for (const { durable, layer, name } of all) {
    for (const { check, name: rule } of Conformance.versionedStore(name, layer, { durable })) {
      it.live(rule, () => check)
    }
  }

  it.live("the rule of limits is named in the error of a store that takes any", () => {
    const lenient = Layer.effect(
      VersionedStore.VersionedStore,
      Effect.map(VersionedStore.VersionedStore, (store) => ({ ...store, list: () => store.list() }))
    )
    const checks = Conformance.versionedStore("s", Layer.provide(lenient, VersionedStore.layerMemory), {})
    const rule = checks.filter(({ name }) => name.includes("limits that are not integers from 1"))
    return Effect.map(Effect.flip(Effect.forEach(rule, ({ check }) => check)), ({ message }) =>
      assert.match(
        message,
        /limits that are not integers from 1 .*: list with the limit 0: expected VersionedStoreError/
      )
    )
  })
})

describe.each(postgres)("MEND-7 the processes of a PostgreSQL database", ({ client }) => {
  const processesOf = Effect.fnUntraced(function* (sql: Layer.Layer<SqlClient.SqlClient>) {
    const built = yield* Layer.build(Layer.fresh(layers.database(Layer.fresh(sql))))
    const { processes = Effect.succeedNone } = yield* Effect.provide(VersionedStore.VersionedStore, built)
    return processes
  })

  /** A pooler that passes the connection to others while `isShared` is true: statements run on another one of the pool. */
  const pooler = (isShared: () => boolean) =>
    Layer.effect(
      SqlClient.SqlClient,
      Effect.map(SqlClient.SqlClient, (sql) => {
        const reserve = Effect.map(sql.reserve, (connection) => ({
          ...connection,
          execute: (...[statement, params, transform]: Parameters<typeof connection.execute>) =>
            isShared() ? sql.unsafe(statement, params) : connection.execute(statement, params, transform)
        }))
        const shared: SqlClient.SqlClient = new Proxy(sql, {
          get: (target, name) =>
            name === "reserve" ? reserve : name === "withoutTransforms" ? () => shared : Reflect.get(target, name)
        })
        return shared
      })
    ).pipe(Layer.provide(client))

  it.live("a process that lives is not gone for another one nor for itself, and is gone after its end", () =>
    Effect.gen(function* () {
      const other = Option.getOrThrow(yield* yield* processesOf(client))
      const own = yield* Effect.gen(function* () {
        const { look, own } = Option.getOrThrow(yield* yield* processesOf(client))
        assert.strictEqual(yield* other.look(own), "alive")
        assert.strictEqual(yield* look(other.own), "alive")
        assert.strictEqual(yield* look(own), "alive")
        return own
      }).pipe(Effect.scoped)
      yield* Effect.repeat(other.look(own), { until: (found) => found === "missing" })
    }).pipe(Effect.scoped)
  )

  it.live("behind a pooler that shares the connection with the lock, claims have no name of a process", () =>
    Effect.gen(function* () {
      const processes = yield* processesOf(pooler(() => true))
      assert.isTrue(Option.isNone(yield* processes))
    }).pipe(Effect.scoped)
  )

  it.live("once the lock is no longer with its connection, claims have no name of a process", () =>
    Effect.gen(function* () {
      let isShared = false
      const processes = yield* processesOf(pooler(() => isShared))
      assert.isTrue(Option.isSome(yield* processes))
      isShared = true
      yield* Effect.repeat(processes, { until: Option.isNone })
    }).pipe(Effect.scoped)
  )

  it.live("RIGHT-13 a process that loses only the connection with its lock keeps its turns", () =>
    Effect.gen(function* () {
      const { agent, handlers } = sessions.withTool("worker")
      const opened = yield* Deferred.make<void>()
      const began = yield* Deferred.make<void>()
      const work = () => Effect.as(Effect.andThen(Deferred.succeed(began, undefined), Deferred.await(opened)), "done")
      const model: ScriptedModel.TurnFunction = ({ messages }) =>
        messages.at(-1)?.role === "user" ? sessions.call(1) : { text: "answered" }
      const start = Effect.gen(function* () {
        const store = yield* Layer.build(Layer.fresh(layers.database(Layer.fresh(client))))
        const layer = Session.layer([agent]).pipe(
          Layer.provide([Layer.succeedContext(store), handlers(work), ScriptedModel.layer(model)])
        )
        return { store: Context.get(store, VersionedStore.VersionedStore), service: yield* sessions.sessionsOf(layer) }
      })
      const first = yield* start
      const second = yield* start
      yield* first.service.send("a", "go")
      yield* Deferred.await(began)
      const { own } = Option.getOrThrow(yield* first.store.processes ?? Effect.succeedNone)
      const { look } = Option.getOrThrow(yield* second.store.processes ?? Effect.succeedNone)
      const sql = Context.get(yield* Layer.build(client), SqlClient.SqlClient)
      const holder = (find: "pid" | "pg_terminate_backend(pid)") =>
        sql.unsafe(
          `SELECT ${find} FROM pg_locks, hashtextextended($1, 0) AS key WHERE locktype = 'advisory' AND granted
            AND classid = ((key >> 32) & 4294967295)::oid AND objid = (key & 4294967295)::oid`,
          [`effect-emissary/process/${own}`]
        )
      yield* holder("pg_terminate_backend(pid)")
      yield* Effect.repeat(holder("pid"), { until: (found) => found.length === 0 })
      let looks = 0
      // Each look of the other process finds it in its turn, also while the lock is away
      while (looks++ < 3 || (yield* look(own)) !== "alive") {
        const sent = yield* Effect.flip(second.service.send("a", "hello", { whenBusy: "reject" }))
        assert.strictEqual(sent.reason._tag, "Busy")
      }
      yield* Deferred.succeed(opened, undefined)
      yield* sessions.turns(first.service, "a", 1)
      const results = Conversation.messages(yield* first.service.history("a")).filter(({ role }) => role === "tool")
      assert.deepStrictEqual(
        results.map((message) => message.role === "tool" && message.result._tag),
        ["Success"]
      )
    }).pipe(Effect.scoped)
  )
})
