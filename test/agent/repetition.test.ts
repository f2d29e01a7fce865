/** MONEY-3: a model that makes the same calls with the same results, again and again. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Ref, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import {
  Agent,
  AgentEvent,
  Conversation,
  ModelRegistry,
  ToolContract,
  ToolResolver,
  ToolSettings,
  VersionedStore
} from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ChatEvent, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { endsAs, failsFor } from "../outcomes.ts"
import * as sessionTests from "../session/sessions.ts"
import { test } from "../test.ts"
import { throughJson } from "./fixtures.ts"

const Find = Tool.make("find", { parameters: Schema.Struct({ id: Schema.Int }), success: Schema.String })
const Count = Tool.make("count", { success: Schema.Int })
const Status = Tool.make("status", { success: Schema.String }).annotate(ToolSettings.Polls, true)
const toolkit = Toolkit.make(Find, Count, Status)

const handlers = toolkit.toLayer(
  Effect.map(Ref.make(0), (counted) => ({
    find: ({ id }: { readonly id: number }) => Effect.succeed(`no order ${id}`),
    count: () => Ref.updateAndGet(counted, (n) => n + 1),
    status: () => Effect.succeed("running")
  }))
)

const agent = Agent.make("desk", { toolkit })

const find = (...ids: ReadonlyArray<number>): ScriptedModel.Turn => ({
  toolCalls: ids.map((id) => ({ name: "find", params: { id } }))
})
const count: ScriptedModel.Turn = { toolCalls: [{ name: "count", params: {} }] }
const status: ScriptedModel.Turn = { toolCalls: [{ name: "status", params: {} }] }
const done: ScriptedModel.Turn = { text: "Done." }

const times = (n: number, turn: ScriptedModel.Turn) => Array.from({ length: n }, () => turn)

const world = (script: ScriptedModel.Script) => Layer.merge(handlers, ScriptedModel.layer(script))

const isNote = ({ role, text }: ScriptedModel.RequestMessage) => role === "user" && text.includes("times in a row")

/** The notes in each request of the script, and how the run ended. */
const notesIn = (script: ScriptedModel.Script, options?: Agent.Options) =>
  Effect.gen(function* () {
    const result = yield* agent.run("Where is it?", options)
    const requests = yield* ScriptedModel.requests
    return { outcome: result.outcome, notes: requests.map(({ messages }) => messages.filter(isNote).length) }
  }).pipe(Effect.provide(world(script)))

describe("MONEY-3 the same calls with the same results", () => {
  test("get a note at the third time in a row, which stays in its place, and end the run at the fifth", function* () {
    const ended = yield* Effect.gen(function* () {
      const result = yield* endsAs("LoopDetected", agent.run("Where is it?"))
      return { result, requests: yield* ScriptedModel.requests }
    }).pipe(Effect.provide(world(times(9, find(1)))))
    const { requests, result } = ended
    assert.deepInclude(result, { tools: ["find"], times: 5, steps: 5 })
    assert.deepStrictEqual(
      requests.map(({ messages }) => messages.filter(isNote).length),
      [0, 0, 0, 1, 2]
    )
    const last = requests.at(-1)?.messages ?? []
    for (const { messages } of requests) assert.deepStrictEqual(last.slice(0, messages.length), messages)
    assert.include(last.find(isNote)?.text, `"find" 3 times in a row`)
    assert.notInclude(JSON.stringify(Conversation.transcript(result.conversation)), "times in a row")
    assert.lengthOf(Conversation.openCalls(result.conversation), 0)
  })

  const cases: ReadonlyArray<readonly [string, ReadonlyArray<ScriptedModel.Turn>, ReadonlyArray<number>]> = [
    ["other results are progress", [...times(7, count), done], times(8, done).map(() => 0)],
    ["a tool that polls may repeat", [...times(7, status), done], times(8, done).map(() => 0)],
    ["a call between them begins anew", [find(1), find(1), find(2), find(1), find(1), done], [0, 0, 0, 0, 0, 0]],
    ["parallel calls in another order are the same", [find(1, 2), find(2, 1), find(1, 2), done], [0, 0, 0, 1]],
    ["a call that is made twice in an answer counts once", [find(1), find(1, 1), find(1), done], [0, 0, 0, 1]],
    ["one other call among parallel ones is progress", [find(1, 2), find(1, 3), find(1, 4), done], [0, 0, 0, 0]],
    ["words beside the calls do not count", [find(1), { ...find(1), text: "Hm." }, find(1), done], [0, 0, 0, 1]],
    [
      "invented tools and wrong arguments repeat, too",
      [...times(3, { toolCalls: [{ name: "find", params: { id: "x" } }] }), done],
      [0, 0, 0, 1]
    ]
  ]
  for (const [name, script, expected] of cases) {
    test(name, function* () {
      assert.deepStrictEqual(yield* notesIn(script), { outcome: "Completed", notes: [...expected] })
    })
  }

  test("a message of the user begins anew", function* () {
    const second = yield* Effect.gen(function* () {
      const first = yield* endsAs("Completed", agent.run("Where is it?"))
      return yield* endsAs("Completed", agent.resume(first.state, { input: "Look again." }))
    }).pipe(Effect.provide(world([...times(2, find(1)), done, ...times(2, find(1)), done])))
    assert.strictEqual(second.state.totalSteps, 6)
  })

  test("the numbers are the agent's or the run's, and `unlimited` has none", function* () {
    const script = [...times(8, find(1)), done]
    assert.deepStrictEqual(yield* notesIn(script, { repeatedCalls: "unlimited" }), {
      outcome: "Completed",
      notes: times(9, done).map(() => 0)
    })
    const ended = yield* notesIn(script, { repeatedCalls: { note: 2, end: 3 } })
    assert.deepStrictEqual(ended, { outcome: "LoopDetected", notes: [0, 0, 1] })
    const strict = Agent.make("desk", { toolkit, repeatedCalls: { end: 2 } })
    const result = yield* endsAs("LoopDetected", strict.run("Go")).pipe(Effect.provide(world(script)))
    assert.strictEqual(result.times, 2)
    const wrong = Agent.make("desk", { toolkit, repeatedCalls: { end: 1 } })
    const error = yield* failsFor("DefinitionInvalid", wrong.run("Go")).pipe(Effect.provide(world(script)))
    assert.include(error.message, "whole numbers from 2")
  })

  test("a run that is resumed from its end asks once more, with the note; ask fails with the outcome", function* () {
    yield* Effect.gen(function* () {
      const error = yield* Effect.flip(agent.ask("Where is it?"))
      assert(error._tag === "RunIncomplete" && error.result.outcome === "LoopDetected")
      assert.include(error.message, "5 times in a row")
      const state = yield* throughJson(error.result.state)
      const again = yield* endsAs("LoopDetected", agent.resume(state))
      assert.strictEqual(again.state.totalSteps, 6)
      const last = yield* endsAs("Completed", agent.resume(again.state, { input: "Then leave it." }))
      assert.strictEqual(last.text, "Done.")
    }).pipe(Effect.provide(world([...times(6, find(1)), done])))
  })

  test("L1 L5 a stream and an agent that was rebuilt from its data do the same", function* () {
    const streamed = yield* endsAs("LoopDetected", AgentEvent.result(agent.stream("Where is it?"))).pipe(
      Effect.provide(world(times(9, find(1))))
    )
    assert.strictEqual(streamed.times, 5)
    const wire = yield* Agent.encode(Agent.make("desk", { toolkit, model: "test/m", repeatedCalls: { end: 4 } }))
    assert.deepInclude(wire, { repeated_calls: { end: 4 } })
    const layers = Layer.merge(
      ToolResolver.layerToolkit(toolkit).pipe(Layer.provide(handlers)),
      ModelRegistry.layer({
        test: ModelRegistry.provider({
          options: Schema.Struct({}),
          model: () => ScriptedModel.layer(times(9, find(1)))
        })
      })
    )
    const rebuilt = Effect.flatMap(Agent.decode(wire), (bound) => endsAs("LoopDetected", bound.run("Where is it?")))
    assert.strictEqual((yield* Effect.provide(rebuilt, layers)).times, 4)
    const contract = yield* ToolContract.fromTool(Status)
    assert.deepStrictEqual(contract.annotations, { polls: true })
  })

  test("a step of a plan fails with it", function* () {
    const plan = yield* Plan.bind(yield* Plan.make("lookup", [Step.make("look", { target: agent })]))
    const error = yield* Effect.flip(Plan.run(plan, "Where is it?")).pipe(Effect.provide(world(times(9, find(1)))))
    assert.include(error.message, "5 times in a row")
  })

  test.live("a session and its front ends have the outcome, and continue with the next message", function* () {
    const sessions = yield* sessionTests.sessionsOf(
      Session.layer([agent]).pipe(Layer.provide([VersionedStore.layerMemory, world([...times(5, find(1)), done])]))
    )
    const turn = (text: string) => Effect.provideService(Session.turn("a", text), Session.Session, sessions)
    const first = yield* turn("Where is it?")
    assert.strictEqual(first.outcome, "LoopDetected")
    const shown = Stream.fromIterable(yield* sessionTests.stored(sessions, "a")).pipe(
      Stream.filterMap(ChatEvent.project()),
      Stream.runCollect
    )
    const end = (yield* shown).map(({ event }) => event).find(({ _tag }) => _tag === "TurnFinished")
    assert.deepInclude(end, { outcome: "LoopDetected" })
    assert.strictEqual((yield* turn("Then leave it.")).text, "Done.")
  })
})
