/**
 * The rules that a tool runtime keeps. A check fails with a sentence.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as BoundCall from "../../../tool/BoundCall.ts"
import * as BoundTool from "../../../tool/BoundTool.ts"
import * as ToolBatch from "../../../tool/ToolBatch.ts"
import * as ToolResult from "../../../tool/ToolResult.ts"
import { ToolRuntime } from "../../../tool/ToolRuntime.ts"
import * as ToolSet from "../../../tool/ToolSet.ts"
import type { Tools } from "./tools.ts"

interface Given {
  readonly fixture: Tools
  readonly bound: ToolSet.ToolSet
  /** Lets the timeout of the hanging tool pass. */
  readonly advance: Effect.Effect<void>
}

export interface Rule {
  readonly name: string
  readonly check: (given: Given) => Effect.Effect<void, string>
}

export const bind = (fixture: Tools, shells: boolean) =>
  Effect.gen(function* () {
    const local = yield* BoundTool.fromToolkit(fixture.toolkit).pipe(Effect.provide(fixture.handlers))
    return yield* ToolSet.make(shells ? yield* Effect.forEach(local, (tool) => BoundTool.shell(tool.contract)) : local)
  })

const show = (value: unknown): string => JSON.stringify(value)

const expect = (what: string, expected: unknown, found: unknown): Effect.Effect<void, string> =>
  Equal.equals(expected, found) ? Effect.void : Effect.fail(`${what}: expected ${show(expected)}, found ${show(found)}`)

const prepare = (bound: ToolSet.ToolSet, id: string, name: string, args: Schema.Json) =>
  BoundCall.prepare(
    bound,
    { id, name: `conformance_${name}`, arguments: args },
    { runId: "conformance", context: { tenant: "acme" } }
  )

const calls = (given: Given, list: ReadonlyArray<readonly [name: string, args: Schema.Json]>) =>
  Effect.forEach(list, ([name, args], index) =>
    Effect.flatMap(prepare(given.bound, String(index), name, args), (result) =>
      Result.isSuccess(result) ? Effect.succeed(result.success) : Effect.fail(`not prepared: ${result.failure.message}`)
    )
  )

const kind = (result: ToolResult.ToolResult | undefined): string => {
  if (result === undefined) return "nothing"
  return result._tag === "Success" ? "success" : result.type
}

const value = (result: ToolResult.ToolResult | undefined) => (result?._tag === "Success" ? result.value : undefined)

const order: Rule = {
  name: "results come in call order, calls start in call order",
  check: Effect.fnUntraced(function* (given) {
    const numbers = [1, 2, 3, 4, 5, 6]
    const batch = yield* calls(
      given,
      numbers.map((n) => ["echo", { n, turns: 30 - 5 * n }] as const)
    )
    const started: Array<string> = []
    const results = yield* ToolBatch.collect(batch, { onStarted: (id) => Effect.sync(() => started.push(id)) })
    yield* expect(
      "results",
      numbers.map((n) => ({ n })),
      results.map(value)
    )
    yield* expect(
      "starts",
      numbers.map((n) => String(n - 1)),
      started
    )
  })
}

const concurrency: Rule = {
  name: "no more calls run at once than it says, and two do if it says so",
  check: Effect.fnUntraced(function* (given) {
    const { concurrency } = yield* ToolRuntime
    const batch = yield* calls(
      given,
      [1, 2, 3, 4, 5, 6, 7, 8].map((n) => ["echo", { n, turns: 10 }] as const)
    )
    yield* ToolBatch.run(batch)
    const { most } = given.fixture.probe
    if (concurrency !== "unbounded" && most > concurrency) {
      return yield* Effect.fail(`at most ${concurrency} calls may run at once, found ${most}`)
    }
    if (concurrency === 1) return
    const meeting = yield* calls(given, [
      ["meet", { n: 1 }],
      ["meet", { n: 2 }]
    ])
    yield* expect(
      "two calls that wait for each other",
      [{ n: 1 }, { n: 2 }],
      (yield* ToolBatch.collect(meeting)).map(value)
    )
  })
}

const settling: Rule = {
  name: "a failure or a defect of one call loses no other result",
  check: Effect.fnUntraced(function* (given) {
    const batch = yield* calls(given, [
      ["echo", { n: 1, turns: 20 }],
      ["fail", {}],
      ["boom", {}],
      ["echo", { n: 2, turns: 1 }]
    ])
    const results = yield* ToolBatch.collect(batch)
    yield* expect("results", ["success", "not_found", "unhandled_error", "success"], results.map(kind))
    const failure = results[1]
    yield* expect("the typed failure", "no such thing", failure === undefined ? "" : ToolResult.text(failure))
  })
}

const timeouts: Rule = {
  name: "a call that takes too long is a timeout_error, its handler is interrupted, its siblings are not",
  check: Effect.fnUntraced(function* (given) {
    const batch = yield* calls(given, [
      ["echo", { n: 1, turns: 1 }],
      ["hang", { n: 2 }],
      ["echo", { n: 3, turns: 1 }]
    ])
    const fiber = yield* Effect.forkChild(ToolBatch.collect(batch))
    yield* Deferred.await(given.fixture.started)
    yield* given.advance
    const results = yield* Fiber.join(fiber)
    yield* expect("results", ["success", "timeout_error", "success"], results.map(kind))
    const late = results[1]
    if (late === undefined || !ToolResult.text(late).includes("timed out")) {
      return yield* Effect.fail(`the message must say that it timed out, found ${show(late)}`)
    }
    yield* Deferred.await(given.fixture.released)
  })
}

const interruption: Rule = {
  name: "interrupting the batch interrupts every handler; what ended keeps its result, what never started has none",
  check: Effect.fnUntraced(function* (given) {
    const { concurrency } = yield* ToolRuntime
    const batch = yield* calls(given, [
      ["echo", { n: 1, turns: 0 }],
      ["wait", { n: 2 }],
      ["wait", { n: 3 }]
    ])
    const started = new Set<string>()
    const finished = new Map<string, ToolResult.ToolResult>()
    const running = yield* Deferred.make<void>()
    const first = yield* Deferred.make<void>()
    const fiber = yield* Effect.forkChild(
      ToolBatch.run(batch, {
        onStarted: (id) => {
          started.add(id)
          const all = started.size === Math.min(3, concurrency === "unbounded" || concurrency > 1 ? 3 : 2)
          return all ? Deferred.succeed(running, undefined) : Effect.void
        },
        onFinished: (id, result) => {
          finished.set(id, result)
          return id === "0" ? Deferred.succeed(first, undefined) : Effect.void
        }
      })
    )
    yield* Deferred.await(first)
    yield* Deferred.await(running)
    yield* Deferred.await(given.fixture.started)
    yield* Fiber.interrupt(fiber)
    yield* Deferred.await(given.fixture.released)
    yield* expect("the call that had ended", "success", kind(finished.get("0")))
    for (const id of ["1", "2"]) {
      yield* expect(`call ${id}`, started.has(id) ? "interrupted" : "nothing", kind(finished.get(id)))
    }
  })
}

const validation: Rule = {
  name: "arguments that do not fit reach no handler, and those that do arrive as they were checked",
  check: Effect.fnUntraced(function* (given) {
    const wrong = yield* prepare(given.bound, "0", "defaults", { list: "no", size: "large" })
    yield* expect("wrong arguments", "validation_error", Result.isFailure(wrong) ? wrong.failure.type : "success")
    yield* expect("handlers that ran", [], given.fixture.probe.calls)
    const batch = yield* calls(given, [["defaults", `{"list":"[1,2]"}`]])
    yield* expect("arguments", [{ list: [1, 2], size: 10 }], (yield* ToolBatch.collect(batch)).map(value))
  })
}

export const context: Rule = {
  name: "handlers see the context of the run",
  check: Effect.fnUntraced(function* (given) {
    const results = yield* ToolBatch.collect(yield* calls(given, [["context", {}]]))
    yield* expect("context", [{ tenant: "acme" }], results.map(value))
  })
}

export const all: ReadonlyArray<Rule> = [order, concurrency, settling, timeouts, interruption, validation, context]
