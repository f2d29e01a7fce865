import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { VersionedStore } from "effect-emissary"
import { Conformance } from "effect-emissary/testing"

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
        const { isGone, own } = Option.getOrThrow(yield* yield* processesOf(client))
        assert.isFalse(yield* other.isGone(own))
        assert.isFalse(yield* isGone(other.own))
        assert.isFalse(yield* isGone(own))
        return own
      }).pipe(Effect.scoped)
      yield* Effect.repeat(other.isGone(own), { until: (isGone) => isGone })
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
})
