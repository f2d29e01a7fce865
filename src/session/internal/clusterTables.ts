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
import type { SqlError } from "effect/sql/SqlError"

const batchSize = 500

/** Before all ids: times before 2025 make negative ones. */
const oldest = "-9223372036854775808"

/** Removes the messages to entities of a type that were answered before a time. */
export const prune = Effect.fnUntraced(function* (entityType: string, before: DateTime.DateTime) {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  // Ids of messages and of answers begin with their time, so old ones are found by the primary key
  const newest = String(
    Snowflake.make({ timestamp: DateTime.toEpochMillis(before), machineId: MachineId.make(0), sequence: 0 })
  )
  const answered = (after: string) => sql<{ readonly found: string }>`
    SELECT CAST(m.id AS TEXT) AS found FROM cluster_messages m
    WHERE m.id > ${after} AND m.id < ${newest} AND m.entity_type = ${entityType} AND m.kind = 0 AND m.processed
      AND m.last_reply_id < ${newest}
    ORDER BY m.id LIMIT ${batchSize}`
  const removeAfter = (after: string): Effect.Effect<void, SqlError> =>
    Effect.gen(function* () {
      const ids = (yield* answered(after)).map(({ found }) => found)
      if (ids.length === 0) return undefined
      yield* sql`DELETE FROM cluster_replies WHERE ${sql.in("request_id", ids)}`
      yield* sql`DELETE FROM cluster_messages WHERE ${sql.in("request_id", ids)}`
      return ids.length < batchSize ? undefined : ids.at(-1)
    }).pipe(
      sql.withTransaction,
      Effect.flatMap((last) => (last === undefined ? Effect.void : removeAfter(last)))
    )
  yield* removeAfter(oldest)
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
      Effect.withTracerEnabled(false),
      Effect.repeat(Schedule.spaced(Duration.max(Duration.minutes(1), Duration.times(keep, 1 / 24))))
    )
  )
