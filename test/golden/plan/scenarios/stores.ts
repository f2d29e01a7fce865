import { assert } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Option, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { VersionedStore } from "effect-emissary"
import { Checkpoint, Plan, PlanRun, Reference, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { equal } from "../../family.ts"
import { agentScript, agentTarget, functionTarget, recording } from "../fixtures.ts"
import type { Case } from "../vocabulary.ts"


const memory = Layer.provideMerge(Checkpoint.layer(), VersionedStore.layerMemory)

const give = (text: string) => () => Effect.succeed(text)

const bind = <R, E>(plan: Effect.Effect<Plan.Plan<unknown, R>, E>) => Effect.flatMap(plan, (made) => Plan.bind(made))

/** A run that is inside its step while another one wants its key. */
const stealing = Effect.fnUntraced(function* ({ expect }: Case) {
  const checkpoint = yield* Checkpoint.Checkpoint
  const inside = yield* Deferred.make<void>()
  const go = yield* Deferred.make<void>()
  const slow = yield* bind(
    Plan.make(
      Step.make("a", {
        target: () => Effect.as(Effect.andThen(Deferred.succeed(inside, undefined), Deferred.await(go)), "1"),
        writes: "w1"
      }),
      Step.make("b", { target: give("y") })
    )
  )
  const original = yield* Effect.forkChild(checkpoint.run(slow, { key: "k", input: "go" }))
  yield* Deferred.await(inside)
  const resumer = yield* Effect.result(checkpoint.resume(slow, { key: "k" }))
  yield* Deferred.succeed(go, undefined)
  const first = yield* Fiber.join(original)
  const inspection = yield* checkpoint.inspect("k")
  const write = yield* checkpoint.read("w1")
  equal(
    {
      resumer: Result.isFailure(resumer) ? resumer.failure.message.includes('"k"') : "y",
      original: first.outcome === "Completed" ? first.text : first.outcome,
      status: Option.getOrThrow(inspection).status,
      w1: Option.getOrThrow(write).value
    },
    expect
  )
}, Effect.provide(memory))

const interrupting = Effect.fnUntraced(function* ({ expect }: Case) {
  const checkpoint = yield* Checkpoint.Checkpoint
  const inside = yield* Deferred.make<void>()
  let sleeps = true
  const member = () =>
    Effect.suspend(() => (sleeps ? Effect.andThen(Deferred.succeed(inside, undefined), Effect.never) : Effect.succeed("F")))
  const plan = yield* bind(
    Plan.make(
      Step.make("a", { target: give("A"), writes: "o" }),
      Step.make("b1", { target: member, parallel: true }),
      Step.make("b2", { target: member, parallel: true })
    )
  )
  const fiber = yield* Effect.forkChild(checkpoint.run(plan, { key: "k", input: "go" }))
  yield* Deferred.await(inside)
  yield* Fiber.interrupt(fiber)
  const state = Option.getOrThrow(yield* checkpoint.load(plan, "k"))
  const { status } = Option.getOrThrow(yield* checkpoint.inspect("k"))
  sleeps = false
  const fresh = yield* checkpoint.run(plan, { key: "k", input: "go" })
  equal(
    {
      outcome: "interrupted",
      checkpoint: {
        next_step: state.cursor ?? null,
        kv: Object.fromEntries(PlanRun.writes(state)),
        completed_steps: PlanRun.history(state).map(({ step }) => step),
        status
      },
      "fresh run on same key": fresh.outcome === "Completed" ? fresh.text : fresh.outcome
    },
    expect
  )
}, Effect.provide(memory))

const nestedPause = Effect.fnUntraced(function* ({ expect }: Case) {
  const checkpoint = yield* Checkpoint.Checkpoint
  const inner = yield* bind(Plan.make(Step.make("a", { target: () => Step.pause("wait") })))
  const outer = yield* bind(Plan.make(Step.make("sub", { target: inner })))
  const result = yield* checkpoint.run(outer, { key: "k", input: "go" })
  assert(result.outcome === "Paused")
  const [pause] = result.pauses
  equal(
    {
      error: {
        type: "PlanPaused",
        message: `Plan paused at step '${pause?.step}': ${pause?.reason}`,
        retryable: true
      },
      "outer checkpoint": { status: Option.getOrThrow(yield* checkpoint.inspect("k")).status, next_step: result.state.cursor }
    },
    expect
  )
}, Effect.provide(memory))

/** Writes reach the store only of a run that is kept: the keys that can be read after one that is. */
const emptyStore = Effect.fnUntraced(function* ({ expect }: Case) {
  const checkpoint = yield* Checkpoint.Checkpoint
  const plan = yield* bind(Plan.make(Step.make("a", { target: give("A"), writes: "w" })))
  yield* checkpoint.run(plan, { key: "k", input: "go" })
  const write = yield* checkpoint.read("w")
  equal({ keys: Option.isSome(write) ? ["w"] : [] }, expect)
}, Effect.provide(memory))

/** A value that is no JSON never gets past its step. */
const opaque = Effect.fnUntraced(function* ({ expect }: Case) {
  const value: unknown = new Map()
  // Sound: it is not; the case is about a function whose types lie.
  const lie = () => Effect.succeed(value as string)
  const plan = yield* bind(Plan.make(Step.make("a", { target: lie, writes: "w" }), Step.make("b", { target: give("") })))
  const checkpoint = yield* Checkpoint.Checkpoint
  const error = yield* Effect.flip(checkpoint.run(plan, { key: "k", input: "go" }))
  assert(error._tag === "PlanError" && error.reason._tag === "StepFailed")
  equal({ result: `RAISES ${error.reason.failure.type}` }, expect)
}, Effect.provide(memory))

const sameKey = Effect.fnUntraced(function* ({ expect }: Case) {
  const checkpoint = yield* Checkpoint.Checkpoint
  const plan = yield* bind(Plan.make(Step.make("a", { target: give("A"), writes: "c" })))
  const result = yield* checkpoint.run(plan, { key: "c", input: "go" })
  equal({ result: result.outcome }, expect)
}, Effect.provide(memory))

const probes = Effect.fnUntraced(function* ({ expect }: Case) {
  const checkpoint = yield* Checkpoint.Checkpoint
  const store = yield* VersionedStore.VersionedStore
  const absent = yield* checkpoint.isCurrent("k", "w")
  yield* store.compareAndSet("plan/head/other", Option.none(), { hello: 1 })
  const foreign = yield* Effect.orElseSucceed(checkpoint.isCurrent("other", "w"), () => false)
  equal({ absent, "no run_uid": foreign }, expect)
}, Effect.provide(memory))

const cap = (memories: Plan.AgentMemory | undefined, reference: "memory" | "agent") =>
  Effect.fnUntraced(function* ({ expect }: Case) {
    const seen = recording()
    const step =
      reference === "memory"
        ? Step.make("cap", { target: agentTarget("cap"), task: "do", context: Reference.fromMemory("x") })
        : // A function: no agent can be given an empty message.
          Step.make("cap", { target: functionTarget("cap", seen, {}), task: Reference.fromAgent("x") })
    const plan = yield* Plan.make(step)
    const bound = yield* Plan.bind(plan, {
      agents: { x: agentTarget("x") },
      memories: memories === undefined ? {} : { x: memories }
    })
    yield* Effect.provide(Plan.run(bound, "go"), ScriptedModel.layer(agentScript(seen, {})))
    equal({ "cap received": seen.trace.map(([, task, context]) => [task, context ?? null]) }, expect)
  })

const F2 = Tool.make("f2", {
  parameters: Schema.Struct({ q: Schema.String, extra: Schema.optionalKey(Schema.String) }),
  success: Schema.String
})
const F3 = Tool.make("f3", {
  parameters: Schema.Struct({ extra: Schema.optionalKey(Schema.String), task: Schema.String }),
  success: Schema.String
})
const F0 = Tool.make("f0", { success: Schema.String })

const toolArguments = Effect.fnUntraced(function* ({ expect }: Case) {
  const received: { [key: string]: ReadonlyArray<string> } = {}
  const toolkit = Toolkit.make(F2, F3)
  const handlers = toolkit.toLayer({
    f2: ({ extra = "d", q }) => Effect.sync(() => ((received["f2 received"] = [q, extra]), "")),
    f3: ({ extra = "d", task }) => Effect.sync(() => ((received["f3 received"] = [extra, task]), ""))
  })
  const plan = yield* Plan.make(Step.make("f2", { target: "f2", task: "do" }), Step.make("f3", { target: "f3", task: "do" }))
  const bound = yield* Effect.provide(Plan.bind(plan, { toolkit }), handlers)
  yield* Plan.run(bound, "go")
  equal(received, expect)
})

const noParameters = Effect.fnUntraced(function* ({ expect }: Case) {
  const toolkit = Toolkit.make(F0)
  const plan = yield* Plan.make(Step.make("f0", { target: "f0" }))
  const bound = yield* Effect.result(
    Effect.provide(Plan.bind(plan, { toolkit }), toolkit.toLayer({ f0: () => Effect.succeed("") }))
  )
  assert(Result.isFailure(bound))
  equal({ error: { type: bound.failure._tag } }, expect)
})


export const scenarios = {
  J16: stealing,
  J18: interrupting,
  J20: nestedPause,
  O01: emptyStore,
  O05: opaque,
  O06: opaque,
  O08: sameKey,
  O10: probes,
  O11: cap(Plan.makeMemory({ text: Effect.succeed("User: hi\nAssistant: there") }), "memory"),
  O13: cap(Plan.makeMemory({ output: Effect.succeed(undefined) }), "agent"),
  O15: toolArguments,
  O16: noParameters
}
