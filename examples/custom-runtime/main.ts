/**
 * A custom tool runtime.
 *
 * A runtime is a function from a call to its result, and wrappers go around it. This one answers from a recording: the
 * agent below was decoded from JSON, none of its tools exist here, and nothing leaves the process.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Duration, Effect, Layer, Schema } from "effect"
import { Agent, ModelRegistry, ToolResolver, ToolResult, ToolRuntime } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { Tool } from "effect/ai"

/** A runtime in ten lines: calls that were made before get the result they had. */
const layerReplay = (recording: Record<string, Schema.Json>) =>
  ToolRuntime.layer({
    concurrency: "unbounded",
    dispatch: Effect.fnUntraced(function* (call) {
      const key = `${call.contract.name} ${JSON.stringify(call.arguments)}`
      const value = Object.hasOwn(recording, key) ? recording[key] : undefined
      return value === undefined
        ? ToolResult.failure("not_recorded", `There is no recording of ${key}`)
        : ToolResult.success(value)
    })
  })

/** A wrapper sees the call, and decides whether it is executed. */
const layerDenyDestructive = ToolRuntime.around((call, next) =>
  call.contract.annotations.destructive === true
    ? Effect.succeed(ToolResult.failure("denied", `${call.contract.name} destroys data, and this is a replay`))
    : next
)

const layerLog = ToolRuntime.around(
  Effect.fnUntraced(function* (call, next) {
    const [took, result] = yield* Effect.timed(next)
    const outcome = result._tag === "Failure" ? result.type : "success"
    yield* Console.log(`${call.contract.name}: ${outcome}, ${Math.round(Duration.toMillis(took))} ms`)
    return result
  })
)

/** Where the agent comes from: a program that has its tools, or at least their descriptions. */
const GetOrder = Tool.make("get_order", { parameters: Schema.Struct({ id: Schema.String }), success: Schema.String })
const Cancel = Tool.make("cancel_order", { parameters: Schema.Struct({ id: Schema.String }) }).annotate(
  Tool.Destructive,
  true
)
const origin = Agent.make("support", { model: "scripted/small", toolkit: [GetOrder, Cancel] })

const modelLayer = ScriptedModel.layer([
  {
    toolCalls: [
      { name: "get_order", params: { id: "42" } },
      { name: "get_order", params: { id: "43" } },
      { name: "cancel_order", params: { id: "42" } }
    ]
  },
  { text: "Order 42 is shipped, so I left it alone.", expect: { toolResult: "order 42: shipped" } }
])

Effect.gen(function* () {
  const agent = yield* Agent.decode(yield* Agent.encode(origin))
  yield* Console.log(yield* agent.ask("Cancel order 42 unless it was shipped."))
}).pipe(
  // one after the other: the log is around the denial, which is around the replay
  Effect.provide(layerLog),
  Effect.provide(layerDenyDestructive),
  Effect.provide(layerReplay({ 'get_order {"id":"42"}': "order 42: shipped" })),
  // the agent comes from this very program, so its own word on approvals is good enough
  Effect.provide([
    ToolResolver.layerStubs({ approval: "payload" }),
    ModelRegistry.layerContext.pipe(Layer.provide(modelLayer))
  ]),
  NodeRuntime.runMain
)
