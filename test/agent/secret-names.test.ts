/** RIGHT-22 L8 L11: names of tools, agents and steps are data: a name that is spelled like a secret key never keeps a run from storage. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Effect, Layer, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestRunner } from "effect/cluster"
import { Agent, Message, Run, VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { ClusterSession, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { decide } from "../decisions.ts"
import * as sessions from "../session/sessions.ts"
import { test } from "../test.ts"

/** Tools of MCP servers have names with a server in front. */
const names = ["jwt", "token", "api_key", "demo/jwt"] as const

const options = { parameters: Schema.Struct({ password: Schema.String }), success: Schema.String, needsApproval: true }

const tools = names.map((name) => Tool.make(name, options))

const toolkit = Toolkit.make(...tools)

const handlers = toolkit.toLayer(
  // Sound: each name has a handler
  Object.fromEntries(names.map((name) => [name, () => Effect.succeed(name)])) as Record<
    (typeof names)[number],
    () => Effect.Effect<string>
  >
)

const inner = Agent.make("secret", { toolkit })

const asks = Agent.asTool(inner, { name: "password", description: "Asks an agent" })

const agentOf = (name: string, instructions = "Go.") =>
  Agent.make(name, {
    instructions,
    toolkit: [...tools, asks]
  })

/** Calls every tool, and the agent, which does the same. */
const calls: ScriptedModel.TurnFunction = ({ messages, tools }) => {
  const last = messages.at(-1)
  if (last?.role !== "user") return { text: "done" }
  const inside = tools.every(({ name }) => name !== "password")
  return {
    toolCalls: [
      ...names.map((name) => ({ name, params: { password: "x" } })),
      ...(inside ? [] : [{ name: "password", params: { input: "go" } }])
    ]
  }
}

const world = Layer.merge(handlers, ScriptedModel.layer(calls))

const throughRun = Effect.fnUntraced(function* (state: Run.State, events: ReadonlyArray<Run.Event>) {
  assert.deepStrictEqual(yield* Run.eventsCodec.decodeJson(yield* Run.eventsCodec.encodeJson(events)), events)
  for (const event of events) yield* Run.eventCodec.decodeJson(yield* Run.eventCodec.encodeJson(event))
  return yield* Run.stateCodec.decodeJson(yield* Run.stateCodec.encodeJson(state))
})

describe("RIGHT-22 L11 names that are spelled like secret keys", () => {
  test(
    "of tools and of agents as tools: a run is stored, resumed, and resumed under an edited agent",
    world,
    function* () {
      const events: Array<Run.Event> = []
      const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void events.push(event))
      const { state } = yield* agentOf("token").run("go", { onEvent })
      const waiting = yield* throughRun(state, events)
      assert.lengthOf(Run.requests(waiting), 2 * names.length)
      const edited = agentOf("token", "Go on.")
      const result = yield* edited.resume(waiting, { decisions: decide(waiting), onEvent })
      assert.strictEqual(result.outcome, "Completed")
      assert.isTrue(events.some((event) => event._tag === "RunResumed" && event.change !== undefined))
      yield* throughRun(result.state, events)
    }
  )

  const planOf = (last: string, answer = "end") =>
    Effect.gen(function* () {
      const nested = yield* Plan.make("secrets", [
        Step.make("password", { target: () => Effect.succeed({ token: "output" }), writes: "api_key" })
      ])
      const plan = yield* Plan.make("credentials", [
        Step.make("jwt", { target: agentOf("pat"), writes: "token" }),
        Step.make("api_key", { target: yield* Plan.bind(nested) }),
        Step.make("token", {
          target: ({ decision }) => (decision === undefined ? Step.pause("which?") : Effect.succeed("ok"))
        }),
        Step.make(last, { target: () => Effect.succeed(answer), ...(answer === "end" ? undefined : { writes: "dsn" }) })
      ])
      return yield* Plan.bind(plan)
    })

  test(
    "of steps, of what they write, and of what is in them: a plan is stored and resumed, as itself and as an agent",
    world,
    function* () {
      const bound = yield* planOf("passwd")
      const through = Effect.fnUntraced(function* (state: PlanRun.State) {
        return yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(state))
      })
      const asked = yield* through((yield* Plan.run(bound, "go")).state)
      const edited = yield* planOf("passwd", "later")
      const paused = yield* Plan.resume(edited, asked, { decisions: decide(asked) })
      assert.strictEqual(paused.outcome, "Paused")
      const state = yield* through(paused.state)
      const ended = yield* Plan.resume(edited, state, { decisions: decide(state) })
      assert.strictEqual(ended.outcome, "Completed")
      yield* through(ended.state)

      const log: Array<Run.Event> = []
      const note = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void log.push(event))
      const first = yield* throughRun((yield* bound.run("go", { onEvent: note })).state, log)
      const second = yield* bound.resume(first, { decisions: decide(first), onEvent: note })
      yield* throughRun(second.state, log)
    }
  )

  test("of keys in the metadata of messages that a fitted conversation shows", function* () {
    const metadata = { token: "from the application", api_key: 5 }
    const message = { ...(yield* Message.user("Hi")), metadata }
    const report = { before: 2, after: 1, removed: [], shortened: [] }
    const at = yield* DateTime.now
    const instructions = { ...(yield* Message.system("Be kind.")), metadata }
    const event: Run.Event = { _tag: "ConversationFitted", at, view: [message], report }
    const added: Run.Event = { _tag: "InputAdded", at, message, maxSteps: 5, instructions }
    for (const one of [event, added]) {
      assert.deepStrictEqual(yield* Run.eventCodec.decodeJson(yield* Run.eventCodec.encodeJson(one)), one)
    }
  })

  test("a secret key in the context of a run is refused as before", world, function* () {
    const events: Array<Run.Event> = []
    const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void events.push(event))
    yield* agentOf("token").run("go", { onEvent })
    const [started, ...rest] = events
    assert(started?._tag === "RunStarted")
    const secret = [{ ...started, context: { jwt: "x" } }, ...rest]
    const state = Result.getOrThrow(Run.fold(secret))
    for (const [encoded, path] of [
      [Run.stateCodec.encode(state), "/state/context/jwt"],
      [Run.eventsCodec.encode(secret), "/events/0/context/jwt"]
    ] as const) {
      const error = yield* Effect.flip(encoded)
      assert(error._tag === "PayloadError" && error.reason._tag === "Secret")
      assert.strictEqual(error.reason.path, path)
    }
  })
})

describe("RIGHT-22 L11 names of a session that are spelled like secret keys", () => {
  const model = ScriptedModel.layer((request) => (sessions.asked(request) === "go" ? calls(request) : { text: "ok" }))
  const agents = [agentOf("jwt")] as const
  const runner = Layer.mergeAll(
    TestRunner.layer,
    VersionedStore.layerMemory,
    Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))
  )
  const keepEvents = 20
  const places = {
    "in one process": Layer.provideMerge(Session.layer(agents, { keepEvents }), VersionedStore.layerMemory),
    "on a fleet": Layer.provideMerge(ClusterSession.layer(agents, { keepEvents }), runner)
  }

  for (const [place, layer] of Object.entries(places)) {
    test.live(`${place}: turns and decisions`, Layer.provide(layer, [handlers, model]), function* () {
      const service = yield* Session.Session
      yield* service.send("token", "go")
      yield* sessions.until(service, "token", "waiting")
      const { requests } = yield* sessions.stateOf(service, "token")
      assert.lengthOf(requests, 2 * names.length)
      yield* service.decide(
        "token",
        requests.map(({ callId, digest, path }) => ({ callId, digest, approved: true, ...(path && { path }) }))
      )
      assert.strictEqual((yield* Session.turn("token", "hi")).text, "ok")
      for (let n = 0; n < 3; n++) yield* Session.turn("token", `${n}`)
    })
  }
})
