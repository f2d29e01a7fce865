/** An agent decides where a message goes; whatever happened to it, it is archived. */
import { Effect, Schema } from "effect"
import { Agent } from "effect-emissary"
import { Plan, Reference, Step } from "effect-emissary/plan"

const Verdict = Schema.Struct({ severity: Schema.Literals(["urgent", "normal", "spam"]), why: Schema.String })

const triage = Agent.make("triage", { instructions: "How severe is this message?", output: Verdict })

export const plan = Plan.make("triage", [
  Step.make("triage", { target: triage, routesBy: "severity", afterBranches: "archive" }),
  Step.make("urgent", {
    task: Reference.fromStart,
    target: ({ task }) => Effect.succeed(`Somebody is called about: ${task}`)
  }),
  Step.make("normal", {
    task: Reference.fromStart,
    target: ({ task }) => Effect.succeed(`A ticket is opened: ${task}`)
  }),
  Step.make("spam", { task: Reference.fromStep("triage"), target: () => Effect.succeed("Dropped.") }),
  Step.make("archive", { target: ({ task }) => Effect.succeed(`${task} (archived)`) })
])
