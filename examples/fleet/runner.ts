/** A runner: a process that has some of the sessions of the fleet. `main.ts` starts it, and kills it. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Layer, References, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent } from "effect-emissary"
import { ClusterSession } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as cluster from "./cluster.ts"

const [address = "", port = "0"] = process.argv.slice(2)

const parameters = Schema.Struct({ parcel: Schema.String })

const Tools = Toolkit.make(
  // Reading twice does no harm, so a call that was lost with its runner runs again
  Tool.make("track", { parameters, success: Schema.String }).annotate(Tool.Idempotent, true),
  // Paying twice does, so a call that was cut off is not repeated
  Tool.make("refund", { parameters, success: Schema.String })
)

/** `main.ts` reads these lines, to see which runner works. */
const working = (tool: string, parcel: string) => Console.log(`tool ${tool} ${parcel}`)

const ToolsLive = Tools.toLayer({
  track: ({ parcel }) =>
    Effect.andThen(working("track", parcel), Effect.as(Effect.sleep("500 millis"), `parcel ${parcel} is in Lisbon`)),
  refund: ({ parcel }) => Effect.andThen(working("refund", parcel), Effect.as(Effect.sleep("2 seconds"), "paid"))
})

class Clerk extends Agent.Service<Clerk>()("clerk", {
  instructions: "You help people who wait for a parcel.",
  toolkit: Tools
}) {}

/** In place of a real model: it tracks, refunds when it is asked to, and reports what its tools returned. */
const Model = ScriptedModel.layer(({ messages }) => {
  const [asked] = messages.filter(({ role }) => role === "user").slice(-1)
  const parcel = /\d+/.exec(asked?.text ?? "")?.[0] ?? "0"
  const since = messages.slice(messages.lastIndexOf(asked ?? messages[0]!))
  const results = since.filter(({ role }) => role === "tool").map(({ text }) => text)
  if (results.length === 0) {
    const name = asked?.text?.includes("refund") === true ? "refund" : "track"
    return { toolCalls: [{ name, params: { parcel } }] }
  }
  return {
    text: results.some((text) => text?.includes("not known"))
      ? `I do not know whether parcel ${parcel} was refunded. A person will look.`
      : `Parcel ${parcel} is in Lisbon.`
  }
})

const Sessions = ClusterSession.layer([Clerk]).pipe(
  Layer.provide(Clerk.layer),
  Layer.provide([ToolsLive, Model, cluster.runner(address, Number(port))])
)

const announced = Layer.effectDiscard(Console.log("ready"))

Layer.launch(Layer.provideMerge(announced, Sessions)).pipe(
  Effect.provideService(References.MinimumLogLevel, "Warn"),
  NodeRuntime.runMain
)
