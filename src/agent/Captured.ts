/**
 * Services that are captured where something is built, for calls that are made elsewhere.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Agent } from "./Agent.ts"
import * as internal from "./internal/captured.ts"

/**
 * Lays captured services under the context of a call.
 *
 * **Details**
 *
 * What the caller provided stands, so that `RunContext`, clock, span and tool runtime of
 * the caller reach what was captured. What an enclosing agent had captured for itself
 * gives way. A scope and a span of the place where the services were captured are left
 * out.
 *
 * **Example** (What the caller provides stands)
 *
 * ```ts
 * import { Context, Effect } from "effect"
 * import { Captured } from "effect-emissary"
 * import assert from "node:assert"
 *
 * class Greeting extends Context.Service<Greeting, string>()("example/Greeting") {}
 *
 * const under = Captured.layUnder(Context.make(Greeting, "Hello"))
 * const greet: Effect.Effect<string> = under(Greeting)
 *
 * assert.strictEqual(Effect.runSync(greet), "Hello")
 * assert.strictEqual(Effect.runSync(Effect.provideService(greet, Greeting, "Welcome")), "Welcome")
 * ```
 *
 * @category providing
 * @since 0.1.0
 */
export const layUnder =
  <Captured>(captured: Context.Context<Captured>) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, Exclude<R, Captured>> =>
    // Sound: what is captured is added to whatever the context of the call holds.
    internal.layUnder(captured)(effect as Effect.Effect<A, E>) as Effect.Effect<A, E, Exclude<R, Captured>>

const streamUnder =
  (captured: Context.Context<never>) =>
  <A, E, R>(stream: Stream.Stream<A, E, R>): Stream.Stream<A, E> =>
    Stream.unwrap(
      // Sound: as for `layUnder`.
      Effect.map(internal.layUnder(captured)(Effect.context<never>()), (context) =>
        Stream.provideContext(stream as Stream.Stream<A, E>, context)
      )
    )

/**
 * The agent with what it requires captured here.
 *
 * **When to use**
 *
 * Use it to make an agent that is a value, or anything that behaves like one, the
 * implementation of a service. `Agent.Service` and `PlanService.Service` do it by themselves.
 *
 * **Example** (An agent that carries its model)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Agent, Captured } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const greeter = Captured.agent(Agent.make("greeter", { instructions: "Greet people." })).pipe(
 *   Effect.provide(ScriptedModel.layer([{ text: "Welcome, Ada!" }]))
 * )
 *
 * const program = Effect.flatMap(greeter, (agent) => agent.ask("Hello, I am Ada."))
 * assert.strictEqual(await Effect.runPromise(program), "Welcome, Ada!")
 * ```
 *
 * @category providing
 * @since 0.1.0
 */
export const agent = <A, R>(self: Agent<A, R>): Effect.Effect<Agent<A>, never, R> =>
  Effect.map(Effect.context<R>(), (captured) => agentUnder(self, captured))

/**
 * The agent over services that were captured before.
 *
 * @category providing
 * @since 0.1.0
 */
export const agentUnder = <A, R>(self: Agent<A, R>, captured: Context.Context<R>): Agent<A> => {
  const services: Context.Context<never> = Context.makeUnsafe(captured.mapUnsafe)
  const under = layUnder(captured)
  const streaming = streamUnder(services)
  return {
    ...self,
    run: (input, options) => under(self.run(input, options)),
    ask: (input, options) => under(self.ask(input, options)),
    stream: (input, options) => streaming(self.stream(input, options)),
    resume: (state, options) => under(self.resume(state, options)),
    resumeStream: (state, options) => streaming(self.resumeStream(state, options))
  }
}
