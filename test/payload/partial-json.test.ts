/** MONEY-5: JSON that arrives in pieces, part by part. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Random, Result, Schema } from "effect"
import { Json } from "effect-emissary/payload"
import { defaultLimits } from "#src/payload/internal/limits.ts"
import * as partialJson from "#src/payload/internal/partialJson.ts"
import { applyLines, growAt, lineOf, setAt } from "#src/payload/internal/partialValue.ts"
import { test } from "../test.ts"

interface Shape extends partialJson.Shape<Shape> {}

const text: Shape = { kind: "string", member: () => undefined }
const whole: Shape = { kind: "whole", member: () => undefined }
const array: Shape = { kind: "array", member: () => whole }
/** Texts grow where their key begins with `t`, objects are read where it begins with `o`, and lists where it begins with `l`. */
const object: Shape = {
  kind: "object",
  member: (key) => ({ t: text, o: object, l: array })[String(key)[0] ?? ""] ?? whole
}

/** The values that are shown, one for each piece that shows something. */
const shownOf = (pieces: ReadonlyArray<string>, root: Shape = object, limits = defaultLimits) => {
  const reader = new partialJson.PartialJson<Shape>(
    (bracket) => (bracket === (root.kind === "array" ? "[" : "{") ? root : undefined),
    limits
  )
  const shown: Array<unknown> = []
  let value: unknown
  let lines: Schema.Json | undefined
  for (const piece of pieces) {
    for (const part of reader.add(piece)) {
      value =
        "text" in part
          ? growAt(value, part.path, part.text)
          : "value" in part
            ? setAt(value, part.path, part.value)
            : undefined
      lines = applyLines(
        lines,
        "text" in part
          ? lineOf(part.path, part.text, 1)
          : "value" in part
            ? lineOf(part.path, part.value)
            : lineOf(part.path)
      )
      assert.deepStrictEqual(lines, value)
      shown.push(value)
    }
  }
  return shown
}

const split = (text: string, cuts: ReadonlyArray<number>): ReadonlyArray<string> => {
  const at = [0, ...cuts.map((cut) => cut % (text.length + 1)).toSorted((a, b) => a - b), text.length]
  return at.slice(1).map((end, index) => text.slice(at[index], end))
}

/** True if `before` may grow to `after`: keys come, texts grow, items are added, and all else stays. */
const grows = (before: unknown, after: unknown): boolean => {
  if (before === undefined) return true
  if (typeof before === "string") return typeof after === "string" && after.startsWith(before)
  if (Array.isArray(before)) {
    return Array.isArray(after) && before.every((item, index) => JSON.stringify(item) === JSON.stringify(after[index]))
  }
  if (typeof before !== "object" || before === null) return before === after
  return Object.entries(before).every(
    ([key, value]) => typeof after === "object" && after !== null && grows(value, Reflect.get(after, key))
  )
}

const Value = Schema.Struct({
  t: Schema.String,
  o: Schema.Struct({
    tx: Schema.String,
    n: Schema.Finite,
    l: Schema.Array(Schema.Json),
    b: Schema.NullOr(Schema.Boolean)
  }),
  l: Schema.Array(Schema.Struct({ t: Schema.String, n: Schema.Int })),
  't"\\\u{1F600}\n': Schema.String,
  w: Schema.Json
})

const Cuts = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000 })))

const escaped = (json: string): string =>
  json.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

describe("MONEY-5 JSON that arrives in pieces", () => {
  test.prop(
    "MONEY-5 each split of a text grows to its value, part by part",
    [Value, Cuts, Schema.Literals(["plain", "escaped", "spaced"])],
    function* ([value, cuts, form]) {
      const json = JSON.stringify(value, undefined, form === "spaced" ? 2 : undefined)
      if (Result.isFailure(yield* Effect.result(Json.parse(json)))) return
      const shown = shownOf(split(form === "escaped" ? escaped(json) : json, cuts))
      assert.deepStrictEqual(shown.at(-1), JSON.parse(json))
      shown.reduce((before, after) => {
        assert(grows(before, after), `${JSON.stringify(before)} became ${JSON.stringify(after)}`)
        return after
      }, undefined)
      // The parts do not depend on the pieces, except where texts are cut
      assert.deepStrictEqual(shownOf([json]).at(-1), shown.at(-1))
    }
  )

  it("MONEY-5 a number, a literal and a key wait for their ends", () => {
    assert.deepStrictEqual(shownOf([`{"a":12`, `34`, `,"b":tr`, `ue `, `,"l":[1`, `2,3`, `]}`]), [
      { a: 1234 },
      { a: 1234, b: true },
      { a: 1234, b: true, l: [] },
      { a: 1234, b: true, l: [12] },
      { a: 1234, b: true, l: [12, 3] }
    ])
  })

  it("MONEY-5 escapes and halves of characters across pieces are shown whole", () => {
    const shown = shownOf([`{"t":"a\\`, `n\\u00`, `e9\\uD83D`, `\\u`, `DE00`, `\uD83D`, `\uDE00\\\\`, `u0041`, `"}`])
    assert.deepStrictEqual(shown.at(-1), { t: "a\né\u{1F600}\u{1F600}\\u0041" })
    for (const value of shown) assert.isTrue(JSON.stringify(value).isWellFormed())
    for (const value of shown) assert.notMatch(JSON.stringify(value), /\\ud/)
    assert.deepStrictEqual(shownOf([`{"t":"\\uD83D`, `x\\uD83D"}`]).at(-1), { t: "\uD83Dx\uD83D" })
  })

  it("MONEY-5 a later value takes the place of an earlier one, and text around values is passed over", () => {
    assert.deepStrictEqual(shownOf([`I think [1] {no} `, '```json\n{"a":1}``` or {', `"a":2}`, ` as in {"zz`]), [
      { a: 1 },
      undefined,
      { a: 2 }
    ])
  })

  it("MONEY-5 nothing inside a value that is malformed is a value", () => {
    assert.deepStrictEqual(shownOf([`{"a":1,"b":x,"l":[{"a":2}]} {"a":3}`]), [{ a: 1 }])
  })

  const broken = [
    `{"a":1,"b" 2}`,
    `{"a":1,"a":2}`,
    `{"a":1 "b":2}`,
    `{"a":1,"b":01}`,
    `{"a":1,"b":"\n"}`,
    `{"a":1,"t":"`,
    `{"a":1,"b":{"__proto__":{}}}`,
    `{"a":1,}`
  ]
  for (const json of broken) {
    it(`MONEY-5 nothing is shown of what is malformed: ${JSON.stringify(json)}`, () => {
      for (const pieces of [[json], json.split("")]) {
        assert.deepInclude([{ a: 1 }, { a: 1, t: "" }], shownOf(pieces).at(-1))
      }
    })
  }

  it("MONEY-5 depth, lists and keys have their limits", () => {
    const limits = { ...defaultLimits, maxDepth: 4, maxArrayLength: 3, maxKeys: 3 }
    const deep = `{"o":`.repeat(5)
    assert.deepStrictEqual(shownOf([deep], object, limits).at(-1), { o: { o: { o: {} } } })
    assert.deepStrictEqual(shownOf([`[1,2,3,4,5]`], array, limits).at(-1), [1, 2, 3])
    assert.deepStrictEqual(shownOf([`{"a":1,"b":2,"c":3,"d":4}`], object, limits).at(-1), { a: 1, b: 2, c: 3 })
    assert.deepStrictEqual(shownOf([`{"a":[[[[[1]]]]],"b":1}`], object, limits), [])
    for (const hostile of ["[", "{", `{"o":`, `[{"a":`]) shownOf([hostile.repeat(100_000)])
  })

  test("MONEY-5 each character is read once: the work does not grow with what is there", function* () {
    const items = 4000
    const reads: Array<number> = []
    for (const count of [items, 2 * items]) {
      let asked = 0
      const counting: Shape = { kind: "array", member: () => ((asked += 1), whole) }
      const json = JSON.stringify(Array.from({ length: count }, (_, n) => n))
      const reader = new partialJson.PartialJson<Shape>(() => counting, defaultLimits)
      for (const piece of json) reader.add(piece)
      reads.push(asked)
    }
    assert.deepStrictEqual(reads, [items, 2 * items])
    yield* Random.next
  })
})
