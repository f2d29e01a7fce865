import { describe, expectTypeOf, it } from "@effect/vitest"
import { Context, Effect, Layer, type Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import * as toolCall from "#src/tool/internal/toolCall.ts"
import {
  type Agent,
  ToolResolver,
  ToolRuntime,
  type ToolContract,
  type ToolFailure,
  type ToolResult
} from "effect-emissary"
import { search } from "./support.ts"

const toolkit = Toolkit.make(Tool.make("one"), Tool.make("two"), search)

class Ledger extends Context.Service<Ledger, { readonly add: (amount: number) => Effect.Effect<number> }>()("Ledger") {}

type Handlers = Tool.Handler<"one"> | Tool.Handler<"two">

describe("types", () => {
  it("binding a toolkit requires exactly the handlers it needs", () => {
    expectTypeOf(boundTool.fromToolkit(toolkit)).toEqualTypeOf<
      Effect.Effect<ReadonlyArray<boundTool.BoundTool>, ToolContract.ToolContractError, Handlers>
    >()
    expectTypeOf(ToolResolver.layerToolkit(toolkit)).toEqualTypeOf<
      Layer.Layer<ToolResolver.ToolResolver, ToolContract.ToolContractError, Handlers>
    >()
    expectTypeOf(ToolResolver.layerStubs()).toEqualTypeOf<Layer.Layer<ToolResolver.ToolResolver>>()
  })

  it("PEOPLE-4 and no services that its tools name as dependencies, which a layer would have once for all calls", () => {
    const paying = Toolkit.make(Tool.make("pay", { dependencies: [Ledger] }))
    expectTypeOf(boundTool.fromToolkit(paying)).toEqualTypeOf<
      Effect.Effect<ReadonlyArray<boundTool.BoundTool>, ToolContract.ToolContractError, Tool.Handler<"pay"> | Ledger>
    >()
    expectTypeOf(ToolResolver.layerToolkit(paying)).toEqualTypeOf<
      Layer.Layer<
        ToolResolver.ToolResolver,
        ToolContract.ToolContractError,
        Tool.Handler<"pay"> | Ledger | Agent.NoServiceOfCall<Ledger>
      >
    >()
    const withLedger = ToolResolver.layerToolkit(paying).pipe(
      Layer.provide([paying.toLayer({ pay: () => Effect.void }), Layer.succeed(Ledger, { add: Effect.succeed })])
    )
    // @ts-expect-error the Ledger of the layer would be the Ledger of all calls
    // @effect-diagnostics-next-line missingEffectContext:off
    void (() => Effect.runPromise(Effect.provide(ToolResolver.ToolResolver, withLedger)))
  })

  it("RT-1 runtimes are layers of nothing, dispatch requires nothing", () => {
    expectTypeOf(ToolRuntime.layerConcurrent()).toEqualTypeOf<Layer.Layer<never>>()
    expectTypeOf(ToolRuntime.around((_, next) => next)).toEqualTypeOf<Layer.Layer<never>>()
    expectTypeOf<ToolRuntime.ToolRuntime["dispatch"]>().returns.toEqualTypeOf<Effect.Effect<ToolResult.ToolResult>>()
  })

  it("a batch fails and requires what its callbacks do", () => {
    expectTypeOf(toolCall.run([])).toEqualTypeOf<Effect.Effect<ReadonlyArray<ToolResult.ToolResult>>>()
    const onStarted = (_: string): Effect.Effect<void, "lost", ToolResolver.ToolResolver> => {
      throw new Error("types only")
    }
    expectTypeOf(toolCall.run([], { onStarted })).toEqualTypeOf<
      Effect.Effect<ReadonlyArray<ToolResult.ToolResult>, "lost", ToolResolver.ToolResolver>
    >()
  })

  it("ToolFailure is a schema of itself", () => {
    expectTypeOf<typeof ToolFailure.DecodingServices>().toEqualTypeOf<never>()
    expectTypeOf<ToolFailure["value"]>().toEqualTypeOf<Schema.Json | undefined>()
  })
})
