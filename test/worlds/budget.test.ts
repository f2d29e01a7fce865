/**
 * Law L14 in worlds: processes die, stop and lose answers while sessions with budgets run. `EMISSARY_TEST_FULL=1` runs 2,000 worlds, `npm test` some
 * dozens.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Option, Schedule, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run, VersionedStore } from "effect-emissary"
import { Session, SharedBudgets } from "effect-emissary/session"
import { ScriptedModel, Simulation } from "effect-emissary/testing"

/** The requests that have reached the model, by session, outside of all processes. */
class Sent extends Context.Service<Sent, Map<string, number>>()("test/worlds/budget/Sent") {
  static readonly layer = Layer.sync(Sent, () => new Map())
}

const toolkit = Toolkit.make(Tool.make("work", { success: Schema.String }))

const helper = Agent.make("helper", { instructions: "Help." })

const agent = Agent.make("desk", {
  toolkit: [...Object.values(toolkit.tools), Agent.asTool(helper, { name: "helper", description: "Helps" })]
})

const limits = { session: 9, turn: 4, all: 16 }

const small = { session: 3, turn: 2 }

/** A message is the id of its session and a number. An answer calls tools at first, and reports more or less than was reserved. */
const model = Layer.unwrap(
  Effect.map(Sent, (sent) =>
    ScriptedModel.layer(({ messages, tools }) => {
      const text = messages.findLast(({ role }) => role === "user")?.text ?? ""
      const [id = "", number = "0"] = text.split(" ")
      const count = (sent.get(id) ?? 0) + 1
      sent.set(id, count)
      const usage = count % 3 === 0 ? undefined : { inputTokens: count * 10, outputTokens: (count % 7) * 100 }
      const calls = messages.filter(({ role }) => role === "tool").length
      const isDone = tools.length === 0 || calls > Number(number) % 4
      const asks: NonNullable<ScriptedModel.Turn["toolCalls"]> = [
        { name: "work" },
        { name: "helper", params: { input: text } }
      ]
      return { ...(isDone ? { text: "done" } : { toolCalls: asks }), delay: "20 millis", ...(usage && { usage }) }
    })
  )
)

const tools = toolkit.toLayer({ work: () => Effect.as(Effect.sleep("15 millis"), "worked") })

const layerOf = (onExceeded: "ask" | "stop", shared: Layer.Layer<never, never, VersionedStore.VersionedStore>) =>
  Session.layer([agent], {
    leaseTime: "500 millis",
    drainTime: "50 millis",
    idleTime: "2 seconds",
    budget: { modelCalls: onExceeded === "ask" ? small.session : limits.session, onExceeded },
    run: { budget: { modelCalls: onExceeded === "ask" ? small.turn : limits.turn, onExceeded } }
  }).pipe(Layer.provide([shared, model, tools]))

const layer = layerOf(
  "stop",
  SharedBudgets.layer(() => [{ key: "all", modelCalls: limits.all }], { holdTime: "5 minutes" })
)

const trouble = {
  kills: 4,
  pauses: 1,
  stops: 1,
  store: { failures: 0.01 },
  network: { losses: 0.02, doubles: 0.02 }
}

const isFull = process.env["EMISSARY_TEST_FULL"] === "1"

const again = { times: 400, schedule: Schedule.spaced("50 millis") }

describe("budgets in worlds", () => {
  it.live(
    "L14 MONEY-2 no request is sent beyond a budget, and each request that was sent has counted, whatever dies",
    () =>
      Effect.gen(function* () {
        const seen = { exceeded: 0, cut: 0 }
        const { figures, worlds } = yield* Simulation.run<Session.Session, unknown, Sent>(layer, {
          seeds: Array.from({ length: isFull ? 2000 : 24 }, (_, index) => index + 1),
          compare: false,
          processes: 2,
          outside: Sent.layer,
          trouble,
          script: (world) =>
            Effect.gen(function* () {
              const on = <A, E>(name: string, use: (sessions: Session.Service) => Effect.Effect<A, E>) =>
                Effect.flatMap(world.any, ({ call }) => call(name, Effect.flatMap(Session.Session, use))).pipe(
                  Effect.retry(again)
                )
              const ids = ["a", "b"]
              const chat = (id: string) =>
                Effect.forEach([0, 1, 2, 3, 4], (number) =>
                  Effect.andThen(
                    on("send", (sessions) => sessions.send(id, `${id} ${number}`, { messageId: `${id}${number}` })),
                    Effect.sleep("70 millis")
                  )
                )
              yield* Effect.forEach(ids, chat, { concurrency: "unbounded" })
              const sent = yield* Sent
              for (const id of ids) {
                const idle = Effect.flatMap(
                  on("state", (sessions) => sessions.state(id)),
                  (state) =>
                    Option.exists(state, ({ status }) => status === "idle")
                      ? Effect.succeed(state)
                      : Effect.fail("busy")
                )
                const { budget = [], outcome } = Option.getOrThrow(yield* Effect.retry(idle, again))
                const left = budget.find(({ scope }) => scope === "session")?.left.modelCalls ?? limits.session
                const count = sent.get(id) ?? 0
                assert.isAtMost(count, limits.session)
                assert.isAtMost(count, limits.session - left, "a request that has not counted")
                if (outcome === "BudgetExceeded") seen.exceeded += 1
                if (count < limits.session - left) seen.cut += 1
              }
              // Reservations of processes that died count by then
              yield* Effect.sleep("6 minutes")
              const used = yield* SharedBudgets.used("all").pipe(
                Effect.provideService(VersionedStore.VersionedStore, world.store),
                Effect.retry(again)
              )
              const all = ids.reduce((sum, id) => sum + (sent.get(id) ?? 0), 0)
              assert.isAtMost(used.modelCalls ?? 0, limits.all)
              assert.isAtMost(all, used.modelCalls ?? 0, "a request that has not counted for its key")
            })
        })
        assert.isAbove(seen.exceeded, 10)
        if (isFull) console.log(JSON.stringify({ worlds, ...seen, figures }))
      }),
    3_600_000
  )

  it.live(
    "L14 MONEY-2 each answer to a question of a budget grants once, whatever dies, and no request is sent beyond what was granted",
    () =>
      Effect.gen(function* () {
        const seen = { continued: 0, stopped: 0, twice: 0 }
        const { figures, worlds } = yield* Simulation.run<Session.Session, unknown, Sent>(layerOf("ask", Layer.empty), {
          seeds: Array.from({ length: isFull ? 1000 : 16 }, (_, index) => index + 1),
          compare: false,
          processes: 2,
          outside: Sent.layer,
          trouble,
          script: (world) =>
            Effect.gen(function* () {
              const on = <A, E>(name: string, use: (sessions: Session.Service) => Effect.Effect<A, E>) =>
                Effect.flatMap(world.any, ({ call }) => call(name, Effect.flatMap(Session.Session, use)))
              const sure = <A, E>(name: string, use: (sessions: Session.Service) => Effect.Effect<A, E>) =>
                Effect.retry(on(name, use), again)
              const id = "a"
              for (const number of [0, 1, 2]) {
                yield* sure("send", (sessions) => sessions.send(id, `${id} ${number}`, { messageId: `${id}${number}` }))
              }
              /** The amounts granted to the session: once for each question, whose answer may have been sent several times. */
              const granted = new Map<string, number>()
              const settled = Effect.gen(function* () {
                const state = Option.getOrThrow(yield* sure("state", (sessions) => sessions.state(id)))
                for (const request of state.requests) {
                  if (request._tag !== "Question") continue
                  const isLast = granted.size >= 2
                  const value = isLast ? { choice: "stop" } : { choice: "continue", more: 2 }
                  const isNew = !granted.has(request.digest)
                  if (!isNew) seen.twice += 1
                  if (!isLast || !isNew)
                    granted.set(request.digest, /this session/.test(request.arguments.question) ? 2 : 0)
                  seen[isLast ? "stopped" : "continued"] += 1
                  yield* Effect.ignore(on("decide", (sessions) => sessions.decide(id, [Run.answer(request, value)])))
                }
                if (state.status !== "idle") return yield* Effect.fail("busy")
                return state
              })
              const { budget = [] } = yield* Effect.retry(settled, again)
              const line = budget.find(({ scope }) => scope === "session")
              if (line === undefined) return
              const { left, limits: now } = line
              const most = small.session + Array.from(granted.values()).reduce((sum, more) => sum + more, 0)
              assert.isAtMost(now.modelCalls ?? 0, most, "an answer that has granted twice")
              const used = (now.modelCalls ?? 0) - (left.modelCalls ?? 0)
              const count = (yield* Sent).get(id) ?? 0
              assert.isAtMost(count, used, "a request that has not counted")
            })
        })
        assert.isAbove(seen.continued, 10)
        assert.isAbove(seen.stopped, 0)
        if (isFull) console.log(JSON.stringify({ worlds, ...seen, figures }))
      }),
    3_600_000
  )
})
