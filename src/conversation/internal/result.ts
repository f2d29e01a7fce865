import type * as Prompt from "effect/ai/Prompt"
import * as Equal from "effect/Equal"
import type * as Schema from "effect/Schema"
import * as Content from "../../tool/Content.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as json from "./json.ts"
import type { Note } from "./note.ts"

/** A tool's result from the value and the model output of a prompt or response part. */
export const fromPart = (
  part: Pick<Prompt.ToolResultPart, "isFailure" | "modelOutput">,
  value: Schema.Json,
  note: Note = {}
): ToolResult.ToolResult => {
  const [first, ...rest] = (part.modelOutput ?? []).map(Content.fromPrompt)
  const content: Content.NonEmptyContent | undefined = first === undefined ? undefined : [first, ...rest]
  if (!part.isFailure) return ToolResult.success(value, content)
  const failure: ToolResult.Failure =
    note.failure === undefined ? failureOf(value) : { _tag: "Failure", ...note.failure }
  const own = note.content ?? (content !== undefined && !Equal.equals(content, ToolResult.content(failure)))
  return own && content !== undefined ? { ...failure, content } : failure
}

// The failures that effect/ai makes itself, by our names
const coreTypes: Readonly<Record<string, ToolResult.ReservedType>> = {
  "execution-denied": "denied",
  "execution-interrupted": "interrupted"
}

const ownKeys = new Set(["type", "message", "value"])

/** The failure that a value tells of. */
export const failureOf = (value: Schema.Json): ToolResult.Failure => {
  if (!json.isObject(value)) return ToolResult.failure("execution_error", asText(value), value)
  const type = text(value, "type")
  const message = text(value, "message")
  if (type !== undefined && message !== undefined && Object.keys(value).every((key) => ownKeys.has(key))) {
    return ToolResult.failure(type, message, value["value"])
  }
  const name = type ?? text(value, "_tag") ?? "execution_error"
  const ours = Object.hasOwn(coreTypes, name) ? coreTypes[name] : undefined
  return ToolResult.failure(ours ?? name, message ?? text(value, "reason") ?? asText(value), value)
}

const text = (value: Readonly<Record<string, Schema.Json>>, key: string): string | undefined => {
  const found = Object.hasOwn(value, key) ? value[key] : undefined
  return typeof found === "string" ? found : undefined
}

const asText = (value: Schema.Json): string => (typeof value === "string" ? value : JSON.stringify(value))
