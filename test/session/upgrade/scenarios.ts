/** The scenarios of the golden sessions: chats here, jobs in `job-scenarios.ts`. A released set has a file of each, so they stay. */
import { DateTime, Effect, Fiber, Option, Queue, Result, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Conversation, Guard, Message, Run } from "effect-emissary"
import { Digest } from "effect-emissary/payload"
import { Session } from "effect-emissary/session"
import { ToolResult } from "effect-emissary/tool"
import assert from "node:assert"
import * as cast from "./cast.ts"
import {
  answerAfter,
  answerWith,
  callsOf,
  decide,
  decideAll,
  instructionsOf,
  isIdle,
  reasonOf,
  textsOf,
  unknown,
  until
} from "./continue.ts"
import type { Body, Scenario } from "./golden.ts"
import { jobScenarios } from "./job-scenarios.ts"

const stopped = "The run was interrupted while the tool was executing, and it is not known whether it took effect."

const chat: Scenario = {
  name: "chat",
  begin: [
    Effect.fnUntraced(function* (sessions) {
      const details = { title: "First", metadata: { team: 1 } }
      yield* Session.turn("chat", "Hello", { agent: "support", messageId: "m1", context: { user: "ada" }, ...details })
      yield* TestClock.adjust("1 minute")
      yield* Session.turn("chat", "look a & drop b & unknown c", { messageId: "m2", model: "demo/large" })
      yield* sessions.update("chat", { title: "Hello and more", metadata: { team: { name: "x" } } })
      yield* Session.turn("chat/other", "muddle", { agent: "support" })
      yield* sessions.send("chat/other", "again")
      yield* sessions.events("chat/other").pipe(
        Stream.filter(({ event }) => event._tag === "RunEvent" && event.event._tag === "StepRetried"),
        Stream.runHead
      )
      yield* Effect.repeat(Effect.yieldNow, { times: 100 })
      yield* TestClock.adjust("1 second")
      yield* until(sessions, "chat/other", isIdle)
      yield* Session.turn("chat/other", "spoil", { messageId: "m2" })
      yield* sessions.list()
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions) {
    assert.strictEqual((yield* Session.turn("chat", "look again")).text, "small: look of again")
    // The message is known, and its answer is found again
    assert.strictEqual(
      (yield* Session.turn("chat", "Hello", { messageId: "m1", context: { user: "ada" } })).text,
      "small: Hello"
    )
    yield* sessions.update("chat", { metadata: { team: 2 } })
    const { sessions: listed } = yield* sessions.list({ metadata: { team: 2 } })
    assert.deepStrictEqual(
      listed.map(({ id, title }) => [id, title]),
      [["chat", "Hello and more"]]
    )
    assert.strictEqual(yield* sessions.remove("chat"), true)
    assert.deepStrictEqual(yield* sessions.state("chat"), Option.none())
  })
}

/** A session that begins with messages of another system, a prompt that is cut, an answer as data, and agents and plans behind tools. */
const answers: Scenario = {
  name: "answers",
  begin: [
    Effect.fnUntraced(function* () {
      const image = { type: "file", mediaType: "image/png", data: { type: "base64", base64: "iVBORw0KGgo=" } } as const
      const user = yield* Message.user([{ type: "text", text: "What is this?" }, image], { id: "old" })
      const question = Result.getOrThrow(Conversation.append(Conversation.empty, user))
      const answered = yield* Conversation.addAssistant(question, "A dot.")
      const conversation = Conversation.withTokenLimit(answered, 10_000)
      yield* Session.turn("imported", "Are you sure?", { agent: "support", conversation })
      yield* Session.turn("counted", "one two three", { agent: "counter" })
      yield* Session.turn("dropped", "more words", { agent: "counter" })
      for (const text of ["one", "two", "three"]) {
        yield* Session.turn("cut", `Tell me story number ${text}, and do not be brief at all, because I have time.`, {
          agent: "forgetful"
        })
      }
      yield* Session.turn("behind", "manager look a & triage spam & triage mail", { agent: "chief" })
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions) {
    assert.strictEqual((yield* Session.turn("imported", "Really?")).text, "small: Really?")
    const edit = sessions.edit("imported", { messageId: "old", input: "What was this?" })
    assert.deepStrictEqual(yield* answerAfter(sessions, "imported", edit), "small: What was this?")
    const counted = yield* Session.result(cast.counter, "counted")
    assert(counted.outcome === "Completed" && counted.output.words === 3)
    const dropped = yield* Session.result(cast.counter, "dropped")
    assert(dropped.outcome === "Completed" && dropped.output.words === 2)
    yield* Session.turn("counted", "one two")
    const again = yield* Session.result(cast.counter, "counted")
    assert(again.outcome === "Completed" && again.output.words === 2)
    assert.strictEqual((yield* Session.turn("cut", "And now?")).text, "small: And now?")
    assert.strictEqual((yield* Session.turn("behind", "triage again")).text, "small: reply of sort of again")
  })
}

/** Messages and answers with all their parts, decisions with all their members, and limits that were reached. */
const parts: Scenario = {
  name: "parts",
  options: { expiresAfter: "10000 days" },
  begin: [
    Effect.fnUntraced(function* (sessions, { hanging }) {
      const options = { demo: { mark: 1 } }
      const plan = ToolResult.filePart({
        mediaType: "text/plain",
        data: new URL("https://example.com/plan.txt"),
        fileName: "plan.txt",
        options
      })
      const image = ToolResult.filePart({ mediaType: "image/png", data: "data:image/png;base64,iVBORw0KGgo=" })
      yield* Session.turn("parts", [ToolResult.textPart("cite", options), plan, image], { agent: "support" })
      yield* Session.turn("invalid", "vague words", { agent: "counter" })
      yield* Session.turn("steps", "look a", { agent: "brief" })
      yield* Session.turn("loop", "go", { agent: "loop" })
      yield* Session.turn("circle", "circle", { agent: "stubborn" })
      yield* Session.turn("edited", "go", { agent: "edited" })
      yield* Session.turn(
        "input",
        { task: "go", payload: { n: 1 }, context: "soon", content: [image] },
        { agent: "edited" }
      )
      yield* sessions.send("decided", "pay 5 & hang e", { agent: "support" })
      yield* Queue.take(hanging)
      const expiresAt = DateTime.addDuration(yield* DateTime.now, "7 days")
      yield* decide(sessions, "decided", true, { reason: "paid", decidedBy: "ada", expiresAt })
      yield* Session.turn("asked", "go", { agent: "edited" })
      yield* decide(sessions, "asked", true, { reason: "fine", decidedBy: "ada", expiresAt })
      yield* Queue.take(hanging)
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions, stage) {
    assert.strictEqual((yield* Session.turn("parts", "cite")).text, "It is blue.")
    assert.strictEqual((yield* Session.turn("invalid", "clear")).text, '{"words":1}')
    assert.strictEqual((yield* Session.turn("steps", "And then?")).text, "small: And then?")
    assert.strictEqual((yield* Session.turn("circle", "And then?")).text, "small: And then?")
    assert.strictEqual(yield* answerAfter(sessions, "loop", sessions.resume("loop")), '{"round":3,"text":"go..."}')
    assert.strictEqual(yield* decideAll(sessions, "edited"), "end of ask of write of go, as it is")
    assert.strictEqual(yield* decideAll(sessions, "input"), 'end of ask of write of {"n":1}, as it is')
    yield* until(sessions, "decided", isIdle)
    yield* until(sessions, "asked", isIdle)
    assert.deepStrictEqual(yield* textsOf(sessions, "asked"), [
      "user: go",
      "assistant: end of ask of write of go, fine"
    ])
    assert.deepStrictEqual(callsOf(stage), [
      "ask write of go, as it is",
      'ask write of {"n":1}, as it is',
      "end ask of write of go, as it is",
      "end ask of write of go, fine",
      'end ask of write of {"n":1}, as it is',
      "look a",
      "pay 5"
    ])
  })
}

const approvals: Scenario = {
  name: "approvals",
  begin: [
    Effect.fnUntraced(function* (sessions) {
      yield* Session.turn("approved", "look a & pay 5", { agent: "support", messageId: "m1" })
      yield* sessions.send("approved", "And then?", { messageId: "m2" })
      yield* Session.turn("denied", "pay 6 & pay 7", { agent: "support" })
      yield* Session.turn("left", "pay 8", { agent: "support" })
      yield* Session.turn("deep", "manager clerk pay 9", { agent: "chief" })
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions, stage) {
    assert.strictEqual(yield* decideAll(sessions, "approved"), "small: And then?")
    assert.strictEqual(yield* decideAll(sessions, "denied", false), "small: The call was denied.\nThe call was denied.")
    const left = yield* Session.turn("left", "Never mind", { pending: "deny" })
    assert.strictEqual(left.text, "small: Never mind")
    assert.strictEqual(yield* decideAll(sessions, "deep"), "small: small: small: pay of 9")
    assert.deepStrictEqual(callsOf(stage), ["pay 5", "pay 9"])
  })
}

/** Questions with a Schema: of a step, whose first one is answered, and a call that the page makes. */
const questions: Scenario = {
  name: "questions",
  options: { drainTime: "1 second" },
  begin: [
    Effect.fnUntraced(function* (sessions) {
      yield* Session.turn("page", "look a & seat b", { agent: "waiter" })
      yield* Session.turn("survey", "Food", { agent: "survey" })
      yield* Session.turn("table", "reserve a & reserve b", { agent: "waiter" })
      yield* answerAfter(sessions, "table", answerWith(sessions, "table", 4))
      yield* answerAfter(sessions, "survey", answerWith(sessions, "survey", 5))
      yield* updates(sessions, "page", 66)
      yield* updates(sessions, "survey", 66)
      yield* updates(sessions, "table", 66)
    }),
    () => Effect.void
  ],
  proceed: Effect.fnUntraced(function* (sessions, stage) {
    const seated = yield* answerAfter(sessions, "page", answerWith(sessions, "page", "seat 7"))
    assert.strictEqual(seated, "small: look of a\nseat 7")
    assert.strictEqual(yield* reasonOf(answerWith(sessions, "survey", { why: 1 })), "InvalidDecision")
    const told = yield* answerAfter(sessions, "survey", answerWith(sessions, "survey", { why: "warm" }))
    assert.strictEqual(told, "survey of Food: 5, warm")
    const reserved = yield* answerAfter(sessions, "table", answerWith(sessions, "table", { at: "noon" }))
    const tables = ["reserve a for 4 at noon", "reserve b for 4 at noon"]
    assert.strictEqual(reserved, `small: ${tables.map((table) => table.replace("reserve", "reserve of")).join("\n")}`)
    assert.deepStrictEqual(callsOf(stage), [...tables, "survey Food: 5, warm"])
  })
}

/** Answers that equal calls have, too: one is kept, and others are taken back. */
const remembered: Scenario = {
  name: "remembered",
  options: { drainTime: "1 second" },
  begin: [
    Effect.fnUntraced(function* (sessions) {
      yield* Session.turn("kept", "seat b", { agent: "waiter" })
      const expiresAt = DateTime.makeUnsafe("2100-01-01")
      const [call] = Option.getOrThrow(yield* sessions.state("kept")).requests
      assert(call?._tag === "Call")
      const details = { decidedBy: "ada", reason: "Always.", expiresAt, remember: true }
      yield* answerAfter(sessions, "kept", sessions.decide("kept", [Run.answer(call, "seat 7", details)]))
      yield* updates(sessions, "kept", 66)
      yield* Session.turn("forgotten", "pay 5 & pay 6", { agent: "support" })
      const { requests } = Option.getOrThrow(yield* sessions.state("forgotten"))
      const decisions = Run.approveAll(requests, { remember: true })
      yield* answerAfter(sessions, "forgotten", sessions.decide("forgotten", decisions))
      yield* sessions.forget("forgotten")
      yield* updates(sessions, "forgotten", 66)
    }),
    () => Effect.void
  ],
  proceed: Effect.fnUntraced(function* (_, stage) {
    assert.strictEqual((yield* Session.turn("kept", "seat b")).text, "small: seat 7\nAlways.")
    const asked = yield* Session.turn("forgotten", "pay 5")
    assert.strictEqual(asked.outcome, "AwaitingApproval")
    // The equal call waits
    assert.deepStrictEqual(callsOf(stage), [])
  })
}

const lessMoney = Guard.make("less-money", {
  on: "beforeTool",
  check: (call) => Effect.succeed(call.tool === "pay" ? Guard.replace({ input: "1" }) : Guard.pass)
})

const isPolite = Guard.make("is-polite", {
  on: "input",
  check: ({ text }) => Effect.succeed(text.includes("rude") ? Guard.refuse("Be polite.") : Guard.pass)
})

const asksFirst = (["input", "beforeModel", "output", "afterTool"] as const).map((on) =>
  Guard.make(`ask-${on}`, {
    on,
    check: ({ text }) => Effect.succeed(text.includes(`held ${on}`) ? Guard.ask(`May it pass (${on})?`) : Guard.pass)
  })
)

/** Verdicts of guards: arguments that were replaced and wait for a person, a message that was refused, and values that are held. */
const guarded: Scenario = {
  name: "guarded",
  options: { drainTime: "1 second", expiresAfter: "10000 days", run: { guards: [lessMoney, isPolite, ...asksFirst] } },
  begin: [
    Effect.fnUntraced(function* (sessions) {
      yield* Session.turn("replaced", "pay 500", { agent: "support" })
      yield* updates(sessions, "replaced", 66)
      const refused = yield* Session.turn("refused", "rude words", { agent: "support" })
      assert.strictEqual(refused.outcome, "Refused")
      yield* updates(sessions, "refused", 66)
      for (const { on } of asksFirst) {
        const input = on === "afterTool" ? "look held afterTool" : `held ${on}`
        const { outcome } = yield* Session.turn(`held-${on}`, input, { agent: "support" })
        assert.strictEqual(outcome, "AwaitingApproval")
        yield* updates(sessions, `held-${on}`, 66)
      }
      yield* Session.turn("judged", "Hello", { agent: "judged" })
      yield* updates(sessions, "judged", 66)
      yield* Session.turn("held", "again held beforeModel", { agent: "support" })
      yield* decide(sessions, "held")
      yield* sessions.events("held").pipe(
        Stream.filter(({ event }) => event._tag === "RunEvent" && event.event._tag === "StepRetried"),
        Stream.runHead
      )
      yield* updates(sessions, "held", 66)
    }),
    () => Effect.void
  ],
  proceed: Effect.fnUntraced(function* (sessions, stage) {
    const waiting = yield* Effect.forkChild(until(sessions, "held", isIdle))
    for (let times = 0; times < 3; times++) {
      yield* Effect.repeat(Effect.yieldNow, { times: 100 })
      yield* TestClock.adjust("1 second")
    }
    yield* Fiber.join(waiting)
    assert.deepStrictEqual((yield* textsOf(sessions, "held")).slice(1), ["assistant: small: again held beforeModel"])
    for (const { on } of asksFirst) {
      const { requests } = Option.getOrThrow(yield* sessions.state(`held-${on}`))
      const decisions = requests.filter((request) => Run.isApprovable(request)).map((request) => Run.approve(request))
      yield* answerAfter(sessions, `held-${on}`, sessions.decide(`held-${on}`, decisions))
      assert((yield* textsOf(sessions, `held-${on}`)).join(" ").includes(`held ${on}`))
    }
    const { requests } = Option.getOrThrow(yield* sessions.state("replaced"))
    const decisions = requests.filter((request) => Run.isApprovable(request)).map((request) => Run.approve(request))
    yield* answerAfter(sessions, "replaced", sessions.decide("replaced", decisions))
    assert.deepStrictEqual(callsOf(stage), ["again", "pay 1"])
    assert.strictEqual((yield* Session.turn("refused", "Hello")).text, "small: Hello")
    assert.strictEqual((yield* Session.turn("judged", "More")).text, "small: More")
  })
}

/** Killed processes: in calls, in an agent behind a tool, beside a decision that no turn has taken, and while a model is asked. */
const cutOff: Scenario = {
  name: "cut-off",
  begin: [
    Effect.fnUntraced(function* (sessions, { hanging }) {
      yield* sessions.send("call", "look a & hang b & look c", { agent: "support", messageId: "m1" })
      yield* Queue.take(hanging)
      yield* sessions.send("call", "first in the queue", { messageId: "q1" })
      yield* sessions.send("call", "second in the queue", { messageId: "q2", context: { user: "ada" } })
      yield* sessions.send("again", "print c", { agent: "support" })
      yield* Queue.take(hanging)
      yield* sessions.send("deep", "manager clerk hang d", { agent: "chief" })
      yield* Queue.take(hanging)
      yield* sessions.send("decided", "pay 5 & hang e", { agent: "support" })
      yield* Queue.take(hanging)
      yield* decide(sessions, "decided")
      yield* sessions.send("model", "think", { agent: "support", messageId: "m1" })
      yield* Queue.take(hanging)
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions, stage) {
    for (const id of ["call", "again", "deep", "decided", "model"]) yield* until(sessions, id, isIdle)
    assert.deepStrictEqual(yield* textsOf(sessions, "call"), [
      "user: look a & hang b & look c",
      "assistant: One moment.",
      "tool: look of a",
      `tool: ${unknown}`,
      "tool: look of c",
      `assistant: small: look of a\n${unknown}\nlook of c`,
      "user: first in the queue",
      "assistant: small: first in the queue",
      "user: second in the queue",
      "assistant: small: second in the queue"
    ])
    assert.deepStrictEqual((yield* textsOf(sessions, "again")).slice(2), [
      "tool: print of c",
      "assistant: small: print of c"
    ])
    assert.deepStrictEqual(yield* textsOf(sessions, "deep"), [
      "user: manager clerk hang d",
      "assistant: One moment.",
      `tool: small: small: ${unknown}`,
      `assistant: small: small: small: ${unknown}`
    ])
    assert.deepStrictEqual(yield* textsOf(sessions, "decided"), [
      "user: pay 5 & hang e",
      "assistant: One moment.",
      "tool: pay of 5",
      `tool: ${unknown}`,
      `assistant: small: pay of 5\n${unknown}`
    ])
    assert.deepStrictEqual(yield* textsOf(sessions, "model"), ["user: think", "assistant: small: think"])
    assert.deepStrictEqual(callsOf(stage), ["look c", "pay 5", "print c"])
  })
}

/** Turns that failed or were stopped, and messages that wait for what is not there. */
const failed: Scenario = {
  name: "failed",
  begin: [
    Effect.fnUntraced(function* (sessions, { hanging }) {
      yield* Effect.exit(Session.turn("failed", "fail now", { agent: "support", messageId: "m1" }))
      yield* sessions.send("held", "Hello", { agent: "moody", messageId: "m1" })
      yield* sessions.send("held", "Hello?", { messageId: "m2" })
      yield* sessions.send("held", "Bye", { messageId: "m3" })
      yield* until(sessions, "held", isIdle)
      yield* sessions.withdraw("held", "m3")
      yield* sessions.send("held", "Hello", { messageId: "m1" })
      yield* until(sessions, "held", isIdle)
      yield* sessions.send("stopped", "hang a", { agent: "support" })
      yield* Queue.take(hanging)
      yield* sessions.interrupt("stopped")
      yield* sessions.send("dropped", "pay 5 & hang b", { agent: "support" })
      yield* Queue.take(hanging)
      yield* decide(sessions, "dropped")
      yield* sessions.interrupt("dropped")
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions) {
    assert.strictEqual(yield* answerAfter(sessions, "failed", sessions.resume("failed")), "small: fail now")
    yield* until(sessions, "held", ({ queue, status }) => queue.length === 0 && status === "idle")
    assert.deepStrictEqual(yield* textsOf(sessions, "held"), [
      "user: Hello",
      "assistant: small: Hello",
      "user: Hello?",
      "assistant: small: Hello?"
    ])
    assert.strictEqual(yield* answerAfter(sessions, "stopped", sessions.resume("stopped")), `small: ${stopped}`)
  })
}

const edited: Scenario = {
  name: "edited",
  begin: [
    Effect.fnUntraced(function* (sessions, { hanging }) {
      for (const text of ["one", "two", "three"]) {
        yield* Session.turn("taken", text, { agent: "support", messageId: text })
      }
      yield* answerAfter(sessions, "taken", sessions.edit("taken", { messageId: "two", input: "2", newMessageId: "2" }))
      yield* sessions.send("waiting", "hang a", { agent: "support", messageId: "m1" })
      yield* Queue.take(hanging)
      yield* sessions.send("waiting", "two", { messageId: "two" })
      yield* sessions.send("waiting", "three", { messageId: "three" })
      yield* sessions.edit("waiting", { messageId: "two", input: "2", newMessageId: "2" })
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions) {
    const edit = sessions.edit("taken", { messageId: "one", newMessageId: "1" })
    assert.strictEqual(yield* answerAfter(sessions, "taken", edit), "small: one")
    assert.deepStrictEqual(yield* textsOf(sessions, "taken"), ["user: one", "assistant: small: one"])
    yield* until(sessions, "waiting", isIdle)
    assert.deepStrictEqual(yield* textsOf(sessions, "waiting"), [
      "user: hang a",
      "assistant: One moment.",
      `tool: ${unknown}`,
      `assistant: small: ${unknown}`,
      "user: 2",
      "assistant: small: 2",
      "user: three",
      "assistant: small: three"
    ])
  })
}

/** Forks of a chat, of a call that waits, and of a fork. */
const forked: Scenario = {
  name: "forked",
  begin: [
    Effect.fnUntraced(function* (sessions) {
      const { cursor } = yield* Session.turn("origin", "one", { agent: "support", messageId: "m1", title: "Origin" })
      yield* Session.turn("origin", "pay 5", { messageId: "m2" })
      yield* sessions.fork("origin", { to: "begun", at: cursor })
      yield* sessions.fork("origin", { to: "denied" })
      yield* Session.turn("denied", "two")
      yield* sessions.fork("denied", { to: "again" })
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions, stage) {
    assert.strictEqual((yield* Session.turn("begun", "two")).text, "small: two")
    assert.deepStrictEqual(yield* textsOf(sessions, "begun"), [
      "user: one",
      "assistant: small: one",
      "user: two",
      "assistant: small: two"
    ])
    assert.strictEqual((yield* Session.turn("again", "three")).text, "small: three")
    assert.strictEqual(yield* decideAll(sessions, "origin"), "small: pay of 5")
    yield* sessions.fork("origin", { to: "later" })
    assert.deepStrictEqual(yield* textsOf(sessions, "later"), yield* textsOf(sessions, "origin"))
    yield* sessions.remove("origin")
    assert.strictEqual((yield* Session.turn("later", "four")).text, "small: four")
    assert.deepStrictEqual(callsOf(stage), ["pay 5"])
  })
}

/** Agents that are data. */
const definitions: Scenario = {
  name: "definitions",
  begin: [
    Effect.fnUntraced(function* (sessions, { hanging }) {
      const definition = yield* cast.poetOf("You rhyme.")
      yield* Session.turn("poem", "look a", { definition })
      yield* Session.turn("edited", "one", { definition: yield* Digest.sha256(definition) })
      yield* Session.turn("edited", "two", { definition: yield* cast.poetOf("You sing.") })
      yield* sessions.send("queued", "think", { definition })
      yield* Queue.take(hanging)
      yield* sessions.send("queued", "after", { definition: yield* cast.poetOf("You whisper.") })
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions) {
    assert.strictEqual((yield* Session.turn("poem", "look b")).text, "small: look of b")
    const definition = yield* Digest.sha256(yield* cast.poetOf("You sing."))
    assert.strictEqual((yield* Session.turn("edited", "three")).text, "small: three")
    assert.strictEqual((yield* Session.turn("new", "one", { definition })).text, "small: one")
    yield* until(sessions, "queued", isIdle)
    assert.deepStrictEqual(yield* instructionsOf(sessions, "queued"), [
      "You rhyme.",
      "These instructions replace all earlier ones:\n\nYou whisper."
    ])
  })
}

/** So many events of a session that a process makes a snapshot at its end. */
const updates = (sessions: Session.Service, id: string, count: number) =>
  Effect.forEach(
    Array.from({ length: count }, (_, index) => index + 1),
    (n) => sessions.update(id, { title: `Title ${n}` }),
    {
      discard: true
    }
  )

const updatesAndMore = (count: number): Body =>
  Effect.fnUntraced(function* (sessions) {
    yield* updates(sessions, "long", count)
    yield* Session.turn("long", `After ${count}`)
  })

const beginLong: Body = () => Session.turn("long", "Hello", { agent: "support", messageId: "m1" })

/** Several processes, generations and snapshots. */
const long: Scenario = {
  name: "long",
  options: { drainTime: "1 second" },
  begin: [beginLong, updatesAndMore(70), updatesAndMore(80), updatesAndMore(3)],
  proceed: Effect.fnUntraced(function* (sessions) {
    const { cursor } = yield* Session.turn("long", "Hello", { messageId: "m1" })
    assert.strictEqual((yield* Session.turn("long", "End")).text, "small: End")
    yield* sessions.fork("long", { to: "fork", at: cursor })
    assert.deepStrictEqual(yield* textsOf(sessions, "fork"), ["user: Hello", "assistant: small: Hello"])
  })
}

/** A session whose older events are deleted. */
const pruned: Scenario = {
  ...long,
  name: "pruned",
  options: { ...long.options, keepEvents: 10 },
  proceed: Effect.fnUntraced(function* (sessions) {
    assert.strictEqual((yield* Session.turn("long", "End")).text, "small: End")
    assert.strictEqual(yield* reasonOf(Stream.runHead(sessions.events("long"))), "EventsPruned")
  })
}

/** Snapshots of sessions with all that can wait in them. */
const snapshots: Scenario = {
  name: "snapshots",
  options: { drainTime: "1 second" },
  begin: [
    Effect.fnUntraced(function* (sessions, { hanging }) {
      const question = yield* Conversation.addUser(Conversation.empty, "Who are you?", { id: "old" })
      const conversation = yield* Conversation.addAssistant(question, "A poet.")
      yield* sessions.send("held", "Hello", { agent: "moody", messageId: "m1", conversation, context: { user: "ada" } })
      yield* sessions.send("held", "Bye", { messageId: "m2", model: "demo/large", context: { user: "ada" } })
      yield* until(sessions, "held", isIdle)
      yield* sessions.edit("held", { messageId: "m2", input: "Bye!", newMessageId: "m3", context: { user: "ada" } })
      yield* until(sessions, "held", isIdle)
      yield* updates(sessions, "held", 66)
      yield* sessions.send("busy", "look a & manager clerk pay 5 & pay 6 & hang b & look c", {
        agent: "desk",
        messageId: "m1",
        timeout: "36500 days"
      })
      yield* Queue.take(hanging)
      yield* decide(sessions, "busy")
      yield* sessions.send("busy", "Hello", {
        messageId: "m2",
        model: "demo/large",
        context: { user: "ada" },
        timeout: "1 hour"
      })
      yield* sessions.send("busy", "Bye", { messageId: "m3", pending: "deny" })
      yield* updates(sessions, "busy", 66)
      yield* Session.turn("order", "books", { agent: "order", messageId: "m1" })
      yield* updates(sessions, "order", 66)
    }),
    () => Effect.void
  ],
  proceed: Effect.fnUntraced(function* (sessions, stage) {
    yield* until(sessions, "held", ({ queue, status }) => queue.length === 0 && status === "idle")
    assert.deepStrictEqual(yield* textsOf(sessions, "held"), [
      "user: Who are you?",
      "assistant: A poet.",
      "user: Bye!",
      "assistant: small: Bye!",
      "user: Hello",
      "assistant: small: Hello"
    ])
    yield* until(sessions, "busy", ({ queue, status }) => queue.length === 0 && status === "idle")
    assert.deepStrictEqual(yield* textsOf(sessions, "busy"), [
      "user: look a & manager clerk pay 5 & pay 6 & hang b & look c",
      "assistant: One moment.",
      "tool: look of a",
      "tool: small: small: pay of 5",
      "tool: pay of 6",
      `tool: ${unknown}`,
      "tool: look of c",
      "user: Hello",
      "assistant: large: Hello",
      "user: Bye",
      "assistant: small: Bye"
    ])
    assert.deepStrictEqual(callsOf(stage), ["look c", "pay 5", "pay 6"])
    assert.strictEqual(yield* decideAll(sessions, "order"), "ship of sign of check of note of books, as it is")
  })
}

/** Messages that steer: the first turn of a session could not begin, and another session has a turn under way. */
const steered: Scenario = {
  name: "steered",
  options: { drainTime: "1 second" },
  begin: [
    Effect.fnUntraced(function* (sessions, { hanging }) {
      const steer = { whenBusy: "steer", timeout: "36500 days" } as const
      yield* sessions.send("held", "Hello", { agent: "moody", messageId: "m1", ...steer })
      yield* until(sessions, "held", isIdle)
      yield* updates(sessions, "held", 66)
      yield* sessions.send("busy", "hang a", { agent: "support", messageId: "m1" })
      yield* Queue.take(hanging)
      yield* sessions.send("busy", "Later", { messageId: "m2" })
      yield* sessions.send("busy", "Now", { messageId: "m3", ...steer })
      yield* updates(sessions, "busy", 66)
    }),
    () => Effect.void
  ],
  proceed: Effect.fnUntraced(function* (sessions) {
    yield* until(sessions, "held", ({ queue, status }) => queue.length === 0 && status === "idle")
    assert.deepStrictEqual(yield* textsOf(sessions, "held"), ["user: Hello", "assistant: small: Hello"])
    yield* until(sessions, "busy", ({ queue, status }) => queue.length === 0 && status === "idle")
    assert.deepStrictEqual(yield* textsOf(sessions, "busy"), [
      "user: hang a",
      "assistant: One moment.",
      `tool: ${unknown}`,
      "user: Now",
      "assistant: small: Now",
      "user: Later",
      "assistant: small: Later"
    ])
  })
}

/** A job that another one replaces, in a process that is killed before the values of the first one are deleted. */
const restarted: Scenario = {
  name: "restarted",
  deletes: false,
  begin: [
    () => Session.turn("job", "whales", { agent: "support", messageId: "m1" }),
    Effect.fnUntraced(function* (sessions) {
      yield* Effect.forkScoped(sessions.send("job", "cats", { agent: "support", messageId: "m2", ifExists: "restart" }))
      const isReplaced = Effect.map(sessions.list(), (page) => page.sessions.every(({ messages }) => messages === 0))
      yield* Effect.repeat(Effect.andThen(Effect.yieldNow, isReplaced), { until: (holds) => holds })
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions) {
    yield* until(sessions, "job", isIdle)
    assert.deepStrictEqual(yield* textsOf(sessions, "job"), ["user: cats", "assistant: small: cats"])
  })
}

/** Turns within their budget, over it, and with a model call that is made again. */
const budgets: Scenario = {
  name: "budgets",
  begin: [
    Effect.fnUntraced(function* (sessions) {
      yield* Session.turn("budget", "look a & errand b", { agent: "thrifty", messageId: "m1" })
      yield* Session.turn("budget", "look c & look d & look e & look f", { messageId: "m2" })
      yield* sessions.fork("budget", { to: "budget/fork" })
      yield* Session.turn("budget", "spoil", { messageId: "m3" })
      yield* sessions.send("budget", "again", { messageId: "m4" })
      yield* sessions.events("budget").pipe(
        Stream.filter(({ event }) => event._tag === "RunEvent" && event.event._tag === "StepRetried"),
        Stream.runHead
      )
      yield* Effect.repeat(Effect.yieldNow, { times: 100 })
      yield* TestClock.adjust("1 second")
      yield* until(sessions, "budget", isIdle)
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions) {
    const state = Option.getOrThrow(yield* sessions.state("budget"))
    assert.deepStrictEqual(
      state.budget?.map(({ scope }) => scope),
      ["run"]
    )
    yield* Session.turn("budget", "look g")
    const after = Option.getOrThrow(yield* sessions.state("budget"))
    assert.strictEqual(after.budget?.[0]?.left.modelCalls, 1)
  })
}

/** A budget that asks in a plan and for the calls of an agent: two questions have their answers, and another one waits. */
const asking: Scenario = {
  name: "asking",
  options: { expiresAfter: "10000 days" },
  begin: [
    Effect.fnUntraced(function* (sessions) {
      const budget = { toolCalls: 2, inputTokens: 900_000, totalTokens: 900_000, onExceeded: "ask" } as const
      yield* Session.turn("asking", "look a & errand b", { agent: "thrifty", messageId: "m1", budget })
      yield* answerAfter(sessions, "asking", goOn(sessions, "asking"))
      yield* Session.turn("asking", "look c & look d & look e & look f & look g", { messageId: "m2", budget })
      yield* answerAfter(sessions, "asking", goOn(sessions, "asking"))
      yield* updates(sessions, "asking", 66)
    }),
    () => Effect.void
  ],
  proceed: Effect.fnUntraced(function* (sessions) {
    yield* answerAfter(sessions, "asking", goOn(sessions, "asking"))
    const { budget } = Option.getOrThrow(yield* sessions.state("asking"))
    assert.deepStrictEqual([budget?.[0]?.limits.toolCalls, budget?.[0]?.left.toolCalls], [6, 1])
  })
}

/** Continues what waits at the limit of a budget. */
const goOn = Effect.fnUntraced(function* (sessions: Session.Service, id: string) {
  const [request] = Option.getOrThrow(yield* sessions.state(id)).requests
  if (request?._tag !== "Question") return yield* Effect.die(new Error("no question"))
  return yield* sessions.decide(id, [Run.answer(request, { choice: "continue" })])
})

/** Turns that continued with the second model, the last of them under way there, and a call that was approved and asks. */
const fallback: Scenario = {
  name: "fallback",
  begin: [
    Effect.fnUntraced(function* (sessions) {
      yield* Session.turn("transfer", "transfer 5", { agent: "teller" })
      yield* answerAfter(sessions, "transfer", decide(sessions, "transfer"))
      yield* updates(sessions, "transfer", 66)
    }),
    Effect.fnUntraced(function* (sessions, { hanging }) {
      yield* Session.turn("fallback", "look a", { agent: "backup", messageId: "m1" })
      yield* sessions.send("fallback", "think", { messageId: "m2" })
      yield* Queue.take(hanging)
      yield* updates(sessions, "fallback", 66)
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions, stage) {
    yield* until(sessions, "fallback", isIdle)
    assert.deepStrictEqual((yield* textsOf(sessions, "fallback")).slice(-2), ["user: think", "assistant: weak: think"])
    const paid = yield* answerAfter(sessions, "transfer", answerWith(sessions, "transfer", { account: "savings" }))
    assert.strictEqual(paid, "small: transfer of 5 from savings")
    assert.deepStrictEqual(callsOf(stage), ["transfer 5 from savings"])
  })
}

/** Conversations that were passed on, are being passed on, and went back to the first agent. */
const handedOver: Scenario = {
  name: "handed-over",
  options: { drainTime: "1 second", run: { onChange: "accept" } },
  begin: [
    Effect.fnUntraced(function* (sessions) {
      yield* Session.turn("handed", "look a", { agent: "doorkeeper" })
      yield* Session.turn("handed", "over now & look b")
      yield* updates(sessions, "handed", 66)
      yield* Session.turn("back", "over now", { definition: yield* cast.openerOf(["follower"]) })
      yield* Session.turn("back", "one", { definition: yield* cast.openerOf([]) })
    }),
    Effect.fnUntraced(function* (sessions, { hanging }) {
      yield* sessions.send("between", "over now & hang e", { agent: "doorkeeper" })
      yield* Queue.take(hanging)
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions) {
    const activeOf = (id: string) => Effect.map(sessions.state(id), (state) => Option.getOrThrow(state).activeAgent)
    assert.strictEqual(yield* activeOf("handed"), "clicker")
    assert.strictEqual((yield* Session.turn("handed", "one two")).text, '{"words":2}')
    assert.strictEqual(yield* activeOf("back"), "opener")
    assert.strictEqual((yield* Session.turn("back", "two")).text, "small: two")
    yield* until(sessions, "between", isIdle)
    assert.strictEqual(yield* activeOf("between"), "clicker")
  })
}

export const scenarios: ReadonlyArray<Scenario> = [
  chat,
  answers,
  parts,
  approvals,
  questions,
  remembered,
  guarded,
  cutOff,
  failed,
  edited,
  forked,
  definitions,
  long,
  pruned,
  snapshots,
  steered,
  restarted,
  budgets,
  asking,
  fallback,
  handedOver,
  ...jobScenarios
]
