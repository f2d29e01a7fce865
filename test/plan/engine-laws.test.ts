/** Laws of running plans, over random plans with bands, loops, jumps, retries, pauses, and agents and plans inside. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Equal, Exit, Fiber, Layer, Option, Result, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import type * as livePlan from "#src/plan/internal/livePlan.ts"
import * as planTransition from "#src/run/internal/planTransition.ts"
import * as runTransition from "#src/run/internal/runTransition.ts"
import { Agent, Message } from "effect-emissary"
import type { VersionedCodec } from "effect-emissary/payload"
import { Plan, PlanRun, Step, When, type PlanEvent } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { journal, planOf } from "./support.ts"
import { pluck } from "../pluck.ts"
import { someRuns } from "../full.ts"
import { test } from "../test.ts"
import { decide } from "../decisions.ts"

const Digit = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9 }))

const Script = Schema.Struct({
  steps: Schema.Array(
    Schema.Struct({
      parallel: Schema.Boolean,
      nested: Schema.Literals([false, false, true]),
      flaky: Schema.Boolean,
      seconds: Digit,
      route: Schema.Literals(["none", "back", "forward"]),
      to: Digit,
      until: Digit,
      rejoin: Digit,
      kind: Schema.Literals(["count", "count", "pause", "conclude", "agent"])
    })
  ).check(Schema.isMinLength(1), Schema.isMaxLength(7)),
  cuts: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 30_000 }))).check(Schema.isMaxLength(4)),
  concurrency: Schema.Literals([1, 2, 10]),
  denied: Digit
})
type Script = typeof Script.Type

const Counted = Schema.Struct({ n: Schema.Int })

const payments = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String, needsApproval: true })
)

const clerk = Agent.make("clerk", { toolkit: payments })

const services = Layer.mergeAll(
  payments.toLayer({ pay: () => Effect.as(Effect.sleep("1 second"), "paid") }),
  ScriptedModel.layer(({ messages }) => ({
    usage: { inputTokens: messages.length },
    ...(messages.some(({ role }) => role === "tool")
      ? { text: "paid" }
      : { toolCalls: [{ id: "call", name: "pay", params: {} }] })
  }))
)

/** A plan whose functions count, take time, and note when they are done. */
const make = Effect.fnUntraced(function* (script: Script, done: Array<string>) {
  const failed = new Set<string>()
  const work = (name: string, { flaky, kind, seconds }: Script["steps"][number]) =>
    Step.target(name, { input: Schema.Json, output: Counted }, ({ decision, payload }) =>
      Effect.gen(function* () {
        yield* Effect.sleep(seconds * 1000)
        const n = Schema.is(Counted)(payload) ? payload.n : 0
        if (kind === "pause" && decision === undefined) return yield* Step.pause("go on?")
        if (kind === "conclude" && n > 4) return yield* Step.conclude("enough")
        // Fails the first time for each input, so that a retry is due however often the run is cut
        if (flaky && !failed.has(`${name}${n}`)) {
          failed.add(`${name}${n}`)
          return yield* Effect.fail("flaky")
        }
        done.push(`${name}:${n}`)
        return { n: n + 1 }
      })
    )
  const sequential = script.steps.flatMap(({ parallel }, i) => (parallel ? [] : [i]))
  const routesOf = (i: number, { parallel, rejoin, route, to, until }: Script["steps"][number]) => {
    const aims = sequential.filter((aim) => (route === "back" ? aim <= i : route === "forward" && aim > i))
    const aim = aims[to % Math.max(1, aims.length)]
    if (parallel || aim === undefined) return {}
    const later = sequential.filter((position) => position > Math.max(aim, i))
    return {
      routes: [[`s${aim}`, When.field("n").lessThan(until + i)] as const],
      afterBranches: rejoin > 4 && later.length > 0 ? `s${later[rejoin % later.length]}` : undefined
    }
  }
  const retry = { times: 1, delay: "1 second" } as const
  const steps: Array<Step.Step> = []
  for (const [i, one] of script.steps.entries()) {
    const name = `s${i}`
    const target = one.kind === "agent" ? clerk : work(name, one)
    const inner = yield* planOf(
      [
        Step.make("i", { target, retry }),
        Step.make("j", { target: work(`${name}j`, { ...one, flaky: false, kind: "count" }) })
      ],
      { name: `inner${i}` }
    )
    const shared = { parallel: one.parallel, ...routesOf(i, one), writes: one.parallel ? undefined : `w${i % 3}` }
    steps.push(
      one.nested ? Step.make(name, { target: inner, ...shared }) : Step.make(name, { target, retry, ...shared })
    )
  }
  // Sound: what the functions and agents require is provided to every run.
  return (yield* planOf(steps, { maxIterations: 60 })) as Plan.Bound<Schema.Json>
})

/** Runs and resumes until the plan ends, and decides about what waits; some of it is denied. */
const runToEnd = Effect.fnUntraced(function* (
  { denied }: Script,
  bound: Plan.Bound<Schema.Json>,
  options: livePlan.RunOptions,
  from?: PlanRun.State
) {
  const input = { payload: { n: 0 } }
  let result = yield* from === undefined ? Plan.run(bound, input, options) : Plan.resume(bound, from, options)
  for (let round = 1; result.outcome === "Paused"; round++) {
    const decisions = decide(result.state, round !== denied)
    result = yield* Plan.resume(bound, result.state, { ...options, decisions })
  }
  return result
}, Effect.provide(services))

const outcome = <A, E>(exit: Exit.Exit<A, E>): unknown =>
  Exit.isSuccess(exit)
    ? exit.value
    : exit.cause.reasons.map((reason) => (reason._tag === "Fail" ? reason.error : reason._tag))

const finished = Effect.fnUntraced(function* <A, E>(effect: Effect.Effect<A, E>) {
  const fiber = yield* Effect.forkChild(Effect.exit(effect))
  // An observer needs some turns of the scheduler between two sleeps of the run
  while (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("5 seconds")
  return yield* Fiber.join(fiber)
})

/** Cuts a run off at the points of the script, then lets it come to its end. `kept` is the state that was written last. */
const interrupted = Effect.fnUntraced(function* (script: Script, bound: Plan.Bound<Schema.Json>) {
  const events: Array<PlanRun.Event> = []
  let kept: PlanRun.State | undefined
  const options: livePlan.RunOptions = {
    concurrency: script.concurrency,
    journal: (batch, state) =>
      Effect.sync(() => {
        events.push(...batch)
        kept = state
      })
  }
  const through = Effect.suspend(() =>
    kept === undefined ? Effect.succeed(kept) : Effect.orDie(throughJson(PlanRun.stateCodec, kept))
  )
  const goOn = Effect.flatMap(through, (state) => runToEnd(script, bound, options, state))
  for (const cut of script.cuts) {
    const fiber = yield* Effect.forkChild(goOn)
    yield* TestClock.adjust(cut)
    yield* Fiber.interrupt(fiber)
  }
  const exit = yield* finished(goOn)
  assert(kept !== undefined)
  return { events, exit, kept }
})

const throughJson = <A>(codec: VersionedCodec.VersionedCodec<A>, value: A) =>
  Effect.flatMap(codec.encodeJson(value), (json) => codec.decodeJson(json))

const usageOf = (event: PlanRun.Event): Message.TokenUsage => {
  if (event._tag === "NestedChanged") return usageOf(event.event)
  const inner = event._tag === "AgentChanged" ? event.event : undefined
  return inner?._tag === "ModelAnswered" ? (inner.message.usage ?? {}) : {}
}

/** A run is the list of its events: each applies once, and every prefix of it is a state that can be kept and resumed. */
const checkPrefix = Effect.fnUntraced(function* (events: ReadonlyArray<PlanRun.Event>, state: PlanRun.State) {
  const steps = PlanRun.history(state)
  const kept = state.turn?.members.filter(({ status }) => status._tag === "Finished").length ?? 0
  assert.strictEqual(steps.length + kept, events.filter(({ _tag }) => _tag === "StepFinished").length)
  assert.strictEqual(state.revision, events.length)
  assert.isAtMost(state.iterations, state.maxIterations)
  const routers = state.rejoins.map(({ router }) => router)
  assert.strictEqual(new Set(routers).size, routers.length)
  assert.isTrue(state.turn === undefined || state.turn.members[0]?.step === state.cursor)
  assert.isTrue(state.choosing === undefined || state.choosing === state.cursor)
  const action = runTransition.plans.next(state)
  for (const name of action._tag === "RunSteps" ? action.steps : []) {
    assert.include([undefined, "Waiting", "Running"], planTransition.memberOf(state, name)?.status._tag)
  }

  const decoded = yield* throughJson(PlanRun.stateCodec, state)
  assert.isTrue(Equal.equals(decoded, state))
  assert.deepStrictEqual(runTransition.plans.next(decoded), action)
  assert.deepStrictEqual(planTransition.writtenValues(decoded), planTransition.writtenValues(state))
  assert.deepStrictEqual(planTransition.lastRecord(decoded), Option.fromNullishOr(steps.at(-1)))

  const last = events.at(-1)
  assert(last !== undefined)
  assert.deepStrictEqual(yield* throughJson(PlanRun.eventCodec, last), last)
  if (last._tag !== "AgentChanged" && last._tag !== "NestedChanged" && last._tag !== "PlanResumed") {
    assert.isTrue(Result.isFailure(runTransition.plans.apply(state, last)), `${last._tag} applied twice`)
  }
  const resumed = runTransition.plans.apply(state, { _tag: "PlanResumed", at: last.at })
  const isOver = state.outcome?._tag === "Completed" || state.outcome?._tag === "Concluded"
  assert.strictEqual(Result.isFailure(resumed), isOver)
  for (const { status } of (Result.isSuccess(resumed) && resumed.success.turn?.members) || []) {
    assert.include(["Waiting", "Finished", "Concluded"], status._tag)
  }
})

describe("laws", () => {
  test.prop(
    "L6 PLAN-6 S13.8 cut off at any points and taken up from what was written, a run ends as if it had not been, and nothing completed runs twice",
    [Script],
    function* ([random]) {
      const script = { ...random, denied: 0 }
      const whole: Array<string> = []
      const plan = yield* make(script, whole)
      const expected = yield* finished(runToEnd(script, plan, { concurrency: script.concurrency }))

      const done: Array<string> = []
      const { exit: actual } = yield* interrupted(script, yield* make(script, done))
      if (Exit.isSuccess(expected)) {
        assert(Exit.isSuccess(actual), JSON.stringify(outcome(actual)))
        const answer = ({ iterations, outcome, state, writes }: PlanRun.Result<Schema.Json>) => ({
          iterations,
          outcome,
          writes: Array.from(writes),
          steps: PlanRun.history(state).map(({ output, step }) => [step, output])
        })
        assert.deepStrictEqual(answer(actual.value), answer(expected.value))
      } else {
        assert(Exit.isFailure(actual))
      }
      assert.deepStrictEqual(done.sort(), whole.sort())
    },
    { arbitrary: { runs: someRuns(300) } }
  )

  test.prop(
    "L3 L6 PLAN-5 PLAN-6 PLAN-7 HOUSE-3 the events of a run fold to its state without the plan, and so does every prefix of them",
    [Script],
    function* ([script]) {
      const bound = yield* make(script, [])
      const { events, kept } = yield* interrupted(script, bound)
      assert.isTrue(Equal.equals(Result.getOrThrow(PlanRun.fold(events)), kept))
      assert.deepStrictEqual(yield* throughJson(PlanRun.eventsCodec, events), events)

      const [first, ...rest] = events
      assert(first?._tag === "PlanStarted")
      let state = runTransition.plans.start(first)
      for (const [index, event] of rest.entries()) {
        state = Result.getOrThrow(runTransition.plans.apply(state, event))
        yield* checkPrefix(events.slice(0, index + 2), state)
      }
      assert.deepStrictEqual(kept.usage, Message.sumUsage(events.map(usageOf)))
      const history = PlanRun.history(kept)
      for (const { name, writes } of bound.definition.steps) {
        const newest = history.findLast(({ step }) => step === name)
        assert.deepStrictEqual(planTransition.recordOf(kept, name), Option.fromNullishOr(newest))
        if (writes === undefined) continue
        const writers = new Set(bound.definition.steps.flatMap((step) => (step.writes === writes ? [step.name] : [])))
        const written = history.findLast(({ step }) => writers.has(step))
        assert.deepStrictEqual(planTransition.writtenValues(kept).get(writes), written?.output)
      }
    },
    // each run reads every prefix of its events again, through JSON
    { arbitrary: { runs: someRuns(50) } }
  )

  it.effect.prop(
    "S2.2 watching a run changes nothing of it",
    [Script],
    ([script]) =>
      Effect.gen(function* () {
        const plain = journal()
        const watched = journal()
        const bound = yield* make(script, [])
        const { concurrency } = script
        const input = { payload: { n: 0 } }
        const one = yield* finished(Plan.run(bound, input, { concurrency, journal: plain.write }))
        const events: Array<PlanEvent.PlanEvent<unknown>> = []
        const again = yield* make(script, [])
        const two = yield* finished(
          Stream.runForEach(Plan.stream(again, input, { concurrency, journal: watched.write }), (event) =>
            Effect.sync(() => events.push(event))
          )
        )
        // Members of a band may take turns in another order
        const facts = (tags: ReadonlyArray<ReadonlyArray<string>>) =>
          script.steps.some(({ parallel }) => parallel) ? tags.flat().sort() : tags
        assert.deepStrictEqual(facts(watched.tags()), facts(plain.tags()))
        assert.strictEqual(two._tag, one._tag)
        const last = events.at(-1)
        if (Exit.isSuccess(one)) {
          assert(last?._tag === "PlanFinished")
          assert.strictEqual(last.result.outcome, one.value.outcome)
          assert.deepStrictEqual(PlanRun.history(last.result.state).length, PlanRun.history(one.value.state).length)
        }
        const told = events.flatMap((event) => (event._tag === "StateChanged" ? [event.event._tag] : []))
        assert.deepStrictEqual(told, pluck(watched.batches.flat(), "_tag"))
      }).pipe(Effect.provide(services)),
    { arbitrary: { runs: someRuns(200) } }
  )
})
