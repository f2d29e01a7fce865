import { Effect, type Schema } from "effect"
import { AgentDefinition } from "effect-emissary"
import { checkExit, type Json, type Run } from "../golden.ts"
import { checkWire, type GoldenDefinition, toDefinition } from "../wireCases.ts"

/** A value computed from the context: text in which `{key}` is replaced, or null. */
const computed = (template: Schema.Json, context: Json): Schema.Json =>
  typeof template === "string"
    ? template.replaceAll(/\{(\w+)\}/gu, (_, key: string) => String(context[key] ?? ""))
    : template

export const run: Run = (given, expect) => {
  // the vocabulary fixes the form of these
  const dynamic = (given["dynamic"] ?? {}) as Json
  const context = (given["context"] ?? {}) as Json
  const definition = {
    ...(given["definition"] as Json),
    ...Object.fromEntries(Object.entries(dynamic).map(([key, value]) => [key, computed(value, context)]))
  } as GoldenDefinition
  return checkExit(
    Effect.flatMap(toDefinition(definition), (ours) => AgentDefinition.encode(ours, { version: 1 })),
    expect,
    (wire) => checkWire(wire, expect)
  )
}
