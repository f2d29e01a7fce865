import { assert } from "@effect/vitest"
import { equal } from "../family.ts"
import { type Call, isParallel, isRaised, type Observed, type RunResult, stepsOf, targetOf } from "./vocabulary.ts"

/** Which band the target of a call belongs to: members of one band are called in no order. */
const bandsOf = (plan: unknown): ReadonlyMap<string, number> => {
  const bands = new Map<string, number>()
  let band = 0
  for (const step of stepsOf(plan)) {
    if (!isParallel(step)) band++
    else bands.set(targetOf(step).name, band)
  }
  return bands
}

const sorted = (calls: ReadonlyArray<Call>): ReadonlyArray<Call> =>
  calls.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))

/** The calls, where the calls of one band that follow each other have a fixed order. */
const normalized = (trace: ReadonlyArray<Call>, plan: unknown): ReadonlyArray<Call> => {
  const bands = bandsOf(plan)
  const bandOf = ([name]: Call) => bands.get(String(name))
  const groups: Array<Array<Call>> = []
  for (const call of trace) {
    const group = groups.at(-1)
    const [first] = group ?? []
    if (group !== undefined && first !== undefined && bandOf(call) !== undefined && bandOf(first) === bandOf(call)) group.push(call)
    else groups.push([call])
  }
  return groups.flatMap(sorted)
}

/** Of a message the names of steps have to be there, its wording is free. */
const mentionsSteps = (actual: string, expected: string, plan: unknown): void => {
  for (const { name } of stepsOf(plan)) {
    if (typeof name === "string" && expected.includes(`'${name}'`)) assert.include(actual, name)
  }
}

/** The failures that the recordings raise in one place and return in another, and that have one channel here. */
const oneChannel = new Set(["PlanRuntimeError", "ConcurrentPlanRunError", "ConcludeSignal"])

const asRaised = (result: RunResult): RunResult =>
  !isRaised(result) && result.error !== undefined && oneChannel.has(result.error.type)
    ? { RAISED: result.error.type, message: result.error.message }
    : result

export const equalResults = (actual: RunResult, recorded: RunResult, plan: unknown): void => {
  const expected = asRaised(recorded)
  if (isRaised(expected)) {
    assert(isRaised(actual), `expected ${expected.RAISED}, found ${JSON.stringify(actual)}`)
    assert.strictEqual(actual.RAISED, expected.RAISED, actual.message)
    mentionsSteps(actual.message ?? "", expected.message ?? "", plan)
    return
  }
  assert(!isRaised(actual), `expected a result, found ${JSON.stringify(actual)}`)
  const { error, ...rest } = expected
  const { error: found, ...own } = actual
  equal(own, rest, "result")
  equal(
    found === undefined ? null : { type: found.type, retryable: found.retryable },
    error === undefined ? null : { type: error.type, retryable: error.retryable },
    "error"
  )
  if (error !== undefined && found !== undefined) mentionsSteps(found.message, error.message, plan)
}

export const equalRuns = (actual: Observed, expected: Observed, plan: unknown): void => {
  equal(normalized(actual.trace, plan), normalized(expected.trace, plan), "trace")
  equalResults(actual.result, expected.result, plan)
}
