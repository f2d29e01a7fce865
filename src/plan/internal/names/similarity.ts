/** The known name that is closest to an unknown one (Ratcliff and Obershelp). */

/** How alike two names have to be. */
const CUTOFF = 0.6

/** What all searches of one check may cost together, in pairs of characters: names come from outside. */
export interface Budget {
  left: number
}

export const budget = (left = 5_000_000): Budget => ({ left })

/**
 * The best match, if it is alike by 0.6 or more; of equals, the one that sorts last. None once the budget
 * is spent.
 */
export const closest = (name: string, known: Iterable<string>, budget: Budget): string | undefined => {
  if (budget.left <= 0) return undefined
  const word = Array.from(name)
  const counts = count(word)
  let best: { readonly name: string; readonly ratio: number } | undefined
  for (const candidate of known) {
    const letters = Array.from(candidate)
    const least = best?.ratio ?? CUTOFF
    budget.left -= letters.length + word.length
    if (budget.left <= 0) return undefined
    if (upperBound(letters, word, counts) < least) continue
    budget.left -= letters.length * word.length
    if (budget.left <= 0) return undefined
    const ratio = similarity(letters, word)
    if (ratio < CUTOFF) continue
    if (best === undefined || ratio > best.ratio || (ratio === best.ratio && candidate > best.name)) {
      best = { name: candidate, ratio }
    }
  }
  return best?.name
}

/** Twice the number of matching characters over the number of characters of both. */
export const ratio = (a: string, b: string): number => similarity(Array.from(a), Array.from(b))

const similarity = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): number =>
  a.length + b.length === 0 ? 1 : (2 * matching(a, b)) / (a.length + b.length)

/** The longest common run, and then the same on both sides of it. */
const matching = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): number => {
  const places = new Map<string, Array<number>>()
  b.forEach((letter, j) => {
    const found = places.get(letter)
    if (found === undefined) places.set(letter, [j])
    else found.push(j)
  })
  let total = 0
  const open: Array<readonly [number, number, number, number]> = [[0, a.length, 0, b.length]]
  for (let range = open.pop(); range !== undefined; range = open.pop()) {
    const [fromA, toA, fromB, toB] = range
    const run = longest(a, places, range)
    if (run.length === 0) continue
    total += run.length
    open.push([fromA, run.a, fromB, run.b], [run.a + run.length, toA, run.b + run.length, toB])
  }
  return total
}

/** The longest common run; of equals, the first in `a`, then the first in `b`. */
const longest = (
  a: ReadonlyArray<string>,
  places: ReadonlyMap<string, ReadonlyArray<number>>,
  [fromA, toA, fromB, toB]: readonly [number, number, number, number]
) => {
  let best = { a: fromA, b: fromB, length: 0 }
  let ending = new Map<number, number>()
  for (let i = fromA; i < toA; i++) {
    const next = new Map<number, number>()
    for (const j of places.get(a[i] ?? "") ?? []) {
      if (j < fromB || j >= toB) continue
      const length = (ending.get(j - 1) ?? 0) + 1
      next.set(j, length)
      if (length > best.length) best = { a: i - length + 1, b: j - length + 1, length }
    }
    ending = next
  }
  return best
}

const count = (letters: ReadonlyArray<string>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const letter of letters) counts.set(letter, (counts.get(letter) ?? 0) + 1)
  return counts
}

/** No order of the characters could be more alike than this. */
const upperBound = (
  letters: ReadonlyArray<string>,
  word: ReadonlyArray<string>,
  counts: ReadonlyMap<string, number>
): number => {
  const total = letters.length + word.length
  if (total === 0) return 1
  const lengths = (2 * Math.min(letters.length, word.length)) / total
  if (lengths < CUTOFF) return lengths
  const used = new Map<string, number>()
  let common = 0
  for (const letter of letters) {
    const taken = used.get(letter) ?? 0
    if (taken >= (counts.get(letter) ?? 0)) continue
    used.set(letter, taken + 1)
    common++
  }
  return (2 * common) / total
}
