import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Redacted, Result, Schema } from "effect"
import { copyRefusingSecrets, findSecret, isSecretName } from "#src/payload/internal/copyJson.ts"
import { defaultLimits } from "#src/payload/internal/limits.ts"
import { Agent, AgentDefinition } from "effect-emissary"
import { Json, VersionedCodec } from "effect-emissary/payload"
import { test } from "../test.ts"

const pathOf = (value: unknown, data?: ReadonlyArray<string>) =>
  findSecret(value, data === undefined ? {} : { data })?.path

describe("L8 secret keys", () => {
  const secret =
    "api_key apikey apiKey API-KEY x-api-key ａｐｉ＿ｋｅｙ authorization Authorization secret client_secret password " +
    "Pass_Word access_token accessToken refresh.token private_key aws_secret_access_key credentials " +
    "connectionString bearer_token cookie " +
    // TRUST-5 by their end
    "mistral_api_key groqApiKey aws_bedrock_api_key replicate_api_token hf_token x-auth-token x-access-token oauth_token " +
    "oauth_token_secret bot_token db_password USER_PASSWORD ssh_private_key secret_access_key app_secret jwt id_jwt dsn " +
    "sentry_dsn database_url REPLICA_DATABASE_URL google_application_credentials " +
    // MEND-12 bare names, and addresses that grant access
    "token TOKEN pat github_pat session_cookie webhook_url slackWebhookUrl pin otp totp pin_code sas_url blob_sas_url " +
    // Several of them
    "password2 api_key_1 token1 API_KEY_10 client_secrets user_passwords groq_api_keys access_tokens refreshTokens"
  for (const key of [...secret.split(" "), "Api Key"]) {
    it(`L8 ${key} is on the list`, () => assert.isTrue(isSecretName(key)))
  }

  const harmless =
    "max_tokens maxTokens max_output_tokens input_tokens tokens token_count tokenizer prompt_cache_key cache_key " +
    "key keys idempotency_key keyword author secretary passwordless password_env secret_name session _ constructor __proto__ " +
    "max_token stop_token eos_token time_to_first_token cost_per_token next_page_token continuationToken skip_special_token " +
    "url betokened tokens_per_minute page_token pageToken pagination_token next_pagination_token token_type token_usage " +
    "path pattern compat pins spin pinned pinboard topic option " +
    "auth0 sha256 base64 stop_token_1 max_tokens_2 prompt_tokens tokens2 oauth2"
  for (const key of [...harmless.split(" "), ""]) {
    it(`L8 "${key}" is not on the list`, () => assert.isFalse(isSecretName(key)))
  }

  it("L8 the published list is written without case and separators, or it would never match", () => {
    for (const key of Json.secretNames) assert.match(key, /^!?\*?[a-z0-9]+$/)
  })

  test("TRUST-5 a program has a list of its own, for every codec and for options of models", function* () {
    const names = new Set([...Json.secretNames, "ssn", "*pin", "!hairpin", "!apitoken"])
    const note = VersionedCodec.single({ what: "note", value: Schema.Record(Schema.String, Schema.Json) })
    const agent = (modelOptions: Json.JsonObject) => Agent.encode(Agent.make("a", { model: "a/b", modelOptions }))
    const keysOf = Effect.fnUntraced(function* (encode: (json: Json.JsonObject) => Effect.Effect<unknown, unknown>) {
      const keys = ["ssn", "card_pin", "hairpin", "pins", "api_token", "api_key"]
      return yield* Effect.filter(keys, (key) => Effect.isFailure(encode({ deep: { [key]: "hunter2" } })))
    })
    const digest = (modelOptions: Json.JsonObject) => AgentDefinition.digest({ modelOptions, maxSteps: 1, tools: [] })
    for (const encode of [note.encode, agent, digest]) {
      assert.deepStrictEqual(yield* keysOf(encode), ["api_token", "api_key"])
      const own = Effect.provideService(keysOf(encode), Json.SecretNames, names)
      assert.deepStrictEqual(yield* own, ["ssn", "card_pin", "api_key"])
    }
    assert.strictEqual(Option.getOrThrow(Json.findSecret({ card_pin: 1 }, { names })).path, "/card_pin")
  })

  test("L8 a flag and null are no secrets, whatever their names are", function* () {
    const flags = { has_password: true, pin: null, password: false, deep: { token: null } }
    assert.strictEqual(pathOf(flags), undefined)
    const note = VersionedCodec.single({ what: "note", value: Schema.Record(Schema.String, Schema.Json) })
    assert.deepStrictEqual(yield* Effect.flatMap(note.encode(flags), note.decode), flags)
    assert.strictEqual(pathOf({ ...flags, secret: 0 }), "/secret")
    assert.strictEqual(pathOf({ ...flags, secret: [null, true] }), "/secret")
  })

  it("L8 the first one in the order of writing is found, with its path", () => {
    assert.strictEqual(pathOf({ a: { b: [{ password: "x" }] }, secret: 1 }), "/a/b/0/password")
    assert.strictEqual(pathOf({ secret: 1, a: { password: "x" } }), "/secret")
    assert.strictEqual(pathOf({ "a/b": { "api~key": 1 } }), "/a~1b/api~0key")
    assert.strictEqual(pathOf({ secret: "" }), "/secret")
    assert.isUndefined(pathOf({ max_tokens: 1, list: ["password"], name: "secret" }))
    assert.isUndefined(pathOf("password"))
  })

  it("L8 Redacted values are found anywhere, and only their place is reported", () => {
    class Box {
      readonly inner = Redacted.make("hunter2")
    }
    for (const [value, path] of [
      [Redacted.make("hunter2"), ""],
      [{ a: [Redacted.make("hunter2")] }, "/a/0"],
      [{ a: new Map([["k", Redacted.make("hunter2")]]) }, "/a/k"],
      [new Set([1, Redacted.make("hunter2")]), "/1"],
      [{ box: new Box() }, "/box/inner"],
      [Option.some(Redacted.make("hunter2")), "/value"]
    ] as const) {
      const found = Option.getOrThrow(Json.findSecret(value))
      assert.deepInclude(found, { path, kind: "redacted" })
      assert.notInclude(JSON.stringify(found), "hunter2")
    }
  })

  it("L8 below the places given as data keys are data, Redacted values are not", () => {
    const definition = {
      tools: [
        { name: "login", parameters: { properties: { password: { type: "string" } } } },
        { name: "other", parameters: {}, settings: {} }
      ]
    }
    assert.strictEqual(pathOf(definition), "/tools/0/parameters/properties/password")
    assert.isUndefined(pathOf(definition, ["/tools/*/parameters"]))
    assert.isUndefined(pathOf(definition, ["/**/properties"]))
    assert.isUndefined(pathOf(definition, ["/**"]))
    assert.isDefined(pathOf(definition, ["/tools/1/parameters"]))
    assert.isDefined(pathOf(definition, ["/tools/*/success"]))
    assert.strictEqual(pathOf({ parameters: { password: 1 }, password: 2 }, ["/parameters"]), "/password")
    assert.strictEqual(pathOf({ data: { x: Redacted.make("s") } }, ["/data"]), "/data/x")
    // The key of the place itself is an option still.
    assert.strictEqual(pathOf({ secret: { a: 1 } }, ["/secret"]), "/secret")
  })

  it("L8 an object that is met as data and as options is searched as both", () => {
    const shared = { password: "x" }
    const inner = { data: shared }
    for (const [value, data, path] of [
      [{ data: shared, options: shared }, "/data", "/options/password"],
      [{ a: { data: shared }, b: { data: shared } }, "/a/data", "/b/data/password"],
      [{ a: inner, b: inner }, "/a/data", "/b/data/password"]
    ] as const) {
      const written = copyRefusingSecrets(value, defaultLimits, [data], Json.secretNames)
      assert.deepInclude(Result.getOrThrow(Result.flip(written)), { _tag: "Secret", path })
    }
  })

  it("L8 a long run of combining marks in a key costs linear time", () => {
    const key = `api${"\u0301\u0316".repeat(500_000)}_key`
    assert.strictEqual(isSecretName(key), true)
  })

  it("L8 cycles, deep values, getters and wide sharing do no harm", () => {
    const cyclic: Record<string, unknown> = {
      get danger() {
        return assert.fail()
      }
    }
    cyclic["self"] = cyclic
    let deep: unknown = { password: 1 }
    for (let i = 0; i < 100_000; i++) deep = [deep]
    assert.isDefined(pathOf(deep))
    let bomb: unknown = [1]
    for (let i = 0; i < 100; i++) bomb = [bomb, bomb]
  })
})
