/** Laws of running plans, over random plans with bands, loops, jumps, retries and plans inside. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Plan, PlanRun, Step, When, type PlanEvent } from "effect-emissary/plan"

import { bind, completed, journal } from "./support.ts"
import { pluck } from "../pluck.ts"
import type * as livePlan from "#src/plan/internal/livePlan.ts"

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
      until: Digit
    })
  ).check(Schema.isMinLength(1), Schema.isMaxLength(7)),
  cuts: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 30_000 }))).check(Schema.isMaxLength(4)),
  concurrency: Schema.Literals([1, 2, 10])
})
type Script = typeof Script.Type

const Counted = Schema.Struct({ n: Schema.Int })

/** A plan whose functions count, take time, and note when they are done. */
const make = Effect.fnUntraced(function* (script: Script, done: Array<string>) {
  const failed = new Set<string>()
  const work = (name: string, seconds: number, flaky: boolean) =>
    Step.target(name, { input: Schema.Json, output: Counted }, ({ payload }) =>
      Effect.gen(function* () {
        yield* Effect.sleep(seconds * 1000)
        const n = Schema.is(Counted)(payload) ? payload.n : 0
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
  const routesOf = (i: number, { parallel, route, to, until }: Script["steps"][number]) => {
    const aims = sequential.filter((aim) => (route === "back" ? aim <= i : route === "forward" && aim > i))
    const aim = aims[to % Math.max(1, aims.length)]
    return parallel || aim === undefined ? undefined : [[`s${aim}`, When.field("n").lessThan(until + i)] as const]
  }
  const steps: Array<Step.Step> = []
  for (const [i, one] of script.steps.entries()) {
    const name = `s${i}`
    const target = work(name, one.seconds, one.flaky)
    const inner = yield* Plan.make(
      { name: `inner${i}` },
      Step.make("i", { target, retry: { times: 1, delay: "1 second" } }),
      Step.make("j", { target: work(`${name}j`, one.seconds, false) })
    ).pipe(Effect.flatMap(Plan.bind))
    const shared = { parallel: one.parallel, routes: routesOf(i, one), writes: one.parallel ? undefined : `w${i}` }
    steps.push(
      one.nested
        ? Step.make(name, { target: inner, ...shared })
        : Step.make(name, { target, retry: { times: 1, delay: "1 second" }, ...shared })
    )
  }
  // Sound: none of the functions requires anything.
  return (yield* bind(Plan.make({ maxIterations: 60 }, ...steps))) as Plan.Bound<Schema.Json>
})

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

const structural = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.catchIf(
    effect,
    (error) => typeof error === "object" && error !== null && "problems" in error,
    () => Effect.void
  )

describe("laws", () => {
  it.effect.prop(
    "L6 PLAN-6 cut off at any points and taken up from what was written, a run ends as if it had not been, and nothing completed runs twice",
    [Script],
    ([script]) =>
      Effect.gen(function* () {
        const whole: Array<string> = []
        const plan = yield* structural(make(script, whole))
        if (plan === undefined) return
        const concurrency = script.concurrency
        const expected = yield* finished(Plan.run(plan, { payload: { n: 0 } }, { concurrency }))

        const done: Array<string> = []
        const bound = yield* make(script, done)
        let kept: PlanRun.State | undefined
        const options: livePlan.RunOptions = {
          concurrency,
          journal: (_, state) =>
            Effect.sync(() => {
              kept = state
            })
        }
        const goOn = Effect.suspend(() =>
          kept === undefined
            ? Plan.run(bound, { payload: { n: 0 } }, options)
            : Effect.flatMap(
                Effect.orDie(
                  Effect.flatMap(PlanRun.stateCodec.encodeJson(kept), (json) => PlanRun.stateCodec.decodeJson(json))
                ),
                (state) => Plan.resume(bound, state, options)
              )
        )
        for (const cut of script.cuts) {
          const fiber = yield* Effect.forkChild(goOn)
          yield* TestClock.adjust(cut)
          yield* Fiber.interrupt(fiber)
        }
        const actual = yield* finished(goOn)
        if (Exit.isSuccess(expected)) {
          assert(Exit.isSuccess(actual), JSON.stringify(outcome(actual)))
          const [a, b] = [completed(expected.value), completed(actual.value)]
          assert.deepStrictEqual(b.output, a.output)
          assert.deepStrictEqual(Array.from(b.writes), Array.from(a.writes))
          assert.strictEqual(b.iterations, a.iterations)
          const steps = (state: PlanRun.State) => PlanRun.history(state).map(({ output, step }) => [step, output])
          assert.deepStrictEqual(steps(b.state), steps(a.state))
        } else {
          assert(Exit.isFailure(actual))
        }
        assert.deepStrictEqual(done.sort(), whole.sort())
      }),
    { arbitrary: { runs: 300 }, timeout: 240_000 }
  )

  it.effect.prop(
    "S2.2 watching a run changes nothing of it",
    [Script],
    ([script]) =>
      Effect.gen(function* () {
        const plain = journal()
        const watched = journal()
        const bound = yield* structural(make(script, []))
        if (bound === undefined) return
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
          assert.deepStrictEqual(completed(last.result).output, completed(one.value).output)
        }
        const told = events.flatMap((event) => (event._tag === "StateChanged" ? [event.event._tag] : []))
        assert.deepStrictEqual(told, pluck(watched.batches.flat(), "_tag"))
      }),
    { arbitrary: { runs: 200 }, timeout: 240_000 }
  )
})
