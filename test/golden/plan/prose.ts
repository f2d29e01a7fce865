/** Cases that are described in prose: in the vocabulary where it can express them, and as programs where it cannot. */
import { assert } from "@effect/vitest"
import { DateTime, Deferred, Effect, Layer, Option, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, VersionedStore } from "effect-emissary"
import { Plan, Reference, Step, When } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { bind } from "../../plan/support.ts"
import { type Case, equal, type Json } from "../family.ts"
import { makeTargets, type Trace, types } from "./fixtures.ts"
import * as kept from "./kept.ts"
import { paused } from "./run.ts"
import type * as livePlan from "#src/plan/internal/livePlan.ts"

/** A step on the wire, with a function of its name. */
const fn = (name: string, options: Json = {}): Json => ({
  name,
  target: { kind: "callable", name },
  task: { kind: "from_prev" },
  parallel: false,
  ...options
})

const agent = (name: string, options: Json = {}): Json => ({ ...fn(name), target: { kind: "agent", name }, ...options })

const planOf = (...steps: ReadonlyArray<Json>): Json => ({ version: 2, max_iterations: 100, steps })

const tokens = (counts: { readonly [name: string]: number }): Json =>
  Object.fromEntries(Object.entries(counts).map(([name, tokens]) => [name, { tokens }]))

/** The `given` of these cases in the vocabulary. */
const given: { readonly [id: string]: Json } = {
  D46: { from_dict: planOf(fn("a"), fn("b", { context: [{ kind: "from_prev" }, 42] })) },
  D48: { from_dict: planOf(fn("a", { task: 42 })) },
  D50: { from_dict: planOf(fn("a", { routes: [1] })) },
  D58: { plan: planOf(fn("a", { routes: ["fetch"] }), { target: { kind: "callable", name: "fetch" } }), predicates: { "routes:a:fetch": "never" } },
  D61: { plan: planOf(fn("a", { task: { kind: "from_step", name: "nowhere" } }), fn("a")) },
  K01: { plan: planOf(fn("a"), fn("b")), fixtures: { a: { const: "A" }, b: { const: "B" } } },
  K03: { plan: planOf(fn("a")), fixtures: { a: { fail: "division by zero" } } },
  K05: {
    plan: planOf(fn("a", { routes: ["b"] }), fn("b")),
    fixtures: { a: { const: "A" } },
    predicates: { "routes:a:b": "throws" }
  },
  K06: { plan: planOf(fn("a")), fixtures: { a: { const: "x".repeat(1000) } } },
  K08: { plan: planOf(agent("p1", { parallel: true }), agent("p2", { parallel: true }), agent("tail")) },
  K10: { plan: planOf(fn("upper")), fixtures: { upper: { const: "GO" } } },
  K11: { plan: planOf(agent("s"), fn("f")), fixtures: { f: { const: "FINAL" } } },
  K13: { plan: planOf(agent("sub"), agent("o")), plans: { sub: planOf(agent("i1"), agent("i2")) } },
  L01: { plan: planOf(agent("a"), agent("b"), agent("c")), fixtures: tokens({ a: 10, b: 20, c: 40 }) },
  L03: { plan: planOf(agent("a"), fn("gate")), fixtures: { ...tokens({ a: 10 }), gate: { pause: "hold" } } },
  L05: { plan: planOf(agent("a"), fn("b")), fixtures: { ...tokens({ a: 10 }), b: { fail: "x" } } },
  L06: {
    plan: planOf(agent("sub"), agent("c")),
    plans: { sub: planOf(agent("a"), agent("b")) },
    fixtures: tokens({ a: 10, b: 20, c: 40 })
  }
}

/** The mentions of a refused wire in place of the mentions of a refused program: a path, and a type of JSON. */
const mentions: { readonly [id: string]: ReadonlyArray<string> } = {
  D46: ["b", "/context/1", "number"],
  D50: ["a", "/routes/0", "number"]
}

export const inVocabulary = (golden: Case): Case => {
  const { expect, id } = golden
  const expressed = "desc" in golden.given && Object.hasOwn(given, id) ? given[id] : undefined
  if (expressed === undefined) return golden
  const names = Object.hasOwn(mentions, id) ? mentions[id] : undefined
  return {
    ...golden,
    given: expressed,
    expect: names === undefined ? expect : { RAISED: "ValueError", "our message must mention": names }
  }
}

const answer = () => Effect.succeed("")

/** Plans that are built by hand, as version 2 writes them. */
const written = <E>(plan: Effect.Effect<Plan.Plan<unknown, unknown>, E>) =>
  Effect.fnUntraced(function* ({ expect }: Case) {
    const wire = yield* Plan.encode(yield* plan, { version: 2 })
    assert.strictEqual(JSON.stringify({ to_dict: wire }), JSON.stringify(expect))
  })

const guide = Plan.make("plan", [
  Step.make("fetch", {
    target: Step.target("fetch", answer),
    writes: "hits",
    output: types["Hits"],
    routes: [["apology", When.custom("routes:fetch:apology")]]
  }),
  Step.make("rank", { target: Step.target("rank", answer), task: Reference.fromStep("fetch"), writes: "ranked" }),
  Step.make("write", { target: "write", task: Reference.fromStep("rank") }),
  Step.make("apology", { target: "apology" })
], { predicates: { "routes:fetch:apology": () => true } })

const give = (text: string) => () => Effect.succeed(text)

/** A plan in sessions of its own store. */
const keeping = <A, E, R>(
  plan: Plan.Bound<unknown, R>,
  use: (sessions: Session.Service) => Effect.Effect<A, E, Session.Session | VersionedStore.VersionedStore>
) =>
  Effect.flatMap(Session.Session, use).pipe(
    Effect.provide(Layer.provideMerge(Session.layer([plan]), VersionedStore.layerMemory))
  )

const interrupting = Effect.fnUntraced(function* ({ expect }: Case) {
  const inside = yield* Deferred.make<void>()
  let sleeps = true
  const member = () =>
    Effect.suspend(() => (sleeps ? Effect.andThen(Deferred.succeed(inside, undefined), Effect.never) : Effect.succeed("F")))
  const plan = yield* bind(
    Plan.make("plan", [
      Step.make("a", { target: give("A"), writes: "o" }),
      Step.make("b1", { target: member, parallel: true }),
      Step.make("b2", { target: member, parallel: true })
    ])
  )
  yield* keeping(plan, Effect.fnUntraced(function* (sessions) {
    yield* Effect.forkChild(Session.run(plan, { id: "k", input: "go" }))
    yield* Deferred.await(inside)
    yield* sessions.interrupt("k")
    const checkpoint = yield* kept.checkpointOf(plan, "k")
    sleeps = false
    const fresh = yield* kept.begin(plan, "k", "go")
    const text = fresh.outcome === "Completed" ? fresh.output : fresh.outcome
    equal({ outcome: "interrupted", checkpoint, "fresh run on same key": text }, expect)
  }))
})

const nestedPause = Effect.fnUntraced(function* ({ expect }: Case) {
  const inner = yield* bind(Plan.make("plan", [Step.make("a", { target: () => Step.pause("wait") })]))
  const outer = yield* bind(Plan.make("plan", [Step.make("sub", { target: inner })]))
  const result = yield* Plan.run(outer, "go")
  assert(result.outcome === "Paused")
  yield* keeping(outer, Effect.fnUntraced(function* () {
    yield* Session.run(outer, { id: "k", input: "go" })
    const { next_step, status } = { next_step: undefined, ...(yield* kept.checkpointOf(outer, "k")) }
    equal({ error: paused(result), "outer checkpoint": { status, next_step } }, expect)
  }))
})

/** Writes reach the store only of a run that is kept: the keys that can be read after a kept run. */
const emptyStore = Effect.fnUntraced(function* ({ expect }: Case) {
  const plan = yield* bind(Plan.make("plan", [Step.make("a", { target: give("A"), writes: "w" })]))
  yield* keeping(plan, Effect.fnUntraced(function* (sessions) {
    yield* Session.run(plan, { id: "k", input: "go" })
    equal({ keys: Option.isSome(yield* sessions.read("w")) ? ["w"] : [] }, expect)
  }))
})

/** A value is current where the run that is under the key now has written it. */
const isCurrent = (sessions: Session.Service, id: string, key: string) =>
  Effect.gen(function* () {
    const found = yield* sessions.state(id)
    const written = yield* sessions.read(key)
    if (Option.isNone(found) || Option.isNone(written)) return false
    const isSince = DateTime.isGreaterThanOrEqualTo(written.value.at, found.value.created)
    return written.value.id === id && isSince
  })

const probes = Effect.fnUntraced(function* ({ expect }: Case) {
  const plan = yield* bind(Plan.make("plan", [Step.make("a", { target: give("A"), writes: "w" })]))
  yield* keeping(plan, Effect.fnUntraced(function* (sessions) {
    const store = yield* VersionedStore.VersionedStore
    const absent = yield* isCurrent(sessions, "k", "w")
    yield* store.compareAndSet("session/head/other", Option.none(), { hello: 1 })
    const foreign = yield* Effect.orElseSucceed(isCurrent(sessions, "other", "w"), () => false)
    equal({ absent, "no run_uid": foreign }, expect)
    yield* Session.run(plan, { id: "k", input: "go" })
    assert.isTrue(yield* isCurrent(sessions, "k", "w"))
  }))
})

const cap = (memories: livePlan.AgentMemory | undefined, reference: "memory" | "agent") =>
  Effect.fnUntraced(function* ({ expect }: Case) {
    const seen: Trace = []
    const watched = makeTargets(seen, {})
    const step =
      reference === "memory"
        ? Step.make("cap", { target: watched.agent("cap"), task: "do", context: Reference.fromMemory("x") })
        : // A function: no agent can be given an empty message.
          Step.make("cap", { target: watched.function("cap"), task: Reference.fromAgent("x") })
    const plan = yield* Plan.make("plan", [step])
    const bound = yield* Plan.bind(plan, {
      agents: { x: watched.agent("x") },
      memories: memories === undefined ? {} : { x: memories }
    })
    yield* Effect.provide(Plan.run(bound, "go"), ScriptedModel.layer(watched.script))
    equal({ "cap received": seen.map(([, task, context]) => [task, context ?? null]) }, expect)
  })

const F2 = Tool.make("f2", {
  parameters: Schema.Struct({ q: Schema.String, extra: Schema.optionalKey(Schema.String) }),
  success: Schema.String
})
const F3 = Tool.make("f3", {
  parameters: Schema.Struct({ extra: Schema.optionalKey(Schema.String), task: Schema.String }),
  success: Schema.String
})

const toolArguments = Effect.fnUntraced(function* ({ expect }: Case) {
  const received: { [key: string]: ReadonlyArray<string> } = {}
  const toolkit = Toolkit.make(F2, F3)
  const handlers = toolkit.toLayer({
    f2: ({ extra = "d", q }) => Effect.sync(() => ((received["f2 received"] = [q, extra]), "")),
    f3: ({ extra = "d", task }) => Effect.sync(() => ((received["f3 received"] = [extra, task]), ""))
  })
  const plan = yield* Plan.make("plan", [Step.make("f2", { target: "f2", task: "do" }), Step.make("f3", { target: "f3", task: "do" })])
  const bound = yield* Effect.provide(Plan.bind(plan, { toolkit }), handlers)
  yield* Plan.run(bound, "go")
  equal(received, expect)
})

/** Programs, each for the case whose words it carries out. */
const programs: { readonly [id: string]: (golden: Case) => Effect.Effect<void, unknown> } = {
  A25: written(
    Plan.make("plan", [
      Step.make("other", { target: Step.target("fetch", answer) }),
      Step.make("z", { target: Agent.make("searcher", { instructions: "" }) })
    ])
  ),
  A26: written(Plan.make("plan", [Step.make("first", { target: answer }), Step.make("p", { target: answer })])),
  A28: written(Plan.make("plan", [Step.make("a", { target: "a" })])),
  A30: written(guide),
  J18: interrupting,
  J20: nestedPause,
  O01: emptyStore,
  O10: probes,
  O11: cap({ text: Effect.succeed("User: hi\nAssistant: there") }, "memory"),
  O13: cap({ output: Effect.succeed(undefined) }, "agent"),
  O15: toolArguments,
}

/** The program of a case that is described in prose. */
export const programOf = ({ given, id }: Case): ((golden: Case) => Effect.Effect<void, unknown>) | undefined =>
  ["desc", "live plan"].includes(Object.keys(given).join()) && Object.hasOwn(programs, id) ? programs[id] : undefined
