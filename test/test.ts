import { it, type Vitest } from "@effect/vitest"
import { Effect, Layer, type Scope } from "effect"

type Body<R, Args extends ReadonlyArray<unknown> = []> = (
  ...args: Args
) => Generator<Effect.Effect<unknown, unknown, R | Scope.Scope>, unknown, never>

interface Test {
  (name: string, body: Body<never>): void
  <R, E>(name: string, layer: Layer.Layer<R, E, Scope.Scope>, body: Body<NoInfer<R>>): void
}

type Rest = readonly [Body<never>] | readonly [Layer.Layer<never, unknown, Scope.Scope>, Body<never>]

const testsOf =
  (register: Vitest.Test<Scope.Scope>): Test =>
  (name: string, ...rest: Rest) => {
    const [layer, body] = rest.length === 1 ? [Layer.empty, rest[0]] : rest
    register(name, () => Effect.provide(Effect.gen(body), layer))
  }

const prop = <const Arbs extends Vitest.Arbitraries>(
  name: string,
  arbitraries: Arbs,
  body: Body<never, [{ [K in keyof Arbs]: Vitest.ArbitraryValue<Arbs[K]> }]>,
  options?: Parameters<Vitest.Tester<Scope.Scope>["prop"]>[3]
): void => it.effect.prop(name, arbitraries, (values) => Effect.gen(() => body(values)), options)

/**
 * A test whose body is the generator of an Effect, run with the services of the layer: by itself with the clock of
 * tests, `live` with the real one, and as a property of generated values.
 */
export const test = Object.assign(testsOf(it.effect), { live: testsOf(it.live), prop })

/** Tests that each build the layer anew. */
export const testWith =
  <R, E>(layer: Layer.Layer<R, E, Scope.Scope>) =>
  (name: string, body: Body<NoInfer<R>>): void =>
    test(name, layer, body)
