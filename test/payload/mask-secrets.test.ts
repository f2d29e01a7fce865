import { assert, describe, it } from "@effect/vitest"
import { maskJson, maskText } from "#src/payload/internal/maskSecrets.ts"

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
    ["-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- rest", "[redacted] rest"],
    ["AKIAIOSFODNN7EXAMPLE", "[redacted]"]
  ])("%s", (text, expected) => {
    if (typeof expected === "string") assert.strictEqual(maskText(text), expected)
    else assert.match(maskText(text), expected)
  })

  it.each([
    "The task-force of risk-management met.",
    "model: gpt-5.2, max_tokens: 100000",
    "https://example.test:8080/a?b=c",
    "Basic research is basic."
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
      headers: { Authorization: "[redacted]", accept: "x" },
      list: [{ text: "use [redacted]" }],
      "[redacted]": 1
    })
  })

  it("takes linear time", () => {
    for (const part of [
      "sk-",
      "a:",
      "://a:",
      "eyJaaaaaaaa",
      "-----BEGIN PRIVATE KEY-----",
      "Bearer ",
      "password",
      "a-",
      " "
    ]) {
      const text = part.repeat(Math.ceil(300_000 / part.length))
      const start = process.cpuUsage()
      maskText(text)
      const { user } = process.cpuUsage(start)
      assert.isBelow(user / 1000, 2000, part)
    }
  })
})
