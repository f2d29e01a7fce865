import { Effect, Schema } from "effect"
import { Agent } from "effect-emissary"
import { Step } from "effect-emissary/plan"
import type { ScriptedModel } from "effect-emissary/testing"

import type { Json } from "../family.ts"
import { type Call, isObject } from "./vocabulary.ts"

/** The failure of a fixture target or predicate, named as in the recordings. */
export class RuntimeError extends Schema.TaggedError<RuntimeError>()("RuntimeError", { message: Schema.String }) {}

/** What the targets of one run saw, and how often each was called. */
export interface Recording {
  readonly trace: Array<Call>
  readonly calls: Map<string, number>
}

export const recording = (): Recording => ({ trace: [], calls: new Map() })

const fixtureOf = (fixtures: Json, name: string, count: number): Json => {
  const fixture = Object.hasOwn(fixtures, name) ? fixtures[name] : undefined
  if (!isObject(fixture)) return {}
  const sequence = fixture["seq"]
  if (!Array.isArray(sequence)) return fixture
  const item = sequence[Math.min(count, sequence.length - 1)]
  return isObject(item) ? { ...item, ...(fixture["ms"] === undefined ? {} : { ms: fixture["ms"] }) } : {}
}

/** What a fixture does for one call. */
const behave = Effect.fnUntraced(function* (recording: Recording, fixtures: Json, call: Call) {
  const [name, task] = call
  const count = recording.calls.get(name) ?? 0
  recording.calls.set(name, count + 1)
  const fixture = fixtureOf(fixtures, name, count)
  if (typeof fixture["ms"] === "number") yield* Effect.sleep(fixture["ms"])
  recording.trace.push(call)
  if (typeof fixture["fail"] === "string") return yield* new RuntimeError({ message: fixture["fail"] })
  if (typeof fixture["pause"] === "string") return yield* Step.pause(fixture["pause"])
  if (typeof fixture["conclude"] === "string") return yield* Step.conclude(fixture["conclude"])
  const model = fixture["model"]
  if (Array.isArray(model)) return model[1] ?? null
  return fixture["const"] === undefined ? `${name}(${task})` : fixture["const"]
})

/** A function as the recordings have them: it sees the task alone. */
export const functionTarget = (name: string, recording: Recording, fixtures: Json) =>
  Step.target(name, ({ task }) => behave(recording, fixtures, [name, task]))

/** An agent whose model answers what the fixture of its name says, see {@link agentScript}. */
export const agentTarget = (name: string) => Agent.make(name, { instructions: name })

/** The model of all fixture agents: it knows them by their instructions. */
export const agentScript =
  (recording: Recording, fixtures: Json): ScriptedModel.TurnFunction =>
  (request) => {
    const name = request.messages.find((message) => message.role === "system")?.text ?? ""
    const user = request.prompt.content.findLast((message) => message.role === "user")
    const texts = user?.role === "user" ? user.content.flatMap((part) => (part.type === "text" ? [part.text] : [])) : []
    const task = texts.at(-1) ?? ""
    const context = texts.length > 1 ? texts.slice(0, -1).join("\n\n") : null
    return behave(recording, fixtures, [name, task, context]).pipe(
      Effect.map((answer): ScriptedModel.Turn => ({ text: typeof answer === "string" ? answer : JSON.stringify(answer) })),
      Effect.orDie
    )
  }

const lengthOf = (value: unknown): number => (typeof value === "string" || Array.isArray(value) ? value.length : 0)

const fieldOf = (payload: Schema.Json, name: string): Schema.Json =>
  isObject(payload) && Object.hasOwn(payload, name) ? (payload[name] ?? null) : null

const isEmpty = (value: Schema.Json): boolean =>
  value === null || value === "" || (Array.isArray(value) && value.length === 0)

/** What a predicate looks at. */
interface Subject {
  readonly payload: Schema.Json
  readonly text: string
}

/** A predicate of the recordings by its description. */
export const predicate =
  (description: string, recording: Recording) =>
  ({ payload, text }: Subject): Effect.Effect<boolean, RuntimeError> => {
    const fails = Effect.fail(new RuntimeError({ message: "bad predicate" }))
    const [verb = "", argument = "", count = ""] = description.split(/!=|[=:]/)
    switch (verb) {
      case "always":
      case "truthy":
        return Effect.succeed(true)
      case "never":
      case "errored":
        return Effect.succeed(false)
      case "throws":
        return fails
      case "throwsIf":
        return text === argument ? fails : Effect.succeed(true)
      case "text":
        return Effect.succeed((text === argument) !== description.includes("!="))
      case "lenLt":
        return Effect.succeed(lengthOf(payload) < Number(argument))
      case "runsLt":
        return Effect.succeed(recording.trace.filter(([name]) => name === argument).length < Number(count))
      case "empty":
        return Effect.succeed(isEmpty(fieldOf(payload, argument)))
      case "isFalse":
        return Effect.succeed(fieldOf(payload, argument) === false)
      default:
        return Effect.die(new Error(`the vocabulary has no predicate ${JSON.stringify(description)}`))
    }
  }
