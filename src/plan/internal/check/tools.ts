/** Whether tools are there, and how they take what a step gives them. */
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Names from "../../../payload/Names.ts"
import type { BoundTool } from "../../../tool/BoundTool.ts"
import type { StepDefinition } from "../../PlanDefinition.ts"
import type { ToolArguments } from "../live.ts"
import { conflict } from "./compatible.ts"
import * as Json from "./jsonSchema.ts"
import { list } from "../names/words.ts"
import { contextOf } from "../references.ts"
import { type Finding, sorted } from "./outline.ts"

/** Unions and references that are followed to see whether a parameter takes text. */
const DEPTH = 8

const target = (code: Finding["code"], name: string, problem: string, fix: string): Finding => ({
  code,
  slot: "target",
  value: Names.quote(name),
  problem,
  fix
})

/** The target of a step that names a tool, or an agent, that the plan is bound with. */
export const check = (
  { target: { kind, name }, ...step }: StepDefinition,
  tools: ReadonlyMap<string, BoundTool>,
  agents: ReadonlySet<string>
): Finding | undefined => {
  if (kind !== "tool") return undefined
  const tool = tools.get(name)
  if (tool === undefined) {
    if (agents.has(name)) return undefined
    const known = sorted([...tools.keys(), ...agents])
    return {
      ...target("UnknownTool", name, "there is no tool and no agent of that name", "Bind the plan with it"),
      unknown: { name, kind: "tools and agents", known }
    }
  }
  if (agents.has(name)) {
    return target(
      "AmbiguousTarget",
      name,
      "a tool and an agent have that name",
      "Bind the plan with one of them, or rename one"
    )
  }
  const found = toolArguments(tool, { ...step, target: { kind, name } })
  return Result.isFailure(found) ? found.failure : undefined
}

/** The parameters of a tool that take what a step gives. */
export const toolArguments = (tool: BoundTool, step: StepDefinition): Result.Result<ToolArguments, Finding> => {
  const { name } = tool.contract
  if (tool.kind === "provider") {
    return Result.fail(
      target(
        "ProviderTool",
        name,
        "the tool runs at the provider of a model, which calls it by itself",
        "Take an agent with that tool"
      )
    )
  }
  return step.input === undefined ? fromText(tool, name) : fromPayload(tool, name, step)
}

/** The text of the task, and that of the context. */
const fromText = (tool: BoundTool, name: string): Result.Result<ToolArguments, Finding> => {
  const parameters = Json.resolve(Json.located(tool.contract.parameters))
  const keys = parameters === undefined ? [] : Object.keys(Json.properties(parameters))
  const texts = parameters === undefined ? [] : keys.filter((key) => takesText(parameters, key))
  const task = texts.includes("task")
    ? "task"
    : (texts.find((key) => key !== "context") ?? texts[0] ?? (keys.includes("input") ? undefined : "input"))
  const isOpen = parameters === undefined || !Json.isClosed(parameters)
  if (task === undefined || (!keys.includes(task) && !isOpen)) {
    return refuse(
      name,
      keys.length === 0
        ? "expected a tool that takes the text of the task, found one without parameters"
        : `expected a tool that takes the text of the task, found no parameter for a text among ${list(keys)}`,
      "Give the step an input schema, whose object is then the arguments of the tool"
    )
  }
  const context = task !== "context" && texts.includes("context") ? "context" : undefined
  const missing = demanded(parameters, new Set([task, ...(context === undefined ? [] : [context])]))
  return missing.length === 0
    ? Result.succeed({ _tag: "Text", task, context })
    : refuse(
        name,
        `the tool takes the text of the task as ${Names.quote(task)}, and also requires ${list(missing)}`,
        "Give the step an input schema, whose object is then the arguments of the tool"
      )
}

/** The payload as all arguments, with the text of the context beside it. */
const fromPayload = (tool: BoundTool, name: string, step: StepDefinition): Result.Result<ToolArguments, Finding> => {
  const given = step.input?.json
  const parameters = Json.resolve(Json.located(tool.contract.parameters))
  const hasContext = contextOf(step.context).length > 0
  const isGiven = given !== undefined && Json.property(Json.located(given), "context") !== undefined
  const takesContext = hasContext && !isGiven && parameters !== undefined && takesText(parameters, "context")
  const added = takesContext ? { ...given, ...withContext(given) } : given
  const reason =
    given === undefined
      ? undefined
      : (conflict(given, { type: "object" }) ?? conflict(added ?? given, tool.contract.parameters))
  if (reason !== undefined) {
    return refuse(
      name,
      `the input of the step is the arguments of the tool, and never fits its parameters: ${reason}`,
      "Change the input of the step"
    )
  }
  if (hasContext && !takesContext) {
    return Result.fail(
      target(
        "ContextNotTaken",
        name,
        isGiven
          ? `the input of the step has a field "context" of its own, so its context has no place among the arguments`
          : `the input of the step is the arguments of the tool, which has no parameter "context" that takes a text`,
        "Remove context from the step, or give the tool such a parameter"
      )
    )
  }
  return Result.succeed({ _tag: "Payload", context: takesContext ? "context" : undefined })
}

const withContext = (given: { readonly [key: string]: Schema.Json } | undefined) => ({
  properties: { ...Json.properties(Json.located(given ?? {})), context: { type: "string" } }
})

const refuse = (name: string, problem: string, fix: string): Result.Result<never, Finding> =>
  Result.fail(target("ToolArguments", name, problem, fix))

/** What a call must have and does not: required, not given, without default. */
const demanded = (parameters: Json.Located | undefined, given: ReadonlySet<string>): ReadonlyArray<string> =>
  parameters === undefined
    ? []
    : Json.required(parameters).filter(
        (key) => !given.has(key) && Json.own(Json.property(parameters, key)?.schema, "default") === undefined
      )

/** Whether a parameter takes any text. */
const takesText = (parameters: Json.Located, key: string): boolean => {
  const found = Json.property(parameters, key)
  return found !== undefined && isText(found, DEPTH)
}

const isText = (at: Json.Located, depth: number): boolean => {
  const schema = Json.resolve(at)
  if (schema === undefined || depth === 0 || schema.schema === false) return false
  if (Json.values(schema) !== undefined) return false
  const types = Json.types(schema)
  if (types !== undefined && !types.includes("string")) return false
  if (!Json.parts(schema).every((part) => isText(part, depth - 1))) return false
  return Json.members(schema)?.some((member) => isText(member, depth - 1)) ?? true
}
