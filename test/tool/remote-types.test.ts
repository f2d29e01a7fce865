import { describe, expectTypeOf, it } from "@effect/vitest"
import { Context, Effect, type FileSystem, type Layer, type Path, Redacted, Schema } from "effect"
import type * as boundTool from "#src/tool/internal/boundTool.ts"
import { Agent, type ToolContract } from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { Tool, Toolkit } from "effect/ai"
import type { Etag, HttpClient, HttpPlatform, HttpRouter } from "effect/http"

class Store extends Context.Service<Store, { readonly get: Effect.Effect<string> }>()("test/Store") {}

class Policy extends Context.Service<Policy, { readonly check: Effect.Effect<void> }>()("test/Policy") {}

const One = Tool.make("one", { success: Schema.String })

const Two = Tool.make("two", { success: Schema.String, dependencies: [Store] })

const toolkit = Toolkit.make(One, Two)

const token = Redacted.make("s3cret")

type Http = HttpRouter.HttpRouter | Etag.Generator | FileSystem.FileSystem | HttpPlatform.HttpPlatform | Path.Path

describe("PKG-4 what the layers of remote tools require", () => {
  it("the server: the handlers, what the context function uses, and no service that a tool depends on for each call (PEOPLE-4)", () => {
    const plain = RemoteTools.layerServer(toolkit, { token })
    expectTypeOf<Layer.Services<typeof plain>>().toEqualTypeOf<
      Http | Tool.Handler<"one"> | Tool.Handler<"two"> | Store | Agent.NoServiceOfCall<Store>
    >()
    expectTypeOf<Layer.Success<typeof plain>>().toEqualTypeOf<never>()
    expectTypeOf<Layer.Error<typeof plain>>().toEqualTypeOf<
      RemoteTools.InvalidOption | ToolContract.ToolContractError | boundTool.ToolNameError
    >()
    const judged = RemoteTools.layerServer(toolkit, {
      token,
      context: (claimed) =>
        Effect.as(
          Effect.flatMap(Policy, ({ check }) => check),
          claimed
        )
    })
    expectTypeOf<Layer.Services<typeof judged>>().toEqualTypeOf<
      Http | Tool.Handler<"one"> | Tool.Handler<"two"> | Store | Policy | Agent.NoServiceOfCall<Store>
    >()
  })

  it("TRUST-6 the server: whatever an agent in the toolkit requires, and no handler of it", () => {
    class Clerk extends Agent.Service<Clerk>()("clerk", {}) {}
    const served = Toolkit.make(One, Agent.asTool(Clerk, { name: "ask", description: "Asks" }))
    const layer = RemoteTools.layerServer(served, { token })
    expectTypeOf<Layer.Services<typeof layer>>().toEqualTypeOf<Http | Tool.Handler<"one"> | Clerk>()
  })

  it("the handlers: exactly those of the toolkit, out of an HTTP client", () => {
    const layer = RemoteTools.layerHandlers(toolkit, { url: "http://a", token })
    expectTypeOf<Layer.Success<typeof layer>>().toEqualTypeOf<Tool.Handler<"one"> | Tool.Handler<"two">>()
    expectTypeOf<Layer.Services<typeof layer>>().toEqualTypeOf<HttpClient.HttpClient>()
  })

  it("the runtime: an HTTP client", () => {
    const layer = RemoteTools.layerRuntime({ url: "http://a", token })
    expectTypeOf<Layer.Success<typeof layer>>().toEqualTypeOf<never>()
    expectTypeOf<Layer.Services<typeof layer>>().toEqualTypeOf<HttpClient.HttpClient>()
  })
})
