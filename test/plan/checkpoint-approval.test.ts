import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Ref, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Checkpoint, Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { join } from "node:path"
import { makeDirectory } from "../conversation/store/directory.ts"
import { fails } from "./checkpoints.ts"

const directory = makeDirectory()

const toolkit = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
)
const cashier = Agent.make("cashier", { toolkit })

/** The process before the restart, and the one after it. */
const process = (name: string) =>
  Checkpoint.layer().pipe(
    Layer.provide(SqliteClient.layerStore({ filename: join(directory, `${name}.sqlite`) })),
    Layer.fresh
  )

/** No result of a step is asked for twice, and an approved call is done once. */
const scenario = (name: string, isNested: boolean) =>
  Effect.gen(function* () {
    const paid = yield* Ref.make<ReadonlyArray<number>>([])
    const checked = yield* Ref.make(0)
    const handlers = toolkit.toLayer({ pay: ({ amount }) => Ref.update(paid, (all) => [...all, amount]) })
    const inner = yield* Effect.flatMap(
      Plan.make({ name: "payment" }, Step.make("cashier", { target: cashier, writes: "receipt" })),
      (plan) => Plan.bind(plan)
    )
    const plan = yield* Plan.make(
      Step.make("check", {
        target: () =>
          Effect.as(
            Ref.update(checked, (n) => n + 1),
            "checked"
          )
      }),
      isNested ? Step.make("payment", { target: inner }) : Step.make("payment", { target: cashier }),
      Step.make("thank", { target: ({ task }) => Effect.succeed(`${task} Thank you.`), writes: "last" })
    )
    const bound = yield* Plan.bind(plan)

    const requests = yield* Effect.gen(function* () {
      const checkpoint = yield* Checkpoint.Checkpoint
      const paused = yield* checkpoint.run(bound, { key: "order", input: "Pay 5 euros" })
      assert.strictEqual(paused.outcome, "Paused")
      assert.strictEqual(Option.getOrThrow(yield* checkpoint.inspect("order")).status, "paused")
      return paused.outcome === "Paused" ? paused.requests : []
    }).pipe(
      Effect.provide([
        process(name),
        handlers,
        ScriptedModel.layer([{ toolCalls: [{ name: "pay", params: { amount: 5 } }] }])
      ])
    )
    assert.strictEqual(requests.length, 1)

    yield* Effect.gen(function* () {
      const checkpoint = yield* Checkpoint.Checkpoint
      const wrong = checkpoint.resume(bound, { key: "order", decisions: [{ callId: "nobody", approved: true }] })
      assert.strictEqual(yield* fails(wrong), "PlanError InvalidDecision")
      const decisions = requests.map(({ callId }) => ({ callId, approved: true }))
      const result = yield* checkpoint.resume(bound, { key: "order", decisions })
      assert.strictEqual(result.outcome === "Completed" ? result.output : "", "Paid. Thank you.")
      assert.deepStrictEqual(yield* checkpoint.resume(bound, { key: "order" }), result)
      assert.isTrue(yield* checkpoint.isCurrent("order", "last"))
      // Plans inside a plan keep their values to themselves
      assert.deepStrictEqual(yield* checkpoint.read("receipt"), Option.none())
    }).pipe(Effect.provide([process(name), handlers, ScriptedModel.layer([{ text: "Paid." }])]))
    assert.deepStrictEqual(yield* Ref.get(paid), [5])
    assert.strictEqual(yield* Ref.get(checked), 1)
  })

describe("PLAN-6 PLAN-8 an approval that waits survives the process", () => {
  it.live("of an agent in a step", () => scenario("agent", false))
  it.live("of an agent in a plan in a step", () => scenario("nested", true))
})
