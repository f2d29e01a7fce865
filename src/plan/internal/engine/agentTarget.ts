/** An agent as a step: its events are facts of the plan's run, and its state is part of that of the plan. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Agent } from "../../../agent/Agent.ts"
import * as AgentEvent from "../../../agent/AgentEvent.ts"
import type { RunEvent } from "../../../agent/RunEvent.ts"
import type { Input, ResumeOptions } from "../../../agent/RunOptions.ts"
import type { RunResult } from "../../../agent/RunResult.ts"
import { hasInput, type RunState } from "../../../agent/RunState.ts"
import type { ValidationIssue } from "../../../payload/ValidationIssue.ts"
import * as Content from "../../../tool/Content.ts"
import type { PlanError } from "../../PlanError.ts"
import { type Attempt, failed, ofCause, succeeded } from "./attempt.ts"
import type { Delivery } from "./reference.ts"
import type { Run } from "./run.ts"

/** The task, and before it the context and the content, each as a part of its own. */
const inputOf = ({ content, context, task }: Delivery): Input => {
  if (context === undefined && content.length === 0) return task
  const before = [...(context === undefined ? [] : [Content.text(context)]), ...content]
  const [first, ...rest] = task === "" ? before : [...before, Content.text(task)]
  return first === undefined ? task : [first, ...rest]
}

/** As in the errors of schemas. */
const issues = (found: ReadonlyArray<ValidationIssue>): string => {
  const shown = found.slice(0, 10).map(({ message, pointer }) => {
    const problem =
      message === "Missing key" ? "expected a value, found nothing" : message.replace(/^Expected /, "expected ")
    return `${pointer === "" ? "at the root" : `at ${pointer}`}: ${problem}`
  })
  return `${shown.join("; ")}${found.length > shown.length ? ` and ${found.length - shown.length} more` : ""}`
}

const ofResult = (agent: string, result: RunResult<unknown>): Attempt => {
  const name = JSON.stringify(agent)
  switch (result.outcome) {
    case "Completed": {
      const { outcome } = result.state
      const output = outcome?._tag === "Completed" ? outcome.output : undefined
      return succeeded(output ?? (output === null ? null : result.text))
    }
    case "AwaitingApproval":
      return { _tag: "Paused" }
    case "MaxSteps":
      return failed("MaxSteps", `The agent ${name} used up its ${result.steps} steps before it answered`)
    case "InvalidOutput":
      return failed(
        "InvalidOutput",
        `The answer of the agent ${name} does not fit its output schema: ${issues(result.issues)}`
      )
    case "Stopped":
      return failed("Stopped", `The provider ended the answer of the agent ${name}: ${result.finishReason}`)
    case "Interrupted":
      return failed(
        "Interrupted",
        `The agent ${name} was interrupted${result.reason === undefined ? "" : `: ${result.reason}`}`
      )
  }
}

/** Runs an agent from its beginning, or from where it stopped. Fails when the run cannot be written. */
export const run = (
  { options, recorder, sink }: Run,
  agent: Agent<unknown>,
  child: RunState | undefined,
  delivery: Delivery
): Effect.Effect<Attempt, PlanError> =>
  Effect.suspend(() => {
    const { step } = delivery
    const broken = Deferred.makeUnsafe<never, PlanError>()
    const onState = (_: RunState, event: RunEvent): Effect.Effect<void> =>
      Effect.catch(recorder.record({ _tag: "AgentChanged", at: event.at, step, event }), (error) =>
        // It does nothing more until it is interrupted, also where nothing else could interrupt it.
        Effect.andThen(Deferred.fail(broken, error), Effect.interruptible(Effect.never))
      )
    const { context } = recorder.state()
    const { timeouts } = options
    const handed: ResumeOptions = { onState, timeouts: { step: timeouts?.step, tool: timeouts?.tool } }
    const input = inputOf(delivery)
    // It can have been cut off before it was told anything
    const again = child !== undefined && !hasInput(child) ? { ...handed, input } : handed
    const told = <R>(stream: Stream.Stream<AgentEvent.AgentEvent<unknown>, R>) =>
      AgentEvent.result(Stream.tap(stream, (event) => sink.emit({ _tag: "Agent", path: [], step, event })))
    const running =
      child === undefined
        ? sink.streaming
          ? told(agent.stream(input, { ...handed, context }))
          : agent.run(input, { ...handed, context })
        : sink.streaming
          ? told(agent.resumeStream(child, again))
          : agent.resume(child, again)
    const attempt = running.pipe(
      Effect.map((result) => ofResult(agent.name, result)),
      Effect.catchCause((cause) => ofCause(`step ${JSON.stringify(step)}`, cause))
    )
    return Effect.raceFirst(attempt, Deferred.await(broken))
  })
