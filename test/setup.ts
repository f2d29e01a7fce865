/**
 * The setup of each worker of vitest. Properties draw their values from one seed, so that a test that passes
 * here passes everywhere. `EMISSARY_SEED=<a text of yours> npm test` draws others, and so does `npm run fuzz`.
 */
import * as Arbitrary from "effect/Arbitrary"

Arbitrary.configureGlobal({ check: { seed: process.env["EMISSARY_SEED"] ?? "emissary" } })
