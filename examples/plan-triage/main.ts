/**
 * A router whose branches join.
 *
 * The router's answer names the next step (`routesBy`); each branch ends at `archive` (`afterBranches`). The events of the
 * stream show the way of each message.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Stream } from "effect"
import { Plan } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { plan } from "./plan.ts"

const model = ScriptedModel.layer((request) => {
  const message = request.messages.at(-1)?.text ?? ""
  const severity = message.includes("fire") ? "urgent" : message.includes("prize") ? "spam" : "normal"
  return { object: { severity, why: "it says so" } }
})

Effect.gen(function* () {
  const triage = yield* Plan.bind(yield* plan)
  for (const message of ["The server is on fire", "You won a prize", "My password does not work"]) {
    yield* Plan.stream(triage, message).pipe(
      Stream.runForEach((event) => {
        switch (event._tag) {
          case "RouteTaken":
            return Console.log(`  ${event.step} -> ${event.to}${event.rejoin ? " (rejoins)" : ""}`)
          case "StepSkipped":
            return Console.log(`  ${event.step} is skipped`)
          case "PlanFinished":
            return Console.log(event.result.outcome === "Completed" ? event.result.text : event.result.outcome)
          default:
            return Effect.void
        }
      })
    )
  }
}).pipe(Effect.provide(model), NodeRuntime.runMain)
