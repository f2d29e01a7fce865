/** This library: an agent as a service whose layer is built once. Events, spans and validation are on, as always. */
import { Effect, Layer, ManagedRuntime } from "effect"
import { Agent, ToolRuntime } from "effect-emissary"
import { makeParts } from "./effect.ts"
import * as task from "./task.ts"

export const make: task.Row = async (given) => {
  const { concurrency, modelLayer, toolkit, toolsLayer } = makeParts(given)
  class Bench extends Agent.Service<Bench>()("bench", {
    instructions: task.system,
    toolkit,
    maxSteps: given.steps + 5
  }) {}
  const layer = Bench.layer.pipe(
    Layer.provide([toolsLayer, modelLayer]),
    Layer.merge(given.calls > 1 ? ToolRuntime.layerConcurrent({ maxConcurrency: concurrency }) : Layer.empty)
  )
  const context = await ManagedRuntime.make(layer).context()
  const program = Effect.provideContext(
    Bench.use((bench) => bench.ask(task.question)),
    context
  )
  return () => Effect.runPromise(program)
}
