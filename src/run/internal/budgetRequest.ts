/** Questions about budgets: a run asks whether it may continue where a limit refuses a call, and the answer raises the limit or ends the run. */

import * as Schema from "effect/Schema"
import * as ledger from "./ledger.ts"
import type * as runRequests from "./runRequests.ts"

const more = ledger.Usage.limit

/**
 * The limit that is asked about. `of` is the run that has the budget, and `more` the amount that an answer without an amount grants. In the
 * event of an answer, `more` is the amount that it grants, and 0 ends the run `of`.
 */
export const About = Schema.Struct({ ...ledger.Usage, of: Schema.String, more }).annotate({ identifier: "AboutBudget" })

export interface About extends Schema.Schema.Type<typeof About> {}

/** The name of the request. */
export const name = "budget"

/** The id of the request. A limit that was raised has another one. */
export const idOf = ({ limit, scope, unit }: ledger.Usage): string => [name, scope, unit, limit].join(":")

/** The unit as a person reads it, and the size of its number in the unit of the ledger. */
const units: Readonly<Record<ledger.Unit, readonly [words: string, size: number]>> = {
  inputTokens: ["input tokens", 1],
  outputTokens: ["output tokens", 1],
  totalTokens: ["tokens", 1],
  micros: ["of money", 1_000_000],
  modelCalls: ["model calls", 1],
  toolCalls: ["calls of tools", 1],
  millis: ["seconds", 1000]
}

/** The question, and the JSON Schema of its answer. */
export const questionOf = ({ limit, more, scope, unit }: About) => {
  const [words, size] = units[unit]
  const shown = (amount: number) => `${amount / size} ${words}`
  const question = `The budget of this ${scope} is used up: ${shown(limit)}. Continue with ${shown(more)} more, or stop?`
  const amount = {
    type: "number",
    exclusiveMinimum: 0,
    description: `${words} more; default: ${more / size}`
  }
  const schema = {
    type: "object",
    properties: { choice: { type: "string", enum: ["continue", "stop"] }, more: amount },
    required: ["choice"],
    additionalProperties: false
  }
  const ask: runRequests.Ask = { kind: "Question", schema }
  return { arguments: { question }, ask }
}

const isAnswer = Schema.is(
  Schema.Struct({ choice: Schema.Literal("continue"), more: Schema.optionalKey(Schema.Finite) })
)

/** The effect of an answer. Another answer than "continue" stops the run. */
export const grantOf = (about: About, { answer }: Pick<runRequests.Verdict, "answer">): About => {
  if (!isAnswer(answer)) return { ...about, more: 0 }
  const [, size] = units[about.unit]
  const named = answer.more === undefined ? about.more : Math.floor(answer.more * size + 1e-6)
  return { ...about, more: Math.min(Math.max(1, named), Number.MAX_SAFE_INTEGER) }
}
