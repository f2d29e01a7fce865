/** PEOPLE-4: messages to an agent that declares its context, in memory, on SQLite, on a fleet and over HTTP. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestRunner } from "effect/cluster"
import { Agent, ModelRegistry, RunContext, ToolResolver, VersionedStore } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { as, serve } from "../http/serve.ts"
import { failsFor } from "../outcomes.ts"
import { test } from "../test.ts"

const Tenant = Schema.Struct({ tenant: Schema.String })

const toolkit = Toolkit.make(Tool.make("whose", { success: Schema.String }))

const support = Agent.make("support", {
  context: Tenant,
  instructions: Effect.map(RunContext.read(Tenant), ({ tenant }) => `You help ${tenant}.`),
  toolkit
})

const handlers = toolkit.toLayer({
  whose: () => Effect.map(Effect.orDie(RunContext.read(Tenant)), ({ tenant }) => tenant)
})

/** Calls the tool, and answers with its result. */
const model = ScriptedModel.layer(({ messages }) => {
  const last = messages.at(-1)
  return last?.role === "tool" ? { text: `of ${last.text}` } : { toolCalls: [{ name: "whose" }] }
})

const below = Layer.mergeAll(
  handlers,
  Layer.provideMerge(ModelRegistry.layerContext, model),
  Layer.provide(ToolResolver.layerToolkit(toolkit), handlers)
)

const sqlite = Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))

const options = { definitions: Agent.decode }

const layers = [
  ["in memory", Session.layer([support], options).pipe(Layer.provide([below, VersionedStore.layerMemory]))],
  [
    "on SQLite",
    Session.layer([support], options).pipe(
      Layer.provide([below, Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))])
    )
  ],
  [
    "on a fleet",
    ClusterSession.layer([support], options).pipe(
      Layer.provide([below, Layer.mergeAll(TestRunner.layer, VersionedStore.layerMemory, sqlite)])
    )
  ]
] as const

const acme = { context: { tenant: "acme" } }

const chats = Session.typed(support)

const pathsOf = ({
  reason
}: {
  readonly reason: Extract<Session.SessionError["reason"], { readonly _tag: "ContextInvalid" }>
}) => reason.issues.map(({ path }) => path)

describe.each(layers)("PEOPLE-4 a declared context of sessions, %s", (_, layer) => {
  it.live("PEOPLE-4 a message has it, and a message without it is refused before it is stored", () =>
    Effect.gen(function* () {
      const error = yield* failsFor("ContextInvalid", Session.send("a", "x"))
      assert.deepStrictEqual([error.category, ...pathsOf(error)], ["invalid", "/tenant"])
      assert.include(error.message, "Nothing was stored")
      assert(Option.isNone(yield* Session.state("a")))

      assert.strictEqual(yield* chats.ask("a", "x", acme), "of acme")
      assert.strictEqual(yield* chats.ask("a", "y", { context: { tenant: "globex" } }), "of globex")
      const { messageId } = yield* chats.send("a", "z", { ...acme, messageId: "z" })
      const wrong = { context: { tenant: 1 } }
      assert.deepStrictEqual(pathsOf(yield* failsFor("ContextInvalid", Session.send("a", "x", wrong))), ["/tenant"])
      yield* failsFor("ContextInvalid", Session.edit("a", { messageId, input: "w", ...wrong }))
      yield* failsFor("ContextInvalid", Session.send("a", "x", { ifExists: "restart" }))
      assert.strictEqual((yield* chats.turn("a", "z", { ...acme, messageId: "z" })).outcome, "Completed")
      const done = yield* Session.run(support, { id: "job", input: "x", ...acme })
      assert(done.outcome === "Completed" && done.output === "of acme")
    }).pipe(Effect.provide(layer))
  )

  it.live("PEOPLE-4 an agent that came as data checks it, too", () =>
    Effect.gen(function* () {
      const definition = { ...(yield* Agent.encode(support, acme)), name: "edited" }
      yield* failsFor("ContextInvalid", Session.send("a", "x", { definition }))
      assert.strictEqual(yield* Session.ask("a", "x", { definition, ...acme }), "of acme")
      // Its agent is made for the turn, which drops the message
      const error = yield* failsFor("TurnFailed", Session.turn("a", "y"))
      assert.deepStrictEqual([error.reason.failure.reason, error.category], ["ContextInvalid", "invalid"])
      assert.include(error.message, "/tenant")
      assert.strictEqual(yield* Session.ask("a", "z", acme), "of acme")
    }).pipe(Effect.provide(layer))
  )
})

describe("PEOPLE-4 a declared context over HTTP", () => {
  const [[, sessions]] = layers
  const ada = as("ada")
  const root = as("root")
  const contexts: Record<string, { readonly context: Schema.JsonObject }> = {
    ada: acme,
    some: { context: { tenant: 1 } }
  }
  const served = serve({}, { sessions, caller: (name) => contexts[name] ?? {} })

  test("PEOPLE-4 it comes from Authorize: without it the server is at fault, not the caller", served, function* () {
    assert.strictEqual((yield* ada.post("send?id=ada/1", { input: "x" })).status, 200)
    const message = "The server has no context for this caller that the agent reads."
    const hidden = { _tag: "Refusal", category: "internal", message }
    const ui = { id: "bob/1", messages: [{ id: "m", role: "user", parts: [{ type: "text", text: "x" }] }] }
    const refused = [
      yield* as("bob").post("send?id=bob/1", { input: "x" }),
      yield* as("bob").post("chat/ui", ui),
      yield* as("some").post("send?id=ada/11", { input: "x" })
    ]
    for (const { body, status } of refused) assert.deepStrictEqual([status, body], [500, hidden])
    assert.strictEqual((yield* root.get("state?id=bob/1")).body, null)
  })

  test("PEOPLE-4 a caller with full access who sends a context is at fault for it", served, function* () {
    assert.strictEqual((yield* root.post("send?id=a", { input: "x", ...acme })).status, 200)
    for (const body of [{ input: "x" }, { input: "x", context: { tenant: 1 } }]) {
      const refused = yield* root.post("send?id=b", body)
      assert.deepStrictEqual([refused.status, refused.body.error.reason._tag], [400, "ContextInvalid"])
      assert.strictEqual(refused.body.error.reason.issues[0].path, "/tenant")
    }
  })
})
