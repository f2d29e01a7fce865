/** MONEY-2: budgets of keys, for all runs over a store. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { TestClock } from "effect/testing"
import { Agent, ModelPrices, VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Session, SharedBudgets } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as t from "./sessions.ts"

const agent = Agent.make("desk", {})
const usage = { inputTokens: 100, outputTokens: 10 }

const script: ScriptedModel.TurnFunction = (request) =>
  t.asked(request) === "slow" ? { text: "Late.", delay: "1 hour", usage } : { text: "re", usage }

const budgets = SharedBudgets.layer(({ context }) => [
  { key: `tenant/${String(context["tenant"])}`, modelCalls: 3, outputTokens: 10_000, money: 1 }
])

const stores = [
  ["memory", VersionedStore.layerMemory],
  ["SQLite", Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))]
] as const

const world = (store: Layer.Layer<VersionedStore.VersionedStore>) =>
  Session.layer([agent]).pipe(
    Layer.provide([budgets, ScriptedModel.layer(script), ModelPrices.layer({ "*": { input: 1, output: 10 } })]),
    Layer.provideMerge(store)
  )

describe.each(stores)("MONEY-2 shared budgets, %s", (_, store) => {
  it.live("sessions at the same time share the budget of a key, and other keys have their own", () =>
    Effect.gen(function* () {
      const turn = (id: string, tenant: string) =>
        Effect.map(Session.turn(id, "hi", { context: { tenant } }), ({ outcome }) => outcome)
      const ids = ["a", "b", "c", "d", "e"]
      const outcomes = yield* Effect.forEach(ids, (id) => turn(id, "acme"), { concurrency: "unbounded" })
      const done = outcomes.filter((tag) => tag === "Completed").length
      assert.strictEqual(done, 3)
      assert.strictEqual(outcomes.filter((tag) => tag === "BudgetExceeded").length, 2)
      const used = yield* SharedBudgets.used("tenant/acme")
      assert.deepStrictEqual(used, {
        modelCalls: done,
        inputTokens: 100 * done,
        outputTokens: 10 * done,
        micros: 200 * done
      })
      assert.strictEqual(yield* turn("f", "other"), "Completed")
    }).pipe(Effect.provide(world(store)), Effect.timeout("20 seconds"))
  )
})

describe("MONEY-2 reservations of a key", () => {
  it.effect("a call that is interrupted before it answers is refunded, one of a process that died is not", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      yield* sessions.send("a", "slow", { context: { tenant: "acme" } })
      yield* Effect.repeat(Effect.yieldNow, { times: 2000 })
      assert.deepStrictEqual(yield* SharedBudgets.used("tenant/acme"), {}, "it is reserved")
      yield* sessions.interrupt("a")
      assert.deepStrictEqual(yield* SharedBudgets.used("tenant/acme"), { modelCalls: 1 })
      yield* TestClock.adjust("20 minutes")
      assert.deepStrictEqual(yield* SharedBudgets.used("tenant/acme"), { modelCalls: 1 }, "nothing is held")
      yield* sessions.send("b", "slow", { context: { tenant: "acme" } })
      yield* Effect.repeat(Effect.yieldNow, { times: 2000 })
      yield* TestClock.adjust("11 minutes")
      const { outputTokens } = yield* SharedBudgets.used("tenant/acme")
      assert.strictEqual(outputTokens, 4096)
      assert.isTrue(Option.isSome(yield* sessions.state("b")))
    }).pipe(Effect.provide(world(VersionedStore.layerMemory)))
  )
})
