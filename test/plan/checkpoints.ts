/** The common part of the tests of checkpoints. */
import * as storage from "#src/store/internal/storage.ts"
import { Clock, Deferred, Duration, Effect, Layer, Option, Predicate, type Scope } from "effect"
import { VersionedStore } from "effect-emissary"
import { changed } from "../store/changed.ts"
import { test } from "../test.ts"
import { log, planOf } from "./support.ts"
import { Checkpoint, Step, When, type Plan } from "effect-emissary/plan"

export const service = Checkpoint.Checkpoint

/** The summary of the run under a key, which has to be there. */
export const head = Effect.fnUntraced(function* (key: string) {
  return Option.getOrThrow(yield* (yield* service).inspect(key))
})

/** The value that a step wrote. */
export const written = Effect.fnUntraced(function* (write: string, options?: { readonly fork: string }) {
  return Option.getOrThrow(yield* (yield* service).read(write, options)).value
})

/** The state of the run under a key, which has to be there. */
export const loaded = Effect.fnUntraced(function* <A, R>(plan: Plan.Bound<A, R>, key = "k") {
  return Option.getOrThrow(yield* (yield* service).load(plan, key))
})

export const layer = (options?: Parameters<typeof Checkpoint.layer>[0]) =>
  Checkpoint.layer(options).pipe(Layer.provideMerge(VersionedStore.layerMemory))

/** Tests that each build the layer anew, and get its checkpoints. */
export const testOver =
  <R, E>(layer: Layer.Layer<R | Checkpoint.Checkpoint, E, Scope.Scope>) =>
  (
    name: string,
    body: (
      checkpoint: Checkpoint.Service
    ) => Generator<Effect.Effect<unknown, unknown, R | Checkpoint.Checkpoint | Scope.Scope>, unknown, never>
  ): void =>
    test(name, layer, function* () {
      const checkpoint = yield* service
      yield* Effect.gen(() => body(checkpoint))
    })

/** Tests of checkpoints in memory. */
export const testStored = testOver(layer())

/** Checkpoints in memory, over a store that differs from it. */
export const layerOver = <E>(store: Layer.Layer<VersionedStore.VersionedStore, E, VersionedStore.VersionedStore>) =>
  Checkpoint.layer().pipe(Layer.provideMerge(store), Layer.provideMerge(VersionedStore.layerMemory))

interface Failure {
  readonly _tag: string
  readonly reason: { readonly _tag: string }
}

/** Which error it is, and why. */
export const reasonOf = (error: Failure): string => `${error._tag} ${error.reason._tag}`

/** Which error an effect fails with. */
export const fails = <A, E extends Failure, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), reasonOf)

export interface Hooks {
  readonly [step: string]: Effect.Effect<unknown, unknown>
}

/** Three steps that note each time they run; `hooks` run inside them. */
export const counting = Effect.fnUntraced(function* (hooks: Hooks = {}, lastWrite = "last") {
  const { fn, ran } = log()
  const target = (name: string) => fn(name, ({ task }) => Effect.as(hooks[name] ?? Effect.void, `${task} ${name}`))
  const bound = yield* planOf(
    { name: "counting", maxIterations: 10 },
    Step.make("a", { target: target("a"), writes: "first" }),
    Step.make("b", { target: target("b") }),
    Step.make("c", { target: target("c"), writes: lastWrite })
  )
  return { bound, ran: Effect.sync((): ReadonlyArray<string> => [...ran]) }
})

/** The work of a step that runs until the gate is open. */
export const gate = Effect.gen(function* () {
  const begun = yield* Deferred.make<void>()
  const opened = yield* Deferred.make<void>()
  const stopped = yield* Deferred.make<void>()
  const hook = Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(opened))
  return {
    hook: Effect.onInterrupt(hook, () => Deferred.succeed(stopped, undefined)),
    begun: Deferred.await(begun),
    stopped: Deferred.await(stopped),
    open: Deferred.succeed(opened, undefined)
  }
})

/** A run that has begun its second step, which runs until the gate is open. */
export const held = Effect.fnUntraced(function* <A, E, R>(
  run: (bound: Effect.Success<ReturnType<typeof counting>>["bound"]) => Effect.Effect<A, E, R>
) {
  const second = yield* gate
  const { bound, ran } = yield* counting({ b: second.hook })
  const fiber = yield* Effect.forkChild(run(bound))
  yield* second.begun
  return { ...second, bound, ran, fiber }
})

/** A machine whose clock is an hour slow, so that its leases have ended for the others. */
export const slowClock = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Clock.clockWith((clock) => {
    const behind = Duration.toMillis("1 hour")
    return Effect.provideService(effect, Clock.Clock, {
      ...clock,
      currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() - behind,
      currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now - behind)
    })
  })

/** A step that runs until its number is `limit`, and writes it each time. */
export const looping = Effect.fnUntraced(function* (limit: number, maxIterations: number) {
  const { fn, ran } = log()
  const next = fn("count", ({ payload }) => ({ n: Predicate.hasProperty(payload, "n") ? Number(payload.n) + 1 : 1 }))
  const count = Step.make("count", { target: next, routes: [["count", When.field("n").lessThan(limit)]], writes: "n" })
  return { bound: yield* planOf({ name: "looping", maxIterations }, count), ran: Effect.sync(() => ran.length) }
})

export const refuses = (message: string) => Effect.fail({ _tag: "Refused", message })

/** A run that failed in its second step, which does `then` from now on; an edited plan writes something else. */
export const failedRun = Effect.fnUntraced(function* (key = "k", then: Effect.Effect<unknown> = Effect.void) {
  let isDown = true
  const hooks = { b: Effect.suspend(() => (isDown ? refuses("down") : then)) }
  const { bound, ran } = yield* counting(hooks)
  const error = yield* Effect.flip((yield* service).run(bound, { key, input: "go" }))
  isDown = false
  return { bound, ran, error, edited: yield* counting(hooks, "changed") }
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

/** Checkpoints over a store that fails once, at the write with that number to such keys. */
export const failingAt = (number: number, fails: (key: string) => boolean, when?: "before" | "after") => {
  let writes = 0
  return layerOver(failing((key) => fails(key) && ++writes === number, when))
}
