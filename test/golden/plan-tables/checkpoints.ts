/** P18, P35: runs under a key. */
import { assert } from "@effect/vitest"
import { Effect, Layer, Option, type Schema } from "effect"
import { Agent, VersionedStore } from "effect-emissary"
import { Checkpoint, Plan, PlanRun, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { layer } from "../../plan/checkpoints.ts"
import { bind } from "../../plan/support.ts"
import type { Rows } from "./row.ts"

const service = Checkpoint.Checkpoint

/** Checkpoints on the current store, with an observer of each write before it is made. */
const through = (before: (key: string, value: Schema.Json) => Effect.Effect<void, VersionedStore.VersionedStoreError>) =>
  Layer.provide(
    Checkpoint.layer(),
    Layer.effect(
      VersionedStore.VersionedStore,
      Effect.map(VersionedStore.VersionedStore, (store) => ({
        ...store,
        compareAndSet: (key: string, expected: Option.Option<string>, value: Schema.Json) =>
          Effect.andThen(before(key, value), store.compareAndSet(key, expected, value))
      }))
    )
  )

export const rows: Rows = {
  P18: {
    expected: "the history comes back from the store as it was: steps, payloads and tokens",
    instead: "a history that is no list is refused, and not read as an empty one (S22.6)",
    test: Effect.gen(function* () {
      const checkpoint = yield* service
      const plan = yield* bind(
        Plan.make(
          Step.make("look", { target: () => Effect.succeed({ hits: [1, "é"], none: null }) }),
          Step.make("write", { target: Agent.make("writer", { instructions: "Write." }) })
        )
      )
      const { state } = yield* checkpoint.run(plan, { key: "k", input: "go" })
      const loaded = Option.getOrThrow(yield* checkpoint.load(plan, "k"))
      const history = PlanRun.history(loaded)
      assert.deepStrictEqual(
        history.map(({ output, step, usage }) => [step, output, usage]),
        [
          ["look", { hits: [1, "é"], none: null }, {}],
          ["write", "written", { inputTokens: 42, outputTokens: 11 }]
        ]
      )
      assert.deepStrictEqual(history, PlanRun.history(state))
      const text = yield* PlanRun.stateCodec.encodeJson(loaded)
      yield* PlanRun.stateCodec.decodeJson(text)
      const wire = JSON.parse(text)
      assert.isArray(wire.state.history)
      wire.state.history = "none"
      const error = yield* Effect.flip(PlanRun.stateCodec.decode(wire))
      assert.strictEqual(error._tag, "PayloadError")
      assert.include(error.message, "history")
    }).pipe(
      Effect.provide([layer(), ScriptedModel.layer([{ text: "written", usage: { inputTokens: 42, outputTokens: 11 } }])])
    )
  },
  P35: {
    expected: "the checkpoint of a step comes before its durable write, in a band for all members",
    test: Effect.gen(function* () {
      const written: Array<{ readonly key: string; readonly text: string }> = []
      const give = (name: string) => ({ target: () => Effect.succeed(name.toUpperCase()), writes: name })
      const plan = yield* bind(
        Plan.make(
          Step.make("a", give("a")),
          Step.make("b", { ...give("b"), parallel: true }),
          Step.make("c", { ...give("c"), parallel: true })
        )
      )
      const watching = through((key, value) => Effect.sync(() => written.push({ key, text: JSON.stringify(value) })))
      yield* service.pipe(
        Effect.flatMap((checkpoint) => checkpoint.run(plan, { key: "k", input: "go" })),
        Effect.provide(watching)
      )
      const at = (name: string) => written.findIndex(({ key }) => key === `plan/writes/${name}`)
      const lastHead = (name: string) => written.slice(0, at(name)).findLast(({ key }) => key === "plan/head/k")?.text ?? ""
      const facts = (name: string) =>
        written.slice(0, at(name)).flatMap(({ key, text }) => (key.startsWith("plan/journal/") ? [text] : [])).join("\n")
      for (const [write, steps] of [
        ["a", ["a"]],
        ["b", ["a", "b", "c"]],
        ["c", ["a", "b", "c"]]
      ] as const) {
        assert.isAbove(at(write), 0)
        assert.include(lastHead(write), `"${write}"`)
        for (const step of steps) assert.include(facts(write), `"record":{"step":"${step}"`)
      }
      assert.notInclude(facts("a"), `"record":{"step":"b"`)
      assert.isBelow(at("b"), at("c"))
    }).pipe(Effect.provide(VersionedStore.layerMemory))
  }
}
