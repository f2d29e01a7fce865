/**
 * The agents, plans, tools and models of the golden sessions. A set that is released was made with them, and each later release
 * has to continue it with them: what is here stays as it is, and more may be added.
 */
import { Effect, Layer, Option, Queue, Schema } from "effect"
import { AiError, Tool, Toolkit } from "effect/ai"
import {
  Agent,
  ClientTool,
  ContextWindow,
  Guard,
  ModelRegistry,
  Question,
  ToolResolver,
  ToolSettings
} from "effect-emissary"
import { Plan, Reference, Step, When } from "effect-emissary/plan"
import { ClusterSession, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"

/**
 * The world outside of the sessions.
 *
 * - `isBroken`: what is to hang, fail or be missing does so. The sessions are made in a broken world, and continued in a whole one.
 * - `calls`: what tools and steps have done.
 * - `hanging`: what hangs has begun.
 */
export interface Stage {
  readonly isBroken: boolean
  readonly calls: Array<string>
  readonly hanging: Queue.Queue<string>
}

export const makeStage = (isBroken: boolean): Effect.Effect<Stage> =>
  Effect.map(Queue.unbounded<string>(), (hanging) => ({ isBroken, calls: [], hanging }))

/** Hangs for ever while the world is broken. */
const hang = ({ hanging, isBroken }: Stage, what: string) =>
  isBroken ? Effect.andThen(Queue.offer(hanging, what), Effect.never) : Effect.void

const work = (stage: Stage, name: string, input: string) =>
  Effect.gen(function* () {
    stage.calls.push(`${name} ${input}`)
    if (name === "hang" || name === "print") yield* hang(stage, input)
    if (name === "drop" && stage.isBroken) return yield* Effect.die(new Error("dropped"))
    return `${name} of ${input}`
  })

const parameters = Schema.Struct({ input: Schema.String })

const tool = <const Name extends string>(name: Name, options?: { readonly needsApproval?: boolean }) =>
  Tool.make(name, { description: `Does ${name}`, parameters, success: Schema.String, ...options })

/** `print` may run again. */
const toolkit = Toolkit.make(
  tool("look")
    .annotate(Tool.Title, "Look")
    .annotate(Tool.Readonly, true)
    .annotate(Tool.Destructive, false)
    .annotate(Tool.OpenWorld, false)
    .annotate(Tool.Strict, false),
  tool("drop"),
  tool("hang"),
  tool("pay", { needsApproval: true }),
  tool("print").annotate(Tool.Idempotent, true).annotate(ToolSettings.Timeout, "1 hour")
)

const handlersOf = (stage: Stage) =>
  toolkit.toLayer({
    look: ({ input }) => work(stage, "look", input),
    drop: ({ input }) => work(stage, "drop", input),
    hang: ({ input }) => work(stage, "hang", input),
    pay: ({ input }) => work(stage, "pay", input),
    print: ({ input }) => work(stage, "print", input)
  })

const unusable = new AiError.InvalidOutputError({
  description: "half an answer",
  usage: { promptTokens: 20, completionTokens: 5, totalTokens: 25 }
})

/** An answer with all that a provider may send. */
const cited: ScriptedModel.Turn = {
  text: { text: "It is blue.", metadata: { demo: { cited: true } } },
  files: [{ mediaType: "image/png", data: "iVBORw0KGgo=" }],
  usage: { inputTokens: 30, outputTokens: 9, cacheReadTokens: 8, cacheWriteTokens: 7, reasoningTokens: 6 },
  parts: [
    { type: "response-metadata", id: "answer-1", modelId: "small-2", timestamp: "2026-11-01T12:00:00.000Z" },
    { type: "source", sourceType: "url", id: "s1", url: "https://example.com", title: "Colours" },
    { type: "source", sourceType: "document", id: "s2", mediaType: "text/plain", title: "Notes", fileName: "notes.txt" }
  ]
}

const asked = ({ messages }: ScriptedModel.Request) => messages.findLast(({ role }) => role === "user")?.text ?? ""

/**
 * A message is a list of commands between `&`: each is the name of a tool and its input, or `think` and `fail`, which hang and
 * fail while the world is broken, or `muddle` and `spoil`, whose first answers cannot be used, or `again`, whose first
 * request is refused for the moment. `circle` makes the same call again and again while the world is broken. `cite` has an
 * answer with all that a provider may send. Other words, and results, are repeated.
 */
const answerOf =
  (stage: Stage, name: string): ScriptedModel.TurnFunction =>
  (request) => {
    const { messages, responseFormat, tools } = request
    const last = messages.at(-1)
    const usage = { inputTokens: 10 * messages.length, outputTokens: 5 }
    if (name === "weak" && stage.isBroken) return { text: "Half an answer", fail: { reason: "RateLimitError" } }
    const words = asked(request).split(" ")
    if (responseFormat.type === "json") {
      // A member that the Schema does not have is dropped, so that the output is not the text
      const more = words[0] === "more" ? { more: true } : {}
      return { object: { words: words[0] === "vague" ? "some" : words.length, ...more }, usage }
    }
    if (words[0] === "circle" && stage.isBroken) {
      return { toolCalls: [{ id: `call_${messages.length}`, name: "look", params: { input: "a" } }], usage }
    }
    if (last?.role === "tool") return { text: `${name}: ${last.text}`, usage }
    const commands = asked(request)
      .split(" & ")
      .map((command) => command.split(" "))
    const toolCalls = commands.flatMap(([tool = "", ...input], index) =>
      tools.some(({ name }) => name === tool)
        ? [{ id: `call_${messages.length}_${index}`, name: tool, params: { input: input.join(" ") } }]
        : []
    )
    if (toolCalls.length > 0) return { text: "One moment.", toolCalls, usage }
    const [command] = commands[0] ?? []
    if (command === "cite") return cited
    if (command === "fail" && stage.isBroken) return { fail: { reason: "AuthenticationError" } }
    if (command === "again" && !stage.calls.includes(command)) {
      stage.calls.push(command)
      return { fail: { reason: "RateLimitError", retryAfter: 1 } }
    }
    if ((command === "muddle" || command === "spoil") && !stage.calls.includes(command)) {
      stage.calls.push(command)
      return command === "muddle" ? { fail: unusable } : { text: "Half an", usage, finishReason: "error" }
    }
    const answer: ScriptedModel.Turn = {
      reasoning: { text: "They ask.", metadata: { demo: { signature: "s1" } } },
      text: `${name}: ${asked(request)}`,
      usage
    }
    return command === "think" ? Effect.as(hang(stage, command), answer) : answer
  }

const model = "demo/small"

/** One agent with all tools. */
export const support = Agent.make("support", { model, instructions: "You help customers.", toolkit })

const clerk = Agent.make("clerk", {
  model,
  instructions: "You pay.",
  toolkit: Toolkit.make(toolkit.tools.pay, toolkit.tools.hang)
})

const manager = Agent.make("manager", {
  model,
  instructions: "You tell the clerk.",
  toolkit: [Agent.asTool(clerk, { name: "clerk", description: "Pays" }), toolkit.tools.look]
})

/** An agent with all tools, and one behind a tool, whose prompts are kept short. */
const desk = Agent.make("desk", {
  model,
  instructions: "You help and pay.",
  toolkit: [
    ...Object.values(toolkit.tools),
    Agent.asTool(manager, { name: "manager", description: "Tells the clerk" })
  ],
  contextWindow: ContextWindow.truncate({ above: 400 })
})

/** The bounds of requests. No scenario takes so long. */
const bounds = { deciders: ["staff"], expiresAfter: "10000 days" } as const

/** A tool whose handler asks twice. */
const asking = Toolkit.make(
  Tool.make("reserve", { parameters, success: Schema.String, failure: Question.Asked, description: "Reserves" })
)

/** A tool that needs an approval, and whose handler asks. */
const transfer = Toolkit.make(
  Tool.make("transfer", {
    parameters,
    success: Schema.String,
    failure: Question.Asked,
    description: "Transfers",
    needsApproval: true
  }).annotate(ToolSettings.Request, bounds)
)

const transferOf = (stage: Stage) =>
  transfer.toLayer({
    transfer: ({ input }) =>
      Effect.flatMap(Question.ask("From where?", Schema.Struct({ account: Schema.String })), ({ account }) =>
        work(stage, "transfer", `${input} from ${account}`)
      )
  })

const askingOf = (stage: Stage) =>
  asking.toLayer({
    reserve: ({ input }) =>
      Effect.gen(function* () {
        const many = yield* Question.ask("For how many?", Schema.Int, { ...bounds, otherwise: 2 })
        const { at } = yield* Question.ask("When?", Schema.Struct({ at: Schema.String }))
        return yield* work(stage, "reserve", `${input} for ${many} at ${at}`)
      })
  })

/** An agent with a tool that the page has, and the tool whose handler asks. */
const waiter = Agent.make("waiter", {
  model,
  toolkit: [
    toolkit.tools.look,
    ClientTool.make(tool("seat").annotate(ToolSettings.Request, { ...bounds, otherwise: "seat 1" })),
    asking.tools.reserve
  ]
})

/** An agent whose tool needs an approval and asks. */
const teller = Agent.make("teller", { model, toolkit: transfer })

/** The first of its two models fails while the world is broken. */
const backup = Agent.make("backup", {
  model: ["demo/weak", model],
  instructions: "You answer.",
  toolkit: [toolkit.tools.look],
  retry: { times: 0 }
})

/** An answer that has to fit a Schema. */
export const counter = Agent.make("counter", { model, output: Schema.Struct({ words: Schema.Finite }) })

/** Its prompts are kept short. */
const forgetful = Agent.make("forgetful", { model, contextWindow: ContextWindow.truncate({ above: 40 }) })

/** It has one model call for a message. */
const brief = Agent.make("brief", { model, instructions: "Be brief.", toolkit, maxSteps: 1 })

/** It makes the same call twice at most. */
const stubborn = Agent.make("stubborn", {
  model,
  toolkit: [toolkit.tools.look.annotate(ToolSettings.Polls, false)],
  repeatedCalls: { note: 2, end: 2 }
})

const bind = <A, R>(plan: Effect.Effect<Plan.Plan<A, R>, unknown>) =>
  Effect.flatMap(Effect.orDie(plan), (plan) => Effect.orDie(Plan.bind(plan)))

const step = (stage: Stage, name: string) => Step.target(name, ({ task }) => work(stage, name, task))

/** A step that asks a question, and does its work after the answer. */
const question = (stage: Stage, name: string) =>
  Step.target(name, ({ decision, task }) =>
    decision === undefined ? Step.pause("Is it good?") : work(stage, name, `${task}, ${decision.reason ?? "as it is"}`)
  )

const Draft = Schema.Struct({ text: Schema.String, round: Schema.Finite })

const draft = Step.target("draft", { output: Draft }, ({ payload, task }) => {
  const before = Schema.decodeUnknownOption(Draft)(payload)
  const { round, text } = Option.getOrElse(before, () => ({ text: task, round: 0 }))
  return Effect.succeed({ text: `${text}.`, round: round + 1 })
})

/** A loop of three rounds, a step that is tried again, and a parallel group with an agent and a step that hangs. */
export const reportOf = (stage: Stage) =>
  bind(
    Plan.make("report", [
      Step.make("draft", {
        target: draft,
        writes: "draft",
        routes: [["draft", When.field("round").lessThan(3)]],
        afterBranches: "proof"
      }),
      Step.make("proof", {
        target: ({ task }) => {
          const isFirst = stage.isBroken && !stage.calls.some((call) => call.startsWith("proof"))
          return isFirst
            ? Effect.andThen(work(stage, "proof", task), Effect.fail({ _tag: "NoPaper" }))
            : work(stage, "proof", "the draft")
        },
        retry: { times: 1 }
      }),
      Step.make("facts", { target: support, task: "look facts", parallel: true }),
      Step.make("pictures", { target: step(stage, "pictures"), parallel: true, writes: "pictures" }),
      Step.make("press", { target: step(stage, "hang"), parallel: true, writes: "press" }),
      Step.make("end", { target: step(stage, "end") })
    ])
  )

/** A parallel group in which a tool, a call of an agent, a question, and a question of a plan inside wait. */
export const orderOf = Effect.fnUntraced(function* (stage: Stage) {
  const inner = yield* bind(
    Plan.make("inner", [
      Step.make("check", { target: step(stage, "check") }),
      Step.make("sign", { target: question(stage, "sign") })
    ])
  )
  const plan = yield* Effect.orDie(
    Plan.make("order", [
      Step.make("note", { target: step(stage, "note"), writes: "note" }),
      Step.make("pay", { target: "pay", parallel: true }),
      Step.make("cashier", { target: support, task: "pay cashier", parallel: true }),
      Step.make("ask", { target: question(stage, "ask"), parallel: true }),
      Step.make("inner", { target: inner, parallel: true }),
      Step.make("ship", { target: step(stage, "ship"), writes: "ship" })
    ])
  )
  return yield* Effect.orDie(Plan.bind(plan, { toolkit }))
})

/** A step with two questions, each with a Schema for its answer. */
const surveyOf = (stage: Stage) =>
  bind(
    Plan.make("survey", [
      Step.make("ask", {
        target: ({ task }) =>
          Effect.gen(function* () {
            const stars = yield* Question.ask("How many stars?", Schema.Int, { ...bounds, otherwise: 3 })
            const { why } = yield* Question.ask("Why?", Schema.Struct({ why: Schema.String }), {
              ...bounds,
              otherwise: { why: "" }
            })
            return yield* work(stage, "survey", `${task}: ${stars}, ${why}`)
          })
      })
    ])
  )

/** A step that fails while the world is broken, behind one with a write. */
const nightlyOf = (stage: Stage) =>
  bind(
    Plan.make("nightly", [
      Step.make("collect", { target: step(stage, "collect"), writes: "collected" }),
      Step.make("send", {
        target: ({ task }) => (stage.isBroken ? Effect.fail({ _tag: "NoLine" }) : work(stage, "send", task))
      })
    ])
  )

/** A loop that uses up its iterations while the world is broken. */
const loopOf = (stage: Stage) =>
  bind(
    Plan.make("loop", [Step.make("round", { target: draft, routes: [["round", When.field("round").lessThan(3)]] })], {
      maxIterations: stage.isBroken ? 2 : 10
    })
  )

/** A plan that is edited before it continues. */
const editedOf = (stage: Stage) =>
  bind(
    Plan.make("edited", [
      Step.make("write", { target: step(stage, "write") }),
      Step.make("ask", { target: question(stage, "ask"), context: Reference.fromStart }),
      Step.make("end", { target: step(stage, stage.isBroken ? "print" : "end") })
    ])
  )

/** A step that ends the plan around it. */
const triageOf = (stage: Stage) =>
  bind(
    Plan.make("triage", [
      Step.make("sort", {
        target: ({ task }) => (task === "spam" ? Step.conclude("Nothing to do.") : work(stage, "sort", task))
      }),
      Step.make("reply", { target: step(stage, "reply") })
    ])
  )

/** An agent with a budget for each message, and a plan behind a tool that calls a tool. */
const thriftyOf = Effect.map(
  Effect.flatMap(Effect.orDie(Plan.make("errand", [Step.make("look", { target: "look" })])), (plan) =>
    Effect.orDie(Plan.bind(plan, { toolkit }))
  ),
  (errand) =>
    Agent.make("thrifty", {
      model,
      instructions: "You save.",
      toolkit: [toolkit.tools.look, Agent.asTool(errand, { name: "errand", description: "Looks" })],
      budget: { modelCalls: 3, toolCalls: 3, outputTokens: 10_000, time: "1 hour" }
    })
)

/** An agent whose answers another agent judges, within a budget. */
const judged = Agent.make("judged", {
  model,
  instructions: "You answer.",
  budget: { modelCalls: 9 },
  guards: [
    Guard.fromAgent("judge", {
      on: "output",
      agent: Agent.make("judge", { model, instructions: "You judge." }),
      verdict: () => Guard.pass
    })
  ]
})

const counted = Schema.Struct({ words: Schema.Int })

/** An agent that counts words, to which the agent at the door passes conversations on. */
const doorkeeper = Agent.make("doorkeeper", {
  model,
  instructions: "You open the door.",
  output: counted,
  toolkit: [
    ...Object.values(toolkit.tools),
    Agent.handoff(Agent.make("clicker", { model, instructions: "You count.", output: counted }), {
      name: "over",
      reason: parameters,
      history: { turns: 1, toolCalls: false }
    })
  ]
})

/** An agent that a user has, which may pass the conversation on to another one. */
export const openerOf = (others: ReadonlyArray<string>) =>
  Agent.encode(
    Agent.make("opener", {
      model,
      instructions: "You begin.",
      toolkit: others.map((name) =>
        Agent.handoff(Agent.make(name, { model, instructions: "You go on." }), { name: "over", reason: parameters })
      )
    })
  )

/** The words of a message that a user sends with an agent of their own. */
export const poetOf = (instructions: string) =>
  Agent.encode(Agent.make("poet", { model, instructions, toolkit: [toolkit.tools.look] }))

const modelsOf = (stage: Stage) =>
  ModelRegistry.layer({
    demo: ModelRegistry.provider({
      options: ModelRegistry.Sampling,
      model: (name) => ScriptedModel.layer(answerOf(stage, name))
    })
  })

/** Sessions of a fleet in a world of this kind, with one agent. */
export const fleetOf = (stage: Stage) =>
  ClusterSession.layer([support], { drainTime: 0 }).pipe(Layer.provide([modelsOf(stage), handlersOf(stage)]))

/** Sessions of the whole cast in a world of this kind, over the store around. */
export const sessionsOf = (stage: Stage, options: Session.LayerOptions = {}) => {
  /** Its turns cannot begin while the world is broken. */
  const moody = Agent.make("moody", {
    model,
    instructions: Effect.suspend(() =>
      stage.isBroken ? Effect.die(new Error("no instructions")) : Effect.succeed("You are back.")
    )
  })
  const layer = Effect.gen(function* () {
    const triage = yield* triageOf(stage)
    const chief = Agent.make("chief", {
      model,
      instructions: "You tell others.",
      toolkit: [
        Agent.asTool(manager, { name: "manager", description: "Tells the clerk" }),
        Agent.asTool(triage, { name: "triage", description: "Sorts mail" })
      ]
    })
    return Session.layer(
      [
        support,
        chief,
        counter,
        brief,
        stubborn,
        desk,
        forgetful,
        moody,
        waiter,
        teller,
        backup,
        doorkeeper,
        yield* surveyOf(stage),
        yield* reportOf(stage),
        yield* orderOf(stage),
        yield* nightlyOf(stage),
        yield* loopOf(stage),
        yield* editedOf(stage),
        triage,
        yield* thriftyOf,
        judged
      ],
      { definitions: Agent.decode, models: ["demo/large"], drainTime: 0, ...options }
    )
  })
  const handlers = Layer.mergeAll(handlersOf(stage), askingOf(stage), transferOf(stage))
  return Layer.unwrap(layer).pipe(
    Layer.provide([ToolResolver.layerToolkit(toolkit), handlers]),
    Layer.provide([modelsOf(stage), handlers]),
    Layer.fresh
  )
}
