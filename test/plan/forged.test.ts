/** RIGHT-17: what a step of a plan asks is what its digest covers, in lists of events and in stored states. */
import { assert, describe } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { test } from "../test.ts"
import { journal, planOf } from "./support.ts"

const Send = Tool.make("send", {
  parameters: Schema.Struct({ input: Schema.String }),
  success: Schema.String,
  needsApproval: true
})
const toolkit = Toolkit.make(Send)
const handlers = toolkit.toLayer({ send: () => Effect.succeed("sent") })

const asking = Effect.flatMap(Plan.make({ name: "asking" }, Step.make("mail", { target: "send" })), (plan) =>
  Plan.bind(plan, { toolkit })
)
const pausing = planOf({ name: "pausing" }, Step.make("gate", { target: () => Step.pause("three euros") }))
const outer = Effect.flatMap(asking, (inner) => planOf({ name: "outer" }, Step.make("inner", { target: inner })))

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
      const honest = yield* Plan.fold(bound, yield* PlanRun.eventsCodec.decodeJson(text))
      assert.strictEqual(honest.outcome?._tag, "Paused")
      for (const [what, edit] of Object.entries(edits)) {
        assert.notStrictEqual(edit(text), text)
        const error = yield* Effect.flip(Plan.fold(bound, yield* PlanRun.eventsCodec.decodeJson(edit(text))))
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
