/**
 * What was said in a conversation, without what differs from run to run.
 *
 * Two conversations with equal transcripts are the same exchange: the same roles,
 * texts, calls and results in the same order, whatever their ids, times, token
 * usage, and the order in which results arrived.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as Content from "../tool/Content.ts"

/**
 * Text, with neighbouring text parts joined.
 *
 * @category models
 * @since 0.1.0
 */
export const Text = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String })

/**
 * A file.
 *
 * @category models
 * @since 0.1.0
 */
export const File = Schema.Struct({
  type: Schema.Literal("file"),
  mediaType: Schema.String,
  fileName: Schema.optionalKey(Schema.String),
  data: Content.FileData
})

/**
 * A call, without its id.
 *
 * @category models
 * @since 0.1.0
 */
export const Call = Schema.Struct({
  type: Schema.Literal("tool-call"),
  name: Schema.String,
  arguments: Schema.Json
})

const result = {
  name: Schema.String,
  /** `"success"`, or the type of the failure. */
  type: Schema.String,
  content: Schema.Array(Schema.Union([Text, File]))
}

/**
 * One entry of a transcript.
 *
 * **Details**
 *
 * Reasoning is left out. Results of tools that the provider ran stand in the
 * assistant's content; other results are entries of their own, in call order.
 *
 * @category models
 * @since 0.1.0
 */
export const Entry = Schema.Union([
  Schema.Struct({ role: Schema.Literal("system"), text: Schema.String }),
  Schema.Struct({ role: Schema.Literal("user"), content: Schema.Array(Schema.Union([Text, File])) }),
  Schema.Struct({
    role: Schema.Literal("assistant"),
    content: Schema.Array(
      Schema.Union([
        Text,
        File,
        Call,
        Schema.Struct({ type: Schema.Literal("tool-result"), result: Schema.Struct(result) })
      ])
    )
  }),
  Schema.Struct({ role: Schema.Literal("tool"), ...result })
])

/**
 * One entry of a transcript.
 *
 * @category models
 * @since 0.1.0
 */
export type Entry = typeof Entry.Type

/**
 * Schema of a transcript. Transcripts are plain data: compare them with
 * `Equal.equals` or any deep comparison.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Transcript = Schema.Array(Entry)

/**
 * A whole transcript.
 *
 * @category models
 * @since 0.1.0
 */
export type Transcript = typeof Transcript.Type
