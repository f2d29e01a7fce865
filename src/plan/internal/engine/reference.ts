/** What a step reads: its references, resolved against a run, and put together for its target. */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type { Content } from "../../../tool/Content.ts"
import { ReferenceFailed } from "../../PlanError.ts"
import type * as PlanInput from "../../PlanInput.ts"
import type { StepRecord } from "../../PlanRunEvent.ts"
import * as PlanRunState from "../../PlanRunState.ts"
import type { Reference } from "../../Reference.ts"
import { turnEnd } from "../bands.ts"
import type { BoundPlan, LiveStep } from "../live.ts"
import { readsText } from "../step/readsText.ts"
import { contextOf, isList, show } from "../references.ts"
import { text } from "../text.ts"

/** What one reference gives. */
interface Resolved {
  readonly task: string
  readonly payload: Schema.Json
  readonly context: string | undefined
  readonly content: ReadonlyArray<Content>
  /** What the payload is in words, where that is not its one rendering. */
  readonly said?: string
}

/** What a target is given. */
export interface Delivery {
  readonly step: string
  readonly task: string
  readonly payload: Schema.Json
  readonly context: string | undefined
  readonly content: ReadonlyArray<Content>
}

const plain = (value: Schema.Json): Resolved => ({
  task: text(value),
  payload: value,
  context: undefined,
  content: []
})

const ofInput = (input: PlanInput.PlanInput): Resolved => ({
  task: input.task,
  payload: input.payload,
  context: input.context,
  content: input.content ?? []
})

const ofRecord = (record: StepRecord): Resolved => ({ ...plain(record.output), context: record.context })

/** In words each member under its name, and as a payload an object of what they gave. */
const ofBand = (records: ReadonlyArray<StepRecord>): Resolved => {
  const said = records.map(({ output, step }) => `[${step}]\n${text(output)}`).join("\n\n")
  const payload = Object.fromEntries(records.map(({ output, step }) => [step, output]))
  return { ...plain(payload), task: said, said }
}

interface Where {
  readonly bound: BoundPlan
  readonly state: PlanRunState.PlanRunState
  readonly step: string
  readonly slot: string
}

const missing = ({ slot, state, step }: Where, reference: Reference): ReferenceFailed =>
  new ReferenceFailed({
    step,
    slot,
    reference: show(reference),
    ran: Array.from(new Set(Chunk.map(state.history, (record) => record.step))).sort()
  })

const newest = (where: Where, reference: Reference, step: string): Effect.Effect<StepRecord, ReferenceFailed> =>
  Effect.mapError(Effect.fromOption(PlanRunState.record(where.state, step)), () => missing(where, reference))

/** The steps of the band that begins with a step. */
const bandFrom = (bound: BoundPlan, step: string): ReadonlyArray<string> => {
  const { steps } = bound.definition
  const first = bound.positions.get(step)
  return first === undefined ? [step] : steps.slice(first, turnEnd(steps, first)).map(({ name }) => name)
}

const resolve = (where: Where, reference: Reference): Effect.Effect<Resolved, unknown> => {
  const { bound, state } = where
  switch (reference._tag) {
    case "FromPrev":
      return Effect.succeed(
        Option.match(PlanRunState.lastRecord(state), {
          onNone: () => ({ ...ofInput(state.input), task: text(state.input.payload) }),
          onSome: ofRecord
        })
      )
    case "FromStart":
      return Effect.succeed(ofInput(state.input))
    case "FromStep":
    case "FromParallel":
      return Effect.map(newest(where, reference, reference.step), ofRecord)
    case "FromParallelAll":
      return Effect.map(
        Effect.forEach(bandFrom(bound, reference.step), (step) => newest(where, reference, step)),
        ofBand
      )
    case "FromMemory":
      return Effect.map(bound.memories.get(reference.agent)?.text ?? Effect.succeed(""), plain)
    case "FromAgent":
      return Effect.map(bound.memories.get(reference.agent)?.output ?? Effect.succeed(""), (output) =>
        plain(output ?? "")
      )
    case "Literal":
      return Effect.succeed(plain(reference.value))
  }
}

const contextParts = ({ context, payload, said }: Resolved): ReadonlyArray<string> =>
  [context ?? "", said ?? text(payload)].filter((part) => part !== "")

/** A step whose input is text, and an agent or a plan without an input schema, is told a band in words. */
const payloadFor = ({ definition, input, target }: LiveStep, { payload, said }: Resolved): Schema.Json => {
  const inWords = input === undefined ? target._tag !== "Function" : readsText(definition)
  return inWords ? (said ?? payload) : payload
}

/**
 * What a step is given. Fails with `ReferenceFailed`, or with what reading a memory fails
 * with.
 */
export const deliver = Effect.fnUntraced(function* (
  bound: BoundPlan,
  state: PlanRunState.PlanRunState,
  live: LiveStep
): Effect.fn.Return<Delivery, unknown> {
  const { definition } = live
  const { context, name: step } = definition
  const where = { bound, state, step }
  const task = yield* resolve({ ...where, slot: "task" }, definition.task)
  const many = context !== undefined && isList(context)
  const parts = yield* Effect.forEach(contextOf(context), (reference, index) =>
    Effect.map(resolve({ ...where, slot: many ? `context[${index}]` : "context" }, reference), contextParts)
  )
  const joined = parts.flat().join("\n\n")
  return {
    step,
    task: task.task,
    payload: payloadFor(live, task),
    context: joined === "" ? undefined : joined,
    content: task.content
  }
})
