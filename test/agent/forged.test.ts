/** RIGHT-17: what is shown is what the digest covers, in stored sessions and in lists of events, too. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Option, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"

const ran: Array<unknown> = []
const parameters = Schema.Struct({ to: Schema.String, amount: Schema.Finite })
const Pay = Toolkit.make(Tool.make("pay", { parameters, success: Schema.String, needsApproval: true }))
const clerk = Agent.make("clerk", { toolkit: Pay })
const boss = Agent.make("boss", { toolkit: [Agent.asTool(clerk, { name: "ask", description: "Asks the clerk" })] })
const model = ScriptedModel.layer(({ prompt, tools }) => {
  if (prompt.content.at(-1)?.role === "tool") return { text: "done" }
  const isClerk = tools.some(({ name }) => name === "pay")
  return {
    toolCalls: [isClerk ? { name: "pay", params: { to: "ada", amount: 3 } } : { name: "ask", params: { input: "pay" } }]
  }
})
const world = Layer.merge(Pay.toLayer({ pay: (args) => Effect.sync(() => (ran.push(args), "paid")) }), model)

/** Edits of the stored request. */
const edits = {
  "an added word": (text: string) => text.replace(/("_tag":"ApprovalRequested".*?"amount":3)/, '$1,"note":"harmless"'),
  "another amount": (text: string) => text.replace(/("_tag":"ApprovalRequested".*?)"amount":3/, '$1"amount":3000')
}

describe("RIGHT-17 L13 an edited request is not shown under the honest digest", () => {
  for (const agent of [clerk, boss]) {
    for (const [what, edit] of Object.entries(edits)) {
      test(`RIGHT-17 ${what}, in a list of events of ${agent.name}`, world, function* () {
        ran.length = 0
        const events: Array<Run.Event> = []
        yield* endsAs(
          "AwaitingApproval",
          agent.run("pay", { onEvent: ({ event }) => Effect.sync(() => void events.push(event)) })
        )
        const text = yield* Run.eventsCodec.encodeJson(events)
        assert.isTrue(Result.isSuccess(Run.fold(yield* Run.eventsCodec.decodeJson(text))))
        assert.notStrictEqual(edit(text), text)
        const folded = Run.fold(yield* Run.eventsCodec.decodeJson(edit(text)))
        assert(Result.isFailure(folded))
        assert.match(folded.failure.message, /expected the digest of the request as it is shown/)
      })

      test(`RIGHT-17 ${what}, in a stored session of ${agent.name}`, function* () {
        ran.length = 0
        const store = yield* Effect.provide(VersionedStore.VersionedStore, Layer.fresh(VersionedStore.layerMemory))
        const sessions = Session.layer([agent]).pipe(
          Layer.provide([Layer.succeed(VersionedStore.VersionedStore, store), world])
        )
        yield* Effect.provide(Session.turn("s", "pay"), Layer.fresh(sessions))
        const { keys } = yield* store.list({ limit: 1000 })
        let edited = 0
        for (const key of keys) {
          const { value, version } = Option.getOrThrow(yield* store.get(key))
          const text = JSON.stringify(value)
          if (edit(text) === text) continue
          edited += 1
          yield* store.compareAndSet(key, Option.some(version), JSON.parse(edit(text)))
        }
        assert.strictEqual(edited, 1)
        yield* Effect.gen(function* () {
          const error = yield* Effect.flip((yield* Session.Session).state("s"))
          assert.strictEqual(error.reason._tag, "Damaged")
          assert.deepStrictEqual(ran, [])
        }).pipe(Effect.provide(Layer.fresh(sessions)))
      })
    }
  }
})
