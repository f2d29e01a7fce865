/** KEEP-8: sessions with agents that are data. */
import { assert, describe } from "@effect/vitest"
import { type Duration, Effect, Layer, Option, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as SqlClient from "effect/sql/SqlClient"
import { Agent, AgentDefinition, ModelRegistry, ToolResolver, VersionedStore } from "effect-emissary"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import type { Json, PayloadError } from "effect-emissary/payload"
import { Digest, Signed } from "effect-emissary/payload"
import { ClusterSession, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { join } from "node:path"
import { makeDirectory } from "../store/directory.ts"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const Look = Tool.make("look", { parameters: Schema.Struct({}), success: Schema.String })
const toolkit = Toolkit.make(Look)
const looking = ToolResolver.layerToolkit(toolkit).pipe(
  Layer.provide(toolkit.toLayer({ look: () => Effect.succeed("blue") }))
)

/** Answers with the instructions, and what a tool has found. */
const registry = ModelRegistry.layer({
  demo: ModelRegistry.provider({
    options: ModelRegistry.Sampling,
    model: () =>
      ScriptedModel.layer(({ messages, tools }) => {
        const found = messages.findLast(({ role }) => role === "tool")?.text ?? ""
        if (tools.length > 0 && messages.at(-1)?.role === "user") return { toolCalls: [{ name: "look", params: {} }] }
        return { text: `${messages[0]?.text} ${found}`.trim() }
      })
  })
})

const hosting = { definitions: Agent.decode }

const good = { schema_version: 2, name: "poet", model: "demo/small" }

const agentTool = (agent: Json.JsonObject): Json.JsonObject => ({
  name: "ask",
  description: "Asks.",
  parameters: { type: "object", properties: {} },
  agent
})

/** Definitions that no host runs, and the text of the error. */
const hostile: ReadonlyArray<readonly [string, unknown, RegExp]> = [
  ["a secret", { ...good, model_options: { api_key: "sk-1" } }, /at \/model_options\/api_key: expected no secret/],
  ["a header", { ...good, model_options: { headers: { authorization: "Bearer 1" } } }, /headers\/authorization/],
  [
    "a secret inside",
    { ...good, tools: [agentTool({ name: "inner", model_options: { api_key: "sk-1" } })] },
    /tools\/0\/agent\/model_options\/api_key/
  ],
  [
    "a signed secret",
    { payload: { ...good, model_options: { api_key: "sk-1" } }, signature: "" },
    /payload\/model_options/
  ],
  ["an unknown provider", { ...good, model: "other/small" }, /unknown provider "other"/],
  [
    "an unknown provider inside",
    { ...good, tools: [agentTool({ name: "inner", model: "other/small" })] },
    /unknown provider "other"/
  ],
  ["an option that the provider refuses", { ...good, model_options: { base_url: "http://x" } }, /does not accept/],
  ["no model", { schema_version: 2, name: "poet" }, /names no model/],
  ["the name of a hosted agent", { ...good, name: "desk" }, /expected a name that no agent of the layer has/],
  ["a forbidden key", JSON.parse('{"__proto__":{"a":1}}'), /__proto__/],
  [
    "200 levels",
    { ...good, model_options: Array.from({ length: 200 }).reduce<unknown>((a) => ({ a }), 1) },
    /levels|depth/
  ]
]

const desk = Agent.make("desk", { model: "demo/small", instructions: "I help." })

const inMemory = Session.layer([], hosting).pipe(
  Layer.provideMerge(VersionedStore.layerMemory),
  Layer.provide([registry, looking])
)

const encode = (name: string, instructions: string, tools: ReadonlyArray<Tool.Any> = []) =>
  Agent.encode(Agent.make(name, { model: "demo/small", instructions, toolkit: tools }))

const text = (id: string, options?: Session.SendOptions) =>
  Effect.map(Session.turn(id, "go", options), ({ text }) => text)

describe("KEEP-8 an agent that is data", () => {
  test("is made by the host for each turn, and stored once", inMemory, function* () {
    const sessions = yield* Session.Session
    const store = yield* VersionedStore.VersionedStore
    const definition = yield* encode("poet", "I write.", [Look])
    const digest = yield* Digest.sha256(definition)
    assert.strictEqual(yield* text("a", { definition }), "I write. blue")
    assert.strictEqual(yield* text("a"), "I write. blue")
    assert.strictEqual(yield* text("b", { definition: digest }), "I write. blue")
    const { agent, definition: named } = yield* t.stateOf(sessions, "a")
    assert.deepStrictEqual([agent, named], ["poet", digest])
    const { keys } = yield* store.list({ prefix: "session/definitions/" })
    assert.deepStrictEqual(keys, [`session/definitions/${digest}`])
    const job = yield* Session.run(Agent.make("poet"), { id: "job", input: "go", definition })
    assert(job.outcome === "Completed" && job.output === "I write. blue")
  })

  test("continues when it is edited, and another agent is refused", inMemory, function* () {
    yield* text("a", { definition: yield* encode("poet", "I write.") })
    const edited = yield* encode("poet", "I write.", [Look])
    assert.strictEqual(yield* text("a", { definition: edited }), "I write. blue")
    const other = yield* encode("critic", "I judge.")
    assert.strictEqual(yield* t.reasonOf(Session.turn("a", "go", { definition: other })), "AgentDiffers")
    assert.strictEqual(yield* t.reasonOf(Session.turn("b", "go", { definition: other, agent: "poet" })), "AgentDiffers")
  })

  test("is part of its message", inMemory, function* () {
    const sessions = yield* Session.Session
    const definition = yield* encode("poet", "I write.")
    const other = yield* encode("poet", "I sing.")
    const send = (definition: Json.JsonObject) => sessions.send("a", "go", { messageId: "m", definition })
    assert.deepStrictEqual(yield* send(definition), yield* send(definition))
    assert.strictEqual(yield* t.reasonOf(send(other)), "InputDiffers")
  })

  test("that cannot be made is refused, and nothing is stored", inMemory, function* () {
    const sessions = yield* Session.Session
    const store = yield* VersionedStore.VersionedStore
    const unknown = Tool.make("shout", { parameters: Schema.Struct({}) })
    const wrong: ReadonlyArray<readonly [Json.JsonObject | string, RegExp]> = [
      [{ hello: 1 }, /definition of the agent is refused/],
      [yield* encode("poet", "I write.", [unknown]), /shout/],
      [`sha256:${"0".repeat(64)}`, /expected the digest of a definition that is stored.*Send the definition/],
      ["", /expected the digest/],
      ["../head/a", /expected the digest/]
    ]
    for (const [definition, message] of wrong) {
      const error = yield* Effect.flip(sessions.send("a", "go", { definition }))
      assert.deepStrictEqual([error.reason._tag, error.category], ["DefinitionInvalid", "invalid"])
      assert.match(error.message, message)
    }
    assert.isTrue(Option.isNone(yield* sessions.state("a")))
    assert.lengthOf((yield* store.list({})).keys, 0)
  })

  test("is refused by a layer that hosts none", t.over(t.echo), function* () {
    const definition = yield* encode("poet", "I write.")
    const error = yield* Effect.flip(Session.turn("a", "go", { definition }))
    assert.match(error.message, /the layer takes no definitions/)
  })

  test("is made again after a restart; a tool that is gone fails the turn, and the message waits", function* () {
    const filename = join(makeDirectory(), "store.sqlite")
    const definition = yield* encode("poet", "I write.", [Look])
    const process = (tools: typeof looking) =>
      Session.layer([], hosting).pipe(Layer.provide([SqliteClient.layerStore({ filename }), registry, tools]))
    assert.strictEqual(yield* Effect.provide(text("a", { definition }), process(looking)), "I write. blue")
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const error = yield* Effect.flip(text("a"))
      assert(error.reason._tag === "TurnFailed")
      assert.strictEqual(error.reason.failure.reason, "DefinitionInvalid")
      assert.lengthOf((yield* t.stateOf(sessions, "a")).queue, 1)
    }).pipe(Effect.provide(process(ToolResolver.layerToolkit(Toolkit.empty))))
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      yield* sessions.resume("a")
      const done = yield* Session.result(Agent.make("poet"), "a")
      assert(done.outcome === "Completed" && done.output === "I write. blue")
    }).pipe(Effect.provide(process(looking)))
  })

  test("RIGHT-11 edits, forks and resumes as any other agent", inMemory, function* () {
    const sessions = yield* Session.Session
    yield* text("a", { definition: yield* encode("poet", "I write."), messageId: "m1" })
    const { cursor } = yield* sessions.edit("a", { messageId: "m1", input: "again", newMessageId: "m2" })
    assert.strictEqual((yield* Session.await("a", { cursor })).text, "I write.")
    yield* sessions.fork("a", { to: "b" })
    const forked = yield* sessions.edit("b", { messageId: "m2", input: "again" })
    assert.strictEqual((yield* Session.await("b", { cursor: forked.cursor })).text, "I write.")
    yield* sessions.resume("b")
    assert.strictEqual(yield* text("b"), "I write.")
  })

  test("RIGHT-22 that was changed in the store is damaged, and no session runs it", inMemory, function* () {
    const store = yield* VersionedStore.VersionedStore
    const definition = yield* encode("poet", "I write.")
    const digest = yield* Digest.sha256(definition)
    yield* text("a", { definition })
    const key = `session/definitions/${digest}`
    const { value, version } = Option.getOrThrow(yield* store.get(key))
    const edited = JSON.parse(JSON.stringify(value).replace("I write.", "I spy."))
    yield* store.compareAndSet(key, Option.some(version), edited)
    assert.strictEqual(yield* t.reasonOf(Session.turn("b", "go", { definition: digest })), "Damaged")
    const error = yield* Effect.flip(Session.turn("a", "go"))
    assert(error.reason._tag === "TurnFailed")
    assert.strictEqual(error.reason.failure.reason, "Damaged")
  })

  test.live("runs on a fleet", Layer.empty, function* () {
    const runner = SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })
    const fleet = ClusterSession.layer([], hosting).pipe(Layer.provide([runner, registry, looking]))
    yield* Effect.gen(function* () {
      const definition = yield* encode("poet", "I write.", [Look])
      assert.strictEqual(yield* text("a", { definition }), "I write. blue")
      assert.strictEqual(yield* text("b", { definition: yield* Digest.sha256(definition) }), "I write. blue")
      assert.strictEqual(yield* t.reasonOf(Session.turn("c", "go", { definition: {} })), "DefinitionInvalid")
    }).pipe(Effect.provide(fleet))
  })

  const services = Layer.mergeAll(registry, looking)
  const runner = SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })
  const places = [
    {
      name: "in process",
      over: (more: Layer.Layer<never, PayloadError.PayloadError>) =>
        Session.layer([desk], hosting).pipe(
          Layer.provideMerge(VersionedStore.layerMemory),
          Layer.provide([services, more])
        )
    },
    {
      name: "on a fleet",
      over: (more: Layer.Layer<never, PayloadError.PayloadError>) =>
        ClusterSession.layer([desk], hosting).pipe(Layer.provideMerge(runner), Layer.provide([services, more]))
    }
  ]
  for (const { name, over } of places) {
    const layer: Layer.Layer<Session.Session | VersionedStore.VersionedStore, unknown> = over(Layer.empty)
    test.live(
      `RIGHT-11 RIGHT-22 that no turn could run is refused ${name}, before anything is stored`,
      layer,
      function* () {
        const sessions = yield* Session.Session
        const store = yield* VersionedStore.VersionedStore
        for (const [what, definition, message] of hostile) {
          // Sound: a route passes on what it read
          const sent = sessions.send("a", "go", { definition: definition as Json.JsonObject })
          const error = yield* Effect.flip(sent)
          assert.deepStrictEqual([error.reason._tag, error.category], ["DefinitionInvalid", "invalid"], what)
          assert.match(error.message, message, what)
          assert.notInclude(error.message, "sk-1")
        }
        assert.lengthOf((yield* store.list({})).keys, 0)
        const sql = yield* Effect.serviceOption(SqlClient.SqlClient)
        if (Option.isSome(sql)) {
          const rows = yield* sql.value`SELECT payload FROM cluster_messages`
          assert.notInclude(JSON.stringify(rows), "sk-1")
        }
        assert.strictEqual(yield* text("a", { agent: "desk" }), "I help.")
        assert.strictEqual(yield* text("b", { definition: yield* encode("poet", "I write.") }), "I write.")
      }
    )

    test.live(`RIGHT-22 whose signature has expired is refused ${name}`, Layer.empty, function* () {
      const { privateKey, publicKey } = yield* Signed.generateKeys
      const keys = Signed.layerTrustedKeys([{ keyId: "acme", publicKey, kinds: [AgentDefinition.codec] }])
      const trusting = Layer.provide(Signed.required({ kinds: [AgentDefinition.codec] }), keys)
      const sign = (expiresIn: Duration.Input) =>
        Signed.sign(good, { as: AgentDefinition.codec, key: { keyId: "acme", privateKey }, expiresIn })
      const expired = yield* sign("1 millis")
      yield* Effect.sleep("20 millis")
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const store = yield* VersionedStore.VersionedStore
        const { message, reason } = yield* Effect.flip(sessions.send("a", "go", { definition: { ...expired } }))
        assert.strictEqual(reason._tag, "DefinitionInvalid")
        assert.match(message, /expired/)
        assert.lengthOf((yield* store.list({})).keys, 0)
      }).pipe(Effect.provide(Layer.fresh(over(trusting))))
    })
  }

  test("RIGHT-15 is refused by a session of an agent that the layer hosted", function* () {
    const store = yield* t.store
    const over = (agents: ReadonlyArray<Session.Hosted<Agent.BindServices>>) =>
      t.sessionsOf(Session.layer(agents, hosting).pipe(Layer.provide([store, services])))
    const before = yield* over([desk])
    yield* before.send("a", "go", { agent: "desk" })
    yield* t.turns(before, "a", 1)
    const after = yield* over([])
    const error = yield* Effect.flip(after.send("a", "go", { definition: { ...good, name: "desk" } }))
    assert.match(error.message, /an agent of the layer has the session/)
  })
})
