/**
 * Durable turns: sessions of `turns` messages, one after the other, in a database file with a write-ahead log and a commit
 * that waits for the disk. One run is a session. `commits` counts what the file holds, so it is the same for every driver.
 */
import { BaseChatModel } from "@langchain/core/language_models/chat_models"
import { AIMessage, type BaseMessage } from "@langchain/core/messages"
import { tool } from "@langchain/core/tools"
import { createReactAgent } from "@langchain/langgraph/prebuilt"
import { Agent as MastraAgent } from "@mastra/core/agent"
import { createTool } from "@mastra/core/tools"
import { NodeCrypto } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, ManagedRuntime, Redacted, Schema, Stream, type Duration } from "effect"
import { LanguageModel, Tool, Toolkit, type Response } from "effect/ai"
import { SingleRunner } from "effect/cluster"
import { Agent, Run, VersionedStore } from "effect-emissary"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import { ClusterSession, Session } from "effect-emissary/session"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync, type SQLInputValue } from "node:sqlite"
import { z } from "zod"

export interface Options {
  readonly turns: number
  /** Each turn calls a tool once before it answers. */
  readonly tool: boolean
}

const system = "You are an assistant that can use tools to answer questions."
const description = "Look up the weather for a city"
const question = (turn: number) => `What is the weather on day ${turn} of my trip?`
const answer = "All done: the weather is fine."
const city = (turn: number) => ({ city: `City ${turn}`, days: 3 })
const weather = (given: { readonly city: string }) => ({ city: given.city, temperature: 21.5, ok: true })

const directory = mkdtempSync(join(tmpdir(), "emissary-bench-"))
const filename = join(directory, "turns.sqlite")

let dropSchema = async (): Promise<unknown> => undefined

export const end = async (): Promise<void> => {
  rmSync(directory, { recursive: true, force: true })
  await dropSchema()
}

/** The commits in the write-ahead log, and the mark of the log, which is another one after it began again. */
export const commits = (): { readonly log: string; readonly count: number } => {
  const wal = readFileSync(`${filename}-wal`)
  const pageSize = wal.readUInt32BE(8)
  const log = wal.toString("hex", 16, 24)
  let count = 0
  for (let at = 32; at + 24 + pageSize <= wal.length && wal.toString("hex", at + 8, at + 16) === log;) {
    // The size of the database, in the last frame of a commit
    if (wal.readUInt32BE(at + 4) !== 0) count += 1
    at += 24 + pageSize
  }
  return { log, count }
}

let sessions = 0

/** Runs sessions, whose turns return the answer. */
const runsOf =
  ({ turns }: Options, turn: (id: string, text: string) => Promise<string>) =>
  async (): Promise<void> => {
    const id = `session-${sessions++}`
    for (let index = 0; index < turns; index++) {
      const text = await turn(id, question(index))
      if (text !== answer) throw new Error(`expected the answer, got ${text}`)
    }
  }

let calls = 0

const Lookup = Tool.make("lookup_weather", {
  description,
  parameters: Schema.Struct({ city: Schema.String, days: Schema.Int }),
  success: Schema.Struct({ city: Schema.String, temperature: Schema.Finite, ok: Schema.Boolean })
})
const toolkit = Toolkit.make(Lookup)
const assistant = Agent.make("assistant", { instructions: system, toolkit })

const usage = {
  inputTokens: { total: 10, uncached: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 5, text: 5, reasoning: undefined }
}

const servicesOf = (options: Options) => {
  const callsNext = (prompt: LanguageModel.ProviderOptions["prompt"]) =>
    options.tool && prompt.content.at(-1)?.role === "user"
  const called = (): Response.ToolCallPartEncoded => ({
    type: "tool-call",
    id: `call_${calls++}`,
    name: Lookup.name,
    params: city(calls)
  })
  const finished = (reason: "stop" | "tool-calls"): Response.FinishPartEncoded => ({
    type: "finish",
    reason,
    usage,
    response: undefined
  })
  const model = Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: ({ prompt }) =>
        Effect.sync(() =>
          callsNext(prompt) ? [called(), finished("tool-calls")] : [{ type: "text", text: answer }, finished("stop")]
        ),
      streamText: ({ prompt }) =>
        Stream.suspend(() =>
          Stream.fromArray<Response.StreamPartEncoded>(
            callsNext(prompt)
              ? [called(), finished("tool-calls")]
              : [
                  { type: "text-start", id: "0" },
                  { type: "text-delta", id: "0", delta: answer },
                  { type: "text-end", id: "0" },
                  finished("stop")
                ]
          )
        )
    })
  )
  return Layer.merge(toolkit.toLayer({ lookup_weather: (given) => Effect.sync(() => weather(given)) }), model)
}

const sessionsOf = (options: Options, layer: Layer.Layer<Session.Session, unknown>) => {
  const runtime = ManagedRuntime.make(layer)
  return runsOf(options, async (id, text) => (await runtime.runPromise(Session.turn(id, text))).text)
}

const local = (options: Options) => Session.layer([assistant]).pipe(Layer.provide(servicesOf(options)))

const onFile = SqliteClient.layerStore({ filename })

export const emissary = async (options: Options) => sessionsOf(options, Layer.provide(local(options), onFile))

export const memory = async (options: Options) =>
  sessionsOf(options, Layer.provide(local(options), VersionedStore.layerMemory))

/** The sessions are closed after each message, so the next one reads its session from the file. */
export const reopened = async (options: Options) => {
  const store = ManagedRuntime.make(onFile)
  const sessions = local(options)
  return runsOf(
    options,
    async (id, text) => (await store.runPromise(Effect.provide(Session.turn(id, text), sessions, { local: true }))).text
  )
}

export const cluster = async (options: Options) =>
  sessionsOf(
    options,
    ClusterSession.layer([assistant]).pipe(
      Layer.provide(servicesOf(options)),
      Layer.provide(SqliteRunner.layer({ filename }))
    )
  )

/** Sessions on PostgreSQL, in a schema of their own, which is deleted by `end`. */
const onPostgres = async () => {
  const address = { url: Redacted.make(process.env["EMISSARY_TEST_POSTGRES"] ?? "") }
  const run = (statement: string) =>
    Effect.runPromise(
      Effect.provide(
        PgClient.PgClient.use((client) => client.unsafe(statement)),
        PgClient.layer(address)
      )
    )
  const schema = `turns_${process.pid}`
  await run(`CREATE SCHEMA ${schema}`)
  dropSchema = () => run(`DROP SCHEMA ${schema} CASCADE`)
  return PgClient.layer({ ...address, startupParameters: { search_path: schema } })
}

export const postgres = async (options: Options) =>
  sessionsOf(options, local(options).pipe(Layer.provide(VersionedStore.layerSql()), Layer.provide(await onPostgres())))

export const clusterOnPostgres = async (options: Options) =>
  sessionsOf(
    options,
    ClusterSession.layer([assistant]).pipe(
      Layer.provide(servicesOf(options)),
      Layer.provide([SingleRunner.layer(), VersionedStore.layerSql()]),
      Layer.provide(NodeCrypto.layerDigest),
      Layer.provide(await onPostgres())
    )
  )

/** The state of the run in one row, read before each turn and written after it: a turn under way is lost with its process. */
export const byHand = async (options: Options) => {
  const database = new DatabaseSync(filename)
  database.exec(
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE runs (id TEXT PRIMARY KEY, run TEXT)"
  )
  const read = database.prepare("SELECT run FROM runs WHERE id = ?")
  const write = database.prepare(
    "INSERT INTO runs (id, run) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET run = excluded.run"
  )
  class Bench extends Agent.Service<Bench>()("bench", { instructions: system, toolkit }) {}
  const runtime = ManagedRuntime.make(Layer.provide(Bench.layer, servicesOf(options)))
  const turn = Effect.fnUntraced(function* (id: string, text: string) {
    const bench = yield* Bench
    const row = read.get(id)
    const result =
      row === undefined
        ? yield* bench.run(text)
        : yield* bench.resume(yield* Run.stateCodec.decodeJson(String(row["run"])), { input: text })
    write.run(id, yield* Run.stateCodec.encodeJson(result.state))
    return result.outcome === "Completed" ? String(result.output) : result.outcome
  })
  return runsOf(options, (id, text) => runtime.runPromise(turn(id, text)))
}

class Model extends BaseChatModel {
  readonly callsTool: boolean
  constructor(callsTool: boolean) {
    super({})
    this.callsTool = callsTool
  }
  override _llmType() {
    return "mock"
  }
  override bindTools() {
    return this
  }
  override async _generate(messages: Array<BaseMessage>) {
    const call = { type: "tool_call" as const, id: `call_${calls++}`, name: Lookup.name, args: city(calls) }
    const message =
      this.callsTool && messages.at(-1)?.getType() === "human"
        ? new AIMessage({ content: "", tool_calls: [call] })
        : new AIMessage(answer)
    Object.assign(message, { usage_metadata: { input_tokens: 10, output_tokens: 5, total_tokens: 15 } })
    return { generations: [{ text: message.text, message }], llmOutput: {} }
  }
}

const Parameters = z.object({ city: z.string(), days: z.number().int() })

/** The members of `better-sqlite3` that the saver uses, over the SQLite of Node: nothing is to be compiled. */
const overNode = (database: DatabaseSync) => ({
  exec: (sql: string) => database.exec(sql),
  pragma: (sql: string) => database.exec(`PRAGMA ${sql}`),
  prepare: (sql: string) => {
    const statement = database.prepare(sql)
    const inputs = (values: ReadonlyArray<SQLInputValue | undefined>) => values.map((value) => value ?? null)
    return {
      run: (...values: Array<SQLInputValue | undefined>) => statement.run(...inputs(values)),
      get: (...values: Array<SQLInputValue | undefined>) => statement.get(...inputs(values)),
      all: (...values: Array<SQLInputValue | undefined>) => statement.all(...inputs(values))
    }
  },
  transaction:
    <A extends ReadonlyArray<unknown>>(run: (...given: A) => void) =>
    (...given: A): void => {
      database.exec("BEGIN")
      run(...given)
      database.exec("COMMIT")
    }
})

export const langgraph = async (options: Options) => {
  const { SqliteSaver } = await import("@langchain/langgraph-checkpoint-sqlite")
  const database = new DatabaseSync(filename)
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
  // Sound: the saver uses no other members
  const checkpointer = new SqliteSaver(overNode(database) as unknown as ConstructorParameters<typeof SqliteSaver>[0])
  const agent = createReactAgent({
    llm: new Model(options.tool),
    prompt: system,
    tools: [
      tool(async (given: z.output<typeof Parameters>) => weather(given), {
        name: Lookup.name,
        description,
        schema: Parameters
      })
    ],
    checkpointer
  })
  return runsOf(options, async (id, text) => {
    const { messages } = await agent.invoke(
      { messages: [{ role: "user", content: text }] },
      { configurable: { thread_id: id } }
    )
    return String(messages.at(-1)?.content)
  })
}

const mastraUsage = {
  inputTokens: { total: 10, noCache: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 5, text: 5, reasoning: undefined }
}

export const mastra = async (options: Options) => {
  const [{ LibSQLStore }, { Memory }] = await Promise.all([import("@mastra/libsql"), import("@mastra/memory")])
  const storage = new LibSQLStore({ id: "bench", url: `file:${filename}` })
  const agent = new MastraAgent({
    id: "bench",
    name: "bench",
    instructions: system,
    model: {
      specificationVersion: "v4" as const,
      provider: "mock",
      modelId: "mock",
      supportedUrls: {},
      doGenerate: async ({ prompt }: { readonly prompt: ReadonlyArray<{ readonly role: string }> }) =>
        options.tool && prompt.at(-1)?.role === "user"
          ? {
              content: [
                {
                  type: "tool-call" as const,
                  toolCallId: `call_${calls++}`,
                  toolName: Lookup.name,
                  input: JSON.stringify(city(calls))
                }
              ],
              finishReason: { unified: "tool-calls" as const, raw: "tool_calls" },
              usage: mastraUsage,
              warnings: []
            }
          : {
              content: [{ type: "text" as const, text: answer }],
              finishReason: { unified: "stop" as const, raw: "stop" },
              usage: mastraUsage,
              warnings: []
            },
      doStream: async () => {
        throw new Error("no row streams")
      }
    },
    tools: {
      [Lookup.name]: createTool({
        id: Lookup.name,
        description,
        inputSchema: Parameters,
        execute: async (given) => weather(given)
      })
    },
    memory: new Memory({ storage, options: { lastMessages: 4 * options.turns } })
  })
  return runsOf(
    options,
    async (id, text) => (await agent.generate(text, { memory: { thread: id, resource: "bench" } })).text
  )
}

/** A session of at least 10,000 events, which each run opens from its newest snapshot. */
export const open = async () => {
  const callsOfTurn = 22
  const services = Layer.merge(
    toolkit.toLayer({ lookup_weather: (given) => Effect.sync(() => weather(given)) }),
    Layer.effect(
      LanguageModel.LanguageModel,
      LanguageModel.make({
        generateText: () => Effect.die("no session asks for it"),
        streamText: ({ prompt }) =>
          Stream.suspend(() => {
            const isFirst = prompt.content.at(-1)?.role === "user"
            const asked = Array.from({ length: callsOfTurn }, (_, index) => ({
              type: "tool-call" as const,
              id: `call_${calls++}`,
              name: Lookup.name,
              params: city(index)
            }))
            return Stream.fromArray<Response.StreamPartEncoded>([
              ...(isFirst
                ? asked
                : [
                    { type: "text-start" as const, id: "0" },
                    { type: "text-delta" as const, id: "0", delta: answer },
                    { type: "text-end" as const, id: "0" }
                  ]),
              { type: "finish", reason: isFirst ? "tool-calls" : "stop", usage, response: undefined }
            ])
          })
      })
    )
  )
  const over = (idleTime?: Duration.Input) =>
    Session.layer([assistant], { idleTime }).pipe(
      Layer.provide(services),
      Layer.provide(SqliteClient.layerStore({ filename }))
    )
  const sequence = Session.Session.use((sessions) => sessions.state("a")).pipe(
    Effect.map((state) => (state._tag === "Some" ? state.value.sequence : 0))
  )
  const turn = Effect.andThen(Session.turn("a", "Look it up."), sequence)
  await Effect.runPromise(Effect.provide(Effect.repeat(turn, { until: (length) => length >= 10_000 }), over()))
  const runtime = ManagedRuntime.make(over(0))
  return () => runtime.runPromise(sequence)
}
