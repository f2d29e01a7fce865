import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import type { JsonObject } from "../../payload/Json.ts"
import type { Annotations, Approval } from "../ToolContract.ts"

/** The raw JSON Schema of a dynamic tool that was made from one. */
export const rawParameters = (tool: Tool.Any): JsonObject | undefined =>
  Tool.isDynamic(tool) && Predicate.isObject(tool.jsonSchema)
    ? // a JSON Schema document is a JSON object; `CheckedSchema.make` checks it before anything relies on that
      (tool.jsonSchema as JsonObject)
    : undefined

export const isVoid = (schema: Schema.Top): boolean => SchemaAST.isVoid(schema.ast) || SchemaAST.isUndefined(schema.ast)

/** A schema that tells readers of a contract nothing. */
export const saysNothing = (schema: Schema.Top): boolean =>
  SchemaAST.isUnknown(schema.ast) || SchemaAST.isAny(schema.ast) || SchemaAST.isNever(schema.ast)

export const approval = (tool: Tool.Any): Approval => {
  if (typeof tool.needsApproval === "function") return "dynamic"
  return tool.needsApproval === true ? "always" : "never"
}

export const annotations = (tool: Tool.Any): Annotations => {
  const title = Context.getOrUndefined(tool.annotations, Tool.Title)
  const readonly = Context.getOrUndefined(tool.annotations, Tool.Readonly)
  const destructive = Context.getOrUndefined(tool.annotations, Tool.Destructive)
  const idempotent = Context.getOrUndefined(tool.annotations, Tool.Idempotent)
  const openWorld = Context.getOrUndefined(tool.annotations, Tool.OpenWorld)
  const strict = Context.getOrUndefined(tool.annotations, Tool.Strict)
  return {
    ...(title === undefined ? undefined : { title }),
    ...(readonly === undefined ? undefined : { readonly }),
    ...(destructive === undefined ? undefined : { destructive }),
    ...(idempotent === undefined ? undefined : { idempotent }),
    ...(openWorld === undefined ? undefined : { openWorld }),
    ...(strict === undefined ? undefined : { strict })
  }
}

/** Puts the hints of a contract back onto a tool. */
export const annotate = (annotations: Annotations): Context.Context<never> => {
  let context = Context.empty()
  const add = <I, S>(key: Context.Key<I, S>, value: S | undefined) => {
    // tools keep their annotations in a Context<never>; the identifier is not tracked there
    if (value !== undefined) context = Context.add(context, key, value) as Context.Context<never>
  }
  add(Tool.Title, annotations.title)
  add(Tool.Readonly, annotations.readonly)
  add(Tool.Destructive, annotations.destructive)
  add(Tool.Idempotent, annotations.idempotent)
  add(Tool.OpenWorld, annotations.openWorld)
  add(Tool.Strict, annotations.strict)
  return context
}
