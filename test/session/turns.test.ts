/** DUR-1: the turns of a session: one after the other, whatever ends them. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Exit, Fiber, Layer, Logger, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ContextWindow, Conversation, Limits, ToolRuntime, VersionedStore } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteRunner } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { changed } from "../store/changed.ts"
import * as t from "./sessions.ts"

describe("DUR-1 one writer", () => {
  it.live("messages at once never run a tool twice or throw its result away", () =>
    Effect.gen(function* () {
      const { agent, handlers } = t.withTool("worker")
      const ran: Array<number> = []
      let atOnce = 0
      const work = (n: number) =>
        Effect.gen(function* () {
          assert.strictEqual(++atOnce, 1)
          yield* Effect.sleep("5 millis")
          atOnce--
          ran.push(n)
          return `${n}`
        })
      const model: ScriptedModel.TurnFunction = (request) =>
        request.messages.at(-1)?.role === "tool" ? { text: t.asked(request) } : t.call(Number(t.asked(request)))
      const layer = Session.layer([agent]).pipe(
        Layer.provide(VersionedStore.layerMemory),
        Layer.provide(handlers(work)),
        Layer.provide(ScriptedModel.layer(model))
      )
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const numbers = [1, 2, 3, 4, 5]
        const answers = yield* Effect.forEach(numbers, (n) => Session.turn("a", `${n}`), { concurrency: "unbounded" })
        assert.deepStrictEqual(
          answers.map(({ text }) => text),
          numbers.map((n) => `${n}`)
        )
        assert.sameMembers(ran, numbers)
        assert.strictEqual(Conversation.messageCount(yield* sessions.history("a")), 20)
        const { steps } = yield* t.stateOf(sessions, "a")
        assert.strictEqual(steps, 10)
      }).pipe(Effect.provide(layer))
    })
  )

  it.live('`whenBusy: "reject"` refuses a message while a turn is under way, and stores nothing', () =>
    Effect.gen(function* () {
      const answer = yield* Deferred.make<ScriptedModel.Turn>()
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const { cursor } = yield* sessions.send("a", "one", { whenBusy: "reject" })
        assert.strictEqual(yield* t.reasonOf(sessions.send("a", "two", { whenBusy: "reject" })), "Busy")
        yield* Deferred.succeed(answer, { text: "1" })
        yield* t.turns(sessions, "a", 1, cursor)
        yield* t.until(sessions, "a", "idle")
        yield* sessions.send("a", "three", { whenBusy: "reject" })
        const received = (yield* t.tags(sessions, "a")).filter((tag) => tag === "MessageReceived")
        assert.strictEqual(received.length, 2)
      }).pipe(Effect.provide(t.over(() => Deferred.await(answer))))
    })
  )

  it.live("a message with an id that was received is not stored again, and its answer is found again", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const send = sessions.send("a", "one", { messageId: "m1" })
      const receipts = yield* Effect.all([send, send, send], { concurrency: 3 })
      assert.strictEqual(new Set(receipts.map(({ sequence }) => sequence)).size, 1)
      const first = yield* Session.turn("a", "one", { messageId: "m1" })
      assert.deepStrictEqual(yield* Session.turn("a", "one", { messageId: "m1" }), first)
      assert.strictEqual((yield* ScriptedModel.requests).length, 1)
    }).pipe(Effect.provide(t.over(t.echo)))
  )

  it.live(
    "KEEP-6 the beginning of a turn is stored while the model is asked, and a model that never answers can be interrupted",
    () =>
      Effect.gen(function* () {
        const isAsked = yield* Deferred.make<void>()
        yield* Effect.gen(function* () {
          const sessions = yield* Session.Session
          yield* sessions.send("a", "one")
          yield* Deferred.await(isAsked)
          assert.deepStrictEqual(yield* t.tags(sessions, "a"), ["MessageReceived"])
          yield* t.eventually(Effect.map(t.tags(sessions, "a"), ({ length }) => length > 1))
          assert.deepStrictEqual(yield* t.tags(sessions, "a"), [
            "MessageReceived",
            "RunStarted",
            "InputAdded",
            "StepStarted"
          ])
          assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
          assert.deepStrictEqual((yield* t.tags(sessions, "a")).slice(4), ["RunInterrupted", "RunFinished"])
        }).pipe(Effect.provide(t.over(() => Effect.andThen(Deferred.succeed(isAsked, undefined), Effect.never))))
      })
  )

  it.live("a caller who leaves while the message is stored loses nothing: it is answered", () =>
    Effect.gen(function* () {
      const written = yield* Deferred.make<void>()
      const slow = changed(({ compareAndSet }) => ({
        compareAndSet: (key, expected, value) =>
          Effect.andThen(
            Effect.sleep("20 millis"),
            compareAndSet(key, expected, value).pipe(
              Effect.tap(() => (key.includes("/head/") ? Deferred.succeed(written, undefined) : Effect.void))
            )
          )
      }))
      const layer = Session.layer([t.support]).pipe(
        Layer.provide(slow),
        Layer.provide(VersionedStore.layerMemory),
        Layer.provide(ScriptedModel.layer(t.echo))
      )
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const sending = yield* Effect.forkChild(sessions.send("a", "one"))
        // The session exists, its message is being written
        yield* Deferred.await(written)
        yield* Fiber.interrupt(sending)
        const [ended] = yield* t.turns(sessions, "a", 1).pipe(Effect.timeout("4 minutes"))
        assert.strictEqual(ended && t.tagOf(ended), "RunFinished")
      }).pipe(Effect.provide(layer))
    })
  )

  it.live("a turn does not run inside the caller who began it", () =>
    Effect.gen(function* () {
      const toolkit = Toolkit.make(Tool.make("ask", { parameters: Schema.Struct({}), success: Schema.String }))
      const asker = Agent.make("asker", { toolkit })
      const service = yield* Deferred.make<Session.Service>()
      const handlers = toolkit.toLayer({
        ask: () =>
          Effect.gen(function* () {
            const sessions = yield* Deferred.await(service)
            const { text } = yield* Effect.orDie(
              Effect.provideService(Session.turn("inner", "hi", { agent: "support" }), Session.Session, sessions)
            )
            return text
          })
      })
      const model: ScriptedModel.TurnFunction = (request) =>
        request.tools.length > 0 && request.messages.at(-1)?.role !== "tool"
          ? { toolCalls: [{ name: "ask", params: {} }] }
          : { text: "done" }
      const layer = Session.layer([asker, t.support]).pipe(
        Layer.provide(VersionedStore.layerMemory),
        Layer.provide(handlers),
        Layer.provide(ScriptedModel.layer(model))
      )
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* Deferred.succeed(service, sessions)
        yield* Session.turn("outer", "go", { agent: "asker", context: { tenant: "a" } })
        const started = (yield* t.stored(sessions, "inner")).flatMap(({ event }) =>
          event._tag === "RunEvent" && event.event._tag === "RunStarted" ? [event.event] : []
        )
        assert.deepStrictEqual(
          started.map(({ context, depth }) => ({ context, depth })),
          [{ context: {}, depth: 0 }]
        )
      }).pipe(Effect.provide(layer))
    })
  )
})

describe("DUR-1 agents", () => {
  const two = Session.layer([t.support, Agent.make("sales")]).pipe(
    Layer.provideMerge(VersionedStore.layerMemory),
    Layer.provide(ScriptedModel.layer(t.echo))
  )

  it.live("a session is one with the agent that its first message names", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      assert.strictEqual(yield* t.reasonOf(sessions.send("a", "one")), "AgentUnknown")
      assert.strictEqual(yield* t.reasonOf(sessions.send("a", "one", { agent: "nobody" })), "AgentUnknown")
      assert.isTrue(Option.isNone(yield* sessions.state("a")))
      yield* Session.turn("a", "one", { agent: "sales" })
      yield* Session.turn("a", "two")
      assert.strictEqual(yield* t.reasonOf(sessions.send("a", "three", { agent: "support" })), "AgentDiffers")
      assert.strictEqual((yield* t.stateOf(sessions, "a")).agent, "sales")
    }).pipe(Effect.provide(two))
  )

  t.passing("CONV-7 a summary that fails is no fault of the window: the turn can be tried again", () =>
    Effect.gen(function* () {
      yield* Session.ask("a", "Tell me a story")
      const error = yield* Effect.flip(Session.ask("a", "And now?"))
      assert(error._tag === "SessionError" && error.reason._tag === "TurnFailed")
      assert.deepStrictEqual([error.reason.failure.reason, error.category], ["ContextWindowFailed", "unavailable"])
      assert.include(error.message, "failed with an untagged error. Read the log, which has the cause")
    }).pipe(
      Effect.provide(
        t.over([{ text: "story ".repeat(200) }], {
          run: { contextWindow: ContextWindow.summarize({ above: 100, summarize: () => Effect.fail("away") }) }
        })
      ),
      Effect.provide(Logger.layer([]))
    )
  )

  it.live(
    "RIGHT-13 a session of an agent that the layer no longer has takes no message, and its turn can be stopped",
    () =>
      Effect.gen(function* () {
        const store = yield* t.store
        const model = ScriptedModel.layer(() => Effect.never)
        const old = Session.layer([Agent.make("old")]).pipe(Layer.provide(store), Layer.provide(model))
        yield* Effect.scoped(Effect.flatMap(t.sessionsOf(old), (sessions) => sessions.send("a", "one")))
        const next = Session.layer([t.support]).pipe(Layer.provide(store), Layer.provide(model))
        const sessions = yield* t.sessionsOf(next)
        const error = yield* Effect.flip(sessions.send("a", "two"))
        assert.deepStrictEqual([error.reason._tag, error.category], ["AgentUnknown", "unavailable"])
        assert.notInclude(error.message, "option agent")
        assert.strictEqual(yield* t.reasonOf(sessions.send("a", "two", { agent: "support" })), "AgentDiffers")
        // Its turn is left to a process that has the agent
        assert.strictEqual((yield* t.stateOf(sessions, "a")).status, "running")
        assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
        const { failure, status } = yield* t.stateOf(sessions, "a")
        assert.deepStrictEqual([failure?.reason, status], ["Interrupted", "idle"])
        assert.isUndefined((yield* sessions.interrupt("a")).isInterrupted)
        assert.isTrue(yield* sessions.remove("a"))
      }).pipe(Effect.scoped)
  )
})

describe("DUR-1 interrupt", () => {
  it.live("an interruption of a turn that prepares its agent keeps its message, and the next one is answered", () =>
    Effect.gen(function* () {
      const preparing = yield* Deferred.make<void>()
      let isSlow = true
      const instructions = Effect.suspend(() =>
        isSlow ? Effect.andThen(Deferred.succeed(preparing, undefined), Effect.never) : Effect.succeed("Help.")
      )
      const slow = Agent.make("slow", { instructions })
      const layer = Session.layer([slow]).pipe(
        Layer.provide(VersionedStore.layerMemory),
        Layer.provide(ScriptedModel.layer(t.echo))
      )
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const first = yield* Effect.forkChild(Session.turn("a", "one"))
        yield* Deferred.await(preparing)
        const second = yield* Effect.forkChild(Session.turn("a", "two"))
        yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ queue }) => queue.length === 2))
        isSlow = false
        assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
        assert.strictEqual((yield* Fiber.join(first)).outcome, "Interrupted")
        assert.strictEqual((yield* Fiber.join(second)).text, "re: two")
        // Between turns there is nothing to interrupt
        yield* t.until(sessions, "a", "idle")
        assert.isUndefined((yield* sessions.interrupt("a")).isInterrupted)
        isSlow = true
        yield* sessions.send("a", "three")
        yield* Effect.sleep("20 millis")
        const both = yield* Effect.all([sessions.interrupt("a"), sessions.interrupt("a")], { concurrency: 2 })
        assert.isTrue(both.some(({ isInterrupted }) => isInterrupted))
        assert.strictEqual((yield* t.stateOf(sessions, "a")).status, "idle")
      }).pipe(Effect.provide(layer))
    })
  )

  it.live("a message that was acknowledged is in the conversation, also where its turn is stopped at once", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      for (let n = 0; n < 30; n++) {
        yield* sessions.send("a", `message ${n}`)
        assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
      }
      const history = yield* sessions.history("a")
      const users = Conversation.messages(history).filter(({ role }) => role === "user")
      assert.lengthOf(users, 30)
    }).pipe(Effect.provide(t.over(() => ({ text: "never", delay: "1 minute" }))))
  )

  it.live("calls that a stopped turn had not started do not run when the next message comes", () =>
    Effect.gen(function* () {
      const { agent, handlers } = t.withTool("worker")
      const ran: Array<number> = []
      const started = yield* Deferred.make<void>()
      const layer = Session.layer([agent]).pipe(
        Layer.provide(VersionedStore.layerMemory),
        Layer.provide(ToolRuntime.layerInline),
        Layer.provide(
          handlers((n) => {
            ran.push(n)
            return n === 1 ? Effect.andThen(Deferred.succeed(started, undefined), Effect.never) : Effect.succeed("ok")
          })
        ),
        Layer.provide(ScriptedModel.layer([t.call(1, 2, 3), { text: "I stopped." }]))
      )
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* sessions.send("a", "Do it all")
        yield* Deferred.await(started)
        assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
        const { text } = yield* Session.turn("a", "Stop that")
        assert.strictEqual(text, "I stopped.")
        assert.deepStrictEqual(ran, [1])
        const results = Conversation.messages(yield* sessions.history("a")).filter(({ role }) => role === "tool")
        assert.lengthOf(results, 3)
      }).pipe(Effect.provide(layer))
    })
  )

  it.live("an interruption at any moment of a turn is recorded, and no call runs twice", () =>
    Effect.gen(function* () {
      const { agent, handlers } = t.withTool("worker")
      for (let delay = 0; delay < 30; delay++) {
        let ran = 0
        const slow = changed(({ compareAndSet }) => ({
          compareAndSet: (...args) => Effect.andThen(Effect.sleep("1 millis"), compareAndSet(...args))
        }))
        const model: ScriptedModel.TurnFunction = (request) =>
          request.messages.at(-1)?.role === "user" && t.asked(request) === "one"
            ? t.call(1, 2)
            : { text: t.asked(request) }
        const layer = Session.layer([agent]).pipe(
          Layer.provide(slow),
          Layer.provide(VersionedStore.layerMemory),
          Layer.provide(
            handlers((n) =>
              Effect.sync(() => {
                ran++
                return `${n}`
              })
            )
          ),
          Layer.provide(ScriptedModel.layer(model))
        )
        yield* Effect.gen(function* () {
          const sessions = yield* Session.Session
          yield* sessions.send("a", "one")
          yield* Effect.sleep(delay)
          const { isInterrupted } = yield* sessions.interrupt("a")
          const state = yield* t.stateOf(sessions, "a")
          assert.notStrictEqual(state.status, "running", `${delay}`)
          if (isInterrupted === true)
            assert.strictEqual(state.outcome ?? state.failure?.reason, "Interrupted", `${delay}`)
          const next = yield* Session.turn("a", "two")
          assert.strictEqual(next.text, "two")
          assert.isAtMost(ran, 2)
          t.assertInOrder(yield* t.stored(sessions, "a"))
        }).pipe(Effect.provide(layer))
      }
    })
  )
})

describe("DUR-1 the log", () => {
  it.live("has the error of a turn that died, without what looks like a key; the events have neither", () => {
    const lines: Array<string> = []
    const logger = Logger.make(({ cause, message }) => void lines.push(`${String(message)} ${Cause.pretty(cause)}`))
    const dying: ScriptedModel.TurnFunction = () => Effect.die(new Error("refused sk-live-4242424242424242"))
    return Effect.gen(function* () {
      assert.strictEqual(yield* t.reasonOf(Session.turn("a", "Hi")), "TurnFailed")
      const [line = ""] = lines
      assert.include(line, 'session "a": the turn failed with Defect')
      assert.include(line, "refused [redacted]")
      const events = JSON.stringify(yield* t.stored(yield* Session.Session, "a"))
      assert.notInclude(`${lines.join("")} ${events}`, "sk-live")
    }).pipe(Effect.provide(t.over(dying)), Effect.provide(Logger.layer([logger])))
  })
})

describe("DUR-1 an interruption after the end", () => {
  it.live("changes nothing: the turn keeps its outcome", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      for (let moment = 0; moment < 4; moment++) {
        const { sequence } = yield* Session.turn(`a${moment}`, "Hi")
        for (let i = 0; i < moment; i++) yield* Effect.yieldNow
        assert.isUndefined((yield* sessions.interrupt(`a${moment}`)).isInterrupted)
        const state = yield* t.stateOf(sessions, `a${moment}`)
        assert.deepStrictEqual([state.sequence, state.outcome], [sequence, "Completed"])
      }
    }).pipe(Effect.provide(t.over(t.echo)))
  )
})

describe("DUR-1 turns that fail", () => {
  const failing = (fail: ScriptedModel.Turn, times: number): ScriptedModel.TurnFunction => {
    let left = times
    return (request) => (left-- > 0 ? fail : t.echo(request))
  }

  it.live("a model that is down fails the turn, and the next message is answered with both in the conversation", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const error = yield* Effect.flip(Session.turn("a", "one"))
      assert.strictEqual(error.reason._tag, "TurnFailed")
      const failed = yield* t.stateOf(sessions, "a")
      assert.strictEqual(failed.status, "idle")
      assert.isDefined(failed.failure)
      const answer = yield* Session.turn("a", "two")
      assert.strictEqual(answer.text, "re: two")
      const state = yield* t.stateOf(sessions, "a")
      assert.isUndefined(state.failure)
      assert.strictEqual(Conversation.messageCount(yield* sessions.history("a")), 4)
    }).pipe(
      Effect.provide(
        t.over(failing({ fail: { reason: "InternalProviderError" } }, 1), { run: { retry: { times: 0 } } })
      )
    )
  )

  it.live("`resume` begins the turn again after a failure", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      assert.strictEqual(yield* t.reasonOf(sessions.resume("a")), "NotFound")
      yield* Effect.flip(Session.turn("a", "one"))
      const { cursor } = yield* t.stateOf(sessions, "a")
      yield* sessions.resume("a")
      yield* t.turns(sessions, "a", 1, cursor)
      assert.strictEqual((yield* t.stateOf(sessions, "a")).outcome, "Completed")
      assert.strictEqual(Conversation.messageCount(yield* sessions.history("a")), 3)
    }).pipe(
      Effect.provide(
        t.over(failing({ fail: { reason: "InternalProviderError" } }, 1), { run: { retry: { times: 0 } } })
      )
    )
  )

  it.effect("`resume` does nothing where no message is left to answer", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const greeting = yield* Conversation.make({ system: "Be kind." })
      const question = yield* Conversation.addUser(Conversation.empty, "zero")
      const begun = [
        ["empty", undefined, ["MessageReceived", "MessageDropped"]],
        ["greeting", greeting, ["MessageReceived", "MessageDropped"]],
        [
          "question",
          question,
          [
            "MessageReceived",
            "MessageDropped",
            "ResumeReceived",
            "RunStarted",
            "StepStarted",
            "ModelAnswered",
            "RunFinished"
          ]
        ]
      ] as const
      for (const [id, conversation, expected] of begun) {
        yield* sessions.send(id, "one", { messageId: "1", ...(conversation !== undefined && { conversation }) })
        assert.isTrue(yield* sessions.withdraw(id, "1"))
        const receipt = yield* sessions.resume(id)
        const ended = yield* Effect.exit(Session.await(id, receipt))
        assert.strictEqual(Exit.isSuccess(ended), id === "question")
        assert.strictEqual(receipt.isOfNewest === true, id !== "question")
        assert.deepStrictEqual(yield* t.tags(sessions, id), [...expected])
        assert.strictEqual((yield* t.stateOf(sessions, id)).status, "idle")
      }
      // The message of an edit is withdrawn, and no other one is before it
      yield* Session.turn("edited", "one", { messageId: "1" })
      yield* sessions.edit("edited", { messageId: "1", input: "two", newMessageId: "2" })
      assert.isTrue(yield* sessions.withdraw("edited", "2"))
      const { sequence } = yield* t.stateOf(sessions, "edited")
      assert.isTrue((yield* sessions.resume("edited")).isOfNewest)
      assert.strictEqual((yield* t.stateOf(sessions, "edited")).sequence, sequence)
    }).pipe(Effect.provide(t.over(t.echo)))
  )

  it.live(
    "RIGHT-10 an answer beyond the limits is one model call and an error with size and limit, and the session continues",
    () =>
      Effect.gen(function* () {
        const sessions = yield* Session.Session
        const { message } = yield* Effect.flip(Session.turn("a", "one").pipe(Effect.timeout("4 minutes")))
        assert.match(message, /expected at most 100000 bytes, got at least 10\d{4}/)
        assert.strictEqual((yield* ScriptedModel.requests).length, 1)
        assert.strictEqual((yield* Session.turn("a", "two")).text, "re: two")
        assert.strictEqual((yield* ScriptedModel.requests).length, 2)
        assert.strictEqual((yield* t.stateOf(sessions, "a")).status, "idle")
      }).pipe(
        Effect.provide(t.over(failing({ text: "x".repeat(200_000) }, 1), undefined, { chunkSize: 10_000 })),
        Effect.provide(Limits.layer({ maxBytes: 100_000 }))
      )
  )
})

describe("DUR-1 remove", () => {
  it.live("deletes a session in a turn, with the messages that wait, and its id can be used again", () =>
    Effect.gen(function* () {
      const isAsked = yield* Deferred.make<void>()
      let calls = 0
      const model: ScriptedModel.TurnFunction = (request) =>
        ++calls === 1 ? Effect.andThen(Deferred.succeed(isAsked, undefined), Effect.never) : t.echo(request)
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const reader = yield* Effect.forkChild(Effect.flip(Stream.runDrain(sessions.events("a"))))
        yield* sessions.send("a", "one")
        yield* sessions.send("a", "two")
        yield* Deferred.await(isAsked)
        assert.isTrue(yield* sessions.remove("a"))
        assert.strictEqual((yield* Fiber.join(reader)).reason._tag, "NotFound")
        assert.isTrue(Option.isNone(yield* sessions.state("a")))
        assert.isFalse(yield* sessions.remove("a"))
        assert.strictEqual(yield* t.reasonOf(sessions.history("a")), "NotFound")
        const store = yield* VersionedStore.VersionedStore
        // the row of the list, from which other processes learn of the removal, is there for a minute
        const isRow = (key: string) => key.startsWith("session/recent/")
        assert.deepStrictEqual(
          (yield* store.list()).keys.filter((key) => !isRow(key)),
          []
        )
        assert.strictEqual(calls, 1)
        const answer = yield* Session.turn("a", "three")
        assert.strictEqual(answer.text, "re: three")
        assert.strictEqual(Conversation.messageCount(yield* sessions.history("a")), 3)
      }).pipe(Effect.provide(t.over(model)))
    })
  )
})

describe("DUR-1 a session that cannot be read", () => {
  const fleet = ClusterSession.layer([t.support]).pipe(Layer.provideMerge(SqliteRunner.layer({ filename: ":memory:" })))
  type Place = Layer.Layer<Session.Session | VersionedStore.VersionedStore, unknown>
  const places: ReadonlyArray<readonly [string, Place]> = [
    ["this process", t.over(t.echo)],
    ["a fleet", Layer.provide(fleet, ScriptedModel.layer(t.echo))]
  ]
  for (const [name, place] of places) {
    it.live(`can be removed in ${name}, and its id can be used again`, () =>
      Effect.gen(function* () {
        const sessions = yield* Session.Session
        const store = yield* VersionedStore.VersionedStore
        yield* store.compareAndSet("session/head/a", Option.none(), { version: 9 })
        assert.strictEqual(yield* t.reasonOf(sessions.state("a")), "Unreadable")
        assert.isTrue(yield* sessions.remove("a"))
        assert.isFalse(yield* sessions.remove("a"))
        assert.strictEqual((yield* Session.turn("a", "Hi")).text, "re: Hi")
      }).pipe(Effect.provide(place))
    )
  }
})

describe("DUR-1 options", () => {
  it.live("that cannot hold are refused by the layer, with their names", () =>
    Effect.gen(function* () {
      const bad: ReadonlyArray<readonly [Session.LayerOptions, string]> = [
        [{ leaseTime: 0 }, "expected a duration of at least 1 milli that ends as leaseTime"],
        [{ leaseTime: "Infinity" }, "expected a duration of at least 1 milli that ends as leaseTime"],
        [{ leaseTime: Number.NaN }, "expected a duration"],
        [{ keepEvents: -1 }, "expected a whole number from 0 on as keepEvents, got the number -1"],
        [{ keepEvents: Number.NaN }, "expected a whole number from 0 on as keepEvents, got the number NaN"]
      ]
      for (const [options, message] of bad) {
        const exit = yield* Effect.exit(Effect.scoped(Layer.build(t.over([], options))))
        assert.isTrue(Exit.isFailure(exit) && Cause.pretty(exit.cause).includes(message), message)
      }
      const twice = Session.layer([t.support, Agent.make("support", { instructions: "Other." })]).pipe(
        Layer.provide([VersionedStore.layerMemory, ScriptedModel.layer([])])
      )
      const none = Layer.provide(Session.layer([]), VersionedStore.layerMemory)
      for (const [layer, message] of [
        [twice, 'got two of "support"'],
        [none, "expected an agent, a plan or definitions, got none"]
      ] as const) {
        const exit = yield* Effect.exit(Effect.scoped(Layer.build(layer)))
        assert.isTrue(Exit.isFailure(exit) && Cause.pretty(exit.cause).includes(message), message)
      }
    })
  )

  it.live("a reader after a place that no event has is refused", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      yield* Session.turn("a", "Hi")
      for (const after of ["", "-1", "2.5", "a.0", "NaN", "another.1"]) {
        assert.strictEqual(yield* t.reasonOf(Stream.runDrain(sessions.events("a", { after }))), "EventsUnknown")
      }
      yield* Session.turn("a", "Hi again")
      const { cursor } = yield* t.stateOf(sessions, "a")
      yield* sessions.remove("a")
      yield* Session.turn("a", "Hi")
      const error = yield* Effect.flip(Stream.runDrain(sessions.events("a", { after: cursor })))
      assert.match(error.message, /which has 6, got "\w+\.12"\. The session was removed and begun again/)
      const ahead = (yield* t.stateOf(sessions, "a")).cursor.replace(/\d+$/, "99")
      const unknown = yield* Effect.flip(Stream.runDrain(sessions.events("a", { after: ahead })))
      assert.match(unknown.message, /which has 6, got "\w+\.99"\. The cursor is ahead of the newest event/)
    }).pipe(Effect.provide(t.over(t.echo)))
  )
})
