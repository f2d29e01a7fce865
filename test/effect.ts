import { it, type Vitest } from "@effect/vitest"
import { Effect, Layer, type Scope } from "effect"

type Body<R, Args extends ReadonlyArray<unknown> = []> = (
  ...args: Args
) => Generator<Effect.Effect<unknown, unknown, R | Scope.Scope>, unknown, never>

/** A test whose body is the generator of an Effect, run with the services of the layer. */
export function test(name: string, body: Body<never>): void
export function test<R, E>(name: string, layer: Layer.Layer<R, E, Scope.Scope>, body: Body<NoInfer<R>>): void
export function test(
  name: string,
  ...rest: readonly [Body<never>] | readonly [Layer.Layer<never, unknown, Scope.Scope>, Body<never>]
): void {
  const [layer, body] = rest.length === 1 ? [Layer.empty, rest[0]] : rest
  it.effect(name, () => Effect.provide(Effect.gen(body), layer))
}

/** The same as a property of generated values. */
test.prop = <const Arbs extends Vitest.Arbitraries>(
  name: string,
  arbitraries: Arbs,
  body: Body<never, [{ [K in keyof Arbs]: Vitest.ArbitraryValue<Arbs[K]> }]>,
  options?: Parameters<Vitest.Tester<Scope.Scope>["prop"]>[3]
): void => it.effect.prop(name, arbitraries, (values) => Effect.gen(() => body(values)), options)
