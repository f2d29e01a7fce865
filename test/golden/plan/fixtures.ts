import { Effect, Schema } from "effect"
import { Agent } from "effect-emissary"
import { Step } from "effect-emissary/plan"
import type { ScriptedModel } from "effect-emissary/testing"
import { isObject, type Json } from "../family.ts"
import type { Call, Fixture, Fixtures } from "./vocabulary.ts"

const named = <S extends Schema.Top>(schema: S, identifier: string) => schema.annotate({ identifier })

/** The types of the recordings' registry, by name. */
export const types: { readonly [name: string]: Schema.Codec<unknown, Schema.Json> } = {
  str: Schema.String,
  Hits: named(Schema.Struct({ items: Schema.Array(Schema.String) }), "Hits"),
  Tri: named(Schema.Struct({ severity: Schema.NullOr(Schema.Literals(["urgent", "normal", "spam"])) }), "Tri"),
  Kb: named(Schema.Struct({ kind: Schema.Literal("b") }), "Kb"),
  KbOpt: named(Schema.Struct({ kind: Schema.NullOr(Schema.Literal("b")) }), "KbOpt"),
  KbGhost: named(Schema.Struct({ kind: Schema.Literals(["b", "ghost"]) }), "KbGhost"),
  Kstr: named(Schema.Struct({ kind: Schema.String }), "Kstr"),
  Kint: named(Schema.Struct({ kind: Schema.Literals([1, 2]) }), "Kint"),
  Kp1: named(Schema.Struct({ kind: Schema.Literal("p1") }), "Kp1"),
  Other: named(Schema.Struct({ y: Schema.Int }), "Other")
}

/** The failure of a fixture target or predicate, named as in the recordings. */
export class RuntimeError extends Schema.TaggedError<RuntimeError>()("RuntimeError", { message: Schema.String }) {}

/** The inputs that the targets of one run received. */
export type Trace = Array<Call>

/** The fixture of the next call of a target. */
export const fixtureOf = (fixtures: Fixtures, name: string, count: number): Fixture => {
  const fixture = Object.hasOwn(fixtures, name) ? (fixtures[name] ?? {}) : {}
  const { ms, seq } = fixture
  if (seq === undefined) return fixture
  return { ...seq[Math.min(count, seq.length - 1)], ...(ms === undefined ? undefined : { ms }) }
}

export const valueOf = (fixture: Fixture, [name, task]: Call): Schema.Json =>
  fixture.model?.[1] ?? (fixture.const === undefined ? `${name}(${task})` : fixture.const)

/** The behaviour of a fixture for one call. */
const behave = Effect.fnUntraced(function* (counts: Map<string, number>, trace: Trace, fixtures: Fixtures, call: Call) {
  const name = String(call[0])
  const count = counts.get(name) ?? 0
  counts.set(name, count + 1)
  const fixture = fixtureOf(fixtures, name, count)
  if (fixture.ms !== undefined) yield* Effect.sleep(fixture.ms)
  trace.push(call)
  if (fixture.fail !== undefined) return yield* new RuntimeError({ message: fixture.fail })
  if (fixture.pause !== undefined) return yield* Step.pause(fixture.pause)
  if (fixture.conclude !== undefined) return yield* Step.conclude(fixture.conclude)
  return valueOf(fixture, call)
})

/** Makes the targets of one run, which share a trace. */
export const makeTargets = (trace: Trace, fixtures: Fixtures) => {
  const counts = new Map<string, number>()
  return {
    /** A function as the recordings have them: it sees the task alone. */
    function: (name: string) => Step.target(name, ({ task }) => behave(counts, trace, fixtures, [name, task])),
    /** An agent whose model answers with the fixture of its name. */
    agent: (name: string) => Agent.make(name, { instructions: name }),
    /** The model of all fixture agents: it knows them by their instructions. */
    script: (request: ScriptedModel.Request): Effect.Effect<ScriptedModel.Turn> => {
      const name = request.messages.find((message) => message.role === "system")?.text ?? ""
      const user = request.prompt.content.findLast((message) => message.role === "user")
      const texts = user?.role === "user" ? user.content.flatMap((part) => (part.type === "text" ? [part.text] : [])) : []
      const task = texts.at(-1) ?? ""
      const context = texts.length > 1 ? texts.slice(0, -1).join("\n\n") : null
      const { tokens } = fixtureOf(fixtures, name, counts.get(name) ?? 0)
      return behave(counts, trace, fixtures, [name, task, context]).pipe(
        Effect.map((answer) => ({
          text: typeof answer === "string" ? answer : JSON.stringify(answer),
          ...(tokens === undefined ? undefined : { usage: { inputTokens: tokens, outputTokens: tokens / 10 } })
        })),
        Effect.orDie
      )
    }
  }
}

const fieldOf = (payload: Schema.Json, name: string): Schema.Json =>
  isObject(payload) && Object.hasOwn(payload, name) ? (payload[name] ?? null) : null

const isEmpty = (value: Schema.Json): boolean =>
  value === null || value === "" || (Array.isArray(value) && value.length === 0)

/** The value that a predicate reads. */
interface Subject {
  readonly payload: Schema.Json
  readonly text: string
}

/** The result of a predicate of the recordings, by its description; `undefined` if it throws. */
export const holds = (description: string, { payload, text }: Subject, trace: ReadonlyArray<Call>): boolean | undefined => {
  const [verb = "", argument = "", count = ""] = description.split(/!=|[=:]/)
  switch (verb) {
    case "always":
    case "truthy":
      return true
    case "never":
    case "errored":
      return false
    case "throws":
      return undefined
    case "throwsIf":
      return text === argument ? undefined : true
    case "text":
      return (text === argument) !== description.includes("!=")
    case "lenLt":
      return (typeof payload === "string" || Array.isArray(payload) ? payload.length : 0) < Number(argument)
    case "runsLt":
      return trace.filter(([name]) => name === argument).length < Number(count)
    case "empty":
      return isEmpty(fieldOf(payload, argument))
    case "isFalse":
      return fieldOf(payload, argument) === false
    default:
      throw new Error(`the vocabulary has no predicate ${JSON.stringify(description)}`)
  }
}

export const makePredicates = (trace: Trace, predicates: Json) =>
  Object.fromEntries(
    Object.entries(predicates).map(([key, description]) => [
      key,
      (subject: Subject) =>
        Effect.suspend(() => {
          const found = holds(String(description), subject, trace)
          return found === undefined ? new RuntimeError({ message: "bad predicate" }) : Effect.succeed(found)
        })
    ])
  )
