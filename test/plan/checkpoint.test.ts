import { assert, describe, it } from "@effect/vitest"
import { Checkpoint, type CheckpointError, Plan, type PlanError, PlanRunState, Step, StepSignal, When } from "effect-emissary/plan"
import { VersionedStore } from "effect-emissary/conversation"
import { Deferred, Duration, Effect, Fiber, Layer, Option, Ref, Result, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"

const layer = (options?: Checkpoint.Options) => Checkpoint.layer(options).pipe(Layer.provideMerge(VersionedStore.layerMemory))

const service = Checkpoint.Checkpoint

/** Steps that say how often they ran; `hooks` run inside them. */
const counting = Effect.fnUntraced(function* (
  hooks: { readonly [step: string]: Effect.Effect<unknown, unknown> } = {},
  options: { readonly maxIterations?: number; readonly edited?: boolean } = {}
) {
  const ran = yield* Ref.make<ReadonlyArray<string>>([])
  const target = (name: string) => (input: { readonly task: string }) =>
    Effect.gen(function* () {
      yield* Ref.update(ran, (names) => [...names, name])
      yield* hooks[name] ?? Effect.void
      return `${input.task} ${name}`
    })
  const plan = yield* Plan.make(
    { name: "counting", maxIterations: options.maxIterations ?? 10 },
    Step.make("a", { target: target("a"), writes: "first" }),
    Step.make("b", { target: target("b") }),
    Step.make("c", { target: target("c"), writes: options.edited === true ? "changed" : "last" })
  )
  const bound = yield* Plan.bind(plan)
  return { bound, ran: Ref.get(ran) }
})

const reasonOf = (error: PlanError.PlanError | CheckpointError.CheckpointError) => error.reason._tag

const fails = (name: string) => Effect.fail({ _tag: name, message: `${name} said no` })

describe("PLAN-6 a run under a key", () => {
  it.effect("is kept, and gives its result again without running anything (I05)", () =>
    Effect.gen(function* () {
      const checkpoint = yield* service
      const { bound, ran } = yield* counting()
      const first = yield* checkpoint.run(bound, { key: "k", input: "go" })
      assert.strictEqual(first.outcome, "Completed")
      if (first.outcome === "Completed") assert.strictEqual(first.output, "go a b c")
      const found = Option.getOrThrow(yield* checkpoint.inspect("k"))
      assert.strictEqual(found.status, "done")
      assert.strictEqual(found.live, false)
      assert.strictEqual(found.completed, 3)
      assert.strictEqual(found.iterations, 3)
      assert.deepStrictEqual(found.pendingWrites, [])
      assert.strictEqual(found.runId, first.state.runId)

      const again = yield* checkpoint.resume(bound, { key: "k" })
      assert.deepStrictEqual(again, first)
      assert.deepStrictEqual(yield* checkpoint.run(bound, { key: "k", input: "go", policy: "startOrResume" }), first)
      assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
      assert.isTrue(yield* checkpoint.isCurrent("k", "first"))
      assert.isTrue(yield* checkpoint.isCurrent("k", "last"))
      assert.isFalse(yield* checkpoint.isCurrent("k", "none"))
      const written = Option.getOrThrow(yield* checkpoint.read("last"))
      assert.strictEqual(written.value, "go a b c")
      assert.strictEqual(written.step, "c")
      assert.strictEqual(written.record, 2)
      assert.deepStrictEqual(Option.getOrThrow(yield* checkpoint.load(bound, "k")), first.state)
    }).pipe(Effect.provide(layer()))
  )
})
