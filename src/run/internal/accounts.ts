/** The accounts of runs with a budget: the use that events charge, and the answers that raise limits. Agents and plans are the same here. */

import type * as DateTime from "effect/DateTime"
import * as ledger from "./ledger.ts"
import * as runEvents from "./runEvents.ts"

/** A run with an account, as far as the account depends on it. */
interface Accounted {
  readonly runId: string
  readonly outcome?: unknown
  readonly updatedAt: DateTime.Utc
}

/** The time of a run that is under way. */
const millisSince = ({ outcome, updatedAt }: Accounted, now: DateTime.Utc): number =>
  outcome === undefined ? Math.max(0, now.epochMilliseconds - updatedAt.epochMilliseconds) : 0

/** The limits of the budgets of a run, and how much of them is used. What is reserved counts, and the time up to now. */
export const usages = (
  self: Accounted,
  account: ledger.Account,
  reserved: ledger.Amounts,
  now?: DateTime.Utc,
  beside?: ledger.Amounts
): ReadonlyArray<ledger.Limit> => {
  const millis = now === undefined ? 0 : millisSince(self, now)
  return ledger.usages(account, ledger.add(reserved, { ...beside, millis }), self.runId)
}

/** The account after an event, and the limit that an answer has ended the run at. */
export const after = (
  self: Accounted,
  before: ledger.Account,
  event: runEvents.Event
): { readonly account: ledger.Account; readonly exceeded?: ledger.Usage } => {
  const amounts = runEvents.chargeOf(event)
  const millis = millisSince(self, runEvents.timeOf(event))
  const account = amounts === undefined && millis === 0 ? before : ledger.charge(before, { ...amounts, millis })
  const granted = runEvents.grantIn(event)
  if (granted?.of !== self.runId) return { account }
  return granted.more > 0 ? { account: ledger.raise(account, granted) } : { account, exceeded: ledger.usageOf(granted) }
}
