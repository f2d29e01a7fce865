/**
 * RIGHT-14: each function that walks a value of others stops, however the parts of the value refer to each other. A walk that
 * follows every reference does not end here: 2 to the power of 200 ways lead to the leaf.
 */
import { describe } from "@effect/vitest"
import { circular, shared, sparse, walkers } from "../../bench/hostile/walkers.ts"
import { test } from "../test.ts"

const values: Record<string, () => unknown> = {
  "shared parts": () => shared(200),
  "shared parts within the levels of an answer": () => shared(28),
  "shared parts around a date": () => shared(28, new Date(0)),
  "shared parts around a number that is not finite": () => shared(28, Number.NaN),
  "a circle": circular,
  "an array with almost no items": sparse,
  "10 MB": () => new Uint8Array(10_000_000)
}

describe("RIGHT-14 (L10) a walk over a value of others", () => {
  for (const [name, walk] of Object.entries(walkers)) {
    for (const [kind, make] of Object.entries(values)) {
      test.live(`${name}: ${kind}`, function* () {
        yield* walk(make())
      })
    }
  }
})
