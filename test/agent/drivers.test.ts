import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Layer, Queue, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Workflow, WorkflowEngine } from "effect/workflow"
import { Agent, AgentEvent, Conversation, Message, Question, Run, ToolRuntime } from "effect-emissary"
import { Activities } from "effect-emissary/workflow"
import type { ScriptedModel } from "effect-emissary/testing"

import { call, Probe, throughJson, toolkit, inWorld, testGiven, world } from "./fixtures.ts"
import { endsAs } from "../outcomes.ts"
import { someRuns } from "../full.ts"
import { test } from "../test.ts"

/** The behaviour of a generated call. */
const Kind = Schema.Literals([
  "echo",
  "fail",
  "boom",
  "unknown",
  "bad arguments",
  "bad text",
  "delete",
  "delegate",
  "ask"
])

const Turn = Schema.Struct({
  text: Schema.Literals(["", "so", "done"]),
  reasoning: Schema.Boolean,
  calls: Schema.Array(Kind).check(Schema.isMaxLength(4)),
  sameId: Schema.Boolean,
  finishReason: Schema.Literals(["default", "missing", "stop", "pause", "length", "unknown"]),
  mistake: Schema.Boolean
})
type Turn = typeof Turn.Type

const Plan = Schema.Struct({
  turns: Schema.Array(Turn).check(Schema.isMaxLength(6)),
  inner: Schema.Array(Turn).check(Schema.isMaxLength(4)),
  users: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3 })),
  maxSteps: Schema.Literals([1, 2, 16]),
  approve: Schema.Boolean
})
type Plan = typeof Plan.Type

/** PEOPLE-1: the model asks, in each agent. */
const Ask = Question.tool("ask", { description: "Asks the user", answer: Schema.Struct({ word: Schema.String }) })

const inner = Agent.make("inner", { instructions: "Inner.", toolkit: [...Object.values(toolkit.tools), Ask] })
const agent = Agent.make("outer", {
  instructions: "Outer.",
  toolkit: [
    ...Object.values(toolkit.tools),
    Ask,
    Agent.asTool(inner, { name: "delegate", description: "Asks another agent" })
  ]
})

const callOf = (
  turn: Turn,
  at: string,
  kind: typeof Kind.Type,
  i: number
): NonNullable<ScriptedModel.Turn["toolCalls"]>[number] => {
  const id = turn.sameId ? "same" : `${at}_${i}`
  // Texts are unique, so that what ran twice shows
  const text = `${at} ${i}`
  switch (kind) {
    case "echo":
      return { id, name: "echo", params: { text } }
    case "fail":
      return { id, name: "fail", params: { reason: text } }
    case "boom":
      return { id, name: "boom", params: {} }
    case "unknown":
      return { id, name: "nobody", params: { text } }
    case "bad arguments":
      return { id, name: "echo", params: { text: 1 } }
    case "bad text":
      return { id, name: "echo", arguments: `{"text": "${text}` }
    case "delete":
      return { id, name: "delete", params: { path: text } }
    case "ask":
      return { id, name: "ask", params: { question: text } }
    case "delegate":
      return { id, name: "delegate", params: { input: text } }
  }
}

const scriptTurn = (turn: Turn, at: string): ScriptedModel.Turn => ({
  ...(turn.reasoning ? { reasoning: { text: "hm", metadata: { x: { signature: at } } } } : undefined),
  // An answer without any part is a failure
  text: turn.text === "" && turn.finishReason === "missing" ? "cut" : turn.text,
  toolCalls: turn.calls.map((kind, i) => callOf(turn, at, kind, i)),
  ...(turn.finishReason === "default" ? undefined : { finishReason: turn.finishReason }),
  usage: { inputTokens: 1, outputTokens: 2 }
})

/** The script of a plan: each run of an agent has its own turns, each mistake comes before its turn. */
const scriptOf = (plan: Plan): ScriptedModel.TurnFunction => {
  const positions = new Map<string, number>()
  const mistaken = new Set<string>()
  return ({ messages }) => {
    const isInner = messages[0]?.text.startsWith("Inner.") === true
    const who = isInner ? `inner of ${messages[1]?.text}` : "own"
    const i = positions.get(who) ?? 0
    const turn = (isInner ? plan.inner : plan.turns)[i]
    if (turn === undefined) return { text: "the end" }
    const at = `${who} ${i}`
    if (turn.mistake && !mistaken.has(at)) {
      mistaken.add(at)
      return { fail: { reason: "ToolNotFoundError", toolName: "ghost" } }
    }
    positions.set(who, i + 1)
    return scriptTurn(turn, at)
  }
}

type World = Layer.Success<ReturnType<typeof world>>
type Result = Effect.Success<ReturnType<typeof agent.run>>
type Options = Pick<Agent.Options, "maxSteps" | "decisions" | "interruptWhen" | "conversation">

/** One way to drive a run to a result. */
interface Driver {
  readonly start: (input: string, options: Options) => Effect.Effect<Result, unknown, World>
  readonly go: (state: Run.State, options: Options) => Effect.Effect<Result, unknown, World>
}

const running: Driver = { start: agent.run, go: agent.resume }

const streaming: Driver = {
  start: (input, options) => AgentEvent.result(agent.stream(input, options)),
  go: agent.resume
}

/** Stops between transitions, and resumes from JSON until nothing stops it any more. */
const stopping: Driver = {
  start: (input, options) =>
    Effect.flatMap(agent.run(input, { ...options, interruptWhen: betweenTransitions }), onwards(options)),
  go: (state, options) =>
    throughJson(state).pipe(
      Effect.flatMap((state) => agent.resume(state, { ...options, interruptWhen: betweenTransitions })),
      Effect.flatMap(onwards(options))
    )
}

const onwards =
  ({ maxSteps: _, decisions: __, ...options }: Options) =>
  (result: Result): Effect.Effect<Result, unknown, World> =>
    result.outcome === "Interrupted" ? stopping.go(result.state, options) : Effect.succeed(result)

/** After these events nothing is under way that a stop would cut off, whatever the runtime. */
const betweenTransitions = (event: Run.Event, state: Run.State) => {
  switch (event._tag) {
    case "RunStarted":
    case "InputAdded":
    case "ApprovalRequested":
      return { reason: "look" }
    case "ModelAnswered":
      // A run that stops at the limit reports it, and to resume it is a decision to exceed the limit
      return state.limited ? undefined : { reason: "look" }
    case "ToolFinished":
      return state.calls.every(({ status }) => status._tag !== "Started") ? { reason: "look" } : undefined
    default:
      return undefined
  }
}

const decide =
  ({ approve }: Plan) =>
  (request: Run.Request): Run.Decision => {
    if (!approve) return Run.deny(request, { reason: "my reason" })
    if (request._tag === "Question") return Run.answer(request, { word: `to ${request.arguments.question}` })
    assert(Run.isApprovable(request))
    return Run.approve(request, { reason: "my reason" })
  }

/** Drives a whole plan: several user messages, each approval decided. */
const play = (plan: Plan, driver: Driver) =>
  Effect.gen(function* () {
    const options = { maxSteps: plan.maxSteps }
    const outcomes: Array<string> = []
    let conversation: Conversation.Conversation | undefined
    let result: Result | undefined
    for (let user = 0; user < plan.users; user++) {
      result = yield* driver.start(`message ${user}`, { ...options, conversation })
      for (let i = 0; result.outcome === "AwaitingApproval" && i < 10; i++) {
        const decisions: ReadonlyArray<Run.Decision> = result.requests.map(decide(plan))
        result = yield* driver.go(result.state, { ...options, decisions })
      }
      outcomes.push(result.outcome)
      conversation = result.conversation
      if (result.outcome === "AwaitingApproval") break
    }
    const sealed = yield* Conversation.seal(conversation ?? Conversation.empty)
    return {
      outcomes,
      transcript: Conversation.transcript(sealed),
      ids: Conversation.messages(sealed).flatMap((message) =>
        message.role === "assistant" ? Message.toolCalls(message).map(({ id }) => id) : []
      ),
      ran: yield* Probe.ran,
      usage: result?.usage
    }
  })

const Played = Workflow.make("Played", { payload: {}, idempotencyKey: () => "played" })

/** Drives it as the body of a workflow, which runs again from its beginning after each decision. */
const playDurably: typeof play = (plan, driver) =>
  Effect.gen(function* () {
    const asked = yield* Queue.unbounded<Activities.Pending>()
    let played: Effect.Success<ReturnType<typeof play>> | undefined
    const body = play(plan, driver).pipe(
      Effect.map((found) => void (played = found)),
      Effect.provide(Activities.layer({ onApproval: (pending) => Queue.offer(asked, pending) })),
      Effect.orDie
    )
    // PEOPLE-1: an answer that does not fit is asked for again
    const refused = new Set<string>()
    const decideNext = Effect.flatMap(Queue.take(asked), ({ request, token }) => {
      const isWrong = plan.approve && request._tag === "Question" && !refused.has(request.digest)
      refused.add(request.digest)
      return Activities.decide(token, isWrong ? Run.answer(request, { word: 1 }) : decide(plan)(request))
    })
    const engine = Layer.provideMerge(
      Played.toLayer(() => body),
      WorkflowEngine.layerMemory
    )
    yield* Effect.raceFirst(Played.execute({}), Effect.forever(decideNext)).pipe(Effect.provide(engine))
    return played ?? (yield* Effect.die(new Error("the body did not end")))
  })

const drivers: ReadonlyArray<readonly [string, Driver, Layer.Layer<never>, typeof play?]> = [
  ["run inline", running, ToolRuntime.layerInline],
  ["run concurrent", running, ToolRuntime.layerConcurrent({ maxConcurrency: 2 })],
  ["stream inline", streaming, ToolRuntime.layerInline],
  ["stream concurrent", streaming, ToolRuntime.layerConcurrent()],
  ["JSON inline", stopping, ToolRuntime.layerInline],
  ["JSON concurrent", stopping, ToolRuntime.layerConcurrent()],
  ["durable inline", running, ToolRuntime.layerInline, playDurably],
  ["durable stream concurrent", streaming, ToolRuntime.layerConcurrent(), playDurably]
]

describe("L5 one loop, many drivers", () => {
  test.prop(
    "L5 AGENT-3 DUR-6 run, stream, a driver that writes JSON between transitions and a workflow return equal transcripts, no call runs twice",
    [Plan],
    function* ([plan]) {
      const played = yield* Effect.forEach(drivers, ([, driver, runtime, playAll = play]) =>
        playAll(plan, driver).pipe(inWorld(scriptOf(plan), runtime))
      )
      const [first] = played
      played.forEach((one, i) => {
        const name = drivers[i]?.[0]
        assert.deepStrictEqual(one.outcomes, first?.outcomes, name)
        assert.deepStrictEqual(one.transcript, first?.transcript, name)
        assert.deepStrictEqual(one.ids, first?.ids, name)
        assert.deepStrictEqual([...one.ran].sort(), [...(first?.ran ?? [])].sort(), name)
        const unique = one.ran.filter((what) => what !== "boom" && what !== "fail")
        assert.strictEqual(new Set(unique).size, unique.length, `${name}: ${unique.join()}`)
      })
    },
    { arbitrary: { runs: someRuns(100) } }
  )

  it.effect.prop(
    "AGENT-7 L6 a process that dies after any event: the run continues from the last state, no call runs twice",
    [Plan, Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 25 })), Schema.Boolean],
    ([plan, events, concurrent]) =>
      Effect.gen(function* () {
        let last: Run.State | undefined
        let seen = 0
        // After the last event that was written nothing happens any more
        const dying = agent.run("Go", {
          maxSteps: plan.maxSteps,
          onEvent: ({ state }) =>
            Effect.suspend(() => {
              if (seen++ >= events) return Effect.never
              last = state
              return seen === events ? Effect.never : Effect.void
            })
        })
        yield* Effect.forkDetach(dying, { startImmediately: true })
        for (let i = 0; i < 300; i++) yield* Effect.yieldNow
        if (last === undefined) return
        let result = yield* agent.resume(yield* throughJson(last))
        for (let i = 0; i < 5 && result.outcome !== "Completed"; i++) {
          const decisions: Options["decisions"] =
            result.outcome === "AwaitingApproval" ? result.requests.map(decide(plan)) : []
          result = yield* agent.resume(yield* throughJson(result.state), { decisions })
        }
        assert.include(["Completed", "Stopped", "MaxSteps", "AwaitingApproval"], result.outcome)
        const ran = (yield* Probe.ran).filter((what) => what !== "boom" && what !== "fail")
        assert.strictEqual(new Set(ran).size, ran.length, ran.join())
      }).pipe(inWorld(scriptOf(plan), concurrent ? ToolRuntime.layerConcurrent() : ToolRuntime.layerInline)),
    { arbitrary: { runs: someRuns(200) } }
  )

  test("AGENT-2 AGENT-7 a hook that stops at the first event loses no input", world([{ text: "hi" }]), function* () {
    const stopped = yield* agent.run("Go", {
      interruptWhen: (event) => (event._tag === "RunStarted" ? { reason: "wait" } : undefined)
    })
    assert.strictEqual(stopped.outcome, "Interrupted")
    const again = yield* agent.resume(yield* throughJson(stopped.state), {
      input: "And",
      interruptWhen: (event) => (event._tag === "RunResumed" ? {} : undefined)
    })
    assert.strictEqual(again.outcome, "Interrupted")
    const result = yield* endsAs("Completed", agent.resume(again.state))
    assert.deepStrictEqual(
      Conversation.messages(result.conversation).map((message) => Message.text(message)),
      ["Outer.", "Go", "And", "hi"]
    )
  })

  test("SOUND-1 AGENT-2 interrupting a run before its first step cuts off its hook", world([]), function* () {
    const tags: Array<string> = []
    const fiber = yield* Effect.forkChild(
      agent.run("Go", {
        onEvent: ({ event }) => {
          tags.push(event._tag)
          return event._tag === "InputAdded" ? Effect.never : Effect.void
        }
      }),
      { startImmediately: true }
    )
    yield* Fiber.interrupt(fiber)
    assert.deepStrictEqual(tags, ["RunStarted", "InputAdded"])
  })

  const slow = world([{ text: "slow", delay: "5 seconds" }])
  test("SOUND-1 AGENT-2 an interruption while a timeout is recorded ends the run once", slow, function* () {
    const tags: Array<string> = []
    const fiber = yield* Effect.forkChild(
      agent.run("Go", {
        timeouts: { total: "1 second" },
        onEvent: ({ event }) => {
          tags.push(event._tag)
          return event._tag === "RunInterrupted" ? Effect.never : Effect.void
        }
      })
    )
    yield* TestClock.adjust("1500 millis")
    yield* Fiber.interrupt(fiber)
    const exit = yield* Fiber.await(fiber)
    assert(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
    assert.deepStrictEqual(tags.slice(-2), ["StepStarted", "RunInterrupted"])
  })

  for (const runtime of [ToolRuntime.layerInline, ToolRuntime.layerConcurrent()]) {
    testGiven([{ toolCalls: Array.from({ length: 40 }, (_, i) => call(`c${i}`, "echo", { text: `${i}` })) }], runtime)(
      "AGENT-5 leaving a stream early ends a run that waits for its reader",
      function* () {
        const events = yield* agent.stream("Go").pipe(
          // Long enough for the run to fill what lies between it and the reader
          Stream.tap(() => Effect.forEach(Array.from({ length: 50 }), () => Effect.yieldNow)),
          Stream.take(5),
          Stream.runCollect
        )
        assert.lengthOf(events, 5)
      }
    )
  }
})
