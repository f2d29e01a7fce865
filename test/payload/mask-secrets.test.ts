import { assert, describe, it } from "@effect/vitest"
import type { Schema } from "effect"
import * as fuel from "#src/payload/internal/fuel.ts"
import * as maskSecrets from "#src/payload/internal/maskSecrets.ts"
import { Json } from "effect-emissary/payload"

const maskText = (text: string) => maskSecrets.maskText(text, fuel.make(1e9))
const maskJson = (json: Schema.Json) => maskSecrets.maskJson(json, { names: Json.secretNames, tank: fuel.make(1e9) })

describe("MODEL-4 MODEL-5 OTEL-1 secrets in texts that leave the program", () => {
  it.each([
    ["Incorrect API key provided: sk-proj-abc123def456ghi789.", "Incorrect API key provided: [redacted]."],
    ["Incorrect API key provided: sk-te***************-key. See https://x.test/keys", /: \[redacted\]\. See https/],
    ["invalid x-api-key sk-ant-api03-AbC_dEf-0123456789", "invalid x-api-key [redacted]"],
    ["API key not valid: AIzaSyA1234567890abcdefgh", /not valid: \[redacted\]$/],
    ["Authorization: Bearer abcdef0123.456", "Authorization: [redacted] [redacted]"],
    ["sent bearer abcdef0123.456 twice", "sent bearer [redacted] twice"],
    ["postgres://admin:hunter2@db/orders refused", "postgres://admin:[redacted]@db/orders refused"],
    ["password=hunter2&user=ann", "password=[redacted]&user=ann"],
    [`{"api_key":"abcdef","city":"Rome"}`, `{"api_key":"[redacted]","city":"Rome"}`],
    ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_1", "[redacted]"],
    ["token-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "[redacted]"],
    ["x=-eyJhbGciOiJIUzI1NiJ9.eyJz.abc", "x=[redacted]"],
    ["https://h.test/a@b", "https://h.test/a@b"],
    [`postgres://admin:${"p".repeat(300)}@db`, "postgres://admin:[redacted]@db"],
    [`${"long-".repeat(40)}password=hunter2`, `${"long-".repeat(40)}password=[redacted]`],
    ["-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- rest", "[redacted] rest"],
    ["AKIAIOSFODNN7EXAMPLE", "[redacted]"],
    ["Authorization: Bearer abcdefghijklmnop", "Authorization: [redacted]"],
    ["Authorization: Basic dXNlcjpwYXNz", "Authorization: [redacted]"],
    ["{'api_key': 'hunter2-house'}", "{'api_key': '[redacted]'}"],
    [String.raw`{\"api_key\":\"hunter2-house\",\"a\":\"b\"}`, String.raw`{\"api_key\":\"[redacted]\",\"a\":\"b\"}`],
    [`password="correct horse battery"`, `password="[redacted]"`],
    ["url=https://h.test/?access_token=hunter2", "url=https://h.test/?access_token=[redacted]"],
    ["https://glue2token3@h.test/x", "https://[redacted]@h.test/x"],
    ["https://user:pa@ss@h.test/x", "https://user:[redacted]@h.test/x"],
    ["https://h.test/x?key=hunter2&a=b", "https://h.test/x?key=[redacted]&a=b"],
    ["https://h.test/x?X-Amz-Signature=abcdef&a=b", "https://h.test/x?X-Amz-Signature=[redacted]&a=b"],
    ["Incorrect API key provided: hunter2-house.", /provided: \[redacted\]/]
  ])("%s", (text, expected) => {
    if (typeof expected === "string") assert.strictEqual(maskText(text), expected)
    else assert.match(maskText(text), expected)
  })

  it.each([
    "The task-force of risk-management met.",
    "model: gpt-5.2, max_tokens: 100000",
    "https://example.test:8080/a?b=c",
    "Basic research is basic.",
    "You can find your API key at https://platform.example.test/account/api-keys2.",
    `{"link":"https://a.test","mail":"ada@b.test"}`
  ])("leaves alone: %s", (text) => {
    assert.strictEqual(maskText(text), text)
  })

  it("JSON: values of secret keys, and texts at any depth", () => {
    const json = {
      headers: { Authorization: ["abc"], accept: "x" },
      list: [{ text: "use sk-1234567890abc" }],
      "sk-1234567890abc": 1
    }
    assert.deepStrictEqual(maskJson(json), {
      headers: { Authorization: ["[redacted]"], accept: "x" },
      list: [{ text: "use [redacted]" }],
      "[redacted]": 1
    })
  })

  it("JSON keeps its form, so that a recorded call still fits the schema of its tool", () => {
    const login = { credentials: { user: "ann", pins: [1234, true, null] }, retries: 3 }
    const expected = { credentials: { user: "[redacted]", pins: [0, true, null] }, retries: 3 }
    assert.deepStrictEqual(maskJson(login), expected)
    assert.deepStrictEqual(maskJson(expected), expected)
  })

  it("MEND-2 takes fuel in proportion to the texts, and what there is no fuel for is not shown", () => {
    const spent = (json: Schema.Json): number => {
      const tank = fuel.make(1e9)
      maskSecrets.maskJson(json, { names: Json.secretNames, tank })
      return tank.spent
    }
    assert.isAbove(spent("a".repeat(1000)), 200)
    assert.strictEqual(spent("a".repeat(40_000)), 10 * spent("a".repeat(4000)))
    assert.strictEqual(spent(["eyJ-".repeat(100), { k: "b" }]), spent("eyJ-".repeat(100)) + spent("k") + spent("b"))
    const tank = fuel.make(spent("a".repeat(100)))
    const [short, long] = ["plain ".repeat(10), "plain ".repeat(20)]
    assert.deepStrictEqual(maskSecrets.maskJson([short, long, "plain"], { names: Json.secretNames, tank }), [
      short,
      "[redacted]",
      "[redacted]"
    ])
  })

  it("MEND-2 a cut text ends before a word", () => {
    const short = "a ".repeat(16_384)
    assert.strictEqual(maskSecrets.cutText(short), short)
    const long = `${"a".repeat(32_760)} postgres://admin:hunter2@db/orders`
    assert.strictEqual(maskSecrets.cutText(long), `${"a".repeat(32_760)} [35 more characters]`)
    assert.strictEqual(maskSecrets.cutText("a".repeat(40_000)), `${"a".repeat(32_368)} [7632 more characters]`)
  })
})
