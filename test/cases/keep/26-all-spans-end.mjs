// mastra-ai/mastra#22972 and #22392 (2026-08, 2026-09): an aborted or suspended run ends its outer span only; those of the step and of the model stay open, and
// exporters keep the whole trace in memory. Right: each span that began ends, for a run that is interrupted while the model writes, while a tool runs, in a
// sub-agent, that waits for an approval, that fails, whose stream is not read to its end, and for a session that is interrupted.
import { Effect, Fiber, Layer, Schema, Stream, Tracer } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, VersionedStore } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { same, holds } from "../harness/keep.mjs"

let open
let names
class Noted extends Tracer.NativeSpan {
  constructor(options) {
    super(options)
    open.add(this)
    names.push(this.name)
  }
  end(time, exit) {
    super.end(time, exit)
    open.delete(this)
  }
}
const tracer = Tracer.make({ span: (options) => new Noted(options) })
const Tools = Toolkit.make(
  Tool.make("hang", { parameters: Schema.Struct({}), success: Schema.String }),
  Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String, needsApproval: true })
)
const Live = Tools.toLayer({ hang: () => Effect.never, pay: () => Effect.succeed("p") })
const script = (r) => {
  const text = r.messages.findLast((m) => m.role === "user")?.text ?? ""
  if (text.includes("slow")) return { text: "abc".repeat(200), chunkDelay: 20 }
  if (text.includes("fail")) return { fail: { reason: "ContentPolicyError" } }
  if (text.includes("cut")) return { text: "abc", fail: { reason: "NetworkError" } }
  if (r.messages.at(-1).role === "tool") return { text: "end" }
  if (text.includes("inner") && r.tools.some((t) => t.name === "ask"))
    return { toolCalls: [{ name: "ask", params: { input: text.replace("inner ", "") } }] }
  return { toolCalls: [{ name: text.includes("pay") ? "pay" : "hang", params: {} }] }
}
const inner = Agent.make("inner", { toolkit: Tools })
const agent = Agent.make("a", {
  toolkit: [...Object.values(Tools.tools), Agent.asTool(inner, { name: "ask", description: "d" })]
})
const check = (name, program) =>
  Effect.gen(function* () {
    open = new Set()
    names = []
    const fiber = yield* Effect.forkChild(Effect.exit(Effect.withTracer(program, tracer)))
    yield* Effect.sleep(250)
    yield* Fiber.interrupt(fiber)
    yield* Effect.sleep(50)
    holds(`${name} has spans`, names.length > 0, names)
    same(
      `${name} open`,
      [...open].map((s) => s.name),
      []
    )
  })
const Sessions = Session.layer([agent]).pipe(
  Layer.provide([VersionedStore.layerMemory, Live, ScriptedModel.layer(script)])
)
export default Effect.gen(function* () {
  for (const [name, program] of [
    ["run, model writes", agent.run("slow")],
    ["stream, model writes", Stream.runDrain(agent.stream("slow"))],
    ["stream, not read to its end", Stream.runDrain(Stream.take(agent.stream("slow"), 4))],
    ["run, tool", agent.run("hang")],
    ["stream, tool", Stream.runDrain(agent.stream("hang"))],
    ["sub-agent, tool", agent.run("inner hang")],
    ["sub-agent, model", Stream.runDrain(agent.stream("inner slow"))],
    ["approval", agent.run("pay")],
    ["approval in a sub-agent", agent.run("inner pay")],
    ["fails", agent.run("fail")],
    ["stream is cut", Stream.runDrain(agent.stream("cut"))],
    ["sub-agent fails", agent.run("inner fail")],
    ["time limit", agent.run("hang", { timeouts: { total: 100 } })],
    [
      "plan",
      Effect.gen(function* () {
        const p = yield* Plan.bind(
          yield* Plan.make("p", [
            Step.make("a", { parallel: true, target: agent }),
            Step.make("b", { parallel: true, target: () => Effect.never })
          ])
        )
        return yield* Plan.run(p, "hang")
      })
    ],
    [
      "plan pauses",
      Effect.gen(function* () {
        const p = yield* Plan.bind(yield* Plan.make("p", [Step.make("a", { target: () => Step.pause("?") })]))
        return yield* Plan.run(p, "x")
      })
    ]
  ])
    yield* check(name, program).pipe(Effect.provide([Live, ScriptedModel.layer(script)]))
  yield* check(
    "session is interrupted",
    Effect.gen(function* () {
      const s = yield* Session.Session
      yield* s.send("s", "slow")
      yield* Effect.sleep(100)
      yield* s.interrupt("s")
    }).pipe(Effect.provide(Sessions))
  )
  yield* check(
    "session is closed in a turn",
    Effect.gen(function* () {
      const s = yield* Session.Session
      yield* s.send("s", "hang")
      yield* Effect.sleep(50)
    }).pipe(
      Effect.provide(
        Session.layer([agent], { drainTime: 0 }).pipe(
          Layer.provide([VersionedStore.layerMemory, Live, ScriptedModel.layer(script)])
        )
      )
    )
  )
})
