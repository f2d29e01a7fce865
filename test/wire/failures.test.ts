import { assert, describe } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Layer, Option, Stream } from "effect"
import type { LanguageModel } from "effect/ai"
import { Agent, AgentError, AgentEvent, ToolRuntime, VersionedStore } from "effect-emissary"
import { AiSdk } from "effect-emissary/ai-sdk"
import { Session } from "effect-emissary/session"
import { handlers, Probe, toolkit, toolResults } from "../agent/fixtures.ts"
import { endsAs, failsFor, failsMidway } from "../outcomes.ts"
import { test } from "../test.ts"
import { connect, providers, type Provider } from "./providers.ts"
import { answer, call, text } from "./replies.ts"
import { theKey, type Reply } from "./server.ts"

const agent = Agent.make("tester", { toolkit })

const world = Layer.mergeAll(handlers, ToolRuntime.layerInline).pipe(Layer.provideMerge(Probe.layer))

const done = [answer(call("c1", "echo", { text: "x" })), answer(text("done"))]

const failure = (status: number, headers?: Readonly<Record<string, string>>): Reply => ({
  _tag: "Failure",
  status,
  message: "Not now.",
  ...(headers === undefined ? {} : { headers })
})

const streamed = (input: string, options?: Agent.Options) => AgentEvent.result(agent.stream(input, options))

const ways = { whole: agent.run, streamed }

/** A test with each provider, streamed and not. */
const each = (
  title: string,
  script: ReadonlyArray<Reply>,
  body: (
    run: typeof streamed,
    about: { readonly provider: Provider; readonly way: string } & Effect.Success<ReturnType<typeof connect>>
  ) => Effect.Effect<void, unknown, LanguageModel.LanguageModel | Layer.Success<typeof world>>
): void => {
  for (const [name, provider] of Object.entries<Provider>(providers)) {
    for (const [way, run] of Object.entries(ways)) {
      test.live(`${title}: ${name}, ${way}`, function* () {
        const connected = yield* connect(provider, script)
        const program = body(run, { provider, way, ...connected })
        yield* Effect.provide(program, Layer.merge(world, connected.model))
      })
    }
  }
}

/** The model is not asked again. */
const once = { retry: { times: 0 } }

const cut: Reply = { _tag: "Break", content: [text("Let me")] }

describe("MODEL-4 failures of providers", () => {
  each(
    "a run tries again after 429, 500, 529, a connection that breaks and an error in a stream",
    [
      failure(429),
      failure(500),
      cut,
      { _tag: "StreamError", content: [text("Let me")], message: "Overloaded" },
      ...done,
      failure(529)
    ],
    Effect.fnUntraced(function* (run, { server }) {
      const result = yield* endsAs("Completed", run("Go", { retry: { times: 5, delay: 0 } }))
      assert.deepStrictEqual(toolResults(result.conversation), ["x"])
      assert.strictEqual(result.output, "done")
      const { reason } = yield* failsFor("ModelFailed", run("Go", once))
      assert.deepStrictEqual([reason.error, reason.retryable], ["InternalProviderError", true])
      assert.strictEqual(server.requests.length, 7)
    })
  )

  each(
    "a run that failed after its first step is resumed from the state of the error, and starts no tool twice",
    [answer(call("c1", "echo", { text: "x" })), cut, answer(text("done"))],
    Effect.fnUntraced(function* (run) {
      const error = yield* failsMidway("ModelFailed", run("Go", once))
      assert.isTrue(error.reason.retryable)
      const result = yield* endsAs("Completed", agent.resume(error.state))
      assert.strictEqual(result.output, "done")
      assert.deepStrictEqual(yield* Probe.ran, ["echo x"])
    })
  )

  const later = new Date(Date.now() + 600_000)

  each(
    "the time to retry is read from seconds, milliseconds and a date",
    [
      failure(429, { "retry-after": "7" }),
      failure(429, { "retry-after-ms": "1500", "retry-after": "9" }),
      failure(429, { "retry-after": later.toUTCString() }),
      failure(503, { "retry-after": "3" }),
      failure(429)
    ],
    Effect.fnUntraced(function* (run) {
      const wait = Effect.map(failsFor("ModelFailed", run("Go", once)), ({ reason }) => reason.retryAfterMillis)
      assert.strictEqual(yield* wait, 7000)
      assert.strictEqual(yield* wait, 1500)
      const date = (yield* wait) ?? 0
      assert.isTrue(date > 300_000 && date <= 600_000, String(date))
      yield* wait
      assert.isUndefined(yield* wait)
    })
  )

  each(
    "an empty answer, an invented tool and wrong arguments are corrected by the model",
    [
      answer(call("c1", "invented", {})),
      answer(call("c2", "echo", { text: [1] }), call("c3", "echo", { text: "x" })),
      answer(text("done"))
    ],
    Effect.fnUntraced(function* (run) {
      const result = yield* endsAs("Completed", run("Go"))
      assert.deepStrictEqual(toolResults(result.conversation), ["unknown_tool", "validation_error", "x"])
      assert.strictEqual(result.output, "done")
    })
  )

  each(
    "arguments that are not JSON are answered as invalid, and the history stays acceptable",
    [
      answer(
        { type: "tool-call", id: "c1", name: "echo", arguments: '{"text": "x' },
        { type: "tool-call", id: "c2", name: "boom", arguments: "" },
        call("c3", "echo", { text: "y" })
      ),
      answer(text("done"))
    ],
    Effect.fnUntraced(function* (run, { provider, server, way }) {
      const result = yield* endsAs("Completed", run("Go"))
      // other providers have an object, here an empty one
      const isText = !provider.lacks.includes(way === "whole" ? "broken-arguments" : "broken-arguments-streamed")
      assert.deepStrictEqual(toolResults(result.conversation), ["validation_error", "unhandled_error", "y"])
      const sent = server.requests[1]?.input.find((part) => part.type === "tool-call")
      assert.deepStrictEqual(sent?.arguments, isText ? { invalid_arguments: '{"text": "x' } : {})
    })
  )

  each(
    "SCREEN-2 interruption of a run closes the connection",
    [{ _tag: "Silence", content: [text("Let me")] }],
    Effect.fnUntraced(function* (_, { server, way }) {
      const reached = yield* Deferred.make<void>()
      const watch = (event: AgentEvent.AgentEvent<unknown>) =>
        event._tag === "TextDelta" ? Deferred.succeed(reached, undefined) : Effect.void
      const run = way === "whole" ? agent.run("Go") : Stream.runForEach(agent.stream("Go"), watch)
      const fiber = yield* Effect.forkChild(run)
      if (way === "streamed") yield* Deferred.await(reached)
      yield* Effect.repeat(Effect.sleep("2 millis"), { until: () => server.requests.length > 0 })
      yield* Fiber.interrupt(fiber)
      yield* Effect.timeout(Deferred.await(server.aborted), "5 seconds")
    })
  )

  for (const [name, provider] of Object.entries<Provider>(providers)) {
    test.live(
      `SCREEN-2 interrupt and the timeout of a message of a session close the connection: ${name}`,
      function* () {
        for (const isTimed of [false, true]) {
          const { model, server } = yield* connect(provider, [{ _tag: "Silence", content: [text("Let me")] }])
          const layer = Session.layer([Agent.make("clerk")]).pipe(Layer.provide([VersionedStore.layerMemory, model]))
          yield* Effect.gen(function* () {
            const receipt = yield* Session.send("a", "Go", isTimed ? { timeout: "150 millis" } : {})
            const isAsked = Effect.repeat(Effect.sleep("2 millis"), { until: () => server.requests.length > 0 })
            yield* Effect.timeout(isAsked, "5 seconds")
            if (!isTimed) assert.isTrue((yield* Session.interrupt("a")).isInterrupted)
            yield* Effect.timeout(Deferred.await(server.aborted), "5 seconds")
            assert.strictEqual((yield* Session.await("a", receipt)).outcome, "Interrupted")
          }).pipe(Effect.provide(layer))
        }
      }
    )
  }

  each(
    "a timeout of the run closes the connection",
    [{ _tag: "Silence", content: [text("Let me")] }],
    Effect.fnUntraced(function* (run, { server }) {
      const result = yield* run("Go", { timeouts: { total: Duration.millis(150) } }).pipe(Effect.exit)
      assert.include(JSON.stringify(result), "imeout")
      yield* Effect.timeout(Deferred.await(server.aborted), "5 seconds")
    })
  )
})

const refusals: Readonly<Record<string, readonly [provider: string, variable: string, sentence: string | undefined]>> =
  {
    "openai responses": ["openai", "OPENAI_API_KEY", "Incorrect API key provided"],
    "openai chat": ["openai", "OPENAI_API_KEY", "Incorrect API key provided"],
    anthropic: ["anthropic", "ANTHROPIC_API_KEY", "invalid x-api-key"],
    google: ["google", "GOOGLE_GENERATIVE_AI_API_KEY", "API key not valid"]
  }

describe("MODEL-4 a wrong key", () => {
  for (const [name, provider] of Object.entries<Provider>(providers)) {
    const [vendor, variable, sentence = ""] = refusals[name] ?? []
    if (vendor === undefined || variable === undefined) continue
    test.live(
      `RIGHT-22 the error names the provider and the variable, and the sentence stays in the cause: ${name}`,
      function* () {
        const wrong = `${theKey}wrong`
        const { model, server } = yield* connect(provider, [], wrong)
        for (const run of Object.values(ways)) {
          const error = yield* failsFor("ModelFailed", run("Go", once)).pipe(Effect.provide(Layer.merge(world, model)))
          assert.strictEqual(error.reason.error, "AuthenticationError")
          assert.isFalse(error.reason.retryable)
          for (const part of [vendor, variable]) assert.include(error.message, part)
          assert.notInclude(JSON.stringify(error), sentence)
          assert.include(JSON.stringify(Option.getOrThrow(AgentError.causeOf(error.reason))), sentence)
          for (let at = 0; at + 6 <= wrong.length; at++)
            assert.notInclude(JSON.stringify(error), wrong.slice(at, at + 6))
        }
        assert.strictEqual(server.refusals.length, 2)
        assert.lengthOf(server.requests, 0)
      }
    )
  }

  test.live("AiSdk.model names the variable that the program reads", function* () {
    const { server } = yield* connect(providers["openai chat"], [], "sk-wrong")
    const languageModel = providers["openai chat"].model(server.url, "sk-wrong")
    const error = yield* failsFor("ModelFailed", agent.run("Go")).pipe(
      Effect.provide(Layer.merge(world, AiSdk.model(languageModel, { apiKeyVariable: "MY_KEY" })))
    )
    assert.include(error.message, "MY_KEY")
  })
})
