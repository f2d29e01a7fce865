/** Whether what a step reads can fit its input, along the ways that data really takes. */
import type { JsonObject } from "../../../payload/Json.ts"
import type { PlanProblem } from "../../PlanProblem.ts"
import { readsText } from "../step/readsText.ts"
import { conflict } from "./compatible.ts"
import { type Flow, NONE } from "./flow.ts"
import { show } from "../references.ts"
import { document } from "./jsonSchema.ts"
import { at, bandOf, named, type Outline } from "./outline.ts"

/** Something that a task can be, and its schema if that is known. */
interface Source {
  readonly name: string
  readonly json: JsonObject | undefined
}

const text: JsonObject = { type: "string" }

/** The steps whose results come right before each step, by position. */
export type Previous = ReadonlyMap<number, ReadonlySet<number>>

/**
 * The steps that can run right before each step. After a band that is its last declared member. A step
 * that is in a branch is judged as such: what else can happen is that no route was taken, and then steps
 * run one after the other that were never meant to.
 */
export const previous = (outline: Outline, { next, places }: Flow): Previous => {
  const branches = new Set<number>()
  for (const { branch, position } of places) if (branch !== NONE) branches.add(position)
  const found = new Map<number, Set<number>>()
  next.forEach((targets, from) => {
    const source = bandOf(outline, places[from]?.position ?? 0).last
    for (const target of targets) {
      const to = places[target]
      if (to === undefined || (to.branch === NONE && branches.has(to.position))) continue
      const known = found.get(to.position)
      if (known === undefined) found.set(to.position, new Set([source]))
      else known.add(source)
    }
  })
  return found
}

export const check = (outline: Outline, index: number, previous: Previous | undefined): ReadonlyArray<PlanProblem> => {
  const step = outline.steps[index]
  const taken = step?.input?.json
  if (step === undefined || taken === undefined) return []
  const conflicts = sources(outline, index, previous).flatMap(({ json, name }) => {
    const reason = json === undefined ? undefined : conflict(json, taken, outline.search)
    return reason === undefined ? [] : [`${name}: ${reason}`]
  })
  if (conflicts.length === 0) return []
  const input = step.input?.name === undefined ? "" : ` (${JSON.stringify(step.input.name)})`
  const shown = conflicts.slice(0, 5).join("; ")
  return at(outline, index, {
    code: "IncompatibleTypes",
    slot: "input",
    problem: `its input${input} can never be what task = ${show(step.task)} reads, ${shown}`,
    fix: "Change the input, the output of that step, or the task"
  })
}

const sources = (outline: Outline, index: number, previous: Previous | undefined): ReadonlyArray<Source> => {
  const step = outline.steps[index]
  const task = step?.task
  switch (task?._tag) {
    case "FromPrev": {
      const before = previous?.get(bandOf(outline, index).first) ?? []
      return Array.from(before)
        .sort((a, b) => a - b)
        .flatMap((position) => output(outline, position))
    }
    case "FromStep":
    case "FromParallel": {
      const position = outline.positions.get(task.step)
      return position === undefined || position >= index ? [] : output(outline, position)
    }
    case "FromParallelAll": {
      const position = outline.positions.get(task.step)
      if (position === undefined || position >= index) return []
      return step !== undefined && readsText(step)
        ? [{ name: "the text of a band", json: text }]
        : [band(outline, position)]
    }
    case "FromMemory":
      return [{ name: "the text of a memory", json: text }]
    case "Literal":
      return [{ name: "a text", json: { type: "string", const: task.value } }]
    default:
      return []
  }
}

const bands = new WeakMap<Outline, Map<number, Source>>()

/** What a band gives; made once, however many steps read it. */
const band = (outline: Outline, first: number): Source => {
  const known = bands.get(outline) ?? new Map<number, Source>()
  bands.set(outline, known)
  const source = known.get(first) ?? bandSource(outline, first)
  known.set(first, source)
  return source
}

/** What the members of a band give, each under its name. */
const bandSource = (outline: Outline, first: number): Source => {
  const members = outline.steps.slice(first, bandOf(outline, first).last + 1)
  const json: JsonObject = {
    type: "object",
    properties: Object.fromEntries(members.map(({ name, output }) => [name, document(output?.json ?? {})])),
    required: members.map(({ name }) => name),
    additionalProperties: false
  }
  return { name: `what the band of step ${named(outline, first)} gives`, json }
}

const output = (outline: Outline, position: number): ReadonlyArray<Source> => {
  const found = outline.steps[position]?.output
  const called = found?.name === undefined ? "" : ` (${JSON.stringify(found.name)})`
  return [{ name: `the output${called} of step ${named(outline, position)}`, json: found?.json }]
}
