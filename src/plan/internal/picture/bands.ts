import type { StepDefinition } from "../../PlanDefinition.ts"

/** The positions that run together when a run comes to position `at`: a step, or a band from there on. */
export const turnAt = (steps: ReadonlyArray<{ readonly parallel: boolean }>, at: number): ReadonlyArray<number> => {
  const members = [at]
  if (steps[at]?.parallel !== true) return members
  for (let next = at + 1; steps[next]?.parallel === true; next++) members.push(next)
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
