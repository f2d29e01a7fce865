/**
 * Budgets of keys of your own, such as a tenant or a user, for all runs of all processes over a store.
 *
 * **When to use**
 *
 * Use it beside the budgets of runs and sessions, see `Budget`, for what many of them may use together. A key with a date in it is a budget of a
 * day or a month: `tenant/acme/2026-11`.
 *
 * **Details**
 *
 * A model call reserves its estimate in the record of each of its keys before it starts, by a write that succeeds only if no other process has
 * written meanwhile, so that processes do not cross a limit together. When the call ends, its use takes the place of the reservation. If a process
 * dies in between, the reservation counts as used in full once `holdTime` is over, because the call may have been paid; until then it is
 * reserved. If the store fails, no call starts: the run fails with `ModelRegistryFailed`, which can be tried again. Runs inside a
 * workflow of `effect/workflow` have no such budgets.
 *
 * A call that is refused ends its run as `BudgetExceeded` with the key as `scope`.
 *
 * **Example** (A budget of each tenant)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Agent, VersionedStore } from "effect-emissary"
 * import { Session, SharedBudgets } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const support = Agent.make("support", { instructions: "Answer shortly." })
 *
 * const program = Effect.gen(function*() {
 *   const context = { tenant: "acme" }
 *   const first = yield* Session.turn("chat/1", "Hello", { context })
 *   const second = yield* Session.turn("chat/2", "Hello", { context })
 *   return { first, second, used: yield* SharedBudgets.used("tenant/acme") }
 * })
 *
 * const budgets = SharedBudgets.layer(({ context }) => [{ key: `tenant/${String(context["tenant"])}`, modelCalls: 1 }])
 *
 * const { first, second, used } = await program.pipe(
 *   Effect.provide(Session.layer([support]).pipe(
 *     Layer.provide(budgets),
 *     Layer.provide(ScriptedModel.layer([{ text: "Hi.", usage: { inputTokens: 20, outputTokens: 2 } }])),
 *     Layer.provideMerge(VersionedStore.layerMemory)
 *   )),
 *   Effect.runPromise
 * )
 * assert.strictEqual(first.text, "Hi.")
 * assert(second.outcome === "BudgetExceeded")
 * assert.strictEqual(second.scope, "tenant/acme")
 * assert.deepStrictEqual(used, { modelCalls: 1, inputTokens: 20, outputTokens: 2 })
 * ```
 *
 * @since 0.1.0
 */

import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as sharedBudgets from "../agent/internal/sharedBudgets.ts"
import type { JsonObject } from "../payload/Json.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as ledger from "../run/internal/ledger.ts"
import * as runParts from "../run/internal/runParts.ts"
import * as documents from "../store/internal/documents.ts"
import * as storeKeys from "../store/internal/storeKeys.ts"
import * as VersionedStore from "../store/VersionedStore.ts"

/**
 * The budget of a key. Calls of tools and time are limited by the budgets of runs and sessions.
 *
 * @category models
 * @since 0.1.0
 */
export interface SharedBudget extends Omit<ledger.Budget, "toolCalls" | "time"> {
  /** The key, which is the `scope` of the limit in `BudgetExceeded`. All runs with this key share the budget. */
  readonly key: string
}

/**
 * A run that asks for the budgets that hold for it.
 *
 * @category models
 * @since 0.1.0
 */
export interface About {
  /** The name of the agent. */
  readonly agent: string
  /** The `RunContext` of the run. */
  readonly context: JsonObject
}

/**
 * Options of {@link layer}.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** The first part of the keys in the `VersionedStore`; default `"budget"`. */
  readonly namespace?: string | undefined
  /** The time after which the reservation of a process that died counts as used; default 10 minutes. It is longer than any model call. */
  readonly holdTime?: Duration.Input | undefined
}

const Stored = Schema.Struct({
  used: ledger.Amounts,
  holds: Schema.Array(Schema.Struct({ id: Schema.String, reserved: ledger.Amounts, until: runParts.Time }))
})

type Stored = typeof Stored.Type

const codec = VersionedCodec.single({ what: "shared budget", value: Stored, header: { kind: "budget" } })

const none: Stored = { used: {}, holds: [] }

/** The record at a time: a reservation that was not settled in time is used. */
const at = ({ holds, used }: Stored, now: DateTime.Utc): Stored => {
  const isOver = ({ until }: Stored["holds"][number]) => DateTime.isLessThanOrEqualTo(until, now)
  return {
    used: holds.filter(isOver).reduce((sum, { reserved }) => ledger.add(sum, reserved), used),
    holds: holds.filter((one) => !isOver(one))
  }
}

const recordsOf = (store: VersionedStore.Service, namespace: string) => {
  const values = documents.of(store)
  const storedAs = (key: string) => `${storeKeys.rootKey(namespace)}${key}`
  /** Changes a record, again where another process came between. */
  const change = <A>(key: string, f: (stored: Stored) => readonly [A, Stored | undefined]) =>
    Effect.gen(function* () {
      const found = yield* values.get(codec, storedAs(key))
      const before = Option.match(found, { onNone: () => none, onSome: ({ value }) => value })
      const [result, after] = f(at(before, yield* DateTime.now))
      if (after === undefined) return result
      yield* values.set(
        codec,
        storedAs(key),
        Option.map(found, ({ version }) => version),
        after
      )
      return result
    }).pipe(
      Effect.retry({ while: ({ _tag }) => _tag === "VersionConflict" }),
      Effect.catchTag("VersionConflict", Effect.die)
    )
  return { change, read: (key: string) => change(key, (stored) => [stored.used, undefined]) }
}

const unreadable = (key: string, reason: documents.Reason) => ({
  message: `the budget of the key ${JSON.stringify(key)} cannot be reserved: ${documents.renderReason(reason)}`
})

const make = (
  store: VersionedStore.Service,
  budgetsOf: (about: About) => ReadonlyArray<SharedBudget>,
  { holdTime = "10 minutes", namespace = "budget" }: Options
): sharedBudgets.Service => {
  const records = recordsOf(store, namespace)
  const settle: sharedBudgets.Service["settle"] = ({ id, keys }, used) =>
    Effect.forEach(
      keys,
      (key) =>
        Effect.catch(
          records.change(key, (stored) => {
            const holds = stored.holds.filter((one) => one.id !== id)
            // It was settled, or its time was over
            if (holds.length === stored.holds.length) return [undefined, undefined]
            return [undefined, { used: ledger.add(stored.used, used), holds }]
          }),
          (reason) => Effect.logWarning(`${unreadable(key, reason).message}. The reservation counts as used later`)
        ),
      { discard: true }
    )
  return {
    reserve: Effect.fnUntraced(function* (about, estimate) {
      const id = yield* storeKeys.nonce
      const until = DateTime.addDuration(yield* DateTime.now, Duration.fromInputUnsafe(holdTime))
      let { outputTokens } = estimate
      let reserved: ledger.Amounts | undefined
      const keys: Array<string> = []
      let limitsAnswers = false
      for (const { key, ...budget } of budgetsOf(about)) {
        const limits = ledger.limitsOf(budget)
        if (limits === undefined) {
          return yield* Effect.fail({
            message: `expected as budget of the key ${JSON.stringify(key)} ${ledger.expected}`
          })
        }
        if (limits.micros !== undefined && estimate.price === undefined) {
          return yield* Effect.fail({ message: "its budget has money, and ModelPrices has no price of the model" })
        }
        const asked = { ...estimate, outputTokens }
        const found = yield* Effect.mapError(
          records.change<Result.Result<ledger.Amounts, ledger.Usage>>(key, (stored) => {
            const account = ledger.open(undefined, [{ scope: key, limits }])
            const held = stored.holds.reduce((sum, one) => ledger.add(sum, one.reserved), {})
            const fits = ledger.reserve(ledger.usages(ledger.charge(account, stored.used), held), asked)
            if (Result.isFailure(fits)) return [fits, undefined]
            const hold = { id, reserved: { ...fits.success, modelCalls: 1 }, until }
            return [fits, { ...stored, holds: [...stored.holds, hold] }]
          }),
          (reason) => unreadable(key, reason)
        )
        if (Result.isFailure(found)) {
          yield* settle({ id, keys, reserved: {}, limitsAnswers }, {})
          return Result.fail(found.failure)
        }
        keys.push(key)
        limitsAnswers ||= ledger.limitsAnswers(ledger.usages(ledger.open(undefined, [{ scope: key, limits }])))
        reserved = found.success
        outputTokens = reserved.outputTokens ?? outputTokens
      }
      return Result.succeed(reserved && { id, keys, reserved, limitsAnswers })
    }),
    settle
  }
}

/**
 * Runs below this layer share the budgets that `budgetsOf` has for them. It goes below the layer of the sessions or agents, over a
 * `VersionedStore`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  budgetsOf: (about: About) => ReadonlyArray<SharedBudget>,
  options: Options = {}
): Layer.Layer<never, never, VersionedStore.VersionedStore> =>
  Layer.effect(
    sharedBudgets.SharedBudgets,
    Effect.map(VersionedStore.VersionedStore, (store) => make(store, budgetsOf, options))
  )

/**
 * The use of a key, without what is reserved. Fails where its record cannot be read.
 *
 * @category getters
 * @since 0.1.0
 */
export const used = (
  key: string,
  { namespace = "budget" }: Pick<Options, "namespace"> = {}
): Effect.Effect<ledger.Amounts, { readonly message: string }, VersionedStore.VersionedStore> =>
  Effect.flatMap(VersionedStore.VersionedStore, (store) =>
    Effect.mapError(recordsOf(store, namespace).read(key), (reason) => unreadable(key, reason))
  )
