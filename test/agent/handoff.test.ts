import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Result, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import {
  Agent,
  AgentDefinition,
  ContextWindow,
  Conversation,
  Guard,
  ModelRegistry,
  Run,
  ToolResolver
} from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

const lookup = Tool.make("lookup", { success: Schema.String, parameters: Schema.Struct({ id: Schema.String }) })
const refund = Tool.make("refund", { success: Schema.String, parameters: Schema.Struct({}), needsApproval: true })
const toolkit = Toolkit.make(lookup, refund)
const handlers = toolkit.toLayer({
  lookup: ({ id }) => Effect.succeed(`found ${id}`),
  refund: () => Effect.succeed("refunded")
})

const toTriage = Agent.handoff("triage", { description: "For everything but invoices" })

const billing = Agent.make("billing", { instructions: "You settle invoices.", toolkit: [lookup, toTriage] })

const reason = Schema.Struct({ invoice: Schema.String })

const makeTriage = (history?: Agent.HandoffHistory) =>
  Agent.make("triage", {
    instructions: "Pass each customer on.",
    toolkit: [lookup, refund, Agent.handoff(billing, { description: "For questions about invoices", reason, history })]
  })

const triage = makeTriage()

const transfer = { id: "t1", name: "transfer_to_billing", params: { invoice: "R-7" } }

const run = (script: Parameters<typeof ScriptedModel.layer>[0]) =>
  Effect.provide(Layer.merge(ScriptedModel.layer(script), handlers))

const text = (message: { readonly content: unknown }): string =>
  typeof message.content === "string" ? message.content : JSON.stringify(message.content)

const systems = Effect.map(ScriptedModel.requests, (requests) =>
  requests.map(({ prompt }) => prompt.content.filter(({ role }) => role === "system").map(text))
)

const rolesOf = (request: { readonly prompt: { readonly content: ReadonlyArray<{ readonly role: string }> } }) =>
  request.prompt.content.map(({ role }) => role).join(" ")

const results = (state: Run.State) =>
  Conversation.messages(state.conversation).flatMap((message) =>
    message.role === "tool"
      ? [`${message.callId} ${message.result._tag === "Success" ? message.result.value : message.result.message}`]
      : []
  )

describe("MONEY-7: handoffs", () => {
  it.effect("MONEY-7: the other agent answers with its instructions and tools, and so it does the next message", () =>
    Effect.gen(function* () {
      const first = yield* triage.run("Is invoice R-7 paid?")
      assert.strictEqual(first.text, "R-7 is paid.")
      assert.strictEqual(first.activeAgent, "billing")
      assert.strictEqual(first.steps, 2)
      const state = yield* Effect.flatMap(Run.stateCodec.encode(first.state), (wire) => Run.stateCodec.decode(wire))
      const next = yield* triage.resume(state, { input: "Thanks" })
      assert.strictEqual(next.activeAgent, "billing")
      assert.deepStrictEqual(yield* systems, [
        ["Pass each customer on."],
        ["You settle invoices."],
        ["You settle invoices."]
      ])
      const requests = yield* ScriptedModel.requests
      assert.deepStrictEqual(
        requests.map(({ tools }) => tools.map(({ name }) => name).join(" ")),
        ["lookup refund transfer_to_billing", "lookup transfer_to_triage", "lookup transfer_to_triage"]
      )
    }).pipe(run([{ toolCalls: [transfer] }, { text: "R-7 is paid." }, { text: "Bye." }]))
  )

  it.effect("MONEY-7: other calls of the answer run first, and of two handoffs the first one counts", () =>
    Effect.gen(function* () {
      const { activeAgent, state } = yield* triage.run("Help")
      assert.strictEqual(activeAgent, "billing")
      assert.deepStrictEqual(results(state), [
        't1 "billing" answers from here on.',
        't2 The first handoff of an answer counts, which was to "billing".',
        "l1 found 7"
      ])
      const [, second] = yield* ScriptedModel.requests
      assert.strictEqual(second && rolesOf(second), "system user assistant tool")
    }).pipe(
      run([
        { toolCalls: [transfer, { ...transfer, id: "t2" }, { id: "l1", name: "lookup", params: { id: "7" } }] },
        { text: "Done." }
      ])
    )
  )

  it.effect("MONEY-7: a handoff waits for the decision about another call of the answer", () =>
    Effect.gen(function* () {
      const asked = yield* triage.run("Help")
      assert(asked.outcome === "AwaitingApproval")
      assert.strictEqual(asked.activeAgent, "triage")
      const wire = yield* Run.stateCodec.encode(asked.state)
      const state = yield* Run.stateCodec.decode(wire)
      const done = yield* triage.resume(state, { decisions: Run.approveAll(asked.requests) })
      assert.strictEqual(done.activeAgent, "billing")
      assert.deepStrictEqual(results(done.state), ["r1 refunded", 't1 "billing" answers from here on.'])
      assert.deepStrictEqual(yield* systems, [["Pass each customer on."], ["You settle invoices."]])
    }).pipe(run([{ toolCalls: [{ id: "r1", name: "refund", params: {} }, transfer] }, { text: "Done." }]))
  )

  it.effect("MONEY-7: the filter is data: the newest turns, without calls of tools but the calls of the handoff", () =>
    Effect.gen(function* () {
      const agent = makeTriage({ turns: 2, toolCalls: false })
      const first = yield* agent.run("One")
      const second = yield* agent.resume(first.state, { input: "Two" })
      const third = yield* agent.resume(second.state, { input: "Three" })
      assert.strictEqual(third.activeAgent, "billing")
      const request = (yield* ScriptedModel.requests).at(-1)
      assert(request !== undefined)
      assert.strictEqual(rolesOf(request), "system user assistant user assistant tool")
      const all = JSON.stringify(request.prompt.content)
      assert.isFalse(all.includes("One") || all.includes("found 2"))
      assert.isTrue(all.includes("Two") && all.includes("Three") && all.includes("R-7"))
      // The whole conversation stays
      assert.isTrue(JSON.stringify(Conversation.transcript(third.conversation)).includes("found 2"))
    }).pipe(
      run([
        { text: "1" },
        { toolCalls: [{ name: "lookup", params: { id: "2" } }] },
        { text: "2" },
        { toolCalls: [transfer] },
        { text: "3" }
      ])
    )
  )

  it.effect("MONEY-7: agents that pass the conversation back and forth end with the steps of the run", () =>
    Effect.gen(function* () {
      const result = yield* triage.run("Help", { maxSteps: 5 })
      assert.strictEqual(result.outcome, "MaxSteps")
      assert.strictEqual(result.activeAgent, "triage")
      assert.deepStrictEqual(yield* systems, [
        ["Pass each customer on."],
        ["You settle invoices."],
        ["Pass each customer on."],
        ["You settle invoices."],
        ["Pass each customer on."]
      ])
    }).pipe(
      run(({ prompt }) => {
        const name = text(prompt.content[0] ?? { content: "" }).startsWith("Pass") ? "billing" : "triage"
        return { toolCalls: [{ name: `transfer_to_${name}`, params: name === "billing" ? transfer.params : {} }] }
      })
    )
  )

  it.effect("MONEY-7 L6: a run that is cut after any of its events continues as if it had not been", () =>
    Effect.gen(function* () {
      const log: Array<Run.Event> = []
      const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void log.push(event))
      const whole = yield* triage.run("Is invoice R-7 paid?", { onEvent })
      assert.deepStrictEqual(
        log.map(({ _tag }) => _tag),
        [
          "RunStarted",
          "InputAdded",
          "StepStarted",
          "ModelAnswered",
          "ToolStarted",
          "ToolFinished",
          "ToolStarted",
          "ToolFinished",
          "HandedOff",
          "StepStarted",
          "ModelAnswered",
          "RunFinished"
        ]
      )
      for (let cut = 2; cut < log.length; cut++) {
        const state = Result.getOrThrow(Run.fold(log.slice(0, cut)))
        const again = yield* triage.resume(state)
        assert.strictEqual(again.activeAgent, "billing", `cut ${cut}`)
        // Its call of a tool that is not idempotent is lost with the process
        if (cut !== 5) {
          assert.deepStrictEqual(
            Conversation.transcript(again.conversation),
            Conversation.transcript(whole.conversation),
            `cut ${cut}`
          )
        }
      }
    }).pipe(
      run(({ prompt }) =>
        text(prompt.content[0] ?? { content: "" }).startsWith("Pass")
          ? { toolCalls: [{ id: "l1", name: "lookup", params: { id: "7" } }, transfer] }
          : { text: "R-7 is paid." }
      )
    )
  )

  it.effect(
    "MONEY-7: a definition without the agent that has the conversation is refused, or the first agent has it",
    () =>
      Effect.gen(function* () {
        const first = yield* triage.run("Is invoice R-7 paid?")
        const today = Agent.make("triage", { instructions: "We are closed.", toolkit: [lookup] })
        const error = yield* Effect.flip(today.resume(first.state, { input: "Hello?" }))
        assert.include(error.message, "/handoffs/billing was the agent that has the conversation, now nothing")
        const back = yield* today.resume(first.state, { input: "Hello?", onChange: "accept" })
        assert.strictEqual(back.activeAgent, "triage")
        assert.strictEqual(back.text, "Come back.")
        assert.deepStrictEqual((yield* systems).at(-1), ["We are closed."])
      }).pipe(run([{ toolCalls: [transfer] }, { text: "R-7 is paid." }, { text: "Come back." }]))
  )

  it.effect(
    "MONEY-7 L3: a definition has its handoffs, an agent made of it makes them, and version 1 names the loss",
    () =>
      Effect.gen(function* () {
        const withoutTools = Agent.make("billing", { instructions: "Bill.", toolkit: [toTriage] })
        const local = Agent.make("triage", {
          instructions: "Pass.",
          toolkit: [Agent.handoff(withoutTools, { reason, history: { turns: 1, toolCalls: false } })]
        })
        const wire = yield* Agent.encode(local)
        assert.deepStrictEqual((wire as { tools: ReadonlyArray<{ handoff: unknown }> }).tools[0]?.handoff, {
          agent: "billing",
          turns: 1,
          tool_calls: false
        })
        const named = Agent.make("triage", { model: "a/b", toolkit: [Agent.handoff(withoutTools)] })
        const lost = yield* Effect.flip(Agent.encode(named, { version: 1 }))
        assert.include(lost.message, "/tools/0/handoff")
        const rebuilt = yield* Agent.decode(wire)
        assert.deepStrictEqual(yield* Agent.encode(rebuilt), wire)
        const result = yield* rebuilt.run("Is R-7 paid?")
        assert.strictEqual(result.activeAgent, "triage")
        assert.strictEqual(result.text, "Hello.")
        assert.deepStrictEqual(yield* systems, [["Pass."], ["Bill."], ["Pass."]])
        const was = yield* Agent.definition(local)
        const [tool] = was.tools
        const now = yield* AgentDefinition.make({
          ...was,
          tools: tool ? [{ ...tool, handoff: { agent: "billing" } }] : []
        })
        assert.deepStrictEqual(
          AgentDefinition.diff(was, now).map(({ breaking, path }) => [path, breaking]),
          [["/tools/transfer_to_billing/handoff", false]]
        )
        assert.notStrictEqual(yield* AgentDefinition.digest(was), yield* AgentDefinition.digest(now))
      }).pipe(
        Effect.provide(
          Layer.mergeAll(ModelRegistry.layerContext, ToolResolver.layerStubs()).pipe(
            Layer.provideMerge(
              ScriptedModel.layer([
                { toolCalls: [transfer] },
                { toolCalls: [{ name: "transfer_to_triage", params: {} }] },
                { text: "Hello." }
              ])
            )
          )
        )
      )
  )

  it.effect("MONEY-7: agents that do not fit are refused by name", () =>
    Effect.gen(function* () {
      const invalid = (agent: { readonly name: string }) =>
        Effect.map(
          Effect.flip(Agent.make("triage", { toolkit: [Agent.handoff(agent as typeof billing)] }).run("Help")),
          ({ message }) => message
        )
      const typed = Agent.make("typed", { output: reason })
      assert.include(yield* invalid(typed), "/tools/0/agent/output: expected the output of the agent")
      assert.include(yield* invalid(Agent.make("triage")), "/tools/0/agent/name: expected a name that no other agent")
      class Other extends Context.Service<Other, Agent.Agent<unknown>>()("other") {}
      const late = Agent.make("late", { toolkit: [Agent.handoff(Other, { name: "transfer_to_nobody" })] })
      class Typed extends Agent.Service<Typed>()("typed", { output: reason }) {}
      const unfit = yield* Effect.flip(late.run("Help")).pipe(
        Effect.provideServiceEffect(Other, Typed),
        Effect.provide(Typed.layer)
      )
      assert.include(unfit.message, 'Handoff to "other": expected the output of "late", got another output')
      const wire = yield* Agent.encode(Agent.make("first", { toolkit: [Agent.handoff(Agent.make("second"))] }))
      const renamed = JSON.parse(
        JSON.stringify(wire).replace('"handoff":{"agent":"second"', '"handoff":{"agent":"third"')
      )
      const refused = yield* Effect.flip(AgentDefinition.codec.decode(renamed))
      assert.include(refused.message, '/tools/0/handoff/agent: expected the name of the agent of the handoff, "second"')
      const none = Agent.make("none", { toolkit: [Agent.handoff(billing, { history: { turns: 0 } })] })
      const noTurns = yield* Effect.flip(none.run("Help"))
      assert.include(noTurns.message, "/tools/0/handoff: expected whole turns from 1 on")
      const lost = Agent.make("lost", { toolkit: [Agent.handoff("nobody")] })
      const error = yield* Effect.flip(lost.run("Help"))
      assert.include(error.message, 'Handoff to "nobody": expected the name of an agent of this run ("lost")')
    }).pipe(run(() => ({ toolCalls: [{ name: "transfer_to_nobody", params: {} }] })))
  )

  it.effect("MONEY-7: guards of the host decide about the other agent, and guards of the agent before do not", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const watch = (name: string) =>
        Guard.make(name, {
          on: "afterModel",
          check: ({ text }) => Effect.sync(() => (seen.push(`${name} ${text}`), Guard.pass))
        })
      const other = Agent.make("other", { guards: [watch("of other")] })
      const first = Agent.make("first", { guards: [watch("of first")], toolkit: [Agent.handoff(other)] })
      const options = { guards: [watch("of host")] }
      const result = yield* first.run("Help", options)
      assert.strictEqual(result.text, "Hello.")
      assert.deepStrictEqual(seen, ["of first Wait.", "of host Wait.", "of other Hello.", "of host Hello."])
      const limited = yield* first.run("Help", { budget: { modelCalls: 1 } })
      assert.strictEqual(limited.outcome, "BudgetExceeded")
      assert.strictEqual(limited.activeAgent, "other")
    }).pipe(
      run([
        { text: "Wait.", toolCalls: [{ name: "transfer_to_other", params: {} }] },
        { text: "Hello." },
        { toolCalls: [{ name: "transfer_to_other", params: {} }] }
      ])
    )
  )

  it.effect("MONEY-7: an edit of a message before the handoff undoes the handoff, and a later edit does not", () =>
    Effect.gen(function* () {
      const first = yield* makeTriage({ toolCalls: false }).run("One")
      const second = yield* makeTriage({ toolCalls: false }).resume(first.state, { input: "Two" })
      const users = Conversation.messages(second.conversation).filter(({ role }) => role === "user")
      const rewind = (id: string | undefined) =>
        Result.getOrThrow(
          Run.apply(second.state, { _tag: "ConversationRewound", at: second.state.updatedAt, messageId: id ?? "" })
        )
      assert.strictEqual(Run.activeAgent(rewind(users[1]?.id)), "billing")
      assert.strictEqual(Run.activeAgent(rewind(users[0]?.id)), "triage")
      const agent = makeTriage({ toolCalls: false })
      yield* agent.resume(rewind(users[1]?.id), { input: "Two again" })
      yield* agent.resume(rewind(users[0]?.id), { input: "One again" })
      assert.deepStrictEqual((yield* systems).slice(-2), [["You settle invoices."], ["Pass each customer on."]])
    }).pipe(run([{ toolCalls: [transfer] }, { text: "1" }, { text: "2" }, { text: "2" }, { text: "1" }]))
  )

  it.effect("MONEY-7: an edit of a message that the view has lost leaves the agent with its filter", () =>
    Effect.gen(function* () {
      const small = Agent.make("billing", {
        instructions: "You settle invoices.",
        contextWindow: ContextWindow.truncate({ above: 60 })
      })
      const first = Agent.make("triage", {
        instructions: "Pass each customer on.",
        toolkit: [lookup, Agent.handoff(small, { history: { toolCalls: false } })]
      })
      let result = yield* first.run("One")
      for (const input of ["Two", "long ".repeat(60), "Four"]) result = yield* first.resume(result.state, { input })
      assert.strictEqual(result.activeAgent, "billing")
      const users = Conversation.messages(result.conversation).filter(({ role }) => role === "user")
      const messageId = users[2]?.id ?? ""
      assert.isFalse(Conversation.messages(result.state.view ?? Conversation.empty).some(({ id }) => id === messageId))
      const at = result.state.updatedAt
      const rewound = Result.getOrThrow(Run.apply(result.state, { _tag: "ConversationRewound", at, messageId }))
      yield* first.resume(rewound, { input: "Three" })
      const request = (yield* ScriptedModel.requests).at(-1)
      assert.deepStrictEqual((yield* systems).at(-1), ["You settle invoices."])
      assert.isFalse(JSON.stringify(request?.prompt.content).includes("found 1"))
    }).pipe(
      run([
        { toolCalls: [{ name: "lookup", params: { id: "1" } }] },
        { text: "1" },
        { toolCalls: [{ name: "transfer_to_billing", params: {} }] },
        { text: "2" },
        { text: "3" },
        { text: "4" },
        { text: "3" }
      ])
    )
  )

  it.effect("MONEY-7: an agent of a layer answers with its own model, and its budget holds for its next message", () =>
    Effect.gen(function* () {
      class Billing extends Agent.Service<Billing>()("billing", { toolkit: [lookup], budget: { modelCalls: 1 } }) {}
      const own = ScriptedModel.layer([
        { text: "R-7 is paid." },
        { toolCalls: [{ name: "lookup", params: { id: "7" } }] }
      ])
      const first = Agent.make("first", { toolkit: [Agent.handoff(Billing)] })
      const program = Effect.gen(function* () {
        const passed = yield* first.run("Help")
        assert.strictEqual(passed.text, "R-7 is paid.")
        const next = yield* first.resume(passed.state, { input: "More" })
        assert.strictEqual(next.outcome, "BudgetExceeded")
      })
      yield* Effect.provide(program, Billing.layer.pipe(Layer.provide([own, handlers])))
    }).pipe(run([{ toolCalls: [{ name: "transfer_to_billing", params: {} }] }]))
  )

  it.effect("MONEY-7: an agent of a layer has the services of its layer, and its failure to begin loses nothing", () =>
    Effect.gen(function* () {
      let isReady = false
      const Note = Tool.make("note", { success: Schema.String })
      const notes = Toolkit.make(Note)
      class Billing extends Agent.Service<Billing>()("billing", {
        instructions: Effect.suspend(() => (isReady ? Effect.succeed("Bill.") : Effect.fail("not ready"))),
        toolkit: notes
      }) {}
      const first = Agent.make("first", { toolkit: [Agent.handoff(Billing)] })
      const events: Array<string> = []
      const layer = Billing.layer.pipe(Layer.provide(notes.toLayer({ note: () => Effect.succeed("noted") })))
      const program = Effect.gen(function* () {
        const error = yield* Effect.flip(first.run("Help"))
        assert.strictEqual(error.reason._tag, "PreparationFailed")
        assert(error.state !== undefined)
        isReady = true
        return yield* first.resumeStream(error.state).pipe(
          Stream.tap((event) =>
            Effect.sync(() => {
              if (event._tag === "HandedOff") events.push(`${event.from} to ${event.to}`)
            })
          ),
          Stream.runLast
        )
      })
      yield* Effect.provide(program, layer)
      assert.deepStrictEqual(events, ["first to billing"])
      const last = (yield* ScriptedModel.requests).at(-1)
      assert.isTrue(JSON.stringify(last?.prompt.content).includes("noted"))
    }).pipe(
      run([
        { toolCalls: [{ name: "transfer_to_billing", params: {} }] },
        { toolCalls: [{ name: "note", params: {} }] },
        { text: "Noted." }
      ])
    )
  )
})
