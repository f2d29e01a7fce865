import { assert, describe } from "@effect/vitest"
import { Config, ConfigProvider, Effect, Layer } from "effect"
import { createServer, type IncomingMessage } from "node:http"
import type { AddressInfo } from "node:net"
import { Agent, ModelRegistry } from "effect-emissary"
import { EnvModels } from "effect-emissary/ai-sdk"
import { failsFor } from "../outcomes.ts"
import { test } from "../test.ts"

interface Received {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage["headers"]
  readonly body: string
}

interface Reply {
  readonly status?: number
  readonly json: unknown
  readonly headers?: Record<string, string>
}

const chat = (text: string): Reply => ({
  json: {
    id: "1",
    created: 0,
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  }
})

const responses = (text: string): Reply => ({
  json: {
    id: "r",
    created_at: 0,
    model: "m",
    output: [
      { type: "message", id: "m", role: "assistant", content: [{ type: "output_text", text, annotations: [] }] }
    ],
    usage: { input_tokens: 1, output_tokens: 1 }
  }
})

const messages = (text: string): Reply => ({
  json: {
    type: "message",
    id: "m",
    model: "m",
    role: "assistant",
    content: [{ type: "text", text }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 }
  }
})

const gemini = (text: string): Reply => ({
  json: { candidates: [{ content: { role: "model", parts: [{ text }] }, finishReason: "STOP" }] }
})

/** A server on loopback, its URL, and what it received. */
const serve = (reply: (request: Received) => Reply) =>
  Effect.acquireRelease(
    Effect.promise(
      () =>
        new Promise<{ readonly url: string; readonly received: Array<Received>; readonly close: () => void }>(
          (resolve) => {
            const received: Array<Received> = []
            const server = createServer((request, response) => {
              let body = ""
              request.setEncoding("utf8")
              request.on("data", (chunk: string) => (body += chunk))
              request.on("end", () => {
                const { headers, method = "", url = "" } = request
                const one = { method, url, headers, body }
                received.push(one)
                const { headers: more, json, status = 200 } = reply(one)
                response.writeHead(status, { "content-type": "application/json", ...more }).end(JSON.stringify(json))
              })
            })
            server.listen(0, "127.0.0.1", () => {
              // Sound: the server listens on a port.
              const { port } = server.address() as AddressInfo
              resolve({ url: `http://127.0.0.1:${port}/v1`, received, close: () => server.close() })
            })
          }
        )
    ),
    ({ close }) => Effect.sync(close)
  )

const environment = (variables: Record<string, string>) =>
  Layer.provide(EnvModels.layer({ providers: "any" }), ConfigProvider.layer(ConfigProvider.fromUnknown(variables)))

const ask = (model: string, variables: Record<string, string>, modelOptions = {}) =>
  Agent.make("a", { model, modelOptions, retry: { times: 0 } })
    .ask("Hi")
    .pipe(Effect.provide(environment(variables)))

const resolve = (model: string, variables: Record<string, string>, options = {}) =>
  Effect.flatMap(ModelRegistry.ModelRegistry, (registry) => registry.resolve(model, options)).pipe(
    Effect.provide(environment(variables))
  )

const key = "sk-test-abcdefgh12345678"

describe("MODEL-2 EnvModels.layer", () => {
  const providers: ReadonlyArray<
    readonly [
      model: string,
      reply: (text: string) => Reply,
      path: string,
      variables: (url: string) => Record<string, string>,
      header: readonly [name: string, value: string | undefined]
    ]
  > = [
    [
      "openai/gpt-4.1",
      responses,
      "/v1/responses",
      (url) => ({ OPENAI_BASE_URL: url, OPENAI_API_KEY: key }),
      ["authorization", `Bearer ${key}`]
    ],
    [
      "anthropic/claude-sonnet-4-5",
      messages,
      "/v1/messages",
      (url) => ({ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: key }),
      ["x-api-key", key]
    ],
    [
      "google/gemini-2.5-flash",
      gemini,
      "/v1/models/gemini-2.5-flash:generateContent",
      (url) => ({ GOOGLE_BASE_URL: url, GEMINI_API_KEY: key }),
      ["x-goog-api-key", key]
    ],
    [
      "openrouter/meta/llama-4",
      chat,
      "/v1/chat/completions",
      (url) => ({ OPENROUTER_BASE_URL: url, OPENROUTER_API_KEY: key }),
      ["authorization", `Bearer ${key}`]
    ],
    [
      "ollama/qwen3",
      chat,
      "/v1/chat/completions",
      (url) => ({ OLLAMA_BASE_URL: `${url}/` }),
      ["authorization", undefined]
    ],
    [
      "my-vllm/qwen3",
      chat,
      "/v1/chat/completions",
      (url) => ({ MY_VLLM_BASE_URL: url, MY_VLLM_API_KEY: key }),
      ["authorization", `Bearer ${key}`]
    ]
  ]

  test.live("MODEL-2 a name is enough, where the environment has the key and the URL", function* () {
    for (const [model, reply, path, variables, [header, value]] of providers) {
      const { received, url } = yield* serve(() => reply("Hello."))
      const text = yield* ask(model, variables(url), { temperature: 0.5 })
      assert.strictEqual(text, "Hello.", model)
      assert.strictEqual(received[0]?.url, path)
      assert.strictEqual(received[0]?.headers[header], value)
      assert.include(received[0]?.body, `"temperature":0.5`)
      assert.strictEqual(received.length, 1)
    }
  })

  test.live("MEND-4 no redirect takes a key or a prompt along", function* () {
    for (const status of [301, 302, 303, 307, 308]) {
      for (const [model, reply, , variables] of providers) {
        const elsewhere = yield* serve(() => reply("Hello."))
        const { received, url } = yield* serve((request) => {
          const location = elsewhere.url.replace("127.0.0.1", "localhost").replace("/v1", request.url)
          return { status, headers: { location }, json: {} }
        })
        const error = yield* Effect.flip(ask(model, variables(url)))
        assert.strictEqual(error._tag, "AgentError", `${model} ${status}`)
        assert.deepStrictEqual([received.length, elsewhere.received.length], [1, 0], `${model} ${status}`)
      }
    }
  })

  test.live("MEND-4 a response has a size", function* () {
    const { url } = yield* serve(() => chat("x".repeat(65 * 1024 * 1024)))
    const error = yield* Effect.flip(ask("ollama/qwen3", { OLLAMA_BASE_URL: url }))
    assert(error._tag === "AgentError")
    assert.strictEqual(error.reason._tag, "ModelFailed")
  })

  test.live("MEND-4 a name selects a listed provider only", function* () {
    const { received, url } = yield* serve(() => chat("Hello."))
    const variables = { VAULT_BASE_URL: url, VAULT_API_KEY: key, OPENAI_API_KEY: key, OPENAI_BASE_URL: url }
    const select = (model: string, options?: EnvModels.Options) =>
      Effect.flatMap(ModelRegistry.ModelRegistry, (registry) => registry.resolve(model, {})).pipe(
        Effect.provide(
          Layer.provide(EnvModels.layer(options), ConfigProvider.layer(ConfigProvider.fromUnknown(variables)))
        )
      )
    for (const model of ["vault/x", "VAULT/x", "__proto__/x"]) {
      const error = yield* failsFor("UnknownProvider", select(model))
      assert.include(error.message, "known providers: anthropic")
    }
    const error = yield* failsFor("UnknownProvider", select("openai/gpt-5.2", { providers: ["vault"] }))
    assert.include(error.message, `unknown provider "openai"; known providers: vault.`)
    assert.match(error.message, / Add it to the providers of the registry$/)
    yield* failsFor("UnknownProvider", select("VAULT/x", { providers: ["vault"] }))
    yield* select("vault/x", { providers: ["vault"] })
    yield* select("openai/gpt-5.2")
    yield* select("openai/gpt-5.2", { providers: ["openai"] })
    assert.deepStrictEqual(received, [])
  })

  test("MEND-4 providers that are no list, or misspelt, are found when the layer is built", function* () {
    const build = (providers: EnvModels.Options["providers"], variables = {}) =>
      Effect.exit(
        Layer.build(
          Layer.provide(EnvModels.layer({ providers }), ConfigProvider.layer(ConfigProvider.fromUnknown(variables)))
        )
      )
    // Sound: as a program in JavaScript passes it
    const text = yield* build("openai" as "any")
    assert.include(String(text), 'expected a list of names, or "any"')
    const misspelt = yield* build(["openai", "antropic"])
    assert.include(String(misspelt), 'got "antropic". Did you mean "anthropic"? Otherwise set ANTROPIC_BASE_URL')
    assert.strictEqual((yield* build(["antropic"], { ANTROPIC_BASE_URL: "http://localhost/v1" }))._tag, "Success")
    assert.strictEqual((yield* build(["openai", "vllm"]))._tag, "Success")
  })

  test("MODEL-2 a missing key names its variables", function* () {
    const cases: ReadonlyArray<readonly [model: string, advice: string]> = [
      ["openai/gpt-5.2", "Set OPENAI_API_KEY"],
      ["google/gemini", "Set GOOGLE_GENERATIVE_AI_API_KEY or GEMINI_API_KEY"],
      ["openrouter/x", "Set OPENROUTER_API_KEY"]
    ]
    for (const [model, advice] of cases) {
      const error = yield* failsFor("KeyMissing", resolve(model, { OPENAI_API_KEY: " " }))
      assert.include(error.message, advice)
    }
    const error = yield* Effect.flip(ask("anthropic/claude", {}))
    assert.strictEqual(
      error.message,
      'Agent "a": the model "anthropic/claude" is unavailable: ModelRegistry: "anthropic/claude": provider "anthropic" needs a key. Set ANTHROPIC_API_KEY'
    )
  })

  test("MODEL-2 a missing package comes with the command that installs it", function* () {
    const error = yield* failsFor("PackageMissing", resolve("mistral/small", { MISTRAL_API_KEY: key }))
    assert.include(error.message, "Run: npm install @ai-sdk/mistral zod")
    assert.notInclude(error.message, key)
  })

  test("MODEL-2 an unknown provider has the closest name, and the variable that would make it one", function* () {
    const error = yield* failsFor("UnknownProvider", resolve("opnai/gpt-5.2", {}))
    assert.strictEqual(error.reason.closest, "openai")
    assert.include(error.message, `unknown provider "opnai"; known providers: anthropic, deepseek,`)
    assert.include(error.message, `Did you mean "openai"? For a server with the API of OpenAI set OPNAI_BASE_URL`)
    yield* failsFor("UnknownProvider", resolve("constructor/x", {}))
    yield* failsFor("InvalidModelName", resolve("gpt-5.2", {}))
  })

  test("MODEL-2 L8 the name of a model leads nowhere else at the provider's URL", function* () {
    for (const model of [
      "../../admin/x",
      "models/../../admin",
      "a/./b",
      "..",
      "a?b",
      "a#b",
      "%2e%2e/a",
      "a\\..\\b",
      ".\t./a"
    ]) {
      const variables = { GEMINI_API_KEY: key, OLLAMA_BASE_URL: "http://127.0.0.1:1/v1" }
      yield* failsFor("InvalidModelName", resolve(`google/${model}`, variables))
      yield* failsFor("InvalidModelName", resolve(`ollama/${model}`, variables))
    }
    for (const model of ["hf.co/org/name..v2:Q4_K_M", "/models/qwen3.gguf", "@cf/meta/llama:free", "ft:gpt:org::id"]) {
      yield* Effect.scoped(resolve(`ollama/${model}`, {}))
    }
  })

  test.live(
    "MODEL-2 L8 a provider's text quotes a key of any form: it is masked; a list of models is read without redirects",
    function* () {
      const password = "hunter/house of cards"
      const elsewhere = yield* serve(() => ({ json: { data: [{ id: "stolen" }] } }))
      const { received, url } = yield* serve(({ headers }) => ({
        status: 404,
        json: { error: { message: `The model m does not exist for ${headers.authorization}`, code: "model_not_found" } }
      }))
      const moved = yield* serve(({ method }) =>
        method === "GET"
          ? { status: 302, json: {}, headers: { location: `${elsewhere.url}/models` } }
          : { status: 404, json: { error: { message: "No such model", code: "model_not_found" } } }
      )
      const error = yield* Effect.flip(ask("mine/m", { MINE_BASE_URL: url, MINE_API_KEY: password }))
      assert.lengthOf(received, 2)
      assert.include(error.message, "does not know the model")
      assert.notInclude(JSON.stringify(error), "does not exist")
      assert.notInclude(error.message, "hunter")
      const other = yield* Effect.flip(ask("mine/m", { MINE_BASE_URL: moved.url, MINE_API_KEY: password }))
      assert.lengthOf(moved.received, 2)
      assert.notInclude(other.message, "stolen")
      assert.deepStrictEqual(elsewhere.received, [])
    }
  )

  test("MODEL-2 options of a definition are sampling, and no URL", function* () {
    const error = yield* failsFor(
      "InvalidModelOptions",
      resolve("ollama/qwen3", {}, { base_url: "http://evil.example", providerOptions: {} })
    )
    assert.include(error.message, "/model_options")
  })

  test.live("MODEL-4 a wrong key names the provider and the variable", function* () {
    const cases: ReadonlyArray<
      readonly [model: string, keyVariable: string, urlVariable: string, reply: Reply, sentence: string]
    > = [
      [
        "openai/gpt-5.2",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        {
          status: 401,
          json: { error: { message: `Incorrect API key provided: ${key}.`, type: "invalid_request_error" } }
        },
        "openai refused the API key (status 401). Check OPENAI_API_KEY"
      ],
      [
        "anthropic/claude",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        { status: 401, json: { type: "error", error: { type: "authentication_error", message: "invalid x-api-key" } } },
        "anthropic refused the API key (status 401). Check ANTHROPIC_API_KEY"
      ],
      [
        "google/gemini-2.5-flash",
        "GEMINI_API_KEY",
        "GOOGLE_BASE_URL",
        {
          status: 400,
          json: {
            error: { code: 400, message: "API key not valid. Please pass a valid one.", status: "INVALID_ARGUMENT" }
          }
        },
        "google refused the API key (status 400). Check GEMINI_API_KEY"
      ]
    ]
    for (const [model, keyVariable, urlVariable, reply, sentence] of cases) {
      const { url } = yield* serve(() => reply)
      const error = yield* Effect.flip(ask(model, { [urlVariable]: url, [keyVariable]: key }))
      assert.strictEqual(
        error.message,
        `Agent "a": expected an answer from the model "${model}", got AuthenticationError: ${sentence}`
      )
    }
  })

  const missing = { error: { message: "The model `gpt-52` does not exist", code: "model_not_found" } }

  test.live("MODEL-2 a model that the provider does not know fails with the closest names", function* () {
    const listed = ["gpt-5.2", "gpt-5.2-mini", "whisper-1"].map((id) => ({ id }))
    const { received, url } = yield* serve(({ method }) =>
      method === "GET" ? { json: { object: "list", data: listed } } : { status: 404, json: missing }
    )
    const layer = environment({ OPENAI_BASE_URL: url, OPENAI_API_KEY: key })
    const agent = Agent.make("a", { model: "openai/gpt-52" })
    const errors = yield* Effect.all([Effect.flip(agent.ask("Hi")), Effect.flip(agent.ask("Hi"))]).pipe(
      Effect.provide(layer)
    )
    for (const { message } of errors) {
      assert.strictEqual(
        message,
        `Agent "a": expected an answer from the model "openai/gpt-52", got InvalidRequestError: openai does not know the model. It was asked at ${url}/responses (status 404). Did you mean "gpt-5.2"?`
      )
    }
    const asked = received.filter(({ method }) => method === "GET")
    assert.deepStrictEqual(
      asked.map(({ headers, url }) => [url, headers.authorization]),
      [["/v1/models", `Bearer ${key}`]]
    )

    const far = yield* Effect.flip(ask("openai/claude", { OPENAI_BASE_URL: url, OPENAI_API_KEY: key }))
    assert.include(far.message, `Some of its models: "gpt-5.2", "gpt-5.2-mini", "whisper-1"`)
  })

  test.live("MODEL-2 a provider that lists no models is not asked for names", function* () {
    const { url } = yield* serve(({ method }) => ({
      status: method === "GET" ? 500 : 404,
      json: method === "GET" ? {} : { error: { message: `model "qwen9" not found, try pulling it first` } }
    }))
    const error = yield* Effect.flip(ask("ollama/qwen9", { OLLAMA_BASE_URL: url }))
    assert.include(error.message, `ollama does not know the model`)
    assert.notInclude(error.message, "Did you mean")
  })

  test.live("MODEL-2 a URL where nothing answers, and one where something else does, are in the message", function* () {
    const { url } = yield* serve(() => ({ status: 404, json: { error: { message: "404 page not found" } } }))
    const wrong = yield* Effect.flip(ask("ollama/qwen3", { OLLAMA_BASE_URL: `${url}/api?key=${key}` }))
    assert.include(wrong.message, `ollama has nothing at ${url}/api`)
    assert.include(wrong.message, "Check the base URL")

    const nobody = "http://127.0.0.1:9"
    const down = yield* Effect.flip(ask("ollama/qwen3", { OLLAMA_BASE_URL: `${nobody}/v1?key=${key}` }))
    assert.include(down.message, `got NetworkError: the connection to ${nobody} failed. Try again`)
    for (const { message } of [wrong, down]) assert.notInclude(message, key)
  })

  test("MODEL-2 the name of a variable that is not set is in the message", function* () {
    const agent = Agent.make("a", { model: Config.String("EMISSARY_MODEL") })
    const nothing = ConfigProvider.layer(ConfigProvider.fromUnknown({}))
    const error = yield* agent.run("Hi").pipe(Effect.provide(EnvModels.layer()), Effect.provide(nothing), Effect.flip)
    assert.strictEqual(error.reason._tag, "PreparationFailed")
    assert.include(error.message, "failed with ConfigError: EMISSARY_MODEL is not set, or not valid")
  })
})
