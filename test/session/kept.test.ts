/** L11, MEND-6: what was acknowledged is kept, and nothing that is stored holds a session for ever. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Data, Deferred, Effect, Exit, Fiber, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, Message, RunContext, ToolRuntime, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { log, planOf } from "../plan/support.ts"
import * as t from "./sessions.ts"

class Down extends Data.TaggedError("Down") {}

/** An agent whose preparation fails or waits while its source is down or has a gate. */
const makeFragile = () => {
  const source = { isDown: false, prepared: 0, gate: Option.none<Deferred.Deferred<void>>() }
  const instructions = Effect.gen(function* () {
    source.prepared++
    if (Option.isSome(source.gate)) yield* Deferred.await(source.gate.value)
    return source.isDown ? yield* new Down() : "Help."
  })
  return { source, instructions, agent: Agent.make("fragile", { instructions }) }
}

const over = <R>(agent: Agent.Agent<unknown, R>, options?: Session.LayerOptions) =>
  Session.layer([agent], options).pipe(
    Layer.provideMerge(VersionedStore.layerMemory),
    Layer.provideMerge(ScriptedModel.layer(t.echo))
  )

const users = (sessions: Session.Service, id: string) =>
  Effect.map(sessions.history(id), (history) =>
    Conversation.messages(history).flatMap((message) => (message.role === "user" ? [Message.text(message)] : []))
  )

const tagsAfter = (sessions: Session.Service, id: string, after: number) =>
  Effect.map(t.tags(sessions, id), (tags) => tags.slice(after))

describe("MEND-6 a turn that cannot begin", () => {
  it.live("keeps its messages in their order, however often it is tried, and fails for every sender", () =>
    Effect.gen(function* () {
      const { agent, source } = makeFragile()
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* Session.turn("a", "first")
        source.isDown = true
        for (const text of ["A", "B", "C"]) {
          assert.strictEqual(yield* t.reasonOf(Session.turn("a", text, { messageId: text })), "TurnFailed")
          yield* sessions.resume("a")
          yield* t.until(sessions, "a", "idle")
        }
        const { queue } = yield* t.stateOf(sessions, "a")
        assert.deepStrictEqual(queue, ["A", "B", "C"])
        source.isDown = false
        yield* sessions.resume("a")
        assert.strictEqual((yield* Session.turn("a", "last")).text, "re: last")
        assert.deepStrictEqual(yield* users(sessions, "a"), ["first", "A", "B", "C", "last"])
        assert.strictEqual(Conversation.messageCount(yield* sessions.history("a")), 11)
      }).pipe(Effect.provide(over(agent)))
    })
  )

  it.live("fails for all who wait for an answer, also behind the first one, and not again by itself", () =>
    Effect.gen(function* () {
      const { agent, source } = makeFragile()
      const gate = yield* Deferred.make<void>()
      source.gate = Option.some(gate)
      source.isDown = true
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const asking = yield* Effect.forEach(["A", "B", "C"], (text) =>
          Effect.tap(Effect.forkChild(t.reasonOf(Session.turn("a", text))), () => Effect.sleep("5 millis"))
        )
        yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ queue }) => queue.length === 3))
        yield* Deferred.succeed(gate, undefined)
        const reasons = yield* within(Fiber.joinAll(asking))
        assert.deepStrictEqual(reasons, ["TurnFailed", "TurnFailed", "TurnFailed"])
        assert.strictEqual(source.prepared, 1)
        assert.strictEqual((yield* t.stateOf(sessions, "a")).status, "idle")
      }).pipe(Effect.provide(over(agent)))
    })
  )

  it.live("keeps them over a restart of the process", () =>
    Effect.gen(function* () {
      const { agent, source } = makeFragile()
      const layer = Session.layer([agent]).pipe(
        Layer.provide(yield* t.store),
        Layer.provide(ScriptedModel.layer(t.echo))
      )
      source.isDown = true
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* t.sessionsOf(layer)
          yield* sessions.send("a", "A")
          yield* sessions.send("a", "B")
          yield* t.until(sessions, "a", "idle")
        })
      )
      source.isDown = false
      const sessions = yield* t.sessionsOf(layer)
      yield* sessions.resume("a")
      yield* t.turns(sessions, "a", 2, (yield* t.stateOf(sessions, "a")).cursor)
      assert.deepStrictEqual(yield* users(sessions, "a"), ["A", "B"])
    }).pipe(Effect.scoped)
  )

  it.live(
    "gives up a first message that has not the context which it needs, with an event, and answers the next one",
    () =>
      Effect.gen(function* () {
        const instructions = Effect.as(RunContext.read(Schema.Struct({ tenant: Schema.Literal("good") })), "Help.")
        yield* Effect.gen(function* () {
          const sessions = yield* Session.Session
          const ask = (tenant: string) => Session.turn("a", tenant, { messageId: "m", context: { tenant } })
          assert.strictEqual((yield* Effect.flip(ask("bad"))).category, "invalid")
          assert.deepStrictEqual(yield* t.tags(sessions, "a"), ["MessageReceived", "MessageDropped", "TurnFailed"])
          // Its id is free again
          assert.strictEqual((yield* ask("good")).text, "re: good")
          assert.deepStrictEqual(yield* users(sessions, "a"), ["good"])
        }).pipe(Effect.provide(over(Agent.make("strict", { instructions }))))
      })
  )
})

describe("MEND-6 the id of a message", () => {
  it.live("finds the answer after failures, never one of these", () =>
    Effect.gen(function* () {
      const { agent, source } = makeFragile()
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const ask = Session.turn("a", "one", { messageId: "m" })
        source.isDown = true
        assert.strictEqual(yield* t.reasonOf(ask), "TurnFailed")
        // Sent again, it is tried again
        assert.strictEqual(yield* t.reasonOf(ask), "TurnFailed")
        assert.strictEqual(source.prepared, 2)
        source.isDown = false
        const answers = yield* Effect.all([ask, ask, ask], { concurrency: 3 })
        assert.deepStrictEqual(new Set(answers.map(({ text }) => text)), new Set(["re: one"]))
        assert.strictEqual((yield* ask).text, "re: one")
        assert.deepStrictEqual(yield* users(sessions, "a"), ["one"])
      }).pipe(Effect.provide(over(agent)))
    })
  )

  it.live("is refused for another text or context, and nothing is stored", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const send = (text: Session.Input, context?: { readonly tenant: string }) =>
        sessions.send("a", text, { messageId: "m", ...(context && { context }) })
      const receipt = yield* send("one", { tenant: "a" })
      yield* t.turns(sessions, "a", 1)
      const { sequence } = yield* t.stateOf(sessions, "a")
      assert.strictEqual(yield* t.reasonOf(send("two", { tenant: "a" })), "InputDiffers")
      assert.strictEqual(yield* t.reasonOf(send("one", { tenant: "b" })), "InputDiffers")
      assert.strictEqual(yield* t.reasonOf(send("one")), "InputDiffers")
      assert.deepStrictEqual(yield* send([{ type: "text", text: "one" }], { tenant: "a" }), receipt)
      assert.strictEqual((yield* t.stateOf(sessions, "a")).sequence, sequence)
    }).pipe(Effect.provide(t.over(t.echo)))
  )
})

describe("MEND-6 what no conversation can have", () => {
  it.live("is refused before anything is stored, and leaves no session", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const circle: Record<string, unknown> = {}
      circle["self"] = circle
      const bad: ReadonlyArray<readonly [unknown, unknown?, string?]> = [
        [null],
        [42],
        [""],
        [[]],
        [[null]],
        [[{ type: "tool-call", id: "x" }]],
        [[{ type: "text", text: 1 }]],
        ["x", { context: { api_key: "sk-1" } }],
        ["x", { context: { deep: { password: "hunter2" } } }],
        ["x", { context: { n: Number.NaN } }],
        ["x", { context: { when: new Date(0) } }],
        ["x", { context: circle }],
        ["x", { context: null }],
        ["x", { context: JSON.parse('{"__proto__":{"x":1}}') }],
        ["x", { messageId: { a: 1 } }, "ArgumentInvalid"],
        ["x".repeat(20_000_000)]
      ]
      for (const [input, options, expected = "InputInvalid"] of bad) {
        // Sound: a route passes on what it read, whatever that is
        const sent = sessions.send("a", input as Session.Input, options as Session.SendOptions)
        const error = yield* Effect.flip(sent)
        assert.strictEqual(error.reason._tag, expected, `${JSON.stringify(input)?.slice(0, 50)} ${error.message}`)
        assert.notInclude(error.message, "hunter2")
      }
      const store = yield* VersionedStore.VersionedStore
      assert.deepStrictEqual((yield* store.list()).keys, [])
      assert.isTrue(Option.isNone(yield* sessions.state("a")))
    }).pipe(Effect.provide(t.over(t.echo)))
  )

  it.live("is refused by the store where it alone knows, and leaves no session and no mark", () =>
    Effect.gen(function* () {
      const sessions = yield* Session.Session
      const limit = 4 * 1024 * 1024
      // The message is within the limits of one value, and the value with its event is not
      const part = (length: number) => ({ type: "text", text: "x".repeat(length) }) as const
      const reasons = yield* Effect.forEach([50, 100, 200, 300, 400, 500], (less) =>
        sessions.send(`${less}`, [part(limit), part(limit - less)]).pipe(
          Effect.flatMap(() => sessions.remove(`${less}`)),
          Effect.match({ onFailure: ({ reason }) => reason._tag, onSuccess: () => "stored" })
        )
      )
      assert.include(reasons, "Refused")
      const store = yield* VersionedStore.VersionedStore
      // A removal leaves a row of the list for a minute
      const isRow = (key: string) => key.startsWith("session/recent/")
      assert.deepStrictEqual(
        (yield* store.list()).keys.filter((key) => !isRow(key)),
        []
      )
    }).pipe(Effect.provide(t.over(t.echo)))
  )
})

describe.concurrent("MEND-6 an interruption before a turn has its message", () => {
  it.live("waits a moment for a turn that is about to take it (L21)", () =>
    Effect.gen(function* () {
      const { agent, source } = makeFragile()
      const gate = yield* Deferred.make<void>()
      source.gate = Option.some(gate)
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* sessions.send("a", "one")
        const stopping = yield* Effect.forkChild(sessions.interrupt("a"))
        yield* t.eventually(Effect.sync(() => source.prepared === 1))
        yield* Effect.sleep("30 millis")
        yield* Deferred.succeed(gate, undefined)
        assert.isTrue((yield* Fiber.join(stopping)).isInterrupted)
        assert.deepStrictEqual(yield* users(sessions, "a"), ["one"])
        assert.strictEqual((yield* t.stateOf(sessions, "a")).outcome, "Interrupted")
      }).pipe(Effect.provide(over(agent)))
    })
  )

  it.live("records it where there is a conversation, and the next message is answered after it", () =>
    Effect.gen(function* () {
      const { agent, source } = makeFragile()
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* Session.turn("a", "zero")
        source.gate = Option.some(yield* Deferred.make<void>())
        const asking = yield* Effect.forkChild(Session.turn("a", "one"))
        yield* t.eventually(Effect.sync(() => source.prepared === 2))
        assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
        assert.deepStrictEqual(yield* users(sessions, "a"), ["zero", "one"])
        assert.strictEqual((yield* Fiber.join(asking)).outcome, "Interrupted")
        source.gate = Option.none()
        assert.strictEqual((yield* Session.turn("a", "two")).text, "re: two")
        assert.deepStrictEqual(yield* users(sessions, "a"), ["zero", "one", "two"])
      }).pipe(Effect.provide(over(agent)))
    })
  )

  it.live("keeps a first one: the next turn records it, without an answer", () =>
    Effect.gen(function* () {
      const { agent, source } = makeFragile()
      source.gate = Option.some(yield* Deferred.make<void>())
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const asking = yield* Effect.forkChild(Session.turn("a", "one", { messageId: "1" }))
        yield* t.eventually(Effect.sync(() => source.prepared === 1))
        assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
        assert.strictEqual((yield* Fiber.join(asking)).outcome, "Interrupted")
        const { queue, status } = yield* t.stateOf(sessions, "a")
        assert.deepStrictEqual([status, queue], ["idle", ["1"]])
        // The second one hangs, too: the stop is about the second one
        yield* sessions.send("a", "two", { messageId: "2" })
        yield* t.eventually(Effect.sync(() => source.prepared === 2))
        assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
        assert.deepStrictEqual((yield* t.stateOf(sessions, "a")).queue, ["1", "2"])
        source.gate = Option.none()
        assert.strictEqual((yield* Session.turn("a", "three")).text, "re: three")
        assert.deepStrictEqual(yield* users(sessions, "a"), ["one", "two", "three"])
        assert.strictEqual((yield* ScriptedModel.requests).length, 1)
        assert.deepStrictEqual((yield* t.stateOf(sessions, "a")).queue, [])
      }).pipe(Effect.provide(over(agent)))
    })
  )

  for (const again of ["resume", "the same messageId"]) {
    it.live(`keeps a first one, and ${again} has it answered`, () =>
      Effect.gen(function* () {
        const { agent, source } = makeFragile()
        source.gate = Option.some(yield* Deferred.make<void>())
        yield* Effect.gen(function* () {
          const sessions = yield* Session.Session
          yield* sessions.send("a", "one", { messageId: "1" })
          yield* t.eventually(Effect.sync(() => source.prepared === 1))
          assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
          source.gate = Option.none()
          if (again === "resume") yield* sessions.resume("a")
          assert.strictEqual((yield* Session.turn("a", "one", { messageId: "1" })).text, "re: one")
          assert.deepStrictEqual(yield* users(sessions, "a"), ["one"])
        }).pipe(Effect.provide(over(agent)))
      })
    )
  }
})

const pay = (extra: Schema.Struct.Fields = {}) =>
  Toolkit.make(
    Tool.make("pay", {
      parameters: Schema.Struct({ n: Schema.Finite, ...extra }),
      success: Schema.String,
      needsApproval: true
    })
  )

const paying: ScriptedModel.TurnFunction = (request) =>
  request.messages.at(-1)?.role === "user" && t.asked(request) === "pay"
    ? { toolCalls: [{ name: "pay", params: { n: 1 } }] }
    : { text: `re: ${t.asked(request)}` }

/** The versions of an agent that deploys bring: as it was, with another tool, and without it. */
const makeDeploys = Effect.map(t.store, (store) => {
  const paid: Array<number> = []
  const deploy = (toolkit: Toolkit.Toolkit<ReturnType<typeof pay>["tools"]> | undefined) => {
    const agent = Agent.make("desk", toolkit && { toolkit })
    const handlers = (toolkit ?? pay()).toLayer({ pay: ({ n }) => Effect.sync(() => (paid.push(n), "paid")) })
    return t.sessionsOf(Session.layer([agent]).pipe(Layer.provide([store, handlers, ScriptedModel.layer(paying)])))
  }
  return {
    paid,
    fitting: deploy(pay()),
    broken: { "changed a tool": deploy(pay({ reason: Schema.String })), "removed it": deploy(undefined) }
  }
})

const decisionsOf = (sessions: Session.Service, id: string, approved: boolean) =>
  Effect.map(t.stateOf(sessions, id), ({ requests }) =>
    requests.map(({ callId, digest, path }) => ({ callId, digest, approved, ...(path && { path }) }))
  )

const within = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.timeout(effect, "4 minutes")

const ask = (sessions: Session.Service, text: string, options?: Session.SendOptions) =>
  within(Effect.provideService(Session.turn("a", text, options), Session.Session, sessions))

const failureOf = (asking: ReturnType<typeof ask>) =>
  Effect.map(Effect.flip(asking), (error) => (error._tag === "SessionError" ? error.reason._tag : error._tag))

const resultsOf = (sessions: Session.Service) =>
  Effect.map(sessions.history("a"), (history) =>
    Conversation.messages(history).flatMap((message) =>
      message.role !== "tool" ? [] : message.result._tag === "Success" ? ["success"] : [message.result.type]
    )
  )

describe("MEND-6 a deploy", () => {
  for (const kind of ["changed a tool", "removed it"] as const) {
    it.live(`that ${kind} of a call which waits: after a denial the session continues`, () =>
      Effect.gen(function* () {
        const { broken, fitting, paid } = yield* makeDeploys
        yield* Effect.scoped(Effect.flatMap(fitting, (sessions) => ask(sessions, "pay")))
        const sessions = yield* broken[kind]
        assert.strictEqual(yield* failureOf(ask(sessions, "one")), "TurnFailed")
        yield* sessions.decide("a", yield* decisionsOf(sessions, "a", false))
        assert.strictEqual((yield* ask(sessions, "two")).text, "re: two")
        assert.deepStrictEqual(yield* users(sessions, "a"), ["pay", "one", "two"])
        assert.deepStrictEqual(yield* resultsOf(sessions), ["denied"])
        assert.deepStrictEqual(paid, [])
      }).pipe(Effect.scoped)
    )

    it.live(`that ${kind} of a call which waits: an approval that no turn can take is dropped with an event`, () =>
      Effect.gen(function* () {
        const { broken, fitting, paid } = yield* makeDeploys
        yield* Effect.scoped(Effect.flatMap(fitting, (sessions) => ask(sessions, "pay")))
        yield* Effect.scoped(
          Effect.gen(function* () {
            const sessions = yield* broken[kind]
            const { cursor, sequence } = yield* t.stateOf(sessions, "a")
            yield* sessions.decide("a", yield* decisionsOf(sessions, "a", true))
            yield* t.turns(sessions, "a", 1, cursor)
            assert.deepStrictEqual(yield* tagsAfter(sessions, "a", sequence), [
              "DecisionsReceived",
              "DecisionsDropped",
              "TurnFailed"
            ])
            for (const text of ["one", "two"]) {
              assert.strictEqual(yield* failureOf(ask(sessions, text)), "TurnFailed")
            }
            assert.strictEqual((yield* t.stateOf(sessions, "a")).requests.length, 1)
          })
        )
        const sessions = yield* fitting
        yield* sessions.decide("a", yield* decisionsOf(sessions, "a", true))
        assert.strictEqual((yield* ask(sessions, "three")).text, "re: three")
        assert.deepStrictEqual(yield* users(sessions, "a"), ["pay", "one", "two", "three"])
        assert.deepStrictEqual(paid, [1])
      }).pipe(Effect.scoped)
    )

    it.live(
      `that ${kind} of a call which waits: an interruption and a message with \`pending: "deny"\` settle it`,
      () =>
        Effect.gen(function* () {
          for (const way of ["interrupt", "pending"]) {
            const { broken, fitting } = yield* makeDeploys
            yield* Effect.scoped(Effect.flatMap(fitting, (sessions) => ask(sessions, "pay")))
            const sessions = yield* broken[kind]
            if (way === "interrupt") assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
            const { text } = yield* ask(sessions, "one", way === "pending" ? { pending: "deny" } : {})
            assert.strictEqual(text, "re: one")
            assert.deepStrictEqual(yield* resultsOf(sessions), ["denied"])
          }
        }).pipe(Effect.scoped)
    )

    it.live(`that ${kind} of a call which waits: both do so behind a message that is held`, () =>
      Effect.gen(function* () {
        for (const way of ["interrupt", "pending"]) {
          const { broken, fitting } = yield* makeDeploys
          yield* Effect.scoped(Effect.flatMap(fitting, (sessions) => ask(sessions, "pay")))
          const sessions = yield* broken[kind]
          assert.strictEqual(yield* failureOf(ask(sessions, "held", { messageId: "h" })), "TurnFailed")
          const { sequence } = yield* t.stateOf(sessions, "a")
          if (way === "interrupt") {
            assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
            yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ queue }) => queue.length === 0))
            yield* t.until(sessions, "a", "idle")
            assert.notInclude(yield* tagsAfter(sessions, "a", sequence), "ResumeReceived")
          } else {
            assert.strictEqual((yield* ask(sessions, "one", { pending: "deny" })).text, "re: one")
          }
          assert.strictEqual((yield* ask(sessions, "held", { messageId: "h" })).text, "re: held")
          assert.deepStrictEqual(yield* resultsOf(sessions), ["denied"])
        }
      }).pipe(Effect.scoped)
    )
  }
})

describe("RIGHT-12 a deploy that broke a call which waits, also with an approval of it", () => {
  it.live("a caller with another context returns, and so does one behind it", () =>
    Effect.gen(function* () {
      for (const kind of ["changed a tool", "removed it"] as const) {
        const { broken, fitting } = yield* makeDeploys
        const bob = { context: { user: "bob" } }
        yield* Effect.scoped(Effect.flatMap(fitting, (sessions) => ask(sessions, "pay", { messageId: "p", ...bob })))
        const sessions = yield* broken[kind]
        yield* sessions.decide("a", yield* decisionsOf(sessions, "a", true))
        for (const options of [{}, bob, {}]) {
          const { outcome, waitsBehind } = yield* ask(sessions, "one", options)
          assert.deepStrictEqual([outcome, waitsBehind], ["AwaitingApproval", "p"])
        }
        yield* sessions.decide("a", yield* decisionsOf(sessions, "a", false))
        yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ queue }) => queue.length === 0))
        assert.deepStrictEqual(yield* users(sessions, "a"), ["pay", "one", "one", "one"])
      }
    }).pipe(Effect.scoped)
  )
})

describe("MEND-6 an approval that no turn can take", () => {
  it.live("fails once, also before a message that waits, and is about a conversation that has changed", () =>
    Effect.gen(function* () {
      const { broken, fitting } = yield* makeDeploys
      yield* Effect.scoped(Effect.flatMap(fitting, (sessions) => ask(sessions, "pay")))
      const sessions = yield* broken["changed a tool"]
      assert.strictEqual(yield* failureOf(ask(sessions, "one")), "TurnFailed")
      const { cursor, sequence } = yield* t.stateOf(sessions, "a")
      const decisions = yield* decisionsOf(sessions, "a", true)
      yield* sessions.decide("a", decisions)
      yield* t.turns(sessions, "a", 1, cursor)
      yield* t.until(sessions, "a", "waiting")
      assert.deepStrictEqual(yield* tagsAfter(sessions, "a", sequence), [
        "DecisionsReceived",
        "DecisionsDropped",
        "TurnFailed"
      ])
      yield* sessions.interrupt("a")
      const late = yield* Effect.flip(
        sessions.decide(
          "a",
          decisions.map((one) => ({ ...one, callId: "gone" }))
        )
      )
      assert.strictEqual(late.category, "conflict")
      // Sound: a route passes on what it read
      const wrong = yield* Effect.flip(sessions.decide("a", [{}] as unknown as typeof decisions))
      assert.strictEqual(wrong.category, "invalid")
      const none = yield* Effect.flip(Stream.runHead(sessions.events("a", { after: "another.10000" })))
      assert.deepStrictEqual([none.reason._tag, none.category], ["EventsUnknown", "conflict"])
    }).pipe(Effect.scoped)
  )
})

describe("MEND-6 a deploy that changes a tool while its calls are to run", () => {
  it.live("an interruption settles the calls, and the messages are answered", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const started = yield* Deferred.make<void>()
      const deploy = (extra: Schema.Struct.Fields) => {
        const parameters = Schema.Struct({ n: Schema.Finite, ...extra })
        const toolkit = Toolkit.make(Tool.make("work", { parameters, success: Schema.String }))
        const work = () => Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
        return Session.layer([Agent.make("desk", { toolkit })], { drainTime: "1 millis" }).pipe(
          Layer.provide([store, ToolRuntime.layerInline, toolkit.toLayer({ work })]),
          Layer.provide(
            ScriptedModel.layer((request) => (t.asked(request) === "work" ? t.call(1, 2) : t.echo(request)))
          )
        )
      }
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* t.sessionsOf(deploy({}))
          yield* sessions.send("a", "work")
          yield* Deferred.await(started)
        })
      )
      const sessions = yield* t.sessionsOf(deploy({ reason: Schema.String }))
      assert.strictEqual(yield* failureOf(ask(sessions, "one", { messageId: "1" })), "TurnFailed")
      assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
      assert.strictEqual((yield* ask(sessions, "one", { messageId: "1" })).text, "re: one")
      assert.deepStrictEqual(yield* users(sessions, "a"), ["work", "one"])
      assert.deepStrictEqual(yield* resultsOf(sessions), ["interrupted", "interrupted"])
    }).pipe(Effect.scoped)
  )
})

describe("MEND-6 calls that wait", () => {
  it.live('are denied by a message with `pending: "deny"`, also if they began to wait after it', () =>
    Effect.gen(function* () {
      const { fitting, paid } = yield* makeDeploys
      const sessions = yield* fitting
      yield* sessions.send("a", "pay")
      assert.strictEqual((yield* ask(sessions, "one", { pending: "deny" })).text, "re: one")
      assert.strictEqual((yield* ask(sessions, "pay")).outcome, "AwaitingApproval")
      assert.strictEqual((yield* ask(sessions, "two", { pending: "keep" })).outcome, "AwaitingApproval")
      assert.strictEqual((yield* ask(sessions, "three", { pending: "deny" })).text, "re: three")
      assert.deepStrictEqual(paid, [])
      assert.deepStrictEqual(yield* resultsOf(sessions), ["denied", "denied"])
    }).pipe(Effect.scoped)
  )

  it.live("are cancelled by an interruption, with decisions that no turn had taken", () =>
    Effect.gen(function* () {
      const { instructions, source } = makeFragile()
      const paid: Array<number> = []
      const toolkit = pay()
      const desk = Agent.make("desk", { toolkit: Effect.as(instructions, toolkit) })
      const layer = Session.layer([desk]).pipe(
        Layer.provide(VersionedStore.layerMemory),
        Layer.provide(toolkit.toLayer({ pay: ({ n }) => Effect.sync(() => (paid.push(n), "paid")) })),
        Layer.provide(ScriptedModel.layer(paying))
      )
      const sessions = yield* t.sessionsOf(layer)
      yield* ask(sessions, "pay")
      source.isDown = true
      const { cursor } = yield* t.stateOf(sessions, "a")
      yield* sessions.decide("a", yield* decisionsOf(sessions, "a", true))
      yield* t.turns(sessions, "a", 1, cursor)
      const held = yield* t.stateOf(sessions, "a")
      assert.deepStrictEqual([held.status, held.requests.length], ["waiting", 1])
      assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
      assert.isUndefined((yield* sessions.interrupt("a")).isInterrupted)
      const state = yield* t.stateOf(sessions, "a")
      assert.deepStrictEqual(
        [state.status, state.outcome, state.requests, state.failure],
        ["idle", "Interrupted", [], undefined]
      )
      assert.deepStrictEqual(yield* resultsOf(sessions), ["denied"])
      assert.include(yield* tagsAfter(sessions, "a", held.sequence), "DecisionsDropped")
      source.isDown = false
      assert.strictEqual((yield* ask(sessions, "one")).text, "re: one")
      assert.deepStrictEqual(paid, [])
    }).pipe(Effect.scoped)
  )

  it.live("are cancelled with the turn that is interrupted beside them", () =>
    Effect.gen(function* () {
      const toolkit = Toolkit.merge(pay(), Toolkit.make(Tool.make("hold", { parameters: Schema.Struct({}) })))
      const held = yield* Deferred.make<void>()
      const layer = Session.layer([Agent.make("desk", { toolkit })]).pipe(
        Layer.provide(VersionedStore.layerMemory),
        Layer.provide(
          toolkit.toLayer({
            pay: () => Effect.succeed("paid"),
            hold: () => Effect.andThen(Deferred.succeed(held, undefined), Effect.never)
          })
        ),
        Layer.provide(
          ScriptedModel.layer((request) =>
            t.asked(request) === "both"
              ? {
                  toolCalls: [
                    { name: "pay", params: { n: 1 } },
                    { name: "hold", params: {} }
                  ]
                }
              : t.echo(request)
          )
        )
      )
      const sessions = yield* t.sessionsOf(layer)
      yield* sessions.send("a", "both")
      yield* Deferred.await(held)
      yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ requests }) => requests.length === 1))
      assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
      yield* t.until(sessions, "a", "idle")
      assert.deepStrictEqual((yield* t.stateOf(sessions, "a")).requests, [])
      assert.strictEqual((yield* ask(sessions, "one")).text, "re: one")
      assert.sameMembers(yield* resultsOf(sessions), ["denied", "interrupted"])
    }).pipe(Effect.scoped)
  )
})

describe("MEND-6 the queue", () => {
  it.live("has a limit, and what is beyond it is refused with nothing stored", () =>
    Effect.gen(function* () {
      const answer = yield* Deferred.make<ScriptedModel.Turn>()
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* sessions.send("a", "0")
        yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ queue }) => queue.length === 0))
        for (const text of ["1", "2", "3"]) yield* sessions.send("a", text, { messageId: text })
        const { sequence } = yield* t.stateOf(sessions, "a")
        const error = yield* Effect.flip(sessions.send("a", "4"))
        assert.deepStrictEqual(error.reason, { _tag: "Busy", status: "running", limit: 3 })
        assert.include(error.message, "at most 3 messages")
        // A message that waits is found again
        yield* sessions.send("a", "3", { messageId: "3" })
        assert.strictEqual((yield* t.stateOf(sessions, "a")).sequence, sequence)
        yield* Deferred.succeed(answer, { text: "done" })
        yield* t.until(sessions, "a", "idle")
        assert.deepStrictEqual(yield* users(sessions, "a"), ["0", "1", "2", "3"])
      }).pipe(Effect.provide(t.over(() => Deferred.await(answer), { maxQueue: 3 })))
    })
  )

  it.live("that is full and held is tried again by the next message, although this one is refused", () =>
    Effect.gen(function* () {
      const { agent, source } = makeFragile()
      source.isDown = true
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        for (const text of ["1", "2"]) {
          yield* sessions.send("a", text)
          yield* t.until(sessions, "a", "idle")
        }
        source.isDown = false
        const error = yield* Effect.flip(sessions.send("a", "3"))
        assert.deepStrictEqual(error.reason, { _tag: "Busy", status: "idle", limit: 2 })
        assert.notInclude(error.publicMessage, "answering")
        yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ queue }) => queue.length === 0))
        assert.strictEqual((yield* Session.turn("a", "4")).text, "re: 4")
        assert.deepStrictEqual(yield* users(sessions, "a"), ["1", "2", "4"])
      }).pipe(Effect.provide(over(agent, { maxQueue: 2 })))
    })
  )

  it.live("counts messages whose turns were stopped, and those that wait for the decision of calls", () =>
    Effect.gen(function* () {
      const { agent, source } = makeFragile()
      source.gate = Option.some(yield* Deferred.make<void>())
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* sessions.send("a", "1")
        yield* t.eventually(Effect.sync(() => source.prepared === 1))
        yield* sessions.interrupt("a")
        source.gate = Option.none()
        assert.strictEqual(yield* t.reasonOf(sessions.send("a", "2")), "Busy")
        yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ outcome }) => outcome === "Completed"))
        assert.deepStrictEqual(yield* users(sessions, "a"), ["1"])
      }).pipe(Effect.provide(over(agent, { maxQueue: 1 })))
      const toolkit = pay()
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        for (const text of ["pay", "1", "2"]) {
          assert.strictEqual((yield* ask(sessions, text)).outcome, "AwaitingApproval")
        }
        const { reason } = yield* Effect.flip(sessions.send("a", "3"))
        assert.deepStrictEqual(reason, { _tag: "Busy", status: "waiting", limit: 2 })
        assert.strictEqual((yield* ask(sessions, "4", { pending: "deny" })).text, "re: 4")
      }).pipe(
        Effect.provide(
          Session.layer([Agent.make("desk", { toolkit })], { maxQueue: 2 }).pipe(
            Layer.provide([VersionedStore.layerMemory, ScriptedModel.layer(paying)]),
            Layer.provide(toolkit.toLayer({ pay: () => Effect.succeed("paid") }))
          )
        )
      )
    })
  )

  it.live("knows the ids of all messages that wait, also beyond those that it remembers", () =>
    Effect.gen(function* () {
      const answer = yield* Deferred.make<ScriptedModel.Turn>()
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* sessions.send("a", "first")
        yield* t.eventually(Effect.map(t.stateOf(sessions, "a"), ({ queue }) => queue.length === 0))
        yield* sessions.send("a", "0", { messageId: "0" })
        for (let n = 1; n <= 256; n++) yield* sessions.send("a", `${n}`)
        yield* sessions.send("a", "0", { messageId: "0" })
        assert.strictEqual((yield* t.stateOf(sessions, "a")).queue.length, 257)
      }).pipe(Effect.provide(t.over(() => Deferred.await(answer), { maxQueue: 300 })))
    })
  )

  it.live("has a limit that is a whole number from 1 on", () =>
    Effect.forEach([0, -1, 1.5, Number.NaN], (maxQueue) =>
      Effect.gen(function* () {
        const exit = yield* Effect.exit(Effect.scoped(Layer.build(t.over(t.echo, { maxQueue }))))
        assert.include(
          String(Exit.isFailure(exit) ? Cause.squash(exit.cause) : ""),
          "expected a whole number from 1 on as maxQueue"
        )
      })
    )
  )
})

describe("MEND-15 writes of a session", () => {
  it.live("decisions that the store refuses leave no mark behind (L16)", () =>
    Effect.gen(function* () {
      const toolkit = pay()
      const layer = Session.layer([Agent.make("desk", { toolkit })]).pipe(
        Layer.provideMerge(VersionedStore.layerMemory),
        Layer.provide([toolkit.toLayer({ pay: () => Effect.succeed("paid") }), ScriptedModel.layer(paying)])
      )
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        const store = yield* VersionedStore.VersionedStore
        const marks = Effect.map(store.list({ prefix: "session/busy/" }), ({ keys }) => keys)
        yield* ask(sessions, "pay")
        yield* t.eventually(Effect.map(marks, (keys) => keys.length === 0))
        const [decision] = yield* decisionsOf(sessions, "a", true)
        assert(decision !== undefined)
        const huge = { ...decision, reason: "x".repeat(9_000_000) }
        assert.strictEqual(yield* t.reasonOf(sessions.decide("a", [huge])), "Refused")
        assert.deepStrictEqual(yield* marks, [])
      }).pipe(Effect.provide(layer))
    })
  )

  it.live("an answer is stored before the model is asked again, also one without calls (L11)", () =>
    Effect.gen(function* () {
      const service = yield* Deferred.make<Session.Service>()
      const seen = yield* Deferred.make<ReadonlyArray<string>>()
      const model: ScriptedModel.TurnFunction = (request) =>
        request.messages.at(-1)?.role === "user"
          ? { text: "wait", finishReason: "pause" }
          : Effect.gen(function* () {
              const sessions = yield* Deferred.await(service)
              yield* Deferred.succeed(seen, yield* Effect.orDie(t.tags(sessions, "a")))
              return { text: "done" }
            })
      yield* Effect.gen(function* () {
        const sessions = yield* Session.Session
        yield* Deferred.succeed(service, sessions)
        yield* ask(sessions, "go")
        assert.deepStrictEqual((yield* Deferred.await(seen)).slice(-3), ["StepStarted", "ModelAnswered", "StepStarted"])
      }).pipe(Effect.provide(t.over(model)))
    })
  )
})

describe("MEND-6 what waits inside", () => {
  it.live(
    "a call of an agent that is a tool is denied after its tool has changed, and cancelled by an interruption",
    () =>
      Effect.gen(function* () {
        for (const way of ["deny", "interrupt"]) {
          const store = yield* t.store
          const deploy = (extra: Schema.Struct.Fields) => {
            const toolkit = pay(extra)
            const clerk = Agent.asTool(Agent.make("clerk", { toolkit }), { name: "clerk", description: "Pays." })
            return t.sessionsOf(
              Session.layer([Agent.make("boss", { toolkit: [clerk] })]).pipe(
                Layer.provide([store, toolkit.toLayer({ pay: () => Effect.succeed("paid") })]),
                Layer.provide(
                  ScriptedModel.layer((request) => {
                    const isBoss = request.tools.some(({ name }) => name === "clerk")
                    if (!isBoss || t.asked(request) !== "pay" || request.messages.at(-1)?.role !== "user") {
                      return paying(request)
                    }
                    return { toolCalls: [{ name: "clerk", params: { input: "pay" } }] }
                  })
                )
              )
            )
          }
          yield* Effect.scoped(
            Effect.flatMap(deploy({}), (sessions) =>
              Effect.map(ask(sessions, "pay"), ({ outcome }) => assert.strictEqual(outcome, "AwaitingApproval"))
            )
          )
          const sessions = yield* deploy({ reason: Schema.String })
          if (way === "interrupt") assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
          else yield* sessions.decide("a", yield* decisionsOf(sessions, "a", false))
          assert.strictEqual((yield* ask(sessions, "one")).text, "re: one", way)
          assert.deepStrictEqual((yield* t.stateOf(sessions, "a")).requests, [])
        }
      }).pipe(Effect.scoped)
  )

  it.live(
    "a step of a plan that waits is cancelled by an interruption, and the next message begins the plan again",
    () =>
      Effect.gen(function* () {
        const { fn } = log()
        const pause = fn("b", ({ decision }) => (decision === undefined ? Step.pause("Continue?") : "b"))
        const bound = yield* planOf([Step.make("b", { target: pause })], { name: "shop" })
        const sessions = yield* t.sessionsOf(
          Session.layer([bound]).pipe(Layer.provide([VersionedStore.layerMemory, ScriptedModel.layer([])]))
        )
        yield* ask(sessions, "one")
        assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
        const { outcome, requests, status } = yield* t.stateOf(sessions, "a")
        assert.deepStrictEqual([outcome, requests, status], ["Interrupted", [], "idle"])
        const ends = yield* Effect.forEach(["two", "three"], (text) => Effect.result(ask(sessions, text)))
        assert.strictEqual((yield* t.stateOf(sessions, "a")).queue.length, 0, JSON.stringify(ends))
      }).pipe(Effect.scoped)
  )
})
