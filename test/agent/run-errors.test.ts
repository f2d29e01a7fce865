import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Option, Schema } from "effect"
import { AiError } from "effect/ai"
import { inspect } from "node:util"
import * as agentReason from "#src/agent/internal/agentReason.ts"
import * as runParts from "#src/run/internal/runParts.ts"
import { Agent, AgentError, Run } from "effect-emissary"
import type { VersionedCodec } from "effect-emissary/payload"
import { ScriptedModel } from "effect-emissary/testing"

import {
  answered,
  at,
  call,
  conversation,
  finished,
  go,
  input,
  run,
  started,
  step,
  toolStarted,
  userMessage
} from "./run-events.ts"
import { failsFor } from "../outcomes.ts"
import { test } from "../test.ts"
import * as modelCall from "#src/agent/internal/modelCall.ts"

const secret = "sk-SECRET"

const state = run(started({ context: { tenant: secret } }), input(secret), step(1), answered([call("a")]))

const rateLimit = new AiError.AiError({
  module: "Test",
  method: "generateText",
  reason: new AiError.RateLimitError({ retryAfter: Duration.seconds(3) })
})

const refusal = new AiError.AiError({
  module: "Test",
  method: "generateText",
  reason: new AiError.ContentPolicyError({ description: `you said ${secret}` })
})

describe("errors of a run", () => {
  test("L4 every reason names the expected, the found and the remedy, and survives JSON", function* () {
    const reasons: ReadonlyArray<[AgentError.Reason, ReadonlyArray<string>]> = [
      [modelCall.modelFailed(rateLimit, "openai/gpt"), ["openai/gpt", "RateLimitError", "(retry)"]],
      [modelCall.modelFailed(refusal), ["ContentPolicyError", "causeOf"]],
      [agentReason.makeReason("ModelMistakes", { step: 2, mistakes: 3, limit: 2 }), ["step 2", "3"]],
      [
        agentReason.makeReason("ModelRegistryFailed", { model: "a/b", problem: "unknown provider" }),
        ["a/b", "unknown provider"]
      ],
      [agentReason.makeReason("PreparationFailed", { part: "toolkit", error: "DbDown" }), ["toolkit", "DbDown"]],
      [
        agentReason.makeReason("ModelRegistryFailed", { model: "", problem: "it names none" }),
        ["the model is unavailable: it names none"]
      ],
      [agentReason.makeReason("DefinitionInvalid", { problem: "no schema" }), ["cannot be defined: no schema"]],
      [
        agentReason.makeReason("PreparationFailed", {
          part: "instructions",
          error: "RunContextError",
          problem: "missing tenant"
        }),
        ["instructions", "RunContextError: missing tenant"]
      ],
      [agentReason.makeReason("ToolSetInvalid", { problem: "two tools" }), ["two tools"]],
      [agentReason.makeReason("StubWithoutRuntime", { tools: ["x", "y"] }), [`"x", "y"`, "ToolRuntime"]],
      [
        new Run.DefinitionChanged({
          expected: "sha256:1",
          found: "sha256:2",
          changes: [{ path: "/instructions", was: "a1", now: "b2", breaking: false }]
        }),
        ["sha256:1", "sha256:2", "/instructions was a1, now b2", "compatible"]
      ],
      [new Run.InvalidDecision({ callId: "a", problem: "unknown", waiting: [{ callId: "b" }] }), [`"a"`, `"b"`]],
      [agentReason.makeReason("ConversationInvalid", { problem: "open calls" }), ["open calls"]],
      [agentReason.makeReason("MaxDepth", { limit: 8 }), ["8", "maxDepth"]]
    ]
    const codec = Schema.toCodecJson(AgentError.AgentError)
    for (const [reason, mentions] of reasons) {
      const error = new AgentError.AgentError({ agent: "support", reason, state })
      for (const mention of ["support", ...mentions]) assert.include(error.message, mention)
      const decoded = yield* Schema.decodeUnknownEffect(codec)(
        JSON.parse(JSON.stringify(yield* Schema.encodeEffect(codec)(error)))
      )
      assert.instanceOf(decoded, AgentError.AgentError)
      assert.strictEqual(decoded.message, error.message)
      assert.strictEqual(decoded.state?.runId, "run")
    }
    const early = new AgentError.AgentError({
      agent: "support",
      reason: agentReason.makeReason("MaxDepth", { limit: 8 })
    })
    assert.strictEqual(early.state, undefined)
  })

  it("L8 the provider's error stays out of messages, JSON and whatever prints an error", () => {
    const reason = modelCall.modelFailed(refusal)
    assert.strictEqual(Option.getOrUndefined(AgentError.causeOf(reason)), refusal)
    const error = new AgentError.AgentError({ agent: "support", reason, state })
    for (const text of [
      error.message,
      String(error),
      JSON.stringify(error),
      Cause.pretty(Cause.fail(error)),
      inspect(error, { depth: 10 }),
      JSON.stringify(reason)
    ]) {
      assert.notInclude(text, secret)
    }
    assert.isTrue(Option.isNone(AgentError.causeOf(agentReason.makeReason("MaxDepth", { limit: 1 }))))
  })

  test("L4 an agent whose script disagrees reports the difference", function* () {
    const script = [{ text: "Hi.", expect: { lastUserText: "Hello" } }]
    for (const [input, problem] of [
      ["Good day", `newest user message: expected text with "Hello", found "Good day"`],
      ["Hello", "the script has 1 turn and all are used"]
    ] as const) {
      const run = Agent.make("support", {}).run(input)
      const twice = Effect.provide(Effect.andThen(run, run), ScriptedModel.layer(script))
      const error = yield* Effect.flip(twice)
      assert.include(error.message, problem)
      assert.notInclude(error.message, "causeOf")
    }
  })

  test("L4 an agent without a model, or without a registry of models, names what to provide", function* () {
    const messages = yield* Effect.forEach([undefined, "openai/gpt"], (model) =>
      // a program that breaks the types, which require a model
      Effect.map(
        Effect.flip(Agent.make("support", { model }).run("Hi") as Effect.Effect<never, AgentError.AgentError>),
        (error) => [error.reason._tag, error.message]
      )
    )
    assert.deepStrictEqual(messages, [
      [
        "ModelRegistryFailed",
        'Agent "support": the model is unavailable: the agent names no model and there is no LanguageModel in its context. Provide one'
      ],
      [
        "ModelRegistryFailed",
        'Agent "support": the model "openai/gpt" is unavailable: there is no ModelRegistry. Provide ModelRegistry.layer'
      ]
    ])
  })

  it("L8 retryability and the provider's wait are kept", () => {
    const reason = modelCall.modelFailed(rateLimit)
    assert.isTrue(reason.retryable)
    assert.strictEqual(reason.retryAfterMillis, 3000)
    assert.isFalse(modelCall.modelFailed(refusal).retryable)
  })

  test("L4 reasons can be caught one by one", function* () {
    const fails = Effect.fail(
      new AgentError.AgentError({ agent: "a", reason: agentReason.makeReason("MaxDepth", { limit: 8 }) })
    )
    const caught = yield* Effect.catchReason(fails, "AgentError", "MaxDepth", ({ limit }) => Effect.succeed(limit))
    assert.strictEqual(caught, 8)
  })

  it("L8 a state that is printed shows its progress and no text of messages", () => {
    assert.notInclude(JSON.stringify(state), secret)
    assert.notInclude(String(state), secret)
    assert.include(JSON.stringify(state), `"openCalls":1`)
  })

  test("L4 RunIncomplete names the outcome and the remedy, and survives JSON", function* () {
    const outcomes: ReadonlyArray<[Run.Outcome, string]> = [
      [{ _tag: "MaxSteps" }, "maxSteps"],
      [
        {
          _tag: "AwaitingApproval",
          requests: [{ _tag: "Approval", callId: "c1", name: "pay", arguments: { to: secret }, digest: "d" }]
        },
        `"c1" (pay)`
      ],
      [{ _tag: "Interrupted", reason: "timeout" }, "Interrupted"],
      [
        {
          _tag: "InvalidOutput",
          issues: [{ path: "/a/b", keyword: "type", expected: "a required value", found: "nothing" }]
        },
        "had 1 problem with the output schema: /a/b."
      ],
      [{ _tag: "Stopped", finishReason: "length" }, "length"]
    ]
    const codec = Schema.toCodecJson(AgentError.RunIncomplete)
    for (const [outcome, mention] of outcomes) {
      assert(outcome._tag !== "Completed")
      const error = new AgentError.RunIncomplete({ result: runParts.ended(runParts.resultBaseOf(state), outcome) })
      assert.include(error.message, mention)
      assert.notInclude(error.message, secret)
      const decoded = yield* Schema.decodeUnknownEffect(codec)(yield* Schema.encodeEffect(codec)(error))
      assert.deepStrictEqual(runParts.outcomeOf(decoded.result), outcome)
      assert.deepStrictEqual(decoded.result.steps, state.totalSteps)
    }
  })
})

describe("events and states as JSON", () => {
  test("L3 unknown versions are refused", function* () {
    const future = { version: 2, event: {}, events: [], state: {} }
    for (const error of [
      yield* Effect.flip(Run.eventCodec.decode(future)),
      yield* Effect.flip(Run.eventsCodec.decode(future)),
      yield* Effect.flip(Run.stateCodec.decode(future))
    ]) {
      assert.strictEqual(error.reason._tag, "UnsupportedVersion")
    }
  })

  test("L2 a snapshot whose calls do not fit its conversation is refused", function* () {
    const json = yield* Run.stateCodec.encodeJson(state)
    for (const broken of [
      json.replace(`"calls":[{"callId":"a","status":{"_tag":"Requested"}}]`, `"calls":[]`),
      json.replace(`"callId":"a"`, `"callId":"b"`),
      json.replace(`"_tag":"Requested"`, `"_tag":"Whatever"`),
      json.replace(`"role":"assistant"`, `"role":"oracle"`)
    ]) {
      assert.notStrictEqual(broken, json)
      const error = yield* failsFor("Invalid", Run.stateCodec.decodeJson(broken))
      assert.notInclude(error.message, secret)
    }
  })

  test("TRUST-4 a conversation has at most maxMessages, in a state and in events, on both ways", function* () {
    const long = conversation(...["a", "b", "c"].map((text) => userMessage(text)))
    const event = started({ conversation: long })
    const child: Run.Event = { _tag: "ChildEvent", at, callId: "a", event }
    const holds = Effect.fnUntraced(function* <T>({ decode, encode }: VersionedCodec.VersionedCodec<T>, value: T) {
      const json = yield* encode(value, { limits: { maxMessages: 3 } })
      yield* decode(json, { limits: { maxMessages: 3 } })
      const limits = { maxMessages: 2 }
      for (const error of [
        yield* Effect.flip(encode(value, { limits })),
        yield* Effect.flip(decode(json, { limits }))
      ]) {
        const expected = /conversation\/messages: expected at most 2 messages, got at least 3\. .*maxMessages/
        assert.match(error.message, expected)
      }
    })
    yield* holds(Run.stateCodec, run(event))
    yield* holds(Run.eventCodec, event)
    yield* holds(Run.eventCodec, child)
    yield* holds(Run.eventsCodec, [event])
  })

  test("L8 a secret's key is refused in the context and allowed in texts of models and tools", function* () {
    const refused = yield* Effect.flip(Run.eventCodec.encode(started({ context: { api_key: "x" } })))
    assert.strictEqual(refused._tag === "PayloadError" && refused.reason._tag, "Secret")
    const call = { type: "tool-call", id: "a", name: "login", arguments: { password: "x" } } as const
    const said = go(run(started(), input(), step(1)), answered([call]), toolStarted("a"))
    const done = finished(
      "a",
      { _tag: "Success", content: [{ type: "text", text: "ok" }], value: { password: 1 } },
      "login"
    )
    yield* Run.eventCodec.encode(answered([call]))
    yield* Run.eventCodec.encode(done)
    yield* Run.stateCodec.encode(said)
    yield* Run.stateCodec.encode(go(said, done))
  })

  test("AGENT-3 version 1 of an event is what it was", function* () {
    assert.deepStrictEqual(yield* Run.eventCodec.encode(toolStarted("a")), {
      version: 1,
      event: { _tag: "ToolStarted", at: "2026-01-01T00:00:00.000Z", callId: "a" }
    })
    const list = yield* Run.eventsCodec.encode([toolStarted("a"), { _tag: "RunInterrupted", at, reason: "r" }])
    assert.deepStrictEqual(list, {
      version: 1,
      events: [
        { _tag: "ToolStarted", at: "2026-01-01T00:00:00.000Z", callId: "a" },
        { _tag: "RunInterrupted", at: "2026-01-01T00:00:00.000Z", reason: "r" }
      ]
    })
  })
})
