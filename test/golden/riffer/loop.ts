/** The group loop: an agent against a scripted model. */
import { assert } from "@effect/vitest"
import { Effect, Layer, Option, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Agent, AgentDefinition, Conversation, Message, ModelRegistry, ToolResolver, ToolResult, ToolRuntime, type Run } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { type Case, checkExit, equal, ExpectedError, JsonObject, list, mentions, optional, read } from "../family.ts"
import { addAll } from "../history.ts"
import * as fixtures from "./fixtures.ts"

const Call = Schema.Struct({ id: Schema.String, name: Schema.String, arguments: Schema.Json })

const Turn = Schema.Struct({
  text: optional(Schema.NullOr(Schema.String)),
  tool_calls: optional(Schema.Array(Call)),
  finish_reason: optional(Schema.String)
})

const Given = Schema.Struct({
  max_steps: optional(Schema.Union([Schema.Number, Schema.Literal("unlimited")])),
  session: optional(Schema.Array(JsonObject)),
  prompt: optional(Schema.String),
  script: optional(Schema.Array(Turn)),
  tools: optional(Schema.Array(fixtures.Fixture)),
  json_schema: optional(JsonObject),
  context: optional(JsonObject),
  interrupt: optional(Schema.Struct({ role: Schema.String, nth: Schema.Number, reason: optional(Schema.String) })),
  then: optional(Schema.Array(Schema.Struct({ prompt: optional(Schema.String) })))
})
type Given = typeof Given.Type

/** The expectation of each phase. */
const phase = {
  outcome: optional(Schema.String),
  reason: optional(Schema.NullOr(Schema.String)),
  model_calls: optional(Schema.Number),
  executed: optional(Schema.Array(Schema.String)),
  final_text: optional(Schema.NullOr(Schema.String)),
  roles: optional(Schema.Array(Schema.String)),
  emitted: optional(Schema.Array(Schema.String)),
  tool_messages: optional(Schema.Array(JsonObject))
}
const ExpectedPhase = Schema.Struct(phase)
type ExpectedPhase = typeof ExpectedPhase.Type

const Expected = Schema.Struct({
  ...phase,
  executed_total: optional(Schema.Array(Schema.String)),
  then: optional(Schema.Array(ExpectedPhase)),
  error: optional(ExpectedError)
})

/** Why a model stopped, in the notation of the cases; what core has no word for is `other`. */
const finishReasons: { readonly [name: string]: NonNullable<ScriptedModel.Turn["finishReason"]> } = {
  stop: "stop",
  completed: "stop",
  tool_calls: "tool-calls",
  length: "length",
  max_tokens: "length",
  content_filter: "content-filter",
  error: "error",
  malformed_output: "error",
  pause: "pause"
}
const finishReason = (name: string) => finishReasons[name] ?? "other"

const turn = ({ finish_reason: reason, text, tool_calls: calls = [] }: typeof Turn.Type): ScriptedModel.Turn => ({
  ...(text === undefined || text === null || text === "" ? undefined : { text }),
  ...(calls.length === 0
    ? undefined
    : {
        toolCalls: calls.map(({ arguments: args, id, name }) => ({
          id,
          name,
          ...(typeof args === "string" ? { arguments: args } : { params: args })
        }))
      }),
  ...(reason === undefined ? undefined : { finishReason: finishReason(reason) })
})

const outcomes = {
  Completed: "completed",
  MaxSteps: "max_steps",
  Interrupted: "interrupted",
  InvalidOutput: "invalid_structured_output",
  AwaitingApproval: "awaiting_approval"
} as const

/** The result of one phase. */
interface Phase {
  readonly result: Agent.Result<unknown>
  readonly executed: ReadonlyArray<string>
  readonly emitted: ReadonlyArray<string>
  readonly calls: number
}

const argumentsOf = (given: Given, id: string | undefined): string => {
  const calls = given.script?.flatMap(({ tool_calls: calls = [] }) => calls) ?? []
  const args = calls.find((call) => call.id === id)?.arguments
  return typeof args === "string" ? args : JSON.stringify(args ?? {})
}

/** The agent of a case, rebuilt from its definition with the fixtures as its tools. */
const agentOf = Effect.fnUntraced(function* (given: Given, probe: fixtures.Probe) {
  const { json_schema: schema, tools = [] } = given
  const contracts = yield* fixtures.contractsOf(tools)
  const bound = yield* Effect.forEach(contracts, (contract, i) =>
    fixtures.bind(contract, tools[i] ?? { name: "", behaviour: {} }, probe, (id) => argumentsOf(given, id))
  )
  const definition = yield* AgentDefinition.make({
    name: "golden",
    model: "golden/scripted",
    output: schema === undefined ? undefined : { schema, strategy: "prompted" },
    tools: contracts
  })
  const resolve: ToolResolver.ToolResolver["Service"]["resolve"] = ({ name }) =>
    Effect.fromNullishOr(bound.find((tool) => tool.contract.name === name)).pipe(Effect.orDie)
  return yield* Agent.bind(definition).pipe(Effect.provideService(ToolResolver.ToolResolver, { resolve }))
})

/** The role of the message that an event reports to observers. */
const emittedRole = (event: Run.Event): "assistant" | "tool" | undefined =>
  event._tag === "ModelAnswered" ? "assistant" : event._tag === "ToolFinished" ? "tool" : undefined

const observe = (interrupt: Given["interrupt"], emitted: Array<string>) => (event: Run.Event) => {
  const role = emittedRole(event)
  if (role === undefined) return undefined
  emitted.push(role)
  if (interrupt?.role !== role || emitted.filter((one) => one === role).length !== interrupt.nth) return undefined
  return { reason: interrupt.reason }
}

const play = Effect.fnUntraced(function* (given: Given) {
  const probe = fixtures.makeProbe()
  const agent = yield* agentOf(given, probe)
  let conversation = yield* addAll(Conversation.empty, given.session ?? [])
  const phases: Array<Phase> = []
  for (const [i, { prompt }] of [{ prompt: given.prompt }, ...(given.then ?? [])].entries()) {
    const emitted: Array<string> = []
    const ran = probe.ran.length
    const calls = (yield* ScriptedModel.requests).length
    const result = yield* agent.run(prompt, {
      conversation,
      context: given.context ?? {},
      maxSteps: given.max_steps,
      // Riffer has no such limit
      repeatedCalls: "unlimited",
      interruptWhen: observe(i === 0 ? given.interrupt : undefined, emitted)
    })
    conversation = result.conversation
    phases.push({
      result,
      emitted,
      executed: probe.ran.slice(ran),
      calls: (yield* ScriptedModel.requests).length - calls
    })
  }
  return { phases, executed: probe.ran }
})

const checkToolMessage = (message: Message.ToolMessage | undefined, expected: typeof JsonObject.Type): void => {
  if (message === undefined) return assert.fail(`no tool message ${JSON.stringify(expected)}`)
  const { callId, name, result } = message
  const text = ToolResult.text(result)
  const failure = result._tag === "Failure" ? result : undefined
  const found: { readonly [key: string]: unknown } = {
    id: message.id,
    role: "tool",
    tool_call_id: callId,
    name,
    content: text,
    error: failure?.message ?? null,
    error_type: failure?.type ?? null
  }
  for (const [key, value] of Object.entries(expected)) {
    if (key === "mentions") continue
    assert.property(found, key, "the vocabulary of tool messages")
    equal(found[key], value, key)
  }
  mentions(text, list(expected["mentions"]).map(String))
}

const checkOutcome = (result: Agent.Result<unknown>, expected: string): void =>
  result.outcome === "BudgetExceeded" || result.outcome === "Refused"
    ? assert.fail("no budget and no guard was given")
    : result.outcome === "Stopped"
    ? assert.strictEqual(result.finishReason, finishReason(expected), expected)
    : assert.strictEqual(result.outcome === "LoopDetected" ? result.outcome : outcomes[result.outcome], expected)

const checkPhase = (phase: Phase, expected: ExpectedPhase): void => {
  const { result } = phase
  const messages = Conversation.messages(result.conversation)
  if (expected.outcome !== undefined) checkOutcome(result, expected.outcome)
  if (expected.reason !== undefined) {
    assert.strictEqual(result.outcome === "Interrupted" ? (result.reason ?? null) : null, expected.reason)
  }
  if (expected.model_calls !== undefined) assert.strictEqual(phase.calls, expected.model_calls, "model calls")
  if (expected.executed !== undefined) assert.deepStrictEqual(phase.executed, expected.executed)
  if (expected.final_text !== undefined) {
    const last = Option.getOrUndefined(Conversation.lastAssistantMessage(result.conversation))
    assert.strictEqual(last === undefined ? null : Message.text(last), expected.final_text)
  }
  if (expected.roles !== undefined) equal(messages.map(({ role }) => role), expected.roles, "roles")
  if (expected.emitted !== undefined) assert.deepStrictEqual(phase.emitted, expected.emitted)
  if (expected.tool_messages !== undefined) {
    const found = messages.filter((message) => message.role === "tool")
    assert.lengthOf(found, expected.tool_messages.length)
    expected.tool_messages.forEach((one, i) => checkToolMessage(found[i], one))
  }
}

/** Lets the clock of the test run as fast as nothing else can, for tools that hang. */
const hurry = Effect.forever(Effect.andThen(Effect.yieldNow, TestClock.adjust("1 second")))

export const loop = Effect.fnUntraced(function* (golden: Case) {
  const given = yield* read(Given)(golden.given)
  const { error, executed_total: total, then = [], ...first } = yield* read(Expected)(golden.expect)
  const world = ModelRegistry.layerContext.pipe(
    Layer.provideMerge(ScriptedModel.layer(given.script?.map(turn) ?? [])),
    Layer.merge(ToolRuntime.layerInline)
  )
  const played = Effect.raceFirst(play(given), hurry).pipe(Effect.provide(world), Effect.provide(TestClock.layer()))
  return yield* checkExit(played, error, ({ executed, phases }) => {
    if (total !== undefined) assert.deepStrictEqual([...executed].sort(), [...total].sort())
    assert.isAtMost(then.length, phases.length - 1, "phases")
    for (const [index, expected] of [first, ...then].entries()) {
      const found = phases[index]
      assert(found !== undefined)
      checkPhase(found, expected)
    }
  })
})
