/** RIGHT-13: processes that share a store and do not host the same agents, or do not have the session. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Layer, Logger, Scope } from "effect"
import { TestClock } from "effect/testing"
import { Agent } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteRunner } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { changed } from "../store/changed.ts"
import * as t from "./sessions.ts"

const { agent: jobs, handlers } = t.withTool("jobs", { isIdempotent: true })

const working: ScriptedModel.TurnFunction = (request) =>
  request.messages.at(-1)?.role === "tool" ? { text: "done" } : t.call(1)

/** Lets fibers run until nothing more happens. */
const rest = Effect.repeat(Effect.yieldNow, { times: 500 })

/** A store with a job whose process died in a tool call. */
const withDeadJob = Effect.gen(function* () {
  const store = yield* t.store
  const began = yield* Deferred.make<void>()
  let isDead = false
  const mortal = changed(({ compareAndSet }) => ({
    compareAndSet: (...args) => Effect.suspend(() => (isDead ? Effect.never : compareAndSet(...args)))
  }))
  // A process that died closes nothing
  const unclosed = yield* Scope.make()
  const sessions = yield* t
    .sessionsOf(
      Session.layer([jobs]).pipe(
        Layer.provide(Layer.provide(mortal, store)),
        Layer.provide(handlers(() => Effect.andThen(Deferred.succeed(began, undefined), Effect.never))),
        Layer.provide(ScriptedModel.layer(working))
      )
    )
    .pipe(Scope.provide(unclosed))
  yield* sessions.send("job", "go", { messageId: "m" })
  yield* Deferred.await(began)
  isDead = true
  const owner = Layer.provide(Session.layer([jobs]), [
    store,
    handlers(() => Effect.succeed("ok")),
    ScriptedModel.layer(working)
  ])
  return { store, owner }
})

/** Lines of the log, by level. */
const logging = () => {
  const lines: Array<string> = []
  const layer = Logger.layer([
    Logger.make(({ logLevel, message }) => void lines.push(`${logLevel}: ${[message].flat().map(String).join(" ")}`))
  ])
  return { lines, layer }
}

describe("RIGHT-13 L11 a process without the agent", () => {
  for (const reads of [false, true]) {
    it.effect(`leaves the turn of one that died alone${reads ? ", also where it reads the session" : ""}`, () =>
      Effect.gen(function* () {
        const { owner, store } = yield* withDeadJob
        const { layer, lines } = logging()
        const stranger = yield* t.sessionsOf(
          Session.layer([Agent.make("chats")]).pipe(
            Layer.provide(store),
            Layer.provide(ScriptedModel.layer(() => ({ text: "from a stranger" }))),
            Layer.provide(layer)
          )
        )
        if (reads) {
          assert.strictEqual((yield* t.stateOf(stranger, "job")).status, "running")
          yield* stranger.history("job")
        }
        yield* TestClock.adjust("1 minute")
        yield* rest
        const before = yield* t.tags(stranger, "job")
        assert.strictEqual(before.at(-1), "ToolStarted")
        assert.strictEqual(lines.filter((line) => line.includes('"job"')).length, 1, lines.join("\n"))
        assert.match(
          lines.find((line) => line.includes('"job"')) ?? "",
          /^Warn: .* waits for a process that has its agent/
        )
        // By itself, without a message or a call
        const back = yield* t.sessionsOf(owner)
        yield* rest
        assert.strictEqual((yield* t.stateOf(back, "job")).outcome, "Completed")
        assert.deepStrictEqual((yield* t.tags(back, "job")).slice(0, before.length), before)
      }).pipe(Effect.scoped)
    )
  }

  it.effect("takes a decision for the process that has the agent", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const { agent, handlers } = t.withTool("pays", { needsApproval: true })
      const owner = Session.layer([agent]).pipe(
        Layer.provide([store, handlers(() => Effect.succeed("paid")), ScriptedModel.layer(working)])
      )
      const scope = yield* Scope.make()
      const before = yield* Scope.provide(t.sessionsOf(owner), scope)
      yield* before.send("a", "go")
      yield* rest
      const { requests, status } = yield* t.stateOf(before, "a")
      assert.strictEqual(status, "waiting")
      yield* Scope.close(scope, Exit.void)
      const chats = Session.layer([Agent.make("chats")]).pipe(Layer.provide([store, ScriptedModel.layer(t.echo)]))
      const stranger = yield* t.sessionsOf(chats)
      yield* stranger.decide(
        "a",
        requests.map(({ callId, digest }) => ({ callId, digest, approved: true }))
      )
      yield* rest
      assert.strictEqual((yield* t.stateOf(stranger, "a")).status, "running")
      const after = yield* t.sessionsOf(owner)
      yield* TestClock.adjust("11 seconds")
      yield* rest
      assert.strictEqual((yield* t.stateOf(after, "a")).outcome, "Completed")
    }).pipe(Effect.scoped)
  )

  it.live("on a fleet leaves the turn to a runner that has it", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const began = yield* Deferred.make<void>()
      const chats = Agent.make("chats")
      const options = { drainTime: "1 millis" } as const
      const runner = (work: Effect.Effect<string>) => {
        const tools = handlers(() => work)
        // The store of the tests takes the place of the one of the runner
        return Layer.mergeAll(SqliteRunner.layer({ filename: ":memory:" }), tools, ScriptedModel.layer(working), store)
      }
      const scope = yield* Scope.make()
      const hung = Effect.andThen(Deferred.succeed(began, undefined), Effect.never)
      const first = Layer.provide(ClusterSession.layer([jobs], options), runner(hung))
      const before = yield* Scope.provide(t.sessionsOf(first), scope)
      yield* before.send("job", "go", { messageId: "m" })
      yield* Deferred.await(began)
      yield* Scope.close(scope, Exit.void)
      yield* Effect.gen(function* () {
        const layer = Layer.provide(ClusterSession.layer([chats], options), runner(hung))
        const stranger = yield* t.sessionsOf(layer)
        assert.strictEqual((yield* t.stateOf(stranger, "job")).status, "running")
        yield* Effect.sleep("50 millis")
        assert.notInclude(yield* t.tags(stranger, "job"), "TurnFailed")
      }).pipe(Effect.scoped)
      const last = Layer.provide(ClusterSession.layer([jobs], options), runner(Effect.succeed("ok")))
      const after = yield* t.sessionsOf(last)
      yield* t.until(after, "job", "idle")
      assert.strictEqual((yield* t.stateOf(after, "job")).outcome, "Completed")
    }).pipe(Effect.scoped)
  )
})
