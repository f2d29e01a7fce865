/** The databases and layers that the processes of `bench/fleet.ts` run on. */
import { NodeClusterHttp } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Option, Redacted, Schema, Stream } from "effect"
import { LanguageModel, Response, Tool, Toolkit } from "effect/ai"
import { RunnerAddress, type ShardingConfig } from "effect/cluster"
import { SqlClient } from "effect/sql"
import { Agent, VersionedStore } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import { randomUUID } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export type Database =
  | { readonly type: "SQLite"; readonly filename: string }
  | { readonly type: "PostgreSQL"; readonly url: string }

export const server = process.env["EMISSARY_TEST_POSTGRES"] ?? ""

const connection = (url: string) => PgClient.layer({ url: Redacted.make(url), maxConnections: 10 })

export const client = (database: Database): Layer.Layer<SqlClient.SqlClient> =>
  Layer.orDie(
    database.type === "SQLite" ? SqliteClient.layer({ filename: database.filename }) : connection(database.url)
  )

const administer = (statement: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(statement)).pipe(
    Effect.provide(connection(server)),
    Effect.runPromise
  )

/** A database of its own, which is removed at the end. */
export const withDatabase = async <A>(type: Database["type"], use: (database: Database) => Promise<A>): Promise<A> => {
  if (type === "SQLite") {
    const directory = mkdtempSync(join(tmpdir(), "emissary-fleet-"))
    try {
      return await use({ type, filename: join(directory, "sessions.sqlite") })
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  }
  const name = `emissary_fleet_${randomUUID().replaceAll("-", "")}`
  await administer(`CREATE DATABASE ${name}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  try {
    return await use({ type, url: url.href })
  } finally {
    await administer(`DROP DATABASE ${name} WITH (FORCE)`)
  }
}

const finish = (reason: Response.FinishReason): Response.FinishPart =>
  Response.makePart("finish", {
    reason,
    usage: new Response.Usage({
      inputTokens: { uncached: undefined, total: 10, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: 5, text: undefined, reasoning: undefined }
    }),
    response: undefined
  })

const answer = "There is one parcel under this number. It left the depot this morning and arrives tomorrow."

/** The number in "do 40": the model asks for as many calls, one in each step, and then answers. */
const wanted = (prompt: unknown): { readonly calls: number; readonly done: number } => {
  // Sound: a prompt of `effect/ai`, as the loop of agents makes it
  const { content } = prompt as {
    readonly content: ReadonlyArray<{ readonly role: string; readonly content: unknown }>
  }
  const asked = content.findLastIndex(({ role }) => role === "user")
  const calls = Number(/do (\d+)/.exec(JSON.stringify(content[asked]?.content ?? ""))?.[1] ?? 0)
  return { calls, done: content.slice(asked).filter(({ role }) => role === "assistant").length }
}

/** Answers after `pace`. It is not made by `LanguageModel.make`, which looks through the whole prompt in each step. */
const model = (pace: number) =>
  Layer.sync(LanguageModel.LanguageModel, () => {
    const next = (options: { readonly prompt: unknown }): Array<Response.AnyPart> => {
      const { calls, done } = wanted(options.prompt)
      if (done >= calls) return [Response.makePart("text", { text: answer }), finish("stop")]
      const call = { id: `c${done}-${randomUUID()}`, name: "find", params: { text: "parcel" }, providerExecuted: false }
      return [Response.makePart("tool-call", call), finish("tool-calls")]
    }
    const service: unknown = {
      generateText: (options: { readonly prompt: unknown }) =>
        Effect.andThen(
          pace === 0 ? Effect.void : Effect.sleep(pace),
          Effect.sync(() => ({ content: next(options) }))
        ),
      streamText: (options: { readonly prompt: unknown }) => Stream.suspend(() => Stream.fromIterable(next(options))),
      generateObject: () => Effect.die("not asked for")
    }
    return service as LanguageModel.LanguageModel
  })

const toolkit = Toolkit.make(
  Tool.make("find", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
)

const agent = Agent.make("desk", { instructions: "You help customers.", toolkit, maxSteps: "unlimited" })

const agentLayer = (pace: number) =>
  Layer.merge(model(pace), toolkit.toLayer({ find: ({ text }) => Effect.succeed(`${text} 42`) }))

export type Config = Partial<ShardingConfig.ShardingConfig["Service"]>

export interface Place {
  readonly where: "layer" | "layerCluster"
  readonly database: Database
  readonly port?: number | undefined
  readonly config?: Config | undefined
  readonly pace?: number | undefined
  readonly options?: Session.Options & { readonly retention?: string }
}

/** Sessions, the services of their cluster, and their database. */
export const sessions = ({ config, database, options, pace = 0, port = 0, where }: Place) => {
  // Sound: written by `bench/fleet.ts`
  const given = options as ClusterSession.LayerOptions
  if (where === "layer") {
    return Session.layer([agent], given).pipe(
      Layer.provide([agentLayer(pace), VersionedStore.layerSql()]),
      Layer.provideMerge(client(database)),
      Layer.orDie
    )
  }
  const shardingConfig = { ...config, runnerAddress: Option.some(RunnerAddress.make("127.0.0.1", port)) }
  const hosted = ClusterSession.layer([agent], given).pipe(Layer.provide(agentLayer(pace)))
  if (database.type === "SQLite") {
    const runner = SqliteRunner.layer({ filename: database.filename, shardingConfig: config })
    return Layer.orDie(Layer.provideMerge(hosted, runner))
  }
  const cluster = NodeClusterHttp.layer({ transport: "http", storage: "sql", shardingConfig })
  return hosted.pipe(
    Layer.provide([cluster, VersionedStore.layerSql()]),
    Layer.provideMerge(client(database)),
    Layer.orDie
  )
}

/** The sessions that other processes have. */
export const remote = (database: Database, config?: Config) =>
  ClusterSession.layerClient().pipe(
    Layer.provide(
      NodeClusterHttp.layer({ transport: "http", storage: "sql", clientOnly: true, shardingConfig: config })
    ),
    Layer.provideMerge(client(database)),
    Layer.orDie
  )
