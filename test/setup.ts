/**
 * The setup of each worker of vitest. Properties draw their values from one seed, so that a test that passes
 * here passes everywhere. `EMISSARY_SEED=<a text of yours> npm test` draws others, and so does `npm run fuzz`.
 *
 * `EMISSARY_TEST_RUNS` is the most runs of a property. `npm run mutation` sets it: a change is noticed by a few runs or by none, and the
 * smallest value that shows it is of no use.
 */
import * as Arbitrary from "effect/Arbitrary"

const runs = process.env["EMISSARY_TEST_RUNS"]

Arbitrary.configureGlobal({
  check: {
    seed: process.env["EMISSARY_SEED"] ?? "emissary",
    ...(runs !== undefined && { runs: Number(runs), maxShrinks: 0 })
  }
})
