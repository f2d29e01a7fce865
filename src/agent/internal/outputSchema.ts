/** What an agent answers, as a Schema that hangs on the agent. */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"

const key = "~effect-emissary/agent/Agent/OutputSchema"

/** The member of an agent that tells its Schema. It is handed on by whatever copies agents. */
export const member = (schema: Schema.Top | undefined): { readonly [key]?: Schema.Top } =>
  schema === undefined ? {} : { [key]: schema }

export const of = (agent: unknown): Option.Option<Schema.Top> =>
  Predicate.hasProperty(agent, key) && Schema.isSchema(agent[key]) ? Option.some(agent[key]) : Option.none()
