/** RIGHT-15: `restart` is one commit. The old session is replaced, and its values are deleted afterwards. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Option, Result, Scope, Stream } from "effect"
import { VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { mortal } from "./mortal.ts"
import * as t from "./sessions.ts"

/** Writes are single in the one, and commits in the other. */
const stores = [
  ["memory", VersionedStore.layerMemory],
  ["SQLite", Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))]
] as const

const job = { id: "job", input: "whales" }

const other = { id: "job", input: "cats", ifExists: "restart" } as const

/** A process, whose model never answers "whales" while that is `slow`. */
const processOf = Effect.fnUntraced(function* (store: Layer.Layer<VersionedStore.VersionedStore>, isSlow = false) {
  const isAsked = yield* Deferred.make<void>()
  const layer = Session.layer([t.support], { leaseTime: "50 millis", drainTime: 0 }).pipe(
    Layer.provide(store),
    Layer.provide(
      ScriptedModel.layer((request) =>
        isSlow && t.asked(request) === "whales"
          ? Effect.andThen(Deferred.succeed(isAsked, undefined), Effect.never)
          : t.echo(request)
      )
    )
  )
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(Layer.fresh(layer), scope)
  const run = <A, E>(effect: Effect.Effect<A, E, Session.Session>) => Effect.provideContext(effect, context)
  return { run, scope, isAsked, stop: Scope.close(scope, Exit.void) }
})

const inputOf = (result: Session.RunResult<string>) => (result.outcome === "Completed" ? result.output : result.outcome)

/** Begins the old job, and then the new one in a process that dies. */
const begin = Effect.fnUntraced(function* (
  store: Layer.Layer<VersionedStore.VersionedStore>,
  at: number,
  isUnderWay: boolean
) {
  const dying = mortal(store, at)
  const first = yield* processOf(dying.layer, isUnderWay)
  const running = yield* Effect.forkIn(Effect.exit(first.run(Session.run(t.support, job))), first.scope)
  yield* isUnderWay ? Deferred.await(first.isAsked) : Fiber.await(running)
  // The beginning of the turn is written a little later
  yield* Effect.sleep("300 millis")
  yield* dying.arm
  const restarted = yield* Effect.forkIn(Effect.exit(first.run(Session.run(t.support, other))), first.scope)
  return { dying, first, restarted }
})

describe("RIGHT-15 restart", () => {
  for (const [name, layer] of stores) {
    for (const isUnderWay of [false, true]) {
      const what = isUnderWay ? "a job whose turn is under way" : "a job that has ended"
      t.passing(`${name}: L11 ${what}: a process that dies after any write leaves the old job or the new one`, () =>
        Effect.gen(function* () {
          const built = Effect.map(Layer.build(Layer.fresh(layer)), (context) => Layer.succeedContext(context))
          const whole = yield* begin(yield* built, Number.POSITIVE_INFINITY, isUnderWay)
          yield* Fiber.await(whole.restarted)
          yield* whole.first.stop
          const { length } = whole.dying.writes
          assert.isAbove(length, 3)
          const found = new Set<string>()
          for (let at = 1; at <= length; at++) {
            const place = `after write ${at}, ${whole.dying.writes[at - 1]}`
            const store = yield* built
            const { dying, first, restarted } = yield* begin(store, at, isUnderWay)
            yield* Effect.raceFirst(t.eventually(Effect.sync(dying.isDead)), Fiber.await(restarted))
            // It never ends where the store is gone
            yield* Effect.forkIn(first.stop, yield* Scope.make())
            const second = yield* processOf(store)
            const sessions = yield* second.run(Session.Session)
            assert.isTrue(Option.isSome(yield* sessions.state(job.id)), place)
            const old = yield* Effect.result(second.run(Session.run(t.support, { ...job, ifExists: "resume" })))
            const isOld = Result.isSuccess(old)
            found.add(isOld ? "old" : "new")
            if (isOld) assert.strictEqual(inputOf(old.success), "re: whales", place)
            else assert.strictEqual(old.failure.reason._tag, "InputDiffers", place)
            const next = { ...other, ifExists: isOld ? "restart" : "resume" } as const
            const result = yield* second.run(Session.run(t.support, next))
            assert.strictEqual(inputOf(result), "re: cats", place)
            yield* second.stop
          }
          assert.isTrue(found.has("new"))
        })
      )
    }

    t.passing(`${name}: one change of the head begins the new session, and the values of the old one are deleted`, () =>
      Effect.gen(function* () {
        const context = yield* Layer.build(Layer.fresh(layer))
        const store = Layer.succeedContext(context)
        const { dying, first, restarted } = yield* begin(store, Number.POSITIVE_INFINITY, false)
        assert.isTrue(Exit.isSuccess(yield* Fiber.join(restarted)))
        yield* first.stop
        const { writes } = dying
        const isHead = (write: string) => write.endsWith("head/job")
        assert.isFalse(writes.some((write) => write.startsWith("delete") && isHead(write)))
        // The message that begins it, and the turn
        assert.strictEqual(writes.filter(isHead).length, 2, writes.join("\n"))
        const begun = writes.findIndex(isHead)
        if (name === "SQLite") assert.strictEqual(begun, 0)
        assert.isFalse(writes.slice(0, begun).some((write) => write.startsWith("delete")))
        const { keys } = yield* Effect.provideContext(
          Effect.flatMap(VersionedStore.VersionedStore, (store) => store.list({ prefix: "session/journal/" })),
          context
        )
        assert.strictEqual(new Set(keys.map((key) => key.split("/")[3])).size, 1, keys.join("\n"))
      })
    )
  }

  t.passing("readers of the old session end as after a removal, in this process and in another one", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const first = yield* processOf(store)
      const second = yield* processOf(store)
      yield* first.run(Session.run(t.support, job))
      const readers = yield* Effect.forEach([first, second], ({ run }) =>
        Effect.gen(function* () {
          const { events } = yield* run(Session.Session)
          const seen: Array<Session.Entry> = []
          const reading = Stream.runForEach(events(job.id), (entry) => Effect.sync(() => void seen.push(entry)))
          return { seen, fiber: yield* Effect.forkScoped(Effect.flip(reading)) }
        })
      )
      yield* t.eventually(Effect.sync(() => readers.every(({ seen }) => seen.some(t.endsTurn))))
      const old = readers.map(({ seen }) => seen.length)
      yield* first.run(Session.run(t.support, other))
      for (const [index, { fiber, seen }] of readers.entries()) {
        assert.strictEqual((yield* Fiber.join(fiber)).reason._tag, "EventsUnknown")
        assert.strictEqual(seen.length, old[index])
      }
    })
  )

  t.passing("calls that wait are not denied before: nothing is written to the old session", () =>
    Effect.gen(function* () {
      const { agent, handlers } = t.withTool("worker", { needsApproval: true })
      const dying = mortal(yield* t.store, Number.POSITIVE_INFINITY)
      const layer = Session.layer([agent]).pipe(
        Layer.provide([dying.layer, handlers(() => Effect.succeed("done"))]),
        Layer.provide(ScriptedModel.layer([t.call(1), { text: "re: cats" }]))
      )
      yield* Effect.gen(function* () {
        assert.strictEqual((yield* Session.run(agent, job)).outcome, "AwaitingApproval")
        yield* dying.arm
        assert.strictEqual(inputOf(yield* Session.run(agent, other)), "re: cats")
        // The message that begins the new one, and the turn
        assert.strictEqual(dying.writes.filter((write) => write.endsWith("head/job")).length, 2)
      }).pipe(Effect.provide(layer))
    })
  )

  t.passing("the same restart twice at once is one, and the message of an earlier session begins another one", () =>
    Effect.gen(function* () {
      const { run, stop } = yield* processOf(yield* t.store)
      const sessions = yield* run(Session.Session)
      const { cursor } = yield* run(Session.run(t.support, job))
      const restart = sessions.send(job.id, "cats", { messageId: "m1", ifExists: "restart" })
      const [one, two] = yield* Effect.all([restart, restart], { concurrency: 2 })
      assert.deepStrictEqual(one, two)
      const lifeOf = (cursor: string) => cursor.split(".")[0]
      assert.notStrictEqual(lifeOf(one.cursor), lifeOf(cursor))
      assert.strictEqual(inputOf(yield* run(Session.result(t.support, job.id))), "re: cats")
      yield* sessions.send(job.id, "dogs", { messageId: "m2", ifExists: "restart" })
      const third = yield* restart
      assert.notStrictEqual(lifeOf(third.cursor), lifeOf(one.cursor))
      assert.strictEqual(inputOf(yield* run(Session.result(t.support, job.id))), "re: cats")
      yield* stop
    })
  )
})
