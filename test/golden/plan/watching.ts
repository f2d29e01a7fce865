/** The checks of cases that watch a run: its events, its tokens and what it used; and of conditions. */
import { assert } from "@effect/vitest"
import { Effect, Option, Result, Schema, Stream } from "effect"
import { Plan, PlanEvent, When } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { type Case, equal, isObject, list, read } from "../family.ts"
import { inputOf, load } from "./run.ts"
import * as V from "./vocabulary.ts"
import * as condition from "#src/tool/internal/condition.ts"
import * as planTransition from "#src/run/internal/planTransition.ts"
import * as planRunParts from "#src/run/internal/planRunParts.ts"

/** The recorded names of our events, with the step and its output. */
const recorded = (event: PlanEvent.PlanEvent<unknown>): ReadonlyArray<ReadonlyArray<unknown>> => {
  switch (event._tag) {
    case "PlanStarted":
      return [["agent_start", event.state.input.task]]
    case "StepStarted":
      return [["tool_call", event.step]]
    case "StepFinished":
      return [["tool_result", event.step, planRunParts.payloadText(event.record.output)]]
    case "StepFailed":
      return [["tool_error", event.step, event.failure.message]]
    case "PlanFinished":
      return event.result.outcome === "Completed" ? [["agent_finish", event.result.text]] : []
    default:
      return []
  }
}

/** The members of recorded events that are compared. */
const members: { readonly [event: string]: ReadonlyArray<string> } = {
  agent_start: ["task"],
  tool_call: ["step"],
  tool_result: ["step", "result"],
  tool_error: ["step", "error"]
}

const expected = (event: Schema.Json): ReadonlyArray<unknown> => {
  const [name = "", body] = (isObject(event) ? Object.entries(event) : [])[0] ?? []
  assert(isObject(body), "expected an event with a body")
  if (name === "agent_finish") return [name, "payload" in body ? body["payload"] : { failed: true }]
  return [name, ...(members[name] ?? assert.fail(`the vocabulary has no event ${name}`)).map((key) => body[key])]
}

/** The events of a run; a failure of the stream counts as the last one. */
const watch = Effect.fnUntraced(function* (golden: Case) {
  const given = yield* read(V.Running)(golden.given)
  const { bound, model } = yield* load(given)
  const found: Array<ReadonlyArray<unknown>> = []
  const ran = yield* Plan.stream(bound, inputOf(given.input, "go")).pipe(
    Stream.runForEach((event) => Effect.sync(() => found.push(...recorded(event)))),
    Effect.provide(model),
    Effect.result
  )
  if (Result.isFailure(ran)) found.push(["agent_finish", { failed: true }])
  return found
})

const Events = Schema.Struct({ events: Schema.Array(Schema.Json) })

const events = Effect.fnUntraced(function* (golden: Case) {
  const expect = yield* read(Events)(golden.expect)
  equal(yield* watch(golden), expect.events.map(expected), "events")
})

const Lengths = Schema.Struct({ "tool_result.result length": Schema.Number, "agent_finish.payload length": Schema.Number })

const lengths = Effect.fnUntraced(function* (golden: Case) {
  const expect = yield* read(Lengths)(golden.expect)
  const found = yield* watch(golden)
  const lengthOf = (name: string) => String(found.find(([kind]) => kind === name)?.at(-1)).length
  assert.strictEqual(lengthOf("tool_result"), expect["tool_result.result length"])
  assert.strictEqual(lengthOf("agent_finish"), expect["agent_finish.payload length"])
})

/** Each agent answers its own name in two pieces, as the recordings' do. */
const inPieces = ScriptedModel.layer((request) => {
  const name = request.messages[0]?.text ?? ""
  return {
    parts: [
      { type: "text-start", id: "1" },
      { type: "text-delta", id: "1", delta: `${name}:0` },
      { type: "text-delta", id: "1", delta: `${name}:1` },
      { type: "text-end", id: "1" }
    ]
  }
})

const Chunks = Schema.Struct({ chunks: Schema.Array(Schema.String) })

const chunks = Effect.fnUntraced(function* (golden: Case) {
  const given = yield* read(V.Running)(golden.given)
  const expect = yield* read(Chunks)(golden.expect)
  const { bound } = yield* load(given)
  const deltas = PlanEvent.textDeltas(Plan.stream(bound, inputOf(given.input, "go")))
  equal(yield* Effect.provide(Stream.runCollect(deltas), inPieces), expect.chunks, "chunks")
})

const Usage = Schema.Struct({
  input_tokens: Schema.Number,
  output_tokens: Schema.Number,
  nested_input_tokens: Schema.Number,
  nested_output_tokens: Schema.Number,
  /** There are no costs here: what a token costs is for who pays the bill. */
  cost_usd: Schema.optionalKey(Schema.Number),
  nested_cost_usd: Schema.optionalKey(Schema.Number)
})

/** The usage of the last step is "direct" in the recordings, all usage before it is "nested". */
const usage = Effect.fnUntraced(function* (golden: Case) {
  const given = yield* read(V.Running)(golden.given)
  const { cost_usd: _, nested_cost_usd: __, ...expect } = yield* read(Usage)(golden.expect)
  const { bound, model } = yield* load(given)
  const ran = yield* Effect.result(Effect.provide(Plan.run(bound, inputOf(given.input, "go")), model))
  const state = Result.isFailure(ran) ? ran.failure.state : ran.success.state
  assert(state !== undefined)
  const last = Result.isFailure(ran) && ran.failure.reason._tag === "StepFailed" ? Option.none() : planTransition.lastRecord(state)
  const direct = Option.getOrUndefined(last)?.usage
  const [input, output] = [direct?.inputTokens ?? 0, direct?.outputTokens ?? 0]
  equal(
    {
      input_tokens: input,
      output_tokens: output,
      nested_input_tokens: (state.usage.inputTokens ?? 0) - input,
      nested_output_tokens: (state.usage.outputTokens ?? 0) - output
    },
    expect,
    "usage"
  )
})

/** The conditions on a field, by the verbs of the recordings; the argument is what JSON reads. */
const conditionsOn = (field: ReturnType<typeof When.field>, argument: ReturnType<typeof JSON.parse>) => ({
  empty: () => field.empty(),
  not_empty: () => field.notEmpty(),
  equals: () => field.equals(argument),
  not_equals: () => field.notEquals(argument),
  greater_than: () => field.greaterThan(argument),
  less_than: () => field.lessThan(argument),
  in: () => field.in(argument),
  not_in: () => field.notIn(argument),
  matches: () => field.matches(argument),
  is: () => field.is(argument)
})

/** A condition as the recordings write it: `field.verb` or `field.verb(argument)`. */
const conditionOf = (written: string): When.When => {
  const [, name = "", verb = "", text] = /^(\w+)\.(\w+)(?:\((.*)\))?$/u.exec(written) ?? []
  const conditions = conditionsOn(When.field(name), text === undefined ? null : JSON.parse(text.replaceAll("'", '"')))
  const [make] = Object.entries(conditions).flatMap(([one, make]) => (one === verb ? [make] : []))
  return make === undefined ? assert.fail(`the vocabulary has no condition ${written}`) : make()
}

const Payload = Schema.Struct({ payload: Schema.Json })

const conditions = Effect.fnUntraced(function* (golden: Case) {
  const { payload } = yield* read(Payload)(golden.given)
  for (const [written, value] of Object.entries(golden.expect)) {
    // "strict" is about attributes of objects of the host language: payloads are JSON here.
    if (written.startsWith("strict ")) continue
    const subject = { payload, text: planRunParts.payloadText(payload) }
    const found = yield* condition.evaluate(conditionOf(written), subject, () => Effect.succeed(false))
    assert.strictEqual(found, value, written)
  }
})

/** The check of a case by what it expects to be seen. */
export const checkOf = ({ expect, given }: Case): ((golden: Case) => Effect.Effect<void, unknown>) | undefined => {
  if ("payload" in given) return conditions
  if (!("plan" in given)) return undefined
  if ("events" in expect) return events
  if ("chunks" in expect) return chunks
  if ("input_tokens" in expect) return usage
  return list(Object.keys(expect)).some((key) => String(key).endsWith(" length")) ? lengths : undefined
}
