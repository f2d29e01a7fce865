/** The same rules for every place of sessions. */
import { describe, it } from "@effect/vitest"
import { Layer } from "effect"
import { TestRunner } from "effect/cluster"
import { VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/durable"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import { Conformance } from "effect-emissary/testing"
import { join } from "node:path"
import { makeDirectory } from "../conversation/store/directory.ts"
import * as layers from "../conversation/store/layers.ts"

type Agents = Parameters<Parameters<typeof Conformance.session>[1]>[0]

const directory = makeDirectory()

const all = layers.all(directory)

describe("DUR-1 DUR-2 Session.layer keeps the rules of sessions", () => {
  for (const { durable, layer, name } of all) {
    const sessions = (agents: Agents) => Layer.provide(Session.layer(agents), layer)
    for (const { check, name: rule } of Conformance.session(name, sessions, { durable })) it.live(rule, () => check)
  }
})

describe("DUR-1 DUR-4 Session.layerCluster keeps the same rules", () => {
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
    const sessions = (agents: Agents) => Layer.provide(Session.layerCluster(agents), layer)
    for (const { check, name: rule } of Conformance.session(name, sessions, { durable })) it.live(rule, () => check)
  }
})
