/** The closest name, for as many names as time allows: names come from outside, and so does their number. */
import { type Budget, closest } from "../check/similarity.ts"

export type Suggest = (name: string, known: ReadonlyArray<string>) => string | undefined

export const suggester = (): Suggest => {
  const budget: Budget = { left: 1_000_000 }
  return (name, known) => (budget.left > 0 ? closest(name, known, budget) : undefined)
}
