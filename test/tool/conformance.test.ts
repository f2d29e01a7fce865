import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Result, Semaphore } from "effect"
import { ToolResult, ToolRuntime } from "effect-emissary"
import { Conformance } from "effect-emissary/testing"
import { test } from "../test.ts"

const runtimes = {
  inline: ToolRuntime.layerInline,
  concurrent: ToolRuntime.layerConcurrent(),
  "concurrent 2": ToolRuntime.layerConcurrent({ maxConcurrency: 2 }),
  unbounded: ToolRuntime.layerConcurrent({ maxConcurrency: "unbounded" }),
  custom: ToolRuntime.layer({ dispatch: (_, local) => local, concurrency: 3 }),
  wrapped: ToolRuntime.around((_, next) => next).pipe(Layer.provideMerge(ToolRuntime.layerConcurrent()))
}

describe("RT-4 conformance", () => {
  for (const [name, layer] of Object.entries(runtimes)) {
    for (const { check, name: title } of Conformance.toolRuntime(name, layer)) it.effect(title, () => check)
  }

  for (const { check, name } of Conformance.toolRuntime("live clock", ToolRuntime.layerConcurrent(), {
    clock: "live",
    timeout: "20 millis"
  })) {
    it.live(name, () => check)
  }

  const limit = "300 millis"

  type Runtime = Parameters<typeof ToolRuntime.layer>[0]

  /** The problems that the suite finds in a runtime that is made for each check. */
  const problems = (make: () => Runtime) => {
    const layer = Layer.suspend(() => ToolRuntime.layer(make()))
    const checks = Conformance.toolRuntime("broken", layer, { limit })
    return Effect.map(
      Effect.forEach(checks, ({ check }) => Effect.result(check), { concurrency: "unbounded" }),
      (results) => results.flatMap((result) => (Result.isFailure(result) ? [result.failure] : []))
    )
  }

  const limited = (permits: number, concurrency: number) => (): Runtime => {
    const all = Semaphore.makeUnsafe(permits)
    return { dispatch: (_, local) => all.withPermit(local), concurrency }
  }

  const dispatching =
    (dispatch: (local: Effect.Effect<ToolResult.ToolResult>) => ReturnType<Runtime["dispatch"]>) => () => ({
      dispatch: (_: unknown, local: Effect.Effect<ToolResult.ToolResult>) => dispatch(local),
      concurrency: 3
    })

  const lost = ToolResult.failure("execution_error", "lost")

  const nests = "a call may run a batch of its own"
  const once = "each call is executed once"
  const settles = "a failure or a defect of one call loses no other result"
  const stops = "interrupting the batch interrupts every handler"
  const limits = "no more calls run at once than the runtime allows"
  const late = "a call that takes too long is a timeout_error"

  /** Each with the check that finds it, the problem found there, and the other checks that fail. */
  const cases: Record<
    string,
    readonly [make: () => Runtime, check: string, problem: string, others?: ReadonlyArray<string>]
  > = {
    "has one limit for the process": [limited(2, 2), nests, "A limit must not count the calls of other batches"],
    "has a larger limit for the process": [limited(12, 3), nests, "16 deep, to end"],
    "runs one call at a time in the process": [limited(1, 1), nests, "1 calls with batches inside each other"],
    "allows fewer calls at once than it says": [
      limited(1, 2),
      limits,
      "expected two calls of a batch to run at once",
      [nests]
    ],
    "lets no call be interrupted": [
      dispatching(Effect.uninterruptible),
      stops,
      "expected the batch to end when it is interrupted, and waited 300ms for it"
    ],
    "leaves handlers to fibers of their own": [
      dispatching((local) => Effect.flatMap(Effect.forkDetach(local), Fiber.join)),
      stops,
      "expected every handler to be interrupted with the batch, and waited 300ms for it"
    ],
    "executes each call twice": [
      dispatching((local) => Effect.andThen(local, local)),
      once,
      `expected ["boom","echo 1","echo 2","fail"], got ["boom","boom",`,
      [late, nests]
    ],
    "executes calls again that failed": [
      dispatching((local) =>
        Effect.flatMap(local, (result) => (result._tag === "Failure" ? local : Effect.succeed(result)))
      ),
      once,
      `got ["boom","boom","echo 1","echo 2","fail","fail"]`,
      [late]
    ],
    "makes a success of a call that it cut off": [
      dispatching(
        Effect.timeoutOrElse({ duration: "100 millis", orElse: () => Effect.succeed(ToolResult.success("late")) })
      ),
      late,
      `["success","timeout_error","success"], got ["success","success","success"]`
    ],
    "never answers": [
      dispatching(() => Effect.never),
      settles,
      "expected all calls of a batch to end",
      ["results come in call order", nests, once, limits, late, stops, "arguments that do not fit", "handlers see"]
    ],
    "loses results": [
      dispatching((local) => Effect.map(local, (result) => (result._tag === "Failure" ? lost : result))),
      settles,
      `"execution_error"`,
      [late]
    ]
  }

  for (const [name, [make, check, problem, others = []]] of Object.entries(cases)) {
    test.live(`SOUND-7 finds a runtime that ${name}, and fails within the limit`, function* () {
      const found = yield* problems(make)
      const own = found.find((error) => error.check.startsWith(check))
      assert.include(own?.problem, problem)
      const beginsLike = (name: string) => [check, ...others].some((one) => name.startsWith(one))
      assert.deepStrictEqual(
        found.map((error) => error.check).filter((name) => !beginsLike(name)),
        []
      )
      assert.lengthOf(found, 1 + others.length)
    })
  }

  test.live("SOUND-7 no runtime makes a success of an interrupted batch", function* () {
    const swallowing = dispatching((local) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.catchCause(restore(local), () => Effect.succeed(ToolResult.success("interrupted")))
      )
    )
    assert.deepStrictEqual(yield* problems(swallowing), [])
  })
})
