import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Equal, Option, Result } from "effect"
import * as planTransition from "#src/plan/internal/planTransition.ts"
import { Message, type Run } from "effect-emissary"
import { PlanRun } from "effect-emissary/plan"

import { rulesOf, Script, simulate, writesOf } from "./transition-driver.ts"

const encode = (state: PlanRun.State) => Effect.runSync(PlanRun.stateCodec.encodeJson(state))
const decode = (json: string) => Effect.runSync(PlanRun.stateCodec.decodeJson(json))
const throughJson = (state: PlanRun.State) => decode(encode(state))

const ofAgent = (event: Run.Event): Message.TokenUsage =>
  event._tag === "ModelAnswered" ? (event.message.usage ?? {}) : {}

/** Everything that agents and functions reported, wherever they run; what runs in a step that finished counts there. */
const reported = (event: PlanRun.Event): Message.TokenUsage => {
  switch (event._tag) {
    case "AgentChanged":
      return ofAgent(event.event)
    case "NestedChanged":
      return reported(event.event)
    case "StepFinished":
      return event.record.usage.outputTokens === 1 && event.record.usage.inputTokens === undefined
        ? event.record.usage
        : {}
    default:
      return {}
  }
}

const finished = (events: ReadonlyArray<PlanRun.Event>) => events.filter(({ _tag }) => _tag === "StepFinished").length

const options = (runs: number) => ({ arbitrary: { runs }, timeout: 300_000 })

describe("laws of the core of plans, over random plans, outcomes, decisions, interruptions and crashes", () => {
  it.prop(
    "PLAN-5 L6 nothing that finished runs again or is lost, limits and branches are bounded, facts fold to the state",
    [Script],
    ([script]) => {
      const rules = rulesOf(script)
      const log = simulate(script)
      const folded = Result.getOrThrow(planTransition.fold(rules, log.events))
      assert.isTrue(Equal.equals(folded, log.final))
      assert.strictEqual(folded.revision, log.events.length)
      for (const [index, state] of log.states.entries()) {
        const done = PlanRun.history(state).length
        const kept = state.turn?.members.filter(({ status }) => status._tag === "Finished").length ?? 0
        assert.strictEqual(done + kept, finished(log.events.slice(0, index + 1)))
        assert.isAtMost(state.iterations, state.maxIterations)
        assert.isAtMost(state.iterations, index)
        const routers = state.rejoins.map(({ router }) => router)
        assert.strictEqual(new Set(routers).size, routers.length)
        assert.isTrue(state.turn === undefined || state.turn.members[0]?.step === state.cursor)
        assert.isTrue(state.choosing === undefined || state.choosing === state.cursor)
        const action = planTransition.next(rules, state)
        if (action._tag === "RunSteps") {
          for (const name of action.steps) {
            const status = planTransition.memberOf(state, name)?.status._tag
            assert.isTrue(status === undefined || status === "Waiting" || status === "Running")
          }
        }
      }
    },
    options(400)
  )

  it.prop(
    "PLAN-7 usage counts every report once, on every level",
    [Script],
    ([script]) => {
      const log = simulate(script)
      let total: Message.TokenUsage = {}
      for (const event of log.events) total = Message.sumUsage([total, reported(event)])
      // A nested plan reports the usage of its functions by their own events
      assert.deepStrictEqual(log.final.usage, total)
    },
    options(200)
  )

  it.prop(
    "PLAN-6 L3 every state survives JSON, and so does what comes next",
    [Script],
    ([script]) => {
      const rules = rulesOf(script)
      for (const state of simulate(script).states) {
        const json = encode(state)
        const decoded = decode(json)
        assert.isTrue(Equal.equals(decoded, state))
        assert.strictEqual(encode(decoded), json)
        assert.deepStrictEqual(planTransition.next(rules, decoded), planTransition.next(rules, state))
        assert.deepStrictEqual(planTransition.writtenValues(decoded), planTransition.writtenValues(state))
        assert.deepStrictEqual(planTransition.lastRecord(decoded), planTransition.lastRecord(state))
      }
    },
    options(60)
  )

  it.prop(
    "PLAN-6 L5 a run that goes through JSON between every two facts is the same run",
    [Script],
    ([script]) => {
      const one = simulate(script)
      const other = simulate(script, throughJson)
      assert.deepStrictEqual(other.events, one.events)
      assert.isTrue(Equal.equals(other.final, one.final))
    },
    options(60)
  )

  it.prop(
    "PLAN-6 L3 every fact survives JSON, alone and in a list",
    [Script],
    ([script]) => {
      const { events } = simulate(script)
      for (const event of events) {
        const decoded = Effect.runSync(
          Effect.flatMap(PlanRun.eventCodec.encodeJson(event), (json) => PlanRun.eventCodec.decodeJson(json))
        )
        assert.deepStrictEqual(decoded, event)
      }
      const all = Effect.runSync(
        Effect.flatMap(PlanRun.eventsCodec.encodeJson(events), (json) => PlanRun.eventsCodec.decodeJson(json))
      )
      assert.deepStrictEqual(all, events)
    },
    options(60)
  )

  it.prop(
    "PLAN-5 each event applies once, and every prefix is a state that can be resumed",
    [Script],
    ([script]) => {
      const rules = rulesOf(script)
      const log = simulate(script)
      for (const [index, event] of log.events.entries()) {
        const state = log.states[index]
        if (state === undefined) continue
        const again = planTransition.apply(rules, state, event)
        if (!["AgentChanged", "NestedChanged", "PlanResumed"].includes(event._tag)) {
          assert.isTrue(Result.isFailure(again), `${event._tag} applied twice`)
        }
        const ended = state.outcome?._tag === "Completed" || state.outcome?._tag === "Concluded"
        const resumed = planTransition.apply(rules, state, { _tag: "PlanResumed", at: event.at })
        assert.strictEqual(Result.isFailure(resumed), ended)
        if (Result.isSuccess(resumed)) {
          const open = (resumed.success.turn?.members ?? [])
            .filter(({ status }) => status._tag !== "Finished")
            .map(({ status }) => status._tag)
          assert.isTrue(open.every((tag) => tag === "Waiting" || tag === "Concluded"))
        }
      }
    },
    options(200)
  )

  it.prop(
    "PLAN-6 what is found by name is the newest record of it",
    [Script],
    ([script]) => {
      const rules = rulesOf(script)
      const { final } = simulate(script)
      const history = PlanRun.history(final)
      for (const { name, writes } of rules.definition.steps) {
        const newest = history.findLast(({ step }) => step === name)
        assert.deepStrictEqual(planTransition.recordOf(final, name), Option.fromNullishOr(newest))
        if (writes === undefined) continue
        const writers = new Set(
          rules.definition.steps.filter((step) => step.writes === writes).map((step) => step.name)
        )
        const written = history.findLast(({ output, step }) => writers.has(step) && output !== null)
        assert.deepStrictEqual(planTransition.writtenValues(final).get(writes), written?.output)
      }
      for (const [, index] of writesOf(final)) assert.isBelow(index, Chunk.size(final.history))
      assert.deepStrictEqual(planTransition.lastRecord(final), Option.fromNullishOr(history.at(-1)))
    },
    options(100)
  )
})
