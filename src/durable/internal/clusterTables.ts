/**
 * The tables of `effect/cluster`, from which nothing is deleted by the cluster: removes the messages of sessions that were
 * answered long ago, with their answers.
 */

import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as MachineId from "effect/cluster/MachineId"
import * as Singleton from "effect/cluster/Singleton"
import * as Snowflake from "effect/cluster/Snowflake"
import * as SqlClient from "effect/sql/SqlClient"

const batchSize = 500

/** Removes the messages to entities of a type that were answered before a time. */
export const prune = Effect.fnUntraced(function* (entityType: string, before: DateTime.DateTime) {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  // The id of an answer begins with its time
  const newest = String(
    Snowflake.make({ timestamp: DateTime.toEpochMillis(before), machineId: MachineId.make(0), sequence: 0 })
  )
  const answered = sql<{ readonly id: string }>`SELECT CAST(id AS TEXT) AS id FROM cluster_messages
    WHERE entity_type = ${entityType} AND kind = 0 AND processed AND last_reply_id < ${newest}
    LIMIT ${batchSize}`
  const removeSome = Effect.gen(function* () {
    const ids = (yield* answered).map(({ id }) => id)
    if (ids.length === 0) return 0
    yield* sql`DELETE FROM cluster_replies WHERE ${sql.in("request_id", ids)}`
    yield* sql`DELETE FROM cluster_messages WHERE ${sql.in("request_id", ids)}`
    return ids.length
  }).pipe(sql.withTransaction)
  return yield* Effect.repeat(removeSome, { until: (removed) => removed < batchSize })
})

/** Removes old messages from time to time, on one runner of the fleet. */
export const retention = (entityType: string, keep: Duration.Duration) =>
  Singleton.make(
    `${entityType}/retention`,
    Effect.gen(function* () {
      const now = yield* DateTime.now
      yield* prune(entityType, DateTime.subtractDuration(now, keep))
    }).pipe(
      Effect.catch((error) => Effect.logWarning(`answered messages of ${entityType} were not removed`, error)),
      Effect.repeat(Schedule.spaced(Duration.max(Duration.minutes(1), Duration.times(keep, 1 / 24))))
    )
  )
