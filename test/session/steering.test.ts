/** SCREEN-2: a message during a turn is queued, refused, or steers. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Result, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Conversation, Message, Run, VersionedStore } from "effect-emissary"
import { SqliteClient, SqliteRunner } from "effect-emissary/node"
import { Plan, Step } from "effect-emissary/plan"
import { ChatEvent, ClusterSession, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as t from "./sessions.ts"

const toolkit = Toolkit.make(
  Tool.make("work", { parameters: Schema.Struct({}), success: Schema.String }),
  Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String, needsApproval: true })
)

/** The first message names the calls of the first answer. All other answers have no call, unless a message asks for some. */
const model: ScriptedModel.TurnFunction = (request) => {
  const last = t.asked(request)
  if (last === "one: fail") return { fail: { reason: "AuthenticationError" } }
  if (last === "two: hang") return Effect.never
  const since = request.messages.slice(request.messages.findLastIndex(({ role }) => role === "user"))
  const names = since.some(({ role }) => role === "assistant") ? undefined : last.split(": ")[1]
  return names === undefined
    ? { text: `re: ${last}` }
    : { toolCalls: names.split(" ").map((name) => ({ name, params: {} })) }
}

/** The tool waits until it is opened, and the agent cannot be prepared while it is broken. */
interface Held {
  readonly started: Deferred.Deferred<void>
  readonly gate: Deferred.Deferred<void>
  isBroken: boolean
}

const makeHeld = Effect.gen(function* () {
  const held: Held = { started: yield* Deferred.make<void>(), gate: yield* Deferred.make<void>(), isBroken: false }
  return held
})

const clerkOf = (held: Held, maxSteps?: number) =>
  Agent.make("clerk", {
    toolkit,
    instructions: Effect.suspend(() => (held.isBroken ? Effect.fail("broken" as const) : Effect.succeed("You work."))),
    ...(maxSteps === undefined ? {} : { maxSteps })
  })

const workOf = ({ gate, started }: Held) =>
  Layer.merge(
    toolkit.toLayer({
      work: () => Effect.as(Effect.andThen(Deferred.succeed(started, undefined), Deferred.await(gate)), "worked"),
      pay: () => Effect.succeed("paid")
    }),
    ScriptedModel.layer(model)
  )

type Options = Session.LayerOptions & { readonly maxSteps?: number }

const inMemory = (held: Held, { maxSteps, ...options }: Options = {}) =>
  Session.layer([clerkOf(held, maxSteps)], options).pipe(
    Layer.provideMerge(workOf(held)),
    Layer.provide(VersionedStore.layerMemory)
  )

const onSqlite = (held: Held) =>
  Session.layer([clerkOf(held)]).pipe(
    Layer.provideMerge(workOf(held)),
    Layer.provide(Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" })))
  )

const onFleet = (held: Held) =>
  ClusterSession.layer([clerkOf(held)]).pipe(
    Layer.provideMerge(SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })),
    Layer.provideMerge(workOf(held)),
    Layer.orDie
  )

/** The conversation, as a text for each message. */
const saidIn = (sessions: Session.Service) =>
  Effect.map(sessions.history("a"), (history) =>
    Conversation.messages(history)
      .flatMap((message): ReadonlyArray<string> => {
        if (message.role === "user") return [Message.text(message)]
        if (message.role === "assistant") return [Message.text(message) || "calls"]
        if (message.role === "system") return []
        return [message.result._tag === "Success" ? String(message.result.value) : message.result.type]
      })
      .join(", ")
  )

const countOf = (sessions: Session.Service, tag: string) =>
  Effect.map(t.tags(sessions, "a"), (tags) => tags.filter((one) => one === tag).length)

const send = (text: string, options?: Session.SendOptions) => Session.send("a", text, { messageId: text, ...options })

/** Sends the first message, and waits until its tool is under way. */
const toWork = Effect.fnUntraced(function* (held: Held, text = "one: work") {
  const receipt = yield* send(text)
  yield* Deferred.await(held.started)
  return receipt
})

const open = ({ gate }: Held) => Deferred.succeed(gate, undefined)

const rest = Effect.fnUntraced(function* (sessions: Session.Service) {
  yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ status }) => status !== "running"))
  return yield* t.stateOf(sessions, "a")
})

/** The states of a session when the second message comes. */
const states = {
  idle: () => Session.turn("a", "one", { messageId: "one" }),
  running: (held: Held) => toWork(held),
  "running, and then waiting": (held: Held) => toWork(held, "one: work pay"),
  waiting: () => Session.turn("a", "one: pay", { messageId: "one" }),
  failed: () => Effect.exit(Session.turn("a", "one: fail", { messageId: "one" })),
  held: (held: Held) =>
    Effect.gen(function* () {
      held.isBroken = true
      yield* Effect.exit(Session.turn("a", "one", { messageId: "one" }))
      held.isBroken = false
    })
}

type State = keyof typeof states

const whens = ["queue", "reject", "steer"] as const

const pendings = ["keep", "deny"] as const

/**
 * A cell: the conversation in the end, where all calls that still wait are approved, the number of ends of runs, and how the wait for the
 * second message ended.
 */
type Cell = readonly [said: string, ends: number, outcome: string]

const inTurn = "one: work, calls, worked, two, re: two"
const behind = "one: work, calls, worked, re: one: work, two, re: two"
const afterPay = "one: pay, calls, paid, two, re: two"
const pastPay = "one: pay, calls, denied, two, re: two"

const decided: Cell = [afterPay, 3, "AwaitingApproval"]
const denied: Cell = [pastPay, 2, "Completed"]
const both = (result: string) => `one: work pay, calls, ${result}, two, re: two`

/** A row for each state. Each has the cells of `keep`, and then of `deny`. */
const table: { readonly [S in State]: { readonly [W in (typeof whens)[number]]: readonly [keep: Cell, deny: Cell] } } =
  {
    idle: {
      queue: [
        ["one, re: one, two, re: two", 2, "Completed"],
        ["one, re: one, two, re: two", 2, "Completed"]
      ],
      reject: [
        ["one, re: one, two, re: two", 2, "Completed"],
        ["one, re: one, two, re: two", 2, "Completed"]
      ],
      steer: [
        ["one, re: one, two, re: two", 2, "Completed"],
        ["one, re: one, two, re: two", 2, "Completed"]
      ]
    },
    running: {
      queue: [
        [behind, 2, "Completed"],
        [behind, 2, "Completed"]
      ],
      reject: [
        ["one: work, calls, worked, re: one: work", 1, "Busy"],
        ["one: work, calls, worked, re: one: work", 1, "Busy"]
      ],
      steer: [
        [inTurn, 1, "Completed"],
        [inTurn, 1, "Completed"]
      ]
    },
    "running, and then waiting": {
      queue: [
        [both("worked, paid"), 3, "AwaitingApproval"],
        [both("worked, denied"), 2, "Completed"]
      ],
      reject: [
        ["one: work pay, calls, worked, paid, re: one: work pay", 2, "Busy"],
        ["one: work pay, calls, worked, paid, re: one: work pay", 2, "Busy"]
      ],
      steer: [
        [both("worked, paid"), 3, "AwaitingApproval"],
        [both("worked, denied"), 2, "Completed"]
      ]
    },
    waiting: { queue: [decided, denied], reject: [decided, denied], steer: [decided, denied] },
    failed: {
      queue: [
        ["one: fail, two, re: two", 1, "Completed"],
        ["one: fail, two, re: two", 1, "Completed"]
      ],
      reject: [
        ["one: fail, two, re: two", 1, "Completed"],
        ["one: fail, two, re: two", 1, "Completed"]
      ],
      steer: [
        ["one: fail, two, re: two", 1, "Completed"],
        ["one: fail, two, re: two", 1, "Completed"]
      ]
    },
    held: {
      queue: [
        ["one, re: one, two, re: two", 2, "Completed"],
        ["one, re: one, two, re: two", 2, "Completed"]
      ],
      reject: [
        ["one, re: one, two, re: two", 2, "Completed"],
        ["one, re: one, two, re: two", 2, "Completed"]
      ],
      steer: [
        ["one, two, re: two", 1, "Completed"],
        ["one, two, re: two", 1, "Completed"]
      ]
    }
  }

const cellOf = Effect.fnUntraced(function* (state: State, held: Held, options: Session.SendOptions) {
  const sessions = yield* Session.Session
  yield* states[state](held)
  const sent = yield* Effect.result(send("two", options))
  const waiting = yield* Effect.forkChild(
    Result.isSuccess(sent)
      ? Effect.map(Session.await("a", sent.success), ({ outcome }): string => outcome)
      : Effect.succeed(sent.failure.reason._tag)
  )
  yield* open(held)
  const outcome = yield* Fiber.join(waiting)
  const { requests } = yield* rest(sessions)
  if (requests.length > 0)
    yield* Session.await("a", yield* sessions.decide("a", requests.filter(Run.isApprovable).map(Run.approve)))
  yield* t.until(sessions, "a", "idle")
  assert.deepStrictEqual((yield* t.stateOf(sessions, "a")).queue, [])
  const cell: Cell = [yield* saidIn(sessions), yield* countOf(sessions, "RunFinished"), outcome]
  return cell
})

const stores = [
  ["in memory", inMemory, Object.keys(states)],
  ["on SQLite", onSqlite, Object.keys(states)],
  ["on a fleet", onFleet, ["running", "running, and then waiting"]]
] as const

for (const [store, layer, among] of stores) {
  describe(`SCREEN-2 the table of messages, ${store}`, () => {
    for (const state of Object.keys(states) as ReadonlyArray<State>) {
      if (!(among as ReadonlyArray<string>).includes(state)) continue
      for (const whenBusy of whens) {
        for (const [index, pending] of pendings.entries()) {
          it.live(`SCREEN-2 ${state}: whenBusy "${whenBusy}", pending "${pending}"`, () =>
            Effect.gen(function* () {
              const held = yield* makeHeld
              const cell = yield* Effect.provide(cellOf(state, held, { whenBusy, pending }), layer(held))
              assert.deepStrictEqual(cell, table[state][whenBusy][index])
            })
          )
        }
      }
    }
  })
}

const steer = { whenBusy: "steer" } as const

const withHeld = <A, E>(
  use: (held: Held, sessions: Session.Service) => Effect.Effect<A, E, Session.Session | ScriptedModel.ScriptedModel>,
  options?: Options
) =>
  Effect.gen(function* () {
    const held = yield* makeHeld
    return yield* Effect.flatMap(Session.Session, (sessions) => use(held, sessions)).pipe(
      Effect.provide(inMemory(held, options))
    )
  })

describe("SCREEN-2 messages that steer", () => {
  it.live("SCREEN-2 two steps and four messages are two model calls, and one turn", () =>
    withHeld(
      Effect.fnUntraced(function* (held, sessions) {
        const first = yield* toWork(held)
        const receipts = yield* Effect.forEach(["two", "three", "four", "five"], (text) => send(text, steer))
        const waits = yield* Effect.forEach([first, ...receipts], (receipt) =>
          Effect.forkChild(Session.await("a", receipt))
        )
        const followed = yield* Effect.forkChild(
          Effect.forEach([first, ...receipts], (receipt) => Stream.runLast(Session.turnEvents("a", receipt)))
        )
        yield* open(held)
        const answers = yield* Effect.forEach(waits, (wait) => Fiber.join(wait))
        assert.strictEqual(new Set(answers.map(({ cursor, text }) => `${cursor} ${text}`)).size, 1)
        assert.strictEqual(new Set((yield* Fiber.join(followed)).map((last) => JSON.stringify(last))).size, 1)
        assert.strictEqual(answers[0]?.text, "re: five")
        assert.strictEqual(yield* saidIn(sessions), "one: work, calls, worked, two, three, four, five, re: five")
        const { steps } = yield* t.stateOf(sessions, "a")
        assert.deepStrictEqual([steps, (yield* ScriptedModel.requests).length], [2, 2])
        // The receipts are found again
        const again = yield* Effect.forEach(receipts, ({ messageId }) =>
          Session.turn("a", messageId, { messageId, ...steer })
        )
        assert.deepStrictEqual(again, answers.slice(1))
      }),
      { maxSteps: 2 }
    )
  )

  it.live("SCREEN-2 a message leaves the queue wherever it is, and front ends see when it is taken", () =>
    withHeld(
      Effect.fnUntraced(function* (held, sessions) {
        yield* toWork(held)
        yield* send("two")
        yield* send("three", steer)
        yield* send("four")
        assert.deepStrictEqual((yield* t.stateOf(sessions, "a")).queue, ["two", "three", "four"])
        yield* open(held)
        yield* t.until(sessions, "a", "idle")
        assert.strictEqual(
          yield* saidIn(sessions),
          "one: work, calls, worked, three, re: three, two, re: two, four, re: four"
        )
        const seen = yield* t.stored(sessions, "a")
        const taken = seen.flatMap((entry) => {
          const shown = Result.getOrUndefined(ChatEvent.project()(entry))?.event
          if (shown?._tag === "TurnFinished") return ["end"]
          return shown?._tag === "MessageTaken" ? [shown.messageId] : []
        })
        assert.deepStrictEqual(taken, ["one: work", "three", "end", "two", "end", "four", "end"])
      })
    )
  )

  it.live("SCREEN-2 a message that comes with the last answer begins the next turn, with steps of its own", () =>
    Effect.gen(function* () {
      const asked = yield* Deferred.make<void>()
      const answer = yield* Deferred.make<void>()
      const script: ScriptedModel.TurnFunction = (request) =>
        Effect.as(Effect.andThen(Deferred.succeed(asked, undefined), Deferred.await(answer)), {
          text: `re: ${t.asked(request)}`
        })
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const first = yield* send("one")
        yield* Deferred.await(asked)
        const second = yield* send("two", steer)
        yield* Deferred.succeed(answer, undefined)
        assert.strictEqual((yield* Session.await("a", first)).text, "re: one")
        assert.strictEqual((yield* Session.await("a", second)).text, "re: two")
        assert.strictEqual(yield* saidIn(sessions), "one, re: one, two, re: two")
        assert.strictEqual(yield* countOf(sessions, "RunFinished"), 2)
      }).pipe(Effect.provide(t.over(script, { run: { maxSteps: 1 } })))
    })
  )

  it.live("SCREEN-2 a message with another context or model waits for its turn", () =>
    withHeld(
      Effect.fnUntraced(function* (held, sessions) {
        yield* toWork(held)
        yield* send("two", { ...steer, context: { user: "bob" } })
        yield* send("three", steer)
        yield* open(held)
        yield* t.until(sessions, "a", "idle")
        assert.strictEqual(yield* saidIn(sessions), "one: work, calls, worked, three, re: three, two, re: two")
      })
    )
  )

  for (const [first, second] of [
    ["1 hour", "10 seconds"],
    ["10 seconds", "1 hour"],
    [undefined, "10 seconds"]
  ] as const) {
    it.effect(`SCREEN-2 a turn of ${first} that a message of ${second} steers ends at the earlier limit`, () =>
      withHeld(
        Effect.fnUntraced(function* (held, sessions) {
          const receipt = yield* send("one: work", { timeout: first })
          yield* Deferred.await(held.started)
          const steering = yield* send("two: hang", { ...steer, timeout: second })
          yield* open(held)
          const asked = Effect.andThen(Effect.yieldNow, ScriptedModel.requests)
          yield* Effect.repeat(asked, { until: ({ length }) => length === 2 })
          yield* TestClock.adjust("9 seconds")
          assert.strictEqual((yield* t.stateOf(sessions, "a")).status, "running")
          yield* TestClock.adjust("1 second")
          const ended = { outcome: "Interrupted", reason: "timeout" } as const
          for (const each of [receipt, steering]) assert.deepInclude(yield* Session.await("a", each), ended)
          assert.strictEqual(yield* saidIn(sessions), "one: work, calls, worked, two: hang")
          assert.strictEqual((yield* Session.turn("a", "three")).text, "re: three")
        })
      )
    )
  }

  it.live("SCREEN-2 the limit of a message that steers holds for the process that continues the turn", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const held = yield* makeHeld
      const layer = Session.layer([clerkOf(held)], { drainTime: "1 millis" }).pipe(Layer.provide([store, workOf(held)]))
      const second = yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* t.sessionsOf(layer)
          const use = Effect.provideService(Session.Session, sessions)
          yield* use(toWork(held))
          const receipt = yield* use(send("two: hang", { ...steer, timeout: "1 second" }))
          yield* open(held)
          yield* t.eventually(Effect.map(countOf(sessions, "InputAdded"), (count) => count === 2))
          return receipt
        })
      )
      const sessions = yield* t.sessionsOf(layer)
      const ended = yield* Effect.provideService(Session.await("a", second), Session.Session, sessions)
      assert.deepInclude(ended, { outcome: "Interrupted", reason: "timeout" })
    })
  )

  it.live("SCREEN-2 a message can be withdrawn and edited until it is taken", () =>
    withHeld(
      Effect.fnUntraced(function* (held, sessions) {
        yield* toWork(held)
        yield* send("two", steer)
        yield* send("three", steer)
        assert.isTrue(yield* sessions.withdraw("a", "two"))
        yield* sessions.edit("a", { messageId: "three", input: "four", newMessageId: "four" })
        yield* open(held)
        yield* t.until(sessions, "a", "idle")
        assert.strictEqual(yield* saidIn(sessions), "one: work, calls, worked, four, re: four")
        assert.isFalse(yield* sessions.withdraw("a", "four"))
        // A message that was taken is a message of the conversation
        const edited = yield* sessions.edit("a", { messageId: "four", input: "five", newMessageId: "five" })
        assert.strictEqual((yield* Session.await("a", edited)).text, "re: five")
        assert.strictEqual(yield* saidIn(sessions), "one: work, calls, worked, five, re: five")
      })
    )
  )

  it.live("SCREEN-2 an interruption stops the turn, and a message that waits begins the next one", () =>
    withHeld(
      Effect.fnUntraced(function* (held, sessions) {
        const first = yield* toWork(held)
        const second = yield* send("two", steer)
        const waiting = yield* Effect.forkChild(Session.await("a", first))
        assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
        assert.strictEqual((yield* Fiber.join(waiting)).outcome, "Interrupted")
        assert.strictEqual((yield* Session.await("a", second)).outcome, "Completed")
        assert.strictEqual(yield* saidIn(sessions), "one: work, calls, interrupted, two, re: two")
      })
    )
  )

  it.live("SCREEN-2 an interruption after a message was taken is the end for this message, too", () =>
    withHeld(
      Effect.fnUntraced(function* (held, sessions) {
        const first = yield* toWork(held)
        const second = yield* send("two: hang", steer)
        yield* open(held)
        yield* t.eventually(Effect.map(countOf(sessions, "InputAdded"), (count) => count === 2))
        assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
        for (const receipt of [first, second]) {
          assert.strictEqual((yield* Session.await("a", receipt)).outcome, "Interrupted")
        }
        assert.strictEqual(yield* saidIn(sessions), "one: work, calls, worked, two: hang")
        assert.strictEqual((yield* t.stateOf(sessions, "a")).status, "idle")
      })
    )
  )

  it.live("SCREEN-2 L11 a message that was stored enters the turn that another process continues", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const held = yield* makeHeld
      const layer = (held: Held) =>
        Session.layer([clerkOf(held)], { drainTime: "1 millis" }).pipe(Layer.provide([store, workOf(held)]))
      const second = yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* t.sessionsOf(layer(held))
          const use = Effect.provideService(Session.Session, sessions)
          yield* use(toWork(held))
          return yield* use(send("two", steer))
        })
      )
      const sessions = yield* t.sessionsOf(layer(yield* makeHeld))
      const answer = yield* Effect.provideService(Session.await("a", second), Session.Session, sessions)
      assert.strictEqual(answer.text, "re: two")
      assert.strictEqual(yield* saidIn(sessions), "one: work, calls, interrupted, two, re: two")
      assert.strictEqual(yield* countOf(sessions, "RunFinished"), 1)
    })
  )

  it.live("SCREEN-2 a plan takes no message: it waits for its turn", () =>
    Effect.gen(function* () {
      const held = yield* makeHeld
      const target = ({ task }: { readonly task: string }) =>
        Effect.as(Effect.andThen(Deferred.succeed(held.started, undefined), Deferred.await(held.gate)), `did ${task}`)
      const plan = yield* Plan.bind(yield* Plan.make("plan", [Step.make("step", { target })]))
      const layer = Session.layer([plan]).pipe(Layer.provide(VersionedStore.layerMemory))
      yield* Effect.gen(function* () {
        yield* toWork(held, "one")
        const second = yield* send("two", steer)
        yield* open(held)
        assert.strictEqual((yield* Session.await("a", second)).text, "did two")
        assert.strictEqual(yield* saidIn(yield* Session.Session), "one, did one, two, did two")
      }).pipe(Effect.provide(layer))
    })
  )
})
