/** HOUSE-3: an output is stored once, and once more where readers of one event see it. */
import { assert, describe } from "@effect/vitest"
import { Array as Arr, DateTime, Effect, Layer, Option, Schema } from "effect"
import type { LanguageModel } from "effect/ai"
import { Agent, Conversation, Message, VersionedStore } from "effect-emissary"
import { type Plan, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as eventLog from "#src/session/internal/eventLog.ts"
import { planOf } from "../plan/support.ts"
import { test } from "../test.ts"

const mark = "<the mark of an output>"
const long = `${mark}${"x".repeat(100_000)}`

const writer = Agent.make("writer", { instructions: "Write." })

const layer = Layer.merge(
  ScriptedModel.layer(() => ({ text: long })),
  VersionedStore.layerMemory
)

const everyKey = Effect.fnUntraced(function* (store: VersionedStore.Service) {
  const keys: Array<string> = []
  let after: string | undefined
  do {
    const page = yield* store.list({ prefix: "", limit: 100, after })
    keys.push(...page.keys)
    after = Option.getOrUndefined(page.next)
  } while (after !== undefined)
  return keys
})

/** The copies of the output in all values of the store. */
const copies = Effect.gen(function* () {
  const store = yield* VersionedStore.VersionedStore
  const values = yield* Effect.forEach(yield* everyKey(store), (key) => store.get(key))
  return Arr.getSomes(values).reduce((count, { value }) => count + JSON.stringify(value).split(mark).length - 1, 0)
})

/** Runs the plan in a session of a process, and returns the text that another process reads. */
const stored = Effect.fnUntraced(function* (plan: Plan.Bound<unknown, LanguageModel.LanguageModel>) {
  const process = <A, E>(use: Effect.Effect<A, E, Session.Session>) =>
    Effect.provide(use, Session.layer([plan]), { local: true })
  const result = yield* process(Session.run(plan, { id: "job", input: "go" }))
  assert(result.outcome === "Completed")
  const read = yield* process(Session.history("job"))
  const last = Conversation.messages(read).at(-1)
  assert(last?.role === "assistant")
  return { output: result.output, text: Message.text(last) }
})

/** Makes a snapshot of the session, as after many events. */
const compact = Effect.gen(function* () {
  const log = eventLog.make(yield* VersionedStore.VersionedStore, "session", Number.POSITIVE_INFINITY)
  const found = Option.getOrThrow(yield* log.load("job"))
  yield* log.compact(found, yield* DateTime.now)
})

const byFunction = Step.make("write", { target: () => Effect.succeed(long) })
const byAgent = Step.make("write", { target: writer })

describe("HOUSE-3 copies of an output", () => {
  for (const [name, step] of [
    ["an agent", byAgent],
    ["a function", byFunction]
  ] as const) {
    // In the answer or the record of the step, and in the answer of the plan: both are shown as single events
    test(`HOUSE-3 the text of ${name} in a step is stored twice, and once in a snapshot`, layer, function* () {
      const plan = yield* planOf([step])
      assert.deepStrictEqual(yield* stored(plan), { output: long, text: long })
      assert.strictEqual(yield* copies, 2)
      yield* compact
      assert.strictEqual(yield* copies, 3)
    })
  }

  test("HOUSE-3 the text of a plan in a step is stored no more often", layer, function* () {
    const inner = yield* planOf([byAgent])
    const plan = yield* planOf([Step.make("inner", { target: inner })])
    assert.deepStrictEqual(yield* stored(plan), { output: long, text: long })
    assert.strictEqual(yield* copies, 2)
  })

  test("HOUSE-3 a step that reads a text has no copy of it", layer, function* () {
    const plan = yield* planOf([byAgent, Step.make("count", { target: ({ task }) => Effect.succeed(task.length) })])
    assert.deepStrictEqual(yield* stored(plan), { output: long.length, text: String(long.length) })
    assert.strictEqual(yield* copies, 1)
  })

  const Report = Schema.Struct({ text: Schema.String })
  const report = { text: long }
  const reporter = Agent.make("writer", { instructions: "Write.", output: Report })
  const ofReporter = Layer.merge(
    ScriptedModel.layer(() => ({ text: JSON.stringify(report) })),
    VersionedStore.layerMemory
  )

  // A third time in the end of the turn, which is shown by itself, too
  test("HOUSE-3 the JSON of an agent in a step is stored three times", ofReporter, function* () {
    const plan = yield* planOf([Step.make("write", { target: reporter })])
    assert.deepStrictEqual(yield* stored(plan), { output: report, text: JSON.stringify(report) })
    assert.strictEqual(yield* copies, 3)
  })

  test("HOUSE-3 the JSON of an agent in a session is stored twice", ofReporter, function* () {
    yield* Effect.gen(function* () {
      const result = yield* Session.run(reporter, { id: "job", input: "go" })
      assert(result.outcome === "Completed")
      assert.deepStrictEqual(result.output, report)
    }).pipe(Effect.provide(Session.layer([reporter])))
    assert.strictEqual(yield* copies, 2)
  })
})
