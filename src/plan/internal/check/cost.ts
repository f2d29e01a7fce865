/** The most that the ways through a plan can take. */
import type { PlanDefinition, StepDefinition } from "../../PlanDefinition.ts"
import * as Flow from "./flow.ts"
import { bandOf, make, type Outline } from "./outline.ts"

export interface Worst {
  /** Of all ways, if their number is finite. */
  readonly steps: number | undefined
  readonly calls: number | undefined
  /** Of the longest turn that can run: 0 for a plan without steps. */
  readonly turn: { readonly steps: number; readonly calls: number | undefined }
}

/** What a place takes: the steps that run there, and the calls of models they make. */
interface Weight {
  readonly steps: number
  readonly calls: number | undefined
}

export const worst = (definition: PlanDefinition, callsOf: (step: StepDefinition) => number | undefined): Worst => {
  const outline = make(definition)
  const flow = Flow.make(outline)
  if (flow === undefined) {
    // Too many ways to follow: any step can run.
    const turn = widest(outline.steps.map((_, index) => weigh(outline, index, callsOf)))
    return { steps: undefined, calls: undefined, turn }
  }
  const weights = flow.places.map(({ position }) => weigh(outline, position, callsOf))
  const turn = widest(weights)
  const order = sort(flow)
  if (order === undefined) return { steps: undefined, calls: undefined, turn }
  const isKnown = weights.every(({ calls }) => calls !== undefined)
  return {
    steps: longest(flow, order, (place) => weights[place]?.steps ?? 0),
    calls: isKnown ? longest(flow, order, (place) => weights[place]?.calls ?? 0) : undefined,
    turn
  }
}

const weigh = (outline: Outline, position: number, callsOf: (step: StepDefinition) => number | undefined): Weight => {
  const { last } = bandOf(outline, position)
  let calls: number | undefined = 0
  for (let member = position; member <= last; member++) {
    const step = outline.steps[member]
    const each: number | undefined = step === undefined ? 0 : callsOf(step)
    calls = calls === undefined || each === undefined ? undefined : calls + each * (1 + (step?.retry?.times ?? 0))
  }
  return { steps: last - position + 1, calls }
}

const widest = (weights: ReadonlyArray<Weight>): Weight => {
  let steps = 0
  let calls: number | undefined = 0
  for (const weight of weights) {
    steps = Math.max(steps, weight.steps)
    calls = calls === undefined || weight.calls === undefined ? undefined : Math.max(calls, weight.calls)
  }
  return { steps, calls }
}

/** Places, each before those it goes to. Undefined when there is a loop. */
const sort = ({ next, places }: Flow.Flow): ReadonlyArray<number> | undefined => {
  const before = places.map(() => 0)
  for (const targets of next) for (const target of targets) before[target] = (before[target] ?? 0) + 1
  const order = Array.from(before.keys()).filter((place) => before[place] === 0)
  for (let turn = 0; turn < order.length; turn++) {
    for (const target of next[order[turn] ?? 0] ?? []) {
      const left = (before[target] ?? 0) - 1
      before[target] = left
      if (left === 0) order.push(target)
    }
  }
  return order.length === places.length ? order : undefined
}

const longest = ({ next }: Flow.Flow, order: ReadonlyArray<number>, weight: (place: number) => number): number => {
  const sums = new Map<number, number>()
  let most = 0
  for (const place of order) {
    const sum = (sums.get(place) ?? 0) + weight(place)
    most = Math.max(most, sum)
    for (const target of next[place] ?? []) sums.set(target, Math.max(sums.get(target) ?? 0, sum))
  }
  return most
}
