/** Turns and bands: the steps that run together, and where they stand. */
import type { StepDefinition } from "../PlanDefinition.ts"

type Steps = ReadonlyArray<{ readonly parallel: boolean }>

/** The position after the turn that begins at a position: after the step, or after the rest of its band. */
export const turnEnd = (steps: Steps, at: number): number => {
  let end = at + 1
  if (steps[at]?.parallel === true) while (steps[end]?.parallel === true) end += 1
  return end
}

/** The positions that run together when a run comes to a position: a step, or a band from there on. */
export const turnAt = (steps: Steps, at: number): ReadonlyArray<number> => {
  const members: Array<number> = []
  for (let position = at, end = turnEnd(steps, at); position < end; position++) members.push(position)
  return members
}

/** The steps in order, those of a band together. */
export const inBands = <A extends { readonly parallel: boolean }>(
  steps: ReadonlyArray<A>
): ReadonlyArray<readonly [A, ...Array<A>]> => {
  const bands: Array<[A, ...Array<A>]> = []
  let open: [A, ...Array<A>] | undefined
  for (const step of steps) {
    if (step.parallel && open !== undefined) {
      open.push(step)
      continue
    }
    const band: [A, ...Array<A>] = [step]
    bands.push(band)
    open = step.parallel ? band : undefined
  }
  return bands
}

/** Positions of steps by name; of several with one name, the first. */
export const positionsOf = (steps: ReadonlyArray<StepDefinition>): ReadonlyMap<string, number> => {
  const positions = new Map<string, number>()
  for (const [index, { name }] of steps.entries()) if (!positions.has(name)) positions.set(name, index)
  return positions
}
