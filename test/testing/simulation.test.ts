/** WORLD-1: worlds that run under a seed. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Effect, Fiber, Layer, Logger, Option, Random } from "effect"
import { Agent } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel, Simulation } from "effect-emissary/testing"

const calmly: Simulation.Trouble = {
  kills: 0,
  pauses: 0,
  stops: 0,
  jumps: 0,
  skew: 0,
  store: { failures: 0 },
  network: { losses: 0, doubles: 0 }
}

/** Runs a script in one world without trouble. */
const inWorld = <O = never>(
  script: (world: Simulation.World<never>) => Effect.Effect<unknown, unknown, O>,
  options: Partial<Simulation.Options<never, never, O>> = {}
) => Simulation.run(Layer.empty, { seeds: [7], trouble: calmly, ...options, script })

const failureOf = (effect: Effect.Effect<unknown, Simulation.SimulationError>) =>
  Effect.map(Effect.flip(effect), ({ message, reason }) => ({ message, reason }))

describe("WORLD-1 what leaves the world", () => {
  const slow = Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 5)))

  it.live("a promise ends the world, and the error names the span of its fiber", () =>
    Effect.gen(function* () {
      const { message, reason } = yield* failureOf(
        inWorld(({ any }) => Effect.flatMap(any, ({ call }) => call("work", Effect.withSpan(slow, "Billing.charge"))))
      )
      assert.strictEqual(reason._tag, "Escaped")
      assert.include(message, 'process 1, the span "Billing.charge"')
      assert.include(message, "Simulation.external")
    })
  )

  it.live("a timer is noticed while the rest of the world continues", () =>
    Effect.gen(function* () {
      const timer = Effect.callback<void>((resume) => void setTimeout(() => resume(Effect.void), 1))
      const { reason } = yield* failureOf(
        inWorld(() => Effect.raceFirst(Effect.withSpan(timer, "late"), Effect.forever(Effect.sleep("1 millis"))))
      )
      assert.deepStrictEqual(reason, { _tag: "Escaped", from: 'script, the span "late"' })
    })
  )

  it.live("`external` admits a promise, which takes no virtual time and has one place in each run", () =>
    Effect.gen(function* () {
      const work = Simulation.external(Effect.as(slow, 1))
      const report = yield* inWorld(({ any, note }) =>
        Effect.gen(function* () {
          const before = yield* Clock.currentTimeMillis
          const ticking = yield* Effect.forkChild(
            Effect.forever(Effect.andThen(Effect.sleep("1 millis"), note("tick")))
          )
          for (let i = 0; i < 5; i++) yield* work
          assert.strictEqual((yield* Clock.currentTimeMillis) - before, 0)
          yield* Effect.flatMap(any, ({ call }) => call("work", work))
          yield* Fiber.interrupt(ticking)
        })
      )
      assert.strictEqual(report.worlds, 1)
      assert.strictEqual(yield* work, 1)
    })
  )

  it.live("time and chance from outside show as a difference of two runs", () =>
    Effect.gen(function* () {
      const { message, reason } = yield* failureOf(inWorld(({ note }) => note(`at ${Math.random()}`)))
      assert.strictEqual(reason._tag, "Differs")
      assert.match(message, /got "\s+0 ms {2}script: at 0\..*" and "\s+0 ms {2}script: at 0\./)
    })
  )

  it.live("a script that waits for nothing is stuck, and one that never ends is endless", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* failureOf(inWorld(() => Effect.never))).reason._tag, "Stuck")
      const forever = inWorld(() => Effect.forever(Effect.withSpan(Effect.sleep("1 hour"), "Poll.again")), {
        maxTurns: 1000
      })
      const { message, reason } = yield* failureOf(forever)
      assert.strictEqual(reason._tag, "Endless")
      assert.include(message, 'the last one in script, the span "Poll.again"')
    })
  )

  it.live("a script that fails and a process that does not start fail the world, with the trace", () =>
    Effect.gen(function* () {
      const failed = yield* Effect.flip(
        inWorld(({ note }) => Effect.andThen(note("before"), Effect.fail("no such order")))
      )
      assert.deepStrictEqual(failed.reason, { _tag: "Failed", problem: "no such order" })
      assert.match(failed.trace.at(-1) ?? "", /^ +0 ms {2}script: before$/)
      const broken = Layer.effectDiscard(Effect.fail("no port"))
      const { reason } = yield* failureOf(
        Simulation.run(broken, { seeds: 1, trouble: calmly, script: () => Effect.never })
      )
      assert.deepStrictEqual(reason, { _tag: "Failed", problem: "no port" })
    })
  )
})

describe("WORLD-1 time, chance and order come from the seed", () => {
  it.live("an hour takes no time, and each seed has an order, a chance and numbers of its own", () =>
    Effect.gen(function* () {
      const orders = new Map<string, number>()
      for (const seed of [1, 2, 3, 4, 5]) {
        const found: Array<number> = []
        const script = () =>
          Effect.gen(function* () {
            found.length = 0
            yield* Effect.sleep("1 hour")
            yield* Effect.forEach(
              [1, 2, 3],
              (n) =>
                Effect.andThen(
                  Effect.yieldNow,
                  Effect.sync(() => found.push(n))
                ),
              { concurrency: "unbounded" }
            )
            found.push(yield* Random.nextIntBetween(0, 1_000_000))
          })
        const { figures } = yield* inWorld(script, { seeds: [seed] })
        assert.strictEqual(figures["milliseconds"], 3_600_000)
        orders.set(found.join(), found.at(-1) ?? 0)
      }
      assert.strictEqual(orders.size, 5)
      assert.strictEqual(new Set(orders.values()).size, 5)
      assert.isAbove(new Set([...orders.keys()].map((order) => order.slice(0, 5))).size, 1)
    })
  )

  it.live("fibers yield between any two operations", () =>
    Effect.gen(function* () {
      let most = 0
      const script = () =>
        Effect.gen(function* () {
          const done: Array<number> = []
          const step = Effect.sync(() => done.push(1))
          const adding = yield* Effect.forkChild(Effect.all(Array.from({ length: 1000 }, () => step)))
          const seen = new Set<number>()
          while (done.length < 1000) {
            seen.add(done.length)
            yield* Effect.yieldNow
          }
          yield* Fiber.join(adding)
          most = Math.max(most, seen.size)
        })
      yield* inWorld(script)
      assert.isAtLeast(most, 5)
    })
  )

  it.live("clocks of processes differ, jump, and are whole milliseconds", () =>
    Effect.gen(function* () {
      const clock = Layer.empty
      const read = Effect.flatMap(Effect.sleep(0.4), () => Clock.currentTimeMillis)
      const clocks: Array<Array<number>> = []
      const script = (world: Simulation.World<never>) =>
        Effect.gen(function* () {
          clocks.length = 0
          for (let i = 0; i < 20; i++) {
            const all = yield* world.processes
            clocks.push(yield* Effect.forEach(all, ({ call }) => call("clock", read)))
            yield* Effect.sleep(50)
          }
        })
      const trouble = { ...calmly, skew: 1000, jumps: 2, every: [100, 200] as const }
      yield* Simulation.run(clock, { seeds: [3], processes: 2, trouble, script })
      const differences = new Set(clocks.map(([first = 0, second = 0]) => Math.round((first - second) / 40)))
      assert.isAbove(differences.size, 1)
      assert.isTrue(clocks.flat().every(Number.isInteger))
      assert.isTrue(clocks.some(([first = 0, second = 0]) => Math.abs(first - second) > 20))
    })
  )

  it.live("a world that ran before changes nothing: a seed has one hash", () =>
    Effect.gen(function* () {
      const one = Simulation.run(sessions, { seeds: [4], script: Simulation.chats() })
      const first = yield* one
      yield* Simulation.run(sessions, { seeds: [5, 6], script: Simulation.chats({ messages: 1 }) })
      assert.deepStrictEqual(yield* one, first)
    })
  )
})

const sessions = Session.layer([Agent.make("support")], { leaseTime: "500 millis" }).pipe(
  Layer.provide(ScriptedModel.layer(() => Effect.as(Effect.sleep("30 millis"), { text: "Hello." })))
)

/** Facts that outlive the processes. */
class Facts extends Context.Service<
  Facts,
  { readonly all: Array<string>; readonly add: (fact: string) => Effect.Effect<void> }
>()("test/Facts") {
  static readonly layer = Layer.sync(Facts, () => {
    const all: Array<string> = []
    return { all, add: (fact) => Effect.sync(() => void all.push(fact)) }
  })
}

/** A process that records when it starts, works and ends. */
const worker = (name: string) =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const { add } = yield* Facts
      yield* Effect.acquireRelease(add(`${name} starts`), () => add(`${name} closes`))
      yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(10), add(`${name} works`))))
    })
  )

const factsOf = (
  script: (world: Simulation.World<never>) => Effect.Effect<unknown, unknown>,
  deploys: ReadonlyArray<string> = [],
  trouble: Simulation.Trouble = {}
) =>
  Effect.gen(function* () {
    let facts: ReadonlyArray<string> = []
    yield* Simulation.run(worker("first"), {
      seeds: [1],
      processes: 1,
      trouble: { ...calmly, ...trouble },
      outside: Facts.layer,
      deploys: deploys.map(worker),
      script: (world) =>
        Effect.gen(function* () {
          yield* script(world)
          facts = [...(yield* Facts).all]
        })
    })
    return facts
  })

const count = (facts: ReadonlyArray<string>, fact: string) => facts.filter((one) => one === fact).length

describe("WORLD-1 processes", () => {
  it.live("WORLD-3 each of them has a name, which its layer can read, and nothing has one outside of a world", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* Simulation.processName, Option.none())
      yield* inWorld(({ processes }) =>
        Effect.gen(function* () {
          const names = yield* Effect.forEach(yield* processes, ({ call }) => call("name", Simulation.processName))
          assert.deepStrictEqual(names, [Option.some("process 1"), Option.some("process 2")])
        })
      )
    })
  )

  it.live("a killed process does nothing more, its finalizers included, and no call has an answer", () =>
    Effect.gen(function* () {
      const facts = yield* factsOf(({ processes }) =>
        Effect.gen(function* () {
          yield* Effect.sleep(100)
          const [one] = yield* processes
          assert.isDefined(one)
          if (one === undefined) return
          yield* one.kill
          const error = yield* Effect.flip(one.call("late", Effect.void))
          assert.strictEqual(error._tag, "Lost")
          assert.deepStrictEqual(yield* processes, [])
        })
      )
      assert.strictEqual(count(facts, "first starts"), 1)
      assert.isAtMost(count(facts, "first works"), 10)
      assert.strictEqual(count(facts, "first closes"), 0)
    })
  )

  it.live("a process that is stopped is closed in order", () =>
    Effect.gen(function* () {
      const facts = yield* factsOf(({ processes }) =>
        Effect.gen(function* () {
          yield* Effect.sleep(100)
          yield* Effect.forEach(yield* processes, ({ stop }) => stop)
          yield* Effect.sleep(100)
        })
      )
      assert.strictEqual(facts.at(-1), "first closes")
    })
  )

  it.live("a process that is paused does nothing, and then continues", () =>
    Effect.gen(function* () {
      const facts = yield* factsOf(({ processes }) =>
        Effect.gen(function* () {
          yield* Effect.sleep(100)
          const [one] = yield* processes
          yield* one?.pause(1000) ?? Effect.void
          yield* Effect.sleep(1100)
        })
      )
      assert.isAbove(count(facts, "first works"), 12)
      assert.isBelow(count(facts, "first works"), 25)
    })
  )

  it.live("a stop of the trouble brings the next deploy", () =>
    Effect.gen(function* () {
      const facts = yield* factsOf(() => Effect.sleep(5000), ["second", "third"], { stops: 2 })
      const lives = facts.filter((fact) => !fact.endsWith("works"))
      assert.deepStrictEqual(
        lives.filter((fact) => fact.endsWith("starts")),
        ["first starts", "second starts", "third starts"]
      )
      assert.deepStrictEqual(
        lives.filter((fact) => fact.endsWith("closes")),
        ["first closes", "second closes"]
      )
    })
  )

  it.live("what they log is in the trace", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        inWorld(({ any }) =>
          Effect.gen(function* () {
            yield* Effect.flatMap(any, ({ call }) => call("log", Effect.logWarning("low on", { disk: true })))
            return yield* Effect.fail("end")
          })
        )
      )
      assert.include(error.trace.join("\n"), 'process 1: warn: low on {"disk":true}')
    }).pipe(Effect.provide(Logger.layer([])))
  )
})
