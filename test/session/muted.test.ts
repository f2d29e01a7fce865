/** A turn that records nothing more: its session was lost, its process ends, or its events could not be stored. */
import { assert, describe } from "@effect/vitest"
import { Cause, Deferred, Duration, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { type Agent, VersionedStore } from "effect-emissary"
import { PayloadError } from "effect-emissary/payload"
import { Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { planOf } from "../plan/support.ts"
import { changed } from "../store/changed.ts"
import { test } from "../test.ts"
import * as t from "./sessions.ts"
import * as turns from "#src/session/internal/turns.ts"

describe("RIGHT-19 a turn that records nothing more", () => {
  test("ends without a pause, because the events of its end are not waited for", function* () {
    const store = yield* t.store
    const asked = yield* Deferred.make<void>()
    const scope = yield* Scope.make()
    const model = () => Effect.andThen(Deferred.succeed(asked, undefined), Effect.never)
    const layer = Session.layer([t.support]).pipe(Layer.provide([store, ScriptedModel.layer(model)]))
    const sessions = yield* Scope.provide(t.sessionsOf(layer), scope)
    yield* sessions.send("a", "one")
    yield* Deferred.await(asked)
    const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
    yield* Effect.repeat(Effect.yieldNow, { times: 500 })
    const isClosed = closing.pollUnsafe() !== undefined
    // It ends in any case, so that a wrong one is a failure
    yield* TestClock.adjust("1 minute")
    yield* Fiber.join(closing)
    assert.isTrue(isClosed)
  })

  test("reports no event to the hooks of the host that the store refused", function* () {
    const store = yield* t.store
    const error = new PayloadError.PayloadError({
      what: "value",
      reason: PayloadError.Reason.cases.TooLarge.make({ what: "string", limit: 1, found: 2, path: "" })
    })
    const refusing = changed(({ compareAndSet }) => ({
      compareAndSet: (...args) =>
        JSON.stringify(args[2]).includes('"ModelAnswered"')
          ? Effect.fail(
              new VersionedStore.VersionedStoreError({ operation: "compareAndSet", reason: { _tag: "Refused", error } })
            )
          : compareAndSet(...args)
    }))
    const heard: Array<string> = []
    const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void heard.push(event._tag))
    const sessions = yield* t.sessionsOf(
      Session.layer([t.support], { run: { onEvent } }).pipe(
        Layer.provide([Layer.provide(refusing, store), ScriptedModel.layer(t.echo)])
      )
    )
    yield* sessions.send("a", "one")
    yield* Effect.repeat(Effect.yieldNow, { times: 500 })
    const written = ["RunStarted", "InputAdded", "StepStarted"]
    assert.deepStrictEqual(yield* t.tags(sessions, "a"), ["MessageReceived", ...written, "TurnFailed"])
    assert.deepStrictEqual(heard, written)
  })

  for (const course of ["Muted", "Refused"] as const) {
    test(`lets no step of a plan follow that is recorded while it is ${course}, and its end pass`, function* () {
      const plan = yield* planOf(
        [Step.make("a", { target: () => Effect.succeed("a") }), Step.make("b", { target: () => Effect.succeed("b") })],
        { name: "two" }
      )
      const entries: Array<Agent.RecordedEvent> = []
      yield* plan.run("go", { onEvent: (entry) => Effect.sync(() => void entries.push(entry)) })
      const turn = turns.makeTurn(undefined)
      turns.halt(turn, course === "Muted" ? { _tag: course } : { _tag: course, cause: Cause.empty })
      let calls = 0
      const gate = { withPermit: () => Effect.sync(() => void (calls += 1)) }
      // Sound: a turn that records nothing more uses nothing else
      const self = {
        host: { leaseTime: Duration.seconds(1) },
        gate,
        scope: yield* Effect.scope,
        mode: "Open"
      } as unknown as turns.LiveSession
      const passed: Array<string> = []
      for (const entry of entries) {
        const fiber = yield* Effect.forkChild(turns.keep(self, turn)(entry))
        yield* Effect.repeat(Effect.yieldNow, { times: 10 })
        if (fiber.pollUnsafe() !== undefined) passed.push(entry.event._tag)
        yield* Fiber.interrupt(fiber)
      }
      const starts = entries.filter(({ event }) => event._tag === "PlanEvent" && event.event._tag === "StepStarted")
      assert.lengthOf(starts, 2)
      assert.deepStrictEqual(passed, ["PlanEvent", "RunFinished"])
      assert.deepStrictEqual([calls, turn.pending, turn.unheard, turn.run], [0, [], [], undefined])
    })
  }
})
