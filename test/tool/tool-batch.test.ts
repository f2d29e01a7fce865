import { assert, describe } from "@effect/vitest"
import { Cause, Clock, Deferred, Duration, Effect, Exit, Fiber, Layer, Logger, Option, Schema, Tracer } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import * as toolCall from "#src/tool/internal/toolCall.ts"
import { ToolContract, ToolFailure, ToolResult, ToolRuntime, ToolSettings } from "effect-emissary"
import { bind, calls, kind, kinds, prepare, quiet, runWithCauses } from "./support.ts"
import { after } from "../after.ts"
import { test } from "../test.ts"

class Boom extends Error {}

const N = Schema.Struct({ n: Schema.Int })

const concurrency = Effect.map(ToolRuntime.ToolRuntime, (runtime) => runtime.concurrency)

const concurrent = ToolRuntime.layerConcurrent()
const muted = Layer.merge(concurrent, quiet)

describe("a batch of very many calls", () => {
  for (const [name, layer] of Object.entries({ inline: ToolRuntime.layerInline, concurrent })) {
    test(`RT-3 that end at once lets other fibers have their turn (${name})`, layer, function* () {
      let ended = 0
      const tools = yield* bind(Toolkit.make(Tool.make("count")), { count: () => Effect.sync(() => void ended++) })
      const batch = yield* calls(tools, ...Array.from({ length: 2500 }, () => "count" as const))
      const other = yield* Effect.forkChild(Effect.sync(() => ended))
      const results = yield* toolCall.run(batch)
      assert.strictEqual(results.length, 2500)
      assert.isBelow(yield* Fiber.join(other), 2500)
      assert.strictEqual(ended, 2500)
    })
  }
})

describe("L6 siblings settle", () => {
  const toolkit = Toolkit.make(
    Tool.make("sleep", { parameters: N, success: Schema.Int }),
    Tool.make("boom"),
    Tool.make("throws"),
    Tool.make("self"),
    Tool.make("garbage")
  )
  const tools = bind(toolkit, {
    sleep: ({ n }) => Effect.as(Effect.sleep(n), n),
    boom: () => Effect.die(new Boom("the text")),
    throws: () => {
      throw new Boom("thrown")
    },
    self: () => Effect.interrupt,
    // a handler that breaks its own types
    garbage: () => JSON.parse(`"raw"`)
  })
  const sleep = (n: number) => ["sleep", { n }] as const

  for (const [name, layer] of Object.entries({
    inline: Layer.merge(ToolRuntime.layerInline, quiet),
    concurrent: muted
  })) {
    test(
      `RT-3 TRUST-5 defects of every kind are one unhandled_error, described if asked for (${name})`,
      layer,
      function* () {
        const batch = yield* calls(yield* tools, sleep(0), "boom", "throws", "self", "garbage", sleep(0))
        const results = yield* after("1 second", toolCall.run(batch))
        const unhandled = "unhandled_error"
        assert.deepStrictEqual(kinds(results), ["success", unhandled, unhandled, unhandled, unhandled, "success"])
        const texts = new Set(results.slice(1, 5).map(ToolResult.text))
        assert.deepStrictEqual([...texts], ["The tool failed unexpectedly. The log has the details."])
        const described = yield* after("1 second", toolCall.run(batch, { defects: "describe" }))
        assert.deepStrictEqual(kinds(described), kinds(results))
        assert.deepStrictEqual(described.slice(1, 4).map(ToolResult.text), [
          "Error executing tool: Boom: the text",
          "Error executing tool: Boom: thrown",
          "Error executing tool: it interrupted itself"
        ])
      }
    )
  }

  const anonymous = (() => class extends Error {})()
  for (const [what, defect, text] of [
    ["an Error", new Error("x"), "Error: x"],
    ["an error of a class", new Boom("x"), "Boom: x"],
    ["an error with a name", Object.assign(new Error("x"), { name: "Named" }), "Named: x"],
    ["an error of a class without a name", Object.assign(new anonymous("x"), { name: "Named" }), "Named: x"],
    ["a text", "x", "x"],
    ["null", null, "something that is not an Error"],
    ["an object", {}, "something that is not an Error"],
    ["a function", () => 1, "something that is not an Error"],
    [
      "an error that throws",
      Object.defineProperty(new Error("x"), "message", { get: () => assert.fail() }),
      "an error that cannot be described"
    ]
  ] as const) {
    test(`TRUST-5 ${what} is described as ${text}`, quiet, function* () {
      const set = yield* bind(Toolkit.make(Tool.make("dies")), { dies: () => Effect.die(defect) })
      const results = yield* toolCall.run(yield* calls(set, "dies"), { defects: "describe" })
      assert.deepStrictEqual(results.map(ToolResult.text), [`Error executing tool: ${text}`])
    })
  }

  test("RT-1 onFinished runs the moment each call ends, with its duration", concurrent, function* () {
    yield* TestClock.adjust("1 second")
    const batch = yield* calls(yield* tools, sleep(300), sleep(100), sleep(200))
    const seen: Array<string> = []
    const fiber = yield* Effect.forkChild(
      toolCall.run(batch, {
        onFinished: (id, _result, duration) => Effect.sync(() => seen.push(`${id}: ${Duration.toMillis(duration)}`))
      })
    )
    yield* TestClock.adjust(150)
    assert.deepStrictEqual(seen, ["1: 100"])
    yield* TestClock.adjust(1000)
    yield* Fiber.join(fiber)
    assert.deepStrictEqual(seen, ["1: 100", "2: 200", "0: 300"])
  })

  test("calls with the same id each get their own result", quiet, function* () {
    const set = yield* tools
    const [one, two] = yield* Effect.all([calls(set, sleep(0)), calls(set, "boom")])
    const results = yield* after(10, toolCall.run([...one, ...two, ...one]))
    assert.deepStrictEqual(kinds(results), ["success", "unhandled_error", "success"])
  })

  test("RT-3 the cause goes to the log and to onFinished", function* () {
    const logged: Array<unknown> = []
    const logger = Logger.make(({ cause, message }) => logged.push(message, cause))
    const batch = runWithCauses(yield* calls(yield* tools, "boom"))
    const { causes } = yield* Effect.provide(batch, Logger.layer([logger]))
    assert.instanceOf(causes[0] === undefined ? undefined : Cause.squash(causes[0]), Boom)
    assert.isTrue(logged.some((entry) => Cause.isCause(entry) && Cause.squash(entry) instanceof Boom))
    assert.deepInclude(logged, ['Tool "boom" failed unexpectedly'])
  })

  test("MEND-2 a defect that quotes a long argument is logged with a part of it", function* () {
    const path = "eyJ-".repeat(50_000)
    const set = yield* bind(Toolkit.make(Tool.make("read")), { read: () => Effect.die(new Error(`no file ${path}`)) })
    const logged: Array<Cause.Cause<unknown>> = []
    const logger = Logger.make(({ cause }) => logged.push(cause))
    yield* Effect.provide(toolCall.run(yield* calls(set, "read")), [Logger.layer([logger]), ToolRuntime.layerInline])
    const [error] = logged.flatMap((cause) => Cause.prettyErrors(cause))
    assert.match(error?.message ?? "", /^no file (?:eyJ-)*(?:e|ey|eyJ)? \[\d+ more characters\]$/)
    assert.isBelow((error?.message ?? "").length, 40_000)
    assert.isBelow((error?.stack ?? "").length, 40_000)
  })

  test("RT-3 with defects: die the batch dies with the first defect, after all have settled", muted, function* () {
    const batch = yield* calls(yield* tools, sleep(100), "boom", sleep(300), "throws")
    const finished: Array<string> = []
    const onFinished = (id: string) => Effect.sync(() => finished.push(id))
    const exit = yield* after("1 second", Effect.exit(toolCall.run(batch, { defects: "die", onFinished })))
    assert.sameMembers(finished, ["0", "1", "2", "3"])
    assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
    assert.strictEqual(Exit.isFailure(exit) && (Cause.squash(exit.cause) as Error).message, "the text")
  })

  test("RT-2 a wrapper may try again; the cause of an earlier attempt is forgotten", quiet, function* () {
    let attempts = 0
    const set = yield* bind(Toolkit.make(Tool.make("flaky", { failure: ToolFailure })), {
      flaky: () =>
        Effect.suspend(() => (++attempts === 1 ? Effect.die(new Boom("first")) : ToolFailure.error("second")))
    })
    const batch = runWithCauses(yield* calls(set, "flaky"), { defects: "die" })
    const twice = ToolRuntime.around((_, next) => Effect.andThen(next, next))
    const { causes, results } = yield* Effect.provide(batch, twice)
    assert.deepStrictEqual(results.map(ToolResult.text), ["second"])
    assert.deepStrictEqual(causes, [undefined])
  })

  test("RT-2 a defect that a wrapper dealt with is none", quiet, function* () {
    yield* toolCall
      .run(yield* calls(yield* tools, "boom"), { defects: "die" })
      .pipe(Effect.provide(ToolRuntime.around((_, next) => Effect.as(next, ToolResult.success("fallback")))))
  })
})

describe("TOOL-1 timeouts of a batch", () => {
  test("a handler that resists interruption delays only its own result, and has timed out", concurrent, function* () {
    const events: Array<string> = []
    const push = (event: string) => Effect.sync(() => events.push(event))
    const toolkit = Toolkit.make(
      ToolSettings.timeout(Tool.make("stubborn", { success: Schema.String }), 100),
      ToolSettings.timeout(Tool.make("tidy"), 100),
      Tool.make("quick")
    )
    const set = yield* bind(toolkit, {
      stubborn: () => Effect.uninterruptible(Effect.as(Effect.sleep(500), "made it after all")),
      tidy: () => Effect.never.pipe(Effect.onInterrupt(() => Effect.andThen(Effect.sleep(50), push("tidied up")))),
      quick: () => Effect.void
    })
    const batch = yield* calls(set, "stubborn", "tidy", "quick")
    const fiber = yield* Effect.forkChild(toolCall.run(batch, { onFinished: push }))
    yield* TestClock.adjust(50)
    assert.deepStrictEqual(events, ["2"])
    yield* TestClock.adjust(200)
    assert.deepStrictEqual(events, ["2", "tidied up", "1"])
    yield* TestClock.adjust(1000)
    assert.deepStrictEqual(kinds(yield* Fiber.join(fiber)), ["timeout_error", "timeout_error", "success"])
  })

  const limited = Effect.fnUntraced(function* (
    handler: Effect.Effect<void>,
    treat: <A>(run: Effect.Effect<A>) => Effect.Effect<A> = (run) => run
  ) {
    const set = yield* bind(Toolkit.make(ToolSettings.timeout(Tool.make("t"), 100)), { t: () => handler })
    return kinds(yield* after(100, treat(toolCall.run(yield* calls(set, "t")))))
  })

  test("a handler that ends at the very moment of its timeout has ended", function* () {
    assert.deepStrictEqual(yield* limited(Effect.sleep(100)), ["success"])
  })

  test("a tool without a timeout may take its time, and no timer outlives the call that it limits", function* () {
    const waiting: Array<number> = []
    const clock = yield* Clock.Clock
    const counted: Clock.Clock = {
      ...clock,
      sleep: (duration) =>
        Effect.suspend(() => {
          waiting.push(Duration.toMillis(duration))
          return Effect.ensuring(
            clock.sleep(duration),
            Effect.sync(() => waiting.splice(waiting.indexOf(Duration.toMillis(duration)), 1))
          )
        })
    }
    const toolkit = Toolkit.make(
      ToolSettings.timeout(Tool.make("forever"), Duration.infinity),
      ToolSettings.timeout(Tool.make("short"), 1000)
    )
    const set = yield* bind(toolkit, { forever: () => Effect.sleep(10), short: () => Effect.sleep(10) })
    const batch = toolCall.run(yield* calls(set, "forever", "short"), {
      onFinished: () => Effect.sync(() => assert.deepStrictEqual(waiting, []))
    })
    assert.deepStrictEqual(kinds(yield* after(50, Effect.provideService(batch, Clock.Clock, counted))), [
      "success",
      "success"
    ])
  })

  test("each call of a batch ends by its own timeout, and leaves no timer", concurrent, function* () {
    let sleeping = 0
    const clock = yield* Clock.Clock
    const counted: Clock.Clock = {
      ...clock,
      sleep: (duration) =>
        Effect.suspend(() => {
          sleeping++
          return Effect.ensuring(
            clock.sleep(duration),
            Effect.sync(() => sleeping--)
          )
        })
    }
    const limited = (name: string, timeout: number) => ToolSettings.timeout(Tool.make(name), timeout)
    const toolkit = Toolkit.make(limited("slow", 300), limited("fast", 100), limited("middle", 200))
    const set = yield* bind(toolkit, { slow: () => Effect.never, fast: () => Effect.never, middle: () => Effect.never })
    const names = ["slow", "fast", "middle", "fast", "slow", "slow"] as const
    const ends: Array<string> = []
    const batch = toolCall.run(yield* calls(set, ...names), {
      onFinished: (id, _, duration) => Effect.sync(() => ends.push(`${id} ${Duration.toMillis(duration)}`))
    })
    const results = yield* after(400, Effect.provideService(batch, Clock.Clock, counted))
    assert.deepStrictEqual(new Set(kinds(results)), new Set(["timeout_error"]))
    // five at once: the last begins when the first of them have ended
    assert.deepStrictEqual(ends, ["1 100", "3 100", "2 200", "0 300", "4 300", "5 300"])
    assert.strictEqual(sleeping, 0)
  })

  test("a finalizer that dies after the timeout changes nothing", function* () {
    const dying = Effect.never.pipe(Effect.onInterrupt(() => Effect.die("late")))
    assert.deepStrictEqual(yield* limited(dying), ["timeout_error"])
  })

  test("a timeout works where the run itself cannot be interrupted", function* () {
    assert.deepStrictEqual(yield* limited(Effect.never, Effect.uninterruptible), ["timeout_error"])
  })
})

describe("RT-3 interruption", () => {
  const two = ToolRuntime.layerConcurrent({ maxConcurrency: 2 })

  /** The events of a batch that is interrupted while handlers hang. */
  const interrupted = Effect.gen(function* () {
    const events: Array<string> = []
    const push = (event: string) => Effect.sync(() => events.push(event))
    const hanging = yield* Deferred.make<void>()
    const set = yield* bind(Toolkit.make(Tool.make("quick"), Tool.make("hang", { parameters: N })), {
      quick: () => Effect.void,
      hang: ({ n }) =>
        Effect.andThen(Deferred.succeed(hanging, undefined), Effect.never).pipe(
          Effect.onInterrupt(() => push(`finalizer ${n}`))
        )
    })
    const batch = yield* calls(set, "quick", ["hang", { n: 1 }], ["hang", { n: 2 }], "quick")
    const run = toolCall.run(batch, {
      onStarted: (id) => push(`started ${id}`),
      // a slow journal: it must not be cut off
      onFinished: (id, result) => {
        // MEND-7: as for a call that died with its process
        if (kind(result) === "interrupted") assert.deepStrictEqual(result.value, { outcome: "unknown" })
        return Effect.andThen(Effect.yieldNow, push(`${id} ${kind(result)}`))
      }
    })
    const fiber = yield* Effect.forkChild(run)
    yield* Deferred.await(hanging)
    for (let turn = 0; turn < 10; turn++) yield* Effect.yieldNow
    yield* Fiber.interrupt(fiber)
    assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    return events
  })

  test("a defect of an observer ends the batch once the other calls have their results", two, function* () {
    const set = yield* bind(Toolkit.make(Tool.make("quick"), Tool.make("hang")), {
      quick: () => Effect.sleep(10),
      hang: () => Effect.never
    })
    for (const watch of [() => Effect.die(new Boom("lost")), () => assert.fail("lost")]) {
      const ends: Array<string> = []
      const run = toolCall.run(yield* calls(set, "quick", "hang", "quick"), {
        onFinished: (id, result) => {
          ends.push(`${id} ${kind(result)}`)
          return id === "0" ? watch() : Effect.void
        }
      })
      const exit = yield* after(10, Effect.exit(run))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause) && Cause.pretty(exit.cause).includes("lost"))
      assert.deepStrictEqual(ends, ["0 success", "1 interrupted"])
    }
  })

  test("one after another: what never started stays untouched", function* () {
    const events = ["started 0", "0 success", "started 1", "finalizer 1", "1 interrupted"]
    assert.deepStrictEqual(yield* interrupted, events)
  })

  test("concurrently: every handler is interrupted, and a free place is not taken again", two, function* () {
    const first = ["started 0", "0 success", "started 1", "finalizer 1", "1 interrupted"]
    assert.sameMembers(yield* interrupted, [...first, "started 2", "finalizer 2", "2 interrupted"])
  })

  test("an observer that can be interrupted does not delay the interruption", function* () {
    const set = yield* bind(Toolkit.make(Tool.make("hang")), { hang: () => Effect.never })
    const onFinished = () => Effect.interruptible(Effect.never)
    const fiber = yield* Effect.forkChild(toolCall.run(yield* calls(set, "hang"), { onFinished }))
    yield* TestClock.adjust(10)
    yield* Fiber.interrupt(fiber)
    assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
  })

  test("a runtime that interrupts itself is not the run being interrupted", quiet, function* () {
    const set = yield* bind(Toolkit.make(Tool.make("t")), { t: () => Effect.void })
    const run = toolCall.run(yield* calls(set, "t"))
    const results = yield* Effect.provide(run, ToolRuntime.layer({ dispatch: () => Effect.interrupt }))
    assert.deepStrictEqual(kinds(results), ["unhandled_error"])
  })
})

describe("RT-1 tool runtimes", () => {
  const stub = (options: Partial<Parameters<typeof ToolContract.make>[0]>) =>
    ToolContract.make({ name: "stub", parameters: { type: "object" }, ...options }).pipe(
      Effect.flatMap(boundTool.makeStub),
      Effect.flatMap((tool) => boundTool.makeSet([tool])),
      Effect.flatMap((set) => calls(set, "stub"))
    )

  const run =
    (dispatch: (call: toolCall.BoundCall) => Effect.Effect<ToolResult.ToolResult>) =>
    (batch: ReadonlyArray<toolCall.BoundCall>) =>
      toolCall.run(batch).pipe(Effect.provide([ToolRuntime.layer({ dispatch }), quiet]))

  test("RT-4 a dispatch that throws or dies is an unhandled_error", function* () {
    const throws = () => {
      throw new Boom("x")
    }
    for (const dispatch of [() => Effect.die("no"), throws]) {
      assert.deepStrictEqual(kinds(yield* run(dispatch)(yield* stub({}))), ["unhandled_error"])
    }
  })

  test("CODEC-3 results of stubs are checked against the contract", function* () {
    const properties = { n: { type: "integer" }, unit: { type: "string", default: "ms" } }
    const batch = yield* stub({ success: { type: "object", properties, required: ["n"] } })
    const answer = (value: Schema.Json) => run(() => Effect.succeed(ToolResult.success(value)))(batch)
    const [good] = yield* answer({ n: 1 })
    assert.deepStrictEqual(good?._tag === "Success" ? good.value : good, { n: 1, unit: "ms" })
    const [bad] = yield* answer({ n: "one" })
    assert.strictEqual(kind(bad), "execution_error")
    assert.include(ToolResult.text(bad!), "n")
  })

  test("TOOL-1 a runtime that never answers is given up after the timeout and a margin", function* () {
    const batch = yield* stub({ timeout: "1 second" })
    const fiber = yield* Effect.forkChild(run(() => Effect.never)(batch))
    yield* TestClock.adjust("5999 millis")
    assert.isUndefined(fiber.pollUnsafe())
    yield* TestClock.adjust("1 millis")
    assert.deepStrictEqual(kinds(yield* Fiber.join(fiber)), ["timeout_error"])
  })

  test("CODEC-3 a stub fails on a runtime that executes local bodies only", function* () {
    assert.deepStrictEqual(kinds(yield* toolCall.run(yield* stub({}))), ["unhandled_error"])
  })

  test("a call holds what was asked for", function* () {
    let seen: toolCall.BoundCall | undefined
    const batch = yield* stub({ timeout: "3 seconds" })
    yield* run((call) => {
      seen = call
      return Effect.succeed(ToolResult.success(null))
    })(batch)
    assert.deepInclude(seen, { runId: "run_1", id: "0", arguments: {}, context: {}, execute: Option.none() })
    assert.strictEqual(seen?.contract.name, "stub")
  })

  test("RT-1 without a layer calls run one after another, with layerConcurrent five at once", function* () {
    assert.strictEqual(yield* concurrency, 1)
    assert.strictEqual(yield* Effect.provide(concurrency, concurrent), 5)
  })

  test("the concurrency of a runtime", function* () {
    for (const given of ["unbounded", Number.POSITIVE_INFINITY, 2] as const) {
      const layer = ToolRuntime.layerConcurrent({ maxConcurrency: given })
      assert.strictEqual(yield* Effect.provide(concurrency, layer), given)
    }
    const stubs = Effect.map(ToolRuntime.ToolRuntime, (runtime) => runtime.stubs)
    const dispatch = () => Effect.succeed(ToolResult.success(1))
    const layers = [ToolRuntime.layerInline, concurrent, ToolRuntime.layer({ dispatch, stubs: false })]
    assert.isFalse(yield* stubs)
    for (const layer of layers) assert.isFalse(yield* Effect.provide(stubs, layer))
    assert.isTrue(yield* Effect.provide(stubs, ToolRuntime.layer({ dispatch })))
  })
})

describe("RT-2 around", () => {
  const log: Array<string> = []
  const traced = (name: string) =>
    ToolRuntime.around((call, next) =>
      Effect.gen(function* () {
        log.push(`${name} ${call.contract.name} ${JSON.stringify(call.context)}`)
        const result = yield* next
        log.push(`${name} done`)
        return result
      })
    )
  const one = Effect.gen(function* () {
    log.length = 0
    const set = yield* bind(Toolkit.make(Tool.make("t")), { t: () => Effect.sync(() => void log.push("t")) })
    return [yield* Effect.flatMap(prepare(set, "t", {}, { context: { tenant: "acme" } }), Effect.fromResult)]
  })

  test("the wrapper nearest to the program is the outermost, with Effect.provide and Layer.provideMerge", function* () {
    const expected = [`first t {"tenant":"acme"}`, `second t {"tenant":"acme"}`, "t", "second done", "first done"]
    yield* toolCall.run(yield* one).pipe(Effect.provide(traced("first")), Effect.provide(traced("second")))
    assert.deepStrictEqual(log, expected)
    const layers = traced("first").pipe(Layer.provideMerge(traced("second")))
    yield* toolCall.run(yield* one).pipe(Effect.provide(layers))
    assert.deepStrictEqual(log, expected)
  })

  test("keeps the concurrency of the runtime below, whichever that is each time it is provided", function* () {
    const layer = traced("x")
    const over = (below: Layer.Layer<never>) => concurrency.pipe(Effect.provide(layer), Effect.provide(below))
    const nested = over(ToolRuntime.layerConcurrent({ maxConcurrency: 7 }))
    assert.strictEqual(yield* nested, 7)
    assert.strictEqual(yield* over(ToolRuntime.layerInline), 1)
    assert.strictEqual(yield* nested.pipe(Effect.provide(layer), Effect.provide(ToolRuntime.layerInline)), 7)
  })

  test("may deny a call, or answer it from a cache", function* () {
    const denying = ToolRuntime.around(() => Effect.succeed(ToolResult.failure("denied", "not today")))
    const results = yield* Effect.provide(toolCall.run(yield* one), denying)
    assert.deepStrictEqual(kinds(results), ["denied"])
    assert.deepStrictEqual(log, [])
  })
})

describe("spans", () => {
  test("L6 a tracer that throws fails its call only", quiet, function* () {
    for (const part of ["span", "end"]) {
      const tracer = Tracer.make({
        span: (options) => {
          const isFirst = options.name === "execute_tool first"
          if (isFirst && part === "span") throw new Boom("no span")
          return Object.assign(new Tracer.NativeSpan(options), isFirst && { end: () => assert.fail("no end") })
        }
      })
      const toolkit = Toolkit.make(Tool.make("first"), Tool.make("second"))
      const set = yield* bind(toolkit, { first: () => Effect.void, second: () => Effect.void })
      const results = yield* Effect.withTracer(toolCall.run(yield* calls(set, "first", "second")), tracer)
      assert.deepStrictEqual(kinds(results), ["unhandled_error", "success"])
    }
  })

  test("HOUSE-9 a call has the span of the code around it, where there is no tracer", function* () {
    const seen: Array<string | undefined> = []
    const look = Effect.map(Effect.option(Effect.currentSpan), (span) => {
      seen.push(Option.getOrUndefined(span)?.name)
    })
    const set = yield* bind(Toolkit.make(Tool.make("look")), { look: () => look })
    const batch = Effect.flatMap(calls(set, "look"), (ready) => toolCall.run(ready))
    yield* Effect.withSpan(batch, "around")
    const native = Tracer.make({ span: (options) => new Tracer.NativeSpan(options) })
    yield* Effect.withTracer(batch, native)
    assert.deepStrictEqual(seen, ["around", "execute_tool look"])
  })

  test("each call has its own span, with names and ids, without arguments", function* () {
    const spans: Array<Tracer.NativeSpan> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        spans.push(span)
        return span
      }
    })
    const toolkit = Toolkit.make(Tool.make("a/b", { parameters: N }), Tool.make("boom"))
    const set = yield* bind(toolkit, { "a/b": () => Effect.void, boom: () => Effect.die("x") })
    const batch = yield* calls(set, ["a/b", { n: 12345 }], "boom")
    yield* toolCall.run(batch).pipe(Effect.withTracer(tracer), Effect.provide(quiet))
    const span = (name: string, id: string, over?: object) => [
      `execute_tool ${name}`,
      {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": id,
        ...over
      }
    ]
    const recorded = spans.map(({ attributes, name }) => [name, Object.fromEntries(attributes)])
    assert.deepStrictEqual(recorded, [span("a/b", "0"), span("boom", "1", { "error.type": "unhandled_error" })])
  })
})
