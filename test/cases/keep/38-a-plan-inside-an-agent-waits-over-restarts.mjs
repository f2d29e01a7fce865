// mastra-ai/mastra#11015, #15734 (2026-04), #20213 (2026-07), #19083 (2026-07): a workflow that is the tool of an agent (or of a sub-agent) suspends; the resume starts it from its first step, asks
// again, or gives the answer to another suspended tool. Right: agent -> sub-agent -> plan -> (pause, agent with an approval), two of them at once, in a session whose process ends after each answer:
// each question is asked once, no step and no tool runs twice, each answer reaches its own plan, and the outer agent gets both results.
import { Effect, Layer, Schema, Option } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ToolRuntime } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { SqliteClient } from "effect-emissary/node"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { same } from "../harness/keep.mjs"

const filename = join(mkdtempSync(join(tmpdir(), "case38-")), "s.sqlite")
const Tools = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({ to: Schema.String }), success: Schema.String, needsApproval: true })
)
const ran = []
const note = (what) => Effect.sync(() => void ran.push(what))
const Live = Tools.toLayer({ pay: ({ to }) => Effect.as(note(`pay ${to}`), `paid ${to}`) })
const payer = Agent.make("payer", { instructions: "PAYER", toolkit: Tools })
const script = (r) => {
  const system = r.messages.find((m) => m.role === "system").text
  const user = r.messages.find((m) => m.role === "user").text
  const last = r.messages.at(-1)
  if (last.role === "tool") return { text: last.toolResults.map((t) => t.text).join(" & ") }
  if (system.includes("BOSS"))
    return { toolCalls: ["ada", "bob"].map((to) => ({ name: "ask_desk", params: { input: to } })) }
  if (system.includes("DESK")) return { toolCalls: [{ name: "flow", params: { input: user } }] }
  return { toolCalls: [{ name: "pay", params: { to: user } }] }
}
export default Effect.gen(function* () {
  const flow = yield* Plan.bind(
    yield* Plan.make("flow", [
      Step.make("first", { target: ({ task }) => Effect.as(note(`first ${task}`), task) }),
      Step.make("gate", {
        target: ({ task, decision }) =>
          decision === undefined ? Step.pause(`${task}?`) : Effect.as(note(`gate ${task} ${decision.reason}`), task)
      }),
      Step.make("pay", { target: payer }),
      Step.make("end", { target: ({ task }) => Effect.as(note(`end ${task}`), `${task}!`) })
    ])
  )
  const desk = Agent.make("desk", {
    instructions: "DESK",
    toolkit: [Agent.asTool(flow, { name: "flow", description: "f" })]
  })
  const boss = Agent.make("boss", {
    instructions: "BOSS",
    toolkit: [Agent.asTool(desk, { name: "ask_desk", description: "d" })]
  })
  const process = (program) =>
    program.pipe(
      Effect.provide(
        Layer.fresh(
          Session.layer([boss]).pipe(
            Layer.provide([
              Layer.fresh(SqliteClient.layerStore({ filename })),
              Live,
              ToolRuntime.layerConcurrent(),
              ScriptedModel.layer(script)
            ])
          )
        )
      )
    )
  const asked = []
  yield* process(Session.turn("s", "go"))
  let text
  for (let i = 0; i < 8 && text === undefined; i++) {
    const state = yield* process(Effect.flatMap(Session.Session, (s) => Effect.map(s.state("s"), Option.getOrThrow)))
    const one = state.requests.at(-1) // the last one first
    asked.push(one.name === "pay" ? `pay ${one.arguments.to}` : JSON.stringify(one.arguments))
    const answer = yield* process(
      Effect.gen(function* () {
        const s = yield* Session.Session
        yield* s.decide("s", [{ ...one, approved: true, reason: `yes ${i}` }])
        return yield* Session.await("s", { cursor: state.cursor })
      })
    )
    if (answer.outcome === "Completed") text = answer.text
  }
  same("questions", asked.length, 4)
  same(
    "ran once",
    ran.toSorted().map((r) => r.replace(/ yes \d/, "")),
    ["end paid ada", "end paid bob", "first ada", "first bob", "gate ada", "gate bob", "pay ada", "pay bob"]
  )
  same("text", text, "paid ada! & paid bob!")
})
