/**
 * The agent `support`. Its instructions and its model are found anew for every run.
 */
import { Config, Effect } from "effect"
import { Agent, RunContext } from "effect-emissary"
import { Tenant, Tools } from "./tools.ts"

export class Support extends Agent.Service<Support>()("support", {
  model: Config.String("EMISSARY_MODEL").pipe(Config.withDefault("scripted/support")),
  instructions: RunContext.read(Tenant).pipe(
    Effect.map(({ tenant }) => `You help customers of ${tenant}. Use the tools, and say so when one of them fails.`)
  ),
  toolkit: Tools,
  maxSteps: 8
}) {}
