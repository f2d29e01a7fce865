/** The models and agents of the tasks. The first model fails at places that a seed draws, at any chunk of its answer. */
import { Effect, Layer, Schema } from "effect"
import { Agent, ModelRegistry, Run, ToolRuntime } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { random } from "../random.ts"
import { type Answer, field, type Seen, type Step, type Task, tasks } from "./tasks.ts"
import { AskUser, changeOf, handlers, initial, Locate, type State, toolkit, World } from "./world.ts"

/** The errors after which the next model is asked, and a model that is silent. */
const failures = ["RateLimitError", "InternalProviderError", "NetworkError", "QuotaExhaustedError", "silent"] as const

/** The trouble of a world: none without a seed. */
export interface Trouble {
  readonly seed?: number
}

const stepsOf = (key: string): ReadonlyArray<Step> => {
  const [name = "", inner] = key.split("/")
  const task = tasks.find((one) => one.name === name)
  return (inner === undefined ? task?.steps : task?.inner?.[inner]) ?? []
}

const isKey = (text: string) => stepsOf(text).length > 0

const parsed = (text: string): Schema.Json => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const isLost = ({ text }: { readonly text: string }) => text.includes("not known whether it took effect")

type Results = ReadonlyArray<{ readonly name: string; readonly text: string; readonly isFailure: boolean }>

/** The newest call of each place of an answer counts. */
const seenIn = (results: Results): Seen => {
  const good = results.filter(({ isFailure }) => !isFailure)
  const all = (name: string) => good.filter((one) => one.name === name).map(({ text }) => parsed(text))
  return {
    all,
    last: (name, ...path) => path.reduce<Schema.Json>(field, all(name).at(-1) ?? null)
  }
}

/** The answer of a model to a conversation: the next step, or a look at what became of calls whose process died. */
const answerTo = ({ messages }: ScriptedModel.Request) => {
  const begin = messages.findLastIndex(({ role, text }) => role === "user" && isKey(text))
  const key = messages[begin]?.text ?? ""
  const since = messages.slice(begin + 1)
  const answers = since.filter(({ role }) => role === "assistant")
  const at = answers.filter(({ text }) => text.startsWith("Step")).length
  const place = `${key}/${answers.length}`
  const results = since.flatMap(({ toolResults = [] }) => toolResults)
  const lastCalls = answers.at(-1)?.toolCalls ?? []
  const ofLast = results.filter(({ id }) => lastCalls.some((call) => call.id === id))
  const changeIn = (id: string) => {
    const { name = "", params = {} } = lastCalls.find((call) => call.id === id) ?? {}
    return changeOf(name, Object(params))
  }
  const lost = ofLast.filter(isLost)
  if (lost.length > 0)
    return { key, place, text: "Look.", calls: lost.map(({ id }) => ["was_done", { change: changeIn(id) }] as const) }
  const again = answers
    .at(-1)
    ?.toolCalls?.filter(
      ({ id, name }) => name === "was_done" && ofLast.some((one) => one.id === id && one.text === "false")
    )
  if (again !== undefined && again.length > 0) {
    const changes = again.map(({ params }) => String(field(parsed(JSON.stringify(params)), "change")))
    const calls = changes.map((change) => {
      const [, name = "", params = "{}"] = /^(\w+) (.*)$/s.exec(change) ?? []
      return [name, JSON.parse(params)] as const
    })
    return { key, place, text: "Again.", calls }
  }
  const step = stepsOf(key)[at]
  const next: Answer = typeof step === "function" ? step(seenIn(results)) : (step ?? {})
  const isEnd = next.calls === undefined
  const text = isEnd ? `It is done: ${key.split("/")[1] ?? "all"}.` : `Step ${at}.`
  return { key, place, text, ...next }
}

const delegates: ReadonlySet<string> = new Set(["clerk", "head"])

/** A model that answers for a task. The first one of two fails, and so does the second one, at first. */
const modelOf = ({ seed }: Trouble, isFirst: boolean) =>
  Layer.unwrap(
    Effect.map(World, ({ attempts, reported }) =>
      ScriptedModel.layer(
        (request): ScriptedModel.Turn => {
          const { calls = [], key, place, text, ...rest } = answerTo(request)
          const [task = ""] = key.split("/")
          const toolCalls = calls.map(([name, params = {}], index) => ({
            id: `${place}/${index}`,
            name,
            params: delegates.has(name) ? { input: `${task}/${String(field(params, "input"))}` } : params
          }))
          const { object } = { object: undefined, ...rest }
          const asked = `${isFirst ? "first" : "second"} ${place}`
          const attempt = (attempts.get(asked) ?? 0) + 1
          attempts.set(asked, attempt)
          const whole: ScriptedModel.Turn = {
            ...(object === undefined ? { text } : { object }),
            toolCalls,
            usage: { inputTokens: 100 + place.length, outputTokens: 10 + toolCalls.length }
          }
          const draw = random(
            (seed ?? 0) * 7919 + [...asked].reduce((sum, sign) => (sum * 31 + sign.charCodeAt(0)) % 65_521, 7)
          )
          const fails = seed !== undefined && (isFirst ? draw.chance(0.4) : attempt === 1 && draw.chance(0.15))
          if (!fails) {
            reported.input += whole.usage?.inputTokens ?? 0
            reported.output += whole.usage?.outputTokens ?? 0
            return whole
          }
          const reason = draw.pick(isFirst ? failures : failures.slice(0, 3))
          if (reason === "silent") return { ...whole, delay: "1 hour" }
          // Some of the text, then some of the calls, and then a piece of the next call
          const written = text.slice(0, draw.below(text.length + 1))
          const made = written === text ? toolCalls.slice(0, draw.below(toolCalls.length + 1)) : []
          const cut = toolCalls[made.length]
          const piece =
            cut === undefined || draw.chance(0.5)
              ? []
              : [
                  { type: "tool-params-start", id: cut.id, name: cut.name } as const,
                  { type: "tool-params-delta", id: cut.id, delta: JSON.stringify(cut.params).slice(0, 3) } as const
                ]
          return { text: written, toolCalls: made, parts: piece, fail: { reason } }
        },
        { chunkSize: 3 }
      )
    )
  )

const provider = (trouble: Trouble, isFirst: boolean) =>
  Effect.map(Effect.context<World>(), (context) => {
    const model = Layer.provide(modelOf(trouble, isFirst), Layer.succeedContext(context))
    return ModelRegistry.provider({ options: ModelRegistry.Sampling, model: () => model })
  })

/** The services of the agents: models, tools and their runtime. */
export const services = (trouble: Trouble) => {
  const models = Layer.unwrap(
    Effect.gen(function* () {
      const [first, second] = [yield* provider(trouble, true), yield* provider(trouble, false)]
      return ModelRegistry.layer({ first, second })
    })
  )
  return Layer.mergeAll(models, handlers, ToolRuntime.layerConcurrent())
}

const settings = {
  model: ["first/m", "second/m"],
  retry: { times: 1, delay: "100 millis" },
  timeouts: { firstChunk: "2 seconds" },
  maxSteps: 32
} as const

const clerk = Agent.make("clerk", { instructions: "You work.", toolkit, ...settings })

const clerkTool = Agent.asTool(clerk, { name: "clerk", description: "Works" })

const head = Agent.make("head", {
  instructions: "You have a clerk.",
  toolkit: [...Object.values(toolkit.tools), clerkTool],
  ...settings
})

const tools = [
  ...Object.values(toolkit.tools),
  clerkTool,
  Agent.asTool(head, { name: "head", description: "Has work done" }),
  AskUser,
  Locate
]

export const desk = Agent.make("desk", { instructions: "You help.", toolkit: tools, ...settings })

/** The same, with an answer as an object. */
export const counter = Agent.make("counter", {
  instructions: "You count.",
  toolkit: tools,
  output: Schema.Struct({ count: Schema.Int }),
  ...settings
})

/** The decision of a person, or of a page, about a request. */
export const decisionFor =
  ({ answers = {}, denied }: Task) =>
  (request: Run.Request): Run.Decision => {
    if (request._tag === "Call") return Run.answer(request, { place: "the harbour" })
    if (request._tag === "Question") {
      const question = String(field(parsed(JSON.stringify(request.arguments)), "question"))
      return Run.answer(request, { choice: answers[question] ?? "" })
    }
    const isDenied = denied !== undefined && JSON.stringify(request.arguments).includes(denied)
    return isDenied ? Run.deny(request, { reason: "Not now." }) : Run.approve(request)
  }

const set = (target: object, [name = "", ...rest]: ReadonlyArray<string>, value: Schema.Json | undefined): void => {
  if (rest.length > 0) return set(Object(Reflect.get(target, name)), rest, value)
  if (value === undefined) Reflect.deleteProperty(target, name)
  else Reflect.set(target, name, value)
}

/** The world as it is to be after a task. */
export const after = ({ after: changes }: Task): State => {
  const state = initial()
  for (const [place, value] of changes) set(state, place.split(" > "), value)
  return state
}
