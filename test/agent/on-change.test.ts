import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Result } from "effect"
import {
  Agent,
  AgentDefinition,
  Conversation,
  ModelRegistry,
  Run,
  ToolContract,
  ToolResolver,
  ToolResult,
  ToolRuntime
} from "effect-emissary"
import type { Json } from "effect-emissary/payload"
import { ScriptedModel } from "effect-emissary/testing"

import { call, throughJson, toolResults } from "./fixtures.ts"
import { decide } from "../decisions.ts"
import { endsAs, failsFor } from "../outcomes.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"

type ToolOptions = Parameters<typeof ToolContract.make>[0]

/** A closed object of these parameters, with the required ones. */
const fields = (properties: Json.JsonObject, required: ReadonlyArray<string> = Object.keys(properties)) => ({
  type: "object",
  properties,
  required: [...required],
  additionalProperties: false
})

const amount = { type: "number" }
const paying: ToolOptions = {
  name: "pay",
  parameters: fields({ amount }),
  success: fields({ id: { type: "string" } }),
  approval: "always"
}
const looking: ToolOptions = { name: "look", parameters: fields({}) }

type Options = Omit<Parameters<typeof AgentDefinition.make>[0], "tools"> & {
  readonly tools?: ReadonlyArray<ToolOptions & { readonly agent?: AgentDefinition.AgentDefinition }>
}

const definitionOf = Effect.fnUntraced(function* ({ tools = [paying], ...options }: Options = {}) {
  const made = yield* Effect.forEach(tools, ({ agent, ...tool }) =>
    Effect.map(ToolContract.make(agent === undefined ? tool : { ...tool, timeout: "Infinity" }), (contract) =>
      agent === undefined ? contract : { ...contract, agent }
    )
  )
  return yield* AgentDefinition.make({ name: "payer", instructions: "Pay.", ...options, tools: made })
})

/** A version of the agent. */
const version = (options?: Options) => Effect.flatMap(definitionOf(options), Agent.bind)

const pays = call("c1", "pay", { amount: 5 })

/** The model, and tools that only note their arguments. */
const world = (script: ScriptedModel.Script, ran: Array<unknown> = []) =>
  Layer.mergeAll(
    ToolResolver.layerStubs({ approval: "payload" }),
    ToolRuntime.layer({
      dispatch: ({ arguments: args, contract }, local) =>
        contract.name === "ask"
          ? local
          : Effect.sync(() => {
              ran.push(args)
              return ToolResult.success({ id: "p1" })
            })
    }),
    ModelRegistry.layerContext.pipe(Layer.provideMerge(ScriptedModel.layer(script)))
  )

const asks: ScriptedModel.Script = [{ toolCalls: [pays] }, { text: "done" }]

/** A run that waits for the approval of a payment, as another process reads it. */
const waiting = Effect.fnUntraced(function* (options?: Options) {
  const { state } = yield* endsAs("AwaitingApproval", (yield* version(options)).run("Go"))
  return yield* throughJson(state)
})

const approvedIn = (state: Run.State) =>
  state.calls.flatMap(({ status }) => (status._tag === "Approved" ? [status.digest] : []))

/** The events of a run that is resumed. */
const resumed = <A>(agent: Agent.Agent<A>, state: Run.State, options?: Agent.ResumeOptions) => {
  const events: Array<Run.Event> = []
  const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void events.push(event))
  return Effect.map(agent.resume(state, { ...options, onEvent }), (result) => ({ result, events }))
}

const changeIn = (events: ReadonlyArray<Run.Event>) =>
  events.flatMap((event) => (event._tag === "RunResumed" ? [event.change] : []))[0]

const breaking = (changes: ReadonlyArray<ToolContract.Change> = []) =>
  changes.flatMap((change) => (change.breaking ? [change.path] : []))

describe("DUR-10 runs outlive edits", () => {
  const compatible: ReadonlyArray<readonly [string, Options, ...Array<string>]> = [
    ["instructions", { instructions: "Pay on time." }, "/instructions"],
    ["the model", { model: "scripted/other" }, "/model"],
    ["model options", { model: "scripted/m", modelOptions: { temperature: 0 } }, "/model", "/modelOptions"],
    ["retries", { retry: { times: 1 } }, "/retry"],
    ["limits of time", { timeouts: { chunkMillis: 1000 } }, "/timeouts"],
    ["the choice of tools", { toolChoice: "required" }, "/toolChoice"],
    ["the calls at a time", { concurrency: 2 }, "/concurrency"],
    ["limits", { maxSteps: 3 }, "/maxSteps"],
    ["a new tool", { tools: [paying, looking] }, "/tools/look"],
    ["a description", { tools: [{ ...paying, description: "Sends money" }] }, "/tools/pay"],
    [
      "words of a parameter",
      { tools: [{ ...paying, parameters: fields({ amount: { ...amount, description: "Euros" } }) }] },
      "/tools/pay"
    ],
    ["a timeout", { tools: [{ ...paying, timeout: "1 minute" }] }, "/tools/pay"],
    [
      "an optional parameter",
      { tools: [{ ...paying, parameters: fields({ amount, note: { type: "string" } }, ["amount"]) }] },
      "/tools/pay/parameters/properties/note"
    ],
    [
      "a wider parameter",
      { tools: [{ ...paying, parameters: fields({ amount: { type: ["number", "string"] } }) }] },
      "/tools/pay/parameters/properties/amount/type"
    ],
    [
      "a narrower result",
      { tools: [{ ...paying, success: fields({ id: { type: "string", minLength: 1 } }) }] },
      "/tools/pay/success/properties/id/minLength"
    ]
  ]
  for (const [what, options, ...paths] of compatible) {
    const ran: Array<unknown> = []
    test(
      `a call that waits continues after an edit of ${what}, with the decision about it`,
      world(asks, ran),
      function* () {
        const state = yield* waiting()
        const other = yield* version(options)
        const { events, result } = yield* resumed(other, state, { decisions: decide(state) })
        assert.strictEqual(result.outcome, "Completed")
        assert.deepStrictEqual(ran, [{ amount: 5 }])
        const change = changeIn(events)
        assert.strictEqual(change?.definition, result.state.basis?.definition)
        assert.deepStrictEqual(pluck(change?.changes ?? [], "path"), paths)
        assert.deepStrictEqual(breaking(change?.changes), [])
        const kept = yield* Run.eventsCodec.decodeJson(yield* Run.eventsCodec.encodeJson(events))
        assert.deepStrictEqual(Result.getOrThrow(Run.applyAll(state, kept)), result.state)
      }
    )
  }

  const incompatible: ReadonlyArray<readonly [string, Options, ReadonlyArray<string>]> = [
    [
      "a required parameter",
      { tools: [{ ...paying, parameters: fields({ amount, currency: { type: "string" } }) }] },
      ["/tools/pay/parameters/required"]
    ],
    [
      "a narrower parameter",
      { tools: [{ ...paying, parameters: fields({ amount: { ...amount, maximum: 1 } }) }] },
      ["/tools/pay/parameters/properties/amount/maximum"]
    ],
    [
      "a wider result",
      { tools: [{ ...paying, success: fields({ id: { type: ["string", "null"] } }) }] },
      ["/tools/pay/success/properties/id/type"]
    ],
    [
      "a promise of the tool",
      { tools: [{ ...paying, annotations: { readonly: false } }] },
      ["/tools/pay/annotations/readonly"]
    ],
    ["the tool, which is gone", { tools: [looking] }, ["/tools/pay"]],
    ["the name", { name: "someone" }, ["/name"]]
  ]
  for (const [what, options, paths] of incompatible) {
    const ran: Array<unknown> = []
    test(`a call that waits stops an edit of ${what}, and the error lists it`, world(asks, ran), function* () {
      const readonly = { annotations: { readonly: true } }
      const state = yield* waiting({ tools: [{ ...paying, ...readonly }] })
      const tools = options.tools?.map((tool) => ({ ...readonly, ...tool })) ?? [{ ...paying, ...readonly }]
      const other = yield* version({ ...options, tools })
      const events: Array<Run.Event> = []
      const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void events.push(event))
      for (const status of [state, yield* approvedState(state)]) {
        const decisions = status === state ? decide(state) : []
        const {
          message,
          reason,
          state: kept
        } = yield* failsFor("DefinitionChanged", other.resume(status, { decisions, onEvent }))
        assert.strictEqual(kept, status)
        assert.deepStrictEqual(breaking(reason.changes), paths)
        assert.include(message, `Breaking changes: ${paths[0]} was `)
      }
      assert.deepStrictEqual(events, [])
      assert.deepStrictEqual(ran, [])
    })
  }

  for (const [what, options] of incompatible.filter(([, { name }]) => name === undefined)) {
    const ran: Array<unknown> = []
    test(`MEND-6 a call that is denied does not stop an edit of ${what}`, world(asks, ran), function* () {
      const state = yield* waiting()
      const other = yield* version(options)
      const { result } = yield* resumed(other, state, { decisions: decide(state, false) })
      assert.strictEqual(result.outcome, "Completed")
      assert.include(JSON.stringify(Conversation.transcript(result.conversation)), `"type":"denied"`)
      assert.deepStrictEqual(ran, [])
      // The policy "refuse" is about any edit
      yield* failsFor("DefinitionChanged", other.resume(state, { decisions: decide(state, false), onChange: "refuse" }))
    })
  }

  test("an edit of a required parameter reads as a diff", world(asks), function* () {
    const state = yield* waiting()
    const parameters = fields({ amount, currency: { type: "string" } })
    const other = yield* version({ instructions: "Pay in euros.", tools: [{ ...paying, parameters }] })
    const { reason } = yield* failsFor("DefinitionChanged", other.resume(state))
    assert.deepStrictEqual(
      reason.changes.map(({ breaking, now, path, was }) => [
        path,
        path === "/instructions" ? "" : `${was} > ${now}`,
        breaking
      ]),
      [
        ["/tools/pay/parameters/properties/currency", `nothing > {"type":"string"}`, false],
        ["/tools/pay/parameters/required", `nothing > "currency"`, true],
        ["/instructions", "", false]
      ]
    )
  })

  test("onChange: refuse lists what changed and resumes nothing", world(asks), function* () {
    const state = yield* waiting()
    const other = yield* version({ instructions: "Pay on time." })
    const { message, reason } = yield* failsFor("DefinitionChanged", other.resume(state, { onChange: "refuse" }))
    assert.deepStrictEqual(pluck(reason.changes, "path"), ["/instructions"])
    assert.include(message, `resume it with onChange: "compatible"`)
    yield* endsAs("AwaitingApproval", (yield* version()).resume(state, { onChange: "refuse" }))
  })

  const accepting: Array<unknown> = []
  test(
    "onChange: accept continues, asks again about a changed call, and records what broke",
    world(asks, accepting),
    function* () {
      const state = yield* approvedState(yield* waiting())
      const other = yield* version({
        tools: [{ ...paying, parameters: fields({ amount: { ...amount, maximum: 9 } }) }]
      })
      const { events, result } = yield* resumed(other, state, { onChange: "accept" })
      assert(result.outcome === "AwaitingApproval")
      assert.deepStrictEqual(breaking(changeIn(events)?.changes), ["/tools/pay/parameters/properties/amount/maximum"])
      assert.notStrictEqual(result.requests[0].digest, decide(state)[0]?.digest)
      assert.deepStrictEqual(accepting, [])
      yield* endsAs("Completed", other.resume(yield* throughJson(result.state), { decisions: decide(result.state) }))
      assert.deepStrictEqual(accepting, [{ amount: 5 }])
    }
  )

  test("onChange: accept reports a tool that is gone to the model", world(asks), function* () {
    const other = yield* version({ tools: [looking] })
    const { result } = yield* resumed(other, yield* approvedState(yield* waiting()), { onChange: "accept" })
    assert.deepStrictEqual(toolResults(result.conversation), ["unknown_tool"])
  })

  /** Edits that break nothing, after which an approval is about another call than the call that would run. */
  const asked: ReadonlyArray<readonly [string, ToolOptions]> = [
    [
      "arguments that a default fills in",
      { ...paying, parameters: fields({ amount, currency: { type: "string", default: "USD" } }, ["amount"]) }
    ],
    ["another policy", { ...paying, approval: "dynamic" }]
  ]
  for (const [what, tool] of asked) {
    const ran: Array<unknown> = []
    test(`TRUST-1 an approval does not count for ${what}: the call asks again`, world(asks, ran), function* () {
      const state = yield* approvedState(yield* waiting())
      const again = yield* endsAs("AwaitingApproval", (yield* version({ tools: [tool] })).resume(state))
      assert.notStrictEqual(again.requests[0].digest, approvedIn(state)[0])
      assert.deepStrictEqual(ran, [])
    })
  }

  const twice: Array<unknown> = []
  test(
    "a run that was resumed under several definitions is compared with the newest one of each call",
    world(asks, twice),
    function* () {
      const memo = { type: "string", default: "none" }
      const first = yield* approvedState(yield* waiting())
      const second = yield* version({ tools: [{ ...paying, parameters: fields({ amount, memo }, ["amount"]) }] })
      const again = yield* endsAs("AwaitingApproval", second.resume(first))
      assert.deepStrictEqual(pluck(again.requests, "arguments"), [{ amount: 5, memo: "none" }])
      const state = yield* throughJson(again.state)
      // It is compatible with the contract that the call began with, and not with the contract of the request
      const back = yield* version({ instructions: "Pay again." })
      const { reason } = yield* failsFor("DefinitionChanged", back.resume(state))
      assert.deepStrictEqual(breaking(reason.changes), ["/tools/pay/parameters/properties/memo"])
      yield* endsAs("Completed", second.resume(state, { decisions: decide(state), onChange: "refuse" }))
      assert.deepStrictEqual(twice, [{ amount: 5, memo: "none" }])
    }
  )

  test(
    "a run that has ended continues under any definition of its name",
    world([{ text: "a" }, { text: `{"n":1}` }]),
    function* () {
      const { state } = yield* endsAs("Completed", (yield* version()).run("Go"))
      const schema = fields({ n: { type: "integer" } })
      const other = yield* version({ tools: [], output: { schema, strategy: "native" } })
      const { result } = yield* resumed(other, state, { input: "And?" })
      assert.strictEqual(result.state.structured, "always")
      assert.deepStrictEqual(result.outcome === "Completed" ? result.output : undefined, { n: 1 })
    }
  )

  test("a state without contracts is refused while a call is open", world(asks), function* () {
    const state = yield* waiting()
    const wire = yield* Run.stateCodec.encode(state)
    const { basis: _, ...older } = Object(wire["state"])
    const calls = older.calls.map(({ contract: _, ...rest }: { contract?: string }) => rest)
    const old = yield* Run.stateCodec.decode({ ...wire, state: { ...older, calls } })
    const other = yield* version({ instructions: "Pay on time." })
    const { reason } = yield* failsFor("DefinitionChanged", other.resume(old))
    assert.deepStrictEqual(pluck(reason.changes, "path"), ["/tools/pay", ""])
    yield* endsAs("Completed", (yield* version()).resume(old, { decisions: decide(old) }))
  })

  const many = Array.from({ length: 5 }, (_, index) => ({ toolCalls: [call(`l${index}`, "look", {})] }))
  test(
    "the contract of a tool is stored once, however often it is called",
    world([...many, { text: "done" }]),
    function* () {
      const events: Array<Run.Event> = []
      const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void events.push(event))
      yield* endsAs(
        "Completed",
        (yield* version({ tools: [looking, paying] })).run("Go", { onEvent, repeatedCalls: "unlimited" })
      )
      const text = events.map((event) => JSON.stringify(event))
      assert.lengthOf(
        text.filter((one) => one.includes(`"contracts"`)),
        1
      )
      assert.lengthOf(
        text.filter((one) => one.includes(`"contract"`)),
        0
      )
    }
  )
})

/** The state with its waiting calls approved and not run. */
const approvedState = Effect.fnUntraced(function* (state: Run.State) {
  const events = Result.getOrThrow(Run.decide(state, decide(state), state.updatedAt))
  return yield* throughJson(Result.getOrThrow(Run.applyAll(state, events)))
})

describe("DUR-10 agents inside", () => {
  const asking = { name: "ask", parameters: fields({ input: { type: "string" } }) }
  const outer = (inner: Options, instructions = "Ask.") =>
    Effect.flatMap(definitionOf({ name: "inner", ...inner }), (agent) =>
      version({ name: "outer", instructions, tools: [{ ...asking, agent }] })
    )
  const script: ScriptedModel.Script = [
    { toolCalls: [call("a1", "ask", { input: "Pay 5" })] },
    { toolCalls: [pays] },
    { text: "paid" },
    { text: "done" }
  ]
  const waitingInside = Effect.gen(function* () {
    const { state } = yield* endsAs("AwaitingApproval", (yield* outer({})).run("Go"))
    return yield* throughJson(state)
  })

  const ran: Array<unknown> = []
  test("an inner agent continues after an edit, and its own run records it", world(script, ran), function* () {
    const state = yield* waitingInside
    const other = yield* outer({ instructions: "Pay on time." })
    const { events, result } = yield* resumed(other, state, { decisions: decide(state) })
    assert.strictEqual(result.outcome, "Completed")
    assert.deepStrictEqual(ran, [{ amount: 5 }])
    assert.deepStrictEqual(pluck(changeIn(events)?.changes ?? [], "path"), ["/tools/ask/agent/instructions"])
    const inner = events.flatMap((event) => (event._tag === "ChildEvent" ? [event.event] : []))
    assert.deepStrictEqual(pluck(changeIn(inner)?.changes ?? [], "path"), ["/instructions"])
  })

  const stopped: Array<unknown> = []
  test(
    "a breaking edit inside refuses the whole run before anything is recorded",
    world(script, stopped),
    function* () {
      const state = yield* waitingInside
      const other = yield* outer({ tools: [{ ...paying, parameters: fields({ amount, to: { type: "string" } }) }] })
      const events: Array<Run.Event> = []
      const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void events.push(event))
      const { reason } = yield* failsFor(
        "DefinitionChanged",
        other.resume(state, { decisions: decide(state), onEvent })
      )
      assert.deepStrictEqual(breaking(reason.changes), ["/tools/ask/agent/tools/pay/parameters/required"])
      assert.deepStrictEqual(events, [])
      const { result } = yield* resumed(other, state, { decisions: decide(state), onChange: "accept" })
      assert.deepStrictEqual(stopped, [])
      assert.strictEqual(result.outcome, "Completed")
      const refused = yield* failsFor("DefinitionChanged", other.resume(state, { onChange: "refuse" }))
      assert.deepStrictEqual(breaking(refused.reason.changes), breaking(reason.changes))
    }
  )
})
