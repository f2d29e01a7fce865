import { assert, describe, it } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { Digest } from "effect-emissary/payload"
import { createHash } from "node:crypto"
import { test } from "../test.ts"

const canonical = (json: Schema.Json) => Result.getOrThrow(Digest.canonicalize(json))

describe("PAY-C canonical JSON (RFC 8785)", () => {
  // RFC 8785, appendix B: IEEE 754 bits and the text they must get.
  const numbers: ReadonlyArray<readonly [bits: string, text: string]> = [
    ["0000000000000000", "0"],
    ["8000000000000000", "0"],
    ["0000000000000001", "5e-324"],
    ["8000000000000001", "-5e-324"],
    ["7fefffffffffffff", "1.7976931348623157e+308"],
    ["ffefffffffffffff", "-1.7976931348623157e+308"],
    ["4340000000000000", "9007199254740992"],
    ["c340000000000000", "-9007199254740992"],
    ["4430000000000000", "295147905179352830000"],
    ["44b52d02c7e14af5", "9.999999999999997e+22"],
    ["44b52d02c7e14af6", "1e+23"],
    ["44b52d02c7e14af7", "1.0000000000000001e+23"],
    ["444b1ae4d6e2ef4e", "999999999999999700000"],
    ["444b1ae4d6e2ef4f", "999999999999999900000"],
    ["444b1ae4d6e2ef50", "1e+21"],
    ["3eb0c6f7a0b5ed8c", "9.999999999999997e-7"],
    ["3eb0c6f7a0b5ed8d", "0.000001"],
    ["41b3de4355555553", "333333333.3333332"],
    ["41b3de4355555554", "333333333.33333325"],
    ["41b3de4355555555", "333333333.3333333"],
    ["41b3de4355555556", "333333333.3333334"],
    ["41b3de4355555557", "333333333.33333343"],
    ["becbf647612f3696", "-0.0000033333333333333333"],
    ["43143ff3c1cb0959", "1424953923781206.2"]
  ]
  for (const [bits, text] of numbers) {
    it(`PAY-C appendix B: ${bits} is ${text}`, () => assert.strictEqual(canonical(double(bits)), text))
  }

  for (const bits of ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"]) {
    it(`PAY-C appendix B: ${bits} is an error`, () => {
      const error = Result.getOrThrow(Result.flip(Digest.canonicalize([double(bits)])))
      assert(error.reason._tag === "Invalid")
      assert.strictEqual(error.reason.issues[0]?.path, "/0")
    })
  }

  it("PAY-C section 3.2.2: the sample", () => {
    const sample = `{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\"\\/",
      "literals": [null, true, false]
    }`
    assert.strictEqual(
      canonical(JSON.parse(sample)),
      `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA'B\\"\\\\\\\\\\"/"}`
    )
  })

  it("PAY-C section 3.2.3: keys are ordered by UTF-16 code units", () => {
    // Euro sign, carriage return, Hebrew dalet with dagesh, one, grinning face, control, o with diaeresis
    const text = canonical({ "\u20ac": 4, "\r": 0, "\ufb33": 6, "1": 1, "\ud83d\ude00": 5, "\u0080": 2, "\u00f6": 3 })
    assert.strictEqual(text.replaceAll(/[^:]*:(\d)[,}]/g, "$1"), "0123456")
  })

  it("PAY-C lone surrogates are refused with their path, in values and in keys; pairs are not", () => {
    const refused: ReadonlyArray<readonly [Schema.Json, string]> = [
      ["\ud800", ""],
      [{ a: ["x", "\udead"] }, "/a/1"],
      [{ a: { "\ud800": 1 } }, "/a/\ud800"]
    ]
    for (const [json, path] of refused) {
      const error = Result.getOrThrow(Result.flip(Digest.canonicalize(json)))
      assert(error.reason._tag === "Invalid")
      assert.deepStrictEqual(error.reason.issues, [
        { path, expected: "well-formed Unicode", found: "a lone surrogate" }
      ])
      assert.strictEqual(error.what, "canonical JSON")
    }
    assert.strictEqual(canonical({ "😀": "😀" }), `{"😀":"😀"}`)
  })

  it("PAY-C empty containers, and depth without a stack overflow", () => {
    assert.strictEqual(canonical({ b: {}, a: [], c: [[], {}] }), `{"a":[],"b":{},"c":[[],{}]}`)
    let deep: Schema.Json = 1
    for (let i = 0; i < 50_000; i++) deep = [deep]
    assert.strictEqual(canonical(deep).length, 100_001)
  })

  it.prop("PAY-C the text is JSON of the same value, and is its own canonical form", [Schema.Json], ([json]) => {
    const result = Digest.canonicalize(json)
    if (Result.isFailure(result)) return
    assert.deepStrictEqual(sorted(JSON.parse(result.success)), sorted(JSON.parse(JSON.stringify(json))))
    assert.strictEqual(canonical(JSON.parse(result.success)), result.success)
  })
})

describe("PAY-C digests", () => {
  for (const [json, text] of [
    [{}, "{}"],
    [[], "[]"],
    [null, "null"],
    [{ é: "😀", a: [1, 0.5] }, `{"a":[1,0.5],"é":"😀"}`]
  ] as const) {
    test(`PAY-C the digest of ${text} is that of the canonical text in UTF-8`, function* () {
      const expected = createHash("sha256").update(text, "utf8").digest("hex")
      assert.strictEqual(yield* Digest.sha256(json), `sha256:${expected}`)
    })
  }

  test("PAY-C L4 what has no canonical form fails in the error channel", function* () {
    const error = yield* Effect.flip(Digest.sha256(["\ud800"]))
    assert.strictEqual(error.reason._tag, "Invalid")
  })
})

function double(bits: string): number {
  const view = new DataView(new ArrayBuffer(8))
  view.setBigUint64(0, BigInt(`0x${bits}`))
  return view.getFloat64(0)
}

function sorted(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(sorted)
  if (typeof json !== "object" || json === null) return json === 0 ? 0 : json
  return Object.entries(json)
    .map(([key, value]) => [key, sorted(value)])
    .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1))
}
