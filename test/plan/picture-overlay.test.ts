import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Result } from "effect"
import * as runTransition from "#src/run/internal/runTransition.ts"
import { Picture, When, type PlanRun } from "effect-emissary/plan"
import { makeRules, plan, step } from "./definitions.ts"
import { mermaid } from "./picture-parsers.ts"
import { test } from "../test.ts"

const definition = plan(
  step("a"),
  step("b", { parallel: true }),
  step("c", { parallel: true }),
  step("d", { routes: [{ to: "a", when: When.field("again").is(true) }] }),
  step("e")
)

const at = (millis: number) => DateTime.makeUnsafe(millis)
const failure = { type: "Boom\n<b>", message: "secret", retryable: false }

const started: PlanRun.Event = {
  _tag: "PlanStarted",
  at: at(0),
  runId: "r",
  plan: "plan",
  digest: "d",
  depth: 0,
  maxIterations: 100,
  input: { task: "go", payload: "go", content: [] },
  context: {},
  basis: makeRules(definition).basis
}
const begin = (step: string, time: number): PlanRun.Event => ({ _tag: "StepStarted", at: at(time), step })
const finish = (step: string, from: number, to: number, attempts = 1): PlanRun.Event => ({
  _tag: "StepFinished",
  at: at(to),
  record: { step, task: "", output: "", usage: {}, attempts, startedAt: at(from), finishedAt: at(to) }
})
const once = [
  started,
  begin("a", 0),
  finish("a", 0, 250),
  begin("b", 250),
  begin("c", 250),
  finish("b", 250, 1450),
  finish("c", 250, 62_250, 3),
  begin("d", 62_250),
  finish("d", 62_250, 62_260)
]

const runOf = (...events: ReadonlyArray<PlanRun.Event>) => Result.getOrThrow(runTransition.plans.fold(events))

/** The status line of each step, with its class. */
const statuses = Effect.fnUntraced(function* (...events: ReadonlyArray<PlanRun.Event>) {
  const run = runOf(...events)
  const source = Picture.toMermaid(definition, { run })
  const one = yield* mermaid(source)
  for (const { classes } of one.nodes.values()) {
    for (const name of classes) assert.include(source, `classDef ${name} fill:`)
  }
  return [...one.nodes.values()].slice(1, -1).map(({ classes, text }) => {
    const [name, , line] = text.split("\n")
    return line === undefined ? name : `${name} [${classes.join(" ")}] ${line}`
  })
})

describe("PLAN-9 pictures of runs", () => {
  test("PLAN-9 a run that has not begun marks nothing", function* () {
    assert.deepStrictEqual(yield* statuses(started), ["a", "b", "c", "d", "e"])
  })

  test("PLAN-9 done, running, and failed in a parallel group, with durations and tries", function* () {
    const retried: PlanRun.Event = { _tag: "StepRetried", at: at(300), step: "c", attempt: 2, failure }
    assert.deepStrictEqual(yield* statuses(...once.slice(0, 5), retried), [
      "a [done] ✓ done, 250 ms",
      "b [running] ▶ running",
      "c [running] ▶ running, try 2",
      "d",
      "e"
    ])
    const failed: PlanRun.Event = { _tag: "StepFailed", at: at(300), step: "c", failure }
    assert.deepStrictEqual(yield* statuses(...once.slice(0, 6), failed), [
      "a [done] ✓ done, 250 ms",
      "b [done] ✓ done, 1.2 s",
      "c [failed] ✗ failed, Boom <b>",
      "d",
      "e"
    ])
  })

  test("PLAN-9 executions of a loop, and what was skipped once the run has ended", function* () {
    const again = [
      ...once,
      { _tag: "RouteTaken", at: at(0), step: "d", to: "a" } as const,
      begin("a", 70_000),
      finish("a", 70_000, 70_250)
    ]
    assert.deepStrictEqual((yield* statuses(...again)).slice(0, 3), [
      "a [done] ✓ done, 500 ms, 2 executions",
      "b [done] ✓ done, 1.2 s",
      "c [done] ✓ done, 1 min 2 s, 3 tries"
    ])
    assert.strictEqual((yield* statuses(...again.slice(0, -1)))[0], "a [running] ▶ running, before, 250 ms")
    const concluded: ReadonlyArray<PlanRun.Event> = [
      ...once.slice(0, 3),
      begin("b", 0),
      begin("c", 0),
      { _tag: "StepConcluded", at: at(1), step: "b", answer: "enough" },
      finish("c", 0, 1)
    ]
    const end: PlanRun.Event = { _tag: "PlanFinished", at: at(2), outcome: { _tag: "Concluded", answer: "enough" } }
    assert.deepStrictEqual(yield* statuses(...concluded, end), [
      "a [done] ✓ done, 250 ms",
      "b [concluded] ■ concluded",
      "c [done] ✓ done, 1 ms",
      "d [skipped] – skipped",
      "e [skipped] – skipped"
    ])
  })

  test("PLAN-9 what was running when its run was interrupted, or when its process ended", function* () {
    const running = [started, begin("a", 0)]
    const outcome = { _tag: "Interrupted", reason: "stop" } as const
    const interrupted: PlanRun.Event = { _tag: "PlanInterrupted", at: at(1), reason: "stop" }
    const finished: PlanRun.Event = { _tag: "PlanFinished", at: at(1), outcome }
    assert.strictEqual((yield* statuses(...running, interrupted))[0], "a [interrupted] ◼ interrupted")
    assert.strictEqual((yield* statuses(...running, interrupted, finished))[0], "a [interrupted] ◼ interrupted")
    const run = runOf(...running)
    assert.include(Picture.toMermaid(definition, { run, live: true }), ' running"')
    const died = Picture.toMermaid(definition, { run, live: false })
    assert.include(died, ' cut off"')
    assert.notInclude(died, "running")
  })

  test("PLAN-9 paused, with its reason", function* () {
    const paused: PlanRun.Event = {
      _tag: "StepPaused",
      at: at(1),
      step: "a",
      question: { digest: "d", reason: 'ask "Bob"' }
    }
    assert.deepStrictEqual((yield* statuses(started, begin("a", 0), paused))[0], 'a [paused] ⏸ paused, ask "Bob"')
  })

  it("PLAN-9 nothing a run holds is drawn but names of failures and reasons of pauses", () => {
    const failed: PlanRun.Event = { _tag: "StepFailed", at: at(300), step: "a", failure }
    assert.notInclude(Picture.toMermaid(definition, { run: runOf(started, begin("a", 0), failed) }), "secret")
  })
})
