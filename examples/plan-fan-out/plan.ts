/** Three experts work at the same time; an editor reads all of them. */
import { Agent } from "effect-emissary"
import { Plan, Reference, Step } from "effect-emissary/plan"

const expert = (field: string) => Agent.make(field, { instructions: `You are an expert of ${field}. One sentence.` })

const editor = Agent.make("editor", { instructions: "Make one paragraph of what the experts say." })

const retry = { times: 2, delay: "1 second", factor: 2 } as const

export const plan = Plan.make("fan-out", [
  Step.make("geology", { target: expert("geology"), parallel: true, retry }),
  Step.make("history", { target: expert("history"), parallel: true, retry }),
  Step.make("biology", { target: expert("biology"), parallel: true, timeout: "1 minute" }),
  Step.make("edit", {
    target: editor,
    task: Reference.fromStart,
    context: Reference.fromParallelAll("geology"),
    writes: "paragraph"
  })
])
