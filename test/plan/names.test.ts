/** The order of names, by code points. */
import { assert, describe } from "@effect/vitest"
import { Schema } from "effect"
import * as base from "#src/payload/internal/base.ts"
import { test } from "../test.ts"

/** By the code points of both, one after the other. */
const reference = (left: string, right: string): number => {
  const [a, b] = [left, right].map((text) => Array.from(text, (point) => point.codePointAt(0) ?? 0))
  const at = a?.findIndex((point, index) => point !== b?.[index]) ?? -1
  if (a === undefined || b === undefined || at < 0) return Math.sign(left.length - right.length)
  return at >= b.length || (a[at] ?? 0) > (b[at] ?? 0) ? 1 : -1
}

/** Texts that begin alike, with pairs whose first halves are the same, and characters on both sides of them. */
const Name = Schema.Array(Schema.Literals(["a", "b", "\uFFFF", "\u{1F600}", "\u{1F601}", "\u{10FFFF}"])).check(
  Schema.isMaxLength(4)
)

describe("PLAN-2 the order of names", () => {
  test.prop("is that of their code points", { left: Name, right: Name }, function* ({ left, right }) {
    yield* []
    const [a, b] = [left.join(""), right.join("")]
    assert.strictEqual(base.byCodePoint(a, b), reference(a, b), JSON.stringify([a, b]))
  })

  test("has pairs after all that is one unit, and a beginning before the whole", function* () {
    yield* []
    const sorted = ["", "a", "a\uFFFF", "a\u{1F600}", "a\u{1F600}b", "a\u{1F601}", "b"]
    for (const [index, left] of sorted.entries()) {
      for (const [other, right] of sorted.entries()) {
        assert.strictEqual(base.byCodePoint(left, right), Math.sign(index - other))
      }
    }
  })
})
