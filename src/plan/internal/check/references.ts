/** Rules about the steps that a step reads. */
import type { PlanProblem } from "../../PlanProblem.ts"
import type { FromParallel, FromParallelAll, FromStep, Reference } from "../../Reference.ts"
import { show } from "../references.ts"
import { at, bandOf, type Finding, isSameBand, named, type Outline, slots, unknownStep } from "./outline.ts"

/** All references of one step: which steps there are, then which are earlier, then aggregates of bands. */
export const check = (outline: Outline, index: number): ReadonlyArray<PlanProblem> => {
  const step = outline.steps[index]
  if (step === undefined) return []
  const all = slots(step)
  const over = (rule: (outline: Outline, index: number, slot: string, reference: Reference) => Finding | undefined) =>
    all.flatMap(([slot, reference]) => {
      const finding = rule(outline, index, slot, reference)
      return finding === undefined ? [] : at(outline, index, finding)
    })
  const aggregates = all.flatMap(([slot, reference]) =>
    reference._tag === "FromParallelAll"
      ? aggregate(outline, index, slot, reference).flatMap((finding) => at(outline, index, finding))
      : []
  )
  return [...over(single), ...over(singleOrder), ...aggregates]
}

const isSingle = (reference: Reference): reference is FromStep | FromParallel =>
  reference._tag === "FromStep" || reference._tag === "FromParallel"

/** Known, and no sibling in the band. */
const single = (outline: Outline, index: number, slot: string, reference: Reference): Finding | undefined => {
  if (!isSingle(reference)) return undefined
  const target = outline.positions.get(reference.step)
  if (target === undefined) return unknown(outline, slot, reference)
  return isSameBand(outline, index, target) ? sameBand(slot, reference) : undefined
}

/** Earlier. What is unknown or a sibling has been told before. */
const singleOrder = (outline: Outline, index: number, slot: string, reference: Reference): Finding | undefined => {
  if (!isSingle(reference)) return undefined
  const target = outline.positions.get(reference.step)
  if (target === undefined || target < index || isSameBand(outline, index, target)) return undefined
  return notEarlier(outline, index, target, slot, reference)
}

const aggregate = (
  outline: Outline,
  index: number,
  slot: string,
  reference: FromParallelAll
): ReadonlyArray<Finding> => {
  const target = outline.positions.get(reference.step)
  if (target === undefined) return [unknown(outline, slot, reference)]
  if (isSameBand(outline, index, target)) return [sameBand(slot, reference)]
  const value = show(reference)
  const order = target < index ? [] : [notEarlier(outline, index, target, slot, reference)]
  if (outline.steps[target]?.parallel !== true) {
    const problem = `expected the first step of a parallel band, found step ${named(outline, target)}, which is not parallel`
    const fix = "Make it parallel, or use fromStep"
    return [...order, { code: "NotParallel", slot, value, problem, fix }]
  }
  const { first } = bandOf(outline, target)
  if (first === target) return order
  const problem = `expected the first step of a parallel band, found step ${named(outline, target)} of the band that begins with ${named(outline, first)}`
  const fix = `Refer to ${named(outline, first)}, or use fromParallel for one step of the band`
  return [...order, { code: "NotFirstOfBand", slot, value, problem, fix }]
}

const unknown = (outline: Outline, slot: string, reference: FromStep | FromParallel | FromParallelAll): Finding => ({
  code: "UnknownStep",
  slot,
  value: show(reference),
  problem: "refers to an unknown step",
  fix: "Refer to a step that comes earlier in the plan",
  unknown: unknownStep(outline, reference.step)
})

const sameBand = (slot: string, reference: Reference): Finding => ({
  code: "SameBand",
  slot,
  value: show(reference),
  problem: "refers to a step of the same parallel band, where no step sees what the others give",
  fix: "Refer to a step before the band, or put a step that is not parallel between them"
})

const notEarlier = (outline: Outline, index: number, target: number, slot: string, reference: Reference): Finding => ({
  code: "NotEarlier",
  slot,
  value: show(reference),
  problem:
    target === index
      ? "refers to the step itself, not to an earlier one"
      : `refers to step ${named(outline, target)}, which is not earlier in the plan`,
  fix: "Refer to an earlier step, or put that step before this one"
})
