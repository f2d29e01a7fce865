/**
 * The call in whose name a handler runs. `effect/ai` tells a handler the id of
 * the call only.
 */
import * as Context from "effect/Context"

export interface CallInfo {
  readonly runId: string
  readonly callId: string
  /** In milliseconds since the epoch. */
  readonly deadline: number | undefined
}

export const CallInfo = Context.Reference<CallInfo | undefined>("effect-emissary/tool/CallInfo", {
  defaultValue: () => undefined
})
