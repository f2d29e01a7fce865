/**
 * What a step reads: the input of the plan, what earlier steps gave, what an agent
 * remembers, or a fixed text.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * The step that ran last; the input of the plan for the first one. After a band, the
 * last declared member.
 *
 * @category models
 * @since 0.1.0
 */
export interface FromPrev {
  readonly _tag: "FromPrev"
}

/**
 * The input of the plan.
 *
 * @category models
 * @since 0.1.0
 */
export interface FromStart {
  readonly _tag: "FromStart"
}

/**
 * What the newest run of a step gave.
 *
 * @category models
 * @since 0.1.0
 */
export interface FromStep<out Name extends string = string> {
  readonly _tag: "FromStep"
  readonly step: Name
}

/**
 * The same as {@link FromStep}, for a member of a band.
 *
 * @category models
 * @since 0.1.0
 */
export interface FromParallel<out Name extends string = string> {
  readonly _tag: "FromParallel"
  readonly step: Name
}

/**
 * What all members of the band that begins with `step` gave, in declared order.
 *
 * @category models
 * @since 0.1.0
 */
export interface FromParallelAll<out Name extends string = string> {
  readonly _tag: "FromParallelAll"
  readonly step: Name
}

/**
 * What an agent remembers, as text. `agent` is a name the plan is bound with.
 *
 * @category models
 * @since 0.1.0
 */
export interface FromMemory {
  readonly _tag: "FromMemory"
  readonly agent: string
}

/**
 * What an agent answered last, in this run or an earlier one. `agent` is a name the
 * plan is bound with.
 *
 * @category models
 * @since 0.1.0
 */
export interface FromAgent {
  readonly _tag: "FromAgent"
  readonly agent: string
}

/**
 * A fixed text.
 *
 * @category models
 * @since 0.1.0
 */
export interface Literal {
  readonly _tag: "Literal"
  readonly value: string
}

/**
 * What a step reads. `Name` are the names of the steps it refers to.
 *
 * @category models
 * @since 0.1.0
 */
export type Reference<Name extends string = string> =
  | FromPrev
  | FromStart
  | FromStep<Name>
  | FromParallel<Name>
  | FromParallelAll<Name>
  | FromMemory
  | FromAgent
  | Literal

/**
 * Schema of {@link Reference}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Reference: Schema.Codec<Reference> = Schema.Union([
  Schema.TaggedStruct("FromPrev", {}),
  Schema.TaggedStruct("FromStart", {}),
  Schema.TaggedStruct("FromStep", { step: Schema.String }),
  Schema.TaggedStruct("FromParallel", { step: Schema.String }),
  Schema.TaggedStruct("FromParallelAll", { step: Schema.String }),
  Schema.TaggedStruct("FromMemory", { agent: Schema.String }),
  Schema.TaggedStruct("FromAgent", { agent: Schema.String }),
  Schema.TaggedStruct("Literal", { value: Schema.String })
])

/**
 * A reference, or a text that stands for a {@link Literal}.
 *
 * @category models
 * @since 0.1.0
 */
export type Input<Name extends string = string> = Reference<Name> | string

/**
 * @category constructors
 * @since 0.1.0
 */
export const fromPrev: FromPrev = { _tag: "FromPrev" }

/**
 * @category constructors
 * @since 0.1.0
 */
export const fromStart: FromStart = { _tag: "FromStart" }

/**
 * @category constructors
 * @since 0.1.0
 */
export const fromStep = <const Name extends string>(step: Name): FromStep<Name> => ({ _tag: "FromStep", step })

/**
 * @category constructors
 * @since 0.1.0
 */
export const fromParallel = <const Name extends string>(step: Name): FromParallel<Name> => ({
  _tag: "FromParallel",
  step
})

/**
 * @category constructors
 * @since 0.1.0
 */
export const fromParallelAll = <const Name extends string>(step: Name): FromParallelAll<Name> => ({
  _tag: "FromParallelAll",
  step
})

/**
 * @category constructors
 * @since 0.1.0
 */
export const fromMemory = (agent: string): FromMemory => ({ _tag: "FromMemory", agent })

/**
 * @category constructors
 * @since 0.1.0
 */
export const fromAgent = (agent: string): FromAgent => ({ _tag: "FromAgent", agent })

/**
 * @category constructors
 * @since 0.1.0
 */
export const literal = (value: string): Literal => ({ _tag: "Literal", value })

/**
 * A reference as it is.
 *
 * @category getters
 * @since 0.1.0
 */
export const fromInput = <Name extends string>(input: Input<Name>): Reference<Name> =>
  typeof input === "string" ? literal(input) : input
