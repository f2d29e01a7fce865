/** Rules about the plan as a whole, and about what names look like. */
import * as Names from "../../../payload/Names.ts"
import type { PlanProblem } from "../../PlanProblem.ts"
import { maxNameLength } from "../names/rules.ts"
import { list } from "../names/words.ts"
import { at, type Outline, sorted } from "./outline.ts"

const CONTROL = /\p{Cc}/u

/** Names that occur twice, all of them in one problem. */
export const duplicates = ({ steps }: Outline): ReadonlyArray<PlanProblem> => {
  const seen = new Set<string>()
  const twice = new Set<string>()
  for (const { name } of steps) {
    if (seen.has(name)) twice.add(name)
    seen.add(name)
  }
  if (twice.size === 0) return []
  const reason = `Steps: expected names that are unique, found more than one step of the names ${list(sorted(twice))}. Rename all but one of each.`
  return [{ code: "DuplicateNames", slot: "name", reason }]
}

/** The limit of iterations. */
export const limit = ({ definition: { maxIterations } }: Outline, highest: number): ReadonlyArray<PlanProblem> =>
  Number.isInteger(maxIterations) && maxIterations >= 0 && maxIterations <= highest
    ? []
    : [
        {
          code: "InvalidLimit",
          slot: "maxIterations",
          reason: `maxIterations: expected a whole number from 0 to ${highest}, found ${maxIterations}. Steps outside bands, and bands, count as one each.`
        }
      ]

/** The name of a step. */
export const stepName = (outline: Outline, index: number): ReadonlyArray<PlanProblem> =>
  named(outline, index, "name", outline.steps[index]?.name)

/** The key a step writes. */
export const writesKey = (outline: Outline, index: number): ReadonlyArray<PlanProblem> =>
  named(outline, index, "writes", outline.steps[index]?.writes)

const named = (outline: Outline, index: number, slot: string, name: string | undefined): ReadonlyArray<PlanProblem> => {
  const found = name === undefined ? undefined : fault(name)
  return found === undefined || name === undefined
    ? []
    : at(outline, index, {
        code: "InvalidName",
        slot,
        value: Names.quote(name),
        problem: `expected 1 to ${maxNameLength} characters without control characters, found ${found}`,
        fix: slot === "name" ? "Give the step another name" : "Write another key, or none"
      })
}

/** What is wrong with a name, whichever version it comes from. */
export const fault = (name: string): string | undefined =>
  name === ""
    ? "nothing"
    : name.length > maxNameLength
      ? `${name.length} characters`
      : CONTROL.test(name)
        ? "a control character"
        : undefined
