/**
 * What a run of a plan starts from: a text, or its parts.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Content } from "../tool/Content.ts"

/**
 * The input of a run as it is kept.
 *
 * **Details**
 *
 * `task` is the text, `payload` the value (the task, unless something else was given),
 * `context` side text, and `content` images and files; steps whose task is `fromStart`,
 * and a first step whose task is `fromPrev`, are given the content.
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanInput {
  readonly task: string
  readonly payload: Schema.Json
  readonly context?: string
  readonly content?: ReadonlyArray<Content>
}

/**
 * Schema of {@link PlanInput}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const PlanInput: Schema.Codec<PlanInput> = Schema.Struct({
  task: Schema.String,
  payload: Schema.Json,
  context: Schema.optionalKey(Schema.String),
  content: Schema.optionalKey(Schema.Array(Content))
})

/**
 * What can be given to `run`: a text, or the parts. Without `payload` the payload is
 * the task; without `task` the task is the payload as text.
 *
 * @category models
 * @since 0.1.0
 */
export type Input =
  | string
  | {
      readonly task?: string | undefined
      readonly payload?: Schema.Json | undefined
      readonly context?: string | undefined
      readonly content?: ReadonlyArray<Content> | undefined
    }
