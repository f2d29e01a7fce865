/** A run that waits for an approval after two answered steps: its state as a value, or as JSON. */
import { Effect, Layer, ManagedRuntime, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit, type Response } from "effect/ai"
import { Agent, Run } from "effect-emissary"

const Lookup = Tool.make("lookup_weather", {
  parameters: Schema.Struct({ city: Schema.String, days: Schema.Int }),
  success: Schema.Struct({ city: Schema.String, temperature: Schema.Finite })
})
const Pay = Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
const toolkit = Toolkit.make(Lookup, Pay)

const answerAt = (step: number): Response.PartEncoded =>
  step < 2
    ? { type: "tool-call", id: `call_${step}`, name: "lookup_weather", params: { city: `City ${step}`, days: 3 } }
    : { type: "tool-call", id: `call_${step}`, name: "pay", params: { amount: 5 } }

const model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: ({ prompt }) => Effect.sync(() => [answerAt((prompt.content.length - 2) / 2)]),
    streamText: () => Stream.empty
  })
)

class Bench extends Agent.Service<Bench>()("bench", {
  instructions: "You are an assistant that can use tools to answer questions.",
  toolkit
}) {}

const makeState = async () => {
  const handlers = toolkit.toLayer({
    lookup_weather: ({ city }) => Effect.succeed({ city, temperature: 21.5 }),
    pay: () => Effect.void
  })
  const runtime = ManagedRuntime.make(Layer.provide(Bench.layer, [handlers, model]))
  const suspended = Effect.flatMap(
    Bench.use((bench) => bench.run("Pay for the trip")),
    (result) =>
      result.outcome === "AwaitingApproval" ? Effect.succeed(result.state) : Effect.die(`the run is ${result.outcome}`)
  )
  return () => runtime.runPromise(suspended)
}

export const emissary = makeState

export const json = async (): Promise<() => unknown> => {
  const next = await makeState()
  return async () => Effect.runPromise(Run.stateCodec.encodeJson(await next()))
}

/** The messages of the run as plain objects: a question, two calls with results, and the call that waits. */
export const bare = async (): Promise<() => unknown> => () => [
  { role: "user", content: "Pay for the trip" },
  ...[0, 1].flatMap((step) => [
    {
      role: "assistant",
      calls: [{ id: `call_${step}`, name: "lookup_weather", params: { city: `City ${step}`, days: 3 } }]
    },
    { role: "tool", id: `call_${step}`, result: { city: `City ${step}`, temperature: 21.5 } }
  ]),
  { role: "assistant", calls: [{ id: "call_2", name: "pay", params: { amount: 5 } }] }
]
