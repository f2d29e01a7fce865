/** The scenarios of jobs: plans in sessions. */
import { Effect, Option, Queue } from "effect"
import { PlanRun } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import assert from "node:assert"
import * as cast from "./cast.ts"
import { answerAfter, callsOf, decideAll, until } from "./continue.ts"
import type { Scenario } from "./golden.ts"

const valueOf = (sessions: Session.Service, key: string) =>
  Effect.map(sessions.read(key), (found) => Option.getOrUndefined(found)?.value)

/** Killed in a step of a parallel group, whose other steps are done, behind a loop and writes. */
const jobCutOff: Scenario = {
  name: "job-cut-off",
  begin: [
    Effect.fnUntraced(function* (sessions, { hanging }) {
      yield* sessions.send("report", "whales", { agent: "report", messageId: "m1" })
      yield* Queue.take(hanging)
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions, stage) {
    const answer = yield* Session.turn("report", "whales", { messageId: "m1" })
    assert.strictEqual(answer.text, "end of hang of proof of the draft")
    assert.deepStrictEqual(callsOf(stage), ["end hang of proof of the draft", "hang proof of the draft"])
    const report = yield* cast.reportOf(stage)
    const state = Option.getOrThrow(yield* Session.progress(report, "report"))
    assert.deepStrictEqual(
      PlanRun.history(state).map(({ step }) => step),
      ["draft", "draft", "draft", "proof", "facts", "pictures", "press", "end"]
    )
    assert.deepStrictEqual(yield* Effect.forEach(["draft", "pictures", "press"], (key) => valueOf(sessions, key)), [
      { text: "whales...", round: 3 },
      "pictures of proof of the draft",
      "hang of proof of the draft"
    ])
  })
}

/** Jobs that wait for a tool, an agent and questions at once, and forks of them. */
const jobWaiting: Scenario = {
  name: "job-waiting",
  begin: [
    Effect.fnUntraced(function* (sessions) {
      yield* Session.turn("order", "books", { agent: "order", messageId: "m1" })
      yield* sessions.fork("order", { to: "fork" })
      yield* sessions.fork("order", { to: "resumed" })
      yield* answerAfter(sessions, "resumed", sessions.resume("resumed"))
      yield* Session.turn("partly", "pens", { agent: "order" })
      const { requests } = yield* until(sessions, "partly", ({ requests }) => requests.length > 0)
      const some = requests.slice(0, 2).map((request) => ({ ...request, approved: true, reason: "fine" }))
      yield* answerAfter(sessions, "partly", sessions.decide("partly", some))
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions, stage) {
    const ship = (what: string) => `ship of sign of check of note of ${what}, as it is`
    assert.strictEqual(yield* decideAll(sessions, "order"), ship("books"))
    assert.strictEqual(yield* decideAll(sessions, "partly"), ship("pens"))
    assert.deepStrictEqual(callsOf(stage), [
      "ask note of books, as it is",
      "ask note of pens, as it is",
      "pay cashier",
      "pay note of books",
      "ship sign of check of note of books, as it is",
      "ship sign of check of note of pens, as it is",
      "sign check of note of books, as it is",
      "sign check of note of pens, as it is"
    ])
    // The fork asks for itself
    yield* answerAfter(sessions, "fork", sessions.resume("fork"))
    for (const id of ["fork", "resumed"]) assert.strictEqual(yield* decideAll(sessions, id), ship("books"))
    assert.strictEqual(stage.calls.filter((call) => call === "pay note of books").length, 3)
    assert.strictEqual(yield* valueOf(sessions, "ship"), ship("books"))
  })
}

/** A step that failed, a step that ended its plan, and a job that was stopped. */
const jobEnds: Scenario = {
  name: "job-ends",
  begin: [
    Effect.fnUntraced(function* (sessions, { hanging }) {
      yield* Effect.exit(Session.turn("nightly", "mail", { agent: "nightly", messageId: "m1" }))
      yield* Session.turn("spam", "spam", { agent: "triage", messageId: "m1" })
      yield* Session.turn("mail", "mail", { agent: "triage", messageId: "m1" })
      yield* sessions.send("stopped", "whales", { agent: "report" })
      yield* Queue.take(hanging)
      yield* sessions.interrupt("stopped")
    })
  ],
  proceed: Effect.fnUntraced(function* (sessions, stage) {
    assert.strictEqual(yield* answerAfter(sessions, "nightly", sessions.resume("nightly")), "send of collect of mail")
    assert.strictEqual((yield* Session.turn("spam", "spam", { messageId: "m1" })).text, "Nothing to do.")
    assert.strictEqual((yield* Session.turn("mail", "mail", { messageId: "m1" })).text, "reply of sort of mail")
    assert.strictEqual(
      yield* answerAfter(sessions, "stopped", sessions.resume("stopped")),
      "end of hang of proof of the draft"
    )
    assert.deepStrictEqual(callsOf(stage), [
      "end hang of proof of the draft",
      "hang proof of the draft",
      "send collect of mail"
    ])
  })
}

export const jobScenarios: ReadonlyArray<Scenario> = [jobCutOff, jobWaiting, jobEnds]
