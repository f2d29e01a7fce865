/** The definition that a difference makes of the one before. */
import * as Result from "effect/Result"
import type { PlanDefinition } from "../../PlanDefinition.ts"
import type { FieldChange, PlanDiff } from "../../PlanDiff.ts"
import { equals } from "../json.ts"
import { type Fields, fieldsOf } from "./fields.ts"
import { nameOf } from "../picture/text.ts"

const same = (fields: Fields, { before, field }: FieldChange): boolean => {
  const found = Object.hasOwn(fields, field) ? fields[field] : undefined
  return found === undefined || before === undefined ? found === before : equals(found, before)
}

const change = (fields: Fields, changes: ReadonlyArray<FieldChange>, where: string): Result.Result<Fields, string> => {
  const wrong = changes.find((change) => !same(fields, change))
  if (wrong !== undefined) {
    return Result.fail(`expected the field "${nameOf(wrong.field)}" of ${where} as it was before, found another value`)
  }
  const gone = new Set(changes.flatMap(({ after, field }) => (after === undefined ? [field] : [])))
  const left = Object.entries(fields).filter(([field]) => !gone.has(field))
  const set = changes.flatMap(({ after, field }) => (after === undefined ? [] : [[field, after] as const]))
  return Result.succeed(Object.fromEntries([...left, ...set]))
}

/** The definition after the changes, as JSON. */
export const applyTo = (diff: PlanDiff, before: PlanDefinition): Result.Result<object, string> =>
  Result.gen(function* () {
    const steps: Array<Fields | undefined> = before.steps.map(fieldsOf)
    const placed = new Map<number, Fields>()

    const at = (index: number, name: string): Result.Result<Fields, string> => {
      const step = before.steps[index]
      return step?.name === name
        ? Result.succeed(steps[index] ?? fieldsOf(step))
        : Result.fail(`expected the step "${nameOf(name)}" at position ${index}, found another or none`)
    }

    for (const step of diff.steps) {
      if (step._tag !== "Changed") continue
      steps[step.index] = yield* change(yield* at(step.index, step.step), step.fields, `step "${nameOf(step.step)}"`)
    }
    for (const step of diff.steps) {
      if (step._tag === "Removed") {
        yield* at(step.index, step.step)
        steps[step.index] = undefined
      } else if (step._tag === "Moved") {
        placed.set(step.to, yield* at(step.from, step.step))
        steps[step.from] = undefined
      } else if (step._tag === "Added") placed.set(step.index, fieldsOf(step.definition))
    }

    const rest = steps.filter((step) => step !== undefined)
    const total = rest.length + placed.size
    const after: Array<Fields> = []
    for (let index = 0; index < total; index++) {
      const step = placed.get(index) ?? rest.shift()
      if (step === undefined)
        return yield* Result.fail(`expected a step at position ${index} after the changes, found none`)
      after.push(step)
    }
    const plan = yield* change(fieldsOf(before), diff.plan, "the plan")
    return { ...plan, steps: after }
  })
