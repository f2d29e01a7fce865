// letta-ai/letta#3176 (2026-02), letta-ai/lettabot#180, mastra-ai/mastra#20592 (2026-08): a run that waits for an approval is cancelled, and the
// conversation takes no message any more, because the request is still pending.
// Right: interrupt settles the calls as denied; the next message is answered; a late decision is refused; the tool never ran; readers see no request that waits.
import { Effect, Layer, Schema, Option } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, Run, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { same } from "../harness/keep.mjs"

const Tools = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.String, needsApproval: true })
)
let ran = 0
const agent = Agent.make("a", { toolkit: Tools })
const requests = []
const Sessions = Session.layer([agent]).pipe(
  Layer.provide([
    VersionedStore.layerMemory,
    Tools.toLayer({
      pay: () =>
        Effect.sync(() => {
          ran++
          return "paid"
        })
    }),
    ScriptedModel.layer((r) => {
      requests.push(r)
      return r.messages.at(-1).text === "pay"
        ? {
            toolCalls: [
              { name: "pay", params: { n: 1 } },
              { name: "pay", params: { n: 2 } }
            ]
          }
        : { text: "hello" }
    })
  ])
)
export default Effect.gen(function* () {
  const sessions = yield* Session.Session
  const asked = yield* Session.turn("s", "pay")
  same("waits", asked.outcome, "AwaitingApproval")
  const { requests: waiting } = Option.getOrThrow(yield* sessions.state("s"))
  same("interrupt", (yield* sessions.interrupt("s")).isInterrupted, true)
  const state = Option.getOrThrow(yield* sessions.state("s"))
  same("nothing waits", [state.requests.length, state.status], [0, "idle"])
  const late = yield* Effect.flip(sessions.decide("s", waiting.filter(Run.isApprovable).map(Run.approve)))
  same("late decision", [late.reason._tag, late.category], ["InvalidDecision", "conflict"])
  const next = yield* Session.turn("s", "hi")
  same("next", next.text, "hello")
  same("ran", ran, 0)
  const types = Conversation.transcript(yield* sessions.history("s"))
    .filter((l) => l.role === "tool")
    .map((l) => l.type)
  same("results", types, ["denied", "denied"])
  same(
    "both calls have a result in the request",
    requests.at(-1).messages.flatMap((m) => (m.toolResults ?? []).map((t) => t.id)).length,
    2
  )
}).pipe(Effect.provide(Sessions))
