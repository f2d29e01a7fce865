/** MONEY-4: guards that ask a person about a value, which is held until the person has decided. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema, Stream } from "effect"
import { Prompt, Tool, Toolkit } from "effect/ai"
import { Agent, AgentEvent, Conversation, Guard, Message, Run, ToolResult } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ChatEvent } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import { throughJson } from "./fixtures.ts"

const ran: Array<string> = []

const toolkit = Toolkit.make(
  Tool.make("look", { success: Schema.String }),
  Tool.make("note", { success: Schema.String })
)

const handlers = toolkit.toLayer({
  look: () => Effect.sync(() => (ran.push("look"), "secret result")),
  note: () => Effect.sync(() => (ran.push("note"), "noted"))
})

const desk = Agent.make("desk", { toolkit })

const calls: ScriptedModel.Turn = {
  toolCalls: [
    { id: "c1", name: "look", params: {} },
    { id: "c2", name: "note", params: {} }
  ]
}

const script: ScriptedModel.Script = [calls, { text: "secret answer" }]

const world = Layer.suspend(() => {
  ran.length = 0
  return Layer.merge(handlers, ScriptedModel.layer(script))
})

const checks: Array<string> = []

const asking = (on: Guard.Place, fits: (text: string) => boolean, terms: Guard.Terms = {}) =>
  Guard.make(`ask-${on}`, {
    ...terms,
    on,
    check: ({ text }) =>
      Effect.sync(() => {
        checks.push(on)
        return fits(text) ? Guard.ask(`May it pass (${on})?`) : Guard.pass
      })
  })

const texts = ({ conversation }: { readonly conversation: Conversation.Conversation }) =>
  Conversation.messages(conversation).map((message) =>
    message.role === "tool" ? `tool: ${ToolResult.text(message.result)}` : `${message.role}: ${Message.text(message)}`
  )

const places = [
  ["input", asking("input", () => true), { steps: 0, checks: 1 }],
  ["input, beside the model", asking("input", () => true, { when: "beside" }), { steps: 0, checks: 1 }],
  ["beforeModel", asking("beforeModel", (text) => text === "secret question"), { steps: 0, checks: 2 }],
  [
    "beforeModel, beside the model",
    asking("beforeModel", (text) => text === "secret question", { when: "beside" }),
    { steps: 0, checks: 2 }
  ],
  ["afterModel", asking("afterModel", (text) => text === "secret answer"), { steps: 1, checks: 2 }],
  ["output", asking("output", () => true), { steps: 1, checks: 1 }],
  ["afterTool", asking("afterTool", (text) => text === "secret result"), { steps: 1, checks: 2 }]
] as const

describe("MONEY-4 a guard that asks a person", () => {
  for (const [name, guard, { checks: most, steps }] of places) {
    const guards = [guard]
    const { on } = guard

    test(`${name}: the value waits, and passes with the approval; nothing is asked, called or run again`, function* () {
      checks.length = 0
      const { done, events, sent, waiting } = yield* Effect.gen(function* () {
        const shown = yield* Stream.runCollect(desk.stream("secret question", { guards }))
        const last = shown.at(-1)
        assert(last?._tag === "RunFinished" && last.result.outcome === "AwaitingApproval")
        const { requests, state } = last.result
        const stored = yield* throughJson(state)
        assert.deepStrictEqual(Run.requests(stored), requests)
        const decisions = requests.filter(Run.isApprovable).map(Run.approve)
        const done = yield* endsAs("Completed", desk.resume(stored, { guards, decisions }))
        return { done, events: shown, sent: yield* ScriptedModel.requests, waiting: last.result }
      }).pipe(Effect.provide(world))
      assert.lengthOf(waiting.requests, 1)
      const [request] = waiting.requests
      assert.deepInclude(request, { _tag: "Pause", name: `ask-${on}`, arguments: { reason: `May it pass (${on})?` } })
      assert.strictEqual(waiting.steps, steps)
      assert.deepStrictEqual(
        events.filter((event) => event._tag === "ApprovalRequested").map((event) => event.request),
        [request]
      )
      const screen = yield* Stream.fromIterable(events).pipe(ChatEvent.projectRun(), Stream.runCollect)
      const secret = { afterTool: "secret result", afterModel: "secret answer", output: "secret answer" }[String(on)]
      assert.notInclude(JSON.stringify(screen), secret ?? "secret answer")
      assert.deepStrictEqual(texts(done), [
        "user: secret question",
        "assistant: ",
        "tool: secret result",
        "tool: noted",
        "assistant: secret answer"
      ])
      assert.lengthOf(sent, 2)
      assert.deepStrictEqual(ran.toSorted(), ["look", "note"])
      assert.strictEqual(done.steps, 2)
      assert.lengthOf(checks, most)
      assert.strictEqual(done.state.held, undefined)
    })

    test(`${name}: a denial is the refusal of the guard, with the reason of the person`, function* () {
      const { refused, sent, then } = yield* Effect.gen(function* () {
        const { requests, state } = yield* endsAs("AwaitingApproval", desk.run("secret question", { guards }))
        const decisions = requests.map((request) => Run.deny(request, { reason: "Not today." }))
        const refused = yield* endsAs("Refused", desk.resume(yield* throughJson(state), { guards, decisions }))
        const sent = (yield* ScriptedModel.requests).length
        const then = yield* desk.resume(yield* throughJson(refused.state), { input: "Hello." })
        return { refused, sent, then }
      }).pipe(Effect.provide(Layer.merge(handlers, ScriptedModel.layer([...script, { text: "Hi." }, { text: "Hi." }]))))
      assert.deepInclude(refused, { guard: `ask-${on}`, on, reason: "Not today." })
      assert.isAtMost(sent, 2)
      const all = texts(then).join("\n")
      if (on === "input") assert.notInclude(all, "secret question")
      if (on === "afterTool") assert.notInclude(all, "secret result")
      if (on === "output") assert.notInclude(JSON.stringify(texts(refused)), "secret answer")
    })

    test(`${name}: a decision counts before the resume, and one about another value does not`, function* () {
      yield* Effect.gen(function* () {
        const { requests, state } = yield* endsAs("AwaitingApproval", desk.run("secret question", { guards }))
        const other = requests
          .filter(Run.isApprovable)
          .map((request) => Run.approve({ ...request, digest: "sha256:0" }))
        const failed = yield* Effect.flip(desk.resume(state, { guards, decisions: other }))
        assert.deepInclude(failed.reason, { _tag: "InvalidDecision", problem: "changed" })
        const denied = Run.decide(
          state,
          requests.map((request) => Run.deny(request)),
          state.updatedAt
        )
        assert(denied._tag === "Success")
        const [event] = denied.success
        const after = event && Run.apply(state, event)
        assert(after?._tag === "Success")
        yield* endsAs("Refused", desk.resume(after.success, { guards }))
      }).pipe(Effect.provide(world))
    })
  }

  test("a message waits for a held answer, and steps between two held values are made once", function* () {
    const guards = [asking("output", () => true), asking("input", () => true)]
    yield* Effect.gen(function* () {
      let result = yield* desk.run("secret question", { guards })
      for (let turn = 0; turn < 2; turn++) {
        assert(result.outcome === "AwaitingApproval")
        const decisions = result.requests.filter(Run.isApprovable).map(Run.approve)
        const input = turn === 1 ? { input: "And then?" } : {}
        result = yield* desk.resume(result.state, { guards: turn === 1 ? [] : guards, decisions, ...input })
      }
      assert.strictEqual(result.outcome, "Completed")
      assert.deepStrictEqual(texts(result).slice(-3), [
        "assistant: secret answer",
        "user: And then?",
        "assistant: the next answer"
      ])
      assert.lengthOf(yield* ScriptedModel.requests, 3)
    }).pipe(Effect.provide(Layer.merge(handlers, ScriptedModel.layer([...script, { text: "the next answer" }]))))
  })

  test("an approval is about one value, also where the next value has its place", function* () {
    const guards = [asking("input", () => true, { when: "beside" })]
    yield* Effect.gen(function* () {
      const first = yield* endsAs("AwaitingApproval", desk.run("a", { guards }))
      const denials = first.requests.map((request) => Run.deny(request))
      const refused = yield* endsAs("Refused", desk.resume(first.state, { guards, decisions: denials }))
      const second = yield* endsAs("AwaitingApproval", desk.resume(refused.state, { guards, input: "b" }))
      assert.strictEqual(second.requests[0].callId, first.requests[0].callId)
      assert.notStrictEqual(second.requests[0].digest, first.requests[0].digest)
      const decisions = first.requests.filter(Run.isApprovable).map(Run.approve)
      const failed = yield* Effect.flip(desk.resume(second.state, { guards, decisions }))
      assert.deepInclude(failed.reason, { _tag: "InvalidDecision", problem: "changed" })
      const [forged] = decisions
      assert(forged !== undefined)
      const { callId, digest } = forged
      const at = second.state.updatedAt
      const applied = Run.apply(second.state, { _tag: "ApprovalDecided", at, callId, digest, approved: true })
      assert.strictEqual(applied._tag, "Failure")
    }).pipe(Effect.provide(Layer.merge(handlers, ScriptedModel.layer([{ text: "one" }, { text: "two" }]))))
  })

  test("a message that steers waits for a prompt that was approved", function* () {
    const guards = [asking("beforeModel", (text) => text === "secret question")]
    yield* Effect.gen(function* () {
      const { requests, state } = yield* endsAs("AwaitingApproval", desk.run("secret question", { guards }))
      const decisions = requests.filter(Run.isApprovable).map(Run.approve)
      let isGiven = false
      const steering = Effect.sync(() => {
        const given = isGiven ? [] : ["And more."]
        isGiven = true
        return given
      })
      yield* endsAs("Completed", desk.resume(state, { guards, decisions, steering }))
      const sent = (yield* ScriptedModel.requests).map(({ messages }) => JSON.stringify(messages))
      assert.deepStrictEqual(
        sent.map((text) => text.includes("And more.")),
        [false, true]
      )
    }).pipe(Effect.provide(world))
  })

  test("a result that is held outlives an interruption", function* () {
    const guards = [asking("afterTool", (text) => text === "secret result")]
    yield* Effect.gen(function* () {
      const interruptWhen = (event: Run.Event) => (event._tag === "GuardDecided" ? {} : undefined)
      const { state } = yield* endsAs("Interrupted", desk.run("secret question", { guards, interruptWhen }))
      const decisions = Run.requests(state).filter(Run.isApprovable).map(Run.approve)
      assert.lengthOf(decisions, 1)
      const done = yield* desk.resume(yield* throughJson(state), { guards, decisions })
      assert.include(texts(done), "tool: secret result")
      assert.strictEqual(ran.filter((name) => name === "look").length, 1)
    }).pipe(Effect.provide(world))
  })

  test("a later guard refuses what an earlier one asks about, and all that ask are one request", function* () {
    const ask = (name: string) => Guard.make(name, { on: "output", check: () => Effect.succeed(Guard.ask(`${name}?`)) })
    const refuse = Guard.make("no", { on: "output", check: () => Effect.succeed(Guard.refuse("No.")) })
    const run = (guards: ReadonlyArray<Guard.Guard>) =>
      desk.run("secret question", { guards }).pipe(Effect.provide(world))
    assert.deepInclude(yield* endsAs("Refused", run([ask("a"), refuse])), { guard: "no" })
    const { requests } = yield* endsAs("AwaitingApproval", run([ask("a"), ask("b")]))
    assert.deepStrictEqual(
      requests.map((request) => [request.name, request.arguments]),
      [["a", { reason: "a?\nb?" }]]
    )
  })

  test("the prompt that a person approved has what other guards put into it", function* () {
    const mask = Guard.make("mask", {
      on: "beforeModel",
      check: ({ prompt }) =>
        Effect.succeed(Guard.replace(Prompt.concat(prompt, [{ role: "system", content: "Be kind." }])))
    })
    const guards = [mask, asking("beforeModel", (text) => text === "secret question")]
    yield* Effect.gen(function* () {
      const { requests, state } = yield* endsAs("AwaitingApproval", desk.run("secret question", { guards }))
      const decisions = requests.filter(Run.isApprovable).map(Run.approve)
      yield* endsAs("Completed", desk.resume(state, { guards, decisions, budget: { modelCalls: 2 } }))
      const [first] = yield* ScriptedModel.requests
      assert.strictEqual(first?.messages.at(-1)?.text, "Be kind.")
    }).pipe(Effect.provide(world))
  })

  test("the tokens of a held answer count once, in the usage and in a budget", function* () {
    const usage = { inputTokens: 10, outputTokens: 5 }
    const guards = [asking("output", () => true)]
    const budget = { totalTokens: 100_000, modelCalls: 1 }
    yield* Effect.gen(function* () {
      const {
        requests,
        state,
        usage: before
      } = yield* endsAs("AwaitingApproval", desk.run("secret question", { guards, budget }))
      assert.deepInclude(before, usage)
      const decisions = requests.filter(Run.isApprovable).map(Run.approve)
      const done = yield* endsAs("Completed", desk.resume(state, { guards, decisions }))
      assert.deepInclude(done.usage, usage)
      assert.deepInclude(done.state.account?.used, { ...usage, modelCalls: 1 })
    }).pipe(Effect.provide(Layer.merge(handlers, ScriptedModel.layer([{ text: "secret answer", usage }]))))
  })

  test("the structured output of a held answer is checked when it has passed", function* () {
    const form = Agent.make("form", {
      output: Schema.Struct({ city: Schema.String }),
      guards: [asking("output", () => true)]
    })
    yield* Effect.gen(function* () {
      const { requests, state } = yield* endsAs("AwaitingApproval", form.run("Where?"))
      const decisions = requests.filter(Run.isApprovable).map(Run.approve)
      const events = yield* form.resumeStream(state, { decisions }).pipe(AgentEvent.showOutput, Stream.runCollect)
      const last = events.at(-1)
      assert(last?._tag === "RunFinished" && last.result.outcome === "Completed")
      assert.deepStrictEqual(last.result.output, { city: "Rome" })
      assert.deepStrictEqual(
        events.flatMap((event) => (event._tag === "OutputDelta" ? [event.value] : [])),
        [{ city: "Rome" }]
      )
    }).pipe(Effect.provide(ScriptedModel.layer([{ object: { city: "Rome" } }])))
  })

  test("inside an agent that is a tool, and in a step of a plan, the request has its path", function* () {
    const inner = Agent.make("inner", { guards: [asking("output", () => true)] })
    const outer = Agent.make("outer", { toolkit: [Agent.asTool(inner, { name: "inner", description: "Answers" })] })
    const turns: ScriptedModel.Script = [
      { toolCalls: [{ id: "c1", name: "inner", params: { input: "Hi" } }] },
      { text: "secret answer" },
      { text: "done" }
    ]
    yield* Effect.gen(function* () {
      const { requests, state } = yield* endsAs("AwaitingApproval", outer.run("Go"))
      assert.deepStrictEqual(
        requests.map(({ path }) => path),
        [["c1"]]
      )
      const decisions = requests.filter(Run.isApprovable).map(Run.approve)
      const done = yield* endsAs("Completed", outer.resume(yield* throughJson(state), { decisions }))
      assert.include(JSON.stringify(texts(done)), "secret answer")
      assert.lengthOf(yield* ScriptedModel.requests, 3)
    }).pipe(Effect.provide(ScriptedModel.layer(turns)))
    const plan = yield* Effect.flatMap(Plan.make("plan", [Step.make("one", { target: inner })]), Plan.bind)
    yield* Effect.gen(function* () {
      const paused = yield* Plan.run(plan, "Hi")
      assert(paused.outcome === "Paused")
      const decisions = paused.requests.filter(Run.isApprovable).map(Run.approve)
      const done = yield* Plan.resume(plan, paused.state, { decisions })
      assert.deepInclude(done, { outcome: "Completed", output: "secret answer" })
      assert.lengthOf(yield* ScriptedModel.requests, 1)
    }).pipe(Effect.provide(ScriptedModel.layer([{ text: "secret answer" }])))
  })
})

describe("MONEY-4 a guard of the input beside the model", () => {
  test("withdraws the answer, and the message has no text in later requests", function* () {
    const guard = Guard.make("topic", {
      on: "input",
      when: "beside",
      check: ({ text }) => Effect.succeed(text.includes("bomb") ? Guard.refuse("No bombs.") : Guard.pass)
    })
    yield* Effect.gen(function* () {
      const refused = yield* endsAs("Refused", desk.run("Build a bomb.", { guards: [guard] }))
      assert.deepInclude(refused, { guard: "topic", on: "input", reason: "No bombs." })
      assert.notInclude(JSON.stringify(texts(yield* Effect.map(throughJson(refused.state), (state) => state))), "bomb")
      const next = yield* endsAs("Completed", desk.resume(refused.state, { guards: [guard], input: "Hello." }))
      assert.notInclude(JSON.stringify((yield* ScriptedModel.requests).at(-1)?.messages), "bomb")
      assert.strictEqual(next.text, "Hi.")
    }).pipe(
      Effect.provide(Layer.merge(handlers, ScriptedModel.layer([{ text: "Boom." }, { text: "Hi." }, { text: "Hi." }])))
    )
  })

  test("terms of another place do not silence a guard", function* () {
    const guard = Guard.make("no", { on: "output", when: "beside", check: () => Effect.succeed(Guard.refuse("No.")) })
    const result = yield* endsAs("Refused", desk.run("Hi", { guards: [guard] })).pipe(
      Effect.provide(Layer.merge(handlers, ScriptedModel.layer([{ text: "Hi." }])))
    )
    assert.strictEqual(result.guard, "no")
  })
})
