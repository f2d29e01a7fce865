import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Option, Ref, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, type Run } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Checkpoint, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { join } from "node:path"
import { makeDirectory } from "../store/directory.ts"
import { fails } from "./checkpoints.ts"
import { completed, planOf } from "./support.ts"
import { test } from "../test.ts"
import { decision, digestOf } from "../decisions.ts"

const directory = makeDirectory()

const toolkit = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
)
const cashier = Agent.make("cashier", { toolkit })

const pays = { toolCalls: [{ name: "pay", params: { amount: 5 } }] }

/** Handlers that note payments, and processes that share one file. */
const shop = Effect.fnUntraced(function* (name: string) {
  const paid = yield* Ref.make<ReadonlyArray<number>>([])
  const handlers = toolkit.toLayer({ pay: ({ amount }) => Ref.update(paid, (all) => [...all, amount]) })
  const filename = join(directory, `${name}.sqlite`)
  const process = (...turns: ReadonlyArray<ScriptedModel.Turn>) =>
    Effect.provide([
      Layer.fresh(Layer.provide(Checkpoint.layer(), SqliteClient.layerStore({ filename }))),
      handlers,
      ScriptedModel.layer(turns)
    ])
  return { paid: Ref.get(paid), process }
})

const approved = (requests: ReadonlyArray<Run.ApprovalRequest>) =>
  requests.map((request) => ({ ...request, approved: true }))

describe("PLAN-6 PLAN-8 an approval that waits survives the process", () => {
  test.live("of an agent in a plan in a step; no result of a step is asked for twice", function* () {
    const { paid, process } = yield* shop("plan")
    let checked = 0
    const inner = yield* planOf({ name: "payment" }, Step.make("cashier", { target: cashier, writes: "receipt" }))
    const bound = yield* planOf(
      Step.make("check", { target: () => Effect.sync(() => `checked ${++checked}`) }),
      Step.make("payment", { target: inner }),
      Step.make("thank", { target: ({ task }) => Effect.succeed(`${task} Thank you.`), writes: "last" })
    )
    const requests = yield* Effect.gen(function* () {
      const checkpoint = yield* Checkpoint.Checkpoint
      const paused = yield* checkpoint.run(bound, { key: "order", input: "Pay 5 euros" })
      assert(paused.outcome === "Paused")
      assert.strictEqual(Option.getOrThrow(yield* checkpoint.inspect("order")).status, "paused")
      return paused.requests
    }).pipe(process(pays))
    assert.strictEqual(requests.length, 1)

    yield* Effect.gen(function* () {
      const checkpoint = yield* Checkpoint.Checkpoint
      const edited = approved(requests).map((decision) => ({ ...decision, digest: digestOf("another") }))
      for (const decisions of [[decision("nobody")], edited]) {
        const wrong = checkpoint.resume(bound, { key: "order", decisions })
        assert.strictEqual(yield* fails(wrong), "PlanError InvalidDecision")
      }
      const result = yield* checkpoint.resume(bound, { key: "order", decisions: approved(requests) })
      assert.strictEqual(completed(result).output, "Paid. Thank you.")
      for (const decisions of [[], approved(requests)]) {
        assert.deepStrictEqual(yield* checkpoint.resume(bound, { key: "order", decisions }), result)
      }
      assert.isTrue(yield* checkpoint.isCurrent("order", "last"))
      // Plans inside a plan keep their values to themselves
      assert.deepStrictEqual(yield* checkpoint.read("receipt"), Option.none())
    }).pipe(process({ text: "Paid." }))
    assert.deepStrictEqual(yield* paid, [5])
    assert.strictEqual(checked, 1)
  })
})
