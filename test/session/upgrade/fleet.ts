/**
 * The golden sessions of a fleet. Its store has no leases and no marks of turns that are due: they are calls in the tables of the
 * cluster, and so are calls that no runner has taken.
 */
import { Clock, Effect, Layer, Queue, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { VersionedStore } from "effect-emissary"
import { SqliteRunner } from "effect-emissary/node"
import { Session } from "effect-emissary/session"
import assert from "node:assert"
import * as cast from "./cast.ts"
import { isIdle, textsOf, unknown, until } from "./continue.ts"
import * as golden from "./golden.ts"

const Cell = Schema.NullOr(Schema.String)

/** A row of the table of the messages of a cluster, without what only traces need. */
const Call = Schema.Struct({
  id: Cell,
  message_id: Cell,
  shard_id: Cell,
  entity_type: Cell,
  entity_id: Cell,
  kind: Cell,
  tag: Cell,
  payload: Cell,
  headers: Cell,
  processed: Cell,
  request_id: Cell
})

const columns = Object.keys(Call.fields)

/** The golden sessions of a fleet, and the calls that were under way. */
export interface Fleet extends golden.Golden {
  readonly calls: ReadonlyArray<typeof Call.Type>
}

const runner = SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })

/** Time passes until an Effect ends: a cluster waits for many things. */
const passing = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.raceFirst(effect, Effect.forever(Effect.andThen(TestClock.adjust("20 millis"), Effect.yieldNow)))

/** A process of a fleet with a database of its own. It has its shards before the time at which it begins its work. */
const processOf = <E, A, E2>(
  name: string,
  time: number,
  layer: Layer.Layer<Session.Session, E, Layer.Success<typeof runner>>,
  body: Effect.Effect<A, E2, Session.Session | Layer.Success<typeof runner>>
) =>
  Effect.gen(function* () {
    const context = yield* passing(Layer.build(Layer.fresh(Layer.provideMerge(layer, runner))))
    yield* TestClock.adjust(time - (yield* Clock.currentTimeMillis))
    return yield* passing(Effect.provideContext(body, context))
  }).pipe(golden.inWorld(name, time - 60_000))

/** Calls as the cluster stores them. */
const callsOf = Effect.fnUntraced(function* (tag: string) {
  const sql = yield* SqlClient.SqlClient
  const texts = columns.map((column) => `CAST(${column} AS TEXT) AS ${column}`).join(", ")
  const rows = yield* sql.unsafe(`SELECT ${texts} FROM cluster_messages WHERE tag = ? ORDER BY id`, [tag])
  return yield* Schema.decodeUnknownEffect(Schema.Array(Call))(rows)
})

const addCalls = Effect.fnUntraced(function* (calls: Fleet["calls"]) {
  const sql = yield* SqlClient.SqlClient
  const places = columns.map(() => "?").join(", ")
  for (const call of calls) {
    yield* sql.unsafe(`INSERT INTO cluster_messages (${columns.join(", ")}) VALUES (${places})`, Object.values(call))
  }
})

/** The name of the scenario, for what shows its sessions: they are read in one process. */
const fleet: golden.Scenario = { name: "fleet", begin: [], proceed: () => Effect.void }

/** A turn of a runner that was killed, and a message that no runner has taken. */
export const record = Effect.gen(function* () {
  const stage = yield* cast.makeStage(true)
  const killed = yield* processOf(
    "fleet",
    golden.born,
    cast.fleetOf(stage),
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      yield* sessions.send("chat", "hang a", { agent: "support", messageId: "m1" })
      yield* Queue.take(stage.hanging)
      yield* sessions.send("chat", "two", { messageId: "m2" })
      return { rows: yield* golden.dump(yield* VersionedStore.VersionedStore), calls: yield* callsOf("Turn") }
    })
  )
  // The call of another fleet, as it was before a runner took it
  const sent = yield* processOf(
    "client",
    golden.born + 60_000,
    cast.fleetOf(stage),
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const options = { agent: "support", messageId: "m1", context: { user: "ada" }, title: "Later" }
      yield* sessions.send("later", "look a", options)
      return (yield* callsOf("Send")).map((call) => ({ ...call, processed: "0" }))
    })
  )
  const { rows } = killed
  return { rows, ...(yield* golden.shownOf(fleet, rows)), calls: [...killed.calls, ...sent] } satisfies Fleet
})

/** Runs a runner of a later release on the database. */
export const proceed = ({ calls, rows }: Fleet) =>
  Effect.flatMap(cast.makeStage(false), (stage) =>
    processOf(
      "fleet, continued",
      golden.born + golden.aDay,
      cast.fleetOf(stage),
      Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* golden.load(yield* VersionedStore.VersionedStore, { rows })
        yield* addCalls(calls)
        yield* until(sessions, "later", isIdle)
        assert.deepStrictEqual(yield* textsOf(sessions, "later"), [
          "user: look a",
          "assistant: One moment.",
          "tool: look of a",
          "assistant: small: look of a"
        ])
        yield* until(sessions, "chat", isIdle)
        assert.deepStrictEqual(yield* textsOf(sessions, "chat"), [
          "user: hang a",
          "assistant: One moment.",
          `tool: ${unknown}`,
          `assistant: small: ${unknown}`,
          "user: two",
          "assistant: small: two"
        ])
        assert.deepStrictEqual(stage.calls, ["look a"])
      })
    )
  )
