import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Logger, type Schema } from "effect"
import { AgentDefinition, ToolContract, type PayloadError } from "effect-emissary"
import { failsFor } from "../outcomes.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"

const schema = { type: "object", properties: {}, required: [], additionalProperties: false }
const minimal1 = { schema_version: 1, model: "mock/m" }
const minimal2 = { schema_version: 2 }

const refusal = (wire: unknown) => Effect.flip(AgentDefinition.codec.decode(wire))

const issues = (error: PayloadError.PayloadError) =>
  error.reason._tag === "Invalid"
    ? error.reason.issues.map(({ expected, found, path }) => `${path}: expected ${expected}, found ${found}`)
    : [error.reason._tag]

const paths = (error: PayloadError.PayloadError) => issues(error).map((issue) => issue.slice(0, issue.indexOf(":")))

describe("agent wire version 1", () => {
  test("CODEC-1 defaults of absent keys, and null for absent", function* () {
    const expected = { model: "mock/m", modelOptions: {}, maxSteps: 16, tools: [] }
    assert.deepStrictEqual(yield* AgentDefinition.codec.decode(minimal1), expected)
    const nulls = {
      ...minimal1,
      identifier: null,
      instructions: null,
      model_options: null,
      provider_options: null,
      structured_output: null,
      structured_output_strategy: null,
      reasoning: null,
      tools: null
    }
    assert.deepStrictEqual(yield* AgentDefinition.codec.decode(nulls), expected)
    assert.deepStrictEqual(yield* AgentDefinition.codec.decode({ ...minimal1, identifier: "" }), expected)
  })

  test("CODEC-1 max_steps: -1 and null are no limit, absent is 16", function* () {
    const read = (max_steps: unknown) =>
      Effect.map(AgentDefinition.codec.decode({ ...minimal1, max_steps }), (definition) => definition.maxSteps)
    assert.deepStrictEqual(yield* Effect.all([read(-1), read(null), read(1), read(40)]), [
      "unlimited",
      "unlimited",
      1,
      40
    ])
    for (const bad of [0, -2, 1.5, "8", true, [], 2 ** 53]) {
      const error = yield* refusal({ ...minimal1, max_steps: bad })
      assert.deepStrictEqual(paths(error), ["/max_steps"], String(bad))
    }
  })

  test("CODEC-1 timeouts are seconds, floats too, kept to the millisecond", function* () {
    const read = (timeout: unknown) =>
      AgentDefinition.codec.decode({
        ...minimal1,
        tools: [{ name: "t", description: "T", parameters_schema: schema, timeout }]
      })
    const millis = (timeout: unknown) =>
      Effect.map(read(timeout), ({ tools }) => tools.map((tool) => Duration.toMillis(tool.timeout))[0])
    assert.deepStrictEqual(
      yield* Effect.forEach([10, 2.5, 1.001, 4.35, 0.0006, null], millis),
      [10_000, 2500, 1001, 4350, 1, 10_000]
    )
    for (const bad of [0, -1, "10", 0.0001, 1e300]) {
      assert.deepStrictEqual(paths(yield* Effect.flip(read(bad))), ["/tools/0/timeout"], String(bad))
    }
    const absent = { ...minimal1, tools: [{ name: "t", description: "T", parameters_schema: schema }] }
    const { tools } = yield* AgentDefinition.codec.decode(absent)
    assert.deepStrictEqual(pluck(tools, "timeout"), [Duration.seconds(10)])
  })

  test("CODEC-1 unknown keys are ignored, here and in tools; provider_options are not kept", function* () {
    const definition = yield* AgentDefinition.codec.decode({
      ...minimal1,
      unknown: { a: 1 },
      provider_options: { api_key: "k" },
      tools: [{ name: "t", description: "T", parameters_schema: schema, extra: 1 }]
    })
    assert.notInclude(yield* AgentDefinition.codec.encodeJson(definition, { version: 1 }), "api_key")
    assert.strictEqual(definition.tools.length, 1)
  })

  test("CODEC-1 every problem is reported, once, with its path", function* () {
    const error = yield* refusal({
      schema_version: 1,
      identifier: 5,
      model: ["a/b"],
      instructions: 123,
      model_options: [],
      max_steps: 0,
      structured_output: { type: "nonsense" },
      structured_output_strategy: "telepathy",
      reasoning: "turbo",
      tools: [
        { name: 5, description: null, parameters_schema: "x", timeout: -1 },
        null,
        "tool",
        { name: "a", description: "A", parameters_schema: schema },
        { name: "a", description: "A", parameters_schema: schema }
      ]
    })
    assert.sameMembers(paths(error), [
      "/identifier",
      "/model",
      "/instructions",
      "/model_options",
      "/max_steps",
      "/structured_output/type",
      "/structured_output_strategy",
      "/reasoning",
      "/tools/0/name",
      "/tools/0/description",
      "/tools/0/parameters_schema",
      "/tools/0/timeout",
      "/tools/1",
      "/tools/2",
      "/tools/4/name"
    ])
    assert.include(error.message, `"turbo"`)
  })

  test("L2 TRUST-5 errors echo no value other than names", function* () {
    const secret = "hunter2"
    const wrong = { description: [secret], parameters_schema: secret, timeout: secret }
    const error = yield* refusal({
      schema_version: 1,
      identifier: [secret],
      model: { [secret]: secret },
      instructions: [secret],
      model_options: secret,
      max_steps: secret,
      structured_output: secret,
      structured_output_strategy: secret,
      reasoning: secret,
      tools: [secret, { name: [secret], ...wrong }, { name: "a", ...wrong }]
    })
    assert.lengthOf(paths(error), 16)
    assert.notInclude(error.message, secret)
    assert.notInclude(JSON.stringify(error), secret)
    const { message } = yield* refusal({ ...minimal1, tools: secret })
    assert.include(message, "/tools: expected a list of tools, got string")
  })

  test("CODEC-4 a JSON Schema is kept verbatim", function* () {
    const odd = {
      $schema: "http://json-schema.org/draft-07/schema#",
      "x-note": [1, { b: null }],
      definitions: { A: { type: ["string", "null"], default: null } },
      type: "object",
      properties: { z: { $ref: "#/definitions/A" }, a: { enum: [1, "1", null] } }
    }
    const wire = {
      ...minimal1,
      structured_output: odd,
      tools: [{ name: "t", description: "T", parameters_schema: odd }]
    }
    const definition = yield* AgentDefinition.codec.decode(wire)
    const again = yield* AgentDefinition.codec.encode(definition, { version: 1, allowLoss: ["/output/schema/**"] })
    assert.strictEqual(JSON.stringify(again["structured_output"]), JSON.stringify(odd))
    assert.include(JSON.stringify(again["tools"]), JSON.stringify(odd))
  })

  test("RIGHT-21 an object with the key properties is closed in an output schema, as Riffer reads it", function* () {
    const lossesOf = (o: Readonly<Record<string, Schema.Json>>) => {
      const output = { type: "object", properties: { o }, required: [], additionalProperties: false }
      return Effect.match(
        Effect.flatMap(AgentDefinition.codec.decode({ ...minimal1, structured_output: output }), (definition) =>
          AgentDefinition.codec.encode(definition, { version: 1 })
        ),
        {
          onFailure: (error) => (error._tag === "LossyEncoding" ? error.losses.map(({ path }) => path) : [error._tag]),
          onSuccess: () => []
        }
      )
    }
    const path = "/output/schema/properties/o"
    for (const [schema, losses] of [
      [{ type: "object", properties: {}, required: [], additionalProperties: false }, []],
      [{ type: "object", properties: {} }, [`${path}/additionalProperties`]],
      [{ type: "object", properties: {}, additionalProperties: true }, [`${path}/additionalProperties`]],
      [{ type: "object" }, []],
      [{ type: "object", additionalProperties: true }, []],
      [{ type: "object", additionalProperties: false }, [`${path}/additionalProperties`]],
      [{ type: "array", items: { type: "object", properties: {} } }, [`${path}/items/additionalProperties`]]
    ] as const) {
      assert.deepStrictEqual(yield* lossesOf(schema), [...losses], JSON.stringify(schema))
    }
  })

  test("RIGHT-21 the log names guardrails, skills and configurations of MCP that an agent runs without", function* () {
    const lines: Array<string> = []
    const logger = Logger.layer([Logger.make(({ message }) => lines.push(String(message)))])
    const tool = { name: "t", description: "T", parameters_schema: schema }
    const read = (more: Readonly<Record<string, Schema.Json>>) =>
      Effect.map(Effect.provide(AgentDefinition.codec.decode({ ...minimal1, identifier: "a", ...more }), logger), () =>
        lines.splice(0).map((line) => line.replace(/: expected .*/, ""))
      )
    const named = (...parts: ReadonlyArray<string>) => [`agent "a" of version 1 runs without ${parts.join(", ")}`]
    assert.deepStrictEqual(yield* read({ guardrails: { before: [{ name: "pii" }] } }), named("/guardrails"))
    assert.deepStrictEqual(
      yield* read({ skills: [{ name: "pdf" }], mcp_configs: [{ tags: ["x"] }] }),
      named("/skills", "/mcp_configs")
    )
    assert.deepStrictEqual(
      yield* read({ tools: [tool, { ...tool, name: "u", guardrails: ["x"] }] }),
      named("/tools/1/guardrails")
    )
    assert.deepStrictEqual(yield* read({ guardrails: {}, skills: [], mcp_configs: null, tools: [tool] }), [])
  })

  test("L2 hostile data is refused at the door", function* () {
    const reasons = yield* Effect.forEach(
      [
        `{"schema_version":1,"model":"a/b","model_options":{"__proto__":{"x":1}}}`,
        `{"schema_version":1,"model":"a/b","model_options":{"constructor":{"prototype":{}}}}`,
        `{"schema_version":1,"model":"a/b","model_options":${"[".repeat(200)}${"]".repeat(200)}}`,
        `{"schema_version":1,"model":"a/b"`,
        `{"schema_version":3}`,
        `[]`,
        `{"schema_version":1,"model":"a/b","tools":[{"name":"toString","description":"d","parameters_schema":{}}]}`
      ],
      (text) => Effect.map(Effect.flip(AgentDefinition.codec.decodeJson(text)), (error) => error.reason._tag)
    )
    assert.deepStrictEqual(reasons, [
      "ForbiddenKey",
      "ForbiddenKey",
      "TooDeep",
      "NotJson",
      "UnsupportedVersion",
      "Invalid",
      "ForbiddenKey"
    ])
    const limits = { maxTools: 1 }
    const two = {
      ...minimal1,
      tools: ["a", "b"].map((name) => ({ name, description: "d", parameters_schema: schema }))
    }
    yield* failsFor("TooLarge", AgentDefinition.codec.decode(two, { limits }))
  })
})

describe("agent wire version 2", () => {
  test("CODEC-2 defaults of absent keys", function* () {
    assert.deepStrictEqual(yield* AgentDefinition.codec.decode(minimal2), { modelOptions: {}, maxSteps: 16, tools: [] })
    const { output, tools } = yield* AgentDefinition.codec.decode({
      ...minimal2,
      output: { schema: {} },
      tools: [{ name: "t", parameters: schema }]
    })
    assert.deepStrictEqual(output, { schema: {}, strategy: "native" })
    assert.deepStrictEqual(tools, [
      {
        name: "t",
        parameters: schema,
        timeout: Duration.seconds(10),
        approval: "never",
        annotations: {},
        digest: (yield* ToolContract.make({ name: "t", parameters: schema })).digest
      }
    ])
  })

  test("CODEC-2 is strict: unknown keys are refused everywhere", function* () {
    const error = yield* refusal({
      ...minimal2,
      riffer_version: "1",
      output: { schema: {}, more: 1 },
      tools: [{ name: "t", parameters: schema, annotations: { color: 1 }, body: "code" }]
    })
    assert.sameMembers(paths(error), ["/riffer_version", "/output/more", "/tools/0/annotations/color", "/tools/0/body"])
  })

  test("CODEC-2 TRUST-2 a digest that does not fit the contract is refused", function* () {
    const { digest } = yield* ToolContract.make({ name: "t", parameters: schema, approval: "always" })
    const read = (over?: object) =>
      AgentDefinition.codec.decode({
        ...minimal2,
        tools: [{ name: "t", parameters: { ...schema }, approval: "always", digest, ...over }]
      })
    assert.strictEqual((yield* read({ description: "in other words" })).tools[0]?.digest, digest)
    const changes = [
      { parameters: { ...schema, additionalProperties: true } },
      { approval: "never" },
      { timeout: 60_000 },
      { annotations: { idempotent: true } },
      { success: {} }
    ]
    for (const change of changes) {
      assert.deepStrictEqual(paths(yield* Effect.flip(read(change))), ["/tools/0/digest"])
    }
  })

  test("CODEC-2 values of the wrong form", function* () {
    for (const [key, value, path] of [
      ["max_steps", 0, "/max_steps"],
      ["max_steps", -1, "/max_steps"],
      ["max_steps", null, "/max_steps"],
      ["model", "gpt", "/model"],
      ["reasoning", "turbo", "/reasoning"],
      ["instructions", " ", "/instructions"],
      ["name", "", "/name"],
      ["tools", [{ name: "t", parameters: schema, timeout: 0.5 }], "/tools/0/timeout"],
      ["tools", [{ name: "t", parameters: schema, timeout: -1 }], "/tools/0/timeout"],
      ["tools", [{ name: "t", parameters: schema, description: "" }], "/tools/0/description"],
      ["tools", [{ name: "t", parameters: { type: "x" } }], "/tools/0/parameters/type"]
    ] as const) {
      assert.include(paths(yield* refusal({ ...minimal2, [key]: value })), path, `${key} ${JSON.stringify(value)}`)
    }
  })
})

describe("golden wire files", () => {
  const folder = new URL("../golden/wire/", import.meta.url)
  const read = (name: string): string => readFileSync(fileURLToPath(new URL(name, folder)), "utf8")
  const names = readdirSync(fileURLToPath(folder)).flatMap((name) =>
    /^agent-v\d+-.*\.wire\.json$/u.test(name) ? [name.replace(/\.wire\.json$/u, "")] : []
  )
  const plain = (definition: AgentDefinition.AgentDefinition): unknown =>
    JSON.parse(
      JSON.stringify({
        ...definition,
        tools: definition.tools.map((tool) => ({
          ...tool,
          timeout: Duration.isFinite(tool.timeout) ? Duration.toMillis(tool.timeout) : "infinity"
        }))
      })
    )

  it("there are some of each version", () => {
    for (const version of [1, 2]) {
      assert.isTrue(
        names.some((name) => name.startsWith(`agent-v${version}-`)),
        `version ${version}`
      )
    }
  })

  for (const name of names) {
    test(`L3 ${name} reads as it always did`, function* () {
      const definition = yield* AgentDefinition.codec.decodeJson(read(`${name}.wire.json`))
      assert.deepStrictEqual(plain(definition), JSON.parse(read(`${name}.value.json`)))
    })
  }

  for (const name of names.filter((name) => name.endsWith("-written"))) {
    test(`L3 ${name} is written as it always was`, function* () {
      const text = read(`${name}.wire.json`)
      const definition = yield* AgentDefinition.codec.decodeJson(text)
      const version = Number(/^agent-v(\d+)/u.exec(name)?.[1])
      assert.strictEqual(yield* AgentDefinition.codec.encodeJson(definition, { version, indent: 2 }), text.trimEnd())
    })
  }
})
