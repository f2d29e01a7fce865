/**
 * The stories that `scripts/stories.ts` measures, written as a user writes them. A part is measured while its effect
 * runs; nothing that runs before or after it counts.
 */
import { Effect, Layer, Schema } from "effect"
import { Agent, ModelRegistry, ToolResolver, VersionedStore } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { Tool, Toolkit } from "effect/ai"

/** The measured parts, in the order of the table. */
export const parts = {
  build: "building the agent's layer, one tool",
  first: "first run: prompt, tool call, answer",
  warm: "a later run",
  decode: "JSON text to an agent that can run",
  make: "Plan.make of two steps",
  job: "Session.run of a plan of two steps",
  next: "from the output of a step to the input of the next",
  turn: "a later turn of a session, no tool"
}

export type Part = keyof typeof parts

export interface Meter {
  readonly begin: (part: Part) => void
  readonly end: () => void
}

const measured = <A, E, R>(meter: Meter, part: Part, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    meter.begin(part)
    return Effect.ensuring(effect, Effect.sync(meter.end))
  })

const Orders = Toolkit.make(
  Tool.make("get_order", {
    description: "Look up an order by id",
    parameters: Schema.Struct({ id: Schema.String }),
    success: Schema.Struct({ status: Schema.String })
  })
)

const ordersLayer = Orders.toLayer({ get_order: () => Effect.succeed({ status: "shipped" }) })

const turn = [{ toolCalls: [{ name: "get_order", params: { id: "42" } }] }, { text: "It is shipped." }]

class Support extends Agent.Service<Support>()("support", {
  instructions: "You help customers.",
  toolkit: Orders
}) {}

/** A prompt to a tool and back. */
const prompt = (meter: Meter) =>
  Effect.scoped(
    Effect.gen(function* () {
      const services = yield* measured(meter, "build", Layer.build(Layer.provide(Support.layer, ordersLayer)))
      const run = Effect.provide(
        Effect.flatMap(Support, (support) => support.ask("Where is order 42?")),
        services
      )
      yield* measured(meter, "first", run)
      yield* measured(meter, "warm", run)
    })
  ).pipe(Effect.provide(ScriptedModel.layer([...turn, ...turn])))

/** Text from outside to an agent that can run. */
const decode = (meter: Meter) =>
  Effect.gen(function* () {
    const json = yield* Agent.encodeJson(Agent.make("guest", { instructions: "You help.", toolkit: Orders }))
    yield* measured(meter, "decode", Agent.decodeJson(json))
  }).pipe(Effect.provide([Layer.provide(ToolResolver.layerToolkit(Orders), ordersLayer), ModelRegistry.layer({})]))

/** The output of a step to the input of the next, stored between them. */
const job = (meter: Meter) =>
  Effect.gen(function* () {
    const marks = { a: Effect.void, b: Effect.void }
    const plan = yield* measured(
      meter,
      "make",
      Plan.make("two-steps", [
        Step.make("a", { target: () => Effect.as(marks.a, "found") }),
        Step.make("b", { target: ({ task }) => Effect.as(marks.b, task) })
      ])
    )
    const bound = yield* Plan.bind(plan)
    yield* Effect.gen(function* () {
      yield* measured(meter, "job", Session.run(bound, { id: "first", input: "go" }))
      marks.a = Effect.sync(() => meter.begin("next"))
      marks.b = Effect.sync(meter.end)
      yield* Session.run(bound, { id: "second", input: "go" })
    }).pipe(Effect.provide(Layer.provide(Session.layer([bound]), VersionedStore.layerMemory)))
  })

/** A message to a session in memory, its turn, and the answer. */
const turns = (meter: Meter) =>
  Effect.gen(function* () {
    yield* Session.ask("chat", "Hello")
    yield* measured(meter, "turn", Session.ask("chat", "Where is order 42?"))
  }).pipe(
    Effect.provide(
      Session.layer([Agent.make("chat", { instructions: "You help customers." })]).pipe(
        Layer.provide([
          VersionedStore.layerMemory,
          ScriptedModel.layer([{ text: "Hello." }, { text: "It is shipped." }])
        ])
      )
    )
  )

export const stories: ReadonlyArray<(meter: Meter) => Effect.Effect<unknown, unknown>> = [prompt, decode, job, turns]
