/** RIGHT-17: what a step of a plan asks is what its digest covers, in lists of events and in stored states. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Option, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run, VersionedStore } from "effect-emissary"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import { journal, planOf } from "./support.ts"

const Send = Tool.make("send", {
  parameters: Schema.Struct({ input: Schema.String }),
  success: Schema.String,
  needsApproval: true
})
const toolkit = Toolkit.make(Send)
const handlers = toolkit.toLayer({ send: () => Effect.succeed("sent") })

const asking = Effect.flatMap(Plan.make("asking", [Step.make("mail", { target: "send" })]), (plan) =>
  Plan.bind(plan, { toolkit })
)
const pausing = planOf([Step.make("gate", { target: () => Step.pause("three euros") })], { name: "pausing" })
const outer = Effect.flatMap(asking, (inner) => planOf([Step.make("inner", { target: inner })], { name: "outer" }))

const edits = {
  "an added word": (text: string) => text.replace(/("_tag":"StepPaused".*?)three euros/, "$1three euros, harmless"),
  "another text": (text: string) => text.replaceAll("three euros", "nothing"),
  "another digest": (text: string) => text.replace(/("_tag":"StepPaused".*?"digest":")./, "$1_")
}

describe("RIGHT-17 L13 an edited question of a step is not read under the honest digest", () => {
  for (const [name, plan] of Object.entries({ asking, pausing, outer })) {
    test(`RIGHT-17 in a list of events, and in a state: ${name}`, handlers, function* () {
      const bound = yield* plan
      const kept = journal()
      const result = yield* Plan.run(bound, "three euros", { journal: kept.write })
      assert.strictEqual(result.outcome, "Paused")
      const text = yield* PlanRun.eventsCodec.encodeJson(kept.batches.flat())
      const honest = Result.getOrThrow(PlanRun.fold(yield* PlanRun.eventsCodec.decodeJson(text)))
      assert.strictEqual(honest.outcome?._tag, "Paused")
      for (const [what, edit] of Object.entries(edits)) {
        assert.notStrictEqual(edit(text), text)
        const error = Result.getOrThrow(Result.flip(PlanRun.fold(yield* PlanRun.eventsCodec.decodeJson(edit(text)))))
        assert.match(error.message, /expected the digest of the request as it is shown/, what)
      }
      const state = yield* PlanRun.stateCodec.encodeJson(result.state)
      assert.deepStrictEqual(yield* PlanRun.stateCodec.decodeJson(state), result.state)
      const edited = state.replace(/("question":.*?)three euros/, "$1nothing")
      assert.notStrictEqual(edited, state)
      const error = yield* Effect.flip(PlanRun.stateCodec.decodeJson(edited))
      assert.match(error.message, /digest of the request of the step "(mail|gate)" as it is shown/)
    })
  }
})

const clerk = Agent.make("clerk", { toolkit })
const model = ScriptedModel.layer(({ prompt }) =>
  prompt.content.at(-1)?.role === "tool"
    ? { text: "done" }
    : { toolCalls: [{ name: "send", params: { input: "three euros" } }] }
)
const withAgent = planOf([Step.make("ask", { target: clerk })], { name: "with-agent" })
const together = Effect.all([asking, withAgent]).pipe(
  Effect.flatMap(([inner, other]) =>
    planOf(
      [
        Step.make("inner", { target: inner, parallel: true }),
        Step.make("other", { target: other, parallel: true }),
        Step.make("gate", { target: () => Step.pause("three euros"), parallel: true })
      ],
      { name: "together" }
    )
  )
)

/** Edits of the requests that the end of a plan, or of the run around it, repeats. The events in which they were asked are honest. */
const repeated = {
  "an added word at the end of the plan": (text: string) =>
    text.replace(/("_tag":"PlanFinished".*?three euros)/, "$1, harmless"),
  "another digest at the end of the plan": (text: string) =>
    text.replace(/("_tag":"PlanFinished".*?"digest":"sha256:)./, "$1_"),
  "another name at the end of the plan": (text: string) =>
    text.replace(/("_tag":"PlanFinished".*?"(?:name|step)":")./, "$1_"),
  "an added word at the end of the run": (text: string) =>
    text.replace(/("_tag":"RunFinished".*?three euros)/, "$1, harmless")
}

describe("RIGHT-17 L13 what the end of a plan shows is what its steps asked", () => {
  for (const [name, plan] of Object.entries({ asking, pausing, outer, withAgent, together })) {
    const world = Layer.merge(handlers, model)

    test(`RIGHT-17 in a list of events of a run, and in its state: ${name}`, world, function* () {
      const bound = yield* plan
      const events: Array<Run.Event> = []
      const { state } = yield* endsAs(
        "AwaitingApproval",
        bound.run("three euros", { onEvent: ({ event }) => Effect.sync(() => void events.push(event)) })
      )
      const text = yield* Run.eventsCodec.encodeJson(events)
      assert.isTrue(Result.isSuccess(Run.fold(yield* Run.eventsCodec.decodeJson(text))))
      for (const [what, edit] of Object.entries(repeated)) {
        assert.notStrictEqual(edit(text), text)
        const folded = Run.fold(yield* Run.eventsCodec.decodeJson(edit(text)))
        assert(Result.isFailure(folded), what)
        assert.match(
          folded.failure.message,
          /expected the requests as (they were asked|the steps of the plan asked them)/
        )
      }
      const kept = yield* Run.stateCodec.encodeJson(state)
      assert.deepStrictEqual(yield* Run.stateCodec.decodeJson(kept), state)
      const edits = [
        kept.replace(/("outcome":\{"_tag":"Paused".*?three euros)/, "$1, harmless"),
        kept.replace(/("outcome":\{"_tag":"AwaitingApproval".*?three euros)/, "$1, harmless"),
        kept.replace(/("(?:question":|status":\{"_tag":"AwaitingApproval").*?three euros)/, "$1, harmless")
      ]
      for (const edited of edits) {
        assert.notStrictEqual(edited, kept)
        const error = yield* Effect.flip(Run.stateCodec.decodeJson(edited))
        assert.match(error.message, /expected the requests as they were asked|digest of the request/)
      }
    })

    test(`RIGHT-17 in a stored session: ${name}`, world, function* () {
      const bound = yield* plan
      for (const [what, edit] of Object.entries(repeated)) {
        const store = yield* Effect.provide(VersionedStore.VersionedStore, Layer.fresh(VersionedStore.layerMemory))
        const sessions = Session.layer([bound]).pipe(
          Layer.provide(Layer.succeed(VersionedStore.VersionedStore, store)),
          Layer.fresh
        )
        const asked = yield* Effect.provide(Session.turn("s", "three euros"), sessions)
        assert.strictEqual(asked.outcome, "AwaitingApproval")
        let edited = 0
        for (const key of (yield* store.list({ limit: 1000 })).keys) {
          const { value, version } = Option.getOrThrow(yield* store.get(key))
          const text = JSON.stringify(value)
          if (edit(text) === text) continue
          edited += 1
          yield* store.compareAndSet(key, Option.some(version), JSON.parse(edit(text)))
        }
        assert.isAbove(edited, 0, what)
        const shown = Effect.flatMap(Session.Session, (service) => service.state("s"))
        const error = yield* Effect.flip(Effect.provide(shown, sessions))
        assert.strictEqual(error.reason._tag, "Damaged", what)
      }
    })
  }
})
