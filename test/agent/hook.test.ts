import { assert, describe } from "@effect/vitest"
import { Cause, Clock, Deferred, Effect, Exit, Fiber, Ref, Result, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import { AiError, Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, Run, ToolRuntime } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import * as runLoop from "#src/run/internal/runLoop.ts"
import * as runRecorder from "#src/run/internal/runRecorder.ts"
import { endsAs, failsFor } from "../outcomes.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import { call, throughJson, toolResults } from "./fixtures.ts"

const Wait = Tool.make("wait", { parameters: Schema.Struct({ ms: Schema.Finite }), success: Schema.String })

const Asking = Tool.make("wait", { parameters: Wait.parametersSchema, success: Schema.String, needsApproval: true })

const toolkit = Toolkit.make(Wait)

const rateLimited = AiError.make({ module: "Test", method: "generateText", reason: new AiError.RateLimitError({}) })

const agent = Agent.make("keeper", { toolkit })

/** Calls of `wait`, c0 and so on, which run at once and return after these times; the model then answers "done". */
const waiting = (...times: ReadonlyArray<number>) =>
  [
    toolkit.toLayer({ wait: ({ ms }) => Effect.as(Effect.sleep(ms), `after ${ms}`) }),
    ScriptedModel.layer(({ messages }) =>
      messages.at(-1)?.role === "tool"
        ? { text: "done" }
        : { toolCalls: times.map((ms, i) => call(`c${i}`, "wait", { ms })) }
    ),
    ToolRuntime.layerConcurrent()
  ] as const

const inOrder = (entries: ReadonlyArray<unknown>) => entries.map((_, i) => i + 1)

describe("the hook of a run", () => {
  test("SOUND-1 H1 it receives one entry at a time, in order, each with its own state, whatever runs at once", function* () {
    const entries: Array<Agent.RecordedEvent> = []
    let calls = 0
    let stored = ""
    const onEvent = (entry: Agent.RecordedEvent) =>
      Effect.gen(function* () {
        calls += 1
        assert.strictEqual(calls, 1)
        const slow = entry.event._tag === "ToolFinished" && entry.event.message.callId === "c0"
        yield* Effect.sleep(slow ? 30 : 2)
        entries.push(entry)
        stored = yield* Effect.orDie(Run.stateCodec.encodeJson(entry.state))
        calls -= 1
      })
    const running = agent.run("Go", { onEvent }).pipe(Effect.provide([...waiting(1, 1, 1, 100_000)]))
    const fiber = yield* Effect.forkChild(running)
    yield* TestClock.adjust("10 seconds")
    // The process dies here.
    assert.deepStrictEqual(
      entries.map(({ sequence }) => sequence),
      inOrder(entries)
    )
    for (const { sequence, state } of entries) {
      assert.strictEqual(state.revision, sequence)
      const folded = Result.getOrThrow(Run.fold(entries.slice(0, sequence).map(({ event }) => event)))
      assert.deepStrictEqual(yield* throughJson(state), yield* throughJson(folded))
    }
    const state = yield* Run.stateCodec.decodeJson(stored)
    const resumed = yield* endsAs("Completed", agent.resume(state)).pipe(Effect.provide([...waiting()]))
    assert.deepStrictEqual(toolResults(resumed.conversation), ["after 1", "after 1", "after 1", "interrupted"])
    yield* Fiber.interrupt(fiber)
  })

  test("SOUND-1 H1 the states of a stream come in order, with a slow hook, and after the hook", function* () {
    const kept: Array<number> = []
    const onEvent = ({ event, sequence }: Agent.RecordedEvent) =>
      Effect.andThen(
        Effect.sleep(event._tag === "ToolFinished" ? 20 : 5),
        Effect.sync(() => void kept.push(sequence))
      )
    const collected = agent.stream("Go", { onEvent }).pipe(
      Stream.tap((event) =>
        Effect.sync(() => {
          if ("state" in event) assert.include(kept, event.state.revision)
        })
      ),
      Stream.runCollect,
      Effect.provide([...waiting(1, 2, 3, 4)])
    )
    const fiber = yield* Effect.forkChild(collected)
    yield* TestClock.adjust("10 seconds")
    const events = yield* Fiber.join(fiber)
    const revisions = events.flatMap((event) => ("state" in event ? [event.state.revision] : []))
    assert.deepStrictEqual(revisions, inOrder(revisions))
    assert.deepStrictEqual(kept, inOrder(kept))
  })

  test("SOUND-1 the numbers continue when a run is resumed", function* () {
    const numbers: Array<number> = []
    const onEvent = ({ sequence }: Agent.RecordedEvent) => Effect.sync(() => void numbers.push(sequence))
    const twice = Effect.gen(function* () {
      const { state } = yield* agent.run("Go", { onEvent, maxSteps: 1 })
      yield* agent.resume(state, { input: "Again", onEvent, maxSteps: 1 })
    })
    yield* Effect.provide(twice, [...waiting(0)])
    assert.deepStrictEqual(numbers, inOrder(numbers))
  })

  const tags = ["RunStarted", "InputAdded", "StepStarted", "ModelAnswered", "ToolStarted", "ToolFinished"] as const
  for (const tag of tags) {
    test(`SOUND-1 M7 the total time ends a run whose hook never returns from ${tag}`, function* () {
      const received: Array<string> = []
      const onEvent = ({ event }: Agent.RecordedEvent) => {
        received.push(event._tag)
        return event._tag === tag ? Effect.never : Effect.void
      }
      const running = endsAs("Interrupted", agent.run("Go", { onEvent, timeouts: { total: "1 second" } }))
      const fiber = yield* Effect.forkChild(Effect.provide(running, [...waiting(1)]))
      yield* TestClock.adjust("1 second")
      const { reason, state } = yield* Fiber.join(fiber)
      assert.strictEqual(reason, "timeout")
      assert.strictEqual(received.at(-1), tag)
      assert.strictEqual(state.outcome?._tag, "Interrupted")
      // Nothing is lost: the message, and the result of the tool where it ran.
      assert.strictEqual(Conversation.messages(state.conversation).at(0)?.role, "user")
      const results = tag === "ToolFinished" ? ["after 1"] : tag === "ToolStarted" ? ["interrupted"] : []
      assert.deepStrictEqual(toolResults(state.conversation), results)
    })

    test(`SOUND-1 M7 an interruption ends a run whose hook never returns from ${tag}`, function* () {
      const held = yield* Deferred.make<void>()
      const onEvent = ({ event }: Agent.RecordedEvent) =>
        event._tag === tag ? Effect.andThen(Deferred.succeed(held, undefined), Effect.never) : Effect.void
      const fiber = yield* Effect.forkChild(Effect.provide(agent.run("Go", { onEvent }), [...waiting(0)]))
      yield* Deferred.await(held)
      yield* Fiber.interrupt(fiber)
      const exit = yield* Fiber.await(fiber)
      assert(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
    })
  }

  test("SOUND-1 M7 a run ends within a second of its deadline where the hook does not return at the end", function* () {
    const onEvent = ({ event }: Agent.RecordedEvent) => (event._tag === "RunInterrupted" ? Effect.never : Effect.void)
    const running = endsAs("Interrupted", agent.run("Go", { onEvent, timeouts: { total: "1 second" } }))
    const fiber = yield* Effect.forkChild(Effect.provide(running, [...waiting(5000)]))
    yield* TestClock.adjust("2 seconds")
    const { state } = yield* Fiber.join(fiber)
    assert.deepStrictEqual(toolResults(state.conversation), ["interrupted"])
  })

  test("SOUND-1 a hook that dies ends the run, receives no more, and no call starts", function* () {
    const received: Array<string> = []
    const onEvent = ({ event }: Agent.RecordedEvent) => {
      received.push(event._tag)
      return event._tag === "ToolStarted" ? Effect.die(new Error("the disk is full")) : Effect.void
    }
    const exit = yield* Effect.exit(Effect.provide(agent.run("Go", { onEvent }), [...waiting(0, 0, 0)]))
    assert(Exit.isFailure(exit))
    assert.include(Cause.pretty(exit.cause), "the disk is full")
    assert.deepStrictEqual(received, ["RunStarted", "InputAdded", "StepStarted", "ModelAnswered", "ToolStarted"])
  })

  test("SOUND-1 a sub-agent that a wrapper interrupts leaves the hook of its parent alone", function* () {
    const inner = Agent.make("inner", { toolkit, instructions: "Inner." })
    const outer = Agent.make("outer", { toolkit: [Agent.asTool(inner, { name: "ask", description: "Asks" }), Wait] })
    const received = yield* Ref.make<ReadonlyArray<number>>([])
    const onEvent = ({ sequence }: Agent.RecordedEvent) =>
      Effect.andThen(
        Effect.sleep(50),
        Ref.update(received, (all) => [...all, sequence])
      )
    const impatient = ToolRuntime.around((call, next) =>
      call.contract.name === "ask"
        ? Effect.timeoutOrElse(next, {
            duration: "220 millis",
            orElse: () => Effect.succeed({ _tag: "Success", content: [{ type: "text", text: "late" }], value: "late" })
          })
        : next
    )
    const running = outer.run("Go", { onEvent }).pipe(
      Effect.provide(impatient),
      Effect.provide([
        ToolRuntime.layerConcurrent(),
        toolkit.toLayer({ wait: ({ ms }) => Effect.as(Effect.sleep(ms), "waited") }),
        ScriptedModel.layer(({ messages }) => {
          if (messages.at(-1)?.role === "tool") return { text: "done" }
          return messages[0]?.text === "Inner."
            ? { toolCalls: [call("i", "wait", { ms: 10_000 })] }
            : { toolCalls: [call("a", "ask", { input: "q" }), call("b", "wait", { ms: 210 })] }
        })
      ])
    )
    const fiber = yield* Effect.forkChild(endsAs("Completed", running))
    yield* TestClock.adjust("20 seconds")
    const { conversation, state } = yield* Fiber.join(fiber)
    assert.deepStrictEqual(toolResults(conversation), ["late", "waited"])
    const numbers = yield* Ref.get(received)
    assert.deepStrictEqual(numbers, inOrder(numbers))
    assert.lengthOf(numbers, state.revision)
  })
})

describe("the time of a run", () => {
  const Charge = Tool.make("charge", { success: Schema.String })
  const both = Toolkit.make(Wait, Charge)
  const handlersOf = (ran: Array<string>) =>
    both.toLayer({
      wait: ({ ms }) => Effect.as(Effect.sleep(ms), "waited"),
      charge: () => Effect.sync(() => (ran.push("charge"), "charged"))
    })

  for (const [what, first] of [
    ["an agent as a tool is cut off", call("a", "ask", { input: "q" })],
    ["a tool returns at that moment", call("a", "wait", { ms: 100 })]
  ] as const) {
    test(`SOUND-3 H5 no call starts once the total time is over, also where ${what}`, function* () {
      const ran: Array<string> = []
      const inner = Agent.make("inner", { instructions: "Inner.", toolkit: [Wait] })
      const ask = Agent.asTool(inner, { name: "ask", description: "Asks" })
      const outer = Agent.make("outer", { toolkit: [ask, Wait, Charge] })
      const model = ScriptedModel.layer(({ messages }) =>
        messages[0]?.text === "Inner."
          ? { toolCalls: [call("i", "wait", { ms: 9000 })] }
          : { toolCalls: [first, call("b", "charge", {})] }
      )
      const running = endsAs("Interrupted", outer.run("Go", { timeouts: { total: "100 millis" } }))
      const fiber = yield* Effect.forkChild(Effect.provide(running, [handlersOf(ran), model]))
      yield* TestClock.adjust("100 millis")
      const { conversation, reason } = yield* Fiber.join(fiber)
      assert.strictEqual(reason, "timeout")
      assert.deepStrictEqual(ran, [])
      assert.deepStrictEqual(toolResults(conversation), [first.name === "ask" ? "interrupted" : "waited"])
      assert.deepStrictEqual(pluck(Conversation.openCalls(conversation), "id"), ["b"])
    })
  }

  test("SOUND-3 no model is asked again once the total time is over", function* () {
    let asked = 0
    const model = ScriptedModel.layer(() => {
      asked += 1
      return Effect.fail(rateLimited)
    })
    const retry = { times: 5, delay: "100 millis", factor: 1 } as const
    const running = agent.run("Go", { timeouts: { total: "100 millis" }, retry })
    const fiber = yield* Effect.forkChild(Effect.provide(endsAs("Interrupted", running), [handlersOf([]), model]))
    yield* TestClock.adjust("100 millis")
    yield* Fiber.join(fiber)
    assert.strictEqual(asked, 1)
  })

  test("MODEL-6 a retry waits at least as long as the provider asks, and the schedule where that is longer", function* () {
    const limited = (retryAfter: number) => ({ fail: { reason: "RateLimitError" as const, retryAfter } })
    const started = yield* Clock.currentTimeMillis
    const times: Array<number> = []
    const answers = [limited(7000), limited(10), { text: "done" }]
    const model = ScriptedModel.layer(({ index }) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        times.push(now - started)
        return answers[index] ?? { text: "too often" }
      })
    )
    const running = agent.run("Go", { retry: { times: 5, delay: "100 millis", factor: 1 } })
    const fiber = yield* Effect.forkChild(Effect.provide(endsAs("Completed", running), [handlersOf([]), model]))
    yield* TestClock.adjust("8 seconds")
    yield* Fiber.join(fiber)
    assert.deepStrictEqual(times, [0, 7000, 7100])
  })

  test("MODEL-6 L3 a provider that asks for a pause of more than an hour fails the run", function* () {
    const model = ScriptedModel.layer([{ fail: { reason: "RateLimitError", retryAfter: 3_600_001 } }, { text: "late" }])
    const running = agent.run("Go", { retry: { times: 5, delay: "100 millis", factor: 1 } })
    const fiber = yield* Effect.forkChild(Effect.provide(failsFor("ModelFailed", running), [handlersOf([]), model]))
    yield* TestClock.adjust("2 hours")
    assert.strictEqual((yield* Fiber.join(fiber)).reason.retryAfterMillis, 3_600_001)
  })

  test("SOUND-3 L3 timeouts.step bounds the calls that a resumed run begins with", function* () {
    const slow = Agent.make("slow", { toolkit: [Asking] })
    const model = ScriptedModel.layer([{ toolCalls: [call("a", "wait", { ms: 600 })] }, { text: "done" }])
    const running = Effect.gen(function* () {
      const { requests, state } = yield* endsAs("AwaitingApproval", slow.run("Go"))
      const decisions = requests.filter(Run.isApprovable).map(Run.approve)
      return yield* endsAs("Interrupted", slow.resume(state, { decisions, timeouts: { step: 100 } }))
    })
    const fiber = yield* Effect.forkChild(Effect.provide(running, [handlersOf([]), model]))
    yield* TestClock.adjust("100 millis")
    const { conversation, reason } = yield* Fiber.join(fiber)
    assert.strictEqual(reason, "timeout")
    assert.deepStrictEqual(toolResults(conversation), ["interrupted"])
  })
})

describe("wrappers of agents used as tools", () => {
  const inner = Agent.make("inner", { instructions: "Inner." })
  const outer = Agent.make("outer", { toolkit: [Agent.asTool(inner, { name: "ask", description: "Asks" })] })
  const asks = { toolCalls: [call("c", "ask", { input: "q" })] }
  const retryOnce = ToolRuntime.around((_, next) =>
    Effect.flatMap(next, (result) => (result._tag === "Failure" ? next : Effect.succeed(result)))
  )

  for (const [what, first] of [
    ["was stopped by its provider", { text: "", finishReason: "content-filter" }],
    ["failed", () => Effect.fail(rateLimited)]
  ] as const) {
    test(`SOUND-6 M10 a wrapper runs an agent again that ${what}, as it may any tool`, function* () {
      const log: Array<Run.Event> = []
      const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void log.push(event))
      const running = endsAs("Completed", outer.run("Go", { onEvent, retry: { times: 0 } }))
      const model = ScriptedModel.layer([asks, first, { text: "second try" }, { text: "done" }])
      const { conversation, state } = yield* running.pipe(Effect.provide(retryOnce), Effect.provide(model))
      assert.deepStrictEqual(toolResults(conversation), ["second try"])
      const folded = Result.getOrThrow(Run.fold(log))
      assert.deepStrictEqual(yield* throughJson(folded), yield* throughJson(state))
    })
  }

  test("SOUND-6 M10 an agent that waits for decisions is not run again", function* () {
    const asking = Agent.make("asking", { toolkit: [Asking], instructions: "Inner." })
    const around = Agent.make("around", { toolkit: [Agent.asTool(asking, { name: "ask", description: "Asks" })] })
    const model = ScriptedModel.layer([
      asks,
      { toolCalls: [call("w", "wait", { ms: 0 })] },
      { text: "in" },
      { text: "out" }
    ])
    const handlers = toolkit.toLayer({ wait: () => Effect.succeed("waited") })
    yield* Effect.gen(function* () {
      const { requests, state } = yield* endsAs("AwaitingApproval", around.run("Go"))
      const decisions = requests.filter(Run.isApprovable).map(Run.approve)
      const { conversation } = yield* endsAs("Completed", around.resume(state, { decisions }))
      assert.deepStrictEqual(toolResults(conversation), ["in"])
    }).pipe(Effect.provide(retryOnce), Effect.provide([model, handlers]))
  })
})

describe("what users pass to a run", () => {
  const ran: Array<string> = []
  const handlers = toolkit.toLayer({ wait: () => Effect.sync(() => (ran.push("wait"), "waited")) })

  for (const [what, context, place] of [
    ["a number that is not finite", { n: Number.NaN }, "/n"],
    ["a secret", { api_key: "sk" }, "/api_key"]
  ] as const) {
    test(`SOUND-6 M8 a context that holds ${what} is refused before anything runs`, function* () {
      const error = yield* failsFor("OptionsInvalid", agent.run("Go", { context })).pipe(
        Effect.provide([handlers, ScriptedModel.layer([])])
      )
      assert.include(error.message, place)
      assert.notInclude(error.message, 'sk"')
      assert.isUndefined(error.state)
    })
  }

  const wrong: ReadonlyArray<readonly [string, unknown]> = [
    ["nothing", undefined],
    ["empty content", { _tag: "Success", content: [], value: 1 }],
    ["a function as its value", { _tag: "Success", content: [{ type: "text", text: "x" }], value: () => 1 }],
    ["a type that is no text", { _tag: "Failure", type: 5, message: "x", content: [{ type: "text", text: "x" }] }],
    ["an image without data", { _tag: "Success", content: [{ type: "image" }], value: 1 }]
  ]
  for (const [what, result] of wrong) {
    test(`SOUND-6 L9 a runtime that returns ${what} fails that call only, with a reason`, function* () {
      // A runtime in JavaScript returns what it likes.
      const odd = ToolRuntime.around((call, next) => (call.id === "c0" ? Effect.succeed(result as never) : next))
      const model = ScriptedModel.layer([
        { toolCalls: [call("c0", "wait", { ms: 0 }), call("c1", "wait", { ms: 0 })] },
        { text: "done" }
      ])
      const { conversation, state } = yield* endsAs("Completed", agent.run("Go")).pipe(
        Effect.provide(odd),
        Effect.provide([handlers, model])
      )
      assert.deepStrictEqual(toolResults(conversation), ["invalid_result", "waited"])
      yield* throughJson(state)
    })
  }

  const policies: ReadonlyArray<readonly [string, () => unknown, string]> = [
    ["interrupts", () => Effect.interrupt, "unhandled_error"],
    ["returns nothing", () => undefined, "unhandled_error"],
    ["returns a promise", () => Promise.resolve(false), "unhandled_error"],
    ["never ends", () => Effect.never, "timeout_error"]
  ]
  for (const [what, policy, type] of policies) {
    test(`SOUND-6 L1 an approval policy that ${what} fails its own call`, function* () {
      const Odd = Tool.make("odd", {
        parameters: Wait.parametersSchema,
        success: Schema.String,
        // A policy in JavaScript returns what it likes.
        needsApproval: policy as never
      })
      const kit = Toolkit.make(Odd, Wait)
      const model = ScriptedModel.layer([
        { toolCalls: [call("c0", "odd", { ms: 0 }), call("c1", "wait", { ms: 0 })] },
        { text: "done" }
      ])
      const both = kit.toLayer({ odd: () => Effect.succeed("odd"), wait: () => Effect.succeed("waited") })
      const running = endsAs("Completed", Agent.make("odd", { toolkit: kit }).run("Go"))
      const fiber = yield* Effect.forkChild(Effect.provide(running, [both, model]))
      yield* TestClock.adjust("10 seconds")
      const { conversation } = yield* Fiber.join(fiber)
      assert.deepStrictEqual(toolResults(conversation), [type, "waited"])
    })
  }

  test("SOUND-6 L2 a result beyond Limits names the limit", function* () {
    const large = toolkit.toLayer({ wait: () => Effect.succeed("x".repeat(9_000_000)) })
    const model = ScriptedModel.layer([{ toolCalls: [call("c", "wait", { ms: 0 })] }, { text: "done" }])
    const { conversation } = yield* Effect.provide(agent.run("Go"), [large, model])
    const [message] = Conversation.messages(conversation).flatMap((one) =>
      one.role === "tool" && one.result._tag === "Failure" ? [one.result.message] : []
    )
    assert.match(message ?? "", /Limits/)
    assert.match(message ?? "", /8388608|maxStringLength|maxBytes/i)
  })
})

describe("MEND-15 the end of a run that failed or was cut off", () => {
  test("MEND-15 after a hook that died no hook begins, also of events that waited for it", function* () {
    const received: Array<string> = []
    const onEvent = ({ event }: Agent.RecordedEvent) => {
      received.push(event._tag)
      const isFirst = event._tag === "ToolFinished" && received.filter((tag) => tag === event._tag).length === 1
      return isFirst ? Effect.andThen(Effect.sleep(30), Effect.die(new Error("no disk"))) : Effect.void
    }
    const running = Effect.provide(agent.run("Go", { onEvent }), [...waiting(1, 2, 3)])
    const fiber = yield* Effect.forkChild(running)
    yield* TestClock.adjust("10 seconds")
    const exit = yield* Fiber.await(fiber)
    assert(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
    assert.strictEqual(received.at(-1), "ToolFinished")
    assert.lengthOf(
      received.filter((tag) => tag === "ToolFinished"),
      1
    )
  })

  test("MEND-15 a run that the time of a step ends waits a second for its hooks, not for its whole time", function* () {
    const onEvent = ({ event }: Agent.RecordedEvent) => (event._tag === "RunInterrupted" ? Effect.never : Effect.void)
    const running = agent.run("Go", { onEvent, timeouts: { step: "5 seconds" } })
    const fiber = yield* Effect.forkChild(
      Effect.provide(running, ScriptedModel.layer([{ text: "late", delay: "1 hour" }])).pipe(
        Effect.provide(waiting()[0])
      )
    )
    yield* TestClock.adjust("6 seconds")
    assert.isDefined(fiber.pollUnsafe())
    yield* endsAs("Interrupted", Fiber.join(fiber))
  })

  test("MEND-15 a run whose fiber is interrupted emits nothing more", function* () {
    const shown: Array<string> = []
    const recorder = new runRecorder.RunRecorder<{ readonly outcome?: string }, string, string>({
      state: {},
      first: undefined,
      apply: (_, event) => Result.succeed(event === "ended" ? { outcome: event } : {}),
      views: (_, event) => [event],
      log: { add: (views) => void shown.push(...views), show: (view) => void shown.push(view) },
      context: yield* Effect.context<never>()
    })
    const machine = {
      next: () => "wait",
      ends: () => false,
      perform: () => Effect.andThen(recorder.record("began"), Effect.never),
      interrupt: () => recorder.record("ended")
    }
    const fiber = yield* Effect.forkChild(
      runLoop.runMachine(machine, recorder, { open: Effect.void, deadline: undefined })
    )
    yield* Effect.yieldNow
    yield* Fiber.interrupt(fiber)
    assert.deepStrictEqual([recorder.state.outcome, shown], ["ended", ["began"]])
  })
})
