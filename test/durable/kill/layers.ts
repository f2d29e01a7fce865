/** The layers of a runner and of a client. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/durable"
import { SqliteClient } from "effect-emissary/node"
import * as agents from "./agents.ts"
import * as door from "./door.ts"
import * as ledger from "./ledger.ts"
import * as naive from "./naive.ts"
import type * as tasks from "./task.ts"

const postgres = (url: string) =>
  Layer.unwrap(
    Effect.promise(() => import("@effect/sql-pg/PgClient")).pipe(
      Effect.map(({ layer }) => layer({ url: Redacted.make(url), maxConnections: 8 }))
    )
  )

const client = (database: tasks.Database) =>
  Layer.orDie(database.type === "sqlite" ? SqliteClient.layer({ filename: database.filename }) : postgres(database.url))

/** Sessions of one process on a store that its next life, and others, have too. */
export const runner = (task: tasks.Task) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { desk, layer, order } = yield* agents.make({ ...task, ledger: ledger.open(task.ledger, task.runner) })
      const local = Session.layer([desk, order], { leaseTime: task.leaseMillis })
      const sessions = task.naive === true ? naive.layer([desk, order]) : Layer.provide(door.layer, local)
      return sessions.pipe(
        Layer.provide(layer),
        Layer.provide(VersionedStore.layerSql().pipe(Layer.provide(client(task.database))))
      )
    })
  )
