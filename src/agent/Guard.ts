/**
 * Guards: values that decide what may pass at a place of a run.
 *
 * A guard has a name, a place and a check: an Effect that sees what is to pass, and whose verdict is {@link pass}, {@link replace},
 * {@link refuse} or {@link ask}. An agent has guards (`Agent.Config`), and the host has guards: of a run
 * (`Agent.Options`), of all turns of a session (`run.guards` of `Session.layer`), and of all that runs within a {@link layer}. Guards of
 * the host also hold for all agents inside: agents that are tools, and agents in the steps of plans.
 *
 * **Details**
 *
 * | place | sees | replaces |
 * |---|---|---|
 * | `input` | a message of the user before it enters the run, messages that steer included | its text |
 * | `beforeModel` | the prompt of each model call | the prompt of this call |
 * | `afterModel` | each answer, with its calls | its text |
 * | `output` | each answer with a text for the user, and the structured output | its text |
 * | `beforeTool` | the checked arguments of each call, before an approval is asked for | the arguments |
 * | `afterTool` | the result of each call | the result |
 *
 * The guards of a place decide in order: first the guards of the agent, then the guards of the run, then the guards around. Each sees what the
 * guards before it have made of the value, so the host has the last word. A refusal ends the run with the outcome `Refused`, which has
 * the name of the guard and the reason. A guard that fails, dies or takes too long refuses.
 *
 * Nothing of a refused answer is kept or shown. A refused message of the user stays in the conversation without its text, so that no
 * later request has it. The result of a refused `afterTool` is withheld: the call was made. Calls that did not start stay open.
 *
 * A value about which a guard asks is held: it is stored, and neither shown nor used. All guards of its place have decided before. With
 * the approval it passes as it is: no model call is made again, no call runs again, and no guard is asked again, except guards that replace a prompt,
 * because prompts are not stored. A denial is a refusal.
 *
 * Verdicts other than a pass are events of the run, `GuardDecided`. A guard is not asked again about a value after the next event of the
 * run is stored. Where a process dies before that, nothing of the value has left the guard, and the guard is asked again: about the message, the
 * request or the call, which are the same. Arguments that were replaced are a part of their event, and are used again. In a workflow
 * each verdict is stored.
 *
 * The agents and plans that the check of a guard runs count in the usage and in the budgets of the run, whatever the verdict. The event `GuardUsed`
 * has their part.
 *
 * **Example** (An answer that is refused)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Agent, Guard } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const noSecrets = Guard.make("no-secrets", {
 *   on: "output",
 *   check: ({ text }) => Effect.succeed(text.includes("sk-") ? Guard.refuse("The answer holds a key.") : Guard.pass)
 * })
 *
 * const helper = Agent.make("helper", { guards: [noSecrets] })
 *
 * const result = await Effect.runPromise(
 *   helper.run("What is the key?").pipe(Effect.provide(ScriptedModel.layer([{ text: "It is sk-123." }])))
 * )
 * assert(result.outcome === "Refused")
 * assert.strictEqual(result.guard, "no-secrets")
 * assert.strictEqual(result.reason, "The answer holds a key.")
 * assert.strictEqual(result.text, "")
 * ```
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import type * as Decision from "effect/ai/Decision"
import type * as DecisionModel from "effect/ai/DecisionModel"
import { defined } from "../payload/internal/values.ts"
import type * as agentTypes from "./internal/agentTypes.ts"
import * as guardChecks from "./internal/guardChecks.ts"
import * as guardTypes from "./internal/guardTypes.ts"

export {
  /**
   * Type identifier of guards.
   *
   * @category symbols
   * @since 0.1.0
   */
  TypeId,
  /**
   * A guard, made by {@link make}. `R` are the services that its decisions require: of an agent's guard the agent requires them, a guard
   * of a run has to be bound first, see {@link bind}.
   *
   * @category models
   * @since 0.1.0
   */
  type Guard,
  /**
   * A place of a run where guards decide.
   *
   * @category models
   * @since 0.1.0
   */
  type Place,
  /**
   * The value of a place as a guard sees it, with its surroundings.
   *
   * **Details**
   *
   * - `text`: the value of the place as text: of the message, of the newest message of the prompt, of the answer, of the result, or the
   *   JSON of the arguments.
   * - `agent`, `runId`, `context`: the name of the agent, the id of the run, and its `RunContext`.
   * - `conversation`: the conversation as it is, without the value.
   * - `message`, `prompt`, `content`, `tool`, `callId`, `arguments`, `result`: by place, see {@link SeenAt}.
   *
   * @category models
   * @since 0.1.0
   */
  type Seen,
  /**
   * The part of {@link Seen} that all places have.
   *
   * @category models
   * @since 0.1.0
   */
  type SeenBase,
  /**
   * The part of {@link Seen} that a place has for itself.
   *
   * @category models
   * @since 0.1.0
   */
  type SeenAt,
  /**
   * The values that guards replace, by place.
   *
   * @category models
   * @since 0.1.0
   */
  type ValueAt,
  /**
   * The verdict of a guard: {@link pass}, {@link replace}, {@link refuse}, or {@link ask}.
   *
   * @category models
   * @since 0.1.0
   */
  type Verdict,
  /**
   * Any verdict, as a run reads it. A verdict that does not fit its place refuses.
   *
   * @category models
   * @since 0.1.0
   */
  type AnyVerdict,
  /**
   * The options that guards of all kinds have.
   *
   * @category options
   * @since 0.1.0
   */
  type Terms
} from "./internal/guardTypes.ts"

/**
 * True if a value is a guard.
 *
 * @category guards
 * @since 0.1.0
 */
export const isGuard: (u: unknown) => u is guardTypes.Guard<unknown> = guardTypes.isGuard

/**
 * The verdict that lets the value pass as it is.
 *
 * @category verdicts
 * @since 0.1.0
 */
export const pass: { readonly _tag: "Pass" } = { _tag: "Pass" }

/**
 * The verdict that puts another value of the same kind in place of the value: a text, a prompt, arguments, or a result. Arguments have to
 * fit the tool.
 *
 * @category verdicts
 * @since 0.1.0
 */
export const replace = <V>(value: V): { readonly _tag: "Replace"; readonly value: V } => ({ _tag: "Replace", value })

/**
 * The verdict that ends the run as `Refused`, for a reason that the user may read.
 *
 * @category verdicts
 * @since 0.1.0
 */
export const refuse = (reason: string): { readonly _tag: "Refuse"; readonly reason: string } => ({
  _tag: "Refuse",
  reason
})

/**
 * The verdict that asks a person. Before a call the request is an `Approval` of the call, as `needsApproval` of its tool makes it, and the reason
 * is in the event. At all other places the request is a `Pause` of the guard with the reason: see `Run.Request`.
 *
 * @category verdicts
 * @since 0.1.0
 */
export const ask = (reason: string): { readonly _tag: "Ask"; readonly reason: string } => ({ _tag: "Ask", reason })

/**
 * Options of {@link make}.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options<P extends guardTypes.Place, E, R> extends guardTypes.Terms {
  /** The place where the guard decides. */
  readonly on: P
  /** Decides about what it sees. A failure or a defect refuses, see `onFailure`. */
  readonly check: (seen: guardTypes.Seen<P>) => Effect.Effect<guardTypes.Verdict<P>, E, R>
}

const termsOf = ({ onFailure, text, timeout, when }: guardTypes.Terms): guardTypes.Terms => ({
  onFailure,
  text,
  timeout,
  when
})

/**
 * Makes a guard. Its name is in events, in the outcome `Refused`, and in the definition of its agent.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <const P extends guardTypes.Place, E, R>(
  name: string,
  { check, on, ...terms }: Options<P, E, R>
): guardTypes.Guard<R> => ({
  [guardTypes.TypeId]: {
    // Sound: a run asks a guard at its place only
    check: (seen) => check(seen as guardTypes.SeenBase as guardTypes.Seen<P>),
    terms: termsOf(terms),
    guarding: guardChecks.guarding
  },
  name,
  on
})

/**
 * Makes a guard of an agent: it gets the `text` of the place as its input, and `verdict` makes the verdict of its output. It is not guarded
 * itself. Its tokens are tokens of the run, and it has the budgets of the run. A guard whose agent has no budget left could not decide, see
 * `onFailure`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromAgent = <const P extends guardTypes.Place, A, R>(
  name: string,
  options: guardTypes.Terms & {
    /** The place where the guard decides. */
    readonly on: P
    /** The agent that is asked. */
    readonly agent: agentTypes.Agent<A, R>
    /** The verdict for the answer of the agent. */
    readonly verdict: (answer: A, seen: guardTypes.Seen<P>) => guardTypes.Verdict<P>
  }
): guardTypes.Guard<R> =>
  make(name, {
    ...options,
    check: (seen: guardTypes.Seen<P>) =>
      Effect.map(options.agent.ask(seen.text), (answer) => options.verdict(answer, seen))
  })

/** By its key: `effect/ai/DecisionModel` would be loaded for its service alone. */
const decisionModel = Context.Service<DecisionModel.DecisionModel, DecisionModel.DecisionModel>(
  "effect/ai/DecisionModel"
)

/**
 * Makes a guard of a `DecisionModel` of Effect, which classifies or rates the `text` of the place. Its tokens count as in {@link fromAgent},
 * and no money, because a decision has no price.
 *
 * **Example** (A message that is classified)
 *
 * ```ts
 * import { Schema } from "effect"
 * import { Decision } from "effect/ai"
 * import { Guard } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const topic = Guard.fromDecision("topic", {
 *   on: "input",
 *   definition: Decision.make({
 *     input: Schema.Struct({ text: Schema.String }),
 *     decisions: {
 *       topic: Decision.classify({ instructions: "What is it about?", criteria: { orders: "orders", other: null } }),
 *       anger: Decision.rate({ instructions: "How angry is it?", criteria: ["calm", "angry"] })
 *     }
 *   }),
 *   verdict: ({ topic }) => (topic.label === "other" ? Guard.refuse("I can only help with orders.") : Guard.pass)
 * })
 * assert.strictEqual(topic.on, "input")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromDecision = <
  const P extends guardTypes.Place,
  Input extends Schema.Codec<{ readonly text: string }, unknown, never, unknown>,
  Decisions extends Record<string, Decision.Any>
>(
  name: string,
  options: guardTypes.Terms & {
    /** The place where the guard decides. */
    readonly on: P
    /** The decisions. Their input is an object with the `text`. */
    readonly definition: Decision.Definition<Input, Decisions>
    /** The verdict for the answers of the model. */
    readonly verdict: (answers: Decision.Answers<Decisions>, seen: guardTypes.Seen<P>) => guardTypes.Verdict<P>
  }
): guardTypes.Guard<DecisionModel.DecisionModel | Input["EncodingServices"]> =>
  make(name, {
    ...options,
    check: (seen: guardTypes.Seen<P>) =>
      Effect.flatMap(decisionModel, (model) =>
        Effect.map(
          guardChecks.counted(
            model.decide(options.definition, { input: { text: seen.text } }),
            ({ usage: { inputTokens, outputTokens } }) => defined({ inputTokens, outputTokens })
          ),
          ({ answers }) => options.verdict(answers, seen)
        )
      )
  })

/**
 * Binds a guard to the services around, for the options of a run or a session.
 *
 * @category combinators
 * @since 0.1.0
 */
export const bind = <R>(guard: guardTypes.Guard<R>): Effect.Effect<guardTypes.Guard, never, R> =>
  Effect.contextWith((services: Context.Context<R>) => {
    const { check, ...rest } = guard[guardTypes.TypeId]
    const bound = (seen: guardTypes.Seen) => Effect.provideContext(check(seen), services)
    return Effect.succeed({ ...guard, [guardTypes.TypeId]: { check: bound, ...rest } })
  })

const bindAll = <R>(guards: ReadonlyArray<guardTypes.Guard<R>>) => Effect.forEach(guards, bind)

/**
 * Guards of the host: they hold for all runs within the layer, and for all agents whose layers are built with it, beside the guards
 * that those have.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <R>(guards: ReadonlyArray<guardTypes.Guard<R>>): Layer.Layer<never, never, R> =>
  Layer.effect(
    guardTypes.Host,
    Effect.flatMap(guardTypes.Host, (outer) => Effect.map(bindAll(guards), (bound) => guardTypes.join(bound, outer)))
  )

/**
 * The guards that definitions may name. `Agent.decode` and `Agent.bind` fail for a name that is not there: an agent that came as data
 * never runs without a guard of its definition.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerNamed = <R>(guards: ReadonlyArray<guardTypes.Guard<R>>): Layer.Layer<never, never, R> =>
  Layer.effect(
    guardTypes.Known,
    Effect.flatMap(guardTypes.Known, (outer) => Effect.map(bindAll(guards), (bound) => guardTypes.join(bound, outer)))
  )
