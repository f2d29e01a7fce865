/** Whether one pass through a plan can write a key twice. */
import * as Names from "../../../payload/Names.ts"
import type { PlanProblem } from "../../PlanProblem.ts"
import { type Flow, NONE } from "./flow.ts"
import { at, bandOf, named, type Outline } from "./outline.ts"

/** For the position of a step, the position of an earlier one that can have written its key before. */
export type Collisions = ReadonlyMap<number, number>

/**
 * The steps whose keys may have been written already.
 *
 * Members of one band always collide. Others do when a run can get from one to the other without going
 * back: going back begins another pass, and replacing what the last one wrote is what loops are for. Steps
 * in different branches of one router exclude each other, whatever happens when no route is taken.
 */
export const collisions = (outline: Outline, flow: Flow | undefined): Collisions => {
  const writers = new Map<string, Array<number>>()
  outline.steps.forEach(({ writes }, index) => {
    if (writes === undefined) return
    const known = writers.get(writes)
    if (known === undefined) writers.set(writes, [index])
    else known.push(index)
  })
  const found = new Map<number, number>()
  const ordered = flow === undefined ? undefined : forward(flow)
  for (const positions of writers.values()) {
    if (positions.length < 2) continue
    siblings(outline, positions, found)
    if (ordered !== undefined) along(outline, positions, ordered, found)
  }
  return found
}

export const check = (outline: Outline, index: number, found: Collisions): ReadonlyArray<PlanProblem> => {
  const other = found.get(index)
  const key = outline.steps[index]?.writes
  if (other === undefined || key === undefined) return []
  const isBand = bandOf(outline, other).first === bandOf(outline, index).first
  return at(outline, index, {
    code: "WritesCollision",
    slot: "writes",
    value: Names.quote(key),
    problem: isBand
      ? `step ${named(outline, other)} of the same parallel band writes that key, too`
      : `step ${named(outline, other)} can have written that key before in the same pass, and would be overwritten`,
    fix: "Write different keys, or make the steps branches of one router"
  })
}

const siblings = (outline: Outline, positions: ReadonlyArray<number>, found: Map<number, number>) => {
  const firsts = new Map<number, number>()
  for (const position of positions) {
    const band = bandOf(outline, position).first
    const earlier = firsts.get(band)
    if (earlier === undefined) firsts.set(band, position)
    else found.set(position, earlier)
  }
}

/** The places of a flow by position, with the moves to later positions only. */
interface Forward {
  readonly flow: Flow
  readonly order: ReadonlyArray<number>
  readonly places: ReadonlyMap<number, ReadonlyArray<number>>
  /** The positions that are in a branch. */
  readonly branches: ReadonlySet<number>
}

const forward = (flow: Flow): Forward => {
  const places = new Map<number, Array<number>>()
  const branches = new Set<number>()
  flow.places.forEach(({ branch, position }, number) => {
    if (branch !== NONE) branches.add(position)
    const known = places.get(position)
    if (known === undefined) places.set(position, [number])
    else known.push(number)
  })
  const order = Array.from(places.keys()).sort((a, b) => a - b)
  return { flow, order, places, branches }
}

/** Carries the first writer of a key along all ways from it to the last one. */
const along = (
  outline: Outline,
  positions: ReadonlyArray<number>,
  { branches, flow, order, places }: Forward,
  found: Map<number, number>
) => {
  const first = bandOf(outline, positions[0] ?? 0).first
  const last = positions[positions.length - 1] ?? 0
  const writing = new Set(positions)
  const carried = new Map<number, number>()
  for (let turn = indexOf(order, first); turn < order.length; turn++) {
    const position = order[turn]
    if (position === undefined || position > last) return
    const { last: end } = bandOf(outline, position)
    for (const number of places.get(position) ?? []) {
      const before = carried.get(number)
      let writer = before
      for (let member = position; member <= end; member++) {
        if (!writing.has(member)) continue
        if (before !== undefined && !found.has(member)) found.set(member, before)
        const counts = flow.places[number]?.branch !== NONE || !branches.has(position)
        if (counts && (writer === undefined || member < writer)) writer = member
      }
      if (writer === undefined) continue
      for (const target of flow.next[number] ?? []) {
        const to = flow.places[target]
        if (to === undefined || to.position <= position) continue
        const known = carried.get(target)
        if (known === undefined || writer < known) carried.set(target, writer)
      }
    }
  }
}

/** Where a position, or the next higher one, stands in a sorted list. */
const indexOf = (order: ReadonlyArray<number>, position: number): number => {
  let low = 0
  let high = order.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((order[middle] ?? 0) < position) low = middle + 1
    else high = middle
  }
  return low
}
