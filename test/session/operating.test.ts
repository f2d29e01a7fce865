import type { LanguageModelV4 } from "@ai-sdk/provider"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Context, Data, Effect, Layer, Logger, Option, References, Schema, Tracer } from "effect"
import { AiError, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Run, VersionedStore } from "effect-emissary"
import { AiSdk } from "effect-emissary/ai-sdk"
import { ClusterSession, Session } from "effect-emissary/session"
import { Step } from "effect-emissary/plan"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { planOf } from "../plan/support.ts"
import * as t from "./sessions.ts"

/** The spans that end up in a trace, and the lines of the log. */
const observed = () => {
  const spans: Array<Tracer.Span> = []
  const lines: Array<{ readonly text: string; readonly cause: string; readonly id: unknown }> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  const logger = Logger.make(({ cause, fiber, message }) => {
    const id = fiber.getRef(References.CurrentLogAnnotations)["gen_ai.conversation.id"]
    lines.push({ text: String(message), cause: Cause.pretty(cause), id })
  })
  return { spans, lines, layer: Layer.merge(Layer.succeed(Tracer.Tracer, tracer), Logger.layer([logger])) }
}

const named = (spans: ReadonlyArray<Tracer.Span>, name: string): Tracer.Span =>
  spans.find((span) => span.name === name) ??
  assert.fail(`no span ${name} among ${spans.map((span) => span.name).join(", ")}`)

const refusing =
  (description: string): ScriptedModel.TurnFunction =>
  () =>
    Effect.fail(
      AiError.make({
        module: "Provider",
        method: "generateText",
        reason: new AiError.InternalProviderError({ description })
      })
    )

/** Models are not asked again. */
const once = { run: { retry: { times: 0 } } }

const Billing = Toolkit.make(Tool.make("pay", { parameters: Schema.Struct({ n: Schema.Finite }), needsApproval: true }))
const cashier = Agent.make("cashier", { toolkit: Billing })

const cashiers = (store: Layer.Layer<VersionedStore.VersionedStore, unknown>) =>
  Session.layer([cashier]).pipe(
    Layer.provide([
      Layer.orDie(store),
      Billing.toLayer({ pay: () => Effect.void.pipe(Effect.withSpan("handler")) }),
      ScriptedModel.layer([{ toolCalls: [{ name: "pay", params: { n: 1 } }] }, { text: "Paid." }])
    ])
  )

/** One turn of each kind: a message, and decisions. */
const twoTurns = Effect.gen(function* () {
  const sessions = yield* Session.Session
  yield* Session.turn("order/1", "Pay").pipe(Effect.withSpan("POST /messages"))
  const { requests } = Option.getOrThrow(yield* sessions.state("order/1"))
  const decisions = requests.filter(Run.isApprovable).map(Run.approve)
  const decided = yield* sessions.decide("order/1", decisions).pipe(Effect.withSpan("POST /decisions"))
  return yield* Session.await("order/1", decided)
})

describe("MEND-9 spans of sessions", () => {
  it.effect(
    "are in the trace of the request that sent the message or the decisions, with the id of the session",
    () => {
      const { layer, spans } = observed()
      return Effect.gen(function* () {
        const host = yield* Layer.build(cashiers(VersionedStore.layerMemory)).pipe(
          Effect.withSpan("start of the server")
        )
        const { text } = yield* Effect.provide(twoTurns, host)
        assert.strictEqual(text, "Paid.")

        const runs = spans.filter(({ name }) => name === "invoke_agent cashier")
        const requests = [named(spans, "POST /messages"), named(spans, "POST /decisions")]
        assert.deepStrictEqual(
          runs.map(({ traceId }) => traceId),
          requests.map(({ traceId }) => traceId)
        )
        for (const name of ["invoke_agent cashier", "chat", "execute_tool pay", "handler"]) {
          assert.strictEqual(named(spans, name).attributes.get("gen_ai.conversation.id"), "order/1", name)
        }
        assert.strictEqual(named(spans, "handler").traceId, requests[1]?.traceId)
      }).pipe(Effect.scoped, Effect.provide(layer))
    }
  )

  it.effect("are of each message its own trace, when a message waits for the turn before", () => {
    const { layer, spans } = observed()
    return Effect.gen(function* () {
      const sessions = yield* Session.Session
      const { cursor } = yield* sessions.send("a", "one").pipe(Effect.withSpan("first"))
      yield* sessions.send("a", "two").pipe(Effect.withSpan("second"))
      yield* t.turns(sessions, "a", 2, cursor)
      const runs = spans.filter(({ name }) => name === "invoke_agent support")
      assert.deepStrictEqual(
        runs.map(({ traceId }) => traceId),
        [named(spans, "first").traceId, named(spans, "second").traceId]
      )
    }).pipe(Effect.provide(t.over(t.echo)), Effect.provide(layer))
  })

  const ofTheStore = (spans: ReadonlyArray<Tracer.Span>) =>
    spans.map(({ name }) => name).filter((name) => /^(VersionedStore|sql)/.test(name))

  it.live("have none of the store, unless they are asked for", () =>
    Effect.gen(function* () {
      const store = SqliteClient.layerStore({ filename: ":memory:" })
      const quiet = observed()
      yield* twoTurns.pipe(Effect.provide(cashiers(store)), Effect.provide(quiet.layer))
      assert.deepStrictEqual(ofTheStore(quiet.spans), [])

      const loud = observed()
      const traced = Layer.provide(store, Layer.succeed(VersionedStore.Traced, true))
      yield* twoTurns.pipe(Effect.provide(cashiers(traced)), Effect.provide(loud.layer))
      assert.includeMembers(ofTheStore(loud.spans), ["VersionedStore.get", "VersionedStore.commit", "sqlite"])
    })
  )

  it.effect("are none where nothing happens", () => {
    const { layer, spans } = observed()
    return Effect.gen(function* () {
      const sessions = yield* Layer.build(t.over(t.echo))
      yield* TestClock.adjust("1 hour")
      assert.isTrue(Option.isSome(Context.getOption(sessions, Session.Session)))
      assert.deepStrictEqual(
        spans.map(({ name }) => name),
        []
      )
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.live("of a cluster of one process have none of its database", () => {
    const { layer, spans } = observed()
    const fleet = ClusterSession.layer([t.support]).pipe(
      Layer.provide(SqliteRunner.layer({ filename: ":memory:" })),
      Layer.provide(ScriptedModel.layer(t.echo))
    )
    return Effect.gen(function* () {
      yield* Session.turn("a", "one").pipe(Effect.withSpan("request"))
      assert.deepStrictEqual(ofTheStore(spans), [])
      assert.strictEqual(named(spans, "invoke_agent support").traceId, named(spans, "request").traceId)
    }).pipe(Effect.provide(fleet), Effect.provide(layer))
  })
})

class DiskFull extends Data.TaggedError("DiskFull")<{ readonly message: string }> {}

describe("MEND-9 failures of turns", () => {
  it.effect("are logged once with their cause and the id of the session, with advice that fits a session", () => {
    const { layer, lines } = observed()
    return Effect.gen(function* () {
      const error = yield* Effect.flip(Session.turn("chat/1", "My question"))
      assert.strictEqual(lines.length, 1)
      const [{ cause, id, text } = assert.fail("no line")] = lines
      assert.include(text, `session "chat/1": the turn failed with ModelFailed`)
      assert.include(cause, "the daily budget of acme is spent, key [redacted]")
      assert.strictEqual(id, "chat/1")
      assert.notInclude(`${text} ${cause}`, "My question")

      assert.strictEqual(error.reason._tag, "TurnFailed")
      assert.include(error.message, "call resume")
      assert.notInclude(error.message, "state of this error")
      assert.notInclude(error.message, "causeOf")
      assert.notInclude(error.message, "daily budget")
    }).pipe(
      Effect.provide(t.over(refusing("the daily budget of acme is spent, key sk-live-4242424242424242"), once)),
      Effect.provide(layer)
    )
  })

  it.effect(
    "of a step of a plan, and of an agent in one, are logged with the error at the bottom, without secrets",
    () =>
      Effect.gen(function* () {
        const agent = Agent.make("inner")
        const ofFunction = Step.target("save", () =>
          Effect.fail(new DiskFull({ message: "disk full, key sk-live-4242424242424242" }))
        )
        for (const target of [ofFunction, agent]) {
          const { layer, lines } = observed()
          const bound = yield* planOf([Step.make("save", { target })], { name: "shop" })
          yield* Effect.gen(function* () {
            const error = yield* Effect.flip(Session.turn("a", "go"))
            assert.notInclude(error.message, "disk full")
            const causes = lines.map(({ cause }) => cause).join()
            assert.include(causes, "disk full, key [redacted]")
          }).pipe(
            Effect.provide(Session.layer([bound], once).pipe(Layer.provide(VersionedStore.layerMemory))),
            Effect.provide(ScriptedModel.layer(refusing("disk full, key sk-live-4242424242424242"))),
            Effect.provide(layer)
          )
        }
      })
  )

  it.effect("RIGHT-18 of mistakes of the model name the last one, in the error and in the log", () => {
    const { layer, lines } = observed()
    const broken: LanguageModelV4 = {
      specificationVersion: "v4",
      provider: "acme",
      modelId: "m",
      supportedUrls: {},
      // Sound: a client that breaks its contract
      doGenerate: () => Promise.resolve(null as never),
      doStream: () => Promise.resolve({ stream: null } as never)
    }
    return Effect.gen(function* () {
      const error = yield* Effect.flip(Session.turn("a", "My question"))
      const expected = /ModelMistakes: .* got mistake number 3: InvalidOutputError .*expected .*got .*\. Read the log/
      assert.match(error.message, expected)
      assert.strictEqual(lines.length, 1)
      const [{ cause, text } = assert.fail("no line")] = lines
      assert.match(text, expected)
      assert.include(cause, "InvalidOutputError")
      assert.notInclude(`${text} ${cause} ${error.message}`, "state.mistakes")
    }).pipe(
      Effect.provide(Session.layer([t.support]).pipe(Layer.provide([VersionedStore.layerMemory, AiSdk.model(broken)]))),
      Effect.provide(layer)
    )
  })

  it.effect("of an agent that is called as a tool are logged with their cause, and the turn continues", () => {
    const { layer, lines } = observed()
    const inner = Agent.make("inner", { instructions: "inner", retry: { times: 0 } })
    const outer = Agent.make("outer", { toolkit: [Agent.asTool(inner, { name: "delegate", description: "Asks" })] })
    const refuse = refusing("disk full, key sk-live-4242424242424242")
    const model: ScriptedModel.TurnFunction = (request) => {
      const [first] = request.messages
      if (first?.text === "inner") return refuse(request)
      const isAnswered = request.messages.some(({ role }) => role === "tool")
      return isAnswered ? { text: "done" } : { toolCalls: [{ name: "delegate", params: { input: "go" } }] }
    }
    return Effect.gen(function* () {
      const { text } = yield* Session.turn("a", "go")
      assert.strictEqual(text, "done")
      assert.strictEqual(lines.length, 1)
      assert.include(lines[0]?.text, `Agent "inner", called as a tool, failed with ModelFailed`)
      assert.include(lines[0]?.cause, "disk full, key [redacted]")
    }).pipe(
      Effect.provide(
        Session.layer([outer]).pipe(Layer.provide([VersionedStore.layerMemory, ScriptedModel.layer(model)]))
      ),
      Effect.provide(layer)
    )
  })

  it.effect("have a class that a route maps, and a text for the user", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const failure = (effect: Effect.Effect<unknown, Session.SessionError, Session.Session>) =>
        Effect.map(Effect.flip(effect), ({ category, publicMessage, reason }) => {
          assert.match(publicMessage, /^[A-Z][^"]*\.$/)
          return [reason._tag, category]
        })
      assert.deepStrictEqual(yield* failure(sessions.history("none")), ["NotFound", "not-found"])
      assert.deepStrictEqual(yield* failure(sessions.send("a", "Hi", { agent: "other" })), ["AgentUnknown", "invalid"])
      assert.deepStrictEqual(yield* failure(Session.turn("a", "Hi")), ["TurnFailed", "unavailable"])
      const { failure: stored } = yield* t.stateOf(sessions, "a")
      assert.deepStrictEqual([stored?.reason, stored?.category], ["ModelFailed", "unavailable"])
    }).pipe(Effect.provide(t.over(refusing("overloaded"), once)), Effect.provide(Logger.layer([])))
  )
})
