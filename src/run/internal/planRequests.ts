/**
 * The requests of a plan that answers in place of a model, as its steps asked them. The run holds the events of the
 * plan and does not know its steps, so the requests that the end of the plan repeats are compared with the events in
 * which they were asked.
 */

import * as Equal from "effect/Equal"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as planRunParts from "./planRunParts.ts"
import * as runParts from "./runParts.ts"
import type * as runValues from "./runValues.ts"

/** The transition of the agents in steps, which checks what these ask. */
interface Runs {
  readonly start: (event: runParts.EventOf<"RunStarted">) => runParts.State
  readonly apply: (self: runParts.State, event: runParts.Event) => Result.Result<runParts.State, unknown>
  readonly requests: (self: runParts.State) => ReadonlyArray<runValues.ApprovalRequest>
}

/** A request without its path. `callId` is absent in events from before it was recorded. */
interface Asked {
  readonly callId: string | undefined
  readonly name: string
  readonly arguments: Schema.Json
  readonly digest: string
}

type Inner =
  | { readonly _tag: "Agent"; readonly state: runParts.State }
  | { readonly _tag: "Plan"; readonly plan: Asking }

/** A plan under way, by its steps: what each asked, and what runs in it. */
interface Asking {
  readonly runId: string
  readonly asked: Map<string, Asked>
  readonly inner: Map<string, Inner>
}

const begin = (runId: string): Asking => ({ runId, asked: new Map(), inner: new Map() })

type StepPaused = Extract<runParts.PlanRunEvent, { readonly _tag: "StepPaused" }>

/** The turn of the step, which the digest covers, is a part of the id. */
const readPause = (self: Asking, { callId, input, question, step }: StepPaused): boolean => {
  if (question === undefined) return self.asked.delete(step) || true
  const { digest, reason = "", request } = question
  const turn = callId?.startsWith(`${step}:`) ? /^\d+/.exec(callId.slice(step.length + 1))?.[0] : undefined
  const isForged = callId !== undefined && runParts.isForgedQuestion([self.runId, `${step}:${turn}`], question, input)
  self.asked.set(step, { callId, digest, ...(request ?? { name: step, arguments: { reason } }) })
  return !isForged
}

/** False for an event that shows something else than its digest covers, or than was asked, or that does not follow. */
const read = (runs: Runs, self: Asking, event: runParts.PlanRunEvent): boolean => {
  switch (event._tag) {
    case "StepPaused":
      return readPause(self, event)
    case "PlanFinished":
      return event.outcome._tag !== "Paused" || endsWith(shownIn(runs, self, []), event.outcome)
    case "NestedChanged": {
      const { event: inner, step } = event
      const before = self.inner.get(step)
      if (inner._tag === "PlanStarted") self.inner.set(step, { _tag: "Plan", plan: begin(inner.runId) })
      return inner._tag === "PlanStarted" || before?._tag !== "Plan" || read(runs, before.plan, inner)
    }
    case "AgentChanged": {
      const { event: inner, step } = event
      const before = self.inner.get(step)
      if (inner._tag === "RunStarted") self.inner.set(step, { _tag: "Agent", state: runs.start(inner) })
      if (inner._tag === "RunStarted" || before?._tag !== "Agent") return true
      const after = runs.apply(before.state, inner)
      if (Result.isSuccess(after)) self.inner.set(step, { _tag: "Agent", state: after.success })
      return Result.isSuccess(after)
    }
    default:
      return true
  }
}

type Shown = Asked & { readonly path: ReadonlyArray<string> }

const shownIn = (runs: Runs, self: Asking, path: ReadonlyArray<string>): ReadonlyArray<Shown> => [
  ...Array.from(self.asked.values(), (asked) => ({ ...asked, path })),
  ...Array.from(self.inner).flatMap(([step, inner]) =>
    inner._tag === "Plan"
      ? shownIn(runs, inner.plan, [...path, step])
      : runs.requests(inner.state).map((request) => ({ ...request, path: [...path, step, ...(request.path ?? [])] }))
  )
]

/** True if each request at the end of a plan is shown as it was asked. */
const endsWith = (all: ReadonlyArray<Shown>, outcome: Parameters<typeof planRunParts.requestsOf>[0]): boolean =>
  planRunParts
    .requestsOf(outcome)
    .every((request) =>
      all.some(
        ({ callId = request.callId, digest, name, path, ...asked }) =>
          callId === request.callId &&
          digest === request.digest &&
          name === request.name &&
          Equal.equals(path, request.path ?? []) &&
          Equal.equals(asked.arguments, request.arguments)
      )
    )

/** True for the events of a plan, from its start on, that show something else than its steps, and what runs in them, asked. */
export const areForged = (runs: Runs, events: Iterable<runParts.PlanRunEvent>): boolean => {
  let self: Asking | undefined
  let isHonest = true
  for (const event of events) {
    if (event._tag === "PlanStarted") self = begin(event.runId)
    else if (self !== undefined) isHonest = read(runs, self, event) && isHonest
  }
  return !isHonest
}
