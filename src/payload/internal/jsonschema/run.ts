import type { ValidationIssue } from "../../ValidationIssue.ts"
import { maxPaths } from "../pointer.ts"
import type { Location } from "./location.ts"
import { toPath, toPointer } from "./location.ts"

/** The state of one validation. */
export interface Run {
  /** Steps that may still be taken. */
  steps: number
  depth: number
  /** Set when the work was given up; nothing found afterwards counts. */
  exhausted: "steps" | "depth" | undefined
  /** `undefined` while only the answer counts: then the first failure ends the work. */
  issues: Array<ValidationIssue> | undefined
  readonly maxIssues: number
  readonly strict: boolean
  readonly coerce: boolean
}

/** Subschemas inside one another at run time; far from the end of the stack. */
const maxRunDepth = 700

export const spend = (run: Run, steps: number): boolean => {
  if (run.exhausted !== undefined) return false
  run.steps -= steps
  if (run.steps < 0) run.exhausted = "steps"
  return run.exhausted === undefined
}

export const enter = (run: Run): boolean => {
  if (run.depth >= maxRunDepth) run.exhausted ??= "depth"
  if (run.exhausted !== undefined) return false
  run.depth++
  return true
}

export const leave = (run: Run): void => {
  run.depth--
}

/** Enough issues: as many as were asked for, or with paths so long (keys come from outside) that the list would swell. */
const isFull = (issues: ReadonlyArray<ValidationIssue>, maxIssues: number): boolean =>
  issues.length >= maxIssues || issues.reduce((size, { path }) => size + path.length, 0) > maxPaths

/** Nothing more will be learnt: given up, or enough issues. */
export const isDone = (run: Run): boolean =>
  run.exhausted !== undefined || run.issues === undefined || isFull(run.issues, run.maxIssues)

/** Notes an issue once, unless only the answer counts or there are enough. */
export const note = (run: Run, issue: ValidationIssue): void => {
  if (run.issues === undefined || isFull(run.issues, run.maxIssues)) return
  const same = run.issues.some(({ message, pointer }) => message === issue.message && pointer === issue.pointer)
  if (!same) run.issues.push(issue)
}

/** Notes an issue and is the answer "no". */
export const report = (run: Run, at: Location | undefined, keyword: string, message: string): false => {
  if (run.issues !== undefined && !isFull(run.issues, run.maxIssues))
    note(run, { path: toPath(at), pointer: toPointer(at), keyword, message })
  return false
}

/** Runs a part whose issues do not matter. */
export const quietly = <A>(run: Run, part: () => A): A => {
  const issues = run.issues
  run.issues = undefined
  const result = part()
  run.issues = issues
  return result
}

/** Runs a part and keeps its issues apart. */
export const apart = <A>(run: Run, part: () => A): readonly [A, ReadonlyArray<ValidationIssue>] => {
  const issues = run.issues
  const own: Array<ValidationIssue> = []
  run.issues = own
  const result = part()
  run.issues = issues
  return [result, own]
}
