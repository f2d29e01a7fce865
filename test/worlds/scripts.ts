/**
 * Twenty scripts of conversations, each with at least 200 stored events. The text of a message names what the models do for it:
 * `a1|think find find|say` are two calls of `find` in one answer with reasoning, and then an answer in words. In parentheses is the message for an
 * agent or a plan behind a tool, whose answers are parted by `;`. So an answer follows from the messages before it, in any process.
 */
import { Context, Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ToolFailure, ToolRuntime } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { type ChatEvent, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"

/** A conversation, whose messages come again and again until there are 200 events. */
export interface Script {
  readonly name: string
  readonly agent: "chat" | "plan"
  readonly messages: ReadonlyArray<string>
  readonly chat: ChatEvent.Options
}

const whole: ChatEvent.Options = { reasoning: true, subAgents: true }

const chat = (name: string, messages: ReadonlyArray<string>, options = whole): Script => ({
  name,
  agent: "chat",
  messages,
  chat: options
})

const inRow = (step: string, count: number) => Array.from({ length: count }, () => step).join("|")

export const scripts: ReadonlyArray<Script> = [
  chat("text", ["say", "say long"]),
  chat("reasoning", ["think say", "think find|think say"]),
  chat("hidden reasoning", ["think say", "think find pay|think say"], {}),
  chat("parallel tools", ["find find find", "slow find slow"]),
  chat("tools in a row", ["find|find|slow|find", "say find"]),
  chat("requests", ["pay", "pay|pay"]),
  chat("parallel requests", ["find pay spend find", "pay pay spend"]),
  chat("failures of tools", ["fails find|fails", "fails|say"]),
  chat("retries", ["again say", "find|again find|again say long", "think again say"]),
  chat("failures", ["find|down", "say", "down", "again find|down"]),
  chat("an agent behind a tool", ["desk(find)", "desk(find find;think say) find"]),
  chat("an agent that asks", ["desk(pay)", "desk(pay;spend) find"]),
  chat("agents in agents", ["boss(pay)", "boss(find;pay spend) pay"]),
  chat("agents that are not shown", ["boss(pay;find)", "desk(again find;pay)"], { reasoning: true }),
  chat("a plan behind a tool", ["flow(go)", "flow(go) find"]),
  chat("plans that ask", ["flow(ask)", "flow(ask pay) pay flow(ask)"]),
  { name: "a plan", agent: "plan", messages: ["go", "go pay"], chat: whole },
  { name: "a plan that asks", agent: "plan", messages: ["ask", "ask pay", "ask spend"], chat: whole },
  chat("one long turn", [`${inRow("find", 24)}|${inRow("slow find", 18)}|think say`]),
  chat("everything", [
    "think find pay|again say",
    "source|file find",
    "desk(pay;again find) slow fails",
    "flow(ask pay) spend|think again find|source",
    "boss(pay)|down"
  ])
]

/** The attempts of answers, which outlive a process. */
export class Attempts extends Context.Service<Attempts, Map<string, number>>()("screen/Attempts") {
  static readonly layer = Layer.sync(Attempts, () => new Map<string, number>())
}

const named = { parameters: Schema.Struct({ name: Schema.String }), success: Schema.Json, failure: ToolFailure }

const tools = Toolkit.make(
  Tool.make("find", named).annotate(Tool.Idempotent, true),
  Tool.make("slow", named),
  Tool.make("fails", named),
  Tool.make("pay", { ...named, needsApproval: true }),
  Tool.make("spend", { ...named, needsApproval: true })
)

const handlers = tools.toLayer({
  find: ({ name }) => Effect.succeed({ found: name }),
  slow: ({ name }) => Effect.as(Effect.sleep("25 millis"), { found: name }),
  fails: () => Effect.fail(new ToolFailure({ type: "closed", message: "The shop is closed." })),
  pay: ({ name }) => Effect.as(Effect.sleep("4 millis"), { paid: name }),
  spend: ({ name }) => Effect.succeed({ spent: name })
})

/** The words of a step, where the words in parentheses are one with the word before. */
const wordsOf = (step: string): ReadonlyArray<string> => step.match(/\w+(?:\([^)]*\))?/g) ?? []

const callOf = (word: string, key: string) => {
  const [, name = word, inner] = /^(\w+)\((.*)\)$/.exec(word) ?? []
  return inner === undefined
    ? { name, params: { name: key } }
    : { name, params: { input: `${key}|${name === "boss" ? `desk(${inner})` : inner.replaceAll(";", "|")}` } }
}

/** Words of a step that are no tools. */
const marks: ReadonlySet<string> = new Set(["think", "say", "long", "again", "down", "source", "file", "go", "ask"])

const model = Layer.unwrap(
  Effect.map(Attempts, (attempts) =>
    ScriptedModel.layer(
      ({ messages }) => {
        const last = messages.findLastIndex(({ role }) => role === "user")
        const [key = "", ...steps] = (messages[last]?.text ?? "").split("|")
        const at = messages.slice(last).filter(({ role }) => role === "assistant").length
        const words = wordsOf(steps[at] ?? "say")
        const place = `${key}/${at}`
        const attempt = (attempts.get(place) ?? 0) + 1
        attempts.set(place, attempt)
        const has = (word: string) => words.includes(word)
        const text = `Step ${at} of ${key}${has("long") ? ", with many more words than all the other answers have" : ""}.`
        const answer = { text, chunkDelay: 2, ...(has("think") && { reasoning: `What does ${key} want?` }) }
        if (has("down")) return { ...answer, fail: { reason: "AuthenticationError" } }
        if (has("again") && attempt === 1) return { ...answer, text: `No, ${text}`, fail: { reason: "RateLimitError" } }
        const calls = words.filter((word) => !marks.has(word))
        return {
          ...answer,
          usage: { inputTokens: 10, outputTokens: 5 },
          toolCalls: calls.map((word, index) => ({ id: `${place}/${index}`, ...callOf(word, `${place}/${index}`) })),
          ...(has("file") && { files: [{ mediaType: "text/plain", data: "QUJD" }] }),
          ...(has("source") && {
            parts: [
              { type: "source", sourceType: "url", id: place, url: "https://example.com/paper", title: "A paper" }
            ]
          })
        }
      },
      { chunkSize: 12 }
    )
  )
)

const clerk = Agent.make("clerk", { instructions: "You pay.", toolkit: tools, maxSteps: 64 })

/** A plan with a step that works, a step that may ask, and an agent. */
const planOf = (name: string) =>
  Effect.flatMap(
    Plan.make(name, [
      Step.make("draft", { target: ({ task }) => Effect.as(Effect.sleep("3 millis"), task) }),
      Step.make("gate", {
        target: ({ decision, task }) =>
          task.includes("ask") && decision === undefined ? Step.pause(`Go on with ${task}?`) : Effect.succeed(task)
      }),
      Step.make("left", {
        target: ({ task }) => Effect.as(Effect.sleep("5 millis"), `left of ${task}`),
        parallel: true
      }),
      Step.make("desk", { target: clerk, parallel: true }),
      Step.make("end", { target: ({ task }) => Effect.succeed(`${task}, and that is all`) })
    ]),
    (plan) => Plan.bind(plan)
  )

const options = {
  leaseTime: "500 millis",
  drainTime: "50 millis",
  idleTime: "2 seconds",
  run: { retry: { times: 1, delay: "1 millis" } }
} as const

const services = Layer.mergeAll(handlers, model, ToolRuntime.layerConcurrent())

/** The sessions of a script. */
export const sessionsOf = ({ agent }: Script) =>
  Layer.unwrap(
    Effect.gen(function* () {
      if (agent === "plan") return Session.layer([yield* Effect.orDie(planOf("plan"))], options)
      const flow = Agent.asTool(yield* Effect.orDie(planOf("flow")), { name: "flow", description: "Works by a plan" })
      const desk = Agent.asTool(clerk, { name: "desk", description: "Has a clerk work" })
      const manager = Agent.make("manager", { instructions: "You have people.", toolkit: [desk], maxSteps: 64 })
      const boss = Agent.asTool(manager, { name: "boss", description: "Has a manager work" })
      const one = Agent.make("chat", {
        instructions: "You work.",
        toolkit: [...Object.values(tools.tools), desk, boss, flow],
        maxSteps: 64
      })
      return Session.layer([one], options)
    })
  ).pipe(Layer.provide(services))
