import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Result, Schema } from "effect"
import * as condition from "#src/tool/internal/condition.ts"
import * as retryPolicy from "#src/run/internal/retryPolicy.ts"
import { PatternEngine } from "#src/payload/internal/patterns.ts"
import { Json } from "effect-emissary/payload"
import { Plan, type PlanDefinition, Step, When } from "effect-emissary/plan"
import { Re2 } from "effect-emissary/re2"
import { test } from "../test.ts"

const engine = Effect.runSync(Effect.provide(Effect.service(PatternEngine), Re2.layer))

const holds = (when: When.When, payload: Schema.Json, text = "", custom = (_: string) => false) =>
  condition
    .evaluate(when, { payload, text }, (name) => Effect.succeed(custom(name)))
    .pipe(Effect.provideService(PatternEngine, engine), Effect.runSync)

const problemsOf = (when: When.When) => condition.analyze(when, engine).problems

const planOf = (when: When.When) =>
  Plan.make("plan", [
    Step.make("one", { target: () => Effect.succeed("a"), routes: [["two", when]] }),
    Step.make("two", { target: () => Effect.succeed("b") })
  ])

const decode = (input: unknown) => Effect.exit(Json.decode(When.When)(input))

/** Conditions of every kind, over few keys and values, so that they often hold. */
const Value = Schema.Union([Schema.Null, Schema.Literals([0, 1, -0, 1.5, "", "a", "b", "\u{1F600}", true, false])])
const Payload: Schema.Codec<Schema.Json> = Schema.Union([
  Value,
  Schema.Array(Value),
  Schema.Struct({ a: Value, b: Schema.optionalKey(Schema.Struct({ a: Value })) }),
  Schema.Struct({ a: Schema.Array(Value), constructor: Value })
])
const Path = Schema.Array(
  Schema.Union([Schema.Literals(["a", "b", "__proto__", "constructor", "toString", "length"]), Schema.Literals([0, 1])])
)
const LeafWhen = Schema.Union([
  Schema.TaggedStruct("Equals", { path: Path, value: Payload }),
  Schema.TaggedStruct("Empty", { path: Path }),
  Schema.TaggedStruct("In", { path: Path, values: Schema.Array(Payload) }),
  Schema.TaggedStruct("GreaterThan", { path: Path, value: Schema.Literals([0, 1, "", "a"]) }),
  Schema.TaggedStruct("LessThan", { path: Path, value: Schema.Literals([0, 1, "", "b"]) }),
  Schema.TaggedStruct("Matches", { path: Path, pattern: Schema.Literals(["a", "^$", "(", "(?=a)", "^(a+)+$"]) }),
  Schema.TaggedStruct("Text", { value: Schema.Literals(["", "a"]) }),
  Schema.TaggedStruct("Custom", { name: Schema.Literals(["yes", "no"]) })
])
const around = <S extends Schema.Constraint>(inner: S) =>
  [
    Schema.TaggedStruct("And", { all: Schema.Array(inner) }),
    Schema.TaggedStruct("Or", { any: Schema.Array(inner) }),
    Schema.TaggedStruct("Not", { when: inner })
  ] as const
const Nested = Schema.Union(around(Schema.Union([LeafWhen, ...around(LeafWhen)])))

const nest = (depth: number): When.When => (depth === 0 ? When.always : When.not(nest(depth - 1)))

const nestJson = (depth: number): Schema.Json =>
  depth === 0 ? { kind: "and", conditions: [] } : { kind: "not", condition: nestJson(depth - 1) }

describe("PLAN-3 When", () => {
  it("M01 a payload without members has none", () => {
    for (const payload of [null, 1, "text", true, []]) assert.isTrue(holds(When.field("zz").empty(), payload))
  })

  it("PLAN-3 paths take own keys of objects and indices of arrays, nothing else", () => {
    const payload = { user: { age: 3, tags: ["x", "y"] }, "1": "one" }
    assert.isTrue(holds(When.field("user", "age").greaterThan(2), payload))
    assert.isTrue(holds(When.field("user", "tags", 1).equals("y"), payload))
    assert.isTrue(holds(When.field("1").equals("one"), payload))
    for (const path of [
      When.field("user", "tags", "length"),
      When.field("user", "tags", "1"),
      ...[1, "toString", "__proto__"].map((key) => When.field(key)),
      When.field("constructor", "name")
    ]) {
      assert.isTrue(holds(path.equals(null), payload), JSON.stringify(path.empty()))
    }
    assert.isTrue(holds(When.field(0, "length").equals(null), ["abc"]))
    assert.isTrue(holds(When.field("a", "b").equals(null), { a: "b" }))
  })

  it("PLAN-3 equality is equality of JSON", () => {
    const equals = (a: Schema.Json, b: Schema.Json) => holds(When.payload.equals(a), b)
    assert.isTrue(equals({ a: 1, b: [{ c: null }] }, { b: [{ c: null }], a: 1 }))
    assert.isTrue(equals(0, -0))
    assert.isFalse(equals({ a: null }, {}))
    assert.isFalse(equals({}, { a: null }))
    assert.isFalse(equals([1, 2], [2, 1]))
    assert.isFalse(equals([], {}))
    assert.isFalse(equals({ toString: 1 }, { valueOf: 1 }))
    assert.isFalse(equals("1", 1))
    // Deeper than the stack.
    let [deep, same]: [Schema.Json, Schema.Json] = [1, 1]
    for (let i = 0; i < 100_000; i++) [deep, same] = [[deep], [same]]
    assert.isTrue(equals(deep, same))
    assert.isFalse(equals(deep, [same]))
  })

  it("PLAN-3 strings are ordered by code points, and only values of one kind are compared", () => {
    assert.isTrue(holds(When.payload.greaterThan("\uffff"), "\u{10000}"))
    assert.isTrue(holds(When.payload.lessThan("b"), "a"))
    assert.isTrue(holds(When.payload.lessThan("ab"), "a"))
    for (const value of [null, "2", true, [2], { a: 2 }]) {
      assert.isFalse(holds(When.payload.greaterThan(1), value))
      assert.isFalse(holds(When.payload.lessThan(3), value))
    }
    assert.isFalse(holds(When.payload.greaterThan("a"), 2))
  })

  it("PLAN-3 a pattern is searched for, in linear time", () => {
    assert.isTrue(holds(When.payload.matches("b+"), "abc"))
    assert.isFalse(holds(When.payload.matches("^b"), "abc"))
    assert.isFalse(holds(When.payload.matches("^(a+)+$"), `${"a".repeat(50_000)}b`))
    assert.isFalse(holds(When.payload.matches("1"), 1))
  })

  test("KEEP-7 a pattern for RE2 is refused without Re2.layer, and works wherever the plan that has it runs", function* () {
    const when = When.payload.matches("^(a+)+x$")
    const accepted = Effect.provide(Effect.result(planOf(when)), Re2.layer)
    assert.isTrue(Result.isSuccess(yield* accepted))
    const refused = yield* Effect.flip(planOf(when))
    assert.include(refused.message, "Provide Re2.layer")
    const test = condition.evaluate(when, { payload: "aax", text: "" }, () => Effect.succeed(false))
    assert.isTrue(yield* test)
    assert.isTrue(Exit.isSuccess(yield* decode({ kind: "matches", path: [], pattern: "^(a+)+x$" })))
  })

  it("PLAN-3 text is the text of the payload", () => {
    assert.isTrue(holds(When.text("approve"), "approve", "approve"))
    assert.isFalse(holds(When.text("approve"), "approve", "approve\n"))
  })

  it("PLAN-3 and, or, not, always, never", () => {
    const [t, f] = [When.always, When.or()]
    assert.isTrue(holds(When.and(t, t), null))
    assert.isFalse(holds(When.and(t, f), null))
    assert.isTrue(holds(When.or(f, t), null))
    assert.isFalse(holds(When.or(f, f), null))
    assert.isTrue(holds(When.not(f), null))
    assert.isTrue(holds(When.and(), null))
    assert.isFalse(holds(When.or(), null))
  })

  test("PLAN-3 predicates are asked in order, and no more than needed", function* () {
    const asked: Array<string> = []
    const custom = (name: string) => Effect.sync(() => asked.push(name) > 0 && name.startsWith("t"))
    const run = (when: When.When) => condition.evaluate(when, { payload: 1, text: "1" }, custom)
    const [t1, t2, f1] = [When.custom("t1"), When.custom("t2"), When.custom("f1")]
    assert.isFalse(yield* run(When.and(t1, f1, t2)))
    assert.deepStrictEqual(asked.splice(0), ["t1", "f1"])
    assert.isTrue(yield* run(When.or(f1, t1, t2)))
    assert.deepStrictEqual(asked.splice(0), ["f1", "t1"])
    assert.isFalse(yield* run(When.and(When.payload.equals(2), t1)))
    assert.deepStrictEqual(asked.splice(0), [])
    assert.isTrue(yield* run(When.not(When.and(t1, When.not(t2)))))
    assert.deepStrictEqual(asked.splice(0), ["t1", "t2"])
  })

  test("PLAN-3 a predicate's failure is the failure", function* () {
    const when = When.or(When.payload.equals(1), When.custom("x"))
    const fails = condition.evaluate(when, { payload: 2, text: "" }, (name) => Effect.fail(`no ${name}`))
    assert.strictEqual(yield* Effect.flip(fails), "no x")
    assert.isTrue(yield* condition.evaluate(when, { payload: 1, text: "" }, (name) => Effect.fail(`no ${name}`)))
  })

  test.prop(
    "PLAN-3 no condition fails, predicates may take their time, and JSON keeps the meaning",
    [Nested, Payload],
    function* ([when, payload]) {
      const custom = (name: string) => name === "yes"
      const test = (when: When.When) => holds(when, payload, "a", custom)
      const found = test(when)
      const later = (name: string) => Effect.yieldNow.pipe(Effect.as(custom(name)))
      assert.strictEqual(yield* condition.evaluate(when, { payload, text: "a" }, later), found)
      // Sound: the text of plain JSON is read back as what was written.
      const copy = JSON.parse(JSON.stringify(when)) as When.When
      assert.strictEqual(test(copy), found)
      assert.strictEqual(condition.label(copy), condition.label(when))
      assert.isAtMost(condition.label(when).length, 161)
      assert.notMatch(condition.label(when), /\n/)
      const written = yield* Effect.exit(Json.encode(When.When)(copy))
      assert.strictEqual(Exit.isSuccess(written), problemsOf(when).length === 0)
      if (Exit.isSuccess(written)) {
        assert.deepStrictEqual(yield* Json.decode(When.When)(written.value), copy)
      }
      if (problemsOf(when).length > 0) assert.isFalse(found)
      else assert.strictEqual(test(When.not(when)), !found)
    }
  )

  it("PLAN-3 problems of a condition have a place", () => {
    const problems = (when: When.When) => problemsOf(when).map(({ path }) => path)
    assert.deepStrictEqual(problems(When.and(When.always, When.not(When.payload.matches("(")))), [
      ["conditions", 1, "condition", "pattern"]
    ])
    assert.match(problemsOf(When.payload.matches("(?=a)"))[0]?.reason ?? "", /groups are not supported/)
    assert.match(problemsOf(When.payload.matches("(a)\\1"))[0]?.reason ?? "", /back references/)
    assert.deepStrictEqual(problems(When.field("a", -1).empty()), [["path", 1]])
    assert.deepStrictEqual(problems(When.or(When.payload.greaterThan(Number.NaN))), [["conditions", 0, "value"]])
    assert.deepStrictEqual(problems(nest(16)), [])
    assert.strictEqual(problemsOf(nest(17)).length, 1)
    assert.deepStrictEqual(problems(When.and(...Array.from({ length: 999 }, () => When.always))), [])
    assert.strictEqual(problemsOf(When.and(...Array.from({ length: 100_000 }, () => When.always))).length, 1)
  })

  it("PLAN-3 conditions that cannot be used are false and do no harm", () => {
    assert.isFalse(holds(When.not(When.payload.matches("(")), "a"))
    let deep: When.When = When.always
    for (let i = 0; i < 100_000; i++) deep = When.not(deep)
    assert.isFalse(holds(deep, null))
    assert.isTrue(condition.label(deep).includes("…"))
    const loop: { _tag: "And"; all: Array<When.When> } = { _tag: "And", all: [] }
    loop.all.push(...Array.from({ length: 50 }, () => loop))
    assert.isFalse(holds(loop, null))
    assert.isAtMost(condition.label(loop).length, 161)
  })

  test("PLAN-3 L2 decoding refuses unknown tags, patterns, depth and indices", function* () {
    for (const wrong of [
      { kind: "lambda", code: "x" },
      { kind: "matches", path: [], pattern: "(" },
      { kind: "matches", path: ["a"], pattern: "(?<!a)b" },
      { kind: "empty", path: [-1] },
      { kind: "empty", path: [1.5] },
      { kind: "empty" },
      { kind: "greater_than", path: [], value: null },
      { kind: "not", condition: { kind: "not" } },
      nestJson(17)
    ]) {
      assert.isTrue(Exit.isFailure(yield* decode(wrong)), JSON.stringify(wrong).slice(0, 80))
    }
    assert.isTrue(Exit.isSuccess(yield* decode(nestJson(16))))
    const conditions = [{ kind: "matches", path: [], pattern: "(" }]
    const error = yield* Effect.flip(Json.decode(When.When)({ kind: "or", conditions }))
    assert.include(error.message, "/conditions/0/pattern")
    assert.include(error.message, "linear time")
  })

  it("PLAN-3 customs, each once, in order", () => {
    const when = When.and(When.custom("b"), When.or(When.custom("a"), When.not(When.custom("b"))))
    assert.deepStrictEqual(condition.customsOf(when), ["b", "a"])
    assert.deepStrictEqual(condition.customsOf(When.always), [])
  })

  it.each([
    [When.field("items").empty(), "items is empty"],
    [When.field("items").notEmpty(), "items is not empty"],
    [When.field("user", "age").greaterThan(3), "user.age > 3"],
    [When.field("user", 0, "a b").lessThan("x"), 'user[0]["a b"] < "x"'],
    [When.field(0).is(true), "payload[0] = true"],
    [When.payload.notEquals({ a: [1] }), 'payload ≠ {"a":"…"}'],
    [When.payload.in(["a", 1]), 'payload in ["a",1]'],
    [When.payload.notIn([]), "payload not in []"],
    [When.payload.matches("^a"), 'payload matches "^a"'],
    [When.text("approve\n"), 'text = "approve\\n"'],
    [When.and(When.custom("vip"), When.or(When.always, When.or())), "vip() and (always or never)"],
    [When.not(When.and(When.custom("a"), When.custom("b c"))), 'not (a() and "b c"())'],
    [When.not(When.not(When.payload.empty())), "not payload is not empty"]
  ] as const)("PLAN-3 a label: %#", (when, expected) => {
    assert.strictEqual(condition.label(when), expected)
  })
})

describe("PLAN-1 RetryPolicy", () => {
  it("PLAN-1 the pauses are those of the documented table", () => {
    const pauses = (policy: PlanDefinition.RetryPolicy) =>
      [1, 2, 3, 4].map((tries) => retryPolicy.delayMillis(policy, tries))
    const slower = { times: 3, delayMillis: 100, factor: 2 }
    assert.deepStrictEqual(pauses({ times: 2 }), [0, 0, undefined, undefined])
    assert.deepStrictEqual(pauses({ times: 3, delayMillis: 100 }), [100, 100, 100, undefined])
    assert.deepStrictEqual(pauses(slower), [100, 200, 400, undefined])
    assert.deepStrictEqual(pauses({ ...slower, maxDelayMillis: 150 }), [100, 150, 150, undefined])
  })

  it("PLAN-1 no pause is endless, whatever the numbers", () => {
    const late = (delayMillis: number) => retryPolicy.delayMillis({ times: 1e9, delayMillis, factor: 1e9 }, 1e6)
    assert.strictEqual(late(1), retryPolicy.maxDelayMillis)
    assert.strictEqual(late(0), 0)
  })
})
