/**
 * The agents of the worlds. The text of a message names the calls that are made for it: `a/1|once again|pay` are the calls of `once` and
 * `again` in one answer, then one of `pay`, and then an answer in words. So the answer to a conversation follows from its messages.
 */
import { Context, Effect, Layer, Random, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ModelRegistry, Question, ToolFailure, ToolResolver, ToolSettings } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

/** A message as far as the answer depends on it. */
export interface Said {
  readonly role: string
  readonly text: string
}

export type Answer =
  | { readonly _tag: "Text"; readonly text: string }
  | { readonly _tag: "Calls"; readonly calls: ReadonlyArray<{ readonly name: string; readonly key: string }> }
  | { readonly _tag: "Failure" }

/** The instructions of the agent of a session, and of the agent that the conversation is passed on to. */
export const instructions = { first: "You work.", mate: "You work too." } as const

/** True where the other agent has the conversation. */
export const isMates = (messages: ReadonlyArray<Said>): boolean =>
  messages.findLast(({ role }) => role === "system")?.text.endsWith(instructions.mate) === true

/** The answer of the model to a conversation. */
export const answerTo = (messages: ReadonlyArray<Said>): Answer => {
  const last = messages.findLastIndex(({ role }) => role === "user")
  const text = messages[last]?.text ?? ""
  const [key, ...steps] = text.split("|")
  const answered = messages.slice(last).filter(({ role }) => role === "assistant").length
  const circle = steps.indexOf("circle")
  // A model that repeats itself makes the same call until its run ends
  if (circle >= 0 && answered >= circle) return { _tag: "Calls", calls: [{ name: "look", key: `${key}/circle` }] }
  const step = steps[answered]
  if (step === undefined) return { _tag: "Text", text: `${isMates(messages) ? "mate " : ""}re: ${text}` }
  if (step === "fails") return { _tag: "Failure" }
  return { _tag: "Calls", calls: step.split(" ").map((name, index) => ({ name, key: `${key}/${answered}/${index}` })) }
}

/** The tool that the agent behind a tool has to call. */
const tasks: Readonly<Record<string, string>> = { boss: "clerk", clerk: "pay" }

/** The message to the agent behind a tool. */
export const taskOf = (name: string, key: string): string | undefined =>
  tasks[name] === undefined ? undefined : `${key}|${tasks[name]}`

/** The text of the result of a call that ran to its end. */
export const resultOf = (name: string, key: string): string => {
  const task = taskOf(name, key)
  if (task !== undefined) return `re: ${task}`
  if (name === "late") return "Tool execution timed out after 0.2 seconds"
  return name === "broken" ? `no ${key}` : `did ${key}`
}

/** The calls that had an effect outside: `started`, and of these `ended`. */
export class Ledger extends Context.Service<
  Ledger,
  { readonly started: Array<string>; readonly ended: Array<string> }
>()("worlds/Ledger") {
  static readonly layer = Layer.sync(Ledger, () => ({ started: [], ended: [] }))
}

const parts = { parameters: Schema.Struct({ key: Schema.String }), success: Schema.String, failure: ToolFailure }

export const toolkit = Toolkit.make(
  Tool.make("once", parts),
  Tool.make("again", parts).annotate(Tool.Idempotent, true),
  Tool.make("pay", { ...parts, needsApproval: true }),
  Tool.make("broken", parts)
)

/** A tool that takes longer than a lease, another that ends only when it is interrupted, and a third that is too late. */
const slowToolkit = Toolkit.make(
  Tool.make("slow", parts),
  Tool.make("hang", parts),
  Tool.make("late", parts).annotate(ToolSettings.Timeout, "200 millis")
)

/** A tool that changes nothing, and a question to the user. */
const asking = Toolkit.make(Tool.make("look", parts).annotate(Tool.Idempotent, true))

const AskUser = Question.tool("ask", { description: "Asks", answer: Schema.Struct({ said: Schema.String }) })

const more = [...Object.values(asking.tools), AskUser]

/** The names of the tools. */
export const tools = ["once", "again", "pay", "broken"] as const

/** The names of the tools of the agents that have everything, each as often as it is here. `hang` is the last one. */
export const moreTools = [...tools, "once", "again", "slow", "late", "boss", "boss", "over", "over", "hang"] as const

export const handlers = toolkit.toLayer(
  Effect.map(Ledger, ({ ended, started }) => {
    const work = (name: string) =>
      Effect.fnUntraced(function* ({ key }: { readonly key: string }) {
        started.push(`${name} ${key}`)
        // Longer than a lease
        yield* key.startsWith("lone") ? Effect.sleep(900) : Effect.flatMap(Random.nextIntBetween(0, 150), Effect.sleep)
        ended.push(`${name} ${key}`)
        return resultOf(name, key)
      })
    const broken = (input: { readonly key: string }) =>
      Effect.flatMap(work("broken")(input), (message) => Effect.fail(new ToolFailure({ message })))
    return { once: work("once"), again: work("again"), pay: work("pay"), broken }
  })
)

const slowHandlers = slowToolkit.toLayer(
  Effect.map(Ledger, ({ ended, started }) => {
    const work = (name: string, work: Effect.Effect<unknown>) =>
      Effect.fnUntraced(function* ({ key }: { readonly key: string }) {
        started.push(`${name} ${key}`)
        yield* work
        ended.push(`${name} ${key}`)
        return resultOf(name, key)
      })
    const slow = Effect.flatMap(Random.nextIntBetween(600, 1200), Effect.sleep)
    return { slow: work("slow", slow), hang: work("hang", Effect.never), late: work("late", Effect.never) }
  })
)

const askingHandlers = asking.toLayer(
  Effect.map(Ledger, ({ ended }) => ({
    look: ({ key }) => Effect.sync(() => (ended.push(`look ${key}`), resultOf("look", key)))
  }))
)

/** Answers come character by character. Some of a model that is flaky break off somewhere. */
const modelOf = (isFlaky: boolean) =>
  ScriptedModel.layer(
    ({ messages }) =>
      Effect.gen(function* () {
        yield* Effect.flatMap(Random.nextIntBetween(1, 80), Effect.sleep)
        const answer = answerTo(messages.filter(({ role, text }) => role !== "user" || !isNote(text)))
        if (answer._tag === "Failure") return { fail: { reason: "AuthenticationError" } }
        if (isFlaky && (yield* Random.next) < 0.4) {
          const said = answer._tag === "Text" ? answer.text : ""
          const chunkDelay = yield* Random.nextIntBetween(0, 30)
          return {
            text: said.slice(0, yield* Random.nextIntBetween(0, said.length)),
            chunkDelay,
            fail: { reason: "NetworkError" }
          }
        }
        if (answer._tag === "Text") return { text: answer.text, chunkDelay: yield* Random.nextIntBetween(0, 30) }
        const paramsOf = (name: string, key: string) => {
          if (name === "ask") return { question: key }
          const input = taskOf(name, key)
          return input === undefined ? { key } : { input }
        }
        return { toolCalls: answer.calls.map(({ key, name }) => ({ name, params: paramsOf(name, key) })) }
      }),
    { chunkSize: 1 }
  )

const isNote = (text: string) => text.startsWith("Your last answer was cut off") || text.includes("times in a row")

export const model = modelOf(false)

/** A run continues with the second model when the first one has failed. */
const models = { model: ["demo/flaky", "demo/small"], retry: { times: 0 } } as const

export const worker = Agent.make("worker", { instructions: "You work.", toolkit, maxSteps: 64 })

/** The same agent. Some of its turns take longer to begin than the patience of those who stop them. */
export const slowWorker = Agent.make("worker", {
  instructions: Effect.gen(function* () {
    if ((yield* Random.next) < 0.15) yield* Effect.sleep("1500 millis")
    return "You work."
  }),
  toolkit,
  maxSteps: 64
})

/** An agent that asks the user, and repeats itself. */
export const asker = Agent.make("asker", {
  instructions: "You work.",
  toolkit: [...Object.values(toolkit.tools), ...more],
  maxSteps: 64
})

export const other = Agent.make("other", { instructions: "You do something else.", toolkit })

/** The services of the agents, in each process. */
export const layer = Layer.mergeAll(handlers, askingHandlers, model)

const common = { instructions: instructions.first, maxSteps: 64 }

const { again, broken, once, pay } = toolkit.tools

const others = [pay, broken, ...Object.values(slowToolkit.tools)]

const renamed = Toolkit.make(Tool.make("once_more", parts))

const parameters = Schema.Struct({ key: Schema.String, reason: Schema.String })

const changed = Toolkit.make(Tool.make("again", { ...parts, parameters }).annotate(Tool.Idempotent, true))

type Own =
  | typeof once
  | typeof again
  | (typeof others)[number]
  | ReturnType<typeof bossOf>
  | typeof renamed.tools.once_more
  | typeof changed.tools.again

/** The tools of an agent that passes its conversation on to another agent with the same tools, and gets it back. */
const withMate = (name: string, toolkit: ReadonlyArray<Own>, options: Partial<typeof models> = {}) => {
  const over = { name: "over", reason: parts.parameters } as const
  const mate = Agent.make("mate", {
    ...common,
    ...options,
    instructions: instructions.mate,
    toolkit: [...toolkit, Agent.handoff(name, over)]
  })
  return [...toolkit, Agent.handoff(mate, over)] as const
}

/** An agent behind a tool, behind whose tool an agent asks a person. */
const bossOf = (options: Partial<typeof models> = {}) => {
  const clerk = Agent.make("clerk", { ...common, ...options, toolkit: Toolkit.make(toolkit.tools.pay) })
  const manager = Agent.make("manager", {
    ...common,
    ...options,
    toolkit: [Agent.asTool(clerk, { name: "clerk", description: "Pays" })]
  })
  return Agent.asTool(manager, { name: "boss", description: "Has a clerk pay" })
}

/** The agent of the layer, where it has everything. */
export const staff = Agent.make("worker", {
  ...common,
  toolkit: withMate("worker", [once, again, ...others, bossOf()])
})

/** The same agent in another release. */
export const staffIn = {
  renamed: Agent.make("worker", {
    ...common,
    toolkit: withMate("worker", [renamed.tools.once_more, again, ...others, bossOf()])
  }),
  changed: Agent.make("worker", {
    ...common,
    toolkit: withMate("worker", [once, changed.tools.again, ...others, bossOf()])
  }),
  unprepared: Agent.make("worker", {
    ...common,
    instructions: Effect.fail("the database is away"),
    toolkit: withMate("worker", [once, again, ...others, bossOf()])
  })
}

/** The same agent as data. */
export const poet = Agent.encode(
  Agent.make("poet", {
    ...common,
    ...models,
    toolkit: withMate("poet", [once, again, ...others, bossOf(models)], models)
  })
)

const flaky = modelOf(true)

const registry = ModelRegistry.layer({
  demo: ModelRegistry.provider({
    options: ModelRegistry.Sampling,
    model: (name) => (name === "flaky" ? flaky : model)
  })
})

const moreHandlers = Layer.merge(handlers, slowHandlers)

const renamedHandlers = renamed.toLayer({ once_more: ({ key }) => Effect.succeed(resultOf("once", key)) })

/** The services of the agents that have everything, and of the agents that are data. */
export const moreLayer = Layer.mergeAll(
  moreHandlers,
  renamedHandlers,
  model,
  registry,
  Layer.provide(ToolResolver.layerToolkit(Toolkit.merge(toolkit, slowToolkit)), moreHandlers)
)

/** The same in the release with another contract of a tool. */
export const changedLayer = Layer.merge(
  moreLayer,
  changed.toLayer({ again: ({ key }) => Effect.succeed(resultOf("again", key)) })
)
