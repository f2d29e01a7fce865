import { it } from "@effect/vitest"
import { Effect, type Layer, type Scope } from "effect"

/** The body of a test: what it yields may need `R`. */
type Body<R> = () => Generator<Effect.Effect<unknown, unknown, R | Scope.Scope>, unknown, never>

/** A test that runs a generator as an Effect. */
export const test = (name: string, body: Body<never>) => it.effect(name, () => Effect.gen(body))

/** Tests that each build a layer of their own and run with it. */
export const testWith =
  <R, E>(layer: Layer.Layer<R, E>) =>
  (name: string, body: Body<R>) =>
    it.effect(name, () => Effect.provide(Effect.gen(body), layer))
