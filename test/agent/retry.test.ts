/** MONEY-1: a model call that failed is made again. */
import { assert, describe } from "@effect/vitest"
import { Clock, Duration, Effect, Result, Stream } from "effect"
import { Agent, AgentDefinition, Run } from "effect-emissary"
import { ChatEvent } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { after } from "../after.ts"
import { endsAs, failsFor } from "../outcomes.ts"
import { test } from "../test.ts"
import { testGiven, throughJson } from "./fixtures.ts"

const agent = Agent.make("patient")
const limited: ScriptedModel.Turn = { fail: { reason: "RateLimitError" } }

/** A model that notes when it was asked, and its notes. */
const timed = (turns: ReadonlyArray<ScriptedModel.Turn>) => {
  const times: Array<number> = []
  const model = ScriptedModel.layer(({ index }) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      times.push(now)
      return turns[index] ?? { text: "once too often" }
    })
  )
  return { times, model }
}

describe("MONEY-1 retries by default", () => {
  test("MONEY-1 a rate limit does not end a run: the model is asked again after one second, and after two", function* () {
    const { model, times } = timed([limited, limited, { text: "At last." }])
    const log: Array<Run.Event> = []
    const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void log.push(event))
    const running = endsAs("Completed", agent.run("Hello", { onEvent }))
    const { output, state } = yield* Effect.provide(after("3 seconds", running), model)
    assert.strictEqual(output, "At last.")
    assert.deepStrictEqual(times, [0, 1000, 3000])
    const retries = log.flatMap((event) => (event._tag === "StepRetried" ? [{ ...event, at: 0 }] : []))
    assert.deepStrictEqual(retries, [
      { _tag: "StepRetried", at: 0, attempt: 2, error: "RateLimitError", pauseMillis: 1000 },
      { _tag: "StepRetried", at: 0, attempt: 3, error: "RateLimitError", pauseMillis: 2000 }
    ])
    assert.deepStrictEqual(yield* throughJson(Result.getOrThrow(Run.fold(log))), yield* throughJson(state))
    assert.strictEqual(state.totalSteps, 1)
  })

  test("MONEY-1 the third failure ends the run, and a resumed run has its own retries", function* () {
    const { model, times } = timed([limited, limited, limited, limited, { text: "At last." }])
    yield* Effect.gen(function* () {
      const { reason, state } = yield* after("3 seconds", failsFor("ModelFailed", agent.run("Hello")))
      assert.deepInclude(reason, { error: "RateLimitError", retryable: true })
      assert(state !== undefined)
      assert.strictEqual((yield* throughJson(state)).step?.attempt, 3)
      yield* after("1 second", endsAs("Completed", agent.resume(state)))
      assert.deepStrictEqual(times, [0, 1000, 3000, 3000, 4000])
    }).pipe(Effect.provide(model))
  })

  test("MONEY-1 the pause that a provider asks for is kept, and one of more than a minute ends the run", function* () {
    const limitedFor = (retryAfter: number): ScriptedModel.Turn => ({ fail: { reason: "RateLimitError", retryAfter } })
    const { model, times } = timed([limitedFor(60_000), limitedFor(60_001)])
    const { reason } = yield* Effect.provide(after("1 minute", failsFor("ModelFailed", agent.run("Hello"))), model)
    assert.deepStrictEqual([times, reason.retryAfterMillis], [[0, 60_000], 60_001])
  })

  for (const reason of [
    "AuthenticationError",
    "InvalidRequestError",
    "QuotaExhaustedError",
    "ContentPolicyError"
  ] as const)
    testGiven([{ fail: { reason } }])(`MONEY-1 a request that is refused is not made again: ${reason}`, function* () {
      yield* failsFor("ModelFailed", agent.run("Hello"))
      assert.strictEqual((yield* ScriptedModel.requests).length, 1)
    })

  test("MONEY-1 L12 in a stream the event of a retry comes at once, and voids what was written", function* () {
    const { model } = timed([{ text: "half", fail: { reason: "InternalProviderError" } }, { text: "whole" }])
    const events = yield* Effect.provide(after("1 second", Stream.runCollect(agent.stream("Hello"))), model)
    const shown = events.flatMap((event): ReadonlyArray<unknown> => {
      if (event._tag === "TextDelta") return [event.delta]
      return event._tag === "StepRetried"
        ? [[event.step, event.attempt, event.error, Duration.toMillis(event.pause), event.state.step?.attempt]]
        : []
    })
    assert.deepStrictEqual(shown.slice(shown.findIndex((one) => typeof one !== "string")), [
      [1, 2, "InternalProviderError", 1000, 2],
      "whole"
    ])
    const chat = yield* Stream.runCollect(ChatEvent.projectRun()(Stream.fromIterable(events)))
    const tags = Array.from(chat, ({ _tag }) => _tag)
    assert.deepStrictEqual(
      tags.filter((tag, index) => tag.startsWith("Answer") && tag !== tags[index - 1]),
      ["AnswerStarted", "AnswerDelta", "AnswerWithdrawn", "AnswerDelta", "Answered"]
    )
  })
})

describe("MONEY-1 retries of an agent and of a run", () => {
  const stubborn = Agent.make("stubborn", { retry: { times: 3, delay: "10 seconds", factor: 1 } })

  test("MONEY-1 an agent has its own retries", function* () {
    const { model, times } = timed([limited, limited, limited, { text: "done" }])
    yield* Effect.provide(after("30 seconds", endsAs("Completed", stubborn.run("Go"))), model)
    assert.deepStrictEqual(times, [0, 10_000, 20_000, 30_000])
  })

  test("MONEY-1 a run overrides them, and those of the agents that are tools", function* () {
    const { model, times } = timed([limited])
    yield* Effect.provide(failsFor("ModelFailed", stubborn.run("Go", { retry: { times: 0 } })), model)
    assert.deepStrictEqual(times, [0])
    const outer = Agent.make("outer", { toolkit: [Agent.asTool(stubborn, { name: "ask", description: "Asks" })] })
    const asks: ScriptedModel.Turn = { toolCalls: [{ id: "c", name: "ask", params: { input: "Go" } }] }
    const inside = timed([asks, limited, { text: "in" }, { text: "out" }])
    const running = endsAs("Completed", outer.run("Go", { retry: { times: 1, delay: "1 second" } }))
    yield* Effect.provide(after("1 second", running), inside.model)
    assert.deepStrictEqual(
      inside.times.map((time) => time - (inside.times[0] ?? 0)),
      [0, 0, 1000, 1000]
    )
  })

  for (const retry of [
    { times: -1 },
    { times: 0.5 },
    { times: 1, factor: 0 },
    { times: 1, delay: "-1 seconds" as const }
  ]) {
    testGiven([])(`MONEY-1 retries that cannot be are refused: ${JSON.stringify(retry)}`, function* () {
      const { message } = yield* failsFor("OptionsInvalid", agent.run("Hello", { retry }))
      assert.include(message, "expected times as a whole number from 0")
      yield* failsFor("DefinitionInvalid", Agent.make("odd", { retry }).run("Hello"))
    })
  }

  test("MONEY-1 L3 version 2 has the retries of an agent, and version 1 names them as a loss", function* () {
    const named = Agent.make("named", {
      model: "openai/gpt-5.2",
      retry: { times: 5, delay: "2 seconds", maxDelay: "1 hour" }
    })
    const definition = yield* Agent.definition(named)
    assert.deepStrictEqual(definition.retry, { times: 5, delayMillis: 2000, maxDelayMillis: 3_600_000 })
    const json = yield* AgentDefinition.codec.encode(definition)
    assert.deepStrictEqual(json["retry"], { times: 5, delay: 2000, max_delay: 3_600_000 })
    assert.deepStrictEqual((yield* AgentDefinition.codec.decode(json)).retry, definition.retry)
    const error = yield* Effect.flip(AgentDefinition.codec.encode(definition, { version: 1 }))
    assert(error._tag === "LossyEncoding")
    assert.deepStrictEqual(
      error.losses.map(({ path }) => path),
      ["/retry"]
    )
    yield* AgentDefinition.codec.encode(definition, { version: 1, allowLoss: ["/retry"] })
    const none = yield* AgentDefinition.codec.encode(yield* Agent.definition(agent))
    assert.notProperty(none, "retry")
  })
})
