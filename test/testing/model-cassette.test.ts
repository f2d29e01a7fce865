import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe } from "@effect/vitest"
import { Cause, Effect, Exit, FileSystem, Layer, Schema, Stream } from "effect"
import { Agent, AgentEvent, Conversation } from "effect-emissary"
import { Json, Limits } from "effect-emissary/payload"
import { ModelCassette, ScriptedModel } from "effect-emissary/testing"
import { AiError, LanguageModel, Tool, Toolkit } from "effect/ai"
import { failsFor } from "../outcomes.ts"
import { test } from "../test.ts"

const Weather = Tool.make("weather", {
  description: "The weather of a city",
  parameters: Schema.Struct({ city: Schema.String, at: Schema.optionalKey(Schema.DateFromString) }),
  success: Schema.String
})
const toolkit = Toolkit.make(Weather)
const Handlers = toolkit.toLayer({ weather: ({ city }) => Effect.succeed(`sunny in ${city}`) })
const Answer = Schema.Struct({ city: Schema.String, days: Schema.Int })

const forecaster = Agent.make("forecaster", { instructions: "Forecast.", toolkit, output: Answer })
const judge = Agent.make("judge", {
  instructions: "Judge.",
  output: Answer,
  outputStrategy: "native"
})

const usage = { inputTokens: 10, outputTokens: 5, cacheReadTokens: 2, reasoningTokens: 1 }

/** Everything that an answer can hold. */
const script: ScriptedModel.Script = [
  {
    reasoning: { text: "Let me look.", metadata: { demo: { signature: "c2ln" } } },
    text: "Looking",
    files: [{ mediaType: "image/png", data: "iVBORw0KGgo=" }],
    toolCalls: [
      { id: "a", name: "weather", params: { city: "Rome", at: "2026-01-01T00:00:00.000Z" } },
      { id: "b", name: "weather", arguments: "{ not JSON" },
      { id: "c", name: "invented", params: { x: 1 } }
    ],
    usage
  },
  { toolCalls: [{ id: "d", name: "weather", params: { city: 1 } }] },
  { text: `{"city":"Rome","days":3}`, usage }
]

const inFolder = Effect.gen(function* () {
  const files = yield* FileSystem.FileSystem
  const folder = yield* files.makeTempDirectoryScoped()
  return { files, path: `${folder}/cassette.json` }
})

const record = (path: string, turns: ScriptedModel.Script) =>
  ModelCassette.layerRecord(path).pipe(Layer.provide(ScriptedModel.layer(turns)))

const outcome = ({ conversation, ...result }: Agent.Result<unknown>) => ({
  outcome: result.outcome,
  steps: result.steps,
  usage: result.usage,
  transcript: Conversation.transcript(conversation)
})

describe("MODEL-5 cassette of a model", () => {
  test(
    "a run, streamed or not, is the same when it is recorded and when it is replayed",
    NodeFileSystem.layer,
    function* () {
      for (const run of [forecaster.run("Rome?"), AgentEvent.result(forecaster.stream("Rome?"))]) {
        const { path } = yield* inFolder
        const direct = yield* Effect.provide(run, [Handlers, ScriptedModel.layer(script)])
        assert.strictEqual(direct.outcome, "Completed")
        const recorded = yield* Effect.provide(run, [Handlers, record(path, script)])
        const replayed = yield* Effect.provide(run, [Handlers, ModelCassette.layerReplay(path)])
        assert.deepStrictEqual(outcome(recorded), outcome(direct))
        assert.deepStrictEqual(outcome(replayed), outcome(direct))
        assert.deepStrictEqual(Conversation.toPrompt(replayed.conversation), Conversation.toPrompt(direct.conversation))
      }
    }
  )

  test("MEND-4 a text that was cut inside a character is recorded and replayed", NodeFileSystem.layer, function* () {
    const { path } = yield* inFolder
    const cut = "\ud83d"
    const turns: ScriptedModel.Script = [
      { text: cut, toolCalls: [{ id: `c${cut}`, name: "weather", params: { city: cut } }] },
      { text: `{"city":"Rome","days":3}` }
    ]
    const run = forecaster.run(`Rome? ${cut}`)
    const recorded = yield* Effect.provide(run, [Handlers, record(path, turns)])
    const replayed = yield* Effect.provide(run, [Handlers, ModelCassette.layerReplay(path)])
    assert.deepStrictEqual(outcome(replayed), outcome(recorded))
  })

  test("streams keep their chunks", NodeFileSystem.layer, function* () {
    const { path } = yield* inFolder
    const chunks = Stream.runCollect(LanguageModel.streamText({ prompt: "Hi" }))
    const turns = [{ text: "A long answer in chunks", reasoning: "Hm", usage }]
    const recorded = yield* Effect.provide(chunks, record(path, turns))
    assert.isAbove(recorded.length, 6)
    assert.deepStrictEqual(yield* Effect.provide(chunks, ModelCassette.layerReplay(path)), recorded)
  })

  test("structured output, good and bad", NodeFileSystem.layer, function* () {
    for (const object of [{ city: "Rome", days: 3 }, { city: "Rome" }]) {
      const { path } = yield* inFolder
      const turns = [{ object }, { object: { city: "Rome", days: 4 } }]
      const direct = yield* Effect.provide(judge.run("Rome?"), ScriptedModel.layer(turns))
      const recorded = yield* Effect.provide(judge.run("Rome?"), record(path, turns))
      const replayed = yield* Effect.provide(judge.run("Rome?"), ModelCassette.layerReplay(path))
      assert.deepStrictEqual(outcome(recorded).transcript, outcome(direct).transcript)
      assert.deepStrictEqual(outcome(replayed), outcome(recorded))
    }
  })

  test("failures of the model are replayed, also those after chunks of a stream", NodeFileSystem.layer, function* () {
    const { path } = yield* inFolder
    const turns: ScriptedModel.Script = [
      { fail: { reason: "RateLimitError", retryAfter: 7000 } },
      { text: "Half an answer", fail: { reason: "InternalProviderError", description: "cut" } }
    ]
    const ask = Effect.gen(function* () {
      const limited = yield* Effect.flip(LanguageModel.generateText({ prompt: "Hi" }))
      const seen: Array<string> = []
      const cut = yield* LanguageModel.streamText({ prompt: "Hi" }).pipe(
        Stream.runForEach((part) => Effect.sync(() => seen.push(part.type))),
        Effect.flip
      )
      return { limited, cut, seen }
    })
    const recorded = yield* Effect.provide(ask, record(path, turns))
    const replayed = yield* Effect.provide(ask, ModelCassette.layerReplay(path))
    assert.deepStrictEqual(replayed, recorded)
    assert.strictEqual(replayed.limited.retryAfter === undefined, false)
    assert.isTrue(AiError.isAiError(replayed.cut))
    assert.include(replayed.seen, "text-delta")
  })

  test(
    "equal requests are answered in the order of the file, and one more fails (case keep 45)",
    NodeFileSystem.layer,
    function* () {
      const { path } = yield* inFolder
      const ask = Effect.map(LanguageModel.generateText({ prompt: "Roll a die" }), ({ text }) => text)
      yield* Effect.provide(Effect.all([ask, ask]), record(path, [{ text: "3" }, { text: "5" }]))
      const replay = Effect.gen(function* () {
        return { texts: yield* Effect.all([ask, ask]), error: yield* Effect.flip(ask) }
      })
      const { error, texts } = yield* Effect.provide(replay, ModelCassette.layerReplay(path))
      assert.deepStrictEqual(texts, ["3", "5"])
      assert.isFalse(error.isRetryable)
      assert.include(error.message, "holds this request 2 times, and it was sent once more. Record the file again")
    }
  )

  test(
    "a request that is not in the file fails with the differences to the closest one",
    NodeFileSystem.layer,
    function* () {
      const { path } = yield* inFolder
      const ask = (prompt: string) => LanguageModel.generateText({ prompt, toolkit, disableToolCallResolution: true })
      yield* Effect.provide(
        Effect.all([LanguageModel.generateText({ prompt: "Weather?" }), ask("Is it sunny in Rome today?")]),
        record(path, [{ text: "?" }, { text: "Yes" }])
      )
      const error = yield* Effect.flip(
        Effect.provide(ask("Is it sunny in Oslo today?"), ModelCassette.layerReplay(path))
      )
      assert.isTrue(AiError.isAiError(error) && !error.isRetryable)
      assert.include(error.message, `not in the cassette ${path}`)
      assert.include(error.message, "closest of its 2 exchanges, number 2, differs in one place")
      assert.match(error.message, /\/prompt\/content\/0\/content: recorded .*Rome today.*, sent .*Oslo today/)
      assert.include(error.message, "Record the file again with ModelCassette.layerRecord")

      const changed = Toolkit.make(Weather.setParameters(Schema.Struct({ town: Schema.String })))
      const prompt = "Is it sunny in Rome today?"
      const otherTool = LanguageModel.generateText({ prompt, toolkit: changed, disableToolCallResolution: true })
      const byTool = yield* Effect.flip(Effect.provide(otherTool, ModelCassette.layerReplay(path)))
      assert.match(byTool.message, /\/tools\/0\/parameters\/properties/)

      const agentError = yield* failsFor(
        "ModelFailed",
        Effect.provide(judge.run("Something else"), ModelCassette.layerReplay(path))
      )
      assert.include(agentError.message, `not in the cassette ${path}`)

      const streamed = Stream.runDrain(LanguageModel.streamText({ prompt: "Weather?" }))
      const other = yield* Effect.flip(Effect.provide(streamed, ModelCassette.layerReplay(path)))
      assert.match(other.message, /\/method: recorded .*generateText.*, sent .*streamText/)
    }
  )

  test("no secret is in the file, and the replay does not need one", NodeFileSystem.layer, function* () {
    const { files, path } = yield* inFolder
    const key = "sk-live-0123456789abcdef"
    const login = Tool.make("login", {
      parameters: Schema.Struct({ password: Schema.String, user: Schema.String }),
      success: Schema.String
    })
    const tools = Toolkit.make(login)
    const agentOf = (secret: string) =>
      Agent.make("clerk", { instructions: `Use ${secret} as the key.`, toolkit: tools }).run(`pin=${secret} hunter2`)
    const Login = tools.toLayer({ login: ({ user }) => Effect.succeed(`token: ${key} for ${user}`) })
    const turns = [
      {
        toolCalls: [{ id: "a", name: "login", params: { password: "hunter2pass", user: "ann" } }],
        text: `Bearer ${key}`
      },
      { text: `Done with ${key}` }
    ]
    const recorded = yield* Effect.provide(agentOf(key), [
      Login,
      record(path, turns),
      Layer.succeed(Json.SecretNames, new Set([...Json.secretNames, "pin"]))
    ])
    const text = yield* files.readFileString(path)
    assert.notInclude(text, "0123456789abcdef")
    assert.notInclude(text, "hunter2pass")
    assert.include(text, "[redacted]")
    assert.include(JSON.stringify(outcome(recorded)), key)
    const replayed = yield* Effect.provide(agentOf("sk-another-9876543210"), [Login, ModelCassette.layerReplay(path)])
    assert.strictEqual(replayed.outcome, "Completed")
    assert.strictEqual(replayed.steps, recorded.steps)
  })

  test("MEND-2 masking has fuel, and a cassette is complete or not written", NodeFileSystem.layer, function* () {
    const { files, path } = yield* inFolder
    const ask = (text: string) =>
      LanguageModel.generateText({ prompt: text }).pipe(
        Effect.provide(record(path, [{ text: "Yes." }, { text: "b".repeat(20_000) }, { text: "No." }])),
        Effect.provide(Limits.layer({ maxFuel: 2000 })),
        Effect.exit
      )
    const exit = yield* ask("a".repeat(20_000))
    assert.include(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "", "maxFuel")
    assert.deepStrictEqual(JSON.parse(yield* files.readFileString(path)), { version: 1, exchanges: [] })
    assert.isTrue(Exit.isSuccess(yield* ask("short")))
    assert.include(yield* files.readFileString(path), "Yes.")
  })

  test("an answer that the program interrupts is not recorded", NodeFileSystem.layer, function* () {
    const { files, path } = yield* inFolder
    yield* LanguageModel.streamText({ prompt: "Hi" }).pipe(
      Stream.take(2),
      Stream.runDrain,
      Effect.provide(record(path, [{ text: "A long answer in chunks" }]))
    )
    assert.deepStrictEqual(JSON.parse(yield* files.readFileString(path)), { version: 1, exchanges: [] })
  })

  test("a file that is no cassette, and one that is missing, fail the layer", NodeFileSystem.layer, function* () {
    const { files, path } = yield* inFolder
    const open = Effect.flip(Effect.scoped(Layer.build(ModelCassette.layerReplay(path))))
    assert.strictEqual((yield* open)._tag, "PlatformError")
    yield* files.writeFileString(path, `{"version":1,"exchanges":[{"digest":"a"}]}`)
    const error = yield* open
    assert.strictEqual(error._tag, "PayloadError")
    assert.include(error.message, "model cassette")
    assert.include(error.message, "/exchanges/0/request")
  })
})
