/**
 * Suggestions for a misspelled name.
 */

import * as base from "./base.ts"
import * as fuel from "./fuel.ts"

/** A sentence after others, or nothing. */
export const didYouMean = (suggestion: string | undefined): string =>
  suggestion === undefined ? "" : ` Did you mean ${base.quote(suggestion)}?`

/** The units for all searches of one message or check, and those for one pair of characters. */
const searchUnits = 100_000
const pairUnits = 1 / 50

/** The fuel of all searches of one message or check: names come from outside. */
export const makeFuel = (part = 1): fuel.Fuel => fuel.make(searchUnits * part)

/** The name with the fewest edits, if these are less than half of the letters and at most `most`. None once the fuel is spent. */
export const closestName = (
  name: string,
  known: Iterable<string>,
  tank: fuel.Fuel,
  most = Infinity
): string | undefined => {
  let best: string | undefined
  let least = Math.min(name.length / 2, most + 1)
  for (const candidate of known) {
    if (Math.abs(candidate.length - name.length) >= least) continue
    if (!fuel.spend(tank, (name.length + 1) * (candidate.length + 1) * pairUnits)) return undefined
    const edits = countEdits(name, candidate)
    if (edits >= least) continue
    best = candidate
    least = edits
  }
  return best
}

/** The Levenshtein distance; each letter of `from` changes the row of the distances to the beginnings of `to`. */
const countEdits = (from: string, to: string): number => {
  const row = Array.from({ length: to.length + 1 }, (_, index) => index)
  let count = 0
  for (const letter of from) {
    const code = letter.codePointAt(0)
    let [left, diagonal] = [count + 1, count]
    row[0] = left
    for (let j = 0; j < to.length; j++) {
      const above = row[j + 1] ?? 0
      left = Math.min(above + 1, left + 1, to.charCodeAt(j) === code ? diagonal : diagonal + 1)
      row[j + 1] = left
      diagonal = above
    }
    count += 1
  }
  return row.at(-1) ?? 0
}

/** The closest names, the best first, as `closestName` finds them one after another. */
export const closestNames = (name: string, known: ReadonlyArray<string>, most: number = 3): ReadonlyArray<string> => {
  const tank = makeFuel()
  const found: Array<string> = []
  while (found.length < most) {
    const next = closestName(
      name,
      known.filter((candidate) => !found.includes(candidate)),
      tank
    )
    if (next === undefined) break
    found.push(next)
  }
  return found
}
