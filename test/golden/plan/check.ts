import { assert } from "@effect/vitest"
import { Effect } from "effect"
import * as checkpoints from "./groups/checkpoints.ts"
import * as graphs from "./groups/graphs.ts"
import * as many from "./groups/many.ts"
import * as references from "./groups/references.ts"
import * as runs from "./groups/runs.ts"
import { scenarios } from "./groups/scenarios.ts"
import * as validation from "./groups/validation.ts"
import * as wire from "./groups/wire.ts"
import type { Case } from "./vocabulary.ts"

/**
 * Runs one case by what is given; cases that only describe their scenario in words are
 * programs in `groups/scenarios.ts`, found by their id.
 */
export const check = (golden: Case): Effect.Effect<void, unknown> => {
  const { given, id } = golden
  const scenario = Object.hasOwn(scenarios, id) ? scenarios[id] : undefined
  if (scenario !== undefined) return scenario(golden)
  if ("from_dict then to_dict" in given) return wire.roundtrip(golden)
  if ("from_dict" in given) return wire.load(golden)
  if ("steps" in given) return references.check(golden)
  if ("phases" in given) return checkpoints.check(golden)
  if ("run_many" in given) return many.check(golden)
  if ("data" in given) return graphs.read(golden)
  if ("plan" in given) return id.startsWith("D") ? validation.check(golden) : runs.check(golden)
  return Effect.sync(() => assert.fail(`no scenario in groups/scenarios.ts for ${id}: ${JSON.stringify(given)}`))
}
