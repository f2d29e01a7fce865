import { Layer } from "effect"
import type { SqlClient } from "effect/sql"
import { VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"

import { join } from "node:path"
import { postgres } from "./postgres.ts"

type Store = Layer.Layer<VersionedStore.VersionedStore, VersionedStore.VersionedStoreError>

export const database = (client: Layer.Layer<SqlClient.SqlClient>): Store =>
  VersionedStore.layerSql().pipe(Layer.provide(client))

export const sqlite = (filename: string): Store => SqliteClient.layerStore({ filename })

/** Every layer of the port that runs here, and whether its values outlive it. */
export const all = (
  directory: string
): ReadonlyArray<{ readonly name: string; readonly layer: Store; readonly durable: boolean }> => [
  { name: "memory", layer: VersionedStore.layerMemory, durable: false },
  { name: "SQLite", layer: sqlite(join(directory, "store.sqlite")), durable: true },
  ...postgres.map(({ client }) => ({ name: "PostgreSQL", layer: database(client), durable: true }))
]
