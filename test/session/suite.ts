/**
 * The suite of sessions: the rules that every layer of sessions keeps, and the agents that the sessions are with.
 *
 * The messages of the rules are commands. The model answers `reply x` with `x`, and `fail x` with an error while it is down. For
 * `think x` it waits at the gate `x`, and for `type x` it writes `x` many times, slowly. Any other command is a call of the tool with that name.
 */

import {
  Clock,
  Context,
  Deferred,
  Duration,
  Effect,
  Fiber,
  Layer,
  Option,
  Result,
  Schema,
  Stream,
  type Scope
} from "effect"
import { Tool, Toolkit, type AiError } from "effect/ai"
import { Agent, Conversation, Message, Run, RunContext, ToolResult } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel, type Conformance } from "effect-emissary/testing"
import * as localSessions from "#src/session/internal/localSessions.ts"
import { endWithin, expectEqual, makeCheck, realClock, show } from "#src/testing/internal/checks.ts"
import { cursorAt } from "./sessions.ts"

const Named = Schema.Struct({ name: Schema.String })

const Pay = Tool.make("pay", { parameters: Named, success: Schema.String, needsApproval: true })

const toolkit = Toolkit.make(
  Tool.make("note", { parameters: Named, success: Schema.String }),
  Tool.make("hold", { parameters: Named, success: Schema.String }),
  Tool.make("context", { parameters: Named, success: Schema.Json }),
  Pay
)

/** A place where the model or a tool waits until a rule opens it. */
interface Gate {
  readonly reached: Deferred.Deferred<void>
  readonly opened: Deferred.Deferred<void>
}

/** The name of the first agent. */
const agent = "conformance"

/** The agents of a check, and what they have done. */
const makeFixture = Effect.gen(function* () {
  const probe = { isDown: false, failures: 0, thinking: 0, most: 0, ran: new Array<string>() }
  const gates = new Map<string, Gate>()

  const gate = (name: string): Gate => {
    const found = gates.get(name) ?? { reached: Deferred.makeUnsafe(), opened: Deferred.makeUnsafe() }
    gates.set(name, found)
    return found
  }

  const pass = (name: string) =>
    Effect.suspend(() => {
      const { opened, reached } = gate(name)
      return Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(opened))
    })

  const turnOf = ({ messages }: ScriptedModel.Request): Effect.Effect<ScriptedModel.Turn> => {
    const last = messages.at(-1)
    if (last?.role === "tool") return Effect.succeed({ text: `after ${last.text}` })
    const [command = "", name = ""] = (last?.text ?? "").split(" ")
    switch (command) {
      case "reply":
        return Effect.succeed({ text: name })
      case "think":
        return Effect.as(pass(name), { text: name })
      case "type":
        return Effect.succeed({ text: name.repeat(40), chunkDelay: "20 millis" })
      case "fail":
        return Effect.succeed(probe.isDown ? { fail: { reason: "AuthenticationError" } } : { text: name })
      case "retry":
        return Effect.succeed(
          probe.failures++ === 0 ? { text: "Half", fail: { reason: "RateLimitError" } } : { text: name }
        )
      case "delegate":
        return Effect.succeed({ toolCalls: [{ name: command, params: { input: `pay ${name}` } }] })
      default:
        return Effect.succeed({ toolCalls: [{ name: command, params: { name } }] })
    }
  }

  const answer = (request: ScriptedModel.Request): Effect.Effect<ScriptedModel.Turn, AiError.AiError> =>
    Effect.suspend(() => {
      probe.thinking += 1
      probe.most = Math.max(probe.most, probe.thinking)
      return turnOf(request)
    }).pipe(
      Effect.ensuring(
        Effect.sync(() => {
          probe.thinking -= 1
        })
      )
    )

  const ran = (tool: string, name: string) =>
    Effect.sync(() => {
      probe.ran.push(`${tool} ${name}`)
      return `${tool} ${name}`
    })

  const handlers = toolkit.toLayer({
    note: ({ name }) => ran("note", name),
    hold: ({ name }) => Effect.tap(ran("hold", name), () => pass(name)),
    context: () => RunContext.RunContext,
    pay: ({ name }) => ran("pay", name)
  })
  const clerk = Agent.make("clerk", { toolkit: [Pay] })
  const tools = [...Object.values(toolkit.tools), Agent.asTool(clerk, { name: "delegate", description: "Delegates" })]
  const plan = yield* Plan.make("conformance_plan", [
    Step.make("shout", { target: ({ task }) => Effect.succeed(`${task}!`) })
  ])
  const services = yield* Layer.build(Layer.merge(handlers, ScriptedModel.layer(answer)))
  const hosted = localSessions.agentsOf([
    Agent.make(agent, { toolkit: tools }),
    Agent.make("conformance_other"),
    yield* Plan.bind(plan)
  ])
  const [first, ...others] = (yield* Effect.provideContext(hosted, services)).agents.values()
  if (first === undefined) return yield* Effect.die(new Error("the suite has no agent"))
  return { agents: [first, ...others] as const, probe, gate, calls: () => [...probe.ran] }
})

type Fixture = Effect.Success<typeof makeFixture>

/**
 * One rule.
 *
 * - `id`: begins the ids of its sessions, which do not exist yet.
 * - `open`: opens the sessions for as long as they are used. A rule that opens them twice expects to find its own again.
 * - `expectNext`: names the event that the rule waits for from here on.
 */
interface Input {
  readonly id: string
  readonly fixture: Fixture
  readonly open: <A, E>(
    use: (sessions: Session.Service) => Effect.Effect<A, E, Scope.Scope>
  ) => Effect.Effect<A, unknown>
  readonly expectNext: (expected: string) => Effect.Effect<void>
}

interface Rule {
  readonly name: string
  /** The ids of its sessions, after the `id` of the input. */
  readonly ids: ReadonlyArray<string>
  readonly check: (input: Input) => Effect.Effect<void, unknown>
}

type Body = (
  sessions: Session.Service,
  input: Input
) => Generator<Effect.Effect<unknown, unknown, Scope.Scope>, unknown, never>

const rule = (name: string, body: Body, ids: ReadonlyArray<string> = [""]): Rule => ({
  name,
  ids,
  check: (input) => Effect.asVoid(input.open((sessions) => Effect.gen(() => body(sessions, input))))
})

// Sessions as the rules see them

const ask = (sessions: Session.Service, id: string, text: Session.Input, options?: Session.SendOptions) =>
  Effect.provideService(Session.turn(id, text, { agent, ...options }), Session.Session, sessions)

const send = (sessions: Session.Service, id: string, text: Session.Input, options?: Session.SendOptions) =>
  sessions.send(id, text, { agent, ...options })

const existing = (sessions: Session.Service, id: string) =>
  Effect.flatMap(
    sessions.state(id),
    Option.match({
      onNone: () => Effect.fail("state: expected a session, got none"),
      onSome: (state) => Effect.succeed(state)
    })
  )

/** A turn may end a moment after its last event. */
const untilStatus = (sessions: Session.Service, input: Input, status: Session.State["status"], id = input.id) =>
  Effect.andThen(
    input.expectNext(`the status ${status}`),
    Effect.repeat(Effect.andThen(Effect.sleep("5 millis"), existing(sessions, id)), {
      until: (state) => state.status === status
    })
  )

const encodeEntry = Schema.encodeSync(Session.Entry)

const readEntries = (sessions: Session.Service, id: string, after: string | undefined, count: number) =>
  Effect.map(sessions.events(id, { after }).pipe(Stream.take(count), Stream.runCollect), (entries) =>
    entries.map((entry): unknown => encodeEntry(entry))
  )

const everyEntry = Effect.fnUntraced(function* (sessions: Session.Service, id: string) {
  const { sequence } = yield* existing(sessions, id)
  return yield* sessions.events(id).pipe(Stream.take(sequence), Stream.runCollect)
})

const endsLive = ({ event }: Session.LiveEntry): boolean =>
  event._tag === "TurnFailed" || (event._tag === "RunEvent" && event.event._tag === "RunFinished")

/** The answers on the screen of a live reader. A piece that does not follow, and a draft that its message differs from, are problems. */
const writtenIn = (entries: ReadonlyArray<Session.LiveEntry>): ReadonlyArray<string> => {
  const screen = new Map<string, string>()
  for (const { event } of entries) {
    if (event._tag === "AnswerWithdrawn" && !screen.delete(event.messageId)) screen.set(event.messageId, "never shown")
    if (event._tag === "AnswerDelta") {
      const before = screen.get(event.messageId) ?? ""
      screen.set(
        event.messageId,
        before.length === event.offset ? before + event.delta : "a piece that does not follow"
      )
    }
    if (event._tag !== "RunEvent" || event.event._tag !== "ModelAnswered") continue
    const { message } = event.event
    const text = Message.text(message)
    screen.set(message.id, text.startsWith(screen.get(message.id) ?? "") ? text : "another text than its draft")
  }
  return Array.from(screen.values())
}

/** Waits for the end of the turn that is under way or due. */
const untilEnd = (sessions: Session.Service, id: string, after: string) =>
  sessions.events(id, { after }).pipe(
    Stream.takeUntil(
      ({ event }) => event._tag === "TurnFailed" || (event._tag === "RunEvent" && event.event._tag === "RunFinished")
    ),
    Stream.runDrain
  )

/** The conversation without its system message, in lines. */
const linesOf = (conversation: Conversation.Conversation): ReadonlyArray<string> =>
  Conversation.messages(conversation).flatMap((message) => {
    switch (message.role) {
      case "user":
        return [`user ${Message.text(message)}`]
      case "assistant":
        return Message.toolCalls(message).length > 0 ? [] : [`assistant ${Message.text(message)}`]
      case "tool":
        return [`tool ${message.result._tag === "Success" ? "success" : message.result.type}`]
      default:
        return []
    }
  })

const expectLines = Effect.fnUntraced(function* (sessions: Session.Service, id: string, lines: ReadonlyArray<string>) {
  yield* expectEqual("history", lines, linesOf(yield* sessions.history(id)))
})

const expectReason = <A>(
  what: string,
  tag: Session.SessionError["reason"]["_tag"],
  effect: Effect.Effect<A, Session.SessionError>
): Effect.Effect<void, string> =>
  Effect.matchEffect(effect, {
    onSuccess: (value) => Effect.fail(`${what}: expected ${tag}, got the success ${show(value)}`),
    onFailure: ({ message, reason }) =>
      reason._tag === tag ? Effect.void : Effect.fail(`${what}: expected ${tag}, got ${reason._tag}: ${message}`)
  })

/** Returns whether there was something to stop. */
const stop = (sessions: Session.Service, id: string) =>
  Effect.map(sessions.interrupt(id), ({ isInterrupted }) => isInterrupted === true)

const countMessages = (entries: ReadonlyArray<Session.Entry>, messageId: string): number =>
  entries.filter(({ event }) => event._tag === "MessageReceived" && event.messageId === messageId).length

const requestOf = Effect.fnUntraced(function* (sessions: Session.Service, input: Input) {
  const { cursor, requests, sequence } = yield* untilStatus(sessions, input, "waiting")
  const [request] = requests
  if (request === undefined || requests.length > 1) {
    return yield* Effect.fail(`requests: expected one, got ${requests.length}`)
  }
  return { cursor, request, sequence }
})

/** Ids that databases and paths like to confuse. */
const unusualIds = ["/A", "/a", "/a ", "/a/b", "/a%2Fb", "/é", "/e\u0301", "/👩‍👧", `/${"long".repeat(100)}`]

const messages: ReadonlyArray<Rule> = [
  rule("a session begins with its first message", function* (sessions, { id }) {
    yield* expectEqual("state", Option.none(), yield* sessions.state(id))
    yield* expectReason("history", "NotFound", sessions.history(id))
    yield* expectReason("resume", "NotFound", sessions.resume(id))
    const decision = { callId: "c", digest: "sha256:0", approved: true }
    yield* expectReason("decide", "NotFound", sessions.decide(id, [decision]))
    yield* expectReason("interrupt", "NotFound", sessions.interrupt(id))
    yield* expectEqual("remove", false, yield* sessions.remove(id))
    yield* expectEqual("state", Option.none(), yield* sessions.state(id))
    yield* expectEqual("answer", "a", (yield* ask(sessions, id, "reply a")).text)
    yield* expectLines(sessions, id, ["user reply a", "assistant a"])
    const { agent: found, queue, requests, steps } = yield* existing(sessions, id)
    yield* expectEqual("state", [agent, [], [], 1], [found, queue, requests, steps])
  }),
  rule(
    "a message is stored before the model answers, and its receipt has the number of its event",
    function* (sessions, input) {
      const { expectNext, fixture, id } = input
      yield* expectNext("send to return before the model answers")
      const receipt = yield* send(sessions, id, "think a", { messageId: "m" })
      yield* expectEqual("the id in the receipt", "m", receipt.messageId)
      yield* expectNext("the event of the message, before the model answers")
      const entry = yield* sessions
        .events(id, { after: cursorAt(receipt.cursor, receipt.sequence - 1) })
        .pipe(Stream.runHead)
      const event = Option.getOrUndefined(entry)?.event
      const isMessage = event?._tag === "MessageReceived" && event.messageId === "m" && event.agent === agent
      if (!isMessage) return yield* Effect.fail(`event ${receipt.sequence}: expected the message, got ${event?._tag}`)
      yield* expectNext("the model to be asked")
      yield* Deferred.await(fixture.gate("a").reached)
      yield* expectEqual("status", "running", (yield* existing(sessions, id)).status)
      yield* Deferred.succeed(fixture.gate("a").opened, undefined)
      yield* expectNext("the answer")
      yield* expectEqual("answer", "a", (yield* ask(sessions, id, "think a", { messageId: "m" })).text)
    }
  ),
  rule("messages are answered one after the other, in the order in which they were sent", function* (sessions, input) {
    const { expectNext, fixture, id } = input
    yield* send(sessions, id, "think a")
    yield* expectNext("the model to be asked")
    yield* Deferred.await(fixture.gate("a").reached)
    yield* expectNext("messages to be stored while a turn is under way")
    const { messageId } = yield* send(sessions, id, "reply b", { messageId: "b" })
    yield* send(sessions, id, "reply c", { messageId: "c", whenBusy: "queue" })
    yield* expectEqual("queue", [messageId, "c"], (yield* existing(sessions, id)).queue)
    yield* Deferred.succeed(fixture.gate("a").opened, undefined)
    yield* expectNext("the answer of the last message")
    yield* expectEqual("answer", "c", (yield* ask(sessions, id, "reply c", { messageId: "c" })).text)
    yield* expectLines(sessions, id, [
      "user think a",
      "assistant a",
      "user reply b",
      "assistant b",
      "user reply c",
      "assistant c"
    ])
    yield* expectEqual("model calls at once", 1, fixture.probe.most)
    yield* expectEqual("queue", [], (yield* existing(sessions, id)).queue)
  }),
  rule(
    'a message with whenBusy: "reject" is refused in a turn, and nothing of it is stored',
    function* (sessions, input) {
      const { expectNext, fixture, id } = input
      yield* send(sessions, id, "think a")
      yield* expectNext("the model to be asked")
      yield* Deferred.await(fixture.gate("a").reached)
      yield* expectNext("the message to be refused")
      const second = send(sessions, id, "note b", { messageId: "b", whenBusy: "reject" })
      yield* expectReason("the second message", "Busy", second)
      // Events of the turn may be stored meanwhile
      const found = countMessages(yield* everyEntry(sessions, id), "b")
      yield* expectEqual("events and queue", [0, []], [found, (yield* existing(sessions, id)).queue])
      yield* Deferred.succeed(fixture.gate("a").opened, undefined)
      yield* untilStatus(sessions, input, "idle")
      yield* expectEqual("answer", "c", (yield* ask(sessions, id, "reply c", { whenBusy: "reject" })).text)
      yield* expectEqual("calls", [], fixture.calls())
    }
  ),
  rule(
    "a message with an id that the session has is not stored again, also when it is sent many times at once",
    function* (sessions, { fixture, id }) {
      const first = yield* send(sessions, id, "note a", { messageId: "m" })
      const receipts = yield* Effect.all(
        Array.from({ length: 5 }, () => send(sessions, id, "note b", { messageId: "n" })),
        { concurrency: "unbounded" }
      )
      yield* ask(sessions, id, "note b", { messageId: "n" })
      yield* expectEqual("receipt", first, yield* send(sessions, id, "note a", { messageId: "m" }))
      yield* expectReason("another text", "InputDiffers", send(sessions, id, "another text", { messageId: "m" }))
      yield* expectEqual("receipts", Array(5).fill(receipts[0]), receipts)
      const entries = yield* everyEntry(sessions, id)
      yield* expectEqual("messages", [1, 1], [countMessages(entries, "m"), countMessages(entries, "n")])
      yield* expectEqual("calls", ["note a", "note b"], fixture.calls())
    }
  ),
  rule(
    "messages of many callers are all stored, and each caller gets the answer to its own",
    function* (sessions, { fixture, id }) {
      const texts = Array.from({ length: 8 }, (_, index) => `${index}`)
      const answers = yield* Effect.forEach(texts, (text) => ask(sessions, id, `reply ${text}`), {
        concurrency: "unbounded"
      })
      yield* expectEqual(
        "answers",
        texts,
        answers.map(({ text }) => text)
      )
      yield* expectEqual("messages", 16, linesOf(yield* sessions.history(id)).length)
      yield* expectEqual("model calls at once", 1, fixture.probe.most)
    }
  ),
  rule(
    "the parts of a message arrive as they were sent, and one that no conversation can have is refused",
    function* (sessions, { id }) {
      yield* expectReason("an empty message", "InputInvalid", send(sessions, id, ""))
      yield* expectEqual("state", Option.none(), yield* sessions.state(id))
      const parts = [
        ToolResult.textPart("reply é\u0000😀"),
        ToolResult.filePart({ mediaType: "image/png", data: new Uint8Array([0, 255]) })
      ] as const
      yield* ask(sessions, id, parts)
      const [entry] = yield* everyEntry(sessions, id)
      const found = entry?.event._tag === "MessageReceived" ? entry.event.input : undefined
      yield* expectEqual("input", parts, found)
    }
  ),
  rule("a session has the agent of its first message", function* (sessions, { id }) {
    yield* expectReason("an unknown agent", "AgentUnknown", sessions.send(id, "reply a", { agent: "unknown" }))
    yield* expectReason("one of several agents", "AgentUnknown", sessions.send(id, "reply a"))
    yield* expectEqual("state", Option.none(), yield* sessions.state(id))
    yield* ask(sessions, id, "reply a", { agent: "conformance_other" })
    yield* expectReason("another agent", "AgentDiffers", sessions.send(id, "reply b", { agent }))
    yield* expectEqual("agent", "conformance_other", (yield* existing(sessions, id)).agent)
    yield* ask(sessions, id, "reply c", { agent: undefined })
    yield* expectLines(sessions, id, ["user reply a", "assistant a", "user reply c", "assistant c"])
  }),
  rule("KEEP-8 each turn has the context of its message", function* (sessions, { id }) {
    const contextOf = (name: string, context?: { readonly tenant: string }) =>
      Effect.map(ask(sessions, id, `context ${name}`, { context }), ({ text }) => text)
    yield* expectEqual("context", `after {"tenant":"acme"}`, yield* contextOf("a", { tenant: "acme" }))
    yield* expectEqual("context", `after {"tenant":"other"}`, yield* contextOf("b", { tenant: "other" }))
    yield* expectEqual("no context", "after {}", yield* contextOf("c"))
  }),
  rule(
    "KEEP-8 a title and metadata are stored with the first message, and changed later",
    function* (sessions, { id }) {
      const details = { title: "Order 42", metadata: { user: "ada", tags: ["a"] } }
      yield* expectReason("update", "NotFound", sessions.update(id, details))
      yield* ask(sessions, id, "reply a", details)
      const detailsOf = Effect.map(existing(sessions, id), ({ metadata, title }) => ({ title, metadata }))
      yield* expectEqual("details", details, yield* detailsOf)
      yield* ask(sessions, id, "reply b", { title: "Another" })
      yield* sessions.update(id, { title: "Order 43" })
      yield* expectEqual("details", { ...details, title: "Order 43" }, yield* detailsOf)
      yield* sessions.update(id, { metadata: {} })
      yield* expectReason("a long title", "ArgumentInvalid", sessions.update(id, { title: "a".repeat(201) }))
      yield* expectReason(
        "long metadata",
        "ArgumentInvalid",
        sessions.update(id, { metadata: { a: "a".repeat(4_000) } })
      )
      yield* expectReason("a secret", "ArgumentInvalid", sessions.update(id, { metadata: { password: "a" } }))
      yield* expectEqual("details", { title: "Order 43", metadata: {} }, yield* detailsOf)
      const changes = (yield* everyEntry(sessions, id)).filter(({ event }) => event._tag === "SessionUpdated")
      yield* expectEqual("changes", 3, changes.length)
    }
  ),
  rule(
    "KEEP-8 a session begins with a given conversation, which its first message is stored with",
    function* (sessions, { id }) {
      const asked = yield* Conversation.addUser(Conversation.empty, "reply x")
      const conversation = yield* Conversation.addAssistant(asked, "x")
      const calls = [Message.toolCallPart({ id: "c", name: "note", arguments: {} })]
      const open = yield* Conversation.addAssistant(asked, calls)
      yield* expectReason("open calls", "InputInvalid", send(sessions, id, "reply a", { conversation: open }))
      const secret = yield* Conversation.addUser(conversation, "reply y", {
        options: { openai: { apiKey: "a" } }
      })
      yield* expectReason("a secret", "InputInvalid", send(sessions, id, "reply a", { conversation: secret }))
      yield* expectEqual("state", Option.none(), yield* sessions.state(id))
      const first = { messageId: "a", conversation }
      const { text } = yield* ask(sessions, id, "reply a", first)
      yield* expectEqual("answer", "a", text)
      const lines = ["user reply x", "assistant x", "user reply a", "assistant a"]
      yield* expectLines(sessions, id, lines)
      const receipt = yield* send(sessions, id, "reply a", first)
      yield* expectEqual("the receipt of the same message", ["a", 1], [receipt.messageId, receipt.sequence])
      const other = { messageId: "a", conversation: asked }
      yield* expectReason("another conversation", "InputDiffers", send(sessions, id, "reply a", other))
      yield* expectReason("a second message", "Exists", send(sessions, id, "reply b", { conversation }))
      yield* expectLines(sessions, id, lines)
      const restarted = { conversation: asked, ifExists: "restart" } as const
      yield* expectEqual("answer", "c", (yield* ask(sessions, id, "reply c", restarted)).text)
      yield* expectLines(sessions, id, ["user reply x", "user reply c", "assistant c"])
    }
  ),
  rule(
    "KEEP-8 a list has pages of sessions and filters",
    function* (sessions, input) {
      const { id } = input
      const prefix = `${id}/list/`
      for (const name of ["a", "b", "c"]) {
        yield* ask(sessions, `${prefix}${name}`, `reply ${name}`, { title: name, metadata: { of: name, some: [1] } })
      }
      yield* send(sessions, `${prefix}c`, "pay x")
      yield* untilStatus(sessions, input, "waiting", `${prefix}c`)
      const listed = Effect.fnUntraced(function* (options?: Session.ListOptions) {
        const { next, sessions: found, unreadable } = yield* sessions.list({ prefix, ...options })
        yield* expectEqual("unreadable", [], unreadable)
        const titles = found.map(({ title }) => title).join(" ")
        return Option.match(next, { onNone: () => titles, onSome: () => `${titles} and more` })
      })
      yield* expectEqual("all", "c b a", yield* listed())
      yield* expectEqual("another prefix", "", yield* listed({ prefix: `${prefix}d` }))
      yield* expectEqual("the first page", "c b and more", yield* listed({ limit: 2 }))
      const { next } = yield* sessions.list({ prefix, limit: 2 })
      yield* expectEqual("the second page", "a", yield* listed({ limit: 2, after: Option.getOrThrow(next) }))
      yield* expectEqual("by status", "c", yield* listed({ status: "waiting" }))
      yield* expectEqual("by agent", ["c b a", ""], [yield* listed({ agent }), yield* listed({ agent: "other" })])
      yield* expectEqual("by metadata", "b", yield* listed({ metadata: { some: [1], of: "b" } }))
      yield* expectEqual("a page without sessions", " and more", yield* listed({ limit: 2, metadata: { of: "a" } }))
      yield* expectReason("a limit", "ArgumentInvalid", sessions.list({ limit: 0 }))

      const state = yield* existing(sessions, `${prefix}b`)
      const [found] = (yield* sessions.list({ prefix: `${prefix}b` })).sessions
      const { created, messages, sequence, status, updated } = state
      const shown = { id: `${prefix}b`, agent, title: "b", metadata: { of: "b", some: [1] }, created, updated, status }
      yield* expectEqual("a session of the list", { ...shown, messages, sequence }, found)
      yield* expectEqual("messages", Conversation.messageCount(yield* sessions.history(`${prefix}b`)), messages)
      yield* expectEqual("updated later", false, (yield* listed({ updatedAfter: updated })).includes("b"))
      yield* expectEqual("updated before", false, (yield* listed({ updatedBefore: updated })).includes("b"))
      yield* sessions.remove(`${prefix}b`)
      yield* expectEqual("after a removal", "c a", yield* listed())
    },
    ["/list/a", "/list/b", "/list/c"]
  ),
  rule("a plan is a session, too", function* (sessions, { id }) {
    const plan = { agent: "conformance_plan" }
    yield* expectEqual("answer", "go!", (yield* ask(sessions, id, "go", plan)).text)
    yield* expectEqual("answer", "again!", (yield* ask(sessions, id, "again", plan)).text)
  }),
  rule(
    "each id is that of another session",
    function* (sessions, { id }) {
      yield* Effect.forEach(unusualIds.entries(), ([index, unusual]) => ask(sessions, id + unusual, `reply ${index}`), {
        concurrency: 3,
        discard: true
      })
      for (const [index, unusual] of unusualIds.entries()) {
        yield* expectLines(sessions, id + unusual, [`user reply ${index}`, `assistant ${index}`])
      }
    },
    unusualIds
  )
]

const readers: ReadonlyArray<Rule> = [
  rule("events are numbered from 1, and a reader continues after any event", function* (sessions, input) {
    const { expectNext, id } = input
    yield* ask(sessions, id, "note a")
    yield* ask(sessions, id, "reply b")
    const { cursor, sequence } = yield* untilStatus(sessions, input, "idle")
    yield* expectNext(`events 1 to ${sequence}`)
    const entries = yield* everyEntry(sessions, id)
    const numbers = Array.from({ length: sequence }, (_, index) => index + 1)
    yield* expectEqual(
      "sequence",
      numbers,
      entries.map(({ sequence }) => sequence)
    )
    const whole = entries.map((entry): unknown => encodeEntry(entry))
    for (const after of [1, Math.floor(sequence / 2), sequence - 1]) {
      yield* expectNext(`the events after ${after}`)
      const rest = yield* readEntries(sessions, id, entries[after - 1]?.cursor, sequence - after)
      yield* expectEqual(`the events after ${after}`, show(whole.slice(after)), show(rest))
    }
    yield* expectNext(`event ${sequence + 1} at a reader who continues after ${sequence}`)
    const next = yield* Effect.forkChild(readEntries(sessions, id, cursor, 1))
    yield* ask(sessions, id, "reply c")
    const there = yield* readEntries(sessions, id, cursor, 1)
    yield* expectEqual("the next event", show(there), show(yield* Fiber.join(next)))
  }),
  rule("a reader sees every event once and in order while turns run", function* (sessions, { expectNext, id }) {
    yield* ask(sessions, id, "note a")
    const seen: Array<number> = []
    const reader = yield* Effect.forkChild(
      sessions.events(id).pipe(
        Stream.tap(({ sequence }) => Effect.sync(() => void seen.push(sequence))),
        Stream.takeUntil(
          ({ event }) =>
            event._tag === "MessageReceived" && event.input.some((part) => "text" in part && part.text === "reply end")
        ),
        Stream.runDrain
      )
    )
    yield* ask(sessions, id, "note b")
    yield* ask(sessions, id, "delegate c")
    yield* send(sessions, id, "reply end")
    yield* expectNext("the last message at a reader")
    yield* Fiber.join(reader)
    yield* expectEqual(
      "sequence",
      seen.map((_, index) => index + 1),
      seen
    )
  }),
  rule("the events fold to the history and to the state", function* (sessions, input) {
    const { id } = input
    yield* ask(sessions, id, "note a")
    yield* ask(sessions, id, "reply b")
    const state = yield* untilStatus(sessions, input, "idle")
    const entries = yield* everyEntry(sessions, id)
    const folded = Run.fold(entries.flatMap(({ event }) => (event._tag === "RunEvent" ? [event.event] : [])))
    if (Result.isFailure(folded)) return yield* Effect.fail(`events: ${folded.failure.message}`)
    const { conversation, outcome, totalSteps, usage } = folded.success
    const history = yield* sessions.history(id)
    yield* expectEqual("history", show(Conversation.transcript(conversation)), show(Conversation.transcript(history)))
    yield* expectEqual("state", [outcome?._tag, totalSteps, usage], [state.outcome, state.steps, state.usage])
  }),
  rule("SCREEN-1 live readers have each piece once, and all of it, wherever they begin", function* (sessions, input) {
    const { expectNext, id } = input
    yield* send(sessions, id, "type ab")
    const all = new Array<Session.LiveEntry>()
    const first = yield* Effect.forkScoped(
      Effect.gen(function* () {
        const read = sessions.live(id).pipe(Stream.takeUntil(endsLive))
        yield* Stream.runForEach(read, (entry) => Effect.sync(() => all.push(entry)))
      })
    )
    const isDelta = ({ event }: Session.LiveEntry) => event._tag === "AnswerDelta"
    yield* expectNext("the first piece")
    yield* Effect.repeat(Effect.sleep("5 millis"), { until: () => all.some(isDelta) })
    yield* expectNext("a reader who joins in the middle")
    const joined = yield* sessions.live(id).pipe(Stream.takeUntil(endsLive), Stream.runCollect)
    yield* Fiber.join(first)
    const text = "ab".repeat(40)
    for (const entries of [all, joined]) yield* expectEqual("written", [text], writtenIn(entries))
    yield* expectEqual("pieces", true, all.filter(isDelta).length > 1)
    yield* expectNext("a reader who continues after each entry")
    const events = yield* everyEntry(sessions, id)
    for (const [index, { cursor }] of all.entries()) {
      const rest = sessions.live(id, { after: cursor }).pipe(Stream.takeUntil(endsLive), Stream.runCollect)
      if (index === all.length - 1) continue
      yield* expectEqual("written", [text], writtenIn([...all.slice(0, index + 1), ...(yield* rest)]))
    }
    yield* expectEqual("events", events, yield* everyEntry(sessions, id))
  }),
  rule("a reader that does not read holds up no turn", function* (sessions, { expectNext, id }) {
    yield* ask(sessions, id, "reply a")
    yield* Effect.forkChild(Stream.runForEach(sessions.events(id), () => Effect.never))
    yield* expectNext("answers while a reader waits at the first event")
    for (const text of ["b", "c", "d"]) {
      yield* expectEqual("answer", text, (yield* ask(sessions, id, `reply ${text}`)).text)
    }
  }),
  rule("a caller that leaves ends no turn", function* (sessions, input) {
    const { expectNext, fixture, id } = input
    const caller = yield* Effect.forkChild(ask(sessions, id, "think a"))
    yield* expectNext("the model to be asked")
    yield* Deferred.await(fixture.gate("a").reached)
    yield* Fiber.interrupt(caller)
    yield* Deferred.succeed(fixture.gate("a").opened, undefined)
    yield* untilStatus(sessions, input, "idle")
    yield* expectLines(sessions, id, ["user think a", "assistant a"])
  }),
  rule("a long session has all its events and messages", function* (sessions, { expectNext, id }) {
    const turns = 60
    for (let turn = 0; turn < turns; turn++) {
      yield* expectNext(`the answer of turn ${turn + 1} of ${turns}`)
      yield* ask(sessions, id, `reply ${turn}`)
    }
    const { cursor, sequence, steps } = yield* existing(sessions, id)
    yield* expectEqual("steps", turns, steps)
    yield* expectEqual("messages", 2 * turns, linesOf(yield* sessions.history(id)).length)
    for (const after of [0, Math.floor(sequence / 3), sequence - 2]) {
      yield* expectNext(`the events after ${after} of ${sequence}`)
      const found = yield* sessions
        .events(id, { after: cursorAt(cursor, after) })
        .pipe(Stream.take(sequence - after), Stream.runCollect)
      const numbers = Array.from({ length: sequence - after }, (_, index) => after + index + 1)
      yield* expectEqual(`the events after ${after}`, show(numbers), show(found.map(({ sequence }) => sequence)))
    }
  })
]

const decisions: ReadonlyArray<Rule> = [
  rule("a call that waits runs once it is approved, once, and by no other decision", function* (sessions, input) {
    const { expectNext, fixture, id } = input
    const { outcome } = yield* ask(sessions, id, "pay a")
    yield* expectEqual("outcome", "AwaitingApproval", outcome)
    const { cursor, request, sequence } = yield* requestOf(sessions, input)
    yield* expectEqual("request", ["pay", { name: "a" }], [request.name, request.arguments])
    for (const wrong of [{ digest: "sha256:0" }, { callId: "other" }, { path: ["other"] }]) {
      const decided = sessions.decide(id, [{ ...request, approved: true, ...wrong }])
      yield* expectReason(`a decision with ${show(wrong)}`, "InvalidDecision", decided)
    }
    // Sound: a program without types sends it (RIGHT-18)
    const malformed = sessions.decide(id, [{ ...request, approved: "yes" } as never])
    const named = Effect.match(malformed, {
      onFailure: ({ reason }) =>
        reason._tag === "InvalidDecision" ? reason.error.waiting.map(({ callId }) => callId) : reason._tag,
      onSuccess: () => "none"
    })
    yield* expectEqual("the calls that an error about a malformed decision names", [request.callId], yield* named)
    const valid = { ...request, approved: true }
    yield* expectReason(
      "a decision about nothing beside a valid one",
      "InvalidDecision",
      sessions.decide(id, [valid, { ...valid, callId: "other" }])
    )
    yield* expectEqual("events", sequence, (yield* existing(sessions, id)).sequence)
    yield* expectEqual("calls before the decision", [], fixture.calls())
    yield* sessions.decide(id, [valid])
    yield* expectNext("the end of the turn that takes the decision")
    yield* untilEnd(sessions, id, cursor)
    const done = yield* untilStatus(sessions, input, "idle")
    yield* expectEqual("calls", ["pay a"], fixture.calls())
    yield* sessions.decide(id, [valid])
    yield* expectReason("the opposite", "InvalidDecision", sessions.decide(id, [{ ...request, approved: false }]))
    yield* expectEqual("events", done.sequence, (yield* existing(sessions, id)).sequence)
    yield* expectLines(sessions, id, ["user pay a", "tool success", "assistant after pay a"])
  }),
  rule("a call that is denied never runs, and the model reads the reason", function* (sessions, input) {
    const { expectNext, fixture, id } = input
    yield* ask(sessions, id, "pay a")
    const { cursor, request } = yield* requestOf(sessions, input)
    yield* sessions.decide(id, [{ ...request, approved: false, reason: "too much", decidedBy: "ada" }])
    yield* expectNext("the end of the turn that takes the decision")
    yield* untilEnd(sessions, id, cursor)
    yield* untilStatus(sessions, input, "idle")
    yield* expectEqual("calls", [], fixture.calls())
    yield* expectLines(sessions, id, ["user pay a", "tool denied", "assistant after too much"])
  }),
  rule("a call of an agent that is a tool is decided by its path", function* (sessions, input) {
    const { expectNext, fixture, id } = input
    yield* ask(sessions, id, "delegate a")
    const { cursor, request } = yield* requestOf(sessions, input)
    yield* expectEqual("the path of the request", 1, request.path?.length)
    yield* sessions.decide(id, [{ ...request, approved: true }])
    yield* expectNext("the end of the turn that takes the decision")
    yield* untilEnd(sessions, id, cursor)
    yield* expectEqual("calls", ["pay a"], fixture.calls())
    yield* expectEqual("outcome", "Completed", (yield* untilStatus(sessions, input, "idle")).outcome)
  }),
  rule("a message that comes while calls wait is answered when they are decided", function* (sessions, input) {
    const { expectNext, id } = input
    yield* ask(sessions, id, "pay a")
    const { request } = yield* requestOf(sessions, input)
    yield* send(sessions, id, "reply b", { messageId: "b" })
    const { cursor } = yield* untilStatus(sessions, input, "waiting")
    yield* sessions.decide(id, [{ ...request, approved: true }])
    yield* expectNext("the end of the turn that takes the decision")
    yield* untilEnd(sessions, id, cursor)
    yield* untilStatus(sessions, input, "idle")
    yield* expectLines(sessions, id, ["user pay a", "tool success", "user reply b", "assistant b"])
  }),
  rule(
    'a call that waits is denied by a message with pending: "deny", and by an interruption',
    function* (sessions, input) {
      const { fixture, id } = input
      yield* ask(sessions, id, "pay a")
      yield* expectEqual("answer", "b", (yield* ask(sessions, id, "reply b", { pending: "deny" })).text)
      yield* ask(sessions, id, "pay c")
      yield* untilStatus(sessions, input, "waiting")
      yield* expectEqual("interrupt", true, yield* stop(sessions, id))
      const { outcome, status } = yield* existing(sessions, id)
      yield* expectEqual("state", ["idle", "Interrupted"], [status, outcome])
      yield* expectEqual("calls", [], fixture.calls())
      const denied = ["user pay a", "tool denied", "user reply b", "assistant b", "user pay c", "tool denied"]
      yield* expectLines(sessions, id, denied)
    }
  )
]

const awaiting = (answer: Session.Answer): unknown => [
  answer.outcome,
  answer.outcome === "AwaitingApproval" ? answer.requests.map(({ name }) => name) : [],
  answer.waitsBehind
]

const asks: ReadonlyArray<Rule> = [
  rule(
    "RIGHT-12 a caller returns where calls of another context wait, and so does one behind it",
    function* (sessions, input) {
      const { expectNext, fixture, id } = input
      const bob = { context: { user: "bob" } }
      yield* ask(sessions, id, "pay a", { messageId: "a", ...bob })
      const waiting = ["AwaitingApproval", ["pay"], "a"]
      yield* expectNext("the answer for a message with another context")
      const b = { messageId: "b" }
      yield* expectEqual("b", waiting, awaiting(yield* ask(sessions, id, "reply b", b)))
      yield* expectNext("the answers of messages behind it")
      const others: ReadonlyArray<Session.SendOptions> = [
        bob,
        {},
        { ...bob, whenBusy: "reject" },
        { whenBusy: "reject" }
      ]
      for (const options of others) {
        yield* expectEqual("behind b", waiting, awaiting(yield* ask(sessions, id, "reply c", options)))
      }
      yield* expectEqual("b again", waiting, awaiting(yield* ask(sessions, id, "reply b", b)))
      const { queue } = yield* existing(sessions, id)
      yield* expectEqual("messages that wait", 5, queue.length)
      const { request } = yield* requestOf(sessions, input)
      yield* sessions.decide(id, [{ ...request, approved: true }])
      yield* expectNext("the answer of the message that waited")
      yield* expectEqual("answer", "b", (yield* ask(sessions, id, "reply b", b)).text)
      yield* untilStatus(sessions, input, "idle")
      yield* expectEqual("calls", ["pay a"], fixture.calls())
      const replies = [1, 2, 3, 4].flatMap(() => ["user reply c", "assistant c"])
      const lines = ["user pay a", "tool success", "assistant after pay a", "user reply b", "assistant b", ...replies]
      yield* expectLines(sessions, id, lines)
    }
  ),
  rule(
    "RIGHT-12 a caller returns when calls begin to wait before the turn of its message",
    function* (sessions, input) {
      const { expectNext, fixture, id } = input
      const bob = { context: { user: "bob" } }
      yield* send(sessions, id, "think z", { messageId: "z", ...bob })
      yield* expectNext("the model to be asked")
      yield* Deferred.await(fixture.gate("z").reached)
      yield* send(sessions, id, "pay a", { messageId: "a", ...bob })
      const asking = yield* Effect.forkScoped(ask(sessions, id, "reply b", { messageId: "b" }))
      yield* Effect.repeat(Effect.andThen(Effect.sleep("5 millis"), existing(sessions, id)), {
        until: ({ queue }) => queue.includes("b")
      })
      yield* Deferred.succeed(fixture.gate("z").opened, undefined)
      yield* expectNext("the answer for the message behind the call")
      yield* expectEqual("b", ["AwaitingApproval", ["pay"], "a"], awaiting(yield* Fiber.join(asking)))
      yield* expectEqual("interrupt", true, yield* stop(sessions, id))
      yield* expectNext("the answer of the message that waited")
      yield* expectEqual("answer", "b", (yield* ask(sessions, id, "reply b", { messageId: "b" })).text)
      yield* expectEqual("calls", [], fixture.calls())
    }
  )
]

const edits: ReadonlyArray<Rule> = [
  rule(
    "RIGHT-15 an edit of a message that waits replaces it in its place, and leaves the turn alone",
    function* (sessions, input) {
      const { expectNext, fixture, id } = input
      yield* send(sessions, id, "think a", { messageId: "a" })
      yield* expectNext("the model to be asked")
      yield* Deferred.await(fixture.gate("a").reached)
      const bob = { context: { user: "bob" } }
      const waiting = yield* Effect.forkScoped(Effect.flip(ask(sessions, id, "reply b", { messageId: "b" })))
      yield* Effect.repeat(Effect.andThen(Effect.sleep("5 millis"), existing(sessions, id)), {
        until: ({ queue }) => queue.includes("b")
      })
      yield* send(sessions, id, "context c", { messageId: "c", ...bob })
      yield* send(sessions, id, "reply d", { messageId: "d" })
      const edit = { messageId: "b", input: "reply e", newMessageId: "e" }
      const receipt = yield* sessions.edit(id, edit)
      yield* sessions.edit(id, { messageId: "c", newMessageId: "f" })
      yield* expectNext("an error for the caller of the message that was replaced")
      yield* expectEqual("the reason", "TurnFailed", (yield* Fiber.join(waiting)).reason._tag)
      const { queue, status } = yield* existing(sessions, id)
      yield* expectEqual("state", ["running", ["e", "f", "d"]], [status, queue])
      yield* expectEqual("the receipt of the same edit", receipt.sequence, (yield* sessions.edit(id, edit)).sequence)
      yield* Deferred.succeed(fixture.gate("a").opened, undefined)
      yield* expectNext("the answers")
      yield* untilStatus(sessions, input, "idle")
      const replies = ["user reply e", "assistant e", "user context c", "tool success"]
      const last = ['assistant after {"user":"bob"}', "user reply d", "assistant d"]
      yield* expectLines(sessions, id, ["user think a", "assistant a", ...replies, ...last])
    }
  ),
  rule("RIGHT-15 an edit without input has the context of its message again", function* (sessions, input) {
    const { id } = input
    const bob = { context: { user: "bob" } }
    yield* ask(sessions, id, "context a", { messageId: "a", ...bob })
    yield* ask(sessions, id, "reply b", { messageId: "b" })
    const { messageId } = yield* sessions.edit(id, { messageId: "a" })
    yield* ask(sessions, id, "context a", { messageId, ...bob })
    yield* expectLines(sessions, id, ["user context a", "tool success", 'assistant after {"user":"bob"}'])
    const own = yield* sessions.edit(id, { messageId, context: {} })
    yield* ask(sessions, id, "context a", { messageId: own.messageId, context: {} })
    yield* expectLines(sessions, id, ["user context a", "tool success", "assistant after {}"])
  }),
  rule(
    "RIGHT-15 an edit that was made is known by all of it, and no id is taken twice",
    function* (sessions, input) {
      const { id } = input
      for (const name of ["a", "b"]) yield* ask(sessions, id, `reply ${name}`, { messageId: name })
      const edit = { messageId: "b", newMessageId: "c" }
      const receipt = yield* sessions.edit(id, edit)
      yield* untilStatus(sessions, input, "idle")
      const { sequence } = yield* existing(sessions, id)
      yield* expectEqual("the same edit", receipt, yield* sessions.edit(id, edit))
      for (const other of [
        { ...edit, messageId: "a" },
        { ...edit, input: "reply c" },
        { ...edit, newMessageId: "a" }
      ]) {
        yield* expectReason("another edit", "InputDiffers", sessions.edit(id, other))
      }
      yield* expectEqual("events", sequence, (yield* existing(sessions, id)).sequence)
      const user = yield* Message.user("old", { id: "a" })
      const conversation = Result.getOrThrow(Conversation.append(Conversation.empty, user))
      const began = send(sessions, `${id}/a`, "reply a", { messageId: "a", conversation })
      yield* expectReason("a message of the conversation", "InputInvalid", began)
      yield* sessions.fork(id, { to: `${id}/b` })
      const again = send(sessions, `${id}/b`, "reply a", { messageId: "a" })
      yield* expectReason("a message of the session that was forked", "InputDiffers", again)
    },
    ["", "/a", "/b"]
  ),
  rule("RIGHT-11 a message that waits is withdrawn, and the turn before it is left alone", function* (sessions, input) {
    const { expectNext, fixture, id } = input
    yield* expectReason("no session", "NotFound", sessions.withdraw(id, "a"))
    yield* send(sessions, id, "think a", { messageId: "a" })
    yield* expectNext("the model to be asked")
    yield* Deferred.await(fixture.gate("a").reached)
    const waiting = yield* Effect.forkScoped(Effect.flip(ask(sessions, id, "reply b", { messageId: "b" })))
    yield* expectNext("the next message to be stored")
    yield* Effect.repeat(Effect.andThen(Effect.sleep("5 millis"), existing(sessions, id)), {
      until: ({ queue }) => queue.length === 1
    })
    yield* expectNext("the message to be withdrawn")
    const answers = Effect.forEach(["b", "b", "a", "x"], (messageId) => sessions.withdraw(id, messageId))
    yield* expectEqual("withdraw", [true, false, false, false], yield* answers)
    yield* expectNext("an error for the caller of the message")
    const { reason } = yield* Fiber.join(waiting)
    yield* expectEqual("the error", "Withdrawn", reason._tag === "TurnFailed" ? reason.failure.reason : reason._tag)
    yield* Deferred.succeed(fixture.gate("a").opened, undefined)
    yield* expectNext("the turn to end")
    const { queue } = yield* untilStatus(sessions, input, "idle")
    yield* expectEqual("queue", [], queue)
    yield* expectLines(sessions, id, ["user think a", "assistant a"])
    const tags = (yield* everyEntry(sessions, id)).map(({ event }) => event._tag)
    yield* expectEqual("events", 1, tags.filter((tag) => tag === "MessageDropped").length)
  }),
  rule("KEEP-8 an edited message is answered again, and what came after it is gone", function* (sessions, input) {
    const { fixture, id } = input
    yield* expectReason("no session", "NotFound", sessions.edit(id, { messageId: "a" }))
    yield* ask(sessions, id, "reply a", { messageId: "a" })
    yield* ask(sessions, id, "note b", { messageId: "b" })
    yield* ask(sessions, id, "reply c", { messageId: "c" })
    const before = yield* existing(sessions, id)
    yield* expectReason("an unknown message", "MessageUnknown", sessions.edit(id, { messageId: "x" }))
    yield* expectReason("an empty message", "InputInvalid", sessions.edit(id, { messageId: "b", input: "" }))
    yield* expectEqual("events", before.sequence, (yield* existing(sessions, id)).sequence)
    const edit = { messageId: "b", input: "reply d", newMessageId: "d" }
    const receipt = yield* sessions.edit(id, edit)
    const answered = Session.await(id, { cursor: before.cursor })
    yield* expectEqual("answer", "d", (yield* Effect.provideService(answered, Session.Session, sessions)).text)
    yield* expectLines(sessions, id, ["user reply a", "assistant a", "user reply d", "assistant d"])
    yield* expectEqual("the receipt of the same edit", receipt, yield* sessions.edit(id, edit))
    yield* expectReason("another edit", "InputDiffers", sessions.edit(id, { ...edit, input: "reply e" }))
    yield* expectReason("a removed message", "MessageUnknown", sessions.edit(id, { messageId: "c" }))
    const { steps } = yield* untilStatus(sessions, input, "idle")
    yield* expectEqual("answers that were paid for", before.steps + 1, steps)
    const again = yield* sessions.edit(id, { messageId: "a" })
    yield* ask(sessions, id, "reply a", { messageId: again.messageId })
    yield* expectLines(sessions, id, ["user reply a", "assistant a"])
    yield* expectEqual("calls", ["note b"], fixture.calls())
    const first = Conversation.messages(yield* sessions.history(id)).find(({ role }) => role === "user")
    yield* expectEqual("the id in the conversation", again.messageId, first?.id)
  }),
  rule("KEEP-8 an edit stops the turn, and messages that wait are dropped", function* (sessions, input) {
    const { expectNext, fixture, id } = input
    yield* ask(sessions, id, "reply a", { messageId: "a" })
    yield* send(sessions, id, "hold b", { messageId: "b" })
    yield* expectNext("the tool to be called")
    yield* Deferred.await(fixture.gate("b").reached)
    const waiting = yield* Effect.forkScoped(Effect.flip(ask(sessions, id, "note c", { messageId: "c" })))
    yield* expectNext("the next message to be stored")
    const { sequence } = yield* Effect.repeat(Effect.andThen(Effect.sleep("5 millis"), existing(sessions, id)), {
      until: ({ queue }) => queue.length === 1
    })
    yield* expectNext("the edit to stop the turn")
    const { messageId } = yield* sessions.edit(id, { messageId: "b", input: "reply d" })
    yield* expectNext("an error for the caller of the message that waited")
    yield* expectEqual("the reason", "TurnFailed", (yield* Fiber.join(waiting)).reason._tag)
    yield* expectEqual("answer", "d", (yield* ask(sessions, id, "reply d", { messageId })).text)
    yield* untilStatus(sessions, input, "idle")
    yield* expectLines(sessions, id, ["user reply a", "assistant a", "user reply d", "assistant d"])
    yield* expectEqual("calls", ["hold b"], fixture.calls())
    const tags = (yield* everyEntry(sessions, id)).flatMap((entry) =>
      entry.sequence <= sequence || entry.event._tag === "RunEvent" ? [] : [entry.event._tag]
    )
    yield* expectEqual("events", ["MessageDropped", "MessageReceived"], tags)
  }),
  rule(
    "KEEP-8 an edit ends calls that wait, or leaves them where the message came after them",
    function* (sessions, input) {
      const { expectNext, fixture, id } = input
      yield* ask(sessions, id, "pay a", { messageId: "a" })
      yield* ask(sessions, id, "reply b", { messageId: "b" })
      const { request } = yield* requestOf(sessions, input)
      const edited = yield* sessions.edit(id, { messageId: "b", input: "reply c" })
      yield* expectNext("the edited message to wait for the call")
      const { cursor } = yield* untilStatus(sessions, input, "waiting")
      yield* sessions.decide(id, [{ ...request, approved: true }])
      yield* expectNext("the end of the turn that takes the decision")
      yield* untilEnd(sessions, id, cursor)
      yield* untilStatus(sessions, input, "idle")
      yield* expectLines(sessions, id, ["user pay a", "tool success", "user reply c", "assistant c"])
      yield* ask(sessions, id, "pay d", { messageId: "d" })
      const second = yield* requestOf(sessions, input)
      const again = yield* sessions.edit(id, { messageId: "d", input: "reply e" })
      yield* expectEqual("answer", "e", (yield* ask(sessions, id, "reply e", { messageId: again.messageId })).text)
      const late = sessions.decide(id, [{ ...second.request, approved: true }])
      yield* expectReason("a decision about the call that is gone", "InvalidDecision", late)
      yield* sessions.edit(id, { messageId: edited.messageId, input: "reply f" })
      yield* untilStatus(sessions, input, "idle")
      yield* expectLines(sessions, id, ["user pay a", "tool success", "user reply f", "assistant f"])
      yield* expectEqual("calls", ["pay a"], fixture.calls())
    }
  )
]

const forks: ReadonlyArray<Rule> = [
  rule(
    "KEEP-8 a fork continues from a place of a session, which stays as it is",
    function* (sessions, input) {
      const { fixture, id } = input
      const to = (name: string) => ({ to: `${id}/${name}` })
      yield* expectReason("no session", "NotFound", sessions.fork(id, to("a")))
      yield* ask(sessions, id, "note a", { messageId: "a", title: "Order 42" })
      const first = yield* untilStatus(sessions, input, "idle")
      yield* ask(sessions, id, "reply b", { messageId: "b" })
      const before = yield* untilStatus(sessions, input, "idle")
      yield* expectReason(
        "a place to come",
        "EventsUnknown",
        sessions.fork(id, { ...to("a"), at: cursorAt(before.cursor, before.sequence + 1) })
      )
      yield* expectReason("no place", "EventsUnknown", sessions.fork(id, { ...to("a"), at: "x" }))
      yield* sessions.fork(id, { ...to("a"), at: first.cursor })
      yield* sessions.fork(id, to("b"))
      yield* expectReason("a second fork", "Exists", sessions.fork(id, to("a")))
      yield* expectReason("itself", "Exists", sessions.fork(id, { to: id }))
      const forked = yield* existing(sessions, to("a").to)
      yield* expectEqual(
        "state",
        ["Order 42", "idle", 1, 2],
        [forked.title, forked.status, forked.sequence, forked.steps]
      )
      const [entry] = yield* everyEntry(sessions, to("a").to)
      const event = entry?.event._tag === "SessionForked" ? [entry.event.from, entry.event.cursor] : []
      yield* expectEqual("the first event", [id, first.cursor], event)
      yield* ask(sessions, to("a").to, "reply c", { messageId: "b" })
      const lines = ["user note a", "tool success", "assistant after note a"]
      yield* expectLines(sessions, to("a").to, [...lines, "user reply c", "assistant c"])
      yield* expectLines(sessions, to("b").to, [...lines, "user reply b", "assistant b"])
      const edited = yield* sessions.edit(to("b").to, { messageId: "a", input: "reply d" })
      yield* ask(sessions, to("b").to, "reply d", { messageId: edited.messageId })
      yield* expectLines(sessions, to("b").to, ["user reply d", "assistant d"])
      yield* expectEqual("the session", show(before), show(yield* existing(sessions, id)))
      yield* expectLines(sessions, id, [...lines, "user reply b", "assistant b"])
      yield* expectEqual("calls", ["note a"], fixture.calls())
    },
    ["", "/a", "/b"]
  ),
  rule(
    "KEEP-8 a fork of a turn under way or of a call that waits runs no call",
    function* (sessions, input) {
      const { expectNext, fixture, id } = input
      yield* send(sessions, id, "hold a", { messageId: "a" })
      yield* expectNext("the tool to be called")
      yield* Deferred.await(fixture.gate("a").reached)
      yield* send(sessions, id, "pay b", { messageId: "b" })
      yield* sessions.fork(id, { to: `${id}/a` })
      yield* expectLines(sessions, `${id}/a`, ["user hold a", "tool interrupted"])
      yield* Deferred.succeed(fixture.gate("a").opened, undefined)
      const { request } = yield* requestOf(sessions, input)
      const { cursor } = yield* existing(sessions, id)
      yield* sessions.decide(id, [{ ...request, approved: true }])
      yield* expectNext("the end of the turn that takes the decision")
      yield* untilEnd(sessions, id, cursor)
      yield* sessions.fork(id, { to: `${id}/b`, at: cursor })
      const { requests, status } = yield* existing(sessions, `${id}/b`)
      yield* expectEqual("state", [[], "idle"], [requests, status])
      const decided = sessions.decide(`${id}/b`, [{ ...request, approved: true }])
      yield* expectReason("a decision in the fork", "InvalidDecision", decided)
      yield* expectEqual("answer", "c", (yield* ask(sessions, `${id}/b`, "reply c")).text)
      yield* expectEqual("answer", "d", (yield* ask(sessions, `${id}/a`, "reply d")).text)
      yield* expectLines(sessions, `${id}/b`, [
        "user hold a",
        "tool success",
        "assistant after hold a",
        "user pay b",
        "tool denied",
        "user reply c",
        "assistant c"
      ])
      yield* expectEqual("calls", ["hold a", "pay b"], fixture.calls())
    },
    ["", "/a", "/b"]
  )
]

const ends: ReadonlyArray<Rule> = [
  rule("an interruption ends the turn, and the messages that wait are answered next", function* (sessions, input) {
    const { expectNext, fixture, id } = input
    yield* expectReason("interrupt", "NotFound", sessions.interrupt(id))
    yield* send(sessions, id, "hold a", { messageId: "a" })
    yield* expectNext("the tool to be called")
    yield* Deferred.await(fixture.gate("a").reached)
    yield* send(sessions, id, "reply b", { messageId: "b" })
    yield* expectNext("the interruption to end the turn")
    yield* expectEqual("interrupt", true, yield* stop(sessions, id))
    const ended = (yield* everyEntry(sessions, id)).filter(
      ({ event }) => event._tag === "RunEvent" && event.event._tag === "RunFinished"
    )
    yield* expectEqual("turns that ended when interrupt returned", true, ended.length > 0)
    yield* expectNext("the end of the interrupted turn, for a caller that waits for it")
    const first = yield* ask(sessions, id, "hold a", { messageId: "a" })
    yield* expectEqual("outcome", "Interrupted", first.outcome)
    yield* expectNext("the answer of the next message")
    yield* expectEqual("answer", "b", (yield* ask(sessions, id, "reply b", { messageId: "b" })).text)
    yield* untilStatus(sessions, input, "idle")
    yield* expectEqual("interrupt without a turn", false, yield* stop(sessions, id))
    yield* expectLines(sessions, id, ["user hold a", "tool interrupted", "user reply b", "assistant b"])
    yield* expectEqual("calls", ["hold a"], fixture.calls())
  }),
  rule("a turn that fails is an event, and resume continues from where it failed", function* (sessions, input) {
    const { expectNext, fixture, id } = input
    yield* ask(sessions, id, "note a")
    fixture.probe.isDown = true
    yield* expectNext("the turn to fail")
    yield* expectReason("the turn", "TurnFailed", ask(sessions, id, "fail b"))
    const failed = yield* untilStatus(sessions, input, "idle")
    yield* expectEqual("failure", ["ModelFailed", undefined], [failed.failure?.reason, failed.outcome])
    fixture.probe.isDown = false
    yield* sessions.resume(id)
    yield* expectNext("the resumed turn to end")
    yield* untilEnd(sessions, id, failed.cursor)
    const done = yield* untilStatus(sessions, input, "idle")
    yield* expectEqual("state", [undefined, "Completed"], [done.failure, done.outcome])
    yield* expectLines(sessions, id, [
      "user note a",
      "tool success",
      "assistant after note a",
      "user fail b",
      "assistant b"
    ])
    yield* expectEqual("calls", ["note a"], fixture.calls())
  }),
  rule("MONEY-1 a model over its limit is asked again, and what it had written is void", function* (sessions, input) {
    const { fixture, id } = input
    fixture.probe.failures = 0
    yield* expectEqual("answer", "a", (yield* ask(sessions, id, "retry a")).text)
    const retries = (yield* everyEntry(sessions, id)).flatMap(({ event }) =>
      event._tag === "RunEvent" && event.event._tag === "StepRetried" ? [event.event.error, event.event.attempt] : []
    )
    yield* expectEqual("retries", ["RateLimitError", 2], retries)
    yield* expectLines(sessions, id, ["user retry a", "assistant a"])
  }),
  rule("a removed session is gone, and its id begins again from 1", function* (sessions, input) {
    const { expectNext, fixture, id } = input
    const { cursor } = yield* send(sessions, id, "reply a", { messageId: "a" })
    yield* ask(sessions, id, "reply a", { messageId: "a" })
    yield* send(sessions, id, "hold b", { messageId: "b" })
    yield* expectNext("the tool to be called")
    yield* Deferred.await(fixture.gate("b").reached)
    yield* expectNext("the session to be removed although a turn is under way")
    yield* expectEqual("remove", true, yield* sessions.remove(id))
    yield* Deferred.succeed(fixture.gate("b").opened, undefined)
    yield* expectEqual("state", Option.none(), yield* sessions.state(id))
    yield* expectReason("history", "NotFound", sessions.history(id))
    yield* expectEqual("remove", false, yield* sessions.remove(id))
    yield* expectNext("the first event of the new session")
    const { sequence } = yield* send(sessions, id, "reply c", { messageId: "b" })
    yield* expectEqual("the number of the first event", 1, sequence)
    yield* untilStatus(sessions, input, "idle")
    yield* expectLines(sessions, id, ["user reply c", "assistant c"])
    yield* expectNext("an error for a reader of the session that was removed")
    const events = sessions.events(id, { after: cursor })
    yield* expectReason("events after a cursor of the removed session", "EventsUnknown", Stream.runHead(events))
  }),
  rule(
    "RIGHT-15 the changes of a list are a stream: its page, then what is new, changed or removed",
    function* (sessions, { expectNext, id }) {
      const prefix = `${id}/list/`
      yield* ask(sessions, `${prefix}a`, "reply a")
      const seen: Array<string> = []
      const changed = (text: string) => Effect.sync(() => seen.includes(text))
      const show = (change: Session.ListChange): string => {
        if (change._tag === "Page") return change.page.sessions.map((session) => session.id).join(" ")
        return change._tag === "Removed" ? `no ${change.id}` : `${change.session.id} ${change.session.title}`
      }
      yield* sessions.listChanges({ prefix }).pipe(
        Stream.runForEach((change) => Effect.sync(() => seen.push(show(change)))),
        Effect.forkScoped
      )
      const until = (text: string) =>
        Effect.andThen(
          expectNext(`the change ${text}`),
          Effect.repeat(Effect.delay(changed(text), "20 millis"), { until: (is) => is })
        )
      yield* until(`${prefix}a`)
      yield* ask(sessions, `${prefix}b`, "reply b", { title: "B" })
      yield* until(`${prefix}b B`)
      yield* sessions.update(`${prefix}a`, { title: "A" })
      yield* until(`${prefix}a A`)
      yield* sessions.remove(`${prefix}b`)
      yield* until(`no ${prefix}b`)
    },
    ["/list/a", "/list/b"]
  )
]

/** The rules of sessions that outlive their layer. */
const durableRules: ReadonlyArray<Rule> = [
  {
    name: "a session is there when the layer is built again, with what it waits for",
    ids: [""],
    check: Effect.fnUntraced(function* (input) {
      const { expectNext, fixture, id, open } = input
      const seen = (sessions: Session.Service) =>
        Effect.gen(function* () {
          const state = yield* untilStatus(sessions, input, "waiting")
          const entries = (yield* everyEntry(sessions, id)).map((entry): unknown => encodeEntry(entry))
          return show([state, entries, Conversation.transcript(yield* sessions.history(id))])
        })
      const before = yield* open((sessions) =>
        Effect.andThen(
          ask(sessions, id, "reply a"),
          Effect.andThen(ask(sessions, id, "pay b", { messageId: "b" }), seen(sessions))
        )
      )
      yield* expectNext("the session in the next layer")
      yield* open(
        Effect.fnUntraced(function* (sessions) {
          yield* expectEqual("the session", before, yield* seen(sessions))
          const { cursor, request, sequence } = yield* requestOf(sessions, input)
          yield* send(sessions, id, "pay b", { messageId: "b" })
          yield* expectEqual("events", sequence, (yield* existing(sessions, id)).sequence)
          yield* sessions.decide(id, [{ ...request, approved: true }])
          yield* expectNext("the end of the turn that takes the decision")
          yield* untilEnd(sessions, id, cursor)
          yield* expectEqual("calls", ["pay b"], fixture.calls())
        })
      )
    })
  },
  {
    name: "messages whose turns were cut off by the end of the layer are answered by the next one",
    ids: [""],
    check: Effect.fnUntraced(function* (input) {
      const { expectNext, fixture, id, open } = input
      yield* open(
        Effect.fnUntraced(function* (sessions) {
          yield* send(sessions, id, "think a", { messageId: "a" })
          yield* send(sessions, id, "note b", { messageId: "b" })
          yield* expectNext("the model to be asked")
          yield* Deferred.await(fixture.gate("a").reached)
          yield* expectNext("the layer to end while the model is asked")
        })
      )
      yield* Deferred.succeed(fixture.gate("a").opened, undefined)
      yield* open(
        Effect.fnUntraced(function* (sessions) {
          yield* expectNext("the answer of the message whose turn was cut off")
          yield* expectEqual("answer", "a", (yield* ask(sessions, id, "think a", { messageId: "a" })).text)
          yield* expectNext("the answer of the message that waited")
          yield* ask(sessions, id, "note b", { messageId: "b" })
          const lines = ["user think a", "assistant a", "user note b", "tool success", "assistant after note b"]
          yield* expectLines(sessions, id, lines)
          yield* expectEqual("calls", ["note b"], fixture.calls())
        })
      )
    })
  },
  {
    name: "a tool call under way at the end of the layer does not run twice",
    ids: [""],
    check: Effect.fnUntraced(function* (input) {
      const { expectNext, fixture, id, open } = input
      const { opened, reached } = fixture.gate("a")
      yield* open(
        Effect.fnUntraced(function* (sessions) {
          yield* send(sessions, id, "hold a", { messageId: "a" })
          yield* expectNext("the tool to be called")
          yield* Deferred.await(reached)
          yield* Effect.forkDetach(Effect.andThen(Effect.sleep("50 millis"), Deferred.succeed(opened, undefined)))
          yield* expectNext("the layer to end while a tool is called")
        })
      )
      yield* open(
        Effect.fnUntraced(function* (sessions) {
          yield* expectNext("the answer of the message whose turn was cut off")
          yield* ask(sessions, id, "hold a", { messageId: "a" })
          yield* expectEqual("calls", ["hold a"], fixture.calls())
        })
      )
    })
  }
]

const rules: ReadonlyArray<Rule> = [...messages, ...readers, ...decisions, ...asks, ...edits, ...forks, ...ends]

/** The agents that a layer of sessions hosts. */
export type Agents = Fixture["agents"]

/**
 * The checks for a layer of sessions. Each one builds the layer, and removes its sessions before and after.
 *
 * - `durable`: sessions outlive the layer, and the layer built again finds them. Default `true`.
 * - `limit`: of a check, in real time. A check that takes longer fails and names the event that did not happen. Default 4 minutes.
 */
export const session = <E = never>(
  name: string,
  layer: (agents: Agents) => Layer.Layer<Session.Session, E>,
  options?: Conformance.StoreOptions & { readonly limit?: Duration.Input | undefined }
): ReadonlyArray<Conformance.Check> =>
  [...rules, ...(options?.durable === false ? [] : durableRules)].map((rule, index) => {
    const id = `conformance/${index}`
    const progress = { expected: "the layer of sessions to be built" }
    const program = Effect.gen(function* () {
      const fixture = yield* makeFixture
      const open: Input["open"] = (use) =>
        Effect.scoped(
          Effect.flatMap(Layer.build(Layer.fresh(layer(fixture.agents))), (context) =>
            use(Context.get(context, Session.Session))
          )
        )
      const clear = open((sessions) =>
        Effect.forEach(rule.ids, (more) => sessions.remove(id + more), { discard: true })
      )
      const expectNext = (expected: string) => Effect.sync(() => void (progress.expected = expected))
      if (options?.durable !== false) yield* clear
      yield* rule.check({ id, fixture, open, expectNext })
      if (options?.durable !== false) yield* clear
    })
    const limit = Duration.fromInputUnsafe(options?.limit ?? "4 minutes")
    const timed = Effect.provideService(Effect.scoped(program), Clock.Clock, realClock)
    return makeCheck(name, rule.name, endWithin(limit, progress, timed))
  })
