import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { Limits } from "../../Limits.ts"
import type { ValidationIssue } from "../../ValidationIssue.ts"
import { evaluate } from "./evaluate.ts"
import { toPath, toPointer } from "./location.ts"
import type { Node } from "./model.ts"
import { normalize } from "./normalize.ts"
import type { PlainProblem } from "./plain.ts"
import { plainCopy } from "./plain.ts"
import type { Run } from "./run.ts"

export const defaultMaxSteps = 1_000_000

interface Options {
  readonly normalize: boolean
  readonly strict: boolean
  readonly coerce: boolean
  readonly maxIssues: number
  readonly maxSteps: number
  readonly limits: Limits
}

const explain = (problem: PlainProblem): string => {
  switch (problem._tag) {
    case "NotJson":
      return `expected plain JSON, got ${problem.found}`
    case "ForbiddenKey":
      return `the key ${JSON.stringify(problem.key)} is not allowed`
    case "TooDeep":
      return `nested deeper than ${problem.limit}`
    case "TooLarge":
      return `${problem.what} is at least ${problem.found}, the limit is ${problem.limit}`
  }
}

const budget = (run: Run, maxSteps: number): ReadonlyArray<ValidationIssue> => [
  {
    path: "",
    pointer: "",
    keyword: "budget",
    message:
      run.exhausted === "depth"
        ? "validation was given up: schema and value are nested too deeply in each other"
        : `validation was given up after ${maxSteps} steps: the value is too large or the schema too costly; send less, or raise maxSteps`
  }
]

/** Copies, completes and evaluates a value. */
export const check = (
  root: Node,
  input: unknown,
  options: Options
): Result.Result<Schema.Json, ReadonlyArray<ValidationIssue>> => {
  const plain = plainCopy(input, options.limits)
  if ("_tag" in plain) {
    const { at } = plain
    return Result.fail([{ path: toPath(at), pointer: toPointer(at), keyword: "json", message: explain(plain) }])
  }
  const run: Run = {
    steps: options.maxSteps,
    depth: 0,
    exhausted: undefined,
    issues: [],
    maxIssues: Math.max(1, options.maxIssues),
    strict: options.strict,
    coerce: options.coerce
  }
  const value = options.normalize ? normalize(root, plain.value, run) : plain.value
  const issues: Array<ValidationIssue> = []
  run.issues = issues
  const ok = run.exhausted === undefined && evaluate(root, value, undefined, run)
  if (run.exhausted !== undefined) return Result.fail(budget(run, options.maxSteps))
  return ok ? Result.succeed(value) : Result.fail(issues)
}
