import { assert, describe, it } from "@effect/vitest"
import { DateTime, Deferred, Duration, Effect, Fiber, Layer, Ref, Result, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Conversation, Run, RunContext, ToolRuntime, type AgentEvent } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { call, Probe, throughJson, toolkit, toolResults, inWorld, testGiven, world } from "./fixtures.ts"
import { after } from "../after.ts"
import { endsAs, failsFor, failsMidway } from "../outcomes.ts"
import { test } from "../test.ts"
import { bare, decide } from "../decisions.ts"
import { pluck } from "../pluck.ts"

const inner = Agent.make("inner", { instructions: "Inner.", toolkit })
const outer = Agent.make("outer", {
  instructions: "Outer.",
  toolkit: [Agent.asTool(inner, { name: "delegate", description: "Does it" })]
})

/** One script for both agents, distinguished by their instructions. */
const scripts = (
  own: ScriptedModel.Script & ReadonlyArray<unknown>,
  child: ScriptedModel.Script & ReadonlyArray<unknown>
) => {
  let a = 0
  let b = 0
  return ((request) => {
    const turn = request.messages[0]?.text.startsWith("Inner.") === true ? child[b++] : own[a++]
    if (turn === undefined) throw new Error("the script is used up")
    return typeof turn === "function" ? turn(request) : turn
  }) satisfies ScriptedModel.TurnFunction
}

const usage = (inputTokens: number) => ({ inputTokens, outputTokens: 1 })
const delegate = (id: string, input = "do it") => call(id, "delegate", { input })

/** The outer agent asks the inner one once. */
const delegating = (child: ScriptedModel.Script & ReadonlyArray<unknown>) =>
  scripts(
    [
      { toolCalls: [delegate("c1")], usage: usage(1) },
      { text: "done", usage: usage(10) }
    ],
    child
  )

const results = (conversation: Conversation.Conversation) =>
  Conversation.messages(conversation).flatMap((message) => (message.role === "tool" ? [message.result] : []))

const childEvents = (events: ReadonlyArray<AgentEvent.AgentEvent<unknown>>) =>
  events.flatMap((event) => (event._tag === "Child" ? [event] : []))

describe("AGENT-8 agents as tools", () => {
  testGiven(
    delegating([
      { toolCalls: [call("c1", "echo", { text: "x" })], usage: usage(100) },
      { text: "inner answer", usage: usage(1000) }
    ])
  )(
    "AGENT-8 the outer model gets the answer; usage counts once; the child has one conversation of its own",
    function* () {
      const result = yield* endsAs("Completed", outer.run("Go"))
      assert.strictEqual(result.steps, 2)
      assert.deepStrictEqual(result.usage, { inputTokens: 1111, outputTokens: 4 })
      assert.deepStrictEqual(toolResults(result.conversation), ["inner answer"])
      const requests = yield* ScriptedModel.requests
      assert.deepStrictEqual(
        requests.map(({ messages }) => messages.map(({ role }) => role).join()),
        ["system,user", "system,user", "system,user,assistant,tool", "system,user,assistant,tool"]
      )
      assert.strictEqual(requests[1]?.messages[1]?.text, "do it")
    }
  )

  const at = "2026-01-01T00:00:00.000Z"
  for (const [what, output, object, value] of [
    ["structured output", Schema.Struct({ at: Schema.DateTimeUtcFromString }), { at }, { at }],
    ["null", Schema.NullOr(Schema.String), { value: null }, null]
  ] as ReadonlyArray<readonly [string, Schema.Codec<unknown, unknown>, Schema.Json, Schema.Json]>) {
    testGiven(delegating([{ object }]))(`AGENT-8 ${what} of the child is the result's value`, function* () {
      const typed = Agent.make("typed", { instructions: "Inner.", output })
      const asker = Agent.make("asker", { toolkit: [Agent.asTool(typed, { name: "delegate", description: "d" })] })
      assert.deepStrictEqual(toolResults((yield* asker.run("Go")).conversation), [value])
    })
  }

  const answering = world(delegating([{ text: "x" }]))
  test("AGENT-8 the child sees the RunContext of the outer run", answering, function* () {
    const seen: Array<unknown> = []
    const aware = Agent.make("aware", {
      instructions: Effect.map(RunContext.RunContext, (context) => {
        seen.push(context)
        return "Inner."
      })
    })
    const asker = Agent.make("asker", { toolkit: [Agent.asTool(aware, { name: "delegate", description: "d" })] })
    yield* asker.run("Go", { context: { tenant: "acme" } })
    assert.deepStrictEqual(seen, [{ tenant: "acme" }])
  })

  for (const streaming of [true, false]) {
    testGiven(delegating([{ text: "a long inner answer" }]))(
      `AGENT-8 its events come under the call id${streaming ? ", deltas too" : ""} (${streaming ? "stream" : "run"})`,
      function* () {
        if (!streaming) {
          const tags = yield* Ref.make<ReadonlyArray<string>>([])
          yield* outer.run("Go", {
            onEvent: ({ event }) =>
              event._tag === "ChildEvent"
                ? Ref.update(tags, (all) => [...all, `${event.callId} ${event.event._tag}`])
                : Effect.void
          })
          assert.deepStrictEqual(yield* Ref.get(tags), [
            "c1 RunStarted",
            "c1 InputAdded",
            "c1 StepStarted",
            "c1 ModelAnswered",
            "c1 RunFinished"
          ])
          return
        }
        const events = yield* Stream.runCollect(outer.stream("Go"))
        const children = childEvents(events)
        assert.isTrue(children.every(({ callId, name }) => callId === "c1" && name === "delegate"))
        assert.strictEqual(
          children.map(({ event }) => (event._tag === "TextDelta" ? event.delta : "")).join(""),
          "a long inner answer"
        )
        assert.strictEqual(children.at(0)?.event._tag, "RunStarted")
        assert.strictEqual(children.at(-1)?.event._tag, "RunFinished")
        const twice = events.filter((event) => event._tag === "StateChanged" && event.event._tag === "ChildEvent")
        assert.deepStrictEqual(twice, [])
        const revisions = events.flatMap((event) => ("state" in event ? [event.state.revision] : []))
        assert.deepStrictEqual(
          revisions,
          revisions.toSorted((a, b) => a - b)
        )
        const at = (tag: string) => events.findIndex(({ _tag }) => _tag === tag)
        assert.isBelow(at("ToolStarted"), at("Child"))
        assert.isBelow(at("Child"), at("ToolFinished"))
      }
    )
  }

  testGiven(
    scripts(
      [{ toolCalls: [delegate("c1")] }, { toolCalls: [delegate("c2")] }, { text: "done" }],
      [
        { toolCalls: [call("d1", "delete", { path: "/a" })] },
        { text: "deleted it" },
        { toolCalls: [call("d1", "delete", { path: "/a" })] },
        { text: "deleted it" }
      ]
    )
  )(
    "TRUST-1 AGENT-8 an approval of a child's call does not count for the same call of another run of it",
    function* () {
      const first = yield* endsAs("AwaitingApproval", outer.run("Go"))
      const decisions = decide(first.state)
      const second = yield* endsAs("AwaitingApproval", outer.resume(first.state, { decisions }))
      assert.deepStrictEqual(pluck(second.requests, "path"), [["c2"]])
      for (const [problem, path] of [
        ["unknown", ["c1"]],
        ["changed", ["c2"]],
        ["changed", undefined]
      ] as const) {
        const again = decisions.map((one) => ({ ...one, path }))
        const error = yield* failsFor("InvalidDecision", outer.resume(second.state, { decisions: again }))
        assert.strictEqual(error.reason.problem, problem)
      }
      assert.deepStrictEqual(yield* Probe.ran, ["delete /a"])
      // An approval of the child that has expired: the child asks again, and so does the run around it
      const taken = decide(second.state, true, { expiresAt: DateTime.add(yield* DateTime.now, { minutes: 1 }) })
      const events = Result.getOrThrow(Run.decide(second.state, taken, yield* DateTime.now))
      const approved = yield* throughJson(Result.getOrThrow(Run.applyAll(second.state, events)))
      yield* TestClock.adjust("1 minute")
      const third = yield* endsAs("AwaitingApproval", outer.resume(approved))
      assert.deepStrictEqual(third.requests, second.requests)
      assert.deepStrictEqual(yield* Probe.ran, ["delete /a"])
      yield* endsAs("Completed", outer.resume(third.state, { decisions: decide(third.state) }))
      assert.deepStrictEqual(yield* Probe.ran, ["delete /a", "delete /a"])
    }
  )

  for (const runtime of [ToolRuntime.layerInline, ToolRuntime.layerConcurrent()]) {
    testGiven(
      delegating([
        { toolCalls: [call("d1", "delete", { path: "/a" }), call("d2", "echo", { text: "x" })], usage: usage(100) },
        { text: "deleted it", usage: usage(1000) }
      ]),
      runtime
    )("AGENT-8 TOOL-7 a pending approval of the child suspends the parent, and resumes through JSON", function* () {
      const first = yield* endsAs("AwaitingApproval", outer.run("Go"))
      assert.deepStrictEqual(bare(first.requests), [
        { _tag: "Approval", callId: "d1", name: "delete", arguments: { path: "/a" }, path: ["c1"] }
      ])
      assert.deepStrictEqual(yield* Probe.ran, ["echo x"])
      const state = yield* throughJson(first.state)
      const again = yield* endsAs("AwaitingApproval", outer.resume(state))
      const result = yield* outer.resume(yield* throughJson(again.state), {
        decisions: first.requests.filter(Run.isApprovable).map(Run.approve)
      })
      assert.strictEqual(result.outcome, "Completed")
      assert.deepStrictEqual(yield* Probe.ran, ["echo x", "delete /a"])
      assert.deepStrictEqual(result.usage, { inputTokens: 1111, outputTokens: 4 })
      assert.deepStrictEqual(toolResults(result.conversation), ["deleted it"])
      yield* (yield* ScriptedModel.ScriptedModel).assertComplete
    })
  }

  testGiven((request) => {
    const last = request.messages.at(-1)
    if (!(request.messages[0]?.text ?? "").startsWith("Inner.")) {
      return last?.role === "tool"
        ? { text: "done" }
        : { toolCalls: [delegate("a", "slow"), delegate("b", "fail"), delegate("c", "quick")] }
    }
    if (last?.text === "fail") return { fail: { reason: "QuotaExhaustedError", description: "sk-SECRET" } }
    return { text: last?.text ?? "", delay: last?.text === "slow" ? "5 seconds" : "1 second" }
  }, ToolRuntime.layerConcurrent())(
    "AGENT-8 L6 two children at once: each has its own state, results in call order, one fails alone",
    function* () {
      const result = yield* endsAs("Completed", after("10 seconds", outer.run("Go")))
      assert.deepStrictEqual(toolResults(result.conversation), ["slow", "execution_error", "quick"])
    }
  )

  testGiven(
    scripts(
      [{ toolCalls: [delegate("c1"), delegate("c2")] }, { text: "done" }],
      [{ fail: { reason: "QuotaExhaustedError", description: "SECRET" } }, { text: "SECRET", finishReason: "length" }]
    )
  )(
    "AGENT-8 L8 a child that fails, or returns no answer, is an execution_error result without quotations",
    function* () {
      const result = yield* endsAs("Completed", outer.run("Go"))
      for (const one of results(result.conversation)) {
        assert(one._tag === "Failure")
        assert.strictEqual(one.type, "execution_error")
        assert.notInclude(JSON.stringify(one), "SECRET")
      }
      assert.lengthOf(results(result.conversation), 2)
    }
  )

  it.effect("AGENT-8 agents nest at most maxDepth deep, then the whole run fails with a typed error", () => {
    let depth = 0
    let found: Agent.Agent<string> | undefined
    const lazily = Effect.suspend(() => (found === undefined ? Effect.die("no agent") : Effect.succeed(found)))
    const loop = Agent.make("loop", { toolkit: [Agent.asTool(lazily, { name: "again", description: "again" })] })
    return Effect.gen(function* () {
      const context = yield* Effect.context<Layer.Success<ReturnType<typeof world>>>()
      found = {
        ...loop,
        run: (input, options) => loop.run(input, options).pipe(Effect.provideContext(context)),
        ask: (input, options) => loop.ask(input, options).pipe(Effect.provideContext(context)),
        stream: (input, options) => loop.stream(input, options).pipe(Stream.provideContext(context)),
        resume: (state, options) => loop.resume(state, options).pipe(Effect.provideContext(context)),
        resumeStream: (state, options) => loop.resumeStream(state, options).pipe(Stream.provideContext(context))
      }
      const error = yield* failsMidway("MaxDepth", loop.run("Go"))
      assert.strictEqual(error.reason.limit, 8)
      assert.strictEqual(error.agent, "loop")
      assert.strictEqual(error.state.depth, 0)
      assert.strictEqual(depth, 9)
      depth = 0
      const early = yield* failsFor("MaxDepth", loop.run("Go", { maxDepth: 2 }))
      assert.strictEqual(early.reason.limit, 2)
      assert.strictEqual(depth, 3)
    }).pipe(
      inWorld(() => {
        depth += 1
        return { toolCalls: [call("c1", "again", { input: "deeper" })] }
      })
    )
  })

  const holding = Layer.suspend(() =>
    world(delegating([{ toolCalls: [call("d1", "hold", { id: "h" })] }, { text: "late" }]))
  )
  test("AGENT-8 L6 interrupting the parent interrupts the child; both states are settled", holding, function* () {
    const last = yield* Ref.make<Run.State | undefined>(undefined)
    const { started } = yield* Probe
    const fiber = yield* Effect.forkChild(outer.run("Go", { onEvent: ({ state }) => Ref.set(last, state) }))
    yield* Effect.yieldNow
    yield* Deferred.await(started)
    yield* Fiber.interrupt(fiber)
    assert.deepStrictEqual(yield* Probe.interrupted, ["h"])
    const state = yield* Ref.get(last)
    assert(state !== undefined)
    assert.strictEqual(state.outcome?._tag, "Interrupted")
    assert.deepStrictEqual(toolResults(state.conversation), ["interrupted"])
    yield* endsAs("Completed", outer.resume(yield* throughJson(state)))
    assert.deepStrictEqual(yield* Probe.ran, ["hold h"])
  })

  testGiven(
    scripts([{ toolCalls: [delegate("c1")], delay: "15 seconds" }], [{ toolCalls: [call("d1", "hold", { id: "h" })] }])
  )("AGENT-8 the child has no tool timeout of its own, and at most the remaining total time", function* () {
    const options = { timeouts: { total: "1 minute", tool: "50 seconds" } } as const
    const fiber = yield* Effect.forkChild(outer.run("Go", options))
    yield* TestClock.adjust("30 seconds")
    assert.isUndefined(fiber.pollUnsafe())
    yield* TestClock.adjust("30 seconds")
    const result = yield* endsAs("Interrupted", Fiber.join(fiber))
    assert.strictEqual(result.reason, "timeout")
    assert.deepStrictEqual(yield* Probe.interrupted, ["h"])
  })

  test("AGENT-8 a runtime receives that the call of an agent has no timeout, whatever the run's option", function* () {
    const told: Array<Duration.Duration> = []
    const runtime = ToolRuntime.layer({
      dispatch: (call, local) => {
        told.push(call.timeout)
        return local
      }
    })
    const run = outer.run("Go", { timeouts: { tool: "1 second" } })
    yield* Effect.provide(run, world(delegating([{ text: "found" }]), runtime))
    assert.deepStrictEqual(told, [Duration.infinity])
  })

  it.effect("AGENT-7 AGENT-8 the hook sees the child's events and can stop the whole run there", () =>
    Effect.gen(function* () {
      const stopped = yield* outer.run("Go", {
        interruptWhen: (event) =>
          event._tag === "ChildEvent" && event.event._tag === "ModelAnswered" ? { reason: "enough" } : undefined
      })
      assert(stopped.outcome === "Interrupted")
      assert.strictEqual(stopped.reason, "enough")
      assert.deepStrictEqual(yield* Probe.ran, [])
    }).pipe(inWorld(scripts([{ toolCalls: [delegate("c1")] }], [{ toolCalls: [call("d1", "echo", { text: "x" })] }])))
  )

  test("AGENT-7 AGENT-8 a child does nothing more until the hook of the outer run has returned, at any event", function* () {
    const done = Effect.gen(function* () {
      return [(yield* ScriptedModel.requests).length, (yield* Probe.ran).length]
    })
    let entries = Number.POSITIVE_INFINITY
    for (let held = 1; held <= entries; held++) {
      yield* Effect.gen(function* () {
        const services = yield* Effect.context<Probe | ScriptedModel.ScriptedModel>()
        let seen = 0
        let before: ReadonlyArray<number> = []
        const onEvent = () =>
          Effect.gen(function* () {
            if (++seen !== held) return
            before = yield* Effect.provideContext(done, services)
            return yield* Effect.never
          })
        const fiber = yield* Effect.forkChild(outer.run("Go", { onEvent }))
        for (let turn = 0; turn < 100; turn++) yield* Effect.yieldNow
        if (seen < held) entries = seen
        else assert.deepStrictEqual(yield* done, before, `held at event ${held}`)
        fiber.interruptUnsafe()
        yield* TestClock.adjust("1 minute")
      }).pipe(inWorld(delegating([{ toolCalls: [call("d1", "echo", { text: "x" })] }, { text: "found" }])))
    }
    assert.isAbove(entries, 10)
  })

  test("AGENT-8 an agent as a service is found in the context, and keeps the model its layer captured", function* () {
    class Researcher extends Agent.Service<Researcher>()("researcher", {}) {}
    class Writer extends Agent.Service<Writer>()("writer", {
      toolkit: [Agent.asTool(Researcher, { name: "research", description: "Finds facts" })]
    }) {}
    const research = Researcher.layer.pipe(Layer.provide(ScriptedModel.layer([{ text: "fact" }])))
    const writing = Writer.layer.pipe(
      Layer.provide(research),
      Layer.provide(
        ScriptedModel.layer([
          { toolCalls: [call("c1", "research", { input: "?" })] },
          { expect: { toolResult: "fact" }, text: "story" }
        ])
      )
    )
    const asked = Effect.flatMap(Writer, (writer) => writer.ask("Go"))
    assert.strictEqual(yield* Effect.provide(asked, writing), "story")
  })

  const consulted = scripts(
    [{ toolCalls: [call("c1", "consult", {})] }, { text: "done" }],
    [{ toolCalls: [call("d1", "delete", { path: "/" })] }]
  )
  testGiven(consulted)(
    "AGENT-8 a handler that runs an agent is no child: its approvals do not suspend the run",
    function* () {
      const consulting = Toolkit.make(Tool.make("consult", { success: Schema.String }))
      const asker = Agent.make("asker", { toolkit: consulting })
      const context = yield* Effect.context<Layer.Success<ReturnType<typeof world>>>()
      const advice = Effect.map(inner.run("x"), ({ outcome }) => outcome).pipe(Effect.provideContext(context))
      const handlers = consulting.toLayer({ consult: () => Effect.orDie(advice) })
      const events = yield* Effect.provide(Stream.runCollect(asker.stream("Go")), handlers)
      assert.deepStrictEqual(childEvents(events), [])
      const last = events.at(-1)
      assert(last?._tag === "RunFinished")
      assert.deepStrictEqual(toolResults(last.result.conversation), ["AwaitingApproval"])
    }
  )

  test("AGENT-8 the outer run's retry, defects and tool timeout hold for the child", holding, function* () {
    yield* endsAs("Completed", after("2 seconds", outer.run("Go", { timeouts: { tool: "1 second" } })))
    assert.deepStrictEqual(yield* Probe.interrupted, ["h"])
  })
})
