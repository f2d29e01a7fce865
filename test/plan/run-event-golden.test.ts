import { assert, describe } from "@effect/vitest"
import { Equal, Result, Schema } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { PlanRun } from "effect-emissary/plan"

import { test } from "../test.ts"

// Written by version 1 as it was released: never written again, read for ever.
const golden = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`./golden-run/${name}.json`, import.meta.url), "utf8"))

const cases = ["branch", "interrupted", "finished", "waiting", "running"] as const

const sessions = new URL("../golden/sessions/next/", import.meta.url)

/** The events of plans in a recorded value. */
const eventsIn = (value: unknown): ReadonlyArray<unknown> => {
  if (typeof value !== "object" || value === null) return []
  if ("_tag" in value && value._tag === "PlanEvent" && "event" in value) return [value.event]
  return Object.values(value).flatMap(eventsIn)
}

describe("L3 released versions of runs of plans", () => {
  for (const name of cases) {
    test(`PLAN-6 L3 run ${name}, version 1: its facts fold to its state, both are written back as they were`, function* () {
      const events = yield* PlanRun.eventsCodec.decode(golden(`plan-run-events-${name}-v1`))
      const state = yield* PlanRun.stateCodec.decode(golden(`plan-run-state-${name}-v1`))
      assert.isTrue(Equal.equals(Result.getOrThrow(PlanRun.fold(events)), state))
      assert.deepStrictEqual(
        yield* PlanRun.eventsCodec.encode(events, { version: 1 }),
        golden(`plan-run-events-${name}-v1`)
      )
      assert.deepStrictEqual(
        yield* PlanRun.stateCodec.encode(state, { version: 1 }),
        golden(`plan-run-state-${name}-v1`)
      )
    })

    test(`HOUSE-5 the frames of run ${name} change no byte of its events and its states`, function* () {
      const events = JSON.stringify(golden(`plan-run-events-${name}-v1`))
      const state = JSON.stringify(golden(`plan-run-state-${name}-v1`))
      const read = yield* PlanRun.eventsCodec.decodeJson(events)
      assert.strictEqual(yield* PlanRun.eventsCodec.encodeJson(read), events)
      assert.strictEqual(yield* PlanRun.stateCodec.encodeJson(yield* PlanRun.stateCodec.decodeJson(state)), state)
      assert.strictEqual(yield* PlanRun.stateCodec.encodeJson(Result.getOrThrow(PlanRun.fold(read))), state)
    })
  }

  test("HOUSE-5 the frames change no byte of the events in recorded sessions", function* () {
    const recorded = readdirSync(sessions).flatMap((file) =>
      eventsIn(JSON.parse(readFileSync(new URL(file, sessions), "utf8")))
    )
    assert.isAbove(recorded.length, 50)
    for (const event of recorded) {
      const read = yield* Schema.decodeUnknownEffect(PlanRun.Event)(event)
      assert.strictEqual(JSON.stringify(yield* Schema.encodeEffect(PlanRun.Event)(read)), JSON.stringify(event))
    }
  })
})
