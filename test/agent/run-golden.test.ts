import { assert, describe } from "@effect/vitest"
import { Effect, Equal, Result } from "effect"
import { readFileSync } from "node:fs"
import { Run } from "effect-emissary"
import { test } from "../test.ts"

// Written by version 1 as it was released: never written again, read for ever.
const golden = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`./golden/${name}.json`, import.meta.url), "utf8"))

describe("L3 released versions of runs", () => {
  test("L3 a state names the status of each open call, and no other", function* () {
    const json = golden("run-state-waiting-v1")
    const calls: ReadonlyArray<{ readonly callId: string }> = Object(json).state.calls
    const [first] = calls
    assert(first !== undefined)
    for (const [changed, expected] of [
      [calls.slice(1), `expected the status of the open call "${first.callId}"`],
      [
        [...calls, { ...first, callId: "other" }],
        "expected one status for each open call of the conversation, and no other status"
      ]
    ] as const) {
      const error = yield* Effect.flip(
        Run.stateCodec.decode({ ...Object(json), state: { ...Object(json).state, calls: changed } })
      )
      assert.include(error.message, `: ${expected}`)
    }
  })

  for (const name of ["finished", "waiting", "interrupted", "fitted", "plan"]) {
    test(`L3 run ${name}, version 1: its events fold to its state, and both are written back as they were`, function* () {
      const events = yield* Run.eventsCodec.decode(golden(`run-events-${name}-v1`))
      const state = yield* Run.stateCodec.decode(golden(`run-state-${name}-v1`))
      assert.isTrue(Equal.equals(Result.getOrThrow(Run.fold(events)), state))
      assert.deepStrictEqual(yield* Run.eventsCodec.encode(events, { version: 1 }), golden(`run-events-${name}-v1`))
      assert.deepStrictEqual(yield* Run.stateCodec.encode(state, { version: 1 }), golden(`run-state-${name}-v1`))
    })
  }
})
