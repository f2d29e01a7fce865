/** What comes next: the first table of `PlanTransition`. */
import * as Arr from "effect/Array"
import * as Option from "effect/Option"
import type { PlanOutcome } from "../../PlanOutcome.ts"
import type { Member, PlanRunState } from "../../PlanRunState.ts"
import type { Action, Rules } from "../../PlanTransition.ts"
import { positions, turnAt } from "./positions.ts"
import * as states from "./state.ts"

const finish = (outcome: PlanOutcome): Action => ({ _tag: "Finish", outcome })

export const next = ({ definition }: Rules, self: PlanRunState): Action => {
  if (self.outcome !== undefined) return finish(self.outcome)
  if (self.interrupted !== undefined) return finish({ _tag: "Interrupted", ...self.interrupted })
  if (self.turn !== undefined) return inTurn(self, self.turn.members)
  if (self.choosing !== undefined) return { _tag: "ChooseRoute", step: self.choosing }
  const { cursor } = self
  if (cursor === undefined) return finish({ _tag: "Completed", output: output(self) })
  const position = positions(definition).get(cursor)
  const steps = position === undefined ? [] : turnAt(definition, position).map(({ name }) => name)
  // Only a state of another definition has such a cursor
  if (!Arr.isReadonlyArrayNonEmpty(steps)) return finish({ _tag: "Failed", step: cursor, failure: changed(cursor) })
  return self.iterations < self.maxIterations
    ? { _tag: "RunSteps", steps }
    : finish({ _tag: "LimitReached", limit: self.maxIterations, next: cursor })
}

const changed = (step: string) => ({
  type: "PlanChanged",
  message: `expected a plan with the step ${JSON.stringify(step)}, found one without it: it was edited since`,
  retryable: false
})

/** What `fromPrev` reads, and what a plan gives when it ends here. */
const output = (self: PlanRunState) =>
  Option.match(states.recordAt(self, self.previous), {
    onNone: () => self.input.payload,
    onSome: (record) => record.output
  })

/** Whether nothing is left to do for a step before the turn can be judged. */
const ended = ({ status }: Member): boolean => status._tag !== "Waiting" && status._tag !== "Running"

/** A band waits for all; then an answer counts before a pause, and a pause before a failure. */
const inTurn = (self: PlanRunState, members: ReadonlyArray<Member>): Action => {
  const open = members.filter((member) => !ended(member)).map(({ step }) => step)
  if (Arr.isReadonlyArrayNonEmpty(open)) return { _tag: "RunSteps", steps: open }
  let failed: PlanOutcome | undefined
  let paused = false
  for (const { status, step } of members) {
    if (status._tag === "Concluded") return finish({ _tag: "Concluded", answer: status.answer })
    if (status._tag === "Paused") paused = true
    if (status._tag === "Failed") failed ??= { _tag: "Failed", step, failure: status.failure }
  }
  return failed === undefined || paused
    ? finish({ _tag: "Paused", pauses: states.pauses(self), requests: states.approvalRequests(self) })
    : finish(failed)
}
