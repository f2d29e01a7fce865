import { assert, describe } from "@effect/vitest"
import { Arbitrary, Duration, Effect, Redacted, Result, Schema } from "effect"
import { AgentDefinition, ToolContract, type PayloadError } from "effect-emissary"
import { type Json, JsonSchema } from "effect-emissary/payload"
import { Re2 } from "effect-emissary/re2"
import { Arbitraries } from "effect-emissary/testing"
import { failsFor } from "../outcomes.ts"
import { test } from "../test.ts"

const parameters = {
  type: "object",
  properties: { id: { type: "string" } },
  required: ["id"],
  additionalProperties: false
} as const

const tool = (options: Partial<Parameters<typeof ToolContract.make>[0]> = {}) =>
  ToolContract.make({ name: "get_order", description: "Look up an order", parameters, ...options })

const issuesOf = (error: PayloadError.PayloadError | PayloadError.LossyEncoding) =>
  error._tag === "PayloadError" && error.reason._tag === "Invalid"
    ? error.reason.issues.map((issue) => issue.path)
    : error._tag === "PayloadError"
      ? error.reason._tag
      : error.losses.map((loss) => loss.path)

const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

describe("AgentDefinition.make", () => {
  test("CODEC-1 fills in defaults", function* () {
    assert.deepStrictEqual(yield* AgentDefinition.make({}), { modelOptions: {}, maxSteps: 16, tools: [] })
    const definition = yield* AgentDefinition.make({ output: { schema: { type: "object" } } })
    assert.strictEqual(definition.output?.strategy, "native")
  })

  test("CODEC-1 L4 reports every problem at once, each with its path", function* () {
    const order = yield* tool()
    const error = yield* AgentDefinition.make({
      name: " ",
      model: "gpt-4o",
      instructions: "\n",
      maxSteps: 1.5,
      output: { schema: { type: "date" } },
      tools: [
        order,
        { ...order, timeout: Duration.micros(1500n) },
        { ...order, name: "", description: " ", digest: "sk-no-digest" },
        { ...order, name: "odd", parameters: { type: "object", unevaluatedItems: true } }
      ]
    }).pipe(Effect.flip)
    assert.sameMembers(Array.from(issuesOf(error)), [
      "/name",
      "/model",
      "/instructions",
      "/maxSteps",
      "/output/schema/type",
      "/tools/1/name",
      "/tools/1/timeout",
      "/tools/1/digest",
      "/tools/2/name",
      "/tools/2/description",
      "/tools/2/digest",
      "/tools/3/parameters/unevaluatedItems",
      "/tools/3/digest"
    ])
    assert.include(error.message, `"gpt-4o"`)
    // A digest may be shown, and other text in its place not (L2)
    const { message } = yield* Effect.flip(AgentDefinition.make({ tools: [{ ...order, digest: "sk-no-digest" }] }))
    assert.match(message, /at \/tools\/0\/digest: expected the digest .*, got another text\. Leave/)
  })

  test("L2 refuses inherited names of tools and too many tools", function* () {
    const order = yield* tool()
    yield* failsFor("ForbiddenKey", AgentDefinition.make({ tools: [{ ...order, name: "toString" }] }))
    const tools = yield* Effect.forEach(Array.from({ length: 257 }), (_, i) => tool({ name: `t${i}` }))
    yield* failsFor("TooLarge", AgentDefinition.make({ tools }))
  })
})

describe("AgentDefinition.codec.encode", () => {
  test("CODEC-2 writes version 2 unless asked, everything in it", function* () {
    const order = yield* tool({
      success: { type: "string" },
      failure: { type: "object" },
      timeout: "Infinity",
      approval: "dynamic",
      annotations: { title: "Order", readonly: true, openWorld: false, strict: true }
    })
    const definition = yield* AgentDefinition.make({
      name: "support",
      model: "openai/gpt-5.2",
      instructions: "Help.",
      modelOptions: { temperature: 0.2 },
      maxSteps: "unlimited",
      output: { schema: { type: "object" }, strategy: "tool" },
      reasoning: "xhigh",
      tools: [order]
    })
    const wire = yield* AgentDefinition.codec.encode(definition)
    assert.deepStrictEqual(wire, {
      schema_version: 2,
      name: "support",
      model: "openai/gpt-5.2",
      instructions: "Help.",
      model_options: { temperature: 0.2 },
      max_steps: "unlimited",
      reasoning: "xhigh",
      output: { schema: { type: "object" }, strategy: "tool" },
      tools: [
        {
          name: "get_order",
          description: "Look up an order",
          parameters,
          success: { type: "string" },
          failure: { type: "object" },
          timeout: "infinity",
          approval: "dynamic",
          annotations: { title: "Order", readonly: true, open_world: false, strict: true },
          digest: order.digest
        }
      ]
    })
    assert.deepStrictEqual(yield* AgentDefinition.codec.decode(wire), definition)
  })

  test("CODEC-2 PAY-B version 1 names what it would lose, and loses what is allowed", function* () {
    const order = yield* tool({ success: {}, failure: {}, approval: "always", annotations: { readonly: true } })
    const definition = yield* AgentDefinition.make({
      model: "a/b",
      output: { schema: { ...parameters, title: "T" }, strategy: "tool" },
      tools: [yield* tool({ name: "plain" }), order]
    })
    const error = yield* Effect.flip(AgentDefinition.codec.encode(definition, { version: 1 }))
    const paths = [
      "/output/strategy",
      "/output/schema/title",
      "/tools/1/success",
      "/tools/1/failure",
      "/tools/1/approval",
      "/tools/1/annotations"
    ]
    assert.deepStrictEqual(issuesOf(error), paths)
    const some = yield* Effect.flip(
      AgentDefinition.codec.encode(definition, { version: 1, allowLoss: ["/output/strategy", "/tools/*/success"] })
    )
    assert.deepStrictEqual(issuesOf(some), ["/output/schema/title", ...paths.slice(3)])
    const wire = yield* AgentDefinition.codec.encode(definition, {
      version: 1,
      allowLoss: paths.map((path) => path.replace(/\d+/, "*"))
    })
    assert.strictEqual(wire["structured_output_strategy"], "native")
    const losses = error._tag === "LossyEncoding" ? error.losses : []
    assert.deepStrictEqual(yield* AgentDefinition.codec.encode(definition, { version: 1, allowLoss: losses }), wire)
  })

  test("MEND-10 W1 version 1 names each part of an output that Riffer refuses or reads as less", function* () {
    const lost = Effect.fnUntraced(function* (schema: Json.JsonObject) {
      const definition = yield* AgentDefinition.make({ model: "a/b", output: { schema } })
      const written = yield* Effect.result(AgentDefinition.codec.encode(definition, { version: 1 }))
      return Result.isSuccess(written) ? [] : issuesOf(written.failure)
    })
    const closed = (properties: Json.JsonObject, more: Json.JsonObject = {}) => ({
      type: "object",
      properties,
      required: Object.keys(properties),
      additionalProperties: false,
      ...more
    })
    const text = { type: "string" }
    const at = "/output/schema"
    const cases: ReadonlyArray<readonly [Json.JsonObject, ReadonlyArray<string>]> = [
      // Riffer's own forms
      [closed({}), []],
      [closed({ a: { type: "string", description: "d", enum: ["x"], default: "x" } }), []],
      [closed({ a: { type: ["integer", "null"] } }, { required: [] }), []],
      [closed({ a: { type: "object" }, b: { type: "array" }, c: { type: "array", items: text } }), []],
      [closed({ a: closed({ b: { type: "array", items: closed({ c: { type: "boolean" } }) } }) }), []],
      [closed({ a: { type: "array", items: { type: "object" } } }), []],
      // schemas that Riffer refuses
      [closed({ a: { anyOf: [text, { type: "integer" }] } }), [`${at}/properties/a`]],
      [closed({ a: { type: ["string", "integer"] } }), [`${at}/properties/a`]],
      [closed({ a: { type: "null" } }), [`${at}/properties/a`]],
      [closed({ a: {} }), [`${at}/properties/a`]],
      [closed({ a: { type: "array", items: { enum: ["x"] } } }), [`${at}/properties/a/items`]],
      [{ $ref: "#/$defs/a", $defs: { a: closed({}) } }, [at]],
      // schemas that it reads in part
      [closed({ a: { type: ["string", "null"] } }), [`${at}/properties/a/type`]],
      [closed({ "a/b": { type: "string", minLength: 1 } }), [`${at}/properties/a~1b/minLength`]],
      [text, [`${at}/type`]],
      [{ type: "array", items: text }, [`${at}/type`]],
      [{ type: "object" }, [`${at}/additionalProperties`]],
      [closed({ a: { type: "object", additionalProperties: text } }), [`${at}/properties/a/additionalProperties`]],
      // an object without properties is closed for Riffer (RIGHT-21)
      [closed({ a: closed({}) }), []],
      [closed({ a: { type: "object", properties: {} } }), [`${at}/properties/a/additionalProperties`]],
      [closed({ a: closed({ b: text }, { additionalProperties: true }) }), [`${at}/properties/a/additionalProperties`]],
      [closed({ a: { type: "array", items: { type: "array", items: text } } }), [`${at}/properties/a/items/type`]],
      [closed({ a: { type: "array", items: { ...text, enum: ["x"] } } }), [`${at}/properties/a/items/enum`]],
      [closed({ a: { type: "array", items: { type: ["string", "null"] } } }), [`${at}/properties/a/items/type`]],
      [closed({ a: { type: "array", prefixItems: [text] } }), [`${at}/properties/a/prefixItems`]],
      [closed({ a: text }, { required: ["a", "b"] }), [`${at}/required`]],
      [closed({}, { description: "d" }), [`${at}/description`]]
    ]
    for (const [schema, paths] of cases) assert.deepStrictEqual(yield* lost(schema), [...paths], JSON.stringify(schema))
    const number = JsonSchema.fromSchema(Schema.Struct({ a: Schema.Number }))
    assert.deepStrictEqual(yield* lost(yield* number), [`${at}/properties/a`])
    const definition = yield* AgentDefinition.make({ model: "a/b", output: { schema: text } })
    const wire = yield* AgentDefinition.codec.encode(definition, { version: 1, allowLoss: ["/output/schema/**"] })
    assert.deepStrictEqual(wire["structured_output"], text)
  })

  test("MEND-10 W8 a whole number of a model option that is not exact is refused", function* () {
    const seed = JSON.parse("12345678901234567891")
    const modelOptions = { seed, temperature: 0.5, openai: { top: [1, seed] }, max_tokens: Number.MAX_SAFE_INTEGER }
    const error = yield* Effect.flip(AgentDefinition.make({ modelOptions }))
    assert.deepStrictEqual(issuesOf(error), ["/modelOptions/seed", "/modelOptions/openai/top/1"])
    for (const version of [1, 2]) {
      const wire = { schema_version: version, model: "a/b", model_options: { seed } }
      const refused = yield* Effect.flip(AgentDefinition.codec.decode(wire))
      assert.deepStrictEqual(issuesOf(refused), ["/model_options/seed"])
    }
  })

  test("CODEC-1 TOOL-1 version 1 refuses everything it has no form for, with a path", function* () {
    const forever = yield* tool({ timeout: "Infinity" })
    const silent: ToolContract.ToolContract = yield* ToolContract.make({ name: "silent", parameters })
    const definition = yield* AgentDefinition.make({ tools: [forever, silent] })
    const error = yield* Effect.flip(AgentDefinition.codec.encode(definition, { version: 1, allowLoss: ["/**"] }))
    assert.sameMembers(Array.from(issuesOf(error)), ["/model", "/tools/0/timeout", "/tools/1/description"])
    assert.include(error.message, "infinity")
  })

  test("L8 CODEC-5 secrets never encode, whatever the version", function* () {
    for (const version of [1, 2]) {
      const keyed = yield* AgentDefinition.make({
        model: "a/b",
        modelOptions: { headers: { Authorization: "Bearer x" } }
      })
      const error = yield* Effect.flip(AgentDefinition.codec.encode(keyed, { version }))
      assert.strictEqual(issuesOf(error), "Secret")
      assert.include(error.message, "/model_options/headers/Authorization")
      assert.notInclude(error.message, "Bearer")
      // a caller without types may do this
      const redacted: AgentDefinition.AgentDefinition = {
        ...keyed,
        modelOptions: { seed: Redacted.make("sk") as never }
      }
      assert.strictEqual(issuesOf(yield* Effect.flip(AgentDefinition.codec.encode(redacted, { version }))), "Secret")
    }
  })

  test("L8 names of parameters are no secrets", function* () {
    const login = yield* tool({
      parameters: { type: "object", properties: { password: { type: "string" } }, additionalProperties: false }
    })
    const definition = yield* AgentDefinition.make({
      model: "a/b",
      modelOptions: { max_tokens: 1, prompt_cache_key: "k" },
      output: {
        schema: { type: "object", properties: { secret: { type: "string" } }, additionalProperties: false }
      },
      tools: [login]
    })
    for (const version of [1, 2]) {
      const wire = yield* AgentDefinition.codec.encode(definition, { version })
      assert.deepStrictEqual(yield* AgentDefinition.codec.decode(wire), definition)
    }
  })

  test("L2 a value that is no longer well-formed is refused on the way out", function* () {
    const definition = yield* AgentDefinition.make({ model: "a/b" })
    const forbidden = JSON.parse(`{"__proto__":{"x":1}}`)
    const error = yield* Effect.flip(AgentDefinition.codec.encode({ ...definition, modelOptions: forbidden }))
    assert.strictEqual(issuesOf(error), "ForbiddenKey")
    assert.deepStrictEqual(
      issuesOf(yield* Effect.flip(AgentDefinition.codec.encode({ ...definition, maxSteps: -1 }))),
      ["/max_steps"]
    )
  })
})

describe("AgentDefinition laws", () => {
  test.prop("L3 version 2: decode is the inverse of encode", [Arbitraries.agentDefinition()], function* ([definition]) {
    const decoded = yield* Effect.flatMap(AgentDefinition.codec.encode(definition), AgentDefinition.codec.decode)
    assert.deepStrictEqual(json(decoded), json(definition))
    const fromText = yield* Effect.flatMap(
      AgentDefinition.codec.encodeJson(definition),
      AgentDefinition.codec.decodeJson
    )
    assert.deepStrictEqual(json(fromText), json(definition))
  })

  test.prop(
    "L3 version 1: decode is the inverse of encode, where nothing is lost",
    [Arbitraries.agentDefinition({ version1: true })],
    function* ([definition]) {
      const wire = yield* AgentDefinition.codec.encode(definition, { version: 1 })
      assert.deepStrictEqual(json(yield* AgentDefinition.codec.decode(wire)), json(definition))
    }
  )

  /** Version 1 requires a model, descriptions and finite timeouts. */
  const expressible = Arbitrary.map(Arbitraries.agentDefinition(), (definition) => ({
    ...definition,
    model: definition.model ?? "openai/gpt-5.2",
    tools: definition.tools.map(({ agent, ...tool }) => ({
      ...Effect.runSync(
        ToolContract.make({
          ...tool,
          description: tool.description ?? "A tool",
          timeout: agent !== undefined || Duration.isFinite(tool.timeout) ? tool.timeout : Duration.seconds(1)
        })
      ),
      ...(agent === undefined ? {} : { agent })
    }))
  }))

  /** The definition without what is named as lost. */
  const without = (definition: AgentDefinition.AgentDefinition, losses: ReadonlyArray<PayloadError.Loss>) => {
    const lost = new Set(losses.map((loss) => loss.path))
    const { output, ...rest } = definition
    const kept = Object.entries(rest).filter(([name]) => !lost.has(`/${name}`))
    const tools = Effect.forEach(definition.tools, ({ agent: _, request, ...tool }, i) =>
      ToolContract.make({
        ...tool,
        request: lost.has(`/tools/${i}/request`) ? undefined : request,
        timeout: lost.has(`/tools/${i}/agent`) ? Duration.seconds(10) : tool.timeout,
        success: lost.has(`/tools/${i}/success`) ? undefined : tool.success,
        failure: lost.has(`/tools/${i}/failure`) ? undefined : tool.failure,
        approval: lost.has(`/tools/${i}/approval`) ? "never" : tool.approval,
        annotations: lost.has(`/tools/${i}/annotations`) ? {} : tool.annotations
      })
    )
    return Effect.map(tools, (tools) => ({
      ...Object.fromEntries(kept),
      ...(output === undefined ? {} : { output }),
      ...(output !== undefined && lost.has("/output/strategy") ? { output: { ...output, strategy: "native" } } : {}),
      tools
    }))
  }

  test.prop("L3 version 1 loses exactly the listed losses", [expressible], function* ([definition]) {
    const written = yield* Effect.result(AgentDefinition.codec.encode(definition, { version: 1 }))
    const losses = written._tag === "Failure" && written.failure._tag === "LossyEncoding" ? written.failure.losses : []
    const wire = yield* AgentDefinition.codec.encode(definition, { version: 1, allowLoss: losses })
    assert.deepStrictEqual(json(yield* AgentDefinition.codec.decode(wire)), json(yield* without(definition, losses)))
  })

  test.prop("L3 the digest depends on the content only", [Arbitraries.agentDefinition()], function* ([definition]) {
    const digest = yield* AgentDefinition.digest(definition)
    assert.match(digest, /^sha256:[0-9a-f]{64}$/u)
    const again = yield* Effect.flatMap(
      AgentDefinition.codec.encodeJson(definition, { indent: 2 }),
      AgentDefinition.codec.decodeJson
    )
    assert.strictEqual(yield* AgentDefinition.digest(again), digest)
    const other = yield* AgentDefinition.make({ ...definition, maxSteps: 987_654_321 })
    assert.notStrictEqual(yield* AgentDefinition.digest(other), digest)
  })

  test("L3 L8 the digest covers every part and refuses secrets", function* () {
    const base: AgentDefinition.AgentDefinition = yield* AgentDefinition.make({
      name: "n",
      model: "a/b",
      instructions: "i",
      modelOptions: { seed: 1 },
      output: { schema: { type: "object" } },
      reasoning: "low",
      tools: [yield* tool()]
    })
    const variants: ReadonlyArray<AgentDefinition.AgentDefinition> = [
      base,
      { ...base, name: "m" },
      { ...base, model: "a/c" },
      { ...base, instructions: "j" },
      { ...base, modelOptions: { seed: 2 } },
      { ...base, maxSteps: 17 },
      { ...base, output: { schema: { type: "array" }, strategy: "native" } },
      { ...base, output: { schema: { type: "object" }, strategy: "tool" } },
      { ...base, reasoning: "high" },
      { ...base, perRun: ["model"] },
      { ...base, retry: { times: 1 } },
      { ...base, timeouts: { chunkMillis: 1 } },
      { ...base, toolChoice: "required" },
      { ...base, concurrency: 2 },
      { ...base, tools: [{ ...(yield* tool({ timeout: "Infinity" })), agent: base }] },
      { ...base, tools: [{ ...(yield* tool({ timeout: "Infinity" })), agent: { ...base, maxSteps: 2 } }] },
      { ...base, tools: [] },
      { ...base, tools: [yield* tool({ description: "Other" })] },
      { ...base, tools: [yield* tool({ timeout: 1 })] },
      { ...base, tools: [yield* tool({ approval: "always" })] },
      { ...base, tools: [yield* tool({ annotations: { readonly: true } })] },
      { ...base, tools: [yield* tool({ success: {} })] }
    ]
    const digests = yield* Effect.forEach(variants, AgentDefinition.digest)
    assert.strictEqual(new Set(digests).size, variants.length)
    yield* failsFor("Secret", AgentDefinition.digest({ ...base, modelOptions: { api_key: "k" } }))
  })

  test("L3 the wire is a Schema that can be embedded", function* () {
    const Stored = Schema.Struct({ id: Schema.Int, agent: AgentDefinition.codec.schema })
    const agent = yield* AgentDefinition.make({ model: "a/b", tools: [yield* tool()] })
    const encoded = yield* Schema.encodeEffect(Stored)({ id: 1, agent })
    assert.deepStrictEqual(yield* Schema.decodeEffect(Stored)(encoded), { id: 1, agent })
    const error = yield* Effect.flip(Schema.decodeEffect(Stored)({ id: 1, agent: { schema_version: 1, model: "x" } }))
    assert.include(error.message, "model")
  })

  test("TRUST-3 the patterns of a whole definition share its fuel", Re2.layer, function* () {
    const heavy = (n: number) => ({
      type: "object",
      properties: { a: { type: "string", pattern: `^(\\p{L}{1,900}${n})$` } }
    })
    const tools = Array.from({ length: 60 }, (_, n) => ({
      name: `t${n}`,
      description: "d",
      parameters_schema: heavy(n)
    }))
    const wire = { schema_version: 1, model: "mock/m", tools }
    const error = yield* Effect.flip(AgentDefinition.codec.decode(wire))
    assert(error.reason._tag === "TooLarge")
    assert.strictEqual(error.reason.what, "fuel")
    assert.match(error.reason.path, /^\/tools\/\d+\/parameters/)
    assert.match(error.message, /expected at most 600000 units of fuel.*Send less, or raise maxFuel/)
    yield* AgentDefinition.codec.decode({ ...wire, tools: tools.slice(0, 10) })
  })

  test("CODEC-1 a tool without a digest gets it, or is refused where its contract has none", function* () {
    const decode = (part: object) =>
      AgentDefinition.codec.decode({ schema_version: 2, tools: [{ name: "get_order", parameters, ...part }] })
    const digestsOf = Effect.fnUntraced(function* (part: Partial<Parameters<typeof ToolContract.make>[0]>) {
      const made = yield* tool({ description: undefined, ...part })
      const decoded = (yield* decode(part)).tools[0]
      assert.isDefined(decoded)
      assert.deepStrictEqual(decoded, made)
      assert.sameMembers(Object.keys(decoded), Object.keys(made))
      // Also once it was read, and of a copy
      assert.deepStrictEqual([decoded.digest, { ...decoded }.digest], [made.digest, made.digest])
      const approved = { ...decoded, approval: "always" } as const
      assert.notStrictEqual(yield* ToolContract.digest(approved), made.digest)
    })
    yield* digestsOf({})
    yield* digestsOf({ success: parameters, failure: { type: "null" }, annotations: { title: "T", readonly: true } })
    yield* digestsOf({ parameters: { ...parameters, description: String.raw`\ud800 and \"` } })

    const lone = "\ud83d"
    for (const [part, place] of [
      [{ name: lone }, "/name"],
      [{ parameters: { ...parameters, description: lone } }, "/parameters/description"],
      [{ parameters: { ...parameters, properties: { [lone]: {} } } }, "/parameters/properties"],
      [{ success: { title: lone } }, "/success/title"],
      [{ failure: { title: lone } }, "/failure/title"],
      [{ annotations: { title: lone } }, "/annotations/title"]
    ] as const) {
      const { reason } = yield* failsFor("Invalid", decode(part))
      assert.strictEqual(reason.issues.length, 1)
      assert.deepInclude(reason.issues[0], { path: "/tools/0", expected: "a contract that has a digest" })
      assert.include(reason.issues[0]?.found, `canonical JSON at ${place}`)
    }
  })
})

describe("RIGHT-22 names of tools and agents", () => {
  const hidden = ["p\u0430y", "pay\u200b", "\u202eyap", "pay\n", "pay\u0000", "p\u2028ay", "\u03c1ay"]
  for (const name of hidden) {
    test(`${JSON.stringify(name)} is refused, and the message shows the character`, function* () {
      const ofTool = yield* Effect.flip(AgentDefinition.make({ tools: [yield* tool({ name })] }))
      assert.deepStrictEqual(issuesOf(ofTool), ["/tools/0/name"])
      const ofAgent = yield* Effect.flip(AgentDefinition.make({ name }))
      assert.deepStrictEqual(issuesOf(ofAgent), ["/name"])
      assert.notMatch(ofAgent.message, /[\u200b\u202e\u2028]/)
    })
  }
  for (const name of [
    "pay",
    "mcp/search",
    "\u043e\u043f\u043b\u0430\u0442\u0430",
    "\u652f\u6255 pay",
    "get_order \u2603"
  ]) {
    test(`${name} is taken`, function* () {
      yield* AgentDefinition.make({ name: name.replace("/", " "), tools: [yield* tool({ name })] })
    })
  }
})

describe("MONEY-7 AgentDefinition.diff", () => {
  test("names each change by its place, and whether runs under way break", function* () {
    const inner = (name: string) => AgentDefinition.make({ name, instructions: "Judge." })
    const asking = tool({ name: "ask", timeout: "Infinity" })
    const base = { model: "test/a", modelOptions: { temperature: 0, top_p: 1 }, retry: { times: 2 } }
    const was = yield* AgentDefinition.make({
      ...base,
      tools: [
        yield* tool(),
        yield* tool({ name: "gone" }),
        { ...(yield* asking), agent: yield* inner("critic") },
        yield* tool({ name: "poll" })
      ]
    })
    const stricter = {
      ...parameters,
      properties: { ...parameters.properties, at: { type: "string" } },
      required: ["id", "at"]
    }
    const now = yield* AgentDefinition.make({
      ...base,
      modelOptions: { temperature: 1, top_p: 1 },
      retry: { times: 3 },
      repeatedCalls: "unlimited",
      tools: [
        yield* tool({ name: "new" }),
        yield* tool({ parameters: stricter, timeout: "1 minute" }),
        { ...(yield* asking), agent: yield* inner("judge") },
        yield* tool({ name: "poll", annotations: { polls: true } })
      ]
    })
    assert.deepStrictEqual(
      AgentDefinition.diff(was, now).map(({ breaking, path }) => [path, breaking]),
      [
        ["/modelOptions/temperature", false],
        ["/retry/times", false],
        ["/repeatedCalls", false],
        ["/tools/get_order/parameters/properties/at", false],
        ["/tools/get_order/parameters/required", true],
        ["/tools/get_order/timeout", false],
        ["/tools/gone", true],
        ["/tools/ask/agent/name", true],
        ["/tools/poll/annotations/polls", false],
        ["/tools/new", false]
      ]
    )
  })

  test.prop(
    "is empty for a definition that was written and read, and not for another digest of its head",
    [Arbitraries.agentDefinition(), Arbitraries.agentDefinition()],
    function* ([one, other]) {
      const again = yield* Effect.flatMap(AgentDefinition.codec.encode(one), AgentDefinition.codec.decode)
      assert.deepStrictEqual(AgentDefinition.diff(one, again), [])
      const withTools = { ...other, tools: one.tools }
      const [was, now] = [yield* AgentDefinition.digest(one), yield* AgentDefinition.digest(withTools)]
      assert.strictEqual(AgentDefinition.diff(one, withTools).length === 0, was === now)
    },
    { arbitrary: { runs: 60 } }
  )
})
