/** HOUSE-3: a session records a decision about a plan once, as an event of the plan, and an answer that is the output of a step without a second copy. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run, VersionedStore } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as runParts from "#src/run/internal/runParts.ts"
import { test } from "../test.ts"

const Send = Tool.make("send", {
  parameters: Schema.Struct({ input: Schema.String }),
  success: Schema.String,
  needsApproval: true
})
const toolkit = Toolkit.make(Send)
const world = Layer.mergeAll(
  toolkit.toLayer({ send: ({ input }) => Effect.succeed(`sent ${input}`) }),
  ScriptedModel.layer(({ prompt }) =>
    prompt.content.at(-1)?.role === "tool"
      ? { text: "done" }
      : { toolCalls: [{ name: "send", params: { input: "by the clerk" } }] }
  ),
  VersionedStore.layerMemory
)

const bind = <A, R>(plan: Effect.Effect<Plan.Plan<A, R>, unknown>) =>
  Effect.flatMap(Effect.orDie(plan), (plan) => Effect.orDie(Plan.bind(plan, { toolkit })))

/** A tool in a plan inside, an agent, and a step that pauses. */
const together = Effect.gen(function* () {
  const inner = yield* bind(Plan.make("inner", [Step.make("mail", { target: "send" })]))
  return yield* bind(
    Plan.make("together", [
      Step.make("inner", { target: inner, parallel: true }),
      Step.make("clerk", { target: Agent.make("clerk", { toolkit }), parallel: true }),
      Step.make("gate", {
        parallel: true,
        target: ({ decision }) => (decision === undefined ? Step.pause("go on?") : Effect.succeed("open"))
      })
    ])
  )
})

const logOf = (id: string) =>
  Effect.gen(function* () {
    const sessions = yield* Session.Session
    const { value } = yield* Effect.map(sessions.state(id), (found) => ({ value: Option.getOrThrow(found) }))
    const entries = sessions.events(id).pipe(Stream.takeUntil(({ cursor }) => cursor === value.cursor))
    return (yield* Stream.runCollect(entries)).map(({ event }) => event)
  })

describe("HOUSE-3 a plan in a session is a machine of its own", () => {
  test("HOUSE-3 each decision about a plan is in the log once, under the path of its request", world, function* () {
    const plan = yield* together
    yield* Effect.gen(function* () {
      const asked = yield* Session.run(plan, { id: "s", input: "go" })
      assert.strictEqual(asked.outcome, "AwaitingApproval")
      const sessions = yield* Session.Session
      const { requests } = Option.getOrThrow(yield* sessions.state("s"))
      assert.strictEqual(requests.length, 3)
      const [first, ...others] = requests
      assert(first !== undefined && Run.isApprovable(first))
      yield* sessions.decide("s", [Run.approve(first)])
      assert.strictEqual((yield* Session.result(plan, "s")).outcome, "AwaitingApproval")
      yield* sessions.decide(
        "s",
        others.filter(Run.isApprovable).map((request) => Run.approve(request))
      )
      assert.strictEqual((yield* Session.result(plan, "s")).outcome, "Completed")
      const events = yield* logOf("s")
      const decided = events.flatMap((event) => {
        const found = event._tag === "RunEvent" ? runParts.decisionIn(event.event) : undefined
        return found === undefined ? [] : [`${[...(found.path ?? []), found.callId].join("/")} ${found.digest}`]
      })
      const expected = requests.map(({ callId, digest, path = [] }) => `${[...path, callId].join("/")} ${digest}`)
      assert.deepStrictEqual(decided.sort(), expected.sort())
    }).pipe(Effect.provide(Session.layer([plan])))
  })
})
