/** Steps as they are written. */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import type { StepDefinition } from "../../PlanDefinition.ts"
import type { PlanProblem } from "../../PlanProblem.ts"
import * as Reference from "../../Reference.ts"
import type { RetryPolicy } from "../../RetryPolicy.ts"
import type { Options, Retry, Step, TypeId as Id } from "../../Step.ts"
import type { StepSchema } from "../../Target.ts"
import type { LiveTarget } from "../live.ts"
import { type Resolved, resolve, type Written as Target } from "./target.ts"

export const TypeId: Id = "~effect-emissary/plan/Step"

/** A step before its schemas are exported. */
export interface StepParts extends Resolved {
  /** Without `input` and `output`. */
  readonly definition: StepDefinition
  readonly input: StepSchema | undefined
  readonly output: StepSchema | undefined
  /** What is wrong with times and retries. */
  readonly problems: ReadonlyArray<Pick<PlanProblem, "code" | "slot" | "reason">>
}

type Problems = Array<Pick<PlanProblem, "code" | "slot" | "reason">>

const kinds = { Tool: "tool", Agent: "agent", Function: "function" } as const

const nameOf = (target: LiveTarget): string => (target._tag === "Function" ? target.target.name : target.name)

const isNumber = (value: unknown, least: number): boolean =>
  value === undefined || (typeof value === "number" && Number.isFinite(value) && value >= least)

/** Milliseconds of a time, absent when there is no end to it. */
const millis = (name: string, slot: string, input: Duration.Input | undefined, problems: Problems) => {
  if (input === undefined) return undefined
  const duration = Duration.fromInput(input)
  if (Option.isNone(duration)) {
    problems.push({
      code: "InvalidDuration",
      slot,
      reason: `Step ${JSON.stringify(name)}, ${slot}: expected a duration such as "30 seconds", found ${JSON.stringify(String(input))}.`
    })
    return undefined
  }
  const value = Duration.toMillis(duration.value)
  return Number.isFinite(value) ? value : undefined
}

const given = <K extends string, V>(key: K, value: V | undefined): { readonly [key in K]?: V } =>
  // Sound: the object has the key, or nothing.
  (value === undefined ? {} : { [key]: value }) as { readonly [key in K]?: V }

const retryPolicy = (name: string, retry: Retry | undefined, problems: Problems): RetryPolicy | undefined => {
  if (retry === undefined) return undefined
  const policy: RetryPolicy = {
    times: retry.times,
    ...given(
      "delayMillis",
      "delayMillis" in retry ? retry.delayMillis : millis(name, "retry.delay", delayOf(retry), problems)
    ),
    ...given("factor", retry.factor),
    ...given(
      "maxDelayMillis",
      "maxDelayMillis" in retry ? retry.maxDelayMillis : millis(name, "retry.maxDelay", maxDelayOf(retry), problems)
    )
  }
  const wrong =
    !Number.isInteger(policy.times) || policy.times < 0
      ? `times: expected a whole number from 0, found ${policy.times}`
      : !isNumber(policy.factor, 1)
        ? `factor: expected a number from 1, found ${policy.factor}`
        : !isNumber(policy.delayMillis, 0) || !isNumber(policy.maxDelayMillis, 0)
          ? "expected pauses of 0 milliseconds or longer"
          : undefined
  if (wrong !== undefined) {
    problems.push({ code: "InvalidRetry", slot: "retry", reason: `Step ${JSON.stringify(name)}, retry: ${wrong}.` })
  }
  return policy
}

const delayOf = (retry: Retry) => ("delay" in retry ? retry.delay : undefined)

const maxDelayOf = (retry: Retry) => ("maxDelay" in retry ? retry.maxDelay : undefined)

/** The options of `Step.make`, whatever their types tie together. */
type Written = Omit<Options<string, string, string, string, string, StepSchema, StepSchema, unknown>, "target"> & {
  readonly target: Target
}

type References = Reference.Input | ReadonlyArray<Reference.Input>

const isList = (input: References): input is ReadonlyArray<Reference.Input> => Array.isArray(input)

const references = (input: References): Reference.Reference | ReadonlyArray<Reference.Reference> =>
  isList(input) ? input.map((item) => Reference.fromInput(item)) : Reference.fromInput(input)

/** The body of `Step.make`. It never fails: what is wrong is told by the plan, with everything else. */
export const make = (name: string, options: Written): Step<never, never, never> => {
  const problems: Problems = []
  const { foreign, source, target } = resolve(name, options.target, options)
  if (foreign !== undefined) {
    problems.push({
      code: "InvalidTarget",
      slot: "target",
      reason: `Step ${JSON.stringify(name)}, target: expected a function, Target.make(...), an agent or its class, a plan that is bound, or the name of a tool or an agent, found ${foreign}.`
    })
  }
  const own = target._tag === "Function" ? target.target.schemas : undefined
  const definition: StepDefinition = {
    name,
    target: { kind: kinds[target._tag], name: nameOf(target) },
    task: options.task === undefined ? Reference.fromPrev : Reference.fromInput(options.task),
    ...given("context", options.context === undefined ? undefined : references(options.context)),
    ...given("writes", options.writes),
    parallel: options.parallel ?? false,
    ...given(
      "routes",
      options.routes?.map(([to, when]) => ({ to, when }))
    ),
    ...given("routesBy", options.routesBy),
    ...given("afterBranches", options.afterBranches),
    ...given("timeoutMillis", millis(name, "timeout", options.timeout, problems)),
    ...given("retry", retryPolicy(name, options.retry, problems))
  }
  return {
    [TypeId]: { _Refs: (_: never) => _, _R: (_: never) => _ },
    // Sound: `Step.make` gives the type its name.
    name: name as never,
    parts: {
      definition,
      target,
      source,
      input: options.input ?? own?.input,
      output: options.output ?? own?.output,
      problems
    }
  }
}
