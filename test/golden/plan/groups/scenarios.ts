import type { Effect } from "effect"
import * as conditions from "../scenarios/conditions.ts"
import * as events from "../scenarios/events.ts"
import * as graphs from "../scenarios/graphs.ts"
import * as live from "../scenarios/live.ts"
import * as stores from "../scenarios/stores.ts"
import * as usage from "../scenarios/usage.ts"
import type { Case } from "../vocabulary.ts"

/** Cases that are described in words, by id. */
export const scenarios: { readonly [id: string]: (golden: Case) => Effect.Effect<void, unknown> } = {
  ...live.scenarios,
  ...usage.scenarios,
  ...events.scenarios,
  ...conditions.scenarios,
  ...graphs.scenarios,
  ...stores.scenarios
}
