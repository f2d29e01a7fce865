/**
 * Runs inside runs: how deep they are, when they have to end, and who hears of them.
 *
 * An agent that is a tool of another one finds all of this by itself. This module is for
 * what runs agents in another way than as tools, a plan with agents in its steps for
 * example.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { AgentEvent } from "./AgentEvent.ts"
import { Environment } from "./internal/environment.ts"

/**
 * Where a run stands that begins here.
 *
 * **Details**
 *
 * - `depth`: 0 for a run that a program starts, one more for each run around it.
 * - `maxDepth`: the largest depth that is allowed.
 * - `deadline`: when the outermost run with a total timeout has to end, in milliseconds
 *   of the Clock.
 *
 * @category models
 * @since 0.1.0
 */
export interface Level {
  readonly depth: number
  readonly maxDepth: number
  readonly deadline: number | undefined
}

/**
 * What holds for the runs that begin inside.
 *
 * **Details**
 *
 * - `emit` is given every event of these runs, instead of whoever started them. Without
 *   it whoever starts a run hears of it, as always.
 * - `streaming`: whether somebody wants deltas, for `emit`; default `false`.
 * - `depth`, `maxDepth`, `deadline`: see {@link Level}; what is left out stays as it is.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  readonly streaming?: boolean | undefined
  readonly emit?: ((event: AgentEvent<unknown>) => Effect.Effect<void>) | undefined
  readonly depth?: number | undefined
  readonly maxDepth?: number | undefined
  readonly deadline?: number | undefined
}

/**
 * Where a run stands that begins here.
 *
 * @category getters
 * @since 0.1.0
 */
export const level: Effect.Effect<Level> = Effect.map(Environment, ({ deadline, depth, maxDepth }) => ({
  deadline,
  depth,
  maxDepth
}))

/**
 * Puts the agents that an effect runs inside a run.
 *
 * **Example** (Hearing what an agent tells, one level deeper)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Agent, Nesting } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const greeter = Agent.make("greeter", { instructions: "Greet people." })
 *
 * const heard: Array<string> = []
 * const program = Effect.gen(function*() {
 *   const { depth } = yield* Nesting.level
 *   return yield* greeter.run("Hello, I am Ada.").pipe(
 *     Nesting.inside({
 *       depth: depth + 1,
 *       streaming: false,
 *       emit: (event) => Effect.sync(() => heard.push(event._tag))
 *     })
 *   )
 * }).pipe(Effect.provide(ScriptedModel.layer([{ text: "Welcome, Ada!" }])))
 *
 * assert.strictEqual((await Effect.runPromise(program)).state.depth, 1)
 * assert.strictEqual(heard[0], "RunStarted")
 * ```
 *
 * @category running
 * @since 0.1.0
 */
export const inside =
  (options: Options) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(Environment, (outer) =>
      Effect.provideService(effect, Environment, {
        depth: options.depth ?? outer.depth,
        maxDepth: options.maxDepth ?? outer.maxDepth,
        deadline: options.deadline ?? outer.deadline,
        handed: outer.handed,
        parent: options.emit === undefined ? undefined : { streaming: options.streaming ?? false, emit: options.emit }
      })
    )
