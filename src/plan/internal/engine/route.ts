/** Where a step that finished goes on. */
import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Json from "../../../payload/Json.ts"
import type { StepDefinition } from "../../PlanDefinition.ts"
import * as PlanError from "../../PlanError.ts"
import type { RouteTaken } from "../../PlanRunEvent.ts"
import * as PlanRunState from "../../PlanRunState.ts"
import * as When from "../../When.ts"
import { routable } from "../routable.ts"
import { text } from "../text.ts"
import { failureOf, ofCause } from "./attempt.ts"
import type { Run } from "./run.ts"

/** Whether choosing asks code. */
export const asksCode = (step: StepDefinition): boolean =>
  (step.routes ?? []).some(({ when }) => When.customs(when).length > 0)

/** A predicate that ended badly. It gives no signals: what it fails with is a failure. */
const failedWith = (
  step: string,
  to: string,
  predicate: string,
  cause: Cause.Cause<unknown>
): Effect.Effect<never, PlanError.PredicateFailed> =>
  Effect.flatMap(
    ofCause(`the predicate ${JSON.stringify(predicate)} of step ${JSON.stringify(step)}`, cause),
    (attempt) => {
      const error = Cause.squash(cause)
      const failure = attempt._tag === "Failed" ? attempt.failure : failureOf(error)
      return Effect.fail(PlanError.withCause(new PlanError.PredicateFailed({ step, to, predicate, failure }), error))
    }
  )

const chosen = Effect.fnUntraced(function* (
  { bound, recorder }: Run,
  definition: StepDefinition
): Effect.fn.Return<string | undefined, PlanError.PredicateFailed> {
  const { name: step, routes, routesBy } = definition
  const record = Option.getOrUndefined(PlanRunState.record(recorder.state(), step))
  const payload = record?.output ?? null
  if (routes !== undefined && routes.length > 0) {
    const subject = { payload, text: text(payload) }
    for (const { to, when } of routes) {
      const ask = (name: string): Effect.Effect<boolean, PlanError.PredicateFailed> => {
        const predicate = bound.predicates.get(name)
        if (predicate === undefined) return Effect.die(new Error(`no predicate ${JSON.stringify(name)}`))
        const asked = Effect.suspend(() => predicate({ step, ...subject }))
        return Effect.catchCause(asked, (cause) => failedWith(step, to, name, cause))
      }
      if (yield* When.evaluate(when, subject, ask)) return to
    }
    return undefined
  }
  if (routesBy === undefined || !Json.isObject(payload) || !Object.hasOwn(payload, routesBy)) return undefined
  const to = payload[routesBy]
  return typeof to === "string" && routable(bound.definition, definition).has(to) ? to : undefined
})

/** The fact of the route that the newest record of a step takes. */
export const choose = Effect.fnUntraced(function* (
  run: Run,
  definition: StepDefinition
): Effect.fn.Return<RouteTaken, PlanError.PredicateFailed> {
  const to = yield* chosen(run, definition)
  const at = yield* DateTime.now
  return { _tag: "RouteTaken", at, step: definition.name, ...(to === undefined ? undefined : { to }) }
})
