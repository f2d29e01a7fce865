/**
 * The ledger of budgets: what runs may use, what they have used, and what their open calls have reserved. All of it is pure.
 *
 * A budget is an option of a run, of an agent or of a session, and is written like this:
 *
 *     const result = yield* support.run("Where is order 42?", {
 *       budget: { money: 0.5, modelCalls: 20, time: "2 minutes" }
 *     })
 *     if (result.outcome === "BudgetExceeded") yield* Effect.log(`${result.unit}: ${result.used} of ${result.limit}`)
 *
 * A run with a budget has an {@link Account}. It counts what the run and all runs inside it have used. What open calls have reserved is
 * no number of the account: it is found in the states of the runs, so it cannot be lost. A call starts if its reservation fits each
 * account of the runs around it.
 *
 * | step     | what is recorded                        | effect on each account around                                  |
 * | -------- | --------------------------------------- | -------------------------------------------------------------- |
 * | reserve  | the reservation, with the start         | it is held until the call ends; the call itself counts at once |
 * | settle   | the report, or else the reservation     | it is used, and nothing is held any more                       |
 * | refund   | the end of a call without an answer     | nothing is held any more                                       |
 * | fork     | the start of a run inside               | none; the run inside may have an account of its own            |
 * | merge    | the end of a run inside                 | none: each of its events has counted already                   |
 * | raise    | the answer to a question of the budget  | the limit is larger by what the answer grants                  |
 */

import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Message from "../../conversation/Message.ts"
import type * as options from "../../payload/internal/options.ts"
import { defined } from "../../payload/internal/values.ts"

/** The quantities that a budget limits. */
export const Unit = Schema.Literals([
  "inputTokens",
  "outputTokens",
  "totalTokens",
  "micros",
  "modelCalls",
  "toolCalls",
  "millis"
]).annotate({ identifier: "BudgetUnit" })

export type Unit = typeof Unit.Type

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const count = Schema.optionalKey(Count)

/** Quantities as data, in whole numbers. */
export const Amounts = Schema.Struct({
  inputTokens: count,
  outputTokens: count,
  totalTokens: count,
  micros: count,
  modelCalls: count,
  toolCalls: count,
  millis: count
}).annotate({ identifier: "BudgetAmounts" })

export interface Amounts extends Schema.Schema.Type<typeof Amounts> {}

const onExceeded = Schema.Literals(["ask", "stop"])

/** The limits of a budget as data, and what happens where one of them refuses a call; absent: the run ends. */
export const Limits = Schema.Struct({ ...Amounts.fields, onExceeded: Schema.optionalKey(onExceeded) }).annotate({
  identifier: "BudgetLimits"
})

export interface Limits extends Schema.Schema.Type<typeof Limits> {}

/** The limits of a run. A limit that is absent does not hold. */
export interface Budget {
  /** The tokens of all requests. */
  readonly inputTokens?: number | undefined
  /** The tokens of all answers. The rest of it is the limit of each answer, where the adapter of the model sends one. */
  readonly outputTokens?: number | undefined
  /** The tokens of all requests and answers. */
  readonly totalTokens?: number | undefined
  /** Money in the currency of your `ModelPrices`, counted in millionths, rounded up for each call. */
  readonly money?: number | undefined
  /** The requests to models, retries included. */
  readonly modelCalls?: number | undefined
  /** The calls of tools, agents that are tools included. */
  readonly toolCalls?: number | undefined
  /** The time in which a run is under way: not while it waits for a person, and not while no process has it. */
  readonly time?: Duration.Input | undefined
  /**
   * The end of a run where a limit refuses a call. `"stop"`, the default: the run ends as `BudgetExceeded`. `"ask"`: it waits for the answer to
   * a question, "continue" or "stop". An answer that continues raises the limit by as much as it was at first, or by the amount that it
   * names. A limit of 0 ends the run.
   */
  readonly onExceeded?: typeof onExceeded.Type | undefined
}

export const expected =
  'whole numbers from 0 as inputTokens, outputTokens, totalTokens, modelCalls and toolCalls, money from 0, a time that ends, and "ask" or "stop" as onExceeded'

const counts = ["inputTokens", "outputTokens", "totalTokens", "modelCalls", "toolCalls"] as const

const perUnit = 1_000_000

const microsOf = (money: unknown): number =>
  Predicate.isNumber(money) ? Math.floor(money * perUnit + 1e-6) : Number.NaN

const millisOf = (time: Duration.Input): number =>
  Option.match(Duration.fromInput(time), { onNone: () => Number.NaN, onSome: Duration.toMillis })

const isLimits = Schema.is(Limits)

/** The limits of a budget as data, `undefined` for an option that is none. */
export const limitsOf = (budget: unknown): Limits | undefined => {
  if (!Predicate.isObject(budget)) return undefined
  // Sound: what is made of it is checked
  const { money, onExceeded, time, ...rest } = budget as Budget
  const limits = defined({
    ...Object.fromEntries(counts.map((unit) => [unit, rest[unit]])),
    micros: money === undefined ? undefined : microsOf(money),
    millis: time === undefined ? undefined : Math.ceil(millisOf(time)),
    onExceeded
  })
  return isLimits(limits) ? limits : undefined
}

/** A budget with these limits: {@link limitsOf} the other way. */
export const budgetOf = ({ micros, millis, ...counts }: Limits): Budget => ({
  ...counts,
  ...defined({ money: micros === undefined ? undefined : micros / perUnit, time: millis })
})

/** The limits of both: of each unit the smaller one. The run ends where the outer limits are to end it. */
export const within = (some: Limits, others: Limits | undefined): Limits => {
  const limits: Amounts = defined(
    Object.fromEntries(
      Unit.literals.map((unit) => {
        const limit = Math.min(some[unit] ?? Infinity, others?.[unit] ?? Infinity)
        return [unit, limit === Infinity ? undefined : limit]
      })
    )
  )
  const { onExceeded } = others ?? some
  return { ...limits, ...defined({ onExceeded }) }
}

export const allowed: options.Allowed = { expected, fits: (budget) => limitsOf(budget) !== undefined }

/**
 * The limits of one budget, `from`, the use of the run when the budget began, and `raised`, by how much answers have raised the limits. `near`
 * are the units that `BudgetNeared` has reported.
 */
export const Scope = Schema.Struct({
  scope: Schema.String,
  limits: Limits,
  from: Amounts,
  near: Schema.Array(Unit),
  raised: Schema.optionalKey(Amounts)
}).annotate({ identifier: "BudgetScope" })

export interface Scope extends Schema.Schema.Type<typeof Scope> {}

/** A budget as events have it: its limits, and the name of what it is for. */
export const Given = Schema.Struct({ scope: Schema.String, limits: Limits })

export interface Given extends Schema.Schema.Type<typeof Given> {}

/** The use of a run and of all runs inside it, and the budgets that hold. */
export const Account = Schema.Struct({ used: Amounts, scopes: Schema.Array(Scope) }).annotate({
  identifier: "BudgetAccount"
})

export interface Account extends Schema.Schema.Type<typeof Account> {}

/** A limit of a budget, and how much of it is used. */
export const Usage = { scope: Schema.String, unit: Unit, limit: Count, used: Count }

const UsageSchema = Schema.Struct(Usage)

export interface Usage extends Schema.Schema.Type<typeof UsageSchema> {}

/** A limit with its use. Where the budget asks, `more` is the amount that an answer grants, and `of` the run that has the budget. */
export interface Limit extends Usage {
  readonly more?: number
  readonly of?: string
}

/** The budget of a session: it holds for all of its turns. All other budgets begin anew with each message or resume that has them. */
export const session = "session"

/** The account after more budgets: each takes the place of the budget with its scope. */
export const open = (self: Account | undefined, budgets: ReadonlyArray<Given>): Account => {
  const { scopes, used }: Account = self ?? { scopes: [], used: {} }
  const more = budgets.map(({ limits, scope }): Scope => {
    const before = scope === session ? scopes.find((one) => one.scope === scope) : undefined
    return { scope, limits, from: before?.from ?? used, near: [], ...defined({ raised: before?.raised }) }
  })
  const kept = scopes.filter(({ scope }) => !budgets.some((one) => one.scope === scope))
  return { used, scopes: [...kept, ...more] }
}

export const add = (a: Amounts, b: Amounts): Amounts => {
  const sum: { -readonly [K in Unit]?: number } = { ...a }
  for (const unit of Unit.literals) {
    const more = b[unit]
    if (more !== undefined) sum[unit] = Math.min((sum[unit] ?? 0) + more, Number.MAX_SAFE_INTEGER)
  }
  return sum
}

/** The account after more was used. */
export const charge = (self: Account, amounts: Amounts): Account => ({ ...self, used: add(self.used, amounts) })

/** The account after an answer that grants more of a limit. */
export const raise = (
  self: Account,
  { more, scope, unit }: Pick<Usage, "scope" | "unit"> & { more: number }
): Account => ({
  ...self,
  scopes: self.scopes.map((one) =>
    one.scope === scope
      ? { ...one, raised: add(one.raised ?? {}, { [unit]: more }), near: one.near.filter((known) => known !== unit) }
      : one
  )
})

/** The amount of a unit. All tokens are the tokens of requests and answers. */
const valueOf = (amounts: Amounts, unit: Unit): number =>
  unit === "totalTokens" ? (amounts.inputTokens ?? 0) + (amounts.outputTokens ?? 0) : (amounts[unit] ?? 0)

/** The limits of an account with what is used of them, `held` included. */
export const usages = ({ scopes, used }: Account, held: Amounts = {}, of = ""): ReadonlyArray<Limit> =>
  scopes.flatMap(({ from, limits, raised, scope }) =>
    Unit.literals.flatMap((unit): ReadonlyArray<Limit> => {
      const first = limits[unit]
      if (first === undefined) return []
      const limit = first + (raised?.[unit] ?? 0)
      const usage = { scope, unit, limit, used: valueOf(used, unit) - valueOf(from, unit) + valueOf(held, unit) }
      return [limits.onExceeded === "ask" && first > 0 ? { ...usage, more: first, of } : usage]
    })
  )

/** The milliseconds that the budgets leave, `undefined` where none has a limit of time. */
export const millisLeft = (self: Account): number | undefined => {
  const left = usages(self).flatMap(({ limit, unit, used }) => (unit === "millis" ? [Math.max(0, limit - used)] : []))
  return left.length === 0 ? undefined : Math.min(...left)
}

/** A budget of a run, and what is left of it. */
export const Line = Schema.Struct({ scope: Schema.String, limits: Amounts, left: Amounts }).annotate({
  identifier: "BudgetLine"
})

export interface Line extends Schema.Schema.Type<typeof Line> {}

/** The rest of each budget, without what is reserved. */
export const lines = (self: Account, held?: Amounts): ReadonlyArray<Line> => {
  const all = usages(self, held)
  return self.scopes.map(({ scope }) => {
    const ofScope = all.filter((one) => one.scope === scope)
    const limits = ofScope.map(({ limit, unit }) => [unit, limit] as const)
    const left = ofScope.map(({ limit, unit, used }) => [unit, Math.max(0, limit - used)] as const)
    return { scope, limits: Object.fromEntries(limits), left: Object.fromEntries(left) }
  })
}

/** The part of a limit from which on it is reported. */
const isNear = ({ limit, used }: Usage): boolean => used > 0 && used * 5 >= limit * 4

/** The first limit that is nearly used up, and was not reported. */
export const nearing = (self: Account): Usage | undefined => {
  const found = usages(self).find(
    (usage) =>
      isNear(usage) && !self.scopes.some(({ near, scope }) => scope === usage.scope && near.includes(usage.unit))
  )
  return found && usageOf(found)
}

/** The limit as events have it. */
export const usageOf = ({ limit, scope, unit, used }: Limit): Usage => ({ scope, unit, limit, used })

/** The account after a report. */
export const report = (self: Account, { scope, unit }: Pick<Usage, "scope" | "unit">): Account => ({
  ...self,
  scopes: self.scopes.map((one) => (one.scope === scope ? { ...one, near: [...one.near, unit] } : one))
})

/** The price of a model, for a million tokens. Prices that are absent are the price of `input`. */
export interface Price {
  /** The price of the tokens of a request. */
  readonly input: number
  /** The price of the tokens of an answer, reasoning included. */
  readonly output: number
  /** The price of the tokens that a provider reads from its cache; default: `input`. */
  readonly cacheRead?: number | undefined
  /** The price of the tokens that a provider writes to its cache; default: `input`. */
  readonly cacheWrite?: number | undefined
}

/** The cost of a call in millionths. A price for a million tokens is the same number of millionths for one. */
export const costOf = (price: Price, usage: Message.TokenUsage): number => {
  const { cacheReadTokens: read = 0, cacheWriteTokens: written = 0, inputTokens = 0, outputTokens = 0 } = usage
  const { cacheRead = price.input, cacheWrite = price.input } = price
  const plain = Math.max(0, inputTokens - read - written)
  const cost = plain * price.input + read * cacheRead + written * cacheWrite + outputTokens * price.output
  return Math.min(Math.ceil(cost), Number.MAX_SAFE_INTEGER)
}

/** The estimate of a model call: the tokens of its request, and at most so many of its answer. */
export interface Estimate {
  readonly inputTokens: number
  readonly outputTokens: number
  readonly price?: Price | undefined
}

const refused = (usage: Limit): Result.Result<never, Limit> => Result.fail(usage)

/** The most tokens of an answer that the rest of a limit allows. */
const mostOutput = ({ inputTokens, outputTokens, price }: Estimate, { limit, unit, used }: Usage): number => {
  const left = limit - used
  if (unit === "outputTokens") return Math.min(outputTokens, left)
  if (unit === "totalTokens") return Math.min(outputTokens, left - inputTokens)
  if (unit !== "micros" || price === undefined) return outputTokens
  const costs = (output: number) => costOf(price, { inputTokens, outputTokens: output })
  if (costs(outputTokens) <= left) return outputTokens
  const most = Math.floor((left - inputTokens * price.input) / price.output)
  return costs(most) <= left ? most : most - 1
}

/**
 * The reservation of a model call, or the limit that refuses it. The answer may have fewer tokens than was estimated, and at least one.
 */
export const reserve = (around: ReadonlyArray<Limit>, estimate: Estimate): Result.Result<Amounts, Limit> => {
  const { inputTokens, price } = estimate
  let { outputTokens } = estimate
  for (const usage of around) {
    const { limit, unit, used } = usage
    const needed = unit === "modelCalls" || unit === "millis" ? 1 : unit === "inputTokens" ? inputTokens : 0
    if (used + needed > limit) return refused(usage)
    outputTokens = Math.min(outputTokens, mostOutput({ ...estimate, outputTokens }, usage))
    if (outputTokens < 1) return refused(usage)
  }
  const micros = price && costOf(price, { inputTokens, outputTokens })
  return Result.succeed(defined({ inputTokens, outputTokens, micros }))
}

/** The reservation of a call in the budgets of keys, which other runs share. `limitsAnswers`: one of them limits the tokens of answers. */
export interface Hold {
  readonly id: string
  readonly keys: ReadonlyArray<string>
  readonly reserved: Amounts
  readonly limitsAnswers: boolean
}

const ofAnswers: ReadonlySet<Unit> = new Set(["outputTokens", "totalTokens", "micros"])

/** True where a budget limits the tokens of answers. */
export const limitsAnswers = (around: ReadonlyArray<Usage>): boolean => around.some(({ unit }) => ofAnswers.has(unit))

/** The limit that refuses a call of a tool, if one does. */
export const refusesTool = (around: ReadonlyArray<Limit>): Limit | undefined =>
  around.find(({ limit, unit, used }) => used + Number(unit === "toolCalls" || unit === "millis") > limit)

/** The use of a call: the report of its provider, and the reservation for what the provider does not report. */
export const settle = (reserved: Amounts, usage: Message.TokenUsage | undefined, price?: Price): Amounts => {
  const { inputTokens = reserved.inputTokens, outputTokens = reserved.outputTokens } = usage ?? {}
  const micros = price && costOf(price, { ...usage, ...defined({ inputTokens, outputTokens }) })
  return defined({ inputTokens, outputTokens, micros })
}
