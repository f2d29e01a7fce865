/** KEEP-2: an event of a plan has one JSON, whatever runs the plan. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { Agent, Run, VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const writer = Agent.make("writer", { instructions: "Write." })

const trip = Effect.flatMap(
  Plan.make("trip", [
    Step.make("look", { target: ({ task }) => Effect.succeed({ found: task }), writes: "newest" }),
    Step.make("write", { target: writer }),
    Step.make("sign", { target: ({ task }) => Effect.succeed(`${task} - Ada`) })
  ]),
  Plan.bind
)

/** Ids differ in each run, and so does the depth of the run. */
const withoutIds = (json: unknown): string =>
  JSON.stringify(json, (key, value: unknown) => (key === "runId" || key === "id" || key === "depth" ? null : value))

const wireOf = (events: ReadonlyArray<PlanRun.Event>) =>
  Effect.forEach(events, (event) => Effect.map(PlanRun.eventCodec.encode(event), withoutIds))

/** The events of the plan among the events of the runs around it. */
const ofPlan = (event: Run.Event): ReadonlyArray<PlanRun.Event> => {
  if (event._tag === "ChildEvent") return ofPlan(event.event)
  return event._tag === "PlanEvent" ? [event.event] : []
}

const model = ScriptedModel.layer(() => ({ text: "Whales." }))

const alone = Effect.gen(function* () {
  const changes = yield* Plan.stream(yield* trip, "whales").pipe(Stream.runCollect)
  return yield* wireOf(changes.flatMap((change) => (change._tag === "StateChanged" ? [change.event] : [])))
}).pipe(Effect.provide(model))

const asTool = Effect.gen(function* () {
  const events: Array<Run.Event> = []
  const desk = Agent.make("desk", {
    toolkit: [Agent.asTool(yield* trip, { name: "trip", description: "Plans a trip" })]
  })
  yield* desk.run("go", { onEvent: ({ event }) => Effect.sync(() => events.push(event)) })
  return yield* wireOf(events.flatMap(ofPlan))
}).pipe(
  Effect.provide(
    ScriptedModel.layer([
      { toolCalls: [{ name: "trip", params: { input: "whales" } }] },
      { text: "Whales." },
      { text: "Done." }
    ])
  )
)

const asStep = Effect.gen(function* () {
  const outer = yield* Effect.flatMap(Plan.make("plan", [Step.make("inner", { target: yield* trip })]), Plan.bind)
  const changes = yield* Plan.stream(outer, "whales").pipe(Stream.runCollect)
  return yield* wireOf(
    changes.flatMap((change) =>
      change._tag === "StateChanged" && change.event._tag === "NestedChanged" ? [change.event.event] : []
    )
  )
}).pipe(Effect.provide(model))

describe("KEEP-2 one wire", () => {
  test("of a plan alone, as a tool and as a step", Layer.empty, function* () {
    const expected = yield* alone
    assert.isAbove(expected.length, 8)
    assert.deepStrictEqual(yield* asTool, expected)
    assert.deepStrictEqual(yield* asStep, expected)
  })

  const hosts = [
    ["memory", VersionedStore.layerMemory, Session.layer],
    ["SQLite", SqliteClient.layerStore({ filename: ":memory:" }), Session.layer]
  ] as const

  for (const [name, store, layer] of hosts) {
    test(`of a plan in a session, ${name}`, Layer.merge(Layer.orDie(store), model), function* () {
      const bound = yield* trip
      const found = yield* Effect.gen(function* () {
        yield* Session.run(bound, { id: "job/1", input: "whales" })
        const { events } = yield* Session.Session
        const run = Stream.takeUntil(events("job/1"), (entry) => t.tagOf(entry) === "RunFinished")
        const entries = yield* Stream.runCollect(run)
        return entries.flatMap(({ event }) => (event._tag === "RunEvent" ? [event.event] : []))
      }).pipe(Effect.provide(layer([bound])))
      assert.deepStrictEqual(yield* wireOf(found.flatMap(ofPlan)), yield* alone)
      for (const event of found.filter(({ _tag }) => _tag === "PlanEvent")) {
        const [own] = ofPlan(event)
        assert(own !== undefined)
        const json = yield* PlanRun.eventCodec.encodeJson(own)
        // Neither a time nor a version of its own comes with it
        const inner = json.replace('{"version":1,"event":', '{"version":1,"event":{"_tag":"PlanEvent","event":') + "}"
        assert.strictEqual(yield* Run.eventCodec.encodeJson(event), inner)
      }
    })
  }
})
