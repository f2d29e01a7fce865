import { NodeServices } from "@effect/platform-node"
import { Layer } from "effect"
import { KeyValueStore } from "effect/persistence"
import type { SqlClient } from "effect/sql"
import { VersionedStore } from "effect-emissary/conversation"
import type { VersionedStoreError } from "effect-emissary/conversation"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import { postgres } from "./postgres.ts"
import * as sqlite from "./sqlite.ts"

/** A directory for the tests of one file. */
export const makeDirectory = (): string => {
  const directory = mkdtempSync(join(tmpdir(), "emissary-store-"))
  afterAll(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

type Store = Layer.Layer<VersionedStore.VersionedStore, VersionedStoreError.VersionedStoreError>

export const files = (directory: string, staleLockAfter?: number): Store =>
  VersionedStore.layerFileSystem({ directory, staleLockAfter }).pipe(Layer.provide(NodeServices.layer))

export const database = (client: Layer.Layer<SqlClient.SqlClient>): Store =>
  VersionedStore.layerSql().pipe(Layer.provide(client))

export const sqliteFile = (file: string): Store => database(sqlite.layer(file))

/** Every layer of the port that runs here, and whether its values outlive it. */
export const all = (
  directory: string
): ReadonlyArray<{ readonly name: string; readonly layer: Store; readonly durable: boolean }> => [
  { name: "memory", layer: VersionedStore.layerMemory, durable: false },
  { name: "files", layer: files(join(directory, "files")), durable: true },
  { name: "SQLite", layer: sqliteFile(join(directory, "store.sqlite")), durable: true },
  ...postgres.map((client) => ({ name: "PostgreSQL", layer: database(client), durable: true })),
  {
    name: "KeyValueStore in memory",
    layer: VersionedStore.layerKeyValueStoreSingleWriter.pipe(Layer.provide(KeyValueStore.layerMemory)),
    durable: false
  },
  {
    name: "KeyValueStore of files",
    layer: VersionedStore.layerKeyValueStoreSingleWriter.pipe(
      Layer.provide(KeyValueStore.layerFileSystem(join(directory, "kvs"))),
      Layer.provide(NodeServices.layer),
      Layer.orDie
    ),
    durable: true
  }
]
