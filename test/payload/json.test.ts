import { assert, describe, expect, it } from "@effect/vitest"
import { Effect, Option, Redacted, Result, Schema } from "effect"
import * as base from "#src/payload/internal/base.ts"
import { fingerprint, getAt } from "#src/payload/internal/values.ts"
import { type Limits, PayloadError } from "effect-emissary"
import { Digest, Json } from "effect-emissary/payload"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"

const reasonOf = <A>(effect: Effect.Effect<A, PayloadError.PayloadError>) =>
  Effect.map(Effect.flip(effect), (error) => error.reason)

const bytes = (...values: ReadonlyArray<number>) => Uint8Array.from(values)
const utf8 = (text: string) => new TextEncoder().encode(text)

describe("PAY-A NotJson", () => {
  const cases: ReadonlyArray<readonly [text: string, offset: number, mentions: string]> = [
    ["", 0, "the end of the text"],
    ["   ", 3, "the end of the text"],
    ["[1,]", 3, "a JSON value"],
    ["[,1]", 1, `a JSON value or "]"`],
    [`{"a":1,}`, 7, "a key in double quotes"],
    [`{a:1}`, 1, "a key in double quotes"],
    [`{"a" 1}`, 5, `":"`],
    [`{"a":}`, 5, "a JSON value"],
    ["[1}", 2, `"," or "]"`],
    [`{"a":1]`, 6, `"," or "}"`],
    ["[1", 2, "the end of the text"],
    [`{"a":1`, 6, "the end of the text"],
    ["1 2", 2, "nothing after the value"],
    ["01", 1, "nothing after the value"],
    ["1.", 1, "nothing after the value"],
    ["1.e5", 1, "nothing after the value"],
    ["-", 0, "a JSON value"],
    ["+1", 0, "a JSON value"],
    [".5", 0, "a JSON value"],
    ["nul", 0, "a JSON value"],
    ["NaN", 0, "a JSON value"],
    ["truefalse", 4, "nothing after the value"],
    [`"abc`, 4, "closing quote"],
    [`"a\\`, 2, "escape"],
    [`"\\x41"`, 1, "escape"],
    [`"\\u12G4"`, 1, "escape"],
    [`"\\u12`, 1, "escape"],
    [`"a\nb"`, 2, "control character"],
    ["'a'", 0, "a JSON value"],
    ["// c\n1", 0, "a JSON value"],
    ["\uFEFF1", 0, "byte order mark"],
    ["\u00a01", 0, "U+00A0"]
  ]
  for (const [text, offset, mentions] of cases) {
    test(`PAY-A ${JSON.stringify(text)} is refused at offset ${offset}`, function* () {
      const reason = yield* reasonOf(Json.parse(text))
      assert.deepInclude(reason, { _tag: "NotJson", offset })
      assert.include(new PayloadError.PayloadError({ what: "", reason }).message, mentions)
    })
  }

  it("PAY-A each text is refused in the words that it was", () => {
    const more = [
      "~",
      "!",
      "\u007f",
      "\u0001",
      "🙂",
      "\ufeff",
      "\u0000",
      "[1 2",
      "[[1",
      '{"a":1 2',
      '{"a":1,b',
      "{1",
      "[1,",
      '{"a":[]1',
      '{"a":1,"b":[],"a":2}'
    ]
    const messages = Effect.runSync(
      Effect.forEach([...cases.map(([text]) => text), ...more], (text) =>
        Effect.map(Effect.flip(Json.parse(text, { what: "text" })), ({ message }) => {
          const name = JSON.stringify(text).replace(/[^ -~]/gu, encodeURIComponent)
          return `${name} ${message}`.replace(". Send one JSON text", "").replace("text at the root: ", "")
        })
      )
    )
    expect(messages.join("\n")).toMatchInlineSnapshot(`
      """ expected a JSON value, got the end of the text at offset 0
      "   " expected a JSON value, got the end of the text at offset 3
      "[1,]" expected a JSON value, got "]" at offset 3
      "[,1]" expected a JSON value or "]", got "," at offset 1
      "{\\"a\\":1,}" expected a key in double quotes, got "}" at offset 7
      "{a:1}" expected a key in double quotes or "}", got "a" at offset 1
      "{\\"a\\" 1}" expected ":", got "1" at offset 5
      "{\\"a\\":}" expected a JSON value, got "}" at offset 5
      "[1}" expected "," or "]", got "}" at offset 2
      "{\\"a\\":1]" expected "," or "}", got "]" at offset 6
      "[1" expected "," or "]", got the end of the text at offset 2
      "{\\"a\\":1" expected "," or "}", got the end of the text at offset 6
      "1 2" expected nothing after the value, got "2" at offset 2
      "01" expected nothing after the value, got "1" at offset 1
      "1." expected nothing after the value, got "." at offset 1
      "1.e5" expected nothing after the value, got "." at offset 1
      "-" expected a JSON value, got "-" at offset 0
      "+1" expected a JSON value, got "+" at offset 0
      ".5" expected a JSON value, got "." at offset 0
      "nul" expected a JSON value, got "n" at offset 0
      "NaN" expected a JSON value, got "N" at offset 0
      "truefalse" expected nothing after the value, got "f" at offset 4
      "\\"abc" expected the closing quote of a string, got the end of the text at offset 4
      "\\"a\\\\" expected an escape that JSON knows, got "\\\\" at offset 2
      "\\"\\\\x41\\"" expected an escape that JSON knows, got "\\\\" at offset 1
      "\\"\\\\u12G4\\"" expected an escape that JSON knows, got "\\\\" at offset 1
      "\\"\\\\u12" expected an escape that JSON knows, got "\\\\" at offset 1
      "\\"a\\nb\\"" expected no control character in a string, got U+000A at offset 2
      "'a'" expected a JSON value, got "'" at offset 0
      "// c\\n1" expected a JSON value, got "/" at offset 0
      "%EF%BB%BF1" expected a JSON value, got a byte order mark (U+FEFF) at offset 0
      "%C2%A01" expected a JSON value, got U+00A0 at offset 0
      "~" expected a JSON value, got "~" at offset 0
      "!" expected a JSON value, got "!" at offset 0
      "%7F" expected a JSON value, got U+007F at offset 0
      "\\u0001" expected a JSON value, got U+0001 at offset 0
      "%F0%9F%99%82" expected a JSON value, got U+1F642 at offset 0
      "%EF%BB%BF" expected a JSON value, got a byte order mark (U+FEFF) at offset 0
      "\\u0000" expected a JSON value, got U+0000 at offset 0
      "[1 2" expected "," or "]", got "2" at offset 3
      "[[1" expected "," or "]", got the end of the text at offset 3
      "{\\"a\\":1 2" expected "," or "}", got "2" at offset 7
      "{\\"a\\":1,b" expected a key in double quotes, got "b" at offset 7
      "{1" expected a key in double quotes or "}", got "1" at offset 1
      "[1," expected a JSON value, got the end of the text at offset 3
      "{\\"a\\":[]1" expected "," or "}", got "1" at offset 7
      "{\\"a\\":1,\\"b\\":[],\\"a\\":2}" expected each key once in an object, got "a" again at offset 14"
    `)
  })

  test("PAY-A offsets in bytes are counted in bytes", function* () {
    const inText = yield* reasonOf(Json.parse(`["é😀",}`))
    const inBytes = yield* reasonOf(Json.parse(utf8(`["é😀",}`)))
    assert(inText._tag === "NotJson" && inBytes._tag === "NotJson")
    assert.deepStrictEqual([inText.offset, inBytes.offset], [7, 10])
    assert.include(new PayloadError.PayloadError({ what: "", reason: inBytes }).message, "offset 10")
  })

  const invalid: ReadonlyArray<readonly [name: string, bytes: Uint8Array, offset: number]> = [
    ["a stray continuation byte", bytes(0x22, 0x80, 0x22), 1],
    ["an overlong form", bytes(0x22, 0xc0, 0xaf, 0x22), 1],
    ["an encoded surrogate", bytes(0x22, 0xed, 0xa0, 0x80, 0x22), 1],
    ["a code point above U+10FFFF", bytes(0x22, 0x61, 0xf4, 0x90, 0x80, 0x80, 0x22), 2],
    ["a cut sequence", bytes(0x22, 0xc3, 0xa9, 0xe2, 0x82), 3],
    ["0xFF", bytes(0x22, 0xff, 0x22), 1],
    ["0xFF first", bytes(0xff), 0],
    ["a byte order mark and 0xFF", bytes(0xef, 0xbb, 0xbf, 0xff), 3],
    ["0xFF after U+FFFD, twice", bytes(0xef, 0xbf, 0xbd, 0x61, 0xef, 0xbf, 0xbd, 0xff), 7],
    ["a sequence like that of U+FFFD", bytes(0xc3, 0xa9, 0xef, 0xbf, 0x22), 2],
    ["another one", bytes(0x22, 0xef, 0x22, 0xbd), 1],
    ["the end of U+FFFD", bytes(0x22, 0xbf, 0xbf, 0xbd), 1],
    ["a byte order mark", bytes(0xef, 0xbb, 0xbf, 0x31), 0]
  ]
  for (const [name, input, offset] of invalid) {
    test(`PAY-A bytes with ${name} are refused at ${offset}`, function* () {
      assert.deepInclude(yield* reasonOf(Json.parse(input)), { _tag: "NotJson", offset })
    })
  }

  test("PAY-A a key that occurs twice is refused where it occurs again, however it is written", function* () {
    const reason = yield* reasonOf(Json.parse(`{"x":[{"a":1,"b":2,"\\u0061":3}]}`))
    assert(reason._tag === "NotJson")
    assert.strictEqual(reason.offset, 19)
    assert.include(reason.found, `"a"`)
    // The same key in other objects is no duplicate.
    yield* Json.parse(`[{"a":{"a":1}},{"a":2}]`)
  })

  test("PAY-A lone surrogates pass, because text can hold them as escapes", function* () {
    const json = yield* Json.parse(`"\\ud800"`)
    assert.strictEqual(json, "\ud800")
    assert.strictEqual(yield* Json.stringify(json), `"\\ud800"`)
  })

  it.prop(
    "PAY-A accepts exactly the text that JSON.parse accepts",
    [Schema.Json, Schema.Int, Schema.Int],
    ([json, a, b]) => {
      const junk = `{}[]",:\\u0 19.-+eE\ntfn`
      const text = JSON.stringify(json)
      const at = Math.abs(a) % (text.length + 1)
      const char = junk[Math.abs(b) % junk.length] ?? ""
      for (const candidate of [
        text,
        text.slice(0, at),
        text.slice(0, at) + char + text.slice(at),
        text.slice(0, at) + char + text.slice(at + 1)
      ]) {
        const native = Result.try(() => JSON.parse(candidate) as unknown)
        const ours = Effect.runSync(Effect.result(Json.parse(candidate)))
        if (Result.isSuccess(ours)) assert.deepStrictEqual(ours.success, Result.getOrThrow(native))
        else if (ours.failure.reason._tag === "NotJson") {
          assert.isTrue(
            Result.isFailure(native) || ours.failure.reason.expected === "each key once in an object",
            candidate
          )
          assert.isTrue(ours.failure.reason.offset >= 0 && ours.failure.reason.offset <= candidate.length)
        } else assert.include(["ForbiddenKey", "Invalid"], ours.failure.reason._tag)
      }
    }
  )

  test("PAY-A a small text is read just as a large one, which is scanned first", function* () {
    const document = `{"a": [1, -2e3, {"b": "x\\\\"}, [], {}], "c\\"": "[{,:}]", "__proto_": {"": null, "d\\u0022": true}}`
    const units = [...'{}[],:"\\\\ 0eu\t_a', "", '"a"', ',"c\\u0022":1', "1e999"]
    const texts = Array.from(document, (_, at) =>
      units.flatMap((unit) => [0, 1].map((cut) => document.slice(0, at) + unit + document.slice(at + cut)))
    ).flat()
    const outcomes = { read: 0, refused: 0 }
    for (const text of new Set(texts)) {
      // No string is as long as the text, but then the text may hold a string that is too long
      const limits = { maxStringLength: text.length - 1 }
      const small = yield* Effect.result(Json.parse(text))
      assert.deepStrictEqual(small, yield* Effect.result(Json.parse(text, { limits })), text)
      outcomes[Result.isSuccess(small) ? "read" : "refused"] += 1
    }
    assert.isAbove(Math.min(outcomes.read, outcomes.refused), 300)
  })
})

describe("PAY-A L2 limits", () => {
  const measure = (text: string, limits: Partial<Limits.Limits>) => reasonOf(Json.parse(text, { limits }))

  test("PAY-A every limit holds exactly at its border, with its path", function* () {
    yield* Json.parse(`["é"]`, { limits: { maxBytes: 6 } })
    const size = yield* measure(`["é"]`, { maxBytes: 5 })
    assert.deepInclude(size, { _tag: "TooLarge", what: "bytes", limit: 5, found: 6, path: "" })

    yield* Json.parse(`{"a":[[1]]}`, { limits: { maxDepth: 3 } })
    const depth = yield* measure(`{"a":[0,[1]]}`, { maxDepth: 2 })
    assert.deepInclude(depth, { _tag: "TooDeep", limit: 2, path: "/a/1" })

    yield* Json.parse(`{"a":[1,2]}`, { limits: { maxNodes: 4 } })
    assert.deepInclude(yield* measure(`{"a":[1,2]}`, { maxNodes: 3 }), { what: "nodes", limit: 3, found: 4 })

    yield* Json.parse(`{"a":"\\u00e9b"}`, { limits: { maxStringLength: 2 } })
    const value = yield* measure(`{"a/b":[0,"abcdef"]}`, { maxStringLength: 3 })
    assert.deepInclude(value, { what: "string", limit: 3, found: 6, path: "/a~1b/1" })
    const key = yield* measure(`{"a":{"long":1}}`, { maxStringLength: 3 })
    assert.deepInclude(key, { what: "string", limit: 3, found: 4, path: "/a" })

    yield* Json.parse(`{"a":[1,2]}`, { limits: { maxArrayLength: 2 } })
    const array = yield* measure(`{"a":[1,2,3,4]}`, { maxArrayLength: 2 })
    assert.deepInclude(array, { what: "array", limit: 2, found: 3, path: "/a" })

    yield* Json.parse(`[{"a":{"x":1,"y":[1,2,3]}}]`, { limits: { maxKeys: 2 } })
    const object = yield* measure(`[{"a":{"x":1,"y":2,"z":3}}]`, { maxKeys: 2 })
    assert.deepInclude(object, { what: "object", limit: 2, found: 3, path: "/0/a" })
  })

  test("PAY-A the same limits hold for values that the caller parsed", function* () {
    const check = (value: unknown, limits: Partial<Limits.Limits>) => reasonOf(Json.check(value, { limits }))
    assert.deepInclude(yield* check({ a: [0, [1]] }, { maxDepth: 2 }), { _tag: "TooDeep", path: "/a/1" })
    assert.deepInclude(yield* check({ a: [1, 2] }, { maxNodes: 3 }), { what: "nodes", found: 4 })
    assert.deepInclude(yield* check({ a: "abcd" }, { maxStringLength: 3 }), { what: "string", path: "/a" })
    assert.deepInclude(yield* check({ a: { long: 1 } }, { maxStringLength: 3 }), { what: "string", path: "/a" })
    assert.deepInclude(yield* check([[1, 2, 3]], { maxArrayLength: 2 }), { what: "array", path: "/0" })
    assert.deepInclude(yield* check([{ a: 1, b: 2 }], { maxKeys: 1 }), { what: "object", found: 2, path: "/0" })
    assert.deepInclude(yield* check({ a: "x".repeat(100) }, { maxBytes: 50 }), { what: "bytes" })
    assert.deepInclude(yield* reasonOf(Json.stringify("é", { limits: { maxBytes: 3 } })), { what: "bytes", found: 4 })
    yield* Json.stringify("é", { limits: { maxBytes: 4 } })
  })

  test("PAY-A L2 hostile text is refused, with the defaults", function* () {
    const hostile: ReadonlyArray<readonly [string, string]> = [
      ["TooDeep", "[".repeat(1_000_000)],
      ["TooDeep", `${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}`],
      ["TooDeep", `{"a":`.repeat(1_000_000)],
      ["TooLarge", `[${"0,".repeat(1_000_000)}0]`],
      ["TooLarge", `{${Array.from({ length: 300_000 }, (_, i) => `"k${i}":0`).join()}}`],
      ["TooLarge", `"${"x".repeat(8_388_609)}"`],
      ["TooLarge", " ".repeat(9_000_000)],
      ["Invalid", "[1e999]"]
    ]
    for (const [tag, text] of hostile) assert.strictEqual((yield* reasonOf(Json.parse(text)))._tag, tag)
  })

  test("PAY-A raised limits never overflow the stack", function* () {
    // Some ten times as deep as a stack of Node goes
    const limits = { maxDepth: 1_000_000, maxNodes: 3_000_000 }
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`
    const json = yield* Json.parse(deep, { limits })
    yield* Json.check(json, { limits })
    const reason = yield* reasonOf(Json.stringify(json, { limits }))
    assert.strictEqual(reason._tag, "TooDeep")
    const unlimited = { ...limits, maxDepth: Number.POSITIVE_INFINITY }
    assert.strictEqual((yield* reasonOf(Json.stringify(json, { limits: unlimited })))._tag, "TooDeep")
  })

  test("PAY-A messages name the limit, the place and what to do", function* () {
    const error = yield* Effect.flip(Json.parse("[[1,2]]", { what: "order", limits: { maxArrayLength: 1 } }))
    assert.strictEqual(
      error.message,
      "order at /0: expected at most 1 items in one array, got at least 2. " +
        "Send less, or raise maxArrayLength in the limits of this call"
    )
  })
})

describe("PAY-A L2 key rules", () => {
  const refused: ReadonlyArray<readonly [text: string, path: string, key: string]> = [
    [`{"__proto__":1}`, "/__proto__", "__proto__"],
    [`{"a":[{"__proto__":{}}]}`, "/a/0/__proto__", "__proto__"],
    [`{"\\u005f_proto__":null}`, "/__proto__", "__proto__"],
    [`{"constructor":{"prototype":{}}}`, "/constructor", "constructor"],
    [`[{"x":{"constructor":{"a":1,"prototype":null}}}]`, "/0/x/constructor", "constructor"]
  ]
  for (const [text, path, key] of refused) {
    test(`L2 ${text} is refused in text, in values and on the way out`, function* () {
      const value: unknown = JSON.parse(text)
      for (const effect of [Json.parse(text), Json.parse(utf8(text)), Json.check(value), Json.stringify(value)]) {
        assert.deepInclude(yield* reasonOf<unknown>(effect), { _tag: "ForbiddenKey", path, key })
      }
    })
  }

  test("L2 inherited names are plain data elsewhere", function* () {
    const text = `{"constructor":"x","toString":1,"prototype":{},"hasOwnProperty":{"constructor":{}},"valueOf":[]}`
    const json = yield* Json.parse(text)
    assert.strictEqual(yield* Json.stringify(json), text)
    const copied = yield* Json.check(json)
    assert.strictEqual(JSON.stringify(copied), text)
    assert.isUndefined(({} as Record<string, unknown>)["polluted"])
  })
})

describe("PAY-A plain data only", () => {
  class Point {
    x = 1
  }
  const cyclic: Record<string, unknown> = {}
  cyclic["self"] = [cyclic]
  const sparse: Array<unknown> = [1]
  sparse[2] = 3
  let called = 0
  const cases: ReadonlyArray<readonly [name: string, value: unknown, path: string]> = [
    ["undefined", { a: undefined }, "/a"],
    ["undefined at the root", undefined, ""],
    ["NaN", [Number.NaN], "/0"],
    ["Infinity", { a: Number.NEGATIVE_INFINITY }, "/a"],
    ["a bigint", [1n], "/0"],
    ["a function", { f: () => 1 }, "/f"],
    ["a symbol", [Symbol("s")], "/0"],
    ["a symbol as key", { a: { [Symbol("s")]: 1 } }, "/a"],
    ["a Date", { at: new Date(0) }, "/at"],
    ["a Map", [new Map()], "/0"],
    ["a class instance", { p: new Point() }, "/p"],
    ["an object made from a function", { p: Object.create(Function.prototype) }, "/p"],
    ["an array subclass", { a: new (class extends Array {})() }, "/a"],
    ["bytes", [new Uint8Array(1)], "/0"],
    ["a boxed string", [Object("s")], "/0"],
    ["a cycle", cyclic, "/self/0"],
    ["a hole", { a: sparse }, "/a/1"],
    ["an array with other members", Object.assign([1], { extra: 1 }), ""],
    ["a getter", Object.defineProperty({}, "a", { get: () => ++called, enumerable: true }), "/a"],
    ["a getter in an array", Object.defineProperty([1], 0, { get: () => ++called }), "/0"],
    ["a hidden member", Object.defineProperty({}, "h", { value: 1 }), "/h"],
    ["undefined in an array", [1, undefined], "/1"],
    ["a hidden member of an array", Object.defineProperty([1], "a", { get: () => ++called }), ""],
    ["an array without a prototype", [Object.setPrototypeOf([1], null)], "/0"],
    ["an object whose prototype is a plain object", Object.create({}), ""],
    ["toJSON", { a: { toJSON: () => "x" } }, "/a/toJSON"],
    ["a Proxy that throws on keys", { a: [0, new Proxy({}, { ownKeys: () => assert.fail() })] }, "/a/1"],
    ["a Proxy that throws on reading", new Proxy({ a: 1 }, { getOwnPropertyDescriptor: () => assert.fail() }), "/a"],
    ["a revoked Proxy", [revoked()], "/0"]
  ]
  for (const [name, value, path] of cases) {
    test(`PAY-A ${name} is refused at "${path}"`, function* () {
      const reason = yield* reasonOf(Json.check(value))
      assert(reason._tag === "Invalid")
      assert.deepStrictEqual(pluck(reason.issues, "path"), [path])
      assert.strictEqual(called, 0)
      if (name.includes("getter")) assert.include(reason.issues[0]?.found, "getter")
    })
  }

  it("PAY-A what is no plain JSON is refused in the words that it was, by the canonical writer, too", () => {
    const messages = Effect.runSync(
      Effect.forEach(cases, ([name, value]) => {
        // Sound: what is no JSON must be refused.
        const canonical = Digest.canonicalize(value as Schema.Json)
        return Effect.map(Effect.flip(Json.check(value)), (error) => {
          assert.deepStrictEqual(
            Result.getFailure(Result.mapError(canonical, ({ reason }) => reason)),
            Option.some(error.reason)
          )
          return `${name}: ${error.message}`
        })
      })
    )
    expect(messages.join("\n")).toMatchInlineSnapshot(`
      "undefined: JSON at /a: expected a JSON value (leave the key out instead), got undefined
      undefined at the root: JSON at the root: expected a JSON value (leave the key out instead), got undefined
      NaN: JSON at /0: expected a finite number, got a number that is not finite
      Infinity: JSON at /a: expected a finite number, got a number that is not finite
      a bigint: JSON at /0: expected a JSON value, got bigint
      a function: JSON at /f: expected a JSON value, got function
      a symbol: JSON at /0: expected a JSON value, got symbol
      a symbol as key: JSON at /a: expected keys that are strings, got a symbol
      a Date: JSON at /at: expected a plain object, got an instance of a class
      a Map: JSON at /0: expected a plain object, got an instance of a class
      a class instance: JSON at /p: expected a plain object, got an instance of a class
      an object made from a function: JSON at /p: expected a plain object, got an instance of a class
      an array subclass: JSON at /a: expected a plain array, got an instance of a class
      bytes: JSON at /0: expected a plain object, got an instance of a class
      a boxed string: JSON at /0: expected a plain object, got an instance of a class
      a cycle: JSON at /self/0: expected a tree, got a cycle: an object that contains itself
      a hole: JSON at /a/1: expected a JSON value in every place of an array, got a hole
      an array with other members: JSON at the root: expected items only, got an array with other members
      a getter: JSON at /a: expected a plain member, got a getter or setter
      a getter in an array: JSON at /0: expected a plain member, got a getter or setter
      a hidden member: JSON at /h: expected an enumerable member, got a hidden member
      undefined in an array: JSON at /1: expected a JSON value (leave the key out instead), got undefined
      a hidden member of an array: JSON at the root: expected items only, got an array with other members
      an array without a prototype: JSON at /0: expected a plain array, got an instance of a class
      an object whose prototype is a plain object: JSON at the root: expected a plain object, got an instance of a class
      toJSON: JSON at /a/toJSON: expected a JSON value, got function
      a Proxy that throws on keys: JSON at /a/1: expected plain JSON, got an object that cannot be read
      a Proxy that throws on reading: JSON at /a: expected plain JSON, got an object that cannot be read
      a revoked Proxy: JSON at /0: expected plain JSON, got an object that cannot be read"
    `)
  })

  test("PAY-A a Proxy without end is stopped by the limits", function* () {
    const handler: ProxyHandler<object> = {
      ownKeys: () => ["a"],
      getOwnPropertyDescriptor: () => ({ value: new Proxy({}, handler), enumerable: true, configurable: true })
    }
    assert.strictEqual((yield* reasonOf(Json.check(new Proxy({}, handler))))._tag, "TooDeep")
  })

  test("PAY-A shared parts are no cycle, but what they unfold to is counted", function* () {
    const leaf = { a: 1 }
    assert.deepStrictEqual(yield* Json.check([leaf, leaf]), [{ a: 1 }, { a: 1 }])
    let bomb: unknown = [1, 1]
    for (let i = 0; i < 60; i++) bomb = [bomb, bomb]
    assert.deepInclude(yield* reasonOf(Json.check(bomb)), { _tag: "TooLarge", what: "nodes" })
  })

  test("PAY-A the outcome is a copy, independent of later changes to the input", function* () {
    const input = { list: [1, -0], none: Object.create(null) as object }
    const json = yield* Json.check(input)
    input.list.push(2)
    assert.deepStrictEqual(json, { list: [1, 0], none: {} })
  })

  test("PAY-A all issues up to maxIssues, the others counted", function* () {
    const value = Array.from({ length: 20 }, () => undefined)
    const error = yield* Effect.flip(Json.check(value, { limits: { maxIssues: 3 } }))
    assert(error.reason._tag === "Invalid")
    assert.deepStrictEqual([error.reason.issues.length, error.reason.omitted], [3, 17])
    assert.include(error.message, "and 17 more")
  })

  test("L8 a Redacted value is refused with its path and never shown", function* () {
    const error = yield* Effect.flip(Json.stringify({ a: [{ token: Redacted.make("hunter2") }] }))
    assert.deepInclude(error.reason, { _tag: "Secret", path: "/a/0/token", key: "token", kind: "redacted" })
    assert.notInclude(JSON.stringify(error) + error.message, "hunter2")
  })

  it.prop("L3 parse(stringify(x)) is x, as text and as bytes", [Schema.Json], ([json]) => {
    // __proto__ may not be written; everything else has to come back.
    const text = Effect.runSync(Effect.result(Json.stringify(json)))
    if (Result.isFailure(text)) return assert.strictEqual(text.failure.reason._tag, "ForbiddenKey")
    const back = Effect.runSync(Json.parse(text.success))
    assert.strictEqual(JSON.stringify(back), JSON.stringify(json))
    assert.deepStrictEqual(Effect.runSync(Json.parse(utf8(text.success))), back)
  })

  it.prop("L3 check(x) is x", [Schema.Json], ([json]) => {
    const result = Effect.runSync(Effect.result(Json.check(json)))
    if (Result.isSuccess(result)) assert.strictEqual(JSON.stringify(result.success), JSON.stringify(json))
    else assert.strictEqual(result.failure.reason._tag, "ForbiddenKey")
  })
})

describe("PAY-A hostile payloads", () => {
  test("PAY-A an error does not repeat a long key for each issue below it", function* () {
    const key = "k".repeat(1_000_000)
    const decode = Json.decode(Schema.Record(Schema.String, Schema.Array(Schema.String)))
    const error = yield* Effect.flip(decode({ [key]: [1, 2, 3, 4, 5, 6] }))
    assert(error.reason._tag === "Invalid")
    const lengths = error.reason.issues.map(({ path }) => path.length)
    assert.deepStrictEqual([lengths, error.reason.omitted], [[key.length + 3], 5])
  })

  test("PAY-A nor does an error about a value that is not JSON", function* () {
    const error = yield* Effect.flip(Json.check({ ["k".repeat(1_000_000)]: [undefined, undefined, undefined] }))
    assert(error.reason._tag === "Invalid")
    assert.deepStrictEqual([error.reason.issues.length, error.reason.omitted], [1, 2])
  })
})

const fence = "```"

describe("AGENT-6 Json.extract", () => {
  const found: ReadonlyArray<readonly [text: string, json: Schema.Json]> = [
    ['{"a":1}', { a: 1 }],
    ["  42 ", 42],
    ['"text"', "text"],
    [`${fence}json\n{"a":1}\n${fence}`, { a: 1 }],
    [`Sure:\n${fence}\n[1,2]\n${fence}\nDone.`, [1, 2]],
    ['<answer>{"a":"}"}</answer>', { a: "}" }],
    ['As [1] says: {"a":1}', { a: 1 }],
    ['[{"a":1},{"a":2}] is the list', [{ a: 1 }, { a: 2 }]],
    ['{x} and {"c":3} and {"a":{"b":2}}', { a: { b: 2 } }],
    // RIGHT-7 The latest value is the answer
    ['{"a":1} and {"c":3}', { c: 3 }],
    ['{"a":1} as [1] says', { a: 1 }],
    ['{"a":1} or {x}', { a: 1 }],
    [`An example: {"a":1}\n${fence}json\n{"a":2}\n${fence}`, { a: 2 }],
    [`${fence}json\n{"a":1}\n${fence}\nNo, it is {"a":2}.`, { a: 2 }],
    [`${fence}1${fence} or ${fence}2${fence}`, 2],
    ['Sure: {"b":[{"a":1,"\\u0061":2}]} or {"c":3}', { c: 3 }],
    ["{x}".repeat(50) + '{"a":1}', { a: 1 }],
    ["{ x ".repeat(50) + '{"a":1}', { a: 1 }],
    // RIGHT-7 A draft is no answer
    ['<think>{"a":1}</think>{"a":2}', { a: 2 }],
    ['{"a":2}<think>or {"a":1}?</think>', { a: 2 }],
    ['{"a":2}<think>or {"a":1}? I would', { a: 2 }],
    ['a draft {"a":1}</think>{"a":2}', { a: 2 }],
    ['a draft {"a":1</think>{"a":2}', { a: 2 }],
    ['{a draft </think>{"a":2}}', { a: 2 }],
    ["<THINK>[1]</THINK>\n[2]", [2]],
    ["<think>41?</think>\n42", 42],
    [`<think>${fence}41${fence}</think>${fence}42${fence}`, 42],
    // RIGHT-7 A tag inside a value is text
    ['{"a":"</think>"}', { a: "</think>" }],
    ['Here: {"a":"<think>b</think>"}', { a: "<think>b</think>" }],
    ['<think>{"a":1}</think> Here: {"a":"</think>"} That is it.', { a: "</think>" }],
    ['a { b {"a":"\\"{"}', { a: '"{' }],
    ['[ {"a":1}, oops ] {"b":2}', { b: 2 }],
    [`Yes:\n${fence}json\n"json a"\n${fence}\nThat is it.`, "json a"],
    [`${fence}JSON 42${fence}`, 42],
    [`${fence}true${fence}`, true],
    [`${fence}\nnull\n${fence}`, null]
  ]
  for (const [text, json] of found) {
    it(`AGENT-6 finds the JSON in ${JSON.stringify(text)}`, () =>
      assert.deepStrictEqual(Json.extract(text), Result.succeed(json)))
  }

  const missing = [
    "",
    "no json here",
    `${fence}\n42`,
    `${fence}1${fence}2${fence}`,
    `${fence}yes${fence}`,
    `${fence}number json 42${fence}`,
    '{"outer": {"a": 1}, broken}',
    '{"outer": {"a": 1}',
    '[{"a": 1}',
    '[1] {"outer": {"a": 1}',
    '{"a": {"__proto__": {}}}',
    'text {"constructor": {"prototype": 1}}',
    // TRUST-5 A key that occurs twice
    '{"a":1,"a":2}',
    '{"c":3} or {"b":[{"a":1,"\\u0061":2}]}',
    '<think>{"a":1}</think>',
    '<think>{"a":1}',
    '{"a":1}</think>',
    '{"a":1} or {"a":',
    `${fence}json\n[{"a":1,"a":1}]\n${fence}`
  ]
  for (const text of missing) {
    it(`AGENT-6 takes nothing from ${JSON.stringify(text.slice(0, 40))}`, () => {
      assert.strictEqual(Result.getOrThrow(Result.flip(Json.extract(text)))._tag, "PayloadError")
    })
  }

  const cutOff = "an object or array that is cut off"
  for (const [text, offset, found] of [
    ["no json here", 0, "no JSON object or array"],
    ["a [ b", 3, "no JSON object or array"],
    ['{"outer": {"a": 1}, broken}', 27, "malformed JSON"],
    ["x [1, oops] y", 11, "malformed JSON"],
    ['{"outer": {"a": 1}', 0, cutOff],
    ['[1] {"outer": {"a": 1}', 4, cutOff],
    ['{ \n"a": [1', 0, cutOff],
    ['a [ {"b": 1', 2, cutOff],
    ['a [b ["c', 5, cutOff],
    [`[${" ".repeat(62)}"a`, 0, cutOff],
    [`[${" ".repeat(63)}"a`, 1, "no JSON object or array"],
    ["{a} [1", 5, "malformed JSON"]
  ] as const) {
    it(`AGENT-6 states why it takes nothing from ${JSON.stringify(text.slice(0, 40))}`, () => {
      const expected = "one JSON value in the text"
      const { reason, what } = Result.getOrThrow(Result.flip(Json.extract(text)))
      assert.deepStrictEqual([what, reason], ["text of the model", { _tag: "NotJson", offset, expected, found }])
    })
  }

  it("L2 holds limits", () => {
    const { reason } = Result.getOrThrow(Result.flip(Json.extract("[1,2]", { limits: { maxBytes: 4 } })))
    assert.deepStrictEqual(reason, { _tag: "TooLarge", what: "bytes", limit: 4, found: 5, path: "" })
    assert.deepStrictEqual(Json.extract("[12]", { limits: { maxBytes: 4 } }), Result.succeed([12]))
    assert.isTrue(Result.isFailure(Json.extract("[[[1]]]", { limits: { maxDepth: 2 } })))
    assert.isTrue(Result.isFailure(Json.extract("x [[[1]]]", { limits: { maxDepth: 2 } })))
    assert.isTrue(Result.isFailure(Json.extract("[1,2,3]", { limits: { maxBytes: 3 } })))
  })

  it.prop("AGENT-6 finds an object anywhere in prose", [Schema.JsonObject, Schema.String], ([object, prose]) => {
    const clean = prose.replaceAll(/[[\]{}"]/g, "")
    const json = JSON.stringify(object)
    if (/__proto__|prototype/.test(json)) return
    const expected = Result.succeed(JSON.parse(json))
    assert.deepStrictEqual(Json.extract(`${clean}x ${json} ${clean}`), expected)
    assert.deepStrictEqual(Json.extract(`${clean}\n${fence}json\n${json}\n${fence}`), expected)
  })
})

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

describe("PAY-A small parts", () => {
  it("PAY-A different values have different fingerprints, equal ones the same", () => {
    const different: ReadonlyArray<Schema.Json> = [
      null,
      true,
      0,
      1,
      12,
      "0",
      "",
      "null",
      "a,b",
      [],
      [[]],
      [[], []],
      [[[]]],
      [1, 23],
      [12, 3],
      [123],
      ["a", "b"],
      ["a,b"],
      {},
      { "0": [] },
      { a: 1 },
      { a: 1, b: 2 },
      { a: 12 },
      { a: { b: 1 } },
      { "a:1,b": 2 }
    ]
    assert.strictEqual(new Set(different.map(fingerprint)).size, different.length)
    assert.strictEqual(fingerprint([-0]), fingerprint([0]))
    assert.strictEqual(fingerprint({ a: 1, b: [2] }), fingerprint({ b: [2], a: 1 }))
  })

  it("PAY-A the value at the root has the empty pointer, and a member without a name another one", () => {
    const json = { "": { a: [7] } }
    const pointers = ["", "/", "//a/0", "//a/length", "//a/0/x", "/b"]
    const found = [json, json[""], 7, undefined, undefined, undefined]
    assert.deepStrictEqual<unknown>(
      pointers.map((pointer) => getAt(json, pointer)),
      found
    )
  })

  it("L8 secrets are found in maps, sets, arrays and class instances, at their places", () => {
    const found = (value: unknown) =>
      Option.getOrUndefined(Option.map(Json.findSecret(value), ({ kind, path }) => `${kind} ${path}`))
    const secret = Redacted.make("hunter2")
    class Holder {
      readonly label = "x"
      readonly held = secret
    }
    for (const [value, place] of [
      [new Map([["password", 1]]), "key /password"],
      [new Map([[{ toString: () => "password" }, 1]]), undefined],
      [new Map([[1, secret]]), "redacted /1"],
      [new Set([1, secret]), "redacted /1"],
      [["password", [null, secret]], "redacted /1/1"],
      [Object.assign([1], { password: 1 }), undefined],
      [new Holder(), "redacted /held"],
      [{ a: null, b: { password: "" } }, "key /b/password"],
      [Object.defineProperty({}, "password", { get: () => 1, enumerable: true }), undefined],
      [new Uint8Array(1), undefined],
      ["password", undefined]
    ] as const) {
      assert.strictEqual(found(value), place)
    }
  })

  test("PAY-A limits allow what is as large as they are, and nothing larger", function* () {
    const reasons = (value: unknown, limits: Partial<Limits.Limits>) =>
      Effect.map(Effect.result(Json.check(value, { limits })), (result) =>
        Result.isSuccess(result) ? "accepted" : JSON.stringify(result.failure.reason)
      )
    const cases = [
      ["abc", { maxStringLength: 3 }],
      ["abcd", { maxStringLength: 3 }],
      [[1, 2], { maxNodes: 3 }],
      [[1, 2, 3], { maxNodes: 3 }],
      [[1, 2], { maxArrayLength: 2 }],
      [[1, 2, 3], { maxArrayLength: 2 }],
      [[[1]], { maxDepth: 2 }],
      [[[[1]]], { maxDepth: 2 }],
      [["abc", true, null, { a: 1 }], { maxBytes: 13 }],
      [["abc", true, null, { a: 1 }], { maxBytes: 9 }]
    ] as const
    const found = yield* Effect.forEach(cases, ([value, limits]) => reasons(value, limits))
    assert.deepStrictEqual(found, [
      "accepted",
      `{"_tag":"TooLarge","what":"string","limit":3,"found":4,"path":""}`,
      "accepted",
      `{"_tag":"TooLarge","what":"nodes","limit":3,"found":4,"path":""}`,
      "accepted",
      `{"_tag":"TooLarge","what":"array","limit":2,"found":3,"path":""}`,
      "accepted",
      `{"_tag":"TooDeep","limit":2,"path":"/0/0"}`,
      "accepted",
      `{"_tag":"TooLarge","what":"bytes","limit":9,"found":10,"path":""}`
    ])
  })

  test("PAY-A bytes that are no UTF-8, and keys that are missing in words of their own", function* () {
    const broken = yield* Effect.flip(Json.parse(bytes(0x22, 0xff, 0x22), { what: "body" }))
    assert.strictEqual(
      broken.message,
      "body at the root: expected UTF-8, got a byte that it does not have at offset 1. Send one JSON text"
    )
    const Named = Schema.Struct({ name: Schema.String.pipe(Schema.annotateKey({ messageMissingKey: "a name" })) })
    const unnamed = yield* Effect.flip(Json.decode(Named, { what: "body" })({}))
    assert.strictEqual(unnamed.message, "body at /name: expected a name, got nothing")
  })
})

const marks = [0x200d, 0xfe0f, 0x20e3, 0x31, 0x1f469, 0x1f3fd, 0x2764, 0x202e, 0xe0041, 0xd800]

describe("MEND-3 text for a person", () => {
  const isShown = (codes: ReadonlyArray<number>) => {
    const value = { [String.fromCodePoint(...codes)]: String.fromCodePoint(...codes.toReversed()) }
    const shown = Json.show(value)
    assert.deepStrictEqual(JSON.parse(shown), value)
    assert.strictEqual(shown.search(base.unseen), -1, shown)
    // the selector and the joiner of an emoji, and no third
    assert.notMatch(shown, /[\p{Cf}\p{Co}\p{Default_Ignorable_Code_Point}]{3}/u)
  }

  test("MEND-3 escapes of what is not seen leave nothing unseen: each row of four marks", function* () {
    for (const a of marks) for (const b of marks) for (const c of marks) for (const d of marks) isShown([a, b, c, d])
  })

  test.prop(
    "MEND-3 escapes of what is not seen leave the value of JSON, and nothing unseen in its text",
    [
      Schema.Array(
        Schema.Union([Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 0x10ffff })), Schema.Literals(marks)])
      )
    ],
    function* ([codes]) {
      isShown(codes)
    },
    { arbitrary: { runs: 500 } }
  )
})
