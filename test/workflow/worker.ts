/** A process with a runner of a cluster on a SQLite file. It starts the workflow, or finds it, and waits for its result. */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Workflow } from "effect/workflow"
import { Agent, Conversation } from "effect-emissary"
import { Activities } from "effect-emissary/workflow"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { writeSync } from "node:fs"
import { clusterEngine } from "../session/engines.ts"

export interface Task {
  readonly filename: string
  /** The call that does not end, by its number from 0 on: where the process is killed. */
  readonly endless?: number | undefined
  /** True if the process approves its own requests. */
  readonly decides: boolean
  /** A request of an earlier process, to decide at the start. */
  readonly pending?: Activities.Pending | undefined
}

// Sound: the test writes it.
const { decides, endless, filename, pending } = JSON.parse(process.argv.at(-1) ?? "") as Task

const print = (line: string) => Effect.sync(() => void writeSync(1, `${line}\n`))

let calls = 0

/** A call between two lines. */
const slowly = <A>(name: string, value: A) =>
  Effect.gen(function* () {
    yield* print(`begin ${name}`)
    if (calls++ === endless) return yield* Effect.never
    yield* print(`end ${name}`)
    return value
  })

const parameters = Schema.Struct({ text: Schema.String })
const Look = Tool.make("look", { parameters, success: Schema.String }).annotate(Tool.Idempotent, true)
const Note = Tool.make("note", { parameters, success: Schema.String })
const Pay = Tool.make("pay", { parameters, success: Schema.String, needsApproval: true })
const Tools = Toolkit.make(Look, Note, Pay)

const handlers = Tools.toLayer({
  look: ({ text }) => slowly(`look ${text}`, `saw ${text}`),
  note: ({ text }) => slowly(`note ${text}`, `noted ${text}`),
  pay: ({ text }) => slowly(`pay ${text}`, `paid ${text}`)
})

const inner = Agent.make("inner", { instructions: "Inner.", toolkit: Tools })
const outer = Agent.make("outer", {
  instructions: "Outer.",
  toolkit: [...Object.values(Tools.tools), Agent.asTool(inner, { name: "delegate", description: "Asks another agent" })]
})

const call = (name: string, text: string) => ({
  id: `${name}-${text}`,
  name,
  params: name === "delegate" ? { input: text } : { text }
})

const turns: Record<string, ReadonlyArray<ScriptedModel.Turn>> = {
  "Outer.": [
    { toolCalls: [call("look", "1"), call("note", "2")] },
    { toolCalls: [call("delegate", "3")] },
    { toolCalls: [call("pay", "4")] },
    { text: "Done." }
  ],
  "Inner.": [{ toolCalls: [call("note", "5"), call("look", "6")] }, { text: "So." }]
}

const model = ScriptedModel.layer(({ messages }) => {
  const who = messages[0]?.text ?? ""
  const i = messages.filter(({ role }) => role === "assistant").length
  return slowly(`model ${who}${i}`, turns[who]?.[i] ?? { text: "the end" })
})

const Body = Workflow.make("Body", {
  payload: { id: Schema.String },
  success: Schema.Json,
  idempotencyKey: ({ id }) => id
})

const approve = ({ request, token }: Activities.Pending) =>
  Effect.orDie(Activities.decide(token, { ...request, approved: true }))

const onApproval = (pending: Activities.Pending) =>
  Effect.andThen(print(`asks ${JSON.stringify(pending)}`), decides ? approve(pending) : Effect.void)

const body = Effect.gen(function* () {
  const plan = yield* Plan.make("plan", [
    Step.make("prepare", { target: () => slowly("prepare", "Go") }),
    Step.make("work", { target: outer })
  ])
  const result = yield* Plan.run(yield* Plan.bind(plan), "Start")
  return result.outcome === "Completed" ? result.text : result.outcome
}).pipe(Effect.provide(Activities.layer({ onApproval })), Effect.orDie)

/** The same agent by itself, for its transcript. */
const Transcript = Workflow.make("Transcript", {
  payload: { id: Schema.String },
  success: Schema.Json,
  idempotencyKey: ({ id }) => id
})

const transcript = Effect.gen(function* () {
  const { conversation } = yield* outer.run("Go")
  // Sound: a transcript is JSON.
  return Conversation.transcript(conversation) as ReadonlyArray<object> as ReadonlyArray<Schema.JsonObject>
}).pipe(Effect.provide(Activities.layer({ onApproval })), Effect.orDie)

const workflows = Layer.mergeAll(
  Body.toLayer(() => body),
  Transcript.toLayer(() => transcript)
)

Effect.gen(function* () {
  if (pending !== undefined) yield* approve(pending)
  yield* print(`result ${JSON.stringify(yield* Body.execute({ id: "1" }))}`)
  yield* print(`transcript ${JSON.stringify(yield* Transcript.execute({ id: "1" }))}`)
}).pipe(
  Effect.provide(workflows.pipe(Layer.provide([handlers, model]))),
  Effect.provide(clusterEngine(filename)),
  NodeRuntime.runMain
)
