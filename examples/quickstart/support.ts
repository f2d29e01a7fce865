/**
 * The agent `support`. Its instructions and its model are found anew for every run.
 */
import { Effect } from "effect"
import { Agent, RunContext } from "effect-emissary"
import { modelName } from "./scenario.ts"
import { Tenant, Tools } from "./tools.ts"

export class Support extends Agent.Service<Support>()("support", {
  model: modelName,
  instructions: RunContext.read(Tenant).pipe(
    Effect.map(({ tenant }) => `You help customers of ${tenant}. Use the tools, and say so when one of them fails.`)
  ),
  toolkit: Tools,
  maxSteps: 8
}) {}
