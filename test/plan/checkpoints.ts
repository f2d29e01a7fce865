/** The common part of the tests of checkpoints. */
import * as storage from "#src/conversation/internal/storage.ts"
import { Effect, Layer, Option, Ref } from "effect"
import { VersionedStore } from "effect-emissary"
import { changed } from "../conversation/store/changed.ts"
import { Checkpoint, Plan, Step, When, type PlanError } from "effect-emissary/plan"

export const service = Checkpoint.Checkpoint

/** The summary of the run under a key, which has to be there. */
export const head = Effect.fnUntraced(function* (key: string) {
  return Option.getOrThrow(yield* (yield* service).inspect(key))
})

export const layer = (options?: Parameters<typeof Checkpoint.layer>[0]) =>
  Checkpoint.layer(options).pipe(Layer.provideMerge(VersionedStore.layerMemory))

/** Checkpoints in memory, over a store that differs from it. */
export const layerOver = <E>(store: Layer.Layer<VersionedStore.VersionedStore, E, VersionedStore.VersionedStore>) =>
  Checkpoint.layer().pipe(Layer.provideMerge(store), Layer.provideMerge(VersionedStore.layerMemory))

export type Failure = PlanError.PlanError | Checkpoint.CheckpointError

/** Which error it is, and why. */
export const reasonOf = (error: Failure): string => `${error._tag} ${error.reason._tag}`

/** Which error an effect fails with. */
export const fails = <A, E extends Failure, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), reasonOf)

export interface Hooks {
  readonly [step: string]: Effect.Effect<unknown, unknown>
}

/** Three steps that note each time they run; `hooks` run inside them. */
export const counting = Effect.fnUntraced(function* (
  hooks: Hooks = {},
  options: { readonly maxIterations?: number; readonly lastWrite?: string } = {}
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
    Step.make("c", { target: target("c"), writes: options.lastWrite ?? "last" })
  )
  return { bound: yield* Plan.bind(plan), ran: Ref.get(ran) }
})

/** A step that runs until its number is `limit`, and writes it each time. */
export const looping = Effect.fnUntraced(function* (limit: number, maxIterations: number) {
  const ran = yield* Ref.make(0)
  const plan = yield* Plan.make(
    { name: "looping", maxIterations },
    Step.make("count", {
      target: ({ payload }: { readonly payload: unknown }) =>
        Effect.as(
          Ref.update(ran, (times) => times + 1),
          { n: payload !== null && typeof payload === "object" && "n" in payload ? Number(payload.n) + 1 : 1 }
        ),
      routes: [["count", When.field("n").lessThan(limit)]],
      writes: "n"
    })
  )
  return { bound: yield* Plan.bind(plan), ran: Ref.get(ran) }
})

export const refuses = (message: string) => Effect.fail({ _tag: "Refused", message })

/** A run under a key that failed once in its second step; the edited plan has the same steps with another write. */
export const failedRun = Effect.fnUntraced(function* (key = "k") {
  let isDown = true
  const hooks = { b: Effect.suspend(() => (isDown ? refuses("down") : Effect.void)) }
  const { bound, ran } = yield* counting(hooks)
  const error = yield* Effect.flip((yield* service).run(bound, { key, input: "go" }))
  isDown = false
  return { bound, ran, error, edited: yield* counting(hooks, { lastWrite: "changed" }) }
})

/** A store whose writes fail while `fails` is set: before they take place, or after, which looks the same. */
export const failing = (fails: (key: string) => boolean, when: "before" | "after" = "before") =>
  changed((store) => ({
    compareAndSet: (key, expected, value) => {
      if (!fails(key)) return store.compareAndSet(key, expected, value)
      const error = { operation: "compareAndSet" as const, key, storage: "test", error: "Down", cause: undefined }
      const down = Effect.fail(storage.unavailable(error))
      return when === "before" ? down : Effect.andThen(store.compareAndSet(key, expected, value), down)
    }
  }))
