/** What changed from one definition to another. */
import type { PlanDefinition, StepDefinition } from "../../PlanDefinition.ts"
import type { FieldChange, PlanDiff, StepChange } from "../../PlanDiff.ts"
import { compareFields, fieldsOf } from "./fields.ts"

const steps: ReadonlySet<string> = new Set(["steps"])
const name: ReadonlySet<string> = new Set(["name"])

/** Which step of the plan before each step of the plan after is: the same name, the same number of that name. */
export const pairs = (
  before: ReadonlyArray<StepDefinition>,
  after: ReadonlyArray<StepDefinition>
): ReadonlyArray<number | undefined> => {
  const positions = new Map<string, Array<number>>()
  for (const [index, { name }] of before.entries()) {
    const known = positions.get(name)
    if (known === undefined) positions.set(name, [index])
    else known.push(index)
  }
  const used = new Map<string, number>()
  return after.map(({ name }) => {
    const count = used.get(name) ?? 0
    used.set(name, count + 1)
    return positions.get(name)?.[count]
  })
}

/** The places in a list of numbers that make up its longest rising part: those that did not move. */
const rising = (numbers: ReadonlyArray<number>): ReadonlySet<number> => {
  const tails: Array<number> = []
  const previous: Array<number | undefined> = []
  const valueAt = (place: number | undefined): number => (place === undefined ? -1 : (numbers[place] ?? -1))
  for (const [place, number] of numbers.entries()) {
    let low = 0
    let high = tails.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (valueAt(tails[middle]) < number) low = middle + 1
      else high = middle
    }
    previous[place] = low === 0 ? undefined : tails[low - 1]
    tails[low] = place
  }
  const found = new Set<number>()
  for (let place = tails.at(-1); place !== undefined; place = previous[place]) found.add(place)
  return found
}

export const stepFields = (before: StepDefinition, after: StepDefinition): ReadonlyArray<FieldChange> =>
  compareFields(fieldsOf(before), fieldsOf(after), name)

export const compare = (before: PlanDefinition, after: PlanDefinition): PlanDiff => {
  const from = pairs(before.steps, after.steps)
  const kept = new Set(from)
  const shared = from.flatMap((index, to) => (index === undefined ? [] : [{ index, to }]))
  const still = rising(shared.map(({ index }) => index))
  const changes: Array<StepChange> = []
  for (const [index, definition] of before.steps.entries()) {
    if (!kept.has(index)) changes.push({ _tag: "Removed", step: definition.name, index, definition })
  }
  for (const { index, to } of shared) {
    const old = before.steps[index]
    const now = after.steps[to]
    if (old === undefined || now === undefined) continue
    const fields = stepFields(old, now)
    if (fields.length > 0) changes.push({ _tag: "Changed", step: old.name, index, fields })
  }
  for (const [place, { index, to }] of shared.entries()) {
    if (!still.has(place)) changes.push({ _tag: "Moved", step: after.steps[to]?.name ?? "", from: index, to })
  }
  for (const [index, definition] of after.steps.entries()) {
    if (from[index] === undefined) changes.push({ _tag: "Added", step: definition.name, index, definition })
  }
  return { plan: compareFields(fieldsOf(before), fieldsOf(after), steps), steps: changes }
}
