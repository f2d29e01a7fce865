import { assert } from "@effect/vitest"
import { Effect, type Schema } from "effect"
import { When } from "effect-emissary/plan"
import type { Case } from "../vocabulary.ts"

const verbs: { readonly [key: string]: When.When } = {
  "items.empty": When.field("items").empty(),
  "n.empty": When.field("n").empty(),
  "b.empty": When.field("b").empty(),
  "s.empty": When.field("s").empty(),
  "o.empty": When.field("o").empty(),
  "zz.empty": When.field("zz").empty(),
  "n.not_empty": When.field("n").notEmpty(),
  "zz.not_empty": When.field("zz").notEmpty(),
  "zz.equals(null)": When.field("zz").equals(null),
  "zz.not_equals('x')": When.field("zz").notEquals("x"),
  "o.greater_than(1)": When.field("o").greaterThan(1),
  "n.less_than(1)": When.field("n").lessThan(1),
  "s.greater_than(1)": When.field("s").greaterThan(1),
  "zz.in([null])": When.field("zz").in([null]),
  "zz.not_in(['a'])": When.field("zz").notIn(["a"]),
  "s.matches('^$')": When.field("s").matches("^$"),
  "n.matches('0')": When.field("n").matches("0"),
  "b.is(false)": When.field("b").is(false),
  "n.is(false)": When.field("n").is(false),
  "b.equals(0)": When.field("b").equals(0)
}

export const scenarios = {
  M01: ({ expect, given }: Case): Effect.Effect<void> =>
    Effect.sync(() => {
      const payload: Schema.Json = given["payload"] ?? null
      for (const [verb, value] of Object.entries(expect)) {
        // "strict" is about attributes of objects of the host language.
        if (verb.startsWith("strict")) continue
        const when = verbs[verb]
        assert(when !== undefined, `no condition for ${verb}`)
        assert.strictEqual(When.test(when, { payload, text: "" }, () => false), value, verb)
      }
    })
}
