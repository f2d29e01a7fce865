/** Reports of users of other libraries about approvals, questions and limits, each with the same program here. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Budget, Question, Run, RunContext, VersionedStore } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import { endsAs, failsFor } from "../outcomes.ts"
import { test } from "../test.ts"
import { call, throughJson } from "./fixtures.ts"

const Pay = Tool.make("pay", {
  parameters: Schema.Struct({ amount: Schema.Int }),
  success: Schema.String,
  needsApproval: true
})
const Note = Tool.make("note", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
const toolkit = Toolkit.make(Pay, Note)

/** The calls that ran, each with the context of its run. */
const desk = () => {
  const ran: Array<string> = []
  const work = (text: string) =>
    Effect.map(RunContext.RunContext, ({ tenant = "nobody" }) => {
      ran.push(`${text} for ${String(tenant)}`)
      return text
    })
  return {
    ran,
    layer: toolkit.toLayer({ pay: ({ amount }) => work(`paid ${amount}`), note: ({ text }) => work(text) })
  }
}

/** The parts of a list, whose parentheses are one part with the word before. */
const partsOf = (text: string): ReadonlyArray<string> => {
  const parts: Array<string> = []
  let [depth, part] = [0, ""]
  for (const sign of `${text},`) {
    depth += sign === "(" ? 1 : sign === ")" ? -1 : 0
    if (sign !== "," || depth > 0) part += sign
    else [part] = ["", parts.push(part)]
  }
  return parts
}

/** Each agent works off the calls in its input: `ask(pay 1),pay 2`. */
const calls: ScriptedModel.TurnFunction = ({ messages }) => {
  const text = messages.findLast(({ role }) => role === "user")?.text ?? ""
  if (messages.at(-1)?.role === "tool") return { text: `did ${text}` }
  const callOf = (part: string, index: number) => {
    const [, name = "", inner = ""] = /^(\w+)\((.*)\)$/.exec(part) ?? []
    if (name !== "") return call(`c${index}`, name, { input: inner })
    return part.startsWith("pay")
      ? call(`c${index}`, "pay", { amount: Number(part.slice(4)) })
      : call(`c${index}`, "note", { text: part })
  }
  return { toolCalls: partsOf(text).map(callOf) }
}

const clerk = Agent.make("assistant", { instructions: "A clerk.", toolkit })

const another = Agent.make("assistant", { instructions: "Another clerk.", toolkit })

const ask = { name: "ask", description: "Asks a clerk" }

const boss = Agent.make("assistant", {
  instructions: "A boss.",
  toolkit: [...Object.values(toolkit.tools), Agent.asTool(clerk, ask), Agent.asTool(another, { ...ask, name: "other" })]
})

const owner = Agent.make("assistant", {
  instructions: "An owner.",
  toolkit: [Agent.asTool(boss, { ...ask, name: "boss" })]
})

const world = () => {
  const { layer, ran } = desk()
  return { ran, layer: Layer.merge(layer, ScriptedModel.layer(calls)) }
}

const approvals = (requests: ReadonlyArray<Run.Request>) => requests.filter(Run.isApprovable).map(Run.approve)

describe("approvals inside agents that are tools", () => {
  test("openai-agents-python 2487 the run inside continues from the stored state, and asks once", function* () {
    const { layer, ran } = world()
    yield* Effect.gen(function* () {
      const waiting = yield* endsAs("AwaitingApproval", boss.run("ask(pay 1)"))
      const state = yield* throughJson(waiting.state)
      const ended = yield* endsAs("Completed", boss.resume(state, { decisions: approvals(waiting.requests) }))
      assert.strictEqual(ended.text, "did ask(pay 1)")
      assert.deepStrictEqual(ran, ["paid 1 for nobody"])
      // Two requests of each agent: none of them began again
      assert.strictEqual((yield* ScriptedModel.requests).length, 4)
    }).pipe(Effect.provide(layer))
  })

  test("openai-agents-python 4244 an approval counts where the run has a context, and the tool reads the context", function* () {
    const { layer, ran } = world()
    yield* Effect.gen(function* () {
      const context = { tenant: "acme" }
      for (const input of ["pay 1", "ask(pay 2)"]) {
        const waiting = yield* endsAs("AwaitingApproval", boss.run(input, { context }))
        const state = yield* throughJson(waiting.state)
        yield* endsAs("Completed", boss.resume(state, { context, decisions: approvals(waiting.requests) }))
      }
      const waiting = yield* endsAs("AwaitingApproval", boss.run("pay 3", { context }))
      const decisions = approvals(waiting.requests)
      yield* endsAs("Completed", boss.resume(waiting.state, { decisions }))
    }).pipe(Effect.provide(layer))
    assert.deepStrictEqual(ran, ["paid 1 for acme", "paid 2 for acme", "paid 3 for acme"])
  })

  for (const [graph, agent, input] of [
    ["an agent inside with the name of the agent around it", boss, "ask(pay 1)"],
    ["the second of two agents with one name", boss, "other(pay 1)"],
    ["both agents at the same time", boss, "ask(pay 1),other(pay 2)"],
    ["three agents deep", owner, "boss(other(pay 1))"]
  ] as const)
    test(`openai-agents-python 5141 a decision reaches its call after JSON: ${graph}`, function* () {
      const { layer, ran } = world()
      yield* Effect.gen(function* () {
        const waiting = yield* endsAs("AwaitingApproval", agent.run(input))
        const state = yield* throughJson(waiting.state)
        yield* endsAs("Completed", agent.resume(state, { decisions: approvals(waiting.requests) }))
        assert.deepStrictEqual(ran.length, waiting.requests.length)
      }).pipe(Effect.provide(layer))
    })

  it.live(
    "vercel/ai 15167 a call three agents deep asks with its own name and arguments, in a session that is opened again",
    () =>
      Effect.gen(function* () {
        const { layer, ran } = world()
        const store = Layer.succeedContext(yield* Layer.build(VersionedStore.layerMemory))
        const sessions = Layer.fresh(Session.layer([owner]).pipe(Layer.provide([store, layer])))
        yield* Effect.provide(Session.turn("s", "boss(ask(pay 7),note)"), sessions)
        const ended = Effect.gen(function* () {
          const { requests } = Option.getOrThrow(yield* Session.state("s"))
          assert.deepStrictEqual(pluck(requests, "name"), ["pay"])
          assert.deepStrictEqual(pluck(requests, "arguments"), [{ amount: 7 }])
          return yield* Session.await("s", yield* Session.decide("s", approvals(requests)))
        })
        assert.strictEqual((yield* Effect.provide(ended, sessions)).outcome, "Completed")
        assert.deepStrictEqual(ran.toSorted(), ["note for nobody", "paid 7 for nobody"])
      }).pipe(Effect.scoped, Effect.timeout("20 seconds"))
  )

  test("mastra 18041, 20322 one agent is asked twice at once: approvals come one by one, the last request first", function* () {
    const { layer, ran } = world()
    yield* Effect.gen(function* () {
      let result: Agent.Result<unknown> = yield* boss.run("ask(pay 1),ask(pay 2),ask(pay 3)")
      for (let left = 3; left > 0; left--) {
        assert(result.outcome === "AwaitingApproval" && result.requests.length === left)
        const last = approvals(result.requests).slice(-1)
        result = yield* boss.resume(yield* throughJson(result.state), { decisions: last })
      }
      assert.strictEqual(result.outcome, "Completed")
    }).pipe(Effect.provide(layer))
    assert.deepStrictEqual(ran, ["paid 3 for nobody", "paid 2 for nobody", "paid 1 for nobody"])
  })

  test("mastra 19377 an approval of a call that does not wait runs nothing", function* () {
    const { layer, ran } = world()
    yield* Effect.gen(function* () {
      const waiting = yield* endsAs("AwaitingApproval", boss.run("pay 1,note"))
      const request = waiting.requests.find(Run.isApprovable)
      assert(request !== undefined)
      const before = [...ran]
      const decisions = [Run.approve({ ...request, callId: "c1" })]
      const error = yield* failsFor("InvalidDecision", boss.resume(waiting.state, { decisions }))
      assert.strictEqual(error.reason.problem, "unknown")
      assert.deepStrictEqual(ran, before)
    }).pipe(Effect.provide(layer))
  })
})

describe("decisions and answers", () => {
  const Transfer = Tool.make("transfer", {
    parameters: Schema.Struct({ amount: Schema.Int }),
    success: Schema.String,
    failure: Question.Asked,
    needsApproval: true
  })
  const bank = Agent.make("bank", { toolkit: Toolkit.make(Transfer) })
  const handlers = Toolkit.make(Transfer).toLayer({
    transfer: ({ amount }) =>
      Effect.map(
        Question.ask("From which account?", Schema.Struct({ account: Schema.String })),
        ({ account }) => `${amount} from ${account}`
      )
  })
  const script: ScriptedModel.Script = [
    { toolCalls: [call("t", "transfer", { amount: 5 })] },
    { text: "Done.", expect: { toolResult: "5 from savings" } }
  ]
  const decide = (request: Run.Request): Run.Decision =>
    request._tag === "Question"
      ? Run.answer(request, { account: "savings" })
      : (approvals([request])[0] ?? Run.deny(request))

  test("mastra 24561 what a person adds to an approval reaches the tool, in a run", function* () {
    yield* Effect.gen(function* () {
      let result = yield* bank.run("Go")
      for (const tag of ["Approval", "Question"] as const) {
        assert(result.outcome === "AwaitingApproval")
        assert.deepStrictEqual(pluck(result.requests, "_tag"), [tag])
        result = yield* bank.resume(yield* throughJson(result.state), { decisions: result.requests.map(decide) })
      }
      assert.strictEqual(result.text, "Done.")
    }).pipe(Effect.provide(Layer.merge(handlers, ScriptedModel.layer(script))))
  })

  it.live("mastra 24561 and in a session", () =>
    Effect.gen(function* () {
      yield* Session.turn("s", "Go")
      let text = ""
      for (let count = 0; count < 2; count++) {
        const { requests } = Option.getOrThrow(yield* Session.state("s"))
        ;({ text } = yield* Session.await("s", yield* Session.decide("s", requests.map(decide))))
      }
      assert.strictEqual(text, "Done.")
    }).pipe(
      Effect.provide(
        Session.layer([bank]).pipe(Layer.provide([VersionedStore.layerMemory, handlers, ScriptedModel.layer(script)]))
      ),
      Effect.timeout("20 seconds")
    )
  )

  test("mastra 24561 and in a step of a plan", function* () {
    const asksTwice = Step.make("ask", {
      target: ({ decision, task }) =>
        decision === undefined
          ? Step.pause("May it go on?")
          : Effect.map(
              Question.ask("Which account?", Schema.Struct({ account: Schema.String })),
              ({ account }) => `${task} ${account}`
            )
    })
    const bound = yield* Plan.bind(yield* Plan.make("plan", [asksTwice]))
    let result = yield* Plan.run(bound, "5 from")
    const tags: Array<string> = []
    while (result.outcome === "Paused" && tags.length < 4) {
      tags.push(...result.requests.map(({ _tag }) => _tag))
      const decisions = result.requests.map((request) =>
        request._tag === "Pause" ? Run.approve(request) : decide(request)
      )
      result = yield* Plan.resume(bound, result.state, { decisions })
    }
    assert(result.outcome === "Completed")
    assert.deepStrictEqual([tags, result.output], [["Pause", "Question"], "5 from savings"])
  })

  test("pydantic-ai 7624 an answer does not approve a call, and an approval does not answer a question", function* () {
    yield* Effect.gen(function* () {
      const waiting = yield* endsAs("AwaitingApproval", bank.run("Go"))
      const [approval] = waiting.requests
      assert(approval?._tag === "Approval")
      const answer = { ...Run.approve(approval), answer: { account: "savings" } }
      const first = yield* failsFor("InvalidDecision", bank.resume(waiting.state, { decisions: [answer] }))
      assert.strictEqual(first.reason.problem, "answer")
      const asked = yield* endsAs(
        "AwaitingApproval",
        bank.resume(waiting.state, { decisions: [Run.approve(approval)] })
      )
      const [question] = asked.requests
      assert(question?._tag === "Question")
      const approved = { ...Run.deny(question), approved: true }
      const second = yield* failsFor("InvalidDecision", bank.resume(asked.state, { decisions: [approved] }))
      assert.strictEqual(second.reason.problem, "answer")
    }).pipe(Effect.provide(Layer.merge(handlers, ScriptedModel.layer(script))))
  })

  test("pydantic-ai 3350 a history that ends with a call without approval is no approval", function* () {
    const { layer, ran } = world()
    yield* Effect.gen(function* () {
      const waiting = yield* endsAs("AwaitingApproval", boss.run("pay 1"))
      const again = yield* endsAs("AwaitingApproval", boss.resume(yield* throughJson(waiting.state)))
      assert.deepStrictEqual(again.requests, waiting.requests)
      const { state } = yield* endsAs("AwaitingApproval", boss.resume(again.state, { input: "note" }))
      const { requests } = yield* endsAs("AwaitingApproval", boss.resume(state))
      assert.deepStrictEqual(requests, waiting.requests)
    }).pipe(Effect.provide(layer))
    assert.deepStrictEqual(ran, [])
  })

  test("pydantic-ai 2978 of parallel calls only as many start as the budget has left", function* () {
    const { layer, ran } = world()
    yield* Effect.gen(function* () {
      const input = ["a", "b", "c", "d", "e", "f", "g", "h"].map((name) => `note ${name}`).join()
      const stopped = yield* endsAs("BudgetExceeded", boss.run(input, { budget: { toolCalls: 6 } }))
      assert.deepStrictEqual([ran.length, stopped.unit, stopped.used], [6, "toolCalls", 6])
      assert.deepStrictEqual(pluck(Budget.left(stopped.state), "left"), [{ toolCalls: 0 }])
      yield* endsAs("Completed", boss.resume(stopped.state, { budget: { toolCalls: 2 } }))
      assert.strictEqual(new Set(ran).size, 8)
    }).pipe(Effect.provide(layer))
  })
})
