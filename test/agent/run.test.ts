import { assert, describe, it } from "@effect/vitest"
import { Cause, Context, Deferred, Effect, Exit, Fiber, Layer, Ref, Schema, Scope } from "effect"
import { TestClock } from "effect/testing"
import { Agent, Conversation, Message, RunContext, ToolResult, ToolRuntime, Run } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { call, Echo, toolResults, Probe, toolkit, inWorld, testGiven, world } from "./fixtures.ts"
import { pluck } from "../pluck.ts"
import { after } from "../after.ts"
import { endsAs, failsFor, failsMidway } from "../outcomes.ts"
import { test } from "../test.ts"
import type * as runParts from "#src/run/internal/runParts.ts"

const agent = Agent.make("tester", { instructions: "Test.", toolkit })
const roles = (conversation: Conversation.Conversation) => Conversation.messages(conversation).map(({ role }) => role)

/** `it.effect` lends each test a Scope; an application has none. */
const withoutScope = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.updateContext(effect, (context: Context.Context<never>) => Context.omit(Scope.Scope)(context))

describe("AGENT-2 run", () => {
  testGiven([
    { toolCalls: [call("c1", "echo", { text: "hi" })], usage: { inputTokens: 10, outputTokens: 5 } },
    { text: "done", usage: { inputTokens: 20, outputTokens: 2 } }
  ])("AGENT-2 returns a result with text, conversation, usage, steps and, when completed, output", function* () {
    const result = yield* endsAs("Completed", agent.run("Hello"))
    assert.strictEqual(result.output, "done")
    assert.strictEqual(result.text, "done")
    assert.strictEqual(result.steps, 2)
    assert.deepStrictEqual(roles(result.conversation), ["system", "user", "assistant", "tool", "assistant"])
    assert.deepStrictEqual(result.usage, { inputTokens: 30, outputTokens: 7 })
    assert.strictEqual(result.state.outcome?._tag, "Completed")
  })

  test("AGENT-2 takes text and file parts", world([{ text: "a picture" }]), function* () {
    yield* agent.run([
      ToolResult.textPart("What is this?"),
      ToolResult.filePart({ mediaType: "image/png", data: "data:image/png;base64,AAAA" })
    ])
    const [request] = yield* ScriptedModel.requests
    const user = request?.messages.find(({ role }) => role === "user")
    assert.strictEqual(user?.text, "What is this?")
    assert.lengthOf(user?.files ?? [], 1)
  })

  const greeting = world([{ text: "hi" }])
  test("AGENT-2 uses a given conversation verbatim, its lack of a system message included", greeting, function* () {
    const conversation = yield* Conversation.make().pipe(Effect.flatMap(Conversation.addUser("Hello")))
    const result = yield* agent.run(undefined, { conversation })
    assert.deepStrictEqual(roles(result.conversation), ["user", "assistant"])
  })

  test('AGENT-2 instructions: "replace" puts the agent\'s own first', world([{ text: "hi" }]), function* () {
    const conversation = yield* Conversation.make({ system: "Other." }).pipe(
      Effect.flatMap(Conversation.addUser("Hello"))
    )
    const result = yield* agent.run(undefined, { conversation, instructions: "replace" })
    const [first] = Conversation.messages(result.conversation)
    assert.strictEqual(first?.role === "system" ? first.content : "", "Test.")
    assert.deepStrictEqual(roles(result.conversation), ["system", "user", "assistant"])
  })

  test(
    "a run that replaces the instructions leaves no system message of the history",
    world([{ text: "hi" }]),
    function* () {
      const conversation = yield* Conversation.make({ system: "Other." }).pipe(
        Effect.flatMap(Conversation.addUser("Hello")),
        Effect.flatMap(Conversation.addSystem("In Italian."))
      )
      const result = yield* agent.run(undefined, { conversation, instructions: "replace" })
      const texts = Conversation.messages(result.conversation).map(Message.text)
      assert.deepStrictEqual(texts, ["Test.", "Hello", "hi"])
    }
  )

  test("AGENT-2 refuses to run with nothing to answer", world([]), function* () {
    const error = yield* failsFor("ConversationInvalid", agent.run())
    assert.include(error.message, "user message")
  })

  const answerThenCall = world([{ text: "hi" }, { toolCalls: [call("c1", "echo", { text: "x" })] }])
  test("AGENT-2 ask returns the output alone, and fails with RunIncomplete otherwise", answerThenCall, function* () {
    assert.strictEqual(yield* agent.ask("Hello"), "hi")
    const error = yield* Effect.flip(agent.ask("Hello", { maxSteps: 1 }))
    assert(error._tag === "RunIncomplete")
    assert.strictEqual(error.result.outcome, "MaxSteps")
    assert.lengthOf(Conversation.openCalls(error.result.conversation), 1)
  })

  testGiven([
    { toolCalls: [call("c1", "echo", { text: "hi" })] },
    { fail: { reason: "AuthenticationError", description: "sk-SECRET was refused" } },
    { text: "again" }
  ])("AGENT-2 L4 an error of the model is an AgentError that holds the state; what ran is never lost", function* () {
    const error = yield* failsMidway("ModelFailed", agent.run("Hello"))
    assert.deepStrictEqual(roles(error.state.conversation), ["system", "user", "assistant", "tool"])
    assert.deepStrictEqual(yield* Probe.ran, ["echo hi"])
    const result = yield* agent.resume(error.state)
    assert.strictEqual(result.text, "again")
    assert.deepStrictEqual(yield* Probe.ran, ["echo hi"])
  })

  testGiven([
    { fail: { reason: "RateLimitError" } },
    { fail: { reason: "InternalProviderError" } },
    { text: "hi" },
    { fail: { reason: "AuthenticationError" } }
  ])("AGENT-2 a run retries what can be retried", function* () {
    assert.strictEqual(
      (yield* after("2 seconds", agent.run("Hello", { retry: { times: 5, delay: "1 second", factor: 1 } }))).text,
      "hi"
    )
    yield* failsFor("ModelFailed", agent.run("Hello", { retry: { times: 5, delay: "1 second", factor: 1 } }))
  })

  const held = world([{ toolCalls: [call("c1", "hold", { id: "a" })] }])
  test("AGENT-2 the total timeout ends the run as Interrupted, started calls settled", held, function* () {
    const result = yield* after("3 seconds", agent.run("Hello", { timeouts: { total: "2 seconds" } }))
    assert(result.outcome === "Interrupted")
    assert.strictEqual(result.reason, "timeout")
    assert.deepStrictEqual(yield* Probe.interrupted, ["a"])
    assert.deepStrictEqual(roles(result.conversation), ["system", "user", "assistant", "tool"])
    assert.deepStrictEqual(toolResults(result.conversation), ["interrupted"])
  })

  testGiven([
    { text: "slow", delay: "5 seconds" },
    { text: "quick", delay: "500 millis" }
  ])("AGENT-2 the step timeout bounds a model call together with its tools", function* () {
    const options = { timeouts: { step: "2 seconds" } } as const
    const fiber = yield* Effect.forkChild(agent.run("Hello", options))
    yield* TestClock.adjust("1 second")
    yield* TestClock.adjust("1 second")
    const result = yield* endsAs("Interrupted", Fiber.join(fiber))
    assert.strictEqual(result.reason, "timeout")
    assert.strictEqual((yield* after("1 second", agent.resume(result.state, options))).outcome, "Completed")
  })

  testGiven([
    { toolCalls: [call("c1", "hold", { id: "a" })], delay: "1500 millis" },
    { toolCalls: [call("c1", "hold", { id: "b" })], delay: "1500 millis" },
    { text: "done", delay: "1500 millis" }
  ])(
    "AGENT-2 the step timeout lasts from the model call through its tools, and begins anew with the next",
    function* () {
      const { gate } = yield* Probe
      const options = { timeouts: { step: "2 seconds" } } as const
      const held = yield* Effect.forkChild(agent.run("Hello", options))
      yield* TestClock.adjust("1500 millis")
      yield* TestClock.adjust("499 millis")
      assert.isUndefined(held.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const stopped = yield* endsAs("Interrupted", Fiber.join(held))
      assert.strictEqual(stopped.reason, "timeout")
      assert.deepStrictEqual(yield* Probe.interrupted, ["a"])
      assert.deepStrictEqual(toolResults(stopped.conversation), ["interrupted"])

      const quick = yield* Effect.forkChild(agent.run("Hello", options))
      yield* TestClock.adjust("1500 millis")
      yield* TestClock.adjust("400 millis")
      yield* Deferred.succeed(gate, undefined)
      yield* TestClock.adjust("1500 millis")
      assert.strictEqual((yield* Fiber.join(quick)).outcome, "Completed")
    }
  )

  const echoing = world([{ toolCalls: [call("c1", "echo", { text: "x" })] }])
  test("AGENT-2 AGENT-4 maxSteps holds without input, too", echoing, function* () {
    const conversation = yield* Effect.flatMap(Conversation.make(), Conversation.addUser("Hello"))
    yield* endsAs("MaxSteps", agent.run(undefined, { conversation, maxSteps: 1 }))
  })

  const holding = world([{ toolCalls: [call("c1", "hold", { id: "a" })] }, { text: "too slow" }])
  test("TOOL-1 the run option overrides the tool's timeout", holding, function* () {
    const result = yield* after("1 second", agent.run("Hello", { timeouts: { tool: "1 second" } }))
    assert.deepStrictEqual(toolResults(result.conversation), ["timeout_error"])
    assert.strictEqual(result.outcome, "Completed")
  })

  testGiven([
    { toolCalls: [call("c1", "echo", { text: "x" })] },
    { text: "a" },
    { toolCalls: [call("c1", "echo", { text: "x" })] },
    { text: "b" }
  ])("AGENT-2 toolChoice holds for the first model call, every insists", function* () {
    yield* agent.run("Hello", { toolChoice: "required" })
    yield* agent.run("Hello", { toolChoice: { every: { tool: "echo" } } })
    const choices = (yield* ScriptedModel.requests).map(({ toolChoice }) => toolChoice)
    assert.deepStrictEqual(choices, ["required", "auto", { tool: "echo" }, { tool: "echo" }])
  })

  const echoThenText = world([{ toolCalls: [call("c1", "echo", { text: "x" })] }, { text: "b" }])
  test("AGENT-2 onEvent is called after every event, with the state that holds it", echoThenText, function* () {
    const seen = yield* Ref.make<ReadonlyArray<readonly [string, number]>>([])
    const onEvent = ({ event, state }: Agent.RecordedEvent) =>
      Ref.update(seen, (all) => [...all, [event._tag, state.revision] as const])
    yield* agent.run("Hello", { onEvent })
    assert.deepStrictEqual(yield* Ref.get(seen), [
      ["RunStarted", 1],
      ["InputAdded", 2],
      ["StepStarted", 3],
      ["ModelAnswered", 4],
      ["ToolStarted", 5],
      ["ToolFinished", 6],
      ["StepStarted", 7],
      ["ModelAnswered", 8],
      ["RunFinished", 9]
    ])
  })

  testGiven([{ toolCalls: [call("c1", "hold", { id: "a" }), call("c2", "echo", { text: "b" })] }, { text: "done" }])(
    "AGENT-2 L6 interrupting the fiber settles what started and calls onEvent once more",
    function* () {
      const last = yield* Ref.make<Run.State | undefined>(undefined)
      const { started } = yield* Probe
      const fiber = yield* Effect.forkChild(agent.run("Hello", { onEvent: ({ state }) => Ref.set(last, state) }))
      yield* Effect.yieldNow
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      const exit = yield* Fiber.await(fiber)
      assert(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
      const state = yield* Ref.get(last)
      assert(state !== undefined)
      assert.deepStrictEqual(yield* Probe.interrupted, ["a"])
      assert.deepStrictEqual(roles(state.conversation), ["system", "user", "assistant", "tool"])
      assert.deepStrictEqual(pluck(Conversation.openCalls(state.conversation), "id"), ["c2"])
      yield* endsAs("Completed", agent.resume(state))
      assert.deepStrictEqual(yield* Probe.ran, ["hold a", "echo b"])
    }
  )

  test("AGENT-3 DUR-10 onChange: refuse resumes under no other definition", world([{ text: "hi" }]), function* () {
    const { state } = yield* agent.run("Hello")
    const other = Agent.make("tester", { instructions: "Other.", toolkit })
    const error = yield* failsFor("DefinitionChanged", other.resume(state, { onChange: "refuse" }))
    assert.strictEqual(error.state, state)
  })

  it.effect("AGENT-2 steps are those of the whole run, its budget that of one user message", () =>
    Effect.gen(function* () {
      const { state, steps } = yield* agent.run("Hello", { maxSteps: 2 })
      assert.strictEqual(steps, 2)
      const result = yield* endsAs("Completed", agent.resume(state, { input: "And?", maxSteps: 1 }))
      assert.strictEqual(result.steps, 3)
    }).pipe(inWorld([{ toolCalls: [call("c1", "echo", { text: "x" })] }, { text: "hi" }, { text: "that is all" }]))
  )

  testGiven(
    [
      {
        toolCalls: [
          call("c1", "fail", { reason: "no" }),
          call("c2", "boom", {}),
          call("c3", "nope", {}),
          call("c4", "echo", { text: 7 }),
          call("c5", "echo", { text: "fine" })
        ]
      },
      { text: "done" }
    ],
    ToolRuntime.layerConcurrent()
  )("L6 siblings settle: one failure, one bug and one unknown name lose no other's result", function* () {
    const result = yield* agent.run("Hello")
    const results = Conversation.messages(result.conversation).flatMap((message) =>
      message.role === "tool" ? [[message.callId, message.result._tag === "Failure" ? message.result.type : "ok"]] : []
    )
    assert.deepStrictEqual(results, [
      ["c1", "execution_error"],
      ["c2", "unhandled_error"],
      ["c3", "unknown_tool"],
      ["c4", "validation_error"],
      ["c5", "ok"]
    ])
  })

  const bugAndEcho = world([
    { toolCalls: [call("c1", "boom", {}), call("c2", "echo", { text: "fine" })] },
    { text: "done" }
  ])
  test(
    "RT-3 TRUST-5 the class of a defect is in the ToolFinished event, its text neither there nor in the conversation",
    bugAndEcho,
    function* () {
      const finished: Array<runParts.EventOf<"ToolFinished">> = []
      const onEvent = ({ event }: Agent.RecordedEvent) =>
        Effect.sync(() => void (event._tag === "ToolFinished" && finished.push(event)))
      const { conversation } = yield* agent.run("Hello", { onEvent })
      assert.notInclude(JSON.stringify([finished, conversation]), "a bug")
      assert.deepStrictEqual(
        finished.map(({ cause, message }) => [message.name, cause]),
        [
          ["boom", "Error"],
          ["echo", undefined]
        ]
      )
    }
  )

  test('TRUST-5 with defects: "describe" the model reads class and text', bugAndEcho, function* () {
    const { conversation } = yield* agent.run("Hello", { defects: "describe" })
    assert.include(JSON.stringify(Conversation.messages(conversation)), "Error executing tool: Error: a bug")
  })

  test('RT-3 defects: "die" ends the run with the bug after the siblings settled', bugAndEcho, function* () {
    const exit = yield* Effect.exit(agent.run("Hello", { defects: "die" }))
    assert(Exit.isFailure(exit))
    assert.include(Cause.pretty(exit.cause), "a bug")
    assert.deepStrictEqual(yield* Probe.ran, ["boom", "echo fine"])
  })

  test("TOOL-5 the context of the run reaches instructions", world([{ text: "hi" }]), function* () {
    const tenant = Agent.make("tenant", {
      instructions: Effect.map(RunContext.read(Schema.Struct({ tenant: Schema.String })), (c) => `For ${c.tenant}.`),
      toolkit: [Echo]
    })
    const result = yield* tenant.run("Hello", { context: { tenant: "acme" } })
    const [first] = Conversation.messages(result.conversation)
    assert.strictEqual(first === undefined ? "" : Message.text(first), "For acme.")
    const error = yield* failsFor("PreparationFailed", tenant.run("Hello"))
    assert.strictEqual(error.reason.error, "RunContextError")
    assert.include(error.message, `missing "tenant"`)
  })

  test("AGENT-2 a blank input is an AgentError, not a defect", world([]), function* () {
    yield* failsFor("ConversationInvalid", agent.run(""))
  })

  const deleting = world([{ toolCalls: [call("c1", "delete", { path: "a" })] }, { text: "done" }])
  test("AGENT-3 instructions and models that Effects find may differ when a run is resumed", deleting, function* () {
    const today = yield* Ref.make("Monday")
    const dated = Agent.make("dated", { instructions: Effect.map(Ref.get(today), (day) => `It is ${day}.`), toolkit })
    const first = yield* endsAs("AwaitingApproval", dated.run("Delete it"))
    yield* Ref.set(today, "Tuesday")
    const decisions = first.requests.filter(Run.isApprovable).map(Run.approve)
    const second = yield* endsAs("Completed", dated.resume(first.state, { decisions }))
    const [system] = Conversation.messages(second.conversation)
    assert.strictEqual(system === undefined ? "" : Message.text(system), "It is Monday.")
  })

  it.effect("AGENT-1 what the agent's own Effects open stays open for the run, and is closed with it", () => {
    const log: Array<string> = []
    const opened = Effect.acquireRelease(
      Effect.sync(() => log.push("open")),
      () => Effect.sync(() => log.push("close"))
    )
    class Scoped extends Agent.Service<Scoped>()("scoped", { instructions: Effect.as(opened, "Test.") }) {}
    const live = Scoped.layer.pipe(Layer.provide(ScriptedModel.layer([{ text: "one" }, { text: "two" }])))
    return Effect.gen(function* () {
      const scoped = yield* Scoped
      for (const answer of ["one", "two"]) {
        const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => log.push(event._tag))
        assert.strictEqual((yield* scoped.run("Hello", { onEvent })).text, answer)
        assert.strictEqual(log.at(0), "open")
        assert.strictEqual(log.at(-2), "RunFinished")
        assert.strictEqual(log.at(-1), "close")
        log.length = 0
      }
    }).pipe(Effect.provide(live), withoutScope)
  })
})
