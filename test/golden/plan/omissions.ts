import { type Case, isObject } from "./vocabulary.ts"

const foreignTypes = "values of the wrong host type: TypeScript refuses them where the plan is written"
const graphs =
  "a registration of live agents in a session; ours is made of definitions and plans, and holds steps (S20.1, PLAN-9)"

const byId: { readonly [id: string]: string } = {
  D46: foreignTypes,
  D48: foreignTypes,
  D50: foreignTypes,
  D51: foreignTypes,
  D58: "names that are derived from a function: every step has a name of its own here",
  D60: "a plan is an agent and has a name, so nothing wraps it",
  J03: foreignTypes,
  J13: "an option that does not exist: a fork is one policy of starting a run, resuming is a method of its own",
  J15: "an option that does not exist: the buffer of a stream is no option",
  N01: graphs,
  O03: "a store given to one call: the store is a service here, and there is one",
  O18: "a store whose durable writes throw: see the tests of Checkpoint (a write that fails is pending and done first on resume)"
}

/** Why a case is left out, if it is. */
export const omissionOf = ({ given, id }: Case): string | undefined => {
  if (Object.hasOwn(byId, id)) return byId[id]
  const input = given["input"]
  return isObject(input) && isObject(input["error"])
    ? "an input that carries an error: failures are in the error channel, so that no input has one (S10.1 ADVICE)"
    : undefined
}
