/**
 * Random plans whose every step reports when it runs: sequential steps, loops, branches with
 * a rejoin, bands, writes, agents. The seed alone defines a plan and its output.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as LanguageModel from "effect/ai/LanguageModel"
import { Agent } from "effect-emissary"
import { Plan, Reference, Step, When } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

/** A small generator of numbers: the same for the same seed, everywhere. */
export const random = (seed: number) => {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
  return { below: (n: number) => Math.floor(next() * n), chance: (p: number) => next() < p }
}

const hash = (text: string): number => {
  let value = 2166136261
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619) >>> 0
  return value
}

/** The output of a step follows from its input. */
const answer = (input: Step.Input): Schema.Json => {
  const { payload } = input
  const counted = typeof payload === "object" && payload !== null && "n" in payload ? payload.n : 0
  const value = hash(JSON.stringify([input.step, input.task, input.context ?? null]))
  return { n: (typeof counted === "number" ? counted : 0) + 1, value, even: value % 2 === 0 }
}

/** An agent that is done with one model call. */
const echo = Agent.make("echo", {})

/** The model behind the agents; `ran` is called each time it has answered. */
export const model = (ran: Effect.Effect<void>) =>
  ScriptedModel.layer((request) => Effect.as(ran, { text: `said ${hash(JSON.stringify(request.messages))}` }))

/** The name under which a step of the plan inside a step is counted. */
export const inner = (outer: string, step: string): string => `${outer}/${step}`

/** The parts of the plan inside a step. */
export const innerSteps = ["one", "two", "three"] as const

const nested = (name: string, ran: (step: string) => Effect.Effect<void>) =>
  Effect.flatMap(
    Plan.make(
      `plan of ${name}`,
      innerSteps.map((step) => Step.make(step, { target: (input) => Effect.as(ran(inner(name, step)), answer(input)) }))
    ),
    (plan) => Plan.bind(plan)
  )

/** A plan, ready to run; `ran` is called each time a function has done its work. */
export const make = Effect.fnUntraced(function* (seed: number, ran: (step: string) => Effect.Effect<void>) {
  const dice = random(seed)
  const steps: Array<Step.Step<string, string, LanguageModel.LanguageModel>> = []
  const writes: Array<string> = []
  const agents: Array<string> = []

  type Given = {
    readonly task?: Reference.Reference | undefined
    readonly parallel?: boolean
    readonly routes?: ReadonlyArray<readonly [string, When.When]>
    readonly afterBranches?: string
    readonly agent?: Agent.Agent<unknown, LanguageModel.LanguageModel>
  }

  const add = (name: string, given: Given = {}) => {
    const write = dice.chance(0.4) ? `value of ${name}` : undefined
    if (write !== undefined) writes.push(write)
    const context = dice.chance(0.3) ? Reference.fromStart : undefined
    const work = (input: Step.Input) => Effect.as(ran(name), answer(input))
    const { agent, ...rest } = given
    if (agent === echo) agents.push(name)
    const step = Step.make(name, {
      ...rest,
      target: agent ?? work,
      ...(write === undefined ? {} : { writes: write }),
      ...(context === undefined ? {} : { context })
    })
    steps.push(step)
  }

  const blocks = [
    (name: string) => add(name),
    (name: string, plan: Agent.Agent<unknown>) => add(name, { agent: plan }),
    (name: string) => add(name, { agent: echo }),
    // A loop of two steps with a limit
    (name: string) => {
      add(`${name}-first`)
      add(`${name}-last`, { routes: [[`${name}-first`, When.field("n").lessThan(3 + dice.below(4))]] })
    },
    // Two exclusive branches and their rejoin
    (name: string) => {
      add(`${name}-router`, {
        routes: [
          [`${name}-even`, When.field("even").is(true)],
          [`${name}-odd`, When.field("even").is(false)]
        ],
        afterBranches: `${name}-rejoin`
      })
      add(`${name}-even`)
      add(`${name}-odd`)
      add(`${name}-rejoin`)
    },
    // A band and what puts it together
    (name: string) => {
      const members = 2 + dice.below(2)
      for (let i = 0; i < members; i++) {
        add(`${name}-${i}`, { parallel: true, ...(dice.chance(0.4) ? { agent: echo } : {}) })
      }
      add(`${name}-join`, { task: Reference.fromParallelAll(`${name}-0`) })
    }
  ]

  add("start")
  const count = 2 + dice.below(3)
  for (let i = 0; i < count; i++) {
    blocks[dice.below(blocks.length)]?.(`b${i}`, yield* nested(`b${i}`, ran))
  }
  if (dice.chance(0.5)) add("end")

  const plan = yield* Plan.make(`plan-${seed}`, steps, { maxIterations: 60 })
  return { bound: yield* Plan.bind(plan), writes, agents }
})

export const input = (seed: number): string => `input ${seed}`
