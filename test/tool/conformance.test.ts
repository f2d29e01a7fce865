import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
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

  const broken = (layer: Layer.Layer<never>) =>
    Effect.forEach(Conformance.toolRuntime("broken", layer), ({ check, name }) =>
      Effect.map(Effect.result(Effect.timeoutOption(check, "1 second")), (result) =>
        result._tag === "Failure" ? [name] : []
      )
    ).pipe(Effect.map((names) => names.flat()))

  test("finds a runtime that loses results", function* () {
    const lost = ToolResult.failure("execution_error", "lost")
    const losing = ToolRuntime.layer({
      dispatch: (_, local) => Effect.map(local, (result) => (result._tag === "Failure" ? lost : result))
    })
    assert.lengthOf(yield* broken(losing), 2)
  })
})
