import { assert, describe, expect, it } from "@effect/vitest"
import { Effect, Redacted, Result, Schema } from "effect"
import { checkCount, resolveLimits } from "#src/payload/internal/limits.ts"
import { checkName, defined, inheritedNames, own } from "#src/payload/internal/values.ts"
import { Limits, PayloadError } from "effect-emissary"
import { Json } from "effect-emissary/payload"
import { test } from "../test.ts"

const decodeUnknown =
  <T>(codec: Schema.Decoder<T>) =>
  (input: unknown) =>
    Effect.flatMap(Json.check(input), Json.decode(codec))

const issuesOf = <A>(effect: Effect.Effect<A, PayloadError.PayloadError>) =>
  Effect.map(Effect.flip(effect), (error) => {
    assert(error.reason._tag === "Invalid", error.message)
    return error.reason.issues.map((issue) => [issue.path, issue.expected, issue.found])
  })

const Order = Schema.Struct({
  id: Schema.NonEmptyString,
  items: Schema.Array(Schema.Struct({ sku: Schema.String, qty: Schema.Int })),
  note: Schema.optionalKey(Schema.NullOr(Schema.String)),
  kind: Schema.Literals(["new", "used"])
})

describe("PAY-A Invalid", () => {
  test("PAY-A every place, with what was expected and the kind of what was found", function* () {
    const input = { id: "", items: [{ sku: 1, qty: 1.5 }, "x", { sku: "a" }], note: false, "a/b": 1, kind: "old" }
    assert.deepStrictEqual(yield* issuesOf(Json.decode(Order)(input)), [
      ["/a~1b", "no such key", "number"],
      ["/id", "a value with a length of at least 1", "string"],
      ["/items/0/sku", "string", "number"],
      ["/items/0/qty", "an integer", "number"],
      ["/items/1", "object", "string"],
      ["/items/2/qty", "a value", "nothing"],
      ["/note", "string | null", "boolean"],
      ["/kind", `"new" | "used"`, "string"]
    ])
  })

  test("PAY-A paths begin at the caller's path, the root is empty", function* () {
    assert.deepStrictEqual(yield* issuesOf(Json.decode(Schema.String)(1)), [["", "string", "number"]])
    const inner = Json.decode(Schema.Struct({ a: Schema.String }), { path: "/tools/0", what: "tool" })
    assert.deepStrictEqual(yield* issuesOf(inner({ a: [] })), [["/tools/0/a", "string", "array"]])
  })

  test("PAY-A undeclared keys are refused by default and left out on demand", function* () {
    const A = Schema.Struct({ a: Schema.Int })
    assert.deepStrictEqual(yield* issuesOf(Json.decode(A)({ a: 1, b: 2 })), [["/b", "no such key", "number"]])
    assert.deepStrictEqual(yield* Json.decode(A, { onExcessProperty: "ignore" })({ a: 1, b: 2 }), { a: 1 })
  })

  test("PAY-A issues are bounded, the others counted", function* () {
    const error = yield* Effect.flip(
      Json.decode(Schema.Array(Schema.Int), { limits: { maxIssues: 2 } })(Array.from({ length: 1000 }, () => "x"))
    )
    assert(error.reason._tag === "Invalid")
    assert.deepStrictEqual([error.reason.issues.length, error.reason.omitted], [2, 998])
    assert.isBelow(error.message.length, 300)
  })

  test("L2 no value is ever repeated in an error", function* () {
    const Secretive = Schema.Struct({
      a: Schema.Int,
      b: Schema.Literal("x"),
      c: Schema.String.check(Schema.isMinLength(100)),
      d: Schema.Union([Schema.Int, Schema.Boolean]),
      e: Schema.FiniteFromString
    })
    const secret = "sk-hunter2"
    const error = yield* Effect.flip(
      decodeUnknown(Secretive)({ a: secret, b: secret, c: secret, d: secret, e: [secret], f: secret })
    )
    assert(error.reason._tag === "Invalid" && error.reason.issues.length >= 6)
    assert.notInclude(JSON.stringify(error) + error.message + String(error), "hunter2")
  })

  test("PAY-A alternatives that fail in one place are one issue; members with a tag report their own places", function* () {
    const Id = Schema.Union([Schema.String.check(Schema.isMinLength(3)), Schema.Int])
    const issues = yield* issuesOf(Json.decode(Schema.Struct({ id: Id }))({ id: true }))
    assert.strictEqual(issues.length, 1)
    assert.strictEqual(issues[0]?.[0], "/id")
    const Name = Schema.Union([
      Schema.String.check(Schema.isMinLength(3)),
      Schema.String.check(Schema.isStartingWith("x"))
    ])
    const names = yield* issuesOf(Json.decode(Schema.Struct({ name: Name }))({ name: "ab" }))
    assert.deepStrictEqual(names, [
      ["/name", `a value with a length of at least 3 or a string starting with "x"`, "string"]
    ])
    const Shape = Schema.Union([
      Schema.Struct({ type: Schema.Literal("circle"), r: Schema.Finite }),
      Schema.Struct({ type: Schema.Literal("square"), side: Schema.Finite })
    ])
    assert.deepStrictEqual(yield* issuesOf(Json.decode(Shape)({ type: "square", side: "1" })), [
      ["/side", "number", "string"]
    ])
  })

  test("PAY-A decodeJson and decodeUnknown apply limits and key rules first", function* () {
    const AnyJson = Schema.Record(Schema.String, Schema.Json)
    const text = yield* Effect.flip(Json.decodeJson(AnyJson)(`{"__proto__":1}`))
    const value = yield* Effect.flip(decodeUnknown(AnyJson)(JSON.parse(`{"__proto__":1}`)))
    const deep = yield* Effect.flip(Json.decodeJson(AnyJson, { limits: { maxDepth: 1 } })(`{"a":[]}`))
    assert.deepStrictEqual(
      [text, value, deep].map((error) => error.reason._tag),
      ["ForbiddenKey", "ForbiddenKey", "TooDeep"]
    )
  })

  test("PAY-A encode reports places too, and lets only JSON out", function* () {
    const Positive = Schema.Struct({ n: Schema.Int.check(Schema.isGreaterThan(0)) })
    assert.deepStrictEqual(yield* issuesOf(Json.encode(Positive)({ n: -1 })), [
      ["/n", "a value greater than 0", "number"]
    ])
    const Raw = Schema.Struct({ at: Schema.Date })
    assert.strictEqual((yield* issuesOf(Json.encode(Raw)({ at: new Date(0) })))[0]?.[0], "/at")
    const Hidden = Schema.Struct({ token: Schema.Redacted(Schema.String) })
    const error = yield* Effect.flip(Json.encode(Hidden)({ token: Redacted.make("hunter2") }))
    assert.notInclude(JSON.stringify(error) + error.message, "hunter2")
  })
})

describe("L4 PayloadError", () => {
  const reasons: ReadonlyArray<PayloadError.Reason> = [
    { _tag: "NotJson", offset: 1, expected: "a", found: "b" },
    { _tag: "TooLarge", what: "nodes", limit: 1, found: 2, path: "" },
    { _tag: "TooDeep", limit: 1, path: "/a" },
    { _tag: "ForbiddenKey", path: "/__proto__", key: "__proto__" },
    { _tag: "UnsupportedVersion", field: "version", found: 3, kind: "number", supported: [1, 2] },
    PayloadError.invalid([{ path: "/a", expected: "string", found: "number" }], 2),
    { _tag: "Secret", path: "/a", key: "a", kind: "key" }
  ]
  it("L4 the messages of all reasons", async () => {
    const version = (found: string | number | null, kind: string, supported: ReadonlyArray<number> = [1, 2]) =>
      ({ _tag: "UnsupportedVersion", field: "version", found, kind, supported }) as const
    const whys = PayloadError.Reason.cases.Untrusted.fields.why.literals
    const all: ReadonlyArray<PayloadError.Reason> = [
      ...reasons,
      ...(["bytes", "nodes", "string", "array", "tools", "messages", "fuel"] as const).map(
        (what) => ({ _tag: "TooLarge", what, limit: 10, found: 11, path: "/a" }) as const
      ),
      ...["constructor", "toString", "__proto__"].map(
        (key) => ({ _tag: "ForbiddenKey", path: `/${key}`, key }) as const
      ),
      version(null, "nothing"),
      version(null, "array"),
      version("1", "string"),
      version(2, "number"),
      version(1.5, "number"),
      version(0, "number"),
      version(3, "number", [3]),
      version(4, "number", [3]),
      { _tag: "Secret", path: "/a/b", key: "b", kind: "redacted" },
      ...whys.flatMap((why) => [{ _tag: "Untrusted", why } as const, { _tag: "Untrusted", why, keyId: "k1" } as const])
    ]
    const errors = all.map((reason) => new PayloadError.PayloadError({ what: "agent", reason }))
    for (const { message, publicMessage } of errors) {
      assert.match(publicMessage, /^agent at .*: expected .+, got .+\.$/)
      assert.notMatch(
        publicMessage,
        /limits|Signed|TrustedKeys|raise|Provide|provide|Redacted\.|Layer|layer/,
        "RIGHT-18"
      )
      assert.isTrue(message.startsWith(publicMessage.slice(0, 30)))
    }
    const messages = errors.map(({ message }) => message)
    await expect(`${messages.join("\n")}\n`).toMatchFileSnapshot("golden/messages.txt")
  })

  it("L4 ten losses are named, the others counted", () => {
    const lossy = (count: number) =>
      new PayloadError.LossyEncoding({
        what: "toy",
        version: 1,
        losses: Array.from({ length: count }, (_, i) => ({ path: `/${i}`, what: `p${i}` }))
      }).message
    const named = Array.from({ length: 10 }, (_, i) => `p${i} (at /${i})`).join("; ")
    const fix = "List what may be lost in allowLoss, or write a newer version"
    assert.strictEqual(lossy(10), `toy: version 1 cannot hold ${named}. ${fix}`)
    assert.strictEqual(lossy(12), `toy: version 1 cannot hold ${named}; and 2 more. ${fix}`)
  })

  it("L4 places and names in messages are cut, not inside a character", () => {
    const at = (path: string) => PayloadError.render("", [{ path, expected: "a", found: "b" }])
    assert.strictEqual(at(`/${"k".repeat(199)}`), `at /${"k".repeat(199)}: expected a, got b`)
    assert.strictEqual(at(`/${"k".repeat(200)}`), `at /${"k".repeat(199)}…: expected a, got b`)
    assert.strictEqual(at(`/${"k".repeat(198)}🙂k`), `at /${"k".repeat(198)}…: expected a, got b`)
    assert.strictEqual(at(`/${"k".repeat(197)}🙂k`), `at /${"k".repeat(197)}🙂…: expected a, got b`)
  })

  for (const reason of reasons) {
    test(`L4 ${reason._tag} travels as JSON and keeps its message`, function* () {
      const error = new PayloadError.PayloadError({ what: "agent", reason })
      const codec = Schema.fromJsonString(Schema.toCodecJson(PayloadError.PayloadError))
      const back = yield* Schema.decodeEffect(codec)(yield* Schema.encodeEffect(codec)(error))
      assert.instanceOf(back, PayloadError.PayloadError)
      assert.strictEqual(back.reason._tag, reason._tag)
      assert.strictEqual(back.message, error.message)
      assert.include(back.message, "agent at ")
    })
  }
})

describe("PAY-A Limits", () => {
  test("PAY-A defaults, the reference, and an override for one call", function* () {
    assert.deepStrictEqual(yield* resolveLimits(), Limits.defaults)
    const set = Effect.provideService(Limits.Limits, { ...Limits.defaults, maxDepth: 3, maxNodes: 5 })
    assert.deepInclude(yield* set(resolveLimits({ maxNodes: 7 })), { maxDepth: 3, maxNodes: 7 })
    const unset = { maxNodes: undefined } as unknown as Partial<Limits.Limits>
    assert.strictEqual((yield* resolveLimits(unset)).maxNodes, Limits.defaults.maxNodes)
    assert.strictEqual((yield* resolveLimits({ maxDepth: Number.NaN })).maxDepth, Limits.defaults.maxDepth)
  })

  test("PAY-A counts of tools and messages", function* () {
    const at = { what: "agent", path: "/tools" }
    yield* checkCount("tools", 256, at)
    const error = yield* Effect.flip(checkCount("tools", 257, at))
    assert.deepInclude(error.reason, { what: "tools", limit: 256, found: 257, path: "/tools" })
    const messages = checkCount("messages", 3, { what: "c", path: "/messages", limits: { maxMessages: 2 } })
    assert.deepInclude((yield* Effect.flip(messages)).reason, { what: "messages", limit: 2, found: 3 })
  })
})

describe("L2 Names", () => {
  it("L2 every inherited name is refused where keys are names, and nothing else", () => {
    const at = { what: "registry", path: "/names" }
    for (const name of Object.getOwnPropertyNames(Object.prototype)) {
      const error = Result.getOrThrow(Result.flip(checkName(name, at)))
      assert.deepInclude(error.reason, { _tag: "ForbiddenKey", path: "/names", key: name })
    }
    assert.isTrue(Result.isSuccess(checkName("constructors", at)))
  })
})

describe("own and defined", () => {
  it("defined drops undefined members and keeps the order of the others", () => {
    const a: number | undefined = undefined
    const made: { readonly x: number; readonly a?: number; readonly n: null } = defined({ x: 1, a, n: null })
    assert.strictEqual(JSON.stringify(made), `{"x":1,"n":null}`)
    assert.isFalse(Object.hasOwn(made, "a"))
  })

  it("L2 own reads no inherited member", () => {
    assert.strictEqual(own<number>({ constructor: 1 }, "constructor"), 1)
    for (const name of inheritedNames) assert.isUndefined(own<unknown>({ a: 1 }, name))
  })
})
