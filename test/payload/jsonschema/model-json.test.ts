import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { Json } from "effect-emissary/payload"

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
    ['{x} and {"a":{"b":2}} and {"c":3}', { a: { b: 2 } }],
    ['a { b {"a":"\\"{"}', { a: '"{' }],
    ['[ {"a":1}, oops ] {"b":2}', { b: 2 }]
  ]
  for (const [text, json] of found) {
    it(`AGENT-6 finds the JSON in ${JSON.stringify(text)}`, () =>
      assert.deepStrictEqual(Json.extract(text), Result.succeed(json)))
  }

  const missing = [
    "",
    "no json here",
    '{"outer": {"a": 1}, broken}',
    '{"outer": {"a": 1}',
    '[{"a": 1}',
    '[1] {"outer": {"a": 1}',
    '{"a": {"__proto__": {}}}',
    'text {"constructor": {"prototype": 1}}',
    "{x}".repeat(20) + '{"a":1}'
  ]
  for (const text of missing) {
    it(`AGENT-6 takes nothing from ${JSON.stringify(text.slice(0, 40))}`, () => {
      const result = Json.extract(text)
      assert.isTrue(Result.isFailure(result))
      if (Result.isFailure(result)) assert.strictEqual(result.failure._tag, "PayloadError")
    })
  }

  it("L2 holds limits", () => {
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
