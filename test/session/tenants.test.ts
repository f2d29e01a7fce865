/** RIGHT-24: what one tenant left is never run by the message, the decision or the fork of another one. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { TestRunner } from "effect/cluster"
import { Tool, Toolkit } from "effect/ai"
import { Agent, RunContext, VersionedStore, Run } from "effect-emissary"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import { Plan, PlanRun, Reference, Step } from "effect-emissary/plan"
import { ClusterSession, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { join } from "node:path"
import { makeDirectory } from "../store/directory.ts"
import { oneIn } from "../full.ts"
import { test } from "../test.ts"
import * as t from "./sessions.ts"
import * as tenants from "./tenants.ts"

const Pay = Tool.make("pay", {
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.Json,
  needsApproval: true
})
const toolkit = Toolkit.make(Pay)
const worker = Agent.make("worker", { toolkit })

const forA = { context: { tenant: "A" } }
const forB = { context: { tenant: "B" } }

/** Steps that note for whom they run with which text. `mode` is how the work in the middle goes. */
const makeHost = () => {
  const did: Array<string> = []
  let mode: "ok" | "slow" | "fail" = "ok"
  const work = (name: string, task: string) =>
    Effect.gen(function* () {
      const { tenant = "-" } = yield* RunContext.RunContext
      did.push(`${name}:${String(tenant)}(${task})`)
      if (mode === "slow") return yield* Effect.never
      if (mode === "fail") return yield* Effect.fail("down")
      return task
    })
  const end = Step.make("end", { target: ({ task }) => work("end", task) })
  const model: ScriptedModel.TurnFunction = ({ messages }) => {
    const at = messages.findLastIndex(({ role }) => role === "user")
    const text = messages[at]?.text ?? ""
    return messages.slice(at).some(({ role }) => role === "tool")
      ? { text }
      : { toolCalls: [{ name: "pay", params: { text } }] }
  }
  const below = Layer.mergeAll(
    toolkit.toLayer({ pay: ({ text }) => Effect.orDie(work("PAY", text)) }),
    ScriptedModel.layer(model)
  )
  // Sound: what the steps require is in `below`
  const bind = (...steps: ReadonlyArray<Step.Step<string, string, unknown>>) =>
    Effect.gen(function* () {
      const [first, ...others] = steps
      assert(first !== undefined)
      return yield* Plan.bind(yield* Plan.make("job", [first, ...others]), { toolkit })
    }).pipe(Effect.provide(below)) as Effect.Effect<Plan.Bound<unknown>, unknown>
  const middle = Step.make("mid", { target: ({ task }) => work("mid", task) })
  const pause = Step.make("mid", {
    target: ({ decision, task }) => (decision === undefined ? Step.pause("pay?") : work("PAY", task))
  })
  return {
    take: () => did.splice(0),
    below,
    is: (next: typeof mode) => Effect.sync(() => void (mode = next)),
    plans: {
      "a function": bind(middle, end),
      "a function in a group": bind(
        Step.make("mid", { parallel: true, target: ({ task }) => work("mid", task) }),
        Step.make("other", { parallel: true, target: ({ task }) => Effect.succeed(task) }),
        end
      ),
      "a plan in a plan": Effect.flatMap(bind(middle, end), (inner) =>
        bind(Step.make("inner", { target: inner }), end)
      ),
      "a pause": bind(pause, end),
      "a tool": bind(Step.make("mid", { target: "pay" }), end),
      "an agent": bind(Step.make("mid", { target: worker }), end),
      "an agent in a plan in a plan": Effect.flatMap(bind(Step.make("mid", { target: worker }), end), (inner) =>
        bind(Step.make("inner", { target: inner }), end)
      )
    }
  }
}

type Host = ReturnType<typeof makeHost>

type Place = (plan: Plan.Bound<unknown>, host: Host) => Layer.Layer<Session.Session, unknown>

const places: Readonly<Record<string, Place>> = {
  "in one process": (plan, { below }) => Layer.provide(Session.layer([plan]), [VersionedStore.layerMemory, below]),
  "on a fleet": (plan, { below }) =>
    Layer.provide(ClusterSession.layer([plan]), [
      below,
      TestRunner.layer,
      VersionedStore.layerMemory,
      Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))
    ])
}

const decide = Effect.fnUntraced(function* (sessions: Session.Service, id: string) {
  const { requests } = yield* t.stateOf(sessions, id)
  const decisions = requests.filter(Run.isApprovable).map(Run.approve)
  yield* sessions.decide(id, decisions)
  return decisions
})

const kinds = Object.keys(makeHost().plans) as ReadonlyArray<keyof Host["plans"]>

const waiting = new Set<string>(["a pause", "a tool", "an agent", "an agent in a plan in a plan"])

describe.each(Object.entries(places))("RIGHT-24 the rest of a plan %s", (_, place) => {
  for (const kind of kinds) {
    for (const how of ["interrupted", "failed"] as const) {
      for (const next of [forB, {}]) {
        const whose = "context" in next ? "of another tenant" : "without a context"
        it.live(`${kind} that ${how} does not run with a message ${whose}`, () =>
          Effect.gen(function* () {
            const host = makeHost()
            const sessions = yield* t.sessionsOf(place(yield* host.plans[kind], host))
            const broken = host.is(how === "interrupted" ? "slow" : "fail")
            if (!waiting.has(kind)) yield* broken
            yield* sessions.send("x", "secretA", forA)
            if (waiting.has(kind)) {
              yield* t.until(sessions, "x", "waiting")
              yield* broken
              yield* decide(sessions, "x")
            }
            const ran: Array<string> = []
            yield* t.eventually(Effect.sync(() => ran.push(...host.take()) > 0))
            if (how === "interrupted") yield* sessions.interrupt("x")
            // A tool that dies is a result for the agent, which continues
            yield* t.eventually(Effect.map(t.stateOf(sessions, "x"), ({ status }) => status !== "running"))
            yield* host.is("ok")
            ran.push(...host.take())
            assert.isTrue(
              ran.every((line) => line.includes(":A(secretA")),
              ran.join()
            )
            yield* sessions.send("x", "Bq", next)
            yield* t.eventually(Effect.map(t.stateOf(sessions, "x"), ({ status }) => status !== "running"))
            const tenant = "context" in next ? "B" : "-"
            const after = host.take()
            assert.isTrue(
              after.every((line) => line.includes(`:${tenant}(Bq`)),
              after.join()
            )
            if (!waiting.has(kind)) assert.include(after, `end:${tenant}(Bq)`)
          }).pipe(Effect.scoped)
        )
      }
    }
  }
})

describe.each(Object.entries(places))("RIGHT-24 a fork of a plan that waits, %s", (_, place) => {
  for (const kind of kinds.filter((kind) => waiting.has(kind))) {
    it.live(`${kind}: one approval is one execution, and the fork has no context`, () =>
      Effect.gen(function* () {
        const host = makeHost()
        const sessions = yield* t.sessionsOf(place(yield* host.plans[kind], host))
        yield* sessions.send("x", "secretA", forA)
        yield* t.until(sessions, "x", "waiting")
        yield* sessions.fork("x", { to: "f" })
        const fork = yield* t.stateOf(sessions, "f")
        assert.deepStrictEqual([fork.status, fork.requests], ["idle", []])
        const decisions = yield* decide(sessions, "x")
        yield* t.until(sessions, "x", "idle")
        assert.deepStrictEqual(host.take()[0], "PAY:A(secretA)")
        assert.strictEqual(yield* t.reasonOf(sessions.decide("f", decisions)), "InvalidDecision")
        // The fork asks when it is resumed, and for itself
        yield* sessions.resume("f")
        yield* t.until(sessions, "f", "waiting")
        assert.strictEqual(yield* t.reasonOf(sessions.decide("f", decisions)), "InvalidDecision")
        const { requests } = yield* t.stateOf(sessions, "f")
        assert.notDeepEqual(
          requests.map(({ digest }) => digest),
          decisions.map(({ digest }) => digest)
        )
        assert.deepStrictEqual(host.take(), [])
        yield* decide(sessions, "f")
        yield* t.until(sessions, "f", "idle")
        assert.deepStrictEqual(host.take()[0], "PAY:-(secretA)")
      }).pipe(Effect.scoped)
    )
  }
})

describe("RIGHT-24 the context of a run of a plan", () => {
  const paused = Effect.gen(function* () {
    const { plans, take } = makeHost()
    const plan = yield* plans["a pause"]
    const result = yield* Plan.run(plan, "secretA", forA)
    assert(result.outcome === "Paused")
    const decisions = result.requests.filter(Run.isApprovable).map(Run.approve)
    return { plan, take, decisions, state: result.state }
  })

  test("Plan.resume with another one is ContextDiffers, and nothing runs", function* () {
    const { decisions, plan, state, take } = yield* paused
    const other = yield* Effect.flip(Plan.resume(plan, state, { ...forB, decisions }))
    assert.strictEqual(other.reason._tag, "ContextDiffers")
    assert.deepStrictEqual(take(), [])
    const same = yield* Plan.resume(plan, state, { ...forA, decisions })
    assert.strictEqual(same.outcome, "Completed")
    assert.deepStrictEqual(take(), ["PAY:A(secretA)", "end:A(secretA)"])
    const decoded = yield* PlanRun.stateCodec.decode(yield* PlanRun.stateCodec.encode(state))
    assert.strictEqual((yield* Effect.flip(Plan.resume(plan, decoded, forB))).reason._tag, "ContextDiffers")
  })

  test("a bound plan that answers as an agent does not continue with another one either", function* () {
    const { plans, take } = makeHost()
    const plan = yield* plans["a pause"]
    const asked = yield* plan.run("secretA", forA)
    assert(asked.outcome === "AwaitingApproval")
    const decisions = asked.requests.filter(Run.isApprovable).map(Run.approve)
    const error = yield* Effect.flip(plan.resume(asked.state, { ...forB, decisions }))
    assert(error.reason._tag === "DelegateFailed")
    assert.strictEqual(error.reason.error, "ContextDiffers")
    assert.deepStrictEqual(take(), [])
  })
})

describe("RIGHT-24 the memory of a plan", () => {
  test("has a key that may depend on the context: a tenant reads its own", VersionedStore.layerMemory, function* () {
    const Tenant = Schema.Struct({ tenant: Schema.String })
    const plan = yield* Plan.make("plan", [
      Step.make("ask", { target: "writer" }),
      Step.make("recall", { task: Reference.fromAgent("writer"), target: ({ task }) => Effect.succeed(task) })
    ])
    const before = yield* Plan.make("plan", [
      Step.make("recall", { task: Reference.fromAgent("writer"), target: ({ task }) => Effect.succeed(task) })
    ])
    const writer = Plan.memoryInStore(Effect.map(RunContext.read(Tenant), ({ tenant }) => `memories/${tenant}`))
    const asking = yield* Plan.bind(plan, { agents: { writer: Agent.make("writer", {}) }, memories: { writer } })
    const reading = yield* Plan.bind(before, { memories: { writer } })
    const said = Effect.fnUntraced(function* (bound: Plan.Bound<unknown, never>, input: string, tenant: string) {
      const result = yield* Plan.run(bound, input, { context: { tenant } })
      assert(result.outcome === "Completed")
      return result.output
    })
    const model = ScriptedModel.layer(t.echo)
    // Sound: what the plans require is around the test
    const [ask, read] = [asking, reading] as unknown as [Plan.Bound<unknown, never>, Plan.Bound<unknown, never>]
    assert.strictEqual(yield* Effect.provide(said(ask, "secretA", "A"), model), "re: secretA")
    assert.strictEqual(yield* said(read, "x", "B"), "")
    assert.strictEqual(yield* Effect.provide(said(ask, "secretB", "B"), model), "re: secretB")
    assert.strictEqual(yield* said(read, "x", "A"), "re: secretA")
  })
})

describe("RIGHT-24 random agents, plans, contexts, interruptions, forks and deploys", () => {
  const seeds = Array.from({ length: 36 }, (_, n) => n + 1)
  for (const seed of oneIn(2, seeds)) {
    t.passing(`nothing of one tenant runs for another one: seed ${seed}, in one process`, () =>
      Effect.gen(function* () {
        const world = yield* tenants.makeWorld(seed)
        const store = yield* t.store
        const open = ({ below, hosted }: typeof world) =>
          Layer.provide(Session.layer([hosted], { drainTime: 0, leaseTime: "50 millis" }), [store, below])
        yield* tenants.play(world, open, { actions: 40, deploys: true, forks: seed % 2 === 1 })
      }).pipe(Effect.scoped)
    )
  }
  const directory = makeDirectory()
  for (const seed of oneIn(3, [101, 102, 103, 104, 105, 106])) {
    it.live(`nothing of one tenant runs for another one: seed ${seed}, on a fleet`, () =>
      Effect.gen(function* () {
        const world = yield* tenants.makeWorld(seed)
        const open = ({ below, hosted }: typeof world) =>
          Layer.provide(ClusterSession.layer([hosted], { drainTime: 0 }), [
            below,
            Layer.orDie(
              SqliteRunner.layer({ filename: join(directory, `${seed}.sqlite`), shardingConfig: { shardsPerGroup: 8 } })
            )
          ])
        yield* tenants.play(world, open, { actions: 40, deploys: true, forks: seed % 2 === 1 })
      }).pipe(Effect.scoped)
    )
  }
})
