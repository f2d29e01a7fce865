import { assert, describe, it } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import * as fuel from "#src/payload/internal/fuel.ts"
import * as patterns from "#src/payload/internal/patterns.ts"
import { JsonSchema } from "effect-emissary/payload"
import { Re2 } from "effect-emissary/re2"
import { test } from "../../test.ts"
import { compared } from "./compared.ts"
import { random } from "./random.ts"

const engine = Effect.runSync(Effect.provide(Effect.service(patterns.PatternEngine), Re2.layer))

const compile = (source: string) => patterns.compilePattern(source, fuel.make(1_000_000), engine)

const runs = { arbitrary: { runs: 300 } }

describe("PAY-C laws of the interpreter", () => {
  test.prop(
    "PAY-C answers as another interpreter does",
    [Schema.Int],
    function* ([seed]) {
      const { accepts, schema, value } = yield* compared(seed)
      for (let i = 0; i < 20; i++) {
        const input = value()
        const { expected, found } = accepts(input)
        assert.strictEqual(found, expected, JSON.stringify({ schema, input }))
      }
    },
    runs
  )

  test.prop(
    "PAY-C what validate returns is accepted as it is, what is accepted strictly stays, and issues come with refusals",
    [Schema.Int],
    function* ([seed]) {
      const { document, value } = random(seed)
      const checked = yield* JsonSchema.make(document())
      for (let i = 0; i < 10; i++) {
        const input = value()
        const before = structuredClone(input)
        const result = JsonSchema.validate(checked, input, { coerce: true })
        assert.deepStrictEqual(input, before)
        if (Result.isSuccess(result)) assert.isTrue(JsonSchema.accepts(checked, result.success))
        else assert.isAbove(result.failure.length, 0)
        const strict = JsonSchema.validate(checked, input, { strict: true })
        if (JsonSchema.accepts(checked, input) && Result.isSuccess(strict)) {
          assert.strictEqual(Result.isSuccess(result), true, JSON.stringify({ schema: checked.json, input }))
        }
      }
    },
    runs
  )
})

describe("DESIGN 5.10 patterns mean what they mean in ECMAScript", () => {
  const sources = [
    String.raw`^\d{3}-\d{4}$ a.c ^\S+@\S+$ [\s\S] ^[^\s]+$ [\S] ^[\w.-]+$ \bfoo\b ^\u0061\x62$ \u{1F600}`,
    String.raw`\uD83D\uDE00 ^.$ [^] [] [[]a ^[[:alpha:]]+$ \/\. ^\cJ$ (?:a|b)+? (?<year>\d{4}) ^\p{L}+$`,
    String.raw`\p{Letter}\P{Lu} \p{Script=Greek} \p{ASCII} ^a{2,}$ a{,2} x{ } ^\@\_$ \- ^[\-a]+$ \0 [\b] $ ^$ a|^$`,
    String.raw`^[a-zA-Z0-9_]*(?:-[a-z]+)*$`
  ].flatMap((line) => line.split(" "))
  const texts = [
    "",
    "a|abc|a\nc|a\rc|a\u2028c|123-4567|x@y| |\u00a0|\ufeff|foo|a foo b|foob|ab|😀|😀😀|[a|[|:|a:]|/.|\n",
    "aa|a{,2}|x{|}|@_|-|a-a|\0|\b|Aé|αβ|é1|2024|1|_|a-b-c|[[:alpha:]]|l]"
  ].flatMap((line) => line.split("|"))
  for (const source of sources) {
    it(`DESIGN 5.10 ${source}`, () => {
      const unicode = Result.try(() => new RegExp(source, "u"))
      const expected = Result.isSuccess(unicode) ? unicode.success : new RegExp(source)
      const actual = Result.getOrThrow(compile(source))
      for (const text of texts) assert.strictEqual(actual.test(text), expected.test(text), JSON.stringify(text))
    })
  }

  for (const source of ["(?=a)", "(?!a)", "(?<=a)b", "(a)\\1", "\\k<a>", "(?i:a)", "a{1001}", "\\Z", "a{100}{100}"]) {
    it(`DESIGN 5.10 refuses ${source}`, () => assert.isTrue(Result.isFailure(compile(source))))
  }
})
