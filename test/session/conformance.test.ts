/** The same rules for every place of sessions. */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Scope } from "effect"
import { TestRunner } from "effect/cluster"
import { VersionedStore } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import { join } from "node:path"
import { makeDirectory } from "../store/directory.ts"
import * as layers from "../store/layers.ts"
import { oneIn } from "../full.ts"
import * as fleet from "./fleet/layers.ts"
import * as processes from "./fleet/processes.ts"
import { databases } from "./kill/databases.ts"
import * as suite from "./suite.ts"

const directory = makeDirectory()

const all = layers.all(directory)

describe("DUR-1 DUR-2 Session.layer keeps the rules of sessions", () => {
  for (const { durable, layer, name } of all) {
    const sessions = (agents: suite.Agents) => Layer.provide(Session.layer(agents), layer)
    // On PostgreSQL and SQLite the same code runs
    const rules = suite.session(name, sessions, { durable })
    for (const { check, name: rule } of oneIn(name === "PostgreSQL" ? 4 : 1, rules)) it.live(rule, () => check)
  }
})

describe("DUR-1 DUR-4 ClusterSession.layer keeps the same rules", () => {
  const shardingConfig = { shardsPerGroup: 8 }
  const inMemory = Layer.mergeAll(
    TestRunner.layer,
    VersionedStore.layerMemory,
    Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))
  )
  const embedded = SqliteRunner.layer({ filename: join(directory, "fleet.sqlite"), shardingConfig })
  const fleets = [
    { name: "test runner", layer: inMemory, durable: false },
    { name: "embedded runner", layer: embedded, durable: true }
  ]
  for (const { durable, layer, name } of fleets) {
    const sessions = (agents: suite.Agents) => Layer.provide(ClusterSession.layer(agents), layer)
    const rules = suite.session(name, sessions, { durable })
    for (const { check, name: rule } of oneIn(durable ? 3 : 1, rules)) it.live(rule, () => check)
  }
})

describe.each(databases.filter(({ name }) => name === "PostgreSQL"))(
  "DUR-4 two runners on $name and a client, over HTTP, keep the same rules",
  (database) => {
    const scope = Scope.makeUnsafe()
    let where: Effect.Success<ReturnType<typeof database.open>> | undefined
    beforeAll(async () => {
      where = await Effect.runPromise(Scope.provide(database.open(join(directory, "fleet")), scope))
    })
    afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))

    const sessions = (agents: suite.Agents) =>
      Layer.unwrap(
        Effect.gen(function* () {
          assert(where?.type === "postgres")
          const place = where
          const runner = Effect.flatMap(processes.freePort, (port) =>
            Layer.build(
              Layer.fresh(Layer.provide(ClusterSession.layer(agents), fleet.clusterOf({ database: place, port })))
            )
          )
          yield* Effect.all([runner, runner], { concurrency: 2 })
          // A session that moves loses a call that waits for its gate
          yield* Effect.provide(fleet.settled(2), fleet.postgres(place.url))
          return fleet.client(place.url)
        })
      )
    for (const { check, name } of oneIn(4, suite.session("fleet", sessions))) {
      it.live(name, () => check)
    }
  }
)
