/** The layers of runners and clients, on SQLite or on PostgreSQL over HTTP. */
import { NodeClusterHttp } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Option, Redacted, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { RunnerAddress } from "effect/cluster"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Agent, VersionedStore } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { appendFileSync } from "node:fs"
import type { Database } from "../kill/task.ts"

export interface Task {
  readonly database: Database
  readonly port: number
  /** The file in which tools record what they do. */
  readonly ledger: string
  readonly toolMillis: number
  /** Sends a message to the session `chat`, and prints the receipt. */
  readonly message?: string
  /** Has its sessions alone, without a fleet. */
  readonly isLocal?: boolean
  /** Prints the events of the session `chat`, until its turn has ended. */
  readonly isReader?: boolean
}

export const shards = 12

/** Short times, so that the tests need not wait for a runner that died. */
const shardingConfig = {
  shardsPerGroup: shards,
  shardLockRefreshInterval: "1 second",
  shardLockExpiration: "4 seconds",
  refreshAssignmentsInterval: "300 millis",
  runnerHealthCheckInterval: "500 millis",
  entityTerminationTimeout: "5 seconds",
  entityMessagePollInterval: "500 millis",
  entityReplyPollInterval: "100 millis"
} as const

export const isEnd = ({ event }: Session.Entry) => event._tag === "RunEvent" && event.event._tag === "RunFinished"

export const tagOf = ({ event }: Session.Entry) => (event._tag === "RunEvent" ? event.event._tag : event._tag)

const Stamp = Tool.make("stamp", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
const Pay = Tool.make("pay", {
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String,
  needsApproval: true
})
const toolkit = Toolkit.make(Stamp, Pay)

const clerk = Agent.make("clerk", { instructions: "You are a clerk.", toolkit })

/** Calls the tool that the message names, and answers after that. */
const model = ScriptedModel.layer(({ messages }) => {
  const asked = messages.findLastIndex(({ role }) => role === "user")
  const text = messages[asked]?.text ?? ""
  const [name = ""] = text.split(" ")
  const isFirst = messages.slice(asked).every(({ role }) => role !== "assistant")
  const turn =
    isFirst && Object.hasOwn(toolkit.tools, name)
      ? { toolCalls: [{ name, params: { text } }] }
      : { text: `done ${text}` }
  return Effect.as(Effect.sleep("300 millis"), turn)
})

/** Waits for the signal that ends the process, so that no test depends on the speed of the machine. */
const terminated = Effect.callback<void>((resume) => {
  process.once("SIGTERM", () => resume(Effect.void))
})

const tools = ({ ledger, toolMillis }: Task) => {
  const record = (line: string) => Effect.sync(() => appendFileSync(ledger, `${process.pid} ${line}\n`))
  return toolkit.toLayer({
    stamp: ({ text }) =>
      record(`begins ${text}`).pipe(
        Effect.andThen(text.endsWith("until SIGTERM") ? terminated : Effect.void),
        Effect.andThen(Effect.sleep(toolMillis)),
        Effect.andThen(record(`ends ${text}`)),
        Effect.as("stamped"),
        Effect.onInterrupt(() => record(`interrupted ${text}`))
      ),
    pay: () => Effect.succeed("paid")
  })
}

export const postgres = (url: string) => Layer.orDie(PgClient.layer({ url: Redacted.make(url), maxConnections: 4 }))

const http = { transport: "http", storage: "sql" } as const

export const clusterOf = ({ database, port }: Pick<Task, "database" | "port">) => {
  if (database.type === "sqlite")
    return Layer.orDie(SqliteRunner.layer({ filename: database.filename, shardingConfig }))
  const runnerAddress = Option.some(RunnerAddress.make("127.0.0.1", port))
  return Layer.orDie(
    Layer.merge(
      NodeClusterHttp.layer({ ...http, shardingConfig: { ...shardingConfig, runnerAddress } }),
      VersionedStore.layerSql()
    ).pipe(Layer.provideMerge(postgres(database.url)))
  )
}

export const runner = (task: Task) =>
  ClusterSession.layer([clerk], { idleTime: "2 seconds" }).pipe(Layer.provide([clusterOf(task), tools(task), model]))

const storeOn = (database: Database) =>
  Layer.orDie(
    database.type === "sqlite"
      ? SqliteClient.layerStore({ filename: database.filename })
      : Layer.provide(VersionedStore.layerSql(), postgres(database.url))
  )

/** Sessions in a process of its own, and sessions of the next process, whose clock does not move. */
export const local = (task: Task) =>
  Session.layer([clerk]).pipe(Layer.provide([storeOn(task.database), tools(task), model]))

export const next = (database: Database) =>
  Session.layer([clerk]).pipe(
    Layer.provide([
      storeOn(database),
      toolkit.toLayer({ stamp: () => Effect.succeed("stamped"), pay: () => Effect.succeed("paid") }),
      ScriptedModel.layer(() => ({ text: "done" }))
    ]),
    Layer.provideMerge(TestClock.layer())
  )

/** A process that only calls. */
export const client = (url: string) =>
  ClusterSession.layerClient({ timeout: "3 seconds" }).pipe(
    Layer.provide(
      NodeClusterHttp.layer({
        ...http,
        clientOnly: true,
        shardingConfig: { ...shardingConfig, runnerAddress: Option.none() }
      })
    ),
    Layer.provideMerge(postgres(url)),
    Layer.orDie
  )

/** Waits until all runners have their part of the shards, after which sessions stay where they are. */
export const settled = (runners: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const owners = yield* sql`SELECT pid, COUNT(*) AS shards FROM pg_locks WHERE locktype = 'advisory' AND granted
      AND classid <> 0 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY pid`
    const held = owners.reduce((sum, { shards }) => sum + Number(shards), 0)
    return owners.length === runners && held === shards
  }).pipe(Effect.delay("100 millis"), Effect.repeat({ until: (isSettled) => isSettled }))
