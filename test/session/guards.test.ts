/** MONEY-4: guards of sessions, in memory, on SQLite and on a fleet, where processes die, and on the screen. */
import * as agUi from "#src/http/internal/agUi.ts"
import * as screen from "#src/http/internal/screen.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Schema, Scope, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestRunner } from "effect/cluster"
import { Agent, Conversation, Guard, Message, VersionedStore } from "effect-emissary"
import { UiMessages } from "effect-emissary/http"
import { ChatEvent, ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { mortal } from "./mortal.ts"
import * as t from "./sessions.ts"

const paid: Array<number> = []

const toolkit = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Int }), success: Schema.String }).annotate(
    Tool.Idempotent,
    true
  )
)

const handlers = toolkit.toLayer({ pay: ({ amount }) => Effect.sync(() => (paid.push(amount), `paid ${amount}`)) })

const agent = Agent.make("desk", { toolkit })

const script: ScriptedModel.TurnFunction = (request) => {
  const asked = t.asked(request)
  const isDone = request.messages.at(-1)?.role === "tool"
  if ((asked === "pay" || asked === "ask afterTool") && !isDone)
    return { toolCalls: [{ name: "pay", params: { amount: 10 } }] }
  return { text: asked === "key" ? "It is sk-1." : `re: ${asked}` }
}

/** The names of the guards that have decided, in order. */
const given: Array<string> = []

const noted = <V>(name: string, verdict: V) => Effect.sync(() => (given.push(name), verdict))

const guards = [
  Guard.make("mask", {
    on: "input",
    check: ({ text }) =>
      noted("mask", text.includes("bomb") ? Guard.refuse("No bombs.") : Guard.replace(text.replace("mr ", "")))
  }),
  Guard.make("half", { on: "beforeTool", check: () => noted("half", Guard.replace({ amount: 5 })) }),
  Guard.make("person", { on: "beforeTool", check: () => noted("person", Guard.ask("Money.")) }),
  Guard.make("keys", {
    on: "output",
    check: ({ text }) => noted("keys", text.includes("sk-") ? Guard.refuse("A key.") : Guard.pass)
  })
]

/** They ask about a turn by its message, which has their place. */
const asking = (["input", "beforeModel", "afterModel", "afterTool", "output"] as const).map((on) =>
  Guard.make(`ask-${on}`, {
    on,
    check: ({ conversation, text }) => {
      const said = Conversation.messages(conversation).findLast(({ role }) => role === "user")
      const isAsked = `${said === undefined ? "" : Message.text(said)} ${text}`.includes(`ask ${on}`)
      return noted(`ask-${on}`, isAsked ? Guard.ask("May it pass?") : Guard.pass)
    }
  })
)

const options = { run: { guards: [...guards, ...asking] } }

const below = Layer.mergeAll(handlers, ScriptedModel.layer(script))

const sqlite = Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))

const layers = [
  ["in memory", Session.layer([agent], options).pipe(Layer.provide([below, VersionedStore.layerMemory]))],
  ["on SQLite", Session.layer([agent], options).pipe(Layer.provide([below, sqlite]))],
  [
    "on a fleet",
    ClusterSession.layer([agent], options).pipe(
      Layer.provide([
        below,
        Layer.mergeAll(
          TestRunner.layer,
          VersionedStore.layerMemory,
          Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))
        )
      ])
    )
  ]
] as const

const decided = Effect.fnUntraced(function* (id: string, approved = true) {
  const { requests } = yield* Effect.flatMap(Session.Session, (sessions) => t.stateOf(sessions, id))
  const decisions = requests.map(({ callId, digest }) => ({ callId, digest, approved }))
  return { requests, answer: yield* Session.await(id, yield* Session.decide(id, decisions)) }
})

/** The answer of a turn after all that it asks was decided. */
const settled = Effect.fnUntraced(function* (id: string, answer: Session.Answer, approved = true) {
  let last = answer
  while (last.outcome === "AwaitingApproval") ({ answer: last } = yield* decided(id, approved))
  return last
})

const textsOf = Effect.fnUntraced(function* (id: string) {
  const history = yield* Session.history(id)
  return Conversation.messages(history).map((message) => `${message.role}: ${Message.text(message)}`)
})

describe.each(layers)("MONEY-4 guards of sessions, %s", (_, layer) => {
  it.live("hold for all turns: a refusal is the outcome of its turn, and the session continues", () =>
    Effect.gen(function* () {
      const bomb = yield* Session.turn("a", "a bomb")
      assert.deepInclude(bomb, { outcome: "Refused", guard: "mask", on: "input", reason: "No bombs." })
      const state = yield* Effect.flatMap(Session.Session, (sessions) => t.stateOf(sessions, "a"))
      assert.deepInclude(state, { status: "idle", outcome: "Refused", guard: "mask", reason: "No bombs.", queue: [] })
      assert.deepInclude(yield* Session.turn("a", "key"), { outcome: "Refused", guard: "keys", text: "" })
      assert.strictEqual((yield* Session.turn("a", "mr x")).text, "re: x")
      const texts = (yield* textsOf("a")).join("\n")
      assert.notInclude(texts, "bomb")
      assert.notInclude(texts, "sk-")
      assert.include(texts, "user: x")
    }).pipe(Effect.provide(layer), Effect.timeout("20 seconds"))
  )

  it.live("ask a person for the arguments that they have made, and are not asked again", () =>
    Effect.gen(function* () {
      paid.length = 0
      assert.strictEqual((yield* Session.turn("b", "pay")).outcome, "AwaitingApproval")
      given.length = 0
      const { answer, requests } = yield* decided("b")
      assert.deepStrictEqual(
        requests.map((request) => request.arguments),
        [{ amount: 5 }]
      )
      assert.strictEqual(answer.text, "re: pay")
      assert.deepStrictEqual(paid, [5])
      assert.deepStrictEqual(
        given.filter((name) => !name.startsWith("ask")),
        ["keys"]
      )
    }).pipe(Effect.provide(layer), Effect.timeout("20 seconds"))
  )
})

describe.each(layers)("MONEY-4 guards that ask about values of sessions, %s", (_, layer) => {
  for (const { on } of asking) {
    it.live(`hold what ${on} has until the decision, and a denial is their refusal`, () =>
      Effect.gen(function* () {
        paid.length = 0
        const input = `ask ${on}`
        const waiting = yield* Session.turn("c", input)
        assert.strictEqual(waiting.outcome, "AwaitingApproval")
        assert.notInclude(JSON.stringify(yield* textsOf("c")), "re: ask")
        const shown = yield* (yield* Session.Session).events("c").pipe(
          Stream.filterMap(ChatEvent.project()),
          Stream.map(({ event }) => event),
          Stream.takeUntil(({ _tag }) => _tag === "TurnFinished"),
          Stream.runCollect
        )
        const requested = shown.flatMap((event) => (event._tag === "Requested" ? [event.request.name] : []))
        assert.deepStrictEqual(requested, [on === "afterTool" ? "pay" : `ask-${on}`])
        assert.strictEqual((yield* settled("c", waiting)).text, `re: ${input}`)
        const denied = yield* settled("d", yield* Session.turn("d", input), false)
        assert.isTrue(denied.outcome === "Refused" || on === "afterTool")
        if (on === "input") assert.notInclude(JSON.stringify(yield* textsOf("d")), "ask")
        assert.strictEqual((yield* Session.turn("d", "x")).text, "re: x")
        assert.isAtMost(paid.length, 1)
      }).pipe(Effect.provide(layer), Effect.timeout("20 seconds"))
    )
  }
})

const processOf = Effect.fnUntraced(function* (store: Layer.Layer<VersionedStore.VersionedStore>) {
  const layer = Session.layer([agent], { ...options, leaseTime: "50 millis", drainTime: 0 }).pipe(
    Layer.provide([below, store])
  )
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(Layer.fresh(layer), scope)
  const run = <A, E>(effect: Effect.Effect<A, E, Session.Session>) => Effect.provideContext(effect, context)
  return { run, scope, stop: Scope.close(scope, Exit.void) }
})

const stores = [
  ["memory", VersionedStore.layerMemory],
  ["SQLite", sqlite]
] as const

for (const [name, store] of stores) {
  describe(`MONEY-4 processes that die, on ${name}`, () => {
    const send = { messageId: "m1", ifExists: "resume" } as const

    for (const input of ["a bomb", "key", "pay", ...asking.map(({ on }) => `ask ${on}`)]) {
      t.passing(`after any write of the turn of "${input}" the next process comes to the same decision`, () =>
        Effect.gen(function* () {
          const built = Effect.map(Layer.build(Layer.fresh(store)), (context) => Layer.succeedContext(context))
          const turn = Effect.gen(function* () {
            return yield* settled("a", yield* Session.turn("a", input, send))
          })
          const end = Effect.fnUntraced(function* (at: number) {
            const base = yield* built
            const dying = mortal(base, at)
            const first = yield* processOf(dying.layer)
            yield* dying.arm
            const running = yield* Effect.forkIn(Effect.exit(first.run(turn)), first.scope)
            yield* Effect.raceFirst(t.eventually(Effect.sync(dying.isDead)), Fiber.await(running))
            yield* Effect.forkIn(first.stop, yield* Scope.make())
            const second = yield* processOf(base)
            const answer = yield* second.run(turn)
            const texts = yield* second.run(textsOf("a"))
            yield* second.stop
            const { cursor: _, sequence: __, ...rest } = answer
            return { answer: rest, texts, writes: dying.writes.length }
          })
          paid.length = 0
          const whole = yield* end(Number.POSITIVE_INFINITY)
          assert.isAbove(whole.writes, 1)
          for (let at = 1; at <= whole.writes; at++) {
            paid.length = 0
            const { answer, texts } = yield* end(at)
            assert.deepStrictEqual({ answer, texts }, { answer: whole.answer, texts: whole.texts }, `${at}`)
            assert.isTrue(paid.every((amount) => amount === 5))
          }
        })
      )
    }
  })
}

describe("MONEY-4 guards on the screen", () => {
  for (const text of ["held", "live"] as const) {
    it.live(`of a refused answer nothing is shown, with the text ${text}, over the AI SDK and AG-UI`, () =>
      Effect.gen(function* () {
        const guard = Guard.make("keys", {
          on: "output",
          text,
          check: () => Effect.succeed(Guard.refuse("A key.")).pipe(Effect.delay("50 millis"))
        })
        const slow = ScriptedModel.layer([{ text: "The key is sk-1, my friend.", chunkDelay: "5 millis" }])
        const layer = Session.layer([agent], { run: { guards: [guard] } }).pipe(
          Layer.provide([handlers, slow, VersionedStore.layerMemory])
        )
        const { events, projected } = yield* Effect.gen(function* () {
          const { messageId } = yield* Session.send("a", "key")
          const sessions = yield* Session.Session
          const events = yield* sessions.live("a").pipe(
            Stream.filterMap(ChatEvent.project()),
            Stream.map(({ event }) => event),
            Stream.takeUntil(({ _tag }) => _tag === "TurnFinished"),
            Stream.runCollect
          )
          return { events, projected: { of: messageId } }
        }).pipe(Effect.provide(layer))
        const deltas = events.filter(({ _tag }) => _tag === "AnswerDelta")
        const ui = yield* Stream.fromIterable(events).pipe(UiMessages.fromEvents(projected), Stream.runCollect)
        const agEvents = yield* Stream.fromIterable(events).pipe(
          screen.stream(
            agUi.protocol,
            agUi.begin(projected.of, { runId: "r", threadId: "a", messages: [], hasReasoning: false })
          ),
          Stream.runCollect
        )
        assert.strictEqual(deltas.length > 0, text === "live")
        assert.deepInclude(events.at(-1), { outcome: "Refused", refusal: { guard: "keys", reason: "A key." } })
        assert.deepInclude(ui.at(-1), { type: "error", errorText: "A key." })
        assert.deepInclude(agEvents.at(-1), { type: "RUN_ERROR", message: "A key.", code: "Refused" })
        const types = ui.map(({ type }) => type)
        assert.strictEqual(types.includes("text-delta"), text === "live")
        if (text === "live") assert.isAbove(types.indexOf("reset-step"), types.lastIndexOf("text-delta"))
      }).pipe(Effect.timeout("20 seconds"))
    )
  }
})
