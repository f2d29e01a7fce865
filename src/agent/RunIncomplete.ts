/**
 * Why `ask` has no answer to give.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Outcome } from "./Outcome.ts"
import { RunState } from "./RunState.ts"

const advice = Outcome.match({
  Completed: () => "Read the answer from the state.",
  MaxSteps: () => "Resume from its state with a larger maxSteps.",
  AwaitingApproval: ({ requests }) =>
    `Resume from its state with decisions about ${requests.map(({ callId, name }) => `${JSON.stringify(callId)} (${name})`).join(", ")}.`,
  Interrupted: () => "Resume from its state when the cause is gone.",
  InvalidOutput: ({ issues }) =>
    `The answer had ${issues.length} problems with the output schema: ${issues.map((issue) => (issue.path === "" ? "the root" : issue.path)).join(", ")}.`,
  Stopped: ({ finishReason }) => `The provider stopped with ${JSON.stringify(finishReason)}.`
})

/**
 * A run ended, but not with an answer. Use `run` where that is nothing unusual.
 *
 * @category errors
 * @since 0.1.0
 */
export class RunIncomplete extends Schema.TaggedError<RunIncomplete>("effect-emissary/agent/RunIncomplete")(
  "RunIncomplete",
  { outcome: Outcome, state: RunState }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `Agent ${JSON.stringify(this.state.agent)}: expected an answer, found that the run ended ${this.outcome._tag}. ${advice(this.outcome)}`
  }
}
