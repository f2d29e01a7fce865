/**
 * The cost of one event, by the length of the run it is applied to (L10).
 *
 * `node bench/run-state.ts` prints the time per step of runs of 100 and of 10,000
 * steps, for the fold alone and together with encoding each event, and the ratio:
 * near 1 means that the cost of an event does not depend on the run. It fails when a
 * ratio is above 2.
 */
import { DateTime, Effect, Result } from "effect"
import { Conversation, Run, ToolResult } from "effect-emissary"

const at = DateTime.makeUnsafe(0)

const first: Parameters<typeof Run.start>[0] = {
  _tag: "RunStarted",
  at,
  runId: "run",
  agent: "bench",
  definition: "sha256:0",
  depth: 0,
  maxSteps: "unlimited",
  structured: "never",
  context: {},
  conversation: Conversation.empty
}

const calls = 4

/** The events of one step: an answer with four calls, and their results. */
const eventsOf = (step: number): ReadonlyArray<Run.Event> => {
  const ids = Array.from({ length: calls }, (_, i) => `s${step}c${i}`)
  return [
    { _tag: "StepStarted", at, step, purpose: "answer" },
    {
      _tag: "ModelAnswered",
      at,
      message: {
        role: "assistant",
        id: `a${step}`,
        createdAt: at,
        content: ids.map((id) => ({ type: "tool-call", id, name: "tool", arguments: { step } })),
        usage: { inputTokens: 10, outputTokens: 5 }
      }
    },
    ...ids.map((callId): Run.Event => ({ _tag: "ToolStarted", at, callId })),
    ...ids.map((callId): Run.Event => ({
      _tag: "ToolFinished",
      at,
      message: { role: "tool", id: `r${callId}`, createdAt: at, callId, name: "tool", result: ToolResult.success(step) }
    }))
  ]
}

const started: ReadonlyArray<Run.Event> = [
  {
    _tag: "InputAdded",
    at,
    message: { role: "user", id: "u", createdAt: at, content: [{ type: "text", text: "go" }] },
    maxSteps: "unlimited"
  }
]

/** Microseconds per step. */
const measure = (steps: number, encode: boolean): number => {
  const events = Array.from({ length: steps }, (_, i) => eventsOf(i + 1))
  const begin = performance.now()
  let state = Result.getOrThrow(Run.applyAll(Run.start(first), started))
  for (const batch of events) {
    Run.next(state)
    for (const event of batch) {
      if (encode) Effect.runSync(Run.eventCodec.encodeJson(event))
      state = Result.getOrThrow(Run.apply(state, event))
    }
  }
  return ((performance.now() - begin) * 1000) / steps
}

const median = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

let failed = false
for (const encode of [false, true]) {
  measure(1000, encode)
  // As many steps in all on both sides, so that both run equally warm
  const short = median(Array.from({ length: 50 }, () => measure(100, encode)))
  const long = median(Array.from({ length: 3 }, () => measure(10_000, encode)))
  const ratio = long / short
  failed ||= ratio > 2
  console.log(
    `${encode ? "apply + encode" : "apply         "}  100 steps: ${short.toFixed(1)} µs/step   10,000 steps: ${long.toFixed(1)} µs/step   ratio ${ratio.toFixed(2)}`
  )
}
if (failed) process.exitCode = 1
