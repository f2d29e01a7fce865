import { assert, describe, it } from "@effect/vitest"
import { Equal, Result } from "effect"
import { Conversation, Message, Run } from "effect-emissary"
import { Plan, simulate, sync } from "./run-driver.ts"

const encode = (state: Run.State) => sync(Run.stateCodec.encodeJson(state))
const decode = (json: string) => sync(Run.stateCodec.decodeJson(json))
const throughJson = (state: Run.State) => decode(encode(state))

const usageOf = (event: Run.Event): Message.TokenUsage =>
  event._tag === "ChildEvent"
    ? usageOf(event.event)
    : event._tag === "ModelAnswered"
      ? (event.message.usage ?? {})
      : event._tag === "AnswerDiscarded"
        ? event.usage
        : {}

const options = (runs: number) => ({ arbitrary: { runs } })

describe("laws of the run core, over random plans of answers, results, interruptions and crashes", () => {
  it.prop(
    "AGENT-3 L6 DUR-3 folding the events makes the state, only idempotent calls run twice, what was interrupted is settled",
    [Plan],
    ([plan]) => {
      const log = simulate(plan)
      const folded = Result.getOrThrow(Run.fold(log.events))
      assert.isTrue(Equal.equals(folded, log.final))
      assert.strictEqual(folded.revision, log.events.length)
      assert.strictEqual(new Set(log.started).size, log.started.length, "a call started twice")
      const again = log.ran.filter((call, index) => log.ran.indexOf(call) !== index)
      assert.isTrue(
        again.every((call) => call.startsWith("twice ")),
        again.join()
      )
      for (const message of Conversation.messages(log.final.conversation)) {
        if (message.role !== "tool" || message.result._tag === "Success" || message.result.type !== "interrupted")
          continue
        const wasStarted = log.started.includes(message.callId)
        assert.deepStrictEqual(message.result.value, wasStarted ? { outcome: "unknown" } : undefined)
      }
      assert.deepStrictEqual(log.final.usage, Message.sumUsage(log.events.map(usageOf)))
      for (const state of log.states) {
        const messages = Conversation.messages(state.conversation)
        assert.isTrue(Result.isSuccess(Conversation.fromMessages(messages)))
        assert.deepStrictEqual(
          state.calls.map(({ part }) => part.id),
          Conversation.openCalls(state.conversation).map(({ id }) => id)
        )
        if (state.outcome?._tag === "Interrupted") {
          assert.isTrue(state.calls.every(({ status }) => status._tag !== "Started"))
        }
        if (state.outcome?._tag === "Completed" || state.outcome?._tag === "Stopped") {
          assert.isTrue(state.calls.length === 0)
        }
        if (state.maxSteps !== "unlimited" && state.outcome?._tag === "MaxSteps") {
          assert.isAtLeast(state.steps, state.maxSteps)
        }
      }
    },
    options(300)
  )

  it.prop(
    "AGENT-3 L3 every state survives JSON, and so does what comes next",
    [Plan],
    ([plan]) => {
      for (const state of simulate(plan).states) {
        const json = encode(state)
        const decoded = decode(json)
        assert.isTrue(Equal.equals(decoded, state))
        assert.strictEqual(encode(decoded), json)
        if (!state.calls.some(({ status }) => status._tag === "Started")) {
          assert.deepStrictEqual(Run.next(decoded), Run.next(state))
        }
      }
    },
    options(40)
  )

  it.prop(
    "AGENT-3 L3 events survive JSON one by one and as a list",
    [Plan],
    ([plan]) => {
      const { events, final } = simulate(plan)
      const one = events.map((event) => sync(Run.eventCodec.decodeJson(sync(Run.eventCodec.encodeJson(event)))))
      assert.isTrue(Equal.equals(Result.getOrThrow(Run.fold(one)), final))
      const list = sync(Run.eventsCodec.decodeJson(sync(Run.eventsCodec.encodeJson(events))))
      assert.isTrue(Equal.equals(Result.getOrThrow(Run.fold(list)), final))
    },
    options(60)
  )

  it.prop(
    "L5 a driver that encodes the state between every two transitions makes the same run",
    [Plan],
    ([plan]) => {
      const memory = simulate(plan)
      const durable = simulate(plan, throughJson)
      assert.deepStrictEqual(
        Conversation.transcript(durable.final.conversation),
        Conversation.transcript(memory.final.conversation)
      )
      assert.deepStrictEqual(durable.outcomes, memory.outcomes)
      assert.isTrue(Equal.equals(durable.final, memory.final))
    },
    options(40)
  )

  it("the plans reach every outcome and every event", () => {
    // the worth of the laws above depends on it
    const plan = (turns: Plan["turns"], phases: Plan["phases"], rest: Partial<Plan> = {}): Plan => ({
      maxSteps: 3,
      structured: "never",
      turns,
      phases,
      ...rest
    })
    const turn = { calls: [], finishReason: "none", output: "valid", mistakes: 0, reversed: false } as const
    const phase = { input: true, stop: "never", after: 5, decides: true } as const
    const logs = [
      simulate(plan([{ ...turn, calls: ["ok", "asking agent", "denied"], mistakes: 1 }], [phase, phase])),
      simulate(plan([{ ...turn, calls: ["undecided", "agent"] }], [phase])),
      simulate(plan([{ ...turn, finishReason: "length" }], [phase])),
      simulate(plan([{ ...turn, calls: ["ok"] }], [phase], { maxSteps: 1 })),
      simulate(plan([{ ...turn, output: "invalid" }], [phase], { structured: "always" })),
      simulate(plan([{ ...turn, calls: ["ok", "ok"] }], [{ ...phase, stop: "interrupt", after: 3 }, phase])),
      simulate(plan([{ ...turn, calls: ["ok", "ok"] }], [{ ...phase, stop: "crash", after: 3 }, phase])),
      simulate(plan([{ ...turn, calls: ["twice", "ok"] }], [{ ...phase, stop: "crash", after: 4 }, phase]))
    ]
    assert.deepStrictEqual(logs.at(-1)?.ran, ["twice t1c0", "ok t1c1", "twice t1c0"])
    const outcomes = new Set(logs.flatMap(({ outcomes }) => outcomes))
    for (const outcome of ["Completed", "MaxSteps", "AwaitingApproval", "Interrupted", "InvalidOutput", "Stopped"]) {
      assert.isTrue(outcomes.has(outcome), outcome)
    }
    const tags = new Set(logs.flatMap(({ events }) => events.map(({ _tag }) => _tag)))
    assert.strictEqual(tags.size, 14)
  })
})
