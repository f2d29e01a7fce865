/**
 * The stacks of branches that a run can be in, as a graph: for each router, what its branch can lie on.
 * The stacks are all there, and some more, for a router has one set for all the ways to it.
 */

/** No branch is taken. */
export const NONE = -1

/** A run that goes somewhere, and which branches it leaves thereby. */
export interface Move {
  readonly id: number
  readonly to: number
  /** Whether it follows a route, and so leaves the branches whose routers are here or later. */
  readonly isRoute: boolean
  /** The router whose branch begins, or {@link NONE}. */
  readonly enters: number
}

export interface Branches {
  /** A branch begins on top of another one. */
  readonly enter: (router: number, lower: number) => void
  /** The newest branch after a move, now and whenever another one is found. */
  readonly arrive: (move: Move, branch: number, found: (branch: number) => void) => void
  /** Works off what has been found. Undefined if it was too much, otherwise how much it was. */
  readonly settle: (most: number) => number | undefined
}

interface Node {
  readonly results: Set<number>
  readonly consumers: Array<(branch: number) => void>
}

export const make = (rejoins: ReadonlyArray<number | undefined>): Branches => {
  const below = new Map<number, Node>()
  const whole = new Map<string, Node>()
  const work: Array<() => void> = []
  let cost = 0

  const add = (node: Node, branch: number) => {
    if (node.results.has(branch)) return
    node.results.add(branch)
    for (const consumer of node.consumers) work.push(() => consumer(branch))
  }
  const consume = (node: Node, consumer: (branch: number) => void) => {
    node.consumers.push(consumer)
    for (const branch of node.results) work.push(() => consumer(branch))
  }
  const lower = (branch: number): Node => {
    const known = below.get(branch)
    if (known !== undefined) return known
    const made: Node = { results: new Set(), consumers: [] }
    below.set(branch, made)
    return made
  }
  const node = (move: Move, kind: string, branch: number, fill: (node: Node) => void): Node => {
    const key = `${kind}${move.id}:${branch}`
    const known = whole.get(key)
    if (known !== undefined) return known
    const made: Node = { results: new Set(), consumers: [] }
    whole.set(key, made)
    fill(made)
    return made
  }
  /** What is left of a stack that does not rejoin where the move goes: all but what the route leaves. */
  const kept = (move: Move, branch: number): Node =>
    node(move, "kept", branch, (self) => {
      if (branch === NONE) return add(self, NONE)
      if (rejoins[branch] === move.to) return
      const leaves = move.isRoute && (branch >= move.to || branch === move.enters)
      consume(lower(branch), (next) =>
        consume(kept(move, next), (rest) => {
          if (leaves) return add(self, rest)
          add(lower(branch), rest)
          add(self, branch)
        })
      )
    })
  /** What is left of a stack that rejoins there: what lies below the lowest branch that does. */
  const cut = (move: Move, branch: number): Node =>
    node(move, "cut", branch, (self) => {
      if (branch === NONE) return
      consume(lower(branch), (next) => {
        consume(cut(move, next), (rest) => add(self, rest))
        if (rejoins[branch] === move.to) consume(kept(move, next), (rest) => add(self, rest))
      })
    })

  return {
    enter: (router, branch) => add(lower(router), branch),
    arrive: (move, branch, found) => {
      consume(kept(move, branch), found)
      consume(cut(move, branch), found)
    },
    settle: (most) => {
      for (let next = work.pop(); next !== undefined; next = work.pop()) {
        next()
        if (++cost > most) return undefined
      }
      return cost
    }
  }
}
