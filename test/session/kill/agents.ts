/**
 * An agent and plans for sessions that are killed, their tools, and a model that needs no script in order: its answer
 * follows from the newest message of the user and the number of answers after it. All work takes time, so that a kill
 * hits it, and is in the ledger.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Run } from "effect-emissary"
import { Plan, PlanRun, Reference, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { random } from "../../random.ts"
import type { Ledger } from "./ledger.ts"
import * as weather from "./weather.ts"

export const chat = "desk"
export const plan = "order"
/** The plan of jobs. */
export const job = "build"

/** The key under which each run of it has its last value. */
export const written = "last build"

/** The text of a message: `s3.7`, the seventh of session `s3`. */
export const label = (session: string, number: number): string => `${session}.${number}`

/** The last answer of the agent, or of the plan. */
export const answerTo = (message: string): string => `done ${message}`

const lastLabel = (text: string): string => text.match(/s\d+\.\d+/g)?.at(-1) ?? "s0.0"

const hash = (text: string): number => {
  let value = 2166136261
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619) >>> 0
  return value
}

const parameters = Schema.Struct({ key: Schema.String })
const Note = Tool.make("note", { parameters, success: Schema.String }).annotate(Tool.Idempotent, true)
const Pay = Tool.make("pay", { parameters, success: Schema.String })
const refundWith = <F extends Schema.Struct.Fields>(fields: F) =>
  Tool.make("refund", {
    parameters: Schema.Struct({ ...parameters.fields, ...fields }),
    success: Schema.String,
    needsApproval: true
  })
/** Calls of one version that wait break with the other. The other version makes no new calls: their arguments do not fit. */
const Refund = refundWith({})
const StrictRefund = refundWith({ reason: Schema.String })
const toolkit = Toolkit.make(Note, Pay, Refund)

type Call = { readonly name: string; readonly params: { readonly key: string } | { readonly input: string } }

/** The calls of one answer of the model; none in the last one. */
const callsOf = (message: string, who: string, round: number): ReadonlyArray<Call> => {
  const dice = random(hash(`${message}/${who}`))
  const rounds = dice.below(4)
  if (round >= rounds) return []
  const inRound = random(hash(`${message}/${who}/${round}`))
  const calls = inRound.times(1 + inRound.below(3), (): Call => ({
    name: inRound.pick(["note", "pay", "pay"]),
    params: { key: "" }
  }))
  if (who === "desk" && round === 0 && inRound.chance(0.2)) calls.push({ name: "refund", params: { key: "" } })
  return [
    ...calls.map(({ name }, index) => ({ name, params: { key: `${message}/${who}/${round}/${index}` } })),
    // Once in a message, so that no key of the helper comes twice
    ...(who === "desk" && round === 1 ? [{ name: "help", params: { input: message } }] : [])
  ]
}

/** Takes a time between a fifth and nearly twice of the given one. */
const takes = (millis: number) => Effect.suspend(() => Effect.sleep(millis * (0.2 + 1.6 * Math.random())))

export interface Options {
  readonly ledger: Ledger
  /** The file of the weather. */
  readonly weather: string
  /** Part of the instructions: it changes with a deploy. */
  readonly version: number
  /** The middle of the times that models and tools take, in milliseconds. */
  readonly pace: number
}

const modelLayer = ({ ledger, pace }: Options) =>
  ScriptedModel.layer(({ messages }) => {
    const who = /You are (\w+)/.exec(messages.find(({ role }) => role === "system")?.text ?? "")?.[1] ?? "nobody"
    const asked = messages.findLastIndex(({ role }) => role === "user")
    const message = lastLabel(messages[asked]?.text ?? "")
    const round = messages.slice(asked).filter(({ role }) => role === "assistant").length
    const toolCalls = callsOf(message, who, round)
    const turn =
      toolCalls.length > 0 ? { toolCalls } : { text: who === "desk" ? answerTo(message) : `${who} did ${message}` }
    return ledger.around(`${message}/${who}/${round}`, "model", Effect.as(takes(pace), turn))
  })

/** A plan whose steps do their work once, unless they are cut off: one asks for an approval, and one is an agent. */
const buildOf = <R>({ ledger, pace }: Options, part: Agent.Agent<unknown, R>) => {
  const step = (name: string, answer: (task: string) => string) => (input: Step.Input) => {
    const key = `${lastLabel(input.task)}/${name}`
    return ledger.around(key, "step", Effect.as(takes(pace), answer(input.task)))
  }
  const made = (name: string) => step(name, (task) => `${lastLabel(task)} ${name} ${hash(task)}`)
  return Plan.make(job, [
    Step.make("fetch", { target: made("fetch") }),
    Step.make("compile", { target: made("compile"), parallel: true }),
    Step.make("check", { target: made("check"), parallel: true }),
    Step.make("join", { task: Reference.fromParallelAll("compile"), target: made("join") }),
    Step.make("part", { task: Reference.fromStart, target: part }),
    Step.make("confirm", {
      task: Reference.fromStep("join"),
      target: (input) =>
        hash(input.task) % 3 > 0 || input.decision !== undefined
          ? made("confirm")(input)
          : Step.pause(`confirm ${lastLabel(input.task)}`)
    }),
    Step.make("ship", {
      target: step("ship", (task) => `${answerTo(lastLabel(task))} as ${hash(task)}`),
      writes: written
    })
  ])
}

/** The result of a job that nothing disturbs: the result of the agent is its answer, and the result of the plan is found by running it here. */
export const expected = Effect.fnUntraced(function* (agent: string, message: string) {
  if (agent === chat) return answerTo(message)
  const quiet: Ledger = { around: (_key, _work, effect) => effect }
  const { build, layer } = yield* make({ ledger: quiet, weather: "", version: 1, pace: 0 })
  const first = yield* Effect.provide(Plan.run(build, message), layer)
  const decisions = PlanRun.requests(first.state).filter(Run.isApprovable).map(Run.approve)
  const result =
    first.outcome === "Paused" ? yield* Effect.provide(Plan.resume(build, first.state, { decisions }), layer) : first
  return result.outcome === "Completed" ? result.text : result.outcome
}, Effect.orDie)

/** The agent and the plans, and what they need. */
export const make = Effect.fnUntraced(function* (options: Options) {
  const { ledger, pace, version } = options
  const instructions = (who: string) => `You are ${who}. Version ${version}.`
  const once = ({ key }: { readonly key: string }) => ledger.around(key, "once", Effect.as(takes(pace), `did ${key}`))
  const handlers = toolkit.toLayer({
    note: ({ key }) => ledger.around(key, "idempotent", Effect.as(takes(pace), `noted ${key}`)),
    pay: once,
    refund: once
  })
  const agent = (name: string) =>
    Agent.make(name, { instructions: instructions(name), toolkit: Toolkit.make(Note, Pay) })
  const help = Agent.asTool(agent("helper"), { name: "help", description: "Helps" })
  const desk = Agent.make(chat, {
    // Turns of this agent cannot begin in bad weather
    instructions: Effect.as(weather.pass(options.weather), instructions(chat)),
    toolkit: [Note, Pay, weather.isBreaking(version) ? StrictRefund : Refund, help]
  })
  const order = yield* Plan.make(plan, [
    Step.make("draft", { target: agent("draft") }),
    Step.make("left", { target: agent("left"), task: Reference.fromStart, parallel: true }),
    Step.make("right", { target: agent("right"), task: Reference.fromStart, parallel: true }),
    Step.make("sign", {
      task: Reference.fromStart,
      target: ({ task }) =>
        ledger.around(`${lastLabel(task)}/sign`, "idempotent", Effect.as(takes(pace), answerTo(lastLabel(task))))
    })
  ])
  return {
    desk,
    order: yield* Plan.bind(order),
    build: yield* Plan.bind(yield* buildOf(options, agent("part"))),
    layer: Layer.merge(handlers, modelLayer(options))
  }
})
