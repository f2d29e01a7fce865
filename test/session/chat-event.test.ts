import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Layer, Logger, Result, Schema, Stream } from "effect"
import { AiError, Tool, Toolkit } from "effect/ai"
import { Agent, Run, Conversation, VersionedStore } from "effect-emissary"
import { ChatEvent, Session } from "effect-emissary/session"
import { Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { planOf } from "../plan/support.ts"
import * as t from "./sessions.ts"

/** Texts that only the server may see. */
const hidden = {
  instructions: "HIDDEN-instructions",
  context: "HIDDEN-context",
  tool: "HIDDEN-tool-description",
  parameter: "HIDDEN-parameter-description",
  inner: "HIDDEN-instructions-of-the-expert",
  task: "HIDDEN-task-for-the-expert",
  error: "HIDDEN-error",
  person: "HIDDEN-person"
}

const Pay = Tool.make("pay", {
  description: hidden.tool,
  parameters: Schema.Struct({ amount: Schema.Finite.annotate({ description: hidden.parameter }) }),
  success: Schema.String,
  needsApproval: true
})
const Billing = Toolkit.make(Pay)
const expert = Agent.make("expert", { instructions: hidden.inner, toolkit: Billing })
const cashier = Agent.make("cashier", {
  instructions: hidden.instructions,
  toolkit: [Agent.asTool(expert, { name: "ask_expert", description: hidden.tool }), Pay]
})

const pay = (id: string, amount: number) => ({ id, name: "pay", params: { amount } })

const script: ReadonlyArray<ScriptedModel.Turn> = [
  {
    reasoning: "The customer wants to pay.",
    text: "One moment.",
    toolCalls: [pay("p1", 5), { id: "e1", name: "ask_expert", params: { input: hidden.task } }]
  },
  { text: "I pay.", toolCalls: [pay("p2", 7)] },
  { text: "The expert paid." },
  { text: "All paid." },
  { text: "Bye." }
]

const failing: ScriptedModel.TurnFunction = () =>
  Effect.fail(
    AiError.make({
      module: "Provider",
      method: "generateText",
      reason: new AiError.InternalProviderError({ description: hidden.error })
    })
  )

const sessions = Session.layer([cashier], { run: { retry: { times: 0 } } }).pipe(
  Layer.provide([
    VersionedStore.layerMemory,
    Billing.toLayer({ pay: ({ amount }) => Effect.succeed(`receipt ${amount}`) }),
    ScriptedModel.layer([...script, failing])
  ])
)

/** All events of a session that paid twice, was thanked, and failed; and its conversation. */
const played = Effect.gen(function* () {
  const service = yield* Session.Session
  const asked = yield* Session.turn("a", "Please pay", { context: { tenant: hidden.context } })
  assert.strictEqual(asked.outcome, "AwaitingApproval")
  const { requests } = yield* t.stateOf(service, "a")
  assert.strictEqual(requests.length, 2)
  const given = { approved: true, decidedBy: hidden.person, reason: "checked" }
  const decided = yield* service.decide(
    "a",
    requests.map((request) => ({ ...request, ...given }))
  )
  yield* Session.await("a", decided)
  yield* Session.turn("a", "Thank you")
  assert.strictEqual(yield* t.reasonOf(Session.turn("a", "Still there?")), "TurnFailed")
  return { entries: yield* t.stored(service, "a"), history: yield* service.history("a"), requests }
}).pipe(Effect.provide(sessions), Effect.provide(Logger.layer([])))

const projected = (entries: ReadonlyArray<Session.Entry>, options?: ChatEvent.Options) =>
  Stream.fromIterable(entries).pipe(Stream.filterMap(ChatEvent.project(options)), Stream.runCollect)

const toJson = Schema.encodeEffect(Schema.fromJsonString(Schema.Array(ChatEvent.Entry)))

const tagsOf = (entries: ReadonlyArray<ChatEvent.Entry>) => entries.map(({ event }) => event._tag)

/** The path of an event, of its request where it has one. */
const pathOf = (event: ChatEvent.ChatEvent): ReadonlyArray<string> => {
  const { path = undefined } = event._tag === "Requested" ? event.request : "path" in event ? event : {}
  return path === undefined ? [] : [path.join("/")]
}

describe("MEND-8 L12 events for a front end", () => {
  it.live("hold nothing that only the server may see", () =>
    Effect.gen(function* () {
      const { entries } = yield* played
      const log = yield* Schema.encodeEffect(Schema.fromJsonString(Schema.toCodecJson(Schema.Array(Session.Entry))))(
        entries
      )
      for (const options of [{}, { reasoning: true, results: true, subAgents: true }]) {
        const json = yield* toJson(yield* projected(entries, options))
        // The prompt that the model writes for a tool is an argument of a call, which users see
        for (const [name, text] of Object.entries(hidden).filter(([name]) => name !== "task")) {
          if (name !== "error" && name !== "tool") assert.include(log, text, `the log has the ${name}`)
          assert.notInclude(json, text, name)
        }
        for (const key of ["conversation", "context", "contract", "definition", "decidedBy", "metadata"]) {
          assert.notInclude(json, `"${key}"`)
        }
        for (const text of ["Please pay", "One moment.", "receipt 5", "All paid.", "checked", "Still there?"]) {
          assert.include(json, text)
        }
      }
    })
  )

  it.live("are enough to draw the conversation and to decide", () =>
    Effect.gen(function* () {
      const { entries, history, requests } = yield* played
      const events = yield* projected(entries, { reasoning: true })
      assert.deepStrictEqual(tagsOf(events), [
        "MessageReceived",
        "TurnStarted",
        "MessageTaken",
        "AnswerStarted",
        "Answered",
        "Requested",
        "ToolStarted",
        "Requested",
        "TurnFinished",
        "TurnStarted",
        "Decided",
        "Decided",
        "ToolStarted",
        "ToolFinished",
        "ToolFinished",
        "ToolFinished",
        "AnswerStarted",
        "Answered",
        "TurnFinished",
        "MessageReceived",
        "TurnStarted",
        "MessageTaken",
        "AnswerStarted",
        "Answered",
        "TurnFinished",
        "MessageReceived",
        "TurnStarted",
        "MessageTaken",
        "TurnFailed"
      ])

      const drawn = events.flatMap(({ event }): ReadonlyArray<unknown> => {
        if (event._tag === "MessageReceived") return [["user", event.content]]
        if (event._tag === "Answered" && event.path === undefined) return [[event.messageId, event.content]]
        return event._tag === "ToolFinished" && event.path === undefined ? [[event.callId, event.result]] : []
      })
      const stored = Conversation.messages(history).flatMap((message): ReadonlyArray<unknown> => {
        if (message.role === "system") return []
        if (message.role === "tool") return [[message.callId, message.result]]
        return [[message.role === "user" ? "user" : message.id, message.content]]
      })
      assert.sameDeepMembers(drawn, stored)

      const asked = events.flatMap(({ event }) => (event._tag === "Requested" ? [event.request] : []))
      assert.sameDeepMembers(asked, [...requests])
      const finished = events.flatMap(({ event }) => (event._tag === "TurnFinished" ? (event.requests ?? []) : []))
      assert.deepStrictEqual(finished, requests)

      // Of an agent that is hidden, the call that a person was asked for is shown to its end, and no other call
      const inside = requests.flatMap(({ callId, path }) => (path === undefined ? [] : [[...path, callId]]))
      const ends = events.flatMap(({ event }) =>
        event._tag === "ToolFinished" && event.path !== undefined ? [event] : []
      )
      assert.isAbove(ends.length, 0)
      assert.deepStrictEqual(
        ends.map(({ callId, path = [] }) => [...path, callId]),
        inside
      )
      assert.include(JSON.stringify(ends), "receipt")
    })
  )

  it.live(
    "SCREEN-4 a run without a session shows the end of a call of a hidden agent that was approved, and of no other call",
    () =>
      Effect.gen(function* () {
        const asked = yield* cashier.run("Please pay")
        assert(asked.outcome === "AwaitingApproval")
        const decisions = asked.requests.filter(Run.isApprovable).map(Run.approve)
        const events = yield* Stream.runCollect(
          ChatEvent.projectRun()(cashier.resumeStream(asked.state, { decisions }))
        )
        const ends = events.flatMap((event) => (event._tag === "ToolFinished" ? [event] : []))
        assert.sameMembers(
          ends.map(({ callId, path = [] }) => [...path, callId].join("/")),
          ["p1", "e1/p2", "e1"]
        )
        assert.isTrue(ends.every(({ result }) => result?._tag === "Success"))
      }).pipe(
        Effect.provide([
          Billing.toLayer({ pay: ({ amount }) => Effect.succeed(`receipt ${amount}`) }),
          ScriptedModel.layer(script)
        ])
      )
  )

  it.live(
    "RIGHT-16 show what happens inside of plans: requests, tools, answers, and no decision without its request",
    () =>
      Effect.gen(function* () {
        const clerk = Agent.make("clerk", { instructions: hidden.instructions, toolkit: Billing })
        const inner = yield* planOf([Step.make("check", { target: () => Step.pause("Is it right?") })], {
          name: "inner"
        })
        const plan = yield* planOf([Step.make("clerk", { target: clerk }), Step.make("inner", { target: inner })], {
          name: "shop"
        })
        const layer = Session.layer([plan]).pipe(
          Layer.provide([
            VersionedStore.layerMemory,
            Billing.toLayer({ pay: ({ amount }) => Effect.succeed(`receipt ${amount}`) }),
            ScriptedModel.layer([{ text: "I pay.", toolCalls: [pay("p1", 5)] }, { text: "Paid." }])
          ])
        )
        const entries = yield* Effect.gen(function* () {
          const service = yield* Session.Session
          yield* Session.turn("a", "Please pay")
          for (const approved of [true, false]) {
            const { cursor, requests } = yield* t.stateOf(service, "a")
            yield* service.decide(
              "a",
              requests.map((request) => ({ ...request, approved }))
            )
            yield* Effect.ignore(Session.await("a", { cursor }))
          }
          return yield* t.stored(service, "a")
        }).pipe(Effect.provide(layer), Effect.provide(Logger.layer([])))
        const events = yield* projected(entries)
        const steps = events.flatMap(({ event }) =>
          event._tag === "PlanStep" ? [`${event.path.join("/")} ${event.status}`] : []
        )
        assert.deepStrictEqual(steps, [
          "clerk running",
          "clerk running",
          "clerk finished",
          "inner running",
          "inner/check running",
          "inner running",
          "inner/check running",
          "inner/check failed",
          "inner failed"
        ])
        const ofPlan = events.flatMap(({ event }) =>
          event._tag === "PlanStep" ? [] : pathOf(event).map((path) => `${event._tag} ${path}`)
        )
        assert.deepStrictEqual(ofPlan, [
          "AnswerStarted clerk",
          "Answered clerk",
          "Requested clerk",
          "Decided clerk",
          "ToolStarted clerk",
          "ToolFinished clerk",
          "AnswerStarted clerk",
          "Answered clerk",
          "Requested inner",
          "Decided inner"
        ])
        // each decision is about a request before it, and the end of a turn lists each request
        const keyOf = ({ callId, path = [] }: { readonly callId: string; readonly path?: ReadonlyArray<string> }) =>
          [...path, callId].join("/")
        const asked: Array<string> = []
        const listed: Array<string> = []
        for (const { event } of events) {
          if (event._tag === "Requested") asked.push(`${keyOf(event.request)} ${event.request.digest}`)
          if (event._tag === "Decided") {
            assert.isTrue(asked.some((key) => key.startsWith(`${keyOf(event)} `)))
          }
          if (event._tag === "TurnFinished")
            listed.push(...(event.requests ?? []).map((one) => `${keyOf(one)} ${one.digest}`))
        }
        assert.deepStrictEqual(asked, listed)
        assert.notInclude(yield* toJson(events), hidden.instructions)
      })
  )

  it.effect("show a turn that a person stopped before it began as stopped, and not as failed", () =>
    Effect.gen(function* () {
      const at = yield* DateTime.now
      const error = { reason: "Interrupted", category: "conflict", message: "the turn was interrupted" } as const
      const event = { _tag: "TurnFailed", at, error, messageId: "m1" } as const
      const shown = ChatEvent.project()({ sequence: 3, cursor: "life.3", event })
      const finished = { _tag: "TurnFinished", at, outcome: "Interrupted" } as const
      assert.deepStrictEqual(shown, Result.succeed({ sequence: 3, cursor: "life.3", event: finished }))
    })
  )

  it.live("leave out what the options leave out", () =>
    Effect.gen(function* () {
      const { entries } = yield* played
      const texts = (options?: ChatEvent.Options) => Effect.flatMap(projected(entries, options), toJson)
      assert.notInclude(yield* texts(), "The customer wants to pay.")
      assert.include(yield* texts({ reasoning: true }), "The customer wants to pay.")
      assert.notInclude(yield* texts({ results: false }), "receipt")
      assert.notInclude(yield* texts({ results: false }), "The expert paid.")
      assert.include(yield* texts({ subAgents: true, results: false }), "The expert paid.")
    })
  )

  it.live("are text, with the numbers and cursors of the session, over JSON and back", () =>
    Effect.gen(function* () {
      const { entries } = yield* played
      const events = yield* projected(entries)
      const json = yield* toJson(events)
      const back = yield* Schema.decodeEffect(Schema.fromJsonString(Schema.Array(ChatEvent.Entry)))(json)
      assert.deepStrictEqual(back, events)
      for (const event of events) {
        const entry = entries[event.sequence - 1] ?? assert.fail(`no event ${event.sequence}`)
        assert.strictEqual(event.cursor, entry.cursor)
        assert.deepStrictEqual(ChatEvent.project()(entry), Result.succeed(event))
      }
    })
  )

  it.live("have no call for a structured output", () =>
    Effect.gen(function* () {
      const judge = Agent.make("judge", { output: Schema.Struct({ verdict: Schema.String }), outputStrategy: "tool" })
      const layer = Session.layer([judge]).pipe(
        Layer.provide([
          VersionedStore.layerMemory,
          ScriptedModel.layer([{ toolCalls: [{ name: "final_answer", params: { verdict: "fine" } }] }])
        ])
      )
      const service = yield* t.sessionsOf(layer)
      yield* Effect.provideService(Session.turn("a", "Judge"), Session.Session, service)
      const events = yield* projected(yield* t.stored(service, "a"))
      const answers = events.flatMap(({ event }) => (event._tag === "Answered" ? event.content : []))
      assert.deepStrictEqual(answers, [])
      const end = events.at(-1)?.event
      assert.deepStrictEqual(end?._tag === "TurnFinished" ? end.output : undefined, { verdict: "fine" })
    }).pipe(Effect.scoped)
  )

  const at = "2026-01-01T00:00:00.000Z"
  const failure = { reason: "OptionsInvalid", category: "invalid", message: hidden.error }
  const digest = "d"

  /** The projection of one event of the log. */
  const projectedOne = Effect.fnUntraced(function* (event: Schema.Json, options?: ChatEvent.Options) {
    const entry = yield* Schema.decodeUnknownEffect(Session.Entry)({ sequence: 1, cursor: "a.1", event })
    const [first] = yield* projected([entry], options)
    return first && { ...first.event, at: undefined }
  })

  it.effect("a message and decisions that are dropped, and a turn that could not begin, are shown", () =>
    Effect.gen(function* () {
      const problem = { at: undefined, category: "invalid", message: "This cannot be sent as it is." }
      const dropped = yield* projectedOne({ _tag: "MessageDropped", at, messageId: "m1", error: failure })
      assert.deepStrictEqual<unknown>(dropped, { _tag: "MessageDropped", messageId: "m1", ...problem })
      const decided = { callId: "c1", digest, approved: true, decidedBy: hidden.person }
      const decisions = [decided, { ...decided, path: ["o1"] }]
      const undecided = yield* projectedOne({ _tag: "DecisionsDropped", at, decisions, error: failure })
      const calls = [{ callId: "c1" }, { callId: "c1", path: ["o1"] }]
      assert.deepStrictEqual<unknown>(undecided, { _tag: "DecisionsDropped", calls, ...problem })
      const failed = yield* projectedOne({ _tag: "TurnFailed", at, error: failure, messageId: "m2", isHeld: true })
      assert.deepStrictEqual<unknown>(failed, { _tag: "TurnFailed", messageId: "m2", isHeld: true, ...problem })
    })
  )

  it.effect("results hold no options of providers, and an unknown tool does not list the others", () =>
    Effect.gen(function* () {
      const content = [{ type: "text", text: "seen", options: { acme: { note: hidden.context } } }]
      const unknown = { _tag: "Failure", type: "unknown_tool", message: 'Unknown tool "x". Known tools: HIDDEN-tool.' }
      const results: ReadonlyArray<readonly [result: Schema.Json, seen: string]> = [
        [{ _tag: "Success", value: "seen", content }, "seen"],
        [{ _tag: "Failure", type: "denied", message: "no", content }, "seen"],
        [unknown, 'Unknown tool \\"x\\".']
      ]
      for (const [result, seen] of results) {
        const ids = { id: "m1", createdAt: at }
        const message = { role: "tool", ...ids, callId: "c1", name: "x", result }
        const finished = { _tag: "RunEvent", event: { _tag: "ToolFinished", at, message } }
        const part = { type: "tool-result", id: "c1", name: "x", result }
        const answer = { role: "assistant", ...ids, content: [part] }
        const answered = { _tag: "RunEvent", event: { _tag: "ModelAnswered", at, message: answer } }
        for (const event of [finished, answered]) {
          const json = JSON.stringify(yield* projectedOne(event))
          assert.include(json, seen)
          assert.notInclude(json, "HIDDEN")
        }
      }
    })
  )

  it("SCREEN-1 have what models write, as far as the options keep it in the answer, and no arguments of calls", () => {
    const piece = { _tag: "AnswerDelta", turn: "m0", messageId: "m1", part: 1, offset: 2, delta: "ab" } as const
    const call = { id: "c1", name: "final_answer" }
    const pieces: ReadonlyArray<Session.Draft> = [
      { ...piece, type: "text" },
      { ...piece, type: "text", path: ["step"] },
      { ...piece, type: "reasoning" },
      { ...piece, type: "text", path: ["c1"], isSubAgent: true },
      { ...piece, type: "tool-call", call },
      { _tag: "AnswerWithdrawn", messageId: "m1" }
    ]
    const shown = (options?: ChatEvent.Options) =>
      pieces.flatMap((event) =>
        Result.match(ChatEvent.project(options)({ sequence: 3, cursor: "life.3/a", event }), {
          onFailure: () => [],
          onSuccess: (entry) => [entry]
        })
      )
    const entry = (event: ChatEvent.ChatEvent) => ({ sequence: 3, cursor: "life.3/a", event })
    const text = { ...piece, type: "text" } as const
    const always = [entry(text), entry({ ...text, path: ["step"] })]
    const end = entry({ _tag: "AnswerWithdrawn", messageId: "m1" })
    assert.deepStrictEqual(shown(), [...always, end])
    const reasoning = entry({ ...piece, type: "reasoning" })
    assert.deepStrictEqual(shown({ reasoning: true }), [...always, reasoning, end])
    assert.deepStrictEqual(shown({ subAgents: true }), [...always, entry({ ...text, path: ["c1"] }), end])
  })
})
