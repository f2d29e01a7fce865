/**
 * Tasks with a final state: a budget and a first model that fails at any chunk change nothing in it, and neither does a process of a session that
 * dies.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Option, Scope } from "effect"
import { TestClock } from "effect/testing"
import { type Agent, AgentEvent, Budget, Conversation, type Run, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { throughJson } from "../agent/fixtures.ts"
import { random } from "../random.ts"
import { mortal } from "../session/mortal.ts"
import * as t from "../session/sessions.ts"
import { after, counter, decisionFor, desk, services, type Trouble } from "./play.ts"
import { type Task, tasks } from "./tasks.ts"
import { World } from "./world.ts"

const budget = { inputTokens: 1_000_000, outputTokens: 1_000_000, modelCalls: 500, toolCalls: 500 } as const

const agentOf = ({ hasObject = false }: Task) => (hasObject ? counter : desk)

/** Time passes where a fiber waits for it. */
const inTime = Effect.fnUntraced(function* <A, E, R>(effect: Effect.Effect<A, E, R>) {
  const fiber = yield* Effect.forkChild(effect)
  while (fiber.pollUnsafe() === undefined) {
    for (let turn = 0; turn < 20; turn++) yield* Effect.yieldNow
    yield* TestClock.adjust("100 millis")
  }
  return yield* Fiber.join(fiber)
})

/** Runs a task to its end, each time from the state as another process reads it. */
const play = Effect.fnUntraced(function* (task: Task, trouble: Trouble, streaming: boolean) {
  const agent: Agent.Agent<unknown, Layer.Success<ReturnType<typeof services>>> = agentOf(task)
  const log: Array<Run.Event> = []
  const options = { budget, onEvent: ({ event }: Agent.RecordedEvent) => Effect.sync(() => void log.push(event)) }
  const running = Effect.gen(function* () {
    let result = streaming
      ? yield* AgentEvent.result(agent.stream(task.name, options))
      : yield* agent.run(task.name, options)
    while (result.outcome === "AwaitingApproval") {
      const decisions = result.requests.map(decisionFor(task))
      const state = yield* throughJson(result.state)
      const { onEvent } = options
      result = streaming
        ? yield* AgentEvent.result(agent.resumeStream(state, { decisions, onEvent }))
        : yield* agent.resume(state, { decisions, onEvent })
    }
    return result
  })
  const result = yield* inTime(Effect.provide(running, services(trouble)))
  const { attempts, changes, reported, state } = yield* World
  return { result, log, state, changes, reported, asked: [...attempts.values()].reduce((sum, one) => sum + one, 0) }
})

type Played = Effect.Success<ReturnType<typeof play>>

const innermost = (event: Run.Event): Run.Event => (event._tag === "ChildEvent" ? innermost(event.event) : event)

const count = (log: ReadonlyArray<Run.Event>, tag: Run.Event["_tag"]) =>
  log.filter((event) => innermost(event)._tag === tag).length

/** A budget has given out the amounts that were reported, and counts each call. */
const isConserved = ({ asked, log, reported, result }: Played) => {
  const [line] = Budget.left(result.state)
  assert.deepStrictEqual(line?.left, {
    inputTokens: budget.inputTokens - reported.input,
    outputTokens: budget.outputTokens - reported.output,
    modelCalls: budget.modelCalls - asked,
    toolCalls: budget.toolCalls - count(log, "ToolStarted")
  })
  assert.deepInclude(result.usage, { inputTokens: reported.input, outputTokens: reported.output })
}

/** The answer of a process, or none where it has died. */
const unlessDead = <A, E, R>(dying: ReturnType<typeof mortal>, effect: Effect.Effect<A, E, R>) =>
  Effect.raceFirst(
    Effect.asSome(effect),
    Effect.as(
      Effect.repeat(Effect.andThen(Effect.sleep("2 millis"), Effect.sync(dying.isDead)), { until: (is) => is }),
      Option.none()
    )
  )

/** A task as a turn of a session, whose first process dies after one of its writes. */
const restarted = Effect.fnUntraced(function* (task: Task, seed: number, whole: Played) {
  const { attempts, changes, state } = yield* World
  const world = Layer.succeed(World, yield* World)
  const draw = random(seed * 1013 + tasks.indexOf(task))
  const kept =
    (seed + tasks.indexOf(task)) % 2 === 0
      ? VersionedStore.layerMemory
      : Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))
  const store = Layer.succeedContext(yield* Layer.build(Layer.fresh(kept)))
  const dying = mortal(store, 1 + draw.below(4 + 5 * task.steps.length))
  yield* dying.arm
  const open = (store: Layer.Layer<VersionedStore.VersionedStore>, scope: Scope.Scope) =>
    Session.layer([agentOf(task)], { leaseTime: "50 millis", drainTime: 0, budget, run: { budget } }).pipe(
      Layer.provide([store, Layer.provide(services({ seed }), world)]),
      t.sessionsOf,
      Effect.provideService(Scope.Scope, scope)
    )
  /** The turn, as far as these sessions bring it. */
  const turn = Effect.fnUntraced(function* (sessions: Session.Service) {
    yield* sessions.send("s", task.name, { messageId: "m" })
    while (true) {
      yield* Effect.sleep("5 millis")
      const now = Option.getOrThrow(yield* sessions.state("s"))
      if (now.status === "idle") return now
      if (now.status !== "waiting") continue
      // The decision of the process that died may be stored
      yield* sessions.decide("s", now.requests.map(decisionFor(task))).pipe(
        Effect.catchIf(
          ({ reason }) => reason._tag === "InvalidDecision",
          () => Effect.void
        )
      )
    }
  })
  const first = yield* Scope.make()
  const before = yield* unlessDead(dying, Effect.flatMap(open(dying.layer, first), turn))
  if (dying.isDead()) {
    seen.kills += 1
    // It never ends where the store is gone
    yield* Effect.forkIn(Scope.close(first, Exit.void), yield* Scope.make())
  }
  const second = yield* Scope.make()
  const sessions = yield* open(store, second)
  const ended = Option.isSome(before) ? before.value : yield* turn(sessions)
  const log = (yield* t.stored(sessions, "s")).flatMap(({ event }) => (event._tag === "RunEvent" ? [event.event] : []))
  assert.strictEqual(ended.outcome, "Completed")
  assert.deepStrictEqual(state, after(task))
  assert.deepStrictEqual(changes.toSorted(), whole.changes.toSorted())
  // Each request has counted, and each report once
  const line = ended.budget?.find(({ scope }) => scope === "session")
  const asked = [...attempts.values()].reduce((sum, one) => sum + one, 0)
  assert.isAtLeast(budget.modelCalls - (line?.left.modelCalls ?? 0), asked)
  const usages = log.map(innermost).flatMap((event) => (event._tag === "ModelAnswered" ? [event.message.usage] : []))
  const sum = (unit: "inputTokens" | "outputTokens") => usages.reduce((all, one) => all + (one?.[unit] ?? 0), 0)
  assert.isAtLeast(budget.inputTokens - (line?.left.inputTokens ?? 0), sum("inputTokens"))
  if (!dying.isDead()) {
    assert.strictEqual(budget.inputTokens - (line?.left.inputTokens ?? 0), sum("inputTokens"))
    assert.strictEqual(budget.outputTokens - (line?.left.outputTokens ?? 0), sum("outputTokens"))
  }
  seen.lost += count(log, "ToolFinished") > 0 && JSON.stringify(log).includes("was_done") ? 1 : 0
  yield* Scope.close(second, Exit.void)
})

/** The trouble that there was. */
const seen = { fallbacks: 0, kills: 0, lost: 0 }

const seeds = process.env["EMISSARY_TEST_FULL"] === "1" ? 40 : 2

describe("tasks with a final state", () => {
  it("are at least thirty, of four sources", () => {
    assert.isAtLeast(tasks.length, 30)
    assert.strictEqual(new Set(tasks.map(({ name }) => name)).size, tasks.length)
    assert.strictEqual(new Set(tasks.map(({ source }) => source)).size, 4)
  })

  describe.each(tasks.map((task) => [task.source, task.name, task] as const))("%s: %s", (_, __, task) => {
    it.effect(
      "L14 MONEY-1 MONEY-2 a budget and a first model that fails at any chunk change nothing in the final state",
      () =>
        Effect.gen(function* () {
          const whole = yield* Effect.provide(play(task, {}, false), Layer.fresh(World.layer))
          assert.strictEqual(whole.result.outcome, "Completed")
          assert.deepStrictEqual(whole.state, after(task))
          isConserved(whole)
          for (let seed = 1; seed <= seeds; seed++) {
            const played = yield* Effect.provide(play(task, { seed }, seed % 3 !== 0), Layer.fresh(World.layer))
            assert.strictEqual(played.result.outcome, "Completed")
            assert.deepStrictEqual(played.state, whole.state)
            // No call of a tool that changes the world ran twice
            assert.deepStrictEqual(played.changes.toSorted(), whole.changes.toSorted())
            assert.deepStrictEqual(
              Conversation.transcript(played.result.conversation),
              Conversation.transcript(whole.result.conversation)
            )
            assert.deepStrictEqual(played.reported, whole.reported)
            isConserved(played)
            seen.fallbacks += played.log
              .map(innermost)
              .filter((event) => event._tag === "StepRetried" && event.model !== undefined).length
          }
        })
    )

    t.passing("L6 L11 L14 a process of a session that dies after any write changes nothing in the final state", () =>
      Effect.gen(function* () {
        const whole = yield* Effect.provide(play(task, {}, false), Layer.fresh(World.layer))
        for (let seed = 1; seed <= Math.ceil(seeds / 2); seed++) {
          const world = Layer.succeedContext(yield* Layer.build(Layer.fresh(World.layer)))
          yield* Effect.provide(restarted(task, seed, whole), world)
        }
      })
    )
  })

  it("were disturbed: models failed, and processes died", () => {
    assert.isAbove(seen.fallbacks, tasks.length)
    assert.isAbove(seen.kills, tasks.length / 2)
    assert.isAbove(seen.lost, 0)
  })
})
