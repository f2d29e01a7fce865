/** KEEP-8: sessions with agents that are data. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Option, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ModelRegistry, ToolResolver, VersionedStore } from "effect-emissary"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import type { Json } from "effect-emissary/payload"
import { Digest } from "effect-emissary/payload"
import { Session } from "effect-emissary/session"
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

const hosted = [Session.fromDefinitions(Agent.decode)] as const

const inMemory = Session.layer(hosted).pipe(
  Layer.provideMerge(VersionedStore.layerMemory),
  Layer.provide([registry, looking])
)

const encode = (name: string, instructions: string, tools: ReadonlyArray<Tool.Any> = []) =>
  Agent.encode(Agent.make(name, { model: "demo/small", instructions, toolkit: tools }))

const text = (id: string, options?: Session.SendOptions) =>
  Effect.map(Session.ask(id, "go", options), ({ text }) => text)

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
    assert.strictEqual(yield* t.reasonOf(Session.ask("a", "go", { definition: other })), "AgentDiffers")
    assert.strictEqual(yield* t.reasonOf(Session.ask("b", "go", { definition: other, agent: "poet" })), "AgentDiffers")
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
    const error = yield* Effect.flip(Session.ask("a", "go", { definition }))
    assert.match(error.message, /the layer takes no definitions/)
  })

  test("is made again after a restart; a tool that is gone fails the turn, and the message waits", function* () {
    const filename = join(makeDirectory(), "store.sqlite")
    const definition = yield* encode("poet", "I write.", [Look])
    const process = (tools: typeof looking) =>
      Session.layer(hosted).pipe(Layer.provide([SqliteClient.layerStore({ filename }), registry, tools]))
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

  test.live("runs on a fleet", Layer.empty, function* () {
    const runner = SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })
    const fleet = Session.layerCluster(hosted).pipe(Layer.provide([runner, registry, looking]))
    yield* Effect.gen(function* () {
      const definition = yield* encode("poet", "I write.", [Look])
      assert.strictEqual(yield* text("a", { definition }), "I write. blue")
      assert.strictEqual(yield* text("b", { definition: yield* Digest.sha256(definition) }), "I write. blue")
      assert.strictEqual(yield* t.reasonOf(Session.ask("c", "go", { definition: {} })), "DefinitionInvalid")
    }).pipe(Effect.provide(fleet))
  })
})
