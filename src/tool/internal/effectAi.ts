/**
 * Bridges to `effect/ai`: content from and to parts of a prompt, and readings of the schemas of a tool.
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import type { JsonObject } from "../../payload/Json.ts"
import * as ToolResult from "../ToolResult.ts"

/**
 * Converts a text or file part of an `effect/ai` prompt.
 */
export const fromPrompt = (part: Prompt.TextPart | Prompt.FilePart): ToolResult.Content => {
  const options = readProviderOptions(part.options)
  return part.type === "text"
    ? ToolResult.textPart(part.text, options)
    : ToolResult.filePart({ mediaType: part.mediaType, data: part.data, fileName: part.fileName, options })
}

/**
 * Converts a part into the text or file part of an `effect/ai` prompt. A URL
 * that does not parse is sent unchanged, as text: the provider validates it.
 */
export function toPrompt(part: ToolResult.TextPart): Prompt.TextPart
export function toPrompt(part: ToolResult.FilePart): Prompt.FilePart
export function toPrompt(part: ToolResult.Content): Prompt.TextPart | Prompt.FilePart
export function toPrompt(part: ToolResult.Content): Prompt.TextPart | Prompt.FilePart {
  if (part.type === "text") return Prompt.textPart({ text: part.text, options: part.options })
  const { data, fileName, mediaType, options } = part
  return Prompt.filePart({ mediaType, fileName, data: toPromptData(data), options })
}

/** The raw JSON Schema of a dynamic tool that was made from one. */
export const rawParameters = (tool: Tool.Any): JsonObject | undefined =>
  Tool.isDynamic(tool) && Predicate.isObject(tool.jsonSchema)
    ? // a JSON Schema document is a JSON object; `CheckedSchema.make` checks it before anything relies on that
      (tool.jsonSchema as JsonObject)
    : undefined

export const isVoid = (schema: Schema.Top): boolean => SchemaAST.isVoid(schema.ast) || SchemaAST.isUndefined(schema.ast)

/** A schema without information about its values. */
export const isUninformative = (schema: Schema.Top): boolean =>
  SchemaAST.isUnknown(schema.ast) || SchemaAST.isAny(schema.ast) || SchemaAST.isNever(schema.ast)

const readProviderOptions = (options: Prompt.ProviderOptions): ToolResult.ProviderOptions | undefined =>
  Object.keys(options).length === 0 ? undefined : options

const toPromptData = (data: ToolResult.FilePart["data"]): string | URL => {
  if (data.type === "base64") return data.base64
  return URL.canParse(data.url) ? new URL(data.url) : data.url
}

/** The scope and the span belong to the place where a tool is bound, not to its calls. */
export const withoutBindingScope = (context: Context.Context<never>): Context.Context<never> =>
  Context.omit(
    Scope.Scope,
    Tracer.ParentSpan
  )(
    // a context may hold any service; omit only needs to know that these two may be among them
    context as Context.Context<Scope.Scope | Tracer.ParentSpan>
  )

/**
 * Lays the services of the place where a tool is bound under those that the handler's
 * layer captured: what a tool names as `dependencies` is required there, because a
 * body requires nothing.
 */
export const captureServices = <E>(
  handler: Effect.Effect<Option.Option<Tool.Handler<string>>, E>
): Effect.Effect<Option.Option<Tool.Handler<string>>, E> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.map(
      handler,
      Option.map((entry) => ({ ...entry, context: Context.merge(withoutBindingScope(context), entry.context) }))
    )
  )
