/** PEOPLE-2: the requests that wait together are one question, bound by a digest over the list. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestRunner } from "effect/cluster"
import { Agent, Run, VersionedStore } from "effect-emissary"
import { Plan, Reference, Step } from "effect-emissary/plan"
import { ChatEvent, ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { endsAs, failsFor } from "../outcomes.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import { throughJson } from "./fixtures.ts"

const Refund = Tool.make("refund", {
  parameters: Schema.Struct({ order: Schema.String, amount: Schema.Finite }),
  success: Schema.String,
  needsApproval: true
})
const toolkit = Toolkit.make(Refund)
const desk = Agent.make("desk", { toolkit })

const refunds = (...amounts: ReadonlyArray<number>): ScriptedModel.Turn => ({
  toolCalls: amounts.map((amount, index) => ({
    id: `c${index}`,
    name: "refund",
    params: { order: `#${index}`, amount }
  }))
})

/** The model, and the handler of the tool, which notes its calls. */
const world = (script: ScriptedModel.Script) => {
  const paid: Array<string> = []
  const handlers = toolkit.toLayer({
    refund: ({ amount, order }) => Effect.sync(() => (paid.push(`${order} ${amount}`), "paid"))
  })
  return { paid, layer: Layer.merge(handlers, ScriptedModel.layer(script)) }
}

const refusalOf = <A, E extends { readonly reason: { readonly _tag: string } }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(failsFor("InvalidDecision", effect), ({ reason }) => JSON.parse(JSON.stringify(reason)))

describe("PEOPLE-2 runs", () => {
  const three = world([refunds(5, 6, 7), { text: "All paid." }])
  test("PEOPLE-2 the calls of one answer are one batch, decided as one", three.layer, function* () {
    const { requests, state } = yield* endsAs("AwaitingApproval", desk.run("Refund them"))
    const batch = Run.batch(requests)
    assert(batch !== undefined)
    assert.deepStrictEqual(pluck(batch.requests, "callId"), ["c0", "c1", "c2"])
    assert.match(batch.id, /^batch_[0-9a-f]{16}$/)
    // The same list in another order, read by another process, is the same batch
    assert.strictEqual(Run.batch(Run.requests(yield* throughJson(state)).toReversed())?.digest, batch.digest)
    const decisions = Run.approveAll(requests, { decidedBy: "ada" })
    assert.isTrue(decisions.every((decision) => decision.batch === batch.digest && decision.decidedBy === "ada"))
    const done = yield* endsAs("Completed", desk.resume(state, { decisions: decisions.toReversed() }))
    assert.strictEqual(done.text, "All paid.")
    assert.deepStrictEqual(three.paid, ["#0 5", "#1 6", "#2 7"])
  })

  const single = world([refunds(5, 6, 7), { text: "Some paid." }])
  test("PEOPLE-2 a batch is decided one by one, too; what is left of it is another batch", single.layer, function* () {
    const { requests, state } = yield* endsAs("AwaitingApproval", desk.run("Refund them"))
    const [first] = requests
    const half = yield* endsAs("AwaitingApproval", desk.resume(state, { decisions: [Run.deny(first)] }))
    assert.strictEqual(Run.batch(half.requests)?.requests.length, 2)
    assert.notStrictEqual(Run.batch(half.requests)?.digest, Run.batch(requests)?.digest)
    yield* endsAs("Completed", desk.resume(half.state, { decisions: Run.approveAll(half.requests) }))
    assert.deepStrictEqual(single.paid, ["#1 6", "#2 7"])
  })

  const none = world([refunds(5, 6, 7), { text: "None.", expect: { toolResult: "Too late." } }])
  test("PEOPLE-2 a batch that is denied runs nothing", none.layer, function* () {
    const { requests, state } = yield* endsAs("AwaitingApproval", desk.run("Refund them"))
    const decisions = Run.denyAll(requests, { reason: "Too late." })
    assert.strictEqual((yield* endsAs("Completed", desk.resume(state, { decisions }))).text, "None.")
    assert.deepStrictEqual(none.paid, [])
  })

  const torn = world([refunds(5, 6, 7)])
  test("PEOPLE-2 L13 a decision with the digest of another list is refused", torn.layer, function* () {
    const { requests, state } = yield* endsAs("AwaitingApproval", desk.run("Refund them"))
    const decisions = Run.approveAll(requests)
    const [first, second, third] = decisions
    assert(first !== undefined && second !== undefined && third !== undefined)
    const ofTwo = Run.approveAll(requests.slice(0, 2))
    for (const [wrong, problem] of [
      // One is missing, one was added, one has the name of another list, and one is there twice
      [[first, second], "batch"],
      [[...ofTwo, { ...third, batch: ofTwo[0]?.batch }], "batch"],
      [[first, second, { ...third, batch: ofTwo[0]?.batch }], "batch"],
      [[...decisions, first], "batch"],
      // The arguments of a call are others than in the list
      [Run.approveAll(requests.with(0, { ...requests[0], digest: "sha256:0" })), "changed"]
    ] as const) {
      const refusal = yield* refusalOf(desk.resume(state, { decisions: wrong }))
      assert.strictEqual(refusal.problem, problem)
    }
    assert.deepStrictEqual(torn.paid, [])
    // A list of some of the requests is a list
    const half = yield* endsAs("AwaitingApproval", Effect.orDie(desk.resume(state, { decisions: ofTwo })))
    assert.deepStrictEqual(pluck(half.requests, "callId"), ["c2"])
    assert.strictEqual(Run.batch(half.requests), undefined)
    assert.deepStrictEqual(Run.approveAll(half.requests)[0]?.batch, undefined)
  })

  const again = world([refunds(5, 6), refunds(5, 60), { text: "Done." }])
  test("PEOPLE-2 L13 a call that was not in the list asks, also an equal one", again.layer, function* () {
    const first = yield* endsAs("AwaitingApproval", desk.run("Refund them"))
    const decisions = Run.approveAll(first.requests)
    const second = yield* endsAs("AwaitingApproval", desk.resume(first.state, { decisions }))
    assert.deepStrictEqual(pluck(second.requests, "arguments"), [
      { order: "#0", amount: 5 },
      { order: "#1", amount: 60 }
    ])
    // The calls have other ids
    assert.strictEqual((yield* refusalOf(desk.resume(second.state, { decisions }))).problem, "unknown")
    assert.deepStrictEqual(again.paid, ["#0 5", "#1 6"])
  })

  const inner = Agent.make("inner", { instructions: "Refund.", toolkit })
  const outer = Agent.make("outer", { toolkit: [Agent.asTool(inner, { name: "delegate", description: "Refunds" })] })
  const nested = world(({ messages }) => {
    if (messages.at(-1)?.role === "tool") return { text: "Done." }
    if (messages[0]?.text === "Refund.") return refunds(5, 6)
    return { toolCalls: ["a", "b"].map((id) => ({ id, name: "delegate", params: { input: id } })) }
  })
  test("PEOPLE-2 the calls of agents inside are in the batch of the run around them", nested.layer, function* () {
    const { requests, state } = yield* endsAs("AwaitingApproval", outer.run("Refund them"))
    assert.strictEqual(Run.batch(requests)?.requests.length, 4)
    yield* endsAs("Completed", outer.resume(yield* throughJson(state), { decisions: Run.approveAll(requests) }))
    assert.deepStrictEqual(nested.paid.toSorted(), ["#0 5", "#0 5", "#1 6", "#1 6"])
  })
})

describe("PEOPLE-2 plans", () => {
  const Send = Tool.make("send", {
    parameters: Schema.Struct({ input: Schema.String }),
    success: Schema.String,
    needsApproval: true
  })
  const kit = Toolkit.make(Send)

  test("PEOPLE-2 the members of a parallel group are one batch, a pause among them", function* () {
    const sent: Array<string> = []
    const handlers = kit.toLayer({ send: ({ input }) => Effect.sync(() => (sent.push(input), "sent")) })
    const mail = (to: string) => Step.make(to, { target: "send", task: Reference.literal(to), parallel: true })
    const plan = yield* Plan.make("mails", [
      mail("ada"),
      mail("bob"),
      Step.make("check", {
        parallel: true,
        target: ({ decision }) => (decision === undefined ? Step.pause("Is it open?") : Effect.succeed("open"))
      }),
      Step.make("end", { target: () => Effect.succeed("all sent") })
    ])
    const bound = yield* Effect.provide(Plan.bind(plan, { toolkit: kit }), handlers)
    const { requests, state } = yield* endsAs("Paused", Plan.run(bound, "go"))
    assert.deepStrictEqual(pluck(Run.batch(requests)?.requests, "_tag"), ["Approval", "Approval", "Pause"])
    const [one, ...others] = Run.approveAll(requests)
    assert(one !== undefined)
    assert.strictEqual((yield* refusalOf(Plan.resume(bound, state, { decisions: others }))).problem, "batch")
    const done = yield* endsAs("Completed", Plan.resume(bound, state, { decisions: [one, ...others] }))
    assert.deepStrictEqual([done.output, sent.toSorted()], ["all sent", ["ada", "bob"]])
  })
})

describe("PEOPLE-2 sessions", () => {
  const below = () => {
    const { layer, paid } = world((request) =>
      request.messages.at(-1)?.role === "tool" ? { text: "Done." } : refunds(5, 6, 7)
    )
    return { below: layer, paid }
  }
  const sqlite = Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))
  const homes = [
    [
      "in memory",
      (part: ReturnType<typeof below>["below"]) =>
        Session.layer([desk]).pipe(Layer.provide([part, VersionedStore.layerMemory]))
    ],
    [
      "on SQLite",
      (part: ReturnType<typeof below>["below"]) =>
        Session.layer([desk]).pipe(
          Layer.provide([part, Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))])
        )
    ],
    [
      "on a fleet",
      (part: ReturnType<typeof below>["below"]) =>
        ClusterSession.layer([desk]).pipe(
          Layer.provide([part, Layer.mergeAll(TestRunner.layer, VersionedStore.layerMemory, sqlite)])
        )
    ]
  ] as const

  for (const [home, layerOf] of homes) {
    it.live(
      `PEOPLE-2 a session shows the batch, takes it as a whole, and of two deciders the first one counts, ${home}`,
      () => {
        const { below: part, paid } = below()
        return Effect.gen(function* () {
          yield* Session.turn("a", "Refund them")
          const { batch, requests } = Option.getOrThrow(yield* Session.state("a"))
          assert.strictEqual(batch?.digest, Run.batch(requests)?.digest)
          const decisions = Run.approveAll(requests)
          const torn = yield* refusalOf(Session.decide("a", decisions.slice(1)))
          assert.strictEqual(torn.error.problem, "batch")
          const deciders = [decisions, Run.denyAll(requests)].map((list) => Effect.exit(Session.decide("a", list)))
          const exits = yield* Effect.all(deciders, { concurrency: 2 })
          assert.deepStrictEqual(exits.map(({ _tag }) => _tag).toSorted(), ["Failure", "Success"])
          const [approved] = exits
          yield* Effect.repeat(Session.state("a"), {
            until: (state) => Option.getOrThrow(state).outcome === "Completed"
          })
          assert.strictEqual(paid.length, approved?._tag === "Success" ? 3 : 0)
          // The same list twice is no error
          yield* Session.decide("a", approved?._tag === "Success" ? decisions : Run.denyAll(requests))
        }).pipe(Effect.provide(layerOf(part)), Effect.timeout("20 seconds"))
      }
    )
  }

  it.live("PEOPLE-2 a list is refused as a whole where another person has decided one request otherwise", () => {
    const { below: part, paid } = below()
    return Effect.gen(function* () {
      yield* Session.turn("a", "Refund them")
      const { batch, requests } = Option.getOrThrow(yield* Session.state("a"))
      const [first] = requests
      assert(first !== undefined)
      yield* Session.await("a", yield* Session.decide("a", [Run.deny(first)]))
      const late = yield* refusalOf(Session.decide("a", Run.approveAll(requests)))
      assert.strictEqual(late.error.problem, "alreadyAnswered")
      const left = Option.getOrThrow(yield* Session.state("a"))
      assert.strictEqual(left.requests.length, 2)
      assert.notStrictEqual(left.batch?.digest, batch?.digest)
      const receipt = yield* Session.decide("a", Run.approveAll(left.requests))
      assert.strictEqual((yield* Session.await("a", receipt)).text, "Done.")
      assert.deepStrictEqual(paid, ["#1 6", "#2 7"])
      const ends = yield* Session.events("a").pipe(
        Stream.filterMap(ChatEvent.project()),
        Stream.flatMap(({ event }) => (event._tag === "TurnFinished" ? Stream.make(event) : Stream.empty)),
        Stream.take(3),
        Stream.runCollect
      )
      assert.deepStrictEqual(
        ends.map((end) => end.batch?.digest),
        [batch?.digest, left.batch?.digest, undefined]
      )
    }).pipe(Effect.provide(homes[0][1](part)), Effect.timeout("20 seconds"))
  })
})
