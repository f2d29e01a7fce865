import { assert, describe } from "@effect/vitest"
import { Duration, Effect, Layer, Option, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import { ToolContract, ToolFailure, ToolResolver, ToolResult, ToolRuntime } from "effect-emissary"
import { call, kind } from "./support.ts"
import { pluck } from "../pluck.ts"
import { test, testWith } from "../test.ts"

const Weather = Tool.make("weather", {
  description: "Today's weather",
  parameters: Schema.Struct({
    city: Schema.String.annotate({ description: "Where" }),
    days: Schema.optionalKey(Schema.Int),
    unit: Schema.Literals(["c", "f"])
  }),
  success: Schema.Struct({ degrees: Schema.Int }),
  failure: ToolFailure
})

const Pay = Tool.make("pay", {
  parameters: Schema.Struct({ amount: Schema.Int }),
  needsApproval: ({ amount }) => amount > 10
})

const toolkit = Toolkit.make(Weather, Pay)

const layer = ToolResolver.layerToolkit(toolkit).pipe(
  Layer.provide(
    toolkit.toLayer({ weather: ({ city }) => Effect.succeed({ degrees: city.length }), pay: () => Effect.void })
  )
)

const resolve = (contract: ToolContract.ToolContract) =>
  Effect.flatMap(ToolResolver.ToolResolver, (resolver) => resolver.resolve(contract))

const weather = Effect.orDie(ToolContract.fromTool(Weather))

type Change = (parameters: { readonly [key: string]: Schema.Json }) => { readonly [key: string]: Schema.Json }

const changed = (change: Change) =>
  Effect.flatMap(weather, (contract) =>
    Effect.orDie(ToolContract.make({ ...contract, parameters: change(structuredClone(contract.parameters)) }))
  )

const text = (json: Schema.Json) => JSON.stringify(json)

describe("CODEC-3 ToolResolver.layerToolkit", () => {
  const parameters = {
    type: "object",
    properties: { not: { not: { $ref: "#" } }, n: { type: "integer" } },
    additionalProperties: false
  } as const
  const kit = Toolkit.make(Tool.dynamic("odd", { parameters, success: Schema.String }))
  const odd = ToolResolver.layerToolkit(kit).pipe(Layer.provide(kit.toLayer({ odd: () => Effect.succeed("") })))

  test("MEND-12 a contract that did not change binds, whatever its schema", odd, function* () {
    const contract = yield* ToolContract.make({ name: "odd", parameters: JSON.parse(JSON.stringify(parameters)) })
    assert.strictEqual((yield* resolve(contract)).contract.name, "odd")
    assert.deepStrictEqual(ToolContract.compare(contract, yield* ToolContract.make({ name: "odd", parameters })), [])
  })

  test("binds by name: the contract's words, the code of the tool here", layer, function* () {
    const words = { description: "in other words" }
    const bound = yield* resolve(yield* ToolContract.make({ ...(yield* weather), ...words }))
    assert.strictEqual(bound.kind, "local")
    assert.strictEqual(bound.contract.description, "in other words")
    const result = yield* call(yield* boundTool.makeSet([bound]), "weather", { city: "Rome", unit: "c" })
    assert.deepStrictEqual(result, ToolResult.success({ degrees: 4 }))
  })

  test("the order of keys and words for people do not count", layer, function* () {
    const contract = yield* changed((parameters) => {
      const reversed = Object.fromEntries(Object.entries(parameters).toReversed())
      const other = { title: "Weather", ...reversed, required: ["unit", "city"] }
      return JSON.parse(text(other).replace(`"Where"`, `"Where else"`))
    })
    assert.strictEqual((yield* resolve(contract)).kind, "local")
  })

  test("a property named description is not a word for people", layer, function* () {
    const contract = yield* changed((parameters) =>
      JSON.parse(text(parameters).replace(`"properties":{`, `"properties":{"description":{"type":"string"},`))
    )
    const error = yield* Effect.flip(resolve(contract))
    assert.deepInclude(error.reason, { _tag: "ContractMismatch", part: "parameters", path: "/properties/description" })
  })

  const misfits: ReadonlyArray<readonly [string, Change]> = [
    ["/properties/city/type", (p) => JSON.parse(text(p).replace(`"type":"string"`, `"type":"integer"`))],
    ["/required", (p) => ({ ...p, required: ["city"] })],
    ["/additionalProperties", (p) => ({ ...p, additionalProperties: true })],
    ["/properties/unit/enum", (p) => JSON.parse(text(p).replace(`"f"]`, `"k"]`))]
  ]
  for (const [path, change] of misfits) {
    test(`refuses a contract that differs at ${path}`, layer, function* () {
      const error = yield* Effect.flip(Effect.flatMap(changed(change), resolve))
      assert(error.reason._tag === "ContractMismatch")
      assert.include(error.reason.path, path)
      assert.include(error.message, path)
    })
  }

  const optional = (p: Parameters<Change>[0]) => JSON.parse(text(p).replace(/"days":.*?\},(?="unit")/u, ""))
  test(
    "DUR-10 a tool here with one more optional parameter binds, and takes what the contract has",
    layer,
    function* () {
      const contract = yield* changed(optional)
      assert.notInclude(text(contract.parameters), "days")
      const bound = yield* resolve(contract)
      assert.notInclude(text(bound.contract.parameters), "days")
      const set = yield* boundTool.makeSet([bound])
      assert.deepStrictEqual(
        yield* call(set, "weather", { city: "Rome", unit: "c" }),
        ToolResult.success({ degrees: 4 })
      )
    }
  )

  test("DUR-10 a contract with wider results binds, one with narrower results does not", layer, function* () {
    const own = yield* weather
    const degrees = (type: Schema.Json) => ({ ...own.success, properties: { degrees: { type } } })
    assert.strictEqual((yield* resolve(yield* ToolContract.make({ ...own, success: degrees("number") }))).kind, "local")
    const narrow = yield* ToolContract.make({ ...own, success: degrees("null") })
    const { reason } = yield* Effect.flip(resolve(narrow))
    assert.deepInclude(reason, { _tag: "ContractMismatch", part: "success", path: "/properties/degrees/type" })
  })

  test("result schemas count where the contract carries them", layer, function* () {
    const { failure: _failure, success: _success, ...bare } = yield* weather
    assert.strictEqual((yield* resolve(bare)).kind, "local")
    for (const part of ["success", "failure"] as const) {
      const { reason } = yield* Effect.flip(resolve({ ...bare, [part]: { type: "string" } }))
      assert.deepInclude(reason, { _tag: "ContractMismatch", part, path: "/type" })
    }
  })

  test("L1 an unknown name is reported with the known names", layer, function* () {
    for (const name of ["forecast", "constructor_"]) {
      const contract = yield* ToolContract.make({ name, parameters: {} })
      const error = yield* Effect.flip(resolve(contract))
      assert.deepStrictEqual(error.reason, { _tag: "UnknownTool", available: ["weather", "pay"] })
      assert.include(error.message, "weather, pay")
    }
  })

  test("TRUST-2 the shorter timeout and the annotations of the tool here count", layer, function* () {
    const own = yield* weather
    const timeouts = ["3 seconds", "10 seconds", "1 hour", Duration.infinity] as const
    const bound = yield* Effect.forEach(timeouts, (timeout) =>
      Effect.flatMap(ToolContract.make({ ...own, timeout, annotations: { idempotent: true, strict: true } }), resolve)
    )
    const seconds = bound.map(({ contract }) => Duration.toSeconds(contract.timeout))
    assert.deepStrictEqual(seconds, [3, 10, 10, 10])
    for (const { contract } of bound) {
      assert.deepStrictEqual(contract.annotations, own.annotations)
      assert.strictEqual(contract.digest, yield* ToolContract.digest(contract))
    }
  })

  const dependent = {
    type: "object",
    properties: { title: { type: "string" }, body: { type: "string" } },
    dependentRequired: { title: ["body"] }
  }
  const Note = Tool.dynamic("note", { parameters: dependent, success: Schema.Json })
  const noting = Toolkit.make(Note)
  const notes = ToolResolver.layerToolkit(noting).pipe(
    Layer.provide(noting.toLayer({ note: () => Effect.succeed("ok") }))
  )

  test("TRUST-2 dependentRequired of title is compared: a name is no word for people", notes, function* () {
    const contract = yield* ToolContract.make({ name: "note", parameters: { ...dependent, dependentRequired: {} } })
    const error = yield* Effect.flip(resolve(contract))
    assert.deepInclude(error.reason, { _tag: "ContractMismatch", path: "/dependentRequired" })
  })

  for (const [what, here, there, path] of [
    ["const", { const: { title: 1 } }, { const: { title: 2 } }, "/const"],
    ["default", { default: { title: 1 } }, { default: { title: 2 } }, "/default"],
    ["enum", { enum: [{ title: 1 }] }, { enum: [{ title: 2 }] }, "/enum"],
    ["nested const", { const: { properties: { title: 1 } } }, { const: { properties: {} } }, "/const"],
    ["an array for an object", { const: ["a"] }, { const: { 0: "a" } }, "/const"],
    ["a number for an object", { const: {} }, { const: 1 }, "/const"],
    ["an object for a number", { const: 1 }, { const: {} }, "/const"],
    ["a member of const", { const: { a: { title: 1 } } }, { const: { a: { title: 2 } } }, "/const"],
    ["a property named const", { properties: { const: { title: 1 } } }, { properties: { const: {} } }, undefined],
    ["a schema whose default is null", { default: null, title: "A" }, { default: null }, undefined],
    ["property", { properties: { a: { title: "A" } } }, { properties: { a: { title: "B" } } }, undefined],
    ["alternative", { anyOf: [{ title: "A" }] }, { anyOf: [{ title: "B" }] }, undefined],
    ["negation", { not: { type: "null", title: "A" } }, { not: { type: "null" } }, undefined]
  ] as const) {
    const tool = Tool.dynamic("note", { parameters: { type: "object", properties: { p: here } }, success: Schema.Json })
    const kit = Toolkit.make(tool)
    test(
      `TRUST-2 title in ${what} is ${path === undefined ? "a word for people" : "compared"}`,
      ToolResolver.layerToolkit(kit).pipe(Layer.provide(kit.toLayer({ note: () => Effect.succeed("ok") }))),
      function* () {
        const parameters = { type: "object", properties: { p: there } }
        const bound = yield* Effect.result(resolve(yield* ToolContract.make({ name: "note", parameters })))
        const found = Result.isFailure(bound) ? bound.failure.reason : undefined
        assert.strictEqual(found?._tag === "ContractMismatch" ? found.path : undefined, path && `/properties/p${path}`)
      }
    )
  }

  test("TRUST-2 arguments have to fit the parameters of the tool here, then those of the contract", function* () {
    const tool = Tool.dynamic("note", {
      parameters: { type: "object", properties: { n: { type: "integer", default: 7 } } }
    })
    const seen: Array<unknown> = []
    const handler = (args: unknown) => Effect.sync(() => seen.push(args))
    const found = yield* boundTool.handlerOf(tool).pipe(Effect.provide(Toolkit.make(tool).toLayer({ note: handler })))
    const bind = (parameters: object) =>
      Effect.gen(function* () {
        const contract = yield* ToolContract.make({ name: "note", parameters: { type: "object", ...parameters } })
        return yield* boundTool.makeSet([yield* boundTool.fromHandler(contract, tool, Option.getOrThrow(found))])
      })
    const weaker = yield* bind({ properties: { n: { type: ["integer", "string"], default: "x" } } })
    assert.strictEqual(kind(yield* call(weaker, "note", { n: "drop" })), "validation_error")
    yield* call(weaker, "note", {})
    const stricter = yield* bind({ properties: { n: { maximum: 6 } } })
    assert.strictEqual(kind(yield* call(stricter, "note", {})), "validation_error")
    assert.deepStrictEqual(seen, [{ n: 7 }])
  })

  test("TOOL-7 of two approvals the stricter one counts", layer, function* () {
    const pay = yield* ToolContract.fromTool(Pay)
    const ask = (approval: ToolContract.ToolContract["approval"], amount: number) =>
      Effect.flatMap(resolve({ ...pay, approval }), (bound) =>
        bound.needsApproval({ amount }, { callId: "1", context: {}, messages: [] })
      )
    assert.strictEqual((yield* resolve({ ...pay, approval: "never" })).contract.approval, "dynamic")
    assert.isTrue(yield* ask("never", 11))
    assert.isFalse(yield* ask("dynamic", 9))
    assert.isTrue(yield* ask("always", 9))
    const bound = yield* resolve({ ...(yield* weather), approval: "dynamic" })
    assert.isTrue(yield* bound.needsApproval({}, { callId: "1", context: {}, messages: [] }))
  })

  const Erase = Tool.make("erase", { needsApproval: true })
  const erasing = Toolkit.make(Erase)

  testWith(ToolResolver.layerToolkit(erasing).pipe(Layer.provide(erasing.toLayer({ erase: () => Effect.void }))))(
    "TOOL-7 a tool that always asks does so whatever the contract, which may come from a version without",
    function* () {
      const bound = yield* resolve({ ...(yield* ToolContract.fromTool(Erase)), approval: "never" })
      assert.isTrue(yield* bound.needsApproval({}, { callId: "1", context: {}, messages: [] }))
    }
  )
})

describe("CODEC-3 ToolResolver.layerStubs", () => {
  test("makes stubs that validate arguments and results", ToolResolver.layerStubs(), function* () {
    const set = yield* boundTool.makeSet([yield* resolve(yield* weather)])
    const runtime = ToolRuntime.layer({ dispatch: () => Effect.succeed(ToolResult.success({ degrees: "hot" })) })
    assert.strictEqual(kind(yield* call(set, "weather", { city: 1 })), "validation_error")
    const result = yield* call(set, "weather", { city: "Rome", unit: "c" }).pipe(Effect.provide(runtime))
    assert.strictEqual(kind(result), "execution_error")
    assert.include(ToolResult.text(result), "degrees")
  })

  type Approval = ToolContract.ToolContract["approval"]

  /** The approval of a stub for each contract: a tool asks for none, also only reads, decides by itself, or asks. */
  const floors: ReadonlyArray<readonly [string, ToolResolver.StubOptions | undefined, ReadonlyArray<Approval>]> = [
    ["by default unless it is read-only", undefined, ["always", "never", "dynamic", "always"]],
    ["unlessReadonly", { approval: "unlessReadonly" }, ["always", "never", "dynamic", "always"]],
    ["always", { approval: "always" }, ["always", "always", "dynamic", "always"]],
    ["payload", { approval: "payload" }, ["never", "never", "dynamic", "always"]],
    ["a function", { approval: ({ name }) => name !== "none" }, ["never", "always", "dynamic", "always"]]
  ]
  for (const [name, options, expected] of floors) {
    test(`TRUST-2 the host's floor of approvals: ${name}`, ToolResolver.layerStubs(options), function* () {
      const contracts = yield* Effect.forEach(
        [
          { name: "none" },
          { name: "reads", annotations: { readonly: true } },
          { name: "decides", approval: "dynamic" },
          { name: "asks", approval: "always" }
        ] as const,
        (contract) => ToolContract.make({ ...contract, parameters: {} })
      )
      const bound = yield* Effect.forEach(contracts, resolve)
      assert.deepStrictEqual(pluck(pluck(bound, "contract"), "approval"), expected)
      const asks = yield* Effect.forEach(bound, ({ needsApproval }) =>
        needsApproval({}, { callId: "1", context: {}, messages: [] })
      )
      assert.deepStrictEqual(
        asks,
        expected.map((approval) => approval !== "never")
      )
      for (const { contract } of bound) assert.strictEqual(contract.digest, yield* ToolContract.digest(contract))
    })
  }

  test("L1 each problem has its place in the message", function* () {
    const of = (reason: ToolResolver.BindError["reason"]) => new ToolResolver.BindError({ tool: "t", reason }).message
    const mismatch = { _tag: "ContractMismatch", part: "parameters", expected: "1", found: "2" } as const
    for (const [reason, text] of [
      [{ _tag: "UnknownTool", available: [] }, "expected a tool that is known here, but there are none"],
      [{ ...mismatch, path: "" }, "differs at the root: the contract has 1, the tool here 2"],
      [{ ...mismatch, path: "/a" }, "differs at /a: the contract has 1, the tool here 2"],
      [{ _tag: "InvalidContract", path: "", problem: "no" }, "its contract cannot be used: no"],
      [{ _tag: "InvalidContract", path: "/a", problem: "no" }, "its contract cannot be used (/a): no"]
    ] as const) {
      assert.include(of(reason), text)
    }
  })

  test("L1 an unknown tool is reported where there are none at all", function* () {
    const none = yield* boundTool.makeSet([])
    const result = yield* call(none, "x", {})
    assert.strictEqual(ToolResult.text(result), 'Unknown tool "x". There are no tools.')
  })

  test(
    "TRUST-2 the digest of a stub is that of its contract, whatever the contract claims",
    ToolResolver.layerStubs(),
    function* () {
      const real = yield* ToolContract.make({ name: "pay", parameters: {}, approval: "always" })
      const weaker = { ...real, approval: "never", annotations: { readonly: true } } as const
      const { contract } = yield* resolve(weaker)
      assert.strictEqual(contract.approval, "never")
      assert.strictEqual(contract.digest, yield* ToolContract.digest(weaker))
      assert.notStrictEqual(contract.digest, real.digest)
    }
  )

  test("refuses a contract that cannot be checked, with the place", ToolResolver.layerStubs(), function* () {
    const contract = yield* ToolContract.make({
      name: "t",
      parameters: { type: "object", properties: { a: { not: { type: "string" }, $dynamicRef: "#x" } } }
    })
    const error = yield* Effect.flip(resolve(contract))
    assert.strictEqual(error.reason._tag, "InvalidContract")
    assert.include(error.message, "/properties/a")
  })
})
