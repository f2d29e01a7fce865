/** The facts of a plan's run as the progress of an agent's. */
import type * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as AgentError from "../../../agent/AgentError.ts"
import type { PlanRunEvent } from "../../PlanRunEvent.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import * as PlanTransition from "../../PlanTransition.ts"
import { Event } from "../../wire/plan-run-event-v1.ts"
import * as Rules from "../engine/rules.ts"
import type { BoundPlan } from "../live.ts"
import { reasonOf } from "./reason.ts"

/**
 * One fact with its version. Whoever writes the state of the agent's run looks for
 * secrets in it; a run in memory may hold them.
 */
const Fact = Schema.Struct({ version: Schema.Literal(1), event: Event })

const toJson = Schema.encodeEffect(Fact)
const fromJson = Schema.decodeUnknownEffect(Schema.Array(Fact))

export const encode = (events: ReadonlyArray<PlanRunEvent>): Effect.Effect<ReadonlyArray<Schema.Json>> =>
  Effect.orDie(
    Effect.forEach(events, (event) =>
      // Sound: the wire of a fact is JSON. One that was applied is one of the type, so it can be written.
      Effect.map(toJson({ version: 1, event }), (json) => json as Schema.Json)
    )
  )

const unreadable = (error: { readonly _tag: string; readonly message: string }): AgentError.Reason =>
  AgentError.withCause(
    new AgentError.DelegateFailed({
      error: error._tag,
      problem: "the progress in the state is not that of this plan's run"
    }),
    error
  )

/** Where a plan's run stands, from its facts. */
export const replay = (
  bound: BoundPlan,
  facts: Chunk.Chunk<Schema.Json>
): Effect.Effect<PlanRunState, AgentError.Reason> =>
  Effect.gen(function* () {
    const rules = yield* Rules.rulesOf(bound)
    const events = yield* Effect.mapError(fromJson(Array.from(facts)), unreadable)
    const recorded = events.map(({ event }) => event)
    const edited = Rules.changedInside(rules, recorded)
    if (edited !== undefined) return yield* reasonOf(edited, 0)
    const folded = PlanTransition.fold(rules, recorded)
    return yield* Effect.mapError(Effect.fromResult(folded), unreadable)
  })
