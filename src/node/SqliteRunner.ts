/**
 * A cluster of one process on one SQLite file, for `ClusterSession.layer` of `effect-emissary/session`, and for
 * `ClusterWorkflowEngine` of Effect.
 *
 * **When to use**
 *
 * Use it where one process is enough, in the shape in which several would run: the program does not change when it
 * moves to PostgreSQL and `NodeClusterHttp.layer` of `@effect/platform-node`. For sessions alone, `Session.layer` on
 * `SqliteClient.layerStore` serves as well.
 *
 * **Gotchas**
 *
 * One process at a time may have the file: a second one would run the same entities. The next process continues the work
 * that one did not finish.
 *
 * @since 0.1.0
 */

import type { ConfigError } from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { MessageStorage } from "effect/cluster/MessageStorage"
import type { Sharding } from "effect/cluster/Sharding"
import type { ShardingConfig } from "effect/cluster/ShardingConfig"
import * as SingleRunner from "effect/cluster/SingleRunner"
import * as References from "effect/References"
import * as Digest from "effect/crypto/Digest"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { createHash } from "node:crypto"
import * as VersionedStore from "../store/VersionedStore.ts"
import * as SqliteClient from "./SqliteClient.ts"

const digest = (algorithm: Digest.Algorithm, data: Uint8Array) =>
  createHash(algorithm.name.replace("-", "")).update(data).digest()

const layerDigest = Layer.succeed(Digest.Digest, {
  digest: (algorithm, data) => Effect.sync(() => new Uint8Array(digest(algorithm, data))),
  digestHex: (algorithm, data) => Effect.sync(() => digest(algorithm, data).toString("hex"))
})

/**
 * A runner, its `SqlClient` and a `VersionedStore`, all on one file.
 *
 * **Details**
 *
 * `filename`, `busyTimeout` and `table` are options of `SqliteClient.layerStore`.
 *
 * **Example** (A session)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Agent } from "effect-emissary"
 * import { ClusterSession, Session } from "effect-emissary/session"
 * import { SqliteRunner } from "effect-emissary/node"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const support = Agent.make("support", { instructions: "You help customers." })
 *
 * const sessions = ClusterSession.layer([support]).pipe(
 *   Layer.provide(SqliteRunner.layer({ filename: ":memory:" })),
 *   Layer.provide(ScriptedModel.layer([{ text: "Welcome, Ada!" }]))
 * )
 * const answer = await Effect.runPromise(Effect.provide(Session.ask("chat/42", "Hello, I am Ada."), sessions))
 * assert.strictEqual(answer, "Welcome, Ada!")
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  options: Parameters<typeof SqliteClient.layerStore>[0] & {
    /** Settings of the cluster that differ from its defaults; none by default. */
    readonly shardingConfig?: Partial<ShardingConfig["Service"]> | undefined
  }
): Layer.Layer<
  Sharding | MessageStorage | SqlClient | VersionedStore.VersionedStore,
  ConfigError | SqlError | VersionedStore.VersionedStoreError
> =>
  Layer.merge(
    Layer.provide(
      SingleRunner.layer({ shardingConfig: options.shardingConfig }),
      Layer.succeed(References.TracerEnabled, false)
    ),
    VersionedStore.layerSql({ table: options.table })
  ).pipe(Layer.provide(layerDigest), Layer.provideMerge(SqliteClient.layer(options)))
