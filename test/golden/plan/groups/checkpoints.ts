import { assert } from "@effect/vitest"
import { Effect, Layer, Option, Result } from "effect"
import { VersionedStore } from "effect-emissary"
import { Checkpoint, PlanRun } from "effect-emissary/plan"

import { equal } from "../../family.ts"
import { equalRuns } from "../compare.ts"
import { inputOf, load, model, observed, setting } from "../load.ts"
import { type Case, isObject, objectAt, type Observed, type Raised, type RunResult } from "../vocabulary.ts"

/** The kinds of the recordings for refusals of ours. */
const refusals: { readonly [reason: string]: string } = {
  RunActive: "ConcurrentPlanRunError",
  Unfinished: "ConcurrentPlanRunError",
  LeaseLost: "ConcurrentPlanRunError"
}

export const refused = (error: Checkpoint.CheckpointError): Raised => ({
  RAISED: refusals[error.reason._tag] ?? error.reason._tag,
  message: error.message
})

/** What the recorded checkpoints say of a run, read from ours. */
const kept = Effect.fnUntraced(function* (key: string, bound: Parameters<Checkpoint.Service["load"]>[0]) {
  const checkpoint = yield* Checkpoint.Checkpoint
  const found = yield* checkpoint.inspect(key)
  const state = yield* checkpoint.load(bound, key)
  if (Option.isNone(found) || Option.isNone(state)) return null
  const history = PlanRun.history(state.value).map(({ step }) => step)
  const ended = found.value.status === "done"
  return {
    status: found.value.status,
    next_step: ended ? null : (state.value.cursor ?? null),
    completed_steps: history,
    kv: Object.fromEntries(PlanRun.writes(state.value))
  }
})

const same = ["status", "next_step", "completed_steps", "kv"]

const phase = Effect.fnUntraced(function* (golden: Case, key: string, options: { readonly [key: string]: unknown }) {
  const used = setting({
    fixtures: isObject(options["fx"]) ? options["fx"] : {},
    predicates: { ...objectAt(golden.given, "predicates"), ...(isObject(options["preds"]) ? options["preds"] : {}) }
  })
  const checkpoint = yield* Checkpoint.Checkpoint
  const loaded = yield* Effect.result(load(golden.given["plan"], used))
  if (Result.isFailure(loaded)) {
    const { _tag, message } = loaded.failure
    return { actual: { trace: [], result: { RAISED: _tag, message } } satisfies Observed, left: null }
  }
  const bound = loaded.success
  const input = inputOf(options["input"], "go")
  const running =
    options["resume"] === true ? checkpoint.resume(bound, { key }) : checkpoint.run(bound, { key, input })
  const result: RunResult | Raised = yield* Effect.result(Effect.provide(running, model(used))).pipe(
    Effect.map((result) =>
      Result.isFailure(result) && result.failure._tag === "CheckpointError"
        ? refused(result.failure)
        : // Sound: a CheckpointError is answered above.
          observed(result as Parameters<typeof observed>[0], used)
    )
  )
  const left = yield* Effect.option(kept(key, bound))
  return { actual: { trace: used.recording.trace, result } satisfies Observed, left: Option.getOrNull(left) }
})

const putForeign = Effect.fnUntraced(function* (key: string, value: Case["given"][string] | undefined) {
  if (value === undefined) return
  const store = yield* VersionedStore.VersionedStore
  yield* store.compareAndSet(`plan/head/${key}`, Option.none(), value)
})

const predicatesOfAll = (golden: Case): Case["given"] => {
  const phases = Array.isArray(golden.given["phases"]) ? golden.given["phases"].filter(isObject) : []
  return Object.assign({}, objectAt(golden.given, "predicates"), ...phases.map((phase) => objectAt(phase, "preds") ?? {}))
}

/** Each phase in turn on one store. */
export const check = Effect.fnUntraced(
  function* (golden: Case) {
    const { expect, given } = golden
    const key = String(given["checkpoint_key"] ?? "ck")
    yield* putForeign(key, given["pre-existing value at ck"])
    const phases = Array.isArray(given["phases"]) ? given["phases"].filter(isObject) : []
    const expected = Array.isArray(expect["phases"]) ? expect["phases"].filter(isObject) : []
    const all = { ...golden, given: { ...given, predicates: predicatesOfAll(golden) } }
    assert.strictEqual(phases.length, expected.length)
    for (const [index, options] of phases.entries()) {
      const { actual, left } = yield* phase(all, key, options)
      const wanted = expected[index]
      assert(wanted !== undefined)
      const plain: unknown = wanted
      // Sound: the vocabulary of the recordings says that each phase expects a trace and a result.
      equalRuns(actual, plain as Observed, given["plan"])
      const checkpoint = objectAt(wanted, "checkpoint")
      if (checkpoint !== undefined && "status" in checkpoint) {
        const part = (value: Case["given"] | null) => Object.fromEntries(same.map((name) => [name, value?.[name] ?? null]))
        equal(part(left), part(checkpoint), `checkpoint after phase ${index}`)
      }
    }
  },
  Effect.provide(Layer.provideMerge(Checkpoint.layer(), VersionedStore.layerMemory))
)
