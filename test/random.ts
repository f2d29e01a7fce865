/** Random choices that a seed repeats (mulberry32). */
export const random = (seed: number) => {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
  const below = (n: number) => Math.floor(next() * n)
  const pick = <A>(list: ReadonlyArray<A>): A => {
    const index = below(list.length)
    if (index >= list.length) throw new Error("empty list")
    // Sound: the index is inside the list, whose items may be undefined
    return list[index] as A
  }
  const times = <A>(n: number, make: () => A): Array<A> => Array.from({ length: n }, make)
  const chance = (probability: number) => next() < probability
  return { next, below, pick, times, chance }
}

export type Random = ReturnType<typeof random>
