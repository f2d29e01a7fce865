import { assert, describe } from "@effect/vitest"
import { Duration, Effect, Fiber, Option, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import type * as boundTool from "#src/tool/internal/boundTool.ts"
import { ToolResult, ToolSettings } from "effect-emissary"
import { bind, call, kind, prepare } from "./support.ts"
import { test } from "../test.ts"

const Order = Schema.Struct({
  kind: Schema.Literals(["buy", "sell"]),
  items: Schema.Array(Schema.Struct({ sku: Schema.String, qty: Schema.Int })),
  note: Schema.optionalKey(Schema.String),
  size: Schema.optionalKey(Schema.Int.annotate({ default: 3 }))
})

const toolkit = Toolkit.make(
  Tool.make("order", { parameters: Order, success: Schema.Json }),
  Tool.make("strict", { parameters: Order, success: Schema.Json }).annotate(Tool.Strict, true),
  Tool.make("refined", {
    parameters: Schema.Struct({
      a: Schema.Struct({
        even: Schema.Int.check(Schema.makeFilter((n) => n % 2 === 0, { expected: "an even number" }))
      })
    })
  }),
  Tool.dynamic("raw", {
    parameters: {
      type: "object",
      properties: { city: { type: "string", minLength: 2 }, units: { type: "string", default: "celsius" } },
      required: ["city"],
      additionalProperties: false
    },
    success: Schema.Json
  }),
  Tool.make("nothing", { success: Schema.Json })
)

const ran: Array<string> = []
const echo = (name: string) => (args: unknown) =>
  Effect.sync(() => {
    ran.push(name)
    return JSON.parse(JSON.stringify(args)) as Schema.Json
  })

const tools = bind(toolkit, {
  order: echo("order"),
  strict: echo("strict"),
  refined: () => Effect.void,
  raw: echo("raw"),
  nothing: echo("nothing")
})

const good = { kind: "buy", items: [{ sku: "a", qty: 1 }] }

const failure = Effect.fnUntraced(function* (name: string, args: Schema.Json) {
  const result = yield* call(yield* tools, name, args)
  return result._tag === "Failure" ? result : assert.fail(`expected a failure, found ${JSON.stringify(result)}`)
})

/** Nothing runs, and the model reads each of the words. */
const invalid = Effect.fnUntraced(function* (name: string, args: Schema.Json, ...words: ReadonlyArray<string>) {
  ran.length = 0
  const result = yield* failure(name, args)
  assert.strictEqual(result.type, "validation_error")
  for (const word of words) assert.include(result.message, word)
  assert.deepStrictEqual(ran, [])
})

const value = Effect.fnUntraced(function* (name: string, args: Schema.Json) {
  const result = yield* call(yield* tools, name, args)
  return result._tag === "Success" ? result.value : assert.fail(result.message)
})

describe("TOOL-3 unknown tools", () => {
  test("are reported with the known names", function* () {
    const result = yield* failure("nope", {})
    assert.strictEqual(result.type, "unknown_tool")
    for (const name of ["nope", "order", "strict", "raw"]) assert.include(result.message, name)
  })

  test("L2 inherited names are unknown names", function* () {
    assert.strictEqual((yield* failure("toString", {})).type, "unknown_tool")
    assert.strictEqual((yield* failure("__proto__", {})).type, "unknown_tool")
  })

  test("TOOL-3 a long name is not sent back to the model at full length", function* () {
    assert.isBelow((yield* failure("n".repeat(1_000_000), {})).message.length, 500)
  })
})

describe("TOOL-4 validation before the handler", () => {
  test("collects every problem with its path, and runs nothing", function* () {
    const items = [{ sku: "a", qty: 1 }, { sku: 2 }]
    yield* invalid("order", { kind: "lend", items }, "/kind", "/items/1/sku", "/items/1/qty")
  })

  test("fills defaults in and removes a null of an optional property", function* () {
    assert.deepStrictEqual(yield* value("order", { ...good, note: null }), { ...good, size: 3 })
    assert.deepStrictEqual(yield* value("raw", { city: "Rome" }), { city: "Rome", units: "celsius" })
  })

  test("takes JSON text for an array or an object", function* () {
    assert.deepStrictEqual(yield* value("order", { ...good, items: `[{"sku":"a","qty":1}]` }), { ...good, size: 3 })
  })

  test("drops undeclared properties, or refuses them when the tool is strict", function* () {
    assert.deepStrictEqual(yield* value("order", { ...good, evil: true }), { ...good, size: 3 })
    yield* invalid("strict", { ...good, evil: true }, "evil")
  })

  test("DESIGN 5.5 tools with raw JSON Schema are checked the same way", function* () {
    yield* invalid("raw", { city: "R" }, "city")
    assert.deepStrictEqual(yield* value("raw", { city: "Rome", evil: 1 }), { city: "Rome", units: "celsius" })
  })

  test("what only the Schema knows is a validation_error too", function* () {
    yield* invalid("refined", { a: { even: 3 } }, "/a/even: expected an even number")
  })

  test("arguments as text are parsed; empty ones are {}", function* () {
    assert.deepStrictEqual(yield* value("order", JSON.stringify(good)), { ...good, size: 3 })
    for (const text of ["", "  \n", "{}", "null"]) assert.deepStrictEqual(yield* value("nothing", text), {})
  })

  test("malformed text is a validation_error with the position", function* () {
    yield* invalid("order", `{"kind":`, "JSON", "8")
  })

  test("anything but an object is a validation_error", function* () {
    for (const args of ["[1,2]", "3", `"text"`, "true"]) yield* invalid("nothing", args, "object")
  })

  test("L2 keys that poison prototypes are refused", function* () {
    yield* invalid("nothing", `{"__proto__":{"a":1}}`)
  })
})

describe("TOOL-1 timeouts", () => {
  const limited = Toolkit.make(
    Tool.make("default"),
    ToolSettings.timeout(Tool.make("annotated"), "2 seconds"),
    ToolSettings.timeout(Tool.make("forever"), Duration.infinity)
  )
  const set = bind(limited, { default: () => Effect.never, annotated: () => Effect.never, forever: () => Effect.never })

  const seconds = Effect.fnUntraced(function* (name: string, options?: Partial<boundTool.PrepareOptions>) {
    const prepared = yield* prepare(yield* set, name, {}, options)
    return Duration.toSeconds(Result.getOrThrow(prepared).timeout)
  })

  test("the run's option overrides the annotation, the annotation the default of 10 seconds", function* () {
    assert.strictEqual(yield* seconds("default"), 10)
    assert.strictEqual(yield* seconds("annotated"), 2)
    assert.strictEqual(yield* seconds("annotated", { timeout: "5 seconds" }), 5)
    assert.strictEqual(yield* seconds("forever"), Infinity)
  })

  test("the message names the time; the deadline of the run cuts it short", function* () {
    const tools = yield* set
    for (const [options, expected] of [
      [{}, 2],
      [{ timeout: "5 seconds" }, 5],
      [{ deadline: 1000 }, 1]
    ] as const) {
      yield* TestClock.setTime(0)
      const fiber = yield* Effect.forkChild(call(tools, "annotated", {}, options), { startImmediately: true })
      yield* TestClock.adjust(Duration.seconds(expected))
      const result = yield* Fiber.join(fiber)
      assert.strictEqual(kind(result), "timeout_error")
      assert.match(ToolResult.text(result), new RegExp(`timed out after ${expected} second`))
    }
  })

  test("infinity never times out", function* () {
    const fiber = yield* Effect.forkChild(call(yield* set, "forever", {}), { startImmediately: true })
    yield* TestClock.adjust("1000 days")
    assert.isUndefined(fiber.pollUnsafe())
    yield* Fiber.interrupt(fiber)
  })

  test("RT-3 after the deadline the handler does not run, not even one that would finish at once", function* () {
    yield* TestClock.setTime(5000)
    ran.length = 0
    const prepared = Result.getOrThrow(yield* prepare(yield* tools, "nothing", {}, { deadline: 4000 }))
    assert.strictEqual(kind(yield* Option.getOrThrow(prepared.execute)), "timeout_error")
    assert.deepStrictEqual(ran, [])
  })
})
